"""Pretrained and trained models as cells, and two calls: `fit` trains, `load_model` opens."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from interextra.data.collection import Collection
from interextra.data.queries import Part, Queries, Source
from interextra.models.architectures import architectures
from interextra.models.base import initialisation_digest, max_tokens_of, refuse_unfetched
from interextra.models.folders import check_saved
from interextra.models.launch import launch, processes_to_start
from interextra.models.prices import size_of
from interextra.models.recipe import Pretraining, Recipe, Trained, make_recipe
from interextra.models.retriever import refuse_longer
from interextra.models.training.checkpoints import Checkpoints
from interextra.models.training.losses import losses
from interextra.store import Cell, InputError, Store, digest, offenders, scratch, write_json
from interextra.store.cells import config_of
from interextra.store.files import read_json

LOG = "training.json"


def file_of(queries: Queries | Part) -> str:
    """Return the file name of the ranking of a set of queries in the folder of a run.

    It is named by the whole description of the set (collection, split, sample or part), since two
    samples of a split share its name. The code of a split is left out of it, so that a ranking that
    is taken over keeps its file.
    """
    description = config_of(queries, lambda cell: cell.identity)
    return f"run.{digest(description)}.parquet"


def names_of(sets: Sequence[Queries | Part]) -> list[str]:
    """Return what tables and exported files call the sets of queries of a run.

    It is the name of each, none twice: a name that several of them have is followed by the place
    in the run, from 1: `test`, or `test (1)` and `test (2)`.
    """
    names = [queries.name for queries in sets]
    unique_names = []
    for place, name in enumerate(names, start=1):
        is_shared = names.count(name) > 1
        unique_names.append(f"{name} ({place})" if is_shared else name)
    return unique_names


def weights_digest(recipe: Recipe) -> str:
    """Return what the weights of a recipe are, by content.

    This is where they start, and what other weights the recipe reads besides.
    """
    start = initialisation_digest(getattr(recipe, "initialisation", ""))
    others = [initialisation_digest(getattr(recipe, name)) for name in recipe.reads]
    return digest([start, *others]) if any(others) else start


def refuse_changed(planned: str, found: str, what: str) -> None:
    """Refuse files that are no longer those that a plan was made with, by their digests."""
    if planned != found:
        raise InputError(
            f"{what}: its files are not those that were planned: their content changed. Plan again "
            "(`interextra plan`); so do plans that were made before a model was fetched"
        )


class Pretrained(Cell):
    """An encoder after pretraining.

    `weights/` as transformers saves them, and `pretraining.json`: losses, and what it can before
    and after.
    """

    travels: ClassVar[tuple[str, ...]] = ("pretraining.json", "provenance.json")

    how: Pretraining
    corpus: tuple[Source, ...]
    initialisation: str
    start: str  # what the weights start from, by content
    seed: int

    @classmethod
    def of(cls, how: Pretraining, initialisation: str, seed: int) -> "Pretrained":
        """Plan the pretraining of an initialisation, both noted by their content."""
        start = initialisation_digest(initialisation)
        corpus = tuple(Source.of(spec) for spec in how.corpus)
        return cls(how=how, corpus=corpus, initialisation=initialisation, start=start, seed=seed)

    def build(self, folder: Path, store: Store) -> None:
        """Pretrain, and write the weights and the log."""
        from interextra.models.training.objectives import pretrain  # which imports torch

        refuse_unfetched(self.initialisation)
        found = initialisation_digest(self.initialisation)
        refuse_changed(self.start, found, f"initialisation {self.initialisation!r}")
        corpus = [source.open() for source in self.corpus]
        weights = folder / "weights"
        checkpoints = Checkpoints.of(self, store)
        log = pretrain(self.how, corpus, self.initialisation, self.seed, weights, checkpoints)
        write_json(folder / "pretraining.json", log)

    def title(self) -> str:
        """Return what a reader calls it."""
        read = "+".join(source.spec for source in self.corpus) or "nothing"
        start = f"from {self.initialisation} · seed {self.seed}"
        return f"pretraining {self.how.objective} · {read} · {start}"

    def device(self) -> str:
        """Return what computes it: `cpu` or `gpu`."""
        return size_of(self.initialisation).device

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        tokens = self.how.batch_size * self.how.length
        training = size_of(self.initialisation).training_megabytes(tokens, has_head=True)
        return super().memory() + training + sum(source.memory() for source in self.corpus)

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        how = self.how
        tokens = how.steps * how.batch_size * how.length
        slower = {"none": 0, "words": 2, "order": 2}
        times = slower.get(how.objective, 4)  # others have a late head
        return times * tokens / size_of(self.initialisation).train_tokens

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return size_of(self.initialisation).megabytes


class Model(Cell):
    """A recipe fitted to training queries.

    `weights/` and `training.json` (steps, loss, n_train, and what the architecture adds).
    """

    travels: ClassVar[tuple[str, ...]] = ()
    is_stepping_stone: ClassVar[bool] = True

    recipe: Recipe
    train: Queries | Part
    seed: int
    start: str  # what the weights start from, by content
    # a Model or a Pretrained, whose `weights/` this training goes on from
    first: Cell | None = None
    # of the training queries (a Run), whose passages are the mined negatives
    ranking: Cell | None = None
    teacher: Cell | None = None  # a Model, whose scores are the goal
    spared: Cell | None = None  # its doc_ids.json: passages that are never negatives

    @classmethod
    def of(
        cls,
        recipe: Recipe,
        train: Queries | Part,
        seed: int,
        **others: Cell | None,
    ) -> "Model":
        """Plan the model of a recipe.

        `others` are the cells that some recipes need first (`planning.model_of` finds them).
        InputError for texts longer than its encoder reads.
        """
        if isinstance(recipe, Trained) and not recipe.after:
            # else its encoder is that of the recipe before
            refuse_longer(recipe, max_tokens_of(recipe.initialisation))
        start = weights_digest(recipe)
        return cls(recipe=recipe, train=train, seed=seed, start=start, **others)

    def build(self, folder: Path, store: Store) -> None:
        """Train, and write the weights and the log."""
        for name in ("initialisation", *self.recipe.reads):
            refuse_unfetched(getattr(self.recipe, name, ""))
        found = weights_digest(self.recipe)
        refuse_changed(self.start, found, f"initialisation of {self.title()}")
        query_ids = self.train.ids(store)
        log = fit(
            self.recipe,
            self.train.source.open(),
            query_ids,
            self.train.split,
            self.seed,
            folder / "weights",
            **self._given(store),
        )
        write_json(folder / LOG, log | {"n_train": len(query_ids)})

    def _given(self, store: Store) -> dict[str, Any]:
        """Return what the training reads of other cells, and its checkpoints, see `fit`."""
        given: dict[str, Any] = {}
        if isinstance(self.recipe, Trained):
            n_processes = processes_to_start(self.recipe)
            given["checkpoints"] = Checkpoints.of(self, store, n_processes)
        for role, cell, name in (
            ("start", self.first, "weights"),
            ("teacher", self.teacher, "weights"),
            ("ranking", self.ranking, file_of(self.train)),
            ("spared", self.spared, "doc_ids.json"),
        ):
            if cell:
                given[role] = store[cell] / name
        return given

    def modules(self) -> tuple[str, ...]:
        """Name the modules of its and its teacher's architectures, and its loss."""
        modules = [*super().modules(), type(self.recipe).__module__]
        if isinstance(self.teacher, Model):
            modules.append(type(self.teacher.recipe).__module__)
        loss = losses().get(getattr(self.recipe, "loss", None))
        if loss:
            modules.append(f"{loss.__module__}:{loss.__name__}")
        return tuple(modules)

    def title(self) -> str:
        """Return what a reader calls it."""
        train = self.train
        trained = train.part if isinstance(train, Part) else f"all of {train.split}"
        data = f"{train.source.spec} · {trained}"
        return f"model {self.recipe.architecture} · {data} · seed {self.seed}"

    def device(self) -> str:
        """Return what computes it: `cpu` or `gpu`."""
        return self.recipe.device()

    def memory(self) -> float:
        """Return the estimated megabytes of memory at the peak."""
        return super().memory() + self.recipe.train_memory() + self.train.source.memory()

    def seconds(self) -> float:
        """Return the estimated seconds on its device."""
        seconds = self.recipe.train_seconds(self.train.size(), self.train.source.n_passages())
        return seconds / max(self.gpus(), 1)

    def gpus(self) -> int:
        """Return the GPUs that it uses at once: one for each process of its recipe."""
        if self.device() == "cpu":
            return 0
        return getattr(self.recipe, "processes", 1)

    def megabytes(self) -> float:
        """Return the estimated size on disk."""
        return self.recipe.size.megabytes


def trained_behind(cell: Cell) -> str:
    """Return the trained models that a cell follows from, by their configuration.

    "" where nothing was trained.
    """
    if isinstance(cell, Model):
        is_trained = cell.recipe.training_steps(cell.train.size()) > 0
        return cell.identity if is_trained else ""
    identities = {trained_behind(needed) for needed in cell.needs()}
    return "+".join(sorted(identities - {""}))


class OfModel(Cell):
    """What is computed with a trained `model`: the code of its architecture is behind it."""

    def open_model(self, store: Store) -> Any:
        """Open the trained model, see `load_model`."""
        return load_model(store[self.model] / "weights")

    @property
    def recipe(self) -> Recipe:
        """The recipe of the model."""
        return self.model.recipe

    def device(self) -> str:
        """Return what computes it: that of the model."""
        return self.recipe.device()

    def modules(self) -> tuple[str, ...]:
        """Name the module of the model's architecture, too."""
        return (*super().modules(), type(self.recipe).__module__)


def fit(
    recipe: Recipe,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: str | Path,
    **given: Any,
) -> dict:
    """Train (or tune) on the judged passages of `query_ids` and write the model to `out_dir`.

    The same recipe, queries (in any order), seed and machine give the same bytes.

    Parameters
    ----------
    **given
        What other cells hold, and some recipes need: `start`, the folder of the weights that
        training goes on from (pretraining, after); `ranking`, a run of the training queries (mined
        negatives); `teacher`, a model's folder; `spared`, a JSON list of doc_ids that are never
        negatives. `checkpoints`, a `Checkpoints`: a training that was killed goes on from there.

    Returns
    -------
    dict
        The training log: steps, loss (list of [step, loss]), and what the architecture adds.

    Raises
    ------
    InputError
        An initialisation that is not there, unknown query_ids, or an `out_dir` that holds other
        files.
    """
    out_dir = Path(out_dir)
    if missing := sorted(set(recipe.needs()) - given.keys()):
        raise InputError(
            f"the recipe needs what other trainings make: {offenders(missing)}; "
            "see planning.model_of"
        )
    _refuse_other_files(out_dir)
    n_processes = processes_to_start(recipe)
    if n_processes > 1:
        return launch(n_processes, recipe, collection, query_ids, split, seed, out_dir, given)
    started = recipe
    if "start" in given:
        start = str(given.pop("start"))
        started = recipe.model_copy(update={"initialisation": start})
    train = architectures()[recipe.architecture].fit
    unfinished = out_dir.with_name(f"{out_dir.name}.tmp{os.getpid()}")
    with scratch(unfinished) as aside:
        log = train(started, collection, query_ids, split, seed, aside, **given)
        # of several processes every one trains, the first one writes
        if int(os.environ.get("RANK", 0)) > 0:
            return log
        # values at their default are left out, so that a new option leaves the bytes of older
        # models as they are
        values = recipe.model_dump(mode="json", exclude_defaults=True)
        write_json(aside / "model.json", {"recipe": values, "seed": seed})
        shutil.rmtree(out_dir, ignore_errors=True)
        os.replace(aside, out_dir)
    return log


def _refuse_other_files(out_dir: Path) -> None:
    """Refuse a folder that holds files and no model, which training would replace."""
    is_model = (out_dir / "model.json").is_file()
    if out_dir.exists() and any(out_dir.iterdir()) and not is_model:
        raise InputError(f"{out_dir} holds other files than a model; give a new or empty folder")


def load_model(out_dir: str | Path) -> Any:
    """Open the model that `fit` wrote to `out_dir`, for the CPU, one GPU or several.

    Its `search(collection, texts, k)` gives what `topk.exact_search` does. InputError for a folder
    that `fit` did not write.
    """
    out_dir = Path(out_dir)
    path = out_dir / "model.json"
    try:
        note = read_json(path)
    except OSError:
        raise InputError(
            f"{out_dir} is not a folder that fit wrote (no readable model.json)"
        ) from None
    if not isinstance(note, dict) or not isinstance(note.get("recipe"), dict):
        raise InputError(f"{path}: no recipe of a model; train it again")
    check_saved(out_dir)
    recipe = make_recipe(note["recipe"], source=str(path))
    return architectures()[recipe.architecture].load(out_dir, recipe)

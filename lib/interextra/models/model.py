"""Pretrained and trained models as cells, and two calls: `fit` trains, `load_model` opens what it
wrote.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from interextra.data.queries import Part, Queries, Source
from interextra.models.architectures import architectures
from interextra.models.base import positions_of, start_of
from interextra.models.folders import check_saved
from interextra.models.recipe import Pretraining, Recipe, Trained, make_recipe, size_of
from interextra.models.retriever import refuse_longer
from interextra.models.training.losses import losses
from interextra.store import Cell, InputError, Store, digest, offenders, scratch, write_json
from interextra.store.cells import config_of
from interextra.store.files import read_json

LOG = "training.json"


def file_of(queries: Queries | Part) -> str:
    """The file of the ranking of a set of queries in the folder of a run.

    It is named by the whole description of the set (collection, split, sample or part), since two
    samples of a split share its name. The code of a split is left out of it, so that a ranking that
    is taken over keeps its file.
    """
    return f"run.{digest(config_of(queries, lambda cell: cell.identity))}.parquet"


def names_of(sets: Sequence[Queries | Part]) -> list[str]:
    """What tables and exported files call the sets of queries of a run: the name of each, none
    twice.

    A name that several of them have is followed by the place in the run, from 1: `test`, or `test
    (1)` and `test (2)`.
    """
    names = [queries.name for queries in sets]
    shared = {name for name in names if names.count(name) > 1}
    return [f"{name} ({place})" if name in shared else name for place, name in enumerate(names, 1)]


def starts_of(recipe: Recipe) -> str:
    """What the weights of a recipe are, by content: where they start, and what of others it reads
    besides.
    """
    start, *more = [
        start_of(getattr(recipe, name, "")) for name in ("initialisation", *recipe.reads)
    ]
    return digest([start, *more]) if any(more) else start


def refuse_changed(planned: str, found: str, what: str) -> None:
    """InputError where files are no longer those that a plan was made with."""
    if planned != found:
        raise InputError(
            f"{what}: its files are not those that were planned: their content changed. Plan again"
        )


class Pretrained(Cell):
    """`weights/` as transformers saves them, and `pretraining.json`: losses, and what it can before
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
        start, corpus = start_of(initialisation), tuple(map(Source.of, how.corpus))
        return cls(how=how, corpus=corpus, initialisation=initialisation, start=start, seed=seed)

    def build(self, folder: Path, store: Store) -> None:
        from interextra.models.training.objectives import pretrain  # which imports torch

        refuse_changed(
            self.start, start_of(self.initialisation), f"initialisation {self.initialisation!r}"
        )
        corpus = [source.open() for source in self.corpus]
        log = pretrain(self.how, corpus, self.initialisation, self.seed, folder / "weights")
        write_json(folder / "pretraining.json", log)

    def title(self) -> str:
        read = "+".join(source.spec for source in self.corpus)
        return f"pretraining {self.how.objective} · {read or 'nothing'} · from {self.initialisation} · seed {self.seed}"

    def seconds(self) -> float:
        read, slower = (
            self.how.steps * self.how.batch_size * self.how.length,
            {"none": 0, "words": 3, "order": 3},
        )
        return (
            slower.get(self.how.objective, 7) * read / size_of(self.initialisation).train_tokens
        )  # a late head: 7

    def megabytes(self) -> float:
        return size_of(self.initialisation).megabytes


class Model(Cell):
    """A recipe fitted to training queries: `weights/` and `training.json` (steps, loss, n_train,
    and what it adds).
    """

    travels: ClassVar[tuple[str, ...]] = ()
    is_stepping_stone: ClassVar[bool] = True

    recipe: Recipe
    train: Queries | Part
    seed: int
    start: str  # what the weights start from, by content
    first: Cell | None = (
        None  # a Model or a Pretrained, whose `weights/` this training goes on from
    )
    ranking: Cell | None = (
        None  # of the training queries (a Run), whose passages are the mined negatives
    )
    teacher: Cell | None = None  # a Model, whose scores are the goal
    spared: Cell | None = None  # its doc_ids.json: passages that are never negatives

    @classmethod
    def of(cls, recipe: Recipe, train: Queries | Part, seed: int, **others: Cell | None) -> "Model":
        """The model of a recipe; `others` are the cells that some recipes need first
        (`run.model_of` finds them).
        """
        if (
            isinstance(recipe, Trained) and not recipe.after
        ):  # else its encoder is that of the recipe before
            refuse_longer(recipe, positions_of(recipe.initialisation))
        return cls(recipe=recipe, train=train, seed=seed, start=starts_of(recipe), **others)

    def build(self, folder: Path, store: Store) -> None:
        refuse_changed(self.start, starts_of(self.recipe), f"initialisation of {self.title()}")
        ids, collection = self.train.ids(store), self.train.source.open()
        files = {
            "start": "weights",
            "teacher": "weights",
            "ranking": file_of(self.train),
            "spared": "doc_ids.json",
        }
        cells = {
            "start": self.first,
            "teacher": self.teacher,
            "ranking": self.ranking,
            "spared": self.spared,
        }
        given = {name: store[cell] / files[name] for name, cell in cells.items() if cell}
        log = fit(
            self.recipe, collection, ids, self.train.split, self.seed, folder / "weights", **given
        )
        write_json(folder / LOG, log | {"n_train": len(ids)})

    def modules(self) -> tuple[str, ...]:
        recipes = [
            self.recipe,
            *([self.teacher.recipe] if isinstance(self.teacher, Model) else []),
        ]  # both compute
        found = (*super().modules(), *(type(one).__module__ for one in recipes))
        loss = losses().get(getattr(self.recipe, "loss", None))
        return (*found, f"{loss.__module__}:{loss.__name__}") if loss else found

    def title(self) -> str:
        trained = self.train.part if isinstance(self.train, Part) else f"all of {self.train.split}"
        return f"model {self.recipe.architecture} · {self.train.source.spec} · {trained} · seed {self.seed}"

    def seconds(self) -> float:
        return self.recipe.cost(self.train.size(), self.train.source.n_passages(), 0)[
            "train_seconds"
        ]

    def megabytes(self) -> float:
        return self.recipe.size.megabytes


def trained_behind(cell: Cell) -> str:
    """The trained models that a cell follows from, by their configuration; "" where nothing was
    trained.
    """
    if isinstance(cell, Model):
        return cell.identity if cell.recipe.training_steps(cell.train.size()) > 0 else ""
    return "+".join(sorted({trained_behind(needed) for needed in cell.needs()} - {""}))


class OfModel(Cell):
    """What is computed with a trained `model`: the code of its architecture is behind it."""

    @property
    def recipe(self) -> Recipe:
        return self.model.recipe

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), type(self.recipe).__module__)


def fit(
    recipe: Recipe,
    collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: str | Path,
    **given: Path,
) -> dict:
    """Train (or tune) on the judged passages of `query_ids` and write the model to `out_dir`.

    The same recipe, queries (in any order), seed and machine give the same bytes. Some recipes need
    in `given` what other cells hold: `start`, the folder of the weights that training goes on from
    (pretraining, after); `ranking`, a run of the training queries (mined negatives); `teacher`, a
    model's folder; `spared`, a JSON list of doc_ids that are never negatives. Returns the training
    log: steps, loss (list of [step, loss]), and what the architecture adds. InputError: an
    initialisation that is not there, unknown query_ids, an `out_dir` that holds other files.
    """
    out_dir = Path(out_dir)
    if missing := set(recipe.needs()) - given.keys():
        raise InputError(
            f"the recipe needs what other trainings make: {offenders(sorted(missing))}; see run.model_of"
        )
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / "model.json").is_file():
        raise InputError(f"{out_dir} holds other files than a model; give a new or empty folder")
    start = given.pop("start", None)
    from_here = recipe.model_copy(update={"initialisation": str(start)}) if start else recipe
    with scratch(out_dir.with_name(f"{out_dir.name}.tmp{os.getpid()}")) as aside:
        log = architectures()[recipe.architecture].fit(
            from_here, collection, query_ids, split, seed, aside, **given
        )
        if int(
            os.environ.get("RANK", 0)
        ):  # under torchrun every process trains, the first one writes
            return log
        # values at their default are left out, so that a new option leaves the bytes of older
        # models as they are
        note = recipe.model_dump(mode="json", exclude_defaults=True)
        write_json(aside / "model.json", {"recipe": note, "seed": seed})
        shutil.rmtree(out_dir, ignore_errors=True)
        os.replace(aside, out_dir)
    return log


def load_model(out_dir: str | Path):
    """The model that `fit` wrote to `out_dir`; see `topk.exact_search`. It runs on the CPU, one GPU
    or several.
    """
    out_dir = Path(out_dir)
    try:
        note = read_json(out_dir / "model.json")
    except OSError:
        raise InputError(
            f"{out_dir} is not a folder that fit wrote (no readable model.json)"
        ) from None
    if not isinstance(note, dict) or not isinstance(note.get("recipe"), dict):
        raise InputError(f"{out_dir / 'model.json'}: no recipe of a model; train it again")
    check_saved(out_dir)
    recipe = make_recipe(note["recipe"], source=str(out_dir / "model.json"))
    return architectures()[recipe.architecture].load(out_dir, recipe)

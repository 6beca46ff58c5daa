"""A trained model as a cell, and the two calls behind it: `fit` trains, `load_model` opens what it wrote."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from interextra.data.queries import Part, Queries
from interextra.ground.cells import Cell, Store
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import write_json
from interextra.models import architectures
from interextra.models.base import start_of
from interextra.models.losses import losses
from interextra.models.ranking import LOG, Ranking, file_of
from interextra.models.recipe import Recipe, Trained, make_recipe


class Model(Cell):
    """A recipe fitted to training queries: `weights/` and `training.json` (steps, loss, n_train, and what it adds)."""

    recipe: Recipe
    train: Queries | Part
    seed: int
    start: str  # what the weights start from, by content
    first: Cell | None = None  # a Model or a Pretrained, whose `weights/` this training goes on from
    ranking: Ranking | None = None  # of the training queries, whose passages are the mined negatives
    teacher: Cell | None = None  # a Model, whose scores are the goal

    @classmethod
    def of(cls, recipe: Recipe, train: Queries | Part, seed: int, **others: Cell | None) -> "Model":
        """The model of a recipe; `others` are the cells that some recipes need first (`chain.model_of` finds them)."""
        start = start_of(getattr(recipe, "initialisation", ""))
        return cls(recipe=recipe, train=train, seed=seed, start=start, **others)

    def build(self, folder: Path, store: Store) -> None:
        ids, collection = self.train.ids(store), self.train.source.open()
        found = {"start": (self.first, "weights"), "teacher": (self.teacher, "weights")}
        found["ranking"] = self.ranking, file_of(self.train)
        given = {name: store[cell] / file for name, (cell, file) in found.items() if cell}
        log = fit(self.recipe, collection, ids, self.train.split, self.seed, folder / "weights", **given)
        write_json(folder / LOG, log | {"n_train": len(ids)})

    def modules(self) -> tuple[str, ...]:
        found = (*super().modules(), architectures()[self.recipe.architecture].__name__)
        if not isinstance(self.recipe, Trained):
            return found
        loss = losses()[self.recipe.loss]
        return (*found, f"{loss.__module__}:{loss.__name__}")

    def is_stepping_stone(self) -> bool:
        return True

    def travels(self) -> tuple[str, ...]:
        return ()

    def title(self) -> str:
        trained = self.train.part if isinstance(self.train, Part) else f"all of {self.train.split}"
        return f"model {self.recipe.architecture} · {self.train.source.spec} · {trained} · seed {self.seed}"

    def seconds(self) -> float:
        return self.recipe.cost(self.train.size(), self.train.source.n_passages(), 0)["train_seconds"]

    def megabytes(self) -> float:
        return self.recipe.megabytes()


def fit(
    recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: str | Path, **given: Path
) -> dict:
    """Train (or tune) on the judged passages of `query_ids` and write the model to `out_dir`.

    The same recipe, queries, seed and machine give the same bytes. The order of `query_ids` does not matter. Some
    recipes need what other cells hold, in `given`: `start`, the folder of the weights that training goes on from
    (pretraining, after); `ranking`, a run of the training queries (mined negatives); `teacher`, a model's folder.

    Returns the training log: steps, loss (list of [step, loss]), and what the architecture adds. InputError for an
    initialisation that is not there, unknown query_ids, an `out_dir` that holds other files.
    """
    out_dir = Path(out_dir)
    if missing := set(recipe.needs()) - given.keys():
        raise InputError(
            f"the recipe needs what other trainings make: {offenders(sorted(missing))}; see chain.model_of"
        )
    if out_dir.exists() and any(out_dir.iterdir()) and not (out_dir / "model.json").is_file():
        raise InputError(f"{out_dir} holds other files than a model; give a new or empty folder")
    aside = out_dir.with_name(f"{out_dir.name}.tmp{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    start = given.pop("start", None)
    from_here = recipe.model_copy(update={"initialisation": str(start)}) if start else recipe
    try:
        log = architectures()[recipe.architecture].fit(from_here, collection, query_ids, split, seed, aside, **given)
        if int(os.environ.get("RANK", 0)):  # under torchrun every process trains, the first one writes
            return log
        # values at their default are left out, so that a new option leaves the bytes of older models as they are
        note = recipe.model_dump(mode="json", exclude_defaults=True)
        write_json(aside / "model.json", {"recipe": note, "seed": seed})
        shutil.rmtree(out_dir, ignore_errors=True)
        os.replace(aside, out_dir)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return log


def load_model(out_dir: str | Path):
    """The model that `fit` wrote to `out_dir`; see `Retriever.search`. It runs on the CPU, one GPU or several."""
    out_dir = Path(out_dir)
    try:
        note = json.loads((out_dir / "model.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError(f"{out_dir} is not a folder that fit wrote (no readable model.json)") from None
    recipe = make_recipe(note["recipe"], source=str(out_dir / "model.json"))
    return architectures()[recipe.architecture].load(out_dir, recipe)

"""The [CLS] vector of a model as it comes, see `Recipe.initialisation`."""

from collections.abc import Sequence

from interextra.ground.errors import InputError
from interextra.models import dense
from interextra.models.cost import Size, size_of
from interextra.models.recipe import make_recipe

FORM = "cls:INITIALISATION"


def size(spec: str) -> Size:
    return size_of(_initialisation(spec))


def encoder(spec: str, texts: Sequence[str]) -> dense.Dense:
    values = {"architecture": "dense", "initialisation": _initialisation(spec), "steps": 0, "query_length": 64}
    untuned = make_recipe(values, f"encoder {spec}")
    return dense.Dense(dense.build(untuned, 0), untuned)


def _initialisation(spec: str) -> str:
    if not (found := spec.partition(":")[2]):
        raise InputError(f"encoder {spec!r}: write {FORM}")
    return found

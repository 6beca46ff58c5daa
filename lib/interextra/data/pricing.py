"""Plans that only count: what would have to be downloaded is not, and is remembered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

CHANGES_NO_RESULT = True  # what is only priced is never computed


class Asked(NamedTuple):
    """What plans asked for within `pricing`: specs of collections, and models of the hub."""

    collections: set[str]
    models: set[str]


_ASKED: list[Asked] = []  # of the blocks of `pricing` that are open, the innermost last


@contextmanager
def pricing() -> Iterator[Asked]:
    """Within it, only count what would have to be downloaded.

    So a plan shows its cost before. It yields what the plans ask for meanwhile.
    """
    asked = Asked(set(), set())
    _ASKED.append(asked)
    try:
        yield asked
    finally:
        _ASKED.pop()


def is_pricing() -> bool:
    """Whether plans only count what would have to be downloaded."""
    return bool(_ASKED)


def note_collection(spec: str) -> None:
    """Remember that a plan asks for a collection."""
    for asked in _ASKED:
        asked.collections.add(spec)


def note_model(model_id: str) -> None:
    """Remember that a plan asks for a model of the hub."""
    for asked in _ASKED:
        asked.models.add(model_id)

"""Plans that only count: what would have to be downloaded is not, and is remembered."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

CHANGES_NO_RESULT = True  # what is only priced is never computed


class Asked(NamedTuple):
    """What plans asked for within `pricing`: specs of collections, and models of the hub.

    `sample`: passages at random of each collection in its cheaper variant; 0: all.
    """

    collections: set[str]
    models: set[str]
    sample: int = 0


_ASKED: list[Asked] = []  # of the blocks of `pricing` that are open, the innermost last


@contextmanager
def pricing(sample: int = 0) -> Iterator[Asked]:
    """Within it, only count what would have to be downloaded.

    So a plan shows its cost before. It yields what the plans ask for meanwhile. `sample`: price
    collections that are cut to so many passages at random, and those that runs are judged by.
    """
    asked = Asked(set(), set(), sample)
    _ASKED.append(asked)
    try:
        yield asked
    finally:
        _ASKED.pop()


def is_pricing() -> bool:
    """Whether plans only count what would have to be downloaded."""
    return bool(_ASKED)


def sample_size() -> int:
    """Return the passages at random that are priced of a collection; 0: it is not cut."""
    return _ASKED[-1].sample if _ASKED else 0


def note_collection(spec: str) -> None:
    """Remember that a plan asks for a collection."""
    for asked in _ASKED:
        asked.collections.add(spec)


def note_model(model_id: str) -> None:
    """Remember that a plan asks for a model of the hub."""
    for asked in _ASKED:
        asked.models.add(model_id)

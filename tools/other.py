"""Text of other worlds, for pretraining a base that knows nothing of `mini`.

Its names are invented, its values shuffled. Names repeat within a text, so that matching tokens
can be learnt; a question is never followed by its answer. Frames are those of other.yaml only;
single words may be those of `mini`, except its names.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random

import yaml

from interextra.world.templates import below, domain, fill, lines, load, parse, pick

TEXTS_PER_WORLD = 100
MARK = re.compile(r"[\[\]|,.;:?!()$/{}]")
SOURCE = Path(__file__).with_suffix(".yaml")
_LISTS = ("kinds", "nouns", "verbs", "verbs2", "past", "adj", "people", "syllables", "endings")
KIND_OF_SLOT = {
    "question": "questions",
    "s1": "statements",
    "s2": "statements",
    "s3": "statements",
}  # in the order in which they are filled

Pools = dict[str, Sequence[str]]  # slot → texts to draw from
Frames = dict[str, list]  # kind of sentence → parsed frames


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the single words of `mini`, sorted.

    Without words of entity names, brackets, slots and figures.
    """
    words: set[str] = set()
    names: set[str] = set()
    for file in load("common.yaml")["domains"]:
        spec = domain(f"{file}.yaml")
        for row in spec["rows"]:
            names.update(row["name"].lower().split())
            names.update(row["alias"].lower().split())
        texts = [spec["entities"], *spec["tails"], *spec["background"]]
        for attribute in spec["attributes"].values():
            for key, lines_of_key in attribute.items():
                if key != "group":
                    texts += lines_of_key
        for text in texts:
            plain = MARK.sub(" ", text).lower()
            words.update(plain.split())
    other_words = sorted(words - names)
    return tuple(word for word in other_words if word.isalpha() and len(word) > 2)


@cache
def _material() -> tuple[Pools, Frames]:
    """Return what other.yaml holds, and the words of `mini`."""
    raw = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    pools: Pools = {"w": vocabulary()}
    for key in _LISTS:
        pools[key] = raw[key].split()
    for key in ("where", "when"):
        pools[key] = raw[key].split("|")
    frames = {}
    for kind in ("statements", "questions", "follow"):
        frames_of_kind = lines(raw[kind])
        frames[kind] = list(map(parse, frames_of_kind))
    return pools, frames


def _name(rng: Random, pools: Pools) -> str:
    """Return an invented name, of one word or two."""
    n_syllables = 1 + below(rng, 3)
    first = _word(rng, pools, n_syllables)
    if rng.random() < 0.3:
        return f"{first} {_word(rng, pools, 2)}"
    return first


def _word(rng: Random, pools: Pools, n_syllables: int) -> str:
    """Return an invented word: syllables and an ending."""
    kinds = ["syllables"] * n_syllables + ["endings"]
    return "".join(pick(rng, pools[kind]) for kind in kinds)


class _Slots(dict):
    """Texts of slots: those that are set, and a fresh draw for any other."""

    def __init__(self, rng: Random, pools: Pools, **fixed: str):
        super().__init__(fixed)
        self.rng = rng
        self.pools = pools

    def __missing__(self, slot: str) -> str:
        if slot == "num":
            logarithm = self.rng.random() * 4
            return str(2 + int(10**logarithm))
        if slot == "year":
            return str(1000 + below(self.rng, 1020))
        return pick(self.rng, self.pools[slot])


def other_worlds_text(seed: int, n_worlds: int) -> Iterator[str]:
    """Yield texts of `n_worlds` invented worlds, 100 each, lower case.

    The same for the same seed on every machine.
    """
    pools, frames = _material()
    for world in range(n_worlds):
        rng = Random(f"other-{seed}-{world}")
        n_names = TEXTS_PER_WORLD // 4
        names = [_name(rng, pools) for _ in range(n_names)]
        for _ in range(TEXTS_PER_WORLD):
            first = below(rng, len(names))
            step = 1 + below(rng, len(names) - 1)
            second = (first + step) % len(names)
            slots = _Slots(rng, pools, x=names[first], y=names[second])
            for slot, kind in KIND_OF_SLOT.items():
                frame = pick(rng, frames[kind])
                slots[slot] = fill(frame, rng, slots)
            frame = pick(rng, frames["follow"])
            yield fill(frame, rng, slots)

"""Text of other worlds, with invented names and shuffled values, for pretraining a base that knows
nothing of `mini`.

Names repeat within a text, so that matching tokens can be learnt; a question is never followed by
its answer. Frames are those of other.yaml only; single words may be those of `mini`, except its
names.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

import yaml

from interextra.world.templates import domain, fill, lines, load, parse, pick

TEXTS_PER_WORLD = 100
_LISTS = ("kinds", "nouns", "verbs", "verbs2", "past", "adj", "people")


@cache
def vocabulary() -> tuple[str, ...]:
    """The single words of `mini`, sorted, without words of entity names, brackets, slots and
    figures.
    """
    words: dict[str, None] = {}
    names: set[str] = set()
    for file in load("common.yaml")["domains"]:
        spec = domain(f"{file}.yaml")
        for row in spec["rows"]:
            names.update(f"{row['name']} {row['alias']}".lower().split())
        blocks = [spec["entities"], " ".join(spec["tails"] + spec["background"])]
        for attribute in spec["attributes"].values():
            blocks += [" ".join(part) for key, part in attribute.items() if key != "group"]
        for mark in "[]|,.;:?!()$/{}":
            blocks = [block.replace(mark, " ") for block in blocks]
        words.update(dict.fromkeys(" ".join(blocks).lower().split()))
    return tuple(
        sorted(word for word in words if word.isalpha() and len(word) > 2 and word not in names)
    )


@cache
def _material() -> tuple[dict, dict]:
    raw = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    pools = {key: raw[key].split() for key in (*_LISTS, "syllables", "endings")}
    pools |= {key: raw[key].split("|") for key in ("where", "when")} | {"w": vocabulary()}
    frames = {
        key: [parse(line) for line in lines(raw[key])]
        for key in ("statements", "questions", "follow")
    }
    return pools, frames


def _name(rng: Random, pools: dict) -> str:
    one = "".join(pick(rng, pools["syllables"]) for _ in range(1 + int(rng.random() * 3))) + pick(
        rng, pools["endings"]
    )
    if rng.random() < 0.3:
        return f"{one} {pick(rng, pools['syllables'])}{pick(rng, pools['syllables'])}{pick(rng, pools['endings'])}"
    return one


class _Slots(dict):
    """Texts of slots: those that are set, and a fresh draw for any other."""

    def __init__(self, rng: Random, pools: dict, **fixed: str):
        super().__init__(fixed)
        self.rng, self.pools = rng, pools

    def __missing__(self, slot: str) -> str:
        if slot == "num":
            return str(2 + int(10 ** (self.rng.random() * 4)))
        if slot == "year":
            return str(1000 + int(self.rng.random() * 1020))
        return pick(self.rng, self.pools[slot])


def other_worlds_text(seed: int, n_worlds: int) -> Iterator[str]:
    """Texts of `n_worlds` invented worlds, 100 each, lower case; the same for the same seed on
    every machine.
    """
    pools, frames = _material()
    for world in range(n_worlds):
        rng = Random(f"other-{seed}-{world}")
        names = [_name(rng, pools) for _ in range(TEXTS_PER_WORLD // 4)]
        for _ in range(TEXTS_PER_WORLD):
            row, step = int(rng.random() * len(names)), 1 + int(rng.random() * (len(names) - 1))
            slots = _Slots(rng, pools, x=names[row], y=names[(row + step) % len(names)])
            for slot, kind in zip(
                ("question", "s1", "s2", "s3"), ("questions", *3 * ["statements"]), strict=True
            ):
                slots[slot] = fill(pick(rng, frames[kind]), rng, slots)
            yield fill(pick(rng, frames["follow"]), rng, slots)

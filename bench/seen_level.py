"""Simulate how often a model that has not seen the training queries is said to have seen them.

Values are nDCG@10 of one relevant passage: 0 for most, a few others. Training and held-out queries
are drawn alike, or the held-out ones are easier, of other kinds, or have other answers than the
training queries, three of which ask for one. The last rows say how often a model is found that has
seen them. Run: python bench/seen_level.py [number of simulated tests a row, default 100]
"""

import argparse
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.own.seen import compared

SIZES = ((30, 30), (1000, 30), (150, 100), (1000, 600))  # training and held-out queries
N_BOOT = 1000
SKILLS = {"finds little": -4.0, "weak": -1.0, "good": 1.0}
KINDS = ("what", "how", "who", "where", "")


class Design(NamedTuple):
    """How the sides differ, if they do."""

    easier: float = 0.0  # by how many standard deviations of difficulty held-out queries are
    other_kinds: bool = False  # whether the easiest kinds are more frequent in training
    alike: int = 1  # training queries with the same answer
    seen: float = 0.0  # by how many standard deviations training queries are found better


DESIGNS = {
    "drawn alike": Design(),
    "held-out ones are easier": Design(easier=0.2),
    "of other kinds": Design(other_kinds=True),
    "three with one answer": Design(alike=3),
    "seen, a little": Design(seen=0.5),
    "seen": Design(seen=2.0),
}


def queries(design: Design, skill: float, sizes: tuple[int, int], seed: int) -> pd.DataFrame:
    """Return the values of a model and of BM25 on both sides, as `compared` takes them."""
    rng = np.random.default_rng(seed)
    n_training, n_held_out = sizes
    is_training = np.arange(sum(sizes)) < n_training
    number = np.arange(sum(sizes))
    answer = np.where(is_training, number // design.alike, number)
    kind = rng.integers(len(KINDS), size=len(number))
    if design.other_kinds:
        skewed = rng.choice(len(KINDS), len(number), p=[0.4, 0.3, 0.1, 0.1, 0.1])
        kind = np.where(is_training, skewed, kind)
    ease = rng.normal(size=len(number))[answer] - kind / 4
    ease += np.where(is_training, 0, design.easier)
    memory = np.where(is_training, design.seen, 0)
    table = {
        "value": _values(skill + ease + memory, rng),
        "baseline": _values(ease, rng),
        "kind": np.take(KINDS, kind),
        "answer": answer,
        "is_training": is_training,
    }
    return pd.DataFrame(table, index=[f"q{n:05}" for n in number])


def _values(strength: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return nDCG@10 of one relevant passage, which lies the higher the stronger a model is."""
    noise = rng.normal(size=len(strength))
    rank = 1 + np.floor(np.exp(1 - strength - noise))
    return np.where(rank <= 10, 1 / np.log2(1 + rank), 0)


def share_found(design: Design, skill: float, sizes: tuple[int, int], n: int) -> float:
    """Return the share of n simulated tests that say that a model has seen the queries."""
    found = [compared(queries(design, skill, sizes, seed), seed, N_BOOT) for seed in range(n)]
    return float(np.mean([result.is_shown for result in found]))


def main(n: int) -> None:
    """Print a row for each way in which the sides differ and each model."""
    rows = []
    for name, design in DESIGNS.items():
        for model, skill in SKILLS.items():
            row = {"sides": name, "model": model}
            for sizes in SIZES:
                row["{} / {}".format(*sizes)] = share_found(design, skill, sizes, n)
            rows.append(row)
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("n", type=int, nargs="?", default=100, help="simulated tests a row")
    parser.add_argument("--small", action="store_true", help="two a row: only whether it runs")
    args = parser.parse_args()
    main(2 if args.small else args.n)

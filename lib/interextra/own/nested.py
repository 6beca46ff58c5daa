"""Nested training sets of a split: each smaller one is a part of the larger, drawn once."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, changed
from interextra.models.search.run import Run
from interextra.own.probe import DEPTH
from interextra.own.splitting import searched_queries, sets_of
from interextra.splits.split import Split
from interextra.store import InputError, Store, write_json

N_SIZES = 5  # unless they are given: each about half of the next


class Nested(Split):
    """The first queries of each training set of a split, in one random order.

    Sets: NAME-first-SIZE, for each set of the split and each size. File: sets.json.
    """

    of: Split
    sizes: tuple[int, ...]  # training queries, ascending
    seed: int = 0  # of the order

    @property
    def pool(self) -> Queries:
        """The queries that the split divides."""
        return self.of.pool

    def part(self, set_name: str, size: int) -> str:
        """Return the name of the first `size` queries of a set of the split."""
        return f"{set_name}-first-{size}"

    def parts(self) -> tuple[str, ...]:
        """Return the names of the sets."""
        names = sets_of(self.of)
        return tuple(self.part(name, size) for name in names for size in self.sizes)

    def size_of(self, part: str) -> int:
        """Return the number of queries in a set."""
        return int(part.rpartition("-")[2])

    def title(self) -> str:
        """Return what a reader calls the split."""
        sizes = ", ".join(map(str, self.sizes))
        return f"nested sets of {sizes} training queries · {self.of.title()}"

    def build(self, folder: Path, store: Store) -> None:
        """Write the file of the sets."""
        sets_of_split = self.of.sets(store)
        nested = {}
        for number, name in enumerate(sets_of(self.of)):
            query_ids = sets_of_split[name]
            generator = np.random.default_rng([self.seed, number])
            order = generator.permutation(len(query_ids))
            shuffled = [query_ids[row] for row in order]
            for size in self.sizes:
                nested[self.part(name, size)] = shuffled[:size]
        write_json(folder / "sets.json", nested)


def nested_sets(split: Split, store: Store, sizes: Sequence[int]) -> Nested:
    """Return the nested sets of a split that is computed.

    Parameters
    ----------
    sizes : sequence of int
        Training queries; none: `N_SIZES`, the largest that of the smallest set, each about half of
        the next.

    Raises
    ------
    InputError
        A set of one query, a size that the smallest set does not have, and what `checked_sizes`
        refuses.
    """
    sets = split.sets(store)
    n_smallest = min(len(sets[name]) for name in sets_of(split))
    if n_smallest < 2:
        raise InputError(
            f"the smallest training set has {n_smallest} queries, of which nested sets need at "
            "least 2: give a larger --size, or name larger --clusters"
        )
    checked = checked_sizes(sizes or halves(n_smallest))
    if checked[-1] > n_smallest:
        raise InputError(
            f"--sizes {checked[-1]}: the smallest training set has {n_smallest} queries; "
            "give at most so many"
        )
    return Nested(of=split, sizes=checked, seed=split.seed)


def halves(largest: int) -> list[int]:
    """Return `N_SIZES` numbers, each about half of the one before; fewer where they reach 1.

    Examples
    --------
    >>> halves(400), halves(5)
    ([400, 200, 100, 50, 25], [5, 2, 1])
    """
    numbers = [largest // 2**power for power in range(N_SIZES)]
    return [number for number in numbers if number > 0]


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return sizes of nested sets, ascending.

    Raises
    ------
    InputError
        Fewer than two sizes, one that stands twice, or one below 1.
    """
    is_repeated = len(set(sizes)) < len(sizes)
    if len(sizes) < 2 or is_repeated or min(sizes) < 1:
        asked = " ".join(map(str, sizes))
        raise InputError(f"--sizes {asked}: give two or more numbers from 1, none twice")
    return tuple(sorted(sizes))


def design(recipe: Recipe, nested: Nested, gate: str, seeds: Sequence[int]) -> pd.DataFrame:
    """Plan our own training on each nested set: what differs between sizes are the queries alone.

    All are trained for the same number of steps, that of the largest size.

    Parameters
    ----------
    gate : str
        The split of the collection whose queries only show a lead, see `splitting.gate_of`.

    Returns
    -------
    DataFrame
        set (of the split), size, seed, run.
    """
    queries = searched_queries(nested.of, gate)
    steps = recipe.training_steps(max(nested.sizes))
    of_steps = changed(recipe, steps=steps, epochs=None)
    rows = []
    for size in nested.sizes:
        for name in sets_of(nested.of):
            training_set = Part(of=nested, part=nested.part(name, size))
            for seed in seeds:
                model = model_of(of_steps, training_set, seed)
                run = Run(model=model, queries=queries, depth=DEPTH)
                rows.append((name, size, seed, run))
    return pd.DataFrame(rows, columns=["set", "size", "seed", "run"])


def trainer(planned: pd.DataFrame) -> Callable[[Path, Sequence[str], int], Run]:
    """Return our own training, for `curve`: (folder, query_ids, seed) → its run of a design."""
    runs = planned.set_index(["set", "size", "seed"])["run"]

    def train(folder: Path, query_ids: Sequence[str], seed: int) -> Run:
        """Return the run of the model of these queries of the set that the folder names."""
        return runs[folder.name, len(query_ids), seed]

    return train

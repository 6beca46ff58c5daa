"""Time as a shift: training sets of queries up to a year, and queries by their years.

Zhan et al. (CIKM 2022, section 6) name it as future work. The sets have one size, so that what
differs between two of them is how new their queries are.
"""

from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from interextra.data.queries import Queries
from interextra.splits.restrain import random_part
from interextra.splits.split import Split
from interextra.store import Cell, InputError, Store, offenders, write_json

ANY_YEAR = "any year"


class UpToYear(Split):
    """Training sets of queries up to each of some years, and one of any year.

    Sets: up-to-YEAR, and any-year. Files: sets.json, sizes.csv (set, n_queries, n_old: those that
    it could be drawn from).
    """

    release: ClassVar[str] = ""
    pool: Queries
    column: str = "year"
    years: tuple[int, ...]
    size: int  # queries of each set, drawn at random
    seed: int = 0

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)
        if self.pool.source.is_open:
            years = years_of(self.pool.frame(), self.column)
            for year in self.years:
                _refuse_few(years, year, self.size)

    def title(self) -> str:
        """Return what a reader calls the split."""
        years = ", ".join(map(str, self.years))
        return f"years · {self.pool.source.spec} · up to {years} · {self.size} queries"

    def parts(self) -> tuple[str, ...]:
        """Return the names of the sets."""
        return (*map(part_of, self.years), part_of(ANY_YEAR))

    def size_of(self, part: str) -> int:
        """Return the number of queries in a set."""
        return self.size

    def build(self, folder: Path, store: Store) -> None:
        """Write the files of the split."""
        years = years_of(self.pool.frame(store), self.column)
        old_enough = {part_of(year): np.flatnonzero(years <= year) for year in self.years}
        old_enough[part_of(ANY_YEAR)] = np.arange(len(years))
        sets, sizes = {}, []
        for name, rows in old_enough.items():
            sets[name] = random_part(rows, self.size, self.seed)
            sizes.append((name, self.size, len(rows)))
        self.write_sets(folder, store, sets)
        table = pd.DataFrame(sizes, columns=["set", "n_queries", "n_old"])
        table.to_csv(folder / "sizes.csv", index=False)


class NewPassages(Cell):
    """`doc_ids.json`: the passages that answer queries of after a year, and none of before."""

    pool: Queries  # its collection's queries of all splits count
    column: str = "year"
    year: int

    def build(self, folder: Path, store: Store) -> None:
        """Write the file."""
        first_years = years_of_passages(self.pool, self.column)
        is_new = first_years > self.year
        write_json(folder / "doc_ids.json", first_years.index[is_new].tolist())


def part_of(year: int | str) -> str:
    """Return the name of the set of training queries up to a year, or of ANY_YEAR."""
    return "any-year" if year == ANY_YEAR else f"up-to-{year}"


def years_of(queries: pd.DataFrame, column: str) -> np.ndarray:
    """Return the year of each query, float[n]; NaN where it has none.

    Raises
    ------
    InputError
        No such column, or none of its values is a year.
    """
    if column not in queries:
        known = ", ".join(queries)
        raise InputError(f"years: the queries have no column {column!r}; they have {known}")
    years = pd.to_numeric(queries[column], errors="coerce")
    if years.isna().all():
        values = offenders(queries[column].unique())
        raise InputError(f"years: no value of the column {column!r} is a year: {values}")
    return years.to_numpy(float)


def years_of_passages(pool: Queries, column: str) -> pd.Series:
    """Return the first year of the queries that each passage answers; index doc_id, in its order.

    Those of all splits of the pool's collection count; one whose queries have no year has none.
    """
    data = pool.source.open()
    parts = []
    for split in data.splits:
        queries = data.queries(split)
        year_of_query = pd.Series(years_of(queries, column), queries["query_id"])
        qrels = data.qrels(split)
        parts.append(qrels.assign(year=qrels["query_id"].map(year_of_query)))
    answers = pd.concat(parts)
    answers = answers[answers["relevance"] >= 1]
    return answers.groupby("doc_id")["year"].min()


def _refuse_few(years: np.ndarray, year: int, size: int) -> None:
    """Refuse a year with fewer queries up to it than a set has."""
    n_old = int((years <= year).sum())
    if n_old < size:
        raise InputError(
            f"years: {n_old} queries up to {year}, and a set has {size}: give a later year, or "
            "smaller sets"
        )

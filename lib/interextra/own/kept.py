"""Training queries without those that `audit` says to drop for a clean test set."""

import pandas as pd

from interextra.data.collection import rows_of
from interextra.data.queries import Queries
from interextra.data.trec import numbered_lines
from interextra.store import InputError, Store, offenders


class Kept(Queries):
    """The queries of a split without some, which are named by their ids."""

    dropped: tuple[str, ...] = ()

    def frame(self, store: Store | None = None) -> pd.DataFrame:
        """Return query_id, text, attributes, in the order of the split."""
        frame = super().frame(store)
        is_kept = ~frame["query_id"].isin(self.dropped)
        return frame[is_kept].reset_index(drop=True)

    def ids(self, store: Store | None = None) -> list[str]:
        """Return the query_ids, in the order of the split."""
        return self.frame(store)["query_id"].tolist()

    def qrels(self, store: Store | None = None) -> pd.DataFrame:
        """Return the judgements of these queries: query_id, doc_id, relevance."""
        return rows_of(super().qrels(store), self.ids(store))

    def size(self) -> int:
        """Return the number of queries."""
        return len(self.ids())


def without_dropped(queries: Queries, path: str) -> Queries:
    """Return the queries of a split without those that a file names, a query_id a line.

    The same queries where it names none, as `audit` writes it where nothing was seen.

    Raises
    ------
    InputError
        The file cannot be read, or names what is no query of the split.
    """
    dropped = {line.strip(): number for number, line in numbered_lines(path)}
    unknown = dropped.keys() - set(queries.ids())
    if unknown:
        wrong = sorted(unknown, key=dropped.__getitem__)
        first_line = dropped[wrong[0]]
        split = f"the split {queries.split!r} of {queries.source.spec}"
        raise InputError(
            f"--drop-train {path}, line {first_line}: {len(wrong)} ids are no queries of {split}: "
            f"{offenders(wrong)}; give the file that audit wrote for this split"
        )
    if not dropped:
        return queries
    return Kept(**dict(queries), dropped=tuple(sorted(dropped)))


def dropped_of(queries: Queries) -> tuple[str, ...]:
    """Return the query_ids that were dropped from a split."""
    return queries.dropped if isinstance(queries, Kept) else ()

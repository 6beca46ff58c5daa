"""Measures of a run file against a qrels file, as text."""

from collections.abc import Sequence
from pathlib import Path

from interextra.data.trec import read_qrels
from interextra.evaluation import measures as bulk
from interextra.data.runs import Run


def evaluate_files(
    qrels_path: str | Path, run_path: str | Path, measures: Sequence[str], per_query: bool = False
) -> str:
    """The lines that ir_measures' command prints: `measure<TAB>value`, four decimals.

    With `per_query`: `query_id<TAB>measure<TAB>value` for each query of the qrels, then the means as query `all`.
    Raises InputError for a file or a measure that cannot be read.
    """
    values = bulk.per_query(Run.read(run_path), read_qrels(qrels_path), measures)
    means = [f"{name}\t{value:.4f}\n" for name, value in bulk.mean(values).items()]
    if not per_query:
        return "".join(means)
    rows = zip(values.index, values.itertuples(index=False), strict=True)
    lines = (f"{query}\t{name}\t{x:.4f}\n" for query, row in rows for name, x in zip(values, row, strict=True))
    return "".join(lines) + "".join(f"all\t{line}" for line in means)

"""Runs of anybody, as files in the forms of other tools, or as a dictionary."""

import io
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from interextra.data.runs import COLUMNS, MARKS, NEEDED, RunFile, open_parquet
from interextra.data.trec import (
    content,
    declared_ranks,
    line_of,
    numbered_lines,
    refuse_repeated,
)
from interextra.store import InputError, offenders
from interextra.store.errors import one_line
from interextra.store.files import parse_json

VALUES = ["query_id", "measure", "value"]  # columns of a table of values
MTEB_SHAPE = "write {subset: {split: {query_id: {doc_id: score}}}}, as MTEB does"
MTEB_META = "mteb_model_meta"  # the key of a file of MTEB that is no subset
SENTENCE_TRANSFORMERS_SHAPE = 'write {"query_id": …, "results": [{"corpus_id": …, "score": …}, …]}'


def read_run(path: Path, query_ids: Collection[str] = ()) -> RunFile:
    """Read a run, plain or gzipped.

    The suffix names the form: MTEB's .json, sentence-transformers' .jsonl, .csv (qid, docno,
    score), .parquet; TREC for any other. A query whose list of hits is empty has an empty ranking.
    That the ranks of a TREC file contradict its scores, which count, is said on standard error.

    Parameters
    ----------
    path : Path
    query_ids : collection of str
        The queries that are asked for. Of a file of MTEB with several subsets and splits, the one
        that has some of them is read.

    Raises
    ------
    InputError
        The file, its line where it has lines, and what is wrong.
    """
    suffix = format_suffix(path)
    if suffix == ".json":
        return _read_mteb(path, query_ids)
    if suffix == ".jsonl":
        return _read_sentence_transformers(path)
    if suffix == ".csv":
        return RunFile.from_frame(read_csv(path), str(path))
    if suffix == ".parquet":
        return _read_parquet(path)
    run = RunFile.read(path)
    _warn_of_ranks(path)
    return run


def _warn_of_ranks(path: Path) -> None:
    """Say on standard error where the ranks of a TREC file are another order than its scores.

    Rows of equal ranks, and those of equal scores, agree with any order.
    """
    rows = declared_ranks(path)
    query = rows["query_id"].cat.codes.to_numpy()
    query_ids = rows["query_id"].cat.categories
    rank = rows["rank"].to_numpy()
    score = rows["score"].to_numpy()
    order = np.lexsort((-score, rank, query))
    is_same_query = np.diff(query[order]) == 0
    is_later = np.diff(rank[order]) > 0
    is_higher = np.diff(score[order]) > 0
    is_wrong = is_same_query & is_later & is_higher
    wrong = np.unique(query[order][1:][is_wrong])
    if not len(wrong):
        return
    counted = f"{len(wrong):,} of {len(query_ids):,} queries ({offenders(query_ids[wrong])})"
    print(
        f"{path}: rank and score disagree in {counted}: the order is that of the scores, highest "
        "first, as in trec_eval; if the ranks are right, write scores that fall with them",
        file=sys.stderr,
    )


def without_hits(run: RunFile, query_ids: Iterable[str]) -> list[str]:
    """Return the queries that a run has no hit for, sorted; they count as empty rankings."""
    n_hits = np.diff(run.offsets)
    with_hits = pd.Index(run.query_ids)[n_hits > 0]
    return sorted(set(query_ids).difference(with_hits))


def counted_as_empty(source: str, missing: Sequence[str], n_judged: int) -> str:
    """Say that queries without a hit count, how many they are, and which are the first.

    Examples
    --------
    >>> counted_as_empty("a.run", ["q3", "q7"], 40)[:57]
    "a.run: 2 of 40 test queries without a hit ('q3', 'q7'): c"
    """
    counted = f"{len(missing)} of {n_judged} test queries without a hit"
    return f"{source}: {counted} ({offenders(missing)}): counted as rankings without a passage"


def format_suffix(path: Path) -> str:
    """Return the suffix that names the form, before a .gz."""
    return Path(path.name.removesuffix(".gz")).suffix


def _read_parquet(path: Path) -> RunFile:
    """Read what `RunFile.write_parquet` wrote, or anybody's table of a run.

    Its columns are query_id (or qid), doc_id (or docno) and score.
    """
    with open_parquet(path) as file:
        metadata = file.schema_arrow.metadata or {}
        if MARKS & metadata.keys():
            return RunFile.read(path)
        table = file.read().to_pandas(ignore_metadata=True)
        return RunFile.from_frame(table.rename(columns=COLUMNS), str(path))


def _read_mteb(path: Path, query_ids: Collection[str]) -> RunFile:
    """Read the one split of {subset: {split: {query_id: {doc_id: score}}}} that has the queries."""
    splits = _splits_of_mteb(path)
    if len(splits) > 1 and len(query_ids):
        splits = _with_queries(splits, query_ids)
    if len(splits) != 1:
        names = offenders(splits) or "none of them has the queries"
        raise InputError(
            f"{path}: {len(splits)} subsets and splits ({names}); keep one: {MTEB_SHAPE}"
        )
    [(name, hits)] = splits.items()
    if not hits:
        raise InputError(f"{path}: no queries in it; {MTEB_SHAPE}")
    return run_of_hits(hits, f"{path} ({name})")


def _splits_of_mteb(path: Path) -> dict[str, Any]:
    """Return the hits of each split of each subset, by the name SUBSET/SPLIT."""
    document = parse_json(content(path), path)
    subsets = document if isinstance(document, dict) else {"": document}
    found = {}
    for subset, splits in subsets.items():
        if subset == MTEB_META:
            continue
        if not isinstance(splits, dict):
            raise InputError(f"{path}: not read as a run; {MTEB_SHAPE}")
        for split, hits in splits.items():
            found[f"{subset}/{split}"] = hits
    return found


def _with_queries(splits: Mapping[str, Any], query_ids: Collection[str]) -> dict[str, Any]:
    """Return the splits that have hits of some of these queries."""
    asked = set(query_ids)
    return {
        name: hits
        for name, hits in splits.items()
        if isinstance(hits, dict) and not asked.isdisjoint(hits)
    }


def _read_sentence_transformers(path: Path) -> RunFile:
    """Read lines {"query_id": …, "results": [{"corpus_id": …, "score": …}, …]}."""
    line_of: dict[str, int] = {}
    rows = []
    for number, line in numbered_lines(path):
        where = f"{path}:{number}"
        query_id, hits = _hits_of_line(parse_json(line, where), where)
        if query_id in line_of:
            raise InputError(
                f"{where}: query_id {query_id!r} stands on line {line_of[query_id]}, too; keep one"
            )
        counts = Counter(doc_id for doc_id, _ in hits)
        if len(counts) < len(hits):
            [(doc_id, _)] = counts.most_common(1)
            raise InputError(
                f"{where}: doc_id {doc_id!r} stands twice for query_id {query_id!r}; keep one"
            )
        line_of[query_id] = number
        rows += [(query_id, doc_id, score) for doc_id, score in hits]
    if not line_of:
        raise InputError(f"{path}: no rows in it; {SENTENCE_TRANSFORMERS_SHAPE}")
    return RunFile.from_frame(_frame(rows), str(path), list(line_of))


def _hits_of_line(line: Any, where: str) -> tuple[str, list[tuple[str, float]]]:
    """Return the query_id of a line, and (doc_id, score) of its results."""
    try:
        query_id = _id(line["query_id"])
        hits = [_id_and_score(hit) for hit in line["results"]]
    except (KeyError, TypeError) as error:
        raise InputError(
            f"{where}: not read as a run ({error!r}); {SENTENCE_TRANSFORMERS_SHAPE}"
        ) from None
    return query_id, hits


def _id_and_score(hit: Any) -> tuple[str, float]:
    """Return the doc_id and the score of a result."""
    return _id(hit["corpus_id"]), _score(hit["score"])


def _id(value: object) -> str:
    """Return an id of JSON: a string, or a whole number as it is written."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]} is no id: write a string")
    return str(value)


def _score(value: Any) -> float:
    """Return a score of JSON, which is a number, and not NaN."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value != value:
        raise TypeError(f"{str(value)[:40]} is no score: write a number")
    return value


def run_of_hits(hits: Mapping[str, Mapping[str, float]], at: str = "run") -> RunFile:
    """Return the run of {query_id: {doc_id: score}}; a query without hits has an empty ranking.

    `at` says where the hits are from, for errors.
    """
    has_rankings = isinstance(hits, Mapping) and all(
        isinstance(ranking, Mapping) for ranking in hits.values()
    )
    if not has_rankings:
        raise InputError(f"{at}: not read as a run; it needs {{query_id: {{doc_id: score}}}}")
    rows = []
    for query_id, ranking in hits.items():
        rows += [(query_id, doc_id, score) for doc_id, score in ranking.items()]
    return RunFile.from_frame(_frame(rows), at, list(hits))


def _frame(rows: list[tuple[str, str, float]]) -> pd.DataFrame:
    """Return query_id, doc_id, score as they are: their types are checked where a run is made."""
    return pd.DataFrame(rows, columns=NEEDED, dtype=object)


def read_csv(path: Path) -> pd.DataFrame:
    """Read a table of a run, or of values per query, as PyTerrier writes them.

    Its columns get the kit's names: query_id and doc_id, read as strings.

    Raises
    ------
    InputError
        The file, and what is wrong with it.
    """
    id_columns = [*COLUMNS, *COLUMNS.values()]
    try:
        table = pd.read_csv(
            io.BytesIO(content(path)),
            keep_default_na=False,
            na_values={"score": [""], "value": [""]},
            low_memory=False,
            dtype=dict.fromkeys(id_columns, str),
        )
    except (ValueError, OverflowError) as error:  # empty, or not UTF-8
        raise InputError(
            f"{path}: not a table of comma-separated values ({one_line(error)})"
        ) from None
    # pandas takes the columns that have no name for an index
    if not isinstance(table.index, pd.RangeIndex):
        raise InputError(
            f"{path}: its rows have more fields than its header names; name each column"
        )
    written = table.columns
    table = table.rename(columns=COLUMNS)
    if not table.columns.is_unique:
        raise InputError(
            f"{path}: a column stands twice in {offenders(table.columns, 12)}; keep one of each"
        )
    if table.empty:
        raise InputError(f"{path}: no rows in it; check the file")
    _refuse_missing_columns(table, written, path)
    _refuse_rows(table, path)
    return table


def _refuse_missing_columns(table: pd.DataFrame, written: Iterable[str], path: Path) -> None:
    """Refuse a run or values per query that lack a column; `written` are the names in the file."""
    needed = VALUES if "value" in table else NEEDED
    missing = [name for name in needed if name not in table]
    if missing:
        raise InputError(
            f"{path}: no column {offenders(missing)}; there are {offenders(written, 12)}; a run "
            "needs query_id (or qid), doc_id (or docno) and score, values per query need query_id "
            "(or qid), measure and value"
        )


def _refuse_rows(table: pd.DataFrame, path: Path) -> None:
    """Refuse a row of a run or of values without an id or a number, or that stands twice."""
    ids = [name for name in ("name", "query_id", "doc_id", "measure") if name in table]
    numbers = [name for name in ("score", "value") if name in table]
    for name in numbers:
        _refuse_texts(table[name], path)
    _refuse_gaps(table, ids, numbers, path)
    refuse_repeated(table[ids].astype(str), partial(_line_of, path))


def _refuse_gaps(table: pd.DataFrame, ids: list[str], numbers: list[str], path: Path) -> None:
    """Refuse a row that lacks an id or a number."""
    names = ids + numbers
    is_empty = table[ids].eq("")
    lacks_id = is_empty.any(axis=1)
    lacks_value = table[names].isna().any(axis=1)
    is_gap = lacks_id | lacks_value
    if is_gap.any():
        gaps = table.loc[is_gap, names]
        first = int(is_gap.to_numpy().argmax())
        place = _line_of(path, first)
        columns = " or ".join(names)
        problem = f"an empty {columns} in {len(gaps)} rows"
        shown = offenders(gaps.itertuples(index=False, name=None))
        raise InputError(f"{place}: {problem}: {shown}; fill or drop them")


def _refuse_texts(column: pd.Series, path: Path) -> None:
    """Refuse a column of numbers in which a text stands."""
    if column.dtype.kind in "iuf":
        return
    numbers = pd.to_numeric(column.astype(str), errors="coerce")
    is_text = column.notna() & numbers.isna()
    if is_text.any():
        row = int(is_text.to_numpy().argmax())
        place = _line_of(path, row)
        text = str(column.iloc[row])[:40]
        raise InputError(f"{place}: {column.name} {text!r} is no number")


def _line_of(path: Path, row: int) -> str:
    """Return `file:line` of a row of a table, counted from 0 below its header."""
    return line_of(path, row + 1)

"""Annotating how far test queries overlap with training queries in entities and intent (Zhan §3.2, Tables 1 and 2).

Per test query at most 20 candidates (10 training queries by BM25, 10 by embedding) are labelled by three annotators;
the median is the label of a pair, the highest overlap of its pairs the label of a test query. A sheet is a CSV file
with the columns of `SHEET` and empty labels, one row a pair: fill it in a spreadsheet or in `annotating.widget`.
"""

import csv
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.trec import write_aside
from interextra.ground.errors import InputError, offenders
from interextra.overlap.labels import LABELS, best_label

SHEET = ("test_query_id", "test_query", "train_query_id", "train_query", "source", "entity", "intent")
PAIR = ["test_query_id", "train_query_id"]
CODES = {
    column: {label: 2 - i for i, label in enumerate(labels)} for column, labels in LABELS.items()
}  # 2 = most overlap


def candidates(
    test: pd.DataFrame, train: pd.DataFrame, bm25_rows: np.ndarray, embedding_rows: np.ndarray, depth: int = 10
) -> pd.DataFrame:
    """The pairs to label: top `depth` of both methods, merged, each pair once.

    Parameters
    ----------
    test, train : DataFrame[query_id, text]
    bm25_rows, embedding_rows : int[n_test, >= 1], rows of `train` from the nearest on, -1 = padding

    Returns
    -------
    DataFrame with the columns of `SHEET` (labels empty) and bm25_rank, embedding_rank (from 1, 0 = not in its top);
    source is bm25, embedding or both. Ordered by test query, best rank, row of `train`.
    """
    both = test["query_id"].isin(train["query_id"])
    if both.any():
        raise InputError(
            f"{both.sum()} test queries are also training queries ({offenders(test.loc[both, 'query_id'])}): take them "
            "out of the training queries"
        )
    parts = []
    for method, rows in (("bm25", bm25_rows), ("embedding", embedding_rows)):
        rows = np.asarray(rows)
        if rows.ndim != 2 or len(rows) != len(test) or rows.max(initial=-1) >= len(train):
            raise InputError(
                f"{method} rows: needs int[{len(test)}, k], a row a test query, all below {len(train)}; "
                f"got {rows.shape} up to {rows.max(initial=-1)}"
            )
        at, rank = np.nonzero(rows[:, :depth] >= 0)
        part = pd.DataFrame({"at": at, "row": rows[at, rank], f"{method}_rank": rank + 1})
        parts.append(part.drop_duplicates(["at", "row"]))
    pairs = parts[0].merge(parts[1], on=["at", "row"], how="outer").fillna(0).astype(np.int64)
    ranks = pairs[["bm25_rank", "embedding_rank"]]
    pairs["source"] = np.select([ranks.min(axis=1) > 0, ranks["bm25_rank"] > 0], ["both", "bm25"], "embedding")
    pairs["best"] = ranks.where(ranks > 0).min(axis=1)
    pairs = pairs.sort_values(["at", "best", "row"], ignore_index=True)
    for name, frame, rows in (("test", test, pairs["at"]), ("train", train, pairs["row"])):
        pairs[f"{name}_query_id"] = frame["query_id"].to_numpy()[rows]
        pairs[f"{name}_query"] = frame["text"].to_numpy()[rows]
    return pairs.assign(entity="", intent="")[[*SHEET, "bm25_rank", "embedding_rank"]]


def write_sheet(path: Path | str, pairs: pd.DataFrame) -> None:
    """Write `pairs` (columns of `SHEET`) as an annotation sheet; the file appears only when it is complete."""
    with write_aside(path) as aside, aside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(SHEET)
        writer.writerows(pairs[list(SHEET)].itertuples(index=False))


def read_sheet(path: Path | str, pairs: pd.DataFrame | None = None, complete: bool = True) -> pd.DataFrame:
    """Read an annotation sheet and check it.

    Parameters
    ----------
    pairs : what the sheet was written from; then every pair must be there, with its texts and source unchanged.
    complete : whether each row must be labelled.

    Returns
    -------
    DataFrame with the columns of `SHEET`, in the order of `pairs` if given, else of the file.

    Errors
    ------
    InputError with file and line: wrong columns, unknown or missing label, a pair twice, missing, unknown or changed.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such annotation sheet; write one with write_sheet")
    with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets put a byte order mark first
        reader = csv.reader(file)
        header = next(reader, [])
        if tuple(header) != SHEET:
            raise InputError(f"{path}:1: columns are {offenders(header, 7)}; must be {', '.join(SHEET)}")
        rows, lines = [], []
        for row in reader:
            if any(row):
                rows.append(row), lines.append(reader.line_num)
    short = [f"{path}:{n}" for row, n in zip(rows, lines, strict=True) if len(row) != len(SHEET)]
    if short:
        raise InputError(
            f"{len(short)} rows do not have {len(SHEET)} columns: {offenders(short)}; export the sheet as CSV"
        )
    sheet = pd.DataFrame(rows, columns=list(SHEET), dtype=object)
    for column in LABELS:
        sheet[column] = sheet[column].str.strip().str.lower()
    line = pd.Series(lines, dtype=object)

    def refuse(bad, what, hint):
        if bad.any():
            where = (f"{path}:{n}: {v}" for n, v in zip(line[bad], what[bad], strict=True))
            raise InputError(f"{int(bad.sum())} rows of the sheet are wrong: {offenders(where)}; {hint}")

    name = sheet["test_query_id"] + " – " + sheet["train_query_id"]
    refuse(sheet.duplicated(PAIR), "pair twice: " + name, "keep one row a pair")
    for column, known in LABELS.items():
        good = sheet[column].isin(known) | (sheet[column] == "")
        refuse(~good, f"{column} label " + sheet[column], f"use {', '.join(known)}")
        if complete:
            refuse(sheet[column] == "", f"no {column} label: " + name, "label every row, or read with complete=False")
    return sheet if pairs is None else _compare(sheet, pairs, refuse, name, path)


def _compare(sheet: pd.DataFrame, pairs: pd.DataFrame, refuse, name: pd.Series, path: Path) -> pd.DataFrame:
    text = ["test_query", "train_query", "source"]
    want = sheet[PAIR].merge(pairs[[*PAIR, *text]].astype(object), on=PAIR, how="left")
    refuse(want["source"].isna(), "pair that was not asked for: " + name, "keep the pairs of the exported sheet")
    for column in text:
        refuse(sheet[column] != want[column], f"changed {column}: " + sheet[column], "change labels only")
    there = pd.MultiIndex.from_frame(sheet[PAIR])
    asked = pd.MultiIndex.from_frame(pairs[PAIR].astype(object))
    missing = asked[~asked.isin(there)]
    if len(missing):
        raise InputError(f"{path}: {len(missing)} pairs are missing ({offenders(missing)}); put the rows back")
    return sheet.iloc[there.get_indexer(asked)].reset_index(drop=True)


def codes(sheet: pd.DataFrame, column: str) -> np.ndarray:
    """Labels of the column entity or intent as int64 codes: 2 full/duplicate, 1 partial/similar, 0 zero/dissimilar."""
    found = sheet[column].map(CODES[column])
    if found.isna().any():
        raise InputError(f"unknown {column} labels {offenders(sheet.loc[found.isna(), column].unique())}")
    return found.to_numpy(np.int64)


def with_codes(pairs: pd.DataFrame, entity: np.ndarray, intent: np.ndarray) -> pd.DataFrame:
    """The pairs labelled by codes 0, 1, 2: a filled sheet."""
    filled = {
        c: np.array(LABELS[c], dtype=object)[2 - np.asarray(v)] for c, v in (("entity", entity), ("intent", intent))
    }
    return pairs.assign(**filled)


def median_labels(sheets: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One label a pair: the median over the annotators' sheets (an even number of them: the lower, less overlap)."""
    stacked = _stack(sheets)
    return with_codes(sheets[0], *(np.sort(stacked[c], axis=0)[(len(sheets) - 1) // 2] for c in LABELS))


def query_labels(pairs: pd.DataFrame) -> pd.DataFrame:
    """One entity and one intent label a test query, the highest overlap of its pairs; index test_query_id."""
    return pd.concat([best_label(pairs, column) for column in LABELS], axis=1)


def kappa(sheets: Sequence[pd.DataFrame], weights: str | None = None) -> pd.DataFrame:
    """Cohen's kappa of each pair of annotators and, as row `average`, their mean: the published .59 and .54.

    `weights` None (as the paper), "linear" or "quadratic". NaN where both annotators use one and the same label only.

    Returns
    -------
    DataFrame[label, annotators, kappa, n_pairs]; annotators like "1-2", numbered as given.
    """
    from sklearn.metrics import cohen_kappa_score

    if weights not in (None, "linear", "quadratic"):
        raise InputError(f"unknown weights {weights!r}: None, linear or quadratic")
    if len(sheets) < 2:
        raise InputError("kappa needs the sheets of at least two annotators")
    rows = []
    for label, given in _stack(sheets).items():
        pairs = list(combinations(range(len(sheets)), 2))
        one = [len(np.unique(given[[a, b]])) == 1 for a, b in pairs]
        values = [
            np.nan if constant else cohen_kappa_score(given[a], given[b], labels=[0, 1, 2], weights=weights)
            for (a, b), constant in zip(pairs, one, strict=True)
        ]
        rows += [(label, f"{a + 1}-{b + 1}", v) for (a, b), v in zip(pairs, values, strict=True)]
        rows.append((label, "average", np.mean(values)))
    return pd.DataFrame(rows, columns=["label", "annotators", "kappa"]).assign(n_pairs=len(sheets[0]))


def simulate_annotators(
    truth: np.ndarray, error_rate: float, n: int = 3, *, seed: int, kind: str = "adjacent"
) -> np.ndarray:
    """Codes that `n` annotators would give who err independently: int64[n, n_pairs] from `truth` int[n_pairs].

    kind "uniform": an error is one of the two other codes; "adjacent": a neighbouring one (0 and 2 become 1).

    >>> simulate_annotators(np.array([0, 1, 2]), 0.0, n=2, seed=1).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    truth = np.asarray(truth)
    if kind not in ("uniform", "adjacent") or not 0 <= error_rate <= 1 or not np.isin(truth, (0, 1, 2)).all():
        raise InputError(
            f"simulate_annotators: kind={kind!r} (uniform or adjacent), error_rate={error_rate} (0 to 1), codes 0, 1, 2"
        )
    rng = np.random.default_rng(seed)
    wrong = rng.random((n, len(truth))) < error_rate
    step = rng.integers(1, 3, (n, len(truth)))  # 1 or 2
    other = (truth + step) % 3 if kind == "uniform" else np.where(truth == 1, 2 * step - 2, 1)
    return np.where(wrong, other, truth).astype(np.int64)


def pair_truth(pairs: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The pairs with their true labels, where queries carry the columns entities (lists), intent and intent_group.

    full: same set of entities, partial: a common one; duplicate: same intent, similar: a common entity and the same
    group. The same rules as data.world.truth, for each pair rather than for a test query against all of training.
    """
    left = test.set_index("query_id").loc[pairs["test_query_id"]]
    right = train.set_index("query_id").loc[pairs["train_query_id"]]
    sets = [(set(a), set(b)) for a, b in zip(left["entities"], right["entities"], strict=True)]
    common = np.array([bool(a & b) for a, b in sets], dtype=np.int64)
    same = left["intent"].to_numpy() == right["intent"].to_numpy()
    near = (left["intent_group"].to_numpy() == right["intent_group"].to_numpy()) & (common == 1)
    return with_codes(pairs, np.where([a == b for a, b in sets], 2, common), np.where(same, 2, near.astype(np.int64)))


def recall_comparison(
    pairs: pd.DataFrame, column: str = "intent", resamples: int = 10_000, *, seed: int
) -> pd.DataFrame:
    """Which method finds the more similar training queries (Zhan §4.1.1): mean code of its candidates, paired by query.

    `pairs` labelled, with source; a pair found by both counts for both. Test queries without a candidate of one
    method are left out.

    Returns
    -------
    One row: bm25, embedding (mean over test queries of the mean code, 0 to 2), difference = embedding - bm25 with its
    95 % bootstrap interval low, high, p_value of the paired t-test, n_queries.
    """
    from scipy.stats import ttest_rel

    value = pd.Series(codes(pairs, column), index=pairs.index)
    mean = {
        method: value[pairs["source"].isin([method, "both"])].groupby(pairs["test_query_id"]).mean()
        for method in ("bm25", "embedding")
    }
    table = pd.DataFrame(mean).dropna()
    if len(table) < 2:
        raise InputError("recall_comparison needs two test queries or more with candidates of both methods")
    difference = (table["embedding"] - table["bm25"]).to_numpy()
    draws = np.random.default_rng(seed).integers(0, len(table), (resamples, len(table)))
    low, high = np.quantile(difference[draws].mean(axis=1), [0.025, 0.975])
    p = ttest_rel(table["embedding"], table["bm25"]).pvalue if difference.any() else 1.0
    row = {**table.mean(), "difference": difference.mean(), "low": low, "high": high, "p_value": p}
    return pd.DataFrame([{**row, "n_queries": len(table)}])


def _stack(sheets: Sequence[pd.DataFrame]) -> dict[str, np.ndarray]:
    """Per label column the codes int64[n_annotators, n_pairs], in the order of the first sheet."""
    if not sheets:
        raise InputError("no annotation sheet given")
    first = pd.MultiIndex.from_frame(sheets[0][PAIR])
    out = {column: [] for column in LABELS}
    for number, sheet in enumerate(sheets, 1):
        index = pd.MultiIndex.from_frame(sheet[PAIR])
        if len(index) != len(first) or not index.isin(first).all() or index.has_duplicates:
            odd = first.symmetric_difference(index)
            raise InputError(
                f"annotator {number} labelled other pairs than annotator 1: {offenders(odd)}; use one sheet"
            )
        at = index.get_indexer(first)
        for column in LABELS:
            out[column].append(codes(sheet, column)[at])
    return {column: np.stack(given) for column, given in out.items()}

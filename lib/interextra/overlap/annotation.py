"""Annotating how far test queries overlap with training queries in entities and intent (Zhan §3.2,
Tables 1 and 2).

Three annotators label at most 20 candidates a test query (10 training queries by BM25, 10 by
embedding). A sheet is a CSV file with the columns of `SHEET` and empty labels, one row a pair: fill
it in a spreadsheet or in the widget of `annotating`. Taught in
notebooks/01_overlap_annotation_analysis.
"""

import csv
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.overlap.labels import LABELS
from interextra.store import InputError, offenders, write_text

TEXT = ["test_query", "train_query", "source"]
SHEET = (
    "test_query_id",
    "test_query",
    "train_query_id",
    "train_query",
    "source",
    "entity",
    "intent",
)
PAIR = ["test_query_id", "train_query_id"]


def write_sheet(path: Path | str, pairs: pd.DataFrame) -> None:
    """Write `pairs` (columns of `SHEET`) as an annotation sheet; the file appears only when it is
    complete.
    """
    write_text(path, pairs.to_csv(columns=list(SHEET), index=False))


def read_sheet(
    path: Path | str, pairs: pd.DataFrame | None = None, complete: bool = True
) -> pd.DataFrame:
    """The columns of `SHEET` of an annotation sheet; InputError says in which lines a pair or label
    is wrong.

    `pairs`: what the sheet was written from: all of them must be there, with texts and source
    unchanged, and give the order, else the file does. `complete`: whether each row must be
    labelled.
    """
    header, *rows = _places_and_fields(path) or [[f"{path}:1"]]
    wrong = [place for place, *row in rows if len(row) != len(SHEET)]
    if wrong or tuple(header[1:]) != SHEET:
        raise InputError(
            f"{offenders(wrong) or header[0]}: columns must be {', '.join(SHEET)}; export as CSV"
        )
    if not rows:
        raise InputError(f"{path}: no pairs in it; write the sheet again")
    sheet = pd.DataFrame(rows, columns=["place", *SHEET], dtype=object)
    name, faults = sheet["test_query_id"] + " – " + sheet["train_query_id"], []
    for column, known in LABELS.items():
        sheet[column] = given = sheet[column].str.strip().str.lower()
        faults.append(
            (~given.isin([*known, ""]), f"{column} label " + given, f"use {', '.join(known)}")
        )
        faults.append(((given == "") & complete, f"no {column} label: " + name, "label every row"))
    faults.append((sheet.duplicated(PAIR), "pair twice: " + name, "keep one row a pair"))
    if pairs is not None:
        asked = sheet[PAIR].merge(pairs[[*PAIR, *TEXT]].astype(object), on=PAIR, how="left")
        faults.append(
            (
                asked["source"].isna(),
                "pair that was not asked for: " + name,
                "keep the pairs of the sheet",
            )
        )
        faults += [
            (sheet[c] != asked[c], f"changed {c}: " + sheet[c], "change labels only") for c in TEXT
        ]
    for bad, what, hint in faults:
        if bad.any():
            where = sheet["place"][bad] + ": " + what[bad]
            raise InputError(f"{bad.sum()} rows of the sheet are wrong: {offenders(where)}; {hint}")
    sheet = sheet[list(SHEET)]
    if pairs is None:
        return sheet
    there, asked = (
        pd.MultiIndex.from_frame(frame[PAIR].astype(object)) for frame in (sheet, pairs)
    )
    if len(missing := asked[~asked.isin(there)]):
        raise InputError(
            f"{path}: {len(missing)} pairs are missing ({offenders(missing)}); put the rows back"
        )
    return sheet.iloc[there.get_indexer(asked)].reset_index(drop=True)


def _places_and_fields(path: Path | str) -> list[list[str]]:
    """Of each row of a CSV file that is not empty: `file:line`, and its fields."""
    try:
        with open(
            path, newline="", encoding="utf-8-sig"
        ) as file:  # spreadsheets put a byte order mark first
            reader = csv.reader(file)
            return [[f"{path}:{reader.line_num}", *row] for row in reader if any(row)]
    except (
        OSError,
        ValueError,
    ) as error:  # also UnicodeDecodeError, and a name that no file can have
        raise InputError(
            f"{path}: cannot be read ({error}); export the sheet as CSV in UTF-8"
        ) from None
    except csv.Error as error:  # a field of 131,072 characters, a line end that is none
        told = f"{path}:{reader.line_num}: not CSV ({error})"
        raise InputError(f"{told}; close the quotation marks, and export the sheet again") from None


def codes(sheet: pd.DataFrame, column: str) -> np.ndarray:
    """Labels of the column entity or intent as int64 codes: 2 full/duplicate, 1 partial/similar, 0
    zero/dissimilar.
    """
    found = pd.Index(LABELS[column][::-1]).get_indexer(sheet[column])
    if (found < 0).any():
        raise InputError(
            f"unknown {column} labels {offenders(sheet.loc[found < 0, column].unique())}"
        )
    return found


def with_codes(pairs: pd.DataFrame, entity: np.ndarray, intent: np.ndarray) -> pd.DataFrame:
    """The pairs labelled by codes 0, 1, 2: a filled sheet."""
    given = {"entity": entity, "intent": intent}
    return pairs.assign(
        **{column: np.array(LABELS[column], object)[2 - code] for column, code in given.items()}
    )


def median_labels(sheets: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One label a pair: the median over the annotators' sheets (an even number of them: the lower,
    less overlap).

    The sheets hold the same pairs in one order, as `read_sheet` with `pairs` gives them.
    """
    middle = (len(sheets) - 1) // 2
    return with_codes(
        sheets[0], *(np.sort(given, axis=0)[middle] for given in _stack(sheets).values())
    )


def query_labels(pairs: pd.DataFrame) -> pd.DataFrame:
    """One entity and one intent label a test query, the highest overlap of its pairs (Zhan §3.2),
    by test_query_id.

    >>> pairs = pd.DataFrame({"test_query_id": ["a", "a", "b"], "entity": ["zero", "partial", "zero"]})
    >>> query_labels(pairs.assign(intent=["similar", "duplicate", "dissimilar"])).values.tolist()
    [['partial', 'duplicate'], ['zero', 'dissimilar']]
    """
    found = pd.DataFrame({column: codes(pairs, column) for column in LABELS})
    best = (
        found.groupby(pairs["test_query_id"].to_numpy(), sort=False)
        .max()
        .rename_axis("test_query_id")
    )
    return with_codes(best, *best.to_numpy().T)


def kappa(sheets: Sequence[pd.DataFrame], weights: str | None = None) -> pd.DataFrame:
    """Cohen's kappa of each pair of annotators and, as row `average`, their mean: the published .59
    and .54.

    `weights` None (as the paper), "linear" or "quadratic". NaN where both annotators use one and
    the same label only. Returns DataFrame[label, annotators, kappa, n_pairs]; annotators like
    "1-2", numbered as given.
    """
    from sklearn.metrics import cohen_kappa_score

    rows, options = [], {"weights": weights, "labels": [0, 1, 2]}
    for label, given in _stack(sheets).items():
        found = {}
        for (a, one), (b, other) in combinations(enumerate(given, 1), 2):
            found[f"{a}-{b}"] = (
                cohen_kappa_score(one, other, **options) if np.ptp([one, other]) else np.nan
            )
        found["average"] = np.mean(list(found.values()))
        rows += [(label, annotators, value) for annotators, value in found.items()]
    return pd.DataFrame(rows, columns=["label", "annotators", "kappa"]).assign(
        n_pairs=len(sheets[0])
    )


def pair_truth(pairs: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The pairs with their true labels, where queries carry the columns entities (lists), intent
    and intent_group.

    full: exactly the same entities, partial: a common one; duplicate: same intent, similar: a
    common entity and the same group. The rules of `world.truth`, for each pair rather than for a
    test query against all of training.
    """
    left = test.set_index("query_id").loc[pairs["test_query_id"]]
    right = train.set_index("query_id").loc[pairs["train_query_id"]]
    sets = [(set(a), set(b)) for a, b in zip(left["entities"], right["entities"], strict=True)]
    common, same = np.array([(bool(a & b), a == b) for a, b in sets]).reshape(-1, 2).T
    near = common & (left["intent_group"].to_numpy() == right["intent_group"].to_numpy())
    duplicate = left["intent"].to_numpy() == right["intent"].to_numpy()
    return with_codes(
        pairs, np.where(common, 1 + same, 0), np.where(duplicate, 2, near.astype(np.int64))
    )


def _stack(sheets: Sequence[pd.DataFrame]) -> dict[str, np.ndarray]:
    """Per label column the codes int64[n_annotators, n_pairs]."""
    if not all(
        sheet[PAIR].to_numpy().tolist() == sheets[0][PAIR].to_numpy().tolist() for sheet in sheets
    ):
        raise InputError(
            "the sheets hold other pairs, or in another order: read each with the same `pairs`"
        )
    return {column: np.stack([codes(sheet, column) for sheet in sheets]) for column in LABELS}

"""Annotating how far test queries overlap with training queries in entities and intent.

Zhan et al., CIKM 2022, §3.2, Tables 1 and 2. Three annotators label at most 20 candidates a test
query (10 training queries by BM25, 10 by embedding). A sheet is a CSV file with the columns of
`SHEET` and empty labels, one row a pair: fill it in a spreadsheet or in the widget of
`overlap.widget`. Taught in notebooks/01_overlap_annotation_analysis.
"""

import csv
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.overlap.labels import LABELS
from interextra.store import InputError, offenders, write_text

PAIR = ["test_query_id", "train_query_id"]
TEXT = ["test_query", "train_query", "source"]  # what an annotator must leave as it is
SHEET = [
    "test_query_id",
    "test_query",
    "train_query_id",
    "train_query",
    "source",
    "entity",
    "intent",
]


def write_sheet(path: Path | str, pairs: pd.DataFrame) -> None:
    """Write `pairs` (columns of `SHEET`) as an annotation sheet.

    The file appears only when it is complete.
    """
    write_text(path, pairs.to_csv(columns=SHEET, index=False))


def read_sheet(
    path: Path | str, pairs: pd.DataFrame | None = None, complete: bool = True
) -> pd.DataFrame:
    """Read the columns of `SHEET` of an annotation sheet.

    Parameters
    ----------
    path : path-like
        A CSV file in UTF-8; labels may have capitals and spaces around them.
    pairs : pandas.DataFrame, optional
        What the sheet was written from: all of them must be there, with texts and source unchanged,
        and give the order, else the file does.
    complete : bool
        Whether each row must be labelled.

    Raises
    ------
    InputError
        Says in which lines a pair or label is wrong.
    """
    sheet = _parsed(path)
    pair_names = sheet["test_query_id"] + " – " + sheet["train_query_id"]
    for column, known in LABELS.items():
        label = sheet[column].str.strip().str.lower()
        sheet[column] = label
        is_known = label.isin([*known, ""])
        hint = f"use {', '.join(known)}"
        unknown = label[~is_known]
        _refuse(unknown, f"{column} label ", hint)
        if complete:
            unlabelled = pair_names[label == ""]
            _refuse(unlabelled, f"no {column} label: ", "label every row")
    _refuse(pair_names[sheet.duplicated(PAIR)], "pair twice: ", "keep one row a pair")
    if pairs is not None:
        _refuse_changes(sheet, pair_names, pairs)
        sheet = _in_order(sheet, pairs, path)
    return sheet.reset_index(drop=True)


def _parsed(path: Path | str) -> pd.DataFrame:
    """Read a sheet as it stands in the file; the index is file:line of each row."""
    lines = _places_and_fields(path)
    if not lines:  # an empty file
        lines = [(f"{path}:1", [])]
    header_place, header = lines[0]
    rows = dict(lines[1:])
    n_columns = len(SHEET)
    wrong_places = []
    for place, fields in rows.items():
        if len(fields) != n_columns:
            wrong_places.append(place)
    if wrong_places or header != SHEET:
        where = offenders(wrong_places) or header_place
        columns = ", ".join(SHEET)
        raise InputError(f"{where}: columns must be {columns}; export as CSV")
    if not rows:
        raise InputError(f"{path}: no pairs in it; write the sheet again")
    return pd.DataFrame.from_dict(rows, orient="index", dtype=object, columns=SHEET)


def _places_and_fields(path: Path | str) -> list[tuple[str, list[str]]]:
    """Return `file:line` and the fields of each row of a CSV file that is not empty."""
    try:
        # spreadsheets put a byte order mark first
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            rows = []
            for fields in reader:
                place = f"{path}:{reader.line_num}"
                if any(fields):
                    rows.append((place, fields))
            return rows
    except csv.Error as error:  # a field of 131,072 characters, a line end that is none
        raise InputError(
            f"{path}:{reader.line_num}: not CSV ({error}); "
            "close the quotation marks, and export the sheet again"
        ) from None
    except (OSError, ValueError) as error:  # also UnicodeDecodeError, a name that no file can have
        raise InputError(
            f"{path}: cannot be read ({error}); export the sheet as CSV in UTF-8"
        ) from None


def _refuse(wrong: pd.Series, fault: str, hint: str) -> None:
    """Raise InputError with the first of the values that are wrong, indexed by their place."""
    if len(wrong):
        shown = wrong.index + ": " + fault + wrong
        counted = f"{len(wrong)} rows of the sheet"
        raise InputError(f"{counted} are wrong: {offenders(shown)}; {hint}")


def _refuse_changes(sheet: pd.DataFrame, pair_names: pd.Series, pairs: pd.DataFrame) -> None:
    """Raise InputError for pairs that were not asked for, and for texts that were changed."""
    texts = pairs[PAIR + TEXT].astype(object)
    asked = sheet[PAIR].merge(texts, on=PAIR, how="left")
    asked.index = sheet.index
    is_foreign = asked["source"].isna()
    _refuse(pair_names[is_foreign], "pair that was not asked for: ", "keep the pairs of the sheet")
    for column in TEXT:
        text = sheet[column]
        changed = text[text != asked[column]]
        _refuse(changed, f"changed {column}: ", "change labels only")


def _in_order(sheet: pd.DataFrame, pairs: pd.DataFrame, path: Path | str) -> pd.DataFrame:
    """Return the rows of the sheet in the order of the pairs, all of which must be there."""
    there = pd.MultiIndex.from_frame(sheet[PAIR])
    asked_pairs = pairs[PAIR].astype(object)
    asked = pd.MultiIndex.from_frame(asked_pairs)
    missing = asked[~asked.isin(there)]
    if len(missing):
        raise InputError(
            f"{path}: {len(missing)} pairs are missing ({offenders(missing)}); put the rows back"
        )
    return sheet.iloc[there.get_indexer(asked)]


def codes(sheet: pd.DataFrame, column: str) -> np.ndarray:
    """Return the labels of the column entity or intent as codes, int64[n].

    2 is full or duplicate, 1 partial or similar, 0 zero or dissimilar.
    """
    from_most = LABELS[column]
    from_least = pd.Index(from_most[::-1])
    found = from_least.get_indexer(sheet[column])
    is_unknown = found < 0
    unknown = sheet.loc[is_unknown, column].unique()
    if len(unknown):
        raise InputError(f"unknown {column} labels {offenders(unknown)}")
    return found


def with_codes(pairs: pd.DataFrame, entity: np.ndarray, intent: np.ndarray) -> pd.DataFrame:
    """Return the pairs labelled by codes 0, 1, 2 (see `codes`): a filled sheet."""
    # labels stand from the most to the least overlap
    entity_labels = np.array(LABELS["entity"], object)
    intent_labels = np.array(LABELS["intent"], object)
    return pairs.assign(
        entity=entity_labels[2 - entity],
        intent=intent_labels[2 - intent],
    )


def median_labels(sheets: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one label a pair: the median over the annotators' sheets.

    Of an even number of them the lower median, less overlap. The sheets hold the same pairs in one
    order, as `read_sheet` with `pairs` gives them.
    """
    middle = (len(sheets) - 1) // 2
    medians = {}
    for column, given in _codes_of_annotators(sheets).items():
        from_least = np.sort(given, axis=0)
        medians[column] = from_least[middle]
    return with_codes(sheets[0], **medians)


def query_labels(pairs: pd.DataFrame) -> pd.DataFrame:
    """Return one entity and one intent label a test query, the highest overlap of its pairs.

    Zhan §3.2. The index is test_query_id.

    Examples
    --------
    >>> pairs = pd.DataFrame({"test_query_id": ["a", "a", "b"]})
    >>> pairs = pairs.assign(entity=["zero", "partial", "zero"])
    >>> pairs = pairs.assign(intent=["similar", "duplicate", "dissimilar"])
    >>> query_labels(pairs).values.tolist()
    [['partial', 'duplicate'], ['zero', 'dissimilar']]
    """
    codes_of_pairs = {column: codes(pairs, column) for column in LABELS}
    query_ids = pairs["test_query_id"].to_numpy()
    pairs_of_query = pd.DataFrame(codes_of_pairs).groupby(query_ids, sort=False)
    highest = pairs_of_query.max().rename_axis("test_query_id")
    entity = highest["entity"].to_numpy()
    intent = highest["intent"].to_numpy()
    return with_codes(highest, entity, intent)


def kappa(sheets: Sequence[pd.DataFrame], weights: str | None = None) -> pd.DataFrame:
    """Compute Cohen's kappa of each pair of annotators and their mean: the published .59 and .54.

    Parameters
    ----------
    sheets : sequence of pandas.DataFrame
        One an annotator, as for `median_labels`.
    weights : {None, "linear", "quadratic"}
        None as the paper.

    Returns
    -------
    pandas.DataFrame
        label, annotators, kappa, n_pairs. Annotators like "1-2", numbered as given; their mean is
        the row `average`. NaN where both annotators use one and the same label only.
    """
    rows = []
    for label, given in _codes_of_annotators(sheets).items():
        values = []
        for first, second in combinations(range(len(sheets)), 2):
            annotators = f"{first + 1}-{second + 1}"
            value = _cohen_kappa(given[first], given[second], weights)
            rows.append((label, annotators, value))
            values.append(value)
        mean = float(np.mean(values))
        rows.append((label, "average", mean))
    frame = pd.DataFrame(rows, columns=["label", "annotators", "kappa"])
    return frame.assign(n_pairs=len(sheets[0]))


def _cohen_kappa(first: np.ndarray, second: np.ndarray, weights: str | None) -> float:
    """Return Cohen's kappa of two annotators' codes; NaN where they are all the same."""
    from sklearn.metrics import cohen_kappa_score

    if np.ptp([first, second]) == 0:
        return np.nan
    return cohen_kappa_score(first, second, weights=weights, labels=[0, 1, 2])


def _codes_of_annotators(sheets: Sequence[pd.DataFrame]) -> dict[str, np.ndarray]:
    """Return the codes int64[n_annotators, n_pairs] of each label column."""
    pairs = sheets[0][PAIR].to_numpy().tolist()
    for sheet in sheets:
        if sheet[PAIR].to_numpy().tolist() != pairs:
            raise InputError(
                "the sheets hold other pairs, or in another order: read each with the same `pairs`"
            )
    stacked = {}
    for column in LABELS:
        codes_of_sheets = [codes(sheet, column) for sheet in sheets]
        stacked[column] = np.stack(codes_of_sheets)
    return stacked


def pair_truth(pairs: pd.DataFrame, test: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Return the pairs with their true labels.

    full: exactly the same entities, partial: a common one; duplicate: same intent, similar: a
    common entity and the same group. The rules of `world.truth`, for each pair rather than for a
    test query against all of training.

    Parameters
    ----------
    pairs : pandas.DataFrame
        test_query_id and train_query_id.
    test, train : pandas.DataFrame
        Queries with the columns query_id, entities (lists), intent and intent_group.
    """
    tested = test.set_index("query_id").loc[pairs["test_query_id"]]
    trained = train.set_index("query_id").loc[pairs["train_query_id"]]
    entity_codes = map(_entity_code, tested["entities"], trained["entities"])
    entity = np.fromiter(entity_codes, np.int64)
    names = ["intent", "intent_group"]
    is_same = tested[names].to_numpy() == trained[names].to_numpy()
    same_intent, same_group = is_same.T
    is_similar = (entity > 0) & same_group
    intent = np.select([same_intent, is_similar], [2, 1], 0)
    return with_codes(pairs, entity, intent)


def _entity_code(tested: list[str], trained: list[str]) -> int:
    """Return 2 for the same entities, 1 for a common one, else 0."""
    if set(tested).isdisjoint(trained):
        return 0
    return 2 if set(tested) == set(trained) else 1

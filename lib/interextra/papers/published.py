"""The tables of the three papers as data, and the one comparison of a measured with a published number.

The numbers stand as printed in `published/*.yaml`; `published_yaml` reads them.
"""

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.study import published_yaml
from interextra.papers.published_yaml import CORE, SEPARATOR, UNITS

FOLDER = Path(__file__).with_name("published")
CHANGES = ("percent change", "percent loss")


def papers() -> list[str]:
    """Names that `load` knows.

    >>> papers()
    ['hofstaetter', 'lupart', 'zhan']
    """
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def tables(paper: str) -> pd.DataFrame:
    """What a paper has: DataFrame[paper, table, caption, source, n_cells, notes (list of str)], a row a table."""
    document = _document(paper)
    found = [
        {
            "paper": paper,
            "table": number,
            "caption": table["caption"],
            "source": published_yaml.source(document, number),
            "n_cells": len(table["rows"]) * len(table["columns"]),
            "notes": list(table.get("notes", [])),
        }
        for number, table in document["tables"].items()
    ]
    return pd.DataFrame(found)


def load(paper: str, table: str | int | None = None) -> pd.DataFrame:
    """Every cell of a paper, or of one of its tables, in long form and in printed order.

    Returns
    -------
    DataFrame[paper, table, row, column, value, unit, source, scaled, decimals, text, note, ...]
        `value` as printed, `scaled` on our scale (a fraction), `decimals` as printed, `text` where it is no number;
        missing where the paper gives nothing or the text is unreadable (`note` says which). Then the row keys and
        attributes, such as model, n_train, measure, regime, collection, protocol.

    Raises
    ------
    InputError
        Unknown paper or table, or a table without numbers.

    >>> load("zhan", 7)["scaled"].head(3).round(3).tolist()
    [0.189, 0.188, -0.01]
    """
    frame = _frame(paper)
    if table is None:
        return frame.copy()
    table = str(table)
    known = _document(paper)["tables"]
    if table not in known:
        raise InputError(f"{paper} has no table {table!r}: {_near(table, known)}")
    part = frame[frame["table"] == table].reset_index(drop=True)
    if part.empty:
        raise InputError(f"{paper}, table {table}: no numbers. {' '.join(known[table].get('notes', []))}".rstrip())
    return part[[c for c in part if c in CORE or part[c].notna().any()]]


def wide(paper: str, table: str | int, scaled: bool = False) -> pd.DataFrame:
    """One table as it is printed: rows by columns, values as printed or `scaled`; text cells as text."""
    cells = load(paper, table)
    shown = cells["scaled" if scaled else "value"].astype(object).where(cells["text"].isna(), cells["text"])
    grid = cells.assign(shown=shown).pivot(index="row", columns="column", values="shown")
    return grid.reindex(index=cells["row"].unique(), columns=cells["column"].unique()).infer_objects()


def lookup(paper: str, table: str | int, row: str | Sequence[str], column: str | Sequence[str]) -> dict[str, Any]:
    """One cell as a record of plain Python values; `row` and `column` may be given as their parts.

    Raises
    ------
    InputError
        Names that the table does not have; the message lists near ones.

    >>> cell = lookup("zhan", 6, ("14k", "SPLADE"), "nDCG@10 | Δ")
    >>> cell["value"], cell["unit"], cell["source"]
    (-18.0, 'percent change', 'Zhan et al., CIKM 2022, section 5.1.2, Table 6')
    """
    cells = load(paper, table)
    for name, asked in (("row", row), ("column", column)):
        asked = asked if isinstance(asked, str) else SEPARATOR.join(map(str, asked))
        found = cells[cells[name] == asked]
        if found.empty:
            # Against the whole table: a wrong row must not depend on which column was asked for.
            raise InputError(f"{paper}, table {table}: no {name} {asked!r}: {_near(asked, cells[name].unique())}")
        cells = found
    record = cells.iloc[0].to_dict()
    return {
        key: None if pd.isna(value) else getattr(value, "item", lambda v=value: v)() for key, value in record.items()
    }


def compare(
    measured: float | None, published: float | None, tolerance: float, kind: str = "absolute"
) -> dict[str, float | bool | str | None]:
    """Compare two numbers on the same scale, two-sided: a higher value is as much a mismatch as a lower one.

    Parameters
    ----------
    tolerance : largest accepted |measured - published| (absolute), or that divided by |published| (relative); inclusive
    kind : "absolute" or "relative"

    Returns
    -------
    dict with measured, published, difference, relative_difference, tolerance, kind, within, verdict
        verdict is match, higher, lower, not measured or not published; a missing number gives `within` None. JSON-able.

    >>> [compare(m, 0.488, 0.01)["verdict"] for m in (0.470, 0.495, 0.520, None)]
    ['lower', 'match', 'higher', 'not measured']
    """
    if kind not in ("absolute", "relative"):
        raise InputError(f'kind of comparison {kind!r}: use "absolute" or "relative"')
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise InputError(f"tolerance {tolerance!r}: use a finite number that is not negative")
    m, p = _number(measured), _number(published)
    result = {"measured": m, "published": p, "difference": None, "relative_difference": None}
    result |= {"tolerance": float(tolerance), "kind": kind, "within": None, "verdict": "not measured"}
    if m is None or p is None:
        return result | ({"verdict": "not published"} if p is None else {})
    difference = m - p
    bound = tolerance * (abs(p) if kind == "relative" else 1.0)
    # The margin is for binary fractions only: 0.31 - 0.30 must be within 0.01.
    within = abs(difference) <= bound + 1e-12
    result |= {"difference": difference, "relative_difference": difference / abs(p) if p else None, "within": within}
    return result | {"verdict": "match" if within else "higher" if difference > 0 else "lower"}


def beside(
    measured: pd.DataFrame,
    published: pd.DataFrame,
    on: Sequence[str],
    tolerance: float | Mapping[str, float] | None = None,
    kind: str = "absolute",
    value: str = "value",
    how: str = "outer",
) -> pd.DataFrame:
    """Put measured values beside published ones and compare each pair with `compare`.

    Parameters
    ----------
    measured : DataFrame[*on, `value`, ...], on our scale: scores and changes as fractions; other columns are kept
    published : rows of `load` (text cells are left out), in the order wanted
    on : columns that name a cell on both sides, compared as text; each combination at most once a side
    tolerance : one number, or one per unit ({"score": 0.02, "percent change": 0.05}); None is half a unit of the last
        printed decimal, that is equality after rounding
    how : "outer" also shows what only one side has; "inner", "left" (measured) or "right" (published) as in pandas

    Returns
    -------
    DataFrame[*on, measured, published, difference, relative_difference, tolerance, within, verdict, direction_agrees,
    unit, source, note, ...]
        `direction_agrees` holds for changes only: same sign on both sides; None where the published change is 0 %.

    Raises
    ------
    InputError
        Missing columns, a cell named twice, or a unit without tolerance.
    """
    on = list(on)
    _check_side("measured", measured, [*on, value], on)
    _check_side("published", published, [*on, "value"], on)
    right = published[published["unit"] != "text"] if "unit" in published else published.assign(unit="score")
    right = right.reindex(columns=[*on, "value", "scaled", "unit", "decimals", "source", "note"])
    right["published"] = right.pop("value") if right["scaled"].isna().all() else right["scaled"]
    right = right.drop(columns=["value", "scaled"], errors="ignore").assign(_order=range(len(right)))
    extra = [c for c in measured if c not in {*on, value, *right.columns, *compare(0, 0, 0), "direction_agrees"}]
    left = measured[[*on, value, *extra]].rename(columns={value: "measured"})
    left[on], right[on] = _as_text(left[on]), _as_text(right[on])
    both = left.merge(right, on=on, how=how).sort_values("_order", kind="stable", na_position="last", ignore_index=True)
    bounds = [_tolerance(tolerance, kind, *cell) for cell in zip(both["unit"], both["decimals"], strict=True)]
    pairs = zip(both["measured"], both["published"], bounds, strict=True)
    verdicts = pd.DataFrame([compare(m, p, t, kind) for m, p, t in pairs], columns=list(compare(0, 0, 0)))
    verdicts["within"] = verdicts["within"].astype(object)
    both["direction_agrees"] = pd.Series(
        [_direction(*cell) for cell in zip(both["unit"], both["measured"], both["published"], strict=True)],
        dtype=object,
    )
    for name in ("difference", "relative_difference", "tolerance", "within", "verdict"):
        both[name] = verdicts[name]
    numbers = ["measured", "published", "difference", "relative_difference", "tolerance"]
    both[numbers] = both[numbers].astype(float)
    return both[[*on, *numbers, "within", "verdict", "direction_agrees", "unit", "source", "note", *extra]]


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(value)


def _direction(unit: str, measured: float, published: float) -> bool | None:
    if unit not in CHANGES or pd.isna(measured) or pd.isna(published) or published == 0:
        return None
    return bool(measured * published > 0)


def _tolerance(tolerance: float | Mapping[str, float] | None, kind: str, unit: Any, decimals: Any) -> float:
    if pd.isna(unit):  # measured only: nothing to compare with
        return 0.0
    if isinstance(tolerance, Mapping):
        if unit not in tolerance:
            raise InputError(f"no tolerance for the unit {unit!r}: give one, there are {offenders(tolerance)}")
        return tolerance[unit]
    if tolerance is not None:
        return tolerance
    if kind == "relative" or pd.isna(decimals):
        raise InputError(
            "the rounding of the printed number is an absolute tolerance of a table from load: give a tolerance"
        )
    return 0.5 * 10 ** -float(decimals) * UNITS[unit]


def _check_side(side: str, frame: pd.DataFrame, needed: Sequence[str], on: Sequence[str]) -> None:
    if absent := [c for c in needed if c not in frame]:
        raise InputError(
            f"{side} values have no column {offenders(absent)}: there are {', '.join(map(str, frame.columns))}"
        )
    twice = frame.loc[_as_text(frame[on]).duplicated(), on]
    if len(twice):
        shown = offenders(SEPARATOR.join(map(str, cell)) for cell in twice.itertuples(index=False))
        raise InputError(f"{side} values name a cell twice: {shown}; add the columns to `on` that tell them apart")


def _as_text(keys: pd.DataFrame) -> pd.DataFrame:
    return keys.astype(object).where(keys.notna(), "").astype(str)


def _near(asked: str, known: Sequence[str]) -> str:
    known = [str(name) for name in known]
    near = get_close_matches(asked, known, n=5, cutoff=0.4)
    return f"near names are {offenders(near, 5)}" if near else f"there are {offenders(known, 12)}"


@lru_cache
def _document(paper: str) -> dict[str, Any]:
    if paper not in papers():
        raise InputError(f"no published tables of {paper!r}: {_near(paper, papers())}")
    return published_yaml.read(FOLDER / f"{paper}.yaml")


@lru_cache
def _frame(paper: str) -> pd.DataFrame:
    return published_yaml.long(_document(paper), FOLDER / f"{paper}.yaml")

"""Reads `published/*.yaml`: checks the file and lays its tables out in long form, a row a cell.

A file has, per table, the row keys, the columns and the rows. A cell's attributes (unit, measure, regime, collection)
come from, in rising precedence: the table's `cells`, the file's `labels` for each part of the column's name
("R@100 | Inter." has two), the column's own, the row's keys, and the `where` rules that the cell meets.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from interextra.ground.errors import InputError, offenders

SEPARATOR = " | "
#: Factor from a printed value to the scale that we measure on: scores and changes are fractions.
UNITS = {
    "score": 1.0,
    "score x100": 0.01,
    "percent": 0.01,
    "percent change": 0.01,  # Extra. / Inter. - 1: negative is worse (Zhan)
    "percent loss": 0.01,  # (Avg In - Out) / Avg In: positive is worse (Lupart)
    "correlation": 1.0,
    "count": 1.0,
    "factor": 1.0,
    "flag": 1.0,
    "text": math.nan,
}
CORE = ["paper", "table", "row", "column", "value", "unit", "source", "scaled", "decimals", "text", "note"]
REQUIRED = {"section", "caption", "keys", "columns", "rows"}
OPTIONAL = {"cells", "where", "notes", "null_means"}


def read(path: Path) -> dict[str, Any]:
    """One paper's file, checked for fields and row widths; `InputError` names file and table."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    for number, table in document["tables"].items():
        where = f"{path.name}, table {number}"
        if (absent := REQUIRED - set(table)) or (unknown := set(table) - REQUIRED - OPTIONAL):
            raise InputError(
                f"{where}: fields missing {sorted(absent)} or unknown {sorted(set() if absent else unknown)}"
            )
        if isinstance(table["columns"], list):
            table["columns"] = {name: {} for name in table["columns"]}
        width = len(table["keys"]) + len(table["columns"])
        if wrong := [row[: len(table["keys"])] for row in table["rows"] if len(row) != width]:
            raise InputError(f"{where}: rows that do not have {width} entries: {offenders(wrong)}")
    return document


def source(document: Mapping[str, Any], number: str) -> str:
    """Paper, section and table in words."""
    section = document["tables"][number]["section"]
    return f"{document['reference']}, section {section}, Table {number.rstrip('ab')}"


def long(document: Mapping[str, Any], path: Path) -> pd.DataFrame:
    """All cells of a checked document, a row a cell; `InputError` names file, table, row and column."""
    labels, found = document.get("labels", {}), []
    for number, table in document["tables"].items():
        keys, where = table["keys"], f"{path.name}, table {number}"
        rules = [(rule["when"], rule["set"], []) for rule in table.get("where", [])]
        for row in table["rows"]:
            names = dict(zip(keys, row, strict=False))
            title = SEPARATOR.join(str(name) for name in names.values() if name is not None)
            for (column, own), value in zip(table["columns"].items(), row[len(keys) :], strict=True):
                cell = {"paper": document["paper"], "table": number, "row": title, "column": column}
                cell |= {
                    "source": source(document, number),
                    "unit": None,
                    "decimals": None,
                    "note": "",
                    **table.get("cells", {}),
                }
                for part in column.split(SEPARATOR):
                    cell |= labels.get(part, {})
                cell |= own | names
                for when, change, used in rules:
                    if all(cell.get(name) == wanted for name, wanted in when.items()):
                        cell |= change
                        used.append(True)
                found.append(_valued(cell, value, table.get("null_means"), where))
        if idle := [when for when, _, used in rules if not used]:
            raise InputError(f"{where}: rules that match no cell: {offenders(idle)}")
    frame = pd.DataFrame(found)
    if frame.duplicated(["table", "row", "column"]).any():
        twice = frame.loc[frame.duplicated(["table", "row", "column"]), ["table", "row", "column"]]
        raise InputError(
            f"{path.name}: cells that stand there twice: {offenders(twice.itertuples(index=False, name=None))}"
        )
    return frame[CORE + [c for c in frame if c not in CORE]].astype(
        {"decimals": "Int64", "value": float, "scaled": float}
    )


def _valued(cell: dict[str, Any], value: Any, null_means: str | None, where: str) -> dict[str, Any]:
    at = f"{where}, {cell['row']!r}, {cell['column']!r}"
    if cell["unit"] not in UNITS:
        raise InputError(f"{at}: unit {cell['unit']!r} is not one of {', '.join(UNITS)}")
    is_text = cell["unit"] == "text"
    if value is None and not (null_means or cell["note"]):
        raise InputError(f"{at}: null without a note: say why there is no value")
    if value is not None and (isinstance(value, bool) or isinstance(value, str) != is_text):
        raise InputError(f"{at}: {value!r} is not a value in the unit {cell['unit']!r}")
    number = math.nan if value is None or is_text else float(value)
    note = cell["note"] or (null_means if value is None else "")
    scaled = number * UNITS[cell["unit"]]
    return cell | {"value": number, "scaled": scaled, "text": value if is_text else None, "note": note}

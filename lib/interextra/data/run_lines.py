"""TREC run files: all rows at once, and a slow second look only where a line is wrong."""

import gzip
import math
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv

from interextra.ground.errors import InputError, offenders

COLUMNS = ["query_id", "iteration", "doc_id", "rank", "score", "tag"]
KEPT = ["query_id", "doc_id", "score"]
EXPECTED = "expected lines of `query_id Q0 doc_id rank score tag`"


def read_trec(path: Path) -> pa.Table:
    """Columns query_id, doc_id, score (float64) of a TREC run, text or gzip, any whitespace between the six columns.

    Raises InputError with the lines and the first three offenders: not six columns, a score that is not a number, not
    UTF-8, no rows at all.
    """
    data = _file_bytes(path)
    try:
        table = _parse(data)
    except pa.ArrowInvalid:
        table = _parse_slowly(path, data)
    if not len(table):
        raise InputError(f"{path}: line 1: the run is empty; {EXPECTED}")
    if np.isnan(table["score"].to_numpy()).any():
        _parse_slowly(path, data)
    return table


def refuse_duplicates(path: Path) -> None:
    """Raise InputError with the lines where a (query_id, doc_id) pair comes again."""
    lines = [(number, fields) for number, fields in _lines(_file_bytes(path)) if fields]
    pairs = pd.Series([(fields[0], fields[2]) for _, fields in lines])
    again = np.flatnonzero(pairs.duplicated())
    if len(again):
        raise InputError(
            f"{path}: {_numbers(lines[i][0] for i in again)}: the same passage a second time in one query: "
            f"{offenders(pairs[i] for i in again)} (query_id, doc_id); keep one of each"
        )


def _file_bytes(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: damaged gzip file ({error}); fetch or write it again") from error


def _parse(data: bytes) -> pa.Table:
    """All rows at once; whitespace of any kind and length becomes one space first."""
    data = data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    if b"  " in data:
        data = re.sub(rb" +", b" ", data)
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip()
    if not data:
        return pa.table({name: pa.array([], pa.float64()) for name in KEPT})
    types = dict.fromkeys(COLUMNS, pa.string()) | {"score": pa.float64()}
    return pacsv.read_csv(
        pa.BufferReader(data),
        pacsv.ReadOptions(column_names=COLUMNS, use_threads=False),
        pacsv.ParseOptions(delimiter=" ", quote_char=False, ignore_empty_lines=True),
        pacsv.ConvertOptions(
            column_types=types,
            include_columns=KEPT,
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _lines(data: bytes) -> Iterable[tuple[int, list[str]]]:
    return ((number, raw.decode("utf-8", "replace").split()) for number, raw in enumerate(data.split(b"\n"), 1))


def _parse_slowly(path: Path, data: bytes) -> pa.Table:
    """Line by line, to name the bad lines; returns the rows where there are none."""
    rows, bad = [], {"not six columns": [], "the score is not a number": [], "not UTF-8": []}
    for number, fields in _lines(data):
        if any("\ufffd" in field for field in fields):
            bad["not UTF-8"].append((number, " ".join(fields)))
        elif fields and len(fields) != len(COLUMNS):
            bad["not six columns"].append((number, " ".join(fields)))
        elif fields and (score := _number(fields[4])) is None:
            bad["the score is not a number"].append((number, " ".join(fields)))
        elif fields:
            rows.append((fields[0], fields[2], score))
    for what, lines in bad.items():
        if lines:
            shown = offenders(line for _, line in lines)
            raise InputError(f"{path}: {_numbers(n for n, _ in lines)}: {what}: {shown}; {EXPECTED}")
    return pa.Table.from_pylist([dict(zip(KEPT, row, strict=True)) for row in rows])


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) or "_" in text else value


def _numbers(numbers: Iterable[int]) -> str:
    numbers = list(numbers)
    return f"line {', '.join(map(str, numbers[:3]))}" + (", …" if len(numbers) > 3 else "")

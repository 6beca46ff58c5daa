"""Qrels and query files: TREC and BEIR layouts, plain or gzipped, with errors that name file and line."""

import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv

from interextra.ground.errors import InputError, offenders

QRELS_COLUMNS = ["query_id", "doc_id", "relevance"]
BEIR_HEADER = ["query-id", "corpus-id", "score"]


@dataclass(frozen=True)
class Origin:
    """Where rows came from, so that an error can name the line; rows count the non-blank lines after the header."""

    name: str
    path: Path | None = None
    header: int = 0

    def at(self, row: int) -> str:
        """`file:line` of a row (reads the file again: only errors ask)."""
        if self.path is None:
            return f"{self.name}, row {row + 1}"
        seen = -1 - self.header
        with open_bytes(self.path) as lines:
            for number, line in enumerate(lines, 1):
                seen += bool(line.strip())
                if seen == row:
                    return f"{self.path}:{number}"
        return str(self.path)


def open_bytes(path: str | Path):
    """Open a plain or gzipped file for reading bytes; a missing one is an InputError."""
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: no such file; check the path")
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


@contextmanager
def write_aside(path: str | Path) -> Iterator[Path]:
    """Give a path to write to; rename it to `path` when the block ends well, remove it when it does not."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        yield aside
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_qrels(path: str | Path, duplicates: str = "error") -> pd.DataFrame:
    """Qrels as a table, rows in file order.

    Reads the TREC layout (`query_id 0 doc_id relevance`, tabs or spaces) and the BEIR layout (tab-separated under the
    header `query-id corpus-id score`), plain or `.gz`.

    Parameters
    ----------
    duplicates : "error" or "keep"; what to do when a query-document pair stands twice (two released ReSTrain files do).

    Returns
    -------
    DataFrame with query_id (str), doc_id (str), relevance (int64).

    Raises
    ------
    InputError
        With file and line: wrong number of columns, relevance that is no integer, a pair twice, no rows.
    """
    if duplicates not in ("error", "keep"):
        raise InputError(f"duplicates={duplicates!r}: use 'error' or 'keep'")
    path = Path(path)
    beir, separator = _layout(path)
    try:
        frame = _read_fast(path, beir, separator)
    except (pa.ArrowInvalid, OSError):
        frame = _read_lines(path, beir)
    if (frame["query_id"] == "").any() or (frame["doc_id"] == "").any():
        frame = _read_lines(path, beir)
    if frame.empty:
        raise InputError(f"{path}: no qrels in it; a split needs at least one judged passage")
    if duplicates == "error":
        twice = frame.duplicated(["query_id", "doc_id"]).to_numpy()
        if twice.any():
            rows = frame[twice]
            pairs = (f"{q} {d}" for q, d in zip(rows["query_id"], rows["doc_id"], strict=True))
            where = Origin(str(path), path, header=int(beir)).at(int(np.flatnonzero(twice)[0]))
            raise InputError(
                f"{where}: {len(rows)} query-document pairs are judged twice: {offenders(pairs)}; "
                "keep one line a pair (or read with duplicates='keep')"
            )
    return frame


def _layout(path: Path) -> tuple[bool, str]:
    """Whether the first line is BEIR's header, and the separator of the lines."""
    try:
        with open_bytes(path) as lines:
            first = next((line for line in lines if line.strip()), b"").decode("utf-8-sig", "replace")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None
    beir = [name.strip().lower() for name in first.split("\t")] == BEIR_HEADER
    return beir, "\t" if "\t" in first else " "


def _read_fast(path: Path, beir: bool, separator: str) -> pd.DataFrame:
    names = QRELS_COLUMNS if beir else ["query_id", "iteration", "doc_id", "relevance"]
    types = {name: pa.string() for name in names} | {"relevance": pa.int64()}
    table = pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(column_names=names, skip_rows=int(beir)),
        pa.csv.ParseOptions(delimiter=separator, quote_char=False),
        pa.csv.ConvertOptions(column_types=types, include_columns=QRELS_COLUMNS, null_values=[]),
    )
    return table.to_pandas()


def _read_lines(path: Path, beir: bool) -> pd.DataFrame:
    """Line by line: mixed separators, and the place of whatever the fast reader stumbled over."""
    rows, header_due = [], beir
    expected = 3 if beir else 4
    try:
        with open_bytes(path) as lines:
            for number, raw in enumerate(lines, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
                except UnicodeDecodeError:
                    raise InputError(f"{path}:{number}: not UTF-8; save the file as UTF-8") from None
                if not line.strip():
                    continue
                if header_due:
                    header_due = False
                    continue
                fields = [f.strip() for f in line.split("\t")] if "\t" in line else line.split()
                if len(fields) != expected or not all(fields):
                    hint = f"BEIR files have the header line {' '.join(BEIR_HEADER)!r}, separated by tabs"
                    raise InputError(
                        f"{path}:{number}: {len(fields)} columns instead of {expected}: {line.strip()[:80]!r}; write "
                        + ("query_id, doc_id, relevance" if beir else f"'query_id 0 doc_id relevance' ({hint})")
                    )
                try:
                    rows.append((fields[0], fields[-2], int(fields[-1])))
                except ValueError:
                    raise InputError(
                        f"{path}:{number}: relevance {fields[-1]!r} is not an integer; use grades 0, 1, 2, …"
                    ) from None
    except (EOFError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None
    return pd.DataFrame(rows, columns=QRELS_COLUMNS).astype({"query_id": "str", "doc_id": "str", "relevance": "int64"})


def write_qrels(path: str | Path, qrels: pd.DataFrame, style: str = "trec", separator: str = " ") -> None:
    """Write qrels, rows in the order given; `.gz` compresses.

    Parameters
    ----------
    qrels : DataFrame with query_id, doc_id, relevance.
    style : "trec" (`query_id 0 doc_id relevance`) or "beir" (three columns, tabs, header).
    separator : between the columns of the TREC style; Zhan's released files use a tab.
    """
    missing = [name for name in QRELS_COLUMNS if name not in qrels]
    if missing:
        raise InputError(f"qrels without the columns {offenders(missing)}; give query_id, doc_id, relevance")
    if style not in ("trec", "beir"):
        raise InputError(f"style={style!r}: use 'trec' or 'beir'")
    tab = "\t"
    middle = f"{separator}0{separator}" if style == "trec" else tab
    last = separator if style == "trec" else tab
    columns = (qrels[name].tolist() for name in QRELS_COLUMNS)
    lines = [f"{q}{middle}{d}{last}{int(r)}\n" for q, d, r in zip(*columns, strict=True)]
    if style == "beir":
        lines.insert(0, tab.join(BEIR_HEADER) + "\n")
    data = "".join(lines).encode()
    with write_aside(path) as aside:
        aside.write_bytes(gzip.compress(data, mtime=0) if Path(path).suffix == ".gz" else data)


def read_queries_tsv(path: str | Path) -> pd.DataFrame:
    """Queries from `query_id<TAB>text` lines (plain or `.gz`), text kept as it is, double spaces included.

    Returns
    -------
    DataFrame with query_id (str), text (str), rows in file order.

    Raises
    ------
    InputError
        With file and line: no tab or more than one, empty text, a query_id twice, no rows.
    """
    path, ids, texts, first_line = Path(path), [], [], {}
    try:
        with open_bytes(path) as lines:
            for number, raw in enumerate(lines, 1):
                try:
                    line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError:
                    raise InputError(f"{path}:{number}: not UTF-8; save the file as UTF-8") from None
                if not line.strip():
                    continue
                fields = line.split("\t")
                if len(fields) != 2 or not fields[0].strip() or not fields[1].strip():
                    raise InputError(f"{path}:{number}: not 'query_id<TAB>text': {line[:80]!r}; one tab, no empty text")
                if fields[0] in first_line:
                    raise InputError(
                        f"{path}:{number}: query_id {fields[0]!r} stands a second time (first: line "
                        f"{first_line[fields[0]]}); give each query its own id"
                    )
                first_line[fields[0]] = number
                ids.append(fields[0])
                texts.append(fields[1])
    except (EOFError, OSError) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None
    if not ids:
        raise InputError(f"{path}: no queries in it; write lines 'query_id<TAB>text'")
    return pd.DataFrame({"query_id": ids, "text": texts}, dtype="str")

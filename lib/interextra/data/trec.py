"""Line files of retrieval, plain or gzipped: qrels, queries and runs, read at once, every fault named with its line."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from interextra.ground.errors import InputError, offenders

QRELS_COLUMNS = ["query_id", "doc_id", "relevance"]
BEIR_HEADER = ["query-id", "corpus-id", "score"]
NUMBERS = {"relevance": (int, pa.int64(), "an integer"), "score": (float, pa.float64(), "a number")}
NOT_READ = ("iteration", "rank", "tag")


class Layout(NamedTuple):
    """The columns of a line. Where only tabs separate them, ids and texts may hold spaces."""

    columns: tuple[str, ...]
    only_tabs: bool
    header: bool

    @property
    def kept(self) -> list[str]:
        return [name for name in self.columns if name not in NOT_READ]

    @property
    def expected(self) -> str:
        form = f"write lines of {', '.join(self.columns)}, separated by {'tabs' if self.only_tabs else 'white space'}"
        header = f"; BEIR files have the header line {' '.join(BEIR_HEADER)!r}, separated by tabs"
        return form + header if "iteration" in self.columns else form


TREC_QRELS = Layout(("query_id", "iteration", "doc_id", "relevance"), False, False)
BEIR_QRELS = Layout(("query_id", "doc_id", "relevance"), True, True)
QUERIES = Layout(("query_id", "text"), True, False)
RUN = Layout(("query_id", "iteration", "doc_id", "rank", "score", "tag"), False, False)


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    if not Path(path).is_file():
        raise InputError(f"{path}: no such file; check the path")
    try:
        with Path(path).open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line that is not blank; InputError for a file or a line that can't be read."""
    with _opened(path) as lines:
        for number, raw in enumerate(lines, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise InputError(f"{path}:{number}: not UTF-8; save the file as UTF-8") from None
            if line.strip():
                yield number, line


def line_of(path: str | Path, row: int) -> str:
    """`file:line` of a row; rows count the lines that are neither blank nor BEIR's header (only errors ask)."""
    for number, line in numbered_lines(path):
        row -= not _is_header(line)
        if row < 0:
            return f"{path}:{number}"
    return str(path)


def refuse_repeated(keys: pd.DataFrame, at: Callable[[int], str]) -> None:
    """InputError with the place of the first row whose keys (columns of strings) stand in a row before it."""
    again = keys.duplicated().to_numpy()
    if again.any():
        shown = offenders(" ".join(row) for row in keys[again].drop_duplicates().itertuples(index=False))
        raise InputError(
            f"{at(int(again.argmax()))}: {again.sum()} rows repeat a {' and '.join(keys)}: {shown}; keep one of each"
        )


def refuse_white_space(name: str, ids: pd.Series | pa.Array) -> None:
    """InputError for ids that a TREC file can't hold."""
    ids = pa.array(ids)
    if len(bad := ids.filter(pc.match_substring_regex(ids, r"^$|\s"))):
        raise InputError(f"{name} {offenders(bad.to_pylist())} has white space or is empty; a TREC file can't hold it")


def read_table(path: str | Path, layout: Layout) -> pa.Table:
    """The kept columns of a line file, rows in file order.

    All rows at once; where that fails, a second look line by line reads them or names the first wrong line.
    """
    try:
        with _opened(path) as file:
            return _read_fast(file.read().removeprefix(b"\xef\xbb\xbf"), layout)
    except pa.ArrowInvalid:
        return _read_lines(path, layout)


def _read_fast(data: bytes, layout: Layout) -> pa.Table:
    if not layout.only_tabs:  # white space of any kind and length becomes one space
        data = data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
        data = re.sub(rb" +", b" ", data) if b"  " in data else data
        data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip()
    types = {name: NUMBERS[name][1] if name in NUMBERS else pa.string() for name in layout.columns}
    table = pa.csv.read_csv(
        pa.BufferReader(data),
        pa.csv.ReadOptions(column_names=layout.columns, skip_rows=int(layout.header), use_threads=False),
        pa.csv.ParseOptions(delimiter="\t" if layout.only_tabs else " ", quote_char=False),
        pa.csv.ConvertOptions(column_types=types, include_columns=layout.kept, null_values=[]),
    )
    for column in table.columns:
        if pa.types.is_floating(column.type) and pc.any(pc.is_nan(column)).as_py():
            raise pa.ArrowInvalid("not a number")
        if layout.only_tabs and pa.types.is_string(column.type) and len(blank_rows(column)):
            raise pa.ArrowInvalid("an empty column")
    if not table.num_rows:
        raise pa.ArrowInvalid("no rows")
    return table


def blank_rows(strings: pa.ChunkedArray) -> np.ndarray:
    """Rows of strings that hold nothing but white space."""
    return np.flatnonzero(pc.or_(pc.utf8_is_space(strings), pc.equal(pc.binary_length(strings), 0)).to_numpy())


def _read_lines(path: str | Path, layout: Layout) -> pa.Table:
    rows, wrong = [], []
    for number, line in numbered_lines(path):
        if layout.header and _is_header(line):
            continue
        fields = line.split("\t") if layout.only_tabs else re.split(r"[ \t]+", line.strip(" \t"))
        try:
            rows.append(_row(fields, layout))
        except ValueError as problem:
            wrong.append((f"{path}:{number}: {problem}", line[:80]))
    if wrong:
        raise InputError(f"{wrong[0][0]}: {offenders(line for _, line in wrong)}; {layout.expected}")
    if not rows:
        raise InputError(f"{path}: no rows in it; {layout.expected}")
    return pa.table(list(map(pa.array, zip(*rows, strict=True))), names=layout.kept)


def _row(fields: list[str], layout: Layout) -> list:
    """The kept fields of a line, numbers parsed; ValueError where the line is not of this layout."""
    if len(fields) != len(layout.columns):
        raise ValueError(f"{len(fields)} columns instead of {len(layout.columns)}")
    if not all(map(str.strip, fields)):
        raise ValueError("an empty column")
    row = dict(zip(layout.columns, fields, strict=True))
    for name in row.keys() & NUMBERS:
        parse, _, what = NUMBERS[name]
        with suppress(ValueError):
            row[name] = parse(row[name].replace("_", "x"))  # Python reads 1_0
        if isinstance(row[name], str) or row[name] != row[name]:  # NaN
            raise ValueError(f"{name} {fields[layout.columns.index(name)]!r} is not {what}")
    return [row[name] for name in layout.kept]


def _is_header(line: str) -> bool:
    return [name.strip().lower() for name in line.split("\t")] == BEIR_HEADER


def read_qrels(path: str | Path, duplicates: str = "error") -> pd.DataFrame:
    """Qrels as a table query_id (str), doc_id (str), relevance (int64), rows in file order.

    Reads the TREC layout (`query_id 0 doc_id relevance`, any white space) and the BEIR layout (tab-separated under the
    header `query-id corpus-id score`), plain or gzipped. A pair that stands twice is refused but for
    `duplicates="keep"` (two released ReSTrain files have some). An InputError has file and line.
    """
    _, first = next(numbered_lines(path), (0, ""))
    frame = read_table(path, BEIR_QRELS if _is_header(first) else TREC_QRELS).to_pandas()
    if duplicates != "keep":
        refuse_repeated(frame[["query_id", "doc_id"]], lambda row: line_of(path, row))
    return frame


def read_queries_tsv(path: str | Path) -> pd.DataFrame:
    """Queries from `query_id<TAB>text` lines, plain or gzipped: query_id, text as it is, double spaces included.

    An InputError has file and line: no tab or more than one, empty text, a query_id twice, no rows.
    """
    frame = read_table(path, QUERIES).to_pandas()
    refuse_repeated(frame[["query_id"]], lambda row: line_of(path, row))
    return frame

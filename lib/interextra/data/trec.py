r"""Line files of retrieval, plain or gzipped: qrels, queries and runs.

A file is read at once, every fault named with its line. TREC files are read as trec_eval 10 reads
them: a line that begins with # is a comment, and what follows the tag of a run is ignored. Lines
end at \n: no other sign that Python takes for a line end (U+2028, U+0085) cuts a text.
"""

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import dropwhile, islice
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from interextra.store.errors import InputError, offenders

Origin = str | Callable[[int], str]  # what has the rows, or a function that gives a row's place
QRELS_COLUMNS = ["query_id", "doc_id", "relevance"]
BEIR_HEADER = ["query-id", "corpus-id", "score"]
NUMBERS = {
    "relevance": (pa.int64(), "an integer of 64 bits"),
    "score": (pa.float64(), "a number"),
}
NOT_READ = ("iteration", "rank", "tag")
# Columns of a line. White space separates those of TREC, which have an iteration, and tabs only
# those of the others, so that ids and texts may hold spaces.
TREC_QRELS = ["query_id", "iteration", "doc_id", "relevance"]
RUN = ["query_id", "iteration", "doc_id", "rank", "score", "tag"]
COMMENT = "#"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
GZIP_MARK = b"\x1f\x8b"


@contextmanager
def _opened(path: str | Path) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading, unpacked where it is gzipped."""
    if not os.path.isfile(path):  # also for a name that no file can have
        raise InputError(f"{path}: no such file; check the path")
    try:
        with Path(path).open("rb") as file:
            is_gzipped = file.peek(2)[:2] == GZIP_MARK
            yield gzip.GzipFile(fileobj=file) if is_gzipped else file
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None


def content(path: str | Path) -> bytes:
    """Return all bytes of a file, unpacked where it is gzipped.

    Raises
    ------
    InputError
        A file that is not there or can't be read.
    """
    with _opened(path) as file:
        return file.read()


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of each line that is not blank.

    Raises
    ------
    InputError
        A file or a line that can't be read.
    """
    with _opened(path) as lines:
        for number, raw in enumerate(lines, 1):
            encoding = "utf-8-sig" if number == 1 else "utf-8"
            try:
                line = raw.decode(encoding).rstrip("\r\n")
            except UnicodeDecodeError:
                raise InputError(f"{path}:{number}: not UTF-8; save the file as UTF-8") from None
            if line.strip(" \t\r"):
                yield number, line


def _rows(path: str | Path, is_trec: bool) -> Iterator[tuple[str, str]]:
    """Yield (`file:line`, text) of each row; only errors ask for it.

    Rows are lines that are not blank, BEIR's header or a comment.
    """
    lines = dropwhile(lambda numbered: _is_header(numbered[1]), numbered_lines(path))
    for number, line in lines:
        for row in line.split("\r"):  # as pyarrow splits
            if is_trec:
                row = row.strip(" \t")
            is_comment = is_trec and row.startswith(COMMENT)
            if row.strip(" \t") and not is_comment:
                yield f"{path}:{number}", row


def line_of(path: str | Path, row: int, is_trec: bool = False) -> str:
    """Return `file:line` of a row, counted from 0; comments of a TREC file are no rows."""
    rows = islice(_rows(path, is_trec), row, None)
    place, _ = next(rows, (str(path), ""))
    return place


def line_of_qrels(path: str | Path, row: int) -> str:
    """Return `file:line` of a row of qrels in either layout."""
    return line_of(path, row, _qrels_layout(path) is TREC_QRELS)


def refuse_repeated(keys: pd.DataFrame, at: Origin) -> None:
    """Refuse rows whose keys stand in a row before them, with the place of the first.

    Parameters
    ----------
    keys
        Columns of strings.
    at
        What has the rows, or a function of a row, from 0, that gives its place.
    """
    is_repeat = keys.duplicated().to_numpy()
    if not is_repeat.any():
        return
    repeated = keys[is_repeat].drop_duplicates().itertuples(index=False)
    shown = offenders(" ".join(row) for row in repeated)
    row = int(is_repeat.argmax())
    place = f"{at}: row {row + 1}"
    if callable(at):
        place = at(row)
    names = " and ".join(keys)
    problem = f"{is_repeat.sum()} rows repeat a {names}"
    raise InputError(f"{place}: {problem}: {shown}; keep one of each")


def refuse_white_space(name: str, ids: pd.Series | pa.Array) -> None:
    """Refuse ids that a TREC file can't hold.

    These have white space, are empty, or are a query_id that begins a comment.
    """
    ids = pa.array(ids)
    pattern = r"^$|[\s\v]"
    problem = "has white space or is empty"
    if name == "query_id":
        pattern += f"|^{COMMENT}"
        problem = "has white space, is empty or begins with #"
    is_wrong = pc.match_substring_regex(ids, pattern)
    wrong = ids.filter(is_wrong).to_pylist()
    if wrong:
        raise InputError(f"{name} {offenders(wrong)} {problem}; a TREC file can't hold it")


def read_table(path: str | Path, layout: list[str]) -> pa.Table:
    """Return the columns of a line file that are kept, all rows, in file order.

    Parameters
    ----------
    layout
        Names of the columns of a line; those of NOT_READ are left out.

    Raises
    ------
    InputError
        The first wrong line.
    """
    data = content(path).removeprefix(BYTE_ORDER_MARK)
    data = _tidied(data, _is_trec(layout))
    table = _parsed(data, layout)
    if layout is RUN and not table.num_rows:
        table = _parsed(re.sub(_AFTER_TAG, rb"\1", data), layout)
    if not table.num_rows or any(_lacks_values(column) for column in table.columns):
        raise InputError(_problem(path, layout))
    return table


def declared_ranks(path: str | Path) -> pd.DataFrame:
    """Return the ranks that a TREC run declares, which no order here follows, with its scores.

    Parameters
    ----------
    path
        Of a run that `read_table` can read.

    Returns
    -------
    pandas.DataFrame
        query_id (categorical), rank (float64), score (float32, as runs have it), in file order; no
        rows where a rank is no number.
    """
    data = _tidied(content(path).removeprefix(BYTE_ORDER_MARK), is_trec=True)
    table = _parsed(data, _RANKED)
    if not table.num_rows:
        table = _parsed(re.sub(_AFTER_TAG, rb"\1", data), _RANKED)
    try:
        rank = table["declared"].cast(pa.float64())
    except pa.ArrowInvalid:
        rank = pa.array([], pa.float64())
        table = table.slice(0, 0)
    query_id = table["query_id"].dictionary_encode()
    score = table["score"].cast(pa.float32(), safe=False)
    return pa.table({"query_id": query_id, "rank": rank, "score": score}).to_pandas()


_RANKED = ["query_id", "iteration", "doc_id", "declared", "score", "tag"]  # RUN, the rank as text
# of a tidied line of a run with more than six fields
_AFTER_TAG = rb"(?m)^((?:[^ \r\n]+ ){5}[^ \r\n]+) [^\r\n]*"


def _is_trec(layout: list[str]) -> bool:
    """Return whether white space separates the columns, not only tabs."""
    return "iteration" in layout


def _parsed(data: bytes, layout: list[str]) -> pa.Table:
    """Return the kept columns of tidied lines; no rows where a line is not of this layout."""
    types = {}
    for name in layout:
        if name in NUMBERS:
            types[name], _ = NUMBERS[name]
        elif name not in NOT_READ:
            types[name] = pa.string()
    n_header_lines = 1 if layout == QRELS_COLUMNS else 0
    reading = csv.ReadOptions(
        skip_rows=n_header_lines, column_names=layout, use_threads=False, block_size=2**24
    )
    delimiter = " " if _is_trec(layout) else "\t"
    parsing = csv.ParseOptions(delimiter=delimiter, quote_char=False)
    converting = csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[])
    try:
        return csv.read_csv(pa.BufferReader(data), reading, parsing, converting)
    except pa.ArrowInvalid:
        return pa.table({})


def _lacks_values(column: pa.ChunkedArray) -> bool:
    """Return whether one of the strings is blank, or one of the numbers NaN."""
    is_text = column.type == pa.string()
    is_lacking = blank(column) if is_text else pc.is_nan(column)
    return pc.any(is_lacking).as_py()


def _problem(path: str | Path, layout: list[str]) -> str:
    """Return what is wrong with the first row that can't be read, the first three, and what to do.

    It is said of the whole file where no row has a fault.
    """
    first_fault = ""
    wrong_rows = []
    for place, row in _rows(path, _is_trec(layout)):
        fault = _fault(row, layout)
        if fault:
            first_fault = first_fault or f"{place}: {fault}"
            wrong_rows.append(row[:80])
    problem = f"{path}: no rows in it that can be read"
    if wrong_rows:
        problem = f"{first_fault}: {offenders(wrong_rows)}"
    separator = "white space" if _is_trec(layout) else "tabs"
    advice = f"write lines of {', '.join(layout)}, separated by {separator}"
    if _is_trec(layout):
        header = " ".join(BEIR_HEADER)
        advice += f"; BEIR files have the header line {header!r}, separated by tabs"
    return f"{problem}; {advice}"


def _fault(row: str, layout: list[str]) -> str:
    """Return what is wrong with a row; "" for nothing."""
    fields = row.split("\t")
    if _is_trec(layout):
        fields = re.findall(r"[^ \t]+", row)
    if layout is RUN:
        fields = fields[: len(layout)]
    if len(fields) != len(layout):
        return f"{len(fields)} columns instead of {len(layout)}"
    if not all(map(str.strip, fields)):
        return "an empty column"
    for name, text in zip(layout, fields, strict=True):
        if name in NUMBERS:
            kind, description = NUMBERS[name]
            if not _is_number(text.strip(), kind):
                return f"{name} {text[:80]!r} is not {description}"
    return ""


def _is_number(text: str, kind: pa.DataType) -> bool:
    """Return whether Arrow reads a text as a number of this type."""
    try:
        return str(pa.scalar(text).cast(kind)) != "nan"
    except pa.ArrowInvalid:
        return False


def _tidied(data: bytes, is_trec: bool) -> bytes:
    """Return lines whose columns one character separates, without comments.

    Empty lines may remain: pyarrow passes over them.
    """
    if not is_trec:
        if data[:1].isspace() or b"\n " in data or b"\n\t" in data:
            data = re.sub(rb"(?m)^[ \t\r]+$", b"", data)
        return data.lstrip(b"\r\n")
    data = data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    if b"  " in data:
        data = re.sub(rb" +", b" ", data)
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n")
    data = data.strip()
    if data.startswith(b"#") or b"\n#" in data or b"\r#" in data:
        data = re.sub(rb"(?:\A|(?<=[\r\n])) ?#[^\r\n]*", b"", data).strip()
    return data


def blank(strings: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return of each string whether it holds nothing but white space."""
    is_empty = pc.equal(pc.binary_length(strings), 0)
    return pc.or_(pc.utf8_is_space(strings), is_empty)


def _is_header(line: str) -> bool:
    """Return whether a line is the header of BEIR's qrels."""
    return [name.strip().lower() for name in line.split("\t")] == BEIR_HEADER


def read_qrels(path: str | Path, duplicates: str = "error") -> pd.DataFrame:
    """Read qrels in the TREC or the BEIR layout, plain or gzipped.

    TREC's is `query_id 0 doc_id relevance`, any white space; BEIR's is tab-separated under the
    header `query-id corpus-id score`.

    Parameters
    ----------
    duplicates
        A pair that stands twice is refused but for "keep" (two released ReSTrain files have some).

    Returns
    -------
    pandas.DataFrame
        query_id (str), doc_id (str), relevance (int64), rows in file order.

    Raises
    ------
    InputError
        With file and line.
    """
    qrels = read_table(path, _qrels_layout(path)).to_pandas()
    if duplicates != "keep":
        refuse_repeated(qrels[["query_id", "doc_id"]], partial(line_of_qrels, path))
    return qrels


def _qrels_layout(path: str | Path) -> list[str]:
    """Return BEIR's layout where the file has its header, else TREC's."""
    _, first_line = next(numbered_lines(path), (0, ""))
    return QRELS_COLUMNS if _is_header(first_line) else TREC_QRELS


def read_queries_tsv(path: str | Path) -> pd.DataFrame:
    """Read queries from `query_id<TAB>text` lines, plain or gzipped.

    Returns
    -------
    pandas.DataFrame
        query_id, text as it is, double spaces included.

    Raises
    ------
    InputError
        With file and line: no tab or more than one, empty text, a query_id twice, no rows.
    """
    queries = read_table(path, ["query_id", "text"]).to_pandas()
    refuse_repeated(queries[["query_id"]], partial(line_of, path))
    return queries

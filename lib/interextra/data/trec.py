"""Line files of retrieval, plain or gzipped: qrels, queries and runs, read at once, every fault
named with its line.

TREC files are read as trec_eval 10 reads them: a line that begins with # is a comment, and what
follows the tag of a run is ignored. Lines end at \\n: no other sign that Python takes for a line
end (U+2028, U+0085) cuts a text.
"""

import gzip
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import dropwhile, islice
from pathlib import Path
from typing import BinaryIO

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from interextra.store.errors import InputError, offenders

QRELS_COLUMNS = ["query_id", "doc_id", "relevance"]
BEIR_HEADER = ["query-id", "corpus-id", "score"]
NUMBERS = {"relevance": (pa.int64(), "an integer of 64 bits"), "score": (pa.float64(), "a number")}
NOT_READ = ("iteration", "rank", "tag")
# Columns of a line. White space separates those of TREC, which have an iteration, and tabs only
# those of the others, so that ids and texts may hold spaces.
TREC_QRELS = ["query_id", "iteration", "doc_id", "relevance"]
RUN = ["query_id", "iteration", "doc_id", "rank", "score", "tag"]
COMMENT = "#"


@contextmanager
def _opened(path: str | Path) -> Iterator[BinaryIO]:
    if not os.path.isfile(path):  # also for a name that no file can have
        raise InputError(f"{path}: no such file; check the path")
    try:
        with Path(path).open("rb") as file:
            yield gzip.GzipFile(fileobj=file) if file.peek(2)[:2] == b"\x1f\x8b" else file
    except (EOFError, OSError, zlib.error) as error:
        raise InputError(f"{path}: cannot be read ({error}); is it a complete gzip file?") from None


def content(path: str | Path) -> bytes:
    """All bytes of a file, unpacked where it is gzipped; InputError for one that is not there or
    can't be read.
    """
    with _opened(path) as file:
        return file.read()


def numbered_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """(number, text) of each line that is not blank; InputError for a file or a line that can't be
    read.
    """
    with _opened(path) as lines:
        for number, raw in enumerate(lines, 1):
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                raise InputError(f"{path}:{number}: not UTF-8; save the file as UTF-8") from None
            if line.strip(" \t\r"):
                yield number, line


def _rows(path: str | Path, is_trec: bool) -> Iterator[tuple[str, str]]:
    """(`file:line`, text) of each row: lines that are not blank, BEIR's header or a comment (only
    errors ask).
    """
    for number, line in dropwhile(lambda first: _is_header(first[1]), numbered_lines(path)):
        for row in line.split("\r"):  # as pyarrow splits
            row = row.strip(" \t") if is_trec else row
            if row.strip(" \t") and not (is_trec and row.startswith(COMMENT)):
                yield f"{path}:{number}", row


def line_of(path: str | Path, row: int, is_trec: bool = False) -> str:
    """`file:line` of a row, counted from 0; comments of a TREC file are no rows."""
    return next(islice(_rows(path, is_trec), row, None), (str(path), ""))[0]


def line_of_qrels(path: str | Path, row: int) -> str:
    """`file:line` of a row of qrels in either layout."""
    return line_of(path, row, _qrels_layout(path) is TREC_QRELS)


def refuse_repeated(keys: pd.DataFrame, at: str | Callable[[int], str]) -> None:
    """InputError with the place of the first row whose keys (columns of strings) stand in a row
    before it.

    `at`: what has the rows, or a function of a row, from 0, that gives its place.
    """
    again = keys.duplicated().to_numpy()
    if again.any():
        shown = offenders(
            " ".join(row) for row in keys[again].drop_duplicates().itertuples(index=False)
        )
        told = f"{again.sum()} rows repeat a {' and '.join(keys)}: {shown}; keep one of each"
        row = int(again.argmax())
        raise InputError(f"{at(row) if callable(at) else f'{at}: row {row + 1}'}: {told}")


def refuse_white_space(name: str, ids: pd.Series | pa.Array) -> None:
    """InputError for ids that a TREC file can't hold: with white space, empty, or a query_id that
    begins a comment.
    """
    ids = pa.array(ids)
    wrong = rf"^$|[\s\v]|^{COMMENT}" if name == "query_id" else r"^$|[\s\v]"
    if len(bad := ids.filter(pc.match_substring_regex(ids, wrong))):
        told = (
            "has white space, is empty or begins with #"
            if name == "query_id"
            else "has white space or is empty"
        )
        raise InputError(f"{name} {offenders(bad.to_pylist())} {told}; a TREC file can't hold it")


def read_table(path: str | Path, layout: list[str]) -> pa.Table:
    """The kept columns of a line file, all rows at once, in file order; an InputError names the
    first wrong line.
    """
    is_trec = "iteration" in layout
    data = _tidied(content(path).removeprefix(b"\xef\xbb\xbf"), is_trec)
    table = _parsed(data, layout)
    if layout is RUN and not table.num_rows:
        table = _parsed(re.sub(_AFTER_TAG, rb"\1", data), layout)
    odd = [
        blank(column) if column.type == pa.string() else pc.is_nan(column)
        for column in table.columns
    ]
    if table.num_rows and not any(pc.any(rows).as_py() for rows in odd):
        return table
    found = [
        (where, fault, line[:80])
        for where, line in _rows(path, is_trec)
        if (fault := _fault(line, layout))
    ]
    told = f"{path}: no rows in it that can be read"
    if found:
        told = f"{found[0][0]}: {found[0][1]}: {offenders(line for *_, line in found)}"
    expected = (
        f"write lines of {', '.join(layout)}, separated by {'white space' if is_trec else 'tabs'}"
    )
    if is_trec:
        expected += (
            f"; BEIR files have the header line {' '.join(BEIR_HEADER)!r}, separated by tabs"
        )
    raise InputError(f"{told}; {expected}")


# of a tidied line of a run with more than six fields
_AFTER_TAG = rb"(?m)^((?:[^ \r\n]+ ){5}[^ \r\n]+) [^\r\n]*"


def _parsed(data: bytes, layout: list[str]) -> pa.Table:
    """The kept columns of tidied lines; no rows where one of them is not of this layout."""
    types = {name: NUMBERS.get(name, (pa.string(),))[0] for name in layout if name not in NOT_READ}
    header = int(layout == QRELS_COLUMNS)
    try:
        return csv.read_csv(
            pa.BufferReader(data),
            csv.ReadOptions(
                skip_rows=header, column_names=layout, use_threads=False, block_size=2**24
            ),
            csv.ParseOptions(delimiter=" " if "iteration" in layout else "\t", quote_char=False),
            csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[]),
        )
    except pa.ArrowInvalid:
        return pa.table({})


def _fault(line: str, layout: list[str]) -> str:
    """What is wrong with a row; "" for nothing."""
    fields = re.findall(r"[^ \t]+", line) if "iteration" in layout else line.split("\t")
    fields = fields[: len(layout)] if layout is RUN else fields
    if len(fields) != len(layout):
        return f"{len(fields)} columns instead of {len(layout)}"
    if not all(map(str.strip, fields)):
        return "an empty column"
    for name, text in zip(layout, fields, strict=True):
        kind, what = NUMBERS.get(name, (None, ""))
        with suppress(pa.ArrowInvalid):
            if not kind or str(pa.scalar(text.strip()).cast(kind)) != "nan":
                continue
        return f"{name} {text[:80]!r} is not {what}"
    return ""


def _tidied(data: bytes, is_trec: bool) -> bytes:
    """Lines whose columns one character separates, without comments; pyarrow passes over empty
    ones.
    """
    if not is_trec:
        odd = data[:1].isspace() or b"\n " in data or b"\n\t" in data
        return (re.sub(rb"(?m)^[ \t\r]+$", b"", data) if odd else data).lstrip(b"\r\n")
    data = data.replace(b"\t", b" ").replace(b"\r\n", b"\n")
    data = re.sub(rb" +", b" ", data) if b"  " in data else data
    data = data.replace(b" \n", b"\n").replace(b"\n ", b"\n").strip()
    if data.startswith(b"#") or b"\n#" in data or b"\r#" in data:
        data = re.sub(rb"(?:\A|(?<=[\r\n])) ?#[^\r\n]*", b"", data).strip()
    return data


def blank(strings: pa.ChunkedArray) -> pa.ChunkedArray:
    """Of each string whether it holds nothing but white space."""
    return pc.or_(pc.utf8_is_space(strings), pc.equal(pc.binary_length(strings), 0))


def _is_header(line: str) -> bool:
    return [name.strip().lower() for name in line.split("\t")] == BEIR_HEADER


def read_qrels(path: str | Path, duplicates: str = "error") -> pd.DataFrame:
    """Qrels as a table query_id (str), doc_id (str), relevance (int64), rows in file order.

    Reads the TREC layout (`query_id 0 doc_id relevance`, any white space) and the BEIR layout
    (tab-separated under the header `query-id corpus-id score`), plain or gzipped. A pair that
    stands twice is refused but for `duplicates="keep"` (two released ReSTrain files have some). An
    InputError has file and line.
    """
    frame = read_table(path, _qrels_layout(path)).to_pandas()
    if duplicates != "keep":
        refuse_repeated(frame[["query_id", "doc_id"]], lambda row: line_of_qrels(path, row))
    return frame


def _qrels_layout(path: str | Path) -> list[str]:
    """BEIR's, by its header, or TREC's."""
    _, first = next(numbered_lines(path), (0, ""))
    return QRELS_COLUMNS if _is_header(first) else TREC_QRELS


def read_queries_tsv(path: str | Path) -> pd.DataFrame:
    """Queries from `query_id<TAB>text` lines, plain or gzipped: query_id, text as it is, double
    spaces included.

    An InputError has file and line: no tab or more than one, empty text, a query_id twice, no rows.
    """
    frame = read_table(path, ["query_id", "text"]).to_pandas()
    refuse_repeated(frame[["query_id"]], lambda row: line_of(path, row))
    return frame

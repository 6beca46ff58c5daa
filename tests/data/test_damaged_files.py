"""Whatever bytes a file holds, its reader gives a result or one line of InputError that names the
file.
"""

import gzip
import io
import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from interextra.data import load
from interextra.data.load import open_collection
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.overlap.annotation import SHEET, read_sheet
from interextra.own.run_files import read_run
from interextra.own.values import values_of_run
from interextra.papers.released import read_qrels_json, read_shift
from interextra.store.errors import InputError
from interextra.store.files import parse_json

bounded = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

RUN = b"q Q0 a 1 2.5 t\nq Q0 b 2 1.5 t\np Q0 a 1 7 t\n"
QRELS = b"q 0 a 1\nq 0 b 0\np\t0\tb\t2\n"
BEIR_QRELS = b"query-id\tcorpus-id\tscore\nq\ta\t1\np\tb\t2\n"
QUERIES = b"q\twhat is tea\np\twhere is  rome\n"
MTEB = (
    b'{"mteb_model_meta": {"name": "m"}, "default": {"test": {"q": {"a": 2.5, "b": 1.5}, "p": {}}}}'
)
SENTENCE_TRANSFORMERS = (
    b'{"query_id": "q", "results": [{"corpus_id": "a", "score": 2.5}, {"corpus_id": "b", "score": 1}]}\n'
    b'{"query_id": "p", "query": "where is rome", "results": []}\n'
)
CSV = b"qid,docno,score,rank\nq,a,2.5,1\nq,b,1.5,2\np,a,7,1\n"
VALUES = b"name,qid,measure,value\nm,q,RR@10,0.5\nm,p,RR@10,1\n"
QRELS_JSON = b'{"q": {"a": 1, "b": 0}, "p": {"b": 2}}'
CORPUS_JSONL = (
    b'{"_id": "a", "title": "Tea", "text": "a drink"}\n{"_id": "b", "text": "Rome is a city"}\n'
)
QUERIES_JSONL = b'{"_id": "q", "text": "what is tea", "metadata": {"kind": "x", "n": 1}}\n'
QUERIES_JSONL += b'{"_id": "p", "text": "where is rome"}\n'
PAIRS = pd.DataFrame([["q", "tea", "p", "rome", "bm25", "zero", "similar"]], columns=list(SHEET))
SHEET_CSV = PAIRS.to_csv(index=False).encode()
DEEP = b"[" * 100_000
CUT = b'"\\ud83d"'  # half of an emoji
# What goes wrong in files: signs of other formats and encodings, ends of lines that are none,
# numbers without bounds
ODD = [
    b"",
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\x1f\x8b\x08",
    b"\r",
    b"\n",
    b"\xe2\x80\xa8",
    b"\xc2\x85",
    b"\t",
    b" ",
]
ODD += [
    b",",
    b'"',
    b"#",
    b"{}",
    b"[]",
    b"null",
    b"true",
    b"NaN",
    b"-1",
    b"1e999",
    b"9" * 30,
    b"9" * 5000,
    CUT,
    DEEP,
]


@st.composite
def damaged(draw, *valid: bytes) -> bytes:
    """A valid file with a few bits flipped, a part cut, something odd put in, a line repeated; also
    gzipped.
    """
    data = draw(st.sampled_from(valid))
    for _ in range(draw(st.integers(0, 3))):
        at, how = (
            draw(st.integers(0, len(data))),
            draw(st.sampled_from(["flip", "cut", "put", "take", "repeat"])),
        )
        if how == "flip" and at < len(data):
            data = data[:at] + bytes([data[at] ^ 1 << draw(st.integers(0, 7))]) + data[at + 1 :]
        elif how == "cut":
            data = data[:at]
        elif how == "put":
            data = data[:at] + draw(st.sampled_from(ODD)) + data[at:]
        elif how == "take":
            data = data[:at] + data[at + draw(st.integers(1, 9)) :]
        else:
            data += data[data.rfind(b"\n", 0, at) + 1 :]
    return gzip.compress(data, 1) if draw(st.integers(0, 7)) == 7 else data


KEYS = [
    "_id",
    "text",
    "title",
    "metadata",
    "query_id",
    "results",
    "corpus_id",
    "score",
    "q",
    "a",
    "",
]
EXTREMES = [2**63, -(2**63), 10**400, "\ud83d", "\u2028", {}, [], [[[]]], {"a": {}}, float("nan")]
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=3)
    | st.sampled_from(EXTREMES)
)


def odd_json() -> st.SearchStrategy:
    """Any value of JSON, with the keys that readers look for and numbers and texts that no table
    can hold.
    """
    keys = st.sampled_from(KEYS)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=8,
    )


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


any_bytes = st.binary(max_size=60) | st.text(max_size=40).map(
    lambda text: text.encode("utf-8", "surrogatepass")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("read")


def answered(read, path, data: bytes):
    """What a reader gives for a file; None where it refuses it in one line that names it."""
    path.write_bytes(data)
    try:
        return read(path)
    except InputError as error:
        told = str(error)
        assert path.name in told and "\n" not in told and len(told) < 3000, told
        return None


def is_whole(run: RunFile) -> bool:
    """Whether a run is what measures take for granted: finite order, each passage once a query,
    readable as written.
    """
    frame = run.frame()
    assert not frame["score"].isna().any() and not frame.duplicated(["query_id", "doc_id"]).any()
    assert len(set(run.query_ids)) == len(run.query_ids) and set(frame["query_id"]) <= set(
        run.query_ids
    )
    return all(isinstance(query_id, str) for query_id in run.query_ids)


@bounded
@given(any_bytes | damaged(MTEB, CORPUS_JSONL) | odd_json().map(dumped))
@example(DEEP)
@example(b'{"a": ' * 100_000)
@example(CUT)
@example(b"\xed\xa0\xbd")  # the same half, as bytes
@example(b"9" * 5000)
@example(b'{"a": 1, "a": 2}')
def test_json_of_anybody(data):
    try:
        value = parse_json(data, "note.json")
    except InputError as error:
        assert str(error).startswith("note.json: ")
    else:
        json.dumps(value, ensure_ascii=False).encode()


@bounded
@given(any_bytes | damaged(RUN))
@example(b"")
@example(b"# only a comment\n")
@example(b"q Q0 a 1 2.5 my system v2\n\n \n")
@example(b"q Q0 a 1 nan t\n")
@example(b"q Q0 a 1 " + b"9" * 5000 + b" t\n")
@example(RUN + RUN)
@example(gzip.compress(RUN)[:-3])
def test_trec_runs(folder, data):
    run = answered(RunFile.read, folder / "a.run", data)
    assert run is None or (is_whole(run) and len(run))


@bounded
@given(any_bytes | damaged(QRELS, BEIR_QRELS))
@example(b"")
@example(b"# only a comment\n")
@example(b"q 0 a 1 more\n")
@example(b"q 0 a " + b"9" * 20)
@example(b"query-id\tcorpus-id\tscore\n")
@example(QRELS + QRELS)
def test_qrels(folder, data):
    qrels = answered(read_qrels, folder / "qrels.tsv", data)
    if qrels is not None:
        assert len(qrels) and qrels["relevance"].dtype == np.int64
        assert not qrels.duplicated(["query_id", "doc_id"]).any()


@bounded
@given(any_bytes | damaged(QUERIES))
@example(b"")
@example(b"q\t \n")
@example("q\tone\u2028two\u0085three\n".encode())
def test_queries_as_lines(folder, data):
    queries = answered(read_queries_tsv, folder / "queries.tsv", data)
    assert queries is None or (len(queries) and queries["query_id"].is_unique)


@bounded
@given(
    any_bytes
    | damaged(MTEB)
    | odd_json().map(dumped)
    | odd_json().map(lambda hits: dumped({"m": {"test": hits}}))
)
@example(DEEP)
@example(b"[]")
@example(b"{}")
@example(b'{"q": {"a": 1.0}}')
@example(b'{"default": {"test": {"q": {"a": null}}}}')
@example(b'{"default": {"test": {"q": {"a": ' + b"9" * 400 + b"}}}}")
@example(b'{"default": {"test": {' + CUT + b": {}}}}")
def test_runs_of_mteb(folder, data):
    run = answered(read_run, folder / "a.json", data)
    assert run is None or (is_whole(run) and run.query_ids)


@bounded
@given(
    any_bytes
    | damaged(SENTENCE_TRANSFORMERS)
    | odd_json().map(dumped)
    | odd_json().map(lambda results: dumped({"query_id": "q", "results": results}))
)
@example(b"")
@example(b"\n \n")
@example(b'{"query_id": "q", "results": {}}')
@example(b'{"query_id": 1.0, "results": []}')
@example(DEEP)
def test_runs_of_sentence_transformers(folder, data):
    run = answered(read_run, folder / "a.jsonl", data)
    assert run is None or (is_whole(run) and run.query_ids)


@bounded
@given(any_bytes | damaged(CSV))
@example(b"")
@example(b"QID,DOCNO,SCORE\nq,a,1\n")
@example(b"qid,docno,score\nnan,a,1\n")
@example(b"docno,score\nq,a,1\n")
@example(b'qid,docno,score\n"q,a,1\n')
def test_runs_as_csv(folder, data):
    run = answered(read_run, folder / "a.csv", data)
    assert run is None or (is_whole(run) and len(run))


ids = st.sampled_from(
    [
        "q",
        "p",
        "",
        "007",
        7,
        7.0,
        None,
        True,
        b"q",
        "é\u2028",
        "\ud83d",
        2**70,
        ("q",),
        float("nan"),
    ]
)
scores = st.sampled_from(
    [2.5, 1, 0, -0.0, None, "1", "x", True, float("nan"), float("inf"), 10**400, 2**64, [1], {}]
)


@bounded
@given(st.lists(st.tuples(ids, ids, scores), max_size=3))
@example([("1", "a", 1.0), (1, "b", 2.0)])
@example([(1.0, "a", 1.0)])
@example([])
def test_runs_as_tables(rows):
    try:
        run = RunFile.from_frame(
            pd.DataFrame(rows, columns=["query_id", "doc_id", "score"], dtype=object)
        )
    except InputError as error:
        assert str(error).startswith("run: ")
    else:
        assert is_whole(run) and len(run) == len(rows)
        assert set(run.query_ids) == {str(query_id) for query_id, *_ in rows}


@bounded
@given(
    st.lists(st.sampled_from(["q", "p", 7, 7.0, None]), max_size=3),
    st.lists(st.sampled_from(["a", "b", 7, 7.0, None, "\ud83d"]), max_size=3),
    st.integers(0, 2**32 - 1),
)
@example(["q"], ["a", "a"], 1)
@example([1.0], ["a"], 0)
def test_runs_of_arrays(query_ids, doc_ids, seed):
    random = np.random.default_rng(seed)
    rows = random.integers(-1, max(len(doc_ids), 1), (len(query_ids), 2))
    try:
        run = RunFile.from_arrays(query_ids, doc_ids, rows, random.random(rows.shape))
    except InputError as error:
        assert str(error).startswith("run: ")
    else:
        assert is_whole(run) and len(run) == (rows >= 0).sum()


def written(table: pa.Table, **options) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


TEXT, FLOATS = pa.array(["q", "p"]), pa.array([1.5, 0.5])
CODED, SINGLE = TEXT.dictionary_encode(), FLOATS.cast(pa.float32())  # as ours are written
odd = [
    ["q", None],
    ["q", "q"],
    [b"q", b"\xff"],
    [1, 2],
    [None, None],
    [["q"], []],
    [{"a": 1}, None],
    [True, False],
]
columns = st.sampled_from(
    [TEXT, FLOATS, CODED, SINGLE, pa.array([0, 1], pa.timestamp("ns")), *map(pa.array, odd)]
)
names = st.sampled_from(["query_id", "doc_id", "score", "qid", "docno", "rank", ""])
marks = st.sampled_from([b"query_ids", b"interextra.content", b"pandas", b"x"])
metadata = st.dictionaries(marks, any_bytes | odd_json().map(dumped), max_size=3)
PANDAS = pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["a", "b"], "score": [2.5, 1.5]})
OURS = RunFile.from_arrays(
    ["q", "p", "n"], ["a", "b"], np.array([[0, 1], [1, -1], [-1, -1]]), np.ones((3, 2))
)
CHECKED = {"write_page_checksum": True}


@bounded
@given(st.lists(st.tuples(names, columns), max_size=4), metadata, st.booleans())
@example([], {b"query_ids": b"[]"}, False)
@example([("query_id", TEXT), ("doc_id", TEXT), ("score", FLOATS)], {b"query_ids": DEEP}, True)
@example(
    [("query_id", CODED), ("doc_id", CODED), ("score", SINGLE)], {b"query_ids": b'["q"]'}, True
)
@example(
    [("query_id", CODED), ("doc_id", CODED), ("score", SINGLE)], {b"query_ids": b'["q", "p"]'}, True
)
def test_parquet_of_anybody(folder, named, foreign, is_ours):
    """Arbitrary columns and metadata; also ours, of which only the metadata is another."""
    table = pa.table([column for _, column in named], [name for name, _ in named])
    data = written(table.replace_schema_metadata(foreign), **CHECKED)
    for read in (read_run, RunFile.read) if is_ours else (read_run,):
        run = answered(read, folder / "a.parquet", data)
        assert run is None or is_whole(run)


@bounded
@given(st.sampled_from(["ours", "theirs"]), st.integers(0, 2**31))
def test_parquet_with_one_bit_flipped_gives_the_same_run_or_none(folder, which, place):
    OURS.write_parquet(folder / "ours.parquet")
    data = (folder / "ours.parquet").read_bytes()
    if (
        which == "theirs"
    ):  # of a writer that checks its pages; the names of columns in the footer nobody checks
        data = written(pa.Table.from_pandas(PANDAS), **CHECKED)
        place %= 8 * data.index(b"ARROW:schema")
    byte, bit = divmod(place % (8 * len(data)), 8)
    flipped = data[:byte] + bytes([data[byte] ^ 1 << bit]) + data[byte + 1 :]
    run = answered(RunFile.read if which == "ours" else read_run, folder / "a.parquet", flipped)
    if which == "ours" and run is not None:
        assert run.query_ids == OURS.query_ids and run.frame().equals(OURS.frame())
    assert run is None or is_whole(run)


@bounded
@given(any_bytes | damaged(VALUES))
@example(b"")
@example(b"name,measure,value\nm,RR@10,1\n")
@example(b"name,qid,measure,value\nm,q,RR@10,inf\nm,p,RR@10,1\n")
def test_values_of_pyterrier(folder, data):
    asked = pd.DataFrame({"query_id": ["q", "p"]})
    assume(b"value" in data)
    split = SimpleNamespace(queries=asked, qrels=asked)
    found = answered(
        lambda path: values_of_run(path, split, ["RR@10"]), folder / "values.csv", data
    )
    assert found is None or (
        set(found["query_id"]) == {"q", "p"} and np.isfinite(found["value"]).all()
    )


@bounded
@given(
    any_bytes
    | damaged(QRELS_JSON)
    | odd_json().map(dumped)
    | odd_json().map(lambda docs: dumped({"q": docs}))
)
@example(DEEP)
@example(b"{}")
@example(b'{"q": {"a": 9223372036854775808}}')
@example(b'{"q": {"a": 1, "a": 0}}')
def test_released_qrels_as_json(folder, data):
    qrels = answered(read_qrels_json, folder / "qrel_wha.json", data)
    assert qrels is None or (len(qrels) and qrels["relevance"].dtype == np.int64)


@bounded
@given(damaged(QUERIES), damaged(QRELS_JSON))
def test_released_shifts(folder, queries, qrels):
    for path, data in (
        (folder / "EVAL/queries/queries_wha.tsv", queries),
        (folder / "EVAL/qrel/qrel_wha.json", qrels),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    try:
        found, judged, without_text = read_shift(folder, "wha")
    except InputError as error:
        assert "_wha." in str(error) and "\n" not in str(error)
    else:
        assert set(without_text) == set(judged["query_id"]) - set(found["query_id"])


@bounded
@given(any_bytes | damaged(SHEET_CSV), st.booleans(), st.booleans())
@example(b"", True, True)
@example(SHEET_CSV.partition(b"\n")[0], False, False)
@example(SHEET_CSV.replace(b"tea", b"t" * 200_000), False, True)
@example(SHEET_CSV + b'"', False, True)
@example(SHEET_CSV.replace(b"tea", b"\xff"), False, True)
def test_annotation_sheets(folder, data, with_pairs, complete):
    sheet = answered(
        lambda path: read_sheet(path, PAIRS if with_pairs else None, complete),
        folder / "sheet.csv",
        data,
    )
    assert sheet is None or (len(sheet) and list(sheet) == SHEET)


def opened(folder, corpus=CORPUS_JSONL, queries=QUERIES_JSONL, qrels=BEIR_QRELS):
    """A collection of three files, opened twice as by two processes; None where it is refused."""
    (folder / "qrels").mkdir(exist_ok=True)
    for name, data in (
        ("corpus.jsonl", corpus),
        ("queries.jsonl", queries),
        ("qrels/test.tsv", qrels),
    ):
        (folder / name).write_bytes(data)
    try:
        found = []
        for _ in range(2):
            load._opened.cache_clear()
            found.append(open_collection(f"beir:{folder}"))
    except InputError as error:
        told = str(error)
        assert (
            any(name in told for name in ("corpus.jsonl", "queries.jsonl", "test.tsv"))
            and "\n" not in told
        ), told
        return None
    assert found[0].fingerprint == found[1].fingerprint
    assert len(found[0].queries("test")) and len(found[0].passages.texts([0])[0])
    return found[0]


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


NEW = {"_id": "n", "text": "x"}


def lines(first: bytes) -> st.SearchStrategy:
    """The file with a line of any JSON, or damaged."""
    return any_bytes | damaged(first) | odd_json().map(lambda value: first + dumped(value))


@bounded
@given(lines(CORPUS_JSONL))
@example(b"")
@example(CORPUS_JSONL + DEEP)
@example(CORPUS_JSONL + b'{"_id": "c", "text": ' + CUT + b"}")
@example(CORPUS_JSONL + b'{"_id": "c", "text": " "}')
@example(CORPUS_JSONL + b'{"_id": "a", "text": "again"}')
def test_corpora(folder, data):
    opened(folder, corpus=data)


@bounded
@given(
    lines(QUERIES_JSONL)
    | odd_json().map(lambda told: QUERIES_JSONL + dumped(NEW | {"metadata": told}))
)
@example(b"")
@example(QUERIES_JSONL + DEEP)
@example(QUERIES_JSONL + b'{"_id": "c", "text": ' + CUT + b"}")
@example(QUERIES_JSONL + b'{"_id": "c", "text": "x", "metadata": {"a": {}}}')
@example(QUERIES_JSONL + b'{"_id": "c", "text": "x", "metadata": {"n": 18446744073709551616}}')
@example(
    QUERIES_JSONL
    + b'{"_id": "c", "text": "x", "metadata": {"kind": '
    + b"[" * 300
    + b"]" * 300
    + b"}}"
)
@example(
    QUERIES_JSONL + b'{"_id": "c", "text": "x", "metadata": {"": {"b": [{"c": 1}, 2]}, "n": "two"}}'
)
def test_queries_with_metadata(folder, data):
    opened(folder, queries=data)


@bounded
@given(any_bytes | damaged(BEIR_QRELS, b"q 0 a 1\np 0 b 0\n"))
@example(b"")
@example(BEIR_QRELS.replace(b"a\t1", b"a\t" + b"9" * 20))
def test_qrels_of_a_collection(folder, data):
    opened(folder, qrels=data)


@bounded
@given(
    st.sampled_from(["mini", "beir", "irds", "msmarco-queries", ""]),
    st.text(max_size=12),
    st.sampled_from(ODD),
)
@example("beir", "~nobody-of-this-name/x", b"")
@example("mini", "seed=", b"9" * 5000)
@example("beir", "/tmp/" + "n" * 300, b"")
@example("beir", "a\0b", b"")
def test_specs(scheme, rest, odd):
    spec = f"{scheme}:{rest}{odd.decode('utf-8', 'surrogateescape')[:6000]}"
    with pytest.raises(InputError):
        open_collection(spec)

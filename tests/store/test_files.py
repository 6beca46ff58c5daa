"""Qrels and query files: both layouts read alike, every fault named with file and line."""

import gzip
import io

import numpy as np
import pandas as pd
import pytest
import pytrec_eval

from interextra.data.runs import RunFile
from interextra.data.trec import line_of, read_qrels, read_queries_tsv
from interextra.overlap.annotation import SHEET, read_sheet
from interextra.papers.released import read_qrels_json, write_qrels
from interextra.store.errors import InputError

ROWS = [("q1", "d1", 0), ("q1", "d2", 2), ("q0", "d2", 1)]


def fails(function, *parts, **switches) -> str:
    with pytest.raises(InputError) as caught:
        function(*parts, **switches)
    return str(caught.value)


def put(path, text, encoding="utf-8"):
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def frame(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"]).astype(
        {"query_id": "str", "doc_id": "str"}
    )


@pytest.mark.parametrize("name", ["q.txt", "q.txt.gz"])
@pytest.mark.parametrize(
    "text",
    [
        "q1\t0\td1\t0\nq1\t0\td2\t2\nq0\t0\td2\t1\n",
        "query-id\tcorpus-id\tscore\nq1\td1\t0\nq1\td2\t2\n\nq0\td2\t1",
        "q1\t0\td1\t0\r\nq1\tQ0\td2\t2\r\n\r\nq0\t0\td2\t1\r\n",
        "q1\t0\td1\t0\nq1 0 d2  2\n \nq0\t0\td2\t1\n",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\td1\t0\nq1\td2\t2\nq0\td2\t1",
        "\n \r\nquery-id\tcorpus-id\tscore\nq1\td1\t0\nq1\td2\t2\nq0\td2\t1",
    ],
)
def test_both_layouts_and_odd_separators_read_alike(tmp_path, name, text):
    pd.testing.assert_frame_equal(read_qrels(put(tmp_path / name, text)), frame(ROWS))


def test_a_byte_order_mark_is_no_part_of_an_id(tmp_path):
    assert read_queries_tsv(put(tmp_path / "t", "\ufeff1\ta\n"))["query_id"].tolist() == ["1"]
    assert read_qrels(put(tmp_path / "q", "\ufeff1 0 a 1\n"))["query_id"].tolist() == ["1"]
    assert read_qrels(put(tmp_path / "m", "\ufeff1 0  a 1\n"))["query_id"].tolist() == ["1"]


def test_spaces_separate_columns_too(tmp_path):
    path = put(tmp_path / "q", "7 Q0 NA -1\n7 Q0 null 3\n")
    assert read_qrels(path).to_numpy().tolist() == [["7", "NA", -1], ["7", "null", 3]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a 0 d1 1\na d2 1\n", ":2: 3 columns instead of 4: 'a d2 1'"),
        ("a\td2\t1\n", ":1: 3 columns instead of 4"),
        ("query-id\tcorpus-id\tscore\na\td1\t1\n\na\t0\td2\t1\n", ":4: 4 columns instead of 3"),
        ("query-id\tcorpus-id\tscore\na\td1\t1\na\t\t1\n", ":3: an empty column"),
        ("a 0 d1 1\n\na 0 d2 1.5\n", ":3: relevance '1.5' is not an integer"),
        ("query-id\tcorpus-id\tscore\na\td1\thigh\n", ":2: relevance 'high' is not an integer"),
        (
            "a 0 d 1\n\na 0 d x\nb\n \na 0 d y z\n",
            ":3: relevance 'x' is not an integer of 64 bits: 'a 0 d x', 'b'",
        ),
        (f"a 0 d1 {10**20}\n", f":1: relevance '{10**20}' is not an integer"),
        ("a 0 d1 1\ra 0 d2 1\n\na d3\rb\n", ":3: 2 columns instead of 4: 'a d3', 'b'"),
        ("", ": no rows in it"),
        ("query-id\tcorpus-id\tscore\n", ": no rows in it"),
        (
            "a 0 d1 1\nb 0 d1 1\n\na 0 d1 0\nb 0 d1 1\n",
            ":4: 2 rows repeat a query_id and doc_id: 'a d1', 'b d1'",
        ),
    ],
)
def test_a_bad_qrels_line_is_named(tmp_path, text, told):
    path = put(tmp_path / "bad.tsv", text)
    assert f"{path}{told}" in fails(read_qrels, path)


def test_a_headerless_three_column_file_is_told_about_the_header(tmp_path):
    assert "BEIR files have the header line" in fails(
        read_qrels, put(tmp_path / "q.tsv", "a\td2\t1\n")
    )


def test_bytes_that_are_not_utf8_are_named(tmp_path):
    text = "a 0 d1 1\na 0 dé 1\n"
    assert ":2: not UTF-8" in fails(read_qrels, put(tmp_path / "q", text, "latin-1"))
    assert ":2: not UTF-8" in fails(
        read_queries_tsv, put(tmp_path / "t", "a\tx\nb\té\n", "latin-1")
    )


@pytest.mark.parametrize(
    ("read", "line"), [(read_qrels, "a\t0\td%d\t1\n"), (read_queries_tsv, "%d\ttext\n")]
)
def test_missing_and_cut_files_are_input_errors(tmp_path, read, line):
    assert "no such file" in fails(read, tmp_path / "none")
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress("".join(line % i for i in range(1000)).encode())[:-9])
    assert "complete gzip" in fails(read, cut)


def test_repeated_pairs_are_kept_on_request_only(tmp_path):
    path = put(tmp_path / "q", "a 0 d1 1\na 0 d1 1\n")
    assert len(read_qrels(path, duplicates="keep")) == 2
    assert "1 rows repeat a query_id and doc_id: 'a d1'" in fails(read_qrels, path)


def test_qrels_written_are_read_back_and_ids_with_spaces_refused(tmp_path):
    write_qrels(tmp_path / "q", frame(ROWS))
    pd.testing.assert_frame_equal(read_qrels(tmp_path / "q"), frame(ROWS))
    assert (tmp_path / "q").read_text().startswith("q1\t0\td1\t0\n")
    assert "doc_id 'd 1' has white space" in fails(
        write_qrels, tmp_path / "q", frame([("q1", "d 1", 0)])
    )


@pytest.mark.parametrize("name", ["t.tsv", "t.tsv.gz"])
def test_query_texts_keep_their_spaces(tmp_path, name):
    path = put(tmp_path / name, "2\t a  b \n\n4\tc\xa0d\u2028e\r\n")
    assert read_queries_tsv(path).to_numpy().tolist() == [["2", " a  b "], ["4", "c\xa0d\u2028e"]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "1\ta\n2 b\n",
            ":2: 1 columns instead of 2: '2 b'; write lines of query_id, text, separated by tabs",
        ),
        ("1\ta\tb\n", ":1: 3 columns instead of 2"),
        ("1\ta\n\n2\t \n", ":3: an empty column"),
        ("1\ta\n2\tb\n1\tc\n", ":3: 1 rows repeat a query_id: '1'"),
        ("\n", ": no rows in it"),
    ],
)
def test_a_bad_query_line_is_named(tmp_path, text, told):
    path = put(tmp_path / "bad.tsv", text)
    assert f"{path}{told}" in fails(read_queries_tsv, path)


def test_a_place_is_counted_over_rows_not_blank_lines(tmp_path):
    path = put(tmp_path / "q", "query-id\tcorpus-id\tscore\n\nfirst\n\n\nsecond\n")
    assert line_of(path, 1) == f"{path}:6"
    assert line_of(put(tmp_path / "p.gz", "\nfirst\n"), 0).endswith("p.gz:2")


def test_real_files_have_their_known_counts(real_data):
    folder = real_data / "msmarco"
    assert len(read_qrels(folder / "qrels.dl19-passage.txt")) == 9260
    train = read_qrels(folder / "qrels.train.partial.tsv.gz")
    assert (len(train), train["query_id"].nunique()) == (237_821, 231_886)
    assert len(read_queries_tsv(folder / "topics.dl20.txt")) == 200
    assert (
        read_queries_tsv(folder / "topics.msmarco-passage.dev-subset.txt")["text"][1]
        == " Androgen receptor define"
    )


def test_comments_and_what_follows_the_tag_of_a_run_are_ignored(tmp_path):
    """As trec_eval 10 does; a comment may stand anywhere, also after the byte order mark and before
    a bad line.
    """
    plain = "q Q0 a 1 2.5 t\nq Q0 b 2 1.5 t\n#"
    odd = "\ufeff# system A\nq Q0 a 1 2.5 my system v2\n  # half way\n\nq\tQ0\tb 2 1.5  my\tsystem\r\n#end"
    read = [
        RunFile.read(put(tmp_path / f"{name}.run", text))
        for name, text in (("a", plain), ("b", odd))
    ]
    assert read[0].frame().equals(read[1].frame()) and len(read[0]) == 2
    theirs = pytrec_eval.parse_run(
        io.StringIO("q Q0 a 1 2.5 t\nq Q0 b 2 1.5 t\n")
    )  # which knows no comments
    assert {"q": dict(read[1].frame()[["doc_id", "score"]].itertuples(index=False))} == theirs
    qrels = put(tmp_path / "qrels", "# assessed in May\nq 0 a 1\n# r 0 a 1\n#r 0 b 1\nq 0 b 0\n")
    assert read_qrels(qrels).to_numpy().tolist() == [["q", "a", 1], ["q", "b", 0]]
    assert ":5: relevance 'x'" in fails(
        read_qrels, put(tmp_path / "bad", "# a\nq 0 a 1\n\n# b\nq 0 b x\n")
    )
    assert ":4: 1 rows repeat" in fails(
        read_qrels, put(tmp_path / "bad", "# a\nq 0 a 1\n# b\nq 0 a 1\n")
    )
    assert ":3: 1 rows repeat" in fails(
        RunFile.read, put(tmp_path / "bad", "q 0 a 1 1 t\n#\nq 0 a 1 2 t u\n")
    )
    assert ":2: 5 columns instead of 4" in fails(
        read_qrels, put(tmp_path / "bad", "q 0 a 1\nq 0 b 1 x\n")
    )
    assert "no rows in it" in fails(read_qrels, put(tmp_path / "bad", "# nothing\n"))


def test_a_number_sign_is_part_of_an_id_where_a_tab_separates(tmp_path):
    qrels = put(tmp_path / "test.tsv", "query-id\tcorpus-id\tscore\n#1\t#a\t1\n")
    assert read_qrels(qrels).to_numpy().tolist() == [["#1", "#a", 1]]
    assert read_queries_tsv(put(tmp_path / "queries.tsv", "#1\t# of cats\n"))[
        "query_id"
    ].tolist() == ["#1"]
    assert "begins with #" in fails(write_qrels, tmp_path / "qrels", frame([("#1", "a", 1)]))


def test_a_written_run_has_no_line_that_reads_as_a_comment(tmp_path):
    run = RunFile.from_arrays(["#1"], ["#a"], np.zeros((1, 1), int), np.ones((1, 1)))
    assert "query_id '#1'" in fails(run.write_trec, tmp_path / "run")


@pytest.mark.parametrize("name", ["n" * 300, "a\0b", "~nobody-of-this-name/x", ""])
@pytest.mark.parametrize(
    "read", [RunFile.read, read_qrels, read_queries_tsv, read_qrels_json, read_sheet]
)
def test_a_name_that_no_file_can_have_is_an_input_error(name, read):
    assert name in fails(read, name)
    assert name in fails(RunFile.read, f"{name}.parquet")


def test_a_sheet_that_is_no_csv_is_named_with_its_line(tmp_path):
    path = put(tmp_path / "sheet.csv", ",".join(SHEET) + "\na,b\n" + "x" * 200_000 + "\n")
    assert "sheet.csv:3: not CSV (field larger than field limit" in fails(read_sheet, path)
    assert "no pairs in it" in fails(
        read_sheet, put(tmp_path / "sheet.csv", ",".join(SHEET) + "\n")
    )

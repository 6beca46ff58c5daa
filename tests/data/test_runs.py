"""Runs: order, files, errors."""

import gzip
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import pytrec_eval

from interextra.data.runs import RunFile
from interextra.store.errors import InputError

LINE = "q{q} Q0 d{d} 1 {s} t\n"


def random_frame(seed: int, n_queries: int = 20, depth: int = 30, levels: int = 8) -> pd.DataFrame:
    """Ragged run, many tied scores, doc_ids whose UTF-8 order is not the order of insertion."""
    rng = np.random.default_rng(seed)
    names = [f"{p}{i}" for i in range(40) for p in ("d", "D", "é", "€", "𝄞", "")]
    rows = []
    for query in range(n_queries):
        rows += [
            (f"q{query}", names[doc], rng.integers(-levels, levels) / 4)
            for doc in rng.permutation(len(names))[: rng.integers(1, depth + 1)]
        ]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])


def brute_force_order(frame: pd.DataFrame) -> list[tuple[str, str]]:
    rows = []
    for query in dict.fromkeys(frame.query_id):
        part = frame[frame.query_id == query]
        keyed = [
            (np.float32(score), doc.encode())
            for doc, score in zip(part.doc_id, part.score, strict=True)
        ]
        rows += [(query, doc.decode()) for _, doc in sorted(keyed, reverse=True)]
    return rows


def pairs(run: RunFile) -> list[tuple[str, str]]:
    frame = run.frame()
    return list(zip(frame.query_id, frame.doc_id, strict=True))


def same(first: RunFile, second: RunFile) -> bool:
    return first.query_ids == second.query_ids and first.frame().equals(second.frame())


@pytest.mark.parametrize("seed", range(5))
def test_order_is_score_then_doc_id_both_descending(seed):
    frame = random_frame(seed)
    run = RunFile.from_frame(frame)
    assert pairs(run) == brute_force_order(frame)
    for _, part in run.frame().groupby("query_id"):
        assert part["rank"].tolist() == list(range(1, len(part) + 1))


@pytest.mark.parametrize("seed", range(3))
def test_order_is_that_of_trec_eval(seed):
    """The first relevant passage is at the rank that trec_eval sees, for every passage of a tied
    list in turn.
    """
    frame = random_frame(seed, n_queries=1, depth=25, levels=2).query("query_id == 'q0'")
    scores = {"q0": dict(zip(frame.doc_id, frame.score.astype(float), strict=True))}
    for row in RunFile.from_frame(frame).frame().itertuples():
        seen = pytrec_eval.RelevanceEvaluator({"q0": {row.doc_id: 1}}, {"recip_rank"}).evaluate(
            scores
        )
        assert seen["q0"]["recip_rank"] == pytest.approx(1 / row.rank)


def test_scores_equal_in_single_precision_are_tied():
    frame = pd.DataFrame(
        {"query_id": "q", "doc_id": ["a", "b", "c"], "score": [1 + 1e-9, 1.0, -0.0]}
    )
    assert RunFile.from_frame(frame).frame().doc_id.tolist() == ["b", "a", "c"]
    zeros = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "score": [0.0, -0.0]})
    assert RunFile.from_frame(zeros).frame().doc_id.tolist() == ["b", "a"]


def test_rows_already_in_order_are_the_same_as_shuffled_rows():
    frame = random_frame(7)
    run = RunFile.from_frame(frame)
    ordered = run.frame()[["query_id", "doc_id", "score"]]
    assert same(RunFile.from_frame(ordered), run)
    shuffled = ordered.sample(frac=1, random_state=0)
    again = (
        RunFile.from_frame(shuffled).frame().sort_values(["query_id", "rank"], ignore_index=True)
    )
    assert again.equals(run.frame().sort_values(["query_id", "rank"], ignore_index=True))


@pytest.mark.parametrize("kind", ["list", "arrow", "chunked", "large_string"])
def test_arrays_of_a_search_give_the_run_and_padding_is_dropped(kind):
    doc_ids = ["b", "a", "c", "never"]
    taken = {
        "list": doc_ids,
        "arrow": pa.array(doc_ids),
        "chunked": pa.chunked_array([doc_ids[:1], doc_ids[1:]]),
        "large_string": pa.array(doc_ids, pa.large_string()),
    }[kind]
    rows, scores = (
        np.array([[0, 1, 2], [2, -1, -1], [-1, -1, -1]]),
        np.array([[1, 1, 3.0], [5, 0, 0], [0, 0, 0]]),
    )
    run = RunFile.from_arrays(["q1", "q2", "q3"], taken, rows, scores)
    assert pairs(run) == [("q1", "c"), ("q1", "b"), ("q1", "a"), ("q2", "c")]
    assert run.doc_ids.to_pylist() == ["a", "b", "c"]  # sorted, only those used
    assert run.offsets.tolist() == [0, 3, 4, 4]
    assert (run.query_codes.dtype, run.doc_codes.dtype, run.scores.dtype) == (
        np.int32,
        np.int32,
        np.float32,
    )


@pytest.mark.parametrize("name", ["run.txt", "run.parquet"])
def test_a_written_run_reads_back_the_same(tmp_path, name):
    run = RunFile.from_frame(random_frame(1))
    (run.write_parquet if name.endswith("parquet") else run.write_trec)(tmp_path / name)
    assert same(RunFile.read(tmp_path / name), run)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing left aside


def test_parquet_keeps_queries_without_passages_and_empty_runs(tmp_path):
    for rows in ([[-1], [0]], [[-1], [-1]]):
        run = RunFile.from_arrays(["empty", "q"], ["d"], np.array(rows), np.ones((2, 1)))
        run.write_parquet(tmp_path / "run.parquet")
        assert same(RunFile.read(tmp_path / "run.parquet"), run)


def test_a_run_over_the_ids_of_a_collection_is_written(tmp_path):
    ids = pa.chunked_array([pa.array(["a", "b"], pa.large_string())])
    RunFile.from_arrays(["q"], ids, np.array([[1, 0]]), np.array([[2.0, 1.0]])).write_trec(
        tmp_path / "run"
    )
    assert (tmp_path / "run").read_text() == "q Q0 b 1 2 interextra\nq Q0 a 2 1 interextra\n"


def test_the_same_run_gives_the_same_bytes(tmp_path):
    run = RunFile.from_frame(random_frame(4))
    for name in ("a.parquet", "b.parquet"):
        run.write_parquet(tmp_path / name)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.mark.parametrize("separator", [" ", "\t", "  ", " \t "])
@pytest.mark.parametrize("end", ["\n", "\r\n", " \n", "\n\n"])
def test_any_white_space_separates_and_order_and_rank_of_the_file_do_not_matter(
    tmp_path, separator, end
):
    lines = [
        ["2", "Q0", "x", "9", "-1e-1", "t"],
        ["1", "0", 'a"', "7", "2", "t"],
        ["2", "0", "NA", "0", "3.5", "t"],
    ]
    (tmp_path / "run").write_bytes(
        "".join(separator.join(fields) + end for fields in lines).encode()
    )
    assert pairs(RunFile.read(tmp_path / "run")) == [("2", "NA"), ("2", "x"), ("1", 'a"')]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            LINE.format(q=1, d=1, s=1) + "q1 Q0 d2 2 0.5\n",
            ":2: 5 columns instead of 6: 'q1 Q0 d2 2 0.5'; write lines of",
        ),
        (LINE.format(q=1, d=1, s="high"), ":1: score 'high' is not a number"),
        (LINE.format(q=1, d=1, s="1_0"), ":1: score '1_0' is not a number"),
        (
            LINE.format(q=1, d=1, s=2) + "\n" + LINE.format(q=1, d=2, s="nan"),
            ":3: score 'nan' is not a number",
        ),
        (
            "".join(LINE.format(q=1, d=i, s="NaN") for i in range(5)),
            ":1: score 'NaN' is not a number: 'q1 Q0 d0 1 NaN t'",
        ),
        (LINE.format(q=1, d=1, s=2) * 2, ":2: 1 rows repeat a query_id and doc_id: 'q1 d1'"),
        ("", ": no rows in it"),
        ("\n \n", ": no rows in it"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_a_bad_file_is_named_with_line_and_offenders(tmp_path, text, told, zipped):
    path = tmp_path / ("bad.run.gz" if zipped else "bad.run")
    path.write_bytes(gzip.compress(text.encode()) if zipped else text.encode())
    with pytest.raises(InputError) as error:
        RunFile.read(path)
    assert f"{path}{told}" in str(error.value)


def test_missing_damaged_and_foreign_files_are_input_errors(tmp_path):
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"q Q0 d 1 1 t\n" * 99)[:-9])
    (tmp_path / "latin").write_bytes("q Q0 dé 1 1 t\n".encode("latin-1"))
    (tmp_path / "no.parquet").write_bytes(b"not parquet")
    pd.DataFrame({"query_id": ["q"]}).to_parquet(tmp_path / "other.parquet")
    for name in ("absent", "cut.gz", "latin", "no.parquet", "other.parquet"):
        with pytest.raises(InputError, match=name):
            RunFile.read(tmp_path / name)


@pytest.mark.parametrize(
    ("frame", "part"),
    [
        ({"query_id": ["q"], "doc_id": ["d"]}, "score"),
        (
            {"query_id": ["q", "q"], "doc_id": ["d", "d"], "score": [1.0, 2.0]},
            "row 2: 1 rows repeat a query_id and doc_id: 'q d'",
        ),
        ({"query_id": ["q"], "doc_id": ["d"], "score": [np.nan]}, "empty"),
        ({"query_id": ["q", None], "doc_id": ["d", "e"], "score": [1.0, 2.0]}, "empty"),
        ({"query_id": ["q"], "doc_id": ["d"], "score": ["x"]}, "numeric score"),
    ],
)
def test_a_bad_table_is_an_input_error(frame, part):
    with pytest.raises(InputError, match="run: ") as error:
        RunFile.from_frame(pd.DataFrame(frame))
    assert part in str(error.value)


def test_a_score_that_is_no_number_and_ids_with_spaces_are_input_errors(tmp_path):
    one = np.zeros((1, 1), int)
    with pytest.raises(InputError, match="the score of .'q', 'd'. .query_id, doc_id. is NaN"):
        RunFile.from_arrays(["q"], ["d"], one, np.array([[np.nan]]))
    with pytest.raises(InputError, match="query_id 'my q' has white space"):
        RunFile.from_arrays(["my q"], ["d"], one, np.ones((1, 1))).write_trec(tmp_path / "run")


@pytest.mark.parametrize(
    ("query_ids", "rows", "told"),
    [
        (["q", "p"], [[0]], "2 queries, rows .1, 1., scores .1, 1. do not agree"),
        (["q"], [[2]], "a row lies outside the 2 doc_ids"),
        (["q"], [[0, -2]], "a row lies outside the 2 doc_ids; only -1 .padding. may"),
        (["q", "q"], [[0], [1]], "run: row 2: 1 rows repeat a query_id: 'q'"),
        (["p", "q"], [[0, 1], [1, 1]], "run: row 4: 1 rows repeat a query_id and doc_id: 'q e'"),
    ],
)
def test_bad_arrays_are_input_errors(query_ids, rows, told):
    with pytest.raises(InputError, match=told):
        RunFile.from_arrays(query_ids, ["d", "e"], np.array(rows), np.ones(np.shape(rows)))


def test_scores_of_another_shape_are_refused():
    with pytest.raises(InputError, match="do not agree"):
        RunFile.from_arrays(["q"], ["d"], np.zeros((1, 1), int), np.ones((1, 2)))


def test_a_damaged_run_cell_is_refused(tmp_path):
    run = RunFile.from_frame(
        pd.DataFrame({"query_id": ["q", "q"], "doc_id": ["d", "e"], "score": [2.0, 1.0]})
    )
    replace(run, doc_codes=np.zeros(2, np.int32)).write_parquet(tmp_path / "run.parquet")
    with pytest.raises(
        InputError, match="run.parquet: row 2: 1 rows repeat a query_id and doc_id: 'q d'"
    ):
        RunFile.read(tmp_path / "run.parquet")


def test_a_passage_twice_for_a_query_is_refused_also_under_two_rows():
    with pytest.raises(InputError, match="1 rows repeat a query_id and doc_id: 'q d1'"):
        RunFile.from_arrays(["q"], ["d1", "d1"], np.array([[0, 1]]), np.array([[2.0, 1.0]]))
    run = RunFile.from_arrays(
        ["p", "q"], ["d1", "d1"], np.array([[0], [1]]), np.ones((2, 1))
    )  # once a query
    assert pairs(run) == [("p", "d1"), ("q", "d1")] and run.doc_ids.to_pylist() == ["d1"]


@pytest.mark.parametrize("column", ["query_id", "doc_id"])
def test_ids_are_strings_or_whole_numbers_as_written_and_never_floats(column):
    frame = pd.DataFrame({"query_id": ["1", "2"], "doc_id": ["1", "2"], "score": [2.0, 1.0]})
    assert same(RunFile.from_frame(frame.assign(**{column: [1, 2]})), RunFile.from_frame(frame))
    assert same(RunFile.from_frame(frame.astype({column: "category"})), RunFile.from_frame(frame))
    told_of = {
        "1.0 is a float": [1.0, 2.0],
        "2.5 is a float": ["1", 2.5],
        "True is a bool": [True, False],
    }
    for told, wrong in told_of.items():
        with pytest.raises(
            InputError, match=rf"run: {column} {told}; read ids as strings, e.g. dtype="
        ):
            RunFile.from_frame(
                frame.assign(**{column: pd.Series(wrong, dtype=object if "1" in wrong else None)})
            )
    with pytest.raises(InputError, match="query_id 1.0 is a float"):
        RunFile.from_arrays([1.0], ["d"], np.zeros((1, 1), int), np.ones((1, 1)))
    with pytest.raises(InputError, match="doc_id 1.0 is a float"):
        RunFile.from_arrays(["1"], pa.array([1.0]), np.zeros((1, 1), int), np.ones((1, 1)))
    assert RunFile.from_arrays([7], [9], np.zeros((1, 1), int), np.ones((1, 1))).query_ids == ["7"]


def test_all_queries_that_were_asked_are_in_the_run():
    frame = pd.DataFrame({"query_id": ["b"], "doc_id": ["d"], "score": [1.0]})
    run = RunFile.from_frame(frame, asked=["a", "b", "c"])
    assert run.query_ids == ["a", "b", "c"] and run.offsets.tolist() == [0, 0, 1, 1]
    seven = RunFile.from_frame(frame.assign(query_id=7), asked=[3, 7])
    assert seven.query_ids == ["3", "7"] and seven.offsets.tolist() == [0, 0, 1]
    with pytest.raises(InputError, match="1 rows are of queries that were not asked: 'b'"):
        RunFile.from_frame(frame, asked=["a"])


def test_no_flipped_bit_of_a_written_run_gives_another_run(tmp_path):
    """Each bit of a small file in turn; without the digest some gave another score or another
    query.
    """
    run = RunFile.from_arrays(
        ["p", "q", "nothing"], ["a", "b"], np.array([[0, 1], [1, 0], [-1, -1]]), np.ones((3, 2))
    )
    run.write_parquet(tmp_path / "run.parquet")
    data, refused = (tmp_path / "run.parquet").read_bytes(), 0
    for bit in range(0, 8 * len(data), 3):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "run.parquet").write_bytes(flipped)
        try:
            assert same(RunFile.read(tmp_path / "run.parquet"), run)
        except InputError as error:
            assert "run.parquet" in str(error)
            refused += 1
    assert refused > len(data)


@pytest.mark.parametrize(
    "query_ids",
    [
        "",
        "[",
        "{}",
        "5",
        "null",
        '["p"]',
        '["p", "p", "q"]',
        "[1, 2]",
        '["\\ud83d"]',
        "[" * 100_000,
    ],
)
def test_foreign_query_ids_in_the_metadata_are_input_errors(tmp_path, query_ids):
    run = RunFile.from_frame(random_frame(2, n_queries=3))
    run.write_parquet(tmp_path / "run.parquet")
    table = pq.read_table(tmp_path / "run.parquet")
    pq.write_table(
        table.replace_schema_metadata({"query_ids": query_ids}), tmp_path / "run.parquet"
    )
    with pytest.raises(InputError, match="run.parquet"):
        RunFile.read(tmp_path / "run.parquet")


@pytest.mark.parametrize(
    "columns",
    [
        {
            "query_id": ["p", "q"],
            "doc_id": ["a", "b"],
            "score": pa.array([2.0, 1.0], pa.float32()),
        },  # not coded
        {"query_id": [1, 2], "doc_id": ["a", "b"], "score": [2.0, 1.0]},
        {
            "query_id": pa.array(["p", None]).dictionary_encode(),
            "doc_id": ["a", "b"],
            "score": [2.0, 1.0],
        },
        {
            "query_id": pa.array(["p", "q"]).dictionary_encode(),
            "doc_id": [["a"], ["b"]],
            "score": [2.0, 1.0],
        },
        {"query_id": pa.array(["p", "q"]).dictionary_encode()},
    ],
)
def test_foreign_columns_beside_our_metadata_are_input_errors(tmp_path, columns):
    pq.write_table(
        pa.table(columns, metadata={"query_ids": '["p", "q"]'}), tmp_path / "run.parquet"
    )
    with pytest.raises(InputError, match="run.parquet: not a run written by"):
        RunFile.read(tmp_path / "run.parquet")


def test_scores_beyond_single_precision_are_tied_as_in_trec_eval(tmp_path):
    (tmp_path / "run").write_text("q 0 a 1 1e300 t\nq 0 b 2 1e400 t\nq 0 c 3 -1e400 t\n")
    assert pairs(RunFile.read(tmp_path / "run")) == [("q", "b"), ("q", "a"), ("q", "c")]

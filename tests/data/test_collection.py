"""Passages on disk and the checks of a collection: what comes back is what went in, every fault is
named.
"""

import hashlib
import os
import random
import subprocess
import sys
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from interextra.data import converted
from interextra.data.collection import Collection, Passages, content_hash, write_passages
from interextra.data.trec import line_of
from interextra.store.errors import InputError

WORDS = ["rain", "käse", "", "日本語", "a\tb\n", "  two  spaces ", "💧", "x" * 300]


def corpus(n: int, seed: int = 3) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"d{i * 7 % 1009}é{i}", " ".join(rng.choices(WORDS, k=4)) + "!") for i in range(n)]


def stored(tmp_path, pairs, size: int = 100) -> Passages:
    with mock.patch("interextra.data.collection.BATCH_ROWS", size):
        write_passages(tmp_path / "p.arrow", pairs)
    passages = Passages(tmp_path / "p.arrow")
    assert max(map(len, passages.doc_ids.chunks)) <= size
    return passages


def qrels(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"]).astype(
        {"query_id": "str", "doc_id": "str"}
    )


QUERIES = pd.DataFrame(
    {"query_id": ["b", "a", "c"], "text": ["bee", "ant", "cat"], "kind": ["x", None, "y"]}
)
PASSAGES = [("d1", "one"), ("d2", "two"), ("d3", "three")]
QRELS = {"dev": qrels([("c", "d3", 1), ("a", "d1", 0), ("c", "d1", 2)])}


def rows_at(part: str, row: int) -> str:
    return f"{part}, row {row + 1}"


def build(
    tmp_path, passages=PASSAGES, queries=QUERIES, judged=QRELS, at=rows_at, switches=()
) -> Collection:
    parts = converted.Parts(passages, queries, judged, at)
    return converted.stored(tmp_path / "c", "c", "test:c", lambda: parts, switches)


def fails(function, *parts, **switches) -> str:
    with pytest.raises(InputError) as caught:
        function(*parts, **switches)
    return str(caught.value)


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250])
def test_passages_come_back_in_order_whatever_the_batches(tmp_path, n):
    pairs = corpus(n)
    passages = stored(tmp_path, pairs)
    assert len(passages) == n
    assert passages.doc_ids.to_pylist() == [doc_id for doc_id, _ in pairs]
    assert passages.texts(slice(None)) == [text for _, text in pairs]
    assert [(start, len(texts)) for start, texts in passages.batches(64)][-1] == (
        (n - 1) // 64 * 64,
        (n - 1) % 64 + 1,
    )
    assert sum((texts for _, texts in passages.batches(64)), []) == [text for _, text in pairs]


def test_rows_and_texts_agree_with_a_dictionary_and_a_list(tmp_path):
    pairs = corpus(350)
    passages, row_of = (
        stored(tmp_path, pairs),
        {doc_id: row for row, (doc_id, _) in enumerate(pairs)},
    )
    rng = random.Random(5)
    for _ in range(20):
        wanted = [
            rng.choice(pairs)[0] if rng.random() < 0.8 else f"absent{rng.random()}"
            for _ in range(rng.randint(0, 60))
        ]
        rows = passages.rows(wanted)
        assert rows.dtype == np.int64 and rows.tolist() == [
            row_of.get(doc_id, -1) for doc_id in wanted
        ]
        there = rows[rows >= 0]
        assert passages.texts(there) == [pairs[row][1] for row in there]
    assert passages.texts(slice(340, 999)) == [text for _, text in pairs[340:]]
    assert passages.rows(pd.Series(["nobody"])).tolist() == [-1]


def test_rows_outside_the_corpus_are_refused(tmp_path):
    passages = stored(tmp_path, corpus(10))
    assert "passage rows -1, 10 outside 0 … 9; drop the padding (-1)" in fails(
        passages.texts, [3, -1, 10]
    )
    assert "passage rows -1 outside" in fails(passages.texts, [-1])


def test_hash_ignores_batches_and_sees_every_border():
    def digest(pairs, size):
        columns = [pa.array(column, pa.large_string()) for column in zip(*pairs, strict=True)]
        return content_hash(
            [c.slice(start, size) for c in columns] for start in range(0, len(pairs), size)
        )

    pairs = corpus(120)
    assert len({digest(pairs, size) for size in (1, 7, 120)}) == 1
    variants = [
        [("ab", "c")],
        [("a", "bc")],
        [("ab", "c"), ("", "")],
        [("a", "c"), ("b", "")],
        [("", "c"), ("ab", "")],
    ]
    assert len({digest(variant, 9) for variant in variants}) == len(variants)
    lengths = [
        b"".join(len(pair[i].encode()).to_bytes(8, "little") for pair in pairs) for i in (0, 1)
    ]
    values = ["".join(pair[i] for pair in pairs).encode() for i in (0, 1)]
    by_hand = b"".join(
        hashlib.sha256(part).digest() for i in (0, 1) for part in (lengths[i], values[i])
    )
    assert digest(pairs, 50) == hashlib.sha256(by_hand).hexdigest()


def test_a_file_is_mapped_not_loaded(tmp_path):
    before = pa.total_allocated_bytes()
    passages = stored(tmp_path, ((str(i), "word " * 200) for i in range(5000)), 1000)
    held = pa.total_allocated_bytes() - before
    assert passages.path.stat().st_size > 5_000_000 > 50 * held


def test_writing_holds_one_batch_not_the_corpus(tmp_path):
    peak = 0

    def stream():
        nonlocal peak
        for i in range(200_000):
            if i % 10_000 == 0:
                peak = max(peak, pa.total_allocated_bytes())
            yield str(i), "w" * 200

    before = pa.total_allocated_bytes()
    write_passages(tmp_path / "p", stream())
    assert peak - before < 25_000_000 < (tmp_path / "p").stat().st_size


def test_repeated_doc_ids_are_named_at_their_second_place(tmp_path):
    pairs = [(f"d{i}", "text") for i in range(250)]
    for row, of in ((120, 3), (121, 3), (240, 230)):
        pairs[row] = (f"d{of}", "again")
    message = fails(build, tmp_path, passages=pairs)
    assert "passages, row 121: 3 rows repeat a doc_id: 'd3', 'd230'; keep one of each" in message
    assert list(tmp_path.iterdir()) == []


def test_passages_without_text_are_named_or_kept(tmp_path):
    pairs = [(f"d{i}", " \n" if i in (0, 5, 101, 102) else "text") for i in range(1, 110)]
    pairs = [*PASSAGES, *((f"x{i}", text) for i, (_, text) in enumerate(pairs))]
    message = fails(build, tmp_path, passages=pairs)
    assert (
        "passages, row 8: 3 passages without text: doc_id 'x4', 'x100', 'x101'; remove them or keep"
        in message
    )
    assert build(tmp_path, passages=pairs, switches={"empty"}).passages.texts([103]) == [" \n"]


def test_an_empty_corpus_and_a_nameless_passage_are_refused(tmp_path):
    assert "no passages in it" in fails(build, tmp_path, passages=[])
    assert "row 2: 1 passages without doc_id" in fails(
        build, tmp_path, passages=[("a", "x"), ("", "y")]
    )


def test_a_collection_comes_back_as_it_was_built(tmp_path):
    queries = QUERIES.assign(tags=[["t", "u"], None, []], mixed=[1, "two", None], n=[1, 2, 3])
    collection = build(tmp_path, queries=queries)
    assert collection.splits == ("dev",) and len(collection.passages) == 3
    assert collection.query_ids("dev") == ["c", "a"]
    back = collection.queries("dev")
    assert back["text"].tolist() == ["cat", "ant"] and back["n"].tolist() == [3, 2]
    assert back["tags"].tolist() == [[], None] and back["mixed"].tolist()[1] == '"two"'
    pd.testing.assert_frame_equal(collection.qrels("dev"), QRELS["dev"])
    assert repr(collection) == "Collection('test:c': 3 passages; splits dev)"
    assert "c has no split 'test'; it has dev" in fails(collection.qrels, "test")


def test_callers_cannot_change_a_collection(tmp_path):
    collection = build(tmp_path)
    judged, queries = collection.qrels("dev"), collection.queries("dev")
    judged["relevance"], queries["text"] = 9, "changed"
    assert collection.qrels("dev")["relevance"].tolist() == [1, 0, 2]
    assert collection.queries("dev")["text"].tolist() == ["cat", "ant"]


def test_fingerprint_follows_the_content_only(tmp_path):
    base = build(tmp_path / "0").fingerprint
    assert build(tmp_path / "1", iter(PASSAGES)).fingerprint == base
    changes = [
        {"passages": PASSAGES[::-1]},
        {"passages": [*PASSAGES[:2], ("d3", "Three")]},
        {"queries": QUERIES.assign(text=["bee", "ant", "dog"])},
        {"queries": QUERIES.assign(kind=["x", "y", "y"])},
        {"judged": {"dev": QRELS["dev"].assign(relevance=1)}},
        {"judged": {"test": QRELS["dev"]}},
    ]
    prints = [build(tmp_path / f"c{i}", **change).fingerprint for i, change in enumerate(changes)]
    assert len({base, *prints}) == len(changes) + 1
    assert base.startswith("bee41cef24d2"), "another fingerprint makes every stored cell stale"


def test_repeated_and_empty_queries_are_named(tmp_path):
    twice = pd.concat([QUERIES, QUERIES[:2]], ignore_index=True)
    assert "queries, row 4: 2 rows repeat a query_id: 'b', 'a'" in fails(
        build, tmp_path, queries=twice
    )
    blank = QUERIES.assign(text=["bee", " ", ""])
    assert "row 2: 2 queries without text: query_id 'a', 'c'" in fails(
        build, tmp_path, queries=blank
    )
    assert build(tmp_path, queries=blank, switches={"empty"}).queries("dev")["text"].tolist() == [
        "",
        " ",
    ]
    assert "no queries in it" in fails(build, tmp_path / "none", queries=QUERIES[:0])


def test_dangling_qrels_are_named_with_file_and_line(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nc\td3\t1\n\nz\td1\t1\na\td9\t1\na\td8\t1\n")
    judged = qrels([("c", "d3", 1), ("z", "d1", 1), ("a", "d9", 1), ("a", "d8", 1)])
    message = fails(build, tmp_path, judged={"dev": judged}, at=lambda _, row: line_of(path, row))
    assert (
        f"{path}:4: 1 qrels of split 'dev' name a query that is not there: query_id 'z'; complete"
        in message
    )
    message = fails(build, tmp_path, judged={"dev": judged[judged["query_id"] != "z"]})
    assert (
        "dev, row 2: 2 qrels of split 'dev' name a passage that is not there: doc_id 'd9', 'd8'"
        in message
    )
    assert message.endswith("drop these qrels: open test:c,dangling=drop")


def test_dropped_qrels_are_counted_in_one_line(tmp_path, capsys):
    judged = qrels([("c", "d3", 1), ("z", "d1", 1), ("a", "d9", 1)])
    collection = build(
        tmp_path, judged={"dev": judged, "test": QRELS["dev"]}, switches={"dangling"}
    )
    assert capsys.readouterr().err == (
        "test:c: 2 of 3 qrels of split 'dev' are dropped, 2 queries with them\n"
    )
    assert collection.qrels("dev").to_numpy().tolist() == [["c", "d3", 1]]
    message = fails(build, tmp_path / "none", judged={"dev": judged[1:]}, switches={"dangling"})
    assert "no qrels of split 'dev' name a query and a passage that are there" in message


def test_a_failed_build_leaves_nothing(tmp_path):
    fails(build, tmp_path, passages=[*PASSAGES, PASSAGES[0]])
    assert list(tmp_path.iterdir()) == []


def test_two_builders_leave_one_whole_folder(tmp_path):
    def slow():  # the second builder finishes while the first still reads
        yield PASSAGES[0]
        build(tmp_path)
        yield from PASSAGES[1:]

    assert len(build(tmp_path, slow()).passages) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def flip(path, letter: bytes):
    data = bytearray(path.read_bytes())
    place = data.index(letter)
    data[place : place + 1] = b"#"
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda folder: flip(folder / "passages.arrow", b"two"), "passages.arrow was changed"),
        (lambda folder: flip(folder / "meta.json", b"dev"), "meta.json was changed"),
        (lambda folder: os.truncate(folder / "queries.parquet", 50), "queries.parquet was changed"),
        (lambda folder: (folder / "meta.json").unlink(), "meta.json is missing"),
        (lambda folder: (folder / "seal.json").unlink(), "no seal"),
    ],
)
def test_a_damaged_copy_is_put_aside_and_made_anew(tmp_path, capsys, damage, told):
    sound = build(tmp_path).fingerprint
    assert capsys.readouterr().err == ""
    damage(tmp_path / "c")
    again = build(tmp_path)
    line = capsys.readouterr().err
    assert told in line and "put aside" in line and line.count("\n") == 1
    assert again.fingerprint == sound and again.passages.texts([1]) == ["two"]
    assert len(list(tmp_path.glob("c.damaged-*"))) == 1
    assert build(tmp_path).fingerprint == sound and capsys.readouterr().err == ""


def test_module_imports_nothing_heavy():
    heavy = {"torch", "transformers", "ir_datasets", "sklearn", "faiss", "matplotlib"}
    code = "import interextra.data.load, sys; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not heavy & set(loaded)

"""Passages on disk and the checks of a collection: what comes back is what went in, every fault is named."""

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

from interextra.data import converted as store
from interextra.data.collection import Collection, ContentHash, Passages, batches_of, write_passages
from interextra.data.trec import Origin
from interextra.ground.errors import InputError

WORDS = ["rain", "käse", "", "日本語", "a\tb\n", "  two  spaces ", "💧", "x" * 300]


def corpus(n: int, seed: int = 3) -> list[tuple[str, str]]:
    rng = random.Random(seed)
    return [(f"d{i * 7 % 1009}é{i}", " ".join(rng.choices(WORDS, k=4)) + "!") for i in range(n)]


def stored(tmp_path, pairs, size: int = 100) -> Passages:
    with mock.patch("interextra.data.collection.BATCH_ROWS", size):
        write_passages(tmp_path / "p.arrow", batches_of(iter(pairs), size))
    passages = Passages(tmp_path / "p.arrow")
    assert max(map(len, passages.doc_ids.chunks)) <= size
    return passages


def qrels(rows) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"]).astype({"query_id": "str", "doc_id": "str"})


QUERIES = pd.DataFrame({"query_id": ["b", "a", "c"], "text": ["bee", "ant", "cat"], "kind": ["x", None, "y"]})
PASSAGES = [("d1", "one"), ("d2", "two"), ("d3", "three")]
QRELS = {"dev": qrels([("c", "d3", 1), ("a", "d1", 0), ("c", "d1", 2)])}


def build(tmp_path, passages=PASSAGES, queries=QUERIES, judged=QRELS, **switches) -> Collection:
    store.build(tmp_path / "c", passages, queries, judged, **switches)
    return store.open_stored(tmp_path / "c", "c", "test:c")


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
    assert [(start, len(texts)) for start, texts in passages.batches(64)][-1] == ((n - 1) // 64 * 64, (n - 1) % 64 + 1)
    assert sum((texts for _, texts in passages.batches(64)), []) == [text for _, text in pairs]


def test_rows_and_texts_agree_with_a_dictionary_and_a_list(tmp_path):
    pairs = corpus(350)
    passages, row_of = stored(tmp_path, pairs), {doc_id: row for row, (doc_id, _) in enumerate(pairs)}
    rng = random.Random(5)
    for _ in range(20):
        wanted = [
            rng.choice(pairs)[0] if rng.random() < 0.8 else f"absent{rng.random()}" for _ in range(rng.randint(0, 60))
        ]
        rows = passages.rows(wanted)
        assert rows.dtype == np.int64 and rows.tolist() == [row_of.get(doc_id, -1) for doc_id in wanted]
        there = rows[rows >= 0]
        assert passages.texts(there) == [pairs[row][1] for row in there]
        assert passages.doc_ids_at(there.tolist()) == [pairs[row][0] for row in there]
    assert passages.texts(slice(300, 5, -40)) == [text for _, text in pairs[300:5:-40]]
    assert passages.texts(slice(340, 999)) == [text for _, text in pairs[340:]]
    assert passages.rows(pd.Series(["nobody"])).tolist() == [-1]


def test_rows_outside_the_corpus_are_refused(tmp_path):
    passages = stored(tmp_path, corpus(10))
    assert "passage rows -1, 10 outside 0 … 9; drop the padding (-1)" in fails(passages.texts, [3, -1, 10])
    assert "passage rows -1 outside" in fails(passages.texts, [-1])
    assert "passage rows 10 outside" in fails(passages.doc_ids_at, [10])


def test_hash_ignores_batches_and_sees_every_border():
    def digest(pairs, size):
        content = ContentHash(2)
        for columns in batches_of(iter(pairs), size):
            content.update(*columns)
        return content.hexdigest()

    pairs = corpus(120)
    assert len({digest(pairs, size) for size in (1, 7, 120)}) == 1
    variants = [[("ab", "c")], [("a", "bc")], [("ab", "c"), ("", "")], [("a", "c"), ("b", "")], [("", "c"), ("ab", "")]]
    assert len({digest(variant, 9) for variant in variants}) == len(variants)
    lengths = [b"".join(len(pair[i].encode()).to_bytes(8, "little") for pair in pairs) for i in (0, 1)]
    values = ["".join(pair[i] for pair in pairs).encode() for i in (0, 1)]
    by_hand = b"".join(hashlib.sha256(part).digest() for i in (0, 1) for part in (lengths[i], values[i]))
    assert digest(pairs, 50) == hashlib.sha256(by_hand).hexdigest()
    sliced, whole = ContentHash(1), ContentHash(1)
    sliced.update(pa.array(["zz", "a", "bé", "yy"], pa.large_string()).slice(1, 2))
    whole.update(pa.array(["a", "bé"], pa.large_string()))
    assert sliced.hexdigest() == whole.hexdigest()


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


def test_small_batches_are_stored_as_one(tmp_path):
    write_passages(tmp_path / "p", batches_of(iter(corpus(100)), 7))
    assert Passages(tmp_path / "p").doc_ids.num_chunks == 1
    with mock.patch("interextra.data.collection.BATCH_BYTES", 10_000):
        write_passages(tmp_path / "p", batches_of(((str(i), "t" * 1000) for i in range(100)), 7))
    assert Passages(tmp_path / "p").doc_ids.num_chunks > 5


def test_repeated_doc_ids_are_named_at_their_second_place(tmp_path):
    pairs = [(f"d{i}", "text") for i in range(250)]
    for row, of in ((120, 3), (121, 3), (240, 230)):
        pairs[row] = (f"d{of}", "again")
    message = fails(stored, tmp_path, pairs)
    assert "row 121: 3 passages repeat a doc_id: 'd3', 'd230'; give each" in message
    assert list(tmp_path.iterdir()) == []


def test_passages_without_text_are_named_or_kept(tmp_path):
    pairs = [(f"d{i}", " \n" if i in (4, 5, 101, 102) else "text") for i in range(110)]
    message = fails(stored, tmp_path, pairs)
    assert "row 5: 4 passages without text: doc_id 'd4', 'd5', 'd101', …; remove them or open" in message
    write_passages(tmp_path / "p", pairs, empty="keep")
    assert Passages(tmp_path / "p").texts([101]) == [" \n"]


def test_an_empty_corpus_and_a_nameless_passage_are_refused(tmp_path):
    assert "no passages in the corpus" in fails(write_passages, tmp_path / "p", [])
    assert "row 2: a passage without doc_id" in fails(write_passages, tmp_path / "p", [("a", "x"), ("", "y")])


def test_a_collection_comes_back_as_it_was_built(tmp_path):
    queries = QUERIES.assign(tags=[["t", "u"], None, []], mixed=[1, "two", None], n=[1, 2, 3])
    collection = build(tmp_path, queries=queries)
    assert collection.splits == ("dev",) and len(collection.passages) == 3
    assert collection.queries()["query_id"].tolist() == ["b", "a", "c"]
    assert collection.query_ids("dev") == ["c", "a"]
    back = collection.queries("dev")
    assert back["text"].tolist() == ["cat", "ant"] and back["n"].tolist() == [3, 2]
    assert back["tags"].tolist() == [[], None] and back["mixed"].tolist()[1] == '"two"'
    pd.testing.assert_frame_equal(collection.qrels("dev"), QRELS["dev"])
    assert repr(collection) == "Collection('test:c': 3 passages; splits dev)"
    assert "c has no split 'test'; it has dev" in fails(collection.qrels, "test")


def test_callers_cannot_change_a_collection(tmp_path):
    collection = build(tmp_path)
    judged, queries = collection.qrels("dev"), collection.queries()
    judged["relevance"], queries["text"] = 9, "changed"
    assert collection.qrels("dev")["relevance"].tolist() == [1, 0, 2]
    assert collection.queries()["text"].tolist() == ["bee", "ant", "cat"]


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
    assert base.startswith("bee41cef24d2"), (
        "another fingerprint makes every stored cell stale: raise store.FORMAT with it"
    )


def test_repeated_and_empty_queries_are_named(tmp_path):
    twice = pd.concat([QUERIES, QUERIES[:2]], ignore_index=True)
    assert "queries, row 4: 2 queries repeat a query_id: 'b', 'a'" in fails(build, tmp_path, queries=twice)
    blank = QUERIES.assign(text=["bee", " ", ""])
    assert "row 2: 2 queries without text: query_id 'a', 'c'" in fails(build, tmp_path, queries=blank)
    assert build(tmp_path, queries=blank, empty="keep").queries()["text"].tolist() == ["bee", " ", ""]
    assert "queries: no queries" in fails(build, tmp_path, queries=QUERIES[:0])


def test_dangling_qrels_are_named_with_file_and_line(tmp_path):
    path = tmp_path / "dev.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nc\td3\t1\n\nz\td1\t1\na\td9\t1\na\td8\t1\n")
    origins = {"dev": Origin(str(path), path, header=1)}
    judged = qrels([("c", "d3", 1), ("z", "d1", 1), ("a", "d9", 1), ("a", "d8", 1)])
    message = fails(build, tmp_path, judged={"dev": judged}, origins=origins)
    assert f"{path}:4: 1 qrels of split 'dev' name a query that is not there: query_id 'z'; complete" in message
    message = fails(build, tmp_path, judged={"dev": judged[judged["query_id"] != "z"]}, origins={})
    assert "dev, row 2: 2 qrels of split 'dev' name a passage that is not there: doc_id 'd9', 'd8'" in message
    assert "open the collection with dangling=drop" in message


def test_dropped_qrels_are_counted(tmp_path):
    judged = qrels([("c", "d3", 1), ("z", "d1", 1), ("a", "d9", 1)])
    with pytest.warns(UserWarning, match="2 of 3 qrels of split 'dev' dropped, 2 queries with them"):
        collection = build(tmp_path, judged={"dev": judged, "test": QRELS["dev"]}, dangling="drop")
    assert collection.dropped == {"dev": 2}
    assert collection.qrels("dev").to_numpy().tolist() == [["c", "d3", 1]]
    message = fails(build, tmp_path / "none", judged={"dev": judged[1:]}, dangling="drop")
    assert "no qrels of split 'dev' name a query and a passage that are there" in message


def test_a_collection_without_qrels_is_refused(tmp_path):
    assert "no qrels beside the queries" in fails(build, tmp_path, judged={})
    assert "split 'dev' has no qrels" in fails(build, tmp_path, judged={"dev": QRELS["dev"][:0]})


def test_a_failed_build_leaves_nothing(tmp_path):
    fails(build, tmp_path, passages=[*PASSAGES, PASSAGES[0]])
    assert list(tmp_path.iterdir()) == []


def test_two_builders_leave_one_whole_folder(tmp_path):
    def slow():  # the second builder finishes while the first still reads
        yield PASSAGES[0]
        build(tmp_path)
        yield from PASSAGES[1:]

    store.build(tmp_path / "c", slow(), QUERIES, QRELS)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
    assert len(store.open_stored(tmp_path / "c", "c", "test:c").passages) == 3


def test_a_damaged_copy_is_refused(tmp_path):
    build(tmp_path)
    os.truncate(tmp_path / "c" / "passages.arrow", 50)
    assert "passages.arrow is damaged; delete the folder" in fails(store.open_stored, tmp_path / "c", "c", "test:c")
    assert store.open_stored(tmp_path / "other", "c", "test:c") is None


def test_module_imports_nothing_heavy():
    heavy = {"torch", "transformers", "ir_datasets", "sklearn", "faiss", "matplotlib"}
    code = "import interextra.data.load, sys; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not heavy & set(loaded)

"""Opening by spec: BEIR folders, generated worlds, and what is said when a spec or a folder is wrong."""

import gzip
import json
import os
import shutil

import pandas as pd
import pytest

from interextra.data import beir, load, store, world
from interextra.data.load import open_collection
from interextra.ground.errors import InputError

CORPUS = [
    '{"_id": "d1", "title": "Head", "text": "body"}',
    '{"_id": "d2", "title": "", "text": "käse\\u2028x", "n": 1}',
]
QUERIES = [
    '{"_id": "q2", "text": "two", "metadata": {"kind": "x", "tags": ["t"], "text": "own"}}',
    '{"_id": "q1", "text": "one"}',
]
QRELS = "query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td1\t0\n"


def put(folder, corpus=CORPUS, queries=QUERIES, qrels=QRELS, packed=False):
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    files = {"corpus.jsonl": "\n".join(corpus), "queries.jsonl": "\n".join(queries) + "\n", "qrels/test.tsv": qrels}
    for name, text in files.items():
        data = text.encode()
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    return folder


def opened(tmp_path, folder="c", options=""):
    return open_collection(f"beir:{tmp_path / folder}{options}", tmp_path / "cache")


def fails(spec, cache=None) -> str:
    with pytest.raises(InputError) as caught:
        open_collection(spec, cache)
    return str(caught.value)


def broken(tmp_path, **parts) -> str:
    return fails(f"beir:{put(tmp_path / 'c', **parts)}", tmp_path / "cache")


@pytest.mark.parametrize("packed", [False, True])
def test_a_beir_folder_opens_plain_or_packed(tmp_path, packed):
    put(tmp_path / "c", packed=packed)
    collection = opened(tmp_path)
    assert collection.passages.texts(slice(None)) == ["Head body", "käse\u2028x"]
    assert collection.queries()["query_id"].tolist() == ["q2", "q1"]
    queries = collection.queries("test")
    assert queries["text"].tolist() == ["one", "two"]
    assert queries["tags"].tolist() == [None, ["t"]] and queries["metadata_text"].tolist()[1] == "own"
    assert (collection.name, collection.spec, collection.splits) == ("c", f"beir:{tmp_path / 'c'}", ("test",))


def test_packing_changes_no_fingerprint_and_text_does(tmp_path):
    put(tmp_path / "c")
    put(tmp_path / "p", packed=True)
    put(tmp_path / "o", corpus=[CORPUS[0], CORPUS[1].replace("käse", "Käse")])
    prints = [opened(tmp_path, name).fingerprint for name in ("c", "p", "o")]
    assert prints[0] == prints[1] != prints[2]


def test_the_usual_splits_come_first(tmp_path):
    put(tmp_path / "c")
    for name in ("train", "dev", "aaa", "zzz"):
        shutil.copy(tmp_path / "c/qrels/test.tsv", tmp_path / f"c/qrels/{name}.tsv")
    assert opened(tmp_path).splits == ("train", "dev", "test", "aaa", "zzz")


def test_a_second_opening_reads_no_source_file(tmp_path, monkeypatch):
    put(tmp_path / "c")
    first = opened(tmp_path)
    for name in ("_sha256", "_convert"):
        monkeypatch.setattr(beir, name, lambda *_: pytest.fail("read again"))
    assert opened(tmp_path).fingerprint == first.fingerprint


def test_a_touched_file_is_hashed_and_a_changed_one_converted(tmp_path, monkeypatch):
    corpus = put(tmp_path / "c") / "corpus.jsonl"
    first, calls, convert = opened(tmp_path), [], beir._convert
    monkeypatch.setattr(beir, "_convert", lambda *parts: calls.append(1) or convert(*parts))
    os.utime(corpus, ns=(1, 1))
    assert opened(tmp_path).fingerprint == first.fingerprint and not calls
    corpus.write_text(corpus.read_text().replace("body", "ydob"))
    assert opened(tmp_path).passages.texts([0]) == ["Head ydob"] and calls == [1]
    assert first.passages.texts([0]) == ["Head body"]


def test_a_copied_folder_uses_the_same_conversion(tmp_path, monkeypatch):
    put(tmp_path / "c")
    first = opened(tmp_path)
    shutil.copytree(tmp_path / "c", tmp_path / "copy" / "c")
    monkeypatch.setattr(beir, "_convert", lambda *_: pytest.fail("converted again"))
    assert opened(tmp_path, "copy/c").passages.path == first.passages.path


def test_the_cache_folder_is_the_one_given_else_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "env"))
    assert store.cache_folder() == tmp_path / "env" / "collections"
    assert store.cache_folder(tmp_path) == tmp_path / "collections"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{'_id': 1}", "not JSON"),
        ('{"_id": "d3", "text": "a"', "not JSON"),
        ('{"_id": 3, "text": "a"}', "'_id' is 3; _id and text (and title) must be strings"),
        ('{"_id": "d3", "title": "t"}', "no 'text'"),
        ('{"text": "a"}', "no '_id'"),
        ('{"_id": "d3", "text": null}', "'text' is None"),
        ("[1]", "no '_id'"),
        ('{"_id": "d3", "title": 7, "text": "a"}', "'title' is 7"),
        ('{"_id": "", "text": "a"}', "a passage without doc_id"),
        ('{"_id": "d3", "title": "", "text": " "}', "1 passages without text: doc_id 'd3'"),
        ('{"_id": "d1", "text": "a"}', "1 passages repeat a doc_id: 'd1'"),
    ],
)
def test_a_bad_corpus_line_is_named(tmp_path, line, told):
    message = broken(tmp_path, corpus=[*CORPUS[:1], "", line, *CORPUS[1:]])
    assert f"{tmp_path / 'c' / 'corpus.jsonl'}:3: {told}" in message
    assert not list((tmp_path / "cache" / "collections").glob("beir-*"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not JSON"),
        ('{"_id": "q3"}', "no 'text'"),
        ('{"_id": "q3", "text": "a", "metadata": [1]}', "metadata is [1]; it must be an object"),
        ('{"_id": "q1", "text": "a"}', "1 queries repeat a query_id: 'q1'"),
        ('{"_id": "q3", "text": " "}', "1 queries without text: query_id 'q3'"),
    ],
)
def test_a_bad_query_line_is_named(tmp_path, line, told):
    message = broken(tmp_path, queries=[*QUERIES, "", line])
    assert f"{tmp_path / 'c' / 'queries.jsonl'}:4: {told}" in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("q1\td9\t1", "1 qrels of split 'test' name a passage that is not there: doc_id 'd9'"),
        ("q9\td1\t1", "1 qrels of split 'test' name a query that is not there: query_id 'q9'"),
        ("q1\td1\tx", "relevance 'x' is not an integer"),
        ("q1\td2\t0", "1 query-document pairs are judged twice: 'q1 d2'"),
    ],
)
def test_a_bad_qrels_line_is_named(tmp_path, line, told):
    message = broken(tmp_path, qrels=f"{QRELS}\n{line}\n")
    assert f"{tmp_path / 'c' / 'qrels' / 'test.tsv'}:5: {told}" in message


def test_a_line_too_long_for_the_fast_reader_is_read_all_the_same(tmp_path):
    pairs = [(str(i), "word " * (1_200_000 if i == 30_000 else 30)) for i in range(40_000)]
    lines = [
        json.dumps({"_id": doc_id, "title": None if i % 2 else "T", "text": text})
        for i, (doc_id, text) in enumerate(pairs)
    ]
    put(tmp_path / "c", corpus=lines, qrels="q1 0 7 1\n")
    passages = opened(tmp_path).passages
    assert passages.doc_ids.to_pylist() == [doc_id for doc_id, _ in pairs]
    rows = [0, 1, 29_999, 30_000, 30_001, 39_999]
    assert passages.texts(rows) == ["T " * (1 - row % 2) + pairs[row][1] for row in rows]


@pytest.mark.parametrize("part", ["corpus", "queries"])
def test_empty_files_are_named(tmp_path, part):
    for text in ([], ["", ""]):
        assert f"{part}.jsonl" in (message := broken(tmp_path, **{part: text}))
        assert "no passages in the corpus" in message or "no queries" in message


def test_an_empty_split_is_named(tmp_path):
    assert "test.tsv: no qrels in it" in broken(tmp_path, qrels="query-id\tcorpus-id\tscore\n")


def test_a_cut_corpus_is_an_input_error(tmp_path):
    put(tmp_path / "c", corpus=[json.dumps({"_id": str(i), "text": "t" * i}) for i in range(500)], packed=True)
    path = tmp_path / "c" / "corpus.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert "is it a complete gzip file" in fails(f"beir:{tmp_path / 'c'}", tmp_path / "cache")


def test_missing_and_doubled_files_are_named(tmp_path):
    assert "no such folder; give one that holds corpus.jsonl" in fails(f"beir:{tmp_path / 'none'}")
    put(tmp_path / "c")
    (tmp_path / "c" / "corpus.jsonl.gz").write_bytes(b"")
    assert "both corpus.jsonl and corpus.jsonl.gz; keep one" in fails(f"beir:{tmp_path / 'c'}", tmp_path)
    (tmp_path / "c" / "corpus.jsonl.gz").unlink()
    (tmp_path / "c" / "qrels" / "test.tsv.gz").write_bytes(b"")
    assert "split 'test' stands twice" in fails(f"beir:{tmp_path / 'c'}", tmp_path)
    shutil.rmtree(tmp_path / "c" / "qrels")
    assert "no *.tsv files" in fails(f"beir:{tmp_path / 'c'}", tmp_path)
    (tmp_path / "c" / "queries.jsonl").unlink()
    assert "queries.jsonl: no such file, plain or .gz" in fails(f"beir:{tmp_path / 'c'}", tmp_path)


def test_switches_drop_and_keep(tmp_path):
    put(tmp_path / "c", corpus=[*CORPUS, '{"_id": "d3", "text": ""}'], qrels=QRELS + "q1\td9\t1\n")
    with pytest.warns(UserWarning, match="1 of 3 qrels of split 'test' dropped, 0 queries with them"):
        collection = opened(tmp_path, options=",dangling=drop,empty=keep")
    assert len(collection.passages) == 3 and len(collection.qrels("test")) == 2
    assert collection.dropped == {"test": 1} == opened(tmp_path, options=",empty=keep,dangling=drop").dropped
    assert collection.spec.endswith(",dangling=drop,empty=keep")
    assert "passages without text" in fails(f"beir:{tmp_path / 'c'}", tmp_path / "cache")
    assert "not there: doc_id 'd9'" in fails(f"beir:{tmp_path / 'c'},empty=keep", tmp_path / "cache")


def test_a_folder_with_a_comma_is_a_folder(tmp_path):
    put(tmp_path / "c,d=1")
    assert opened(tmp_path, "c,d=1").name == "c,d=1"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("hub:x", "is no collection spec; use one of mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID"),
        ("", "is no collection spec"),
        ("beir", "is no collection spec"),
        ("irds:", "is no collection spec"),
        ("mini:", "is no collection spec"),
        ("minimal", "is no collection spec"),
        ("beir:x,dangling=maybe", "unknown option dangling=maybe; allowed are dangling=error|drop, empty=error|keep"),
        ("beir:x,seed=3", "unknown option seed=3"),
        ("beir:x,drop", "'drop' is no option; write key=value"),
        ("beir:x,empty=keep,empty=error", "option 'empty', 'empty' stands twice"),
        ("irds:x,dangling=no", "unknown option dangling=no"),
        ("mini:seed=x", "unknown option seed=x; allowed are seed=INTEGER, n_train=INTEGER, n_dev=INTEGER, shares.SET."),
        ("mini:size=3", "unknown option size=3"),
        ("mini:shares.dl19=1/0/0", "unknown option shares.dl19=1/0/0"),
        ("mini:small", "'small' is no option"),
        ("mini:ood-letters,n_train=3", "unknown option n_train=3; allowed are seed=INTEGER"),
    ],
)
def test_a_wrong_spec_is_told_what_is_allowed(tmp_path, spec, told):
    assert told in fails(spec, tmp_path)


def test_the_generated_world_is_what_its_generator_made(tmp_path):
    made = world.generate("mini", seed=7, n_train=300, n_dev=40)
    collection = open_collection("mini:seed=7,n_train=300,n_dev=40", tmp_path)
    assert list(zip(collection.passages.doc_ids.to_pylist(), collection.passages.texts(slice(None)), strict=True)) == (
        made.passages
    )
    assert collection.splits == tuple(made.qrels) and collection.name == "mini"
    for split, queries in made.queries.items():
        pd.testing.assert_frame_equal(collection.qrels(split), made.qrels[split], check_dtype=False)
        back = collection.queries(split).set_index("query_id").loc[queries["query_id"], list(queries.columns[1:])]
        assert back.to_numpy().tolist() == queries[list(queries.columns[1:])].to_numpy().tolist()


def test_a_world_is_generated_once_and_again_when_its_files_change(tmp_path, monkeypatch):
    spec, made = "mini:n_train=300,n_dev=40", world.generate("mini", n_train=300, n_dev=40)
    calls = []
    monkeypatch.setattr(
        world, "generate", lambda name, seed=1, n_train=1, n_dev=1, shares=None: calls.append(1) or made
    )
    first = open_collection(spec, tmp_path)
    assert open_collection(spec, tmp_path).fingerprint == first.fingerprint and calls == [1]
    open_collection("mini:n_train=300", tmp_path)
    monkeypatch.setattr(load, "_content_version", lambda _: "another generator")
    assert open_collection(spec, tmp_path).fingerprint == first.fingerprint and calls == [1, 1, 1]


def test_world_options_reach_the_generator(tmp_path, monkeypatch):
    made, calls = world.generate("mini", n_train=300, n_dev=40), []

    def generate(name, seed=1, n_train=1, shares=None):
        calls.append((name, seed, n_train, shares))
        return made

    monkeypatch.setattr(world, "generate", generate)
    open_collection("mini", tmp_path)
    open_collection("mini:seed=3,shares.dl19.intent=0.5/0.3/0.2,shares.dl19.entity=1/0/0", tmp_path)
    open_collection("mini:ood-letters,seed=4", tmp_path)
    shares = {"dl19": {"intent": [0.5, 0.3, 0.2], "entity": [1.0, 0.0, 0.0]}}
    assert calls == [("mini", 1, 1, None), ("mini", 3, 1, shares), ("ood-letters", 4, 1, None)]


def test_the_world_behind_a_spec_can_be_had_with_its_facts():
    made = load.open_world("mini:seed=7,n_train=300,n_dev=40")
    again = world.generate("mini", seed=7, n_train=300, n_dev=40)
    assert made.passages == again.passages and made.facts["doc_id"].tolist() == [doc_id for doc_id, _ in made.passages]
    with pytest.raises(InputError, match="is no generated world; use mini"):
        load.open_world("beir:x")


def test_the_content_version_sees_names_and_bytes(tmp_path):
    (tmp_path / "a.yaml").write_text("x")
    versions = [load._content_version(tmp_path)]
    (tmp_path / "a.yaml").write_text("y")
    versions.append(load._content_version(tmp_path))
    (tmp_path / "a.yaml").rename(tmp_path / "b.yaml")
    versions.append(load._content_version(tmp_path))
    assert len(set(versions)) == 3
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "b.pyc").write_text("z")
    assert load._content_version(tmp_path) == versions[-1]


COUNTS = {  # name: (passages, split -> (rows, queries))
    "medquad": (15_809, {"train": (13_101, 11_476), "dev": (1639, 1434), "test": (1619, 1435), "liveqa": (503, 86)}),
    "msmarco-mini": (
        18_643,
        {
            "train": (10_141, 9593),
            "dev": (1258, 1199),
            "test": (1278, 1200),
            "dl20_judged": (3629, 54),
            "msmarco_dev_sparse": (118, 118),
        },
    ),
    "scifact": (5183, {"train": (919, 809), "test": (339, 300)}),
    "nfcorpus": (3395, {"train": (110_075, 2563), "dev": (11_385, 324), "test": (12_334, 323)}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_real_collections_have_their_known_counts(real_data, tmp_path, name):
    collection = open_collection(f"beir:{real_data / 'collections' / name}", tmp_path)
    measured = {split: (len(collection.qrels(split)), len(collection.query_ids(split))) for split in collection.splits}
    assert (len(collection.passages), measured) == COUNTS[name]
    assert list(measured) == list(COUNTS[name][1])
    path = next((real_data / "collections" / name).glob("corpus.jsonl*"))
    with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="\n") as lines:
        for row, line in enumerate(lines):
            if row % 997 in (0, 1, 9):
                item = json.loads(line)
                text = f"{item['title']} {item['text']}" if item["title"] else item["text"]
                assert collection.passages.rows([item["_id"]]).tolist() == [row]
                assert collection.passages.texts([row]) == [text]


def test_real_query_attributes_are_columns(real_data, tmp_path):
    queries = open_collection(f"beir:{real_data / 'collections' / 'medquad'}", tmp_path).queries("test")
    assert queries.loc[0, ["qtype", "cui"]].tolist() == ["symptoms", ["C0751606"]]
    assert len(queries) == 1435 and queries["focus"].notna().all()


def test_real_empty_passages_are_named(real_data, tmp_path):
    message = fails(f"beir:{real_data / 'collections' / 'cranfield'}", tmp_path)
    assert "corpus.jsonl:471: 2 passages without text: doc_id '471', '995'" in message

"""Opening by spec: BEIR folders, generated worlds, and what is said when a spec or a folder is
wrong.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys

import pandas as pd
import pytest

from interextra import world
from interextra.data import beir, load
from interextra.data.load import open_collection
from interextra.data.medquad import entity_units, with_truth
from interextra.data.queries import Queries, Source
from interextra.store.errors import InputError

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
    files = {
        "corpus.jsonl": "\n".join(corpus),
        "queries.jsonl": "\n".join(queries) + "\n",
        "qrels/test.tsv": qrels,
    }
    for name, text in files.items():
        data = text.encode()
        (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(data) if packed else data)
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "cache"))
    load._opened.cache_clear()


def opened(tmp_path, folder="c", options=""):
    """Opened as by another process."""
    load._opened.cache_clear()
    return open_collection(f"beir:{tmp_path / folder}{options}")


def fails(spec) -> str:
    with pytest.raises(InputError) as caught:
        open_collection(spec)
    return str(caught.value)


def broken(tmp_path, **parts) -> str:
    return fails(f"beir:{put(tmp_path / 'c', **parts)}")


@pytest.mark.parametrize("packed", [False, True])
def test_a_beir_folder_opens_plain_or_packed(tmp_path, packed):
    put(tmp_path / "c", packed=packed)
    collection = opened(tmp_path)
    assert collection.passages.texts(slice(None)) == ["Head body", "käse\u2028x"]
    queries = collection.queries("test")
    assert queries["text"].tolist() == ["one", "two"]
    assert (
        queries["tags"].tolist() == [None, ["t"]] and queries["metadata_text"].tolist()[1] == "own"
    )
    assert (collection.name, collection.spec, collection.splits) == (
        "c",
        f"beir:{tmp_path / 'c'}",
        ("test",),
    )


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
    assert open_collection(first.spec) is first
    monkeypatch.setattr(beir, "_read", lambda *_: pytest.fail("read again"))
    assert opened(tmp_path).fingerprint == first.fingerprint


def test_a_changed_file_is_converted_again(tmp_path):
    corpus = put(tmp_path / "c") / "corpus.jsonl"
    first = opened(tmp_path)
    os.utime(corpus, ns=(1, 1))
    assert opened(tmp_path).fingerprint == first.fingerprint
    corpus.write_text(corpus.read_text().replace("body", "ydob"))
    assert opened(tmp_path).passages.texts([0]) == ["Head ydob"] != first.passages.texts([0])


def test_a_damaged_conversion_heals(tmp_path, capsys):
    put(tmp_path / "c")
    sound = opened(tmp_path)
    data = sound.passages.path.read_bytes()
    sound.passages.path.write_bytes(data.replace(b"Head body", b"Head bode"))
    assert opened(tmp_path).passages.texts([0]) == ["Head body"]
    assert "passages.arrow was changed; put aside" in capsys.readouterr().err


def test_the_folder_of_real_data_is_named_in_a_spec(tmp_path, monkeypatch):
    put(tmp_path / "c")
    monkeypatch.setenv("INTEREXTRA_DATA", str(tmp_path))
    collection = open_collection("beir:$INTEREXTRA_DATA/c")
    assert (
        collection.spec == "beir:$INTEREXTRA_DATA/c"
        and collection.fingerprint == opened(tmp_path).fingerprint
    )
    assert "no training queries" in fails("msmarco-queries")
    monkeypatch.delenv("INTEREXTRA_DATA")
    assert "set the environment variable INTEREXTRA_DATA" in fails("beir:$INTEREXTRA_DATA/c")
    assert "set the environment variable INTEREXTRA_DATA" in fails("msmarco-queries")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{'_id': 1}", "not readable as JSON"),
        ('{"_id": "d3", "text": "a"', "not readable as JSON"),
        ('{"_id": 3, "text": "a"}', "'_id' is 3; _id and text (and title) must be strings"),
        ('{"_id": "d3", "title": "t"}', "no 'text'"),
        ('{"text": "a"}', "no '_id'"),
        ('{"_id": "d3", "text": null}', "'text' is None"),
        ("[1]", "no '_id'"),
        ('{"_id": "d3", "title": 7, "text": "a"}', "'title' is 7"),
        ('{"_id": "", "text": "a"}', "1 passages without doc_id"),
        ('{"_id": "d3", "title": "", "text": " "}', "1 passages without text: doc_id 'd3'"),
        ('{"_id": "d1", "text": "a"}', "1 rows repeat a doc_id: 'd1'"),
    ],
)
def test_a_bad_corpus_line_is_named(tmp_path, line, told):
    message = broken(tmp_path, corpus=[*CORPUS[:1], "", line, *CORPUS[1:]])
    assert f"{tmp_path / 'c' / 'corpus.jsonl'}:3: {told}" in message
    assert not list((tmp_path / "cache" / "collections").glob("*"))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("{", "not readable as JSON"),
        ('{"_id": "q3"}', "no 'text'"),
        ('{"_id": "q3", "text": "a", "metadata": [1]}', "metadata is [1]; it must be an object"),
        ('{"_id": "q1", "text": "a"}', "1 rows repeat a query_id: 'q1'"),
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
        ("q1\td2\t0", "1 rows repeat a query_id and doc_id: 'q1 d2'"),
    ],
)
def test_a_bad_qrels_line_is_named(tmp_path, line, told):
    message = broken(tmp_path, qrels=f"{QRELS}\n{line}\n")
    assert f"{tmp_path / 'c' / 'qrels' / 'test.tsv'}:5: {told}" in message


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("[" * 100_000, "the JSON is nested too deeply"),
        ('{"_id": "x", "text": "a \\ud83d"}', "\\ud83d is half of a surrogate pair"),
        (
            '{"_id": "x", "text": "a", "text": "b"}',
            "not readable as JSON (the key 'text' stands twice)",
        ),
        (
            '{"_id": "x", "text": "a", "n": ' + "9" * 5000 + "}",
            "not readable as JSON (Exceeds the limit",
        ),
    ],
)
@pytest.mark.parametrize("part", ["corpus", "queries"])
def test_json_that_no_reader_can_hold_is_named(tmp_path, part, line, told):
    lines = {"corpus": CORPUS, "queries": QUERIES}[part]
    assert f"{part}.jsonl:3: {told}" in broken(tmp_path, **{part: [*lines, line]})


def test_metadata_that_no_table_can_hold_is_kept_as_json(tmp_path):
    """Empty objects, whole numbers beyond 64 bits, and what is nested deeper than Parquet is read
    again.
    """
    deep = "[" * 40 + "]" * 40
    told = (
        f'{{"none": {{}}, "inner": [{{"a": {{}}}}], "large": {2**70}, "deep": {deep}, "kind": "x"}}'
    )
    put(tmp_path / "c", queries=[f'{{"_id": "q1", "text": "a", "metadata": {told}}}', QUERIES[0]])
    first = opened(tmp_path)
    row = first.queries("test").set_index("query_id").loc["q1"]
    assert [json.loads(row[name]) for name in ("none", "inner", "large")] == [
        {},
        [{"a": {}}],
        2**70,
    ]
    assert row["deep"] == deep and row["kind"] == "x"
    assert opened(tmp_path).fingerprint == first.fingerprint


def test_a_split_named_as_the_queries_does_not_take_their_place(tmp_path):
    put(tmp_path / "c")
    shutil.copy(tmp_path / "c/qrels/test.tsv", tmp_path / "c/qrels/queries.tsv")
    assert "a split named 'queries'; rename its file" in fails(f"beir:{tmp_path / 'c'}")


@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "/tmp/a\0b", "/tmp/" + "n" * 300])
def test_a_name_that_no_folder_can_have_is_an_input_error(path):
    assert f"beir:{path}: no such folder" in fails(f"beir:{path}")


def test_a_folder_whose_name_is_as_long_as_a_name_can_be_opens(tmp_path):
    name = "é" * 127
    put(tmp_path / name)
    assert opened(tmp_path, name).name == name


def test_names_that_are_not_utf_8_are_named(tmp_path):
    name = os.fsdecode(b"caf\xe9")
    put(tmp_path / name)
    assert "is not UTF-8; rename the folder" in fails(f"beir:{tmp_path / name}")
    put(tmp_path / "c")
    shutil.copy(tmp_path / "c/qrels/test.tsv", tmp_path / f"c/qrels/{name}.tsv")
    assert "the name of a file is not UTF-8" in fails(f"beir:{tmp_path / 'c'}")
    assert "is not UTF-8" in fails("irds:\udcff")


def test_comments_in_qrels_do_not_move_the_line_of_an_error(tmp_path):
    message = broken(tmp_path, qrels="# assessed in May\nq1 0 d2 1\n# more\nq9 0 d1 1\n")
    assert (
        "test.tsv:4: 1 qrels of split 'test' name a query that is not there: query_id 'q9'"
        in message
    )


@pytest.mark.parametrize("limit", [0, 1])
def test_a_callers_change_of_queries_reaches_no_other_caller(tmp_path, limit):
    """A frame is read once a process, and what one notebook changed was sealed into the results of
    the next.
    """
    put(tmp_path / "c")
    of = Queries(source=Source.of(f"beir:{tmp_path / 'c'}"), split="test", limit=limit)
    first, ids = of.frame(), of.ids()
    expected = first.copy()
    first["text"], first["new"] = "changed", 1
    first.loc[0, "query_id"] = "other"
    ids.append("q9")
    pd.testing.assert_frame_equal(of.frame(), expected)
    assert of.ids() == expected["query_id"].tolist()
    rows, place = of.source.open().passages.tie_order
    for shared in (rows, place):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 1


@pytest.mark.parametrize("part", ["corpus", "queries"])
def test_empty_files_are_named(tmp_path, part):
    for text in ([], ["", ""]):
        assert f"{part}.jsonl" in (message := broken(tmp_path, **{part: text}))
        assert f"no {'passages' if part == 'corpus' else part} in it" in message


def test_an_empty_split_is_named(tmp_path):
    assert "test.tsv: no rows in it" in broken(tmp_path, qrels="query-id\tcorpus-id\tscore\n")


def test_a_cut_corpus_is_an_input_error(tmp_path):
    put(
        tmp_path / "c",
        corpus=[json.dumps({"_id": str(i), "text": "t" * i}) for i in range(500)],
        packed=True,
    )
    path = tmp_path / "c" / "corpus.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-20])
    assert "is it a complete gzip file" in fails(f"beir:{tmp_path / 'c'}")


def test_missing_and_doubled_files_are_named(tmp_path):
    assert "no such folder; give one that holds corpus.jsonl" in fails(f"beir:{tmp_path / 'none'}")
    put(tmp_path / "c")
    (tmp_path / "c" / "corpus.jsonl.gz").write_bytes(b"")
    assert "both corpus.jsonl and corpus.jsonl.gz; keep one" in fails(f"beir:{tmp_path / 'c'}")
    (tmp_path / "c" / "corpus.jsonl.gz").unlink()
    (tmp_path / "c" / "qrels" / "test.tsv.gz").write_bytes(b"")
    assert "both test.tsv and test.tsv.gz; keep one" in fails(f"beir:{tmp_path / 'c'}")
    shutil.rmtree(tmp_path / "c" / "qrels")
    assert "no *.tsv files" in fails(f"beir:{tmp_path / 'c'}")
    (tmp_path / "c" / "queries.jsonl").unlink()
    assert "queries.jsonl: no such file, plain or .gz" in fails(f"beir:{tmp_path / 'c'}")


def test_switches_drop_and_keep(tmp_path, capsys):
    put(tmp_path / "c", corpus=[*CORPUS, '{"_id": "d3", "text": ""}'], qrels=QRELS + "q1\td9\t1\n")
    collection = opened(tmp_path, options=",dangling=drop,empty=keep")
    assert capsys.readouterr().err.endswith(
        "c,dangling=drop,empty=keep: 1 of 3 qrels of split 'test' are dropped, 0 queries with them\n"
    )
    assert len(collection.passages) == 3 and len(collection.qrels("test")) == 2
    assert (
        opened(tmp_path, options=",empty=keep,dangling=drop").fingerprint == collection.fingerprint
    )
    assert "passages without text" in fails(f"beir:{tmp_path / 'c'}")
    spec = f"beir:{tmp_path / 'c'},empty=keep"
    message = fails(spec)
    assert "not there: doc_id 'd9'" in message and f"open {spec},dangling=drop" in message


def test_a_folder_is_cut_to_some_queries_and_their_passages(tmp_path):
    corpus = [json.dumps({"_id": f"d{at}", "text": f"text {at}"}) for at in range(40)]
    queries = [json.dumps({"_id": f"q{at}", "text": f"query {at}"}) for at in range(20)]
    qrels = "query-id\tcorpus-id\tscore\n" + "".join(
        f"q{at}\td{at}\t1\nq{at}\td{at + 20}\t1\n" for at in range(20)
    )
    put(tmp_path / "c", corpus=corpus, queries=queries, qrels=qrels)
    (tmp_path / "c" / "qrels" / "train.tsv").write_text(qrels)
    cut = opened(tmp_path, options=",keep=5")
    kept = cut.query_ids("train")
    assert cut.splits[0] == "train" and len(kept) == 5
    assert set(cut.passages.doc_ids.to_pylist()) == {
        f"d{int(q[1:]) + add}" for q in kept for add in (0, 20)
    }
    assert (
        opened(tmp_path, options=",keep=5").fingerprint
        == cut.fingerprint
        != opened(tmp_path).fingerprint
    )
    assert len(opened(tmp_path, options=",keep=50").query_ids("train")) == 20
    assert "keep=x must be a number" in fails(f"beir:{tmp_path / 'c'},keep=x")


def test_a_cut_keeps_whole_entities_with_the_passages_of_all_splits(tmp_path):
    corpus = [json.dumps({"_id": f"d{at}", "text": f"text {at}"}) for at in range(40)]
    told = [
        {"focus": f"disease {at // 4}", "qtype": "symptoms"} for at in range(40)
    ]  # ten diseases of four each
    queries = [
        json.dumps({"_id": f"q{at}", "text": f"query {at}", "metadata": told[at]})
        for at in range(40)
    ]
    put(tmp_path / "c", corpus=corpus, queries=queries)
    for split, places in (("train", (0, 1, 2)), ("test", (3,))):
        lines = [f"q{at}\td{at}\t1\n" for at in range(40) if at % 4 in places]
        (tmp_path / "c" / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join(lines)
        )
    cut = opened(tmp_path, options=",keep=7")
    about = {int(query_id[1:]) // 4 for query_id in cut.query_ids("train")}
    assert cut.splits == ("train", "test") and len(about) == 3 and len(cut.query_ids("train")) == 9
    assert {int(query_id[1:]) // 4 for query_id in cut.query_ids("test")} == about
    assert {int(doc_id[1:]) for doc_id in cut.passages.doc_ids.to_pylist()} == {
        4 * entity + at for entity in about for at in range(4)
    }


def test_a_folder_has_other_splits_by_name(tmp_path):
    folder = put(tmp_path / "c")
    usual = opened(tmp_path)
    (folder / "qrels_new").mkdir()
    query_id, doc_id = usual.query_ids("test")[0], usual.passages.doc_ids[1].as_py()
    judged = f"query-id\tcorpus-id\tscore\n{query_id}\t{doc_id}\t1\n"
    (folder / "qrels_new" / "train.tsv").write_text(judged)
    other = opened(tmp_path, options=",qrels=new")
    assert other.splits == ("train",) and other.fingerprint != usual.fingerprint
    assert other.qrels("train")[["query_id", "doc_id"]].values.tolist() == [[query_id, doc_id]]
    assert "qrels_none: no *.tsv files" in fails(f"beir:{folder},qrels=none")
    assert "must be the letters and digits" in fails(f"beir:{folder},qrels=../x")


def test_a_folder_with_a_comma_is_a_folder(tmp_path):
    put(tmp_path / "c,d=1")
    assert opened(tmp_path, "c,d=1").name == "c,d=1"


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            "hub:x",
            "is no collection spec; use one of mini, mini:key=value, mini:ood-NAME, beir:PATH, irds:ID, ms",
        ),
        ("", "is no collection spec"),
        ("beir", "is no collection spec"),
        ("irds:", "is no collection spec"),
        ("mini:", "is no collection spec"),
        ("minimal", "is no collection spec"),
        (
            "beir:x,dangling=maybe",
            "unknown option dangling=maybe; allowed are dangling=drop, empty=keep",
        ),
        ("beir:x,seed=3", "unknown option seed=3"),
        ("beir:x,drop", "'drop' is no option; write key=value"),
        ("beir:x,empty=keep,empty=keep", "an option stands twice; keep one"),
        ("irds:x,dangling=no", "unknown option dangling=no"),
        ("mini:seed=" + "9" * 5000, "unknown option seed=999"),
        ("beir:x,keep=" + "9" * 5000, "must be a number of queries"),
        (
            "mini:seed=x",
            "unknown option seed=x; allowed are mismatch=INTEGER, n_dev=INTEGER, n_domains=INTEGER, n_graded=INTEGER",
        ),
        ("mini:size=3", "unknown option size=3"),
        ("mini:small", "'small' is no option"),
        ("mini:ood-letters,n_train=3", "unknown option n_train=3; allowed are seed=INTEGER"),
    ],
)
def test_a_wrong_spec_is_told_what_is_allowed(tmp_path, spec, told):
    assert told in fails(spec)


def test_the_generated_world_is_what_its_generator_made(tmp_path):
    made = world.generate("mini", seed=7, n_train=300, n_dev=40)
    collection = open_collection("mini:seed=7,n_train=300,n_dev=40")
    passages = zip(
        collection.passages.doc_ids.to_pylist(), collection.passages.texts(slice(None)), strict=True
    )
    assert list(passages) == made.passages
    assert collection.splits == tuple(made.qrels) and collection.name == "mini"
    for split, queries in made.queries.items():
        pd.testing.assert_frame_equal(collection.qrels(split), made.qrels[split], check_dtype=False)
        back = (
            collection.queries(split)
            .set_index("query_id")
            .loc[queries["query_id"], list(queries.columns[1:])]
        )
        assert back.to_numpy().tolist() == queries[list(queries.columns[1:])].to_numpy().tolist()


def test_a_world_is_generated_once_and_again_when_its_files_change(tmp_path, monkeypatch):
    spec, made = "mini:n_train=300,n_dev=40", world.generate("mini", n_train=300, n_dev=40)
    calls = []
    monkeypatch.setattr(world, "generate", lambda name, n_train, n_dev: calls.append(1) or made)
    prints = set()
    for file, expected in ((None, 1), (None, 1), ("a.yaml", 2), ("b.yaml", 3)):
        if file:  # the generator's folder has other files now
            (tmp_path / "world").mkdir(exist_ok=True)
            (tmp_path / "world" / file).write_text("x")
            monkeypatch.setattr(world, "__file__", str(tmp_path / "world" / "__init__.py"))
        load._opened.cache_clear()
        prints.add(open_collection(spec).fingerprint)
        assert len(calls) == expected
    assert len(prints) == 1


COMMENTS = {"data/beir.py": ("FIRST_SPLITS", "# the usual ones\nFIRST_SPLITS")}
COMMENTS |= {"world/generate.py": ("SEED = ", "# of worlds\nSEED = ")}
# in files of the package, what is replaced and by what: does it convert anew the folder, the world?
EDITS = {
    "nothing": ({}, False, False),
    "comments": (COMMENTS, False, False),
    "how a folder is read": ({"data/beir.py": ("random_state=0)", "random_state=1)")}, True, False),
    "how all are checked": (
        {"data/converted.py": ("not table.num_rows", "table.num_rows == 0")},
        True,
        True,
    ),
    "how worlds are made": ({"world/generate.py": ("SEED = ", "SEED = 0 + ")}, False, True),
}


def test_a_changed_conversion_converts_anew_and_a_comment_does_not(tmp_path, root):
    """The folder was named by a constant that one had to remember to raise, the world by the bytes
    of its code.
    """
    put(tmp_path / "c")
    made = {}
    for name, (edits, *_) in EDITS.items():
        package = tmp_path / name / "interextra"
        shutil.copytree(
            root / "lib" / "interextra",
            package,
            ignore=shutil.ignore_patterns("base", "__pycache__"),
        )
        for file, (old, new) in edits.items():
            text = (package / file).read_text()
            assert old in text
            (package / file).write_text(text.replace(old, new, 1))
        env = os.environ | {
            "PYTHONPATH": str(tmp_path / name),
            "INTEREXTRA_CACHE": str(tmp_path / "cache" / name),
        }
        subprocess.run([sys.executable, "-c", OPEN, f"beir:{tmp_path / 'c'}"], env=env, check=True)
        folders = sorted((tmp_path / "cache" / name / "collections").iterdir())
        made[name] = {path.name.partition("-")[0]: path.name for path in folders}
    for name, (*_, folder, world_) in EDITS.items():
        moved = [made[name][kind] != made["nothing"][kind] for kind in ("c", "ood")]
        assert moved == [folder, world_], name


OPEN = """
import sys
from interextra.data.load import open_collection
open_collection(sys.argv[1]), open_collection("mini:ood-hobby-titles")
"""


def test_a_damaged_world_heals(tmp_path, capsys):
    sound = open_collection("mini:n_train=300,n_dev=40")
    first = sound.passages.texts([0])
    data = bytearray(sound.passages.path.read_bytes())
    data[data.index(first[0].encode())] ^= 1
    sound.passages.path.write_bytes(data)
    load._opened.cache_clear()
    assert open_collection("mini:n_train=300,n_dev=40").passages.texts([0]) == first
    assert "passages.arrow was changed; put aside" in capsys.readouterr().err


def test_world_options_reach_the_generator(tmp_path, monkeypatch):
    made, calls = world.generate("mini", n_train=300, n_dev=40), []

    def generate(name, seed=1, n_train=1):
        calls.append((name, seed, n_train))
        return made

    monkeypatch.setattr(world, "generate", generate)
    open_collection("mini")
    open_collection("mini:seed=3,n_train=7")
    open_collection("mini:ood-letters,seed=4")
    assert calls == [("mini", 1, 1), ("mini", 3, 7), ("ood-letters", 4, 1)]


def test_the_world_behind_a_spec_can_be_had_with_its_facts():
    made = load.open_world("mini:seed=7,n_train=300,n_dev=40")
    again = world.generate("mini", seed=7, n_train=300, n_dev=40)
    assert made.passages == again.passages and made.facts["doc_id"].tolist() == [
        doc_id for doc_id, _ in made.passages
    ]


def test_a_focus_without_concepts_is_named_by_itself():
    queries = pd.DataFrame(
        {
            "query_id": list("abcd"),
            "text": "how is it treated",
            "focus": ["Gout", "Mumps", "Gout", None],
            "qtype": "treatment",
            "cui": [[None], [None], ["C2", "C1"], ["C3"]],
        }
    )
    known = with_truth(queries)
    assert known["entities"].tolist() == [["gout"], ["mumps"], ["C1", "C2"]]
    assert known["intent"].tolist() == ["gout|treatment", "mumps|treatment", "C1+C2|treatment"]
    assert entity_units(queries).to_dict() == {"a": "gout", "b": "mumps", "c": "C1+C2", "d": "d"}
    assert entity_units(queries[["query_id", "text"]]).tolist() == list("abcd")


COUNTS = {  # name: (passages, split -> (rows, queries))
    "medquad": (
        15_809,
        {"train": (13_101, 11_476), "dev": (1639, 1434), "test": (1619, 1435), "liveqa": (503, 86)},
    ),
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
    collection = open_collection(f"beir:{real_data / 'collections' / name}")
    measured = {
        split: (len(collection.qrels(split)), len(collection.query_ids(split)))
        for split in collection.splits
    }
    assert (len(collection.passages), measured) == COUNTS[name]
    assert list(measured) == list(COUNTS[name][1])
    path = next((real_data / "collections" / name).glob("corpus.jsonl*"))
    with (gzip.open if path.suffix == ".gz" else open)(
        path, "rt", encoding="utf-8", newline="\n"
    ) as lines:
        for row, line in enumerate(lines):
            if row % 997 in (0, 1, 9):
                item = json.loads(line)
                text = f"{item['title']} {item['text']}" if item["title"] else item["text"]
                assert collection.passages.rows([item["_id"]]).tolist() == [row]
                assert collection.passages.texts([row]) == [text]


def test_real_query_attributes_are_columns(real_data):
    queries = open_collection(f"beir:{real_data / 'collections' / 'medquad'}").queries("test")
    assert queries.loc[0, ["qtype", "cui"]].tolist() == ["symptoms", ["C0751606"]]
    assert len(queries) == 1435 and queries["focus"].notna().all()


def test_real_empty_passages_are_named(real_data):
    message = fails(f"beir:{real_data / 'collections' / 'cranfield'}")
    assert "corpus.jsonl:471: 2 passages without text: doc_id '471', '995'" in message


def test_medquad_has_no_query_without_an_entity(real_data):
    collection = open_collection(f"beir:{real_data / 'collections' / 'medquad'}")
    train, test = (with_truth(collection.queries(split)) for split in ("train", "test"))
    assert train["entities"].str.len().min() == 1
    overlap = world.intent_overlap(test, train).value_counts()
    assert overlap.to_dict() == {"similar": 702, "dissimilar": 594, "duplicate": 139}

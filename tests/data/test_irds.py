"""ir_datasets collections: its own code reads miniature archives lying where it keeps its
downloads.

Only the download and its checksum are not exercised. IR_DATASETS_HOME is read when ir_datasets is
imported, so the archives are read in a process of their own; the error and naming tests register
small local sets here.
"""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile

import pytest

from interextra.data import irds, load
from interextra.data.load import open_collection
from interextra.store.errors import InputError

BROKEN = "It’s".encode().decode("latin-1")  # as MS MARCO's archive has it; ir_datasets repairs it


def put_tar(path, files: dict[str, str]):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def put_msmarco(home):
    """MS MARCO passage in miniature: the names, formats and odd separators of the real
    downloads.
    """
    base = home / "msmarco-passage"
    archive = {
        "collection.tsv": f"0\t{BROKEN} zero\n1\tone\n2\ttwo  spaces\n",
        "queries.dev.small.tsv": "30\t dev question\n",
        "qrels.dev.small.tsv": "30\t0\t2\t1\n",
    }
    put_tar(base / "collectionandqueries.tar.gz", archive)
    put_tar(base / "queries.tar.gz", {"queries.train.tsv": "11\tunjudged\n10\ttrain question\n"})
    for name in ("train", "trec-dl-2019", "trec-dl-2020"):
        (base / name).mkdir()
    (base / "train/qrels").write_text("10\t0\t0\t1\n")
    (base / "trec-dl-2019/queries.tsv").write_text("40\tdl19 question\n41\tnever judged\n")
    (base / "trec-dl-2019/qrels").write_text("40 Q0 1 3\n40 Q0 0 0\n")
    (base / "trec-dl-2020/queries.tsv.gz").write_bytes(
        gzip.compress(b"50\tdl20 question\n51\tnever judged\n")
    )
    (base / "trec-dl-2020/qrels").write_text("50 0 2 2\n")


def put_scifact(home):
    path = home / "beir" / "scifact" / "source.zip"
    path.parent.mkdir(parents=True)
    files = {
        "corpus.jsonl": '{"_id": "7", "title": "Head", "text": "body", "metadata": {}}\n'
        '{"_id": "8", "title": "", "text": "alone", "metadata": {}}\n',
        "queries.jsonl": '{"_id": "1", "text": "a claim", "metadata": {}}\n'
        '{"_id": "2", "text": "a test", "metadata": {}}\n',
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\n1\t7\t1\n",
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n2\t8\t1\n",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"scifact/{name}", text)


SCRIPT = """
import json, sys
from interextra.data.load import open_collection, peek
out = {}
for spec in sys.argv[1:]:
    try:
        before = peek(spec)
        c = open_collection(spec)
        out[spec] = {
            "passages": list(zip(c.passages.doc_ids.to_pylist(), c.passages.texts(slice(None)))),
            "qrels": {s: c.qrels(s).to_numpy().tolist() for s in c.splits},
            "queries": {s: c.queries(s)[["query_id", "text"]].to_numpy().tolist() for s in c.splits},
            "name": c.name, "spec": c.spec, "peek": [before, peek(spec)],
        }
    except ValueError as error:
        out[spec] = f"{type(error).__name__}: {error}"
out["imported"] = "ir_datasets" in sys.modules
print(json.dumps(out))
"""

OFFLINE = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "no_proxy": ""}
SPECS = (
    "irds:msmarco-passage",
    "irds:msmarco-passage/train",
    "irds:msmarco-passage/dev/small",
    "irds:msmarco-passage,valid=msmarco-passage/dev/small,judged=msmarco-passage/train/judged",
    "irds:beir/scifact",
    "irds:beir/scifact/test",
    "irds:vaswani",
    "irds:msmarco-pasage",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("ir_datasets")
    put_msmarco(home)
    put_scifact(home)
    return home


def opened(home, cache, *specs) -> dict:
    folders = {"IR_DATASETS_HOME": str(home), "INTEREXTRA_CACHE": str(cache)}
    env = os.environ | OFFLINE | folders | {"IR_DATASETS_DL_TRIES": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *specs], env=env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def read(home, tmp_path_factory):
    return opened(home, tmp_path_factory.mktemp("cache"), *SPECS)


def test_msmarco_passage_comes_with_the_standard_splits(read):
    found = read["irds:msmarco-passage"]
    assert found["passages"] == [["0", "It’s zero"], ["1", "one"], ["2", "two  spaces"]]
    assert found["qrels"] == {
        "train": [["10", "0", 1]],
        "dev": [["30", "2", 1]],
        "dl19": [["40", "1", 3], ["40", "0", 0]],
        "dl20": [["50", "2", 2]],
    }
    assert found["queries"]["dev"] == [["30", " dev question"]]
    assert (found["name"], found["spec"]) == ("msmarco-passage", "irds:msmarco-passage")


def test_an_id_with_qrels_is_one_split_named_after_it(read):
    assert read["irds:msmarco-passage/train"]["qrels"] == {"train": [["10", "0", 1]]}
    assert read["irds:msmarco-passage/dev/small"]["qrels"] == {"dev-small": [["30", "2", 1]]}
    assert read["irds:beir/scifact/test"]["qrels"] == {"test": [["2", "8", 1]]}


def test_splits_can_be_spelt_out(read):
    assert read[SPECS[3]]["qrels"] == {"valid": [["30", "2", 1]], "judged": [["10", "0", 1]]}


def test_a_beir_set_finds_its_splits_and_joins_title_and_text(read):
    found = read["irds:beir/scifact"]
    assert found["passages"] == [["7", "Head body"], ["8", "alone"]]
    assert found["queries"] == {"train": [["1", "a claim"]], "test": [["2", "a test"]]}


def test_a_failed_download_is_one_input_error(read, home):
    message = read["irds:vaswani"]
    assert message.startswith("InputError: irds:vaswani: ir_datasets could not deliver it (")
    assert "connect to the network once" in message and str(home) in message and "\n" not in message


def test_an_unknown_id_is_told_the_nearest(read):
    assert (
        "has no data set of this id; did you mean 'msmarco-passage'" in read["irds:msmarco-pasage"]
    )


def test_the_second_opening_reads_nothing_of_ir_datasets(home, tmp_path):
    first = opened(home, tmp_path, "irds:msmarco-passage")
    again = opened(home, tmp_path, "irds:msmarco-passage")
    assert first.pop("imported") and not again.pop("imported")
    assert first["irds:msmarco-passage"].pop("peek")[0] and again["irds:msmarco-passage"].pop(
        "peek"
    ) == [{}, {}]
    assert first == again


def test_what_a_download_holds_is_known_without_downloading(tmp_path):
    code = f"from interextra.data.load import peek; print([peek(s) for s in {[SPECS[0], SPECS[4], 'mini']}])"
    env = (
        os.environ
        | OFFLINE
        | {"IR_DATASETS_HOME": str(tmp_path / "home"), "INTEREXTRA_CACHE": str(tmp_path)}
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    msmarco, scifact, mini = eval(done.stdout)
    queries = {"train": 502_939, "dev": 6980, "dl19": 43, "dl20": 54}
    assert msmarco["passages"] == 8_841_823 and msmarco["queries"] == queries
    assert scifact["passages"] == 5183 and scifact["queries"] == {"train": 809, "test": 300}
    assert mini == {}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """Local sets in ir_datasets' registry: base (documents only), base/a, base/b, and another
    corpus.
    """
    import ir_datasets

    folder, sets = tmp_path_factory.mktemp("local"), {}
    files = {
        "docs.tsv": "1\tone\n2\ttwo\n",
        "a.tsv": "q\tquestion\n",
        "b.tsv": "q\tother words\n",
        "a.qrels": "q 0 1 1\n",
        "b.qrels": "q 0 9 1\n",
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    docs = ir_datasets.create_dataset(folder / "docs.tsv").docs_handler()
    for name in ("a", "b"):
        part = ir_datasets.create_dataset(None, folder / f"{name}.tsv", folder / f"{name}.qrels")
        sets[f"/{name}"] = ir_datasets.Dataset(docs, part.queries_handler(), part.qrels_handler())
    sets[""] = ir_datasets.Dataset(docs)
    sets["-other"] = ir_datasets.create_dataset(
        folder / "docs.tsv", folder / "a.tsv", folder / "a.qrels"
    )
    sets["-queries"] = ir_datasets.create_dataset(None, folder / "a.tsv", folder / "a.qrels")
    base = f"interextra-test-{os.getpid()}"
    for suffix, dataset in sets.items():
        ir_datasets.registry.register(base + suffix, dataset)
    return base


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(tmp_path / "cache"))
    load._opened.cache_clear()


def fails(spec) -> str:
    with pytest.raises(InputError) as caught:
        open_collection(spec)
    return str(caught.value)


def test_a_set_that_is_its_own_corpus_is_the_split_test(local):
    assert open_collection(f"irds:{local}-other").splits == ("test",)


def test_another_home_or_version_is_read_anew(local, tmp_path, monkeypatch):
    spec = f"irds:{local}/a"
    open_collection(spec)
    monkeypatch.setattr(irds, "_read", lambda *_: pytest.fail("read anew"))
    load._opened.cache_clear()
    open_collection(spec)
    load._opened.cache_clear()
    with monkeypatch.context() as patch, pytest.raises(pytest.fail.Exception):
        patch.setenv("IR_DATASETS_HOME", str(tmp_path))
        open_collection(spec)
    with monkeypatch.context() as patch, pytest.raises(pytest.fail.Exception):
        patch.setattr(irds, "_version", lambda: "9.9")
        open_collection(spec)


def test_ids_that_make_no_collection_are_refused(local):
    assert "no qrels, and no part train, dev or test; name the splits" in fails(f"irds:{local}")
    assert f"parts with qrels: '{local}/a', '{local}/b'" in fails(f"irds:{local}")
    assert "has no documents" in fails(f"irds:{local}-queries")
    assert "has no qrels or no queries" in fails(f"irds:{local},x={local}")
    assert "has other documents" in fails(f"irds:{local},x={local}-other")
    assert "query_id 'q' has two texts" in fails(f"irds:{local},x={local}/a,y={local}/b")
    assert "stands twice" in fails(f"irds:{local},a={local}/b,a={local}/a")


def test_dangling_qrels_follow_the_switch(local):
    message = fails(f"irds:{local}/b")
    assert (
        f"{local}/b qrels of ir_datasets, row 1: 1 qrels of split 'b' name a passage that is not there"
        in message
    )
    assert "no qrels of split 'b' name a query and a passage" in fails(
        f"irds:{local}/b,dangling=drop"
    )

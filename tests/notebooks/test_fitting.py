"""A notebook goes through a collection of one's own without a parameter: sizes, splits and kinds
are fitted to it.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from interextra.cli import main
from interextra.data import load
from interextra.notebooks.fitting import fitted
from interextra.notebooks.plans import one_shift
from interextra.site.parameters import profile_parameters
from interextra.site.repository import notebooks

KINDS = {
    "who saw the {} in the wood": 0,
    "how does the {} eat grass": 1,
    "what does the {} weigh": 2,
}


@pytest.fixture
def plain(house):
    """A BEIR folder of 300 passages, 240 training and 60 test queries, of three question words."""
    folder = house / "plain"
    (folder / "qrels").mkdir(parents=True)
    rows = [(f"{at}", form.format(f"animal{at}")) for at in range(100) for form in KINDS]
    ids = [f"{name}-{place}" for place, (name, _) in enumerate(rows)]
    write = {"queries": [text for _, text in rows], "corpus": [f"On {text}" for _, text in rows]}
    for name, texts in write.items():
        lines = [
            json.dumps({"_id": one, "text": text}) for one, text in zip(ids, texts, strict=True)
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    for split, kept in (("train", [0, 1, 2, 3]), ("test", [4])):
        judged = [f"{one}\t{one}\t1\n" for place, one in enumerate(ids) if place % 5 in kept]
        (folder / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join(judged)
        )
    return f"beir:{folder}"


def on(plain, number, **overrides):
    [path] = notebooks(Path("."), number)
    return profile_parameters(Path("."), "mini", path, {"collection": plain} | overrides)


def test_sizes_keep_their_share_and_splits_are_those_that_are_there(plain):
    p = on(plain, "02")
    assert p.sizes == [7, 22, 96]
    assert p.grid_sizes == [7, 22, 38]  # of 112, 360, 1600 and 640 of 4,000
    assert p.test_splits == ["test"] and p.gate_splits == []
    assert set(on(plain, "05").trained_sizes) <= set(on(plain, "05").sizes)
    assert on(plain, "02", sizes=[40, 100]).sizes == [40, 100]
    assert on(plain, "11").complete is False and on(plain, "01").truth is False


def test_kinds_are_those_of_the_collection(plain):
    assert on(plain, "09").shift == {"shift": "wh-words", "clusters": ["how", "wha", "who"]}
    shifts = [str(entry) for entry in on(plain, "04").shifts]
    assert "topics" in shifts[0] and len(set(shifts)) == len(shifts)
    sizes = {"n_test": 400, "train_size": 300, "collection": plain}
    kept = {"shift": {"shift": "wh-words", "clusters": ["how", "who"]}}
    assert "shift" not in fitted(kept | sizes, "mini", {"collection": plain})
    none_as_long = {"shift": "length:limit=50"}
    found = fitted(none_as_long | sizes, "mini", {"collection": plain})
    assert found["shift"] == {"shift": "length:limit=6", "clusters": ["long", "short"]}


def with_labels(path, column, labels):
    """Give the queries a column in which these labels take turns."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row | {"metadata": {column: labels[at % len(labels)]}} for at, row in enumerate(rows)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    "labels", [["n/a", "yes", "no"], ["a/", "/b", "%2F", "%25"], ["100 %", "a=b:c", "x\\y"]]
)
def test_labels_of_any_characters_are_clusters(plain, labels):
    with_labels(Path(plain.removeprefix("beir:"), "queries.jsonl"), "ki/nd", labels)
    entry = {"shift": "column:ki/nd", "name": "kind"}
    asked = {"shift": entry, "n_test": 12, "train_size": 5, "collection": plain}
    found = fitted(asked, "mini", {"collection": plain})["shift"]
    assert found == entry | {"clusters": found["clusters"]}
    assert sorted(found["clusters"]) == sorted(labels)
    shift = one_shift(on(plain, "09", shift=found))
    assert shift.clusters == tuple(found["clusters"]) and shift.by == "column:ki/nd"


def test_clusters_that_no_query_has_are_named_with_those_there_are(plain, capsys):
    labels = ["n/a", "yes", "-1"]
    with_labels(Path(plain.removeprefix("beir:"), "queries.jsonl"), "kind", labels)
    command = ["split", "shift", "--collection", plain, "--out", "out", "--attribute"]
    assert main([*command, "column:kind", "--clusters", "n", "yes"]) == 2
    line = capsys.readouterr().err
    assert "no query of cluster 'n'" in line and all(label in line for label in labels)
    assert main([*command, "column:kind/yes/no"]) == 2
    assert "no such column" in capsys.readouterr().err


def test_the_profile_s_own_collection_is_left_as_it_is(house):
    [path] = notebooks(house, "02")
    usual = profile_parameters(house, "mini", path, {})
    assert usual.sizes == [112, 360, 1600]
    assert profile_parameters(house, "mini", path, {"collection": "mini"}) == usual


CASES = {  # file → what it becomes
    "three queries": ("qrels/train.tsv", lambda text: "".join(text.splitlines(keepends=True)[:4])),
    "no positives": ("qrels/train.tsv", lambda text: text.replace("\t1\n", "\t0\n")),
    "the same texts": (
        "queries.jsonl",
        lambda text: re.sub(r'"text": "[^"]*"', '"text": "the same words"', text),
    ),
}


class Saying(str):
    """Equal to one line that holds this text."""

    def __eq__(self, other):
        return self in other and other.count("\n") == 1

    __hash__ = str.__hash__


def split(plain, capsys, *options, case=""):
    """Exit code and what was said of a split of the collection, in which one file is another."""
    folder = Path(
        shutil.copytree(plain.removeprefix("beir:"), f"case {case}")
    )  # a spec is opened once
    if case:
        name, change = CASES[case]
        (folder / name).write_text(change((folder / name).read_text()))
    code = main(
        ["split", "restrain", "--collection", f"beir:{folder}", "--out", f"out {case}", *options]
    )
    return code, "".join(capsys.readouterr())


def test_what_cannot_be_divided_is_one_message(plain, capsys):
    assert split(plain, capsys, "--size", "2", case="three queries") == (
        2,
        Saying("3 training queries"),
    )
    assert split(plain, capsys, case="no positives") == (
        2,
        Saying("has a passage of relevance 1 or more"),
    )
    assert split(plain, capsys, "--test-splits", "dev") == (2, Saying("no split 'dev'"))


def test_equal_texts_are_divided_all_the_same(plain, capsys):
    code, told = split(plain, capsys, case="the same texts")
    assert code == 0 and "120 training queries" in told


def test_another_generated_world_has_the_sizes_of_the_profile(root):
    path = root / "notebooks" / "04_ms_shift_clusters.ipynb"
    usual, given = (
        profile_parameters(root, "worlds", path, {"collection": f"mini{of}"})
        for of in ("", ":seed=31")
    )
    differing = {name for name, value in usual if value != getattr(given, name)}
    assert differing == {"collection"}


NUMBERS = [path.stem[:2] for path in notebooks(Path(__file__).parents[2])]


# 13 opens no collection
@pytest.mark.parametrize("number", [number for number in NUMBERS if number != "13"])
def test_what_no_notebook_can_learn_from_is_one_message(plain, number, capsys):
    """Three queries, none with a relevant passage, one text for all, a split that is missing."""
    folder = Path(plain.removeprefix("beir:"))
    train, queries = folder / "qrels" / "train.tsv", folder / "queries.jsonl"
    usual, texts = train.read_text(), queries.read_text()
    asked = ["plan", "--only", number, "-p", f"collection={plain}"]
    for judged, asks, words in (
        (
            "".join(usual.splitlines(keepends=True)[:4]),
            texts,
            "3 different queries of the split 'train'",
        ),
        (usual.replace("\t1\n", "\t0\n"), texts, "0 different queries of the split 'train'"),
        (
            usual,
            re.sub(r'"text": "[^"]*"', '"text": "what is it"', texts),
            "1 different queries of the split 't",
        ),
        ("", texts, "no split 'train'; it has test: set train_split"),
    ):
        train.write_text(judged) if judged else train.unlink()
        queries.write_text(asks)
        load._opened.cache_clear()
        if words.startswith("3") and number in ("00", "01", "11"):  # which divide no queries
            assert main(asked) == 0
            continue
        assert main(asked) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line.startswith("interextra: ") and words in line


def test_queries_without_passages_keep_the_parameters_of_the_profile(root, monkeypatch, tmp_path):
    """The queries of MS MARCO and TREC DL have no training judgements."""
    real = root.parent / "shared" / "data"
    if not real.is_dir():
        pytest.skip("no real data beside the repository")
    monkeypatch.setenv("INTEREXTRA_DATA", str(real))
    for number in ("00", "01", "02"):
        [path] = notebooks(root, number)
        given = profile_parameters(root, "mini", path, {"collection": "msmarco-queries"})
        assert given.collection == "msmarco-queries"

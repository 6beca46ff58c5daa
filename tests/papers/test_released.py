"""Released split files: what is read is written back byte for byte, and what they hold is
measured.
"""

import json

import pandas as pd
import pytest

from interextra.data.trec import read_qrels
from interextra.papers import released
from interextra.papers.releases import CLUSTERS
from interextra.store.errors import InputError


def fails(function, *parts) -> str:
    with pytest.raises(InputError) as caught:
        function(*parts)
    return str(caught.value)


def test_qrels_of_zhan_are_written_back_byte_for_byte(real_data, tmp_path):
    paths = list((real_data / "extrapolate-eval").rglob("*-qrel.txt"))
    assert len(paths) == 36
    for path in paths:
        released.write_qrels(tmp_path / "qrels", read_qrels(path, duplicates="keep"))
        assert (tmp_path / "qrels").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    "cluster", [file for files in CLUSTERS.values() for file in files.values()]
)
def test_shift_files_are_written_back_byte_for_byte(real_data, tmp_path, cluster):
    folder = real_data / "ms-marco-shift"
    queries, qrels, without_text = released.read_shift(folder, cluster)
    released.write_shift(tmp_path, cluster, queries, qrels)
    for written in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert written.read_bytes() == (folder / written.relative_to(tmp_path)).read_bytes()
    assert len(without_text) == (2 if cluster in "0124" else 0)
    assert qrels["query_id"].nunique() == len(queries) + len(without_text)


def test_what_is_not_in_the_release_is_named(tmp_path):
    assert "15k/interpolate.train-qrel.txt: no such file" in fails(
        released.read_restrain, tmp_path, "15k", "interpolate"
    )
    assert "bucket-6/interpolate.dev-qrel.txt: no such file" in fails(
        released.read_resttest, tmp_path, 6, "interpolate", "dev"
    )
    assert "queries_why.tsv: no such file" in fails(released.read_shift, tmp_path, "why")


def shift_folder(tmp_path, queries: str, qrels: str):
    for path, text in zip(released._shift_paths(tmp_path, "wha"), (queries, qrels), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_queries_with_qrels_but_no_text_are_reported(tmp_path):
    folder = shift_folder(
        tmp_path, "7\tdouble  space â€™\n", json.dumps({"9": {"1": 1}, "7": {"3": 1, "2": 1}})
    )
    queries, qrels, without_text = released.read_shift(folder, "wha")
    assert queries["text"].tolist() == ["double  space â€™"]
    assert qrels.to_numpy().tolist() == [["9", "1", 1], ["7", "3", 1], ["7", "2", 1]]
    assert without_text == ["9"]


@pytest.mark.parametrize(
    ("qrels", "told"),
    [
        ("{", "not readable as JSON"),
        ("{}", "no judgements in it"),
        ("[" * 100_000, "nested too deeply"),
        ('{"7": {"1": 1, "1": 2}}', "the key '1' stands twice"),
        ('{"7": {"1": 9223372036854775808}}', "the relevance of ('7', '1') is too large"),
        ("[]", "not qrels"),
        ('{"1": 1}', "not qrels"),
        ('{"1": {"2": 1.5}}', "'float' object cannot be interpreted as an integer"),
    ],
)
def test_broken_shift_qrels_are_refused(tmp_path, qrels, told):
    message = fails(released.read_shift, shift_folder(tmp_path, "7\ta\n", qrels), "wha")
    assert told in message and "qrel_wha.json" in message


def test_what_the_shift_format_cannot_hold_is_refused(tmp_path):
    queries, qrels, _ = released.read_shift(
        shift_folder(tmp_path, "7\ta\n", '{"7": {"1": 1}}'), "wha"
    )
    tabbed = queries.assign(text="a\tb")
    assert "query_id '7': a tab" in fails(released.write_shift, tmp_path, "wha", tabbed, qrels)
    twice = pd.concat([qrels, qrels])
    assert "repeat a query_id and doc_id" in fails(
        released.write_shift, tmp_path, "wha", queries, twice
    )


QUERIES = pd.DataFrame({"query_id": ["1", "2", "3"], "text": ["one", "two", "three"]})
QRELS = pd.DataFrame(
    {"query_id": ["3", "1", "2", "1"], "doc_id": ["a", "b", "c", "d"], "relevance": [1, 0, 2, 1]}
)


def test_a_split_of_an_unknown_kind_writes_nothing(tmp_path):
    told = fails(
        released.export_split, "restran", {"interpolation-2": ["1"]}, QUERIES, QRELS, tmp_path
    )
    assert "no kind 'restran'; there are restrain, resttest, shift" in told and not list(
        tmp_path.iterdir()
    )


def test_our_splits_are_written_as_the_releases_are(tmp_path):
    sets = {"interpolation-2": ["1", "2"], "extrapolation-2": ["3"], "random-2-0": ["2"]}
    paths = released.export_split("restrain", sets, QUERIES, QRELS, tmp_path)
    assert all(path.is_file() for path in paths) and len(paths) == 3
    files = ("2/interpolate", "2/extrapolate", "random-2-0")
    written = [read_qrels(tmp_path / f"{name}.train-qrel.txt")["doc_id"].tolist() for name in files]
    assert written == [["b", "c", "d"], ["a"], ["c"]]

    released.export_split("resttest", {"1": ["1"], "2": ["3"]}, QUERIES, QRELS, tmp_path)
    folder = tmp_path / "bucket-1"
    written = [
        read_qrels(folder / f"{name}.test-qrel.txt")["doc_id"].tolist()
        for name in ("extrapolate", "interpolate")
    ]
    assert written == [["b", "d"], ["a"]]

    released.export_split("shift", {"who": ["3", "1"]}, QUERIES, QRELS, tmp_path)
    queries, qrels, without_text = released.read_shift(tmp_path, "who")
    assert queries["text"].tolist() == ["one", "three"] and not without_text
    assert qrels["doc_id"].tolist() == ["a", "b", "d"]

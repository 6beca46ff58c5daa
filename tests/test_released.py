"""Released split files: what is read is written back byte for byte, and what they hold is measured."""

import json
import shutil

import pandas as pd
import pytest

from interextra.data import released
from interextra.data.released import BUCKETS, CLUSTERS, REGIMES, SIZES, TEST_SETS
from interextra.ground.errors import InputError


def fails(function, *parts) -> str:
    with pytest.raises(InputError) as caught:
        function(*parts)
    return str(caught.value)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("regime", REGIMES)
def test_restrain_files_are_written_back_byte_for_byte(real_data, tmp_path, size, regime):
    folder = real_data / "extrapolate-eval"
    written = released.write_restrain(tmp_path, size, regime, released.read_restrain(folder, size, regime))
    assert written.read_bytes() == released.restrain_path(folder, size, regime).read_bytes()
    assert written.relative_to(tmp_path) == released.restrain_path(folder, size, regime).relative_to(folder)


@pytest.mark.parametrize("test_set", TEST_SETS)
def test_resttest_files_are_written_back_byte_for_byte(real_data, tmp_path, test_set):
    folder = real_data / "extrapolate-eval"
    for bucket in BUCKETS:
        for regime in REGIMES:
            qrels = released.read_resttest(folder, bucket, regime, test_set)
            written = released.write_resttest(tmp_path, bucket, regime, test_set, qrels)
            assert written.read_bytes() == (folder / written.relative_to(tmp_path)).read_bytes()


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_shift_files_are_written_back_byte_for_byte(real_data, tmp_path, cluster):
    folder = real_data / "ms-marco-shift"
    queries, qrels, without_text = released.read_shift(folder, cluster)
    for written in released.write_shift(tmp_path, cluster, queries, qrels):
        assert written.read_bytes() == (folder / written.relative_to(tmp_path)).read_bytes()
    assert len(without_text) == (2 if cluster in "0124" else 0)
    assert qrels["query_id"].nunique() == len(queries) + len(without_text)


def test_both_releases_hold_what_is_known_of_them(real_data):
    for name, n_properties in (("extrapolate-eval", 64), ("ms-marco-shift", 30)):
        table = released.check_release(real_data / name)
        assert len(table) == n_properties
        assert table[~table["ok"]].empty


def test_a_changed_release_is_noticed(real_data, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(real_data / "extrapolate-eval" / "resttest_files", folder / "resttest_files")
    moved = released.read_resttest(folder, 5, "extrapolate", "trec19")
    kept = released.read_resttest(folder, 4, "extrapolate", "trec19")
    released.write_resttest(folder, 4, "extrapolate", "trec19", pd.concat([kept, moved]))
    table = released.check_release(folder).set_index("property")
    assert table.loc[~table["ok"], "value"].to_dict() == {
        "trec19 bucket 4: queries held out": 14,
        "trec19 bucket 4: interpolate is not the complement by": 1,
        "trec19: queries in more than one bucket": 1,
        "trec19: qrels rows": 9260 + len(moved),
    }


def test_names_outside_the_release_are_refused_with_the_allowed_ones(tmp_path):
    assert "size '15k' is not in the release; use one of 14k, 45k, 200k" in fails(
        released.read_restrain, tmp_path, "15k", "interpolate"
    )
    assert "use one of interpolate, extrapolate" in fails(released.read_restrain, tmp_path, "14k", "inter")
    assert "bucket 6" in fails(released.read_resttest, tmp_path, 6, "interpolate", "dev")
    assert "use one of dev, trec19, trec20" in fails(released.read_resttest, tmp_path, 1, "interpolate", "test")
    assert "cluster 'why'" in fails(released.read_shift, tmp_path, "why")
    assert "no such file" in fails(released.read_restrain, tmp_path, "14k", "interpolate")
    assert "none of restrain_files, resttest_files, EVAL" in fails(released.check_release, tmp_path)


def shift_folder(tmp_path, queries: str, qrels: str):
    for path, text in zip(released.shift_paths(tmp_path, "wha"), (queries, qrels), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_queries_with_qrels_but_no_text_are_reported(tmp_path):
    folder = shift_folder(tmp_path, "7\tdouble  space â€™\n", json.dumps({"9": {"1": 1}, "7": {"3": 1, "2": 1}}))
    queries, qrels, without_text = released.read_shift(folder, "wha")
    assert queries["text"].tolist() == ["double  space â€™"]
    assert qrels.to_numpy().tolist() == [["9", "1", 1], ["7", "3", 1], ["7", "2", 1]]
    assert without_text == ["9"]


@pytest.mark.parametrize(
    ("qrels", "told"),
    [
        ("{", "not JSON"),
        ("[]", "not qrels"),
        ('{"1": 1}', "not qrels"),
        ("{}", "no qrels"),
        ('{"1": {"2": 1.5, "3": true}}', "relevance of '1 2', '1 3' is no integer"),
    ],
)
def test_broken_shift_qrels_are_refused(tmp_path, qrels, told):
    message = fails(released.read_shift, shift_folder(tmp_path, "7\ta\n", qrels), "wha")
    assert told in message and "qrel_wha.json" in message


def test_what_the_shift_format_cannot_hold_is_refused(tmp_path):
    queries, qrels, _ = released.read_shift(shift_folder(tmp_path, "7\ta\n", '{"7": {"1": 1}}'), "wha")
    tabbed = queries.assign(text="a\tb")
    assert "query_id '7': a tab" in fails(released.write_shift, tmp_path, "wha", tabbed, qrels)
    twice = pd.concat([qrels, qrels])
    assert "judged twice" in fails(released.write_shift, tmp_path, "wha", queries, twice)

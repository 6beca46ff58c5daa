"""Sets of a split are as large as its smallest one, and too few queries are refused, or said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from toy_own import OPTIONS, written

from interextra.cli import main
from interextra.data.load import open_collection
from interextra.own import few
from interextra.own import splitting as own
from interextra.own.few import LEAST_MEASURING, LEAST_TRAINING
from interextra.own.split_folder import SplitFolder
from interextra.store.errors import InputError

BY_TOPIC = {"attribute": "column:topic"}


@pytest.fixture
def uneven(spec):
    """The topics, without half of what is asked of the sky."""
    path = Path(spec.removeprefix("beir:"), "qrels", "train.tsv")
    lines = path.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("sky-quasar", "sky-aurora"))]
    path.write_text("\n".join(kept) + "\n")
    return spec


def asked(protocol, **more):
    """The options of a protocol, those of the others as they are by default."""
    return OPTIONS | BY_TOPIC | more | {name: own.DEFAULTS[name] for name in own.UNUSED[protocol]}


def sizes(split, store):
    store.build(split)
    return [len(split.sets(store)[name]) for name in own.sets_of(split)]


@pytest.mark.parametrize("protocol", ["resttest", "shift"])
def test_sets_are_as_large_as_the_smallest_one(uneven, store, protocol):
    options = asked(protocol)
    split = own.split_of(protocol, uneven, options)
    as_published = sizes(split, store)
    equal = own.prepared(split, store, options)
    assert len(set(as_published)) > 1
    assert sizes(equal, store) == [min(as_published)] * len(as_published)
    for name in own.sets_of(split):
        assert set(equal.sets(store)[name]) <= set(split.sets(store)[name])
    assert own.prepared(split, store, options | {"unequal": True}) == split
    assert own.prepared(equal, store, options) == equal


def test_nothing_is_computed_where_sizes_are_given(spec, store, monkeypatch):
    monkeypatch.setattr(type(store), "build", lambda *_: pytest.fail("computed"))
    for protocol, more in (("restrain", {}), ("resttest", {"size": 9}), ("shift", {"size": 9})):
        options = asked(protocol, **more)
        split = own.split_of(protocol, spec, options)
        assert own.prepared(split, store, options) is split


def test_the_command_says_that_sets_were_cut_and_what_divided_them(uneven, store, capsys):
    command = ["split", "shift", "--collection", uneven, "--n-test", "2", "--encoder", "tf-idf"]
    command += ["--other-encoder", "lsa", "--attribute", "column:topic"]
    assert main([*command, "--out", "equal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = [line.split(": ")[1].split(" ")[0] for line in lines if "training queries," in line]
    assert len(counts) == 3 and len(set(counts)) == 1
    assert "All sets are as large as the smallest one would be (--unequal: all their queries)." in (
        lines
    )
    assert "equal/test.tsv: 6 queries to search with the model of each set: 5 test queries" in (
        "\n".join(lines)
    )
    assert main([*command, "--out", "all", "--unequal"]) == 0
    lines = capsys.readouterr().out.splitlines()
    counts = [line.split(": ")[1].split(" ")[0] for line in lines if "training queries," in line]
    assert len(set(counts)) > 1 and not any("All sets are" in line for line in lines)
    assert main(["split", "restrain", "--collection", uneven, "--unequal", "--out", "new"]) == 2
    assert "--unequal is of another protocol" in capsys.readouterr().err


def test_too_few_queries_are_refused(spec, store, monkeypatch):
    """Where a fifth of the test queries is less, ten show the lead."""
    monkeypatch.setattr(few, "LEAST_MEASURING", LEAST_MEASURING)
    monkeypatch.setattr(few, "LEAST_TRAINING", LEAST_TRAINING)
    with pytest.raises(InputError, match="interpolation-9 has 9 training queries, of which at lea"):
        written(spec, store, "restrain", "out", size=9)
    assert not Path("out").exists()
    with pytest.raises(InputError, match="2 queries would measure and 10 show the lead, of which"):
        written(spec, store, "shift", "out", **BY_TOPIC)
    assert not Path("out").exists()
    _, manifest = written(spec, store, "restrain", "out", size=12)
    assert (manifest["n_test"], manifest["n_gate"]) == (14, 10)


def test_few_queries_are_said(capsys):
    ids = {"near": ["q"] * 199, "far": ["q"] * 300}
    few.report_few(ids, 96, 35)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and lines[0].startswith("few training queries: 199 in the set near.")
    assert lines[1].startswith("few test queries: 96 find a change of about 20 % or more")
    few.report_few(ids | {"near": ["q"] * 200}, 97, 34)
    assert capsys.readouterr().err == (
        "few queries for the lead: 34 find a lead of about 34 % or more with 80 % power, if "
        "values vary over queries as those of BM25 usually do.\n"
    )


def test_the_smallest_share_is_found_in_four_of_five_experiments():
    """Paired differences as large as two regimes give that correlate at one half."""
    draw = np.random.default_rng(1)
    share = few.smallest_share(150)
    covariance = few.SPREAD**2 * np.array([[1, 0.5], [0.5, 1]])
    values = draw.multivariate_normal([1, 1 - share], covariance, size=(4000, 150))
    p_values = stats.ttest_rel(values[..., 0], values[..., 1], axis=1).pvalue
    assert (p_values < 0.05).mean() == pytest.approx(0.8, abs=0.02)


def test_the_queries_of_the_lead_are_judged_apart_in_beir(spec, store):
    _, manifest = written(spec, store, "restrain", "out", ["beir"], size=12)
    gate = Path("out/gate.txt").read_text().split()
    beir = open_collection("beir:out/beir")
    assert sorted(beir.query_ids("gate")) == gate
    assert len(beir.query_ids("test")) == manifest["n_test"]
    assert not set(beir.query_ids("test")) & set(gate)


def test_given_vectors_leave_dev_unused_and_it_is_said(spec, store, capsys):
    folder = Path(spec.removeprefix("beir:"))
    lines = (folder / "qrels" / "test.tsv").read_text().splitlines()
    (folder / "qrels" / "dev.tsv").write_text("\n".join(lines[:13]) + "\n")
    (folder / "qrels" / "test.tsv").write_text("\n".join([lines[0], *lines[13:]]) + "\n")
    draw = np.random.default_rng(1)
    for name, n in (("train", 48), ("test", 12)):
        np.save(f"{name}.npy", draw.normal(size=(n, 5)))
    given = {"size": 12, "vectors": ["train.npy", "test.npy"], "other_encoder": "lsa"}
    written(spec, store, "restrain", "out", **given)
    assert "not by those of dev, as --vectors may hold none of dev" in capsys.readouterr().err
    _, manifest = written(spec, store, "restrain", "dev", gate_split="dev", **given)
    assert manifest["n_gate"] == 12 and "not by those of dev" not in capsys.readouterr().err
    written(spec, store, "restrain", "lsa", size=12)
    assert "not by those of dev" not in capsys.readouterr().err


def test_a_table_that_somebody_changed_is_refused(spec, store):
    written(spec, store, "restrain", "out", size=12)
    path = Path("out/nearest.csv")
    table = pd.read_csv(path)
    assert list(table) == ["query_id", "train_query_id", "cosine"]
    table.iloc[:3].to_csv(path, index=False)
    with pytest.raises(InputError, match="nearest.csv: was changed or is gone"):
        SplitFolder.open(Path("out"))

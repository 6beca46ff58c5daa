"""The lead of a finished model on near and far test queries: what difficulty does, and exposure."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import interextra as ix
from bench.finished_model import runs, sides
from interextra.cli import main
from interextra.own import finished as own
from interextra.own import finished_sentences as words
from interextra.own.run_files import run_of_hits
from interextra.stats.effects import effects
from interextra.store.errors import InputError


def of_halves(loss, n=400, easier=0.2):
    """A model whose lead over BM25 falls by `loss` on far queries, which are easier for both."""
    draw = np.random.default_rng(2)
    is_near, shared = np.arange(n) % 2 == 0, 0.1 * draw.normal(size=n)
    ids = np.arange(n).astype(str)
    level = {"BM25": 0.4, "model": 0.6 - loss * ~is_near}
    frames = []
    for system, mean in level.items():
        value = mean + easier * ~is_near + shared + 0.02 * draw.normal(size=n)
        frames.append(
            pd.DataFrame({"system": system, "measure": "RR@10", "query_id": ids, "value": value})
        )
    near = pd.DataFrame({"query_id": ids, "is_near": is_near})
    return pd.concat(frames, ignore_index=True), near


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_the_difference_in_differences_takes_out_difficulty(loss):
    values, near = of_halves(loss)
    leads = own.with_leads(values, ["BM25"]).merge(near)
    means = effects(leads, ["system", "measure", "is_near"], n_boot=500)
    found = own.near_and_far(means, loss=0.1).set_index("system")
    model, lead = found.loc["model"], found.loc["model minus BM25"]
    assert model["difference"] == pytest.approx(0.2 - loss, abs=0.03) and model["low"] > 0
    assert lead["low"] < -loss < lead["high"] and abs(lead["difference"] + loss) < 0.01
    assert lead["detects"] < model["detects"] and lead["needed"] < model["needed"]
    assert lead["needed"] == np.ceil(400 * (lead["detects"] / (0.1 * model["near"])) ** 2)
    turned = own.near_and_far(means, 0.1, own.NEAR_MINUS_FAR).set_index("system")
    assert turned.loc["model", "difference"] == -model["difference"]
    assert turned.loc["model", ["low", "high"]].tolist() == [-model["high"], -model["low"]]


N = 240
SIDES = sides(N, n_copies=12)


def compared(systems, **options):
    """What is found of the model, by default against BM25 and the control."""
    rivals = {name: run for name, run in systems.items() if name != "model"}
    options = {"control": "control", "n_boot": 400} | options
    return own.finished(*SIDES, {"model": systems["model"]}, rivals, **options)


def test_exposure_is_found_and_copies_stand_apart():
    systems = runs(1, harder=0.0, gain=1.5, n=N)
    found = compared(systems)
    counts = found.queries["queries"].value_counts()
    assert counts[words.COPIES] == 12 and found.queries["is_exact"].sum() == 12
    assert abs(counts[words.NEAR_HALF] - counts[own.FAR_HALF]) <= 1
    halves = found.queries[found.queries["queries"] != words.COPIES]
    is_near = halves["queries"] == words.NEAR_HALF
    planted = halves["query_id"].str[1:].astype(int) % 2 == 0
    assert (is_near == planted).mean() > 0.95
    first = found.differences.iloc[0]
    assert first["rival"] == "control" and first["is_control"]
    lead = halves["nDCG@10 model"] - halves["nDCG@10 control"]
    assert first["near"] == pytest.approx(lead[is_near].mean())
    assert first["difference"] == pytest.approx(lead[is_near].mean() - lead[~is_near].mean())
    assert first["low"] > 0 and first["p_value"] < 0.01 and first["verdict"] == words.LARGER
    assert found.sentences[0].startswith("The lead of model over control in nDCG@10 is larger")
    assert "part of it may be interpolation" in found.sentences[0]
    assert found.sentences[-1].startswith("What cannot be said")
    [copies] = [line for line in found.sentences if "12 of them copies" in line]
    assert copies.startswith("12 of 240 test queries")


def test_difficulty_alone_shows_nothing():
    """Near queries are harder, for BM25 more so: the plain difference in differences errs."""
    plain, shown = [], []
    for seed in range(12):
        systems = runs(seed, harder=1.5, slopes=(0.4, 1.2), n=N)
        found = compared(systems, n_boot=100).differences
        of_model = found[found["system"] == "model"].set_index("rival")
        plain.append(of_model.loc["BM25", "low"] > 0)
        shown += of_model["verdict"].eq(words.LARGER).tolist()
    assert sum(plain) >= 5 and sum(shown) <= 2


def test_the_limits_of_other_difficulty_are_those_of_weighted_rivals():
    """By brute force: the model minus nothing, once and twice the rival."""
    found = compared(runs(3, harder=0.5, gain=0.5, n=N), control="")
    row = found.differences.set_index("rival").loc["BM25"]
    halves = found.queries[found.queries["queries"] != words.COPIES]
    tidy = halves.assign(measure="m", is_near=halves["queries"] == words.NEAR_HALF)
    ends = []
    for weight in (0, 1, 2):
        values = tidy.assign(value=tidy["nDCG@10 model"] - weight * tidy["nDCG@10 BM25"])
        means = effects(values, ["measure", "is_near"], seed=1, n_boot=400)
        [contrast] = means.contrast("is_near", [(True, False)]).itertuples()
        ends += [contrast.low, contrast.high]
    assert (row["lowest"], row["highest"]) == pytest.approx((min(ends), max(ends)))
    assert row["lowest"] <= row["low"] and row["high"] <= row["highest"]


def test_each_verdict_has_its_sentence():
    row = {"system": "M", "rival": "R", "measure": "RR", "difference": 0.1, "low": 0.05}
    row |= {"high": 0.15, "lowest": 0.02, "highest": 0.2, "own_near": 0.5, "is_control": False}
    row |= {"detects": 0.07, "rival_difference": 0.03, "near": 0.3, "far": 0.2}
    cases = {
        words.LARGER: {},
        words.SMALLER: {"difference": -0.1, "low": -0.15, "high": -0.05, "lowest": -0.2}
        | {"highest": -0.01},
        words.DIFFICULTY: {"lowest": -0.01},
        words.NO_DIFFERENCE: {"difference": 0.0, "low": -0.01, "high": 0.01, "lowest": -0.02}
        | {"highest": 0.02},
        words.UNDECIDED: {"difference": 0.0, "low": -0.1, "high": 0.1, "lowest": -0.2},
    }
    parts = [
        "is larger on near",
        "is smaller on near",
        "not at all or up to twice",
        "above 2.0 points",
    ]
    parts.append("7.0 points would be found")
    for (verdict, change), part in zip(cases.items(), parts, strict=True):
        [told] = pd.DataFrame([row | change]).itertuples(index=False)
        assert words.verdict(told, margin=0.05) == verdict
        assert part in words._answer(with_verdict(told, verdict))
        behind = told._replace(near=-0.1, far=-0.2)
        sentence = words._answer(with_verdict(behind, verdict))
        assert "M trails R" in sentence and "larger" not in sentence
        is_difference_told = verdict in (*words.MEANINGS, words.DIFFICULTY)
        amount = "more" if verdict == words.SMALLER else "less"
        assert (f", by {amount} on near queries" in sentence) == is_difference_told
    [told] = pd.DataFrame([row | {"lowest": -0.5, "is_control": True}]).itertuples()
    assert words.verdict(told, margin=0.05) == words.LARGER


def with_verdict(row, verdict):
    """The row with its verdict."""
    [changed] = pd.DataFrame([row._asdict() | {"verdict": verdict}]).itertuples(index=False)
    return changed


def test_what_cannot_be_compared_is_refused():
    train, test = SIDES
    systems = runs(1, harder=0.0, n=N)
    model, rivals = {"model": systems["model"]}, {"BM25": systems["BM25"]}
    with pytest.raises(InputError, match="is none of the rivals"):
        own.finished(train, test, model, rivals, "control")
    with pytest.raises(InputError, match="judgements by doc_id"):
        own.finished(train, test._replace(qrels=None), model, rivals)
    with pytest.raises(InputError, match="BM25 can search"):
        own.finished(train, test, model)
    with pytest.raises(InputError, match="no copies of training"):
        own.finished(test, test, model, rivals)
    other = run_of_hits({query_id: {"elsewhere": 1.0} for query_id in test.queries["query_id"]})
    with pytest.raises(InputError, match="nothing relevant for any of 240"):
        own.finished(train, test, {"other": other}, rivals)
    with pytest.raises(InputError, match="lower is better"):
        own.finished(train, test, model, rivals, measure="ASL@10")


def test_few_queries_and_missing_hits_are_said():
    systems = runs(1, harder=0.0, n=N)
    hits = {f"q{number}": {f"d{number}": 1.0} for number in range(200)}
    found = compared({"model": run_of_hits(hits), "BM25": systems["BM25"]}, control="")
    assert any(line.startswith("model: 40 of 240 test queries without") for line in found.sentences)
    assert any(line.startswith("Few queries: 228 find") for line in found.sentences)
    assert "give it as control" in found.sentences[-1]


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The world and its runs as files of the folder."""
    monkeypatch.chdir(tmp_path)
    for side in SIDES:
        rows = side.queries.itertuples(index=False)
        Path(f"{side.name}.tsv").write_text("".join(f"{one[0]}\t{one[1]}\n" for one in rows))
    judged = SIDES[1].qrels.itertuples(index=False)
    Path("test.qrels").write_text("".join(f"{one[0]} 0 {one[1]} 1\n" for one in judged))
    for name, run in runs(1, harder=0.0, gain=1.5, n=N).items():
        run.write_trec(Path(f"{name}.run"))


def test_the_command_writes_and_prints_what_the_function_finds(files, capsys):
    asked = ["finished", "--train", "train.tsv", "--test", "test.tsv,test.qrels"]
    asked += ["--runs", "model.run", "--control", "control.run", "--rivals", "BM25.run"]
    asked += ["--n-boot", "400", "--out", "found"]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    expected = compared(runs(1, harder=0.0, gain=1.5, n=N))
    assert printed.splitlines()[: len(expected.sentences)] == expected.sentences
    table = pd.read_csv("found/finished.csv")
    assert table["rival"].tolist() == ["control", "BM25", "BM25"]
    assert np.allclose(table["difference"], expected.differences["difference"], atol=1e-5)
    page = Path("found/finished.html").read_text()
    assert "<svg" in page and expected.sentences[0] in page and f"{words.COPIES} (12)" in page
    assert len(pd.read_csv("found/queries.csv")) == 240
    assert main([*asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["sentences"] == expected.sentences and len(told["files"]) == 4
    assert {row["verdict"] for row in told["differences"]} <= {
        words.LARGER,
        words.SMALLER,
        words.NO_DIFFERENCE,
        words.DIFFICULTY,
        words.UNDECIDED,
    }
    again = [*asked, "--rivals", "found/model.run"]
    Path("found/model.run").write_text(Path("model.run").read_text())
    assert main(again) == 2 and "another file has the name model" in capsys.readouterr().err


def test_it_stands_at_the_front_door():
    assert ix.finished is own.finished


def test_a_model_blind_to_nearness_is_no_interpolator_where_bm25_finds_near_queries_hard():
    """Difficulty acts on BM25 alone: its fall on near queries is no lead of the model."""
    shown = []
    plain = []
    for seed in range(10):
        systems = runs(seed, harder=0.8, slopes=(0.0, 1.2), n=N)
        found = compared(systems, control="")
        row = found.differences.set_index("rival").loc["BM25"]
        plain.append(row["low"] > 0)
        shown.append(row["verdict"] == words.LARGER)
    assert sum(plain) >= 5 and sum(shown) <= 1

"""The first sentence of a report answers, and says no more than its interval does."""

import html
import re
from datetime import date

import numpy as np
import pandas as pd
import pytest
from toy_own import written

from interextra import __version__
from interextra.claims import judgement
from interextra.own import regimes, sentences
from interextra.own.seen import VERDICT, Given, Seen
from interextra.own.split_folder import SplitFolder
from interextra.own.values import MODEL
from interextra.splits.split import REGIMES

CHANGE = "the model from interpolation to extrapolation"


def loss(estimate, low, high, reason="", n_trainings=2):
    row = {"estimate": estimate, "low": low, "high": high, "reason": reason}
    return sentences.loss_sentence(row | {"n_trainings": n_trainings}, 0.05)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            (-0.012, -0.041, 0.017, "queries", 1),
            "No loss above 5 % (the model from interpolation to extrapolation: -1.2 %, "
            "95 % CI -4.1 to +1.7; one training run).",
        ),
        (
            (-0.116, -0.198, -0.034),
            "A loss (the model from interpolation to extrapolation: -11.6 %, 95 % CI "
            "-19.8 to -3.4; 2 training runs).",
        ),
        (
            (-0.116, -0.178, -0.054),
            "A loss above 5 % (the model from interpolation to extrapolation: -11.6 %, "
            "95 % CI -17.8 to -5.4; 2 training runs).",
        ),
        (
            (-0.021, -0.034, -0.008),
            "A loss, below 5 % (the model from interpolation to extrapolation: -2.1 %, "
            "95 % CI -3.4 to -0.8; 2 training runs).",
        ),
        (
            (0.118, 0.056, 0.187, "", 1),
            "No loss: effectiveness is higher in extrapolation (the model from "
            "interpolation to extrapolation: +11.8 %, 95 % CI +5.6 to +18.7; one training run).",
        ),
        (
            (-0.04, -0.142, 0.062, "queries"),
            "Undecided: more queries would show or exclude a loss above 5 % (the model "
            "from interpolation to extrapolation: -4.0 %, 95 % CI -14.2 to +6.2; 2 training runs).",
        ),
        (
            (-0.04, -0.142, 0.062, "trainings"),
            "Undecided: more training runs would show or exclude a loss above 5 % (the model "
            "from interpolation to extrapolation: -4.0 %, 95 % CI -14.2 to +6.2; 2 training "
            "runs).",
        ),
        (
            (-0.116, -0.198, -0.034, judgement.GATE),
            "Undecided, as the model is not shown to beat BM25 in domain (the model "
            "from interpolation to extrapolation: -11.6 %, 95 % CI -19.8 to -3.4; 2 training "
            "runs).",
        ),
        (
            (-0.2, np.nan, np.nan, judgement.NO_VARIATION),
            "Undecided, as all queries differ by the same (the model from interpolation "
            "to extrapolation: -20.0 %, no interval; 2 training runs).",
        ),
        (
            (-0.01, -0.02, 0.0, sentences.SEEN),
            "Undecided, as the model as given has seen the training queries (the model "
            "from interpolation to extrapolation: -1.0 %, 95 % CI -2.0 to +0.0; 2 training runs).",
        ),
        (
            (np.nan, np.nan, np.nan),
            "Undecided, as the change is undefined (the model from interpolation to "
            "extrapolation: undefined, no interval; 2 training runs).",
        ),
    ],
)
def test_the_answer_is_what_its_interval_says(row, sentence):
    assert loss(*row) == sentence


def test_no_sentence_says_that_a_gain_falls():
    for estimate in np.linspace(-0.3, 0.3, 25):
        for width in (0.01, 0.06, 0.2):
            sentence = loss(estimate, estimate - width, estimate + width, "queries")
            answer = sentence.partition("(")[0]
            if estimate - width > 0:
                assert answer.startswith("No loss: effectiveness is higher")
            assert answer.startswith("A loss") == (estimate + width < 0)
            assert answer.startswith("No loss above") == (
                estimate - width > -0.05 and estimate - width <= 0 <= estimate + width
            )


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            (0.081, 0.052, 0.11),
            "In domain, the model leads BM25 by +8.1 points RR@10 (95 % CI +5.2 to +11.0), on 90 "
            "queries of the split dev, which measure no loss.",
        ),
        (
            (0.004, -0.02, 0.028),
            "In domain, a lead over BM25 is not shown: +0.4 points RR@10 (95 % CI -2.0 to +2.8), "
            "on 90 queries of the split dev, which measure no loss.",
        ),
        (
            (-0.031, -0.052, -0.01),
            "In domain, the model is below BM25: -3.1 points RR@10 (95 % CI -5.2 to -1.0), on 90 "
            "queries of the split dev, which measure no loss.",
        ),
    ],
)
def test_the_lead_is_shown_or_not(row, sentence):
    claim = dict(zip(("estimate", "low", "high"), row, strict=True), n_queries=90)
    assert sentences.lead_sentence(claim, "RR@10", "queries of the split dev") == sentence


def measured(folder, change, seed=1):
    """Values of two trainings, .2 above the baseline in domain, and `change` out of domain."""
    draw = np.random.default_rng(seed)
    ids = folder.queries["query_id"]
    of_query = pd.Series(0.5 + 0.1 * draw.normal(size=len(ids)), ids)
    rows = []
    for regime in REGIMES:
        for training in ("1", "2"):
            level = 1.4 * (1 + change * (regime == REGIMES[1])) * of_query
            values = level + 0.01 * draw.normal(size=len(ids))
            rows.append(
                pd.DataFrame(
                    {"query_id": ids, "value": values.to_numpy(), "seed": training}
                ).assign(regime=regime, trained=f"{regime} {training}")
            )
    values = pd.concat(rows, ignore_index=True).assign(measure="RR@10", model=MODEL)
    baseline = pd.DataFrame({"query_id": ids, "value": of_query.to_numpy()})
    return values, baseline.assign(measure="RR@10")


def reported(folder, change, given=None):
    values, baseline = measured(folder, change)
    nearest = regimes.nearest_training_queries(folder)
    return regimes.report(folder, values, baseline, nearest, 0.05, 1, 400, given)


@pytest.fixture
def folder(spec, store, house):
    written(spec, store, "restrain", "out", size=12, other_encoder="tf-idf")
    return SplitFolder.open(house / "out")


@pytest.mark.parametrize(
    ("change", "start", "verdict"),
    [
        (-0.3, f"A loss above 5 % ({CHANGE}: -", "holds"),
        (-0.03, f"A loss, below 5 % ({CHANGE}: -", "holds"),
        (0.0, f"No loss above 5 % ({CHANGE}: ", "undecided"),
        (0.3, f"No loss: effectiveness is higher in extrapolation ({CHANGE}: +", "contradicted"),
    ],
)
def test_the_sentence_has_the_interval_of_the_table(folder, change, start, verdict):
    found = reported(folder, change)
    assert found.sentences[0].startswith(start)
    claim = found.claims.set_index("claim").loc["loss"]
    row = found.changes.iloc[0]
    assert claim["verdict"] == verdict
    ends = ["low", "high"]
    assert claim[ends].tolist() == pytest.approx(row[ends].tolist(), rel=1e-12)
    assert claim["resolution"] == pytest.approx(row["detects"], rel=1e-9)
    interval = f"95 % CI {100 * row['low']:+.1f} to {100 * row['high']:+.1f}"
    assert interval in found.sentences[0]
    numbers = f"RR@10 is {row['interpolation']:.3f} in interpolation and"
    assert found.sentences[1].startswith(numbers) and "(ReSTrain, 19 test" in found.sentences[1]
    is_bm25 = found.systems["system"] == "BM25"
    bm25 = found.systems.loc[is_bm25, "mean"].item()
    assert f"in extrapolation, that of BM25 {bm25:.3f} in both (" in found.sentences[1]
    assert found.sentences[2].startswith("In domain, the model leads BM25 by +")
    assert "on 5 test queries held out for it" in found.sentences[2]
    page = regimes.page(found)
    assert page.count('class="answer"') == 1 and "simultaneous" not in page
    assert page.index(found.sentences[0].partition("(")[0]) < page.index("<svg")


def test_the_page_says_what_was_measured_and_has_no_title_of_what_is_not_there(folder):
    found = reported(folder, 0)
    page = regimes.page(found._replace(about=found.about | {"runs": "<a>.1"}))
    facts = dict(re.findall(r"<tr><th>([\w ]+)</th><td>(.*?)</td></tr>", page))
    assert facts["collection"].startswith("beir:") and facts["baseline"] == "BM25"
    assert facts["training sets"].count("(12 queries)") == 2 and facts["runs"] == "&lt;a&gt;.1"
    assert facts["test queries"] == "19, and 5 for the lead"
    assert facts["date"] == f"{date.today()}" and facts["version"] == f"interextra {__version__}"
    assert set(found.about["runs"].split(", ")) == {
        f"{regime}-12.{seed}" for regime in REGIMES for seed in (1, 2)
    }
    for of_random in folder.distances["random"]:
        assert f"{of_random:.3f} [" in page
    assert "n_queries" not in page and "n_train" not in page
    assert "<h2>All systems</h2>" in page and "Before and after" not in page
    tables = page.count("<table")
    assert tables - page.count('<div class="wide') == 1  # that of the facts, whose lines break


def test_queries_without_a_hit_stand_on_the_page(folder):
    values, baseline = measured(folder, 0)
    nearest = regimes.nearest_training_queries(folder)
    assert not any("without a hit" in line for line in reported(folder, 0).sentences)
    is_first = values["trained"] == values["trained"].iloc[0]
    is_query = values["query_id"] == values["query_id"].iloc[0]
    some = values.assign(is_empty=is_first & is_query)
    none = baseline.assign(is_empty=True)
    found = regimes.report(folder, some, none, nearest, 0.05, 1, 400)
    [told] = [line for line in found.sentences if "without a hit" in line]
    run, query_id = values[["trained", "query_id"]].iloc[0]
    n_queries = values["query_id"].nunique()
    assert f": {run} for 1 of {n_queries} ('{query_id}'); the baseline for {n_queries} of" in told
    assert html.escape(told) in regimes.page(found)


def test_a_lead_pairs_each_query_with_itself(folder):
    """The lead of nearly equal values is nearly certain, however they vary over queries."""
    values, baseline = measured(folder, 0)
    same = values[["query_id", "measure", "value"]].groupby(["query_id", "measure"]).mean()
    nearest = regimes.nearest_training_queries(folder)
    equal = values.drop(columns="value").merge(same.reset_index(), on=["query_id", "measure"])
    noise = np.random.default_rng(3).normal(scale=0.001, size=len(same))
    rival = same.reset_index()
    rival["value"] += noise - 0.1
    found = regimes.report(folder, equal, rival, nearest, 0.05, 1, 400)
    assert found.leads["regime"].tolist() == list(REGIMES)
    for row in found.leads.itertuples():
        assert 0.099 < row.low < row.lead < row.high < 0.101 and row.n_queries == 19
    assert "<h2>Lead over the baseline</h2>" in regimes.page(found)
    assert re.search(r"\+(9\.9|10\.\d) points \[\+", regimes.page(found))


def test_a_change_that_rounds_to_nothing_has_no_sign(folder):
    found = reported(folder, 0)
    small = found.changes.assign(change=-0.0002, low=-0.0003, high=0.0001)
    assert ">0.0 % [-0.0, +0.0]<" in regimes.page(found._replace(changes=small))
    assert "extrapolation: 0.0 %, 95 % CI -0.3 to +0.2;" in loss(-0.0004, -0.003, 0.002)


def test_what_the_model_has_seen_comes_first(folder):
    values, _ = measured(folder, 0)
    is_first = values["trained"] == values["trained"].iloc[0]
    given = Given(
        values.loc[is_first, ["query_id", "measure", "value"]],
        Seen(0.2, 0.1, 0.3, 0.001, 0.05, n_training=48, n_held_out=24),
    )
    found = reported(folder, -0.3, given)
    assert found.sentences[0].startswith(VERDICT)
    assert found.sentences[1].startswith(
        f"Undecided, as the model as given has seen the training queries ({CHANGE}: -"
    )
    assert found.claims.set_index("claim").loc["loss", "verdict"] == "undecided"
    assert "<h2>Before and after fine-tuning</h2>" in regimes.page(found)
    assert regimes.page(found).index(VERDICT) < regimes.page(found).index("Undecided")

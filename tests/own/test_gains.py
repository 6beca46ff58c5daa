"""What fine-tuning gains, how much of it is kept, and what of a loss a program is told."""

import re
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from test_regimes_sentences import loss, measured, reported
from toy_own import written

from interextra.cli import main
from interextra.own import api, commands, regimes, sentences
from interextra.own.results import RegimesResult
from interextra.own.seen import NOT_TESTED, Given, Seen
from interextra.own.split_folder import SplitFolder

NOT_SHOWN = Seen(0.01, -0.1, 0.1, 0.4, 0.2, n_training=48, n_held_out=24)


@pytest.fixture
def folder(spec, store, house):
    written(spec, store, "restrain", "out", size=12, other_encoder="tf-idf")
    return SplitFolder.open(house / "out")


def before(values, share, seed=7):
    """Values of a model whose gain is `share` of the fine-tuned values in interpolation."""
    of_query = values.loc[values["regime"] == "interpolation"].groupby("query_id")["value"].mean()
    noise = np.random.default_rng(seed).normal(scale=0.002, size=len(of_query))
    given = pd.DataFrame({"query_id": of_query.index, "value": of_query * (1 - share) + noise})
    return given.assign(measure="RR@10").reset_index(drop=True)


def with_given(folder, change, share, seen=NOT_SHOWN):
    values, _ = measured(folder, change)
    return reported(folder, change, Given(before(values, share), seen))


def test_the_second_sentence_says_what_fine_tuning_gains_and_keeps(folder):
    found = with_given(folder, -0.1, 0.5)
    means = found.changes.iloc[0]
    given = found.systems.set_index("system").loc["model as given", "mean"]
    gains = found.gains.gains.set_index("regime")
    for regime in ("interpolation", "extrapolation"):
        assert gains.loc[regime, "gain"] == pytest.approx(means[regime] - given)
        assert gains.loc[regime, "low"] < gains.loc[regime, "gain"] < gains.loc[regime, "high"]
    [kept] = found.gains.kept.to_dict("records")
    assert kept["share"] == pytest.approx(0.8, abs=0.03)
    assert kept["low"] < kept["share"] < kept["high"] < 1
    told = found.sentences[1]
    first = f"{100 * gains.loc['extrapolation', 'gain']:+.1f} points RR@10, 95 % CI +"
    assert told.startswith(f"Fine-tuning gains in extrapolation ({first}")
    percents = [f"{100 * kept[name]:.0f}" for name in ("share", "low", "high")]
    share, low, high = percents
    assert f": {share} % of the gain is kept in extrapolation (95 % CI {low} to {high})." in told
    assert found.sentences[2].startswith("RR@10 is ")
    assert told.partition(" (")[0] in regimes.page(found)


def test_a_gain_is_paired_with_the_draws_of_the_loss(folder):
    """Queries vary by .1 of 1.4, a gain that is half of their values by half of that."""
    found = with_given(folder, -0.1, 0.01)
    gains = found.gains.gains
    means = found.systems.set_index("system")
    width_of_mean = means["high"] - means["low"]
    width_of_gain = (gains["high"] - gains["low"]).max()
    assert width_of_gain < width_of_mean["model as given"] / 2


@pytest.mark.parametrize("share", [0.0, -0.3])
def test_no_share_is_told_of_a_gain_that_is_not_shown(folder, share):
    found = with_given(folder, -0.1, share)
    assert found.gains.kept[["share", "low", "high"]].isna().all(axis=None)
    assert "kept" not in " ".join(found.sentences)
    verb = "is not shown to gain in" if share == 0 else "loses in extrapolation"
    assert verb in found.sentences[1]


def test_a_model_that_has_seen_the_queries_gains_nothing_that_is_told(folder):
    seen = NOT_SHOWN._replace(p_value=0.001)
    found = with_given(folder, -0.3, 0.5, seen)
    assert not any(sentence.startswith("Fine-tuning") for sentence in found.sentences)
    assert found.answer_code == sentences.UNDECIDED


def test_without_the_model_before_there_is_no_gain(folder):
    found = reported(folder, -0.3)
    assert found.gains.gains.empty and found.sentences[1].startswith("RR@10 is ")
    assert found.sentences[-1].startswith(NOT_TESTED)
    names = {path.name for path in regimes.write(Path("without"), found).files}
    assert not names & {"gains.csv", "kept.csv"}
    found = with_given(folder, -0.1, 0.5)
    names = {path.name for path in regimes.write(Path("with"), found).files}
    assert names >= {"gains.csv", "kept.csv"}


@pytest.mark.parametrize(
    ("low", "high", "code", "answer"),
    [
        (-0.2, -0.06, "loss above margin", "A loss above 5 % ("),
        (-0.2, -0.01, "loss", "A loss ("),
        (-0.04, -0.01, "loss below margin", "A loss, below 5 % ("),
        (-0.04, 0.2, "no loss above margin", "No loss above 5 % ("),
        (0.01, 0.2, "no loss", "No loss: effectiveness is higher"),
        (-0.06, 0.2, "undecided", "Undecided: more queries"),
        (np.nan, np.nan, "undecided", "Undecided, as"),
    ],
)
def test_a_program_is_told_what_the_sentence_says(low, high, code, answer):
    row = {"low": low, "high": high, "reason": "queries"}
    assert sentences.answer_code(row, 0.05) == code
    assert code in sentences.ANSWER_CODES
    assert loss(0.0, low, high, "queries").startswith(answer)
    gated = row | {"reason": sentences.SEEN}
    assert sentences.answer_code(gated, 0.05) == "undecided"


def test_the_page_for_scripts_lists_the_codes(root):
    page = (root / "book" / "agents.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| `answer_code` |")]
    assert set(re.findall("`(.+?)`", row)) == {"answer_code", *sentences.ANSWER_CODES}
    assert f"\n| {commands.FORBIDDEN} | `--fail-above`" in page


@pytest.mark.parametrize(
    ("change", "margin", "is_asked", "code"),
    [(-0.3, 0.05, True, 3), (-0.3, 0.05, False, 0), (-0.3, 0.9, True, 0), (0.0, 0.05, True, 0)],
)
def test_only_a_loss_that_is_shown_is_forbidden(
    folder,
    monkeypatch,
    capsys,
    change,
    margin,
    is_asked,
    code,
):
    values, baseline = measured(folder, change)
    nearest = regimes.nearest_training_queries(folder)
    found = regimes.report(folder, values, baseline, nearest, margin, 1, 400)
    monkeypatch.setattr(api, "regimes", lambda *runs, **options: RegimesResult(*found))
    asked = ["regimes", "--split", "out", "--runs", "{part}.run", "--baseline", "b.run"]
    asked += ["--margin", f"{margin}"] + ["--fail-above"] * is_asked
    assert main(asked) == code
    error = capsys.readouterr().err
    assert (f"--fail-above: a loss above {100 * margin:g} % is shown" in error) == (code == 3)


@pytest.mark.parametrize("is_undecided", [True, False])
def test_what_is_undecided_is_not_forbidden(folder, is_undecided):
    found = reported(folder, -0.3)
    if is_undecided:
        found = found._replace(answer_code=sentences.UNDECIDED)
    asked = Namespace(fail_above=True, margin=0.05)
    assert commands._gated(found, asked) == (0 if is_undecided else commands.FORBIDDEN)


def test_an_audit_fails_above_a_share(spec, capsys):
    sides = ["--train", f"{spec}@train", "--test", f"{spec}@test"]
    assert main(["audit", *sides]) == 0
    assert main(["audit", *sides, "--fail-above", "0"]) == 0  # all are clean
    same = ["--train", f"{spec}@test", "--test", f"{spec}@test"]
    assert main(["audit", *same]) == 0 and main(["audit", *same, "--fail-above", "1"]) == 0
    capsys.readouterr()
    assert main(["audit", *same, "--fail-above", "0.99"]) == 3
    out, error = capsys.readouterr()
    assert "--fail-above 0.99: 24 of 24 test queries (100.0 %) are not clean" in error
    assert out  # the report is complete
    assert main(["audit", *same, "--fail-above", "1.5"]) == 2


def test_power_is_told_for_both_questions(folder):
    found = reported(folder, -0.3)
    detects = 100 * found.changes["detects"].iloc[0]
    told = (
        f"with 80 % power, a change of {detects:.1f} % would be found to differ from 0, and a loss "
        f"of {detects + 5:.1f} % to be above 5 %."
    )
    assert found.sentences[1].endswith(told)


def test_the_halves_are_compared_in_one_line(folder):
    found = reported(folder, -0.3)
    change = found.changes.set_index("queries")["change"]
    points = 100 * (change["near half"] - change["far half"])
    [told] = [line for line in found.sentences if line.startswith("Near minus far half")]
    assert f"of the test queries: {points:+.1f} percentage points (95 % CI " in told
    assert "more to lose" in told


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (-0.2, -0.01, "the near half loses more"),
        (0.01, 0.2, "the far half loses more"),
        (-0.1, 0.1, "a difference is not shown"),
    ],
)
def test_what_the_halves_differ_by_is_what_the_interval_says(low, high, answer):
    row = {"difference": (low + high) / 2, "low": low, "high": high}
    assert f"), {answer}. " in sentences.halves_sentence(row)


def test_means_share_the_noise_of_training_of_both_regimes(folder):
    """Two trainings of one regime that differ widen both means alike, as they do a lead."""
    values, baseline = measured(folder, -0.1)
    is_moved = values["trained"] == "interpolation 2"
    moved = values.assign(value=values["value"] + 0.2 * is_moved)
    nearest = regimes.nearest_training_queries(folder)
    found = regimes.report(folder, moved, baseline, nearest, 0.05, 1, 2000)
    systems = found.systems.set_index("system")
    width = systems["high"] - systems["low"]
    assert width["fine-tuned, interpolation"] < 1.5 * width["fine-tuned, extrapolation"]
    leads = found.leads.set_index("regime")
    width_of_lead = (leads["high"] - leads["low"])["interpolation"]
    assert width_of_lead == pytest.approx(width["fine-tuned, interpolation"], rel=0.25)
    assert regimes.WIDTHS in regimes.page(found)
    assert regimes.WIDTHS in str(RegimesResult(*found))


def test_both_leads_are_told_apart(folder):
    found = reported(folder, -0.1)
    assert "the lead in the sentences is of other queries" in regimes.lead_title(found)
    without = found._replace(claims=found.claims[found.claims["claim"] == "loss"])
    assert "other queries" not in regimes.lead_title(without)

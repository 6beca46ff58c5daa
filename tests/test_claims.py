"""What may be judged, and the verdicts of a notebook: they hold together."""

import ast
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy import stats

from interextra.ground.effects import effects
from interextra.papers import claims
from interextra.papers.claims import across, gate, judged, verdict

RANDOM = np.random.default_rng(3)


def table(levels):
    """Effects of systems whose values in domain lie `levels` above those of BM25."""
    base, parts = RANDOM.random(80), []
    for model, level in {"BM25": 0.0, **levels}.items():
        for side in ("in", "out"):
            ids = [f"q{row}" for row in range(80)]
            noise = RANDOM.normal(scale=0.01, size=80)
            values = {"model": model, "side": side, "query_id": ids, "value": base + level + noise, "kind": "a"}
            parts.append(pd.DataFrame(values))
    return effects(pd.concat(parts), ["kind", "model"], "side", ("in", "out"), "loss", family=[], n_boot=400)


def test_only_systems_surely_above_bm25_pass_the_gate():
    made = table({"better": 0.1, "alike": 0.0, "worse": -0.1})
    assert dict(zip(made["model"], gate(made), strict=True)) == {
        "BM25": True,
        "better": True,
        "alike": False,
        "worse": False,
    }


def test_gate_follows_the_index_of_the_rows():
    made = table({"better": 0.1, "worse": -0.1})
    some = made[made["model"] != "better"]
    assert gate(some).index.tolist() == some.index.tolist() and gate(some).tolist() == [True, False]


def said(estimate, n=1000, kind="below", scale=0.1, **more):
    drawn = estimate + np.random.default_rng(abs(int(estimate * 1e6))).normal(scale=scale, size=n)
    return {"finding": "x", "estimate": estimate, "draws": drawn, "kind": kind} | more


def test_one_finding_alone_holds_and_among_twenty_it_does_not():
    assert judged([said(-0.22)])["verdict"].tolist() == ["holds"]
    many = judged([said(-0.22), *(said(0.001 * at) for at in range(1, 20))])
    assert many["verdict"][0] == "not shown" and many["high"][0] > 0


def test_finding_behind_a_closed_gate_is_not_comparable_and_costs_the_others_nothing():
    alone, both = judged([said(-0.22)]), judged([said(-0.22), *[said(0.5, gate=False)] * 30])
    assert both["verdict"].tolist() == ["holds"] + ["not comparable"] * 30
    assert both["high"][0] == alone["high"][0]


def test_labels_stand_before_and_draws_do_not_stand_in_the_table():
    made = judged([said(-0.5, shift="a", margin=0.1)])
    assert (
        list(made) == ["shift", "finding", "estimate", "low", "high", "verdict", "kind", "margin", "effects"]
        and made["shift"][0] == "a"
    )
    assert list(judged([])) == ["finding", "estimate", "low", "high", "verdict", "kind", "margin", "effects"]


def test_several_effects_of_one_finding_are_members_of_the_family_and_the_worst_counts():
    """The smallest of several differences that are all 0 must not be called below 0 more often than one is."""
    random, contradicted = np.random.default_rng(4), 0
    for _ in range(400):
        estimates = random.normal(size=4)
        drawn = estimates[:, None] + random.normal(size=(4, 300))
        [made] = judged([{"finding": "x", "estimate": estimates, "draws": drawn, "kind": "above"}]).to_dict("records")
        assert made["estimate"] == estimates.min() and made["effects"] == 4
        contradicted += made["verdict"] == "contradicted"
    assert contradicted < 0.05 * 400
    sure = judged([{"finding": "x", "estimate": [0.5, 0.9], "draws": np.full((2, 9), [[0.5], [0.9]]), "kind": "above"}])
    assert sure.loc[0, ["low", "high", "verdict"]].tolist() == [0.5, 0.5, "holds"]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_undefined_estimate_or_draw_gives_no_verdict_and_leaves_the_others(bad):
    """A side whose mean is 0, in the data or in a single draw, divides by 0."""
    broken, whole = said(-0.5), said(-0.5)
    broken["draws"][0] = bad
    found = judged([broken, whole | {"estimate": bad}, whole])
    assert found["verdict"].tolist() == ["undefined", "undefined", "holds"]


@pytest.mark.parametrize(
    ("kind", "low", "high", "expected"),
    [
        ("below", -2, -1, "holds"),
        ("below", 1, 2, "contradicted"),
        ("below", -1, 1, "not shown"),
        ("above", 1, 2, "holds"),
        ("above", -2, -1, "contradicted"),
        ("kept", -0.04, 0.4, "holds"),
        ("kept", -0.2, -0.1, "contradicted"),
        ("kept", -0.2, 0.04, "not shown"),
        ("kept", np.nan, 1, "undefined"),
    ],
)
def test_verdict_of_an_interval(kind, low, high, expected):
    assert verdict(kind, low, high, 0.05) == expected


BY_PAPER = yaml.safe_load(Path(claims.__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
STATED = {name: claim for stated in BY_PAPER.values() for name, claim in stated.items()}


def arithmetic(text):
    """The value of a sum of printed numbers."""
    allowed = ast.Expression, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Constant
    tree = ast.parse(str(text), mode="eval")
    assert all(isinstance(node, allowed) for node in ast.walk(tree)), text
    return eval(compile(tree, "published", "eval"), {"__builtins__": {}})


@pytest.mark.parametrize("name", STATED)
def test_a_claim_is_stated_before_it_is_answered(root, name):
    """Its margin is at most half of what the paper prints, and what is printed follows from the means named."""
    claim = STATED[name]
    fields = {"notebook", "sentence", "asks", "rows", "measure", "margin", "known"}
    assert fields <= claim.keys() <= fields | {"place", "side", "published", "gate", "secondary"}
    assert (root / "notebooks" / f"{claim['notebook']}.ipynb").is_file() and len(claim["sentence"].split()) < 25
    assert claim["asks"] in ("below", "above", "equal") and claim["margin"] > 0
    if isinstance(published := claim.get("published", "none"), dict):
        value = arithmetic(published["from"])
        assert published["value"] == pytest.approx(value, abs=6e-4)
        if claim["asks"] == "equal":
            assert abs(value) <= claim["margin"]
        else:
            assert claim["margin"] <= abs(value) / 2 and (value > 0) == (claim["asks"] == "above")


def test_a_notebook_has_two_to_six_claims_that_get_a_verdict():
    counts = Counter(claim["notebook"] for claim in STATED.values() if not claim.get("secondary"))
    assert len(counts) == 9 and set(counts.values()) <= {2, 3, 4, 5, 6}, counts


def test_interval_over_units_is_student_s():
    table = pd.DataFrame({"world": [1, 1, 2, 3], "model": "a", "loss": [0.1, 0.3, 0.4, 0.6]})
    row = across(table, "world", ["model"], "loss").iloc[0]
    theirs = stats.t.interval(0.95, 2, np.mean([0.2, 0.4, 0.6]), stats.sem([0.2, 0.4, 0.6]))
    assert (row["low"], row["high"]) == pytest.approx(theirs) and row["n"] == 3
    assert np.isnan(across(table[table["world"] == 1], "world", ["model"], "loss")["low"]).all()

"""Claims are answered from the rows that they name, and judged by intervals over queries and
trainings, or worlds.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
import yaml
from pydantic import ValidationError
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from interextra.claims import judgement, wording
from interextra.claims.claim import NEARNESS, Claim, answered, of_notebook, stated
from interextra.claims.judgement import (
    FEW,
    GATE,
    NO_VARIATION,
    ONE_WORLD,
    UNMEASURED,
    WITHIN,
    concluded,
    leads,
    over_worlds,
    without_verdict,
)
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.session import Session
from interextra.stats.effects import Effects, effects
from interextra.stats.tests import outside
from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS
from interextra.store.errors import InputError

RANDOM = np.random.default_rng(7)
NOBODY = leads(pd.DataFrame(), [], 0, 0)  # nothing measured on the queries of the gate
GATED = {"gate": "beats BM25"}


def measured(deltas, trainings=3, n_queries=400, noise=0.02, **labels):
    """Values by RR@10 of systems with about these relative changes."""
    base, parts = RANDOM.random(n_queries), []
    for model, delta in deltas.items():
        for seed in range(trainings):
            for regime, factor in (("interpolation", 1.0), ("extrapolation", 1 + delta)):
                off = RANDOM.normal(scale=noise, size=n_queries) + RANDOM.normal(scale=noise * 0.15)
                made = {
                    "model": model,
                    "regime": regime,
                    "seed": seed,
                    "value": base * factor + off,
                }
                parts.append(
                    pd.DataFrame(made | {"query_id": [f"q{row}" for row in range(n_queries)]})
                )
    return pd.concat(parts, ignore_index=True).assign(measure="RR@10", **labels)


def compared(values, *labels):
    """Effects of both regimes in some values."""
    by = ["model", "measure", *labels]
    return effects(values, by, "regime", ("interpolation", "extrapolation"), "delta", n_boot=2000)


def losses(deltas, trainings=3, n_queries=400, noise=0.02, **labels):
    """Effects of systems with about these relative changes, measured by RR@10."""
    return compared(measured(deltas, trainings, n_queries, noise, **labels), *labels)


def claim(name, asks, plus, minus=None, **more):
    rows = {"plus": plus} | ({"minus": minus} if minus is not None else {})
    fixed = {
        "paper": "kit",
        "notebook": "03_resttest",
        "sentence": name,
        "measure": "RR@10",
        "known": (),
        "scale": "change",
    }
    return Claim(name=name, asks=asks, rows=rows, **fixed | {"margin": 0.05} | more)


@pytest.fixture
def state(monkeypatch):
    """Replaces the stated claims by some; returns them."""

    def put(*claims):
        stated_here = {one.name: one for one in claims}
        for module in ("claim", "judgement"):
            monkeypatch.setattr(f"interextra.claims.{module}.stated", lambda: stated_here)
        for module in ("judgement", "wording"):
            monkeypatch.setattr(f"interextra.claims.{module}.every_claim", lambda: stated_here)
        return list(claims)

    return put


def test_all_entries_of_the_file_are_read():
    found = stated()
    assert (
        found["resttest-dense"].published == pytest.approx(-0.115)
        and found["resttest-dense"].paper == "zhan"
    )
    assert np.isnan(found["vocabulary-overlap"].published) and found["resttest-dense"].levels == (
        0.313,
        0.277,
    )
    assert (
        found["random-initialisation-gap"].gate == "none: as published"
        and found["resttest-dense"].is_gated
    )
    assert found["resttest-bm25"].gate == "none: no system" and not found["resttest-bm25"].is_gated
    assert [one.name for one in of_notebook("03_resttest")] == [
        "resttest-dense",
        "resttest-bm25",
    ]


def test_estimates_are_sums_and_means_of_the_rows_named(state):
    table = losses({"BM25": 0.0, "a": -0.1, "b": -0.2, "c": -0.4})
    at = table.set_index("model")["delta"]
    claims = state(
        claim("one", "below", {"model": "a"}),
        claim("two", "above", {"model": ["a", "b"]}, {"model": "c"}),
        claim("sum", "above", [{"model": "a"}, {"model": "b"}], [{"model": "c"}]),
        claim("number", "above", {"model": "a"}, 0.3, side="in domain"),
        claim(
            "sides",
            "above",
            {"model": "a", "side": "out of domain"},
            {"model": "b", "side": "in domain"},
        ),
        claim("absent", "above", {"model": "d"}),
    )
    found = answered(claims, [table], NOBODY).set_index("claim")["estimate"]
    expected = {
        "one": at["a"],
        "two": (at["a"] + at["b"]) / 2 - at["c"],
        "sum": at["a"] + at["b"] - at["c"],
    }
    expected["number"] = table.set_index("model").loc["a", "interpolation"] - 0.3
    sides = table.set_index("model")
    expected["sides"] = sides.loc["a", "extrapolation"] - sides.loc["b", "interpolation"]
    assert found.to_dict() == pytest.approx(expected)


def test_a_side_that_no_table_of_two_sides_has_is_a_label_of_rows(state):
    """Rows of one effect on the left-out kind (out), and one on the kinds in training (in)."""
    values = measured({"a": 0.0}, trainings=1).drop(columns=["model", "regime"])
    sides = [values.assign(side="out"), values.assign(side="in", value=values["value"] - 0.5)]
    table = effects(pd.concat(sides), ["side", "measure"], n_boot=100)
    claims = state(
        claim("out", "above", {"side": "out"}), claim("both", "above", {"side": ["out", "in"]})
    )
    found = answered(claims, [table], NOBODY).set_index("claim")["estimate"]
    means = table.set_index("side")["mean"]
    assert found["out"] == pytest.approx(means["out"])
    assert found["both"] == pytest.approx(means.mean())


def test_the_main_row_is_the_largest_size_with_all_negatives(state):
    tables = [
        losses({"a": delta}, n_train=size, negative_passages=passages)
        for delta, size, passages in (
            (-0.1, 100, "all"),
            (-0.3, 200, "all"),
            (-0.5, 200, "unexposed"),
        )
    ]
    [row] = answered(
        state(claim("one", "below", {"model": "a"})), [pd.concat(tables, ignore_index=True)], NOBODY
    ).to_dict("records")
    assert row["estimate"] == pytest.approx(-0.3, abs=0.02)


def test_a_claim_that_fits_several_rows_is_refused(state):
    table = pd.concat(
        [losses({"a": -0.1}, shift="one"), losses({"a": -0.2}, shift="two")], ignore_index=True
    )
    with pytest.raises(InputError, match="claim one: .* fits 2 rows"):
        answered(state(claim("one", "below", {"model": "a"})), [table], NOBODY)


def test_direction_and_size_are_judged_apart(state):
    table = losses({"BM25": 0.0, "a": -0.2, "b": -0.02})
    claims = state(
        claim("large", "below", {"model": "a"}),
        claim("wrong", "above", {"model": "a"}),
        claim("small", "below", {"model": "b"}),
        claim("same", "equal", {"model": "b"}),
        claim("not the same", "equal", {"model": "a"}),
        claim("told only", "below", {"model": "a"}, secondary=True),
        claim("told, small", "equal", {"model": "b"}, secondary=True),
    )
    ahead = pd.DataFrame({"model": ["a", "b"], "lead": 0.2, "lead_low": 0.1})
    found = concluded(answered(claims, [table], ahead)).set_index("claim")
    verdict = {
        "large": "holds",
        "wrong": "contradicted",
        "small": "holds",
        "same": "holds",
        "told only": "",
    }
    assert found["verdict"].to_dict() == verdict | {
        "not the same": "contradicted",
        "told, small": "",
    }
    assert found["p_size"].isna().to_dict() == dict.fromkeys(verdict, False) | {
        "not the same": False,
        "told only": True,
        "told, small": True,
    }
    assert found["size"].ne("").to_dict() == dict.fromkeys(found.index, False) | {
        "small": True,
        "same": True,
    }
    assert (found["high"] - found["low"])["told only"] < (found["high"] - found["low"])[
        "large"
    ]  # no family


def test_an_undecided_claim_says_what_its_noise_is_of(state):
    few = losses({"a": -0.01, "BM25": 0.0}, n_queries=12)
    [queries] = concluded(
        answered(state(claim("one", "below", {"model": "a"})), [few], NOBODY)
    ).to_dict("records")
    assert (queries["verdict"], queries["reason"]) == ("undecided", "queries") and queries[
        "resolution"
    ] > 0.01
    noisy = few.assign(sd_trainings=0.2)
    assert (
        answered(state(claim("one", "below", {"model": "a"})), [noisy], NOBODY)["noise"].item()
        == "trainings"
    )
    of_models = few.assign(drawn_units="models")
    found = concluded(answered(state(claim("one", "below", {"model": "a"})), [of_models], NOBODY))
    assert found["reason"].item() == "models" and wording.REASONS["models"] == "too few models"


def test_one_far_draw_moves_no_resolution(state):
    """The noise of two trainings is Student's t of one degree, whose deviation has no bound."""
    asked = answered(
        state(claim("one", "below", {"model": "a"})), [losses({"a": -0.1, "BM25": 0.0})], NOBODY
    )
    before = concluded(asked)["resolution"].item()
    [draws] = asked["draws"]
    draws.effect[0] = 1e6
    after = concluded(asked)["resolution"].item()
    assert after == pytest.approx(before, rel=0.05)


def test_a_system_that_does_not_beat_bm25_is_undecided_but_stays(state):
    table = losses({"BM25": 0.0, "a": -0.2, "b": -0.2})
    in_domain = {"a": [0.4, 0.3], "b": [0.1, 0.3], "BM25": [0.2, 0.2]}
    rows = [(name, f"q{at}", pair[at % 2]) for name, pair in in_domain.items() for at in range(20)]
    ahead = leads(pd.DataFrame(rows, columns=["model", "query_id", "value"]), [], 0, 200)
    claims = state(
        claim("open", "below", {"model": "a"}, **GATED),
        claim("closed", "below", {"model": "b"}, **GATED),
        claim("both", "above", {"model": "a"}, {"model": "b"}, **GATED),
        claim("ungated", "below", {"model": "b"}, gate="none: as published"),
        claim("bm25", "equal", {"model": "BM25"}),
    )
    found = concluded(answered(claims, [table], ahead)).set_index("claim")
    shut = {"closed": GATE, "both": GATE}
    assert found.loc[found["verdict"] == "undecided", "reason"].to_dict() == shut
    assert found["lead"].to_dict() == pytest.approx(
        {"open": 0.15, "closed": 0, "both": 0, "ungated": 0, "bm25": np.nan}, nan_ok=True
    )


def in_worlds(names, estimates, lead=0.1, n_queries=300):
    """Tables of claims and of leads of several worlds; each claim speaks of the system that it is
    named after.
    """
    worlds = [
        pd.DataFrame({"claim": names, "estimate": row, "bias": 0.0, "n_queries": n_queries})
        for row in estimates
    ]
    of_system = pd.DataFrame({"claim": names, "system": names, "lead": lead})
    return worlds, [
        of_system.assign(lead=of_system["lead"] + 1e-4 * at) for at in range(len(worlds))
    ]


def test_worlds_are_judged_by_students_test(state):
    state(claim("one", "below", {"model": "a"}), claim("two", "below", {"model": "b"}))
    estimates = RANDOM.normal(-0.03, 0.05, size=(12, 2))
    found = over_worlds(*in_worlds(["one", "two"], estimates))
    for at in (0, 1):
        ends = stats.ttest_1samp(estimates[:, at], 0).confidence_interval(1 - 0.05 / 2)
        assert found.loc[at, ["low", "high"]].tolist() == pytest.approx(list(ends))
        deviations = TTestPower().solve_power(nobs=12, alpha=0.05 / 2, power=0.8)
        assert found.loc[at, "resolution"] == pytest.approx(
            deviations * estimates[:, at].std(ddof=1), rel=1e-4
        )
    assert found["n_worlds"].eq(12).all() and found["n_queries"].eq(3600).all()


def test_size_over_worlds_is_tested_at_five_percent_in_both_directions(state):
    """One claim a family; its p-value is that of Student's one-sided test against the nearer end of
    the margin.
    """
    estimates = np.array([[-0.01], [0.01], [0.004]] * 4)
    for shift, tested in itertools.product((0.0, 0.02, -0.02), (0.049, 0.051)):
        shifted = estimates + shift
        edge = abs(shifted.mean()) + stats.sem(shifted).item() * stats.t.isf(tested, 11)
        state(claim("one", "equal", {"model": "a"}, margin=edge))
        [row] = over_worlds(*in_worlds(["one"], shifted)).to_dict("records")
        sided = ((-edge, "greater"), (edge, "less"))
        p_values = [
            stats.ttest_1samp(shifted[:, 0], end, alternative=side).pvalue for end, side in sided
        ]
        assert row["p_size"] == pytest.approx(max(p_values)) == pytest.approx(tested)
        assert row["size"] == (WITHIN if tested < 0.05 else "")


def test_tests_of_size_are_corrected_by_holm_within_the_family(state):
    """Those of equality apart from those of the others; a secondary claim is in no family."""
    table = losses({"a": -0.02, "b": -0.02, "c": -0.02, "d": -0.02}, noise=0.4)
    margins = {"a": 0.09, "b": 0.11, "c": 0.10}
    equal = [
        claim(f"{name} equal", "equal", {"model": name}, margin=edge)
        for name, edge in margins.items()
    ]
    below = [
        claim(f"{name} below", "below", {"model": name}, margin=edge)
        for name, edge in margins.items()
    ]
    told = claim("told", "equal", {"model": "d"}, margin=0.09, secondary=True)
    answers = answered(
        state(*itertools.chain(*zip(equal, below, strict=True)), told), [table], NOBODY
    )
    found, draws = (
        concluded(answers).set_index("claim"),
        dict(zip(answers["claim"], answers.drawn(), strict=True)),
    )
    for family in (equal, below):
        raw = [outside(draws[one.name], one.margin) for one in family]
        holm = multipletests(raw, method="holm")[1]
        assert found["p_size"][[one.name for one in family]].tolist() == pytest.approx(
            holm.tolist()
        )
        assert (holm > raw).any() and min(raw) < max(
            raw
        )  # the correction shows, and so does its order
    assert np.isnan(found.loc["told", "p_size"]) and found.loc["told", "size"] == ""


def test_equality_claims_of_a_family_hold_only_if_they_do_after_holm(state):
    """Three p-values of .03 each: alone each holds, of the three none does; claims of direction are
    no part of it.
    """
    estimates = np.repeat(np.array([[-0.01], [0.01], [0.004]] * 4), 4, axis=1)
    edge = abs(estimates[:, 0].mean()) + stats.sem(estimates[:, 0]) * stats.t.isf(0.03, 11)
    for n in (1, 3):
        names = ["a", "b", "c"][:n] + ["other"]
        asks = dict.fromkeys(names, "equal") | {"other": "below"}
        state(*(claim(name, asks[name], {"model": name}, margin=edge) for name in names))
        found = over_worlds(*in_worlds(names, estimates[:, : n + 1])).set_index("claim")
        assert found["p_size"].to_dict() == pytest.approx(
            dict.fromkeys(names, 0.03 * n) | {"other": 0.03}
        )
        assert found["verdict"].drop("other").eq("holds" if n == 1 else "undecided").all()
        assert found.loc["other", "size"] == WITHIN


def test_the_p_value_of_a_size_is_the_share_of_draws_beyond_the_margin(state):
    draws = np.linspace(-0.0995, 0.0995, 200)  # one of 200 each .001
    table = drawn_table({"a": draws})
    for margin, beyond in ((0.099, 1), (0.09, 10), (0.2, 0)):
        answers = answered(
            state(claim("one", "equal", {"model": "a"}, margin=margin)), [table], NOBODY
        )
        assert concluded(answers)["p_size"].item() == pytest.approx((beyond + 1) / 201)


def drawn_table(draws, **columns):
    """A table of means of systems, of 50 queries each, with these draws."""
    means = [each.mean() for each in draws.values()]
    rows = {"model": list(draws), "measure": "RR@10", "mean": means, "n_queries": 50} | columns
    return Effects.of(pd.DataFrame(rows), ["model", "measure"], ["mean"], list(draws.values()))


@pytest.mark.parametrize("n_queries", [1, 2, 9, 10])
def test_few_queries_give_no_verdict_and_no_size(state, n_queries):
    table = losses({"a": -0.3, "b": 0.0001}, trainings=1, n_queries=n_queries, noise=0.0001)
    answers = answered(
        state(claim("loss", "below", {"model": "a"}), claim("same", "equal", {"model": "b"})),
        [table],
        NOBODY,
    )
    found = concluded(answers)
    if n_queries == 10:
        assert found["verdict"].eq("holds").all() and found["p_size"].notna().all()
        return
    assert found["verdict"].eq("undecided").all() and found["reason"].eq(FEW).all()
    assert found["size"].eq("").all() and found["p_size"].isna().all()
    assert all(FEW in wording.formatted(row) for row in found.to_dict("records"))
    page = wording.page({"here": found})
    assert page["conclusion"].eq("undecided here").all()


@pytest.mark.parametrize(("drawn", "least"), [("models", 4), ("clusters", 4), ("queries", 10)])
def test_the_least_number_of_units_is_of_what_is_drawn(state, drawn, least):
    """Of models and clusters fewer do; many queries of few entities (units) are few."""
    draws = np.random.default_rng(1).normal(-0.3, 0.01, size=500)
    counted = "n_models" if drawn == "models" else "n_units"
    verdict = {}
    for n in (least - 1, least):
        table = drawn_table({"a": draws}, **{counted: n, "drawn_units": drawn})
        row = concluded(
            answered(state(claim("one", "below", {"model": "a"})), [table], NOBODY)
        ).iloc[0]
        verdict[n] = (row["verdict"], row["reason"])
    assert verdict == {least - 1: ("undecided", FEW), least: ("holds", "")}


@pytest.mark.parametrize("n_worlds", [2, 3, 4])
def test_few_worlds_give_no_verdict_and_no_size(state, n_worlds):
    state(claim("loss", "below", {"model": "a"}), claim("same", "equal", {"model": "b"}))
    estimates = [[-0.3 + 0.001 * at, 0.001 * at] for at in range(n_worlds)]
    found = over_worlds(*in_worlds(["loss", "same"], estimates))
    is_few = n_worlds < 4
    assert found["verdict"].eq("undecided" if is_few else "holds").all()
    assert (
        found["reason"].eq(FEW if is_few else "").all() and found["p_size"].isna().eq(is_few).all()
    )


def test_where_all_queries_differ_by_the_same_nothing_is_decided(state):
    values = measured({"a": -0.2, "b": 0.0}, trainings=1, noise=0.0)
    values["value"] = np.where(
        values["regime"] == "interpolation", 0.5, np.where(values["model"] == "a", 0.4, 0.5)
    )
    claims = state(claim("loss", "below", {"model": "a"}), claim("same", "equal", {"model": "b"}))
    found = concluded(answered(claims, [compared(values)], NOBODY))
    assert found["estimate"].tolist() == pytest.approx([-0.2, 0.0]) and found[
        ["low", "high"]
    ].isna().all(axis=None)
    assert found["verdict"].eq("undecided").all() and found["reason"].eq(NO_VARIATION).all()
    assert found["size"].eq("").all() and found["p_size"].isna().all()
    assert wording.formatted(found.iloc[0]).startswith("-20.0 % [undefined], 400 queries")


def test_a_claim_that_one_world_does_not_estimate_is_undecided(state):
    """Its mean over the others would be of fewer worlds than its interval is of."""
    state(claim("one", "below", {"model": "a"}), claim("two", "below", {"model": "a"}))
    estimates = [[-0.3 + 0.001 * at, -0.3 + 0.001 * at] for at in range(6)]
    worlds, gates = in_worlds(["one", "two"], estimates)
    worlds[2].loc[0, "estimate"] = np.nan
    found = over_worlds(worlds, gates).set_index("claim")
    assert found["verdict"].to_dict() == {"one": "undecided", "two": "holds"}
    assert np.isnan(found.loc["one", "estimate"]) and np.isnan(found.loc["one", "p_size"])


def test_the_bias_of_a_ratio_is_taken_out_of_the_mean_over_worlds(state):
    """Of independent sides it is the variance of the first mean over its square: of 60 queries some
    .03.
    """
    claims, draw, worlds = (
        state(claim("one", "below", {"model": "a"})),
        np.random.default_rng(3),
        [],
    )
    reciprocal = 1.0 / np.arange(1, 30)
    for world in range(40):
        ranks = pd.DataFrame(
            draw.choice(reciprocal, (60, 2)), columns=["inside", "out"]
        ).rename_axis("query_id")
        values = (
            ranks.reset_index()
            .melt("query_id", var_name="regime")
            .assign(model="a", measure="RR@10")
        )
        table = effects(
            values,
            ["model", "measure"],
            "regime",
            ("inside", "out"),
            "delta",
            seed=world,
            n_boot=400,
        )
        worlds.append(without_verdict(answered(claims, [table], NOBODY), ONE_WORLD))
    gates = [pd.DataFrame({"claim": ["one"], "system": ["a"], "lead": [0.1]})] * len(worlds)
    plain, bias = (np.mean([one[name].item() for one in worlds]) for name in ("estimate", "bias"))
    assert bias == pytest.approx(reciprocal.var() / reciprocal.mean() ** 2 / 60, rel=0.25)
    assert over_worlds(worlds, gates)["estimate"].item() == pytest.approx(plain - bias)
    unknown = over_worlds([one.assign(bias=np.nan) for one in worlds], gates)
    assert unknown["estimate"].item() == pytest.approx(plain)


def test_a_tie_at_a_bound_decides_nothing(state):
    for asks, low, high in (
        ("above", 0.0, 0.1),
        ("above", -0.1, 0.0),
        ("below", -0.1, 0.0),
        ("below", 0.0, 0.1),
    ):
        assert judgement.verdict(asks, low, high, 0.05, False) == "undecided"
    for low, high in ((0.05, 0.1), (-0.1, -0.05)):
        assert judgement.verdict("equal", low, high, 0.05, False) == "undecided"
    state(*(claim(name, "equal", {"model": name}, margin=0.25) for name in "abc"))
    found = over_worlds(
        *in_worlds(list("abc"), [[0.25, -0.25, 0.125]] * 4)
    )  # worlds that do not vary say nothing
    assert found["verdict"].eq("undecided").all() and found["reason"].eq(NO_VARIATION).all()
    assert found["size"].eq("").all() and found[["low", "high", "p_size"]].isna().all(axis=None)
    centred = np.array([-0.01, 0.01, -0.02, 0.02])[:, None] + np.array([0.25, -0.25, 0.125])
    found = over_worlds(*in_worlds(list("abc"), centred))
    assert found["verdict"].tolist() == ["undecided", "undecided", "holds"]
    assert found["size"].tolist() == ["", "", WITHIN]
    state(claim("c", "equal", {"model": "c"}, margin=0.25, **GATED))
    assert over_worlds(*in_worlds(["c"], centred[:, 2:], lead=-0.0001))["reason"].tolist() == [GATE]


def test_a_lead_that_no_world_measured_opens_no_gate(state):
    state(claim("a", "below", {"model": "a"}, **GATED), claim("bm25", "below", {"model": "BM25"}))
    worlds, gates = in_worlds(
        ["a", "bm25"], [[-0.3 + 0.01 * at] * 2 for at in range(5)], lead=[np.nan, 0.1]
    )
    found = over_worlds(worlds, gates)
    assert found["verdict"].tolist() == ["undecided", "holds"] and found["reason"].tolist() == [
        UNMEASURED,
        "",
    ]
    gates[0] = gates[0].assign(lead=0.2)  # measured in one world alone
    assert over_worlds(worlds, gates)["reason"].tolist() == [UNMEASURED, ""]


def test_a_lead_that_does_not_vary_was_measured_but_shows_nothing(state):
    state(claim("a", "below", {"model": "a"}, **GATED))
    worlds, gates = in_worlds(["a"], [[-0.3 + 0.01 * at] for at in range(5)])
    [row] = over_worlds(worlds, gates[:1] * 5).to_dict("records")
    assert (row["verdict"], row["reason"], row["lead"]) == ("undecided", GATE, pytest.approx(0.1))


def test_the_lead_of_each_system_is_pooled_before_the_weakest_is_taken(state):
    """In every world one of both is behind BM25; over the worlds both are ahead."""
    state(claim("both", "below", {"model": ["a", "b"]}, **GATED))
    worlds, _ = in_worlds(["both"], [[-0.3 + 0.01 * at] for at in range(6)])
    leads = [(0.16, 0.0 - 0.001 * at) for at in range(3)] + [
        (0.0 - 0.001 * at, 0.16) for at in range(3)
    ]
    gates = [
        pd.DataFrame({"claim": "both", "system": ["a", "b"], "lead": pair}) for pair in leads * 2
    ]
    [row] = over_worlds(worlds * 2, gates).to_dict("records")
    assert row["verdict"] == "holds" and row["lead"] == pytest.approx(
        np.mean([pair[0] for pair in leads])
    )
    behind = [gate.assign(lead=[0.1, -0.01 - 0.001 * at]) for at, gate in enumerate(gates)]
    assert over_worlds(worlds * 2, behind)["reason"].tolist() == [GATE]


def test_the_gate_lists_each_system_of_a_claim_with_its_lead(state):
    claims = state(
        claim("one", "below", {"model": ["a", "b"]}, **GATED),
        claim("bm25", "equal", {"model": "BM25"}),
    )
    ahead = pd.DataFrame({"model": ["a", "b"], "lead": [0.2, 0.1], "lead_low": [0.1, -0.1]})
    answers = answered(claims, [losses({"a": -0.2, "b": -0.1, "BM25": 0.0})], ahead)
    found = judgement.gate(answers)
    assert found[["claim", "system", "lead"]].values.tolist() == [
        ["one", "a", 0.2],
        ["one", "b", 0.1],
    ]
    assert (
        list(judgement.gate(answers[:0])) == list(found) == ["claim", "system", "lead", "lead_low"]
    )
    # a notebook without a table of claims has no gate in any world
    assert list(judgement.gate(pd.DataFrame())) == list(found)

    assert wording.formatted(concluded(answers).iloc[0]).endswith(
        f"undecided ({GATE}; lead +10.0 points)"
    )


def test_a_claim_that_needs_more_than_ten_times_the_data_is_declared_out_of_reach(state):
    state(claim("one", "below", {"model": "a"}, margin=0.05, published=-0.1))
    row = {
        "claim": "one",
        "estimate": 0.0,
        "low": -0.5,
        "high": 0.5,
        "verdict": "undecided",
        "size": "",
    }
    far, near = (
        wording.formatted(row | {"reason": "queries", "resolution": size}) for size in (0.4, 0.3)
    )
    assert far.endswith(
        "undecided (queries; detects 40.0 %; out of reach: needs 16 times as many queries)"
    )
    assert near.endswith("undecided (queries; detects 30.0 %)")
    worlds = wording.formatted(row | {"reason": "worlds", "resolution": 0.4, "n_worlds": 12})
    assert worlds.endswith("out of reach: needs 16 times as many worlds)")


@pytest.mark.parametrize("share", [0.6, 0.97, 0.999])
def test_more_trainings_are_asked_for_as_the_variance_of_the_queries_allows(state, share):
    """The variance wanted is a sixteenth: of n times the trainings the queries' share stays as it
    is.
    """
    state(claim("one", "below", {"model": "a"}, margin=0.05, published=-0.1))
    row = {
        "claim": "one",
        "estimate": 0.0,
        "low": -0.5,
        "high": 0.5,
        "verdict": "undecided",
        "size": "",
    }
    text = wording.formatted(
        row | {"reason": "trainings", "resolution": 0.4, "share_trainings": share}
    )
    if share < 15 / 16:  # no number of trainings is enough
        assert text.endswith("out of reach: needs 16 times as many training runs and queries)")
        return
    wanted, n = 1 / 16, int(text.split("needs ")[1].split()[0])
    assert text.endswith(" times as many training runs)")
    assert share / (n + 0.5) + 1 - share <= wanted <= share / (n - 0.5) + 1 - share


def test_claims_of_a_world_alone_have_plain_intervals_and_no_verdict(state):
    claims = state(*(claim(name, "below", {"model": name}) for name in "abc"))
    answers = answered(claims, [losses({"a": -0.2, "b": -0.1, "c": 0.0})], NOBODY)
    alone, together = without_verdict(answers, ONE_WORLD), concluded(answers)
    assert alone["verdict"].eq("").all() and alone["reason"].eq("one world").all()
    assert (alone["high"] - alone["low"] < together["high"] - together["low"]).all()
    assert alone[["low", "high", "bias"]].equals(pd.DataFrame(answers)[["low", "high", "bias"]])
    assert (
        alone["size"].eq("").all()
        and alone["p_size"].isna().all()
        and together["p_size"].notna().all()
    )


def test_rows_come_from_the_first_table_that_has_them_and_a_page_says_what_each_data_set_says(
    state, tmp_path
):
    claims = state(
        claim("one", "below", {"model": "a"}), claim("two", "above", {"model": "a", "band": "far"})
    )
    tables = [losses({"a": -0.2}), losses({"a": 0.3}, band="far")]
    found = answered(claims, tables, NOBODY)
    assert found["estimate"].tolist() == pytest.approx([-0.2, 0.3], abs=0.02)
    page = wording.page({"MedQuAD": pd.DataFrame(), "here": without_verdict(found[:1], ONE_WORLD)})
    assert page.columns.tolist() == ["claim", "margin", "published", "this run", "conclusion"]
    assert page["margin"].tolist() == ["5.0 %"]
    assert page["this run"].item().count(" % [") == 1
    assert page["this run"].item().endswith("400 queries, 3 training runs: one world")
    table = without_verdict(found, ONE_WORLD)
    table.to_csv(tmp_path / "claims.csv", index=False)
    assert wording.page({"here": pd.read_csv(tmp_path / "claims.csv")}).equals(
        wording.page({"here": table})
    )


@pytest.mark.parametrize(("profile", "collection"), [("mini", "mini"), ("small", "medquad")])
def test_a_sentence_gives_each_data_set_its_own_estimate(tmp_path, profile, collection):
    """Real data as committed, or of this run where it is of `small`; the worlds; a run of another
    profile.
    """
    row = {"claim": "resttest-dense", "n_queries": 900, "size": ""}
    small = {
        "estimate": -0.1,
        "low": -0.12,
        "high": -0.08,
        "n_trainings": 5,
        "verdict": "holds",
        "reason": "",
    }
    small |= {"over": TRAININGS}
    worlds = {
        "estimate": 0.02,
        "low": -0.01,
        "high": 0.05,
        "n_worlds": 12,
        "verdict": "undecided",
        "reason": "worlds",
    }
    worlds |= {"over": "worlds"}
    for name, values in (("small", small), ("worlds", worlds)):
        folder = tmp_path / "outputs" / "reference" / name / "03_resttest" / "tables"
        folder.mkdir(parents=True)
        pd.DataFrame([row | values]).to_csv(folder / "claims.csv", index=False)
    nb = Session(
        "03_resttest", NotebookParameters(profile=profile, collection=collection), tmp_path, ""
    )
    ahead = pd.DataFrame({"model": ["DR (base)"], "lead": 0.2, "lead_low": 0.1})
    nb.conclude(losses({"DR (base)": -0.3}, protocol="ReSTTest"), ahead=ahead)
    made = pd.read_csv(nb.folder / "tables" / "claims.csv").iloc[0]
    here = "{:+.1f} % [{:+.1f}, {:+.1f}]".format(*(100 * made[["estimate", "low", "high"]]))
    real, this = (
        (here, "") if profile == "small" else ("-10.0 % [-12.0, -8.0]", f"this run {here}; ")
    )
    estimates = f"MedQuAD {real}; fourteen worlds +2.0 % [-1.0, +5.0]; {this}published -11.5 %"
    told = "agrees in direction on real data seen before, undecided in the worlds"
    [sentence] = nb.concluded  # the claim answers the title
    kind = "simultaneous 95 % confidence intervals over queries and training runs (MedQuAD"
    kind += ", this run, individual" * (profile != "small") + "); over worlds (fourteen worlds)"
    assert sentence.endswith(f": {told}, too few worlds (RR@10: {estimates}; {kind}).")


def test_decided_claims_come_before_undecided_ones(state):
    names = ["resttest-dense", "resttest-bm25", "topics-dense"]
    verdict = dict(zip(names, ["undecided", "undecided", "contradicted"], strict=True))
    rows = [
        told(name, "queries" * (verdict[name] == "undecided"), verdict=verdict[name])
        for name in names
    ]
    first, second, third = wording.sentences({"MedQuAD": pd.concat(rows)}, "03_resttest")
    assert (
        first.startswith("We cannot tell whether a dense retriever")
        and ": differs on real data seen before" in second
    )
    assert ": undecided on real data" in third


def test_two_claims_and_a_page_without_any(state):
    nothing = concluded(
        answered(state(claim("one", "below", {"model": "z"})), [losses({"a": -0.2})], NOBODY)
    )
    assert nothing.empty and {"verdict", "size", "reason", "resolution", "estimate"} <= set(nothing)
    assert wording.page({"here": nothing}).empty and wording.sentences({"here": nothing}) == []


def told(name, reason="", size="", verdict="undecided"):
    """A table with one claim that was found to be 0."""
    row = {
        "claim": name,
        "estimate": 0.0,
        "low": 0.0,
        "high": 0.0,
        "n_queries": 9,
        "reason": reason,
    }
    return pd.DataFrame([row | {"verdict": verdict, "size": size}])


def test_a_sentence_says_why_a_claim_has_no_verdict():
    dense, second, *_ = (one.name for one in of_notebook("08_beir_correlation"))
    here = pd.concat([told(name, "one world", verdict="") for name in (second, dense)])
    texts, why = (
        wording.sentences({"here": here}, "08_beir_correlation"),
        "one generated world decides no claim",
    )
    assert texts[0].startswith("We cannot tell whether a model's ") and len(texts) == 2
    assert f": not judged, {why} (" in texts[0]
    published = wording.published(stated()[second])
    assert f": not judged, {why} (" in texts[1] and f"; published {published})." in texts[1]


def test_the_title_is_answered_by_the_verdict_on_a_primary_claim():
    given = {("holds", "holds"): "holds", ("contradicted", "contradicted"): "contradicted"}
    given |= {
        ("holds", "contradicted"): "It depends on the data. ",
        ("within", "holds"): "It depends on the data. ",
    }
    given |= {
        ("within", "within"): "equal",
        ("undecided", "undecided"): "We cannot tell whether ",
    }
    for notebook, answer in yaml.safe_load(wording.ANSWERS.read_text()).items():
        claim = stated()[answer["claim"]]
        other = next(name for name, one in stated().items() if one.notebook != notebook)
        assert (
            claim.notebook == notebook
            and not claim.secondary
            and answer["holds"] != answer["contradicted"]
        )
        for said, expected in given.items():
            rows = [
                told(claim.name, "queries", "within")
                if word == "within"
                else told(claim.name, "queries" * (word == "undecided"), verdict=word)
                for word in said
            ]
            real = "here" if "MedQuAD" in claim.not_testable else "MedQuAD"
            found = {real: pd.concat([told(other), rows[0]]), "worlds": rows[1]}
            sentence, _ = wording.sentences(found, notebook)
            assert sentence.startswith(answer.get(expected, expected).removesuffix("."))
            concluded_on_page = wording.page(found)["conclusion"].iloc[1].partition(" (at first")[0]
            is_open = said[0] == "undecided"
            text = "undecided, too few queries" if is_open else concluded_on_page
            assert f": {text}" in sentence
    assert wording.sentences({"worlds": pd.DataFrame()}, "03_resttest") == []


def test_a_plan_says_what_a_design_can_tell(state, tmp_path):
    state(
        claim("one", "below", {"model": "a"}, published=-0.1),
        claim("two", "equal", {"model": "a"}, margin=0.05),
    )
    path = tmp_path / "claims.csv"
    pd.DataFrame({"claim": ["one", "two"], "resolution": [0.2, 0.05], "n_worlds": 12}).to_csv(
        path, index=False
    )
    found = judgement.resolutions([path, tmp_path / "none.csv"])
    assert found[["asked", "times"]].values.tolist() == [
        [0.1, pytest.approx(4)],
        [0.05, pytest.approx(1)],
    ]
    assert found["more_of"].eq("worlds").all() and judgement.resolutions([]).empty


def simulated(effect, n_worlds, n_queries, rng):
    """A claim's estimates in worlds: difference of two systems' reciprocal ranks, many of them 0,
    with the noise of worlds, of trainings, and of queries about the same entity.
    """
    world, training = rng.normal(scale=0.03, size=n_worlds), rng.normal(scale=0.02, size=n_worlds)
    entity = rng.normal(scale=0.5, size=(n_worlds, n_queries // 5)).repeat(5, axis=1)
    sides = []
    for shift in (0.0, 1.0):
        quality = entity + rng.normal(scale=1.0, size=(n_worlds, n_queries))
        rank = np.floor(np.exp(1.2 - quality)) + 1
        sides.append(
            np.where(rank <= 10, 1 / rank, 0).mean(axis=1) + shift * (effect + world + training)
        )
    return sides[1] - sides[0]


@pytest.mark.parametrize("effect", [0.0, 0.05])
def test_verdicts_over_worlds_are_as_sure_as_they_say(state, effect):
    """Of families of four claims with no effect at most 5 % have a wrong one; power is what the
    resolution promises.
    """
    names = ["a", "b", "c", "d"]
    state(*(claim(name, "above", {"model": name}) for name in names))
    rng, wrong, right, resolution, n = np.random.default_rng(1), 0, 0, [], 120
    for _ in range(n):
        estimates = np.stack([simulated(effect, 12, 60, rng) for _ in names], axis=1)
        found = over_worlds(*in_worlds(names, estimates))
        wrong += (
            found["verdict"].isin(["holds", "contradicted"]).any()
            if not effect
            else found["verdict"].eq("contradicted").any()
        )
        right += found["verdict"].eq("holds").mean() / n
        resolution.append(found["resolution"].mean())
    assert wrong / n <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / n)
    if effect:
        needed = np.mean(resolution)
        error = needed / (stats.t.ppf(1 - 0.025 / 4, 11) + stats.t.ppf(0.8, 11))
        expected = stats.nct.sf(stats.t.ppf(1 - 0.025 / 4, 11), 11, effect / error)
        assert right == pytest.approx(expected, abs=0.08)


def judged(real, worlds, name="MedQuAD"):
    """Rows of data sets: verdict, size and reason, one after the other; none of a data set without
    the claim.
    """
    given, names = {name: real, "worlds": worlds}, ("verdict", "size", "reason")
    return {
        of: dict(zip(names, (*said.split(", "), "", "")[:3], strict=True))
        for of, said in given.items()
        if said
    }


@pytest.mark.parametrize(
    ("name", "real", "worlds", "told"),
    [
        ("resttest-dense", None, None, "not judged"),
        (
            "resttest-dense",
            "holds",
            "holds",
            "agrees in direction on real data seen before and in the worlds",
        ),
        (
            "negatives-reverse",
            "holds",
            "holds",
            "supported on real data seen before and in the worlds",
        ),
        (
            "negatives-reverse",
            "contradicted",
            "contradicted",
            "contradicted on real data seen before and in the worlds",
        ),
        (
            "resttest-dense",
            "contradicted",
            "contradicted",
            "differs on real data seen before and in the worlds",
        ),
        ("resttest-dense", "contradicted", "holds", "depends on the data"),
        ("resttest-dense", "undecided", "undecided", "undecided"),
        (
            "resttest-dense",
            "undecided",
            "holds",
            "agrees in direction in the worlds, undecided on real data",
        ),
        (
            "resttest-dense",
            "undecided, within",
            "undecided, within",
            "no difference on real data seen before and in the worlds",
        ),
        ("resttest-dense", None, "undecided, within, gate: not shown", "undecided in the worlds"),
        (
            "resttest-dense",
            "holds, within",
            None,
            "agrees in direction, but smaller than the margin, on real data seen before",
        ),
        ("resttest-bm25", "holds, within", None, "agrees on real data seen before"),
        (
            "resttest-bm25",
            "holds, within",
            "holds, within",
            "agrees on real data seen before and in the worlds",
        ),
        (
            "similarity-trend",
            "holds",
            "holds",
            "agrees in direction on real data seen before and in the worlds",
        ),
        ("overlap-intents", "holds", None, "not testable on real data"),
        (
            "extrapolation-predicts",
            "holds",
            "contradicted",
            "differs in the worlds, not testable on real data",
        ),
        (
            "extrapolation-predicts",
            "holds",
            "undecided",
            "not testable on real data, undecided in the worlds",
        ),
        ("restrain-reranker", "holds, within", "contradicted", "not testable"),
    ],
)
def test_a_conclusion_says_where_a_claim_holds(name, real, worlds, told):
    assert wording.conclusion(stated()[name], judged(real, worlds)) == told


@pytest.mark.parametrize("verdict", ["holds", "contradicted"])
@pytest.mark.parametrize("asks", ["above", "equal"])
@pytest.mark.parametrize("data", ["MedQuAD", "here", "worlds"])
@pytest.mark.parametrize(
    ("paper", "design"), [("zhan", "of the paper"), ("zhan", "ours"), ("kit", "ours")]
)
def test_only_the_design_of_the_paper_on_real_data_replicates_or_contradicts_it(
    paper, design, data, asks, verdict
):
    one = claim("one", asks, {"model": "a"}, paper=paper, design=design)
    is_replication = paper == "zhan" and design == "of the paper" and data != "worlds"
    if is_replication:
        words = {"holds": "replicated", "contradicted": "contradicted"}
    elif paper == "kit":
        words = {"holds": "supported", "contradicted": "contradicted"}
    else:
        words = {
            "holds": "agrees" if asks == "equal" else "agrees in direction",
            "contradicted": "differs",
        }
    place = {"MedQuAD": "on real data", "here": "here", "worlds": "in the worlds"}[data]
    row = {"verdict": verdict, "size": "", "reason": ""}
    assert wording.conclusion(one, {data: row}) == f"{words[verdict]} {place}"


def test_what_a_design_cannot_test_is_said_with_the_reason_and_answers_no_title():
    name, why = "restrain-dense", stated()["restrain-dense"].not_testable["MedQuAD"]
    shown, open_worlds = told(name, verdict="holds"), told(name, "worlds")
    [alone] = wording.sentences({"MedQuAD": shown}, "02_restrain")
    assert alone.startswith("We cannot tell whether dense retrieval is less effective")
    assert f": not testable, {why} (" in alone
    [beside] = wording.sentences({"MedQuAD": shown, "worlds": open_worlds}, "02_restrain")
    assert f": undecided, too few worlds; {why} (" in beside
    [in_worlds] = wording.sentences({"MedQuAD": shown, "worlds": shown}, "02_restrain")
    holds = yaml.safe_load(wording.ANSWERS.read_text())["02_restrain"]["holds"]
    answer = f"In generated worlds: t{holds[1:]}".removesuffix(".")
    ending = f"agrees in direction in the worlds, not testable on real data ({why})"
    assert in_worlds.startswith(f"{answer}: {ending} (")
    [no_title] = wording.sentences({"MedQuAD": shown}, "03_resttest")
    assert f": not testable on real data ({why}) (nDCG@10: " in no_title


def test_sentences_name_the_margin_where_it_decides():
    names = {"resttest-bm25": "", "resttest-dense": "", "topics-dense": WITHIN}
    rows = {name: told(name, "queries", size) for name, size in names.items()}
    found = {name: wording.sentences({"MedQuAD": row})[0] for name, row in rows.items()}
    assert {name: "; margin 5.0 %)." in text for name, text in found.items()} == {
        "resttest-bm25": True,
        "resttest-dense": False,
        "topics-dense": True,
    }


@pytest.mark.parametrize(
    ("rows", "measure", "scale", "unit", "margin"),
    [
        (({"model": "a"},), "RR@10", "change", "%", "5.0 %"),
        (
            ({"model": "a"}, {"model": "b"}),
            "RR@10",
            "change",
            "percentage points of Δ",
            "5.0 percentage points of Δ",
        ),
        (({"model": "a"}, 0.5), "RR@10", "points", "points", "5.0 points"),
        (({"statistic": "Spearman", "regime": "extrapolation"},), "RR@10", "points", "", "0.05"),
        (({"model": "a"},), "Kendall correlation", "points", "", "0.05"),
    ],
)
def test_the_unit_of_a_claim_follows_from_its_scale(rows, measure, scale, unit, margin):
    one = claim("one", "above", *rows, measure=measure, scale=scale)
    assert one.unit == unit and wording.margin(one) == margin
    row = {
        "claim": "one",
        "estimate": 0.1,
        "low": 0.0,
        "high": 0.2,
        "verdict": "holds",
        "size": "",
        "reason": "",
    }
    estimate = f"+10.0 {unit} [+0.0, +20.0]" if unit else "+0.10 [+0.00, +0.20]"
    assert wording.formatted(row, one) == f"{estimate}: holds"


def test_a_gate_is_one_of_four_and_only_beating_bm25_closes_it(state):
    with pytest.raises(ValidationError, match="gate"):
        claim("one", "below", {"model": "a"}, gate="none")
    table, behind = (
        losses({"a": -0.2}),
        pd.DataFrame({"model": ["a"], "lead": [-0.1], "lead_low": [-0.2]}),
    )
    found = {}
    for kind in ("beats BM25", "none: one system", "none: as published", "none: no system"):
        one = claim("one", "below", {"model": "a"}, gate=kind)
        found[kind] = concluded(answered(state(one), [table], behind))["reason"].item()
    assert found == dict.fromkeys(found, "") | {"beats BM25": GATE}


def test_an_interval_is_over_what_the_least_known_of_its_rows_is_over(state):
    said = {"a": TRAININGS, "b": ONE_TRAINING, "c": QUERIES}
    table = losses(dict.fromkeys(said, -0.2))
    table["over"] = table["model"].map(said)
    wanted = {
        "a": TRAININGS,
        "b": ONE_TRAINING,
        "c": QUERIES,
        "ab": ONE_TRAINING,
        "ac": TRAININGS,
        "cb": ONE_TRAINING,
    }
    claims = state(*(claim(name, "below", {"model": list(name)}) for name in wanted))
    found = concluded(answered(claims, [table], NOBODY))
    assert dict(zip(found["claim"], found["over"], strict=True)) == wanted


def test_an_answer_says_what_its_interval_is_over():
    answer = told("resttest-dense", verdict="holds").assign(over=ONE_TRAINING)
    [sentence] = wording.sentences({"MedQuAD": answer}, "03_resttest")
    assert sentence.endswith(
        "; simultaneous 95 % confidence intervals over queries of one training run)."
    )


def repro_eval(base, advanced, base_published, advanced_published):
    """Effect ratio and delta relative improvement of values by topic, as Breuer et al. (SIGIR 2020)
    define them.
    """
    ratio = np.mean(advanced - base) / np.mean(advanced_published - base_published)
    improvement = [(np.mean(new) - np.mean(old)) / np.mean(old) for old, new in ((base, advanced),)]
    published = (np.mean(advanced_published) - np.mean(base_published)) / np.mean(base_published)
    return ratio, published - improvement[0]


def test_effect_ratio_and_delta_ri_are_those_of_repro_eval(state):
    values = measured({"a": -0.2, "b": -0.1}, trainings=1)
    table, by_topic = compared(values), {}
    for key, part in values.groupby(["model", "regime"]):
        by_topic[key] = part.set_index("query_id")["value"].sort_index().to_numpy()
    theirs = np.full(50, 0.6) + RANDOM.permutation(np.linspace(-0.1, 0.1, 50)), np.full(50, 0.45)
    levels = tuple(each.mean() for each in theirs)
    claims = state(
        claim("change", "below", {"model": "a"}, levels=levels),
        claim(
            "systems", "below", {"model": "b"}, {"model": "a"}, levels=levels, side="out of domain"
        ),
        claim("unpublished", "below", {"model": "a"}),
    )
    found = answered(claims, [table], NOBODY).set_index("claim")
    sides = {
        "change": (("a", "interpolation"), ("a", "extrapolation")),
        "systems": (("a", "extrapolation"), ("b", "extrapolation")),  # minus is the baseline
    }
    for name, (base, advanced) in sides.items():
        expected = repro_eval(by_topic[base], by_topic[advanced], *theirs)
        assert found.loc[name, ["effect_ratio", "delta_ri"]].tolist() == pytest.approx(
            list(expected)
        )
        drawn = {model: table[table["model"] == model] for model in "ab"}
        first, second = (
            drawn[m].drawn("first" if regime == "interpolation" else "second")[0]
            for m, regime in (base, advanced)
        )
        ratios = (second - first) / (levels[1] - levels[0])
        differences = (levels[1] / levels[0] - 1) - (second / first - 1)
        for measure, draws in (("effect_ratio", ratios), ("delta_ri", differences)):
            ends = found.loc[name, [f"{measure}_low", f"{measure}_high"]].tolist()
            assert ends == pytest.approx(np.quantile(draws, [0.025, 0.975]).tolist(), abs=0.01)
            assert ends[0] < found.loc[name, measure] < ends[1]
    assert found.loc["unpublished", NEARNESS].isna().all()
    assert set(NEARNESS) <= set(concluded(answered(claims, [table], NOBODY)))


def test_effect_ratio_by_hand(state):
    """Ours .50 to .40, theirs .60 to .45: two thirds of the effect; relative improvements -.20 and
    -.25.
    """
    values = measured({"a": 0.0}, trainings=1, n_queries=40)
    at = values["query_id"].str.slice(1).astype(int) % 2
    values["value"] = np.where(values["regime"] == "interpolation", 0.4 + 0.2 * at, 0.4)
    [row] = answered(
        state(claim("one", "below", {"model": "a"}, levels=(0.6, 0.45))), [compared(values)], NOBODY
    ).to_dict("records")
    assert (row["effect_ratio"], row["delta_ri"]) == (pytest.approx(2 / 3), pytest.approx(-0.05))


def test_effect_ratio_over_worlds_has_students_interval(state):
    state(
        claim("one", "below", {"model": "a"}, levels=(0.6, 0.45)),
        claim("two", "below", {"model": "a"}),
    )
    worlds, gates = in_worlds(["one", "two"], RANDOM.normal(-0.1, 0.02, size=(6, 2)))
    measures = {
        "effect_ratio": RANDOM.normal(0.7, 0.1, size=6),
        "delta_ri": RANDOM.normal(-0.05, 0.02, size=6),
    }
    for at, world in enumerate(worlds):
        for name, of_worlds in measures.items():
            world[name] = [of_worlds[at], np.nan]
    found = over_worlds(worlds, gates).set_index("claim")
    for name, of_worlds in measures.items():
        ends = stats.ttest_1samp(of_worlds, 0).confidence_interval()
        row = found.loc["one", [name, f"{name}_low", f"{name}_high"]].tolist()
        assert row == pytest.approx([of_worlds.mean(), *ends])
    assert found.loc["two", NEARNESS].isna().all()


VALUES = measured(
    dict(zip("abcdef", (-0.1, -0.2, -0.13, -0.4, -0.07, -0.011), strict=True)), n_queries=40
)
MANY = [
    claim("mean", "below", {"model": ["c", "a", "b"]}, levels=(0.6, 0.5)),
    claim("contrast", "above", {"model": ["f", "e", "d"]}, {"model": ["b", "c", "a"]}),
    claim("same", "equal", {"model": ["e", "f", "a", "b", "c"]}, side="in domain", margin=0.6),
    claim("far", "below", {"model": ["A", "B", "C"], "band": "far"}, **GATED),
]
AHEAD = pd.DataFrame(
    {"model": list("ABCDEF"), "lead": 0.1, "lead_low": [0.02, 0.01, 0.03, 0.04, 0.05, 0.06]}
)


def tables_of(values):
    """Two tables of some values: the systems a to f, and A to F in a band."""
    of_bands = values.assign(band="far", model=values["model"].str.upper())
    return [compared(values), compared(of_bands, "band")]


def made_of(values):
    return concluded(answered(MANY, tables_of(values), AHEAD), MANY)


def test_the_order_of_rows_and_tables_moves_no_claim():
    """To the last digit: estimate, interval, p-values, verdict."""
    tables, random = tables_of(VALUES), np.random.default_rng(5)
    expected = concluded(answered(MANY, tables, AHEAD), MANY)
    for turned in (1, -1, 1, -1):
        shuffled = [table.iloc[random.permutation(len(table))] for table in tables][::turned]
        found = concluded(answered(MANY, shuffled, AHEAD.sample(frac=1, random_state=7)), MANY)
        pd.testing.assert_frame_equal(found, expected, check_exact=True)
    pd.testing.assert_frame_equal(
        made_of(VALUES.sample(frac=1, random_state=7)), expected, check_exact=True
    )


def test_a_system_that_no_claim_names_moves_none():
    """Nor does it if its values are on other queries, or of one training."""
    expected = made_of(VALUES)
    for more in (
        measured({"z": -0.5}, n_queries=40),
        measured({"z": -0.5}, trainings=1, n_queries=70),
    ):
        for parts in ([VALUES, more], [more, VALUES]):
            found = made_of(pd.concat(parts, ignore_index=True))
            pd.testing.assert_frame_equal(found, expected, check_exact=True)

"""The rule by which claims are judged over collections."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from interextra.claims import collections_wording
from interextra.claims.claim import REAL, of_collections, of_notebook, stated
from interextra.claims.over_collections import DESCRIBED, judged, of_each

NAMES = ["a", "b", "c", "d"]
LOSS, EQUAL = "real-kind-dense", "real-exposure-control: as many as the kind has"


def table(claim=LOSS, estimate=-0.1, queries=0.02, trainings=0.0, n_trainings=1, lead_low=0.1):
    row = {"claim": claim, "estimate": estimate, "error_queries": queries, "n_queries": 100}
    row |= {"error_trainings": trainings, "n_trainings": n_trainings}
    return pd.DataFrame([row | {"lead": lead_low + 0.1, "lead_low": lead_low}])


def over(*tables, deciding=NAMES):
    return judged(of_each(dict(zip(NAMES, tables, strict=False))), deciding)


def test_the_mean_has_the_errors_of_all_collections():
    errors = [0.01, 0.02, 0.03, 0.04]
    found = over(*[table(estimate=-error * 10, queries=error) for error in errors]).iloc[0]
    error = np.sqrt(np.square(errors).sum()) / 4
    assert found["estimate"] == pytest.approx(-0.25)
    assert found["error"] == pytest.approx(error)
    assert found["high"] == pytest.approx(-0.25 + 1.959964 * error)
    assert found["p_value"] == pytest.approx(2 * stats.norm.sf(0.25 / error))
    assert found["verdict"] == "holds" and found["k"] == found["n"] == 4


def test_a_collection_trained_on_once_borrows_the_variance_of_a_single_training():
    twice = [table(trainings=0.03, n_trainings=2), table(trainings=0.01, n_trainings=2)]
    each = of_each({"a": twice[0], "b": twice[1], "c": table(), "d": table()})
    of_one = np.mean([2 * 0.03**2, 2 * 0.01**2])
    assert each["borrowed"].tolist() == [False, False, True, True]
    assert each["error"].iloc[2] == pytest.approx(np.sqrt(0.02**2 + of_one))
    assert each["error"].iloc[0] == pytest.approx(np.hypot(0.02, 0.03))


def test_of_untrained_systems_nothing_is_borrowed():
    each = of_each({name: table() for name in NAMES})
    assert not each["borrowed"].any() and (each["error"] == 0.02).all()


@pytest.mark.parametrize(
    "estimates, verdict",
    [
        ([-0.1, -0.1, -0.1, -0.1], "holds"),
        ([-0.3, -0.3, -0.3, 0.1], "depends on the collection"),
        ([0.1, 0.1, 0.1, 0.1], "contradicted"),
        ([-0.01, 0.01, -0.01, 0.01], "open"),
    ],
)
def test_the_rule_of_a_direction(estimates, verdict):
    found = over(*[table(estimate=estimate) for estimate in estimates]).iloc[0]
    assert found["verdict"] == verdict
    assert found["k"] == sum(estimate < -0.04 for estimate in estimates)


@pytest.mark.parametrize(
    "estimates, verdict",
    [
        ([0.001, -0.001, 0.002, 0.0], "holds"),
        ([0.05, -0.05, 0.0, 0.0], "depends on the collection"),
        ([0.05, 0.05, 0.04, 0.06], "contradicted"),
        ([0.012, 0.014, 0.013, 0.015], "open"),
    ],
)
def test_the_rule_of_equality(estimates, verdict):
    """Its margin is 1.5 points."""
    tables = [table(EQUAL, estimate, queries=0.005) for estimate in estimates]
    assert over(*tables)["verdict"].item() == verdict


def test_a_difference_without_any_error_is_no_evidence():
    """Fixed BM25 ranks alike whatever it is trained on."""
    tables = [table(EQUAL, 0.0, queries=0.0) for _ in NAMES]
    found = over(*tables)
    assert found["verdict"].item() == "constant" and np.isnan(found["p_value"].item())
    [text] = collections_wording.decisions(found).values()
    assert text == "open (the same on every query: there is nothing to test)"
    each = of_each(dict(zip(NAMES, tables, strict=True)))
    [line] = collections_wording.page(each, found).to_dict("records")
    assert line["mean"] == "0.0" and line["unit"] == "points"
    assert {line[name] for name in ("finds", "random effects", "prediction")} == {"–"}


def test_claims_of_a_notebook_are_a_family_whichever_are_answered():
    """A verdict does not change when the other claims of the notebook get their answers."""
    n_asked = sum(
        claim.notebook == of_collections()[LOSS].notebook for claim in of_collections().values()
    )
    assert n_asked > 2
    one = [table(estimate=-0.03)] * 4
    found = over(*one)
    assert found["p_holm"].item() == pytest.approx(n_asked * found["p_value"].item())
    below = table("real-kind-below-bm25: on a left-out kind", -0.5, 0.02)
    both = over(*[pd.concat([part, below]) for part in one])
    assert both["p_holm"].iloc[0] == pytest.approx((n_asked - 1) * both["p_value"].iloc[0])
    assert both["resolution"].iloc[0] == found["resolution"].item()


def test_the_gate_names_the_collections_where_a_system_is_ahead_of_bm25():
    leads = [0.1, -0.1, np.nan, 0.2]
    found = over(*[table(lead_low=lead) for lead in leads])
    assert found["gate"].item() == "a, d" and found["verdict"].item() == "holds"
    closed = over(*[table(lead_low=-0.1) for _ in NAMES])
    assert closed["gate"].item() == "none"
    without = over(*[table(EQUAL, 0.0, 0.001, lead_low=-0.1) for _ in NAMES])
    assert without["gate"].item() == ""


def test_a_collection_that_was_seen_decides_nothing():
    tables = [table(estimate=-0.1)] * 3 + [table(estimate=5.0)]
    found = over(*tables, deciding=NAMES[:3])
    assert found["estimate"].item() == pytest.approx(-0.1) and found["n"].item() == 3


def test_a_decision_says_on_how_many_and_what_the_gate_says():
    found = over(*[table(lead_low=lead) for lead in (0.1, -0.1, -0.1, 0.2)])
    [text] = collections_wording.decisions(found).values()
    assert text == (
        "no verdict, not ahead of BM25 on each (ahead in domain on 2 of 4: a, d); judged all the same: holds on 4 of 4"
    )
    [text] = collections_wording.decisions(over(*[table() for _ in NAMES])).values()
    assert text == "holds on 4 of 4"


def test_a_claim_of_several_parts_is_open_where_the_gate_of_one_is_closed():
    kinds = ("random and in-batch negatives", "BM25's and in-batch negatives")
    parts = [f"real-kind-splade-dense: {kind}" for kind in kinds]
    leads = {"a": (0.1, 0.1), "b": (0.1, -0.1), "c": (-0.1, 0.1), "d": (-0.1, -0.1)}
    tables = [
        pd.concat([table(part, 0.1, lead_low=lead) for part, lead in zip(parts, both, strict=True)])
        for both in leads.values()
    ]
    [text] = collections_wording.decisions(over(*tables)).values()
    assert text.startswith(
        "no verdict, not ahead of BM25 on each (ahead in domain on 1 of 4: a); judged"
    )


def test_a_decision_names_the_collections_that_hold_and_those_that_disagree():
    estimates = [-0.2, -0.2, -0.01, -0.3]
    found = over(*[table(estimate=estimate, queries=0.02) for estimate in estimates])
    assert found["holds_on"].item() == "a, b, d" and found["against_on"].item() == ""
    [text] = collections_wording.decisions(found).values()
    assert text == "holds on 3 of 4 (a, b, d)"
    found = over(*[table(estimate=estimate, queries=0.02) for estimate in [-0.3, -0.3, 0.1, -0.3]])
    assert found["against_on"].item() == "c"
    [text] = collections_wording.decisions(found).values()
    assert text == "depends on the collection (the opposite on c)"


def test_a_claim_holds_where_all_its_parts_do():
    parts = ["real-exposure-control: as many as the kind has"]
    parts.append("real-exposure-control: as many as the test answers are")

    def both(first, second):
        rows = [
            table(part, value, 0.003) for part, value in zip(parts, (first, second), strict=True)
        ]
        return over(*[pd.concat(rows)] * 4)

    [text] = collections_wording.decisions(both(0.0, 0.001)).values()
    assert text == "holds on 4 of 4"
    [text] = collections_wording.decisions(both(0.0, 0.03)).values()
    assert text == "contradicted"
    [text] = collections_wording.decisions(both(0.0, 0.0145)).values()
    assert text.startswith("open, an effect of the margin needs ")


def test_the_page_has_a_column_a_collection_and_the_mean():
    each = of_each({name: table() for name in NAMES})
    found = judged(each, NAMES[:3])
    shown = collections_wording.page(each, found)
    over_others = ["random effects", "prediction"]
    assert list(shown) == ["claim", "unit", *NAMES, "mean", "finds", *over_others, "worlds"]
    row = found.iloc[0]
    assert shown["random effects"].item().startswith(f"{100 * row['random_effects']:+.1f} [")
    low, high = 100 * row["prediction_low"], 100 * row["prediction_high"]
    assert (
        shown["prediction"].item() == f"{low:+.1f} to {high:+.1f}" and shown["unit"].item() == "%"
    )
    assert shown["worlds"].item() == "–"
    assert shown["a"].item() == "-10.0 [-13.9, -6.1]"
    claimed = "Dense retrieval loses on a left-out kind"
    known = "Known before: Lupart et al., Table 2: -11.1 %."
    assert collections_wording.sentences(found) == [f"{claimed}: holds on 3 of 3. {known}"]


def test_the_forest_marks_what_the_gate_excludes_and_what_was_seen():
    each = of_each(
        {name: table(lead_low=lead) for name, lead in zip(NAMES, (1, -1, 1, 1), strict=True)}
    )
    rows = collections_wording.forest_rows(each, judged(each, NAMES[:3]), NAMES[:3])
    assert rows["collection"].tolist() == ["a", "b", "c", "d (seen)", "mean"]
    assert rows["excluded"].tolist() == [False, True, False, False, False]


def test_a_claim_that_a_collection_does_not_answer_has_no_mean():
    each = of_each({name: table() for name in NAMES[:2]})
    found = judged(each, NAMES[:3])
    assert found["verdict"].tolist() == ["incomplete"] and found["n"].tolist() == [2]
    assert found[["estimate", "p_holm"]].isna().all(axis=None)
    shown = collections_wording.page(each, found)
    assert shown["mean"].item() == "–" and shown["a"].item() == "-10.0 [-13.9, -6.1]"
    [sentence] = collections_wording.sentences(found)
    assert "kind: incomplete, 2 of the collections that decide answer it. Known" in sentence
    rows = collections_wording.forest_rows(each, found)
    assert rows["collection"].tolist() == ["a", "b"]


def test_what_worlds_say_and_what_is_published_stand_beside_a_claim_of_the_same_measure():
    names = ("real-resttest-dense", "real-exposure-kind")  # the second one: of another scale
    each = of_each({name: pd.concat([table(claim) for claim in names]) for name in NAMES})
    found = judged(each, NAMES)
    claims = {"resttest-dense": -0.08, "exposure-kind": 0.07}
    rows = [
        {"claim": name, "estimate": one, "low": one - 0.01, "high": one + 0.01}
        for name, one in claims.items()
    ]
    worlds = pd.DataFrame(rows)
    shown = collections_wording.page(each, found, worlds)
    assert shown["worlds"].tolist() == ["-8.0 [-9.0, -7.0]", "–"]
    drawn = collections_wording.forest_rows(each, found, of_worlds=worlds)
    of_first = drawn[drawn["claim"] == "resttest dense"].set_index("collection")
    assert of_first.index.tolist() == [*NAMES, "mean", "worlds"]
    assert of_first.loc["mean", "published"] == pytest.approx(-0.115)
    assert of_first["published"].notna().sum() == 1
    of_second = drawn[drawn["claim"] == "exposure kind"]
    assert of_second["collection"].tolist() == [*NAMES, "mean"]
    assert of_second["published"].isna().all()


def test_a_claim_that_the_section_does_not_ask_is_described():
    described = table("hard-negatives-gap", 0.02)
    each = of_each({"a": described, "b": described})
    judged_rows = judged(each, NAMES)
    assert judged_rows["verdict"].tolist() == [DESCRIBED]
    assert judged_rows["estimate"].isna().all()
    [row] = collections_wording.page(each, judged_rows).to_dict("records")
    assert row["a"] == row["b"] and row["a"].startswith("+2.0 [")
    assert row["unit"] == "percentage points of Δ"
    assert row["mean"] == "–"
    [sentence] = collections_wording.sentences(judged_rows)
    assert sentence.endswith("loss: described on 2 collections, no verdict.")
    drawn = collections_wording.forest_rows(each, judged_rows)
    assert drawn["collection"].tolist() == ["a", "b"]


def test_notebooks_of_the_section_answer_its_claims_alone_and_others_the_papers():
    asked = {claim.name for claim in of_notebook("05_architecture_comparison", REAL)}
    assert asked <= of_collections().keys()
    others = {claim.name for claim in of_notebook("06_pretraining_study", REAL)}
    assert "hard-negatives-gap" in others and others <= stated().keys()

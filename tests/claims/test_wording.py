"""What is said of claims, word for word: one case for each template of `claims.wording`."""

import numpy as np
import pandas as pd
import pytest

from interextra.claims import wording
from interextra.claims.claim import stated
from interextra.claims.judgement import FEW, GATE, NO_VARIATION, UNMEASURED, WITHIN
from interextra.claims.wording import conclusion, formatted, margin, page, published, sentences
from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS

LOSS = {"estimate": -0.1, "low": -0.14, "high": -0.06}
HARDLY = {"estimate": -0.01, "low": -0.03, "high": 0.01}
UNCLEAR = {"estimate": -0.02, "low": -0.09, "high": 0.05}
CORRELATION = {"estimate": 0.4, "low": 0.1, "high": 0.7}


def table(claim, estimate, verdict, size="", reason="", over=TRAININGS):
    """A table of claims with one row."""
    row = {"claim": claim, "verdict": verdict, "size": size, "reason": reason, "over": over}
    return pd.DataFrame([row | estimate])


def sentence(notebook="", **tables):
    """The sentence of the claim of some tables, by data set; of a notebook: its answer."""
    [text] = sentences(tables, notebook)
    return text


def test_a_decided_claim_has_its_conclusion_and_its_estimates():
    assert sentence(MedQuAD=table("resttest-dense", LOSS, "holds")) == (
        "A dense retriever is less effective on a bucket of queries that was excluded from its "
        "training: agrees in direction on real data seen before "
        "(RR@10: MedQuAD -10.0 % [-14.0, -6.0]; published -11.5 %)."
    )


def test_an_effect_within_the_margin_is_called_small_beside_the_margin():
    assert sentence(MedQuAD=table("resttest-dense", LOSS, "holds", WITHIN)) == (
        "A dense retriever is less effective on a bucket of queries that was excluded from its "
        "training: agrees in direction, but smaller than the margin, on real data seen before "
        "(RR@10: MedQuAD -10.0 % [-14.0, -6.0]; published -11.5 %; margin 5.0 %)."
    )


def test_an_undecided_claim_has_its_reason():
    small = table("resttest-dense", UNCLEAR, "undecided", reason="queries")
    worlds = table("resttest-dense", LOSS, "holds", over="worlds")
    assert sentence(MedQuAD=small, worlds=worlds) == (
        "A dense retriever is less effective on a bucket of queries that was excluded from its "
        "training: agrees in direction in the worlds, undecided on real data, too few queries "
        "(RR@10: MedQuAD -2.0 % [-9.0, +5.0]; fourteen worlds -10.0 % [-14.0, -6.0]; "
        "published -11.5 %)."
    )


def test_an_answer_that_worlds_alone_give_says_so():
    notebook = "05_architecture_comparison"
    holds = table("resttest-colbert-dense", {"estimate": 0.06, "low": 0.04, "high": 0.08}, "holds")
    unclear = table("resttest-colbert-dense", UNCLEAR, "undecided", reason="queries")
    answer = "ColBERT extrapolates better than dense retrieval, since it loses less: "
    assert sentence(notebook, MedQuAD=unclear, worlds=holds).startswith(
        f"In generated worlds: {answer}agrees in direction in the worlds, undecided on real data"
    )
    assert sentence(notebook, worlds=holds).startswith(f"In generated worlds: {answer}")
    assert sentence(notebook, MedQuAD=holds, worlds=unclear).startswith(answer)


def test_a_claim_that_a_data_set_cannot_test_says_why():
    assert sentence(MedQuAD=table("restrain-bm25", HARDLY, "holds", WITHIN)) == (
        "BM25 is equally effective in both regimes of ReSTrain: not testable on real data "
        "(BM25 is tuned on each training set, so that tuning moves it; fixed BM25 gives the same "
        "run in both regimes) "
        "(nDCG@10: MedQuAD -1.0 % [-3.0, +1.0]; published +1.0 %; margin 5.0 %)."
    )


def test_a_question_of_ours_is_supported_and_has_nothing_published():
    assert sentence(worlds=table("exposure-kind", CORRELATION, "holds")) == (
        "Excluding the left-out kind's passages from random negatives reduces the loss of dense "
        "retrieval: supported in the worlds "
        "(RR@10: fourteen worlds +40.0 percentage points of Δ [+10.0, +70.0])."
    )


def test_a_correlation_has_the_name_of_its_statistic_and_no_unit():
    assert sentence(MedQuAD=table("similarity-trend", CORRELATION, "holds")) == (
        "The less similar a query is to the training queries (R), the more a dense retriever "
        "loses on it: agrees in direction on real data seen before "
        "(Kendall, RR@10: MedQuAD +0.40 [+0.10, +0.70])."
    )


def test_an_answer_begins_with_the_sentence_for_its_title_and_ends_with_the_kind_of_intervals():
    small = table("resttest-dense", LOSS, "holds", over=ONE_TRAINING)
    assert sentence("03_resttest", MedQuAD=small) == (
        "We exclude each bucket of queries from training in turn. A dense retriever loses on the "
        "excluded bucket: agrees in direction on real data seen before "
        "(RR@10: MedQuAD -10.0 % [-14.0, -6.0]; published -11.5 %; "
        "simultaneous 95 % confidence intervals over queries of one training run)."
    )


def test_an_answer_without_a_difference_is_that_of_equality():
    small = table("compression-gap", HARDLY, "undecided", WITHIN, "queries", over="")
    assert sentence("10_compression_and_hybrid", MedQuAD=small) == (
        "A compressed retriever loses about as much in extrapolation as the full one: "
        "no difference on real data "
        "(nDCG@10: MedQuAD -1.0 percentage points of Δ [-3.0, +1.0]; "
        "margin 2.5 percentage points of Δ; simultaneous 95 % confidence intervals)."
    )


def test_an_answer_depends_on_the_data_where_they_contradict_each_other():
    small = table("resttest-dense", LOSS, "holds")
    worlds = table("resttest-dense", CORRELATION, "contradicted", over="worlds")
    assert sentence("03_resttest", MedQuAD=small, worlds=worlds) == (
        "It depends on the data. A dense retriever is less effective on a bucket of queries that "
        "was excluded from its training: depends on the data "
        "(RR@10: MedQuAD -10.0 % [-14.0, -6.0]; fourteen worlds +40.0 % [+10.0, +70.0]; "
        "published -11.5 %; simultaneous 95 % confidence intervals over queries and training runs "
        "(MedQuAD); over worlds (fourteen worlds))."
    )


def test_an_open_answer_begins_with_the_reason():
    small = table("resttest-dense", UNCLEAR, "undecided", reason="trainings")
    here = table("resttest-dense", LOSS, "", reason="one world", over=QUERIES)
    assert sentence("03_resttest", MedQuAD=small, here=here) == (
        "We cannot tell whether a dense retriever is less effective on a bucket of queries that was "
        "excluded from its training: undecided, too few training runs "
        "(RR@10: MedQuAD -2.0 % [-9.0, +5.0]; this run -10.0 % [-14.0, -6.0]; published -11.5 %; "
        "simultaneous 95 % confidence intervals over queries and training runs (MedQuAD); "
        "over queries (this run, individual))."
    )


def test_one_generated_world_decides_no_answer_and_a_name_keeps_its_capital():
    here = table("resttest-colbert-dense", UNCLEAR, "", reason="one world", over=QUERIES)
    assert sentence("05_architecture_comparison", here=here) == (
        "We cannot tell whether ColBERT loses less than dense retrieval: not judged, one generated "
        "world decides no claim (RR@10: this run -2.0 percentage points of Δ [-9.0, +5.0]; "
        "published +2.0 percentage points of Δ; individual 95 % confidence intervals over queries)."
    )


def test_an_answer_that_no_data_set_can_test_says_why():
    small = table("restrain-dense", LOSS, "holds")
    assert sentence("02_restrain", MedQuAD=small) == (
        "We cannot tell whether dense retrieval is less effective after training on queries "
        "dissimilar to the test queries: not testable, the loss is shown to be below 5 %, our "
        "falsifier; exempted afterwards, as its sets avoid 1,521 test queries at once, the paper's "
        "97; four other collections lose under such sets, too "
        "(nDCG@10: MedQuAD -10.0 % [-14.0, -6.0]; published -11.0 %; "
        "simultaneous 95 % confidence intervals over queries and training runs)."
    )


@pytest.mark.parametrize(
    ("verdict", "reason", "text"),
    [
        ("", "", "as a secondary claim"),
        ("", "one world", "one generated world decides no claim"),
        ("undecided", "", "no estimate"),
        ("undecided", "models", "too few models"),
        ("undecided", GATE, "a system is not shown to beat BM25 in domain"),
        ("undecided", UNMEASURED, "no lead over BM25 was measured"),
        ("undecided", FEW, "fewer than 10 queries, or 4 models, clusters or worlds"),
        ("undecided", NO_VARIATION, "no variation: all differ by the same"),
    ],
)
def test_each_reason_has_its_words(verdict, reason, text):
    here = table("resttest-dense", UNCLEAR, verdict, reason=reason)
    assert f": {'undecided here' if verdict else 'not judged'}, {text} (RR@10" in sentence(
        here=here
    )


CELLS = {
    "-10.0 % [-14.0, -6.0], 1 model, 5,600 queries, 1 training run: holds": (
        {"verdict": "holds", "n_models": 1, "n_queries": 5600, "n_trainings": 1}
    ),
    "-10.0 % [-14.0, -6.0], 14 worlds: holds, no difference beyond the margin": (
        {"verdict": "holds", "size": WITHIN, "n_worlds": 14, "n_queries": np.nan}
    ),
    "-10.0 % [-14.0, -6.0]: one world": {"reason": "one world"},
    "-10.0 % [-14.0, -6.0]": {},
    "-10.0 % [-14.0, -6.0]: undecided (gate: not shown to beat BM25 in domain; lead +5.1 points)": (
        {"verdict": "undecided", "reason": GATE, "lead": 0.051}
    ),
    "-10.0 % [-14.0, -6.0]: undecided (queries; detects 30.0 %)": (
        {"verdict": "undecided", "reason": "queries", "resolution": 0.3}
    ),
    (
        "-10.0 % [-14.0, -6.0]: undecided "
        "(worlds; detects 46.0 %; out of reach: needs 16 times as many worlds)"
    ): {"verdict": "undecided", "reason": "worlds", "resolution": 0.46},
    (
        "-10.0 % [-14.0, -6.0]: undecided (training runs; detects 46.0 %; "
        "out of reach: needs 16 times as many training runs and queries)"
    ): {
        "verdict": "undecided",
        "reason": "trainings",
        "resolution": 0.46,
        "share_trainings": 0.6,
    },
}


@pytest.mark.parametrize("text", CELLS)
def test_a_cell_has_estimate_counts_verdict_and_reasons(text):
    row = {"claim": "resttest-dense", "verdict": "", "size": "", "reason": ""}
    assert formatted(row | LOSS | CELLS[text]) == text


@pytest.mark.parametrize(
    ("resolution", "text"), [(0.25, "detects 0.25"), (1.5, "detects no correlation")]
)
def test_a_cell_says_which_correlation_is_detected(resolution, text):
    row = {"claim": "similarity-trend", "verdict": "undecided", "size": "", "reason": "queries"}
    cell = formatted(row | CORRELATION | {"resolution": resolution})
    assert cell.startswith(f"+0.40 [+0.10, +0.70]: undecided (queries; {text}")


def test_a_page_has_a_column_a_data_set_and_the_conclusion_last():
    small = table("restrain-dense", LOSS, "holds")
    worlds = table("resttest-bm25", HARDLY, "holds", WITHIN)
    assert page({"MedQuAD": small, "worlds": worlds}).to_dict("records") == [
        {
            "claim": "Dense retrieval is less effective after training on queries dissimilar to "
            "the test queries.",
            "margin": "5.0 %",
            "published": "-11.0 %",
            "MedQuAD": "-10.0 % [-14.0, -6.0]: holds",
            "fourteen worlds": "–",
            "conclusion": "not testable on real data (the loss is shown to be below 5 %, our falsifier; "
            "exempted afterwards, as its sets avoid 1,521 test queries at once, the paper's 97; four "
            "other collections lose under such sets, too)",
        },
        {
            "claim": "BM25 is equally effective in both regimes of ReSTTest.",
            "margin": "5.0 %",
            "published": "-0.5 %",
            "MedQuAD": "–",
            "fourteen worlds": "-1.0 % [-3.0, +1.0]: holds, no difference beyond the margin",
            "conclusion": "agrees in the worlds",
        },
    ]


def test_a_conclusion_says_why_there_is_no_verdict_and_what_was_put_right():
    secondary = table("resttest-splade-dense", HARDLY, "")
    reworded = table("resttest-splade", LOSS, "holds")
    shown = page({"MedQuAD": pd.concat([secondary, reworded])})["conclusion"]
    assert shown[0] == "not judged, as a secondary claim"
    assert shown[1] == (
        "agrees in direction on real data seen before (before the runs: loses as dense retrieval "
        "does, which says more than the row tests)"
    )


def test_margin_and_published_effect_have_the_unit_of_the_claim():
    claims = stated()
    predicts = claims["extrapolation-predicts"]
    assert (margin(predicts), published(predicts)) == ("0.30", "+0.52")
    assert published(claims["similarity-trend"]) == "–"
    assert margin(claims["interpolation-colbert-dense"]) == "3.5 points"


def test_data_sets_that_say_the_same_are_not_named():
    undecided = {"verdict": "undecided", "size": "", "reason": "queries"}
    claim = stated()["resttest-dense"]
    assert conclusion(claim, {"MedQuAD": undecided, "worlds": undecided}) == "undecided"


def test_a_page_has_what_real_collections_say_of_the_claims_that_they_were_asked():
    row = {"claim": "real-resttest-dense", "estimate": -0.076, "low": -0.1, "high": -0.05}
    row |= {"verdict": "holds", "gate": "a, b", "n": 2, "k": 2, "holds_on": "a, b"}
    both = pd.concat(
        [table("resttest-dense", LOSS, "holds"), table("resttest-bm25", HARDLY, "holds")]
    )
    shown = page({"MedQuAD": both}, pd.DataFrame([row])).set_index("claim")[wording.FOUR]
    assert shown.tolist() == ["-7.6 % [-10.0, -5.0]: holds on 2 of 2", "–"]
    assert list(page({"MedQuAD": both}, pd.DataFrame([row])))[-2:] == [wording.FOUR, "conclusion"]
    assert wording.FOUR not in page({"MedQuAD": both})

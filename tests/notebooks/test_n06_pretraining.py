"""Notebook 06: its plan, what each start has, what each thing adds, and what is concluded."""

import re

import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_named

from interextra.claims import claim, judgement
from interextra.models.model import Pretrained
from interextra.notebooks import n06_pretraining as pretraining
from interextra.notebooks.n05_architectures import six_passages
from interextra.notebooks.plans import cells_of
from interextra.splits.split import REGIMES
from interextra.stats.effects import Effects, effects
from interextra.store.errors import InputError

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "test_splits": ["test"],
    "resttest_splits": ["test"],
    "protocols": ["ReSTrain", "ReSTTest"],
    "encoder": "trained",
    "recipes": ["bm25", "mini-dense"],
    "strategies": [
        "bm25",
        {"label": "Random", "recipe": "mini-dense"},
        {"label": "STAR", "recipe": "mini-star"},
        {"label": "ADORE", "recipe": "mini-adore"},
        {"label": "TCT-ColBERT", "recipe": "mini-tct"},
    ],
    "starts": [
        {"label": "nothing", "objective": "none", "text": "none"},
        {"label": "words", "objective": "words", "text": "other"},
        {"label": "spans, other", "objective": "spans", "text": "other"},
        {"label": "spans", "objective": "spans", "text": "target"},
    ],
    "gate_splits": [],
    "mapped": ["nothing"],
    "start_recipe": {"recipe": "mini-dense", "initialisation": "random"},
    "pretraining_steps": 3,
    "pretraining_rate": 0.006,
    "other_text": ["mini:ood-hobby-questions"],
    "steps": 0,
    "sizes": [60],
    "trained_sizes": [60],
    "match": "exact",
    "k": 2,
    "fold_size": 0,
    "seeds": [1, 2],
    "restrain_measures": ["nDCG@10", "R@100"],
    "resttest_measures": ["RR@10", "R@100"],
    "start_measures": ["R@100"],
    "recall_relevance": 2,
    "depth": 10,
    "seed": 1,
}


@pytest.fixture(scope="module")
def plan():
    return plan_named("06_pretraining_study", P)


def test_plan_trains_each_way_and_each_start_once(plan):
    trained = plan.strategies_restrain[plan.strategies_restrain["model"] != "BM25"]
    assert trained.groupby("model").size().to_dict() == dict.fromkeys(
        ("Random", "STAR", "ADORE", "TCT-ColBERT"), 4
    )
    assert plan.starts_restrain["model"].unique().tolist() == [
        "BM25",
        "nothing",
        "words",
        "spans, other",
        "spans",
    ]
    assert plan.judged_by["starts"] == {"ReSTrain": "R(rel=2)@100", "ReSTTest": "R@100"}
    assert set(plan.starts_resttest["left_out"]) == {"1", "2"}


def test_what_comes_first_is_trained_on_the_same_queries_and_shared(plan):
    runs = plan.strategies_restrain.set_index(["model", "regime", "seed"])["run"]
    random, star, adore = (runs[name, REGIMES[0], 2].model for name in ("Random", "STAR", "ADORE"))
    assert star.first.key == star.ranking.model.key == random.key and adore.first.key == star.key
    assert (
        star.ranking.queries == (star.train,) and star.ranking.depth == star.recipe.negative_depth
    )
    teacher = runs["TCT-ColBERT", REGIMES[0], 2].model.teacher
    assert (teacher.recipe.architecture, teacher.seed) == ("colbert", 2)
    kinds = {cell.key for run in runs for cell in run.model.needs() if isinstance(cell, Pretrained)}
    assert not kinds
    seeds = [
        cell.seed
        for cell in cells_of(
            [
                row.run.model.first
                for row in plan.starts_restrain.itertuples()
                if row.model == "spans"
            ]
        )
    ]
    assert sorted(seeds) == [1, 2]  # a pretraining a training, shared by its regimes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocols": ["nope"]}, "'protocols': write ReSTrain, or ReSTrain and ReSTTest"),
        ({"protocols": ["ReSTTest"]}, "'protocols': write ReSTrain, or ReSTrain and ReSTTest"),
        (
            {"protocols": ["ReSTrain", "nope"]},
            "'protocols': write ReSTrain, or ReSTrain and ReSTTest",
        ),
        ({"mapped": ["words", "nope"]}, "'mapped': 'nope' is none of '"),
        (
            {"strategies": [{"label": "Lexical", "recipe": "bm25"}, *P["strategies"][1:]]},
            "'strategies': no system is BM25",
        ),
        ({"trained_sizes": [60, 61]}, "'trained_sizes': 61 is none of 60"),
    ],
)
def test_what_ended_after_all_trainings_is_refused_in_the_plan(change, said):
    assert not plan_named("06_pretraining_study", P | {"mapped": ["words"]}).starts_restrain.empty
    with pytest.raises(InputError, match=said):
        plan_named("06_pretraining_study", P | change)


def test_no_analysis_computes_a_result_that_the_provenance_misses(root):
    """The vectors of Table 10 trained a model whose weights were gone, and the provenance did not
    name it.
    """
    folders = {
        "lib/interextra/own": "*.py",
        "lib/interextra/notebooks": "*.py",
        "notebooks": "*.ipynb",
    }
    files = [path for folder, form in folders.items() for path in (root / folder).glob(form)]
    texts = {path.name: path.read_text() for path in files}
    building = {name for name, text in texts.items() if re.search(r"store\.build\b", text)}
    # The commands, which no notebook's provenance names, and what computes for a caller who gives
    # nothing else
    own = {"api.py", "commands.py", "curve.py", "probe.py", "splitting.py"}
    assert len(files) > 15 and building == own
    assert all(
        "compute=nb.run" in text
        for text in texts.values()
        if re.search(r"ix\.probe\((?!train=f)", text)
    )


def test_without_resttest_there_are_no_buckets(plan):
    assert plan_named("06_pretraining_study", P | {"protocols": ["ReSTrain"]}).starts_resttest.empty
    with pytest.raises(
        InputError, match="'starts, words': 'wiki' is none of 'none', 'other', 'target'"
    ):
        plan_named(
            "06_pretraining_study",
            P | {"starts": [{"label": "words", "objective": "words", "text": "wiki"}]},
        )


def test_marks_say_what_a_start_has_and_whose_place_it_takes(plan):
    marks = plan.marks.set_index("model")
    assert marks["te"].to_dict() == {
        "nothing": False,
        "words": False,
        "spans, other": True,
        "spans": True,
    }
    assert marks["tc"].to_dict() == {
        "nothing": False,
        "words": False,
        "spans, other": False,
        "spans": True,
    }
    assert marks["role"].tolist() == ["", "RoBERTa", "coCon-wiki", "coCon-marco"]
    theirs = pretraining.published_table(9, 2).set_index(["role", "protocol", "measure"])["scaled"]
    assert (
        theirs["Rand", "ReSTrain", "R(rel=2)@100"] == -0.30
        and theirs["coCon-marco", "ReSTTest", "R@100"] == -0.03
    )
    assert ("BERT, HardNeg", "ReSTrain", "nDCG@10") in pretraining.published_table(8, 2).set_index(
        ["role", "protocol", "measure"]
    ).index
    assert "R@100" in set(
        pretraining.published_table(9, 1).query("protocol == 'ReSTrain'")["measure"]
    )


def test_starts_from_given_weights_keep_what_these_have():
    more = [
        {
            "label": "Rand",
            "objective": "none",
            "text": "none",
            "recipe": "small-dense",
            "initialisation": "minilm:layers=2:random",
        },
        {"label": "MiniLM", "objective": "pairs", "text": "other", "recipe": "small-dense"},
        {"label": "words, target", "objective": "words", "text": "target"},
        {"label": "spans, target", "objective": "spans", "text": "target"},
    ]
    plan = plan_named(
        "06_pretraining_study",
        P | {"mapped": ["Rand"]} | {"starts": more, "start_recipe": "small-dense"},
    )
    marks = plan.marks.set_index("model")
    assert marks["te"].to_dict() == {
        "Rand": False,
        "MiniLM": True,
        "words, target": True,
        "spans, target": True,
    }
    assert marks["made"].tolist() == ["given", "base", "ours", "ours"]
    # "words" goes on from a model that has had a task for the whole text: it is not in RoBERTa's
    # place
    assert marks["role"].tolist() == ["Rand", "", "", "coCon-marco"]
    assert list(plan.pretrained) == ["words, target", "spans, target"]
    runs = plan.starts_restrain.drop_duplicates("model").set_index("model")["run"]
    assert (
        runs["Rand"].model.first is None and runs["Rand"].model.start == runs["MiniLM"].model.start
    )
    assert runs["spans, target"].model.first.initialisation == "minilm:layers=2"
    levels = {("starts", name): (0.6, 0.5 + 0.01 * place) for place, name in enumerate(marks.index)}
    made = table(levels)
    added = pretraining.steps(made, plan.marks)
    assert added["added"].tolist() == ["words, on the target"] and added["second"].tolist() == [
        "MiniLM"
    ]
    with pytest.raises(InputError, match="'starts, X': 'word' is none of 'none', 'words'"):
        plan_named(
            "06_pretraining_study",
            P
            | {
                "starts": [
                    {"label": "X", "objective": "word", "text": "other", "recipe": "mini-dense"}
                ]
            },
        )
    with pytest.raises(InputError, match=r"'start_measures, ReSTrain': 'AP' is none of"):
        plan_named("06_pretraining_study", P | {"start_measures": ["AP"]})


def table(levels, noise=0.01):
    """Effects of systems with the given interpolation and extrapolation: (study, model) → both."""
    draw, parts = np.random.default_rng(1), []
    base = np.random.default_rng(2).normal(scale=0.1, size=300)
    for (study, model), sides in levels.items():
        for regime, level in zip(REGIMES, sides, strict=True):
            values = level + base + draw.normal(scale=noise, size=300)
            row = {"study": study, "model": model, "regime": regime, "seed": 1}
            parts.append(
                pd.DataFrame(
                    row | {"query_id": np.arange(300), "measure": "R@100", "value": values}
                )
            )
    by = ["study", "model", "measure"]
    how = {
        "on": "regime",
        "sides": REGIMES,
        "effect": "delta",
        "seed": 1,
        "n_boot": 500,
        "family": [],
    }
    return effects(pd.concat(parts), by, **how)


def test_claims_of_section_5_2_are_answered_by_the_rows_of_both_studies():
    names = ["Random", "STAR", "ADORE", "TCT-ColBERT"]
    levels = {("strategies", name): (0.60 + 0.02 * at, 0.5) for at, name in enumerate(names)}
    levels |= {("starts", "Rand"): (0.4, 0.3), ("starts", "words"): (0.6, 0.55)}
    levels |= {("starts", "coCondenser, target"): (0.6, 0.58)}
    made = table(levels).assign(protocol="ReSTTest")
    made = Effects(pd.concat([made, made.assign(measure="RR@10")], ignore_index=True))
    ahead = made[["study", "model", "protocol", "measure"]].assign(lead=0.2, lead_low=0.1)
    answers = claim.answered(claim.of_notebook("06_pretraining_study"), [made], ahead)
    found = judgement.concluded(answers).set_index("claim")
    assert found.loc["pretraining-gap", "estimate"] == pytest.approx(1 / 6 - 0.02 / 0.6, abs=0.01)
    assert found.loc["hard-negatives-interpolation", "estimate"] == pytest.approx(0.03, abs=0.005)
    holding = ["hard-negatives-interpolation", "pretraining-gap", "random-initialisation-gap"]
    assert found.loc[holding, "verdict"].tolist() == ["holds"] * 3
    assert (
        found.loc["hard-negatives-gap", "verdict"] == "contradicted"
    )  # they lose 4 points more: no equality
    assert "target-collection-gap" not in found.index  # a start that is not there
    closed = judgement.concluded(
        claim.answered(claim.of_notebook("06_pretraining_study"), [made], ahead.iloc[:0])
    )
    closed = closed.set_index("claim")["verdict"]
    assert (
        closed["pretraining-gap"] == "undecided" and closed["random-initialisation-gap"] == "holds"
    )  # asks no gate


def test_what_a_pretraining_adds_is_the_difference_of_two_starts():
    columns = ["model", "objective", "te", "tc", "made", "role"]
    rows = [
        ("words", "words", False, False, "ours", ""),
        ("other", "condenser", True, False, "ours", ""),
    ]
    marks = pd.DataFrame([*rows, ("target", "condenser", True, True, "ours", "")], columns=columns)
    levels = {("starts", "words"): (0.6, 0.5), ("starts", "other"): (0.6, 0.55)}
    added = pretraining.steps(table(levels | {("starts", "target"): (0.6, 0.55)}), marks)
    added = added.set_index("added")["difference"]
    assert (
        added["condenser"] == pytest.approx(1 / 12, abs=0.01)
        and abs(added["condenser: the target"]) < 0.01
    )


def test_relevant_passages_are_those_of_one_query_alone():
    class Rows:
        def rows(self, ids):
            return np.array([int(name[1:]) for name in ids])

    data = type("Data", (), {"passages": Rows()})
    queries = pd.DataFrame({"query_id": ["a", "b", "c"], "text": ["A", "B", "C"]})
    pairs = [
        ("a", "d1"),
        ("a", "d2"),
        ("a", "d3"),
        ("b", "d3"),
        ("b", "d4"),
        ("c", "d5"),
        ("c", "d6"),
        ("c", "d7"),
    ]
    qrels = pd.DataFrame(
        [(q, d, 1) for q, d in pairs] + [("a", "d8", 0)],
        columns=["query_id", "doc_id", "relevance"],
    )
    found = pretraining.relevant_passages(data, queries, qrels, least=2)
    assert found.values.tolist() == [
        ["c", "C", 5],
        ["c", "C", 6],
        ["c", "C", 7],
        ["a", "A", 1],
        ["a", "A", 2],
    ]
    assert pretraining.relevant_passages(data, queries, qrels, least=4).empty


def test_extrapolation_after_the_target_stands_beside_the_others_interpolation():
    levels = {
        "coCondenser, target": (0.7, 0.6),
        "Rand": (0.4, 0.2),
        "words": (0.65, 0.5),
        "BM25": (0.9, 0.9),
    }
    roles = {"coCondenser, target": "coCon-marco", "Rand": "Rand", "words": "RoBERTa"}
    luck = dict(zip(levels, np.random.default_rng(1).normal(scale=0.01, size=(4, 8)), strict=True))
    rows = [
        (model, "ReSTTest", "R@100", regime, f"q{query}", level + luck[model][query])
        for model, of_regimes in levels.items()
        for regime, level in zip(REGIMES, of_regimes, strict=True)
        for query in range(8)
    ]
    columns = ["model", "protocol", "measure", "regime", "query_id", "value"]
    how = {"on": "regime", "sides": REGIMES, "effect": "delta", "n_boot": 200}
    table = effects(pd.DataFrame(rows, columns=columns), columns[:3], **how)
    table = table.assign(role=table["model"].map(roles))
    gaps = pretraining.reached(table, 1).set_index("model")
    assert gaps.index.tolist() == ["Rand", "words"]  # BM25 has no place in the table
    means = table.set_index("model")
    expected = means.loc["coCondenser, target", "extrapolation"] - means["interpolation"]
    assert gaps["difference"].tolist() == pytest.approx(expected[["Rand", "words"]].tolist())
    assert gaps["low"].between(gaps["difference"] - 0.03, gaps["difference"]).all()
    assert gaps["published"].tolist() == pytest.approx([0.850 - 0.723, 0.850 - 0.845])
    (sentence,) = pretraining.reached_sentences(gaps.reset_index())
    assert "reaches 1 of 2 others" in sentence and "below 1 of them" in sentence
    assert sentence.endswith("published: it reaches 2 of 2.")
    page = pretraining.reached_page(gaps.reset_index()).set_index("model")
    assert page.loc["Rand", "ReSTTest, published"] == "+12.7 points"
    assert pretraining.reached(table[table["model"] != "coCondenser, target"], 1).empty


def test_training_runs_are_of_both_studies_and_protocols(plan):
    found = pretraining.training_runs(plan).set_index(["study", "protocol"])
    strategies = found.loc["strategies", "ReSTrain"]
    assert strategies["models"] == "BM25, Random, STAR, ADORE, TCT-ColBERT"
    assert strategies["training sets"] == "interpolation, extrapolation"
    assert strategies["seeds"] == "1, 2" and strategies["training runs"] == 4 * 2 * 2
    assert found.loc["starts", "ReSTTest"]["training sets"] == "without 1, 2"


def test_gate_is_what_measures_no_loss_and_is_inside():
    rows = [("test", "interpolation", 1), ("dev", "interpolation", 2), ("dev", "extrapolation", 3)]
    values = pd.DataFrame(rows, columns=["test_set", "regime", "value"])
    p = pretraining.Parameters.model_construct(test_splits=["test"], resttest_splits=["dev"])
    measured = {("starts", "ReSTrain"): values, ("starts", "ReSTTest"): values}
    losses, gate = pretraining.without_gate(measured, p)
    assert losses.groupby("protocol")["value"].sum().to_dict() == {"ReSTTest": 5, "ReSTrain": 1}
    assert gate.groupby("protocol")["value"].sum().to_dict() == {"ReSTTest": 1, "ReSTrain": 2}


def test_hardest_negative_is_what_the_first_model_ranks_first_wrongly(tmp_path):
    six = six_passages(tmp_path)
    rows = [("a", "b", 3.0), ("a", "a", 2.0), ("a", "c", 1.0)]
    first = pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    second = first.assign(score=[1.0, 5.0, 9.0])
    [row] = pretraining.hardest_negatives(six, {"random": first, "STAR": second}).to_dict("records")
    assert row["query"] == "what eases pain"
    assert row["hardest negative"] == "Ibuprofen lowers a fever."
    assert row["lead of the relevant passage, random"] == -1.0
    assert row["lead of the relevant passage, STAR"] == 4.0


def test_intervals_say_whether_they_cover_training_runs():
    rows = [("BM25", "ReSTrain", 1), ("a", "ReSTrain", 3), ("a", "ReSTTest", 1)]
    table = pd.DataFrame(rows, columns=["model", "protocol", "n_trainings"])
    restrain, resttest = pretraining.coverage_sentences(table)
    assert restrain == (
        "ReSTrain: 3 training runs (seeds) per row; intervals cover queries and training runs."
    )
    assert resttest.startswith("ReSTTest: one training run (seed) per row; intervals cover queries")


def test_ranges_go_from_the_largest_loss_to_the_smallest_without_bm25():
    rows = [("BM25", 0.5), ("a", -0.2), ("b", -0.1), ("c", -0.3)]
    table = pd.DataFrame(rows, columns=["model", "delta"])
    table = table.assign(low=-0.5, high=0.1, protocol="ReSTTest", measure="RR@10", n_queries=1200)
    [sentence] = pretraining.range_sentences({"Initialisation": table})
    assert sentence == (
        "Initialisation: Δ of RR@10 under ReSTTest ranges from -30.0 % [-50.0, +10.0] (c) to "
        "-10.0 % [-50.0, +10.0] (b), 1,200 queries."
    )


def test_pair_that_differs_in_the_text_alone(plan):
    assert pretraining.text_pair(plan.marks) == ("spans", "spans, other")
    assert pretraining.text_pair(plan.marks.iloc[:2]) == ("BM25", "BM25")


def test_extrapolation_is_of_initialisations_at_one_size():
    right = {
        "study": "starts",
        "protocol": "ReSTrain",
        "regime": "extrapolation",
        "n_train": 9,
        "measure": "nDCG@10",
        "model": "words",
        "query_id": "q",
    }
    others = [{"study": "strategies"}, {"protocol": "ReSTTest"}, {"regime": "interpolation"}]
    others += [{"n_train": 8}, {"measure": "R@100"}]
    rows = [right | {"value": 0.2}, right | {"value": 0.4}]
    rows += [right | other | {"value": 9.0} for other in others]
    found = pretraining.in_extrapolation(pd.DataFrame(rows), 9)
    assert found.loc["q"].to_dict() == pytest.approx({"words": 0.3})


def test_words_are_lacking_that_no_passage_holds(tmp_path):
    six = six_passages(tmp_path)
    lacking = pretraining.words_lacking(
        ["Does Aspirin ease pain?", "which strings"], [six.passages]
    )
    assert lacking == ["does", "ease", "which"]


def test_figure_of_starts_has_the_measure_of_the_claims_and_bm25_in_its_own_colour():
    rows = [
        ("BM25", None, "ReSTTest", "R@100"),
        ("Rand", "none", "ReSTTest", "RR@10"),
        ("spans", "target", "ReSTTest", "nDCG@10"),
        ("spans", "target", "ReSTrain", "R@100"),
        ("spans", "target", "ReSTrain", "RR@10"),
    ]
    starts = pd.DataFrame(rows, columns=["model", "text", "protocol", "measure"])
    judged_by = {
        "starts": {"ReSTrain": "R@100", "ReSTTest": "R@100"},
        "strategies": {"ReSTrain": "nDCG@10", "ReSTTest": "RR@10"},
    }
    found = pretraining.figure_rows(starts, judged_by)
    assert found["pretraining text"].tolist() == ["BM25", "none", "target collection"]
    assert found["model"].tolist() == ["BM25", "Rand (random weights)", "spans"]
    assert found["panel"].tolist() == ["ReSTTest, R@100", "ReSTTest, RR@10", "ReSTrain, R@100"]


def test_passages_of_a_query_that_lie_apart_from_the_others_have_a_large_silhouette():
    query_ids = pd.Series(["q1", "q1", "q2", "q2"])
    apart = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]], np.float32)
    mixed = apart[[0, 2, 1, 3]]
    vectors = {("a", "interpolation", 1): apart, ("a", "extrapolation", 1): mixed}
    found = pretraining.silhouettes(vectors, query_ids)
    assert found["silhouette"].iloc[0] > 0.9 and found["silhouette"].iloc[1] < 0
    assert set(found["n_passages"]) == {4} and set(found["n_queries"]) == {2}
    page = pretraining.silhouette_page(found)
    assert list(page) == ["initialisation", "regime", "silhouette, seed 1"]
    panels = pretraining.map_panels(vectors, found, pd.Series([True, True, False, False]))
    [first, _] = panels
    assert first.startswith("a, interpolation: silhouette") and len(panels[first]) == 2


def test_learnt_page_has_before_and_after_in_a_row_of_each_initialisation():
    rows = [("b", "words_loss", 8.0, 5.0), ("a", "words_loss", 8.0, 7.0), ("a", "spans_loss", 2, 1)]
    table = pd.DataFrame(rows, columns=["model", "what", "before", "after"])
    page = pretraining.learnt_page(table)
    assert page["initialisation"].tolist() == ["b", "a"]
    assert page["words loss"].tolist() == ["8.00 → 5.00", "8.00 → 7.00"]


def test_readers_of_the_target_are_those_that_we_pretrain(plan):
    assert pretraining.readers_of_target(plan.marks, plan.pretrained) == ["spans"]
    assert pretraining.readers_of_target(plan.marks, {}) == []


def test_pages_of_a_run_that_pretrains_nothing_are_empty():
    nothing = pd.DataFrame(columns=["model", "what", "before", "after"])
    assert pretraining.learnt_page(nothing).empty
    clustering = pretraining.silhouettes({}, pd.Series([], dtype=object))
    assert list(clustering)[:4] == ["model", "regime", "seed", "silhouette"]
    assert pretraining.silhouette_page(clustering).empty


def test_page_of_table_9_says_what_pretraining_had():
    rows = [("BM25", None, None), ("words", False, False), ("spans", True, True)]
    starts = pd.DataFrame(rows, columns=["model", "te", "tc"])
    starts = starts.assign(protocol="ReSTrain", measure="R@100", delta=-0.1, low=-0.2, high=0.0)
    starts = starts.assign(interpolation=0.5, extrapolation=0.45, published=-0.1, verdict="agrees")
    [page] = pretraining.starts_pages(starts, ["R@100"])
    assert page["had"].tolist()[1:] == ["no TE, no TC", "TE, TC"] and pd.isna(page["had"].iloc[0])
    assert page["ReSTrain, R@100: initialisation"].tolist() == ["BM25", "words", "spans"]

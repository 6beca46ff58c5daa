"""Plans of notebook 04, released files against the rules, published losses, verdicts on orders that
are built in.
"""

import itertools
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_with
from toy_topics import write_topics

from interextra.claims import claim, judgement
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.notebooks import n04_shifts as shifts
from interextra.notebooks import n07_indicators as indicators
from interextra.papers import published
from interextra.splits import attributes
from interextra.splits.resttest import sides
from interextra.splits.shift import OUTSIDE, in_a_cluster, in_domain
from interextra.splits.topics import farthest
from interextra.splits.years import ANY_YEAR
from interextra.stats.effects import effects
from interextra.stats.formatting import with_interval
from interextra.store.errors import InputError
from interextra.store.folders import Store
from interextra.store.schedule import build_all

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "train_limit": 0,
    "shifts": [{"shift": "wh-words", "clusters": ["how", "who"]}, "topics"],
    "control": "",
    "n_topics": 2,
    "native_clusters": 10,
    "topic_size": 100,
    "topic_encoder": "lsa",
    "normalise": False,
    "topic_switches": ["exact", "native", "nearest", "reach"],
    "n_test": 15,
    "gate_splits": ["dev"],
    "train_size": 0,
    "steps": 2,
    "recipes": ["bm25", "mini-reranker", "mini-colbert", "mini-splade", "mini-dense"],
    "seeds": [1],
    "other_seeds": [1],
    "only": {},
    "neighbours": 5,
    "depth": 20,
    "seed": 1,
    "real_encoder": "",
}
FIVE = ["BM25", "Reranker", "ColBERT", "SPLADE", DENSE]


def labels(design):
    return list(design[["shift", "model", "left_out"]].itertuples(index=False, name=None))


def test_every_system_is_trained_without_every_cluster():
    plan = plan_with(shifts, P)
    expected = [
        *itertools.product(["wh-words"], FIVE, ["how", "who"]),
        *itertools.product(["topics"], FIVE, ["C0", "C1"]),
    ]
    assert labels(plan.design) == expected and plan.control.empty
    assert plan.design["run"].map(lambda run: run.key).is_unique
    for row in plan.design.itertuples():
        assert (
            row.run.model.train.part == f"without-{row.left_out}"
            and row.run.queries[0].part == "held-out"
        )


def test_systems_bear_the_label_of_their_architecture_in_any_order_of_the_recipes():
    plan = plan_with(shifts, P | {"recipes": ["mini-dense", "bm25", "mini-colbert"]})
    built = {row.model: row.run.model.recipe.architecture for row in plan.design.itertuples()}
    assert built == {DENSE: "dense", "BM25": "bm25", "ColBERT": "colbert"}


@pytest.mark.parametrize(
    "recipes", [["mini-dense"], ["mini-dense", {"label": "Lexical", "recipe": "bm25"}]]
)
def test_without_a_system_called_bm25_nothing_is_planned(recipes):
    """Notebook 04 ended after all its runs, since no system could be beaten in domain."""
    for module in (shifts, indicators):
        with pytest.raises(
            InputError, match="parameter 'recipes': no system is BM25 with the label"
        ):
            plan_with(module, P | {"recipes": recipes})


def test_a_control_adds_only_its_own_cells():
    plan = plan_with(shifts, P | {"control": {"shift": "random:parts=3", "name": "chance"}})
    assert labels(plan.design) == labels(plan_with(shifts, P).design)
    parts = [f"part {number}" for number in (1, 2, 3)]
    assert sorted(labels(plan.control)) == sorted(itertools.product(["chance"], FIVE, parts))
    with pytest.raises(InputError, match="topic_switches"):
        plan_with(shifts, P | {"topic_switches": ["exact"]})


def test_seeds_are_those_of_the_system_and_some_shifts_have_some_systems_only():
    plan = plan_with(
        shifts, P | {"seeds": [1, 2, 3], "other_seeds": [1, 2], "only": {"topics": [DENSE]}}
    )
    counted = plan.design.groupby(["shift", "model"]).size().div(2).astype(int)
    assert counted["wh-words"].to_dict() == {
        "BM25": 1,
        "ColBERT": 2,
        DENSE: 3,
        "Reranker": 2,
        "SPLADE": 2,
    }
    assert counted["topics"].to_dict() == {"BM25": 1, DENSE: 3}


def test_only_systems_that_encode_a_query_by_itself_have_a_space():
    plan = plan_with(indicators, P | {"control": "random:parts=2"})
    assert set(plan.near["model"]) == {"ColBERT", "SPLADE", DENSE}
    assert plan.near["shift"].value_counts().to_dict() == {"wh-words": 6, "topics": 6, "random": 6}
    trained = {run.model.key for frame in (plan.design, plan.control) for run in frame["run"]}
    assert {near.model.key for near in plan.near["near"]} <= trained  # nothing is trained for it
    with pytest.raises(InputError, match="give a dense recipe"):
        plan_with(indicators, P | {"recipes": ["bm25", "mini-splade"]})


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    store, plan = Store(tmp_path_factory.mktemp("outputs") / "cells"), plan_with(shifts, P)
    for cell in plan.shifts.values():
        store.build(cell)
    return store, plan


def test_clusters_are_counted_and_described(shifted):
    store, plan = shifted
    table = shifts.describe(store, plan.shifts, plan.topics.vectors.read(store)[0]).set_index(
        "cluster"
    )
    how, texts = table.loc["how"], plan.pool.frame()["text"]
    held = texts[texts.str.contains("how")]
    assert (
        "how" in how["words"].split()
        and how["n_test"] == 15
        and how["n_train"] == how["n_queries"] - 15
    )
    assert set(how["typical"].split(" | ")) <= set(held) and how["typical"].count(" | ") == 2


def test_unchanged_switches_give_the_same_topics():
    vectors = np.random.default_rng(0).normal(size=(300, 4))
    options = {"n_topics": 3, "k": 12, "target": 60, "seed": 1}
    table = shifts.switch_table(vectors, options, {"none": {}, "seed": {"seed": 5}}).set_index(
        "change"
    )
    assert table.loc["none", ["share_kept", "ari", "share_matched"]].tolist() == [1, 1, 1]
    assert table.loc["seed", "ari"] < 1


def values_of(out, n=40, seed=0, avg_in=0.8, noise=0.05):
    """Values of two clusters: `out` says the mean of each model under the model without the query's
    cluster.
    """
    random, parts = np.random.default_rng(seed), []
    for model, mean in out.items():
        for left_out, stratum in itertools.product("ab", "ab"):
            value = (mean if left_out == stratum else avg_in) + noise * random.normal(size=n)
            ids = [f"{stratum}{number}" for number in range(n)]
            frame = pd.DataFrame(
                {"query_id": ids, "value": value, "left_out": left_out, "stratum": stratum}
            )
            parts.append(frame.assign(shift="topics", model=model, measure="RR@10"))
    return sides(pd.concat(parts, ignore_index=True))


def means_of(out, n_boot=300, **options):
    by = ["shift", "model", "measure"]
    compared = {
        "on": "side",
        "sides": ("in", "out"),
        "effect": "delta",
        "strata": "stratum",
        "n_boot": n_boot,
    }
    return effects(values_of(out, **options), by, **compared)


def test_exceptions_are_models_that_had_the_cluster_and_are_worse_on_it():
    matrix = pd.DataFrame(
        list(itertools.product(["a", "b", "c"], repeat=2)), columns=["left_out", "stratum"]
    )
    value = [
        0.3,
        0.5,
        0.2,
        0.2,
        0.4,
        0.9,
        0.4,
        0.4,
        0.5,
    ]  # column a: .3 out, .2 .4; b: .4 out, .5 .4; c: .5 out, .2 .9
    matrix = matrix.assign(shift="s", model="m", value=value)
    both = pd.concat([matrix.assign(measure="RR@10"), matrix.assign(measure="ASL@100")])
    found = shifts.exceptions(both).set_index("measure")
    assert found.loc["RR@10", ["n_comparisons", "n_exceptions"]].tolist() == [6, 2]
    assert found.loc["ASL@100", ["n_comparisons", "n_exceptions"]].tolist() == [
        6,
        3,
    ]  # higher is worse; equal is none


OUT = {"BM25": 0.3, "Reranker": 0.75, "ColBERT": 0.7, "SPLADE": 0.6, DENSE: 0.5}


def test_the_claims_of_the_paper_are_answered_by_mean_effects():
    means, ahead = (
        means_of(OUT),
        pd.DataFrame({"shift": "topics", "measure": "RR@10", "model": list(OUT)}),
    )
    answers = claim.answered(
        claim.of_notebook("04_ms_shift_clusters"), [means], ahead.assign(lead=0.2, lead_low=0.1)
    )
    expected = {
        "topics-dense": -0.375,
        "topics-dense-splade": -0.125,
        "topics-interaction": 0.22,
        "above-bm25": 0.2,
    }
    assert answers.set_index("claim")["estimate"].to_dict() == pytest.approx(expected, abs=0.03)
    assert judgement.concluded(answers)["verdict"].tolist() == ["holds"] * 4
    turned = {"BM25": 0.8, "Reranker": 0.5, "ColBERT": 0.55, "SPLADE": 0.65, DENSE: 0.7}
    answers = claim.answered(
        claim.of_notebook("04_ms_shift_clusters"),
        [means_of(turned)],
        ahead.assign(lead=1, lead_low=1),
    )
    assert judgement.concluded(answers)["verdict"].tolist() == ["holds", *["contradicted"] * 3]


def test_queries_of_the_gate_have_the_cluster_of_the_attribute_and_no_topic(shifted):
    store, plan = shifted
    dev = plan.pool.source.open().queries("dev")
    words = [
        word if word in ("how", "who") else OUTSIDE for word in attributes.labels(dev, "wh-words")
    ]
    for name, known in (("wh-words", words), ("topics", [""] * len(dev))):
        found = plan.shifts[name].strata(store, ["dev"])
        assert found[dev["query_id"]].tolist() == known
        values = pd.DataFrame({"left_out": "how", "stratum": found[dev["query_id"]]})
        assert set(in_domain(values)["stratum"]) == ({"who"} if name == "wh-words" else {""})
        assert found.drop(dev["query_id"]).to_dict() == plan.shifts[name].strata(store).to_dict()


BY_KINDS = {
    "shifts": [{"shift": "passage-clusters:k=3,encoder=lsa", "name": "kind"}, "random:parts=2"],
    "n_test": 0,
    "test_splits": ["test"],
    "train_size": 6,
    "gate_splits": [],
    "recipes": ["bm25", "mini-dense"],
    "topic_size": 10,
    "native_clusters": 4,
}


def test_shifts_by_kinds_of_passages_are_measured_by_the_queries_of_a_split(tmp_path):
    p = P | BY_KINDS | {"collection": write_topics(tmp_path / "topics")}
    plan = plan_with(shifts, p)
    assert list(plan.shifts) == ["kind", "random"]
    for row in plan.design.itertuples():
        assert row.run.queries == plan.tested[row.shift]
        assert [queries.name for queries in row.run.queries] == ["test"]
        assert row.run.model.train.of == plan.shifts[row.shift]
    assert plan.shifts["kind"].by.names == ("kind 1", "kind 2", "kind 3")
    store = Store(tmp_path / "outputs" / "cells")
    build_all(store, list(plan.shifts.values()))
    for shift in plan.shifts.values():
        strata = shift.strata(store, p["test_splits"])
        assert set(strata) <= {*shift.names, OUTSIDE} and len(strata) == 24
    values = pd.DataFrame({"stratum": ["kind 1", OUTSIDE, ""]})
    assert in_a_cluster(values)["stratum"].tolist() == ["kind 1"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"test_splits": []}, "'n_test': 0 queries are held out of each cluster"),
        ({"shifts": ["topics"]}, "'test_splits': topics divide training queries alone"),
        ({"shifts": ["passage-clusters"]}, "write passage-clusters:k=NUMBER"),
        ({"shifts": ["passage-clusters:k=x"]}, "write passage-clusters:k=NUMBER"),
        ({"shifts": ["passage-clusters:k=3,by=1"]}, "write passage-clusters:k=NUMBER"),
        ({"shifts": ["passage-clusters:k=3,encoder=x"]}, "no encoder 'x'"),
        ({"shifts": ["passage-clusters:k=99,encoder=lsa"]}, "k=99 kinds of passages: 72 passages"),
    ],
)
def test_impossible_kinds_of_passages_are_refused(tmp_path, change, message):
    p = P | BY_KINDS | {"collection": write_topics(tmp_path / "topics")}
    with pytest.raises(InputError, match=message):
        plan_with(shifts, p | change)


def test_losses_are_the_printed_cells():
    table = published.lupart_losses()
    assert table.groupby("shift", sort=False).size().to_dict() == {
        "topics": 20,
        "wh-words": 12,
        "length": 8,
    }
    cells = pd.concat([published.load("lupart", number) for number in (2, 3)])
    printed = cells[cells["quantity"] == "Rel Loss"].set_index(["cluster", "model"])["value"]
    ours = -table.set_index(["cluster", "model"])["delta"]
    assert (
        table["delta"].notna().all()
        and (table["rounding"] == 0.0005).all()
        and "BM25" not in set(table["model"])
    )
    for (cluster, model), value in printed.items():
        assert ours[cluster, published.LUPART[model]] * 100 == pytest.approx(value)
    means = published.lupart_means().set_index(["shift", "model"])
    assert means.loc[("topics", "SPLADE"), "scaled"] == pytest.approx(
        -np.mean([0.063, 0.122, 0.032, 0.064, 0.014])
    )


def test_our_means_stand_beside_those_of_the_same_shift():
    means = means_of(OUT)
    table = means.beside(published.lupart_means(), ["shift", "model", "measure"])
    assert table.set_index("model")["verdict"].to_dict() == {
        "BM25": "",
        "Reranker": "agrees"
        if table.loc[1, "low"] <= -0.048 <= table.loc[1, "high"]
        else "same direction",
        "ColBERT": "same direction",
        "SPLADE": "same direction",
        DENSE: "same direction",
    }


def test_a_shift_of_ones_own_has_nothing_published_beside_it():
    """Notebook 04 ended after all its runs in a sum of text and of numbers that are not there."""
    means = means_of(OUT).assign(shift="domain")
    beside = means.beside(published.lupart_means(), ["shift", "model", "measure"])
    assert (beside["verdict"] == "").all() and beside["published"].isna().all()
    assert with_interval(beside)["published"].tolist() == ["–"] * len(OUT)
    assert with_interval(beside[beside["verdict"] != ""]).empty


def of_years(up_to, negatives="all", model=DENSE):
    """Values of two queries of 2018, two of 2019 and two of 2023."""
    rows = [("a", 2018), ("b", 2018), ("c", 2019), ("d", 2019), ("e", 2023), ("f", 2023), ("g", "")]
    frame = pd.DataFrame(rows, columns=["query_id", "stratum"])
    value = 1.0 if up_to == ANY_YEAR else 0.5
    return frame.assign(model=model, negatives=negatives, up_to=up_to, measure="RR@10", value=value)


def test_models_up_to_a_year_stand_beside_those_of_any_year_by_the_age_of_queries():
    parts = [of_years(2018), of_years(2018, "without the new"), of_years(ANY_YEAR)]
    values = pd.concat([*parts, of_years(2018, model="BM25"), of_years(ANY_YEAR, model="BM25")])
    found = shifts.years_since(values.astype({"stratum": str}))
    table = effects(
        found,
        ["model", "negatives", "since", "age", "measure"],
        on="trained_on",
        sides=(ANY_YEAR, shifts.UP_TO),
        effect="delta",
    )
    assert set(table["age"]) == {"not newer", "1 to 2 newer", "5 or more newer"}
    assert table["delta"].eq(-0.5).all() and table["n_queries"].eq(2).all()
    spared = table[table["negatives"] == "without the new"]
    assert set(spared["model"]) == {DENSE} and len(table) == 9


def test_time_is_asked_with_each_system_once_and_dense_also_without_new_passages():
    by_number = {"years": [600000], "year_column": "query_id", "train_size": 20}
    plan = plan_with(shifts, P | by_number | {"test_splits": ["test"], "shifts": ["wh-words"]})
    counts = plan.years.groupby(["model", "negatives"], sort=False).size().to_dict()
    assert counts == {
        ("BM25", "all"): 2,
        ("Reranker", "all"): 2,
        ("ColBERT", "all"): 2,
        ("SPLADE", "all"): 2,
        (DENSE, "all"): 2,
        (DENSE, "without the new"): 1,
    }
    assert plan_with(shifts, P).years.empty


def losses_of(shift, model, deltas):
    """Effects of one system on the clusters of a shift, each with a built-in Δ on eight queries."""
    rows = [
        (shift, model, cluster, "RR@10", side, f"{cluster}{query}", value + query / 100)
        for cluster, delta in deltas.items()
        for side, value in (("in", 0.5), ("out", 0.5 * (1 + delta)))
        for query in range(8)
    ]
    columns = ["shift", "model", "stratum", "measure", "side", "query_id", "value"]
    table = pd.DataFrame(rows, columns=columns)
    by = ["shift", "model", "stratum", "measure"]
    how = {"on": "side", "sides": ("in", "out"), "effect": "delta", "n_boot": 200}
    return effects(table, by, **how)


def test_ranges_over_clusters_stand_beside_those_of_the_printed_cells():
    losses = losses_of("topics", "SPLADE", {"C0": -0.3, "C1": -0.2, "C2": -0.1, "C3": -0.05})
    mine = losses_of("domain", "SPLADE", {"a": -0.3})  # the paper has no such shift
    row = shifts.ranges_over_clusters(pd.concat([losses, mine]))
    assert row["shift"].tolist() == ["topics"]
    printed = row.loc[0, ["published_worst", "published_median", "published_best"]].tolist()
    assert printed == pytest.approx([-0.122, -0.063, -0.014])
    ours = row.loc[0, ["worst", "median", "best"]].tolist()
    deltas = losses["delta"]
    assert ours == pytest.approx([deltas.min(), deltas.median(), deltas.max()])
    assert row.loc[0, ["clusters", "published_clusters"]].tolist() == [4, 5]
    assert shifts.n_overlapping(row) == 1
    assert shifts.n_overlapping(row.assign(best=-0.2)) == 0  # ends below the printed worst
    assert "for 1 of 1 pairs" in shifts.ranges_sentence(row)
    assert shifts.ranges_sentence(row[:0]) == ""


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ({"how": -0.5, "who": -0.1, "wha": -0.1}, "for 1 of 1 systems, shown for 1."),
        ({"how": -0.2, "who": -0.1, "wha": -0.5}, "for 0 of 1 systems, shown for 0."),
    ],
)
def test_how_is_the_worst_question_word_where_it_loses_more_than_each_other(deltas, expected):
    contrasts = shifts.how_minus_others(losses_of("wh-words", "SPLADE", deltas))
    assert contrasts[["first", "second"]].values.tolist() == [["how", "who"], ["how", "wha"]]
    assert shifts.how_sentence(contrasts, "This run") == f"This run: how loses most {expected}"


def test_how_is_not_the_worst_where_a_difference_or_an_interval_is_missing():
    contrasts = pd.DataFrame({"model": "SPLADE", "second": ["who", "wha"], "difference": -0.1})
    without_an_interval = contrasts.assign(high=[-0.05, np.nan])
    sentence = shifts.how_sentence(without_an_interval, "This run")
    assert sentence == "This run: how loses most for 1 of 1 systems, shown for 0."
    of_who_alone = without_an_interval[:1]
    sentence = shifts.how_sentence(of_who_alone, "This run")
    assert sentence == "This run: how loses most for 0 of 1 systems, shown for 0."


def test_a_change_that_leaves_no_query_in_a_topic_leaves_least():
    switches = pd.DataFrame({"change": ["in turns", "another seed"], "ari": [0.3, np.nan]})
    switches = switches.assign(share_matched=switches["ari"])
    sentence = shifts.switches_sentence(switches)
    assert sentence.startswith("Nothing remains under another seed:")
    sentence = shifts.switches_sentence(switches.assign(ari=np.nan))
    assert sentence.startswith("Nothing remains under in turns, another seed:")


def test_without_question_words_nothing_is_said_of_how():
    none = shifts.how_minus_others(losses_of("topics", "SPLADE", {"C0": -0.2}))
    assert none.empty and shifts.how_sentence(none, "This run") == ""
    bm25 = losses_of("wh-words", "BM25", {"how": -0.5, "who": 0.0, "wha": 0.0})
    assert shifts.how_minus_others(bm25).empty


def test_training_runs_are_listed_once_for_systems_that_share_them():
    only = {"topics": ["BM25", DENSE]}
    plan = plan_with(shifts, P | {"only": only, "seeds": [1, 2], "train_size": 50})
    table = shifts.trainings(plan.design)
    topics = table[table["shift"] == "topics"].set_index("systems")
    assert topics["seeds"].to_dict() == {"BM25": "1", DENSE: "1; 2"}
    assert topics["without"].tolist() == ["C0; C1"] * 2 and set(topics["n_train"]) == {"50"}
    words = table[table["shift"] == "wh-words"]
    assert words["systems"].tolist() == ["BM25; Reranker; ColBERT; SPLADE", DENSE]


def test_values_of_the_gate_measure_no_loss():
    tested = values_of({"BM25": 0.4}).drop(columns="side").assign(test_set="held-out")
    outside = tested[:1].assign(stratum=OUTSIDE)
    gate = tested.assign(test_set="dev", query_id="of the gate")
    found, of_gate = shifts.divided(pd.concat([tested, outside, gate]), ["dev"])
    assert len(found) == len(tested) and set(found["side"]) == {"in", "out"}
    assert (of_gate["left_out"] != of_gate["stratum"]).all() and len(of_gate) == len(gate) / 2


def test_only_neural_systems_that_are_shown_to_beat_bm25_count():
    leads = pd.DataFrame(
        {
            "shift": "topics",
            "measure": "RR@10",
            "model": ["BM25, fixed", "SPLADE", DENSE, "ColBERT"],
            "lead_low": [-0.1, 0.02, 0.0, np.nan],
        }
    )
    other = leads.assign(measure="ASL@100", lead_low=-1)
    excluded = shifts.not_ahead(pd.concat([leads, other]), "RR@10")
    assert excluded["model"].tolist() == [DENSE, "ColBERT"]
    assert shifts.excluded_in_words(excluded) == f"topics: {DENSE}, ColBERT"
    assert shifts.excluded_in_words(excluded[:0]) == ""
    rows = leads.assign(shift=["topics", "topics", "length", "topics"])
    assert shifts.marked(rows, excluded)["excluded"].tolist() == [False, False, False, True]
    assert not shifts.marked(rows, excluded[:0])["excluded"].any()


def test_a_matrix_has_the_mean_of_each_model_on_each_cluster():
    values = values_of({"BM25": 0.4}, noise=0)
    matrix = shifts.matrix_of(values).set_index(["left_out", "stratum"])
    assert matrix["value"].to_dict() == pytest.approx(
        {("a", "a"): 0.4, ("a", "b"): 0.8, ("b", "a"): 0.8, ("b", "b"): 0.4}
    )
    assert (matrix["n_queries"] == 40).all()


def test_bm25_with_fixed_parameters_is_no_exception():
    counts = pd.DataFrame({"model": ["BM25, fixed", "SPLADE"], "measure": "RR@10"})
    counts = counts.assign(n_comparisons=6, n_exceptions=[3, 1])
    assert "in 1 of 6 comparisons: SPLADE 1 of 6." in shifts.exceptions_sentence(counts, "RR@10")


def test_only_topics_are_named_by_their_words():
    clusters = pd.DataFrame(
        {
            "shift": ["topics", "length"],
            "cluster": ["C0", "long"],
            "words": ["a war did river zoo"] * 2,
        }
    )
    losses = pd.DataFrame({"stratum": ["C0", "long"], "delta": 0.0})
    named = shifts.with_topic_words(losses, clusters)
    assert named["stratum"].tolist() == ["topic 0: river", "long"]


def test_a_loss_of_asl_is_on_the_right():
    assert shifts.axis_of_losses("ASL@100").endswith("loss →")
    assert shifts.axis_of_losses("RR@10").startswith("← loss")


def test_means_stand_beside_the_published_ones_in_one_row_per_system():
    means = pd.concat([means_of(OUT), means_of({"BM25": 0.3}).assign(shift="domain")])
    beside = means.beside(published.lupart_means(), ["shift", "model", "measure"])
    page = shifts.means_page(beside)
    assert list(page) == ["model", "topics", "domain"] and page["model"].tolist() == list(OUT)
    of_dense = page.set_index("model").loc[DENSE]
    assert of_dense["topics"].endswith("; paper -11 %: same direction")
    assert pd.isna(of_dense["domain"]) and "paper" not in page["domain"].iloc[0]


def test_without_random_clusters_there_is_no_table_of_them():
    assert shifts.control_page(pd.DataFrame(), "RR@10").empty
    page = shifts.control_page(means_of(OUT), "RR@10")
    assert list(page) == ["model", "Avg In", "Out", "Δ, 95 % interval"] and len(page) == len(OUT)


def test_queries_lose_what_the_model_without_their_cluster_lacks():
    values = values_of({"SPLADE": 0.3, DENSE: 0.5}, n=5)
    by = ["shift", "model", "stratum", "measure"]
    losses = effects(values, by, on="side", sides=("in", "out"), effect="delta", n_boot=50)
    worst = shifts.largest_loss(losses, "RR@10")
    assert worst["model"] == "SPLADE" and worst["delta"] == losses["delta"].min()
    lost = shifts.lost_by_query(values, worst)
    assert set(lost.index) == {f"{worst['stratum']}{number}" for number in range(5)}
    assert lost.mean() == pytest.approx(worst["in"] - worst["out"])


class Folders(dict):
    """Stands for a store: the folder of a shift by its name."""

    def __getitem__(self, cell):
        return super().__getitem__(cell.name)


def test_a_cluster_may_be_named_like_a_missing_value(tmp_path):
    names = ["NA", "NA", "null", "null"]
    texts = ["what is a comet", "what is a nebula", "who grows a tulip", "who grows a willow"]
    pd.DataFrame({"cluster": names}).to_parquet(tmp_path / "labels.parquet")
    sizes = pd.DataFrame({"cluster": ["NA", "null"], "n_queries": 2, "n_train": 1, "n_test": 1})
    sizes.to_csv(tmp_path / "sizes.csv", index=False)
    pool = SimpleNamespace(frame=lambda: pd.DataFrame({"text": texts}))
    shift = SimpleNamespace(name="source", pool=pool)
    store = Folders(source=tmp_path)
    table = shifts.describe(store, {"source": shift}, np.eye(4)).set_index("cluster")
    assert table["n_queries"].to_dict() == {"NA": 2, "null": 2}
    assert table["typical"].str.count("comet").tolist() == [1, 0]


def test_what_all_queries_share_may_explain_equal_losses():
    row = pd.Series({"stratum": "how", "model": DENSE, "delta": -0.5})
    sentence = shifts.lost_sentence(pd.Series([0.5, 0.5, 0.5]), row)
    assert sentence.startswith("Undecided: all 3 test queries of cluster how share it, and each")
    assert "loses the same, 0.5" in sentence
    assert shifts.lost_sentence(pd.Series([0.5, 0.5, 0.4]), row).startswith("No: all 3 test")


def test_a_query_whose_ranks_get_worse_loses_by_asl_too():
    longer = {"in": 20.0, "out": 30.0}  # search lengths of one query
    values = pd.DataFrame({"side": longer.keys(), "value": longer.values(), "query_id": "a1"})
    row = pd.Series({"shift": "topics", "model": DENSE, "stratum": "a", "measure": "ASL@100"})
    assert shifts.lost_by_query(values.assign(**row), row).to_dict() == {"a1": 10.0}


def test_means_of_two_measures_are_refused():
    means = means_of(OUT)
    both = pd.concat([pd.DataFrame(means), means.assign(measure="ASL@100")])
    for summary in (shifts.metrics, shifts.means_sentence):
        with pytest.raises(InputError, match="rows of 'RR@10', 'ASL@100': take those of one"):
            summary(both)


def test_losses_by_the_age_of_queries_are_drawn():
    values = pd.concat([of_years(2018), of_years(ANY_YEAR)]).astype({"stratum": str})
    losses = shifts.losses_by_age(values, seed=1, n_boot=50)
    assert losses["delta"].eq(-0.5).all()
    figure = shifts.years_figure(losses, "RR@10")
    assert "trained up to 2018" in "".join(axis.get_title() for axis in figure.axes)


def test_released_clusters_are_summed_over_the_clusters_of_a_rule():
    names = {"length": ["spaces"], "wh-words": ["contains", "whole words"]}
    rows = [
        (shift, rule, part) for shift, rules in names.items() for rule in rules for part in "ab"
    ]
    rules = pd.DataFrame(rows, columns=["shift", "rule", "cluster"])
    rules = rules.assign(n_released=10, n_other=[0, 0, 0, 1, 2, 3])
    agreed = pd.DataFrame({"share_matched": [0.456], "ari": [0.2]})
    sentence = shifts.released_sentence(rules, agreed)
    assert "by letters: 1 of 20" in sentence and "by whole words: 5 of 20" in sentence
    assert "46 % are in the same one (ARI 0.20)" in sentence
    assert "No committed run" in shifts.released_sentence(pd.DataFrame(), agreed)


def test_a_greedy_choice_of_centroids_misses_the_best_three():
    """The worked example of book/notes_04.md."""
    centroids = np.array([[12.0, 10], [12, 0], [0, 5], [3, 10]])  # P, Q, R, S
    rows, total = farthest(centroids, 3)
    assert rows.tolist() == [0, 1, 2] and total == 36
    assert farthest(centroids, 3, "greedy")[0].tolist() == [0, 1, 3]


def test_other_definitions_of_avg_in_give_other_losses():
    """The first section of book/notes_04.md."""
    of_a = np.array([[0.1, 0.5], [0.4, 0.5], [0.5, 1.0]])  # [model, query]; the first is without A
    out, others = of_a[0], of_a[1:]
    for avg_in, loss in ((others.mean(), 1 / 2), (of_a.mean(), 2 / 5), (of_a[2].mean(), 3 / 5)):
        assert 1 - out.mean() / avg_in == pytest.approx(loss)
    assert (1 - out / others.mean(axis=0)).mean() == pytest.approx(5 / 9)

"""Plans of notebook 04, released files against the rules, published losses, verdicts on orders that are built in."""

import itertools
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from interextra.data import released
from interextra.experiments import shifts as lupart
from interextra.experiments.plans import plan_of
from interextra.experiments.shifts import DENSE
from interextra.ground.cells import Store
from interextra.ground.effects import effects
from interextra.ground.errors import InputError
from interextra.papers import published
from interextra.splits.resttest import sides

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "train_limit": 0,
    "shifts": ["wh-words/how/who", "topics"],
    "control": "",
    "n_topics": 2,
    "native_clusters": 10,
    "topic_size": 100,
    "topic_encoder": "lsa",
    "normalise": False,
    "topic_switches": ["exact", "native", "nearest", "reach"],
    "n_test": 15,
    "train_size": 0,
    "steps": 2,
    "recipes": ["bm25", "mini-reranker", "mini-colbert", "mini-splade", "mini-dense"],
    "variants": [],
    "seeds": [1],
    "other_seeds": [1],
    "dense_only": [],
    "neighbours": 5,
    "depth": 20,
    "seed": 1,
    "real_encoder": "",
}
FIVE = ["BM25", "Reranker", "ColBERT", "SPLADE", DENSE]

MOST = f"{DENSE} loses most of the comparable"


def labels(design):
    return list(design[["shift", "model", "left_out"]].itertuples(index=False, name=None))


def test_every_system_is_trained_without_every_cluster():
    plan = plan_of("04_ms_shift_clusters", P)
    expected = [
        *itertools.product(["wh-words"], FIVE, ["how", "who"]),
        *itertools.product(["topics"], FIVE, ["C0", "C1"]),
    ]
    assert labels(plan.design) == expected and plan.control.empty and plan.variants.empty
    assert plan.design["run"].map(lambda run: run.key).is_unique
    for row in plan.design.itertuples():
        assert row.run.model.train.part == f"without-{row.left_out}" and row.run.queries[0].part == "held-out"


def test_systems_bear_the_label_of_their_architecture_in_any_order_of_the_recipes():
    plan = lupart.ms_shift(P | {"recipes": ["mini-dense", "mini-colbert"]})
    built = {row.model: row.run.model.recipe.architecture for row in plan.design.itertuples()}
    assert built == {DENSE: "dense", "ColBERT": "colbert"}


def test_control_and_variants_add_only_their_own_cells():
    variant = "wh-words | DR (base), pairwise | mini-dense{loss: pairwise}"
    plan = lupart.ms_shift(P | {"control": "chance=random:parts=3", "variants": [variant]})
    assert labels(plan.design) == labels(lupart.ms_shift(P).design)
    parts = [f"part {number}" for number in (1, 2, 3)]
    assert sorted(labels(plan.control)) == sorted(itertools.product(["chance"], FIVE, parts))
    assert labels(plan.variants) == [("wh-words", "DR (base), pairwise", name) for name in ("how", "who")]
    assert [run.model.recipe.loss for run in plan.variants["run"]] == ["pairwise", "pairwise"]
    with pytest.raises(InputError, match="shifts are wh-words, topics"):
        lupart.ms_shift(P | {"variants": ["length | x | mini-dense"]})
    with pytest.raises(InputError, match=r"write SHIFT \| MODEL \| RECIPE"):
        lupart.ms_shift(P | {"variants": ["topics | x"]})
    with pytest.raises(InputError, match="topic_switches"):
        lupart.ms_shift(P | {"topic_switches": ["exact"]})


def test_seeds_are_those_of_the_system_and_some_shifts_have_dense_and_bm25_only():
    plan = lupart.ms_shift(P | {"seeds": [1, 2, 3], "other_seeds": [1, 2], "dense_only": ["topics"]})
    counted = plan.design.groupby(["shift", "model"]).size().div(2).astype(int)
    assert counted["wh-words"].to_dict() == {"BM25": 1, "ColBERT": 2, DENSE: 3, "Reranker": 2, "SPLADE": 2}
    assert counted["topics"].to_dict() == {"BM25": 1, DENSE: 3}


def test_only_systems_that_encode_a_query_by_itself_have_a_space():
    plan = plan_of("07_indicators", P | {"control": "random:parts=2", "variants": ["topics | x | mini-dense"]})
    assert set(plan.near["model"]) == {"ColBERT", "SPLADE", DENSE} and plan.variants.empty
    assert plan.near["shift"].value_counts().to_dict() == {"wh-words": 6, "topics": 6, "random": 6}
    trained = {run.model.key for frame in (plan.design, plan.control) for run in frame["run"]}
    assert {near.model.key for near in plan.near["near"]} <= trained  # nothing is trained for it
    with pytest.raises(InputError, match="give a dense recipe"):
        lupart.indication(P | {"recipes": ["bm25", "mini-splade"]})


@pytest.fixture(scope="module")
def shifted(tmp_path_factory):
    store, plan = Store(tmp_path_factory.mktemp("outputs") / "cells"), lupart.ms_shift(P)
    for cell in plan.shifts.values():
        store.build(cell)
    return store, plan


def test_clusters_are_counted_and_described(shifted):
    store, plan = shifted
    table = lupart.describe(store, plan.shifts, plan.topics.vectors.read(store)[0]).set_index("cluster")
    how, texts = table.loc["how"], plan.pool.frame()["text"]
    held = texts[texts.str.contains("how")]
    assert "how" in how["words"].split() and how["n_test"] == 15 and how["n_train"] == how["n_queries"] - 15
    assert set(how["typical"].split(" | ")) <= set(held) and how["typical"].count(" | ") == 2


def test_openings_are_held_against_both_readings_of_the_rule(shifted):
    table = lupart.opening_agreement(shifted[1].pool.frame())
    assert (table["n_known"] == table["n_consistent"] + table["n_other"]).all()
    words = table[table["rule"] == "whole words"].set_index("cluster")
    assert (words.loc[["how", "who"], "n_consistent"] > 0.9 * words.loc[["how", "who"], "n_known"]).all()


def test_unchanged_switches_give_the_same_topics():
    vectors = np.random.default_rng(0).normal(size=(300, 4))
    options = {"n_topics": 3, "k": 12, "target": 60, "seed": 1}
    table = lupart.switch_table(vectors, options, {"none": {}, "seed": {"seed": 5}}).set_index("change")
    assert table.loc["none", ["share_kept", "ari", "share_matched"]].tolist() == [1, 1, 1]
    assert table.loc["seed", "ari"] < 1


def values_of(out, n=40, seed=0, avg_in=0.8, noise=0.05):
    """Values of two clusters: `out` says the mean of each model under the model without the query's cluster."""
    random, parts = np.random.default_rng(seed), []
    for model, mean in out.items():
        for left_out, stratum in itertools.product("ab", "ab"):
            value = (mean if left_out == stratum else avg_in) + noise * random.normal(size=n)
            ids = [f"{stratum}{number}" for number in range(n)]
            frame = pd.DataFrame({"query_id": ids, "value": value, "left_out": left_out, "stratum": stratum})
            parts.append(frame.assign(shift="topics", model=model, measure="RR@10"))
    return sides(pd.concat(parts, ignore_index=True))


def means_of(out, n_boot=300, **options):
    by = ["shift", "model", "measure"]
    compared = {"on": "side", "sides": ("in", "out"), "effect": "loss", "strata": "stratum", "n_boot": n_boot}
    return effects(values_of(out, **options), by, **compared)


def test_exceptions_are_models_that_had_the_cluster_and_are_worse_on_it():
    matrix = pd.DataFrame(list(itertools.product(["a", "b", "c"], repeat=2)), columns=["left_out", "stratum"])
    value = [0.3, 0.5, 0.2, 0.2, 0.4, 0.9, 0.4, 0.4, 0.5]  # column a: .3 out, .2 .4; b: .4 out, .5 .4; c: .5 out, .2 .9
    matrix = matrix.assign(shift="s", model="m", value=value)
    both = pd.concat([matrix.assign(measure="RR@10"), matrix.assign(measure="ASL@100")])
    found = lupart.exceptions(both).set_index("measure")
    assert found.loc["RR@10", ["n_comparisons", "n_exceptions"]].tolist() == [6, 2]
    assert found.loc["ASL@100", ["n_comparisons", "n_exceptions"]].tolist() == [6, 3]  # higher is worse; equal is none


OUT = {"BM25": 0.3, "Reranker": 0.75, "ColBERT": 0.7, "SPLADE": 0.6, DENSE: 0.5}


def claims_of(means, closed=()):
    return lupart.order_claims(means, ~means["model"].isin(closed))


def verdicts(out, **options):
    return claims_of(means_of(out, **options)).set_index("finding")["verdict"]


def test_findings_hold_where_they_were_built_in_and_are_contradicted_where_turned():
    table = claims_of(means_of(OUT))
    assert table["verdict"].tolist() == ["holds"] * 5
    assert table["estimate"].tolist() == pytest.approx([0.125, 0.125, 0.125, 0.19, 0.2], abs=0.03)
    assert (table["low"] < table["estimate"]).all() and (table["estimate"] < table["high"]).all()
    turned = {"BM25": 0.8, "Reranker": 0.5, "ColBERT": 0.55, "SPLADE": 0.65, DENSE: 0.7}
    assert set(verdicts(turned)) == {"contradicted"}
    assert set(verdicts(dict.fromkeys(OUT, 0.5), noise=0.2)) <= {"not shown", "contradicted"}


def test_one_model_that_loses_more_is_enough_against_loses_most():
    found = verdicts(OUT | {"ColBERT": 0.4})
    assert found[MOST] == "contradicted" and found[f"{DENSE} loses more than SPLADE"] == "holds"


def test_a_difference_is_that_of_joint_draws():
    values = values_of({DENSE: 0.5}, noise=0.3)
    twin = values.assign(model="SPLADE", value=values["value"] + 0.1 * (values["side"] == "out"))
    compared = {"on": "side", "sides": ("in", "out"), "effect": "loss", "strata": "stratum", "n_boot": 300}
    means = effects(pd.concat([values, twin]), ["shift", "model", "measure"], **compared)
    row = claims_of(means).set_index("finding").loc[f"{DENSE} loses more than SPLADE"]
    assert row["high"] - row["low"] < 0.3 * (means["high"] - means["low"]).min()  # the same queries hit both models


def test_nothing_is_said_of_a_system_behind_a_closed_gate():
    means = means_of(OUT)
    found = claims_of(means, closed=["SPLADE"]).set_index("finding")
    named = found.index.str.contains("SPLADE")
    assert (found.loc[named, "verdict"] == "not comparable").all() and named.sum() == 3
    assert found.loc[MOST, "estimate"] == pytest.approx(0.25, abs=0.03)  # of the others the next one
    assert found["n_queries"].unique().tolist() == [80] and found["n_trainings"].unique().tolist() == [1]


def test_agreement_of_shifts_is_that_of_their_labels(shifted):
    store, plan = shifted
    means = pd.DataFrame({"shift": list(plan.shifts), "model": DENSE, "loss": 0.1, "low": 0.0, "high": 0.2})
    table = lupart.same_shift(plan.shifts, means.assign(n_queries=30, n_trainings=2), store).set_index("shift")
    assert table.loc["wh-words", "ami"] == pytest.approx(1.0) and table.loc["topics", "ami"] < 0.5
    assert table.loc["topics", "n_shared"] < table.loc["wh-words", "n_shared"]


def test_findings_about_absent_models_are_left_out():
    assert verdicts({DENSE: 0.5, "ColBERT": 0.6, "BM25": 0.3}).index.tolist() == [
        MOST,
        "no comparable model below BM25 out of domain",
    ]
    assert claims_of(means_of({"BM25": 0.3})).empty


def test_shares_of_variance_are_those_of_the_two_way_table():
    values = pd.concat([values_of(OUT), values_of(dict.fromkeys(OUT, 0.2), seed=1).assign(shift="length")])
    compared = {"on": "side", "sides": ("in", "out"), "effect": "loss", "strata": "stratum", "n_boot": 50}
    means = effects(values, ["model", "shift", "measure"], **compared)
    grid = means.pivot(index="shift", columns="model", values="loss")
    total = ((grid - grid.to_numpy().mean()) ** 2).to_numpy().sum()
    kind = grid.shape[1] * ((grid.mean(axis=1) - grid.to_numpy().mean()) ** 2).sum() / total
    system = grid.shape[0] * ((grid.mean(axis=0) - grid.to_numpy().mean()) ** 2).sum() / total
    table = lupart.variance_shares(means).set_index("source")
    assert table["share"].tolist() == pytest.approx([kind, system, 1 - kind - system, kind - system])
    assert (table["low"] <= table["share"]).all() and (table["share"] <= table["high"]).all()
    assert lupart.variance_shares(means.sample(frac=1, random_state=0))["share"].tolist() == pytest.approx(
        table["share"]
    )
    with pytest.raises(InputError, match="9 losses are not one each of 2 shifts and 5 systems"):
        lupart.variance_shares(means.iloc[1:])


def test_losses_are_the_printed_cells():
    table = lupart.published_losses()
    assert table.groupby("shift", sort=False).size().to_dict() == {"topics": 25, "wh-words": 15, "length": 10}
    cells = pd.concat([published.load("lupart", number) for number in (2, 3)])
    printed = cells[cells["quantity"] == "Rel Loss"].set_index(["cluster", "model"])["value"]
    ours = table.dropna().set_index(["cluster", "model"])["loss"]
    for (cluster, model), value in printed.items():
        assert ours[cluster, lupart.MODELS[model]] * 100 == pytest.approx(value)
    trained = table.dropna()
    assert ((trained["in"] - trained["out"]) / trained["in"]).to_numpy() == pytest.approx(trained["loss"], abs=0.005)
    assert table[table["model"] == "BM25"]["loss"].isna().all() and (table["rounding"] == 0.0005).all()
    means = lupart.published_means().set_index(["shift", "model"])
    assert means.loc[("topics", "SPLADE"), ["smallest", "scaled", "largest"]].tolist() == pytest.approx(
        [0.014, np.mean([0.063, 0.122, 0.032, 0.064, 0.014]), 0.122]
    )


def test_our_means_stand_beside_those_of_the_same_shift():
    means = means_of(OUT)
    table = means.beside(lupart.published_means(), ["shift", "model", "measure"])
    assert table.set_index("model")["verdict"].to_dict() == {
        "BM25": "",
        "Reranker": "agrees" if table.loc[1, "low"] <= 0.048 <= table.loc[1, "high"] else "same direction",
        "ColBERT": "same direction",
        "SPLADE": "same direction",
        DENSE: "same direction",
    }


TEXTS = {
    "0": ["red fox", "red hat"],
    "1": ["sea air", "sea fox"],
    "2": ["sun", "moon"],
    "3": ["cow"],
    "4": ["ant", "bee"],
    "wha": ["what is it", "whatsapp who"],
    "how": ["how is what", "tv show", "Show how"],
    "who": ["who is it", "when and how", "What a whole"],
    "short": ["a b", "a  b c d"],
    "long": ["a b c d e f", "a  b c d e", "it's a b c d"],
}


@pytest.fixture
def release(tmp_path):
    for name, texts in TEXTS.items():
        ids = [f"{name}-{number}" for number in range(len(texts))]
        qrels = pd.DataFrame({"query_id": ids, "doc_id": "d", "relevance": 1})
        released.write_shift(tmp_path, name, pd.DataFrame({"query_id": ids, "text": texts}), qrels)
    return tmp_path


def counts(folder):
    return lupart.rule_agreement(folder).set_index(["rule", "cluster"])["n_consistent"].to_dict()


def test_consistent_queries_are_counted_by_file_and_rule(release):
    table = lupart.rule_agreement(release)
    assert (table["n_consistent"] + table["n_other"] == table["n_released"]).all()
    found = counts(release)
    assert [found["spaces", name] for name in ("short", "long")] == [2, 2]
    assert [found["split", name] for name in ("short", "long")] == [2, 1]
    assert [found[r"\w+", name] for name in ("short", "long")] == [2, 2]  # it's makes two words
    of = {
        rule: [found[rule, name] for name in ("wha", "how", "who")] for rule in ("contains", "case kept", "whole words")
    }
    assert of == {"contains": [2, 3, 3], "case kept": [2, 3, 3], "whole words": [1, 2, 2]}


def test_an_order_of_precedence_takes_the_first_cluster_of_which_a_word_is_there(release):
    words = {"wha": ("what", "definition"), "how": ("how",), "who": ("who", "when", "where", "which")}
    found = counts(release)
    for order in itertools.permutations(words):
        for name in words:
            first = [
                next((c for c in order if any(word in query.lower() for word in words[c])), "") for query in TEXTS[name]
            ]
            assert found[" > ".join(order), name] == first.count(name), (order, name)


def test_inconsistent_queries_are_shown_with_what_the_rule_says(release):
    shown = lupart.inconsistent(release, "wh-words", "whole words")
    assert shown.to_numpy().tolist() == [
        ["wha", "wha-1", "whatsapp who", "who"],
        ["how", "how-1", "tv show", ""],
        ["who", "who-2", "What a whole", "wha"],
    ]
    assert lupart.inconsistent(release, "wh-words", "contains").empty
    for shift, rule, message in (("length", "contains", "has no rule"), ("topics", "spaces", "not made by a rule")):
        with pytest.raises(InputError, match=message):
            lupart.inconsistent(release, shift, rule)
    with pytest.raises(InputError, match="no shift 'lenght'; use one of topics, wh-words, length"):
        lupart.released_queries(release, "lenght")


def test_capitals_are_expected_at_the_rate_of_the_other_queries(release):
    others = ["what", "What", "how", "How", "HOW", "how", "who", "Who", "when", "where", "no question"]
    queries = pd.DataFrame({"query_id": [f"q{i}" for i in range(11)] + ["who-2"], "text": [*others, "WHO WHAT HOW"]})
    table = lupart.capitals(release, queries).set_index("cluster")
    assert table["n_other"].tolist() == [2, 4, 4] and table["n_other_capital"].tolist() == [1, 2, 1]
    assert table["n_released"].tolist() == [2, 3, 3] and table["n_capital"].tolist() == [0, 0, 0]
    assert table["expected"].tolist() == [1, 1.5, 0.75]
    assert table["p_value"].tolist() == pytest.approx([0.5**2, 0.5**3, 0.75**3])
    with pytest.raises(InputError, match="none of 1 queries outside the release falls into wha"):
        lupart.capitals(release, queries.tail(2))


OURS = {"0-0": "a", "0-1": "b", "1-0": "b", "1-1": "b", "2-0": "c", "2-1": "", "3-0": "d", "4-0": "d", "x": "e"}


def test_topics_are_matched_one_to_one_and_counted_on_the_known_queries(release):
    found, table = lupart.topic_agreement(pd.Series(OURS), release)
    assert [found[name] for name in ("n_released", "n_known", "n_in_ours", "share")] == [9, 8, 7, 7 / 8]
    inside = {query: topic for query, topic in OURS.items() if topic and query != "x"}
    assert found["ari"] == pytest.approx(adjusted_rand_score([q[0] for q in inside], list(inside.values())))
    assert 0 < found["ami"] < 1
    rows = table.set_index("cluster")
    assert rows.loc[["C0", "C1", "C2"], "topic"].tolist() == ["a", "b", "c"]
    assert rows.loc["C0"].tolist() == ["a", 2, 2, 1, 0.5, 1.0]
    assert rows.loc["C1"].tolist() == ["b", 2, 2, 2, 1.0, 2 / 3]
    assert rows.loc["C2"].tolist() == ["c", 2, 1, 1, 0.5, 1.0]
    alone = rows[rows["topic"] == ""]  # four topics of ours for five released ones
    assert len(alone) == 1 and alone["recall"].item() == 0 and np.isnan(alone["precision"].item())


def test_topics_that_are_the_released_ones_agree_fully(release):
    queries = lupart.released_queries(release, "topics")
    found, table = lupart.topic_agreement(pd.Series(("t" + queries["cluster"]).tolist(), queries["query_id"]), release)
    assert found["ari"] == found["share"] == found["share_matched"] == 1 and found["ami"] == pytest.approx(1)
    assert (table[["recall", "precision"]] == 1).all(axis=None)
    assert table["topic"].tolist() == [f"tC{number}" for number in range(5)]


@pytest.mark.parametrize(
    ("ours", "message"),
    [
        ({"0-0": "a", "1-0": -1}, "a label is a string.*not -1"),
        ({"q1": "a"}, "none of 9 released queries is among ours"),
        ({"0-0": "", "1-0": ""}, "none of 2 released queries is in a topic of ours"),
    ],
)
def test_topics_that_cannot_be_compared_are_an_error(release, ours, message):
    with pytest.raises(InputError, match=message):
        lupart.topic_agreement(pd.Series(ours), release)
    with pytest.raises(InputError, match="query_id given twice: '0-0'"):
        lupart.topic_agreement(pd.Series(["a", "b"], ["0-0", "0-0"]), release)


def test_finer_partition_is_judged_by_purity_above_chance(release):
    native = {
        "0-0": "1",
        "0-1": "2",
        "1-0": "3",
        "1-1": "3",
        "2-0": "4",
        "2-1": "4",
        "3-0": "5",
        "4-0": "5",
        "4-1": "6",
    }
    found = lupart.partition_agreement(pd.Series(native), release, seed=0)
    assert (found["n_known"], found["n_clusters"]) == (9, 6) and found["purity"] == pytest.approx(8 / 9)
    truth = [query[0] for query in native]
    assert found["homogeneity"] == pytest.approx(homogeneity_score(truth, list(native.values())))
    assert found["purity_chance"] < found["purity"] and found["homogeneity_chance"] < found["homogeneity"]
    assert lupart.partition_agreement(pd.Series(native), release, seed=0) == found
    alone = lupart.partition_agreement(pd.Series({query: str(i) for i, query in enumerate(native)}), release, seed=0)
    assert alone["purity"] == alone["purity_chance"] == 1 and alone["ami"] == pytest.approx(0, abs=1e-9)


def by_counting(inside, others):
    """The release's notebook in short: normalised counts, minimum over maximum."""
    counts = [Counter(" ".join(texts).lower().split()) for texts in (inside, others)]
    shares = [{word: n / count.total() for word, n in count.items()} for count in counts]
    pairs = [(shares[0].get(word, 0), shares[1].get(word, 0)) for word in set(shares[0]) | set(shares[1])]
    return sum(map(min, pairs)) / sum(map(max, pairs))


def test_jaccard_is_that_of_a_cluster_and_the_others_of_its_shift(release):
    table = lupart.released_jaccard(release).set_index("cluster")
    assert table.loc["C0", "jaccard"] == pytest.approx(by_counting(TEXTS["0"], sum((TEXTS[i] for i in "1234"), [])))
    assert table.loc["how", "jaccard"] == pytest.approx(by_counting(TEXTS["how"], TEXTS["wha"] + TEXTS["who"]))
    assert table.loc["short", "jaccard"] == table.loc["long", "jaccard"]
    assert table.loc["C0", ["n_queries", "n_words"]].tolist() == [2, 3]
    assert table["authors"].dropna().to_dict() == {"C0": 0.3334, "C1": 0.2632, "C2": 0.3686, "C3": 0.3217, "C4": 0.4701}


def test_released_queries_hold_the_letters_and_no_precedence_classifies_them(real_data):
    folder = real_data / "ms-marco-shift"
    table = lupart.rule_agreement(folder)
    sizes = {"short": 3434, "long": 3546, "wha": 6496, "how": 6497, "who": 6494}
    assert table.groupby("cluster")["n_released"].unique().str[0].to_dict() == sizes
    other = table.set_index(["rule", "cluster"])["n_other"]
    assert [other["spaces", name] for name in ("short", "long")] == [0, 0]  # a classification
    assert [other[rule, name] for rule in ("split", r"\w+") for name in ("short", "long")] == [0, 4, 52, 7]
    assert [other["contains", name] for name in ("wha", "how", "who")] == [0, 0, 0]
    assert [other["whole words", name] for name in ("wha", "how", "who")] == [5, 144, 37]
    assert [other["how > who > wha", name] for name in ("wha", "how", "who")] == [139, 0, 98]
    orders = table[table["rule"].str.contains(">")].groupby("rule")["n_consistent"].sum()
    assert orders.max() == orders["how > who > wha"] == 19250 and orders.min() == orders["wha > who > how"] == 19015
    texts = lupart.released_queries(folder, "wh-words")["text"]
    assert len(texts) == 19487 and sum(len(lupart.attributes.wh_words(text)) > 1 for text in texts) == 708


def test_no_released_query_needs_lower_case(real_data):
    queries = lupart.released_queries(real_data / "ms-marco-shift", "topics")
    table = lupart.capitals(real_data / "ms-marco-shift", queries)
    assert (table["n_capital"] == 0).all() and (table["n_other_capital"] > 0).all()
    assert (table["p_value"] < 0.001).all() and (table["expected"] > 5).all()


def test_jaccard_of_the_released_queries(real_data):
    table = lupart.released_jaccard(real_data / "ms-marco-shift")
    known = [0.298, 0.245, 0.339, 0.301, 0.427, 0.279, 0.226, 0.276, 0.322, 0.322]
    assert table["jaccard"].round(3).tolist() == known and (table["jaccard"] < table["authors"])[:5].all()
    order = [table.dropna().sort_values(name)["cluster"].tolist() for name in ("jaccard", "authors")]
    assert order == [["C1", "C0", "C3", "C2", "C4"], ["C1", "C3", "C0", "C2", "C4"]]  # two change places


def test_released_topics_agree_with_themselves(real_data):
    queries = lupart.released_queries(real_data / "ms-marco-shift", "topics")
    ours = pd.Series(queries["cluster"].where(queries["cluster"] != "C3", "").tolist(), queries["query_id"])
    found, table = lupart.topic_agreement(ours, real_data / "ms-marco-shift")
    assert found["n_released"] == found["n_known"] == 31244 and found["n_in_ours"] == 31244 - 5868
    assert found["ari"] == 1 and table.set_index("cluster")["recall"].tolist() == [1, 1, 1, 0, 1]

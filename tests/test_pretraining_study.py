"""Notebook 06: its plan, what each start has, what each thing adds, and what is concluded."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from interextra.evaluation import logs
from interextra.experiments import pretraining
from interextra.experiments.plans import REGIMES, cells_of, plan_of
from interextra.ground.cells import Store
from interextra.ground.effects import effects
from interextra.ground.errors import InputError
from interextra.models.model import Pretrained
from interextra.models.recipe import load_recipe

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "test_splits": ["test"],
    "resttest_splits": ["test"],
    "protocols": ["ReSTrain", "ReSTTest"],
    "encoder": "trained",
    "recipes": ["bm25", "mini-dense"],
    "strategies": ["bm25", "Random | mini-dense", "STAR | mini-star", "ADORE | mini-adore", "TCT-ColBERT | mini-tct"],
    "starts": [
        "nothing | none | none",
        "words | words | other",
        "spans, other | spans | other",
        "spans | spans | target",
    ],
    "spared": ["Random", "STAR", "ADORE", "TCT-ColBERT"],
    "bases": ["Random"],
    "mapped": [],
    "start_recipe": "mini-dense{initialisation: random}",
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
    return plan_of("06_pretraining_study", P)


def test_plan_trains_each_way_with_both_kinds_of_negatives_and_each_start_once(plan):
    trained = plan.strategies_restrain[plan.strategies_restrain["model"] != "BM25"]
    assert set(trained.groupby(["model", "negative_passages"]).size()) == {4}  # two regimes, two trainings
    assert trained.groupby("negative_passages")["model"].nunique().to_dict() == {"all": 4, "unexposed": 4}
    assert plan.starts_restrain["model"].unique().tolist() == ["BM25", "nothing", "words", "spans, other", "spans"]
    assert plan.judged_by["starts"] == {"ReSTrain": "R(rel=2)@100", "ReSTTest": "R@100"}
    assert set(plan.starts_resttest["left_out"]) == {"1", "2"}
    for row in trained.itertuples():
        assert row.run.model.recipe.negative_passages == row.negative_passages


def test_what_comes_first_is_trained_on_the_same_queries_with_the_same_negatives_and_shared(plan):
    runs = plan.strategies_restrain.set_index(["model", "negative_passages", "regime", "seed"])["run"]
    random, star, adore = (runs[name, "unexposed", REGIMES[0], 2].model for name in ("Random", "STAR", "ADORE"))
    assert star.first.key == star.ranking.model.key == random.key and adore.first.key == star.key
    assert star.ranking.queries == (star.train,) and star.ranking.depth == star.recipe.negative_depth
    teacher = runs["TCT-ColBERT", "unexposed", REGIMES[0], 2].model.teacher
    assert (teacher.recipe.architecture, teacher.recipe.negative_passages, teacher.seed) == ("colbert", "unexposed", 2)
    kinds = {cell.key for run in runs for cell in run.model.needs() if isinstance(cell, Pretrained)}
    assert not kinds
    seeds = [
        cell.seed
        for cell in cells_of([row.run.model.first for row in plan.starts_restrain.itertuples() if row.model == "spans"])
    ]
    assert sorted(seeds) == [1, 2]  # a pretraining a training, shared by its regimes


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"protocols": ["nope"]}, "'protocols': write ReSTrain, or ReSTrain and ReSTTest"),
        ({"protocols": ["ReSTTest"]}, "'protocols': write ReSTrain, or ReSTrain and ReSTTest"),
        ({"protocols": ["ReSTrain", "nope"]}, "'protocols': write ReSTrain, or ReSTrain and ReSTTest"),
        ({"mapped": ["words", "nope"]}, "'mapped': 'nope' is none of the starts"),
        ({"bases": ["nope"]}, "'bases': 'nope' is none of the strategies"),
        ({"strategies": ["Lexical | bm25", *P["strategies"][1:]]}, "'strategies': no system is BM25"),
        ({"trained_sizes": [60, 61]}, "'trained_sizes': 61 is none of 'sizes'"),
    ],
)
def test_what_ended_after_all_trainings_is_refused_in_the_plan(change, said):
    assert not plan_of("06_pretraining_study", P | {"mapped": ["words"]}).starts_restrain.empty
    with pytest.raises(InputError, match=said):
        plan_of("06_pretraining_study", P | change)


def test_no_analysis_computes_a_result_that_the_provenance_misses(root):
    """The vectors of Table 10 trained a model whose weights were gone, and the provenance did not name it."""
    folders = {"lib/interextra/experiments": "*.py", "notebooks": "*.ipynb"}
    files = [path for folder, form in folders.items() for path in (root / folder).glob(form)]
    assert len(files) > 15 and not [path.name for path in files if "store.build(" in path.read_text()]


def test_only_what_is_spared_is_trained_without_exposed_negatives():
    made = P | {"spared": ["Random", "STAR"]}
    of = plan_of("06_pretraining_study", made).strategies_restrain.groupby("negative_passages")["model"].unique()
    assert set(of["all"]) - set(of["unexposed"]) == {"BM25", "ADORE", "TCT-ColBERT"}
    with pytest.raises(InputError, match="'spared': 'TAR' is none of the strategies"):
        plan_of("06_pretraining_study", P | {"spared": ["TAR"]})


def test_without_resttest_there_are_no_buckets(plan):
    assert plan_of("06_pretraining_study", P | {"protocols": ["ReSTrain"]}).starts_resttest.empty
    with pytest.raises(InputError, match="words reads 'wiki'; it is one of none, other, target"):
        plan_of("06_pretraining_study", P | {"starts": ["words | words | wiki"]})


def test_marks_say_what_a_start_has_and_whose_place_it_takes(plan):
    marks = plan.marks.set_index("model")
    assert marks["te"].to_dict() == {"nothing": False, "words": False, "spans, other": True, "spans": True}
    assert marks["tc"].to_dict() == {"nothing": False, "words": False, "spans, other": False, "spans": True}
    assert marks["role"].tolist() == ["", "RoBERTa", "coCon-wiki", "coCon-marco"]
    theirs = pretraining.published_table(9, 2).set_index(["role", "protocol", "measure"])["scaled"]
    assert theirs["Rand", "ReSTrain", "R(rel=2)@100"] == -0.30 and theirs["coCon-marco", "ReSTTest", "R@100"] == -0.03
    assert ("BERT, HardNeg", "ReSTrain", "nDCG@10") in pretraining.published_table(8, 2).set_index(
        ["role", "protocol", "measure"]
    ).index
    assert "R@100" in set(pretraining.published_table(9, 1).query("protocol == 'ReSTrain'")["measure"])


def test_starts_from_given_weights_keep_what_these_have():
    more = [
        "Rand | none | none | small-dense{initialisation: minilm:layers=2:random}",
        "MiniLM | pairs | other | small-dense",
        "words, target | words | target",
        "spans, target | spans | target",
    ]
    plan = plan_of("06_pretraining_study", P | {"starts": more, "start_recipe": "small-dense"})
    marks = plan.marks.set_index("model")
    assert marks["te"].to_dict() == {"Rand": False, "MiniLM": True, "words, target": True, "spans, target": True}
    assert marks["made"].tolist() == ["given", "base", "ours", "ours"]
    assert list(plan.pretrained) == ["words, target", "spans, target"]
    runs = plan.starts_restrain.drop_duplicates("model").set_index("model")["run"]
    assert runs["Rand"].model.first is None and runs["Rand"].model.start == runs["MiniLM"].model.start
    assert runs["spans, target"].model.first.initialisation == "minilm:layers=2"
    levels = {("starts", name, "all"): (0.6, 0.5 + 0.01 * place) for place, name in enumerate(marks.index)}
    made = table(levels)
    added = pretraining.steps(made, plan.marks)
    assert added["added"].tolist() == ["words, on the target"] and added["second"].tolist() == ["MiniLM"]
    found = pretraining.findings(made, made, plan.marks, ["Random"]).groupby("about", sort=False)["finding"].agg(list)
    assert found[pretraining.MORE] == ["words, target loses less than MiniLM", "spans, target loses less than MiniLM"]
    assert len(found[pretraining.READ]) == 3 and pretraining.WHOLE not in found and pretraining.TARGET not in found
    fair = plan.marks.set_index("model")["fair"]
    assert not fair["words, target"]  # the ways of training start from other weights here
    with pytest.raises(InputError, match="the objective of X is 'word'; it is one of none, words"):
        plan_of("06_pretraining_study", P | {"starts": ["X | word | other | mini-dense"]})
    with pytest.raises(InputError, match=r"'start_measures': AP is not measured by ReSTrain"):
        plan_of("06_pretraining_study", P | {"start_measures": ["AP"]})


def test_shares_of_exposed_negatives_count_what_was_drawn(tmp_path):
    log = {"exposed_negatives": 0.05, "exposed_passages": 0.4}
    recipes = {"Random": load_recipe("mini-dense"), "In-batch": load_recipe("mini-dense", negatives="in-batch")}
    recipes |= {"BM25": load_recipe("bm25")}
    rows = [
        {"model": name, "negative_passages": "all", "regime": side, "run": run}
        for name, recipe in recipes.items()
        for run in [SimpleNamespace(recipe=recipe, log=lambda _: log)]
        for side in REGIMES
    ]
    found = logs.exposed(pd.DataFrame(rows), Store(tmp_path))
    assert found["model"].tolist() == ["Random", "Random"] and found["regime"].tolist() == list(REGIMES)
    assert found["exposed_negatives"].tolist() == pytest.approx([0.05 * (16 + 96) / 16] * 2)  # 16 drawn, 96 in-batch


def table(levels, noise=0.01):
    """Effects of systems with the given interpolation and extrapolation: (study, model, negative_passages) → both."""
    draw, parts = np.random.default_rng(1), []
    base = np.random.default_rng(2).normal(scale=0.1, size=300)
    for (study, model, passages), sides in levels.items():
        for regime, level in zip(REGIMES, sides, strict=True):
            values = level + base + draw.normal(scale=noise, size=300)
            row = {"study": study, "model": model, "negative_passages": passages, "regime": regime, "seed": 1}
            parts.append(pd.DataFrame(row | {"query_id": np.arange(300), "measure": "R@100", "value": values}))
    by = ["study", "model", "negative_passages", "measure"]
    how = {"on": "regime", "sides": REGIMES, "effect": "delta", "seed": 1, "n_boot": 500, "family": []}
    made = effects(pd.concat(parts), by, **how)
    return made.assign(comparable=made["model"] != "weak")


def test_conclusions_are_differences_of_delta_and_the_gate_keeps_some_out():
    marks = pd.DataFrame(
        [
            ("weak", "none", False, False, "given", "Rand"),
            ("words", "words", False, False, "ours", ""),
            ("other", "condenser", True, False, "ours", ""),
            ("target", "condenser", True, True, "ours", ""),
        ],
        columns=["model", "objective", "te", "tc", "made", "role"],
    ).assign(fair=True)
    levels = {
        ("starts", name, "all"): sides
        for name, sides in {
            "weak": (0.4, 0.3),
            "words": (0.6, 0.5),
            "other": (0.6, 0.55),
            "target": (0.6, 0.55),
        }.items()
    }
    levels |= {("strategies", "Random", which): (0.6, 0.5) for which in ("all", "unexposed")}
    levels |= {("strategies", "STAR", "all"): (0.7, 0.5), ("strategies", "STAR", "unexposed"): (0.7, 0.6)}
    made = table(levels)
    nine = made[made["study"] == "starts"]
    found = pretraining.findings(nine, made, marks, ["Random"]).set_index("finding")
    verdicts = found["verdict"].to_dict()
    assert verdicts["other loses less than words"] == "holds"
    assert verdicts["target loses less than other"] == "not shown"
    assert verdicts["words loses less than weak"] == "not comparable"
    assert verdicts["STAR is better than Random in interpolation"] == "holds"
    assert verdicts["STAR loses less than Random"] == "contradicted"
    assert verdicts["STAR: exposure is part of the loss"] == "holds"
    assert verdicts["Random: exposure is part of the loss"] == "not shown"
    assert verdicts["target loses less than STAR"] == "holds"
    losses, *told = pretraining.answers(
        nine[nine["model"] == "words"].assign(protocol="ReSTrain"), found.reset_index().assign(protocol="ReSTrain")
    )
    assert losses.startswith("Δ, ReSTrain, R@100, 300 queries: words -16.") and losses.endswith("].")
    assert told[0].startswith(f"{pretraining.READ}? Not comparable: 3 differences, +8")
    told = dict(sentence.split("? ", 1) for sentence in told)
    assert told[pretraining.WHOLE].startswith("Holds: other loses less than words (ReSTrain) +8")
    assert told[pretraining.TARGET].startswith("Not shown: target loses less than other (ReSTrain) ")
    assert "Contradicted: STAR loses less than Random (ReSTrain) -" in told[pretraining.NARROW]
    both = pd.concat([found.reset_index().assign(protocol=name) for name in ("ReSTrain", "ReSTTest")])
    _, *again = pretraining.answers(nine.assign(protocol="ReSTrain"), both.reset_index(drop=True))
    assert "Not comparable: 6 differences" in again[0] and any("(ReSTTest) +8" in sentence for sentence in again)
    assert found["estimate"]["STAR: exposure is part of the loss"] == pytest.approx(1 / 7, abs=0.01)
    added = pretraining.steps(nine, marks).set_index("added")["difference"]
    assert added["condenser"] == pytest.approx(1 / 12, abs=0.01) and abs(added["condenser: the target"]) < 0.01


def test_relevant_passages_are_those_of_one_query_alone():
    class Rows:
        def rows(self, ids):
            return np.array([int(name[1:]) for name in ids])

    data = type("Data", (), {"passages": Rows()})
    queries = pd.DataFrame({"query_id": ["a", "b", "c"], "text": ["A", "B", "C"]})
    pairs = [("a", "d1"), ("a", "d2"), ("a", "d3"), ("b", "d3"), ("b", "d4"), ("c", "d5"), ("c", "d6"), ("c", "d7")]
    qrels = pd.DataFrame([(q, d, 1) for q, d in pairs] + [("a", "d8", 0)], columns=["query_id", "doc_id", "relevance"])
    found = pretraining.relevant_passages(data, queries, qrels, least=2)
    assert found.values.tolist() == [["c", "C", 5], ["c", "C", 6], ["c", "C", 7], ["a", "A", 1], ["a", "A", 2]]
    assert pretraining.relevant_passages(data, queries, qrels, least=4).empty

"""Notebook 09: its plan, its sums by hand, what stands above an answer, and MS MARCO's counts."""

import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_named, plan_with
from toy_topics import write_topics

from interextra.claims import claim, judgement
from interextra.data.runs import RunFile
from interextra.models.training.pairs import exposed_passages, training_pairs
from interextra.models.training.trainer import EncoderBatches
from interextra.notebooks import n09_exposure as exposure
from interextra.notebooks.n05_architectures import six_passages
from interextra.notebooks.n09_exposure import DENSE
from interextra.papers import releases
from interextra.store.errors import InputError
from interextra.store.folders import Store
from interextra.store.schedule import build_all

P = {
    "collection": "mini:n_train=600",
    "train_split": "train",
    "train_limit": 0,
    "shift": {"shift": "wh-words", "clusters": ["how", "who"]},
    "n_test": 15,
    "train_size": 0,
    "steps": 2,
    "recipes": ["bm25"],
    "conditions": [
        {
            "label": "DR (base)",
            "source": "in-batch",
            "recipe": "mini-dense",
            "negatives": "in-batch",
        },
        {"label": "DR (base)", "source": "random", "recipe": "mini-dense", "negatives": "random"},
        {
            "label": "SPLADE",
            "source": "BM25",
            "recipe": "mini-splade",
            "negatives": "bm25+in-batch",
        },
    ],
    "restricted": {DENSE: ["unexposed", "control"], "SPLADE": ["unexposed"]},
    "gate_splits": ["dev"],
    "arms": [],
    "doses": [0.5, 1.0],
    "seeds": [1, 2, 3],
    "other_seeds": [1, 2],
    "depth": 10,
    "seed": 1,
}


def test_plan_has_each_condition_without_each_cluster_and_passages_only_where_negatives_are_drawn():
    plan = plan_named("09_negative_exposure", P)
    counted = plan.design.groupby(exposure.CONDITION).size().div(2).astype(int).to_dict()
    assert counted == {
        ("BM25", "none", "all"): 1,
        (DENSE, "in-batch", "all"): 3,
        **{(DENSE, "random", which): 3 for which in ("all", "unexposed", "control")},
        **{("SPLADE", "BM25", which): 2 for which in ("all", "unexposed")},
    }
    recipes = {
        run.model.recipe.negative_passages
        for run in plan.design["run"]
        if run.model.recipe.architecture != "bm25"
    }
    assert recipes == {"all", "unexposed", "control"}
    assert plan.dose["share"].value_counts().to_dict() == {0.5: 6, 1.0: 6}
    assert {run.model.recipe.negative_passages for run in plan.dose["run"]} == {0.5, 1.0}
    with pytest.raises(InputError, match="write {label: …, source: …, recipe: …, option: value}"):
        plan_with(exposure, P | {"conditions": [{"label": "x", "recipe": "mini-dense"}]})
    with pytest.raises(
        InputError, match="'restricted': 'nope' is none of 'DR \\(base\\)', 'SPLADE'"
    ):
        plan_with(exposure, P | {"restricted": {"nope": ["unexposed"]}})
    with pytest.raises(InputError, match="'restricted': 'all' is none of 'unexposed', 'control'"):
        plan_with(exposure, P | {"restricted": {DENSE: ["unexposed", "all"]}})  # would stand twice
    with pytest.raises(InputError, match="'recipes': no system is BM25 with the label 'BM25'"):
        plan_with(exposure, P | {"recipes": [{"label": "Lexical", "recipe": "bm25"}]})


def test_one_measure_decides():
    with pytest.raises(InputError, match="parameter 'measures': give one, not 'RR@10', 'nDCG@10'"):
        plan_with(exposure, P | {"measures": ["RR@10", "nDCG@10"]})
    mean = mean_of(LOSSES)
    both = pd.concat([mean, mean.assign(measure="nDCG@10")])
    with pytest.raises(InputError, match="rows of 'RR@10', 'nDCG@10': take those of one measure"):
        exposure.share_of_loss(both)


def values(losses, n=200, noise=0.02):
    """Values of one stratum: Avg In .8 (BM25 .5), Out so that the loss of each condition is as
    given.
    """
    random, parts, base = (
        np.random.default_rng(2),
        [],
        np.random.default_rng(1).normal(scale=0.1, size=n),
    )
    for condition, loss in {("BM25", "none", "all"): 0.0, **losses}.items():
        level = 0.5 if condition[0] == "BM25" else 0.8
        for side, mean in (("in", level), ("out", level * (1 - loss))):
            value = mean + base + noise * random.normal(size=n)
            frame = pd.DataFrame(
                {"side": side, "query_id": [f"q{at}" for at in range(n)], "value": value}
            )
            parts.append(frame.assign(**dict(zip(exposure.CONDITION, condition, strict=True))))
    return pd.concat(parts, ignore_index=True).assign(stratum="a", measure="RR@10")


LOSSES = {
    (DENSE, "BM25", "all"): 0.40,
    (DENSE, "BM25", "unexposed"): 0.22,
    (DENSE, "random", "all"): 0.30,
    (DENSE, "random", "unexposed"): 0.20,
    ("SPLADE", "BM25", "all"): 0.25,
    ("SPLADE", "BM25", "unexposed"): 0.15,
}


def mean_of(losses):
    return exposure.relative_losses(values(losses), seed=1, n_boot=400)[1]


def test_share_of_the_loss_is_what_is_saved():
    mean = mean_of(
        LOSSES | {(DENSE, "BM25", "without the kind"): 0.30}
    )  # no condition that unexposed is compared with
    table = exposure.share_of_loss(mean).set_index(["model", "negatives"])
    assert table.loc[(DENSE, "BM25"), "share_of_loss"] == pytest.approx(0.45, abs=0.05)
    row = table.loc[("SPLADE", "BM25")]
    assert table["delta"].tolist() == pytest.approx([-0.40, -0.30, -0.25], abs=0.02)
    assert (
        row["saved"] == pytest.approx(0.10, abs=0.02)
        and row["saved_low"] < row["saved"] < row["saved_high"]
    )
    at = [
        mean.index[(mean[exposure.CONDITION] == list(key)).all(axis=1)][0]
        for key in list(LOSSES)[:2]
    ]
    drawn = mean.drawn()[at]
    assert table.loc[(DENSE, "BM25"), "low"] == pytest.approx(
        np.quantile(1 - drawn[1] / drawn[0], 0.025), abs=0.002
    )


def test_sparing_the_kind_answers_its_claim_against_its_control():
    arms = {
        (DENSE, "random", label): loss
        for label, loss in zip(exposure.ARMS["kind"], (0.2, 0.3), strict=True)
    }
    mean = mean_of(LOSSES | arms)
    ahead = mean[[*exposure.CONDITION, "measure"]].assign(lead=0.2, lead_low=0.1)
    answers = claim.answered(claim.of_notebook("09_negative_exposure"), [mean], ahead)
    assert answers["claim"].iloc[0] == "exposure-kind"
    secondary = [claim.stated()[name].secondary for name in answers["claim"]]
    assert secondary == [False] + [True] * (len(answers) - 1)
    assert answers["estimate"].iloc[0] == pytest.approx(0.1, abs=0.02)
    found = judgement.concluded(answers)
    assert found["verdict"].iloc[0] == "holds" and found["size"].iloc[0] == ""
    assert found["verdict"].iloc[1:].eq("").all()
    closed = judgement.concluded(
        claim.answered(
            claim.of_notebook("09_negative_exposure"), [mean], ahead.assign(lead_low=-0.1)
        )
    )
    assert (
        claim.stated()["exposure-kind"].gate == "none: one system"
    )  # what it has learnt stands on both sides
    assert closed["verdict"].iloc[0] == "holds" and closed["lead"].iloc[0] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("dense", "splade", "verdict"), [(0.02, 0.15, "holds"), (0.15, 0.02, "contradicted")]
)
def test_negatives_reverse_holds_where_the_loss_of_dense_retrieval_grows_less(
    dense, splade, verdict
):
    """From in-batch to BM25's negatives each loss grows by what is given."""
    grown = {(DENSE, "BM25", "all"): 0.3 + dense, ("SPLADE", "BM25", "all"): 0.1 + splade}
    mean = mean_of(
        LOSSES | grown | {(DENSE, "in-batch", "all"): 0.3, ("SPLADE", "in-batch", "all"): 0.1}
    )
    ahead = mean[[*exposure.CONDITION, "measure"]].assign(lead=0.2, lead_low=0.1)
    answers = claim.answered([claim.stated()["negatives-reverse"]], [mean], ahead)
    assert answers["estimate"].item() == pytest.approx(splade - dense, abs=0.02)
    assert judgement.concluded(answers)["verdict"].item() == verdict


def test_arms_spare_the_kind_or_the_others_or_the_test_answers_and_as_many_random_passages(
    tmp_path,
):
    p = P | {
        "arms": list(exposure.ARMS),
        "seeds": [1],
        "restricted": {DENSE: ["unexposed"]},
        "doses": [],
    }
    store, plan = Store(tmp_path / "cells"), plan_with(exposure, p)
    dense = plan.design[(plan.design["model"] == DENSE) & (plan.design["negatives"] == "random")]
    arms = [label for pair in exposure.ARMS.values() for label in pair]
    assert dense["negative_passages"].drop_duplicates().tolist() == ["all", "unexposed", *arms]
    assert dense["run"].map(lambda run: run.key).is_unique
    spared = {
        (row.negative_passages, row.left_out): row.run.model.spared for row in dense.itertuples()
    }
    read = {}
    for key, cell in spared.items():
        if cell is not None:
            store.build(cell)
            read[key] = set(cell.read(store))
    data, sets, clusters = (
        plan.shift.pool.source.open(),
        plan.shift.sets(store),
        plan.shift.strata(store),
    )
    qrels = plan.shift.pool.qrels().set_index("query_id")["doc_id"]
    pairs = training_pairs(data, sets["without-how"], "train", relevance=1)
    ids = np.array(data.passages.doc_ids.to_pylist())
    exposed = set(ids[exposed_passages(data, pairs, relevance=1)])
    kind, others, answers = (read[exposure.ARMS[which][0], "how"] for which in exposure.ARMS)
    assert kind | others == exposed and not kind & others and answers < exposed
    assert set(qrels[clusters.index[clusters == "how"]]) & exposed <= kind
    assert answers == set(qrels[sets["held-out"]]) & exposed
    for which, label in exposure.ARMS.values():
        assert (
            len(read[label, "how"]) == len(read[which, "how"])
            and read[label, "how"] != read[which, "how"]
        )
    recipe = dense["run"].iloc[0].model.recipe
    made = EncoderBatches(None, pairs, data, recipe, seed=1, spared=sorted(kind))
    assert set(ids[made.rows]) == set(ids) - kind
    with pytest.raises(InputError, match="'arms': 'x' is none of 'kind', 'other kinds', 'answers'"):
        plan_with(exposure, P | {"arms": ["x"]})


def test_offset_is_fitted_on_other_entities_and_restores_a_prior_against_a_kind(tmp_path):
    p = P | {"arms": ["kind"], "seeds": [1], "restricted": {}, "doses": []}
    store, plan = Store(tmp_path / "outputs" / "cells"), plan_with(exposure, p)
    store.build(plan.shift)
    for cell in plan.kind.values():
        store.build(cell)
    held, cluster = plan.shift.sets(store)["held-out"], plan.shift.strata(store)
    answer = plan.shift.pool.qrels().drop_duplicates("query_id").set_index("query_id")["doc_id"]
    of_kind = set(plan.kind["how"].read(store))
    wrong = [
        doc_id
        for doc_id in plan.shift.pool.source.open().passages.doc_ids.to_pylist()
        if doc_id not in of_kind
    ]
    rows = []
    for (
        query_id
    ) in held:  # one wrong passage above each answer of the left-out kind, below each other one
        mine = set(plan.shift.pool.qrels().query("query_id == @query_id")["doc_id"])
        other = next(doc_id for doc_id in wrong if doc_id not in mine)
        rows += [
            (query_id, answer[query_id], 1.0 - 2 * (answer[query_id] in of_kind)),
            (query_id, other, 0.0),
        ]
    design, stored = ran(
        tmp_path, store, pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])
    )
    plan.design = design.assign(
        model=DENSE, negatives="random", negative_passages="all", left_out="how", seed=1
    )
    found = exposure.with_offset(plan, stored, seed=1).set_index("query_id")
    assert (found["value"] == 1).all() and found["stratum"].equals(cluster.loc[found.index])
    assert set(found["measure"]) == {"RR@10"}


def test_a_passage_that_is_judged_irrelevant_is_no_answer():
    run = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "score": [2.0, 1.0]})
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "relevance": [0, 1]})
    query_ids, values = exposure._values_by_offset(run, [], qrels)
    assert query_ids.tolist() == ["q"] and (values == 0.5).all()


def test_reciprocal_ranks_are_those_of_the_first_relevant_passage():
    scores, relevant = np.array([3.0, 2, 1, 5, 4, 1, 1]), np.array([0, 1, 1, 0, 0, 0, 1], bool)
    query = np.array([0, 0, 0, 1, 1, 2, 2])
    assert exposure.reciprocal_ranks(scores, query, relevant).tolist() == [
        0.5,
        0.0,
        0.5,
    ]  # a tie is a miss


def test_in_domain_values_have_bm25_in_every_condition():
    some = values(LOSSES).assign(left_out="a", stratum="b")
    found = exposure.gate_in_domain(pd.concat([some, some.assign(stratum="a")]))
    counts = found.groupby(["negatives", "negative_passages"])["model"].agg(set)
    assert (
        all("BM25" in models and len(models) > 1 for models in counts)
        and ("none", "all") not in counts.index
    )
    assert (found["stratum"] == "b").all()


def test_exposure_table_has_clusters_and_their_mean():
    each, mean = exposure.relative_losses(values(LOSSES), 1, 100)
    table = exposure.exposure_table("kind", each, mean)
    first = [
        "shift",
        "left_out",
        "model",
        "negatives",
        "negative_passages",
        "avg_in",
        "out",
        "delta",
        "low",
        "high",
    ]
    assert (
        list(table)[:10] == first
        and set(table["left_out"]) == {"a", "mean"}
        and len(table) == 2 * (1 + len(LOSSES))
    )


def ran(folder, store, frame, **labels):
    """A design of one run with these results, and a store that has it in `folder`."""

    class Ran:
        key = "ran"

        def needs(self):
            return []

        def read(self, store, queries):
            return RunFile.read(store[self] / f"run.{queries.name}.parquet")

    class Stored(dict):
        def __getitem__(self, cell):
            return folder if isinstance(cell, Ran) else store[cell]

    RunFile.from_frame(frame).write_parquet(folder / "run.held-out.parquet")
    return pd.DataFrame({"model": ["x"], "run": [Ran()]} | labels), Stored()


def test_exposed_answers_are_those_that_no_training_query_shares(tmp_path):
    plan = plan_with(exposure, P | {"restricted": {}})
    store, shift = Store(tmp_path / "outputs" / "cells"), plan.shift
    store.build(shift)
    table = exposure.exposed_answers(plan, store, shift.pool.source.open()).set_index(
        ["left_out", "side"]
    )
    answers = shift.pool.qrels().groupby("query_id")["doc_id"].agg(set)
    held = shift.strata(store)
    for name in shift.names:
        positives = set().union(*answers[shift.sets(store)[f"without-{name}"]])
        free = held.index.to_series().map(
            lambda query_id, seen=positives: not answers[query_id] & seen
        )
        for side, mine in (("out", held == name), ("in", held != name)):
            expected = free[mine].mean(), mine.sum()
            assert tuple(table.loc[(name, side), ["exposed", "n_queries"]]) == pytest.approx(
                expected
            )


OF_PASSAGES = {
    "shift": {"shift": "passage-clusters:k=3,encoder=lsa", "name": "kind"},
    "n_test": 0,
    "test_splits": ["test"],
    "train_size": 9,
    "gate_splits": [],
    "conditions": [
        {"label": DENSE, "source": source, "recipe": "mini-dense", "negatives": negatives}
        for source, negatives in (("random", "both"), ("BM25", "bm25+in-batch"))
    ],
    "restricted": {},
    "arms": {"random": ["kind"], "BM25": ["answers"]},
    "doses": [],
    "seeds": [1],
}


@pytest.fixture
def of_passages(tmp_path):
    """Return a plan by kinds of passages that another split measures, and a store with its shift."""
    plan = plan_with(exposure, P | OF_PASSAGES | {"collection": write_topics(tmp_path / "topics")})
    store = Store(tmp_path / "outputs" / "cells")
    build_all(store, [plan.shift])
    return plan, store


def test_arms_of_a_source_are_trained_with_its_negatives_alone(of_passages):
    plan, _ = of_passages
    counted = plan.design.groupby(["negatives", "negative_passages"]).size().to_dict()
    arms = {"random": ("all", *exposure.ARMS["kind"]), "BM25": ("all", *exposure.ARMS["answers"])}
    expected = {(source, which): 3 for source, labels in arms.items() for which in labels}
    assert counted == expected | {("none", "all"): 3}
    assert {tuple(queries.name for queries in run.queries) for run in plan.design["run"]} == {
        ("test",)
    }
    for arms, message in (
        ({"nowhere": ["kind"]}, "'arms': 'nowhere' is none of 'random', 'BM25'"),
        ({"BM25": ["x"]}, "'arms': 'x' is none of 'kind'"),
    ):
        with pytest.raises(InputError, match=message):
            spec = plan.shift.pool.source.spec
            plan_with(exposure, P | OF_PASSAGES | {"collection": spec, "arms": arms})


def test_passages_of_the_kind_and_answers_of_the_split_are_spared(of_passages):
    plan, store = of_passages
    data = plan.shift.pool.source.open()
    ids = np.array(data.passages.doc_ids.to_pylist())
    left_out = plan.shift.names[0]
    training_set = plan.shift.sets(store)[f"without-{left_out}"]
    pairs = training_pairs(data, training_set, "train", relevance=1)
    is_exposed = exposed_passages(data, pairs, relevance=1)
    is_of_kind = plan.shift.by.is_of(left_out, store)
    is_answer = np.isin(ids, data.qrels("test")["doc_id"])
    spared = {
        row.negative_passages: row.run.model.spared
        for row in plan.design.query("left_out == @left_out").itertuples()
        if row.run.model.spared is not None
    }
    build_all(store, list(spared.values()))
    read = {name: set(cell.read(store)) for name, cell in spared.items()}
    assert read["without the kind"] == set(ids[is_exposed & is_of_kind])
    assert read["without the test answers"] == set(ids[is_exposed & is_answer])
    assert len(read["control of the kind"]) == len(read["without the kind"]) > 0
    assert is_of_kind[is_exposed].any() and not is_of_kind[is_exposed].all()


def test_answers_of_a_split_are_counted_by_the_kind_of_its_queries(of_passages):
    plan, store = of_passages
    cluster = exposure.clusters_of(plan, store)
    assert cluster.index.tolist() == plan.tested[0].ids()
    table = exposure.exposed_answers(plan, store, plan.shift.pool.source.open())
    # a passage answers one query: those of the test queries answer no training query
    assert (table["exposed"] == 1).all()
    of_each = table[table["side"] == "out"].set_index("left_out")["n_queries"]
    assert of_each.to_dict() == cluster.value_counts().to_dict()
    assert (table.groupby("left_out")["n_queries"].sum() == len(cluster)).all()


def test_an_answer_that_is_no_passage_is_not_counted_as_the_last_one(of_passages, monkeypatch):
    plan, store = of_passages
    query_ids = plan.tested[0].ids()
    answers = pd.DataFrame({"query_id": query_ids, "doc_id": "nowhere"})
    monkeypatch.setattr(exposure, "_answers_of_all", lambda tested, store: answers)
    with pytest.raises(InputError, match="doc_ids are not in the collection: 'nowhere'"):
        exposure.exposed_answers(plan, store, plan.shift.pool.source.open())


def test_share_of_answers_on_ms_marco_is_counted_in_the_files(tmp_path):
    (tmp_path / "qrels.train.tsv").write_text("".join(f"{at} 0 {100 + at} 1\n" for at in range(50)))
    (tmp_path / "run.txt").write_text(
        "q Q0 100 1 9 x\nq Q0 7 2 8 x\nq Q0 8 3 7 x\nq Q0 101 4 6 x\n"
    )
    table = releases.on_ms_marco(tmp_path, {"a": tmp_path / "run.txt"}, held_out=0.2).set_index(
        "negatives"
    )
    scale = releases.TRAIN_QUERIES / 50
    assert table.loc["a random passage", "answers"] == pytest.approx(50 / releases.PASSAGES * scale)
    assert table.loc["BM25's first 10 (a)", "exposed"] == pytest.approx(0.5 * scale * 0.2)


def test_none_or_two_files_of_judgements_are_an_error_that_names_them(tmp_path):
    """It ended with "not enough values to unpack"."""
    with pytest.raises(InputError, match="there are: none"):
        releases.on_ms_marco(tmp_path, {}, held_out=0.2)
    for name in ("qrels.train.tsv", "qrels.train.part.tsv"):
        (tmp_path / name).write_text("1 0 100 1\n")
    with pytest.raises(InputError, match="'qrels.train.part.tsv', 'qrels.train.tsv'"):
        releases.on_ms_marco(tmp_path, {}, held_out=0.2)


def test_real_answers_are_about_as_frequent_in_bm25_s_list_as_at_random(real_data):
    run = real_data / "runs/dl-passage/colbert-prf-appendix/BM25.2020.res.gz"
    table = releases.on_ms_marco(real_data / "msmarco", {"DL 2020": run}, held_out=0.2).set_index(
        "negatives"
    )
    assert 0.05 < table.loc["a random passage", "answers"] < 0.07
    assert 1 < table.loc["BM25's first 1,000 (DL 2020)", "against_random"] < 1.5


def test_dose_of_a_mean_keeps_its_effect():
    some = values({(DENSE, "random", "all"): 0.3}).assign(share=0.5)
    table = exposure.dose_losses(some, seed=1, n_boot=50)
    assert table.set_index("model").loc[DENSE, "delta"] == pytest.approx(-0.3, abs=0.02)


def test_doses_begin_with_no_exposed_negative():
    design = exposure.with_no_dose(plan_named("09_negative_exposure", P))
    assert design.groupby("share").size().to_dict() == {0.0: 6, 0.5: 6, 1.0: 6}
    assert set(design["model"]) == {DENSE} and set(design["negatives"]) == {"random"}


def test_training_runs_are_by_system_and_source():
    found = exposure.training_runs(plan_named("09_negative_exposure", P))
    found = found.set_index(["model", "negatives"])
    random = found.loc[DENSE, "random"]
    assert random["negatives from"] == "all, unexposed, control"
    assert random["training sets"] == "without how, who" and random["seeds"] == "1, 2, 3"
    assert random["training runs"] == 3 * 2 * 3
    assert found.loc["BM25", "none"]["training runs"] == 0


def test_example_is_the_query_with_most_exposed_passages_in_bm25_s_list(tmp_path, monkeypatch):
    six = six_passages(tmp_path)
    pairs = training_pairs(six, ["a", "b"], "train", relevance=1)
    exposed = exposed_passages(six, pairs, relevance=1)  # those of c to f
    found = np.array([[0, 1, 2], [3, 1, -1]])
    monkeypatch.setattr(exposure, "bm25_search", lambda *args, **options: (found, None))
    question, page = exposure.most_exposed(six, pairs, exposed)
    assert question == "what eases pain"  # the last row, -1, is no exposed passage
    assert page["relevant to this query"].tolist() == [True, False, False]
    assert page["exposed"].tolist() == [False, False, True]
    found[0, 2] = 1
    assert exposure.most_exposed(six, pairs, exposed)[0] == "what lowers a fever"


def test_pages_have_a_column_for_each_choice_of_passages():
    mean = mean_of(LOSSES | {(DENSE, "BM25", "without the kind"): 0.30})
    page = exposure.by_passages(mean, "delta").set_index(["model", "negatives"])
    assert set(page) == {"all", "unexposed"}
    assert page.loc[(DENSE, "BM25"), "unexposed"] == pytest.approx(-0.22, abs=0.02)
    rows = exposure.figure_rows(mean)
    assert "BM25" not in set(rows["model"])
    assert {"SPLADE, BM25 negatives"} < set(rows["trained"])
    assert "unexposed passages" in set(rows["negatives from"])


def test_page_of_exposed_answers_has_a_row_a_cluster():
    rows = [("b", "in", 0.2, 9), ("b", "out", 1.0, 3), ("a", "in", 0.1, 9), ("a", "out", 0.9, 3)]
    answers = pd.DataFrame(rows, columns=["left_out", "side", "exposed", "n_queries"])
    page = exposure.exposed_answers_page(answers)
    assert page["left out"].tolist() == ["b", "a"]
    assert page["left-out cluster (out)"].tolist() == [1.0, 0.9]


def test_arms_are_of_dense_retrieval_that_draws_its_negatives():
    losses = {
        (DENSE, "in-batch", "all"): 0.5,
        (DENSE, "random", "all"): 0.4,
        ("SPLADE", "random", "all"): 0.3,
    }
    mean, shifted = mean_of(losses), mean_of({(DENSE, "random", "all"): 0.1})
    arm = exposure.arms_table(mean, shifted)
    assert len(arm) == 2 and "draws" not in arm
    by_arm = exposure.by_arm(arm)
    found = by_arm.loc["all", ["random, offset none", "random, offset fitted"]].tolist()
    assert found == pytest.approx([-0.4, -0.1], abs=0.02)


def test_a_reranker_stands_beside_the_random_order_of_its_candidates():
    losses = {("Reranker", "BM25", "all"): 0.3}
    orders = values({("Reranker", "BM25", "all"): 0.6})
    orders = orders[orders["model"] == "Reranker"].assign(seed=1)
    query_ids = orders["query_id"].unique()
    cluster = pd.Series(["a", "b"] * (len(query_ids) // 2), query_ids)
    own = orders["query_id"].map(cluster)
    other = own.map({"a": "b", "b": "a"})
    orders = orders.assign(left_out=own.where(orders["side"] == "out", other))
    orders = orders.drop(columns=["stratum", "side"])
    [row] = exposure.reranker_floor(orders, mean_of(losses), cluster, 1, 50).to_dict("records")
    assert row["out"] == pytest.approx(0.56, abs=0.05)
    assert row["random_order"] == pytest.approx(0.32, abs=0.05)
    assert row["bm25"] == pytest.approx(0.5, abs=0.05)


def test_sentences_say_where_the_reduction_is_largest_and_what_remains():
    mean = mean_of(LOSSES | {(DENSE, "random", "control"): 0.29})
    effect = exposure.share_of_loss(mean)
    largest, reduced, left = exposure.exposure_sentences(effect, mean)
    told = f"Compared with all, the largest reduction is that of {DENSE} with BM25 negatives"
    assert largest.startswith(told)
    assert "in 3 of 3 pairs" in reduced and "remains in 3 (individual" in left
    for rows in (effect, effect[::-1]):
        judged = exposure.against_control_or_all(rows).set_index(["model", "negatives"])
        assert len(judged) == 3 and judged.loc[(DENSE, "random"), "against"] == "control"
        assert judged.loc[(DENSE, "BM25"), "against"] == "all"
    sentence = exposure.reduction_sentence(effect)
    assert sentence.count("negatives: +") == 3 and sentence.index(DENSE) < sentence.index("SPLADE")


def test_without_unexposed_negatives_nothing_is_said_of_a_reduction():
    mean = mean_of({(DENSE, "random", "all"): 0.3})
    effect = exposure.share_of_loss(mean)
    assert exposure.reduction_sentence(effect) == ""
    assert exposure.exposure_sentences(effect, mean) == [
        "This run trains nothing without exposed negatives."
    ]
    assert len(exposure.effect_page(effect)) == 0


def test_whose_result_a_table_is():
    some = pd.DataFrame({"a": [1]})
    assert exposure.where_from(["kind"], some, "small") == "This run:"
    assert exposure.where_from([], some, "small") == "Committed result of the profile small:"
    assert exposure.where_from([], some.iloc[:0], "small") == "No result."


def test_arms_may_have_seeds_of_their_own():
    one = {"conditions": [P["conditions"][1]], "restricted": {}, "seeds": [1, 2]}
    planned = plan_with(exposure, P | one | {"arms": ["kind"], "arm_seeds": [1]}).design
    dense = planned[planned["model"] == DENSE]
    seeds = dense.groupby("negative_passages")["seed"].unique().map(list).to_dict()
    assert seeds == {"all": [1, 2]} | dict.fromkeys(exposure.ARMS["kind"], [1])


def test_what_the_negatives_explain_follows_from_all_rows():
    both = pd.DataFrame({"high": [-0.1, -0.2]})
    one = pd.DataFrame({"high": [-0.1, 0.2]})
    *places, answer = exposure.splade_sentences({"Here": both, "There": pd.DataFrame()})
    assert places == ["Here: dense retrieval is shown to lose more in 2 of 2 rows."]
    assert "do not explain" in answer
    assert exposure.splade_sentences({"Here": both, "There": one})[-1].endswith("stays open.")
    assert exposure.splade_sentences({"There": pd.DataFrame()}) == []


def test_a_reduction_without_a_control_says_so():
    without = exposure.share_of_loss(mean_of(LOSSES))
    assert "no control was trained" in exposure.reduction_sentence(without)

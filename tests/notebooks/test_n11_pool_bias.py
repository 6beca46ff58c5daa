"""Measures of incomplete judgements by hand and beside ir_measures; pools that lack what some runs
contributed.
"""

import ir_measures
import numpy as np
import pandas as pd
import pytest
from toy_parameters import plan_with

from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures import pool
from interextra.measures.evaluate import per_query
from interextra.notebooks import n11_pool_bias as pool_bias
from interextra.site.parameters import profile_parameters
from interextra.stats.effects import effects
from interextra.store.errors import InputError


def run_of(**ranked):
    rows = [
        (query, doc, -float(rank))
        for query, docs in ranked.items()
        for rank, doc in enumerate(docs)
    ]
    return RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def qrels_of(**grades):
    rows = [(query, doc, grade) for query, of in grades.items() for doc, grade in of.items()]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


QRELS = qrels_of(q={"a": 2, "b": 0, "c": 1, "d": 1}, r={"a": 1, "b": 0})


def test_range_of_ndcg_by_hand():
    found = pool.pool_range(run_of(q="axbc", r="ab"), QRELS, k=3)
    discount = 1 / np.log2([2, 3, 4])
    ideal = np.array([2, 1, 1]) @ discount
    assert found.loc["q", "least"] == pytest.approx(2 / ideal)
    assert found.loc["q", "condensed"] == pytest.approx(np.array([2, 0, 1]) @ discount / ideal)
    assert found.loc["q", "most"] == pytest.approx(
        np.array([2, 2, 0]) @ discount / (np.array([2, 2, 1]) @ discount)
    )
    assert (found.loc["r"] == 1).all()  # all is judged: nothing is open
    assert found.loc["q", "least"] < found.loc["q", "bootstrapped"] < found.loc["q", "most"]


def test_bootstrapped_is_the_mean_over_all_grades_that_can_be_drawn():
    run, discount = run_of(q="axbc"), 1 / np.log2([2, 3, 4])
    expected = {}
    for prior, grades in (
        ("topic", [2, 0, 1, 1]),
        ("run", [2, 0]),
    ):  # the run's first three hold a, x, b
        values = []
        for grade in grades:
            ideal = np.sort([2, 1, 1, grade])[::-1][:3] @ discount
            values.append(np.array([2, grade, 0]) @ discount / ideal)
        expected[prior] = np.mean(values)
        found = pool.pool_range(run, QRELS, k=3, prior=prior, n_draws=40_000).loc[
            "q", "bootstrapped"
        ]
        assert found == pytest.approx(expected[prior], abs=0.004)
    assert abs(expected["topic"] - expected["run"]) > 0.01
    with pytest.raises(InputError, match="no prior 'pool'; there are topic, run"):
        pool.pool_range(run, QRELS, prior="pool")


def test_a_run_without_judged_passages_draws_from_the_topic():
    found = pool.pool_range(run_of(q="xyz"), QRELS, prior="run")
    assert (
        found.loc["q", "least"] == found.loc["q", "condensed"] == 0 < found.loc["q", "bootstrapped"]
    )
    assert found.loc["r", "bootstrapped"] == 0  # it returned nothing


def test_rank_biased_precision_and_its_residual_by_hand():
    found = pool.rank_biased_precision(run_of(q="axbc"), QRELS, p=0.8)
    assert found.loc["q"].tolist() == pytest.approx(
        [0.2 + 0.2 * 0.512 / 2, 1 - 0.2 * (1 + 0.64 + 0.512)]
    )
    assert found.loc["r"].tolist() == [0, 1]


def test_only_what_nobody_else_has_is_left_out():
    own, other = run_of(q="abx", r="b"), run_of(q="bca", r="a")
    assert pool.left_out(QRELS, [own], [other], depth=3).equals(QRELS[QRELS.index != 5])
    shallow = pool.left_out(QRELS, [own], [other], depth=1)  # a is first only in own, b of r, too
    assert set(map(tuple, shallow[pool.PAIR].values)) == {
        ("q", "b"),
        ("q", "c"),
        ("q", "d"),
        ("r", "a"),
    }
    assert len(pool.left_out(QRELS, [own], [], depth=3)) == 3
    assert pool.left_out(QRELS, [], [other], depth=3).equals(QRELS)


def test_condensed_measures_are_those_of_ir_measures(real_data):
    qrels = read_qrels(real_data / "msmarco/qrels.dl20-passage.txt")
    theirs = ir_measures.parse_measure("nDCG(judged_only=True)@10")
    for path in sorted((real_data / "runs/dl-passage").glob("*/*20*.gz"))[:6]:
        run = RunFile.read(path)
        if not set(run.query_ids) >= set(qrels["query_id"]):
            continue
        ours = per_query(pool.condensed(run, qrels), qrels, ["nDCG@10"])["nDCG@10"]
        lines = ir_measures.iter_calc([theirs], qrels, run.frame())
        for value in lines:
            assert ours[value.query_id] == pytest.approx(value.value, abs=1e-9), (
                path.name,
                value.query_id,
            )


def test_the_residual_of_passages_that_are_judged_irrelevant():
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a", "b"], "relevance": [0, 0]})
    found = pd.DataFrame({"query_id": "q", "doc_id": ["a", "x", "b"], "score": [3.0, 2.0, 1.0]})
    rbp = pool.rank_biased_precision(RunFile.from_frame(found), qrels, p=0.5).loc["q"]
    assert rbp["rbp"] == 0 and rbp["residual"] == pytest.approx(0.375)


def test_rank_biased_precision_is_that_of_the_leaderboards(real_data):
    folder = real_data / "runs/trec-covid"
    for number, column in ((1, "RBP(p=.5)"), (2, "RBP(p=.5)"), (3, "rbp_p5")):
        table = pd.read_csv(folder / f"leaderboard-round{number}.csv", index_col=0)
        qrels = read_qrels(folder / f"qrels.covid-round{number}.txt")
        for path in sorted(folder.glob(f"round{number}-*.gz")):
            name = path.name.removeprefix(f"round{number}-").removesuffix(".txt.gz")
            ours = pool.rank_biased_precision(RunFile.read(path), qrels, p=0.5)["rbp"].mean()
            assert ours == pytest.approx(table.loc[name, column], abs=5.1e-5), name


def test_flips_and_the_agreement_of_orders():
    names = ["judged_by", "system", "measure", "query_id", "value"]
    means = {
        pool_bias.ALL: {"BM25": 0.4, "a": 0.5, "b": 0.3},
        "small": {"BM25": 0.4, "a": 0.2, "b": 0.1},
    }
    luck = np.random.default_rng(1).normal(scale=0.01, size=(3, 20))
    rows = [
        (judged_by, system, "nDCG@10", f"q{query}", value + luck[place, query])
        for judged_by, of in means.items()
        for place, (system, value) in enumerate(of.items())
        for query in range(20)
    ]
    table = effects(pd.DataFrame(rows, columns=names), names[:3], n_boot=200)
    flips = pool_bias.order_flips(
        table.contrast("system", [("a", "BM25"), ("b", "BM25")])
    ).set_index("system")
    assert flips["flipped"].to_dict() == flips["is_sure"].to_dict() == {"a": True, "b": False}
    found = pool_bias.agreement_of_orders(table, seed=1).iloc[0]
    assert found["judged_by"] == "small" and found["tau"] == pytest.approx(1 / 3)
    assert np.isnan(
        [found["low"], found["high"]]
    ).all()  # whatever topics are drawn, the orders are these
    assert found["n_systems"] == 3


def given(folder, qrels, **runs):
    """Parameters of notebook 11 for runs of a user: the judged passages with their grades, the
    passages of each run.
    """
    (folder / "qrels").write_text("".join(f"q 0 {doc} {grade}\n" for doc, grade in qrels.items()))
    rows = []
    for family, docs in runs.items():
        (folder / family).write_text(
            "".join(f"q Q0 {doc} {n} {-n}.0 x\n" for n, doc in enumerate(docs, 1))
        )
        rows.append(
            {"test_set": "mine", "family": family, "system": family, "file": str(folder / family)}
        )
    return {"runs": rows, "qrels": [{"test_set": "mine", "file": str(folder / "qrels")}]}


def test_judgements_that_are_given_back_restore_the_difference(root, tmp_path):
    mine = given(tmp_path, {"a": 1, "b": 0, "c": 1, "d": 1}, BM25="ab", neural="cdb")
    p = profile_parameters(root, "mini", root / "notebooks" / "11_pool_bias.ipynb", mine)
    judged = pool_bias.Judged(plan_with(pool_bias, p), None, depth=10, complete=False)
    values = judged.restored("neural", [0, 1, 2], 4, seed=1)
    assert set(values["query_id"]) == {"mine q"}
    means = values.pivot_table("value", "per_topic", ["family", "seed"])
    assert (means.loc[0, "neural"] == 0).all() and (
        means.loc[0, "BM25"] == 1
    ).all()  # a alone is judged relevant
    assert means.loc[1, "neural"].nunique() == 2  # c or d, at the first or the second rank
    every = (
        judged.values()
        .query("judged_by == @pool_bias.ALL and measure == 'nDCG@10'")
        .set_index("system")["value"]
    )
    assert np.allclose(means.loc[2, "neural"], every["neural"]) and np.allclose(
        means.loc[2, "BM25"], every["BM25"]
    )


def test_runs_of_a_user_are_judged_by_their_files_alone_and_need_both_families(root, tmp_path):
    mine = given(tmp_path, {"a": 1, "b": 0}, BM25="abx", neural="xay")
    p = profile_parameters(root, "mini", root / "notebooks" / "11_pool_bias.ipynb", mine)
    judged = pool_bias.Judged(plan_with(pool_bias, p), None, depth=10, complete=p.complete)
    values = (
        judged.values()
        .query("measure == 'Judged@10' and judged_by == @pool_bias.ALL")
        .set_index("system")["value"]
    )
    assert p.complete and values.to_dict() == pytest.approx({"BM25": 2 / 3, "neural": 1 / 3})
    with pytest.raises(
        InputError,
        match="no test set has the families BM25 and neural, which are compared; there are BM25$",
    ):
        plan_with(pool_bias, p.changed(runs=mine["runs"][:1]))


def test_published_gaps_are_those_of_the_printed_cells():
    gaps = pool_bias.published_gaps().set_index(["judged_by", "measure"])["scaled"]
    out, full = pool_bias.SMALLER, pool_bias.ALL
    assert gaps[out, "Judged@10"] == pytest.approx(0.53 - 0.98)
    assert gaps[out, pool_bias.CONDENSED] == pytest.approx(0.443 - 0.385)
    assert gaps[full, "Bpref"] == pytest.approx(0.267 - 0.227)
    assert gaps[full, "P(rel=2)@10"] == pytest.approx(0.3720 - 0.3080)  # of Table 4
    measured = {*pool_bias.MEASURES, pool_bias.CONDENSED}
    assert set(gaps.index.get_level_values("measure")) <= measured


def test_order_changes_are_counted_by_measures_that_both_pools_have():
    gaps = pool_bias.published_gaps()
    # nDCG@10, nDCG@30 and bpref turn round; shares of judged passages are no effectiveness, and the
    # condensed nDCG and P@10 are printed for one year only
    assert pool_bias.sign_changes(gaps, "scaled") == (3, 3)
    same = gaps.assign(scaled=gaps["scaled"].abs())
    assert pool_bias.sign_changes(same, "scaled") == (0, 3)


def test_the_page_of_measures_has_a_row_a_measure_and_dashes():
    rows = [
        ("nDCG@10", pool_bias.ALL, 0.2, 0.1, 0.3, 0.059),
        ("AP(rel=2)@100", pool_bias.ALL, 0.1, -0.1, 0.3, np.nan),
    ]
    columns = ["measure", "judged_by", "difference", "low", "high", "published"]
    page = pool_bias.measures_page(pd.DataFrame(rows, columns=columns)).set_index("measure")
    assert page.index.tolist() == ["nDCG@10", "AP(rel=2)@100"]
    assert page["ours, all judgements"].tolist() == [
        "+20.0 points [+10.0, +30.0]",
        "+10.0 points [-10.0, +30.0]",
    ]
    assert page["published, in the pool"].tolist() == ["+5.9 points", "–"]


def test_only_test_sets_with_bm25_are_compared():
    values = pd.DataFrame(
        {"test_set": ["dl", "dl", "covid"], "family": ["BM25", "neural", "other"]}
    )
    assert pool_bias.with_bm25(values)["family"].tolist() == ["BM25", "neural"]
    assert pool_bias.rivals(values["family"]) == [("neural", "BM25"), ("other", "BM25")]


def test_errors_are_of_neural_runs_by_the_smaller_pool_alone():
    columns = [*pool_bias.RUN, "judged_by", *pool_bias.ASSUMED]
    rows = [
        ("dl", "neural", "A", pool_bias.ALL, 0.6, 0.7, 0.7, 0.8),
        ("dl", "neural", "A", pool_bias.SMALLER, 0.5, 0.65, 0.6, 0.9),
        ("dl", "neural", "A", pool_bias.OWN, 0.1, 0.1, 0.1, 0.1),
        ("dl", "BM25", "B", pool_bias.ALL, 0.4, 0.4, 0.4, 0.4),
        ("dl", "BM25", "B", pool_bias.SMALLER, 0.3, 0.3, 0.3, 0.3),
    ]
    errors = pool_bias.errors_of_estimates(pd.DataFrame(rows, columns=columns))
    assert errors["system"].tolist() == ["A"]
    assert errors[pool_bias.ASSUMED].iloc[0].tolist() == pytest.approx([-0.1, 0.05, 0.0, 0.3])


def test_the_sentence_of_an_answer_goes_down_the_pools_that_there_are():
    rows = [
        ("neural", "nDCG@10", pool_bias.SMALLER, 0.1, 0.05, 0.15),
        ("neural", "nDCG@10", pool_bias.ALL, 0.2, 0.1, 0.3),
        ("neural", "Bpref", pool_bias.ALL, 0.9, 0.9, 0.9),
        ("lexical", "nDCG@10", pool_bias.ALL, 0.8, 0.8, 0.8),
    ]
    gaps = pd.DataFrame(
        rows, columns=["first", "measure", "judged_by", "difference", "low", "high"]
    )
    assert pool_bias.steps_sentence(gaps) == (
        "Neural minus BM25 in nDCG@10, as judgements of rival runs go: "
        "+20.0 points [+10.0, +30.0] by all judgements, "
        "+10.0 points [+5.0, +15.0] without neural runs (individual 95 % intervals)."
    )


def test_flipped_systems_stand_beside_the_agreement_of_their_orders():
    flips = pd.DataFrame(
        {
            "judged_by": ["p", "p", "q"],
            "flipped": [True, True, False],
            "is_sure": [True, False, False],
        }
    )
    taus = pd.DataFrame({"judged_by": ["q", "p"], "tau": [1.0, 0.5], "low": [1.0, 0.2]})
    taus = taus.assign(high=[1.0, 0.8], n_systems=3)
    page = pool_bias.flips_page(flips, taus).set_index("judged by")
    assert page.loc["p"].tolist() == [2, 1, "+0.50 [+0.20, +0.80]", 3]
    assert page.loc["q", "flipped"] == 0


def test_given_back_judgements_compare_both_sides_at_each_number():
    rows = []
    for per_topic, gain in ((0, -0.1), (2, 0.2)):
        for draw in (0, 1):
            for query in range(30):
                level = 0.3 + 0.01 * (query % 7)
                rows.append((per_topic, "BM25", draw, f"q{query}", level))
                rows.append((per_topic, "neural", draw, f"q{query}", level + gain))
    columns = ["per_topic", "family", "seed", "query_id", "value"]
    found = pool_bias.restored_difference(pd.DataFrame(rows, columns=columns), seed=1, n_boot=100)
    assert found["per_topic"].tolist() == [0, 2]
    assert found["difference"].tolist() == pytest.approx([-0.1, 0.2])
    assert found["n_queries"].tolist() == [30, 30]
    assert pool_bias.distance_page(pd.DataFrame()).empty  # of a run without the real queries

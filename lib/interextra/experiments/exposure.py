"""Negative exposure: what notebook 09 measures. Both papers leave out queries and leave their answers in the corpus.

There every sampler of negatives finds them. A held-out answer, or a passage like it, is then a negative, now and again,
and never a positive: the model learns that such passages are wrong. Neither paper takes this apart from not having seen
the like of a query.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.medquad import entity_units
from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.experiments import plans
from interextra.experiments.shifts import read_shift
from interextra.ground.cells import Store
from interextra.ground.effects import Effects, effects, interval, ratio
from interextra.ground.errors import InputError, offenders
from interextra.models.dense import LABEL as DENSE
from interextra.models.pairs import exposed_passages, training_pairs
from interextra.models.recipe import Recipe
from interextra.papers.claims import judged, said
from interextra.splits.shift import Shift

NOTEBOOK = "09_negative_exposure"
NONE = "none"  # where nothing is drawn
CONDITION = ["model", "negatives", "negative_passages"]
PASSAGES, TRAIN_QUERIES, TRAIN_PAIRS = 8_841_823, 502_939, 532_761  # of MS MARCO passage ranking
KINDS = ("same entity, kind in training", "same entity, left-out kind", "other entity, left-out kind")
ASKED = ("left-out kind", "kind in training, exposed", "kind in training, asked for")


def plan(p: dict) -> plans.Plan:
    """Each system without each cluster of one shift, by the source of its negatives and by which passages may be drawn.

    `design`: model, negatives, negative_passages, left_out, seed, run. `dose`: the same of the dense system with random
    negatives, and share, the probability that a negative is an exposed passage. `shift`: the Shift.
    """
    (_, by, kept), sizes = read_shift(p["shift"]), {name: p[name] for name in ("n_test", "train_size", "seed")}
    shift = Shift(pool=plans.training_queries(p), by=by, clusters=tuple(kept), **sizes)
    conditions = [plans.parts_of(text, "SYSTEM | NEGATIVES | RECIPE") for text in p["conditions"]]
    if unknown := set(p["controlled"]) - {model for model, *_ in conditions}:
        raise InputError(f"parameter 'controlled': {offenders(sorted(unknown))} is no system of 'conditions'")

    def trained(model: str, made: Recipe, negatives: str, passages: str | float) -> list[dict]:
        labels = {"negatives": negatives, "negative_passages": passages}
        return plans.runs(p, {model: made}, plans.without_each(shift), (Part(of=shift, part="held-out"),), **labels)

    others, dose = plans.with_bm25(plans.systems(p)), []
    rows = [row for model, made in others.items() for row in trained(model, made, NONE, "all")]
    for model, negatives, name in conditions:
        made = plans.recipe(p, name)
        spared = ["all", "unexposed", *(["control"] if model in p["controlled"] else [])]
        for passages in spared if made.negatives not in ("in-batch", "both") else ["all"]:
            rows += trained(model, plans.changed(made, negative_passages=passages), negatives, passages)
        for share in p["doses"] if model == DENSE and made.negatives == "random" else []:
            exposed = plans.changed(made, negative_passages=share)
            dose += [row | {"share": share} for row in trained(model, exposed, negatives, share)]
    return plans.Plan(shift=shift, design=plans.design(rows), dose=pd.DataFrame(dose))


def shares(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """What the trainings have seen: *condition, exposed_passages (share of the collection), exposed_negatives (share of
    all negatives in the loss), n_models; means over the models."""
    drawing = design[design["negatives"] != NONE].reset_index(drop=True)
    logs = pd.DataFrame([run.log(store) for run in drawing["run"]])
    of = drawing[CONDITION].join(logs[["exposed_passages", "exposed_negatives"]]).groupby(CONDITION, sort=False)
    return of.mean().assign(n_models=of.size()).reset_index()


def exposed_answers(shift: Shift, store: Store, data: Collection) -> pd.DataFrame:
    """Share of the test queries all of whose answers are exposed to the model without a cluster: left_out, side (out:
    the queries of the cluster; in: the others), exposed, n_queries."""
    cluster, qrels, rows = shift.strata(store), shift.pool.qrels(store), []
    qrels = qrels[(qrels["relevance"] >= 1) & qrels["query_id"].isin(cluster.index)]
    answers = data.passages.rows(qrels["doc_id"].tolist())
    for name in shift.names:
        pairs = training_pairs(data, shift.sets(store)[f"without-{name}"], shift.pool.split, relevance=1)
        exposed = pd.Series(exposed_passages(data, pairs, relevance=1)[answers], qrels["query_id"])
        exposed = exposed.groupby(level=0).all()
        for which, part in exposed.groupby(np.where(exposed.index.map(cluster) == name, "out", "in")):
            rows.append((name, which, part.mean(), len(part)))
    return pd.DataFrame(rows, columns=["left_out", "side", "exposed", "n_queries"])


def relative_losses(values: pd.DataFrame, seed: int, n_boot: int) -> tuple[Effects, Effects]:
    """RelLoss of each condition, two tables of `effects`: of each left-out cluster, and the mean over the clusters."""
    compared = {"on": "side", "sides": ("in", "out"), "effect": "loss", "family": [], "seed": seed, "n_boot": n_boot}
    each = effects(values, [*CONDITION, "stratum"], **compared)
    return each, effects(values, CONDITION, strata="stratum", **compared)


def exposure_table(shift: str, each: pd.DataFrame, mean: pd.DataFrame) -> pd.DataFrame:
    """Both tables of `relative_losses` as one, with the columns of exposure.csv; left_out is a cluster, or `mean`."""
    both = pd.concat([each.rename(columns={"stratum": "left_out"}), mean.assign(left_out="mean")], ignore_index=True)
    both = both.assign(shift=shift).rename(columns={"in": "avg_in", "loss": "rel_loss"})
    columns = ["avg_in", "out", "rel_loss", "low", "high", "n_queries", "n_trainings", "sd_trainings"]
    return both[["shift", "left_out", *CONDITION, *columns]]


def share_of_loss(mean: Effects) -> pd.DataFrame:
    """How much of a loss is exposure: 1 - loss with unexposed negatives / loss with all (or with the control).

    `mean`: of `relative_losses`. Returns model, negatives, against (all or control), loss, loss_unexposed, saved (their
    difference), saved_low, saved_high, share_of_loss, low, high, n_queries, n_trainings.
    """
    at, rows = mean.by_label(*CONDITION), []
    for (model, negatives, against), one in at.items():
        other = at.get((model, negatives, "unexposed"))
        if against == "unexposed" or other is None:
            continue
        loss, less, drawn, spared = one["loss"], other["loss"], one["draws"].effect, other["draws"].effect
        row = {"model": model, "negatives": negatives, "against": against, "loss": loss, "loss_unexposed": less}
        row |= {"saved": loss - less} | dict(zip(("saved_low", "saved_high"), interval(drawn - spared), strict=True))
        ends = interval(1 - ratio(spared, drawn))
        row |= {"share_of_loss": 1 - ratio(less, loss).item()} | dict(zip(("low", "high"), ends, strict=True))
        rows.append(row | {name: min(one[name], other[name]) for name in ("n_queries", "n_trainings")})
    return pd.DataFrame(rows)


def findings(mean: Effects) -> pd.DataFrame:
    """The verdicts of notebook 09, with intervals that hold together, see `claims.judged`.

    Of each system and source of negatives: exposure is part of the loss, which is smaller with unexposed negatives than
    with all, and than with the control where there is one. Of dense against SPLADE: the papers disagree on whether
    dense loses more. Lupart et al. train both on BM25's and in-batch negatives, Zhan et al. dense on random ones and
    SPLADE on BM25's. Exposure explains it if the choice of negatives widens the gap, and less so unexposed. Last, which
    of the two it costs more, with the same negatives (and their controls, where there are), and which loses more where
    there are only in-batch ones. `mean`: of `relative_losses`, with the column comparable (`claims.gate`, over all).
    """
    at, found = mean.by_label(*CONDITION), []

    def add(finding: str, *gaps: tuple[Sequence[tuple], Sequence[tuple]], also: Sequence[tuple] = ()) -> None:
        """The finding says that some losses less others are above 0, each named by its condition; see `said`."""
        named = [[[at[key] for key in part] for part in gap] for gap in gaps]
        found.append(said(finding, *named, also=[at[key] for key in also]))

    for model, negatives, passages in at:
        if passages == "unexposed":
            more = [key for which in ("all", "control") if (key := (model, negatives, which)) in at]
            less = [(model, negatives, "unexposed")]
            add(f"{model}, {negatives} negatives: exposure is part of the loss", *(([key], less) for key in more))
    lupart, zhan, sparse = (
        {which: (*system, which) for which in ("all", "unexposed", "control")}
        for system in ((DENSE, "BM25"), (DENSE, "random"), ("SPLADE", "BM25"))
    )
    if not {system[which] for system in (lupart, zhan, sparse) for which in ("all", "unexposed")} <= at.keys():
        return judged(found)
    for which in ("all", "unexposed"):
        one, two, three = lupart[which], zhan[which], sparse[which]
        add(f"dense loses more than SPLADE with the negatives of Lupart, {which}", ([one], [three]))
        add(f"dense loses more than SPLADE with the negatives of Zhan, {which}", ([two], [three]))
        add(f"the negatives of Lupart make the gap larger than those of Zhan, {which}", ([one], [two]), also=[three])
    less = [lupart["all"], zhan["unexposed"]], [zhan["all"], lupart["unexposed"]]
    both = [sparse[which] for which in ("all", "unexposed")]
    add("exposure is why the papers differ on SPLADE", ([lupart["all"]], [zhan["all"]]), less, also=both)
    more = [which for which in ("all", "control") if {sparse[which], lupart[which]} <= at.keys()]
    costs = [([sparse[which], lupart["unexposed"]], [lupart[which], sparse["unexposed"]]) for which in more]
    add("exposure costs SPLADE more than dense, BM25 negatives", *costs)
    if {one := (DENSE, "in-batch", "all"), two := ("SPLADE", "in-batch", "all")} <= at.keys():
        add("dense loses more than SPLADE with in-batch negatives only", ([one], [two]))
    return judged(found)


def _what_is_known(shift: Shift, store: Store) -> tuple[pd.Series, pd.Series, pd.Series]:
    """Of each query its unit and its cluster, by query_id, and of each passage the first query that it answers."""
    labels = pd.read_parquet(store[shift] / "labels.parquet").set_index("query_id")
    answers = shift.pool.qrels(store).drop_duplicates("doc_id").set_index("doc_id")
    return entity_units(shift.pool.frame(store)), labels["cluster"], answers["query_id"]


def above_the_answer(design: pd.DataFrame, shift: Shift, store: Store, depth: int) -> pd.DataFrame:
    """What stands above the answer among the first `depth` passages of each run, as values for `effects`.

    Candidates are of the query's entity or of another, and answer a kind of question that the model has been trained on
    or the query's own kind, its cluster; see KINDS. Of queries whose answer is among the candidates. Returns the labels
    of the design, query_id, unit, stratum, kind, value (share of the candidates of this kind above the answer).
    """
    unit, cluster, of_doc = _what_is_known(shift, store)
    held, parts = pd.MultiIndex.from_frame(shift.pool.qrels(store)[["query_id", "doc_id"]]), []
    for row in design.to_dict("records"):
        first = row["run"].read(store, "held-out").frame().query("rank <= @depth")
        about = first["doc_id"].map(of_doc)
        right = pd.MultiIndex.from_frame(first[["query_id", "doc_id"]]).isin(held)
        place = first["rank"].where(right).groupby(first["query_id"]).transform("min")
        same = about.map(unit).to_numpy() == first["query_id"].map(unit).to_numpy()
        like = about.map(cluster).to_numpy() == first["query_id"].map(cluster).to_numpy()
        kind = np.select([same & ~like, same & like, ~same & like], KINDS, "other entity, kind in training")
        found = first.assign(kind=kind, value=(first["rank"] < place).astype(float))[~right & place.notna()]
        parts.append((row, found.groupby(["query_id", "kind"])["value"].mean().reset_index()))
    return _of_queries(parts, unit, cluster)


def _of_queries(parts: list[tuple[dict, pd.DataFrame]], unit: pd.Series, cluster: pd.Series) -> pd.DataFrame:
    """Values of runs with the labels of each, and unit and stratum of each query."""
    parts = [part.assign(**{name: row[name] for name in row if name != "run"}) for row, part in parts]
    table = pd.concat(parts, ignore_index=True)
    return table.assign(unit=table["query_id"].map(unit), stratum=table["query_id"].map(cluster))


def in_the_first(design: pd.DataFrame, shift: Shift, store: Store, data: Collection, depth: int) -> pd.DataFrame:
    """Which kinds of passages stand in the first `depth` of queries whose own cluster was in training, for `effects`.

    No training query asks for passages of the left-out kind, nor for the exposed ones of the other kinds (see ASKED):
    both are drawn as negatives alike. If that alone pushes a passage down, it pushes both. Returns the labels of the
    design, query_id, unit, stratum, kind, value (share of the first `depth`).
    """
    unit, cluster, of_doc = _what_is_known(shift, store)
    ids, parts = pd.Index(data.passages.doc_ids.to_pylist()), []
    for left_out, rows in design.groupby("left_out", sort=False):
        pairs = training_pairs(data, shift.sets(store)[f"without-{left_out}"], shift.pool.split, relevance=1)
        exposed = set(ids[exposed_passages(data, pairs, relevance=1)])
        for row in rows.to_dict("records"):
            first = row["run"].read(store, "held-out").frame().query("rank <= @depth")
            first = first[first["query_id"].map(cluster) != left_out]
            drawn, like = first["doc_id"].isin(exposed), first["doc_id"].map(of_doc).map(cluster) == left_out
            kind = pd.Series(np.select([drawn & like, drawn], ASKED[:2], ASKED[2]), first.index, name="kind")
            share = pd.crosstab(first["query_id"], kind, normalize="index").reindex(columns=list(ASKED), fill_value=0.0)
            parts.append((row, share.stack().rename("value").reset_index()))
    return _of_queries(parts, unit, cluster)


def on_ms_marco(folder: Path, runs: dict[str, Path], held_out: float) -> pd.DataFrame:
    """Expected exposure on MS MARCO: the share of negatives that answer a held-out query.

    `folder`: `msmarco/qrels.train*.tsv` of the real data; where only a part of the 502,939 training queries is there,
    shares are scaled up. `runs`: name → BM25 run of other queries. `held_out`: share of the training queries left out.
    Returns negatives, answers (share that answers any training query), exposed (that answers a held-out one only,
    answers × held_out), against_random.
    """
    paths = sorted(folder.glob("qrels.train*"))
    if len(paths) != 1:
        found = offenders(path.name for path in paths) or "none"
        raise InputError(f"{folder}: one file qrels.train* is read, there are: {found}; keep the judgements in one")
    judged_pairs = read_qrels(paths[0])
    answers, scale = judged_pairs["doc_id"].unique(), TRAIN_QUERIES / judged_pairs["query_id"].nunique()
    rows = [("a random passage", len(answers) / PASSAGES * scale)]
    for (name, run), depth in itertools.product(runs.items(), (10, 100, 1000)):
        first = RunFile.read(run).frame().query("rank <= @depth")
        rows.append((f"BM25's first {depth:,} ({name})", first["doc_id"].isin(answers).mean() * scale))
    table = pd.DataFrame(rows, columns=["negatives", "answers"]).assign(exposed=lambda of: of["answers"] * held_out)
    return table.assign(against_random=table["exposed"] / table["exposed"][0])

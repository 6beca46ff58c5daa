"""Negative exposure: what notebook 09 measures.

Both papers leave out queries and leave their answers in the corpus. There every sampler of
negatives finds them. A held-out answer, or a passage like it, is then a negative, now and again,
and never a positive: the model learns that such passages are wrong. Neither paper takes the two
apart.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, present_rows
from interextra.data.medquad import entity_units
from interextra.data.queries import Part, Queries
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.model import trained_behind
from interextra.models.recipe import Recipe, changed
from interextra.models.search.lucene import bm25_search
from interextra.models.search.run import Run
from interextra.models.training.pairs import Pairs, exposed_passages, training_pairs
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyNames,
    Count,
    Distinct,
    Entries,
    Entry,
    GateParameters,
    Measures,
    NamesByName,
    Seed,
    Seeds,
    Share,
    parameter,
)
from interextra.notebooks.plans import AnyQueries
from interextra.splits import attributes
from interextra.splits.kinds import PassageKinds
from interextra.splits.resttest import sides
from interextra.splits.shift import Shift, in_domain
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import with_interval, with_unit
from interextra.store import Cell, Store, write_json

NONE = "none"  # where nothing is drawn
CONDITION = ["model", "negatives", "negative_passages"]
ARMS = {  # which exposed passages are spared alone → negative_passages, and those of its control
    "kind": ("without the kind", "control of the kind"),
    "other kinds": ("without the exposed of other kinds", "control of other kinds"),
    "answers": ("without the test answers", "control of the answers"),
}
OFFSETS = np.linspace(-3, 3, 61)  # standard deviations of a run's scores
# Which passages may be negatives → how the figure names them
DRAWN_FROM = {
    "all": "all passages",
    "unexposed": "unexposed passages",
    "control": "as few passages (control)",
}
Rows = list[dict[str, Any]]  # of a design


class Spared(Cell):
    """`doc_ids.json`: exposed passages that are never negatives, or as many others.

    Some of those that are exposed where a kind of query is left out. `which`: what answers the
    left-out kind (kind), all others (other kinds), test queries (answers).
    """

    shift: Shift
    left_out: str
    which: Literal["kind", "other kinds", "answers"]
    control: int | None = None  # seed: as many random passages of the collection in their place
    tested: tuple[Queries, ...] = ()  # what answers are of; default: what the shift holds out

    def build(self, folder: Path, store: Store) -> None:
        """Write the file."""
        data = self.shift.pool.source.open()
        is_spared = _exposed(self.shift, self.left_out, data, store)
        is_meant = self._is_meant(data, store)
        is_spared &= ~is_meant if self.which == "other kinds" else is_meant
        if self.control is not None:
            random = np.random.default_rng(self.control)
            drawn = random.choice(len(is_spared), is_spared.sum(), replace=False)
            is_spared = np.isin(np.arange(len(is_spared)), drawn)
        doc_ids = pd.Series(data.passages.doc_ids.to_pylist())
        write_json(folder / "doc_ids.json", doc_ids[is_spared].tolist())

    def _is_meant(self, data: Collection, store: Store) -> np.ndarray:
        """Return which passages answer test queries, or are of the left-out kind, bool[passages].

        Of a kind of query are those that answer one; a kind of passages has its own.
        """
        kinds = self.shift.by
        if self.which != "answers" and isinstance(kinds, PassageKinds):
            return kinds.is_of(self.left_out, store)
        answers = self._test_answers(store) if self.which == "answers" else self._of_kind(data)
        return np.isin(np.arange(len(data.passages)), data.passages.rows(answers))

    def _test_answers(self, store: Store) -> list[str]:
        """Return the doc_ids that answer test queries."""
        tested = self.tested or (Part(of=self.shift, part="held-out"),)
        return _answers_of_all(tested, store)["doc_id"].tolist()

    def _of_kind(self, data: Collection) -> list[str]:
        """Return the doc_ids that answer queries of the left-out kind, in any split."""
        doc_ids = []
        for split in data.splits:
            queries = data.queries(split)
            is_of_kind = attributes.labels(queries, self.shift.by) == self.left_out
            query_ids = queries["query_id"][is_of_kind]
            doc_ids += _answers_of(query_ids, data.qrels(split))["doc_id"].tolist()
        return doc_ids

    def read(self, store: Store) -> list[str]:
        """Read the doc_ids."""
        text = (store[self] / "doc_ids.json").read_text(encoding="utf-8")
        return json.loads(text)


def _exposed(shift: Shift, left_out: str, data: Collection, store: Store) -> np.ndarray:
    """Return which passages are exposed where a cluster is left out, bool[passages]."""
    training_set = shift.sets(store)[f"without-{left_out}"]
    pairs = training_pairs(data, training_set, shift.pool.split, relevance=1)
    return exposed_passages(data, pairs, relevance=1)


def _answers_of_all(tested: Iterable[AnyQueries], store: Store) -> pd.DataFrame:
    """Return the judgements of sets of queries that are relevant."""
    qrels = pd.concat([queries.qrels(store) for queries in tested], ignore_index=True)
    return qrels[qrels["relevance"] >= 1]


def _answers_of(query_ids: Iterable[str], qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of some queries that are relevant."""
    is_relevant = qrels["relevance"] >= 1
    is_asked = qrels["query_id"].isin(query_ids)
    return qrels[is_relevant & is_asked]


class Parameters(GateParameters):
    """Parameters of notebook 09, negative exposure."""

    shift: Entry = parameter(
        "python:interextra.world.truth:kind_of_question",
        "attribute whose clusters are left out in turn, see 04",
    )
    n_test: Count = parameter(200, "test queries held out of each cluster")
    test_splits: AnyNames = parameter(
        [], "splits whose queries measure; empty: n_test of each cluster"
    )
    train_size: Count = parameter(
        1500, "training queries of each model, sampled from the other clusters; 0: all"
    )
    arms: AnyNames | NamesByName = parameter(
        [],
        "dense retriever: exclude only some exposed passages (kind, other kinds, answers), or "
        "source of negatives: those of this source",
    )
    arm_seeds: Annotated[list[Seed], Distinct] = parameter(
        [], "seeds of the trainings with arms; empty: `seeds`"
    )
    doses: Annotated[list[Share], Distinct] = parameter(
        [], "dense retriever, random negatives: share of exposed negatives; 0: unexposed"
    )
    steps: Count = parameter(60, "training steps of each model; 0: as the recipes say")
    seeds: Seeds = parameter([1], "seeds of the dense retriever, one training run each")
    measures: Measures = parameter(["RR@10"], "one measure")
    recipes: Entries = parameter(["bm25"], "systems without negatives")
    conditions: Entries = parameter(
        [
            {
                "label": "DR (base)",
                "source": "in-batch",
                "recipe": "mini-dense",
                "negatives": "in-batch",
            },
            {
                "label": "SPLADE",
                "source": "in-batch",
                "recipe": "mini-splade",
                "negatives": "in-batch",
            },
            {
                "label": "DR (base)",
                "source": "random",
                "recipe": "mini-dense",
                "negatives": "random",
                "n_negatives": 32,
            },
            {
                "label": "DR (base)",
                "source": "BM25",
                "recipe": "mini-dense",
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "label": "SPLADE",
                "source": "BM25",
                "recipe": "mini-splade",
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
        ],
        "where negatives come from",
    )
    restricted: NamesByName = parameter(
        {"DR (base)": ["unexposed", "control"]},
        "system: what it also draws from, unexposed or control (as few passages, at random)",
    )
    other_seeds: Seeds = parameter([1], "seeds of the other systems")
    real_msmarco: bool = parameter(
        False, "also count how exposed negatives are on MS MARCO (folder: INTEREXTRA_DATA)"
    )


class Condition(NamedTuple):
    """A system, and the source of its negatives."""

    model: str
    negatives: str
    recipe: Recipe

    @property
    def draws(self) -> bool:
        """Whether it draws negatives from the collection, and not from the batch alone."""
        return self.recipe.negatives != "in-batch"


@dataclass(frozen=True)
class Experiment:
    """The runs of notebook 09: systems without each cluster of one shift."""

    p: Parameters
    shift: Shift
    searched: tuple[AnyQueries, ...]  # what each model searches for

    def runs(self, recipes: dict[str, Recipe], **labels: Any) -> Rows:
        """Return rows of some systems (label → recipe), with the labels of their condition."""
        training_sets = plans.without_each(self.shift)
        return plans.runs(self.p, recipes, training_sets, self.searched, **labels)

    def drawn_from(self, condition: Condition, negative_passages: str | float) -> Rows:
        """Return rows of a condition whose negatives are drawn from some of the passages."""
        recipe = changed(condition.recipe, negative_passages=negative_passages)
        labels = {"negatives": condition.negatives, "negative_passages": negative_passages}
        return self.runs({condition.model: recipe}, **labels)

    def sparing(self, condition: Condition, which: str, is_control: bool) -> Rows:
        """Return rows of a condition that spares only some exposed passages (see ARMS)."""
        labels = {"negatives": condition.negatives, "negative_passages": ARMS[which][is_control]}
        of_arms = replace(self, p=self.p.changed(seeds=self.p.arm_seeds or self.p.seeds))
        rows = of_arms.runs({condition.model: condition.recipe}, **labels)
        tested = plans.test_queries(self.p, self.p.test_splits) if which == "answers" else ()
        for row in rows:
            run = row["run"]
            spared = Spared(
                shift=self.shift,
                left_out=row["left_out"],
                which=which,
                control=row["seed"] if is_control else None,
                tested=tested,
            )
            model = run.model.model_copy(update={"spared": spared})
            row["run"] = run.model_copy(update={"model": model})
        return rows

    def design(self, condition: Condition) -> Rows:
        """Return rows of a condition, by which passages may be drawn."""
        rows = self.drawn_from(condition, "all")
        if not condition.draws:
            return rows
        for passages in self.p.restricted.get(condition.model, []):
            rows += self.drawn_from(condition, passages)
        if condition.model == DENSE:
            for which in _arms_of(self.p, condition.negatives):
                rows += self.sparing(condition, which, is_control=False)
                rows += self.sparing(condition, which, is_control=True)
        return rows

    def dose(self, condition: Condition) -> Rows:
        """Return rows of the dense system with random negatives, by the share of exposed ones."""
        if condition.model != DENSE or condition.recipe.negatives != "random":
            return []
        rows = []
        for share in self.p.doses:
            of_share = self.drawn_from(condition, share)
            rows += [row | {"share": share} for row in of_share]
        return rows


def plan(p: Parameters) -> plans.Plan:
    """Plan each system without each cluster of one shift.

    Systems differ by the source of their negatives and by which passages may be drawn.

    Returns
    -------
    design
        model, negatives, negative_passages, left_out, seed, run. With `arms` also the dense system
        whose negatives spare only some exposed passages, each with its control (see ARMS).
    dose
        Of the dense system with random negatives: as `design`, and share, the probability that a
        negative is exposed.
    kind
        left_out → Spared, its answers.
    tested
        The queries that measure.

    Raises
    ------
    InputError
        More than one measure, and what else the parameters may not hold.
    """
    plans.refuse_more_measures(p.measures)
    shift = plans.one_shift(p)
    tested = plans.tested_queries(p, shift)
    experiment = Experiment(p, shift, (*tested, *plans.gate_queries(p)))
    conditions = _conditions(p)
    systems = plans.with_bm25(plans.systems(p))
    rows = experiment.runs(systems, negatives=NONE, negative_passages="all")
    dose = []
    for condition in conditions:
        rows += experiment.design(condition)
        dose += experiment.dose(condition)
    kind = {}
    if p.arms:
        kind = {name: Spared(shift=shift, left_out=name, which="kind") for name in shift.names}
    return plans.Plan(
        shift=shift,
        shift_name=plans.named_shift(p.shift).name,
        design=plans.design(rows),
        dose=pd.DataFrame(dose),
        kind=kind,
        tested=tested,
    )


def _conditions(p: Parameters) -> list[Condition]:
    """Return the conditions of the parameters; InputError for names that are not known."""
    conditions = []
    for entry in p.conditions:
        model, source, name, options = plans.fields(entry, "label", "source", "recipe", more=True)
        recipe = plans.recipe(p, {"recipe": name} | options)
        conditions.append(Condition(model, source, recipe))
    models = dict.fromkeys(condition.model for condition in conditions)
    plans.refuse_unknown("restricted", p.restricted, models)
    passages = chain.from_iterable(p.restricted.values())
    plans.refuse_unknown("restricted", passages, ("unexposed", "control"))
    sources = dict.fromkeys(condition.negatives for condition in conditions)
    if isinstance(p.arms, dict):
        plans.refuse_unknown("arms", p.arms, sources)
    for source in sources:
        plans.refuse_unknown("arms", _arms_of(p, source), ARMS)
    return conditions


def _arms_of(p: Parameters, source: str) -> list[str]:
    """Return which exposed passages are spared alone with negatives of a source."""
    return p.arms.get(source, []) if isinstance(p.arms, dict) else p.arms


def training_runs(plan: plans.Plan) -> pd.DataFrame:
    """Return the trained models of each system and source, see `plans.training_runs`."""
    by = CONDITION[:2]
    page = plans.training_runs(plan.design, by)
    passages = plan.design.groupby(by, sort=False)["negative_passages"].unique()
    page.insert(2, "negatives from", [", ".join(names) for names in passages])
    return page


def most_exposed(data: Collection, pairs: Pairs, exposed: np.ndarray) -> tuple[str, pd.DataFrame]:
    """Return the training query with the most exposed passages among BM25's first five.

    It is one of the first fifty training queries.

    Parameters
    ----------
    data
        The collection.
    pairs
        Of `training_pairs`.
    exposed
        Of `exposed_passages`, bool[passages].

    Returns
    -------
    tuple
        Its text, and its passages for the page: passage (its beginning), relevant to this query,
        exposed.
    """
    some = pairs.texts[:50]
    found, _ = bm25_search(data, some, 5, k1=0.9, b=0.4)  # int[50, 5], -1 where there are fewer
    is_there = found >= 0
    n_exposed = (exposed[found] & is_there).sum(axis=1)
    number = int(n_exposed.argmax())
    rows = found[number][found[number] >= 0]
    relevant = pairs.rows[pairs.query == number]
    texts = pd.Series(data.passages.texts(rows))
    page = pd.DataFrame({"passage": texts.str[:90]})
    page["relevant to this query"] = np.isin(rows, relevant)
    page["exposed"] = exposed[rows]
    return pairs.texts[number], page


def exposed_answers_page(answers: pd.DataFrame) -> pd.DataFrame:
    """Return `exposed_answers` for the page, a row a left-out cluster."""
    page = answers.pivot(index="left_out", columns="side", values="exposed")
    page = page.loc[answers["left_out"].unique()]
    names = {"in": "other clusters (in)", "out": "left-out cluster (out)"}
    page.columns = page.columns.map(names)
    return page.reset_index(names="left out")


def shares(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Return how many passages and negatives are exposed in each condition.

    Returns
    -------
    *CONDITION, exposed_passages (share of the collection), exposed_negatives (share of all),
    n_models; means over the models
    """
    is_drawing = design["negatives"] != NONE
    drawing = design[is_drawing].reset_index(drop=True)
    logs = pd.DataFrame([run.log(store) for run in drawing["run"]])
    exposed = drawing[CONDITION].join(logs[["exposed_passages", "exposed_negatives"]])
    groups = exposed.groupby(CONDITION, sort=False)
    return groups.mean().assign(n_models=groups.size()).reset_index()


def clusters_of(plan: plans.Plan, store: Store) -> pd.Series:
    """Return the cluster of each query that measures and is in one; index query_id."""
    splits = [queries.split for queries in plan.tested if isinstance(queries, Queries)]
    strata = plan.shift.strata(store, splits)
    tested = chain.from_iterable(queries.ids(store) for queries in plan.tested)
    is_tested = strata.index.isin(list(tested))
    return strata[is_tested & strata.isin(plan.shift.names)]


def exposed_answers(plan: plans.Plan, store: Store, data: Collection) -> pd.DataFrame:
    """Return the share of test queries all of whose answers are exposed.

    Returns
    -------
    left_out, side (out: queries of that cluster; in: the others), exposed (the share), n_queries

    Raises
    ------
    InputError
        An answer is not in the collection.
    """
    shift = plan.shift
    cluster = clusters_of(plan, store)
    answers = _answers_of_all(plan.tested, store)
    answers = answers[answers["query_id"].isin(cluster.index)]
    doc_ids = answers["doc_id"].tolist()
    passages = present_rows(data.passages, doc_ids, f"{data.name}, qrels")
    rows = []
    for name in shift.names:
        is_exposed = _exposed(shift, name, data, store)[passages]
        of_query = pd.Series(is_exposed, answers["query_id"]).groupby(level=0)
        all_exposed = of_query.all()
        is_out = all_exposed.index.map(cluster) == name
        for side, exposed in all_exposed.groupby(np.where(is_out, "out", "in")):
            rows.append((name, side, exposed.mean(), len(exposed)))
    return pd.DataFrame(rows, columns=["left_out", "side", "exposed", "n_queries"])


def relative_losses(values: pd.DataFrame, seed: int, n_boot: int) -> tuple[Effects, Effects]:
    """Return Out / Avg In - 1 of each condition and measure, as two tables of `effects`.

    Returns
    -------
    each
        A row a left-out cluster.
    mean
        The mean over the clusters.
    """
    losses = partial(
        effects,
        values,
        on="side",
        sides=("in", "out"),
        effect="delta",
        family=[],
        seed=seed,
        n_boot=n_boot,
    )
    by = [*CONDITION, "measure"]
    return losses([*by, "stratum"]), losses(by, strata="stratum")


def by_passages(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return a column of a table for the page, a column for which passages may be negatives.

    Parameters
    ----------
    table
        With the columns of CONDITION; rows of arms and doses are left out.
    value
        The column.
    """
    rows = table[table["negative_passages"].isin(list(DRAWN_FROM))]
    system = CONDITION[:2]
    page = rows.pivot(index=system, columns="negative_passages", values=value)
    return page.reset_index()


def figure_rows(mean: pd.DataFrame) -> pd.DataFrame:
    """Return the mean losses of trained systems, with `trained` and `negatives from` in words."""
    rows = mean[mean["model"] != BM25]
    rows = rows.replace({"negative_passages": DRAWN_FROM})
    rows = rows.rename(columns={"negative_passages": "negatives from"})
    source = rows["negatives"] + " negatives"
    return rows.assign(trained=rows["model"] + ", " + source)


def with_no_dose(plan: plans.Plan) -> pd.DataFrame:
    """Return the design of all doses and of no exposed negative, whose share is 0."""
    is_none = plan.design["model"] == DENSE
    is_none &= plan.design["negatives"] == "random"
    is_none &= plan.design["negative_passages"] == "unexposed"
    none = plan.design[is_none].assign(share=0.0)
    columns = [*CONDITION[:2], "left_out", "seed", "share", "run"]
    return pd.concat([none, plan.dose], ignore_index=True)[columns]


def dose_losses(values: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Return Out / Avg In - 1 by the share of exposed negatives, the mean over the clusters.

    `values`: of the design of `with_no_dose`, with side and stratum.
    """
    return effects(
        values,
        ["model", "share"],
        on="side",
        sides=("in", "out"),
        effect="delta",
        family=[],
        strata="stratum",
        seed=seed,
        n_boot=n_boot,
    )


def reranker_floor(
    orders: pd.DataFrame, mean: Effects, cluster: pd.Series, seed: int, n_boot: int
) -> pd.DataFrame:
    """Return Avg In and Out of each reranker beside what it could reach without reading.

    Parameters
    ----------
    orders
        Values of its candidates in random order, see `evaluate.in_random_order`.
    mean
        The second table of `relative_losses`.
    cluster
        query_id → cluster.
    seed, n_boot
        Of the bootstrap.

    Returns
    -------
    pandas.DataFrame
        *CONDITION, in, out, random_order (Out of the random order), bm25 (Out of BM25's).
    """
    stratum = orders["query_id"].map(cluster)
    in_clusters = orders.assign(stratum=stratum).dropna(subset="stratum")
    _, at_random = relative_losses(sides(in_clusters), seed, n_boot)
    out = pd.DataFrame(mean).set_index("model")["out"]
    own = pd.DataFrame(mean[mean["model"] == "Reranker"])
    floor = own.set_index(CONDITION)[["in", "out"]]
    floor["random_order"] = at_random.set_index(CONDITION)["out"]
    return floor.assign(bm25=out[BM25]).reset_index()


def arms_table(mean: Effects, shifted: Effects) -> pd.DataFrame:
    """Return the losses of the dense system, without an offset and with the fitted one.

    Parameters
    ----------
    mean, shifted
        The second tables of `relative_losses`, of the values as they are and of `with_offset`.

    Returns
    -------
    pandas.DataFrame
        Rows of both with offset (none, fitted), where negatives are drawn from the collection.
    """
    unshifted, fitted = mean.assign(offset="none"), shifted.assign(offset="fitted")
    both = pd.concat([unshifted, fitted])
    is_drawing = both["negatives"] != "in-batch"
    is_dense = both["model"] == DENSE
    return both[is_dense & is_drawing].drop(columns="draws")


def by_arm(arm: pd.DataFrame, value: str = "delta") -> pd.DataFrame:
    """Return a column of `arms_table`, a row a condition; index negative_passages.

    Columns are named like `random, offset none`.
    """
    made = arm["negatives"] + ", offset " + arm["offset"]
    named = arm.assign(made=made)
    wide = named.pivot(index="negative_passages", columns="made", values=value)
    return wide.loc[arm["negative_passages"].unique()]


def where_from(is_here: Any, table: pd.DataFrame, profile: str) -> str:
    """Return whose result a table is: this run's, or the committed one of a profile."""
    if is_here:
        return "This run:"
    return f"Committed result of the profile {profile}:" if len(table) else "No result."


def gate_in_domain(values: pd.DataFrame) -> pd.DataFrame:
    """Return values of the gate's queries under the models that had their cluster.

    They are for `leads`: BM25 stands in every condition.
    """
    inside = in_domain(values)
    is_bm25 = inside["model"] == BM25
    others = inside[~is_bm25]
    conditions = others[CONDITION[1:]].drop_duplicates()
    bm25 = inside[is_bm25].drop(columns=CONDITION[1:])
    return pd.concat([others, bm25.merge(conditions, how="cross")])


def exposure_table(shift: str, each: pd.DataFrame, mean: pd.DataFrame) -> pd.DataFrame:
    """Return both tables of `relative_losses` as one, with the columns of exposure.csv.

    Its left_out is a cluster, or `mean`.
    """
    clusters = each.rename(columns={"stratum": "left_out"})
    means = mean.assign(left_out="mean")
    both = pd.concat([clusters, means], ignore_index=True)
    both = both.assign(shift=shift).rename(columns={"in": "avg_in"})
    columns = ["avg_in", "out", "delta", "low", "high", "n_queries", "n_trainings", "sd_trainings"]
    return both[["shift", "left_out", *CONDITION, *columns]]


class LossShare(NamedTuple):
    """How much of the loss of a system is exposure: a row of `share_of_loss`."""

    model: str
    negatives: str
    against: str  # all, or control
    delta: float
    delta_unexposed: float
    saved: float  # delta_unexposed minus delta
    saved_low: float
    saved_high: float
    share_of_loss: float  # 1 minus delta_unexposed / delta
    low: float
    high: float
    n_queries: int
    n_trainings: int


def share_of_loss(mean: Effects) -> pd.DataFrame:
    """Return how much of a loss is exposure, with the columns of `LossShare`.

    It is 1 - delta with unexposed negatives / delta with all (or with the control).

    Parameters
    ----------
    mean
        The second table of `relative_losses`, of one measure.

    Raises
    ------
    InputError
        The rows are of more than one measure.
    """
    plans.refuse_rows_of_more_measures(mean)
    rows = {tuple(row[CONDITION]): row for _, row in mean.iterrows()}
    found = []
    for (model, negatives, against), exposed in rows.items():
        unexposed = rows.get((model, negatives, "unexposed"))
        if against in ("all", "control") and unexposed is not None:
            found.append(_loss_share(exposed, unexposed))
    return pd.DataFrame(found, columns=LossShare._fields)


def _loss_share(exposed: pd.Series, unexposed: pd.Series) -> LossShare:
    """Compare two rows of effects: one condition with exposed negatives and without."""
    drawn = exposed["draws"].effect
    drawn_unexposed = unexposed["draws"].effect
    saved_low, saved_high = interval(drawn_unexposed - drawn)
    low, high = interval(1 - ratio(drawn_unexposed, drawn))
    still_lost = ratio(unexposed["delta"], exposed["delta"]).item()
    model, negatives, against = exposed[CONDITION]
    return LossShare(
        model=model,
        negatives=negatives,
        against=against,
        delta=exposed["delta"],
        delta_unexposed=unexposed["delta"],
        saved=unexposed["delta"] - exposed["delta"],
        saved_low=saved_low,
        saved_high=saved_high,
        share_of_loss=1 - still_lost,
        low=low,
        high=high,
        n_queries=min(exposed["n_queries"], unexposed["n_queries"]),
        n_trainings=min(exposed["n_trainings"], unexposed["n_trainings"]),
    )


def against_control_or_all(effect: pd.DataFrame) -> pd.DataFrame:
    """Return a row of `share_of_loss` a system and source: against the control, or all without one.

    Their column `against` says which.
    """
    system = ["model", "negatives"]
    is_control = effect["against"] == "control"
    controlled = pd.MultiIndex.from_frame(effect.loc[is_control, system])
    has_control = pd.MultiIndex.from_frame(effect[system]).isin(controlled)
    return effect[is_control | ~has_control]


def effect_page(effect: pd.DataFrame) -> pd.DataFrame:
    """Return `share_of_loss` for the page, with both intervals."""
    page = with_interval(effect, "share_of_loss")
    page = with_interval(page, "saved", "percentage points of Δ", "saved_low", "saved_high")
    names = {
        "against": "compared with",
        "saved": "reduction",
        "share_of_loss": "share",
        "n_queries": "queries",
        "n_trainings": "training runs",
    }
    columns = ["model", "negatives", *names.values()]
    return page.rename(columns=names)[columns]


def exposure_sentences(effect: pd.DataFrame, mean: pd.DataFrame) -> list[str]:
    """Return where the loss is reduced most, in how many cases it is, and what loss remains.

    Parameters
    ----------
    effect
        Of `share_of_loss`.
    mean
        The second table of `relative_losses`.
    """
    judged = against_control_or_all(effect)
    if judged.empty:
        return ["This run trains nothing without exposed negatives."]
    most = judged.loc[judged["saved"].idxmax()]
    n_reduced = (judged["saved_low"] > 0).sum()
    is_left = (mean["negative_passages"] == "unexposed") & (mean["high"] < 0)
    return [
        f"Compared with {most['against']}, the largest reduction is that of {most['model']} with "
        f"{most['negatives']} negatives (no interval of the difference to the others).",
        f"Excluding exposed negatives reduces the loss in {n_reduced} of {len(judged)} pairs of "
        "system and source",
        f"of negatives; without exposed negatives a loss remains in {is_left.sum()} (individual "
        "95 % intervals).",
    ]


def reduction_sentence(effect: pd.DataFrame) -> str:
    """Return the reduction of each system and source, "" where nothing is trained for it."""
    judged = against_control_or_all(effect)
    rows = effect_page(judged).sort_values("model", kind="stable")
    if rows.empty:
        return ""
    system = rows["model"] + ", " + rows["negatives"] + " negatives"
    loss = judged.loc[rows.index, "delta"].map(partial(with_unit, unit="%"))
    reductions = system + ": " + rows["reduction"] + " of " + loss
    has_control = judged["against"] == "control"
    compared = "no control was trained"
    if has_control.all():
        compared = "compared with the control"
    elif has_control.any():
        compared = "compared with the control where there is one"
    return (
        f"Reduction of the loss without exposed negatives, {compared} (individual 95 % intervals): "
        f"{'; '.join(reductions)}."
    )


def splade_sentences(contrasts: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return whether the negatives decide if dense retrieval loses more than SPLADE.

    Parameters
    ----------
    contrasts
        Where it was measured → Δ of dense retrieval minus Δ of SPLADE, a row a source of negatives.
    """
    sentences = []
    is_everywhere = True
    for place, table in contrasts.items():
        if table.empty:
            continue
        n_more = (table["high"] < 0).sum()
        is_everywhere &= n_more == len(table)
        sentences.append(
            f"{place}: dense retrieval is shown to lose more in {n_more} of {len(table)} rows."
        )
    if not sentences:
        return []
    if is_everywhere:
        answer = (
            "So it does whatever the negatives, as Lupart et al. find: the negatives alone do not "
            "explain that Zhan et al. find about equal losses."
        )
    else:
        answer = "Whether the negatives explain why the papers differ stays open."
    return [*sentences, answer]


def with_offset(plan: plans.Plan, store: Store, seed: int) -> pd.DataFrame:
    """Return RR@10 of the dense runs if passages of the left-out kind get a constant more.

    If exposure acts as a prior against a kind of passage, whatever the query, one number a model
    restores its cost: of OFFSETS the best on all queries about half of the entities is applied to
    those about the other half, both ways.

    Returns
    -------
    Values for `effects`: the labels of the design, query_id, unit, stratum, measure, value
    """
    unit = entity_units(pd.concat([queries.frame(store) for queries in plan.tested]))
    cluster = clusters_of(plan, store)
    qrels = pd.concat([queries.qrels(store) for queries in plan.tested])
    dense = plan.design.query("model == @DENSE and negatives != 'in-batch'")
    parts = []
    for labels in dense.to_dict("records"):
        cell = labels.pop("run")
        run = _ranking_of(cell, plan.tested, cluster.index, store)
        of_kind = plan.kind[labels["left_out"]].read(store)
        part = _with_fitted_offset(run, of_kind, qrels, unit, seed)
        parts.append(part.assign(**labels, trained=trained_behind(cell)))
    table = pd.concat(parts, ignore_index=True)
    table["unit"] = table["query_id"].map(unit)
    table["stratum"] = table["query_id"].map(cluster)
    return table


def _ranking_of(
    cell: Run, tested: Iterable[AnyQueries], query_ids: pd.Index, store: Store
) -> pd.DataFrame:
    """Return the rows of a run that are of some queries of its sets."""
    found = pd.concat([cell.read(store, queries).frame() for queries in tested])
    return found[found["query_id"].isin(query_ids)]


def _with_fitted_offset(
    run: pd.DataFrame, of_kind: list[str], qrels: pd.DataFrame, unit: pd.Series, seed: int
) -> pd.DataFrame:
    """Return query_id, measure and value of a run with the offset fitted on the other entities."""
    query_ids, values = _values_by_offset(run, of_kind, qrels)
    is_first_half = _in_first_half(query_ids.map(unit), seed)
    value = _fitted_on_the_other_half(values, is_first_half)
    return pd.DataFrame({"query_id": query_ids, "measure": "RR@10", "value": value})


def _values_by_offset(
    run: pd.DataFrame, of_kind: list[str], qrels: pd.DataFrame
) -> tuple[pd.Index, np.ndarray]:
    """Return the query_ids of a run, and RR@10 float[offsets, queries] with each of OFFSETS.

    The offset is added to the scores of the passages of a kind, whose doc_ids are given.
    """
    is_of_kind = run["doc_id"].isin(of_kind).to_numpy()
    pair = ["query_id", "doc_id"]
    relevant = pd.MultiIndex.from_frame(qrels.loc[qrels["relevance"] >= 1, pair])
    is_relevant = pd.MultiIndex.from_frame(run[pair]).isin(relevant)
    query, query_ids = pd.factorize(run["query_id"])
    offsets = OFFSETS * run["score"].std()
    added = np.outer(offsets, is_of_kind)  # float[offsets, rows]
    scores = run["score"].to_numpy() + added
    values = [reciprocal_ranks(row, query, is_relevant) for row in scores]
    return query_ids, np.stack(values)


def _in_first_half(entities: pd.Index, seed: int) -> np.ndarray:
    """Return which queries are about a random half of the entities, bool[queries]."""
    entity, names = pd.factorize(entities)
    order = np.random.default_rng(seed).permutation(len(names))
    return order[entity] % 2 == 0


def _fitted_on_the_other_half(values: np.ndarray, is_first_half: np.ndarray) -> np.ndarray:
    """Return the value of each query with the offset that is best on the half it is not in."""
    mean_of_first = values[:, is_first_half].mean(axis=1)
    mean_of_second = values[:, ~is_first_half].mean(axis=1)
    best_on_first = values[mean_of_first.argmax()]
    best_on_second = values[mean_of_second.argmax()]
    return np.where(is_first_half, best_on_second, best_on_first)


def reciprocal_ranks(scores: np.ndarray, query: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """Return RR@10 of each query; of tied passages the relevant one is last.

    Parameters
    ----------
    scores
        float[rows], of passages.
    query
        int[rows], the number of each passage's query.
    relevant
        bool[rows].
    """
    best = np.full(query.max() + 1, -np.inf)
    np.maximum.at(best, query[relevant], scores[relevant])
    is_above = (scores >= best[query]) & ~relevant
    rank = np.bincount(query, is_above) + 1
    is_found = np.isfinite(best) & (rank <= 10)
    return np.where(is_found, 1 / rank, 0.0)

"""Negative exposure: what notebook 09 measures. Both papers leave out queries and leave their
answers in the corpus.

There every sampler of negatives finds them. A held-out answer, or a passage like it, is then a
negative, now and again, and never a positive: the model learns that such passages are wrong.
Neither paper takes the two apart.
"""

import itertools
import json
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.data.medquad import entity_units
from interextra.data.queries import Part
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.models.model import trained_behind
from interextra.models.recipe import Recipe, changed
from interextra.models.training.pairs import exposed_passages, training_pairs
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
    Positive,
    Seeds,
    Share,
    parameter,
)
from interextra.splits import attributes
from interextra.splits.shift import Shift, in_domain
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import Effects, effects
from interextra.store import Cell, Store, write_json

NONE = "none"  # where nothing is drawn
CONDITION = ["model", "negatives", "negative_passages"]
ARMS = {  # which exposed passages are spared alone → negative_passages, and those of its control
    "kind": ("without the kind", "control of the kind"),
    "other kinds": ("without the exposed of other kinds", "control of other kinds"),
    "answers": ("without the test answers", "control of the answers"),
}
OFFSETS = np.linspace(-3, 3, 61)  # standard deviations of a run's scores


class Spared(Cell):
    """`doc_ids.json`: some of the passages that are exposed where a kind of query is left out, or
    as many others.

    Never negatives. `which`: what answers the left-out kind (kind), all others (other kinds), test
    queries (answers).
    """

    shift: Shift
    left_out: str
    which: Literal["kind", "other kinds", "answers"]
    control: int | None = None  # seed: as many random passages of the collection in their place

    def build(self, folder: Path, store: Store) -> None:
        data, pool, sets, answers = (
            self.shift.pool.source.open(),
            self.shift.pool.split,
            self.shift.sets(store),
            [],
        )
        pairs = training_pairs(data, sets[f"without-{self.left_out}"], pool, relevance=1)
        chosen = exposed_passages(data, pairs, relevance=1)  # bool[passages]
        for split in data.splits:
            queries, qrels = data.queries(split), data.qrels(split)
            of_kind = queries["query_id"][
                attributes.labels(queries, self.shift.by) == self.left_out
            ]
            of_test = sets["held-out"] if split == pool else []
            wanted = qrels["query_id"].isin(of_test if self.which == "answers" else of_kind)
            answers += qrels.loc[(qrels["relevance"] >= 1) & wanted, "doc_id"].tolist()
        inside = np.isin(np.arange(len(chosen)), data.passages.rows(answers))
        chosen &= ~inside if self.which == "other kinds" else inside
        if self.control is not None:
            drawn = np.random.default_rng(self.control).choice(
                len(chosen), chosen.sum(), replace=False
            )
            chosen = np.isin(np.arange(len(chosen)), drawn)
        write_json(
            folder / "doc_ids.json", pd.Series(data.passages.doc_ids.to_pylist())[chosen].tolist()
        )

    def read(self, store: Store) -> list[str]:
        return json.loads((store[self] / "doc_ids.json").read_text(encoding="utf-8"))


class Parameters(GateParameters):
    """Parameters of notebook 09, negative exposure."""

    shift: Entry = parameter(
        "python:interextra.world.truth:kind_of_question",
        "attribute whose clusters are left out in turn, see 04",
    )
    n_test: Positive = parameter(200, "test queries held out of each cluster")
    train_size: Count = parameter(
        1500, "training queries of each model, sampled from the other clusters; 0: all"
    )
    arms: AnyNames = parameter(
        [], "dense retriever: exclude only some exposed passages (kind, other kinds, answers)"
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


def plan(p: Parameters) -> plans.Plan:
    """Each system without each cluster of one shift, by the source of its negatives and by which
    passages may be drawn.

    `design`: model, negatives, negative_passages, left_out, seed, run; with `arms` also the dense
    system whose negatives spare only some exposed passages, each with its control (see ARMS).
    `dose`: of the dense system with random negatives, and share, the probability that a negative is
    exposed. `kind`: left_out → Spared, its answers.
    """
    shift = plans.one_shift(p)
    tested = (Part(of=shift, part="held-out"), *plans.gate_queries(p))
    conditions = [
        plans.fields(entry, "label", "source", "recipe", more=True) for entry in p.conditions
    ]
    plans.refuse_unknown(
        "restricted", p.restricted, dict.fromkeys(model for model, *_ in conditions)
    )
    plans.refuse_unknown(
        "restricted", itertools.chain(*p.restricted.values()), ("unexposed", "control")
    )
    plans.refuse_unknown("arms", p.arms, ARMS)

    def trained(model: str, made: Recipe, negatives: str, passages: str | float) -> list[dict]:
        labels = {"negatives": negatives, "negative_passages": passages}
        return plans.runs(p, {model: made}, plans.without_each(shift), tested, **labels)

    def sparing(row: dict, which: str, control: bool) -> dict:
        run, seed = row["run"], row["seed"] if control else None
        spared = Spared(shift=shift, left_out=row["left_out"], which=which, control=seed)
        return row | {
            "run": run.model_copy(update={"model": run.model.model_copy(update={"spared": spared})})
        }

    plain, dose = {"negatives": NONE, "negative_passages": "all"}, []
    rows = plans.runs(
        p, plans.with_bm25(plans.systems(p)), plans.without_each(shift), tested, **plain
    )
    for model, negatives, name, options in conditions:
        made = plans.recipe(p, {"recipe": name} | options)
        drawing = made.negatives not in ("in-batch", "both")
        for passages in ["all", *(p.restricted.get(model, []) if drawing else [])]:
            rows += trained(model, changed(made, negative_passages=passages), negatives, passages)
        for which in p.arms if drawing and model == DENSE else []:
            for control, label in enumerate(ARMS[which]):
                rows += [
                    sparing(row, which, bool(control))
                    for row in trained(model, made, negatives, label)
                ]
        for share in p.doses if model == DENSE and made.negatives == "random" else []:
            exposed = changed(made, negative_passages=share)
            dose += [row | {"share": share} for row in trained(model, exposed, negatives, share)]
    kind = {
        name: Spared(shift=shift, left_out=name, which="kind") for name in shift.names if p.arms
    }
    return plans.Plan(
        shift=shift,
        shift_name=plans.named_shift(p.shift).name,
        design=plans.design(rows),
        dose=pd.DataFrame(dose),
        kind=kind,
    )


def shares(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Means over models: *condition, exposed_passages (of the collection), exposed_negatives (of
    all), n_models.
    """
    drawing = design[design["negatives"] != NONE].reset_index(drop=True)
    logs = pd.DataFrame([run.log(store) for run in drawing["run"]])
    of = (
        drawing[CONDITION]
        .join(logs[["exposed_passages", "exposed_negatives"]])
        .groupby(CONDITION, sort=False)
    )
    return of.mean().assign(n_models=of.size()).reset_index()


def exposed_answers(shift: Shift, store: Store, data: Collection) -> pd.DataFrame:
    """Share of test queries all of whose answers are exposed: left_out, side (out: its queries),
    exposed, n_queries.
    """
    cluster, qrels, rows = shift.strata(store), shift.pool.qrels(store), []
    qrels = qrels[(qrels["relevance"] >= 1) & qrels["query_id"].isin(cluster.index)]
    answers = data.passages.rows(qrels["doc_id"].tolist())
    for name in shift.names:
        pairs = training_pairs(
            data, shift.sets(store)[f"without-{name}"], shift.pool.split, relevance=1
        )
        exposed = pd.Series(exposed_passages(data, pairs, relevance=1)[answers], qrels["query_id"])
        exposed = exposed.groupby(level=0).all()
        for which, part in exposed.groupby(
            np.where(exposed.index.map(cluster) == name, "out", "in")
        ):
            rows.append((name, which, part.mean(), len(part)))
    return pd.DataFrame(rows, columns=["left_out", "side", "exposed", "n_queries"])


def relative_losses(values: pd.DataFrame, seed: int, n_boot: int) -> tuple[Effects, Effects]:
    """Out / Avg In - 1 of each condition and measure, two tables of `effects`: a row a left-out
    cluster; their mean.
    """
    compared = {
        "on": "side",
        "sides": ("in", "out"),
        "effect": "delta",
        "family": [],
        "seed": seed,
        "n_boot": n_boot,
    }
    each = effects(values, [*CONDITION, "measure", "stratum"], **compared)
    return each, effects(values, [*CONDITION, "measure"], strata="stratum", **compared)


def gate_in_domain(values: pd.DataFrame) -> pd.DataFrame:
    """Values of the gate's queries under the models that had their cluster, for `leads`: BM25 in
    every condition.
    """
    inside = in_domain(values)
    rivals, is_rival = (
        inside.loc[inside["model"] != BM25, CONDITION[1:]].drop_duplicates(),
        inside["model"] == BM25,
    )
    return pd.concat(
        [inside[~is_rival], inside[is_rival].drop(columns=CONDITION[1:]).merge(rivals, how="cross")]
    )


def exposure_table(shift: str, each: pd.DataFrame, mean: pd.DataFrame) -> pd.DataFrame:
    """Both tables of `relative_losses` as one, with the columns of exposure.csv; left_out is a
    cluster, or `mean`.
    """
    both = pd.concat(
        [each.rename(columns={"stratum": "left_out"}), mean.assign(left_out="mean")],
        ignore_index=True,
    )
    both = both.assign(shift=shift).rename(columns={"in": "avg_in"})
    columns = ["avg_in", "out", "delta", "low", "high", "n_queries", "n_trainings", "sd_trainings"]
    return both[["shift", "left_out", *CONDITION, *columns]]


def share_of_loss(mean: Effects) -> pd.DataFrame:
    """How much of a loss is exposure: 1 - delta with unexposed negatives / delta with all (or with
    the control).

    `mean`: of `relative_losses`. Returns model, negatives, against (all or control), delta,
    delta_unexposed, saved (what the second is above the first), saved_low, saved_high,
    share_of_loss, low, high, n_queries, n_trainings.
    """
    at, rows = {tuple(row[CONDITION]): row for _, row in mean.iterrows()}, []
    for (model, negatives, against), one in at.items():
        other = at.get((model, negatives, "unexposed"))
        if against not in ("all", "control") or other is None:
            continue
        drawn, spared = one["draws"].effect, other["draws"].effect
        saved = other["delta"] - one["delta"], *interval(spared - drawn)
        share = 1 - ratio(other["delta"], one["delta"]).item(), *interval(1 - ratio(spared, drawn))
        counts = [min(one[name], other[name]) for name in ("n_queries", "n_trainings")]
        rows.append(
            (model, negatives, against, one["delta"], other["delta"], *saved, *share, *counts)
        )
    columns = [
        "model",
        "negatives",
        "against",
        "delta",
        "delta_unexposed",
        "saved",
        "saved_low",
        "saved_high",
    ]
    return pd.DataFrame(
        rows, columns=[*columns, "share_of_loss", "low", "high", "n_queries", "n_trainings"]
    )


def with_offset(plan: plans.Plan, store: Store, seed: int) -> pd.DataFrame:
    """RR@10 of the dense runs if passages of the left-out kind get a constant more, as values for
    `effects`.

    If exposure acts as a prior against a kind of passage, whatever the query, one number a model
    restores its cost: of OFFSETS the best on all queries about half of the entities is applied to
    those about the other half, both ways. Returns the labels of the design, query_id, unit,
    stratum, measure, value.
    """
    unit = entity_units(plan.shift.pool.frame(store))
    cluster = pd.read_parquet(store[plan.shift] / "labels.parquet").set_index("query_id")["cluster"]
    held, parts = pd.MultiIndex.from_frame(plan.shift.pool.qrels(store)[["query_id", "doc_id"]]), []
    for row in plan.design.query("model == @DENSE and negatives != 'in-batch'").to_dict("records"):
        cell = row.pop("run")
        run = cell.read(store, "held-out").frame()
        row["trained"] = trained_behind(cell)
        relevant = pd.MultiIndex.from_frame(run[["query_id", "doc_id"]]).isin(held)
        query, query_ids = pd.factorize(run["query_id"])
        like = run["doc_id"].isin(plan.kind[row["left_out"]].read(store)).to_numpy()
        shifted = run["score"].to_numpy() + np.outer(
            OFFSETS * run["score"].std(), like
        )  # [offsets, rows]
        found = np.stack([reciprocal_ranks(scores, query, relevant) for scores in shifted])
        units = pd.factorize(pd.Index(query_ids).map(unit))[0]
        half = np.random.default_rng(seed).permutation(units.max() + 1)[units] % 2 == 0  # [queries]
        best = [
            found[:, ~side].mean(axis=1).argmax() for side in (half, ~half)
        ]  # fitted on the other half
        value = np.where(half, found[best[0]], found[best[1]])
        parts.append(
            pd.DataFrame({"query_id": query_ids, "measure": "RR@10", "value": value} | row)
        )
    table = pd.concat(parts, ignore_index=True)
    return table.assign(unit=table["query_id"].map(unit), stratum=table["query_id"].map(cluster))


def reciprocal_ranks(scores: np.ndarray, query: np.ndarray, relevant: np.ndarray) -> np.ndarray:
    """RR@10 of each query int[rows] from the scores of its passages float[rows]; of ties the
    relevant one is last.
    """
    best = np.full(query.max() + 1, -np.inf)
    np.maximum.at(best, query[relevant], scores[relevant])
    rank = np.bincount(query, (scores >= best[query]) & ~relevant) + 1
    return np.where(np.isfinite(best) & (rank <= 10), 1 / rank, 0.0)

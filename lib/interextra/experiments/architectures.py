"""Notebook 05: five architectures in both protocols, and which of them lose. Zhan et al. (CIKM 2022), section 5.1.

It builds on notebooks 02 (ReSTrain) and 03 (ReSTTest).
"""

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from interextra import models
from interextra.evaluation import measures
from interextra.experiments import plans
from interextra.experiments.plans import REGIMES, Plan
from interextra.ground.cells import Store
from interextra.ground.effects import Effects, interval, ratio, spelled
from interextra.models.recipe import FirstStage, Recipe, make_recipe
from interextra.papers.claims import judged, said

NOTEBOOK = "05_architecture_comparison"
ALONE = "its interpolation"  # what a finding about one system compares it with


def plan(p: dict) -> Plan:
    """Five systems in both protocols: frames `restrain` and `resttest` as in notebooks 02 and 03.

    `systems`: label → recipe. `first_restrain`, `first_resttest`: the ranking that each reranker reads, under the
    reranker's label. `learning`: trained, model, seed, run, on all training queries and untrained; empty where it is
    not asked for. BM25 is its own untrained start.
    """
    sets, buckets = plans.restrain_of(p), plans.resttest_of(p, p["resttest_splits"])
    train, queries = plans.training_queries(p), plans.test_queries(p, p["resttest_splits"])
    made, learning = plans.with_bm25(plans.systems(p)), []
    for (model, one), trained in itertools.product(made.items(), (True, False) if p["learning"] else ()):
        run = plans.run_of(p, one if trained else plans.untrained(one), train, p["seed"], queries)
        learning.append({"trained": trained, "model": model, "seed": p["seed"], "run": run})
    firsts = {model: first_stage(one) for model, one in made.items() if one.architecture == "reranker"}
    frames = {name: plans.design(rows) for name, rows in plans.both_protocols(p, sets, buckets, made).items()}
    for name, rows in plans.both_protocols(p, sets, buckets, firsts).items():
        frames[f"first_{name}"] = pd.DataFrame(rows)
    frames |= {"learning": pd.DataFrame(learning)}
    return Plan(systems=made, sets=sets, buckets=buckets, measures=plans.measures_of(p, "restrain_measures"), **frames)


def first_stage(reranker: Recipe) -> Recipe:
    """BM25 as a reranker reads it."""
    options = reranker.model_dump(include=set(FirstStage.model_fields))
    return make_recipe(options | {"architecture": "bm25"}, "first stage")


def candidate_orders(asked: Plan, names: Mapping[str, str], store: Store, seed: int) -> pd.DataFrame:
    """Values in both regimes of each reranker and of other orders of the passages that it reads.

    Parameters
    ----------
    asked : of `plan`, with a reranker; of ReSTrain its largest size.
    names : protocol (ReSTrain, ReSTTest) → a measure.
    seed : of the random orders.

    Returns
    -------
    DataFrame[protocol, reranker, model, regime, seed, query_id, unit, measure, value, …] : `model` says whose order it
        is: random, BM25's (of the first stage as the reranker reads it) or the reranker's. Who is below a random order
        has learnt that right answers are wrong.
    """
    found = []
    for protocol, name in names.items():
        first, runs = (getattr(asked, f"{which}{protocol.lower()}") for which in ("first_", ""))
        runs = runs[runs["model"].isin(first["model"])]
        if protocol == "ReSTrain":
            first, runs = (frame[frame["n_train"] == frame["n_train"].max()] for frame in (first, runs))
        once = runs[runs["seed"].isin(first["seed"])]  # all trainings read the same passages
        depths = once["run"].map(lambda run: run.model.recipe.rerank_depth)
        orders = [measures.in_random_order(part, store, [name], depth, seed) for depth, part in once.groupby(depths)]
        made = {"random order of the same candidates": pd.concat(orders)}
        made |= {"BM25's order of them": measures.values(first, store, [name])}
        made |= {"the reranker's order": measures.values(runs, store, [name])}
        parts = [part.rename(columns={"model": "reranker"}).assign(model=order) for order, part in made.items()]
        values = pd.concat(parts, ignore_index=True)
        if protocol == "ReSTTest":
            values = plans.in_regimes(values.assign(stratum=values["query_id"].map(asked.buckets.strata(store))))
        found.append(values.assign(protocol=protocol))
    return pd.concat(found, ignore_index=True)


def scored_pairs(design: pd.DataFrame, store: Store) -> list[int]:
    """How many scores of a query and a passage the loss of each run has seen; 0 for BM25."""
    steps = [(run.model.recipe, run.log(store)["steps"]) for run in design["run"]]
    return [recipe.scored_pairs(n) if n else 0 for recipe, n in steps]


def loss_curves(design: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Training loss of the trained runs of a design: its labels, step, loss (the mean since the step before)."""
    parts = []
    for labels, run in zip(design.drop(columns="run").to_dict("records"), design["run"], strict=True):
        curve = pd.DataFrame(run.log(store).get("loss", []), columns=["step", "loss"])
        parts.append(curve.assign(**labels))
    return pd.concat(parts, ignore_index=True)


def findings(table: Effects, made: Mapping[str, Recipe], by: Sequence[str], margin: float) -> pd.DataFrame:
    """What §5.1.3 says of each system, and of each pair of an interaction-based and a representation-based one.

    Parameters
    ----------
    table : deltas of `effects`, by `by` and model, with the column comparable (`claims.gate`): nothing is said of a
        system that is not better than BM25 in domain, since it has little to lose.
    made : label of each system → recipe, whose architecture says what the paper expects: a loss where queries are
        encoded and their words never meet those of a passage, else none.
    margin : a delta within plus or minus this is no loss; the paper says "almost".

    Returns
    -------
    DataFrame[*by, model, against, finding, estimate, low, high, verdict, …], see `papers.claims.judged`: the intervals
        hold together. The estimate is the delta of a model (`against` its interpolation), or how far it lies above that
        of another.
    """
    kinds = {model: models.architectures()[one.architecture] for model, one in made.items()}
    interacting = [model for model, kind in kinds.items() if kind.INTERACTS]
    losing = [model for model, kind in kinds.items() if kind.ENCODES_QUERIES and not kind.INTERACTS]
    asked = [(f"{model}: no loss beyond {100 * margin:g} %", "kept", model) for model in made if model not in losing]
    asked += [(f"{model}: a loss", "below", model) for model in losing]
    pairs = itertools.product(interacting, losing)
    asked += [(f"{first}: a smaller loss than {second}", "above", first, second) for first, second in pairs]
    found = []
    for key, part in table.groupby(list(by), sort=False):
        rows, labels = part.by_label("model"), dict(zip(by, key, strict=True))
        for finding, kind, first, *second in asked:
            if {first, *second} <= rows.keys():
                gap = [rows[first]], [rows[name] for name in second]
                of = labels | {"model": first, "against": (*second, ALONE)[0]}
                found.append(said(finding, gap, kind=kind, margin=margin, **of))
    return judged(found)


def in_words(found: pd.DataFrame, titles: Mapping[str, str], margin: float) -> tuple[list[str], str]:
    """`findings` of one setting per protocol as sentences, one per protocol and one on pairs; and which pairs are open.

    `titles`: protocol → what its sentence begins with.
    """
    columns = found[["model", "estimate", "low", "high"]].itertuples(index=False)
    measured = [f"{model} {spelled(*ends)}" for model, *ends in columns]
    closed = found["verdict"] == "not comparable"
    states = {
        "a loss": ~closed & (found["high"] < 0),
        f"no loss beyond {100 * margin:g} %": ~closed & (found["low"] > -margin),
    }
    states |= {
        "open, a loss is neither shown nor excluded": ~closed,
        "not comparable, as not shown to be better than BM25": closed,
    }
    state = np.select(list(states.values()), list(states), "")
    found = found.assign(state=state, text=np.where(closed, found["model"], measured))
    pairs, sentences = found[(found["against"] != ALONE) & ~closed], []
    for protocol, part in found[found["against"] == ALONE].groupby("protocol", sort=False):
        texts = part.groupby("state")["text"].agg(", ".join)
        parts = [f"{texts[state]}: {state}" for state in states if state in texts]
        sentences.append(f"{titles[protocol]}: {'; '.join(parts)}.")
    sure, unsure = pairs[pairs["verdict"] != "not shown"], pairs[pairs["verdict"] == "not shown"]
    shown = [f"{row.finding} ({row.protocol}) {row.verdict}" for row in sure.itertuples()]
    sentences.append(f"Between two systems: {'; '.join(shown) or 'no difference is shown'}.")
    sentences[-1] += " All these intervals hold together with 95 %."
    where = unsure.groupby(["model", "against"], sort=False)["protocol"].agg(", ".join)
    named = [f"{first} or {second} ({protocols})" for (first, second), protocols in where.items()]
    return sentences, f"who of two loses less: {'; '.join(named)}; " if named else ""


def rank_correlation(table: Effects, by: Sequence[str]) -> pd.DataFrame:
    """The order of the systems in both regimes, a row a group: *by, tau, low, high, interpolation, extrapolation.

    tau is Kendall's tau-a: 1 is the same order, tied systems count as neither.
    """

    def tau(*sides: np.ndarray) -> np.ndarray:
        """Of scores float[..., systems]."""
        one, other = (np.sign(side[..., :, None] - side[..., None, :]) for side in sides)
        return ratio((one * other).sum(axis=(-1, -2)), one.shape[-1] * (one.shape[-1] - 1))

    rows = []
    for key, part in table.groupby(list(by), sort=False):
        low, high = interval(tau(part.drawn("first").T, part.drawn("second").T))
        orders = {r: " > ".join(part.sort_values(r, ascending=False, kind="stable")["model"]) for r in REGIMES}
        found = {"tau": tau(*(part[regime].to_numpy() for regime in REGIMES)).item(), "low": low, "high": high}
        rows.append(dict(zip(by, key, strict=True)) | found | orders)
    return pd.DataFrame(rows)

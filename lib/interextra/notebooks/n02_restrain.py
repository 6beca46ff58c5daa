"""Notebook 02: each system in both regimes of ReSTrain, and what the size of a training set and its
distance do apart.

Zhan et al. (CIKM 2022), Table 6. Notebook 05 builds on it.
"""

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from interextra.data.queries import Part
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyThousands,
    Count,
    Entries,
    GateParameters,
    Measures,
    Million,
    Names,
    ReSTrainParameters,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.papers.releases import real_vectors
from interextra.splits.restrain import BANDS, ReSTrain
from interextra.splits.similarity import nearest
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import ratio
from interextra.store.folders import Store


class Parameters(ReSTrainParameters, GateParameters):
    """Parameters of notebook 02, ReSTrain."""

    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "systems", paper="BERT-base, 50 epochs, 1,024 random negatives"
    )
    seeds: Seeds = parameter(
        [1], "seeds, one per training run", paper="it does not report how many"
    )
    test_draws: AnyThousands = parameter(
        0, "draws of few test queries, each with its own training sets and training runs; 0: none"
    )
    test_size: Million = parameter(97, "test queries per draw and split", paper="97 in total")
    measures: Measures = parameter(["nDCG@10", "R@100"], "measures", paper="nDCG@10 and R@100")
    real_msmarco: bool = parameter(
        False, "compare with the released sets, on real queries (folder: INTEREXTRA_DATA)"
    )
    test_splits: Names = parameter(
        ["test", "graded"], "they decide what is near", paper="the 97 judged of DL19 and DL20"
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    grid_sizes: Sizes = parameter(
        [112, 360, 640], "training queries of the random sets per band; at most a third of all"
    )
    grid_draws: AnyThousands = parameter(1, "random sets per size and band; 0: none")
    grid_seeds: Seeds = parameter([1], "seeds of training on each of them")
    grid_steps: Count = parameter(
        20, "training steps on them; 0: as `steps`; more overfit the smallest sets"
    )
    draw_splits: Names = parameter(["test"], "splits from which they are drawn")
    draw_train: Million = parameter(360, "training queries per set of a draw")
    recall_relevance: Annotated[int, Field(ge=1, le=10)] = parameter(
        2,
        "relevance from which R@100 counts; 2 reproduces the paper's BM25",
        paper="it does not say",
    )
    real_encoders: Names = parameter(["minilm", "lsa"], "encoders for the real queries")
    real_neighbours: Thousands = parameter(10, "nearest training queries per judged DL query")


def plan(p: Parameters) -> plans.Plan:
    """Each system in both regimes at each size; of the trained ones also what takes size and
    distance apart.

    `design`: model, n_train, regime, seed, run. `grid`: the trained systems on the random sets of
    `banded`, of three bands of distance (model, n_train, band, draw, seed, run); without
    `grid_draws` both are empty. `draws`: one training each for a few test queries, as the paper has
    it (draw, model, n_train, regime, run).
    """
    split, made = plans.restrain_of(p, p.sizes), plans.with_bm25(plans.systems(p))
    options = {"sizes": tuple(p.grid_sizes), "draws": p.grid_draws, "seed": p.seed}
    banded = ReSTrain(vectors=split.vectors, match=p.match, **options) if p.grid_draws else None
    random_sets = [
        plans.TrainingSet(
            {"n_train": size, "band": band, "draw": draw},
            Part(of=banded, part=f"{band}-{size}-{draw}"),
        )
        for size, band, draw in itertools.product(p.grid_sizes, BANDS, range(p.grid_draws))
    ]
    short = plans.systems(p.changed(steps=p.grid_steps or p.steps)).items()
    trained = {label: one for label, one in short if one.training_steps(1)}
    asked = (*plans.test_queries(p, p.test_splits), *plans.gate_queries(p))
    grid = plans.runs(p.changed(seeds=p.grid_seeds), trained, random_sets, asked)
    few = []
    for draw in range(1, p.test_draws + 1):
        chosen = {"limit": p.test_size, "seed": draw}
        test = tuple(
            part.model_copy(update=chosen) for part in plans.test_queries(p, p.draw_splits)
        )
        drawn = ReSTrain(vectors=plans.query_vectors(p, test), sizes=(p.draw_train,), match=p.match)
        once = p.changed(seeds=[draw])
        few += plans.runs(once, made, plans.in_both_regimes(drawn, [p.draw_train]), test, draw=draw)
    rows = plans.runs(p, made, plans.in_both_regimes(split, p.sizes), asked)
    frames = {"design": plans.design(rows), "grid": pd.DataFrame(grid)}
    frames["draws"] = pd.DataFrame(few).drop(
        columns="seed", errors="ignore"
    )  # of a draw, which is no second training
    real = {encoder: real_vectors(encoder) for encoder in p.real_encoders if p.real_msmarco}
    cells = {
        "vectors": split.vectors,
        "split": split,
        "banded": banded if grid else None,
        "real": real,
    }
    return plans.Plan(
        measures=plans.from_relevance(p.measures, p.recall_relevance), **cells, **frames
    )


def gate_of_bands(gate: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """Values on the queries of the gate with those of the largest sets of the nearest band, and
    BM25's beside them.

    `gate`: of the design, `found`: of the `grid`. BM25's, which training hardly changes, are of its
    largest size.
    """
    largest = found["n_train"].max()
    near = found[(found["band"] == BANDS[0]) & (found["n_train"] == largest)]
    rival = gate[(gate["model"] == BM25) & (gate["n_train"] == gate["n_train"].max())].assign(
        n_train=largest
    )
    return pd.concat([gate[gate["n_train"] != largest], near, rival], ignore_index=True)


def grid_runs(values: pd.DataFrame, sets: pd.DataFrame) -> pd.DataFrame:
    """A row per run and measure of the values of a `grid`.

    Returns DataFrame[model, measure, set, n_train, band, draw, seed, nearest_similarity, value,
    delta] : similarity is the mean cosine of a set's queries to their nearest test query (`sets`:
    sets.csv of the split), value the mean over the test queries, delta its relative difference from
    the mean of the largest sets of the nearest band.
    """
    labels = ["n_train", "band", "draw", "seed"]
    each = values.groupby(["model", "measure", *labels], sort=False)["value"].mean().reset_index()
    each["set"] = [f"{row.band}-{row.n_train}-{row.draw}" for row in each.itertuples()]
    each["nearest_similarity"] = each["set"].map(sets.set_index("set")["mean_max_similarity"])
    best = each["value"].where(
        (each["band"] == BANDS[0]) & (each["n_train"] == each["n_train"].max())
    )
    best = best.groupby([each["model"], each["measure"]]).transform("mean")
    each["delta"] = ratio(each["value"], best) - 1
    return each[["model", "measure", "set", *labels, "nearest_similarity", "value", "delta"]]


def size_and_distance(runs: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """What the size of a training set and its distance from the test queries do: least squares of
    delta on both.

    `runs`: of `grid_runs`; `by`: labels with a regression each. Returns DataFrame[*by, term, delta,
    low, high, n_sets, n_runs]: what twice the training queries and what 0.1 more similarity add to
    delta, each in the middle of the other, and both at once beyond that. Errors are clustered by
    set, as its trainings are not independent, by Student's t.
    """
    from statsmodels.api import OLS, add_constant

    rows = []
    for key, part in runs.groupby(list(by), sort=False):
        doublings, nearer = (
            x - x.mean() for x in (np.log2(part["n_train"]), 10 * part["nearest_similarity"])
        )
        known = {"twice the training queries": doublings, "0.1 more similarity": nearer}
        known["both at once, beyond their sum"] = doublings * nearer
        errors = {
            "cov_type": "cluster",
            "cov_kwds": {"groups": pd.factorize(part["set"])[0]},
            "use_t": True,
        }
        fitted = OLS(part["delta"], add_constant(pd.DataFrame(known))).fit(**errors)
        for term, ends in fitted.conf_int().loc[list(known)].iterrows():
            rows.append((*key, term, fitted.params[term], *ends, part["set"].nunique(), len(part)))
    return pd.DataFrame(rows, columns=[*by, "term", "delta", "low", "high", "n_sets", "n_runs"])


def query_losses(values: pd.DataFrame) -> pd.DataFrame:
    """Interpolation less extrapolation of each query, float[query_id × model]; of values of one
    size and measure.
    """
    means = values.pivot_table(
        index="query_id", columns=["regime", "model"], values="value", sort=False
    )
    return means[REGIMES[0]] - means[REGIMES[1]]


def nearest_queries(split: ReSTrain, size: int, store: Store) -> pd.DataFrame:
    """The nearest training query of each test query in both sets: query_id, regime, similarity,
    nearest (its id).
    """
    (train, test), ids, found = (
        split.vectors.read(store),
        np.array(split.pool.ids(store), object),
        [],
    )
    asked = [query_id for part in split.vectors.test for query_id in part.ids(store)]
    for regime in REGIMES:
        inside = np.flatnonzero(np.isin(ids, split.sets(store)[f"{regime}-{size}"]))
        cosines, at = nearest(test, train[inside], k=1)
        columns = {
            "query_id": asked,
            "regime": regime,
            "similarity": cosines[:, 0],
            "nearest": ids[inside[at[:, 0]]],
        }
        found.append(pd.DataFrame(columns))
    return pd.concat(found, ignore_index=True)

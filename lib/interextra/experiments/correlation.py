"""Zhan et al., section 4.2: does extrapolation foretell how a model does on collections that it never saw (Table 5)?

Models of 8 ways of training at 3 sizes, in both regimes, search further collections as they are. A *point* is a way of
training at one size: its measure in domain, and that of the same model out of domain.
"""

import itertools
from collections.abc import Sequence
from copy import copy

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries, Source
from interextra.experiments.plans import Plan, design, parts_of, plans, pool, systems, trainings
from interextra.experiments.pretraining import start_in
from interextra.experiments.zhan import REGIMES, run_of, sets_of
from interextra.ground.correlation import (
    METHODS,
    correlations,
    drawn_groups,
    ends_of,
    fisher_z,
    independent,
    interval_of_one,
    steiger,
    stretched,
)
from interextra.ground.effects import Effects, holm, interval, resampled_means
from interextra.ground.errors import InputError, offenders
from interextra.models.model import Model
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.run import Run
from interextra.papers import published
from interextra.papers.claims import BM25, judged

IN_DOMAIN, ALL = "in domain", "mean of all"
LABELS = ["method", "n_train", "regime", "seed"]
POINT = ["method", "n_train"]  # what is seen of it in both regimes
WITHIN = "Spearman within a size"  # what size alone does is taken out
STATISTICS = (*METHODS, WITHIN)
JUDGED = "Judged@10"
FINDINGS = {
    "extrapolation": "extrapolation foretells {}",
    "interpolation": "interpolation foretells {}",
    "difference": "extrapolation foretells {} better",
}


@plans("08_beir_correlation")
def zero_shot(p: dict) -> Plan:
    """Frames of runs: `in_domain` with the labels method, n_train, regime, seed, and `elsewhere`, with collection and
    part beside them; a collection of several parts is the mean of them.

    `bm25`: the runs of BM25, which stand for no point: collection (in domain among them), part. `read`: collection →
    what its entry says of the texts that the models have read.
    """
    made, sets = methods(p), sets_of(p)
    of_size = dict.fromkeys(p["trained_sizes"], sets)
    if p["more_sizes"]:
        of_size |= dict.fromkeys(p["more_sizes"], sets_of(p | {"sizes": p["more_sizes"]}))
    entries = [parts_of(entry, "NAME | SPLIT | READ | SPEC") for entry in p["collections"]]
    if unknown := set(p["skip_own"]) - {name for name, *_ in entries}:
        raise InputError(f"parameter 'skip_own': {offenders(sorted(unknown))} is none of the collections")
    elsewhere = [
        {"collection": name, "part": spec, "skip_own": name in p["skip_own"], "split": split}
        for name, split, _, spec in entries
    ]
    inside, outside = [], []
    for (method, one), (size, of), regime in itertools.product(made.items(), sorted(of_size.items()), REGIMES):
        for seed in trainings(p, one):
            labels = {"method": method, "n_train": size, "regime": regime, "seed": seed}
            run = run_of(p, one, Part(of=of, part=f"{regime}-{size}"), seed, p["test_splits"])
            inside.append(labels | {"run": run})
            outside += [labels | row for row in _searches(run.model, elsewhere, p["depth"])]
    own = run_of(p, load_recipe(p["bm25"]), pool(p), p["seed"], p["test_splits"])
    bm25 = [
        {"collection": IN_DOMAIN, "part": p["collection"], "run": own},
        *_searches(own.model, elsewhere, p["depth"]),
    ]
    read = {name: about for name, _, about, _ in entries}
    frames = {"in_domain": design(inside), "elsewhere": design(outside), "bm25": design(bm25)}
    return Plan(sets=of_size, read=read, **frames)


def _searches(model: Model, elsewhere: Sequence[dict], depth: int) -> list[dict]:
    """Rows collection, part, skip_own, run: a model in each collection."""
    rows = []
    for place in elsewhere:
        queries = Queries(source=Source.of(place["part"]), split=place["split"])
        run = Run(model=model, queries=(queries,), depth=depth)
        rows.append({name: place[name] for name in ("collection", "part", "skip_own")} | {"run": run})
    return rows


def methods(p: dict) -> dict[str, Recipe]:
    """Label → recipe of the ways of training and of the starts, written as in notebook 06."""
    ways = systems(p | {"recipes": p["strategies"]})
    starts = {start.label: start.recipe for start in (start_in(p, text) for text in p["starts"])}
    if twice := ways.keys() & starts.keys():
        raise InputError(f"parameters 'strategies' and 'starts': {offenders(sorted(twice))} stands in both")
    return ways | starts


def models(inside: pd.DataFrame) -> pd.DataFrame:
    """A row a model: model, method, n_train, regime, dl_ndcg (its mean in domain), seed. `inside`: of `nb.measure`."""
    table = inside.groupby(LABELS, sort=False)["value"].mean().rename("dl_ndcg").reset_index()
    return table.assign(model=_names(table))[["model", "method", "n_train", "regime", "dl_ndcg", "seed"]]


def _names(table: pd.DataFrame) -> pd.Series:
    return table[LABELS].astype(str).agg(", ".join, axis=1)


def out_of_domain(outside: pd.DataFrame, bm25: pd.DataFrame, measure: str) -> pd.DataFrame:
    """A row a model and collection: model, collection, measure, value, judged_at_10, n_queries; BM25's come last.

    `outside`, `bm25`: values of `measure` and of Judged@10 of the frames `elsewhere` and `bm25` of `zero_shot`. A
    collection of several parts has the mean of their means.
    """

    def averaged(values: pd.DataFrame, labels: list[str]) -> pd.DataFrame:
        by = [*labels, "collection", "measure"]
        parts = values.groupby([*by, "part"], sort=False)["value"].agg(["mean", "size"])
        means = parts.groupby(by, sort=False).agg(value=("mean", "mean"), n_queries=("size", "sum")).reset_index()
        judged_too = means[means["measure"] == JUDGED].rename(columns={"value": "judged_at_10"})
        mine = means[means["measure"] == measure]
        return mine.merge(judged_too[[*labels, "collection", "judged_at_10"]])

    found, theirs = averaged(outside, LABELS), averaged(bm25[bm25["collection"] != IN_DOMAIN], [])
    both = pd.concat([found.assign(model=_names(found)), theirs.assign(model=BM25)], ignore_index=True)
    return both[["model", "collection", "measure", "value", "judged_at_10", "n_queries"]]


class Points:
    """Both sides of every point, in domain and in each collection, and their resamples.

    Queries are drawn, in domain and in each collection, and ways of training, each with its sizes: a method's models
    share much, so that 8 methods at 3 sizes are not 24 independent points. The draws are the same in both regimes.
    """

    def __init__(self, inside: pd.DataFrame, outside: pd.DataFrame, seed: int, n_boot: int):
        self.labels = inside[POINT].drop_duplicates().reset_index(drop=True)
        self.seed, self.n_boot = seed, n_boot
        self.counts = drawn_groups(self.labels["method"], seed, n_boot)
        self.inside = self._means(inside)
        parts = {
            name: [self._means(part) for _, part in every.groupby("part", sort=False)]
            for name, every in outside.groupby("collection", sort=False)
        }
        self.outside = {
            name: tuple(np.mean(side, axis=0) for side in zip(*of, strict=True)) for name, of in parts.items()
        }
        self.outside[ALL] = tuple(np.mean(side, axis=0) for side in zip(*self.outside.values(), strict=True))

    def _means(self, values: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Means float[2, n_points] over queries and trainings, and their resamples float[2, n_boot, n_points]."""
        wide = values.pivot_table(index="query_id", columns=["regime", *POINT], values="value", sort=False)
        keys = [(regime, *point) for regime in REGIMES for point in self.labels.itertuples(index=False, name=None)]
        if wide.isna().any(axis=None) or set(keys) != set(wide.columns):
            raise InputError("points: a model lacks queries that others have; measure all alike")
        drawn = self._resampled(values, wide[keys])
        halves = wide[keys].mean().to_numpy().reshape(2, -1)
        return halves, np.stack(np.split(drawn, 2, axis=1))

    def _resampled(self, values: pd.DataFrame, wide: pd.DataFrame) -> np.ndarray:
        units = pd.factorize(values.drop_duplicates("query_id").set_index("query_id")["unit"].loc[wide.index])[0]
        return resampled_means(wide.to_numpy(), units, self.seed, self.n_boot)

    def beating(self, bm25: pd.DataFrame) -> pd.DataFrame:
        """Which models beat BM25 in domain, with their whole interval: the points' labels, and a column a regime."""
        wide = bm25.groupby("query_id", sort=False)["value"].mean().to_frame()
        lead = self.inside[1] - self._resampled(bm25, wide)
        passing = {
            regime: [interval(point)[0] > 0 for point in side.T] for regime, side in zip(REGIMES, lead, strict=True)
        }
        return self.labels.assign(**passing)

    def among(self, kept: np.ndarray) -> "Points":
        """Some of the points, bool[n_points]; their ways of training are drawn anew."""
        some = copy(self)
        some.labels = self.labels[kept].reset_index(drop=True)
        some.counts = drawn_groups(some.labels["method"], self.seed, self.n_boot)
        some.inside = tuple(side[..., kept] for side in self.inside)
        some.outside = {name: tuple(side[..., kept] for side in both) for name, both in self.outside.items()}
        return some

    def drawn(self, x: np.ndarray, y: np.ndarray, estimate: float, method: str, within: Sequence | None = None):
        """Correlations of resampled sides float[n_boot, n_points], float[n_boot]: see `correlation.stretched`."""
        plain = correlations(x, y, self.counts, method, within)
        return stretched(plain, estimate, self.labels["method"].nunique())

    def frame(self) -> pd.DataFrame:
        """method, n_train, regime, collection, in_domain, out_of_domain: a row a point, regime and collection."""
        rows = [
            self.labels.assign(regime=regime, collection=name, in_domain=inside, out_of_domain=outside)
            for name, (means, _) in self.outside.items()
            for regime, inside, outside in zip(REGIMES, self.inside[0], means, strict=True)
        ]
        return pd.concat(rows, ignore_index=True)


def table_5(points: Points) -> pd.DataFrame:
    """Does what a model does in domain foretell what it does out of domain? A row a collection and statistic.

    Returns DataFrame[collection, statistic, interpolation, inter_low, inter_high, extrapolation, extra_low, extra_high,
    difference, low, high, p_value, p_holm, n_models] : the first six over the models of a regime each; the difference
    is extrapolation less interpolation. Intervals are of the draws of `Points`. p_value is Steiger's of two dependent
    correlations, for which points count as independent (too small a value, then), Holm's over the collections; Kendall
    has none. Statistics: `STATISTICS`; n_models in a regime.
    """
    sizes, rows, drawn, once = points.labels["n_train"].to_numpy(), [], [], np.ones((1, len(points.labels)))
    for (name, (means, resampled)), statistic in itertools.product(points.outside.items(), STATISTICS):
        how = {"method": statistic.split()[0], "within": sizes if statistic == WITHIN else None}
        if statistic == WITHIN and len(set(sizes)) == 1:
            continue
        pairs = list(zip(points.inside[0], means, strict=True))
        at = [float(correlations(x, y, once, **how)[0]) for x, y in pairs]
        sides = [points.drawn(*side, **how) for side in zip(points.inside[1], resampled, at, strict=True)]
        row = {"collection": name, "statistic": statistic}
        for regime, short, value, side in zip(REGIMES, ("inter", "extra"), at, sides, strict=True):
            row[regime] = value
            row[f"{short}_low"], row[f"{short}_high"] = ends_of(side)
        sides.append(sides[1] - sides[0])
        row["difference"] = at[1] - at[0]
        row["low"], row["high"] = ends_of(sides[2])
        row["p_value"] = np.nan if how["method"] == "Kendall" else _dependent(pairs, how)
        rows.append(row | {"n_models": len(points.labels)})
        drawn.append(sides)
    table = pd.DataFrame(rows)
    single = table[table["collection"] != ALL]
    table["p_holm"] = single.groupby("statistic")["p_value"].transform(lambda p: holm(p))
    table.insert(len(table.columns) - 2, "p_holm", table.pop("p_holm"))
    return Effects.of(table, ["collection", "statistic"], [*REGIMES, "difference"], *zip(*drawn, strict=True))


def _dependent(pairs: Sequence[tuple[np.ndarray, np.ndarray]], how: dict) -> float:
    """Steiger's p-value of the difference of two correlations over the same points; a size costs one of them."""
    sides = [side for pair in pairs for side in pair]
    matrix = np.eye(4)
    for one, two in itertools.combinations(range(4), 2):
        both = correlations(sides[one], sides[two], np.ones((1, len(sides[0]))), **how)[0]
        matrix[one, two] = matrix[two, one] = both
    n = len(sides[0]) - (0 if how["within"] is None else len(set(how["within"])) - 1)
    return steiger(matrix, n)[1] if n > 3 and np.abs(np.triu(matrix, 1)).max() < 1 else float("nan")


def crossed(points: Points) -> pd.DataFrame:
    """Is it what is measured in domain, or which models are? The Spearman correlation of each side in domain with each
    side out of domain, of the models of a method and size: collection, in_domain, out_of_domain, value, low, high.

    In the paper both sides differ at once. If the extrapolation of a method said more of it than its interpolation
    does, it would also foretell what the models trained for interpolation do elsewhere.
    """
    rows, once = [], np.ones((1, len(points.labels)))
    for (name, (means, resampled)), one, two in itertools.product(points.outside.items(), (0, 1), (0, 1)):
        value = correlations(points.inside[0][one], means[two], once, METHODS[0])[0]
        low, high = ends_of(points.drawn(points.inside[1][one], resampled[two], value, METHODS[0]))
        rows.append((name, REGIMES[one], REGIMES[two], value, low, high))
    return pd.DataFrame(rows, columns=["collection", "in_domain", "out_of_domain", "value", "low", "high"])


def learnt(beating: pd.DataFrame) -> pd.Series:
    """Share of the ways of training that beat BM25 in domain at their largest size; index the regime."""
    return beating.loc[beating["n_train"] == beating["n_train"].max(), list(REGIMES)].mean()


def findings(table: pd.DataFrame, beating: pd.DataFrame, n_queries: pd.Series, n_trainings: int) -> pd.DataFrame:
    """What section 4.2 concludes, in each collection and in their mean, by Spearman: see `claims.judged`.

    The mean of all collections is the question, with three findings that hold together; the collections one by one are
    a family of their own, since few ways of training cannot carry all at once. Correlations are judged on Fisher's z,
    so that no interval reaches beyond 1; their differences as they are.
    `table`: of `table_5`. `beating`: of `Points.beating`; where fewer than half of the ways of training beat BM25 in a
    regime, even at their largest size, nothing is concluded of it. `n_queries`: of each collection.
    """
    found, spearman, shares = [], table[table["statistic"] == METHODS[0]], learnt(beating)
    sides = {"extrapolation": "second", "interpolation": "first", "difference": "effect"}
    for column, side in sides.items():
        share = shares.get(column, shares.min())
        for (_, row), drawn in zip(spearman.iterrows(), spearman.drawn(side), strict=True):
            counts = {"n_queries": int(n_queries.get(row["collection"], n_queries.sum())), "n_trainings": n_trainings}
            about = {"collection": row["collection"], "finding": FINDINGS[column].format(row["collection"])}
            both = [part if column == "difference" else fisher_z(part) for part in (row[column], drawn)]
            of = {"estimate": both[0], "draws": both[1], "kind": "above", "gate": bool(share >= 0.5)}
            found.append({"about": column} | about | of | counts)
    whole, single = ([row for row in found if (row["collection"] == ALL) == of_all] for of_all in (True, False))
    table, ends = pd.concat([judged(whole), judged(single)], ignore_index=True), ["estimate", "low", "high"]
    table[ends] = table[ends].where(table["about"] == "difference", np.tanh(table[ends]))
    return table


def published_differences(n: int = 24) -> pd.DataFrame:
    """Table 5 of the paper with what it lacks, as if the `n` models of a regime were independent.

    How the two correlations of a row depend on each other was not published: they are compared as if they did not,
    which misses some of what there is. Kendall has no interval here.

    Returns DataFrame[collection, statistic, interpolation, inter_low, inter_high, extrapolation, extra_low, extra_high,
    difference, p_value, p_holm].

    >>> table = published_differences().query("statistic == 'Spearman'")
    >>> table.loc[table["p_value"] < 0.05, "collection"].tolist(), int((table["p_holm"] < 0.05).sum())
    (['CQADupS.'], 0)
    """
    cells = published.load("zhan", 5)
    wide, rows = cells.pivot_table(index=["dataset", "statistic"], columns="regime", values="scaled", sort=False), []
    for (collection, statistic), pair in wide.iterrows():
        both = [pair[regime] for regime in REGIMES]
        ends = [interval_of_one(r, n, statistic) if statistic == "Spearman" else (np.nan, np.nan) for r in both]
        p_value = independent(*both, n, statistic) if statistic == "Spearman" else np.nan
        rows.append((collection, statistic, both[0], *ends[0], both[1], *ends[1], both[1] - both[0], p_value))
    columns = ["collection", "statistic", "interpolation", "inter_low", "inter_high", "extrapolation", "extra_low"]
    table = pd.DataFrame(rows, columns=[*columns, "extra_high", "difference", "p_value"])
    return table.assign(p_holm=table.groupby("statistic")["p_value"].transform(lambda p: holm(p)))


def in_words(table: pd.DataFrame, found: pd.DataFrame, beating: pd.DataFrame, ood: pd.DataFrame) -> list[str]:
    """Sentences for the answer: the correlations with the mean of all collections, where what is said holds, and how
    good the models are beside BM25. Takes `table_5`, `findings`, `Points.beating` and `out_of_domain`."""
    row = table[(table["collection"] == ALL) & (table["statistic"] == METHODS[0])].iloc[0]
    both = [
        f"{regime} {_told(row[regime], row[f'{short}_low'], row[f'{short}_high'])}"
        for regime, short in zip(REGIMES, ("inter", "extra"), strict=True)
    ]
    judgement = found.set_index(["about", "collection"]).loc[("difference", ALL)]
    difference = _told(judgement["estimate"], judgement["low"], judgement["high"])
    verdicts = found[found["collection"] == ALL].set_index("about")["verdict"]
    sentences = [
        f"Spearman correlation of what a model does in domain with its mean out of domain, {row['n_models']} models a "
        f"regime: {', '.join(both)}. Extrapolation foretells it: {verdicts['extrapolation']}; so does interpolation: "
        f"{verdicts['interpolation']}; extrapolation does so better: {verdicts['difference']} ({difference})."
    ]
    single, counted = found[found["collection"] != ALL], []
    for about, told in zip(FINDINGS, ("by extrapolation", "by interpolation", "better by extrapolation"), strict=True):
        verdicts = single.loc[single["about"] == about, "verdict"].value_counts().items()
        counted.append(f"{told}: " + ", ".join(f"{verdict} in {n}" for verdict, n in verdicts))
    counts = [f"{beating[regime].sum()} of {len(beating)} ({regime})" for regime in REGIMES]
    sentences.append(f"Each of the {single['collection'].nunique()} collections, foretold {'; '.join(counted)}.")
    means = ood.groupby("model")["value"].mean()
    sentences.append(
        f"{' and '.join(counts)} of the models beat BM25 in domain; elsewhere the best of them has a mean of "
        f"{means.drop(BM25).max():.2f}, BM25 {means[BM25]:.2f}."
    )
    return sentences


def _told(value: float, low: float, high: float) -> str:
    text = [f"{part:+.2f}".replace("0.", ".") for part in (value, low, high)]
    return f"{text[0]} [{text[1]}, {text[2]}]"

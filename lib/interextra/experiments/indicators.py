"""Can a loss be foreseen from the queries alone? What notebook 07 tests (Lupart et al., §5.2, Figures 3 to 6).

Frames are tidy. `averaged` gives a value per query, side and training; `pairs` of them are wide: a row a shift, model,
measure and test query with its Avg In and Out. Indicators are frames by shift, model and query_id; the model that
counts is the one without the query's cluster. A difference is turned so that positive is worse for every measure;
RelLoss keeps the paper's sign. Correlations over queries are on one set of resamples, see `resampled`; the
tables carry these draws as those of `effects` do, so that `contrast` and `judged` take them.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.data.collection import Passages
from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.evaluation import indicators, prediction
from interextra.evaluation.predictors import POST, PRE, post_retrieval, pre_retrieval, term_statistics
from interextra.experiments.plans import Plan
from interextra.experiments.shifts import published_losses, worse
from interextra.ground.cells import Store
from interextra.ground.correlation import interval_of_one
from interextra.ground.effects import Effects, effects, holm, interval, ratio, simultaneous
from interextra.ground.errors import InputError
from interextra.models.dense import LABEL as DENSE
from interextra.papers import published
from interextra.papers.claims import judged
from interextra.papers.releases import CLUSTERS, released_jaccard, released_queries
from interextra.splits.shift import Shift

POOLED = "pooled"
FIRST_STAGE = (DENSE, "SPLADE", "ColBERT")  # those of Figure 5
SPACE = ["R", "max", "density"]  # what a model's own query space says of a query
WORDS = ["query_jaccard", "nearest_jaccard"]  # what words say
SPACES = {"dense": SPACE, "own": SPACE, "words": WORDS, "collection": list(PRE), "run": list(POST)}
GAPS = [(f"dense: {name}", f"own: {name}") for name in SPACE]  # definitions of far that are compared
GAPS += [("dense: R", name) for name in ("dense: max", "dense: density", "words: nearest_jaccard")]
SYSTEM = ["shift", "model", "measure"]
QUERY = ["shift", "model", "stratum", "query_id"]


def jaccard_table(store: Store, shifts: dict[str, Shift]) -> pd.DataFrame:
    """Weighted Jaccard of each cluster with the others of its shift (Lupart §5.2, Figure 3 and footnote 6).

    Returns shift, stratum, jaccard (of all its queries with all queries of the others, as in the paper),
    jaccard_eval_only (of its test queries with the training queries of the model without it, which the footnote calls
    the formal way), n_words (different words of the cluster), n_queries (for test), n_train (of the model without it).
    """
    rows = []
    for (shift, cell), name in ((item, name) for item in shifts.items() for name in item[1].names):
        texts, label = cell.pool.frame()["text"], pd.read_parquet(store[cell] / "labels.parquet")["cluster"]
        inside, others = texts[label == name], texts[(label != name) & (label != "")]
        tests, train = _tests(store, cell, name), Part(of=cell, part=f"without-{name}").frame(store)["text"]
        both = indicators.jaccard(inside, others), indicators.jaccard(tests["text"], train)
        n_words = len({word for text in inside for word in text.lower().split()})
        rows.append((shift, name, *both, n_words, len(tests), len(train)))
    columns = ["shift", "stratum", "jaccard", "jaccard_eval_only", "n_words", "n_queries", "n_train"]
    return pd.DataFrame(rows, columns=columns).round({"jaccard": 12})  # J(S, T) = J(T, S) up to the order of summation


def _tests(store: Store, cell: Shift, name: str) -> pd.DataFrame:
    """Test queries of one cluster, indexed by query_id."""
    strata = cell.strata(store)
    return cell.pool.frame().set_index("query_id").loc[strata.index[strata == name]]


def published_points(folder: Path | None = None) -> pd.DataFrame:
    """Lupart's losses beside the Jaccard of their clusters, as in Figure 3: shift, cluster, model, loss, jaccard.

    `folder` of the release: Jaccard of the released evaluation queries, for all shifts; None: the values of the
    release's notebook, which has the topics only and takes whole clusters.

    >>> published_points().query("cluster == 'C1' and model == 'ColBERT'")[["loss", "jaccard"]].values.tolist()
    [[0.085, 0.2632]]
    """
    if folder is None:
        table = published.load("lupart", "release-jaccard").rename(columns={"scaled": "jaccard"}).assign(shift="topics")
    else:
        table = released_jaccard(folder)
    losses = published_losses().dropna(subset="loss")[["shift", "cluster", "model", "loss"]]
    return losses.merge(table[["shift", "cluster", "jaccard"]])


def published_links(folder: Path | None = None) -> pd.DataFrame:
    """`link` of the published losses with each Jaccard that is known: of, clusters, and the columns of `link`.

    Five clusters can show little: |Pearson| must exceed .88 for p < .05, Spearman must be 1 or -1. `of`: authors (whole
    clusters), and with the release's `folder` released (evaluation queries), of topics and of question words too.
    """
    found = {("authors", "topics"): published_points()}
    if folder is not None:
        points = published_points(folder).query("shift != 'length'")
        found["released", "topics"] = points[points["shift"] == "topics"]
        found["released", "topics and wh-words"] = points
    return pd.concat([link(points, "jaccard").assign(of=of, clusters=which) for (of, which), points in found.items()])


def link(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """Correlation of the losses with an indicator over clusters, a row a model, kind and method.

    `points`: shift, model, loss and the column `by`; a row a model and cluster. Returns model, indicator, kind, method,
    n, estimate, low, high, p_value, p_holm (over the models of a kind and method), needed: see `correlation`.

    Clusters of one shift share their training queries, and shifts differ in much else: kind `pooled` takes all clusters
    as if they were independent, `within shifts` only what is between clusters of one shift (shifts where the indicator
    is the same for all are left out). What leaves fewer than four independent points has no row.
    """
    rows = []
    for model, every in points.groupby("model", sort=False):
        moving = every[every.groupby("shift")[by].transform(np.ptp) > 1e-9]
        kinds = {"pooled": (every, None)}
        kinds |= {"within shifts": (moving, moving["shift"])} if every["shift"].nunique() > 1 else {}
        for kind, (part, shifts) in kinds.items():
            free = len(part) - (0 if shifts is None else shifts.nunique() - 1)
            varied = free > 3 and np.ptp(part[by]) and np.ptp(part["loss"])
            for method in ("Pearson", "Spearman") if varied else ():
                labels = {"model": model, "indicator": by, "kind": kind, "method": method, "n": len(part)}
                rows.append(labels | correlation(part[by], part["loss"], method, shifts))
    columns = ["model", "indicator", "kind", "method", "n", "estimate", "low", "high", "p_value", "p_holm", "needed"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=table.groupby(["kind", "method"])["p_value"].transform(lambda p: holm(p)))


def correlation(x: np.ndarray, y: np.ndarray, method: str, shifts: Sequence | None = None) -> dict[str, float]:
    """Pearson or Spearman correlation: estimate, low, high, p_value, needed (the smallest |estimate| with p < .05).

    `shifts`, a label a point: values, or for Spearman their ranks, less the mean of their shift; each shift but one
    costs a degree of freedom. Intervals by Fisher's z, for Spearman as Bonett and Wright (Psychometrika 2000); none
    (NaN) for 1 and -1. p_value by Student's t, but for Spearman up to 8 points without shifts by all orders.

    >>> found = correlation([1, 2, 3, 4, 5], [5, 3, 4, 2, 1], "Spearman")
    >>> [round(found[name], 3) for name in ("estimate", "p_value", "needed")]
    [-0.9, 0.083, 1.0]
    """
    ranked = [pd.Series(stats.rankdata(side) if method == "Spearman" else np.asarray(side)) for side in (x, y)]
    codes = np.zeros(len(x), int) if shifts is None else pd.factorize(np.asarray(shifts))[0]
    x, y = ((side - side.groupby(codes).transform("mean")).to_numpy() for side in ranked)
    n = len(x) - codes.max()
    estimate = round(float(stats.pearsonr(x, y).statistic), 12)  # 1 is 1
    t = stats.t.ppf(0.975, n - 2)
    needed = t / np.sqrt(n - 2 + t**2)
    strength = np.inf if abs(estimate) == 1 else estimate * np.sqrt((n - 2) / (1 - estimate**2))
    p_value = float(2 * stats.t.sf(abs(strength), n - 2))
    if method == "Spearman" and n < 9 and shifts is None:
        every = stats.permutation_test(
            (x,),
            lambda first, axis: np.abs(first @ y) / (np.linalg.norm(x) * np.linalg.norm(y)),
            permutation_type="pairings",
            vectorized=True,
            n_resamples=np.inf,
            alternative="greater",
        )
        sizes = every.null_distribution.round(9)
        p_value = float(every.pvalue)
        needed = min((size for size in np.unique(sizes) if (sizes >= size).mean() < 0.05), default=np.nan)
    ends = interval_of_one(estimate, n, method) if abs(estimate) < 1 else (np.nan, np.nan)
    names = ("estimate", "low", "high", "p_value", "needed")
    return {name: float(value) for name, value in zip(names, (estimate, *ends, p_value, needed), strict=True)}


def spaces(plan: Plan, store: Store) -> pd.DataFrame:
    """shift, model, stratum, query_id, R, max, density: each test query in the query space of the model without it.

    Means over trainings. Each left-out cluster has a model and so a scale of its own: see `standardised`.
    """
    return _of_out_models(plan.near, plan, store, lambda row: pd.read_parquet(store[row.near] / "nearness.parquet"))


def run_predictors(plan: Plan, store: Store) -> pd.DataFrame:
    """NQC, WIG, SMV and the top score of each test query in the run of the model without its cluster; as `spaces`.

    Of a reranker's run they see the passages that were reranked: below them stand BM25's.
    """

    def read(row) -> pd.DataFrame:
        depth = getattr(row.run.model.recipe, "rerank_depth", row.run.depth)
        return post_retrieval(RunFile.read(store[row.run] / "run.held-out.parquet"), min(row.run.depth, depth))

    return _of_out_models(pd.concat([plan.design, plan.control]), plan, store, read)


def _of_out_models(frame: pd.DataFrame, plan: Plan, store: Store, read: Callable) -> pd.DataFrame:
    parts = []
    for row in frame.itertuples():
        mine = _tests(store, plan.shifts[row.shift], row.left_out).index
        found = read(row).loc[mine].rename_axis("query_id").reset_index()
        parts.append(found.assign(shift=row.shift, model=row.model, stratum=row.left_out))
    return pd.concat(parts).groupby(QUERY, sort=False).mean().reset_index()


def word_indicators(shifts: dict[str, Shift], passages: Passages, store: Store) -> pd.DataFrame:
    """What can be said of a test query without a model: shift, query_id, and columns `words: …`, `collection: …`.

    `words`: Jaccard with the training queries of the model without its cluster, and with the nearest of them.
    `collection`: see `evaluation.predictors.PRE`.
    """
    parts = []
    for (shift, cell), name in ((item, name) for item in shifts.items() for name in item[1].names):
        tests, train = _tests(store, cell, name), Part(of=cell, part=f"without-{name}").frame(store)["text"]
        both = indicators.query_jaccard(tests["text"], train), indicators.nearest_jaccard(tests["text"], train)
        found = pd.DataFrame(dict(zip(WORDS, both, strict=True)), tests.index)
        parts.append(found.assign(shift=shift, text=tests["text"]).reset_index())
    table = pd.concat(parts, ignore_index=True)
    before = pre_retrieval(table.drop_duplicates("query_id"), term_statistics(passages, table["text"].unique()))
    before = before[list(PRE)].add_prefix("collection: ")
    named = table.drop(columns="text").rename(columns={name: f"words: {name}" for name in WORDS})
    return named.join(before, on="query_id")


def pool(values: pd.DataFrame, control: str) -> list[str]:
    """The shifts that can be taken together: those in which all systems were trained, without the control."""
    n = values[values["shift"] != control].groupby("shift", sort=False)["model"].nunique()
    return n.index[n == n.max()].tolist()


def averaged(values: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """One value per shift, system, measure, query, side and training, of the values of `splits.resttest.sides`.

    The models that had the query's cluster in training are averaged. The shifts `together` stand once more under
    POOLED, with the stratum "": there a query counts once, with the mean of what it has in them.
    """
    labels = [name for name in values if name not in ("left_out", "test_set", "value")]
    each = values.groupby(labels, sort=False)["value"].mean().reset_index()
    pooled = each[each["shift"].isin(together)].assign(shift=POOLED, stratum="")
    return pd.concat([each, pooled.groupby(labels, sort=False)["value"].mean().reset_index()], ignore_index=True)


def pairs(each: pd.DataFrame) -> pd.DataFrame:
    """Of `averaged`, means over trainings: shift, model, measure, stratum, query_id, unit, in, out."""
    by = [*SYSTEM, "stratum", "query_id", "unit"]
    return each.groupby([*by, "side"], sort=False)["value"].mean().unstack().rename_axis(columns=None).reset_index()


def distances(near: pd.DataFrame, together: Sequence[str]) -> pd.DataFrame:
    """R of the dense model, of `spaces`: shift, query_id, R.

    Under POOLED R is standardised in each cluster, and the mean over the shifts `together` in which the query is.
    """
    dense = near[near["model"] == DENSE]
    alike = dense.assign(R=standardised(dense["R"], [dense["shift"], dense["stratum"]]))
    both = pd.concat([dense, alike[alike["shift"].isin(together)].assign(shift=POOLED)])
    return both.groupby(["shift", "query_id"], sort=False)["R"].mean().reset_index()


def resampled(values: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """How often each query is in each resample, float32; index query_id, a column a resample.

    One set for all shifts and systems: a query that is in two shifts is drawn for both, and so are queries of one unit.
    """
    units = values.drop_duplicates("query_id").set_index("query_id")["unit"]
    return pd.DataFrame(prediction.counts(units, seed, n_boot), units.index)


def standardised(values: pd.Series, by: list[pd.Series]) -> np.ndarray:
    """Values less their group's mean, in units of its standard deviation; 0 where a group has one value only.

    It makes R of models on different scales comparable, and takes from it what is between the groups.

    >>> standardised(pd.Series([1.0, 3, 100, 300]), [pd.Series(list("aabb"))]).tolist()
    [-1.0, 1.0, -1.0, 1.0]
    """
    groups = values.groupby(by)
    return np.nan_to_num(ratio(values - groups.transform("mean"), groups.transform("std", ddof=0)))


def in_bins(far: pd.DataFrame, n_bins: int, how: str) -> pd.DataFrame:
    """`distances` with `bin`, the interval of R within its shift, from 1 for the farthest queries."""
    return far.assign(bin=far.groupby("shift")["R"].transform(lambda r: indicators.bins(r, n_bins, how)[1] + 1))


def loss_by_r(each: pd.DataFrame, far: pd.DataFrame, n_bins: int, seed: int, n_boot: int) -> pd.DataFrame:
    """RelLoss in intervals of R, by both ways to cut and both averagings (Lupart Figure 5 does not say which).

    `each`: of `averaged`; `far`: of `distances`. Returns shift, model, measure, binning, averaging, bin (1 is the
    farthest; without queries it has no row), r_low and r_high (smallest and largest R in it), n_queries, n_dropped,
    loss, low, high, n_trainings. averaging: ratio of means, or mean of ratios, the mean of the queries' own RelLoss,
    without those whose Avg In is 0 (n_dropped) and with the mean over trainings.
    """
    by, parts, wide = [*SYSTEM, "bin"], [], pairs(each)
    single = wide.assign(value=indicators.per_query_loss(wide["in"], wide["out"])).dropna(subset="value")
    for how in indicators.BINNINGS:
        numbered = in_bins(far, n_bins, how)
        ends = numbered.groupby(["shift", "bin"])["R"].agg(r_low="min", r_high="max")
        every = effects(each.merge(numbered), by, "side", ("in", "out"), "loss", seed=seed, n_boot=n_boot)
        own = effects(single.merge(numbered), by, seed=seed, n_boot=n_boot).rename(columns={"mean": "loss"})
        n_queries = every.set_index(by)[["n_queries", "n_trainings"]]
        for averaging, found in (("ratio of means", every), ("mean of ratios", own)):
            kept = found.set_index(by)[["n_queries", "loss", "low", "high"]].rename(columns={"n_queries": "n_kept"})
            made = n_queries.join(kept).reset_index().join(ends, on=["shift", "bin"])
            made["n_dropped"] = made["n_queries"] - made["n_kept"].fillna(0).astype(int)
            parts.append(made.assign(binning=how, averaging=averaging))
    columns = ["binning", "averaging", "bin", "r_low", "r_high", "n_queries", "n_dropped", "loss", "low", "high"]
    return pd.concat(parts, ignore_index=True)[[*SYSTEM, *columns, "n_trainings"]]


def trend(wide: pd.DataFrame, far: pd.DataFrame, w: pd.DataFrame) -> pd.DataFrame:
    """Kendall's tau within clusters of R with the loss; below 0: the farther, the higher the loss.

    `wide`: of `pairs`; `far`: of `distances`; `w`: of `resampled`. Within clusters, as every cluster has a model and so
    a scale of R of its own. Returns shift, model, measure, loss, kendall, low, high, n_queries, and draws: `loss` is
    "difference" (Avg In - Out of all queries) or "relative" (over Avg In, of the queries where Avg In is above 0). NaN
    where no cluster has two of them.
    """
    rows, drawn = [], []
    for key, part in wide.merge(far).groupby(SYSTEM, sort=False):
        relative = indicators.per_query_loss(part["in"], part["out"])
        for name, loss in (("difference", (part["in"] - part["out"]).to_numpy()), ("relative", relative)):
            known = ~np.isnan(loss)
            some, turned = part[known], worse(key[2]) * loss[known]
            tau, taus = np.array(np.nan), np.full(w.shape[1], np.nan)
            if some["stratum"].value_counts().max() > 1:
                found = prediction.within_draws(some["R"], turned, some["stratum"], w.loc[some["query_id"]].to_numpy())
                tau, taus = (side.squeeze() for side in found)
            rows.append((*key, name, tau.item(), *interval(taus), len(some)))
            drawn.append(taus)
    table = pd.DataFrame(rows, columns=[*SYSTEM, "loss", "kendall", "low", "high", "n_queries"])
    return _with_draws(table, [*SYSTEM, "loss"], ["kendall"], drawn)


def _with_draws(table: pd.DataFrame, by: list[str], columns: list[str], drawn: list) -> pd.DataFrame:
    """The table with draws [rows, columns, n_boot] as `effects` has: of the effect, or of both sides and the effect."""
    of = np.moveaxis(np.stack(drawn).reshape(len(table), len(columns), -1), 1, 0)
    return Effects.of(table, by, columns, *of)


def spread(numbered: pd.DataFrame, w: pd.DataFrame) -> pd.DataFrame:
    """Middle half of the per-query losses in the farthest and the nearest interval, and their difference (Figure 6).

    `numbered`: pairs with the `bin` and the `loss` of each query, none missing; `w`: of `resampled`. Returns model,
    measure, farthest, nearest, difference, low, high, and draws: interquartile ranges of RelLoss; they stand for the
    variance, which a single query near Avg In = 0 would decide.
    """

    def width(loss: np.ndarray) -> float:
        return float(np.subtract(*np.percentile(loss, [75, 25]))) if len(loss) else np.nan  # a draw may miss all of few

    rows, drawn = [], []
    for key, part in numbered.groupby(["model", "measure"], sort=False):
        ends = [part[part["bin"] == at] for at in (part["bin"].min(), part["bin"].max())]
        far, near = (width(end["loss"]) for end in ends)
        often = [w.loc[end["query_id"]].to_numpy(int).T for end in ends]  # [n_boot, queries]
        drawn_of = [
            [width(np.repeat(end["loss"].to_numpy(), n)) for n in of] for end, of in zip(ends, often, strict=True)
        ]
        drawn.append(np.subtract(*map(np.array, drawn_of)))
        rows.append((*key, far, near, far - near, *interval(drawn[-1])))
    table = pd.DataFrame(rows, columns=["model", "measure", "farthest", "nearest", "difference", "low", "high"])
    return _with_draws(table, ["model", "measure"], ["difference"], drawn)


def predictor_table(near: pd.DataFrame, said: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """All predictors of the test queries: shift, model, query_id, and columns `SPACE: NAME`, see `SPACES`.

    Of `spaces`, `word_indicators` and `run_predictors`. `own` is missing where it is the dense model's space.
    """
    query = ["shift", "query_id"]
    dense = near[near["model"] == DENSE].set_index(query)[SPACE].add_prefix("dense: ")
    own = near[near["model"] != DENSE].set_index([*query, "model"])[SPACE].add_prefix("own: ")
    table = after.drop(columns="stratum").rename(columns={name: f"run: {name}" for name in POST})
    table = table.join(dense, on=query).join(own, on=[*query, "model"]).merge(said, on=query)
    ordered = [f"{space}: {name}" for space, names in SPACES.items() for name in names]
    return table[["shift", "model", "query_id", *ordered]]


def predict(wide: pd.DataFrame, predictors: pd.DataFrame, w: pd.DataFrame) -> pd.DataFrame:
    """Every predictor with every target, each turned so that a positive tau is what its makers expect.

    `wide`: of `pairs`; `predictors`: of `predictor_table`; `w`: of `resampled`. Targets: Out of every measure, and
    `loss`, Avg In - Out of the first. Expected: near, specific or confidently answered queries do well and lose little;
    long ones do badly. A predictor that is known for fewer than half of the queries is left out. Returns shift, model,
    target, name (space: predictor), and kendall, within (tau within clusters: over all queries scores of different
    models are mixed), smare, each with _low and _high, n_queries, and draws of `within`.
    """
    parts, drawn = [], []
    for (shift, model), part in wide.groupby(["shift", "model"], sort=False):
        wanted, clusters = _targets(part)
        known = _predictors_of(predictors, shift, model, wanted.index).dropna(axis=1, thresh=len(wanted) // 2 + 1)
        signs = {name: worse(name.removeprefix("out ")) for name in wanted} | {"loss": -1}
        signs |= {"collection: length": -1} if "collection: length" in known else {}
        table, taus = prediction.prediction_table(known, wanted, signs, clusters, w.loc[wanted.index].to_numpy())
        parts.append(table.assign(shift=shift, model=model))
        drawn.extend(taus)
    table = pd.concat(parts, ignore_index=True).rename(columns={"predictor": "name"})
    ends = [f"{name}{end}" for name in ("kendall", "within", "smare") for end in ("", "_low", "_high")]
    by = ["shift", "model", "target", "name"]
    return _with_draws(table[[*by, *ends, "n_queries"]], by, ["within"], drawn)


def _targets(part: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """What is predicted of one shift and model, by query_id, and the clusters; a loss is positive where it is worse."""
    of = {measure: some.set_index("query_id") for measure, some in part.groupby("measure", sort=False)}
    first = next(iter(of))
    loss = worse(first) * (of[first]["in"] - of[first]["out"])
    wanted = pd.DataFrame({f"out {name}": some["out"] for name, some in of.items()} | {"loss": loss})
    return wanted, of[first]["stratum"]


def _predictors_of(predictors: pd.DataFrame, shift: str, model: str, query_ids: pd.Index) -> pd.DataFrame:
    mine = predictors[(predictors["shift"] == shift) & (predictors["model"] == model)]
    return mine.drop(columns=["shift", "model"]).set_index("query_id").loc[query_ids]


def ranking(predicted: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Predictors by their mean tau over shifts (and systems), and whether the best is shown to be the best.

    `predicted`: rows of `predict`, with their draws; `by`: what tells the rankings apart, target or target and model.
    Returns these, name, within, low, high, smare, n (means are over so many shifts and systems), better_than; a
    predictor that some of them have not is not compared. Intervals are simultaneous over the predictors of a ranking.
    better_than: how many others this one is shown to exceed, by simultaneous intervals of the differences of all pairs.
    """
    parts = []
    for key, part in predicted.groupby(list(by), sort=False):
        n = part.dropna(subset="within").groupby("name", sort=False).size()
        if n.empty:  # too few queries: no predictor orders any
            continue
        table = part[part["name"].isin(n.index[n == n.max()])].groupby("name", sort=False)[["within", "smare"]].mean()
        drawn = np.stack([part[part["name"] == name].drawn().mean(axis=0) for name in table.index])
        table["low"], table["high"] = simultaneous(table["within"], drawn)
        first, second = np.nonzero(~np.eye(len(table), dtype=bool))
        gaps = table["within"].to_numpy()[first] - table["within"].to_numpy()[second]
        above = simultaneous(gaps, drawn[first] - drawn[second])[0] > 0
        table = table.assign(**dict(zip(by, key, strict=True)), n=n.max())
        table["better_than"] = np.bincount(first[above], minlength=len(table))
        parts.append(table.sort_values("within", ascending=False).reset_index())
    columns = [*by, "name", "within", "low", "high", "smare", "n", "better_than"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def difficulty(
    values: pd.DataFrame, predictors: pd.DataFrame, clusters: Mapping[str, Sequence[str]], w: pd.DataFrame
) -> pd.DataFrame:
    """Does a distance predict the model without the cluster better than a model that had it? If not: difficulty.

    One model stands against one model on the same query: tau within clusters with the value under each single model
    that had the cluster, averaged over these models. (The mean of several models orders queries with less noise than
    one of them.) Values are means over trainings.

    `values`: of `splits.resttest.sides`, of one measure; `predictors`: of `predictor_table`, of which R, max and
    density in dense and own space are taken; `clusters`: shift → its clusters; `w`: of `resampled`. Returns shift,
    model, name (space: predictor), tau_in, tau_out, difference, low, high (of the difference), n_queries, and draws.
    """
    rows, drawn = [], []
    for (shift, model), part in values.groupby(["shift", "model"], sort=False):
        names = pd.Index(clusters[shift])
        place = (names.get_indexer(part["left_out"]) - names.get_indexer(part["stratum"])) % len(names)
        each = part.assign(place=place).groupby(["stratum", "query_id", "place"], sort=False)["value"].mean().unstack()
        target = worse(part["measure"].iloc[0]) * each.sort_index(axis=1).to_numpy()  # column 0: out; the others: in
        strata, query_ids = (each.index.get_level_values(name) for name in ("stratum", "query_id"))
        known = _predictors_of(predictors, shift, model, query_ids).filter(regex="^(dense|own): ").dropna(axis=1)
        tau, taus = prediction.within_draws(known, target, strata, w.loc[query_ids].to_numpy())
        both = [(some[..., 1:].mean(axis=-1), some[..., 0]) for some in (tau, taus)]  # in and out
        drawn.extend(np.stack([*both[1], both[1][1] - both[1][0]], axis=1).transpose(2, 1, 0))
        for name, a, b, found in zip(known, *both[0], drawn[-len(tau) :], strict=True):
            rows.append((shift, model, name, a, b, b - a, *interval(found[2]), len(each)))
    by, sides = ["shift", "model", "name"], ["tau_in", "tau_out", "difference"]
    return _with_draws(pd.DataFrame(rows, columns=[*by, *sides, "low", "high", "n_queries"]), by, sides, drawn)


ORDERS = "R orders the queries of the model without their cluster"
BETTER = "R orders queries better without their cluster in training than with it"


def findings(
    links: pd.DataFrame,
    trends: pd.DataFrame,
    far: pd.DataFrame,
    widths: pd.DataFrame,
    hard: pd.DataFrame,
    comparable: Mapping[tuple[str, str], bool],
) -> pd.DataFrame:
    """The sentences of Lupart §5.2 and what R says, in one family: shift, model, and the columns of `claims.judged`.

    Tables of `link` (whose Pearson correlations within shifts count), `trend` (of one measure), `effects` (losses of
    the farthest queries by model), `spread`, and rows of `difficulty`, all of equally many draws. `comparable`: (shift,
    model) → may it be judged, see `claims.gate`. A correlation over clusters is judged as Fisher's z, with draws from
    its normal distribution apart from all others, as it has none over queries. n_queries: whose values are in it, of a
    correlation over clusters those of all clusters, of the farthest queries these.
    """
    rows, n_boot = [], trends.drawn().shape[1]

    def add(
        shift: str, model: str, finding: str, estimate: float, drawn: np.ndarray, kind: str, n: int, rival: str = ""
    ) -> None:
        gate = all(comparable.get((shift, name), False) for name in (model, rival) if name)
        found = {"estimate": estimate, "draws": drawn, "kind": kind, "gate": gate, "n_queries": n}
        rows.append({"shift": shift, "model": model, "finding": finding} | found)

    linked = links[(links["method"] == "Pearson") & (links["kind"] != "pooled")]
    for at, row in enumerate(linked.itertuples()):
        z, low, high = np.arctanh([row.estimate, row.low, row.high])
        drawn = np.random.default_rng(at).normal(z, (high - low) / 2 / stats.norm.ppf(0.975), n_boot)
        add(POOLED, row.model, f"higher {row.indicator}, lower loss", z, drawn, "below", trends["n_queries"].max())
    for row, drawn in zip(trends.itertuples(), trends.drawn(), strict=True):
        if row.shift == POOLED and row.model in FIRST_STAGE:
            add(
                POOLED,
                row.model,
                f"the farther, the higher the loss ({row.loss})",
                row.kendall,
                drawn,
                "below",
                row.n_queries,
            )
    n_far = far["n_queries"].max()
    of = {row.model: np.array([row.loss, *drawn]) for row, drawn in zip(far.itertuples(), far.drawn(), strict=True)}
    for rival in [name for name in FIRST_STAGE if name != "ColBERT" and {name, "ColBERT"} <= of.keys()]:
        gap = of["ColBERT"] - of[rival]
        add(POOLED, rival, "farthest queries: ColBERT loses less", gap[0], gap[1:], "below", n_far, "ColBERT")
    for row, drawn in zip(widths.itertuples(), widths.drawn(), strict=True):
        if row.model in FIRST_STAGE:  # the paper: RR varies less far away, ASL more
            less, kind = ("less", "below") if worse(row.measure) > 0 else ("more", "above")
            add(POOLED, row.model, f"losses of {row.measure} vary {less} far away", row.difference, drawn, kind, n_far)
    for row, out, gap in zip(hard.itertuples(), hard.drawn("second"), hard.drawn(), strict=True):
        add(row.shift, row.model, ORDERS, row.tau_out, out, "above", row.n_queries)
        add(row.shift, row.model, BETTER, row.difference, gap, "above", row.n_queries)
    table, ends = judged(rows), ["estimate", "low", "high"]
    table.loc[: len(linked) - 1, ends] = np.tanh(table.loc[: len(linked) - 1, ends])
    return table


def readings(found: pd.DataFrame, margin: float) -> pd.DataFrame:
    """What R is in each shift and for each system, by the simultaneous intervals of `findings`: distance or difficulty.

    Returns shift, model, tau_out, difference, low, high (of the difference), reading: `distance` (R orders the queries
    of the model without the cluster, and better than those of a model with it), `difficulty` (it orders them, and a
    difference of `margin` is excluded), `not told apart` (it orders them; neither is shown), `reversed` (near queries
    do worse), `no order shown`, or `not comparable`.
    """
    out, gap = (found[found["finding"] == name].set_index(["shift", "model"]) for name in (ORDERS, BETTER))
    cases = {
        "not comparable": gap["verdict"] == "not comparable",
        "reversed": out["high"] < 0,
        "no order shown": ~(out["low"] > 0),
        "distance": gap["low"] > 0,
        "difficulty": gap["high"] < margin,
    }
    table = gap.rename(columns={"estimate": "difference"}).assign(tau_out=out["estimate"])
    table["reading"] = np.select(list(cases.values()), list(cases), "not told apart")
    return table.reset_index()[["shift", "model", "tau_out", "difference", "low", "high", "reading"]]


def released_r(folder: Path, ids: list[str], vectors: np.ndarray) -> pd.DataFrame:
    """R of the released evaluation queries against those of the other clusters, on real vectors (Lupart, Figure 4).

    One encoder for all clusters, not trained on any of them: other than in the paper all values have one scale.

    `ids`, `vectors`: the queries whose vectors are known, float[n, d]; released queries that are not there are left
    out, and so is a shift of which less than half are there. Returns shift, cluster, query_id, R, own (the mean score
    with its own cluster, without itself).
    """
    place, parts = pd.Index(ids), []
    for shift, names in CLUSTERS.items():
        queries = released_queries(folder, shift)
        known = queries.assign(at=place.get_indexer(queries["query_id"])).query("at >= 0")
        for cluster in names if len(known) >= len(queries) / 2 else ():
            mine = known[known["cluster"] == cluster]
            others = known.loc[known["cluster"] != cluster, "at"].unique()
            if mine.empty or not len(others):
                raise InputError(f"released {shift}: no vector of a query in or outside of {cluster}; encode them")
            x = vectors[mine["at"]]
            own = indicators.mean_similarity(x, x) * len(x) - np.einsum("ij,ij->i", x, x)
            found = {"R": indicators.mean_similarity(x, vectors[others]), "own": own / max(1, len(x) - 1)}
            parts.append(mine.drop(columns=["at", "text"]).assign(shift=shift, **found))
    columns = ["shift", "cluster", "query_id", "R", "own"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)

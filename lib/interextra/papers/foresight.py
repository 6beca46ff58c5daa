"""Can a loss be foreseen from the queries alone? What notebook 07 tests (Lupart et al., §5.2, Figures 3 to 6).

Frames are tidy. `sides_by_query` gives *pairs*: a row a shift, model, measure and test query with its Avg In and Out.
Indicators are frames by shift, model and query_id; the model that counts is the one without the query's cluster.
A difference is turned so that positive is worse for every measure; RelLoss keeps the paper's sign.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.data.collection import Passages
from interextra.data.queries import Part
from interextra.data.runs import RunFile
from interextra.evaluation import indicators, prediction
from interextra.evaluation.predictors import POST, PRE, post_retrieval, pre_retrieval, term_statistics
from interextra.ground.cells import Store
from interextra.ground.effects import effects, holm, ratio, resamples
from interextra.ground.errors import InputError
from interextra.models.dense import LABEL as DENSE
from interextra.papers import published
from interextra.papers.claims import verdict
from interextra.papers.lupart import CLUSTERS, published_losses, released_jaccard, released_queries, worse
from interextra.papers.plans import Plan
from interextra.splits.shift import Shift

POOLED = "all shifts"
FIRST_STAGE = (DENSE, "SPLADE", "ColBERT")  # those of Figure 5
SPACE = ["R", "max", "density"]  # what a model's own query space says of a query
WORDS = ["query_jaccard", "nearest_jaccard"]  # what words say
SPACES = {"dense": SPACE, "own": SPACE, "words": WORDS, "collection": list(PRE), "run": list(POST)}
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
    """Correlation of the losses with an indicator over clusters, a row a model and method; fewer than 4 have none.

    `points`: model, loss and the column `by`; a row a model and cluster. Returns model, indicator, method, n, estimate,
    low, high, p_value, p_holm (over the models of a method), needed: see `correlation`. Clusters of one shift share
    training queries, so that n overstates what is independent.
    """
    rows = []
    for model, part in points.groupby("model", sort=False):
        x, y = part[by].to_numpy(), part["loss"].to_numpy()
        for method in ("Pearson", "Spearman") if len(part) > 3 and np.ptp(x) and np.ptp(y) else ():
            rows.append({"model": model, "indicator": by, "method": method, "n": len(part)} | correlation(x, y, method))
    columns = ["model", "indicator", "method", "n", "estimate", "low", "high", "p_value", "p_holm", "needed"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(p_holm=table.groupby("method")["p_value"].transform(lambda p: holm(p)))


def correlation(x: np.ndarray, y: np.ndarray, method: str) -> dict[str, float]:
    """Pearson or Spearman correlation: estimate, low, high, p_value, needed (the smallest |estimate| with p < .05).

    Intervals by Fisher's z, for Spearman as Bonett and Wright (Psychometrika 2000); none (NaN) for 1 and -1. p_value by
    Student's t, but for Spearman up to 8 points by all orders.

    >>> found = correlation([1, 2, 3, 4, 5], [5, 3, 4, 2, 1], "Spearman")
    >>> [round(found[name], 3) for name in ("estimate", "p_value", "needed")]
    [-0.9, 0.083, 1.0]
    """
    n, found = len(x), (stats.pearsonr if method == "Pearson" else stats.spearmanr)(x, y)
    estimate, p_value = round(float(found.statistic), 12), float(found.pvalue)  # 1 is 1
    t = stats.t.ppf(0.975, n - 2)
    needed, spread = t / np.sqrt(n - 2 + t**2), 1.0
    if method == "Spearman":
        spread = 1 + estimate**2 / 2
    if method == "Spearman" and n < 9:
        ranks = stats.rankdata(y) - (n + 1) / 2
        scale = np.linalg.norm(ranks) * np.linalg.norm(stats.rankdata(x) - (n + 1) / 2)
        every = stats.permutation_test(
            (stats.rankdata(x),),
            lambda first, axis: np.abs(first @ ranks) / scale,
            permutation_type="pairings",
            vectorized=True,
            n_resamples=np.inf,
            alternative="greater",
        )
        sizes = every.null_distribution.round(9)
        p_value = float(every.pvalue)
        needed = min((size for size in np.unique(sizes) if (sizes >= size).mean() < 0.05), default=np.nan)
    width = stats.norm.ppf(0.975) * np.sqrt(spread / (n - 3))
    ends = np.tanh(np.arctanh(estimate) + np.array([-width, width])) if abs(estimate) < 1 else (np.nan, np.nan)
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


def sides_by_query(values: pd.DataFrame) -> pd.DataFrame:
    """Pairs of the values of `splits.resttest.sides`: shift, model, measure, stratum, query_id, in, out.

    `in` is the mean over the models that had the cluster, and both are means over trainings.
    """
    both = {side: values["value"].where(values["side"] == side) for side in ("in", "out")}
    return values.assign(**both).groupby([*SYSTEM, *QUERY[2:]], sort=False)[["in", "out"]].mean().reset_index()


def standardised(values: pd.Series, by: list[pd.Series]) -> np.ndarray:
    """Values less their group's mean, in units of its standard deviation; 0 where a group has one value only.

    It makes R of models on different scales comparable, and takes from it what is between the groups.

    >>> standardised(pd.Series([1.0, 3, 100, 300]), [pd.Series(list("aabb"))]).tolist()
    [-1.0, 1.0, -1.0, 1.0]
    """
    groups = values.groupby(by)
    return np.nan_to_num(ratio(values - groups.transform("mean"), groups.transform("std", ddof=0)))


def with_r(pairs: pd.DataFrame, near: pd.DataFrame, control: str) -> pd.DataFrame:
    """Pairs with `R` under the dense model, and the same under `all shifts`, where R is standardised in each cluster.

    The pool leaves out the control and models that are not in every shift. There a query counts once: what it has in
    several shifts is averaged.
    """
    dense = near.loc[near["model"] == DENSE, ["shift", "query_id", "R"]]
    each = pairs.merge(dense, how="left", on=["shift", "query_id"])
    held = each[each["shift"] != control]
    everywhere = held.groupby("model")["shift"].transform("nunique") == held["shift"].nunique()
    alike = held.assign(R=standardised(held["R"], [held[name] for name in (*SYSTEM, "stratum")]))[everywhere]
    pooled = alike.groupby(["model", "measure", "query_id"], sort=False)[["in", "out", "R"]].mean().reset_index()
    return pd.concat([each, pooled.assign(shift=POOLED, stratum="")], ignore_index=True)


def in_bins(pairs: pd.DataFrame, n_bins: int, how: str) -> pd.DataFrame:
    """Pairs with `bin`, their interval of R within shift, model and measure, from 1 for the farthest queries."""
    return pairs.assign(bin=pairs.groupby(SYSTEM)["R"].transform(lambda r: indicators.bins(r, n_bins, how)[1] + 1))


def losses(pairs: pd.DataFrame, by: list[str], seed: int, n_boot: int) -> pd.DataFrame:
    """`effects` of pairs: RelLoss of the mean Avg In and the mean Out of each group."""
    sides = pairs[[*by, "query_id", "in", "out"]].melt([*by, "query_id"], var_name="side")
    return effects(sides, by, on="side", sides=("in", "out"), effect="loss", seed=seed, n_boot=n_boot)


def loss_by_r(pairs: pd.DataFrame, n_bins: int, seed: int, n_boot: int) -> pd.DataFrame:
    """RelLoss in intervals of R, by both ways to cut and both averagings (Lupart Figure 5 does not say which).

    Returns shift, model, measure, binning, averaging, bin (1 is the farthest; without queries it has no row), r_low and
    r_high (smallest and largest R in it), n_queries, n_dropped, loss, low, high. averaging: ratio of means, or mean of
    ratios, the mean of the queries' own RelLoss, without those whose Avg In is 0 (n_dropped).
    """
    by, parts = [*SYSTEM, "bin"], []
    for how in indicators.BINNINGS:
        numbered = in_bins(pairs, n_bins, how)
        numbered["value"] = indicators.per_query_loss(numbered["in"], numbered["out"])
        ends = numbered.groupby(by)["R"].agg(r_low="min", r_high="max", n_queries="size")
        every = losses(numbered, by, seed, n_boot)
        single = effects(numbered.dropna(subset="value"), by, seed=seed, n_boot=n_boot).rename(columns={"mean": "loss"})
        for averaging, found in (("ratio of means", every), ("mean of ratios", single)):
            kept = found.set_index(by)[["n_queries", "loss", "low", "high"]].rename(columns={"n_queries": "n_kept"})
            made = ends.join(kept).reset_index().assign(binning=how, averaging=averaging)
            parts.append(made.assign(n_dropped=made["n_queries"] - made["n_kept"].fillna(0).astype(int)))
    columns = ["binning", "averaging", "bin", "r_low", "r_high", "n_queries", "n_dropped", "loss", "low", "high"]
    return pd.concat(parts, ignore_index=True)[[*SYSTEM, *columns]]


def trend(pairs: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Kendall's tau within clusters of R with the loss; below 0: the farther, the higher the loss.

    Within clusters, as every cluster has a model and so a scale of R of its own. Returns shift, model, measure, loss,
    kendall, low, high, n_queries: `loss` is "difference" (Avg In - Out of all queries) or "relative" (over Avg In, of
    the queries where Avg In is above 0). NaN where no cluster has two of them.
    """
    rows = []
    for key, part in pairs.groupby(SYSTEM, sort=False):
        relative = indicators.per_query_loss(part["in"], part["out"])
        for name, loss in (("difference", (part["in"] - part["out"]).to_numpy()), ("relative", relative)):
            known = ~np.isnan(loss)
            some, turned = part[known], worse(key[2]) * loss[known]
            found = (np.nan, np.nan, np.nan)
            if some["stratum"].value_counts().max() > 1:
                tau, draws = prediction.within_draws(some["R"], turned, some["stratum"], seed, n_boot)
                found = (tau.item(), *prediction.defined_interval(draws.ravel()))
            rows.append((*key, name, *found, len(some)))
    return pd.DataFrame(rows, columns=[*SYSTEM, "loss", "kendall", "low", "high", "n_queries"])


def spread(numbered: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Middle half of the per-query losses in the farthest and the nearest interval, and their difference (Figure 6).

    `numbered`: pairs of `in_bins` with the column `loss`, of each query; none missing. Returns model, measure,
    farthest, nearest, difference, low, high: interquartile ranges of RelLoss; they stand for the variance, which a
    single query near Avg In = 0 would decide.
    """
    rows = []

    def drawn(loss: np.ndarray) -> np.ndarray:
        counts = np.concatenate(list(resamples(len(loss), seed, n_boot))).astype(int)
        return np.stack([np.repeat(loss, often) for often in counts])

    for key, part in numbered.groupby(["model", "measure"], sort=False):
        ends = [part.loc[part["bin"] == at, "loss"].to_numpy() for at in (part["bin"].min(), part["bin"].max())]
        far, near = (stats.iqr(loss) for loss in ends)
        draws = [stats.iqr(drawn(loss), axis=1) for loss in ends]
        rows.append((*key, far, near, far - near, *prediction.defined_interval(draws[0] - draws[1])))
    return pd.DataFrame(rows, columns=["model", "measure", "farthest", "nearest", "difference", "low", "high"])


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


def predict(pairs: pd.DataFrame, predictors: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Every predictor with every target, each turned so that a positive tau is what its makers expect.

    Targets: Out of every measure, and `loss`, Avg In - Out of the first. Expected: near, specific or confidently
    answered queries do well and lose little; long ones do badly. A predictor that is known for fewer than half of the
    queries is left out. Returns shift, model, target, predictor, space, and kendall, within (tau within clusters: over
    all queries scores of different models are mixed), smare, each with _low and _high, n_queries.
    """
    parts = []
    for (shift, model), part in pairs.groupby(["shift", "model"], sort=False):
        wanted, clusters = _targets(part)
        known = _predictors_of(predictors, shift, model, wanted.index).dropna(axis=1, thresh=len(wanted) // 2 + 1)
        signs = {name: worse(name.removeprefix("out ")) for name in wanted} | {"loss": -1}
        signs |= {"collection: length": -1} if "collection: length" in known else {}
        table = prediction.prediction_table(known, wanted, signs, seed, n_boot, clusters)
        parts.append(table.assign(shift=shift, model=model))
    table = pd.concat(parts, ignore_index=True)
    table[["space", "predictor"]] = table["predictor"].str.split(": ", expand=True)
    table.columns = table.columns.str.replace("kendall_within", "within")
    ends = [f"{name}{end}" for name in ("kendall", "within", "smare") for end in ("", "_low", "_high")]
    return table[["shift", "model", "target", "predictor", "space", *ends, "n_queries"]]


def _targets(part: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """What is predicted of one shift and model, by query_id, and the clusters; a loss is positive where it is worse."""
    of = {measure: some.set_index("query_id") for measure, some in part.groupby("measure", sort=False)}
    first = next(iter(of))
    loss = worse(first) * (of[first]["in"] - of[first]["out"])
    return pd.DataFrame({f"out {name}": some["out"] for name, some in of.items()} | {"loss": loss}), of[first][
        "stratum"
    ]


def _predictors_of(predictors: pd.DataFrame, shift: str, model: str, query_ids: pd.Index) -> pd.DataFrame:
    mine = predictors[(predictors["shift"] == shift) & (predictors["model"] == model)]
    return mine.drop(columns=["shift", "model"]).set_index("query_id").loc[query_ids]


def definition_gaps(pairs: pd.DataFrame, predictors: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Paired differences of tau (within clusters, with the loss) between definitions of far; `pairs` of one measure.

    Returns DataFrame[shift, model, first, second, tau_first, tau_second, difference, low, high]: second less first;
    own less dense space for R, max and density, and max, density and the nearest by words less R of the dense model.
    """
    compared = [(f"dense: {name}", f"own: {name}") for name in SPACE]
    compared += [("dense: R", name) for name in ("dense: max", "dense: density", "words: nearest_jaccard")]
    rows = []
    for (shift, model), part in pairs.groupby(["shift", "model"], sort=False):
        wanted, clusters = _targets(part)
        known, less = _predictors_of(predictors, shift, model, wanted.index), -wanted["loss"]
        for first, second in compared if less.nunique() > 1 else ():
            if known[second].notna().all():
                found = prediction.tau_difference(known[first], known[second], less, clusters, seed, n_boot)
                rows.append((shift, model, first, second, *found.values()))
    columns = ["shift", "model", "first", "second", "tau_first", "tau_second", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def difficulty(
    values: pd.DataFrame, near: pd.DataFrame, clusters: dict[str, tuple[str, ...]], seed: int, n_boot: int
) -> pd.DataFrame:
    """Does R predict the model without the cluster better than a model that had it? If not, it measures difficulty.

    One model stands against one model: tau within clusters of R with the value under each single model that had the
    cluster, averaged over these models. (The mean of several models orders queries with less noise than one of them.)

    `values`: of `splits.resttest.sides`, of one measure; `clusters`: shift → its clusters. Returns shift, model,
    tau_in, in_low, in_high, tau_out, out_low, out_high, difference, low, high, verdict, on the same resamples. The
    verdict is `distance` (it predicts Out, and Out better than in), `difficulty` (it predicts both, and no difference
    is shown), `undecided` (it predicts Out alone, and no difference is shown), `reversed` (near queries do worse), or
    `no prediction` (of Out).
    """
    rows, dense = [], near[near["model"] == DENSE].set_index(["shift", "query_id"])["R"]
    for (shift, model), part in values.groupby(["shift", "model"], sort=False):
        names = pd.Index(clusters[shift])
        place = (names.get_indexer(part["left_out"]) - names.get_indexer(part["stratum"])) % len(names)
        each = part.assign(place=place).groupby(["stratum", "query_id", "place"], sort=False)["value"].mean().unstack()
        target = worse(part["measure"].iloc[0]) * each.sort_index(axis=1).to_numpy()  # column 0: out; the others: in
        r, strata = dense[shift].loc[each.index.get_level_values("query_id")], each.index.get_level_values("stratum")
        tau, draws = prediction.within_draws(r.to_numpy(), target, strata, seed, n_boot)
        means = [(every[..., 0, 1:].mean(axis=-1), every[..., 0, 0]) for every in (tau, draws)]  # in and out
        a, b = (prediction.defined_interval(side) for side in means[1])
        gap = prediction.defined_interval(means[1][1] - means[1][0])
        verdict = "distance" if gap[0] > 0 else "difficulty" if a[0] > 0 else "undecided"
        verdict = verdict if b[0] > 0 else "reversed" if b[1] < 0 else "no prediction"
        tau_in, tau_out = map(float, means[0])
        rows.append((shift, model, tau_in, *a, tau_out, *b, tau_out - tau_in, *gap, verdict))
    sides = ["tau_in", "in_low", "in_high", "tau_out", "out_low", "out_high"]
    return pd.DataFrame(rows, columns=["shift", "model", *sides, "difference", "low", "high", "verdict"])


def findings(
    links: pd.DataFrame, trends: pd.DataFrame, far: pd.DataFrame, widths: pd.DataFrame, hard: pd.DataFrame, control: str
) -> pd.DataFrame:
    """The sentences of Lupart §5.2 as intervals: shift, model, finding, estimate, low, high, verdict.

    Tables of `link`, `trend` and `difficulty` (of one measure), `contrast` (of the farthest queries), `spread`. A
    correlation over clusters is one of several: it `holds` or is `contradicted` only with p_holm < .05.
    """
    rows = []

    def add(shift: str, model: str, finding: str, ends: tuple, kind: str) -> None:
        row = {"shift": shift, "model": model, "finding": finding} | dict(
            zip(("estimate", "low", "high"), ends, strict=True)
        )
        rows.append(row | {"verdict": verdict(kind, *ends[1:])})

    for row in links[
        (links["method"] == "Pearson") & (links["model"] != "BM25")
    ].itertuples():  # the paper's isn't trained
        add(POOLED, row.model, f"higher {row.indicator}, lower loss", (row.estimate, row.low, row.high), "below")
        rows[-1]["verdict"] = rows[-1]["verdict"] if row.p_holm < 0.05 else "not shown"
    for row in trends[(trends["shift"] == POOLED) & trends["model"].isin(FIRST_STAGE)].itertuples():
        finding = f"the farther, the higher the loss ({row.loss})"
        add(POOLED, row.model, finding, (row.kendall, row.low, row.high), "below")
    for row in far.itertuples():
        finding = f"farthest queries: {row.first} loses less than {row.second}"
        add(POOLED, row.first, finding, (row.difference, row.low, row.high), "below")
    for row in widths[widths["model"].isin(FIRST_STAGE)].itertuples():  # the paper: RR varies less far away, ASL more
        less = worse(row.measure) > 0
        finding = f"losses of {row.measure} vary {'less' if less else 'more'} far away"
        add(POOLED, row.model, finding, (row.difference, row.low, row.high), "below" if less else "above")
    for row in hard[hard["model"] == DENSE].itertuples():
        where = " even where clusters are random" if row.shift == control else ""
        add(row.shift, DENSE, f"R orders queries{where}", (row.tau_out, row.out_low, row.out_high), "above")
        better = "R orders queries better without the cluster in training than with it"
        add(row.shift, DENSE, better, (row.difference, row.low, row.high), "above")
    return pd.DataFrame(rows)


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

"""Query performance predictors: how well a query will do, guessed without judgements (Lupart §5.2
names the field).

Higher means an easier query. A dense model's scores are no log-likelihoods, for which NQC, WIG and
SMV were made, and scales differ between models: nothing normalises them here, and only ranks of
queries are compared, within one model and cluster, by Kendall's tau-b. Its intervals are of the
bootstrap over queries, or their units: every predictor, target and system sees the same resamples,
without the noise of training. Taught in notebooks/07_indicators.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np
import pandas as pd
from scipy import stats

from interextra.data.collection import Passages
from interextra.data.runs import RunFile
from interextra.measures.evaluate import worse
from interextra.measures.indicators import in_test_and_training, nearest_jaccard, query_jaccard
from interextra.models.architectures.dense import LABEL as DENSE
from interextra.splits.shift import Shift
from interextra.stats.bootstrap import interval, resamples, seed_of, simultaneous
from interextra.stats.correlation import kendall_draws, kendall_within
from interextra.stats.effects import Effects
from interextra.store import InputError, Store

PRE = ["avg_idf", "max_idf", "sum_scq", "length"]  # see `pre_retrieval`
POST = ["nqc", "wig", "smv", "top_score"]  # see `post_retrieval`
SPACE = ["R", "max", "density"]  # what a model's own query space says of a query
WORDS = ["query_jaccard", "nearest_jaccard"]  # what words say
SPACES = {"dense": SPACE, "own": SPACE, "words": WORDS, "collection": PRE, "run": POST}


def words(text: str) -> list[str]:
    r"""Lower-cased `\w+` tokens.

    >>> words("What's a Red-Fox?")
    ['what', 's', 'a', 'red', 'fox']
    """
    return re.findall(r"\w+", text.lower())


def pre_retrieval(queries: pd.DataFrame, passages: Passages) -> pd.DataFrame:
    """The predictors of PRE for each query (query_id, text), indexed by query_id; the passages are
    read once.

    avg_idf, max_idf: mean and largest ln(N / df) of its words; sum_scq: sum of (1 + ln cf) ln(1 + N
    / df), similarity of query and collection (Zhao et al., ECIR 2008); length: number of words,
    repeated ones too. Elsewhere a word that comes twice counts once, and one that no passage holds
    is left out; where none is left they are NaN.
    """
    tokens = queries.set_index("query_id")["text"].map(words)
    wanted, df, cf = set(chain.from_iterable(tokens)), Counter(), Counter()
    for _, texts in passages.batches(65_536):
        found = [[word for word in words(text) if word in wanted] for text in texts]
        cf.update(chain.from_iterable(found))
        df.update(chain.from_iterable(map(set, found)))
    if not df:
        raise InputError(f"term statistics: {len(passages)} passages hold no word of the queries")
    each = (
        tokens.map(lambda found: [word for word in dict.fromkeys(found) if word in df])
        .explode()
        .dropna()
    )
    holders, times = (each.map(dict(counts)).astype(float) for counts in (df, cf))
    idf = np.log(len(passages) / holders).groupby(level=0)
    scq = ((1 + np.log(times)) * np.log1p(len(passages) / holders)).groupby(level=0)
    table = pd.DataFrame(
        {"avg_idf": idf.mean(), "max_idf": idf.max(), "sum_scq": scq.sum()}
    ).reindex(tokens.index)
    return table.assign(length=tokens.map(len).astype(float))


def post_retrieval(run: RunFile, k: int) -> pd.DataFrame:
    """The predictors of POST for each query of a run from its first `k` scores (fewer where it has
    fewer), by query_id.

    nqc, normalised query commitment: their standard deviation (Shtok et al., TOIS 2012); wig,
    weighted information gain: mean of the first five (Zhou and Croft, SIGIR 2007); smv, score
    magnitude and variance: mean of
    |s ln(s / mean)| (Tao and Wu, CIKM 2014). NaN without passages, and of SMV where scores differ in sign or one is 0.
    """
    top = pd.DataFrame(
        {"query": run.query_codes, "score": run.scores.astype(np.float64), "rank": run.ranks}
    )
    top = top[top["rank"] <= k]
    by, five = (part.groupby("query")["score"] for part in (top, top[top["rank"] <= 5]))
    share = (top["score"] / by.transform("mean")).where(
        by.transform("min") * by.transform("max") > 0
    )
    smv = (top["score"] * np.log(share)).abs().groupby(top["query"]).mean()
    table = pd.DataFrame(
        {"nqc": by.std(ddof=0), "wig": five.mean(), "smv": smv, "top_score": by.max()}
    )
    return table.reindex(range(len(run.query_ids))).set_axis(
        pd.Index(run.query_ids, name="query_id")
    )


def spaces(near: pd.DataFrame, shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """shift, model, stratum, query_id, R, max, density: each test query in the query space of the
    model without it.

    `near`: shift, model, left_out and near, the Nearness cell. Means over trainings. Each has its
    own scale.
    """
    tables = (pd.read_parquet(store[cell] / "nearness.parquet") for cell in near["near"])
    return _of_out_models(near, shifts, store, tables)


def run_predictors(design: pd.DataFrame, shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """NQC, WIG, SMV and the top score of each test query in the run of the model without its
    cluster; as `spaces`.

    Of a reranker's run they see the passages that were reranked: below them stand BM25's.
    """
    tables = (
        post_retrieval(run.read(store, "held-out"), min(run.depth, run.rerank_depth))
        for run in design["run"]
    )
    return _of_out_models(design, shifts, store, tables)


def _of_out_models(
    frame: pd.DataFrame, shifts: Mapping[str, Shift], store: Store, tables: Iterable[pd.DataFrame]
) -> pd.DataFrame:
    """Of each row's table, by query_id, the test queries of the cluster that its model was trained
    without.
    """
    parts = []
    for row, table in zip(frame.itertuples(), tables, strict=True):
        strata = shifts[row.shift].strata(store)
        found = (
            table.loc[strata.index[strata == row.left_out]].rename_axis("query_id").reset_index()
        )
        parts.append(found.assign(shift=row.shift, model=row.model, stratum=row.left_out))
    return (
        pd.concat(parts)
        .groupby(["shift", "model", "stratum", "query_id"], sort=False)
        .mean()
        .reset_index()
    )


def word_indicators(shifts: Mapping[str, Shift], passages: Passages, store: Store) -> pd.DataFrame:
    """What can be said of a test query without a model: shift, query_id, and columns `words: …`,
    `collection: …`.

    `words`: Jaccard with the training queries of the model without its cluster, and with the
    nearest; see PRE.
    """
    parts = []
    for shift, cell in shifts.items():
        for name in cell.names:
            tests, train = in_test_and_training(cell, name, store)
            found = {
                f"words: {each.__name__}": each(tests["text"], train)
                for each in (query_jaccard, nearest_jaccard)
            }
            parts.append(tests[["text"]].assign(shift=shift, **found).reset_index())
    table = pd.concat(parts, ignore_index=True)
    before = pre_retrieval(table.drop_duplicates("query_id"), passages).add_prefix("collection: ")
    return table.drop(columns="text").join(before, on="query_id")


def predictor_table(near: pd.DataFrame, words: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """All predictors of the test queries: shift, model, query_id, and columns `SPACE: NAME`, see
    `SPACES`.

    Of `spaces`, `word_indicators` and `run_predictors`. `own` is missing where it is the dense
    model's space.
    """
    query = ["shift", "query_id"]
    dense = near[near["model"] == DENSE].set_index(query)[SPACE].add_prefix("dense: ")
    own = near[near["model"] != DENSE].set_index([*query, "model"])[SPACE].add_prefix("own: ")
    table = after.drop(columns="stratum").rename(columns={name: f"run: {name}" for name in POST})
    table = table.join(dense, on=query).join(own, on=[*query, "model"]).merge(words, on=query)
    ordered = [f"{space}: {name}" for space, names in SPACES.items() for name in names]
    return table[["shift", "model", "query_id", *ordered]]


def resampled(values: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """How often each query of `values` (query_id, unit) is in each resample of units: float32,
    query_id × resample.

    The names of the units are part of the seed.

    >>> values = pd.DataFrame({"query_id": list("pqr"), "unit": list("aab")})
    >>> resampled(values, seed=0, n_boot=4).T.drop_duplicates("r").to_numpy().tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 0.0]]
    """
    units = values.drop_duplicates("query_id").set_index("query_id")["unit"]
    names, codes = np.unique(units.astype(str), return_inverse=True)
    drawn = np.concatenate(list(resamples(len(names), seed_of(seed, names), n_boot)))[:, codes]
    return pd.DataFrame(np.ascontiguousarray(drawn.T), units.index)


def prediction_table(
    predictors: pd.DataFrame, targets: pd.DataFrame, groups: pd.Series, w: np.ndarray, **labels: str
) -> Effects:
    """Kendall's tau-b of every predictor with every target, with percentile intervals.

    `predictors`, `targets`: a column each, indexed by the same query_ids in one order; a query
    without a value of a predictor is dropped for this predictor, targets have one for all.
    `groups`: a label a query, e.g. its cluster. Returns labels, target, name (of the predictor),
    kendall and within (groups, see `kendall_within`), each with _low and _high, n_queries (used),
    and the draws of `within`. NaN where tau is not defined.
    """
    rows, drawn = [], []
    for predictor, values in predictors.items():
        used = values.notna()
        x, y, weights = values[used].to_numpy(float), targets[used].to_numpy(float), w[used]
        over_all, (within, of_within) = (
            kendall_draws(x, y, weights),
            kendall_within(x, y, groups[used], weights),
        )
        for t, target in enumerate(targets):
            tau, row = (
                stats.kendalltau(x, y[:, t]).statistic,
                labels | {"target": target, "name": predictor},
            )
            drawn.append(of_within[:, 0, t])
            for name, value, draws in (
                ("kendall", tau, over_all[:, 0, t]),
                ("within", within[0, t], drawn[-1]),
            ):
                low, high = interval(draws)
                row |= {name: float(value), f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"n_queries": len(x)})
    return Effects.of(pd.DataFrame(rows), [*labels, "target", "name"], ["within"], drawn)


def predict(wide: pd.DataFrame, predictors: pd.DataFrame, w: pd.DataFrame) -> Effects:
    """`prediction_table` of each shift and model, which are its labels.

    `wide`: shift, model, measure, stratum, query_id, in, out; `predictors`: of `predictor_table`;
    `w`: of `resampled`. Targets: Out of every measure, and `loss`, Avg In - Out of the first. Loss,
    length and measures of which lower is better are turned round first, so that tau is positive if
    near, specific or confidently answered queries do well and lose little, and long ones do badly.
    A predictor that is known for fewer than half of the queries is left out. Groups are clusters:
    over all queries scores of different models are mixed.
    """
    parts = []
    for (shift, model), part in wide.groupby(["shift", "model"], sort=False):
        of = {
            measure: some.set_index("query_id")
            for measure, some in part.groupby("measure", sort=False)
        }
        first = next(iter(of))
        wanted = pd.DataFrame(
            {f"out {name}": worse(name) * some["out"] for name, some in of.items()}
        )
        wanted["loss"] = worse(first) * (of[first]["out"] - of[first]["in"])
        mine = predictors[
            (predictors["shift"] == shift) & (predictors["model"] == model)
        ].set_index("query_id")
        known = (
            mine.loc[wanted.index]
            .drop(columns=["shift", "model"])
            .dropna(axis=1, thresh=len(wanted) // 2 + 1)
        )
        turned = known * np.where(known.columns == "collection: length", -1, 1)
        weights = w.loc[wanted.index].to_numpy()
        parts.append(
            prediction_table(
                turned, wanted, of[first]["stratum"], weights, shift=shift, model=model
            )
        )
    return pd.concat(parts, ignore_index=True)


def ranking(predicted: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Predictors by their mean tau over shifts (and systems), and whether the best is shown to be
    the best.

    `predicted`: rows of `predict`, with their draws; `by`: what tells the rankings apart, target or
    target and model. Returns these, name, within, low, high (simultaneous over the predictors of a
    ranking), n (shifts and systems in a mean), better_than (how many others this one exceeds by
    simultaneous intervals of the differences of all pairs). A predictor that some of them lack is
    not compared; where none orders anything, all stand there, undefined.
    """
    parts = []
    for key, part in predicted.groupby(list(by), sort=False):
        n = part.groupby("name", sort=False)["within"].count()
        if (
            not n.any() and predicted["within"].notna().any()
        ):  # too few queries, or all of one value
            continue
        table = (
            part[part["name"].isin(n.index[n == n.max()])]
            .groupby("name", sort=False)[["within"]]
            .mean()
        )
        drawn = np.stack([part[part["name"] == name].drawn().mean(axis=0) for name in table.index])
        table["low"], table["high"] = simultaneous(table["within"], drawn)
        first, second = np.nonzero(~np.eye(len(table), dtype=bool))
        gaps = table["within"].to_numpy()[first] - table["within"].to_numpy()[second]
        above = simultaneous(gaps, drawn[first] - drawn[second])[0] > 0
        table = table.assign(**dict(zip(by, key, strict=True)), n=n.max())
        table["better_than"] = np.bincount(first[above], minlength=len(table))
        parts.append(table.sort_values("within", ascending=False).reset_index())
    columns = [*by, "name", "within", "low", "high", "n", "better_than"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)

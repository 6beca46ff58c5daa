"""Query performance predictors: how well a query will do, guessed without judgements.

Lupart §5.2 names the field. Higher means an easier query. A dense model's scores are no
log-likelihoods, for which NQC, WIG and SMV were made, and scales differ between models: nothing
normalises them here, and only ranks of queries are compared, within one model and cluster, by
Kendall's tau-b. Its intervals are of the bootstrap over queries, or their units: every predictor,
target and system sees the same resamples, without the noise of training. Taught in
notebooks/07_indicators.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

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
    r"""Return the lower-cased `\w+` tokens of a text.

    Examples
    --------
    >>> words("What's a Red-Fox?")
    ['what', 's', 'a', 'red', 'fox']
    """
    return re.findall(r"\w+", text.lower())


def pre_retrieval(queries: pd.DataFrame, passages: Passages) -> pd.DataFrame:
    """Return the predictors of PRE for each query; the passages are read once.

    Parameters
    ----------
    queries
        query_id, text.
    passages
        The collection.

    Returns
    -------
    Indexed by query_id: avg_idf, max_idf, mean and largest ln(N / df) of the words of a query;
    sum_scq, sum of (1 + ln cf) ln(1 + N / df), the similarity of query and collection (Zhao et al.,
    ECIR 2008); length, the number of words, repeated ones too. Elsewhere a word that comes twice
    counts once, and one that no passage holds is left out; where none is left they are NaN.

    Raises
    ------
    InputError
        No passage holds a word of the queries.
    """
    tokens = queries.set_index("query_id")["text"].map(words)
    wanted = set(tokens.explode())
    n_passages_with, n_occurrences = _term_statistics(wanted, passages)
    if not n_passages_with:
        raise InputError(f"term statistics: {len(passages)} passages hold no word of the queries")
    different_words = tokens.map(dict.fromkeys).map(list)
    word = different_words.explode()  # a row per query and word
    word = word[word.isin(list(n_passages_with))]
    rarity = len(passages) / word.map(n_passages_with)
    idf = np.log(rarity).groupby(level=0)
    frequency = 1 + np.log(word.map(n_occurrences))
    scq = (frequency * np.log1p(rarity)).groupby(level=0)
    table = pd.DataFrame(
        {
            "avg_idf": idf.mean(),
            "max_idf": idf.max(),
            "sum_scq": scq.sum(),
        },
        tokens.index,
    )
    table["length"] = tokens.map(len).astype(float)
    return table


def _term_statistics(wanted: set[str], passages: Passages) -> tuple[Counter[str], Counter[str]]:
    """Count the passages that hold each wanted word, and its occurrences in all of them."""
    n_passages_with: Counter[str] = Counter()
    n_occurrences: Counter[str] = Counter()
    for _, texts in passages.batches(65_536):
        for text in texts:
            found = [word for word in words(text) if word in wanted]
            n_occurrences.update(found)
            n_passages_with.update(set(found))
    return n_passages_with, n_occurrences


def post_retrieval(run: RunFile, k: int) -> pd.DataFrame:
    """Return the predictors of POST for each query of a run, from its first `k` scores.

    Fewer where it has fewer.

    Returns
    -------
    Indexed by query_id: nqc, normalised query commitment, the standard deviation of the scores
    (Shtok et al., TOIS 2012); wig, weighted information gain, the mean of the first five (Zhou and
    Croft, SIGIR 2007); smv, score magnitude and variance, the mean of |s ln(s / mean)| (Tao and Wu,
    CIKM 2014); top_score. NaN without passages, and of SMV where scores differ in sign or one is 0.
    """
    rows = pd.DataFrame({"query": run.query_codes, "score": run.scores})
    rows = rows.astype({"score": np.float64})
    top = rows[run.ranks <= k]
    first_five = rows[run.ranks <= min(k, 5)]
    scores = top.groupby("query")["score"]
    lowest = scores.transform("min")
    highest = scores.transform("max")
    same_sign = lowest * highest > 0
    score = top["score"]
    share = (score / scores.transform("mean")).where(same_sign)
    magnitude = (score * np.log(share)).abs()
    table = pd.DataFrame(
        {
            "nqc": scores.std(ddof=0),
            "wig": first_five.groupby("query")["score"].mean(),
            "smv": magnitude.groupby(top["query"]).mean(),
            "top_score": scores.max(),
        }
    )
    query_ids = pd.Index(run.query_ids, name="query_id")
    return table.reindex(range(len(query_ids))).set_axis(query_ids)


def spaces(near: pd.DataFrame, shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """Return where each test query lies in the query space of the model without it.

    Parameters
    ----------
    near
        shift, model, left_out and near, the Nearness cell.
    shifts
        The shifts by name.
    store
        Where the cells are.

    Returns
    -------
    shift, model, stratum, query_id, R, max, density: means over trainings. Each model has its own
    scale.
    """
    paths = [store[cell] / "nearness.parquet" for cell in near["near"]]
    tables = [pd.read_parquet(path) for path in paths]
    return _of_models_without(near, tables, shifts, store)


def run_predictors(design: pd.DataFrame, shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """Return POST of each test query in the run of the model without its cluster; as `spaces`.

    Of a reranker's run they see the passages that were reranked: below them stand BM25's.
    """
    tables = []
    for run in design["run"]:
        depth = min(run.depth, run.rerank_depth)
        held_out = run.read(store, "held-out")
        tables.append(post_retrieval(held_out, depth))
    return _of_models_without(design, tables, shifts, store)


def _of_models_without(
    models: pd.DataFrame,
    tables: Iterable[pd.DataFrame],
    shifts: Mapping[str, Shift],
    store: Store,
) -> pd.DataFrame:
    """Return of each model's table the test queries of the cluster that it was trained without.

    `tables`: one per row of `models`, indexed by query_id.
    """
    parts = []
    for row, table in zip(models.itertuples(), tables, strict=True):
        strata = shifts[row.shift].strata(store)
        query_ids = strata.index[strata == row.left_out]
        part = table.loc[query_ids].rename_axis("query_id").reset_index()
        labels = {"shift": row.shift, "model": row.model, "stratum": row.left_out}
        parts.append(part.assign(**labels))
    query = ["shift", "model", "stratum", "query_id"]
    trainings = pd.concat(parts).groupby(query, sort=False)
    return trainings.mean().reset_index()


def word_indicators(shifts: Mapping[str, Shift], passages: Passages, store: Store) -> pd.DataFrame:
    """Return what can be said of each test query without a model.

    Returns
    -------
    shift, query_id; columns `words: …`, Jaccard with the training queries of the model without the
    query's cluster, and with the nearest of them; columns `collection: …`, see PRE.
    """
    parts = []
    for shift, cell in shifts.items():
        for cluster in cell.names:
            test, train_texts = in_test_and_training(cell, cluster, store)
            part = test[["text"]].assign(shift=shift)
            part["words: query_jaccard"] = query_jaccard(test["text"], train_texts)
            part["words: nearest_jaccard"] = nearest_jaccard(test["text"], train_texts)
            parts.append(part.reset_index())
    table = pd.concat(parts, ignore_index=True)
    before = pre_retrieval(table.drop_duplicates("query_id"), passages)
    before = before.add_prefix("collection: ")
    return table.drop(columns="text").join(before, on="query_id")


def predictor_table(near: pd.DataFrame, words: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    """Return all predictors of the test queries: shift, model, query_id, columns `SPACE: NAME`.

    See `SPACES`. `own` is missing where it is the dense model's space.

    Parameters
    ----------
    near, words, after
        Of `spaces`, `word_indicators` and `run_predictors`.
    """
    query = ["shift", "query_id"]
    query_and_model = [*query, "model"]
    is_dense = near["model"] == DENSE
    dense = near[is_dense].set_index(query)[SPACE]
    own = near[~is_dense].set_index(query_and_model)[SPACE]
    table = after.set_index(query_and_model)[POST].add_prefix("run: ")
    table = table.join(own.add_prefix("own: ")).reset_index()
    table = table.join(dense.add_prefix("dense: "), on=query)
    table = table.merge(words, on=query)
    columns = ["shift", "model", "query_id"]
    for space, names in SPACES.items():
        columns += [f"{space}: {name}" for name in names]
    return table[columns]


def resampled(values: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Return how often each query is in each resample of units: float32, query_id × resample.

    `values`: query_id, unit. The names of the units are part of the seed.

    Examples
    --------
    >>> values = pd.DataFrame({"query_id": list("pqr"), "unit": list("aab")})
    >>> resampled(values, seed=0, n_boot=4).T.drop_duplicates("r").to_numpy().tolist()
    [[1.0, 1.0, 1.0], [2.0, 2.0, 0.0]]
    """
    units = values.drop_duplicates("query_id").set_index("query_id")["unit"]
    names, codes = np.unique(units.astype(str), return_inverse=True)
    blocks = resamples(len(names), seed_of(seed, names), n_boot)
    counts_of_units = np.concatenate(list(blocks))
    counts = counts_of_units[:, codes]
    return pd.DataFrame(np.ascontiguousarray(counts.T), units.index)


def prediction_table(
    predictors: pd.DataFrame,
    targets: pd.DataFrame,
    groups: pd.Series,
    counts: np.ndarray,
    **labels: str,
) -> Effects:
    """Return Kendall's tau-b of every predictor with every target, with percentile intervals.

    Parameters
    ----------
    predictors, targets
        A column each, indexed by the same query_ids in one order; a query without a value of a
        predictor is dropped for this predictor, targets have one for all.
    groups
        A label per query, e.g. its cluster.
    counts
        How often each query is in each resample, float32[n, n_boot].
    **labels
        Columns that name the rows.

    Returns
    -------
    labels, target, name (of the predictor), kendall and within (groups, see `kendall_within`), each
    with _low and _high, n_queries (used), and the draws of `within`. NaN where tau is not defined.
    """
    rows, drawn = [], []
    for predictor, values in predictors.items():
        used = values.notna()
        x = values[used].to_numpy(float)
        y = targets[used].to_numpy(float)
        used_groups = groups[used]
        used_counts = counts[used]
        over_all = kendall_draws(x, y, used_counts)
        taus, within_groups = kendall_within(x, y, used_groups, used_counts)
        for column, target in enumerate(targets):
            tau = stats.kendalltau(x, y[:, column]).statistic
            draws = within_groups[:, 0, column]
            row = {
                **labels,
                "target": target,
                "name": predictor,
                **_estimate("kendall", tau, over_all[:, 0, column]),
                **_estimate("within", taus[0, column], draws),
                "n_queries": len(x),
            }
            rows.append(row)
            drawn.append(draws)
    table = pd.DataFrame(rows)
    return Effects.of(table, [*labels, "target", "name"], ["within"], drawn)


def _estimate(name: str, value: float, draws: np.ndarray) -> dict[str, float]:
    """Return the columns of an estimate and the ends of its interval."""
    low, high = interval(draws)
    return {
        name: float(value),
        f"{name}_low": low,
        f"{name}_high": high,
    }


def predict(wide: pd.DataFrame, predictors: pd.DataFrame, counts: pd.DataFrame) -> Effects:
    """Return the `prediction_table` of each shift and model, which are its labels.

    Targets are Out of every measure, and `loss`, Avg In - Out of the first. Loss, length and
    measures of which lower is better are turned round first, so that tau is positive if near,
    specific or confidently answered queries do well and lose little, and long ones do badly. A
    predictor that is known for fewer than half of the queries is left out. Groups are clusters:
    over all queries scores of different models are mixed.

    Parameters
    ----------
    wide
        shift, model, measure, stratum, query_id, in, out.
    predictors
        Of `predictor_table`.
    counts
        Of `resampled`.
    """
    by_model = predictors.groupby(["shift", "model"])
    parts = []
    for key, part in wide.groupby(["shift", "model"], sort=False):
        shift, model = key
        targets, strata = _targets(part.set_index("query_id"))
        query_ids = targets.index
        known = by_model.get_group(key).set_index("query_id")
        known = known.loc[query_ids].drop(columns=["shift", "model"])
        is_known = known.notna().mean() > 0.5
        known = known.loc[:, is_known]
        if "collection: length" in known:
            known["collection: length"] *= -1
        of_queries = counts.loc[query_ids].to_numpy()
        table = prediction_table(known, targets, strata, of_queries, shift=shift, model=model)
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _targets(wide: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the targets of one shift and model, by query_id, and the stratum of each query."""
    first = wide["measure"].iloc[0]
    targets = {}
    for measure, values in wide.groupby("measure", sort=False):
        name = f"out {measure}"
        targets[name] = worse(measure) * values["out"]
    values = wide[wide["measure"] == first]
    change = values["out"] - values["in"]
    targets["loss"] = worse(first) * change
    return pd.DataFrame(targets), values["stratum"]


def ranking(predicted: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Rank predictors by their mean tau over shifts (and systems).

    It shows whether the best is shown to be the best. A predictor that some shifts or systems lack
    is not compared; where none orders anything, all stand there, undefined.

    Parameters
    ----------
    predicted
        Rows of `predict`, with their draws.
    by
        What tells the rankings apart: target, or target and model.

    Returns
    -------
    The columns `by`, name, within, low, high (simultaneous over the predictors of a ranking), n
    (shifts and systems in a mean), better_than (how many others this one exceeds by simultaneous
    intervals of the differences of all pairs).
    """
    columns = [*by, "name", "within", "low", "high", "n", "better_than"]
    orders_any = predicted["within"].notna().any()
    parts = []
    for key, part in predicted.groupby(list(by), sort=False):
        n_known = part.groupby("name", sort=False)["within"].count()
        n = n_known.max()
        if n == 0 and orders_any:
            continue  # too few queries, or all of one value
        everywhere = n_known.index[n_known == n]
        is_compared = part["name"].isin(everywhere)
        table = _ranked(part[is_compared])
        labels = dict(zip(by, key, strict=True))
        parts.append(table.assign(**labels, n=n))
    if not parts:
        return pd.DataFrame(columns=columns)
    return pd.concat(parts, ignore_index=True)[columns]


def _ranked(predicted: pd.DataFrame) -> pd.DataFrame:
    """Return name, within, low, high, better_than of the predictors of one ranking, best first."""
    by_name = predicted.groupby("name", sort=False)
    table = by_name[["within"]].mean()
    mean_draws = []
    for _, of_predictor in by_name:
        draws_of_shifts = of_predictor.drawn()
        mean_draws.append(draws_of_shifts.mean(axis=0))
    draws = np.stack(mean_draws)
    means = table["within"].to_numpy()
    table["low"], table["high"] = simultaneous(means, draws)
    is_pair = ~np.eye(len(table), dtype=bool)
    one, other = np.nonzero(is_pair)
    gaps = means[one] - means[other]
    gap_draws = draws[one] - draws[other]
    lowest_gaps, _ = simultaneous(gaps, gap_draws)
    exceeding = one[lowest_gaps > 0]
    table["better_than"] = np.bincount(exceeding, minlength=len(table))
    return table.sort_values("within", ascending=False).reset_index()

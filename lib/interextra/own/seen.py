"""Whether the model before fine-tuning has seen the training queries.

A checkpoint that was already fine-tuned on them has seen both halves of a split: the comparison
then finds no loss, whether or not fine-tuning extrapolates.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.own.sentences import ends
from interextra.own.split_folder import SplitFolder
from interextra.splits import attributes
from interextra.splits.shift import Shift
from interextra.stats.bootstrap import interval, resampled_means, seed_of, stretched, varies
from interextra.stats.formatting import with_unit
from interextra.stats.tests import LEAST_QUERIES
from interextra.store import InputError

LEVEL = 0.01  # of the one-sided test
POWER = 0.8
FEW = 5  # queries of a kind that are compared by themselves; rarer kinds are one
MANY_RELEVANT = 3  # relevant passages from which their number makes no other kind
# bounds of BM25's value: nothing found, little, much, all (but for rounding)
DIFFICULTIES = (-np.inf, 0.0, 0.5, 1 - 1e-9, np.inf)
ROUNDING = 1e-12  # of a difference of means
VERDICT = "This checkpoint has seen these queries: no conclusion"
NOT_TESTED = "Whether the model as given has seen the training queries is not tested"


class Seen(NamedTuple):
    """The value of a model on training queries minus that on held-out ones, at equal baselines."""

    difference: float = float("nan")  # NaN: not tested
    low: float = float("nan")  # of the plain 95 % interval
    high: float = float("nan")
    p_value: float = float("nan")  # one-sided
    detects: float = float("nan")  # smallest difference found with the power POWER
    n_training: int = 0
    n_held_out: int = 0
    why_not: str = ""  # why it is not tested

    @property
    def is_shown(self) -> bool:
        """Whether the model is shown to have seen the training queries."""
        return self.p_value < LEVEL

    def sentence(self, measure: str) -> str:
        """Return what was found, in one sentence; the first words are the answer."""
        if self.why_not:
            return f"{NOT_TESTED}: {self.why_not}."
        points = with_unit(self.difference, "points")
        interval = ends(self.low, self.high)
        difference = f"{points} (95 % CI {interval})"
        numbers = (
            f"before fine-tuning, its {measure} differs by {difference} between "
            f"{self.n_training:,} training queries and {self.n_held_out:,} held-out queries of the "
            "same kinds, at equal values of BM25"
        )
        if self.is_shown:
            return f"{VERDICT} ({numbers}; one-sided p = {self.p_value:.2g})."
        return (
            f"That the model as given has seen the training queries is not shown: {numbers} "
            f"(one-sided p = {self.p_value:.2g}, tested at {LEVEL:g}; "
            f"{100 * self.detects:.1f} points would be found with 80 % power)."
        )


class Given(NamedTuple):
    """A model before fine-tuning, measured on the queries of a split."""

    values: pd.DataFrame  # query_id, measure, value
    seen: Seen


def has_seen(
    folder: SplitFolder,
    model: pd.DataFrame,
    baseline: pd.DataFrame,
    measure: str,
    seed: int = 0,
    n_boot: int = 10_000,
) -> Seen:
    """Test whether a model is better on training queries than on held-out queries.

    Held-out queries are those of the gate, which train nothing. Of the queries of a side with the
    same answer one counts, as they are found together. They are compared within their kind: the
    left-out kind of a shift, else the question word, and the number of relevant passages. Kinds
    count by their held-out queries. What the baseline's value (in DIFFICULTIES) lets expect is
    taken out first, by least squares within the kinds of a side: a plain lead would call a model
    that finds little better wherever the baseline is worse. The p-value is of a permutation test
    within the kinds; the interval is of the bootstrap.

    Parameters
    ----------
    folder : SplitFolder
        A folder, `with_training_sample`.
    model, baseline : DataFrame
        Values of both on its queries: query_id, measure, value. Of the training queries there may
        be none.
    measure : str
        The measure that is compared.
    seed, n_boot : int
        Of the permutations and the bootstrap, and how many of each.
    """
    if isinstance(folder.split, Shift) and not folder.gate:
        return Seen(why_not="its held-out queries are of the training split; name a --gate-split")
    is_asked = model["measure"] == measure
    both = model[is_asked].merge(baseline, on=["query_id", "measure"])
    both = both.set_index("query_id")
    is_relevant = folder.qrels["relevance"] >= 1
    answers = folder.qrels[is_relevant].groupby("query_id")["doc_id"].min()
    queries = pd.DataFrame(
        {
            "value": both["value_x"],
            "baseline": both["value_y"],
            "kind": _kinds(folder).reindex(both.index),
            "answer": answers.reindex(both.index),
            "is_training": both.index.isin(folder.sampled_ids),
        }
    )
    is_held_out = queries.index.isin(folder.gate_ids)
    is_on_a_side = queries["is_training"] | is_held_out
    has_answer = queries["answer"].notna()
    return compared(queries[is_on_a_side & has_answer], seed, n_boot)


def _kinds(folder: SplitFolder) -> pd.Series:
    """Return the kind of each query, by query_id."""
    queries = folder.queries.set_index("query_id", drop=False)
    is_relevant = folder.qrels["relevance"] >= 1
    counts = folder.qrels.loc[is_relevant, "query_id"].value_counts()
    n_relevant = counts.reindex(queries.index, fill_value=0)
    capped = n_relevant.clip(upper=MANY_RELEVANT).astype(str)
    return _labels(folder, queries) + ", relevant: " + capped


def _labels(folder: SplitFolder, queries: pd.DataFrame) -> pd.Series:
    """Return the left-out kind of each query of a shift, else its question word."""
    split = folder.split
    attribute = split.by if isinstance(split, Shift) else None
    if isinstance(attribute, str) and folder.strata is not None:
        pool = split.pool.frame()
        labels = pd.Series(attributes.labels(pool, attribute), pool["query_id"])
        of_training = labels.drop(folder.strata.index, errors="ignore")
        every_label = pd.concat([folder.strata, of_training])
        return every_label.reindex(queries.index, fill_value="").astype(str)
    try:
        question_words = attributes.labels(queries, "wh-words")
    except InputError:  # no query has a question word
        return pd.Series("", queries.index)
    return pd.Series(question_words, queries.index).astype(str)


def compared(queries: pd.DataFrame, seed: int, n_boot: int) -> Seen:
    """Compare the values on both sides within each kind, and average over the kinds.

    Parameters
    ----------
    queries : DataFrame
        value, baseline, kind, answer, is_training; by query_id.
    seed, n_boot : int
        See `has_seen`.
    """
    queries = queries.sort_index().drop_duplicates(["is_training", "answer"])
    kinds = _kinds_of(queries)
    why_not = _why_not(queries, kinds)
    if why_not:
        return Seen(why_not=why_not)
    return _averaged(kinds, seed, n_boot)


def _share_above(permuted: np.ndarray, difference: float) -> float:
    """Return the p-value of a difference: the observed one counts as a permutation, too."""
    n_above = (permuted >= difference - ROUNDING).sum()
    return float((n_above + 1) / (len(permuted) + 1))


class _Kind(NamedTuple):
    """The adjusted values on the queries of a kind."""

    training: pd.Series
    held_out: pd.Series

    @property
    def difference(self) -> float:
        """Return by how much the mean is higher on training queries."""
        return self.training.mean() - self.held_out.mean()

    def resampled(self, seed: int, n_boot: int) -> np.ndarray:
        """Return the difference on resamples of the queries: float[n_boot]."""
        of_training = _resampled(self.training, seed, n_boot)
        return of_training - _resampled(self.held_out, seed, n_boot)

    def permuted(self, seed: int, n_boot: int) -> np.ndarray:
        """Return the difference if chance had said which queries train: float[n_boot]."""
        both = pd.concat([self.training, self.held_out])
        random = np.random.default_rng(seed_of(seed, both.index))
        values = np.tile(both.to_numpy(), (n_boot, 1))
        random.permuted(values, axis=1, out=values)
        training, held_out = np.split(values, [len(self.training)], axis=1)
        return training.mean(axis=1) - held_out.mean(axis=1)


def _averaged(kinds: list[_Kind], seed: int, n_boot: int) -> Seen:
    """Return the difference between the sides, averaged over the kinds, and what chance makes."""
    n_training = sum(len(kind.training) for kind in kinds)
    n_held_out = sum(len(kind.held_out) for kind in kinds)
    n_free = min(n_training, n_held_out) - len(kinds)  # degrees of freedom of the smaller side
    difference = float(_average(kinds, [kind.difference for kind in kinds]))
    resampled = _average(kinds, [kind.resampled(seed, n_boot) for kind in kinds])
    draws = stretched(resampled, difference, n_free)
    if not varies(draws):
        return Seen(why_not="all queries have the same value")
    permuted = _average(kinds, [kind.permuted(seed, n_boot) for kind in kinds])
    low, high = interval(draws)
    z_values = stats.norm.ppf([1 - LEVEL, POWER])
    return Seen(
        difference=difference,
        low=low,
        high=high,
        p_value=_share_above(permuted, difference),
        detects=float(z_values.sum() * draws.std()),
        n_training=n_training,
        n_held_out=n_held_out,
    )


def _average(kinds: list[_Kind], values: list[Any]) -> np.ndarray:
    """Return the average of the values of kinds, by their shares of the held-out queries."""
    sizes = np.array([len(kind.held_out) for kind in kinds])
    weights = sizes / sizes.sum()
    return weights @ np.stack(values)


def _why_not(queries: pd.DataFrame, kinds: list[_Kind]) -> str:
    """Return why queries and their kinds cannot be compared, "" where they can."""
    n_training = queries["is_training"].sum()
    if not n_training:
        return "there is no run of the model as given on training.tsv"
    if min(n_training, len(queries) - n_training) < LEAST_QUERIES:
        return f"fewer than {LEAST_QUERIES} training or held-out queries with different answers"
    if not kinds:
        return "training and held-out queries share no kind of question"
    return ""


def _kinds_of(queries: pd.DataFrame) -> list[_Kind]:
    """Return the adjusted values by kind; kinds that are rare are one, if it is large enough."""
    kind = queries["kind"].mask(_is_rare(queries), "")
    queries = queries.assign(kind=kind)
    large = queries[~_is_rare(queries)]
    if large.empty:
        return []
    kinds = []
    adjusted = large.assign(value=_adjusted(large))
    for _, same in adjusted.groupby("kind"):
        is_training = same["is_training"]
        values = same["value"]
        kinds.append(_Kind(values[is_training], values[~is_training]))
    return kinds


def _is_rare(queries: pd.DataFrame) -> pd.Series:
    """Return whether each query is of a kind with fewer than FEW queries on one side."""
    of_kind = queries.groupby("kind")["is_training"]
    n_training = of_kind.transform("sum")
    n_held_out = of_kind.transform("size") - n_training
    return np.minimum(n_training, n_held_out) < FEW


def _adjusted(queries: pd.DataFrame) -> pd.Series:
    """Return the values less what the difficulty for the baseline lets expect, by query_id.

    What it lets expect is estimated by least squares within the kinds of each side.
    """
    difficulty = pd.cut(queries["baseline"], DIFFICULTIES, labels=False)
    levels = pd.get_dummies(difficulty, dtype=float)
    values = queries["value"]
    table = levels.assign(value=values)
    cells = [queries["kind"], queries["is_training"]]
    within = table - table.groupby(cells).transform("mean")
    values_within = within.pop("value")
    effects, *_ = np.linalg.lstsq(within, values_within)
    return values - levels @ effects


def _resampled(values: pd.Series, seed: int, n_boot: int) -> np.ndarray:
    """Return the mean of values on resamples of their queries: float[n_boot]."""
    units = np.arange(len(values))
    own_seed = seed_of(seed, values.index)
    [means] = resampled_means([values.to_numpy()], units, own_seed, n_boot)
    return means

"""Whether the model before fine-tuning has seen the training queries.

A checkpoint that was already fine-tuned on them has seen both halves of a split: the comparison
then finds no loss, whether or not fine-tuning extrapolates.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.own.split_folder import SplitFolder
from interextra.splits import attributes
from interextra.splits.shift import Shift
from interextra.stats.bootstrap import interval, resampled_means, seed_of, stretched, varies
from interextra.stats.tests import LEAST_QUERIES
from interextra.store import InputError

LEVEL = 0.01  # of the one-sided test
POWER = 0.8
FEW = 5  # queries of a kind that are compared by themselves; rarer kinds are one
MANY_RELEVANT = 3  # relevant passages from which their number makes no other kind
VERDICT = "This checkpoint has seen these queries: no conclusion"
NOT_TESTED = "Whether the model as given has seen the training queries is not tested"


class Seen(NamedTuple):
    """The lead of a model over a baseline on training queries, minus that on held-out queries."""

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
        ends = f"{100 * self.low:+.1f} to {100 * self.high:+.1f}"
        points = f"{100 * self.difference:+.1f} points (95 % CI {ends})"
        numbers = (
            f"before fine-tuning, its lead over BM25 in {measure} differs by {points} between "
            f"{self.n_training:,} training queries and {self.n_held_out:,} held-out queries of the "
            "same kinds"
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
    """Test whether a model leads more on training queries than on held-out queries.

    Held-out queries are those of the gate, which train nothing. Each query is paired with itself in
    the baseline. Queries are compared within their kind: the left-out kind of a shift, else the
    question word, and the number of relevant passages; kinds count by their held-out queries. The
    interval and the p-value are of the bootstrap over the queries of each kind.

    Parameters
    ----------
    folder : SplitFolder
        A folder, `with_training_sample`.
    model, baseline : DataFrame
        Values of both on its queries: query_id, measure, value. Of the training queries there may
        be none.
    measure : str
        The measure that is compared.
    """
    if isinstance(folder.split, Shift) and not folder.gate:
        return Seen(why_not="its held-out queries are of the training split; name a --gate-split")
    leads = _leads(model, baseline, measure)
    kinds = _kinds(folder)
    is_training = leads.index.isin(folder.sampled_ids)
    training = leads[is_training]
    held_out = leads[leads.index.isin(folder.gate_ids)]
    if training.empty:
        return Seen(why_not="there is no run of the model as given on training.tsv")
    if min(len(training), len(held_out)) < LEAST_QUERIES:
        return Seen(why_not=f"fewer than {LEAST_QUERIES} training or held-out queries")
    return _compared(training, held_out, kinds, seed, n_boot)


def _leads(model: pd.DataFrame, baseline: pd.DataFrame, measure: str) -> pd.Series:
    """Return the lead of the model on each query that both were measured on, by query_id."""
    is_asked = model["measure"] == measure
    both = model[is_asked].merge(baseline, on=["query_id", "measure"])
    leads = both["value_x"] - both["value_y"]
    return leads.set_axis(both["query_id"])


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
        return pd.Series(attributes.labels(queries, "wh-words"), queries.index).astype(str)
    except InputError:  # no query has a question word
        return pd.Series("", queries.index)


class _Kind(NamedTuple):
    """The leads on the queries of a kind."""

    training: pd.Series
    held_out: pd.Series

    @property
    def difference(self) -> float:
        """Return by how much the mean lead is higher on training queries."""
        return self.training.mean() - self.held_out.mean()

    @property
    def is_large(self) -> bool:
        """Whether it can be compared by itself."""
        smaller = min(len(self.training), len(self.held_out))
        return smaller >= FEW

    def drawn(self, seed: int, n_boot: int) -> np.ndarray:
        """Return the difference on resamples of the queries: float[n_boot]."""
        of_training = _drawn(self.training, seed, n_boot)
        return of_training - _drawn(self.held_out, seed, n_boot)


def _kinds_of(
    training: pd.Series,
    held_out: pd.Series,
    kinds: pd.Series,
) -> list[_Kind]:
    """Return the leads by kind; kinds that are rare on one side are one, if it is large enough."""
    of_training = dict(list(training.groupby(kinds[training.index].to_numpy())))
    of_held_out = dict(list(held_out.groupby(kinds[held_out.index].to_numpy())))
    none = training.head(0)
    large, rare = [], []
    for name in sorted(of_training.keys() | of_held_out.keys()):
        kind = _Kind(of_training.get(name, none), of_held_out.get(name, none))
        if kind.is_large:
            large.append(kind)
        else:
            rare.append(kind)
    if rare:
        sides = zip(*rare, strict=True)
        rest = _Kind(*map(pd.concat, sides))
        large += [rest] if rest.is_large else []
    return large


def _compared(
    training: pd.Series,
    held_out: pd.Series,
    kinds: pd.Series,
    seed: int,
    n_boot: int,
) -> Seen:
    """Compare the leads of both groups within each kind, and average over the kinds."""
    groups = _kinds_of(training, held_out, kinds)
    if not groups:
        return Seen(why_not="training and held-out queries share no kind of question")
    n_training = sum(len(kind.training) for kind in groups)
    n_held_out = sum(len(kind.held_out) for kind in groups)
    weights = np.array([len(kind.held_out) for kind in groups]) / n_held_out
    difference = float(weights @ [kind.difference for kind in groups])
    drawn = np.stack([kind.drawn(seed, n_boot) for kind in groups])
    n_free = min(n_training, n_held_out) - len(groups)  # degrees of freedom of the smaller side
    draws = stretched(weights @ drawn, difference, n_free)
    if not varies(draws):
        return Seen(why_not="all queries have the same lead")
    low, high = interval(draws)
    n_below = (draws <= 0).sum()
    z_values = stats.norm.ppf([1 - LEVEL, POWER])
    return Seen(
        difference=difference,
        low=low,
        high=high,
        p_value=float((n_below + 1) / (n_boot + 1)),
        detects=float(z_values.sum() * draws.std()),
        n_training=n_training,
        n_held_out=n_held_out,
    )


def _drawn(leads: pd.Series, seed: int, n_boot: int) -> np.ndarray:
    """Return the mean of leads on resamples of their queries: float[n_boot]."""
    units = np.arange(len(leads))
    own_seed = seed_of(seed, leads.index)
    [means] = resampled_means([leads.to_numpy()], units, own_seed, n_boot)
    return means

"""Indicators of how far test queries lie from training, and the loss at each distance (Lupart §5.2,
Figures 3 to 6).

By words: the weighted Jaccard similarity. By a model: R(q, T), the mean score of a query with the
training queries, the nearest and the k nearest, on a scale of the model's own. Taught in
notebooks/07_indicators.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.stats import rankdata

from interextra.data.queries import Part, Queries
from interextra.models.model import Model, OfModel, load_model
from interextra.splits.shift import Shift
from interextra.stats.bootstrap import ratio
from interextra.stats.correlation import correlation_test
from interextra.stats.tests import holm
from interextra.store import InputError, Store, offenders

BINNINGS = ("width", "quantile")


class Nearness(OfModel):
    """`nearness` of each test query in its model's own query space, by query_id: nearness.parquet.

    Only of models that encode a query by itself (dense, SPLADE, ColBERT).
    """

    model: Model
    queries: tuple[Queries | Part, ...]
    k: int

    def title(self) -> str:
        return f"nearness · {', '.join(part.name for part in self.queries)} · {self.model.title()}"

    def seconds(self) -> float:
        return 1 + (self.model.train.size() + sum(part.size() for part in self.queries)) / 2000

    def build(self, folder: Path, store: Store) -> None:
        test = pd.concat([part.frame(store) for part in self.queries], ignore_index=True)
        train = self.model.train.frame(store)["text"].tolist()
        scores = load_model(store[self.model] / "weights").query_similarities(
            test["text"].tolist(), train
        )
        nearness(scores, self.k).set_index(test["query_id"]).to_parquet(folder / "nearness.parquet")


def jaccard(source: Sequence[str], target: Sequence[str]) -> float:
    """Weighted Jaccard of the words of two sets of texts: sum of min(S_k, T_k) / sum of max(S_k,
    T_k) (Lupart §5.2).

    S_k and T_k are word k's share of all words of its set; words are text.lower().split(), as in
    the release.
    """
    s, t = (Counter(" ".join(texts).lower().split()) for texts in (source, target))
    n_s, n_t = s.total(), t.total()
    shared = sum(min(count / n_s, t[word] / n_t) for word, count in s.items())
    return shared / (
        2 - shared
    )  # each set's shares add up to 1, so the sum of max is 2 - the sum of min


def jaccard_table(shifts: Mapping[str, Shift], store: Store) -> pd.DataFrame:
    """Weighted Jaccard of each cluster with the others of its shift (Lupart §5.2, Figure 3 and
    footnote 6).

    Returns shift, stratum, jaccard (of all its queries with all queries of the others, as in the
    paper), jaccard_eval_only (of its test queries with the training queries of the model without
    it, which the footnote calls the formal way), n_words (different words of the cluster),
    n_queries (for test), n_train (of the model without it).
    """
    rows = []
    for shift, cell in shifts.items():
        texts, label = (
            cell.pool.frame()["text"],
            pd.read_parquet(store[cell] / "labels.parquet")["cluster"],
        )
        for name in cell.names:
            tests, train = in_test_and_training(cell, name, store)
            inside, others = texts[label == name], texts[(label != name) & (label != "")]
            both = jaccard(inside, others), jaccard(tests["text"], train)
            rows.append(
                (
                    shift,
                    name,
                    *both,
                    len(set(" ".join(inside).lower().split())),
                    len(tests),
                    len(train),
                )
            )
    columns = [
        "shift",
        "stratum",
        "jaccard",
        "jaccard_eval_only",
        "n_words",
        "n_queries",
        "n_train",
    ]
    return pd.DataFrame(rows, columns=columns).round(
        {"jaccard": 12}
    )  # J(S, T) = J(T, S) up to the order of summation


def in_test_and_training(
    shift: Shift, cluster: str, store: Store
) -> tuple[pd.DataFrame, pd.Series]:
    """Test queries of a cluster, indexed by query_id, and the texts that the model without it is
    trained on.
    """
    strata, train = (
        shift.strata(store),
        Part(of=shift, part=f"without-{cluster}").frame(store)["text"],
    )
    return shift.pool.frame().set_index("query_id").loc[strata.index[strata == cluster]], train


def query_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """`jaccard([q], train)` of each query, float64[n_queries]; small for a large set, and growing
    with q's length.
    """
    q, t = _counts(queries, train)
    total = t.sum(axis=0)
    q.data = np.minimum(
        q.data / np.repeat(q.sum(axis=1), np.diff(q.indptr)), (total / total.sum())[q.indices]
    )
    shared = q.sum(axis=1)
    return shared / (2 - shared)


def nearest_jaccard(queries: Sequence[str], train: Sequence[str]) -> np.ndarray:
    """The largest Jaccard similarity of each query's set of words with any training query's,
    float64[n_queries].
    """
    q, t = _counts(queries, train)
    sizes, postings, found = (
        np.diff(t.indptr),
        t.T.tocsr(),
        [],
    )  # postings: word -> training queries that hold it
    for start, end in pairwise(q.indptr):
        holders = [
            postings.indices[slice(*postings.indptr[word : word + 2])]
            for word in q.indices[start:end]
        ]
        shared = np.bincount(
            np.concatenate(holders), minlength=len(sizes)
        )  # words in common with each
        found.append((shared / (end - start + sizes - shared)).max())
    return np.array(found)


def mean_similarity(test: np.ndarray, train: np.ndarray) -> np.ndarray:
    """R(q, T) of each test query: its mean score with the training queries (Lupart §5.2, equation
    1).

    Scores are inner products, so the mean over T is the product with T's mean vector: O(n d) and
    not O(n_test n_train). Of float[n_test, d] and float[n_train, d]; float64[n_test], accumulated
    in float64.
    """
    return np.asarray(test, np.float64) @ np.mean(train, axis=0, dtype=np.float64)


def nearness(scores: Iterable[np.ndarray], k: int) -> pd.DataFrame:
    """R (equation 1), max and density (mean of the k largest, or of all) of scores with training; a
    row a test query.

    Of blocks float[b, n_train] in the order of the test queries, as a model's `query_similarities`
    gives them.
    """
    parts = []
    for block in scores:
        least = max(0, block.shape[1] - k)
        top = np.partition(block, least, axis=1)[:, least:]
        columns = [
            block.mean(axis=1, dtype=np.float64),
            top.max(axis=1),
            top.mean(axis=1, dtype=np.float64),
        ]
        parts.append(np.column_stack(columns))
    return pd.DataFrame(np.concatenate(parts), columns=["R", "max", "density"])


def bins(values: np.ndarray, n: int, how: str) -> np.ndarray:
    """Number of the interval of each value, int64[n_values] from 0; all values equal: one interval.

    how : "width": n intervals of one width, of which some may be empty, each with its low edge, the
    last with both;
        "quantile": as many values in each as ties allow. The paper does not say.
    """
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        raise InputError("bins: a value is NaN or infinite; leave its query out")
    if how == "width" and np.ptp(values):
        inner = np.linspace(values.min(), values.max(), n + 1)[1:-1]
        return np.searchsorted(inner, values, side="right")
    slots = ((rankdata(values) - 0.5) * n / len(values)).astype(
        np.int64
    )  # by mean rank, which ties share
    return np.unique(slots, return_inverse=True)[1]


def change_per_query(avg_in: np.ndarray, out: np.ndarray) -> np.ndarray:
    """Out / Avg In - 1 of each query, float64[n]; NaN where Avg In is 0, positive for a loss where
    lower is better.
    """
    return ratio(out, avg_in) - 1


def link(points: pd.DataFrame, by: str) -> pd.DataFrame:
    """`correlation_test` of the effects with an indicator over clusters, a row a model, kind and
    method.

    `points`: shift, model, delta and the column `by`; a row a model and cluster. p_holm is over the
    models of a kind and method. Clusters of one shift share their training queries, and shifts
    differ in much else: kind `pooled` takes all clusters as if they were independent, `within
    shifts` only what is between clusters of one shift (shifts where the indicator is the same for
    all are left out). What leaves fewer than four independent points has no row.
    """
    rows = []
    for model, every in points.groupby("model", sort=False):
        moving = every[every.groupby("shift")[by].transform(np.ptp) > 1e-9]
        kinds = {"pooled": (every, None)}
        kinds |= (
            {"within shifts": (moving, moving["shift"])} if every["shift"].nunique() > 1 else {}
        )
        for kind, (part, within) in kinds.items():
            free = len(part) - (0 if within is None else within.nunique() - 1)
            varied = free > 3 and np.ptp(part[by]) and np.ptp(part["delta"])
            for method in ("Pearson", "Spearman") if varied else ():
                labels = {
                    "model": model,
                    "indicator": by,
                    "kind": kind,
                    "method": method,
                    "n": len(part),
                }
                rows.append(labels | correlation_test(part[by], part["delta"], method, within))
    columns = [
        "model",
        "indicator",
        "kind",
        "method",
        "n",
        "estimate",
        "low",
        "high",
        "p_value",
        "p_holm",
        "needed",
    ]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(
        p_holm=table.groupby(["kind", "method"])["p_value"].transform(lambda p: holm(p))
    )


def z_scores(values: pd.Series, by: list[pd.Series]) -> np.ndarray:
    """Values less their group's mean, in units of its standard deviation; 0 where a group has one
    value only.
    """
    groups = values.groupby(by)
    return np.nan_to_num(ratio(values - groups.transform("mean"), groups.transform("std", ddof=0)))


def _counts(
    queries: Sequence[str], train: Sequence[str]
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Word counts float64[n_queries, v] and [n_train, v] over one vocabulary."""
    from sklearn.feature_extraction.text import CountVectorizer

    if bad := [row for row, text in enumerate(queries) if not text.split()]:
        raise InputError(f"queries: {len(bad)} without words (rows {offenders(bad)}); drop them")
    counter = CountVectorizer(analyzer=lambda text: text.lower().split(), dtype=np.float64)
    made = sparse.csr_array(counter.fit_transform([*queries, *train]))
    return made[: len(queries)], made[len(queries) :]

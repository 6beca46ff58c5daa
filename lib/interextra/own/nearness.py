"""How near test queries lie to the training queries, beside training queries held out at random.

By words alone, without a model: clean queries may still be of the kinds that training had, or of
others.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from interextra.data.words import lower_words

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Queries of a side that are looked at, at most, and their pairs with training queries; of more
# queries those that lie evenly among them
MOST_QUERIES = 2_000
MOST_PAIRS = 100_000_000
AT_ONCE = 2**22  # cosines in memory at once
DIGITS = 6  # of a cosine, so that the same words are as near whatever rounding makes of them


class Nearness(NamedTuple):
    """Cosines of queries to their nearest training query, of test queries and of held-out ones.

    A training query is held out by itself: its nearest is another training query. Where there is
    no other one, the values of held-out queries are NaN.
    """

    test_mean: float
    test_median: float
    n_test: int  # test queries that were looked at
    held_out_mean: float
    held_out_median: float
    n_held_out: int  # training queries that were looked at
    # share of the test queries that are at least as near as the median held-out query
    share_as_near: float

    def record(self) -> dict[str, float | int | None]:
        """Return the values for a program, with None for NaN."""
        return {name: value if value == value else None for name, value in self._asdict().items()}

    def sentence(self) -> str:
        """Return what was found, without a verdict: what is far enough is for the reader."""
        found = (
            "By TF-IDF of words, the mean cosine of a test query to its nearest training query is "
            f"{self.test_mean:.2f} (median {self.test_median:.2f}; {self.n_test:,} test queries)"
        )
        if not self.n_held_out:
            return f"{found}."
        percent = 100 * self.share_as_near
        return (
            f"{found}; of a training query to its nearest other one it is {self.held_out_mean:.2f} "
            f"(median {self.held_out_median:.2f}; {self.n_held_out:,} training queries, each held "
            f"out). {percent:.0f} % of the test queries are at least as near as the median "
            "training query; of queries like those of training, about half would be."
        )


def nearness(train: Sequence[str], test: Sequence[str]) -> Nearness:
    """Compare the nearest training queries of test queries and of held-out training queries.

    Words are weighted by all queries of both sides (sublinear TF-IDF), so that a word that no
    training query has makes a test query less similar to all of them, as in a held-out query a
    word of its own does.

    Parameters
    ----------
    train, test : sequence of str
        All queries of both sides, one of them with a word. Of many, some are looked at, see
        `MOST_QUERIES`.

    Examples
    --------
    >>> train = ["red fox", "red fox den", "oak leaf"]
    >>> near = nearness(train, ["red fox", "tax law"])
    >>> near.test_mean, near.n_held_out
    (0.5, 3)
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, dtype=np.float32, analyzer=lower_words)
    weights = vectorizer.fit_transform([*train, *test])
    n_train = len(train)
    by_word = weights[:n_train].T.tocsr()
    most = max(1, min(MOST_QUERIES, MOST_PAIRS // n_train))
    test_rows = n_train + evenly(len(test), most)
    cosines = _highest(weights, test_rows, by_word)
    held_out_rows = evenly(n_train, most) if n_train > 1 else np.array([], int)
    held_out = _highest(weights, held_out_rows, by_word)
    held_out_mean, held_out_median = _mean_and_median(held_out)
    test_mean, test_median = _mean_and_median(cosines)
    is_as_near = cosines >= held_out_median
    return Nearness(
        test_mean=test_mean,
        test_median=test_median,
        n_test=len(cosines),
        held_out_mean=held_out_mean,
        held_out_median=held_out_median,
        n_held_out=len(held_out),
        share_as_near=float(is_as_near.mean()) if len(held_out) else float("nan"),
    )


def _mean_and_median(cosines: np.ndarray) -> tuple[float, float]:
    """Return mean and median; NaN of nothing."""
    if not len(cosines):
        return float("nan"), float("nan")
    return float(cosines.mean()), float(np.median(cosines))


def evenly(n: int, most: int) -> np.ndarray:
    """Return at most so many rows that lie evenly among `n`."""
    return np.linspace(0, n - 1, min(n, most)).astype(int)


def _highest(weights: "csr_matrix", rows: np.ndarray, by_word: Any) -> np.ndarray:
    """Return the highest cosine of each row to a training query other than itself, float32[rows].

    Parameters
    ----------
    weights : csr_matrix[queries, words]
        Of length 1; those of the training queries come first.
    rows : int[n]
    by_word : csr_matrix[words, training queries]
    """
    n_train = by_word.shape[1]
    n_at_once = max(1, AT_ONCE // n_train)
    blocks = [np.array([], np.float32)]
    for start in range(0, len(rows), n_at_once):
        block_rows = rows[start : start + n_at_once]
        cosines = (weights[block_rows] @ by_word).tocsr()
        n_of_row = np.diff(cosines.indptr)
        is_itself = cosines.indices == np.repeat(block_rows, n_of_row)
        cosines.data[is_itself] = 0
        blocks.append(cosines.max(axis=1).toarray().ravel())
    return np.concatenate(blocks).round(DIGITS)

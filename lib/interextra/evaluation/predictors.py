"""Query performance predictors: how well a query will do, guessed without judgements (Lupart §5.2 names the field).

Before retrieval from statistics of the collection, and after it from a run's scores. Higher means an easier query.
Scores of different models are on different scales, and a dense model's scores are no log-likelihoods, for which NQC,
WIG and SMV were made: compare only ranks of queries, within one model and one cluster.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.data.runs import Run

PRE = {
    "avg_idf": "mean of ln(N / df) over the query's words",
    "max_idf": "largest ln(N / df)",
    "sum_scq": "sum of (1 + ln cf) ln(1 + N / df): similarity of query and collection (Zhao et al., ECIR 2008)",
    "avg_scq": "mean of the same",
    "length": "number of words, repeated ones too",
}
POST = {
    "nqc": "normalised query commitment: standard deviation of the top scores (Shtok et al., TOIS 2012)",
    "wig": "weighted information gain: mean of the top scores (Zhou and Croft, SIGIR 2007)",
    "smv": "score magnitude and variance: mean of |s ln(s / mean)| (Tao and Wu, CIKM 2014)",
    "top_score": "the highest score",
}
NORMALISE = ("corpus", "mean", "none")
_WORD = re.compile(r"\w+")


class Batched(Protocol):
    """What statistics are taken of: `Passages`, or anything that gives its texts in batches."""

    def batches(self, size: int) -> Iterable[tuple[int, list[str]]]: ...


@dataclass(frozen=True)
class TermStatistics:
    """Counts of a collection; words are runs of letters, digits and _ of the lower-cased text."""

    df: dict[str, int]  # passages that hold the word; a word that none holds is not in it
    cf: dict[str, int]  # times that the word comes
    n_passages: int
    n_words: int  # of the whole collection, whichever words were counted


def words(text: str) -> list[str]:
    r"""Lower-cased `\w+` tokens.

    >>> words("What's a Red-Fox?")
    ['what', 's', 'a', 'red', 'fox']
    """
    return _WORD.findall(text.lower())


def term_statistics(passages: Batched, queries: Iterable[str] | None = None, batch: int = 65_536) -> TermStatistics:
    """Count words in one pass over the passages, in memory bounded by a batch and the words counted.

    Parameters
    ----------
    passages : e.g. `collection.passages`.
    queries : texts whose words alone are counted, as predictors need no others; None: all words (some millions in a
        web collection).
    """
    wanted = None if queries is None else set(chain.from_iterable(map(words, queries)))
    df, cf, n_passages, n_words = Counter(), Counter(), 0, 0
    for _, texts in passages.batches(batch):
        found = [words(text) for text in texts]
        n_passages, n_words = n_passages + len(found), n_words + sum(map(len, found))
        for total, tokens in ((cf, found), (df, map(set, found))):
            counts = Counter(chain.from_iterable(tokens))
            total.update(counts if wanted is None else {word: counts[word] for word in wanted & counts.keys()})
    if not n_words:
        raise InputError(f"term statistics: no word in {n_passages} passages; give the passages of a collection")
    return TermStatistics(dict(df), dict(cf), n_passages, n_words)


def pre_retrieval(queries: pd.DataFrame, statistics: TermStatistics) -> pd.DataFrame:
    """The predictors of PRE for each query, indexed by query_id.

    Parameters
    ----------
    queries : query_id, text.
    statistics : of `term_statistics`, over these queries' words or all.

    A word that comes twice in a query counts once, but for the length; a word that no passage holds is left out. Where
    none is left all but the length are NaN.

    >>> statistics = TermStatistics({"red": 4, "fox": 1}, {"red": 4, "fox": 1}, n_passages=4, n_words=9)
    >>> table = pre_retrieval(pd.DataFrame({"query_id": ["q"], "text": ["red fox zyx"]}), statistics)
    >>> table.loc["q"].round(3).tolist()  # ln(4/4), ln(4/1); (1 + ln 4) ln 2, ln 5
    [0.693, 1.386, 3.263, 1.632, 3.0]
    """
    tokens = [words(text) for text in queries["text"]]
    known = [[word for word in dict.fromkeys(found) if word in statistics.df] for found in tokens]
    sizes = np.array([len(found) for found in known], np.int64)
    flat = list(chain.from_iterable(known))
    df, cf = (np.array([counts[word] for word in flat], float) for counts in (statistics.df, statistics.cf))
    idf = np.log(statistics.n_passages / df)
    scq = (1 + np.log(cf)) * np.log1p(statistics.n_passages / df)
    some, starts = sizes > 0, (np.cumsum(sizes) - sizes)[sizes > 0]
    columns = {name: np.full(len(tokens), np.nan) for name in PRE}
    if some.any():
        columns["max_idf"][some] = np.maximum.reduceat(idf, starts)
        columns["avg_idf"][some] = np.add.reduceat(idf, starts) / sizes[some]
        columns["sum_scq"][some] = np.add.reduceat(scq, starts)
        columns["avg_scq"] = columns["sum_scq"] / np.maximum(sizes, 1)
    columns["length"] = np.array([len(found) for found in tokens], float)
    return pd.DataFrame(columns, index=pd.Index(queries["query_id"], name="query_id"))


def corpus_scores(queries: pd.DataFrame, statistics: TermStatistics) -> pd.Series:
    """ln p(q | collection) of each query, sum of ln(cf / n_words) over its words: the score that NQC, WIG and SMV
    compare with where a run's scores are query log-likelihoods. Unknown words are left out; NaN where all are.
    """
    known = [[statistics.cf[word] for word in words(text) if word in statistics.cf] for text in queries["text"]]
    values = [float(np.log(np.array(found) / statistics.n_words).sum()) if found else np.nan for found in known]
    return pd.Series(values, pd.Index(queries["query_id"], name="query_id"), name="corpus_score")


def nqc(run: Run, *, normalise: str, k: int = 100, corpus: pd.Series | None = None) -> pd.Series:
    """Standard deviation of the top k scores (divisor k), over a normaliser; by query_id (Shtok et al. 2012).

    Parameters
    ----------
    normalise : what divides it: "corpus" (the paper's): the absolute score of the whole collection taken as one
        passage; "mean": the absolute mean of the top k; "none": 1. NaN where it is 0.
    k : passages; fewer where a query has fewer. A query without passages has NaN.
    corpus : score of the collection by query_id, e.g. `corpus_scores`; needed by "corpus" and by no other.

    >>> run = Run.from_frame(pd.DataFrame({"query_id": "q", "doc_id": list("abc"), "score": [5.0, 3.0, 9.0]}))
    >>> nqc(run, normalise="none", k=2).to_dict()  # 9 and 5
    {'q': 2.0}
    >>> nqc(run, normalise="corpus", k=2, corpus=pd.Series({"q": -4.0})).to_dict()
    {'q': 0.5}
    """
    top = _top(run, k)
    return top.series("nqc", np.sqrt(top.mean((top.scores - top.spread(top.means)) ** 2)) / top.by(normalise, corpus))


def wig(run: Run, *, k: int = 5, lengths: pd.Series | None = None, corpus: pd.Series | None = None) -> pd.Series:
    """Mean of the top k scores less the collection's score, over sqrt(query length); by query_id (Zhou and Croft 2007).

    Without `corpus` (by query_id) nothing is taken off, without `lengths` (words, by query_id) nothing is divided: the
    paper has both, for log-likelihoods that grow with the query; a dense model's scores do not. The paper's k is 5.

    >>> run = Run.from_frame(pd.DataFrame({"query_id": "q", "doc_id": list("abc"), "score": [5.0, 3.0, 9.0]}))
    >>> wig(run, k=2).to_dict(), wig(run, k=2, lengths=pd.Series({"q": 4}), corpus=pd.Series({"q": 1.0})).to_dict()
    ({'q': 7.0}, {'q': 3.0})
    """
    top = _top(run, k)
    gain = top.means - (0 if corpus is None else top.given(corpus, "corpus"))
    return top.series("wig", gain if lengths is None else _over(gain, np.sqrt(top.given(lengths, "lengths"))))


def smv(run: Run, *, normalise: str, k: int = 100, corpus: pd.Series | None = None) -> pd.Series:
    """Mean of |s ln(s / mean)| over the top k scores s, over a normaliser; by query_id (Tao and Wu 2014).

    `normalise`, `k` and `corpus` as in `nqc`. The logarithm needs scores of one sign: NaN where signs differ or a
    score is 0.

    >>> run = Run.from_frame(pd.DataFrame({"query_id": "q", "doc_id": list("ab"), "score": [3.0, 1.0]}))
    >>> smv(run, normalise="none").round(4).to_dict()  # (3 ln 1.5 + 1 ln 2) / 2
    {'q': 0.9548}
    """
    top = _top(run, k)
    ratio = _over(top.scores, top.spread(top.means))
    ratio[top.spread(top.mean(np.sign(top.scores)) ** 2) < 1] = np.nan
    return top.series("smv", top.mean(np.abs(top.scores * np.log(ratio))) / top.by(normalise, corpus))


def top_score(run: Run) -> pd.Series:
    """The highest score of each query, by query_id; NaN for a query without passages."""
    top = _top(run, 1)
    return top.series("top_score", top.means)


def post_retrieval(
    run: Run, *, normalise: str, k: int = 100, wig_k: int = 5, lengths: pd.Series | None = None,
    corpus: pd.Series | None = None,
) -> pd.DataFrame:  # fmt: skip
    """The predictors of POST for each query of a run, indexed by query_id; see `nqc`, `wig`, `smv`, `top_score`.

    `corpus` goes to WIG too; NQC and SMV take it under normalise="corpus" alone.
    """
    switches = {"normalise": normalise, "k": k, "corpus": corpus if normalise == "corpus" else None}
    made = [nqc(run, **switches), wig(run, k=wig_k, lengths=lengths, corpus=corpus), smv(run, **switches)]
    return pd.concat([*made, top_score(run)], axis=1)


@dataclass(frozen=True)
class _Top:
    """The first k rows of each query: `scores` float64[m], `query` int[m] their query, `counts` rows a query."""

    query_ids: Sequence[str]
    query: np.ndarray
    scores: np.ndarray
    counts: np.ndarray

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean of values[m] per query."""
        return _over(np.bincount(self.query, values, minlength=len(self.counts)), self.counts)

    @property
    def means(self) -> np.ndarray:
        return self.mean(self.scores)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return values[self.query]

    def series(self, name: str, values: np.ndarray) -> pd.Series:
        return pd.Series(values, pd.Index(self.query_ids, name="query_id"), name=name)

    def given(self, values: pd.Series, name: str) -> np.ndarray:
        """Values given by query_id, in the order of the run."""
        if not values.index.is_unique or len(missing := pd.Index(self.query_ids).difference(values.index, sort=False)):
            what = f"no value for query {offenders(missing)}" if values.index.is_unique else "a query_id given twice"
            raise InputError(f"{name}: {what}; give one value for each query of the run")
        return values.reindex(self.query_ids).to_numpy(float)

    def by(self, normalise: str, corpus: pd.Series | None) -> np.ndarray:
        """What a predictor is divided by; NaN for 0."""
        if normalise not in NORMALISE:
            raise InputError(f"unknown normalise {normalise!r}: one of {', '.join(NORMALISE)}")
        if (normalise == "corpus") != (corpus is not None):
            raise InputError(f"normalise={normalise!r}: corpus scores belong to normalise='corpus' and to it alone")
        if normalise == "none":
            return np.ones(len(self.counts))
        by = np.abs(self.means if normalise == "mean" else self.given(corpus, "corpus"))
        return np.where(by > 0, by, np.nan)


def _top(run: Run, k: int) -> _Top:
    if k < 1:
        raise InputError(f"k must be at least 1, not {k}")
    kept = run.ranks <= k
    query, scores = run.query_codes[kept], run.scores[kept].astype(np.float64)
    if not np.isfinite(scores).all():
        bad = [run.query_ids[code] for code in np.unique(query[~np.isfinite(scores)])]
        raise InputError(f"run: infinite scores for query {offenders(bad)}; a predictor needs finite ones")
    return _Top(run.query_ids, query, scores, np.minimum(np.diff(run.offsets), k))


def _over(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """values / by, NaN where `by` is 0."""
    return np.divide(values, by, out=np.full(len(values), np.nan), where=by != 0)

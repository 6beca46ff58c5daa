"""Measures per query, for all queries at once; names and values are those of ir_measures and
trec_eval.

Linear gain; unjudged and negative relevance are not relevant; queries without relevant passages or
missing from the run count 0 (ASL: its bound), those without qrels are ignored. Ties are trec_eval's
for every measure (score descending, then doc_id descending); ir_measures takes doc_id ascending for
RR@k and Judged@k, so they differ where scores tie.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow.compute as pc

from interextra.data.medquad import entity_units
from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile, strings
from interextra.data.trec import refuse_repeated
from interextra.models.model import names_of
from interextra.models.search.run import Ranking
from interextra.store import Cell, InputError, Store, offenders

KNOWN = (
    "nDCG, nDCG@k, RR, RR@k, R@k, P@k, AP, AP@k, Success@k, Bpref, infAP, Judged, Judged@k, ASL@k"
)
_MEASURED: dict[
    tuple, pd.DataFrame
] = {}  # (key of a run, test set, names) → `per_query`: read once a process


def per_query(run: RunFile, qrels: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Value of each measure, a column, for each query of the qrels, indexed by query_id in their
    order.

    Of qrels with columns query_id, doc_id, relevance and names of ir_measures, e.g. `R(rel=2)@100`,
    and ASL@k. InputError: unknown measure, empty qrels, relevance not whole, a pair judged twice,
    an id that became a float.

    >>> qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["d2"], "relevance": [1]})
    >>> run = RunFile.from_arrays(["q"], ["d1", "d2"], np.array([[0, 1]]), np.array([[2.0, 1.0]]))
    >>> per_query(run, qrels, ["RR@10", "ASL@100"]).loc["q"].tolist()
    [0.5, 1.0]
    """
    functions = {name: _parse(name) for name in names}
    hits = _hits(run, qrels)
    return pd.DataFrame(
        {name: function(hits) for name, function in functions.items()}, index=hits.query_ids
    )


def check(names: Sequence[str]) -> None:
    """InputError for a measure that is unknown, or for none at all."""
    if not names:
        raise InputError(f"no measure given; known are {KNOWN}")
    for name in names:
        _parse(name)


def values(
    design: pd.DataFrame, store: Store, names: Sequence[str], strata: pd.Series | None = None
) -> pd.DataFrame:
    """Tidy values of the runs of a design: a row a run, query and measure; what `stats.effects`
    takes.

    design : a row a run: its labels, and the Run cell itself in the column `run`; other cells are
    left out. Where the
        column `skip_own` is true, the passage with the id of its query does not count: BEIR's way
        with queries that are passages themselves, and wrong where ids are mere numbers.
    names : of measures, as `per_query` takes them. One that is `settled` for a run has no row.
    strata : label of each query, by query_id: what a bootstrap draws within.

    Returns the labels of the design, test_set, query_id, unit, stratum (with `strata`), measure,
    value, by run, test set and measure; queries in the order of the qrels of their test set.
    `unit`: see `entity_units`.
    """
    check(names)
    skipping, found = design.get("skip_own", pd.Series(False, design.index)).eq(True).to_numpy(), []
    for row, run in enumerate(design["run"]):
        mine = [name for name in names if not settled(run, name)]
        for queries, name in zip(run.queries, names_of(run.queries), strict=True) if mine else ():
            found.append(
                (row, queries, name, _measured(run, queries, name, store, mine, skipping[row]))
            )
    if not found:
        raise InputError("nothing to measure: the design has no run with test queries")
    table = _tidy(design, found)
    if strata is None:
        return table
    table.insert(table.columns.get_loc("measure"), "stratum", table["query_id"].map(strata))
    if len(without := table.loc[table["stratum"].isna(), "query_id"].unique()):
        raise InputError(
            f"strata: no label for {len(without)} queries ({offenders(without)}); give one for each"
        )
    return table


def _tidy(
    design: pd.DataFrame, found: Iterable[tuple[int, Queries | Part, str, pd.DataFrame]]
) -> pd.DataFrame:
    """The frame of `values` without strata.

    `found`: the place of a run in the design, a set of test queries, its name (`names_of`), and its
    `per_query`.
    """
    units: dict[tuple[str, str], pd.Series] = {}
    cells = [
        name for name in design if design[name].map(lambda label: isinstance(label, Cell)).any()
    ]
    labels, rows, pieces = design.drop(columns=["run", *cells, "skip_own"], errors="ignore"), [], []
    for row, queries, name, table in found:
        place = queries.source.spec, queries.split
        if place not in units:
            units[place] = entity_units(queries.source.open().queries(queries.split))
        rows.append(np.repeat(row, table.size))
        columns = {
            "test_set": np.repeat(np.array([name], object), table.size),
            "query_id": np.tile(table.index.to_numpy(object), table.shape[1]),
            "unit": np.tile(units[place].loc[table.index].to_numpy(object), table.shape[1]),
            "measure": np.repeat(table.columns.to_numpy(object), len(table)),
            "value": table.to_numpy().ravel(order="F"),
        }
        pieces.append(columns)
    columns = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    return labels.iloc[np.concatenate(rows)].reset_index(drop=True).assign(**columns)


def settled(run: Ranking, name: str) -> bool:
    """Whether the first stage settles a measure: R@k (P@k, Success@k) of a reranker that reads k
    passages or fewer.

    They are those of BM25 whatever it has learnt, so that a missing loss says nothing about it.
    """
    recall = re.fullmatch(r"(?:R|P|Success)(?:\(.*\))?@(\d+)", name)
    return bool(recall) and run.rerank_depth <= int(recall[1])


def worse(measure: str) -> int:
    """1 where a lower value is worse, -1 where a higher one is (ASL)."""
    return -1 if measure.startswith("ASL") else 1


def in_random_order(
    design: pd.DataFrame, store: Store, names: Sequence[str], depth: int, seed: int
) -> pd.DataFrame:
    """Values of the runs of a design, had their first `depth` passages been in random order: means
    over 20 orders.

    A reranker below this baseline has learnt that right answers are wrong. Columns as of `values`,
    without strata.
    """
    random, n, found = np.random.default_rng(seed), 20, []
    for row, run in enumerate(design["run"]):
        for queries, name in zip(run.queries, names_of(run.queries), strict=True):
            first, qrels = (
                run.read(store, queries).frame().query("rank <= @depth"),
                queries.qrels(store),
            )
            orders = (first.assign(score=random.random(len(first))) for _ in range(n))
            means = sum(per_query(RunFile.from_frame(one), qrels, names) for one in orders) / n
            found.append((row, queries, name, means))
    return _tidy(design, found)


def report(table: pd.DataFrame, each: bool) -> str:
    """The lines that ir_measures' command prints of a table of `per_query`: `measure<TAB>value`,
    four decimals.

    With `each`: `query_id<TAB>measure<TAB>value` for each query, then the means as query `all`.
    """
    lines = (
        [f"{query}\t{name}\t{value:.4f}\n" for (query, name), value in table.stack().items()]
        if each
        else []
    )
    before = "all\t" if each else ""
    return "".join(
        lines + [f"{before}{name}\t{value:.4f}\n" for name, value in table.mean().items()]
    )


def _measured(
    run: Ranking, queries: Queries | Part, name: str, store: Store, names: list[str], skip_own: bool
) -> pd.DataFrame:
    """`per_query` of a run on one of its sets of queries, which tables call `name`."""
    if store.measured:
        return store.measured(run, name, names, bool(skip_own))
    place = (run.key, name, *names, skip_own)
    if place not in _MEASURED:
        file = run.read(store, queries)
        if skip_own:
            file = RunFile.from_frame(file.frame().query("query_id != doc_id"))
        _MEASURED[place] = per_query(file, queries.qrels(store), names)
    return _MEASURED[place]


@dataclass(frozen=True)
class _Hits:
    """The judged passages that the run returned, by query and rank, beside all judgements: no
    measure needs more.
    """

    query_ids: pd.Index  # n queries of the qrels
    query: np.ndarray  # place of a hit's query in query_ids
    rank: np.ndarray
    relevance: np.ndarray
    returned: np.ndarray  # passages returned, per query
    judged_query: np.ndarray  # all judgements, hit or not
    judged_relevance: np.ndarray

    def sum(self, values: np.ndarray, where: np.ndarray) -> np.ndarray:
        return np.bincount(self.query[where], values[where], minlength=len(self.query_ids))

    def count(self, where: np.ndarray) -> np.ndarray:
        return np.bincount(self.query[where], minlength=len(self.query_ids))

    def above(self, where: np.ndarray) -> np.ndarray:
        """Per hit, the number of selected hits of its query at its rank or above."""
        running = np.concatenate([[0], np.cumsum(where)])
        start = np.searchsorted(self.query, np.arange(len(self.query_ids)))
        return running[1:] - running[start[self.query]]

    def relevant(self, rel: int) -> np.ndarray:
        return np.bincount(
            self.judged_query[self.judged_relevance >= rel], minlength=len(self.query_ids)
        )

    def found(self, k: float, rel: int) -> np.ndarray:
        return self.count((self.relevance >= rel) & (self.rank <= k))


def _hits(run: RunFile, qrels: pd.DataFrame) -> _Hits:
    if not len(qrels) or qrels[["query_id", "doc_id"]].isna().any(axis=None):
        raise InputError(
            "qrels: empty, or a query_id or doc_id is; there is nothing to measure against"
        )
    relevance = qrels["relevance"].to_numpy()
    if relevance.dtype.kind not in "iu" or (
        relevance.dtype == np.uint64 and (relevance >= 2**63).any()
    ):
        told = f"qrels: relevance must be whole numbers of at most 64 bits, not {relevance.dtype}"
        raise InputError(f"{told}: {offenders(relevance)}")
    relevance = relevance.astype(np.int64)  # of unsigned ones the negative would be large
    judged_query, query_ids = pd.factorize(
        strings(qrels["query_id"], "qrels: query_id").to_pandas()
    )
    judged_docs = strings(qrels["doc_id"], "qrels: doc_id").dictionary_encode()
    doc_codes, n_docs = np.asarray(judged_docs.indices, np.int64), len(judged_docs.dictionary)
    order = np.argsort(judged_query * n_docs + doc_codes)
    pairs = (judged_query * n_docs + doc_codes)[order]
    if (pairs[1:] == pairs[:-1]).any():
        refuse_repeated(qrels[["query_id", "doc_id"]].astype(str), "qrels")
    place = pd.Index(query_ids).get_indexer(
        run.query_ids
    )  # of each query of the run, -1 = no qrels
    known = np.asarray(
        pc.fill_null(pc.index_in(run.doc_ids, value_set=judged_docs.dictionary), -1), np.int64
    )
    rows = np.flatnonzero(
        (known >= 0)[run.doc_codes]
    )  # a judged passage, though perhaps for another query
    query = place[run.query_codes[rows]]
    pair = query * n_docs + known[run.doc_codes[rows]]
    found = np.minimum(np.searchsorted(pairs, pair), len(pairs) - 1)
    hit = pairs[found] == pair  # never for a query without qrels: its pair is negative
    rows, query, found = rows[hit], query[hit], found[hit]
    rank = rows - run.offsets[run.query_codes[rows]] + 1
    by_query = np.argsort(query, kind="stable")  # ranks ascend within a query already
    returned = np.zeros(len(query_ids), np.int64)
    returned[place[place >= 0]] = np.diff(run.offsets)[place >= 0]
    of_hits = [side[by_query] for side in (query, rank, relevance[order[found]])]
    return _Hits(pd.Index(query_ids, name="query_id"), *of_hits, returned, judged_query, relevance)


def _ndcg(hits: _Hits, k: float) -> np.ndarray:
    gain = np.maximum(hits.relevance, 0)
    dcg = hits.sum(gain / np.log2(hits.rank + 1), hits.rank <= k)
    ideal_gain = np.maximum(hits.judged_relevance, 0)
    order = np.lexsort((-ideal_gain, hits.judged_query))
    query = hits.judged_query[order]
    place = (
        np.arange(len(order)) - np.searchsorted(query, np.arange(len(hits.query_ids)))[query] + 1
    )
    ideal = np.where(place <= k, ideal_gain[order] / np.log2(place + 1), 0)
    return _ratio(dcg, np.bincount(query, ideal, minlength=len(hits.query_ids)))


def _rr(hits: _Hits, k: float, rel: int) -> np.ndarray:
    first = np.full(len(hits.query_ids), np.inf)
    relevant = (hits.relevance >= rel) & (hits.rank <= k)
    np.minimum.at(first, hits.query[relevant], hits.rank[relevant])
    return 1 / first


def _ap(hits: _Hits, k: float, rel: int) -> np.ndarray:
    relevant = hits.relevance >= rel
    precisions = hits.sum(hits.above(relevant) / hits.rank, relevant & (hits.rank <= k))
    return _ratio(precisions, hits.relevant(rel))


def _bpref(hits: _Hits, k: float, rel: int) -> np.ndarray:
    n_relevant = hits.relevant(rel)
    n_other = hits.relevant(0) - n_relevant
    others_above = hits.above((hits.relevance >= 0) & (hits.relevance < rel))
    lost = np.minimum(others_above, n_relevant[hits.query])
    most = np.maximum(np.minimum(n_other, n_relevant)[hits.query], 1)
    return _ratio(hits.sum(1 - lost / most, hits.relevance >= rel), n_relevant)


def _infap(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Inferred AP of sampled judgements: what is in the pool and was not judged has a relevance
    below 0.

    As of those judged above a relevant passage, so of the whole pool above it a share is expected
    to be relevant (Yilmaz and Aslam, CIKM 2006; trec_eval's smoothing).
    """
    relevant = hits.relevance >= rel
    found, judged, pooled = (
        hits.above(where) - 1 for where in (relevant, hits.relevance >= 0, hits.rank > 0)
    )
    expected = pooled * (found + 1e-5) / (judged + 2e-5)
    return _ratio(hits.sum((1 + expected) / hits.rank, relevant), hits.relevant(rel))


def _judged(hits: _Hits, k: float) -> np.ndarray:
    """Share of the first k returned that were judged for this query, negative relevance
    included.
    """
    return _ratio(hits.count(hits.rank <= k), np.minimum(hits.returned, k))


def _asl(hits: _Hits, bound: float, rel: int) -> np.ndarray:
    """Atomized search length: irrelevant passages ranked above a relevant one, averaged over the
    relevant.

    A relevant passage counts `bound` at most, and so do one that was not returned and a query
    without any: a reading of Lupart et al., who say "100 bounded ASL" and no more. A perfect
    ranking has 0; lower is better.
    """
    relevant = hits.relevance >= rel
    irrelevant_above = np.minimum(hits.rank - hits.above(relevant), bound)
    n_found, n_relevant = hits.count(relevant), hits.relevant(rel)
    total = hits.sum(irrelevant_above, relevant) + (n_relevant - n_found) * bound
    return np.where(n_relevant > 0, _ratio(total, n_relevant), bound)


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    return np.where(bottom > 0, top / np.maximum(bottom, 1e-300), 0.0)


# name: (function, takes k: "no", "may" or "must", takes rel)
_MEASURES: dict[str, tuple[Callable, str, bool]] = {
    "nDCG": (_ndcg, "may", False),
    "RR": (_rr, "may", True),
    "R": (lambda hits, k, rel: _ratio(hits.found(k, rel), hits.relevant(rel)), "must", True),
    "P": (lambda hits, k, rel: hits.found(k, rel) / k, "must", True),
    "AP": (_ap, "may", True),
    "Success": (lambda hits, k, rel: (hits.found(k, rel) > 0).astype(float), "must", True),
    "Bpref": (_bpref, "no", True),
    "infAP": (_infap, "no", True),
    "Judged": (_judged, "may", False),
    "ASL": (_asl, "must", True),
}


def _parse(name: str) -> Callable[[_Hits], np.ndarray]:
    """The function behind a name like `AP(rel=2)@1000`."""
    shape = re.fullmatch(r"(\w+)(?:\(rel=([1-9]\d*)\))?(?:@([1-9]\d*))?", name.replace(" ", ""))
    function, takes_k, takes_rel = _MEASURES.get(shape[1] if shape else "", (None, "", False))
    if not function or (shape[2] and not takes_rel) or takes_k == ("no" if shape[3] else "must"):
        raise InputError(
            f"unknown measure {name!r}; known are {KNOWN}, with (rel=n) where relevance is binary"
        )
    options = {"rel": int(shape[2] or 1)} if takes_rel else {}
    return lambda hits: function(hits, int(shape[3]) if shape[3] else np.inf, **options)

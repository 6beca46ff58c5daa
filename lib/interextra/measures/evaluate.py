"""Measures per query, for all queries at once, with the names that ir_measures gives them.

Values are those of ir_measures and trec_eval: gain is linear; unjudged and negative relevance are
not relevant; queries without relevant passages or missing from the run count 0 (ASL: its bound),
those without qrels are ignored. Ties are trec_eval's for every measure (score descending, then
doc_id descending); ir_measures takes doc_id ascending for RR@k and Judged@k, so they differ where
scores tie.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from interextra.data.medquad import entity_units
from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile, strings
from interextra.data.trec import refuse_repeated
from interextra.models.model import names_of
from interextra.models.search.run import Ranking
from interextra.stats.bootstrap import ratio
from interextra.store import Cell, InputError, Store, offenders

KNOWN = (
    "nDCG, nDCG@k, RR, RR@k, R@k, P@k, AP, AP@k, Success@k, Bpref, infAP, Judged, Judged@k, ASL@k"
)
GRADED = ("nDCG", "Judged")  # for these no relevance is binary
OTHER_NAMES = {"mrr": "RR", "map": "AP", "recall": "R", "precision": "P", "hit": "Success"}
N_ORDERS = 20  # random orders of a ranking that `in_random_order` averages over
# (key of a run, test set, names, skip_own) → `per_query`: each is computed once a process
_MEASURED: dict[tuple, pd.DataFrame] = {}


def per_query(run: RunFile, qrels: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return the value of each measure for each query of the qrels.

    Parameters
    ----------
    run
        The rankings; queries that it has beyond those of the qrels are ignored.
    qrels
        Columns query_id, doc_id, relevance (whole numbers).
    names
        Of measures, as in ir_measures, e.g. `R(rel=2)@100`; and ASL@k.

    Returns
    -------
    A column per measure, indexed by query_id in the order of the qrels.

    Raises
    ------
    InputError
        An unknown measure, empty qrels, relevance that is not whole, a pair judged twice, an id
        that became a float.

    Examples
    --------
    >>> qrels = pd.DataFrame({"query_id": ["q"], "doc_id": ["d2"], "relevance": [1]})
    >>> run = RunFile.from_arrays(["q"], ["d1", "d2"], np.array([[0, 1]]), np.array([[2.0, 1.0]]))
    >>> per_query(run, qrels, ["RR@10", "ASL@100"]).loc["q"].tolist()
    [0.5, 1.0]
    """
    measures = {name: _parse(name) for name in names}
    hits = _hits(run, qrels)
    columns = {name: measure(hits) for name, measure in measures.items()}
    return pd.DataFrame(columns, index=hits.query_ids)


def check(names: Sequence[str]) -> None:
    """Refuse a measure that is unknown, and an empty list, by an InputError."""
    if not names:
        raise InputError(f"no measure given; known are {KNOWN}")
    for name in names:
        _parse(name)


class _Ranked(NamedTuple):
    """A set of queries that a run of a design ranks for."""

    row: int  # of the run in the design
    run: Ranking
    queries: Queries | Part
    test_set: str  # what tables call the queries, see `names_of`


def _ranked(design: pd.DataFrame) -> Iterator[_Ranked]:
    """Yield every set of queries of every run of a design."""
    for row, run in enumerate(design["run"]):
        test_sets = names_of(run.queries)
        for queries, test_set in zip(run.queries, test_sets, strict=True):
            yield _Ranked(row, run, queries, test_set)


def values(
    design: pd.DataFrame, store: Store, names: Sequence[str], strata: pd.Series | None = None
) -> pd.DataFrame:
    """Return the tidy values of the runs of a design: what `stats.effects` takes.

    Parameters
    ----------
    design
        A row per run: its labels, and the Run cell itself in the column `run`; other cells are left
        out. Where the column `skip_own` is true, the passage with the id of its query does not
        count: BEIR's way with queries that are passages themselves, and wrong where ids are mere
        numbers.
    store
        Where the runs are.
    names
        Of measures, as `per_query` takes them. One that is `settled` for a run has no row.
    strata
        Label of each query, by query_id: what a bootstrap draws within.

    Returns
    -------
    A row per run, query and measure: the labels of the design, test_set, query_id, unit (see
    `entity_units`), stratum (with `strata`), measure, value; by run, test set and measure, queries
    in the order of the qrels of their test set.

    Raises
    ------
    InputError
        An unknown measure, a design without test queries, a query without a stratum.
    """
    check(names)
    never = pd.Series(False, design.index)
    is_skipped = design.get("skip_own", never)
    skip_own = is_skipped.eq(True).tolist()
    measured = []
    for ranked in _ranked(design):
        unsettled = [name for name in names if not settled(ranked.run, name)]
        if unsettled:
            table = _measured(ranked, store, unsettled, skip_own[ranked.row])
            measured.append((ranked, table))
    if not measured:
        raise InputError("nothing to measure: the design has no run with test queries")
    table = _tidy(design, measured)
    return table if strata is None else _with_strata(table, strata)


def _measured(ranked: _Ranked, store: Store, names: list[str], skip_own: bool) -> pd.DataFrame:
    """Return `per_query` of a run on one of its sets of queries."""
    run = ranked.run
    test_set = ranked.test_set
    if store.measured:
        return store.measured(run, test_set, names, skip_own)
    key = (run.key, test_set, *names, skip_own)
    if key not in _MEASURED:
        file = run.read(store, ranked.queries)
        if skip_own:
            others = file.frame().query("query_id != doc_id")
            file = RunFile.from_frame(others)
        qrels = ranked.queries.qrels(store)
        _MEASURED[key] = per_query(file, qrels, names)
    return _MEASURED[key]


def _tidy(design: pd.DataFrame, measured: list[tuple[_Ranked, pd.DataFrame]]) -> pd.DataFrame:
    """Return the table of `values`, without strata, of the `per_query` of each set of queries."""
    units: dict[tuple[str, str], pd.Series] = {}
    pieces = []
    for ranked, table in measured:
        queries = ranked.queries
        split = queries.source.spec, queries.split
        if split not in units:
            of_split = queries.source.open().queries(queries.split)
            units[split] = entity_units(of_split)
        by_query = table.rename_axis("query_id")
        piece = by_query.melt(var_name="measure", ignore_index=False).reset_index()
        unit = units[split].loc[piece["query_id"]]
        piece["unit"] = unit.to_numpy()
        piece["test_set"] = ranked.test_set
        piece["row"] = ranked.row
        pieces.append(piece)
    tidy = pd.concat(pieces, ignore_index=True)
    labels = _labels(design).iloc[tidy["row"]]
    labels = labels.reset_index(drop=True)
    columns = ["test_set", "query_id", "unit", "measure", "value"]
    return labels.assign(**tidy[columns])


def _labels(design: pd.DataFrame) -> pd.DataFrame:
    """Return the labels of the runs of a design: its columns that hold no cells."""
    dropped = ["run", "skip_own"]
    for name, column in design.items():
        if any(isinstance(value, Cell) for value in column):
            dropped.append(name)
    return design.drop(columns=dropped, errors="ignore")


def _with_strata(table: pd.DataFrame, strata: pd.Series) -> pd.DataFrame:
    """Insert the stratum of each query before its measure; refuse queries without one."""
    stratum = table["query_id"].map(strata)
    unlabelled = table["query_id"][stratum.isna()].unique()
    if len(unlabelled):
        raise InputError(
            f"strata: no label for {len(unlabelled)} queries ({offenders(unlabelled)}); "
            "give one for each"
        )
    table.insert(table.columns.get_loc("measure"), "stratum", stratum)
    return table


def settled(run: Ranking, name: str) -> bool:
    """Return whether the first stage settles a measure.

    It settles R@k, P@k and Success@k of a reranker that reads k passages or fewer: they are those
    of BM25 whatever the reranker has learnt, so that a missing loss says nothing about it.
    """
    shallow = re.fullmatch(r"(?:R|P|Success)(?:\(.*\))?@(\d+)", name)
    if shallow is None:
        return False
    k = int(shallow[1])
    return run.rerank_depth <= k


def worse(measure: str) -> int:
    """Return 1 where a lower value is worse, -1 where a higher one is (ASL)."""
    return -1 if measure.startswith("ASL") else 1


def in_random_order(
    design: pd.DataFrame, store: Store, names: Sequence[str], depth: int, seed: int
) -> pd.DataFrame:
    """Return the values that the runs of a design have in random order: means over 20 orders.

    Only the first `depth` passages of each query count. A reranker below this baseline has learnt
    that right answers are wrong. Columns as of `values`, without strata.
    """
    random = np.random.default_rng(seed)
    measured = []
    for ranked in _ranked(design):
        run = ranked.run.read(store, ranked.queries)
        first = run.frame().query("rank <= @depth")
        qrels = ranked.queries.qrels(store)
        tables = []
        for _ in range(N_ORDERS):
            scores = random.random(len(first))
            shuffled = RunFile.from_frame(first.assign(score=scores))
            tables.append(per_query(shuffled, qrels, names))
        measured.append((ranked, sum(tables) / N_ORDERS))
    return _tidy(design, measured)


def report(table: pd.DataFrame, each: bool) -> str:
    """Return the lines that ir_measures' command prints of a table of `per_query`.

    `measure<TAB>value`, with four decimals. With `each`: `query_id<TAB>measure<TAB>value` for each
    query, then the means as query `all`.
    """
    means = table.mean()
    if not each:
        return _lines(means)
    lines = ""
    for query_id, values_of_query in table.iterrows():
        lines += _lines(values_of_query, f"{query_id}\t")
    return lines + _lines(means, "all\t")


def _lines(values: pd.Series, before: str = "") -> str:
    """Return a line a measure."""
    lines = ""
    for name, value in values.items():
        number = f"{value:.4f}"
        lines += f"{before}{name}\t{number}\n"
    return lines


@dataclass(frozen=True)
class _Hits:
    """The judged passages that a run returned, by query and rank, beside all judgements.

    No measure needs more. Queries are numbers, from 0, of `query_ids`.
    """

    query_ids: pd.Index  # of the n queries of the qrels
    query: np.ndarray  # of each hit
    rank: np.ndarray
    relevance: np.ndarray
    n_returned: np.ndarray  # passages of each query, judged or not, [n]
    judged_query: np.ndarray  # of each judgement, hit or not
    judged_relevance: np.ndarray

    @property
    def n_queries(self) -> int:
        """Number of queries, n."""
        return len(self.query_ids)

    def total(self, values: np.ndarray, selected: np.ndarray) -> np.ndarray:
        """Return the sum of the values of the selected hits of each query, float64[n]."""
        query = self.query[selected]
        return np.bincount(query, values[selected], minlength=self.n_queries)

    def count(self, selected: np.ndarray) -> np.ndarray:
        """Return the number of selected hits of each query, int64[n]."""
        return np.bincount(self.query[selected], minlength=self.n_queries)

    def at_or_above(self, selected: np.ndarray) -> np.ndarray:
        """Return, per hit, the number of selected hits of its query at its rank or above."""
        running = np.concatenate([[0], np.cumsum(selected)])
        queries = np.arange(self.n_queries)
        start = np.searchsorted(self.query, queries)
        return running[1:] - running[start[self.query]]

    def n_relevant(self, rel: int) -> np.ndarray:
        """Return the number of passages of each query that are judged `rel` or more, int64[n]."""
        relevant = self.judged_query[self.judged_relevance >= rel]
        return np.bincount(relevant, minlength=self.n_queries)

    def n_found(self, k: float, rel: int) -> np.ndarray:
        """Return the number of relevant passages among the first k of each query, int64[n]."""
        relevant = self.relevance >= rel
        return self.count(relevant & (self.rank <= k))


def _hits(run: RunFile, qrels: pd.DataFrame) -> _Hits:
    """Match the rows of a run with the judgements of their queries."""
    relevance = _whole_relevance(qrels)
    judged_ids = strings(qrels["query_id"], "qrels: query_id").to_pandas()
    judged_query, query_ids = pd.factorize(judged_ids)
    judged_docs = strings(qrels["doc_id"], "qrels: doc_id").dictionary_encode()
    doc_ids = judged_docs.dictionary
    judged_doc = np.asarray(judged_docs.indices)
    judged_pairs = pd.Index(judged_query * len(doc_ids) + judged_doc)
    if not judged_pairs.is_unique:
        ids = qrels[["query_id", "doc_id"]].astype(str)
        refuse_repeated(ids, "qrels")

    rows, judgements = _judged_rows(run, query_ids, doc_ids, judged_pairs)
    first_rows = run.offsets[run.query_codes[rows]]
    by_query = np.argsort(judged_query[judgements], kind="stable")  # by rank within a query
    judgements = judgements[by_query]
    n_returned = np.diff(run.offsets)
    n_returned = pd.Series(n_returned, run.query_ids)
    return _Hits(
        query_ids=pd.Index(query_ids, name="query_id"),
        query=judged_query[judgements],
        rank=(rows - first_rows + 1)[by_query],
        relevance=relevance[judgements],
        n_returned=n_returned.reindex(query_ids, fill_value=0).to_numpy(),
        judged_query=judged_query,
        judged_relevance=relevance,
    )


def _judged_rows(
    run: RunFile, query_ids: pd.Index, doc_ids: pa.Array, judged_pairs: pd.Index
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a run that are judged for their query, and the judgement of each.

    A pair of a query and a passage is a number: query * n_docs + doc, by their places in the ids
    of the qrels.
    """
    query_of_run = pd.Index(query_ids).get_indexer(run.query_ids)  # -1 where not in the qrels
    doc_of_run = pc.index_in(run.doc_ids, value_set=doc_ids)
    doc_of_run = np.asarray(doc_of_run.fill_null(-1), np.int64)
    in_qrels = doc_of_run >= 0  # for some query, which may be another one
    rows = np.flatnonzero(in_qrels[run.doc_codes])
    query = query_of_run[run.query_codes[rows]]
    doc = doc_of_run[run.doc_codes[rows]]
    pairs = query * len(doc_ids) + doc
    judgements = judged_pairs.get_indexer(pairs)
    is_hit = judgements >= 0  # the pair of a query without qrels is negative: never judged
    return rows[is_hit], judgements[is_hit]


def _whole_relevance(qrels: pd.DataFrame) -> np.ndarray:
    """Return the relevance of each judgement, int64; refuse qrels without it or without ids."""
    is_empty = qrels[["query_id", "doc_id"]].isna()
    if not len(qrels) or is_empty.any(axis=None):
        raise InputError(
            "qrels: empty, or a query_id or doc_id is; there is nothing to measure against"
        )
    relevance = qrels["relevance"].to_numpy()
    is_whole = relevance.dtype.kind in "iu"
    largest = np.iinfo(np.int64).max
    if not is_whole or (relevance > largest).any():
        raise InputError(
            f"qrels: relevance must be whole numbers of at most 64 bits, not {relevance.dtype}: "
            f"{offenders(relevance)}"
        )
    return relevance.astype(np.int64)  # of unsigned ones the negative would be large


# Each measure is a function of the hits, a cutoff k (infinite: none) and the least relevance `rel`
# of a relevant passage, float64[n_queries]. Those of GRADED take no `rel`, Bpref and infAP no k.


def _ndcg(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Normalised discounted cumulative gain; the gain is the relevance itself."""
    gain = np.maximum(hits.relevance, 0)
    discounted = gain / np.log2(hits.rank + 1)
    dcg = hits.total(discounted, hits.rank <= k)
    return _ratio(dcg, _ideal_dcg(hits, k))


def _ideal_dcg(hits: _Hits, k: float) -> np.ndarray:
    """Discounted cumulative gain of the judged passages of each query, the best first."""
    gain = np.maximum(hits.judged_relevance, 0)
    best_first = np.lexsort((-gain, hits.judged_query))
    query = hits.judged_query[best_first]
    start = np.searchsorted(query, np.arange(hits.n_queries))
    row = np.arange(len(query))
    rank = row - start[query] + 1
    discounted = gain[best_first] / np.log2(rank + 1)
    discounted[rank > k] = 0.0
    return np.bincount(query, discounted, minlength=hits.n_queries)


def _rr(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Reciprocal rank of the first relevant passage."""
    first = np.full(hits.n_queries, np.inf)
    relevant = (hits.relevance >= rel) & (hits.rank <= k)
    query = hits.query[relevant]
    rank = hits.rank[relevant]
    np.minimum.at(first, query, rank)
    return 1 / first


def _recall(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Share of the relevant passages that are among the first k."""
    n_found = hits.n_found(k, rel)
    return _ratio(n_found, hits.n_relevant(rel))


def _precision(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Relevant passages among the first k, over k."""
    return hits.n_found(k, rel) / k


def _success(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """1 where a relevant passage is among the first k."""
    return (hits.n_found(k, rel) > 0).astype(float)


def _ap(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Average precision: at the rank of each relevant passage; 0 for those not found."""
    relevant = hits.relevance >= rel
    precision = hits.at_or_above(relevant) / hits.rank
    found = relevant & (hits.rank <= k)
    total = hits.total(precision, found)
    return _ratio(total, hits.n_relevant(rel))


def _bpref(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Binary preference: how often a relevant passage precedes those judged irrelevant."""
    relevant = hits.relevance >= rel
    n_relevant = hits.n_relevant(rel)
    n_irrelevant = hits.n_relevant(0) - n_relevant
    n_compared = np.minimum(n_irrelevant, n_relevant)
    n_compared = np.maximum(n_compared, 1)  # where it is 0, nothing precedes a relevant passage
    irrelevant = (hits.relevance >= 0) & ~relevant
    irrelevant_above = hits.at_or_above(irrelevant)
    preceding = np.minimum(irrelevant_above, n_relevant[hits.query])
    share_preceding = preceding / n_compared[hits.query]
    return _ratio(hits.total(1 - share_preceding, relevant), n_relevant)


def _infap(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Inferred AP of sampled judgements: in the pool, but not judged, is a relevance below 0.

    As of those judged above a relevant passage, so of the whole pool above it a share is expected
    to be relevant (Yilmaz and Aslam, CIKM 2006; trec_eval's smoothing).
    """
    relevant = hits.relevance >= rel
    relevant_above = hits.at_or_above(relevant) - 1
    judged_above = hits.at_or_above(hits.relevance >= 0) - 1
    pooled_above = hits.at_or_above(hits.rank > 0) - 1
    expected = pooled_above * (relevant_above + 1e-5) / (judged_above + 2e-5)
    precision = (1 + expected) / hits.rank
    total = hits.total(precision, relevant)
    return _ratio(total, hits.n_relevant(rel))


def _judged(hits: _Hits, k: float, rel: int) -> np.ndarray:
    """Share of the first k returned that were judged for the query, whatever their relevance."""
    n_judged = hits.count(hits.rank <= k)
    return _ratio(n_judged, np.minimum(hits.n_returned, k))


def _asl(hits: _Hits, bound: float, rel: int) -> np.ndarray:
    """Atomized search length: irrelevant passages ranked above a relevant one, on average.

    A relevant passage counts `bound` at most, and so do one that was not returned and a query
    without any: a reading of Lupart et al., who say "100 bounded ASL" and no more. A perfect
    ranking has 0; lower is better.
    """
    relevant = hits.relevance >= rel
    n_relevant = hits.n_relevant(rel)
    n_missing = n_relevant - hits.count(relevant)
    irrelevant_above = hits.rank - hits.at_or_above(relevant)
    total = hits.total(np.minimum(irrelevant_above, bound), relevant)
    mean = _ratio(total + n_missing * bound, n_relevant)
    return np.where(n_relevant > 0, mean, bound)


def _ratio(top: np.ndarray, bottom: np.ndarray) -> np.ndarray:
    """Top / bottom, 0 where bottom is 0."""
    return np.nan_to_num(ratio(top, bottom))


_MEASURES = {
    "nDCG": _ndcg,
    "RR": _rr,
    "R": _recall,
    "P": _precision,
    "AP": _ap,
    "Success": _success,
    "Bpref": _bpref,
    "infAP": _infap,
    "Judged": _judged,
    "ASL": _asl,
}


def _parse(name: str) -> Callable[[_Hits], np.ndarray]:
    """Return the function behind a name like `AP(rel=2)@1000`."""
    parts = re.fullmatch(r"(\w+)(?:\(rel=([1-9]\d*)\))?(?:@([1-9]\d*))?", name.replace(" ", ""))
    kind, rel, cutoff = parts.groups() if parts else ("", None, None)
    shape = f"{kind}@k" if cutoff else kind
    is_known = shape in KNOWN.split(", ")
    if not is_known or (rel and kind in GRADED):
        raise InputError(
            f"unknown measure {name!r}{_meant(name)}; known are {KNOWN}, with (rel=n) where "
            "relevance is binary"
        )
    measure = _MEASURES[kind]
    k = float(cutoff or "inf")
    least = int(rel or 1)
    return lambda hits: measure(hits, k, least)


def _meant(name: str) -> str:
    """Return the question whether a measure is meant that is written otherwise, or nothing.

    >>> _meant("ndcg_cut_10"), _meant("MRR@10"), _meant("R")
    (' (do you mean nDCG@k?)', ' (do you mean RR@k?)', '')
    """
    letters = re.match("[A-Za-z]*", name)
    written = letters[0] if letters else ""
    kinds = {kind.lower(): kind for kind in _MEASURES} | OTHER_NAMES
    kind = kinds.get(written.lower().removesuffix("s"), written)
    return "" if kind == written else f" (do you mean {kind}@k?)"

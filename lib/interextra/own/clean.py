"""The clean part of a test set: which queries were not seen in training, and what they can show."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from interextra.data.collection import Collection
from interextra.data.runs import RunFile
from interextra.data.trec import BEIR_HEADER, QRELS_COLUMNS, numbered_lines
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.search.lucene import bm25_search
from interextra.own.audit import TEXT, Audit, Side
from interextra.own.values import value_of_each
from interextra.stats.tests import LEAST_QUERIES, detectable
from interextra.store import InputError, write_text

DEPTH = 100  # of the ranking of BM25
# Anserini's defaults. It is not tuned on training queries, as that of a split is: some have no
# judgements here, and a rival of a finished model must not have seen them.
K1 = 0.9
B = 0.4
SEARCHED = f"{BM25} (k1 = {K1:g}, b = {B:g})"
# passages of a collection that BM25 is searched in unasked; an index of more takes minutes
LARGEST = 200_000


def values_of_system(test: Side, run: str, measure: str) -> pd.Series | None:
    """Return the values per query of a run on the test queries, from which power is told.

    Parameters
    ----------
    run : str
        Path of a run or of values per query, as `value_of_each` takes them; "": BM25, if it is
        installed and the collection has at most `LARGEST` passages.

    Returns
    -------
    Series or None
        By query_id, named as the system; None where nothing can be measured: no judgements by
        doc_id, or neither a run nor such a collection.

    Raises
    ------
    InputError
        The run cannot be read or has none of the judged test queries; an unknown measure.
    """
    if test.qrels is None or test.known_by == TEXT:
        return None
    is_asked = test.qrels["query_id"].isin(test.queries["query_id"])
    qrels = test.qrels[is_asked]
    if run:
        query_ids = qrels["query_id"].unique()
        return value_of_each(Path(run), query_ids, qrels, measure)
    if not _can_search(test.collection):
        return None
    judged = test.queries["query_id"].isin(qrels["query_id"])
    ranking = _bm25(test.collection, test.queries[judged])
    values = per_query(ranking, qrels, [measure])
    return values[measure].rename(SEARCHED)


def _can_search(collection: Collection | None) -> bool:
    """Return whether BM25 is to be searched in a collection unasked."""
    if collection is None or find_spec("pyserini") is None:
        return False
    return len(collection.passages) <= LARGEST


def _bm25(collection: Collection, queries: pd.DataFrame) -> RunFile:
    """Return the ranking of BM25 with K1 and B."""
    texts = queries["text"].tolist()
    rows, scores = bm25_search(collection, texts, DEPTH, K1, B)
    query_ids = queries["query_id"].tolist()
    return RunFile.from_arrays(query_ids, collection.passages.doc_ids, rows, scores)


def smallest_difference(values: pd.Series) -> float:
    """Return the difference of two systems that these queries find with 80 % power at 5 %.

    If the systems' values vary as these do, and correlate at one half over queries, so that their
    difference varies as the values do.
    """
    error = values.sem()
    reach = 1.96 * error
    return float(detectable(-reach, reach, error))


def answer(found: Audit) -> str:
    """Return the sentence that answers first: how many test queries are clean, and why not all."""
    n_clean = found.n_test - len(found.seen)
    percent = 100 * n_clean / found.n_test
    counted = f"{n_clean:,} of {found.n_test:,} test queries"
    remain = f"{counted} remain clean ({percent:.1f} %)"
    is_near = found.seen["near_duplicates"] > 0
    reasons = [f"{is_near.sum():,} have a near-duplicate among the training queries"]
    if "shared_passages" in found.seen:
        is_shared = found.seen["shared_passages"] > 0
        n_shared = is_shared.sum()
        n_both = (is_near & is_shared).sum()
        reasons.append(f"{n_shared:,} share a relevant passage with them")
        reasons.append(f"{n_both:,} both")
    return f"{remain}: {', '.join(reasons)}."


def conclusion(found: Audit, values: pd.Series | None, measure: str) -> list[str]:
    """Return the sentences that close an audit: what the clean queries can tell, what to do.

    Parameters
    ----------
    values : Series or None
        Of `values_of_system`.
    """
    n_clean = found.n_test - len(found.seen)
    sentences = []
    if n_clean:
        sentences += _power(found.test_queries, values, measure)
    if "shared_passages" in found.seen:
        n_near_only = (found.seen["shared_passages"] == 0).sum()
        if n_near_only:
            sentences.append(
                f"{n_near_only:,} test queries are not clean only because of near-duplicates that "
                "share no answer: read them in near.csv, some may ask for something else."
            )
    sentences.append(found.nearness.sentence())
    return [*sentences, *_decision(found, n_clean)]


def _decision(found: Audit, n_clean: int) -> list[str]:
    """Return what to do before training and after it."""
    kinds = (
        "Clean says that no wording and no answer was seen, not that the kinds of query are new: "
        "the sentence before says how near they lie."
    )
    if not len(found.seen):
        return [kinds, "Decision: nothing is to be dropped; report runs on all test queries."]
    n_drop = len(found.train_queries)
    percent = 100 * n_drop / found.n_train
    before = (
        f"Decision: before training, leave out the {n_drop:,} training queries of drop_train.txt "
        f"({percent:.1f} % of {found.n_train:,}): all test queries are clean then."
    )
    if n_clean < LEAST_QUERIES:
        return [
            before,
            "A model that is trained already needs another test set: "
            f"{n_clean} clean queries tell nothing apart.",
        ]
    return [
        kinds,
        before,
        "Report a model that is trained already on the clean queries: --clean FOLDER writes them, "
        "interextra evaluate --only FOLDER/clean.txt scores any run on them.",
    ]


def _power(seen: Sequence[str], values: pd.Series | None, measure: str) -> list[str]:
    """Return the sentences of what the clean queries can tell apart, and of how hard they are."""
    if values is None:
        return [
            "What the clean queries can tell apart is told from a run: give --run, and qrels with "
            "doc_ids; or install what BM25 needs (pip install 'interextra[train]')."
        ]
    clean = values[~values.index.isin(seen)]
    if len(clean) < LEAST_QUERIES:
        return [f"{len(clean)} clean queries are judged: too few to tell any two systems apart."]
    if not clean.std() > 0:
        return [
            f"All clean queries have the same {measure} by {values.name}, which says nothing of "
            "differences."
        ]
    of_all = ""
    if len(clean) < len(values):
        of_all = f" (all test queries: {smallest_difference(values):.3f})"
    return [
        f"The clean queries find a difference of {smallest_difference(clean):.3f} {measure} "
        f"between two systems with 80 % power{of_all}, if the systems vary over queries as "
        f"{values.name} does and correlate at one half.",
        _means(clean, values, measure),
    ]


def _means(clean: pd.Series, values: pd.Series, measure: str) -> str:
    """Return the sentence of a system's mean on the clean queries and on all of them."""
    on_clean = clean.mean()
    on_all = values.mean()
    of_system = f"{measure} of {values.name} is {on_clean:.3f} on the {len(clean):,}"
    if len(clean) == len(values):
        return f"{of_system} judged test queries, which are all clean."
    kind = "easier" if on_clean > on_all else "harder"
    here = f", here {kind} ones" if f"{on_clean:.3f}" != f"{on_all:.3f}" else ""
    return (
        f"{of_system} clean test queries and {on_all:.3f} on all {len(values):,} that are judged. "
        f"Do not compare a mean over clean queries with one over all: they are other queries{here}."
    )


def write_clean(test: Side, seen: Sequence[str], folder: Path) -> list[Path]:
    """Write the clean test set; return the paths.

    clean.txt has a query_id a line, queries.tsv their texts; qrels.tsv, in BEIR's form, is written
    where passages have ids.

    Raises
    ------
    InputError
        No query is clean.
    """
    is_clean = ~test.queries["query_id"].isin(seen)
    queries = test.queries[is_clean]
    if queries.empty:
        raise InputError(f"--clean {folder}: none of {len(is_clean)} test queries is clean")
    query_ids = queries["query_id"]
    texts = queries["text"].str.split().str.join(" ")
    files = {
        "clean.txt": _lines(query_ids),
        "queries.tsv": _lines(query_ids + "\t" + texts),
    }
    if test.qrels is not None and test.known_by != TEXT:
        of_clean = test.qrels["query_id"].isin(query_ids)
        qrels = test.qrels.loc[of_clean, QRELS_COLUMNS]
        files["qrels.tsv"] = qrels.to_csv(sep="\t", index=False, header=BEIR_HEADER)
    return [write_text(folder / name, text) for name, text in files.items()]


def _lines(texts: pd.Series) -> str:
    """Return a text of one a line."""
    return "".join(f"{text}\n" for text in texts)


def only(qrels: pd.DataFrame, path: str) -> pd.DataFrame:
    """Return the judgements of the queries that a file names, a query_id a line.

    Raises
    ------
    InputError
        The file cannot be read, or names no query of the judgements.
    """
    query_ids = {line.strip() for _, line in numbered_lines(path)}
    kept = qrels[qrels["query_id"].isin(query_ids)]
    if kept.empty:
        raise InputError(f"--only {path}: the qrels judge none of its {len(query_ids)} queries")
    return kept.reset_index(drop=True)

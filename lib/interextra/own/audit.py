"""Notebook 12: an audit of a user's training and test queries.

It says, without a model, what was seen before.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, Passages
from interextra.data.load import data_folder, open_collection
from interextra.data.msmarco import QuerySets
from interextra.data.texts import normalised
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.models.encoders import encoder_of
from interextra.overlap.labels import label_overlap, shared_passages
from interextra.overlap.near import near_pairs, near_rows, words_in_order
from interextra.overlap.text import text_jaccard
from interextra.own.nearness import Nearness, evenly, nearness
from interextra.papers.releases import gather_training_qrels
from interextra.splits.similarity import nearest
from interextra.stats.tests import wilson
from interextra.store import InputError, offenders, write_text
from interextra.store.errors import kind_and_message

NEIGHBOURS = 20  # training queries that are nearest to a test query by cosine
# Pairs of queries that are compared by their vectors, which are only displayed: with more of them,
# the nearest training queries of some test queries are looked up
SHOWN = 200_000_000
NEAR = 0.9  # at .8, questions of one form with other names in them are near-duplicates, too
BELOW = 0.05  # pairs that share so much less of their words are told, but not counted
DROP_TRAIN = "drop_train.txt"
AT_ONCE = 100_000  # texts that LSA is fitted on, at most, and that are encoded at once
TEXT = "text"  # how relevant passages are known
BATCH = 10_000  # passages whose texts are looked at at once
COLUMNS = {
    "query": ("anchor", "query", "question"),
    "positive": ("positive", "answer", "passage", "document"),
}
ZERO_SHOT = "zero-shot: neither a near-duplicate nor a shared passage"
OTHER_ORDER = "near-duplicate with its words in another order only"
SAME_ANSWER = "near-duplicate that shares an answer"
OTHER_ANSWER = "near-duplicate that shares no answer"
SHARED_COPY = "shares passages only as copies under other ids"
EXPOSED = "an answer is exposed (no leak): training can draw it as a negative only"
COPIED = "an answer is copied: several passages of training have its text"


class Side(NamedTuple):
    """The queries of one side of an audit, with what is relevant to them."""

    name: str  # of the data set
    queries: pd.DataFrame  # query_id, text
    qrels: pd.DataFrame | None  # query_id, doc_id, relevance; None: not given
    passages: Passages | None = None  # what a training may draw negatives from; None: not given
    # fingerprint of the collection whose ids the qrels have, TEXT, or nothing: ids of qrels files
    known_by: str = ""
    collection: Collection | None = None  # that BM25 can search; None: not given

    @property
    def has_texts(self) -> bool:
        """Whether the texts of its relevant passages are there; so they are where it has none."""
        if self.qrels is None or self.known_by == TEXT:
            return True
        return self.passages is not None

    def by_text(self) -> "Side":
        """Return the side with relevant passages known by their texts, `normalised`.

        A copy of a passage under another id is then the same passage. Those without a text are
        known by their ids.

        Raises
        ------
        InputError
            The texts are not there, or the collection lacks a judged passage.
        """
        if self.qrels is None:
            return self
        doc_ids = self.qrels["doc_id"]
        texts = doc_ids if self.known_by == TEXT else self._texts(doc_ids)
        names = []
        for text, doc_id in zip(texts, doc_ids, strict=True):
            # no text that is normalised begins with a space
            without_text = f" {self.known_by} {doc_id}"
            names.append(normalised(text) or without_text)
        known_by_text = self.qrels.assign(doc_id=names, own_id=doc_ids)
        return self._replace(qrels=known_by_text, known_by=TEXT)

    def with_passages_of(self, other: "Side") -> "Side":
        """Return the side with the other one's passages, if they explain all of its bare ids.

        A file of qrels says nothing of its passages: ids that all stand in the collection of the
        other side are those of that collection, whose texts can then be compared.
        """
        if self.has_texts or self.known_by or other.passages is None:
            return self
        doc_ids = self.qrels["doc_id"].tolist()
        rows = np.asarray(other.passages.rows(doc_ids))
        if (rows < 0).any():
            return self
        return self._replace(passages=other.passages, known_by=other.known_by)

    def _texts(self, doc_ids: pd.Series) -> list[str]:
        """Return the texts of judged passages."""
        if self.passages is None:
            raise InputError(
                f"{self.name}: passages known by id, those of the other side by text; "
                "give a collection"
            )
        rows = np.asarray(self.passages.rows(doc_ids.tolist()))
        unknown = doc_ids[rows < 0].unique().tolist()
        if unknown:
            raise InputError(
                f"{self.name}: judges {len(unknown)} passages that it lacks: {offenders(unknown)}"
            )
        return self.passages.texts(rows)

    def n_held(self, passages: pd.Series) -> pd.Series:
        """Return how often a training here holds each passage, as the qrels name it.

        By text, a passage with copies is held more than once, and one without a text not at all.
        All texts are read, in batches.
        """
        if self.known_by != TEXT:
            is_held = self.passages.rows(passages) >= 0
            return pd.Series(is_held.astype(int), passages.index)
        n_held = dict.fromkeys(passages, 0)
        for _, texts in self.passages.batches(BATCH):
            for text in map(normalised, texts):
                if text in n_held:
                    n_held[text] += 1
        return passages.map(n_held)


class Audit(NamedTuple):
    """What of the test queries was seen in training, and what to drop for a clean split."""

    shares: pd.DataFrame  # test queries: what, n, of, percent, low, high (Wilson's 95 % interval)
    # a row a test query (with more than `SHOWN` pairs, of some that are evenly drawn) and its
    # nearest training query, most similar first: both ids and texts, cosine, words (Jaccard),
    # shared
    pairs: pd.DataFrame
    # a row a pair of near-duplicates: both ids and texts, words and order (see `near_pairs`),
    # shares_answer (where both sides have judgements)
    near: pd.DataFrame
    # to drop for a clean split: near-duplicates, and those that share a relevant passage
    test_queries: list[str]
    train_queries: list[str]  # to drop instead
    compared: str  # what made two passages the same
    exposed: str  # what follows from exposed answers; "" where training has no passages
    # a row a test query to drop: id, text, how many near_duplicates it has, and how many
    # shared_passages (where both sides have judgements)
    seen: pd.DataFrame
    n_test: int
    n_train: int
    threshold: float  # share of common words of near-duplicates
    # pairs that share up to BELOW less than that and are not counted, the most similar first: as
    # `near`
    just_below: pd.DataFrame
    nearness: Nearness  # of all test queries to the training queries
    unpaired: str  # which test queries `pairs` lacks, and why; "" where it has all


def read(spec: str, split: str) -> Side:
    """Read the queries of one side.

    Parameters
    ----------
    spec : str
        SPEC or SPEC@SPLIT of a collection, QUERIES.tsv or QUERIES.tsv,QRELS, or datasets:FOLDER. A
        `datasets` folder has a column of queries and one of positives (`COLUMNS`); a positive is
        known by its text.
    split : str
        Of a spec that names none.

    Raises
    ------
    InputError
        No such file, folder, column or split.
    """
    place, split = _place_and_split(spec, split)
    path, _, qrels_path = place.partition(",")
    if Path(path).is_file():
        return _read_files(path, qrels_path)
    if ":" not in path and path.endswith((".tsv", ".txt", ".gz")):
        raise InputError(f"{path}: no such file; check the path")
    if place.startswith("datasets:"):
        return _read_datasets(place.removeprefix("datasets:"), split)
    return _read_collection(place, split)


def _place_and_split(spec: str, split: str) -> tuple[str, str]:
    """Return a spec without the split that it names, and this split; else `split`."""
    named_split = re.search(r"@([\w-]+)\Z", spec)
    if not named_split:
        return spec, split
    return spec[: named_split.start()], named_split[1]


def next_lines(train: str, test: str, folder: Path) -> list[str]:
    """Return the lines with the commands that split, and probe, without the queries to drop.

    Parameters
    ----------
    train, test : str
        Specs of the sides, see `read`.
    folder : Path
        Of `write`.

    Returns
    -------
    list of str
        None where the sides are not of one collection.

    Examples
    --------
    >>> next_lines("mini@train", "mini@test", Path("audit"))[0][:73]
    'Split without the training queries to drop: interextra split restrain --c'
    """
    collection, train_split = _place_and_split(train, "train")
    collection_of_test, test_split = _place_and_split(test, "test")
    if collection != collection_of_test:
        return []
    design = ["--collection", collection, "--train-split", train_split]
    design += ["--test-splits", test_split, "--drop-train", str(folder / DROP_TRAIN)]
    split = ["interextra", "split", "restrain", *design, "--out", "folds"]
    probe = ["interextra", "probe", "-m", "MODEL", *design]
    return [
        f"Split without the training queries to drop: {shlex.join(split)}",
        f"Or, with our trainer: {shlex.join(probe)}",
    ]


def _read_files(path: str, qrels_path: str) -> Side:
    """Read a file of queries, and what a file of qrels, if one is named, says of them."""
    queries = read_queries_tsv(path)
    if not qrels_path:
        return Side(path, queries, qrels=None)
    qrels = read_qrels(qrels_path)
    is_asked = qrels["query_id"].isin(queries["query_id"])
    qrels = qrels[is_asked]
    if qrels.empty:
        raise InputError(f"{qrels_path}: judges none of the queries of {path}")
    return Side(path, queries, qrels)


def _read_collection(spec: str, split: str) -> Side:
    """Read a split of a collection; the training qrels of MS MARCO are gathered."""
    collection = open_collection(spec)
    queries = collection.queries(split)
    if isinstance(collection, QuerySets) and split == "train":
        qrels = gather_training_qrels(data_folder())
    else:
        qrels = collection.qrels(split)
    passages = collection.passages or None
    searched = collection if isinstance(collection, Collection) and passages else None
    return Side(collection.name, queries, qrels, passages, collection.fingerprint, searched)


def _read_datasets(folder: str, split: str) -> Side:
    """Read a folder of `datasets`; queries are numbered by their texts."""
    data = _load_datasets(folder, split)
    query, positive = _columns(data.column_names, folder)
    try:
        frame = data.select_columns([query, positive]).to_pandas()
    except Exception as error:  # damaged rows are met only here
        raise _unreadable(folder, error) from None
    _refuse_rows_without_text(frame, folder)
    pairs = pd.DataFrame({"text": frame[query], "doc_id": frame[positive]})
    query_numbers, _ = pd.factorize(pairs["text"])
    pairs["query_id"] = query_numbers.astype(str)
    queries = pairs[["query_id", "text"]].drop_duplicates(ignore_index=True)
    qrels = pairs[["query_id", "doc_id"]].drop_duplicates(ignore_index=True)
    qrels = qrels.assign(relevance=1)
    return Side(folder, queries, qrels, known_by=TEXT)


def _refuse_rows_without_text(frame: pd.DataFrame, folder: str) -> None:
    """Refuse a table that lacks a text in a row of its two columns, or has no rows."""
    is_text = frame.map(_is_text).all(axis=1)
    if frame.empty or not is_text.all():
        wrong_rows = np.flatnonzero(~is_text).tolist()
        rows = offenders(wrong_rows) or "there is none"
        columns = " and ".join(frame.columns)
        raise InputError(f"datasets:{folder}: each row needs a text in {columns}; rows: {rows}")


def _is_text(value: object) -> bool:
    """Return whether a value is a text that is not blank."""
    return isinstance(value, str) and bool(normalised(value))


def _load_datasets(folder: str, split: str) -> Any:
    """Return the `Dataset` of a folder, or of its split where it has splits."""
    from datasets import DatasetDict, load_from_disk

    try:
        data = load_from_disk(folder)
    except Exception as error:  # whatever the library raises on files that are none of its own
        raise _unreadable(folder, error) from None
    if not isinstance(data, DatasetDict):
        return data
    if split not in data:
        known = ", ".join(data)
        raise InputError(f"datasets:{folder}: no split {split!r}; it has {known}")
    return data[split]


def _columns(names: list[str], folder: str) -> list[str]:
    """Return the column of queries and that of positives."""
    columns = []
    for known in COLUMNS.values():
        present = [name for name in known if name in names]
        if not present:
            wanted = " and ".join(map("/".join, COLUMNS.values()))
            raise InputError(f"datasets:{folder}: columns {offenders(names)}; it needs {wanted}")
        columns.append(present[0])
    return columns


def _unreadable(folder: str, error: Exception) -> InputError:
    """Return the one line about a folder that `datasets` cannot read."""
    return InputError(
        f"datasets:{folder}: cannot be read ({kind_and_message(error)}); "
        "give a folder of `save_to_disk`"
    )


def audit(
    train: Side,
    test: Side,
    encoder: str = "lsa",
    near: float = NEAR,
    near_passages: float = 1.0,
) -> Audit:
    """Say what of the test queries was seen in training.

    Seen are their words, their relevant passages, or their answers as negatives: an exposed answer
    is a passage of training, but relevant to no training query, so that it can only be a negative.
    Zero-shot queries have no near-duplicate and share no relevant passage; MTEB's flag compares
    names of data sets.

    Parameters
    ----------
    encoder : str
        Finds the nearest training query of a test query, see `neighbours` and `Audit.pairs`.
        Nothing is counted by it.
    near : float
        Share of common words (Jaccard) from which two queries are near-duplicates; the same letters
        always are. All test queries are compared with all training queries, see `near_pairs`.
    near_passages : float
        Share of common words from which a relevant passage of a test query is the same as one of
        a training query, as an edited copy is; 1: only the same text.

    Raises
    ------
    InputError
        Queries without a word, a share that is none, edited copies of passages without texts.
    """
    _refuse_without_words(train, test)
    train, test = _comparable(train, test, near_passages)
    near_ones, just_below = _near_duplicates(train, test, near)
    closest = _closest(train.queries, test.queries, encoder)
    overlap = _passage_overlap(train, test)
    if overlap.n_shared is not None:
        closest["shared"] = closest["test_query_id"].map(overlap.n_shared)
    seen = _seen(test.queries, near_ones, overlap.n_shared)
    n_test = len(test.queries)
    counts = _near_counts(near_ones, near) | overlap.counts
    counts[ZERO_SHOT] = n_test - len(seen)
    to_drop = overlap.train_ids.union(near_ones["train_query_id"])
    return Audit(
        shares=_shares(counts, n_test),
        pairs=closest,
        near=near_ones,
        test_queries=seen["test_query_id"].tolist(),
        train_queries=sorted(to_drop),
        compared=_compared(train, test),
        exposed=_exposed(train, counts, n_test),
        seen=seen,
        n_test=n_test,
        n_train=len(train.queries),
        threshold=near,
        just_below=just_below,
        nearness=nearness(train.queries["text"].tolist(), test.queries["text"].tolist()),
        unpaired=_unpaired(test.queries, closest, encoder, _n_shown(train.queries)),
    )


def _comparable(train: Side, test: Side, near_passages: float) -> tuple[Side, Side]:
    """Return both sides with relevant passages of one name where they are the same."""
    trained = train.with_passages_of(test)
    tested = test.with_passages_of(train)
    if _is_compared_by_text(trained, tested):
        trained = trained.by_text()
        tested = tested.by_text()
    if near_passages == 1:
        return trained, tested
    return _with_edited_copies(trained, tested, near_passages)


def _are_judged(train: Side, test: Side) -> bool:
    """Return whether both sides have judgements."""
    return train.qrels is not None and test.qrels is not None


def _seen(queries: pd.DataFrame, near: pd.DataFrame, n_shared: pd.Series | None) -> pd.DataFrame:
    """Return the test queries that are not clean, see `Audit.seen`."""
    named = _with_side(queries, "test")
    query_ids = named["test_query_id"]
    n_near = near["test_query_id"].value_counts()
    counts = {"near_duplicates": query_ids.map(n_near)}
    if n_shared is not None:
        counts["shared_passages"] = query_ids.map(n_shared)
    whole = pd.DataFrame(counts).fillna(0).astype(int)
    is_seen = whole.gt(0).any(axis=1)
    return named.join(whole)[is_seen].reset_index(drop=True)


def _closest(train: pd.DataFrame, test: pd.DataFrame, encoder: str) -> pd.DataFrame:
    """Return the nearest training query of each test query, see `Audit.pairs`."""
    shown = _evenly(test, _n_shown(train))
    pairs = neighbours(train, shown, encoder)
    closest = pairs.drop_duplicates("test_query_id").copy()
    closest["words"] = text_jaccard(closest["test_query"], closest["train_query"])
    return closest.sort_values(["words", "cosine"], ascending=False, ignore_index=True)


def _n_shown(train: pd.DataFrame) -> int:
    """Return how many test queries `Audit.pairs` has at most, for so many training queries."""
    return max(1, SHOWN // len(train))


def _unpaired(test: pd.DataFrame, closest: pd.DataFrame, encoder: str, n_shown: int) -> str:
    """Return the sentence on test queries without a row in `Audit.pairs`, see `Audit.unpaired`."""
    shown = _evenly(test, n_shown)
    has_pair = shown["query_id"].isin(closest["test_query_id"])
    without = shown["query_id"][~has_pair]
    reasons = []
    if len(shown) < len(test):
        left_out = f"{len(test) - len(shown):,} test queries are not looked up"
        reasons.append(f"{left_out}, as there are more than {SHOWN:,} pairs of queries")
    if len(without):
        count = f"{len(without):,} of {len(shown):,} test queries have no vector by {encoder}"
        reasons.append(f"{count}, as it knows none of their words ({offenders(without)})")
    return f"Without a row in pairs.csv: {'; '.join(reasons)}." if reasons else ""


def _refuse_without_words(*sides: Side) -> None:
    """Refuse a side none of whose queries holds a word."""
    for side in sides:
        if not any(map(words_in_order, side.queries["text"])):
            raise InputError(
                f"{side.name}: none of {len(side.queries)} queries holds a word; "
                "nothing can be compared"
            )


def _is_compared_by_text(train: Side, test: Side) -> bool:
    """Return whether passages are the same by their texts, not by their ids.

    They are where both sides have them, which also finds copies under other ids, and where the ids
    are those of two collections.
    """
    if train.has_texts and test.has_texts:
        return True
    known_by = (train.known_by, test.known_by)
    is_known = all(known_by) or TEXT in known_by
    return is_known and train.known_by != test.known_by


def _with_edited_copies(train: Side, test: Side, near_passages: float) -> tuple[Side, Side]:
    """Return both sides with one text for all relevant passages that are edited copies."""
    if not _are_judged(train, test) or train.known_by != TEXT:
        raise InputError(
            "near-duplicate passages are found by their texts, which a side lacks; "
            "give a collection and judgements of each side"
        )
    taught = pd.Index(_relevant(train.qrels)["doc_id"].unique())
    answers = pd.Index(_relevant(test.qrels)["doc_id"].unique())
    pairs = near_rows(taught, answers, near_passages)
    text_of = _text_of_copies(taught[pairs["train"]], answers[pairs["test"]])
    sides = []
    for side in (train, test):
        doc_ids = [text_of.get(text, text) for text in side.qrels["doc_id"]]
        qrels = side.qrels.assign(doc_id=doc_ids)
        sides.append(side._replace(qrels=qrels))
    return sides[0], sides[1]


def _text_of_copies(left: pd.Index, right: pd.Index) -> dict[str, str]:
    """Return the text that stands for each text; pairs, and what they join, have one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    texts = left.union(right, sort=False).unique()
    ends = (texts.get_indexer(left), texts.get_indexer(right))
    n_texts = len(texts)
    ones = np.ones(len(left), np.int8)
    joined = coo_array((ones, ends), (n_texts, n_texts))
    _, component = connected_components(joined, directed=False)
    _, first = np.unique(component, return_index=True)
    stand_ins = texts[first[component]]
    return dict(zip(texts, stand_ins, strict=True))


def _compared(train: Side, test: Side) -> str:
    """Return the sentence that says what made two passages the same."""
    if train.qrels is None or test.qrels is None:
        return "No passages were compared: a side has no judgements."
    if train.known_by == TEXT:
        return "Passages are the same by their texts, whatever their ids, case or white space."
    return (
        "Passages are the same by their ids: copies under other ids are not found. "
        "Give a collection, whose texts can be compared."
    )


def _exposed(train: Side, counts: Mapping[str, int], n_test: int) -> str:
    """Return the sentences on exposed answers, which are no leak; "" where nothing is known."""
    n_exposed = counts.get(EXPOSED, 0)
    if train.qrels is None or train.passages is None or not n_exposed:
        return ""
    n_draws = len(_relevant(train.qrels)) / len(train.passages)
    percent = 100 * n_exposed / n_test
    return (
        f"No leak: of {n_exposed:,} test queries ({percent:.0f} %) an answer is "
        "exposed, which says little: nearly all are where a query has one answer. What follows is "
        "for negatives: with one random negative for each training pair, such a passage is drawn "
        f"{n_draws:.2g} times an epoch and taught to rank low, with mined ones more often. Exclude "
        "these passages, see exposed.txt of `interextra split`."
    )


def _near_duplicates(train: Side, test: Side, near: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the pairs of near-duplicate queries, and those just below, see `Audit`."""
    lowest = near - BELOW if near > BELOW else near
    pairs = _similar_pairs(train, test, lowest)
    has_same_letters = pairs["order"] == 1
    is_near = has_same_letters | (pairs["words"] >= near)
    just_below = pairs[~is_near].sort_values(["words", "order"], ascending=False, kind="stable")
    return pairs[is_near].reset_index(drop=True), just_below.reset_index(drop=True)


def _similar_pairs(train: Side, test: Side, least: float) -> pd.DataFrame:
    """Return the pairs of queries that share so much of their words, see `Audit.near`."""
    rows = near_pairs(train.queries["text"], test.queries["text"], least)
    test_side = _with_side(test.queries, "test").iloc[rows["test"]]
    train_side = _with_side(train.queries, "train").iloc[rows["train"]]
    similarity = rows[["words", "order"]]
    columns = [table.reset_index(drop=True) for table in (test_side, train_side, similarity)]
    pairs = pd.concat(columns, axis=1)
    if _are_judged(train, test):
        pairs["shares_answer"] = _shares_answer(pairs, train, test)
    return pairs


def _with_side(queries: pd.DataFrame, side: str) -> pd.DataFrame:
    """Return ids and texts of queries, with the side in the names of the columns."""
    named = queries[["query_id", "text"]].reset_index(drop=True)
    columns = [f"{side}_query_id", f"{side}_query"]
    return named.set_axis(columns, axis="columns")


def _near_counts(pairs: pd.DataFrame, near: float) -> dict[str, int]:
    """Return how many test queries have near-duplicates of each kind."""
    is_same = pairs[["words", "order"]].eq(1).any(axis=1)
    is_in_order = pairs["order"] >= near
    in_order = set(pairs["test_query_id"][is_in_order])
    in_any_order = set(pairs["test_query_id"])
    counts = {
        "same words as a training query": pairs["test_query_id"][is_same].nunique(),
        f"near-duplicate of a training query (Jaccard {near:g} or more)": len(in_any_order),
        OTHER_ORDER: len(in_any_order - in_order),
    }
    if "shares_answer" in pairs:
        sharing = set(pairs["test_query_id"][pairs["shares_answer"]])
        counts[SAME_ANSWER] = len(sharing)
        counts[OTHER_ANSWER] = len(in_any_order - sharing)
    return counts


def _shares_answer(pairs: pd.DataFrame, train: Side, test: Side) -> np.ndarray:
    """Return which pairs of queries have a relevant passage in common, bool[n]."""
    near_train = train.qrels["query_id"].isin(pairs["train_query_id"])
    near_test = test.qrels["query_id"].isin(pairs["test_query_id"])
    taught = _relevant(train.qrels[near_train])
    answers = _relevant(test.qrels[near_test])
    sides = pairs[["test_query_id", "train_query_id"]]
    sides = sides.assign(row=np.arange(len(pairs)))
    of_pairs = sides.merge(answers, left_on="test_query_id", right_on="query_id")
    names = ["train_query_id", "doc_id"]
    taught_pairs = pd.MultiIndex.from_frame(taught[["query_id", "doc_id"]])
    is_shared = pd.MultiIndex.from_frame(of_pairs[names]).isin(taught_pairs)
    sharing_rows = of_pairs["row"][is_shared]
    return sides["row"].isin(sharing_rows).to_numpy()


def _relevant(qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of relevant passages; all are where no relevance is given."""
    if "relevance" in qrels:
        return qrels[qrels["relevance"] >= 1]
    return qrels


class _Overlap(NamedTuple):
    """What training says of the relevant passages of the test queries."""

    counts: dict[str, int]  # of test queries, by what they share
    n_shared: pd.Series | None  # relevant passages in common with training, by test query
    train_ids: set[str]  # training queries that share one


def _passage_overlap(train: Side, test: Side) -> _Overlap:
    """Compare the relevant passages of both sides, if both have judgements."""
    if not _are_judged(train, test):
        return _Overlap({}, n_shared=None, train_ids=set())
    test_ids = test.queries["query_id"]
    is_asked = test.qrels["query_id"].isin(test_ids)
    test_qrels = test.qrels[is_asked]
    answers = _relevant(test_qrels)
    taught = _taught(train, answers)
    # the ids of both sides may coincide
    renamed = test_qrels.assign(query_id="test " + test_qrels["query_id"])
    levels = sorted(answers["relevance"].unique()) or [1]
    counts = _level_counts(label_overlap(renamed, taught, levels))
    if train.known_by == TEXT:
        counts[SHARED_COPY] = _n_shared_as_copies(answers, taught)
    if train.passages is not None:
        counts |= _held_counts(answers, taught, train)
    n_shared = shared_passages(renamed, taught, [1])[1]
    return _Overlap(
        counts,
        n_shared=("test " + test_ids).map(n_shared).set_axis(test_ids),
        train_ids=set(taught["query_id"]),
    )


def _taught(train: Side, answers: pd.DataFrame) -> pd.DataFrame:
    """Return the judgements of training that find an answer of the test queries relevant."""
    # of the many passages of training, whose names may be texts, only these can be shared
    is_answer = train.qrels["doc_id"].isin(answers["doc_id"])
    return _relevant(train.qrels[is_answer])


def _level_counts(overlap: pd.DataFrame) -> dict[str, int]:
    """Return how many test queries share passages of each relevance, in words."""
    counts = {}
    for row in overlap.itertuples():
        level = row.relevance_threshold
        what = f"shares {row.min_shared} or more passages of relevance {level} or more"
        counts[what] = row.n_overlapping
    return counts


def _n_shared_as_copies(answers: pd.DataFrame, taught: pd.DataFrame) -> int:
    """Return how many test queries share passages, but none under its own id."""
    names = ["doc_id", "own_id"]
    taught_names = pd.MultiIndex.from_frame(taught[names])
    is_shared = answers["doc_id"].isin(taught["doc_id"])
    is_shared_by_id = pd.MultiIndex.from_frame(answers[names]).isin(taught_names)
    sharing = set(answers["query_id"][is_shared])
    sharing_by_id = set(answers["query_id"][is_shared_by_id])
    return len(sharing - sharing_by_id)


def _held_counts(answers: pd.DataFrame, taught: pd.DataFrame, train: Side) -> dict[str, int]:
    """Return how many test queries have an answer among the passages of training.

    Exposed: training can draw it as a negative only. Copied: several passages have its text.
    """
    n_held = train.n_held(answers["doc_id"])
    is_taught = answers["doc_id"].isin(taught["doc_id"])
    exposed = answers[~is_taught & (n_held > 0)]
    counts = {EXPOSED: exposed["query_id"].nunique()}
    if train.known_by == TEXT:
        copied = answers[n_held > 1]
        counts[COPIED] = copied["query_id"].nunique()
    return counts


def _shares(counts: Mapping[str, int], n_queries: int) -> pd.DataFrame:
    """Return the counts as shares of the test queries, with Wilson's 95 % intervals."""
    shares = pd.DataFrame(counts.items(), columns=["what", "n"])
    low, high = wilson(shares["n"], n_queries)
    shares["of"] = n_queries
    shares["percent"] = 100 * shares["n"] / n_queries
    shares["low"] = 100 * low
    shares["high"] = 100 * high
    return shares


def neighbours(train: pd.DataFrame, test: pd.DataFrame, encoder: str) -> pd.DataFrame:
    """Return the nearest training queries of each test query, the nearest first.

    LSA is fitted on the training queries, of more than `AT_ONCE` on so many that lie evenly among
    them.

    Returns
    -------
    DataFrame
        test_query_id, test_query, train_query_id, train_query, cosine.
    """
    kind, option = encoder_of(encoder)
    fitted_on = _evenly(train, AT_ONCE)
    encode = kind(option, fitted_on["text"].tolist()).encode_queries
    test_vectors, test = _encoded(encode, test, "test")
    train_vectors, train = _encoded(encode, train, "train")
    if test.empty or train.empty:
        no_pairs = pd.concat([test, train], axis=1).head(0)
        return no_pairs.assign(cosine=0.0)
    cosines, train_rows = nearest(test_vectors, train_vectors, NEIGHBOURS)
    n_neighbours = train_rows.shape[1]
    test_rows = np.arange(len(test)).repeat(n_neighbours)
    test_side = test.iloc[test_rows].reset_index(drop=True)
    train_side = train.iloc[train_rows.ravel()].reset_index(drop=True)
    pairs = pd.concat([test_side, train_side], axis=1)
    return pairs.assign(cosine=cosines.ravel())


def _evenly(queries: pd.DataFrame, most: int) -> pd.DataFrame:
    """Return at most so many queries, which lie evenly among all."""
    return queries.iloc[evenly(len(queries), most)]


def _encoded(
    encode: Callable[[list[str]], np.ndarray],
    queries: pd.DataFrame,
    side: str,
) -> tuple[np.ndarray, pd.DataFrame]:
    """Return the vectors of the queries, and the queries with the side in the names of columns.

    A query without a direction, as of words that LSA does not know, has no neighbour: it is left
    out.
    """
    texts = queries["text"].tolist()
    starts = range(0, max(len(texts), 1), AT_ONCE)
    blocks = [encode(texts[start : start + AT_ONCE]) for start in starts]
    vectors = np.concatenate(blocks)
    has_direction = np.linalg.norm(vectors, axis=1) > 0
    return vectors[has_direction], _with_side(queries[has_direction], side)


def write(found: Audit, folder: Path) -> list[Path]:
    """Write shares, seen, pairs, near (CSV), drop_test.txt, drop_train.txt; return their paths.

    The last two have a query_id a line.
    """
    files = {
        "shares.csv": found.shares.to_csv(index=False, float_format="%.6g"),
        "seen.csv": found.seen.to_csv(index=False),
        "pairs.csv": found.pairs.to_csv(index=False, float_format="%.6g"),
        "near.csv": found.near.to_csv(index=False, float_format="%.6g"),
        "drop_test.txt": _lines(found.test_queries),
        DROP_TRAIN: _lines(found.train_queries),
    }
    return [write_text(folder / name, text) for name, text in files.items()]


def _lines(query_ids: list[str]) -> str:
    """Return a text of a query_id a line."""
    return "".join(f"{query_id}\n" for query_id in query_ids)

"""Notebook 12: an audit of a user's training and test queries says, without a model, what was seen
before.
"""

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Passages
from interextra.data.load import data_folder, open_collection
from interextra.data.msmarco import QuerySets
from interextra.data.texts import normalised
from interextra.data.trec import QRELS_COLUMNS, read_qrels, read_queries_tsv
from interextra.models.encoders import encoder_of
from interextra.overlap.labels import label_overlap, shared_passages
from interextra.overlap.text import text_jaccard, tokens
from interextra.papers.releases import gather_training_qrels
from interextra.splits.similarity import nearest
from interextra.store import InputError, offenders, write_text

NEIGHBOURS = 20  # training queries compared with each test query: the nearest by cosine
TEXT = "text"  # how relevant passages are known
BATCH = 10_000  # passages whose texts are looked at at once
COLUMNS = {
    "query": ("anchor", "query", "question"),
    "positive": ("positive", "answer", "passage", "document"),
}
ZERO_SHOT = "zero-shot: neither a near-duplicate nor a shared passage"


class Asked(NamedTuple):
    """The queries of one side of an audit, with what is relevant to them."""

    name: str  # of the data set
    queries: pd.DataFrame  # query_id, text
    qrels: pd.DataFrame | None  # query_id, doc_id, relevance; None: not given
    passages: Passages | None = None  # what a training may draw negatives from; None: not given
    # fingerprint of the collection whose ids the qrels have, TEXT, or nothing: ids of qrels files
    known_by: str = ""

    @property
    def has_texts(self) -> bool:
        """Whether the texts of its relevant passages are there; so they are where it has none."""
        return self.qrels is None or self.known_by == TEXT or self.passages is not None

    def by_text(self) -> "Asked":
        """With relevant passages known by their texts, `normalised`: a copy under another id is the
        same passage.
        """
        if self.qrels is None:
            return self
        if self.known_by == TEXT:
            return self._replace(
                qrels=self.qrels.assign(doc_id=self.qrels["doc_id"].map(normalised))
            )
        if self.passages is None:
            raise InputError(
                f"{self.name}: passages known by id, those of the other side by text; give a collection"
            )
        rows = np.asarray(self.passages.rows(self.qrels["doc_id"].tolist()))
        if unknown := self.qrels["doc_id"][rows < 0].unique().tolist():
            raise InputError(
                f"{self.name}: judges {len(unknown)} passages that it lacks: {offenders(unknown)}"
            )
        texts = list(map(normalised, self.passages.texts(rows)))
        return self._replace(qrels=self.qrels.assign(doc_id=texts), known_by=TEXT)

    def holds(self, passages: pd.Series) -> pd.Series:
        """Which of these relevant passages, as the qrels name them, a training on this side can
        draw.
        """
        if self.known_by != TEXT:
            return pd.Series(self.passages.rows(passages) >= 0, passages.index)
        wanted, found = set(passages), set()
        for _, texts in self.passages.batches(BATCH):
            found |= wanted.intersection(map(normalised, texts))
        return passages.isin(found)


class Audit(NamedTuple):
    shares: pd.DataFrame  # test queries: what, n, of, percent, low, high (Wilson's 95 % interval)
    pairs: (
        pd.DataFrame
    )  # a row a test query, most similar first: both ids and texts, cosine, words (Jaccard), shared
    test_queries: list[
        str
    ]  # to drop for a clean split: near-duplicates, and those that share a relevant passage
    train_queries: list[str]  # to drop instead


def read(given: str, split: str) -> Asked:
    """The queries of SPEC or SPEC@SPLIT (else of `split`), QUERIES.tsv or QUERIES.tsv,QRELS,
    datasets:FOLDER.

    A `datasets` folder has a column of queries and one of positives (`COLUMNS`); a positive is
    known by its text. InputError: no such file, folder, column or split.
    """
    place, named = re.fullmatch(r"(.*?)(?:@([\w-]+))?", given, re.DOTALL).groups(default="")
    (path, _, qrels), split = place.partition(","), named or split
    if Path(path).is_file():
        queries, judged = read_queries_tsv(path), read_qrels(qrels) if qrels else None
        judged = judged if judged is None else judged[judged["query_id"].isin(queries["query_id"])]
        if judged is not None and judged.empty:
            raise InputError(f"{qrels}: judges none of the queries of {path}")
        return Asked(path, queries, judged)
    if ":" not in path and path.endswith((".tsv", ".txt", ".gz")):
        raise InputError(f"{path}: no such file; check the path")
    if place.startswith("datasets:"):
        return _of_datasets(place.removeprefix("datasets:"), split)
    found = open_collection(place)
    queries, is_gathered = found.queries(split), isinstance(found, QuerySets) and split == "train"
    judged = gather_training_qrels(data_folder()) if is_gathered else found.qrels(split)
    return Asked(found.name, queries, judged, found.passages or None, found.fingerprint)


def _of_datasets(folder: str, split: str) -> Asked:
    from datasets import DatasetDict, load_from_disk

    try:
        data = load_from_disk(folder)
    except Exception as error:  # whatever the library raises on files that are none of its own
        raise _unreadable(folder, error) from None
    if isinstance(data, DatasetDict):
        if split not in data:
            raise InputError(f"datasets:{folder}: no split {split!r}; it has {', '.join(data)}")
        data = data[split]
    found = {
        what: next((name for name in names if name in data.column_names), "")
        for what, names in COLUMNS.items()
    }
    if not all(found.values()):
        wanted = " and ".join("/".join(names) for names in COLUMNS.values())
        raise InputError(
            f"datasets:{folder}: columns {offenders(data.column_names)}; it needs {wanted}"
        )
    try:
        frame = data.select_columns(list(found.values())).to_pandas()
    except Exception as error:  # damaged rows are met only here
        raise _unreadable(folder, error) from None
    is_text = frame.map(lambda value: isinstance(value, str)).all(axis=1)
    if frame.empty or not is_text.all():
        rows = offenders(np.flatnonzero(~is_text).tolist()) or "there is none"
        raise InputError(
            f"datasets:{folder}: each row needs a text in {' and '.join(found.values())}; rows: {rows}"
        )
    rows = pd.DataFrame(
        {"text": frame[found["query"]], "doc_id": frame[found["positive"]], "relevance": 1}
    )
    rows["query_id"] = pd.factorize(rows["text"])[0].astype(str)
    queries, qrels = (
        rows[names].drop_duplicates(ignore_index=True)
        for names in (["query_id", "text"], QRELS_COLUMNS)
    )
    return Asked(folder, queries, qrels, known_by=TEXT)


def _unreadable(folder: str, error: Exception) -> InputError:
    told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
    return InputError(
        f"datasets:{folder}: cannot be read ({told}); give a folder of `save_to_disk`"
    )


def audit(train: Asked, test: Asked, encoder: str = "lsa", near: float = 0.8) -> Audit:
    """What of the test queries was seen in training: their words, their relevant passages, their
    answers as negatives.

    encoder : finds the `NEIGHBOURS` of each test query, see `models.encoders`; lsa is fitted on the
    training queries. near : share of common words (Jaccard) from which a neighbour is a
    near-duplicate; equal words always are.

    An exposed answer is a passage of training, but relevant to no training query: it can only be a
    negative. Zero-shot queries have no near-duplicate and share no relevant passage; MTEB's flag
    compares names of data sets.
    """
    from statsmodels.stats.proportion import proportion_confint

    for side in (train, test):
        if not side.queries["text"].map(tokens).any():
            raise InputError(
                f"{side.name}: none of {len(side.queries)} queries holds a word; nothing can be compared"
            )
    kinds = (train.known_by, test.known_by)
    is_foreign = kinds[0] != kinds[1] and (all(kinds) or TEXT in kinds)  # ids of two collections
    if is_foreign or (
        train.has_texts and test.has_texts
    ):  # which also finds copies under other ids
        train, test = train.by_text(), test.by_text()
    pairs = neighbours(train.queries, test.queries, encoder)
    pairs["words"] = text_jaccard(pairs["test_query"], pairs["train_query"])
    alike = pairs[pairs["words"] >= near]
    ids, texts = test.queries["query_id"], (part.queries["text"] for part in (test, train))
    words, known = (
        text.map(lambda one: " ".join(sorted(tokens(one)))) for text in texts
    )  # a text's set of words
    same = words.isin(known) & (words != "")
    close, shared = same | ids.isin(alike["test_query_id"]), same & False
    seen = known.isin(words[words != ""]) | near_duplicates(
        train.queries["text"], alike["test_query"].unique(), near
    )
    to_drop = set(train.queries["query_id"][seen])
    closest = pairs.drop_duplicates("test_query_id").sort_values(
        ["words", "cosine"], ascending=False
    )
    counts = {"same words as a training query": same.sum()}
    counts[f"near-duplicate of a training query (Jaccard {near:g} or more)"] = close.sum()
    if train.qrels is not None and test.qrels is not None:
        answers = test.qrels[test.qrels["query_id"].isin(ids)]
        judged = answers.assign(
            query_id="test " + answers["query_id"]
        )  # the ids of both sides may coincide
        grades = sorted(judged.loc[judged["relevance"] >= 1, "relevance"].unique())
        for row in label_overlap(judged, train.qrels, grades or [1]).itertuples():
            what = f"shares {row.min_shared} or more passages of relevance {row.relevance_threshold} or more"
            counts[what] = row.n_overlapping
        passages = ids.radd("test ").map(shared_passages(judged, train.qrels, [1])[1]).set_axis(ids)
        shared, closest["shared"] = (
            passages.gt(0).to_numpy(),
            closest["test_query_id"].map(passages),
        )
        answers = answers[answers["relevance"] >= 1]
        taught = (
            train.qrels[train.qrels["relevance"] >= 1]
            if "relevance" in train.qrels
            else train.qrels
        )
        to_drop |= set(taught.loc[taught["doc_id"].isin(answers["doc_id"]), "query_id"])
        if train.passages is not None:
            free = answers[~answers["doc_id"].isin(taught["doc_id"])]
            drawable = free["query_id"][train.holds(free["doc_id"])]
            counts["an answer is exposed: training can draw it as a negative only"] = (
                drawable.nunique()
            )
    counts[ZERO_SHOT] = (~close & ~shared).sum()
    shares = pd.DataFrame({"what": counts.keys(), "n": counts.values(), "of": len(ids)})
    low, high = proportion_confint(shares["n"], shares["of"], method="wilson")
    shares = shares.assign(percent=100 * shares["n"] / shares["of"], low=100 * low, high=100 * high)
    return Audit(
        shares, closest.reset_index(drop=True), ids[close | shared].tolist(), sorted(to_drop)
    )


def near_duplicates(train: pd.Series, test: np.ndarray, near: float) -> np.ndarray:
    """Which training texts have this share of their words in common with some test text:
    bool[n_train].
    """
    from sklearn.feature_extraction.text import CountVectorizer

    found = np.zeros(len(train), bool)
    if len(test):
        counts = CountVectorizer(analyzer=tokens, binary=True).fit_transform([*train, *test])
        trained, sizes = counts[: len(train)], np.asarray(counts.sum(axis=1)).ravel()
        for block in range(
            len(train), counts.shape[0], 64
        ):  # a block's products in memory, never all of them
            asked = slice(block, block + 64)
            shared = (trained @ counts[asked].T).tocoo()
            both = sizes[shared.row] + sizes[asked][shared.col] - shared.data
            found[shared.row[shared.data >= near * both]] = True
    return found


def neighbours(train: pd.DataFrame, test: pd.DataFrame, encoder: str) -> pd.DataFrame:
    """Nearest training queries of each test query: test_query_id, test_query, train_query_id,
    train_query, cosine.
    """
    kind, option = encoder_of(encoder)
    encode, found = kind(option, train["text"].tolist()).encode_queries, []
    for side, part in (("test", test), ("train", train)):
        vectors = encode(part["text"].tolist())
        directed = (
            np.linalg.norm(vectors, axis=1) > 0
        )  # others, as of words that LSA does not know, have no neighbour
        columns = {"query_id": f"{side}_query_id", "text": f"{side}_query"}
        found.append((vectors[directed], part.loc[directed, [*columns]].rename(columns=columns)))
    (asked, test), (pool, train) = found
    if not len(asked) or not len(pool):
        return pd.concat([test[:0], train[:0]], axis=1).assign(cosine=0.0)
    cosines, rows = nearest(asked, pool, NEIGHBOURS)
    pairs = test.iloc[np.repeat(np.arange(len(test)), rows.shape[1])], train.iloc[rows.ravel()]
    return pd.concat([part.reset_index(drop=True) for part in pairs], axis=1).assign(
        cosine=cosines.ravel()
    )


def write(found: Audit, folder: Path) -> list[Path]:
    """Write shares.csv, pairs.csv, drop_test.txt and drop_train.txt (a query_id a line); returns
    their paths.
    """
    files = {
        f"{name}.csv": getattr(found, name).to_csv(index=False, float_format="%.6g")
        for name in found._fields[:2]
    }
    for side in ("test", "train"):
        files[f"drop_{side}.txt"] = "".join(
            f"{query_id}\n" for query_id in getattr(found, f"{side}_queries")
        )
    return [write_text(folder / name, text) for name, text in files.items()]

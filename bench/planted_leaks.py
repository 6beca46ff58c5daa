"""Measure how many planted leaks the audit finds, a kind of leak a row, and how many others.

Ten of each kind are planted among 2,000 test queries of a generated world whose intents and answers
are not of training, or among those of MedQuAD on other diseases. Worlds and seeds of the first half
choose the share of common words, those of the second half confirm it. Run: python
bench/planted_leaks.py [--small] [SPEC of MedQuAD]
"""

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import pandas as pd

from interextra.data.collection import Passages, write_passages
from interextra.data.load import open_collection
from interextra.data.medquad import with_truth
from interextra.overlap.near import words_in_order
from interextra.own.audit import NEAR, Side, audit
from interextra.stats.tests import wilson
from interextra.world import generate
from interextra.world.templates import domain, load

OF_A_KIND = 10
N_UNLEAKED = 2_000
SMALL = 200
LEAST_WORDS = 4  # of a query whose words are changed
# No other world of the kit has these seeds, and none was looked at when the default was chosen.
CHOOSING = (5101, 5102, 5103, 5104)
CONFIRMING = (5105, 5106, 5107, 5108)
GRID = (0.95, 0.9, 0.85, 0.8, 0.6)  # shares of common words
WANTED = 0.99  # precision
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
FINDS_ALL = ("exact", "case", "punctuation", "hyphen", "digits", "shared id", "copied passage")
Names = list[list[str]]  # names of one thing each
# of what MedQuAD's questions ask for
MEDICAL_NAMES = [
    ["symptoms", "signs"],
    ["treatments", "therapies", "remedies"],
    ["genetic changes", "mutations"],
    ["outlook", "prognosis"],
    ["complications", "consequences"],
    ["causes", "leads to"],
    ["diagnose", "detect"],
    ["prevent", "avoid"],
    ["inherited", "hereditary"],
]


class Source(NamedTuple):
    """Queries with an answer each, of which some will train and others test."""

    name: str
    queries: pd.DataFrame  # text, doc_id, topics (set): without a common one, two are no leak
    passages: dict[str, str]
    names: Names


class Planted(NamedTuple):
    """Two sides of an audit, and the kind of leak of each test query, "" for none."""

    train: Side
    test: Side
    kinds: pd.Series  # by query_id


def of_world(seed: int) -> Source:
    """Return the queries of a generated world; the topic is the intent."""
    world = generate("mini", seed=seed)
    queries = _with_answers(world.queries["train"], world.qrels["train"])
    topics = [{intent} for intent in queries["intent"]]
    nouns = []
    for file in load("common.yaml")["domains"]:
        attributes = domain(f"{file}.yaml")["attributes"].values()
        nouns += [attribute["nouns"] for attribute in attributes]
    return Source("worlds", queries.assign(topics=topics), dict(world.passages), nouns)


def of_medquad(spec: str) -> Source:
    """Return the training queries of MedQuAD; the topics are the disease's concepts and its name.

    A few diseases have two entries without a common concept, whose names differ in hyphens, in
    case or in the order of words only: the name is a set of words.
    """
    collection = open_collection(spec)
    queries = with_truth(collection.queries("train"))
    queries = queries.drop_duplicates("text")
    names = [" ".join(sorted(words_in_order(focus))) for focus in queries["focus"]]
    pairs = zip(names, queries["entities"], strict=True)
    topics = [{name, *concepts} for name, concepts in pairs]
    answered = _with_answers(queries.assign(topics=topics), collection.qrels("train"))
    doc_ids = collection.passages.doc_ids.to_pylist()
    texts = collection.passages.texts(slice(None))
    passages = dict(zip(doc_ids, texts, strict=True))
    return Source("MedQuAD", answered, passages, MEDICAL_NAMES)


def _with_answers(queries: pd.DataFrame, qrels: pd.DataFrame) -> pd.DataFrame:
    """Return the queries with a relevant passage each."""
    answers = qrels.drop_duplicates("query_id")[["query_id", "doc_id"]]
    return queries.merge(answers, on="query_id")


def _in_capitals(text: str, rng: Random) -> str:
    return text.upper()


def _punctuated(text: str, rng: Random) -> str:
    return "\u201c" + text.replace(" ", ", ", 1) + "\u201d?!"


def _hyphenated(text: str, rng: Random) -> str:
    return text.replace(" ", rng.choice(["-", "\u2011"]), 1)


def _reordered(text: str, rng: Random) -> str:
    words = text.split()
    return " ".join(words[1:] + words[:1])


def _with_word_changed(text: str, rng: Random) -> str:
    return _changed(text, 1, rng)


def _with_two_words_changed(text: str, rng: Random) -> str:
    return _changed(text, 2, rng)


def _changed(text: str, n: int, rng: Random) -> str:
    """Return the text with n of its words replaced by one that no query has."""
    words = text.split()
    for place in rng.sample(range(len(words)), n):
        words[place] = f"replaced{place}"
    return " ".join(words)


def _in_other_digits(text: str, rng: Random) -> str:
    return text.translate(ARABIC)


def _paraphrased(names: Names, text: str, rng: Random) -> str:
    """Return the text with one of these names replaced by another one of the same thing."""
    name, *others = _names_in(names, text)
    return re.sub(rf"\b{re.escape(name)}\b", rng.choice(others), text)


def _names_in(names: Names, text: str) -> list[str]:
    """Return the first of the names that the text has, and the others of it; nothing for none."""
    for of_thing in names:
        found = [name for name in of_thing if re.search(rf"\b{re.escape(name)}\b", text)]
        others = [name for name in of_thing if name not in found]
        if found and others:
            return [max(found, key=len), *others]
    return []


def _is_long(text: str) -> bool:
    return len(text.split()) >= LEAST_WORDS


def _has_digits(text: str) -> bool:
    return text[-1].isdigit()


Edit = Callable[[str, Random], str]


def _edits_of_queries(names: Names) -> dict[str, tuple[Edit, Callable[[str], object]]]:
    """Return how each kind of leak edits a query, and which queries it can edit."""
    return {
        "exact": (lambda text, rng: text, _is_long),
        "case": (_in_capitals, _is_long),
        "punctuation": (_punctuated, _is_long),
        "hyphen": (_hyphenated, _is_long),
        "reordered": (_reordered, _is_long),
        "one word changed": (_with_word_changed, _is_long),
        "two words changed": (_with_two_words_changed, _is_long),
        "paraphrase": (partial(_paraphrased, names), partial(_names_in, names)),
        "digits": (_in_other_digits, _has_digits),
    }


def _edited(text: str, rng: Random) -> str:
    """Return a passage without its last word and with two others replaced."""
    return _changed(" ".join(text.split()[:-1]), 2, rng)


OF_PASSAGES: dict[str, Edit] = {
    "shared id": lambda text, rng: text,
    "copied passage": lambda text, rng: text.replace(" ", "  ", 1),
    "copied passage with edits": _edited,
}


def planted(folder: Path, source: Source, n_unleaked: int, seed: int = 1) -> Planted:
    """Return training and test queries of which `OF_A_KIND` of each kind leak."""
    rng = Random(seed)
    train, others = _apart(source.queries, rng)
    # queries with a year at their end, whose digits can be written otherwise
    is_dated = train.index < 3 * OF_A_KIND
    train["text"] = train["text"].where(~is_dated, train["text"] + " in 1984")
    rows: list[tuple[str, str, str]] = []  # kind, text, doc_id
    added: dict[str, str] = {}
    used: set[str] = set()
    for kind, (edit, fits) in _edits_of_queries(source.names).items():
        unused = sorted(set(train["text"]) - used)
        rng.shuffle(unused)
        chosen = list(islice(filter(fits, unused), OF_A_KIND))
        used.update(chosen)
        for text in chosen:
            doc_id = f"new{len(added)}"
            added[doc_id] = f"A passage of its own, number {doc_id}."
            rows.append((kind, edit(text, rng), doc_id))
    n_asked = n_unleaked + len(OF_PASSAGES) * OF_A_KIND
    asked = others.head(n_asked).to_dict("records")
    for kind, copy in OF_PASSAGES.items():
        for doc_id in rng.sample(sorted(set(train["doc_id"])), OF_A_KIND):
            name = doc_id
            if kind != "shared id":
                name = f"new{len(added)}"
                added[name] = copy(source.passages[doc_id], rng)
            rows.append((kind, asked.pop()["text"], name))
    rows += [("", query["text"], query["doc_id"]) for query in asked]
    test = pd.DataFrame(rows, columns=["kind", "text", "doc_id"])
    test["query_id"] = [f"t{number}" for number in range(len(test))]
    path = folder / "passages.arrow"
    fingerprint = write_passages(path, (source.passages | added).items())
    passages = Passages(path)
    sides = [
        Side(name, table[["query_id", "text"]], _qrels(table), passages, fingerprint)
        for name, table in (("train", train), ("test", test))
    ]
    return Planted(*sides, kinds=test.set_index("query_id")["kind"])


def _qrels(table: pd.DataFrame) -> pd.DataFrame:
    return table[["query_id", "doc_id"]].assign(relevance=1)


def _apart(queries: pd.DataFrame, rng: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return queries of two halves without a common topic or answer, the second one shuffled."""
    topics = sorted(set(chain.from_iterable(queries["topics"])))
    rng.shuffle(topics)
    held = set(topics[: int(0.55 * len(topics))])
    is_held = queries["topics"].map(held.issuperset)
    is_apart = queries["topics"].map(held.isdisjoint)
    train = queries[is_apart].reset_index(drop=True)
    others = queries[is_held & ~queries["doc_id"].isin(train["doc_id"])]
    order = list(range(len(others)))
    rng.shuffle(order)
    return train, others.iloc[order].reset_index(drop=True)


def recall(data: Planted, near: float, near_passages: float = 1.0) -> pd.DataFrame:
    """Return what the audit finds: kind, n, found; "" is the kind of queries that are no leak."""
    found = audit(data.train, data.test, near=near, near_passages=near_passages).test_queries
    is_found = pd.Series(data.kinds.index.isin(found), data.kinds.index)
    table = is_found.groupby(data.kinds, sort=False).agg(["size", "sum"])
    return table.set_axis(["n", "found"], axis=1).rename_axis("kind").reset_index()


def precision(table: pd.DataFrame) -> float:
    """Return the share of leaks among what was found."""
    n_leaks = table["found"][table["kind"] != ""].sum()
    return n_leaks / table["found"].sum()


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the shares that were found, and Wilson's 95 % intervals of them."""
    low, high = wilson(table["found"], table["n"])
    shares = {"share": table["found"] / table["n"], "low": low, "high": high}
    return table.assign(**shares)


def _sources(seeds: tuple[int, ...], medquad: str) -> Iterator[tuple[Source, int]]:
    """Yield each source and the seed of what is planted in it."""
    for seed in seeds:
        yield of_world(seed), seed
    if medquad:
        source = of_medquad(medquad)
        for seed in seeds:
            yield source, seed


def measured(seeds: tuple[int, ...], medquad: str, n_unleaked: int) -> pd.DataFrame:
    """Return what is found: collection, near, near_passages, kind, n, found; seeds added up."""
    shares = [(near, 1.0) for near in GRID] + [(NEAR, 0.8)]
    tables = []
    for source, seed in _sources(seeds, medquad):
        with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
            data = planted(Path(name), source, n_unleaked, seed)
            for near, near_passages in shares:
                table = recall(data, near, near_passages)
                labels = {"collection": source.name, "near": near, "near_passages": near_passages}
                tables.append(table.assign(**labels))
    labels = ["collection", "near", "near_passages", "kind"]
    found = pd.concat(tables).groupby(labels, sort=False)[["n", "found"]]
    return found.sum().reset_index()


def precisions(found: pd.DataFrame) -> pd.DataFrame:
    """Return the precision of each share of common words, with Wilson's 95 % interval."""
    leaks = found.assign(leaks=found["found"].where(found["kind"] != "", 0))
    sums = leaks.groupby(["collection", "near", "near_passages"], sort=False)
    table = sums[["found", "leaks"]].sum().reset_index()
    columns = {"found": "n", "leaks": "found"}
    return with_intervals(table.rename(columns=columns))


def chosen(table: pd.DataFrame) -> float:
    """Return the lowest share of common words with the wanted precision in all collections."""
    by_text = table[table["near_passages"] == 1]
    least = by_text.groupby("near")["share"].min()
    return float(least[least >= WANTED].index.min())


def main(n_unleaked: int, n_worlds: int, medquad: str) -> None:
    """Print what is found in both halves, and the share that the first half chooses."""
    for half, seeds in (("choosing", CHOOSING), ("confirming", CONFIRMING)):
        found = measured(seeds[:n_worlds], medquad, n_unleaked)
        table = precisions(found)
        print(f"\n{half}: seeds {seeds[:n_worlds]}; precision")
        print(table.to_string(index=False, float_format="%.3f"))
        if seeds is CHOOSING:
            print(f"lowest share of words with precision {WANTED:g} or more: {chosen(table):g}")
        by_default = found[found["near"] == NEAR].replace({"kind": {"": "none"}})
        print(with_intervals(by_default).to_string(index=False, float_format="%.3f"))


if __name__ == "__main__":
    specs = [text for text in sys.argv[1:] if text != "--small"]
    sizes = (SMALL, 1) if "--small" in sys.argv else (N_UNLEAKED, len(CHOOSING))
    main(*sizes, *specs or [""])

"""Measure how many planted leaks the audit finds, a kind of leak a row, and how many others.

Ten of each kind are planted among 2,000 test queries of the generated world whose intents and
answers are not of training. Run: python bench/planted_leaks.py [--small]
"""

import re
import sys
import tempfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random
from typing import NamedTuple

import pandas as pd

from interextra.data.collection import Passages, write_passages
from interextra.own.audit import Side, audit
from interextra.world import generate
from interextra.world.generate import World
from interextra.world.templates import domain, load

OF_A_KIND = 10
N_UNLEAKED = 2_000
SMALL = 200
LEAST_WORDS = 4  # of a query whose words are changed
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
FINDS_ALL = ("exact", "case", "punctuation", "hyphen", "digits", "shared id", "copied passage")


class Planted(NamedTuple):
    """Two sides of an audit, and the kind of leak of each test query, "" for none."""

    train: Side
    test: Side
    kinds: pd.Series  # by query_id


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


def _paraphrased(text: str, rng: Random) -> str:
    """Return the text with the name of an attribute replaced by another one of the world's."""
    names = _names_in(text)
    return re.sub(rf"\b{re.escape(names[0])}\b", rng.choice(names[1:]), text)


def _names_in(text: str) -> list[str]:
    """Return a name of an attribute that the text has, and its other names; nothing for none."""
    for file in load("common.yaml")["domains"]:
        for attribute in domain(f"{file}.yaml")["attributes"].values():
            nouns = attribute["nouns"]
            found = [noun for noun in nouns if re.search(rf"\b{re.escape(noun)}\b", text)]
            others = [noun for noun in nouns if noun not in found]
            if found and others:
                return [max(found, key=len), *others]
    return []


def _any(text: str) -> bool:
    return len(text.split()) >= LEAST_WORDS


def _has_digits(text: str) -> bool:
    return text[-1].isdigit()


def _has_names(text: str) -> bool:
    return bool(_names_in(text))


Edit = Callable[[str, Random], str]
OF_QUERIES: dict[str, tuple[Edit, Callable[[str], bool]]] = {
    "exact": (lambda text, rng: text, _any),
    "case": (_in_capitals, _any),
    "punctuation": (_punctuated, _any),
    "hyphen": (_hyphenated, _any),
    "reordered": (_reordered, _any),
    "one word changed": (_with_word_changed, _any),
    "two words changed": (_with_two_words_changed, _any),
    "paraphrase": (_paraphrased, _has_names),
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


def planted(folder: Path, n_unleaked: int, seed: int = 1) -> Planted:
    """Return training and test queries of which `OF_A_KIND` of each kind leak."""
    rng = Random(seed)
    world = generate("mini")
    train, others = _apart(world, rng)
    # queries with a year at their end, whose digits can be written otherwise
    is_dated = train.index < 3 * OF_A_KIND
    train["text"] = train["text"].where(~is_dated, train["text"] + " in 1984")
    texts = dict(world.passages)
    rows: list[tuple[str, str, str]] = []  # kind, text, doc_id
    added: dict[str, str] = {}
    used: set[str] = set()
    for kind, (edit, fits) in OF_QUERIES.items():
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
                added[name] = copy(texts[doc_id], rng)
            rows.append((kind, asked.pop()["text"], name))
    rows += [("", query["text"], query["doc_id"]) for query in asked]
    test = pd.DataFrame(rows, columns=["kind", "text", "doc_id"])
    test["query_id"] = [f"t{number}" for number in range(len(test))]
    path = folder / "passages.arrow"
    fingerprint = write_passages(path, (texts | added).items())
    passages = Passages(path)
    sides = [
        Side(name, table[["query_id", "text"]], _qrels(table), passages, fingerprint)
        for name, table in (("train", train), ("test", test))
    ]
    return Planted(*sides, kinds=test.set_index("query_id")["kind"])


def _qrels(table: pd.DataFrame) -> pd.DataFrame:
    return table[["query_id", "doc_id"]].assign(relevance=1)


def _apart(world: World, rng: Random) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return queries with an answer each, of two halves without a common intent or answer."""
    qrels = world.qrels["train"].drop_duplicates("query_id")
    queries = world.queries["train"].merge(qrels, on="query_id")
    intents = sorted(set(queries["intent"]))
    rng.shuffle(intents)
    held = set(intents[: int(0.55 * len(intents))])
    is_held = queries["intent"].isin(held)
    train = queries[~is_held].reset_index(drop=True)
    others = queries[is_held & ~queries["doc_id"].isin(train["doc_id"])]
    return train, others.reset_index(drop=True)


def recall(data: Planted, near: float, near_passages: float = 1.0) -> pd.DataFrame:
    """Return what the audit finds: kind, n, found; the last row is of the queries that leak not."""
    found = audit(data.train, data.test, near=near, near_passages=near_passages).test_queries
    is_found = pd.Series(data.kinds.index.isin(found), data.kinds.index)
    table = is_found.groupby(data.kinds, sort=False).agg(["size", "sum"])
    return table.set_axis(["n", "found"], axis=1).rename_axis("kind").reset_index()


def precision(table: pd.DataFrame) -> float:
    """Return the share of leaks among what was found."""
    n_leaks = table["found"][table["kind"] != ""].sum()
    return n_leaks / table["found"].sum()


def main(n_unleaked: int) -> None:
    """Print the table of kinds at several shares of common words."""
    with tempfile.TemporaryDirectory(prefix="interextra-bench-") as name:
        data = planted(Path(name), n_unleaked)
        print(f"{len(data.train.queries):,} training queries, {len(data.kinds):,} test queries")
        for near, near_passages in ((0.9, 1.0), (0.9, 0.8), (0.8, 1.0), (0.6, 1.0)):
            table = recall(data, near, near_passages)
            shares = f"queries at {near:g}, passages at {near_passages:g}"
            print(f"\n{shares} (precision {precision(table):.3f})")
            print(table.replace({"kind": {"": "none"}}).to_string(index=False))


if __name__ == "__main__":
    main(SMALL if sys.argv[1:2] == ["--small"] else N_UNLEAKED)

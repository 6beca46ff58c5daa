"""Near-duplicates of training queries among test queries: exact, beside MinHash.

Every tenth test query is a training query with its words in another order.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from near_duplicates import texts

from .form import SEED, Case, DifferentError, Peer, Sizes

N_TEST = 1000
NEAR = 0.8  # share of common words
PERMUTATIONS = 128
LEAST_FOUND = 0.8  # of ours, by hashing

Rows = np.ndarray  # of test queries


def made_up(n: int) -> tuple[list[str], list[str]]:
    """Return training queries and test queries."""
    rng = np.random.default_rng(SEED)
    n_test = min(N_TEST, n)
    train = texts(rng, n, 2, 10)
    test = texts(rng, n_test, 2, 10)
    for row in range(0, n_test, 10):
        words = train[row].split()
        test[row] = " ".join(reversed(words))
    return train, test


def ours(n: int, folder: Path) -> Callable[[], Rows]:
    """Find all of them by the kit."""
    from interextra.overlap.near import near_rows

    train, test = made_up(n)
    planted = range(0, len(test), 10)

    def work() -> Rows:
        """Return the rows."""
        found = near_rows(train, test, NEAR)["test"].unique()
        if not set(planted) <= set(found.tolist()):
            raise DifferentError("a planted duplicate is not found")
        return found

    return work


def is_near(left: str, right: str) -> bool:
    """Return whether two texts share enough words."""
    left_words = set(left.split())
    right_words = set(right.split())
    n_common = len(left_words & right_words)
    return n_common >= NEAR * len(left_words | right_words)


def with_datasketch(n: int, folder: Path) -> Callable[[], Rows]:
    """Find them by MinHash and locality-sensitive hashing; what it gives is compared by words."""
    from datasketch import MinHash, MinHashLSH

    train, test = made_up(n)

    def sketch(text: str) -> MinHash:
        """Return the hash of a text."""
        hashed = MinHash(num_perm=PERMUTATIONS)
        words = [word.encode() for word in text.split()]
        hashed.update_batch(words)
        return hashed

    def work() -> Rows:
        """Return the rows."""
        index = MinHashLSH(threshold=NEAR, num_perm=PERMUTATIONS)
        for row, text in enumerate(train):
            index.insert(row, sketch(text))
        found = []
        for row, text in enumerate(test):
            candidates = index.query(sketch(text))
            if any(is_near(text, train[candidate]) for candidate in candidates):
                found.append(row)
        return np.array(found)

    return work


def with_text_dedup(n: int, folder: Path) -> Callable[[], Rows]:
    """Find them by text-dedup's command, which of two like texts leaves the first out.

    It is no extra of the kit: it asks for other versions of what the kit needs. Without these:
    pip install --no-deps text-dedup click-option-group ftfy bitarray
    """
    from datasets import Dataset, load_from_disk
    from text_dedup import logger
    from text_dedup.minhash import main

    logger.setLevel("WARNING")
    train, test = made_up(n)
    both = [*test, *train]
    rows = list(range(len(both)))
    data = Dataset.from_dict({"text": both, "row": rows})
    data.save_to_disk(folder / "texts")
    options = {
        "path": folder / "texts",
        "column": "text",
        "ngram": 1,
        "min_length": 1,
        "num_perm": PERMUTATIONS,
        "threshold": NEAR,
        "num_proc": 1,
    }
    settings = [f"--{name}={value}" for name, value in options.items()]

    def work() -> Rows:
        """Return the rows."""
        out = tempfile.mkdtemp(dir=folder)
        arguments = ["--local", *settings, f"--output={out}"]
        main.main(args=arguments, standalone_mode=False)
        kept = load_from_disk(out)["row"]
        return np.setdiff1d(np.arange(len(test)), kept)

    return work


def share_found(ours: Rows, theirs: Rows) -> str:
    """Say how many of ours the peer finds, and how many others."""
    n_common = len(np.intersect1d(ours, theirs))
    n_others = len(theirs) - n_common
    sentence = f"finds {n_common} of our {len(ours)} test queries, and {n_others} others"
    if n_common < LEAST_FOUND * len(ours):
        raise DifferentError(sentence)
    return sentence


# what is imported once, before processes start
IMPORTS = ("datasets", "interextra.overlap.near")
CASES = [
    Case(
        "near-duplicates, 1,000 test queries",
        "training queries",
        Sizes(200, 40_000, 500_000),
        ours,
        {
            "datasketch": Peer(with_datasketch, ("datasketch",)),
            "text-dedup": Peer(with_text_dedup, ("text_dedup",)),
        },
        share_found,
    )
]

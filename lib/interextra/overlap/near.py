"""Near-duplicate queries: all pairs of test and training queries that share most of their words.

The search is exact. Two texts with a Jaccard similarity of at least `near` must share one of the
rarest words of each (Chaudhuri et al., ICDE 2006; Bayardo et al., WWW 2007): of n words the first
n - ceil(near * n) + 1. Only texts that do are compared, block by block of test texts.
"""

import sys
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.texts import normalised
from interextra.data.words import words_of
from interextra.store import InputError

POSTINGS = 1_000_000  # pairs of texts with a rare word in common that are looked at at once
ROUNDING = 1e-9
_FIRST_AFTER_ASCII = 128
_DIGITS = {
    code: str(unicodedata.decimal(chr(code)))
    for code in range(_FIRST_AFTER_ASCII, sys.maxunicode + 1)
    if chr(code).isdecimal()
}


def words_in_order(text: str) -> list[str]:
    """Return the words of the `normalised` text; digits of any script are those of ASCII.

    A script without spaces between words is cut into pairs of characters, see `words_of`.

    Examples
    --------
    >>> words_in_order("Opened in \u0661\u0669\u0668\u0664?")
    ['opened', 'in', '1984']
    """
    if not text.isascii():
        text = text.translate(_DIGITS)
    return words_of(normalised(text))


def near_pairs(train: Sequence[str], test: Sequence[str], near: float) -> pd.DataFrame:
    """Return all pairs of a test and a training text that share the share `near` of their words.

    Pairs of the same letters are among them, however hyphens and spaces cut these into words.

    Parameters
    ----------
    near : float
        Least share of common words among those of both (Jaccard), above 0, at most 1.

    Returns
    -------
    DataFrame
        test, train (rows), words (Jaccard), order (the same of words in common that stand in the
        same order in both: 1 for the same text); by test row, the most similar first.

    Raises
    ------
    InputError
        `near` is 0 or less, or above 1.

    Examples
    --------
    >>> near_pairs(["dollars to euros", "e-mail"], ["euros to dollars", "email"], 0.8).round(2)
       test  train  words  order
    0     0      0    1.0    0.2
    1     1      1    0.0    1.0
    """
    if not 0 < near <= 1:
        raise InputError(f"near {near:g}: give a share of common words above 0, at most 1")
    train_words = list(map(words_in_order, train))
    test_words = list(map(words_in_order, test))
    blocks = [_same_letters(train_words, test_words)]
    blocks += _by_words(train_words, test_words, near)
    pairs = pd.concat(blocks, ignore_index=True)
    # a pair of the same letters may be found by its words, too
    pairs = pairs.drop_duplicates(["test", "train"], keep="last", ignore_index=True)
    rows = zip(pairs["test"], pairs["train"], strict=True)
    orders = [_order(test_words[left], train_words[right]) for left, right in rows]
    pairs = pairs.assign(order=np.array(orders, float))
    by = ["test", "words", "order", "train"]
    return pairs.sort_values(by, ascending=[True, False, False, True], ignore_index=True)


def _same_letters(train_words: list[list[str]], test_words: list[list[str]]) -> pd.DataFrame:
    """Return the pairs of rows that have the same letters in the same order: test, train, words."""
    letters = {"test": map("".join, test_words), "train": map("".join, train_words)}
    sides = []
    for side, texts in letters.items():
        table = pd.DataFrame({"letters": list(texts)})
        table[side] = np.arange(len(table))
        sides.append(table[table["letters"] != ""])
    pairs = sides[0].merge(sides[1], on="letters")
    rows = zip(pairs["test"], pairs["train"], strict=True)
    shares = [_jaccard(test_words[left], train_words[right]) for left, right in rows]
    return pairs[["test", "train"]].assign(words=np.array(shares, float))


def _jaccard(left: list[str], right: list[str]) -> float:
    """Return the share of common words among the words of both."""
    n_common = len({*left} & {*right})
    return n_common / len({*left, *right})


class _Words(NamedTuple):
    """The words of texts, as the columns of a matrix with a row a text, the rarest first."""

    matrix: Any  # scipy.sparse.csr_array of 1 and 0, columns of a row ascending
    n_words: np.ndarray  # of each text


def _by_words(
    train_words: list[list[str]], test_words: list[list[str]], near: float
) -> Iterator[pd.DataFrame]:
    """Yield the pairs of rows with a Jaccard similarity of `near`: test, train, words."""
    both = _numbered([*train_words, *test_words])
    n_train = len(train_words)
    rare = _rarest(both, near)
    rare_in_train = rare[:n_train].T.tocsr()
    for block in _blocks(rare[n_train:], rare_in_train):
        candidates = (rare[n_train:][block] @ rare_in_train).tocoo()
        test_rows = candidates.row + block.start
        train_rows = candidates.col
        n_test = both.n_words[n_train:][test_rows]
        n_training = both.n_words[:n_train][train_rows]
        fewer = np.minimum(n_test, n_training)
        is_possible = fewer >= near * np.maximum(n_test, n_training) - ROUNDING
        test_rows = test_rows[is_possible]
        train_rows = train_rows[is_possible]
        n_total = (n_test + n_training)[is_possible]
        products = both.matrix[n_train + test_rows].multiply(both.matrix[train_rows])
        n_common = products.sum(axis=1)
        share = n_common / (n_total - n_common)
        is_near = share >= near
        yield pd.DataFrame(
            {"test": test_rows[is_near], "train": train_rows[is_near], "words": share[is_near]}
        )


def _numbered(texts: list[list[str]]) -> _Words:
    """Return which words each text has; the numbers of words ascend from the rarest."""
    from scipy.sparse import csr_array

    number_of: dict[str, int] = {}
    numbers: list[int] = []
    n_words = np.empty(len(texts), np.int64)
    for row, words in enumerate(texts):
        distinct = set(words)
        n_words[row] = len(distinct)
        numbers += [number_of.setdefault(word, len(number_of)) for word in distinct]
    columns = np.array(numbers, np.int64)
    frequency = np.bincount(columns, minlength=len(number_of))
    rank = np.empty(len(number_of), np.int32)
    rank[np.argsort(frequency, kind="stable")] = np.arange(len(number_of))
    ends = np.concatenate([[0], np.cumsum(n_words)])
    ones = np.ones(len(columns), np.int16)
    matrix = csr_array((ones, rank[columns], ends), (len(texts), len(number_of)))
    matrix.sort_indices()
    return _Words(matrix, n_words)


def _rarest(texts: _Words, near: float) -> Any:
    """Return the matrix of the rarest words of each text, one of which a near-duplicate shares."""
    from scipy.sparse import csr_array

    least_common = np.ceil(near * texts.n_words - ROUNDING).astype(np.int64)
    n_rare = np.minimum(texts.n_words - least_common + 1, texts.n_words)
    starts = texts.matrix.indptr[:-1]
    place = np.arange(texts.matrix.nnz) - np.repeat(starts, texts.n_words)
    is_rare = place < np.repeat(n_rare, texts.n_words)
    ends = np.concatenate([[0], np.cumsum(n_rare)])
    columns = texts.matrix.indices[is_rare]
    return csr_array((texts.matrix.data[is_rare], columns, ends), texts.matrix.shape)


def _blocks(test: Any, train: Any) -> Iterator[slice]:
    """Yield slices of test rows with about `POSTINGS` pairs that share a rare word, or a row."""
    n_texts_of_word = np.diff(train.indptr)
    n_pairs = test @ n_texts_of_word.astype(np.int64)
    block_of = np.cumsum(n_pairs) // POSTINGS
    starts = np.flatnonzero(np.diff(block_of, prepend=-1))
    for start, end in pairwise([*starts, len(block_of)]):
        yield slice(int(start), int(end))


def _order(left: list[str], right: list[str]) -> float:
    """Return the share of words in common that stand in the same order, of the words of both.

    1 where the letters are the same.
    """
    if "".join(left) == "".join(right):
        return 1.0
    lengths = [0] * (len(right) + 1)  # of the longest common subsequence with each beginning
    for word in left:
        before = lengths
        lengths = [0]
        for place, other in enumerate(right):
            longest = max(before[place + 1], lengths[place])
            if word == other:
                longest = before[place] + 1
            lengths.append(longest)
    n_common = lengths[-1]
    return n_common / (len(left) + len(right) - n_common)

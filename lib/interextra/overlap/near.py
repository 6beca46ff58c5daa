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
Texts = list[list[str]]  # the words of each text
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
        same order in both: 1 for the same letters); by test row, the most similar first.

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
    train_words = [words_in_order(text) for text in train]
    test_words = [words_in_order(text) for text in test]
    texts = _numbered([*train_words, *test_words])
    n_train = len(train)
    blocks = [texts.compared(_same_letters(train_words, test_words), n_train)]
    for candidates in _candidates(texts, n_train, near):
        pairs = texts.compared(candidates, n_train)
        blocks.append(pairs[pairs["words"] >= near])
    found = pd.concat(blocks, ignore_index=True)
    # those of the same letters may be found by their words, too
    found = found.drop_duplicates(["test", "train"], ignore_index=True)
    left = [test_words[row] for row in found["test"]]
    right = [train_words[row] for row in found["train"]]
    found["order"] = np.array(list(map(_order, left, right)), float)
    best_first = found.sort_values(["words", "order"], ascending=False, kind="stable")
    return best_first.sort_values(["test"], kind="stable", ignore_index=True)


def _same_letters(train_words: Texts, test_words: Texts) -> pd.DataFrame:
    """Return the pairs of rows that have the same letters in the same order: test, train."""
    train = _letters(train_words, "train")
    test = _letters(test_words, "test")
    has_letters = test["letters"] != ""
    pairs = test[has_letters].merge(train, on="letters")
    return pairs[["test", "train"]]


def _letters(texts: Texts, side: str) -> pd.DataFrame:
    """Return the letters of each text, and its row in a column of this name."""
    letters = map("".join, texts)
    rows = np.arange(len(texts))
    return pd.DataFrame({"letters": list(letters), side: rows})


class _Words(NamedTuple):
    """The words of texts, as the columns of a matrix with a row a text, the rarest first."""

    matrix: Any  # scipy.sparse.csr_array of 1 and 0, columns of a row ascending
    n_words: np.ndarray  # of each text

    def compared(self, pairs: pd.DataFrame, n_train: int) -> pd.DataFrame:
        """Add words to pairs of a test and a training row; test texts come last."""
        test_rows = pairs["test"].to_numpy() + n_train
        train_rows = pairs["train"].to_numpy()
        products = self.matrix[test_rows].multiply(self.matrix[train_rows])
        n_common = products.sum(axis=1)
        share = _share(n_common, self.n_words[test_rows], self.n_words[train_rows])
        return pairs.assign(words=share)


def _share(common: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return what is common as a share of what either side has."""
    return common / (left + right - common)


def _numbered(texts: Texts) -> _Words:
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
    rarest_first = np.argsort(frequency, kind="stable")
    rank = np.empty(len(number_of), np.int32)
    rank[rarest_first] = np.arange(len(number_of))
    ones = np.ones(len(columns), np.int16)
    shape = (len(texts), len(number_of))
    matrix = csr_array((ones, rank[columns], _bounds(n_words)), shape)
    matrix.sort_indices()
    return _Words(matrix, n_words)


def _bounds(lengths: np.ndarray) -> np.ndarray:
    """Return where each of rows of these lengths begins, and where the last one ends."""
    return np.append(0, np.cumsum(lengths))


def _candidates(texts: _Words, n_train: int, near: float) -> Iterator[pd.DataFrame]:
    """Yield the pairs of rows that may share `near` of their words: test, train; in blocks."""
    rare = _rarest(texts, near)
    rare_in_test = rare[n_train:]
    rare_in_train = rare[:n_train].T.tocsr()
    n_test_words = texts.n_words[n_train:]
    for block in _blocks(rare_in_test, rare_in_train):
        sharing = (rare_in_test[block] @ rare_in_train).tocoo()
        test_rows = sharing.row + block.start
        n_left = n_test_words[test_rows]
        n_right = texts.n_words[sharing.col]
        most_common = np.minimum(n_left, n_right)
        is_possible = _share(most_common, n_left, n_right) >= near
        pairs = pd.DataFrame({"test": test_rows, "train": sharing.col})
        yield pairs[is_possible]


def _rarest(texts: _Words, near: float) -> Any:
    """Return the matrix of the rarest words of each text, one of which a near-duplicate shares."""
    from scipy.sparse import csr_array

    n_words = texts.n_words
    least_common = np.ceil(near * n_words - ROUNDING)
    n_rare = np.minimum(n_words - least_common + 1, n_words).astype(np.int64)
    matrix = texts.matrix
    first_place = np.repeat(matrix.indptr[:-1], n_words)
    place = np.arange(matrix.nnz) - first_place
    is_rare = place < np.repeat(n_rare, n_words)
    rare_words = matrix.indices[is_rare]
    return csr_array((matrix.data[is_rare], rare_words, _bounds(n_rare)), matrix.shape)


def _blocks(test: Any, train: Any) -> Iterator[slice]:
    """Yield slices of test rows with about `POSTINGS` pairs that share a rare word, or a row."""
    n_texts_of_word = np.diff(train.indptr).astype(np.int64)
    n_pairs = test @ n_texts_of_word
    block_of = np.cumsum(n_pairs) // POSTINGS
    starts = np.flatnonzero(np.diff(block_of, prepend=-1))
    bounds = [*starts.tolist(), len(block_of)]
    for start, end in pairwise(bounds):
        yield slice(start, end)


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
    n_total = len(left) + len(right) - n_common
    return n_common / n_total

"""Near-duplicate texts: all pairs of a test and a training text that share most of their words.

The search is exact. Two texts with a Jaccard similarity of at least `near` must share one of the
rarest words of each (Chaudhuri et al., ICDE 2006; Bayardo et al., WWW 2007): of n words the first
n - ceil(near * n) + 1. Only texts that do are compared, block by block of test texts. Of the texts
only numbers of words are held, so that half a million passages can be compared.
"""

import sys
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.texts import normalised
from interextra.data.words import words_of
from interextra.store import InputError

POSTINGS = 1_000_000  # pairs of texts with a rare word in common that are looked at at once
WORDS = 10_000_000  # words of pairs of texts that are compared at once
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

    As `near_rows`, with the order of the words.

    Returns
    -------
    DataFrame
        test, train (rows), words (Jaccard), order (the same of words in common that stand in the
        same order in both: 1 for the same letters); by test row, the most similar first.

    Examples
    --------
    >>> near_pairs(["dollars to euros", "e-mail"], ["euros to dollars", "email"], 0.8).round(2)
       test  train  words  order
    0     0      0    1.0    0.2
    1     1      1    0.0    1.0
    """
    found = near_rows(train, test, near)
    left = _words_of_rows(test, found["test"])
    right = _words_of_rows(train, found["train"])
    orders = map(_order, left, right)
    found["order"] = np.fromiter(orders, float)
    best_first = found.sort_values(["words", "order"], ascending=False, kind="stable")
    return best_first.sort_values("test", kind="stable", ignore_index=True)


def _words_of_rows(texts: Sequence[str], rows: pd.Series) -> list[list[str]]:
    """Return the words in order of the texts in these rows, which may be repeated."""
    in_rows = list(texts)
    words = {row: words_in_order(in_rows[row]) for row in rows.unique()}
    return [words[row] for row in rows]


def near_rows(train: Sequence[str], test: Sequence[str], near: float) -> pd.DataFrame:
    """Return the rows of all texts that share the share `near` of their words.

    Pairs of the same letters are among them, however hyphens and spaces cut these into words.

    Parameters
    ----------
    near : float
        Least share of common words among those of both (Jaccard), above 0, at most 1.

    Returns
    -------
    DataFrame
        test, train (rows), words (Jaccard); by test row, the most similar first.

    Raises
    ------
    InputError
        `near` is 0 or less, or above 1.
    """
    if not 0 < near <= 1:
        raise InputError(f"near {near:g}: give a share of common words above 0, at most 1")
    n_train = len(train)
    texts = _numbered(chain(train, test))
    blocks = [texts.compared(_same_letters(texts, n_train), n_train)]
    for candidates in _candidates(texts, n_train, near):
        pairs = texts.compared(candidates, n_train)
        blocks.append(pairs[pairs["words"] >= near])
    found = pd.concat(blocks, ignore_index=True)
    # those of the same letters may be found by their words, too
    found = found.drop_duplicates(["test", "train"])
    by_row = found.sort_values(["test", "train"])
    best_first = by_row.sort_values("words", ascending=False, kind="stable")
    return best_first.sort_values("test", kind="stable", ignore_index=True)


class _Words(NamedTuple):
    """The words of texts, as the columns of a matrix with a row a text, the rarest first."""

    matrix: Any  # scipy.sparse.csr_array of 1 and 0, columns of a row ascending
    n_words: np.ndarray  # of each text
    letters: np.ndarray  # 64 bits of each text that stand for its words, written together

    def compared(self, pairs: pd.DataFrame, n_train: int) -> pd.DataFrame:
        """Add words to pairs of a test and a training row; test texts come last."""
        test_rows = pairs["test"].to_numpy() + n_train
        train_rows = pairs["train"].to_numpy()
        n_left = self.n_words[test_rows]
        n_right = self.n_words[train_rows]
        n_common = np.zeros(len(pairs), np.int64)
        for block in _slices(n_left + n_right, WORDS):
            left = self.matrix[test_rows[block]]
            right = self.matrix[train_rows[block]]
            n_common[block] = left.multiply(right).sum(axis=1)
        return pairs.assign(words=_share(n_common, n_left, n_right))


def _share(common: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return what is common as a share of what either side has."""
    return common / (left + right - common)


def _same_letters(texts: _Words, n_train: int) -> pd.DataFrame:
    """Return the pairs of rows that have the same letters in the same order: test, train."""
    rows = np.flatnonzero(texts.n_words)
    table = pd.DataFrame({"letters": texts.letters[rows], "row": rows})
    is_train = table["row"] < n_train
    train = table[is_train].rename(columns={"row": "train"})
    test = table[~is_train].rename(columns={"row": "test"})
    test["test"] -= n_train
    return test.merge(train, on="letters")[["test", "train"]]


def _numbered(texts: Iterable[str]) -> _Words:
    """Return which words each text has; the numbers of words ascend from the rarest."""
    number_of: dict[str, int] = {}
    numbers = array("i")
    n_words = array("i")
    letters = array("q")
    for text in texts:
        words = words_in_order(text)
        distinct = set(words)
        n_words.append(len(distinct))
        of_text = [number_of.setdefault(word, len(number_of)) for word in distinct]
        numbers.extend(of_text)
        letters.append(hash("".join(words)))
    sizes = np.array(n_words, np.int64)
    matrix = _rarest_first(np.array(numbers, np.int32), sizes)
    return _Words(matrix, sizes, np.array(letters, np.int64))


def _rarest_first(numbers: np.ndarray, n_words: np.ndarray) -> Any:
    """Return the matrix of the words of texts, by numbers text after text and how many each has."""
    from scipy.sparse import csr_array

    frequency = np.bincount(numbers)
    rarest_first = np.argsort(frequency, kind="stable")
    rank = np.empty(len(frequency), np.int32)
    rank[rarest_first] = np.arange(len(frequency))
    ones = np.ones(len(numbers), np.int16)
    shape = (len(n_words), len(frequency))
    matrix = csr_array((ones, rank[numbers], _bounds(n_words)), shape)
    matrix.sort_indices()
    return matrix


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
    matrix = texts.matrix
    starts = matrix.indptr[:-1]
    n_needed = n_words - least_common + 1
    n_rare = np.minimum(n_needed, n_words).astype(starts.dtype)
    place = np.arange(matrix.nnz, dtype=starts.dtype)  # of each word among those of its text
    place -= np.repeat(starts, n_words)
    is_rare = place < np.repeat(n_rare, n_words)
    ones = matrix.data[is_rare]
    rare_words = matrix.indices[is_rare]
    return csr_array((ones, rare_words, _bounds(n_rare)), matrix.shape)


def _blocks(test: Any, train: Any) -> Iterator[slice]:
    """Yield slices of test rows with about `POSTINGS` pairs that share a rare word, or a row."""
    n_texts_of_word = np.diff(train.indptr).astype(np.int64)
    yield from _slices(test @ n_texts_of_word, POSTINGS)


def _slices(sizes: np.ndarray, most: int) -> Iterator[slice]:
    """Yield slices of rows whose sizes add up to about `most`, or of one row."""
    block_of = np.cumsum(sizes) // most
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

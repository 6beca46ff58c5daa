"""How many words two texts share, in any script."""

from collections.abc import Sequence

import numpy as np

from interextra.data.texts import normalised
from interextra.data.words import words_of


def tokens(text: str) -> frozenset[str]:
    """Return the words and numbers of the `normalised` text, as a set, see `words_of`."""
    return frozenset(words_of(normalised(text)))


def text_jaccard(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Return the Jaccard similarity of the words of two texts, pair by pair: float64[n].

    Words in common of all words of both texts, however often a text has them; 0 for two texts
    without a word. The weighted one, of two sets of queries, is in `measures.indicators`.

    Examples
    --------
    >>> text_jaccard(["what is a shebang"], ["meaning of shebang"]).round(2).tolist()
    [0.17]
    """
    left_words = map(tokens, left)
    right_words = map(tokens, right)
    pairs = zip(left_words, right_words, strict=True)
    return np.array([_jaccard(*words) for words in pairs])


def _jaccard(left: frozenset[str], right: frozenset[str]) -> float:
    """Return the share of common words among the words of both."""
    n_words = len(left | right)
    return len(left & right) / n_words if n_words else 0.0

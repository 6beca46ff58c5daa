"""How many words two texts share, in any script."""

from collections.abc import Sequence

import numpy as np

from interextra.data.texts import normalised
from interextra.data.words import words_of


def tokens(text: str) -> frozenset[str]:
    """The words and numbers of the `normalised` text, as a set, see `words_of`."""
    return frozenset(words_of(normalised(text)))


def jaccard(left: Sequence[str], right: Sequence[str]) -> np.ndarray:
    """Words in common of all words of both texts, pair by pair: float64[n].

    >>> jaccard(["what is a shebang"], ["meaning of shebang"]).round(2).tolist()
    [0.17]
    """
    pairs = [(tokens(a), tokens(b)) for a, b in zip(left, right, strict=True)]
    return np.array([len(a & b) / (len(a | b) or 1) for a, b in pairs])

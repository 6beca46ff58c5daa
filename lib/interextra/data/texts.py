"""When two texts are the same to a reader: a passage often stands in a collection twice, under two ids."""

import unicodedata
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pandas as pd


def normalised(text: str) -> str:
    """A text without what does not tell it from others: compatible characters (NFKC), no case, single spaces.

    Examples
    --------
    >>> normalised("The  ﬁrst\\tStraße") == normalised("the first STRASSE")
    True
    """
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def same_text(texts: Iterable[str]) -> np.ndarray:
    """A number for each text, int64[n], from 0 by first appearance: equal where `normalised` is.

    Only digests of 64 bits are held, so that millions of passages can be numbered.

    Examples
    --------
    >>> same_text(["On tea", "On gold", "on  TEA"]).tolist()
    [0, 1, 0]
    """
    digests = [blake2b(normalised(text).encode(), digest_size=8).digest() for text in texts]
    return pd.factorize(np.frombuffer(b"".join(digests), np.uint64))[0].astype(np.int64)

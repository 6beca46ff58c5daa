"""When two texts are the same to a reader, in any script.

A passage or a query often stands in a collection twice, under two ids, as other bytes: letters
composed or not, other cases, widths, ligatures, apostrophes, characters without a width.
`normalised` sets them equal.
"""

import unicodedata
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
import pandas as pd

_WITHOUT_WIDTH = (
    *(0x00AD, 0x034F, 0x061C, 0x180E, 0xFEFF),  # soft hyphen, joiner, marks of direction and order
    *range(0x200B, 0x2010),
    *range(0x202A, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFE00, 0xFE10),  # which picture of a character is meant
)
_PLAIN: dict[int, str | None] = dict.fromkeys(_WITHOUT_WIDTH)
_PLAIN |= dict.fromkeys(map(ord, "\u2018\u2019\u201b\u02bc\u2032\u00b4"), "'")
_PLAIN |= dict.fromkeys(map(ord, "\u201c\u201d\u201f\u2033"), '"')
_PLAIN |= dict.fromkeys(map(ord, "\u2010\u2011"), "-")


def normalised(text: str) -> str:
    r"""Return a text as far as a reader tells it from others.

    Characters are compatible ones (NFKC), without case, apostrophes plain. Soft hyphens and
    characters without a width are left out; white space becomes one space.

    Examples
    --------
    >>> normalised("STRASSE  nach") == normalised("stra\u00dfe nach")
    True
    >>> normalised("the \ufb01rst o\ufb03ce")
    'the first office'
    """
    if not text.isascii():
        plain = text.translate(_PLAIN)
        folded = unicodedata.normalize("NFKC", plain).casefold()
        text = unicodedata.normalize("NFKC", folded)
    return " ".join(text.lower().split())


def same_text(texts: Iterable[str]) -> np.ndarray:
    """Return a number for each text, int64[n], equal where `normalised` is.

    Numbers count from 0 by first appearance. Of the texts only digests of 64 bits are held, so that
    millions of passages can be numbered.

    Examples
    --------
    >>> same_text(["On tea", "On gold", "on  TEA"]).tolist()
    [0, 1, 0]
    """
    digests = [_digest(text) for text in texts]
    numbers = np.frombuffer(b"".join(digests), np.uint64)
    return pd.factorize(numbers)[0].astype(np.int64)


def _digest(text: str) -> bytes:
    """Return 64 bits that stand for all texts that read as this one."""
    data = normalised(text).encode(errors="replace")
    return blake2b(data, digest_size=8).digest()


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can hold a text; a file's name can have bytes that are none."""
    return text.encode(errors="replace").decode() == text

"""The words of a text in any script."""

import re
import unicodedata
from itertools import pairwise

# Scripts without a space between words (Thai, Lao, Tibetan, Burmese, Khmer, kana, Han), that join
# what other languages write apart (Hangul), or whose vowels are marks, at which a pattern of
# letters breaks a word (those of India).
_DENSE_BLOCKS = (
    (0x0900, 0x0DFF),  # of India
    (0x0E00, 0x109F),  # Thai to Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3040, 0x312F),  # kana, Bopomofo
    (0x31A0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xA8E0, 0xA8FF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FF),  # Hangul
    (0xF900, 0xFAFF),
    (0x20000, 0x3FFFF),
)


def _characters(blocks: tuple[tuple[int, int], ...]) -> str:
    """Return what a class of a regular expression holds to match the words of these blocks.

    These are the letters, marks and digits of small blocks, and large blocks (from Han) whole.
    """
    characters = []
    ranges = []
    for low, high in blocks:
        if low >= 0x3400:
            ranges.append(f"{chr(low)}-{chr(high)}")
            continue
        block = map(chr, range(low, high + 1))
        characters += [sign for sign in block if unicodedata.category(sign)[0] in "LMN"]
    return "".join(ranges + characters) + "\u3005\u3007"


_DENSE = re.compile(f"[{_characters(_DENSE_BLOCKS)}]+")
_BLOCKS_WITHOUT_SPACES = _DENSE_BLOCKS[1:]  # scripts of India have them
_WITHOUT_SPACES = re.compile(f"[{_characters(_BLOCKS_WITHOUT_SPACES)}]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(rf"{_DENSE.pattern}|(?:(?!{_DENSE.pattern})[^\W_])+")


def words_of(text: str) -> list[str]:
    r"""Return the words and numbers of a text as it is.

    A run of a dense script (see `_DENSE_BLOCKS`) is cut up: all its pairs of neighbouring
    characters count as words, and each Chinese character alone, too.

    Examples
    --------
    >>> words_of("red fox, 2 hats")
    ['red', 'fox', '2', 'hats']
    >>> words_of("\u5317\u4eac in 1898")
    ['北京', '北', '京', 'in', '1898']
    """
    if text.isascii() or not _DENSE.search(text):
        return re.findall(r"[^\W_]+", text)
    words = []
    for word in _WORD.findall(text):
        if _DENSE.match(word):
            words += _parts_of(word)
        else:
            words.append(word)
    return words


def _parts_of(run: str) -> list[str]:
    """Return pairs of neighbouring characters, and the single ones that are words by themselves."""
    if len(run) == 1:
        return [run]
    pairs = ["".join(pair) for pair in pairwise(run)]
    return pairs + _HAN.findall(run)


def lower_words(text: str) -> list[str]:
    """Return the runs of letters, numbers and underscores of a text in small letters.

    Of a text in a script without spaces they are the `words_of` it.

    Examples
    --------
    >>> lower_words("Red fox_2")
    ['red', 'fox_2']
    """
    lower = text.lower()
    if not lower.isascii() and _WITHOUT_SPACES.search(lower):
        return words_of(lower)
    return re.findall(r"\w+", lower)

"""The words of a text in any script."""

import re
import unicodedata

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


def _class_of(blocks: tuple[tuple[int, int], ...]) -> str:
    """Letters, marks and digits of blocks as the inside of a class of a regular expression; of
    large blocks all.
    """
    whole = "".join(f"{chr(low)}-{chr(high)}" for low, high in blocks if low >= 0x3400)
    few = (chr(code) for low, high in blocks if low < 0x3400 for code in range(low, high + 1))
    return (
        whole
        + "".join(one for one in few if unicodedata.category(one)[0] in "LMN")
        + "\u3005\u3007"
    )


_DENSE = re.compile(f"[{_class_of(_DENSE_BLOCKS)}]+")
_WITHOUT_SPACES = re.compile(f"[{_class_of(_DENSE_BLOCKS[1:])}]")  # those of India have them
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_WORD = re.compile(rf"{_DENSE.pattern}|(?:(?!{_DENSE.pattern})[^\W_])+")


def words_of(text: str) -> list[str]:
    """The words and numbers of a text as it is; a run of a dense script (see `_DENSE_BLOCKS`) by
    its characters.

    Of such a run all pairs of neighbouring characters count as words, and each Chinese character
    alone, too.

    Examples
    --------
    >>> words_of("red fox, 2 hats"), words_of("\u5317\u4eac in 1898")
    (['red', 'fox', '2', 'hats'], ['北京', '北', '京', 'in', '1898'])
    """
    if text.isascii() or not _DENSE.search(text):
        return re.findall(r"[^\W_]+", text)
    found = _WORD.findall(text)
    return [part for word in found for part in (_parts_of(word) if _DENSE.match(word) else [word])]


def _parts_of(run: str) -> list[str]:
    """Pairs of neighbouring characters, and the single ones that are words by themselves."""
    if len(run) == 1:
        return [run]
    pairs = [run[at : at + 2] for at in range(len(run) - 1)]
    return pairs + _HAN.findall(run)


def lower_words(text: str) -> list[str]:
    """Of a text in small letters all runs of letters, numbers and underscores; of one without
    spaces `words_of`.

    >>> lower_words("Red fox_2")
    ['red', 'fox_2']
    """
    lower = text.lower()
    is_dense = not lower.isascii() and _WITHOUT_SPACES.search(lower)
    return words_of(lower) if is_dense else re.findall(r"\w+", lower)

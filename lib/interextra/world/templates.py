"""Wordings with alternatives, reproducible random choice, and the world's YAML files.

A wording is a line such as ``[what is|whats] the [usual|] dose of {N}``: square brackets hold
alternatives (nested ones too), braces are slots. ``{N}`` is a name with its article, ``{n}`` the
bare name, ``{v}`` a value. Choices are the same on every machine.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

_SENTENCE_START = re.compile(r"(^|[.?!] )[a-z]")
_TOKENS = re.compile(r"[\[\]|]|\{\w+\}|[^\[\]|{}]+")
_ARTICLE = re.compile(
    r"\b([Aa]) (?=[aeioAEIO]|[uU](?!ni|s|ro)|(?:8|11|18)\b|8\d)(?!(?:eu|one|once|Eu)\w*)"
)


@cache
def parse(wording: str) -> list[Any]:
    """Return the parts of a wording: texts, slots and, for each bracket, a list of alternatives.

    The alternatives are such lists of parts in turn.

    Examples
    --------
    >>> parse("[what is|whats] {N}")
    [[['what is'], ['whats']], ' ', '{N}']
    """
    tokens = iter(_TOKENS.findall(f"{wording}]"))
    return _alternatives(tokens)[0]


def _alternatives(tokens: Iterator[str]) -> list[list[Any]]:
    """Return the alternatives up to the bracket that closes them."""
    alternatives: list[list[Any]] = [[]]
    for token in tokens:
        if token == "]":
            return alternatives
        if token == "|":
            alternatives.append([])
        elif token == "[":
            alternatives[-1].append(_alternatives(tokens))
        else:
            alternatives[-1].append(token)
    raise ValueError("a bracket of a wording is not closed")


def below(rng: Random, n: int) -> int:
    """Return a number from 0 to n - 1.

    Only `rng.random()` is used, whose values are fixed across Python versions.
    """
    return int(rng.random() * n)


def pick(rng: Random, items: Sequence[Any]) -> Any:
    """Return one of `items`."""
    return items[below(rng, len(items))]


def shuffled(rng: Random, items: Iterable[Any]) -> list[Any]:
    """Return a shuffled copy (Fisher–Yates)."""
    copy = list(items)
    for last in range(len(copy) - 1, 0, -1):
        other = below(rng, last + 1)
        copy[last], copy[other] = copy[other], copy[last]
    return copy


def fill(parts: list[Any], rng: Random, slots: dict[str, str]) -> str:
    """Return one text of a parsed wording, untidied."""
    text = ""
    for part in parts:
        if isinstance(part, list):
            text += fill(pick(rng, part), rng, slots)
        else:
            text += part.format_map(slots)
    return text


def tidy(text: str) -> str:
    """Return a text with single spaces, none before punctuation, and "an" before a vowel.

    Examples
    --------
    >>> tidy("a  apple , a unit")
    'an apple, a unit'
    """
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" (?=[,.;:?!])", "", text)
    return _ARTICLE.sub(r"\1n ", text).strip()


def render(wording: str, rng: Random, **slots: str) -> str:
    """Return one text of a wording, tidied."""
    return tidy(fill(parse(wording), rng, slots))


def sentence(text: str) -> str:
    """Return a text with sentence starts in capitals, as in a passage."""
    return _SENTENCE_START.sub(lambda start: start[0].upper(), tidy(text))


def typo(text: str, rng: Random) -> str:
    """Return a text with one slip in one word of five letters or more.

    A letter is dropped, doubled, or swapped with the next.
    """
    words = text.split()
    long_words = []
    for position, word in enumerate(words):
        if len(word) >= 5 and word.isalpha():
            long_words.append((position, word))
    if not long_words:
        return text
    position, word = pick(rng, long_words)
    kind = rng.random()
    at = 1 + below(rng, len(word) - 2)
    letter, following = word[at : at + 2]
    if kind < 0.4:
        slip = following
    elif kind < 0.6:
        slip = letter + letter + following
    else:
        slip = following + letter
    before = word[:at]
    after = word[at + 2 :]
    words[position] = before + slip + after
    return " ".join(words)


def lines(block: str | None) -> list[str]:
    """Return the lines of a block of a YAML file that are not blank, stripped."""
    stripped = [line.strip() for line in (block or "").splitlines()]
    return [line for line in stripped if line]


def _table(block: str | None) -> list[list[str]]:
    """Return the cells of each line of a block, which bars separate."""
    return [re.split(r"\s*\|\s*", line) for line in lines(block)]


@cache
def load(file: str) -> dict[str, Any]:
    """Return the content of one of the world's YAML files."""
    path = Path(__file__).with_name(file)
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@cache
def domain(file: str) -> dict[str, Any]:
    """Return a domain file with its blocks split into lines and its entity table into rows."""
    raw = load(file)
    blocks = raw["attributes"]
    return raw | {
        "rows": [_entity(cells, raw["columns"]) for cells in _table(raw["entities"])],
        "attributes": {name: _attribute(block) for name, block in blocks.items()},
        "relation_values": _table(raw.get("relation_values")),
        "tails": lines(raw["tails"]),
        "background": lines(raw["background"]),
    }


def _entity(cells: list[str], columns: list[str]) -> dict[str, str]:
    """Return names and values of an entity; its first cell is `name` or `name / alias`."""
    first, *values = cells
    full, _, alias = first.partition(" / ")
    bare = re.sub(r"^(a|an|the) ", "", full)
    entity = {"name": bare, "N": full, "alias": alias, "it": "it"}
    return entity | dict(zip(columns, values, strict=True))


def _attribute(block: dict[str, str]) -> dict[str, Any]:
    """Return the wordings of an attribute; `faq` are its questions that name no entity bare."""
    attribute: dict[str, Any] = {"group": block["group"]}
    attribute["nouns"] = re.split(r"\s*;\s*", block["nouns"].strip())
    for kind in ("ask", "say", "clause", "pair"):
        attribute[kind] = lines(block.get(kind))
    questions = [line for line in attribute["ask"] if re.match(r"(wh|how|is|are|do|can)", line)]
    attribute["faq"] = [line for line in questions if "{n}" not in line]
    return attribute

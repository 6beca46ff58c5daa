"""Wordings with alternatives, random choice that is the same on every machine, and the world's YAML
files.

A wording is a line such as ``[what is|whats] the [usual|] dose of {N}``: square brackets hold
alternatives (nested ones too), braces are slots. ``{N}`` is a name with its article, ``{n}`` the
bare name, ``{v}`` a value.
"""

import re
from functools import cache
from pathlib import Path
from random import Random

import yaml

_TOKENS = re.compile(r"[\[\]|]|\{\w+\}|[^\[\]|{}]+")
_ARTICLE = re.compile(
    r"\b([Aa]) (?=[aeioAEIO]|[uU](?!ni|s|ro)|(?:8|11|18)\b|8\d)(?!(?:eu|one|once|Eu)\w*)"
)


@cache
def parse(wording: str) -> list:
    """Texts, slots and, for each bracket, a list of alternatives, which are such lists in turn."""
    tokens = iter(_TOKENS.findall(f"{wording}]"))

    def alternatives() -> list[list]:
        found = [[]]
        while (token := next(tokens)) != "]":
            if token == "|":
                found.append([])
            else:
                found[-1].append(alternatives() if token == "[" else token)
        return found

    return alternatives()[0]


def pick(rng: Random, items):
    """One of `items`; only `rng.random()` is used, whose values are fixed across Python
    versions.
    """
    return items[int(rng.random() * len(items))]


def shuffled(rng: Random, items) -> list:
    """A shuffled copy (Fisher–Yates on `rng.random()`)."""
    out = list(items)
    for last in range(len(out) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        out[last], out[other] = out[other], out[last]
    return out


def fill(parts: list, rng: Random, slots: dict) -> str:
    """One text of a parsed wording, untidied."""
    drawn = (
        fill(pick(rng, part), rng, slots) if isinstance(part, list) else part.format_map(slots)
        for part in parts
    )
    return "".join(drawn)


def tidy(text: str) -> str:
    """Single spaces, no space before punctuation, "an" before a vowel.

    >>> tidy("a  apple , a unit")
    'an apple, a unit'
    """
    return _ARTICLE.sub(r"\1n ", re.sub(r" (?=[,.;:?!])", "", re.sub(r"\s+", " ", text))).strip()


def render(wording: str, rng: Random, **slots: str) -> str:
    return tidy(fill(parse(wording), rng, slots))


def sentence(text: str) -> str:
    """Sentence starts in capitals, as in a passage."""
    return re.sub(r"(^|[.?!] )([a-z])", lambda match: match[1] + match[2].upper(), tidy(text))


def typo(text: str, rng: Random) -> str:
    """One slip in one word of five letters or more: a letter dropped, doubled, or swapped with the
    next.
    """
    words = text.split()
    long = [i for i, word in enumerate(words) if len(word) >= 5 and word.isalpha()]
    if not long:
        return text
    row = pick(rng, long)
    word, kind = words[row], rng.random()
    at = 1 + int(rng.random() * (len(word) - 2))
    letter, following, rest = word[at], word[at + 1], word[at + 2 :]
    middle = (
        following if kind < 0.4 else 2 * letter + following if kind < 0.6 else following + letter
    )
    words[row] = word[:at] + middle + rest
    return " ".join(words)


def lines(block: str | None) -> list[str]:
    return [line.strip() for line in (block or "").splitlines() if line.strip()]


def _table(block: str | None) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in lines(block)]


@cache
def load(file: str) -> dict:
    return yaml.safe_load(Path(__file__).with_name(file).read_text(encoding="utf-8"))


@cache
def domain(file: str) -> dict:
    """A domain file with its blocks split into lines and its entity table into rows."""
    raw, rows, attributes = load(file), [], {}
    for first, *values in _table(raw["entities"]):
        full, _, alias = first.partition(" / ")
        known = {"name": re.sub(r"^(a|an|the) ", "", full), "N": full, "alias": alias, "it": "it"}
        rows.append(known | dict(zip(raw["columns"], values, strict=True)))
    for attribute, spec in raw["attributes"].items():
        split = {key: lines(spec.get(key)) for key in ("ask", "say", "clause", "pair")}
        nouns = [noun.strip() for noun in spec["nouns"].split(";")]
        faq = [
            line
            for line in split["ask"]
            if re.match(r"(wh|how|is|are|do|can)", line) and "{n}" not in line
        ]
        attributes[attribute] = {"group": spec["group"], "nouns": nouns, "faq": faq, **split}
    tables = {
        "rows": rows,
        "attributes": attributes,
        "relation_values": _table(raw.get("relation_values")),
    }
    return raw | tables | {key: lines(raw[key]) for key in ("tails", "background")}

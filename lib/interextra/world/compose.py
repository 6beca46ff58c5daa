"""Passages and query wordings of a world, from its domain files."""

from dataclasses import dataclass
from random import Random
from typing import Any

from interextra.world.templates import (
    below,
    domain,
    lines,
    load,
    pick,
    render,
    sentence,
    shuffled,
    typo,
)

MIN_WORDS, MAX_WORDS, MAX_QUERY_WORDS = 15, 40, 15
# Shares of the passages about one fact that name it in front, open with a question, name it at the
# end, or share little but the name with a query. The rest says it in the searcher's own words (the
# last wordings of a `say` block: four, in the small worlds two).
OPENINGS, FAQ, CLOSINGS, MISMATCH = 0.12, 0.02, 0.02, 0.04
_POSSESSIVE = {"he": "his", "she": "her", "it": "its"}
_PLURAL = {
    "wolf": "wolves",
    "butterfly": "butterflies",
    "fox": "foxes",
    "octopus": "octopuses",
    "inch": "inches",
    "potato": "potatoes",
    "tomato": "tomatoes",
    "radish": "radishes",
}
_QUESTION_WORDS = {"what", "who", "when", "where", "which", "why", "how"}
_BE = {"is", "are", "was", "were", "am"}
_YES_NO = _BE | {"does", "do", "did", "can", "could", "should", "will", "would", "has"}

Spec = dict[str, Any]  # a domain, see `templates.domain`
Row = dict[str, str]  # an entity of a domain
Slots = dict[str, str]
Groups = dict[tuple[str, str], str]  # domain and attribute -> group of intents
Passage = dict[str, Any]  # text, entities, attributes, domain, kind


@dataclass
class Intent:
    """What a query asks for: an attribute of one entity, or of two."""

    spec: Spec
    rows: list[Row]
    attribute: str
    group: str
    gold: list[int]  # positions of the passages that are about just this

    def __post_init__(self) -> None:
        """Name the entities, sorted."""
        self.entities = _names(self.rows)

    @property
    def domain(self) -> str:
        """Domain of the entities."""
        return self.spec["domain"]

    @property
    def label(self) -> str:
        """What the intent is called."""
        return f"{';'.join(self.entities)}|{self.attribute}"


def plural(name: str) -> str:
    """Return the plural of a name that ends in its noun.

    Examples
    --------
    >>> plural("red fox"), plural("hertz"), plural("barrel of oil")
    ('red foxes', 'hertz', 'barrels of oil')
    """
    head, of, rest = name.partition(" of ")
    first, space, noun = head.rpartition(" ")
    if noun.endswith(("tz", "s")):
        return name
    nouns = _PLURAL.get(noun, f"{noun}s")
    return f"{first}{space}{nouns}{of}{rest}"


def be(noun: str) -> str:
    """Return is or are, for a noun phrase.

    Examples
    --------
    >>> be("side effects"), be("cause of death"), be("diagnosis")
    ('are', 'is', 'is')
    """
    head = noun.split(" of ")[0].split(" to ")[0]
    if head.endswith(("ss", "is", "us")):
        return "is"
    return "are" if head.endswith("s") else "is"


def wh_form(text: str) -> str:
    """Return how a query opens.

    It is what, who, when, where, which, why, how, how much, how many, yes-no or keyword.

    Examples
    --------
    >>> wh_form("how many feet in a mile"), wh_form("in what year did it end")
    ('how many', 'what')
    >>> wh_form("aspirin dose")
    'keyword'
    """
    first, second, *_ = text.split()
    if first in ("in", "at", "from"):
        first = second
    elif first == "whats":
        first = "what"
    else:
        first = first.removesuffix("'s")
    if first == "how" and second in ("much", "many"):
        return f"how {second}"
    if first in _QUESTION_WORDS:
        return first
    return "yes-no" if first in _YES_NO else "keyword"


class Composer:
    """Writes the passages and queries of some domains."""

    def __init__(
        self,
        files: list[str],
        rng: Random,
        pairs: float = 0.4,
        direct: int = 4,
        mismatch: float = MISMATCH,
    ):
        self.rng = rng
        self.direct = direct
        self.own_words = 1 - mismatch
        self.common: dict[str, list[str]] = {}
        for name, block in load("common.yaml").items():
            if isinstance(block, str):
                self.common[name] = lines(block)
        self.passages: list[Passage] = []
        self.texts: set[str] = set()
        self.intents: list[Intent] = []
        self.group_of: Groups = {}
        for file in files:
            spec = domain(f"{file}.yaml")
            for row in spec["rows"]:
                self._entity(spec, row)
            self._pairs(spec, pairs)

    def _slots(self, spec: Spec, row: Row, attribute: str) -> Slots:
        """Return the slots of a wording about one entity."""
        name = row["name"]
        full = row["N"]
        it = row["it"]
        if row["alias"] and self.rng.random() < 0.4:
            full = f"{full} ({row['alias']})"
        own = spec["attributes"][attribute]
        return {
            "N": full,
            "n": name,
            "ns": plural(name),
            "who": spec["who"],
            "v": row[attribute],
            "it": it,
            "It": it,
            "its": _POSSESSIVE[it],
            "noun": pick(self.rng, own["nouns"]),
        }

    def _clause(self, spec: Spec, row: Row, attribute: str) -> str:
        """Return a clause that says the value of an attribute."""
        own = spec["attributes"][attribute]
        wording = pick(self.rng, own["clause"])
        slots = self._slots(spec, row, attribute)
        return render(wording, self.rng, **slots)

    def _add(
        self,
        spec: Spec,
        rows: list[Row],
        kind: str,
        attributes: tuple[str, ...],
        wordings: list[str],
        slots: Slots,
        tails: list[str],
        head: str = "",
    ) -> int | None:
        """Add a passage and return its position; None if none fits the length limits.

        `tails` are general sentences, to fill up.
        """
        about = {"attributes": attributes, "kind": kind, "entities": _names(rows)}
        for _ in range(50):
            text = self._passage_text(wordings, slots, tails, head)
            n_words = len(text.split())
            if MIN_WORDS <= n_words <= MAX_WORDS and text not in self.texts:
                self.texts.add(text)
                passage = {"text": text, **about, "domain": spec["domain"]}
                self.passages.append(passage)
                return len(self.passages) - 1
        return None

    def _passage_text(self, wordings: list[str], slots: Slots, tails: list[str], head: str) -> str:
        """Return a text of one of the wordings, behind its head, filled up with tails."""
        wording = pick(self.rng, wordings)
        is_continued = head.endswith(",")
        if is_continued and not wording.startswith("{"):
            wording = wording[0].lower() + wording[1:]
        text = render(wording, self.rng, **slots)
        if not is_continued:
            text = sentence(text)
        text = sentence(f"{head} {text}")
        if not text.endswith((".", "?", "!")):
            text += "."
        for tail in shuffled(self.rng, tails)[:3]:
            text = self._filled_up(text, tail)
        return text[0].upper() + text[1:]

    def _filled_up(self, text: str, tail: str) -> str:
        """Return a short text with a general sentence, rarely in front."""
        n_words = len(text.split())
        wants_tail = n_words < MIN_WORDS
        if MIN_WORDS <= n_words < 30:
            wants_tail = self.rng.random() < 0.3
        is_too_long = n_words + len(tail.split()) > MAX_WORDS
        if not wants_tail or is_too_long:
            return text
        if self.rng.random() < 0.15:
            return f"{tail} {text}"
        return f"{text} {tail}"

    def _intent(
        self,
        spec: Spec,
        rows: list[Row],
        attribute: str,
        group: str,
        gold: list[int | None],
    ) -> None:
        """Add an intent, where there is a passage that is about just this."""
        positions = [position for position in gold if position is not None]
        if positions:
            self.intents.append(Intent(spec, rows, attribute, group, positions))
            self.group_of[spec["domain"], attribute] = group

    def _entity(self, spec: Spec, row: Row) -> None:
        """Add what is said about one entity: its facts, and passages on more or less than one."""
        known = [attribute for attribute in spec["attributes"] if row[attribute] != "-"]
        for attribute in known:
            chance = self.rng.random()
            n_passages = 0
            if chance > 0.92:
                n_passages = 2
            elif chance > 0.18:
                n_passages = 1
            gold = [self._fact(spec, row, attribute) for _ in range(n_passages)]
            group = spec["attributes"][attribute]["group"]
            self._intent(spec, [row], attribute, group, gold)
        if self.rng.random() < 0.8:
            self._several(spec, row, known, "two", 2)
        if self.rng.random() < 0.25:
            self._several(spec, row, known, "near", 1)
        if self.rng.random() < 0.25:
            self._several(spec, row, known, "background", 0)

    def _fact(self, spec: Spec, row: Row, attribute: str) -> int | None:
        """Add a passage about one fact; see OPENINGS for the ways to say it."""
        rng = self.rng
        own = spec["attributes"][attribute]
        slots = self._slots(spec, row, attribute)
        wordings = own["say"][: -self.direct]
        tails = spec["tails"]
        head = ""
        chance = rng.random()
        if chance < OPENINGS:
            opening = pick(rng, self.common["fact_opening"])
            head = render(opening, rng, **slots)
        elif chance < OPENINGS + FAQ:
            faq = pick(rng, own["faq"])
            question = render(faq, rng, **slots)
            head = question.replace(" i ", " I ") + "?"
        elif chance < OPENINGS + FAQ + CLOSINGS:
            closings = self.common["fact_closing"]
            tails = [render(closing, rng, **slots) for closing in closings]
        elif chance < self.own_words:
            wordings = own["say"][-self.direct :]
        return self._add(spec, [row], "fact", (attribute,), wordings, slots, tails, head)

    def _several(
        self, spec: Spec, row: Row, known: list[str], kind: str, n_attributes: int
    ) -> None:
        """Add a passage that may mention two facts, and is about the first `n_attributes`."""
        of_domain = kind == "background"
        wordings = spec[kind] if of_domain else self.common[kind]
        two = shuffled(self.rng, known)[:2]
        slots = self._slots(spec, row, two[0])
        for number, attribute in enumerate(two, start=1):
            slots[f"clause{number}"] = self._clause(spec, row, attribute)
        attributes = tuple(two[:n_attributes])
        self._add(spec, [row], kind, attributes, wordings, slots, spec["tails"])

    def _pairs(self, spec: Spec, share: float) -> None:
        """Add relations with a value of their own, and comparisons.

        Compared are entities that stand near each other in the file.
        """
        rows = spec["rows"]
        row_of = {row["name"]: row for row in rows}
        relations = {}
        for first, second, value in spec["relation_values"]:
            relations[first, second] = value
        couples = list(relations)
        n_wanted = int(share * len(rows))
        for i in shuffled(self.rng, range(len(rows) - 3)):
            distance = 1 + below(self.rng, 3)
            neighbour = rows[i + distance]
            couple = (rows[i]["name"], neighbour["name"])
            is_related = couple in relations or couple[::-1] in relations
            if len(couples) < n_wanted and not is_related:
                couples.append(couple)
        for couple in couples:
            pair = [row_of[name] for name in couple]
            self._pair(spec, pair, relations.get(couple))

    def _pair(self, spec: Spec, rows: list[Row], relation: str | None) -> None:
        """Add what is said about two entities: relation, comparisons, differences."""
        if relation:
            own = spec["relation"]
            wordings = lines(own["say"])
            slots = {"v": relation}
            tails = spec["tails"]
            self._add_pair(spec, rows, ("relation",), own["group"], wordings, slots, tails)
        shared = []
        for attribute, own in spec["attributes"].items():
            values = [row[attribute] for row in rows]
            if own["pair"] and "-" not in values:
                shared.append(attribute)
        compared = shuffled(self.rng, shared)[:3]
        for attribute in compared:
            self._comparison(spec, rows, attribute)
        if len(compared) >= 2:
            self._difference(spec, rows, compared[0], compared[1])

    def _comparison(self, spec: Spec, rows: list[Row], attribute: str) -> None:
        """Add a passage that compares two entities by one attribute."""
        own = spec["attributes"][attribute]
        slots = {"noun": pick(self.rng, own["nouns"])}
        for letter, row in zip("AB", rows, strict=True):
            slots[f"clause{letter}"] = self._clause(spec, row, attribute)
        wordings = self.common["pair"]
        tails = self.common["pair_tails"]
        self._add_pair(spec, rows, (attribute,), own["group"], wordings, slots, tails)

    def _difference(self, spec: Spec, rows: list[Row], first: str, second: str) -> None:
        """Add a passage about two attributes of two entities."""
        slots = {}
        for letter, row in zip("AB", rows, strict=True):
            clause = f"clause{letter}"
            slots[clause] = self._clause(spec, row, first)
            slots[f"{clause}2"] = self._clause(spec, row, second)
        attributes = ("difference", first, second)
        wordings = self.common["pair_difference"]
        self._add_pair(spec, rows, attributes, "comparison", wordings, slots, [])

    def _add_pair(
        self,
        spec: Spec,
        rows: list[Row],
        attributes: tuple[str, ...],
        group: str,
        wordings: list[str],
        slots: Slots,
        tails: list[str],
    ) -> None:
        """Add a passage about two entities, and the intent that asks for it."""
        first, second = rows
        slots["A"] = first["N"]
        slots["B"] = second["N"]
        slots["who"] = spec["who"]
        position = self._add(spec, rows, "fact", attributes, wordings, slots, tails)
        self._intent(spec, rows, attributes[0], group, [position])

    def query(self, intent: Intent, rng: Random, typos: float = 0.04) -> tuple[str, str]:
        """Return a wording of an intent and how it opens.

        Both are empty where none is of a query's length.
        """
        for _ in range(1000):
            text = self._question(intent, rng).lower()
            if 2 <= len(text.split()) <= MAX_QUERY_WORDS:
                form = wh_form(text)
                if rng.random() < typos:
                    text = typo(text, rng)
                return text, form
        return "", ""

    def _question(self, intent: Intent, rng: Random) -> str:
        """Return a question that asks for an intent."""
        own = intent.spec["attributes"].get(intent.attribute, {"nouns": [""]})
        noun = pick(rng, own["nouns"])
        verb = be(noun)
        whats = "what are"
        if verb == "is":
            whats = pick(rng, ["whats", "what's"])
        slots = {"noun": noun, "be": verb, "whats": whats}
        names = [_name_in_query(row, rng) for row in intent.rows]
        if len(names) == 1:
            name, full = names[0]
            it = intent.rows[0]["it"]
            slots |= {"n": name, "N": full, "ns": plural(name)}
            slots |= {"it": it, "its": _POSSESSIVE[it]}
            is_general = rng.random() < 0.33
            wordings = self.common["ask"] if is_general else own["ask"]
        else:
            for letter, (name, full) in zip("ab", shuffled(rng, names), strict=True):
                slots[letter] = name
                slots[letter.upper()] = full
                slots[f"{letter}s"] = plural(name)
            wordings = self._questions_about_two(intent, rng)
        return render(pick(rng, wordings), rng, **slots)

    def _questions_about_two(self, intent: Intent, rng: Random) -> list[str]:
        """Return the wordings that ask about two entities."""
        if intent.attribute == "difference":
            return self.common["ask_difference"]
        if intent.attribute == "relation":
            return lines(intent.spec["relation"]["ask"])
        if rng.random() < 0.5:
            return self.common["ask_pair"]
        return intent.spec["attributes"][intent.attribute]["pair"]


def _names(rows: list[Row]) -> tuple[str, ...]:
    """Return the sorted names of some entities."""
    return tuple(sorted(row["name"] for row in rows))


def _name_in_query(row: Row, rng: Random) -> tuple[str, str]:
    """Return the name of an entity, or sometimes its alias: bare, and with its article."""
    alias = row["alias"]
    if not alias or rng.random() >= 0.15:
        return row["name"], row["N"]
    article = "a " if row["N"].startswith("a ") else ""
    return alias, article + alias


def grade(intent: Intent, passage: Passage, group_of: Groups) -> int:
    """Return the relevance 0–3 of a passage, as in TREC DL.

    It is 3 where the passage is about just this, 2 where it answers among other matter, 1 where it
    is related, no answer, 0 where it is neither.
    """
    wanted = set(intent.entities)
    about = set(passage["entities"])
    attributes = passage["attributes"]
    is_there = intent.attribute in attributes
    is_first = attributes[:1] == (intent.attribute,)
    if passage["kind"] == "near":
        return int(wanted == about and is_first)
    if wanted <= about and is_there:
        is_fact = passage["kind"] == "fact"
        is_just_this = wanted == about and is_first and is_fact
        return 3 if is_just_this else 2
    if wanted == about:
        groups = [group_of.get((passage["domain"], name)) for name in attributes]
        return int(len(wanted) == 2 or intent.group in groups)
    return int(about < wanted and is_there)

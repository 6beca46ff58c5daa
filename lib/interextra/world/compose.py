"""Passages and query wordings of a world, from its domain files."""

from itertools import product
from random import Random

from interextra.world.templates import domain, lines, load, pick, render, sentence, shuffled, typo

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
}
_PLURAL |= {"potato": "potatoes", "tomato": "tomatoes", "radish": "radishes"}
_YES_NO = {
    "is",
    "are",
    "was",
    "were",
    "does",
    "do",
    "did",
    "can",
    "could",
    "should",
    "will",
    "would",
    "am",
    "has",
}


def plural(name: str) -> str:
    """Plural of a name that ends in its noun.

    >>> plural("red fox"), plural("hertz"), plural("barrel of oil")
    ('red foxes', 'hertz', 'barrels of oil')
    """
    head, of, rest = name.partition(" of ")
    first, space, last = head.rpartition(" ")
    return (
        name
        if last.endswith(("tz", "s"))
        else first + space + _PLURAL.get(last, last + "s") + of + rest
    )


def be(noun: str) -> str:
    """Is or are, for a noun phrase.

    >>> be("side effects"), be("cause of death"), be("diagnosis")
    ('are', 'is', 'is')
    """
    head = noun.split(" of ")[0].split(" to ")[0]
    return "are" if head.endswith("s") and not head.endswith(("ss", "is", "us")) else "is"


def wh_form(text: str) -> str:
    """How a query opens: what, who, when, where, which, why, how, how much, how many, yes-no or
    keyword.

    >>> wh_form("how many feet in a mile"), wh_form("in what year did it end"), wh_form("aspirin dose")
    ('how many', 'what', 'keyword')
    """
    first, second, *_ = text.split()
    first = (
        second
        if first in ("in", "at", "from")
        else {"whats": "what"}.get(first, first.removesuffix("'s"))
    )
    if first == "how" and second in ("much", "many"):
        return f"how {second}"
    if first in ("what", "who", "when", "where", "which", "why", "how"):
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
        self.rng, self.direct, self.own_words = rng, direct, 1 - mismatch
        self.common = {
            key: lines(block)
            for key, block in load("common.yaml").items()
            if isinstance(block, str)
        }
        self.passages: list[dict] = []  # text, entities, attributes, domain, kind
        self.texts: set[str] = set()
        self.intents: list[
            dict
        ] = []  # entities, attribute, group, rows, spec, gold: the passages (positions) about it
        for file in files:
            spec = domain(f"{file}.yaml")
            for row in spec["rows"]:
                self._entity(spec, row)
            self._pairs(spec, pairs)

    def _slots(self, spec: dict, row: dict, attribute: str) -> dict:
        full = (
            f"{row['N']} ({row['alias']})" if row["alias"] and self.rng.random() < 0.4 else row["N"]
        )
        slots = {
            "N": full,
            "n": row["name"],
            "ns": plural(row["name"]),
            "who": spec["who"],
            "v": row[attribute],
        }
        slots |= {"it": row["it"], "It": row["it"], "its": _POSSESSIVE[row["it"]]}
        return slots | {"noun": pick(self.rng, spec["attributes"][attribute]["nouns"])}

    def _clause(self, spec: dict, row: dict, attribute: str) -> str:
        wording = pick(self.rng, spec["attributes"][attribute]["clause"])
        return render(wording, self.rng, **self._slots(spec, row, attribute))

    def _add(
        self, wordings: list[str], slots: dict, tails: list[str], head: str = "", **about
    ) -> int | None:
        """Position of a new passage; None if none fits the length limits. `tails` are general
        sentences, to fill up.
        """
        for _ in range(50):
            wording = pick(self.rng, wordings)
            if head.endswith(",") and not wording.startswith("{"):
                wording = wording[0].lower() + wording[1:]
            text = render(wording, self.rng, **slots)
            text = sentence(f"{head} {text if head.endswith(',') else sentence(text)}")
            text += "" if text[-1] in ".?!" else "."
            for tail in shuffled(self.rng, tails)[:3]:
                words = len(text.split())
                more = words < MIN_WORDS or (words < 30 and self.rng.random() < 0.3)
                if more and words + len(tail.split()) <= MAX_WORDS:
                    text = f"{tail} {text}" if self.rng.random() < 0.15 else f"{text} {tail}"
            text = text[0].upper() + text[1:]
            if MIN_WORDS <= len(text.split()) <= MAX_WORDS and text not in self.texts:
                self.texts.add(text)
                self.passages.append({"text": text, **about})
                return len(self.passages) - 1
        return None

    def _intent(
        self, spec: dict, rows: list[dict], attribute: str, group: str, gold: list[int | None]
    ) -> None:
        """A new intent, where there is a passage that is about just this."""
        if gold := [row for row in gold if row is not None]:
            about = {
                "entities": tuple(sorted(row["name"] for row in rows)),
                "attribute": attribute,
                "group": group,
            }
            self.intents.append({**about, "rows": rows, "spec": spec, "gold": gold})

    def _entity(self, spec: dict, row: dict) -> None:
        rng, about = self.rng, {"entities": (row["name"],), "domain": spec["domain"]}
        known = {
            attribute: own for attribute, own in spec["attributes"].items() if row[attribute] != "-"
        }
        for attribute, own in known.items():
            chance, gold = rng.random(), []
            for _ in range(2 if chance > 0.92 else int(chance > 0.18)):
                slots, tails = self._slots(spec, row, attribute), spec["tails"]
                head, chance, say, direct = (
                    "",
                    rng.random(),
                    own["say"][: -self.direct],
                    own["say"][-self.direct :],
                )
                if chance < OPENINGS:
                    head = render(pick(rng, self.common["fact_opening"]), rng, **slots)
                elif chance < OPENINGS + FAQ:
                    head = render(pick(rng, own["faq"]), rng, **slots).replace(" i ", " I ") + "?"
                elif chance < OPENINGS + FAQ + CLOSINGS:
                    tails = [
                        render(closing, rng, **slots) for closing in self.common["fact_closing"]
                    ]
                elif chance < self.own_words:
                    say = direct
                gold.append(
                    self._add(
                        say, slots, tails, head, attributes=(attribute,), kind="fact", **about
                    )
                )
            self._intent(spec, [row], attribute, own["group"], gold)
        texts = self.common | {"background": spec["background"]}
        for kind, chance, n in (("two", 0.8, 2), ("near", 0.25, 1), ("background", 0.25, 0)):
            if rng.random() < chance:
                two = shuffled(rng, known)[:2]
                slots = self._slots(spec, row, two[0])
                slots |= {
                    f"clause{i}": self._clause(spec, row, attribute)
                    for i, attribute in enumerate(two, 1)
                }
                self._add(
                    texts[kind], slots, spec["tails"], attributes=tuple(two[:n]), kind=kind, **about
                )

    def _pairs(self, spec: dict, share: float) -> None:
        """Relations with a value of their own, and comparisons of entities that stand near each
        other in the file.
        """
        rows, by_name = spec["rows"], {row["name"]: row for row in spec["rows"]}
        relations = {(one, other): value for one, other, value in spec["relation_values"]}
        couples, wanted = list(relations), int(share * len(rows))
        for i in shuffled(self.rng, range(len(rows) - 3)):
            couple = (rows[i]["name"], rows[i + 1 + int(self.rng.random() * 3)]["name"])
            if len(couples) < wanted and couple not in relations and couple[::-1] not in relations:
                couples.append(couple)
        for couple in couples:
            self._pair(spec, [by_name[name] for name in couple], relations.get(couple))

    def _pair(self, spec: dict, rows: list[dict], relation: str | None) -> None:
        about = {
            "entities": tuple(sorted(row["name"] for row in rows)),
            "domain": spec["domain"],
            "kind": "fact",
        }
        slots = {"A": rows[0]["N"], "B": rows[1]["N"], "who": spec["who"]}

        def add(
            wordings: list[str], more: dict, tails: list[str], attributes: tuple, group: str
        ) -> None:
            gold = self._add(wordings, slots | more, tails, attributes=attributes, **about)
            self._intent(spec, rows, attributes[0], group, [gold])

        if relation:
            say, group = lines(spec["relation"]["say"]), spec["relation"]["group"]
            add(say, {"v": relation}, spec["tails"], ("relation",), group)
        both = [
            a
            for a, s in spec["attributes"].items()
            if s["pair"] and rows[0][a] != "-" != rows[1][a]
        ]
        for attribute in (both := shuffled(self.rng, both)[:3]):
            own = spec["attributes"][attribute]
            more = {"noun": pick(self.rng, own["nouns"])}
            more |= {
                f"clause{x}": self._clause(spec, row, attribute)
                for x, row in zip("AB", rows, strict=True)
            }
            add(self.common["pair"], more, self.common["pair_tails"], (attribute,), own["group"])
        if len(both) >= 2:
            parts = product(zip("AB", rows, strict=True), zip(("", 2), both[:2], strict=True))
            more = {
                f"clause{x}{i}": self._clause(spec, row, attribute)
                for (x, row), (i, attribute) in parts
            }
            add(self.common["pair_difference"], more, [], ("difference", *both[:2]), "comparison")

    def query(self, intent: dict, rng: Random, typos: float = 0.04) -> tuple[str, str]:
        """A wording of an intent and how it opens; both empty where none is of a query's length."""
        drawn = (self._question(intent, rng).lower() for _ in range(1000))
        if text := next((text for text in drawn if 2 <= len(text.split()) <= MAX_QUERY_WORDS), ""):
            return (typo(text, rng) if rng.random() < typos else text), wh_form(text)
        return "", ""

    def _question(self, intent: dict, rng: Random) -> str:
        spec, attribute = intent["spec"], intent["attribute"]
        own = spec["attributes"].get(attribute, {"nouns": [""]})
        noun = pick(rng, own["nouns"])
        whats = pick(rng, ["whats", "what's"]) if be(noun) == "is" else "what are"
        slots = {"noun": noun, "be": be(noun), "whats": whats}
        named = [(row["name"], row["N"]) for row in intent["rows"]]
        for at, row in enumerate(intent["rows"]):
            if row["alias"] and rng.random() < 0.15:
                named[at] = row["alias"], ("a " if row["N"].startswith("a ") else "") + row["alias"]
        if len(named) == 1:
            (name, full), it = named[0], intent["rows"][0]["it"]
            slots |= {"n": name, "N": full, "ns": plural(name), "it": it, "its": _POSSESSIVE[it]}
            wordings = self.common["ask"] if rng.random() < 0.33 else own["ask"]
        else:
            (a, full_a), (b, full_b) = shuffled(rng, named)
            slots |= {"a": a, "b": b, "A": full_a, "B": full_b, "as": plural(a), "bs": plural(b)}
            if attribute == "difference":
                wordings = self.common["ask_difference"]
            elif attribute == "relation":
                wordings = lines(spec["relation"]["ask"])
            else:
                wordings = self.common["ask_pair"] if rng.random() < 0.5 else own["pair"]
        return render(pick(rng, wordings), rng, **slots)


def grade(intent: dict, passage: dict, group_of: dict[tuple[str, str], str]) -> int:
    """Relevance 0–3 as in TREC DL: 3 about just this, 2 answers among other matter, 1 related, no
    answer, 0 neither.

    group_of: (domain, attribute) -> intent group.
    """
    wanted, attribute = set(intent["entities"]), intent["attribute"]
    about, attributes = set(passage["entities"]), passage["attributes"]
    if passage["kind"] == "near":
        return int(wanted == about and attributes[0] == attribute)
    if wanted <= about and attribute in attributes:
        return (
            3 if wanted == about and attributes[0] == attribute and passage["kind"] == "fact" else 2
        )
    if wanted == about:
        same_group = any(
            group_of.get((passage["domain"], a)) == intent["group"] for a in attributes
        )
        return int(same_group or len(wanted) == 2)
    return int(about < wanted and attribute in attributes)

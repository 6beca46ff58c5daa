"""The generated world behind the embedded collection `mini`: passages, queries, graded relevance, and the truth."""

from collections import defaultdict
from dataclasses import dataclass, field
from random import Random

import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.world.compose import Composer, grade
from interextra.world.plan import SHARES, plan
from interextra.world.templates import load, pick, shuffled

SEED = 20221
TEST_SIZES = {"dl19": 43, "dl20": 57}


@dataclass(frozen=True)
class World:
    """A generated collection and the truth about it.

    passages: (doc_id, text), in an order without meaning. queries: split -> DataFrame with query_id, text, domain,
    entities (sorted list of names), intent, intent_group, wh; dev and test also test_set, planned_entity,
    planned_intent. qrels: split -> DataFrame with query_id, doc_id, relevance. facts: doc_id, entities, attributes,
    attribute (the first of them, "" for none), domain, kind.
    """

    name: str
    passages: list[tuple[str, str]]
    queries: dict[str, pd.DataFrame]
    qrels: dict[str, pd.DataFrame]
    facts: pd.DataFrame = field(repr=False)


def letters(text: str) -> str:
    """What a text is compared by: two that differ in case, spaces or marks are the same."""
    return "".join(letter for letter in text.lower() if letter.isalnum())


class Wordings:
    """Queries of which no two are the same text, whatever the split; ids that tell nothing."""

    def __init__(self, composer: Composer, rng: Random):
        self.composer, self.rng = composer, rng
        self.texts: set[str] = set()
        self.ids: set[int] = set()

    def row(self, intent: dict) -> dict | None:
        """A fresh query for an intent; None where its wordings are used up, or all too long."""
        drawn = (self.composer.query(intent, self.rng) for _ in range(40))
        text, form = next(((text, form) for text, form in drawn if letters(text) not in self.texts), ("", ""))
        if not text:
            return None
        self.texts.add(letters(text))
        number = 1000 + int(self.rng.random() * 1_180_000)
        while number in self.ids:
            number += 1
        self.ids.add(number)
        return {
            "query_id": str(number),
            "text": text,
            "domain": intent["domain"],
            "entities": list(intent["entities"]),
            "intent": f"{';'.join(intent['entities'])}|{intent['attribute']}",
            "intent_group": intent["group"],
            "wh": form,
        }


def number_passages(composer: Composer, rng: Random) -> tuple[list[str], list[tuple[str, str]], pd.DataFrame]:
    """Document ids by position in the composer, and passages and facts in the (shuffled) order of the ids."""
    order = shuffled(rng, range(len(composer.passages)))
    ids = {row: f"d{place:04d}" for place, row in enumerate(order, start=1)}
    passages = [(ids[row], composer.passages[row]["text"]) for row in order]
    facts = pd.DataFrame([{"doc_id": ids[row], **composer.passages[row]} for row in order])
    facts[["entities", "attributes"]] = facts[["entities", "attributes"]].map(list)
    facts["attribute"] = [(*attributes, "")[0] for attributes in facts["attributes"]]
    facts = facts[["doc_id", "entities", "attributes", "attribute", "domain", "kind"]]
    return [ids[row] for row in range(len(order))], passages, facts


class Judge:
    """Graded judgements of pools that hold, as TREC's do, many passages that are not relevant."""

    def __init__(self, composer: Composer, doc_ids: list[str], rng: Random):
        self.composer, self.doc_ids, self.rng = composer, doc_ids, rng
        self.group_of = {(i["domain"], i["attribute"]): i["group"] for i in composer.intents}
        self.of_entity: dict[str, list[int]] = defaultdict(list)
        self.of_attribute: dict[tuple, list[int]] = defaultdict(list)
        for row, passage in enumerate(composer.passages):
            for entity in passage["entities"]:
                self.of_entity[entity].append(row)
            for attribute in passage["attributes"]:
                self.of_attribute[passage["domain"], attribute].append(row)

    def judge(self, query_id: str, intent: dict) -> list[tuple[str, str, int]]:
        """All passages that mention an entity, ten on the same attribute, and five strangers."""
        own = [row for entity in intent["entities"] for row in self.of_entity[entity]]
        alike = shuffled(self.rng, self.of_attribute[intent["domain"], intent["attribute"]])[:10]
        far = [int(self.rng.random() * len(self.doc_ids)) for _ in range(5)]
        pool = sorted(dict.fromkeys(own + alike + far), key=lambda row: self.doc_ids[row])
        graded = [(row, grade(intent, self.composer.passages[row], self.group_of)) for row in pool]
        return [(query_id, self.doc_ids[row], relevance) for row, relevance in graded]


def frames(rows: dict[str, list[dict]], judged: dict[str, list[tuple]]) -> tuple[dict, dict]:
    """Query and qrels DataFrames per split, in the order of the query ids."""
    queries, qrels = {}, {}
    for split, items in rows.items():
        items = sorted(items, key=lambda item: int(item["query_id"]))
        place = {item["query_id"]: i for i, item in enumerate(items)}
        queries[split] = pd.DataFrame(items)
        triples = sorted(judged[split], key=lambda triple: (place[triple[0]], triple[1]))
        qrels[split] = pd.DataFrame(triples, columns=["query_id", "doc_id", "relevance"])
    return queries, qrels


def generate_mini(seed: int = SEED, n_train: int = 4000, n_dev: int = 400, shares: dict | None = None) -> World:
    """The world `mini`.

    shares: {test set: {"entity": [full, partial, zero], "intent": [duplicate, similar, dissimilar]}} for dl19 (43
    queries), dl20 (57) and dev; what is not given is taken from Zhan et al., Tables 1 and 2. The overlap of every dev
    and test query with *all* training queries is as planned. The same arguments give the same bytes on every machine.
    Raises `InputError` for shares that exclude each other and for sizes that the world is too small for.
    """
    if unknown := (shares or {}).keys() - SHARES:
        raise InputError(f"shares: no test set called {offenders(unknown)}; there are {', '.join(SHARES)}")
    all_shares = {test_set: default | (shares or {}).get(test_set, {}) for test_set, default in SHARES.items()}
    composer = Composer(load("common.yaml")["domains"], Random(f"mini-{seed}-passages"))
    rng = Random(f"mini-{seed}-queries")
    doc_ids, passages, facts = number_passages(composer, rng)
    intents = composer.intents
    chosen, holdout = plan(intents, {**TEST_SIZES, "dev": n_dev}, all_shares, Random(f"mini-{seed}-plan"))
    wordings, judge = Wordings(composer, rng), Judge(composer, doc_ids, rng)
    rows, judged = ({split: [] for split in ("train", "dev", "test")} for _ in range(2))

    def label(split: str, row: dict, intent: dict) -> None:
        rows[split].append(row)
        judged[split].append((row["query_id"], doc_ids[pick(rng, intent["gold"])], 1))

    for test_set, items in chosen.items():
        for i, entity, overlap in items:
            row = wordings.row(intents[i]) | {"test_set": test_set, "planned_entity": entity, "planned_intent": overlap}
            if test_set == "dev":
                label("dev", row, intents[i])
            else:
                rows["test"].append(row)
                judged["test"] += judge.judge(row["query_id"], intents[i])
    # What the plan requires comes first, then every allowed intent in turn.
    allowed = [i for i in shuffled(rng, range(len(intents))) if i not in holdout.banned]
    if n_train < len(holdout.required):
        raise InputError(f"n_train = {n_train}: the shares need at least {len(holdout.required)} training queries")
    turn = list(holdout.required) + [i for i in allowed if i not in holdout.required]
    while turn and len(rows["train"]) < n_train:
        left = []
        for i in turn[: n_train - len(rows["train"])]:
            if row := wordings.row(intents[i]):
                label("train", row, intents[i])
                left.append(i)
        turn = shuffled(rng, left)
    if len(rows["train"]) < n_train:
        raise InputError(f"n_train = {n_train}: the world has wordings for {len(rows['train'])} training queries only")
    queries, qrels = frames(rows, judged)
    return World("mini", passages, queries, qrels, facts)

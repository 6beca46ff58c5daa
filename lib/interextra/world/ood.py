"""Small test collections of two further worlds, of several kinds, for out-of-domain evaluation."""

from random import Random

from interextra.ground.errors import InputError
from interextra.world.compose import Composer
from interextra.world.generate import Judge, Wordings, World, frames, letters, number_passages
from interextra.world.templates import pick, render, sentence, shuffled, tidy

WORLDS = {
    "hobby": ["ood_gardening", "ood_astronomy", "ood_sports"],
    "affairs": ["ood_companies", "ood_music", "ood_travel"],
}
KINDS = {
    "hobby": ["questions", "claims", "titles", "duplicates"],
    "affairs": ["questions", "keywords", "comparisons", "lookup"],
}
N_QUERIES = 50


def ood_names() -> list[str]:
    """Names of all out-of-domain collections, as `generate` takes them."""
    return [f"ood-{world}-{kind}" for world, kinds in KINDS.items() for kind in kinds]


class _Kind(Composer):
    """Words queries as `kind` does: a question, a claim, a title, keywords, a description without the name."""

    kind = "questions"

    def _question(self, intent: dict, rng: Random) -> str:
        spec, rows, attribute = intent["spec"], intent["rows"], intent["attribute"]
        if self.kind in ("questions", "duplicates", "comparisons"):
            return super()._question(intent, rng)
        noun, row = pick(rng, spec["attributes"][attribute]["nouns"]), rows[0]
        slots = {"n": row["name"], "N": row["N"], "v": row[attribute], "noun": noun}
        clause = render(pick(rng, spec["attributes"][attribute]["clause"]), rng, **slots)
        wordings = {
            "claims": ["{N} {c}", "it is true that {N} {c}", "[as a rule|in general] {N} {c}", "experts say {N} {c}"],
            "titles": ["{n}: {noun}", "{noun} of {N}", "{n} and its {noun}", "a guide to {n}: {noun}"],
            "keywords": ["{n} {noun}", "{noun} {n}", "{n} {noun} [info|facts]"],
            "lookup": ["[which|what] {k} {c}", "{k} {w} {c}", "name of the {k} {w} {c}", "looking for a {k} {w} {c}"],
        }
        slots |= {"c": clause, "k": spec["kind"], "w": "that"}
        return render(pick(rng, wordings[self.kind]), rng, **slots)


def _fitting(kind: str, intents: list[dict]) -> list[int]:
    """Intents that a kind of query can be about; a lookup needs a value that no other entity has."""
    rows = [i for i, intent in enumerate(intents) if (len(intent["entities"]) == 2) == (kind == "comparisons")]
    if kind != "lookup":
        return rows
    values = [intents[i]["rows"][0][intents[i]["attribute"]] for i in rows]
    return [i for i, value in zip(rows, values, strict=True) if values.count(value) == 1 and len(value.split()) <= 9]


def _questions_as_passages(composer: Composer, rng: Random) -> None:
    """Passages become questions of earlier users: query and passage are then two wordings of one intent."""
    composer.passages, seen = [], set()
    for intent in composer.intents:
        intent["gold"] = []
        for _ in range(1 + int(rng.random() < 0.4)):
            text = sentence(composer.query(intent, rng, typos=0.0)[0]) + "?"
            if text not in seen:
                seen.add(text)
                intent["gold"].append(len(composer.passages))
                about = {"attributes": (intent["attribute"],), "kind": "fact", "text": text}
                composer.passages.append({"entities": intent["entities"], "domain": intent["domain"], **about})


def generate_ood(name: str, seed: int) -> World:
    """One small test collection: passages of a world of its own, and 50 graded queries in the split `test`."""
    if name not in ood_names():
        raise InputError(f"no generated world called {name!r}; there are {', '.join(ood_names())}")
    _, world, kind = name.split("-")
    rng = Random(f"{name}-{seed}")
    composer = _Kind(WORLDS[world], Random(f"ood-{world}-{seed}-passages"), pairs=0.9, direct=2)
    if kind == "duplicates":
        _questions_as_passages(composer, rng)
    composer.kind = kind
    doc_ids, passages, facts = number_passages(composer, rng)
    wordings, judge = Wordings(composer, rng), Judge(composer, doc_ids, rng)
    wordings.texts = {letters(text) for _, text in passages}
    rows, judged = [], []
    for i in shuffled(rng, _fitting(kind, composer.intents)):
        row = wordings.row(composer.intents[i]) if composer.intents[i]["gold"] else None
        if row is None or len(rows) == N_QUERIES:
            continue
        if kind in ("claims", "titles"):
            row["text"] = tidy(row["text"].capitalize() + ("." if kind == "claims" else ""))
        rows.append(row | {"test_set": name})
        judged += judge.judge(row["query_id"], composer.intents[i])
    queries, qrels = frames({"test": rows}, {"test": judged})
    return World(name, passages, queries, qrels, facts)

"""A small collection for the tests of models: made-up animals, where each lives and what it
eats.
"""

import hashlib

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, Passages, write_passages

PLACES = ["forest", "desert", "river", "mountain", "island", "swamp"]
FOODS = ["grass", "fish", "seeds", "insects", "honey", "roots"]


def collection_of(folder, passages, queries=(), qrels=()) -> Collection:
    """A collection with one split, `train`, of (doc_id, text), (query_id, text), (query_id, doc_id,
    relevance).
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_passages(folder / "passages.arrow", passages)
    queries = pd.DataFrame(queries, columns=["query_id", "text"])
    qrels = pd.DataFrame(qrels, columns=["query_id", "doc_id", "relevance"])
    content = hashlib.sha256(
        repr((passages, queries.values.tolist(), qrels.values.tolist())).encode()
    ).hexdigest()
    return Collection(
        "toy", "toy", Passages(folder / "passages.arrow"), queries, {"train": qrels}, content
    )


def animals(folder, n: int = 60) -> Collection:
    """Two passages and two queries an animal."""
    draw = np.random.default_rng(3)
    syllables = ["ba", "do", "ki", "lu", "me", "no", "pra", "shu", "ti", "vor"]
    passages, queries, qrels = [], [], []
    for _ in range(n):
        name = "".join(draw.choice(syllables, 3)).capitalize()
        facts = [
            (
                f"The {name} lives in the {draw.choice(PLACES)}; many a {name} was seen there.",
                f"where does the {name} live",
            ),
            (
                f"A {name} eats {draw.choice(FOODS)}. No other food is known of the {name}.",
                f"what does a {name} eat",
            ),
        ]
        for text, query in facts:
            passages.append((f"d{len(passages) * 7919 % 1000:03d}", text))
            queries.append((f"q{len(queries)}", query))
            qrels.append((queries[-1][0], passages[-1][0], 1))
    return collection_of(folder, passages, queries, qrels)

"""What is true of a generated world.

That is the overlap of queries by set logic, and what matching entities alone reaches.
"""

import zlib
from itertools import pairwise
from math import comb

import numpy as np
import pandas as pd

from interextra.world.generate import World


# Its code names the splits by it (`splits.attributes.fingerprint`): another text of it is another
# split, and the committed values are of this one.
def kind_of_question(query: dict) -> str:
    """Return one of three kinds of query, each some ten groups of intents.

    The kind is what a query asks for, whatever its words and its entities. For leave-one-out shifts
    by `python:interextra.world.truth:kind_of_question`.

    Examples
    --------
    >>> kind_of_question({"intent_group": "money"}), kind_of_question({"intent_group": "kitchen"})
    ('kind 3', 'kind 2')
    """
    return f"kind {zlib.crc32(query['intent_group'].encode()) % 3 + 1}"


def entity_overlap(test_queries: pd.DataFrame, train_queries: pd.DataFrame) -> pd.Series:
    """Return full, partial or zero per test query, indexed by query_id.

    full: a training query has exactly the same entities; partial: one shares an entity, none has
    the same; else zero. Both frames need the columns query_id and entities (list of names). Zhan et
    al., section 3.2.
    """
    training_sets = set(map(frozenset, train_queries["entities"]))
    training_entities = frozenset().union(*training_sets)
    labels = []
    for entities in map(frozenset, test_queries["entities"]):
        if entities in training_sets:
            labels.append("full")
        elif entities & training_entities:
            labels.append("partial")
        else:
            labels.append("zero")
    return pd.Series(labels, index=test_queries["query_id"], name="entity_overlap")


def intent_overlap(test_queries: pd.DataFrame, train_queries: pd.DataFrame) -> pd.Series:
    """Return duplicate, similar or dissimilar per test query, indexed by query_id.

    duplicate: a training query has the same intent; similar: one shares an entity and the group;
    else dissimilar. frames need the columns query_id, entities, intent, intent_group. Zhan et al.,
    section 3.2.
    """
    columns = ["intent", "entities", "intent_group"]
    training_intents = set()
    training_pairs: set[tuple[str, str]] = set()
    for intent, entities, group in train_queries[columns].itertuples(index=False):
        training_intents.add(intent)
        training_pairs.update((entity, group) for entity in entities)
    labels = []
    for intent, entities, group in test_queries[columns].itertuples(index=False):
        if intent in training_intents:
            labels.append("duplicate")
        elif any((entity, group) in training_pairs for entity in entities):
            labels.append("similar")
        else:
            labels.append("dissimilar")
    return pd.Series(labels, index=test_queries["query_id"], name="intent_overlap")


def expected_reciprocal_rank(n: int, relevant: int, cutoff: int = 10) -> float:
    """Return the expected reciprocal rank of the first relevant passage in random order.

    `relevant` of the `n` passages are.

    Examples
    --------
    >>> round(expected_reciprocal_rank(2, 1), 2)
    0.75
    """
    ranks = range(min(cutoff, n) + 1)
    n_without = [comb(n - rank, relevant) for rank in ranks]  # orders with none up to this rank
    expected = 0.0
    for rank, (before, after) in enumerate(pairwise(n_without), start=1):
        expected += (before - after) / n_without[0] / rank
    return expected


def floor(world: World, split: str) -> float:
    """Return the mean expected RR@10 of a system that finds the right entities and nothing else.

    It ranks the passages about exactly the query's entities first, in random order. Exact, not
    simulated.
    """
    entities = world.facts["entities"].map(tuple)
    passages = world.facts.groupby(entities)["doc_id"].agg(set)
    positives = world.qrels[split].query("relevance > 0")
    relevant = positives.groupby("query_id")["doc_id"].agg(set)
    values = []
    queries = world.queries[split][["query_id", "entities"]]
    for query_id, entities in queries.itertuples(index=False):
        top = passages.get(tuple(entities), set())
        found = top & relevant.get(query_id, set())
        values.append(expected_reciprocal_rank(len(top), len(found)))
    return float(np.mean(values))

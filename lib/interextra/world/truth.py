"""What is true of a generated world: overlap of queries by set logic, and what matching entities
alone reaches.
"""

import zlib
from math import comb

import numpy as np
import pandas as pd


def kind_of_question(query: dict) -> str:
    """One of three kinds, each some ten groups of intents: what a query asks for, whatever its
    words and its entities.

    For leave-one-out shifts by `python:interextra.world.truth:kind_of_question`.

    >>> kind_of_question({"intent_group": "money"}), kind_of_question({"intent_group": "kitchen"})
    ('kind 3', 'kind 2')
    """
    return f"kind {zlib.crc32(query['intent_group'].encode()) % 3 + 1}"


def entity_overlap(test_queries: pd.DataFrame, train_queries: pd.DataFrame) -> pd.Series:
    """full, partial or zero per test query, indexed by query_id.

    full: a training query has exactly the same entities; partial: one shares an entity, none has
    the same; else zero. Both frames need the columns query_id and entities (list of names). Zhan et
    al., section 3.2.
    """
    sets = set(map(frozenset, train_queries["entities"]))
    known = frozenset().union(*sets)
    asked = map(frozenset, test_queries["entities"])
    found = ["full" if mine in sets else "partial" if mine & known else "zero" for mine in asked]
    return pd.Series(found, index=test_queries["query_id"], name="entity_overlap")


def intent_overlap(test_queries: pd.DataFrame, train_queries: pd.DataFrame) -> pd.Series:
    """duplicate, similar or dissimilar per test query, indexed by query_id.

    duplicate: a training query has the same intent; similar: one shares an entity and the group;
    else dissimilar. frames need the columns query_id, entities, intent, intent_group. Zhan et al.,
    section 3.2.
    """
    intents, columns = set(train_queries["intent"]), ["intent", "entities", "intent_group"]
    rows = train_queries[columns].itertuples(index=False)
    known = {(entity, group) for _, entities, group in rows for entity in entities}
    found = [
        "duplicate"
        if intent in intents
        else "similar"
        if {(one, group) for one in entities} & known
        else "dissimilar"
        for intent, entities, group in test_queries[columns].itertuples(index=False)
    ]
    return pd.Series(found, index=test_queries["query_id"], name="intent_overlap")


def expected_reciprocal_rank(n: int, relevant: int, cutoff: int = 10) -> float:
    """Expected reciprocal rank of the first of `relevant` among `n` passages in random order.

    >>> round(expected_reciprocal_rank(2, 1), 2)
    0.75
    """
    none_in = [
        comb(n - rank, relevant) for rank in range(min(cutoff, n) + 1)
    ]  # orders without one up to this rank
    return sum(
        (none_in[rank - 1] - none_in[rank]) / none_in[0] / rank for rank in range(1, len(none_in))
    )


def floor(world, split: str) -> float:
    """Mean expected RR@10 of a system that finds the right entities and nothing else.

    It ranks the passages about exactly the query's entities first, in random order. Exact, not
    simulated.
    """
    about = world.facts.groupby(world.facts["entities"].map(tuple))["doc_id"].agg(set)
    judged = world.qrels[split].query("relevance > 0").groupby("query_id")["doc_id"].agg(set)
    queries = world.queries[split][["query_id", "entities"]].itertuples(index=False)
    tops = [
        (about.get(tuple(entities), set()), judged.get(query_id, set()))
        for query_id, entities in queries
    ]
    return float(
        np.mean([expected_reciprocal_rank(len(top), len(top & relevant)) for top, relevant in tops])
    )

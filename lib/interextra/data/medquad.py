"""What is true of MedQuAD's questions: the concepts of the focus entity, and the question type."""

from collections.abc import Sequence

import pandas as pd

from interextra.store.errors import InputError

# Question types that a person would call similar when asked of the same disease
GROUPS = {
    "origin": ("causes", "genetic changes", "inheritance", "susceptibility"),
    "course": ("symptoms", "complications", "stages", "outlook"),
    "care": ("treatment", "prevention", "considerations", "support groups"),
    "diagnosis": ("exams and tests",),
    "general": ("information", "frequency", "research"),
}

# UMLS semantic types; a neoplasm or a congenital abnormality is usually typed as a disease as well,
# hence the order.
KINDS = {"neoplasm": {"T191"}, "congenital": {"T019", "T020"}, "disease": {"T047"}}


def entity_type(semantic_types: Sequence[str] | None) -> str:
    """neoplasm, congenital or disease by the UMLS semantic types of the focus; "" for anything
    else.

    >>> entity_type(["T019", "T047"]), entity_type(["T033"])
    ('congenital', '')
    """
    return next((kind for kind, signs in KINDS.items() if signs & set(semantic_types or ())), "")


def entity_units(queries: pd.DataFrame) -> pd.Series:
    """What a query is about, query_id → its entities as one text: queries with the same are one
    unit of a bootstrap.

    Where entities are not known each query is a unit of its own.
    """
    units = pd.Series(queries["query_id"].to_numpy(), queries["query_id"])
    if {"focus", "qtype"} <= set(queries.columns) or "entities" in queries.columns:
        known = with_truth(queries)
        units.loc[known["query_id"]] = known["entities"].map("+".join).to_numpy()
    return units


def with_truth(queries: pd.DataFrame) -> pd.DataFrame:
    """Queries with the columns entities (list), intent and intent_group; those of generated worlds
    have them already.

    Of MedQuAD's, the entities are the UMLS concepts of the focus (its name where there is none),
    the intent is entities and question type; they also get entity_type, and questions without a
    focus are left out.
    """
    if {"entities", "intent", "intent_group"} <= set(queries.columns):
        return queries
    if not {"focus", "qtype"} <= set(queries.columns):
        told = f"queries carry no truth on entities and intent; columns are {', '.join(queries.columns)}"
        needed = "entities, intent, intent_group (a generated world) or focus, qtype (MedQuAD)"
        raise InputError(f"{told}, needed are {needed}")
    known = queries.dropna(subset=["focus", "qtype"], ignore_index=True)
    pairs = zip(known.get("cui", [None] * len(known)), known["focus"], strict=True)
    entities = [sorted(filter(None, cui or ())) or [focus.lower()] for cui, focus in pairs]
    intents = [
        "+".join(names) + f"|{kind}" for names, kind in zip(entities, known["qtype"], strict=True)
    ]
    types = known["semtype"].map(entity_type) if "semtype" in known else ""
    group_of = {
        question_type: group for group, members in GROUPS.items() for question_type in members
    }
    return known.assign(
        entities=entities,
        intent=intents,
        intent_group=known["qtype"].map(group_of),
        entity_type=types,
    )

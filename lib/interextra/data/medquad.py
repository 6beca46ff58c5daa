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
_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}

# UMLS semantic types; a neoplasm or a congenital abnormality is usually typed as a disease as well,
# hence the order.
KINDS = {
    "neoplasm": {"T191"},
    "congenital": {"T019", "T020"},
    "disease": {"T047"},
}


def entity_type(semantic_types: Sequence[str] | None) -> str:
    """Return neoplasm, congenital or disease by the UMLS semantic types of the focus.

    "" for anything else.

    Examples
    --------
    >>> entity_type(["T019", "T047"]), entity_type(["T033"])
    ('congenital', '')
    """
    for kind, types_of_kind in KINDS.items():
        if types_of_kind.intersection(semantic_types or ()):
            return kind
    return ""


def entity_units(queries: pd.DataFrame) -> pd.Series:
    """Return what each query is about, query_id → its entities as one text.

    Queries with the same entities are one unit of a bootstrap. Where entities are not known each
    query is a unit of its own.
    """
    query_ids = queries["query_id"]
    units = pd.Series(query_ids.to_numpy(), query_ids)
    columns = set(queries.columns)
    is_medquad = {"focus", "qtype"} <= columns
    if is_medquad or "entities" in columns:
        known = with_truth(queries)
        names = known["entities"].map("+".join)
        units.loc[known["query_id"]] = names.to_numpy()
    return units


def with_truth(queries: pd.DataFrame) -> pd.DataFrame:
    """Return the queries with the columns entities (list), intent and intent_group.

    Those of generated worlds have them already. Of MedQuAD's, the entities are the UMLS concepts of
    the focus (its name where there is none), the intent is entities and question type; they also
    get entity_type, and questions without a focus are left out.
    """
    columns = set(queries.columns)
    if {"entities", "intent", "intent_group"} <= columns:
        return queries
    if not {"focus", "qtype"} <= columns:
        raise InputError(
            "queries carry no truth on entities and intent; "
            f"columns are {', '.join(queries.columns)}, needed are "
            "entities, intent, intent_group (a generated world) or focus, qtype (MedQuAD)"
        )
    known = queries.dropna(subset=["focus", "qtype"], ignore_index=True)
    concepts = known.get("cui", [None] * len(known))
    entities = []
    intents = []
    for cuis, focus, kind in zip(concepts, known["focus"], known["qtype"], strict=True):
        names = sorted(filter(None, cuis or ()))
        if not names:
            names = [focus.lower()]
        entities.append(names)
        about = "+".join(names)
        intents.append(f"{about}|{kind}")
    return known.assign(
        entities=entities,
        intent=intents,
        intent_group=known["qtype"].map(_GROUP_OF),
        entity_type=known["semtype"].map(entity_type) if "semtype" in known else "",
    )

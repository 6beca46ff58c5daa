"""Parameters of a profile on another collection.

Sizes are shares of what it has, splits and kinds those that it has.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from interextra.data.collection import Collection
from interextra.data.load import open_collection
from interextra.data.msmarco import QuerySets
from interextra.data.queries import Queries, Source
from interextra.notebooks.parameters import Entry
from interextra.notebooks.plans import NamedShift, is_of_kinds, named_shift
from interextra.splits import attributes
from interextra.store import InputError

AnyCollection = Collection | QuerySets
Values = Mapping[str, Any]  # of parameters, by name
ShiftSizes = Mapping[str, int]  # n_test and train_size of a shift

SIZES = (
    "sizes",
    "trained_sizes",
    "more_sizes",
    "grid_sizes",
    "curve_sizes",
    "draw_train",
    "train_size",
    "fold_size",
    "n_test",
    "test_size",
    "topic_size",
    "native_clusters",
)
SPLITS = ("test_splits", "resttest_splits", "graded_splits", "draw_splits")
KNOWN_OF_WORLDS = ("truth", "complete")  # what only a generated world knows
DIVIDING = ("k", "shift", "shifts")  # of notebooks that divide the queries of all splits
QUERIES_OF_A_BUCKET = 12  # test queries of a bucket or kind, at least


def fitted(p: Values, own: str, given: Values) -> dict[str, Any]:
    """Return what of a profile's parameters becomes another value on another collection.

    Sizes keep their share of the training queries where there are fewer; splits are those that are
    there; clusters of shifts are those with enough queries.

    Parameters
    ----------
    p
        All parameters, made for the collection `own`; `p["collection"]` is the other one.
    own
        Spec of the profile's collection.
    given
        What the user set, which stays.

    Raises
    ------
    InputError
        A split without enough queries that have a relevant passage.
    """
    spec = p["collection"]
    is_world = spec.split(":")[0] == "mini"  # one like that of the profile
    if is_world or not Source.of(spec).fingerprint:  # or only priced, not here yet
        return {}
    changes = _changes(p, own)
    free = p.keys() - given.keys()
    return {name: value for name, value in changes.items() if name in free and value != p[name]}


def _changes(p: Values, own: str) -> dict[str, Any]:
    """Return what parameters become on their collection, those that the user set among them."""
    data = open_collection(p["collection"])
    train_split = p.get("train_split", "train")
    changes: dict[str, Any] = dict.fromkeys(KNOWN_OF_WORLDS, False)
    changes |= _fitted_splits(p, data, train_split)
    share = _share_of_training(p["collection"], train_split, own)
    changes |= _fitted_sizes(p, share)
    if "k" in p:
        changes["k"] = _fitted_k(p["k"], data, changes)
    sizes = {name: changes.get(name, 0) for name in ("n_test", "train_size")}
    queries = data.queries(train_split)
    if "shift" in p:
        changes["shift"] = _fitted_shift(p["shift"], queries, sizes)
    if "shifts" in p:
        changes["shifts"] = _fitted_shifts(p["shifts"], queries, share, sizes)
    return changes


def _fitted_splits(p: Values, data: AnyCollection, train_split: str) -> dict[str, list[str]]:
    """Return the splits among the parameters that are there, those of the gate with no other use.

    InputError for one with too few queries to train on or to measure.
    """
    test_splits = _test_splits(data, p["collection"], train_split)
    changes = {}
    for name in SPLITS:
        if p.get(name):
            there = [split for split in p[name] if split in data.splits]
            changes[name] = there or test_splits[:1]
    used = {train_split}.union(*changes.values())
    if len(data.passages):  # queries alone have no judgements to learn from
        for split in sorted(used):
            _refuse_few_queries(p, data, split, is_training=split == train_split)
    if "gate_splits" in p:
        unused = set(data.splits) - used
        changes["gate_splits"] = [split for split in p["gate_splits"] if split in unused]
    return changes


def _test_splits(data: AnyCollection, spec: str, train_split: str) -> list[str]:
    """Return the splits that can measure: all but train and dev, or else all but train."""
    if train_split not in data.splits:
        raise InputError(
            f"{spec}: no split {train_split!r}; it has {', '.join(data.splits)}: set train_split"
        )
    others = [split for split in data.splits if split != train_split]
    if not others:
        raise InputError(
            f"{spec}: only the split {train_split!r}; add the judgements of test queries"
        )
    return [split for split in others if split != "dev"] or others


def _refuse_few_queries(p: Values, data: AnyCollection, split: str, is_training: bool) -> None:
    """Raise an InputError for a split with fewer judged queries than the notebook divides."""
    dividing = (*DIVIDING, *SIZES) if is_training else DIVIDING
    is_divided = any(name in p for name in dividing)
    least = QUERIES_OF_A_BUCKET if is_divided else 2
    qrels = data.qrels(split)
    queries = data.queries(split)
    judged = qrels.loc[qrels["relevance"] > 0, "query_id"]
    n_queries = queries.loc[queries["query_id"].isin(judged), "text"].nunique()
    if n_queries < least:
        raise InputError(
            f"{p['collection']}: {n_queries} different queries of the split {split!r} have a "
            f"relevant passage (relevance 1 or more); give {least} or more"
        )


def _share_of_training(spec: str, train_split: str, own: str) -> float:
    """Return how many training queries there are for one of the profile's collection; 1 at most.

    Only those with a relevant passage count, but of queries without passages all.
    """
    queries = Queries(source=Source.of(spec), split=train_split)
    n_own = len(open_collection(own).query_ids("train"))
    return min(1.0, queries.trainable().size() / n_own)


def _scaled(size: int, share: float) -> int:
    """Return a share of a size, 1 at least."""
    return max(1, round(share * size))


def _fitted_sizes(p: Values, share: float) -> dict[str, Any]:
    """Return the sizes among the parameters as the same share of fewer training queries."""
    changes: dict[str, Any] = {}
    for name in SIZES:
        size = p.get(name)
        if isinstance(size, list) and size:
            changes[name] = sorted({_scaled(one, share) for one in size})
        elif size:
            changes[name] = _scaled(size, share)
    if "n_test" in changes:
        enough = max(changes["n_test"], QUERIES_OF_A_BUCKET)
        changes["n_test"] = min(p["n_test"], enough)
    if "native_clusters" in changes:  # some are left to choose from
        changes["native_clusters"] = max(changes["native_clusters"], 3 * p["n_topics"])
    return changes


def _fitted_k(k: int, data: AnyCollection, splits: Values) -> int:
    """Return a number of buckets for which there are test queries; 2 at least."""
    bucketed = splits.get("resttest_splits") or splits["test_splits"]
    n_queries = sum(len(data.query_ids(split)) for split in bucketed)
    return max(2, min(k, n_queries // QUERIES_OF_A_BUCKET))


def _fitted_shifts(
    entries: Sequence[Entry], queries: pd.DataFrame, share: float, sizes: ShiftSizes
) -> list[dict[str, Any]]:
    """Return shifts with clusters that have enough queries, and sizes of their own scaled."""
    shifts: dict[str, dict[str, Any]] = {}
    for entry in entries:
        options = _options(entry)
        for name in sizes.keys() & options.keys():
            options[name] = _scaled(options[name], share)
        own_sizes = {**sizes, **named_shift(options).sizes}
        shift = _options(_fitted_shift(options, queries, own_sizes))
        division = str([shift["shift"], shift.get("clusters")])
        shifts[division] = options | shift  # several may become the same
    return list(shifts.values())


def _options(entry: Entry) -> dict[str, Any]:
    """Return the options of a shift, of which its attribute may stand alone."""
    return {"shift": entry} if isinstance(entry, str) else dict(entry)


def _fitted_shift(entry: Entry, queries: pd.DataFrame, sizes: ShiftSizes) -> Entry:
    """Return a shift whose clusters have enough queries; else one by length, or by chance."""
    by = named_shift(entry).by
    if by == "topics" or is_of_kinds(by):
        return entry
    usual = _options(entry)
    for name in sizes:
        usual.pop(name, None)
    if by.startswith("python:interextra.world"):  # which knows the queries of worlds only
        usual = {"shift": "wh-words"}
    n_spaces = queries["text"].str.count(" ")
    median = int(n_spaces.median()) + 1
    others = [f"length:limit={median}", f"length:limit={median + 1}", "random:parts=3"]
    for options in (usual, *map(_options, others)):
        clusters = _clusters_with_enough(queries, named_shift(options), sizes)
        if clusters:
            return options | {"clusters": clusters}
    return "random:parts=3"


def _clusters_with_enough(queries: pd.DataFrame, shift: NamedShift, sizes: ShiftSizes) -> list[str]:
    """Return the clusters with more than twice the test queries, the largest first.

    None where fewer than two have, or where too few training queries are left without one.
    """
    n_test = sizes["n_test"]
    labels = pd.Series(attributes.labels(queries, shift.by))
    labels = labels[labels != ""]
    if shift.clusters:
        labels = labels[labels.isin(shift.clusters)]
    counts = labels.value_counts().sort_index()
    counts = counts[counts > 2 * n_test]
    counts = counts.sort_values(ascending=False, kind="stable")
    if len(counts) < 2:
        return []
    n_other_clusters = len(counts) - 1
    n_left = counts.iloc[1:].sum() - n_test * n_other_clusters  # without the largest
    return counts.index.tolist() if n_left >= sizes["train_size"] else []

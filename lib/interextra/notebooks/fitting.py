"""Parameters of a profile on another collection.

Sizes are shares of what it has, splits and kinds those that it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from interextra.data.collection import Collection
from interextra.data.load import open_collection
from interextra.data.msmarco import QuerySets
from interextra.data.queries import Source
from interextra.notebooks.parameters import Entry
from interextra.notebooks.plans import named_shift
from interextra.splits import attributes
from interextra.store import InputError

SIZES = (
    "sizes",
    "trained_sizes",
    "more_sizes",
    "grid_sizes",
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
QUERIES_OF_A_BUCKET = 12  # test queries of a bucket or kind, at least


def fitted(p: Mapping[str, Any], own: str, given: Mapping[str, Any]) -> dict[str, Any]:
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
    data = open_collection(spec)
    train_split = p.get("train_split", "train")
    changes: dict[str, Any] = {name: False for name in KNOWN_OF_WORLDS if name in p}
    test_splits = _test_splits(data, spec, train_split)
    for name in SPLITS:
        if name in p:
            there = [split for split in p[name] if split in data.splits]
            changes[name] = there or test_splits[:1]
    measuring = {train_split}.union(*(changes.get(name, []) for name in SPLITS))
    if len(data.passages):  # queries alone have no judgements to learn from
        _refuse_few_queries(p, data, spec, train_split, measuring)
    if "gate_splits" in p:
        free = [split for split in p["gate_splits"] if split not in measuring]
        changes["gate_splits"] = [split for split in free if split in data.splits]
    n_train, n_train_of_own = _n_trainable(data, train_split), _n_queries(own)
    share = min(1.0, n_train / n_train_of_own)
    changes |= _fitted_sizes(p, share)
    if "k" in p:
        measured = changes.get("resttest_splits", changes.get("test_splits", test_splits))
        n_queries = sum(len(data.query_ids(split)) for split in measured)
        changes["k"] = max(2, min(p["k"], n_queries // QUERIES_OF_A_BUCKET))
    changes |= _fitted_shifts(p, data.queries(train_split), share, changes)
    return {
        name: value for name, value in changes.items() if name not in given and value != p[name]
    }


def _test_splits(data: Collection | QuerySets, spec: str, train_split: str) -> list[str]:
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


def _refuse_few_queries(
    p: Mapping[str, Any],
    data: Collection | QuerySets,
    spec: str,
    train_split: str,
    splits: Iterable[str],
) -> None:
    """Raise an InputError for a split with fewer judged queries than the notebook divides."""
    for split in sorted(splits):
        is_divided = p.keys() & {"k", "shift", "shifts"}
        is_resampled = split == train_split and p.keys() & set(SIZES)
        least = QUERIES_OF_A_BUCKET if is_divided or is_resampled else 2
        judged, queries = data.qrels(split), data.queries(split)
        relevant = judged.loc[judged["relevance"] > 0, "query_id"]
        n_queries = queries.loc[queries["query_id"].isin(relevant), "text"].nunique()
        if n_queries < least:
            raise InputError(
                f"{spec}: {n_queries} different queries of the split {split!r} have a relevant "
                f"passage (relevance 1 or more); give {least} or more"
            )


def _n_trainable(data: Collection | QuerySets, split: str) -> int:
    """Count the queries of a split that have a relevant passage.

    Of queries without passages, or where none has one, all count.
    """
    if len(data.passages):
        qrels = data.qrels(split)
        n_relevant = qrels.loc[qrels["relevance"] > 0, "query_id"].nunique()
        if n_relevant:
            return n_relevant
    return len(data.query_ids(split))


def _n_queries(spec: str) -> int:
    """Count the training queries of a profile's own collection."""
    return len(open_collection(spec).query_ids("train"))


def _scaled(size: int, share: float) -> int:
    return max(1, round(share * size))


def _fitted_sizes(p: Mapping[str, Any], share: float) -> dict[str, Any]:
    """Return the sizes among the parameters as the same share of fewer training queries."""
    changes: dict[str, Any] = {}
    for name in SIZES:
        size = p.get(name)
        if isinstance(size, list) and size:
            changes[name] = sorted({_scaled(one, share) for one in size})
        elif size:
            changes[name] = _scaled(size, share)
    if "n_test" in changes:
        changes["n_test"] = min(p["n_test"], max(changes["n_test"], QUERIES_OF_A_BUCKET))
    if "native_clusters" in changes:  # some are left to choose from
        changes["native_clusters"] = max(changes["native_clusters"], 3 * p["n_topics"])
    return changes


def _fitted_shifts(
    p: Mapping[str, Any], queries: pd.DataFrame, share: float, changes: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the shifts among the parameters with clusters that have enough queries."""
    sizes = {name: changes.get(name, 0) for name in ("n_test", "train_size")}
    if "shift" in p:
        return {"shift": _fitted_shift(p["shift"], queries, sizes)}
    if "shifts" not in p:
        return {}
    shifts = {}
    for entry in p["shifts"]:
        options = {"shift": entry} if isinstance(entry, str) else dict(entry)
        for name in sizes.keys() & options.keys():
            options[name] = _scaled(options[name], share)
        own_sizes = {name: options.get(name, size) for name, size in sizes.items()}
        shift = _fitted_shift(options, queries, own_sizes)
        shift = {"shift": shift} if isinstance(shift, str) else shift
        shifts[str([shift["shift"], shift.get("clusters")])] = options | shift
    return {"shifts": list(shifts.values())}


def _fitted_shift(entry: Entry, queries: pd.DataFrame, sizes: Mapping[str, int]) -> Entry:
    """Return a shift whose clusters have enough queries; else one by length, or by chance."""
    named = named_shift(entry)
    if named.by == "topics":
        return entry
    is_of_worlds = named.by.startswith("python:interextra.world")
    usual = {"shift": "wh-words"} if is_of_worlds else _without_sizes(entry)
    median = int(queries["text"].str.count(" ").median()) + 1
    others = [f"length:limit={median}", f"length:limit={median + 1}", "random:parts=3"]
    for known in (usual, *({"shift": by} for by in others)):
        shift = named_shift(known)
        clusters = _clusters_with_enough(queries, shift.by, shift.clusters, sizes)
        if clusters:
            return known | {"clusters": clusters}
    return "random:parts=3"


def _without_sizes(entry: Entry) -> dict[str, Any]:
    options = {"shift": entry} if isinstance(entry, str) else dict(entry)
    return {name: value for name, value in options.items() if name not in ("train_size", "n_test")}


def _clusters_with_enough(
    queries: pd.DataFrame, by: str, kept: Sequence[str], sizes: Mapping[str, int]
) -> list[str]:
    """Return the clusters with more than twice the test queries, the largest first.

    None where fewer than two have, or where too few training queries are left without one.
    """
    n_test, train_size = sizes["n_test"], sizes["train_size"]
    labels = pd.Series(attributes.labels(queries, by))
    labels = labels[labels != ""]
    if kept:
        labels = labels[labels.isin(kept)]
    counts = labels.value_counts().sort_index()
    counts = counts[counts > 2 * n_test].sort_values(ascending=False, kind="stable")
    if len(counts) < 2:
        return []
    n_left = counts.sum() - counts.max() - n_test * (len(counts) - 1)
    return counts.index.tolist() if n_left >= train_size else []

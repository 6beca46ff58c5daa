"""Parameters of a profile on another collection: sizes as shares of what it has, its splits, and
kinds that it has.
"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from interextra.data.collection import Collection
from interextra.data.load import open_collection
from interextra.data.msmarco import QuerySets
from interextra.data.queries import Source
from interextra.splits import attributes
from interextra.splits.shift import read_shift, written_shift
from interextra.store import InputError

SIZES = "sizes trained_sizes more_sizes grid_sizes draw_train train_size fold_size n_test test_size topic_size"
SIZES = (*SIZES.split(), "native_clusters")
SPLITS = ("test_splits", "resttest_splits", "graded_splits", "draw_splits")
QUERIES_OF_A_BUCKET = 12  # test queries of a bucket or kind, at least


def fitted(p: Mapping[str, Any], own: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What of the parameters `p` of a profile, made for the collection `own`, becomes another value
    on that of `given`.

    Sizes keep their share of the training queries where there are fewer; splits are those that are
    there; clusters of shifts are those with enough queries. What `given` holds stays.
    """
    is_world = given["collection"].split(":")[0] == "mini"  # one like that of the profile
    if is_world or not Source.of(given["collection"]).fingerprint:  # or only priced, not here yet
        return {}
    data, train = open_collection(given["collection"]), p.get("train_split", "train")
    if train not in data.splits:
        raise InputError(
            f"{given['collection']}: no split {train!r}; it has {', '.join(data.splits)}: set train_split"
        )
    share = min(1.0, _n_trainable(data, train) / len(open_collection(own).query_ids("train")))
    found: dict[str, Any] = {
        name: False for name in ("truth", "complete") if name in p
    }  # known of a generated world
    tests = [name for name in data.splits if name not in (train, "dev")]
    if not (tests := tests or [name for name in data.splits if name != train]):
        raise InputError(
            f"{given['collection']}: only the split {train!r}; add the judgements of test queries"
        )
    for name in (name for name in SPLITS if name in p):
        found[name] = [split for split in p[name] if split in data.splits] or tests[:1]
    measuring = {train, *(split for name in SPLITS for split in found.get(name, []))}
    for split in (
        sorted(measuring) if len(data.passages) else ()
    ):  # queries alone have no judgements to learn from
        is_divided = p.keys() & {"k", "shift", "shifts"} or (split == train and p.keys() & {*SIZES})
        least = QUERIES_OF_A_BUCKET if is_divided else 2
        judged, queries = data.qrels(split), data.queries(split)
        relevant = judged.loc[judged["relevance"] > 0, "query_id"]
        n = queries.loc[queries["query_id"].isin(relevant), "text"].nunique()
        if n < least:
            told = f"{n} different queries of the split {split!r} have a relevant passage (relevance 1 or more)"
            raise InputError(f"{given['collection']}: {told}; give {least} or more")
    if "gate_splits" in p:
        found["gate_splits"] = [
            split for split in p["gate_splits"] if split in data.splits and split not in measuring
        ]
    for name in (name for name in SIZES if p.get(name)):
        several = isinstance(p[name], list)
        scaled = sorted(
            {max(1, round(share * size)) for size in (p[name] if several else [p[name]])}
        )
        found[name] = scaled if several else scaled[0]
    if "n_test" in found:
        found["n_test"] = min(p["n_test"], max(found["n_test"], QUERIES_OF_A_BUCKET))
    if "native_clusters" in found:
        found["native_clusters"] = max(
            found["native_clusters"], 3 * p["n_topics"]
        )  # some are left to choose from
    if "k" in p:
        measured = found.get("resttest_splits", found.get("test_splits", tests))
        found["k"] = max(
            2,
            min(
                p["k"], sum(len(data.query_ids(split)) for split in measured) // QUERIES_OF_A_BUCKET
            ),
        )
    sizes = {name: found.get(name, 0) for name in ("n_test", "train_size")}
    if "shift" in p:
        found["shift"] = _shift(p["shift"], data.queries(train), **sizes)
    if "shifts" in p:
        entries = [
            {"shift": entry} if isinstance(entry, str) else dict(entry) for entry in p["shifts"]
        ]
        for entry in entries:
            entry |= {name: max(1, round(share * entry[name])) for name in sizes if name in entry}
            entry["shift"] = _shift(entry["shift"], data.queries(train), **sizes | entry)
        found["shifts"] = list({entry["shift"]: entry for entry in entries}.values())
    return {name: value for name, value in found.items() if name not in given and value != p[name]}


def _n_trainable(data: Collection | QuerySets, split: str) -> int:
    """Queries of a split that have a relevant passage; of queries without passages, or where there
    is none, all.
    """
    qrels = data.qrels(split) if len(data.passages) else None
    n = 0 if qrels is None else qrels.loc[qrels["relevance"] > 0, "query_id"].nunique()
    return n or len(data.query_ids(split))


def _shift(text: str, queries: pd.DataFrame, n_test: int, train_size: int, **entry: Any) -> str:
    """A shift as the parameters write it, with clusters that have enough queries; else one by
    length, or by chance.
    """
    _, spec, _ = read_shift(text)
    if spec == "topics":
        return text
    usual = "wh-words" if spec.startswith("python:interextra.world") else text
    median = int(queries["text"].str.count(" ").median()) + 1
    lengths = [f"length:limit={limit}" for limit in (median, median + 1)]
    for known in (usual, *lengths, "random:parts=3"):
        _, spec, kept = read_shift(known)
        labels = pd.Series(attributes.labels(queries, spec))
        counts = (
            labels[labels.ne("") & (labels.isin(kept) if kept else True)]
            .value_counts()
            .sort_index()
        )
        counts = counts[counts > 2 * n_test].sort_values(ascending=False, kind="stable")
        if (
            len(counts) > 1
            and counts.sum() - counts.max() - n_test * (len(counts) - 1) >= train_size
        ):
            return written_shift(known.partition("/")[0], counts.index)
    return known

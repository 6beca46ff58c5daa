"""The kinds of cell: query vectors, splits, candidates, and runs of a trained model (`builders` writes their files).

A configuration is plain JSON and holds the configurations of the cells that it needs, so that its key names the whole
history of a result: collection (by content) × split × recipe × seed.
"""

import json
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.ground.errors import InputError
from interextra.study.cells import Store, cell_key, file_sha256, write_json
from interextra.study.params import data_folder

VERSION = 1  # raise it when the meaning of a cell's files changes: old cells are then not found any more
MEASURES = ("nDCG@10", "RR@10", "R@100", "R(rel=2)@100", "AP", "ASL@100")


@lru_cache(maxsize=8)
def open_spec(spec: str):
    """Open a collection; `$INTEREXTRA_DATA` in the spec stands for the folder of real data.

    `msmarco-queries` opens the queries of MS MARCO and TREC DL in that folder, without passages.
    """
    from interextra.data.load import open_collection
    from interextra.data.msmarco import QuerySets

    if spec == "msmarco-queries":
        return QuerySets(data_folder(), spec)
    return open_collection(spec.replace("$INTEREXTRA_DATA", str(data_folder())) if "$" in spec else spec)


def collection_ref(spec: str) -> dict:
    """A collection in a configuration: named by its spec, identified by its content."""
    return {"spec": spec, "fingerprint": open_spec(spec).fingerprint}


def pool(spec: str, split: str = "train", limit: int = 0, seed: int = 0) -> dict:
    """The training queries of an experiment: all of a split, or a random `limit` of them (0: all)."""
    return {"collection": collection_ref(spec), "split": split, "limit": limit, "seed": seed if limit else 0}


def run_config(
    recipe, train: dict, test: list[str | dict], seed: int, depth: int = 100, keep_model: bool = False,
    neighbours: int = 0,
) -> dict:  # fmt: skip
    """A model made from `recipe` on the training queries `train` and its runs on the test queries `test`.

    Parameters
    ----------
    recipe : interextra.models.recipe.Recipe.
    train : a `pool`, or `part(split configuration, name)`.
    test : splits of the collection, or `part`s of a split configuration.
    depth : passages a query in the run.
    keep_model : keep the weights in the cell (needed where its encoder is used again).
    neighbours : not 0: also note how near each test query is to the training queries in the model's own space, the
        density over so many of them (`interextra.evaluation.indicators.nearness`).
    """
    spec = (train["of"]["pool"] if "of" in train else train)["collection"]
    near = {"neighbours": neighbours} if neighbours else {}
    return {
        "kind": "run", "version": VERSION, "collection": spec, "train": train, "recipe": recipe.named(),
        "weights": weights_digest(recipe), "seed": seed, "test": list(test), "depth": depth, "keep_model": keep_model,
        **near,
    }  # fmt: skip


def weights_digest(recipe) -> str:
    """What the model starts from, by content: other weights under the same name are another cell."""
    from interextra.models.base import BASE, MINILM_SHA256

    start = recipe.initialisation
    if recipe.architecture == "bm25":
        return ""
    if start in ("tiny-base", "random"):  # random weights, but the tokenizer of the tiny base
        return file_sha256(BASE / "recipe.json")
    if start.partition(":")[0] == "minilm":
        return MINILM_SHA256
    if Path(start).is_dir():
        files = sorted(path for path in Path(start).rglob("*") if path.is_file())
        return cell_key({path.relative_to(start).as_posix(): file_sha256(path) for path in files})
    return start  # a hub id


def vectors_config(encoder: str | dict, queries: dict, test: list[str]) -> dict:
    """Vectors of the pool's training queries and of the splits `test`.

    `encoder` is `lsa`, `minilm`, or the configuration of a dense run with `keep_model`.
    """
    return {"kind": "vectors", "version": VERSION, "encoder": encoder, "pool": queries, "test": list(test)}


def restrain_config(vectors: dict, sizes: list[int], match: str, controls: int, seed: int) -> dict:
    """ReSTrain sets of all sizes in both regimes; `controls` > 0 adds the random and the matched controls."""
    return {
        "kind": "restrain", "version": VERSION, "vectors": vectors, "pool": vectors["pool"], "sizes": list(sizes),
        "match": match, "controls": controls, "seed": seed,
    }  # fmt: skip


def resttest_config(vectors: dict, k: int, fold_size: int, normalise: bool, seed: int) -> dict:
    """ReSTTest: k buckets of training and test queries, and the k training sets without one of them."""
    return {
        "kind": "resttest", "version": VERSION, "vectors": vectors, "pool": vectors["pool"], "k": k,
        "fold_size": fold_size, "normalise": normalise, "seed": seed,
    }  # fmt: skip


def shift_config(queries: dict, of: str | dict, clusters: list[str], n_test: int, train_size: int, seed: int) -> dict:
    """A leave-one-out shift: a training set without each cluster, and the test queries of all clusters (`held-out`).

    `of` is an attribute (see `splits.attributes.attribute`), or for topics `topics_of(…)`; `clusters` those that take
    part, default: all, the largest first.
    """
    from interextra.splits import attributes
    from interextra.splits.shift import cluster_names

    config = {"kind": "shift", "version": VERSION, "pool": queries, "n_test": n_test, "train_size": train_size,
              "seed": seed}  # fmt: skip
    if isinstance(of, dict):
        return {**config, "topics": of, "clusters": list(clusters) or [f"C{i}" for i in range(of["n_topics"])]}
    code = attributes.source(of)
    config |= {"attribute": of} | ({"code": file_sha256(code)} if code else {})
    return {**config, "clusters": list(clusters) or list(cluster_names(attribute_labels(config)))}


def attribute_labels(config: dict) -> np.ndarray:
    """Label of each query of the pool of a shift configuration, object[n]; "" for none."""
    from interextra.data.medquad import with_truth
    from interextra.splits import attributes

    queries, name = pool_queries(config["pool"]), config["attribute"].removeprefix("column:")
    if name == config["attribute"] or name in queries:
        return attributes.labels(queries, config["attribute"])
    known = with_truth(queries)  # a column that is worked out, not stored
    found = pd.Series(attributes.labels(known, config["attribute"]), known["query_id"])
    return found.reindex(queries["query_id"]).fillna("").to_numpy(object)


def topics_of(vectors: dict, **options) -> dict:
    """Topic clusters of the pool's queries by their vectors; options as in `splits.topics.topics`."""
    return {"vectors": vectors, **options}


def candidates_config(vectors: dict, k: int) -> dict:
    """The k nearest training queries of each test query by BM25 and by embedding (Zhan §3.2: k = 10)."""
    return {"kind": "candidates", "version": VERSION, "vectors": vectors, "k": k}


def part(split: dict, name: str) -> dict:
    """One named set of training queries of a split cell."""
    return {"of": split, "part": name}


def dependencies(config: dict) -> list[dict]:
    """Configurations of the cells that must be there first."""
    if config["kind"] == "run":
        sets = (config["train"], *config["test"])
        return [named["of"] for named in sets if isinstance(named, dict) and "of" in named]
    needed = {
        "vectors": lambda: [config["encoder"]] if isinstance(config["encoder"], dict) else [],
        "restrain": lambda: [config["vectors"]],
        "resttest": lambda: [config["vectors"]],
        "shift": lambda: [config["topics"]["vectors"]] if "topics" in config else [],
        "candidates": lambda: [config["vectors"]],
    }
    return needed[config["kind"]]()


def build(store: Store, config: dict) -> Path:
    """Folder of the cell, built first (with all that it needs) when it is missing or damaged."""
    for needed in dependencies(config):
        build(store, needed)
    from interextra.study.builders import BUILDERS

    builder = BUILDERS[config["kind"]]

    def timed(config: dict, folder: Path) -> None:
        from interextra.study import provenance

        begin = time.perf_counter()
        builder(store, config, folder)
        root = store.root.resolve().parent.parent
        write_json(folder / "provenance.json", provenance.record(root, seconds=time.perf_counter() - begin))

    return store.build(config, timed)


def pool_queries(queries: dict) -> pd.DataFrame:
    """Training queries of a pool: query_id, text, attributes."""
    collection = open_collection(queries["collection"])
    frame = collection.queries(queries["split"])
    if queries["limit"] and queries["limit"] < len(frame):
        rows = np.random.default_rng(queries["seed"]).choice(len(frame), queries["limit"], replace=False)
        frame = frame.iloc[np.sort(rows)].reset_index(drop=True)
    if not len(frame):
        raise InputError(f"{queries['collection']['spec']}: the training split {queries['split']!r} is empty")
    return frame


def part_ids(folder: Path, name: str) -> list[str]:
    """query_ids of one set of a split cell."""
    sets = json.loads((folder / "sets.json").read_text(encoding="utf-8"))
    if name not in sets:
        raise InputError(f"split cell {folder.name} has no set {name!r}; it has {', '.join(sets)}")
    if not sets[name]:
        raise InputError(f"split cell {folder.name}: the training set {name!r} is empty")
    return sets[name]


def open_collection(ref: dict):
    """The collection of a configuration; InputError where its content has changed since."""
    collection = open_spec(ref["spec"])
    if collection.fingerprint != ref["fingerprint"]:
        raise InputError(f"{ref['spec']} is not the collection that was planned: its content changed. Plan again")
    return collection


def train_ids(store: Store, train: dict) -> tuple[list[str], str]:
    """(query_ids of a pool or a part, name of the split that holds their qrels)."""
    if "of" not in train:
        return pool_queries(train)["query_id"].tolist(), train["split"]
    return part_ids(build(store, train["of"]), train["part"]), train["of"]["pool"]["split"]


def test_set(store: Store, collection, named: str | dict) -> tuple[str, pd.DataFrame, pd.DataFrame]:
    """(name, queries, qrels) of a split of the collection, or of a `part` of a split cell."""
    if isinstance(named, str):
        if named not in collection.splits:
            raise InputError(f"{collection.spec} has no split {named!r}; it has {', '.join(collection.splits)}")
        return named, collection.queries(named), collection.qrels(named)
    ids, split = train_ids(store, named)
    queries, qrels = collection.queries(split), collection.qrels(split)
    queries = queries.set_index("query_id", drop=False).loc[ids].reset_index(drop=True)
    return named["part"], queries, qrels[qrels["query_id"].isin(ids)].reset_index(drop=True)


def measured(folder: Path, collection, split: str, measures: list[str]) -> pd.DataFrame:
    """Per-query measures of a run cell on a split: index query_id, a column a measure."""
    return measured_on(folder, split, collection.qrels(split), measures)


def measured_on(folder: Path, name: str, qrels: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """Per-query measures of a run cell on the test set `name`."""
    from interextra.evaluation.measures import per_query
    from interextra.data.runs import Run

    return per_query(Run.read(folder / f"run.{name}.parquet"), qrels, measures)


def read_vectors(store: Store, config: dict) -> tuple[np.ndarray, np.ndarray]:
    """(training vectors float32[n_train, d], test vectors float32[n_test, d], the test splits one after another)."""
    folder = build(store, config)
    train = np.load(folder / "train.npy")
    return train, np.concatenate([train[:0], *(np.load(folder / f"{name}.npy") for name in config["test"])])

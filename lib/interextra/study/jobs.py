"""The kinds of cell and how each is built: query vectors, splits, candidates, and runs of a trained model.

A configuration is plain JSON and holds the configurations of the cells that it needs, so that its key names the whole
history of a result: collection (by content) × split × recipe × seed.
"""

import json
import shutil
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.errors import InputError, offenders
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


def run_config(recipe, train: dict, test: list[str], seed: int, depth: int = 100, keep_model: bool = False) -> dict:
    """A model made from `recipe` on the training queries `train` and its runs on the splits `test`.

    Parameters
    ----------
    recipe : interextra.models.recipe.Recipe.
    train : a `pool`, or `part(split configuration, name)`.
    depth : passages a query in the run.
    keep_model : keep the weights in the cell (needed where its encoder is used again).
    """
    spec = (train["of"]["pool"] if "of" in train else train)["collection"]
    return {
        "kind": "run", "version": VERSION, "collection": spec, "train": train, "recipe": recipe.named(),
        "weights": weights_digest(recipe), "seed": seed, "test": list(test), "depth": depth, "keep_model": keep_model,
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


def candidates_config(vectors: dict, k: int) -> dict:
    """The k nearest training queries of each test query by BM25 and by embedding (Zhan §3.2: k = 10)."""
    return {"kind": "candidates", "version": VERSION, "vectors": vectors, "k": k}


def part(split: dict, name: str) -> dict:
    """One named set of training queries of a split cell."""
    return {"of": split, "part": name}


def dependencies(config: dict) -> list[dict]:
    """Configurations of the cells that must be there first."""
    needed = {
        "run": lambda: [config["train"]["of"]] if "of" in config["train"] else [],
        "vectors": lambda: [config["encoder"]] if isinstance(config["encoder"], dict) else [],
        "restrain": lambda: [config["vectors"]],
        "resttest": lambda: [config["vectors"]],
        "candidates": lambda: [config["vectors"]],
    }
    return needed[config["kind"]]()


def build(store: Store, config: dict) -> Path:
    """Folder of the cell, built first (with all that it needs) when it is missing or damaged."""
    for needed in dependencies(config):
        build(store, needed)
    builders = {
        "run": _run, "vectors": _vectors, "restrain": _restrain, "resttest": _resttest, "candidates": _candidates,
    }  # fmt: skip
    builder = builders[config["kind"]]

    def timed(config: dict, folder: Path) -> None:
        from interextra.study import provenance

        begin = time.perf_counter()
        builder(store, config, folder)
        root = store.root.resolve().parent.parent
        write_json(folder / "provenance.json", provenance.record(root, seconds=time.perf_counter() - begin))

    return store.build(config, timed)


def pool_queries(queries: dict) -> pd.DataFrame:
    """Training queries of a pool: query_id, text, attributes."""
    collection = _collection(queries["collection"])
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


def _collection(ref: dict):
    collection = open_spec(ref["spec"])
    if collection.fingerprint != ref["fingerprint"]:
        raise InputError(f"{ref['spec']} is not the collection that was planned: its content changed. Plan again")
    return collection


def _train_ids(store: Store, train: dict) -> tuple[list[str], str]:
    """(query_ids, name of the split that holds their qrels)."""
    if "of" not in train:
        return pool_queries(train)["query_id"].tolist(), train["split"]
    return part_ids(build(store, train["of"]), train["part"]), train["of"]["pool"]["split"]


def _run(store: Store, config: dict, folder: Path) -> None:
    from interextra import models
    from interextra.evaluation.measures import per_query
    from interextra.evaluation.runs import Run

    collection = _collection(config["collection"])
    recipe = models.make_recipe(config["recipe"], source="cell")
    ids, split = _train_ids(store, config["train"])
    missing = [name for name in config["test"] if name not in collection.splits]
    if missing:
        raise InputError(f"{collection.spec} has no split {offenders(missing)}; it has {', '.join(collection.splits)}")
    made = folder / "model"
    log = models.fit(recipe, collection, ids, split=split, seed=config["seed"], out_dir=made)
    write_json(folder / "training.json", {**log, "n_train": len(ids)})
    model = models.load_model(made)
    queries = {name: collection.queries(name) for name in config["test"]}
    # all splits in one search: the passages are encoded once
    texts = [text for frame in queries.values() for text in frame["text"]]
    rows, scores = models.search(model, collection, texts, k=config["depth"])
    end = np.cumsum([len(frame) for frame in queries.values()])
    for (name, frame), *part in zip(queries.items(), np.split(rows, end[:-1]), np.split(scores, end[:-1]), strict=True):
        run = Run.from_arrays(frame["query_id"].tolist(), collection.passages.doc_ids, *part)
        run.write_parquet(folder / f"run.{name}.parquet")
        per_query(run, collection.qrels(name), MEASURES).to_parquet(folder / f"per_query.{name}.parquet")
    if not config["keep_model"]:
        shutil.rmtree(made)


def _vectors(store: Store, config: dict, folder: Path) -> None:
    from interextra import models

    collection = _collection(config["pool"]["collection"])
    train = pool_queries(config["pool"])["text"].tolist()
    encoder = config["encoder"]
    spec = str(build(store, encoder) / "model") if isinstance(encoder, dict) else encoder
    encode = models.encoder(spec, texts=train).encode_queries
    np.save(folder / "train.npy", encode(train))
    for name in config["test"]:
        np.save(folder / f"{name}.npy", encode(collection.queries(name)["text"].tolist()))


def measured(folder: Path, collection, split: str, measures: list[str]) -> pd.DataFrame:
    """Per-query measures of a run cell on a split: index query_id, a column a measure."""
    from interextra.evaluation.measures import per_query
    from interextra.evaluation.runs import Run

    return per_query(Run.read(folder / f"run.{split}.parquet"), collection.qrels(split), measures)


def read_vectors(store: Store, config: dict) -> tuple[np.ndarray, np.ndarray]:
    """(training vectors float32[n_train, d], test vectors float32[n_test, d], the test splits one after another)."""
    folder = build(store, config)
    return np.load(folder / "train.npy"), np.concatenate([np.load(folder / f"{name}.npy") for name in config["test"]])


def _restrain(store: Store, config: dict, folder: Path) -> None:
    from interextra.splits import restrain as method

    train, test = read_vectors(store, config["vectors"])
    ids = np.asarray(pool_queries(config["pool"])["query_id"], dtype=object)
    space = method.neighbourhood(test, train)
    made = {size: method.restrain(space, size, match=config["match"]) for size in config["sizes"]}
    sets, largest, seed = {}, made[max(made)], config["seed"]
    for size, result in made.items():
        sets[f"interpolation-{size}"], sets[f"extrapolation-{size}"] = result.interpolation, result.extrapolation
        for control in range(config["controls"]):
            draw = seed + control
            sets[f"random-{size}-{control}"] = method.random_regime(len(train), size, draw)
            for regime in ("interpolation", "extrapolation") if size < max(made) else ():
                matched = method.size_matched_control(getattr(largest, regime), len(getattr(result, regime)), draw)
                sets[f"{regime}-matched-{size}-{control}"] = matched
    rows = [
        {"set": name, "n_train": len(found), "mean_max_similarity": space.mean_similarity(found)}
        for name, found in sets.items()
    ]
    tuned = pd.DataFrame([{"size": size, "I": result.I, "E": result.E} for size, result in made.items()])
    pd.DataFrame(rows).to_csv(folder / "sets.csv", index=False)
    tuned.to_csv(folder / "tuned.csv", index=False)
    write_json(folder / "sets.json", {name: ids[found].tolist() for name, found in sets.items()})


def _resttest(store: Store, config: dict, folder: Path) -> None:
    from interextra.splits import resttest as method

    train, test = read_vectors(store, config["vectors"])
    ids = np.asarray(pool_queries(config["pool"])["query_id"], dtype=object)
    found = method.buckets(train, test, config["k"], config["seed"], config["normalise"])
    made = method.folds(found, config["fold_size"], config["seed"])
    np.save(folder / "train.npy", found.train, allow_pickle=False)
    np.save(folder / "test.npy", found.test, allow_pickle=False)
    found.sizes.assign(bucket=lambda frame: frame["bucket"] + 1).to_csv(folder / "sizes.csv", index=False)
    write_json(folder / "sets.json", {f"without-{b}": ids[rows].tolist() for b, rows in enumerate(made, 1)})


def _candidates(store: Store, config: dict, folder: Path) -> None:
    from interextra.splits.annotation import candidates
    from interextra.splits.similarity import nearest

    vectors, k = config["vectors"], config["k"]
    train, test = read_vectors(store, vectors)
    collection, frame = _collection(vectors["pool"]["collection"]), pool_queries(vectors["pool"])
    queries = pd.concat([collection.queries(name) for name in vectors["test"]], ignore_index=True)
    embedding_rows = nearest(test, train, k)[1]
    bm25_rows = _bm25_over(frame, queries["text"].tolist(), k)[0]
    candidates(queries, frame, bm25_rows, embedding_rows, k).to_parquet(folder / "candidates.parquet")


def _bm25_over(frame: pd.DataFrame, queries: list[str], k: int) -> tuple[np.ndarray, np.ndarray]:
    """BM25 (Anserini's default k1 and b) over query texts, as if the training queries were the passages."""
    from interextra.data.collection import Collection, Passages, write_passages
    from interextra.models.bm25 import lucene_search

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "queries.arrow"
        fingerprint = write_passages(path, zip(frame["query_id"], frame["text"], strict=True))
        made = Collection("training queries", "training queries", Passages(path), frame, {}, fingerprint)
        return lucene_search(made, queries, k, k1=0.9, b=0.4)

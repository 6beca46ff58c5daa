"""How each kind of cell is built: files written into an empty folder."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.study.cells import Store, write_json
from interextra.study.jobs import (
    MEASURES,
    attribute_labels,
    build,
    open_collection,
    pool_queries,
    read_vectors,
    test_set,
    train_ids,
)


def run(store: Store, config: dict, folder: Path) -> None:
    from interextra import models
    from interextra.evaluation.measures import per_query
    from interextra.data.runs import Run

    collection = open_collection(config["collection"])
    recipe = models.make_recipe(config["recipe"], source="cell")
    ids, split = train_ids(store, config["train"])
    tests = [test_set(store, collection, named) for named in config["test"]]
    made = folder / "model"
    log = models.fit(recipe, collection, ids, split=split, seed=config["seed"], out_dir=made)
    write_json(folder / "training.json", {**log, "n_train": len(ids)})
    model = models.load_model(made)
    # all test sets in one search: the passages are encoded once
    texts = [text for _, queries, _ in tests for text in queries["text"]]
    rows, scores = models.search(model, collection, texts, k=config["depth"])
    ends = np.cumsum([len(queries) for _, queries, _ in tests])[:-1]
    for (name, queries, qrels), *found in zip(tests, np.split(rows, ends), np.split(scores, ends), strict=True):
        made_run = Run.from_arrays(queries["query_id"].tolist(), collection.passages.doc_ids, *found)
        made_run.write_parquet(folder / f"run.{name}.parquet")
        per_query(made_run, qrels, MEASURES).to_parquet(folder / f"per_query.{name}.parquet")
    if config.get("neighbours"):
        from interextra.evaluation.indicators import nearness

        train = collection.queries(split).set_index("query_id")["text"].loc[ids].tolist()
        near = nearness(model.query_similarities(texts, train), config["neighbours"])
        asked = np.concatenate([queries["query_id"] for _, queries, _ in tests])
        near.set_index(pd.Index(asked, name="query_id")).to_parquet(folder / "nearness.parquet")
    if not config["keep_model"]:
        shutil.rmtree(made)


def vectors(store: Store, config: dict, folder: Path) -> None:
    from interextra import models

    collection = open_collection(config["pool"]["collection"])
    train = pool_queries(config["pool"])["text"].tolist()
    encoder = config["encoder"]
    spec = str(build(store, encoder) / "model") if isinstance(encoder, dict) else encoder
    encode = models.encoder(spec, texts=train).encode_queries
    np.save(folder / "train.npy", encode(train))
    for name in config["test"]:
        np.save(folder / f"{name}.npy", encode(collection.queries(name)["text"].tolist()))


def restrain(store: Store, config: dict, folder: Path) -> None:
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


def resttest(store: Store, config: dict, folder: Path) -> None:
    from interextra.splits import resttest as method

    train, test = read_vectors(store, config["vectors"])
    ids = np.asarray(pool_queries(config["pool"])["query_id"], dtype=object)
    found = method.buckets(train, test, config["k"], config["seed"], config["normalise"])
    made = method.folds(found, config["fold_size"], config["seed"])
    np.save(folder / "train.npy", found.train, allow_pickle=False)
    np.save(folder / "test.npy", found.test, allow_pickle=False)
    found.sizes.assign(bucket=lambda frame: frame["bucket"] + 1).to_csv(folder / "sizes.csv", index=False)
    write_json(folder / "sets.json", {f"without-{b}": ids[rows].tolist() for b, rows in enumerate(made, 1)})


def shift(store: Store, config: dict, folder: Path) -> None:
    from interextra.splits.shift import shift as divide

    found = _topics(store, config["topics"], folder) if "topics" in config else attribute_labels(config)
    made = divide(found, config["n_test"], config["clusters"], config["seed"])
    ids = pool_queries(config["pool"])["query_id"].to_numpy(object)
    sets = {f"without-{c}": made.complement(c, config["train_size"], config["seed"]) for c in made.clusters}
    write_json(folder / "sets.json", {name: ids[rows].tolist() for name, rows in sets.items()}
               | {"held-out": ids[made.test].tolist()})  # fmt: skip
    made.sizes.to_csv(folder / "sizes.csv", index=False)
    kept = pd.DataFrame({"query_id": ids, "cluster": np.where(np.isin(found, made.clusters), found, "")})
    kept.assign(test=made.test).to_parquet(folder / "labels.parquet")


def _topics(store: Store, config: dict, folder: Path) -> np.ndarray:
    """Topic of each query, "" for none; the clusters behind them are written to the folder."""
    from interextra.splits.topics import topics

    vectors = read_vectors(store, config["vectors"])[0]
    made = topics(vectors, **{name: value for name, value in config.items() if name != "vectors"})
    np.save(folder / "native.npy", made.native, allow_pickle=False)
    np.save(folder / "centroids.npy", made.centroids, allow_pickle=False)
    note = {"chosen": made.chosen.tolist(), "joined": [[int(c) for c in joined] for joined in made.joined]}
    write_json(folder / "topics.json", note | {"spread": float(made.spread), "best": float(made.best)})
    return np.array([f"C{topic}" if topic >= 0 else "" for topic in made.topic], dtype=object)


def candidates(store: Store, config: dict, folder: Path) -> None:
    from interextra.overlap.annotation import candidates
    from interextra.splits.similarity import nearest

    vectors, k = config["vectors"], config["k"]
    train, test = read_vectors(store, vectors)
    collection, frame = open_collection(vectors["pool"]["collection"]), pool_queries(vectors["pool"])
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


BUILDERS = {
    "run": run, "vectors": vectors, "restrain": restrain, "resttest": resttest, "shift": shift,
    "candidates": candidates,
}  # fmt: skip

"""Zhan et al. beside our numbers, and their released sets seen from the real queries."""

from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data import released
from interextra.splits import restrain as method
from interextra.splits.similarity import nearest
from interextra.study import jobs, published
from interextra.study.cells import Store

TEST_SETS = {"TREC DL 2019": "dl19", "TREC DL 2020": "dl20", "MS MARCO dev": "dev"}
SIZES = ("14k", "45k", "200k")
REGIMES = {"interpolation": "interpolate", "extrapolation": "extrapolate"}  # ours → as the release names its files


def published_overlap(table: int) -> pd.DataFrame:
    """Table 1 or 2 in the form of our overlap tables: test_set, label, n, percent, source."""
    frame = published.load("zhan", table)
    percent = frame["value"]
    return pd.DataFrame(
        {
            "test_set": frame["collection"].map(TEST_SETS), "label": frame["row"].str.split().str[0].str.lower(),
            "n": (percent / 100 * frame["n_queries"]).round().astype(int), "percent": percent, "source": "published",
        }
    )  # fmt: skip


def beside_table_3(measured: pd.DataFrame) -> pd.DataFrame:
    """Our label overlap with the published percentages of DL19 and DL20 beside it: the columns of label_overlap.csv."""
    frame = published.load("zhan", 3)
    level = frame["row"].str.extract(r"(\d)")[0].astype(int)
    value = dict(zip(zip(frame["collection"].map(TEST_SETS), level, strict=True), frame["value"], strict=True))
    pairs = zip(measured["test_set"], measured["relevance_threshold"], strict=True)
    columns = ["test_set", "relevance_threshold", "min_shared", "n_queries", "n_overlapping", "percent"]
    return measured[columns].assign(published_percent=[value.get(pair, np.nan) for pair in pairs])


def nearest_share(sizes: list[int], n_train: int) -> dict[int, str]:
    """Training size → the published size (14k, 45k, 200k of 503k) whose share of all training queries is nearest."""
    shares = {"14k": 14 / 503, "45k": 45 / 503, "200k": 200 / 503}
    return {size: min(shares, key=lambda name: abs(np.log(size / n_train / shares[name]))) for size in sizes}


def table_4(pairs: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """The published duplicates: is the training query among ours, and at which rank does each method find it?

    Parameters
    ----------
    pairs : candidates (test_query, train_query, bm25_rank, embedding_rank; rank 0: not found).
    train : the training queries at hand, with text.
    """
    frame = published.load("zhan", 4)
    twins = frame.pivot(index="pair", columns="column", values="text").reset_index(drop=True)
    twins.columns = ["train_query", "test_query"]
    texts = train["text"].str.strip().str.lower()
    twins["in_our_training_queries"] = twins["train_query"].str.lower().isin(set(texts))
    found = pairs.assign(**{c: pairs[c].str.strip().str.lower() for c in ("test_query", "train_query")})
    found = found[["test_query", "train_query", "bm25_rank", "embedding_rank"]].drop_duplicates(
        ["test_query", "train_query"]
    )
    return twins[["test_query", "train_query", "in_our_training_queries"]].merge(found, how="left")


def released_agreement(store: Store, vectors: dict[str, dict], k: int, folder: Path) -> pd.DataFrame:
    """Share of each judged DL query's k nearest training queries that lie in each released ReSTrain set.

    Parameters
    ----------
    vectors : encoder → configuration of its vectors of the real queries.
    folder : Zhan's release.

    Returns
    -------
    DataFrame[encoder, size, query_id, interpolation, extrapolation, neither, chance_interpolation,
    chance_extrapolation]; `chance` is the share of all training queries at hand that lie in the set.
    """
    parts = []
    for encoder, config in vectors.items():
        train, test = jobs.read_vectors(store, config)
        ids, collection = (
            jobs.pool_queries(config["pool"])["query_id"],
            jobs.open_spec(config["pool"]["collection"]["spec"]),
        )
        queries = [query_id for name in config["test"] for query_id in collection.query_ids(name)]
        near = nearest(test, train, k)[1]
        for size in SIZES:
            sets = [released.read_restrain(folder, size, name)["query_id"].unique() for name in REGIMES.values()]
            shares = method.agreement(near, ids, *sets)
            shares.insert(0, "query_id", queries)
            shares = shares.assign(**{f"chance_{r}": ids.isin(s).mean() for r, s in zip(REGIMES, sets, strict=True)})
            parts.append(pd.DataFrame({"encoder": encoder, "size": size}, index=shares.index).join(shares))
    return pd.concat(parts, ignore_index=True)


def selection_overlap(store: Store, vectors: dict[str, dict], folder: Path) -> pd.DataFrame:
    """Our own ReSTrain sets on the real queries against the released sets, at the same number of queries.

    Only training queries whose text is at hand take part. Ours hold as many queries as the released interpolation set
    has among them. `interpolation_in_released`: share of our interpolation set that is in the released one; `chance` is
    the share that a random set would have.
    """
    rows = []
    for encoder, config in vectors.items():
        train, test = jobs.read_vectors(store, config)
        ids = jobs.pool_queries(config["pool"])["query_id"]
        space = method.neighbourhood(test, train)
        for size in SIZES:
            theirs = {
                regime: ids.isin(released.read_restrain(folder, size, name)["query_id"]).to_numpy()
                for regime, name in REGIMES.items()
            }
            n = min(int(mask.sum()) for mask in theirs.values())
            ours = method.restrain(space, min(n, len(ids) // 2), match="exact")
            row = {"encoder": encoder, "size": size, "n_queries": n, "I": ours.I, "E": ours.E}
            for regime, mask in theirs.items():
                row[f"{regime}_in_released"] = mask[getattr(ours, regime)].mean()
                row[f"{regime}_chance"] = mask.mean()
                row[f"released_{regime}_similarity"] = space.mean_similarity(np.flatnonzero(mask))
            rows.append(row)
    return pd.DataFrame(rows)

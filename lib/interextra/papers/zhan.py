"""Zhan et al. (CIKM 2022): what notebooks 00 to 03 and 05 compute, and our numbers beside the paper and its release."""

import itertools
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data import released
from interextra.data.queries import Part, Queries, Source
from interextra.ground.cells import Store
from interextra.models.model import Model
from interextra.models.recipe import Recipe
from interextra.models.run import Run
from interextra.models.vectors import Vectors
from interextra.overlap.annotation import Candidates
from interextra.papers import published
from interextra.papers.plans import Plan, design, plans, pool, query_vectors, systems, tests, untrained
from interextra.splits import clusters, restrain as nearness, resttest as buckets
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.similarity import nearest

REGIMES = ("interpolation", "extrapolation")
REAL = "msmarco-queries"
DENSE = "DR (base)"


@plans("00_start_here")
def start_here(p: dict) -> Plan:
    """One query's way needs one dense model and BM25. `design`: model, run."""
    test = tests(p, p["test_splits"])
    models = {label: Model.of(one, pool(p), p["seed"]) for label, one in systems(p).items()}
    rows = [
        {"model": label, "run": Run(model=model, queries=test, depth=p["depth"])} for label, model in models.items()
    ]
    return Plan(design=design(rows))


@plans("01_overlap_annotation_analysis")
def overlap(p: dict) -> Plan:
    """Candidates by BM25 and by embedding; with `real_msmarco` also for the real queries."""
    plan = Plan(vectors=query_vectors(p, tests(p, p["test_splits"])))
    plan.candidates = Candidates(vectors=plan.vectors, k=p["candidates"])
    if p["real_msmarco"]:
        plan.real = Candidates(vectors=real_vectors(p["real_encoder"]), k=p["candidates"])
    return plan


def real_queries(split: str) -> Queries:
    return Queries(source=Source.of(REAL), split=split)


def real_vectors(encoder: str) -> Vectors:
    """Vectors of the real MS MARCO training queries and of the 97 judged DL queries."""
    return Vectors(encoder=encoder, train=real_queries("train"), test=(real_queries("dl19"), real_queries("dl20")))


def real_dev_vectors(encoder: str) -> Vectors:
    """Vectors of the dev queries in the space of `real_vectors`; LSA is fitted on the training queries, so they are in it."""
    if encoder.startswith("lsa"):
        return Vectors(encoder=encoder, train=real_queries("train"), test=(real_queries("dev"),))
    return Vectors(encoder=encoder, train=real_queries("dev"))


@plans("02_restrain")
def restrain(p: dict) -> Plan:
    """Each system in both regimes at each size, and for the trained ones the controls, with the first seed.

    `design`: n_train, model, regime (interpolation, extrapolation, random), sample (nearest; matched N: a random part
    of the largest set of the regime; random N), seed, run.
    """
    split, rows = sets_of(p), []
    sets = [(size, regime, "nearest", f"{regime}-{size}") for size in p["sizes"] for regime in REGIMES]
    for size, control in itertools.product(p["sizes"], range(p["controls"])):
        sets.append((size, "random", f"random {control}", f"random-{size}-{control}"))
        matched = REGIMES if size < max(p["sizes"]) else ()
        sets += [(size, regime, f"matched {control}", f"{regime}-matched-{size}-{control}") for regime in matched]
    for (model, made), (size, regime, sample, part) in itertools.product(systems(p).items(), sets):
        fixed = made.architecture == "bm25"  # it is not drawn: one seed, no control
        for seed in [] if fixed and sample != "nearest" else p["seeds"][: 1 if fixed or sample != "nearest" else None]:
            run = run_of(p, made, Part(of=split, part=part), seed, "test_splits")
            rows.append({"n_train": size, "model": model, "regime": regime, "sample": sample, "seed": seed, "run": run})
    real = {encoder: real_vectors(encoder) for encoder in p["real_encoders"] if p["real_msmarco"]}
    return Plan(vectors=split.vectors, split=split, design=design(rows), real=real)


def sets_of(p: dict) -> ReSTrain:
    vectors, sizes = query_vectors(p, tests(p, p["test_splits"])), tuple(p["sizes"])
    return ReSTrain(vectors=vectors, sizes=sizes, match=p["match"], controls=p["controls"], seed=p["seed"])


def buckets_of(p: dict, splits: str) -> ReSTTest:
    vectors, options = (
        query_vectors(p, tests(p, p[splits])),
        {name: p[name] for name in ("k", "fold_size", "normalise")},
    )
    return ReSTTest(vectors=vectors, seed=p["seed"], **options)


def run_of(p: dict, made: Recipe, train: Queries | Part, seed: int, splits: str) -> Run:
    return Run(model=Model.of(made, train, seed), queries=tests(p, p[splits]), depth=p["depth"])


@plans("03_resttest")
def resttest(p: dict) -> Plan:
    """Each system without each bucket, each seed. `design`: model, left_out, seed, run."""
    split, rows = buckets_of(p, "test_splits"), []
    for (model, made), bucket in itertools.product(systems(p).items(), split.names):
        for seed in p["seeds"][: 1 if made.architecture == "bm25" else None]:
            run = run_of(p, made, Part(of=split, part=f"without-{bucket}"), seed, "test_splits")
            rows.append({"model": model, "left_out": bucket, "seed": seed, "run": run})
    real = {encoder: real_vectors(encoder) for encoder in p["real_encoders"] if p["real_msmarco"]}
    dev = {encoder: real_dev_vectors(encoder) for encoder in real}
    return Plan(vectors=split.vectors, split=split, design=design(rows), real=real, real_dev=dev)


@plans("05_architecture_comparison")
def architectures(p: dict) -> Plan:
    """Five systems in both protocols: frames `restrain` and `resttest` as in notebooks 02 and 03.

    `learning`: model, trained, run, on all training queries and untrained.
    """
    sets, buckets, restrained, tested, learning = sets_of(p), buckets_of(p, "resttest_splits"), [], [], []
    for model, made in systems(p).items():
        for seed in p["seeds"] if made.architecture == "dense" else p["other_seeds"]:
            for size, regime in itertools.product(p["trained_sizes"], REGIMES):
                run = run_of(p, made, Part(of=sets, part=f"{regime}-{size}"), seed, "test_splits")
                restrained.append({"n_train": size, "model": model, "regime": regime, "seed": seed, "run": run})
            for bucket in buckets.names:
                run = run_of(p, made, Part(of=buckets, part=f"without-{bucket}"), seed, "resttest_splits")
                tested.append({"model": model, "left_out": bucket, "seed": seed, "run": run})
        for trained in (True, False) if p["learning"] else ():
            start = made if trained else untrained(made)
            if trained or start != made:
                run = run_of(p, start, pool(p), p["seed"], "learning_splits")
                learning.append({"model": model, "trained": trained, "run": run})
    frames = {"restrain": design(restrained), "resttest": design(tested), "learning": pd.DataFrame(learning)}
    return Plan(sets=sets, buckets=buckets, **frames)


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


def released_buckets(folder: Path, test_set: str = "dev") -> pd.Series:
    """Bucket (1 to 5) of each query of a released ReSTTest set: `dev`, `trec19` or `trec20`; index query_id."""
    parts = {
        bucket: released.read_resttest(folder, bucket, "extrapolate", test_set)["query_id"].unique()
        for bucket in released.BUCKETS
    }
    return pd.Series({query_id: bucket for bucket, ids in parts.items() for query_id in ids}, name="bucket")


def released_words(folder: Path, spec: str = "msmarco-queries", n: int = 10) -> pd.DataFrame:
    """What the released buckets are about: bucket, n_test, first_words (three commonest), words (over-represented)."""
    buckets, dev = released_buckets(folder), jobs.open_spec(spec).queries("dev").set_index("query_id")["text"]
    texts = dev.loc[buckets.index]
    rows = []
    for bucket, words in resttest.distinctive_words(texts.tolist(), buckets, n).items():
        first = texts[buckets == bucket].str.split().str[0].value_counts(normalize=True)[:3]
        shares = ", ".join(f"{word} {share:.0%}" for word, share in first.items())
        n_test = int((buckets == bucket).sum())
        rows.append({"bucket": bucket, "n_test": n_test, "first_words": shares, "words": " ".join(words)})
    return pd.DataFrame(rows)


def released_bucket_agreement(
    store: Store, vectors: dict[str, dict], dev_vectors: dict[str, dict], k: int, seeds: list[int], folder: Path
) -> pd.DataFrame:
    """k-means of the real queries against the released buckets, compared on the dev queries.

    Parameters
    ----------
    vectors : encoder → configuration of the vectors of the training queries and of the judged DL queries.
    dev_vectors : encoder → configuration that holds the dev queries (as its pool, or as its only test split).

    Returns
    -------
    DataFrame, a row an encoder, what was clustered (`train+test` queries, or `test` queries only), normalise and seed.
    By chance `ari` is 0; `nmi_chance` is the mean NMI over 20 permutations of our bucket numbers. `share_matched_dl`:
    share of the judged DL queries in the bucket that the dev queries matched. `ari_other_seeds`: mean ARI with our
    other seeds, the yardstick for `ari`. Queries without a vector are left out.
    """
    on_dev, rows = released_buckets(folder), []
    on_dl = pd.concat([released_buckets(folder, name) for name in ("trec19", "trec20")])
    for encoder, config in vectors.items():
        train, dl = jobs.read_vectors(store, config)
        collection = jobs.open_spec(config["pool"]["collection"]["spec"])
        cell = jobs.build(store, dev_vectors[encoder])
        dev = np.load(cell / ("dev.npy" if dev_vectors[encoder]["test"] else "train.npy"))
        theirs = on_dev.loc[collection.query_ids("dev")].to_numpy()[dev.any(axis=1)]
        theirs_dl = on_dl.loc[[query_id for name in config["test"] for query_id in collection.query_ids(name)]]
        dev, n_dev = dev[dev.any(axis=1)], int(dev.any(axis=1).sum())
        clustered = {"train+test": (train, np.concatenate([dev, dl])), "test": (dev, dl)}
        for (what, pair), normalise in itertools.product(clustered.items(), (True, False)):
            found = {seed: resttest.buckets(*pair, k, seed, normalise) for seed in seeds}
            both = {s: f.test if what != "test" else np.concatenate([f.train, f.test]) for s, f in found.items()}
            for seed, (ours, ours_dl) in ((seed, np.split(numbers, [n_dev])) for seed, numbers in both.items()):
                same = resttest.agreement(ours, theirs)
                match = theirs_dl.map(same.pop("match")).to_numpy()
                rng = np.random.default_rng(seed)
                chance = [resttest.agreement(rng.permutation(ours), theirs)["nmi"] for _ in range(20)]
                others = [resttest.agreement(ours, both[s][:n_dev])["ari"] for s in seeds if s != seed]
                lists = {name: " ".join(map(str, same.pop(name))) for name in ("sizes", "released_sizes")}
                row = {"encoder": encoder, "clustered": what, "normalise": normalise, "seed": seed, "n_queries": n_dev}
                row |= {**same, "nmi_chance": np.mean(chance), "share_matched_dl": np.mean(match == ours_dl)}
                rows.append({**row, "ari_other_seeds": np.mean(others) if others else np.nan, **lists})
    return pd.DataFrame(rows)

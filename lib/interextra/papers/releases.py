"""What the two groups released: our splits and rules on the same real queries beside it.

Zhan et al. (CIKM 2022) released training and test sets, Lupart et al. (ECIR 2023) evaluation
queries per cluster.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import yaml

from interextra.data.queries import Queries, Source
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures.indicators import link, weighted_jaccard
from interextra.models.search.vectors import Vectors
from interextra.papers import published
from interextra.papers.released import read_qrels_json, read_restrain, read_resttest, read_shift
from interextra.splits import attributes, clusters, resttest
from interextra.splits.similarity import nearest
from interextra.store import InputError, Store, offenders

REGIMES = {
    "interpolation": "interpolate",
    "extrapolation": "extrapolate",
}  # ours → as the files are named
BUCKETS = (1, 2, 3, 4, 5)
PASSAGES, TRAIN_QUERIES, TRAIN_PAIRS = 8_841_823, 502_939, 532_761  # of MS MARCO passage ranking
CLUSTERS = {  # shift → cluster → name of its released file
    "topics": {f"C{number}": str(number) for number in range(5)},
    "wh-words": {name: name for name in ("wha", "how", "who")},
    "length": {name: name for name in ("short", "long")},
}
TRAINING = (  # files of a data folder
    "msmarco/qrels.train.tsv*",
    "msmarco/qrels.train.partial.tsv.gz",
    "extrapolate-eval/restrain_files/msmarco-passage/*/*.train-qrel.txt",
    "ms-marco-shift/EVAL/qrel/qrel_[!ls]*.json",  # those of short and long are dev queries
    "collections/msmarco-mini/qrels/*.tsv",  # all of them MS MARCO training queries
)
FACTS = Path(__file__).with_suffix(".yaml")
KNOWN = yaml.safe_load(FACTS.read_text(encoding="utf-8"))  # release → row → property → value


def real_queries(split: str) -> Queries:
    return Queries(source=Source.of("msmarco-queries"), split=split)


def real_vectors(encoder: str) -> Vectors:
    """Vectors of the real MS MARCO training queries and of the 97 judged DL queries."""
    return Vectors(
        encoder=encoder,
        train=real_queries("train"),
        test=(real_queries("dl19"), real_queries("dl20")),
    )


def real_dev_vectors(encoder: str) -> Vectors:
    """Vectors of the dev queries in the space of `real_vectors`; LSA is fitted on the training
    queries, hence both.
    """
    if encoder.startswith("lsa"):
        return Vectors(encoder=encoder, train=real_queries("train"), test=(real_queries("dev"),))
    return Vectors(encoder=encoder, train=real_queries("dev"))


def gather_training_qrels(folder: Path) -> pd.DataFrame:
    """Every MS MARCO training judgement that a data folder holds, each (query, passage) once,
    without test queries.

    Queries of dev-small, DL19 and DL20 are taken out: a collected file can hold them. Returns
    query_id, doc_id.
    """
    found = [path for files in TRAINING for path in sorted(folder.glob(files))]
    if not found:
        raise InputError(
            f"{folder}: no training qrels; put the official qrels.train.tsv into {folder / 'msmarco'}"
        )
    parts = []
    for path in found:  # two released ReSTrain files repeat rows
        qrels = (
            read_qrels_json(path) if path.suffix == ".json" else read_qrels(path, duplicates="keep")
        )
        parts.append(qrels.loc[qrels["relevance"] > 0, ["query_id", "doc_id"]])
    qrels = pd.concat(parts, ignore_index=True)
    for path in sorted((folder / "msmarco").glob("qrels.*.txt")):
        if "train" not in path.name:
            qrels = qrels[~qrels["query_id"].isin(read_qrels(path, duplicates="keep")["query_id"])]
    return qrels.drop_duplicates(ignore_index=True)


def released_agreement(
    store: Store, vectors: Mapping[str, Vectors], k: int, folder: Path
) -> pd.DataFrame:
    """Share of each judged DL query's k nearest training queries that lie in each released ReSTrain
    set.

    `vectors`: encoder → vectors of the real queries; `folder`: Zhan's release. Returns encoder,
    size, query_id, interpolation, extrapolation, neither, and chance_REGIME, the share of all
    training queries at hand.
    """
    parts = []
    for encoder, cell in vectors.items():
        train, test = cell.read(store)
        ids, near = cell.train.frame()["query_id"], nearest(test, train, k)[1]
        queries = [query_id for part in cell.test for query_id in part.ids()]
        for size in published.SIZES:
            sets = {
                regime: read_restrain(folder, size, name)["query_id"]
                for regime, name in REGIMES.items()
            }
            inside = {regime: ids.isin(found).to_numpy() for regime, found in sets.items()}
            shares = pd.DataFrame({regime: of[near].mean(axis=1) for regime, of in inside.items()})
            shares["neither"] = (1 - shares.sum(axis=1)).clip(0)
            shares = shares.assign(
                **{f"chance_{regime}": of.mean() for regime, of in inside.items()}
            )
            parts.append(
                pd.DataFrame({"encoder": encoder, "size": size, "query_id": queries}).join(shares)
            )
    return pd.concat(parts, ignore_index=True)


def released_buckets(folder: Path, test_set: str = "dev") -> pd.Series:
    """Bucket (1 to 5) of each query of a released ReSTTest set: `dev`, `trec19` or `trec20`; index
    query_id.
    """
    held_out = {
        bucket: read_resttest(folder, bucket, "extrapolate", test_set) for bucket in BUCKETS
    }
    return pd.Series(
        {query_id: bucket for bucket, qrels in held_out.items() for query_id in qrels["query_id"]}
    )


def released_words(folder: Path) -> pd.DataFrame:
    """What the released buckets are about: bucket, n_test, first_words (three commonest), words
    (over-represented).
    """
    buckets, rows = released_buckets(folder), []
    texts = real_queries("dev").frame().set_index("query_id")["text"].loc[buckets.index]
    for bucket, words in clusters.distinctive_words(texts.tolist(), buckets, n=10).items():
        first = texts[buckets == bucket].str.split().str[0].value_counts(normalize=True)[:3]
        first_words = ", ".join(f"{word} {share:.0%}" for word, share in first.items())
        rows.append((bucket, (buckets == bucket).sum(), first_words, " ".join(words)))
    return pd.DataFrame(rows, columns=["bucket", "n_test", "first_words", "words"])


def released_bucket_agreement(
    store: Store,
    vectors: Mapping[str, Vectors],
    dev_vectors: Mapping[str, Vectors],
    seeds: Sequence[int],
    folder: Path,
) -> pd.DataFrame:
    """k-means against the released buckets, on the dev queries: a row an encoder, clustered
    queries, normalise, seed.

    `vectors`: of the training and the judged DL queries; `dev_vectors`: of the dev queries, as
    training or as test queries; those without a vector are left out. `ari`: 0 by chance;
    `ari_other_seeds`: with our other seeds, its mean.
    """
    released, rows = released_buckets(folder).loc[real_queries("dev").ids()].to_numpy(), []
    for encoder, cell in vectors.items():
        train, dl = cell.read(store)
        dev = next(part for part in reversed(dev_vectors[encoder].read(store)) if len(part))
        known = dev.any(axis=1)
        dev, theirs = dev[known], released[known]
        clustered = {"train+test": (train, np.concatenate([dev, dl])), "test": (dev, dl)}
        for (what, pair), normalise in itertools.product(clustered.items(), (True, False)):
            made = [resttest.buckets(*pair, len(BUCKETS), seed, normalise) for seed in seeds]
            of_dev = [
                np.concatenate([b.train, b.test])[-len(dev) - len(dl) :][: len(dev)] for b in made
            ]
            for seed, ours in zip(seeds, of_dev, strict=True):
                same = clusters.agreement(ours, theirs)
                row = {"encoder": encoder, "clustered": what, "normalise": normalise, "seed": seed}
                row |= {"n_queries": len(dev)} | {
                    name: same[name] for name in ("ari", "share_matched")
                }
                others = [
                    clusters.agreement(ours, other)["ari"] for other in of_dev if other is not ours
                ]
                rows.append(row | {"ari_other_seeds": np.mean(others) if others else np.nan})
    return pd.DataFrame(rows)


def released_queries(folder: Path, shift: str) -> pd.DataFrame:
    """cluster, query_id, text of a shift's released evaluation queries, as in the files; a query
    may be in two.
    """
    parts = [
        read_shift(folder, file)[0].assign(cluster=name) for name, file in CLUSTERS[shift].items()
    ]
    return pd.concat(parts, ignore_index=True)[["cluster", "query_id", "text"]]


def rules(shift: str) -> dict[str, Callable[[str], list[str]]]:
    r"""Readings of a shift's rule: name → function from a query's text to the clusters that it
    falls into.

    wh-words: `contains` gives every cluster of which the lower-cased query holds a word, letters
    inside another word included; `case kept` doesn't lower the case; `whole words` takes words;
    `how > who > wha` and so on give the first that is contained. length: `spaces` counts single
    spaces; `split` and `\w+` count words.

    >>> [rules("wh-words")[name]("what a show") for name in ("contains", "wha > who > how", "whole words")]
    [['how', 'wha'], ['wha'], ['wha']]
    """
    if shift == "length":
        return {
            "spaces": lambda text: [attributes.length(text)],
            "split": lambda text: [attributes.length(text, whole=True)],
            r"\w+": lambda text: [
                attributes.length(" ".join(re.findall(r"\w+", text)), whole=True)
            ],
        }
    signs = attributes.WH_WORDS.items()
    found = {
        "contains": attributes.wh_words,
        "case kept": lambda text: [
            name for name, parts in signs if any(part in text for part in parts)
        ],
        "whole words": lambda text: attributes.wh_words(text, whole=True),
    }
    for order in itertools.permutations(sorted(attributes.WH_WORDS)):
        found[" > ".join(order)] = lambda text, first=order.index: sorted(
            attributes.wh_words(text), key=first
        )[:1]
    return found


def rule_agreement(folder: Path) -> pd.DataFrame:
    """How many released queries are consistent with a rule: it puts them into their released
    cluster (Lupart §3.1).

    The length rule classifies: a query has one length. The rule of the question words is
    containment: 708 of the 19,487 released queries hold words of two clusters or more, so that no
    order of precedence gives each query its own. Returns shift, rule (see `rules`), cluster,
    n_released, n_consistent, n_other.
    """
    rows = []
    for shift in ("length", "wh-words"):
        queries = released_queries(folder, shift)
        pairs = list(zip(queries["cluster"], queries["text"], strict=True))
        for name, rule in rules(shift).items():
            consistent = pd.Series([cluster in rule(text) for cluster, text in pairs])
            for cluster, found in consistent.groupby(queries["cluster"], sort=False):
                rows.append((shift, name, cluster, len(found), found.sum(), (~found).sum()))
    return pd.DataFrame(
        rows, columns=["shift", "rule", "cluster", "n_released", "n_consistent", "n_other"]
    )


def topic_agreement(ours: pd.Series, folder: Path) -> dict[str, float]:
    """Our topics against the released ones, on the released queries that we know (Lupart §3.1,
    topics).

    `ours`: query_id → name of our topic, "" for none. Returns n_released, n_known (in `ours`),
    n_in_ours (in a topic of ours), share (of the known), and over those in a topic ari (0 by
    chance), nmi and share_matched of `agreement`.
    """
    theirs = released_queries(folder, "topics")
    known = theirs.assign(ours=theirs["query_id"].map(ours)).dropna(subset="ours")
    inside = known[known["ours"] != ""]
    if inside.empty:
        raise InputError(
            f"topics: of {len(theirs)} released queries {len(known)} are among ours, none in a topic"
        )
    same = clusters.agreement(inside["ours"], inside["cluster"])
    found = {"n_released": len(theirs), "n_known": len(known), "n_in_ours": len(inside)}
    return (
        found
        | {"share": len(inside) / len(known)}
        | {name: same[name] for name in ("ari", "nmi", "share_matched")}
    )


def released_jaccard(folder: Path) -> pd.DataFrame:
    """Weighted Jaccard of each cluster and the other clusters of its shift, on the released
    evaluation queries.

    The fewer queries, the fewer words in common: compare values of samples of one size only, and
    their order with care. Returns shift, cluster, jaccard, n_queries, n_words (different ones),
    authors (of whole topics, by the release).
    """
    rows = []
    for shift in CLUSTERS:
        queries = released_queries(folder, shift)
        for name, texts in queries.groupby("cluster", sort=False)["text"]:
            others = queries[queries["cluster"] != name].drop_duplicates("query_id")["text"]
            n_words = texts.str.lower().str.split().explode().nunique()
            rows.append((shift, name, weighted_jaccard(texts, others), len(texts), n_words))
    frame = pd.DataFrame(rows, columns=["shift", "cluster", "jaccard", "n_queries", "n_words"])
    authors = published.load("lupart", "release-jaccard").set_index("cluster")["scaled"]
    return frame.assign(authors=frame["cluster"].map(authors))


def published_points(folder: Path | None = None) -> pd.DataFrame:
    """Lupart's losses beside the Jaccard of their clusters, as in Figure 3: shift, cluster, model,
    delta, jaccard.

    `folder` of the release: of the released evaluation queries, all shifts; None: of whole topics,
    by its notebook.

    >>> published_points().query("cluster == 'C1' and model == 'ColBERT'")[["delta", "jaccard"]].values.tolist()
    [[-0.085, 0.2632]]
    """
    whole = (
        published.load("lupart", "release-jaccard")
        .rename(columns={"scaled": "jaccard"})
        .assign(shift="topics")
    )
    table = released_jaccard(folder) if folder else whole
    return (
        published.lupart_losses()
        .drop(columns="rounding")
        .merge(table[["shift", "cluster", "jaccard"]])
    )


def published_links(folder: Path | None = None) -> pd.DataFrame:
    """`link` of the published losses with each Jaccard that is known: of, clusters, and the columns
    of `link`.

    Five clusters can show little: |Pearson| must exceed .88 for p < .05, Spearman must be 1 or -1.
    `of`: authors (whole clusters), and with the release's `folder` released (evaluation queries),
    of topics and of question words too.
    """
    found = {("authors", "topics"): published_points()}
    if folder:
        points = published_points(folder).query("shift != 'length'")
        found["released", "topics"] = points[points["shift"] == "topics"]
        found["released", "topics and wh-words"] = points
    return pd.concat(
        [
            link(points, "jaccard").assign(of=of, clusters=which)
            for (of, which), points in found.items()
        ]
    )


def on_ms_marco(folder: Path, runs: dict[str, Path], held_out: float) -> pd.DataFrame:
    """Expected exposure on MS MARCO: the share of negatives that answer a held-out query.

    `folder`: `msmarco/qrels.train*.tsv` of the real data; where only a part of the 502,939 training
    queries is there, shares are scaled up. `runs`: name → BM25 run of other queries. `held_out`:
    share of the training queries left out. Returns negatives, answers (share that answers any
    training query), exposed (answers × held_out), against_random.
    """
    paths = sorted(folder.glob("qrels.train*"))
    if len(paths) != 1:
        found = offenders(path.name for path in paths) or "none"
        raise InputError(
            f"{folder}: one file qrels.train* is read, there are: {found}; keep the judgements in one"
        )
    judged_pairs = read_qrels(paths[0])
    answers, scale = (
        judged_pairs["doc_id"].unique(),
        TRAIN_QUERIES / judged_pairs["query_id"].nunique(),
    )
    rows = [("a random passage", len(answers) / PASSAGES * scale)]
    for (name, run), depth in itertools.product(runs.items(), (10, 100, 1000)):
        first = RunFile.read(run).frame().query("rank <= @depth")
        rows.append(
            (f"BM25's first {depth:,} ({name})", first["doc_id"].isin(answers).mean() * scale)
        )
    table = pd.DataFrame(rows, columns=["negatives", "answers"]).assign(
        exposed=lambda of: of["answers"] * held_out
    )
    return table.assign(against_random=table["exposed"] / table["exposed"][0])

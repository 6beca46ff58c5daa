"""What the two groups released, and beside it our splits and rules on the same real queries.

Zhan et al. (CIKM 2022) released training and test sets, Lupart et al. (ECIR 2023) evaluation
queries per cluster.
"""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence, Set
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

# Our name of a regime → that of the released files
RELEASED_REGIMES = {"interpolation": "interpolate", "extrapolation": "extrapolate"}
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

Rule = Callable[[str], list[str]]  # a query's text → the clusters that it falls into


def real_queries(split: str) -> Queries:
    """Return a split of the real MS MARCO queries: train, dev, dl19, dl20."""
    return Queries(source=Source.of("msmarco-queries"), split=split)


def real_vectors(encoder: str) -> Vectors:
    """Return vectors of the real MS MARCO training queries and of the 97 judged DL queries."""
    judged = (real_queries("dl19"), real_queries("dl20"))
    return Vectors(encoder=encoder, train=real_queries("train"), test=judged)


def real_dev_vectors(encoder: str) -> Vectors:
    """Return vectors of the dev queries in the space of `real_vectors`.

    LSA is fitted on the training queries, hence both.
    """
    dev = real_queries("dev")
    if encoder.startswith("lsa"):
        return Vectors(encoder=encoder, train=real_queries("train"), test=(dev,))
    return Vectors(encoder=encoder, train=dev)


def gather_training_qrels(folder: Path) -> pd.DataFrame:
    """Return every MS MARCO training judgement that a data folder holds, without test queries.

    Queries of dev-small, DL19 and DL20 are taken out: a collected file can hold them.

    Returns
    -------
    query_id, doc_id, each pair once.

    Raises
    ------
    InputError
        The folder holds none.
    """
    paths = []
    for pattern in TRAINING:
        paths += sorted(folder.glob(pattern))
    if not paths:
        place = folder / "msmarco"
        raise InputError(
            f"{folder}: no training qrels; put the official qrels.train.tsv into {place}"
        )
    parts = [_read_either(path) for path in paths]
    qrels = pd.concat(parts, ignore_index=True)
    is_relevant = qrels["relevance"] > 0
    qrels = qrels.loc[is_relevant, ["query_id", "doc_id"]]
    for path in sorted((folder / "msmarco").glob("qrels.*.txt")):
        if "train" not in path.name:
            tested = read_qrels(path, duplicates="keep")["query_id"]
            qrels = qrels[~qrels["query_id"].isin(tested)]
    return qrels.drop_duplicates(ignore_index=True)


def _read_either(path: Path) -> pd.DataFrame:
    """Read qrels as JSON or of TREC; two released ReSTrain files repeat rows."""
    if path.suffix == ".json":
        return read_qrels_json(path)
    return read_qrels(path, duplicates="keep")


def released_agreement(
    store: Store, vectors: Mapping[str, Vectors], k: int, folder: Path
) -> pd.DataFrame:
    """Return how many near training queries of a DL query lie in each released ReSTrain set.

    Parameters
    ----------
    store
        Where the vectors are.
    vectors
        Encoder → vectors of the real queries.
    k
        Number of nearest training queries.
    folder
        Zhan's release.

    Returns
    -------
    A row per encoder, size of the set and judged DL query: encoder, size, query_id; interpolation,
    extrapolation, neither, shares of the k nearest training queries; chance_REGIME, the share of
    all training queries at hand.
    """
    parts = []
    for encoder, cell in vectors.items():
        train, test = cell.read(store)
        train_ids = cell.train.frame()["query_id"]
        _, neighbours = nearest(test, train, k)
        test_ids = [query_id for part in cell.test for query_id in part.ids()]
        for size in published.SIZES:
            table = pd.DataFrame({"encoder": encoder, "size": size, "query_id": test_ids})
            released = _in_released(train_ids, folder, size)
            _add_shares(table, neighbours, released)
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def _add_shares(
    table: pd.DataFrame, neighbours: np.ndarray, released: dict[str, np.ndarray]
) -> None:
    """Add to a table of test queries the shares of `released_agreement`, of their neighbours."""
    for regime, inside in released.items():
        table[regime] = inside[neighbours].mean(axis=1)
    in_either = table[list(released)].sum(axis=1)
    table["neither"] = (1 - in_either).clip(0)
    for regime, inside in released.items():
        table[f"chance_{regime}"] = inside.mean()


def _in_released(train_ids: pd.Series, folder: Path, size: str) -> dict[str, np.ndarray]:
    """Return which training queries are in the released set of each regime, bool[n_train]."""
    released = {}
    for regime, name in RELEASED_REGIMES.items():
        qrels = read_restrain(folder, size, name)
        released[regime] = train_ids.isin(qrels["query_id"]).to_numpy()
    return released


def restrain_sizes(folder: Path) -> pd.DataFrame:
    """Count queries and rows of the released ReSTrain sets (Zhan §4.1.1).

    Parameters
    ----------
    folder
        Zhan's release.

    Returns
    -------
    DataFrame[size, regime, queries, rows, repeated_rows], a row per set: `size` as printed (14k),
    `repeated_rows` those that repeat another row.
    """
    rows = []
    for size, (regime, name) in itertools.product(published.SIZES, RELEASED_REGIMES.items()):
        qrels = read_restrain(folder, size, name)
        row = {
            "size": size,
            "regime": regime,
            "queries": qrels["query_id"].nunique(),
            "rows": len(qrels),
            "repeated_rows": int(qrels.duplicated().sum()),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def restrain_queries(folder: Path) -> set[str]:
    """Return the ids of all training queries in the released ReSTrain sets."""
    query_ids: set[str] = set()
    for size, name in itertools.product(published.SIZES, RELEASED_REGIMES.values()):
        query_ids.update(read_restrain(folder, size, name)["query_id"])
    return query_ids


def released_buckets(folder: Path, test_set: str = "dev") -> pd.Series:
    """Return the bucket (1 to 5) of each query of a released ReSTTest set, by query_id.

    `test_set`: `dev`, `trec19` or `trec20`.
    """
    bucket_of_query: dict[str, int] = {}
    for bucket in BUCKETS:
        held_out = read_resttest(folder, bucket, "extrapolate", test_set)
        bucket_of_query |= dict.fromkeys(held_out["query_id"], bucket)
    return pd.Series(bucket_of_query)


def released_words(folder: Path) -> pd.DataFrame:
    """Return what the released buckets are about.

    Columns bucket, n_test, first_words (the three commonest), words (over-represented).
    """
    buckets = released_buckets(folder)
    dev = real_queries("dev").frame().set_index("query_id")
    texts = dev["text"].loc[buckets.index]
    rows = []
    words_of = clusters.distinctive_words(texts.tolist(), buckets, n=10)
    for bucket, words in words_of.items():
        inside = texts[buckets == bucket]
        openings = inside.str.split().str[0]
        shares = openings.value_counts(normalize=True)[:3]
        commonest = shares.index + " " + shares.map("{:.0%}".format)
        row = {
            "bucket": bucket,
            "n_test": len(inside),
            "first_words": ", ".join(commonest),
            "words": " ".join(words),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def released_bucket_agreement(
    store: Store,
    vectors: Mapping[str, Vectors],
    dev_vectors: Mapping[str, Vectors],
    seeds: Sequence[int],
    folder: Path,
) -> pd.DataFrame:
    """Compare k-means with the released buckets, on the dev queries.

    Parameters
    ----------
    store
        Where the vectors are.
    vectors
        Encoder → vectors of the training and the judged DL queries.
    dev_vectors
        Encoder → vectors of the dev queries, as training or as test queries; those without a vector
        are left out.
    seeds
        Of k-means.
    folder
        Zhan's release.

    Returns
    -------
    A row per encoder, clustered queries, normalise and seed: encoder, clustered, normalise, seed,
    n_queries, ari (0 by chance), share_matched, ari_other_seeds (with our other seeds, its mean).
    """
    dev_ids = real_queries("dev").ids()
    released = released_buckets(folder).loc[dev_ids].to_numpy()
    rows = []
    for encoder, cell in vectors.items():
        train, dl = cell.read(store)
        dev, is_known = _known_dev_vectors(store, dev_vectors[encoder])
        for clustered, normalise in itertools.product(("train+test", "test"), (True, False)):
            others = train if clustered == "train+test" else None
            ours = [_buckets_of_dev(dev, dl, others, seed, normalise) for seed in seeds]
            labels = {"encoder": encoder, "clustered": clustered, "normalise": normalise}
            for seed, buckets in zip(seeds, ours, strict=True):
                compared = _compared(buckets, released[is_known], ours)
                rows.append({**labels, "seed": seed, **compared})
    return pd.DataFrame(rows)


def _known_dev_vectors(store: Store, vectors: Vectors) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of the dev queries that have one, and which queries these are."""
    as_train, as_test = vectors.read(store)
    dev = as_test if len(as_test) else as_train
    is_known = dev.any(axis=1)
    return dev[is_known], is_known


def _compared(
    buckets: np.ndarray, released: np.ndarray, of_all_seeds: Sequence[np.ndarray]
) -> dict[str, float]:
    """Compare our buckets with the released ones, and with ours by the other seeds."""
    same = clusters.agreement(buckets, released)
    others = [other for other in of_all_seeds if other is not buckets]
    between = [clusters.agreement(buckets, other)["ari"] for other in others]
    return {
        "n_queries": len(buckets),
        "ari": same["ari"],
        "share_matched": same["share_matched"],
        "ari_other_seeds": float(np.mean(between)) if between else np.nan,
    }


def _buckets_of_dev(
    dev: np.ndarray, dl: np.ndarray, train: np.ndarray | None, seed: int, normalise: bool
) -> np.ndarray:
    """Return our bucket of each dev query, by k-means of all queries, with or without training."""
    k = len(BUCKETS)
    if train is None:
        return resttest.buckets(dev, dl, k, seed, normalise).train
    test = np.concatenate([dev, dl])
    found = resttest.buckets(train, test, k, seed, normalise)
    return found.test[: len(dev)]


def released_queries(folder: Path, shift: str) -> pd.DataFrame:
    """Return cluster, query_id, text of a shift's released evaluation queries.

    As in the files; a query may be in two.
    """
    parts = []
    for cluster, file in CLUSTERS[shift].items():
        queries, _, _ = read_shift(folder, file)
        parts.append(queries.assign(cluster=cluster))
    return pd.concat(parts, ignore_index=True)[["cluster", "query_id", "text"]]


def evaluation_sources(folder: Path, train_ids: Set[str], dev_ids: Set[str]) -> pd.DataFrame:
    """Count where the queries of each MS-Shift evaluation set come from (Lupart §3.1).

    Parameters
    ----------
    folder
        Lupart's release.
    train_ids, dev_ids
        Ids of MS MARCO training queries, as many as are known, and of its dev queries.

    Returns
    -------
    DataFrame[shift, cluster, queries, in_train, in_dev, without_text], a row per set: `queries`
    with judgements, how many of them are known training or dev queries, and how many have no text.
    """
    rows = []
    for shift, files in CLUSTERS.items():
        for cluster, file in files.items():
            _, qrels, without_text = read_shift(folder, file)
            query_ids = qrels["query_id"].drop_duplicates()
            row = {
                "shift": shift,
                "cluster": cluster,
                "queries": len(query_ids),
                "in_train": int(query_ids.isin(train_ids).sum()),
                "in_dev": int(query_ids.isin(dev_ids).sum()),
                "without_text": len(without_text),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def rules(shift: str) -> dict[str, Rule]:
    r"""Return readings of a shift's rule, by name: functions from a text to its clusters.

    wh-words: `contains` gives every cluster of which the lower-cased query holds a word, letters
    inside another word included; `case kept` doesn't lower the case; `whole words` takes words;
    `how > who > wha` and so on give the first that is contained. length: `spaces` counts single
    spaces; `split` and `\w+` count words.

    Examples
    --------
    >>> names = ["contains", "wha > who > how", "whole words"]
    >>> [rules("wh-words")[name]("what a show") for name in names]
    [['how', 'wha'], ['wha'], ['wha']]
    """
    if shift == "length":
        return {"spaces": _by_spaces, "split": _by_split, r"\w+": _by_words}
    readings = {
        "contains": attributes.wh_words,
        "case kept": _with_case,
        "whole words": lambda text: attributes.wh_words(text, whole=True),
    }
    for order in itertools.permutations(sorted(attributes.WH_WORDS)):
        readings[" > ".join(order)] = _first_of(order)
    return readings


def _by_spaces(text: str) -> list[str]:
    """Return the length of a query by its single spaces."""
    return [attributes.length(text)]


def _by_split(text: str) -> list[str]:
    """Return the length of a query by what stands between spaces."""
    return [attributes.length(text, whole=True)]


def _by_words(text: str) -> list[str]:
    r"""Return the length of a query by its `\w+` tokens."""
    words = re.findall(r"\w+", text)
    return _by_split(" ".join(words))


def _with_case(text: str) -> list[str]:
    """Return the clusters of which a query holds a word in lower case."""
    found = []
    for cluster, words in attributes.WH_WORDS.items():
        if any(word in text for word in words):
            found.append(cluster)
    return found


def _first_of(order: Sequence[str]) -> Rule:
    """Return the rule that gives the first cluster, in this order, that a query falls into."""

    def first(text: str) -> list[str]:
        """Return the first of the clusters of a query."""
        in_order = sorted(attributes.wh_words(text), key=order.index)
        return in_order[:1]

    return first


def rule_agreement(folder: Path) -> pd.DataFrame:
    """Count the released queries that a rule puts into their released cluster (Lupart §3.1).

    The length rule classifies: a query has one length. The rule of the question words is
    containment: 708 of the 19,487 released queries hold words of two clusters or more, so that no
    order of precedence gives each query its own.

    Returns
    -------
    shift, rule (see `rules`), cluster, n_released, n_consistent, n_other.
    """
    parts = []
    for shift in ("length", "wh-words"):
        queries = released_queries(folder, shift)
        for name, rule in rules(shift).items():
            labels = queries["text"].map(rule)
            pairs = zip(queries["cluster"], labels, strict=True)
            queries["consistent"] = [cluster in label for cluster, label in pairs]
            by_cluster = queries.groupby("cluster", sort=False)["consistent"]
            table = by_cluster.agg(n_released="size", n_consistent="sum").reset_index()
            table["n_other"] = table["n_released"] - table["n_consistent"]
            table.insert(0, "rule", name)
            table.insert(0, "shift", shift)
            parts.append(table)
    return pd.concat(parts, ignore_index=True)


def topic_agreement(ours: pd.Series, folder: Path) -> dict[str, float]:
    """Compare our topics with the released ones, on the queries that we know (Lupart §3.1).

    Parameters
    ----------
    ours
        query_id → name of our topic, "" for none.
    folder
        Lupart's release.

    Returns
    -------
    n_released, n_known (in `ours`), n_in_ours (in a topic of ours), share (of the known), and over
    those in a topic ari (0 by chance), nmi and share_matched of `agreement`.
    """
    theirs = released_queries(folder, "topics")
    theirs["ours"] = theirs["query_id"].map(ours)
    known = theirs.dropna(subset="ours")
    inside = known[known["ours"] != ""]
    if inside.empty:
        raise InputError(
            f"topics: of {len(theirs)} released queries {len(known)} are among ours, "
            "none in a topic"
        )
    same = clusters.agreement(inside["ours"], inside["cluster"])
    return {
        "n_released": len(theirs),
        "n_known": len(known),
        "n_in_ours": len(inside),
        "share": len(inside) / len(known),
        "ari": same["ari"],
        "nmi": same["nmi"],
        "share_matched": same["share_matched"],
    }


def released_jaccard(folder: Path) -> pd.DataFrame:
    """Return the weighted Jaccard similarity of each released cluster with the others of its shift.

    On the released evaluation queries. The fewer queries, the fewer words in common: compare values
    of samples of one size only, and their order with care.

    Returns
    -------
    shift, cluster, jaccard, n_queries, n_words (different ones), authors (of whole topics, by the
    release).
    """
    authors = published.load("lupart", "release-jaccard")
    authors = authors.set_index("cluster")["scaled"]
    rows = []
    for shift in CLUSTERS:
        queries = released_queries(folder, shift)
        for cluster, texts in queries.groupby("cluster", sort=False)["text"]:
            others = queries[queries["cluster"] != cluster]
            others = others.drop_duplicates("query_id")["text"]
            words = texts.str.lower().str.split().explode()
            row = {
                "shift": shift,
                "cluster": cluster,
                "jaccard": weighted_jaccard(texts, others),
                "n_queries": len(texts),
                "n_words": words.nunique(),
                "authors": authors.get(cluster, np.nan),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def published_points(folder: Path | None = None) -> pd.DataFrame:
    """Return Lupart's losses beside the Jaccard of their clusters, as in Figure 3.

    Columns shift, cluster, model, delta, jaccard.

    Parameters
    ----------
    folder
        Of the release: Jaccard of the released evaluation queries, all shifts; None: of whole
        topics, by its notebook.

    Examples
    --------
    >>> points = published_points().query("cluster == 'C1' and model == 'ColBERT'")
    >>> points[["delta", "jaccard"]].values.tolist()
    [[-0.085, 0.2632]]
    """
    if folder:
        table = released_jaccard(folder)
    else:
        authors = published.load("lupart", "release-jaccard")
        table = authors.rename(columns={"scaled": "jaccard"}).assign(shift="topics")
    losses = published.lupart_losses().drop(columns="rounding")
    return losses.merge(table[["shift", "cluster", "jaccard"]])


def published_links(folder: Path | None = None) -> pd.DataFrame:
    """Return the `link` of the published losses with each Jaccard that is known.

    Five clusters can show little: |Pearson| must exceed .88 for p < .05, Spearman must be 1 or -1.

    Returns
    -------
    The columns of `link`; of: authors (whole clusters), and with the release's `folder` released
    (evaluation queries); clusters: topics, of the released ones also topics and wh-words.
    """
    authors = link(published_points(), "jaccard")
    parts = [authors.assign(of="authors", clusters="topics")]
    if folder:
        points = published_points(folder).query("shift != 'length'")
        of_topics = points[points["shift"] == "topics"]
        topics = link(of_topics, "jaccard")
        parts.append(topics.assign(of="released", clusters="topics"))
        both = link(points, "jaccard")
        parts.append(both.assign(of="released", clusters="topics and wh-words"))
    return pd.concat(parts)


def on_ms_marco(folder: Path, runs: dict[str, Path], held_out: float) -> pd.DataFrame:
    """Return the expected exposure on MS MARCO: negatives that answer a held-out query.

    Parameters
    ----------
    folder
        It has `qrels.train*` of the real data; where only a part of the 502,939 training queries is
        there, shares are scaled up.
    runs
        Name → BM25 run of other queries.
    held_out
        Share of the training queries left out.

    Returns
    -------
    negatives, answers (share that answers any training query), exposed (answers × held_out),
    against_random.
    """
    judgements = _training_judgements(folder)
    answers = judgements["doc_id"].unique()
    scale = TRAIN_QUERIES / judgements["query_id"].nunique()
    shares = {"a random passage": len(answers) / PASSAGES * scale}
    for name, path in runs.items():
        ranking = RunFile.read(path).frame()
        for depth in (10, 100, 1000):
            negatives = ranking["doc_id"][ranking["rank"] <= depth]
            share = negatives.isin(answers).mean()
            shares[f"BM25's first {depth:,} ({name})"] = share * scale
    share_of_negatives = pd.Series(shares).rename_axis("negatives")
    table = share_of_negatives.reset_index(name="answers")
    table["exposed"] = table["answers"] * held_out
    of_a_random_passage = table["exposed"][0]
    table["against_random"] = table["exposed"] / of_a_random_passage
    return table


def _training_judgements(folder: Path) -> pd.DataFrame:
    """Read the one file of training judgements in a folder."""
    paths = sorted(folder.glob("qrels.train*"))
    if len(paths) != 1:
        names = offenders(path.name for path in paths) or "none"
        raise InputError(
            f"{folder}: one file qrels.train* is read, there are: {names}; "
            "keep the judgements in one"
        )
    return read_qrels(paths[0])

"""Notebook 03: each system without each bucket of ReSTTest. Zhan et al. (CIKM 2022), Table 7."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    GateParameters,
    Measures,
    Names,
    ReSTTestParameters,
    Seeds,
    parameter,
)
from interextra.overlap import trained_answers
from interextra.papers.releases import BUCKETS, KNOWN, real_dev_vectors, real_vectors
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.resttest import APART, buckets, in_regimes, sides
from interextra.splits.similarity import nearest
from interextra.splits.split import REGIMES
from interextra.stats.effects import DRAWS, Effects
from interextra.stats.formatting import spelled, with_interval

ATTRIBUTES = {  # what may be known of a query → what kind of attribute it is
    "domain": "topic",
    "semtype": "topic",
    "wh": "form",
    "intent_group": "intent",
    "qtype": "intent",
}
# Of the queries, in the same bucket under other seeds of k-means: less makes buckets a division
FOUND_AGAIN = 0.75
IN_WORDS = {
    "semtype": "semantic type",
    "wh": "question word",
    "intent_group": "intent group",
    "qtype": "question type",
}
NAMES = {  # columns of tables → their headings on the page
    "delta": "Δ [95 % CI]",
    "published": "published Δ",
    "cohen_d": "Cohen's d",
    "worse": "lower",
    "better": "higher",
}


class Parameters(GateParameters, ReSTTestParameters):
    """Parameters of notebook 03, ReSTTest."""

    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "systems", paper="BERT-base, 50 epochs, 1,024 random negatives"
    )
    normalise: bool = parameter(
        True, "vectors and centroids of length 1, that is cosine", paper="it does not say"
    )
    seeds: Seeds = parameter([1], "seeds of the training runs", paper="it does not say how many")
    bucket_seeds: Seeds = parameter(
        [1, 2, 3, 4, 5], "seeds of k-means to compare; the experiment uses `seed`"
    )
    measures: Measures = parameter(["RR@10", "R@100"], "measures", paper="MRR@10 and R@100")
    real_msmarco: bool = parameter(
        False, "also compare with the released buckets on real queries (folder: INTEREXTRA_DATA)"
    )
    test_splits: Names = parameter(["test", "graded"], "test queries, pooled", paper="dev")
    encoder: str = parameter(
        "trained", "whose vectors are clustered: trained (dense, all training queries), minilm, lsa"
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )
    real_encoders: Names = parameter(["minilm", "lsa"], "encoders for the real queries")


def plan(p: Parameters) -> plans.Plan:
    """Return each system without each bucket, for each seed.

    Returns
    -------
    Plan
        `vectors`, `split`, `design` (model, left_out, seed, run), and encoder → vectors of the real
        training queries and judged queries, `real`, and of the real dev queries, `real_dev`.

    Raises
    ------
    InputError
        A split that is among `test_splits` and `gate_splits`: it would be clustered twice.
    """
    queries = (*plans.test_queries(p, p.test_splits), *plans.gate_queries(p))
    split = plans.resttest_of(p, [*p.test_splits, *p.gate_splits])
    systems = plans.with_bm25(plans.systems(p))
    runs = plans.runs(p, systems, plans.without_each(split), queries)
    real_encoders = p.real_encoders if p.real_msmarco else []
    return plans.Plan(
        vectors=split.vectors,
        split=split,
        design=plans.design(runs),
        real={encoder: real_vectors(encoder) for encoder in real_encoders},
        real_dev={encoder: real_dev_vectors(encoder) for encoder in real_encoders},
    )


def nearest_outside(
    train: np.ndarray, test: np.ndarray, of_train: np.ndarray, of_test: np.ndarray
) -> np.ndarray:
    """Return the cosine of each test query to its nearest training query of another bucket.

    Parameters
    ----------
    train, test
        Vectors of the queries, float[n_train, d] and float[n_test, d].
    of_train, of_test
        Their buckets, int[n_train] and int[n_test].

    Returns
    -------
    numpy.ndarray
        float[n_test].

    Examples
    --------
    >>> train, test = np.eye(2), np.array([[0.6, 0.8]])
    >>> found = nearest_outside(train, test, np.array([0, 1]), np.array([1]))
    >>> found.astype(float).round(2).tolist()
    [0.6]
    """
    cosines = np.zeros(len(test), np.float32)
    for bucket in np.unique(of_test):
        of_all, _ = nearest(test, train[of_train != bucket], k=1)
        inside = of_test == bucket
        cosines[inside] = of_all[inside, 0]
    return cosines


def bucket_sizes(of_train: np.ndarray, of_test: np.ndarray, cosines: pd.DataFrame) -> pd.DataFrame:
    """Return the queries of each bucket, and how near its test queries are to training queries.

    Parameters
    ----------
    of_train, of_test
        Bucket of each query, from 0.
    cosines
        Of each test query to its nearest training query, with its own bucket in training
        (interpolation) and without it (extrapolation).

    Returns
    -------
    pandas.DataFrame
        bucket (from 1), n_train, n_test, interpolation, extrapolation (means).
    """
    k = 1 + max(of_train.max(), of_test.max())
    counts = {
        "n_train": np.bincount(of_train, minlength=k),
        "n_test": np.bincount(of_test, minlength=k),
    }
    numbers = pd.RangeIndex(1, k + 1, name="bucket")
    means = cosines[[*REGIMES]].groupby(of_test + 1).mean()
    return pd.DataFrame(counts, index=numbers).join(means).reset_index()


def bucket_words(texts: Sequence[str], of_query: np.ndarray) -> pd.DataFrame:
    """Return the most distinctive words of each bucket, see `splits.clusters.distinctive_words`.

    Parameters
    ----------
    texts
        Of the queries.
    of_query
        Bucket of each, from 0.

    Returns
    -------
    pandas.DataFrame
        bucket (from 1), distinctive words.
    """
    words_of = distinctive_words(texts, of_query, n=6)
    rows = [(1 + bucket, " ".join(words)) for bucket, words in words_of.items()]
    return pd.DataFrame(rows, columns=["bucket", "distinctive words"])


def shared_answers(
    data: Collection,
    p: Parameters,
    sets: Mapping[str, Sequence[str]],
    strata: pd.Series,
    similarity: pd.Series,
) -> pd.DataFrame:
    """Return in which folds a relevant passage of a test query is a positive.

    Its fold in extrapolation is the one without its bucket; in interpolation at least one of the
    others counts.

    Parameters
    ----------
    data
        The collection.
    p
        Parameters of the notebook.
    sets
        Of ReSTTest: name of a fold → ids of its training queries.
    strata
        Bucket of each test query, by query_id.
    similarity
        Of each test query to its nearest training query, by query_id.

    Returns
    -------
    pandas.DataFrame
        See `overlap.trained_answers.by_trained_answers`.
    """
    trained = trained_answers.relevant(data, [p.train_split])
    tested = trained_answers.relevant(data, p.test_splits)
    # [n_test, k]: whether a fold has a positive
    of_fold = pd.DataFrame(
        {
            name: trained_answers.has_positive(tested, trained, query_ids)
            for name, query_ids in sets.items()
        }
    )
    without_own = "without-" + strata.reindex(of_fold.index).astype(str)
    is_own = pd.DataFrame({name: without_own == name for name in sets})
    has_positive_in = {
        "interpolation": (of_fold & ~is_own).any(axis=1),
        "extrapolation": (of_fold & is_own).any(axis=1),
    }
    return trained_answers.by_trained_answers(has_positive_in, similarity)


def sizes_sentence(sizes: pd.DataFrame) -> str:
    """Return how many test queries the buckets have, here and in the release, in a sentence."""
    theirs = [KNOWN["ReSTTest"][f"dev bucket {bucket}"]["queries held out"] for bucket in BUCKETS]
    released = ", ".join(map(str, theirs))
    here = ", ".join(map(str, sizes["n_test"]))
    return f"Test queries per bucket: released {released}; here {here} (with those of the gate)."


def attributes(train: pd.DataFrame, of_train: np.ndarray) -> pd.DataFrame:
    """Return how far the buckets follow what is known of the training queries.

    Parameters
    ----------
    train
        The training queries: text, and those columns of ATTRIBUTES that the collection has.
    of_train
        Their buckets.

    Returns
    -------
    pandas.DataFrame
        attribute, kind, n_values, ami (adjusted mutual information with the buckets); the largest
        first.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    labels = {name: train[name].map(str) for name in ATTRIBUTES if name in train}
    labels["first word"] = train["text"].str.split().str[0].map(str)
    kinds = ATTRIBUTES | {"first word": "form"}
    rows = []
    for name, of_query in labels.items():
        ami = adjusted_mutual_info_score(of_query, of_train)
        rows.append((name, kinds[name], of_query.nunique(), ami))
    table = pd.DataFrame(rows, columns=["attribute", "kind", "n_values", "ami"])
    return table.sort_values("ami", ascending=False)


def attributes_page(found: pd.DataFrame) -> pd.DataFrame:
    """Return a table of `attributes` in words, for the page."""
    page = found.replace({"attribute": IN_WORDS})
    return page.rename(columns={"n_values": "values", "ami": "AMI"})


def other_buckets(
    train: np.ndarray, test: np.ndarray, of_query: np.ndarray, k: int, seeds: Sequence[int]
) -> pd.DataFrame:
    """Return how alike our buckets and those of other seeds of k-means are.

    On vectors of length 1, and on the vectors as they are.

    Parameters
    ----------
    train, test
        Vectors of the queries.
    of_query
        Our bucket of each query, training queries first.
    k
        Number of buckets.
    seeds
        Of k-means.

    Returns
    -------
    pandas.DataFrame
        normalise, seed, inertia, ari, share_matched (see `splits.clusters.agreement`),
        smallest_n_test, largest_n_test.
    """
    rows = []
    for is_normalised in (True, False):
        for seed in seeds:
            other = buckets(train, test, k, seed, is_normalised)
            same = agreement(np.concatenate([other.train, other.test]), of_query)
            n_test = other.sizes["n_test"]
            row = {
                "normalise": is_normalised,
                "seed": seed,
                "inertia": other.inertia,
                "ari": same["ari"],
                "share_matched": same["share_matched"],
                "smallest_n_test": n_test.min(),
                "largest_n_test": n_test.max(),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def stability_sentences(stability: pd.DataFrame, p: Parameters) -> list[str]:
    """Return how far other seeds of k-means find our buckets again, in a sentence; or none.

    Parameters
    ----------
    stability
        Of `other_buckets`.
    p
        Parameters of the notebook: its seed and whether it normalises.
    """
    is_other = stability["seed"] != p.seed
    others = stability[is_other & (stability["normalise"] == p.normalise)]
    if others.empty:
        return []
    least, most = others["ari"].min(), others["ari"].max()
    share = others["share_matched"].mean()
    found = (
        f"Other seeds of k-means agree with our buckets at ARI {least:.2f} to {most:.2f}; on "
        f"average {share:.0%} of the queries are in the same bucket."
    )
    if share >= FOUND_AGAIN:
        return [found]
    return [found, "By the criterion above, Δ is that of one division of the queries: see `seed`."]


def design_page(design: pd.DataFrame, sizes: pd.DataFrame, fold_size: int) -> pd.DataFrame:
    """Return the training runs of a design, a row for each system, for the page.

    Parameters
    ----------
    design
        Of the plan: model, left_out, seed.
    sizes
        Of `bucket_sizes`.
    fold_size
        Training queries of each fold; 0: all outside the bucket.

    Returns
    -------
    pandas.DataFrame
        model, excluded bucket, training queries, seeds; the last three in words.
    """
    outside = sizes["n_train"].sum() - sizes["n_train"]
    queries = f"{outside.min():,} to {outside.max():,}"
    if fold_size:
        queries = f"{fold_size:,}"
    rows = []
    for model, runs in design.groupby("model", sort=False):
        row = {
            "model": model,
            "excluded bucket": ", ".join(map(str, runs["left_out"].unique())),
            "training queries": queries,
            "seeds": ", ".join(map(str, runs["seed"].unique())),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def averages(values: pd.DataFrame) -> pd.DataFrame:
    """Return values of a ReSTTest design in regimes, three times, told apart by `average`.

    micro: every query counts the same. macro: every bucket does. constant: the macro average as if
    no training made a difference, which is what comes from the weights alone. macro minus constant
    is what comes from the models.
    """
    parts = [
        in_regimes(values).assign(average="micro"),
        in_regimes(macro(values)).assign(average="macro"),
        in_regimes(macro(constant(values))).assign(average="constant"),
    ]
    return pd.concat(parts, ignore_index=True)


def macro(values: pd.DataFrame) -> pd.DataFrame:
    """Return values weighted so that their plain means are macro averages.

    First of each fold, then of the folds. A query of a small stratum counts more than one of a
    large stratum. Both sides have such weights, and not the same, so a macro effect moves even
    where no training makes a difference: see `constant`. The bootstrap holds them fixed.

    Parameters
    ----------
    values
        Those of a leave-one-out design, see `splits.resttest.sides`.
    """
    sided = sides(values)
    labels = [name for name in sided if name not in APART]
    n_folds = _of_group(sided, labels, "nunique")
    n_queries = _of_group(sided, [*labels, "left_out"], "size")
    n_of_side = _of_group(sided, [*labels, "left_out", "side"], "size")
    is_in = sided["side"] == "in"
    # whose values of a query are averaged later
    n_models = np.where(is_in, n_folds - 1, 1)
    sided["value"] = sided["value"] * n_models * n_queries / (n_folds * n_of_side)
    return sided


def _of_group(values: pd.DataFrame, labels: list[str], statistic: str) -> pd.Series:
    """Return a statistic of the folds of the rows that share a row's labels."""
    return values.groupby(labels, dropna=False)["left_out"].transform(statistic)


def constant(values: pd.DataFrame) -> pd.DataFrame:
    """Return values as if no training made a difference.

    Every query has its mean in-value under all models.

    Parameters
    ----------
    values
        Those of a leave-one-out design, see `splits.resttest.sides`.
    """
    sided = sides(values)
    labels = [name for name in sided if name not in APART]
    sided["value"] = sided["value"].where(sided["side"] == "in")
    of_query = sided.groupby([*labels, "query_id"], dropna=False)["value"]
    sided["value"] = of_query.transform("mean")
    return sided


def lower_sentences(by_bucket: pd.DataFrame, measure: str) -> list[str]:
    """Return for how many buckets each system is less effective without them, a sentence each.

    Parameters
    ----------
    by_bucket
        Effects by bucket, model and measure.
    measure
        The one to look at.
    """
    sentences = []
    of_measure = by_bucket[by_bucket["measure"] == measure]
    for model, rows in of_measure.groupby("model", sort=False):
        n_lower = (rows["delta"] < 0).sum()
        sentences.append(
            f"{model} has a lower {measure} without the bucket in {n_lower} of {len(rows)} buckets."
        )
    return sentences


def excludes_zero_sentences(table: pd.DataFrame, measure: str) -> list[str]:
    """Return which intervals of the micro average exclude 0, a sentence for each system.

    Parameters
    ----------
    table
        Effects by model, average and measure.
    measure
        The one to look at.
    """
    is_micro = table["average"] == "micro"
    sentences = []
    for row in table[is_micro & (table["measure"] == measure)].itertuples():
        if np.isnan(row.low):
            says = "all queries change by the same"
        elif row.low > 0 or row.high < 0:
            says = "the interval excludes 0"
        else:
            says = "the interval does not exclude 0"
        change = spelled(row.delta, row.low, row.high)
        sentences.append(f"{row.model}: Δ of {measure} is {change}; {says}.")
    return sentences


def beside_page(beside: pd.DataFrame) -> pd.DataFrame:
    """Return rows of `less_constant` beside the published ones, for the page."""
    in_words = beside["average"].str.replace("less", "minus")
    page = with_interval(beside.assign(average=in_words))
    columns = ["model", "average", "measure", "delta", "published", "verdict"]
    return page[columns].rename(columns=NAMES)


def boundary_sentences(halves: Effects, measure: str) -> list[str]:
    """Return whether each system loses less near a boundary of its bucket than inside.

    Parameters
    ----------
    halves
        Effects by place ("near a boundary", "inside"), model and measure.
    measure
        The one to look at.
    """
    contrast = halves.contrast("place", [("near a boundary", "inside")])
    sentences = []
    for row in contrast[contrast["measure"] == measure].itertuples():
        answer = "it is undecided whether the loss is smaller near a boundary"
        if row.low > 0:
            answer = "the loss is smaller near a boundary"
        elif row.high < 0:
            answer = "the loss is larger near a boundary"
        change = spelled(row.difference, row.low, row.high, "percentage points of Δ")
        sentences.append(f"{row.model}: {answer} (Δ there minus Δ inside: {change}).")
    return sentences


def answer_sentences(cosines: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Return what the buckets are: how far excluding one moves its queries, and what they follow.

    Parameters
    ----------
    cosines
        Of each test query to its nearest training query, in both regimes.
    found
        Of `attributes`.
    """
    inside, outside = cosines[[*REGIMES]].mean()
    best = found.iloc[0]
    name = IN_WORDS.get(best["attribute"], best["attribute"])
    return [
        "Excluding a bucket lowers the mean cosine to the nearest training query from "
        f"{inside:.2f} to {outside:.2f}.",
        f"Of the known attributes {name} ({best['kind']}) agrees most with the buckets: adjusted "
        f"mutual information {best['ami']:.2f}, where 1 is the maximum.",
    ]


def less_constant(table: Effects) -> Effects:
    """Return deltas of `averages` as they can be judged.

    Returns
    -------
    Effects
        The rows of micro, then those of macro minus constant.
    """
    micro = table[table["average"] == "micro"]
    macro_rows = table[table["average"] == "macro"]
    contrast = table.contrast("average", [("macro", "constant")])
    adjusted = macro_rows.assign(average="macro less constant")
    estimates = contrast[["difference", "low", "high"]]
    adjusted[["delta", "low", "high"]] = estimates.to_numpy()
    adjusted = Effects.of(
        adjusted,
        adjusted[DRAWS].iloc[0].by,
        [*REGIMES, "delta"],
        macro_rows.drawn("first"),
        macro_rows.drawn("second"),
        contrast.drawn(),
    )
    return pd.concat([micro, adjusted], ignore_index=True)

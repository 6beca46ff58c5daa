"""Lupart et al. (ECIR 2023): what notebooks 04 and 07 compute, their released MS-Shift queries, and the published losses.

Clusters bear the paper's names: topics C0 to C4, question words wha, how, who, lengths short and long.
"""

import itertools
import re
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.data import released
from interextra.data.queries import Part
from interextra.evaluation import indicators
from interextra.evaluation.indicators import Nearness
from interextra.ground.errors import InputError, offenders
from interextra.models.model import Model
from interextra.models.run import Run
from interextra.models.vectors import Vectors
from interextra.papers import published, zhan
from interextra.papers.plans import Plan, design, plans, pool, recipe, systems
from interextra.splits import attributes, clusters
from interextra.splits.shift import Shift
from interextra.splits.topics import Topics

ENCODERS = ("dense", "splade", "colbert")  # architectures that encode a query by itself


@plans("04_ms_shift_clusters")
def ms_shift(p: dict) -> Plan:
    """Each system without each cluster of each shift, the control for the dense one only, and the variants.

    `design`: shift, model, left_out, seed, run. `shifts`: name → Shift, the control `chance` last. `topics`, `real`.
    """
    shifts, made, rows = shifts_of(p), systems(p), []
    asked = [(name, *system) for name in shifts for system in made.items()]
    chance = read_shift(p["control"])[0]
    asked = [(name, model, one) for name, model, one in asked if name != chance or one.architecture == "dense"]
    asked += [(name, model, recipe(p, text)) for name, model, text in (read_variant(v, shifts) for v in p["variants"])]
    for shift, model, one in asked:
        for left_out, seed in itertools.product(shifts[shift].names, p["seeds"]):
            train = Part(of=shifts[shift], part=f"without-{left_out}")
            test = (Part(of=shifts[shift], part="held-out"),)
            run = Run(model=Model.of(one, train, seed), queries=test, depth=p["depth"])
            rows.append({"shift": shift, "model": model, "left_out": left_out, "seed": seed, "run": run})
    plan = Plan(shifts=shifts, topics=topics_of(p), design=design(rows), chance=chance)
    plan.real = zhan.real_vectors(p["real_encoder"]) if p["real_encoder"] else None
    return plan


@plans("07_indicators")
def indication(p: dict) -> Plan:
    """The runs of notebook 04 without its variants, and where each test query lies in the models' own query spaces.

    `design` has the column `near` besides: a Nearness cell, None for a system that encodes no query by itself.
    """
    plan = ms_shift(p | {"variants": []})
    near = [
        Nearness(model=run.model, queries=run.queries, k=p["neighbours"])
        if run.model.recipe.architecture in ENCODERS
        else None
        for run in plan.design["run"]
    ]
    plan.design = plan.design.assign(near=near)
    return plan


def shifts_of(p: dict) -> dict[str, Shift]:
    """Name of each shift → its cell; `shifts` holds an attribute, `NAME=ATTRIBUTE`, or `topics`.

    `/A/B/C` behind the attribute keeps these clusters only. The control comes last.
    """
    found = {}
    for text in [*p["shifts"], *filter(None, [p["control"]])]:
        name, spec, kept = read_shift(text)
        by = topics_of(p) if spec == "topics" else spec
        options = {"n_test": p["n_test"], "train_size": p["train_size"], "seed": p["seed"]}
        found[name] = Shift(pool=pool(p), by=by, clusters=tuple(kept), **options)
    return found


def read_shift(text: str) -> tuple[str, str, list[str]]:
    """(name, attribute, clusters) of a shift as it is written in the parameters.

    >>> read_shift("kind=column:qtype/causes/stages"), read_shift("length:limit=9")
    (('kind', 'column:qtype', ['causes', 'stages']), ('length', 'length:limit=9', []))
    """
    spec, *kept = text.split("/")
    name, _, rest = spec.partition("=")
    return (name, rest, kept) if rest and ":" not in name else (spec.partition(":")[0], spec, kept)


def topics_of(p: dict) -> Topics:
    """Topic clusters by the vectors of the encoder `topic_encoder`, with the switches of the notebook."""
    names = ("choose", "merge", "order", "stop")
    if len(p["topic_switches"]) != len(names):
        raise InputError(f"parameter 'topic_switches': give {len(names)}, one each of {', '.join(names)}")
    switches = dict(zip(names, p["topic_switches"], strict=True)) | {"normalise": p["normalise"], "seed": p["seed"]}
    sizes = {"n_topics": p["n_topics"], "k": p["native_clusters"], "target": p["topic_size"]}
    return Topics(vectors=Vectors(encoder=p["topic_encoder"], train=pool(p)), **sizes, **switches)


def read_variant(text: str, shifts: dict[str, Shift]) -> tuple[str, str, str]:
    """(shift, model, recipe) of a variant, written SHIFT | MODEL | RECIPE."""
    shift, model, name = ([part.strip() for part in text.split("|")] + ["", ""])[:3]
    if shift not in shifts or not name:
        raise InputError(f"variant {text!r}: write SHIFT | MODEL | RECIPE; shifts are {', '.join(shifts)}")
    return shift, model, name


# Shift → cluster → name of its released file.
CLUSTERS = {
    "topics": {f"C{number}": str(number) for number in range(5)},
    "wh-words": {name: name for name in ("wha", "how", "who")},
    "length": {name: name for name in ("short", "long")},
}
Rule = Callable[[str], list[str]]


def released_queries(folder: str | Path, shift: str) -> pd.DataFrame:
    """cluster, query_id, text of a shift's released evaluation queries, as in the files; a query may be in two."""
    if shift not in CLUSTERS:
        raise InputError(f"the release has no shift {shift!r}; use one of {', '.join(CLUSTERS)}")
    parts = [released.read_shift(folder, file)[0].assign(cluster=name) for name, file in CLUSTERS[shift].items()]
    return pd.concat(parts, ignore_index=True)[["cluster", "query_id", "text"]]


def rules(shift: str, whole_words: bool = False) -> dict[str, Rule]:
    r"""Readings of a shift's rule: name → function from a query's text to the clusters that it falls into.

    wh-words: `contains` gives every cluster of which the lower-cased query holds a word; `contains, case kept` doesn't
    lower the case; `how > who > wha` and so on give the first of them only. With `whole_words` letters inside another
    word don't count. length: `spaces` counts single spaces; with `whole_words`, `split` and `\w+` count words.

    >>> [rules("wh-words")[name]("what a show") for name in ("contains", "wha > who > how")]
    [['how', 'wha'], ['wha']]
    """
    if shift == "length" and not whole_words:
        return {"spaces": lambda text: [attributes.length(text)]}
    if shift == "length":
        tokens = lambda text: " ".join(re.findall(r"\w+", text))  # noqa: E731
        return {
            "split": lambda text: [attributes.length(text, whole=True)],
            r"\w+": lambda text: [attributes.length(tokens(text), whole=True)],
        }
    if shift != "wh-words":
        raise InputError(f"the shift {shift!r} is not made by a rule; use wh-words or length")
    contains = lru_cache(maxsize=2**16)(partial(attributes.wh_words, whole=whole_words))  # asked once for each rule
    found = {"contains": lambda text: sorted(contains(text))}
    if not whole_words:
        found["contains, case kept"] = _case_kept
    for order in itertools.permutations(sorted(attributes.WH_WORDS)):
        found[" > ".join(order)] = partial(_first, contains, order)
    return found


def rule_agreement(folder: str | Path, whole_words: bool = False) -> pd.DataFrame:
    """How many released queries a rule puts into their released cluster (Lupart §3.1, wh-words and length).

    Of the six orders of precedence the one that agrees best is shown; `precedence_orders` has them all.

    Returns
    -------
    DataFrame[shift, rule, cluster, n_released, n_agree, n_differ], see `rules`. It tells which released queries a
    rule explains, not which queries of MS MARCO were passed over.
    """
    counts = pd.concat([_counts(folder, shift, whole_words) for shift in ("length", "wh-words")], ignore_index=True)
    best = precedence_orders(folder, whole_words)["order"].iloc[0]
    return counts[~counts["rule"].str.contains(" > ") | (counts["rule"] == best)].reset_index(drop=True)


def precedence_orders(folder: str | Path, whole_words: bool = False) -> pd.DataFrame:
    """The six orders of precedence of question words: order, n_agree and n_differ over all three released files, and
    n_agree in each (wha, how, who); the best first.

    No order can explain the files: each holds queries with words of another cluster, whichever comes first.
    """
    counts = _counts(folder, "wh-words", whole_words)
    counts = counts[counts["rule"].str.contains(" > ")].rename(columns={"rule": "order"})
    table = counts.groupby("order", sort=False)[["n_agree", "n_differ"]].sum().reset_index()
    each = counts.pivot(index="order", columns="cluster", values="n_agree")[list(CLUSTERS["wh-words"])]
    table = table.join(each.rename_axis(columns=None), on="order")
    return table.sort_values("n_agree", ascending=False, kind="stable", ignore_index=True)


def differing(folder: str | Path, shift: str, rule: str, whole_words: bool = False, n: int = 3) -> pd.DataFrame:
    """Released queries that a rule (see `rules`) doesn't put into their cluster, the first `n` of each file.

    Returns DataFrame[cluster, query_id, text, label], `label` what the rule says, "" for no cluster.
    """
    known = rules(shift, whole_words)
    if rule not in known:
        raise InputError(f"{shift} has no rule {rule!r}; there are {offenders(known, 12)}")
    queries = released_queries(folder, shift)
    first = queries[~_agree(queries, known[rule])].groupby("cluster", sort=False).head(n)
    labels = [", ".join(known[rule](text)) for text in first["text"]]
    return first.assign(label=labels).reset_index(drop=True)


def capitals(folder: str | Path, queries: pd.DataFrame) -> pd.DataFrame:
    """Did the release lower the case? A question word that only stands there with a capital would show it.

    Parameters
    ----------
    queries : query_id, text of training queries of MS MARCO; those of the released files are left out.

    Returns
    -------
    DataFrame[cluster, n_released, n_capital, n_other, n_other_capital, expected, p_value]: released queries, those
    that hold the cluster's words only once lower-cased, the same for the other queries that fall into the cluster, how
    many such the released file should have by their share, and the chance to find no more than it has (binomial).
    """
    there = released_queries(folder, "wh-words")
    others, rows = queries[~queries["query_id"].isin(there["query_id"])], []
    for cluster in CLUSTERS["wh-words"]:
        n, k = _capital(there.loc[there["cluster"] == cluster, "text"], cluster)
        n_other, k_other = _capital(others["text"], cluster)
        if not n_other:
            raise InputError(f"none of {len(others)} queries outside the release falls into {cluster}; give more")
        share = k_other / n_other
        rows.append((cluster, n, k, n_other, k_other, n * share, float(stats.binom.cdf(k, n, share))))
    names = ["cluster", "n_released", "n_capital", "n_other", "n_other_capital", "expected", "p_value"]
    return pd.DataFrame(rows, columns=names)


def topic_agreement(ours: pd.Series, folder: str | Path) -> tuple[dict, pd.DataFrame]:
    """Our topics against the released ones, on the released queries that we know (Lupart §3.1, topics).

    Parameters
    ----------
    ours : query_id → name of our topic, "" for none.

    Returns
    -------
    dict : n_released, n_known (in `ours`), n_in_ours (in a topic of ours), share (of the known), and over those in a
        topic ari, ami (both 0 by chance), nmi and share_matched of `resttest.agreement`.
    DataFrame[cluster, topic, n_released, n_known, n_in_ours, n_matched, recall, precision] : `topic` is ours that was
        matched (one to one, Hungarian method; "" where we have fewer), recall its share of the cluster's known
        queries, precision the cluster's share of the released queries in it. What it holds besides isn't counted.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    if wrong := [label for label in ours if not isinstance(label, str)]:
        raise InputError(f'topics: a label is a string, "" for none, not {offenders(wrong)}; -1 would be a topic')
    topics, known = _known_topics(ours, folder)
    inside = known[known["ours"] != ""]
    if inside.empty:
        raise InputError(f"topics: none of {len(known)} released queries is in a topic of ours; all are others")
    same = resttest.agreement(inside["ours"], inside["cluster"])
    found = {"n_released": len(topics), "n_known": len(known), "n_in_ours": len(inside)}
    found |= {"share": len(inside) / len(known), **{name: same[name] for name in ("ari", "nmi", "share_matched")}}
    found["ami"] = float(adjusted_mutual_info_score(inside["cluster"], inside["ours"]))
    rows = []
    for cluster in CLUSTERS["topics"]:
        topic = same["match"].get(cluster, "")
        of_cluster, of_topic = known[known["cluster"] == cluster], inside[inside["ours"] == topic]
        hits = int((of_topic["cluster"] == cluster).sum())
        rows.append(
            {
                "cluster": cluster, "topic": topic, "n_released": int((topics["cluster"] == cluster).sum()),
                "n_known": len(of_cluster), "n_in_ours": int((of_cluster["ours"] != "").sum()), "n_matched": hits,
                "recall": _ratio(hits, len(of_cluster)), "precision": _ratio(hits, len(of_topic)),
            }
        )  # fmt: skip
    return found, pd.DataFrame(rows)


def partition_agreement(native: pd.Series, folder: str | Path, seed: int = 0, n_permutations: int = 20) -> dict:
    """Do the clusters of a finer partition (the k=100 native ones) lie inside the released topics?

    Parameters
    ----------
    native : query_id → native cluster.

    Returns
    -------
    dict with n_known, n_clusters, homogeneity (1: each inside one topic), purity (queries in their cluster's most
    frequent topic), ami, and homogeneity_chance, purity_chance: means over permutations of the clusters, as many small
    clusters are purer than few large ones.
    """
    from sklearn.metrics import adjusted_mutual_info_score, homogeneity_score

    _, known = _known_topics(native, folder)
    (topic, _), (cluster, names) = pd.factorize(known["cluster"]), pd.factorize(known["ours"])

    def purity(clusters):
        counts = np.zeros((len(names), topic.max() + 1), int)
        np.add.at(counts, (clusters, topic), 1)
        return float(counts.max(axis=1).sum() / len(topic))

    rng = np.random.default_rng(seed)
    drawn = [rng.permutation(cluster) for _ in range(n_permutations)]
    return {
        "n_known": len(known), "n_clusters": len(names), "homogeneity": float(homogeneity_score(topic, cluster)),
        "purity": purity(cluster), "ami": float(adjusted_mutual_info_score(topic, cluster)),
        "homogeneity_chance": float(np.mean([homogeneity_score(topic, one) for one in drawn])),
        "purity_chance": float(np.mean([purity(one) for one in drawn])),
    }  # fmt: skip


def released_jaccard(folder: str | Path) -> pd.DataFrame:
    """Weighted Jaccard of each cluster and the other clusters of its shift, on the released evaluation queries.

    The fewer queries, the fewer words in common: compare values of samples of one size only, and their order with care.

    Returns
    -------
    DataFrame[shift, cluster, jaccard, n_queries, n_words, authors]: `n_words` different words of the cluster;
    `authors` is the value of the release's notebook for whole clusters (topics only).
    """
    table = published.load("lupart", "release-jaccard")
    authors, rows = dict(zip(table["cluster"], table["scaled"], strict=True)), []
    for shift, names in CLUSTERS.items():
        queries = released_queries(folder, shift)
        for name in names:
            inside = queries["cluster"] == name
            texts = queries.loc[inside, "text"].tolist()
            others = queries[~inside].drop_duplicates("query_id")["text"].tolist()
            words = {word for text in texts for word in text.lower().split()}
            rows.append((shift, name, indicators.jaccard(texts, others), len(texts), len(words), authors.get(name)))
    frame = pd.DataFrame(rows, columns=["shift", "cluster", "jaccard", "n_queries", "n_words", "authors"])
    return frame.astype({"authors": float})


def jaccard_order(table: pd.DataFrame) -> dict:
    """Do `jaccard` and `authors` of `released_jaccard` order the topics alike: n, kendall, same_order, ratio (mean of
    jaccard / authors: the smaller sample has fewer words in common)."""
    both = table.dropna(subset=["jaccard", "authors"])
    orders = [both.sort_values(name)["cluster"].tolist() for name in ("jaccard", "authors")]
    tau = float(stats.kendalltau(both["jaccard"], both["authors"]).statistic)
    ratio = float((both["jaccard"] / both["authors"]).mean())
    return {"n": len(both), "kendall": tau, "same_order": orders[0] == orders[1], "ratio": ratio}


def _counts(folder: str | Path, shift: str, whole_words: bool) -> pd.DataFrame:
    """rule_agreement of one shift, with all six orders of precedence."""
    queries, rows = released_queries(folder, shift), []
    for name, rule in rules(shift, whole_words).items():
        agree = _agree(queries, rule).groupby(queries["cluster"], sort=False).agg(["size", "sum"])
        rows += [(shift, name, cluster, n, k, n - k) for cluster, n, k in agree.itertuples(name=None)]
    return pd.DataFrame(rows, columns=["shift", "rule", "cluster", "n_released", "n_agree", "n_differ"])


def _case_kept(text: str) -> list[str]:
    return sorted(name for name, signs in attributes.WH_WORDS.items() if any(sign in text for sign in signs))


def _first(contains: Rule, order: tuple[str, ...], text: str) -> list[str]:
    found = contains(text)
    return [name for name in order if name in found][:1]


def _agree(queries: pd.DataFrame, rule: Rule) -> pd.Series:
    pairs = zip(queries["cluster"], queries["text"], strict=True)
    return pd.Series([cluster in rule(text) for cluster, text in pairs], index=queries.index)


def _capital(texts: pd.Series, cluster: str) -> tuple[int, int]:
    """Texts that hold a word of the cluster once lower-cased, and those of them that don't as they are."""
    held = [text for text in texts if cluster in attributes.wh_words(text)]
    return len(held), sum(cluster not in _case_kept(text) for text in held)


def _known_topics(ours: pd.Series, folder) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The released topic queries, and those that `ours` has, with our label as text in `ours`."""
    if ours.index.has_duplicates:
        raise InputError(f"topics: query_id given twice: {offenders(ours.index[ours.index.duplicated()])}")
    topics = released_queries(folder, "topics")
    known = topics[topics["query_id"].isin(ours.index)]
    if known.empty:
        raise InputError(f"topics: none of {len(topics)} released queries is among ours; index them by query_id")
    return topics, known.assign(ours=ours.reindex(known["query_id"]).astype(str).to_numpy())


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")

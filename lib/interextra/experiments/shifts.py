"""Lupart et al. (ECIR 2023): what notebooks 04 and 07 compute, the released MS-Shift queries, and the published losses.

Clusters bear the paper's names: topics C0 to C4, question words wha, how, who, lengths short and long. A loss is
RelLoss, (Avg In - Out) / Avg In; for ASL, where lower is better, a negative value is a loss.
"""

import itertools
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from interextra.data import released
from interextra.data.load import data_folder
from interextra.data.queries import Part
from interextra.evaluation.indicators import Nearness, jaccard
from interextra.experiments import zhan
from interextra.experiments.plans import Plan, parts_of, plans, pool, recipe, systems, trainings
from interextra.ground.cells import Store
from interextra.ground.effects import interval, ratio
from interextra.ground.errors import InputError, offenders
from interextra.models.chain import model_of
from interextra.models.dense import LABEL as DENSE
from interextra.models.recipe import Recipe
from interextra.models.run import Run
from interextra.models.vectors import Vectors
from interextra.papers import published
from interextra.papers.claims import COUNTS, judged
from interextra.splits import attributes
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.shift import Shift
from interextra.splits.topics import Topics, topics

ENCODERS = ("dense", "splade", "colbert")  # architectures that encode a query by itself

CLUSTERS = {  # shift → cluster → name of its released file
    "topics": {f"C{number}": str(number) for number in range(5)},
    "wh-words": {name: name for name in ("wha", "how", "who")},
    "length": {name: name for name in ("short", "long")},
}
MODELS = {  # the paper's → ours
    "BM25": "BM25",
    "monoBERT": "Reranker",
    "ColBERT": "ColBERT",
    "SPLADE": "SPLADE",
    "bi-encoder": DENSE,
}
Rule = Callable[[str], list[str]]


@plans("04_ms_shift_clusters")
def ms_shift(p: dict) -> Plan:
    """Each system without each cluster of each shift (`design`), also under the control, and the variants.

    `design`, `control`, `variants`: shift, model, left_out, seed, run. `shifts`: name → Shift, the control's last. Of
    the shifts that `dense_only` names only the dense system and BM25 are trained. Beside them `pool`, `topics`, and
    with `real_encoder` the vectors `real` and the folder of the files `released`.
    """
    shifts, made = shifts_of(p), systems(p)
    chance = read_shift(p["control"])[0]

    def runs(asked: list[tuple[str, str, Recipe]]) -> pd.DataFrame:
        rows = []
        for shift, model, one in asked:
            test = (Part(of=shifts[shift], part="held-out"),)
            for left_out, seed in itertools.product(shifts[shift].names, trainings(p, one)):
                trained = model_of(one, Part(of=shifts[shift], part=f"without-{left_out}"), seed)
                run = Run(model=trained, queries=test, depth=p["depth"])
                rows.append((shift, model, left_out, seed, run))
        return pd.DataFrame(rows, columns=["shift", "model", "left_out", "seed", "run"])

    few = {model for model, one in made.items() if one.architecture in ("bm25", "dense")}
    asked = [
        (shift, *system)
        for shift in shifts
        for system in made.items()
        if shift not in p["dense_only"] or system[0] in few
    ]
    main, control = (runs([one for one in asked if (one[0] == chance) is wanted]) for wanted in (False, True))
    variants = [parts_of(text, "SHIFT | MODEL | RECIPE") for text in p["variants"]]
    if unknown := {shift for shift, _, _ in variants} - shifts.keys():
        raise InputError(f"parameter 'variants': no shift {offenders(unknown)}; shifts are {', '.join(shifts)}")
    variants = runs([(shift, model, recipe(p, text)) for shift, model, text in variants])
    plan = Plan(pool=pool(p), shifts=shifts, topics=topics_of(p), design=main, control=control, variants=variants)
    plan.real = zhan.real_vectors(p["real_encoder"]) if p["real_encoder"] else None
    plan.released = data_folder() / "ms-marco-shift" if p["real_encoder"] else None
    return plan


@plans("07_indicators")
def indication(p: dict) -> Plan:
    """The runs of notebook 04 without its variants, and where each test query lies in the models' own query spaces.

    `near`: as `design` and `control` together, but for Nearness cells instead of runs, of the systems that encode a
    query by itself.
    """
    plan = ms_shift(p | {"variants": []})
    near = pd.concat([plan.design, plan.control], ignore_index=True)
    if DENSE not in set(near["model"]):
        raise InputError("parameter 'recipes': R is measured in the dense model's space; give a dense recipe, too")
    near = near[[run.model.recipe.architecture in ENCODERS for run in near["run"]]]
    cells = [Nearness(model=run.model, queries=run.queries, k=p["neighbours"]) for run in near["run"]]
    plan.near = near.drop(columns="run").assign(near=cells)
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

    >>> read_shift("kind=column:qtype/causes/stages"), read_shift("length:limit=9"), read_shift("python:os:getcwd")[0]
    (('kind', 'column:qtype', ['causes', 'stages']), ('length', 'length:limit=9', []), 'getcwd')
    """
    spec, *kept = text.split("/")
    name, _, rest = spec.partition("=")
    short = spec.rpartition(":")[2] if spec.startswith("python:") else spec.partition(":")[0]
    return (name, rest, kept) if rest and ":" not in name else (short, spec, kept)


def topics_of(p: dict) -> Topics:
    """Topic clusters by the vectors of the encoder `topic_encoder`, with the switches of the notebook."""
    names = ("choose", "merge", "order", "stop")
    if len(p["topic_switches"]) != len(names):
        raise InputError(f"parameter 'topic_switches': give {len(names)}, one each of {', '.join(names)}")
    switches = dict(zip(names, p["topic_switches"], strict=True)) | {"normalise": p["normalise"], "seed": p["seed"]}
    sizes = {"n_topics": p["n_topics"], "k": p["native_clusters"], "target": p["topic_size"]}
    return Topics(vectors=Vectors(encoder=p["topic_encoder"], train=pool(p)), **sizes, **switches)


def describe(store: Store, shifts: dict[str, Shift], vectors: np.ndarray) -> pd.DataFrame:
    """What is in the clusters of all shifts; `vectors` float[n, d] of the pool's queries say what is typical.

    Returns shift, cluster, n_queries, n_train, n_test, median_words, words (to tell it from the others of its shift),
    and typical (the three queries nearest to its mean vector).
    """
    rows = []
    for shift, cell in shifts.items():
        texts, label = cell.pool.frame()["text"], pd.read_parquet(store[cell] / "labels.parquet")["cluster"]
        inside = label != ""
        words = distinctive_words(texts[inside].tolist(), label[inside].tolist())
        for row in pd.read_csv(store[cell] / "sizes.csv", dtype={"cluster": str}).to_dict("records"):
            here = np.flatnonzero(label == row["cluster"])
            far = ((vectors[here] - vectors[here].mean(axis=0)) ** 2).sum(axis=1)
            typical = " | ".join(texts.iloc[here[np.argsort(far, kind="stable")[:3]]])
            made = {"median_words": texts.iloc[here].str.split().str.len().median(), "typical": typical}
            rows.append({"shift": shift} | row | made | {"words": " ".join(words[row["cluster"]])})
    return pd.DataFrame(rows)


def switch_table(vectors: np.ndarray, options: dict, changes: dict[str, dict]) -> pd.DataFrame:
    """Topics under one changed option after the other, compared with those under `options` of `splits.topics.topics`.

    Returns change, share_kept (queries of a topic that are in any topic there), ari and share_matched over these, and
    spread (of the chosen centroids; not comparable where vectors are normalised).
    """
    made, rows = topics(vectors, **options), []
    for name, change in changes.items():
        other = topics(vectors, **options | change)
        both = (made.topic >= 0) & (other.topic >= 0)
        same = agreement(other.topic[both], made.topic[both]) if both.any() else {}
        share = both.sum() / (made.topic >= 0).sum()
        rows.append((name, share, same.get("ari"), same.get("share_matched"), other.spread))
    return pd.DataFrame(rows, columns=["change", "share_kept", "ari", "share_matched", "spread"])


def worse(measure: str) -> int:
    """1 where a lower value is worse, -1 where a higher one is (ASL)."""
    return -1 if measure.startswith("ASL") else 1


def exceptions(matrix: pd.DataFrame) -> pd.DataFrame:
    """How many models that had a cluster in training are worse on it than the one that had not (§5.1: in general none).

    `matrix`: shift, model, measure, left_out, stratum (the cluster that is tested), value. Returns shift, model,
    measure, n_comparisons (k (k - 1) for k clusters), n_exceptions.
    """
    system, is_out = ["shift", "model", "measure"], matrix["left_out"] == matrix["stratum"]
    pairs = matrix[~is_out].merge(matrix[is_out], on=[*system, "stratum"], suffixes=("", "_out"))
    below = pairs["measure"].map(worse) * (pairs["value"] - pairs["value_out"]) < 0
    counted = pairs.assign(below=below).groupby(system, sort=False)["below"].agg(["size", "sum"])
    return counted.set_axis(["n_comparisons", "n_exceptions"], axis=1).reset_index()


def published_losses() -> pd.DataFrame:
    """Tables 2 and 3 as fractions, our model names: shift, cluster, model, loss, in, out (RR@10), rounding of the loss.

    BM25 isn't trained: its one score is `out`, and it has no published loss.

    >>> published_losses().query("cluster == 'C1' and model == 'ColBERT'")["loss"].item()
    0.085
    """
    cells = pd.concat([published.load("lupart", number) for number in (2, 3)])
    cells["shift"] = cells["collection"].str.removeprefix("MS-Shift ")
    cells["model"] = cells["model"].map(MODELS)
    cells["quantity"] = cells["quantity"].fillna("Out").map({"Rel Loss": "loss", "Avg In": "in", "Out": "out"})
    wide = cells.pivot(index=["shift", "cluster", "model"], columns="quantity", values="scaled")
    places = [(shift, name, model) for shift in CLUSTERS for name in CLUSTERS[shift] for model in MODELS.values()]
    wide = wide.loc[places].round(6)
    rounding = cells.loc[cells["quantity"] == "loss", "rounding"].max()
    return wide[["loss", "in", "out"]].rename_axis(columns=None).reset_index().assign(rounding=rounding)


def published_means() -> pd.DataFrame:
    """Mean published loss over the clusters of a shift, as `published.beside` takes it: shift, model, measure, scaled,
    rounding, and the smallest and the largest loss of a cluster."""
    of = published_losses().dropna(subset="loss").groupby(["shift", "model"], sort=False)
    named = {"scaled": ("loss", "mean"), "rounding": ("rounding", "max"), "smallest": ("loss", "min")}
    return of.agg(**named, largest=("loss", "max")).reset_index().assign(measure="RR@10")


def order_claims(means: pd.DataFrame, comparable: pd.Series) -> pd.DataFrame:
    """The findings of §5.1 on the order of the architectures, as differences of mean losses over the clusters.

    `means`: rows of `ground.effects` with the effect `loss`, sides in and out, means over clusters; one a shift and
    model, of one measure. `comparable`: bool, of `claims.gate`. Returns shift, finding, estimate, low, high, verdict,
    see `claims.judged`: a finding says that its estimate is above 0. Where it names several models, each difference
    from one that can be compared must be; about absent ones nothing is said.
    """
    drawn, found = {"loss": means.drawn(), "out": means.drawn("second")}, []
    passing = dict(zip(zip(means["shift"], means["model"], strict=True), comparable, strict=True))
    places = means.assign(place=range(len(means))).groupby("shift", sort=False)
    for shift, part in places:
        at = dict(zip(part["model"], part["place"], strict=True))
        neural = [model for model in MODELS.values() if model in at and model != "BM25"]
        others = [(DENSE, model) for model in neural if model != DENSE]
        stated = [(f"{DENSE} loses most of the comparable", "loss", others)]
        for more, less in ((DENSE, "SPLADE"), ("SPLADE", "ColBERT"), ("SPLADE", "Reranker")):
            stated.append((f"{more} loses more than {less}", "loss", [(more, less)]))
        stated.append(("no comparable model below BM25 out of domain", "out", [(model, "BM25") for model in neural]))
        for finding, what, pairs in stated:
            if pairs and {model for pair in pairs for model in pair} <= at.keys():
                kept = [pair for pair in pairs if all(passing[shift, model] for model in pair)]
                value = np.column_stack([means[what], drawn[what]])  # [rows, 1 + n_boot]
                gaps = np.stack([value[at[first]] - value[at[second]] for first, second in kept or pairs])
                row = {"finding": finding, "estimate": gaps[:, 0], "draws": gaps[:, 1:], "kind": "above"}
                named = means.iloc[[at[model] for pair in kept or pairs for model in pair]]
                counts = {name: int(named[name].min()) for name in COUNTS}
                found.append({"shift": shift} | row | counts | {"gate": bool(kept)})
    return judged(found)


def same_shift(shifts: dict[str, Shift], means: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Do the shifts sort the queries alike? Agreement of each one with the first, beside what the dense system loses.

    `means`: as for `order_claims`. Returns shift, ami (adjusted mutual information on the queries that both put into a
    cluster), n_shared, and loss, low, high, n_queries, n_trainings of the dense system; a shift without it is left out.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    labels = {name: pd.read_parquet(store[cell] / "labels.parquet")["cluster"] for name, cell in shifts.items()}
    first, rows = next(iter(labels.values())), []
    for row in means[means["model"] == DENSE].to_dict("records"):
        own = labels[row["shift"]]
        both = (own != "") & (first != "")
        found = {
            "shift": row["shift"],
            "ami": adjusted_mutual_info_score(first[both], own[both]),
            "n_shared": both.sum(),
        }
        rows.append(found | {name: row[name] for name in ("loss", "low", "high", "n_queries", "n_trainings")})
    return pd.DataFrame(rows)


def variance_shares(means: pd.DataFrame) -> pd.DataFrame:
    """How much of the variance of the losses is between shifts and how much between systems (two-way, one value each).

    `means`: as for `order_claims`, the same models in every shift. Returns source, share, low, high: kind (of query),
    system, both (what neither explains alone, noise included), and kind - system.

    >>> from interextra.ground.effects import effects
    >>> values = pd.DataFrame({"shift": list("aabb"), "model": list("xyxy"), "query_id": "q"})
    >>> values["value"] = [0.1, 0.2, 0.5, 0.6]
    >>> table = effects(values, ["shift", "model"], n_boot=2).rename(columns={"mean": "loss"})
    >>> variance_shares(table)["share"].abs().round(2).tolist()
    [0.94, 0.06, 0.0, 0.88]
    """
    shape = means["shift"].nunique(), means["model"].nunique()
    in_order = np.lexsort([pd.factorize(means[name])[0] for name in ("model", "shift")])
    if len(means) != np.prod(shape) or means.duplicated(["shift", "model"]).any():
        raise InputError(f"variance: {len(means)} losses are not one each of {shape[0]} shifts and {shape[1]} systems")
    columns = np.column_stack([means["loss"], means.drawn()])[in_order].reshape(*shape, -1)  # [shifts, systems, 1 + n]
    kind, system = (ratio(columns.mean(axis=over).var(axis=0), columns.var(axis=(0, 1))) for over in (1, 0))
    shares = {"kind": kind, "system": system, "both": 1 - kind - system, "kind - system": kind - system}
    rows = [(name, share[0], *interval(share[1:])) for name, share in shares.items()]
    return pd.DataFrame(rows, columns=["source", "share", "low", "high"])


def released_queries(folder: Path, shift: str) -> pd.DataFrame:
    """cluster, query_id, text of a shift's released evaluation queries, as in the files; a query may be in two."""
    if shift not in CLUSTERS:
        raise InputError(f"the release has no shift {shift!r}; use one of {', '.join(CLUSTERS)}")
    parts = [released.read_shift(folder, file)[0].assign(cluster=name) for name, file in CLUSTERS[shift].items()]
    return pd.concat(parts, ignore_index=True)[["cluster", "query_id", "text"]]


def rules(shift: str) -> dict[str, Rule]:
    r"""Readings of a shift's rule: name → function from a query's text to the clusters that it falls into.

    wh-words: `contains` gives every cluster of which the lower-cased query holds a word, letters inside another word
    included; `case kept` doesn't lower the case; `whole words` takes words; `how > who > wha` and so on give the first
    that is contained. length: `spaces` counts single spaces; `split` and `\w+` count words.

    >>> [rules("wh-words")[name]("what a show") for name in ("contains", "wha > who > how", "whole words")]
    [['how', 'wha'], ['wha'], ['wha']]
    """
    if shift == "length":
        return {
            "spaces": lambda text: [attributes.length(text)],
            "split": lambda text: [attributes.length(text, whole=True)],
            r"\w+": lambda text: [attributes.length(" ".join(re.findall(r"\w+", text)), whole=True)],
        }
    if shift != "wh-words":
        raise InputError(f"the shift {shift!r} is not made by a rule; use wh-words or length")
    return {
        "contains": attributes.wh_words,
        "case kept": _case_kept,
        "whole words": lambda text: attributes.wh_words(text, whole=True),
    } | {" > ".join(order): _first(order) for order in itertools.permutations(sorted(attributes.WH_WORDS))}


def _case_kept(text: str) -> list[str]:
    return [name for name, signs in attributes.WH_WORDS.items() if any(sign in text for sign in signs)]


def _first(order: tuple[str, ...]) -> Rule:
    return lambda text: sorted(attributes.wh_words(text), key=order.index)[:1]


def rule_agreement(folder: Path) -> pd.DataFrame:
    """How many released queries are consistent with a rule: it puts them into their released cluster (Lupart §3.1).

    The length rule classifies: a query has one length. The rule of the question words is containment: 708 of the 19,487
    released queries hold words of two clusters or more, so that no order of precedence gives each query its own.
    Returns shift, rule (see `rules`), cluster, n_released, n_consistent, n_other; nothing is said of the queries of MS
    MARCO that were passed over.
    """
    rows = []
    for shift in ("length", "wh-words"):
        queries = released_queries(folder, shift)
        for name, rule in rules(shift).items():
            for cluster, found in _consistent(queries, rule).groupby(queries["cluster"], sort=False):
                rows.append((shift, name, cluster, len(found), found.sum(), (~found).sum()))
    return pd.DataFrame(rows, columns=["shift", "rule", "cluster", "n_released", "n_consistent", "n_other"])


def inconsistent(folder: Path, shift: str, rule: str) -> pd.DataFrame:
    """Released queries that a rule doesn't put into their cluster: cluster, query_id, text, label (what it says)."""
    known = rules(shift)
    if rule not in known:
        raise InputError(f"{shift} has no rule {rule!r}; there are {offenders(known, 12)}")
    queries = released_queries(folder, shift)
    found = queries[~_consistent(queries, known[rule])]
    return found.assign(label=[", ".join(known[rule](text)) for text in found["text"]])


def _consistent(queries: pd.DataFrame, rule: Rule) -> pd.Series:
    pairs = zip(queries["cluster"], queries["text"], strict=True)
    return pd.Series([cluster in rule(text) for cluster, text in pairs], queries.index, dtype=bool)


def opening_agreement(queries: pd.DataFrame) -> pd.DataFrame:
    """The rules for question words against the openings that a generated world knows (column `wh` of its queries).

    Returns shift, rule (letters or whole words), cluster, n_known (queries that open so), n_consistent, n_other.
    """
    of = {"what": "wha", "how": "how", "how many": "how", "how much": "how"}
    opens = queries["wh"].map(of | dict.fromkeys(attributes.WH_WORDS["who"], "who")).fillna("none")
    rows = []
    for rule, spec in (("letters", "wh-words"), ("whole words", "wh-words:whole=true")):
        same = pd.Series(attributes.labels(queries, spec), queries.index).replace("", "none") == opens
        for cluster in (*attributes.WH_WORDS, "none"):
            found = same[opens == cluster]
            rows.append(("wh-words", rule, cluster, len(found), found.sum(), (~found).sum()))
    return pd.DataFrame(rows, columns=["shift", "rule", "cluster", "n_known", "n_consistent", "n_other"])


def capitals(folder: Path, queries: pd.DataFrame) -> pd.DataFrame:
    """Did the release lower the case? A question word that only stands there with a capital would show it.

    `queries`: query_id, text of training queries of MS MARCO; those of the released files are left out. Returns
    cluster, n_released (that hold a word of it), n_capital (those of them that don't before they are lower-cased),
    n_other and n_other_capital (the same of the other queries), expected (capitals in the released file by their
    share), p_value (to find no more than there are, binomial).
    """
    there = released_queries(folder, "wh-words")
    others, rows = queries.loc[~queries["query_id"].isin(there["query_id"]), "text"], []
    for cluster in CLUSTERS["wh-words"]:
        counts = []
        for texts in (there.loc[there["cluster"] == cluster, "text"], others):
            held = [text for text in texts if cluster in attributes.wh_words(text)]
            counts += [len(held), sum(cluster not in _case_kept(text) for text in held)]
        n, k, n_other, k_other = counts
        if not n_other:
            raise InputError(f"none of {len(others)} queries outside the release falls into {cluster}; give more")
        share = k_other / n_other
        rows.append((cluster, *counts, n * share, float(stats.binom.cdf(k, n, share))))
    names = ["cluster", "n_released", "n_capital", "n_other", "n_other_capital", "expected", "p_value"]
    return pd.DataFrame(rows, columns=names)


def topic_agreement(ours: pd.Series, folder: Path) -> tuple[dict, pd.DataFrame]:
    """Our topics against the released ones, on the released queries that we know (Lupart §3.1, topics).

    `ours`: query_id → name of our topic, "" for none. Returns n_released, n_known (in `ours`), n_in_ours (in a topic of
    ours), share (of the known), and over those in a topic ari, ami (both 0 by chance), nmi and share_matched of
    `clusters.agreement`; and DataFrame[cluster, topic, n_known, n_in_ours, n_matched, recall, precision]: `topic` is
    ours that was matched one to one ("" where we have fewer), recall its share of the cluster's known queries,
    precision the cluster's share of the released queries in it.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    n_released, known = _known_topics(ours, folder)
    inside = known[known["ours"] != ""]
    if inside.empty:
        raise InputError(f"topics: none of {len(known)} released queries is in a topic of ours; all are others")
    same = agreement(inside["ours"], inside["cluster"])
    found = {"n_released": n_released, "n_known": len(known), "n_in_ours": len(inside)}
    found |= {"share": len(inside) / len(known), **{name: same[name] for name in ("ari", "nmi", "share_matched")}}
    found["ami"] = float(adjusted_mutual_info_score(inside["cluster"], inside["ours"]))
    table = pd.DataFrame({"cluster": list(CLUSTERS["topics"])})
    table["topic"] = table["cluster"].map(same["match"]).fillna("")
    for name, some in (("n_known", known), ("n_in_ours", inside)):
        table[name] = table["cluster"].map(some["cluster"].value_counts()).fillna(0).astype(int)
    pairs, n_topic = inside.value_counts(["cluster", "ours"]), table["topic"].map(inside["ours"].value_counts())
    table["n_matched"] = [pairs.get(pair, 0) for pair in zip(table["cluster"], table["topic"], strict=True)]
    table["recall"] = ratio(table["n_matched"], table["n_known"])
    return found, table.assign(precision=ratio(table["n_matched"], n_topic.fillna(0)))


def partition_agreement(native: pd.Series, folder: Path, seed: int) -> dict:
    """Do the clusters of a finer partition (the k=100 native ones) lie inside the released topics?

    `native`: query_id → native cluster. Returns n_known, n_clusters, homogeneity (1: each inside one topic), purity
    (queries in their cluster's most frequent topic), ami, and homogeneity_chance, purity_chance: means over 20
    permutations of the clusters, as many small clusters are purer than few large ones.
    """
    from sklearn.metrics import adjusted_mutual_info_score, homogeneity_score

    _, known = _known_topics(native, folder)
    topic, cluster, random = known["cluster"], known["ours"].to_numpy(), np.random.default_rng(seed)
    drawn = [random.permutation(cluster) for _ in range(20)]
    found = {"n_known": len(known), "n_clusters": known["ours"].nunique()}
    for name, measure in (("homogeneity", homogeneity_score), ("purity", _purity)):
        found[name] = float(measure(topic, cluster))
        found[f"{name}_chance"] = float(np.mean([measure(topic, one) for one in drawn]))
    return found | {"ami": float(adjusted_mutual_info_score(topic, cluster))}


def _purity(topic: pd.Series, cluster: np.ndarray) -> float:
    return pd.crosstab(topic.to_numpy(), cluster).max().sum() / len(topic)


def _known_topics(ours: pd.Series, folder: Path) -> tuple[int, pd.DataFrame]:
    """The number of released topic queries; cluster and ours of those that `ours` has."""
    if ours.index.has_duplicates:
        raise InputError(f"topics: query_id given twice: {offenders(ours.index[ours.index.duplicated()])}")
    if wrong := [label for label in ours if not isinstance(label, str)]:
        raise InputError(f'topics: a label is a string, "" for none, not {offenders(wrong)}; -1 would be a topic')
    theirs = released_queries(folder, "topics")
    known = theirs.assign(ours=theirs["query_id"].map(ours)).dropna(subset="ours")
    if known.empty:
        raise InputError(f"topics: none of {len(theirs)} released queries is among ours; index them by query_id")
    return len(theirs), known


def released_jaccard(folder: Path) -> pd.DataFrame:
    """Weighted Jaccard of each cluster and the other clusters of its shift, on the released evaluation queries.

    The fewer queries, the fewer words in common: compare values of samples of one size only, and their order with care.
    Returns shift, cluster, jaccard, n_queries, n_words (different ones), authors (the value of the release's notebook
    for whole clusters; topics only).
    """
    rows = []
    for shift, names in CLUSTERS.items():
        queries = released_queries(folder, shift)
        for name in names:
            inside = queries["cluster"] == name
            texts = queries.loc[inside, "text"].tolist()
            others = queries[~inside].drop_duplicates("query_id")["text"].tolist()
            words = {word for text in texts for word in text.lower().split()}
            rows.append((shift, name, jaccard(texts, others), len(texts), len(words)))
    frame = pd.DataFrame(rows, columns=["shift", "cluster", "jaccard", "n_queries", "n_words"])
    authors = published.load("lupart", "release-jaccard").set_index("cluster")["scaled"]
    return frame.assign(authors=frame["cluster"].map(authors))

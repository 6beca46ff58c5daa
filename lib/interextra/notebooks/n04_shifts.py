"""Notebook 04: how much does a retriever lose on unseen kinds of query? (Lupart et al., ECIR 2023,
§4 and §5.1)

An effect is Out / Avg In - 1, the paper's RelLoss with the other sign: negative is a loss (of ASL,
positive is).
"""

import numpy as np
import pandas as pd

from interextra.data.load import data_folder
from interextra.data.queries import Part
from interextra.measures.evaluate import worse
from interextra.models.search.vectors import Vectors
from interextra.notebooks import plans
from interextra.notebooks.parameters import Entries, NamesByName, ShiftParameters, parameter
from interextra.papers.releases import real_vectors
from interextra.splits.clusters import agreement, distinctive_words
from interextra.splits.shift import Shift
from interextra.splits.topics import Topics, topics
from interextra.store import InputError, Store


class Parameters(ShiftParameters):
    """Parameters of notebook 04, leave-one-out shifts."""

    only: NamesByName = parameter(
        {
            "topics": ["DR (base)", "ColBERT", "SPLADE", "BM25, fixed"],
            "wh-words": ["DR (base)", "ColBERT", "SPLADE", "BM25, fixed"],
            "length": ["DR (base)", "BM25, fixed"],
        },
        "shift: its systems beside BM25; of shifts that are not named all. Topics with the reranker: profiles worlds and small",
    )
    recipes: Entries = parameter(
        [
            "bm25",
            {"label": "BM25, fixed", "recipe": "bm25", "k1": [0.9], "b": [0.4]},
            "mini-reranker",
            {
                "recipe": "mini-colbert",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-splade",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
            {
                "recipe": "mini-dense",
                "steps": 60,
                "negatives": "bm25+in-batch",
                "n_negatives": 1,
                "negative_depth": 20,
            },
        ],
        "systems; negatives as in the paper, BM25's and in-batch, but for the reranker: it learns nothing from them here",
    )
    negative_passages: str = parameter(
        "all", "which passages may be negatives: all, unexposed, control: see 09", paper="all"
    )


def plan(p: Parameters) -> plans.Plan:
    """Each system without each cluster of each shift (`design`), also under the control.

    `design`, `control`: shift, model, left_out, seed, run. `shifts`: name → Shift, the control's
    last. Beside them `pool`, `topics`, and with `real_encoder` the vectors `real` and the folder of
    the files `released`.
    """
    shifts = shifts_of(p)
    recipes = plans.with_bm25(plans.systems(p))
    gate = plans.gate_queries(p)
    control = plans.named_shift(p.control).name if p.control else ""
    rows: dict[str, list[dict]] = {"design": [], "control": []}
    for name, shift in shifts.items():
        asked = plans.asked_of(p, name, recipes)
        queries = (Part(of=shift, part="held-out"), *gate)
        runs = plans.runs(p, asked, plans.without_each(shift), queries, shift=name)
        rows["control" if name == control else "design"] += runs
    columns = ["shift", "model", "left_out", "seed", "run"]
    frames = {name: pd.DataFrame(found, columns=columns) for name, found in rows.items()}
    real = real_vectors(p.real_encoder) if p.real_encoder else None
    released = data_folder() / "ms-marco-shift" if p.real_encoder else None
    cells = {"pool": plans.training_queries(p), "shifts": shifts, "topics": topics_of(p)}
    return plans.Plan(**cells, **frames, real=real, released=released)


def shifts_of(p: ShiftParameters) -> dict[str, Shift]:
    """Return name → shift, of the parameter `shifts` and, last, of `control`."""
    found = {}
    for entry in [*p.shifts, p.control] if p.control else p.shifts:
        named = plans.named_shift(entry)
        by = topics_of(p) if named.by == "topics" else named.by
        sizes = {"n_test": p.n_test, "train_size": p.train_size} | named.sizes
        pool = plans.training_queries(p)
        found[named.name] = Shift(pool=pool, by=by, clusters=named.clusters, seed=p.seed, **sizes)
    return found


def topics_of(p: ShiftParameters) -> Topics:
    """Topic clusters by the vectors of the encoder `topic_encoder`, with the switches of the
    notebook.
    """
    names = ("choose", "merge", "order", "stop")
    if len(p.topic_switches) != len(names):
        raise InputError(
            f"parameter 'topic_switches': give {len(names)}, one each of {', '.join(names)}"
        )
    switches = dict(zip(names, p.topic_switches, strict=True)) | {
        "normalise": p.normalise,
        "seed": p.seed,
    }
    sizes = {"n_topics": p.n_topics, "k": p.native_clusters, "target": p.topic_size}
    return Topics(
        vectors=Vectors(encoder=p.topic_encoder, train=plans.training_queries(p)),
        **sizes,
        **switches,
    )


def describe(store: Store, shifts: dict[str, Shift], vectors: np.ndarray) -> pd.DataFrame:
    """What is in the clusters of all shifts; `vectors` float[n, d] of the pool's queries say what
    is typical.

    Returns shift, cluster, n_queries, n_train, n_test, median_words, words (distinctive), typical
    (three queries).
    """
    rows = []
    for shift, cell in shifts.items():
        texts, label = (
            cell.pool.frame()["text"],
            pd.read_parquet(store[cell] / "labels.parquet")["cluster"],
        )
        inside = label != ""
        words = distinctive_words(texts[inside].tolist(), label[inside].tolist())
        for row in pd.read_csv(store[cell] / "sizes.csv", dtype={"cluster": str}).to_dict(
            "records"
        ):
            here = np.flatnonzero(label == row["cluster"])
            far = ((vectors[here] - vectors[here].mean(axis=0)) ** 2).sum(axis=1)
            typical = " | ".join(texts.iloc[here[np.argsort(far, kind="stable")[:3]]])
            made = {
                "median_words": texts.iloc[here].str.split().str.len().median(),
                "typical": typical,
            }
            rows.append({"shift": shift} | row | made | {"words": " ".join(words[row["cluster"]])})
    return pd.DataFrame(rows)


def switch_table(vectors: np.ndarray, options: dict, changes: dict[str, dict]) -> pd.DataFrame:
    """Topics under one changed option after the other, compared with those under `options` of
    `splits.topics.topics`.

    Returns change, share_kept (queries of a topic that are in any topic there), ari and
    share_matched over these.
    """
    made, rows = topics(vectors, **options).topic, []
    for name, change in changes.items():
        other = topics(vectors, **options | change).topic
        both = (made >= 0) & (other >= 0)
        same = agreement(other[both], made[both]) if both.any() else {}
        rows.append(
            (name, both.sum() / (made >= 0).sum(), same.get("ari"), same.get("share_matched"))
        )
    return pd.DataFrame(rows, columns=["change", "share_kept", "ari", "share_matched"])


def exceptions(matrix: pd.DataFrame) -> pd.DataFrame:
    """How many models that had a cluster in training are worse on it than the one that had not
    (§5.1: in general none).

    `matrix`: shift, model, measure, left_out, stratum (the cluster that is tested), value. Returns
    shift, model, measure, n_comparisons (k (k - 1) for k clusters), n_exceptions.
    """
    system, is_out = ["shift", "model", "measure"], matrix["left_out"] == matrix["stratum"]
    pairs = matrix[~is_out].merge(matrix[is_out], on=[*system, "stratum"], suffixes=("", "_out"))
    below = pairs["measure"].map(worse) * (pairs["value"] - pairs["value_out"]) < 0
    counted = pairs.assign(below=below).groupby(system, sort=False)["below"].agg(["size", "sum"])
    return counted.set_axis(["n_comparisons", "n_exceptions"], axis=1).reset_index()

"""Which cells a notebook needs, from its parameters alone: notebook, plan and workflow ask the same place."""

import itertools

from interextra.models.recipe import load_recipe
from interextra.study.jobs import (
    candidates_config,
    part,
    pool,
    restrain_config,
    resttest_config,
    run_config,
    vectors_config,
)

REGIMES = ("interpolation", "extrapolation")
SYSTEMS = {"BM25": "bm25_recipe", "DR (base)": "recipe"}  # name in the tables → parameter with its recipe
FIVE = {
    "BM25": "bm25_recipe", "Reranker": "reranker_recipe", "ColBERT": "colbert_recipe", "SPLADE": "splade_recipe",
    "DR (base)": "recipe",
}  # fmt: skip


REAL = "msmarco-queries"


def _recipe(p: dict, name: str):
    """The recipe that the parameter `name` names; the parameter `steps` (not 0) replaces its training steps."""
    made = load_recipe(p[name])
    return load_recipe(p[name], steps=p["steps"]) if p["steps"] and made.architecture != "bm25" else made


def query_pool(p: dict) -> dict:
    """The training queries that a notebook's parameters name."""
    return pool(p["collection"], p["train_split"], p["train_limit"], p["seed"])


def whole(p: dict, recipe: str) -> dict:
    """A model trained on all training queries of the pool; a dense one is kept, its encoder is used again.

    Its test splits are not those of the notebook but all that any notebook asks for, so that the model is trained once.
    """
    keep = recipe == "recipe"
    return run_config(_recipe(p, recipe), query_pool(p), p["encoder_splits"], p["seed"], p["depth"], keep)


def query_vectors(p: dict) -> dict:
    """Vectors of training and test queries. `encoder`: trained (a dense model on all training queries), minilm, lsa."""
    encoder = whole(p, "recipe") if p["encoder"] == "trained" else p["encoder"]
    return vectors_config(encoder, query_pool(p), p["test_splits"])


def start_here(p: dict) -> list[dict]:
    """00: one query's way needs one dense model and BM25."""
    p = {**p, "encoder_splits": p["test_splits"]}
    return [{"model": name, "config": whole(p, recipe)} for name, recipe in SYSTEMS.items()]


def overlap(p: dict) -> list[dict]:
    """01: candidates by BM25 and by embedding; with `real_msmarco` also for the real queries."""
    rows = [{"model": "candidates", "config": candidates_config(query_vectors(p), p["candidates"])}]
    if p["real_msmarco"]:
        real = vectors_config(p["real_encoder"], pool(REAL), ["dl19", "dl20"])
        rows.append({"model": "real candidates", "config": candidates_config(real, p["candidates"])})
    return rows


def real_vectors(p: dict) -> dict[str, dict]:
    """Encoder → vectors of the real training queries and of the 97 judged DL queries."""
    return {encoder: vectors_config(encoder, pool(REAL), ["dl19", "dl20"]) for encoder in p["real_encoders"]}


def restrain_split(p: dict) -> dict:
    return restrain_config(query_vectors(p), p["sizes"], p["match"], p["controls"], p["seed"])


def restrain(p: dict) -> list[dict]:
    """02: each system in both regimes at each size, each seed, and for dense the controls, with the first seed."""
    split, rows = restrain_split(p), []
    for model, recipe in SYSTEMS.items():
        seeds = p["seeds"] if model != "BM25" else p["seeds"][:1]
        parts = [(size, regime, "regime", f"{regime}-{size}") for size in p["sizes"] for regime in REGIMES]
        if model != "BM25":
            parts += [
                (size, "random", f"control {c}", f"random-{size}-{c}")
                for size in p["sizes"]
                for c in range(p["controls"])
            ]
            parts += [
                (size, regime, f"control {c}", f"{regime}-matched-{size}-{c}")
                for size in sorted(p["sizes"])[:-1] for regime in REGIMES for c in range(p["controls"])
            ]  # fmt: skip
        for size, regime, design, name in parts:
            for seed in seeds if design == "regime" else seeds[:1]:
                config = run_config(_recipe(p, recipe), part(split, name), p["test_splits"], seed, p["depth"])
                labels = {"n_train": size, "model": model, "regime": regime, "design": design, "seed": seed}
                rows.append({**labels, "set": name, "config": config})
    return rows


def resttest_split(p: dict) -> dict:
    return resttest_config(query_vectors(p), p["k"], p["fold_size"], p["normalise"], p["seed"])


def resttest(p: dict) -> list[dict]:
    """03: each system without each bucket, each seed; BM25 with the first seed, since it draws nothing."""
    split, rows = resttest_split(p), []
    for model, recipe in SYSTEMS.items():
        for bucket in range(1, p["k"] + 1):
            for seed in p["seeds"] if model != "BM25" else p["seeds"][:1]:
                name = f"without-{bucket}"
                config = run_config(_recipe(p, recipe), part(split, name), p["test_splits"], seed, p["depth"])
                rows.append({"model": model, "bucket": bucket, "seed": seed, "set": name, "config": config})
    return rows


def comparison(p: dict) -> dict:
    """The parameters of 05 with those that it takes over: the recipes one by one, and the defaults of 02."""
    return {"train_limit": 0, "controls": 1, **p, **dict(zip(FIVE.values(), p["recipes"], strict=True))}


def architectures(p: dict) -> list[dict]:
    """05: five systems in both protocols, and on all training queries trained and untrained (`learning`).

    Rows: protocol (restrain, resttest, learning), model, seed, and n_train and regime, or bucket, or trained.
    """
    p = comparison(p)
    restrain_sets, resttest_sets = restrain_split(p), resttest_split(p | {"test_splits": p["resttest_splits"]})
    rows = []
    for model, name in FIVE.items():
        recipe = _recipe(p, name)
        for seed in p["seeds"] if model == "DR (base)" else p["other_seeds"]:
            for size, regime in itertools.product(p["trained_sizes"], REGIMES):
                train = part(restrain_sets, f"{regime}-{size}")
                config = run_config(recipe, train, p["test_splits"], seed, p["depth"])
                labels = {"protocol": "restrain", "model": model, "n_train": size, "regime": regime}
                rows.append({**labels, "seed": seed, "config": config})
            for bucket in range(1, p["k"] + 1):
                train = part(resttest_sets, f"without-{bucket}")
                config = run_config(recipe, train, p["resttest_splits"], seed, p["depth"])
                labels = {"protocol": "resttest", "model": model, "bucket": bucket}
                rows.append({**labels, "seed": seed, "config": config})
        if p["learning"]:
            made = {True: whole(p, name)}
            if model != "BM25":
                made[False] = made[True] | {"recipe": load_recipe(p[name], steps=0).named(), "keep_model": False}
            for trained, config in made.items():
                labels = {"protocol": "learning", "model": model, "trained": trained}
                rows.append({**labels, "seed": p["seed"], "config": config})
    return rows


def real_dev_vectors(p: dict) -> dict[str, dict]:
    """Encoder → vectors of the real dev queries, in the space of `real_vectors`.

    In a cell of its own, so that the training queries of `real_vectors` need not be encoded again; LSA is fitted on
    them, so there they are.
    """
    return {
        encoder: vectors_config(encoder, pool(REAL), ["dev"])
        if encoder.startswith("lsa")
        else vectors_config(encoder, pool(REAL, "dev"), [])
        for encoder in p["real_encoders"]
    }


DESIGNS = {
    "00_start_here": start_here, "01_overlap_annotation_analysis": overlap, "02_restrain": restrain,
    "03_resttest": resttest, "05_architecture_comparison": architectures,
}  # fmt: skip


def configs(notebook: str, parameters: dict) -> list[dict]:
    """Configurations of all cells of a notebook (none for a notebook that computes nothing that is kept)."""
    made = [row["config"] for row in DESIGNS[notebook](parameters)] if notebook in DESIGNS else []
    if parameters.get("real_msmarco") and "real_encoders" in parameters:
        made += real_vectors(parameters).values()
        made += real_dev_vectors(parameters).values() if "bucket_seeds" in parameters else []
    return made

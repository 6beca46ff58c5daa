"""Which cells a notebook needs, from its parameters alone: notebook, plan and workflow ask the same place."""

import itertools

from interextra.ground.errors import InputError
from interextra.models.recipe import load_recipe
from interextra.study.jobs import (
    candidates_config,
    part,
    pool,
    restrain_config,
    resttest_config,
    run_config,
    shift_config,
    topics_of,
    vectors_config,
)

REGIMES = ("interpolation", "extrapolation")
FIVE = {  # name in the tables → parameter with its recipe
    "BM25": "bm25_recipe", "Reranker": "reranker_recipe", "ColBERT": "colbert_recipe", "SPLADE": "splade_recipe",
    "DR (base)": "recipe",
}  # fmt: skip
SYSTEMS = {name: FIVE[name] for name in ("BM25", "DR (base)")}
TOPIC_SWITCHES = ("choose", "merge", "order", "stop")  # of splits.topics
ENCODERS = ("dense", "splade", "colbert")  # architectures that encode a query by itself
REAL = "msmarco-queries"


def _recipe(p: dict, name: str):
    """The recipe that the parameter `name` names; the parameter `steps` (not 0) replaces its training steps."""
    made = load_recipe(p[name])
    return load_recipe(p[name], steps=p["steps"]) if p["steps"] and made.architecture != "bm25" else made


def query_pool(p: dict) -> dict:
    """The training queries that a notebook's parameters name."""
    return pool(p["collection"], p["train_split"], p.get("train_limit", 0), p["seed"])


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
    return {"controls": 1, **p, **dict(zip(FIVE.values(), p["recipes"], strict=True))}


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


def shift_splits(p: dict) -> dict[str, dict]:
    """Name of each shift → its configuration; `shifts` holds an attribute, `NAME=ATTRIBUTE`, or `topics`.

    `/A/B/C` behind the attribute keeps these clusters only. The control comes last.
    """
    found = {}
    for text in [*p["shifts"], *filter(None, [p["control"]])]:
        name, spec, clusters = read_shift(text)
        of = shift_topics(p) if spec == "topics" else spec
        found[name] = shift_config(query_pool(p), of, clusters, p["n_test"], p["train_size"], p["seed"])
    return found


def read_shift(text: str) -> tuple[str, str, list[str]]:
    """(name, attribute, clusters) of a shift as it is written in the parameters.

    >>> read_shift("kind=column:qtype/causes/stages"), read_shift("length:limit=9")
    (('kind', 'column:qtype', ['causes', 'stages']), ('length', 'length:limit=9', []))
    """
    spec, *clusters = text.split("/")
    name, _, rest = spec.partition("=")
    return (name, rest, clusters) if rest and ":" not in name else (spec.partition(":")[0], spec, clusters)


def shift_topics(p: dict) -> dict:
    """Topic clusters by the vectors of the encoder `topic_encoder`, with the switches of the notebook."""
    vectors = vectors_config(p["topic_encoder"], query_pool(p), [])
    return topics_of(
        vectors, n_topics=p["n_topics"], k=p["native_clusters"], target=p["topic_size"], normalise=p["normalise"],
        seed=p["seed"], **dict(zip(TOPIC_SWITCHES, p["topic_switches"], strict=True)),
    )  # fmt: skip


def ms_shift(p: dict) -> list[dict]:
    """04, 07: each system without each cluster of each shift; the dense one also under the control; the variants.

    A variant is written `SHIFT | MODEL | RECIPE`. Rows: shift, model, left_out, seed.
    """
    splits, rows = shift_splits(p), []
    asked = [shift for shift in splits if shift != read_shift(p["control"])[0]]
    five = list(zip(FIVE, p["recipes"], strict=True))
    systems = [(shift, *system) for shift in asked for system in five]
    systems += [(shift, *five[-1]) for shift in splits if shift not in asked]
    for shift, model, recipe in systems + [read_variant(text, splits) for text in p["variants"]]:
        made, split = _recipe({**p, "asked": recipe}, "asked"), splits[shift]
        near = p["neighbours"] if made.architecture in ENCODERS else 0
        for left_out, seed in itertools.product(split["clusters"], p["seeds"]):
            train, test = part(split, f"without-{left_out}"), [part(split, "held-out")]
            config = run_config(made, train, test, seed, p["depth"], neighbours=near)
            rows.append({"shift": shift, "model": model, "left_out": left_out, "seed": seed, "config": config})
    return rows


def read_variant(text: str, splits: dict) -> tuple[str, str, str]:
    """(shift, model, recipe) of a variant."""
    shift, model, recipe = ([part.strip() for part in text.split("|")] + ["", ""])[:3]
    if shift not in splits or not recipe:
        raise InputError(f"variant {text!r}: write SHIFT | MODEL | RECIPE; shifts are {', '.join(splits)}")
    return shift, model, recipe


def real_shift_vectors(p: dict) -> dict:
    """Vectors of the real training queries, the same cell as that of 01 to 03."""
    return vectors_config(p["real_encoder"], pool(REAL), ["dl19", "dl20"])


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
    "03_resttest": resttest, "04_ms_shift_clusters": ms_shift, "05_architecture_comparison": architectures,
    "07_indicators": ms_shift,
}  # fmt: skip


def configs(notebook: str, parameters: dict) -> list[dict]:
    """Configurations of all cells of a notebook (none for a notebook that computes nothing that is kept)."""
    made = [row["config"] for row in DESIGNS[notebook](parameters)] if notebook in DESIGNS else []
    if parameters.get("real_msmarco") and "real_encoders" in parameters:
        made += real_vectors(parameters).values()
        made += real_dev_vectors(parameters).values() if "bucket_seeds" in parameters else []
    if DESIGNS.get(notebook) is ms_shift and parameters["real_encoder"]:
        made.append(real_shift_vectors(parameters))
    return made

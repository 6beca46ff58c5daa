"""Which cells a notebook needs, from its parameters alone: the notebook, the plan and the workflow ask the same place."""

from interextra.study.jobs import candidates_config, part, pool, restrain_config, run_config, vectors_config

REGIMES = ("interpolation", "extrapolation")


def _recipe(name: str, **overrides):
    from interextra.models.recipe import load_recipe

    return load_recipe(name, **overrides)


def whole(p: dict, recipe: str, keep_model: bool = False) -> dict:
    """A model trained on all training queries of the pool."""
    queries = pool(p["collection"], p["train_split"], p["train_limit"], p["seed"])
    return run_config(_recipe(recipe), queries, p["test_splits"], p["seed"], p["depth"], keep_model)


def query_vectors(p: dict) -> dict:
    """Vectors of training and test queries. `encoder`: trained (a dense model on all training queries), minilm, lsa."""
    queries = pool(p["collection"], p["train_split"], p["train_limit"], p["seed"])
    encoder = whole(p, p["recipe"], keep_model=True) if p["encoder"] == "trained" else p["encoder"]
    return vectors_config(encoder, queries, p["test_splits"])


def start_here(p: dict) -> list[dict]:
    """00: one query's way needs one dense model and BM25."""
    return [{"model": name, "config": whole(p, recipe, name == "DR (base)")} for name, recipe in _systems(p)]


def _systems(p: dict) -> list[tuple[str, str]]:
    return [("BM25", p["bm25_recipe"]), ("DR (base)", p["recipe"])]


def overlap(p: dict) -> list[dict]:
    """01: candidates by BM25 and by embedding."""
    return [{"model": "candidates", "config": candidates_config(query_vectors(p), p["candidates"])}]


def restrain_split(p: dict) -> dict:
    return restrain_config(query_vectors(p), p["sizes"], p["match"], p["controls"], p["seed"])


def restrain(p: dict) -> list[dict]:
    """02: each system in both regimes at each size, each seed, and the controls for dense at the smaller sizes."""
    split, rows = restrain_split(p), []
    for model, recipe in _systems(p):
        seeds = p["seeds"] if model != "BM25" else p["seeds"][:1]
        parts = [(size, regime, "regime", f"{regime}-{size}") for size in p["sizes"] for regime in REGIMES]
        if model != "BM25":
            parts += [
                (p["sizes"][0], "random", f"control {c}", f"random-{p['sizes'][0]}-{c}") for c in range(p["controls"])
            ]
            parts += [
                (size, regime, f"control {c}", f"{regime}-matched-{size}-{c}")
                for size in p["sizes"][:-1] for regime in REGIMES for c in range(p["controls"])
            ]  # fmt: skip
        for size, regime, design, name in parts:
            for seed in seeds:
                config = run_config(_recipe(recipe), part(split, name), p["test_splits"], seed, p["depth"])
                labels = {"n_train": size, "model": model, "regime": regime, "design": design, "seed": seed}
                rows.append({**labels, "set": name, "config": config})
    return rows


DESIGNS = {"00_start_here": start_here, "01_overlap_annotation_analysis": overlap, "02_restrain": restrain}


def configs(notebook: str, parameters: dict) -> list[dict]:
    """Configurations of all cells of a notebook (none for a notebook that computes nothing that is kept)."""
    return [row["config"] for row in DESIGNS[notebook](parameters)] if notebook in DESIGNS else []

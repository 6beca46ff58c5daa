"""What would run and what it costs: every cell with its state and an estimate, printed before anything starts."""

import json

from interextra.study.cells import Store, cell_key
from interextra.study.jobs import dependencies, open_spec, pool_queries
from interextra.study.pool import in_order

QUERY_TOKENS = 12  # a usual query with its special tokens


def _pool_of(config: dict) -> dict:
    if "pool" in config:
        return config["pool"]
    if "vectors" in config:
        return config["vectors"]["pool"]
    return config["train"]["of"]["pool"] if "of" in config["train"] else config["train"]


def _n_train(train: dict) -> int:
    """Training queries of a run; a set of a split that is not built yet is named by its size, or guessed from k."""
    if "of" not in train:
        return len(pool_queries(train))
    if (split := train["of"])["kind"] == "resttest":
        return split["fold_size"] or len(pool_queries(split["pool"])) * (split["k"] - 1) // split["k"]
    if split["kind"] == "shift":
        return split["train_size"] or len(pool_queries(split["pool"])) * 2 // 3
    return int(next(token for token in train["part"].split("-") if token.isdigit()))


def _n_test(collection, named: str | dict) -> int:
    if isinstance(named, dict):  # as if there were three clusters
        return 3 * named["of"]["n_test"]
    return len(collection.queries(named)) if named in collection.splits else 0


def what(config: dict) -> str:
    """One line that names a cell for a reader."""
    spec = _pool_of(config)["collection"]["spec"]
    if config["kind"] == "run":
        train = config["train"].get("part") or f"all of {config['train']['split']}"
        test = "+".join(name if isinstance(name, str) else name["part"] for name in config["test"])
        return f"run {config['recipe']['architecture']} · {spec} · {train} → {test} · seed {config['seed']}"
    if config["kind"] == "vectors":
        encoder = config["encoder"]
        return f"vectors · {spec} · {encoder if isinstance(encoder, str) else 'trained ' + cell_key(encoder)[:8]}"
    if config["kind"] == "resttest":
        return f"resttest · {spec} · {config['k']} buckets · seed {config['seed']}"
    if config["kind"] == "shift":
        return f"shift · {spec} · {config.get('attribute', 'topics')} · seed {config['seed']}"
    return f"{config['kind']} · {spec} · {config.get('sizes') or config.get('k')}"


def _measured_rate(store: Store, recipe: dict) -> float | None:
    """Training steps a second of finished cells with the same recipe on this machine."""
    rates = []
    for log in store.root.glob("*/training.json"):
        try:
            config = json.loads((log.parent / "config.json").read_text(encoding="utf-8"))
            found = json.loads(log.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # damaged: whoever needs the cell says so
            continue
        if config.get("recipe") == recipe and found.get("steps"):
            rates.append(found["steps"] / found["seconds"])
    return sorted(rates)[len(rates) // 2] if rates else None


def seconds(store: Store, config: dict) -> float:
    """Estimated seconds of one core, from the recipe and the measured throughput."""
    from interextra.models.recipe import THROUGHPUT, cost, make_recipe

    if config["kind"] == "run":
        collection = open_spec(config["collection"]["spec"])
        sizes = _n_train(config["train"]), len(collection.passages)
        asked = sum(_n_test(collection, named) for named in config["test"])
        estimate = cost(make_recipe(config["recipe"]), *sizes, n_queries=asked)
        rate = _measured_rate(store, config["recipe"])
        return (estimate["steps"] / rate if rate else estimate["train_seconds"]) + estimate["encode_seconds"]
    queries = len(pool_queries(_pool_of(config)))
    if config["kind"] == "vectors":
        kind = {"lsa": "tiny", "minilm": "minilm"}.get(config["encoder"] if isinstance(config["encoder"], str) else "")
        return queries * QUERY_TOKENS / THROUGHPUT[kind or "tiny"]["encode_tokens"]
    return 1 + queries / 20_000


def describe(store: Store, configs: list[dict]) -> list[dict]:
    """A row a cell, dependencies first: key, state (`done`, `todo`), seconds (estimate), what, needs; each is noted."""
    rows = []
    for key, config in in_order(configs).items():
        store.plan(config)
        state = "done" if store.valid(key) else "todo"
        needs = [cell_key(needed) for needed in dependencies(config)]
        rows.append(
            {"key": key, "state": state, "seconds": seconds(store, config), "what": what(config), "needs": needs}
        )
    return rows

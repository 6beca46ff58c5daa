"""Notebook 00: one query's way through the kit, with a lexical and a dense system."""

from interextra.notebooks.parameters import Entries, Names, RunParameters, parameter
from interextra.notebooks.plans import Plan, design, run_of, systems, test_queries, training_queries
from interextra.store.errors import InputError


class Parameters(RunParameters):
    """Parameters of notebook 00, the first retrievers."""

    test_splits: Names = parameter(["dev", "test"], "splits with the test queries")
    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "a lexical and a dense retriever (lib/interextra/models/recipes)"
    )


def plan(p: Parameters) -> Plan:
    """Return `design`: model, run, a row a system; the first is compared with the last one.

    Raises
    ------
    InputError
        Fewer than two systems.
    """
    recipes = systems(p)
    if len(recipes) < 2:
        raise InputError(
            "parameter 'recipes': this notebook compares the first system with the last one: "
            "give two"
        )
    train = training_queries(p)
    queries = test_queries(p, p.test_splits)
    rows = []
    for label, recipe in recipes.items():
        run = run_of(p, recipe, train, p.seed, queries)
        rows.append({"model": label, "run": run})
    return Plan(design=design(rows))

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
    """`design`: model, run. The first system is compared with the last one."""
    made, queries = systems(p), test_queries(p, p.test_splits)
    if len(made) < 2:
        raise InputError(
            "parameter 'recipes': this notebook compares the first system with the last one: give two"
        )
    runs = {
        label: run_of(p, one, training_queries(p), p.seed, queries) for label, one in made.items()
    }
    return Plan(design=design([{"model": label, "run": run} for label, run in runs.items()]))

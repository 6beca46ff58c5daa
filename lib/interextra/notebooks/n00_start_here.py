"""Notebook 00: one query's way through the kit, with a lexical and a dense system."""

from interextra.notebooks.plans import Plan, design, run_of, systems, test_queries, training_queries
from interextra.store.errors import InputError

NOTEBOOK = "00_start_here"


def plan(p: dict) -> Plan:
    """`design`: model, run. The first system is compared with the last one."""
    made, queries = systems(p), test_queries(p, p["test_splits"])
    if len(made) < 2:
        raise InputError(
            "parameter 'recipes': this notebook compares the first system with the last one: give two"
        )
    runs = {
        label: run_of(p, one, training_queries(p), p["seed"], queries)
        for label, one in made.items()
    }
    return Plan(design=design([{"model": label, "run": run} for label, run in runs.items()]))

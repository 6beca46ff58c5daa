"""Parameters of notebooks 02, 03 and 05 on a small world, for the tests of their plans."""

from pydantic import ValidationError

from interextra.notebooks import module_of
from interextra.notebooks.plans import plan_of
from interextra.store import InputError

COMMON = {
    "collection": "mini:n_train=700,n_graded=0",
    "train_split": "train",
    "train_limit": 0,
    "test_splits": ["test"],
}
COMMON |= {"gate_splits": [], "only": {}}
COMMON |= {
    "encoder": "lsa",
    "steps": 0,
    "seed": 1,
    "depth": 10,
    "match": "exact",
    "normalise": True,
    "fold_size": 0,
}
COMMON |= {"recall_relevance": 2, "real_encoders": ["lsa"], "real_msmarco": False}
COMPARED = COMMON | {
    "sizes": [20, 60],
    "trained_sizes": [20, 60],
    "k": 2,
    "seeds": [1],
    "other_seeds": [1],
}
COMPARED |= {"resttest_splits": ["dev"], "restrain_measures": ["nDCG@10"]}

RESTRAIN = {
    "recipes": ["bm25", "mini-dense"],
    "sizes": [20, 60],
    "seeds": [1],
    "measures": ["RR@10"],
}
RESTRAIN |= {"grid_sizes": [30, 90], "grid_draws": 0, "grid_seeds": [1, 2], "grid_steps": 0}
RESTRAIN |= {"test_draws": 0, "draw_splits": ["test"], "test_size": 8, "draw_train": 20}


def typed(module, values):
    """Return the parameters of a notebook's module, of those among the values that it has."""
    if not isinstance(values, dict):
        return values
    kind = module.Parameters
    known = {name: value for name, value in values.items() if name in kind.model_fields}
    try:
        return kind(**known)
    except ValidationError as error:
        raise InputError(error.errors()[0]["msg"]) from None


def plan_with(module, values):
    """Return the plan of a notebook's module with some values of its parameters."""
    return module.plan(typed(module, values))


def plan_named(notebook, values):
    """Return the plan of a notebook, checked as `interextra run` does, with some values."""
    return plan_of(notebook, typed(module_of(notebook), values))

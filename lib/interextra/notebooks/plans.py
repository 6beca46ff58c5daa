"""Which cells a notebook needs, from its parameters alone: notebook, plan and workflow ask the same
place.

A plan is a namespace of cells, of frames of runs (a *design*: labels and, in the column `run`, the
cell), or of lists. Each notebook has a module here, which names it in NOTEBOOK and makes its plan
in `plan(parameters)`.
"""

import importlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from interextra.data.queries import Part, Queries, Source
from interextra.models.architectures import architectures
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.encoders import encoder_of
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.search.run import Run, model_of
from interextra.models.search.vectors import QueryVectors, TrainedVectors, Vectors
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.split import REGIMES
from interextra.store import Cell, InputError, offenders

Plan = SimpleNamespace


def plan_of(notebook: str, parameters: dict) -> Plan:
    """The plan of a notebook, empty where nothing is kept; InputError for a split that the
    collection does not have.
    """
    for name, value in parameters.items() if "collection" in parameters else ():
        splits = (
            ([value] if isinstance(value, str) else value)
            if name.endswith(("_split", "_splits"))
            else ()
        )
        test_queries(parameters, filter(None, splits))
    if parameters.get("real_encoder"):
        encoder_of(parameters["real_encoder"])
    for file in sorted(Path(__file__).parent.glob("*.py")):
        if f'\nNOTEBOOK = "{notebook}"' in file.read_text(encoding="utf-8"):
            return importlib.import_module(f"{__package__}.{file.stem}").plan(parameters)
    return Plan()


def cells_of(plan: Any) -> list[Cell]:
    """All cells of a plan, each once, in its order."""
    if isinstance(plan, Cell):
        return [plan]
    parts = vars(plan) if isinstance(plan, Plan) else plan
    if isinstance(parts, pd.DataFrame):
        parts = [parts[name].tolist() for name in parts if parts[name].dtype == object]
    parts = (
        parts.values()
        if isinstance(parts, dict)
        else parts
        if isinstance(parts, list | tuple)
        else ()
    )
    return list({cell.key: cell for part in parts for cell in cells_of(part)}.values())


def training_queries(p: dict) -> Queries:
    """The queries of the training split that a training can learn from, or some of them."""
    limit = p.get("train_limit", 0)
    every = Queries(
        source=Source.of(p["collection"]), split=p["train_split"], limit=limit, seed=p["seed"]
    )
    return every.trainable()


def test_queries(p: dict, splits: Iterable[str]) -> tuple[Queries, ...]:
    return tuple(Queries(source=Source.of(p["collection"]), split=split) for split in splits)


def gate_queries(p: dict) -> tuple[Queries, ...]:
    """The queries on which a system must beat BM25; InputError where they also measure the loss."""
    if shared := set(p["gate_splits"]) & {*p.get("test_splits", ()), p["train_split"]}:
        raise InputError(
            f"parameter 'gate_splits': {offenders(sorted(shared))} is among the other splits; queries of the gate may "
            "neither train nor measure the loss: name another split, or none"
        )
    return test_queries(p, p["gate_splits"])


def searched(p: dict) -> dict:
    """The parameters with the splits that each protocol searches: its test splits, and those of the
    gate.

    What measures one protocol's loss may open the other one's gate.
    """
    return p | {
        name: list(dict.fromkeys([*p[name], *p["gate_splits"]]))
        for name in ("test_splits", "resttest_splits")
    }


def recipe(p: dict, name: str, /, **options: Any) -> Recipe:
    """The recipe of this name with `options`; the parameters `steps` and `negative_passages` go
    before its values.
    """
    known, asked = (
        type(load_recipe(name, **options)).model_fields,
        {"steps": 0, "negative_passages": "all"},
    )
    given = {
        key: p[key] for key, unset in asked.items() if key in known and p.get(key, unset) != unset
    }
    return load_recipe(name, **options | given)


def systems(p: dict) -> dict[str, Recipe]:
    """Label in tables → recipe, of the parameter `recipes` in its order.

    An entry is the name of a recipe, whose label is that of its architecture, or {label: …, recipe:
    …, option: value}.
    """
    found: dict[str, Recipe] = {}
    for entry in p["recipes"]:
        name, options = fields(
            {"recipe": entry} if isinstance(entry, str) else entry, "recipe", more=True
        )
        label = options.pop("label", "")
        if not isinstance(label, str):
            raise InputError(f"parameter 'recipes': the label {label!r} must be words")
        made = recipe(p, name, **options)
        label = label or architectures()[made.architecture].LABEL
        if label in found:
            raise InputError(
                f"parameter 'recipes': {label!r} stands twice; give one of them another label"
            )
        found[label] = made
    return found


def with_bm25(made: dict[str, Recipe], name: str = "recipes") -> dict[str, Recipe]:
    """The systems of the parameter `name`; InputError where none is BM25 with its label, which the
    gate asks for.
    """
    if BM25 not in made or made[BM25].architecture != "bm25":
        raise InputError(
            f"parameter {name!r}: no system is BM25 with the label {BM25!r}, which the others must beat in domain: "
            f"add bm25; there are {', '.join(made) or 'none'}"
        )
    return made


def asked_of(p: dict, part: str, made: Mapping[str, Recipe]) -> Mapping[str, Recipe]:
    """The systems of a shift or protocol: BM25 and what the parameter `only` names for it, all
    where it names none.
    """
    named = p.get("only", {}).get(part)
    if named and not set(named) & made.keys():
        raise InputError(
            f"parameter 'only', {part}: {offenders(named)} is none of the systems {offenders(made, 20)}"
        )
    return {model: one for model, one in made.items() if model in {BM25, *named}} if named else made


def fields(entry: Any, *names: str, more: bool = False) -> list:
    """The values, words all, of these names in an entry of a parameter; with `more` at the end what
    else it gives.

    >>> fields({"label": "DR, pairwise", "recipe": "mini-dense", "loss": "pairwise"}, "label", "recipe", more=True)
    ['DR, pairwise', 'mini-dense', {'loss': 'pairwise'}]
    """
    rest = dict(entry) if isinstance(entry, Mapping) else {}
    found = [rest.pop(name, None) for name in names]
    if not all(isinstance(value, str) and value for value in found) or (rest and not more):
        form = ", ".join([*(f"{name}: …" for name in names), *(["option: value"] if more else [])])
        raise InputError(f"parameter entry {entry!r}: write {{{form}}}, the values words")
    return [*found, rest] if more else found


def refuse_unknown(name: str, given: Iterable[str | int], known: Iterable[str | int]) -> None:
    """InputError for what the parameter `name` holds and is not known."""
    known = list(known)
    if unknown := [one for one in given if one not in known]:
        raise InputError(
            f"parameter {name!r}: {offenders(unknown)} is none of {offenders(known, 20) or 'nothing'}"
        )


def runs(
    p: dict,
    made: Mapping[str, Recipe],
    sets: Sequence[tuple[dict, Queries | Part]],
    queries: tuple,
    **labels: Any,
) -> list[dict]:
    """Rows of a design: each system, on each training set, with each of its seeds.

    `made`: label → recipe; `sets`: the labels of a training set, and its queries; `labels`: of all
    rows, before others. Seeds are `seeds` for dense, `other_seeds` for the others; one where
    nothing is trained.
    """
    rows = []
    for model, one in made.items():
        seeds = p["seeds"] if one.architecture == "dense" else p.get("other_seeds", p["seeds"])
        for (named, train), seed in itertools.product(
            sets, seeds if one.training_steps(1) else seeds[:1]
        ):
            rows.append(
                labels
                | {"model": model}
                | named
                | {"seed": seed, "run": run_of(p, one, train, seed, queries)}
            )
    return rows


def run_of(
    p: dict, made: Recipe, train: Queries | Part, seed: int, queries: tuple[Queries | Part, ...]
) -> Run:
    return Run(model=model_of(made, train, seed), queries=queries, depth=p["depth"])


def query_vectors(p: dict, test: tuple[Queries, ...]) -> QueryVectors:
    """Vectors of training and test queries by `encoder`: trained (dense, on all training queries),
    minilm, lsa.
    """
    train = training_queries(p)
    if p["encoder"] != "trained":
        return Vectors(encoder=p["encoder"], train=train, test=test)
    dense = next((made for made in systems(p).values() if made.architecture == "dense"), None)
    if dense is None:
        needed = "a dense recipe among `recipes`; give one, or minilm or lsa"
        raise InputError(f"parameter 'encoder': trained needs {needed}")
    return TrainedVectors(model=model_of(dense, train, p["seed"]), train=train, test=test)


def measures_of(p: dict, name: str) -> list[str]:
    """The measures that a parameter names; R@100 counts from the parameter `recall_relevance`
    on.
    """
    rel = f"(rel={p['recall_relevance']})" if p["recall_relevance"] > 1 else ""
    return [f"R{rel}@100" if measure == "R@100" else measure for measure in p[name]]


def restrain_of(p: dict) -> ReSTrain:
    """ReSTrain of the notebook's training queries, as seen from its test queries."""
    vectors = query_vectors(p, test_queries(p, p["test_splits"]))
    return ReSTrain(vectors=vectors, sizes=tuple(p["sizes"]), match=p["match"], seed=p["seed"])


def resttest_of(p: dict, test_splits: list[str]) -> ReSTTest:
    """ReSTTest of the notebook's training queries, with the test queries of some splits."""
    test = test_queries(p, test_splits)
    if p["k"] > (n := sum(queries.size() for queries in test)):
        raise InputError(f"parameter 'k': {p['k']} buckets of {n} test queries; give fewer")
    vectors, options = query_vectors(p, test), ("k", "fold_size", "normalise")
    return ReSTTest(
        vectors=vectors, seed=p["seed"], **{name: p[name] for name in options if name in p}
    )


def in_both_regimes(split: ReSTrain, sizes: Sequence[int]) -> list[tuple[dict, Part]]:
    """The training sets of a ReSTrain split for `runs`: labels n_train and regime."""
    refuse_unknown("trained_sizes", sizes, split.sizes)
    places = itertools.product(sizes, REGIMES)
    return [
        ({"n_train": n, "regime": regime}, Part(of=split, part=f"{regime}-{n}"))
        for n, regime in places
    ]


def without_each(split: Any) -> list[tuple[dict, Part]]:
    """The training sets of a leave-one-out split for `runs`: label left_out."""
    return [({"left_out": name}, Part(of=split, part=f"without-{name}")) for name in split.names]


def both_protocols(
    p: dict, sets: ReSTrain, buckets: ReSTTest | None, made: Mapping[str, Recipe]
) -> tuple[list, list]:
    """Rows of two designs: ReSTrain's (n_train, model, regime, seed, run), ReSTTest's (model,
    left_out, seed, run).
    """
    if unasked := set(made).difference(
        *(asked_of(p, protocol, made) for protocol in ("ReSTrain", "ReSTTest"))
    ):
        raise InputError(
            f"parameter 'only' names no protocol for {offenders(sorted(unasked))}: add it or empty 'only'"
        )
    trained, folds = (
        in_both_regimes(sets, p["trained_sizes"]),
        without_each(buckets) if buckets else [],
    )
    restrain = runs(p, asked_of(p, "ReSTrain", made), trained, test_queries(p, p["test_splits"]))
    return restrain, runs(
        p, asked_of(p, "ReSTTest", made), folds, test_queries(p, p["resttest_splits"])
    )


def design(rows: list[dict]) -> pd.DataFrame:
    """A row a run, its labels and the cell; InputError where nothing would be measured."""
    if not rows:
        raise InputError("the parameters ask for no run: give a recipe, a training size, a seed")
    return pd.DataFrame(rows)

"""Which cells a notebook needs, from its parameters alone: notebook and commands ask here.

A plan is a namespace of cells, of frames of runs (a *design*: labels and, in the column `run`, the
cell), or of lists. Each notebook's module makes its plan in `plan(parameters)`.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, Field, ValidationError

from interextra.data.queries import Part, Queries, Source
from interextra.models.architectures import architectures
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.encoders import encoder_of
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, load_recipe, recipe_name
from interextra.models.search.run import Run
from interextra.models.search.vectors import (
    PassageVectors,
    QueryVectors,
    TrainedVectors,
    Vectors,
)
from interextra.notebooks import module_of
from interextra.notebooks.parameters import (
    DrawParameters,
    Entry,
    GateParameters,
    NotebookParameters,
    ReSTrainParameters,
    ReSTTestParameters,
    RunParameters,
    TrainingParameters,
)
from interextra.splits import attributes
from interextra.splits.kinds import PassageKinds
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift
from interextra.splits.split import REGIMES, Clusters, Split
from interextra.store import Cell, InputError, offenders

Plan = SimpleNamespace
Row = dict[str, Any]  # of a design: labels, and the run
Recipes = dict[str, Recipe]  # label in tables → recipe
AnyQueries = Queries | Part
PROTOCOLS = ("ReSTrain", "ReSTTest")
KINDS = "passage-clusters"


class NamedShift(BaseModel, frozen=True, extra="forbid", strict=True):
    """A shift as a parameter gives it: the attribute, and options that are checked."""

    by: str = Field(alias="shift", min_length=1)
    given_name: str | None = Field(None, alias="name")
    clusters: list[str] = []
    train_size: int = 0
    n_test: int = 0

    @property
    def name(self) -> str:
        """Its name in tables; unless it is given, what its attribute is called."""
        if self.given_name:
            return self.given_name
        parts = self.by.split(":")
        return parts[-1] if attributes.is_code(self.by) else parts[0]

    @property
    def sizes(self) -> dict[str, int]:
        """Those of n_test and train_size that are given."""
        return self.model_dump(include={"n_test", "train_size"}, exclude_unset=True)


class Draw(NamedTuple):
    """A draw of few test queries, and the training sets that they decide."""

    number: int  # from 1
    test: tuple[Queries, ...]
    split: ReSTrain


class TrainingSet(NamedTuple):
    """Queries that a system is trained on, and how they are named in a design."""

    labels: dict[str, Any]
    queries: AnyQueries


def plan_of(notebook: str, p: NotebookParameters) -> Plan:
    """Return the plan of a notebook, checked before anything is computed.

    Parameters
    ----------
    notebook
        Its name, like `02_restrain`.
    p
        Its parameters.

    Raises
    ------
    InputError
        A split that the collection does not have, or what the notebook's own plan refuses.
    """
    for name, value in p:
        if name.endswith(("_split", "_splits")):
            splits = [value] if isinstance(value, str) else value
            test_queries(p, filter(None, splits))
    real_encoder = getattr(p, "real_encoder", "")
    if real_encoder:
        encoder_of(real_encoder)
    return module_of(notebook).plan(p)


def cells_of(plan: Any) -> list[Cell]:
    """Return all cells of a plan, a frame or a list, each once, in its order."""
    if isinstance(plan, Cell):
        return [plan]
    cells: dict[str, Cell] = {}
    for part in _parts_of(plan):
        for cell in cells_of(part):
            cells.setdefault(cell.key, cell)
    return list(cells.values())


def _parts_of(plan: Any) -> Iterable[Any]:
    """Return what may hold cells inside a value of a plan."""
    if isinstance(plan, Plan):
        return vars(plan).values()
    if isinstance(plan, pd.DataFrame):
        return plan.to_dict("list").values()
    if isinstance(plan, dict):
        return plan.values()
    return plan if isinstance(plan, list | tuple) else ()


def training_queries(p: TrainingParameters) -> Queries:
    """Return the queries of the training split that a training can learn from, or some of them."""
    source = Source.of(p.collection)
    queries = Queries(source=source, split=p.train_split, limit=p.train_limit, seed=p.seed)
    return queries.trainable()


def test_queries(p: NotebookParameters, splits: Iterable[str], **drawn: int) -> tuple[Queries, ...]:
    """Return the queries of some splits of the collection, or those `drawn` (see `Queries`)."""
    source = Source.of(p.collection)
    return tuple(Queries(source=source, split=split, **drawn) for split in splits)


def gate_queries(p: GateParameters) -> tuple[Queries, ...]:
    """Return the queries on which a system must beat BM25.

    Raises
    ------
    InputError
        They also train, or measure the loss.
    """
    others = {p.train_split, *getattr(p, "test_splits", ())}
    shared = others.intersection(p.gate_splits)
    if shared:
        raise InputError(
            f"parameter 'gate_splits': {offenders(sorted(shared))} is among the other splits; "
            "queries of the gate may neither train nor measure the loss: name another split, or "
            "none"
        )
    return gate_beside(p, ())


def gate_beside(p: GateParameters, splits: Iterable[str]) -> tuple[Queries, ...]:
    """Return the queries of the gate, `gate_limit` of each split that is not among these.

    What measures one protocol's loss may open the other one's gate.
    """
    others = [split for split in p.gate_splits if split not in splits]
    drawn = {"limit": p.gate_limit, "seed": p.seed} if p.gate_limit else {}
    return test_queries(p, others, **drawn)


def with_gate(p: GateParameters, splits: Iterable[str]) -> tuple[Queries, ...]:
    """Return the queries of some splits, and those of the gate that are not among them."""
    return (*test_queries(p, splits), *gate_beside(p, splits))


def named_recipe(entry: Entry, **options: Any) -> Recipe:
    """Return the recipe that a parameter names: its name, or {recipe: …, option: value}."""
    return load_recipe(recipe_name(entry), **options)


def recipe(p: TrainingParameters, entry: Entry, **options: Any) -> Recipe:
    """Return the recipe that a parameter names, as all systems of the notebook are trained.

    `steps` and `negative_passages` of the notebook go before the recipe's own, where they are set.
    """
    known = type(named_recipe(entry)).model_fields
    if "steps" in known and p.steps:
        options["steps"] = p.steps
    negative_passages = getattr(p, "negative_passages", "all")
    if "negative_passages" in known and negative_passages != "all":
        options["negative_passages"] = negative_passages
    return named_recipe(entry, **options)


def systems(p: TrainingParameters, entries: Sequence[Entry] | None = None) -> Recipes:
    """Return label in tables → recipe, in the order of some entries.

    Parameters
    ----------
    p
        Parameters of the notebook.
    entries
        The name of a recipe, whose label is that of its architecture, or {label: …, recipe: …,
        option: value}; default: the parameter `recipes`.

    Raises
    ------
    InputError
        A label that is no words, or that stands twice; a recipe that there is not.
    """
    if entries is None:
        entries = p.recipes
    recipes: Recipes = {}
    for entry in entries:
        options = {"recipe": entry} if isinstance(entry, str) else dict(entry)
        label = options.pop("label", "")
        if not isinstance(label, str):
            raise InputError(f"parameter 'recipes': the label {label!r} must be words")
        system = recipe(p, options)
        label = label or architectures()[system.architecture].LABEL
        if label in recipes:
            raise InputError(
                f"parameter 'recipes': {label!r} stands twice; give one of them another label"
            )
        recipes[label] = system
    return recipes


def with_bm25(recipes: Recipes, name: str = "recipes") -> Recipes:
    """Return the systems of a parameter, BM25 among them, which the gate asks for.

    Raises
    ------
    InputError
        None of them is BM25 with its own label.
    """
    if BM25 not in recipes or recipes[BM25].architecture != "bm25":
        raise InputError(
            f"parameter {name!r}: no system is BM25 with the label {BM25!r}, which the others must "
            f"beat in domain: add bm25; there are {', '.join(recipes) or 'none'}"
        )
    return recipes


def asked_of(p: NotebookParameters, part: str, recipes: Recipes) -> Recipes:
    """Return the systems of a shift or protocol: BM25 and those that `only` names, else all."""
    named = getattr(p, "only", {}).get(part)
    if not named:
        return recipes
    if not recipes.keys() & set(named):
        raise InputError(
            f"parameter 'only', {part}: {offenders(named)} is none of the systems "
            f"{offenders(recipes, 20)}"
        )
    asked = {BM25, *named}
    return {label: system for label, system in recipes.items() if label in asked}


def fields(entry: Any, *names: str, more: bool = False) -> list:
    """Return the values, words all, of these names in an entry of a parameter.

    Parameters
    ----------
    entry
        A mapping.
    names
        What it must have.
    more
        Whether it may have other options, which come last, as a dict.

    Raises
    ------
    InputError
        A name is missing or not words, or there are other options.

    Examples
    --------
    >>> fields({"label": "DR, pairwise", "recipe": "mini-dense"}, "label", "recipe")
    ['DR, pairwise', 'mini-dense']
    >>> fields({"recipe": "mini-dense", "loss": "pairwise"}, "recipe", more=True)
    ['mini-dense', {'loss': 'pairwise'}]
    """
    rest = dict(entry) if isinstance(entry, Mapping) else {}
    values = [rest.pop(name, None) for name in names]
    are_words = all(isinstance(value, str) and value for value in values)
    if not are_words or (rest and not more):
        parts = [f"{name}: …" for name in names]
        if more:
            parts.append("option: value")
        form = ", ".join(parts)
        raise InputError(f"parameter entry {entry!r}: write {{{form}}}, the values words")
    return [*values, rest] if more else values


def named_shift(entry: Entry) -> NamedShift:
    """Return a shift as a parameter gives it.

    Parameters
    ----------
    entry
        `topics`, kinds of passages (see `passage_kinds`) or an attribute (see
        `splits.attributes.attribute`); or a mapping with it as `shift`, and with `name`, `clusters`
        (those that take part), `train_size`, `n_test`.

    Raises
    ------
    InputError
        Another form.

    Examples
    --------
    >>> shift = named_shift({"shift": "column:qtype", "clusters": ["causes"], "n_test": 9})
    >>> shift.name, shift.by, shift.clusters, shift.sizes
    ('column', 'column:qtype', ['causes'], {'n_test': 9})
    >>> named_shift("python:interextra.world.truth:kind_of_question").name
    'kind_of_question'
    """
    options = {"shift": entry} if isinstance(entry, str) else entry
    try:
        return NamedShift.model_validate(options)
    except ValidationError:
        raise InputError(
            f"parameter 'shifts': {entry!r}: write {{shift: ATTRIBUTE, name: NAME, clusters: "
            "[CLUSTER, CLUSTER], train_size: NUMBER, n_test: NUMBER}"
        ) from None


def is_of_kinds(spec: str) -> bool:
    """Return whether a shift goes by kinds of passages."""
    return spec.partition(":")[0] == KINDS


def passage_kinds(p: TrainingParameters, spec: str) -> PassageKinds:
    """Return the kinds of passages that a parameter names.

    Parameters
    ----------
    p
        Parameters of the notebook; its seed is that of k-means.
    spec
        `passage-clusters:k=NUMBER`, with `,encoder=ENCODER` where it is not minilm.

    Raises
    ------
    InputError
        Another form; an encoder that there is not.
    """
    _, _, options = spec.partition(":")
    values = dict(option.partition("=")[::2] for option in options.split(","))
    k = values.pop("k", "")
    encoder = values.pop("encoder", "minilm")
    if values or not k.isdecimal():
        raise InputError(f"shift {spec!r}: write {KINDS}:k=NUMBER, or {KINDS}:k=NUMBER,encoder=lsa")
    encoder_of(encoder)
    pool = training_queries(p)
    vectors = PassageVectors(encoder=encoder, source=pool.source)
    return PassageKinds(vectors=vectors, pool=pool, k=int(k), seed=p.seed)


def shift_of(p: Any, named: NamedShift, topics: Clusters | None = None) -> Shift:
    """Return the shift of a parameter: by topics where these are given, by kinds, or an attribute.

    Sizes that it does not give are the notebook's n_test and train_size.
    """
    by: Clusters | str = named.by
    if topics is not None:
        by = topics
    elif is_of_kinds(named.by):
        by = passage_kinds(p, named.by)
    sizes = {"n_test": p.n_test, "train_size": p.train_size} | named.sizes
    pool = training_queries(p)
    return Shift(pool=pool, by=by, clusters=tuple(named.clusters), seed=p.seed, **sizes)


def one_shift(p: Any) -> Shift:
    """Return the shift of a notebook with the parameters shift, n_test and train_size."""
    return shift_of(p, named_shift(p.shift))


def tested_queries(p: Any, shift: Shift) -> tuple[AnyQueries, ...]:
    """Return the queries that measure a shift.

    They are those of the parameter `test_splits`, where there are some, else those that are held
    out of each cluster.

    Raises
    ------
    InputError
        There are none: neither splits, nor a number of queries to hold out.
    """
    test_splits = getattr(p, "test_splits", [])
    if test_splits:
        return test_queries(p, test_splits)
    if not shift.n_test:
        raise InputError(
            "parameter 'n_test': 0 queries are held out of each cluster, so that none would "
            "measure; give a number, or splits as 'test_splits'"
        )
    return (Part(of=shift, part="held-out"),)


def refuse_unknown(name: str, values: Iterable[str | int], known: Iterable[str | int]) -> None:
    """Raise an InputError for what the parameter `name` holds and is not known."""
    known = list(known)
    unknown = [value for value in values if value not in known]
    if unknown:
        there_are = offenders(known, 20) or "nothing"
        raise InputError(f"parameter {name!r}: {offenders(unknown)} is none of {there_are}")


def refuse_more_measures(measures: Sequence[str]) -> None:
    """Raise an InputError for several measures in the parameter of a notebook that takes one."""
    if len(measures) > 1:
        raise InputError(f"parameter 'measures': give one, not {offenders(measures)}")


def refuse_rows_of_more_measures(table: pd.DataFrame) -> None:
    """Raise an InputError for a table that has rows of several measures where one is meant."""
    measures = table["measure"].unique()
    if len(measures) > 1:
        raise InputError(f"rows of {offenders(measures)}: take those of one measure")


def runs(
    p: RunParameters,
    recipes: Recipes,
    training_sets: Sequence[TrainingSet],
    queries: tuple[AnyQueries, ...],
    **labels: Any,
) -> list[Row]:
    """Return rows of a design: each system, on each training set, with each of its seeds.

    Seeds are `seeds` for dense, `other_seeds` for the others where the notebook has them; one where
    nothing is trained.

    Parameters
    ----------
    p
        Parameters of the notebook.
    recipes
        Label → recipe.
    training_sets
        What each system is trained on.
    queries
        What each model searches for.
    labels
        Of all rows, before the others.
    """
    rows = []
    for label, system in recipes.items():
        for training_set, seed in itertools.product(training_sets, _seeds_of(p, system)):
            run = run_of(p, system, training_set.queries, seed, queries)
            rows.append({**labels, "model": label, **training_set.labels, "seed": seed, "run": run})
    return rows


def _seeds_of(p: Any, system: Recipe) -> list[int]:
    """Return the seeds of the trainings of a system; a single one where nothing is trained."""
    is_dense = system.architecture == "dense"
    seeds = p.seeds if is_dense else getattr(p, "other_seeds", p.seeds)
    return seeds if system.training_steps(1) else seeds[:1]


def run_of(
    p: RunParameters,
    system: Recipe,
    train: AnyQueries,
    seed: int,
    queries: tuple[AnyQueries, ...],
) -> Run:
    """Return what a model finds for some queries."""
    return Run(model=model_of(system, train, seed), queries=queries, depth=p.depth)


def query_vectors(p: TrainingParameters, test: tuple[Queries, ...]) -> QueryVectors:
    """Return vectors of training and test queries by `encoder`.

    `trained` is the first dense system, trained on all training queries.

    Raises
    ------
    InputError
        `trained`, and no system is dense.
    """
    train = training_queries(p)
    if p.encoder != "trained":
        return Vectors(encoder=p.encoder, train=train, test=test)
    for system in systems(p).values():
        if system.architecture == "dense":
            model = model_of(system, train, p.seed)
            return TrainedVectors(model=model, train=train, test=test)
    raise InputError(
        "parameter 'encoder': trained needs a dense recipe among `recipes`; give one, or minilm or "
        "lsa"
    )


def from_relevance(measures: Sequence[str], relevance: int) -> list[str]:
    """Return the measures with an R@100 that counts from this relevance on.

    Examples
    --------
    >>> from_relevance(["nDCG@10", "R@100"], 2)
    ['nDCG@10', 'R(rel=2)@100']
    """
    if relevance == 1:
        return list(measures)
    return [f"R(rel={relevance})@100" if name == "R@100" else name for name in measures]


def restrain_of(p: ReSTrainParameters, sizes: Sequence[int]) -> ReSTrain:
    """Return ReSTrain of the notebook's training queries, as seen from its test queries."""
    vectors = query_vectors(p, test_queries(p, p.test_splits))
    return ReSTrain(vectors=vectors, sizes=tuple(sizes), match=p.match, seed=p.seed)


def resttest_of(p: ReSTTestParameters, test_splits: Sequence[str]) -> ReSTTest:
    """Return ReSTTest of the notebook's training queries, with the queries of some splits.

    Each split counts once, with all of its queries, however few of them are searched.
    """
    test = test_queries(p, dict.fromkeys(test_splits))
    n_queries = sum(queries.size() for queries in test)
    if p.k > n_queries:
        raise InputError(f"parameter 'k': {p.k} buckets of {n_queries} test queries; give fewer")
    return ReSTTest(
        vectors=query_vectors(p, test),
        k=p.k,
        fold_size=p.fold_size,
        normalise=getattr(p, "normalise", True),
        seed=p.seed,
    )


def in_both_regimes(split: ReSTrain, sizes: Sequence[int]) -> list[TrainingSet]:
    """Return the training sets of a ReSTrain split: labels n_train and regime."""
    refuse_unknown("trained_sizes", sizes, split.sizes)
    training_sets = []
    for size, regime in itertools.product(sizes, REGIMES):
        part = Part(of=split, part=f"{regime}-{size}")
        training_sets.append(TrainingSet({"n_train": size, "regime": regime}, part))
    return training_sets


def without_each(split: Split) -> list[TrainingSet]:
    """Return the training sets of a leave-one-out split: label left_out."""
    return [
        TrainingSet({"left_out": name}, Part(of=split, part=f"without-{name}"))
        for name in split.names
    ]


def draws_of(p: DrawParameters) -> list[Draw]:
    """Return the draws of few test queries, with ReSTrain as seen from each."""
    draws = []
    for number in range(1, p.test_draws + 1):
        drawn = {"seed": p.seed, "block": number} if p.draw_disjoint else {"seed": number}
        test = test_queries(p, p.draw_splits, limit=p.test_size, **drawn)
        vectors = query_vectors(p, test)
        split = ReSTrain(vectors=vectors, sizes=(p.draw_train,), match=p.match)
        draws.append(Draw(number, test, split))
    return draws


def runs_of_draws(
    p: DrawParameters,
    recipes: Recipes,
    draws: Iterable[Draw],
    gate: tuple[Queries, ...] = (),
) -> pd.DataFrame:
    """Return the design of some draws, with trainings of their own as the paper has it.

    Parameters
    ----------
    p
        Parameters of the notebook.
    recipes
        Label → recipe.
    draws
        Of `draws_of`.
    gate
        Queries that each interpolation set answers, too, in runs of their own: so the runs of the
        draws are the same cells with and without it.

    Returns
    -------
    DataFrame
        draw, model, n_train, regime, run; with `draw_seeds` also seed, else the seed is the draw's
        and there is no second training. In rows of the gate, whose queries the models of all draws
        answer, left_out tells these models apart. No rows without draws.
    """
    rows = []
    for draw in draws:
        interpolation, extrapolation = in_both_regimes(draw.split, [p.draw_train])
        seeded = _with_seeds(p, p.draw_seeds or [draw.number])
        both = [interpolation, extrapolation]
        rows += runs(seeded, recipes, both, draw.test, draw=draw.number)
        if gate:
            labels = {"draw": draw.number, "left_out": str(draw.number)}
            rows += runs(seeded, recipes, [interpolation], gate, **labels)
    frame = pd.DataFrame(rows)
    return frame if p.draw_seeds else frame.drop(columns="seed", errors="ignore")


def _with_seeds(p: Any, seeds: list[int]) -> Any:
    """Return parameters with these seeds of the trainings of every system."""
    names = [name for name in ("seeds", "other_seeds") if name in type(p).model_fields]
    return p.changed(**dict.fromkeys(names, seeds))


def of_protocols(p: NotebookParameters, recipes: Recipes) -> tuple[Recipes, Recipes]:
    """Return the systems of ReSTrain and those of ReSTTest, as `only` has them.

    Raises
    ------
    InputError
        A system that the parameter `only` names for no protocol.
    """
    of_restrain = asked_of(p, "ReSTrain", recipes)
    of_resttest = asked_of(p, "ReSTTest", recipes)
    unasked = recipes.keys() - of_restrain.keys() - of_resttest.keys()
    if unasked:
        raise InputError(
            f"parameter 'only' names no protocol for {offenders(sorted(unasked))}: add it or empty "
            "'only'"
        )
    return of_restrain, of_resttest


def design(rows: list[Row]) -> pd.DataFrame:
    """Return a row a run: its labels and the cell.

    Raises
    ------
    InputError
        There is none: nothing would be measured.
    """
    if not rows:
        raise InputError("the parameters ask for no run: give a recipe, a training size, a seed")
    return pd.DataFrame(rows)


def training_runs(rows: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the training runs of a design as a page prints them.

    Parameters
    ----------
    rows
        Of a design: labels (regime or left_out among them), seed and run.
    by
        Labels that make a row.

    Returns
    -------
    DataFrame
        *by, training sets, seeds, training runs (how many models are trained, 0 for BM25).
    """
    lines = []
    for labels, part in rows.groupby(list(by), sort=False):
        names = part["regime"] if "regime" in part else part["left_out"]
        sets = ", ".join(names.unique())
        if "regime" not in part:
            sets = f"without {sets}"
        seeds = ", ".join(part["seed"].unique().astype(str))
        models = [run.model for run in part["run"]]
        trained = {model.key for model in models if model.recipe.training_steps(1)}
        lines.append((*labels, sets, seeds, len(trained)))
    columns = [*by, "training sets", "seeds", "training runs"]
    return pd.DataFrame(lines, columns=columns)

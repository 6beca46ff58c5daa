"""Notebook 06: training strategies and initialisations of a dense retriever.

Zhan et al. (CIKM 2022), section 5.2, Tables 8 to 10. Beyond the paper: initialisations that differ
in one thing only.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, get_args

import pandas as pd

from interextra.data.collection import Collection
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import Pretrained
from interextra.models.recipe import Pretraining, Recipe
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    Entry,
    GateParameters,
    Measures,
    Names,
    NamesByName,
    PretrainingParameters,
    Relevance,
    ReSTrainParameters,
    ReSTTestParameters,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.papers import published
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.stats.bootstrap import interval
from interextra.stats.effects import Effects
from interextra.stats.formatting import with_interval, with_unit
from interextra.store import InputError, Store

OBJECTIVES = get_args(Pretraining.model_fields["objective"].annotation)  # those of ours
# Objectives with a task for the whole text; the last two are of given weights: MiniLM's, and the
# tiny base's
TEXT_LEVEL = ("order", "condenser", "spans", "pairs", "bag")
# Row of Table 9 → (objective, whether the target collection was read) of our initialisation in its
# place
ROLES = {
    "Rand": ("none", False),
    "RoBERTa": ("words", False),
    "BERT": ("order", False),
    "ERNIE2.0": ("order", False),
    "Condenser": ("condenser", False),
    "coCon-wiki": ("spans", False),
    "coCon-marco": ("spans", True),
}
TARGET_ROLE = "coCon-marco"
# An objective, and the one to which it adds one thing
STEPS = (
    ("words", "none"),
    ("order", "words"),
    ("condenser", "words"),
    ("spans", "condenser"),
)


class Start(TypedDict):
    """An initialisation, see `start_in`."""

    model: str
    objective: str
    text: str
    made: str
    recipe: Recipe


class Parameters(ReSTrainParameters, GateParameters, ReSTTestParameters, PretrainingParameters):
    """Parameters of notebook 06, training strategies and initialisations."""

    protocols: Names = parameter(
        ["ReSTrain"], "ReSTrain alone, or also ReSTTest with one model per bucket", paper="both"
    )
    mapped: Names = parameter(
        ["Rand", "coCondenser, target"],
        "initialisations whose passage vectors are plotted",
        paper="Rand, coCon-marco",
    )
    map_queries: Thousands = parameter(6, "queries whose relevant passages are plotted")
    trained_sizes: Sizes = parameter(
        [1600], "sizes that are trained on, some of `sizes`", paper="45k"
    )
    seeds: Seeds = parameter([1], "seeds of the training runs, and of the pretrainings before them")
    test_splits: Names = parameter(
        ["test", "graded"], "ReSTrain: test queries", paper="the 97 judged of DL19 and DL20"
    )
    resttest_splits: Names = parameter(
        ["test", "graded"], "ReSTTest: test queries", paper="the 6,980 of dev"
    )
    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "BM25, and the dense system of that encoder"
    )
    strategies: Entries = parameter(
        [
            "bm25",
            {"label": "Random", "recipe": "mini-dense"},
            {"label": "Random, longer", "recipe": "mini-dense", "steps": 130},
            {"label": "STAR", "recipe": "mini-star"},
            {"label": "ADORE", "recipe": "mini-adore"},
            {"label": "TCT-ColBERT", "recipe": "mini-tct"},
        ],
        "training strategies",
    )
    starts: Entries = parameter(
        [
            {
                "label": "Rand",
                "objective": "none",
                "text": "none",
                "recipe": "mini-dense",
                "initialisation": "random",
            },
            {"label": "identity attention", "objective": "none", "text": "none"},
            {"label": "words", "objective": "words", "text": "other"},
            {"label": "order", "objective": "order", "text": "other"},
            {"label": "Condenser", "objective": "condenser", "text": "other"},
            {"label": "coCondenser, other text", "objective": "spans", "text": "other"},
            {"label": "coCondenser, target", "objective": "spans", "text": "target"},
            {"label": "tiny base", "objective": "bag", "text": "other", "recipe": "mini-dense"},
        ],
        "objective: none, words, order, condenser, spans; text: none, other, target; with a recipe "
        "its own weights",
    )

    only: NamesByName = parameter(
        {}, "protocol: its strategies and initialisations beside BM25; of one not named all"
    )
    restrain_measures: Measures = parameter(
        ["nDCG@10", "R@100"], "under ReSTrain; the training strategies are judged by the first"
    )
    resttest_measures: Measures = parameter(["RR@10", "R@100"], "the same under ReSTTest")
    start_measures: Measures = parameter(
        ["nDCG@10", "RR@10"],
        "the initialisations are judged by: first under ReSTrain, last under ReSTTest",
        paper="R@100",
    )
    recall_relevance: Relevance = parameter(
        2, "relevance from which R@100 counts under ReSTrain; 2 reproduces the paper's BM25"
    )


def plan(p: Parameters) -> plans.Plan:
    """Return the training strategies and the initialisations, each in the protocols asked for.

    Returns
    -------
    Plan
        The splits `sets` (ReSTrain) and `buckets` (ReSTTest, or None), `measures` (under ReSTrain),
        `pretrained` (label → Pretrained of its first training), `marks` (see there), `judged_by`
        (study → protocol → measure), and frames of runs with the columns of notebook 05:
        `strategies_restrain`, `strategies_resttest`, `starts_restrain`, `starts_resttest`; those
        of ReSTTest are empty without that protocol.

    Raises
    ------
    InputError
        Protocols without ReSTrain or that there are not, an unknown initialisation in `mapped`, a
        measure that is not measured.
    """
    strategies = plans.with_bm25(plans.systems(p, p.strategies), "strategies")
    starts = [start_in(p, entry) for entry in p.starts]
    recipes_of_starts = {start["model"]: start["recipe"] for start in starts}
    _refuse_protocols(p.protocols)
    plans.refuse_unknown("mapped", p.mapped, recipes_of_starts)
    sets = plans.restrain_of(p, p.sizes)
    has_buckets = "ReSTTest" in p.protocols
    clustered_splits = [*p.resttest_splits, *p.gate_splits]
    buckets = plans.resttest_of(p, clustered_splits) if has_buckets else None
    designs = _designs("strategies", p, sets, buckets, strategies)
    systems_of_starts = {BM25: strategies[BM25], **recipes_of_starts}
    designs |= _designs("starts", p, sets, buckets, systems_of_starts)
    measures = plans.from_relevance(p.restrain_measures, p.recall_relevance)
    return plans.Plan(
        sets=sets,
        buckets=buckets,
        measures=measures,
        pretrained=_pretrained(designs["starts_restrain"]),
        marks=marks(starts),
        judged_by=_judged_by(p, measures),
        **designs,
    )


def _refuse_protocols(protocols: Sequence[str]) -> None:
    """Raise InputError for protocols without ReSTrain, or that there are not."""
    unknown = set(protocols).difference(plans.PROTOCOLS)
    if unknown or "ReSTrain" not in protocols:
        raise InputError("parameter 'protocols': write ReSTrain, or ReSTrain and ReSTTest")


def _designs(
    study: str,
    p: Parameters,
    sets: ReSTrain,
    buckets: ReSTTest | None,
    systems: plans.Recipes,
) -> dict[str, pd.DataFrame]:
    """Return the designs of a study by name, STUDY_restrain and STUDY_resttest."""
    of_restrain, of_resttest = plans.of_protocols(p, systems)
    in_regimes = plans.in_both_regimes(sets, p.trained_sizes)
    restrain = plans.runs(p, of_restrain, in_regimes, plans.test_queries(p, p.test_splits))
    # claims are made of ReSTTest alone: only there the queries of the gate are searched
    searched = plans.with_gate(p, p.resttest_splits)
    folds = plans.without_each(buckets) if buckets else []
    resttest = plans.runs(p, of_resttest, folds, searched)
    return {
        f"{study}_restrain": plans.design(restrain),
        f"{study}_resttest": pd.DataFrame(resttest),
    }


def _pretrained(design: pd.DataFrame) -> dict[str, Pretrained]:
    """Return label → what the first training of each pretrained model starts from."""
    pretrained: dict[str, Pretrained] = {}
    for row in design.itertuples():
        first = row.run.model.first
        if isinstance(first, Pretrained):
            pretrained.setdefault(row.model, first)
    return pretrained


def _judged_by(p: Parameters, restrain_measures: list[str]) -> dict[str, dict[str, str]]:
    """Return study → protocol → the measure that judges; refuse one that is not measured."""
    start_measures = plans.from_relevance(p.start_measures, p.recall_relevance)
    of_starts = {"ReSTrain": start_measures[0], "ReSTTest": p.start_measures[-1]}
    measured = {"ReSTrain": restrain_measures, "ReSTTest": p.resttest_measures}
    for protocol in p.protocols:
        name = f"start_measures, {protocol}"
        plans.refuse_unknown(name, [of_starts[protocol]], measured[protocol])
    of_strategies = {protocol: measures[0] for protocol, measures in measured.items()}
    return {"starts": of_starts, "strategies": of_strategies}


def start_in(p: PretrainingParameters, entry: Entry) -> Start:
    """Return an initialisation as an entry of the parameter `starts` gives it.

    Parameters
    ----------
    p
        Parameters of the notebook.
    entry
        {label, objective, text} is pretrained by us from `start_recipe` (made: ours); with a
        recipe and its options it is given weights (base, where we start from them, or given).

    Returns
    -------
    dict
        model (its label), objective, text (none, other, target), made and recipe.

    Raises
    ------
    InputError
        A `start_recipe` that is not dense, an unknown objective or text.
    """
    label, objective, text, options = plans.fields(entry, "label", "objective", "text", more=True)
    base = plans.named_recipe(p.start_recipe)
    plans.refuse_unknown("start_recipe, architecture", [base.architecture], ["dense"])
    corpora = {"none": (), "other": p.other_text, "target": (p.collection,)}
    plans.refuse_unknown(f"starts, {label}", [text], corpora)
    if options:
        plans.fields(options, "recipe", more=True)
        plans.refuse_unknown(f"starts, {label}", [objective], [*OBJECTIVES, *TEXT_LEVEL])
        is_base = objective != "none" and plans.named_recipe(options) == base
        made = "base" if is_base else "given"
        recipe = plans.recipe(p, options)
    else:
        made = "ours"
        recipe = _pretrained_by_us(p, base, objective, corpora[text])
    return {"model": label, "objective": objective, "text": text, "made": made, "recipe": recipe}


def _pretrained_by_us(
    p: PretrainingParameters, base: Any, objective: str, corpus: Sequence[str]
) -> Recipe:
    """Return the recipe of `start_recipe`, `base`, pretrained on collections before."""
    pretraining = {
        "objective": objective,
        "corpus": corpus,
        "pooling": base.pooling,
        "precision": base.precision,
        "steps": p.pretraining_steps,
        "learning_rate": p.pretraining_rate,
    }
    return plans.recipe(p, p.start_recipe, pretraining=pretraining)


def marks(starts: Sequence[Start]) -> pd.DataFrame:
    """Return what each initialisation has had, and whose place in Table 9 it takes.

    What is pretrained from a base has its te, too, and then takes no role of one without te.

    Parameters
    ----------
    starts
        Of `start_in`.

    Returns
    -------
    pandas.DataFrame
        model, objective, text, te (a task for the whole text), tc (target read), made, role (row
        of Table 9); a row an initialisation.
    """
    bases = [start for start in starts if start["made"] == "base"]
    base_has_te = any(base["objective"] in TEXT_LEVEL for base in bases)
    rows = []
    for start in starts:
        has_from_base = base_has_te and start["made"] == "ours"
        te = start["objective"] in TEXT_LEVEL or has_from_base
        tc = start["text"] == "target"
        role = _role(start, te, tc)
        rows.append({**start, "te": te, "tc": tc, "role": role})
    columns = ["model", "objective", "text", "te", "tc", "made", "role"]
    return pd.DataFrame(rows, columns=columns)


def _role(start: Start, te: bool, tc: bool) -> str:
    """Return the row of Table 9 whose place an initialisation takes; "": none."""
    label, objective = start["model"], start["objective"]
    if label in ROLES:
        return label
    is_base = objective == "none" and start["made"] == "ours"  # not random
    has_te_from_base = te and objective not in TEXT_LEVEL
    if is_base or has_te_from_base:
        return ""
    for role, objective_and_tc in ROLES.items():
        if objective_and_tc == (objective, tc):
            return role
    return ""


def relevant_passages(
    data: Collection, queries: pd.DataFrame, qrels: pd.DataFrame, least: int
) -> pd.DataFrame:
    """Return relevant passages as in Table 10, first the query that has most.

    A passage of several queries is left out, and then a query with fewer than `least`.

    Returns
    -------
    pandas.DataFrame
        query_id, query, row (of the passage in the collection).
    """
    is_asked = qrels["query_id"].isin(queries["query_id"])
    relevant = qrels[is_asked & (qrels["relevance"] >= 1)]
    of_one_query = relevant[~relevant["doc_id"].duplicated(keep=False)]
    size = of_one_query.groupby("query_id")["doc_id"].transform("size")
    passages = of_one_query.assign(size=size)[size >= least]
    texts = queries.set_index("query_id")["text"]
    passages["query"] = passages["query_id"].map(texts)
    passages["row"] = data.passages.rows(passages["doc_id"].tolist())
    passages = passages.sort_values(
        ["size", "query_id"], ascending=[False, True], kind="stable", ignore_index=True
    )
    return passages[["query_id", "query", "row"]]


def published_table(number: int, recall_relevance: int) -> pd.DataFrame:
    """Return Δ of Table 8 or 9.

    Parameters
    ----------
    number
        8 or 9.
    recall_relevance
        From which relevance our R@100 counts; the paper's is read as 2 under ReSTrain (notebook
        02).

    Returns
    -------
    pandas.DataFrame
        role (initialisation, in Table 8 with training strategy), protocol, measure, scaled,
        rounding.
    """
    printed = published.load("zhan", number)
    deltas = printed[printed["regime"] == "delta"]
    role = deltas["plm"]
    if number == 8:
        role = role + ", " + deltas["finetune"]
    measure = deltas["measure"]
    if recall_relevance == 1:
        measure = measure.str.replace("(rel=2)", "", regex=False)
    labelled = deltas.assign(role=role, measure=measure)
    return labelled[["role", "protocol", "measure", "scaled", "rounding"]]


def reached(starts: Effects, recall_relevance: int) -> pd.DataFrame:
    """Return extrapolation from pretraining on the target minus interpolation from another start.

    Table 9 and section 5.2.4, by R@100. At 0 or above, the first extrapolates as well as the other
    interpolates.

    Parameters
    ----------
    starts
        Effects with model, role, protocol, measure, of both regimes.
    recall_relevance
        See `published_table`.

    Returns
    -------
    pandas.DataFrame
        protocol, measure, model (the other), difference, low, high, published; a row for each other
        initialisation that has a role in the paper.
    """
    printed = _published_levels(recall_relevance)
    rows = []
    for (protocol, measure), part in starts.groupby(["protocol", "measure"], sort=False):
        target = part[part["role"] == TARGET_ROLE].head(1)
        others = part[part["role"].isin(ROLES.keys() - {TARGET_ROLE})]
        if target.empty or (protocol, measure, TARGET_ROLE) not in printed.index:
            continue
        level = target["extrapolation"].item()
        printed_level = printed.loc[(protocol, measure, TARGET_ROLE), "extrapolation"]
        drawn = target.drawn("second") - others.drawn("first")
        for other, draws in zip(others.itertuples(), drawn, strict=True):
            printed_other = printed.loc[(protocol, measure, other.role), "interpolation"]
            difference = level - other.interpolation
            row = (protocol, measure, other.model, difference, *interval(draws))
            rows.append((*row, printed_level - printed_other))
    columns = ["protocol", "measure", "model", "difference", "low", "high", "published"]
    return pd.DataFrame(rows, columns=columns)


def _published_levels(recall_relevance: int) -> pd.DataFrame:
    """Return the means of Table 9 in both regimes, by protocol, measure and initialisation."""
    printed = published.load("zhan", 9)
    measure = printed["measure"]
    if recall_relevance == 1:
        measure = measure.str.replace("(rel=2)", "", regex=False)
    by = ["protocol", "measure", "plm"]
    return printed.assign(measure=measure).pivot_table("scaled", by, "regime")


def reached_sentences(gaps: pd.DataFrame) -> list[str]:
    """Return for each protocol how many interpolations are reached, here and in the paper.

    `gaps`: of `reached`.
    """
    sentences = []
    for protocol, part in gaps.groupby("protocol", sort=False):
        n = len(part)
        n_reached = (part["difference"] >= 0).sum()
        n_missed = (part["high"] < 0).sum()
        n_published = (part["published"] >= 0).sum()
        reaches = f"reaches {n_reached} of {n} others in interpolation"
        below = f"is shown to stay below {n_missed} of them"
        sentences.append(
            f"{protocol}: pretrained on the target, a model in extrapolation {reaches}\n"
            f"and {below}; published: it reaches {n_published} of {n}."
        )
    return sentences


def reached_page(gaps: pd.DataFrame) -> pd.DataFrame:
    """Return `reached` for the page, a row an initialisation and columns for each protocol."""
    page = with_interval(gaps, "difference", "points")
    page["published"] = [with_unit(value, "points") for value in gaps["published"]]
    wide = page.pivot(index="model", columns="protocol", values=["difference", "published"])
    wide.columns = [f"{protocol}, {what}" for what, protocol in wide.columns]
    return wide.loc[gaps["model"].unique(), sorted(wide.columns)].reset_index()


def differing(marks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Return pairs of our initialisations of which the first has one thing more.

    Starts that others pretrained differ in much at once; only the base counts, as that to which
    nothing was added.

    Returns
    -------
    dict
        (label, label) → what the first has more: an objective, or the target's text.
    """
    model_of = {}
    for start in marks.itertuples():
        if start.made != "given":
            objective = "none" if start.made == "base" else start.objective
            model_of[objective, start.tc] = start.model
    added = {}
    for objective, simpler in STEPS:
        on_other, on_target = (objective, False), (objective, True)
        comparisons = (
            (on_other, (simpler, False), objective),
            (on_target, (simpler, simpler != "none"), f"{objective}, on the target"),
            (on_target, on_other, f"{objective}: the target"),
        )
        for first, second, name in comparisons:
            if first in model_of and second in model_of:
                added[model_of[first], model_of[second]] = name
    return added


def steps(starts: Effects, marks: pd.DataFrame) -> Effects:
    """Return what each thing that a pretraining adds does to Δ.

    Returns
    -------
    Effects
        Rows of `contrast` with `added`, see `differing`.
    """
    added = differing(marks)
    contrasts = starts.contrast("model", list(added))
    pairs = zip(contrasts["first"], contrasts["second"], strict=True)
    return contrasts.assign(added=[added[pair] for pair in pairs])


def learnt(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """Return what each could before and after pretraining, on held-out passages of its text.

    Returns
    -------
    pandas.DataFrame
        model, what, before, after.
    """
    rows = []
    for model, cell in pretrained.items():
        path = store[cell] / "pretraining.json"
        log = json.loads(path.read_text(encoding="utf-8"))
        for what, before in log.get("before", {}).items():
            row = (model, what, before, log["after"][what])
            rows.append(row)
    return pd.DataFrame(rows, columns=["model", "what", "before", "after"])


def on_target(pretrained: Mapping[str, Pretrained], target: str, store: Store) -> pd.DataFrame:
    """Return what each initialisation can on held-out passages of what `target` read.

    Returns
    -------
    pandas.DataFrame
        model, words_loss, span_accuracy.
    """
    from interextra.models.training.objectives import Objective, opened, read  # which imports torch

    how = pretrained[target].how
    collections = [source.open() for source in pretrained[target].corpus]
    words = how.model_copy(update={"objective": "words"})
    rows = []
    for model, cell in pretrained.items():
        path = store[cell] / "weights"
        weights, tokenizer = opened(str(path), cell.seed)
        held_out, _ = read(how, collections, tokenizer)
        measured = Objective(weights, tokenizer, words).measure(held_out, 0, how.batch_size)
        rows.append({"model": model} | measured)
    return pd.DataFrame(rows)

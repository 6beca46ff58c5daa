"""Zhan et al., section 5.2: training strategies and initialisations of a dense retriever (Tables 8
to 10).

Beyond the paper: initialisations that differ in one thing only.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, get_args

import pandas as pd
from pydantic import Field

from interextra.data.collection import Collection
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import Pretrained
from interextra.models.recipe import Pretraining
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    Entries,
    GateParameters,
    Measures,
    Names,
    PretrainingParameters,
    ReSTrainParameters,
    ReSTTestParameters,
    Seeds,
    Sizes,
    Thousands,
    parameter,
)
from interextra.papers import published
from interextra.store import InputError, Store

OBJECTIVES = get_args(Pretraining.model_fields["objective"].annotation)  # those of ours
# Objectives with a task for the whole text; the last two are of given weights: MiniLM's, and the
# tiny base's
TEXT_LEVEL = ("order", "condenser", "spans", "pairs", "bag")
# : Row of Table 9 → (objective, whether the target collection was read) of our initialisation in
# its place.
ROLES = {
    "Rand": ("none", False),
    "RoBERTa": ("words", False),
    "BERT": ("order", False),
    "ERNIE2.0": ("order", False),
    "Condenser": ("condenser", False),
    "coCon-wiki": ("spans", False),
    "coCon-marco": ("spans", True),
}


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
        "objective: none, words, order, condenser, spans; text: none, other, target; with a recipe its own weights",
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
    recall_relevance: Annotated[int, Field(ge=1, le=10)] = parameter(
        2, "relevance from which R@100 counts under ReSTrain; 2 reproduces the paper's BM25"
    )


def plan(p: Parameters) -> plans.Plan:
    """Frames of runs, as in notebook 05: `strategies_restrain`, `strategies_resttest`,
    `starts_restrain`, `starts_resttest`; those of ReSTTest are empty without that protocol.

    `pretrained`: label → Pretrained of its first training. `marks`: see there. `judged_by`: study →
    protocol → measure.
    """
    ways = plans.with_bm25(plans.systems(p, p.strategies), "strategies")
    starts = [start_in(p, entry) for entry in p.starts]
    if "ReSTrain" not in p.protocols or set(p.protocols) - {"ReSTrain", "ReSTTest"}:
        raise InputError("parameter 'protocols': write ReSTrain, or ReSTrain and ReSTTest")
    plans.refuse_unknown("mapped", p.mapped, [start["model"] for start in starts])
    sets, used = (
        plans.restrain_of(p, p.sizes),
        plans.from_relevance(p.restrain_measures, p.recall_relevance),
    )
    # claims are made of ReSTTest alone
    asked = p.changed(resttest_splits=plans.with_gate(p).resttest_splits)
    buckets = plans.resttest_of(p, asked.resttest_splits) if "ReSTTest" in p.protocols else None
    begun, frames = {BM25: ways[BM25]} | {start["model"]: start["recipe"] for start in starts}, {}
    for study, made in (("strategies", ways), ("starts", begun)):
        restrain, resttest = plans.both_protocols(asked, sets, buckets, made)
        frames |= {
            f"{study}_restrain": plans.design(restrain),
            f"{study}_resttest": pd.DataFrame(resttest),
        }
    pretrained: dict[str, Pretrained] = {}
    for row in restrain:
        if isinstance(row["run"].model.first, Pretrained):
            pretrained.setdefault(row["model"], row["run"].model.first)
    known = {"ReSTrain": used, "ReSTTest": p.resttest_measures}
    judged_by = {
        "starts": {
            "ReSTrain": plans.from_relevance(p.start_measures, p.recall_relevance)[0],
            "ReSTTest": p.start_measures[-1],
        }
    }
    judged_by["strategies"] = {protocol: measures[0] for protocol, measures in known.items()}
    for protocol in p.protocols:
        plans.refuse_unknown(
            f"start_measures, {protocol}", [judged_by["starts"][protocol]], known[protocol]
        )
    more = {"pretrained": pretrained, "marks": marks(starts), "judged_by": judged_by}
    return plans.Plan(sets=sets, buckets=buckets, measures=used, **more, **frames)


def start_in(p: PretrainingParameters, entry: Mapping[str, Any]) -> dict[str, Any]:
    """An initialisation: model (its label), objective, text (none, other, target), made and recipe.

    {label, objective, text} are pretrained by us from `start_recipe` (made: ours); with a recipe
    and its options they are given weights (base, where we start from them, or given).
    """
    label, objective, text, options = plans.fields(entry, "label", "objective", "text", more=True)
    base = plans.named_recipe(p.start_recipe)
    plans.refuse_unknown("start_recipe, architecture", [base.architecture], ["dense"])
    read = {"none": (), "other": p.other_text, "target": (p.collection,)}
    plans.refuse_unknown(f"starts, {label}", [text], read)
    start = {"model": label, "objective": objective, "text": text}
    steps = {"steps": p.steps} if p.steps else {}
    if options:
        plans.fields(options, "recipe", more=True)
        plans.refuse_unknown(f"starts, {label}", [objective], [*OBJECTIVES, *TEXT_LEVEL])
        is_base = plans.named_recipe(options) == base and objective != "none"
        recipe = plans.named_recipe(options, **steps)
        return start | {"made": "base" if is_base else "given", "recipe": recipe}
    pretraining = {
        "objective": objective,
        "corpus": read[text],
        "pooling": base.pooling,
        "precision": base.precision,
        "steps": p.pretraining_steps,
        "learning_rate": p.pretraining_rate,
    }
    recipe = plans.named_recipe(p.start_recipe, pretraining=pretraining, **steps)
    return start | {"made": "ours", "recipe": recipe}


def marks(starts: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A row an initialisation: model, objective, text, te (a task for the whole text), tc (target
    read), made, role.

    What is pretrained from a base has its te, too, and then takes no role, the row of Table 9, of
    one without te.
    """
    before = any(start["made"] == "base" and start["objective"] in TEXT_LEVEL for start in starts)
    rows = []
    for start in starts:
        label, objective, made = start["model"], start["objective"], start["made"]
        te, tc = objective in TEXT_LEVEL or (before and made == "ours"), start["text"] == "target"
        takes = (objective != "none" or made == "given") and te == (
            objective in TEXT_LEVEL
        )  # base: not random
        fitting = [name for name, of in ROLES.items() if takes and of == (objective, tc)]
        rows.append(
            start
            | {"te": te, "tc": tc, "role": label if label in ROLES else next(iter(fitting), "")}
        )
    return pd.DataFrame(rows, columns=["model", "objective", "text", "te", "tc", "made", "role"])


def relevant_passages(
    data: Collection, queries: pd.DataFrame, qrels: pd.DataFrame, least: int
) -> pd.DataFrame:
    """Relevant passages as in Table 10: query_id, query, row (in the collection); first the query
    that has most.

    A passage of several queries is left out, and then a query with fewer than `least`.
    """
    found = qrels[(qrels["relevance"] >= 1) & qrels["query_id"].isin(queries["query_id"])]
    found = found[~found["doc_id"].duplicated(keep=False)]
    size = found.groupby("query_id")["doc_id"].transform("size").rename("size")
    found = found.assign(size=size)[size >= least].merge(
        queries[["query_id", "text"]], on="query_id"
    )
    found = found.assign(row=data.passages.rows(found["doc_id"].tolist())).rename(
        columns={"text": "query"}
    )
    found = found.sort_values(
        ["size", "query_id"], ascending=[False, True], kind="stable", ignore_index=True
    )
    return found[["query_id", "query", "row"]]


def published_table(number: int, recall_relevance: int) -> pd.DataFrame:
    """Δ of Table 8 or 9: role (initialisation, in Table 8 with training strategy), protocol,
    measure, scaled, rounding.

    `recall_relevance`: from which relevance our R@100 counts; the paper's is read as 2 under
    ReSTrain (notebook 02).
    """
    frame = published.load("zhan", number).query("regime == 'delta'")
    role = frame["plm"] if number == 9 else frame["plm"] + ", " + frame["finetune"]
    measure = (
        frame["measure"]
        if recall_relevance > 1
        else frame["measure"].str.replace("(rel=2)", "", regex=False)
    )
    return frame.assign(role=role, measure=measure)[
        ["role", "protocol", "measure", "scaled", "rounding"]
    ]


STEPS = (("words", "none"), ("order", "words"), ("condenser", "words"), ("spans", "condenser"))


def differing(marks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Pairs of our initialisations of which the first has one thing more, and what: an objective,
    or the target's text.

    Starts that others pretrained differ in much at once; only the base counts, as that to which
    nothing was added.
    """
    ours = marks[marks["made"] != "given"]
    of = {
        ("none" if row.made == "base" else row.objective, row.tc): row.model
        for row in ours.itertuples()
    }
    pairs = []
    for one, two in STEPS:
        pairs.append(((one, False), (two, False), one))
        pairs.append(((one, True), (two, two != "none"), f"{one}, on the target"))
        pairs.append(((one, True), (one, False), f"{one}: the target"))
    return {
        (of[first], of[second]): name
        for first, second, name in pairs
        if {first, second} <= of.keys()
    }


def steps(starts: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """What each thing that a pretraining adds does to Δ: rows of `contrast` with `added`, see
    `differing`.
    """
    added = differing(marks)
    made = starts.contrast("model", list(added))
    return made.assign(
        added=[added[pair] for pair in zip(made["first"], made["second"], strict=True)]
    )


def learnt(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """What each could before and after pretraining, on held-out passages of its text: model, what,
    before, after.
    """
    rows = []
    for model, cell in pretrained.items():
        log = json.loads((store[cell] / "pretraining.json").read_text(encoding="utf-8"))
        rows += [
            (model, what, value, log["after"][what])
            for what, value in log.get("before", {}).items()
        ]
    return pd.DataFrame(rows, columns=["model", "what", "before", "after"])


def on_target(pretrained: Mapping[str, Pretrained], target: str, store: Store) -> pd.DataFrame:
    """Of each initialisation, on held-out passages of what `target` read: model, words_loss,
    span_accuracy.
    """
    from interextra.models.training.objectives import Objective, opened, read  # which imports torch

    how, collections = (
        pretrained[target].how,
        [source.open() for source in pretrained[target].corpus],
    )
    rows, asked = [], how.model_copy(update={"objective": "words"})
    for model, cell in pretrained.items():
        weights, tokenizer = opened(str(store[cell] / "weights"), cell.seed)
        held, _ = read(how, collections, tokenizer)
        rows.append(
            {"model": model} | Objective(weights, tokenizer, asked).measure(held, 0, how.batch_size)
        )
    return pd.DataFrame(rows)

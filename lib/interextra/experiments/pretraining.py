"""Zhan et al., section 5.2: what ways of training and starts of a dense retriever do to both regimes (Tables 8 to 10).

Beyond the paper: each way of training also with negatives that are never exposed (notebook 09), and starts that differ
only in the objective and the text of their pretraining.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple, get_args

import pandas as pd

from interextra.data.collection import Collection
from interextra.experiments import plans
from interextra.experiments.plans import Plan
from interextra.ground.errors import InputError, offenders
from interextra.models.pretrained import Pretrained
from interextra.models.recipe import Pretraining, Recipe, load_recipe
from interextra.papers import published
from interextra.papers.claims import BM25, judged, listed, said, sentences

NOTEBOOK = "06_pretraining_study"
OBJECTIVES = get_args(Pretraining.model_fields["objective"].annotation)  # those of ours
# Objectives with a task for the whole text; the last two are of given weights: MiniLM's, and the tiny base's
TEXT_LEVEL = ("order", "condenser", "spans", "pairs", "bag")
# What a finding is about, as a question: three conclusions of the paper, each with what follows from it
READ, MORE = "Does pretraining make the loss smaller", "Smaller than that of the weights which it went on from"
WHOLE = "Does a task for the whole text make it smaller"
TARGET, BEYOND = "Does reading the target collection make it smaller", "More than another way of training does"
GAIN, NARROW = "Do hard negatives and distillation gain in interpolation", "Do they make the loss smaller"
EXPOSED = "Is exposure part of the loss"
ORDER = (READ, MORE, WHOLE, TARGET, BEYOND, GAIN, NARROW, EXPOSED)
#: Row of Table 9 → (objective, whether the target collection was read) of the start of ours in its place.
ROLES = {
    "Rand": ("none", False),
    "RoBERTa": ("words", False),
    "BERT": ("order", False),
    "ERNIE2.0": ("order", False),
    "Condenser": ("condenser", False),
    "coCon-wiki": ("spans", False),
    "coCon-marco": ("spans", True),
}


def plan(p: dict) -> Plan:
    """Frames of runs, as in notebook 05 with the column negative_passages: `strategies_restrain`,
    `strategies_resttest`, `starts_restrain`, `starts_resttest`; those of ReSTTest are empty without that protocol.

    `pretrained`: label → the Pretrained of its first training. `marks`: what each start has, see `marks`. `judged_by`:
    study → protocol → measure.
    """
    ways = plans.with_bm25(plans.systems(p | {"recipes": p["strategies"]}), "strategies")
    starts = [start_in(p, text) for text in p["starts"]]
    if "ReSTrain" not in p["protocols"] or set(p["protocols"]) - {"ReSTrain", "ReSTTest"}:
        raise InputError("parameter 'protocols': write ReSTrain, or ReSTrain and ReSTTest")
    for name, known in (("spared", "strategies"), ("bases", "strategies"), ("mapped", "starts")):
        if unknown := set(p[name]) - (ways.keys() if known == "strategies" else {start.label for start in starts}):
            raise InputError(f"parameter {name!r}: {offenders(sorted(unknown))} is none of the {known}")
    sets, used = plans.restrain_of(p), plans.measures_of(p, "restrain_measures")
    buckets = plans.resttest_of(p, p["resttest_splits"]) if "ReSTTest" in p["protocols"] else None
    spared = [label for label in ways if label in p["spared"]]
    unexposed = {label: plans.changed(ways[label], negative_passages="unexposed") for label in spared}
    begun = {BM25: ways[BM25]} | {start.label: start.recipe for start in starts}
    rows = {f"{study}_{protocol}": [] for study in ("strategies", "starts") for protocol in ("restrain", "resttest")}
    trained = (("strategies", "all", ways), ("strategies", "unexposed", unexposed), ("starts", "all", begun))
    for study, passages, made in trained:
        for protocol, found in plans.both_protocols(p, sets, buckets, made, negative_passages=passages).items():
            rows[f"{study}_{protocol}"] += found
    frames = {name: plans.design(found) if "restrain" in name else pd.DataFrame(found) for name, found in rows.items()}
    pretrained: dict[str, Pretrained] = {}
    for row in rows["starts_restrain"]:
        if isinstance(row["run"].model.first, Pretrained):
            pretrained.setdefault(row["model"], row["run"].model.first)
    judged_by = {
        "starts": {"ReSTrain": plans.measures_of(p, "start_measures")[0], "ReSTTest": p["start_measures"][-1]},
        "strategies": {"ReSTrain": used[0], "ReSTTest": p["resttest_measures"][0]},
    }
    asked = {"ReSTrain": used, "ReSTTest": p["resttest_measures"]}
    for protocol, measure in judged_by["starts"].items():
        if protocol in p["protocols"] and measure not in asked[protocol]:
            raise InputError(f"parameter 'start_measures': {measure} is not measured by {protocol}: {asked[protocol]}")
    more = {"pretrained": pretrained, "marks": marks(starts, ways[p["bases"][0]]), "judged_by": judged_by}
    return Plan(sets=sets, buckets=buckets, measures=used, **more, **frames)


class Start(NamedTuple):
    """`objective` and `text` (none, other, target) of a start; `made`: who pretrained it.

    ours: from nothing, or from the start that is `base` where there is one; given: weights as they are.
    """

    label: str
    objective: str
    text: str
    recipe: Recipe
    made: str


def start_in(p: dict, entry: str) -> Start:
    """LABEL | OBJECTIVE | TEXT, pretrained by us from `start_recipe`; or … | RECIPE: weights that are as they are."""
    form, own = "LABEL | OBJECTIVE | TEXT", entry.count("|") == 2
    label, objective, text, *recipe = plans.parts_of(entry, form if own else f"{form} | RECIPE")
    read = {"none": (), "other": p["other_text"], "target": (p["collection"],)}
    if text not in read:
        raise InputError(f"parameter 'starts': {label} reads {text!r}; it is one of {', '.join(read)}")
    steps = {"steps": p["steps"]} if p["steps"] else {}
    if not own:
        if objective not in (*OBJECTIVES, *TEXT_LEVEL):
            known = ", ".join(dict.fromkeys([*OBJECTIVES, *TEXT_LEVEL]))
            raise InputError(f"parameter 'starts': the objective of {label} is {objective!r}; it is one of {known}")
        made = "base" if recipe[0] == p["start_recipe"] and objective != "none" else "given"
        return Start(label, objective, text, load_recipe(recipe[0], **steps), made)
    base = load_recipe(p["start_recipe"])
    how = {"objective": objective, "corpus": read[text], "pooling": base.pooling, "precision": base.precision}
    how |= {"steps": p["pretraining_steps"], "learning_rate": p["pretraining_rate"]}
    return Start(label, objective, text, load_recipe(p["start_recipe"], pretraining=how, **steps), "ours")


def marks(starts: Sequence[Start], way: Recipe) -> pd.DataFrame:
    """What each start has: model, objective, text, te (a task for the whole text), tc (it read the target), made, role,
    fair.

    What is pretrained from a base has its te, too. `role`: the row of Table 9 whose place it takes. `fair`: it may be
    compared with the ways of training, of which `way` is one: it had all that they start from, and is none of them.
    """
    before = any(start.made == "base" and start.objective in TEXT_LEVEL for start in starts)
    rows = []
    for label, objective, text, recipe, made in starts:
        te, tc = objective in TEXT_LEVEL or (before and made == "ours"), text == "target"
        of = (objective, tc) if objective != "none" or made == "given" else None  # ours: chosen weights, not random
        role = label if label in ROLES else next((name for name, has in ROLES.items() if has == of), "")
        fair = recipe != way and (made != "ours" or recipe.initialisation == way.initialisation)
        rows.append((label, objective, text, te, tc, made, role, fair))
    return pd.DataFrame(rows, columns=["model", "objective", "text", "te", "tc", "made", "role", "fair"])


def relevant_passages(data: Collection, queries: pd.DataFrame, qrels: pd.DataFrame, least: int) -> pd.DataFrame:
    """Relevant passages as in Table 10: query_id, query, row (in the collection); first the query that has most.

    A passage of several queries is left out, and then a query with fewer than `least`.
    """
    found = qrels[(qrels["relevance"] >= 1) & qrels["query_id"].isin(queries["query_id"])]
    found = found[~found["doc_id"].duplicated(keep=False)]
    size = found.groupby("query_id")["doc_id"].transform("size").rename("size")
    found = found.assign(size=size)[size >= least].merge(queries[["query_id", "text"]], on="query_id")
    found = found.assign(row=data.passages.rows(found["doc_id"].tolist())).rename(columns={"text": "query"})
    return found.sort_values(["size", "query_id"], ascending=[False, True], kind="stable", ignore_index=True)[
        ["query_id", "query", "row"]
    ]


def published_table(number: int, recall_relevance: int) -> pd.DataFrame:
    """Δ of Table 8 or 9: role (the start; in Table 8 and the way of training), protocol, measure, scaled, rounding.

    `recall_relevance`: from which relevance our R@100 counts; the paper's is read as 2 under ReSTrain (notebook 02).
    """
    frame = published.load("zhan", number).query("regime == 'delta'")
    role = frame["plm"] if number == 9 else frame["plm"] + ", " + frame["finetune"]
    measure = frame["measure"] if recall_relevance > 1 else frame["measure"].str.replace("(rel=2)", "", regex=False)
    return frame.assign(role=role, measure=measure)[["role", "protocol", "measure", "scaled", "rounding"]]


STEPS = (("words", "none"), ("order", "words"), ("condenser", "words"), ("spans", "condenser"))


def differing(marks: pd.DataFrame) -> dict[tuple[str, str], str]:
    """Pairs of starts of ours of which the first has one thing more, and what: an objective, or the target's text.

    Starts that others pretrained differ in much at once; only the base counts, as that to which nothing was added.
    """
    ours = marks[marks["made"] != "given"]
    of = {("none" if row.made == "base" else row.objective, row.tc): row.model for row in ours.itertuples()}
    added = {}
    for one, two in STEPS:
        for target in (False, True):
            pair = (one, target), (two, target and two != "none")
            name = f"{one}, on the target" if target else one
            added |= {tuple(of[key] for key in pair): name} if of.keys() >= set(pair) else {}
        pair = (one, True), (one, False)
        added |= {tuple(of[key] for key in pair): f"{one}: the target"} if of.keys() >= set(pair) else {}
    return added


def steps(starts: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """What each thing that a pretraining adds does to Δ: the rows of `contrast` with `added`, see `differing`.

    `starts`: of `effects`.
    """
    added = differing(marks)
    made = starts.contrast("model", list(added))
    return made.assign(added=[added[pair] for pair in zip(made["first"], made["second"], strict=True)])


def findings(starts: pd.DataFrame, ways: pd.DataFrame, marks: pd.DataFrame, bases: Sequence[str]) -> pd.DataFrame:
    """What section 5.2 concludes, and what exposure adds: with intervals that hold together, see `claims.judged`.

    Of the starts: pretraining makes the loss smaller (against random weights, and against the weights that it went on
    from), so does a task for the whole text (against words only), so does the target collection (against the same
    objective on other text). Of the ways of training: better in interpolation than each of `bases`, and a smaller loss,
    which the paper does not find; and exposure is part of the loss. Last, a start that read the target collection loses
    less than each way of training.

    Parameters
    ----------
    starts, ways : of `effects` in one protocol: the study starts by the measure of Table 9, and both studies by that of
        Table 8. Columns: study, model, negative_passages, interpolation, extrapolation, delta, comparable.
    marks : of `marks`.
    bases : ways of training with random negatives, such as a control of the length of training.
    """
    found, of = [], marks.set_index("model")
    nine, eight = (table.by_label("study", "model", "negative_passages") for table in (starts, ways))

    def add(about: str, finding: str, one: tuple, other: tuple, side: str = "effect", rows: dict = eight) -> None:
        """The finding says that the first of two rows has the larger Δ (or interpolation: side first)."""
        if {one, other} <= rows.keys():
            found.append(said(finding, ([rows[one]], [rows[other]]), side=side, about=about))

    def add_starts(about: str, model: str, rival: str) -> None:
        add(about, f"{model} loses less than {rival}", ("starts", model, "all"), ("starts", rival, "all"), rows=nine)

    ours = marks[(marks["made"] == "ours") & (marks["objective"] != "none")]
    before = marks[(marks["made"] == "base") | (marks["made"].eq("ours") & marks["objective"].eq("none"))]
    for model, rival in itertools.product(marks["model"], marks.loc[marks["role"] == "Rand", "model"]):
        if model != rival:
            add_starts(READ, model, rival)
    for model, rival in itertools.product(ours["model"], before["model"]):
        add_starts(MORE, model, rival)
    for one, two in differing(marks):
        if of["objective"][one] == of["objective"][two]:
            add_starts(TARGET, one, two)
        elif of["te"][one] and not of["te"][two]:
            add_starts(WHOLE, one, two)
    for way in ways.loc[(ways["study"] == "strategies") & (ways["model"] != BM25), "model"].unique():
        mine, spared = ("strategies", way, "all"), ("strategies", way, "unexposed")
        for base in bases if way not in bases else ():
            add(GAIN, f"{way} is better than {base} in interpolation", mine, ("strategies", base, "all"), "first")
            add(NARROW, f"{way} loses less than {base}", mine, ("strategies", base, "all"))
        add(EXPOSED, f"{way}: exposure is part of the loss", spared, mine)
        for start in marks.loc[marks["tc"] & marks["fair"], "model"]:
            add(BEYOND, f"{start} loses less than {way}", ("starts", start, "all"), mine)
    return judged(sorted(found, key=lambda row: ORDER.index(row["about"])))


def answers(losses: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """Sentences for the answer: Δ in each protocol of some rows of `effects`, and the `findings` by question."""
    groups = losses.groupby(["protocol", "measure", "n_queries"], sort=False)
    texts = [f"Δ, {', '.join(names)}, {n:,} queries: {listed(part, 'model', 'delta')}." for (*names, n), part in groups]
    named = found["finding"] + " (" + found["protocol"] + ")"
    return texts + sentences(found.assign(about=found["about"] + "?", finding=named), "about")

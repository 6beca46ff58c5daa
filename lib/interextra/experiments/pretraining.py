"""Zhan et al., section 5.2: what ways of training and starts of a dense retriever do to both regimes (Tables 8 to 10).

Beyond the paper: each way of training also with negatives that are never exposed (notebook 09), and starts that differ
only in the objective and the text of their pretraining.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple, get_args

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.experiments.plans import Plan, design, parts_of, plans, systems, training_log
from interextra.experiments.zhan import REGIMES, both_protocols, buckets_of, measures, sets_of
from interextra.ground.cells import Store
from interextra.ground.errors import InputError, offenders
from interextra.models.model import Model, load_model
from interextra.models.pretrained import Pretrained
from interextra.models.recipe import Pretraining, Recipe, Trained, load_recipe, make_recipe
from interextra.papers import published
from interextra.papers.claims import BM25, judged

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


@plans("06_pretraining_study")
def pretraining_study(p: dict) -> Plan:
    """Frames of runs, as in notebook 05 with the column negative_passages: `strategies_restrain`,
    `strategies_resttest`, `starts_restrain`, `starts_resttest`; those of ReSTTest are empty without that protocol.

    `pretrained`: label → the Pretrained of its first training. `marks`: what each start has, see `marks`. `judged_by`:
    study → protocol → measure.
    """
    sets = sets_of(p)
    buckets = buckets_of(p, p["resttest_splits"]) if "ReSTTest" in p["protocols"] else None
    frames, pretrained = {}, {}
    ways = systems(p | {"recipes": p["strategies"]})
    bm25 = {label: one for label, one in ways.items() if not one.training_steps(1)}
    if unknown := set(p["spared"]) - ways.keys():
        raise InputError(f"parameter 'spared': {offenders(sorted(unknown))} is none of the strategies")
    starts = [start_in(p, text) for text in p["starts"]]
    made_of = {"strategies": ways, "starts": bm25 | {start.label: start.recipe for start in starts}}
    for name, spared in (("strategies", ("all", "unexposed")), ("starts", ("all",))):
        rows = {"restrain": [], "resttest": []}
        for passages in spared:
            kept = {label: one for label, one in made_of[name].items() if passages == "all" or label in p["spared"]}
            made = {label: _with(one, passages) for label, one in kept.items()}
            for protocol, found in both_protocols(p, sets, buckets, made).items():
                rows[protocol] += [{"negative_passages": passages} | row for row in found]
        frames |= {f"{name}_restrain": design(rows["restrain"]), f"{name}_resttest": pd.DataFrame(rows["resttest"])}
    for row in frames["starts_restrain"].itertuples():
        if isinstance(row.run.model.first, Pretrained):
            pretrained.setdefault(row.model, row.run.model.first)
    used, for_starts = measures(p, "restrain_measures"), measures(p, "start_measures")
    judged_by = {
        "starts": {"ReSTrain": for_starts[0], "ReSTTest": p["start_measures"][-1]},
        "strategies": {"ReSTrain": used[0], "ReSTTest": p["resttest_measures"][0]},
    }
    asked = {"ReSTrain": used, "ReSTTest": p["resttest_measures"]}
    for protocol, measure in judged_by["starts"].items():
        if protocol in p["protocols"] and measure not in asked[protocol]:
            raise InputError(f"parameter 'start_measures': {measure} is not measured by {protocol}: {asked[protocol]}")
    plan = {"sets": sets, "buckets": buckets, "measures": used, "judged_by": judged_by}
    return Plan(**plan, pretrained=pretrained, marks=marks(starts, ways[p["bases"][0]]), **frames)


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
    label, objective, text, *recipe = parts_of(entry, form if own else f"{form} | RECIPE")
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


def _with(made: Recipe, passages: str) -> Recipe:
    return made if passages == "all" else make_recipe(made.model_dump() | {"negative_passages": passages}, "starts")


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
        of = (
            (objective, tc) if objective != "none" or made == "given" else None
        )  # ours: chosen weights, not random ones
        role = label if label in ROLES else next((name for name, has in ROLES.items() if has == of), "")
        fair = recipe != way and (made != "ours" or recipe.initialisation == way.initialisation)
        rows.append((label, objective, text, te, tc, made, role, fair))
    return pd.DataFrame(rows, columns=["model", "objective", "text", "te", "tc", "made", "role", "fair"])


def learnt(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """What each start could before and after its pretraining, on passages that were held out of the text that it reads:
    model, what, before, after."""
    rows = [
        (model, what, value, log["after"][what])
        for model, log in _logs(pretrained, store).items()
        for what, value in log.get("before", {}).items()
    ]
    return pd.DataFrame(rows, columns=["model", "what", "before", "after"])


def curves(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """The losses of each pretraining: model, part (words, order, head, spans), step, loss."""
    rows = [
        (model, part, row["step"], loss)
        for model, log in _logs(pretrained, store).items()
        for row in log.get("curve", [])
        for part, loss in row.items()
        if part != "step"
    ]
    return pd.DataFrame(rows, columns=["model", "part", "step", "loss"])


def cost(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """Of one pretraining each: model, passages (there are), steps, tokens (read), seconds (where it was computed)."""
    rows = []
    for model, log in _logs(pretrained, store).items():
        cell, passages = pretrained[model], log.get("passages", 0) + log.get("held_out", 0)
        noted = json.loads((store[cell] / "provenance.json").read_text(encoding="utf-8"))
        rows.append((model, passages, cell.how.steps if passages else 0, log["tokens"], round(noted["seconds"])))
    return pd.DataFrame(rows, columns=["model", "passages", "steps", "tokens", "seconds"])


def _logs(pretrained: Mapping[str, Pretrained], store: Store) -> dict[str, dict]:
    return {
        model: json.loads((store[cell] / "pretraining.json").read_text(encoding="utf-8"))
        for model, cell in pretrained.items()
    }


def exposed(runs: pd.DataFrame, store: Store) -> pd.DataFrame:
    """How many of the negatives that the last training of each system draws are exposed: model, negative_passages,
    regime, exposed_negatives (a share), chance (the share of exposed ones among all passages).

    Systems that draw none (in-batch alone) have no row. The log counts the positives of the batch's other queries, too,
    which are never exposed; they are taken out here.
    """
    labels, rows = ["model", "negative_passages", "regime"], []
    for row in runs.itertuples():
        log, recipe = training_log(row.run, store), row.run.model.recipe
        if not isinstance(recipe, Trained) or recipe.negatives == "in-batch":
            continue
        others = recipe.batch_size * (recipe.negatives == "both" or recipe.negatives.endswith("+in-batch"))
        share = log["exposed_negatives"] * (1 + others / max(1, recipe.drawn()))
        rows.append((*(getattr(row, name) for name in labels), share, log["exposed_passages"]))
    found = pd.DataFrame(rows, columns=[*labels, "exposed_negatives", "chance"])
    return found.groupby(labels, sort=False, as_index=False).mean()


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


def passage_vectors(
    models: Mapping[str, Model], data: Collection, rows: np.ndarray, store: Store
) -> dict[str, np.ndarray]:
    """Vectors of some passages by each model, float32[n, d]; a model whose weights are gone is trained again."""
    texts = data.passages.texts(rows)
    return {name: load_model(store.build(model) / "weights").encode_passages(texts) for name, model in models.items()}


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

    def add(about: str, finding: str, table: pd.DataFrame, one: tuple, other: tuple, side: str = "effect") -> None:
        """The finding says that the first of two rows has the larger Δ (or interpolation: side first)."""
        names = ["study", "model", "negative_passages"]
        rows = [table[names].eq(list(key)).all(axis=1).to_numpy().nonzero()[0] for key in (one, other)]
        if not all(map(len, rows)):
            return
        rows = np.concatenate(rows)
        value, drawn = table["delta" if side == "effect" else REGIMES[0]].to_numpy()[rows], table.drawn(side)[rows]
        row = {"about": about, "finding": finding, "kind": "above", "gate": table["comparable"].iloc[rows].all()}
        row |= {"estimate": value[0] - value[1], "draws": drawn[0] - drawn[1]}
        found.append(row | table[["n_queries", "n_trainings"]].iloc[rows].min().astype(int).to_dict())

    def add_starts(about: str, model: str, rival: str) -> None:
        add(about, f"{model} loses less than {rival}", starts, ("starts", model, "all"), ("starts", rival, "all"))

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
            add(GAIN, f"{way} is better than {base} in interpolation", ways, mine, ("strategies", base, "all"), "first")
            add(NARROW, f"{way} loses less than {base}", ways, mine, ("strategies", base, "all"))
        add(EXPOSED, f"{way}: exposure is part of the loss", ways, spared, mine)
        for start in marks.loc[marks["tc"] & marks["fair"], "model"]:
            add(BEYOND, f"{start} loses less than {way}", ways, ("starts", start, "all"), mine)
    return judged(sorted(found, key=lambda row: ORDER.index(row["about"])))


def _points(frame: pd.DataFrame, value: str) -> list[str]:
    points = 100 * frame[[value, "low", "high"]]
    return [f"{at:+.1f} [{low:+.1f}, {high:+.1f}]" for at, low, high in points.itertuples(index=False)]


def losses_in_words(table: pd.DataFrame) -> list[str]:
    """A sentence a protocol and measure of `effects`: Δ of each start and way of training, with its interval."""
    told = table.assign(told=table["model"] + " " + _points(table, "delta"))
    groups = told.groupby(["protocol", "measure", "n_queries"], sort=False)["told"]
    return [f"Δ in %, {', '.join(names)}, {n:,} queries: {'; '.join(part)}." for (*names, n), part in groups]


def in_words(found: pd.DataFrame) -> list[str]:
    """A sentence a question of `findings`: what is shown, and the range of the other differences."""
    ends = found["protocol"] + " " + _points(found, "estimate")
    told = {about: [] for about in found["about"].unique()}
    for (about, verdict), rows in found.groupby(["about", "verdict"], sort=False):
        each = ends[rows.index].groupby(rows["finding"], sort=False).agg(", ".join)
        listed = [f"{finding} ({where})" for finding, where in each.items()]
        if verdict not in ("holds", "contradicted") and len(rows) > 1:
            low, high = 100 * rows["estimate"].min(), 100 * rows["estimate"].max()
            listed = [f"{len(rows)} differences, {low:+.1f} to {high:+.1f}"]
        told[about].append(f"{verdict}: {'; '.join(listed)}")
    return [f"{about}? – {'. '.join(said)}." for about, said in told.items()]

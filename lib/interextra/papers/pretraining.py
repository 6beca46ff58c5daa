"""Zhan et al., section 5.2: what ways of training and starts of a dense retriever do to both regimes (Tables 8 to 10).

Beyond the paper: each way of training also with negatives that are never exposed (notebook 09), and starts that differ
only in the objective and the text of their pretraining.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.collection import Collection
from interextra.ground.cells import Store
from interextra.ground.effects import contrast, draws
from interextra.ground.errors import InputError
from interextra.models.model import Model, load_model
from interextra.models.pretrained import Pretrained
from interextra.models.recipe import Recipe, load_recipe, make_recipe
from interextra.papers import published
from interextra.papers.claims import judged
from interextra.papers.plans import Plan, design, parts_of, plans, systems, training_log
from interextra.papers.zhan import REGIMES, both_protocols, buckets_of, measures, sets_of

# Objectives with a task for the whole text; the last two are of given weights: MiniLM's, and the tiny base's
TEXT_LEVEL = ("order", "condenser", "spans", "pairs", "bag")
BM25 = "BM25"
# What a finding is about, as a question: three conclusions of the paper, each with what follows from it
READ, WHOLE = "Does pretraining make the loss smaller", "Does a task for the whole text"
TARGET, BEYOND = "Does reading the target collection make it smaller", "More than another way of training does"
GAIN, PRICE = "Do hard negatives and distillation gain in interpolation", "Is a larger loss their price"
EXPOSED = "Is exposure part of the loss"
CONCLUSIONS = (READ, WHOLE), (TARGET, BEYOND), (GAIN, PRICE, EXPOSED)
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
    starts = [start_in(p, text) for text in p["starts"]]
    made_of = {"strategies": ways, "starts": bm25 | {start.label: start.recipe for start in starts}}
    for name, spared in (("strategies", ("all", "unexposed")), ("starts", ("all",))):
        rows = {"restrain": [], "resttest": []}
        for passages in spared:
            made = {label: _with(one, passages) for label, one in made_of[name].items()}
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
    plan = {"sets": sets, "buckets": buckets, "measures": used, "judged_by": judged_by}
    return Plan(**plan, pretrained=pretrained, marks=marks(starts), **frames)


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
        made = "base" if recipe[0] == p["start_recipe"] else "given"
        return Start(label, objective, text, load_recipe(recipe[0], **steps), made)
    base = load_recipe(p["start_recipe"])
    how = {"objective": objective, "corpus": read[text], "pooling": base.pooling, "precision": base.precision}
    how |= {"steps": p["pretraining_steps"], "learning_rate": p["pretraining_rate"]}
    return Start(label, objective, text, load_recipe(p["start_recipe"], pretraining=how, **steps), "ours")


def _with(made: Recipe, passages: str) -> Recipe:
    if passages == "all" or "negative_passages" not in type(made).model_fields:
        return made
    return make_recipe(made.model_dump() | {"negative_passages": passages}, "negative_passages")


def marks(starts: Sequence[Start]) -> pd.DataFrame:
    """What each start has: model, objective, text, te (a task for the whole text), tc (it read the target), made, role.

    What is pretrained from a base has its te, too. `role`: the row of Table 9 whose place it takes.
    """
    before = any(start.made == "base" and start.objective in TEXT_LEVEL for start in starts)
    rows = []
    for label, objective, text, _, made in starts:
        te, tc = objective in TEXT_LEVEL or (before and made == "ours"), text == "target"
        role = label if label in ROLES else next((name for name, of in ROLES.items() if of == (objective, tc)), "")
        rows.append((label, objective, text, te, tc, made, role))
    return pd.DataFrame(rows, columns=["model", "objective", "text", "te", "tc", "made", "role"])


def learnt(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """What each start could before and after its pretraining, on passages that were held out: model, what, before,
    after."""
    logs = {model: _log(cell, store) for model, cell in pretrained.items()}
    parts = [
        pd.DataFrame({"before": log["before"], "after": log["after"]})
        .rename_axis("what")
        .reset_index()
        .assign(model=model)
        for model, log in logs.items()
        if "after" in log
    ]
    return pd.concat(parts, ignore_index=True)[["model", "what", "before", "after"]]


def curves(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """The losses of each pretraining: model, part (words, order, head, spans), step, loss."""
    parts = [pd.DataFrame(_log(cell, store).get("curve", [])).assign(model=m) for m, cell in pretrained.items()]
    long = pd.concat(parts).melt(["model", "step"], var_name="part", value_name="loss").dropna()
    return long[["model", "part", "step", "loss"]].reset_index(drop=True)


def cost(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """Of one pretraining each: model, passages (there are), steps, tokens (read), seconds (where it was computed)."""
    rows = []
    for model, cell in pretrained.items():
        log, noted = _log(cell, store), json.loads((store[cell] / "provenance.json").read_text(encoding="utf-8"))
        passages = log.get("passages", 0) + log.get("held_out", 0)
        rows.append((model, passages, cell.how.steps if passages else 0, log["tokens"], round(noted["seconds"])))
    return pd.DataFrame(rows, columns=["model", "passages", "steps", "tokens", "seconds"])


def _log(cell: Pretrained, store: Store) -> dict:
    return json.loads((store[cell] / "pretraining.json").read_text(encoding="utf-8"))


def exposed(runs: pd.DataFrame, store: Store) -> pd.DataFrame:
    """Share of exposed negatives in the last training of each system: model, negative_passages, exposed_negatives."""
    rows = [training_log(run, store).get("exposed_negatives", np.nan) for run in runs["run"]]
    of = runs.assign(exposed_negatives=rows).groupby(["model", "negative_passages"], sort=False)
    return of["exposed_negatives"].mean().reset_index()


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


def steps(starts: pd.DataFrame, marks: pd.DataFrame) -> pd.DataFrame:
    """What each thing that a pretraining adds does to Δ: the differences of the starts of ours that differ in it alone.

    `starts`: of `effects`. Returns the rows of `contrast` with `added`: an objective, or the target collection. Starts
    that others pretrained differ in much at once; only the base counts, as that to which nothing was added.
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
    made = contrast(starts, "model", list(added))
    return made.assign(added=[added[pair] for pair in zip(made["first"], made["second"], strict=True)])


def findings(starts: pd.DataFrame, ways: pd.DataFrame, marks: pd.DataFrame, base: str) -> pd.DataFrame:
    """What section 5.2 concludes, and what exposure adds: with intervals that hold together, see `claims.judged`.

    Of the starts: pretraining makes the loss smaller, so does a task for the whole text (against words only, of the
    same text), so does the target collection (against the same objective on other text, or against the base). Of the
    ways of training: better than `base` in interpolation, at the price of a larger loss; and exposure is part of that
    loss. Last, the start that read the target collection loses less than each way of training.

    Parameters
    ----------
    starts, ways : of `effects` in one protocol: the study starts by the measure of Table 9, and both studies by that of
        Table 8. Columns: study, model, negative_passages, interpolation, extrapolation, delta, comparable.
    marks : of `marks`.
    base : the way of training that the others are compared with.
    """
    found, of = [], marks.set_index("model")

    def add(about: str, finding: str, table: pd.DataFrame, one: tuple, other: tuple, side: str = "effect") -> None:
        """The finding says that the first of two rows has the larger Δ (or interpolation: side first)."""
        names = ["study", "model", "negative_passages"]
        rows = [table[names].eq(list(key)).all(axis=1).to_numpy().nonzero()[0] for key in (one, other)]
        if not all(map(len, rows)):
            return
        rows = np.concatenate(rows)
        value, drawn = table["delta" if side == "effect" else REGIMES[0]].to_numpy()[rows], draws(table, side)[rows]
        row = {"about": about, "finding": finding, "kind": "above", "gate": table["comparable"].iloc[rows].all()}
        row |= {"estimate": value[0] - value[1], "draws": drawn[0] - drawn[1]}
        found.append(row | table[["n_queries", "n_trainings"]].iloc[rows].min().astype(int).to_dict())

    for model, rival in itertools.permutations(of.index, 2):
        one, two = of.loc[model], of.loc[rival]
        about = READ if two["objective"] == "none" else ""
        if one["te"] and two["objective"] == "words" and one["tc"] == two["tc"] and not two["te"]:
            about = WHOLE
        if one["tc"] and not two["tc"] and (one["objective"] == two["objective"] or two["made"] == "base"):
            about = TARGET
        if about:
            keys = ("starts", model, "all"), ("starts", rival, "all")
            add(about, f"{model} loses less than {rival}", starts, *keys)
    for way in ways.loc[(ways["study"] == "strategies") & (ways["model"] != BM25), "model"].unique():
        mine, bare, spared = (("strategies", *key) for key in ((way, "all"), (base, "all"), (way, "unexposed")))
        if way != base:
            add(GAIN, f"{way} is better than {base} in interpolation", ways, mine, bare, "first")
            add(PRICE, f"{way} loses more than {base}", ways, bare, mine)
        add(EXPOSED, f"{way}: exposure is part of the loss", ways, spared, mine)
        for start in marks.loc[marks["tc"], "model"]:
            add(BEYOND, f"{start} loses less than {way}", ways, ("starts", start, "all"), mine)
    order = [about for conclusion in CONCLUSIONS for about in conclusion]
    return judged(sorted(found, key=lambda row: order.index(row["about"])))


def _points(frame: pd.DataFrame, value: str) -> list[str]:
    points = 100 * frame[[value, "low", "high"]]
    return [f"{at:+.1f} [{low:+.1f}, {high:+.1f}]" for at, low, high in points.itertuples(index=False)]


def losses_in_words(table: pd.DataFrame) -> list[str]:
    """A sentence a protocol and measure of `effects`: Δ of each start and way of training, with its interval."""
    told = table.assign(told=table["model"] + " " + _points(table, "delta"))
    groups = told.groupby(["protocol", "measure", "n_queries"], sort=False)["told"]
    return [f"Δ in %, {', '.join(names)}, {n:,} queries: {'; '.join(part)}." for (*names, n), part in groups]


def in_words(found: pd.DataFrame) -> list[str]:
    """A sentence or more on each conclusion of `findings`, with the differences that are shown."""
    told = {about: [] for about in found["about"].unique()}
    found = found.assign(told=found["finding"] + " (" + found["protocol"] + ") " + _points(found, "estimate"))
    for (about, verdict), rows in found.groupby(["about", "verdict"], sort=False):
        shown = f": {'; '.join(rows['told'])}" if verdict in ("holds", "contradicted") else f" {len(rows)}"
        told[about].append(verdict + shown)
    return [
        " ".join(f"{about}? – {'; '.join(told[about])}." for about in conclusion if about in told)
        for conclusion in CONCLUSIONS
        if told.keys() & set(conclusion)
    ]

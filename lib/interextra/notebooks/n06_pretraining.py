"""Notebook 06: training strategies and initialisations of a dense retriever.

Zhan et al. (CIKM 2022), section 5.2, Tables 8 to 10. Beyond the paper: initialisations that differ
in one thing only.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, get_args

import numpy as np
import pandas as pd

from interextra.data.collection import Collection, Passages
from interextra.data.runs import RunFile
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.model import Model, Pretrained, load_model
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
from interextra.splits.split import REGIMES
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
# What a pretraining read, as figures name it
READS = {"none": "none", "other": "other text", "target": "target collection"}
# Our training strategies → the row of Table 8 in their place
PRINTED_STRATEGIES = {
    "Random": "RandNeg",
    "STAR": "HardNeg",
    "ADORE": "HardNeg",
    "TCT-ColBERT": "Distill",
}
ModelKey = tuple[str, str, int]  # initialisation, regime, seed
VectorsByModel = dict[ModelKey, np.ndarray]  # float32[passages, d] each


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


def training_runs(plan: plans.Plan) -> pd.DataFrame:
    """Return the trained models of both studies and protocols, see `plans.training_runs`."""
    parts = []
    for study in ("strategies", "starts"):
        for protocol in plans.PROTOCOLS:
            design = getattr(plan, f"{study}_{protocol.lower()}")
            if design.empty:
                continue
            labelled = design.assign(study=study, protocol=protocol)
            part = plans.training_runs(labelled, ["study", "protocol"])
            models = design["model"].unique()
            part.insert(2, "models", ", ".join(models))
            parts.append(part)
    return pd.concat(parts, ignore_index=True)


def ranking_of(model: Path, data: Collection, path: Path) -> pd.DataFrame:
    """Rank all passages for each training query, and write the ranking as a run.

    Parameters
    ----------
    model
        Folder of a trained model.
    data
        A small collection, with the split train.
    path
        The Parquet file that `fit` takes as `ranking`.

    Returns
    -------
    pandas.DataFrame
        query_id, doc_id, score, from the first rank of each query to the last.
    """
    queries = data.queries("train")
    n = len(data.passages)
    texts = queries["text"].tolist()
    rows, scores = load_model(model).search(data, texts, k=n)
    doc_ids = np.array(data.passages.doc_ids.to_pylist())
    ranking = pd.DataFrame(
        {
            "query_id": np.repeat(queries["query_id"].to_numpy(), n),
            "doc_id": doc_ids[rows.ravel()],
            "score": scores.ravel(),
        }
    )
    RunFile.from_frame(ranking).write_parquet(path)
    return ranking


def hardest_negatives(data: Collection, rankings: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the passage that the first model ranks highest among those that are not relevant.

    Parameters
    ----------
    data
        A collection whose queries have one relevant passage, with the same id.
    rankings
        Model → of `ranking_of`.

    Returns
    -------
    pandas.DataFrame
        query, hardest negative, and for each model by how much the relevant passage leads.
    """
    first = next(iter(rankings.values()))
    wrong = first[first["query_id"] != first["doc_id"]]
    hardest = wrong.drop_duplicates("query_id").set_index("query_id")["doc_id"]
    queries = data.queries("train").set_index("query_id")["text"]
    texts = data.passages.texts(data.passages.rows(hardest.tolist()))
    page = pd.DataFrame({"query": queries[hardest.index], "hardest negative": texts})
    for model, ranking in rankings.items():
        scores = ranking.set_index(["query_id", "doc_id"])["score"]
        of_relevant = scores[list(zip(hardest.index, hardest.index, strict=True))]
        of_hardest = scores[list(hardest.items())]
        leads = of_relevant.to_numpy() - of_hardest.to_numpy()
        page[f"lead of the relevant passage, {model}"] = leads
    return page


def without_gate(
    measured: Mapping[tuple[str, str], pd.DataFrame], p: Parameters
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Join the values of all designs, and part those of the gate's queries from them.

    Parameters
    ----------
    measured
        (study, protocol) → values.
    p
        Parameters of the notebook.

    Returns
    -------
    tuple
        Values that measure a loss, and those of the gate in interpolation; both with study and
        protocol.
    """
    splits = {"ReSTrain": p.test_splits, "ReSTTest": p.resttest_splits}
    losses, gate = [], []
    for (study, protocol), values in measured.items():
        labelled = values.assign(study=study, protocol=protocol)
        measures_loss = labelled["test_set"].isin(splits[protocol])
        is_inside = labelled["regime"] == REGIMES[0]
        losses.append(labelled[measures_loss])
        gate.append(labelled[~measures_loss & is_inside])
    all_losses = pd.concat(losses, ignore_index=True)
    return all_losses, pd.concat(gate, ignore_index=True)


def starts_beside(table: Effects, marks: pd.DataFrame, recall_relevance: int) -> Effects:
    """Return the effects of the initialisations beside Table 9.

    Parameters
    ----------
    table
        Effects of both studies.
    marks
        Of `marks`; their te, tc, text and role become columns.
    recall_relevance
        See `published_table`.
    """
    starts = table[table["study"] == "starts"]
    by_model = marks.set_index("model")
    for name in ("te", "tc", "text", "role"):
        marks_of_rows = starts["model"].map(by_model[name])
        starts = starts.assign(**{name: marks_of_rows})
    theirs = published_table(9, recall_relevance)
    return starts.beside(theirs, on=["role", "protocol", "measure"])


def saved_starts(starts: Effects) -> pd.DataFrame:
    """Return `starts_beside` with the columns of pretraining.csv."""
    columns = ["model", "te", "tc", "protocol", "measure", *REGIMES, "delta", "low", "high"]
    names = {"model": "initialisation", "low": "delta_low", "high": "delta_high"}
    saved = starts[[*columns, "published", "verdict", "n_trainings", "n_queries"]]
    return saved.rename(columns=names)


def starts_pages(starts: Effects, measures: Sequence[str]) -> Iterator[pd.DataFrame]:
    """Yield `starts_beside` for the page, a table each protocol and measure of some measures.

    Its column `had` says TE where pretraining had a task for the whole text, TC where it read the
    target collection.
    """
    page = with_interval(starts[starts["measure"].isin(measures)])
    had_te = page["te"].map({True: "TE", False: "no TE"})
    had_tc = page["tc"].map({True: "TC", False: "no TC"})
    page["had"] = had_te + ", " + had_tc
    columns = ["model", "had", *REGIMES, "delta", "published", "verdict"]
    groups = page.groupby(["protocol", "measure"], sort=False)
    for (protocol, measure), part in groups:
        names = {"model": f"{protocol}, {measure}: initialisation", "delta": "Δ [95 % CI]"}
        yield part[columns].rename(columns=names)


def figure_rows(starts: Effects, judged_by: Mapping[str, Mapping[str, str]]) -> pd.DataFrame:
    """Return effects of initialisations for the figure.

    Parameters
    ----------
    starts
        Of `starts_beside`.
    judged_by
        Study → protocol → measure.

    Returns
    -------
    pandas.DataFrame
        Rows of the measure that judges the initialisations, and under ReSTTest of that of the
        claims, with `pretraining text` and `panel` in words.
    """
    measures = starts["protocol"].map(judged_by["starts"])
    is_judged = starts["measure"] == measures
    is_of_claims = starts["measure"] == judged_by["strategies"]["ReSTTest"]
    is_of_claims &= starts["protocol"] == "ReSTTest"
    rows = starts[is_judged | is_of_claims]
    text = rows["text"].map(READS).fillna(BM25)  # which has a colour of its own
    panel = rows["protocol"] + ", " + rows["measure"]
    rows = rows.assign(**{"pretraining text": text, "panel": panel})
    return rows.replace({"model": {"Rand": "Rand (random weights)"}})


def strategies_beside(table: Effects, recall_relevance: int) -> Effects:
    """Return the effects of the training strategies beside Table 8, see `starts_beside`."""
    strategies = table[table["study"] == "strategies"]
    role = "BERT, " + strategies["model"].map(PRINTED_STRATEGIES)
    theirs = published_table(8, recall_relevance)
    on = ["role", "protocol", "measure"]
    return strategies.assign(role=role).beside(theirs, on=on)


def judged_rows(table: pd.DataFrame, judged_by: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of the measure that judges each protocol (protocol → measure)."""
    return table[table["measure"] == table["protocol"].map(judged_by)]


def coverage_sentences(table: pd.DataFrame) -> list[str]:
    """Return for each protocol what its intervals cover, by the training runs of a row."""
    trained = table[table["model"] != BM25]
    n_trainings = trained.groupby("protocol", sort=False)["n_trainings"].min()
    sentences = []
    for protocol, n in n_trainings.items():
        covers = f"{n} training runs (seeds) per row; intervals cover queries and training runs"
        if n == 1:
            covers = (
                "one training run (seed) per row; intervals cover queries only, and two rows may "
                "differ by the seed"
            )
        sentences.append(f"{protocol}: {covers}.")
    return sentences


def range_sentences(judged: Mapping[str, pd.DataFrame]) -> list[str]:
    """Return the smallest and the largest Δ of each study, protocol and measure.

    Parameters
    ----------
    judged
        What varies → effects of one measure a protocol; BM25 is left out.
    """
    by = ["protocol", "measure", "n_queries"]
    sentences = []
    for what, rows in judged.items():
        trained = rows[rows["model"] != BM25].sort_values("delta")
        trained = with_interval(trained)
        trained["named"] = trained["delta"] + " (" + trained["model"] + ")"
        for (protocol, measure, n), part in trained.groupby(by, sort=False):
            least, most = part["named"].iloc[[0, -1]]
            of_what = f"{what}: Δ of {measure} under {protocol}"
            sentences.append(f"{of_what} ranges from {least} to {most}, {n:,} queries.")
    return sentences


def text_pair(marks: pd.DataFrame) -> tuple[str, str]:
    """Return two initialisations that differ in the text alone, the target first.

    BM25 twice where no two do.
    """
    for pair, added in differing(marks).items():
        if added.endswith(": the target"):
            return pair
    return BM25, BM25


def in_extrapolation(values: pd.DataFrame, size: int) -> pd.DataFrame:
    """Return nDCG@10 of each query and initialisation in extrapolation under ReSTrain.

    Parameters
    ----------
    values
        Of both studies.
    size
        Training queries.

    Returns
    -------
    pandas.DataFrame
        float[query_id × model], the mean over training runs.
    """
    wanted = {
        "study": "starts",
        "protocol": "ReSTrain",
        "regime": REGIMES[1],
        "n_train": size,
        "measure": "nDCG@10",
    }
    is_wanted = (values[list(wanted)] == pd.Series(wanted)).all(axis=1)
    asked = values[is_wanted]
    return asked.pivot_table(index="query_id", columns="model", values="value", sort=False)


def words_lacking(texts: Sequence[str], read: Sequence[Passages]) -> list[str]:
    """Return the words of some texts that no passage of some collections holds, in order."""
    wanted = _words_of(texts)
    for passages in read:
        texts_read = passages.texts(slice(None))
        wanted -= _words_of(texts_read)
    return sorted(wanted)


def _words_of(texts: Sequence[str]) -> set[str]:
    """Return the different words of some texts, in small letters."""
    words = pd.Series(texts).str.lower().str.findall(r"\w+")
    return set(words.explode().dropna())


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


def mapped_models(design: pd.DataFrame, mapped: Sequence[str], size: int) -> dict[ModelKey, Model]:
    """Return (initialisation, regime, seed) → the model of some initialisations at a size."""
    is_mapped = design["model"].isin(mapped)
    rows = design[is_mapped & (design["n_train"] == size)]
    keys = rows[["model", "regime", "seed"]].itertuples(index=False, name=None)
    models = [run.model for run in rows["run"]]
    return dict(zip(keys, models, strict=True))


def passage_vectors(
    models: Mapping[ModelKey, Model], texts: Sequence[str], store: Store
) -> pd.DataFrame:
    """Return the vectors of some passages under each model, which is computed already.

    Returns
    -------
    pandas.DataFrame
        float32[models · passages, d], in the order of the models; index (model, regime, seed).
    """
    parts = {}
    for of, cell in models.items():
        model = load_model(store[cell] / "weights")
        vectors = model.encode_passages(texts)
        parts[of] = pd.DataFrame(vectors).add_prefix("d")
    return pd.concat(parts, names=["model", "regime", "seed"])


def by_model(vectors: pd.DataFrame) -> VectorsByModel:
    """Return the vectors of `passage_vectors` by (model, regime, seed)."""
    parts = vectors.groupby(["model", "regime", "seed"], sort=False)
    return {of: np.ascontiguousarray(part) for of, part in parts}


def silhouettes(vectors: VectorsByModel, query_ids: pd.Series) -> pd.DataFrame:
    """Return how close the passages of a query lie under each model.

    Parameters
    ----------
    vectors
        See VectorsByModel.
    query_ids
        Of each passage, the query that it is relevant to.

    Returns
    -------
    pandas.DataFrame
        model, regime, seed, silhouette (with cosine distance), n_passages, n_queries.
    """
    from sklearn.metrics import silhouette_score

    rows = []
    for of, made in vectors.items():
        rows.append((*of, silhouette_score(made, query_ids, metric="cosine")))
    frame = pd.DataFrame(rows, columns=["model", "regime", "seed", "silhouette"])
    return frame.assign(n_passages=len(query_ids), n_queries=query_ids.nunique())


def silhouette_page(clustering: pd.DataFrame) -> pd.DataFrame:
    """Return `silhouettes` for the page, a column a seed."""
    page = clustering.pivot_table(
        index=["model", "regime"], columns="seed", values="silhouette", sort=False
    )
    page = page.add_prefix("silhouette, seed ").reset_index()
    return page.rename(columns={"model": "initialisation"})


def map_panels(
    vectors: VectorsByModel, clustering: pd.DataFrame, is_drawn: pd.Series
) -> dict[str, np.ndarray]:
    """Return the vectors of some passages of the first seed, by the title of their panel."""
    first_seed = clustering["seed"].iloc[0]
    panels = {}
    for row in clustering[clustering["seed"] == first_seed].itertuples():
        key = (row.model, row.regime, row.seed)
        title = f"{row.model}, {row.regime}"
        title += f": silhouette\u00a0{row.silhouette:.2f}"
        panels[title] = vectors[key][is_drawn]
    return panels


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


def learnt_page(table: pd.DataFrame) -> pd.DataFrame:
    """Return `learnt` for the page: before → after, a row an initialisation."""
    before = table["before"].map("{:.2f}".format)
    after = table["after"].map("{:.2f}".format)
    changes = table.assign(change=before + " → " + after)
    wide = changes.pivot(index="model", columns="what", values="change")
    wide = wide.reindex(table["model"].unique())
    wide.columns = wide.columns.str.replace("_", " ")
    return wide.reset_index(names="initialisation")


def readers_of_target(marks: pd.DataFrame, pretrained: Mapping[str, Pretrained]) -> list[str]:
    """Return which of the initialisations that we pretrain read the target collection."""
    reads_target = marks["text"] == "target"
    is_ours = marks["model"].isin(pretrained)
    return marks.loc[reads_target & is_ours, "model"].tolist()


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

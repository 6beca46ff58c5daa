"""Notebook 00: one query's way through the kit, with a lexical and a dense system."""

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from interextra import world
from interextra.data.load import open_world
from interextra.notebooks.parameters import Entries, Names, RunParameters, parameter
from interextra.notebooks.plans import Plan, design, run_of, systems, test_queries, training_queries
from interextra.store import Store
from interextra.store.errors import InputError

FLOOR = "floor"  # name of the random baseline in tables
FIRST = "RR@10"


class Parameters(RunParameters):
    """Parameters of notebook 00, the first retrievers."""

    test_splits: Names = parameter(["dev", "test"], "splits with the test queries")
    recipes: Entries = parameter(
        ["bm25", "mini-dense"], "a lexical and a dense retriever (lib/interextra/models/recipes)"
    )


def plan(p: Parameters) -> Plan:
    """Return `design`: model, run, a row a system; the first is compared with the last one.

    Raises
    ------
    InputError
        Fewer than two systems.
    """
    recipes = systems(p)
    if len(recipes) < 2:
        raise InputError(
            "parameter 'recipes': this notebook compares the first system with the last one: "
            "give two"
        )
    train = training_queries(p)
    queries = test_queries(p, p.test_splits)
    rows = []
    for label, recipe in recipes.items():
        run = run_of(p, recipe, train, p.seed, queries)
        rows.append({"model": label, "run": run})
    return Plan(design=design(rows))


def design_page(design: pd.DataFrame) -> pd.DataFrame:
    """Return the systems of the design for the page, with what each is trained on."""
    rows = []
    for row in design.itertuples():
        queries = " and ".join(part.split for part in row.run.queries)
        model = row.run.model
        system = {
            "system": row.model,
            "n_train": model.train.size(),
            "seed": model.seed,
            "test queries": queries,
            "passages per query": row.run.depth,
        }
        rows.append(system)
    return pd.DataFrame(rows)


def counts(data: Any) -> pd.DataFrame:
    """Return the size of each split of a collection.

    Returns
    -------
    split, queries, judgements, relevant_per_query
    """
    qrels_of_split = {split: data.qrels(split) for split in data.splits}
    judged = pd.concat(qrels_of_split, names=["split"]).reset_index("split")
    of_split = judged.groupby("split", sort=False)
    n_queries = of_split["query_id"].nunique()
    table = pd.DataFrame({"queries": n_queries, "judgements": of_split.size()})
    is_relevant = judged["relevance"] > 0
    n_relevant = judged[is_relevant].groupby("split").size()
    table["relevant_per_query"] = n_relevant / n_queries
    return table.reset_index()


def texts_of(data: Any, doc_ids: pd.Series) -> list[str]:
    """Return the texts of passages."""
    rows = data.passages.rows(doc_ids)
    return data.passages.texts(rows)


def a_passage_of_each_grade(data: Any, split: str) -> tuple[str, pd.DataFrame]:
    """Return the first query of a split, and a passage of each grade that it has.

    Returns
    -------
    Its text; grade, passage, from the highest grade down
    """
    qrels = data.qrels(split)
    first_query_id = qrels["query_id"].iloc[0]
    is_first = qrels["query_id"] == first_query_id
    one_each = qrels[is_first].drop_duplicates("relevance")
    one_each = one_each.sort_values("relevance", ascending=False)
    passages = texts_of(data, one_each["doc_id"])
    grades = one_each["relevance"].to_numpy()
    page = pd.DataFrame({"grade": grades, "passage": passages})
    return data.queries(split)["text"].iloc[0], page


def answers(data: Any, split: str) -> pd.Series:
    """Return query_id → a passage that contains the answer, of a split.

    Where grades above 1 occur, grade 1 is no answer.
    """
    qrels = data.qrels(split)
    answer_grade = min(2, qrels["relevance"].max())
    answering = qrels[qrels["relevance"] >= answer_grade]
    return answering.drop_duplicates("query_id").set_index("query_id")["doc_id"]


def sampled(data: Any, split: str, number: int, seed: int) -> str:
    """Return some queries of a split as text, each with the beginning of an answer."""
    answer = answers(data, split)
    queries = data.queries(split).set_index("query_id")
    with_answer = queries.loc[answer.index]
    n_sampled = min(number, len(with_answer))
    sample = with_answer.sample(n_sampled, random_state=seed)
    passages = texts_of(data, answer[sample.index])
    parts = []
    for text, passage in zip(sample["text"], passages, strict=True):
        begin = textwrap.shorten(passage, 300, placeholder=" …")  # real passages can be long
        filled = textwrap.fill(begin, 110, initial_indent="P  ", subsequent_indent="   ")
        parts.append(f"Q  {text}\n{filled}")
    return "\n\n".join(parts)


def write_collection(
    folder: Path,
    passages: Mapping[str, str],
    queries: Mapping[str, str],
    **answer_of: Mapping[str, str],
) -> None:
    """Write a small collection in BEIR's layout.

    Parameters
    ----------
    folder
        Where; it is made.
    passages, queries
        Id → text.
    answer_of
        Of each split query_id → the passage that answers it.
    """
    (folder / "qrels").mkdir(parents=True)
    for name, content in (("corpus", passages), ("queries", queries)):
        path = folder / f"{name}.jsonl"
        lines = pd.DataFrame(content.items(), columns=["_id", "text"])
        lines.to_json(path, orient="records", lines=True)
    for split, answer in answer_of.items():
        path = folder / "qrels" / f"{split}.tsv"
        judged = pd.DataFrame(answer.items(), columns=["query-id", "corpus-id"])
        judged["score"] = 1
        judged.to_csv(path, sep="\t", index=False)


def rankings(plan: Plan, store: Store, split: str) -> pd.DataFrame:
    """Return what each system retrieves: query_id, doc_id, score, rank, model."""
    parts = []
    for row in plan.design.itertuples():
        run = row.run.read(store, split)
        parts.append(run.frame().assign(model=row.model))
    return pd.concat(parts, ignore_index=True)


def first_passages(
    ranked: pd.DataFrame, data: Any, split: str, number: int
) -> tuple[str, pd.DataFrame]:
    """Return the last query of a split, and the first passages of each system for it.

    Parameters
    ----------
    ranked
        Of `rankings`, with a column relevance.

    Returns
    -------
    Its text; model, rank, grade, passage
    """
    query = data.queries(split).iloc[-1]
    is_query = ranked["query_id"] == query["query_id"]
    top = ranked[is_query & (ranked["rank"] <= number)]
    texts = texts_of(data, top["doc_id"])
    begins = [f"{text[:70]}…" for text in texts]
    page = top[["model", "rank"]].copy()
    page["grade"] = top["relevance"].astype("Int64")
    page["passage"] = begins
    return query["text"], page


def random_baseline(collection: str, splits: list[str]) -> pd.DataFrame:
    """Return the expected RR@10 of an entity oracle in random order, in a generated world.

    Returns
    -------
    test_set, model, measure, mean; empty for another collection
    """
    if not collection.startswith("mini"):
        return pd.DataFrame()
    opened = open_world(collection)
    floor = [world.floor(opened, split) for split in splits]
    columns = {"test_set": splits, "model": FLOOR, "measure": FIRST, "mean": floor}
    return pd.DataFrame(columns)


def named_baseline(systems: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of RR@10 for the figure, with `queries` and the random baseline in words."""
    reciprocal = systems[systems["measure"] == FIRST]
    reciprocal = reciprocal.replace({"model": {FLOOR: "random baseline"}})
    return reciprocal.assign(queries=reciprocal["test_set"] + " queries")


def share_found(query: str, passage: str) -> float:
    """Return the share of a query's words of four letters or more that a passage has.

    Examples
    --------
    >>> share_found("where do lions live", "Lions live in Africa.")
    0.6666666666666666
    """
    words = set(re.findall(r"\w+", query.lower()))
    long_words = {word for word in words if len(word) > 3}
    n_found = sum(word in passage.lower() for word in long_words)
    return n_found / max(1, len(long_words))


def answer_sentences(
    difference: pd.DataFrame, tested: pd.DataFrame, means: pd.Series, split: str, size: str
) -> list[str]:
    """Return what is more effective, by how much, and on how many queries.

    Parameters
    ----------
    difference
        Contrasts of the dense with the lexical system, by test_set and measure.
    tested
        Of `ix.tests`, of the same.
    means
        model → mean RR@10 on the split.
    split
        The first test split.
    size
        Of the collection, in words.
    """
    of_first = tested[tested["measure"] == FIRST]
    of_set = of_first.set_index("test_set")
    set_of = {}
    for name, n_queries in of_set["n_queries"].items():
        set_of[name] = f"{n_queries:,} {name} queries"
    gaps = difference[difference["measure"] == FIRST]
    first_gap = gaps.iloc[0]
    dense, lexical = first_gap["first"], first_gap["second"]
    directions = _directions(gaps, set_of, lexical)
    margins = [_margin(gap, set_of) for gap in gaps.itertuples()]
    listed = ", ".join(margins)
    levels = _levels(means)
    intervals = "paired percentile bootstrap, 95 % confidence intervals"
    return [
        f"{dense} {directions}. {dense} minus {lexical} in {FIRST}: {listed} ({intervals}).",
        f"Mean {FIRST} on the {set_of[split]}: {levels}; {size}.",
        f"{dense} {_wins(of_set.loc[split])}.",
    ]


def _wins(tested: pd.Series) -> str:
    """Return how many queries a system wins, loses and ties, in words."""
    wins, losses = tested["better"], tested["worse"]
    ties = tested["n_queries"] - wins - losses
    return f"wins {wins} of these queries, loses {losses} and ties {ties}"


def _directions(gaps: pd.DataFrame, set_of: Mapping[str, str], lexical: str) -> str:
    """Return on which sets a system is more or less effective than the lexical one, in words."""
    sets_of_direction: dict[str, list[str]] = {}
    for gap in gaps.itertuples():
        direction = _direction(gap.low, gap.high)
        sets = sets_of_direction.setdefault(direction, [])
        sets.append(f"the {set_of[gap.test_set]}")
    parts = []
    for direction, sets in sets_of_direction.items():
        listed = " and ".join(sets)
        parts.append(f"{direction} effective than {lexical} on {listed}")
    return "; it ".join(parts)


def _margin(gap: Any, set_of: Mapping[str, str]) -> str:
    """Return a difference with its interval, and where it was measured."""
    interval = f"[{gap.low:+.3f}, {gap.high:+.3f}]"
    test_set = set_of[gap.test_set]
    return f"{gap.difference:+.3f} {interval} on {test_set}"


def _levels(means: pd.Series) -> str:
    """Return the mean of each system in words."""
    levels = []
    for name, value in means.items():
        label = "random baseline" if name == FLOOR else name
        levels.append(f"{label} {value:.3f}")
    return ", ".join(levels)


def _direction(low: float, high: float) -> str:
    """Return what the interval of a difference says."""
    if low > 0:
        return "is more"
    if high < 0:
        return "is less"
    return "is not shown to be more or less"

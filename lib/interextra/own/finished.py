"""What can be said of a finished model, whose training queries are known: nobody trains it again.

Its lead over rivals is compared between the test queries near to its training queries and those
far from them, a difference in differences. Taught in notebooks/12_your_own_retriever.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra import figures
from interextra.data.runs import RunFile
from interextra.measures.evaluate import check, per_query
from interextra.models.encoders import default_encoder
from interextra.overlap.near import near_pairs
from interextra.own import regimes
from interextra.own.audit import NEAR, TEXT, Side
from interextra.own.clean import K1, B, values_of_system
from interextra.own.distance import nearest_of
from interextra.own.finished_sentences import (
    ALL,
    COPIES,
    FAR_HALF,
    GROUPS,
    LOSS,
    NEAR_HALF,
    Systems,
    limits,
    sentences,
    verdict,
)
from interextra.own.page import html_page, paragraphs, svg_of, wide_table
from interextra.own.run_files import counted_as_empty, read_run, without_hits
from interextra.own.sentences import ends
from interextra.stats.bootstrap import ratio, varies
from interextra.stats.effects import DRAWS, Effects, effects
from interextra.stats.formatting import with_interval, with_unit
from interextra.stats.tests import LEAST_QUERIES, detectable, standard_error
from interextra.store import InputError, offenders, write_text

Bootstrap = dict[str, Any]  # seed and n_boot, of `effects`
FAR_MINUS_NEAR = (False, True)  # values of is_near
NEAR_MINUS_FAR = (True, False)
# how much of what acts on a rival may act on a model of another kind: nothing, or twice as much,
# as a neural model need not find hard what BM25 finds hard
SENSITIVITIES = (0.0, 2.0)
DIFFERENCES = {  # column → what it is
    "system": "whose lead it is",
    "rival": "over whom",
    "measure": "of the values",
    "near": "the mean lead on the near half",
    "far": "on the far half",
    "difference": "near minus far, the difference in differences",
    "low": "of its 95 % interval",
    "high": "the same",
    "p_value": "two-sided",
    "detects": "the smallest difference found with 80 % power",
    "needed": "queries that would find a difference of LOSS",
    "lowest": "low if difficulty acts on the system by one of SENSITIVITIES, or as on the rival",
    "highest": "the same of high",
    "rival_difference": "near minus far of the rival itself",
    "own_near": "mean of the system itself on the near half",
    "is_control": "whether the rival is the control",
}
UNTUNED = (
    f"BM25 has k1 = {K1:g} and b = {B:g}, Anserini's defaults: `probe` and `regimes` tune it on "
    "training queries, here it is not, as a rival must not have seen them."
)
TITLE = "What does the lead of a finished model owe to near training queries?"
LEGEND = (
    "A lead is the value of a system minus that of a rival on the same queries (below 0 where the "
    "system trails); difference: its "
    "mean on the near half minus that on the far half. Intervals are of 95 %, over queries; p of "
    "the same draws, two-sided. Detects: the smallest difference found with 80 % power. Near and "
    "far: halves by the cosine to the nearest training query; copies and near-duplicates of "
    "training queries are in neither. If difficulty acts otherwise: the interval where it acts on "
    "the system not at all or up to twice as much as on the rival."
)


class Finished(NamedTuple):
    """What near and far test queries say of finished models, as tables and as sentences."""

    # queries (of GROUPS), system, measure, mean, low, high, n_queries; "A minus B" is a lead
    groups: pd.DataFrame
    # a lead a row: DIFFERENCES, and verdict
    differences: pd.DataFrame
    # query_id, query, queries (its group), is_exact, train_query (the nearest one), cosine, and
    # the value of each system in a column of its name
    queries: pd.DataFrame
    sentences: list[str]  # the first one answers, the last one says what cannot be said
    files: list[Path] = []  # of `write`


def with_leads(values: pd.DataFrame, rivals: Sequence[str], weight: float = 1) -> pd.DataFrame:
    """Return mean values a system, measure and query, and the leads of each system.

    A lead, of the system `A minus B`, is its value less that of one of the rivals.

    Parameters
    ----------
    values : DataFrame
        Tidy values with a column system.
    weight : float
        What the value of a rival is multiplied with; 1: a lead.

    Examples
    --------
    >>> values = pd.DataFrame({"system": ["A", "B"], "measure": "RR", "query_id": "q"})
    >>> leads = with_leads(values.assign(value=[0.75, 0.5]), ["B"])
    >>> dict(zip(leads["system"], leads["value"]))
    {'A': 0.75, 'B': 0.5, 'A minus B': 0.25}
    """
    by = ["system", "measure", "query_id"]
    groups = values.groupby(by, sort=False, as_index=False)
    means = groups["value"].mean()
    parts = [means]
    for rival in rivals:
        is_rival = means["system"] == rival
        of_rival = means[is_rival].drop(columns="system")
        others = means[~is_rival]
        shared = ["measure", "query_id"]
        leads = others.merge(of_rival, on=shared, suffixes=("", "_rival"))
        leads["system"] += f" minus {rival}"
        leads["value"] -= weight * leads["value_rival"]
        parts.append(leads.drop(columns="value_rival"))
    return pd.concat(parts, ignore_index=True)


def near_and_far(means: Effects, loss: float, pair: tuple[bool, bool] = FAR_MINUS_NEAR) -> Effects:
    """Return the difference between far and near queries of each system, or of its lead.

    Of a lead it is the difference in differences.

    Parameters
    ----------
    means : Effects
        By system, measure, is_near.
    loss : float
        Share of a value that should be found.
    pair : tuple of bool
        Values of is_near, the first minus the second: FAR_MINUS_NEAR or NEAR_MINUS_FAR.

    Returns
    -------
    Effects[system, measure, far, near, difference, low, high, detects, needed]
        detects: with 80 % power; needed: queries that find the loss.
    """
    key = ["system", "measure"]
    contrasts = means.contrast("is_near", [pair])
    error = standard_error(contrasts.drawn())
    contrasts["detects"] = detectable(contrasts["low"], contrasts["high"], error)
    columns = [*key, "difference", "low", "high", "detects", DRAWS]
    differences = pd.DataFrame(contrasts)[columns]
    sides = pd.DataFrame(means).pivot(index=key, columns="is_near", values="mean")
    sides = sides.rename(columns={True: "near", False: "far"})
    table = sides.reset_index().merge(differences, on=key)
    share = ratio(table["detects"], loss * _own_near(table))
    n_queries = means["n_queries"].max()
    needed = np.ceil(2 * n_queries * share**2)
    draws = table.pop(DRAWS)
    table["needed"] = pd.array(needed, dtype="Int64")
    table[DRAWS] = draws
    return Effects(table)


def _own_near(table: pd.DataFrame) -> pd.Series:
    """Return what the system itself has on near queries: of its lead, the loss is a share of it."""
    near = table.set_index(["system", "measure"])["near"]
    names = table["system"].str.split(" minus ")
    system = names.str[0]
    own_key = pd.MultiIndex.from_arrays([system, table["measure"]])
    return near.reindex(own_key)


def finished(
    train: Side,
    test: Side,
    runs: Mapping[str, RunFile],
    rivals: Mapping[str, RunFile] | None = None,
    control: str = "",
    measure: str = "nDCG@10",
    encoder: str = "",
    near: float = NEAR,
    margin: float = 0.05,
    seed: int = 1,
    n_boot: int = 10_000,
) -> Finished:
    """Compare the leads of finished models over rivals between near and far test queries.

    Copies and near-duplicates of training queries are in neither half. Pairing each query with
    itself in a rival takes difficulty out as far as it acts on both alike. As it need not, a
    difference counts only if it is also there where difficulty acts on the model not at all, or
    twice as much as on the rival; over a control, which is of the model's kind, it counts as it is.

    Parameters
    ----------
    train, test : Side
        Of `audit.read`. Of the training side only the queries are used.
    runs : mapping of str to RunFile
        Name of each finished model → its run on the test queries.
    rivals : mapping of str to RunFile
        The same of systems that have not seen the training queries; None: BM25, searched in the
        collection of the test queries.
    control : str
        The rival of the same kind as the models, such as their recipe on other queries.
    encoder : str
        Says how near queries are, one of `models.encoders`; "": `default_encoder`.
    near : float
        Share of common words (Jaccard) of near-duplicates, see `overlap.near.near_pairs`.
    margin : float
        What counts as no difference, as a share of the model's value on near queries.

    Raises
    ------
    InputError
        Test queries without judgements by doc_id, a run with nothing relevant, too few queries, an
        unknown measure or one that is best at 0, a control that is no rival.
    """
    check([measure])
    regimes.refuse_first(measure)
    encoder = encoder or default_encoder()
    every_run = {**runs, **(rivals or {})}
    values = _values(test, every_run, measure)
    if not rivals:
        values = values.join(_bm25(test, measure))
    systems = _systems(values, runs, control)
    is_measured = test.queries["query_id"].isin(values.index)
    queries = _grouped(train.queries, test.queries[is_measured], encoder, near)
    _refuse_few(queries)
    bootstrap = {"seed": seed, "n_boot": n_boot}
    tidy = _tidy(values, queries, measure)
    groups = _means(tidy, systems, bootstrap)
    differences = _judged_differences(tidy, systems, bootstrap, margin)
    told = sentences(differences, groups, queries, systems, encoder)
    told += _without_hits(every_run, values.index)
    if not rivals:
        told.append(UNTUNED)
    by_system = values.add_prefix(f"{measure} ")
    return Finished(
        groups=groups,
        differences=differences,
        queries=queries.join(by_system, on="query_id"),
        sentences=[*told, limits(systems)],
    )


def _systems(values: pd.DataFrame, runs: Mapping[str, RunFile], control: str) -> Systems:
    """Return which systems, the columns of the values, are models, and which are rivals."""
    rivals = [name for name in values if name not in runs]
    if control and control not in rivals:
        known = offenders(rivals)
        raise InputError(f"control {control}: is none of the rivals ({known}); name one of them")
    return Systems(list(runs), rivals, control)


def read_runs(paths: Sequence[str]) -> dict[str, RunFile]:
    """Read runs as `read_run` does; each is named as its file, without suffixes.

    Raises
    ------
    InputError
        A run cannot be read, or two files have one name.
    """
    runs: dict[str, RunFile] = {}
    for path in paths:
        name = Path(path.removesuffix(".gz")).stem
        if name in runs:
            raise InputError(
                f"{path}: another file has the name {name}, too, which names its system; rename one"
            )
        runs[name] = read_run(Path(path))
    return runs


def _values(test: Side, runs: Mapping[str, RunFile], measure: str) -> pd.DataFrame:
    """Return the value of each judged test query, by query_id, in a column a system."""
    if test.qrels is None or test.known_by == TEXT:
        raise InputError(
            f"{test.name}: the test queries need judgements by doc_id; "
            "give SPEC@SPLIT or QUERIES.tsv,QRELS"
        )
    is_asked = test.qrels["query_id"].isin(test.queries["query_id"])
    qrels = test.qrels[is_asked]
    columns = {}
    for name, run in runs.items():
        measured = per_query(run, qrels, [measure])
        columns[name] = measured[measure]
    values = pd.DataFrame(columns).rename_axis("query_id")
    blank = [name for name in values if not values[name].any()]
    if blank:
        raise InputError(
            f"{offenders(blank)}: nothing relevant for any of {len(values)} test queries; search "
            "them, and name passages as the qrels do"
        )
    return values


def _bm25(test: Side, measure: str) -> pd.Series:
    """Return the values of BM25, by query_id."""
    values = values_of_system(test, "", measure)
    if values is None:
        raise InputError(
            f"--rivals: none is given, and {test.name} is no collection that BM25 can search here; "
            "give the run of a system that has not seen the training queries"
        )
    return values


def _without_hits(runs: Mapping[str, RunFile], judged: pd.Index) -> list[str]:
    """Return a sentence for each run that has no hit for some of the judged queries."""
    told = []
    for name, run in runs.items():
        missing = without_hits(run, judged)
        if missing:
            told.append(f"{counted_as_empty(name, missing, len(judged))}.")
    return told


def _grouped(train: pd.DataFrame, test: pd.DataFrame, encoder: str, near: float) -> pd.DataFrame:
    """Return the group of each test query.

    Returns
    -------
    DataFrame
        query_id, query, queries (of GROUPS), is_exact (the same words or letters as a training
        query), train_query (the nearest one), cosine.
    """
    pairs = near_pairs(train["text"], test["text"], near)
    is_exact = pairs[["words", "order"]].eq(1).any(axis=1)
    exact_copies = pairs.loc[is_exact, "test"]
    train_texts = train["text"].tolist()
    test_texts = test["text"].tolist()
    cosines, nearest = nearest_of(encoder, train_texts, test_texts)
    table = test[["query_id", "text"]].rename(columns={"text": "query"})
    table = table.reset_index(drop=True)
    is_copy = table.index.isin(pairs["test"])
    table["queries"] = _halves(cosines, is_copy)
    table.loc[is_copy, "queries"] = COPIES
    table["is_exact"] = table.index.isin(exact_copies)
    table["train_query"] = [train_texts[row] for row in nearest]
    table["cosine"] = cosines
    return table


def _halves(cosines: np.ndarray, is_copy: np.ndarray) -> pd.Series:
    """Return whether queries that are no copies are in the near or the far half, by row."""
    rank = pd.Series(cosines)[~is_copy].rank(method="first")
    is_near = rank > len(rank) / 2
    return is_near.map({True: NEAR_HALF, False: FAR_HALF})


def _refuse_few(queries: pd.DataFrame) -> None:
    """Refuse halves of fewer than LEAST_QUERIES."""
    n_compared = (queries["queries"] != COPIES).sum()
    if n_compared < 2 * LEAST_QUERIES:
        raise InputError(
            f"{n_compared} of {len(queries)} judged test queries are no copies of training "
            f"queries; two halves need {2 * LEAST_QUERIES}: give more test queries"
        )


def _tidy(values: pd.DataFrame, queries: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return system, measure, query_id, queries (the group), value of a column a system."""
    group_of = queries.set_index("query_id")["queries"]
    tidy = values.reset_index().melt("query_id", var_name="system")
    tidy["measure"] = measure
    tidy["queries"] = tidy["query_id"].map(group_of)
    return tidy


def _means(values: pd.DataFrame, systems: Systems, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return the mean of each system, and of its leads, on each of GROUPS."""
    parts = []
    for group in GROUPS:
        of_group = values
        if group != ALL:
            of_group = values[values["queries"] == group]
        if len(of_group):
            leads = with_leads(of_group, systems.rivals).set_index("system")
            in_order = leads.loc[systems.with_leads].reset_index()
            parts.append(in_order.assign(queries=group))
    labels = ["queries", "system", "measure"]
    means = effects(pd.concat(parts), labels, **bootstrap)
    return pd.DataFrame(means)[[*labels, "mean", "low", "high", "n_queries"]]


def _judged_differences(
    values: pd.DataFrame, systems: Systems, bootstrap: Bootstrap, margin: float
) -> pd.DataFrame:
    """Return the DIFFERENCES between both halves of each lead, and the verdict on it."""
    is_compared = values["queries"] != COPIES
    differences = _differences(values[is_compared], systems, bootstrap)
    rows = differences.itertuples()
    differences["verdict"] = [verdict(row, margin) for row in rows]
    return differences


def _differences(values: pd.DataFrame, systems: Systems, bootstrap: Bootstrap) -> pd.DataFrame:
    """Return the DIFFERENCES between both halves of each lead, of values on these halves."""
    plain = _near_minus_far(values, systems.rivals, 1, bootstrap)
    labels = pd.DataFrame(systems.pairs, columns=["system", "rival"])
    names = labels["system"] + " minus " + labels["rival"]
    leads = plain.loc[names]
    leads["p_value"] = [_p_value(draws) for draws in leads.drawn()]
    lowest, highest = _widest(leads, values, systems.rivals, bootstrap)
    leads["lowest"] = lowest
    leads["highest"] = highest
    labels["rival_difference"] = labels["rival"].map(plain["difference"])
    labels["own_near"] = labels["system"].map(plain["near"])
    labels["is_control"] = labels["rival"] == systems.control
    table = pd.DataFrame(leads).reset_index(drop=True)
    return labels.join(table)[list(DIFFERENCES)]


def _widest(
    leads: Effects,
    values: pd.DataFrame,
    rivals: Sequence[str],
    bootstrap: Bootstrap,
) -> tuple[pd.Series, pd.Series]:
    """Return the lowest low and the highest high of leads, however difficulty acts.

    It acts on the system as on the rival, or by one of SENSITIVITIES as much.
    """
    lowest = leads["low"]
    highest = leads["high"]
    for weight in SENSITIVITIES:
        every_lead = _near_minus_far(values, rivals, weight, bootstrap)
        weighted = every_lead.loc[leads.index]
        lowest = np.minimum(lowest, weighted["low"])
        highest = np.maximum(highest, weighted["high"])
    return lowest, highest


def _near_minus_far(
    values: pd.DataFrame,
    rivals: Sequence[str],
    weight: float,
    bootstrap: Bootstrap,
) -> Effects:
    """Return `near_and_far` of the systems and of their leads, by the name of either.

    A lead is over the rival times the weight.
    """
    near = values[values["queries"] == NEAR_HALF]
    leads = with_leads(values, rivals, weight)
    leads["is_near"] = leads["query_id"].isin(near["query_id"])
    means = effects(leads, ["system", "measure", "is_near"], **bootstrap)
    return near_and_far(means, LOSS, NEAR_MINUS_FAR).set_index("system")


def _p_value(draws: np.ndarray) -> float:
    """Return the two-sided p-value of no effect, of draws float[n_boot]; NaN if none varies."""
    if not varies(draws):
        return float("nan")
    n_below = (draws <= 0).sum()
    n_above = (draws >= 0).sum()
    n_beyond = min(n_below, n_above)
    share = (n_beyond + 1) / (len(draws) + 1)
    return float(min(1.0, 2 * share))


def write(folder: Path, found: Finished) -> Finished:
    """Write finished.csv, groups.csv, queries.csv and finished.html; return it with `files`."""
    tables = {
        "finished": found.differences,
        "groups": found.groups,
        "queries": found.queries,
    }
    files = []
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        path = write_text(folder / f"{name}.csv", text)
        files.append(path)
    files.append(write_text(folder / "finished.html", page(found)))
    return found._replace(files=files)


def printed(found: Finished) -> str:
    """Return the tables as text."""
    columns = ["system", "rival", "near", "far", "difference", "low", "high", "p_value", "detects"]
    groups = found.groups.drop(columns="measure")
    tables = (groups, found.differences[columns])
    texts = [table.to_string(index=False, float_format="%.3f") for table in tables]
    return "\n\n".join(texts)


def page(found: Finished) -> str:
    """Return what was found as one HTML page."""
    body = [
        f"<h1>{TITLE}</h1>",
        *paragraphs(found.sentences),
        _picture(found.differences),
        wide_table(_leads_in_words(found.differences)),
        f"<p>{LEGEND}</p>",
        "<h2>Means and leads, with their intervals</h2>",
        wide_table(_groups_in_words(found.groups)),
    ]
    return html_page(TITLE, body)


def _leads_in_words(differences: pd.DataFrame) -> pd.DataFrame:
    """Return the table of differences for the page."""
    table = with_interval(differences, "difference", "points")
    lowest_and_highest = zip(table["lowest"], table["highest"], strict=True)
    table["if difficulty acts otherwise"] = [ends(*pair) for pair in lowest_and_highest]
    table["detects"] = [with_unit(value, "points").removeprefix("+") for value in table["detects"]]
    of_rivals = [with_unit(value, "points") for value in table["rival_difference"]]
    table["rival, near minus far"] = of_rivals
    columns = ["system", "rival", "near", "far", "difference", "p_value", "detects"]
    columns += ["rival, near minus far", "if difficulty acts otherwise", "verdict"]
    return table[columns].rename(columns={"difference": "near minus far"})


def _groups_in_words(groups: pd.DataFrame) -> pd.DataFrame:
    """Return the table of means for the page: a row a system or lead, a column a group."""
    numbers = groups[["mean", "low", "high"]].map("{:.3f}".format)
    interval = numbers["low"] + ", " + numbers["high"]
    mean = numbers["mean"] + " [" + interval + "]"
    n_queries = groups["n_queries"].map("{:,}".format)
    table = groups[["system"]].assign(mean=mean)
    table["group"] = groups["queries"] + " (" + n_queries + ")"
    by_group = table.pivot(index="system", columns="group", values="mean")
    systems = table["system"].unique()
    columns = table["group"].unique()
    return by_group.loc[systems, columns].reset_index()


def _picture(differences: pd.DataFrame) -> str:
    """Return a forest of the differences as SVG."""
    figures.style()
    lead = differences["system"] + " minus " + differences["rival"]
    points = 100 * differences[["difference", "low", "high"]]
    points["lead"] = lead
    label = "lead on near minus far queries, points"
    figure = figures.forest(points, "lead", "difference", label)
    return svg_of(figure)

"""What can be said of a finished model, whose training queries are known: nobody trains it again.

Its lead over rivals is compared between the test queries near to its training queries and those
far from them, a difference in differences. Taught in notebooks/12_your_own_retriever.
"""

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from interextra import figures
from interextra.data.runs import RunFile
from interextra.measures.evaluate import check, per_query
from interextra.overlap.near import near_pairs
from interextra.own import regimes
from interextra.own.audit import NEAR, TEXT, Side
from interextra.own.clean import values_of_system
from interextra.own.distance import TF_IDF, nearest_of
from interextra.own.run_files import read_run
from interextra.stats.bootstrap import ratio, varies
from interextra.stats.effects import DRAWS, Effects, effects, shown
from interextra.stats.formatting import with_interval
from interextra.stats.tests import LEAST_QUERIES, detectable
from interextra.store import InputError, offenders, write_text

ALL, NEAR_HALF, FAR_HALF = regimes.GROUPS
COPIES = "exact and near-duplicates"
GROUPS = (*regimes.GROUPS, COPIES)
FAR_MINUS_NEAR = (False, True)  # values of is_near
NEAR_MINUS_FAR = (True, False)
LOSS = 0.11  # share that training without near queries costs (Zhan et al., Table 6)
# how much more than on a rival difficulty may act on a model that is of another kind
SENSITIVITIES = (0.5, 2.0)
LARGER = "larger on near queries"
SMALLER = "smaller on near queries"
NO_DIFFERENCE = "no difference"
DIFFICULTY = "undecided: difficulty"
UNDECIDED = "undecided"
UNSHOWN = ["measure", "needed", "own_near", "is_control"]  # on the page
LEGEND = (
    "A lead is the value of a system minus that of a rival on the same queries; difference: its "
    "mean on the near half minus that on the far half. Intervals are of 95 %, over queries; p of "
    "the same draws, two-sided. Detects: the smallest difference found with 80 % power. Near and "
    "far: halves by the cosine to the nearest training query; copies and near-duplicates of "
    "training queries are in neither. If difficulty acts otherwise: the interval where it acts on "
    "the system half to twice as much as on the rival."
)


class Systems(NamedTuple):
    """The names of the systems that are compared."""

    models: list[str]  # finished ones
    rivals: list[str]
    control: str = ""  # the rival of the models' kind; "": none is

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return whose lead over which rival is compared: of each model, and of the control.

        Leads over the control stand first.
        """
        others = [name for name in self.rivals if name != self.control]
        rivals = [self.control, *others] if self.control else others
        pairs = [(model, rival) for model in self.models for rival in rivals]
        if self.control:
            pairs += [(self.control, rival) for rival in others]
        return pairs


class Finished(NamedTuple):
    """What near and far test queries say of finished models, as tables and as sentences."""

    # queries (of GROUPS), system, measure, mean, low, high, n_queries; "A minus B" is a lead
    groups: pd.DataFrame
    # a lead a row, see `_differences`, and its verdict
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
    means = values.groupby(by, sort=False, as_index=False)["value"].mean()
    parts = [means]
    for rival in rivals:
        is_rival = means["system"] == rival
        of_rival = means[is_rival].drop(columns="system")
        others = means[~is_rival]
        leads = others.merge(of_rival, on=["measure", "query_id"], suffixes=("", "_rival"))
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
    error = contrasts.drawn().std(axis=1)
    contrasts["detects"] = detectable(contrasts["low"], contrasts["high"], error)
    columns = [*key, "difference", "low", "high", "detects", DRAWS]
    sides = pd.DataFrame(means).pivot(index=key, columns="is_near", values="mean")
    sides = sides.rename(columns={True: "near", False: "far"}).reset_index()
    table = sides.merge(pd.DataFrame(contrasts)[columns], on=key)
    share = ratio(table["detects"], loss * _own_near(table))
    n_queries = means["n_queries"].max()
    needed = np.ceil(2 * n_queries * share**2)
    draws = table.pop(DRAWS)
    return Effects(table.assign(needed=pd.array(needed, dtype="Int64"), **{DRAWS: draws}))


def _own_near(table: pd.DataFrame) -> pd.Series:
    """Return what the system itself has on near queries: of its lead, the loss is a share of it."""
    near = table.set_index(["system", "measure"])["near"]
    system = table["system"].str.split(" minus ").str[0]
    own_key = pd.MultiIndex.from_arrays([system, table["measure"]])
    return near.reindex(own_key)


def finished(
    train: Side,
    test: Side,
    runs: Mapping[str, RunFile],
    rivals: Mapping[str, RunFile] | None = None,
    control: str = "",
    measure: str = "nDCG@10",
    encoder: str = TF_IDF,
    near: float = NEAR,
    margin: float = 0.05,
    seed: int = 1,
    n_boot: int = 10_000,
) -> Finished:
    """Compare the leads of finished models over rivals between near and far test queries.

    Copies and near-duplicates of training queries are in neither half. Pairing each query with
    itself in a rival takes difficulty out as far as it acts on both alike. As it need not, a
    difference counts only if it is also there where difficulty acts on the model half or twice as
    much as on the rival; over a control, which is of the model's kind, it counts as it is.

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
        Says how near queries are: tf-idf, or one of `models.encoders`.
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
    rivals = rivals or {}
    if control and control not in rivals:
        raise InputError(f"control {control}: is none of the rivals ({offenders(rivals)})")
    every_run = {**runs, **rivals}
    qrels = _qrels(test)
    values = [_measured(run, qrels, measure, name) for name, run in every_run.items()]
    if not rivals:
        values.append(_bm25(test, measure))
    names = [str(of_system.name) for of_system in values]
    systems = Systems(names[: len(runs)], names[len(runs) :], control)
    by_system = pd.concat(values, axis=1)

    is_measured = test.queries["query_id"].isin(by_system.index)
    queries = _grouped(train.queries, test.queries[is_measured], encoder, near)
    _refuse_few(queries)
    tidy = by_system.rename_axis("query_id").reset_index()
    tidy = tidy.melt("query_id", var_name="system").assign(measure=measure)
    bootstrap: dict[str, Any] = {"seed": seed, "n_boot": n_boot}
    groups = _means(tidy, queries, systems, bootstrap)
    differences = _differences(tidy, queries, systems, bootstrap)
    differences["verdict"] = [_verdict(row, margin) for row in differences.itertuples()]
    remarks = [_without_hits(run, by_system.index, name) for name, run in every_run.items()]
    return Finished(
        groups=groups,
        differences=differences,
        queries=queries.merge(by_system, left_on="query_id", right_index=True),
        sentences=[
            *_answers(differences, systems.control),
            _of_copies(queries, groups, systems),
            _of_distance(queries, encoder),
            *_of_power(differences, queries),
            *filter(None, remarks),
            _limits(systems),
        ],
    )


def read_runs(paths: Sequence[str]) -> dict[str, RunFile]:
    """Read runs as `read_run` does; each is named as its file, without suffixes.

    Raises
    ------
    InputError
        A run cannot be read, or two files have one name.
    """
    names = [Path(path.removesuffix(".gz")).stem for path in paths]
    repeated = [path for path, name in zip(paths, names, strict=True) if names.count(name) > 1]
    if repeated:
        raise InputError(
            f"--runs, --rivals: files of one name: {offenders(repeated)}; rename one, as they name "
            "the systems"
        )
    return {name: read_run(Path(path)) for name, path in zip(names, paths, strict=True)}


def _qrels(test: Side) -> pd.DataFrame:
    """Return the judgements of the test queries."""
    if test.qrels is None or test.known_by == TEXT:
        raise InputError(
            f"{test.name}: the test queries need judgements by doc_id; "
            "give SPEC@SPLIT or QUERIES.tsv,QRELS"
        )
    is_asked = test.qrels["query_id"].isin(test.queries["query_id"])
    return test.qrels[is_asked]


def _measured(run: RunFile, qrels: pd.DataFrame, measure: str, name: str) -> pd.Series:
    """Return the values of a run by query_id, named as its system."""
    values = per_query(run, qrels, [measure])[measure]
    if not values.any():
        raise InputError(
            f"{name}: nothing relevant for any of {len(values)} test queries; search them, and "
            "name passages as the qrels do"
        )
    return values.rename(name)


def _bm25(test: Side, measure: str) -> pd.Series:
    """Return the values of BM25, by query_id."""
    values = values_of_system(test, "", measure)
    if values is None:
        raise InputError(
            f"--rivals: none is given, and {test.name} is no collection that BM25 can search here; "
            "give the run of a system that has not seen the training queries"
        )
    return values


def _without_hits(run: RunFile, judged: pd.Index, name: str) -> str:
    """Return the sentence that says that a run has no hit for some of the judged queries."""
    counts = zip(run.query_ids, np.diff(run.offsets), strict=True)
    with_hits = [query_id for query_id, n_hits in counts if n_hits]
    missing = judged.difference(with_hits).tolist()
    if not missing:
        return ""
    return (
        f"{name}: {len(missing)} of {len(judged)} test queries without a hit "
        f"({offenders(missing)}): counted as rankings without a passage."
    )


def _grouped(train: pd.DataFrame, test: pd.DataFrame, encoder: str, near: float) -> pd.DataFrame:
    """Return the group of each test query.

    Returns
    -------
    DataFrame
        query_id, query, queries (of GROUPS), is_exact (the same words or letters as a training
        query), train_query (the nearest one), cosine.
    """
    pairs = near_pairs(train["text"], test["text"], near)
    is_same = (pairs["words"] == 1) | (pairs["order"] == 1)
    rows = np.arange(len(test))
    is_copy = np.isin(rows, pairs["test"])
    cosines, nearest = nearest_of(encoder, train["text"].tolist(), test["text"].tolist())
    rank = pd.Series(cosines[~is_copy]).rank(method="first")
    groups = np.full(len(test), COPIES, object)
    groups[~is_copy] = np.where(rank > len(rank) / 2, NEAR_HALF, FAR_HALF)
    return pd.DataFrame(
        {
            "query_id": test["query_id"].to_numpy(),
            "query": test["text"].to_numpy(),
            "queries": groups,
            "is_exact": np.isin(rows, pairs["test"][is_same]),
            "train_query": train["text"].to_numpy()[nearest],
            "cosine": cosines,
        }
    )


def _refuse_few(queries: pd.DataFrame) -> None:
    """Refuse halves of fewer than LEAST_QUERIES."""
    n_compared = (queries["queries"] != COPIES).sum()
    if n_compared < 2 * LEAST_QUERIES:
        raise InputError(
            f"{n_compared} of {len(queries)} judged test queries are no copies of training "
            f"queries; two halves need {2 * LEAST_QUERIES}: give more test queries"
        )


def _means(
    values: pd.DataFrame,
    queries: pd.DataFrame,
    systems: Systems,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Return the mean of each system, and of its leads, on each of GROUPS."""
    names = [*systems.models, *systems.rivals, *map(" minus ".join, systems.pairs)]
    leads = with_leads(values, systems.rivals)
    leads = leads[leads["system"].isin(names)]
    in_groups = leads.merge(queries[["query_id", "queries"]], on="query_id")
    every_group = pd.concat([in_groups.assign(queries=ALL), in_groups])
    means = effects(every_group, ["queries", "system", "measure"], **bootstrap)
    columns = ["queries", "system", "measure", "mean", "low", "high", "n_queries"]
    rank = {name: number for number, name in enumerate([*GROUPS, *names])}
    return pd.DataFrame(means)[columns].sort_values(
        ["queries", "system"], key=lambda column: column.map(rank), ignore_index=True
    )


def _differences(
    values: pd.DataFrame,
    queries: pd.DataFrame,
    systems: Systems,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Return near minus far of each lead.

    Returns
    -------
    DataFrame
        system, rival, measure, far, near (the lead), difference, low, high, p_value, detects,
        needed (queries that find LOSS), lowest, highest (the ends of all intervals if difficulty
        acts on the system by SENSITIVITIES of what it does on the rival), rival_difference (near
        minus far of the rival itself), own_near (what the system has on near queries), is_control
        (whether the rival is).
    """
    compared = queries[queries["queries"] != COPIES]
    halves = compared[["query_id"]].assign(is_near=compared["queries"] == NEAR_HALF)
    tables = []
    for weight in (1, *SENSITIVITIES):
        leads = with_leads(values, systems.rivals, weight).merge(halves, on="query_id")
        means = effects(leads, ["system", "measure", "is_near"], **bootstrap)
        tables.append(near_and_far(means, LOSS, NEAR_MINUS_FAR).set_index("system"))
    table = tables[0]
    names = [" minus ".join(pair) for pair in systems.pairs]
    labels = pd.DataFrame(systems.pairs, columns=["system", "rival"])
    leads = table.loc[names].reset_index(drop=True)
    leads["p_value"] = [_p_value(draws) for draws in leads.drawn()]
    leads["lowest"] = np.min([each.loc[names, "low"] for each in tables], axis=0)
    leads["highest"] = np.max([each.loc[names, "high"] for each in tables], axis=0)
    leads["rival_difference"] = table.loc[labels["rival"], "difference"].to_numpy()
    leads["own_near"] = table.loc[labels["system"], "near"].to_numpy()
    leads["is_control"] = labels["rival"] == systems.control
    return labels.join(pd.DataFrame(leads).drop(columns=DRAWS))


def _p_value(draws: np.ndarray) -> float:
    """Return the two-sided p-value of no effect, of draws float[n_boot]; NaN if none varies."""
    if not varies(draws):
        return float("nan")
    n_beyond = min((draws <= 0).sum(), (draws >= 0).sum())
    share = (n_beyond + 1) / (len(draws) + 1)
    return float(min(1.0, 2 * share))


def _verdict(row: Any, margin: float) -> str:
    """Return what a row of `_differences` shows; `margin` as in `finished`."""
    low, high = row.lowest, row.highest
    if row.is_control:
        low, high = row.low, row.high
    if low > 0:
        return LARGER
    if high < 0:
        return SMALLER
    if max(-low, high) <= margin * row.own_near:
        return NO_DIFFERENCE
    if row.low > 0 or row.high < 0:
        return DIFFICULTY
    return UNDECIDED


def _answers(differences: pd.DataFrame, control: str) -> Iterator[str]:
    """Yield the sentences of each lead; the first words answer."""
    for row in differences.itertuples():
        if row.system == control:
            yield (
                f"For comparison, the lead of the control {control} over {row.rival} differs by "
                f"{_points(row.difference, row.low, row.high)} between near and far queries."
            )
        else:
            yield _answer(row)


def _answer(row: Any) -> str:
    """Return the sentence of the lead of a model."""
    lead = f"the lead of {row.system} over {row.rival} in {row.measure}"
    points = _points(row.difference, row.low, row.high)
    of_both = f"near minus far {points}"
    side = "larger" if row.difference > 0 else "smaller"
    if row.verdict == LARGER:
        return f"T{lead[1:]} is larger on near queries: {points}: part of it may be interpolation."
    if row.verdict == SMALLER:
        return f"T{lead[1:]} is smaller on near queries: {points}: no sign of interpolation."
    if row.verdict == NO_DIFFERENCE:
        bound = 100 * max(-row.lowest, row.highest)
        if row.is_control:
            bound = 100 * max(-row.low, row.high)
        return f"No difference above {bound:.1f} points: {lead}, {of_both}."
    if row.verdict == DIFFICULTY:
        ends = f"{100 * row.lowest:+.1f} to {100 * row.highest:+.1f}"
        return (
            f"Undecided: {lead} is {side} on near queries, {points}. But {row.rival} itself "
            f"differs by {100 * row.rival_difference:+.1f} points there: if difficulty acts on "
            f"{row.system} half to twice as much, the interval is {ends}."
        )
    return (
        f"Undecided: {lead} is not shown to differ, {of_both}; "
        f"{100 * row.detects:.1f} points would be found with 80 % power."
    )


def _points(value: float, low: float, high: float) -> str:
    """Return a difference with its interval, in points."""
    if np.isnan(low):
        return f"{100 * value:+.1f} points (no interval)"
    return f"{100 * value:+.1f} points (95 % CI {100 * low:+.1f} to {100 * high:+.1f})"


def _of_copies(queries: pd.DataFrame, groups: pd.DataFrame, systems: Systems) -> str:
    """Return the sentence of the copies and near-duplicates of training queries."""
    n_copies = (queries["queries"] == COPIES).sum()
    if not n_copies:
        return "No test query is a copy or a near-duplicate of a training query."
    n_exact = queries["is_exact"].sum()
    model, rival = systems.pairs[0]
    is_lead = (groups["queries"] == COPIES) & (groups["system"] == f"{model} minus {rival}")
    [lead] = groups[is_lead].itertuples()
    return (
        f"{n_copies:,} of {len(queries):,} test queries are near-duplicates of training queries, "
        f"{n_exact:,} of them copies; they are in neither half. There the lead of {model} over "
        f"{rival} is {_points(lead.mean, lead.low, lead.high)}."
    )


def _of_distance(queries: pd.DataFrame, encoder: str) -> str:
    """Return the sentence of how near both halves are."""
    cosine = queries.groupby("queries")["cosine"].mean()
    n_queries = queries["queries"].value_counts()
    return (
        f"Near are {n_queries[NEAR_HALF]:,} queries with a mean cosine of {cosine[NEAR_HALF]:.2f} "
        f"to the nearest training query by {encoder}, far {n_queries[FAR_HALF]:,} with "
        f"{cosine[FAR_HALF]:.2f}."
    )


def _of_power(differences: pd.DataFrame, queries: pd.DataFrame) -> Iterator[str]:
    """Yield a warning where the first lead has too few queries to find LOSS."""
    n_compared = (queries["queries"] != COPIES).sum()
    first = differences.iloc[0]
    if not first["needed"] > n_compared:
        return
    share = first["detects"] / first["own_near"]
    yield (
        f"Few queries: {n_compared:,} find {100 * first['detects']:.1f} points with 80 % power, "
        f"{share:.0%} of what {first['system']} has on near queries. The {LOSS:.0%} that training "
        f"without near queries costs (Zhan et al.) would need {first['needed']:,}."
    )


def _limits(systems: Systems) -> str:
    """Return the sentence of what cannot be said."""
    limits = (
        "What cannot be said: that the training queries are the cause. Near queries may be easier "
        "for models of this kind, whatever they were trained on"
    )
    if systems.control:
        return (
            f"{limits}: for that stands {systems.control}, if it differs from the model in its "
            "training queries alone and has seen none near to the test queries."
        )
    return (
        f"{limits}. A rival of the same kind that has not seen the training queries tells that: "
        "give it as control."
    )


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
        files.append(write_text(folder / f"{name}.csv", text))
    files.append(write_text(folder / "finished.html", page(found)))
    return found._replace(files=files)


def printed(found: Finished) -> str:
    """Return the tables as text."""
    columns = ["system", "rival", "near", "far", "difference", "low", "high", "p_value", "detects"]
    tables = [found.groups.drop(columns="measure"), found.differences[columns]]
    texts = [table.to_string(index=False, float_format="%.3f") for table in tables]
    return "\n\n".join(texts)


def page(found: Finished) -> str:
    """Return what was found as one HTML page."""
    differences = with_interval(found.differences, "difference", "points")
    differences["if difficulty acts otherwise"] = differences[["lowest", "highest"]].apply(
        lambda ends: f"{100 * ends['lowest']:+.1f} to {100 * ends['highest']:+.1f}", axis=1
    )
    groups = with_interval(found.groups, "mean", "")
    by_group = groups.pivot(index="system", columns="queries", values="mean")
    order = groups["system"].unique()
    present = [group for group in GROUPS if group in by_group]
    by_group = by_group.loc[order, present].reset_index()
    body = [
        *(f"<p>{html.escape(sentence)}</p>" for sentence in found.sentences),
        _picture(found.differences),
        shown(differences.drop(columns=[*UNSHOWN, "lowest", "highest"])).to_html(),
        f"<p>{LEGEND}</p>",
        "<h2>Means and leads</h2>",
        shown(by_group).to_html(),
    ]
    return regimes.document("What does a finished model owe to near training queries?", body)


def _picture(differences: pd.DataFrame) -> str:
    """Return a forest of the differences as SVG."""
    figures.style()
    lead = differences["system"] + " minus " + differences["rival"]
    points = 100 * differences[["difference", "low", "high"]]
    label = "lead on near minus far queries, points"
    return regimes.as_svg(figures.forest(points.assign(lead=lead), "lead", "difference", label))

"""Values per query of anybody's runs on a split, and the regime of each."""

import glob
import itertools
import re
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from interextra.data.runs import COLUMNS, RunFile, strings
from interextra.data.trec import refuse_repeated
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.own.run_files import (
    VALUES,
    counted_as_empty,
    format_suffix,
    read_csv,
    read_run,
    run_of_hits,
    without_hits,
)
from interextra.own.split_folder import SplitFolder
from interextra.own.steps import counted
from interextra.splits.resttest import in_regimes
from interextra.store import InputError, offenders

MODEL = "model"
# trec_eval's names of measures, which PyTerrier keeps where it was asked by them
TREC_NAMES = {
    "map": "AP",
    "map_cut": "AP",
    "ndcg": "nDCG",
    "ndcg_cut": "nDCG",
    "P": "P",
    "recall": "R",
    "recip_rank": "RR",
    "success": "Success",
    "bpref": "Bpref",
}
Training = tuple[str, str]  # name of the set and seed
Hits: TypeAlias = Mapping[str, Mapping[str, float]]  # query_id → doc_id → score
# A run in any form, or a table of values per query
Found: TypeAlias = Path | RunFile | pd.DataFrame | Hits


def values_of_runs(
    folder: SplitFolder, pattern: str, measures: Sequence[str], skip_own: bool = False
) -> pd.DataFrame:
    """Return the values of all runs that a pattern finds.

    Parameters
    ----------
    pattern : str
        Path of a run, with {part} for the name of a set and, where there are several trainings,
        {seed}; both may be parts of names of folders. Or a .csv of values of all systems, as
        PyTerrier's `Experiment(..., perquery=True)` gives them, see `values_of_systems`.
    skip_own : bool
        Whether a passage with the id of its query does not count.

    Returns
    -------
    DataFrame
        regime, seed, query_id, measure, value, and left_out, stratum.

    Raises
    ------
    InputError
        A set without a run, or what `values_of_run` refuses.
    """
    if "{part}" not in pattern:
        return _values_of_file(folder, pattern, measures)
    if pattern.count("{seed}") > 1:
        raise InputError(f"--runs {pattern}: write {{seed}} once")
    paths = {}
    for set_name in folder.sets:
        for seed, path in _find_runs(pattern, set_name).items():
            paths[set_name, seed] = path
    _refuse_missing_runs(pattern, folder.sets, paths)
    values = {}
    for training, path in counted(paths.items(), "runs"):
        values[training] = values_of_run(path, folder, measures, skip_own)
    return join_trainings(values, folder)


def _values_of_file(folder: SplitFolder, pattern: str, measures: Sequence[str]) -> pd.DataFrame:
    """Return the values of all systems that a .csv has."""
    path = Path(pattern)
    if format_suffix(path) != ".csv":
        raise InputError(
            f"--runs {pattern}: write {{part}} where the name of a training set stands, e.g. "
            f"'runs/{{part}}.{{seed}}.run'{_about_wildcards(pattern)}"
        )
    return values_of_systems(folder, read_csv(path), measures, source=pattern)


def _about_wildcards(pattern: str) -> str:
    """Return what to know of a pattern that looks like one of a shell; "" for others."""
    if not any(sign in pattern for sign in "*?["):
        return ""
    return "; * ? [ ] are no wildcards here, only {part} and {seed} stand for names"


def values_of_systems(
    folder: SplitFolder,
    found: pd.DataFrame | Mapping[str, Found],
    measures: Sequence[str],
    skip_own: bool = False,
    source: str = "values",
) -> pd.DataFrame:
    """Return the values of the trainings on a split, as `values_of_runs` does.

    Parameters
    ----------
    found : DataFrame or mapping
        What was found, by the name of a system, which is that of its training set, and behind a dot
        a seed where there are several trainings: `without-who`, `without-who.1`. A table has the
        values of all systems: name, query_id (or qid), measure, value.
    source : str
        Where it is from, for errors.

    Raises
    ------
    InputError
        A name of no training set, a set without a training that another one has, and what
        `values_of_run` refuses.
    """
    by_system = found
    if isinstance(found, pd.DataFrame):
        by_system = systems_of(found, source)
    trainings = _trainings(by_system, folder, source)
    values = {}
    for name, training in trainings.items():
        where = f"{source}: {name}"
        values[training] = values_of_run(by_system[name], folder, measures, skip_own, where)
    return join_trainings(values, folder)


def systems_of(table: pd.DataFrame, source: str = "values") -> dict[str, pd.DataFrame]:
    """Return the values of each system of a table, by its name.

    Raises
    ------
    InputError
        A column that is missing: name, query_id (or qid), measure, value.
    """
    table = _with_our_names(table)
    missing = [name for name in ("name", *VALUES) if name not in table]
    if missing:
        raise InputError(
            f"{source}: no column {offenders(missing, 4)}; it needs name, qid, measure and value, "
            f"and has {offenders(table.columns, 12)}"
        )
    return dict(list(table.groupby("name", sort=False)))


def _with_our_names(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table of a run or of values with the kit's names of columns and of measures."""
    table = table.rename(columns=COLUMNS)
    if "measure" in table:
        written = table["measure"].unique()
        measures = {name: measure_name(str(name)) for name in written}
        table["measure"] = table["measure"].map(measures)
    return table


def measure_name(name: str) -> str:
    """Return what ir_measures calls a measure that has a name of trec_eval; others as they are.

    Examples
    --------
    >>> measure_name("ndcg_cut_10"), measure_name("map"), measure_name("nDCG@10")
    ('nDCG@10', 'AP', 'nDCG@10')
    """
    family, _, cutoff = name.rpartition("_")
    if family in TREC_NAMES and cutoff.isdecimal():
        return f"{TREC_NAMES[family]}@{cutoff}"
    return TREC_NAMES.get(name, name)


def _trainings(names: Iterable[str], folder: SplitFolder, source: str) -> dict[str, Training]:
    """Return the training that each name of a system means; all sets need the same seeds."""
    trainings = {}
    unknown = []
    for name in names:
        before, _, seed = str(name).rpartition(".")
        if name in folder.sets:
            trainings[name] = (name, "1")
        elif before in folder.sets:
            trainings[name] = (before, seed)
        else:
            unknown.append(name)
    if unknown:
        raise InputError(
            f"{source}: {offenders(unknown)}: no training set of the split; name each system "
            f"SET or SET.SEED, where the sets are {', '.join(folder.sets)}"
        )
    if len(set(trainings.values())) < len(trainings):
        raise InputError(f"{source}: two of {offenders(trainings, 8)} are one training; keep one")
    missing = _missing(trainings.values(), folder.sets)
    if missing:
        systems = [".".join(training) for training in missing]
        raise InputError(f"{source}: no values of {offenders(systems)}; every set needs each seed")
    return trainings


def _missing(
    trainings: Collection[Training], set_names: Sequence[str], only_seed: str = "1"
) -> list[Training]:
    """Return the trainings of sets that lack a seed which another set has.

    `only_seed` is that of all sets where there is no training.
    """
    seeds = sorted({seed for _, seed in trainings}) or [only_seed]
    wanted = itertools.product(set_names, seeds)
    return [training for training in wanted if training not in trainings]


def _find_runs(pattern: str, set_name: str) -> dict[str, Path]:
    """Return the paths of the runs of a set, by seed; of a single training it is 1."""
    path = Path(pattern.replace("{part}", set_name)).as_posix()
    expression = re.escape(path).replace(r"\{seed\}", "(?P<seed>[^/.]+)")
    wildcard = glob.escape(path).replace("{seed}", "*")
    runs = {}
    for run in sorted(map(Path, glob.glob(wildcard))):
        match = re.fullmatch(expression, run.as_posix())
        if match:
            seed = match.groupdict().get("seed", "1")
            runs[seed] = run
    return runs


def _refuse_missing_runs(
    pattern: str, set_names: Sequence[str], paths: Mapping[Training, Path]
) -> None:
    """Refuse sets that lack a run with a seed that another set has."""
    missing = []
    for set_name, seed in _missing(paths, set_names, only_seed="1"):
        of_set = pattern.replace("{part}", set_name)
        missing.append(of_set.replace("{seed}", seed))
    if missing:
        raise InputError(
            f"--runs {pattern}: {len(missing)} runs are missing: {offenders(missing)}; "
            f"put the rankings of your models there{_about_wildcards(pattern)}"
        )


def join_trainings(values_of: Mapping[Training, pd.DataFrame], folder: SplitFolder) -> pd.DataFrame:
    """Return the values of all trainings with their regimes, see `values_of_runs`.

    A set is named REGIME-SIZE, or without-PART where each test query belongs to a part: then the
    regime is whether it belongs to the one that is left out.
    """
    labelled = []
    for (set_name, seed), values in values_of.items():
        trained = f"{set_name} {seed}"
        values = values.assign(seed=seed, trained=trained)
        before, _, after = set_name.partition("-")
        if folder.strata is None:
            labelled.append(values.assign(regime=before))
        else:
            labelled.append(values.assign(left_out=after))
    joined = pd.concat(labelled, ignore_index=True).assign(model=MODEL)
    if folder.strata is None:
        return joined
    strata = joined["query_id"].map(folder.strata)
    return in_regimes(joined.assign(stratum=strata))


def values_of_run(
    run: Found,
    folder: SplitFolder,
    measures: Sequence[str],
    skip_own: bool = False,
    source: str = BM25,
) -> pd.DataFrame:
    """Return the values of a run in any form, or those that somebody has computed.

    A test query that a run has no hit for counts as in `evaluate`: as a ranking without passages,
    which is said on standard error.

    Parameters
    ----------
    run : Path, RunFile, DataFrame or mapping
        A file of a run, or PyTerrier's .csv of values; a table of either; hits as {query_id:
        {doc_id: score}}.
    skip_own : bool
        Whether a passage with the id of its query does not count.
    source : str
        Whose run it is, for messages, where it is no file.

    Returns
    -------
    DataFrame
        query_id, measure, value, is_empty (whether the run has no hit for the query; of values
        that somebody has computed it is not known: False).

    Raises
    ------
    InputError
        Other queries, a run without any hit, values that lack a query.
    """
    if isinstance(run, Path):
        source = str(run)
    read = _run_or_values(run, folder.queries["query_id"], source)
    if isinstance(read, RunFile):
        return _evaluate(read, folder, measures, skip_own, source)
    return _written_values(read, folder, measures, source)


def _run_or_values(found: Found, query_ids: Collection[str], source: str) -> RunFile | pd.DataFrame:
    """Return the run that a user gave in any form, or the table of values that it is instead."""
    if isinstance(found, Path):
        is_table = format_suffix(found) == ".csv"
        found = read_csv(found) if is_table else read_run(found, query_ids)
    if isinstance(found, pd.DataFrame):
        table = _with_our_names(found)
        return table if "value" in table else RunFile.from_frame(table, source)
    if isinstance(found, RunFile):
        return found
    return run_of_hits(found, source)


def value_of_each(
    found: Found, query_ids: Collection[str], qrels: pd.DataFrame | None, measure: str
) -> pd.Series:
    """Return the value of each query by a run, or by a table of values, outside of any split.

    Parameters
    ----------
    found : Path, RunFile, DataFrame or mapping
        As `values_of_run` takes them.
    query_ids : collection of str
        The queries that are measured.
    qrels : DataFrame or None
        Their judgements by doc_id, which a run needs.

    Returns
    -------
    Series
        By query_id; of a run all judged queries, of a table those that it has.

    Raises
    ------
    InputError
        None of the queries, no judgements for a run, values of several systems.
    """
    source = str(found) if isinstance(found, Path) else "run"
    read = _run_or_values(found, query_ids, source)
    if isinstance(read, pd.DataFrame):
        _refuse_other_values(read, [measure], source)
        table = _of_measures(read, [measure], source)
        values = table.set_index("query_id")["value"]
        values = values[values.index.isin(query_ids)]
        has_queries = len(values) > 0
    elif qrels is None:
        raise InputError(f"{source}: needs judgements of the queries by doc_id; give them")
    else:
        has_queries = not set(query_ids).isdisjoint(read.query_ids)
        measured = per_query(read, qrels, [measure])
        values = measured[measure]
    if not has_queries:
        raise InputError(f"{source}: has none of the judged test queries; search them")
    return values.rename(source)


def _written_values(
    table: pd.DataFrame,
    folder: SplitFolder,
    measures: Sequence[str],
    source: str,
) -> pd.DataFrame:
    """Return the values of one system that somebody has computed."""
    _refuse_other_values(table, measures, source)
    values = _of_measures(table, measures, source)
    ids_of_measures = values.groupby("measure")["query_id"].agg(set)
    _refuse_other_queries(set.intersection(*ids_of_measures), folder, source)
    return values.assign(is_empty=False)


def _of_measures(table: pd.DataFrame, measures: Sequence[str], source: str) -> pd.DataFrame:
    """Return the values of some measures; refuse what is no number, and a query that repeats."""
    is_asked = table["measure"].isin(measures)
    values = table.loc[is_asked, VALUES].reset_index(drop=True)
    numbers = values["value"]
    if numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        raise InputError(f"{source}: a value is no number")
    query_ids = strings(values["query_id"], f"{source}: query_id")
    values["query_id"] = query_ids.to_pylist()
    refuse_repeated(values[["query_id", "measure"]], source)
    return values


def _refuse_other_values(table: pd.DataFrame, measures: Sequence[str], source: str) -> None:
    """Refuse values of several systems, and a table that lacks a column or a measure."""
    systems = table["name"].unique() if "name" in table else []
    if len(systems) > 1:
        raise InputError(f"{source}: values of several systems ({offenders(systems)}); keep one")
    is_tidy = "query_id" in table and "measure" in table
    written = set(table["measure"]) if is_tidy else set()
    absent = [name for name in measures if name not in written]
    if absent:
        raise InputError(
            f"{source}: no values of {offenders(absent)} in columns qid, measure and value"
        )


def _evaluate(
    run: RunFile,
    folder: SplitFolder,
    measures: Sequence[str],
    skip_own: bool,
    source: str,
) -> pd.DataFrame:
    """Return the values of a run by the qrels of the split."""
    rows = folder.passages.rows(run.doc_ids.to_pylist())
    unknown = run.doc_ids.filter(rows < 0).to_pylist()
    if unknown:
        raise InputError(
            f"{source}: {len(unknown)} doc_ids are not in the collection: {offenders(unknown)}"
        )
    query_ids = set(run.query_ids)
    if skip_own:
        run = RunFile.from_frame(run.frame().query("query_id != doc_id"))
    missing = _without_hits(run, folder, source)
    query_ids |= missing
    values = per_query(run, folder.qrels, measures).reset_index()
    _refuse_other_queries(query_ids, folder, source)
    tidy = values.melt("query_id", var_name="measure")
    return tidy.assign(is_empty=tidy["query_id"].isin(missing))


def _refuse_other_queries(query_ids: set[str], folder: SplitFolder, source: str) -> None:
    """Refuse values of other queries than the test queries, and of fewer than are judged."""
    strange = sorted(query_ids - set(folder.queries["query_id"]))
    if strange:
        raise InputError(
            f"{source}: {len(strange)} queries are not test queries of the split: "
            f"{offenders(strange)}"
        )
    missing = sorted(set(folder.qrels["query_id"]) - query_ids)
    if missing:
        raise InputError(
            f"{source}: {len(missing)} queries are missing: search all test queries: "
            f"{offenders(missing)}"
        )


def _without_hits(run: RunFile, folder: SplitFolder, source: str) -> set[str]:
    """Return the judged test queries that a run finds nothing for, and say so on standard error.

    A run that finds nothing for any of them is refused, unless it is BM25.
    """
    judged = set(folder.qrels["query_id"])
    missing = without_hits(run, judged)
    if len(missing) == len(judged) and source != BM25:
        raise InputError(
            f"{source}: a hit for none of {len(judged)} test queries ({offenders(missing)}); "
            "search them"
        )
    if missing:
        print(counted_as_empty(source, missing, len(judged)), file=sys.stderr)
    return set(missing)

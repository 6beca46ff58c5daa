"""Values per query of anybody's runs on a split, and the regime of each."""

import glob
import itertools
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.data.trec import refuse_repeated
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.own.run_files import format_suffix, read_csv, read_run
from interextra.own.split_folder import SplitFolder
from interextra.splits.resttest import in_regimes
from interextra.store import InputError, offenders

MODEL = "model"
Training = tuple[str, str]  # name of the set and seed


def values_of_runs(
    folder: SplitFolder, pattern: str, measures: Sequence[str], skip_own: bool = False
) -> pd.DataFrame:
    """Return the values of all runs that a pattern finds.

    Parameters
    ----------
    pattern : str
        Path of a run, with {part} for the name of a set and, where there are several trainings,
        {seed}; both may be parts of names of folders.
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
        raise InputError(
            f"--runs {pattern}: write {{part}} where the name of a training set stands"
        )
    if pattern.count("{seed}") > 1:
        raise InputError(f"--runs {pattern}: write {{seed}} once")
    paths = {}
    for set_name in folder.sets:
        for seed, path in _find_runs(pattern, set_name).items():
            paths[set_name, seed] = path
    _refuse_missing_runs(pattern, folder.sets, paths)
    values = {
        training: values_of_run(path, folder, measures, skip_own)
        for training, path in paths.items()
    }
    return join_trainings(values, folder)


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
    seeds = sorted({seed for _, seed in paths}) or ["{seed}"]
    missing = []
    for set_name, seed in itertools.product(set_names, seeds):
        if (set_name, seed) not in paths:
            of_set = pattern.replace("{part}", set_name)
            missing.append(of_set.replace("{seed}", seed))
    if missing:
        raise InputError(
            f"--runs {pattern}: {len(missing)} runs are missing: {offenders(missing)}; "
            "put them there"
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
    run: Path | RunFile,
    folder: SplitFolder,
    measures: Sequence[str],
    skip_own: bool = False,
) -> pd.DataFrame:
    """Return the values of a run, of its file, or of PyTerrier's .csv of values.

    A test query that a run has no hit for counts as in `evaluate`: as a ranking without passages,
    which is said on standard error.

    Parameters
    ----------
    run : Path or RunFile
        A `RunFile` is named BM25 in messages.
    skip_own : bool
        Whether a passage with the id of its query does not count.

    Returns
    -------
    DataFrame
        query_id, measure, value.

    Raises
    ------
    InputError
        Other queries, a run without any hit, values that lack a query.
    """
    if not isinstance(run, Path):
        return _evaluate(run, folder, measures, skip_own, BM25)
    if format_suffix(run) != ".csv":
        return _evaluate(read_run(run), folder, measures, skip_own, run)
    table = read_csv(run)
    if "value" in table:
        return _written_values(table, folder, measures, run)
    table_run = RunFile.from_frame(table, str(run))
    return _evaluate(table_run, folder, measures, skip_own, run)


def _written_values(
    table: pd.DataFrame,
    folder: SplitFolder,
    measures: Sequence[str],
    source: Path,
) -> pd.DataFrame:
    """Return the values of one system that somebody has computed."""
    _refuse_other_values(table, measures, source)
    is_asked = table["measure"].isin(measures)
    values = table.loc[is_asked, ["query_id", "measure", "value"]]
    numbers = values["value"]
    if numbers.dtype.kind not in "fiu" or not np.isfinite(numbers).all():
        raise InputError(f"{source}: a value is no number")
    refuse_repeated(values[["query_id", "measure"]], str(source))
    ids_of_measures = values.groupby("measure")["query_id"].agg(set)
    _refuse_other_queries(set.intersection(*ids_of_measures), folder, source)
    return values


def _refuse_other_values(table: pd.DataFrame, measures: Sequence[str], source: Path) -> None:
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
    source: Path | str,
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
    query_ids |= _without_hits(run, folder, source)
    values = per_query(run, folder.qrels, measures).reset_index()
    _refuse_other_queries(query_ids, folder, source)
    return values.melt("query_id", var_name="measure")


def _refuse_other_queries(query_ids: set[str], folder: SplitFolder, source: Path | str) -> None:
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


def _without_hits(run: RunFile, folder: SplitFolder, source: Path | str) -> set[str]:
    """Return the judged test queries that a run finds nothing for, and say so on standard error.

    A run that finds nothing for any of them is refused, unless it is BM25.
    """
    judged = set(folder.qrels["query_id"])
    counts = zip(run.query_ids, np.diff(run.offsets), strict=True)
    with_hits = {query_id for query_id, n_hits in counts if n_hits}
    missing = sorted(judged - with_hits)
    if not judged & with_hits and source != BM25:
        raise InputError(
            f"{source}: a hit for none of {len(judged)} test queries ({offenders(missing)}); "
            "search them"
        )
    if missing:
        counted = f"{len(missing)} of {len(judged)} test queries"
        print(
            f"{source}: {counted} without a hit ({offenders(missing)}): "
            "counted as rankings without a passage",
            file=sys.stderr,
        )
    return set(missing)

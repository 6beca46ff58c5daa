"""Notebook 12: a split of `own.export` opened again, and anybody's runs on it as values per query."""

import glob
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from interextra.data.runs import COLUMNS, MARKS, RunFile, open_parquet, strings
from interextra.data.trec import content, numbered_lines, read_qrels, read_queries_tsv, refuse_repeated
from interextra.evaluation.measures import per_query
from interextra.experiments.auditing import neighbours
from interextra.experiments.own import GATE, MANIFEST, STRATA, searched
from interextra.experiments.plans import run_of
from interextra.experiments.resttest import in_regimes
from interextra.ground import InputError, Store, offenders, sha256
from interextra.ground.cells import from_config
from interextra.ground.errors import one_line
from interextra.ground.files import parse_json
from interextra.models.bm25 import LABEL as BM25
from interextra.models.recipe import load_recipe
from interextra.models.run import Run
from interextra.splits.split import Split

MODEL = "model"


class Given(NamedTuple):
    """A folder of `own.export`, opened."""

    split: Split
    sets: list[str]
    queries: pd.DataFrame  # to search: query_id, text
    qrels: pd.DataFrame
    strata: pd.Series | None  # what left-out part each query belongs to; None: the regime is that of the set
    gate: str  # split of the queries that only show a lead over the baseline; "": some of the test queries do
    held: list[str]  # these queries

    @classmethod
    def open(cls, folder: Path) -> "Given":
        """InputError: no such folder, or a file of it changed since the split was written."""
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            split, sets, gate = from_config(manifest["split"]), list(manifest["sets"]), manifest["gate"]
            held, sums = (folder / GATE).read_text(encoding="utf-8").splitlines(), manifest["files"]
            if not isinstance(split, Split):
                raise ValueError("its split is none")
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError) as error:
            raise InputError(f"{folder}: no folder of `interextra split` ({error})") from None
        for path in (folder / name for name in ("test.tsv", "test.qrels", GATE, STRATA) if name in sums):
            if not path.is_file() or sha256(path) != sums[path.name]:
                raise InputError(f"{path}: was changed or is gone since the split was written; split again")
        strata = read_queries_tsv(folder / STRATA).set_index("query_id")["text"] if STRATA in sums else None
        queries, qrels = read_queries_tsv(folder / "test.tsv"), read_qrels(folder / "test.qrels")
        return cls(split, sets, queries, qrels, strata, gate, held)

    @property
    def bm25(self) -> Run:
        """BM25 with its defaults on the queries to search."""
        return run_of({"depth": 1000}, load_recipe("bm25"), self.split.pool, 0, searched(self.split, self.gate))

    def read(self, run: Run, store: Store) -> RunFile:
        """The ranking of the queries to search, of which a gate's query of a kind that is in no set is none."""
        found = pd.concat([run.read(store, part).frame() for part in run.queries])
        return RunFile.from_frame(found[found["query_id"].isin(self.queries["query_id"])])


def read_run(path: Path) -> RunFile:
    """A run, plain or gzipped: TREC, MTEB's .json, sentence-transformers' .jsonl, .csv (qid, docno, score); or Parquet.

    A query whose list of hits is empty has an empty ranking. InputError: the file, its line where it has lines, and
    what is wrong.
    """
    kind = _kind(path)
    if kind == ".json":
        return _of_mteb(path)
    if kind == ".jsonl":
        return _of_sentence_transformers(path)
    if kind == ".csv":
        return RunFile.from_frame(_read_csv(path), str(path))
    return _of_parquet(path) if kind == ".parquet" else RunFile.read(path)


def _of_parquet(path: Path) -> RunFile:
    """Run that `RunFile.write_parquet` wrote, or anybody's table of query_id (or qid), doc_id (or docno) and score."""
    with open_parquet(path) as file:
        if MARKS & (file.schema_arrow.metadata or {}).keys():
            return RunFile.read(path)
        return RunFile.from_frame(file.read().to_pandas(ignore_metadata=True).rename(columns=COLUMNS), str(path))


def _kind(path: Path) -> str:
    """The suffix that names the format, before a .gz."""
    return Path(path.name.removesuffix(".gz")).suffix


def _of_mteb(path: Path) -> RunFile:
    """Run of {subset: {split: {query_id: {doc_id: score}}}} with one subset of one split."""
    shape = "write {subset: {split: {query_id: {doc_id: score}}}}, as MTEB does"
    document = parse_json(content(path), path)
    subsets = document if isinstance(document, dict) else {"": document}
    named = [splits for name, splits in subsets.items() if name != "mteb_model_meta"]
    if not all(isinstance(splits, dict) for splits in named):
        raise InputError(f"{path}: not read as a run; {shape}")
    parts = [hits for splits in named for hits in splits.values()]
    if len(parts) != 1:
        raise InputError(f"{path}: {len(parts)} subsets and splits; keep one: {shape}")
    if not parts[0]:
        raise InputError(f"{path}: no queries in it; {shape}")
    return of_hits(parts[0], str(path))


def _of_sentence_transformers(path: Path) -> RunFile:
    """Run of lines {"query_id": …, "results": [{"corpus_id": …, "score": …}, …]}."""
    shape = 'write {"query_id": …, "results": [{"corpus_id": …, "score": …}, …]}'
    lines: dict[str, int] = {}
    rows = []
    for number, line in numbered_lines(path):
        where, row = f"{path}:{number}", parse_json(line, f"{path}:{number}")
        try:
            query_id = _id(row["query_id"])
            found = [(_id(hit["corpus_id"]), _number(hit["score"])) for hit in row["results"]]
        except (KeyError, TypeError) as error:
            raise InputError(f"{where}: not read as a run ({error!r}); {shape}") from None
        if query_id in lines:
            raise InputError(f"{where}: query_id {query_id!r} stands on line {lines[query_id]}, too; keep one")
        if len(dict(found)) < len(found):
            [(doc_id, _)] = Counter(doc_id for doc_id, _ in found).most_common(1)
            raise InputError(f"{where}: doc_id {doc_id!r} stands twice for query_id {query_id!r}; keep one")
        lines[query_id] = number
        rows += [(query_id, *hit) for hit in found]
    if not lines:
        raise InputError(f"{path}: no rows in it; {shape}")
    return RunFile.from_frame(_frame(rows), str(path), list(lines))


def _id(value: object) -> str:
    """An id of JSON: a string, or a whole number as it is written."""
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise TypeError(f"{str(value)[:40]} is no id: write a string")
    return str(value)


def _number(value: object) -> float:
    """A score of JSON."""
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise TypeError(f"{str(value)[:40]} is no score: write a number")
    return value


def of_hits(hits: Mapping[str, Mapping[str, float]], at: str = "run") -> RunFile:
    """The run of {query_id: {doc_id: score}}; a query without hits has an empty ranking. `at`: for errors."""
    if not isinstance(hits, Mapping) or not all(isinstance(found, Mapping) for found in hits.values()):
        raise InputError(f"{at}: not read as a run; it needs {{query_id: {{doc_id: score}}}}")
    asked = strings(pd.Series(list(hits), dtype=object), f"{at}: query_id").to_pylist()
    rows = [(query_id, *hit) for query_id, found in zip(asked, hits.values(), strict=True) for hit in found.items()]
    return RunFile.from_frame(_frame(rows), at, asked)


def _frame(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"], dtype=object)


def _read_csv(path: Path) -> pd.DataFrame:
    """A table of a run or of values per query, as PyTerrier writes them, with the kit's names of columns."""
    options = {"keep_default_na": False, "na_values": {"score": [""], "value": [""]}, "low_memory": False}
    options |= {"dtype": dict.fromkeys([*COLUMNS, *COLUMNS.values()], str)}
    try:
        table = pd.read_csv(io.BytesIO(content(path)), **options)
    except (ValueError, OverflowError) as error:  # empty, or not UTF-8
        raise InputError(f"{path}: not a table of comma-separated values ({one_line(error)})") from None
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes the columns that have no name for an index
        raise InputError(f"{path}: its rows have more fields than its header names; name each column")
    table = table.rename(columns=COLUMNS)
    if not table.columns.is_unique:
        raise InputError(f"{path}: a column stands twice in {offenders(table.columns, 12)}; keep one of each")
    if table.empty:
        raise InputError(f"{path}: no rows in it; check the file")
    return table


def measured(given: Given, pattern: str, names: Sequence[str], own: bool = True) -> pd.DataFrame:
    """Tidy values of all runs that a pattern finds: regime, seed, query_id, measure, value, and left_out, stratum.

    pattern : path of a run, with {part} for the name of a set and, where there are several trainings, {seed}; both may
        be parts of names of folders. InputError: a set without a run, or what `values_of` refuses.
    own : whether a passage with the id of its query counts.
    """
    if "{part}" not in pattern:
        raise InputError(f"--runs {pattern}: write {{part}} where the name of a training set stands")
    found: dict[str, list] = {name: [] for name in given.sets}
    label, at = ("regime", 0) if given.strata is None else ("left_out", 2)  # of REGIME-SIZE, without-NAME
    if pattern.count("{seed}") > 1:
        raise InputError(f"--runs {pattern}: write {{seed}} once")
    for name, parts in found.items():
        path = Path(pattern.replace("{part}", name)).as_posix()
        for file in sorted(map(Path, glob.glob(glob.escape(path).replace("{seed}", "*")))):
            if match := re.fullmatch(re.escape(path).replace(r"\{seed\}", "(?P<seed>[^/.]+)"), file.as_posix()):
                seed = match.groupdict().get("seed", "1")
                parts.append(values_of(file, given, names, own).assign(seed=seed, **{label: name.partition("-")[at]}))
    if missing := [name for name, parts in found.items() if not parts]:
        raise InputError(f"--runs {pattern}: no run of {len(missing)} sets: {offenders(missing)}")
    values = pd.concat([part for parts in found.values() for part in parts], ignore_index=True).assign(model=MODEL)
    return values if given.strata is None else in_regimes(values.assign(stratum=values["query_id"].map(given.strata)))


def values_of(found: Path | RunFile, given: Given, names: Sequence[str], own: bool = True) -> pd.DataFrame:
    """query_id, measure, value of a run, its file, or PyTerrier's .csv of values; InputError: unknown, missing ones."""
    is_csv, where = isinstance(found, Path) and _kind(found) == ".csv", found if isinstance(found, Path) else BM25
    if is_csv and "value" in (table := _read_csv(found)):  # of one system
        systems = table["name"].unique() if "name" in table else []
        if len(systems) > 1:
            raise InputError(f"{found}: values of several systems ({offenders(systems)}); keep one")
        known = set(table["measure"]) if {"query_id", "measure"} <= {*table.columns} else set()
        if absent := [name for name in names if name not in known]:
            raise InputError(f"{found}: no values of {offenders(absent)} in columns qid, measure and value")
        values = table.loc[table["measure"].isin(names), ["query_id", "measure", "value"]]
        if values["value"].dtype.kind not in "fiu" or not np.isfinite(values["value"]).all():
            raise InputError(f"{found}: a value is no number")
        refuse_repeated(values[["query_id", "measure"]], str(found))
        there = set.intersection(*(set(part) for _, part in values.groupby("measure")["query_id"]))
    else:
        run = read_run(found) if isinstance(found, Path) else found
        rows = given.split.pool.source.open().passages.rows(run.doc_ids.to_pylist())
        if unknown := run.doc_ids.filter(rows < 0).to_pylist():
            raise InputError(f"{where}: {len(unknown)} doc_ids are not in the collection: {offenders(unknown)}")
        there, run = set(run.query_ids), run if own else RunFile.from_frame(run.frame().query("query_id != doc_id"))
        values = per_query(run, given.qrels, names).reset_index().melt("query_id", var_name="measure")
    wrong = {"are not test queries of the split": there - set(given.queries["query_id"])}
    if isinstance(found, Path):  # a query for which our BM25 finds nothing counts 0
        wrong["are missing: search all test queries"] = set(given.qrels["query_id"]) - there
    for what, ids in wrong.items():
        if ids:
            raise InputError(f"{where}: {len(ids)} queries {what}: {offenders(sorted(ids))}")
    return values


def nearest(given: Given, encoder: str) -> pd.DataFrame:
    """The nearest training query of each test query: query_id, train_query, cosine (0: none), is_near (nearer half)."""
    pool, asked = given.split.pool.frame(), given.queries[~given.queries["query_id"].isin(given.held)]
    found = neighbours(pool[~pool["query_id"].isin(given.queries["query_id"])], asked, encoder)
    found = found.drop_duplicates("test_query_id").rename(columns={"test_query_id": "query_id"})
    found = asked[["query_id"]].merge(found[["query_id", "train_query", "cosine"]], how="left").fillna({"cosine": 0.0})
    return found.assign(is_near=found["cosine"].rank(method="first") > len(found) / 2)

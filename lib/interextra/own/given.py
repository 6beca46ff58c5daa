"""Notebook 12: a split of `own.export` opened again, and anybody's runs on it as values per
query.
"""

import glob
import io
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field, ValidationError

from interextra.data.runs import COLUMNS, MARKS, RunFile, open_parquet, strings
from interextra.data.trec import (
    content,
    numbered_lines,
    read_qrels,
    read_queries_tsv,
    refuse_repeated,
)
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.recipe import load_recipe
from interextra.models.search.run import Run, model_of
from interextra.own.audit import neighbours
from interextra.own.splitting import GATE, MANIFEST, STRATA, searched, sets_of
from interextra.splits import attributes
from interextra.splits.resttest import in_regimes
from interextra.splits.shift import read_shift
from interextra.splits.split import Split
from interextra.store import InputError, Store, offenders, sha256
from interextra.store.cells import from_config
from interextra.store.errors import one_line
from interextra.store.files import parse_json, read_json

MODEL = "model"


class Counts(BaseModel, strict=True):
    """How many queries and pairs a training set has."""

    queries: int = Field(ge=0)
    pairs: int = Field(ge=0)


class Manifest(BaseModel, strict=True):
    """What manifest.json of a folder of `own.export` holds."""

    protocol: str
    split: dict[str, Any]  # of `config_of`
    sets: dict[str, Counts] = Field(min_length=1)
    n_test: int = Field(ge=0)
    gate: str
    n_gate: int = Field(ge=0)
    negatives: int = Field(ge=1)
    spare: bool
    format: list[str]
    files: dict[str, str]  # SHA-256 by name

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """InputError for no such file, and in one line for what it holds besides."""
        path = folder / MANIFEST
        try:
            return cls.model_validate(read_json(path))
        except OSError as error:
            raise InputError(f"{folder}: no folder of `interextra split` ({error})") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise InputError(f"{path}: {where!r}: {first['msg']}; write the split again") from None

    def opened(self, path: Path, allowed: Sequence[str] = ()) -> Split:
        """The split; its attribute in Python is loaded only if it is one of the `allowed` names.

        InputError for a configuration of no split, and for code that is not allowed, or has changed
        since.
        """
        if strange := [
            name for name in sorted(set(_code_names(self.split))) if name not in allowed
        ]:
            told = "is code, which a folder cannot ask for. If it is yours, and you trust it, name it yourself:"
            raise InputError(f"{path}: {offenders(strange)} {told} --attribute {strange[0]}")
        _refuse_changed_code(self.split, path)
        try:
            split = from_config(self.split)
            if not isinstance(split, Split):
                raise InputError(f"{type(split).__name__} is no split")
            if type(split).__name__ != self.protocol:
                raise InputError(f"{type(split).__name__} is not its protocol {self.protocol!r}")
            searched(split, self.gate)
            odd = sorted(set(sets_of(split)) ^ self.sets.keys())
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ImportError,
            RecursionError,
        ) as error:
            kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
            told = " ".join(f"{kind}{error}".split())[:200]
            raise InputError(
                f"{path}: its split and gate cannot be opened ({told}); write the split again"
            ) from None
        if odd:
            raise InputError(
                f"{path}: {offenders(odd)} is not both a set of the split and in 'sets'; split again"
            )
        if self.gate and self.gate not in split.pool.source.open().splits:
            raise InputError(
                f"{path}: 'gate': the collection has no split {self.gate!r}; write the split again"
            )
        return split


def _code_names(config: Any) -> Iterator[str]:
    """All attributes in Python that a configuration names, wherever they stand in it."""
    parts = [config]
    while parts:
        part = parts.pop()
        if isinstance(part, str) and attributes.is_code(part):
            yield part
        elif isinstance(part, dict | list):
            parts.extend(part.values() if isinstance(part, dict) else part)


def _refuse_changed_code(config: Mapping[str, Any], path: Path) -> None:
    """InputError where an attribute in Python is no longer the one that the split was made with."""
    by = config.get("by")
    if not isinstance(by, str) or not attributes.is_code(by):
        return
    now, then = attributes.fingerprint(by), config.get("by_sha256")
    if now != then:
        told = f"the code of {by} is another one than that of the split (SHA-256 {now:.12}…, then {then!s:.12}…)"
        raise InputError(f"{path}: {told}; restore it, or split again")


class Given(NamedTuple):
    """A folder of `own.export`, opened."""

    split: Split
    sets: list[str]
    queries: pd.DataFrame  # to search: query_id, text
    qrels: pd.DataFrame
    strata: (
        pd.Series | None
    )  # what left-out part each query belongs to; None: the regime is that of the set
    # split of the queries that only show a lead over the baseline; "": some of the test queries do
    gate: str
    held: list[str]  # these queries
    manifest: Manifest

    @classmethod
    def open(cls, folder: Path, attribute: str = "") -> "Given":
        """Read a folder of `interextra split`; anybody may have written it.

        attribute : that of a shift by a function in Python, as the user names it; the folder alone
        loads no code. InputError: no such folder, a file that changed since the split was written,
        or one that holds something else.
        """
        manifest = Manifest.read(folder)
        split = manifest.opened(folder / MANIFEST, [read_shift(attribute)[1]] if attribute else [])
        needed = ["test.tsv", "test.qrels", GATE, *([STRATA] if split.release else [])]
        for name in needed:
            path = folder / name
            if name not in manifest.files:
                raise InputError(
                    f"{folder / MANIFEST}: 'files' has no SHA-256 of {name}; write the split again"
                )
            if not path.is_file() or sha256(path) != manifest.files[name]:
                raise InputError(
                    f"{path}: was changed or is gone since the split was written; split again"
                )
        queries, qrels = read_queries_tsv(folder / "test.tsv"), read_qrels(folder / "test.qrels")
        held = [query_id for _, query_id in numbered_lines(folder / GATE)]
        strata = (
            read_queries_tsv(folder / STRATA).set_index("query_id")["text"]
            if split.release
            else None
        )
        asked = set(queries["query_id"])
        wrong = {GATE: set(held) - asked, "test.qrels": set(qrels["query_id"]) - asked}
        if strata is not None:
            wrong[STRATA] = asked ^ set(strata.index)
        for name, ids in wrong.items():
            if ids:
                told = (
                    "is not in both it and test.tsv"
                    if name == STRATA
                    else "is no query of test.tsv"
                )
                raise InputError(f"{folder / name}: {offenders(sorted(ids))} {told}; split again")
        if strata is not None and (
            odd := sorted(set(strata) - {name.partition("-")[2] for name in manifest.sets})
        ):
            raise InputError(
                f"{folder / STRATA}: {offenders(odd)} is left out of no training set; split again"
            )
        return cls(
            split, list(manifest.sets), queries, qrels, strata, manifest.gate, held, manifest
        )

    @property
    def bm25(self) -> Run:
        """BM25 with its defaults on the queries to search."""
        model = model_of(load_recipe("bm25"), self.split.pool, 0)
        return Run(model=model, queries=searched(self.split, self.gate), depth=1000)

    def read(self, run: Run, store: Store) -> RunFile:
        """The ranking of the queries to search, of which a gate's query of a kind that is in no set
        is none.
        """
        found = pd.concat([run.read(store, part).frame() for part in run.queries])
        return RunFile.from_frame(found[found["query_id"].isin(self.queries["query_id"])])


def read_run(path: Path) -> RunFile:
    """A run, plain or gzipped: TREC, MTEB's .json, sentence-transformers' .jsonl, .csv (qid, docno,
    score); or Parquet.

    A query whose list of hits is empty has an empty ranking. InputError: the file, its line where
    it has lines, and what is wrong.
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
    """Run that `RunFile.write_parquet` wrote, or anybody's table of query_id (or qid), doc_id (or
    docno) and score.
    """
    with open_parquet(path) as file:
        if MARKS & (file.schema_arrow.metadata or {}).keys():
            return RunFile.read(path)
        return RunFile.from_frame(
            file.read().to_pandas(ignore_metadata=True).rename(columns=COLUMNS), str(path)
        )


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
            raise InputError(
                f"{where}: query_id {query_id!r} stands on line {lines[query_id]}, too; keep one"
            )
        if len(dict(found)) < len(found):
            [(doc_id, _)] = Counter(doc_id for doc_id, _ in found).most_common(1)
            raise InputError(
                f"{where}: doc_id {doc_id!r} stands twice for query_id {query_id!r}; keep one"
            )
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
    """The run of {query_id: {doc_id: score}}; a query without hits has an empty ranking. `at`: for
    errors.
    """
    if not isinstance(hits, Mapping) or not all(
        isinstance(found, Mapping) for found in hits.values()
    ):
        raise InputError(f"{at}: not read as a run; it needs {{query_id: {{doc_id: score}}}}")
    asked = strings(pd.Series(list(hits), dtype=object), f"{at}: query_id").to_pylist()
    rows = [
        (query_id, *hit)
        for query_id, found in zip(asked, hits.values(), strict=True)
        for hit in found.items()
    ]
    return RunFile.from_frame(_frame(rows), at, asked)


def _frame(rows: list[tuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"], dtype=object)


def _read_csv(path: Path) -> pd.DataFrame:
    """A table of a run or of values per query, as PyTerrier writes them, with the kit's names of
    columns.
    """
    options = {
        "keep_default_na": False,
        "na_values": {"score": [""], "value": [""]},
        "low_memory": False,
    }
    options |= {"dtype": dict.fromkeys([*COLUMNS, *COLUMNS.values()], str)}
    try:
        table = pd.read_csv(io.BytesIO(content(path)), **options)
    except (ValueError, OverflowError) as error:  # empty, or not UTF-8
        raise InputError(
            f"{path}: not a table of comma-separated values ({one_line(error)})"
        ) from None
    if not isinstance(
        table.index, pd.RangeIndex
    ):  # pandas takes the columns that have no name for an index
        raise InputError(
            f"{path}: its rows have more fields than its header names; name each column"
        )
    table = table.rename(columns=COLUMNS)
    if not table.columns.is_unique:
        raise InputError(
            f"{path}: a column stands twice in {offenders(table.columns, 12)}; keep one of each"
        )
    if table.empty:
        raise InputError(f"{path}: no rows in it; check the file")
    return table


def measured(given: Given, pattern: str, names: Sequence[str], own: bool = True) -> pd.DataFrame:
    """Tidy values of all runs that a pattern finds: regime, seed, query_id, measure, value, and
    left_out, stratum.

    pattern : path of a run, with {part} for the name of a set and, where there are several
    trainings, {seed}; both may
        be parts of names of folders. InputError: a set without a run, or what `values_of` refuses.
    own : whether a passage with the id of its query counts.
    """
    if "{part}" not in pattern:
        raise InputError(
            f"--runs {pattern}: write {{part}} where the name of a training set stands"
        )
    found: dict[str, list] = {name: [] for name in given.sets}
    if pattern.count("{seed}") > 1:
        raise InputError(f"--runs {pattern}: write {{seed}} once")
    for name, parts in found.items():
        path = Path(pattern.replace("{part}", name)).as_posix()
        for file in sorted(map(Path, glob.glob(glob.escape(path).replace("{seed}", "*")))):
            if match := re.fullmatch(
                re.escape(path).replace(r"\{seed\}", "(?P<seed>[^/.]+)"), file.as_posix()
            ):
                seed = match.groupdict().get("seed", "1")
                parts.append(of_training(values_of(file, given, names, own), given, name, seed))
    trained = {name: {part["seed"].iloc[0] for part in parts} for name, parts in found.items()}
    seeds = set().union(*trained.values()) or {"{seed}"}
    wanted = [(name, seed) for name in found for seed in sorted(seeds - trained[name])]
    if missing := [
        pattern.replace("{part}", name).replace("{seed}", seed) for name, seed in wanted
    ]:
        raise InputError(
            f"--runs {pattern}: {len(missing)} runs are missing: {offenders(missing)}; put them there"
        )
    return together([part for parts in found.values() for part in parts], given)


def of_training(values: pd.DataFrame, given: Given, name: str, seed: str) -> pd.DataFrame:
    """Values of `values_of` with the seed and the name of the model, and of the set `name` its
    regime (REGIME-SIZE) or what it lacks.
    """
    label, at = ("regime", 0) if given.strata is None else ("left_out", 2)
    return values.assign(seed=seed, trained=f"{name} {seed}", **{label: name.partition("-")[at]})


def together(parts: Sequence[pd.DataFrame], given: Given) -> pd.DataFrame:
    """The values of all trainings with their regimes, see `measured`."""
    values = pd.concat(parts, ignore_index=True).assign(model=MODEL)
    return (
        values
        if given.strata is None
        else in_regimes(values.assign(stratum=values["query_id"].map(given.strata)))
    )


def values_of(
    found: Path | RunFile, given: Given, names: Sequence[str], own: bool = True
) -> pd.DataFrame:
    """query_id, measure, value of a run, its file, or PyTerrier's .csv of values.

    A test query that a run has no hit for counts as in `evaluate`: as a ranking without passages,
    which is said on standard error. InputError: other queries, a run without any hit, values that
    lack a query.
    """
    is_csv, where = (
        isinstance(found, Path) and _kind(found) == ".csv",
        found if isinstance(found, Path) else BM25,
    )
    if is_csv and "value" in (table := _read_csv(found)):  # of one system
        systems = table["name"].unique() if "name" in table else []
        if len(systems) > 1:
            raise InputError(f"{found}: values of several systems ({offenders(systems)}); keep one")
        known = set(table["measure"]) if {"query_id", "measure"} <= {*table.columns} else set()
        if absent := [name for name in names if name not in known]:
            raise InputError(
                f"{found}: no values of {offenders(absent)} in columns qid, measure and value"
            )
        values = table.loc[table["measure"].isin(names), ["query_id", "measure", "value"]]
        if values["value"].dtype.kind not in "fiu" or not np.isfinite(values["value"]).all():
            raise InputError(f"{found}: a value is no number")
        refuse_repeated(values[["query_id", "measure"]], str(found))
        there = set.intersection(*(set(part) for _, part in values.groupby("measure")["query_id"]))
    else:
        run = read_run(found) if isinstance(found, Path) else found
        rows = given.split.pool.source.open().passages.rows(run.doc_ids.to_pylist())
        if unknown := run.doc_ids.filter(rows < 0).to_pylist():
            raise InputError(
                f"{where}: {len(unknown)} doc_ids are not in the collection: {offenders(unknown)}"
            )
        there, run = (
            set(run.query_ids),
            run if own else RunFile.from_frame(run.frame().query("query_id != doc_id")),
        )
        there |= _without_hits(run, given, where)
        values = (
            per_query(run, given.qrels, names).reset_index().melt("query_id", var_name="measure")
        )
    wrong = {"are not test queries of the split": there - set(given.queries["query_id"])}
    wrong["are missing: search all test queries"] = set(given.qrels["query_id"]) - there
    for what, ids in wrong.items():
        if ids:
            raise InputError(f"{where}: {len(ids)} queries {what}: {offenders(sorted(ids))}")
    return values


def _without_hits(run: RunFile, given: Given, where: Path | str) -> set[str]:
    """The judged test queries that a run finds nothing for, said on standard error; InputError
    where those are all.
    """
    judged = set(given.qrels["query_id"])
    found = {query_id for query_id, n in zip(run.query_ids, np.diff(run.offsets), strict=True) if n}
    missing = sorted(judged - found)
    if not judged & found and where != BM25:
        raise InputError(
            f"{where}: a hit for none of {len(judged)} test queries ({offenders(missing)}); search them"
        )
    if missing:
        told = f"{len(missing)} of {len(judged)} test queries without a hit ({offenders(missing)})"
        print(
            f"{where}: {told}: counted as rankings without a passage", file=sys.stderr, flush=True
        )
    return set(missing)


def nearest(given: Given, encoder: str) -> pd.DataFrame:
    """The nearest training query of each test query: query_id, train_query, cosine (0: none),
    is_near (nearer half).
    """
    pool, asked = (
        given.split.pool.frame(),
        given.queries[~given.queries["query_id"].isin(given.held)],
    )
    found = neighbours(pool[~pool["query_id"].isin(given.queries["query_id"])], asked, encoder)
    found = found.drop_duplicates("test_query_id").rename(columns={"test_query_id": "query_id"})
    found = (
        asked[["query_id"]]
        .merge(found[["query_id", "train_query", "cosine"]], how="left")
        .fillna({"cosine": 0.0})
    )
    return found.assign(is_near=found["cosine"].rank(method="first") > len(found) / 2)

"""Notebook 12: what anybody's runs on a split of `own.export` say of interpolation and extrapolation."""

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels, read_queries_tsv
from interextra.evaluation.measures import per_query
from interextra.experiments.auditing import neighbours
from interextra.experiments.own import MANIFEST, STRATA, tested
from interextra.experiments.plans import REGIMES
from interextra.experiments.resttest import in_regimes
from interextra.ground.cells import Store, from_config
from interextra.ground.effects import DRAWS, effects, shown, spelled
from interextra.ground.errors import InputError, offenders
from interextra.ground.files import write_text
from interextra.models.bm25 import LABEL as BM25
from interextra.models.recipe import load_recipe
from interextra.models.run import Run, model_of
from interextra.papers.verdicts import POWER
from interextra.splits.split import Split

COLUMNS = {"qid": "query_id", "docno": "doc_id"}  # PyTerrier's names
GROUPS = ("all", "near half", "far half")


class Given(NamedTuple):
    """A folder of `own.export`, opened."""

    split: Split
    sets: list[str]
    queries: pd.DataFrame  # of the test: query_id, text
    qrels: pd.DataFrame
    strata: pd.Series | None  # what left-out part each test query belongs to; None: the regime is that of the set

    @classmethod
    def open(cls, folder: Path) -> "Given":
        try:
            manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            split, sets = from_config(manifest["split"]), list(manifest["sets"])
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"{folder}: no folder of `interextra split` ({error})") from None
        strata = None
        if (folder / STRATA).is_file():
            strata = pd.read_csv(folder / STRATA, sep="\t", names=["query_id", "stratum"], dtype=str)
            strata = strata.set_index("query_id")["stratum"]
        return cls(split, sets, read_queries_tsv(folder / "test.tsv"), read_qrels(folder / "test.qrels"), strata)

    @property
    def bm25(self) -> Run:
        """BM25 with its defaults on the test queries."""
        return Run(model=model_of(load_recipe("bm25"), self.split.pool, 0), queries=tested(self.split), depth=1000)

    def labels(self, name: str) -> dict[str, str]:
        """What a set says of a run: regime, or what was left out."""
        return {"regime": name.split("-")[0]} if self.strata is None else {"left_out": name.removeprefix("without-")}


def read_run(path: Path) -> RunFile:
    """A run as TREC file or Parquet, MTEB's predictions (.json), sentence-transformers' (.jsonl), or a .csv.

    A .csv has the columns query_id or qid, doc_id or docno, and score. InputError: the file has no such shape.
    """
    try:
        if path.suffix == ".json":
            rows = [(query, *hit) for query, hits in _of_mteb(json.loads(path.read_text())) for hit in hits.items()]
        elif path.suffix == ".jsonl":
            lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
            rows = [(row["query_id"], hit["corpus_id"], hit["score"]) for row in lines for hit in row["results"]]
        elif path.suffix == ".csv":
            frame = pd.read_csv(path, dtype={name: str for name in ("qid", "docno", "query_id", "doc_id")})
            return RunFile.from_frame(frame.rename(columns=COLUMNS))
        else:
            return RunFile.read(path)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        told = f"write a TREC file, or what {path.suffix} holds"
        raise InputError(f"{path}: not read as a run ({error!r}); {told}") from None
    return RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def _of_mteb(predictions: dict):
    """(query_id, {doc_id: score}) of MTEB's {subset: {split: {query_id: …}}}; several subsets are ambiguous."""
    parts = [split for name, subset in predictions.items() if name != "mteb_model_meta" for split in subset.values()]
    if len(parts) != 1:
        raise ValueError(f"{len(parts)} subsets and splits; keep one")
    return parts[0].items()


def measured(given: Given, pattern: str, names: Sequence[str], own: bool = True) -> pd.DataFrame:
    """Tidy values of all runs that a pattern finds: regime or left_out and stratum, seed, query_id, measure, value.

    pattern : path of a run, with {part} for the name of a set and, where there are several trainings, {seed}.
    own : whether a passage with the id of its query counts.

    InputError: a set without a run, a run without a test query, or one of a query that is not asked.
    """
    if "{part}" not in pattern:
        raise InputError(f"--runs {pattern}: write {{part}} where the name of a training set stands")
    found, missing, asked = [], [], set(given.qrels["query_id"])
    for name in given.sets:
        path = Path(pattern.replace("{part}", name))
        seeds = re.compile(re.escape(path.name).replace(r"\{seed\}", "(?P<seed>.+)"))
        runs = [(file, match) for file in sorted(path.parent.glob("*")) if (match := seeds.fullmatch(file.name))]
        missing += [] if runs else [name]
        for file, match in runs:
            values = _values(read_run(file), given.qrels, names, own, str(file), asked)
            found.append(values.assign(seed=match.groupdict().get("seed", "1"), **given.labels(name)))
    if missing:
        raise InputError(f"--runs {pattern}: no run of {len(missing)} sets: {offenders(missing)}")
    values = pd.concat(found, ignore_index=True)
    if given.strata is None:
        return values
    return in_regimes(values.assign(stratum=values["query_id"].map(given.strata), model="model"))


def _values(run: RunFile, qrels: pd.DataFrame, names: Sequence[str], own: bool, where: str, asked: set) -> pd.DataFrame:
    if unknown := set(run.query_ids) - asked:
        what = f"{len(unknown)} queries are not test queries of the split"
        raise InputError(f"{where}: {what}: {offenders(sorted(unknown))}")
    if absent := asked - set(run.query_ids):
        what = f"{len(absent)} test queries are missing"
        raise InputError(f"{where}: {what}: {offenders(sorted(absent))}; search them all")
    run = run if own else RunFile.from_frame(run.frame().query("query_id != doc_id"))
    return per_query(run, qrels, names).reset_index().melt("query_id", var_name="measure")


def baseline(given: Given, store: Store, file: Path | None, names: Sequence[str], own: bool = True) -> pd.DataFrame:
    """Values of what every neural system should beat: a run, or `Given.bm25`, which the store then has."""
    if file:
        run, where = read_run(file), str(file)
    else:
        found = [given.bm25.read(store, part).frame() for part in given.bm25.queries]
        run, where = RunFile.from_frame(pd.concat(found)), BM25
    return _values(run, given.qrels, names, own, where, set(given.qrels["query_id"]))


def nearest(given: Given, encoder: str) -> pd.DataFrame:
    """The nearest training query of each test query: query_id, train_query, cosine, is_near.

    is_near: in the half of the test queries that lie nearer. A query without a direction has cosine 0.
    """
    pool, asked = given.split.pool.frame(), given.queries
    found = neighbours(pool[~pool["query_id"].isin(asked["query_id"])], asked, encoder)
    found = found.drop_duplicates("test_query_id").rename(columns={"test_query_id": "query_id"})
    found = asked[["query_id"]].merge(found[["query_id", "train_query", "cosine"]], how="left").fillna({"cosine": 0.0})
    return found.assign(is_near=found["cosine"].rank(method="first") > len(found) / 2)


def compared(values: pd.DataFrame, rival: pd.DataFrame, near: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """A row a group of queries and measure: both regimes, their change and what the model leads the rival by.

    near : of `nearest`, which halves the test queries.

    Returns queries, measure, interpolation, extrapolation, change (relative), low, high, p_value, lead, lead_low,
    lead_high (interpolation minus the rival), detects (the smallest change found with 80 % power), n_queries,
    n_trainings. Intervals are plain 95 % ones over queries and trainings.
    """
    rows, near = [], near.set_index("query_id")["is_near"]
    for name, kept in zip(GROUPS, (near | ~near, near, ~near), strict=True):
        ours, theirs = (part[part["query_id"].map(kept)] for part in (values, rival))
        table = effects(ours, ["measure"], "regime", REGIMES, "delta", seed=seed, n_boot=n_boot)
        inside = ours[ours["regime"] == REGIMES[0]].assign(system="model")
        both = pd.concat([inside, theirs.assign(system=BM25, seed="1")], ignore_index=True)
        both = both[["system", "measure", "seed", "query_id", "value"]]
        means = effects(both, ["system", "measure"], seed=seed, n_boot=n_boot)
        ahead = means.contrast("system", [("model", BM25)])[["measure", "difference", "low", "high"]]
        ahead = pd.DataFrame(ahead).set_axis(["measure", "lead", "lead_low", "lead_high"], axis=1)
        spread = pd.Series(table.drawn().std(axis=1), table.index)
        made = pd.DataFrame(table.drop(columns=[DRAWS, "p_holm", "sd_trainings"])).merge(ahead, on="measure")
        made["detects"] = (made["high"] - made["low"]) / 2 + POWER * spread
        rows.append(made.rename(columns={"delta": "change"}).assign(queries=name))
    columns = ["queries", "measure", *REGIMES, "change", "low", "high", "p_value", "lead", "lead_low", "lead_high"]
    return pd.concat(rows, ignore_index=True)[[*columns, "detects", "n_queries", "n_trainings"]]


def losers(values: pd.DataFrame, given: Given, near: pd.DataFrame, n: int = 10) -> pd.DataFrame:
    """The test queries that lose most in extrapolation, with their nearest training query.

    Of the first measure: query_id, query, interpolation, extrapolation, difference, train_query, cosine.
    """
    first = values[values["measure"] == values["measure"].iloc[0]]
    means = first.pivot_table(index="query_id", columns="regime", values="value")[list(REGIMES)]
    means["difference"] = means[REGIMES[1]] - means[REGIMES[0]]
    worst = means.nsmallest(n, "difference").reset_index().merge(given.queries, on="query_id")
    worst = worst.merge(near, on="query_id").rename(columns={"text": "query"})
    return worst[["query_id", "query", *REGIMES, "difference", "train_query", "cosine"]]


def sentences(table: pd.DataFrame, protocol: str) -> list[str]:
    """What the first measure says of all test queries, as text."""
    row = table.iloc[0]
    change = spelled(row["change"], row["low"], row["high"], "%")
    lead = spelled(row["lead"], row["lead_low"], row["lead_high"], "points")
    unit = f"{row['n_queries']:,} queries, {row['n_trainings']} training runs"
    texts = [f"{row['measure']} changes by {change} from interpolation to extrapolation ({protocol}; {unit})."]
    if row["lead_low"] <= 0:
        texts.append(f"In interpolation the model is not shown to beat {BM25} (lead {lead}): its loss decides little.")
    elif row["low"] <= 0 <= row["high"]:
        texts.append(f"The interval includes 0; this design finds a change of {100 * row['detects']:.1f} % or more.")
    else:
        texts.append(f"In interpolation it leads {BM25} by {lead}.")
    return texts


def write(folder: Path, table: pd.DataFrame, worst: pd.DataFrame, values: pd.DataFrame, told: list[str]) -> list[Path]:
    """regimes.csv, losers.csv, values.csv (PyTerrier's name, qid, measure, value) and regimes.html; their paths."""
    named = {"query_id": "qid"}
    per = values.assign(name=values["regime"] + ", training " + values["seed"].astype(str)).rename(columns=named)
    frames = {"regimes": table, "losers": worst, "values": per[["name", "qid", "measure", "value"]]}
    files = {f"{name}.csv": frame.to_csv(index=False, float_format="%.6g") for name, frame in frames.items()}
    body = "".join(f"<p>{html.escape(text)}</p>" for text in told)
    body += shown(table).to_html() + "<h2>Queries that lose most</h2>" + shown(worst).to_html()
    head = '<meta charset="utf-8"><title>Interpolation and extrapolation</title>'
    body = f"<h1>Do the models extrapolate?</h1>{body}"
    files["regimes.html"] = f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"
    return [write_text(folder / name, text) for name, text in files.items()]

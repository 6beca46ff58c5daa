"""The tables of the three papers as data; `stats.effects.Effects.beside` puts our effects beside
them.

The numbers stand as printed in `published_tables/*.yaml`. A file has, per table, the row keys, the
columns and the rows; a cell's attributes, such as its unit, come from, in rising precedence: the
table's `cells`, the file's `labels` for each part of the column's name ("R@100 | Inter." has two),
the column's own, the row's keys, and the `where` rules.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from interextra.models.architectures import colbert, dense, reranker, splade
from interextra.stats.correlation import independent, interval_of_one
from interextra.stats.effects import Effects
from interextra.stats.formatting import with_interval
from interextra.stats.tests import holm
from interextra.store.errors import InputError

FOLDER = Path(__file__).with_name("published_tables")
CORE = ["table", "row", "column", "value", "unit", "scaled", "rounding", "text", "source", "note"]
SEPARATOR = " | "
SIZES = ("14k", "45k", "200k")  # training queries of ReSTrain, of 503k
# Lupart's name → ours, of the systems that have a loss: BM25 isn't trained
LUPART = {
    "monoBERT": reranker.LABEL,
    "ColBERT": colbert.LABEL,
    "SPLADE": splade.LABEL,
    "bi-encoder": dense.LABEL,
}
# : A correlation, or the difference of both → the columns of its interval, in our table of
# correlations and in Zhan's.
BEGIN = {"interpolation": "inter", "extrapolation": "extra", "difference": "difference"}
ENDS = {column: (f"{begin}_low", f"{begin}_high") for column, begin in BEGIN.items()}
# : Factor from a printed value to the scale that we measure on: scores and changes are fractions. A
# percent change is : Extra. / Inter. - 1, so that negative is worse (Zhan), a percent loss (Avg In
# - Out) / Avg In: positive is (Lupart).
UNITS = dict.fromkeys(("score", "correlation", "count", "factor", "flag", "text"), 1.0)
UNITS |= dict.fromkeys(("score x100", "percent", "percent change", "percent loss"), 0.01)


def load(paper: str, table: str | int) -> pd.DataFrame:
    """Every cell of a published table, a row a cell, in printed order.

    `paper`: zhan, lupart or hofstaetter. `table`: its number; halves have a letter (3a). Returns
    DataFrame[table, row, column, value, unit, scaled, rounding, text, source, note, ...]: `value`
    as printed, `scaled` on our scale (a fraction), `rounding` half a unit of the last printed
    decimal on that scale, `text` where it is no number; missing where the paper gives nothing or
    the text is unreadable (`note` says which). Then the row keys and attributes, such as model,
    n_train, regime. InputError: unknown paper or table, or a table without numbers.

    >>> load("zhan", 7)[["column", "value", "scaled", "rounding"]].head(3)
                column  value  scaled  rounding
    0  MRR@10 | Inter.  0.189   0.189    0.0005
    1  MRR@10 | Extra.  0.188   0.188    0.0005
    2       MRR@10 | Δ -1.000  -0.010    0.0050
    """
    document, number = _document(paper), str(table)
    found = _entry(document["tables"], number, f"table of {paper}")
    cells = pd.DataFrame(_cells(document, number))
    if cells.empty:
        raise InputError(f"{paper}, table {number}: no numbers. {' '.join(found['notes'])}")
    return cells[
        [*CORE, *(name for name in cells if name not in CORE and cells[name].notna().any())]
    ]


def zhan_deltas() -> pd.DataFrame:
    """Δ of Zhan's Tables 6, 7: protocol, published_n_train, model, measure, scaled, rounding; BM25
    at each size.
    """
    six, seven = (load("zhan", number).query("regime == 'delta'") for number in (6, 7))
    bm25 = [six[six["model"] == "BM25"].assign(n_train=size) for size in SIZES[1:]]
    both = [
        pd.concat([six, *bm25]).assign(protocol="ReSTrain"),
        seven.assign(protocol="ReSTTest", n_train="all"),
    ]
    return pd.concat(both, ignore_index=True).rename(columns={"n_train": "published_n_train"})


def zhan_correlations() -> pd.DataFrame:
    """Zhan's Table 5 with the intervals and the test that it lacks, as if its 24 models were
    independent.

    How the two correlations of a row depend on each other was not published: they are compared as
    if they did not, which misses some of what there is. Kendall has no interval here. Returns
    DataFrame[collection, statistic, interpolation, extrapolation, difference, p_value, p_holm] and
    the intervals of both correlations as in `ENDS`.

    >>> table = zhan_correlations().query("statistic == 'Spearman'")
    >>> table.loc[table["p_value"] < 0.05, "collection"].tolist(), int((table["p_holm"] < 0.05).sum())
    (['CQADupS.'], 0)
    """
    cells = load("zhan", 5)
    wide, rows = (
        cells.pivot_table(
            index=["dataset", "statistic"], columns="regime", values="scaled", sort=False
        ),
        [],
    )
    for (collection, statistic), pair in wide.iterrows():
        has_interval, row = (
            statistic == "Spearman",
            {"collection": collection, "statistic": statistic},
        )
        for regime in ("interpolation", "extrapolation"):
            ends = (
                interval_of_one(pair[regime], 24, statistic) if has_interval else (np.nan, np.nan)
            )
            row |= {regime: pair[regime]} | dict(zip(ENDS[regime], ends, strict=True))
        p_value = independent(*pair, 24, statistic) if has_interval else np.nan
        rows.append(
            row | {"difference": pair["extrapolation"] - pair["interpolation"], "p_value": p_value}
        )
    table = pd.DataFrame(rows)
    return table.assign(p_holm=table.groupby("statistic")["p_value"].transform(lambda p: holm(p)))


def beside_differences(table: Effects) -> Effects:
    """Differences by Spearman of a table of ours beside the printed ones, of the collections that
    the paper has.
    """
    ours = table[table["statistic"] == "Spearman"].rename(
        columns={"difference_low": "low", "difference_high": "high"}
    )
    printed = zhan_correlations().rename(columns={"difference": "scaled"})
    printed["rounding"] = 2 * load("zhan", 5)["rounding"].max()  # of both correlations
    both = ours.beside(printed, on=["collection", "statistic"])
    return both[both["published"].notna()]


def correlations_page(table: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Both correlations of a table and their difference for the page, each with its interval where
    it has one.
    """
    rows = table[table["statistic"] == statistic]
    for column, (low, high) in ENDS.items():
        rows = with_interval(rows, column, "", low, high) if low in rows else rows
    return rows[["collection", *ENDS, "p_value", "p_holm"]]


def lupart_losses() -> pd.DataFrame:
    """RelLoss of Lupart's Tables 2, 3 with the other sign, Out / Avg In - 1: shift, cluster, model,
    delta, rounding.

    >>> lupart_losses().query("cluster == 'C1' and model == 'ColBERT'")["delta"].item()
    -0.085
    """
    cells = pd.concat([load("lupart", number) for number in (2, 3)]).query("quantity == 'Rel Loss'")
    shift, model = cells["collection"].str.removeprefix("MS-Shift "), cells["model"].map(LUPART)
    cells = cells.assign(shift=shift, model=model, delta=-cells["scaled"].round(6)).set_index(
        ["cluster", "model"]
    )
    places = list(itertools.product(cells.index.unique("cluster"), LUPART.values()))
    return cells.loc[places].reset_index()[["shift", "cluster", "model", "delta", "rounding"]]


def lupart_means() -> pd.DataFrame:
    """Mean of `lupart_losses` over the clusters of a shift: shift, model, measure, scaled,
    rounding.
    """
    of = lupart_losses().groupby(["shift", "model"], sort=False)
    return (
        of.agg(scaled=("delta", "mean"), rounding=("rounding", "max"))
        .reset_index()
        .assign(measure="RR@10")
    )


def nearest_share(sizes: Sequence[int], n_train: int) -> dict[int, str]:
    """Training size → the published size whose share of all training queries is nearest.

    >>> nearest_share([112, 1600], n_train=4000)
    {112: '14k', 1600: '200k'}
    """
    shares = {name: int(name[:-1]) / 503 for name in SIZES}
    return {
        size: min(shares, key=lambda name: abs(math.log(size / n_train / shares[name])))
        for size in sizes
    }


@lru_cache
def _document(paper: str) -> dict[str, Any]:
    files = {path.stem: path for path in FOLDER.glob("*.yaml")}
    return yaml.safe_load(_entry(files, paper, "paper").read_text(encoding="utf-8"))


def _entry(known: dict[str, Any], name: str, what: str) -> Any:
    if name not in known:
        raise InputError(f"no published {what}: {name!r}; there are {', '.join(sorted(known))}")
    return known[name]


def _cells(document: dict[str, Any], number: str) -> Iterator[dict[str, Any]]:
    table, labels = document["tables"][number], document.get("labels", {})
    source = f"{document['reference']}, section {table['section']}, Table {number.rstrip('ab')}"
    columns = (
        table["columns"]
        if isinstance(table["columns"], dict)
        else dict.fromkeys(table["columns"], {})
    )
    for row in table["rows"]:
        keys = dict(zip(table["keys"], row, strict=False))
        title = SEPARATOR.join(str(name) for name in keys.values() if name is not None)
        for (column, own), value in zip(columns.items(), row[len(keys) :], strict=True):
            cell = {
                "table": number,
                "row": title,
                "column": column,
                "source": source,
                "note": "",
                "decimals": None,
            }
            cell |= table.get("cells", {})
            for part in column.split(SEPARATOR):
                cell |= labels.get(part, {})
            cell |= own | keys
            for rule in table.get("where", []):
                if all(cell.get(name) == wanted for name, wanted in rule["when"].items()):
                    cell |= rule["set"]
            is_text, decimals, factor = (
                isinstance(value, str),
                cell.pop("decimals"),
                UNITS[cell["unit"]],
            )
            cell["value"] = math.nan if is_text or value is None else float(value)
            cell["scaled"] = cell["value"] * factor
            cell["rounding"] = math.nan if decimals is None else 0.5 * 10**-decimals * factor
            cell["text"] = value if is_text else None
            if value is None:
                cell["note"] = cell["note"] or table.get("null_means", "")
            yield cell

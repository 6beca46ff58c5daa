"""The tables of the three papers as data.

The numbers stand as printed in `published_tables/*.yaml`. A file has, per table, the row keys, the
columns and the rows; a cell's attributes, such as its unit, come from, in rising precedence: the
table's `cells`, the file's `labels` for each part of the column's name ("R@100 | Inter." has two),
the column's own, the row's keys, and the `where` rules. `stats.effects.Effects.beside` puts our
effects beside them.
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
CORE = ["table", "row", "column", "value", "unit", "scaled"]  # columns of every table
CORE += ["rounding", "text", "source", "note"]
SEPARATOR = " | "
# What the name of a cell says of a mean or a change: in domain, out of domain, what lies between
SIDES = ("Inter.", "Extra.", "Δ", "Avg In", "Out", "Rel Loss")
FLOAT_ERROR = 1e-9  # of fractions that are printed with few decimals
Attributes = dict[str, Any]  # of a cell, a column, a table or a paper
SIZES = ("14k", "45k", "200k")  # training queries of ReSTrain, of 503k
N_MODELS = 24  # of Zhan's Table 5
# Lupart's name → ours, of the systems that have a loss: BM25 isn't trained
LUPART = {
    "monoBERT": reranker.LABEL,
    "ColBERT": colbert.LABEL,
    "SPLADE": splade.LABEL,
    "bi-encoder": dense.LABEL,
}
# A correlation, or the difference of both → the columns of its interval, in our table of
# correlations and in Zhan's
ENDS = {
    "interpolation": ("inter_low", "inter_high"),
    "extrapolation": ("extra_low", "extra_high"),
    "difference": ("difference_low", "difference_high"),
}
# Factor from a printed value to the scale that we measure on: scores and changes are fractions. A
# percent change is Extra. / Inter. - 1, so that negative is worse (Zhan), a percent loss (Avg In -
# Out) / Avg In: positive is (Lupart).
UNITS = {
    **dict.fromkeys(("score", "correlation", "count", "factor", "flag", "text"), 1.0),
    **dict.fromkeys(("score x100", "percent", "percent change", "percent loss", "points"), 0.01),
}


def load(paper: str, table: str | int) -> pd.DataFrame:
    """Return every cell of a published table, a row per cell, in printed order.

    Parameters
    ----------
    paper
        zhan, lupart or hofstaetter.
    table
        Its number; halves have a letter (3a).

    Returns
    -------
    DataFrame[table, row, column, value, unit, scaled, rounding, text, source, note, ...]: `value`
    as printed, `scaled` on our scale (a fraction), `rounding` half a unit of the last printed
    decimal on that scale, `text` where it is no number; missing where the paper gives nothing or
    the text is unreadable (`note` says which). Then the row keys and attributes, such as model,
    n_train, regime.

    Raises
    ------
    InputError
        Unknown paper or table, or a table without numbers.

    Examples
    --------
    >>> load("zhan", 7)[["column", "value", "scaled", "rounding"]].head(3)
                column  value  scaled  rounding
    0  MRR@10 | Inter.  0.189   0.189    0.0005
    1  MRR@10 | Extra.  0.188   0.188    0.0005
    2       MRR@10 | Δ -1.000  -0.010    0.0050
    """
    document = _document(paper)
    number = str(table)
    entry = _entry(document["tables"], number, f"table of {paper}")
    cells = pd.DataFrame(_cells(document, number))
    if cells.empty:
        notes = " ".join(entry["notes"])
        raise InputError(f"{paper}, table {number}: no numbers. {notes}")
    others = cells.drop(columns=CORE)
    known = others.dropna(axis=1, how="all")
    return cells[[*CORE, *known]]


def every_cell() -> pd.DataFrame:
    """Return every cell of all tables of the three papers, see `load`, with its `paper`."""
    parts = []
    for path in sorted(FOLDER.glob("*.yaml")):
        paper = path.stem
        for number, table in _document(paper)["tables"].items():
            if table["rows"]:
                parts.append(load(paper, number).assign(paper=paper))
    return pd.concat(parts, ignore_index=True)


@lru_cache
def _document(paper: str) -> Attributes:
    """Read the file of a paper."""
    files = {path.stem: path for path in FOLDER.glob("*.yaml")}
    path = _entry(files, paper, "paper")
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _entry(known: Attributes, name: str, what: str) -> Any:
    """Return the entry of this name; refuse a name that is not there."""
    if name not in known:
        names = ", ".join(sorted(known))
        raise InputError(f"no published {what}: {name!r}; there are {names}")
    return known[name]


def _cells(document: Attributes, number: str) -> Iterator[Attributes]:
    """Yield the cells of a table in printed order."""
    table = document["tables"][number]
    place = f"section {table['section']}, Table {number.rstrip('ab')}"
    source = f"{document['reference']}, {place}"
    columns = _columns(table, document.get("labels", {}))
    n_keys = len(table["keys"])
    for row in table["rows"]:
        keys = dict(zip(table["keys"], row[:n_keys], strict=True))
        titles = [str(key) for key in keys.values() if key is not None]
        title = SEPARATOR.join(titles)
        for column, value in zip(columns, row[n_keys:], strict=True):
            cell = {"table": number, "row": title, "column": column, "source": source}
            cell |= columns[column] | keys
            _apply(table.get("where", []), cell)
            _set_value(cell, value, table.get("null_means", ""))
            yield cell


def _columns(table: Attributes, labels: Attributes) -> dict[str, Attributes]:
    """Return what the columns of a table say about their cells, by the name of the column."""
    own = table["columns"]
    if not isinstance(own, dict):
        own = dict.fromkeys(own, {})
    columns = {}
    for column, own_attributes in own.items():
        attributes = {"note": "", "decimals": None, **table.get("cells", {})}
        for part in column.split(SEPARATOR):
            attributes |= labels.get(part, {})
        columns[column] = attributes | own_attributes
    return columns


def _apply(rules: list[Attributes], cell: Attributes) -> None:
    """Set the attributes of a cell that the `where` rules give it, one rule after the other."""
    for rule in rules:
        if rule["when"].items() <= cell.items():
            cell |= rule["set"]


def _set_value(cell: Attributes, value: float | str | None, null_means: str) -> None:
    """Set value, scaled, rounding and text of a cell, and the note of an empty one."""
    decimals = cell.pop("decimals")
    factor = UNITS[cell["unit"]]
    if isinstance(value, str | None):
        cell["text"] = value
        cell["value"] = math.nan
    else:
        cell["text"] = None
        cell["value"] = float(value)
    cell["scaled"] = cell["value"] * factor
    cell["rounding"] = math.nan
    if decimals is not None:
        cell["rounding"] = 0.5 * 10**-decimals * factor
    if value is None:
        cell["note"] = cell["note"] or null_means


def zhan_deltas() -> pd.DataFrame:
    """Return Δ of Zhan's Tables 6 and 7, as fractions.

    Columns protocol, published_n_train, model, measure, scaled, rounding and others of `load`; BM25
    stands at each size.
    """
    restrain = load("zhan", 6).query("regime == 'delta'")
    resttest = load("zhan", 7).query("regime == 'delta'")
    bm25 = restrain[restrain["model"] == "BM25"]
    other_sizes = [bm25.assign(n_train=size) for size in SIZES[1:]]
    restrain = pd.concat([restrain, *other_sizes]).assign(protocol="ReSTrain")
    resttest = resttest.assign(protocol="ReSTTest", n_train="all")
    both = pd.concat([restrain, resttest], ignore_index=True)
    return both.rename(columns={"n_train": "published_n_train"})


def printed_changes() -> pd.DataFrame:
    """Return every printed change beside the changes that its printed means allow.

    A mean printed as 0.485 is any number from 0.4845 to 0.4855, so that the two means of a change
    allow a range of changes. Zhan, Tables 6 to 9: Extra. / Inter. - 1. Lupart, Tables 2 and 3: the
    loss (Avg In - Out) / Avg In with the other sign.

    Returns
    -------
    DataFrame[paper, table, cell, row, column, change, rounding, of_means, low, high, consistent]:
    fractions, negative is a loss; `of_means` is the change of the printed means, `low` and `high`
    are the ends of the range, `consistent` says whether a change that is printed like this one lies
    in it.

    Examples
    --------
    >>> changes = printed_changes()
    >>> changes.groupby("paper")["consistent"].agg(["sum", "size"]).values.tolist()
    [[40, 40], [66, 66]]
    """
    cells = every_cell()
    names = cells["row"] + SEPARATOR + cells["column"]
    cells["cell"] = names.map(_without_side)
    key = ["paper", "table", "cell"]
    change, inside, outside = (
        cells[cells["regime"] == regime].set_index(key)
        for regime in ("delta", "interpolation", "extrapolation")
    )
    inside = inside.loc[change.index]
    outside = outside.loc[change.index]
    low = (outside["scaled"] - outside["rounding"]) / (inside["scaled"] + inside["rounding"]) - 1
    high = (outside["scaled"] + outside["rounding"]) / (inside["scaled"] - inside["rounding"]) - 1
    is_loss = change["unit"] == "percent loss"
    printed = change["scaled"].where(~is_loss, -change["scaled"])
    tolerance = change["rounding"] + FLOAT_ERROR
    table = pd.DataFrame(
        {
            "row": change["row"],
            "column": change["column"],
            "change": printed,
            "rounding": change["rounding"],
            "of_means": outside["scaled"] / inside["scaled"] - 1,
            "low": low,
            "high": high,
            "consistent": printed.between(low - tolerance, high + tolerance),
        }
    )
    return table.reset_index()


def _without_side(name: str) -> str:
    """Return the name of a cell without what says which mean or change it is.

    Examples
    --------
    >>> _without_side("bi-encoder | Avg In | C0"), _without_side("45k | SPLADE | R@100 | Δ")
    ('bi-encoder | C0', '45k | SPLADE | R@100')
    """
    parts = name.split(SEPARATOR)
    return SEPARATOR.join(part for part in parts if part not in SIDES)


def zhan_correlations() -> pd.DataFrame:
    """Return Zhan's Table 5 with the intervals and the test that it lacks.

    Its 24 models count as independent. How the two correlations of a row depend on each other was
    not published: they are compared as if they did not, which misses some of what there is. Kendall
    has no interval here.

    Returns
    -------
    DataFrame[collection, statistic, interpolation, extrapolation, difference, p_value, p_holm] and
    the intervals of both correlations as in `ENDS`.

    Examples
    --------
    >>> table = zhan_correlations().query("statistic == 'Spearman'")
    >>> significant = table.loc[table["p_value"] < 0.05, "collection"]
    >>> significant.tolist(), int((table["p_holm"] < 0.05).sum())
    (['CQADupS.'], 0)
    """
    cells = load("zhan", 5)
    by = ["dataset", "statistic"]
    wide = cells.pivot_table(index=by, columns="regime", values="scaled", sort=False)
    rows = []
    for (collection, statistic), pair in wide.iterrows():
        row = {"collection": collection, "statistic": statistic}
        for regime in ("interpolation", "extrapolation"):
            low, high = ENDS[regime]
            value = pair[regime]
            row |= {regime: value, low: np.nan, high: np.nan}
            if statistic == "Spearman":
                row[low], row[high] = interval_of_one(value, N_MODELS, statistic)
        row["difference"] = pair["extrapolation"] - pair["interpolation"]
        row["p_value"] = _p_value(pair, statistic)
        rows.append(row)
    table = pd.DataFrame(rows)
    table["p_holm"] = table.groupby("statistic")["p_value"].transform(holm)
    return table


def _p_value(pair: pd.Series, statistic: str) -> float:
    """Return p of the difference of both correlations of a row; missing for Kendall."""
    if statistic != "Spearman":
        return np.nan
    first, second = pair
    return independent(first, second, N_MODELS, statistic)


def beside_differences(table: Effects) -> Effects:
    """Return our differences by Spearman beside the printed ones.

    Of the collections that the paper has. `table`: correlations, as `zhan_correlations`, with the
    draws of their differences.
    """
    ours = table[table["statistic"] == "Spearman"]
    ours = ours.rename(columns={"difference_low": "low", "difference_high": "high"})
    printed = zhan_correlations().rename(columns={"difference": "scaled"})
    rounding = load("zhan", 5)["rounding"].max()
    printed["rounding"] = 2 * rounding  # of both correlations
    both = ours.beside(printed, on=["collection", "statistic"])
    return both[both["published"].notna()]


def correlations_page(table: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Return both correlations and their difference for the page, with intervals where known."""
    rows = table[table["statistic"] == statistic]
    for column, (low, high) in ENDS.items():
        if low in rows:
            rows = with_interval(rows, column, "", low, high)
    return rows[["collection", *ENDS, "p_value", "p_holm"]]


def lupart_losses() -> pd.DataFrame:
    """Return RelLoss of Lupart's Tables 2 and 3 with the other sign, Out / Avg In - 1.

    Columns shift, cluster, model, delta, rounding.

    Examples
    --------
    >>> lupart_losses().query("cluster == 'C1' and model == 'ColBERT'")["delta"].item()
    -0.085
    """
    cells = pd.concat([load("lupart", 2), load("lupart", 3)])
    cells = cells[cells["quantity"] == "Rel Loss"]
    cells["shift"] = cells["collection"].str.removeprefix("MS-Shift ")
    cells["model"] = cells["model"].map(LUPART)
    cells["delta"] = -cells["scaled"].round(6)
    cells = cells.set_index(["cluster", "model"])
    clusters = cells.index.unique("cluster")
    order = list(itertools.product(clusters, LUPART.values()))
    losses = cells.loc[order].reset_index()
    return losses[["shift", "cluster", "model", "delta", "rounding"]]


def lupart_means() -> pd.DataFrame:
    """Return the mean of `lupart_losses` over the clusters of a shift.

    Columns shift, model, measure, scaled, rounding.
    """
    losses = lupart_losses().groupby(["shift", "model"], sort=False)
    means = losses.agg(scaled=("delta", "mean"), rounding=("rounding", "max"))
    return means.reset_index().assign(measure="RR@10")


def nearest_share(sizes: Sequence[int], n_train: int) -> dict[int, str]:
    """Return the published size whose share of all training queries is nearest to that of each.

    Examples
    --------
    >>> nearest_share([112, 1600], n_train=4000)
    {112: '14k', 1600: '200k'}
    """
    thousands = [int(name.removesuffix("k")) for name in SIZES]
    shares = np.array(thousands) / 503
    nearest = {}
    for size in sizes:
        ratios = size / n_train / shares
        distances = np.abs(np.log(ratios))
        nearest[size] = SIZES[distances.argmin()]
    return nearest

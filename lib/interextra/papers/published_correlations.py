"""Table 5 of Zhan et al. (section 4.2) with the intervals and the test that it lacks."""

import numpy as np
import pandas as pd

from interextra.ground.correlation import independent, interval_of_one
from interextra.ground.effects import Effects, holm, with_interval
from interextra.papers import published

#: A correlation, or the difference of both → the columns of its interval, in our table and in theirs.
ENDS = {
    "interpolation": ("inter_low", "inter_high"),
    "extrapolation": ("extra_low", "extra_high"),
    "difference": ("difference_low", "difference_high"),
}
REGIMES = list(ENDS)[:2]


def differences() -> pd.DataFrame:
    """Extrapolation less interpolation as printed: collection, statistic, scaled, rounding (of both)."""
    cells = published.load("zhan", 5).rename(columns={"dataset": "collection"})
    wide = cells.pivot(index=["collection", "statistic"], columns="regime", values=["scaled", "rounding"])
    scaled = wide["scaled"]["extrapolation"] - wide["scaled"]["interpolation"]
    return pd.DataFrame({"scaled": scaled, "rounding": wide["rounding"].sum(axis=1)}).reset_index()


def with_intervals(n: int = 24) -> pd.DataFrame:
    """The table as if the `n` models of a regime were independent.

    How the two correlations of a row depend on each other was not published: they are compared as if they did not,
    which misses some of what there is. Kendall has no interval here.

    Returns DataFrame[collection, statistic, interpolation, inter_low, inter_high, extrapolation, extra_low, extra_high,
    difference, p_value, p_holm].

    >>> table = with_intervals().query("statistic == 'Spearman'")
    >>> table.loc[table["p_value"] < 0.05, "collection"].tolist(), int((table["p_holm"] < 0.05).sum())
    (['CQADupS.'], 0)
    """
    cells = published.load("zhan", 5)
    wide, rows = cells.pivot_table(index=["dataset", "statistic"], columns="regime", values="scaled", sort=False), []
    for (collection, statistic), pair in wide.iterrows():
        has_interval, row = statistic == "Spearman", {"collection": collection, "statistic": statistic}
        for regime in REGIMES:
            ends = interval_of_one(pair[regime], n, statistic) if has_interval else (np.nan, np.nan)
            row |= {regime: pair[regime]} | dict(zip(ENDS[regime], ends, strict=True))
        row["difference"] = pair["extrapolation"] - pair["interpolation"]
        row["p_value"] = independent(*pair[REGIMES], n, statistic) if has_interval else np.nan
        rows.append(row)
    table = pd.DataFrame(rows)
    return table.assign(p_holm=table.groupby("statistic")["p_value"].transform(lambda p: holm(p)))


def beside(table: Effects) -> Effects:
    """Differences by Spearman of a table of ours beside the printed ones, of the collections that the paper has."""
    names = dict(zip(ENDS["difference"], ("low", "high"), strict=True))
    ours = table[table["statistic"] == "Spearman"].rename(columns=names)
    both = ours.beside(differences(), on=["collection", "statistic"])
    return both[both["published"].notna()]


def page(table: pd.DataFrame, statistic: str) -> pd.DataFrame:
    """Both correlations of a table and their difference for the page, each with its interval where it has one."""
    rows = table[table["statistic"] == statistic]
    for column, (low, high) in ENDS.items():
        rows = with_interval(rows, column, "", low, high) if low in rows else rows
    return rows[["collection", *ENDS, "p_value", "p_holm"]]

"""What a paper says, judged by intervals: does it hold here, is it contradicted, or is it not shown?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy import stats

from interextra.ground.effects import DRAWS, Effects, interval, simultaneous, spelled
from interextra.ground.errors import InputError
from interextra.models.bm25 import LABEL as BM25

COLUMNS = ["finding", "estimate", "low", "high", "verdict"]
SAID = ["kind", "margin", "effects"]
COUNTS = ["n_queries", "n_trainings"]  # of a finding, the smallest of the systems that it names
GATE = "comparable"
DERIVED = ("p_value", "p_holm", "sd_trainings", "published", "verdict")  # of one world only


def gate(table: Effects) -> pd.Series:
    """May the effect of a row be judged? Only of a system that beats BM25 in domain, with its whole interval.

    Who does not has learnt little that it could fail to carry over. `table`: effects whose first side is in domain and
    higher is better, among them those of a model called BM25, which passes itself. Returns bool, by the table's index.
    """
    if BM25 not in set(table["model"]):
        raise InputError(f"no system is called {BM25!r}, which the others must beat in domain: label one so")
    labels = [name for name in table[DRAWS].iloc[0].by if name != "model"]
    inside, passing = table.drawn("first"), (table["model"] == BM25).to_numpy(copy=True)
    groups = table.groupby(labels, dropna=False).indices.values() if labels else [np.arange(len(table))]
    for rows in groups:
        for rival in rows[passing[rows]]:
            passing[rows] |= [interval(inside[row] - inside[rival])[0] > 0 for row in rows]
    return pd.Series(passing, table.index)


def said(
    finding: str,
    *gaps: tuple[Sequence[pd.Series], Sequence[pd.Series]],
    kind: str = "above",
    side: str = "effect",
    margin: float = 0.0,
    also: Sequence[pd.Series] = (),
    **labels,
) -> dict:
    """A finding for `judged`: that each of some gaps between effects is above 0, or as `kind` says.

    Parameters
    ----------
    gaps : (plus, minus), rows of tables of effects: the sum of the first less the sum
        of the second, estimate and draws.
    side : of the rows: effect, first or second.
    also : further rows that the finding speaks of.
    labels : what stands before the finding in its row.

    All rows count for the gate (their column comparable, where they have it) and for the counts.
    """

    def total(rows: Sequence[pd.Series]) -> np.ndarray:
        """Estimate and draws, float[1 + n_boot]."""
        return sum((np.append(row[row[DRAWS].columns[side]], getattr(row[DRAWS], side)) for row in rows), np.zeros(1))

    values = np.stack([total(plus) - total(minus) for plus, minus in gaps])
    rows = [row for gap in gaps for part in gap for row in part] + list(also)
    counts = {name: int(min(row[name] for row in rows)) for name in COUNTS if all(name in row for row in rows)}
    made = {"finding": finding, "estimate": values[:, 0], "draws": values[:, 1:], "kind": kind, "margin": margin}
    return labels | made | {"gate": all(row.get(GATE, True) for row in rows)} | counts


def judged(findings: Sequence[dict]) -> pd.DataFrame:
    """The verdicts of a notebook: its findings with intervals that hold together (max-t on their joint draws).

    Parameters
    ----------
    findings : of `said`: dicts of any labels and
        finding : in words.
        estimate, draws : an effect and its bootstrap draws float[n_boot], or several that must all be as is said,
            float[n] and float[n, n_boot]: each of them is one of the family.
        kind : what is said of the effect: below 0, above 0, or kept (not below -`margin`: no loss).
        gate : false where the systems can't be compared, see `gate`.
        n_queries, n_trainings : may be there.

    Returns
    -------
    DataFrame[labels, finding, estimate, low, high, verdict, kind, margin, effects, counts] : the finding `holds` where
        the interval lies where it says and is `contradicted` where it lies beyond, on the other side of 0 or of
        -`margin`; else it is `not shown`. Of several effects (column `effects`: how many) estimate, low and high are
        the smallest, or for below the largest. An effect whose estimate or any draw is undefined (a side with mean 0)
        is `undefined`. Behind a closed gate it is `not comparable`, with an interval outside the family.

    >>> said = {"finding": "a loss", "estimate": -0.1, "draws": np.linspace(-0.2, 0, 100), "kind": "below"}
    >>> judged([said, said | {"gate": False}])[["low", "verdict"]].round(3).values.tolist()
    [[-0.196, 'holds'], [-0.196, 'not comparable']]
    """
    rows = [{"margin": 0.0, "gate": True} | found for found in findings]
    estimates = [np.atleast_1d(np.asarray(row["estimate"], float)) for row in rows]
    drawn = [np.atleast_2d(row["draws"]) for row in rows]
    families = [[at for at, row in enumerate(rows) if row["gate"]]]
    families += [[at] for at, row in enumerate(rows) if not row["gate"]]
    for family in filter(None, families):
        ends = simultaneous(*(np.concatenate([of[at] for at in family]) for of in (estimates, drawn)))
        cuts = np.cumsum([len(estimates[at]) for at in family])[:-1]
        for at, low, high in zip(family, *(np.split(side, cuts) for side in ends), strict=True):
            row, worst = rows[at], np.max if rows[at]["kind"] == "below" else np.min
            row |= {"estimate": worst(estimates[at]), "low": worst(low), "high": worst(high), "effects": len(low)}
            row["verdict"] = verdict(row["kind"], row["low"], row["high"], row["margin"])
            row["verdict"] = row["verdict"] if row.pop("gate") else "not comparable"
    names = (rows or [{}])[0]
    labels = [name for name in names if name not in (*COLUMNS, *SAID, *COUNTS, "draws", "gate")]
    return pd.DataFrame(rows, columns=[*labels, *COLUMNS, *SAID, *[name for name in COUNTS if name in names]])


def verdict(kind: str, low: float, high: float, margin: float = 0.0) -> str:
    """holds, contradicted, not shown or undefined, see `judged`.

    >>> verdict("below", -0.2, -0.01), verdict("kept", -0.2, -0.1, margin=0.05), verdict("above", -1, 1)
    ('holds', 'contradicted', 'not shown')
    """
    least, most = {"below": (-np.inf, 0.0), "above": (0.0, np.inf), "kept": (-margin, np.inf)}[kind]
    if not np.isfinite([low, high]).all():
        return "undefined"
    if least < low and high < most:
        return "holds"
    return "contradicted" if low > most or high < least else "not shown"


def across(table: pd.DataFrame, unit: str, by: Sequence[str], effect: str, level: float = 0.95) -> pd.DataFrame:
    """Mean of an effect over few independent units, such as worlds, with Student's interval over them.

    Returns DataFrame[*by, effect, low, high, least, most, n], n the number of units; no interval for a single one.
    """
    rows = []
    for key, part in table.groupby(list(by), sort=False, dropna=False):
        known = part.groupby(unit)[effect].mean().dropna()
        reach = stats.t.ppf((1 + level) / 2, len(known) - 1) * known.sem() if len(known) > 1 else np.nan
        ends = {effect: known.mean(), "low": known.mean() - reach, "high": known.mean() + reach}
        ends |= {"least": known.min(), "most": known.max(), "n": len(known)}
        rows.append(dict(zip(by, key, strict=True)) | ends)
    return pd.DataFrame(rows)


def pooled(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One table of the tables of several worlds, of those with an effect and its interval; empty for others.

    The effect is the column before `low`; labels are columns of words, and of numbers that do not differ between the
    worlds. Returns labels, the effect, low, high, least, most, n of the rows that are in every world. A table of
    findings gets its verdicts anew: simultaneous intervals (Bonferroni), and nothing of a system that some world's gate
    keeps out; so does the column comparable. Of a finding on several effects the smallest in each world is taken: their
    mean is not above the smallest mean, so that `holds` is safe, and `contradicted` is not said.

    >>> table = pd.DataFrame({"model": ["a"], "loss": [0.2], "low": [0.1], "high": [0.3], "n_queries": [9]})
    >>> pooled([table, table.assign(loss=0.4)])[["model", "loss", "least", "most", "n"]].values.tolist()
    [['a', 0.30000000000000004, 0.2, 0.4, 2]]
    """
    if not all({"low", "high"} <= set(frame) for frame in frames):
        return pd.DataFrame()
    effect = frames[0].columns[frames[0].columns.get_loc("low") - 1]
    every = pd.concat([frame.assign(world=world) for world, frame in enumerate(frames)], ignore_index=True)
    measured = {effect, "low", "high", "world", "n_queries", "n_trainings", "comparable", "effects", *DERIVED}
    labels = [name for name in frames[0] if name not in measured and _tells_apart([frame[name] for frame in frames])]
    if not labels or any(frame.duplicated(labels).any() for frame in frames):
        return pd.DataFrame()
    judging = {"kind", "margin"} <= set(labels)
    found = across(every, "world", labels, effect, 1 - 0.05 / len(frames[0]) if judging else 0.95)
    found = found[found["n"] == len(frames)].reset_index(drop=True)
    if judging or "comparable" in every:
        every["comparable"] = every["verdict"] != "not comparable" if judging else every["comparable"].eq(True)
        told = {"comparable": "all", "n_queries": "min"} | ({"effects": "max"} if judging else {})
        told = every.groupby(labels, dropna=False, sort=False).agg(told).reset_index()
        found = found.merge(told, how="left", on=labels)
    if judging:
        found["verdict"] = [verdict(*row) for row in found[["kind", "low", "high", "margin"]].itertuples(index=False)]
        unsafe = found["effects"].gt(1) & found["verdict"].eq("contradicted")
        found["verdict"] = found["verdict"].mask(unsafe, "not shown").where(found.pop("comparable"), "not comparable")
        found = found.rename(columns={"n": "n_trainings"})
    return found


def _tells_apart(columns: list[pd.Series]) -> bool:
    """Whether a column says which row this is: words, or numbers that the worlds share (sizes, shares of a design)."""
    values = [column.dropna() for column in columns]
    shared = set(max(values, key=len))
    return not all(map(pd.api.types.is_numeric_dtype, values)) or all(set(column) <= shared for column in values)


def listed(rows: pd.DataFrame, label: str, effect: str, unit: str = "%") -> str:
    """Rows as text: the label of each, its effect and interval; `unit` as in `spelled`.

    >>> listed(pd.DataFrame({"model": ["a"], "delta": [-0.1], "low": [-0.2], "high": [0.0]}), "model", "delta")
    'a -10.0 % [-20.0, +0.0]'
    """
    ends = zip(rows[label], rows[effect], rows["low"], rows["high"], strict=True)
    return "; ".join(f"{name} {spelled(*row, unit)}" for name, *row in ends)

"""What a run says of a system beside its effect: its lead over BM25, and intervals of claims.

A loss says something only of a system that has learnt what it could lose: an effect of a system
that is not shown to be ahead of BM25 in domain gets no verdict. `replication.yaml` says which
labels name a system in a notebook's `gate.csv`, and which claims real collections answer.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from interextra.stats.effects import across
from interextra.stats.trainings import ONE_TRAINING, TRAININGS

UNTRAINED = ("BM25", "BM25, fixed")  # systems without a gate
# By these a system is ahead where no lead in the measure of an effect is known
RANK_MEASURES = ("nDCG@10", "RR@10")
BEHIND = "a system is not shown to be ahead of BM25 in domain"
UNMEASURED = "no lead over BM25 in domain was measured"
BORROWED = f"{TRAININGS}, whose variance is borrowed"
FILES = ("leads.csv", "gate.csv", "collections.csv")  # tables of a notebook that are read here
NOT_LABELS = ("measure", "lead", "lead_low")  # columns of leads


class OnCollections(BaseModel, frozen=True, extra="forbid"):
    """A claim on real collections whose estimate is an effect of one system."""

    notebook: str
    model: str
    measure: str
    claim: str


def of_claims(tables: Path, claims: Sequence[OnCollections]) -> pd.DataFrame:
    """Return what the claims on real collections say of a notebook's systems.

    Parameters
    ----------
    tables
        The folder with the tables of a notebook; without `collections.csv` there are no rows.
    claims
        Those of the notebook.

    Returns
    -------
    DataFrame[collection, model, measure, estimate, low, high, lead_low, over]
        Intervals are over queries and training runs; the variance of training is borrowed from
        other collections where a system was trained once.
    """
    path = tables / "collections.csv"
    columns = ["collection", "model", "measure", "estimate", "low", "high", "lead_low", "over"]
    if not claims or not path.is_file():
        return pd.DataFrame(columns=columns)
    systems = pd.DataFrame([claim.model_dump() for claim in claims])
    rows = pd.read_csv(path).merge(systems, on="claim")
    over = rows["borrowed"].map({True: BORROWED, False: TRAININGS})
    over = over.where(rows["error_trainings"] > 0, ONE_TRAINING)
    return rows.assign(over=over)[columns]


def leads(tables: Path, labels: Sequence[str], claims: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the leads over BM25 in domain that a notebook has: `leads.csv` first, claims last.

    A table that does not name model and measure is left out.

    Parameters
    ----------
    tables
        The folder with its tables.
    labels
        The labels whose values, in this order, name a system in `gate.csv`.
    claims
        Of `of_claims`.

    Returns
    -------
    list[DataFrame[labels, measure, lead_low]]
        lead_low is the lower end of the interval of a lead.
    """
    found = []
    if (tables / "leads.csv").is_file():
        found.append(pd.read_csv(tables / "leads.csv"))
    if labels and (tables / "gate.csv").is_file():
        gate = pd.read_csv(tables / "gate.csv")
        if len(gate):
            found.append(_of_gate(gate, labels))
    if len(claims):
        found.append(claims[["collection", "model", "measure", "lead_low"]])
    return [table for table in found if {"measure", "model"} <= set(table)]


def _of_gate(gate: pd.DataFrame, labels: Sequence[str]) -> pd.DataFrame:
    """Return the leads of a table of gates by label; those of several worlds are pooled."""
    if "world" in gate:
        n_worlds = gate.groupby("system")["world"].transform("nunique")
        gate = gate[n_worlds == gate["world"].nunique()]  # a system is asked for in every world
        gate = across(gate, "world", ["system"], "lead").rename(columns={"low": "lead_low"})
    systems = gate.drop_duplicates("system")
    # the model is the last label, and its name can have a comma
    splits = [name.split(", ", len(labels) - 1) for name in systems["system"]]
    values = pd.DataFrame(splits, systems.index)
    return values.set_axis(list(labels), axis="columns").assign(lead_low=systems["lead_low"])


def why_closed(
    ours: Mapping[str, Any], systems: Sequence[str], leads: Sequence[pd.DataFrame]
) -> str:
    """Return why an effect gets no verdict; "" where all its systems are ahead of BM25 in domain.

    Parameters
    ----------
    ours
        A row of one of our tables of effects.
    systems
        The columns of the row that name systems. BM25 needs no lead.
    leads
        Of `leads`.
    """
    for column in systems:
        system = ours[column]
        if system in UNTRAINED:
            continue
        lead = _lead({**ours, "model": system}, leads)
        if np.isnan(lead):
            return UNMEASURED
        if lead <= 0:
            return BEHIND
    return ""


def _lead(row: Mapping[str, Any], leads: Sequence[pd.DataFrame]) -> float:
    """Return the lower end of the lead of a row's system, in its measure or one of ranking.

    NaN where none is known. Of several leads the least.
    """
    for table in leads:
        labels = [name for name in table if name in row and name not in NOT_LABELS]
        is_system = pd.Series(True, table.index)
        for name in labels:
            is_system &= table[name].astype(str) == str(row[name])
        known = table[is_system].dropna(subset=["lead_low"])
        for measures in ([row["measure"]], RANK_MEASURES):
            is_asked = known["measure"].isin(measures)
            if is_asked.any():
                return float(known.loc[is_asked, "lead_low"].min())
    return np.nan

"""Claims as `claims.yaml` states them, answered from tables of effects."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel

from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.effects import (
    DRAWN,
    DRAWS,
    ONE_TRAINING,
    QUERIES,
    TRAININGS,
    Effects,
    interval,
    ratio,
)
from interextra.store.errors import InputError, offenders

FILE = Path(__file__).with_name("claims.yaml")
# a section of FILE with claims that no run answers yet, and the design that is fixed for them
UNANSWERED = "real"
SIDES = {"effect": "effect", "in domain": "first", "out of domain": "second"}
MAIN = {"negative_passages": "all", "average": "micro"}  # of labels that a claim does not name
COUNTS = ["n_models", "n_queries", "n_units", "n_trainings"]
# How near an effect comes to the published one, by repro_eval's measures (Breuer et al., SIGIR
# 2020)
NEARNESS = [
    "effect_ratio",
    "effect_ratio_low",
    "effect_ratio_high",
    "delta_ri",
    "delta_ri_low",
    "delta_ri_high",
]
ANSWERED = [
    "claim",
    "estimate",
    "low",
    "high",
    "bias",
    "lead",
    "lead_low",
    *COUNTS,
    "over",
    *NEARNESS,
]
ANSWERED += ["noise", "share_trainings", "systems"]
GATED = {"model", "regime"}  # labels of what must beat BM25 in domain
# column of `answered`: what a claim's systems are ahead of BM25, a frame [system, lead, lead_low]
SYSTEMS = "systems"


class Claim(BaseModel, frozen=True, extra="forbid"):
    """An entry of `claims.yaml`; what each field means stands there."""

    name: str
    paper: str
    notebook: str
    place: str = ""
    sentence: str
    asks: Literal["below", "above", "equal"]
    rows: dict[Literal["plus", "minus"], Any]
    side: Literal["effect", "in domain", "out of domain"] = "effect"
    measure: str
    margin: float
    published: float = np.nan
    levels: tuple[float, float] | None = (
        None  # the published means behind it: of the first side, of the second
    )
    known: tuple[str, ...]
    gate: Literal["beats BM25", "none: one system", "none: as published", "none: no system"] = (
        "none: no system"
    )
    design: Literal["of the paper", "ours"] = "ours"
    scale: Literal["points", "change"] = "points"
    not_testable: dict[str, str] = {}
    secondary: bool = False

    def terms(self) -> Iterator[tuple[int, dict | float]]:
        """(sign, labels of rows whose mean is taken, or a number), which add up to the estimate."""
        for sign, name in ((1, "plus"), (-1, "minus")):
            part = self.rows.get(name, [])
            yield from ((sign, term) for term in (part if isinstance(part, list) else [part]))

    @property
    def is_gated(self) -> bool:
        """Whether it speaks of a system that must beat BM25 first."""
        return self.gate == "beats BM25"

    @property
    def unit(self) -> str:
        """Of the estimate, as `spelled` takes it; none of a correlation.

        %: of a change. Points: of the measure. Percentage points of Δ: of a difference of two
        changes.
        """
        if self.statistic or self.measure.endswith("correlation"):
            return ""
        if self.scale == "points":
            return "points"
        return "percentage points of Δ" if "minus" in self.rows else "%"

    @property
    def statistic(self) -> str:
        """Before the measure, where the estimate is a correlation: its name."""
        named = (term for _, term in self.terms() if isinstance(term, dict))
        return next(
            (f"{term[key]}, " for term in named for key in ("statistic", "method") if key in term),
            "",
        )

    @property
    def asked(self) -> float:
        """The effect that a design should find: the published one; the margin without one, or for
        equality.
        """
        return (
            self.margin if self.asks == "equal" or np.isnan(self.published) else abs(self.published)
        )


@lru_cache
def stated() -> dict[str, Claim]:
    """The claims of `claims.yaml` that runs answer, by name."""
    found = {}
    papers = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for paper in [paper for paper in papers if paper != UNANSWERED]:
        for name, claim in papers[paper].items():
            published = claim.get("published")
            known = published if isinstance(published, dict) else {"value": np.nan}
            stated_so = {"published": known["value"], "levels": known.get("levels")}
            found[name] = Claim(**claim | {"name": name, "paper": paper} | stated_so)
    return found


def of_notebook(notebook: str) -> list[Claim]:
    """The claims that a notebook answers, the primary ones first."""
    claims = [claim for claim in stated().values() if claim.notebook == notebook]
    return sorted(claims, key=lambda claim: claim.secondary)


def answered(claims: Sequence[Claim], tables: Sequence[Effects], ahead: pd.DataFrame) -> Effects:
    """The estimate of each claim that the rows of some tables can answer, with its draws.

    `tables`: effects (negative is a loss) with labels that claims name, the first that has them.
    `ahead`: of `leads`.

    Returns Effects[claim, estimate, low, high, bias, lead, lead_low, n_models, n_queries, n_units,
    n_trainings, over, effect_ratio and delta_ri with their ends, noise, share_trainings, systems]:
    counts are the smallest of the rows, where they have them; low and high are plain 95 %
    intervals; bias is Efron's estimate, what plain resamples exceed the estimate by, as they do
    that of a ratio of means; lead is that of the weakest system that the claim names, NaN for BM25
    alone; over: see `effects`, that of the row about which least is known; effect_ratio, delta_ri:
    see `_nearness`; noise: what most of the variance is of, queries, trainings or what the table
    says in DRAWN; share_trainings: how much of it is of trainings; systems: see `gate`. InputError:
    a claim whose labels fit several rows.
    """
    rows, drawn = [], []
    for claim in claims:
        terms = [(sign, term) for sign, term in claim.terms() if not isinstance(term, float)]
        constant = sum(sign * term for sign, term in claim.terms() if isinstance(term, float))
        used = [
            (sign, SIDES[term.get("side", claim.side)], _rows(claim, term, tables))
            for sign, term in terms
        ]
        if any(part is None for *_, part in used):
            continue  # not asked in this profile
        draws = constant + sum(sign * part.drawn(side).mean(axis=0) for sign, side, part in used)
        means = [sign * part[part[DRAWS].iloc[0].columns[side]].mean() for sign, side, part in used]
        biases = [
            sign * part[DRAWS].map(lambda one: one.bias).mean()
            for sign, side, part in used
            if side == "effect"
        ]
        every = pd.concat([part for *_, part in used])
        systems = _ahead(every, ahead)
        row = {
            "claim": claim.name,
            "estimate": constant + sum(means),
            "bias": sum(biases),
            "systems": systems,
        }
        row |= dict(zip(("low", "high"), interval(draws), strict=True))
        row |= {name: systems[name].min(skipna=False) for name in ("lead", "lead_low")}
        row |= {name: every[name].min() if name in every else np.nan for name in COUNTS}
        drawn_units = every.get(DRAWN, pd.Series([QUERIES])).iloc[0]
        row["share_trainings"] = _of_trainings(used, draws)
        row["noise"] = "trainings" if row["share_trainings"] > 0.5 else drawn_units
        row["over"] = _weakest_over(every["over"]) if "over" in every else drawn_units
        rows.append(row | _nearness(claim, used))
        drawn.append(draws)
    table = pd.DataFrame(rows, columns=ANSWERED)
    unknown = [name for name in (*COUNTS, *NEARNESS) if table[name].isna().all()]
    return Effects.of(table.drop(columns=unknown), ["claim"], ["estimate"], drawn)


def _weakest_over(said: pd.Series) -> str:
    """What the interval of a claim is over, from what those of its rows are over: one training run
    says it of all.
    """
    return next((over for over in (ONE_TRAINING, TRAININGS) if said.eq(over).any()), QUERIES)


def _nearness(claim: Claim, used: Sequence[tuple[int, str, Effects]]) -> dict[str, float]:
    """How near an effect comes to the published one, where the levels of both of its sides are
    published.

    As repro_eval defines it (Breuer et al., SIGIR 2020): effect_ratio is our difference of the two
    sides over the published one, 1 for the same, below 0 for the other direction; delta_ri is the
    published relative improvement minus ours, 0 for the same. With 95 % intervals by the draws;
    empty where a level is not published.
    """
    if claim.levels is None:
        return {}
    if len(used) == 1:  # a change between the sides of one row
        [(_, _, part)] = used
        sides = [(part, "first"), (part, "second")]
    else:  # minus is the baseline
        sides = [(part, side) for sign in (-1, 1) for one, side, part in used if one == sign]
    estimates = [part[part[DRAWS].iloc[0].columns[side]].mean() for part, side in sides]
    draws = [part.drawn(side).mean(axis=0) for part, side in sides]
    theirs = claim.levels[1] - claim.levels[0]
    found = {}
    for name, ours in (
        ("effect_ratio", lambda first, second: (second - first) / theirs),
        ("delta_ri", lambda first, second: theirs / claim.levels[0] - (ratio(second, first) - 1)),
    ):
        low, high = interval(ours(*draws))
        found |= {name: float(ours(*estimates)), f"{name}_low": low, f"{name}_high": high}
    return found


def _rows(claim: Claim, labels: Mapping[str, Any], tables: Sequence[Effects]) -> Effects | None:
    """The rows of the first table that has the labels, one a combination of them, in the order of
    their labels.

    The last digit of a mean depends on the order in which it is added up; that of the table must
    not decide it.
    """
    wanted = {
        name: value if isinstance(value, list) else [value]
        for name, value in labels.items()
        if name != "side"
    }
    wanted["measure"] = [claim.measure]
    for table in (table for table in tables if wanted.keys() <= set(table)):
        found = table[
            np.logical_and.reduce([table[name].isin(values) for name, values in wanted.items()])
        ]
        for name, value in MAIN.items():
            found = found[found[name] == value] if name in found and name not in wanted else found
        if "n_train" in found and "n_train" not in wanted:
            found = found[found["n_train"] == found["n_train"].max()]
        if found.duplicated(list(wanted)).any():
            raise InputError(
                f"claim {claim.name}: {offenders(map(str, wanted.items()))} fits {len(found)} rows"
            )
        if len(found) == np.prod([len(values) for values in wanted.values()]):
            return found.sort_values(list(wanted), key=lambda labels: labels.astype(str))
    return None


def _ahead(rows: pd.DataFrame, ahead: pd.DataFrame) -> pd.DataFrame:
    """What each system of some rows is ahead of BM25: system, lead, lead_low; NaN where that was
    not measured.
    """
    shared = [name for name in ahead.columns if name in rows]
    systems = (rows[rows["model"] != BM25] if "model" in rows else rows)[shared].drop_duplicates()
    if systems.empty or not GATED & set(shared):
        return pd.DataFrame(columns=["system", "lead", "lead_low"], dtype=float)
    named = systems.astype(str).agg(", ".join, axis=1).to_numpy()
    return systems.merge(ahead, on=shared, how="left").assign(system=named)[
        ["system", "lead", "lead_low"]
    ]


def _of_trainings(used: Sequence[tuple[int, str, Effects]], draws: np.ndarray) -> float:
    """Share of the variance of an estimate that is of trainings: of relative changes to the first
    order.
    """
    variance = 0.0
    for _, side, part in used:
        if "sd_trainings" not in part:  # a correlation over queries, of means over trainings
            continue
        names = part[DRAWS].iloc[0].columns
        is_change = side == "effect" and names["first"] != names["effect"]
        scale = (
            (1 + (1 + part[names["effect"]]) ** 2) / part[names["first"]] ** 2 if is_change else 1.0
        )
        variance += (
            part["sd_trainings"].fillna(0.0) ** 2 / part["n_trainings"] * scale
        ).sum() / len(part) ** 2
    return min(1.0, variance / draws.var()) if draws.var() else 0.0

"""Claims as `claims.yaml` states them: answered from tables of effects, and judged, direction and size apart.

Direction: the interval of a claim lies on the side of 0 that the claim names (*holds*), on the other one
(*contradicted*), or on both (*undecided*). Size: two one-sided tests (TOST at 5 %) place the effect within the margin
(*no difference beyond the margin*) or not. A claim that asks for equality holds by its size. Intervals of a family, the
primary claims of a notebook, are simultaneous. The unit is a query with its trainings (`concluded`) or a world
(`over_worlds`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict
from scipy import stats

from interextra.ground.effects import DRAWS, Effects, interval, simultaneous
from interextra.ground.errors import InputError, offenders
from interextra.models.bm25 import LABEL as BM25

FILE = Path(__file__).with_name("claims.yaml")
SIDES = {"effect": "effect", "in domain": "first", "out of domain": "second"}
MAIN = {"negative_passages": "all", "average": "micro"}  # of labels that a claim does not name
POWER = stats.norm.ppf(0.8)
JUDGED = ["verdict", "size", "reason", "resolution"]


class Claim(BaseModel):
    """An entry of `claims.yaml`; what each field means stands there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    known: tuple[str, ...]
    gate: bool = True
    secondary: bool = False

    def terms(self) -> Iterator[tuple[int, dict | float]]:
        """(sign, labels of rows whose mean is taken, or a number), which add up to the estimate."""
        for sign, name in ((1, "plus"), (-1, "minus")):
            part = self.rows.get(name, [])
            yield from ((sign, term) for term in (part if isinstance(part, list) else [part]))


@lru_cache
def stated() -> dict[str, Claim]:
    """All claims by name."""
    found = {}
    for paper, claims in yaml.safe_load(FILE.read_text(encoding="utf-8")).items():
        for name, claim in claims.items():
            published = claim.get("published")
            value = published["value"] if isinstance(published, dict) else np.nan
            found[name] = Claim(**claim | {"name": name, "paper": paper, "published": value})
    return found


def of_notebook(notebook: str) -> list[Claim]:
    """The claims that a notebook answers, the primary ones first."""
    claims = [claim for claim in stated().values() if claim.notebook == notebook]
    return sorted(claims, key=lambda claim: claim.secondary)


def answered(claims: Sequence[Claim], table: Effects, leads: Effects | None = None) -> Effects:
    """The estimate of each claim that the rows of a table can answer, with its draws.

    Parameters
    ----------
    table : effects with the labels that the claims name, among them `measure`; negative is a loss.
    leads : what each system is ahead of BM25 in domain, on queries that measure no loss: effects with the column model,
        and others of the table's labels.

    Returns
    -------
    Effects[claim, estimate, low, high, lead, lead_low, n_queries, n_trainings, from_trainings] : low and high are plain
        95 % intervals; lead is that of the weakest system that the claim names, and the lower end of its interval; NaN
        for a claim on BM25 alone. from_trainings is the share of the variance that is of trainings, not of queries.

    InputError: a claim whose labels fit several rows that differ in something else.
    """
    rows, drawn = [], []
    for claim in claims:
        terms = [(sign, term) for sign, term in claim.terms() if not isinstance(term, float)]
        constant = sum(sign * term for sign, term in claim.terms() if isinstance(term, float))
        used = [(sign, SIDES[term.get("side", claim.side)], _rows(claim, term, table)) for sign, term in terms]
        if any(part.empty for *_, part in used):
            continue  # not asked in this profile
        draws = constant + sum(sign * part.drawn(side).mean(axis=0) for sign, side, part in used)
        means = [sign * part[part[DRAWS].iloc[0].columns[side]].mean() for sign, side, part in used]
        every = pd.concat([part for *_, part in used])
        row = {"claim": claim.name, "estimate": constant + sum(means)}
        row |= dict(zip(("low", "high"), interval(draws), strict=True)) | _lead(every, leads)
        row |= {name: int(every[name].min()) for name in ("n_queries", "n_trainings")}
        rows.append(row | {"from_trainings": _of_trainings(used, draws)})
        drawn.append(draws)
    columns = ["claim", "estimate", "low", "high", "lead", "lead_low", "n_queries", "n_trainings", "from_trainings"]
    return Effects.of(pd.DataFrame(rows, columns=columns), ["claim"], ["estimate"], drawn)


def _rows(claim: Claim, labels: Mapping[str, Any], table: Effects) -> Effects:
    """The rows of a table that have the labels, one a combination of them; empty where the table lacks one."""
    wanted = {name: value if isinstance(value, list) else [value] for name, value in labels.items() if name != "side"}
    wanted |= {"measure": [claim.measure]} if "measure" in table else {}
    if not wanted.keys() <= set(table):
        return table.iloc[:0]
    found = table[np.logical_and.reduce([table[name].isin(values) for name, values in wanted.items()])]
    for name, value in MAIN.items():
        found = found[found[name] == value] if name in found and name not in wanted else found
    if "n_train" in found and "n_train" not in wanted:
        found = found[found["n_train"] == found["n_train"].max()]
    named = [name for name in wanted if len(wanted[name]) > 1]
    if len(found) != np.prod([len(wanted[name]) for name in named], initial=1):
        if len(found) and found.duplicated(named or list(wanted)).any():
            raise InputError(f"claim {claim.name}: {offenders(map(str, wanted.items()))} fits {len(found)} rows")
        return table.iloc[:0]
    return found


def _lead(rows: pd.DataFrame, leads: Effects | None) -> dict[str, float]:
    """Lead over BM25 of the weakest system of some rows, and the lower end of its interval."""
    systems = rows[rows["model"] != BM25] if "model" in rows else rows.iloc[:0]
    if leads is None or systems.empty:
        return {"lead": np.nan, "lead_low": np.nan}
    shared = [name for name in leads.columns if name in rows and name in leads[DRAWS].iloc[0].by]
    theirs = systems[shared].drop_duplicates().merge(leads, on=shared, how="left")
    estimate = leads[DRAWS].iloc[0].columns["effect"]
    return {"lead": theirs[estimate].min(skipna=False), "lead_low": theirs["low"].min(skipna=False)}


def _of_trainings(used: Sequence[tuple[int, str, Effects]], draws: np.ndarray) -> float:
    """Share of the variance of an estimate that is of trainings: of relative changes to the first order."""
    variance = 0.0
    for _, side, part in used:
        names = part[DRAWS].iloc[0].columns
        change = part[names["effect"]] if side == "effect" else 0.0
        scale = (1 + (1 + change) ** 2) / part[names["first"]] ** 2 if side == "effect" else 1.0
        one = part["sd_trainings"].fillna(0.0) ** 2 / part["n_trainings"] * scale
        variance += one.sum() / len(part) ** 2
    return min(1.0, variance / draws.var()) if draws.var() else 0.0


def concluded(answers: Effects) -> pd.DataFrame:
    """The claims judged, with simultaneous 95 % intervals of the primary ones; a secondary one has no verdict.

    Returns DataFrame[claim, estimate, low, high, lead, n_queries, n_trainings, verdict, size, reason, resolution] :
    resolution is the smallest effect that this design tells from none with 80 % power.
    """
    claims, draws = [stated()[name] for name in answers["claim"]], answers.drawn()
    primary = np.array([not claim.secondary for claim in claims], bool)
    low, high = answers["low"].to_numpy(float, copy=True), answers["high"].to_numpy(float, copy=True)
    estimates = answers["estimate"].to_numpy(float)
    if primary.any():
        low[primary], high[primary] = simultaneous(estimates[primary], draws[primary])
    nineties = [interval(row, 0.9) for row in draws]
    noise = np.where(answers["from_trainings"] > 0.5, "trainings", "queries")
    made = pd.DataFrame(answers).drop(columns=[DRAWS, "from_trainings"]).assign(low=low, high=high)
    return _judged(made, claims, nineties, (high - low) / 2 + POWER * draws.std(axis=1), noise)


def over_worlds(worlds: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The claims judged over worlds, from the tables of `answered` (or `concluded`) of each, with Student's intervals.

    The mean of a claim's estimates, and of its leads; simultaneous over the primary claims by Bonferroni's correction.
    A world's estimate holds the noise of its queries and trainings, so that the interval does, too.
    """
    every = pd.concat(worlds, ignore_index=True)
    found = every.groupby("claim", sort=False)["estimate"].agg(["mean", "std", "size"])
    found = found[found["size"] == len(worlds)]
    claims, n = [stated()[name] for name in found.index], len(worlds)
    family = max(1, sum(not claim.secondary for claim in claims))
    error = found["std"].to_numpy() / np.sqrt(n)
    tests = np.array([1 if claim.secondary else family for claim in claims])
    reach = stats.t.ppf(1 - 0.025 / tests, n - 1) * error
    lead = every.groupby("claim")["lead"].agg(["mean", "sem"]).loc[found.index]
    made = pd.DataFrame({"claim": found.index, "estimate": found["mean"].to_numpy()})
    made = made.assign(low=made["estimate"] - reach, high=made["estimate"] + reach, lead=lead["mean"].to_numpy())
    made["lead_low"] = made["lead"] - stats.t.ppf(0.975, n - 1) * lead["sem"].to_numpy()
    made["n_queries"] = every.groupby("claim")["n_queries"].sum().loc[found.index].to_numpy()
    tenth = stats.t.ppf(0.95, n - 1) * error
    nineties = list(zip(made["estimate"] - tenth, made["estimate"] + tenth, strict=True))
    resolution = reach + stats.t.ppf(0.8, n - 1) * error
    return _judged(made.assign(n_worlds=n), claims, nineties, resolution, np.repeat("worlds", len(made)))


def _judged(
    made: pd.DataFrame,
    claims: Sequence[Claim],
    nineties: Sequence[tuple[float, float]],
    resolution: np.ndarray,
    noise: Sequence[str],
) -> pd.DataFrame:
    rows = []
    for claim, ends, ninety, lead, most in zip(
        claims, made[["low", "high"]].to_numpy(), nineties, made["lead_low"], noise, strict=True
    ):
        size = "no difference beyond the margin" if -claim.margin < ninety[0] and ninety[1] < claim.margin else ""
        passing = not claim.gate or np.isnan(lead) or lead > 0
        found = verdict(claim.asks, *ends, claim.margin, bool(size)) if passing else "undecided"
        reason = most if passing else "gate: not shown to beat BM25 in domain"
        rows.append(("" if claim.secondary else found, size, reason if found == "undecided" else ""))
    judged = dict(zip(JUDGED, [*zip(*rows, strict=True), resolution], strict=True)) if rows else {}
    return made.drop(columns="lead_low").assign(**judged)


def verdict(asks: str, low: float, high: float, margin: float, is_within: bool) -> str:
    """holds, contradicted, or undecided, of an interval; `is_within`: the margin, by two one-sided tests.

    >>> verdict("below", -0.2, -0.1, 0.05, False), verdict("above", -0.2, -0.1, 0.05, False)
    ('holds', 'contradicted')
    >>> verdict("equal", -0.2, -0.1, 0.05, False), verdict("equal", -0.06, 0.01, 0.05, True)
    ('contradicted', 'holds')
    """
    if not np.isfinite([low, high]).all():
        return "undecided"
    if asks == "equal":
        beyond = high < -margin or low > margin
        return "holds" if is_within else "contradicted" if beyond else "undecided"
    low, high = (low, high) if asks == "above" else (-high, -low)
    return "holds" if low > 0 else "contradicted" if high < 0 else "undecided"

"""Claims as `claims.yaml` states them, and the rows of tables of effects that answer them.

`stated` reads the file, `answered` estimates each claim whose rows are there. What an estimate
means is decided in `judgement`, and said in `wording`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel, ValidationError

from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.bootstrap import interval, ratio
from interextra.stats.effects import DRAWN, DRAWS, Effects
from interextra.stats.tests import standard_error
from interextra.stats.trainings import QUERIES, weakest_over
from interextra.store.errors import InputError, offenders

FILE = Path(__file__).with_name("claims.yaml")
# a section of FILE: claims that are judged over collections, and the design that is fixed for them
REAL = "real"
# side of a claim → that of the draws of a table; another side is a label of rows
SIDES = {"effect": "effect", "in domain": "first", "out of domain": "second"}
# the rows that a claim means by default: label → value, where it does not name the label itself
MAIN = {"negative_passages": "all", "average": "micro"}
# labels of what must beat BM25 in domain
GATED = {"model", "regime"}
COUNTS = ["n_models", "n_queries", "n_units", "n_trainings"]
# how near an effect comes to the published one, by repro_eval's measures, see `_nearness`
NEARNESS = [
    "effect_ratio",
    "effect_ratio_low",
    "effect_ratio_high",
    "delta_ri",
    "delta_ri_low",
    "delta_ri_high",
]
# column of `answered`: the leads of a claim's systems over BM25, a frame [system, lead, lead_low]
SYSTEMS = "systems"
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
    "noise",
    "share_trainings",
    SYSTEMS,
]


class Claim(BaseModel, frozen=True, extra="forbid"):
    """An entry of `claims.yaml`; what each field means stands there.

    `levels` are the published means behind `published`: of the first side and of the second. `part`
    says which one this is of a claim of the section REAL with several, and `source` what was
    published or seen before.
    """

    name: str
    part: str = ""
    source: str = ""
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
    levels: tuple[float, float] | None = None
    known: tuple[str, ...]
    gate: Literal["beats BM25", "none: one system", "none: as published", "none: no system"] = (
        "none: no system"
    )
    design: Literal["of the paper", "ours"] = "ours"
    scale: Literal["points", "change"] = "points"
    not_testable: dict[str, str] = {}
    note: str = ""
    secondary: bool = False
    on_collections: str = ""

    def terms(self) -> Iterator[tuple[int, dict | float]]:
        """Yield the terms that add up to the estimate, each with its sign.

        A term is a number, or the labels of rows whose mean is taken.
        """
        for name, terms in self.rows.items():
            sign = 1 if name == "plus" else -1
            for term in _listed(terms):
                yield sign, term

    @property
    def constant(self) -> float:
        """The sum of those terms that are numbers."""
        terms = self.terms()
        return sum(sign * term for sign, term in terms if isinstance(term, float))

    @property
    def is_gated(self) -> bool:
        """Whether it speaks of a system that must beat BM25 first."""
        return self.gate == "beats BM25"

    @property
    def unit(self) -> str:
        """The unit of the estimate, as `spelled` takes it; none of a correlation.

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
        for _, term in self.terms():
            if not isinstance(term, dict):
                continue
            for label in ("statistic", "method"):
                if label in term:
                    return f"{term[label]}, "
        return ""

    @property
    def is_correlation(self) -> bool:
        """Whether the estimate is a single correlation, not a difference of two."""
        return not self.unit and "minus" not in self.rows

    @property
    def asked(self) -> float:
        """The effect that a design should find.

        The published one; the margin where none is published, or for equality.
        """
        if self.asks == "equal" or np.isnan(self.published):
            return self.margin
        return abs(self.published)


def _listed(value: Any) -> list:
    """Return a list as it is, and a list of a single value."""
    return value if isinstance(value, list) else [value]


@lru_cache
def stated() -> dict[str, Claim]:
    """Return the claims of `claims.yaml` by name, but for those of the section REAL."""
    sections = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    claims = {}
    for paper, entries in sections.items():
        if paper == REAL:
            continue
        for name, entry in entries.items():
            fields = entry | {"name": name, "paper": paper}
            published = fields.pop("published", "none")
            if isinstance(published, dict):  # a text says that no number is published
                fields["published"] = published["value"]
                fields["levels"] = published.get("levels")
            claims[name] = _checked(fields)
    return claims


@lru_cache
def of_collections() -> dict[str, Claim]:
    """Return the parts of the claims of the section REAL by name, see `name_of_part`."""
    sections = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    claims = {}
    for name, entry in sections[REAL]["claims"].items():
        whole = {key: entry[key] for key in ("notebook", "sentence", "asks", "margin", "gate")}
        for part in entry["parts"]:
            full_name = name_of_part(name, part.get("part", ""))
            fields = {"name": full_name, "source": entry["from"], "paper": REAL, "known": ()}
            fields |= {**whole, **part}
            claims[full_name] = _checked(fields)
    return claims


def name_of_part(name: str, part: str) -> str:
    """Return the name of a part of a claim in tables; that of the claim where it has one part.

    Examples
    --------
    >>> name_of_part("real-merge", "on the left-out kind"), name_of_part("real-kind-dense", "")
    ('real-merge: on the left-out kind', 'real-kind-dense')
    """
    return f"{name}: {part}" if part else name


def every_claim() -> dict[str, Claim]:
    """Return all claims of `claims.yaml` by the names that they have in tables."""
    return stated() | of_collections()


def _checked(fields: dict[str, Any]) -> Claim:
    """Return a claim; refuse an entry that lacks something or has too much."""
    try:
        return Claim(**fields)
    except ValidationError as error:
        problems = "; ".join(map(_problem, error.errors()))
        name = fields["name"]
        raise InputError(f"{FILE.name}, claim {name!r}: {problems}") from None


def _problem(error: Any) -> str:
    """Return which field of an entry is wrong, and how."""
    field = ".".join(map(str, error["loc"]))
    return f"{field}: {error['msg']}"


def of_notebook(notebook: str, profile: str = "") -> list[Claim]:
    """Return the claims that a notebook answers in a profile, the primary ones first.

    In the profile REAL those of its section; where that asks nothing of a notebook, the other ones,
    which are then described.
    """
    claims = [claim for claim in stated().values() if claim.notebook == notebook]
    if profile == REAL:
        asked = [claim for claim in of_collections().values() if claim.notebook == notebook]
        claims = asked or claims
    return sorted(claims, key=lambda claim: claim.secondary)


class _Term(NamedTuple):
    """Rows of a table whose mean is added to the estimate of a claim, or subtracted from it."""

    sign: int
    side: str  # effect, first or second, as `Effects.drawn` names them
    rows: Effects

    @property
    def mean_and_draws(self) -> np.ndarray:
        """The mean over the rows on the side of the term, and behind it the draws of this mean."""
        column = self.columns[self.side]
        mean = self.rows[column].mean()
        draws = self.rows.drawn(self.side).mean(axis=0)
        return np.append(mean, draws)

    @property
    def noise(self) -> np.ndarray:
        """What of the draws is noise of training, float[n_boot]."""
        return self.rows.noise(self.side).mean(axis=0)

    @property
    def bias(self) -> float:
        """The mean of the biases of the rows' effects."""
        return self.rows[DRAWS].map(lambda draws: draws.bias).mean()

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table that hold first, second and effect."""
        return self.rows[DRAWS].iloc[0].columns


def answered(claims: Sequence[Claim], tables: Sequence[Effects], leads: pd.DataFrame) -> Effects:
    """Estimate each claim that the rows of some tables can answer, with its draws.

    Parameters
    ----------
    claims : those to be answered; one whose rows are missing in this profile is left out.
    tables : effects (negative is a loss) with labels that claims name; the first that has them
        answers.
    leads : of systems over BM25, of `judgement.leads`.

    Returns
    -------
    Effects[claim, estimate, low, high, bias, lead, lead_low, n_models, n_queries, n_units,
    n_trainings, over, effect_ratio and delta_ri with their ends, noise, share_trainings, systems]
        low and high are plain 95 % intervals. bias is Efron's estimate, what plain resamples
        exceed the estimate by, as they do that of a ratio of means. lead is that of the weakest
        system that the claim names, NaN for BM25 alone. Counts are the smallest of the rows, where
        they have them. over: see `effects`, that of the row about which least is known.
        effect_ratio, delta_ri: see `_nearness`. noise: what most of the variance is of, queries,
        trainings or what the table says in DRAWN; share_trainings: how much of it is of trainings.
        systems: see `judgement.gate`. Counts and nearness that no claim has are left out.

    Raises
    ------
    InputError
        a claim whose labels fit several rows.
    """
    rows, drawn = [], []
    for claim in claims:
        terms = _terms(claim, tables)
        if terms is None:
            continue  # not asked in this profile
        signed = [term.sign * term.mean_and_draws for term in terms]
        estimate_and_draws = claim.constant + np.sum(signed, axis=0)
        rows.append(_answer(claim, terms, estimate_and_draws, leads))
        drawn.append(estimate_and_draws[1:])
    table = pd.DataFrame(rows, columns=ANSWERED)
    optional = [*COUNTS, *NEARNESS]
    is_unknown = table[optional].isna().all()
    table = table.drop(columns=is_unknown.index[is_unknown])
    return Effects.of(table, ["claim"], ["estimate"], drawn)


def standard_errors(claims: Sequence[Claim], tables: Sequence[Effects]) -> pd.DataFrame:
    """Return the standard errors of the estimates of `answered`, of queries and of trainings apart.

    Returns
    -------
    DataFrame[claim, error_queries, error_trainings]
        A row a claim that the tables answer. error_trainings is 0 where nothing was trained twice.
    """
    rows = []
    for claim in claims:
        terms = _terms(claim, tables)
        if terms is None:
            continue
        signs = np.array([term.sign for term in terms])
        draws = signs @ np.stack([term.mean_and_draws[1:] for term in terms])
        noise = signs @ np.stack([term.noise for term in terms])
        errors = standard_error(np.stack([draws - noise, noise]))
        rows.append((claim.name, *errors))
    return pd.DataFrame(rows, columns=["claim", "error_queries", "error_trainings"])


def _terms(claim: Claim, tables: Sequence[Effects]) -> list[_Term] | None:
    """Return the rows that answer a claim; None where the tables lack some of them."""
    terms = []
    for sign, labels in claim.terms():
        if isinstance(labels, float):
            continue
        rows = rows_of(claim, labels, tables)
        if rows is None:
            return None
        side = labels["side"] if _names_draws(labels) else claim.side
        terms.append(_Term(sign, SIDES[side], rows))
    return terms


def _answer(
    claim: Claim, terms: Sequence[_Term], estimate_and_draws: np.ndarray, leads: pd.DataFrame
) -> dict[str, Any]:
    """Return the row of a claim in `answered`, from its terms, its estimate and the draws of it."""
    draws = estimate_and_draws[1:]
    all_rows = pd.concat([term.rows for term in terms])
    systems = _leads_of(all_rows, leads)
    drawn_units = all_rows[DRAWN].iloc[0] if DRAWN in all_rows else QUERIES
    share_trainings = _share_of_trainings(terms, draws)
    biases = [term.sign * term.bias for term in terms if term.side == "effect"]
    low, high = interval(draws)
    row = {
        "claim": claim.name,
        "estimate": estimate_and_draws[0],
        "low": low,
        "high": high,
        "bias": sum(biases),
        "lead": systems["lead"].min(skipna=False),
        "lead_low": systems["lead_low"].min(skipna=False),
        "over": _weakest_over(all_rows, drawn_units),
        "noise": "trainings" if share_trainings > 0.5 else drawn_units,
        "share_trainings": share_trainings,
        SYSTEMS: systems,
    }
    for count in COUNTS:
        if count in all_rows:
            row[count] = all_rows[count].min()
    return row | _nearness(claim, terms)


def _weakest_over(rows: pd.DataFrame, drawn_units: str) -> str:
    """Return what the interval of a claim is over, from what those of its rows are over.

    One row of a single training run says it of all. Where the rows do not say it: what is drawn.
    """
    return weakest_over(rows["over"]) if "over" in rows else drawn_units


def _nearness(claim: Claim, terms: Sequence[_Term]) -> dict[str, float]:
    """Return how near an effect comes to the published one, with 95 % intervals by the draws.

    Empty where the levels of its sides are not published. The measures are those of repro_eval
    (Breuer et al., SIGIR 2020).
    """
    if claim.levels is None:
        return {}
    if len(terms) == 1:  # a change between the sides of one row
        [change] = terms
        baseline = change._replace(side="first")
        advanced = change._replace(side="second")
    else:
        [baseline] = [term for term in terms if term.sign < 0]
        [advanced] = [term for term in terms if term.sign > 0]
    ours_baseline = baseline.mean_and_draws
    ours_advanced = advanced.mean_and_draws
    published_baseline, published_advanced = claim.levels
    published_difference = published_advanced - published_baseline
    improvement = ratio(ours_advanced, ours_baseline) - 1
    measures = {
        # our difference over the published one: 1 for the same, below 0 for the other direction
        "effect_ratio": (ours_advanced - ours_baseline) / published_difference,
        # the published relative improvement minus ours: 0 for the same
        "delta_ri": published_difference / published_baseline - improvement,
    }
    nearness: dict[str, float] = {}
    for name, values in measures.items():
        low, high = interval(values[1:])
        estimate = float(values[0])
        nearness |= {name: estimate, f"{name}_low": low, f"{name}_high": high}
    return nearness


def rows_of(claim: Claim, labels: Mapping[str, Any], tables: Sequence[Effects]) -> Effects | None:
    """Return the rows of the first table that has the labels, one a combination of their values.

    They stand in the order of their labels: the last digit of a mean depends on the order in which
    it is added up, which that of the table must not decide. InputError: several rows fit.
    """
    wanted = {name: _listed(values) for name, values in labels.items()}
    if _names_draws(labels):
        del wanted["side"]
    wanted["measure"] = [claim.measure]
    n_wanted = math.prod(map(len, wanted.values()))
    for table in tables:
        if not wanted.keys() <= set(table):
            continue
        rows = _fitting(table, wanted)
        if rows.duplicated(list(wanted)).any():
            unclear = offenders(map(str, wanted.items()))
            raise InputError(f"claim {claim.name}: {unclear} fits {len(rows)} rows")
        if len(rows) == n_wanted:
            return rows.sort_values(list(wanted), key=lambda labels: labels.astype(str))
    return None


def _names_draws(labels: Mapping[str, Any]) -> bool:
    """Return whether the side among some labels is one of the draws, and no label of a row."""
    side = labels.get("side")
    return isinstance(side, str) and side in SIDES


def _fitting(table: Effects, wanted: Mapping[str, list]) -> Effects:
    """Return the rows with these labels; of labels that are not wanted, those of the main row."""
    rows = table
    for name, values in wanted.items():
        rows = rows[rows[name].isin(values)]
    for name, value in MAIN.items():
        if name in rows and name not in wanted:
            rows = rows[rows[name] == value]
    if "n_train" in rows and "n_train" not in wanted:
        largest = rows["n_train"].max()
        rows = rows[rows["n_train"] == largest]
    return rows


def _leads_of(rows: pd.DataFrame, leads: pd.DataFrame) -> pd.DataFrame:
    """Return the lead of each system of some rows over BM25: system, lead, lead_low.

    NaN where it was not measured.
    """
    shared = [name for name in leads.columns if name in rows]
    if "model" in rows:
        rows = rows[rows["model"] != BM25]
    systems = rows[shared].drop_duplicates()
    if systems.empty or GATED.isdisjoint(shared):
        return pd.DataFrame(columns=["system", "lead", "lead_low"], dtype=float)
    names = systems.astype(str).agg(", ".join, axis=1).to_numpy()
    measured = systems.merge(leads, on=shared, how="left").assign(system=names)
    return measured[["system", "lead", "lead_low"]]


def _share_of_trainings(terms: Sequence[_Term], draws: np.ndarray) -> float:
    """Return the share of the variance of an estimate that is of trainings.

    Of relative changes to the first order.
    """
    variance = 0.0
    for term in terms:
        rows, columns = term.rows, term.columns
        if "sd_trainings" not in rows:  # a correlation over queries, of means over trainings
            continue
        of_rows = rows["sd_trainings"].fillna(0.0) ** 2 / rows["n_trainings"]
        if term.side == "effect" and columns["first"] != columns["effect"]:
            change = rows[columns["effect"]]
            first = rows[columns["first"]]
            scale = (1 + (1 + change) ** 2) / first**2
            of_rows = of_rows * scale
        variance += of_rows.sum() / len(rows) ** 2
    drawn_variance = draws.var()
    return min(1.0, variance / drawn_variance) if drawn_variance else 0.0

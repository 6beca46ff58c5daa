"""Claims as `claims.yaml` states them: answered from tables of effects, and judged, direction and
size apart.

Direction: the interval of a claim lies on the side of 0 that the claim names (*holds*), on the
other one (*contradicted*), or on both (*undecided*). Size: two one-sided tests (TOST) place the
effect within the margin (*no difference beyond the margin*) or not. A claim that asks for equality
holds by its size.

A family is the primary claims of a notebook. Its intervals are simultaneous (95 %). Its tests of
size are corrected by Holm (5 %), those of the claims of equality, which decide them, apart from
those of the others, which nobody asked for. The unit is a query and its trainings, or a world;
fewer than LEAST of them decide nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel
from scipy import special, stats

from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.bootstrap import interval, ratio, simultaneous
from interextra.stats.correlation import fisher_z
from interextra.stats.effects import DRAWN, DRAWS, Effects, across, effects
from interextra.stats.formatting import spelled
from interextra.stats.tests import LEAST_QUERIES, detectable, holm, outside
from interextra.stats.trainings import ONE_TRAINING, QUERIES, TRAININGS
from interextra.store.errors import InputError, offenders

FILE = Path(__file__).with_name("claims.yaml")
# a section of FILE with claims that no run answers yet, and the design that is fixed for them
UNANSWERED = "real"
ANSWERS = Path(__file__).with_name("answers.yaml")
SIDES = {"effect": "effect", "in domain": "first", "out of domain": "second"}
DATA = {"MedQuAD": "small", "worlds": "worlds"}  # profiles whose reference decides claims
PLACES = {"MedQuAD": "on real data", "worlds": "in the worlds"}
# Real data by notebook or claim; else MedQuAD
REAL = {
    "01_overlap_annotation_analysis": "MS MARCO",
    "11_pool_bias": "TREC DL",
    "finished-near": "TREC DL",
}
REAL |= {"predicted-by-declared": "published models"}
NAMED = {"worlds": "fourteen worlds", "here": "this run"}  # columns of a page
# First words of a conclusion → the entry of answers.yaml that answers the title.
HELD = "replicated|supported|agrees"
ANSWER_TO = {f"depends|no difference.*({HELD})": "depends", "no difference": "equal"}
ANSWER_TO |= {HELD: "holds", "contradicted|differs": "contradicted"}
MAIN = {"negative_passages": "all", "average": "micro"}  # of labels that a claim does not name
JUDGED = ["verdict", "size", "reason", "resolution", "p_size"]
WITHIN = "no difference beyond the margin"
LEVEL = 0.05
LEAST = {
    "queries": LEAST_QUERIES,
    "trainings": LEAST_QUERIES,
    "models": 4,
    "clusters": 4,
    "worlds": 4,
}
UNJUDGED = "not judged"
UNTESTABLE = "not testable"
GATE = "gate: not shown to beat BM25 in domain"
UNMEASURED = "gate: no lead over BM25 was measured"
FEW = f"fewer than {LEAST_QUERIES} queries, or 4 models, clusters or worlds"
NO_VARIATION = "no variation: all differ by the same"
ONE = {"models": "model", "queries": "query", "trainings": "training run", "worlds": "world"}
MANY = {"trainings": "training runs"}  # where it has another name than the column of its number
REASONS = {
    name: f"too few {MANY.get(name, name)}"
    for name in ("queries", "worlds", "models", "clusters", "trainings")
}
REASONS |= {FEW: FEW, NO_VARIATION: NO_VARIATION}
REASONS |= {
    GATE: "a system is not shown to beat BM25 in domain",
    UNMEASURED: "no lead over BM25 was measured",
}
COUNTS = ["n_models", "n_queries", "n_units", "n_trainings"]
SHOWN = ["n_models", "n_queries", "n_trainings", "n_worlds"]  # counts on a page
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
DERIVED = (
    "p_value",
    "p_holm",
    "n_units",
    "sd_trainings",
    "over",
    "published",
    "verdict",
)  # columns of one world only
GATED = {"model", "regime"}  # labels of what must beat BM25 in domain
# column of `answered`: what a claim's systems are ahead of BM25, a frame [system, lead, lead_low]
SYSTEMS = "systems"
OUT_OF_REACH = 10  # a claim that needs more than this many times the data is declared so


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


def leads(values: pd.DataFrame, by: Sequence[str], seed: int, n_boot: int) -> pd.DataFrame:
    """What each system is ahead of BM25 in domain: the gate, on queries that measure no loss.

    `values`: of models in domain, on the queries of the gate. Returns *by, model, lead, lead_low;
    empty without values.
    """
    if values.empty:
        return pd.DataFrame(columns=[*by, "model", "lead", "lead_low"])
    means = effects(values, [*by, "model"], seed=seed, n_boot=n_boot)
    ahead = means.contrast(
        "model", [(model, BM25) for model in means["model"].unique() if model != BM25]
    )
    named = {"first": "model", "difference": "lead", "low": "lead_low"}
    return pd.DataFrame(ahead).rename(columns=named)[[*by, "model", "lead", "lead_low"]]


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


def gate(answers: pd.DataFrame) -> pd.DataFrame:
    """The leads over BM25 in domain behind the claims of `answered`: claim, system, lead,
    lead_low.
    """
    parts = [row[SYSTEMS].assign(claim=row["claim"]) for _, row in answers.iterrows()]
    return pd.concat(parts or [pd.DataFrame()]).reindex(
        columns=["claim", "system", "lead", "lead_low"]
    )


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


def concluded(answers: Effects, own: Sequence[Claim] = ()) -> pd.DataFrame:
    """The claims judged, with simultaneous 95 % intervals of the primary ones; a secondary one has
    no verdict.

    Adds verdict, size, reason and resolution (smallest effect found with 80 % power). `own`: claims
    not in the file.
    """
    known = stated() | {claim.name: claim for claim in own}
    claims = [known[name] for name in answers["claim"]]
    draws = answers.drawn() if claims else np.empty((0, 1))
    primary = np.array([not claim.secondary for claim in claims], bool)
    estimates, low, high = (
        answers[name].to_numpy(float, copy=True) for name in ("estimate", "low", "high")
    )
    bounded = np.array(
        [not claim.unit and "minus" not in claim.rows for claim in claims], bool
    )  # correlations
    if primary.any():  # by Fisher's z, so that no interval of a correlation reaches beyond 1
        scaled = [np.where(bounded, fisher_z(one.T), one.T).T for one in (estimates, draws)]
        ends = simultaneous(scaled[0][primary], scaled[1][primary])
        low[primary], high[primary] = (
            np.where(bounded[primary], np.tanh(end), end) for end in ends
        )
    sizes = [outside(row, claim.margin) for claim, row in zip(claims, draws, strict=True)]
    made = pd.DataFrame(answers).drop(columns=[DRAWS, "bias", "noise", SYSTEMS])
    made = made.assign(low=low, high=high, resolution=detectable(low, high, draws.std(axis=1)))
    return _judged(made, sizes, answers["noise"], known)


def on_rows(frame: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Effects with claim_low and claim_high: the interval in a table of `concluded` of the primary
    claim on a row.
    """
    frame = frame.assign(claim_low=np.nan, claim_high=np.nan)
    for row in made.to_dict("records"):
        claim = stated()[row["claim"]]
        labels = [labels for _, labels in claim.terms()]
        found = (
            _rows(claim, labels[0], [frame])
            if len(labels) == 1 and claim.side == "effect"
            else None
        )
        if found is not None and len(found) == 1 and not claim.secondary:
            frame.loc[found.index, ["claim_low", "claim_high"]] = row["low"], row["high"]
    return frame


def in_one_world(answers: Effects) -> pd.DataFrame:
    """As of `concluded`, in a single generated world, which decides nothing: plain intervals, bias,
    no verdict.
    """
    plain = answers[["low", "high", "bias"]]
    return concluded(answers).assign(
        **plain, verdict="", size="", reason="one world", p_size=np.nan
    )


def over_worlds(worlds: Sequence[pd.DataFrame], gates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The claims judged over worlds, with Student's intervals, from the tables `in_one_world` and
    `gate` of each.

    The mean of a claim's estimates less their bias (0 where it is undefined), simultaneous over the
    primary claims by Bonferroni's correction; undefined where it is in one of the worlds. A world's
    estimate holds the noise of its queries and trainings. A system's lead is pooled over the worlds
    before the weakest is taken. The columns of `concluded`, with n_worlds for n_trainings.
    """
    every, n = pd.concat(worlds, ignore_index=True), len(worlds)
    every = every.assign(estimate=every["estimate"] - every["bias"].fillna(0.0)).groupby(
        "claim", sort=False
    )
    of = {
        "estimate": ("estimate", lambda part: part.mean(skipna=False)),
        "error": ("estimate", "sem"),
    }
    found = every.agg(**of, n_queries=("n_queries", "sum"), n_worlds=("estimate", "size")).query(
        "n_worlds == @n"
    )
    primary = np.array([not stated()[name].secondary for name in found.index], bool)
    estimate, error, tests = found["estimate"], found["error"], np.where(primary, primary.sum(), 1)
    critical = stats.t.ppf(1 - 0.025 / tests, n - 1)
    reach = critical * error.where(error > 1e-12)
    needed = (
        special.nctdtrinc(n - 1, 0.2, critical) * error
    )  # Student's test finds it with 80 % power
    of_world = pd.concat(gates, keys=range(n), names=["world"]).reset_index("world")
    leads = across(of_world, "world", ["claim", "system"], "lead").rename(
        columns={"low": "lead_low"}
    )
    leads.loc[leads["n"] < n, ["lead", "lead_low"]] = np.nan  # not measured in every world
    weakest = leads.groupby("claim")[["lead", "lead_low"]].agg(lambda part: part.min(skipna=False))
    margins = np.array([stated()[name].margin for name in found.index])
    beyond = stats.t.sf(
        (margins - estimate.abs()) / error.where(error > 1e-12), n - 1
    )  # two one-sided t-tests
    for name in [name for name in ("effect_ratio", "delta_ri") if name in every.obj]:
        near = across(
            every.obj.dropna(subset=name).reset_index(), "index", ["claim"], name
        ).set_index("claim")
        found[[name, f"{name}_low", f"{name}_high"]] = near[[name, "low", "high"]].reindex(
            found.index
        )
    made = found.assign(
        low=estimate - reach, high=estimate + reach, resolution=needed, over="worlds"
    )
    made = made.join(weakest).reset_index()
    columns = [
        "claim",
        "estimate",
        "low",
        "high",
        "lead",
        "lead_low",
        "n_queries",
        "n_worlds",
        "over",
    ]
    columns += [name for name in NEARNESS if name in made]
    return _judged(made[[*columns, "resolution"]], beyond, ["worlds"] * len(found), stated())


def pooled(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One table of the tables of several worlds, of those with an effect and its interval; empty
    for others.

    The effect is the column before `low`; labels are columns of words, and of numbers that the
    worlds share. Returns labels, the effect, low, high (Student's, plain 95 %), least, most, n of
    the rows of every world.

    >>> table = pd.DataFrame({"model": ["a"], "loss": [0.2], "low": [0.1], "high": [0.3], "n_queries": [9]})
    >>> pooled([table, table.assign(loss=0.4)])[["model", "loss", "least", "most", "n"]].values.tolist()
    [['a', 0.30000000000000004, 0.2, 0.4, 2]]
    """
    if not all({"low", "high"} <= set(frame) for frame in frames):
        return pd.DataFrame()
    effect = frames[0].columns[frames[0].columns.get_loc("low") - 1]
    every = pd.concat(
        [frame.assign(world=world) for world, frame in enumerate(frames)], ignore_index=True
    )
    measured = {effect, "low", "high", "n_queries", "n_trainings", *DERIVED}
    labels = [
        name
        for name in frames[0]
        if name not in measured and _tells_apart([frame[name] for frame in frames])
    ]
    if not labels or any(frame.duplicated(labels).any() for frame in frames):
        return pd.DataFrame()
    found = across(every, "world", labels, effect)
    return found[found["n"] == len(frames)].reset_index(drop=True)


def _tells_apart(columns: list[pd.Series]) -> bool:
    """Whether a column says which row this is: words, or numbers that the worlds share (sizes,
    shares of a design).
    """
    values = [column.dropna() for column in columns]
    shared = set(max(values, key=len))
    return not all(map(pd.api.types.is_numeric_dtype, values)) or all(
        set(column) <= shared for column in values
    )


def _judged(
    made: pd.DataFrame, sizes: Sequence[float], noise: Sequence[str], known: Mapping[str, Claim]
) -> pd.DataFrame:
    """`made` with the columns JUDGED; `sizes`: p-values of the tests of size; `noise`: what most of
    the noise is of.

    p_size is Holm's over the family, see above; undefined of secondary claims and of too few units.
    """
    claims = [known[name] for name in made["claim"]]
    is_few = np.array(
        [_few(row, most) for row, most in zip(made.to_dict("records"), noise, strict=True)], bool
    )
    p_size = np.full(len(claims), np.nan)
    for is_equality in (True, False):
        asked = [not claim.secondary and (claim.asks == "equal") == is_equality for claim in claims]
        family = np.array(asked, bool) & ~is_few
        p_size[family] = holm(np.asarray(sizes, float)[family])
    rows = []
    for row, claim, most, few, p_value in zip(
        made.to_dict("records"), claims, noise, is_few, p_size, strict=True
    ):
        is_within = bool(p_value < LEVEL)
        reason = _obstacle(claim, row, most, few)
        found = (
            "undecided"
            if reason
            else verdict(claim.asks, row["low"], row["high"], claim.margin, is_within)
        )
        if claim.secondary:
            found = ""
        told = (reason or most) if found == "undecided" else ""
        rows.append((found, WITHIN if is_within else "", told, row["resolution"], p_value))
    return made.drop(columns=["lead_low", "resolution"]).join(
        pd.DataFrame(rows, made.index, JUDGED)
    )


def _few(row: Mapping[str, Any], noise: str) -> bool:
    """Whether a claim has too few units for a verdict: queries (or units of them), models,
    clusters, worlds.
    """
    counts = {"models": "n_models", "worlds": "n_worlds"}
    units = row.get(counts.get(noise, "n_units"), np.nan)
    if np.isnan(units):
        units = row.get("n_queries", np.nan)
    return bool(units < LEAST.get(noise, LEAST_QUERIES))


def _obstacle(claim: Claim, row: Mapping[str, Any], noise: str, few: bool) -> str:
    """Why a claim has no verdict whatever its interval; "" where it can have one."""
    if (
        claim.is_gated and not row["lead_low"] > 0
    ):  # a lead that nobody measured (NaN) opens nothing
        return UNMEASURED if np.isnan(row["lead"]) else GATE
    if few:
        return FEW
    return NO_VARIATION if np.isnan(row["low"]) and np.isfinite(row["estimate"]) else ""


def verdict(asks: str, low: float, high: float, margin: float, is_within: bool) -> str:
    """holds, contradicted, or undecided, of an interval; `is_within`: the margin, by two one-sided
    tests.

    >>> verdict("below", -0.2, -0.1, 0.05, False), verdict("above", -0.2, -0.1, 0.05, False)
    ('holds', 'contradicted')
    >>> verdict("equal", -0.2, -0.1, 0.05, False), verdict("equal", -0.06, 0.01, 0.05, True)
    ('contradicted', 'holds')
    """
    if not np.isfinite([low, high]).all():
        return "undecided"
    if asks == "equal":
        return (
            "holds"
            if is_within
            else "contradicted"
            if high < -margin or low > margin
            else "undecided"
        )
    low, high = (low, high) if asks == "above" else (-high, -low)
    return "holds" if low > 0 else "contradicted" if high < 0 else "undecided"


def formatted(row: Mapping[str, Any], own: Claim | None = None) -> str:
    """A row of `concluded` or `over_worlds` as text: estimate, interval, unit of inference, verdict
    and its reason.

    `own`: the claim, where it is not in the file.

    >>> row = {"claim": "resttest-dense", "estimate": -0.1, "low": -0.14, "high": -0.06, "n_queries": 900}
    >>> formatted(row | {"n_worlds": 12, "verdict": "holds", "size": "", "reason": ""})
    '-10.0 % [-14.0, -6.0], 900 queries, 12 worlds: holds'
    """
    claim = own or stated()[row["claim"]]
    text = spelled(row["estimate"], row["low"], row["high"], claim.unit)
    counts = {name.removeprefix("n_"): row[name] for name in SHOWN if not pd.isna(row.get(name))}
    units = [
        f"{int(n):,} {ONE[what] if n == 1 else MANY.get(what, what)}" for what, n in counts.items()
    ]
    found = ", ".join([text, *units])
    reason = "; ".join(_reasons(row, claim))
    judged = ", ".join(filter(None, [row["verdict"], row["size"]]))
    if not judged and not reason:
        return found
    if not judged:
        return f"{found}: {reason}"
    return f"{found}: {judged} ({reason})" if reason else f"{found}: {judged}"


def _reasons(row: Mapping[str, Any], claim: Claim) -> list[str]:
    """Why a claim is undecided, what its design detects, and how much more data would decide it."""
    reason, needed = row["reason"], row.get("resolution", np.nan)
    reasons = [MANY.get(reason, reason)] if reason else []
    if reason == GATE and np.isfinite(row["lead"]):
        return [*reasons, f"lead {100 * row['lead']:+.1f} points"]
    if row["verdict"] != "undecided" or reason.startswith("gate") or not np.isfinite(needed):
        return reasons
    if claim.unit:
        reasons.append(f"detects {100 * needed:.1f} {claim.unit}")
    else:  # of a correlation, or of a difference of two
        largest = 2.0 if "minus" in claim.rows else 1.0
        reasons.append(f"detects {needed:.2f}" if needed < largest else "detects no correlation")
    times = (
        (needed / claim.asked) ** 2 if claim.asked else 0.0
    )  # nothing is asked of a baseline that finds nothing
    if times > OUT_OF_REACH:
        reasons.append(
            f"out of reach: needs {_more_data(times, reason, row.get('share_trainings', np.nan))}"
        )
    return reasons


def _more_data(times: float, noise: str, share_trainings: float) -> str:
    """What would make the variance so many times smaller.

    >>> _more_data(30, "queries", 0.1), _more_data(30, "trainings", 0.99)
    ('30 times as many queries', '42 times as many training runs')
    """
    units = MANY.get(noise, noise)
    if noise != "trainings" or np.isnan(share_trainings):
        return f"{times:.0f} times as many {units}"
    left = 1 - times * (
        1 - share_trainings
    )  # of the variance wanted, what the queries leave to the trainings
    if left > 0:
        return f"{times * share_trainings / left:.0f} times as many {units}"
    return f"{times:.0f} times as many {units} and queries"


def resolutions(files: Sequence[Path]) -> pd.DataFrame:
    """What a design can tell, by tables of claims of a reference, of those that are there.

    Returns DataFrame[claim, unit, asked, resolution, times, more_of] : asked is `Claim.asked`;
    resolution the smallest effect that is found with 80 % power; times as many worlds, or queries
    and trainings (more_of), reach it.
    """
    rows = []
    for row in (
        row for path in files if path.is_file() for row in pd.read_csv(path).to_dict("records")
    ):
        claim, found = stated()[row["claim"]], row["resolution"]
        units = "worlds" if "n_worlds" in row else "queries and trainings"
        rows.append(
            (row["claim"], claim.unit, claim.asked, found, (found / claim.asked) ** 2, units)
        )
    return pd.DataFrame(rows, columns=["claim", "unit", "asked", "resolution", "times", "more_of"])


def page(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """For the page: a row a claim; its sentence, what is published, and a column a data set that
    answers it.

    `found`: name of the data → a table of `concluded`, `in_one_world` or `over_worlds`; without
    rows for none.
    """
    asked, made = [data for data, table in found.items() if len(table)], []
    for claim, rows in _by_claim(found):
        told = {
            _named(data, claim): formatted(rows[data]) if data in rows else "–" for data in asked
        }
        row = {
            "claim": claim.sentence,
            "margin": margin(claim),
            "published": published(claim),
        } | told
        untested = "".join(f" ({why})" for why in _untested(claim, rows))
        made.append(row | {"conclusion": conclusion(claim, rows) + untested})
    table = pd.DataFrame(made).fillna("–")
    return table[[*table.columns.drop("conclusion"), "conclusion"]] if made else table


def _by_claim(found: Mapping[str, pd.DataFrame]) -> list[tuple[Claim, dict[str, dict]]]:
    """Each claim that a table of `page` answers, with its row in each data set; in a file an empty
    text is missing.
    """
    rows: dict[str, dict[str, dict]] = {}
    for data, table in found.items():
        texts = {
            name: table[name].astype(object).fillna("")
            for name in (*JUDGED[:3], "over")
            if name in table
        }
        for row in table.assign(**texts).to_dict("records"):
            rows.setdefault(row["claim"], {})[data] = row
    return [(stated()[name], of) for name, of in rows.items()]


def _named(data: str, claim: Claim) -> str:
    return (
        (REAL.get(claim.name) or REAL.get(claim.notebook, data))
        if data == "MedQuAD"
        else NAMED.get(data, data)
    )


def conclusion(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What data sets say together of a claim: data set → its row. A single generated world says
    nothing.

    >>> holds, undecided = ({"verdict": verdict, "size": ""} for verdict in ("holds", "undecided"))
    >>> conclusion(stated()["resttest-dense"], {"MedQuAD": undecided, "worlds": holds})
    'agrees in direction in the worlds, undecided on real data'
    """
    heard = {data: _outcome(claim, data, row) for data, row in rows.items()}
    judged = {data: told for data, told in heard.items() if told != UNJUDGED}
    tested = {data for data in judged if data not in claim.not_testable}
    if {"holds", "contradicted"} <= {rows[data]["verdict"] for data in tested}:
        return "depends on the data"
    if len(judged) > 1 and len(set(judged.values())) == 1:
        return next(iter(judged.values()))
    decided_first = sorted(
        judged.items(), key=lambda item: item[1].startswith(("undecided", UNTESTABLE))
    )
    return ", ".join(f"{told} {PLACES.get(data, data)}" for data, told in decided_first) or UNJUDGED


def _outcome(claim: Claim, data: str, row: Mapping[str, Any]) -> str:
    """What one data set says of a claim, in a word.

    *replicated* and *contradicted* are of the paper's design and question on real data; a generated
    world, or another design, only *agrees* (of an effect: *in direction*) or *differs*. A question
    of ours is *supported* or *contradicted*. *not testable* is what a design cannot answer, as
    `claims.yaml` says with the reason.
    """
    if data in claim.not_testable:
        return UNTESTABLE
    smaller = ", but smaller than the margin," * bool(row["size"] and claim.asks != "equal")
    if claim.paper == "kit":
        words = {"holds": "supported", "contradicted": "contradicted"}
    elif claim.design == "of the paper" and data != "worlds":
        words = {"holds": "replicated", "contradicted": "contradicted"}
    else:
        agrees = "agrees" if claim.asks == "equal" else "agrees in direction"
        words = {"holds": agrees, "contradicted": "differs"}
    if row["verdict"] in words:
        return words[row["verdict"]] + smaller
    if not row["verdict"]:
        return UNJUDGED
    return "undecided" if _is_open(row) else "no difference"


def _is_open(row: Mapping[str, Any]) -> bool:
    """Whether neither direction nor size is decided; of a system that is excluded nothing is
    said.
    """
    return row["verdict"] == "undecided" and (
        not row["size"] or str(row.get("reason", "")).startswith("gate")
    )


def margin(claim: Claim) -> str:
    """What counts as no difference: of equality, or of a loss or gain that is too small to
    matter.
    """
    return f"{100 * claim.margin:.1f} {claim.unit}" if claim.unit else f"{claim.margin:.2f}"


def published(claim: Claim) -> str:
    value, unit = claim.published, claim.unit
    return "–" if np.isnan(value) else f"{100 * value:+.1f} {unit}" if unit else f"{value:+.2f}"


def sentences(found: Mapping[str, pd.DataFrame], notebook: str = "") -> list[str]:
    """A sentence for each claim of `page`: what came out, and the estimate of each data set with
    its interval.

    `notebook`: the claim that answers its title (`answers.yaml`) comes first, as an answer; decided
    ones are next.

    >>> row = {"claim": "topics-dense", "estimate": -0.074, "low": -0.119, "high": 0.029, "size": ""}
    >>> sentences({"here": pd.DataFrame([row | {"verdict": "undecided", "reason": "queries"}])})[0][82:]
    ': undecided here, too few queries (RR@10: this run -7.4 % [-11.9, +2.9]; published -11.1 %).'
    """
    answer, decided, others = [], [], []
    title = yaml.safe_load(ANSWERS.read_text(encoding="utf-8")).get(notebook, {})
    for claim, rows in _by_claim(found):
        outcome, reason = conclusion(claim, rows), _reason(rows)
        estimated = {
            data: spelled(row["estimate"], row["low"], row["high"], claim.unit)
            for data, row in rows.items()
        }
        parts = [f"{_named(data, claim)} {text}" for data, text in estimated.items()]
        parts += [f"published {published(claim)}"] if np.isfinite(claim.published) else []
        if claim.asks == "equal" or any(row["size"] for row in rows.values()):
            parts.append(f"margin {margin(claim)}")
        estimates = f"{claim.statistic}{claim.measure}: {'; '.join(parts)}"
        told = outcome
        word = next((word for word in ("undecided", UNJUDGED, UNTESTABLE) if word in told), "")
        is_open = told.startswith(("undecided", UNJUDGED, UNTESTABLE))
        has_reason = word in ("undecided", UNJUDGED)
        told += f", {reason}" * has_reason
        untested = _untested(claim, rows)
        told += "".join(f" ({why})" for why in untested)
        if claim.name != title.get("claim"):
            text = f"{claim.sentence.removesuffix('.')}: {told} ({estimates})."
            (others if is_open else decided).append(text)
            continue
        has_name = re.match(
            r"\w+[A-Z0-9]", claim.sentence
        )  # which keeps its capitals after a colon
        inside = claim.sentence if has_name else claim.sentence[:1].lower() + claim.sentence[1:]
        open_for = "; ".join([reason] * has_reason + untested)
        forms = {"": f"{word.capitalize()} ({open_for}): {inside}"}
        forms |= {"depends": f"It depends on the data. {claim.sentence}"} | title
        key = next((key for word, key in ANSWER_TO.items() if re.match(word, outcome)), "")
        text = forms[key].removesuffix(".") + f": {told}" * (not is_open)
        answer = [f"{text} ({estimates}; {_intervals(claim, rows)})."]
    return answer + decided + others


def _untested(claim: Claim, rows: Mapping[str, Any]) -> list[str]:
    """Why data sets that estimate a claim cannot test it, each reason once."""
    return list(dict.fromkeys(why for data, why in claim.not_testable.items() if data in rows))


def _intervals(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What kind of intervals the estimates of a claim have, and what each is over."""
    alone = [
        data for data, row in rows.items() if row["reason"] == "one world"
    ]  # which has no correction
    kind = "individual" if len(alone) == len(rows) else "simultaneous"
    names_over: dict[str, list[str]] = {}
    for data, row in rows.items():
        over = str(row.get("over", "")).replace("; one training run", " of one training run")
        is_apart = data in alone and kind == "simultaneous"
        names_over.setdefault(over, []).append(_named(data, claim) + ", individual" * is_apart)
    is_one_for_all = len(names_over) == 1 and len(alone) in (0, len(rows))
    each = []
    for over, names in names_over.items():
        whose = "" if is_one_for_all else f" ({', '.join(names)})"
        each += [f"over {over}{whose}"] if over else []
    return " ".join([f"{kind} 95 % confidence intervals", "; ".join(each)]).strip()


def _reason(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a claim is undecided, or has no verdict, by its row in each data set."""
    if not any(row["verdict"] for row in rows.values()):
        worlds = any(row["reason"] == "one world" for row in rows.values())
        return "one generated world decides no claim" if worlds else "a secondary claim"
    reason = next(
        (row["reason"] for row in rows.values() if _is_open(row) and row["reason"]), "no estimate"
    )
    return REASONS.get(reason, reason)

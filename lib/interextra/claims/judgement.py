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

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import special, stats

from interextra.claims.claim import NEARNESS, SYSTEMS, Claim, rows_of, stated
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.correlation import fisher_z
from interextra.stats.effects import (
    DRAWS,
    LEAST_QUERIES,
    Effects,
    across,
    detectable,
    effects,
    holm,
    outside,
    simultaneous,
)

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
GATE = "gate: not shown to beat BM25 in domain"
UNMEASURED = "gate: no lead over BM25 was measured"
FEW = f"fewer than {LEAST_QUERIES} queries, or 4 models, clusters or worlds"
NO_VARIATION = "no variation: all differ by the same"
DERIVED = (
    "p_value",
    "p_holm",
    "n_units",
    "sd_trainings",
    "over",
    "published",
    "verdict",
)  # columns of one world only


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


def gate(answers: pd.DataFrame) -> pd.DataFrame:
    """The leads over BM25 in domain behind the claims of `answered`: claim, system, lead,
    lead_low.
    """
    parts = [row[SYSTEMS].assign(claim=row["claim"]) for _, row in answers.iterrows()]
    return pd.concat(parts or [pd.DataFrame()]).reindex(
        columns=["claim", "system", "lead", "lead_low"]
    )


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
            rows_of(claim, labels[0], [frame])
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

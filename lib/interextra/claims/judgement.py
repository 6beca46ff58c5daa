"""Claims judged by their estimates, direction and size apart.

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

from interextra.claims.claim import NEARNESS, SYSTEMS, Claim, every_claim, rows_of, stated
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.stats.bootstrap import simultaneous
from interextra.stats.correlation import fisher_z
from interextra.stats.effects import DRAWS, Effects, across, effects
from interextra.stats.tests import LEAST_QUERIES, detectable, holm, outside, standard_error

# columns that a judgement adds to a table of claims
JUDGED = ["verdict", "size", "reason", "resolution", "p_size"]
# the text in the column size
WITHIN = "no difference beyond the margin"
LEVEL = 0.05
# the least number of units for a verdict, by what is drawn
LEAST = {
    "queries": LEAST_QUERIES,
    "trainings": LEAST_QUERIES,
    "models": 4,
    "clusters": 4,
    "worlds": 4,
}
# texts in the column reason, beside the names of units
GATE = "gate: not shown to beat BM25 in domain"
UNMEASURED = "gate: no lead over BM25 was measured"
FEW = f"fewer than {LEAST_QUERIES} queries, or 4 models, clusters or worlds"
NO_VARIATION = "no variation: all differ by the same"
# of claims that a run alone does not decide
ONE_WORLD = "one world"
ONE_COLLECTION = "one collection"
# columns that only tables of one world have
DERIVED = ("p_value", "p_holm", "n_units", "sd_trainings", "over", "published", "verdict")


def leads(values: pd.DataFrame, by: Sequence[str], seed: int, n_boot: int) -> pd.DataFrame:
    """Return what each system is ahead of BM25 in domain: the gate.

    Parameters
    ----------
    values : of models in domain, on the queries of the gate, which measure no loss.
    by : labels that make a group.
    seed, n_boot : of the resamples, see `effects`.

    Returns
    -------
    DataFrame[*by, model, lead, lead_low]
        Empty without values.
    """
    columns = [*by, "model", "lead", "lead_low"]
    if values.empty:
        return pd.DataFrame(columns=columns)
    means = effects(values, [*by, "model"], seed=seed, n_boot=n_boot)
    systems = means["model"].unique()
    pairs = [(system, BM25) for system in systems if system != BM25]
    ahead = means.contrast("model", pairs)
    names = {"first": "model", "difference": "lead", "low": "lead_low"}
    return pd.DataFrame(ahead).rename(columns=names)[columns]


def gate(answers: pd.DataFrame) -> pd.DataFrame:
    """Return the leads over BM25 in domain behind the claims of `answered`.

    Returns
    -------
    DataFrame[claim, system, lead, lead_low]
    """
    parts = [row[SYSTEMS].assign(claim=row["claim"]) for _, row in answers.iterrows()]
    systems = pd.concat(parts) if parts else pd.DataFrame()
    return systems.reindex(columns=["claim", "system", "lead", "lead_low"])


def concluded(answers: Effects, own: Sequence[Claim] = ()) -> pd.DataFrame:
    """Judge the claims; a secondary one has no verdict.

    Parameters
    ----------
    answers : of `answered`.
    own : claims that are not in the file.

    Returns
    -------
    DataFrame[the columns of `answered`, verdict, size, reason, resolution, p_size]
        low and high are simultaneous 95 % intervals of the primary claims. resolution: the smallest
        effect found with 80 % power. p_size: corrected by Holm over the family; undefined of
        secondary claims and of too few units.
    """
    known = every_claim() | {claim.name: claim for claim in own}
    claims = [known[name] for name in answers["claim"]]
    draws = answers.drawn() if claims else np.empty((0, 1))
    low, high = _intervals(answers, claims, draws)
    margins = [claim.margin for claim in claims]
    p_sizes = np.fromiter(map(outside, draws, margins), float)
    table = pd.DataFrame(answers).drop(columns=[DRAWS, "bias", "noise", SYSTEMS])
    resolution = detectable(low, high, standard_error(draws))
    table = table.assign(low=low, high=high, resolution=resolution)
    return _judged(table, claims, p_sizes, answers["noise"])


def _intervals(
    answers: Effects, claims: Sequence[Claim], draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends float[claims]: simultaneous of the primary claims, plain of the others.

    Of correlations by Fisher's z, so that no interval reaches beyond 1.
    """
    low = answers["low"].to_numpy(float, copy=True)
    high = answers["high"].to_numpy(float, copy=True)
    is_primary = _is_primary(claims)
    is_correlation = np.array([claim.is_correlation for claim in claims], bool)
    estimates = answers["estimate"].to_numpy(float)
    estimates = np.where(is_correlation, fisher_z(estimates), estimates)
    draws = np.where(is_correlation[:, None], fisher_z(draws), draws)
    ends = simultaneous(estimates[is_primary], draws[is_primary])
    low[is_primary], high[is_primary] = ends
    is_bounded = is_primary & is_correlation
    low = np.where(is_bounded, np.tanh(low), low)
    high = np.where(is_bounded, np.tanh(high), high)
    return low, high


def _is_primary(claims: Sequence[Claim]) -> np.ndarray:
    """Return which claims are of the family, bool[claims]."""
    return np.array([not claim.secondary for claim in claims], bool)


def on_rows(table: Effects, judged: pd.DataFrame) -> Effects:
    """Add claim_low and claim_high to effects: the interval of the primary claim on a row.

    Parameters
    ----------
    table : effects.
    judged : of `concluded`; the others, of claims about several rows, stand on none.
    """
    table = table.assign(claim_low=np.nan, claim_high=np.nan)
    for row in judged.to_dict("records"):
        claim = every_claim()[row["claim"]]
        (_, labels), *others = claim.terms()
        if others or isinstance(labels, float):
            continue
        if claim.side != "effect" or claim.secondary:
            continue
        rows = rows_of(claim, labels, [table])
        if rows is not None and len(rows) == 1:
            table.loc[rows.index, "claim_low"] = row["low"]
            table.loc[rows.index, "claim_high"] = row["high"]
    return table


def without_verdict(answers: Effects, reason: str) -> pd.DataFrame:
    """Return claims as of `concluded`, where one run decides nothing.

    With plain intervals and the bias, without verdicts. `reason`: ONE_WORLD or ONE_COLLECTION.
    """
    plain = answers[["low", "high", "bias"]]
    return concluded(answers).assign(**plain, verdict="", size="", reason=reason, p_size=np.nan)


def over_worlds(worlds: Sequence[pd.DataFrame], gates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Judge the claims over worlds, with Student's intervals.

    Estimated is the mean of a claim's estimates less their bias (0 where it is undefined);
    undefined where it is in one of the worlds. The intervals are simultaneous over the primary
    claims by Bonferroni's correction. A world's estimate holds the noise of its queries and
    trainings. A system's lead is pooled over the worlds before the weakest is taken.

    Parameters
    ----------
    worlds : the table `without_verdict` of each; a claim that is missing in one is left out.
    gates : the table `gate` of each.

    Returns
    -------
    DataFrame[the columns of `concluded`, with n_worlds for n_trainings]
    """
    n_worlds = len(worlds)
    every_world = pd.concat(worlds, ignore_index=True)
    table = _means_over_worlds(every_world)
    table = table[table["n_worlds"] == n_worlds]
    claims = [stated()[name] for name in table.index]
    p_sizes = _sizes_over_worlds(table, claims, n_worlds)
    table = _with_intervals_over_worlds(table, claims, n_worlds)
    table = table.assign(over="worlds").join(_weakest_leads(gates))
    for name in ("effect_ratio", "delta_ri"):
        if name in every_world:
            table = table.join(_nearness_over_worlds(every_world, name))
    table = table.reset_index()
    nearness = [name for name in NEARNESS if name in table]
    columns = ["claim", "estimate", "low", "high", "lead", "lead_low", "n_queries", "n_worlds"]
    table = table[[*columns, "over", *nearness, "resolution"]]
    return _judged(table, claims, p_sizes, ["worlds"] * len(claims))


def _means_over_worlds(every_world: pd.DataFrame) -> pd.DataFrame:
    """Return estimate (less the bias), its standard error, n_queries and n_worlds by claim."""
    biases = every_world["bias"].fillna(0.0)
    estimates = every_world["estimate"] - biases
    by_claim = every_world.assign(estimate=estimates).groupby("claim", sort=False)
    return by_claim.agg(
        estimate=("estimate", lambda estimates: estimates.mean(skipna=False)),
        error=("estimate", "sem"),
        n_queries=("n_queries", "sum"),
        n_worlds=("estimate", "size"),
    )


def _known_error(table: pd.DataFrame) -> pd.Series:
    """Return the standard errors; worlds that are all alike say nothing."""
    return table["error"].where(table["error"] > 1e-12)


def _with_intervals_over_worlds(
    table: pd.DataFrame, claims: Sequence[Claim], n_worlds: int
) -> pd.DataFrame:
    """Add low and high, and resolution: what Student's test finds with 80 % power."""
    is_primary = _is_primary(claims)
    n_tests = np.where(is_primary, is_primary.sum(), 1)
    freedom = n_worlds - 1
    critical = stats.t.ppf(1 - 0.025 / n_tests, freedom)
    reach = critical * _known_error(table)
    return table.assign(
        low=table["estimate"] - reach,
        high=table["estimate"] + reach,
        resolution=special.nctdtrinc(freedom, 0.2, critical) * table["error"],
    )


def _sizes_over_worlds(table: pd.DataFrame, claims: Sequence[Claim], n_worlds: int) -> np.ndarray:
    """Return the p-values float[claims] of two one-sided t-tests against the margin."""
    margins = np.array([claim.margin for claim in claims])
    to_margin = margins - table["estimate"].abs()
    t = to_margin / _known_error(table)
    return stats.t.sf(t, n_worlds - 1)


def _weakest_leads(gates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return lead and lead_low by claim, of the weakest of its systems over the worlds.

    Undefined where a system was not measured in every world.
    """
    n_worlds = len(gates)
    means = _across_worlds(gates, ["claim", "system"], "lead")
    means = means.rename(columns={"low": "lead_low"})
    is_unmeasured = means["n"] < n_worlds
    means.loc[is_unmeasured, ["lead", "lead_low"]] = np.nan
    by_claim = means.groupby("claim")[["lead", "lead_low"]]
    return by_claim.agg(lambda leads: leads.min(skipna=False))


def _nearness_over_worlds(every_world: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the mean of effect_ratio or delta_ri and the ends of its interval by claim."""
    known = every_world.dropna(subset=name).reset_index(names="row")
    means = across(known, "row", ["claim"], name).set_index("claim")
    names = [name, f"{name}_low", f"{name}_high"]
    return means[[name, "low", "high"]].set_axis(names, axis="columns")


def pooled(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return one table of those of several worlds, with an effect and its interval.

    The effect is the column before `low`; labels are columns of words, and of numbers that the
    worlds share.

    Returns
    -------
    DataFrame[labels, the effect, low, high, least, most, n]
        The rows of every world; low and high are Student's, plain 95 %. Empty for tables without
        an effect and its interval.

    Examples
    --------
    >>> table = pd.DataFrame({"model": ["a"], "loss": [0.2], "low": [0.1], "high": [0.3]})
    >>> both = pooled([table, table.assign(loss=0.4)])
    >>> both[["model", "loss", "least", "most", "n"]].values.tolist()
    [['a', 0.30000000000000004, 0.2, 0.4, 2]]
    """
    if not all({"low", "high"} <= set(table) for table in tables):
        return pd.DataFrame()
    columns = tables[0].columns
    effect = columns[columns.get_loc("low") - 1]
    numbers = {effect, "low", "high", "n_queries", "n_trainings", *DERIVED}
    labels = [name for name in columns if name not in numbers and _is_label(name, tables)]
    if not labels or any(table.duplicated(labels).any() for table in tables):
        return pd.DataFrame()
    means = _across_worlds(tables, labels, effect)
    return means[means["n"] == len(tables)].reset_index(drop=True)


def _across_worlds(tables: Sequence[pd.DataFrame], by: Sequence[str], effect: str) -> pd.DataFrame:
    """Return the means of an effect over worlds with a table each, see `across`."""
    by_world = [table.assign(world=world) for world, table in enumerate(tables)]
    return across(pd.concat(by_world), "world", by, effect)


def _is_label(name: str, tables: Sequence[pd.DataFrame]) -> bool:
    """Return whether a column says which row this is.

    Words do, and numbers that the worlds share (sizes, shares of a design).
    """
    values = [table[name].dropna() for table in tables]
    if not all(map(pd.api.types.is_numeric_dtype, values)):
        return True
    longest = max(values, key=lambda of_world: of_world.size)
    return all(of_world.isin(longest).all() for of_world in values)


def _judged(
    table: pd.DataFrame,
    claims: Sequence[Claim],
    p_sizes: np.ndarray,
    noises: Sequence[str],
) -> pd.DataFrame:
    """Return a table of claims with the columns JUDGED.

    `p_sizes`: p-values of the tests of size. `noises`: what most of the noise of a claim is of.
    """
    rows = table.to_dict("records")
    is_few = list(map(_has_few_units, rows, noises))
    corrected = _corrected(claims, p_sizes, is_few)
    judgements = map(_judgement, claims, rows, noises, is_few, corrected)
    judged = pd.DataFrame(list(judgements), table.index, JUDGED)
    return table.drop(columns=["lead_low", "resolution"]).join(judged)


def _corrected(claims: Sequence[Claim], p_sizes: np.ndarray, is_few: Sequence[bool]) -> np.ndarray:
    """Return the p-values of size after Holm's correction, float[claims].

    The tests of equality are a family, and those of the other claims. Undefined of secondary
    claims and of too few units.
    """
    corrected = np.full(len(claims), np.nan)
    is_tested = _is_primary(claims) & ~np.array(is_few, bool)
    is_equality = np.array([claim.asks == "equal" for claim in claims], bool)
    for family in (is_tested & is_equality, is_tested & ~is_equality):
        corrected[family] = holm(p_sizes[family])
    return corrected


def _judgement(
    claim: Claim, row: Mapping[str, Any], noise: str, is_few: bool, p_size: float
) -> dict[str, Any]:
    """Return what the columns JUDGED say of a claim."""
    is_within = bool(p_size < LEVEL)
    obstacle = _obstacle(claim, row, is_few)
    if claim.secondary:
        decision = ""
    elif obstacle:
        decision = "undecided"
    else:
        decision = verdict(claim.asks, row["low"], row["high"], claim.margin, is_within)
    reason = ""
    if decision == "undecided":
        reason = obstacle or noise
    return {
        "verdict": decision,
        "size": WITHIN if is_within else "",
        "reason": reason,
        "resolution": row["resolution"],
        "p_size": p_size,
    }


def _has_few_units(row: Mapping[str, Any], noise: str) -> bool:
    """Return whether a claim has too few units for a verdict.

    Units are queries (or units of them), models, clusters or worlds, by what the noise is of.
    """
    column = {"models": "n_models", "worlds": "n_worlds"}.get(noise, "n_units")
    n_units = row.get(column, np.nan)
    if np.isnan(n_units):
        n_units = row.get("n_queries", np.nan)
    return bool(n_units < LEAST.get(noise, LEAST_QUERIES))


def _obstacle(claim: Claim, row: Mapping[str, Any], is_few: bool) -> str:
    """Return why a claim has no verdict whatever its interval; "" where it can have one."""
    is_ahead = row["lead_low"] > 0  # a lead that nobody measured (NaN) opens nothing
    if claim.is_gated and not is_ahead:
        return UNMEASURED if np.isnan(row["lead"]) else GATE
    if is_few:
        return FEW
    if np.isnan(row["low"]) and np.isfinite(row["estimate"]):
        return NO_VARIATION
    return ""


def verdict(asks: str, low: float, high: float, margin: float, is_within: bool) -> str:
    """Return whether an interval says that a claim holds, is contradicted, or is undecided.

    Parameters
    ----------
    asks : below, above or equal, see `claims.yaml`.
    low, high : ends of the interval.
    margin : what counts as no difference.
    is_within : whether the effect is within the margin, by two one-sided tests.

    Examples
    --------
    >>> verdict("below", -0.2, -0.1, 0.05, False), verdict("above", -0.2, -0.1, 0.05, False)
    ('holds', 'contradicted')
    >>> verdict("equal", -0.2, -0.1, 0.05, False), verdict("equal", -0.06, 0.01, 0.05, True)
    ('contradicted', 'holds')
    """
    if not np.isfinite([low, high]).all():
        return "undecided"
    if asks == "equal":
        is_supported = is_within
        is_refuted = high < -margin or low > margin
    elif asks == "above":
        is_supported = low > 0
        is_refuted = high < 0
    else:
        is_supported = high < 0
        is_refuted = low > 0
    if is_supported:
        return "holds"
    return "contradicted" if is_refuted else "undecided"


def resolutions(files: Sequence[Path]) -> pd.DataFrame:
    """Return what a design can tell, by tables of claims of a reference.

    Parameters
    ----------
    files : tables of claims; one that is not there is left out.

    Returns
    -------
    DataFrame[claim, unit, asked, resolution, times, more_of]
        asked is `Claim.asked`; resolution the smallest effect that is found with 80 % power; times
        as many worlds, or queries and trainings (more_of), reach it.
    """
    rows = []
    for path in files:
        if not path.is_file():
            continue
        for row in pd.read_csv(path).to_dict("records"):
            claim = every_claim()[row["claim"]]
            resolution = row["resolution"]
            times = (resolution / claim.asked) ** 2
            more_of = "worlds" if "n_worlds" in row else "queries and trainings"
            rows.append((claim.name, claim.unit, claim.asked, resolution, times, more_of))
    return pd.DataFrame(rows, columns=["claim", "unit", "asked", "resolution", "times", "more_of"])

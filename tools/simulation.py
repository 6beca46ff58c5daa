"""Simulate notebooks with known true effects, to see how sure their verdicts over worlds are.

A notebook here is the claims of 05 in fourteen worlds. Its data come from a hierarchical model, not
from the kit's own resampling: a world, two trainings a claim, entities, queries, and reciprocal
ranks many of which are 0. A claim's estimate is the relative change between the sides, with a true
value given; the lead over BM25 is measured on queries of its own. What judges them is what judges
the committed results: `judgement.over_worlds`, and `judgement.concluded` on one data set.

`few_units`: how often the interval of an effect misses it, by the number of queries that are
resampled. `python -m tools.simulation` prints both tables.
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.random import Generator, default_rng
from scipy import stats

from interextra.claims.claim import Claim, answered, of_notebook
from interextra.claims.judgement import concluded, over_worlds
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, resampled_means, stretched
from interextra.stats.effects import KINDS, effects

NOTEBOOK = "05_architecture_comparison"
N_WORLDS = 14
DEGREES = N_WORLDS - 1  # of freedom
# of each world
N_QUERIES = 400
N_ENTITIES = 80
N_TRAININGS = 5  # of each system on one data set, as many as ReSTTest has folds
FOUND = 0.6  # share of the queries whose passage is among the first ten, in domain
SPREAD = {"world": 0.025, "effect": 0.02, "training": 0.02, "entity": 0.2}  # standard deviations
UNIFORM = 1.7  # a uniform draw between this below 0 and this above has a deviation of 1
RANKS = np.arange(1, 11)  # of the passage, where it is found
SHARES = 0.5**RANKS / (1 - 0.5**10)  # of these ranks
PAIRED = 0.85  # share of the queries that are as easy on one side as on the other
LEAD = 0.05  # over BM25, of systems that beat it
DECIDED = ("holds", "contradicted")
LABELS = ["model", "protocol", "measure"]
FEW = (3, 5, 8, 10, 12, 20, 40, 100, 400)  # queries
# Chances that a query's passage is found, by side, and that both sides share the rank of a query
POPULATIONS = {
    "no effect, half of the pairs alike": ((0.6, 0.6), 0.35),
    "no effect, three quarters alike": ((0.6, 0.6), 0.65),
    "no effect, few zeros": ((0.8, 0.8), 0.35),
    "a loss, half of the pairs alike": ((0.6, 0.5), 0.35),
}
EFFECTS = ("difference", "delta")


class Measured(NamedTuple):
    """What a notebook measures, float[n_worlds, n_claims] each."""

    estimates: np.ndarray
    biases: np.ndarray
    leads: np.ndarray


class Rate(NamedTuple):
    """How often something happens, and how often it should."""

    what: str
    share: float
    should_be: str


def reciprocal_ranks(draw: Generator, chances: np.ndarray) -> np.ndarray:
    """Return RR@10 of queries whose passage is found with these chances, paired along axis -2.

    Both sides of a pair share the rank of a query, and mostly whether it is found.

    Parameters
    ----------
    draw : the generator.
    chances : float[..., 2, n_queries].

    Returns
    -------
    float[..., 2, n_queries]
    """
    shape_of_pairs = chances[..., :1, :].shape
    is_paired = draw.random(shape_of_pairs) < PAIRED
    shared_luck = draw.random(shape_of_pairs)
    own_luck = draw.random(chances.shape)
    luck = np.where(is_paired, shared_luck, own_luck)
    return (luck < chances) / _ranks(draw, shape_of_pairs)


def _ranks(draw: Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return random ranks, distributed as SHARES says."""
    bounds = np.cumsum(SHARES)[:-1]
    return np.searchsorted(bounds, draw.random(shape)) + 1


def notebook(draw: Generator, true: np.ndarray, lead: float) -> Measured:
    """Return what a notebook measures whose effects and lead are truly these.

    The bias of a ratio is what resampling its entities finds of it, here to the second order.

    Parameters
    ----------
    draw : the generator.
    true : float[n_claims], relative changes.
    lead : over BM25, of RR@10.
    """
    n_claims = len(true)
    ease_of_world = _ease(draw, "world", (N_WORLDS, 1, 1))
    effects_in_worlds = SPREAD["effect"] * draw.standard_normal((N_WORLDS, n_claims))
    ease_of_entity = _ease_of_entities(draw, (N_WORLDS, 1, 1, N_ENTITIES))
    # The noise of trainings in a denominator raises the expected relative change by its variance:
    # taken out again.
    bias_of_trainings = 1 + SPREAD["training"] ** 2
    out_of_domain = (1 + (true + effects_in_worlds)) / bias_of_trainings
    in_domain = np.ones_like(out_of_domain)
    sides = np.stack([in_domain, out_of_domain], axis=-1)
    sums = _sums_by_entity(draw, sides, ease_of_world, ease_of_entity)
    inside, outside = _sides(sums.mean(axis=-1))
    # the model and BM25, whose RR@10 is lower by the lead
    mean_in_domain = FOUND * (SHARES / RANKS).sum()
    factor_of_bm25 = 1 - lead / mean_in_domain
    systems = np.broadcast_to([1.0, factor_of_bm25], sides.shape)
    sums_of_systems = _sums_by_entity(draw, systems, ease_of_world, ease_of_entity)
    means_of_systems = sums_of_systems.sum(axis=-1) / N_QUERIES
    model, bm25 = _sides(means_of_systems)
    return Measured(outside / inside - 1, _biases(sums), model - bm25)


def _ease(draw: Generator, source: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return factors of chances around 1, with the deviation of a source in SPREAD."""
    return 1 + SPREAD[source] * draw.standard_normal(shape)


def _ease_of_entities(draw: Generator, shape: int | tuple[int, ...]) -> np.ndarray:
    """Return factors of chances, uniform around 1, with a deviation of SPREAD."""
    return 1 + SPREAD["entity"] * draw.uniform(-UNIFORM, UNIFORM, shape)


def _sides(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of both sides, which are along the last axis."""
    return values[..., 0], values[..., 1]


def _sums_by_entity(
    draw: Generator,
    factor: np.ndarray,
    ease_of_world: np.ndarray,
    ease_of_entity: np.ndarray,
) -> np.ndarray:
    """Return sums of RR@10, float[n_worlds, n_claims, 2, n_entities].

    The chance of a query is of its training (with the `factor` of a side, float[n_worlds, n_claims,
    2]), its world and its entity.
    """
    trained = factor * ease_of_world * _ease(draw, "training", factor.shape)
    entity = draw.integers(0, N_ENTITIES, N_QUERIES)  # of each query
    chances = FOUND * trained[..., None] * ease_of_entity[..., entity]
    values = reciprocal_ranks(draw, np.clip(chances, 0, 1))
    is_of_entity = entity[:, None] == np.arange(N_ENTITIES)
    return values @ is_of_entity


def _biases(sums: np.ndarray) -> np.ndarray:
    """Return the biases of the ratios of two sides, from their sums by entity."""
    inside, outside = _sides(sums.mean(axis=-1))
    deviations = sums - sums.mean(axis=-1, keepdims=True)
    products = deviations * deviations[..., :1, :]
    covariances = products.mean(axis=-1) / N_ENTITIES
    variance, covariance = _sides(covariances)
    relative_variance = variance / inside**2
    relative_covariance = covariance / (inside * outside)
    return outside / inside * (relative_variance - relative_covariance)


def judged(
    claims: Sequence[Claim], true: np.ndarray, lead: float, n: int, seed: int
) -> pd.DataFrame:
    """Return the rows of `over_worlds` of n notebooks, with the number of the notebook.

    `true` and `lead` are those of `notebook`.
    """
    draw = default_rng(seed)
    names = [claim.name for claim in claims]
    tables = []
    for number in range(n):
        measured = notebook(draw, true, lead)
        worlds = []
        gates = []
        for estimates, biases, leads in zip(*measured, strict=True):
            columns = {"claim": names, "estimate": estimates, "bias": biases}
            worlds.append(pd.DataFrame(columns).assign(n_queries=N_QUERIES))
            gate = {"claim": names, "system": names, "lead": leads}
            gates.append(pd.DataFrame(gate))
        table = over_worlds(worlds, gates)
        tables.append(table.assign(notebook=number))
    return pd.concat(tables, ignore_index=True)


def rates(n: int, seed: int = 1, more: int = 1) -> pd.DataFrame:
    """Return how often verdicts are wrong, and how often an effect is found.

    Parameters
    ----------
    n : notebooks for each row.
    seed : of the first row; others follow.
    more : times as many notebooks at the margin, where a rate is as high as its bound by
        construction.

    Returns
    -------
    DataFrame[what, share, should_be]
    """
    claims = [claim for claim in of_notebook(NOTEBOOK) if not claim.secondary]
    directions = np.array([1.0 if claim.asks == "above" else -1.0 for claim in claims])
    at_margin = directions * [claim.margin for claim in claims]
    published = directions * np.abs([claim.published for claim in claims])
    without_effect = judged(claims, 0 * directions, LEAD, n, seed)
    with_effect_at_margin = judged(claims, at_margin, LEAD, n * more, seed + 1)
    without_lead = judged(claims, published, 0.0, n, seed + 2)
    with_lead = judged(claims, published, LEAD, n, seed + 3)
    resolution = with_lead.groupby("claim")["resolution"].mean()
    names = [claim.name for claim in claims]
    detectable = directions * resolution[names].to_numpy()
    wrong = _share_wrong(without_effect, claims)
    table = [
        Rate("effect 0: notebooks with a wrong verdict", wrong, "at most 0.05"),
        *_rates_within(with_effect_at_margin),
        _rate_decided(without_lead),
        *_rates_found("published effect", with_lead, claims, published),
        *_rates_found(
            "effect that is said to be found with 0.80",
            judged(claims, detectable, LEAD, n, seed + 3),
            claims,
            detectable,
        ),
    ]
    return pd.DataFrame(table)


def _share_wrong(rows: pd.DataFrame, claims: Sequence[Claim]) -> float:
    """Return the share of notebooks with a wrong verdict, where no effect is true."""
    directed = [claim.name for claim in claims if claim.asks != "equal"]
    is_directed = rows["claim"].isin(directed)
    is_direction_found = is_directed & (rows["verdict"] == "holds")
    is_wrong = is_direction_found | (rows["verdict"] == "contradicted")
    return is_wrong.groupby(rows["notebook"]).any().mean()


def _rates_within(rows: pd.DataFrame) -> list[Rate]:
    """Return how often each claim is called within the margin, where its effect is at it."""
    is_within = rows["size"] != ""
    shares = is_within.groupby(rows["claim"], sort=False).mean()
    return [
        Rate(f"effect at the margin, {name}: called within it", share, "at most 0.05")
        for name, share in shares.items()
    ]


def _rate_decided(rows: pd.DataFrame) -> Rate:
    """Return how often the most decided claim is decided, where no system beats BM25."""
    is_decided = rows["verdict"].isin(DECIDED)
    most = is_decided.groupby(rows["claim"]).mean().max()
    return Rate("published effect, lead 0: decided, most of a claim", most, "at most 0.05")


def _rates_found(
    what: str, rows: pd.DataFrame, claims: Sequence[Claim], true: np.ndarray
) -> list[Rate]:
    """Return how often each claim of a direction holds, beside the power that is printed.

    `true`: the effects of the rows.
    """
    level = 1 - 0.025 / len(claims)
    critical = stats.t.ppf(level, DEGREES)
    found = []
    for claim, size in zip(claims, np.abs(true), strict=True):
        if claim.asks == "equal":
            continue
        of_claim = rows[rows["claim"] == claim.name]
        width = (of_claim["high"] - of_claim["low"]).mean()
        error = width / 2 / critical
        power = stats.nct.sf(critical, DEGREES, size / error)
        share = (of_claim["verdict"] == "holds").mean()
        label = f"{what}, {claim.name}: holds"
        found.append(Rate(label, share, f"{power:.3f}"))
    return found


def on_one_data_set(n: int, loss: float, seed: int = 1, n_boot: int = 1000) -> pd.DataFrame:
    """Return the rows of `judgement.concluded` of n notebooks on one data set.

    SPLADE truly loses this, no other system anything. The resampling of queries and the noise of
    trainings are the kit's (`effects`).
    """
    claims = of_notebook(NOTEBOOK)
    draw = default_rng(seed)
    tables = []
    for number in range(n):
        values = _values_on_one_data_set(draw, claims, loss)
        table = effects(values, LABELS, "regime", REGIMES, "delta", seed=number, n_boot=n_boot)
        leads = table[LABELS].assign(lead=LEAD, lead_low=LEAD)
        rows = concluded(answered(claims, [table], leads))
        tables.append(rows.assign(notebook=number))
    return pd.concat(tables, ignore_index=True)


def _values_on_one_data_set(draw: Generator, claims: Sequence[Claim], loss: float) -> pd.DataFrame:
    """Return values per query of all systems that claims need, see `on_one_data_set`."""
    entity = draw.integers(0, N_ENTITIES, N_QUERIES)  # of each query
    ease = _ease_of_entities(draw, N_ENTITIES)[entity]
    levels = {"seed": range(N_TRAININGS), "regime": REGIMES, "query_id": range(N_QUERIES)}
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    needed = set()
    for claim in claims:
        for _, term in claim.terms():
            needed.add((term["model"], term["protocol"], claim.measure))
    systems = sorted(needed)
    parts = []
    for model, _, _ in systems:
        loss_of_model = loss if model == "SPLADE" else 0.0
        values_of_system = _values_of_system(draw, loss_of_model, ease)
        parts.append(pd.Series(values_of_system, index))
    by_system = dict(zip(systems, parts, strict=True))
    table = pd.concat(by_system, names=LABELS)
    values = table.rename("value").reset_index()
    values["unit"] = entity[values["query_id"]]
    return values


def _values_of_system(draw: Generator, loss: float, ease: np.ndarray) -> np.ndarray:
    """Return RR@10 of a system, float[n_trainings × 2 × n_queries]; `ease` is of each query."""
    factor_of_sides = np.array([1.0, 1 - loss])
    trained = factor_of_sides * _ease(draw, "training", (N_TRAININGS, 2))
    # one luck for all trainings and sides
    chances = FOUND * trained.reshape(-1, 1) * ease
    return reciprocal_ranks(draw, np.clip(chances, 0, 1)).ravel()


def rates_on_one_data_set(n: int, seed: int = 1) -> pd.DataFrame:
    """Return what `rates` does, where queries and trainings are resampled instead of worlds."""
    without_effect = on_one_data_set(n, 0.0, seed)
    without_effect = without_effect[without_effect["verdict"] != ""]
    wrong = _share_wrong(without_effect, of_notebook(NOTEBOOK))
    # an effect changes the noise: what is said is read where this effect is true
    splade = _of_splade(without_effect)
    for step in (1, 2):
        loss = splade["resolution"].mean()
        splade = _of_splade(on_one_data_set(n, loss, seed + step))
    holds = (splade["verdict"] == "holds").mean()
    rows = [
        Rate("one data set, effect 0: notebooks with a wrong verdict", wrong, "at most 0.05"),
        Rate("one data set, effect that is said to be found with 0.80: holds", holds, "0.800"),
    ]
    return pd.DataFrame(rows)


def _of_splade(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the claim about SPLADE's loss."""
    return rows[rows["claim"] == "resttest-splade"]


def pairs(draw: Generator, chances: tuple[float, float], shared: float, n: int) -> np.ndarray:
    """Return RR@10 float[n, 2] of n queries on two sides, see POPULATIONS."""
    is_shared = draw.random((n, 1)) < shared
    luck = draw.random((n, 2))
    ranks = _ranks(draw, (n, 2))
    values = (luck < chances) / ranks
    first_luck = luck[:, :1]
    first_ranks = ranks[:, :1]
    as_first = (first_luck < chances) / first_ranks
    return np.where(is_shared, as_first, values)


def missed(
    n: int, chances: tuple[float, float], shared: float, n_simulated: int, n_boot: int = 1000
) -> dict[str, float]:
    """Return how often the interval of each effect of n queries misses the true one.

    Of plain resamples, and as `stats.effects` stretches them; no interval misses nothing.
    """
    draw = default_rng(n)
    population = pairs(default_rng(0), chances, shared, 2_000_000)
    true_means = population.mean(axis=0)
    rows = []
    for number in range(n_simulated):
        values = pairs(draw, chances, shared, n)
        [means] = resampled_means([values], np.arange(n), number, n_boot)
        row = {}
        for effect in EFFECTS:
            effect_of = KINDS[effect]
            true = float(effect_of(*true_means))
            means_of_sides = values.mean(axis=0)
            estimate = float(effect_of(*means_of_sides))
            plain = effect_of(*means.T)
            factor = np.sqrt(n / (n - 1))
            rescaled = estimate + factor * (plain - estimate)
            wider = stretched(rescaled, estimate, n - 1)
            row[f"{effect}, plain"] = _misses(plain, true)
            row[f"{effect}, stretched"] = _misses(wider, true)
        rows.append(row)
    return pd.DataFrame(rows).mean().to_dict()


def _misses(draws: np.ndarray, true: float) -> bool:
    """Return whether the interval of draws misses the true effect."""
    low, high = interval(draws)
    return bool(true < low or true > high)


def few_units(n_simulated: int) -> pd.DataFrame:
    """Return the share of intervals that miss an effect.

    A row a population and number of queries, a column an effect and rule.
    """
    rows = []
    for name, (chances, shared) in POPULATIONS.items():
        for n in FEW:
            shares = missed(n, chances, shared, n_simulated)
            rows.append({"population": name, "queries": n} | shares)
    return pd.DataFrame(rows)


def main(n: int = 10_000) -> None:
    """Print both tables, of n notebooks and n intervals a row."""
    in_worlds = rates(n, more=4)
    on_one_set = rates_on_one_data_set(n // 10)
    verdicts = pd.concat([in_worlds, on_one_set])
    for table in (few_units(n), verdicts):
        print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

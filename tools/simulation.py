"""Simulate notebooks with known true effects, to see how sure their verdicts over worlds are.

A notebook here is the claims of 05 in fourteen worlds. Its data come from a hierarchical model, not
from the kit's own resampling: a world, two trainings a claim, entities, queries, and reciprocal
ranks many of which are 0. A claim's estimate is the relative change between the sides, with a true
value given; the lead over BM25 is measured on queries of its own. What judges them is what judges
the committed results: `judgement.over_worlds`, and `judgement.concluded` on one data set.

`few_units`: how often the interval of an effect misses it, by the number of queries that are
resampled.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from interextra.claims.claim import Claim, answered, of_notebook
from interextra.claims.judgement import concluded, over_worlds
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, resampled_means, stretched
from interextra.stats.effects import KINDS, effects

NOTEBOOK = "05_architecture_comparison"
N_WORLDS = 14
# of each world
N_QUERIES = 400
N_ENTITIES = 80
N_TRAININGS = 5  # of each system on one data set, as many as ReSTTest has folds
FOUND = 0.6  # share of the queries whose passage is among the first ten, in domain
SPREAD = {"world": 0.025, "effect": 0.02, "training": 0.02, "entity": 0.2}  # standard deviations
UNIFORM = 1.7  # a uniform draw between this below 0 and this above has a deviation of 1
RANKS = 0.5 ** np.arange(1, 11) / (1 - 0.5**10)  # of the passage, where it is found
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


def reciprocal_ranks(draw: np.random.Generator, chances: np.ndarray) -> np.ndarray:
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
    shared = (*chances.shape[:-2], 1, chances.shape[-1])
    is_paired = draw.random(shared) < PAIRED
    luck = np.where(is_paired, draw.random(shared), draw.random(chances.shape))
    return (luck < chances) / _ranks(draw, shared)


def _ranks(draw: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return ranks from 1 to 10, distributed as RANKS says."""
    return np.searchsorted(np.cumsum(RANKS)[:-1], draw.random(shape)) + 1


def notebook(draw: np.random.Generator, true: np.ndarray, lead: float) -> Measured:
    """Return what a notebook measures whose effects and lead are truly these.

    The bias of a ratio is what resampling its entities finds of it, here to the second order.

    Parameters
    ----------
    draw : the generator.
    true : float[n_claims], relative changes.
    lead : over BM25, of RR@10.
    """
    n_claims = len(true)
    ease_of_world = 1 + SPREAD["world"] * draw.standard_normal((N_WORLDS, 1, 1))
    true_in_world = true + SPREAD["effect"] * draw.standard_normal((N_WORLDS, n_claims))
    ease_of_entity = 1 + SPREAD["entity"] * draw.uniform(
        -UNIFORM, UNIFORM, (N_WORLDS, 1, 1, N_ENTITIES)
    )
    # The noise of trainings in a denominator raises the expected relative change by its variance:
    # taken out again.
    out_of_domain = (1 + true_in_world) / (1 + SPREAD["training"] ** 2)
    sides = np.stack([np.ones_like(true_in_world), out_of_domain], axis=-1)
    sums = _sums_by_entity(draw, sides, ease_of_world, ease_of_entity)
    means = sums.mean(axis=-1)
    estimates = means[..., 1] / means[..., 0] - 1
    systems = np.broadcast_to(_model_and_bm25(lead), sides.shape)
    means = _sums_by_entity(draw, systems, ease_of_world, ease_of_entity).sum(axis=-1) / N_QUERIES
    leads = means[..., 0] - means[..., 1]
    return Measured(estimates, _biases(sums), leads)


def _model_and_bm25(lead: float) -> np.ndarray:
    """Return the factors of a model and of BM25, so that RR@10 of the model is higher by `lead`."""
    mean_in_domain = FOUND * (RANKS / np.arange(1, 11)).sum()
    return np.array([1.0, 1 - lead / mean_in_domain])


def _sums_by_entity(
    draw: np.random.Generator,
    factor: np.ndarray,
    ease_of_world: np.ndarray,
    ease_of_entity: np.ndarray,
) -> np.ndarray:
    """Return sums of RR@10, float[n_worlds, n_claims, 2, n_entities].

    The chance of a query is of its training (with the `factor` of a side, float[n_worlds, n_claims,
    2]), its world and its entity.
    """
    noise = draw.standard_normal(factor.shape)
    trained = factor * ease_of_world * (1 + SPREAD["training"] * noise)
    entity = draw.integers(0, N_ENTITIES, N_QUERIES)  # of each query
    chances = FOUND * trained[..., None] * ease_of_entity[..., entity]
    values = reciprocal_ranks(draw, np.clip(chances, 0, 1))
    return values @ (entity[:, None] == np.arange(N_ENTITIES))


def _biases(sums: np.ndarray) -> np.ndarray:
    """Return the biases of the ratios of two sides, from their sums by entity."""
    means = sums.mean(axis=-1)
    inside = means[..., 0]
    out = means[..., 1]
    deviations = sums - sums.mean(axis=-1, keepdims=True)
    # covariances of each side with the first
    covariances = (deviations * deviations[..., :1, :]).mean(axis=-1) / N_ENTITIES
    relative_variance = covariances[..., 0] / inside**2
    relative_covariance = covariances[..., 1] / (inside * out)
    return out / inside * (relative_variance - relative_covariance)


def judged(
    claims: Sequence[Claim], true: np.ndarray, lead: float, n: int, seed: int
) -> pd.DataFrame:
    """Return the rows of `over_worlds` of n notebooks, with the number of the notebook.

    `true` and `lead` are those of `notebook`.
    """
    draw = np.random.default_rng(seed)
    names = [claim.name for claim in claims]
    tables = []
    for number in range(n):
        measured = notebook(draw, true, lead)
        worlds = []
        for estimates, biases in zip(measured.estimates, measured.biases, strict=True):
            columns = {"claim": names, "estimate": estimates, "bias": biases}
            worlds.append(pd.DataFrame(columns).assign(n_queries=N_QUERIES))
        gates = [
            pd.DataFrame({"claim": names, "system": names, "lead": leads})
            for leads in measured.leads
        ]
        tables.append(over_worlds(worlds, gates).assign(notebook=number))
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
    direction = np.array([1.0 if claim.asks == "above" else -1.0 for claim in claims])
    margins = np.array([claim.margin for claim in claims])

    sizes = np.abs([claim.published for claim in claims])

    without_effect = judged(claims, 0 * direction, LEAD, n, seed)
    wrong = _share_wrong(without_effect, claims)
    rows = [Rate("effect 0: notebooks with a wrong verdict", wrong, "at most 0.05")]
    rows += _rates_within(judged(claims, direction * margins, LEAD, n * more, seed + 1))
    rows.append(_rate_decided(judged(claims, direction * sizes, 0.0, n, seed + 2)))

    published = judged(claims, direction * sizes, LEAD, n, seed + 3)
    rows += _rates_found("published effect", published, claims, sizes)
    resolution = published.groupby("claim")["resolution"].mean()
    resolvable = resolution[[claim.name for claim in claims]].to_numpy()
    detectable = judged(claims, direction * resolvable, LEAD, n, seed + 3)
    what = "effect that is said to be found with 0.80"
    rows += _rates_found(what, detectable, claims, resolvable)
    return pd.DataFrame(rows)


def _share_wrong(rows: pd.DataFrame, claims: Sequence[Claim]) -> float:
    """Return the share of notebooks with a wrong verdict, where no effect is true."""
    directed = [claim.name for claim in claims if claim.asks != "equal"]
    is_direction_found = rows["verdict"].eq("holds") & rows["claim"].isin(directed)
    is_wrong = rows["verdict"].eq("contradicted") | is_direction_found
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
    what: str, rows: pd.DataFrame, claims: Sequence[Claim], sizes: np.ndarray
) -> list[Rate]:
    """Return how often each claim of a direction holds, beside the power that is printed.

    `sizes`: the true effects of the rows.
    """
    critical = stats.t.ppf(1 - 0.025 / len(claims), N_WORLDS - 1)
    rates_found = []
    for claim, size in zip(claims, sizes, strict=True):
        if claim.asks == "equal":
            continue
        of_claim = rows[rows["claim"] == claim.name]
        error = (of_claim["high"] - of_claim["low"]).mean() / 2 / critical
        power = stats.nct.sf(critical, N_WORLDS - 1, size / error)
        share = of_claim["verdict"].eq("holds").mean()
        rates_found.append(Rate(f"{what}, {claim.name}: holds", share, f"{power:.3f}"))
    return rates_found


def on_one_data_set(n: int, loss: float, seed: int = 1, n_boot: int = 1000) -> pd.DataFrame:
    """Return the rows of `judgement.concluded` of n notebooks on one data set.

    SPLADE truly loses this, no other system anything. The resampling of queries and the noise of
    trainings are the kit's (`effects`).
    """
    claims = of_notebook(NOTEBOOK)
    draw = np.random.default_rng(seed)
    tables = []
    for number in range(n):
        values = _values_on_one_data_set(draw, claims, loss)
        table = effects(values, LABELS, "regime", REGIMES, "delta", seed=number, n_boot=n_boot)
        leads = table[LABELS].assign(lead=LEAD, lead_low=LEAD)
        rows = concluded(answered(claims, [table], leads))
        tables.append(rows.assign(notebook=number))
    return pd.concat(tables, ignore_index=True)


def _values_on_one_data_set(
    draw: np.random.Generator, claims: Sequence[Claim], loss: float
) -> pd.DataFrame:
    """Return values per query of all systems that claims need, see `on_one_data_set`."""
    entity = draw.integers(0, N_ENTITIES, N_QUERIES)  # of each query
    ease_of_entity = 1 + SPREAD["entity"] * draw.uniform(-UNIFORM, UNIFORM, N_ENTITIES)
    levels = {"seed": range(N_TRAININGS), "regime": REGIMES, "query_id": range(N_QUERIES)}
    index = pd.MultiIndex.from_product(levels.values(), names=levels)
    parts = []
    for model, protocol, measure in _needed(claims):
        loss_of_model = loss if model == "SPLADE" else 0.0
        values = _values_of_system(draw, loss_of_model, ease_of_entity[entity])
        part = pd.DataFrame({"value": values}, index).reset_index()
        parts.append(part.assign(model=model, protocol=protocol, measure=measure))
    values = pd.concat(parts, ignore_index=True)
    values["unit"] = entity[values["query_id"]]
    return values


def _values_of_system(draw: np.random.Generator, loss: float, ease: np.ndarray) -> np.ndarray:
    """Return RR@10 of a system, float[n_trainings × 2 × n_queries]; `ease` is of each query."""
    noise = draw.standard_normal((N_TRAININGS, 2))
    trained = np.array([1.0, 1 - loss]) * (1 + SPREAD["training"] * noise)
    # one luck for all trainings and sides
    chances = FOUND * trained.reshape(-1, 1) * ease
    return reciprocal_ranks(draw, np.clip(chances, 0, 1)).ravel()


def _needed(claims: Sequence[Claim]) -> list[tuple[str, str, str]]:
    """Return (model, protocol, measure) of the rows that claims are about."""
    needed = set()
    for claim in claims:
        for _, term in claim.terms():
            needed.add((term["model"], term["protocol"], claim.measure))
    return sorted(needed)


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
    holds = splade["verdict"].eq("holds").mean()
    rows = [
        Rate("one data set, effect 0: notebooks with a wrong verdict", wrong, "at most 0.05"),
        Rate("one data set, effect that is said to be found with 0.80: holds", holds, "0.800"),
    ]
    return pd.DataFrame(rows)


def _of_splade(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the claim about SPLADE's loss."""
    return rows[rows["claim"] == "resttest-splade"]


def pairs(
    draw: np.random.Generator, chances: tuple[float, float], shared: float, n: int
) -> np.ndarray:
    """Return RR@10 float[n, 2] of n queries on two sides, see POPULATIONS."""
    is_shared = draw.random((n, 1)) < shared
    luck = draw.random((n, 2))
    ranks = _ranks(draw, (n, 2))
    luck = np.where(is_shared, luck[:, :1], luck)
    ranks = np.where(is_shared, ranks[:, :1], ranks)
    return (luck < np.array(chances)) / ranks


def missed(
    n: int, chances: tuple[float, float], shared: float, n_simulated: int, n_boot: int = 1000
) -> dict[str, float]:
    """Return how often the interval of each effect of n queries misses the true one.

    Of plain resamples, and as `stats.effects` stretches them; no interval misses nothing.
    """
    draw = np.random.default_rng(n)
    true_means = pairs(np.random.default_rng(0), chances, shared, 2_000_000).mean(axis=0)
    n_missed: Counter[str] = Counter()
    for number in range(n_simulated):
        values = pairs(draw, chances, shared, n)
        [means] = resampled_means([values], np.arange(n), number, n_boot)
        for effect in EFFECTS:
            effect_of = KINDS[effect]
            true = float(effect_of(*true_means))
            estimate = float(effect_of(*values.mean(axis=0)))
            plain = effect_of(*means.T)
            wider = estimate + np.sqrt(n / (n - 1)) * (plain - estimate)
            n_missed[f"{effect}, plain"] += _misses(plain, true)
            n_missed[f"{effect}, stretched"] += _misses(stretched(wider, estimate, n - 1), true)
    return {name: count / n_simulated for name, count in n_missed.items()}


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


def main(n: int) -> None:
    """Print both tables, of n notebooks and n intervals a row."""
    print(few_units(n).round(4).to_string(index=False))
    table = pd.concat([rates(n, more=4), rates_on_one_data_set(n // 10)])
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""Are the verdicts over worlds as sure as they say? Notebooks are simulated whose true effects are
known.

A notebook here is the claims of 05 in fourteen worlds. Its data come from a hierarchical model, not
from the kit's own resampling: a world, two trainings a claim, entities, queries, and reciprocal
ranks many of which are 0. A claim's estimate is the relative change between the sides, with a true
value given; the lead over BM25 is measured on queries of its own. What judges them is what judges
the committed results: `judgement.over_worlds`, and `judgement.concluded` on one data set.

`few_units`: how often the interval of an effect misses it, by the number of queries that are
resampled.
"""

import sys

import numpy as np
import pandas as pd
from scipy import stats

from interextra.claims.claim import Claim, answered, of_notebook
from interextra.claims.judgement import concluded, over_worlds
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import interval, resampled_means, stretched
from interextra.stats.effects import KINDS, effects

NOTEBOOK, N_WORLDS = "05_architecture_comparison", 14
N_QUERIES, N_ENTITIES = 400, 80  # of each world
N_TRAININGS = 5  # of each system on one data set, as many as ReSTTest has folds
FOUND = 0.6  # share of the queries whose passage is among the first ten, in domain
SPREAD = {"world": 0.025, "effect": 0.02, "training": 0.02, "entity": 0.2}  # standard deviations
RANKS = 0.5 ** np.arange(1, 11) / (1 - 0.5**10)  # of the passage, where it is found
PAIRED = 0.85  # share of the queries that are as easy on one side as on the other
LEAD = 0.05  # over BM25, of systems that beat it
DECIDED = ("holds", "contradicted")
FEW = (3, 5, 8, 10, 12, 20, 40, 100, 400)  # queries
# Chances that a query's passage is found, by side, and that both sides share the rank of a query
POPULATIONS = {
    "no effect, half of the pairs alike": ((0.6, 0.6), 0.35),
    "no effect, three quarters alike": ((0.6, 0.6), 0.65),
    "no effect, few zeros": ((0.8, 0.8), 0.35),
    "a loss, half of the pairs alike": ((0.6, 0.5), 0.35),
}


def reciprocal_ranks(draw: np.random.Generator, found: np.ndarray) -> np.ndarray:
    """RR@10 float[..., n_queries] of queries whose passage is found with these probabilities,
    paired along axis -2.

    Both sides of a pair share the rank of a query, and mostly whether it is found.
    """
    pairs, shared = found.shape, (*found.shape[:-2], 1, found.shape[-1])
    luck = np.where(draw.random(shared) < PAIRED, draw.random(shared), draw.random(pairs))
    rank = np.searchsorted(np.cumsum(RANKS)[:-1], draw.random(shared)) + 1
    return (luck < found) / rank


def notebook(
    draw: np.random.Generator, true: np.ndarray, lead: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, their bias and leads float[n_worlds, n_claims] of a notebook whose effects and
    lead are truly these.

    The bias of a ratio is what resampling its entities finds of it, here to the second order.
    """
    shape = (N_WORLDS, len(true), 2)
    of_world = 1 + SPREAD["world"] * draw.standard_normal((N_WORLDS, 1, 1))
    effects = true + SPREAD["effect"] * draw.standard_normal((N_WORLDS, len(true)))
    entities = 1 + SPREAD["entity"] * draw.uniform(
        -1.7, 1.7, (N_WORLDS, 1, 1, N_ENTITIES)
    )  # their deviation is 1

    def measured(factor: np.ndarray) -> np.ndarray:
        """Sums of RR@10 float[n_worlds, n_claims, 2, n_entities]; chances are of training, world
        and entity.
        """
        trained = factor * of_world * (1 + SPREAD["training"] * draw.standard_normal(shape))
        entity = draw.integers(0, N_ENTITIES, N_QUERIES)
        found = reciprocal_ranks(
            draw, np.clip(FOUND * trained[..., None] * entities[..., entity], 0, 1)
        )
        return found @ (entity[:, None] == np.arange(N_ENTITIES))

    # The noise of trainings in a denominator raises the expected relative change by its variance:
    # taken out again.
    in_and_out = np.stack(
        [np.ones_like(effects), (1 + effects) / (1 + SPREAD["training"] ** 2)], axis=-1
    )
    sums = measured(in_and_out)
    (inside, out), apart = (
        (sums.mean(axis=-1)[..., side] for side in (0, 1)),
        sums - sums.mean(axis=-1, keepdims=True),
    )
    varied = (apart * apart[..., :1, :]).mean(
        axis=-1
    ) / N_ENTITIES  # of the first side, with the second
    bias = out / inside * (varied[..., 0] / inside**2 - varied[..., 1] / (inside * out))
    beside = np.array(
        [1.0, 1 - lead / (FOUND * (RANKS / np.arange(1, 11)).sum())]
    )  # the model, and BM25
    ahead = measured(np.broadcast_to(beside, shape)).sum(axis=-1) / N_QUERIES
    return out / inside - 1, bias, ahead[..., 0] - ahead[..., 1]


def judged(claims: list[Claim], true: np.ndarray, lead: float, n: int, seed: int) -> pd.DataFrame:
    """The rows of `over_worlds` of n notebooks, with the number of the notebook."""
    rows, draw = [], np.random.default_rng(seed)
    names = [claim.name for claim in claims]
    for at in range(n):
        estimates, biases, leads = notebook(draw, true, lead)
        worlds = [
            pd.DataFrame(
                {"claim": names, "estimate": estimate, "bias": bias, "n_queries": N_QUERIES}
            )
            for estimate, bias in zip(estimates, biases, strict=True)
        ]
        gates = [pd.DataFrame({"claim": names, "system": names, "lead": ahead}) for ahead in leads]
        rows.append(over_worlds(worlds, gates).assign(notebook=at))
    return pd.concat(rows, ignore_index=True)


def rates(n: int, seed: int = 1, more: int = 1) -> pd.DataFrame:
    """How often verdicts are wrong, and how often an effect is found: DataFrame[what, share,
    should_be].

    `more`: times as many notebooks at the margin, where a rate is as high as its bound by
    construction.
    """
    claims = [claim for claim in of_notebook(NOTEBOOK) if not claim.secondary]
    towards = np.array([1.0 if claim.asks == "above" else -1.0 for claim in claims])
    margins = np.array([claim.margin for claim in claims])
    sizes = np.abs([claim.published for claim in claims])
    directed = [claim.name for claim in claims if claim.asks != "equal"]
    rows = []

    none = judged(claims, 0 * towards, LEAD, n, seed)
    wrong = none["verdict"].eq("contradicted") | (
        none["verdict"].eq("holds") & none["claim"].isin(directed)
    )
    wrong = wrong.groupby(none["notebook"]).any().mean()
    rows.append(("effect 0: notebooks with a wrong verdict", wrong, "at most 0.05"))

    edge = judged(claims, towards * margins, LEAD, n * more, seed + 1)
    for name, within in (edge["size"] != "").groupby(edge["claim"], sort=False).mean().items():
        rows.append((f"effect at the margin, {name}: called within it", within, "at most 0.05"))

    shut = judged(claims, towards * sizes, 0.0, n, seed + 2)
    opened = shut["verdict"].isin(DECIDED).groupby(shut["claim"]).mean().max()
    rows.append(("published effect, lead 0: decided, most of a claim", opened, "at most 0.05"))

    critical = stats.t.ppf(1 - 0.025 / len(claims), N_WORLDS - 1)
    true = sizes
    for what in ("published effect", "effect that is said to be found with 0.80"):
        found = judged(claims, towards * true, LEAD, n, seed + 3)
        for claim, size in zip(claims, true, strict=True):
            if claim.asks == "equal":
                continue
            mine = found[found["claim"] == claim.name]
            error = (mine["high"] - mine["low"]).mean() / 2 / critical
            printed = stats.nct.sf(critical, N_WORLDS - 1, size / error)
            rows.append(
                (
                    f"{what}, {claim.name}: holds",
                    mine["verdict"].eq("holds").mean(),
                    f"{printed:.3f}",
                )
            )
        true = (
            found.groupby("claim")["resolution"].mean()[[claim.name for claim in claims]].to_numpy()
        )
    return pd.DataFrame(rows, columns=["what", "share", "should_be"])


def on_one_data_set(n: int, loss: float, seed: int = 1, n_boot: int = 1000) -> pd.DataFrame:
    """Rows of `judgement.concluded` of n notebooks on one data set: SPLADE truly loses this, no
    other system anything.

    The resampling of queries and the noise of trainings are the kit's (`effects`).
    """
    claims, draw, rows = of_notebook(NOTEBOOK), np.random.default_rng(seed), []
    used = {
        (term["model"], term["protocol"], claim.measure)
        for claim in claims
        for _, term in claim.terms()
    }
    for at in range(n):
        entity = draw.integers(0, N_ENTITIES, N_QUERIES)
        ease = 1 + SPREAD["entity"] * draw.uniform(-1.7, 1.7, N_ENTITIES)[entity]
        parts = []
        for model, protocol, measure in sorted(used):
            factor = np.array([1.0, 1 - loss * (model == "SPLADE")])
            trained = factor * (
                1 + SPREAD["training"] * draw.standard_normal((N_TRAININGS, 2))
            )  # [trainings, sides]
            found = reciprocal_ranks(
                draw, np.clip(FOUND * trained.reshape(-1, 1) * ease, 0, 1)
            )  # one luck for all
            levels = {"seed": range(N_TRAININGS), "regime": REGIMES, "query_id": range(N_QUERIES)}
            index = pd.MultiIndex.from_product(levels.values(), names=levels)
            of = {"model": model, "protocol": protocol, "measure": measure}
            parts.append(pd.DataFrame({"value": found.ravel()}, index).reset_index().assign(**of))
        values = pd.concat(parts, ignore_index=True)
        values["unit"] = entity[values["query_id"]]
        labels = ["model", "protocol", "measure"]
        table = effects(values, labels, "regime", REGIMES, "delta", seed=at, n_boot=n_boot)
        ahead = table[labels].assign(lead=LEAD, lead_low=LEAD)
        rows.append(concluded(answered(claims, [table], ahead)).assign(notebook=at))
    return pd.concat(rows, ignore_index=True)


def rates_on_one_data_set(n: int, seed: int = 1) -> pd.DataFrame:
    """As `rates`, where queries and trainings are resampled instead of worlds."""
    none = on_one_data_set(n, 0.0, seed)
    none = none[none["verdict"] != ""]
    directed = [claim.name for claim in of_notebook(NOTEBOOK) if claim.asks != "equal"]
    wrong = none["verdict"].eq("contradicted") | (
        none["verdict"].eq("holds") & none["claim"].isin(directed)
    )
    rows = [
        (
            "one data set, effect 0: notebooks with a wrong verdict",
            wrong.groupby(none["notebook"]).any().mean(),
        )
    ]
    judged_rows = none
    for step in (
        1,
        2,
    ):  # an effect changes the noise: what is said is read where this effect is true
        splade = judged_rows[judged_rows["claim"] == "resttest-splade"]
        judged_rows = on_one_data_set(n, splade["resolution"].mean(), seed + step)
    found = judged_rows.loc[judged_rows["claim"] == "resttest-splade", "verdict"].eq("holds").mean()
    rows.append(("one data set, effect that is said to be found with 0.80: holds", found))
    return pd.DataFrame(rows, columns=["what", "share"]).assign(should_be=["at most 0.05", "0.800"])


def pairs(
    draw: np.random.Generator, found: tuple[float, float], shared: float, n: int
) -> np.ndarray:
    """RR@10 float[n, 2] of n queries on two sides, see POPULATIONS."""
    alike = draw.random((n, 1)) < shared
    luck, rank = (
        draw.random((n, 2)),
        np.searchsorted(np.cumsum(RANKS)[:-1], draw.random((n, 2))) + 1,
    )
    luck, rank = (np.where(alike, each[:, :1], each) for each in (luck, rank))
    return (luck < np.array(found)) / rank


def missed(
    n: int, found: tuple[float, float], shared: float, n_simulated: int, n_boot: int = 1000
) -> dict[str, float]:
    """How often the interval of each effect of n queries misses the true one; without one it misses
    nothing.

    Of plain resamples, and as `stats.bootstrap` stretches them.
    """
    draw = np.random.default_rng(n)
    truth = pairs(np.random.default_rng(0), found, shared, 2_000_000).mean(axis=0)
    errors = {
        f"{effect}, {how}": 0
        for effect in ("difference", "delta")
        for how in ("plain", "stretched")
    }
    for at in range(n_simulated):
        values = pairs(draw, found, shared, n)
        [means] = resampled_means([values], np.arange(n), at, n_boot)
        for effect in ("difference", "delta"):
            true, estimate = (float(KINDS[effect](*side)) for side in (truth, values.mean(axis=0)))
            plain = KINDS[effect](*means.T)
            wider = stretched(estimate + np.sqrt(n / (n - 1)) * (plain - estimate), estimate, n - 1)
            for how, draws in (("plain", plain), ("stretched", wider)):
                low, high = interval(draws)
                errors[f"{effect}, {how}"] += true < low or true > high
    return {name: count / n_simulated for name, count in errors.items()}


def few_units(n_simulated: int) -> pd.DataFrame:
    """A row a population and number of queries, a column an effect and rule: share of intervals
    that miss it.
    """
    rows = [
        {"population": name, "queries": n} | missed(n, *population, n_simulated)
        for name, population in POPULATIONS.items()
        for n in FEW
    ]
    return pd.DataFrame(rows)


if __name__ == "__main__":
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(few_units(n).round(4).to_string(index=False))
    print(
        pd.concat([rates(n, more=4), rates_on_one_data_set(n // 10)])
        .round(4)
        .to_string(index=False)
    )

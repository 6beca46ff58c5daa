"""How often `finished` finds a larger lead on near queries, where there is one and where not.

Worlds of 400 test queries, whose difficulty is a number; ranks grow with it. Takes eight minutes. Run:
python bench/finished_model.py [--small]
"""

import itertools
import sys

import numpy as np
import pandas as pd

from interextra.data.runs import RunFile
from interextra.own.audit import Side
from interextra.own.finished import Finished, finished
from interextra.own.finished_sentences import COPIES, LARGER, NEAR_HALF
from interextra.own.run_files import run_of_hits
from interextra.stats.effects import effects

N_WORLDS = 60
N_QUERIES = 400
DEPTH = 10
N_STRATA = 5
N_BOOT = 200
# how difficulty acts on the model, and on BM25
SLOPES = {
    "alike": (1.0, 1.0),
    "on BM25 alone": (0.0, 1.2),
    "more on BM25": (0.5, 1.2),
    "more on the model": (1.2, 0.5),
}
HARDER = {"near easier": -0.8, "same": 0.0, "near harder": 0.8}
GAIN = 0.6  # of the logarithm of the ranks, on near queries
# gain of the model, how difficulty acts, whether near queries are harder
CASES = [
    *itertools.product([0.0], SLOPES, ["near easier", "near harder"]),
    *itertools.product([GAIN], ["alike"], HARDER),
]


def sides(n: int, n_copies: int = 0) -> tuple[Side, Side]:
    """Training queries, and test queries of which each second one has most words of one of them."""
    train, test = [], []
    for number in range(n):
        words = [f"{letter}{number}" for letter in "abcdef"]
        train.append(" ".join(words))
        if number < n_copies:
            test.append(train[-1].upper())
        elif number % 2 == 0:
            test.append(" ".join([*words[:4], f"g{number}", f"h{number}"]))
        else:
            test.append(" ".join(f"{letter}{number}" for letter in "uvwxyz"))
    ids = [f"q{number}" for number in range(n)]
    doc_ids = [f"d{number}" for number in range(n)]
    qrels = pd.DataFrame({"query_id": ids, "doc_id": doc_ids, "relevance": 1})
    queries = [pd.DataFrame({"query_id": ids, "text": texts}) for texts in (train, test)]
    return Side("train", queries[0], None), Side("test", queries[1], qrels)


def runs(
    seed: int, harder: float, gain: float = 0.0, slopes: tuple = (1.0, 1.0), n: int = N_QUERIES
) -> dict[str, RunFile]:
    """Runs of a model, BM25, and a control of the model's kind.

    harder : by how much near queries are.
    gain : of the model on near queries.
    slopes : how difficulty acts on the model and the control, and on BM25.
    """
    draw = np.random.default_rng(seed)
    is_near = np.arange(n) % 2 == 0
    difficulty = 1.2 * draw.normal(size=n) + harder * is_near
    dense = slopes[0] * difficulty + 0.8 * draw.normal(size=n)
    levels = {
        "model": 0.8 + dense - gain * is_near,
        "BM25": 1.6 + slopes[1] * difficulty,
        "control": 1.1 + dense,
    }
    return {name: _run(level + 1.2 * draw.normal(size=n)) for name, level in levels.items()}


def _run(log_ranks: np.ndarray) -> RunFile:
    """A run with the relevant passage of each query at its rank, if that is within DEPTH."""
    ranks = np.exp(np.clip(log_ranks, 0, 4)).astype(int)
    hits = {}
    for number, rank in enumerate(ranks.tolist()):
        doc_ids = [f"other{place}" for place in range(DEPTH)]
        doc_ids.insert(rank - 1, f"d{number}")
        hits[f"q{number}"] = {doc_id: -place for place, doc_id in enumerate(doc_ids[:DEPTH])}
    return run_of_hits(hits)


def within_strata(found: Finished, rival: str, seed: int) -> bool:
    """Whether the lead is larger on near queries among those on which the rival has one value."""
    table = found.queries[found.queries["queries"] != COPIES]
    shuffled = table.sample(frac=1, random_state=seed)
    of_rival = shuffled[f"nDCG@10 {rival}"]
    stratum = of_rival.rank(method="first", pct=True).mul(N_STRATA).apply(np.ceil)
    values = shuffled.assign(
        value=shuffled["nDCG@10 model"] - of_rival,
        stratum=stratum,
        measure="nDCG@10",
        is_near=shuffled["queries"] == NEAR_HALF,
    )
    means = effects(values, ["measure", "is_near"], strata="stratum", n_boot=N_BOOT)
    return means.contrast("is_near", [(True, False)])["low"].item() > 0


def found_of(seed: int, compared: tuple[Side, Side], **world: float | tuple) -> dict[str, bool]:
    """Which comparisons show a larger lead of the model on near queries in a world."""
    systems = runs(seed, **world)
    model = {"model": systems.pop("model")}
    found = finished(*compared, model, systems, "control", encoder="tf-idf", n_boot=N_BOOT)
    of_model = found.differences[found.differences["system"] == "model"].set_index("rival")
    return {
        "BM25, plain": of_model.loc["BM25", "low"] > 0,
        "BM25, the rule": of_model.loc["BM25", "verdict"] == LARGER,
        "control": of_model.loc["control", "verdict"] == LARGER,
        "BM25, strata of its value": within_strata(found, "BM25", seed),
    }


def shares(n_worlds: int, cases: list[tuple[float, str, str]] = CASES) -> pd.DataFrame:
    """The share of worlds in which each comparison shows a larger lead, in percent."""
    compared = sides(N_QUERIES)
    rows = []
    for gain, slopes, harder in cases:
        world = {"harder": HARDER[harder], "gain": gain, "slopes": SLOPES[slopes]}
        shown = pd.DataFrame([found_of(seed, compared, **world) for seed in range(n_worlds)])
        labels = {"gain": gain, "difficulty acts": slopes, "near queries": harder}
        rows.append(labels | (100 * shown.mean()).to_dict())
    return pd.DataFrame(rows)


if __name__ == "__main__":
    n_worlds = 2 if sys.argv[1:2] == ["--small"] else N_WORLDS
    print(f"{n_worlds} worlds of {N_QUERIES} test queries; % that show a larger lead")
    print(shares(n_worlds).to_string(index=False, float_format="%.0f"))

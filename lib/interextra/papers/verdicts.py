"""Claims as `claims.yaml` states them: answered from tables of effects, and judged, direction and size apart.

Direction: the interval of a claim lies on the side of 0 that the claim names (*holds*), on the other one
(*contradicted*), or on both (*undecided*). Size: two one-sided tests (TOST at 5 %) place the effect within the margin
(*no difference beyond the margin*) or not. A claim that asks for equality holds by its size. Intervals of a family, the
primary claims of a notebook, are simultaneous. The unit is a query and its trainings, or a world.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel
from scipy import special, stats

from interextra.ground.correlation import fisher_z
from interextra.ground.effects import DRAWS, Effects, across, detectable, effects, interval, simultaneous, spelled
from interextra.ground.errors import InputError, offenders
from interextra.models.bm25 import LABEL as BM25

FILE = Path(__file__).with_name("claims.yaml")
ANSWERS = Path(__file__).with_name("answers.yaml")
SIDES = {"effect": "effect", "in domain": "first", "out of domain": "second"}
DATA = {"MedQuAD": "small", "worlds": "worlds"}  # profiles whose reference decides claims
PLACES = {"MedQuAD": "on real data", "worlds": "in the worlds"}
# Real data by notebook or claim; else MedQuAD
REAL = {"01_overlap_annotation_analysis": "MS MARCO", "11_pool_bias": "TREC DL", "finished-near": "TREC DL"}
REAL |= {"predicted-by-declared": "published models"}
NAMED = {"worlds": "fourteen worlds", "here": "this run"}  # columns of a page
# First words of a conclusion → the entry of answers.yaml that answers the title.
ANSWER_TO = {"depends|no difference.*(replicated|supported)": "depends", "no difference": "equal"}
ANSWER_TO |= {"replicated": "holds", "supported": "holds", "contradicted": "contradicted"}
MAIN = {"negative_passages": "all", "average": "micro"}  # of labels that a claim does not name
JUDGED = ["verdict", "size", "reason", "resolution"]
WITHIN = "no difference beyond the margin"
# Student's one-sided test at 5 % errs in 5.0 to 5.3 % of simulated notebooks (`tools/simulation.py`), as estimates of
# worlds are slightly skewed; this is the highest level, to a tenth of a percent, at which it errs in at most 5 %.
LEVEL_OVER_WORLDS = 0.047
UNJUDGED = "not judged"
GATE = "gate: not shown to beat BM25 in domain"
UNMEASURED = "gate: no lead over BM25 was measured"
ONE = {"models": "model", "queries": "query", "trainings": "training run", "worlds": "world"}
MANY = {"trainings": "training runs"}  # where it has another name than the column of its number
REASONS = {name: f"too few {MANY.get(name, name)}" for name in ("queries", "worlds", "models", "clusters", "trainings")}
REASONS |= {GATE: "a system is not shown to beat BM25 in domain", UNMEASURED: "no lead over BM25 was measured"}
COUNTS = ["n_models", "n_queries", "n_trainings"]
DRAWN = "drawn_units"  # column of a table whose draws are not of queries: models, clusters
ANSWERED = ["claim", "estimate", "low", "high", "bias", "lead", "lead_low", *COUNTS, "noise", "systems"]
DERIVED = ("p_value", "p_holm", "sd_trainings", "published", "verdict")  # columns of one world only
GATED = {"model", "regime"}  # labels of what must beat BM25 in domain
SYSTEMS = "systems"  # column of `answered`: what a claim's systems are ahead of BM25, a frame [system, lead, lead_low]
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
    known: tuple[str, ...]
    gate: bool = True
    secondary: bool = False

    def terms(self) -> Iterator[tuple[int, dict | float]]:
        """(sign, labels of rows whose mean is taken, or a number), which add up to the estimate."""
        for sign, name in ((1, "plus"), (-1, "minus")):
            part = self.rows.get(name, [])
            yield from ((sign, term) for term in (part if isinstance(part, list) else [part]))

    @property
    def is_gated(self) -> bool:
        """Whether it speaks of a system that must beat BM25 first."""
        named = [term for _, term in self.terms() if isinstance(term, dict) and GATED & term.keys()]
        return self.gate and any(term.get("model") != BM25 for term in named)

    @property
    def unit(self) -> str:
        """Of the estimate, as `spelled` takes it: % of a change, points of a difference, none of a correlation."""
        if self.statistic or self.measure.endswith("correlation"):
            return ""
        return "%" if self.side == "effect" and "minus" not in self.rows else "points"

    @property
    def statistic(self) -> str:
        """Before the measure, where the estimate is a correlation: its name."""
        named = (term for _, term in self.terms() if isinstance(term, dict))
        return next((f"{term[key]}, " for term in named for key in ("statistic", "method") if key in term), "")

    @property
    def asked(self) -> float:
        """The effect that a design should find: the published one; the margin without one, or for equality."""
        return self.margin if self.asks == "equal" or np.isnan(self.published) else abs(self.published)


@lru_cache
def stated() -> dict[str, Claim]:
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


def leads(values: pd.DataFrame, by: Sequence[str], seed: int, n_boot: int) -> pd.DataFrame:
    """What each system is ahead of BM25 in domain: the gate, on queries that measure no loss.

    `values`: of models in domain, on the queries of the gate. Returns *by, model, lead, lead_low; empty without values.
    """
    if values.empty:
        return pd.DataFrame(columns=[*by, "model", "lead", "lead_low"])
    means = effects(values, [*by, "model"], seed=seed, n_boot=n_boot)
    ahead = means.contrast("model", [(model, BM25) for model in means["model"].unique() if model != BM25])
    named = {"first": "model", "difference": "lead", "low": "lead_low"}
    return pd.DataFrame(ahead).rename(columns=named)[[*by, "model", "lead", "lead_low"]]


def answered(claims: Sequence[Claim], tables: Sequence[Effects], ahead: pd.DataFrame) -> Effects:
    """The estimate of each claim that the rows of some tables can answer, with its draws.

    `tables`: effects (negative is a loss) with labels that claims name, the first that has them. `ahead`: of `leads`.

    Returns Effects[claim, estimate, low, high, bias, lead, lead_low, n_models, n_queries, n_trainings, noise, systems]:
    counts are the smallest of the rows, where they have them; low and high are plain 95 % intervals; bias is Efron's
    estimate, what the draws exceed the estimate by, as a ratio of means does; lead is that of the weakest system that
    the claim names, NaN for BM25 alone; noise: what most of the variance is of, queries, trainings or what the table
    says in DRAWN; systems: see `gate`. InputError: a claim whose labels fit several rows.
    """
    rows, drawn = [], []
    for claim in claims:
        terms = [(sign, term) for sign, term in claim.terms() if not isinstance(term, float)]
        constant = sum(sign * term for sign, term in claim.terms() if isinstance(term, float))
        used = [(sign, SIDES[term.get("side", claim.side)], _rows(claim, term, tables)) for sign, term in terms]
        if any(part is None for *_, part in used):
            continue  # not asked in this profile
        draws = constant + sum(sign * part.drawn(side).mean(axis=0) for sign, side, part in used)
        means = [sign * part[part[DRAWS].iloc[0].columns[side]].mean() for sign, side, part in used]
        every = pd.concat([part for *_, part in used])
        systems = _ahead(every, ahead)
        weakest = [systems[name].min(skipna=False) for name in ("lead", "lead_low")]
        counts = [every[name].min() if name in every else np.nan for name in COUNTS]
        noise = "trainings" if _of_trainings(used, draws) > 0.5 else every.get(DRAWN, pd.Series(["queries"])).iloc[0]
        ends, estimate = interval(draws), constant + sum(means)
        rows.append((claim.name, estimate, *ends, draws.mean() - estimate, *weakest, *counts, noise, systems))
        drawn.append(draws)
    table = pd.DataFrame(rows, columns=ANSWERED)
    unknown = [name for name in COUNTS if table[name].isna().all()]
    return Effects.of(table.drop(columns=unknown), ["claim"], ["estimate"], drawn)


def _rows(claim: Claim, labels: Mapping[str, Any], tables: Sequence[Effects]) -> Effects | None:
    """The rows of the first table that has the labels, one a combination of them."""
    wanted = {name: value if isinstance(value, list) else [value] for name, value in labels.items() if name != "side"}
    wanted["measure"] = [claim.measure]
    for table in (table for table in tables if wanted.keys() <= set(table)):
        found = table[np.logical_and.reduce([table[name].isin(values) for name, values in wanted.items()])]
        for name, value in MAIN.items():
            found = found[found[name] == value] if name in found and name not in wanted else found
        if "n_train" in found and "n_train" not in wanted:
            found = found[found["n_train"] == found["n_train"].max()]
        if found.duplicated(list(wanted)).any():
            raise InputError(f"claim {claim.name}: {offenders(map(str, wanted.items()))} fits {len(found)} rows")
        if len(found) == np.prod([len(values) for values in wanted.values()]):
            return found
    return None


def _ahead(rows: pd.DataFrame, ahead: pd.DataFrame) -> pd.DataFrame:
    """What each system of some rows is ahead of BM25: system, lead, lead_low; NaN where that was not measured."""
    shared = [name for name in ahead.columns if name in rows]
    systems = (rows[rows["model"] != BM25] if "model" in rows else rows)[shared].drop_duplicates()
    if systems.empty or not GATED & set(shared):
        return pd.DataFrame(columns=["system", "lead", "lead_low"], dtype=float)
    named = systems.astype(str).agg(", ".join, axis=1).to_numpy()
    return systems.merge(ahead, on=shared, how="left").assign(system=named)[["system", "lead", "lead_low"]]


def gate(answers: pd.DataFrame) -> pd.DataFrame:
    """The leads over BM25 in domain behind the claims of `answered`: claim, system, lead, lead_low."""
    parts = [row[SYSTEMS].assign(claim=row["claim"]) for _, row in answers.iterrows()]
    return pd.concat(parts or [pd.DataFrame()]).reindex(columns=["claim", "system", "lead", "lead_low"])


def _of_trainings(used: Sequence[tuple[int, str, Effects]], draws: np.ndarray) -> float:
    """Share of the variance of an estimate that is of trainings: of relative changes to the first order."""
    variance = 0.0
    for _, side, part in used:
        if "sd_trainings" not in part:  # a correlation over queries, of means over trainings
            continue
        names = part[DRAWS].iloc[0].columns
        is_change = side == "effect" and names["first"] != names["effect"]
        scale = (1 + (1 + part[names["effect"]]) ** 2) / part[names["first"]] ** 2 if is_change else 1.0
        variance += (part["sd_trainings"].fillna(0.0) ** 2 / part["n_trainings"] * scale).sum() / len(part) ** 2
    return min(1.0, variance / draws.var()) if draws.var() else 0.0


def concluded(answers: Effects, own: Sequence[Claim] = ()) -> pd.DataFrame:
    """The claims judged, with simultaneous 95 % intervals of the primary ones; a secondary one has no verdict.

    Adds verdict, size, reason and resolution (smallest effect found with 80 % power). `own`: claims not in the file.
    """
    known = stated() | {claim.name: claim for claim in own}
    claims = [known[name] for name in answers["claim"]]
    draws = answers.drawn() if claims else np.empty((0, 1))
    primary = np.array([not claim.secondary for claim in claims], bool)
    estimates, low, high = (answers[name].to_numpy(float, copy=True) for name in ("estimate", "low", "high"))
    bounded = np.array([not claim.unit and "minus" not in claim.rows for claim in claims], bool)  # correlations
    if primary.any():  # by Fisher's z, so that no interval of a correlation reaches beyond 1
        scaled = [np.where(bounded, fisher_z(one.T), one.T).T for one in (estimates, draws)]
        ends = simultaneous(scaled[0][primary], scaled[1][primary])
        low[primary], high[primary] = (np.where(bounded[primary], np.tanh(end), end) for end in ends)
    tested = [interval(row, 0.9) for row in draws]
    made = pd.DataFrame(answers).drop(columns=[DRAWS, "bias", "noise", SYSTEMS]).assign(low=low, high=high)
    return _judged(made.assign(resolution=detectable(low, high, draws.std(axis=1))), tested, answers["noise"], known)


def on_rows(frame: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Effects with claim_low and claim_high: the interval in a table of `concluded` of the primary claim on a row."""
    frame = frame.assign(claim_low=np.nan, claim_high=np.nan)
    for row in made.to_dict("records"):
        claim = stated()[row["claim"]]
        labels = [labels for _, labels in claim.terms()]
        found = _rows(claim, labels[0], [frame]) if len(labels) == 1 and claim.side == "effect" else None
        if found is not None and len(found) == 1 and not claim.secondary:
            frame.loc[found.index, ["claim_low", "claim_high"]] = row["low"], row["high"]
    return frame


def in_one_world(answers: Effects) -> pd.DataFrame:
    """As of `concluded`, in a single generated world, which decides nothing: plain intervals, bias, no verdict."""
    return concluded(answers).assign(**answers[["low", "high", "bias"]], verdict="", size="", reason="one world")


def over_worlds(worlds: Sequence[pd.DataFrame], gates: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The claims judged over worlds, with Student's intervals, from the tables `in_one_world` and `gate` of each.

    The mean of a claim's estimates less their bias (0 where it is undefined), simultaneous over the primary claims by
    Bonferroni's correction. A world's estimate holds the noise of its queries and trainings. A system's lead is pooled
    over the worlds before the weakest is taken. The columns of `concluded`, with n_worlds for n_trainings.
    """
    every, n = pd.concat(worlds, ignore_index=True), len(worlds)
    every = every.assign(estimate=every["estimate"] - every["bias"].fillna(0.0)).groupby("claim", sort=False)
    of = {"estimate": ("estimate", "mean"), "error": ("estimate", "sem")}
    found = every.agg(**of, n_queries=("n_queries", "sum"), n_worlds=("estimate", "size")).query("n_worlds == @n")
    primary = np.array([not stated()[name].secondary for name in found.index], bool)
    estimate, error, tests = found["estimate"], found["error"], np.where(primary, primary.sum(), 1)
    critical = stats.t.ppf(1 - 0.025 / tests, n - 1)
    reach, inner = critical * error, stats.t.ppf(1 - LEVEL_OVER_WORLDS, n - 1) * error
    needed = special.nctdtrinc(n - 1, 0.2, critical) * error  # Student's test finds it with 80 % power
    of_world = pd.concat(gates, keys=range(n), names=["world"]).reset_index("world")
    leads = across(of_world, "world", ["claim", "system"], "lead").rename(columns={"low": "lead_low"})
    leads.loc[leads["n"] < n, ["lead", "lead_low"]] = np.nan  # not measured in every world
    weakest = leads.groupby("claim")[["lead", "lead_low"]].agg(lambda part: part.min(skipna=False))
    made = found.assign(low=estimate - reach, high=estimate + reach, resolution=needed).join(weakest).reset_index()
    columns = ["claim", "estimate", "low", "high", "lead", "lead_low", "n_queries", "n_worlds", "resolution"]
    tested = zip(estimate - inner, estimate + inner, strict=True)
    return _judged(made[columns], tested, ["worlds"] * len(found), stated())


def pooled(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """One table of the tables of several worlds, of those with an effect and its interval; empty for others.

    The effect is the column before `low`; labels are columns of words, and of numbers that the worlds share. Returns
    labels, the effect, low, high (Student's, plain 95 %), least, most, n of the rows of every world.

    >>> table = pd.DataFrame({"model": ["a"], "loss": [0.2], "low": [0.1], "high": [0.3], "n_queries": [9]})
    >>> pooled([table, table.assign(loss=0.4)])[["model", "loss", "least", "most", "n"]].values.tolist()
    [['a', 0.30000000000000004, 0.2, 0.4, 2]]
    """
    if not all({"low", "high"} <= set(frame) for frame in frames):
        return pd.DataFrame()
    effect = frames[0].columns[frames[0].columns.get_loc("low") - 1]
    every = pd.concat([frame.assign(world=world) for world, frame in enumerate(frames)], ignore_index=True)
    measured = {effect, "low", "high", "n_queries", "n_trainings", *DERIVED}
    labels = [name for name in frames[0] if name not in measured and _tells_apart([frame[name] for frame in frames])]
    if not labels or any(frame.duplicated(labels).any() for frame in frames):
        return pd.DataFrame()
    found = across(every, "world", labels, effect)
    return found[found["n"] == len(frames)].reset_index(drop=True)


def _tells_apart(columns: list[pd.Series]) -> bool:
    """Whether a column says which row this is: words, or numbers that the worlds share (sizes, shares of a design)."""
    values = [column.dropna() for column in columns]
    shared = set(max(values, key=len))
    return not all(map(pd.api.types.is_numeric_dtype, values)) or all(set(column) <= shared for column in values)


def _judged(
    made: pd.DataFrame, tested: Iterable[tuple[float, float]], noise: Sequence[str], known: Mapping[str, Claim]
) -> pd.DataFrame:
    """`made` with the columns JUDGED; `tested`: a claim's interval for its size, of confidence 1 less twice the level
    of the two one-sided tests; `noise`: what most of its noise is of.
    """
    rows = []
    for row, (low, high), most in zip(made.itertuples(), tested, noise, strict=True):
        claim = known[row.claim]
        is_within = -claim.margin < low and high < claim.margin
        passing = not claim.is_gated or row.lead_low > 0  # a lead that nobody measured (NaN) opens nothing
        found = verdict(claim.asks, row.low, row.high, claim.margin, is_within) if passing else "undecided"
        reason = most if passing else UNMEASURED if np.isnan(row.lead_low) else GATE
        found = "" if claim.secondary else found
        rows.append((found, WITHIN if is_within else "", reason if found == "undecided" else "", row.resolution))
    return made.drop(columns=["lead_low", "resolution"]).join(pd.DataFrame(rows, made.index, JUDGED))


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
        return "holds" if is_within else "contradicted" if high < -margin or low > margin else "undecided"
    low, high = (low, high) if asks == "above" else (-high, -low)
    return "holds" if low > 0 else "contradicted" if high < 0 else "undecided"


def formatted(row: Mapping[str, Any], own: Claim | None = None) -> str:
    """A row of `concluded` or `over_worlds` as text: estimate, interval, unit of inference, verdict and its reason.

    `own`: the claim, where it is not in the file.

    >>> row = {"claim": "resttest-dense", "estimate": -0.1, "low": -0.14, "high": -0.06, "n_queries": 900}
    >>> formatted(row | {"n_worlds": 12, "verdict": "holds", "size": "", "reason": ""})
    '-10.0 % [-14.0, -6.0], 900 queries, 12 worlds: holds'
    """
    counts = {name[2:]: int(row[name]) for name in (*COUNTS, "n_worlds") if row.get(name, np.nan) == row.get(name)}
    units = ", ".join(f"{n:,} {ONE[what] if n == 1 else MANY.get(what, what)}" for what, n in counts.items())
    claim, needed = own or stated()[row["claim"]], row.get("resolution", np.nan)
    text = spelled(row["estimate"], row["low"], row["high"], claim.unit)
    reasons = [MANY.get(row["reason"], row["reason"])]
    if row["reason"] == GATE and np.isfinite(row["lead"]):
        reasons.append(f"lead {100 * row['lead']:+.1f} points")
    elif row["verdict"] == "undecided" and not row["reason"].startswith("gate") and np.isfinite(needed):
        most = np.inf if claim.unit else 2.0 if "minus" in claim.rows else 1.0  # a correlation, a difference of two
        detects = f"{100 * needed:.1f} {claim.unit}" if claim.unit else f"{needed:.2f}"
        reasons.append(f"detects {detects}" if needed < most else "detects no correlation")
        times = (needed / claim.asked) ** 2 if claim.asked else 0.0  # nothing is asked of a baseline that finds nothing
        reasons.append(f"out of reach: needs {times:.0f} times the data" if times > OUT_OF_REACH else "")
    reason = "; ".join(filter(None, reasons))
    judged = ", ".join(filter(None, [row["verdict"], row["size"]])) or reason
    return f"{text}, {units}" + f": {judged}" * bool(judged) + f" ({reason})" * bool(reason and judged != reason)


def resolutions(files: Sequence[Path]) -> pd.DataFrame:
    """What a design can tell, by tables of claims of a reference, of those that are there.

    Returns DataFrame[claim, unit, asked, resolution, times, more_of] : asked is `Claim.asked`; resolution the smallest
    effect that is found with 80 % power; times as many worlds, or queries and trainings (more_of), reach it.
    """
    rows = []
    for row in (row for path in files if path.is_file() for row in pd.read_csv(path).to_dict("records")):
        claim, found = stated()[row["claim"]], row["resolution"]
        units = "worlds" if "n_worlds" in row else "queries and trainings"
        rows.append((row["claim"], claim.unit, claim.asked, found, (found / claim.asked) ** 2, units))
    return pd.DataFrame(rows, columns=["claim", "unit", "asked", "resolution", "times", "more_of"])


def page(found: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """For the page: a row a claim; its sentence, what is published, and a column a data set that answers it.

    `found`: name of the data → a table of `concluded`, `in_one_world` or `over_worlds`; without rows for none.
    """
    asked, made = [data for data, table in found.items() if len(table)], []
    for claim, rows in _by_claim(found):
        told = {_named(data, claim): formatted(rows[data]) if data in rows else "–" for data in asked}
        row = {"claim": claim.sentence, "published": published(claim)} | told
        made.append(row | {"conclusion": conclusion(claim, rows)})
    table = pd.DataFrame(made).fillna("–")
    return table[[*table.columns.drop("conclusion"), "conclusion"]] if made else table


def _by_claim(found: Mapping[str, pd.DataFrame]) -> list[tuple[Claim, dict[str, dict]]]:
    """Each claim that a table of `page` answers, with its row in each data set; in a file an empty text is missing."""
    rows: dict[str, dict[str, dict]] = {}
    for data, table in found.items():
        texts = {name: table[name].astype(object).fillna("") for name in JUDGED[:3] if name in table}
        for row in table.assign(**texts).to_dict("records"):
            rows.setdefault(row["claim"], {})[data] = row
    return [(stated()[name], of) for name, of in rows.items()]


def _named(data: str, claim: Claim) -> str:
    return (REAL.get(claim.name) or REAL.get(claim.notebook, data)) if data == "MedQuAD" else NAMED.get(data, data)


def conclusion(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What data sets say together of a claim: data set → its row. A single generated world says nothing.

    >>> holds, undecided = ({"verdict": verdict, "size": ""} for verdict in ("holds", "undecided"))
    >>> conclusion(stated()["resttest-dense"], {"MedQuAD": undecided, "worlds": holds})
    'replicated in the worlds, undecided on real data'
    """
    word, heard = "supported" if claim.paper == "kit" else "replicated", {}
    for data, row in rows.items():
        smaller = ", but smaller than the margin," * bool(row["size"] and claim.asks != "equal")
        words = {"holds": word + smaller, "contradicted": "contradicted" + smaller, "": UNJUDGED}
        heard[data] = words.get(row["verdict"], "undecided" if _is_open(row) else "no difference")
    judged = {data: told for data, told in heard.items() if told != UNJUDGED}
    if {"holds", "contradicted"} <= {rows[data]["verdict"] for data in judged}:
        return "depends on the data"
    if len(judged) > 1 and len(set(judged.values())) == 1:
        return next(iter(judged.values()))
    decided_first = sorted(judged.items(), key=lambda item: item[1] == "undecided")
    return ", ".join(f"{told} {PLACES.get(data, data)}" for data, told in decided_first) or UNJUDGED


def _is_open(row: Mapping[str, Any]) -> bool:
    """Whether neither direction nor size is decided; of a system that is excluded nothing is said."""
    return row["verdict"] == "undecided" and (not row["size"] or str(row.get("reason", "")).startswith("gate"))


def published(claim: Claim) -> str:
    value, unit = claim.published, claim.unit
    return "–" if np.isnan(value) else f"{100 * value:+.1f} {unit}" if unit else f"{value:+.2f}"


def sentences(found: Mapping[str, pd.DataFrame], notebook: str = "") -> list[str]:
    """A sentence for each claim of `page`: what came out, and the estimate of each data set with its interval.

    `notebook`: the claim that answers its title (`answers.yaml`) comes first, as an answer; decided ones are next.

    >>> row = {"claim": "topics-dense", "estimate": -0.074, "low": -0.119, "high": 0.029, "size": ""}
    >>> sentences({"here": pd.DataFrame([row | {"verdict": "undecided", "reason": "queries"}])})[0][82:]
    ': undecided here, too few queries (RR@10: this run -7.4 % [-11.9, +2.9]; published -11.1 %).'
    """
    answer, decided, others = [], [], []
    title = yaml.safe_load(ANSWERS.read_text(encoding="utf-8")).get(notebook, {})
    for claim, rows in _by_claim(found):
        outcome, reason = conclusion(claim, rows), _reason(rows)
        estimated = {data: spelled(row["estimate"], row["low"], row["high"], claim.unit) for data, row in rows.items()}
        parts = [f"{_named(data, claim)} {text}" for data, text in estimated.items()]
        parts += [f"published {published(claim)}"] if np.isfinite(claim.published) else []
        estimates = f"{claim.statistic}{claim.measure}: {'; '.join(parts)}"
        told = outcome.replace(UNJUDGED, "undecided")
        is_open = told.startswith("undecided")
        told += f", {reason}" * ("undecided" in told)
        if claim.name != title.get("claim"):
            text = f"{claim.sentence.removesuffix('.')}: {told} ({estimates})."
            (others if is_open else decided).append(text)
            continue
        has_name = re.match(r"\w+[A-Z0-9]", claim.sentence)  # which keeps its capitals after a colon
        inside = claim.sentence if has_name else claim.sentence[:1].lower() + claim.sentence[1:]
        forms = {"": f"Undecided ({reason}): {inside}", "depends": f"It depends on the data. {claim.sentence}"} | title
        key = next((key for word, key in ANSWER_TO.items() if re.match(word, outcome)), "")
        text = forms[key].removesuffix(".") + f": {told}" * (not is_open)
        alone = [row["reason"] == "one world" for row in rows.values()]
        kind = "individual" if all(alone) else "simultaneous"
        beside = ", that of this run individual" * (any(alone) and not all(alone))
        answer = [f"{text} ({estimates}; {kind} 95 % confidence intervals{beside})."]
    return answer + decided + others


def _reason(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """Why a claim is undecided, or has no verdict, by its row in each data set."""
    if not any(row["verdict"] for row in rows.values()):
        worlds = any(row["reason"] == "one world" for row in rows.values())
        return "one generated world decides no claim" if worlds else "a secondary claim"
    reason = next((row["reason"] for row in rows.values() if _is_open(row) and row["reason"]), "no estimate")
    return REASONS.get(reason, reason)

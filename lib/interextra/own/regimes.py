"""Notebook 12: what runs on a user's split say of interpolation and extrapolation.

Two claims, with what they rest on, as one page.
"""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from interextra import figures
from interextra.claims import judgement
from interextra.claims.claim import Claim, answered
from interextra.claims.wording import formatted
from interextra.measures.evaluate import check, worse
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.own import distance
from interextra.own.audit import neighbours
from interextra.own.page import html_page, svg_of
from interextra.own.seen import Given, Seen
from interextra.own.split_folder import SplitFolder
from interextra.own.values import MODEL
from interextra.splits.split import REGIMES
from interextra.stats.effects import DRAWS, Effects, effects, shown
from interextra.stats.formatting import drawn_over, with_interval
from interextra.stats.tests import detectable
from interextra.store import InputError, write_text

INTERPOLATION, EXTRAPOLATION = REGIMES
AS_GIVEN = "model as given"
SEEN = "the model as given has seen the training queries"
GROUPS = ("all", "near half", "far half")
N_LOSERS = 10
LEGEND = (
    "Intervals are of 95 %, over {over}: of the sentences simultaneous, here plain. Detects: the "
    "smallest change found with 80 % power. "
    "Near and far: halves by the cosine to the nearest training query."
)


class Report(NamedTuple):
    """What the runs on a split say, as tables and as sentences."""

    # queries (of GROUPS), measure, both regimes, change, low, high, detects, n_queries, …
    changes: pd.DataFrame
    claims: pd.DataFrame  # two, of `judgement.concluded`, with their sentences
    # test queries that lose most in extrapolation, with their nearest training query
    losers: pd.DataFrame
    values: pd.DataFrame  # all that was measured
    systems: pd.DataFrame  # system, measure, mean, low, high, n_queries: on the test queries
    # one of each claim, whose the gate is, what the model had seen; that first, where it is shown
    sentences: list[str]
    files: list[Path] = []  # of `write`


def refuse_measures(measures: Sequence[str]) -> None:
    """Refuse measures that there are not, and a first one that `refuse_first` refuses."""
    check(measures)
    refuse_first(measures[0])


def refuse_first(measure: str) -> None:
    """Refuse a first measure, that of the claims, which has its best value at 0."""
    if worse(measure) < 0:
        raise InputError(f"{measure}: lower is better; name another measure first, for the claims")


def nearest_training_queries(folder: SplitFolder, encoder: str) -> pd.DataFrame:
    """Return the nearest training query of each test query.

    Returns
    -------
    DataFrame
        query_id, train_query, cosine (0: none), is_near (nearer half).
    """
    pool = folder.split.pool.frame()
    queries = folder.queries
    is_searched = pool["query_id"].isin(queries["query_id"])
    is_gate = queries["query_id"].isin(folder.gate_ids)
    test = queries[~is_gate]
    pairs = neighbours(pool[~is_searched], test, encoder)
    first = pairs.drop_duplicates("test_query_id").rename(columns={"test_query_id": "query_id"})
    first = first[["query_id", "train_query", "cosine"]]
    nearest = test[["query_id"]].merge(first, how="left")
    nearest = nearest.fillna({"cosine": 0.0})
    rank = nearest["cosine"].rank(method="first")
    half = len(nearest) / 2
    return nearest.assign(is_near=rank > half)


def report(
    folder: SplitFolder,
    values: pd.DataFrame,
    baseline: pd.DataFrame,
    nearest: pd.DataFrame,
    margin: float,
    seed: int,
    n_boot: int,
    given: Given | None = None,
) -> Report:
    """Compare both regimes of the test queries, with plain intervals, and judge two claims.

    Parameters
    ----------
    values : DataFrame
        Of `values_of_runs`; its first measure is that of the claims.
    baseline : DataFrame
        Values of the baseline, which a model must beat in domain on the gate's queries.
    nearest : DataFrame
        Of `nearest_training_queries`.
    margin : float
        What counts as no difference, as a share: of the value in interpolation, of the baseline's.
    seed, n_boot : int
        Of the bootstrap.
    given : Given
        The model before fine-tuning; None: not given. Where it is shown to have seen the training
        queries, the first sentence says so, and nothing is concluded of a loss.
    """
    measure = values["measure"].iloc[0]
    refuse_first(measure)
    bootstrap: dict[str, Any] = {"seed": seed, "n_boot": n_boot}
    is_gate = values["query_id"].isin(folder.gate_ids)
    tested = values[~is_gate]
    changes = _changes(tested, nearest, bootstrap)
    is_first = values["measure"] == measure
    gate_values = _with_baseline(values[is_gate & is_first], baseline)
    claims = _claims(folder, changes, gate_values, margin, bootstrap)
    seen = given.seen if given else Seen(why_not="the model before fine-tuning was not given")
    if seen.is_shown:
        claims = _without_conclusion(claims)
    unshown = [DRAWS, "sd_trainings", "n_units", "model", "p_value", "p_holm"]
    shown_changes = pd.DataFrame(changes).drop(columns=unshown)
    return Report(
        changes=shown_changes.rename(columns={"delta": "change"}),
        claims=claims,
        losers=_losers(values[~is_gate & is_first], folder, nearest),
        values=values,
        systems=_systems(tested, baseline, given, bootstrap),
        sentences=_sentences(claims, folder, seen, measure),
    )


def _changes(tested: pd.DataFrame, nearest: pd.DataFrame, bootstrap: dict[str, Any]) -> Effects:
    """Return the change between the regimes, and what it detects, for each of GROUPS."""
    is_near = tested["query_id"].map(nearest.set_index("query_id")["is_near"])
    near = tested[is_near.eq(True)]
    far = tested[is_near.eq(False)]
    groups = zip(GROUPS, (tested, near, far), strict=True)
    values = pd.concat([part.assign(queries=group) for group, part in groups])
    labels = ["queries", "model", "measure"]
    changes = effects(values, labels, "regime", REGIMES, "delta", **bootstrap)
    errors = changes.drawn().std(axis=1)
    changes["detects"] = detectable(changes["low"], changes["high"], errors)
    return changes


def _with_baseline(gate_values: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Return the values of the model and of BM25 on the gate's queries.

    The baseline stands beside each training, of both regimes, which say how trainings vary.
    """
    asked = gate_values[["query_id", "measure"]].drop_duplicates()
    trainings = gate_values[["regime", "seed"]].drop_duplicates()
    of_gate = baseline.merge(asked, on=["query_id", "measure"])
    baseline_values = of_gate.merge(trainings, how="cross")
    return pd.concat([gate_values, baseline_values]).fillna({"model": BM25})


def _losers(values: pd.DataFrame, folder: SplitFolder, nearest: pd.DataFrame) -> pd.DataFrame:
    """Return the test queries that lose most, with their nearest training query."""
    by_regime = values.pivot_table(index="query_id", columns="regime", values="value")
    by_regime["difference"] = by_regime[EXTRAPOLATION] - by_regime[INTERPOLATION]
    losers = by_regime.nsmallest(N_LOSERS, "difference").reset_index()
    losers = losers.merge(folder.queries, on="query_id")
    losers = losers.merge(nearest, on="query_id")
    losers = losers.rename(columns={"text": "query"})
    return losers[["query_id", "query", *REGIMES, "difference", "train_query", "cosine"]]


def _systems(
    tested: pd.DataFrame,
    baseline: pd.DataFrame,
    given: Given | None,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Return the means of BM25, the model as given and the fine-tuned models on test queries."""
    is_tested = baseline["query_id"].isin(tested["query_id"])
    tables = [baseline[is_tested].assign(system=BM25)]
    if given:
        is_tested = given.values["query_id"].isin(tested["query_id"])
        tables.append(given.values[is_tested].assign(system=AS_GIVEN))
    for regime in REGIMES:
        of_regime = tested[tested["regime"] == regime]
        tables.append(of_regime.assign(system=f"fine-tuned, {regime}"))
    columns = ["system", "measure", "mean", "low", "high", "n_queries"]
    means = [effects(table, ["system", "measure"], **bootstrap)[columns] for table in tables]
    return pd.concat([pd.DataFrame(table) for table in means], ignore_index=True)


def _without_conclusion(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims without a verdict on the loss of a model that has seen the queries."""
    is_loss = claims["claim"] == "loss"
    changed = claims.copy()
    changed.loc[is_loss, ["verdict", "size", "reason"]] = ["undecided", "", SEEN]
    measured = changed["told"].str.partition(":")[0]
    changed.loc[is_loss, "told"] = measured + f": no conclusion ({SEEN})"
    return changed


def _sentences(
    claims: pd.DataFrame,
    folder: SplitFolder,
    seen: Seen,
    measure: str,
) -> list[str]:
    """Return a sentence of each claim, one of the gate, and one of what the model has seen."""
    sentences = (claims["sentence"] + ": " + claims["told"] + ".").tolist()
    whose = "test queries held out for this"
    if folder.gate:
        whose = f"queries of the split {folder.gate}"
    n_gate = len(folder.gate_ids)
    sentences.append(f"The lead is measured on {n_gate:,} {whose}; they measure no loss.")
    sentences += distance.warnings(folder.distances)
    if seen.is_shown:
        return [seen.sentence(measure), *sentences]
    return [*sentences, seen.sentence(measure)]


def _claims(
    folder: SplitFolder,
    changes: Effects,
    gate_values: pd.DataFrame,
    margin: float,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Judge a loss in extrapolation, and a lead in domain, if there are values of the gate."""
    measure = changes["measure"].iloc[0]
    is_baseline = gate_values["model"] == BM25
    baseline_mean = gate_values.loc[is_baseline, "value"].mean()
    loss = _loss_claim(measure, type(folder.split).__name__, margin)
    lead = _lead_claim(measure, margin * baseline_mean)
    leads = judgement.leads(gate_values, ["regime", "measure"], **bootstrap)
    in_domain = leads[leads["regime"] == INTERPOLATION]
    tables = [changes]
    if len(gate_values):
        tables.append(effects(gate_values, ["regime", "model", "measure"], **bootstrap))
    answers = answered([loss, lead], tables, in_domain.drop(columns="regime"))
    judged = judgement.concluded(answers, [loss, lead])
    claims = [loss if name == loss.name else lead for name in judged["claim"]]
    rows = zip(judged.to_dict("records"), claims, strict=True)
    judged["told"] = [formatted(row, claim) for row, claim in rows]
    return judged.assign(sentence=[claim.sentence for claim in claims])


def _loss_claim(measure: str, protocol: str, margin: float) -> Claim:
    """Return the claim that the model loses from interpolation to extrapolation."""
    return Claim(
        name="loss",
        paper="own",
        notebook="",
        sentence=f"{measure} from interpolation to extrapolation ({protocol}; claim: it falls)",
        asks="below",
        rows={"plus": {"model": MODEL, "queries": GROUPS[0]}},
        measure=measure,
        margin=margin,
        known=(),
        gate="beats BM25",
        scale="change",
    )


def _lead_claim(measure: str, margin: float) -> Claim:
    """Return the claim that the model is above the baseline in domain."""
    return Claim(
        name="lead",
        paper="own",
        notebook="",
        sentence=f"In domain against {BM25} (claim: the model is above)",
        asks="above",
        rows={
            "plus": {"model": MODEL, "regime": INTERPOLATION},
            "minus": {"model": BM25, "regime": INTERPOLATION},
        },
        side="in domain",
        measure=measure,
        margin=margin,
        known=(),
    )


def write(folder: Path, found: Report) -> Report:
    """Write the report as regimes.html and tables; return it with `files`.

    The tables are, as .csv, regimes, claims, losers, systems, and values as PyTerrier writes them.
    """
    seeds = found.values["seed"].astype(str)
    names = found.values["regime"] + ", training " + seeds
    values = found.values.rename(columns={"query_id": "qid"}).assign(name=names)
    tables = {
        "regimes": found.changes,
        "claims": found.claims,
        "losers": found.losers,
        "systems": found.systems,
        "values": values[["name", "qid", "measure", "value"]],
    }
    files = []
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        files.append(write_text(folder / f"{name}.csv", text))
    files.append(write_text(folder / "regimes.html", page(found)))
    return found._replace(files=files)


def page(found: Report) -> str:
    """Return the report as one HTML page."""
    changes = with_interval(found.changes, "change")
    percent = 100 * changes["detects"]
    changes["detects"] = percent.map("{:.1f} %".format)
    columns = ["queries", "measure", *REGIMES, "change", "detects", "n_queries", "n_trainings"]
    names = {"queries": "test queries", "n_queries": "queries", "n_trainings": "trainings"}
    losers = found.losers.rename(columns={"train_query": "nearest training query"})
    body = [
        "<h1>Does the model extrapolate?</h1>",
        *(f"<p>{html.escape(sentence)}</p>" for sentence in found.sentences),
        _picture(found.changes),
        shown(changes[columns].rename(columns=names)).to_html(),
        f"<p>{LEGEND.format(over=drawn_over(changes['over']))}</p>",
        "<h2>Before and after fine-tuning</h2>",
        shown(found.systems).to_html(),
        "<h2>Queries that lose most</h2>",
        shown(losers).to_html(),
    ]
    return html_page("Interpolation and extrapolation", body)


def _picture(changes: pd.DataFrame) -> str:
    """Return a forest of the changes as SVG."""
    figures.style()
    label = "← loss: change from interpolation to extrapolation"
    figure = figures.forest(changes, "queries", "change", label, panel="measure", percent=True)
    return svg_of(figure)

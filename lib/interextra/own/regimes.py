"""Notebook 12: what runs on a user's split say of interpolation and extrapolation.

Two claims, with what they rest on, as one page.
"""

import html
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from interextra import __version__, figures
from interextra.claims import judgement
from interextra.claims.claim import Claim, answered
from interextra.measures.evaluate import check, worse
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.models.encoders import default_encoder, report_seconds
from interextra.own import distance
from interextra.own.audit import neighbours
from interextra.own.gains import Gains, gains_of
from interextra.own.page import facts, html_page, svg_of, wide_table
from interextra.own.seen import Given, Seen
from interextra.own.sentences import (
    OBSTACLES,
    SEEN,
    UNDECIDED,
    answer_code,
    halves_sentence,
    lead_sentence,
    loss_sentence,
    numbers_sentence,
)
from interextra.own.split_folder import SplitFolder
from interextra.own.values import MODEL
from interextra.splits.similarity import near_half
from interextra.splits.split import REGIMES
from interextra.stats.effects import DRAWS, Effects, effects
from interextra.stats.formatting import drawn_over, with_interval
from interextra.stats.tests import detectable, standard_error
from interextra.store import InputError, offenders, write_text

INTERPOLATION, EXTRAPOLATION = REGIMES
AS_GIVEN = "model as given"
NOT_GIVEN = Seen(why_not="the model before fine-tuning was not given")
GROUPS = ("all", "near half", "far half")
N_LOSERS = 10
LEGEND = (
    "All intervals are plain 95 % confidence intervals, over {over}. The lead in domain is "
    "tested first, and only where it is shown is the loss: so neither is corrected for the other. "
    "Detects: the smallest change that is found with 80 % power to differ from 0; a loss is shown "
    "with this power to be above the margin where it is that much above it. Near and far: halves "
    "of the test queries, by the cosine to the nearest training query."
)
WIDTHS = (
    "The noise of training runs is pooled over both regimes in every interval. A change, a gain or "
    "a lead compares each query with itself: its interval is narrower than those of two means "
    "suggest."
)


HALVES = "near half, far half: of the test queries, by the cosine to their nearest training query"


class Report(NamedTuple):
    """What the runs on a split say, as tables and as sentences."""

    # queries (of GROUPS), measure, both regimes, change, low, high, detects, n_queries, …
    changes: pd.DataFrame
    claims: pd.DataFrame  # loss and lead, as of `judgement.concluded`, see `_claims`
    # test queries that lose most in extrapolation, with their nearest training query
    losers: pd.DataFrame
    values: pd.DataFrame  # all that was measured
    systems: pd.DataFrame  # system, measure, mean, low, high, n_queries: on the test queries
    # the answer, the numbers, the lead, whether the split is hardly one, what the model had seen;
    # the last comes first where it is shown
    sentences: list[str]
    files: list[Path] = []  # of `write`
    about: dict[str, str] = {}  # what was measured: the collection, the split, the runs, …
    distances: pd.DataFrame = pd.DataFrame()  # of the training sets, see `distance.measure`
    # regime, measure, lead over the baseline on the test queries, low, high, n_queries
    leads: pd.DataFrame = pd.DataFrame()
    # what fine-tuning gains over the model before it; no rows where that was not given
    gains: Gains = Gains()
    answer_code: str = UNDECIDED  # of `sentences.ANSWER_CODES`
    margin: float = float("nan")  # the loss that matters, a share


def refuse_measures(measures: Sequence[str]) -> None:
    """Refuse measures that there are not, and a first one that `refuse_first` refuses."""
    check(measures)
    refuse_first(measures[0])


def refuse_first(measure: str) -> None:
    """Refuse a first measure, that of the claims, which has its best value at 0."""
    if worse(measure) < 0:
        raise InputError(f"{measure}: lower is better; name another measure first, for the claims")


def nearest_training_queries(folder: SplitFolder, encoder: str = "") -> pd.DataFrame:
    """Return the nearest training query of each test query.

    Parameters
    ----------
    encoder : str
        By which it is looked for; "": that of the split, in whose folder it stands.

    Returns
    -------
    DataFrame
        query_id, train_query (a text), cosine (0: none), is_near (nearer half).
    """
    pool = folder.split.pool.frame()
    queries = folder.queries
    is_gate = queries["query_id"].isin(folder.gate_ids)
    test = queries[~is_gate]
    if not encoder and len(folder.nearest):
        text_of = pool.set_index("query_id")["text"]
        train_query = folder.nearest["train_query_id"].map(text_of)
        first = folder.nearest.assign(train_query=train_query)
    else:
        is_searched = pool["query_id"].isin(queries["query_id"])
        encoder = encoder or default_encoder()
        first = _encoded_neighbours(pool[~is_searched], test, encoder)
    first = first[["query_id", "train_query", "cosine"]]
    nearest = test[["query_id"]].merge(first, how="left")
    nearest = nearest.fillna({"train_query": "", "cosine": 0.0})
    return nearest.assign(is_near=near_half(nearest["cosine"].to_numpy()))


def _encoded_neighbours(train: pd.DataFrame, test: pd.DataFrame, encoder: str) -> pd.DataFrame:
    """Return the nearest training query of each test query by an encoder."""
    texts = [*train["text"], *test["text"]]
    report_seconds(encoder, texts)
    pairs = neighbours(train, test, encoder)
    first = pairs.drop_duplicates("test_query_id")
    return first.rename(columns={"test_query_id": "query_id"})


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
    seen = given.seen if given else NOT_GIVEN
    if seen.is_shown:
        claims = _without_conclusion(claims)
    systems = _systems(tested, baseline, given, bootstrap)
    gains = _gains(changes, tested, given, bootstrap)
    sentences = _sentences(claims, changes, systems, folder, seen, margin, gains)
    loss = claims.set_index("claim").loc["loss"]
    empty = _empty_rankings(values, baseline, given)
    if empty:
        sentences.append(empty)
    return Report(
        changes=_shown_changes(changes),
        claims=claims,
        losers=_losers(values[~is_gate & is_first], folder, nearest),
        values=values,
        systems=systems,
        sentences=sentences,
        about=_about(folder, values),
        distances=folder.distances,
        leads=_leads(tested, baseline, bootstrap),
        gains=gains,
        answer_code=answer_code(loss, margin),
        margin=margin,
    )


def _empty_rankings(values: pd.DataFrame, baseline: pd.DataFrame, given: Given | None) -> str:
    """Return the sentence of the queries that runs have no hit for; "" where all have one."""
    tables = [values, baseline.assign(trained="the baseline")]
    if given:
        tables.append(given.values.assign(trained=AS_GIVEN))
    told = []
    for table in tables:
        if not {"is_empty", "trained"} <= set(table):  # values that somebody has computed
            continue
        n_queries = table["query_id"].nunique()
        for run, of_run in table[table["is_empty"]].groupby("trained", sort=False):
            query_ids = of_run["query_id"].unique()
            told.append(f"{run} for {len(query_ids)} of {n_queries} ({offenders(query_ids)})")
    if not told:
        return ""
    return f"Queries without a hit count as rankings without a passage: {'; '.join(told)}."


def _about(folder: SplitFolder, values: pd.DataFrame) -> dict[str, str]:
    """Return what was measured, in words by what they are about."""
    manifest = folder.manifest
    sizes = []
    for name, counts in manifest.sets.items():
        sizes.append(f"{name} ({counts.queries:,} queries)")
    seeds = values["seed"].unique()
    runs = [f"{name}.{seed}" for name in manifest.sets for seed in seeds]
    return {
        "collection": folder.split.pool.source.spec,
        "split": f"{manifest.protocol}, seed {folder.split.seed}",
        "similarity of queries": manifest.encoder,
        "training sets": ", ".join(sizes),
        "test queries": f"{manifest.n_test:,}, and {manifest.n_gate:,} for the lead",
        "runs": ", ".join(runs),
        "baseline": BM25,
    }


def _changes(tested: pd.DataFrame, nearest: pd.DataFrame, bootstrap: dict[str, Any]) -> Effects:
    """Return the change between the regimes, and what it detects, for each of GROUPS."""
    is_near_of = nearest.set_index("query_id")["is_near"]
    is_near = tested["query_id"].map(is_near_of)
    near = tested[is_near.eq(True)]
    far = tested[is_near.eq(False)]
    groups = zip(GROUPS, (tested, near, far), strict=True)
    labelled = [part.assign(queries=group) for group, part in groups]
    values = pd.concat(labelled)
    labels = ["queries", "model", "measure"]
    changes = effects(values, labels, "regime", REGIMES, "delta", **bootstrap)
    errors = standard_error(changes.drawn())
    changes["detects"] = detectable(changes["low"], changes["high"], errors)
    return changes


def _shown_changes(changes: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of the changes that a `Report` has."""
    unshown = [DRAWS, "sd_trainings", "n_units", "model", "p_value", "p_holm"]
    shown_changes = pd.DataFrame(changes).drop(columns=unshown)
    return shown_changes.rename(columns={"delta": "change"})


def _with_baseline(model_values: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Return the values of the model and of BM25 on the model's queries.

    The baseline stands beside each training, of both regimes, which say how trainings vary.
    """
    asked = model_values[["query_id", "measure"]].drop_duplicates()
    trainings = model_values[["regime", "seed"]].drop_duplicates()
    of_baseline = baseline.merge(asked, on=["query_id", "measure"])
    baseline_values = of_baseline.merge(trainings, how="cross")
    return pd.concat([model_values, baseline_values]).fillna({"model": BM25})


def _leads(tested: pd.DataFrame, baseline: pd.DataFrame, bootstrap: dict[str, Any]) -> pd.DataFrame:
    """Return the lead of the model over the baseline in each regime, on the test queries.

    Each query is paired with itself: both are averaged over the same resamples.
    """
    values = _with_baseline(tested, baseline)
    means = effects(values, ["regime", "measure", "model"], **bootstrap)
    contrasts = means.contrast("model", [(MODEL, BM25)])
    leads = pd.DataFrame(contrasts).rename(columns={"difference": "lead"})
    leads = leads.set_index("regime").loc[list(REGIMES)].reset_index()
    n_queries = tested.groupby("measure")["query_id"].nunique()
    leads["n_queries"] = leads["measure"].map(n_queries)
    return leads[["regime", "measure", "lead", "low", "high", "n_queries"]]


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
    columns = ["system", "measure", "mean", "low", "high", "n_queries"]
    means = []
    for table in tables:
        of_system = effects(table, ["system", "measure"], **bootstrap)
        means.append(pd.DataFrame(of_system)[columns])
    # both at once: the noise of training is pooled over them, as in a change and in a lead
    named = tested.assign(system="fine-tuned, " + tested["regime"])
    of_trained = effects(named, ["regime", "system", "model", "measure"], **bootstrap)
    of_trained = of_trained.set_index("regime").loc[list(REGIMES)]
    means.append(pd.DataFrame(of_trained)[columns])
    return pd.concat(means, ignore_index=True)


def _gains(
    changes: Effects,
    tested: pd.DataFrame,
    given: Given | None,
    bootstrap: dict[str, Any],
) -> Gains:
    """Return what fine-tuning gains over the model as given, if there is one, on test queries."""
    if not given:
        return Gains()
    is_tested = given.values["query_id"].isin(tested["query_id"])
    is_all = changes["queries"] == GROUPS[0]
    return gains_of(changes[is_all], given.values[is_tested], bootstrap)


def _without_conclusion(claims: pd.DataFrame) -> pd.DataFrame:
    """Return the claims without a verdict on the loss of a model that has seen the queries."""
    is_loss = claims["claim"] == "loss"
    changed = claims.copy()
    changed.loc[is_loss, ["verdict", "size", "reason"]] = ["undecided", "", SEEN]
    return changed


def _sentences(
    claims: pd.DataFrame,
    changes: Effects,
    systems: pd.DataFrame,
    folder: SplitFolder,
    seen: Seen,
    margin: float,
    gains: Gains,
) -> list[str]:
    """Return the answer and what it rests on; see `Report`."""
    rows = claims.set_index("claim").to_dict("index")
    all_queries = changes.iloc[0].to_dict()  # of the first measure, as the claims
    measure = all_queries["measure"]
    is_baseline = (systems["system"] == BM25) & (systems["measure"] == measure)
    baseline = systems.loc[is_baseline, "mean"].item()
    whose = f"queries of the split {folder.gate}" if folder.gate else "test queries held out for it"
    protocol = folder.manifest.protocol
    sentences = [loss_sentence(rows["loss"], margin)]
    if len(gains.gains) and not seen.is_shown:
        sentences.append(gains.sentence(measure))
    sentences.append(numbers_sentence(all_queries, measure, protocol, baseline, margin))
    if "lead" in rows:
        sentences.append(lead_sentence(rows["lead"], measure, whose))
    sentences += _of_halves(changes, measure)
    sentences += distance.warnings(folder.distances)
    if seen.is_shown:
        return [seen.sentence(measure), *sentences]
    return [*sentences, seen.sentence(measure)]


def _of_halves(changes: Effects, measure: str) -> list[str]:
    """Return the sentence on the difference between the halves, unless it is undefined."""
    of_measure = changes[changes["measure"] == measure]
    differences = of_measure.contrast("queries", [GROUPS[1:]])
    is_known = differences["low"].notna()
    return [halves_sentence(row) for row in differences[is_known].to_dict("records")]


def _claims(
    folder: SplitFolder,
    changes: Effects,
    gate_values: pd.DataFrame,
    margin: float,
    bootstrap: dict[str, Any],
) -> pd.DataFrame:
    """Judge a lead in domain, if there are values of the gate, and then a loss in extrapolation.

    As the second is only asked where the first is shown, each is judged by its own interval, plain
    95 %, which is also that of its row among the changes.
    """
    measure = changes["measure"].iloc[0]
    is_baseline = gate_values["model"] == BM25
    baseline_mean = gate_values.loc[is_baseline, "value"].mean()
    loss = _loss_claim(measure, type(folder.split).__name__, margin)
    lead = _lead_claim(measure, margin * baseline_mean)
    answers = _answers([loss, lead], changes, gate_values, bootstrap)
    judged = judgement.concluded(answers, [loss, lead]).drop(columns="p_size")
    plain = _with_plain_interval(judged, answers)
    records = plain.to_dict("records")
    rows = []
    for row, noise in zip(records, answers["noise"], strict=True):
        claim = loss if row["claim"] == loss.name else lead
        rows.append(_judged_by_interval(row, claim, noise))
    return pd.DataFrame(rows)


def _answers(
    claims: Sequence[Claim],
    changes: Effects,
    gate_values: pd.DataFrame,
    bootstrap: dict[str, Any],
) -> Effects:
    """Estimate the claims, with the lead over the baseline in domain."""
    leads = judgement.leads(gate_values, ["regime", "measure"], **bootstrap)
    in_domain = leads[leads["regime"] == INTERPOLATION]
    tables = [changes]
    if len(gate_values):
        tables.append(effects(gate_values, ["regime", "model", "measure"], **bootstrap))
    return answered(claims, tables, in_domain.drop(columns="regime"))


def _with_plain_interval(judged: pd.DataFrame, answers: Effects) -> pd.DataFrame:
    """Return claims with the plain interval of each, and the smallest effect that it finds."""
    low = answers["low"]
    high = answers["high"]
    errors = standard_error(answers.drawn())
    resolution = detectable(low, high, errors)
    return judged.assign(low=low, high=high, resolution=resolution)


def _judged_by_interval(row: dict[str, Any], claim: Claim, noise: str) -> dict[str, Any]:
    """Return a claim with the verdict and the size that its interval shows, unless none can."""
    if row["reason"] in OBSTACLES:
        return {**row, "size": ""}
    low, high = row["low"], row["high"]
    is_within = -claim.margin < low and high < claim.margin
    verdict = judgement.verdict(claim.asks, low, high, claim.margin, is_within)
    size = judgement.WITHIN if is_within else ""
    reason = noise if verdict == "undecided" else ""
    return {**row, "verdict": verdict, "size": size, "reason": reason}


def _loss_claim(measure: str, protocol: str, margin: float) -> Claim:
    """Return the claim that the model loses from interpolation to extrapolation."""
    return Claim(
        name="loss",
        paper="own",
        notebook="",
        sentence=f"{measure} is lower in extrapolation ({protocol})",
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
        sentence=f"In domain the model is above {BM25}",
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

    The tables are, as .csv, regimes, claims, losers, systems, leads, values as PyTerrier writes
    them, and gains and kept where the model before fine-tuning was measured.
    """
    seeds = found.values["seed"].astype(str)
    names = found.values["regime"] + ", training " + seeds
    values = found.values.rename(columns={"query_id": "qid"})
    values["name"] = names
    tables = {
        "regimes": found.changes,
        "claims": found.claims,
        "losers": found.losers,
        "systems": found.systems,
        "leads": found.leads,
        "values": values[["name", "qid", "measure", "value"]],
    }
    if len(found.gains.gains):
        tables |= found.gains._asdict()
    files = []
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        path = write_text(folder / f"{name}.csv", text)
        files.append(path)
    files.append(write_text(folder / "regimes.html", page(found)))
    return found._replace(files=files)


def page(found: Report) -> str:
    """Return the report as one HTML page."""
    changes = with_interval(found.changes, "change")
    percent = 100 * changes["detects"]
    changes["detects"] = percent.map("{:.1f} %".format)
    columns = ["queries", "measure", *REGIMES, "change", "detects", "n_queries", "n_trainings"]
    names = {"queries": "test queries", "n_queries": "queries", "n_trainings": "trainings"}
    losers = found.losers.rename(
        columns={"query_id": "id", "train_query": "nearest training query"}
    )
    about = found.about | {"date": f"{date.today()}", "version": f"interextra {__version__}"}
    answer, *others = map(html.escape, found.sentences)
    legend = LEGEND.format(over=drawn_over(changes["over"]))
    body = [
        "<h1>Does the model extrapolate?</h1>",
        f'<p class="answer">{answer}</p>',
        *(f"<p>{sentence}</p>" for sentence in others),
        _picture(found.changes),
        wide_table(changes[columns].rename(columns=names)),
        f"<p>{legend}</p>",
        *_of_systems(found),
        *_of_leads(found),
        "<h2>Queries that lose most</h2>",
        wide_table(losers, "texts"),
        *_distances(found.distances),
        "<h2>What was measured</h2>",
        facts(about),
    ]
    return html_page("Interpolation and extrapolation", body)


def _of_systems(found: Report) -> list[str]:
    """Return the means of all systems, the model as given among them where it was measured."""
    names = {"n_queries": "test queries"}
    table = wide_table(found.systems.rename(columns=names))
    if found.gains.gains.empty:
        return ["<h2>All systems</h2>", table, f"<p>{WIDTHS}</p>"]
    gains = with_interval(found.gains.gains, "gain", "points").rename(columns=names)
    return ["<h2>Before and after fine-tuning</h2>", table, wide_table(gains), f"<p>{WIDTHS}</p>"]


def lead_title(found: Report) -> str:
    """Return what the table of leads shows."""
    baseline = found.about.get("baseline", BM25)
    title = f"Lead over the baseline ({baseline}) on the same test queries, each query with itself"
    if "lead" not in set(found.claims["claim"]):
        return f"{title}:"
    return (
        f"{title} (the lead in the sentences is of other queries, since it decides whether a loss "
        "is judged):"
    )


def _of_leads(found: Report) -> list[str]:
    """Return the leads over the baseline in both regimes."""
    columns = {"n_queries": "test queries"}
    table = with_interval(found.leads, "lead", "points").rename(columns=columns)
    title = html.escape(lead_title(found))
    return ["<h2>Lead over the baseline</h2>", f"<p>{title}</p>", wide_table(table)]


def _distances(distances: pd.DataFrame) -> list[str]:
    """Return how near the training sets lie to the test queries; nothing of an older split."""
    if distances.empty:
        return []
    numbers = distances[["random", "random_low", "random_high"]].map("{:.3f}".format)
    interval = numbers["random_low"] + ", " + numbers["random_high"]
    of_random = numbers["random"] + " [" + interval + "]"
    table = distances.drop(columns=list(numbers)).assign(random=of_random)
    names = {"n_train": "training queries", "n_test": "test queries", "similarity": "cosine"}
    names["random"] = "random sets [middle 95 %]"
    return [
        "<h2>How near the training sets lie</h2>",
        "<p>Mean cosine of a test query to its nearest training query, beside random sets of the "
        "same size.</p>",
        wide_table(table.rename(columns=names)),
    ]


def _picture(changes: pd.DataFrame) -> str:
    """Return a forest of the changes as SVG."""
    figures.style()
    label = "← loss: change from interpolation to extrapolation"
    figure = figures.forest(changes, "queries", "change", label, panel="measure", percent=True)
    return svg_of(figure)

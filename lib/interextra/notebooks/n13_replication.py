"""Notebook 13: what the three papers print, beside ours.

It trains nothing: it reads the tables of the other notebooks.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from interextra.claims.claim import Claim, stated
from interextra.claims.wording import (
    DATA,
    NO_TEXTS,
    NONE,
    OPEN_OUTCOMES,
    PLACES,
    conclusion,
    published,
)
from interextra.data.load import with_data_folder
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyEntries,
    AnyNames,
    Names,
    NotebookParameters,
    parameter,
)
from interextra.papers import replication
from interextra.papers.findings import PublicRun
from interextra.papers.replication import (
    CELL,
    CHANGES,
    DECIDED,
    EFFECT,
    LEVEL,
    UNTESTABLE,
    VERDICTS,
)
from interextra.stats.formatting import spelled, with_unit
from interextra.store.errors import InputError, offenders

FINDINGS = replication.FILE.with_name("findings.yaml")
REFERENCE = "reference"  # the folder under outputs/ with what is committed
PAPERS = {
    "zhan": "Zhan et al.",
    "lupart": "Lupart et al.",
    "hofstaetter": "Hofstätter et al.",
}
# profile → what its results are of
DATA_OF = {
    "small": "real data (small)",
    "real": "real collections (real)",
    "worlds": "fourteen worlds (worlds)",
    "mini": "one generated world (mini)",
}
OF_DATA = {"MedQuAD": "real data", "worlds": "worlds"}  # columns of the claims, of DATA
VERBS = {"agrees": "agree", "differs": "differ"}  # of an outcome: of one claim, of several
DRAWN = (*CHANGES, "points")  # units of effects that the figure draws
WITHOUT = "no results are here"
X, Y = "published effect", "our effect"  # columns of the figure


class Parameters(NotebookParameters):
    """Parameters of notebook 13, the replication report."""

    profiles: Names = parameter(
        ["small", "real", "worlds", "mini"],
        "profiles whose results stand beside the printed numbers, real data first",
    )
    own_results: AnyNames = parameter(
        [], "those of them whose finished results of yours under outputs/ replace the committed"
    )
    real_msmarco: bool = parameter(
        False, "check findings on the released files and public runs (folder: INTEREXTRA_DATA)"
    )
    runs: AnyEntries = parameter(
        [], "public runs for these findings: test_set (dl19 and dl20 among them), system, file"
    )
    qrels: AnyEntries = parameter([], "their judgements: test_set, file")


def plan(p: Parameters) -> plans.Plan:
    """Plan nothing: results of other notebooks are read.

    Raises
    ------
    InputError
        Results of yours of a profile that is not compared.
    """
    unknown = sorted(set(p.own_results) - set(p.profiles))
    if unknown:
        raise InputError(f"parameter 'own_results': {offenders(unknown)} is not among 'profiles'")
    return plans.Plan()


def folders(outputs: Path, p: Parameters) -> dict[str, Path]:
    """Return the folder with the results of each profile.

    Parameters
    ----------
    outputs
        The folder of that name.
    p
        The parameters.

    Raises
    ------
    InputError
        There are no results of yours.
    """
    found = {}
    for profile in p.profiles:
        is_own = profile in p.own_results
        found[profile] = outputs / profile if is_own else outputs / REFERENCE / profile
        if is_own and not found[profile].is_dir():
            raise InputError(
                f"parameter 'own_results': there is no folder outputs/{profile}; "
                f"interextra run --profile {profile}"
            )
    return found


def files_read(outputs: Path, p: Parameters) -> list[Path]:
    """Return the files on which the report depends."""
    profiles = folders(outputs, p)
    claims = [path for each in profiles.values() for path in each.glob("*/tables/claims.csv")]
    return sorted({*replication.tables_read(profiles), *claims, replication.FILE, FINDINGS})


def beside(profiles: Mapping[str, Path]) -> pd.DataFrame:
    """Return every printed cell beside ours, see `papers.replication`."""
    return replication.replication(profiles)


def counts(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many printed cells of each paper have a counterpart.

    Returns
    -------
    DataFrame[paper, printed cells, effects compared, levels compared, not at this scale,
    not computed, no result]
        A cell with an effect beside it is not counted among the levels.
    """
    printed = table[~table["derived"].astype(bool)]
    rows = []
    for paper, name in PAPERS.items():
        part = printed[printed["paper"] == paper]
        kinds = part.groupby(CELL)["kind"].agg(set)
        statuses = part.drop_duplicates(CELL)["status"]
        has_effect = kinds.map(lambda kind: EFFECT in kind)
        has_level = kinds.map(lambda kind: LEVEL in kind) & ~has_effect
        row = {"paper": name, "printed cells": len(kinds)}
        row |= {"effects compared": has_effect.sum(), "levels compared": has_level.sum()}
        for status in ("not at this scale", "not computed"):
            row[status] = (statuses == status).sum()
        row["no result"] = statuses.isin(["no result", "no number"]).sum()
        rows.append(row)
    frame = pd.DataFrame(rows)
    total = frame.sum(numeric_only=True).to_dict()
    return pd.concat([frame, pd.DataFrame([{"paper": "all", **total}])], ignore_index=True)


def verdicts(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many effects of each profile have which verdict.

    Returns
    -------
    DataFrame[profile, cells, effects, agrees, same direction, opposite, differs, undecided,
    not testable, no_change, median_ratio]
        cells: printed ones; each has an effect for each collection of the profile. no_change: those
        that agree with a change that is printed as none, as BM25's are. median_ratio: of ours by
        the published effect, of the decided ones that are not printed as no change.
    """
    effects = table[table["kind"] == EFFECT]
    rows = []
    for profile, part in effects.groupby("profile", sort=False):
        n_cells = len(part.drop_duplicates(CELL))
        row = {"profile": profile, "cells": n_cells, "effects": len(part)}
        for verdict in VERDICTS:
            row[verdict] = (part["status"] == verdict).sum()
        has_agreed = part["status"] == "agrees"
        row["no_change"] = (replication.is_no_change(part) & has_agreed).sum()
        is_decided = part["status"].isin(DECIDED)
        row["median_ratio"] = part.loc[is_decided, "ratio"].median()
        rows.append(row)
    columns = ["profile", "cells", "effects", *VERDICTS, "no_change", "median_ratio"]
    frame = pd.DataFrame(rows, columns=columns)
    order = {profile: place for place, profile in enumerate(DATA_OF)}
    return frame.sort_values(
        "profile", key=lambda names: names.map(order).fillna(len(order)), ignore_index=True
    )


def points(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the figure: changes and differences of ours beside the printed ones.

    Without any of ours, the printed ones alone.

    Returns
    -------
    DataFrame[data, paper, verdict, X, Y, low, high]
    """
    is_drawn = table["unit"].isin(DRAWN) & table["published"].notna()
    drawn = table[is_drawn & (table["kind"] == EFFECT)]
    if not len(drawn):
        drawn = table[is_drawn].drop_duplicates(CELL).assign(status="undecided")
    data = drawn["profile"].replace({**DATA_OF, "": WITHOUT})
    drawn = drawn.assign(data=data, paper=drawn["paper"].map(PAPERS))
    names = {"published": X, "ours": Y, "status": "verdict"}
    frame = drawn.rename(columns=names)[["data", "paper", "verdict", X, Y, "low", "high"]]
    order = {name: place for place, name in enumerate([*DATA_OF.values(), *reversed(VERDICTS)])}
    frame = frame.sort_values(
        ["data", "verdict"], key=lambda names: names.map(order).fillna(len(order)), kind="stable"
    )
    return frame.astype({name: float for name in (X, Y, "low", "high")})


def page(table: pd.DataFrame, paper: str, number: str, profile: str) -> pd.DataFrame:
    """Return the effects of a printed table beside ours in a profile, for the page.

    Returns
    -------
    DataFrame[row, column, collection, published, ours, over, verdict]
        Without the collection, or what the intervals are over, where the profile has one of them.
    """
    is_asked = (table["paper"] == paper) & (table["table"] == number)
    is_asked &= (table["profile"] == profile) & (table["kind"] == EFFECT)
    asked = table[is_asked].reset_index(drop=True)
    unit = {"points": "points", "correlation": ""}
    ours = []
    theirs = []
    for row in asked.to_dict("records"):
        symbol = unit.get(row["unit"], "%")
        ours.append(spelled(row["ours"], row["low"], row["high"], symbol))
        theirs.append(with_unit(row["published"], symbol))
    numbers = {"published": theirs, "ours": ours, "verdict": asked["status"]}
    labels = asked[["row", "column", "collection"]]
    whole = labels.assign(**numbers)
    whole.insert(len(whole.columns) - 1, "over", asked["over"])
    is_same = whole[["collection", "over"]].nunique() == 1
    return whole.drop(columns=is_same.index[is_same])


def untestable(table: pd.DataFrame) -> pd.DataFrame:
    """Return why effects that a profile measures have no verdict, with the number of each reason.

    Returns
    -------
    DataFrame[data, paper, why, effects]
    """
    rows = table[table["status"] == UNTESTABLE]
    order = {profile: place for place, profile in enumerate(DATA_OF)}
    rows = rows.sort_values("profile", key=lambda names: names.map(order), kind="stable")
    rows = rows.assign(data=rows["profile"].replace(DATA_OF), paper=rows["paper"].map(PAPERS))
    groups = rows.groupby(["data", "paper", "why"], sort=False)
    return groups.size().rename("effects").reset_index()


def reasons(table: pd.DataFrame) -> pd.DataFrame:
    """Return why printed cells have no number of ours, with the number of cells of each reason."""
    absent = table[(table["profile"] == "") & ~table["derived"].astype(bool)]
    is_result = ~absent["status"].isin(["no result", "no number"])
    groups = absent[is_result].groupby(["paper", "table", "status", "why"], sort=False)
    frame = groups.size().rename("cells").reset_index()
    frame = frame.sort_values(
        "paper", key=lambda names: names.map(list(PAPERS).index), kind="stable"
    )
    return frame.assign(paper=frame["paper"].map(PAPERS))


def claims(profiles: Mapping[str, Path]) -> pd.DataFrame:
    """Return the papers' primary claims, and what the committed runs conclude.

    Returns
    -------
    DataFrame[paper, notebook, claim, published, real data, worlds, conclusion]
        What each of both says alone, a dash for nothing, and both together. In the order of
        `claims.yaml`; without rows where no claim is answered.
    """
    answers = {data: _answers(profiles.get(profile)) for data, profile in DATA.items()}
    lines = []
    for claim in stated().values():
        rows = {data: of[claim.name] for data, of in answers.items() if claim.name in of}
        if claim.paper in PAPERS and not claim.secondary and rows:
            lines.append(_line(claim, rows))
    columns = ["paper", "notebook", "claim", "published", *OF_DATA.values(), "conclusion"]
    return pd.DataFrame(lines, columns=columns)


def _answers(folder: Path | None) -> dict[str, dict[str, Any]]:
    """Return the rows of all claims that a profile answers, by their names."""
    found: dict[str, dict[str, Any]] = {}
    if folder is None:
        return found
    for path in sorted(folder.glob("*/tables/claims.csv")):
        table = pd.read_csv(path).astype(object)
        for row in table.fillna(NO_TEXTS).to_dict("records"):
            found[row["claim"]] = row
    return found


def _line(claim: Claim, rows: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return the row of a claim."""
    line = {
        "paper": PAPERS[claim.paper],
        "notebook": claim.notebook[:2],
        "claim": claim.sentence,
        "published": published(claim),
        "conclusion": conclusion(claim, rows),
    }
    for data, name in OF_DATA.items():
        alone = conclusion(claim, {data: rows[data]}) if data in rows else NONE
        outcome = alone.replace(f" {PLACES[data]}", "")
        line[name] = outcome.replace(" seen before", ", seen before")
    return line


def concluded(table: pd.DataFrame) -> pd.DataFrame:
    """Return how many claims have which outcome on real data, and in the worlds.

    Parameters
    ----------
    table
        Of `claims`.
    """
    counted = {name: table[name].value_counts() for name in OF_DATA.values()}
    frame = pd.DataFrame(counted).drop(index=NONE, errors="ignore").fillna(0).astype(int)
    return frame.rename_axis("outcome").reset_index()


@lru_cache
def _written() -> dict[str, Any]:
    """Read what people found in the papers."""
    return yaml.safe_load(FINDINGS.read_text(encoding="utf-8"))


def findings() -> pd.DataFrame:
    """Return the findings about the papers.

    Returns
    -------
    DataFrame[finding, about, cell, sentence, notebook, section, elsewhere]
        notebook and section: where it is shown, else empty.
    """
    rows = []
    for name, entry in _written()["findings"].items():
        sentence = entry["finding"]
        rest = {key: entry.get(key, "") for key in ("cell", "notebook", "section", "elsewhere")}
        rows.append({"finding": name, "about": entry["about"], "sentence": sentence, **rest})
    return pd.DataFrame(rows)


def listed(table: pd.DataFrame) -> str:
    """Return findings as a list in Markdown, each with a link to the notebook that shows it.

    Those about something else than the papers stand behind them.
    """
    is_aside = table["about"].isin(["this kit", "other software"])
    papers, others = (list(_items(part)) for part in (table[~is_aside], table[is_aside]))
    if others:
        others = ["", "Beside the papers:", "", *others]
    return "\n".join(papers + others)


def _items(table: pd.DataFrame) -> Iterator[str]:
    """Yield the item of each finding."""
    for row in table.to_dict("records"):
        cell = f", {row['cell']}" if row["cell"] else ""
        where = "No notebook shows it."
        if row["elsewhere"]:
            where = f"No notebook shows it; see {row['elsewhere']}."
        if row["notebook"]:
            number = row["notebook"][:2]
            where = f"[{number}]({row['notebook']}.ipynb), *{row['section']}*."
        yield f"- **{row['finding']}** ({row['about']}{cell}): {row['sentence']} {where}"


def public_runs(p: Parameters) -> list[PublicRun]:
    """Read the public runs of the parameters.

    Raises
    ------
    InputError
        A file is missing or broken, or a test set has no judgements.
    """
    qrels = {}
    for entry in p.qrels:
        test_set, path = plans.fields(entry, "test_set", "file")
        qrels[test_set] = read_qrels(with_data_folder(path))
    runs = []
    for entry in p.runs:
        test_set, system, path = plans.fields(entry, "test_set", "system", "file")
        if test_set not in qrels:
            raise InputError(f"parameter 'qrels': no file for the test set {test_set!r}")
        run = RunFile.read(with_data_folder(path))
        runs.append(PublicRun(test_set, system, run, qrels[test_set]))
    return runs


def unsaid() -> pd.DataFrame:
    """Return what a paper does not state, and where a notebook chooses it.

    Returns
    -------
    DataFrame[paper, what, notebook, where]
        where: a parameter, or a table that shows several choices.
    """
    return pd.DataFrame(_written()["unsaid"])


def answer_of_claims(of_claims: pd.DataFrame) -> str:
    """Return how many of the papers' claims real data decide, and which way, in a sentence.

    Parameters
    ----------
    of_claims
        Of `claims`.

    Examples
    --------
    >>> answer_of_claims(pd.DataFrame({"real data": ["agrees", "agrees", "undecided", NONE]}))
    "Real data decide 2 of the papers' 3 primary claims: 2 agree; 1 is undecided."
    """
    outcomes = of_claims["real data"]
    counted = outcomes[outcomes != NONE].value_counts()
    is_open = counted.index.str.startswith(OPEN_OUTCOMES)
    n_decided, n_asked = counted[~is_open].sum(), counted.sum()
    parts = [
        ", ".join(_with_verb(outcome, count) for outcome, count in part.items())
        for part in (counted[~is_open], counted[is_open])
    ]
    listed = "; ".join(part for part in parts if part)
    begin = f"Real data decide {n_decided} of the papers' {n_asked} primary claims"
    return f"{begin}: {listed}." if listed else f"{begin}."


def _with_verb(outcome: str, count: int) -> str:
    """Return how many claims have an outcome.

    Examples
    --------
    >>> _with_verb("agrees in direction", 3), _with_verb("undecided", 1)
    ('3 agree in direction', '1 is undecided')
    """
    verb, _, rest = outcome.partition(" ")
    if verb in VERBS:
        return f"{count} {verb if count == 1 else VERBS[verb]} {rest}".rstrip()
    return f"{count} {'is' if count == 1 else 'are'} {outcome}"


def answer(table: pd.DataFrame, of_profiles: pd.DataFrame) -> str:
    """Return the sentence that answers the title by the printed cells.

    Parameters
    ----------
    table
        Of `counts`.
    of_profiles
        Of `verdicts`.
    """
    total = table.iloc[-1]
    n_compared = total["effects compared"] + total["levels compared"]
    begin = f"{n_compared} of {total['printed cells']} printed cells have a number of ours beside"
    if not len(of_profiles):
        return f"{begin} them, since no results are here."
    return f"{begin} them. {sentence(of_profiles.iloc[0])}"


def sentence(row: Mapping[str, Any]) -> str:
    """Return how many effects of a profile have which verdict, a row of `verdicts`, in words."""
    name = DATA_OF.get(row["profile"], row["profile"])
    n_tested = row["effects"] - row[UNTESTABLE]
    n_contrary = row["opposite"] + row["differs"]
    return (
        f"Of {row['effects']} effects in {name}, {n_tested} can be tested: {row['agrees']} agree "
        f"in size, {row['same direction']} in direction alone, {n_contrary} differ, "
        f"{row['undecided']} are undecided."
    )

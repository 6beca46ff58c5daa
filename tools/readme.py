"""The results of the README and the page RESULTS.md, written from the committed reference tables and never by hand."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from interextra.ground.effects import spelled
from interextra.ground.errors import InputError
from interextra.papers.verdicts import DATA, REAL, WITHIN, Claim, conclusion, page, published, stated
from interextra.study.parameters import repository_root

BEGIN = "<!-- results: written by `make readme` from outputs/reference, compared by a test -->"
END = "<!-- end of results -->"
WHERE = {"MedQuAD": "real data", "worlds": "fourteen generated worlds"}  # heading of each of DATA
OVERLAP, EXPOSURE = "01_overlap_annotation_analysis", "09_negative_exposure"
SOURCES = {"zhan": "Zhan et al.", "lupart": "Lupart et al.", "hofstaetter": "Hofstätter et al.", "kit": "ours"}


def with_results(text: str, reference: Path) -> str:
    """The README's text with its results made new from `reference`, the folder outputs/reference."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError("README.md: the marks around the results are gone; put them back")
    found = answers(reference)
    lines = [f"| claim | published | {' | '.join(WHERE.values())} | conclusion |", "|---|---|---|---|---|"]
    for claim in (claim for claim in stated().values() if not claim.secondary):
        cells = [_cell(claim, data, rows.get(claim.name)) for data, rows in found.items()]
        source = f"{SOURCES[claim.paper]}, {claim.notebook[:2]}"
        ours = {data: rows[claim.name] for data, rows in found.items() if claim.name in rows}
        lines.append(
            f"| {claim.sentence} ({source}) | {published(claim)} | {' | '.join(cells)} | {conclusion(claim, ours)} |"
        )
    return "\n".join([head + BEGIN, *lines, "", _counts(reference, found), "", _known(reference), END + tail])


def answers(reference: Path) -> dict[str, dict[str, dict]]:
    """Data set → claim → its row in the committed tables `claims`, with an empty text where one is missing."""
    found: dict[str, dict[str, dict]] = {}
    for data, profile in DATA.items():
        tables = [pd.read_csv(path) for path in sorted((reference / profile).glob("*/tables/claims.csv"))]
        rows = [row for table in tables for row in table.astype(object).where(table.notna(), "").to_dict("records")]
        found[data] = {row["claim"]: row for row in rows}
    return found


def results_page(reference: Path) -> str:
    """RESULTS.md: every claim of every notebook on every data set, with its interval, counts and verdict."""
    parts = [
        "# All claims\n\nWritten by `make readme` from the tables `claims` under `outputs/reference`. Each claim was "
        "written down with its margin (`lib/interextra/papers/claims.yaml`), before the runs that answer it except on "
        "the data sets under `known`: there a verdict is descriptive. A "
        "relative change is in percent, a difference in points; negative is a loss. The intervals of a notebook's "
        "primary claims are simultaneous at 95 %; a secondary claim has an individual one and no verdict, and so has "
        "everything in a single generated world. *undecided* is followed by its reason and by the effect that the "
        "design detects with 80 % power; *out of reach* marks a claim that needs more than ten times the data. All "
        "other numbers of the kit are exploratory: they stand with individual 95 % intervals in the CSV files beside "
        "these tables."
    ]
    every, told = DATA | {"mini": "mini"}, set()
    for notebook in sorted({claim.notebook for claim in stated().values()}):
        tables = {data: reference / of / notebook / "tables" / "claims.csv" for data, of in every.items()}
        made = page({data: pd.read_csv(path) for data, path in tables.items() if path.is_file()})
        if made.empty:
            continue
        made = made.rename(columns={"fourteen worlds": WHERE["worlds"], "mini": "one generated world"})
        told |= set(made["claim"])
        rows = [made.columns, ["---"] * made.shape[1], *made.itertuples(index=False)]
        parts.append(f"## {notebook}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    unasked = [
        f"- {claim.sentence} ({claim.notebook[:2]})" for claim in stated().values() if claim.sentence not in told
    ]
    if unasked:
        parts.append("## Claims that no committed run evaluates\n\n" + "\n".join(unasked))
    return "\n\n".join(parts) + "\n"


def _cell(claim: Claim, data: str, row: Mapping | None) -> str:
    """Estimate, interval and verdict of a claim on a data set; † where its answer was known before."""
    if row is None:
        return "–"
    parts = [row["verdict"], row["size"] and WITHIN, row["reason"].startswith("gate") and "gate"]
    real = REAL.get(claim.name) or REAL.get(claim.notebook, "MedQuAD")
    known = "†" * ({"worlds": "worlds"}.get(data, real) in claim.known)
    return f"{spelled(row['estimate'], row['low'], row['high'], claim.unit)}{known} {', '.join(filter(None, parts))}"


def _counts(reference: Path, found: Mapping[str, Mapping]) -> str:
    """How many claims there are, how many are decided where, and how many comparisons stand beside them."""
    primary = [claim.name for claim in stated().values() if not claim.secondary]
    counted = []
    for data, rows in found.items():
        asked = [rows[name] for name in primary if name in rows]
        decided = sum(row["verdict"] in ("holds", "contradicted") for row in asked)
        counted.append(f"{decided} of {len(asked)} on {WHERE[data]}")
    tables = [path for of in DATA.values() for path in (reference / of).glob("*/tables/*.csv") if path.stem != "claims"]
    explored = sum(len(frame) for frame in map(pd.read_csv, tables) if {"low", "high"} <= set(frame))
    return (
        f"{len(primary)} primary claims. Decided are {', '.join(counted)}; the others are undecided. These data sets "
        f"also give {explored:,} exploratory estimates with individual 95 % intervals and no verdict. †: the answer "
        "there had been seen before the claim was written down, so that the verdict describes and does not confirm."
    )


def _known(reference: Path) -> str:
    """Table 3 of Zhan et al. in both readings, and how exposed negatives are where the loss was measured."""
    folder = reference / "small" / OVERLAP
    share = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["share_of_training_queries_with_labels"]
    table = pd.read_csv(folder / "tables" / "label_overlap.csv").query("relevance_threshold == 1")
    caption, script = (part.set_index("test_set").loc[["dl19", "dl20"]] for _, part in table.groupby("min_shared"))
    printed = script["published_percent"]
    both = ["{:.0f} and {:.0f} %".format(*column) for column in (script["percent"], caption["percent"], printed)]
    apart = [(reading["percent"] - printed).abs() for reading in (script, caption)]
    nearer = {1.0: "the script's count is nearer", 0.0: "the caption's count is nearer"}
    nearest = nearer.get((apart[0] < apart[1]).mean(), "a different count is nearer in each")
    n, labelled = " and ".join(map(str, script["n_queries"])), f"{100 * share:.0f} %"
    shared = (
        f"Zhan et al. report that {both[2]} of the DL 2019 and DL 2020 queries share relevant passages with training "
        f"queries. We find {both[0]} with two shared passages or more, as the released script counts, and {both[1]} "
        f"with one, as the caption says: {nearest} ({n} queries; lower bounds, with the labels of {labelled} of the "
        "training queries; 01)."
    )
    tables = reference / "small" / EXPOSURE / "tables"
    seen = pd.read_csv(tables / "exposed_negatives.csv").query("negatives == 'random' and negative_passages == 'all'")
    there = pd.read_csv(tables / "on_ms_marco.csv")["exposed"]
    arms = {row["claim"]: row["verdict"] for row in answers(reference)["worlds"].values()}
    costs = arms.get("exposure-kind") == arms.get("exposure-other-kinds") == "holds"
    by_kind = "In the worlds those of the left-out kind cost effectiveness, and exposed ones of other kinds do not. "
    exposed = (
        f"On MedQuAD {100 * seen['exposed_negatives'].mean():.0f} % of the random negatives are exposed: relevant to "
        f"a query outside the training set and to none inside (09). {by_kind * costs}How many passages of a held-out "
        "kind MS MARCO has is not known; with a fifth of the queries held out, judged answers alone are "
        f"{100 * there[0]:.1f} % of the random negatives and up to {100 * there.max():.1f} % of BM25's."
    )
    return f"{shared}\n\n{exposed}"


if __name__ == "__main__":
    root = repository_root()
    readme, tables = root / "README.md", root / "outputs" / "reference"
    readme.write_text(with_results(readme.read_text(encoding="utf-8"), tables), encoding="utf-8")
    (root / "RESULTS.md").write_text(results_page(tables), encoding="utf-8")

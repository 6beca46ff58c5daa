"""The parts of README.md and RESULTS.md that hold numbers, written from the committed reference and
never by hand.

`python -m tools.readme` (`make readme`) writes the text between each pair of marks, and the
README's figure. `python -m tools.readme sample` first measures the run again whose output the
README shows; it takes two minutes.
"""

import inspect
import io
import json
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

import pandas as pd
import yaml
from matplotlib.figure import Figure

from interextra import figures
from interextra.claims.claim import Claim, stated
from interextra.claims.judgement import WITHIN
from interextra.claims.wording import DATA, NAMED, REAL, conclusion, page, published
from interextra.cli import main
from interextra.site.repository import notebooks, repository_root
from interextra.stats.formatting import spelled
from interextra.store.errors import InputError, offenders
from interextra.world.generate import generate_mini

BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
WHERE = {"MedQuAD": "real data", "worlds": "fourteen generated worlds"}  # heading of each of DATA
OVERLAP, EXPOSURE = "01_overlap_annotation_analysis", "09_negative_exposure"
SOURCES = {
    "zhan": "Zhan et al.",
    "lupart": "Lupart et al.",
    "hofstaetter": "Hofstätter et al.",
    "kit": "ours",
}
NO_BREAK = "\N{NO-BREAK SPACE}"
WRITTEN = Path(__file__).with_suffix(".yaml")  # what people write beside the numbers
FIGURE = "book/static/losses.png"
# values per query of the run whose output the README shows
SAMPLE = "outputs/reference/development/probe"
LABEL = "← loss   |   change in effectiveness   |   gain →"
MODEL = "tiny-base"  # that it fine-tunes
DESIGN = ["--collection", "mini", "--test-splits", "test", "graded"]  # of that run


def filled(text: str, blocks: Mapping[str, str]) -> str:
    """A page with new text between its marks `<!-- generated: NAME -->` and `<!-- end -->`, for the
    names in `blocks`.

    >>> filled("a\\n<!-- generated: n -->\\nold\\n<!-- end -->\\nb", {"n": "new"})
    'a\\n<!-- generated: n -->\\nnew\\n<!-- end -->\\nb'
    """
    if missing := blocks.keys() - {name for _, name, _ in BLOCK.findall(text)}:
        raise InputError(
            f"no marks for the parts {offenders(sorted(missing))}: put them back into the page"
        )

    def new(found: re.Match) -> str:
        begin, name, end = found.groups()
        return f"{begin}{blocks[name]}\n{end}" if name in blocks else found[0]

    return BLOCK.sub(new, text)


def readme(reference: Path) -> dict[str, str]:
    """Name → text of the generated parts of README.md, except the sample, which takes seconds: see
    `sample`.
    """
    return {
        "figure": _figure(reference),
        "findings": _findings(reference),
        "notebooks": _notebooks(reference),
    }


def results(reference: Path) -> dict[str, str]:
    """Name → text of the generated parts of RESULTS.md."""
    found = answers(reference)
    return {
        "counts": _counts(reference, found),
        "primary": _primary(found),
        "gates": _gates(),
        "readings": _readings(reference),
        "exposure": _exposure(reference, found),
        "mismatch": _mismatch(reference),
        "claims": _claims(reference),
    }


def answers(reference: Path) -> dict[str, dict[str, dict]]:
    """Data set → claim → its row in the committed tables `claims`, with an empty text where one is
    missing.
    """
    found: dict[str, dict[str, dict]] = {}
    for data, profile in DATA.items():
        tables = [
            pd.read_csv(path) for path in sorted((reference / profile).glob("*/tables/claims.csv"))
        ]
        rows = [
            row
            for table in tables
            for row in table.astype(object).where(table.notna(), "").to_dict("records")
        ]
        found[data] = {row["claim"]: row for row in rows}
    return found


def losses(reference: Path) -> pd.DataFrame:
    """The rows of the README's figure: system, data, change, low, high, excluded, published.

    What is published is a row of its own. Excluded is a system that is not shown to beat BM25 in
    domain.
    """
    rows, found = [], answers(reference)
    for label, name in written("losses").items():
        rows.append((label, "published", None, None, None, False, stated()[name].published))
        for data, of in found.items():
            if name in of:
                row = of[name]
                ends, excluded = (row["low"], row["high"]), row["reason"].startswith("gate")
                rows.append((label, NAMED.get(data, data), row["estimate"], *ends, excluded, None))
    frame = pd.DataFrame(
        rows, columns=["system", "data", "change", "low", "high", "excluded", "published"]
    )
    return frame.astype(dict.fromkeys(("change", "low", "high", "published"), float))


def draw(reference: Path, path: Path) -> None:
    """Write the README's figure, with the numbers that it shows among its metadata."""
    frame = losses(reference)
    figures.style()
    drawn = figures.forest(frame, "system", "change", LABEL, hue="data", percent=True)
    _one_legend(drawn)
    drawn.savefig(path, metadata={"Software": None, "Description": shown_in(frame)})


def _one_legend(drawn: Figure) -> None:
    """Instead of the two legends of a forest, in which what is published stands twice."""
    colours, marks = (legend.legend_handles for legend in drawn.legends)
    names = {
        mark.get_label(): mark for mark in (*colours, *marks)
    }  # of two with one name the diamond
    names.pop("estimate, 95 % interval")
    for legend in list(drawn.legends):
        legend.remove()
    made = drawn.legend(handles=list(names.values()), loc="upper center", ncols=2, borderaxespad=0)
    engine, above = drawn.get_layout_engine(), made.get_window_extent().height / drawn.dpi
    tall = drawn.get_figheight() * engine.get()["rect"][3]  # inches of the panel
    drawn.set_figheight(tall + above)
    engine.set(rect=(0, 0, 1, tall / (tall + above)))


def shown_in(frame: pd.DataFrame) -> str:
    """The numbers of a figure as text, to tell whether it is that of today's reference."""
    return frame.round(6).to_csv(index=False)


def sample(root: Path) -> str:
    """What `regimes` prints for the committed values of `probe` on the generated collection,
    without its files.
    """
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(printed):
        design = ["split", "restrain", *DESIGN, "--out", f"{folder}/split"]
        measure = ["regimes", "--split", f"{folder}/split", "--out", f"{folder}/regimes"]
        codes = [main(design), main([*measure, "--runs", f"{root / SAMPLE}/{{part}}.{{seed}}.csv"])]
    if any(codes):
        raise InputError(
            "the sample of the README cannot be made: run `python -m tools.readme sample`"
        )
    lines = [line for line in printed.getvalue().splitlines() if folder not in line]
    lines = [
        part for line in lines for part in textwrap.wrap(line, 118, subsequent_indent="  ") or [""]
    ]
    command = f"$ .venv/bin/interextra probe -m {MODEL} {' '.join(DESIGN)}"
    return "\n".join(["```console", command, *lines, "```"]).replace("\n\n```", "\n```")


def measure_sample(root: Path) -> None:
    """Fine-tune the model as the README says, and keep the values per query of its runs."""
    with tempfile.TemporaryDirectory() as folder:
        if main(["probe", "-m", MODEL, *DESIGN, "--output-folder", folder]):
            raise InputError("the command of the README failed; see above")
        values = pd.read_csv(f"{folder}/values.csv", dtype={"qid": str})
        manifest = json.loads(Path(folder, "split", "manifest.json").read_text(encoding="utf-8"))
    shutil.rmtree(root / SAMPLE, ignore_errors=True)
    (root / SAMPLE).mkdir(parents=True)
    for name, of_run in values.groupby("name"):
        regime, seed = name.split(", training ")
        [part] = [part for part in manifest["sets"] if part.startswith(f"{regime}-")]
        of_run.assign(name="model").to_csv(root / SAMPLE / f"{part}.{seed}.csv", index=False)


def written(part: str) -> dict[str, str]:
    """A part of readme.yaml; InputError: it names a claim that is not stated."""
    found = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))[part]
    named = {"findings": found, "losses": found.values()}.get(part, ())
    if unknown := [name for name in named if name not in stated()]:
        raise InputError(f"{WRITTEN.name}, {part}: no claim {offenders(unknown)} in claims.yaml")
    return found


def _figure(reference: Path) -> str:
    """The figure, described for those who do not see it."""
    frame = losses(reference)
    percent = (100 * frame["change"].fillna(frame["published"])).round().astype(int)
    table = frame.assign(percent=percent).pivot(index="system", columns="data", values="percent")
    table = table.loc[frame["system"].unique(), frame["data"].unique()]
    seen = [
        f"{system}: {', '.join(f'{value:+.0f}' for value in values)}"
        for system, *values in table.itertuples()
    ]
    alt = f"Relative changes in percent ({', '.join(table)}). {'; '.join(seen)}."
    return _paragraph(f'<img src="{FIGURE}" width="600" alt="{escape(alt)}">')


def _findings(reference: Path) -> str:
    """Eight claims: what came out, the estimates, and what to bear in mind."""
    lines = ["| finding | published | real data | worlds | caveat |", "|---|---|---|---|---|"]
    found = answers(reference)
    for name, caveat in written("findings").items():
        claim, rows = stated()[name], {data: of[name] for data, of in found.items() if name in of}
        finding = (
            f"{claim.sentence} **{conclusion(claim, rows).capitalize()}** ({claim.notebook[:2]})"
        )
        estimates = [_estimate(claim, data, rows.get(data)) for data in DATA]
        if rows.get("MedQuAD"):
            estimates[0] = f"{_real(claim)}: {estimates[0]}"
        lines.append(f"| {finding} | {published(claim)} | {' | '.join(estimates)} | {caveat} |")
    return "\n".join(lines)


def _notebooks(reference: Path) -> str:
    """A line each: number, question, what it reproduces."""
    root = reference.parents[1]
    lines = ["| notebook | question | reproduces |", "|---|---|---|"]
    for path in notebooks(root):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        question = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
        number = path.stem[:2]
        lines.append(
            f"| [{number}](notebooks/{path.name}) | {question} | {written('notebooks')[number]} |"
        )
    return "\n".join(lines)


def _primary(found: Mapping[str, Mapping]) -> str:
    """A row a primary claim: what is published, what each data set says of it, and both
    together.
    """
    lines = [
        f"| claim | published | {' | '.join(WHERE.values())} | conclusion |",
        "|---|---|---|---|---|",
    ]
    for claim in (claim for claim in stated().values() if not claim.secondary):
        cells = [_cell(claim, data, rows.get(claim.name)) for data, rows in found.items()]
        source = f"{SOURCES[claim.paper]}, {claim.notebook[:2]}"
        ours = {data: rows[claim.name] for data, rows in found.items() if claim.name in rows}
        lines.append(
            f"| {claim.sentence} ({source}) | {published(claim)} | {' | '.join(cells)} | {conclusion(claim, ours)} |"
        )
    return "\n".join(lines)


def _claims(reference: Path) -> str:
    """Every claim of every notebook on every data set, with its interval, counts and verdict."""
    parts = []
    every, told = DATA | {"mini": "mini"}, set()
    for notebook in sorted({claim.notebook for claim in stated().values()}):
        tables = {
            data: reference / of / notebook / "tables" / "claims.csv" for data, of in every.items()
        }
        made = page({data: pd.read_csv(path) for data, path in tables.items() if path.is_file()})
        if made.empty:
            continue
        made = made.rename(
            columns={"fourteen worlds": WHERE["worlds"], "mini": "one generated world"}
        )
        told |= set(made["claim"])
        rows = [made.columns, ["---"] * made.shape[1], *made.itertuples(index=False)]
        parts.append(f"### {notebook}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows))
    unasked = [
        f"- {claim.sentence} ({claim.notebook[:2]})"
        for claim in stated().values()
        if claim.sentence not in told
    ]
    if unasked:
        parts.append("### Claims that no committed run evaluates\n\n" + "\n".join(unasked))
    return "\n\n".join(parts)


def _cell(claim: Claim, data: str, row: Mapping | None) -> str:
    """Estimate, interval and verdict of a claim on a data set; † where its answer was known
    before.
    """
    if row is None:
        return "–"
    parts = [row["verdict"], row["size"] and WITHIN, row["reason"].startswith("gate") and "gate"]
    return f"{_estimate(claim, data, row)} {', '.join(filter(None, parts))}"


def _estimate(claim: Claim, data: str, row: Mapping | None) -> str:
    """Estimate and interval of a claim on a data set; † where its answer was known before."""
    if row is None:
        return "–"
    known = {"worlds": "worlds"}.get(data, _real(claim)) in claim.known
    return _unbroken(spelled(row["estimate"], row["low"], row["high"], claim.unit)) + "†" * known


def _unbroken(estimate: str) -> str:
    """With spaces at which a narrow column breaks only between the estimate and its interval."""
    value, bracket, interval = estimate.partition(" [")
    return value.replace(" ", NO_BREAK) + bracket + interval.replace(" ", NO_BREAK)


def _real(claim: Claim) -> str:
    """The real data that answers a claim."""
    return REAL.get(claim.name) or REAL.get(claim.notebook, "MedQuAD")


def _counts(reference: Path, found: Mapping[str, Mapping]) -> str:
    """How many claims there are, how many are decided where, and how many comparisons stand beside
    them.
    """
    primary = [claim.name for claim in stated().values() if not claim.secondary]
    counted = []
    for data, rows in found.items():
        asked = [rows[name] for name in primary if name in rows]
        decided = sum(row["verdict"] in ("holds", "contradicted") for row in asked)
        counted.append(f"{decided} of {len(asked)} on {WHERE[data]}")
    tables = [
        path
        for of in DATA.values()
        for path in (reference / of).glob("*/tables/*.csv")
        if path.stem != "claims"
    ]
    explored = sum(
        len(frame) for frame in map(pd.read_csv, tables) if {"low", "high"} <= set(frame)
    )
    return _paragraph(
        f"The kit states {len(primary)} primary claims. It decides {' and '.join(counted)}; the others are undecided. "
        f"The same data sets give {explored:,} exploratory estimates, with individual 95 % intervals and no verdict."
    )


def _gates() -> str:
    """Which claims a system must earn by beating BM25 in domain, and which are judged without
    that.
    """
    primary = [claim for claim in stated().values() if not claim.secondary]
    gated = sum(claim.is_gated for claim in primary)
    said = [
        f"{gated} of the {len(primary)} primary claims have this gate (`gate` in claims.yaml). Without it are"
    ]
    reasons = {
        "none: one system": "contrasts within one system",
        "none: as published": "claims about BM25 itself",
    }
    for gate, words in reasons.items():
        said += ["", f"{words}:", ""]
        said += [
            f"- {claim.sentence} ({claim.notebook[:2]})" for claim in primary if claim.gate == gate
        ]
    return "\n".join([*said, "", "and claims about no system that is trained."])


def _readings(reference: Path) -> str:
    """Table 3 of Zhan et al. in both readings."""
    folder = reference / "small" / OVERLAP
    share = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))[
        "share_of_training_queries_with_labels"
    ]
    table = pd.read_csv(folder / "tables" / "label_overlap.csv").query("relevance_threshold == 1")
    caption, script = (
        part.set_index("test_set").loc[["dl19", "dl20"]] for _, part in table.groupby("min_shared")
    )
    printed = script["published_percent"]
    both = [
        "{:.0f} and {:.0f} %".format(*column)
        for column in (script["percent"], caption["percent"], printed)
    ]
    apart = [(reading["percent"] - printed).abs() for reading in (script, caption)]
    nearer = {1.0: "the script's count is nearer", 0.0: "the caption's count is nearer"}
    nearest = nearer.get((apart[0] < apart[1]).mean(), "a different count is nearer in each")
    n, labelled = " and ".join(map(str, script["n_queries"])), f"{100 * share:.0f} %"
    return _paragraph(
        f"Zhan et al. report that {both[2]} of the DL 2019 and DL 2020 queries share relevant passages with training "
        f"queries. We find {both[0]} with two shared passages or more, as the released script counts, and {both[1]} "
        f"with one, as the caption says: {nearest}. These are shares of {n} queries and lower bounds, since we have "
        f"the labels of {labelled} of the training queries (01)."
    )


def _exposure(reference: Path, found: Mapping[str, Mapping]) -> str:
    """How exposed negatives are where the loss was measured, and on MS MARCO."""
    tables = reference / "small" / EXPOSURE / "tables"
    seen = pd.read_csv(tables / "exposed_negatives.csv").query(
        "negatives == 'random' and negative_passages == 'all'"
    )
    there = pd.read_csv(tables / "on_ms_marco.csv")["exposed"]
    arms = {name: row["verdict"] for name, row in found["worlds"].items()}
    costs = arms.get("exposure-kind") == arms.get("exposure-other-kinds") == "holds"
    by_kind = "In the worlds those of the left-out kind cost effectiveness, and exposed ones of other kinds do not. "
    return _paragraph(
        f"On MedQuAD {100 * seen['exposed_negatives'].mean():.0f} % of the random negatives are exposed: relevant to "
        f"a query outside the training set and to none inside (09). {by_kind * costs}How many passages of a held-out "
        "kind MS MARCO has is not known. With a fifth of its queries held out, judged answers alone are "
        f"{100 * there[0]:.1f} % of the random negatives and up to {100 * there.max():.1f} % of BM25's."
    )


def _mismatch(reference: Path) -> str:
    """What dense retrieval loses in the development worlds, by their mismatch."""
    table = pd.read_csv(reference / "development" / "03_resttest" / "tables" / "mismatch.csv")
    dense, bm25 = (table[table["model"] == name] for name in ("DR (base)", "BM25"))
    reported = inspect.signature(generate_mini).parameters["mismatch"].default
    lines = ["| mismatch | dense retrieval | BM25 |", "|---|---|---|"]
    for ours, theirs in zip(dense.itertuples(), bm25.itertuples(), strict=True):
        both = [spelled(row.delta, row.low, row.high) for row in (ours, theirs)]
        label = (
            f"{ours.mismatch}, as in the reported worlds"
            if ours.mismatch == reported
            else ours.mismatch
        )
        lines.append(f"| {label} | {' | '.join(both)} |")
    return "\n".join(lines)


def _paragraph(text: str) -> str:
    """As wide as the text that people write beside it."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    root = repository_root()
    if "sample" in sys.argv[1:]:
        measure_sample(root)
    tables = root / "outputs" / "reference"
    draw(tables, root / FIGURE)
    pages = {"README.md": readme(tables) | {"sample": sample(root)}, "RESULTS.md": results(tables)}
    for name, blocks in pages.items():
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(filled(text, blocks), encoding="utf-8")

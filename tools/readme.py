"""The results of the README and the page RESULTS.md, written from the committed reference tables and never by hand."""

import json
from pathlib import Path

import pandas as pd
import yaml

from interextra.ground.effects import spelled
from interextra.ground.errors import InputError
from interextra.papers.verdicts import page
from interextra.study.parameters import repository_root

BEGIN = "<!-- results: written by `make readme` from outputs/reference, compared by a test -->"
END = "<!-- end of results -->"
WHERE = {"small": "MedQuAD", "worlds": "five generated worlds", "mini": "one generated world"}
OVERLAP, FORESIGHT, EXPOSURE = "01_overlap_annotation_analysis", "07_indicators", "09_negative_exposure"
TRANSFER = "08_beir_correlation"
QUESTIONS = yaml.safe_load(Path(__file__).with_name("questions.yaml").read_text(encoding="utf-8"))


def with_results(text: str, reference: Path) -> str:
    """The README's text with its results made new from `reference`, the folder outputs/reference."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError("README.md: the marks around the results are gone; put them back")
    lines = ["| what the papers say | what came out here | verdict |", "|---|---|---|", _overlaps(reference)]
    for asked in QUESTIONS:
        if row := _finding(reference, asked["notebook"], asked["finding"], asked.get("where", "index == index")):
            lines.append(f"| {asked['question']} | {_told(row, asked['notebook'])} | {row['verdict']} |")
    return "\n".join([head + BEGIN, *lines, "", _exposed(reference), END + tail])


def results_page(reference: Path) -> str:
    """RESULTS.md: every finding of every notebook and profile, with its interval, counts and verdict."""
    parts = ["# All findings\n\nWritten by `make readme` from the tables `findings` under `outputs/reference`."]
    parts.append(
        "An effect is a relative loss, or the difference of two in points; in 07 and 08 also a correlation or a width. "
        "Intervals of one notebook and profile hold together with 95 %. *not comparable*: a system that does not beat "
        "BM25 in domain, so that nothing is said of its loss (the gate); *not shown*: the interval holds both. Claims "
        "were written down before the runs; one generated world decides none of them."
    )
    for profile, where in WHERE.items():
        for path in sorted((reference / profile).glob("*/tables/findings.csv")):
            frame = pd.read_csv(path)
            if "n_trainings" not in frame:
                continue
            notebook = path.parent.parent.name
            parts.append(f"## {notebook}, {where}\n")
            labels = [name for name in frame if name in ("protocol", "n_train", "measure", "shift", "model")]
            lines = ["| finding | effect | queries | trainings | verdict |", "|---|---|---|---|---|"]
            for row in frame.to_dict("records"):
                said = ", ".join([*(str(row[name]) for name in labels), row["finding"]])
                lines.append(
                    f"| {said} | {_effect(row, notebook)} | {row['n_queries']:,} "
                    f"| {row['n_trainings']} | {row['verdict']} |"
                )
            parts.append("\n".join(lines))
        for path in sorted((reference / profile).glob("*/tables/claims.csv")):
            parts.append(f"## {path.parent.parent.name}, {where}: claims\n")
            lines = ["| claim | published | what came out here |", "|---|---|---|"]
            made = page({"here": pd.read_csv(path)})
            lines += [f"| {row.claim} | {row.published} | {row.here} |" for row in made.itertuples()]
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _overlaps(reference: Path) -> str:
    """Table 3 in both readings."""
    folder = reference / "small" / OVERLAP
    known = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))["share_of_training_queries_with_labels"]
    table = pd.read_csv(folder / "tables" / "label_overlap.csv").query("relevance_threshold == 1")
    caption, script = (part.set_index("test_set").loc[["dl19", "dl20"]] for _, part in table.groupby("min_shared"))
    published = script["published_percent"]
    both = ["{:.0f} and {:.0f} %".format(*column) for column in (script["percent"], caption["percent"], published)]
    said = f"{both[0]} with two shared passages or more, as the released script counts, {both[1]} with one, as the "
    said += f"caption says; at least, with the labels of {100 * known:.0f} % of the training queries"
    script_apart, caption_apart = ((reading["percent"] - published).abs() for reading in (script, caption))
    nearer = {1.0: "the script's count is nearer", 0.0: "the caption's count is nearer"}
    verdict = nearer.get((script_apart < caption_apart).mean(), "a different count is nearer in each")
    question = f"Zhan: {both[2]} of the DL 2019 and DL 2020 queries share relevant passages with training"
    return f"| {question} | {said}; {' and '.join(map(str, script['n_queries']))} queries (01) | {verdict} |"


def _exposed(reference: Path) -> str:
    """How exposed negatives are where the loss was measured, and on MS MARCO."""
    tables = reference / "small" / EXPOSURE / "tables"
    seen = pd.read_csv(tables / "exposed_negatives.csv").query("negatives == 'random' and negative_passages == 'all'")
    there = pd.read_csv(tables / "on_ms_marco.csv")["exposed"]
    said = f"On MedQuAD {seen['exposed_negatives'].mean():.0%} of the random negatives are exposed: they answer no "
    said += f"training query, but another one. On MS MARCO {there[0]:.1%} would answer a held-out query only, with a "
    said += f"fifth held out, and up to {there.max():.1%} of BM25's; unjudged passages of the same kind are not "
    return said.replace("%", " %") + "counted. What this costs there is not measured."


def _finding(reference: Path, notebook: str, finding: str, query: str) -> dict:
    """The row of a finding from real data, or else from generated worlds; empty where there is none."""
    for profile in WHERE:
        path = reference / profile / notebook / "tables" / "findings.csv"
        frame = pd.read_csv(path) if path.is_file() else pd.DataFrame()
        found = frame[frame["finding"] == finding].query(query) if "n_trainings" in frame else frame[:0]
        if len(found):
            return found.iloc[-1].to_dict() | {"profile": profile}
    return {}


def _effect(row: dict, notebook: str) -> str:
    """With its unit: a loss in percent, the difference of two in points; 07 and 08 have correlations and widths."""
    alone = ": a loss" in row["finding"] or ": no loss" in row["finding"]
    unit = "" if notebook in (FORESIGHT, TRANSFER) else "%" if alone else "points"
    return "Spearman " * (notebook == TRANSFER) + spelled(row["estimate"], row["low"], row["high"], unit)


def _told(row: dict, notebook: str) -> str:
    trainings = f"{row['n_trainings']} training{'s' * (row['n_trainings'] > 1)} of each system"
    by = f" by {row['shift']}" if "shift" in row else ""
    where = f"{WHERE[row['profile']]} ({notebook[:2]})"
    return f"{_effect(row, notebook)}{by}; {row['n_queries']:,} queries, {trainings}, {where}"


if __name__ == "__main__":
    root = repository_root()
    readme, tables = root / "README.md", root / "outputs" / "reference"
    readme.write_text(with_results(readme.read_text(encoding="utf-8"), tables), encoding="utf-8")
    (root / "RESULTS.md").write_text(results_page(tables), encoding="utf-8")

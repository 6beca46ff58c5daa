"""The results table of the README, written from the committed reference tables and never by hand."""

import json
from pathlib import Path

import pandas as pd

from interextra.ground.errors import InputError
from interextra.papers.lupart_losses import MODELS, published_losses
from interextra.study import published

BEGIN = "<!-- results: written by `make readme` from outputs/reference, compared by a test -->"
END = "<!-- end of results -->"
YEARS = {"dl19": "2019", "dl20": "2020"}
WORLDS = {"mini": "embedded world", "small": "MedQuAD, two layers of MiniLM"}
PROTOCOLS = {"restrain": "ReSTrain", "resttest": "ReSTTest"}


def _label_overlap(reference: Path) -> list[tuple]:
    """Table 3: the count that the release's script makes, and the one that the caption defines."""
    frame = pd.read_csv(reference / "small" / "01_overlap_annotation_analysis" / "tables" / "label_overlap.csv")
    kept = frame[frame["test_set"].isin(YEARS) & frame["relevance_threshold"].isin([1, 3])]
    metrics = json.loads((reference / "small" / "01_overlap_annotation_analysis" / "metrics.json").read_text())
    data = f"real, {metrics['share_of_training_queries_with_labels']:.0%} of the training queries' labels"
    rows = []
    for (test_set, level), pair in kept.groupby(["test_set", "relevance_threshold"]):
        count = {
            row.min_shared: f"{row.n_overlapping} of {row.n_queries} ({row.percent:.0f} %)" for row in pair.itertuples()
        }
        what = f"DL {YEARS[test_set]} queries sharing passages of relevance ≥ {level} with training (Zhan, Table 3)"
        ours = f"≥ 2 shared: {count[2]}; ≥ 1, as the caption says: {count[1]}"
        rows.append((what, f"{pair['published_percent'].iloc[0]:.0f} %", ours, data))
    return rows


def _architectures(reference: Path) -> list[tuple]:
    """Tables 6 and 7: Δ of the five systems at the largest size, embedded world and MedQuAD."""
    rows = []
    for number, name, measure in ((6, "restrain", "nDCG@10"), (7, "resttest", "RR@10")):
        printed = published.load("zhan", number).query("regime == 'delta' and measure == @measure")
        tables = {}
        for profile in ("mini", "small"):
            path = reference / profile / "05_architecture_comparison" / "tables" / f"{name}.csv"
            frame = pd.read_csv(path).query("measure == @measure")
            frame = frame[frame["average"] == "micro"] if "average" in frame else frame
            tables[profile] = frame.sort_values("n_train").groupby("model", sort=False).last()
        for model, values in printed.groupby("model", sort=False)["value"]:
            theirs = " … ".join(dict.fromkeys(f"{value:+.0f} %" for value in (values.iloc[0], values.iloc[-1])))
            ours = "; ".join(
                f"{WORLDS[profile]} {row.delta:+.1%} [{row.delta_low:+.1%}, {row.delta_high:+.1%}]"
                for profile, row in ((profile, table.loc[model]) for profile, table in tables.items())
            )
            what = f"{model}: Δ {measure}, {PROTOCOLS[name]} (Zhan, Table {number})"
            rows.append((what, theirs, ours, f"{tables['mini'].loc[model, 'n_train']:,.0f} and "
                         f"{tables['small'].loc[model, 'n_train']:,.0f} training queries"))  # fmt: skip
    return rows


def _rules(reference: Path) -> list[tuple]:
    """The released clusters of MS-Shift, explained by the rules to the query."""
    frame = pd.read_csv(reference / "small" / "04_ms_shift_clusters" / "tables" / "rule_agreement.csv")
    rules = (("length", "spaces", "a query with up to four single spaces is short"),
             ("wh-words", "contains", "the letters of a cluster's words anywhere in the query"))  # fmt: skip
    rows = []
    for shift, rule, what in rules:
        counts = frame[(frame["shift"] == shift) & (frame["rule"] == rule)][["n_agree", "n_released"]].sum()
        ours = f"{what}: explains {counts['n_agree']:,} of {counts['n_released']:,}"
        rows.append((f"{shift}: the rule behind the released queries (Lupart §3.1)", "in words", ours, "real"))
    return rows


def _shifts(reference: Path) -> list[tuple]:
    """Tables 2 and 3: mean RelLoss over the clusters of a shift, embedded world and MedQuAD."""
    theirs = published_losses(ours=True).groupby(["shift", "model"])["rel_loss"].agg(["min", "max"])
    tables = {
        profile: pd.read_csv(reference / profile / "04_ms_shift_clusters" / "tables" / "mean_loss.csv")
        for profile in WORLDS
    }
    rows = []
    for shift, table, alike in (("topics", 2, "topics"), ("wh-words", 3, "question type"), ("length", 3, "length")):
        for model in list(MODELS)[1:]:
            ours = []
            for profile, name in (("mini", shift), ("small", alike)):
                frame = tables[profile].query("shift == @name and model == @model and measure == 'RR@10'")
                row, label = frame.iloc[0], WORLDS[profile] + (f", {name}" if name != shift else "")
                ours.append(f"{label} {row['rel_loss']:.1%} [{row['low']:.1%}, {row['high']:.1%}]")
            low, high = 100 * theirs.loc[(shift, model)]
            what = f"{model}: RelLoss of RR@10, {shift} (Lupart, Table {table})"
            rows.append((what, f"{low:.1f} % … {high:.1f} %", "; ".join(ours), "mean over the clusters"))
    return rows


def results(reference: Path) -> str:
    """The table in Markdown: finding, published, ours with counts or 95 % intervals, data."""
    parts = (_label_overlap, _architectures, _rules, _shifts)
    rows = [row for part in parts for row in part(reference)]
    lines = ["| finding | published | ours | data |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def with_results(text: str, reference: Path) -> str:
    """The README's text with its results table made new."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError("README.md: the marks around the results table are gone; put them back")
    return f"{head}{BEGIN}\n{results(reference)}\n{END}{tail}"


def main() -> None:
    path = Path("README.md")
    path.write_text(with_results(path.read_text(encoding="utf-8"), Path("outputs/reference")), encoding="utf-8")


if __name__ == "__main__":
    main()

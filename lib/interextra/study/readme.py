"""The results table of the README, written from the committed reference tables and never by hand."""

import json
from pathlib import Path

import pandas as pd

from interextra.errors import InputError
from interextra.study import published

BEGIN = "<!-- results: written by `make readme` from outputs/reference, compared by a test -->"
END = "<!-- end of results -->"
YEARS = {"dl19": "2019", "dl20": "2020"}


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


def _restrain(reference: Path) -> list[tuple]:
    """Table 6: Δ nDCG@10 at the smallest and the largest size."""
    six = published.load("zhan", 6).query("regime == 'delta' and measure == 'nDCG@10'")
    rows = []
    for model in ("BM25", "DR (base)"):
        values = six[six["model"] == model]["value"]
        theirs = " … ".join(dict.fromkeys(f"{value:+.0f} %" for value in (values.iloc[0], values.iloc[-1])))
        for profile, data in (("mini", "embedded world"), ("small", "MedQuAD, two layers of MiniLM")):
            frame = pd.read_csv(reference / profile / "02_restrain" / "tables" / "restrain.csv")
            part = frame[(frame["model"] == model) & (frame["measure"] == "nDCG@10")].sort_values("n_train")
            ours = "; ".join(
                f"{row.n_train:,} queries: {row.delta:+.1%} [{row.delta_low:+.1%}, {row.delta_high:+.1%}]"
                for row in part.iloc[[0, -1]].itertuples()
            )
            rows.append((f"{model}: Δ nDCG@10 from interpolation to extrapolation (Zhan, Table 6)", theirs, ours, data))
    return rows


def results(reference: Path) -> str:
    """The table in Markdown: finding, published, ours with counts or 95 % intervals, data."""
    lines = ["| finding | published | ours | data |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in (*_label_overlap(reference), *_restrain(reference))]
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

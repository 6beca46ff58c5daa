"""The results table of the README, written from the committed reference tables and never by hand."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from interextra.ground.errors import InputError
from interextra.papers import lupart, published

BEGIN = "<!-- results: written by `make readme` from outputs/reference, compared by a test -->"
END = "<!-- end of results -->"
HEAD = "| finding | published | embedded world (mini) | real data (small, with its commit) |\n|---|---|---|---|"
OVERLAP, SHIFT, ARCHITECTURES = "01_overlap_annotation_analysis", "04_ms_shift_clusters", "05_architecture_comparison"
SHIFTS = {"topics": "topics", "wh-words": "question type", "length": "length"}  # Lupart's → the one like it of small
# columns of tables from before they were called as those of `ground.effects`
COLUMNS = {"delta_low": "low", "delta_high": "high", "avg_in": "in", "interpolation": "in", "n_agree": "n_consistent"}
Row = tuple[str, str, str, str, str]  # notebook, finding, published, mini, small


def with_results(text: str, reference: Path) -> str:
    """The README's text with its results table made new from `reference`, the folder outputs/reference."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise InputError("README.md: the marks around the results table are gone; put them back")
    lines = [HEAD]
    for notebook, *cells in [*_counts(reference), *_deltas(reference), *_losses(reference)]:
        record = json.loads((reference / "small" / notebook / "provenance.json").read_text(encoding="utf-8"))
        commit, plus, changes = record["implementation"]["source"]["commit"].partition("+")
        lines.append(f"| {' | '.join(cells)} ({commit[:7]}{plus}{changes}) |")
    return "\n".join([head + BEGIN, *lines, END + tail])


def _counts(reference: Path) -> Iterator[Row]:
    """Table 3 in both readings, and the released queries of MS-Shift that a rule explains."""
    overlaps = _read(reference, "small", OVERLAP, "label_overlap", "relevance_threshold == 1")
    for name, year in (("dl19", 2019), ("dl20", 2020)):
        caption, script = overlaps[overlaps["test_set"] == name].sort_values("min_shared").to_dict("records")
        ours = "≥ 2 shared (the released script): {n_overlapping} of {n_queries} ({percent:.0f} %)".format_map(script)
        ours += "; ≥ 1 (the caption): {n_overlapping} ({percent:.0f} %)".format_map(caption)
        finding = f"DL {year} queries that share relevant passages with training (Zhan, Table 3)"
        yield OVERLAP, finding, f"{script['published_percent']:.0f} %", "–", ours
    for shift, rule, meaning in (("length", "spaces", "single spaces"), ("wh-words", "contains", "letters anywhere")):
        found = _read(reference, "small", SHIFT, "rule_agreement", f"shift == {shift!r} and rule == {rule!r}")
        finding = f"Rule behind the released queries, {shift} (Lupart §3.1)"
        ours = f"{meaning}: consistent with {found['n_consistent'].sum():,} of {found['n_released'].sum():,}"
        yield SHIFT, finding, "in words", "–", ours


def _deltas(reference: Path) -> Iterator[Row]:
    """Tables 6 and 7: Δ of each neural system at the largest size."""
    for number, protocol, measure in ((6, "ReSTrain", "nDCG@10"), (7, "ReSTTest", "RR@10")):
        printed = published.load("zhan", number).query("regime == 'delta' and measure == @measure")
        query, table = f"measure == {measure!r}", protocol.lower()
        for model in ("Reranker", "ColBERT", "SPLADE", "DR (base)"):
            ours = [_effect(reference, side, ARCHITECTURES, (table, table), query, model) for side in ("mini", "small")]
            theirs = _span(printed.loc[printed["model"] == model, "scaled"])
            yield ARCHITECTURES, f"{model}: Δ {measure}, {protocol} (Zhan, Table {number})", theirs, *ours


def _losses(reference: Path) -> Iterator[Row]:
    """Tables 2 and 3: mean RelLoss of the dense system over the clusters of a shift."""
    printed, model, tables = lupart.published_losses(), "DR (base)", ("mean_loss", "shift_loss")
    for shift, alike in SHIFTS.items():
        query = "shift == {!r} and measure == 'RR@10'".format
        ours = [_effect(reference, "mini", SHIFT, tables, query(shift), model)]
        ours.append(_effect(reference, "small", SHIFT, tables, query(alike), model) + f", {alike}" * (shift != alike))
        theirs = _span(printed.loc[(printed["shift"] == shift) & (printed["model"] == model), "loss"])
        yield SHIFT, f"{model}: mean RelLoss of RR@10, {shift} (Lupart, Tables 2 and 3)", theirs, *ours


def _effect(reference: Path, profile: str, notebook: str, tables: tuple[str, str], query: str, model: str) -> str:
    """The effect of a system, from the first table; none where, by the second one, BM25 is as good in domain."""
    frame, sides = (_read(reference, profile, notebook, table, query) for table in tables)
    inside = sides.groupby("model")["in"].mean()
    if inside[model] <= inside["BM25"]:
        return "not comparable: BM25 is as good in domain"
    [row] = frame[frame["model"] == model].to_dict("records")
    effect = row[frame.columns[frame.columns.get_loc("low") - 1]]
    return f"{100 * effect:+.1f} % [{100 * row['low']:+.1f}, {100 * row['high']:+.1f}]"


def _read(reference: Path, profile: str, notebook: str, table: str, query: str) -> pd.DataFrame:
    """Rows of a committed table, of the mean over queries and the largest training size where it has several."""
    frame = pd.read_csv(reference / profile / notebook / "tables" / f"{table}.csv").rename(columns=COLUMNS).query(query)
    frame = frame[frame["average"] == "micro"] if "average" in frame else frame
    return frame[frame["n_train"] == frame["n_train"].max()] if "n_train" in frame else frame


def _span(values: pd.Series) -> str:
    return " … ".join(dict.fromkeys(f"{100 * value:+.3g} %" for value in (values.min(), values.max())))


def main() -> None:
    path = Path("README.md")
    path.write_text(with_results(path.read_text(encoding="utf-8"), Path("outputs/reference")), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Findings about the papers, computed: on their printed tables, the released files, public runs.

`findings.yaml` has all findings. Those that the other notebooks do not show are checked here, for
notebook 13.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures.evaluate import per_query
from interextra.measures.pool import holes
from interextra.papers import published, releases

DEV_QRELS = "msmarco/qrels.msmarco-passage.dev-subset.txt"  # of the data folder
DL = ("dl19", "dl20")  # test sets of the public runs that stand beside Zhan, Table 6
# Name of a public run → the printed system of the same kind
PRINTED_SYSTEMS = {"BM25": "BM25", "BM25, BERT": "Reranker"}
NDCG = "nDCG@10"
RECALL = ["R(rel=1)@100", "R(rel=2)@100", "R(rel=3)@100"]


class PublicRun(NamedTuple):
    """A public run and the judgements of its test set."""

    test_set: str
    system: str
    run: RunFile
    qrels: pd.DataFrame


class Check(NamedTuple):
    """A row of the table of checked findings."""

    finding: str
    cell: str  # the printed cells or the release that it is about
    computed: str
    agrees: bool  # whether the numbers are as the finding says
    where: str  # what was counted


def checked(*parts: pd.DataFrame) -> pd.DataFrame:
    """Return the checks of several tables, in the order of the findings; some may be empty."""
    rows = pd.concat([part for part in parts if len(part)], ignore_index=True)
    number = rows["finding"].str.removeprefix("F").astype(int)
    order = number.sort_values(kind="stable").index
    return rows.loc[order].reset_index(drop=True)


def _list(values: pd.Series, form: str) -> str:
    """Return the formatted values with slashes between them, in their order.

    Examples
    --------
    >>> _list(pd.Series([13763, 200137]), "{:,}"), _list(pd.Series([50.0, 0.0]), "{:.0f} %")
    ('13,763 / 200,137', '50 % / 0 %')
    """
    return " / ".join(values.map(form.format))


def checked_on_tables() -> pd.DataFrame:
    """Check the finding that needs the printed tables alone, F8.

    Returns
    -------
    DataFrame with the columns of `Check`.
    """
    changes = published.printed_changes()
    printed = {"zhan": "Zhan, Tables 6 to 9", "lupart": "Lupart, Tables 2 and 3"}
    checks = []
    for paper, cell in printed.items():
        consistent = changes.loc[changes["paper"] == paper, "consistent"]
        computed = (
            f"{consistent.sum()} of {len(consistent)} printed changes lie in the range that the "
            "printed means allow"
        )
        agrees = bool(consistent.all())
        checks.append(Check("F8", cell, computed, agrees, f"published_tables/{paper}.yaml"))
    return pd.DataFrame(checks)


def checked_on_files(folder: Path, runs: Sequence[PublicRun]) -> pd.DataFrame:
    """Check the findings that need the released files and public runs: F3, F5, F7, F12.

    Parameters
    ----------
    folder
        The real data: both releases (extrapolate-eval, ms-marco-shift), judgements of MS MARCO dev.
    runs
        On TREC DL (F5, F12) and other test sets (F12); without any there is no row of both.

    Returns
    -------
    DataFrame with the columns of `Check`.

    Raises
    ------
    InputError
        A file is missing or broken.
    """
    zhan = folder / "extrapolate-eval"
    sizes = releases.restrain_sizes(zhan)
    train_ids = releases.restrain_queries(zhan)
    dev_ids = set(read_qrels(folder / DEV_QRELS)["query_id"])
    sources = releases.evaluation_sources(folder / "ms-marco-shift", train_ids, dev_ids)
    checks = [
        _sizes_checked(sizes),
        _repeats_checked(sizes),
        *_recall_checked(recall_by_grade(runs)),
        _sources_checked(sources, len(train_ids)),
        _texts_checked(sources),
    ]
    if runs:
        checks.append(_unjudged_checked(unjudged(runs)))
    return pd.DataFrame(checks)


def _sizes_checked(sizes: pd.DataFrame) -> Check:
    """Check whose sizes are printed (F3); `sizes`: of `releases.restrain_sizes`."""
    queries = sizes.pivot(index="size", columns="regime", values="queries")
    queries = queries.loc[[*published.SIZES]]
    outside = queries["extrapolation"]
    inside = queries["interpolation"]
    printed = queries.index.str.removesuffix("k").astype(int)
    is_printed = (outside / 1000).round() == printed
    is_smaller = inside < outside
    percent_fewer = 100 * (1 - inside / outside)
    computed = (
        f"queries of the extrapolation sets {_list(outside, '{:,}')}, of the interpolation sets "
        f"{_list(inside, '{:,}')}, fewer by {_list(percent_fewer, '{:.1f} %')}"
    )
    return Check(
        "F3",
        f"Zhan, Tables 6, 8 and 9, training queries {' / '.join(published.SIZES)}",
        computed,
        bool(is_printed.all() and is_smaller.all()),
        "released ReSTrain sets",
    )


def _repeats_checked(sizes: pd.DataFrame) -> Check:
    """Check which sets repeat rows (F3); `sizes`: of `releases.restrain_sizes`."""
    largest = published.SIZES[-1]
    is_largest = sizes["size"] == largest
    repeated = sizes[is_largest].set_index("regime")["repeated_rows"]
    n_smaller = sizes.loc[~is_largest, "repeated_rows"].sum()
    computed = (
        f"rows that repeat another: {repeated['interpolation']} in the interpolation set of "
        f"{largest}, {repeated['extrapolation']} in the extrapolation set, {n_smaller} in the "
        "smaller sets"
    )
    return Check(
        "F3",
        "Zhan, released training sets",
        computed,
        bool((repeated > 0).all() and n_smaller == 0),
        "released ReSTrain sets",
    )


def recall_by_grade(runs: Sequence[PublicRun]) -> pd.DataFrame:
    """Return nDCG@10 and R@100 of public runs, R@100 by the grade from which a passage is relevant.

    Over the queries of TREC DL 2019 and 2020 together; a query without a passage of the grade
    counts 0. Runs on other test sets and systems that Zhan, Table 6, does not have are left out.

    Returns
    -------
    DataFrame[model, measure, n_queries, value, low, high, distance]: `model` as printed; `low` and
    `high` are the least and the greatest value printed of it, over sizes and regimes; `distance` of
    `value` from this range is 0 inside.
    """
    rows = []
    for system, model in PRINTED_SYSTEMS.items():
        parts = [
            per_query(public.run, public.qrels, [NDCG, *RECALL])
            for public in runs
            if public.system == system and public.test_set in DL
        ]
        if not parts:
            continue
        values = pd.concat(parts)
        for measure, value in values.mean().items():
            low, high = _printed_range(model, NDCG if measure == NDCG else "R@100")
            distance = max(low - value, value - high, 0.0)
            rows.append((model, measure, len(values), value, low, high, distance))
    columns = ["model", "measure", "n_queries", "value", "low", "high", "distance"]
    return pd.DataFrame(rows, columns=columns)


def _printed_range(model: str, measure: str) -> tuple[float, float]:
    """Return the least and the greatest value of a model in Zhan, Table 6."""
    cells = published.load("zhan", 6)
    is_mean = cells["regime"] != "delta"
    is_asked = (cells["model"] == model) & cells["column"].str.startswith(measure)
    printed = cells.loc[is_asked & is_mean, "scaled"]
    return printed.min(), printed.max()


def _recall_checked(recall: pd.DataFrame) -> Iterator[Check]:
    """Check from which grade R@100 counts (F5); `recall`: of `recall_by_grade`.

    By BM25 it is grade 2; by the reranker it is not grade 1.
    """
    for model, rows in recall.groupby("model", sort=False):
        by_measure = rows.set_index("measure")
        gain = by_measure.loc[NDCG]
        from_grade = by_measure.loc[RECALL]
        low, high = from_grade[["low", "high"]].iloc[0]
        nearest = 1 + from_grade["distance"].argmin()
        off = _list(from_grade["distance"], "{:.3f}")
        has_agreed = nearest == 2 if model == "BM25" else nearest > 1
        computed = (
            f"R@100 from grade 1 / 2 / 3: {_list(from_grade['value'], '{:.3f}')}, "
            f"printed {low:.3f} to {high:.3f}, nearest from grade {nearest} (off by {off}); "
            f"nDCG@10: {gain['value']:.3f}, printed {gain['low']:.3f} to {gain['high']:.3f}"
        )
        n_queries = int(gain["n_queries"])
        yield Check(
            "F5",
            f"Zhan, Table 6, R@100 of {model}",
            computed,
            bool(has_agreed),
            f"a public run, {n_queries} queries of TREC DL",
        )


def _sources_checked(sources: pd.DataFrame, n_train: int) -> Check:
    """Check from which queries the evaluation sets of each shift are (F7).

    Parameters
    ----------
    sources
        Of `releases.evaluation_sources`.
    n_train
        Number of the training queries that are known.
    """
    counts = sources.groupby("shift", sort=False)[["queries", "in_train", "in_dev"]].sum()
    in_train = counts["in_train"] / counts["queries"]
    in_dev = counts["in_dev"] / counts["queries"]
    is_length = counts.index == "length"
    others_are_training = (in_train[~is_length] > 0.5).all() and (in_dev[~is_length] == 0).all()
    length_is_dev = (in_dev[is_length] == 1).all() and (in_train[is_length] == 0).all()
    percent_known = 100 * n_train / releases.TRAIN_QUERIES
    computed = (
        f"{' / '.join(counts.index)}: "
        f"{_list(100 * in_train, '{:.0f} %')} are in the ReSTrain sets, which hold "
        f"{percent_known:.0f} % of the training queries, and "
        f"{_list(100 * in_dev, '{:.0f} %')} are dev queries"
    )
    return Check(
        "F7",
        "Lupart, section 3.1, evaluation sets",
        computed,
        bool(others_are_training and length_is_dev),
        "released MS-Shift and ReSTrain sets, MS MARCO dev",
    )


def _texts_checked(sources: pd.DataFrame) -> Check:
    """Check which evaluation sets lack texts (F7); `sources`: of `releases.evaluation_sources`."""
    lacking = sources[sources["without_text"] > 0]
    each = lacking["cluster"] + ": " + lacking["without_text"].astype(str)
    n_lacking = lacking["without_text"].sum()
    n_queries = sources["queries"].sum()
    computed = (
        f"{n_lacking} of {n_queries:,} queries with judgements have no text "
        f"({', '.join(each) or 'none'})"
    )
    return Check(
        "F7",
        "Lupart, section 3.1, evaluation sets",
        computed,
        bool(n_lacking > 0),
        "released MS-Shift sets",
    )


def unjudged(runs: Sequence[PublicRun]) -> pd.DataFrame:
    """Return the share of unjudged passages among the first ten of public runs, in two ways.

    Returns
    -------
    DataFrame[test_set, system, of_topic, of_any_topic], means over topics: 1 - Judged@10, and
    hole@10 of BEIR.
    """
    rows = []
    for public in runs:
        judged = per_query(public.run, public.qrels, ["Judged@10"])["Judged@10"]
        holes_of_topics = holes(public.run, public.qrels, 10)
        row = {
            "test_set": public.test_set,
            "system": public.system,
            "of_topic": 1 - judged.mean(),
            "of_any_topic": holes_of_topics.mean(),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _unjudged_checked(shares: pd.DataFrame) -> Check:
    """Check that both ways of counting differ (F12); `shares`: of `unjudged`."""
    means = shares.groupby("test_set", sort=False)[["of_topic", "of_any_topic"]].mean()
    percent = 100 * means
    computed = (
        "of the first ten, unjudged for their topic (1 - J@10): "
        f"{_list(percent['of_topic'], '{:.1f} %')}; for every topic (hole@10): "
        f"{_list(percent['of_any_topic'], '{:.1f} %')}"
    )
    differs = shares["of_topic"] > shares["of_any_topic"]
    return Check(
        "F12",
        "Hofstätter, Table 7, J@10",
        computed,
        bool(differs.any()),
        f"{len(shares)} public runs: {' / '.join(means.index)}",
    )

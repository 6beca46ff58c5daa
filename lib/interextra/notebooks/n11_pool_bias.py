"""Notebook 11: runs judged by all judgements and by smaller pools.

To a smaller pool some of the runs contributed nothing.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd

from interextra.data.load import with_data_folder
from interextra.data.runs import RunFile
from interextra.data.trec import read_qrels
from interextra.measures import pool
from interextra.measures.evaluate import per_query
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.notebooks import plans
from interextra.notebooks.parameters import (
    AnyEntries,
    Count,
    Distinct,
    Entries,
    Million,
    Names,
    RunParameters,
    Thousands,
    parameter,
)
from interextra.papers import published
from interextra.papers.releases import real_vectors
from interextra.splits.similarity import near_half, nearest
from interextra.stats.correlation import correlations, drawn_groups, ends_of
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import with_interval, with_unit
from interextra.store import InputError, Store, offenders

ALL = "all judgements"
OWN = "without the run's own"
NEURAL = "neural"
FAMILIES = {
    NEURAL: [NEURAL],
    "neural and reranking": [NEURAL, "reranker"],
    "lexical": [BM25, "lexical"],
}
RUN = ["test_set", "family", "system"]
FIRST = "nDCG@10"
# Of the paper's Tables 2, 4 and 7, without nDCG@1000: the shortest runs here have 100 passages.
# Binary measures but Bpref count from grade 2, as TREC DL does.
MEASURES = [
    FIRST,
    "nDCG@30",
    "P(rel=2)@10",
    "RR(rel=2)@100",
    "AP(rel=2)@100",
    "Bpref",
    "Judged@10",
    "Judged@30",
]
CONDENSED = f"{FIRST}, condensed"
SMALLER = f"without the {NEURAL} runs' own"  # a pool to which no neural run contributed
# The paper's run without BM25 and reranking, its years (in the pool or out of it) → our pools, and
# its measures → ours, where the names differ
PUBLISHED_RUN = "TUW_tasb192_ann"
PUBLISHED_POOLS = {"in": ALL, "out": SMALLER}
PUBLISHED_MEASURES = {"nDCG-J@10": CONDENSED, "P@10": "P(rel=2)@10"}
ASSUMED = ["least", "condensed", "bootstrapped", "most"]  # columns of `pool.pool_range`
STEPS = {  # of the pool in words, from all judgements down
    ALL: "by all judgements",
    SMALLER: "without neural runs",
    "without the neural and reranking runs' own": "without neural and reranking runs",
}
Row = dict[str, Any]  # of the plan's runs


class Parameters(RunParameters):
    """Parameters of notebook 11, pool bias."""

    runs: AnyEntries = parameter(
        [], "run files of yours: test_set, family (BM25, lexical, neural, reranker), system, file"
    )
    qrels: AnyEntries = parameter([], "their judgements: test_set, file")
    pool_depth: Million = parameter(10, "passages of each run that went into the pool")
    n_draws: Thousands = parameter(20, "random choices of the judgements that are given back")
    recipes: Entries = parameter(
        ["bm25", "mini-dense", "mini-splade", "mini-colbert"],
        "systems, where `runs` names no files; all but BM25 are neural",
    )
    test_splits: Names = parameter(["graded"], "their test queries")
    complete: bool = parameter(
        True,
        "whether what the qrels do not have is known to be irrelevant, as in a generated world",
    )
    real_encoder: str = parameter(
        "", "lsa or minilm: how near the test queries of MS MARCO lie to its training queries"
    )
    per_topic: Annotated[list[Count], Distinct] = parameter(
        [0, 1, 2, 5, 10], "judgements per topic that are given back to a pool"
    )


def plan(p: Parameters) -> plans.Plan:
    """Plan the runs that are judged.

    They are files (`runs`, `qrels`), or those of trained systems on the collection's `test_splits`:
    BM25 is a family of its own, all others are neural.

    Returns
    -------
    runs
        test_set, family, system, and path, or run (a cell) and its queries.
    qrels
        Test set → path, of files.
    vectors
        Of the real queries, with `real_encoder`.
    """
    qrels = {}
    for entry in p.qrels:
        test_set, path = plans.fields(entry, "test_set", "file")
        qrels[test_set] = with_data_folder(path)
    rows = _runs_of_files(p, qrels) or _runs_of_systems(p)
    runs = pd.DataFrame(rows)
    _refuse(runs)
    vectors = real_vectors(p.real_encoder) if p.real_encoder else None
    return plans.Plan(runs=runs, qrels=qrels, vectors=vectors)


def _runs_of_files(p: Parameters, qrels: dict[str, str]) -> list[Row]:
    """Return rows of the run files; InputError where a file, or the qrels of a run, are missing."""
    rows = []
    for entry in p.runs:
        *labels, path = plans.fields(entry, *RUN, "file")
        row = dict(zip(RUN, labels, strict=True))
        rows.append(row | {"path": with_data_folder(path)})
    paths = list(qrels.values())
    paths += [row["path"] for row in rows]
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:
        raise InputError(f"parameters 'runs' and 'qrels': no file {offenders(missing)}")
    unjudged = {row["test_set"] for row in rows}.difference(qrels)
    if unjudged:
        raise InputError(
            f"parameter 'qrels': no file for the test set {offenders(sorted(unjudged))}"
        )
    return rows


def _runs_of_systems(p: Parameters) -> list[Row]:
    """Return rows of the systems that are trained, for each set of test queries."""
    train = plans.training_queries(p)
    test = plans.test_queries(p, p.test_splits)
    recipes = plans.with_bm25(plans.systems(p))
    rows = []
    for label, recipe in recipes.items():
        run = plans.run_of(p, recipe, train, p.seed, test)
        family = BM25 if label == BM25 else NEURAL
        labels = {"family": family, "system": label, "run": run}
        rows += [{"test_set": queries.name, "queries": queries} | labels for queries in test]
    return rows


def _refuse(runs: pd.DataFrame) -> None:
    """Raise an InputError for a repeated system, and where nothing can be compared."""
    is_repeated = runs.duplicated(["test_set", "system"])
    repeated = runs.loc[is_repeated, "system"].tolist()
    if repeated:
        raise InputError(f"parameter 'runs': {offenders(repeated)} stands twice for a test set")
    families = runs.groupby("test_set")["family"].agg(set)
    if not any({BM25, NEURAL} <= there for there in families):
        raise InputError(
            f"parameter 'runs': no test set has the families {BM25} and {NEURAL}, which are "
            f"compared; there are {', '.join(runs['family'].unique())}"
        )


class RunKey(NamedTuple):
    """What names a run: the columns RUN."""

    test_set: str
    family: str
    system: str


class Judged:
    """Runs and judgements of a plan.

    Parameters
    ----------
    plan
        The plan of the notebook.
    store
        Where its cells are.
    depth
        Passages of each run that went into the pool.
    complete
        Whether what a run returns is judged, as relevance is known (not of files).
    """

    def __init__(self, plan: plans.Plan, store: Store, depth: int, complete: bool):
        self.depth = depth
        self.runs: dict[RunKey, RunFile] = {}
        self.qrels = {name: read_qrels(path) for name, path in plan.qrels.items()}
        for row in plan.runs.to_dict("records"):
            self._read(row, store)
        self.heads = {
            key: RunFile.from_frame(run.frame()[run.ranks <= depth])
            for key, run in self.runs.items()
        }
        if complete:
            for name in self.qrels.keys() - plan.qrels.keys():
                self.qrels[name] = self._completed(name)

    def _read(self, row: Row, store: Store) -> None:
        """Read a run, and the judgements of its test set unless they are a file."""
        key = RunKey(*(row[name] for name in RUN))
        if "path" in row:
            self.runs[key] = RunFile.read(row["path"])
            return
        queries = row["queries"]
        self.runs[key] = row["run"].read(store, queries)
        if key.test_set not in self.qrels:
            qrels = queries.qrels(store)
            self.qrels[key.test_set] = qrels[[*pool.PAIR, "relevance"]]

    def _completed(self, test_set: str) -> pd.DataFrame:
        """Return judgements of a test set and, as irrelevant, what a run returns beside them."""
        qrels = self.qrels[test_set]
        runs = self.of(test_set).values()
        pairs = pool.judgement_pool(runs, depth=10**9)
        returned = pairs.to_frame(index=False).assign(relevance=0)
        is_topic = returned["query_id"].isin(qrels["query_id"])
        both = pd.concat([qrels, returned[is_topic]])
        return both.drop_duplicates(pool.PAIR, ignore_index=True)

    def of(self, test_set: str, *families: str) -> dict[RunKey, RunFile]:
        """Return the runs of a test set, or of some families there."""
        runs = {}
        for key, run in self.runs.items():
            is_asked = not families or key.family in families
            if key.test_set == test_set and is_asked:
                runs[key] = run
        return runs

    def without(self, test_set: str, own: Sequence[RunKey]) -> pd.DataFrame:
        """Return judgements of a test set without those that some of its runs alone contribute."""
        others = [key for key in self.of(test_set) if key not in own]
        own_heads = [self.heads[key] for key in own]
        other_heads = [self.heads[key] for key in others]
        return pool.left_out(self.qrels[test_set], own_heads, other_heads, self.depth)

    def pools(self, key: RunKey) -> dict[str, pd.DataFrame]:
        """Return the judgements by which a run is judged.

        All, without the own ones of FAMILIES, without the run's own.
        """
        test_set = key.test_set
        pools = {ALL: self.qrels[test_set]}
        # without no run it is the whole pool, without all of them none
        seen = [[], list(self.of(test_set))]
        for name, families in FAMILIES.items():
            own = list(self.of(test_set, *families))
            if own not in seen:
                seen.append(own)
                pools[f"without the {name} runs' own"] = self.without(test_set, own)
        pools[OWN] = self.without(test_set, [key])
        return pools

    def values(self) -> pd.DataFrame:
        """Return the values of each run by each pool.

        Returns
        -------
        test_set, family, system, judged_by, query_id, measure, value
        """
        parts = []
        for key, run in self.runs.items():
            query_ids = self.qrels[key.test_set]["query_id"].unique()
            for name, qrels in self.pools(key).items():
                table = per_query(run, qrels, MEASURES)
                condensed = pool.condensed(run, qrels)
                table[CONDENSED] = per_query(condensed, qrels, [FIRST])[FIRST]
                # one that loses all its judgements has no relevant passage that is known: 0, as for
                # any other system
                table = table.reindex(query_ids, fill_value=0.0).rename_axis("query_id")
                part = table.reset_index().melt("query_id", var_name="measure")
                labels = key._asdict()
                parts.append(part.assign(**labels, judged_by=name))
        return _with_test_set_in_query_id(pd.concat(parts, ignore_index=True))

    def ranges(self, seed: int) -> pd.DataFrame:
        """Return means of `pool.pool_range` and of RBP, the columns of pool_bias.csv.

        A row a run and pool.
        """
        rows = []
        for key, run in self.runs.items():
            for name, qrels in self.pools(key).items():
                judged = per_query(run, qrels, ["Judged@10"])
                tables = [
                    pool.pool_range(run, qrels, seed=seed),
                    pool.rank_biased_precision(run, qrels),
                    judged.set_axis(["judged_at_10"], axis=1),
                ]
                means = pd.concat([table.mean() for table in tables])
                labels = key._asdict() | {"judged_by": name}
                rows.append(labels | means.to_dict())
        return pd.DataFrame(rows)

    def restored(
        self, family: str, numbers: Sequence[int], n_draws: int, seed: int
    ) -> pd.DataFrame:
        """Return nDCG@10 where a smaller pool gets some of its missing judgements back.

        The pool is that without a family's own runs. The judgements are drawn for each topic.

        Parameters
        ----------
        family
            The family.
        numbers
            Judgements per topic that are given back.
        n_draws
            Random choices of them.
        seed
            Of the choices.

        Returns
        -------
        per_topic, family, seed (the draw), query_id, value; means over the runs of the family and
        of BM25, on test sets that have both
        """
        random = np.random.default_rng(seed)
        pools = self._smaller_pools(family)
        means = {}
        for number, draw, name in itertools.product(numbers, range(n_draws), pools):
            kept, missing = pools[name]
            order = random.permutation(len(missing))
            given_back = missing.iloc[order].groupby("query_id").head(number)
            qrels = pd.concat([kept, given_back], ignore_index=True)
            # others count as if unjudged
            is_first = ~qrels.duplicated("query_id")
            qrels = qrels[(qrels["relevance"] > 0) | is_first]
            for side in (family, BM25):
                means[number, side, draw, name] = self._mean(name, side, qrels)
        labels = ["per_topic", "family", "seed", "test_set", "query_id"]
        values = pd.concat(means, names=labels).rename("value")
        table = _with_test_set_in_query_id(values.reset_index())
        return table.drop(columns="test_set")

    def _smaller_pools(self, family: str) -> dict[str, tuple[pd.DataFrame, pd.DataFrame]]:
        """Return the judgements without a family's own runs, and those that are missing there.

        By test set, of those that have runs of the family and of BM25.
        """
        pools = {}
        for name, qrels in self.qrels.items():
            own = list(self.of(name, family))
            if own and self.of(name, BM25):
                kept = self.without(name, own)
                pools[name] = kept, qrels.drop(kept.index)
        return pools

    def _mean(self, test_set: str, family: str, qrels: pd.DataFrame) -> pd.Series:
        """Return the mean nDCG@10 of a family's runs for each query."""
        runs = self.of(test_set, family).values()
        values = [per_query(run, qrels, [FIRST])[FIRST] for run in runs]
        return pd.concat(values, axis=1).mean(axis=1)


def _with_test_set_in_query_id(table: pd.DataFrame) -> pd.DataFrame:
    """Return query_ids that name the test set, too: TREC-COVID's rounds share topics."""
    return table.assign(query_id=table["test_set"] + " " + table["query_id"])


def by_family(values: pd.DataFrame) -> pd.DataFrame:
    """Return means over the systems of a family.

    Returns
    -------
    judged_by, family, measure, query_id, value
    """
    groups = values.groupby(["judged_by", "family", "measure", "query_id"], sort=False)
    return groups["value"].mean().reset_index()


def counted(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the design for the page: test set, family, runs (their number), systems (names)."""
    groups = runs.groupby(["test_set", "family"], sort=False)["system"]
    table = groups.agg([len, "; ".join]).reset_index()
    return table.set_axis(["test set", "family", "runs", "systems"], axis=1)


def with_bm25(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values on test sets that have a run of BM25, with which the others compare."""
    test_sets = values.loc[values["family"] == BM25, "test_set"]
    return values[values["test_set"].isin(test_sets)]


def rivals(names: pd.Series) -> list[tuple[str, str]]:
    """Return the pairs (name, BM25) of all other names.

    Examples
    --------
    >>> rivals(pd.Series(["BM25", "neural", "neural"]))
    [('neural', 'BM25')]
    """
    return [(name, BM25) for name in names.unique() if name != BM25]


def levels_page(means: pd.DataFrame) -> pd.DataFrame:
    """Return the means of nDCG@10 for the page: a row a pool, a column a family."""
    of_first = means[means["measure"] == FIRST]
    wide = of_first.pivot(index="judged_by", columns="family", values="mean")
    page = wide.loc[means["judged_by"].unique(), means["family"].unique()]
    return page.reset_index().rename(columns={"judged_by": f"{FIRST}, judged by"})


def drawn_gaps(gaps: pd.DataFrame) -> pd.DataFrame:
    """Return the differences to BM25 in nDCG@10 and condensed, with short names of the pools."""
    drawn = gaps[gaps["measure"].isin([FIRST, CONDENSED])].rename(columns={"first": "family"})
    short = drawn["judged_by"].str.replace(
        r"^without the (.*) runs' own$", r"no \1 runs", regex=True
    )
    return drawn.assign(judged_by=short)


def without_own(values: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Return what the runs of each family lose without the judgements that each alone brought."""
    of_pool = ["family", "measure", "judged_by"]
    means = effects(by_family(values), of_pool, seed=seed, n_boot=n_boot)
    return means.contrast("judged_by", [(OWN, ALL)])


def with_ranges(values: pd.DataFrame, ranges: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Return nDCG@10 of each run by each pool beside its `Judged.ranges`, as pool_bias.csv."""
    of_run = [*RUN, "judged_by"]
    of_first = values[values["measure"] == FIRST]
    means = effects(of_first, [*of_run, "measure"], seed=seed, n_boot=n_boot)
    plain = pd.DataFrame(means)[[*of_run, "measure", "mean", "low", "high"]]
    columns = {"test_set": "collection", "judged_by": "qrels", "system": "run", "mean": "value"}
    return plain.merge(ranges, on=of_run).rename(columns=columns)


def ranges_page(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return means of `Judged.ranges` over the runs of a family, by both pools, for the page."""
    both = ranges[ranges["judged_by"].isin([ALL, SMALLER])]
    groups = both.groupby(["family", "judged_by"], sort=False)
    page = groups[["judged_at_10", *ASSUMED]].mean().reset_index()
    return page.rename(columns={"judged_by": "judged by", "judged_at_10": "judged@10"})


def errors_of_estimates(ranges: pd.DataFrame) -> pd.DataFrame:
    """Return how far each value by the smaller pool is from nDCG@10 by all judgements.

    Returns
    -------
    test_set, family, system, least, condensed, bootstrapped, most; a row a neural run
    """
    by_all = ranges[ranges["judged_by"] == ALL].set_index(RUN)["least"]
    is_neural = ranges["family"] == NEURAL
    smaller = ranges[is_neural & (ranges["judged_by"] == SMALLER)].set_index(RUN)
    errors = smaller[ASSUMED].sub(by_all, axis=0)
    return errors.dropna().reset_index()


def published_gaps() -> pd.DataFrame:
    """Return the dense run of Tables 4 and 7 minus BM25, in the pool (2021) and out of it (2020).

    Returns
    -------
    judged_by (the pool of ours in its place), measure, first, scaled, rounding

    Examples
    --------
    >>> gaps = published_gaps().query("measure == 'nDCG@10'")
    >>> gaps[["judged_by", "scaled"]].round(3).values.tolist()
    [["without the neural runs' own", -0.086], ['all judgements', 0.059]]
    """
    of_2021 = published.load("hofstaetter", 4).query("measure == 'P@10'").assign(pool="in")
    cells = pd.concat([published.load("hofstaetter", 7), of_2021])
    cells = cells.set_index(["pool", "measure"])
    dense = cells[cells["run"] == PUBLISHED_RUN]
    bm25 = cells[cells["run"] == BM25].loc[dense.index]
    table = pd.DataFrame(
        {
            "scaled": dense["scaled"] - bm25["scaled"],
            "rounding": dense["rounding"] + bm25["rounding"],
        }
    ).reset_index()
    judged_by = table.pop("pool").map(PUBLISHED_POOLS)
    measure = table["measure"].replace(PUBLISHED_MEASURES)
    return table.assign(judged_by=judged_by, measure=measure, first=NEURAL)


def measures_page(beside: pd.DataFrame) -> pd.DataFrame:
    """Return differences by both pools beside the published ones for the page, a row a measure.

    `beside`: measure, judged_by (ALL or SMALLER), difference, low, high, published.
    """
    table = with_interval(beside, "difference", "points")
    points = [with_unit(value, "points") for value in beside["published"]]
    table["published"] = pd.Series(points, table.index).where(beside["published"].notna(), "–")
    page = table.pivot(index="measure", columns="judged_by", values=["difference", "published"])
    names = {
        ("difference", ALL): "ours, all judgements",
        ("published", ALL): "published, in the pool",
        ("difference", SMALLER): "ours, without neural runs",
        ("published", SMALLER): "published, out of the pool",
    }
    page = page.reindex(index=beside["measure"].unique(), columns=list(names))
    return page.set_axis(list(names.values()), axis=1).reset_index()


def sign_changes(gaps: pd.DataFrame, column: str) -> tuple[int, int]:
    """Return by how many measures of effectiveness both pools disagree who is better.

    Parameters
    ----------
    gaps
        measure, judged_by, and a difference; a measure counts that has it by ALL and by SMALLER.
    column
        That of the difference.

    Returns
    -------
    n_changed, n_measures
    """
    of_effectiveness = gaps[~gaps["measure"].str.startswith("Judged")]
    wide = of_effectiveness.pivot(index="measure", columns="judged_by", values=column)
    both = wide.reindex(columns=[ALL, SMALLER]).dropna()
    signs = np.sign(both)
    n_changed = (signs[ALL] != signs[SMALLER]).sum()
    return int(n_changed), len(both)


def sign_changes_sentence(beside: pd.DataFrame) -> str:
    """Return by how many measures both pools disagree who is better, here and in the paper.

    `beside`: see `measures_page`.
    """
    ours, n_ours = sign_changes(beside, "difference")
    theirs, n_theirs = sign_changes(beside, "published")
    return (
        f"The smaller pool changes who is better by {ours} of {n_ours} measures of effectiveness "
        f"here, and by {theirs} of {n_theirs} between the paper's two years."
    )


def order_flips(differences: pd.DataFrame) -> pd.DataFrame:
    """Return whether a smaller pool turns the order of a system and BM25 round.

    Parameters
    ----------
    differences
        Contrasts of systems with BM25.

    Returns
    -------
    system, judged_by, by_all (the difference by all judgements), difference, low, high, flipped
    (its sign is another one), is_sure (flipped, and both intervals exclude 0)
    """
    is_by_all = differences["judged_by"] == ALL
    smaller = differences[~is_by_all].rename(columns={"first": "system"})
    by_all = differences[is_by_all].set_index("first").loc[smaller["system"]]
    by_all = by_all.set_index(smaller.index)
    table = smaller.assign(by_all=by_all["difference"])
    signs = np.sign(table["difference"]) * np.sign(table["by_all"])
    table["flipped"] = signs < 0
    both_exclude_0 = _excludes_0(smaller) & _excludes_0(by_all)
    table["is_sure"] = table["flipped"] & both_exclude_0
    columns = ["by_all", "difference", "low", "high", "flipped", "is_sure"]
    return table[["system", "judged_by", *columns]]


def _excludes_0(effects: pd.DataFrame) -> pd.Series:
    """Return whether the interval of each row lies on one side of 0."""
    return effects["low"] * effects["high"] > 0


def agreement_of_orders(means: Effects, seed: int) -> pd.DataFrame:
    """Return Kendall's tau of the orders of systems by all judgements and by others.

    Parameters
    ----------
    means
        Effects by judged_by, system, measure.
    seed
        Of the draws of systems.

    Returns
    -------
    judged_by, measure, tau, low, high (topics are drawn), low_runs, high_runs (systems, too),
    n_systems
    """
    rows = []
    for measure, part in means.groupby("measure", sort=False):
        by_all = part[part["judged_by"] == ALL].set_index("system")
        others = part[part["judged_by"] != ALL]
        for name, smaller in others.groupby("judged_by", sort=False):
            by_smaller = smaller.set_index("system").loc[by_all.index]
            tau = _tau_of_orders(by_all, by_smaller, seed)
            rows.append((name, measure, *tau, len(by_all)))
    columns = ["judged_by", "measure", "tau", "low", "high", "low_runs", "high_runs", "n_systems"]
    return pd.DataFrame(rows, columns=columns)


def _tau_of_orders(one: Effects, other: Effects, seed: int) -> tuple[float, ...]:
    """Return Kendall's tau of two means of the same systems, and both of its intervals."""
    drawn = one.drawn().T
    other_drawn = other.drawn().T
    once = np.ones(drawn.shape)
    systems = drawn_groups(one.index, seed, len(drawn))
    tau = correlations(one["mean"], other["mean"], once[:1], "Kendall")
    of_topics = correlations(drawn, other_drawn, once, "Kendall")
    of_runs = correlations(drawn, other_drawn, systems, "Kendall")
    return (tau.item(), *ends_of(of_topics), *ends_of(of_runs))


def flips_page(flips: pd.DataFrame, taus: pd.DataFrame) -> pd.DataFrame:
    """Return how many systems each smaller pool puts on the other side of BM25, and tau.

    Parameters
    ----------
    flips
        Of `order_flips`.
    taus
        Of `agreement_of_orders`.
    """
    counts = flips.groupby("judged_by", sort=False)[["flipped", "is_sure"]].sum().reset_index()
    tau = with_interval(taus, "tau", unit="")[["judged_by", "tau", "n_systems"]]
    names = {
        "judged_by": "judged by",
        "is_sure": "flipped, intervals exclude 0",
        "tau": "τ [95 % CI over topics]",
        "n_systems": "systems",
    }
    return counts.merge(tau, on="judged_by").rename(columns=names)


def restored_difference(restored: pd.DataFrame, seed: int, n_boot: int) -> pd.DataFrame:
    """Return neural minus BM25 in nDCG@10 for each number of judgements that is given back.

    The choices of the judgements count as training runs: their noise is that of each number alone.

    Parameters
    ----------
    restored
        Of `Judged.restored`.

    Returns
    -------
    per_topic, BM25, neural, difference, low, high, n_queries
    """
    sides = (BM25, NEURAL)
    each = restored.rename(columns={"per_topic": "model"})
    table = effects(
        each, ["model"], "family", sides, "difference", family=[], seed=seed, n_boot=n_boot
    )
    table = table.rename(columns={"model": "per_topic"})
    return table[["per_topic", *sides, "difference", "low", "high", "n_queries"]]


def judged_by_distance(
    values: pd.DataFrame, near: pd.DataFrame, seed: int, n_boot: int
) -> pd.DataFrame:
    """Return the share of judged passages of each family on near and on far queries.

    Parameters
    ----------
    values
        Of `Judged.values`.
    near
        Of `distances`.

    Returns
    -------
    Effects by is_near, family and measure (Judged@10)
    """
    some = values[(values["judged_by"] == ALL) & (values["measure"] == "Judged@10")]
    in_halves = by_family(some).merge(near)
    by = ["is_near", "family", "measure"]
    return effects(in_halves, by, seed=seed, n_boot=n_boot).drop(columns="sd_trainings")


def distance_page(shares: pd.DataFrame) -> pd.DataFrame:
    """Return `judged_by_distance` for the page; without rows where there is none."""
    page = shares.reindex(columns=["family", "is_near", "mean", "low", "high"])
    page["is_near"] = page["is_near"].map({True: "near", False: "far"})
    return page.rename(columns={"is_near": "queries", "mean": "judged@10"})


def steps_sentence(gaps: pd.DataFrame) -> str:
    """Return neural minus BM25 in nDCG@10 as the judgements of rival runs go.

    `gaps`: contrasts of the families with BM25.
    """
    is_shown = (gaps["first"] == NEURAL) & (gaps["measure"] == FIRST)
    texts = with_interval(gaps[is_shown], "difference", "points")
    text_of = texts.set_index("judged_by")["difference"]
    steps = [f"{text_of[pool]} {words}" for pool, words in STEPS.items() if pool in text_of]
    return (
        f"Neural minus BM25 in {FIRST}, as judgements of rival runs go: {', '.join(steps)} "
        "(individual 95 % intervals)."
    )


def distances(plan: plans.Plan, store: Store) -> pd.DataFrame:
    """Return how similar the nearest training query of each real test query is.

    Returns
    -------
    query_id (of `Judged.values`), cosine, is_near (nearer half of its test set)
    """
    train, test = plan.vectors.read(store)
    names = []
    for queries in plan.vectors.test:
        names += [(queries.name, query_id) for query_id in queries.ids(store)]
    table = pd.DataFrame(names, columns=["test_set", "query_id"])
    cosine, _ = nearest(test, train, 1)
    table["cosine"] = cosine[:, 0]
    table["is_near"] = table.groupby("test_set")["cosine"].transform(near_half)
    return _with_test_set_in_query_id(table).drop(columns="test_set")

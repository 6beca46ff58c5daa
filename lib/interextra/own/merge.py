"""Notebook 12: weights between a model before and after fine-tuning, without a training.

Each weight is (1 - α) times that of the model as given plus α times that of the fine-tuned one, as
in WiSE-FT (Wortsman et al., CVPR 2022) and LM-Cocktail (Xiao et al., Findings of ACL 2024).
"""

import html
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import Field

from interextra import figures
from interextra.data.queries import Part, Queries
from interextra.measures.evaluate import check
from interextra.models.model import Model, load_model
from interextra.models.planning import model_of
from interextra.models.recipe import Recipe, changed
from interextra.models.search.run import Run
from interextra.own.page import html_page, svg_of
from interextra.own.probe import DEPTH
from interextra.own.regimes import EXTRAPOLATION, INTERPOLATION
from interextra.own.split_folder import SplitFolder
from interextra.own.values import join_trainings, values_of_run
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import simultaneous
from interextra.stats.effects import Effects, effects, shown
from interextra.stats.formatting import drawn_over, spelled, with_interval
from interextra.stats.tests import LEAST_QUERIES, detectable
from interextra.store import InputError, Store, offenders, write_text

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)  # 0: the model as given; 1: the fine-tuned one
UNEXPOSED = "unexposed"
LABELS = ["negatives", "regime", "alpha", "measure"]
ENDS = ["d_low", "d_high", "detects"]  # of a difference
LEGEND = (
    "α = 0 is the model as given, α = 1 the fine-tuned one. Difference: to the fine-tuned model of "
    "the same training. Gate: the mean on the queries that choose α, which measure nothing else. "
    "Intervals are simultaneous (95 %) of all means, and of the differences of the chosen α, over "
    "{over}. Detects: the smallest difference found with 80 % power."
)


class MergedRun(Run):
    """The first passages of each query, by weights between those before and after fine-tuning.

    `model` is the fine-tuned one. The merged weights are not kept.
    """

    given: Model
    alpha: float = Field(gt=0, lt=1)

    def open_model(self, store: Store) -> Any:
        """Merge the weights, and open the model that has them."""
        given = store[self.given] / "weights"
        fine_tuned = store[self.model] / "weights"
        with tempfile.TemporaryDirectory() as scratch:
            merged = Path(scratch) / "weights"
            merge_weights(given, fine_tuned, self.alpha, merged)
            return load_model(merged)

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"{super().title()} · α {self.alpha:g}"


def merge_weights(given: Path, fine_tuned: Path, alpha: float, out: Path) -> None:
    """Write a model whose weights lie between those of two saved ones.

    Parameters
    ----------
    given, fine_tuned : Path
        Folders of models with safetensors weights, such as sentence-transformers saves.
    alpha : float
        0: the weights of `given`; 1: those of `fine_tuned`, from which all other files are.
    out : Path
        A new folder.

    Raises
    ------
    InputError
        The models have other weights, by name or shape.
    """
    from safetensors.torch import load_file, save_file

    shutil.copytree(fine_tuned, out)
    names = [path.relative_to(fine_tuned) for path in fine_tuned.rglob("*.safetensors")]
    for name in sorted(names):
        if not (given / name).is_file():
            raise _different(given, fine_tuned, [name])
        before = load_file(given / name)
        after = load_file(fine_tuned / name)
        unlike = [
            weight
            for weight in sorted(before.keys() | after.keys())
            if weight not in before
            or weight not in after
            or before[weight].shape != after[weight].shape
        ]
        if unlike:
            raise _different(given, fine_tuned, unlike)
        merged = {weight: _between(before[weight], after[weight], alpha) for weight in after}
        save_file(merged, out / name, metadata={"format": "pt"})
    if not names:
        raise InputError(f"{fine_tuned}: no safetensors weights, so that nothing can be merged")


def _between(before: Any, after: Any, alpha: float) -> Any:
    """Return a tensor between two of the same shape; one of whole numbers is the second."""
    if not after.is_floating_point():
        return after
    return before.float().lerp(after.float(), alpha).to(after.dtype)


def _different(given: Path, fine_tuned: Path, names: Sequence[object]) -> InputError:
    """Return the error of models that cannot be merged."""
    return InputError(
        f"merge: {given} and {fine_tuned} differ in {len(names)} weights, by name or shape "
        f"({offenders(names)}): only models of one architecture have weights between them"
    )


def design(
    recipe: Recipe,
    training_sets: Mapping[str, Part],
    queries: tuple[Queries | Part, ...],
    seeds: Sequence[int],
    given: Run,
    alphas: Sequence[float] = ALPHAS,
) -> pd.DataFrame:
    """Plan the weights between a model as given and our own trainings.

    Where the recipe draws negatives, all is planned with and without the exposed passages among
    them. At α = 1 stand the runs of the trainings, at 0 that of the model as given.

    Parameters
    ----------
    recipe : Recipe
        Of the training.
    training_sets : mapping
        Those of a split, by name.
    queries : tuple
        What is searched: the test queries and those that choose α, see `searched_queries`.
    given : Run
        Of the model as given, see `probe.untrained`.

    Returns
    -------
    DataFrame
        negatives (the recipe's first), set, seed, alpha, run.
    """
    rows = []
    for negatives, variant in _variants(recipe).items():
        for name, training_set in training_sets.items():
            for seed in seeds:
                fine_tuned = model_of(variant, training_set, seed)
                for alpha in alphas:
                    run = _run_of(given, fine_tuned, alpha, queries)
                    rows.append((negatives, name, seed, alpha, run))
    return pd.DataFrame(rows, columns=["negatives", "set", "seed", "alpha", "run"])


def _variants(recipe: Recipe) -> dict[str, Recipe]:
    """Return the recipe, and where it draws negatives another one, by what they are drawn from."""
    own = str(getattr(recipe, "negative_passages", ""))
    draws = getattr(recipe, "drawn", None)
    if draws is None:
        raise InputError(
            f"merge: {recipe.architecture} is not trained: there are no weights before and after"
        )
    if not draws():
        return {own: recipe}
    other = "all" if own == UNEXPOSED else UNEXPOSED
    return {own: recipe, other: changed(recipe, negative_passages=other)}


def _run_of(given: Run, fine_tuned: Model, alpha: float, queries: tuple) -> Run:
    """Return the run of the weights at α."""
    if alpha == 0:
        return given
    searched = {"model": fine_tuned, "queries": queries, "depth": DEPTH}
    if alpha == 1:
        return Run(**searched)
    return MergedRun(**searched, given=given.model, alpha=alpha)


class Merge(NamedTuple):
    """What weights between a model before and after fine-tuning say."""

    # negatives, regime, alpha, measure, mean with its simultaneous interval; difference to the
    # fine-tuned model, at the chosen α with its simultaneous interval and what it detects; gate:
    # mean on the gate's queries; chosen: whether it is best there
    points: pd.DataFrame
    sentences: list[str]  # one of each kind of negatives
    files: list[Path] = []  # of `write`


def values_of_design(
    planned: pd.DataFrame, folder: SplitFolder, store: Store, measures: Sequence[str]
) -> pd.DataFrame:
    """Return the values of the runs of a design that are computed, as `report` takes them."""
    check(measures)
    values_of = {}
    for run in dict.fromkeys(planned["run"]):
        values_of[run] = values_of_run(folder.read(run, store), folder, measures)
    parts = []
    for (negatives, alpha), rows in planned.groupby(["negatives", "alpha"], sort=False):
        values = {}
        for row in rows.itertuples():
            values[row.set, str(row.seed)] = values_of[row.run]
        joined = join_trainings(values, folder)
        trained = joined["trained"] + f" {negatives} {alpha}" if alpha else ""
        parts.append(joined.assign(negatives=negatives, alpha=alpha, trained=trained))
    return pd.concat(parts, ignore_index=True)


def report(
    values: pd.DataFrame, gate_ids: Sequence[str], margin: float, seed: int, n_boot: int
) -> Merge:
    """Choose α on the gate's queries, and judge it on the test queries.

    α is the one with the best mean on the gate's queries in interpolation, the smaller one of
    equals.

    Parameters
    ----------
    values : DataFrame
        negatives, regime, alpha, seed, query_id, measure, value, trained ("" at α = 0); of both the
        gate's and the test queries. The first measure chooses.
    margin : float
        What counts as no difference, as a share of what the fine-tuned model reaches.
    """
    measure = values["measure"].iloc[0]
    is_gate = values["query_id"].isin(gate_ids)
    is_asked = (values["regime"] == INTERPOLATION) & (values["measure"] == measure)
    gate = values[is_gate & is_asked]
    n_gate = gate["query_id"].nunique()
    by_alpha = gate.groupby(["negatives", "alpha"])["value"].mean()
    best = by_alpha.groupby("negatives").idxmax()
    if n_gate < LEAST_QUERIES:
        best = best.head(0)
    bootstrap: dict[str, Any] = {"seed": seed, "n_boot": n_boot}
    tested = values[~is_gate].assign(model=values["alpha"].astype(str))
    tables = [_points(part, best, bootstrap) for _, part in tested.groupby("measure", sort=False)]
    points = pd.concat(tables, ignore_index=True)
    is_first = points["measure"] == measure
    of_gate = by_alpha.reindex(_alphas(points)).to_numpy()
    points["gate"] = np.where(is_first, of_gate, np.nan)
    sentences = [
        _sentence(of_negatives, margin, n_gate)
        for _, of_negatives in points[is_first].groupby("negatives", sort=False)
    ]
    return Merge(points=points, sentences=sentences)


def _alphas(table: pd.DataFrame) -> pd.MultiIndex:
    """Return the negatives and the α of each row."""
    return pd.MultiIndex.from_frame(table[["negatives", "alpha"]])


def _points(tested: pd.DataFrame, best: pd.Series, bootstrap: dict[str, Any]) -> pd.DataFrame:
    """Return the means of a measure and the differences to the fine-tuned models.

    The noise of training is that of each α, over both regimes and all kinds of negatives. Those
    differences have an interval that are judged: of the α that other queries chose.
    """
    means = effects(tested, ["model", *LABELS], **bootstrap)
    means["low"], means["high"] = simultaneous(means["mean"], means.drawn())
    differences = _differences(tested, bootstrap)
    is_judged = _alphas(differences).isin(best)
    judged = differences[is_judged]
    if len(judged):
        low, high = simultaneous(judged["mean"], judged.drawn())
        ends = [low, high, detectable(low, high, judged.drawn().std(axis=1))]
        differences.loc[is_judged, ENDS] = np.column_stack(ends)
    added = pd.DataFrame(differences).rename(columns={"mean": "difference"})
    points = pd.DataFrame(means)[[*LABELS, "mean", "low", "high", "n_queries", "n_trainings"]]
    points = points.merge(added[[*LABELS, "difference", *ENDS, "over"]], how="left", on=LABELS)
    points["chosen"] = _alphas(points).isin(best)
    order = ["negatives", "regime", "alpha"]
    return points.sort_values(order, key=_in_given_order, ignore_index=True)


def _in_given_order(column: pd.Series) -> pd.Series:
    """Return the place of each text among those of a column as they come; numbers as they are."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    codes, _ = pd.factorize(column)
    return pd.Series(codes, column.index)


def _differences(values: pd.DataFrame, bootstrap: dict[str, Any]) -> Effects:
    """Return the mean difference of each α to the fine-tuned model of the same training.

    LABELS, mean, over, and ENDS, which are undefined yet.
    """
    pair = ["negatives", "regime", "seed", "query_id", "measure"]
    if "left_out" in values:  # several models of a training measure a query
        pair.append("left_out")
    is_tuned = values["alpha"] == 1
    tuned = values.loc[is_tuned, [*pair, "value", "trained"]]
    pairs = values[~is_tuned].merge(tuned, on=pair, suffixes=("", "_tuned"))
    # at α = 0 only the fine-tuned side was trained
    trained = pairs["trained"].where(pairs["trained"] != "", pairs["trained_tuned"])
    pairs = pairs.assign(value=pairs["value"] - pairs["value_tuned"], trained=trained)
    table = effects(pairs, ["model", *LABELS], **bootstrap)
    table[ENDS] = np.nan
    return table


def _sentence(points: pd.DataFrame, margin: float, n_gate: int) -> str:
    """Return what the chosen α changes in both regimes, of models with one kind of negatives."""
    measure = points["measure"].iloc[0]
    negatives = points["negatives"].iloc[0]
    n_queries = min(n_gate, int(points["n_queries"].min()))
    if n_queries < LEAST_QUERIES:
        return (
            f"Nothing is said: {n_queries} queries of the gate or of the test set, and below "
            f"{LEAST_QUERIES} none is; name a larger --gate-split or test split."
        )
    chosen = points[points["chosen"]].set_index("regime")
    alpha = chosen["alpha"].iloc[0]
    choice = f"on {n_gate:,} queries of the gate, α = {alpha:g} is best"
    if negatives != "all":
        choice += f" (negatives: {negatives})"
    if alpha == 1:
        return f"No merge is chosen: {choice}, the fine-tuned weights."
    verdict = _verdict(points, chosen.loc[EXTRAPOLATION], margin)
    changes = []
    for regime in REGIMES:
        row = chosen.loc[regime]
        change = spelled(row["difference"], row["d_low"], row["d_high"], "points")
        changes.append(f"{change} in {regime}")
    return (
        f"{verdict}: {choice}; on the test queries it changes {measure} of the fine-tuned model by "
        f"{' and by '.join(changes)} (simultaneous 95 % CI)."
    )


def _verdict(points: pd.DataFrame, chosen: pd.Series, margin: float) -> str:
    """Return what the chosen α does to extrapolation, of the row `chosen`."""
    is_tuned = (points["alpha"] == 1) & (points["regime"] == EXTRAPOLATION)
    reach = margin * points.loc[is_tuned, "mean"].item()
    low = chosen["d_low"]
    high = chosen["d_high"]
    if low > 0:
        return "Merging gains in extrapolation"
    if high < 0:
        return "Merging loses in extrapolation"
    if -reach < low and high < reach:
        return f"Merging changes extrapolation by less than {100 * margin:g} %"
    return "Whether merging helps in extrapolation is undecided"


def write(folder: Path, found: Merge) -> Merge:
    """Write the report as merge.html and merge.csv; return it with `files`."""
    text = found.points.to_csv(index=False, float_format="%.6g")
    files = [
        write_text(folder / "merge.csv", text),
        write_text(folder / "merge.html", page(found)),
    ]
    return found._replace(files=files)


def page(found: Merge) -> str:
    """Return the report as one HTML page."""
    figures.style()
    over = drawn_over(found.points["over"])
    body = [
        "<h1>Weights between the given and the fine-tuned model</h1>",
        *(f"<p>{html.escape(sentence)}</p>" for sentence in found.sentences),
        svg_of(picture(found.points)),
        shown(for_page(found.points)).to_html(),
        f"<p>{LEGEND.format(over=over)}</p>",
    ]
    return html_page("Merged weights", body)


def for_page(points: pd.DataFrame) -> pd.DataFrame:
    """Return the points with fewer columns, in the words of a reader."""
    is_tuned = points["difference"].isna()
    percent = 100 * points["detects"]
    points = points.assign(detects=percent.map("{:.1f} points".format, "ignore"))
    points = with_interval(points, "difference", "points", low="d_low", high="d_high")
    without_interval = points["difference"].str.removesuffix(" [undefined]")
    points["difference"] = without_interval.mask(is_tuned, "–")
    shares = points["alpha"].map("{:g}".format)
    points = points.assign(alpha=shares).rename(columns={"alpha": "α"})
    return points.drop(columns=["n_queries", "n_trainings", "over", "chosen"])


def picture(points: pd.DataFrame) -> figures.Drawing:
    """Return the means of both regimes against α, a panel for each kind of negatives."""
    measure = points["measure"].iloc[0]
    of_measure = points[points["measure"] == measure].rename(columns={"alpha": "α"})
    panel = "negatives" if of_measure["negatives"].nunique() > 1 else ""
    titles = "negatives: " + of_measure["negatives"]
    return figures.bands(
        of_measure.assign(negatives=titles), "α", "mean", "regime", measure, panel=panel
    )

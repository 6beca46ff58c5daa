"""Notebook 12: weights between a model before and after fine-tuning, without a training.

Each weight is (1 - α) times that of the model as given plus α times that of the fine-tuned one, as
in WiSE-FT (Wortsman et al., CVPR 2022) and LM-Cocktail (Xiao et al., Findings of ACL 2024).
"""

import os
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
from interextra.own.page import html_page, paragraphs, svg_of, wide_table
from interextra.own.probe import DEPTH
from interextra.own.regimes import EXTRAPOLATION, INTERPOLATION
from interextra.own.split_folder import SplitFolder
from interextra.own.values import join_trainings, values_of_run
from interextra.splits.shift import OUTSIDE
from interextra.splits.split import REGIMES
from interextra.stats.bootstrap import simultaneous
from interextra.stats.effects import Effects, effects
from interextra.stats.formatting import drawn_over, spelled, with_interval
from interextra.stats.tests import LEAST_QUERIES, detectable, standard_error
from interextra.store import InputError, Store, offenders, scratch, write_text

ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0)  # 0: the model as given; 1: the fine-tuned one
SAFETENSORS = ".safetensors"
# Suffixes of weights that libraries save in other formats, and names of files that have such a
# suffix but hold what a training goes on from
OTHER_FORMATS = {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf"}
OF_TRAINERS = {"training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt"}
UNEXPOSED = "unexposed"
LABELS = ["negatives", "regime", "alpha", "measure"]
ENDS = ["d_low", "d_high", "detects"]  # of a difference
OF_MEANS = [*LABELS, "mean", "low", "high", "n_queries", "n_trainings"]
OF_DIFFERENCES = [*LABELS, "difference", *ENDS, "over"]
CHOSEN = "chosen"  # label merge of a table: each left-out kind with its own α
SIDES = {True: "out", False: "in"}  # whether queries are of the left-out kind → label side
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
        with tempfile.TemporaryDirectory() as temporary:
            merged = Path(temporary) / "weights"
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
        The models have other weights, by file, name or shape, or weights in files of another
        format. Then nothing is written.
    """
    from safetensors.torch import save_file

    names = _weight_files(fine_tuned)
    unshared = sorted(set(names) ^ set(_weight_files(given)))
    if unshared:
        raise _different(given, fine_tuned, unshared)
    with scratch(out.with_name(f"{out.name}.tmp{os.getpid()}")) as aside:
        shutil.copytree(fine_tuned, aside, dirs_exist_ok=True)
        for name in names:
            merged = _merged(given, fine_tuned, name, alpha)
            save_file(merged, aside / name, metadata={"format": "pt"})
        os.replace(aside, out)


def _weight_files(folder: Path) -> list[str]:
    """Return the safetensors files of a model, relative to its folder.

    Raises
    ------
    InputError
        There is none, or weights are in files of another format.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    others = [path.relative_to(folder).as_posix() for path in files if _has_other_weights(path)]
    if others:
        raise InputError(
            f"merge: {folder} has weights of another format than safetensors ({offenders(others)}) "
            "that would not be merged; save the model with safetensors alone"
        )
    names = [path.relative_to(folder).as_posix() for path in files if path.suffix == SAFETENSORS]
    if not names:
        raise InputError(f"{folder}: no safetensors weights, so that nothing can be merged")
    return names


def _has_other_weights(path: Path) -> bool:
    """Return whether a file is named like weights in another format than safetensors."""
    return path.suffix in OTHER_FORMATS and path.name not in OF_TRAINERS


def _merged(given: Path, fine_tuned: Path, name: str, alpha: float) -> dict[str, Any]:
    """Return the weights between those of one file of both models."""
    from safetensors.torch import load_file

    before = load_file(given / name)
    after = load_file(fine_tuned / name)
    unlike = _unlike(before, after)
    if unlike:
        raise _different(given, fine_tuned, unlike)
    return {weight: _between(before[weight], after[weight], alpha) for weight in after}


def _unlike(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Return the names of the weights that one of both lacks, or has in another shape, sorted."""
    missing = before.keys() ^ after.keys()
    common = before.keys() & after.keys()
    reshaped = {weight for weight in common if before[weight].shape != after[weight].shape}
    return sorted(missing | reshaped)


def _between(before: Any, after: Any, alpha: float) -> Any:
    """Return a tensor between two of the same shape; one of whole numbers is the second."""
    if not after.is_floating_point():
        return after
    merged = before.float().lerp(after.float(), alpha)
    return merged.to(after.dtype)


def _different(given: Path, fine_tuned: Path, names: Sequence[object]) -> InputError:
    """Return the error of models that cannot be merged."""
    first = offenders(names)
    return InputError(
        f"merge: {given} and {fine_tuned} differ in {len(names)} weights or files of them, by name "
        f"or shape ({first}): only models of one architecture have weights between them"
    )


def design(
    recipe: Recipe,
    training_sets: Mapping[str, Part],
    queries: tuple[Queries | Part, ...],
    seeds: Sequence[int],
    given: Model,
    alphas: Sequence[float] = ALPHAS,
) -> pd.DataFrame:
    """Plan the weights between a model as given and our own trainings.

    Where the recipe draws negatives, all is planned with and without the exposed passages among
    them. At α = 1 stand the runs of the trainings, at 0 that of the model as given, which searches
    the same.

    Parameters
    ----------
    recipe : Recipe
        Of the training.
    training_sets : mapping
        Those of a split, by name.
    queries : tuple
        What is searched: the test queries and those that choose α, see `searched_queries`.
    given : Model
        The one that the trainings start from.

    Returns
    -------
    DataFrame
        negatives (the recipe's first), set, seed, alpha, run.
    """
    rows = []
    for negatives, variant in _variants(recipe).items():
        for name, training_set in training_sets.items():
            for seed in seeds:
                model = model_of(variant, training_set, seed)
                fine_tuned = Run(model=model, queries=queries, depth=DEPTH)
                for alpha in alphas:
                    run = merged_run(given, fine_tuned, alpha)
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


def merged_run(given: Model, fine_tuned: Run, alpha: float) -> Run:
    """Return the run of the weights at α (0 to 1) that searches what the fine-tuned one does."""
    searched = {"queries": fine_tuned.queries, "depth": fine_tuned.depth}
    if alpha == 0:
        return Run(model=given, **searched)
    if alpha == 1:
        return fine_tuned
    return MergedRun(model=fine_tuned.model, given=given, alpha=alpha, **searched)


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
        ranking = folder.read(run, store)
        values_of[run] = values_of_run(ranking, folder, measures)
    parts = []
    for labels, rows in planned.groupby(["negatives", "alpha"], sort=False):
        negatives, alpha = labels
        values = {}
        for row in rows.itertuples():
            values[row.set, str(row.seed)] = values_of[row.run]
        joined = join_trainings(values, folder).assign(negatives=negatives, alpha=alpha)
        if alpha:
            joined["trained"] += f" {negatives} {alpha}"
        else:
            joined["trained"] = ""
        parts.append(joined)
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
    choosing = _in_domain(values[is_gate], measure)
    n_gate = choosing["query_id"].nunique()
    gate_means = choosing.groupby(["negatives", "alpha"])["value"].mean()
    best = gate_means.round(9).groupby("negatives").idxmax()  # rounding alone makes none better
    if n_gate < LEAST_QUERIES:
        best = best.head(0)
    points = _points_of_measures(values[~is_gate], best, {"seed": seed, "n_boot": n_boot})
    is_judged = points["measure"] == measure
    of_gate = gate_means.reindex(_alphas(points)).to_numpy()
    points["gate"] = np.where(is_judged, of_gate, np.nan)
    sentences = []
    for _, of_negatives in points[is_judged].groupby("negatives", sort=False):
        sentences.append(_sentence(of_negatives, margin, n_gate))
    return Merge(points=points, sentences=sentences)


def _in_domain(values: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return the values of a measure in interpolation."""
    is_interpolation = values["regime"] == INTERPOLATION
    is_asked = values["measure"] == measure
    return values[is_interpolation & is_asked]


def _points_of_measures(
    tested: pd.DataFrame, best: pd.Series, bootstrap: dict[str, Any]
) -> pd.DataFrame:
    """Return the points of all measures, each judged by itself; see `Merge.points`."""
    tested = tested.assign(model=tested["alpha"].astype(str))
    tables = []
    for _, of_measure in tested.groupby("measure", sort=False):
        tables.append(_points(of_measure, best, bootstrap))
    return pd.concat(tables, ignore_index=True)


def _alphas(table: pd.DataFrame) -> pd.MultiIndex:
    """Return the negatives and the α of each row."""
    return pd.MultiIndex.from_frame(table[["negatives", "alpha"]])


def _points(tested: pd.DataFrame, best: pd.Series, bootstrap: dict[str, Any]) -> pd.DataFrame:
    """Return the means of a measure and the differences to the fine-tuned models.

    The noise of training is that of each α, over both regimes and all kinds of negatives. Those
    differences have an interval that are judged: of the α that other queries chose.
    """
    means = effects(tested, ["model", *LABELS], **bootstrap)
    low, high = simultaneous(means["mean"], means.drawn())
    means["low"] = low
    means["high"] = high
    points = pd.DataFrame(means)[OF_MEANS]
    differences = _differences(tested, best, bootstrap)
    points = points.merge(differences, how="left", on=LABELS)
    points["chosen"] = _alphas(points).isin(best)
    order = ["negatives", "regime", "alpha"]
    return points.sort_values(order, key=_in_given_order, ignore_index=True)


def _in_given_order(column: pd.Series) -> pd.Series:
    """Return the place of each text among those of a column as they come; numbers as they are."""
    if pd.api.types.is_numeric_dtype(column):
        return column
    codes, _ = pd.factorize(column)
    return pd.Series(codes, column.index)


def _differences(tested: pd.DataFrame, best: pd.Series, bootstrap: dict[str, Any]) -> pd.DataFrame:
    """Return OF_DIFFERENCES: to the fine-tuned models, with intervals where α was chosen."""
    pairs = _paired_differences(tested, ["negatives", "regime"])
    differences = effects(pairs, ["model", *LABELS], **bootstrap)
    differences[ENDS] = np.nan
    is_judged = _alphas(differences).isin(best)
    if is_judged.any():
        differences.loc[is_judged, ENDS] = _ends(differences[is_judged])
    renamed = pd.DataFrame(differences).rename(columns={"mean": "difference"})
    return renamed[OF_DIFFERENCES]


def _ends(judged: Effects) -> np.ndarray:
    """Return the ENDS of differences that are judged together, float[rows, 3]."""
    draws = judged.drawn()
    low, high = simultaneous(judged["mean"], draws)
    detects = detectable(low, high, standard_error(draws))
    return np.column_stack([low, high, detects])


def _paired_differences(values: pd.DataFrame, labels: Sequence[str] = ()) -> pd.DataFrame:
    """Return the difference of each value to that of the fine-tuned model, as `value`.

    The two share the labels.
    """
    pair = [*labels, "seed", "query_id", "measure"]
    if "left_out" in values:  # several models of a training measure a query
        pair.append("left_out")
    is_tuned = values["alpha"] == 1
    tuned = values.loc[is_tuned, [*pair, "value", "trained"]]
    others = values[~is_tuned]
    pairs = others.merge(tuned, on=pair, suffixes=("", "_tuned"))
    # at α = 0 only the fine-tuned side was trained
    is_trained = pairs["trained"] != ""
    trained = pairs["trained"].where(is_trained, pairs["trained_tuned"])
    differences = pairs["value"] - pairs["value_tuned"]
    return pairs.assign(value=differences, trained=trained)


def chosen_by_kind(values: pd.DataFrame) -> pd.DataFrame:
    """Choose α for each left-out kind: the best mean on queries of the kinds in training.

    Parameters
    ----------
    values : DataFrame
        left_out, alpha, stratum (the query's kind), measure, value; of queries that measure nothing
        else, by models without a kind each and their merges. The first measure chooses; of equals
        the smaller α.

    Returns
    -------
    DataFrame
        left_out, alpha (the chosen one), gate (its mean), gate_tuned (the fine-tuned model's),
        n_gate (queries).

    Raises
    ------
    InputError
        For a left-out kind no query is of a kind in training, or no value is of its fine-tuned
        model (α = 1).
    """
    if values.empty:
        raise InputError("merge: no query chooses α; name a gate_split that has some")
    is_asked = values["measure"] == values["measure"].iloc[0]
    of_kinds = _of_kinds(values[is_asked])
    known = of_kinds[of_kinds["side"] == "in"]
    left_out_kinds = values["left_out"].unique()
    lacking = [kind for kind in left_out_kinds if kind not in set(known["left_out"])]
    if lacking:
        raise InputError(
            f"merge: to choose α without {offenders(lacking)}, no query is of a kind in training; "
            "name a gate_split that has some"
        )
    tuned = known[known["alpha"] == 1]
    untuned = [kind for kind in left_out_kinds if kind not in set(tuned["left_out"])]
    if untuned:
        raise InputError(
            f"merge: without {offenders(untuned)}, no value is of the fine-tuned model; "
            "give also those of α = 1"
        )
    rows = []
    for left_out, of_kind in known.groupby("left_out", sort=False):
        means = of_kind.groupby("alpha")["value"].mean()
        best = means.round(9).idxmax()
        n_queries = of_kind["query_id"].nunique()
        rows.append((left_out, best, means[best], means[1.0], n_queries))
    return pd.DataFrame(rows, columns=["left_out", "alpha", "gate", "gate_tuned", "n_gate"])


def left_out_effects(values: pd.DataFrame, chosen: pd.DataFrame, seed: int, n_boot: int) -> Effects:
    """Return what merging changes of models without a kind each, to the fine-tuned ones.

    Parameters
    ----------
    values : DataFrame
        left_out, alpha, stratum, seed, query_id, measure, value, trained; of the test queries.
    chosen : DataFrame
        The α of each left-out kind, of `chosen_by_kind`.

    Returns
    -------
    Effects[merge, side, measure, difference, low, high, n_queries, …]
        merge: CHOSEN, or an α for all kinds. side: out, on the left-out kind; in, on the kinds in
        training. difference: in points, the mean of the left-out kinds, each with its own model.
        It is 0 where α = 1 is chosen.
    """
    values = _of_kinds(values)
    tuned = values[values["alpha"] == 1].assign(value=0.0, trained="")
    pairs = pd.concat([_paired_differences(values), tuned], ignore_index=True)
    alpha_of_kind = chosen.set_index("left_out")["alpha"]
    is_chosen = pairs["alpha"] == pairs["left_out"].map(alpha_of_kind)
    of_alphas = pairs[pairs["alpha"] < 1]
    merges = [
        pairs[is_chosen].assign(merge=CHOSEN),
        of_alphas.assign(merge=of_alphas["alpha"].map("{:g}".format)),
    ]
    differences = _kinds_alike(pd.concat(merges, ignore_index=True))
    # each its own system: trainings vary on few queries of a kind otherwise than on all others
    differences["model"] = differences["merge"] + ", " + differences["side"]
    by = ["merge", "side", "measure"]
    table = effects(differences, ["model", *by], strata="stratum", seed=seed, n_boot=n_boot)
    return table.without("model", "difference")


def _of_kinds(values: pd.DataFrame) -> pd.DataFrame:
    """Return the values of queries that are of a kind, with the label side."""
    is_of_kind = ~values["stratum"].isin([OUTSIDE, ""])
    values = values[is_of_kind]
    is_left_out = values["stratum"] == values["left_out"]
    return values.assign(side=is_left_out.map(SIDES))


def _kinds_alike(values: pd.DataFrame) -> pd.DataFrame:
    """Return values whose mean on the kinds in training is that of the left-out kinds' models.

    There each query is drawn once, with the values of all models that had its kind in training.
    These are weighted so that each model counts alike, whatever the number of queries of its kind,
    and of kinds that none of the models leaves out.
    """
    is_in = values["side"] == "in"
    known = values[is_in]
    n_queries = known["query_id"].nunique()
    n_models = known["left_out"].nunique()
    queries_of_model = known.groupby("left_out")["query_id"].nunique()
    models_of_query = known.groupby("query_id")["left_out"].nunique()
    n_of_model = values["left_out"].map(queries_of_model)
    n_of_query = values["query_id"].map(models_of_query)
    weight = n_queries * n_of_query / (n_models * n_of_model)
    weights = weight.where(is_in, 1.0)
    stratum = values["stratum"].mask(is_in, "kinds in training")
    return values.assign(value=values["value"] * weights, stratum=stratum)


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
    if alpha == 0:
        choice += ", the weights before fine-tuning, which is no merge"
    changes = " and by ".join(_change(regime, chosen.loc[regime]) for regime in REGIMES)
    return (
        f"{verdict}: {choice}; on the test queries it changes {measure} of the fine-tuned model by "
        f"{changes} (simultaneous 95 % CI)."
    )


def _change(regime: str, chosen: pd.Series) -> str:
    """Return by how much the chosen α changes a regime."""
    change = spelled(chosen["difference"], chosen["d_low"], chosen["d_high"], "points")
    return f"{change} in {regime}"


def _verdict(points: pd.DataFrame, chosen: pd.Series, margin: float) -> str:
    """Return what the chosen α does to extrapolation, of the row `chosen`."""
    tuned = points[points["alpha"] == 1].set_index("regime")
    reach = margin * tuned.at[EXTRAPOLATION, "mean"]
    low = chosen["d_low"]
    high = chosen["d_high"]
    change = "Merging" if chosen["alpha"] > 0 else "Undoing the fine-tuning"
    if low > 0:
        return f"{change} gains in extrapolation"
    if high < 0:
        return f"{change} loses in extrapolation"
    if -reach < low and high < reach:
        return f"{change} changes extrapolation by less than {100 * margin:g} %"
    return f"Whether {change.lower()} helps in extrapolation is undecided"


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
        *paragraphs(found.sentences),
        svg_of(picture(found.points)),
        wide_table(for_page(found.points)),
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
    points = points.assign(alpha=shares)
    points = points.drop(columns=["n_queries", "n_trainings", "over", "chosen"])
    return points.rename(columns={"alpha": "α"})


def picture(points: pd.DataFrame) -> figures.Drawing:
    """Return the means of both regimes against α, a panel for each kind of negatives."""
    measure = points["measure"].iloc[0]
    of_measure = points[points["measure"] == measure]
    of_measure = of_measure.rename(columns={"alpha": "α"})
    panel = "negatives" if of_measure["negatives"].nunique() > 1 else ""
    titles = "negatives: " + of_measure["negatives"]
    return figures.bands(
        of_measure.assign(negatives=titles), "α", "mean", "regime", measure, panel=panel
    )

"""Whether in-domain quality predicts out-of-domain quality among published models.

By any table of scores, a row per model. These are not the models of Zhan et al.: nobody resampled
their training queries. Their table (section 4.2) asks whether *extrapolation* predicts it; here is
what plain quality in domain predicts, among the models that people use.
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.load import with_data_folder
from interextra.stats.correlation import METHODS, correlations, drawn_groups, ends_of, stretched_z
from interextra.stats.effects import DRAWN, Effects
from interextra.store.errors import InputError, offenders

DEV, DL19 = "msmarco_dev_ndcg10", "msmarco_test_dl19_ndcg10"
ABOUT = ["model", "model_type", "trained_on_of_these", "training_data"]
ALL, BY_DL19 = "mean of all", "by TREC DL 2019"
NOT_SETS = (*ABOUT, DEV, DL19, "msmarco_dev_mrr10", "msmarco_revision_folder", "family", ALL)
# Sizes, versions and languages: what a maker's models of one recipe differ in
SIZE = (
    r"(x|xx)?(tiny|mini|small|base|medium|large|micro|s|m|l|xs|b|h)"
    r"|\d+(\.\d+)?[bmk]|[vl]?\d+(\.\d+)*|1b1|d\d+|h\d+"
)
OTHER = (
    r"multilingual|english|en|r\d|instruct|long|only|ablated"
    r"|unsupervised|supervised|unsup|simcse|mntp"
)


def read(path: str) -> pd.DataFrame:
    """Read a table of scores, a row per model.

    Parameters
    ----------
    path
        A CSV file; `$INTEREXTRA_DATA` stands for the folder of real data. Columns: model,
        msmarco_dev_ndcg10 and, for each collection, one with its nDCG@10, fractions. Columns that
        may be there: model_type (dense, sparse, late-interaction), trained_on_of_these (names of
        collections, with spaces between them), training_data (declared, or something else),
        msmarco_test_dl19_ndcg10. Every other column of numbers is a collection.

    Returns
    -------
    The table with `family` and "mean of all".

    Raises
    ------
    InputError
        It names what is missing, twice, or no fraction.
    """
    file = located(path)
    try:
        table = pd.read_csv(file)
    except ValueError as error:  # not a table, empty, or not text
        raise InputError(
            f"{path}: no comma-separated table ({error}); give one with a row per model"
        ) from None
    _check_models(table, path)
    for name in ABOUT:
        if name not in table:
            table[name] = ""
    table["family"] = table["model"].map(family)
    table[ABOUT] = table[ABOUT].fillna("")
    names = collections(table)
    if len(names) < 2 or len(table) < 4:
        raise InputError(
            f"{path}: {len(table)} models on {len(names)} collections; "
            "needs 4 models and 2 collections"
        )
    for name in [DEV, *names]:
        _refuse_no_fraction(table[name], path)
    table[ALL] = table[names].mean(axis=1)
    return table


def _check_models(table: pd.DataFrame, path: str) -> None:
    """Refuse a table without a model or its score in domain, or with a model twice."""
    missing = [name for name in ("model", DEV) if name not in table]
    if missing:
        present = offenders(table, 20)
        raise InputError(f"{path}: no column {offenders(missing)}; there are {present}")
    is_repeated = table["model"].duplicated()
    repeated = table["model"][is_repeated].unique()
    if len(repeated):
        raise InputError(f"{path}: model {offenders(repeated)} stands twice")


def _refuse_no_fraction(scores: pd.Series, path: str) -> None:
    """Refuse scores that are missing, or not between 0 and 1."""
    wrong = scores[~scores.between(0, 1)]
    if len(wrong):
        line = wrong.index[0] + 2  # below the header, counted from 1
        fault = f"{scores.name} = {wrong.iloc[0]}"
        raise InputError(f"{path}, line {line}: {fault} is no fraction")


def located(path: str) -> Path:
    """Return the file of a table of scores; refuse one that is not there."""
    file = Path(with_data_folder(path))
    if not file.is_file():
        raise InputError(f"parameter 'results': there is no file {path}")
    return file


def collections(table: pd.DataFrame) -> list[str]:
    """Return the columns of a table that are collections."""
    return [name for name in table.select_dtypes("number") if name not in NOT_SETS]


def family(model: str) -> str:
    """Return maker and recipe of a model: its name without size, version and language.

    Examples
    --------
    >>> family("intfloat/multilingual-e5-large"), family("intfloat/e5-small-v2")
    ('intfloat/e5', 'intfloat/e5')
    >>> family("Qwen/Qwen3-Embedding-0.6B")
    'qwen/qwen3-embedding'
    """
    maker, _, name = model.lower().rpartition("/")
    left_out = re.compile(f"{SIZE}|{OTHER}")
    words = [word for word in re.split(r"[-_]", name) if not left_out.fullmatch(word)]
    recipe = "-".join(words) or name
    return f"{maker}/{recipe}"


def subsets(table: pd.DataFrame, collection: str, floor: float) -> dict[str, pd.Series]:
    """Return which models belong to each subset, bool, by its name.

    All, those above the floor, and of these some by the training that they declare. For the mean of
    all, *not trained on it* means on none of the collections.
    """
    names = collections(table)
    tested = names if collection == ALL else [collection]
    declared = table["trained_on_of_these"].str.split()
    not_on_it = declared.map(set(tested).isdisjoint)
    on_none = declared.map(set(names).isdisjoint)
    on_ms_marco = declared.map(lambda trained_on: "MSMARCO" in trained_on)
    strong = table[DEV] > floor
    above = f"dev above {floor:g}"
    return {
        "all": pd.Series(True, table.index),
        above: strong,
        f"{above}, not declared on it": strong & not_on_it,
        f"{above}, MS MARCO and none of these": strong & on_ms_marco & on_none,
        f"{above}, training disclosed": strong & (table["training_data"] == "declared"),
    }


def correlated(table: pd.DataFrame, floor: float, seed: int, n_boot: int) -> pd.DataFrame:
    """Return the correlations of quality in domain with quality out of domain.

    In domain is MS MARCO dev, or TREC DL 2019 in the subsets so named. Families are drawn; below
    four of them, no interval.

    Returns
    -------
    collection, subset, statistic, value, low, high, n_models, n_families.
    """
    rows = []
    for collection in [*collections(table), ALL]:
        for subset, which in _all_subsets(table, collection, floor).items():
            in_domain = DL19 if subset.startswith(BY_DL19) else DEV
            models = table[which]
            if len(models) < 4:
                continue
            counts = drawn_groups(models["family"], seed, n_boot)
            n_families = models["family"].nunique()
            for statistic in METHODS:
                value, draws = _correlation(models, in_domain, collection, counts, statistic)
                low = high = np.nan
                if n_families > 3:
                    low, high = ends_of(draws)
                row = {
                    "collection": collection,
                    "subset": subset,
                    "statistic": statistic,
                    "value": value,
                    "low": low,
                    "high": high,
                    "n_models": len(models),
                    "n_families": n_families,
                }
                rows.append(row)
    return pd.DataFrame(rows)


def _all_subsets(table: pd.DataFrame, collection: str, floor: float) -> dict[str, pd.Series]:
    """Return `subsets`, and those of the models with a score on TREC DL 2019."""
    chosen = subsets(table, collection, floor)
    if DL19 in table:
        known = table[DL19].notna()
        strong = table[DEV] > floor
        chosen[BY_DL19] = known
        by_dl19_above = f"{BY_DL19}, dev above {floor:g}"
        chosen[by_dl19_above] = known & strong
    return chosen


def _correlation(
    models: pd.DataFrame, in_domain: str, collection: str, counts: np.ndarray, statistic: str
) -> tuple[float, np.ndarray]:
    """Return the correlation of two columns and its draws; `counts`: of each model in each draw."""
    x = models[in_domain].to_numpy()
    y = models[collection].to_numpy()
    once = np.ones((1, len(models)))
    value = correlations(x, y, once, statistic)[0]
    drawn = correlations(x, y, counts, statistic)
    return value, stretched_z(drawn, value, models["family"].nunique())


def by_declaration(table: pd.DataFrame, floor: float, seed: int, n_boot: int) -> Effects:
    """Return the Spearman correlation of quality on MS MARCO dev with the mean of all.

    Of the models above the floor that declare training on one of the collections, and of those that
    declare none; families are drawn once for both.

    Returns
    -------
    Effects[models (declared, not declared), measure, estimate, n_models, drawn_units].
    """
    strong = table[table[DEV] > floor]
    counts = drawn_groups(strong["family"], seed, n_boot)
    subset = f"dev above {floor:g}, not declared on it"
    not_declared = subsets(strong, ALL, floor)[subset]
    rows = []
    drawn = []
    groups = {"declared": ~not_declared, "not declared": not_declared}
    for name, which in groups.items():
        models = strong[which]
        counts_of_group = counts[:, which]
        value, draws = _correlation(models, DEV, ALL, counts_of_group, "Spearman")
        row = {
            "models": name,
            "measure": "Spearman correlation",
            "estimate": value,
            "n_models": len(models),
            DRAWN: "models",
        }
        rows.append(row)
        drawn.append(draws)
    return Effects.of(pd.DataFrame(rows), ["models"], ["estimate"], drawn)

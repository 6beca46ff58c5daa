"""Does in-domain quality predict out-of-domain quality among published models? Any table of scores,
a row a model.

These are not the models of Zhan et al.: nobody resampled their training queries. Their table
(section 4.2) asks whether *extrapolation* predicts it; here is what plain quality in domain
predicts, among the models that people use.
"""

import itertools
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
SIZE = r"(x|xx)?(tiny|mini|small|base|medium|large|micro|s|m|l|xs|b|h)|\d+(\.\d+)?[bmk]|[vl]?\d+(\.\d+)*|1b1|d\d+|h\d+"
OTHER = r"multilingual|english|en|r\d|instruct|long|only|ablated|unsupervised|supervised|unsup|simcse|mntp"


def read(path: str) -> pd.DataFrame:
    """A table of scores: model, msmarco_dev_ndcg10 and, for each collection, a column with its
    nDCG@10, fractions.

    `$INTEREXTRA_DATA` stands for the folder of real data. Columns that may be there: model_type
    (dense, sparse, late-interaction), trained_on_of_these (names of collections, with spaces
    between them), training_data (declared, or something else), msmarco_test_dl19_ndcg10. Every
    other column of numbers is a collection. Returns the table with `family` and "mean of all".
    InputError names what is missing, twice, or no fraction.
    """
    place = located(path)
    try:
        table = pd.read_csv(place)
    except ValueError as error:  # not a table, empty, or not text
        raise InputError(
            f"{path}: no comma-separated table ({error}); give one with a row per model"
        ) from None
    if absent := [name for name in ("model", DEV) if name not in table]:
        raise InputError(
            f"{path}: no column {offenders(absent)}; there are {offenders(list(table), 20)}"
        )
    if (twice := table["model"].duplicated()).any():
        raise InputError(f"{path}: model {offenders(table['model'][twice].unique())} stands twice")
    table = table.assign(
        **{name: "" for name in ABOUT if name not in table}, family=table["model"].map(family)
    )
    table[ABOUT] = table[ABOUT].fillna("")
    sets = collections(table)
    if len(sets) < 2 or len(table) < 4:
        raise InputError(
            f"{path}: {len(table)} models on {len(sets)} collections; needs 4 models and 2 collections"
        )
    for name in [DEV, *sets]:
        if len(wrong := table.index[~table[name].between(0, 1)]):
            raise InputError(
                f"{path}, line {wrong[0] + 2}: {name} = {table[name][wrong[0]]} is no fraction"
            )
    return table.assign(**{ALL: table[sets].mean(axis=1)})


def located(path: str) -> Path:
    place = Path(with_data_folder(path))
    if not place.is_file():
        raise InputError(f"parameter 'results': there is no file {path}")
    return place


def collections(table: pd.DataFrame) -> list[str]:
    return [name for name in table.select_dtypes("number") if name not in NOT_SETS]


def family(model: str) -> str:
    """Maker and recipe: the name without size, version and language.

    >>> family("intfloat/multilingual-e5-large"), family("intfloat/e5-small-v2"), family("Qwen/Qwen3-Embedding-0.6B")
    ('intfloat/e5', 'intfloat/e5', 'qwen/qwen3-embedding')
    """
    maker, _, name = model.lower().rpartition("/")
    words = [word for word in re.split(r"[-_]", name) if not re.fullmatch(f"{SIZE}|{OTHER}", word)]
    return f"{maker}/{'-'.join(words) or name}"


def subsets(table: pd.DataFrame, collection: str, floor: float) -> dict[str, pd.Series]:
    """Name → which models, bool: all, those above the floor, and of these some by the training that
    they declare.

    For the mean of all, *not trained on it* means on none of the collections.
    """
    sets, strong = collections(table), table[DEV] > floor
    declared = table["trained_on_of_these"].str.split()
    clean = declared.map(set(sets if collection == ALL else [collection]).isdisjoint)
    only = declared.map(lambda names: "MSMARCO" in names and set(sets).isdisjoint(names))
    above = f"dev above {floor:g}"
    return {
        "all": pd.Series(True, table.index),
        above: strong,
        f"{above}, not declared on it": strong & clean,
        f"{above}, MS MARCO and none of these": strong & only,
        f"{above}, training disclosed": strong & (table["training_data"] == "declared"),
    }


def correlated(table: pd.DataFrame, floor: float, seed: int, n_boot: int) -> pd.DataFrame:
    """Correlations of quality: collection, subset, statistic, value, low, high, n_models,
    n_families.

    In domain is MS MARCO dev, or TREC DL 2019 in the subsets so named. Families are drawn; below
    four, no interval.
    """
    rows = []
    for collection in [*collections(table), ALL]:
        chosen = {name: (DEV, which) for name, which in subsets(table, collection, floor).items()}
        if DL19 in table:
            known = table[DL19].notna()
            chosen[BY_DL19] = DL19, known
            chosen[f"{BY_DL19}, dev above {floor:g}"] = DL19, known & (table[DEV] > floor)
        for (name, (column, which)), statistic in itertools.product(chosen.items(), METHODS):
            part = table[which]
            if len(part) < 4:
                continue
            x, y, families = part[column].to_numpy(), part[collection].to_numpy(), part["family"]
            value = correlations(x, y, np.ones((1, len(part))), statistic)[0]
            ends = (np.nan, np.nan)
            if families.nunique() > 3:
                drawn = correlations(x, y, drawn_groups(families, seed, n_boot), statistic)
                ends = ends_of(stretched_z(drawn, value, families.nunique()))
            rows.append((collection, name, statistic, value, *ends, len(part), families.nunique()))
    columns = [
        "collection",
        "subset",
        "statistic",
        "value",
        "low",
        "high",
        "n_models",
        "n_families",
    ]
    return pd.DataFrame(rows, columns=columns)


def by_declaration(table: pd.DataFrame, floor: float, seed: int, n_boot: int) -> Effects:
    """Spearman correlation of quality on MS MARCO dev with the mean of all, of models above the
    floor.

    Of those that declare training on one of the collections, and of those that declare none;
    families are drawn once for both. Returns Effects[models (declared, not declared), measure,
    estimate, n_models, drawn_units].
    """
    part = table[table[DEV] > floor]
    counts, rows, drawn = drawn_groups(part["family"], seed, n_boot), [], []
    clean = subsets(part, ALL, floor)[f"dev above {floor:g}, not declared on it"].to_numpy()
    for name, which in (("declared", ~clean), ("not declared", clean)):
        x, y = part[DEV].to_numpy()[which], part[ALL].to_numpy()[which]
        value = correlations(x, y, np.ones((1, len(x))), "Spearman")[0]
        row = {
            "models": name,
            "measure": "Spearman correlation",
            "estimate": value,
            "n_models": len(x),
        }
        rows.append(row | {DRAWN: "models"})
        plain = correlations(x, y, counts[:, which], "Spearman")
        drawn.append(stretched_z(plain, value, part["family"][which].nunique()))
    return Effects.of(pd.DataFrame(rows), ["models"], ["estimate"], drawn)

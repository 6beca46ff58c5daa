"""Interpolation beside extrapolation: one row a model and measure, with interval and corrected p-value."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from interextra.ground.errors import InputError, offenders
from interextra.ground import statistics


def regime_row(
    inter: pd.Series,
    extra: pd.Series,
    paired: bool,
    seed: int = 0,
    n_boot: int = 10_000,
    level: float = 0.95,
    test: str = "t",
) -> dict[str, float]:
    """Means of a measure in both regimes and delta = extrapolation / interpolation - 1, over queries.

    `inter` and `extra` hold a value per query_id. Paired (ReSTrain, ReSTTest): the same test queries under two models,
    matched by query_id and resampled jointly. Unpaired: different test queries, resampled independently.
    delta_low and delta_high bound the percentile bootstrap interval of `level`. p_value is of equal means: `test="t"`
    paired t or Welch, `test="permutation"` sign flips or permuted labels. n_queries counts both regimes, the paired
    once. For ASL, where lower is better, a positive delta is a loss. Raises InputError for an empty regime, a missing
    value, an interpolation mean of 0, different queries where paired.

    >>> row = regime_row(pd.Series({"q1": 0.8, "q2": 0.6}), pd.Series({"q1": 0.4, "q2": 0.3}), paired=True)
    >>> round(row["delta"], 9), row["n_queries"]
    (-0.5, 2)
    """
    for name, values in (("interpolation", inter), ("extrapolation", extra)):
        if not len(values):
            raise InputError(f"regime {name}: no query in it; give it test queries or leave the row out")
        if values.isna().any():
            raise InputError(f"regime {name}: no value for query {offenders(values.index[values.isna()])}")
    if paired:
        statistics.same_queries(inter, extra, "paired regimes")
        extra = extra.reindex(inter.index)
    first, second = inter.to_numpy(float), extra.to_numpy(float)
    if not first.mean():
        raise InputError("regime interpolation: its mean is 0, so delta is undefined; use a measure that is not 0 here")
    low, high = statistics.bootstrap_delta(first, second, paired=paired, seed=seed, n_boot=n_boot, level=level)
    return {
        "interpolation": float(first.mean()),
        "extrapolation": float(second.mean()),
        "delta": float(second.mean() / first.mean() - 1),
        "delta_low": low,
        "delta_high": high,
        "p_value": _p_value(first, second, paired, test, seed),
        "n_queries": len(first) if paired else len(first) + len(second),
    }


def regime_table(rows: Iterable[Mapping[str, object]], family: Sequence[str] = ()) -> pd.DataFrame:
    """Table of rows of `regime_row` (labels such as model and measure added by the caller), with p_holm.

    Holm's correction holds within each family: the rows that share the values of the columns `family`, e.g.
    `["measure"]`; without it all rows are one family.

    >>> row = {"model": "dense", "measure": "nDCG@10", "p_value": 0.02}
    >>> regime_table([row, row | {"model": "splade", "p_value": 0.04}], family=["measure"]).p_holm.tolist()
    [0.04, 0.04]
    """
    table = pd.DataFrame(list(rows))
    if table.empty:
        raise InputError("regime table: no rows")
    if missing := [name for name in ("p_value", *family) if name not in table]:
        raise InputError(f"regime table: no column {offenders(missing)}; it has {', '.join(table.columns)}")
    groups = table.groupby(list(family), dropna=False, sort=False) if family else [((), table)]
    corrected = [pd.Series(statistics.holm(group["p_value"]), group.index) for _, group in groups]
    return table.assign(p_holm=pd.concat(corrected))


def _p_value(first, second, paired: bool, test: str, seed: int) -> float:
    if test == "t":
        return statistics.paired_t_test(first, second) if paired else statistics.welch_test(first, second)
    if test == "permutation":
        return (statistics.sign_flip_test if paired else statistics.permutation_test)(first, second, seed=seed)
    raise InputError(f"test {test!r} is unknown; it is t or permutation")

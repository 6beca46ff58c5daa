"""What results cost, before anything is computed."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from interextra.store.cells import Cell
from interextra.store.folders import Store

if TYPE_CHECKING:
    import pandas as pd


def described(store: Store, cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Return a row a cell, after those it needs.

    Returns
    -------
    list of dict
        key, state (`done`, `todo`), what, needs (keys); estimated seconds, megabytes.
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    every = missing | {cell.key: cell for cell in cells}
    rows = []
    for key, cell in every.items():
        store.plan(cell)
        row = {
            "key": key,
            "state": "todo" if key in missing else "done",
            "what": cell.title(),
            "seconds": cell.seconds(),
            "megabytes": cell.megabytes(),
            "needs": [needed.key for needed in cell.needs() if needed.key in missing],
        }
        rows.append(row)
    return rows


def priced(rows: Mapping[str, list[dict]], cores: int) -> dict[str, "pd.DataFrame"]:
    """Return what notebooks cost, a table a notebook and one of all of them.

    What several notebooks need costs the first of them.

    Parameters
    ----------
    rows
        Name of each notebook → its rows of `described`.
    cores
        Of the machine.

    Returns
    -------
    dict
        Name → DataFrame[results, to_compute, seconds, MB, hours on N cores] with a row a kind of
        result (or a notebook), the last one their sum.
    """
    import pandas as pd

    tables_of_rows = {name: pd.DataFrame(of_notebook) for name, of_notebook in rows.items()}
    frame = pd.concat(tables_of_rows, names=["notebook"]).reset_index("notebook")
    to_compute = frame["state"].eq("todo") & ~frame["key"].duplicated()
    seconds = frame["seconds"] * to_compute
    counts = {
        "results": 1,
        "to_compute": to_compute,
        "seconds": seconds,
        "MB": frame["megabytes"] * to_compute,
        f"hours on {cores} cores": seconds / 3600 / cores,
    }
    kinds = frame["what"].str.partition(" · ")[0]
    priced_rows = frame[["notebook"]].assign(kind=kinds, **counts)
    tables = {}
    for name, of_notebook in priced_rows.groupby("notebook", sort=False):
        tables[str(name)] = _summed(of_notebook.drop(columns="notebook"), "kind")
    tables["all notebooks"] = _summed(priced_rows.drop(columns="kind"), "notebook")
    return tables


def _summed(rows: "pd.DataFrame", by: str) -> "pd.DataFrame":
    """Return the sums of rows by a column, and below them the sum of all."""
    import pandas as pd

    sums = rows.groupby(by, sort=False).sum()
    return pd.concat([sums, sums.sum().to_frame("in all").T])

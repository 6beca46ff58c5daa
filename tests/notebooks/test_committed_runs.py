"""The committed values stay those of what is planned: each run that a reference names has its
identity in the plan.
"""

import zipfile
from collections.abc import Iterator

import pandas as pd
import pytest

from interextra.site.planning import planned
from interextra.site.travel import CELLS, REFERENCE, RUN, RUNS
from interextra.store.cells import Cell


def identities(cells) -> set[str]:
    """Of some cells and of all that they need, whether it is computed or not."""
    found: dict[str, Cell] = {}

    def visit(some: Iterator[Cell]) -> None:
        for cell in some:
            if cell.identity not in found:
                found[cell.identity] = cell
                visit(cell.needs())

    visit(cells)
    return set(found)


@pytest.mark.parametrize(("profile", "only"), [("mini", ""), ("small", ""), ("worlds", "02,09")])
def test_every_committed_run_and_cell_is_still_planned(root, request, monkeypatch, profile, only):
    if profile == "small":
        monkeypatch.setenv("INTEREXTRA_DATA", str(request.getfixturevalue("real_data")))
    n_runs = 0
    for notebook in planned(root, profile, only):
        for place, run in notebook.by_place.items():
            folder, known = root / REFERENCE / profile / notebook.name / place, identities(run.plan)
            if (folder / RUNS).is_file():
                named = set(pd.read_parquet(folder / RUNS, columns=[RUN])[RUN].astype(str))
                assert named <= known, (
                    f"{folder}: {len(named - known)} of {len(named)} runs are not planned"
                )
                n_runs += len(named)
            with zipfile.ZipFile(folder / CELLS) as archive:
                kept = {name.partition("/")[0] for name in archive.namelist()}
            assert kept <= known, (
                f"{folder}: {len(kept - known)} of {len(kept)} cells are not planned"
            )
    assert n_runs > 500

"""Values and small cells of a reference: the same numbers without the files that they were computed
from.
"""

import zipfile

import pandas as pd
import pytest
from toy_cells import Toy

from interextra.data.queries import Queries, Source
from interextra.measures import evaluate as measures
from interextra.models.model import Model
from interextra.models.recipe import load_recipe
from interextra.models.search.run import Run
from interextra.site.travel import CELLS, RUN, RUNS, SKIPS, VALUES, Reference, write_runs
from interextra.store.errors import InputError
from interextra.store.folders import Store
from tools.reference import pack

SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """(store, design, folder of a notebook that measured it)."""
    home = tmp_path_factory.mktemp("home")
    store, dev = Store(home / "cells"), Queries(source=Source.of(SPEC), split="dev")
    train = Queries(source=Source.of(SPEC), split="train")
    runs = {
        b: Run(
            model=Model.of(load_recipe("bm25", k1=[0.9], b=[b]), train, 1), queries=(dev,), depth=20
        )
        for b in (0.2, 0.8)
    }
    for run in runs.values():
        store.build(run)
    design = pd.DataFrame([{"b": b, "name": f"b is {b}", "run": run} for b, run in runs.items()])
    marked = design.assign(**{RUN: [run.identity for run in design["run"]], SKIPS: False})
    (home / "notebook" / VALUES).mkdir(parents=True)
    write_runs(home / "notebook" / RUNS, [measures.values(marked, store, ["RR@10", "nDCG@10"])])
    pd.DataFrame({"x": [1.5]}).to_parquet(home / "notebook" / VALUES / "kept.parquet")
    return store, design, home / "notebook"


@pytest.fixture
def reference(executed, tmp_path):
    store, design, folder = executed
    pack(folder, [*design["run"], store_toy(store)], store, tmp_path / "reference")
    return Reference(tmp_path / "reference", tmp_path / "cells")


def store_toy(store):
    toy = Toy(n=7)
    store.build(toy)
    return toy


def test_values_are_those_of_the_rankings(executed, reference):
    store, design, _ = executed
    expected = measures.values(design, store, ["RR@10", "nDCG@10"])
    pd.testing.assert_frame_equal(
        measures.values(design, reference, ["RR@10", "nDCG@10"]), expected
    )


def test_small_files_travel_and_rankings_do_not(executed, reference):
    _, design, _ = executed
    run = design["run"][0]
    assert run.log(reference)["k1"] == 0.9 and not list(reference[run].glob("*.parquet"))
    assert (reference[Toy(n=7)] / "part" / "more.txt").read_text() == "more\n"
    assert not list(reference[Toy(n=7)].glob("provenance.json"))
    assert reference.missing([run, Toy(n=7)]) == [] and reference.kept("kept")["x"].tolist() == [
        1.5
    ]


def test_a_cell_whose_files_do_not_travel_is_not_computed_again(executed, tmp_path):
    """Vectors of a trained encoder: else its training would be wanted, and what follows from them
    is kept.
    """
    store, design, folder = executed
    model = design["run"][0].model
    store.build(model)
    pack(folder, [model], store, tmp_path / "reference")
    reference = Reference(tmp_path / "reference", tmp_path / "cells")
    assert reference.missing([model]) == [] and not list(reference[model].glob("*.npy"))


def test_what_needs_no_training_is_computed_and_models_are_not(executed, reference):
    _, design, _ = executed
    assert reference.build(Toy(n=8)).is_dir()
    with pytest.raises(InputError, match="1 models would have to be trained"):
        reference.build(design["run"][0].model_copy(update={"depth": 5}))
    with pytest.raises(InputError, match="no values of 'AP'"):
        measures.values(design, reference, ["AP"])
    with pytest.raises(InputError, match="no values 'other'"):
        reference.kept("other")


def test_the_same_cells_give_the_same_archive(executed, reference, tmp_path):
    store, design, folder = executed
    pack(folder, [store_toy(store), *reversed(design["run"].tolist())], store, tmp_path / "again")
    assert (tmp_path / "again" / CELLS).read_bytes() == (reference.folder / CELLS).read_bytes()


@pytest.mark.parametrize(
    "name", ["../out.txt", "a" * 20 + "/../../out.txt", "/out.txt", "b" * 20 + "/sub/../../../x"]
)
def test_an_archive_that_leaves_its_folder_is_refused(tmp_path, name):
    with zipfile.ZipFile(tmp_path / CELLS, "w") as archive:
        archive.writestr(name, "x")
    with pytest.raises(InputError, match="no file of a cell"):
        Reference(tmp_path, tmp_path / "cells")

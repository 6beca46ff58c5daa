"""The profile `real`: a notebook on each collection, with what the collection chose."""

import json
import subprocess

import numpy as np
import pandas as pd
import pytest
import yaml

from interextra.claims.claim import FILE, REAL
from interextra.claims.over_collections import judged, of_each
from interextra.notebooks.parameters import NotebookParameters
from interextra.notebooks.plans import cells_of, plan_of
from interextra.site import book, collections
from interextra.site.collections import OverCollections, parameters_on, places, with_chosen
from interextra.site.first_page import first_page
from interextra.site.notebook import Notebook
from interextra.site.planning import planned
from interextra.site.session import Session
from interextra.stats.effects import effects
from interextra.store.errors import InputError
from tools import grids

CHOSEN = {"small-dense": {"learning_rate": 0.1, "epochs": 3}}
IN_GRIDS = {"reddit": "squadshifts-reddit", "amazon": "squadshifts-amazon"}
IN_GRIDS |= {f"{name}-new": of_collection for name, of_collection in IN_GRIDS.items()}


def test_options_that_a_collection_chose_reach_every_recipe():
    shared = {"after": {"recipe": "small-dense", "dimension": 8}, "recipe": "small-compressed"}
    found = with_chosen([shared, "small-dense", "bm25"], CHOSEN)
    after = {"recipe": "small-dense", **CHOSEN["small-dense"], "dimension": 8}
    assert found == [
        {"recipe": "small-compressed", "after": after},
        {"recipe": "small-dense", **CHOSEN["small-dense"]},
        "bm25",
    ]


def test_an_option_of_the_profile_goes_before_that_of_a_collection():
    entry = {"label": "a", "recipe": "small-dense", "epochs": 1}
    assert with_chosen(entry, CHOSEN)["epochs"] == 1


def test_what_names_no_recipe_stays():
    values = {"only": {"ReSTrain": ["DR (base)"]}, "sizes": [2000], "steps": 0}
    assert with_chosen(values, CHOSEN) == values


def test_rates_and_epochs_are_the_best_of_the_grids(root):
    """A second pass learns as the first one did, and MedQuAD has the recipes as they are."""
    measured = pd.read_csv(root / grids.OUT)
    for name, place in places(root).items():
        chosen = grids.options_chosen(measured, IN_GRIDS.get(name, name))
        if chosen:
            chosen["small-compressed"] = chosen["small-dense"]
        assert place.recipes == chosen, name


def test_four_collections_decide_and_two_are_trained_on_twice(root):
    known = places(root)
    beside = [name for name, place in known.items() if place.seen]
    assert beside == ["medquad", "reddit-new", "amazon-new"]
    assert len(known) == 7
    assert sum(place.trainings == 2 for place in known.values()) == 2


def test_an_entry_that_is_wrong_is_named(tmp_path):
    file = tmp_path / collections.FILE
    file.parent.mkdir(parents=True)
    file.write_text("mine: {colection: beir:x}\n")
    with pytest.raises(InputError, match=r"collections.yaml, mine: collection: Field required"):
        places(tmp_path)


@pytest.mark.parametrize("trainings, seeds", [(1, [1]), (2, [1, 2])])
def test_a_collection_says_how_often_is_trained(root, trainings, seeds):
    notebook = root / "notebooks" / "05_architecture_comparison.ipynb"
    place = collections.Place(collection="mini", trainings=trainings)
    parameters = parameters_on(root, notebook, place)
    assert parameters.profile == "real" and parameters.collection == "mini"
    assert parameters.seeds == parameters.other_seeds == parameters.draw_seeds == seeds


def test_parameters_of_a_collection_reach_the_notebooks_that_have_them(root):
    place = collections.Place(collection="mini", parameters={"shift": "wh-words"})
    exposure = root / "notebooks" / "09_negative_exposure.ipynb"
    buckets = root / "notebooks" / "03_resttest.ipynb"
    assert parameters_on(root, exposure, place).shift == "wh-words"
    assert not hasattr(parameters_on(root, buckets, place), "shift")


def test_a_notebook_plans_what_was_planned_for_it(root):
    """Its kernel reads the parameters as JSON; a recipe with options has a name in keys."""
    path = root / "notebooks" / "10_compression_and_hybrid.ipynb"
    here = collections.Place(collection="mini", recipes=CHOSEN)
    parameters = parameters_on(root, path, here)
    notebook = Notebook.of(path, parameters)
    in_kernel = type(parameters)(**json.loads(notebook.parameters))
    planned_there = cells_of(plan_of(path.stem, in_kernel))
    assert {cell.key for cell in planned_there} == {cell.key for cell in notebook.plan}


def test_a_notebook_runs_where_no_collection_leaves_it_out(root, monkeypatch):
    here = collections.Place(collection="mini")
    elsewhere = collections.Place(collection="mini", without=["03"])
    monkeypatch.setattr(collections, "places", lambda root: {"a": here, "b": elsewhere})
    notebooks = [root / "notebooks" / name for name in ("03_resttest.ipynb", "02_restrain.ipynb")]
    asked = [(path.stem[:2], place) for path, place, _ in collections.asked(root, notebooks)]
    assert asked == [("03", "a"), ("02", "a"), ("02", "b")]


def test_tables_of_all_collections_are_one_and_claims_are_judged():
    def run(number):
        fields = {"source": "s", "parameters": "{}", "uses": (), "plan": (), "files": str(number)}
        return Notebook(name="03_resttest", **fields)

    known = {
        "a": collections.Place(collection="mini"),
        "b": collections.Place(collection="mini", seen=True),
    }
    cell = OverCollections.of("03_resttest", {"a": run(1), "b": run(2)}, known)
    assert cell.deciding == ("a",)
    claim = {"claim": "real-resttest-dense", "estimate": -0.2, "error_queries": 0.01}
    claim |= {"error_trainings": 0.0, "n_trainings": 1, "lead": 0.1, "lead_low": 0.05}
    claims = pd.DataFrame([claim | {"n_queries": 100}])
    table = pd.DataFrame({"model": ["DR (base)"], "delta": [-0.2]})
    tables = {
        "claims.csv": {"a": claims, "b": claims},
        "resttest.csv": {"a": table, "b": table},
    }
    found = cell.over_places(tables)
    assert found["resttest.csv"]["collection"].tolist() == ["a", "b"]
    assert found["collections.csv"]["collection"].tolist() == ["a", "b"]
    assert "claims.csv" not in found
    assert found["over_collections.csv"]["n"].item() == 1


def write_tables(folder):
    """Write the tables of a notebook over one collection, on which dense loses."""
    claim = {"claim": "real-resttest-dense", "estimate": -0.2, "error_queries": 0.01}
    claim |= {"error_trainings": 0.0, "n_trainings": 1, "lead": 0.1, "lead_low": 0.05}
    each = of_each({"a": pd.DataFrame([claim | {"n_queries": 100}])})
    folder.mkdir(parents=True)
    each.to_csv(folder / "collections.csv", index=False)
    judged(each, ["a"]).to_csv(folder / "over_collections.csv", index=False)


def test_the_first_page_of_a_run_has_the_claims_of_each_notebook(tmp_path):
    write_tables(tmp_path / "real" / "03_resttest" / "tables")
    page = first_page(tmp_path / "real", [], book.FORM / "profiles.yaml", "")
    _, _, card = page.partition('<div class="claim"')
    claim, estimate = "Dense retrieval loses on an excluded bucket", "-20.0 [-22.0, -18.0]"
    assert card.index(claim) < card.index(estimate)
    assert "\n- Dense retrieval loses on an excluded bucket: holds on 1 of 1." in page


def test_the_first_page_says_how_far_the_collections_have_measured(tmp_path, monkeypatch):
    texts = book.FORM / "profiles.yaml"
    monkeypatch.setattr("interextra.site.first_page.repository_root", lambda: tmp_path)
    (tmp_path / "notebooks").mkdir()
    assert "four real collections" not in first_page(tmp_path / "mini", [], texts, "")
    (tmp_path / "notebooks" / "03_resttest.ipynb").write_text("{}")
    write_tables(tmp_path / "outputs" / "reference" / "real" / "03_resttest" / "tables")
    page = first_page(tmp_path / "mini", [], texts, "")
    assert "20 more were written down for four real collections" in page
    assert "1 are measured so far, 1 of these decided" in page


def test_no_claim_over_collections_changed_after_its_first_table(root):
    """What was asked stands as it stood when the first values were committed."""
    first_values = "outputs/reference/real/"
    log = ["log", "--diff-filter=A", "--format=%H", "--reverse", "--", first_values]
    commits = git(root, *log).split()
    if not commits:
        pytest.skip("nothing over collections is committed, or the history is not here")
    path = FILE.relative_to(root).as_posix()
    then = yaml.safe_load(git(root, "show", f"{commits[0]}:{path}"))
    now = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    assert now[REAL] == then[REAL]


def git(root, *arguments):
    """Return what git prints in the repository."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_notebook_shows_what_the_committed_run_says(tmp_path, capsys):
    parameters = NotebookParameters(profile="mini", collection="mini")
    nb = Session("03_resttest", parameters, tmp_path, "")
    assert nb.over_collections() is None
    assert not capsys.readouterr().out
    tables = tmp_path / "outputs" / "reference" / "real" / "03_resttest" / "tables"
    write_tables(tables)
    assert "-20.0 [-22.0, -18.0]" in nb.over_collections()._repr_html_()
    assert "excluded bucket: holds on 1 of 1." in capsys.readouterr().out
    assert (nb.folder / "figures" / "over_collections.svg").is_file()


def test_what_a_run_concludes_can_be_judged_over_collections(tmp_path):
    """From values of two trainings: the errors of queries and of trainings, and the gate."""
    random = np.random.default_rng(1)
    parts = []
    for seed in (1, 2):
        for model, loss in (("DR (base)", 0.2), ("BM25", 0.0)):
            first = random.random(60)
            sides = {"interpolation": first, "extrapolation": first * (1 - loss) + 0.01 * seed}
            for regime, value in sides.items():
                frame = pd.DataFrame({"query_id": map(str, range(60)), "value": value})
                labels = {"model": model, "regime": regime, "seed": seed, "measure": "RR@10"}
                parts.append(frame.assign(**labels, trained=f"{model} {regime} {seed}"))
    values = pd.concat(parts)
    by = ["model", "measure"]
    table = effects(values, by, "regime", ("interpolation", "extrapolation"), "delta")
    parameters = NotebookParameters(profile="real", collection="beir:x")
    nb = Session("03_resttest", parameters, tmp_path, "")
    ahead = pd.DataFrame({"model": ["DR (base)"], "lead": 0.2, "lead_low": 0.1})
    nb.conclude(table.assign(protocol="ReSTTest"), ahead=ahead)
    claims = pd.read_csv(nb.folder / "tables" / "claims.csv")
    assert claims["error_trainings"].item() > 0 and claims["error_queries"].item() > 0
    found = judged(of_each({"a": claims, "b": claims}), ["a", "b"])
    assert found["gate"].item() == "a, b" and found["n"].item() == 2


def test_a_run_in_some_places_judges_nothing_before_all_that_decide_are_there():
    fields = {"source": "s", "parameters": "{}", "uses": (), "plan": (), "files": "1"}
    run = Notebook(name="03_resttest", **fields)
    known = {name: collections.Place(collection="mini") for name in "ab"}
    cell = OverCollections.of("03_resttest", {"a": run}, known)
    assert cell.by_place == {"a": run} and cell.deciding == ("a", "b")
    claim = {"claim": "real-resttest-dense", "estimate": -0.2, "error_queries": 0.01}
    claim |= {"error_trainings": 0.0, "n_trainings": 1, "lead": 0.1, "lead_low": 0.05}
    claims = pd.DataFrame([claim | {"n_queries": 100}])
    found = cell.over_places({"claims.csv": {"a": claims}})
    assert len(found["collections.csv"]) == 1
    assert found["over_collections.csv"]["verdict"].tolist() == ["incomplete"]
    assert found["over_collections.csv"]["estimate"].isna().all()


@pytest.mark.parametrize(
    ("profile", "chosen", "message"),
    [
        ("real", "nl2bash,trec", r"params/collections.yaml has no 'trec'"),
        ("mini", "nl2bash", r"--places nl2bash: of the profile real only"),
    ],
)
def test_places_that_are_not_there_are_refused(root, profile, chosen, message):
    with pytest.raises(InputError, match=message):
        planned(root, profile, "03", places=chosen)


def test_a_profile_is_planned_in_chosen_places(root, real_data, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    [everywhere] = planned(root, "real", "03")
    assert list(everywhere.by_place) == list(places(root))
    [there] = planned(root, "real", "03", places="amazon,nl2bash")
    assert list(there.by_place) == ["nl2bash", "amazon"]


def test_a_notebook_that_runs_in_none_of_the_places_is_left_out_or_refused(
    root, real_data, monkeypatch
):
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    [alone] = planned(root, "real", "", places="reddit-new")
    assert alone.name == "03_resttest"
    with pytest.raises(InputError, match="reddit-new: '02_restrain' does not run there"):
        planned(root, "real", "02", places="reddit-new")

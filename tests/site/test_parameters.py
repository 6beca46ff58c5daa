"""Parameters: a misspelt or ill-typed one is an error that names it; every YAML key is declared."""

import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, get_args, get_origin, get_type_hints

import nbformat
import pytest
import yaml
from toy_topics import write_topics

from interextra.notebooks.parameters import (
    Entries,
    Measures,
    NamesByName,
    NotebookParameters,
    Positive,
    Share,
    Sizes,
    parameter,
)
from interextra.site import parameters as module
from interextra.site.notebook import _digest_of_files
from interextra.site.parameters import (
    checked,
    completed,
    kind_of,
    output_name,
    profile_parameters,
    read_overrides,
    read_yaml,
)
from interextra.site.planning import planned
from interextra.site.repository import notebooks, repository_root
from interextra.site.session import start
from interextra.store.errors import InputError
from tools.structure import cell_of

SOURCE = """profile: str = "mini"  # which profile
sizes: list[int] = [2, 4]  # training queries
rate: float = 0.5  # share"""


class Toy(NotebookParameters):
    """Parameters of the toy notebook."""

    sizes: Sizes = parameter([2, 4], "training queries", paper="14,000")
    rate: Share = parameter(0.5, "share")
    full: bool = parameter(False, "all")
    measures: Measures = parameter(["RR@10"], "of the table")
    recipes: Entries = parameter(["bm25"], "systems")
    only: NamesByName = parameter({}, "of these")
    depth: Positive = parameter(10, "passages per query")


@pytest.fixture
def house(tmp_path, monkeypatch):
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "params").mkdir()
    cell = nbformat.v4.new_code_cell(SOURCE, metadata={"tags": ["parameters"]})
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "notebooks" / "00_toy.ipynb")
    plain = module.kind_of
    monkeypatch.setattr(
        module, "kind_of", lambda path: Toy if path.stem == "00_toy" else plain(path)
    )
    return tmp_path


def given(house, yaml="", **overrides):
    (house / "params" / "other").mkdir(exist_ok=True)
    (house / "params" / "other" / "00_toy.yaml").write_text(yaml)
    notebook = house / "notebooks" / "00_toy.ipynb"
    return profile_parameters(house, "other", notebook, overrides).model_dump()


def test_a_cell_of_parameters_is_read(house):
    found = cell_of(house / "notebooks" / "00_toy.ipynb")
    assert found == {"profile": "mini", "sizes": [2, 4], "rate": 0.5}


@pytest.mark.parametrize("path", notebooks(Path(__file__).parents[2]), ids=lambda path: path.stem)
def test_the_cell_of_each_notebook_holds_the_defaults_of_its_class(path):
    defaults = kind_of(path)().model_dump()
    cell = cell_of(path)
    assert cell and cell == {name: defaults[name] for name in cell}


@pytest.mark.parametrize("path", notebooks(Path(__file__).parents[2]), ids=lambda path: path.stem)
def test_each_parameter_of_each_notebook_has_a_meaning_and_a_default_that_is_allowed(path):
    kind = kind_of(path)
    assert kind.model_validate(kind().model_dump()) == kind()
    for name in kind.model_fields:
        assert len(kind.meaning_of(name)) > 3, name


def test_a_meaning_says_what_the_paper_used():
    assert Toy.meaning_of("sizes") == "training queries; paper: 14,000"


def test_parameters_of_no_cell_are_those_of_the_class(house):
    entry = {"label": "A", "recipe": "bm25", "k1": [0.9]}
    assert given(house, only={"a": ["A"]}, recipes=[entry])["recipes"] == [entry]
    assert given(house, "depth: 9")["depth"] == 9
    for wrong in ("depth: x", "depth: 0", "recipes: bm25", "only: [A]", "recipes: []"):
        with pytest.raises(InputError, match=f"parameter '{wrong.partition(':')[0]}'"):
            given(house, wrong)


def test_profile_then_override_win_over_defaults(house):
    assert given(house, "sizes: [8]")["sizes"] == [8]
    assert given(house, "sizes: [8]", sizes=[9])["sizes"] == [9]
    assert given(house)["rate"] == 0.5


def test_misspelt_key_is_named_with_the_near_one(house):
    with pytest.raises(
        InputError,
        match=r"params/other/00_toy.yaml: unknown parameter 'size'.*did you mean 'sizes'",
    ):
        given(house, "size: [8]")
    with pytest.raises(InputError, match="unknown parameter 'raet'"):
        given(house, raet=0.1)


@pytest.mark.parametrize("bad", ["sizes: 8", "sizes: [a]", "full: 1", "rate: high", "profile: 3"])
def test_ill_typed_value_is_named(house, bad):
    with pytest.raises(InputError, match=rf"parameter '{bad.split(':')[0]}': Input should be"):
        given(house, bad)


IMPOSSIBLE = {
    ("", "sizes: []"): "parameter 'sizes': must not be empty",
    ("", "sizes: [4, -2]"): "parameter 'sizes': .* equal to 1, is -2 .training queries; paper",
    ("", "sizes: [4, 4]"): "parameter 'sizes': repeats a value",
    ("", "n_boot: 0"): "parameter 'n_boot': .* equal to 40",
    ("", "rate: -0.5"): "parameter 'rate': .* equal to 0",
    ("", "rate: .nan"): "parameter 'rate'",
    ("", "measures: [nope]"): "nope",
    ("", "measures: [R]"): "R",
}
# Of real notebooks: what was accepted, or found after hours.
REPORTED = (
    "01 error_rate: 2.0",
    "01 annotators: 1",
    "01 candidates: 0",
    "07 n_tau: 1",
    "07 neighbours: 0",
)
REPORTED += (
    "06 map_queries: 0",
    "02 depth: 99999999",
    "02 n_boot: 99999999999",
    "03 k: 1",
    "08 measure: nope",
)
IMPOSSIBLE |= {(line[:2], line[3:]): line[3:].partition(":")[0] for line in REPORTED}


@pytest.mark.parametrize(("only", "bad"), IMPOSSIBLE)
def test_value_that_cannot_be_meant_is_refused_before_anything_is_computed(house, root, only, bad):
    with pytest.raises(InputError, match=IMPOSSIBLE[only, bad]):
        profile_parameters(
            root, "mini", *notebooks(root, only), yaml.safe_load(bad)
        ) if only else given(house, bad)


ODD_PATHS = [
    "a #b",
    "a: b",
    "{a}",
    "[a",
    "'a'",
    '"a',
    "- a",
    "*a",
    "&a b",
    "!a",
    "%a",
    "null",
    "1e5",
    "é=ü,ß",
]
ODD_PATHS += ["a\tb", " a "]


@pytest.mark.parametrize("folder", ODD_PATHS)
def test_a_text_parameter_is_taken_as_it_is_written(root, folder):
    given = f"beir:/data/{folder}"
    assert read_overrides(root, "02", [f"collection={given}"]) == {"collection": given}
    assert read_overrides(root, "02", [f"collection={folder}"]) == {"collection": folder}
    found = read_overrides(root, "02", ["seed=3", "test_splits=[dev]", "collection="])
    assert found == {"seed": 3, "test_splits": ["dev"], "collection": ""}


@pytest.mark.parametrize(
    ("pair", "told"),
    [
        ("seed", "write name=value"),
        ("sizes=[1", "not readable as YAML"),
        ("sizes=" + "[" * 5000, "-p sizes="),
        ("sizes=" + "9" * 5000, "-p sizes="),
        ("sizes=2020-99-99", "month must be in"),
        ("sizes=2020-01-01", "JSON"),
        ("sizes=&a [*a]", "-p sizes="),
        ('test_splits=["\\ud83d"]', "surrogate"),
        ("sizes=!!python/object:os.system {}", "not readable as YAML"),
    ],
)
def test_a_value_that_no_parameter_can_have_is_one_line(root, pair, told):
    with pytest.raises(InputError, match=re.escape(told)) as caught:
        read_overrides(root, "02", [pair])
    assert "\n" not in str(caught.value)


def test_a_name_is_short_enough_for_a_folder(root):
    assert output_name(root, "mini", {}, "x" * 200) == "x" * 200
    with pytest.raises(InputError, match="--name x+…: 300 characters; give at most 200"):
        output_name(root, "mini", {}, "x" * 300)


def test_profile_is_chosen_by_its_option_only(house):
    with pytest.raises(InputError, match="--profile"):
        given(house, profile="small")


@pytest.mark.parametrize("profile", ["big", "../notebooks", "/tmp", ""])
def test_profile_must_be_a_name_under_params(house, profile):
    with pytest.raises(InputError, match="no profile .*mini"):
        profile_parameters(house, profile, house / "notebooks" / "00_toy.ipynb", {})


def bounds_of(annotation):
    """Yield (least, greatest) of the numbers of a type, or of the items of a list."""
    if get_origin(annotation) is Annotated:
        inner, *more = get_args(annotation)
        for one in more:
            limits = {type(limit).__name__: limit for limit in getattr(one, "metadata", [])}
            if {"Ge", "Le"} <= limits.keys():
                yield limits["Ge"].ge, limits["Le"].le
        yield from bounds_of(inner)
    elif get_origin(annotation) is list:
        yield from bounds_of(get_args(annotation)[0])


def wrong_values():
    """Yield (notebook, parameter, value that cannot be meant) for every number and measure."""
    for path in notebooks(Path(__file__).parents[2]):
        kind = kind_of(path)
        hints = get_type_hints(kind, include_extras=True)
        for name, field in kind.model_fields.items():
            wrong = [value for low, high in bounds_of(hints[name]) for value in (low - 1, high + 1)]
            if name.endswith(("measure", "measures")):
                wrong = ["nope"]
            for value in wrong:
                yield path, name, [value] if isinstance(field.default, list) else value


WRONG = list(wrong_values())


@pytest.mark.parametrize(("notebook", "name", "value"), WRONG)
def test_every_number_and_measure_of_every_notebook_is_checked(notebook, name, value):
    with pytest.raises(InputError, match=rf"here: parameter '{name}': |nope"):
        checked(kind_of(notebook), {name: value}, "here")


def test_every_number_of_every_notebook_has_bounds():
    bounded = {(path, name) for path, name, _ in WRONG}
    for path in notebooks(Path(__file__).parents[2]):
        for name, field in kind_of(path).model_fields.items():
            default = (
                field.default[0]
                if isinstance(field.default, list) and field.default
                else field.default
            )
            if type(default) in (int, float):
                assert (path, name) in bounded, name


def test_changed_parameters_go_to_a_folder_of_their_own(house):
    assert (
        output_name(house, "mini", {}, "") == "mini"
        and output_name(house, "mini", {}, "mini") == "mini"
    )
    assert output_name(house, "mini", {"seed": 2, "sizes": [4, 8]}, "") == "mini-seed-2-sizes-4-8"
    assert output_name(house, "mini", {"seed": 2}, "mine_2.0") == "mine_2.0"
    assert output_name(house, "mini", {"seed": 2}, "a" * 200) == "a" * 200


@pytest.mark.parametrize(
    "name", ["../mini", "..", ".", "a..b", ".git", "-x", "a b", "ä", "a/b", "a\n", "a" * 201]
)
def test_name_that_would_leave_outputs_or_hide_there_is_refused(house, name):
    with pytest.raises(InputError, match="--name"):
        output_name(house, "mini", {}, name)


@pytest.mark.parametrize("name", ["cells", "lab", "reference", "verify-mini", "small"])
def test_taken_name_is_refused(house, name):
    (house / "params" / "small").mkdir()
    with pytest.raises(InputError, match=f"--name {name} is taken"):
        output_name(house, "mini", {}, name)


def test_two_settings_never_share_a_folder(house):
    long = "/home/somebody/with/a/long/path/to/many/collections/of/passages/in/this/layout/of/beir/"
    pairs = [(long + "one", long + "two"), ("/a/b", "/a-b"), ("a..b", "a-b"), ("ä", "ö")]
    for pair in pairs:
        made = [output_name(house, "mini", {"collection": f"beir:{path}"}, "") for path in pair]
        assert made[0] != made[1] and max(map(len, made)) <= 80
        assert all(output_name(house, "mini", {}, name) == name for name in made)
        assert made[0].startswith("mini-collection-beir-")


def test_unknown_notebook_lists_those_there_are(house):
    with pytest.raises(InputError, match="'77'.*00_toy"):
        notebooks(house, "77")


def test_outside_the_repository_is_a_clear_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="not inside the repository"):
        repository_root()


def test_every_yaml_key_of_every_profile_is_declared(root):
    known = {path.stem: path for path in notebooks(root)}
    checked = 0
    for path in (root / "params").glob("*/*.yaml"):
        assert path.stem in known, f"{path}: no such notebook"
        profile_parameters(root, path.parent.name, known[path.stem], {})
        checked += 1
    assert checked > 2 * len(known)


def test_a_profile_s_file_alone_gives_its_parameters_and_its_name(root):
    """As `papermill -f params/small/03_resttest.yaml` injects them."""
    files = [
        path
        for path in (root / "params").glob("*/*.yaml")
        if path.parent.name not in ("worlds", "fresh")
    ]
    assert len(files) > 30
    for path in files:
        profile, [notebook] = path.parent.name, notebooks(root, path.stem)
        found = completed(root, notebook, cell_of(notebook) | read_yaml(path))
        assert found == profile_parameters(root, profile, notebook, {}), path


def test_a_named_profile_without_its_parameters_is_refused(root, monkeypatch):
    """As `papermill -p profile small` gives it: the results of mini would have the name of
    small.
    """
    monkeypatch.delenv("INTEREXTRA_OUTPUT", raising=False)
    for notebook in notebooks(root):
        if notebook.stem.startswith("13"):  # its parameters are the same in every profile
            continue
        variables = cell_of(notebook) | {"profile": "small"}
        with pytest.raises(InputError, match=f"-f params/small/{notebook.stem}.yaml") as refused:
            start(notebook.stem, variables, goal="?")
        assert f"--profile small --only {notebook.stem[:2]}" in str(refused.value)
    with pytest.raises(InputError, match="'collection'"):  # some of them are not enough
        [notebook] = notebooks(root, "03")
        given = read_yaml(root / "params" / "small" / "03_resttest.yaml")
        completed(root, notebook, cell_of(notebook) | given | {"collection": "mini"})


@pytest.mark.parametrize("only", ["00", "02", "03", "05"])
def test_a_notebook_alone_is_fitted_to_another_collection_as_by_the_command(root, tmp_path, only):
    [notebook], spec = notebooks(root, only), write_topics(tmp_path / "own")
    given = {"collection": spec, "n_boot": 50}
    found = completed(root, notebook, cell_of(notebook) | given)
    assert found == profile_parameters(root, "mini", notebook, given)
    usual = profile_parameters(root, "mini", notebook, {})
    assert found.model_dump() != usual.model_dump() | given


def test_what_is_fitted_is_changed_among_the_notebook_s_variables(house, root, monkeypatch):
    monkeypatch.delenv("INTEREXTRA_OUTPUT", raising=False)
    shutil.copytree(root / "notebooks", house / "notebooks", dirs_exist_ok=True)
    shutil.copytree(root / "params", house / "params", dirs_exist_ok=True)
    monkeypatch.chdir(house)
    variables = cell_of(house / "notebooks" / "03_resttest.ipynb")
    before = dict(variables)
    nb = start("03_resttest", variables, goal="?")
    assert variables == before and nb["test_splits"] == ["test", "graded"]
    variables["collection"] = write_topics(house / "own")
    nb = start("03_resttest", variables, goal="?")
    assert variables["k"] == nb["k"] == 2 and nb["test_splits"] == ["test"]
    assert "test_splits" not in variables  # else a later start would take it as given


def test_a_changed_table_of_scores_is_another_notebook(root, tmp_path):
    """Else a second run would take the page of the older file."""
    scores = tmp_path / "scores.csv"
    parameters = SimpleNamespace(profile="small", results=str(scores))
    path = root / "notebooks" / "08_beir_correlation.ipynb"
    with pytest.raises(InputError, match="there is no file"):
        _digest_of_files(path, "", parameters, "")
    scores.write_text("model\na\n")
    before = _digest_of_files(path, "", parameters, "")
    scores.write_text("model\nb\n")
    assert _digest_of_files(path, "", parameters, "") != before


def test_a_notebook_depends_on_the_committed_files_that_it_reads(tmp_path):
    path, code = (
        tmp_path / "notebooks" / "12_own.ipynb",
        'nb.root / "small" / "11_pool_bias" / "values"',
    )
    read = (
        "worlds/12_own/tables/arms.csv",
        "small/12_own/tables/claims.csv",
        "development/12_own/tables/dose.csv",
    )
    read += ("small/12_own/metrics.json", "small/11_pool_bias/values/by_pool.parquet")
    known = {_digest_of_files(path, code, SimpleNamespace(profile="mini"), "")}
    for number, name in enumerate(
        (*read, "mini/12_own/tables/claims.csv", "small/10_other/values/runs.parquet"), 1
    ):
        file = tmp_path / "outputs" / "reference" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
        known.add(_digest_of_files(path, code, SimpleNamespace(profile="mini"), ""))
        assert len(known) == 1 + min(
            number, len(read)
        )  # neither its own profile's tables, nor what others read


def test_the_report_depends_on_the_tables_and_claims_of_all_profiles(root, tmp_path):
    path = root / "notebooks" / "13_replication_report.ipynb"
    (tmp_path / "notebooks").mkdir()
    shutil.copy(path, tmp_path / "notebooks")
    mine = tmp_path / "notebooks" / path.name
    parameters = kind_of(path)()
    known = {_digest_of_files(mine, "", parameters, "")}
    for name in ("real/03_resttest/tables/beside_published.csv", "worlds/05_x/tables/claims.csv"):
        file = tmp_path / "outputs" / "reference" / name
        file.parent.mkdir(parents=True)
        file.write_text(name)
        known.add(_digest_of_files(mine, "", parameters, ""))
    assert len(known) == 3


@pytest.mark.parametrize(
    ("only", "change", "words"),
    [
        ("05", "{recipes: [bm25], encoder: lsa}", "BM25 alone"),
        ("02", "recipes: [bm25, {label: [1], recipe: mini-dense}]", "the label .* must be words"),
        ("02", "draw_splits: [nope]", "no split 'nope'"),
        ("03", "k: 1000", "1000 buckets of .* test queries"),
        ("04", "only: {topics: [nope]}", "'only', topics: 'nope' is none of the systems"),
        ("06", "gate_splits: [nope]", "no split 'nope'"),
        ("06", "start_recipe: bm25", "'start_recipe, architecture': 'bm25' is none of 'dense'"),
        ("07", "real_encoder: nope", "nope"),
        ("08", "bm25: mini-dense", "'bm25, architecture'"),
        ("08", "results: README.md", "no comma-separated table"),
        ("08", "skip_own: [{}]", "'skip_own'"),
        ("10", "reranker: bm25", "'reranker, architecture': 'bm25' is none of 'reranker'"),
        ("10", "indexes: [nope]", "'indexes': faiss makes no index 'nope'"),
        (
            "10",
            "searches: [{label: x, of: Dense, index: PQ7x4}]",
            "multiple of the number of subquantizers",
        ),
        (
            "10",
            "searches: [{label: x, of: Dense, truncate_dim: 9999}]",
            "truncate_dim = 9999 of 64",
        ),
        ("12", "baseline: mini-dense", "'baseline, architecture'"),
        ("12", "own_recipe: mini-colbert", "'own_recipe, architecture'"),
        ("12", "own_size: 1000000", "size 1000000"),
        ("12", "gate_split: nope", "no split 'nope'"),
        ("13", "own_results: [nope]", "'own_results': 'nope' is not among 'profiles'"),
    ],
)
def test_what_a_plan_cannot_compute_is_said_before_anything_runs(
    root, monkeypatch, only, change, words
):
    monkeypatch.chdir(root)
    with pytest.raises(InputError, match=words):
        planned(root, "mini", only, yaml.safe_load(change))

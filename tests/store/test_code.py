"""The key holds the code, definition by definition: a changed constant changes it, a changed
docstring does not.
"""

import shutil

import pytest

import interextra
from interextra.models.architectures import architectures
from interextra.models.model import Model
from interextra.site.planning import planned
from interextra.splits import attributes
from interextra.store import Store, code

DENSE = "interextra.models.architectures.dense"
RULE = "python:interextra.world.truth:kind_of_question"


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the package whose files can be changed; returns the digests behind some
    definitions.
    """
    shutil.copytree(
        code.ROOT,
        tmp_path / "interextra",
        ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "base"),
    )
    monkeypatch.setattr(code, "ROOT", tmp_path / "interextra")

    def forget():
        for function in (code._parsed, code.behind):
            function.cache_clear()

    def behind(*names):
        forget()
        return code.behind(names or (DENSE,))

    yield behind
    forget()


def change(file, old, new):
    path = code.ROOT / file
    text = path.read_text()
    assert text.count(old) >= 1, f"{file} has no {old!r}"
    path.write_text(text.replace(old, new, 1))


def test_a_changed_constant_or_method_changes_the_digest(copy):
    before = copy()
    change("models/training/trainer.py", "k1=0.9", "k1=0.8")
    assert copy() != before


def test_docstring_comment_and_wording_of_an_error_leave_it(copy):
    before = copy()
    change(
        "models/training/pairs.py", "Training pairs (query, relevant passage)", "Pairs for training"
    )
    change(
        "models/training/pairs.py", "import numpy", "import numpy as np  # a comment\nimport numpy"
    )
    change("models/training/pairs.py", "are not in split", "do not stand in the split")
    assert copy() == before


def test_what_a_cell_is_called_and_costs_leaves_it(copy):
    before = copy("interextra.models.search.run:Run")
    change("models/search/run.py", 'return f"run ', 'return f"a run ')
    assert copy("interextra.models.search.run:Run") == before


def test_a_definition_that_nobody_reaches_leaves_it(copy):
    names = ("interextra.models.search.run:Run", DENSE, "interextra.splits.restrain:ReSTrain")
    before = copy(*names)
    for file in ("models/training/pairs.py", "stats/bootstrap.py", "figures/forests.py"):
        change(
            file, "import numpy as np\n", "import numpy as np\n\n\ndef further(x):\n    return x\n"
        )
    change("stats/bootstrap.py", "BLOCK = 250_000", "BLOCK = 300_000")
    assert copy(*names) == before


def test_a_definition_may_move_to_another_module(copy):
    copy()
    before = code.digests_of((DENSE,))
    change(
        "models/search/topk.py", "PADDING = -1\n", "from interextra.models.moved import PADDING\n"
    )
    (code.ROOT / "models" / "moved.py").write_text("PADDING = -1\n")
    after = copy()
    assert code.digests_of((DENSE,)) == before and "interextra.models.moved:PADDING" in after


def test_what_a_function_imports_counts(copy):
    found = copy("interextra.models.search.run:Run")
    assert {"interextra.models.model:load_model", "interextra.data.runs:RunFile"} <= found.keys()
    assert "interextra.models.training.pairs:training_pairs" in copy()


def test_one_architecture_does_not_depend_on_another(copy):
    before = copy()
    change("models/architectures/splade.py", "return ", "return 1 and ")
    assert copy() == before


def test_which_queries_of_ms_marco_are_for_training_counts(copy):
    """The class stood in `data.load`, which is apart: with test queries left in, old vectors would
    have been served.
    """
    before = copy("interextra.models.search.vectors:Vectors")
    change(
        "data/msmarco.py", '~training["query_id"].isin(test_ids)', 'training["query_id"].notna()'
    )
    assert copy("interextra.models.search.vectors:Vectors") != before


def test_storing_leaves_it(copy):
    before = copy()
    change("store/errors.py", "def offenders", "def offenders_of")
    assert copy() == before and not any("store.errors" in place for place in before)


def test_versions_of_the_libraries_that_compute_belong_to_it(copy):
    assert {"torch", "sentence_transformers", "numpy"} <= copy().keys()
    assert "torch" not in copy("interextra.splits.restrain:ReSTrain") and "faiss" in code.behind(
        ("interextra.splits.resttest:ReSTTest",)
    )
    assert {"pyserini"} <= copy(
        "interextra.models.architectures.bm25"
    ).keys() and "+" not in copy()["torch"]


def test_a_new_version_of_such_a_library_is_another_result(copy, monkeypatch):
    before = copy("interextra.splits.resttest:ReSTTest")
    monkeypatch.setattr(code, "_version", lambda library: "99.1")
    assert copy("interextra.splits.resttest:ReSTTest") != before


@pytest.mark.parametrize(
    ("text", "used"),
    [
        ("def f(x):\n    return g(x)", {"f", "g"}),
        (
            "def f():\n    g = 1\n    return g",
            {"f", "g"},
        ),  # a local variable of this name counts, too
        ("def f(x=g):\n    return x", {"f", "g"}),
        ("def f(x: g):\n    return x", {"f", "g"}),
        ("class f(g):\n    pass", {"f", "g"}),
        ("@g\ndef f():\n    pass", {"f", "g"}),
        ("def f():\n    def inner():\n        return g\n    return inner", {"f", "g"}),
        ("f = lambda x: g(x)", {"f", "g"}),
        ("f = {'a': g}", {"f", "g"}),
        ("def f():\n    raise ValueError(g())", {"f"}),
        ("f = 1\nf = f + g()", {"f", "g"}),
    ],
)
def test_every_name_in_a_definition_is_followed(copy, text, used):
    (code.ROOT / "toy.py").write_text(f"{text}\n\n\ndef g(x=1):\n    return x\n")
    found = copy("interextra.toy:f")
    assert {place.rpartition(":")[2] for place in found} == used


def test_statements_at_the_top_of_a_module_count_with_each_of_its_definitions(copy):
    (code.ROOT / "toy.py").write_text(
        "import numpy as np\nnp.seterr(all='raise')\n\n\ndef f():\n    return 1\n"
    )
    assert set(copy("interextra.toy:f")) == {"interextra.toy:f", "interextra.toy:", "numpy"}


def test_a_name_that_a_module_has_from_another_one_counts_where_it_is(copy):
    assert "interextra.models.search.topk:PADDING" in copy(
        "interextra.models.search.lucene:PADDING"
    )
    with pytest.raises(AttributeError, match="has no 'NOTHING'"):
        copy("interextra.models.search.lucene:NOTHING")


def test_a_notebook_uses_what_its_code_names():
    source = "import interextra as ix\nfrom interextra.splits import restrain as method\n"
    source += "nb = ix.start(1)\nix.figures.heat(2)\nmethod.bands(ix.effects)\n"
    assert code.used_by(source, interextra.FRONT) == (
        *("interextra.figures:heat", "interextra.site.session:start"),
        *("interextra.splits.restrain:bands", "interextra.stats.effects:effects"),
    )


def test_a_name_of_the_front_door_whose_module_is_gone_is_named():
    with pytest.raises(AttributeError, match="interextra.gone, which has no file"):
        code.used_by("import interextra as ix\nix.old(1)\n", {"old": "interextra.gone"})
    with pytest.raises(AttributeError, match="interextra.gone.f, which has no file"):
        code.used_by("from interextra import old\nold(1)\n", {"old": "interextra.gone:f"})


def test_a_comment_beside_an_attribute_of_this_package_leaves_its_shifts(copy):
    before = (copy(), attributes.fingerprint(RULE))[1]
    change("world/truth.py", "def kind_of_question", "# a comment\ndef kind_of_question")
    assert (copy(), attributes.fingerprint(RULE))[1] == before
    change("world/truth.py", "% 3 + 1", "% 3 + 2")
    assert (copy(), attributes.fingerprint(RULE))[1] != before


@pytest.mark.parametrize(
    "notebook", ["06_pretraining_study", "07_indicators", "10_compression_and_hybrid"]
)
def test_the_code_of_every_model_that_computes_is_in_the_key(root, notebook):
    """Weights are read by the code of their architecture: of a teacher, of what encodes or
    scores.
    """
    [asked] = planned(root, "mini", notebook)
    cells = Store(root / "outputs" / "none").missing(
        part for run in asked.by_place.values() for part in run.plan
    )
    used = [(cell, model) for cell in cells for model in cell.needs() if isinstance(model, Model)]
    used = [(cell, model) for cell, model in used if model is not getattr(cell, "first", None)]
    assert len({type(cell) for cell, _ in used}) > 1
    for cell, model in used:
        module = architectures()[model.recipe.architecture].__name__
        assert any(place.startswith(f"{module}:") for place in code.behind(cell.modules())), (
            cell.title()
        )

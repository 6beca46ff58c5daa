"""The key holds the code: a changed constant changes it, a changed docstring or comment does not."""

import shutil

import pytest

from interextra.ground import code


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A copy of the package whose files can be changed; returns the digests behind the dense models."""
    shutil.copytree(code.ROOT, tmp_path / "interextra", ignore=shutil.ignore_patterns("__pycache__", "*.yaml", "base"))
    monkeypatch.setattr(code, "ROOT", tmp_path / "interextra")

    def behind(module="interextra.models.dense"):
        code._parsed.cache_clear()
        code.behind.cache_clear()
        return code.behind((module,))

    yield behind
    code._parsed.cache_clear()
    code.behind.cache_clear()


def change(old, new, file="models/losses/pairwise.py"):
    path = code.ROOT / file
    text = path.read_text()
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1))


def test_a_constant_in_a_loss_changes_the_digest(copy):
    before = copy("interextra.models.losses.pairwise")
    change("clamp(min=1)", "clamp(min=2)")
    assert copy("interextra.models.losses.pairwise") != before


def test_docstring_and_comment_leave_it(copy):
    before = copy("interextra.models.losses.pairwise")
    change("Cross entropy of two logits", "The cross entropy of two logits")
    change("softplus\n", "softplus  # a comment\n")
    assert copy("interextra.models.losses.pairwise") == before


def test_what_a_function_imports_counts(copy):
    found = copy("interextra.models.run")
    assert {"interextra.models.model", "interextra.data.runs"} <= found.keys()
    assert "interextra.models.pairs" in copy("interextra.models.dense")


def test_one_architecture_does_not_depend_on_another(copy):
    before = copy()
    change("return ", "return 1 and ", "models/splade.py")
    assert copy() == before


def test_wording_of_errors_and_storing_leave_it(copy):
    before = copy()
    change("def offenders", "def offenders_of", "ground/errors.py")
    assert copy() == before and "interextra.ground.errors" not in before


def test_minor_versions_of_the_model_libraries_belong_to_it(copy):
    assert {"torch", "sentence_transformers"} <= copy().keys()
    assert all(version.count(".") == 1 for name, version in copy().items() if name in code.VERSIONS)
    assert "torch" not in copy("interextra.splits.restrain")

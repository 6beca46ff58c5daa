"""The README says what the committed tables say, and its commands exist."""

import re

from interextra.study.readme import with_results


def test_results_table_is_that_of_the_reference(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    assert with_results(text, root / "outputs" / "reference") == text


def test_every_make_target_named_in_the_readme_exists(root):
    text, makefile = (root / "README.md").read_text(encoding="utf-8"), (root / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z]+)", text)) - {"it"}
    assert {"run", "test", "lab", "bench", "base", "clean"} <= named
    for target in named:
        assert re.search(rf"(?m)^{target}:", makefile), target


def test_every_notebook_stands_in_the_readme(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    for path in (root / "notebooks").glob("*.ipynb"):
        assert f"| {path.stem} |" in text

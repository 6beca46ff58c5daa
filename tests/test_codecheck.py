"""codecheck.yml: each file of its manifest is one that the run of `mini` writes."""

import json
import re
from pathlib import PurePath

import pytest
import yaml

from interextra.site.repository import notebooks
from interextra.site.travel import REFERENCE


@pytest.fixture(scope="module")
def document(root) -> dict:
    return yaml.safe_load((root / "codecheck.yml").read_text(encoding="utf-8"))


def test_it_has_what_the_specification_asks_for_before_a_check(document):
    assert document["version"] == "https://codecheck.org.uk/spec/config/1.0/"
    assert document["paper"]["title"] and document["paper"]["authors"][0]["name"]
    assert all(entry.keys() == {"file", "comment"} for entry in document["manifest"])
    files = [entry["file"] for entry in document["manifest"]]
    assert len(set(files)) == len(files)


def test_every_notebook_is_in_the_manifest(document, root):
    named = {PurePath(entry["file"]).parts[2] for entry in document["manifest"]}
    assert named == {path.stem for path in notebooks(root)}


def test_every_file_of_the_manifest_is_written_by_its_notebook(document, root):
    """By the committed run, or, of a notebook that has none yet, by its code."""
    for entry in document["manifest"]:
        path = PurePath(entry["file"])
        assert path.parts[:2] == ("outputs", "mini")
        committed = root / REFERENCE / path.relative_to("outputs")
        if committed.is_file():
            continue
        notebook = path.parts[2]
        assert not committed.parent.is_dir(), entry["file"]
        stored = json.loads((root / "notebooks" / f"{notebook}.ipynb").read_text(encoding="utf-8"))
        code = "\n".join("".join(cell["source"]) for cell in stored["cells"])
        written = re.findall(r'nb\.(?:table|figure)\([^\n]*"(\w+)"\)', code)
        assert path.stem in written, entry["file"]

"""Whatever a folder or a parameter of somebody else holds, a command gives a result or one line of
InputError.
"""

import json
import os
import shutil
from pathlib import Path

import pytest
from datasets import Dataset
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy_own import written
from toy_topics import write_topics

from interextra.data.texts import normalised
from interextra.data.words import words_of
from interextra.overlap.text import text_jaccard, tokens
from interextra.own import audit as auditing
from interextra.own.split_folder import SplitFolder
from interextra.site.parameters import output_name, profile_parameters, read_overrides
from interextra.site.repository import notebooks
from interextra.store.errors import InputError
from interextra.store.files import sha256
from interextra.store.folders import Store

bounded = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
CODE = "python:os:system"
DEEP = "[" * 100_000

names = st.sampled_from(
    ["kind", "by", "sets", "gate", "files", "split", "vectors", "sizes", "train", "test", "of", "x"]
)
simple = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "train", "\0", "../x", CODE])
)
values = st.recursive(
    simple, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3)
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of `interextra split` with strata, one without, and a folder of datasets."""
    base, before = tmp_path_factory.mktemp("doors"), Path.cwd()
    os.chdir(base)
    spec, store = write_topics(base / "own"), Store(base / "cells")
    written(spec, store, "restrain", "near", size=12)
    written(spec, store, "shift", "kinds", attribute="column:topic", n_test=0.5)
    Dataset.from_dict({"anchor": ["one", "two"], "positive": ["a", "b"]}).save_to_disk(
        base / "data"
    )
    yield base
    os.chdir(before)


def result_or_line(read, *arguments):
    """What a reader gives, or None where it refuses in one line."""
    try:
        return read(*arguments)
    except InputError as error:
        assert str(error) and "\n" not in str(error), repr(str(error))
    return None


@st.composite
def places(draw, document):
    """The path to some value inside of a JSON value: keys and numbers."""
    path = []
    while isinstance(document, dict | list) and document and draw(st.booleans() | st.just(True)):
        key = draw(
            st.sampled_from(
                sorted(document) if isinstance(document, dict) else range(len(document))
            )
        )
        path, document = [*path, key], document[key]
        if draw(st.integers(0, 2)) == 0:
            break
    return path


def put(document, path, value):
    """The document with a value in some place; the place itself is taken out where the value is
    `...`.
    """
    if not path:
        return value
    here = document
    for key in path[:-1]:
        here = here[key]
    if value is ...:
        del here[path[-1]]
    else:
        here[path[-1]] = value
    return document


@bounded
@given(data=st.data(), protocol=st.sampled_from(["near", "kinds"]))
def test_a_manifest_with_any_value_in_any_place_is_opened_or_refused(folders, data, protocol):
    manifest = json.loads((folders / protocol / "manifest.json").read_text())
    path = data.draw(places(manifest))
    changed = put(manifest, path, data.draw(values | (st.just(...) if path else st.none())))
    check_manifest(folders, protocol, json.dumps(changed))


@bounded
@given(
    text=st.text(max_size=40) | values.map(json.dumps), protocol=st.sampled_from(["near", "kinds"])
)
@example(text=DEEP, protocol="near")
@example(text='{"split": ' * 900 + "1" + "}" * 900, protocol="near")
@example(text='{"sets": {}}', protocol="near")
@example(text='"\\ud83d"', protocol="near")
@example(text="[]", protocol="kinds")
def test_a_manifest_of_any_text_is_refused(folders, text, protocol):
    assert check_manifest(folders, protocol, text) is None


def check_manifest(folders, protocol, text):
    """A copy of the folder with another manifest: opened as it was written, or refused, and never
    by code.
    """
    folder = folders / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folders / protocol, folder)
    (folder / "manifest.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    found = result_or_line(SplitFolder.open, folder)
    if found is not None:
        whole = SplitFolder.open(folders / protocol)
        assert (
            found.queries.equals(whole.queries)
            and found.qrels.equals(whole.qrels)
            and found.gate_ids == whole.gate_ids
        )
        assert CODE not in json.dumps(json.loads(text)["split"])
    return found


lines = st.lists(
    st.text(max_size=12) | st.sampled_from(["sky-comet-4", "sky-comet-4\tsky", "nobody\tsky"]),
    max_size=5,
)


@bounded
@given(
    name=st.sampled_from(["test.tsv", "test.qrels", "gate.txt", "strata.tsv"]),
    more=lines,
    whole=st.booleans(),
)
@example(name="gate.txt", more=["nobody"], whole=True)
@example(name="strata.tsv", more=[], whole=False)
@example(name="test.qrels", more=["nobody\t0\tp-sky-aurora-0\t1"], whole=True)
@example(name="test.tsv", more=["\0"], whole=True)
def test_files_of_a_split_with_any_lines_are_opened_or_refused(folders, name, more, whole):
    """Their checksums are right: a stranger writes the manifest, too."""
    folder = folders / "changed"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folders / "kinds", folder)
    text = (folder / name).read_text() if whole else ""
    (folder / name).write_text(
        text + "".join(f"{line}\n" for line in more), encoding="utf-8", errors="surrogatepass"
    )
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][name] = sha256(folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    found = result_or_line(SplitFolder.open, folder)
    if found is not None:
        asked = set(found.queries["query_id"])
        assert set(found.gate_ids) <= asked and set(found.qrels["query_id"]) <= asked == set(
            found.strata.index
        )
        assert set(found.strata) <= {"sky", "plant", "stone"}


state_files = st.sampled_from(["state.json", "dataset_info.json"])


@bounded
@given(data=st.data(), name=state_files)
def test_a_folder_of_datasets_with_any_value_in_any_place_is_read_or_refused(folders, data, name):
    document = json.loads((folders / "data" / name).read_text())
    path = data.draw(places(document))
    check_datasets(folders, name, json.dumps(put(document, path, data.draw(values))))


@bounded
@given(text=st.text(max_size=40) | values.map(json.dumps), name=state_files)
@example(text="[]", name="state.json")
@example(text=DEEP, name="state.json")
@example(text='{"_data_files": []}', name="state.json")
@example(text='{"_data_files": [{"filename": "../../own/corpus.jsonl"}]}', name="state.json")
@example(text='{"features": {"anchor": {"_type": "os.system"}}}', name="dataset_info.json")
def test_a_folder_of_datasets_of_any_text_is_read_or_refused(folders, text, name):
    check_datasets(folders, name, text)


def check_datasets(folders, name, text):
    folder = folders / "damaged"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(folders / "data", folder)
    (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    found = result_or_line(auditing.read, f"datasets:{folder}", "train")
    if found is not None:
        assert found.queries["text"].tolist() == ["one", "two"] and found.qrels[
            "doc_id"
        ].tolist() == ["a", "b"]


@bounded
@given(st.text(max_size=30) | values.map(repr) | values.map(json.dumps))
@example("[" * 5000)
@example("9" * 5000)
@example("2020-99-99")
@example("&a [*a]")
@example('["\\ud83d"]')
@example("!!python/object/apply:os.system [ls]")
@example(".inf")
@example("{1: 2}")
def test_any_value_of_a_parameter_is_checked_or_refused(root, text):
    [notebook] = notebooks(root, "02")
    for name in ("sizes", "test_splits", "recipes", "nothing"):
        given = result_or_line(read_overrides, root, "02", [f"{name}={text}"])
        if given is not None:
            result_or_line(profile_parameters, root, "mini", notebook, given)
            result_or_line(output_name, root, "mini", given, "")


@bounded
@given(st.text(max_size=30))
@example("beir:/data/a #b")
@example("beir:/data/{a: b}")
def test_a_text_parameter_is_what_was_given(root, text):
    assert read_overrides(root, "02", [f"collection={text}"]) == {"collection": text}


@bounded
@given(st.text(max_size=40), st.text(max_size=40))
@example("weiße Straße", "WEISSE STRASSE")
@example("İ", "i̇")
def test_what_is_the_same_text_has_the_same_words(one, other):
    once = normalised(one)
    assert once == " ".join(once.split()) and once == once.lower()
    if once == normalised(other):
        assert tokens(one) == tokens(other) and text_jaccard([one], [other])[0] in (0, 1)
    letters = "".join(words_of(one))
    assert all(character in letters for character in one if character.isalnum())

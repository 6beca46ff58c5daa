"""Seals and notes that anybody wrote: whatever they hold, nothing is run, and the answer is that
there is no result.
"""

import json
import sys

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from toy_cells import Toy

from interextra.data.queries import Queries, Source
from interextra.models.model import Model
from interextra.models.recipe import load_recipe
from interextra.site.notebook import Notebook
from interextra.splits.shift import Shift
from interextra.store.cells import config_of, from_config
from interextra.store.errors import InputError
from interextra.store.files import SEAL, parse_json, seal, seal_problem
from interextra.store.folders import Store
from interextra.store.progress import Results

MINI = Source(spec="mini", fingerprint="0" * 20)
SHIFT = Shift(pool=Queries(source=MINI, split="train"), by="wh-words", n_test=5)
MODEL = Model(
    recipe=load_recipe("mini-dense"), train=Queries(source=MINI, split="train"), seed=1, start=""
)
PAGE = Notebook(
    name="02_it", source="0", parameters="{}", uses=(), plan=(MODEL, SHIFT, Toy()), files=""
)
CELLS = [Toy(needed=(Toy(n=4),)), SHIFT, MODEL, PAGE]
TEXTS = {
    "nested deeply": "[" * 100_000,
    "nested deeply in a note": '{"config": ' + '{"kind": "x", "a": [' * 50_000,
    "nested as deeply as it can be read": '{"key": 1, "config": ' + "[" * 900 + "]" * 900 + "}",
    "half of an emoji": '{"key": "\\ud83d", "config": {"kind": "\\ud83d"}}',
    "endless number": '{"key": ' + "9" * 5000 + "}",
    "no UTF-8": b'{"key": "\xff"}',
    "nothing": "",
    "null": "null",
}

tried = settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
names = st.sampled_from(["kind", "key", "config", "plan", "by", "n", "seconds"])
kinds = st.sampled_from(
    [json.loads(json.dumps(config_of(cell)))["kind"] for cell in CELLS]
    + [
        "interextra.data.queries.Source",
        "interextra.data.queries.Part",
        "interextra.site.worlds.Worlds",
    ]
    + [
        "interextra.store.cells.Cell",
        "interextra.cli.main",
        "interextra.store.schedule.Job",
        "interextra..x",
    ]
)
numbers = st.integers() | st.floats() | st.sampled_from([10**400, -1, 2**63])


def values_of(words):
    """Any JSON value, often with something of a note in it."""
    return st.recursive(
        st.none() | st.booleans() | numbers | words | kinds,
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(words | names, inner, max_size=4)
            | st.builds(
                lambda kind, rest: rest | {"kind": kind},
                kinds | inner,
                st.dictionaries(words, inner, max_size=3),
            )
        ),
        max_leaves=12,
    )


values = values_of(st.text(st.characters(exclude_categories=[])))  # with half of surrogate pairs
readable = values_of(st.text())
files = st.binary(max_size=200) | values.map(lambda value: json.dumps(value).encode())


@st.composite
def changed_notes(draw):
    """The note of a planned cell with a value in it, or several, replaced by any other."""
    cell = draw(st.sampled_from(CELLS))
    note = {"key": cell.key, "config": json.loads(json.dumps(config_of(cell)))}
    for _ in range(draw(st.integers(1, 3))):
        inside, place = note, draw(st.sampled_from(["key", "config"]))
        while isinstance(inside[place], dict | list) and inside[place] and draw(st.integers(0, 3)):
            inside = inside[place]
            place = draw(
                st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside)))
            )
        inside[place] = draw(readable)
    return cell, json.dumps(note).encode()


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def fresh(root):
    Store._valid.clear()
    return Store(root)


@pytest.fixture
def built(tmp_path):
    return Store(tmp_path).build(Toy())


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_what_cannot_be_read_is_no_result_and_no_plan(tmp_path, built, text):
    put(tmp_path / "planned" / f"{Toy().key}.json", text)
    assert fresh(tmp_path).planned() == [] and fresh(tmp_path).noted(tmp_path / "planned") == {}
    with pytest.raises(InputError, match="run `interextra plan`"):
        fresh(tmp_path).cell(Toy().key)
    for name in ("config.json", SEAL):
        Store(tmp_path).build(Toy())
        put(built / name, text)
        assert seal_problem(built) and not fresh(tmp_path).valid(Toy())
    assert fresh(tmp_path).build(Toy()) == built and seal_problem(built) is None
    assert fresh(tmp_path).planned() == [Toy()], "planned again with what is computed again"


@tried
@given(files)
@example(b'{"answer.txt": []}')
@example(b"[[[]]]")
def test_any_seal_is_no_seal(tmp_path, built, content):
    put(built / SEAL, content)
    assert isinstance(seal_problem(built), str) and not fresh(tmp_path).valid(Toy())


@tried
@given(files)
@example(b'{"key": {"a": []}}')
def test_any_note_beside_a_result_is_not_that_of_the_cell(tmp_path, built, content):
    put(built / "config.json", content)
    put(built / "provenance.json", content)
    seal(built)
    assert seal_problem(built) is None and not fresh(tmp_path).valid(Toy())
    results = Results(Store(tmp_path), [Toy(), Toy(n=4)])
    assert results.learn(Toy().key) is None or results.learn(Toy().key) >= 0
    assert results.state().seconds_left >= 0


@tried
@given(files)
def test_any_planned_note_is_no_planned_cell(tmp_path, content):
    path = tmp_path / "planned" / f"{Toy().key}.json"
    put(path, content)
    assert fresh(tmp_path).planned() == []
    with pytest.raises(InputError, match="run `interextra plan`"):
        fresh(tmp_path).cell(Toy().key)
    assert fresh(tmp_path).clean()[0] == 0 and not path.exists()


@settings(tried, max_examples=150)
@given(changed_notes())
def test_a_changed_note_is_the_planned_cell_or_none(tmp_path, changed):
    cell, content = changed
    put(tmp_path / "planned" / f"{cell.key}.json", content)
    found = [one for one in fresh(tmp_path).planned() if one.key == cell.key]
    assert found in ([], [cell])


@tried
@given(values | readable)
def test_any_configuration_is_refused_in_words(value):
    try:
        text = json.dumps(value)
        from_config(parse_json(text, "a note"))
    except (InputError, TypeError, ValueError):
        pass


MARK = "from pathlib import Path\nPath({!r}).touch()\n\n\ndef __getattr__(name):\n    Path({!r}).touch()\n"


@pytest.fixture
def evil(tmp_path, monkeypatch):
    """A module that leaves a mark when it is imported, or when it is asked for what it does not
    have.
    """
    ran = tmp_path / "ran"
    (tmp_path / "evil.py").write_text(MARK.format(str(ran), str(ran)))
    monkeypatch.syspath_prepend(tmp_path)
    yield ran
    sys.modules.pop("evil", None)


def test_reading_a_note_imports_no_other_module(tmp_path, evil):
    note = config_of(SHIFT) | {"by": "python:evil:f"}
    foreign = [
        {"kind": "evil.Toy"},
        {"kind": "toy_cells.Toy", "needed": [{"kind": "evil.Toy"}]},
        {"kind": "evil"},
    ]
    foreign += [note, config_of(PAGE) | {"uses": ["evil:f"]}, config_of(PAGE) | {"plan": [note]}]
    store = Store(tmp_path / "cells")
    for number, config in enumerate(foreign):
        for key in (f"{number:020}", from_key(config)):
            put(store.root / "planned" / f"{key}.json", json.dumps({"key": key, "config": config}))
    store.planned(), store.clean()
    assert not evil.exists() and "evil" not in sys.modules


def from_key(config):
    try:
        return from_config(config).key
    except (ValueError, AttributeError):
        return "0" * 20


def test_reading_a_note_asks_no_loaded_module_for_what_it_does_not_have(evil):
    __import__("evil")
    evil.unlink()
    with pytest.raises(InputError, match="no kind of this package"):
        from_config({"kind": "evil.Toy"})
    assert not evil.exists()


def test_reading_a_note_imports_nothing_where_its_collection_is_open(tmp_path, evil, house):
    source = Source.of("mini:n_train=400,n_dev=40")
    config = config_of(Shift(pool=Queries(source=source, split="train"), by="wh-words", n_test=5))
    assert from_config(config | {"by": "python:evil:f"}).by == "python:evil:f"
    assert (
        from_config(config_of(Queries(source=source, split="train")) | {"split": "none"}).split
        == "none"
    )
    assert not evil.exists()


@pytest.mark.parametrize("name", ["write", "Path", "X"])
def test_a_module_of_this_package_is_imported_for_a_class_of_its_own_only(monkeypatch, name):
    monkeypatch.delitem(sys.modules, "interextra.site.book", raising=False)
    with pytest.raises(InputError, match="no kind of this package"):
        from_config({"kind": f"interextra.site.book.{name}"})
    assert "interextra.site.book" not in sys.modules


NO_NAMES = [
    None,
    5,
    10**400,
    [],
    ["interextra.store.cells.Cell"],
    {"kind": "x"},
    "",
    ".",
    "x" * 10**6,
]


@pytest.mark.parametrize("kind", NO_NAMES, ids=lambda kind: f"{kind!r:.20}")
def test_a_kind_that_is_no_name_is_refused(kind):
    with pytest.raises(InputError, match="no kind of this package"):
        from_config({"kind": kind})


def test_a_name_that_a_module_has_from_another_one_is_no_kind_of_it():
    with pytest.raises(InputError, match="no kind of this package"):
        from_config(
            {"kind": "interextra.splits.shift.Queries", "source": config_of(MINI), "split": "train"}
        )


def test_what_a_note_names_as_code_never_leads_out_of_the_package(tmp_path):
    (tmp_path / "broken.py").write_text("this is no Python")
    for module in (
        f"interextra.{tmp_path}/broken",
        "interextra..x",
        "interextra." + "x" * 300,
        "interextra.a\0b",
    ):
        config = config_of(PAGE) | {"uses": [f"{module}:f"]}
        assert from_config(config).code == PAGE.code, (
            "nothing of the package: it is no part of the code"
        )
        put(
            tmp_path / "planned" / f"{'0' * 20}.json",
            json.dumps({"key": "0" * 20, "config": config}),
        )
        assert fresh(tmp_path).planned() == []

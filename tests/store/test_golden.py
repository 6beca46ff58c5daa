"""Signed code: who edits a method gets no old result, who rewrites it trains nothing again."""

import pytest
import yaml
from toy_cells import Toy

from interextra.data.pricing import pricing
from interextra.site.planning import planned
from interextra.store import cells, signatures
from interextra.store.folders import Store
from tools import golden

SAMPLES = {"three": Toy(), "four": Toy(n=4)}


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return an empty golden.yaml of this test."""
    path = tmp_path / "golden.yaml"
    monkeypatch.setattr(signatures, "GOLDEN", path)
    signatures.kinds_signed.cache_clear()
    yield path
    signatures.kinds_signed.cache_clear()


def code_is(monkeypatch, name):
    """Let all kinds of cell have code of this name behind them, in a process that read no seal."""
    monkeypatch.setattr(cells.code, "digests_of", lambda modules: [["code", name]])
    Store._valid.clear()


def digest_now():
    return Toy().code


def write(path, *digests, version=1):
    entry = {"version": version, "signed": list(digests), "of": {}, "samples": {}}
    path.write_text(yaml.safe_dump({"Toy": entry}))
    signatures.kinds_signed.cache_clear()


def test_a_result_of_code_that_nobody_signed_is_not_used(tmp_path, monkeypatch, file):
    code_is(monkeypatch, "first")
    Store(tmp_path / "cells").build(Toy())
    code_is(monkeypatch, "second")
    assert not Store(tmp_path / "cells").valid(Toy())


def test_a_result_of_signed_code_is_used_where_today_s_is_signed_too(tmp_path, monkeypatch, file):
    code_is(monkeypatch, "first")
    Store(tmp_path / "cells").build(Toy())
    first = digest_now()
    code_is(monkeypatch, "second")
    write(file, first, digest_now())
    assert Store(tmp_path / "cells").valid(Toy())
    code_is(monkeypatch, "third")
    assert not Store(tmp_path / "cells").valid(Toy())


def test_what_a_result_is_made_from_must_be_signed_too(tmp_path, monkeypatch, file):
    code_is(monkeypatch, "first")
    whole = Toy(needed=(Toy(n=4),))
    folder = Store(tmp_path / "cells").build(whole)
    first = digest_now()
    code_is(monkeypatch, "second")
    write(file, first, digest_now())
    assert Store(tmp_path / "cells").valid(Toy(needed=(Toy(n=4),)))
    signatures.kinds_signed.cache_clear()
    codes = {key: "unsigned" for key in Toy(n=4).code_behind}
    note = (folder / "config.json").read_text().replace(first, codes.popitem()[1], 1)
    assert "unsigned" in note
    (folder / "config.json").write_text(note)
    Store._valid.clear()
    assert not Store(tmp_path / "cells").valid(Toy(needed=(Toy(n=4),)))


def built(tmp_path, name):
    return built_of(tmp_path / name, SAMPLES)


def built_of(folder, samples):
    store = Store(folder)
    for cell in samples.values():
        store.build(cell)
    return store


def test_first_samples_are_noted_and_their_code_is_signed(tmp_path):
    signed, refusals = golden.sign({}, SAMPLES, built(tmp_path, "cells"))
    assert not refusals and signed["Toy"]["signed"] == [digest_now()]
    assert signed["Toy"]["samples"].keys() == {"three", "four"}


def test_other_code_with_the_same_results_is_signed_beside_the_older_one(tmp_path, monkeypatch):
    before, _ = golden.sign({}, SAMPLES, built(tmp_path, "cells"))
    first = digest_now()
    code_is(monkeypatch, "second")
    again = {name: Toy(n=cell.n) for name, cell in SAMPLES.items()}
    signed, refusals = golden.sign(before, again, built(tmp_path, "cells"))
    assert not refusals
    assert signed["Toy"]["signed"] == sorted([first, again["three"].code])


def test_another_result_is_refused_until_its_kind_has_another_version(tmp_path, monkeypatch):
    before, _ = golden.sign({}, SAMPLES, built(tmp_path, "cells"))
    monkeypatch.setattr(
        Toy, "build", lambda self, folder, store: (folder / "answer.txt").write_text("1.5 rows")
    )
    code_is(monkeypatch, "second")
    changed = {name: Toy(n=cell.n) for name, cell in SAMPLES.items()}
    store = built(tmp_path, "other")
    signed, refusals = golden.sign(before, changed, store)
    assert signed == before and {line.split(":")[0] for line in refusals} == {"Toy"}
    monkeypatch.setattr(Toy, "VERSION", 2)
    again = {name: Toy(n=cell.n) for name, cell in SAMPLES.items()}
    for cell in again.values():
        store.build(cell)
    signed, refusals = golden.sign(before, again, store)
    assert not refusals and signed["Toy"]["version"] == 2


def test_only_samples_that_are_new_or_whose_code_is_not_signed_are_computed(tmp_path, monkeypatch):
    before, _ = golden.sign({}, SAMPLES, built(tmp_path, "cells"))
    more = SAMPLES | {"five": Toy(n=5)}
    assert golden.unsigned(before, more).keys() == {"five"}
    store = Store(tmp_path / "more")
    store.build(more["five"])
    signed, refusals = golden.sign(before, more, store)
    assert not refusals and signed["Toy"]["samples"].keys() == more.keys()
    _, refusals = golden.sign(before, {"three": SAMPLES["three"]}, store)
    assert refusals == ["Toy: four: the sample is there no more"]
    code_is(monkeypatch, "second")
    again = {name: Toy(n=cell.n) for name, cell in SAMPLES.items()}
    assert golden.unsigned(before, again).keys() == SAMPLES.keys()


def test_a_sample_of_other_data_is_a_new_measure_of_code_that_is_signed(tmp_path, monkeypatch):
    store = built(tmp_path, "cells")
    before, _ = golden.sign({}, SAMPLES, store)
    moved = SAMPLES | {"four": Toy(n=6)}
    store.build(moved["four"])
    assert golden.unsigned(before, moved).keys() == {"four"}
    signed, refusals = golden.sign(before, moved, store)
    assert not refusals and signed["Toy"]["samples"]["four"] != before["Toy"]["samples"]["four"]
    code_is(monkeypatch, "second")
    again = {name: Toy(n=cell.n) for name, cell in moved.items()}
    signed, refusals = golden.sign(before, again, built_of(tmp_path, again))
    assert len(refusals) == 1 and "the data of the sample changed, too" in refusals[0]
    assert signed == before


@pytest.mark.parametrize(
    ("text", "tolerance", "differs"),
    [
        ("0.25 of 4", 1e-6, False),
        ("0.2500000001 of 4", 1e-6, False),
        ("0.25001 of 4", 1e-6, True),
        ("0.25001 of 4", 1e-3, False),
        ("0.25 of 5", 1e-6, True),
    ],
)
def test_numbers_are_compared_within_a_tolerance_and_counts_exactly(
    tmp_path, text, tolerance, differs
):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "note.txt").write_text("0.25 of 4")
    (tmp_path / "b" / "note.txt").write_text(text)
    one, other = (golden.summary_of(tmp_path / part, is_trained=False) for part in "ab")
    assert bool(golden.differences(one, other, tolerance)) == differs


def test_every_kind_and_architecture_has_a_sample_and_its_code_of_today_is_signed(tmp_path):
    samples = golden.samples_of_all(tmp_path)
    assert golden.kinds_without_sample(samples) == [], "add a sample of each in tools/golden.py"
    kinds = signatures.kinds_signed()
    unsigned = {name for name, cell in samples.items() if cell.code not in kinds}
    assert not unsigned, "run `make golden`, and review what it signs"


@pytest.mark.parametrize("profile", ["mini", "msmarco"])
def test_code_of_every_planned_result_is_signed(root, profile):
    """A kind whose code differs by architecture needs a sample of each."""
    kinds = signatures.kinds_signed()
    with pricing():
        plans = [notebook.plan for notebook in planned(root, profile, "")]
    cells_of_all = {cell.identity: cell for plan in plans for cell in plan}
    assert len(cells_of_all) > 300
    unsigned = {cell.title() for cell in cells_of_all.values() if cell.code not in kinds}
    assert not unsigned, "add a sample of each in tools/golden.py, then run `make golden`"

"""The reference: made from a clean commit only, and one changed number of one table is found."""

import json
import subprocess

import pandas as pd
import pytest

from interextra.store.cells import Cell
from interextra.store.errors import InputError
from interextra.store.folders import Store
from tools import reference
from tools.reference import make
from tools.verify import WITHHELD, compared, difference_of, verify

EFFECTS = pd.DataFrame(
    {
        "model": ["BM25", "DR (base)"],
        "delta": [0.0, -0.1],
        "low": [0.0, -0.2],
        "high": [0.0, -0.05],
        "verdict": ["", "agrees"],
    }
)


def write(folder, table, processor="a kind", untrained=()):
    (folder / "02_toy" / "tables").mkdir(parents=True)
    table.to_csv(folder / "02_toy" / "tables" / "restrain.csv", index=False)
    note = {
        "platform": {"hardware": {"processor": processor}},
        "method": {"untrained tables": list(untrained)},
    }
    (folder / "02_toy" / "provenance.json").write_text(json.dumps(note))
    return folder


def problem(tmp_path, measured, processor="a kind", untrained=()):
    write(tmp_path / "reference", EFFECTS, untrained=untrained)
    write(tmp_path / "measured", measured, processor)
    return compared("02_toy", tmp_path / "reference", tmp_path / "measured")["problem"].item()


def test_equal_tables_agree(tmp_path):
    assert problem(tmp_path, EFFECTS) == ""


def test_one_number_changed_by_hand_is_found(tmp_path):
    assert "delta, row 2: -0.1 ≠ -0.10001" in problem(
        tmp_path, EFFECTS.assign(delta=[0.0, -0.10001])
    )


def test_rounding_of_a_trained_number_is_allowed_and_of_another_is_not(tmp_path):
    nearly = EFFECTS.assign(delta=[0.0, -0.1 * (1 + 5e-7)])
    assert problem(tmp_path / "trained", nearly) == ""
    assert "delta, row 2" in problem(tmp_path / "untrained", nearly, untrained=["restrain"])


def test_changed_verdict_missing_row_and_missing_table_are_found(tmp_path):
    assert "verdict, row 2: agrees ≠ opposite" in problem(
        tmp_path / "a", EFFECTS.assign(verdict=["", "opposite"])
    )
    assert "rows differ" in problem(tmp_path / "b", EFFECTS.iloc[:1])
    write(tmp_path / "c", EFFECTS)
    (write(tmp_path / "d", EFFECTS) / "02_toy" / "tables" / "restrain.csv").unlink()
    assert "rows differ" in compared("02_toy", tmp_path / "c", tmp_path / "d")["problem"].item()


def test_only_a_withheld_table_may_be_absent_from_the_reference(tmp_path):
    write(tmp_path / "reference", EFFECTS)
    write(tmp_path / "measured", EFFECTS)
    texts = pd.DataFrame({"test_query": ["what is rest"]})
    texts.to_csv(tmp_path / "measured" / "02_toy" / "tables" / "duplicates.csv", index=False)
    found = compared("02_toy", tmp_path / "reference", tmp_path / "measured", WITHHELD["small"])
    assert found["table"].tolist() == ["restrain"] and "mini" not in WITHHELD
    found = compared("02_toy", tmp_path / "reference", tmp_path / "measured").set_index("table")[
        "problem"
    ]
    assert "rows differ" in found["duplicates"] and found["restrain"] == ""


def test_on_another_processor_numbers_must_lie_in_the_reference_s_intervals(tmp_path):
    inside = EFFECTS.assign(delta=[0.0, -0.15], low=[0.0, -0.3])
    assert problem(tmp_path / "in", inside, "another kind") == ""
    rounded = pd.DataFrame(
        {"percent": [0.0], "low": [2e-17], "high": [0.3]}
    )  # Wilson's interval of no query
    assert difference_of(rounded, rounded, None) == (0.0, "")
    outside = EFFECTS.assign(delta=[0.0, -0.25])
    assert "row 2 and 1 of 2 in all: outside" in problem(tmp_path / "out", outside, "another kind")


@pytest.mark.parametrize("outside, agrees", [(0, True), (1, True), (2, False)])
def test_on_another_processor_one_row_in_twenty_may_lie_outside(outside, agrees):
    many = pd.DataFrame({"delta": [-0.1] * 20, "low": -0.2, "high": -0.05})
    assert (
        difference_of(many, many.assign(delta=[0.05] * outside + [-0.1] * (20 - outside)), None)[1]
        == ""
    ) == agrees


def test_on_another_processor_no_row_lies_far_outside():
    many = pd.DataFrame({"delta": [-0.1] * 20, "low": -0.2, "high": -0.05})
    for delta, agrees in ((0.09, True), (0.11, False)):  # the interval is .15 wide
        assert (
            difference_of(many, many.assign(delta=[delta] + [-0.1] * 19), None)[1] == ""
        ) == agrees


def test_on_another_processor_verdicts_follow_from_the_numbers_and_are_counted(tmp_path):
    write(tmp_path / "reference", EFFECTS)
    write(tmp_path / "measured", EFFECTS.assign(verdict=["", "undecided"]), "another kind")
    found = compared("02_toy", tmp_path / "reference", tmp_path / "measured")
    assert found[["other_verdicts", "problem"]].values.tolist() == [[1, ""]]


def test_what_is_not_trained_may_only_round_differently_on_another_processor(tmp_path):
    nearly, other = (EFFECTS.assign(delta=[0.0, -0.1 * (1 + part)]) for part in (2e-8, 2e-5))
    assert problem(tmp_path / "nearly", nearly, "another kind", untrained=["restrain"]) == ""
    assert "delta, row 2" in problem(
        tmp_path / "other", other, "another kind", untrained=["restrain"]
    )


def test_undefined_on_both_sides_is_equal():
    table = EFFECTS.assign(delta=[float("nan"), -0.1])
    assert difference_of(table, table, 0.0) == (0.0, "")
    assert difference_of(table, EFFECTS, 1e-6)[1]


@pytest.fixture
def house(tmp_path):
    for part in ("notebooks", "params/mini"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "notebooks" / "README").write_text("notebooks")
    commands = (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "one"],
    )
    for command in commands:
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def test_reference_refuses_a_tree_with_changes(house):
    (house / "notebooks" / "README").write_text("changed")
    with pytest.raises(InputError, match="not committed"):
        make(house, "mini")


def test_reference_refuses_results_of_other_code(house, root):
    for part in ("notebooks/00_start_here.ipynb", "params/smoke/00_start_here.yaml"):
        (house / part).parent.mkdir(exist_ok=True)
        (house / part).write_bytes((root / part).read_bytes())
    subprocess.run(["git", "add", "."], cwd=house, check=True)
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "two"],
        cwd=house,
        check=True,
    )
    with pytest.raises(InputError, match="00_start_here.*not executed with today's code"):
        make(house, "smoke")


class Executed(Cell):
    """A notebook that wrote one table and one figure."""

    name: str

    @property
    def by_place(self):
        return {"": self}

    def build(self, folder, store):
        (folder / "tables").mkdir()
        EFFECTS.to_csv(folder / "tables" / "restrain.csv", index=False)
        (folder / "figures").mkdir()
        for suffix in ("png", "svg", "pdf"):
            (folder / "figures" / f"gap.{suffix}").write_text(suffix)
        (folder / "metrics.json").write_text("{}")
        (folder / "provenance.json").write_text(
            json.dumps({"implementation": {"source": {"commit": "second"}}})
        )


def test_tables_made_from_the_values_keep_these_and_the_provenance_of_what_measured_them(
    house, monkeypatch
):
    committed = write(house / "outputs" / "reference" / "mini", EFFECTS.iloc[:1]) / "02_toy"
    for path, text in {
        "metrics.json": "{}",
        "cells.zip": "cells",
        "provenance.json": '"first"',
    }.items():
        (committed / path).write_text(text)
    (house / ".gitignore").write_text("outputs\n")
    subprocess.run(["git", "add", "."], cwd=house, check=True)
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "two"],
        cwd=house,
        check=True,
    )
    monkeypatch.setattr(reference, "planned", lambda *given, **options: [Executed(name="02_toy")])
    with pytest.raises(InputError, match="--profile mini --from-reference"):
        make(house, "mini", from_reference=True)
    Store(house / "outputs" / "cells").build(Executed(name="02_toy"))
    for _ in range(2):
        make(house, "mini", from_reference=True)
    assert len(pd.read_csv(committed / "tables" / "restrain.csv")) == len(EFFECTS)
    assert [path.name for path in (committed / "figures").iterdir()] == ["gap.png"]
    assert (committed / "cells.zip").read_text() == "cells" and (
        committed / "measured.json"
    ).read_text() == '"first"'
    assert "second" in (committed / "provenance.json").read_text()


def test_profile_without_reference_is_not_run_to_be_verified(root):
    with pytest.raises(InputError, match="nothing to compare with"):
        verify(root, "smoke", "00")

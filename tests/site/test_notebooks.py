"""Every notebook end to end under the smoke profile: offline, in a folder of its own, twice the
same, as expected.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interextra.claims.claim import stated
from interextra.site.parameters import kind_of
from interextra.site.travel import REFERENCE
from tools.exercises import FOLDER, checked, read_entries
from tools.verify import compared

EXPECTED = Path(__file__).with_name("expected_smoke.json")
TOLERANCE = 1e-4
OF_LABELS = [
    "entity_overlap",
    "intent_overlap",
    "label_overlap",
]  # of 01: written after its encoder, not made by it

COMMAND = [sys.executable, "-m", "interextra.cli", "run"]
# Put before every Python process of a run: whoever reaches beyond this machine gets an error.
OFFLINE = """
import socket
connect = socket.socket.connect
def local_only(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise RuntimeError(f"network used: {address}")
    return connect(self, address)
socket.socket.connect = local_only
"""
# Put there, too, where one worker is enough: each imports torch.
ONE_WORKER = """
import os
os.cpu_count = lambda: 1
"""
# A cell before the solution of an exercise that has a check: answers are tried as a student hands
# them in, without the names of the solution.
VARIANTS = """
def _try_variants():
    import contextlib
    import io
    import warnings

    import pandas as pd

    for kind, variants in {variants}.items():
        for count, variant in enumerate(variants, 1):
            names = {{name: value for name, value in globals().items() if name not in {read}}}
            result = "is accepted"
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    exec(variant, names)
                    exec({checked!r}, names)
            except Exception as error:
                result = f"stops: {{type(error).__name__}}: {{error}}"
            is_expected = result == "is accepted"
            if kind == "wrong":
                is_expected = result.startswith("stops: AssertionError")
            if not is_expected:
                print(f"exercise {number}, {{kind}} variant {{count}}: {{result}}")
    for value in (None, [], [1.5], "text", 3, {{}}, {{"q": 1}}, {{3}}, pd.DataFrame({{"a": [1.0, 2.0]}}), pd.Series([1.0])):
        names = {{**globals(), **dict.fromkeys({read}, value)}}
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec({checked!r}, names)
        except AssertionError:
            continue
        except Exception as error:
            print(f"exercise {number}, {{value!r}}: stops: {{type(error).__name__}}: {{error}}")


_try_variants()
"""


def offline(house, more=""):
    (house / "offline").mkdir(exist_ok=True)
    (house / "offline" / "sitecustomize.py").write_text(OFFLINE + more)
    environment = {
        **os.environ,
        "INTEREXTRA_CACHE": str(house / "cache"),
        "PYTHONPATH": str(house / "offline"),
    }
    environment.pop("INTEREXTRA_DATA", None)
    return environment


def run(house, *arguments):
    """`interextra run` without network; returns what it printed."""
    environment = offline(house, ONE_WORKER if "--no-book" in arguments else "")
    command = [*COMMAND, *arguments]
    done = subprocess.run(
        command, cwd=house, env=environment, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def copied(folder, root):
    shutil.copytree(root / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(root / "params", folder / "params")
    return folder


def with_variants(path, root):
    """Put into a copy of a notebook the cells that try the variants of its exercises."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    trials = {}
    for exercise, entry in read_entries(root, path.stem):
        if entry.variants:
            variants = entry.variants.model_dump()
            source = VARIANTS.format(
                variants=variants, checked=checked(exercise, entry), **exercise._asdict()
            )
            trials[exercise.cell_id] = {
                "cell_type": "code",
                "id": f"{exercise.cell_id}-variants",
                "metadata": {"tags": ["variants"]},
                "source": source,
                "execution_count": None,
                "outputs": [],
            }
    cells = []
    for cell in notebook["cells"]:
        if cell["id"] in trials:
            cells.append(trials[cell["id"]])
        cells.append(cell)
    path.write_text(json.dumps(notebook | {"cells": cells}), encoding="utf-8")


@pytest.fixture(scope="module")
def house(tmp_path_factory, root):
    folder = copied(tmp_path_factory.mktemp("house"), root)
    run(folder, "--profile", "smoke")
    return folder


@pytest.fixture(scope="module")
def committed(tmp_path_factory, root):
    """The notebooks on mini's committed values, with the cells that try answers."""
    folder = copied(tmp_path_factory.mktemp("committed"), root)
    for expected in (root / FOLDER).glob("*.yaml"):
        with_variants(folder / "notebooks" / f"{expected.stem}.ipynb", root)
    (folder / REFERENCE).parent.mkdir()
    (folder / REFERENCE).symlink_to(root / REFERENCE)
    run(folder, "--profile", "mini", "--from-reference", "--no-book")
    return folder


def names(house):
    return sorted(path.stem for path in (house / "notebooks").glob("*.ipynb"))


def tables(house):
    return {
        p.relative_to(house).as_posix(): p.read_bytes()
        for p in sorted((house / "outputs").glob("smoke/*/tables/*"))
    }


def outputs(house, profile, name):
    cells = json.loads((house / "outputs" / profile / name / f"{name}.ipynb").read_text())["cells"]
    return [output for cell in cells for output in cell.get("outputs", [])]


def test_every_notebook_leaves_html_metrics_provenance_and_figures(house):
    for name in names(house):
        folder = house / "outputs" / "smoke" / name
        for part in (f"{name}.ipynb", "metrics.json", "provenance.json", "seal.json"):
            assert (folder / part).is_file(), f"{name}/{part}"
        page = (folder.parent / f"{name}.html").read_text()
        assert all(f"{name}/tables/{path.name}" in page for path in folder.glob("tables/*.csv"))
        pictures = sorted((folder / "figures").glob("*"))
        assert {path.suffix for path in pictures} == {".pdf", ".png", ".svg"}
        assert all(path.stat().st_size > 3000 for path in pictures)
    assert (house / "outputs" / "smoke" / ".book" / "warnings.txt").read_text() == ""
    for path in (house / "outputs" / "smoke").glob("*/*/*.csv"):
        few = path.name == "jaccard_link.csv"  # two clusters per shift: no correlation over them
        assert few or not pd.read_csv(path).isna().all(axis=None), path.name


def test_no_warning_no_error_stream_and_no_flood_in_any_notebook(house):
    for name in names(house):
        found = outputs(house, "smoke", name)
        assert not [o["text"] for o in found if o.get("name") == "stderr"], name
        streams = ["".join(o["text"]) for o in found if o["output_type"] == "stream"]
        assert max(len(text.splitlines()) for text in streams) < 60, name


def test_provenance_holds_all_declared_parameters(house):
    for name in names(house):
        record = json.loads((house / "outputs" / "smoke" / name / "provenance.json").read_text())
        assert record["method"]["parameters"]["profile"] == "smoke"
        declared = kind_of(house / "notebooks" / f"{name}.ipynb").model_fields
        assert record["method"]["parameters"].keys() == declared.keys() and len(declared) > 4
        assert record["platform"]["software"]["libraries"]["torch"]
        assert record["seconds"]["whole notebook"] > 0 and record["results"]


def test_a_trial_of_answers_names_what_a_check_gets_wrong(capsys):
    variants = {
        "right": ["two = 2", "two = 3", "three = 2"],
        "wrong": ["two = 4", "two = 2", "two = 1 / 0"],
    }
    check = "assert type(two) is int and two == 2, 'no'"
    source = VARIANTS.format(variants=variants, read=["two"], checked=check, number=5)
    exec(source, {"two": 2})  # a solution has named it
    assert capsys.readouterr().out.splitlines() == [
        "exercise 5, right variant 2: stops: AssertionError: no",
        "exercise 5, right variant 3: stops: NameError: name 'two' is not defined",
        "exercise 5, wrong variant 2: is accepted",
        "exercise 5, wrong variant 3: stops: ZeroDivisionError: division by zero",
    ]


def test_a_check_that_a_type_stops_is_named(capsys):
    """A list and a table of one column stopped checks of 11 by IndexError and KeyError."""
    source = VARIANTS.format(
        variants={}, read=["two"], checked="assert two['q'] == 2, 'no'", number=5
    )
    exec(source, {})
    printed = capsys.readouterr().out
    assert "exercise 5, []: stops: TypeError" in printed and "stops: KeyError: 'q'" in printed


def test_checks_of_exercises_accept_right_answers_and_refuse_wrong_ones(committed):
    """On mini's values: in a world of smoke's size a wrong answer can equal the right one."""
    wrong = []
    for name in names(committed):
        path = committed / "outputs" / "mini-from-reference" / name / f"{name}.ipynb"
        for cell in json.loads(path.read_text())["cells"]:
            if "variants" in cell["metadata"].get("tags", []):
                printed = ["".join(output["text"]) for output in cell["outputs"]]
                wrong += [f"{name}: {line}" for text in printed for line in text.splitlines()]
    assert not wrong, "\n".join(wrong)


def columns(house, name, notebook=""):
    [path] = (house / "outputs" / "smoke").glob(f"{notebook}*/tables/{name}.csv")
    return pd.read_csv(path).columns.tolist()


def test_tables_have_their_fixed_columns(house):
    assert columns(house, "label_overlap") == [
        *(
            "test_set",
            "relevance_threshold",
            "min_shared",
            "n_queries",
            "n_overlapping",
            "percent",
            "low",
            "high",
        ),
        "published_percent",
    ]
    for name in ("entity_overlap", "intent_overlap"):
        assert columns(house, name) == ["test_set", "label", "n", "percent"]
    interval = ["low", "high", "p_value", "p_holm", "n_queries", "n_trainings"]
    for name, notebook in (
        ("restrain", "02"),
        ("restrain", "05"),
        ("resttest", "03"),
        ("resttest", "05"),
    ):
        found = columns(house, name, notebook)
        assert [c for c in found if c in interval] == interval and {
            "model",
            "measure",
            "delta",
        } <= set(found)
    assert {"shift", "model", "measure", "in", "out", "delta", *interval} <= set(
        columns(house, "shift_loss")
    )
    assert columns(house, "buckets")[:3] == ["bucket", "n_train", "n_test"]
    exposure = [
        "shift",
        "left_out",
        "model",
        "negatives",
        "negative_passages",
        "avg_in",
        "out",
        "delta",
    ]
    assert columns(house, "exposure")[:12] == [*exposure, "low", "high", "n_queries", "n_trainings"]
    effect = ["model", "negatives", "share_of_loss", "low", "high"]
    assert [c for c in columns(house, "exposure_effect") if c in effect] == effect
    on_other_runs = {
        "01_overlap_annotation_analysis",
        "06_pretraining_study",
    }  # on real queries, and under ReSTTest
    asked = {claim.notebook for claim in stated().values()} - on_other_runs
    found = {
        path.parts[-3]: pd.read_csv(path)
        for path in (house / "outputs" / "smoke").glob("*/tables/claims.csv")
    }
    assert found.keys() == asked
    for table in found.values():
        assert {"claim", "estimate", "low", "high", "lead", "resolution"} <= set(table)
        assert table["verdict"].isna().all()  # one generated world decides nothing


def summary(house):
    """Mean and spread of each number column of each untrained table: small, and any changed value
    moves one.
    """
    found = {}
    for folder in sorted((house / "outputs" / "smoke").glob("*/tables")):
        record = json.loads((folder.parent / "provenance.json").read_text())
        labels = OF_LABELS if folder.parent.name.startswith("01") else []
        for name in [*record["method"]["untrained tables"], *labels]:
            frame = (
                pd.read_csv(folder / f"{name}.csv")
                .select_dtypes("number")
                .replace([np.inf, -np.inf], np.nan)
            )
            both = {"mean": frame.mean(), "std": frame.std(ddof=0)}
            found[f"{folder.parent.name}/{name}"] = {
                f"{column}, {what}": float(value)
                for what, row in both.items()
                for column, value in row.items()
                if value == value
            }
    return found


def test_what_no_training_touches_equals_the_committed_expectations(house):
    measured, expected = summary(house), json.loads(EXPECTED.read_text())
    assert measured.keys() == expected.keys() and len(expected) > 3
    for table, values in expected.items():
        assert measured[table] == pytest.approx(values, abs=TOLERANCE), table


def test_second_run_takes_what_exists(house):
    before = tables(house)
    assert f"{len(names(house))} of them taken as they were; 0 new results" in run(
        house, "--profile", "smoke", "--no-book"
    )
    assert tables(house) == before


def test_run_with_changed_parameters_leaves_the_profile_s_results(house):
    before = tables(house)
    said = run(house, "--profile", "smoke", "--only", "00", "-p", "n_boot=60")
    assert "outputs/smoke-n_boot-60/index.html" in said and tables(house) == before
    assert (house / "outputs" / "smoke-n_boot-60" / "00_start_here" / "tables").is_dir()


def test_a_shift_of_ones_own_goes_through_as_its_page_prints_it(house, root):
    printed = re.search(
        r"`-p (shifts)='(.*?)'`", (root / "book" / "own_retriever.md").read_text(encoding="utf-8")
    )
    few = "recipes=[{recipe: bm25, tuning_queries: 20}, mini-dense]"
    mine = ["--only", "04", "--name", "mine", "-p", "=".join(printed.groups()), "-p", few]
    run(house, "--profile", "smoke", "--no-book", *mine)
    folder = house / "outputs" / "mine"
    losses = pd.read_csv(folder / "04_ms_shift_clusters" / "tables" / "shift_loss.csv")
    assert set(losses["shift"]) == {"mine"}
    assert not (folder / "index.html").exists(), "--no-book"


def test_notebooks_executed_from_the_committed_values_give_the_committed_tables(committed, root):
    for name in names(committed):
        found = compared(name, root / REFERENCE / "mini", committed / "outputs/mini-from-reference")
        assert len(found) > 2 and not found["problem"].any(), found.to_string()


def test_killed_and_damaged_run_ends_with_the_same_tables_byte_for_byte(house):
    before = {
        name: data for name, data in tables(house).items() if name.startswith("outputs/smoke/00")
    }
    shutil.rmtree(house / "outputs" / "smoke")
    for cell in (house / "outputs" / "cells").iterdir():
        if not (cell / "weights").is_dir():  # trained models stay
            shutil.rmtree(cell)
    asked = ["--profile", "smoke", "--only", "00", "--no-book"]
    command = [*COMMAND, *asked]
    process = subprocess.Popen(
        command, cwd=house, env=offline(house), stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline, cells = time.monotonic() + 300, house / "outputs" / "cells"
    while len(done := sorted(cells.glob("*/run.*.parquet"))) < 1 and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    data = bytearray(done[0].read_bytes())
    data[len(data) // 2] ^= 1
    done[0].write_bytes(data)
    said = run(house, *asked)
    assert f"cell {done[0].parent.name} is damaged" in said
    assert tables(house) == before
    assert not list((house / "outputs" / "cells" / "building").iterdir())


def test_every_notebook_runs_on_a_plain_beir_folder_and_escapes_its_name(tmp_path, root):
    """300 passages, 240 training and 60 test queries, and no parameter but the collection."""
    house, draw = copied(tmp_path, root), np.random.default_rng(3)
    folder = house / "<img src=x onerror=alert(1)>"
    (folder / "qrels").mkdir(parents=True)
    animals = [
        "".join(draw.choice(["ba", "do", "ki", "lu", "me", "no", "ra", "te"], 4))
        for _ in range(100)
    ]
    facts = [
        ("lives in the forest", "who saw the {} in the forest"),
        ("eats grass", "how does the {} eat grass"),
    ]
    facts += [("weighs a ton", "what does the {} weigh")]
    passages, queries, judged = [], [], {"train": [], "test": []}
    for place, (animal, (fact, question)) in enumerate(
        (animal, pair) for animal in animals for pair in facts
    ):
        passages.append(
            {"_id": f"d{place}", "text": f"The {animal} {fact}; many a {animal} was seen."}
        )
        queries.append({"_id": f"q{place}", "text": question.format(animal)})
        judged["test" if place % 5 == 0 else "train"].append(f"q{place}\td{place}\t1\n")
    for name, rows in (("corpus", passages), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for split, lines in judged.items():
        (folder / "qrels" / f"{split}.tsv").write_text(
            "query-id\tcorpus-id\tscore\n" + "".join(lines)
        )
    asked = ["--profile", "smoke", "--name", "plain", "-p", f"collection=beir:{folder}"]
    run(house, *asked, "--no-book")
    for name in names(house):
        found = outputs(house, "plain", name)
        errors = [o["text"] for o in found if o.get("name") == "stderr"]
        lines = "".join("".join(text) for text in errors).splitlines()
        # 240, of which 14 train
        assert all(re.match("few .*queries", line) for line in lines), name
        pages = ["".join(o.get("data", {}).get("text/html", "")) for o in found]
        assert "<img src=x onerror" not in "".join(pages), name
    run(house, *asked, "--only", "00")
    for page in ("00_start_here", "index"):
        made = (house / "outputs" / "plain" / f"{page}.html").read_text()
        assert "<img src=x onerror" not in made, page

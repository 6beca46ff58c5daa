"""The Snakefile plans the same cells as the command line; every command of README and its pages
works as printed.
"""

import importlib.util
import itertools
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import interextra
from interextra.cli import main, parser
from interextra.site.parameters import kind_of, read_yaml

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "RESULTS.md",
    *(f"book/{name}.md" for name in ("reproducing", "cluster")),
)
PAGES += ("book/own_retriever.md", "book/teaching.md")
# What stands for placeholders of these pages, and the notebook that has the parameter.
PARAMETERS = {
    "collection=beir:/path": ("00", ["collection=beir:tiny", "test_splits=[test]"]),
    "collection=beir:PATH": ("00", ["collection=beir:tiny", "test_splits=[test]"]),
    "collection=irds:ID": ("00", ["collection=irds:msmarco-passage", "test_splits=[dev]"]),
    "collection=mini:seed=7": ("00", []),
    'shifts=[{shift: "python:interextra.world.truth:kind_of_question", name: mine}]': ("04", []),
    "negative_passages=unexposed": ("02", []),
    "results=PATH": ("08", ["results=scores.csv"]),
}
MENTIONED = [["audit"], ["split"], ["regimes"], ["probe"], ["probe", "--merge"], ["finished"]]
PROGRAMS = ("make", "interextra", "papermill", "snakemake", "conda")


def commands_of(text):
    """The words of every command of a page, in its blocks, after a prompt, and in its sentences."""
    blocks = [
        block for language, block in re.findall(r"(?ms)^```(.*?)\n(.*?)^```$", text) if not language
    ]
    prompted = re.findall(r"(?m)^\$ (.*)$", text)
    inline = re.findall(r"`([^`]+)`", re.sub(r"(?ms)^```.*?^```$", "", text))
    found = [code.replace("\n", " ") for code in inline]
    for line in ["\n".join(blocks), *prompted, *found]:
        for command in itertools.chain(*(part.split("&&") for part in line.splitlines())):
            try:
                words = shlex.split(command, comments=True)
            except ValueError:  # an apostrophe: no command
                continue
            while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                words = words[1:]
            if len(words) > 1 and (
                words[0].startswith((".venv/bin/", "python3", "-p")) or words[0] in PROGRAMS
            ):
                yield words


def printed():
    """The words of every command of the pages, each once."""
    found = [
        words for page in PAGES for words in commands_of((ROOT / page).read_text(encoding="utf-8"))
    ]
    return list({" ".join(words).removeprefix(".venv/bin/"): words for words in found}.values())


PRINTED = printed()


def of(*programs):
    return [words for words in PRINTED if words[0].removeprefix(".venv/bin/") in programs]


def test_commands_of_the_pages_are_found():
    assert {words[0].removeprefix(".venv/bin/") for words in PRINTED} == {
        *(
            "interextra",
            "make",
            "papermill",
            "snakemake",
            "pip",
            "python",
            "python3",
            "conda",
            "jupyter",
            "-p",
        )
    }
    commands = {"run", "status", "plan", "cell", "clean", "evaluate", "audit", "split", "regimes"}
    commands |= {"probe", "curve", "finished", "export", "class", "fetch"}
    assert {words[1] for words in of("interextra")} == commands
    assert {words[1] for words in of("-p")} == PARAMETERS.keys()
    assert sum(words[0].startswith("-p") for words in PRINTED) == len(PARAMETERS)


@pytest.mark.parametrize("words", of("interextra"), ids=" ".join)
def test_interextra_takes_its_commands_as_printed(house, capsys, words):
    arguments = words[1:]
    if arguments in MENTIONED:
        arguments.append(
            "--help"
        )  # the command exists; a sentence that names it needs none of its options
        with pytest.raises(SystemExit, match="^0$"):
            parser().parse_args(arguments)
        return
    parser().parse_args(arguments)
    (house / "outputs").mkdir()
    (house / "outputs" / "reference").symlink_to(
        ROOT / "outputs" / "reference"
    )  # for --from-reference
    if arguments[0] in ("run", "plan"):
        if "--only" not in arguments:
            arguments += ["--only", "03" if "real" in arguments else "00"]
        assert main(["plan", *arguments[1:]]) == 0
        said = capsys.readouterr().out
        assert ("submit.sh" if "--sbatch" in arguments else "to_compute") in said


@pytest.mark.parametrize("words", of("-p"), ids=" ".join)
def test_parameters_as_printed_are_planned(house, tiny, capsys, words):
    scores = [f"{model},0.4,0.5,0.6" for model in "abcd"]
    (house / "scores.csv").write_text(
        "\n".join(["model,msmarco_dev_ndcg10,fiqa,nfcorpus", *scores])
    )
    only, others = PARAMETERS[words[1]]
    given = [word for value in others or words[1:] for word in ("-p", value)]
    assert main(["plan", "--only", only, *given]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("words", of("papermill"), ids=" ".join)
def test_papermill_is_given_a_notebook_its_parameters_and_files_that_are_there(root, words):
    notebook, written_to, flag, value, *more = words[1:]
    declared = kind_of(root / notebook).model_fields
    assert written_to == "out.ipynb" and len(more) == (flag == "-p")
    if flag == "-p":
        assert value in declared
        return
    given = read_yaml(root / value) if flag == "-f" else yaml.safe_load(value)
    assert given and given.keys() <= declared.keys()
    assert flag == "-y" or (given["profile"], Path(notebook).stem) == (
        Path(value).parent.name,
        Path(value).stem,
    )


@pytest.mark.parametrize("words", of("make"), ids=" ".join)
def test_make_has_its_targets(root, words):
    done = subprocess.run(["make", "-n", *words[1:]], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("words", of("python", "python3", "pip", "conda"), ids=" ".join)
def test_what_other_programs_are_given_is_there(root, words):
    named = [
        after
        for flag, after in zip(words, words[1:], strict=False)
        if flag in ("-r", "-f", "-e", "-m")
    ]
    assert named, words
    for name in named:
        assert (root / name).exists() or importlib.util.find_spec(name), name


def snakemake(house, *arguments):
    """A dry run by the program of this environment, which is not on the PATH.

    Of a profile only what is no matter of its executor, which is another package.
    """
    shutil.copy(ROOT / "Snakefile", house)
    for path in (ROOT / "profiles").glob("*/config.yaml"):
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
        of_executor = ("slurm-", "kubernetes-", "container-", "executor", "default-storage")
        ours = {key: value for key, value in values.items() if not key.startswith(of_executor)}
        copied = house / "profiles" / path.parent.name / path.name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(yaml.safe_dump(ours))
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(house),
        "INTEREXTRA_CACHE": str(house / "cache"),
    }
    environment["PYTHONPATH"] = str(Path(interextra.__file__).parents[1])
    command = [f"{sys.prefix}/bin/snakemake", *arguments, "-n"]
    return subprocess.run(
        command, cwd=house, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize("words", of("snakemake"), ids=" ".join)
def test_snakemake_plans_every_cell_and_the_notebooks_as_printed(house, capsys, words):
    if "--unlock" in words:  # of a folder that Snakemake has worked in
        return
    given = words[1:] if "--config" in words else [*words[1:], "--config"]
    done = snakemake(house, *given, "only=00")
    said = done.stdout + done.stderr
    profile = re.search("profile=([a-z]+)|$", " ".join(given))[1] or "mini"
    if profile == "msmarco":  # which has to be fetched first
        assert done.returncode and "interextra fetch --profile msmarco --only 00" in said
        return
    assert done.returncode == 0, said
    assert main(["plan", "--only", "00", "--profile", profile, "--json"]) == 0
    planned = json.loads(capsys.readouterr().out)
    blocks = done.stdout.split("rule cells:")[1:]
    assert len(blocks) == len(planned["jobs"])
    for job in planned["jobs"]:
        [block] = [block for block in blocks if f"job={job['name']}" in block]
        asked = dict(re.findall(r"(\w+)=(\d+)", block.split("resources:")[1].splitlines()[0]))
        assert int(asked["mem_mb"]) == job["mem_mb"] + 800  # of Snakemake itself
        assert int(asked["runtime"]) == job["minutes"]
        assert int(asked["gpu"]) == job["gpus"]
    assert done.stdout.count("rule notebooks:") == 1
    [notebook] = planned["notebooks"]
    computed = [key for job in planned["jobs"] for key in job["keys"]]
    assert sorted(computed) == sorted(cell["key"] for cell in notebook["cells"][:-1])


@pytest.mark.parametrize("name", ["slurm", "slurm-no-accounting", "kubernetes"])
def test_profiles_have_keys_that_snakemake_knows(name):
    values = yaml.safe_load((ROOT / "profiles" / name / "config.yaml").read_text(encoding="utf-8"))
    said = subprocess.run(
        [f"{sys.prefix}/bin/snakemake", "--help"], capture_output=True, text=True
    ).stdout
    for key in values:
        assert f"--{key}" in said or key.startswith(("slurm-", "kubernetes-", "container-image"))
    assert values["executor"] == name.partition("-")[0] and values["retries"] > 0

"""What --json prints has the keys and types that the page for scripts lists, and no others."""

from pathlib import Path

import pytest
import yaml
from toy_json import check, documented
from toy_own import written

from interextra.cli import main
from interextra.own.commands import SCHEMAS
from interextra.own.split_folder import SplitFolder


def test_every_command_with_json_is_on_the_page_with_its_version(root):
    described = yaml.safe_load((root / "lib/interextra/commands.yaml").read_text())
    with_json = {name for name, options in described.items() if "--json" in options}
    assert set(SCHEMAS) == with_json - {"probe"} | {"prices"}
    assert set(documented(root)) == {f"interextra.{name}/{SCHEMAS[name]}" for name in SCHEMAS}


@pytest.fixture
def folds(spec, store):
    written(spec, store, "restrain", "folds", size=12)
    return SplitFolder.open(Path("folds"))


def write_run(path, query_ids, is_first):
    """A TREC run in which the passage of a query is first, or second."""
    lines = []
    for at, query_id in enumerate(query_ids):
        score = 2 if is_first(at) else 0.5
        other = "p-sky-aurora-0" if query_id != "sky-aurora-0" else "p-sky-aurora-1"
        lines.append(f"{query_id} Q0 p-{query_id} 1 {score} t\n{query_id} Q0 {other} 2 1 t\n")
    path.write_text("".join(lines))


def test_audit(spec, root, capsys):
    assert main(["audit", "--train", f"{spec}@train", "--test", f"{spec}@test", "--json"]) == 0
    found = check(capsys.readouterr().out, root)
    assert found["shares"][-1]["of"] == 24


def test_split(spec, root, capsys):
    options = ["--collection", spec, "--out", "folds", "--size", "12", "--other-encoder", "tf-idf"]
    assert main(["split", "restrain", *options, "--json"]) == 0
    found = check(capsys.readouterr().out, root)
    assert found["sets"]["interpolation-12"] == {"queries": 12, "pairs": 12}
    assert all(Path(name).is_file() for name in found["files"])


def test_regimes(folds, root, capsys):
    ids = folds.queries["query_id"]
    for number, name in enumerate(
        ["base.run", *(f"{name}.{s}.run" for name in folds.sets for s in "12")]
    ):
        write_run(Path(name), ids, lambda at, number=number: (at + number) % 4)
    options = ["--split", "folds", "--runs", "{part}.{seed}.run", "--n-boot", "100", "--json"]
    assert main(["regimes", *options, "--baseline", "base.run"]) == 0
    out, error = capsys.readouterr()
    found = check(out, root)
    steps = [line for line in error.splitlines() if line.endswith(" …")]
    assert [line.split()[0] for line in steps] == ["Finding", "Measuring", "Bootstrap", "Writing"]
    assert [claim["claim"] for claim in found["claims"]] == ["loss", "lead"]
    assert found["gains"] == found["kept"] == [] and found["margin"] == 0.05
    lines = Path("folds/training.tsv").read_text().splitlines()
    training_ids = [line.partition("\t")[0] for line in lines]
    write_run(Path("given.run"), [*ids, *training_ids], lambda at: at % 5)
    assert main(["regimes", *options, "--baseline", "base.run", "--given", "given.run"]) == 0
    found = check(capsys.readouterr().out, root)
    assert [row["regime"] for row in found["gains"]] == ["interpolation", "extrapolation"]
    assert len(found["kept"]) == 1


def test_finished(folds, spec, root, capsys):
    write_run(Path("model.run"), folds.queries["query_id"], lambda at: at % 4)
    write_run(Path("other.run"), folds.queries["query_id"], lambda at: at % 3)
    options = ["--train", f"{spec}@train", "--test", f"{spec}@test", "--runs", "model.run"]
    options += ["--rivals", "other.run", "--encoder", "lsa", "--n-boot", "100"]
    assert main(["finished", *options, "--json"]) == 0
    found = check(capsys.readouterr().out, root)
    assert [row["rival"] for row in found["differences"]] == ["other"]


def test_curve(folds, root, capsys):
    ids = folds.queries["query_id"]
    write_run(Path("base.run"), ids, lambda at: at % 5)
    names = [f"{name}.{size}.{seed}" for name in folds.sets for size in (3, 6) for seed in "12"]
    for number, name in enumerate(names):
        write_run(Path(f"{name}.run"), ids, lambda at, number=number: (at + number) % 4)
    options = ["--split", "folds", "--runs", "{part}.{size}.{seed}.run", "--n-boot", "100"]
    assert main(["curve", *options, "--baseline", "base.run", "--json"]) == 0
    found = check(capsys.readouterr().out, root)
    assert {row["size"] for row in found["curve"]} == {3, 6}


def test_evaluate(folds, root, capsys):
    write_run(Path("a.run"), folds.queries["query_id"], lambda at: at % 2)
    options = [
        "--qrels",
        "folds/test.qrels",
        "--run",
        "a.run",
        "-m",
        "RR@10",
        "Success@5",
        "--json",
    ]
    assert main(["evaluate", *options]) == 0
    found = check(capsys.readouterr().out, root)
    assert found["means"] == {"RR@10": 0.75, "Success@5": 1} and "queries" not in found
    assert main(["evaluate", *options, "--per-query"]) == 0
    found = check(capsys.readouterr().out, root)
    assert len(found["queries"]) == found["n_queries"] == 24


@pytest.mark.parametrize("command", ["plan", "status"])
def test_plan_and_status(house, tiny, root, capsys, command):
    options = ["--only", "00", "--profile", "smoke", "-p", f"collection=beir:{tiny}"]
    options += ["-p", "test_splits=[test]"]
    assert main([command, "--json", *options]) == 0
    found = check(capsys.readouterr().out, root)
    assert len(found["notebooks"]) == 1

"""The command line: each mistake is one clear message and exit code 2, and nothing is written."""

import errno
import json
import re
import subprocess
import sys

import pytest
from toy_cells import Toy

from interextra.cli import COMMANDS, main
from interextra.data.queries import Queries, Source
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.session import Session
from interextra.splits.shift import Shift
from interextra.store.folders import Store
from tools.structure import damaged_results


def refused(capsys, *arguments):
    """Exit code 2 and one line on standard error, which is returned."""
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("interextra: ")
    return lines[0]


def results(house):
    """Whatever could be taken for a result."""
    return [
        p
        for p in (house / "outputs").rglob("*")
        if p.is_file() and p.parent.name not in ("planned", "locks")
    ]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_prints_its_help(command, capsys):
    with pytest.raises(SystemExit, match="^0$"):
        main([command, "--help"])
    assert f"interextra {command} [-h]" in capsys.readouterr().out


def run_00(tiny, *more):
    given = ["-p", f"collection=beir:{tiny}", "-p", "test_splits=[test]"]
    return ["run", "--profile", "smoke", "--only", "00", *given, *more]


def test_parameter_that_is_no_yaml(house, capsys):
    line = refused(
        capsys,
        "run",
        "--profile",
        "smoke",
        "--only",
        "00",
        "-p",
        "recipes=[bm25, mini-dense{steps: 2}]",
    )
    assert (
        "-p recipes=" in line and "not readable as YAML; put what holds braces into quotes" in line
    )


def test_folder_of_a_collection_may_have_any_name(house, tiny, any_size, capsys):
    for name in ("a #b", "a=1,b c", "{a: b}", "['é']"):
        folder = tiny.rename(tiny.with_name(name))
        given = ["-p", f"collection=beir:{folder}", "-p", "test_splits=[test]", "--all"]
        assert main(["plan", "--profile", "smoke", "--only", "00", *given]) == 0
        assert "run bm25" in capsys.readouterr().out
        assert (
            main(
                [
                    "split",
                    "restrain",
                    "--collection",
                    f"beir:{folder}",
                    "--size",
                    "1",
                    "--out",
                    f"out {name}",
                ]
            )
            == 0
        )
        manifest = json.loads((house / f"out {name}" / "manifest.json").read_text())
        assert manifest["split"]["vectors"]["train"]["source"]["spec"] == f"beir:{folder}"
        tiny = folder


@pytest.mark.parametrize("text", ["a\0b", "a\udcffb"])
def test_text_that_no_file_can_hold_is_one_line(house, capsys, text):
    assert "holds a NUL or bytes that are not UTF-8" in refused(
        capsys, "plan", "-p", f"collection=beir:/{text}"
    )
    assert "holds a NUL" in refused(capsys, "audit", "--train", f"{text}.tsv", "--test", "b")


def test_misspelt_parameter(house, capsys):
    line = refused(capsys, "run", "--profile", "smoke", "--only", "00", "-p", "colection=mini")
    assert "unknown parameter 'colection'" in line and "did you mean 'collection'" in line
    assert not results(house)


def test_misspelt_key_in_a_profile(house, capsys):
    (house / "params" / "smoke" / "00_start_here.yaml").write_text("stpes: 3\n")
    assert "params/smoke/00_start_here.yaml: unknown parameter 'stpes'" in refused(
        capsys, "run", "--profile", "smoke"
    )
    assert not results(house)


def test_qrels_line_with_three_columns(house, tiny, capsys):
    (tiny / "qrels" / "test.tsv").write_text("3 0 c 1\n4 0 d\n")
    line = refused(capsys, *run_00(tiny))
    assert "test.tsv:2" in line
    assert not results(house)


def test_unknown_doc_id(house, tiny, capsys):
    with (tiny / "qrels" / "test.tsv").open("a") as file:
        file.write("4\tzebra\t1\n")
    line = refused(capsys, *run_00(tiny))
    assert "'zebra'" in line and "test.tsv:4" in line
    assert not results(house)


def test_empty_training_split(house, tiny, capsys):
    (tiny / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n")
    assert "train.tsv" in refused(capsys, *run_00(tiny))
    assert not results(house)


def test_missing_training_split(house, tiny, capsys):
    assert "no split 'teach'" in refused(capsys, *run_00(tiny, "-p", "train_split=teach"))
    assert not results(house)


def test_missing_collection(house, capsys, tmp_path):
    line = refused(capsys, *run_00(tmp_path / "nowhere"))
    assert "nowhere" in line
    assert not results(house)


def test_real_data_that_is_not_there(house, capsys, monkeypatch):
    monkeypatch.delenv("INTEREXTRA_DATA", raising=False)
    line = refused(capsys, "run", "--profile", "small", "--only", "02")
    assert "INTEREXTRA_DATA" in line
    assert not results(house)


def test_unknown_profile_and_notebook(house, capsys):
    assert "no profile 'tiny'" in refused(capsys, "run", "--profile", "tiny")
    assert "'99'" in refused(capsys, "run", "--only", "99")


def planned(capsys, tiny, *more):
    assert main(["plan", "--json", *run_00(tiny, *more)[1:]]) == 0
    [notebook] = json.loads(capsys.readouterr().out)["notebooks"]
    return {cell["what"].split(" · ")[0]: cell for cell in notebook["cells"]}


def test_plan_prints_results_and_one_can_be_built_by_its_key(house, tiny, capsys):
    before = planned(capsys, tiny)
    assert before.keys() == {
        f"{kind} {name}" for kind in ("model", "run") for name in ("bm25", "dense")
    } | {"notebook 00_start_here"}
    assert {cell["state"] for cell in before.values()} == {"todo"}
    assert before["run bm25"]["needs"] == [before["model bm25"]["key"]]
    assert main(["cell", before["run bm25"]["key"]]) == 0
    capsys.readouterr()
    after = planned(capsys, tiny)
    assert after["run bm25"]["state"] == "done"
    assert after["run dense"]["state"] == "todo"
    assert not [*damaged_results(Store(house / "outputs" / "cells"))]


def test_plan_is_a_table_a_notebook_and_the_list_is_asked_for(house, capsys):
    assert main(["plan", "--profile", "smoke", "--only", "00,02"]) == 0
    short = capsys.readouterr().out
    assert not re.search(r"\b[0-9a-f]{20}\b", short) and len(short.splitlines()) < 40
    tables = {block.splitlines()[0]: block.splitlines()[1:] for block in short.split("\n\n")}
    for name in ("00_start_here", "02_restrain"):
        head, *rows, total = tables[name]
        assert head.split() == ["results", "to_compute", "device", "seconds", "RAM", "MB", "MB"]
        assert total.startswith("in all")
        n_words = len(["to_compute", "device", "seconds", "RAM", "MB"])
        of_rows = [row.split()[-n_words - 1 :] for row in [*rows, total]]
        counts = [[int(word.replace(",", "")) for word in words[:2]] for words in of_rows]
        assert counts[-1] == [sum(column) for column in zip(*counts[:-1], strict=True)]
        assert {words[2] for words in of_rows} == {"cpu"}
    assert tables["all notebooks"][0].split()[2:6] == ["GPU", "h", "CPU", "h"]
    assert "hours of a GPU" in short and "Speed of a core: one thread of" in short
    assert main(["plan", "--profile", "smoke", "--only", "00,02", "--all"]) == 0
    keys = re.findall(r"\b[0-9a-f]{20}\b", capsys.readouterr().out)
    assert len(keys) == int(tables["all notebooks"][-1].split()[2])


def test_notebook_prices_its_results_as_the_plan_does_finished_ones_too(tmp_path, capsys):
    (tmp_path / "params").mkdir()
    session = Session("00_it", NotebookParameters(), tmp_path, "why?")
    session.store.build(Toy(n=1))
    table = session.cost([Toy(n=1), Toy(n=2)]).data
    assert "2 results; 1 of them need about 1 s" in capsys.readouterr().out
    assert table.values.tolist() == [["Toy", 2, 2, 0], ["in all", 2, 2, 0]]


def test_plan_at_paper_scale_prices_downloads_time_and_disk_before_anything_starts(house, capsys):
    options = ["plan", "--profile", "msmarco", "--only", "08", "-p", "trained_sizes=[14000,200000]"]
    said = {}
    for name, more in {
        "": ["--gpus", "8", "--cores", "32", "--price", "2.5"],
        "sample": ["--sample", "100000"],
        "a100": ["--gpu", "a100"],
    }.items():
        assert main([*options, *more]) == 0
        said[name] = capsys.readouterr()
    err = said[""].err
    n_collections, n_models = 26, 6
    assert f"{n_collections + n_models} collections and models are not here" in err
    command = "interextra fetch --profile msmarco --only 08 -p 'trained_sizes=[14000,200000]'"
    assert f"then plan again: `{command}`" in err and err.count("\n") == 1
    hours = {name: number_after("To compute: ", each.out) for name, each in said.items()}
    assert hours[""] > 100 and hours["a100"] > 2 * hours[""] > 2.2 * hours["sample"]
    out = said[""].out
    assert f"At 2.5 a GPU hour it costs {2.5 * hours['']:,.0f}."[:-4] in out
    assert "With 8 GPU and 32 cores at once everything takes " in out
    assert number_after("Disk: ", out) > 20 and number_after("Disk besides: about ", out) > 10
    assert "longest chain" in out and "measured on an NVIDIA H100" in out
    assert "100,000 at random" in said["sample"].out and "derived" in said["a100"].out
    assert not results(house)


def number_after(words, text):
    return float(text.split(words)[1].split()[0].replace(",", ""))


def test_plan_that_cannot_be_carried_out_is_not_written_for_slurm(house, tiny, capsys):
    line = refused_last(capsys, "plan", "--profile", "msmarco", "--only", "00", "--sbatch", "jobs")
    assert "this plan can only be priced" in line and not (house / "jobs").exists()
    assert main(["plan", *run_00(tiny, "--sbatch", "jobs")[1:]]) == 0
    assert "4 results in 2 jobs: bash jobs/submit.sh" in capsys.readouterr().out
    assert f"collection=beir:{tiny}" in (house / "jobs" / "notebooks.sh").read_text()


def refused_last(capsys, *arguments):
    """Exit code 2, and the last line on standard error, which is returned."""
    assert main(list(arguments)) == 2
    return capsys.readouterr().err.strip().splitlines()[-1]


def test_recipes_are_known_by_their_architecture_not_by_their_place(house, tiny, capsys):
    ways = [
        planned(capsys, tiny, "-p", f"recipes={names}")
        for names in ("[bm25, mini-dense]", "[mini-dense, bm25]")
    ]
    assert ways[0]["run dense"]["key"] == ways[1]["run dense"]["key"]
    line = refused(capsys, *run_00(tiny, "-p", "recipes=[mini-dense, small-dense]"))
    assert "'DR (base)' stands twice; give one of them another label" in line


def test_check_finds_a_damaged_result(house, tiny, capsys):
    key = planned(capsys, tiny)["run bm25"]["key"]
    assert main(["cell", key]) == 0
    [path] = (house / "outputs" / "cells" / key).glob("run.*.parquet")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    Store._valid.clear()
    capsys.readouterr()
    assert [*damaged_results(Store(house / "outputs" / "cells"))] == [
        f"{key}: {path.name} was changed"
    ]


def test_changed_parameters_never_replace_the_profile_s_results(house, tiny, capsys):
    line = refused(capsys, *run_00(tiny, "--name", "smoke"))
    assert "--name smoke" in line and not results(house)


@pytest.mark.parametrize("name", [".", "..", "verify-smoke", "mini"])
def test_name_never_reaches_beyond_its_folder(house, capsys, monkeypatch, name):
    """`--name ..` replaced a folder of the project that is called like the notebook."""
    monkeypatch.setattr("interextra.cli.build_all", lambda *_: pytest.fail("begins to run"))
    line = refused(capsys, "run", "--profile", "smoke", "--only", "00", "--name", name)
    assert f"--name {name}" in line.replace("'", "") and not results(house)


@pytest.mark.parametrize("profile", ["smoke", "worlds"])
def test_reference_without_values_is_one_line_before_anything_is_executed(
    house, capsys, monkeypatch, profile
):
    monkeypatch.setattr("interextra.cli.build_all", lambda *_: pytest.fail("begins to run"))
    line = refused(capsys, "run", "--from-reference", "--profile", profile, "--only", "02,03")
    assert (
        f"outputs/reference/{profile} has no values of '02_restrain', '03_resttest': run without"
        in line
    )
    assert not results(house)


@pytest.mark.parametrize("command", [["run", "--profile", "smoke", "--name"], ["cell"], ["export"]])
def test_a_name_that_no_file_system_takes_is_one_line(house, capsys, command):
    given = [*command, "a" * 300, *["out"] * (command == ["export"])]
    assert "no cell" in (line := refused(capsys, *given)) or "give at most 200" in line
    assert len(line) < 600 and not results(house)


def test_worlds_has_some_of_the_notebooks_and_no_parameter_of_its_own(house, capsys):
    assert "the profile worlds has 02_restrain" in refused(
        capsys, "plan", "--profile", "worlds", "--only", "00"
    )
    assert "places of its own" in refused(
        capsys, "plan", "--profile", "worlds", "--only", "02", "-p", "seed=2"
    )


@pytest.mark.parametrize(("place", "link"), [("cache", False), ("cache", True), ("outputs", False)])
def test_what_stands_in_the_place_of_a_folder_is_one_line(
    house, tiny, capsys, monkeypatch, place, link
):
    monkeypatch.setenv("INTEREXTRA_CACHE", str(house / "cache"))
    (house / place).symlink_to(house / "gone" / "away") if link else (house / place).touch()
    line = refused(capsys, "plan", *run_00(tiny)[1:])
    assert str(house / place) in line and "move away what stands there" in line


@pytest.mark.parametrize("link", [False, True])
def test_result_that_is_a_file_or_a_broken_link_is_one_line(house, tiny, capsys, link):
    key = planned(capsys, tiny)["model bm25"]["key"]
    path = house / "outputs" / "cells" / key
    path.symlink_to(house / "gone" / "away") if link else path.touch()
    assert key in refused(capsys, "cell", key)


def test_full_disk_is_one_line(house, tiny, tmp_path):
    """A limit of 1 kB a file is refused by the system like a full disk, in the middle of
    writing.
    """
    script = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    script += "import sys; from interextra.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "plan", *run_00(tiny)[1:]]
    done = subprocess.run(command, cwd=house, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    [line] = done.stderr.strip().splitlines()
    assert line.startswith("interextra: outputs/ or ") and "File too large; make room" in line


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        RuntimeError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),  # of safetensors
        OSError("4096 requested and 12 written"),  # of numpy
    ],
)
def test_full_disk_as_libraries_report_it(house, capsys, monkeypatch, error):
    def full(store):
        raise error

    monkeypatch.setattr(Store, "planned", full)
    assert "No space left on device; make room" in refused(capsys, "clean")


@pytest.mark.parametrize(
    "error", [OSError("a fault of a library"), KeyError("x"), ConnectionResetError(104, "reset")]
)
def test_error_of_the_code_keeps_its_traceback(house, monkeypatch, error):
    def broken(store):
        raise error

    monkeypatch.setattr(Store, "planned", broken)
    with pytest.raises(type(error)):
        main(["clean"])


def test_profile_cannot_be_a_path(house, capsys, tmp_path):
    precious = tmp_path / "elsewhere" / "00_start_here"
    precious.mkdir(parents=True)
    (precious / "mine.txt").write_text("mine")
    assert "no profile" in refused(
        capsys, "run", "--profile", str(tmp_path / "elsewhere"), "--only", "00"
    )
    assert (precious / "mine.txt").read_text() == "mine"


def test_run_and_split_are_exported(house, tiny, capsys):
    key = planned(capsys, tiny)["run bm25"]["key"]
    assert main(["cell", key]) == 0 and main(["export", key, "out"]) == 0
    lines = (house / "out" / "test.trec").read_text().splitlines()
    assert lines[0].split()[0] == "3" and len(lines[0].split()) == 6
    assert main(["export", key, "described", "--metadata"]) == 0
    described = (house / "described" / "test.trec").read_text().splitlines()
    assert described[0] == "# ir_metadata.start"
    assert [line for line in described if not line.startswith("#")] == lines
    assert main(["export", "0" * 20, "out"]) == 2


@pytest.mark.parametrize("label", ["x/../../../gone", "/../gone"])
def test_label_of_a_split_never_leads_out_of_the_folder(house, capsys, monkeypatch, label):
    (house / "labels.py").write_text(
        f"def label(query):\n    return {label!r} if int(query['query_id']) % 2 else 'other'"
    )
    monkeypatch.syspath_prepend(house)
    sys.modules.pop("labels", None)
    pool = Queries(source=Source.of("mini:n_train=400,n_dev=40"), split="dev")
    split, store = (
        Shift(pool=pool, by="python:labels:label", n_test=5),
        Store(house / "outputs" / "cells"),
    )
    store.build(split)
    before = sorted(house.rglob("*"))
    assert f"label 'without-{label}'" in refused(capsys, "export", split.key, "deep/down/out")
    assert sorted(house.rglob("*")) == before


def test_shift_is_exported_with_its_test_queries(house, capsys):
    pool = Queries(source=Source.of("mini:n_train=400,n_dev=40"), split="dev")
    split, store = Shift(pool=pool, by="wh-words", n_test=2), Store(house / "outputs" / "cells")
    store.build(split)
    assert main(["export", split.key, "out"]) == 0
    written = capsys.readouterr().out.split()
    assert all((house / path).is_file() for path in written)
    assert {f"out/EVAL/qrel/qrel_{name}.json" for name in split.names} < set(written)
    assert {f"out/without-{name}.train-qrel.txt" for name in split.names} < set(written)


def test_evaluate_prints_measures_of_any_run_file(house, capsys):
    (house / "q.txt").write_text("1 0 a 2\n1 0 b 0\n2 0 c 1\n")
    (house / "r.txt").write_text("1 Q0 b 1 9 t\n1 Q0 a 2 8 t\n")
    base = [
        "evaluate",
        "--qrels",
        "q.txt",
        "--run",
        "r.txt",
        "-m",
        "RR@10",
        "R(rel=2)@100",
        "ASL@100",
    ]
    assert main(base) == 0
    assert capsys.readouterr().out == "RR@10\t0.2500\nR(rel=2)@100\t0.5000\nASL@100\t50.5000\n"
    assert main([*base, "--per-query"]) == 0
    assert "1\tASL@100\t1.0000\n" in capsys.readouterr().out


def test_evaluate_prints_what_unjudged_passages_leave_open(house, capsys):
    """Of one query: the first passage is unjudged, the second has the highest grade."""
    (house / "q.txt").write_text("1 0 a 2\n")
    (house / "r.txt").write_text("1 Q0 x 1 9 t\n1 Q0 a 2 8 t\n")
    assert (
        main(["evaluate", "--qrels", "q.txt", "--run", "r.txt", "-m", "nDCG@10", "--pool-range"])
        == 0
    )
    printed = capsys.readouterr()
    found = dict(line.split("\t") for line in printed.out.splitlines())
    assert found["nDCG@10"] == found["nDCG@10 least"] == "0.6309"
    assert found["nDCG@10 condensed"] == found["nDCG@10 most"] == "1.0000"
    assert 0.6309 < float(found["nDCG@10 bootstrapped"]) <= 1
    assert (
        found["RBP(p=0.8)"] == "0.1600" and found["RBP(p=0.8) residual"] == "0.8400"
    )  # 0.2 · 0.8, and all other ranks
    assert found["Judged@10"] == "0.5000" and "Judged@10" not in printed.err
    assert "1 of 1 queries have no passage that is judged irrelevant" in printed.err
    (house / "q.txt").write_text("1 0 a 2\n1 0 b 0\n")
    (house / "r.txt").write_text("1 Q0 x 1 9 t\n1 Q0 y 2 8 t\n1 Q0 a 3 7 t\n")
    scored = ["evaluate", "--qrels", "q.txt", "--run", "r.txt", "--pool-range", "-m"]
    assert main([*scored, "Judged@10", "nDCG@10"]) == 0
    printed = capsys.readouterr()
    assert "Judged@10 is 0.33: 67 %" in printed.err and "irrelevant" not in printed.err
    assert printed.out.count("Judged@10\t") == 1


def test_evaluate_asks_for_the_measure_that_is_meant(house, capsys):
    for name, meant in (("ndcg@10", "nDCG"), ("MRR@10", "RR"), ("hits@1", "Success")):
        assert main(["evaluate", "--qrels", "no", "--run", "no", "-m", name]) == 2
        assert f"'{name}' (do you mean {meant}@k?)" in capsys.readouterr().err
    assert main(["evaluate", "--qrels", "no", "--run", "no", "-m", "R"]) == 2
    assert "do you mean" not in capsys.readouterr().err


def test_evaluate_names_the_bad_line(house, capsys):
    (house / "q.txt").write_text("1 0 a 2\n1 0 b\n")
    (house / "r.txt").write_text("1 Q0 b 1 9 t\n")
    assert "q.txt:2" in refused(
        capsys, "evaluate", "--qrels", "q.txt", "--run", "r.txt", "-m", "RR@10"
    )


def test_help_is_quick_and_loads_no_model_library():
    script = "import sys; from interextra.cli import parser; parser(); print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"torch", "transformers", "jnius", "pandas", "papermill"} & set(loaded)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("initialisation: /nothere", "initialisation '/nothere': no such folder"),
        ("initialisation: ~/nothere", "initialisation '~/nothere': no such folder"),
        ("initialisation: 'no model'", "initialisation 'no model': none of 'tiny-base', 'random'"),
        ("initialisation: 'minilm:layers=9'", "write minilm or minilm:layers=N with N from 1 to 6"),
        ("learning_rate: .inf", "learning_rate = inf"),
        ("learning_rate: .nan", "learning_rate = nan"),
        ("learning_rate: -1", "learning_rate = -1"),
        ("temperature: .inf", "temperature = inf"),
        ("steps: 1000000000000000000000", "steps = 1000000000000000000000"),
        ("after: nothere, negatives: mined", "no recipe 'nothere'"),
        ("passage_length: 400", "tiny-base reads at most 128 tokens"),
    ],
)
def test_recipe_that_cannot_be_trained_is_refused_when_it_is_planned(
    house, tiny, capsys, values, message
):
    _, *given = run_00(tiny, "-p", f'recipes=[bm25, "mini-dense{{{values}}}"]')
    assert message in refused(capsys, "plan", *given)
    assert not results(house)

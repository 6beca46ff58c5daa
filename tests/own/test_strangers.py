"""What a folder of somebody else says is data: it is checked, named in one line, and never runs."""

import json
import pickle
import sys
from pathlib import Path

import pytest
from toy_own import written

from interextra.cli import main
from interextra.own import splitting as own
from interextra.own.split_folder import SplitFolder
from interextra.store.errors import InputError
from interextra.store.files import sha256

RULE = "import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n\n\n"
RULE += "def rule(query):\n    return query['topic']\n"


@pytest.fixture
def code(house, monkeypatch):
    """A module that leaves a mark when it is imported; returns the path of the mark."""
    (house / "stranger.py").write_text(RULE)
    monkeypatch.syspath_prepend(house)
    sys.modules.pop("stranger", None)
    yield house / "ran"
    sys.modules.pop("stranger", None)


def change(path, **values):
    """Change values of a manifest, at the top or, `split__NAME`, of its split."""
    manifest = json.loads(path.read_text())
    for name, value in values.items():
        place, _, inner = name.rpartition("__")
        (manifest[place] if place else manifest)[inner] = value
    path.write_text(json.dumps(manifest))


def refused(capsys, *arguments):
    """Exit code 2 and one line of an error, which is returned."""
    assert main(list(arguments)) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert lines[-1].startswith("interextra: ") and "Traceback" not in "".join(lines)
    return lines[-1]


def test_a_split_folder_loads_no_code(spec, store, code, capsys):
    """By its attribute, that of a split inside its vectors, and by the attribute of a user's own
    split in its place.
    """
    split, _ = written(spec, store, "shift", "out", attribute="column:topic")
    asked = ["regimes", "--split", "out", "--runs", "{part}.run"]
    change(Path("out/manifest.json"), split__by="python:stranger:rule")
    assert "--attribute python:stranger:rule" in refused(capsys, *asked)
    written(spec, store, "restrain", "near", size=12)
    inner = json.loads(Path("out/manifest.json").read_text())["split"]
    model = {
        "kind": "interextra.models.model.Model",
        "queries": {"kind": "interextra.data.queries.Part", "of": inner},
    }
    vectors = json.loads(Path("near/manifest.json").read_text())["split"]["vectors"]
    change(Path("near/manifest.json"), split__vectors=vectors | {"model": model})
    assert "--attribute python:stranger:rule" in refused(
        capsys, "regimes", "--split", "near", "--runs", "{part}.run"
    )
    Path("probe").mkdir()
    Path("out").rename("probe/split")
    options = [
        "--protocol",
        "shift",
        "--attribute",
        "column:topic",
        "--collection",
        spec,
        "--seeds",
        "1",
    ]
    assert "is code" in refused(
        capsys, "probe", "-m", "tiny-base", "--recipe", "mini-dense{steps: 1}", *options
    )
    assert not code.exists() and "stranger" not in sys.modules


def test_a_split_by_one_s_own_code_is_opened_where_the_user_names_it(spec, store, code, capsys):
    by_rule = {"attribute": "python:stranger:rule", "clusters": ["sky", "stone"]}
    written(spec, store, "shift", "out", n_test=2, **by_rule)
    assert code.exists()
    with pytest.raises(InputError, match="name it yourself"):
        SplitFolder.open(Path("out"))
    assert SplitFolder.open(Path("out"), "python:stranger:rule").sets == [
        "without-sky",
        "without-stone",
    ]
    was, file = sha256("stranger.py"), Path("stranger.py")
    file.write_text(RULE + "# another one\n")
    asked = [
        "regimes",
        "--split",
        "out",
        "--runs",
        "{part}.run",
        "--attribute",
        "python:stranger:rule",
    ]
    line = refused(capsys, *asked)
    assert (
        was[:12] in line
        and sha256(file)[:12] in line
        and "the code of python:stranger:rule" in line
    )


class Touching:
    """Its pickle leaves a mark when it is read."""

    def __init__(self, mark):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def test_no_file_that_a_command_reads_is_unpickled_or_imported(spec, store, house, code, capsys):
    """A pickle with the name of each file that is read, and the name of a module in each that holds
    text.
    """
    written(spec, store, "restrain", "out", size=12)
    bomb, text = pickle.dumps(Touching(code)), "python:stranger:rule"
    names = ["a.npy", "a.parquet", "a.json", "a.jsonl", "a.csv", "a.run", "a.tsv", "a.qrels"]
    for content in (bomb, text.encode(), json.dumps({"_format_type": text, "kind": text}).encode()):
        for name in names:
            Path(name).write_bytes(content)
            split = [
                "split",
                "restrain",
                "--collection",
                spec,
                "--out",
                "new",
                "--vectors",
                name,
                name,
            ]
            refused(capsys, *split)
            refused(
                capsys,
                "regimes",
                "--split",
                "out",
                "--runs",
                str(house / name).replace("a.", "{part}."),
            )
            refused(capsys, "evaluate", "--qrels", name, "--run", name, "-m", "RR@10")
            refused(capsys, "audit", "--train", name, "--test", name)
            for part in ("interpolation", "extrapolation"):
                Path(f"{part}-12").with_suffix(Path(name).suffix).write_bytes(content)
            refused(capsys, "regimes", "--split", "out", "--runs", f"{{part}}{Path(name).suffix}")
        for name in ("state.json", "dataset_info.json", "data-00000-of-00001.arrow"):
            folder = Path("out/interpolation-12/ids")
            whole = (folder / name).read_bytes()
            (folder / name).write_bytes(content)
            refused(
                capsys, "audit", "--train", f"datasets:{folder}", "--test", f"datasets:{folder}"
            )
            (folder / name).write_bytes(whole)
        for name in ("manifest.json", "test.tsv", "test.qrels", "gate.txt"):
            whole = Path("out", name).read_bytes()
            Path("out", name).write_bytes(content)
            refused(capsys, "regimes", "--split", "out", "--runs", "{part}.run")
            Path("out", name).write_bytes(whole)
    assert not code.exists() and "stranger" not in sys.modules


WRONG = {
    "sets": [{}, [], 5, {"interpolation-12": 3}, {"other-12": {"queries": 1, "pairs": 1}}, None],
    "gate": [5, None, ["dev"], "nothing"],
    "files": [[], {}, None, {"test.tsv": 5}, "sha"],
    "split": [
        {},
        [],
        5,
        {"kind": 5},
        {"kind": "os.system"},
        {"kind": "interextra.splits.restrain.ReSTrain"},
    ],
    "protocol": [5, "ReSTTest"],
    "n_test": ["1", -1],
    "negatives": ["1", 0, None],
    "spare": ["no", 1],
    "format": ["ids", [1], None],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_manifest_of_other_types_is_one_line(spec, store, capsys, name, value):
    written(spec, store, "restrain", "out", size=12)
    change(Path("out/manifest.json"), **{name: value})
    line = refused(capsys, "regimes", "--split", "out", "--runs", "{part}.run")
    assert "out/manifest.json" in line and (name in line or "split" in line)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"split": ' * 600 + "1" + "}" * 600, "[]", "5", '"\\ud83d"', "", "{"]
)
def test_a_manifest_that_is_none_is_one_line(spec, store, capsys, text):
    written(spec, store, "restrain", "out", size=12)
    Path("out/manifest.json").write_text(text)
    assert "manifest.json" in refused(capsys, "regimes", "--split", "out", "--runs", "{part}.run")


def test_files_that_contradict_each_other_are_named(spec, store, capsys):
    """Each with its own valid checksum: only what they hold is wrong."""
    written(spec, store, "shift", "out", attribute="column:topic")
    kept = {path: path.read_text() for path in Path("out").iterdir() if path.is_file()}
    for name, more, told in (
        ("gate.txt", "nobody\n", "gate.txt: 'nobody' is no query of test.tsv"),
        ("test.qrels", "nobody\t0\tp-sky-aurora-0\t1\n", "test.qrels: 'nobody' is no query"),
        ("strata.tsv", "nobody\tsky\n", "strata.tsv: 'nobody' is not in both"),
        ("test.tsv", "nobody\twhat is it\n", "strata.tsv: 'nobody' is not in both"),
    ):
        path = Path("out", name)
        path.write_text(kept[path] + more)
        sums = json.loads(kept[Path("out/manifest.json")])["files"]
        change(Path("out/manifest.json"), files=sums | {name: sha256(path)})
        assert told in refused(capsys, "regimes", "--split", "out", "--runs", "{part}.run")
        for one, text in kept.items():
            one.write_text(text)


def test_an_attribute_that_is_no_function_of_a_file_is_one_line(spec, house, capsys, monkeypatch):
    monkeypatch.syspath_prepend(house)
    (house / "broken_rule.py").write_text("raise KeyError('x')\n")
    (house / "failing_rule.py").write_text("def rule(query):\n    return query['none']\n")
    for rule, told in (
        ("os:system", "no function of a file in Python"),
        ("builtins:len", "no function of a file in Python"),
        ("broken_rule:rule", "KeyError: 'x'"),
        ("failing_rule:rule", "fails for the query"),
        ("no_such_module:rule", "cannot be imported"),
    ):
        line = refused(
            capsys,
            "split",
            "shift",
            "--collection",
            spec,
            "--out",
            "x",
            "--attribute",
            f"python:{rule}",
        )
        assert told in line and rule in line and not own.Path("x").exists()

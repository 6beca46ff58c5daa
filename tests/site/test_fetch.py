"""Fetch, then plan, then run: downloads are verified, go on where they ended, and happen once; what
was planned before them is not carried out after them.

The real code of ir_datasets downloads a miniature of MS MARCO from a server of this test.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import toy_downloads
from toy_json import check

import interextra
from interextra.cli import main, parser
from interextra.models.hub import REVISIONS
from interextra.site import fetch

TESTS = Path(__file__).parents[1]
# Runs commands one after the other in a process, with a hub of its own
SCRIPT = """
import contextlib, io, json, sys
from pathlib import Path
import huggingface_hub
from toy_downloads import Hub
from interextra.cli import main
hub = Hub(Path(sys.argv[1]))
huggingface_hub.snapshot_download = hub.snapshot_download
for arguments in json.loads(sys.argv[2]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue(), hub.downloads]), flush=True)
"""
OPTIONS = ["--profile", "msmarco", "--only", "00"]
PLAN = ["plan", *OPTIONS, "--json"]
FETCH = ["fetch", *OPTIONS]


class Server:
    """Serves files by name, and ends some answers early.

    `behaviour`: of a file, what happens to its next requests: "half" of it is sent, or the
    connection is "closed"; `asked`: what was asked for, in order, with the range.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.behaviour: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.address = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, request) -> None:
        name = request.path.strip("/")
        wanted = request.headers.get("Range", "")
        self.asked.append((name, wanted))
        planned = self.behaviour.get(name, [])
        behaviour = planned.pop(0) if planned else ""
        if behaviour == "closed":
            request.close_connection = True
            return
        content = self.files[name]
        start = int(re.search(r"bytes=(\d+)-", wanted)[1]) if wanted else 0
        content = content[start:]
        request.send_response(206 if wanted else 200)
        request.send_header("Accept-Ranges", "bytes")
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content[: len(content) // 2] if behaviour == "half" else content)


@pytest.fixture(scope="module")
def server():
    found = Server()
    yield found
    found.server.shutdown()


@pytest.fixture(scope="module")
def commands(tmp_path_factory, root, server):
    """Runs commands in a process that knows only the miniatures; returns what each printed."""
    folder = tmp_path_factory.mktemp("fetch")
    stub = toy_downloads.put(folder / "stub", address=server.address)
    server.files |= {path.name: path.read_bytes() for path in stub.served.iterdir()}
    house = folder / "house"
    for name in ("notebooks", "params"):
        shutil.copytree(root / name, house / name)
    library = Path(interextra.__file__).parents[1]
    environment = os.environ | stub.environment | {"no_proxy": "127.0.0.1"}
    environment["PYTHONPATH"] = os.pathsep.join(
        [str(folder / "stub/site"), str(library), str(TESTS)]
    )

    def run(*commands, **variables):
        program = [sys.executable, "-c", SCRIPT, str(folder / "hub"), json.dumps(commands)]
        done = subprocess.run(
            program, cwd=house, env=environment | variables, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    run.stub = stub
    run.cache = Path(stub.environment["INTEREXTRA_CACHE"])
    run.house = house
    run.environment = environment
    return run


@pytest.fixture(scope="module")
def archives(commands):
    """Name in the catalogue → checksum of a file of MS MARCO."""
    catalogue = json.loads((commands.stub.folder / "site/downloads.json").read_text())
    entries = catalogue["msmarco-passage"]
    return {name: entries[name]["expected_md5"] for name in toy_downloads.msmarco_files(1)}


@pytest.fixture(scope="module")
def interrupted(commands, server, archives):
    """A plan and a list before anything is there, and a fetch whose server goes away."""
    server.behaviour[archives["collectionandqueries"]] = ["half", *["closed"] * 9]
    plan, listed, failed = commands(PLAN, [*FETCH, "--check", "--json"], FETCH)
    asked = [name for name, _ in server.asked]
    here = {
        path.name for path in (commands.stub.folder / "ir_datasets").rglob("*") if path.is_file()
    }
    server.behaviour.clear()
    server.asked.clear()
    return {"plan": plan, "list": listed, "fetch": failed, "asked": asked, "here": here}


@pytest.fixture(scope="module")
def fetched(commands, server, archives, interrupted):
    """The same fetch with a server that is there, but breaks off once; then all of it again."""
    server.behaviour[archives["collectionandqueries"]] = ["half"]
    [first] = commands([*FETCH, "--json"])
    asked = list(server.asked)
    server.asked.clear()
    old_key = json.loads(interrupted["plan"][1])["notebooks"][0]["cells"][0]["key"]
    again, plan, old = commands(FETCH, PLAN, ["cell", old_key])
    assert not server.asked, "nothing is loaded twice"
    return {"fetch": first, "asked": asked, "again": again, "plan": plan, "old": old}


def test_a_plan_before_a_fetch_says_what_is_missing_and_the_command(interrupted):
    code, printed, said, _ = interrupted["plan"]
    plan = json.loads(printed)
    command = "interextra fetch --profile msmarco --only 00"
    assert code == 0 and plan["missing"] == ["irds:msmarco-passage", "bert-base-uncased"]
    assert plan["fetch"] == command and said.count("\n") == 1 and command in said
    parser().parse_args(command.split()[1:])


def test_what_is_listed_before_is_what_is_loaded(interrupted, commands, archives, root):
    code, printed, said, _ = interrupted["list"]
    collection, model = check(printed, root)["items"]
    sizes = [(commands.stub.served / checksum).stat().st_size for checksum in archives.values()]
    assert (code, collection["download"]) == (0, sum(sizes))
    assert model["revision"] == REVISIONS["bert-base-uncased"] and not model["is_here"]
    assert "agree to the MSMARCO data usage agreement" in said and str(commands.cache) in said
    assert "https://huggingface.co/bert-base-uncased" in said


def test_an_interrupted_fetch_fails_keeps_what_is_whole_and_goes_on_with_the_rest(
    interrupted, archives
):
    code, _, said, downloads = interrupted["fetch"]
    assert code == 1 and "irds:msmarco-passage: ir_datasets could not deliver it" in said
    assert downloads == [["bert-base-uncased", REVISIONS["bert-base-uncased"]]]
    assert "collectionandqueries.tar.gz" not in interrupted["here"]
    assert not [name for name in interrupted["here"] if ".tmp" in name]


def test_the_next_fetch_asks_for_what_is_missing_alone_and_for_the_rest_of_a_file(
    interrupted, fetched, archives
):
    code, printed, _, downloads = fetched["fetch"]
    assert code == 0 and all(item["is_here"] for item in json.loads(printed)["items"])
    assert not downloads, "the model was there"
    whole = {name for name in interrupted["asked"] if name != archives["collectionandqueries"]}
    names = [name for name, _ in fetched["asked"]]
    assert not whole & set(names), "what was whole is not loaded again"
    ranges = [span for name, span in fetched["asked"] if name == archives["collectionandqueries"]]
    assert ranges[0] == "" and re.fullmatch(r"bytes=[1-9]\d*-", ranges[1]) and len(ranges) == 2


def test_a_second_fetch_loads_nothing(fetched):
    code, printed, said, downloads = fetched["again"]
    assert (code, said, downloads) == (0, "", []) and "2 of 2 are here. 0.00 GB to load" in printed


def test_a_plan_after_a_fetch_has_other_keys_and_old_notes_are_refused(
    interrupted, fetched, commands
):
    code, printed, said, _ = fetched["plan"]
    before, after = json.loads(interrupted["plan"][1]), json.loads(printed)
    assert (code, said, after["missing"], after["fetch"]) == (0, "", [], "")
    [old], [new] = before["notebooks"], after["notebooks"]
    assert len(old["cells"]) == len(new["cells"])
    keys = {row["key"] for row in new["cells"]}
    assert not keys & {row["key"] for row in old["cells"]}
    note = (commands.house / "outputs/cells/planned" / f"{new['cells'][0]['key']}.json").read_text()
    assert re.search(r'"fingerprint": *"[0-9a-f]{64}"', note)
    code, _, said, _ = fetched["old"]
    assert code == 2 and "was not here when this was planned" in said and "then plan again" in said


def test_a_file_with_another_checksum_is_refused(commands, server, archives, fetched, tmp_path):
    checksum = archives["train/qrels"]
    right = server.files[checksum]
    server.files[checksum] = right[:-2] + b"2\n"
    folders = {"IR_DATASETS_HOME": str(tmp_path / "home"), "INTEREXTRA_CACHE": str(tmp_path / "c")}
    try:
        [[code, _, said, _]] = commands(FETCH, **folders)
    finally:
        server.files[checksum] = right
    assert code == 1 and "HashVerificationError" in said
    assert not (tmp_path / "home/msmarco-passage/train/qrels").exists()
    assert not list((tmp_path / "c").rglob("meta.json"))


def test_snakemake_stops_at_once_where_something_is_missing(commands, fetched, root, tmp_path):
    shutil.copy(root / "Snakefile", commands.house)
    folders = {"IR_DATASETS_HOME": str(tmp_path / "home"), "INTEREXTRA_CACHE": str(tmp_path / "c")}
    program = [f"{sys.prefix}/bin/snakemake", "--cores", "1"]
    done = subprocess.run(
        [*program, "--config", "profile=msmarco", "only=00"],
        cwd=commands.house,
        env=commands.environment | folders,
        capture_output=True,
        text=True,
    )
    said = done.stdout + done.stderr
    assert done.returncode and "interextra fetch --profile msmarco --only 00" in said
    assert "rule cell" not in said and not list(
        (commands.house / "outputs/cells").glob("*/seal.json")
    )


def test_what_needs_no_network_says_so(house, capsys):
    assert main(["fetch", "--profile", "smoke", "--only", "00"]) == 0
    assert capsys.readouterr().out == "Nothing of this needs a network.\n"


def test_the_command_of_a_plan_repeats_its_options():
    given = ["plan", "--only", "00", "-p", "collection=irds:vaswani", "-p", "test_splits=[a, b]"]
    command = fetch.command_of(parser().parse_args(given))
    expected = "interextra fetch --profile mini --only 00"
    assert command == f"{expected} -p collection=irds:vaswani -p 'test_splits=[a, b]'"

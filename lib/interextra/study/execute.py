"""Run a notebook with papermill: aside, then renamed; what exists and still fits is taken as it is."""

import hashlib
import json
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import interextra
from interextra.ground.errors import InputError
from interextra.study.cells import canonical, cell_key, file_sha256, seal, seal_problem, write_json
from interextra.study.designs import configs
from interextra.study.params import data_folder


class NotebookError(RuntimeError):
    """A notebook stopped on an error that is not the user's; names the executed copy with the traceback."""


class Executed(NamedTuple):
    """What became of a notebook: `state` is `ran` or `taken`, seconds of wall time."""

    state: str
    seconds: float


def library_hash() -> str:
    """Checksum of the library's own files: a changed library makes every executed notebook out of date."""
    folder = Path(interextra.__file__).parent
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".yaml", ".json", ".txt"):
            total.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()


def data_listing(parameters: dict) -> list:
    """Names, sizes and times of the real data's files, for notebooks that read them beside a collection."""
    if not parameters.get("real_msmarco", parameters.get("real_encoder")):  # 04 and 07 know the encoder only
        return []
    folder = data_folder()
    files = [(path.relative_to(folder).as_posix(), path.stat()) for path in folder.rglob("*") if path.is_file()]
    return sorted([name, stat.st_size, stat.st_mtime_ns] for name, stat in files)


def inputs_of(notebook: Path, parameters: dict) -> str:
    """Checksum of all that decides the notebook's outcome."""
    parts = {
        "notebook": hashlib.sha256(notebook.read_bytes()).hexdigest(),
        "parameters": parameters,
        "library": library_hash(),
        "cells": [cell_key(config) for config in configs(notebook.stem, parameters)],
        "sheets": [file_sha256(Path(path)) for path in parameters.get("sheets", [])],
        "data": data_listing(parameters),
    }
    return hashlib.sha256(canonical(parts).encode()).hexdigest()


def execute(notebook: Path, parameters: dict, output: Path, timeout: int = 7200) -> Executed:
    """Execute one notebook into `output` (executed copy, HTML, tables, figures, metrics, provenance, seal).

    An InputError inside the notebook is raised here as an InputError, and nothing stays of that run. For any other
    failure the executed copy with its traceback is kept beside the output folder as `<name>.failed.ipynb`.
    """
    begin = time.perf_counter()
    inputs = inputs_of(notebook, parameters)
    recorded = output / "inputs.json"
    if seal_problem(output) is None and json.loads(recorded.read_text(encoding="utf-8"))["sha256"] == inputs:
        return Executed("taken", time.perf_counter() - begin)
    for left in output.parent.glob(f".{output.name}.*"):  # of a run that was killed
        if not Path(f"/proc/{left.suffix[1:]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    aside = output.with_name(f".{output.name}.{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        _papermill(notebook, parameters, aside, timeout)
        _html(aside / f"{notebook.stem}.ipynb")
        write_json(aside / "inputs.json", {"sha256": inputs})
        seal(aside)
        shutil.rmtree(output, ignore_errors=True)
        os.replace(aside, output)
    finally:
        failed = aside / f"{notebook.stem}.ipynb"
        if failed.exists():
            os.replace(failed, output.with_name(f"{output.name}.failed.ipynb"))
        shutil.rmtree(aside, ignore_errors=True)
    output.with_name(f"{output.name}.failed.ipynb").unlink(missing_ok=True)
    return Executed("ran", time.perf_counter() - begin)


def _papermill(notebook: Path, parameters: dict, aside: Path, timeout: int) -> None:
    import papermill
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    sockets = tempfile.mkdtemp()  # a short path: a socket's name has at most 107 bytes
    os.environ["INTEREXTRA_OUTPUT"] = str(aside.resolve())
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the kernel of this environment, not one from the user's home
    try:
        papermill.execute_notebook(
            str(notebook),
            str(aside / notebook.name),
            parameters=parameters,
            cwd=str(notebook.parent.parent),  # relative paths in parameters mean the same here and on the command line
            kernel_name="python3",
            progress_bar=False,
            execution_timeout=timeout,
            # sockets of this user instead of open ports; no log lines of the kernel itself
            config=Config(
                KernelManager={"transport": "ipc", "ip": f"{sockets}/k"},
                NotebookClient={"extra_arguments": ["--IPKernelApp.log_level=50"]},
            ),
        )
    except PapermillExecutionError as error:
        if error.ename == "InputError":
            (aside / notebook.name).unlink()
            raise InputError(f"{notebook.stem}: {error.evalue}") from None
        kept = aside.with_name(f"{notebook.stem}.failed.ipynb")
        raise NotebookError(
            f"{notebook.stem}, cell {error.exec_count}: {error.ename}: {error.evalue} (the executed copy with its "
            f"traceback is {os.path.relpath(kept)})"
        ) from None
    finally:
        del os.environ["INTEREXTRA_OUTPUT"]
        shutil.rmtree(sockets, ignore_errors=True)


def _html(executed: Path) -> None:
    from nbconvert import HTMLExporter

    html, _ = HTMLExporter(embed_images=True).from_filename(str(executed))
    executed.with_suffix(".html").write_text(html, encoding="utf-8")

"""An executed notebook as a cell like the others.

It is made from the notebook, its parameters and the cells of its plan.
"""

import json
import logging
import os
import re
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field

from interextra import FRONT
from interextra.claims.claim import of_notebook
from interextra.claims.wording import ANSWERS
from interextra.data.load import data_folder
from interextra.notebooks.parameters import NotebookParameters
from interextra.notebooks.plans import cells_of, plan_of
from interextra.papers.published import FOLDER
from interextra.papers.published_models import located
from interextra.papers.releases import FACTS as RELEASES
from interextra.site.answers import put
from interextra.site.travel import CELLS, REFERENCE, VALUES
from interextra.store import Cell, InputError, Store
from interextra.store.code import used_by
from interextra.store.files import SEAL, digest, sha256
from interextra.store.processor import environment

TIMEOUT = 7200  # seconds that one notebook cell may take


class NotebookError(RuntimeError):
    """A notebook stopped on an error that is not the user's.

    The message names the executed copy with the traceback.
    """


class Notebook(Cell):
    """`NAME.ipynb` executed, `tables/`, `figures/`, `values/`, metrics.json."""

    name: str = Field(pattern=r"^\d\d_\w+$")
    source: str  # SHA-256 of the stored notebook
    parameters: str  # JSON
    uses: tuple[str, ...]  # definitions of this package that its code names
    plan: tuple[Cell, ...]
    # digest of what it reads beside its cells: published tables, annotation sheets, real data
    files: str
    # folder under outputs/reference whose values it is executed from; empty: from its cells
    reference: str = ""

    @classmethod
    def of(cls, path: Path, parameters: NotebookParameters, reference: str = "") -> "Notebook":
        """Return a notebook with its plan, checked before anything is computed."""
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        code_cells = [cell for cell in cells if cell["cell_type"] == "code"]
        source = "\n".join("".join(cell["source"]) for cell in code_cells)
        plan = () if reference else tuple(cells_of(plan_of(path.stem, parameters)))
        return cls(
            name=path.stem,
            source=sha256(path),
            parameters=json.dumps(parameters.model_dump(), sort_keys=True),
            uses=used_by(source, FRONT),
            plan=plan,
            files=_digest_of_files(path, source, parameters, reference),
            reference=reference,
        )

    @property
    def by_place(self) -> dict[str, "Notebook"]:
        """Itself alone, where `worlds.Worlds` has several, by the folder of its values."""
        return {"": self}

    def modules(self) -> tuple[str, ...]:
        """Return also what the notebook's code names."""
        return (*super().modules(), *self.uses)

    def title(self) -> str:
        """Return what a reader calls it."""
        return f"notebook {self.name}"

    def seconds(self) -> float:
        """Estimate the seconds of the execution alone."""
        return 15.0

    def build(self, folder: Path, store: Store) -> None:
        """Execute the notebook into a folder, and put the answer into its page."""
        root = store.root.parent.parent
        notebook = root / "notebooks" / f"{self.name}.ipynb"
        if sha256(notebook) != self.source:
            raise InputError(f"{notebook.name} has changed since it was planned; plan again")
        executed = folder / notebook.name
        variables = {
            "INTEREXTRA_OUTPUT": str(folder.resolve()),
            "INTEREXTRA_REFERENCE": str(root / REFERENCE / self.reference)
            if self.reference
            else "",
            # the kernel of this environment, not one from the user's home
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        with environment(variables):
            self._execute(notebook, executed, root)
        put(executed, root / REFERENCE, json.loads(self.parameters)["profile"])

    def _execute(self, notebook: Path, executed: Path, root: Path) -> None:
        """Execute the notebook from the root, as relative paths in parameters mean it.

        Raises
        ------
        InputError
            The notebook raised one.
        NotebookError
            It raised another error.
        """
        import papermill
        from papermill.exceptions import PapermillExecutionError
        from traitlets.config import Config

        # it does not know the parameters that are not in the notebook's cell
        logging.getLogger("papermill").setLevel("ERROR")
        failed = root / "outputs" / f"{self.name}.failed.ipynb"
        # a short path: a socket's name has at most 107 bytes
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as sockets:
            # sockets of this user instead of open ports; no log lines of the kernel itself
            config = Config(
                KernelManager={"transport": "ipc", "ip": f"{sockets}/k"},
                NotebookClient={"extra_arguments": ["--IPKernelApp.log_level=50"]},
            )
            try:
                papermill.execute_notebook(
                    str(notebook),
                    str(executed),
                    json.loads(self.parameters),
                    cwd=str(root),
                    kernel_name="python3",
                    progress_bar=False,
                    execution_timeout=TIMEOUT,
                    config=config,
                )
            except PapermillExecutionError as error:
                if error.ename == "InputError":
                    raise InputError(f"{self.name}: {error.evalue}") from None
                os.replace(executed, failed)
                raise NotebookError(
                    f"{self.name}, cell {error.exec_count}: {error.ename}: {error.evalue} (the "
                    f"executed copy with its traceback is {os.path.relpath(failed)})"
                ) from None
        failed.unlink(missing_ok=True)


def _digest_of_files(
    notebook: Path, code: str, parameters: NotebookParameters, reference: str
) -> str:
    """Return the digest of all that a notebook reads beside its cells.

    Of the real data it is one of names, sizes and times.
    """
    read = [*_committed_files(notebook, code, parameters, reference)]
    read += getattr(parameters, "sheets", [])
    results = getattr(parameters, "results", "")
    if results:
        read.append(located(results))
    tables = [_content(path) for path in (*sorted(FOLDER.glob("*.yaml")), RELEASES)]
    answers = _content(ANSWERS).get(notebook.stem)
    noted: list[Any] = [str([*tables, answers, of_notebook(notebook.stem)])]
    reads_real_data = getattr(
        parameters, "real_msmarco", bool(getattr(parameters, "real_encoder", ""))
    )
    if reads_real_data:
        noted += _marks_of_files(data_folder())
    return digest([[sha256(path) for path in read], noted])


def _committed_files(
    notebook: Path, code: str, parameters: NotebookParameters, reference: str
) -> list[Path]:
    """Return the files under outputs/reference that a notebook reads.

    They are its tables of other profiles, its figures of small, values of other notebooks that its
    code names, and those that it is executed from.
    """
    root = notebook.parent.parent / REFERENCE
    patterns = [f"small/{notebook.stem}/{part}" for part in ("figures/*", "metrics.json")]
    others = set(re.findall(r"\b\d\d_\w+", code)) - {notebook.stem}
    patterns += [f"small/{other}/{VALUES}/*" for other in others]
    if reference:
        patterns += [f"{reference}/{VALUES}/*", f"{reference}/{CELLS}"]
    files = {path for pattern in patterns for path in root.glob(pattern)}
    for path in root.glob(f"*/{notebook.stem}/tables/*"):
        if path.relative_to(root).parts[0] != parameters.profile:
            files.add(path)
    return sorted(files)


def _marks_of_files(folder: Path) -> list[list]:
    """Return name, size and time of all files below a folder."""
    marks = []
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            marks.append([path.relative_to(folder).as_posix(), stat.st_size, stat.st_mtime_ns])
    return sorted(marks)


@cache
def _content(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def publish(notebook: Cell, store: Store, folder: Path) -> None:
    """Copy a notebook's cell to outputs/<name>/, put there in one step."""
    target, cell = folder / notebook.name, store[notebook]
    is_there = (target / SEAL).is_file() and sha256(target / SEAL) == sha256(cell / SEAL)
    if not is_there:
        aside = folder / f".{notebook.name}.{os.getpid()}"
        shutil.copytree(cell, aside)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(aside, target)

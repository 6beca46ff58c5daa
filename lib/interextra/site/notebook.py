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
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import Field

from interextra import FRONT
from interextra.claims.claim import of_notebook
from interextra.claims.wording import ANSWERS
from interextra.data.load import data_folder
from interextra.models.prices import RANKED_MEGABYTES
from interextra.models.search.run import Ranking
from interextra.notebooks import module_of
from interextra.notebooks.parameters import NotebookParameters
from interextra.notebooks.plans import cells_of, plan_of
from interextra.papers.published import FOLDER
from interextra.papers.published_models import located
from interextra.papers.releases import FACTS as RELEASES
from interextra.site.answers import put
from interextra.site.travel import CELLS, REFERENCE, VALUES
from interextra.store import Cell, InputError, Store
from interextra.store.code import used_by
from interextra.store.files import SEAL, digest, read_json, sha256
from interextra.store.processor import environment

if TYPE_CHECKING:
    from interextra.site.worlds import Worlds

KERNEL_MEGABYTES = 2_500.0  # of memory: two processes, with torch, matplotlib and Java
# Seconds of one core that an execution takes with the profile mini: most notebooks, and the longest
SECONDS = 15.0
LONG = {
    "06_pretraining_study": 28.0,
    "07_indicators": 50.0,
    "11_pool_bias": 37.0,
    "12_your_own_retriever": 58.0,
}
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
        source = _code_of(path)
        plan: tuple[Cell, ...] = ()
        if not reference:
            plan = tuple(cells_of(plan_of(path.stem, parameters)))
        return cls(
            name=path.stem,
            source=sha256(path),
            # in their order: the name of a recipe with options is part of keys
            parameters=json.dumps(parameters.model_dump()),
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

    def memory(self) -> float:
        """Estimate the megabytes of memory at the peak: the kernel, and the largest run twice."""
        rankings = [cell for cell in self.plan if isinstance(cell, Ranking)]
        largest = max((ranking.n_queries() * ranking.depth for ranking in rankings), default=0)
        return KERNEL_MEGABYTES + 2 * RANKED_MEGABYTES * largest

    def seconds(self) -> float:
        """Estimate the seconds of the execution alone."""
        return LONG.get(self.name, SECONDS)

    def build(self, folder: Path, store: Store) -> None:
        """Execute the notebook into a folder, and put the answer into its page."""
        root = store.root.parent.parent
        notebook = root / "notebooks" / f"{self.name}.ipynb"
        if sha256(notebook) != self.source:
            raise InputError(f"{notebook.name} has changed since it was planned; plan again")
        executed = folder / notebook.name
        committed = root / REFERENCE
        variables = {
            "INTEREXTRA_OUTPUT": str(folder.resolve()),
            "INTEREXTRA_REFERENCE": str(committed / self.reference) if self.reference else "",
            # the kernel of this environment, not one from the user's home
            "JUPYTER_PREFER_ENV_PATH": "1",
        }
        parameters = json.loads(self.parameters)
        with environment(variables):
            self._execute(notebook, executed, parameters, root)
        put(executed, committed, parameters["profile"])

    def _execute(
        self, notebook: Path, executed: Path, parameters: dict[str, Any], root: Path
    ) -> None:
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
                    parameters,
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
                where = f"{self.name}, cell {error.exec_count}"
                problem = f"{error.ename}: {error.evalue}"
                raise NotebookError(
                    f"{where}: {problem} (the executed copy with its traceback is "
                    f"{os.path.relpath(failed)})"
                ) from None
        failed.unlink(missing_ok=True)


def _code_of(notebook: Path) -> str:
    """Return the code of all cells of a notebook."""
    cells = read_json(notebook)["cells"]
    code_cells = [cell for cell in cells if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in code_cells]
    return "\n".join(sources)


def _digest_of_files(
    notebook: Path, code: str, parameters: NotebookParameters, reference: str
) -> str:
    """Return the digest of all that a notebook reads beside its cells.

    Of the real data it is one of names, sizes and times.
    """
    files = _committed_files(notebook, code, parameters, reference)
    read_by_module = getattr(module_of(notebook.stem), "files_read", None)
    if read_by_module:
        files += read_by_module(notebook.parents[1] / "outputs", parameters)
    files += getattr(parameters, "sheets", [])
    results = getattr(parameters, "results", "")
    if results:
        files.append(located(results))
    published = [_content(path) for path in sorted(FOLDER.glob("*.yaml"))]
    answer = _content(ANSWERS).get(notebook.stem)
    shown = [*published, _content(RELEASES), answer, of_notebook(notebook.stem)]
    noted: list[Any] = [str(shown)]
    real_encoder = getattr(parameters, "real_encoder", "")
    if getattr(parameters, "real_msmarco", bool(real_encoder)):
        noted += _marks_of_files(data_folder())
    return digest([[sha256(path) for path in files], noted])


def _committed_files(
    notebook: Path, code: str, parameters: NotebookParameters, reference: str
) -> list[Path]:
    """Return the files under outputs/reference that a notebook reads.

    They are its tables of other profiles, its figures of small, values of other notebooks that its
    code names, and those that it is executed from.
    """
    committed = notebook.parent.parent / REFERENCE
    name = notebook.stem
    patterns = [f"small/{name}/figures/*", f"small/{name}/metrics.json"]
    others = set(re.findall(r"\b\d\d_\w+", code)) - {name}
    patterns += [f"small/{other}/{VALUES}/*" for other in others]
    if reference:
        patterns.append(f"{reference}/{VALUES}/*")
        patterns.append(f"{reference}/{CELLS}")
    files: set[Path] = set()
    for pattern in patterns:
        files |= set(committed.glob(pattern))
    of_this_profile = committed / parameters.profile / name / "tables"
    for path in committed.glob(f"*/{name}/tables/*"):
        if path.parent != of_this_profile:
            files.add(path)
    return sorted(files)


def _marks_of_files(folder: Path) -> list[list]:
    """Return name, size and time of all files below a folder."""
    marks = []
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            facts = path.stat()
            marks.append([name, facts.st_size, facts.st_mtime_ns])
    return sorted(marks)


@cache
def _content(path: Path) -> Any:
    """Return the content of a file of YAML."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def publish(notebook: "Notebook | Worlds", store: Store, folder: Path) -> None:
    """Copy a notebook's cell to outputs/<name>/, put there in one step."""
    cell = store[notebook]
    target = folder / notebook.name
    published_seal = target / SEAL
    if published_seal.is_file() and sha256(published_seal) == sha256(cell / SEAL):
        return
    aside = folder / f".{notebook.name}.{os.getpid()}"
    shutil.copytree(cell, aside)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(aside, target)

"""An executed notebook as a cell like the others: made from the notebook, its parameters and the
cells of its plan.
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
from unittest.mock import patch

import yaml
from pydantic import Field

from interextra.claims.claim import of_notebook
from interextra.claims.wording import ANSWERS
from interextra.data.load import data_folder
from interextra.notebooks.plans import cells_of, plan_of
from interextra.papers.published import FOLDER
from interextra.papers.published_models import located
from interextra.papers.releases import FACTS as RELEASES
from interextra.site.answers import put
from interextra.site.travel import CELLS, REFERENCE, VALUES
from interextra.store import Cell, InputError, Store
from interextra.store.code import used_by
from interextra.store.files import SEAL, digest, sha256

TIMEOUT = 7200  # seconds that one notebook cell may take


class NotebookError(RuntimeError):
    """A notebook stopped on an error that is not the user's; names the executed copy with the
    traceback.
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
    reference: str = (
        ""  # folder under outputs/reference whose values it is executed from; empty: from its cells
    )

    @classmethod
    def of(cls, path: Path, parameters: dict[str, Any], reference: str = "") -> "Notebook":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        return cls(
            name=path.stem,
            source=sha256(path),
            parameters=json.dumps(parameters, sort_keys=True),
            uses=used_by(source),
            plan=() if reference else tuple(cells_of(plan_of(path.stem, parameters))),
            files=_listing(path, source, parameters, reference),
            reference=reference,
        )

    @property
    def by_place(self) -> dict[str, "Notebook"]:
        """Itself alone, where `worlds.Worlds` has several, by the folder of its values in its
        reference.
        """
        return {"": self}

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), *self.uses)

    def title(self) -> str:
        return f"notebook {self.name}"

    def seconds(self) -> float:
        return 15.0

    def build(self, folder: Path, store: Store) -> None:
        import papermill
        from papermill.exceptions import PapermillExecutionError
        from traitlets.config import Config

        root = store.root.parent.parent
        notebook, executed = (
            root / "notebooks" / f"{self.name}.ipynb",
            folder / f"{self.name}.ipynb",
        )
        if sha256(notebook) != self.source:
            raise InputError(f"{notebook.name} has changed since it was planned; plan again")
        kept, given = root / "outputs" / f"{self.name}.failed.ipynb", json.loads(self.parameters)
        reference = str(root / REFERENCE / self.reference) if self.reference else ""
        environment = {
            "INTEREXTRA_OUTPUT": str(folder.resolve()),
            "INTEREXTRA_REFERENCE": reference,
        }
        environment["JUPYTER_PREFER_ENV_PATH"] = (
            "1"  # the kernel of this environment, not one from the user's home
        )
        logging.getLogger("papermill").setLevel(
            "ERROR"
        )  # it does not know the parameters of params/
        # A short path: a socket's name has at most 107 bytes
        with (
            patch.dict(os.environ, environment),
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as sockets,
        ):
            # sockets of this user instead of open ports; no log lines of the kernel itself
            config = Config(
                KernelManager={"transport": "ipc", "ip": f"{sockets}/k"},
                NotebookClient={"extra_arguments": ["--IPKernelApp.log_level=50"]},
            )
            options = {
                "kernel_name": "python3",
                "progress_bar": False,
                "execution_timeout": TIMEOUT,
                "config": config,
            }
            # from the root: relative paths in parameters mean the same here and on the command line
            try:
                papermill.execute_notebook(
                    str(notebook), str(executed), given, cwd=str(root), **options
                )
            except PapermillExecutionError as error:
                if error.ename == "InputError":
                    raise InputError(f"{self.name}: {error.evalue}") from None
                os.replace(executed, kept)
                what = f"{self.name}, cell {error.exec_count}: {error.ename}: {error.evalue}"
                told = f"{what} (the executed copy with its traceback is {os.path.relpath(kept)})"
                raise NotebookError(told) from None
        kept.unlink(missing_ok=True)
        put(executed, root / REFERENCE, given["profile"])


def _listing(notebook: Path, code: str, parameters: dict[str, Any], reference: str) -> str:
    """Digest of all that a notebook reads beside its cells; of the real data, of names, sizes and
    times.
    """
    root = notebook.parent.parent / REFERENCE
    parts = [f"small/{notebook.stem}/{part}" for part in ("figures/*", "metrics.json")]
    parts += [
        f"small/{other}/{VALUES}/*"
        for other in re.findall(r"\b\d\d_\w+", code)
        if other != notebook.stem
    ]
    parts += [f"{reference}/{part}" for part in (f"{VALUES}/*", CELLS)] if reference else []
    committed = {path for part in parts for path in root.glob(part)}
    of_profiles = root.glob(f"*/{notebook.stem}/tables/*")
    committed |= {
        path for path in of_profiles if path.relative_to(root).parts[0] != parameters["profile"]
    }
    read = [*sorted(committed), *parameters.get("sheets", [])]
    read += [located(parameters["results"])] if parameters.get("results") else []
    texts = [_content(path) for path in (*sorted(FOLDER.glob("*.yaml")), RELEASES)]
    files = [str([*texts, _content(ANSWERS).get(notebook.stem), of_notebook(notebook.stem)])]
    if parameters.get("real_msmarco") or (
        parameters.get("real_encoder") and "real_msmarco" not in parameters
    ):
        folder = data_folder()
        found = [
            (path.relative_to(folder).as_posix(), path.stat())
            for path in folder.rglob("*")
            if path.is_file()
        ]
        files += sorted([name, stat.st_size, stat.st_mtime_ns] for name, stat in found)
    return digest([list(map(sha256, read)), files])


@cache
def _content(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def publish(notebook: Cell, store: Store, folder: Path) -> None:
    """The executed notebook under outputs/<name>/, as a copy of its cell put there in one step."""
    target, aside = folder / notebook.name, folder / f".{notebook.name}.{os.getpid()}"
    if not (target / SEAL).is_file() or sha256(target / SEAL) != sha256(store[notebook] / SEAL):
        shutil.copytree(store[notebook], aside)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(aside, target)

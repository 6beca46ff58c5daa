"""An executed notebook as a cell like the others: made from the notebook, its parameters and the cells of its plan."""

import itertools
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import interextra
from interextra.data.load import data_folder
from interextra.experiments.plans import cells_of, plan_of
from interextra.ground.cells import Cell, Store
from interextra.ground.code import ROOT, used_by
from interextra.ground.errors import InputError
from interextra.ground.files import digest, sha256
from interextra.papers.published_models import located
from interextra.study.answer import put
from interextra.study.travel import CELLS, REFERENCE, VALUES

TIMEOUT = 7200  # seconds that one notebook cell may take
FOLDED = {"parameters": "Parameters", "injected-parameters": "Parameters of this run", "solution": "Solution"}
PAGE = """{%- extends 'lab/index.html.j2' -%}
{%- block html_head_css -%}{{ super() }}
<style>
details { margin: 0 0 1em 6px } summary { cursor: pointer; font: 14px/1.6 system-ui, sans-serif; color: #0b5394 }
.answer { border-left: 4px solid #0b5394; background: #f3f7fb; margin: 0 0 1em 6px; padding: 2px 8px }
.jp-OutputArea-output, .jp-InputArea-editor, .jp-RenderedHTMLCommon, .highlight { overflow-x: auto }
</style>
{%- endblock html_head_css -%}
{%- block codecell -%}
{%- if cell.metadata.folded -%}<details><summary>{{ cell.metadata.folded }}</summary>{{ super() }}</details>
{%- elif "answer" in cell.metadata.tags | default([]) -%}<div class="answer">{{ super() }}</div>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock codecell -%}
{%- block input_group -%}
{%- if "answer" not in cell.metadata.tags | default([]) -%}{{ super() }}{%- endif -%}
{%- endblock input_group -%}
{%- block data_png scoped -%}
<img src="data:image/png;base64,{{ output.data['image/png'] }}" style="max-width: 100%"
 alt="{{ output | get_metadata('alt', 'image/png') | escape }}"
 width="{{ output | get_metadata('width', 'image/png') }}">
{%- endblock data_png -%}
"""  # the usual page leaves out what is seen on a figure


class NotebookError(RuntimeError):
    """A notebook stopped on an error that is not the user's; names the executed copy with the traceback."""


class Notebook(Cell):
    """`NAME.ipynb` and `NAME.html` executed, `tables/`, `figures/`, `values/`, metrics.json."""

    name: str
    source: str  # SHA-256 of the stored notebook
    parameters: str  # JSON
    uses: tuple[str, ...]  # definitions of this package that its code names
    plan: tuple[Cell, ...]
    files: str  # digest of what it reads beside its cells: published tables, annotation sheets, real data
    reference: str = ""  # folder under outputs/reference whose values it is executed from; empty: from its cells

    @classmethod
    def of(cls, path: Path, parameters: dict[str, Any], reference: str = "") -> "Notebook":
        plan = () if reference else tuple(cells_of(plan_of(path.stem, parameters)))
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
        made = {"uses": used_by(source, interextra._FRONT | interextra._MODULES), "plan": plan, "reference": reference}
        made |= {"files": _listing(path, parameters, reference)}
        return cls(name=path.stem, source=sha256(path), parameters=json.dumps(parameters, sort_keys=True), **made)

    @property
    def by_place(self) -> dict[str, "Notebook"]:
        """Itself alone, where `worlds.Worlds` has several, by the folder of its values in its reference."""
        return {"": self}

    def modules(self) -> tuple[str, ...]:
        return (*super().modules(), *self.uses)

    def title(self) -> str:
        return f"notebook {self.name}"

    def seconds(self) -> float:
        return 15.0

    def build(self, folder: Path, store: Store) -> None:
        root = store.root.parent.parent
        notebook = root / "notebooks" / f"{self.name}.ipynb"
        if sha256(notebook) != self.source:
            raise InputError(f"{notebook.name} has changed since it was planned; plan again")
        try:
            reference = str(root / REFERENCE / self.reference) if self.reference else ""
            _papermill(notebook, json.loads(self.parameters), folder, reference)
        except NotebookError as error:
            kept = root / "outputs" / f"{self.name}.failed.ipynb"
            os.replace(folder / notebook.name, kept)
            raise NotebookError(f"{error} (the executed copy with its traceback is {os.path.relpath(kept)})") from None
        (root / "outputs" / f"{self.name}.failed.ipynb").unlink(missing_ok=True)
        put(folder / notebook.name, root / REFERENCE, json.loads(self.parameters)["profile"])
        _html(folder / notebook.name)


def _listing(notebook: Path, parameters: dict[str, Any], reference: str) -> str:
    """Digest of published and committed tables, sheets, scores, and of names, sizes and times of the real data."""
    committed = notebook.parent.parent / REFERENCE
    parts = [f"small/{notebook.stem}/{part}" for part in ("tables/*", "figures/*", "metrics.json")]
    parts += [f"{reference}/{part}" for part in (f"{VALUES}/*", CELLS)] if reference else []
    committed_files = sorted(path for part in parts for path in committed.glob(part))
    read = [*sorted(ROOT.glob("papers/**/*.yaml")), *committed_files, *parameters.get("sheets", [])]
    read += [located(parameters["results"])] if parameters.get("results") else []
    sheets = [sha256(path) for path in read]
    files: list[list] = []
    if parameters.get("real_msmarco") or (parameters.get("real_encoder") and "real_msmarco" not in parameters):
        folder = data_folder()
        found = [(path.relative_to(folder).as_posix(), path.stat()) for path in folder.rglob("*") if path.is_file()]
        files = sorted([name, stat.st_size, stat.st_mtime_ns] for name, stat in found)
    return digest([sheets, files])


def _papermill(notebook: Path, parameters: dict[str, Any], folder: Path, reference: str) -> None:
    import papermill
    from papermill.exceptions import PapermillExecutionError
    from traitlets.config import Config

    sockets = tempfile.mkdtemp()  # a short path: a socket's name has at most 107 bytes
    os.environ |= {"INTEREXTRA_OUTPUT": str(folder.resolve()), "INTEREXTRA_REFERENCE": reference}
    os.environ["JUPYTER_PREFER_ENV_PATH"] = "1"  # the kernel of this environment, not one from the user's home
    try:
        papermill.execute_notebook(
            str(notebook),
            str(folder / notebook.name),
            parameters=parameters,
            cwd=str(notebook.parent.parent),  # relative paths in parameters mean the same here and on the command line
            kernel_name="python3",
            progress_bar=False,
            execution_timeout=TIMEOUT,
            # sockets of this user instead of open ports; no log lines of the kernel itself
            config=Config(
                KernelManager={"transport": "ipc", "ip": f"{sockets}/k"},
                NotebookClient={"extra_arguments": ["--IPKernelApp.log_level=50"]},
            ),
        )
    except PapermillExecutionError as error:
        if error.ename == "InputError":
            raise InputError(f"{notebook.stem}: {error.evalue}") from None
        raise NotebookError(f"{notebook.stem}, cell {error.exec_count}: {error.ename}: {error.evalue}") from None
    finally:
        del os.environ["INTEREXTRA_OUTPUT"], os.environ["INTEREXTRA_REFERENCE"]
        shutil.rmtree(sockets, ignore_errors=True)


def _html(executed: Path) -> None:
    """The page of an executed notebook: without prompts, with what is tagged in `FOLDED` folded."""
    import nbformat
    from nbconvert import HTMLExporter

    document, number = nbformat.read(executed, as_version=4), itertools.count(1)
    for cell in document.cells:
        for tag in FOLDED.keys() & cell.metadata.get("tags", []):
            cell.metadata["folded"] = FOLDED[tag] + (f" {next(number)}" if tag == "solution" else "")
    exporter = HTMLExporter(raw_template=PAGE, exclude_input_prompt=True, exclude_output_prompt=True)
    html, _ = exporter.from_notebook_node(document, {"metadata": {"name": executed.stem}})
    executed.with_suffix(".html").write_text(html, encoding="utf-8")


def published(notebook: Notebook, store: Store, folder: Path) -> Path:
    """The executed notebook under outputs/<name>/, as a copy of its cell put there in one step."""
    target, aside = folder / notebook.name, folder / f".{notebook.name}.{os.getpid()}"
    if (target / "seal.json").is_file() and sha256(target / "seal.json") == sha256(store[notebook] / "seal.json"):
        return target
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(store[notebook], aside)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(aside, target)
    return target

"""The book of a run: a static site by Sphinx and myst-nb over its executed notebooks, made without network.

It stands in the folder of the run, opens from a disk as from any host, and is made again after each notebook. Its form,
the glossary and the pages for teachers are in the folder book/ of the repository.
"""

import json
import re
import shutil
import sys
from html import escape
from pathlib import Path

import pandas as pd

from interextra.papers.verdicts import DATA, page
from interextra.study.answers import answer_of
from interextra.study.parameters import repository_root
from interextra.study.travel import REFERENCE

TITLE = "Do neural retrievers interpolate or extrapolate?"
FORM = Path(__file__).resolve().parents[3] / "book"  # of the repository that this package is installed from
ESTIMATES = re.compile(r" \([^()]*\)\.$")  # at the end of a sentence; they stand on the notebook's page


def write(folder: Path, note: str = "", is_last: bool = True) -> Path:
    """Make the book of the notebooks executed under `folder`; returns its first page.

    `note`: what is still being computed. `is_last`: all pages anew, for their links. Warnings: `.book/warnings.txt`.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    work = folder / ".book"  # the pages as Sphinx reads them, its notes and warnings
    executed = sorted(folder.glob("[0-9][0-9]_*/[0-9][0-9]_*.ipynb"))
    shutil.rmtree(work / "pages", ignore_errors=True)
    (work / "pages").mkdir(parents=True)
    for path in [*executed, *FORM.glob("*.md")]:
        shutil.copy2(path, work / "pages")  # with its date, by which Sphinx knows what changed
    more = sorted(path.stem for path in FORM.glob("*.md"))
    (work / "pages" / "index.md").write_text(_index(folder, executed, more, note), encoding="utf-8")
    with (work / "warnings.txt").open("w", encoding="utf-8") as warnings, patch_docutils(), docutils_namespace():
        places = (work / "pages", FORM, folder, work / "doctrees", "html")
        Sphinx(*places, freshenv=is_last, status=None, warning=warnings).build()
    for part in ("pages", "doctrees") if is_last else ():
        shutil.rmtree(work / part)
    return folder / "index.html"


def _index(folder: Path, executed: list[Path], more: list[str], note: str) -> str:
    """The first page: the question, a map of the notebooks, and what came out by claim."""
    rows, titled = [], []
    for path in executed:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
        answer = ESTIMATES.sub(".", answer_of(path.parent).get("sentences", [""])[0])
        rows.append([f"[{path.stem[:2]}]({path.name})", _text(title), _text(answer), f"{_seconds(path) / 60:.1f}"])
        titled.append(f"{path.stem[:2]} · {title} <{path.stem}>")
    parts = [f"# {TITLE}", f"Results of the run `{folder.name}`, notebook by notebook."]
    parts += [f"```{{note}}\n{note}\n```"] if note else []
    parts += [_table(["notebook", "question", "answer", "minutes on one core"], rows)]
    if claims := _claims(folder, [path.stem for path in executed]):
        about = "Claims of the papers and our own, stated before the runs that answer them:"
        parts += ["## Claims", about, _table(["claim", "published", "conclusion", "notebook"], claims)]
    toc = "\n".join(titled + more)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n{toc}\n```"]) + "\n"


def _claims(folder: Path, names: list[str]) -> list[list[str]]:
    """Sentence, published effect, conclusion over the committed data sets, and notebook of each claim."""
    committed, rows = repository_root() / REFERENCE, []
    places = {data: committed / of for data, of in DATA.items() if of != folder.name} | {"here": folder}
    for name in names:
        files = {data: place / name / "tables" / "claims.csv" for data, place in places.items()}
        made = page({data: pd.read_csv(path) for data, path in files.items() if path.is_file()})
        claims = made[["claim", "published", "conclusion"]].values.tolist() if len(made) else []
        rows += [[*map(_text, row), f"[{name[:2]}]({name}.ipynb)"] for row in claims]
    return rows


def _seconds(path: Path) -> float:
    """Of the execution of a notebook, and of its results as far as they are in the store."""
    record = json.loads((path.parent / "provenance.json").read_text(encoding="utf-8"))
    notes = (path.parents[2] / "cells" / key / "provenance.json" for key in record["method"]["cells"])
    computed = (json.loads(note.read_text(encoding="utf-8"))["seconds"] for note in notes if note.is_file())
    return record["seconds"]["whole notebook"] + sum(computed)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _text(text: str) -> str:
    """Text from data, in a cell of a table."""
    return escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:], is_last=False)

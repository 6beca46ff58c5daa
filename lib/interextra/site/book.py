"""The book of a run: a static site by Sphinx and myst-nb over its executed notebooks, made without
network.

It stands in the folder of the run, opens from a disk as from any host, and is made again after each
notebook. Its form, the glossary and the pages for teachers are in the folder book/ of the
repository.
"""

import json
import re
import shutil
import sys
from html import escape
from pathlib import Path

import pandas as pd

from interextra.claims.wording import DATA, NAMED, page, sentences
from interextra.site.answers import answer_of
from interextra.site.parameters import repository_root
from interextra.site.travel import REFERENCE

TITLE = "Do neural retrievers interpolate or extrapolate?"
FORM = (
    Path(__file__).resolve().parents[3] / "book"
)  # of the repository that this package is installed from
ESTIMATES = re.compile(
    r" \([^()]*\)\.$"
)  # at the end of a sentence; they stand on the notebook's page


def write(folder: Path, note: str = "", is_last: bool = True) -> Path:
    """Make the book of the notebooks executed under `folder`; returns its first page.

    `note`: what is still being computed. `is_last`: all pages anew, for their links. Warnings:
    `.book/warnings.txt`.
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
    with (
        (work / "warnings.txt").open("w", encoding="utf-8") as warnings,
        patch_docutils(),
        docutils_namespace(),
    ):
        places = (work / "pages", FORM, folder, work / "doctrees", "html")
        Sphinx(*places, freshenv=is_last, status=None, warning=warnings).build()
    for part in ("pages", "doctrees") if is_last else ():
        shutil.rmtree(work / part)
    return folder / "index.html"


def _index(folder: Path, executed: list[Path], more: list[str], note: str) -> str:
    """The first page: the question, a map of the notebooks, and what came out by claim."""
    rows, titled = [], []
    for path in executed:
        title, answer = _title(path), answer_of(path.parent).get("sentences", [""])[0]
        rows.append(
            [f"[{path.stem[:2]}]({path.name})", title, answer, f"{_seconds(path) / 60:.1f}"]
        )
        titled.append(f"{path.stem[:2]} · {title} <{path.stem}>")
    over_worlds = [] if executed else _over_worlds(folder)
    rows = [
        [at, _text(title), _text(ESTIMATES.sub(".", answer)), of]
        for at, title, answer, of in rows + over_worlds
    ]
    parts = [f"# {TITLE}", f"Results of the run `{folder.name}`, notebook by notebook."]
    parts += [f"```{{note}}\n{note}\n```"] if note else []
    parts += [
        _table(
            ["notebook", "question", "answer", "tables" if over_worlds else "minutes on one core"],
            rows,
        )
    ]
    shown = ["claim", "published", *[NAMED["worlds"]] * bool(over_worlds), "conclusion"]
    if claims := _claims(folder, shown):
        about = "Claims of the papers and our own. Whether their answers had been seen before, each notebook says."
        parts += ["## Claims", about, _table([*shown, "notebook"], claims)]
    toc = "\n".join(titled + more)
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n{toc}\n```"]) + "\n"


def _over_worlds(folder: Path) -> list[list[str]]:
    """Number, question, answer, and links to the tables of each notebook that ran in several
    worlds, without a page.
    """
    rows = []
    for path in sorted(folder.glob("[0-9][0-9]_*/tables/claims.csv")):
        name = path.parts[-3]
        answer, *_ = sentences({"worlds": pd.read_csv(path)}, name)
        tables = [
            (table.relative_to(folder).as_posix(), table.stem)
            for table in sorted(path.parent.glob("*.csv"))
        ]
        links = ", ".join(f'<a href="{link}">{table}</a>' for link, table in tables)
        rows.append(
            [name[:2], _title(repository_root() / "notebooks" / f"{name}.ipynb"), answer, links]
        )
    return rows


def _claims(folder: Path, shown: list[str]) -> list[list[str]]:
    """The columns `shown` of `page`, with the committed data sets, and the notebook of each
    claim.
    """
    committed, rows = repository_root() / REFERENCE, []
    profile = folder.name.removesuffix("-from-reference")
    places = {data: folder if of == profile else committed / of for data, of in DATA.items()}
    places |= {} if profile in DATA.values() else {"here": folder}
    for name in sorted(path.parent.name for path in folder.glob("[0-9][0-9]_*/tables")):
        files = {data: place / name / "tables" / "claims.csv" for data, place in places.items()}
        made = page({data: pd.read_csv(path) for data, path in files.items() if path.is_file()})
        claims = made.reindex(columns=shown, fill_value="–").values.tolist()
        number = (
            f"[{name[:2]}]({name}.ipynb)"
            if (folder / name / f"{name}.ipynb").is_file()
            else name[:2]
        )
        rows += [[*map(_text, row), number] for row in claims]
    return rows


def _title(notebook: Path) -> str:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")


def _seconds(path: Path) -> float:
    """Of the execution of a notebook, and of its results as far as they are in the store."""
    record = json.loads((path.parent / "provenance.json").read_text(encoding="utf-8"))
    notes = (
        path.parents[2] / "cells" / key / "provenance.json" for key in record["method"]["cells"]
    )
    computed = (
        json.loads(note.read_text(encoding="utf-8"))["seconds"] for note in notes if note.is_file()
    )
    return record["seconds"]["whole notebook"] + sum(computed)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def _text(text: str) -> str:
    """Text from data, in a cell of a table."""
    return escape(text, quote=False).replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:], is_last=False)

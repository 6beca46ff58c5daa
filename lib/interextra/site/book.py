"""The book of a run: a static site by Sphinx and myst-nb over its executed notebooks.

It is made without network, stands in the folder of the run, opens from a disk as from any host, and
is made again after each notebook. Its form, the glossary and the pages for teachers are in the
folder book/ of the repository.
"""

import re
import shutil
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra.claims import collections_wording
from interextra.claims.wording import NAMED, page, sentences
from interextra.site.answers import answer_of
from interextra.site.conclusions import by_data
from interextra.site.repository import repository_root
from interextra.site.travel import REFERENCE
from interextra.store.files import read_json

TITLE = "Do neural retrievers interpolate or extrapolate?"
FORM = Path(__file__).resolve().parents[3] / "book"  # of the repository of this package
# The estimates at the end of a sentence stand on the notebook's page
ESTIMATES = re.compile(r" \([^()]*\)\.$")
ABOUT_CLAIMS = (
    "Claims of the papers and our own. Whether their answers had been seen before, each notebook "
    "says."
)


class Entry(NamedTuple):
    """A row of the map of notebooks; `extra`: minutes on one core, or links to tables."""

    number: str
    question: str
    answer: str
    extra: str


def write(folder: Path, note: str = "", is_last: bool = True) -> Path:
    """Make the book of the notebooks executed under a folder; return its first page.

    Warnings go to `.book/warnings.txt`.

    Parameters
    ----------
    folder
        Of the run.
    note
        What is still being computed.
    is_last
        Whether all pages are made anew, for their links.
    """
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    work = folder / ".book"  # the pages as Sphinx reads them, its notes and warnings
    pages, doctrees = work / "pages", work / "doctrees"
    shutil.rmtree(pages, ignore_errors=True)
    pages.mkdir(parents=True)
    executed = sorted(folder.glob("[0-9][0-9]_*/[0-9][0-9]_*.ipynb"))
    for path in [*executed, *FORM.glob("*.md")]:
        shutil.copy2(path, pages)  # with its date, by which Sphinx knows what changed
    first_page = _first_page(folder, executed, note)
    (pages / "index.md").write_text(first_page, encoding="utf-8")
    with (
        (work / "warnings.txt").open("w", encoding="utf-8") as warnings,
        patch_docutils(),
        docutils_namespace(),
    ):
        book = Sphinx(
            pages, FORM, folder, doctrees, "html", freshenv=is_last, status=None, warning=warnings
        )
        book.build()
    if is_last:
        shutil.rmtree(pages)
        shutil.rmtree(doctrees)
    return folder / "index.html"


def _first_page(folder: Path, executed: Sequence[Path], note: str) -> str:
    """Return Markdown: the question, a map of the notebooks, and what came out by claim."""
    over_worlds = [] if executed else _over_worlds(folder)
    parts = [f"# {TITLE}", f"Results of the run `{folder.name}`, notebook by notebook."]
    if note:
        parts.append(f"```{{note}}\n{note}\n```")
    columns = ["claim", "published", "conclusion"]
    if over_worlds:
        parts.append(_map(over_worlds, "tables"))
        columns.insert(2, NAMED["worlds"])
    elif executed:
        entries = [_entry_of(path) for path in executed]
        parts.append(_map(entries, "minutes on one core"))
    parts += _over_collections(folder)
    claims = _claims(folder, columns)
    if claims:
        parts += ["## Claims", ABOUT_CLAIMS, _table([*columns, "notebook"], claims)]
    parts.append(_contents(executed))
    return "\n\n".join(parts) + "\n"


def _map(entries: Sequence[Entry], extra: str) -> str:
    """Return the map of notebooks, whose last column is named `extra`."""
    rows = []
    for entry in entries:
        question = _cell(entry.question)
        answer = _cell(ESTIMATES.sub(".", entry.answer))
        rows.append([entry.number, question, answer, entry.extra])
    return _table(["notebook", "question", "answer", extra], rows)


def _contents(executed: Sequence[Path]) -> str:
    """Return the pages of the book in their order: the notebooks, then those of its form."""
    pages = [_listed(path) for path in executed]
    pages += sorted(path.stem for path in FORM.glob("*.md"))
    return "\n".join(["```{toctree}", ":hidden:", *pages, "```"])


def _listed(notebook: Path) -> str:
    """Return a notebook as the list of pages names it."""
    number = notebook.stem[:2]
    return f"{number} · {_title(notebook)} <{notebook.stem}>"


def _entry_of(executed: Path) -> Entry:
    """Return the row of a notebook with a page."""
    sentences_of_run = answer_of(executed.parent).get("sentences", [""])
    number = executed.stem[:2]
    link = f"[{number}]({executed.name})"
    minutes = f"{_seconds(executed) / 60:.1f}"
    return Entry(link, _title(executed), sentences_of_run[0], minutes)


def _over_worlds(folder: Path) -> list[Entry]:
    """Return a row for each notebook that ran in several worlds, which has tables and no page."""
    entries = []
    for claims in sorted(folder.glob("[0-9][0-9]_*/tables/claims.csv")):
        name = claims.parts[-3]
        claims_of_worlds = pd.read_csv(claims)
        answer = sentences({"worlds": claims_of_worlds}, name)[0]
        links = []
        for table in sorted(claims.parent.glob("*.csv")):
            address = table.relative_to(folder).as_posix()
            links.append(f'<a href="{address}">{table.stem}</a>')
        question = _title(repository_root() / "notebooks" / f"{name}.ipynb")
        tables = ", ".join(links)
        entries.append(Entry(name[:2], question, answer, tables))
    return entries


def _over_collections(folder: Path) -> list[str]:
    """Return what claims say on several collections, a heading a notebook that ran there."""
    parts = []
    for path in sorted(folder.glob("[0-9][0-9]_*/tables/over_collections.csv")):
        name = path.parts[-3]
        each = pd.read_csv(path.with_name("collections.csv"))
        judged = pd.read_csv(path)
        decided = [f"- {_cell(sentence)}" for sentence in collections_wording.sentences(judged)]
        shown = collections_wording.page(each, judged)
        rows = [list(map(_cell, row)) for row in shown.itertuples(index=False)]
        question = _title(repository_root() / "notebooks" / f"{name}.ipynb")
        heading = f"## {name[:2]} · {question}"
        parts += [heading, "\n".join(decided), _table(list(shown), rows)]
    return parts


def _claims(folder: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return some columns of the claims' `page`, beside the committed data sets, by notebook.

    The last cell of a row is the number of its notebook.
    """
    profile = folder.name.removesuffix("-from-reference")
    folders = by_data(profile, folder, (repository_root() / REFERENCE).joinpath)
    rows = []
    for tables in sorted(folder.glob("[0-9][0-9]_*/tables")):
        name = tables.parent.name
        judged = {}
        for data, folder_of_data in folders.items():
            path = folder_of_data / name / "tables" / "claims.csv"
            if path.is_file():
                judged[data] = pd.read_csv(path)
        number = name[:2]
        if (tables.parent / f"{name}.ipynb").is_file():
            number = f"[{number}]({name}.ipynb)"
        claims = page(judged).reindex(columns=columns, fill_value="–")
        for row in claims.itertuples(index=False):
            cells = map(_cell, row)
            rows.append([*cells, number])
    return rows


def _title(notebook: Path) -> str:
    """Return the heading of a notebook."""
    first_cell = read_json(notebook)["cells"][0]
    source = "".join(first_cell["source"])
    heading = source.splitlines()[0]
    return heading.lstrip("# ")


def _seconds(executed: Path) -> float:
    """Return the seconds of a notebook's execution, and of its results that are in the store."""
    record = read_json(executed.with_name("provenance.json"))
    seconds = record["seconds"]["whole notebook"]
    cells = executed.parents[2] / "cells"
    for key in record["method"]["cells"]:
        path = cells / key / "provenance.json"
        if path.is_file():
            seconds += read_json(path)["seconds"]
    return seconds


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    rule = ["---"] * len(head)
    lines = [" | ".join(row) for row in [head, rule, *rows]]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    """Return text from data as a cell of a table."""
    escaped = escape(text, quote=False).replace("|", "\\|")
    return escaped.replace("\n", " ")


if __name__ == "__main__":
    _, run, still_computed = sys.argv
    write(Path(run), still_computed, is_last=False)

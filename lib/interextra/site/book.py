"""The book of a run: a static site by Sphinx and myst-nb over its executed notebooks.

It is made without network, stands in the folder of the run, opens from a disk as from any host, and
is made again after each notebook. Its form, the glossary and the pages for teachers are in the
folder book/ of the repository.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from interextra.site.first_page import first_page, title

FORM = Path(__file__).resolve().parents[3] / "book"  # of the repository of this package
CLAIMS = FORM.with_name("RESULTS.md")  # all claims, and the rules by which they are decided


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
    shutil.copy2(CLAIMS, pages / CLAIMS.name.lower())
    index = first_page(folder, executed, FORM / "profiles.yaml", note)
    index = f"{index}\n\n{_contents(executed)}\n"
    (pages / "index.md").write_text(index, encoding="utf-8")
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


def _contents(executed: Sequence[Path]) -> str:
    """Return the pages of the book in their order: the notebooks, guides, notes to notebooks."""
    notes = sorted(FORM.glob("notes_*.md"))
    guides = sorted(set(FORM.glob("*.md")) - set(notes))
    pages = {
        "Notebooks": [f"{path.stem[:2]} · {title(path)} <{path.stem}>" for path in executed],
        "Guides": [CLAIMS.stem.lower(), *(path.stem for path in guides)],
        "Notes": [f"Notes to {path.stem[-2:]} <{path.stem}>" for path in notes],
    }
    return "\n\n".join(_part(caption, entries) for caption, entries in pages.items())


def _part(caption: str, entries: Sequence[str]) -> str:
    """Return a part of the list of pages, as myst reads it."""
    return "\n".join(["```{toctree}", ":hidden:", f":caption: {caption}", *entries, "```"])


if __name__ == "__main__":
    _, run, still_computed = sys.argv
    write(Path(run), still_computed, is_last=False)

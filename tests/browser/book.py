"""The pages of books in headless Chromium, as a reader sees them.

`make test-browser` runs it for the book of the profile mini; `python tests/browser/book.py FOLDER …`
for others. On a telephone and on a screen, in light and dark: nothing is wider than the page, no
console reports an error, text can be read on what is behind it, each figure has a picture and a
text, no id is there twice, every link leads somewhere, and the keyboard reaches the first link and
each fold, which shows. In the reading mode *predict first* answers and results are hidden until asked
for, and the mode goes on from page to page and can be left. The handout of a talk is printed on one page. Screenshots of the first page
in both modes, and the handout are left under build/browser.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urldefrag, urlsplit

from lab import MINUTE, OUT, ROOT, started_chromium

FAULTS = Path(__file__).with_name("faults.js").read_text(encoding="utf-8")
TELEPHONE, SCREEN = 375, 1200
LOOKS = [(TELEPHONE, "light"), (TELEPHONE, "dark"), (SCREEN, "light"), (SCREEN, "dark")]
# An address that stands for no part of a page
TOP = ("", "top")
FOLDS = "() => { for (const fold of document.querySelectorAll('details')) fold.open = %s; }"
OPEN_FOLDS, CLOSE_FOLDS = FOLDS % "true", FOLDS % "false"
FOCUS = """() => [...document.querySelectorAll('details > summary')].filter(title => {
    title.focus();
    const looks = getComputedStyle(title);
    return document.activeElement !== title || looks.outlineStyle === 'none';
}).map(title => title.textContent.trim())"""
# What the reading mode "predict first" hides: answers of cards, answer boxes, results behind a prediction
HIDDEN = """() => [...document.querySelectorAll(
    'article.notebook img, article.notebook p:not(.extra), .tag_answer .cell_output, .tag_later > .cell_output, ' +
    'div.result')].filter(part => part.checkVisibility()).length"""
LISTED = """() => [...document.querySelectorAll('li.toctree-l1 > a, .prev-next-area a')]
    .filter(link => link.checkVisibility()).map(link => new URL(link.href).pathname.split('/').pop())"""
FOR_TEACHERS = {"expected_answers.html", "results.html", "teaching.html"}
SWITCH = "a.predict-first"
SKIPS = "() => document.activeElement.textContent.trim()"


class Page(NamedTuple):
    """What is found on a page."""

    faults: list[str]
    ids: set[str]
    links: set[str]


def look(browser, path: Path) -> Page:
    """Open a page and look at it in each of LOOKS."""
    faults: list[str] = []
    ids: set[str] = set()
    links: set[str] = set()
    page = browser.new_page()
    page.set_default_timeout(3 * MINUTE)
    page.on("console", lambda message: note(faults, message))
    page.on("pageerror", lambda error: faults.append(f"error: {error}"))
    page.goto(path.as_uri())
    for width, theme in LOOKS:
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=theme)
        page.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
        if path.name == "index.html":
            page.screenshot(path=OUT / f"index-{width}-{theme}.png", full_page=True)
        page.evaluate(OPEN_FOLDS)
        found = page.evaluate(FAULTS)
        faults += [f"{fault} ({width} px, {theme})" for fault in found["faults"]]
        ids |= set(found["ids"])
        links |= set(found["links"])
        page.evaluate(CLOSE_FOLDS)
    faults += unfocused(page)
    page.close()
    return Page(faults, ids, links)


def note(said: list[str], message) -> None:
    if message.type == "error":
        said.append(f"console: {message.text}")


def unfocused(page) -> list[str]:
    """Titles of folds that the keyboard does not reach, or that do not show it; and the first link."""
    page.keyboard.press("Tab")
    skips = page.evaluate(SKIPS)
    faults = [f"no focus to be seen: {title}" for title in page.evaluate(FOCUS)]
    if "Skip" not in skips:
        faults.append(f"the first link is not to the content: {skips}")
    return faults


def dead(pages: dict[Path, Page], folder: Path) -> Iterator[str]:
    """Links to files of the book that are not there, or to parts that a page has not."""
    for path, page in pages.items():
        for link in sorted(page.links):
            address, part = urldefrag(link)
            parts = urlsplit(address)
            if parts.scheme != "file":
                continue
            target = Path(unquote(parts.path))
            if not target.is_file():
                yield f"{path.name}: no file {os.path.relpath(target, folder)}"
            elif target in pages and part not in TOP and unquote(part) not in pages[target].ids:
                yield f"{path.name}: no part #{part} in {target.name}"


def print_handout(browser) -> list[str]:
    """Print the handout of a talk as PDF: it is one page."""
    handout, pdf = OUT / "handout.html", OUT / "handout.pdf"
    subprocess.run([sys.executable, "-m", "tools.handout", handout], check=True, cwd=ROOT)
    page = browser.new_page()
    page.set_default_timeout(3 * MINUTE)
    page.goto(handout.as_uri())
    page.pdf(path=pdf, format="A4", prefer_css_page_size=True)
    page.close()
    n_pages = len(re.findall(rb"/Type\s*/Page\b", pdf.read_bytes()))
    print(f"handout: {n_pages} page")
    return [] if n_pages == 1 else [f"{pdf} has {n_pages} pages"]


def predict_first(browser, folder: Path) -> Iterator[str]:
    """What is wrong in the reading mode for students."""
    page = browser.new_page(viewport={"width": SCREEN, "height": 800})
    page.set_default_timeout(3 * MINUTE)
    page.goto(f"{(folder / 'index.html').as_uri()}?predict")
    yield from shown_too_early(page)
    page.screenshot(path=OUT / "index-predict.png", full_page=True)
    for notebook in sorted(folder.glob("[0-9][0-9]_*.html")):
        page.goto(notebook.as_uri())  # the mode is remembered
        yield from shown_too_early(page)
        for fold in page.locator("details.asked > summary").all()[:1]:
            fold.click()
            if not page.evaluate(HIDDEN):
                yield f"{notebook.name}: a click on {fold.text_content()!r} shows nothing"
    with page.expect_navigation():
        page.click(SWITCH)
    if not page.evaluate(HIDDEN) or FOR_TEACHERS - set(page.evaluate(LISTED)):
        yield "predict first cannot be left"
    page.close()


def shown_too_early(page) -> Iterator[str]:
    """What a page in the reading mode for students shows before it is asked for."""
    name = urlsplit(page.url).path.rpartition("/")[2]
    n_shown = page.evaluate(HIDDEN)
    if n_shown:
        yield f"{name}: predict first shows {n_shown} answers or results"
    listed = FOR_TEACHERS & set(page.evaluate(LISTED))
    if listed:
        yield f"{name}: predict first lists {', '.join(sorted(listed))}"


def check(browser, folder: Path) -> list[str]:
    """What is wrong in a book."""
    pages = {}
    faults = []
    for path in sorted(folder.glob("*.html")):
        pages[path] = look(browser, path)
        faults += [f"{path.name}: {fault}" for fault in pages[path].faults]
    if not pages:
        faults.append(f"{folder}: no page; `interextra run --from-reference` makes a book")
    faults += dead(pages, folder)
    faults += predict_first(browser, folder)
    n_links = sum(len(page.links) for page in pages.values())
    print(f"{folder.name}: {len(pages)} pages, {n_links} links, {len(faults)} faults")
    return faults


def main() -> None:
    folders = [Path(name).resolve() for name in sys.argv[1:]]
    OUT.mkdir(parents=True, exist_ok=True)
    with started_chromium() as browser:
        faults = print_handout(browser)
        for folder in folders:
            faults += check(browser, folder)
    if faults:
        raise SystemExit("\n".join(faults))


if __name__ == "__main__":
    main()

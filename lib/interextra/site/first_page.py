"""The first page of a book: what the kit asks, what came out, a card a notebook, and all claims.

It also has the first commands for a retriever of one's own.
"""

import re
import shutil
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import yaml

from interextra.claims import collections_wording
from interextra.claims.cards import html
from interextra.claims.tally import in_words, tally, tally_over_collections
from interextra.claims.wording import FOUR, page, sentences
from interextra.site.answers import (
    answer_of_page,
    lead_of,
    over_collections_of,
    picture_on_card,
)
from interextra.site.conclusions import by_data
from interextra.site.repository import notebooks, repository_root
from interextra.site.travel import REFERENCE
from interextra.store.files import read_json

TITLE = "Do neural retrievers interpolate or extrapolate?"
ASKED = (
    "This kit asks how much of a neural retriever's effectiveness is left on queries unlike its "
    "training queries: it runs the experiments of three papers again, checks their claims, and "
    "tests some of its own."
)
JUDGED = "MedQuAD, other real data and fourteen generated worlds"
ABOUT_CLAIMS = (
    "Claims of the papers and our own, by notebook: what is published, what each data set says, "
    "and the conclusion. Whether their answers had been seen before, each notebook says."
)
OWN = """\
**Test your own retriever.** Which test queries has training seen, and how near do all of them
lie to the training queries? In a clone of the kit, with your queries, passages and judgements in a
folder PATH in BEIR's layout, this takes seconds and no model;
[Your own retriever](own_retriever.md) goes on to what fine-tuning gains and loses.

```
pip install .
interextra audit --train beir:PATH@train --test beir:PATH@test
```"""
FROM_REFERENCE = "-from-reference"  # ends the name of a run in which nothing was trained
PICTURES = "_pictures"  # folder of the book with the figures of the cards
# The estimates at the end of a sentence, and all intervals, stand on the notebook's page
ESTIMATES = re.compile(r" \([^()]*\)(?=\.$)")
INTERVAL = re.compile(r" \[[-+.\d]+, [-+.\d]+\]")


class Entry(NamedTuple):
    """A notebook on the first page.

    Parameters
    ----------
    number
        Its first two digits.
    question
        Its title.
    link
        To its page; "" where it has none.
    answer
        In a sentence.
    evidence
        On which data it holds, with the estimates; "" where none is known.
    picture
        Address of its figure; "" where it has none.
    alt
        What is seen on it.
    extra
        HTML: what it took, or links to its tables.
    """

    number: str
    question: str
    link: str
    answer: str
    evidence: str
    picture: str
    alt: str
    extra: str


def first_page(folder: Path, executed: Sequence[Path], profiles: Path, note: str) -> str:
    """Return the first page as Markdown; the figures of its cards go to PICTURES in the folder.

    Parameters
    ----------
    folder
        Of the run.
    executed
        Its executed notebooks.
    profiles
        The file with a text for each profile.
    note
        What is still being computed.
    """
    profile = folder.name.removesuffix(FROM_REFERENCE)
    parts = [f"# {TITLE}", _lead(profile, folder), _about_run(folder, profile, profiles)]
    if note:
        parts.append(f"```{{note}}\n{note}\n```")
    parts.append(OWN)
    entries = [_executed(path, profile, folder) for path in executed] or _over_worlds(folder)
    if entries:
        cards = "\n".join(_card(entry) for entry in entries)
        parts += ["## Notebooks", f'<div class="notebooks">\n{cards}\n</div>']
    parts += _over_collections(folder)
    claims = _claims(folder, profile)
    if claims:
        parts += ["## Claims", ABOUT_CLAIMS, *claims]
    return "\n\n".join(parts)


def title(notebook: Path) -> str:
    """Return the heading of a notebook."""
    first_cell = read_json(notebook)["cells"][0]
    source = "".join(first_cell["source"])
    heading = source.splitlines()[0]
    return heading.lstrip("# ")


def _lead(profile: str, folder: Path) -> str:
    """Return what the kit asks, and what came out over all data."""
    names = [path.stem for path in notebooks(repository_root())]
    counts = tally(claims_of(name, profile, folder) for name in names)
    came_out = f" {in_words(counts, JUDGED)}" if counts else ""
    return f"{ASKED}{came_out}{_on_collections(names)}"


def _on_collections(names: Sequence[str]) -> str:
    """Return how many claims four real collections have measured; "" where none has been run."""
    committed = repository_root() / REFERENCE
    tables = [over_collections_of(name, committed) for name in names]
    counts = tally_over_collections(table for table in tables if table is not None)
    if not counts.measured:
        return ""
    return (
        f" {counts.asked} more were written down for {FOUR} before a loss was measured on any: "
        f"{counts.measured} are measured so far, {counts.decided or 'none'} of these decided "
        "([why](results.md))."
    )


def _about_run(folder: Path, profile: str, profiles: Path) -> str:
    """Return what the run of a folder is."""
    texts = yaml.safe_load(profiles.read_text(encoding="utf-8"))
    about = texts.get(profile, f"Results of the run `{folder.name}`, notebook by notebook.")
    if folder.name.endswith(FROM_REFERENCE):
        about = f"{about} {texts['from-reference']}"
    return about


def _executed(notebook: Path, profile: str, folder: Path) -> Entry:
    """Return the entry of a notebook with a page: its answer and figure are those of its page."""
    name = notebook.stem
    here = notebook.parent
    committed = repository_root() / REFERENCE
    found = lead_of(name, profile, here, committed)
    noted = answer_of_page(name, profile, here, committed).get("sentences", [""])
    answer, evidence = _short(noted[0]), ""
    if found:
        answer, evidence = found.answer, INTERVAL.sub("", found.evidence)
    picture = picture_on_card(name, profile, here, committed)
    address, alt = "", ""
    if picture:
        address = f"{PICTURES}/{name}.png"
        (folder / PICTURES).mkdir(exist_ok=True)
        shutil.copyfile(picture.path, folder / address)
        alt = picture.alt
    minutes = f"{_seconds(notebook) / 60:.1f} minutes on one core"
    link = f"{name}.html"
    return Entry(name[:2], title(notebook), link, answer, evidence, address, alt, minutes)


def _over_worlds(folder: Path) -> list[Entry]:
    """Return the entries of notebooks that ran in several worlds, which have tables and no page."""
    entries = []
    for claims in sorted(folder.glob("[0-9][0-9]_*/tables/claims.csv")):
        name = claims.parts[-3]
        claims_of_worlds = pd.read_csv(claims)
        answer = _short(sentences({"worlds": claims_of_worlds}, name)[0])
        links = []
        for table in sorted(claims.parent.glob("*.csv")):
            address = escape(table.relative_to(folder).as_posix())
            links.append(f'<a href="{address}">{escape(table.stem)}</a>')
        question = title(repository_root() / "notebooks" / f"{name}.ipynb")
        tables = f"Tables: {', '.join(links)}"
        entries.append(Entry(name[:2], question, "", answer, "", "", "", tables))
    return entries


def _card(entry: Entry) -> str:
    """Return the card of a notebook; its question is the link to its page."""
    question = f"{entry.number} · {escape(entry.question, quote=False)}"
    if entry.link:
        question = f'<a href="{escape(entry.link)}">{question}</a>'
    lines = ['<article class="notebook">']
    if entry.picture:
        picture, alt = escape(entry.picture), escape(entry.alt)
        lines.append(f'<img src="{picture}" alt="{alt}" loading="lazy">')
    said = _line(entry.answer)
    if entry.evidence:
        said += f" <em>{_line(entry.evidence)}</em>"
    lines += [
        "<div>",
        f"<h3>{question}</h3>",
        f"<p>{said}</p>",
        f'<p class="extra">{entry.extra}</p>',
        "</div>",
        "</article>",
    ]
    return "\n".join(lines)


def _over_collections(folder: Path) -> list[str]:
    """Return what claims say on several collections, a heading a notebook that ran there."""
    parts = []
    for path in sorted(folder.glob("[0-9][0-9]_*/tables/over_collections.csv")):
        name = path.parts[-3]
        each = pd.read_csv(path.with_name("collections.csv"))
        judged = pd.read_csv(path)
        decided = [f"- {_line(sentence)}" for sentence in collections_wording.sentences(judged)]
        question = title(repository_root() / "notebooks" / f"{name}.ipynb")
        heading = f"## {name[:2]} · {question}"
        cards = collections_wording.page(each, judged).rename(columns=collections_wording.HEADINGS)
        parts += [heading, "\n".join(decided), html(cards)]
    return parts


def _claims(folder: Path, profile: str) -> list[str]:
    """Return the claims of each notebook that ran, folded, beside those of the committed data."""
    parts = []
    for tables in sorted(folder.glob("[0-9][0-9]_*/tables")):
        name = tables.parent.name
        over_collections = over_collections_of(name, repository_root() / REFERENCE)
        claims = page(claims_of(name, profile, folder), over_collections)
        if claims.empty:
            continue
        question = title(repository_root() / "notebooks" / f"{name}.ipynb")
        number = "one claim" if len(claims) == 1 else f"{len(claims)} claims"
        heading = f"{name[:2]} · {_line(question)} ({number})"
        cards = html(claims)
        parts.append(f'<details class="claims">\n<summary>{heading}</summary>\n{cards}\n</details>')
    return parts


def claims_of(name: str, profile: str, folder: Path) -> dict[str, pd.DataFrame]:
    """Return the claims of a notebook by data set: of a run, and of the committed ones.

    Parameters
    ----------
    name
        Of the notebook.
    profile
        Of the run; its claims stand for the committed ones of the profile.
    folder
        Of the run.
    """
    folders = by_data(profile, folder, (repository_root() / REFERENCE).joinpath)
    tables = {}
    for data, folder_of_data in folders.items():
        path = folder_of_data / name / "tables" / "claims.csv"
        if path.is_file():
            tables[data] = pd.read_csv(path)
    return tables


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


def _short(sentence: str) -> str:
    """Return a sentence of an answer without its estimates in brackets, and without intervals."""
    return INTERVAL.sub("", ESTIMATES.sub("", sentence))


def _line(text: str) -> str:
    """Return text from data in one line of HTML, in which no number is parted from its %."""
    return escape(text, quote=False).replace("\n", " ").replace(" %", "&nbsp;%")

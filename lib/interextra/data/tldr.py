"""tldr-pages: short help pages of commands, and the captions of their examples.

github.com/tldr-pages/tldr, CC BY 4.0, the folder pages. A caption is a writer's, not a user's
question.
"""

import os
import re
import subprocess
from functools import partial
from pathlib import Path
from typing import NamedTuple

from interextra.data import converted
from interextra.data.collection import Collection
from interextra.data.pairs import (
    numbered,
    open_pairs,
    parts_of,
    split_by_passage,
    split_by_question,
)
from interextra.data.trec import numbered_lines
from interextra.store.errors import InputError, one_line

PLATFORMS = ("common", "linux", "osx", "windows")
BY_YEAR = "by_year"
LAST_OF_TRAIN = "2022"
LAST_OF_DEV = "2023"
MARKS = "#>-`"  # that a line begins with: title, summary, caption, command
FEWEST_WORDS = 3  # of a query
NOTES = ("More information", "See also", "Note:")  # lines of a summary that are left out
MNEMONIC = re.compile(r"\[([^\]]+)\]")  # letters of a caption that stand for an option: [f]ile


class Page(NamedTuple):
    """What a page says; `captions` and `commands` are those of its examples."""

    title: str
    summary: str
    captions: list[str]
    commands: list[str]

    @property
    def is_alias(self) -> bool:
        """Whether it leads to another page, by its summary or its first caption."""
        first_caption = self.captions[0] if self.captions else ""
        leads_on = first_caption.startswith("View documentation")
        return leads_on or bool(re.search("alias (of|for)", self.summary))

    @property
    def family(self) -> str:
        """First part of the command's name: git, aws, docker."""
        return re.split(r"[\s._-]", self.title)[0].lower()

    @property
    def passage(self) -> str:
        """Title, summary and commands, without the captions."""
        commands = re.sub("{{|}}", "", " ; ".join(self.commands))
        summary = self.summary.replace("`", "")
        return f"{self.title} {summary} {commands}"

    @property
    def queries(self) -> list[str]:
        """Captions without the brackets of mnemonics and without back-ticks, but for short ones."""
        texts = [MNEMONIC.sub(r"\1", caption).replace("`", "") for caption in self.captions]
        return [text for text in texts if len(text.split()) >= FEWEST_WORDS]


def open_tldr(clone: Path, spec: str, qrels: str = "") -> Collection:
    """Open the pages of four platforms in a clone of tldr-pages, with its history.

    A passage is a page: title, summary, commands; pages that lead to another one, by their summary
    or first caption, are left out. A query is a caption of three words or more, without brackets
    in words and back-ticks; captions that differ in case alone are one. Attributes, of the first
    page that has it: platform, family (`Page.family`), year of the commit that added the page, ""
    for a page that was moved. At commit 08e345f there are 6,597 passages and 27,583 queries.

    Parameters
    ----------
    qrels
        Splits are random; those of "by_year" hold pages added until 2022 (train), in 2023 (dev) and
        later (test). Captions of pages of two splits, or of no known year, are left out.

    Raises
    ------
    InputError
        No pages or no history, a line that is none of a page.
    """
    pages = []
    for platform in PLATFORMS:
        pages += sorted((clone / "pages" / platform).glob("*.md"))
    if not pages:
        raise InputError(
            f"{spec}: no pages/common/*.md in {clone}; give the path of a clone of tldr-pages"
        )
    head = _head_of_history(clone)
    read = partial(_read, clone, pages, qrels)
    return open_pairs("tldr", spec, pages, read, f"{__name__}:_read", head, qrels)


def _read(clone: Path, pages: list[Path], variant: str) -> converted.Parts:
    """Return the parts of the collection."""
    year_of_path = _years(clone)
    passages = {}
    split_of_passage = {}
    pairs = []
    for path in pages:
        page = _read_page(path)
        if page.is_alias:
            continue
        platform = path.parent.name
        doc_id = f"{platform}/{path.stem}"
        year = year_of_path.get(f"pages/{platform}/{path.name}", "")
        passages[doc_id] = page.passage
        split_of_passage[doc_id] = _split_of_year(year)
        attributes = {"platform": platform, "family": page.family, "year": year}
        pairs += [{"text": text, "doc_id": doc_id, **attributes} for text in page.queries]
    queries, qrels = numbered(pairs, clone)
    splits = split_by_question(qrels)
    if variant == BY_YEAR:
        splits = split_by_passage(qrels, split_of_passage)
    return parts_of(clone, passages, queries, splits)


def _read_page(path: Path) -> Page:
    """Return what a page says."""
    titles, summary, captions, commands = _lines_by_mark(path)
    if len(titles) != 1 or len(captions) != len(commands):
        counts = f"{len(titles)} titles, {len(captions)} captions and {len(commands)} commands"
        raise InputError(
            f"{path}:1: {counts}; a page has one title, and a command for each caption"
        )
    kept = [line for line in summary if not line.startswith(NOTES)]
    captions = [caption.rstrip(":") for caption in captions]
    commands = [command.strip("`") for command in commands]
    return Page(titles[0], " ".join(kept), captions, commands)


def _lines_by_mark(path: Path) -> list[list[str]]:
    """Return the lines of a page that begin with each of MARKS, without it."""
    lines: list[list[str]] = [[] for _ in MARKS]
    for number, line in numbered_lines(path):
        mark = line[0]
        if mark not in MARKS:
            raise InputError(
                f"{path}:{number}: {line[:80]!r} begins with none of {' '.join(MARKS)}, as lines "
                "of a page do; restore the file (git checkout)"
            )
        lines[MARKS.index(mark)].append(line[1:].strip())
    return lines


def _split_of_year(year: str) -> str:
    """Return the split of the pages of a year; "" where it is not known."""
    if not year:
        return ""
    if year <= LAST_OF_TRAIN:
        return "train"
    return "dev" if year == LAST_OF_DEV else "test"


def _head_of_history(clone: Path) -> str:
    """Return the commit of a clone; refuse one without its whole history."""
    is_shallow, head = _git(clone, "rev-parse", "--is-shallow-repository", "HEAD").split()
    if is_shallow == "true":
        raise _no_history(clone, "it is a shallow clone")
    return head


def _years(clone: Path) -> dict[str, str]:
    """Return the year of the first commit that added a page, path → year.

    A page that was moved, and changed little, was not added: git sees a renaming.
    """
    renamings = ("--find-renames=50%", "-l1000")  # git's own defaults, whatever a user has set
    dates = ("--format=%ad", "--date=format:%Y", "--no-show-signature")
    additions = ("log", "--diff-filter=A", "--name-only")
    log = _git(clone, *additions, *renamings, *dates, "--", "pages")
    years: dict[str, str] = {}
    year = ""
    for line in filter(None, log.splitlines()):
        if line.startswith("pages/"):
            years[line] = year  # the log goes back in time: the first commit comes last
        else:
            year = line
    return years


def _git(clone: Path, *arguments: str) -> str:
    """Return what git says of a clone; nothing is fetched, and no program of the clone is run."""
    options = ("--no-pager", "-c", "core.quotePath=false")
    command = ["git", "--git-dir=.git", *options, *arguments]
    environment = os.environ | {"GIT_ALLOW_PROTOCOL": "none"}
    try:
        done = subprocess.run(
            command,
            cwd=clone,  # paths are relative to it
            env=environment,
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise _no_history(clone, "git is not installed") from None
    except subprocess.CalledProcessError as error:
        raise _no_history(clone, f"git says: {one_line(error.stderr)}") from None
    return done.stdout


def _no_history(clone: Path, problem: str) -> InputError:
    """Return the error of a clone whose pages' years are not known."""
    return InputError(
        f"{clone}: the years of its pages are not known: {problem}; clone the repository with its "
        "history (git clone https://github.com/tldr-pages/tldr; of a shallow clone: "
        "git fetch --unshallow)"
    )

"""NL2Bash: descriptions written by programmers, and the one-line commands that do what they say.

Lin, Wang, Zettlemoyer and Ernst (LREC 2018), github.com/TellinaTool/nl2bash. The data set (the
folder data/bash) is under the MIT licence; the repository's code, which is not used, is GPL-3.0.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import zip_longest
from pathlib import Path

from interextra.data import converted
from interextra.data.collection import Collection
from interextra.data.pairs import numbered, open_pairs, parts_of, split_by_question
from interextra.data.trec import numbered_lines
from interextra.store.errors import InputError

DESCRIPTIONS = Path("data", "bash", "all.nl")
COMMANDS = Path("data", "bash", "all.cm")
UTILITY = re.compile(
    r"""
    (?:sudo\ |time\ |nohup\ )*+  # what runs another command
    (?:\(?\w+=\$?)?+             # an assignment
    (?:\$?\(|`)?\s*              # where a command begins whose output is used
    ([\w.-]+)
    """,
    re.VERBOSE,
)


def open_nl2bash(clone: Path, spec: str) -> Collection:
    """Open NL2Bash in a clone of the authors' repository.

    A passage is a command, a query a description, both with single spaces. Descriptions are the
    same where they differ in case or final dots alone; their text is the first one's, and so is
    their attribute `utility`, the first command that a line names. Splits are random. At commit
    466c5fe there are 10,594 passages and 11,308 queries. Equivalent commands in other words are
    not judged.

    Raises
    ------
    InputError
        A missing file, or a line without its pair in the other file.
    """
    files = [clone / DESCRIPTIONS, clone / COMMANDS]
    return open_pairs("nl2bash", spec, files, partial(_read, *files), f"{__name__}:_read")


def _read(descriptions: Path, commands: Path) -> converted.Parts:
    """Return the parts of the collection."""
    doc_ids: dict[str, str] = {}  # by command
    pairs = []
    for description, command in _lines(descriptions, commands):
        doc_id = doc_ids.setdefault(command, f"c{len(doc_ids)}")
        pair = {"text": description, "doc_id": doc_id, "utility": utility(command)}
        pairs.append(pair)
    queries, qrels = numbered(pairs, descriptions, _without_case_and_dots)
    passages = {doc_id: command for command, doc_id in doc_ids.items()}
    return parts_of(descriptions, passages, queries, split_by_question(qrels))


def _without_case_and_dots(description: str) -> str:
    """Return what is equal of descriptions that differ in case or final dots alone."""
    return description.lower().rstrip(".")


def _lines(descriptions: Path, commands: Path) -> Iterator[tuple[str, str]]:
    """Yield description and command of each line, with single spaces."""
    nothing = (0, "")
    both = zip_longest(numbered_lines(descriptions), numbered_lines(commands), fillvalue=nothing)
    for (number, description), (command_number, command) in both:
        description = " ".join(description.split())
        command = " ".join(command.split())
        if number == command_number and description and command:
            yield description, command
            continue
        first_number = min(filter(None, (number, command_number)))
        raise InputError(
            f"{descriptions}:{first_number}: a description without a command in "
            f"{commands.name}, or the other way round; take both files from one commit"
        )


def utility(command: str) -> str:
    """Return the first command that a line names, `other` where it begins with something else.

    Examples
    --------
    >>> utility("sudo find . -name x"), utility("n=$(wc -l f)"), utility("{ ls; }")
    ('find', 'wc', 'other')
    """
    found = UTILITY.match(command)
    return found[1] if found else "other"

"""What a profile needs from a network: collections of ir_datasets and models of the hub.

`interextra fetch` loads it, and nothing after it needs a network. What is here is not loaded again:
a fetch that was ended goes on with the files that it had not finished, each verified by its
checksum.
"""

import fcntl
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from interextra.data.load import open_collection, peek, published
from interextra.data.pricing import Asked, pricing
from interextra.models import hub
from interextra.models.prices import size_of
from interextra.site.parameters import read_overrides
from interextra.site.planning import planned
from interextra.store import InputError, cache_folder, offenders


class Item(NamedTuple):
    """A collection or a model that plans ask for.

    `revision`: of a model, empty where it will be that of the branch `main` when it is fetched;
    `download`: bytes still to load, None where they are not known; `disk`: the bytes that they
    become, an estimate; `by_hand`: how to get the files that are only handed out; `folders`: where
    it goes.
    """

    kind: str
    name: str
    revision: str
    is_here: bool
    download: int | None
    disk: int
    terms: str
    by_hand: list[str]
    folders: list[str]


def command_of(args: Namespace) -> str:
    """Return the command that fetches what a plan with these options needs."""
    words = ["interextra", "fetch", "--profile", args.profile]
    if args.only:
        words += ["--only", args.only]
    for parameter in args.parameter:
        words += ["-p", parameter]
    return shlex.join(words)


def missing(asked: Asked) -> list[str]:
    """Return the collections and the models that plans asked for and that are not here."""
    collections = [spec for spec in sorted(asked.collections) if peek(spec)]
    models = [model_id for model_id in sorted(asked.models) if hub.cached(model_id) is None]
    return collections + models


def advice(names: Sequence[str], command: str) -> str:
    """Return the line about what is not here, and what to do."""
    return (
        f"{len(names)} collections and models are not here ({offenders(names)}); this plan only "
        f"prices them and cannot be carried out. Fetch them, then plan again: `{command}`"
    )


def items_of(root: Path, args: Namespace) -> list[Item]:
    """Return what the plans of some notebooks need from a network.

    A file that several collections are read from is counted at the first of them.
    """
    overrides = read_overrides(root, args.only, args.parameter)
    with pricing() as asked:
        planned(root, args.profile, args.only, overrides)
    return items(asked)


def items(asked: Asked) -> list[Item]:
    """Return what plans asked for and a network has."""
    found = []
    counted: set[str] = set()
    for spec in sorted(asked.collections):
        item = _collection(spec, counted)
        if item:
            found.append(item)
    return found + [_model(model_id) for model_id in sorted(asked.models)]


def _collection(spec: str, counted: set[str]) -> Item | None:
    """Return a data set of ir_datasets, and add its files to those counted; None for any other."""
    found = published(spec)
    if found is None:
        return None
    archives = [archive for archive in found.archives if archive.address not in counted]
    counted.update(archive.address for archive in archives)
    sizes = [archive.n_bytes for archive in archives]
    n_bytes = sum(size or 0 for size in sizes)
    return Item(
        kind="collection",
        name=spec,
        revision="",
        is_here=found.is_here,
        download=None if None in sizes else n_bytes,
        disk=n_bytes + found.n_bytes_of_copies,
        terms=found.terms,
        by_hand=[archive.address for archive in archives if archive.by_hand],
        folders=[str(folder) for folder in found.folders],
    )


def _model(model_id: str) -> Item:
    """Return a model of the hub; its bytes are those of its kind, see `prices.SIZES`."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = hub.cached(model_id)
    n_bytes = 0
    revision = hub.REVISIONS.get(model_id, "")
    if folder:
        revision = folder.name
    else:
        n_bytes = int(size_of(model_id).megabytes * 1e6)
    return Item(
        kind="model",
        name=model_id,
        revision=revision,
        is_here=folder is not None,
        download=n_bytes,
        disk=n_bytes,
        terms=f"licence not stated here: read https://huggingface.co/{model_id}",
        by_hand=[],
        folders=[HF_HUB_CACHE],
    )


def listing(items: Sequence[Item]) -> str:
    """Return what is to be loaded, on which terms, and where it goes, for a reader."""
    import pandas as pd

    if not items:
        return "Nothing of this needs a network."
    table = pd.DataFrame([_row(item) for item in items])
    wanted = [item for item in items if not item.is_here]
    of_terms = [(item.terms, item) for item in wanted]
    of_folders = [(folder, item) for item in wanted for folder in item.folders]
    of_files = [(file, item) for item in wanted for file in item.by_hand]
    lines = [table.to_string(index=False), "", _sums(items)]
    lines += _section("Licences; who fetches accepts them:", of_terms)
    lines += _section("Into:", of_folders)
    lines += _section("Only handed out; put them there yourself:", of_files)
    return "\n".join(lines)


def _sums(items: Sequence[Item]) -> str:
    """Return how many items are here, and the bytes of the others."""
    n_here = sum(item.is_here for item in items)
    download = _gigabytes(sum(item.download or 0 for item in items))
    disk = _gigabytes(sum(item.disk for item in items))
    return (
        f"{n_here} of {len(items)} are here. {download} GB to load, which become about {disk} GB "
        "on disk (an estimate, as are the sizes of models)."
    )


def _row(item: Item) -> dict[str, str]:
    """Return an item as a row of the table."""
    name = item.name
    if item.kind == "model":
        name += f" @ {item.revision[:12] or 'main of that day'}"
    return {
        "what": name,
        "state": "here" if item.is_here else "to fetch",
        "GB to load": _gigabytes(item.download),
        "GB on disk": _gigabytes(item.disk),
    }


def _gigabytes(n_bytes: int | None) -> str:
    """Return bytes as gigabytes, for a reader."""
    return "not known" if n_bytes is None else f"{n_bytes / 1e9:,.2f}"


def _section(heading: str, lines: Iterable[tuple[str, Item]]) -> list[str]:
    """Return a heading and each line once, with the first items that it is about."""
    names_of_line: dict[str, list[str]] = {}
    for line, item in lines:
        names_of_line.setdefault(line, []).append(item.name)
    section = []
    for line, names in names_of_line.items():
        shown = ", ".join(names[:2])
        if len(names) > 2:
            shown += f" and {len(names) - 2} more"
        section.append(f"  {line}  [{shown}]")
    return ["", heading, *section] if section else []


def fetch(items: Sequence[Item]) -> dict[str, str]:
    """Load what is not here, one after the other, and say so on stderr.

    Returns
    -------
    dict
        Name of each that could not be loaded → why; the others are loaded nevertheless.
    """
    failures = {}
    wanted = [item for item in items if not item.is_here]
    with _alone():
        for number, item in enumerate(wanted, start=1):
            begin = time.monotonic()
            place = f"{number} of {len(wanted)}"
            print(f"{place}: {item.name}", file=sys.stderr, flush=True)
            try:
                _fetch(item)
            except InputError as error:
                failures[item.name] = str(error)
                print(f"  failed: {error}", file=sys.stderr, flush=True)
                continue
            seconds = time.monotonic() - begin
            print(f"  here after {seconds:,.0f} s", file=sys.stderr, flush=True)
    return failures


def _fetch(item: Item) -> None:
    """Load a collection and convert it, or load a model."""
    if item.kind == "collection":
        open_collection(item.name)
    else:
        hub.fetch_model(item.name)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process fetch at a time: two would write the same unfinished files."""
    path = cache_folder() / "fetch.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another fetch is going on; this one waits for it", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield

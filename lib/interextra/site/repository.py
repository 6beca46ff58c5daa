"""The repository that a command is run in, its notebooks, and where they write."""

import os
from pathlib import Path

from interextra.store.errors import InputError, offenders

NUMBERED = "[0-9][0-9]_*.ipynb"
INSTALLED = Path(__file__).resolve().parents[3]  # the repository of this package
SHARED = ("notebooks", "params", "outputs/reference")  # of a repository, in a house of one's own


def find_repository() -> Path | None:
    """Return the working directory, or one above it, that holds numbered notebooks and params/."""
    start = Path.cwd().resolve()
    for folder in (start, *start.parents):
        if _is_repository(folder):
            return folder
    return None


def _is_repository(folder: Path) -> bool:
    """Return whether a folder holds numbered notebooks and params/."""
    return any((folder / "notebooks").glob(NUMBERED)) and (folder / "params").is_dir()


def repository_root() -> Path:
    """Return the folder of `find_repository`.

    Raises
    ------
    InputError
        There is none.
    """
    root = find_repository()
    if root is None:
        raise InputError(
            f"{Path.cwd().resolve()} is not inside the repository: "
            "start from the folder with notebooks/ and params/"
        )
    return root


def house() -> Path:
    """Return the folder in which a notebook finds parameters and committed values, and writes.

    It is the repository that the notebook was opened in. Outside of one, and in one that is
    read-only, as on a shared server, it is `~/interextra`, with links to what is shared.

    Raises
    ------
    InputError
        There is no repository, neither here nor of the installed package.
    """
    here = find_repository()
    if here is not None and os.access(here, os.W_OK):
        return here
    repository = here or INSTALLED
    if not _is_repository(repository):
        return repository_root()  # which says what is wrong
    own = Path.home() / "interextra"
    for name in SHARED:
        _link(own / name, repository / name)
    return own


def _link(link: Path, target: Path) -> None:
    """Let a link lead to a target, also where it led to an earlier installation."""
    if link.is_symlink():
        if link.readlink() == target:
            return
        link.unlink()
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def notebooks(root: Path, only: str = "") -> list[Path]:
    """Return numbered notebooks in reading order.

    Parameters
    ----------
    root
        The repository.
    only
        A comma-separated list of numbers ("01,02") or names; empty: all.

    Raises
    ------
    InputError
        A number or name that no notebook has.
    """
    paths = sorted((root / "notebooks").glob(NUMBERED))
    wanted = {part.strip() for part in only.split(",")} - {""}
    if not wanted:
        return paths
    names = {path: {path.stem, path.stem[:2]} for path in paths}
    unknown = wanted.difference(*names.values())
    if unknown:
        there_are = ", ".join(path.stem for path in paths)
        raise InputError(f"no notebook {offenders(sorted(unknown))}; there are {there_are}")
    return [path for path in paths if names[path] & wanted]

"""The repository that a command is run in, and its notebooks."""

from pathlib import Path

from interextra.store.errors import InputError, offenders

NUMBERED = "[0-9][0-9]_*.ipynb"


def find_repository() -> Path | None:
    """Return the working directory, or one above it, that holds numbered notebooks and params/."""
    start = Path.cwd().resolve()
    for folder in (start, *start.parents):
        has_notebooks = any((folder / "notebooks").glob(NUMBERED))
        if has_notebooks and (folder / "params").is_dir():
            return folder
    return None


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

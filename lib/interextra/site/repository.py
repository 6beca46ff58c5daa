"""The repository that a command is run in, and its notebooks."""

from pathlib import Path

from interextra.store.errors import InputError, offenders


def repository_root() -> Path:
    """Return the folder that holds notebooks/ and params/: the working directory or one above it.

    Raises
    ------
    InputError
        There is none.
    """
    start = Path.cwd().resolve()
    for folder in (start, *start.parents):
        if (folder / "notebooks").is_dir() and (folder / "params").is_dir():
            return folder
    raise InputError(
        f"{start} is not inside the repository: start from the folder with notebooks/ and params/"
    )


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
    paths = sorted((root / "notebooks").glob("[0-9][0-9]_*.ipynb"))
    wanted = {part.strip() for part in only.split(",")} - {""}
    if not wanted:
        return paths
    names = {path: {path.stem, path.stem[:2]} for path in paths}
    unknown = wanted.difference(*names.values())
    if unknown:
        there_are = ", ".join(path.stem for path in paths)
        raise InputError(f"no notebook {offenders(sorted(unknown))}; there are {there_are}")
    return [path for path in paths if names[path] & wanted]

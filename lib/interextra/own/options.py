"""What an option of a command, or of `probe`, cannot be: out of bounds, or a text of no file."""

from argparse import Namespace
from typing import Any

from interextra.store import InputError

LARGEST_SEED = 2**31 - 1
SMALLEST_SHARE = 1e-9
BOUNDS: dict[str, tuple[float, float]] = {
    "size": (0, 1e9),
    "n_test": (0, 1e9),
    "negatives": (1, 1000),
    "n_boot": (40, 1e6),
    "k": (2, 1000),
    "seed": (0, LARGEST_SEED),
    "seeds": (0, LARGEST_SEED),
    "sizes": (0, 1e9),
    "near": (SMALLEST_SHARE, 1),
    "fail_above": (0, 1),
    "margin": (SMALLEST_SHARE, 1),
}


def refuse_numbers(args: Namespace) -> None:
    """Refuse a number out of bounds, and a seed that is named twice.

    Raises
    ------
    InputError
        The option, its value, and the bounds; what `args` lacks is not looked for.
    """
    for name, (low, high) in BOUNDS.items():
        if not hasattr(args, name):
            continue
        value = getattr(args, name)
        numbers = value if isinstance(value, list) else [value]
        is_valid = all(_is_within(number, low, high) for number in numbers)
        if not numbers or not is_valid or len(set(numbers)) < len(numbers):
            option = name.replace("_", "-")
            bounds = f"{low:g} to {high:g}"
            raise InputError(f"--{option} {value}: give {bounds}, none twice")


def _is_within(value: Any, low: float, high: float) -> bool:
    """Whether a value is a number within the bounds; NaN is in none."""
    return isinstance(value, int | float) and low <= value <= high


def refuse_texts(args: Namespace) -> None:
    """Refuse a text that can be no path and stand in no file: not UTF-8, or with a NUL."""
    for name, value in vars(args).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not _is_writable(text):
                shown = text.encode(errors="backslashreplace").decode().replace("\0", "\\0")
                raise InputError(
                    f"{name} {shown[:80]!r}: holds a NUL or bytes that are not UTF-8; "
                    "rename what it names"
                )


def _is_writable(text: str) -> bool:
    """Whether UTF-8 can hold a text, and a path, too."""
    return "\0" not in text and text == text.encode(errors="ignore").decode()

"""What an option of a command, or of `probe`, cannot be: numbers out of bounds, texts that no file
can hold.
"""

from argparse import Namespace

from interextra.store import InputError

BOUNDS = {
    "size": (0, 1e9),
    "n_test": (0, 1e9),
    "negatives": (1, 1000),
    "n_boot": (40, 1e6),
    "k": (2, 1000),
}
BOUNDS |= {"seed": (0, 2**31 - 1), "seeds": (0, 2**31 - 1), "near": (1e-9, 1), "margin": (1e-9, 1)}


def refuse_numbers(args: Namespace) -> None:
    """InputError for a number out of bounds, or a seed that is named twice."""
    for name, (low, high) in BOUNDS.items():
        value = getattr(args, name, low)
        several = value if isinstance(value, list) else [value]
        is_number = all(isinstance(number, int | float) for number in several)
        is_within = is_number and all(low <= number <= high for number in several)
        if not several or not is_within or len(set(several)) < len(several):
            raise InputError(
                f"--{name.replace('_', '-')} {value}: give {low:g} to {high:g}, none twice"
            )


def refuse_texts(args: Namespace) -> None:
    """InputError for a text that can be no path and stand in no file: of bytes that are not UTF-8,
    or with a NUL.
    """
    for name, value in vars(args).items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and (
                "\0" in text or text != text.encode(errors="ignore").decode()
            ):
                told = text.encode(errors="backslashreplace").decode().replace("\0", "\\0")
                raise InputError(
                    f"{name} {told[:80]!r}: holds a NUL or bytes that are not UTF-8; rename what it names"
                )

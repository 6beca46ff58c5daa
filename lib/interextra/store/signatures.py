"""Signatures: which code computes the same.

`golden.yaml` beside this module holds, for each kind of cell, its VERSION, what small samples of it
gave, and the digests of the code that gave just that. `make golden` computes the samples with
today's code and signs it where all of them agree (tools/golden.py).
"""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

GOLDEN = Path(__file__).with_name("golden.yaml")


def same(before: Any, now: str) -> bool:
    """Whether a result that older code made is what today's code would compute.

    Parameters
    ----------
    before
        Digest of the code in the note of the result, or whatever else stands there.
    now
        Digest of today's code of the same kind.
    """
    if before == now:
        return True
    kinds = kinds_signed()
    if not isinstance(before, str) or before not in kinds:
        return False
    return kinds[before] == kinds.get(now)


@cache
def kinds_signed() -> dict[str, str]:
    """Return signed digest of code → kind of cell that it computes, for one VERSION of the kind."""
    if not GOLDEN.is_file():
        return {}
    kinds = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
    return {digest: kind for kind, entry in kinds.items() for digest in entry["signed"]}

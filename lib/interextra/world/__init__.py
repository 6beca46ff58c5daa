"""The generated world behind the embedded collection, and small out-of-domain worlds.

They are generated from the facts in YAML files.
"""

from typing import Any

from interextra.world.generate import World, generate_mini, generate_ood, ood_names
from interextra.world.truth import entity_overlap, floor, intent_overlap

__all__ = ["entity_overlap", "floor", "generate", "generate_mini", "intent_overlap", "ood_names"]


def generate(name: str, **parameters: Any) -> World:
    """Return the world `mini` or an out-of-domain collection (see `ood_names`).

    `parameters` are those of `generate_mini` or of `generate_ood`.
    """
    if name == "mini":
        return generate_mini(**parameters)
    return generate_ood(name, **parameters)

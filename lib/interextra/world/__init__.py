"""The generated world behind the embedded collection and small out-of-domain worlds.

The YAML files hold domains, entities, values and wordings; compose.py writes passages and queries from them, plan.py
holds facts out of training so that overlap comes out as asked, truth.py says what is true of the result.
"""

from interextra.world.generate import World, generate_mini, generate_ood, ood_names
from interextra.world.truth import entity_overlap, floor, intent_overlap

__all__ = ["entity_overlap", "floor", "generate", "generate_mini", "intent_overlap", "ood_names"]


def generate(name: str, **parameters) -> World:
    """The world `mini` with the parameters of `generate_mini`, or an out-of-domain collection (see `ood_names`)."""
    return generate_mini(**parameters) if name == "mini" else generate_ood(name, **parameters)

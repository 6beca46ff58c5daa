"""The generated world behind the embedded collection."""

from interextra.data.world.generate import World, generate
from interextra.data.world.truth import entity_overlap, floor, intent_overlap

__all__ = ["World", "entity_overlap", "floor", "generate", "intent_overlap"]

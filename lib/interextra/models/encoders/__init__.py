"""Encoders of queries without training of ours.

An encoder is a module of this folder, named before the first colon of `NAME:OPTION`. It has

FORM       how it is written
encoder    (name as written, texts) → an object with encode_queries(texts) -> float32[n, d]; LSA is fitted on `texts`
size       name as written → what prices it; InputError for one that there is not
"""

from types import ModuleType

from interextra.ground.errors import InputError
from interextra.models import modules_with


def encoder_module(spec: str) -> ModuleType:
    """The module of an encoder; InputError with the known ones."""
    known = modules_with("FORM", __name__)
    name = spec.partition(":")[0]
    if name not in known:
        forms = ", ".join(module.FORM for module in known.values())
        raise InputError(f"no encoder {spec!r}: write {forms}, or trained for a dense model")
    return known[name]

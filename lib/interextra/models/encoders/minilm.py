"""all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

from collections.abc import Sequence

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.base import quiet, verified_minilm
from interextra.models.cost import SIZES, Size
from interextra.models.topk import device

FORM = "minilm"


def size(spec: str) -> Size:
    if spec != "minilm":
        raise InputError(f"encoder {spec!r}: write minilm, or cls:{spec}")
    return SIZES["minilm"]


def encoder(spec: str, texts: Sequence[str]) -> "MiniLM":
    return MiniLM()


class MiniLM:
    """The published model."""

    def __init__(self):
        from sentence_transformers import SentenceTransformer

        quiet()
        self._model = SentenceTransformer(str(verified_minilm()), device=device(), trust_remote_code=False)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._model.encode(list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

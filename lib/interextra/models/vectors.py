"""Encoders for query similarity: texts to vectors, without training of ours or from a trained model."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.base import quiet, verified_minilm
from interextra.models.topk import device


def encoder(spec: str | Path, texts: Sequence[str] | None = None, seed: int = 0):
    """An object with `encode_queries(texts) -> float32[n, d]`.

    Parameters
    ----------
    spec
        `lsa` (TF-IDF and truncated SVD, fitted on `texts`), `lsa:dimensions=N` (default 64), `minilm`,
        `cls:INITIALISATION` (the [CLS] vector of a model as it comes, see `Recipe.initialisation`),
        or the folder of a trained dense model.
    texts
        What lsa is fitted on.
    seed
        Of the SVD.
    """
    name, _, option = str(spec).partition(":")
    if name == "lsa":
        dimensions = option.removeprefix("dimensions=") or "64"
        if (option and not option.startswith("dimensions=")) or not dimensions.isdecimal() or not int(dimensions):
            raise InputError(f"encoder {spec!r}: write lsa or lsa:dimensions=N")
        if texts is None or not len(texts):
            raise InputError("encoder lsa is fitted on texts; give texts=…")
        return LSA(texts, int(dimensions), seed)
    if str(spec) == "minilm":
        return MiniLM()
    if name == "cls" and option:
        from interextra.models import dense
        from interextra.models.recipe import Recipe

        untuned = Recipe(architecture="dense", initialisation=option, pooling="cls", steps=0, query_length=64)
        return dense.Dense(dense.build(untuned, seed), untuned)
    if not Path(spec).is_dir():
        known = "lsa, minilm, cls:INITIALISATION, or the folder of a trained dense model"
        raise InputError(f"no encoder {str(spec)!r}: write {known}")
    from interextra.models import load_model

    model = load_model(spec)
    if not hasattr(model, "encode_queries"):
        raise InputError(f"{spec} holds a model without query vectors; give a dense one")
    return model


class LSA:
    """Latent semantic analysis: TF-IDF (sublinear) and truncated SVD, rows of length 1.

    >>> LSA(["a red fox", "a blue fox", "the sea"], dimensions=2).encode_queries(["fox"]).shape
    (1, 2)
    """

    def __init__(self, texts: Sequence[str], dimensions: int = 64, seed: int = 0):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._weights = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
        counts = self._weights.fit_transform(texts)
        dimensions = max(1, min(dimensions, min(counts.shape) - 1))
        self._svd = TruncatedSVD(dimensions, random_state=seed).fit(counts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._svd.transform(self._weights.transform(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)  # a text of unknown words stays zero


class MiniLM:
    """all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

    def __init__(self):
        from sentence_transformers import SentenceTransformer

        quiet()
        self._model = SentenceTransformer(str(verified_minilm()), device=device(), trust_remote_code=False)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._model.encode(list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True)
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

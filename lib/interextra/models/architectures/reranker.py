"""Cross-encoder reranker: query and passage read together, over the first passages of BM25
(sentence-transformers).
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from interextra.models.architectures import bm25
from interextra.models.recipe import PositiveInt, Trained
from interextra.models.retriever import Neural, reopen, transformer
from interextra.models.search.topk import device

LABEL = "Reranker"
COLOUR = "#D55E00"
ENCODES_QUERIES, INTERACTS = False, True
BLOCK = 64  # queries reranked at once: memory only, the result does not depend on it


class Options(Trained, bm25.Options):
    scores: ClassVar[tuple[str, ...]] = ("pairs",)

    pooling: Literal["cls", "mean"] = "cls"
    # both: as many positives of the batch's other queries as random passages
    negatives: Literal["random", "both", "bm25"] = "random"
    rerank_depth: PositiveInt = 1000  # so many passages of BM25
    first_stage_weight: float = Field(
        0.0, ge=0, le=1
    )  # of BM25's score in the final one, both standardised per query

    @property
    def longest(self) -> int:
        return self.query_length + self.passage_length  # both are read together

    def drawn(self) -> int:
        return self.batch_size * self.n_negatives * (2 if self.negatives == "both" else 1)

    def scored_pairs(self, steps: int) -> int:
        return steps * (self.batch_size + self.drawn())

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        pair = self.query_length + self.passage_length
        return self._cost(
            n_train, (self.batch_size + self.drawn()) * pair, n_queries * self.rerank_depth * pair
        )


class Reranker(Neural):
    """BM25's first `rerank_depth` passages in the order of a `CrossEncoder`; below them the rest,
    as BM25 ranked it.
    """

    def __init__(self, model, recipe: Options, first_stage: bm25.BM25):
        super().__init__(model, recipe)
        self.first_stage = first_stage

    def search(self, collection, texts: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        """The k best passages for each query text, as `topk.exact_search` gives them."""
        depth, weight = self.recipe.rerank_depth, self.recipe.first_stage_weight
        place = collection.passages.tie_order[1]
        found = self.first_stage.search(collection, texts, max(k, depth))
        parts = []
        for start in range(0, len(texts), BLOCK):
            rows, scores = (part[start : start + BLOCK] for part in found)
            scored = self.score(collection.passages, texts[start : start + BLOCK], rows[:, :depth])
            if weight:
                scored = (1 - weight) * standardised(scored) + weight * standardised(
                    scores[:, :depth]
                )
            parts.append(below(rows, scores, scored, place, k))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))

    def score(self, passages, texts: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """The cross-encoder's scores of each text with its own passages `rows` [n, k]: float32,
        -inf for padding.
        """
        import torch

        there = rows >= 0
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        found = zip(np.nonzero(there)[0], passages.texts(rows[there]), strict=True)
        pairs = [[texts[i], passage] for i, passage in found]
        options = {"batch_size": 128, "show_progress_bar": False, "pool": self.pool}
        scores[there] = self.model.predict(pairs, activation_fn=torch.nn.Identity(), **options)
        return scores


def standardised(scores: np.ndarray) -> np.ndarray:
    """Scores float32[n, k] less their query's mean over its passages, in standard deviations; -inf
    (padding) stays.

    >>> standardised(np.array([[1.0, 3.0, -np.inf]])).tolist()
    [[-1.0, 1.0, -inf]]
    """
    there = np.isfinite(scores)
    n = np.maximum(there.sum(axis=1, keepdims=True), 1)
    apart = np.where(there, scores, 0)
    apart = np.where(there, apart - apart.sum(axis=1, keepdims=True) / n, 0)
    spread = np.sqrt((apart**2).sum(axis=1, keepdims=True) / n)
    return np.where(there, apart / np.where(spread > 0, spread, 1), -np.inf).astype(np.float32)


def below(first, first_scores, scored, place: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Reranked passages above, the rest of the first stage below in its own order: (rows, scores)
    [n, k].

    first, first_scores: int32, float32 [n, depth], the ranking of the first stage, padding row -1
    with score -inf; scored: float32[n, r], r ≤ depth, new scores of its first r passages; place:
    `passages.tie_order[1]`. The rest is shifted below the lowest new score of its query by the
    difference of the first stage's scores.
    """
    lowest = np.where(np.isfinite(scored), scored, np.inf).min(axis=1, keepdims=True)
    rest = first_scores[:, scored.shape[1] :]
    # a query without any hit has neither a lowest new score nor a first old one
    fall = np.subtract(
        rest, first_scores[:, :1], out=np.full_like(rest, -np.inf), where=np.isfinite(rest)
    )
    rest = np.where(np.isfinite(lowest), lowest, 0) - 1 + fall
    scores = np.concatenate([scored, rest.astype(np.float32)], axis=1)
    order = np.lexsort((np.where(first >= 0, place[first], len(place)), -scores), axis=1)[:, :k]
    return np.take_along_axis(first, order, axis=1), np.take_along_axis(scores, order, axis=1)


def build(recipe: Options, seed: int):
    """The untrained `CrossEncoder` of a recipe, on the device: one score from the pooled vector of
    the pair.

    Query and passage are told apart by BERT's segment ids, also where the checkpoint's tokenizer
    leaves them out.
    """
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    words = transformer(recipe, seed, max_seq_length=recipe.longest)
    if (
        getattr(words.config, "type_vocab_size", 1) > 1
        and "token_type_ids" not in words.tokenizer.model_input_names
    ):
        names = [*words.tokenizer.model_input_names, "token_type_ids"]
        words.tokenizer.model_input_names = words.tokenizer.init_kwargs["model_input_names"] = (
            names  # … is saved
        )
    torch.manual_seed(seed)
    size = words.get_embedding_dimension()
    head = Dense(size, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    return CrossEncoder(
        modules=[words, Pooling(size, pooling_mode=recipe.pooling), head], device=device()
    )


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, out_dir: Path, **given: Path
) -> dict:
    """Tune BM25's k1 and b, train a cross-encoder and save both; see
    `interextra.models.model.fit`.
    """
    from interextra.models.training.trainer import PairLoss, train

    tuned = bm25.fit(recipe, collection, query_ids, split, seed, out_dir)
    log = train(
        PairLoss(build(recipe, seed), recipe),
        recipe,
        collection,
        query_ids,
        split,
        seed,
        out_dir,
        **given,
    )
    return log | {"first_stage": {name: tuned[name] for name in ("k1", "b", "tuning_queries")}}


def load(out_dir: Path, recipe: Options) -> Reranker:
    return Reranker(reopen("CrossEncoder", out_dir, recipe), recipe, bm25.load(out_dir, recipe))

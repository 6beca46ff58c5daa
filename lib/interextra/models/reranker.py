"""Cross-encoder reranker: query and passage read together, over the first passages of BM25 (sentence-transformers)."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from interextra.models import bm25
from interextra.models.pairs import Pairs, bm25_negatives
from interextra.models.recipe import Recipe
from interextra.models.retriever import reopen, transformer
from interextra.models.topk import Kept, device, devices, digest, tie_order


class Reranker:
    """BM25's first `rerank_depth` passages in the order of a `CrossEncoder`; below them the rest, as BM25 ranked it."""

    def __init__(self, model, recipe: Recipe, first_stage: bm25.BM25, key: str = ""):
        self.model, self.recipe, self.first_stage, self.key, self._pool = model, recipe, first_stage, key, None

    def search(
        self,
        collection,
        queries: Sequence[str],
        k: int,
        block_size: int = 64,
        resume_dir: str | Path | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `interextra.models.topk`.

        Parameters
        ----------
        block_size
            Queries reranked at once: memory only, the result does not depend on it.
        resume_dir
            Finished blocks are kept there, so that an interrupted search goes on at the block.
        """
        first, first_scores = self.first_stage.search(collection, queries, max(k, self.recipe.rerank_depth))
        place = tie_order(collection.passages)[1]
        key = f"{self.key}:{collection.fingerprint}:{k}:{block_size}:{digest(queries)}"
        state = Kept(resume_dir, key)
        rows, scores, names = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.float32), []
        for start in range(0, len(queries), block_size):
            here = slice(start, start + block_size)
            names.append(f"{start:010d}")
            block = state.read(names[-1])
            if block is None:
                scored = self._score(collection, queries[here], first[here, : self.recipe.rerank_depth])
                pair = below(first[here], first_scores[here], scored, place, k)
                block = dict(zip(("rows", "scores"), pair, strict=True))
                state.write(names[-1], block)
            rows[here], scores[here] = block["rows"], block["scores"]
        for name in names:
            state.drop(name)
        return rows, scores

    def _score(self, collection, queries: Sequence[str], rows: np.ndarray) -> np.ndarray:
        """Scores float32 of the pairs, -inf where a row is padding."""
        import torch

        there = rows >= 0
        scores = np.full(rows.shape, -np.inf, dtype=np.float32)
        texts = collection.passages.texts(rows[there])
        if not texts:
            return scores
        pairs = [[queries[i], text] for i, text in zip(np.nonzero(there)[0], texts, strict=True)]
        options = {}
        if len(devices()) > 1:
            self._pool = self._pool or self.model.start_multi_process_pool(devices())
            options["pool"] = self._pool
        found = self.model.predict(
            pairs, batch_size=128, show_progress_bar=False, activation_fn=torch.nn.Identity(), **options
        )
        scores[there] = np.asarray(found, dtype=np.float32)
        return scores


def below(
    first: np.ndarray, first_scores: np.ndarray, scored: np.ndarray, place: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Reranked passages above, the rest of the first stage below in its own order.

    Parameters
    ----------
    first, first_scores
        int32, float32 [n, depth] ranking of the first stage, padding row -1 with score -inf
    scored
        float32[n, r], r ≤ depth: new scores of its first r passages
    place
        `tie_order(passages)[1]`: ties by doc_id descending

    Returns
    -------
    (rows int32[n, k], scores float32[n, k])
        The rest is shifted below the lowest new score of its query by the difference of the first stage's scores.
    """
    depth = scored.shape[1]
    lowest = np.where(np.isfinite(scored), scored, np.inf).min(axis=1, keepdims=True)
    rest = first_scores[:, depth:]
    # a query without any hit has neither a lowest new score nor a first old one
    fall = np.subtract(rest, first_scores[:, :1], out=np.full_like(rest, -np.inf), where=np.isfinite(rest))
    rest = np.where(np.isfinite(lowest), lowest, 0) - 1 + fall
    scores = np.concatenate([scored, rest.astype(np.float32)], axis=1)[:, : max(depth, k)]
    rows = first[:, : scores.shape[1]]
    order = np.lexsort((np.where(rows >= 0, place[rows], len(place)), -scores), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)


def build(recipe: Recipe, seed: int):
    """The untrained `CrossEncoder` of a recipe, on the device: one score from the pooled vector of the pair.

    Query and passage are told apart by BERT's segment ids, also where the checkpoint's tokenizer leaves them out.
    """
    import torch
    from sentence_transformers import CrossEncoder
    from sentence_transformers.base.modules import Dense
    from sentence_transformers.sentence_transformer.modules import Pooling

    words = transformer(recipe, seed, max_seq_length=recipe.query_length + recipe.passage_length)
    if getattr(words.config, "type_vocab_size", 1) > 1 and "token_type_ids" not in words.tokenizer.model_input_names:
        names = [*words.tokenizer.model_input_names, "token_type_ids"]
        words.tokenizer.model_input_names = words.tokenizer.init_kwargs["model_input_names"] = names  # … is saved
    torch.manual_seed(seed)
    size = words.get_embedding_dimension()
    head = Dense(size, 1, activation_function=torch.nn.Identity(), module_output_name="scores")
    modules = [words, Pooling(size, pooling_mode=recipe.pooling), head]
    return CrossEncoder(modules=modules, device=device())


class PairBatches:
    """Collator: each positive with its negatives, as pairs of query and passage: [positives, negatives 1, …]."""

    valid_label_columns = ("label",)

    def __init__(self, model, pairs: Pairs, collection, recipe: Recipe, seed: int):
        self.model, self.pairs, self.passages, self.recipe, self.seed = model, pairs, collection.passages, recipe, seed
        depth = recipe.negative_depth if recipe.negatives == "bm25" else 0
        self.mined = bm25_negatives(collection, pairs, depth)

    def __call__(self, examples: list[dict]) -> dict:
        import torch

        from interextra.models.training import draw_mined

        at = np.array([example["pair"] for example in examples])
        query = self.pairs.query[at]
        draw = np.random.default_rng([self.seed, *at.tolist()])
        negatives = draw_mined(draw, self.mined[query], self.recipe.n_negatives, len(self.passages))
        rows = np.concatenate([self.pairs.rows[at][None], negatives.T])  # [1 + n_negatives, batch]
        texts = self.passages.texts(rows.ravel())
        asked = [self.pairs.texts[i] for i in query] * len(rows)
        coded = self.model.preprocess([list(pair) for pair in zip(asked, texts, strict=True)])
        return {f"pair_{key}": value for key, value in coded.items()} | {"label": torch.tensor(rows.shape)}


def _loss(model, recipe: Recipe):
    import torch

    from interextra.models.training import ranking_loss

    class PairLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, features, shape, prompt=None, task=None):
            scores = self.model(features[0])["scores"].view(*shape.tolist()).T  # [batch, 1 + n_negatives]
            return ranking_loss(scores[:, :1], scores[:, 1:], recipe.loss, recipe.temperature)

    return PairLoss()


def fit(recipe: Recipe, collection, query_ids: Sequence[str], split: str, seed: int, out_dir: Path) -> dict:
    """Tune BM25's k1 and b, train a cross-encoder and save both; see `interextra.models.fit`."""
    from sentence_transformers import CrossEncoderTrainer, CrossEncoderTrainingArguments

    from interextra.models.training import Setting, train

    tuned = bm25.fit(recipe, collection, query_ids, split, seed, out_dir)
    setting = Setting(CrossEncoderTrainer, CrossEncoderTrainingArguments, _loss, PairBatches)
    log = train(setting, build(recipe, seed), recipe, collection, query_ids, split, seed, out_dir)
    return log | {"first_stage": {name: tuned[name] for name in ("k1", "b", "tuning_queries")}}


def load(out_dir: Path, recipe: Recipe) -> Reranker:
    """The model that `fit` wrote."""
    from sentence_transformers import CrossEncoder

    model, key = reopen(CrossEncoder, out_dir, recipe)
    return Reranker(model, recipe, bm25.load(out_dir, recipe), key)

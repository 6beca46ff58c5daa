"""TAS-Balanced as a loss that composes its batches itself: what the trainer hands over seeds the draw, no more."""

import numpy as np
import torch
from sentence_transformers.util import batch_to_device

from interextra.models.losses import losses


class TopicAware(torch.nn.Module):
    """`topics`: a `tas_balanced.Topics`; `teacher`: a ColBERT, which scores all passages of a batch.

    `batches` are set by `training.train`: its texts, its passages, its tokens and its seed.
    """

    def __init__(self, model, recipe, topics, teacher):
        super().__init__()
        self.model, self.recipe, self.topics, self.teacher, self.batches = model, recipe, topics, teacher, None

    def forward(self, features, label):
        made = self.topics.drawn(np.random.default_rng([self.batches.seed, *label[:, 0].tolist()]), len(label))
        self.batches.count(made["negative"])
        texts = [self.batches.pairs.texts[row] for row in made["query"]]
        passages = self.batches.passages.texts(np.concatenate([made["positive"], made["negative"]]))
        taught = self.teacher.open_queries(texts)(self.teacher.encode_block(passages))(slice(None))  # [batch, 2 batch]
        margin = torch.as_tensor(made["margin"], dtype=torch.float32, device=taught.device).unsqueeze(1)
        goal = torch.cat([margin, taught.diagonal().unsqueeze(1) - taught], dim=1)
        queries, found = self.encoded(texts, "query", label.device), self.encoded(passages, "document", label.device)
        lengths, loss = (queries.shape[1], *self.recipe.truncations), losses()[self.recipe.loss]
        parts = []
        for length in lengths:
            scores = queries[:, :length] @ found[:, :length].T / self.recipe.temperature  # [batch, 2 batch]
            good, own = (scores.diagonal(offset).unsqueeze(1) for offset in (0, len(queries)))
            parts.append(loss(good, torch.cat([own, scores], dim=1), goal, self.recipe))
        return torch.stack(parts).mean()

    def encoded(self, texts, task: str, device) -> torch.Tensor:
        coded = batch_to_device(self.batches.tokens.preprocess(texts, task=task), device)
        return self.model(coded, task=task)["sentence_embedding"]

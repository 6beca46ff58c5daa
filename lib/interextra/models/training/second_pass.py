"""The loss of `compressed` with the model that it trains; TAS-Balanced draws its own batches."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sentence_transformers.base.modules import Dense
from sentence_transformers.util import batch_to_device
from torch import Tensor

from interextra.models.architectures import dense
from interextra.models.training.trainer import INNER_PRODUCT, QueryBatches, SharedNegatives
from interextra.store.errors import InputError


class LossAtLengths(SharedNegatives):
    """The mean of a recipe's loss over the whole vectors and those cut to each of `truncations`.

    `MatryoshkaLoss` of sentence-transformers takes cosines; a search of vectors that were cut takes
    inner products.

    Parameters
    ----------
    recipe
        `compressed.Options`, or those of an architecture that follows it.
    seed
        Of the layer that `dimension` adds.

    Raises
    ------
    InputError
        Where a truncation is as long as the vectors.
    """

    def __init__(self, recipe: Any, seed: int) -> None:
        model = dense.build(recipe, seed)
        width = model.get_embedding_dimension()
        dimension = recipe.dimension or width
        longest = max(recipe.truncations, default=0)
        if longest >= dimension:
            raise InputError(
                f"truncations: {longest} of {dimension} dimensions: give shorter lengths"
            )
        if recipe.dimension:
            torch.manual_seed(seed)
            layer = Dense(width, dimension, recipe.bias, torch.nn.Identity())
            model.insert(2, layer.to(model.device))  # after words and pooling
        super().__init__(model, recipe, INNER_PRODUCT)

    def compute_loss_from_embeddings(self, columns: Sequence[Tensor], label: Tensor) -> Tensor:
        """Return the mean of the loss of a batch over the lengths."""
        losses = []
        for length in (columns[0].shape[1], *self.recipe.truncations):
            cut = [column[:, :length] for column in columns]
            losses.append(super().compute_loss_from_embeddings(cut, label))
        return torch.stack(losses).mean()


class TopicAware(LossAtLengths):
    """The loss of TAS-Balanced: what the trainer hands over only seeds the draw of a batch.

    `topics` is a `tas_balanced.TopicBatches`, which draws it.
    """

    batches: QueryBatches  # set by the trainer

    def __init__(self, recipe: Any, seed: int, topics: Any) -> None:
        super().__init__(recipe, seed)
        self.topics = topics

    def forward(self, features: object, label: Tensor) -> Tensor:
        """Draw a batch of as many pairs as `label` has rows; return its loss."""
        batches = self.batches
        positive = label[:, 0]
        generator = np.random.default_rng([batches.seed, *positive.tolist()])
        pairs = self.topics.draw(generator, len(label))
        batches.count(pairs["negative"])
        texts = batches.texts_of(pairs["query"])
        rows = np.append(pairs["negative"], pairs["positive"])
        none_barred = torch.zeros_like(label[:, :1], dtype=torch.bool)
        teacher_scores = batches.goal(
            batches.teacher, batches.passages, texts, pairs["positive"], rows, none_barred
        )
        margins = torch.as_tensor(pairs["margin"]).to(teacher_scores)
        goal = torch.column_stack([margins, teacher_scores])
        queries = self._encoded(texts, "query", label.device)
        passages = self._encoded(batches.passages.texts(rows), "document", label.device)
        positives = passages[len(label) :]
        return self.compute_loss_from_embeddings([queries, positives, passages], goal)

    def _encoded(self, texts: list[str], task: str, device: torch.device) -> Tensor:
        """Encode queries or passages, float[n, d]."""
        tokens = self.batches.tokens.preprocess(texts, task=task)
        output = self.model(batch_to_device(tokens, device), task=task)
        return self.scoring.represent(output)

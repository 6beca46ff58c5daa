"""The loss of `compressed` with the model that it trains; TAS-Balanced takes it on batches of its
own.
"""

import numpy as np
import torch
from sentence_transformers.base.modules import Dense
from sentence_transformers.util import batch_to_device

from interextra.models.architectures import dense
from interextra.models.training.trainer import INNER_PRODUCT, SharedNegatives
from interextra.store.errors import InputError


class AtLengths(SharedNegatives):
    """The mean of a recipe's loss over the whole vectors and their first so many numbers, of each
    of its `truncations`.

    `MatryoshkaLoss` of sentence-transformers takes cosines; a search of vectors that were cut takes
    inner products.
    """

    def __init__(self, recipe, seed: int):
        model = dense.build(recipe, seed)
        width = model.get_embedding_dimension()
        if (longest := max(recipe.truncations, default=0)) >= (kept := recipe.dimension or width):
            raise InputError(f"truncations: {longest} of {kept} dimensions: give shorter lengths")
        if recipe.dimension:  # drawn anew, after words and pooling
            torch.manual_seed(seed)
            model.insert(2, Dense(width, kept, recipe.bias, torch.nn.Identity()).to(model.device))
        super().__init__(model, recipe, *INNER_PRODUCT)

    def compute_loss_from_embeddings(self, columns, label):
        at, lengths = (
            super().compute_loss_from_embeddings,
            (columns[0].shape[1], *self.recipe.truncations),
        )
        return torch.stack(
            [at([column[:, :length] for column in columns], label) for length in lengths]
        ).mean()


class TopicAware(AtLengths):
    """What the trainer hands over seeds the draw of `topics`, a `tas_balanced.Topics`, no more; it
    sets `batches`.
    """

    def forward(self, features, label):
        given, draw = (
            self.batches,
            np.random.default_rng([self.batches.seed, *label[:, 0].tolist()]),
        )
        made = self.topics.drawn(draw, len(label))
        given.count(made["negative"])
        texts, rows = (
            [given.pairs.texts[row] for row in made["query"]],
            np.append(made["negative"], made["positive"]),
        )
        taught = given.goal(
            given.teacher, given.passages, texts, made["positive"], rows, label[:, :1] < 0
        )
        margin = torch.as_tensor(made["margin"], dtype=taught.dtype, device=taught.device)[:, None]
        columns = []
        for task, read in {"query": texts, "document": given.passages.texts(rows)}.items():
            coded = batch_to_device(given.tokens.preprocess(read, task=task), label.device)
            columns.append(self.represent(self.model(coded, task=task)))
        columns = [
            columns[0],
            columns[1][len(label) :],
            columns[1],
        ]  # queries, their passages, all passages
        return self.compute_loss_from_embeddings(columns, torch.cat([margin, taught], dim=1))

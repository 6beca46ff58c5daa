"""Tokenized texts that are kept: in a training the same passages come again and again."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from interextra.models.retriever import transformers_of

Columns = dict[str, Tensor]  # of a batch, or the row of one text in it

KEPT = 100_000  # texts; more than a small collection has, less than memory holds


class Tokens:
    """Gives what `preprocess` of a model of sentence-transformers gives.

    Each text is tokenized once.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.padding = transformers_of(model)[0].tokenizer.pad_token_id
        self.kept: dict[tuple[str, str], Columns] = {}  # task and text → its row without padding

    def preprocess(self, texts: list, task: str = "") -> dict[str, Any]:
        """Return tensors [n, longest] and the modality.

        Pairs of texts, which have no task, are never kept.
        """
        if not task:
            return self.model.preprocess(texts)
        if len(self.kept) > KEPT:
            self.kept.clear()
        new = [text for text in dict.fromkeys(texts) if (task, text) not in self.kept]
        if new and not self._keep(new, task):
            return self.model.preprocess(texts, task=task)
        rows = [self.kept[task, text] for text in texts]
        return self._padded(rows)

    def _keep(self, texts: list[str], task: str) -> bool:
        """Tokenize and keep texts; False where more than padding follows their tokens.

        That is so with the query expansion of ColBERT.
        """
        batch = self.model.preprocess(texts, task=task)
        is_token = batch["attention_mask"].bool()
        if (batch["input_ids"][~is_token] != self.padding).any():
            return False
        for row, text in enumerate(texts):
            kept = self.kept[task, text] = {}
            for name, column in batch.items():
                if torch.is_tensor(column):
                    kept[name] = column[row, is_token[row]]
        return True

    def _padded(self, rows: list[Columns]) -> dict[str, Any]:
        """Make a batch of kept rows."""
        batch: dict[str, Any] = {}
        for name in rows[0]:
            padding = self.padding if name == "input_ids" else 0
            column = [row[name] for row in rows]
            batch[name] = pad_sequence(column, batch_first=True, padding_value=padding)
        return batch | {"modality": "text"}

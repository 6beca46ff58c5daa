"""Tokenized texts that are kept: in a training the same passages come again and again."""

import torch
from torch.nn.utils.rnn import pad_sequence

from interextra.models.retriever import transformers_of

KEPT = 100_000  # texts; more than a small collection has, less than memory holds


class Tokens:
    """Gives what `preprocess` of a model of sentence-transformers gives, but tokenizes each text
    once.
    """

    def __init__(self, model):
        self.model, self.padding = model, transformers_of(model)[0].tokenizer.pad_token_id
        self.kept: dict[
            tuple[str, str], dict[str, torch.Tensor]
        ] = {}  # task and text → its row without padding

    def preprocess(self, texts: list, task: str = "") -> dict:
        """Tensors [n, longest] and the modality; pairs of texts, which have no task, are never
        kept.
        """
        if not task:
            return self.model.preprocess(texts)
        if len(self.kept) > KEPT:
            self.kept.clear()
        if new := [text for text in dict.fromkeys(texts) if (task, text) not in self.kept]:
            coded = self.model.preprocess(new, task=task)
            mask = coded["attention_mask"].bool()
            if (
                coded["input_ids"][~mask] != self.padding
            ).any():  # more than padding: ColBERT's query expansion
                return self.model.preprocess(texts, task=task)
            tensors = {name: column for name, column in coded.items() if torch.is_tensor(column)}
            for row, text in enumerate(new):
                self.kept[task, text] = {
                    name: column[row][mask[row]] for name, column in tensors.items()
                }
        rows = [self.kept[task, text] for text in texts]
        pads = {name: self.padding if name == "input_ids" else 0 for name in rows[0]}
        padded = {
            name: pad_sequence([row[name] for row in rows], True, pad) for name, pad in pads.items()
        }
        return {**padded, "modality": "text"}

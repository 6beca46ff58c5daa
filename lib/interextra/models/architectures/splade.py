"""SPLADE: a weight for every word of the vocabulary, ranked by inner product of sparse vectors
(sentence-transformers).

The weight of a word is max over the text's tokens of log(1 + ReLU(logit)), the logits those of a
masked-LM head (Formal et al. 2021, SPLADE v2; without distillation). FLOPS regularisation makes the
vectors sparse.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from interextra.models.base import initialisation
from interextra.models.recipe import Trained, Weight
from interextra.models.retriever import Encoder, reopen, transformer
from interextra.models.search.topk import device
from interextra.store.errors import InputError

LABEL = "SPLADE"
COLOUR = "#009E73"
ENCODES_QUERIES, INTERACTS = True, False


class Options(Trained):
    """The weights of the FLOPS regularisation grow quadratically over the first third of the steps,
    up to these.
    """

    scores: ClassVar[tuple[str, ...]] = ("batch", "query")

    query_flops: Weight = 3e-4
    passage_flops: Weight = 1e-4

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        """Two to three times that of a dense retriever: the head gives each token a logit for every
        word.
        """
        cost = super().cost(n_train, n_passages, n_queries)
        return {
            name: value * (2.5 if name.endswith("seconds") else 1) for name, value in cost.items()
        }


class Splade(Encoder):
    """A sparse encoder; wraps a `SparseEncoder`. A block, of passages or of queries: scipy's CSR
    [n, vocabulary].
    """

    block_size = 1024  # a block is dense, passages × vocabulary, before it is made sparse
    query_block = 512

    def encode_block(self, texts: Sequence[str], task: str = "document"):
        from scipy import sparse

        found = []
        for start in range(0, len(texts), self.block_size):
            some = texts[start : start + self.block_size]
            dense = self._encode(some, task, convert_to_sparse_tensor=False, save_to_cpu=True)
            found.append(sparse.csr_matrix(np.asarray(dense.float())))
        return sparse.vstack(found, format="csr")

    def open_queries(self, texts: Sequence[str]) -> Callable:
        import torch

        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        queries = self.encode_block(texts, "query")

        def open_block(block):
            arrays = [
                torch.as_tensor(part).to(device())
                for part in (block.indptr, block.indices, block.data)
            ]
            passages = torch.sparse_csr_tensor(*arrays, size=block.shape, check_invariants=False)
            return lambda here: (
                passages @ torch.as_tensor(queries[here].toarray().T).to(device())
            ).T.contiguous()

        return open_block


def build(recipe: Options, seed: int):
    """The untrained `SparseEncoder` of a recipe, on the device; InputError for an encoder without
    head that is no BERT.

    A checkpoint that was saved with its masked-LM head is taken as it is. One that was saved
    without gets the identity before the tied word embeddings, so that a token speaks for itself
    from the start; random weights there would drown it. Such a head, and those of the package's own
    bases, start sparse (`_sparse_start`).
    """
    import torch
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    words = transformer(recipe, seed, transformer_task="fill-mask")
    start = initialisation(recipe.initialisation)
    headless = not start.random and not re.search(
        "MaskedLM|PreTraining", " ".join(words.config.architectures or [])
    )
    if headless:
        try:
            linear = words.model.cls.predictions.transform.dense
        except AttributeError:
            raise InputError(
                f"initialisation {recipe.initialisation!r} has no masked-LM head that SPLADE could use; "
                "give a checkpoint that was saved with one (…ForMaskedLM), or a BERT"
            ) from None
        torch.nn.init.eye_(linear.weight)
        torch.nn.init.zeros_(linear.bias)
    if (
        headless or (Path(start.source) / "recipe.json").is_file()
    ):  # the note that our pretraining leaves
        _sparse_start(words)
    return _max_first(
        SparseEncoder(modules=[words, SpladePooling(pooling_strategy="max")], device=device())
    )


def _max_first(model):
    """Let the model take the maximum over the tokens before log(1 + ReLU), which is monotonic: the
    same, and faster.
    """
    from interextra.models.max_over_tokens import MaxOverTokens

    # what it gives has one token a text: the library's pooling cuts the mask to it
    model[0].model.get_output_embeddings().__class__ = MaxOverTokens
    model[0].register_forward_pre_hook(_hand_mask)
    return model


def _hand_mask(words, inputs) -> None:
    words.model.get_output_embeddings().mask = inputs[0]["attention_mask"]


def _sparse_start(words) -> None:
    """Lower all logits by one constant, so that only one in 1,000 is above 0 for texts of random
    words.

    A masked-LM head does not know where 0 is: its softmax takes any constant. After a short
    pretraining, or none, most words are above 0, every text says nearly every word, and all steps
    of a short training go into unsaying them.
    """
    import torch

    probe = torch.randint(
        words.config.vocab_size, (16, 20), generator=torch.Generator().manual_seed(0)
    )
    probe[:, 0], probe[:, -1] = words.tokenizer.cls_token_id, words.tokenizer.sep_token_id
    with torch.no_grad():
        logits = words.model(
            input_ids=probe, attention_mask=torch.ones_like(probe)
        ).logits.flatten()
        words.model.get_output_embeddings().bias -= logits.topk(len(logits) // 1000).values[-1]


def splade_loss(model, recipe: Options):
    """The ranking loss of all encoders plus FLOPS of queries and passages (Formal et al. 2021,
    section 3.2).
    """
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

    from interextra.models.training.trainer import INNER_PRODUCT, SharedNegatives

    weights = {
        "query_regularizer_weight": recipe.query_flops,
        "document_regularizer_weight": recipe.passage_flops,
    }
    return SpladeLoss(model, SharedNegatives(model, recipe, *INNER_PRODUCT), **weights)


def fit(
    recipe: Options, collection, query_ids, split: str, seed: int, out_dir: Path, **given: Path
) -> dict:
    from interextra.models.training.trainer import train

    return train(
        splade_loss(build(recipe, seed), recipe),
        recipe,
        collection,
        query_ids,
        split,
        seed,
        out_dir,
        **given,
    )


def load(out_dir: Path, recipe: Options) -> Splade:
    return Splade(_max_first(reopen("SparseEncoder", out_dir, recipe)), recipe)

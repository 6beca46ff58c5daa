"""SPLADE: a weight for every word of the vocabulary, ranked by inner product of sparse vectors.

The weight of a word is max over the text's tokens of log(1 + ReLU(logit)), the logits those of a
masked-LM head (Formal et al. 2021, SPLADE v2; without distillation). FLOPS regularisation makes the
vectors sparse. The models are those of sentence-transformers.
"""

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from interextra.data.collection import Collection
from interextra.models.base import initialisation
from interextra.models.recipe import Trained, Weight
from interextra.models.retriever import Encoder, reopen, transformer
from interextra.models.search.topk import device
from interextra.store.errors import InputError

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix
    from sentence_transformers import SparseEncoder
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

LABEL = "SPLADE"
COLOUR = "#009E73"
ENCODES_QUERIES = True


class Options(Trained):
    """The recipe of a SPLADE.

    The weights of the FLOPS regularisation grow quadratically over the first third of the steps, up
    to these.
    """

    scores: ClassVar[tuple[str, ...]] = ("batch", "query")
    has_head: ClassVar[bool] = True

    query_flops: Weight = 3e-4
    passage_flops: Weight = 1e-4


class Splade(Encoder):
    """A sparse encoder; wraps a `SparseEncoder`.

    A block, of passages or of queries, is scipy's CSR [n, vocabulary].
    """

    block_size = 1024  # a block is dense, passages × vocabulary, before it is made sparse
    query_block = 512

    def encode_block(self, texts: Sequence[str], task: str = "document") -> "csr_matrix":
        """Encode passages, or with the task `query` queries."""
        from scipy import sparse

        parts = []
        for start in range(0, len(texts), self.block_size):
            some_texts = texts[start : start + self.block_size]
            dense = self._encode(some_texts, task, convert_to_sparse_tensor=False, save_to_cpu=True)
            parts.append(sparse.csr_matrix(np.asarray(dense.float())))
        return sparse.vstack(parts, format="csr")

    def open_queries(self, texts: Sequence[str]) -> Callable:
        """Return the `open_block` of `topk.exact_search` for query texts."""
        import torch

        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        queries = self.encode_block(texts, "query")

        def open_block(block: "csr_matrix") -> Callable:
            """Return the scores of some queries with a block of passages."""
            arrays = [
                torch.as_tensor(array).to(device())
                for array in (block.indptr, block.indices, block.data)
            ]
            passages = torch.sparse_csr_tensor(*arrays, size=block.shape, check_invariants=False)

            def scores(some_queries: slice) -> torch.Tensor:
                """Return float32[queries, passages]."""
                columns = queries[some_queries].toarray().T
                scores = passages @ torch.as_tensor(columns).to(device())
                return scores.T.contiguous()

            return scores

        return open_block


def build(recipe: Options, seed: int) -> "SparseEncoder":
    """Return the untrained model of a recipe, on the device.

    A checkpoint that was saved with its masked-LM head is taken as it is. One that was saved
    without gets the identity before the tied word embeddings, so that a token speaks for itself
    from the start; random weights there would drown it. Such a head, and those of the package's own
    bases, start sparse (`_sparse_start`).

    Raises
    ------
    InputError
        For an encoder without a head that is no BERT.
    """
    from sentence_transformers import SparseEncoder
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    words = transformer(recipe, seed, transformer_task="fill-mask")
    start = initialisation(recipe.initialisation)
    saved_classes = " ".join(words.config.architectures or [])
    has_head = start.random or re.search("MaskedLM|PreTraining", saved_classes)
    if not has_head:
        _set_identity_head(words, recipe)
    # our own pretraining leaves this note
    is_own_base = (Path(start.source) / "recipe.json").is_file()
    if is_own_base or not has_head:
        _sparse_start(words)
    pooling = SpladePooling(pooling_strategy="max")
    return _max_first(SparseEncoder(modules=[words, pooling], device=device()))


def _set_identity_head(words: "Transformer", recipe: Options) -> None:
    """Make the masked-LM head of a BERT the identity; InputError where there is none."""
    import torch

    try:
        linear = words.model.cls.predictions.transform.dense
    except AttributeError:
        raise InputError(
            f"initialisation {recipe.initialisation!r} has no masked-LM head that SPLADE could "
            "use; give a checkpoint that was saved with one (…ForMaskedLM), or a BERT"
        ) from None
    torch.nn.init.eye_(linear.weight)
    torch.nn.init.zeros_(linear.bias)


def _max_first(model: "SparseEncoder") -> "SparseEncoder":
    """Let the model take the maximum over the tokens first, and log(1 + ReLU) of it alone.

    As that is monotonic, the weights are the same, and come faster.
    """
    from interextra.models.max_over_tokens import MaxOverTokens

    # what it gives has one token for each text: the library's pooling cuts the mask to it
    model[0].model.get_output_embeddings().__class__ = MaxOverTokens
    model[0].register_forward_pre_hook(_hand_mask)
    return model


def _hand_mask(words: "Transformer", inputs: tuple[dict]) -> None:
    """Tell the head which of the tokens that come are no padding."""
    words.model.get_output_embeddings().mask = inputs[0]["attention_mask"]


def _sparse_start(words: "Transformer") -> None:
    """Lower all logits by one constant, so that few words are above 0 in a text.

    Of the logits of texts of random words one in 1,000 stays above 0.

    A masked-LM head does not know where 0 is: its softmax takes any constant. After a short
    pretraining, or none, most words are above 0, every text says nearly every word, and all steps
    of a short training go into unsaying them.
    """
    import torch

    generator = torch.Generator().manual_seed(0)
    texts = torch.randint(words.config.vocab_size, (16, 20), generator=generator)
    texts[:, 0] = words.tokenizer.cls_token_id
    texts[:, -1] = words.tokenizer.sep_token_id
    with torch.no_grad():
        output = words.model(input_ids=texts, attention_mask=torch.ones_like(texts))
        logits = output.logits.flatten()
        highest = logits.topk(len(logits) // 1000).values
        words.model.get_output_embeddings().bias -= highest[-1]


def splade_loss(model: "SparseEncoder", recipe: Options) -> "SpladeLoss":
    """Return the ranking loss of all encoders plus FLOPS of queries and passages.

    Source: Formal et al. 2021, section 3.2.
    """
    from sentence_transformers.sparse_encoder.losses import SpladeLoss

    from interextra.models.training.trainer import INNER_PRODUCT, SharedNegatives

    return SpladeLoss(
        model,
        SharedNegatives(model, recipe, INNER_PRODUCT),
        query_regularizer_weight=recipe.query_flops,
        document_regularizer_weight=recipe.passage_flops,
    )


def fit(
    recipe: Options,
    collection: Collection,
    query_ids: Sequence[str],
    split: str,
    seed: int,
    out_dir: Path,
    **inputs: Path,
) -> dict:
    """Train a SPLADE and save it to `out_dir`, see `interextra.models.model.fit`."""
    from interextra.models.training.trainer import train

    loss = splade_loss(build(recipe, seed), recipe)
    return train(loss, recipe, collection, query_ids, split, seed, out_dir, **inputs)


def load(out_dir: Path, recipe: Options) -> Splade:
    """Open the model that `fit` saved to `out_dir`."""
    return Splade(_max_first(reopen("SparseEncoder", out_dir, recipe)), recipe)

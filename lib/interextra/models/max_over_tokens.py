"""The head of SPLADE: for each text and word the largest logit over the text's tokens.

A plain head makes a logit for every token and word, and its gradient goes back through all of them.
Only the largest one of each word has a gradient, and only where it is above 0 (log(1 + ReLU)
follows), so that going back costs next to nothing and the step of a small encoder about half. The
weights are those of the plain head.
"""

import torch
from torch import Tensor
from torch.nn.functional import linear

TEXTS = 16  # whose logits, tokens × vocabulary each, are held at once


class MaxOverTokens(torch.nn.Linear):
    """A head that gives one row of logits for each text; before each call its `mask` is set.

    `mask` is [texts, tokens], 0 for padding.
    """

    mask: Tensor

    def forward(self, hidden: Tensor) -> Tensor:
        """Return float[texts, 1, words], the largest logits, of hidden [texts, tokens, d]."""
        return _LargestLogits.apply(hidden, self.mask, self.weight, self.bias).unsqueeze(1)


class _LargestLogits(torch.autograd.Function):
    """Logits of a linear layer, the largest over the tokens, with a sparse gradient."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        hidden: Tensor,
        mask: Tensor,
        weight: Tensor,
        bias: Tensor,
    ) -> Tensor:
        """Return float[texts, words], and keep at which token each of them stands."""
        largest, places = [], []
        blocks = zip(hidden.split(TEXTS), mask.split(TEXTS), strict=True)
        for some_hidden, some_mask in blocks:
            # words × tokens: quick maxima over neighbours
            logits = linear(weight, some_hidden.flatten(0, 1))
            is_padding = some_mask.flatten() == 0
            logits[:, is_padding] = -torch.inf
            logits = logits.unflatten(1, some_mask.shape)
            if any(ctx.needs_input_grad):
                some_largest, some_places = logits.max(dim=2)
                places.append(some_places.T)
            else:
                some_largest = logits.amax(dim=2)
            largest.append(some_largest.T)
        if places:
            ctx.save_for_backward(hidden, weight, torch.cat(places))
        return torch.cat(largest) + bias

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, gradient: Tensor
    ) -> tuple[Tensor, None, Tensor, Tensor]:
        """Return the gradients of hidden, mask (none), weight and bias."""
        hidden, weight, places = ctx.saved_tensors
        n_texts, n_tokens, _ = hidden.shape
        text, word = gradient.nonzero(as_tuple=True)
        token = text * n_tokens + places[text, word]
        logits_gradient = torch.sparse_coo_tensor(
            torch.stack([token, word]),
            gradient[text, word].float(),
            (n_texts * n_tokens, len(weight)),
            check_invariants=False,
        )
        if logits_gradient.is_cuda:
            logits_gradient = logits_gradient.to_dense()  # sparse products of CUDA do not repeat
        hidden_gradient = logits_gradient @ weight.float()
        weight_gradient = logits_gradient.t() @ hidden.float().flatten(0, 1)
        bias_gradient = gradient.sum(dim=0)
        return (
            hidden_gradient.view_as(hidden).to(hidden.dtype),
            None,
            weight_gradient.to(weight.dtype),
            bias_gradient.to(weight.dtype),
        )

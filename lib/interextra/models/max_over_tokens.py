"""The head of SPLADE: for each text and word the largest logit over the text's tokens, with a
sparse gradient.

A plain head makes a logit for every token and word, and its gradient goes back through all of them.
Only the largest one of each word has a gradient, and only where it is above 0 (log(1 + ReLU)
follows), so that going back costs next to nothing and the step of a small encoder about half. The
weights are those of the plain head.
"""

import torch
from torch.nn.functional import linear

TEXTS = 16  # whose logits, tokens × vocabulary each, are held at once


class MaxOverTokens(torch.nn.Linear):
    """hidden float[texts, tokens, d] → float[texts, 1, words]. Before each call its `mask` [texts,
    tokens] is set.
    """

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return _Largest.apply(hidden, self.mask, self.weight, self.bias).unsqueeze(1)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, mask, weight, bias):
        tops, places = [], []
        for some, real in zip(hidden.split(TEXTS), mask.split(TEXTS), strict=True):
            logits = linear(
                weight, some.flatten(0, 1)
            )  # words × tokens: quick maxima over neighbours
            logits[:, real.flatten() == 0] = -torch.inf
            logits = logits.unflatten(1, real.shape)
            if any(ctx.needs_input_grad):
                top, place = logits.max(dim=2)
                places.append(place.T)
            else:
                top = logits.amax(dim=2)
            tops.append(top.T)
        if places:
            ctx.save_for_backward(hidden, weight, torch.cat(places))
        return torch.cat(tops) + bias

    @staticmethod
    def backward(ctx, gradient):
        hidden, weight, places = ctx.saved_tensors
        texts, tokens, _ = hidden.shape
        text, word = gradient.nonzero(as_tuple=True)
        at = torch.stack([text * tokens + places[text, word], word])
        shape = (texts * tokens, len(weight))
        through = torch.sparse_coo_tensor(
            at, gradient[text, word].float(), shape, check_invariants=False
        )
        through = (
            through.to_dense() if through.is_cuda else through
        )  # sparse products of CUDA do not repeat
        of_hidden = (through @ weight.float()).view_as(hidden).to(hidden.dtype)
        of_weight = (through.t() @ hidden.float().flatten(0, 1)).to(weight.dtype)
        return of_hidden, None, of_weight, gradient.sum(dim=0).to(weight.dtype)

"""Pretrain the tiny base encoder, a BERT of 2 × 64, on passages about invented things.

`python -m tools.pretrain` writes the folder models/base/ anew. What makes so small a model learn to
match tokens in four minutes, instead of staying on the unigram plateau: names that are new in each
passage and repeat within it, masking of single tokens, a start from which attention copies equal
tokens, a high learning rate, and a bag-of-words loss on [CLS]. Half of the text is that of other
worlds (`other_worlds_text`), where names repeat; the other half are passages as `mini` has them,
with all names replaced by invented ones, for what words mean. No query of `mini` and no pair of
query and passage is in it, so no relevance leaks into the base. Taught in notebook 06.
"""

import itertools
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM, get_linear_schedule_with_warmup

from interextra.data.load import open_collection
from interextra.models.base import BASE, WEIGHTS, quiet
from interextra.models.training.objectives import masked, new_model
from interextra.store.files import sha256, write_json
from tools.other import other_worlds_text
from tools.pretrain_text import (
    SPECIAL,
    rare_words,
    renamed_passages,
    repeated_names,
    token_ids,
    train_tokenizer,
)

VOCABULARY = 4000
BATCH = 32
EVERY = 500  # steps between two rows of the curve
WEIGHT_OF_BAG = 0.3  # of the bag-of-words loss beside the masked-LM loss
CURVE_COLUMNS = ["step", "masked_lm_loss", "bag_of_words_loss", "matching_accuracy"]


def matching_accuracy(
    model: BertForMaskedLM, ids: np.ndarray, places: Sequence[tuple[int, int]], mask_id: int
) -> float:
    """Return the share of masked name tokens that the model copies from their other occurrence.

    Parameters
    ----------
    model : the base.
    ids : int[n_texts, length], tokens.
    places : (text, position) of the tokens to mask, at most one a text.
    mask_id : the token in their place.
    """
    if not places:
        return 0.0
    rows, positions = np.array(places).T
    tokens = torch.as_tensor(ids[rows].astype(np.int64))
    masked_positions = (torch.arange(len(tokens)), torch.as_tensor(positions))
    truth = tokens[masked_positions]
    tokens[masked_positions] = mask_id
    model.eval()
    with torch.inference_mode():
        hidden = model.bert(input_ids=tokens, attention_mask=tokens > 0).last_hidden_state
        guess = model.cls(hidden[masked_positions]).argmax(dim=1)
    model.train()
    return float((guess == truth).float().mean())


def rarity(ids: np.ndarray, vocabulary: int) -> np.ndarray:
    """Return the logarithm of (texts / texts that hold the token), float32[vocabulary].

    0 for special tokens.
    """
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    pairs = np.unique(rows * vocabulary + ids.ravel())  # of a text and a token
    n_texts_with = np.bincount(pairs % vocabulary, minlength=vocabulary)
    weight = np.log(len(ids) / np.maximum(n_texts_with, 1)).astype(np.float32)
    weight[: len(SPECIAL)] = 0
    return weight


def train(
    model: BertForMaskedLM,
    ids: np.ndarray,
    steps: int,
    seed: int,
    mask_id: int,
    measure: Callable[[], float],
) -> list[list]:
    """Train a model in place by masked language modelling and a bag of words.

    Parameters
    ----------
    model : the base.
    ids : int[n_texts, length], tokens.
    steps : of the optimiser.
    seed : of batches and masks.
    mask_id : the token in the place of a masked one.
    measure : the accuracy of the model at a time.

    Returns
    -------
    list of [step, masked-LM loss, bag-of-words loss, accuracy]
        Every `EVERY` steps, means since the row before.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimiser, 100, steps)
    weight = torch.as_tensor(rarity(ids, model.config.vocab_size))
    sums = torch.zeros(2)
    curve = []
    for step in range(1, steps + 1):
        tokens = _batch(ids, generator)
        losses = _losses(model, tokens, weight, mask_id, generator)
        optimiser.zero_grad()
        (losses[0] + WEIGHT_OF_BAG * losses[1]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        sums += losses.detach()
        if step % EVERY == 0:
            means = [round(float(loss) / EVERY, 4) for loss in sums]
            curve.append([step, *means, round(measure(), 4)])
            sums.zero_()
    return curve


def _batch(ids: np.ndarray, generator: torch.Generator) -> torch.Tensor:
    """Return the tokens of a random batch, int64[BATCH, length of its longest text]."""
    rows = torch.randint(len(ids), (BATCH,), generator=generator).numpy()
    tokens = torch.as_tensor(ids[rows].astype(np.int64))
    longest = int((tokens > 0).sum(dim=1).max())
    return tokens[:, :longest]


def _losses(
    model: BertForMaskedLM,
    tokens: torch.Tensor,
    weight: torch.Tensor,
    mask_id: int,
    generator: torch.Generator,
) -> torch.Tensor:
    """Return the masked-LM loss and the bag-of-words loss of a batch, float[2]."""
    vocabulary = len(weight)
    inputs, chosen = masked(tokens, mask_id, len(SPECIAL), vocabulary, generator)
    hidden = model.bert(input_ids=inputs, attention_mask=tokens > 0).last_hidden_state
    masked_loss = cross_entropy(model.cls(hidden[chosen]), tokens[chosen])
    # [CLS] names the words of the passage: cross entropy against them, the rarer the heavier
    bag = torch.zeros(len(tokens), vocabulary).scatter_(1, tokens, 1.0) * weight
    bag_loss = cross_entropy(model.cls(hidden[:, 0]), bag / bag.sum(dim=1, keepdim=True))
    return torch.stack([masked_loss, bag_loss])


def pretrain(
    texts: Sequence[str], tokenizer_texts: Iterable[str], steps: int, seed: int, out_dir: Path
) -> dict[str, Any]:
    """Train the base, write it to a folder, and return its recipe.json.

    Parameters
    ----------
    texts : what it reads; the last 2,000, or a tenth, are held out.
    tokenizer_texts : what the tokenizer reads before them.
    steps : of the optimiser.
    seed : of weights, batches and masks.
    out_dir : the folder.
    """
    quiet()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    tokenizer = train_tokenizer([*tokenizer_texts, *texts], VOCABULARY)
    ids = token_ids(tokenizer, texts)
    n_held = min(2000, len(texts) // 10)
    places = repeated_names(tokenizer, texts[-n_held:], rare_words(texts))
    model = new_model(len(tokenizer), seed)

    def accuracy() -> float:
        """Return the matching accuracy on the texts that are held out."""
        return matching_accuracy(model, ids[-n_held:], places, tokenizer.mask_token_id)

    curve = train(model, ids[:-n_held], steps, seed, tokenizer.mask_token_id, accuracy)
    model.save_pretrained(out_dir, safe_serialization=True)
    tokenizer.save_pretrained(out_dir)
    recipe = {
        "what": "BertForMaskedLM pretrained on generated passages about invented things; "
        "no query, no relevance",
        "seed": seed,
        "steps": steps,
        "passages": len(texts) - n_held,
        "parameters": model.num_parameters(),
        "held_out_names": len(places),
        "held_out_matching_accuracy": accuracy(),
        "curve_columns": CURVE_COLUMNS,
        "curve": curve,
        "versions": _versions(),
        "sha256": _digests(out_dir),
    }
    write_json(out_dir / "recipe.json", recipe)
    return recipe


def _versions() -> dict[str, str]:
    """Return the versions of what trains, without those of a build."""
    modules = (torch, transformers, tokenizers)
    return {module.__name__: module.__version__.split("+")[0] for module in modules}


def _digests(folder: Path) -> dict[str, str]:
    """Return the digests of the files of the base."""
    names = sorted([WEIGHTS, "config.json", "tokenizer.json"])
    return {name: sha256(folder / name) for name in names}


def main() -> None:
    """Write the base anew."""
    # 100 texts a world, and 2,600 a world
    texts = [*other_worlds_text(20, 800), *renamed_passages(20, 30)]
    order = np.random.default_rng(20).permutation(len(texts))
    blocks = open_collection("mini").passages.batches(10_000)
    texts_of_mini = itertools.chain.from_iterable(block for _, block in blocks)
    # 14,000 steps copy names better (.83 against .72) but are a worse start for dense retrieval
    # (RR@10 .60, not .68)
    print(pretrain([texts[row] for row in order], texts_of_mini, 5_000, 20, BASE))


if __name__ == "__main__":
    main()

"""Pretrain the tiny base encoder, a BERT of 2 × 64, on passages about invented things.

`python -m tools.pretrain` writes the folder models/base/ anew. What makes so small a model learn to
match tokens in four minutes, instead of staying on the unigram plateau: names that are new in each
passage and repeat within it, masking of single tokens, a start from which attention copies equal
tokens, a high learning rate, and a bag-of-words loss on [CLS]. Half of the text is that of other
worlds (`other_worlds_text`), where names repeat; the other half are passages as `mini` has them,
with all names replaced by invented ones, for what words mean. No query of `mini` and no pair of
query and passage is in it, so no relevance leaks into the base. Taught in notebook 06.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
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

SEED = 20
VOCABULARY = 4000
BATCH = 32
EVERY = 500  # steps between two rows of the curve
WEIGHT_OF_BAG = 0.3  # of the bag-of-words loss beside the masked-LM loss
FILES = sorted([WEIGHTS, "config.json", "tokenizer.json"])
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
    texts, positions = np.array(places).T
    ids_of_texts = ids[texts].astype(np.int64)
    tokens = torch.as_tensor(ids_of_texts)
    rows = torch.arange(len(tokens))
    masked_positions = (rows, torch.as_tensor(positions))
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
    n_texts, length = ids.shape
    rows = np.repeat(np.arange(n_texts), length)
    pairs = np.unique(rows * vocabulary + ids.ravel())  # of a text and a token
    n_texts_with = np.bincount(pairs % vocabulary, minlength=vocabulary)
    weight = np.log(n_texts / np.maximum(n_texts_with, 1))
    weight[: len(SPECIAL)] = 0
    return weight.astype(np.float32)


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
            masked_loss, bag_loss = sums.tolist()
            row = [masked_loss / EVERY, bag_loss / EVERY, measure()]
            rounded = [round(value, 4) for value in row]
            curve.append([step, *rounded])
            sums.zero_()
    return curve


def _batch(ids: np.ndarray, generator: torch.Generator) -> torch.Tensor:
    """Return the tokens of a random batch, int64[BATCH, length of its longest text]."""
    rows = torch.randint(len(ids), (BATCH,), generator=generator)
    ids_of_batch = ids[rows.numpy()].astype(np.int64)
    tokens = torch.as_tensor(ids_of_batch)
    lengths = (tokens > 0).sum(dim=1)
    return tokens[:, : lengths.max()]


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
    logits = model.cls(hidden[chosen])
    masked_loss = cross_entropy(logits, tokens[chosen])
    # [CLS] names the words of the passage: cross entropy against them, the rarer the heavier
    is_word = torch.zeros(len(tokens), vocabulary).scatter_(1, tokens, 1.0)
    bag = is_word * weight
    words = bag / bag.sum(dim=1, keepdim=True)
    logits_of_passage = model.cls(hidden[:, 0])
    bag_loss = cross_entropy(logits_of_passage, words)
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
    names = rare_words(texts)
    places = repeated_names(tokenizer, texts[-n_held:], names)
    model = new_model(len(tokenizer), seed)
    mask_id = tokenizer.mask_token_id
    accuracy = partial(matching_accuracy, model, ids[-n_held:], places, mask_id)
    curve = train(model, ids[:-n_held], steps, seed, mask_id, accuracy)
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
        "sha256": {name: sha256(out_dir / name) for name in FILES},
    }
    write_json(out_dir / "recipe.json", recipe)
    return recipe


def _versions() -> dict[str, str]:
    """Return the versions of what trains, without those of a build."""
    versions = {}
    for module in (torch, transformers, tokenizers):
        versions[module.__name__] = module.__version__.partition("+")[0]
    return versions


def main() -> None:
    """Write the base anew."""
    # 100 texts a world, and 2,600 a world
    texts = [*other_worlds_text(SEED, 800), *renamed_passages(SEED, 30)]
    order = np.random.default_rng(SEED).permutation(len(texts))
    shuffled = [texts[row] for row in order]
    texts_of_mini: list[str] = []
    for _, block in open_collection("mini").passages.batches(10_000):
        texts_of_mini += block
    # 14,000 steps copy names better (.83 against .72) but are a worse start for dense retrieval
    # (RR@10 .60, not .68)
    print(pretrain(shuffled, texts_of_mini, 5_000, SEED, BASE))


if __name__ == "__main__":
    main()

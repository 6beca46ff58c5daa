"""The tiny base encoder: a BERT of 2 × 64 pretrained on passages about invented things.

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

import numpy as np
import tokenizers
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers import get_linear_schedule_with_warmup

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

VOCABULARY, BATCH, EVERY = 4000, 32, 500


def matching_accuracy(
    model, ids: np.ndarray, places: Sequence[tuple[int, int]], mask_id: int
) -> float:
    """Share of masked name tokens that the model copies from their other occurrence."""
    if not places:
        return 0.0
    rows, positions = (torch.as_tensor(column) for column in zip(*places, strict=True))
    tokens = torch.as_tensor(ids[rows.numpy()].astype(np.int64))
    span = torch.arange(len(tokens))
    truth = tokens[span, positions]
    tokens[span, positions] = mask_id
    model.eval()
    with torch.inference_mode():
        hidden = model.bert(input_ids=tokens, attention_mask=tokens > 0).last_hidden_state
        guess = model.cls(hidden[span, positions]).argmax(dim=1)
    model.train()
    return float((guess == truth).float().mean())


def rarity(ids: np.ndarray, vocabulary: int) -> np.ndarray:
    """Logarithm of (texts / texts that hold the token), float32[vocabulary]; 0 for special
    tokens.
    """
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    held = np.unique(rows * vocabulary + ids.ravel()) % vocabulary
    weight = np.log(len(ids) / np.maximum(np.bincount(held, minlength=vocabulary), 1)).astype(
        np.float32
    )
    weight[: len(SPECIAL)] = 0
    return weight


def train(
    model, ids: np.ndarray, steps: int, seed: int, mask_id: int, report: Callable[[], float]
) -> list[list]:
    """Masked-LM training in place; [step, masked-LM loss, bag-of-words loss, accuracy] every
    `EVERY` steps.
    """
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimiser, 100, steps)
    vocabulary, curve, sums = model.config.vocab_size, [], torch.zeros(2)
    weight = torch.as_tensor(rarity(ids, vocabulary))
    for step in range(1, steps + 1):
        rows = torch.randint(len(ids), (BATCH,), generator=generator).numpy()
        tokens = torch.as_tensor(ids[rows].astype(np.int64))
        tokens = tokens[:, : int((tokens > 0).sum(dim=1).max())]
        inputs, chosen = masked(tokens, mask_id, len(SPECIAL), vocabulary, generator)
        hidden = model.bert(input_ids=inputs, attention_mask=tokens > 0).last_hidden_state
        words = cross_entropy(model.cls(hidden[chosen]), tokens[chosen])
        # [CLS] names the words of the passage: cross entropy against them, the rarer the heavier
        bag = torch.zeros(BATCH, vocabulary).scatter_(1, tokens, 1.0) * weight
        whole = cross_entropy(model.cls(hidden[:, 0]), bag / bag.sum(dim=1, keepdim=True))
        optimiser.zero_grad()
        (words + 0.3 * whole).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        sums += torch.stack([words.detach(), whole.detach()])
        if step % EVERY == 0:
            curve.append([step, *(round(float(x) / EVERY, 4) for x in sums), round(report(), 4)])
            sums.zero_()
    return curve


def pretrain(
    texts: Sequence[str], tokenizer_texts: Iterable[str], steps: int, seed: int, out_dir: Path
) -> dict:
    """Train the base on `texts` (the last 2,000 are held out) and write it to `out_dir`; returns
    its recipe.json.
    """
    quiet()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    tokenizer = train_tokenizer([*tokenizer_texts, *texts], VOCABULARY)
    ids = token_ids(tokenizer, texts)
    n_held = min(2000, len(texts) // 10)
    places = repeated_names(tokenizer, texts[-n_held:], rare_words(texts))
    model, mask_id = new_model(len(tokenizer), seed), tokenizer.mask_token_id

    def report():
        return matching_accuracy(model, ids[-n_held:], places, mask_id)

    curve = train(model, ids[:-n_held], steps, seed, mask_id, report)
    model.save_pretrained(out_dir, safe_serialization=True)
    tokenizer.save_pretrained(out_dir)
    recipe = {
        "what": "BertForMaskedLM pretrained on generated passages about invented things; no query, no relevance",
        "seed": seed,
        "steps": steps,
        "passages": len(texts) - n_held,
        "parameters": model.num_parameters(),
        "held_out_names": len(places),
        "held_out_matching_accuracy": report(),
        "curve_columns": ["step", "masked_lm_loss", "bag_of_words_loss", "matching_accuracy"],
        "curve": curve,
        "versions": {
            m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, tokenizers)
        },
        "sha256": {
            name: sha256(out_dir / name)
            for name in sorted({WEIGHTS, "config.json", "tokenizer.json"})
        },
    }
    write_json(out_dir / "recipe.json", recipe)
    return recipe


if __name__ == "__main__":
    given = [
        *other_worlds_text(20, 800),
        *renamed_passages(20, 30),
    ]  # 100 texts a world, and 2,600 a world
    given = [given[row] for row in np.random.default_rng(20).permutation(len(given))]
    own = itertools.chain.from_iterable(
        block for _, block in open_collection("mini").passages.batches(10_000)
    )
    # 14,000 steps copy names better (.83 against .72) but are a worse start for dense retrieval
    # (RR@10 .60, not .68)
    print(pretrain(given, own, 5_000, 20, BASE))

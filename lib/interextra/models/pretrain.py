"""The tiny base encoder: a BERT of 2 × 64 pretrained on passages about invented things.

`python -m interextra.models.pretrain` writes the folder base/ anew. What makes so small a model learn to match tokens
in four minutes, instead of staying on the unigram plateau: names that are new in each passage and repeat within it,
masking of single tokens, a start from which attention copies equal tokens, a high learning rate, and a bag-of-words
loss on [CLS]. Half of the text is that of other worlds (`other_worlds_text`), where names repeat; the other half are
passages as `mini` has them, with all names replaced by invented ones, for what words mean. No query of `mini` and no
pair of query and passage is in it, so no relevance leaks into the base. Taught in notebook 06.
"""

import argparse
import itertools
import json
import os
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from interextra.models.base import BASE, SPECIAL, WEIGHTS, file_digest, quiet
from interextra.models.pretrain_text import rare_words, renamed_passages, repeated_names, token_ids, train_tokenizer

DEFAULTS = {"vocabulary": 4000, "hidden": 64, "layers": 2, "heads": 2, "batch_size": 32, "learning_rate": 6e-3}
DEFAULTS |= {"warmup_steps": 100, "masking": 0.2, "bag_of_words": 0.3, "clip": 1.0}


def new_model(vocabulary: int, hidden: int, layers: int, heads: int, seed: int):
    """BertForMaskedLM with seeded weights whose attention starts by copying equal tokens.

    Sinusoidal positions; W_Q = W_K = 0.4 × orthogonal; W_V orthogonal and W_O its transpose, so that a layer passes on
    the words it looks at; the identity in the head, so that a copied word is predicted as itself.
    """
    import torch
    from transformers import BertConfig, BertForMaskedLM

    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    shape = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    rest = {"intermediate_size": 4 * hidden, "max_position_embeddings": 128, "type_vocab_size": 2}
    config = BertConfig(
        vocab_size=vocabulary, **shape, **rest, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = BertForMaskedLM(config)

    def orthogonal():
        return torch.linalg.qr(torch.randn(hidden, hidden, generator=generator)).Q

    with torch.no_grad():
        rate = 10_000 ** (-torch.arange(0, hidden, 2) / hidden)
        angle = torch.arange(128)[:, None] * rate
        # of the size of the word vectors, or the positions would drown them
        waves = torch.cat([angle.sin(), angle.cos()], dim=1) * config.initializer_range * 2**0.5
        model.bert.embeddings.position_embeddings.weight.copy_(waves)
        for layer in model.bert.encoder.layer:
            attention = layer.attention
            matrix = 0.4 * orthogonal()
            attention.self.query.weight.copy_(matrix)
            attention.self.key.weight.copy_(matrix)
            matrix = orthogonal()
            attention.self.value.weight.copy_(matrix)
            attention.output.dense.weight.copy_(matrix.T)
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(hidden))
    return model


def matching_accuracy(model, ids: np.ndarray, places: Sequence[tuple[int, int]], mask_id: int) -> float:
    """Share of masked name tokens that the model copies from their other occurrence."""
    import torch

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
    """Logarithm of (texts / texts that hold the token), float32[vocabulary]; 0 for special tokens."""
    rows = np.repeat(np.arange(len(ids)), ids.shape[1])
    held = np.unique(rows * vocabulary + ids.ravel()) % vocabulary
    weight = np.log(len(ids) / np.maximum(np.bincount(held, minlength=vocabulary), 1)).astype(np.float32)
    weight[: len(SPECIAL)] = 0
    return weight


def masked(tokens, masking: float, mask_id: int, vocabulary: int, generator):
    """(inputs, chosen): `masking` of the single tokens chosen; of these 80 % masked, 10 % random, 10 % kept."""
    import torch

    draw = torch.rand(tokens.shape, generator=generator)
    chosen = (draw < masking) & (tokens >= len(SPECIAL))
    noise = torch.randint(len(SPECIAL), vocabulary, tokens.shape, generator=generator)
    inputs = torch.where(chosen & (draw < 0.8 * masking), mask_id, tokens)
    return torch.where(chosen & (draw >= 0.9 * masking), noise, inputs), chosen


def train(model, ids: np.ndarray, steps: int, settings: dict, seed: int, mask_id: int, every: int, report) -> list:
    """Masked-LM training in place; [step, masked-LM loss, bag-of-words loss, accuracy] every `every` steps."""
    import torch
    from torch.nn.functional import cross_entropy
    from transformers import get_linear_schedule_with_warmup

    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.AdamW(model.parameters(), lr=settings["learning_rate"], weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimiser, settings["warmup_steps"], steps)
    weight = torch.as_tensor(rarity(ids, model.config.vocab_size))
    size, vocabulary, curve, sums = settings["batch_size"], model.config.vocab_size, [], torch.zeros(2)
    for step in range(1, steps + 1):
        rows = torch.randint(len(ids), (size,), generator=generator).numpy()
        tokens = torch.as_tensor(ids[rows].astype(np.int64))
        tokens = tokens[:, : int((tokens > 0).sum(dim=1).max())]
        inputs, chosen = masked(tokens, settings["masking"], mask_id, vocabulary, generator)
        hidden = model.bert(input_ids=inputs, attention_mask=tokens > 0).last_hidden_state
        words = cross_entropy(model.cls(hidden[chosen]), tokens[chosen])
        # [CLS] names the words of the passage: cross entropy against them, the rarer the heavier
        bag = torch.zeros(size, vocabulary).scatter_(1, tokens, 1.0) * weight
        whole = cross_entropy(model.cls(hidden[:, 0]), bag / bag.sum(dim=1, keepdim=True))
        optimiser.zero_grad()
        (words + settings["bag_of_words"] * whole).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        optimiser.step()
        schedule.step()
        sums += torch.stack([words.detach(), whole.detach()])
        if step % every == 0 or step == steps:
            n = (step - 1) % every + 1
            curve.append([step, *(round(float(x) / n, 4) for x in sums), round(report(model), 4)])
            sums.zero_()
            print(
                f"step {step}: masked-LM {curve[-1][1]}, bag of words {curve[-1][2]}, names {curve[-1][3]}", flush=True
            )
    return curve


def pretrain(
    texts: Sequence[str],
    tokenizer_texts: Iterable[str],
    steps: int,
    seed: int,
    out_dir: Path,
    every: int = 500,
    **changes,
) -> dict:
    """Train the base on `texts` (the last 2,000 are held out) and write it to `out_dir`; returns its recipe.json."""
    import tokenizers
    import torch
    import transformers

    quiet()
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    settings = DEFAULTS | changes
    began = time.perf_counter(), time.process_time()
    tokenizer = train_tokenizer(itertools.chain(tokenizer_texts, texts), settings["vocabulary"])
    ids = token_ids(tokenizer, texts)
    n_held = min(2000, len(texts) // 10)
    places = repeated_names(tokenizer, texts[-n_held:], rare_words(texts))
    shape = {name: settings[name] for name in ("hidden", "layers", "heads")}
    model = new_model(len(tokenizer), **shape, seed=seed)
    mask_id = tokenizer.mask_token_id
    curve = train(
        *(model, ids[:-n_held], steps, settings, seed, mask_id, every),
        report=lambda model: matching_accuracy(model, ids[-n_held:], places, mask_id),
    )
    aside = out_dir.with_name(f"{out_dir.name}.tmp{os.getpid()}")
    shutil.rmtree(aside, ignore_errors=True)
    model.save_pretrained(aside, safe_serialization=True)
    tokenizer.save_pretrained(aside)
    recipe = {
        "what": "BertForMaskedLM pretrained on generated passages about invented things; no query, no relevance",
        "seed": seed,
        "steps": steps,
        "seconds": round(time.perf_counter() - began[0], 1),
        "cpu_seconds": round(time.process_time() - began[1], 1),
        "passages": len(texts) - n_held,
        "settings": settings,
        "parameters": model.num_parameters(),
        "held_out_names": len(places),
        "held_out_matching_accuracy": curve[-1][3],
        "curve_columns": ["step", "masked_lm_loss", "bag_of_words_loss", "matching_accuracy"],
        "curve": curve,
        "versions": {m.__name__: m.__version__.split("+")[0] for m in (torch, transformers, tokenizers)},
        "sha256": {name: file_digest(aside / name) for name in sorted({WEIGHTS, "config.json", "tokenizer.json"})},
    }
    (aside / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(out_dir, ignore_errors=True)
    os.replace(aside, out_dir)
    return recipe


def main(arguments: Sequence[str] | None = None) -> None:
    """Pretrain the base that the package carries."""
    from interextra.data.load import open_collection
    from interextra.world import other_worlds_text

    parser = argparse.ArgumentParser(description=main.__doc__)
    # 14,000 steps copy names better (.83 against .72) but are a worse start for dense retrieval (RR@10 .60, not .68)
    parser.add_argument("--steps", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--worlds", type=int, default=800, help="other worlds, 100 texts each")
    parser.add_argument(
        "--renamed", type=int, default=30, help="generated worlds with invented names, 2,600 texts each"
    )
    parser.add_argument("--out", type=Path, default=BASE)
    given = parser.parse_args(arguments)
    texts = [*other_worlds_text(given.seed, given.worlds), *renamed_passages(given.seed, given.renamed)]
    texts = [texts[row] for row in np.random.default_rng(given.seed).permutation(len(texts))]
    own = itertools.chain.from_iterable(block for _, block in open_collection("mini").passages.batches(10_000))
    recipe = pretrain(texts, own, given.steps, given.seed, given.out)
    print(f"{recipe['seconds']} s, matching accuracy {recipe['held_out_matching_accuracy']}: {given.out}")


if __name__ == "__main__":
    main()

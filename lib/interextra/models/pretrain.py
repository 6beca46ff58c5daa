"""The tiny base encoder: a BERT of 2 × 64 pretrained on text of other worlds in which names repeat.

`python -m interextra.models.pretrain` writes the folder base/ anew. What makes so small a model learn to match tokens
within minutes, instead of staying on the unigram plateau: names that are new in each passage and repeat within it,
masking of single tokens, a start from which attention copies equal tokens, a high learning rate, and a bag-of-words
loss on [CLS]. The text holds no queries, so no relevance leaks into the base. Taught in notebook 06.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from interextra.models.base import BASE, SPECIAL, WEIGHTS, file_digest, quiet

LENGTH = 72
WORD = re.compile(r"\w+")
DEFAULTS = {"vocabulary": 3000, "hidden": 64, "layers": 2, "heads": 2, "batch_size": 32, "learning_rate": 6e-3}
DEFAULTS |= {"warmup_steps": 100, "masking": 0.2, "bag_of_words": 0.3, "clip": 1.0}


def train_tokenizer(texts: Iterable[str], vocabulary: int):
    """A lower-cased WordPiece tokenizer (transformers, fast) trained on `texts`; the same texts give the same bytes."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    texts = list(texts)

    def wordpiece(**vocab):
        pieces = Tokenizer(models.WordPiece(unk_token="[UNK]", **vocab))
        pieces.normalizer = normalizers.BertNormalizer(lowercase=True)
        pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        return pieces

    learner = wordpiece()
    letters = sorted(set(learner.normalizer.normalize_str("".join(sorted(set().union(*texts))))) - {" "})
    # The trainer numbers letters in the order of a hash table and breaks ties by number. Named in advance, as if they
    # were special, they have fixed numbers.
    alphabet = [*letters, *(f"##{letter}" for letter in letters)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=[*SPECIAL, *alphabet], show_progress=False
    )
    learner.train_from_iterator(texts, trainer)
    pieces = wordpiece(vocab=learner.get_vocab())
    pieces.add_special_tokens(list(SPECIAL))
    ends = [(name, pieces.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ends
    )
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    return PreTrainedTokenizerFast(tokenizer_object=pieces, model_max_length=128, **roles)


def token_ids(tokenizer, texts: Sequence[str], length: int = LENGTH) -> np.ndarray:
    """int16[n, length], padded with 0."""
    out = np.zeros((len(texts), length), dtype=np.int16)
    for start in range(0, len(texts), 10_000):
        batch = tokenizer(list(texts[start : start + 10_000]), truncation=True, max_length=length)["input_ids"]
        for row, ids in enumerate(batch, start):
            out[row, : len(ids)] = ids
    return out


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


def repeated_names(tokenizer, texts: Sequence[str], names: set[str], length: int = LENGTH) -> list[tuple[int, int]]:
    """(text, position) of one token a text that belongs to a word of `names` and occurs at least twice in the text."""
    found = []
    for row, text in enumerate(texts):
        coded = tokenizer(text, truncation=True, max_length=length, return_offsets_mapping=True)
        ids = coded["input_ids"]
        spans = [word.span() for word in WORD.finditer(text) if word[0].lower() in names]
        for position, (start, end) in enumerate(coded["offset_mapping"]):
            inside = end > start and any(a <= start and end <= b for a, b in spans)
            if inside and ids.count(ids[position]) > 1:
                found.append((row, position))
                break
    return found


def rare_words(texts: Iterable[str], share: float = 1e-3) -> set[str]:
    """Words (lower case) that occur in less than `share` of the texts: in text of other worlds these are the names."""
    texts = list(texts)
    counts = Counter(word for text in texts for word in set(WORD.findall(text.lower())))
    return {word for word, count in counts.items() if count < share * len(texts)}


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
    size, vocabulary, curve, sums = settings["batch_size"], model.config.vocab_size, [], torch.zeros(2)
    for step in range(1, steps + 1):
        rows = torch.randint(len(ids), (size,), generator=generator).numpy()
        tokens = torch.as_tensor(ids[rows].astype(np.int64))
        tokens = tokens[:, : int((tokens > 0).sum(dim=1).max())]
        inputs, chosen = masked(tokens, settings["masking"], mask_id, vocabulary, generator)
        hidden = model.bert(input_ids=inputs, attention_mask=tokens > 0).last_hidden_state
        words = cross_entropy(model.cls(hidden[chosen]), tokens[chosen])
        # [CLS] names the words of the passage: cross entropy against their uniform distribution
        bag = torch.zeros(size, vocabulary).scatter_(1, tokens, 1.0)
        bag[:, : len(SPECIAL)] = 0
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
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
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
        "what": "BertForMaskedLM pretrained on generated text of other worlds; no query, no relevance in it",
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
    from interextra.data.world import other_worlds_text

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--worlds", type=int, default=1_500)
    parser.add_argument("--out", type=Path, default=BASE)
    given = parser.parse_args(arguments)
    texts = list(other_worlds_text(given.seed, given.worlds))
    own = itertools.chain.from_iterable(block for _, block in open_collection("mini").passages.batches(10_000))
    recipe = pretrain(texts, own, given.steps, given.seed, given.out)
    print(f"{recipe['seconds']} s, matching accuracy {recipe['held_out_matching_accuracy']}: {given.out}")


if __name__ == "__main__":
    main()

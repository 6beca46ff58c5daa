"""Pretraining objectives on passages alone: what Zhan et al. compare in section 5.2.4 and Table 9,
with all else equal.

words       masked tokens, nothing for the whole text (the role of RoBERTa)
order       and: were the two halves of the passage exchanged? Its vector tells (the text-level task of BERT and ERNIE)
condenser   and: the masked tokens once more, by a late head that sees the vector and the words of an early layer, so
            that the vector must hold what they lack (Gao and Callan, EMNLP 2021)
spans       condenser on the halves, and: the vector of a half is nearest to that of the other half of its passage
            (coCondenser: Gao and Callan, ACL 2022)

All of them see the same passages in the same order, up to the [CLS] and [SEP] that a second half
needs. Taught in notebooks/06_pretraining_study.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy

from interextra.models.base import initialisation, quiet
from interextra.models.recipe import Pretraining
from interextra.models.search.topk import device
from interextra.models.training.reproducible import reproducible
from interextra.store.errors import InputError

MASKING, HIDDEN, N_HELD = (
    0.2,
    64,
    640,
)  # share of words masked; width of the tiny BERT; passages held out


class Objective(torch.nn.Module):
    """A masked language model (BERT), trained in place, with what an objective adds; it returns the
    losses.
    """

    def __init__(self, model, tokenizer, how: Pretraining):
        super().__init__()
        self.model, self.name, self.pooling, shape = model, how.objective, how.pooling, model.config
        self.cls, self.sep, self.mask = (
            tokenizer.cls_token_id,
            tokenizer.sep_token_id,
            tokenizer.mask_token_id,
        )
        self.first_word = max(tokenizer.all_special_ids) + 1
        self.order = torch.nn.Linear(shape.hidden_size, 2) if self.name == "order" else None
        sizes = shape.hidden_size, shape.num_attention_heads, shape.intermediate_size
        layer = {
            "dropout": 0.0,
            "activation": "gelu",
            "batch_first": True,
            "layer_norm_eps": shape.layer_norm_eps,
        }
        late = self.name in ("condenser", "spans")
        self.late = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(*sizes, **layer) for _ in range(2 * late)
        )

    def forward(
        self, passages: Sequence[Sequence[int]], generator: torch.Generator
    ) -> dict[str, torch.Tensor]:
        """The losses of a batch of passages (tokens without [CLS] and [SEP]): words, and order,
        head or spans.
        """
        rows, exchanged = self.laid_out(passages, generator)
        tokens = self.framed(rows)
        drawn = masked(tokens, self.mask, self.first_word, self.model.config.vocab_size, generator)
        tokens, inputs, chosen = (part.to(self.model.device) for part in (tokens, *drawn))
        out = self.model.base_model(inputs, attention_mask=tokens > 0, output_hidden_states=True)
        vectors = self.pooled(out.last_hidden_state, tokens)
        losses = {
            "words": cross_entropy(self.model.cls(out.last_hidden_state[chosen]), tokens[chosen])
        }
        if self.name == "order":
            losses["order"] = cross_entropy(self.order(vectors), exchanged.to(vectors.device))
        if self.late:
            mixed = torch.cat(
                [vectors[:, None], out.hidden_states[len(out.hidden_states) // 2][:, 1:]], dim=1
            )
            for layer in self.late:
                mixed = layer(mixed, src_key_padding_mask=tokens == 0)
            losses["head"] = cross_entropy(self.model.cls(mixed[chosen]), tokens[chosen])
        if self.name == "spans":
            losses["spans"] = cross_entropy(*partners(vectors))
        return losses

    def laid_out(self, passages, generator) -> tuple[list[list[int]], torch.Tensor | None]:
        """The sequences that the model reads, and for `order` which have their halves exchanged
        (int64[n]).
        """
        if self.name not in ("order", "spans"):
            return list(passages), None
        first, second = zip(*halves(passages, generator), strict=True)
        if self.name == "spans":
            return [*first, *second], None
        exchanged = torch.randint(2, (len(first),), generator=generator)
        pairs = zip(first, second, exchanged.tolist(), strict=True)
        return [
            [*(b if turn else a), self.sep, *(a if turn else b)] for a, b, turn in pairs
        ], exchanged

    def framed(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Token ids with [CLS] and [SEP], padded with 0: int64[n, longest]."""
        framed = [torch.tensor([self.cls, *row, self.sep]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)

    @torch.no_grad()
    def measure(self, passages: Sequence[Sequence[int]], seed: int, batch: int) -> dict[str, float]:
        """What it can on passages that it was not trained on, the mean over batches.

        The loss of each of its parts; `order_accuracy` of its classifier; and of any objective
        `span_accuracy`: for what share of the halves the other half is the nearest by inner
        product, among the 2 · batch − 1 others.
        """
        generator, found = torch.Generator().manual_seed(seed), []
        self.eval()
        for start in range(0, len(passages) - batch + 1, batch):
            part = passages[start : start + batch]
            row = {f"{name}_loss": float(loss) for name, loss in self(part, generator).items()}
            first, second = zip(*halves(part, generator), strict=True)
            scores, truth = partners(self.vectors([*first, *second]))
            row["span_accuracy"] = float((scores.argmax(dim=1) == truth).float().mean())
            if self.order is not None:
                rows, exchanged = self.laid_out(part, generator)
                guess = self.order(self.vectors(rows)).argmax(dim=1).cpu()
                row["order_accuracy"] = float((guess == exchanged).float().mean())
            found.append(row)
        self.train()
        return {name: float(np.mean([row[name] for row in found])) for name in found[0]}

    def vectors(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        tokens = self.framed(rows).to(self.model.device)
        return self.pooled(
            self.model.base_model(tokens, attention_mask=tokens > 0).last_hidden_state, tokens
        )

    def pooled(self, last: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """One vector a text of what the last layer has for its tokens: [n, longest, d] → [n, d]."""
        if self.pooling == "cls":
            return last[:, 0]
        there = (tokens > 0).unsqueeze(2)
        return (last * there).sum(dim=1) / there.sum(dim=1)


def halves(
    passages: Sequence[Sequence[int]], generator: torch.Generator
) -> list[tuple[list[int], list[int]]]:
    """Each passage (two tokens or more) cut in two, at a place drawn from its middle half."""
    places = (0.25 + 0.5 * torch.rand(len(passages), generator=generator)).tolist()
    cuts = [
        max(1, min(round(len(row) * place), len(row) - 1))
        for row, place in zip(passages, places, strict=True)
    ]
    return [(list(row[:cut]), list(row[cut:])) for row, cut in zip(passages, cuts, strict=True)]


def partners(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of 2n halves with each other [2n, 2n], −∞ with itself; the place of each one's partner
    (i and n + i).
    """
    places = torch.arange(len(vectors), device=vectors.device)
    return (vectors @ vectors.T).fill_diagonal_(float("-inf")), places.roll(len(vectors) // 2)


def masked(tokens, mask_id: int, first_word: int, vocabulary: int, generator):
    """(inputs, chosen): `MASKING` of the words chosen; of these 80 % masked, 10 % replaced by
    random words, 10 % kept.

    Words are the tokens from `first_word` to `vocabulary`.
    """
    draw = torch.rand(tokens.shape, generator=generator)
    chosen = (draw < MASKING) & (tokens >= first_word)
    noise = torch.randint(first_word, vocabulary, tokens.shape, generator=generator)
    inputs = torch.where(chosen & (draw < 0.8 * MASKING), mask_id, tokens)
    return torch.where(chosen & (draw >= 0.9 * MASKING), noise, inputs), chosen


def new_model(vocabulary: int, seed: int):
    """BertForMaskedLM of 2 × 64 with seeded weights whose attention starts by copying equal tokens.

    Sinusoidal positions; W_Q = W_K = 0.4 × orthogonal; W_V orthogonal and W_O its transpose, so
    that a layer passes on the words it looks at; the identity in the head, so that a copied word is
    predicted as itself.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    shape = {"num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 128}
    shape |= {"vocab_size": vocabulary, "hidden_size": HIDDEN, "intermediate_size": 4 * HIDDEN}
    config = transformers.BertConfig(
        **shape, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    model = transformers.BertForMaskedLM(config)

    def orthogonal():
        return torch.linalg.qr(torch.randn(HIDDEN, HIDDEN, generator=generator)).Q

    with torch.no_grad():
        angle = torch.arange(128)[:, None] * 10_000 ** (-torch.arange(0, HIDDEN, 2) / HIDDEN)
        # of the size of the word vectors, or the positions would drown them
        waves = torch.cat([angle.sin(), angle.cos()], dim=1) * config.initializer_range * 2**0.5
        model.bert.embeddings.position_embeddings.weight.copy_(waves)
        for layer in model.bert.encoder.layer:
            attention, same, values = layer.attention, 0.4 * orthogonal(), orthogonal()
            attention.self.query.weight.copy_(same)
            attention.self.key.weight.copy_(same)
            attention.self.value.weight.copy_(values)
            attention.output.dense.weight.copy_(values.T)
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(HIDDEN))
    return model


@reproducible()
def pretrain(how: Pretraining, collections: Sequence, start: str, seed: int, out_dir: Path) -> dict:
    """Pretrain the weights `start` on the passages of `collections` and write them with their
    tokenizer to `out_dir`.

    The passages that are held out, and the order of the others, are the same for all objectives.
    Returns passages, held_out, tokens (seen, without special ones), curve (a row every fiftieth of
    the steps: step and the mean losses since), before and after (see `Objective.measure`). With the
    objective none: tokens 0, no more.
    """
    quiet()
    torch.manual_seed(seed)
    model, tokenizer = opened(start, seed)
    log = {"tokens": 0}
    if how.objective != "none":
        objective = Objective(model, tokenizer, how).to(device())
        held, passages = read(how, collections, tokenizer)
        log = {
            "passages": len(passages),
            "held_out": len(held),
            "before": objective.measure(held, 0, how.batch_size),
        }
        log |= train(objective, passages, how, seed)
        log["after"] = objective.measure(held, 0, how.batch_size)
    model.save_pretrained(out_dir, safe_serialization=True)
    tokenizer.save_pretrained(out_dir)
    return log


def opened(start: str, seed: int):
    """(masked language model, tokenizer) of an initialisation; `random`: as the tiny base was
    before its training.
    """
    found, kind = initialisation(start), transformers.AutoModelForMaskedLM
    tokenizer = transformers.AutoTokenizer.from_pretrained(found.source)
    if start == "random":
        return new_model(len(tokenizer), seed), tokenizer
    if found.random:
        model = kind.from_config(
            transformers.AutoConfig.from_pretrained(found.source), trust_remote_code=False
        )
    else:
        model = kind.from_pretrained(found.source, use_safetensors=True, trust_remote_code=False)
    if found.layers is not None:
        model.base_model.encoder.layer = model.base_model.encoder.layer[: found.layers]
        model.config.num_hidden_layers = found.layers
    return model, tokenizer


def read(
    how: Pretraining, collections: Sequence, tokenizer
) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens of the passages held out and read, in an order that depends on them alone: no more
    than are read once.
    """
    ends = np.cumsum([len(collection.passages) for collection in collections])
    rows = np.random.default_rng(0).permutation(ends[-1])[: N_HELD + how.steps * how.batch_size]
    texts = np.empty(len(rows), dtype=object)
    for collection, start, end in zip(collections, [0, *ends], ends, strict=False):
        here = (rows >= start) & (rows < end)
        texts[here] = collection.passages.texts(rows[here] - start)
    coded = tokenizer(
        texts.tolist(), truncation=True, max_length=how.length, add_special_tokens=False
    )["input_ids"]
    coded = [row for row in coded if len(row) > 1]
    if len(coded) < 8 * how.batch_size:
        needed = f"{8 * how.batch_size} are needed (8 batches of {how.batch_size}, a quarter of them held out)"
        raise InputError(f"pretraining: {len(coded)} passages of two words or more; {needed}")
    n_held = min(N_HELD, len(coded) // 4)
    return coded[:n_held], coded[n_held:]


def train(
    objective: Objective, passages: Sequence[Sequence[int]], how: Pretraining, seed: int
) -> dict:
    """Train in place on the sum of the losses: `tokens` seen and the `curve`, see `pretrain`."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(passages), (how.steps, how.batch_size), generator=generator).tolist()
    optimiser = torch.optim.AdamW(objective.parameters(), lr=how.learning_rate, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimiser, how.steps // 10, how.steps)
    curve, since, every = [], [], max(1, how.steps // 50)
    for step, batch in enumerate(rows, 1):
        with torch.autocast(
            objective.model.device.type, torch.bfloat16, enabled=how.precision == "bf16"
        ):
            losses = objective([passages[row] for row in batch], generator)
        optimiser.zero_grad()
        sum(losses.values()).backward()
        torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        since.append({name: float(loss.detach()) for name, loss in losses.items()})
        if step % every == 0 or step == how.steps:
            curve.append(
                {"step": step}
                | {name: float(np.mean([row[name] for row in since])) for name in since[0]}
            )
            since = []
    return {"tokens": sum(len(passages[row]) for batch in rows for row in batch), "curve": curve}

"""Pretraining objectives on passages alone, compared with all else equal.

They are those of Zhan et al., section 5.2.4 and Table 9:

words       masked tokens, nothing for the whole text (the role of RoBERTa)
order       and: were the two halves of the passage exchanged? Its vector tells (the text-level task
            of BERT and ERNIE)
condenser   and: the masked tokens once more, by a late head that sees the vector and the words of
            an early layer, so that the vector must hold what they lack (Gao and Callan, EMNLP 2021)
spans       condenser on the halves, and: the vector of a half is nearest to that of the other half
            of its passage (coCondenser: Gao and Callan, ACL 2022)

All of them see the same passages in the same order, up to the [CLS] and [SEP] that a second half
needs. Taught in notebooks/06_pretraining_study.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from torch import Tensor
from torch.nn.functional import cross_entropy

from interextra.data.collection import Collection
from interextra.models.base import initialisation, quiet
from interextra.models.recipe import Pretraining
from interextra.models.retriever import cut_layers
from interextra.models.search.topk import device
from interextra.models.training.checkpoints import (
    Checkpoints,
    load_weights,
    random_states,
    save_weights,
    set_random_states,
)
from interextra.models.training.reproducible import reproducible
from interextra.store.errors import InputError

MASKING = 0.2  # share of the words
HIDDEN = 64  # width of the tiny BERT
POSITIONS = 128  # tokens that it reads at most
N_HELD = 640  # passages held out
STATE = "state.pt"  # of optimiser, schedule and random numbers in a checkpoint

TokenIds = Sequence[int]  # of a passage, without [CLS] and [SEP]


class Objective(torch.nn.Module):
    """A masked language model (BERT), trained in place, with what an objective adds."""

    def __init__(self, model: Any, tokenizer: Any, how: Pretraining) -> None:
        super().__init__()
        self.model = model
        self.name = how.objective
        self.pooling = how.pooling
        self.cls = tokenizer.cls_token_id
        self.sep = tokenizer.sep_token_id
        self.mask = tokenizer.mask_token_id
        self.first_word = max(tokenizer.all_special_ids) + 1
        self.vocabulary = model.config.vocab_size
        self.order = None
        if self.name == "order":
            self.order = torch.nn.Linear(model.config.hidden_size, 2)
        n_late = 2 if self.name in ("condenser", "spans") else 0
        self.late = torch.nn.ModuleList(_late_layer(model.config) for _ in range(n_late))

    def forward(
        self, passages: Sequence[TokenIds], generator: torch.Generator
    ) -> dict[str, Tensor]:
        """Return the losses of a batch of passages: words, and order, head or spans."""
        rows, exchanged = self.laid_out(passages, generator)
        tokens = self.framed(rows)
        inputs, chosen = masked(tokens, self.mask, self.first_word, self.vocabulary, generator)
        tokens = tokens.to(self.model.device)
        inputs = inputs.to(self.model.device)
        chosen = chosen.to(self.model.device)
        out = self.model.base_model(inputs, attention_mask=tokens > 0, output_hidden_states=True)
        vectors = self.pooled(out.last_hidden_state, tokens)
        losses = {"words": self._masked_loss(out.last_hidden_state, tokens, chosen)}
        if exchanged is not None:
            losses["order"] = cross_entropy(self.order(vectors), exchanged.to(vectors.device))
        if self.late:
            late = self._late_states(vectors, out.hidden_states, tokens)
            losses["head"] = self._masked_loss(late, tokens, chosen)
        if self.name == "spans":
            losses["spans"] = cross_entropy(*partners(vectors))
        return losses

    def _masked_loss(self, states: Tensor, tokens: Tensor, chosen: Tensor) -> Tensor:
        """Return the cross entropy of the chosen tokens, predicted from states [n, longest, d]."""
        return cross_entropy(self.model.cls(states[chosen]), tokens[chosen])

    def _late_states(
        self, vectors: Tensor, hidden_states: Sequence[Tensor], tokens: Tensor
    ) -> Tensor:
        """Return the states of the late head, which sees vectors and words of an early layer."""
        early = hidden_states[len(hidden_states) // 2]
        words = early[:, 1:]
        states = torch.cat([vectors.unsqueeze(1), words], dim=1)
        for layer in self.late:
            states = layer(states, src_key_padding_mask=tokens == 0)
        return states

    def laid_out(
        self, passages: Sequence[TokenIds], generator: torch.Generator
    ) -> tuple[list[TokenIds], Tensor | None]:
        """Return the sequences that the model reads.

        And for `order` which of them have their halves exchanged, int64[n].
        """
        if self.name not in ("order", "spans"):
            return list(passages), None
        cut = halves(passages, generator)
        if self.name == "spans":
            first_halves, second_halves = zip(*cut, strict=True)
            return [*first_halves, *second_halves], None
        exchanged = torch.randint(2, (len(cut),), generator=generator)
        rows: list[TokenIds] = []
        for (first, second), is_exchanged in zip(cut, exchanged, strict=True):
            if is_exchanged:
                first, second = second, first
            rows.append([*first, self.sep, *second])
        return rows, exchanged

    def framed(self, rows: Sequence[TokenIds]) -> Tensor:
        """Return token ids with [CLS] and [SEP], padded with 0: int64[n, longest]."""
        framed = [torch.tensor([self.cls, *row, self.sep]) for row in rows]
        return torch.nn.utils.rnn.pad_sequence(framed, batch_first=True)

    @torch.no_grad()
    def measure(
        self,
        passages: Sequence[TokenIds],
        seed: int,
        batch: int,
    ) -> dict[str, float]:
        """Return what it can on passages that it was not trained on, the mean over batches.

        The loss of each of its parts; `order_accuracy` of its classifier; and of any objective
        `span_accuracy`: for what share of the halves the other half is the nearest by inner
        product, among the 2 · batch − 1 others.
        """
        generator = torch.Generator().manual_seed(seed)
        rows = []
        self.eval()
        for start in range(0, len(passages) - batch + 1, batch):
            some_passages = passages[start : start + batch]
            rows.append(self._measured(some_passages, generator))
        self.train()
        return _means(rows)

    def _measured(
        self, passages: Sequence[TokenIds], generator: torch.Generator
    ) -> dict[str, float]:
        """Return the losses and accuracies of a batch, see `measure`."""
        losses = self(passages, generator)
        measures = {f"{name}_loss": float(loss) for name, loss in losses.items()}
        first_halves, second_halves = zip(*halves(passages, generator), strict=True)
        vectors = self.vectors([*first_halves, *second_halves])
        measures["span_accuracy"] = _accuracy(*partners(vectors))
        if self.order is not None:
            rows, exchanged = self.laid_out(passages, generator)
            scores = self.order(self.vectors(rows)).cpu()
            measures["order_accuracy"] = _accuracy(scores, exchanged)
        return measures

    def vectors(self, rows: Sequence[TokenIds]) -> Tensor:
        """Return the vectors of sequences, [n, d]."""
        tokens = self.framed(rows).to(self.model.device)
        out = self.model.base_model(tokens, attention_mask=tokens > 0)
        return self.pooled(out.last_hidden_state, tokens)

    def pooled(self, last: Tensor, tokens: Tensor) -> Tensor:
        """Pool what the last layer has for the tokens of each text: [n, longest, d] → [n, d]."""
        if self.pooling == "cls":
            return last[:, 0]
        is_token = (tokens > 0).unsqueeze(2)
        sums = (last * is_token).sum(dim=1)
        return sums / is_token.sum(dim=1)


def _late_layer(config: Any) -> torch.nn.Module:
    """Return a layer of the late head, of the size of the model's own."""
    return torch.nn.TransformerEncoderLayer(
        config.hidden_size,
        config.num_attention_heads,
        config.intermediate_size,
        dropout=0.0,
        activation="gelu",
        batch_first=True,
        layer_norm_eps=config.layer_norm_eps,
    )


def _accuracy(scores: Tensor, truth: Tensor) -> float:
    """Return the share of the rows of scores [n, m] whose highest is at `truth` [n]."""
    is_right = scores.argmax(dim=1) == truth
    return float(is_right.float().mean())


def _means(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each value over some rows."""
    means = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        means[name] = float(np.mean(values))
    return means


def halves(
    passages: Sequence[TokenIds], generator: torch.Generator
) -> list[tuple[TokenIds, TokenIds]]:
    """Cut each passage (two tokens or more) in two, at a place drawn from its middle half."""
    draw = torch.rand(len(passages), generator=generator)
    places = (0.25 + 0.5 * draw).tolist()
    cut = []
    for passage, place in zip(passages, places, strict=True):
        n_first = round(len(passage) * place)
        n_first = max(1, min(n_first, len(passage) - 1))
        cut.append((passage[:n_first], passage[n_first:]))
    return cut


def partners(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scores of 2n halves with each other, and the place of each one's partner.

    Scores are [2n, 2n], −∞ with itself; the partner of i is n + i.
    """
    places = torch.arange(len(vectors), device=vectors.device)
    scores = (vectors @ vectors.T).fill_diagonal_(float("-inf"))
    return scores, places.roll(len(vectors) // 2)


def masked(
    tokens: Tensor,
    mask_id: int,
    first_word: int,
    vocabulary: int,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Choose `MASKING` of the words: 80 % are masked, 10 % replaced by random words, 10 % kept.

    Words are the tokens from `first_word` to `vocabulary`.

    Returns
    -------
    inputs, chosen
        Token ids as the model reads them, and which of `tokens` are chosen: [n, longest].
    """
    draw = torch.rand(tokens.shape, generator=generator)
    chosen = (draw < MASKING) & (tokens >= first_word)
    is_masked = chosen & (draw < 0.8 * MASKING)
    is_replaced = chosen & (draw >= 0.9 * MASKING)
    random_words = torch.randint(first_word, vocabulary, tokens.shape, generator=generator)
    inputs = torch.where(is_masked, mask_id, tokens)
    return torch.where(is_replaced, random_words, inputs), chosen


def new_model(vocabulary: int, seed: int) -> "transformers.BertForMaskedLM":
    """Return a BERT of 2 × 64 with seeded weights whose attention starts by copying equal tokens.

    Sinusoidal positions; W_Q = W_K = 0.4 × orthogonal; W_V orthogonal and W_O its transpose, so
    that a layer passes on the words it looks at; the identity in the head, so that a copied word is
    predicted as itself.
    """
    generator = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)
    config = transformers.BertConfig(
        vocab_size=vocabulary,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=4 * HIDDEN,
        max_position_embeddings=POSITIONS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = transformers.BertForMaskedLM(config)
    with torch.no_grad():
        # of the size of the word vectors, or the positions would drown them
        positions = _sinusoidal_positions() * config.initializer_range * 2**0.5
        model.bert.embeddings.position_embeddings.weight.copy_(positions)
        for layer in model.bert.encoder.layer:
            _copy_equal_tokens(layer.attention, generator)
        model.cls.predictions.transform.dense.weight.copy_(torch.eye(HIDDEN))
    return model


def _sinusoidal_positions() -> Tensor:
    """Return sines and cosines of each position, float32[POSITIONS, HIDDEN]."""
    exponents = -torch.arange(0, HIDDEN, 2) / HIDDEN
    frequencies = 10_000**exponents
    angles = torch.arange(POSITIONS)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def _copy_equal_tokens(attention: torch.nn.Module, generator: torch.Generator) -> None:
    """Let tokens look at equal ones, and pass on what stands there; see `new_model`."""
    query_and_key = 0.4 * _orthogonal(generator)
    values = _orthogonal(generator)
    attention.self.query.weight.copy_(query_and_key)
    attention.self.key.weight.copy_(query_and_key)
    attention.self.value.weight.copy_(values)
    attention.output.dense.weight.copy_(values.T)


def _orthogonal(generator: torch.Generator) -> Tensor:
    """Draw an orthogonal matrix [HIDDEN, HIDDEN]."""
    normal = torch.randn(HIDDEN, HIDDEN, generator=generator)
    return torch.linalg.qr(normal).Q


@reproducible()
def pretrain(
    how: Pretraining,
    collections: Sequence[Collection],
    start: str,
    seed: int,
    out_dir: Path,
    checkpoints: Checkpoints | None = None,
) -> dict:
    """Pretrain the weights `start` on the passages of `collections` and write them to `out_dir`.

    Their tokenizer is written, too. The passages that are held out, and the order of the others,
    are the same for all objectives. With `checkpoints` it goes on where it was killed.

    Returns
    -------
    passages, held_out
        How many there are.
    tokens
        Seen, without special ones. With the objective none: 0, no more.
    curve
        A row every fiftieth of the steps: step and the mean losses since.
    before, after
        See `Objective.measure`.
    """
    quiet()
    torch.manual_seed(seed)
    model, tokenizer = opened(start, seed)
    log: dict[str, Any] = {"tokens": 0}
    if how.objective != "none":
        objective = Objective(model, tokenizer, how).to(device())
        held, passages = read(how, collections, tokenizer)
        log = {"passages": len(passages), "held_out": len(held)}
        log["before"] = objective.measure(held, 0, how.batch_size)
        log |= train(objective, passages, how, seed, checkpoints)
        log["after"] = objective.measure(held, 0, how.batch_size)
    model.save_pretrained(out_dir, safe_serialization=True)
    tokenizer.save_pretrained(out_dir)
    return log


def opened(start: str, seed: int) -> tuple[Any, Any]:
    """Open the masked language model and the tokenizer of an initialisation.

    `random` is the tiny base as it was before its training.
    """
    chosen = initialisation(start)
    tokenizer = transformers.AutoTokenizer.from_pretrained(chosen.source)
    if start == "random":
        return new_model(len(tokenizer), seed), tokenizer
    if chosen.random:
        config = transformers.AutoConfig.from_pretrained(chosen.source)
        model = transformers.AutoModelForMaskedLM.from_config(config, trust_remote_code=False)
    else:
        model = transformers.AutoModelForMaskedLM.from_pretrained(
            chosen.source, use_safetensors=True, trust_remote_code=False
        )
    cut_layers(model, chosen.layers)
    return model, tokenizer


def read(
    how: Pretraining, collections: Sequence[Collection], tokenizer: Any
) -> tuple[list[list[int]], list[list[int]]]:
    """Read the tokens of the passages that are held out, and of those that train.

    Their order depends on the passages alone. No more come than are read once.

    Raises
    ------
    InputError
        For fewer than 8 batches of passages of two words or more.
    """
    texts = _shuffled_texts(collections, N_HELD + how.steps * how.batch_size)
    encoding = tokenizer(texts, truncation=True, max_length=how.length, add_special_tokens=False)
    passages = [tokens for tokens in encoding["input_ids"] if len(tokens) > 1]
    n_needed = 8 * how.batch_size
    if len(passages) < n_needed:
        raise InputError(
            f"pretraining: {len(passages)} passages of two words or more; {n_needed} are needed "
            f"(8 batches of {how.batch_size}, a quarter of them held out)"
        )
    n_held = min(N_HELD, len(passages) // 4)
    return passages[:n_held], passages[n_held:]


def _shuffled_texts(collections: Sequence[Collection], n: int) -> list[str]:
    """Read the texts of at most n passages of all collections, in random order."""
    n_passages = sum(len(collection.passages) for collection in collections)
    rows = np.random.default_rng(0).permutation(n_passages)[:n]
    texts = np.empty(len(rows), dtype=object)
    start = 0  # of the rows of a collection
    for collection in collections:
        end = start + len(collection.passages)
        is_here = (rows >= start) & (rows < end)
        texts[is_here] = collection.passages.texts(rows[is_here] - start)
        start = end
    return texts.tolist()


def train(
    objective: Objective,
    passages: Sequence[TokenIds],
    how: Pretraining,
    seed: int,
    checkpoints: Checkpoints | None = None,
) -> dict:
    """Train in place on the sum of the losses; return `tokens` seen and `curve`, see `pretrain`."""
    training = _Training(objective, how, seed)
    shape = (how.steps, how.batch_size)
    batches = torch.randint(len(passages), shape, generator=training.generator)
    newest = checkpoints.newest() if checkpoints else None
    if newest:
        training.load(newest)
    every = max(1, how.steps // 50)
    first_step = training.step + 1
    for step, rows in enumerate(batches[training.step :].tolist(), start=first_step):
        training.take_step([passages[row] for row in rows])
        if step % every == 0 or step == how.steps:
            training.note_losses()
        if checkpoints and checkpoints.is_due():
            path = checkpoints.path_of(step)
            training.save(path)
            checkpoints.finish(path)
    return {"tokens": training.n_tokens, "curve": training.curve}


class _Training:
    """A pretraining under way: all that its next step depends on, and what is noted of it."""

    def __init__(self, objective: Objective, how: Pretraining, seed: int) -> None:
        self.objective = objective
        self.how = how
        self.generator = torch.Generator().manual_seed(seed)
        self.optimiser = torch.optim.AdamW(
            objective.parameters(), lr=how.learning_rate, weight_decay=0.01
        )
        self.schedule = transformers.get_linear_schedule_with_warmup(
            self.optimiser, how.steps // 10, how.steps
        )
        self.step = 0
        self.n_tokens = 0
        self.curve: list[dict[str, float]] = []
        self.losses_since: list[dict[str, float]] = []  # since the last row of the curve

    def take_step(self, batch: Sequence[TokenIds]) -> None:
        """Take a step of the optimiser, and keep the losses before it."""
        self.step += 1
        self.n_tokens += sum(map(len, batch))
        losses = _train_step(self.objective, batch, self.how, self.generator, self.optimiser)
        self.losses_since.append(losses)
        self.schedule.step()

    def note_losses(self) -> None:
        """Add a row to the curve."""
        self.curve.append({"step": self.step, **_means(self.losses_since)})
        self.losses_since = []

    def save(self, folder: Path) -> None:
        """Write a checkpoint into a folder."""
        save_weights(self.objective, folder)
        state = {
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "generator": self.generator.get_state(),
            "random": random_states(),
            "step": self.step,
            "n_tokens": self.n_tokens,
            "curve": self.curve,
            "losses_since": self.losses_since,
        }
        torch.save(state, folder / STATE)

    def load(self, folder: Path) -> None:
        """Go back to a checkpoint that `save` wrote."""
        load_weights(self.objective, folder)
        state = torch.load(folder / STATE, map_location="cpu", weights_only=True)
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.generator.set_state(state["generator"])
        set_random_states(state["random"])
        self.step = state["step"]
        self.n_tokens = state["n_tokens"]
        self.curve = state["curve"]
        self.losses_since = state["losses_since"]


def _train_step(
    objective: Objective,
    batch: Sequence[TokenIds],
    how: Pretraining,
    generator: torch.Generator,
    optimiser: torch.optim.Optimizer,
) -> dict[str, float]:
    """Take a step of the optimiser; return the losses before it."""
    device_type = objective.model.device.type
    with torch.autocast(device_type, torch.bfloat16, enabled=how.precision == "bf16"):
        losses = objective(batch, generator)
    optimiser.zero_grad()
    sum(losses.values()).backward()
    torch.nn.utils.clip_grad_norm_(objective.parameters(), 1.0)
    optimiser.step()
    return {name: float(loss.detach()) for name, loss in losses.items()}

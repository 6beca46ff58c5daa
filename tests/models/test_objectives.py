"""Pretraining objectives: what each reads, what its losses see, and that each learns what it
claims.
"""

import json
import os
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from test_pretrain import TEXTS
from toy_models import collection_of
from transformers import AutoModelForMaskedLM, AutoTokenizer

from interextra.data.queries import Source
from interextra.models.model import Pretrained, fit
from interextra.models.recipe import Pretraining, load_recipe
from interextra.models.training import objectives
from interextra.models.training.objectives import (
    Objective,
    halves,
    masked,
    new_model,
    partners,
    pretrain,
    read,
    train,
)
from interextra.store.errors import InputError
from interextra.store.folders import Store
from tools.pretrain_text import train_tokenizer

NAMES = ("words", "order", "condenser", "spans")


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 120)


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    passages = [(f"d{i}", text) for i, text in enumerate(TEXTS * 4)]
    return collection_of(tmp_path_factory.mktemp("toy"), passages, [("q", "few")], [("q", "d0", 1)])


def made(tokenizer, name, **values):
    torch.manual_seed(1)
    how = Pretraining(objective=name, corpus=("some",), **values)
    return Objective(new_model(len(tokenizer), 1), tokenizer, how)


def rows(n=6, length=10):
    return np.random.default_rng(1).integers(5, 40, (n, length)).tolist()


def test_halves_are_the_passage_and_never_empty():
    for lengths in ([2, 3, 4, 50], [2]):
        passages = [list(range(5, 5 + length)) for length in lengths]
        for first, second in halves(passages, torch.Generator().manual_seed(1)):
            assert first and second and first + second in passages
    cuts = [
        len(first)
        for first, _ in halves([list(range(100))] * 500, torch.Generator().manual_seed(1))
    ]
    assert min(cuts) >= 25 and max(cuts) <= 75 and len(set(cuts)) > 40


def test_partners_are_the_halves_of_one_passage():
    vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    scores, truth = partners(vectors)
    assert truth.tolist() == [3, 4, 5, 0, 1, 2]
    for i in range(6):
        for j in range(6):
            expected = float("-inf") if i == j else float(vectors[i] @ vectors[j])
            assert float(scores[i, j]) == pytest.approx(expected, abs=1e-5)


def test_an_exchanged_passage_begins_with_its_second_half(tokenizer):
    objective, passages = made(tokenizer, "order"), rows()
    laid, exchanged = objective.laid_out(passages, torch.Generator().manual_seed(1))
    assert 0 < int(exchanged.sum()) < len(passages)
    for passage, row, turned in zip(passages, laid, exchanged.tolist(), strict=True):
        at = row.index(tokenizer.sep_token_id)
        first, second = row[:at], row[at + 1 :]
        assert (second + first if turned else first + second) == passage
    framed = objective.framed(laid)
    assert framed.shape == (6, 13) and (framed[:, 0] == tokenizer.cls_token_id).all()


def test_the_late_head_sees_cls_of_the_last_layer_and_the_words_of_an_early_one(tokenizer):
    objective = made(tokenizer, "condenser")
    layers = objective.model.bert.encoder.layer
    losses = objective(rows(), torch.Generator().manual_seed(1))
    losses["head"].backward()
    assert layers[-1].attention.self.query.weight.grad.abs().sum() > 0  # through [CLS]
    seen = {}
    objective.late[0].register_forward_pre_hook(lambda _, inputs: seen.update(mixed=inputs[0]))
    objective.model.bert.register_forward_hook(
        lambda _, __, out: seen.update(states=out.hidden_states)
    )
    objective(rows(), torch.Generator().manual_seed(1))
    assert torch.equal(seen["mixed"][:, 0], seen["states"][-1][:, 0])
    assert torch.equal(seen["mixed"][:, 1:], seen["states"][1][:, 1:]) and len(seen["states"]) == 3


def test_a_mean_is_that_of_the_tokens_without_padding(tokenizer):
    objective = made(tokenizer, "spans", pooling="mean")
    texts = [[5, 6, 7], [8, 9, 10, 11, 12, 13]]
    found = objective.vectors(texts)
    for text, vector in zip(texts, found, strict=True):
        tokens = objective.framed([text])
        alone = objective.model.bert(tokens).last_hidden_state[0].mean(dim=0)
        assert torch.allclose(vector, alone, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_each_objective_learns_what_it_claims(tokenizer, toy, tmp_path, name):
    how = Pretraining(objective=name, corpus=("toy",), steps=60, batch_size=16, length=24)
    log = pretrain(how, [toy], "random", 1, tmp_path / "weights")
    assert log["before"].keys() == log["after"].keys() and log["curve"][-1]["step"] == 60
    losses = [key for key in log["before"] if key.endswith("_loss") and key != "order_loss"]
    assert all(log["after"][key] < log["before"][key] for key in losses)
    assert {"order": "order_loss", "condenser": "head_loss", "spans": "spans_loss"}.get(
        name, "words_loss"
    ) in log["after"]
    AutoModelForMaskedLM.from_pretrained(tmp_path / "weights")


def test_all_objectives_read_the_same_passages_and_as_many_tokens(toy, tmp_path):
    logs = {}
    for name in NAMES:
        how = Pretraining(objective=name, corpus=("toy",), steps=3, batch_size=16, length=24)
        logs[name] = pretrain(how, [toy], "random", 1, tmp_path / name)
    assert len({(log["tokens"], log["passages"], log["held_out"]) for log in logs.values()}) == 1
    assert logs["words"]["tokens"] > 3 * 16 * 5


def test_pretraining_repeats_and_none_is_the_start(toy, tmp_path):
    how = Pretraining(objective="spans", corpus=("toy",), steps=3, batch_size=16, length=24)
    logs = [pretrain(how, [toy], "random", 1, tmp_path / name) for name in "ab"]
    files = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert logs[0] == logs[1] and files[0] == files[1]
    assert pretrain(Pretraining(objective="none"), [], "random", 1, tmp_path / "none") == {
        "tokens": 0
    }
    start = AutoModelForMaskedLM.from_pretrained(tmp_path / "none").state_dict()
    plain = new_model(4000, 1).state_dict()
    assert all(torch.equal(start[name], plain[name]) for name in plain)


def test_collections_are_read_together_and_too_few_passages_are_refused(toy, tokenizer):
    how = Pretraining(objective="words", corpus=("a", "b"), steps=100, batch_size=16, length=24)
    once, twice = (
        sum(map(len, read(how, collections, tokenizer))) for collections in ([toy], [toy, toy])
    )
    assert twice == 2 * once == 2 * 4 * len(TEXTS)
    with pytest.raises(InputError, match="400 passages of two words or more; 800 are needed"):
        read(
            Pretraining(objective="words", corpus=("a",), steps=1000, batch_size=100),
            [toy],
            tokenizer,
        )


def test_texts_of_two_words_are_read_and_shorter_ones_are_not(tokenizer, tmp_path):
    how = Pretraining(objective="words", corpus=("a",), steps=9, batch_size=2)
    passages = [(f"d{i}", "few") for i in range(3)] + [(f"e{i}", "few lake") for i in range(16)]
    held, others = read(how, [collection_of(tmp_path / "a", passages)], tokenizer)
    assert [len(row) for row in held + others] == [2] * 16 and len(held) == 4
    with pytest.raises(InputError, match="15 passages of two words or more; 16 are needed"):
        read(how, [collection_of(tmp_path / "b", passages[:-1])], tokenizer)


def test_pretraining_masks_and_draws_every_word_and_no_special_token(toy, tmp_path, monkeypatch):
    passed = []
    monkeypatch.setattr(
        objectives, "masked", lambda *given: passed.append(given[1:4]) or masked(*given)
    )
    pretrain(
        Pretraining(objective="words", corpus=("toy",), steps=1, batch_size=16),
        [toy],
        "random",
        1,
        tmp_path,
    )
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    [(mask_id, first_word, vocabulary)] = set(passed)
    words = set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids)
    assert mask_id == tokenizer.mask_token_id and set(range(first_word, vocabulary)) == words


@pytest.mark.parametrize(("asked", "threads"), [(None, 1), ("2", 2)])
def test_pretraining_uses_one_thread_unless_more_are_asked_for(
    toy, tmp_path, monkeypatch, asked, threads
):
    seen, before = [], torch.get_num_threads()
    monkeypatch.setattr(objectives, "train", lambda *_: seen.append(torch.get_num_threads()) or {})
    monkeypatch.setattr(Objective, "measure", lambda *_: {})
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if asked:
        monkeypatch.setenv("OMP_NUM_THREADS", asked)
    try:
        torch.set_num_threads(2)
        pretrain(
            Pretraining(objective="words", corpus=("toy",), batch_size=16),
            [toy],
            "random",
            1,
            tmp_path,
        )
    finally:
        torch.set_num_threads(before)
    assert seen == [threads]


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", torch.float32), ("bf16", torch.bfloat16)]
)
def test_pretraining_computes_in_its_precision_and_keeps_weights_in_fp32(
    tokenizer, precision, dtype
):
    objective, seen = made(tokenizer, "words"), set()
    objective.model.bert.encoder.layer[0].output.dense.register_forward_hook(
        lambda _, __, out: seen.add(out.dtype)
    )
    how = Pretraining(
        objective="words", corpus=("some",), steps=1, batch_size=4, precision=precision
    )
    train(objective, rows(), how, 1)
    assert seen == {dtype} and {weight.dtype for weight in objective.parameters()} == {
        torch.float32
    }


def test_an_objective_without_text_and_text_without_an_objective_are_refused():
    for values in ({"objective": "none", "corpus": ["mini"]}, {"objective": "words"}):
        with pytest.raises(InputError, match="none reads nothing"):
            load_recipe("mini-dense", pretraining=values)


def test_a_pretraining_is_a_cell_of_its_own_with_its_log(tmp_path):
    how = Pretraining(objective="order", corpus=("mini",), steps=2, batch_size=16)
    cells = [Pretrained.of(how, "random", seed) for seed in (1, 2)]
    assert cells[0].key != cells[1].key and cells[0].corpus == (Source.of("mini"),)
    store = Store(tmp_path / "outputs" / "cells")
    log = json.loads((store.build(cells[0]) / "pretraining.json").read_text())
    assert (
        all(a["step"] < b["step"] for a, b in pairwise(log["curve"]))
        and 0 <= log["after"]["order_accuracy"] <= 1
    )


def state():
    fills = torch.utils.deterministic.fill_uninitialized_memory
    determinism = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    return torch.get_num_threads(), *determinism, fills, os.environ.get("CUBLAS_WORKSPACE_CONFIG")


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_training_and_pretraining_leave_torch_as_it_was(
    toy, tmp_path, monkeypatch, deterministic, fails
):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    threads = torch.get_num_threads()
    how = Pretraining(
        objective="words", corpus=("toy",), steps=2, batch_size=4 if not fails else 4000
    )
    recipe, met = (
        load_recipe("mini-dense", steps=1, batch_size=4, warmup_steps=0, negatives="random"),
        [],
    )
    ids = toy.query_ids("train") if not fails else ["nobody"]
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda *given, **options: met.append(state()))
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(2)
    try:
        before = state()
        for train in (
            lambda: pretrain(how, [toy], "tiny-base", 1, tmp_path / "pretrained"),
            lambda: fit(recipe, toy, ids, "train", 1, tmp_path / "model"),
        ):
            with pytest.raises(InputError) if fails else nullcontext():
                train()
            assert state() == before
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(threads)
    assert {one[:4] for one in met} == (set() if fails else {(1, True, False, False)})

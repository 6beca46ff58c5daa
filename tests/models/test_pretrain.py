"""Pretraining of the tiny base, on a few sentences, and the text that it reads."""

import json
import re
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from interextra.models.base import verified_base
from interextra.models.training.objectives import masked, new_model
from interextra.store.files import sha256
from interextra.world import generate
from tools import other
from tools.other import other_worlds_text, vocabulary
from tools.pretrain import matching_accuracy, pretrain
from tools.pretrain_text import (
    rare_words,
    renamed_passages,
    repeated_names,
    token_ids,
    train_tokenizer,
)

NAMES = ["Bado", "Kilu", "Menosh", "Tivor", "Prado"]
TEXTS = [
    f"The lake of {name} lies near {other}; few have seen {name}."
    for name in NAMES
    for other in NAMES
] * 4


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS, 120)


def test_masking_takes_the_share_asked_for_and_never_a_special_token():
    tokens = torch.randint(0, 50, (400, 70), generator=torch.Generator().manual_seed(1))
    inputs, chosen = masked(tokens, 4, 5, 50, torch.Generator().manual_seed(2))
    ordinary = tokens >= 5
    assert not (chosen & ~ordinary).any() and (inputs[~chosen] == tokens[~chosen]).all()
    assert chosen.sum() / ordinary.sum() == pytest.approx(0.2, abs=0.01)
    assert (inputs[chosen] == 4).float().mean() == pytest.approx(0.8, abs=0.02)
    assert (inputs[chosen] >= 5).all(dim=-1) or (inputs[chosen & (inputs != 4)] >= 5).all()


def test_repeated_names_are_rare_words_that_occur_twice(tokenizer):
    texts = [
        "The lake of Bado lies near Kilu; few have seen Bado.",
        "The lake lies near Kilu.",
        "Few have seen. Few.",
    ]
    places = repeated_names(tokenizer, texts, {"bado", "kilu"})
    assert [row for row, _ in places] == [0]
    ids = token_ids(tokenizer, texts)
    assert tokenizer.decode(int(ids[0, places[0][1]])).replace("#", "") in "bado"
    assert rare_words(["a b", "a c", "A d"], share=0.5) == {"b", "c", "d"}


def test_model_that_copies_is_told_from_one_that_does_not(tokenizer):
    ids = token_ids(tokenizer, TEXTS[:20])
    places = repeated_names(tokenizer, TEXTS[:20], {name.lower() for name in NAMES})
    model = new_model(len(tokenizer), seed=1)
    assert matching_accuracy(model, ids, places, tokenizer.mask_token_id) < 0.5

    class Oracle:
        """Predicts the token that stands at a position before it was masked."""

        def __init__(self):
            self.rows = np.array([row for row, _ in places])

        def eval(self): ...

        def train(self): ...

        def bert(self, input_ids, attention_mask):
            truth = torch.as_tensor(ids[self.rows].astype(np.int64))
            return type(
                "Output", (), {"last_hidden_state": torch.nn.functional.one_hot(truth).float()}
            )

        def cls(self, hidden):
            return hidden

    assert matching_accuracy(Oracle(), ids, places, tokenizer.mask_token_id) == 1


def test_pretraining_repeats_bit_for_bit_and_seals_its_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tools.pretrain.EVERY", 3)
    monkeypatch.setattr("tools.pretrain.VOCABULARY", 120)
    recipes = [pretrain(TEXTS, TEXTS, 6, 1, tmp_path / name) for name in "ab"]
    assert (
        recipes[0]["sha256"] == recipes[1]["sha256"] and recipes[0]["curve"] == recipes[1]["curve"]
    )
    assert verified_base(tmp_path / "a") == tmp_path / "a"
    noted = json.loads((tmp_path / "a" / "recipe.json").read_text())
    assert noted["sha256"]["model.safetensors"] == sha256(tmp_path / "a" / "model.safetensors")
    assert noted["steps"] == 6 and len(noted["curve"]) == 2


def test_renamed_passages_hold_no_name_of_the_world_and_no_question():
    texts = list(renamed_passages(1, 1))
    names = {
        name.lower()
        for names in generate("mini").facts["entities"]
        for name in names
        if len(name) > 6
    }
    assert len(texts) > 2000 and texts == list(renamed_passages(1, 1))
    assert not [name for name in names if any(f" {name} " in text for text in texts)]
    assert not [text for text in texts if "?" in text or not text.strip()]


def test_text_of_other_worlds_has_invented_names_that_repeat():
    texts = list(islice(other_worlds_text(3, 10), 1000))
    assert texts == list(other_worlds_text(3, 10)) and len(set(texts)) > 950
    pool = set(vocabulary())
    assert len(pool) > 2000
    entities = generate("mini").facts["entities"]
    names = {name.lower() for names in entities for name in names if len(name) > 5}
    assert not any(re.search(rf"\b{re.escape(name)}\b", text) for name in names for text in texts)
    known = pool | set(re.findall(r"\w+", Path(other.__file__).with_suffix(".yaml").read_text()))
    odd = [Counter(w for w in re.findall(r"[a-z]+", text) if w not in known) for text in texts]
    assert np.mean([max(c.values(), default=0) >= 2 for c in odd]) > 0.5

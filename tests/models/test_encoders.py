"""Queries encoded alone: their scores with each other, and an encoder that was not tuned."""

import numpy as np
import pytest
import torch
from toy_models import animals

from interextra.models.architectures import colbert, dense, splade
from interextra.models.encoders import encoder_of
from interextra.models.recipe import load_recipe


@pytest.mark.parametrize("module", [dense, splade, colbert])
def test_query_similarities_are_the_models_own_scores_in_blocks(module, tmp_path):
    recipe = load_recipe(f"mini-{module.__name__.rsplit('.', 1)[-1]}", steps=0)
    kind = {dense: dense.Dense, splade: splade.Splade, colbert: colbert.ColBERT}[module]
    model = kind(module.build(recipe, 1), recipe)
    texts = animals(tmp_path).queries("train")["text"][:11].tolist()
    model.query_block = 3
    blocks = list(model.query_similarities(texts[:7], texts[4:]))
    assert [block.shape for block in blocks] == [(3, 7), (3, 7), (1, 7)]
    if module is colbert:
        left, right = (
            [model.encode_block([text], "query") for text in some]
            for some in (texts[:7], texts[4:])
        )
        pairs = [[float(colbert.maxsim(a, b)[0, 0]) for b in right] for a in left]
    else:
        left, right = model.encode_block(texts[:7], "query"), model.encode_block(texts[4:], "query")
        pairs = left @ right.T if module is dense else (left @ right.T).toarray()
    np.testing.assert_allclose(np.concatenate(blocks), pairs, rtol=2e-4, atol=2e-4)


def test_untuned_cls_encoder_is_the_first_token_of_the_transformer():
    texts = ["what is it", "where is the moon"]
    kind, option = encoder_of("cls:tiny-base")
    made = kind(option, [])
    found, words = made.encode_queries(texts), made.model[0].cpu()
    coded = words.tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = words.model(**coded).last_hidden_state[:, 0]
    np.testing.assert_allclose(found, states.numpy(), atol=1e-5)

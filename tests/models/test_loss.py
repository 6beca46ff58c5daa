"""The ranking losses equal a computation by hand, and each kind of negatives scores the passages
that it names.
"""

import os
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
import torch

from interextra.models.model import Model
from interextra.models.recipe import load_recipe
from interextra.models.training.trainer import Scoring, SharedNegatives, ranking_loss
from interextra.store import code

QUERIES = np.array([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]])
POSITIVES = np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
NEGATIVES = np.array([[1.0, 1.0], [-3.0, 0.5], [0.0, 0.0], [2.0, 2.0]])
GOOD = (QUERIES * POSITIVES).sum(axis=1, keepdims=True)  # [3, 1]
BAD = QUERIES @ NEGATIVES.T  # [3, 4]
BARRED = np.array([[True, False, False, False], [False] * 4, [False, True, True, False]])
KINDS = ["listwise", "pairwise"]


def by_hand(kind, temperature=1.0, barred=None):
    losses = []
    for i, (positive,) in enumerate(GOOD / temperature):
        bad = [
            score / temperature
            for j, score in enumerate(BAD[i])
            if barred is None or not barred[i][j]
        ]
        if kind == "listwise":
            losses += [-np.log(np.exp(positive) / (np.exp(positive) + np.exp(bad).sum()))]
        else:
            losses += [
                -np.log(np.exp(positive) / (np.exp(positive) + np.exp(score))) for score in bad
            ]
    return np.mean(losses)


def recipe_of(kind, temperature=1.0):
    return load_recipe("mini-reranker", loss=kind, temperature=temperature)


def by_library(kind, temperature=1.0, barred=None):
    barred = None if barred is None else torch.tensor(barred)
    return ranking_loss(
        torch.tensor(GOOD), torch.tensor(BAD), barred, recipe_of(kind, temperature)
    ).item()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.2, 7.0])
def test_loss_equals_the_computation_by_hand(kind, temperature):
    assert by_library(kind, temperature) == pytest.approx(by_hand(kind, temperature), rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_relevant_passage_among_the_negatives_is_left_out(kind):
    assert by_library(kind, barred=BARRED) == pytest.approx(by_hand(kind, barred=BARRED), rel=1e-9)
    assert by_library(kind, barred=BARRED) != pytest.approx(by_library(kind))


def test_listwise_and_pairwise_differ_with_many_negatives_and_agree_with_one():
    assert by_library("listwise") > 1.5 * by_library("pairwise")
    one = torch.tensor(GOOD), torch.tensor(BAD[:, :1])
    assert ranking_loss(*one, None, recipe_of("listwise")).item() == pytest.approx(
        ranking_loss(*one, None, recipe_of("pairwise")).item()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_loss_and_gradient_stay_finite_when_every_negative_is_barred(kind):
    good, bad = (torch.tensor(x, requires_grad=True) for x in (GOOD, BAD))
    loss = ranking_loss(good, bad, torch.ones(3, 4, dtype=torch.bool), recipe_of(kind))
    loss.backward()
    assert torch.isfinite(good.grad).all() and (bad.grad is None or not bad.grad.any())
    assert loss.item() == pytest.approx(0)


class Asis(torch.nn.Module):
    """A model whose input is its output; notes the tasks it was asked for."""

    def __init__(self):
        super().__init__()
        self.tasks = []

    def forward(self, column, task):
        self.tasks.append(task)
        return column


@pytest.mark.parametrize(
    ("negatives", "columns"),
    [
        ("random", [NEGATIVES]),
        ("bm25", [NEGATIVES]),
        ("in-batch", [POSITIVES]),
        ("both", [NEGATIVES, POSITIVES]),
        ("bm25+in-batch", [NEGATIVES, POSITIVES]),
    ],
)
def test_each_kind_of_negatives_scores_its_own_columns(negatives, columns):
    recipe = load_recipe("mini-dense", temperature=1, negatives=negatives)
    scoring = Scoring(lambda out: out, lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T)
    model = Asis()
    given = [QUERIES, POSITIVES] + ([NEGATIVES] if negatives != "in-batch" else [])
    bad = np.concatenate([QUERIES @ column.T for column in columns], axis=1)
    barred = np.zeros(bad.shape, dtype=bool)
    if columns[-1] is POSITIVES:  # its own positive is no negative of a query
        barred[:, -3:] = np.eye(3, dtype=bool)
    loss = SharedNegatives(model, recipe, scoring)(
        [torch.tensor(column) for column in given], torch.tensor(barred)
    )
    expected = [
        -np.log(np.exp(g) / (np.exp(g) + np.exp(b[~x]).sum()))
        for g, b, x in zip(GOOD[:, 0], bad, barred, strict=True)
    ]
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-9)
    assert model.tasks == ["query", "document", "document"][: len(given)]


def test_lower_temperature_makes_a_lost_pair_dearer():
    losses = [
        ranking_loss(
            torch.tensor([[0.0]]), torch.tensor([[1.0]]), None, recipe_of("pairwise", temperature)
        ).item()
        for temperature in (4.0, 1.0, 0.1)
    ]
    assert all(before < after for before, after in pairwise(losses))


HINGE = """

@for_scores("batch", "pairs")
def hinge_like(good, bad, goal, recipe):
    return (1 - good + bad).clamp(min=0).mean()
"""


def test_new_loss_is_a_function_and_nothing_else(tmp_path):
    shutil.copytree(code.ROOT, tmp_path / "interextra")
    with (tmp_path / "interextra" / "models" / "training" / "losses.py").open("a") as file:
        file.write(HINGE)
    script = """if True:
        import torch
        from interextra.models.training.trainer import ranking_loss
        from interextra.models.recipe import load_recipe
        for name in ("mini-dense", "mini-reranker"):
            recipe = load_recipe(name, loss="hinge-like", temperature=2.0)
            print(float(ranking_loss(torch.tensor([[2.0]]), torch.tensor([[4.0, -6.0]]), None, recipe)))
    """
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "1.0\n1.0\n", done.stderr


def test_code_of_a_model_holds_the_loss_of_its_recipe_and_no_other():
    def of(**values):
        return Model.model_construct(recipe=load_recipe("mini-dense", **values)).modules()

    place = "interextra.models.training.losses"
    names = {f"{place}:{name}" for name in ("listwise", "pairwise", "distilled", "margin_mse")}
    assert names & set(of()) == {"interextra.models.training.losses:listwise"}
    assert names & set(of(loss="pairwise")) == {"interextra.models.training.losses:pairwise"}


def test_a_further_loss_leaves_the_code_behind_the_others(tmp_path, monkeypatch):
    shutil.copytree(code.ROOT, tmp_path / "interextra")
    monkeypatch.setattr(code, "ROOT", tmp_path / "interextra")
    file, found = tmp_path / "interextra" / "models" / "training" / "losses.py", []
    plain = file.read_text()
    try:
        for text in (plain, plain + HINGE, plain.replace("good.squeeze(1)", "good[:, 0]")):
            file.write_text(text)
            code._parsed.cache_clear()
            found.append(code.behind.__wrapped__(("interextra.models.training.losses:listwise",)))
    finally:
        code._parsed.cache_clear()
    assert found[0] == found[1] != found[2] and "torch" in found[0]

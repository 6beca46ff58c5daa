"""The two readings of "cross entropy" equal a computation by hand."""

import numpy as np
import pytest
import torch

from interextra.models.dense import ranking_loss

QUERIES = np.array([[1.0, 0.0], [0.5, 2.0], [-1.0, 1.0]])
POSITIVES = np.array([[2.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
NEGATIVES = np.array([[1.0, 1.0], [-3.0, 0.5], [0.0, 0.0], [2.0, 2.0]])


def by_hand(kind, temperature=1.0, barred=None):
    losses = []
    for i, (query, positive) in enumerate(zip(QUERIES, POSITIVES, strict=True)):
        good = query @ positive / temperature
        bad = [query @ n / temperature for j, n in enumerate(NEGATIVES) if barred is None or not barred[i][j]]
        if kind == "listwise":
            losses.append([-np.log(np.exp(good) / (np.exp(good) + np.exp(bad).sum()))])
        else:
            losses.append([-np.log(np.exp(good) / (np.exp(good) + np.exp(score))) for score in bad])
    return np.mean(np.concatenate(losses))


def by_library(kind, temperature=1.0, barred=None):
    vectors = (torch.tensor(x) for x in (QUERIES, POSITIVES, NEGATIVES))
    return ranking_loss(*vectors, kind, temperature, None if barred is None else torch.tensor(barred)).item()


@pytest.mark.parametrize("kind", ["listwise", "pairwise"])
@pytest.mark.parametrize("temperature", [1.0, 0.05, 7.0])
def test_loss_equals_the_computation_by_hand(kind, temperature):
    assert by_library(kind, temperature) == pytest.approx(by_hand(kind, temperature), rel=1e-9)


@pytest.mark.parametrize("kind", ["listwise", "pairwise"])
def test_relevant_passage_among_the_negatives_is_left_out(kind):
    barred = np.array([[True, False, False, False], [False] * 4, [False, True, True, False]])
    assert by_library(kind, barred=barred) == pytest.approx(by_hand(kind, barred=barred), rel=1e-9)
    assert by_library(kind, barred=barred) != pytest.approx(by_library(kind))


def test_listwise_and_pairwise_differ_with_many_negatives_and_agree_with_one():
    assert by_library("listwise") > 1.5 * by_library("pairwise")
    one = [torch.tensor(x) for x in (QUERIES, POSITIVES, NEGATIVES[:1])]
    assert ranking_loss(*one, "listwise", 1.0).item() == pytest.approx(ranking_loss(*one, "pairwise", 1.0).item())


def test_loss_and_gradient_stay_finite_when_every_negative_is_barred():
    vectors = [torch.tensor(x, requires_grad=True) for x in (QUERIES, POSITIVES, NEGATIVES)]
    for kind in ("listwise", "pairwise"):
        loss = ranking_loss(*vectors, kind, 1.0, torch.ones(3, 4, dtype=torch.bool))
        loss.backward()
        assert loss.item() == 0 and all(torch.isfinite(v.grad).all() for v in vectors)

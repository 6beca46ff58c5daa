"""Training strategies of Table 8: each against a plain loop, and what is never among mined
negatives.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from test_pairs import EVERY, PASSAGES, QRELS, QUERIES, Words, relevant
from toy_models import collection_of

from interextra.data.runs import RunFile
from interextra.models.architectures import dense
from interextra.models.model import fit
from interextra.models.recipe import load_recipe
from interextra.models.search.topk import device
from interextra.models.training.losses import distillation_loss, rank_weighted_loss
from interextra.models.training.pairs import (
    exposed_passages,
    negatives_of,
    ranked_rows,
    training_pairs,
)
from interextra.models.training.trainer import (
    DynamicHardNegatives,
    EncoderBatches,
    QueryBatches,
    Scoring,
    SharedNegatives,
)
from interextra.store.errors import InputError

MINED = {
    "negatives": "mined+in-batch",
    "n_negatives": 2,
    "negative_depth": 4,
    "after": "mini-dense",
}
DYNAMIC = {"negatives": "own", "loss": "rank-weighted", "negative_depth": 3, "after": "mini-dense"}


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    return collection_of(tmp_path_factory.mktemp("toy"), PASSAGES, QUERIES, QRELS)


@pytest.fixture(scope="module")
def pairs(toy):
    return training_pairs(toy, toy.query_ids("train"), "train", 1)


@pytest.fixture
def ranking(toy, tmp_path):
    """A run that ranks all passages for all queries but q3, which has two; another order of queries
    than ours.
    """
    scores = np.random.default_rng(1).random((4, len(PASSAGES)))
    rows = np.argsort(-scores, axis=1)
    rows[0, 2:] = -1
    asked = ["q3", "q1", "q0", "q2"]
    found = np.take_along_axis(scores, rows, axis=1)
    RunFile.from_arrays(asked, toy.passages.doc_ids, rows, found).write_parquet(
        tmp_path / "run.train.parquet"
    )
    order = [asked.index(query_id) for query_id in ("q0", "q1", "q2", "q3")]
    return tmp_path / "run.train.parquet", rows[order]


def test_a_ranking_is_read_in_the_order_of_the_training_queries(toy, pairs, ranking):
    path, rows = ranking
    assert (ranked_rows(path, toy, pairs.query_ids, 6) == rows).all()
    assert (ranked_rows(path, toy, pairs.query_ids[2:], 3) == rows[2:, :3]).all()
    with pytest.raises(InputError, match="1 training queries are not in the run: 'q9'"):
        ranked_rows(path, toy, ["q0", "q9"], 3)


def test_mined_negatives_are_the_ranking_without_what_is_relevant(toy, pairs, ranking):
    _, rows = ranking
    mined = negatives_of(rows, relevant(toy, pairs), EVERY)
    for query, (found, ranked) in enumerate(zip(mined, rows, strict=True)):
        answers = set(pairs.rows[pairs.query == query].tolist())
        assert [row for row in found if row >= 0] == [
            row for row in ranked if row >= 0 and row not in answers
        ]
    drawable = EVERY.copy()
    drawable[rows[1, 0]] = False
    assert rows[1, 0] not in negatives_of(rows, relevant(toy, pairs), drawable)


def test_no_hard_negative_is_ever_a_positive_of_its_query(toy, pairs, ranking):
    recipe = load_recipe("mini-dense", **MINED)
    made = EncoderBatches(
        Words(), pairs, toy, recipe, 1, ranked_rows(ranking[0], toy, pairs.query_ids, 4)
    )
    texts = [text for _, text in PASSAGES]
    known = set(zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True))
    for seed in range(20):
        at = np.random.default_rng(seed).permutation(len(pairs.rows))[:3]
        batch = made([{"pair": i} for i in at])
        drawn = [texts.index(text) for text in batch["negative_texts"]]
        own = zip(np.repeat(pairs.query[at], 2).tolist(), drawn, strict=True)
        assert not known & set(own)
        columns = [*drawn, *pairs.rows[at]]
        expected = [
            [(query, row) in known for row in columns] for query in pairs.query[at].tolist()
        ]
        assert (
            batch["label"].tolist() == expected
        )  # those of other queries are barred where they are relevant


def test_a_distilled_loss_is_the_loop_over_queries():
    draw = torch.Generator().manual_seed(1)
    good, bad, goal = (
        torch.randn(3, 1, generator=draw),
        torch.randn(3, 4, generator=draw),
        torch.randn(3, 5, generator=draw),
    )
    goal[1, 2] = goal[2, 4] = float("-inf")
    plain = 0.0
    for query in range(3):
        kept = [column for column in range(5) if goal[query, column] > float("-inf")]
        scores = [float(good[query]), *bad[query].tolist()]
        student = np.exp([scores[column] / 0.5 for column in kept])
        teacher = np.exp([float(goal[query, column]) / 2 for column in kept])
        plain -= float((teacher / teacher.sum() * np.log(student / student.sum())).sum()) / 3
    assert float(distillation_loss(good, bad, goal, 0.5, 2.0)) == pytest.approx(plain, abs=1e-5)


def test_a_student_with_the_scores_of_its_teacher_has_nothing_to_learn():
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    student = scores.clone().requires_grad_()
    distillation_loss(student[:, :1], student[:, 1:], scores, 1.0, 1.0).backward()
    assert student.grad.abs().max() < 1e-6


class Teacher:
    """Scores a query and a passage by their lengths."""

    def encode_block(self, texts):
        return {"lengths": torch.tensor([float(len(text)) for text in texts])}

    def open_queries(self, texts):
        own = torch.tensor([float(len(text)) for text in texts])
        return lambda block: lambda here: own[here, None] * block["lengths"]


def test_a_goal_is_the_teachers_score_of_the_positive_and_each_negative(toy, pairs):
    recipe = load_recipe(
        "mini-dense", negatives="both", n_negatives=2, loss="distilled", teacher="mini-colbert"
    )
    made = EncoderBatches(Words(), pairs, toy, recipe, 1, teacher=Teacher())
    batch = made([{"pair": i} for i in (0, 1, 4)])
    negatives = [*batch["negative_texts"], *batch["positive_texts"]]
    known = set(zip(pairs.query.tolist(), pairs.rows.tolist(), strict=True))
    texts = [text for _, text in PASSAGES]
    for query, positive, row in zip(
        (0, 1, 3), batch["positive_texts"], batch["label"].tolist(), strict=True
    ):
        size = len(QUERIES[query][1])
        assert row[0] == size * len(positive)
        for text, score in zip(negatives, row[1:], strict=True):
            assert score == (
                float("-inf") if (query, texts.index(text)) in known else size * len(text)
            )


class PairTeacher:
    """Scores a pair by the product of the lengths of its texts."""

    def score(self, passages, texts, rows):
        lengths = [[len(passages.texts([row])[0]) for row in of] for of in rows.tolist()]
        return np.array([[len(text)] for text in texts], dtype=np.float32) * np.array(
            lengths, dtype=np.float32
        )


def test_margins_are_those_of_the_teacher_for_each_querys_own_negatives(toy, pairs, ranking):
    asked = MINED | {
        "negatives": "mined",
        "loss": "margin-mse",
        "teacher": "mini-reranker",
        "temperature": 0.5,
    }
    recipe = load_recipe("mini-dense", **asked)
    found = ranked_rows(ranking[0], toy, pairs.query_ids, 4)
    batch = EncoderBatches(Words(), pairs, toy, recipe, 1, found, PairTeacher())(
        [{"pair": i} for i in (0, 1, 4)]
    )
    draw = torch.Generator().manual_seed(4)
    queries, positives, negatives = (torch.randn(n, 4, generator=draw) for n in (3, 3, 6))
    plain = 0.0
    for at, query in enumerate((0, 1, 3)):
        size = len(QUERIES[query][1])
        for own in (2 * at, 2 * at + 1):
            student = float(queries[at] @ positives[at] - queries[at] @ negatives[own]) / 0.5
            teacher = size * (len(batch["positive_texts"][at]) - len(batch["negative_texts"][own]))
            plain += (student - teacher) ** 2 / 6
    scoring = Scoring(lambda out: out, lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T)
    loss = SharedNegatives(None, recipe, scoring)
    assert float(
        loss.compute_loss_from_embeddings([queries, positives, negatives], batch["label"])
    ) == pytest.approx(plain, rel=1e-5)


def test_a_step_against_its_own_ranking_is_the_plain_loop(toy, pairs):
    draw = torch.Generator().manual_seed(3)
    passages, vectors = (
        torch.randn(len(PASSAGES), 4, generator=draw),
        torch.randn(2, 4, generator=draw),
    )
    recipe = load_recipe("mini-dense", **DYNAMIC, temperature=0.7, negative_passages="unexposed")
    batches = QueryBatches(Words(), pairs, toy, recipe, 1)
    label = batches([{"pair": 1}, {"pair": 0}])["label"]
    assert label.tolist() == [[3, 3, 4], [1, 1, -1]]
    loss = DynamicHardNegatives(
        lambda features, task: {"sentence_embedding": vectors.to(device())}, recipe, passages
    )
    loss.batches = batches
    found = float(loss([None], label.to(device())))

    allowed = ~exposed_passages(toy, pairs, 1)
    plain = 0.0
    for vector, (positive, *answers) in zip(vectors, label.tolist(), strict=True):
        scores = {row: float(vector @ passages[row]) for row in range(len(PASSAGES))}
        negatives = [row for row in scores if row not in answers and allowed[row]]
        negatives = sorted(negatives, key=lambda row: -scores[row])[:3]
        order = sorted([positive, *negatives], key=lambda row: -scores[row])
        rank = {row: 1 + order.index(row) for row in order}
        for row in negatives:
            weight = abs(1 / rank[positive] - 1 / rank[row])
            plain += weight * np.log1p(np.exp((scores[row] - scores[positive]) / 0.7)) / 2
    assert found == pytest.approx(plain, abs=1e-5)
    assert batches.n_negatives == 6 and batches.n_exposed == 0


def test_vectors_that_stay_are_mapped_from_a_file_that_leaves_no_trace(toy, tmp_path):
    recipe = load_recipe("mini-dense", **DYNAMIC)
    model = dense.build(recipe, 1)
    loss = dense._dynamic_hard_negatives(model, recipe, toy, tmp_path)
    expected = dense.Dense(model, recipe).encode_passages(toy.passages.texts(slice(None)))
    assert (loss.passages.cpu().numpy() == expected).all() and not list(tmp_path.iterdir())
    maps = Path("/proc/self/maps")
    if device() == "cpu" and maps.exists():
        assert str(tmp_path) in maps.read_text()


def test_ranks_are_those_among_the_positive_and_its_negatives():
    good, bad = torch.tensor([[1.5]]), torch.tensor([[2.0, 1.0, 0.0]])
    terms = [(1 / 2 - 1 / 1), (1 / 2 - 1 / 3), (1 / 2 - 1 / 4)]
    plain = sum(
        abs(w) * np.log1p(np.exp(s - 1.5)) for w, s in zip(terms, (2.0, 1.0, 0.0), strict=True)
    )
    every = torch.ones(1, 3, dtype=torch.bool)
    assert float(rank_weighted_loss(good, bad, every)) == pytest.approx(plain, abs=1e-5)


def test_a_teachers_goal_reaches_the_loss():
    recipe = load_recipe(
        "mini-dense",
        negatives="in-batch",
        loss="distilled",
        teacher="mini-colbert",
        temperature=1.0,
    )
    scoring = Scoring(lambda out: out, lambda q, p: (q * p).sum(dim=1), lambda q, p: q @ p.T)
    loss = SharedNegatives(None, recipe, scoring)
    queries, positives = torch.eye(2), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    goal = torch.tensor([[2.0, float("-inf"), 0.0], [2.0, 0.0, float("-inf")]])
    soft = distillation_loss(torch.tensor([[2.0], [2.0]]), queries @ positives.T, goal, 1.0, 1.0)
    expected = 0.9 * soft + 0.1 * np.log(
        1 + np.exp(-2)
    )  # hard labels: the positive, and the other query's passage
    assert float(loss.compute_loss_from_embeddings([queries, positives], goal)) == pytest.approx(
        float(expected)
    )


def test_a_recipe_says_what_comes_first_and_fit_asks_for_it(toy, tmp_path):
    for values, message in (
        ({"negatives": "mined"}, "need the recipe of the model that finds them"),
        ({"loss": "distilled"}, "come together"),
        ({"loss": "listwise", "teacher": "mini-colbert"}, "come together"),
        (
            {"negatives": "own", "after": "mini-dense"},
            "own is for losses of all passages, rank-weighted",
        ),
        ({"loss": "rank-weighted"}, "negatives both: own is for losses of all passages"),
        ({"loss": "margin-mse", "teacher": "mini-reranker"}, "negatives of each query's own"),
        ({"after": "mini-dense", "pretraining": {"objective": "none"}}, "two starts"),
    ):
        with pytest.raises(InputError, match=message):
            load_recipe("mini-dense", **values)
    recipe = load_recipe("mini-dense", **MINED, loss="distilled", teacher="mini-colbert")
    with pytest.raises(InputError, match="'ranking', 'start', 'teacher'"):
        fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "model")

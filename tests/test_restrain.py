"""ReSTrain against a set implementation that follows the paper's sentence word by word."""

import numpy as np
import pandas as pd
import pytest

from interextra.ground.errors import InputError
from interextra.splits.restrain import (
    Neighbourhood,
    agreement,
    distance_matched_ladder,
    extrapolation_rows,
    interpolation_rows,
    neighbourhood,
    random_regime,
    restrain,
    size_matched_control,
)
from interextra.splits.similarity import nearest

N_TRAIN, N_TEST = 600, 9


@pytest.fixture(scope="module")
def vectors():
    rng = np.random.default_rng(11)  # seed of the drawn vectors
    train = rng.normal(size=(N_TRAIN, 8)).astype(np.float32)
    train[50:60] = train[0]  # copies: ties in the ranking
    return rng.normal(size=(N_TEST, 8)).astype(np.float32), train


@pytest.fixture(scope="module")
def space(vectors):
    return neighbourhood(*vectors)


@pytest.fixture(scope="module")
def rankings(vectors):
    return nearest(*vectors, k=N_TRAIN)[1]


def union_of_top(rankings, k):
    found = set()
    for ranking in rankings:
        found |= set(ranking[:k].tolist())
    return found


@pytest.mark.parametrize("k", [1, 4, 37])
def test_rows_equal_the_union_of_the_rankings(rankings, space, k):
    near = union_of_top(rankings, k)
    assert interpolation_rows(rankings, k).tolist() == sorted(near)
    assert extrapolation_rows(rankings, k, N_TRAIN).tolist() == sorted(set(range(N_TRAIN)) - near)
    assert np.flatnonzero(space.best_rank <= k).tolist() == sorted(near)


def test_nothing_excluded_leaves_all_training_queries(rankings):
    assert extrapolation_rows(rankings, 0, N_TRAIN).tolist() == list(range(N_TRAIN))


@pytest.mark.parametrize("size", [20, 101, 250])
def test_I_is_the_largest_and_E_the_smallest_that_fit(rankings, space, size):
    split = restrain(space, size)
    assert set(split.interpolation.tolist()) == union_of_top(rankings, split.I)
    assert set(split.extrapolation.tolist()) == set(range(N_TRAIN)) - union_of_top(rankings, split.E)
    assert len(union_of_top(rankings, split.I)) <= size < len(union_of_top(rankings, split.I + 1))
    left = [N_TRAIN - len(union_of_top(rankings, e)) for e in (split.E - 1, split.E)]
    assert left[1] <= size < left[0]


@pytest.mark.parametrize("size", [1, 20, 101, 300])
def test_exact_gives_precisely_the_size_in_both_regimes(space, size):
    split = restrain(space, size, match="exact")
    assert split.sizes == (size, size)
    assert not set(split.interpolation) & set(split.extrapolation)


def test_exact_fills_the_border_rank_by_similarity(space):
    loose, exact = restrain(space, 101), restrain(space, 101, match="exact")
    assert set(loose.interpolation) < set(exact.interpolation) and set(loose.extrapolation) <= set(exact.extrapolation)
    border = np.flatnonzero(space.best_rank == exact.I)
    inside = np.isin(border, exact.interpolation)
    assert 0 < inside.sum() < len(border)  # the case is a real one
    assert space.similarity[border[inside]].min() >= space.similarity[border[~inside]].max()
    border = np.flatnonzero(space.best_rank == exact.E)
    inside = np.isin(border, exact.extrapolation)
    if inside.any():
        assert space.similarity[border[inside]].max() <= space.similarity[border[~inside]].min()


@pytest.mark.parametrize("match", ["as-released", "exact"])
def test_sets_of_growing_size_are_nested_and_disjoint(space, match):
    small, middle, large = (restrain(space, s, match) for s in (40, 90, 280))
    for a, b in ((small, middle), (middle, large)):
        assert set(a.interpolation) < set(b.interpolation) and set(a.extrapolation) < set(b.extrapolation)
    assert not set(large.interpolation) & set(large.extrapolation)


def test_smaller_extrapolation_sets_lie_farther_away(space):
    small, large = restrain(space, 40), restrain(space, 280)
    assert small.extrapolation_similarity < large.extrapolation_similarity
    assert small.interpolation_similarity > large.interpolation_similarity
    assert small.interpolation_similarity == pytest.approx(space.similarity[small.interpolation].mean(), rel=1e-5)


def test_size_in_judgements_is_never_exceeded(space):
    labels = np.random.default_rng(2).integers(1, 4, N_TRAIN)
    for match in ("as-released", "exact"):
        split = restrain(space, 200, match, labels=labels)
        assert max(labels[split.interpolation].sum(), labels[split.extrapolation].sum()) <= 200
        assert labels[split.interpolation].sum() > 150
    assert restrain(space, 100, labels=np.ones(N_TRAIN)).I == restrain(space, 100).I


@pytest.mark.parametrize(
    ("size", "match", "words"),
    [
        (301, "exact", "overlap.*at most 300"),
        (0, "exact", "empty"),
        (50, "about", "unknown match"),
        (3, "as-released", "first rank"),
    ],
)
def test_impossible_sizes_and_unknown_switches_are_refused(space, size, match, words):
    with pytest.raises(InputError, match=words):
        restrain(space, size, match)


def test_extrapolation_set_that_would_be_empty_is_refused():
    with pytest.raises(InputError, match="extrapolation set would be empty"):
        restrain(Neighbourhood(np.array([1, 2, 2, 2, 2]), np.linspace(1, 0, 5), 4), 2)


def test_I_beyond_the_known_neighbours_is_refused(rankings):
    with pytest.raises(InputError, match="I=11"):
        interpolation_rows(rankings[:, :10], 11)


def test_size_matched_control_is_a_seeded_subset(space):
    rows = restrain(space, 280).extrapolation
    a, b, c = (size_matched_control(rows, 60, seed) for seed in (1, 1, 2))
    assert (a == b).all() and (a != c).any() and len(set(a)) == 60 and set(a) <= set(rows)
    assert space.mean_similarity(a) > restrain(space, 60).extrapolation_similarity  # small, but not farther
    with pytest.raises(InputError, match="use a size"):
        size_matched_control(rows, len(rows) + 1, seed=1)


def test_random_regime_draws_from_all_training_queries():
    drawn = random_regime(N_TRAIN, 200, seed=3)
    assert len(set(drawn)) == 200 and drawn.min() >= 0 and drawn.max() < N_TRAIN and (np.diff(drawn) > 0).all()


def test_ladder_is_nested_at_one_distance(space):
    rows = restrain(space, 280).extrapolation
    ladder = distance_matched_ladder(space, rows, (200, 20, 60), seed=5)
    assert list(ladder) == [20, 60, 200] and [len(v) for v in ladder.values()] == [20, 60, 200]
    assert set(ladder[20]) < set(ladder[60]) < set(ladder[200]) <= set(rows)
    means = [space.mean_similarity(v) for v in ladder.values()]
    spread = restrain(space, 280).extrapolation_similarity - restrain(space, 20).extrapolation_similarity
    assert max(means) - min(means) < 0.1 * spread
    assert means[-1] == pytest.approx(space.mean_similarity(rows), abs=0.1 * spread)
    again = distance_matched_ladder(space, rows, (20,), seed=5)
    assert (again[20] == ladder[20]).all()


def test_agreement_counts_shares_per_test_query():
    table = agreement([[0, 1, 2, 3], [2, 3, -1, -1]], list("abcd"), ["a", "b", "x"], ["c"])
    assert table.to_numpy().tolist() == [[0.5, 0.25, 0.25], [0.0, 0.5, 0.5]]


@pytest.mark.parametrize(
    ("rows", "train", "extrap", "words"),
    [
        ([[4]], "abcd", "c", "outside"),
        ([[0]], "abca", "c", "twice"),
        ([[0]], "abcd", "a", "both"),
        ([[-1]], "abcd", "c", "without"),
    ],
)
def test_agreement_refuses_what_cannot_be_counted(rows, train, extrap, words):
    with pytest.raises(InputError, match=words):
        agreement(rows, list(train), ["a"], list(extrap))


def test_nearest_training_queries_of_judged_queries_lie_in_the_released_interpolation_set(real_data):
    """Even by words (tf-idf, not the authors' encoder) the released regimes show for the judged DL queries."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    def tsv(path, names):
        return pd.read_csv(real_data / path, sep="\t", names=names, dtype=str, quoting=3)

    def released(regime):
        path = f"extrapolate-eval/restrain_files/msmarco-passage/200k/{regime}.train-qrel.txt"
        return tsv(path, ["query_id", "q", "doc_id", "relevance"])["query_id"].unique()

    train = tsv("msmarco/queries.train.partial.tsv.gz", ["query_id", "text"]).sample(30_000, random_state=1)
    topics = pd.concat(
        tsv(f"msmarco/{name}.txt", ["query_id", "text"]) for name in ("topics.dl19-passage", "topics.dl20")
    )
    judged = pd.concat(
        pd.read_csv(real_data / f"msmarco/qrels.dl{y}-passage.txt", sep=r"\s+", header=None, dtype=str)[0]
        for y in (19, 20)
    )
    topics = topics[topics["query_id"].isin(judged)]
    assert len(topics) == 97
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    matrix = vectorizer.fit_transform(train["text"])
    scores = (vectorizer.transform(topics["text"]) @ matrix.T).toarray()
    table = agreement(
        np.argsort(-scores, axis=1, kind="stable")[:, :10],
        train["query_id"],
        released("interpolate"),
        released("extrapolate"),
    )
    assert table["interpolation"].mean() > 5 * table["extrapolation"].mean()

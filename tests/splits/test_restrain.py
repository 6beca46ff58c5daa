"""ReSTrain against a set implementation that follows the paper's sentence word by word."""

import numpy as np
import pandas as pd
import pytest
from toy_splits import drawn

from interextra.data.queries import Part
from interextra.splits.restrain import (
    BANDS,
    Neighbourhood,
    ReSTrain,
    bands,
    neighbourhood,
    random_part,
    restrain,
)
from interextra.splits.similarity import nearest
from interextra.store.errors import InputError
from interextra.store.folders import Store

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
    assert np.flatnonzero(space.best_rank <= k).tolist() == sorted(union_of_top(rankings, k))


@pytest.mark.parametrize("size", [20, 101, 250])
def test_i_is_the_largest_and_e_the_smallest_that_fit(rankings, space, size):
    split = restrain(space, size, "as-released")
    assert set(split.interpolation.tolist()) == union_of_top(rankings, split.top_i)
    assert set(split.extrapolation.tolist()) == set(range(N_TRAIN)) - union_of_top(
        rankings, split.top_e
    )
    assert (
        len(union_of_top(rankings, split.top_i))
        <= size
        < len(union_of_top(rankings, split.top_i + 1))
    )
    left = [N_TRAIN - len(union_of_top(rankings, e)) for e in (split.top_e - 1, split.top_e)]
    assert left[1] <= size < left[0]


@pytest.mark.parametrize("size", [1, 20, 101, 300])
def test_exact_gives_precisely_the_size_in_both_regimes(space, size):
    split = restrain(space, size, match="exact")
    assert len(split.interpolation) == len(split.extrapolation) == size
    assert not set(split.interpolation) & set(split.extrapolation)


def test_exact_fills_the_border_rank_by_similarity(space):
    loose, exact = restrain(space, 101, "as-released"), restrain(space, 101, match="exact")
    assert set(loose.interpolation) < set(exact.interpolation) and set(loose.extrapolation) <= set(
        exact.extrapolation
    )
    border = np.flatnonzero(space.best_rank == exact.top_i)
    inside = np.isin(border, exact.interpolation)
    assert 0 < inside.sum() < len(border)  # the case is a real one
    assert space.similarity[border[inside]].min() >= space.similarity[border[~inside]].max()
    border = np.flatnonzero(space.best_rank == exact.top_e)
    inside = np.isin(border, exact.extrapolation)
    if inside.any():
        assert space.similarity[border[inside]].max() <= space.similarity[border[~inside]].min()


@pytest.mark.parametrize("match", ["as-released", "exact"])
def test_sets_of_growing_size_are_nested_and_disjoint(space, match):
    small, middle, large = (restrain(space, s, match) for s in (40, 90, 280))
    for a, b in ((small, middle), (middle, large)):
        assert set(a.interpolation) < set(b.interpolation) and set(a.extrapolation) < set(
            b.extrapolation
        )
    assert not set(large.interpolation) & set(large.extrapolation)


def test_smaller_extrapolation_sets_lie_farther_away(space):
    small, large = restrain(space, 40, "as-released"), restrain(space, 280, "as-released")
    assert small.extrapolation_similarity < large.extrapolation_similarity
    assert small.interpolation_similarity > large.interpolation_similarity
    assert small.interpolation_similarity == pytest.approx(
        space.similarity[small.interpolation].mean(), rel=1e-5
    )


@pytest.mark.parametrize(
    ("size", "match", "words"),
    [
        (301, "exact", "don't overlap have 1 to 300"),
        (0, "exact", "1 to 300"),
        (50, "about", "unknown match"),
        (3, "as-released", "first rank"),
    ],
)
def test_impossible_sizes_and_unknown_switches_are_refused(space, size, match, words):
    with pytest.raises(InputError, match=words):
        restrain(space, size, match)


def test_extrapolation_set_that_would_be_empty_is_refused():
    with pytest.raises(InputError, match="its first rank alone has 4"):
        restrain(Neighbourhood(np.array([1, 2, 2, 2, 2]), np.linspace(1, 0, 5)), 2, "as-released")


def test_random_part_is_a_seeded_subset(space):
    rows = restrain(space, 280, "as-released").extrapolation
    a, b, c = (random_part(rows, 60, seed) for seed in (1, 1, 2))
    assert (a == b).all() and (a != c).any() and len(set(a)) == 60 and set(a) <= set(rows)
    with pytest.raises(InputError, match="use a size"):
        random_part(rows, len(rows) + 1, seed=1)


def test_bands_divide_all_training_queries_by_similarity(space):
    made = bands(space)
    assert sorted(np.concatenate(list(made.values()))) == list(range(len(space.similarity)))
    lowest, highest = (
        [function(space.similarity[rows]) for rows in made.values()] for function in (min, max)
    )
    assert lowest[0] >= highest[1] and lowest[1] >= highest[2]
    means = [
        [space.mean_similarity(random_part(rows, size, 1)) for size in (40, 120)]
        for rows in made.values()
    ]
    assert all(
        abs(small - large) < 0.2 * (means[0][1] - means[2][1]) for small, large in means
    )  # size is not distance


@pytest.fixture(scope="module")
def cell():
    return ReSTrain(vectors=drawn(), sizes=(40, 100, 200), draws=2, seed=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory, cell):
    store = Store(tmp_path_factory.mktemp("outputs") / "cells")
    store.build(cell)
    return store


def test_cell_holds_the_sets_of_the_library(cell, store):
    train, test = cell.vectors.read(store)
    space, ids, sets = neighbourhood(test, train), np.array(cell.pool.ids()), cell.sets(store)
    tuned = pd.read_csv(store[cell] / "tuned.csv").set_index("size")
    similarity = pd.read_csv(store[cell] / "sets.csv").set_index("set")["mean_max_similarity"]
    for size in cell.sizes:
        found = restrain(space, size, "exact")
        assert sets[f"interpolation-{size}"] == ids[found.interpolation].tolist()
        assert sets[f"extrapolation-{size}"] == ids[found.extrapolation].tolist()
        assert tuned.loc[size].tolist() == [found.top_i, found.top_e]
        assert similarity[f"extrapolation-{size}"] == pytest.approx(found.extrapolation_similarity)
    assert all(len(found) == cell.size_of(name) for name, found in sets.items())
    named = {
        f"{regime}-{size}" for size in cell.sizes for regime in ("interpolation", "extrapolation")
    }
    drawn = {
        f"{band}-{size}-{number}" for band in BANDS for size in cell.sizes for number in (0, 1)
    }
    assert set(sets) == named | drawn
    far, near = (similarity[similarity.index.str.startswith(band)] for band in ("far-", "near-"))
    assert far.max() < near.min()


def test_each_draw_is_one_of_its_own(cell, store):
    """One draw for all would take the same places of each band, and follow the seed of another
    study.
    """
    sets = cell.sets(store)
    next_seed = ReSTrain(vectors=cell.vectors, sizes=cell.sizes, draws=1, seed=2)
    store.build(next_seed)
    assert next_seed.sets(store)["far-40-0"] not in (sets["far-40-0"], sets["far-40-1"])
    assert (
        not set(sets["far-40-0"]) <= set(sets["far-100-0"]) and sets["far-40-0"] != sets["far-40-1"]
    )


def test_nearest_training_queries_of_judged_queries_lie_in_the_released_interpolation_set(
    real_data,
):
    """Even by words (tf-idf, not the authors' encoder) the released regimes show for the judged DL
    queries.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    def tsv(path, names):
        return pd.read_csv(real_data / path, sep="\t", names=names, dtype=str, quoting=3)

    def released(regime):
        path = f"extrapolate-eval/restrain_files/msmarco-passage/200k/{regime}.train-qrel.txt"
        return tsv(path, ["query_id", "q", "doc_id", "relevance"])["query_id"].unique()

    train = tsv("msmarco/queries.train.partial.tsv.gz", ["query_id", "text"]).sample(
        30_000, random_state=1
    )
    topics = pd.concat(
        tsv(f"msmarco/{name}.txt", ["query_id", "text"])
        for name in ("topics.dl19-passage", "topics.dl20")
    )
    judged = pd.concat(
        pd.read_csv(
            real_data / f"msmarco/qrels.dl{y}-passage.txt", sep=r"\s+", header=None, dtype=str
        )[0]
        for y in (19, 20)
    )
    topics = topics[topics["query_id"].isin(judged)]
    assert len(topics) == 97
    vectorizer = TfidfVectorizer(sublinear_tf=True)
    matrix = vectorizer.fit_transform(train["text"])
    scores = (vectorizer.transform(topics["text"]) @ matrix.T).toarray()
    near = train["query_id"].to_numpy()[np.argsort(-scores, axis=1, kind="stable")[:, :10]]
    assert (
        np.isin(near, released("interpolate")).mean()
        > 5 * np.isin(near, released("extrapolate")).mean()
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"match": "close"}, "unknown match .close.: one of as-released, exact"),
        ({"sizes": (0,)}, "size 0: two sets of 600 training queries"),
        ({"sizes": (20, 301)}, "size 301: .* have 1 to 300"),
        ({"sizes": (20, 30, 20)}, "sizes: 20 stands twice"),
        ({"sizes": (201,), "draws": 2}, "201 of 200 training queries; use a size of 1 to 200"),
    ],
)
def test_sets_that_cannot_be_made_are_found_wrong_when_they_are_planned(change, words):
    """They were only after the encoder was trained."""
    with pytest.raises(InputError, match=words):
        ReSTrain(**{"vectors": drawn(), "sizes": (20,)} | change)


def test_a_set_that_no_split_has_is_found_wrong_when_it_is_planned():
    """Other sizes in `trained_sizes` than in `sizes` were found after the encoder was trained."""
    split = ReSTrain(vectors=drawn(), sizes=(20, 30), draws=2)
    assert Part(of=split, part="far-30-1").size() == 30
    with pytest.raises(
        InputError, match="has no set 'interpolation-40'; it has interpolation-20, extrapolation-20"
    ):
        Part(of=split, part="interpolation-40")


def test_the_sets_are_those_that_were_planned(tmp_path):
    store, split = Store(tmp_path), ReSTrain(vectors=drawn(), sizes=(20, 30), draws=2)
    store.build(split)
    assert sorted(split.sets(store)) == sorted(split.parts())

"""Topic clusters against enumeration of all subsets, loops that follow the rules, and hand-worked
lines of points.
"""

import itertools
import json

import numpy as np
import pytest
from toy_splits import drawn as drawn_vectors

from interextra.splits import topics as module
from interextra.splits.clusters import kmeans
from interextra.splits.topics import SWITCHES, Topics, farthest, topics
from interextra.store.errors import InputError
from interextra.store.folders import Store

GROWTH = list(itertools.product(*(SWITCHES[name] for name in ("merge", "order", "stop"))))


def expand(centroids, sizes, chosen, target, merge="native", order="nearest", stop="reach"):
    return module.expand(*map(np.asarray, (centroids, sizes, chosen)), target, merge, order, stop)


def enumerated(centroids, n):
    """The first of the subsets with the largest sum, up to rounding; that sum; how many subsets
    have it.
    """
    sums = {
        rows: sum(
            float(np.linalg.norm(centroids[a] - centroids[b]))
            for a, b in itertools.combinations(rows, 2)
        )
        for rows in itertools.combinations(range(len(centroids)), n)
    }
    most = max(sums.values())
    tied = [list(rows) for rows, value in sums.items() if value > most - 1e-9]
    return tied[0], most, len(tied)


@pytest.mark.parametrize("dimensions", [1, 2, 6])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 10, 11])
def test_exact_choice_is_the_enumerated_one(dimensions, n):
    for seed in range(4):
        centroids = np.random.default_rng(seed).normal(size=(11, dimensions))
        rows, spread = farthest(centroids, n)
        expected, most, _ = enumerated(centroids, n)
        assert rows.tolist() == expected and spread == pytest.approx(most)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_ties_go_to_the_first_subset(n):
    several = 0
    for seed in range(12):  # corners of a cube, some of them twice: square roots to round
        centroids = np.random.default_rng(seed).integers(0, 2, (11, 3)).astype(float)
        expected, most, tied = enumerated(centroids, n)
        rows, spread = farthest(centroids, n)
        assert rows.tolist() == expected and spread == pytest.approx(most)
        several += tied > 1
    assert several >= 6  # the cases do tie
    angles = np.arange(11) * 2 * np.pi / 11
    ring = np.stack([np.cos(angles), np.sin(angles)], axis=1)[
        np.random.default_rng(1).permutation(11)
    ]
    for unit in (1, 1e6):  # of each best subset the turned ones are as good but for rounding
        assert farthest(unit * ring, n)[0].tolist() == enumerated(ring, n)[0]
    for method in ("exact", "greedy"):
        assert farthest(np.ones((7, 2)), n, method)[0].tolist() == list(range(n))
        assert farthest(np.eye(9), n, method)[0].tolist() == list(range(n))


def test_choice_does_not_depend_on_the_unit():
    centroids = np.random.default_rng(1).normal(size=(40, 8))
    rows, spread = farthest(centroids, 5)
    for unit in (1e-6, 1e6):
        assert farthest(unit * centroids, 5)[0].tolist() == rows.tolist()
        assert farthest(unit * centroids, 5)[1] == pytest.approx(unit * spread)


def test_exact_choice_of_five_among_a_hundred_beats_every_exchange():
    centroids = np.random.default_rng(2).normal(size=(100, 3))
    rows, spread = farthest(centroids, 5)
    distances = np.linalg.norm(centroids[:, None] - centroids, axis=2)
    exchanges = [
        distances[np.ix_(other, other)].sum() / 2
        for out in itertools.combinations(range(5), 2)
        for into in itertools.combinations(np.setdiff1d(np.arange(100), rows), 2)
        for other in [[*np.delete(rows, out), *into]]
    ]
    assert max(exchanges) < spread


def test_greedy_starts_with_the_farthest_pair_and_is_never_above_the_exact_choice():
    line = [[0.0], [1], [2], [9], [10]]
    assert farthest(line, 2, "greedy")[0].tolist() == [0, 4]
    assert farthest(line, 3, "greedy")[0].tolist() == [
        0,
        1,
        4,
    ]  # 1, 2 and 9 add 10 each: the lowest
    assert farthest(line, 4, "greedy")[0].tolist() == [0, 1, 3, 4]  # 9 adds 18, 2 adds 11
    assert farthest(line, 4, "greedy")[1] == 10 + 10 + 18
    below = 0
    for seed in range(30):
        centroids = np.random.default_rng(seed).normal(size=(12, 2))
        distances = np.linalg.norm(centroids[:, None] - centroids, axis=2)
        rows = list(max(itertools.combinations(range(12), 2), key=lambda pair: distances[pair]))
        while len(rows) < 4:
            rest = [row for row in range(12) if row not in rows]
            rows.append(max(rest, key=lambda row: sum(distances[row, other] for other in rows)))
        assert farthest(centroids, 4, "greedy")[0].tolist() == sorted(rows)
        greedy, exact = farthest(centroids, 4, "greedy")[1], farthest(centroids, 4)[1]
        assert greedy <= exact + 1e-9
        below += greedy < exact - 1e-6
    assert below > 0


@pytest.mark.parametrize(
    ("merge", "order", "expected"),
    [
        # positions: 0 at 0, 1 at 3, 2 at 5.5, 3 at 10, 4 at 20, 5 at -12; topics start at 0 and 10
        ("native", "nearest", [[0, 1, 5], [3, 2, 4]]),  # 5.5 is 5.5 from 0 and 4.5 from 10
        (
            "merged",
            "nearest",
            [[0, 1, 2], [3, 4]],
        ),  # with 3 joined, the first topic's centre is 2.4, 3.1 from 5.5
        ("native", "turns", [[0, 1, 5], [3, 2, 4]]),
        (
            "merged",
            "turns",
            [[0, 1, 5], [3, 2, 4]],
        ),  # the second topic's turn comes before the first one's second
    ],
)
def test_where_distance_is_measured_from_decides_who_gets_the_cluster_between(
    merge, order, expected
):
    line = [[0.0], [3], [5.5], [10], [20], [-12]]
    assert expand(line, [2, 8, 2, 2, 10, 10], [0, 3], 12, merge=merge, order=order) == expected


@pytest.mark.parametrize(
    ("order", "expected"), [("nearest", [[0, 1, 2], [3, 4]]), ("turns", [[0, 1, 4], [3, 2, 5]])]
)
def test_nearest_pair_first_or_in_turn(order, expected):
    line = [
        [0.0],
        [1],
        [2],
        [4.5],
        [-9],
        [60],
    ]  # the second topic, at 4.5, needs a turn to get the cluster at 2
    assert expand(line, [2, 2, 2, 1, 5, 9], [0, 3], 6, order=order) == expected


@pytest.mark.parametrize(
    ("sizes", "target", "reach", "closest"),
    [
        ([3, 3, 10, 1, 9], 8, [0, 1, 2], [0, 1]),  # 6, then 16: 8 too many is worse than 2 too few
        ([3, 3, 3, 1, 9], 8, [0, 1, 2], [0, 1, 2]),  # 6, then 9: nearer
        ([3, 3, 4, 1, 9], 8, [0, 1, 2], [0, 1]),  # 6, then 10: as far, stays free
        ([3, 3, 2, 1, 9], 8, [0, 1, 2], [0, 1, 2]),  # 6, then 8
        ([9, 3, 2, 1, 9], 8, [0], [0]),  # enough from the start, nothing is cut off
        ([8, 3, 2, 1, 9], 8, [0], [0]),
    ],
)
def test_when_joining_stops(sizes, target, reach, closest):
    line = [[0.0], [1], [2], [3], [90]]
    for stop, expected in (("reach", reach), ("closest", closest)):
        assert expand(line, sizes, [0], target, stop=stop) == [expected]


def test_a_cluster_that_stays_free_joins_another_topic():
    line = [[0.0], [1], [10], [12], [50]]
    assert expand(line, [5, 4, 1, 1, 9], [0, 2], 6, stop="reach") == [[0, 1], [2, 3, 4]]
    assert expand(line, [5, 4, 1, 1, 9], [0, 2], 6, stop="closest") == [[0], [2, 3, 1]]


def by_the_rules(centroids, sizes, chosen, target, merge, stop, order):
    """Expansion in plain loops; None where the free clusters run out."""
    groups, done, free = (
        [[c] for c in chosen],
        [False] * len(chosen),
        set(range(len(centroids))) - set(chosen),
    )
    turn = 0

    def size(group):
        return sum(sizes[c] for c in group)

    def away(group, cluster):
        own = group[:1] if merge == "native" else group
        centre = sum(sizes[c] * centroids[c] for c in own) / size(own)
        return np.sqrt(((centre - centroids[cluster]) ** 2).sum())

    while True:
        open_topics = [t for t, group in enumerate(groups) if size(group) < target and not done[t]]
        if not open_topics:
            return groups
        if not free:
            return None
        if order == "turns":
            while turn % len(groups) not in open_topics:
                turn += 1
            open_topics, turn = [turn % len(groups)], turn + 1
        t, cluster = min(
            itertools.product(open_topics, sorted(free)),
            key=lambda pair: away(groups[pair[0]], pair[1]),
        )
        short, over = target - size(groups[t]), size(groups[t]) + sizes[cluster] - target
        if stop == "closest" and over > 0 and over >= short:
            done[t] = True
        else:
            groups[t].append(cluster)
            free.remove(cluster)


@pytest.mark.parametrize(("merge", "order", "stop"), GROWTH)
def test_expansion_follows_the_rules(merge, order, stop):
    ran_out = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        centroids, sizes = rng.normal(size=(20, 2)), rng.integers(1, 12, 20)
        chosen, target = rng.choice(20, 3, replace=False), int(sizes.sum() // rng.integers(3, 8))
        expected = by_the_rules(centroids, sizes, chosen.tolist(), target, merge, stop, order)
        if expected is None:
            ran_out += 1
            with pytest.raises(InputError, match="no free cluster left"):
                expand(centroids, sizes, chosen, target, merge, order, stop)
            continue
        joined = expand(centroids, sizes, chosen, target, merge, order, stop)
        assert joined == expected
        together = [cluster for clusters in joined for cluster in clusters]
        assert (
            len(set(together)) == len(together)
            and [clusters[0] for clusters in joined] == chosen.tolist()
        )
        for clusters in joined:
            if stop == "reach":
                assert sizes[clusters].sum() >= target
            assert sizes[clusters[:-1]].sum() < target
    assert ran_out < 30


def test_switches_change_the_topics():
    rng = np.random.default_rng(3)
    centroids, sizes = rng.normal(size=(100, 2)), rng.integers(50, 150, 100)
    made = {str(expand(centroids, sizes, np.arange(5), 1000, *how)) for how in GROWTH}
    assert len(made) == len(GROWTH)


def drawn(n, seed, dimensions=6):
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(30, dimensions))
    return (centres[rng.integers(30, size=n)] + rng.normal(size=(n, dimensions))).astype(np.float32)


@pytest.fixture(scope="module")
def vectors():
    return drawn(3000, seed=1)


@pytest.mark.parametrize("normalise", [True, False])
def test_topics_are_made_of_whole_native_clusters(vectors, normalise):
    found = topics(vectors, 5, 40, 150, 0, normalise=normalise)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalise else vectors
    nearest = ((unit[:, None].astype(float) - found.centroids) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(found.native, nearest)
    sizes = np.bincount(found.native, minlength=40)
    assert sizes.sum() == 3000 and (np.diff(sizes) <= 0).all()
    for topic, clusters in enumerate(found.joined):
        assert clusters[0] == found.chosen[topic]
        assert np.array_equal(found.topic == topic, np.isin(found.native, clusters))
    others = np.setdiff1d(np.arange(40), np.concatenate(found.joined))
    assert len(others) and np.array_equal(found.topic == -1, np.isin(found.native, others))
    assert found.sizes["n_queries"].tolist() == [(found.topic == topic).sum() for topic in range(5)]
    assert (
        found.sizes["n_native"].tolist() == sizes[found.chosen].tolist()
        and found.sizes["n_queries"].min() >= 150
    )
    assert found.sizes["n_clusters"].tolist() == [len(clusters) for clusters in found.joined]


def test_topics_are_the_steps_one_by_one(vectors):
    found = topics(
        vectors, 4, 25, 300, 3, choose="greedy", merge="merged", order="turns", stop="closest"
    )
    plain = kmeans(vectors, 25, 3, False)
    assert sorted(map(tuple, found.centroids.tolist())) == sorted(map(tuple, plain.tolist()))
    rows, spread = farthest(found.centroids, 4, "greedy")
    assert found.chosen.tolist() == rows.tolist() and found.spread == spread
    sizes = np.bincount(found.native)
    assert found.joined == expand(found.centroids, sizes, rows, 300, "merged", "turns", "closest")


def test_far_clouds_become_the_topics():
    rng = np.random.default_rng(5)
    centres = np.concatenate([50 * np.eye(6)[:5], np.zeros((3, 6))])
    cloud = np.repeat(np.arange(8), 100)
    found = topics(centres[cloud] + rng.normal(size=(800, 6)), n_topics=5, k=24, target=80, seed=1)
    for topic in range(5):
        assert len(set(cloud[found.topic == topic])) == 1
    assert set(cloud[found.topic >= 0]) == {0, 1, 2, 3, 4}


def test_same_seed_gives_the_same_bytes(vectors):
    one, same, other = (topics(vectors, 5, 40, 150, seed) for seed in (1, 1, 2))
    for name in ("native", "centroids", "chosen", "topic"):
        assert getattr(one, name).tobytes() == getattr(same, name).tobytes()
    assert one.joined == same.joined and one.spread == same.spread
    assert not np.array_equal(one.native, other.native)


def test_length_matters_only_without_normalise(vectors):
    factors = (
        np.random.default_rng(5).choice([0.5, 1, 2], (len(vectors), 1)).astype(np.float32)
    )  # no rounding differs
    for normalise in (True, False):
        one, longer = (
            topics(x, 5, 40, 150, 0, normalise=normalise) for x in (vectors, factors * vectors)
        )
        assert np.array_equal(one.topic, longer.topic) == normalise


def test_clusters_without_a_query_come_last_and_take_no_part():
    points = np.repeat(np.array([[0.0], [1], [7], [8], [20]]), [9, 5, 7, 6, 8], axis=0)
    found = topics(points, n_topics=2, k=8, target=10, seed=0)
    sizes = np.bincount(found.native, minlength=8)
    assert sizes.tolist() == [9, 8, 7, 6, 5, 0, 0, 0] and found.joined == [[0, 4], [1, 3]]
    with pytest.raises(InputError, match="of 5 centroids 1 to 5"):
        topics(points, n_topics=6, k=8, target=2, seed=0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"k": 3001}, "5 topics of k=3001 clusters of 3000 queries"),
        ({"k": 4}, "5 topics of k=4 clusters"),
        ({"n_topics": 0}, "0 topics"),
        ({"target": 601}, "3000 can make topics of 1 to 600"),
        ({"target": 0}, "5 topics of 0 queries"),
        ({"choose": "best"}, "unknown choose 'best': one of exact, greedy"),
        ({"merge": "all"}, "unknown merge 'all': one of native, merged"),
        ({"stop": "now"}, "unknown stop 'now': one of reach, closest"),
        ({"order": "size"}, "unknown order 'size': one of nearest, turns"),
        ({"vectors": np.array([[np.nan, 1.0]])}, "NaN"),
        ({"vectors": np.zeros((3000, 2)), "normalise": True}, "no direction"),
        ({"vectors": np.ones(4)}, "needs a non-empty matrix"),
    ],
)
def test_impossible_topics_are_refused(vectors, change, words):
    with pytest.raises(InputError, match=words):
        topics(**{"vectors": vectors, "n_topics": 5, "k": 40, "target": 100, "seed": 0, **change})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((np.zeros((3, 2)), 4), "of 3 centroids 1 to 3"),
        ((np.zeros((3, 2)), 0), "1 to 3"),
        ((np.zeros((200, 2)), 5), "2,535,650,040 subsets of 5 among 200.*use 'greedy'"),
    ],
)
def test_impossible_choices_are_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        farthest(*arguments)
    assert len(farthest(np.eye(200), 5, "greedy")[0]) == 5


def test_topics_that_run_out_of_clusters_are_refused():
    with pytest.raises(
        InputError,
        match=r"no free cluster left for topic '1 \(4 queries\)', target 5: lower it or raise k",
    ):
        expand([[0.0], [1], [2], [9]], [4, 3, 1, 3], [0, 3], 5)


def test_cell_holds_the_topics_of_the_library(tmp_path):
    cell = Topics(vectors=drawn_vectors(), n_topics=2, k=10, target=100, seed=1, merge="merged")
    store = Store(tmp_path / "cells")
    folder = store.build(cell)
    found = topics(cell.vectors.read(store)[0], 2, 10, 100, 1, merge="merged")
    names = ["C0", "C1", ""]
    assert cell.labels(store).tolist() == [
        names[topic] for topic in found.topic
    ] and cell.names == ("C0", "C1")
    assert np.array_equal(np.load(folder / "native.npy"), found.native)
    assert np.array_equal(np.load(folder / "centroids.npy"), found.centroids)
    note = json.loads((folder / "topics.json").read_text())
    assert note == {"chosen": found.chosen.tolist(), "joined": found.joined, "spread": found.spread}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"choose": "best"}, "unknown choose .best."),
        ({"n_topics": 0}, "0 topics of k=10"),
        ({"k": 601}, "k=601 clusters of 600 queries"),
        ({"target": 301}, "600 can make topics of 1 to 300"),
    ],
)
def test_impossible_topics_are_found_wrong_when_they_are_planned(change, words):
    """They were only after the encoder was trained."""
    with pytest.raises(InputError, match=words):
        Topics(**{"vectors": drawn_vectors(), "n_topics": 2, "k": 10, "target": 100} | change)

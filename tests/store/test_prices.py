"""What results cost adds up, GPUs and cores apart, and takes as long as a schedule by hand."""

import itertools
import random

import pytest

from interextra.store.errors import InputError
from interextra.store.jobs import SHARED, SHORT, jobs, notebooks_job
from interextra.store.prices import makespan, outlook, overview, priced, to_compute


def row(key, seconds, needs=(), device="cpu", threads=1, **others):
    made = {
        "key": key,
        "state": "todo",
        "what": f"model {key[0]} · x",
        "device": device,
        "gpus": int(device == "gpu"),
        "threads": threads,
        "seconds": float(seconds),
        "memory": 1000.0,
        "megabytes": 3.0,
        "needs": list(needs),
        "level": 0,
    }
    return made | others


def graph(seed, n=7, with_gpus=True, threads=1):
    """Some results by key that need some of those before them."""
    drawn = random.Random(seed)
    rows = {}
    for number in range(n):
        key = f"k{number}"
        needs = drawn.sample(sorted(rows), k=drawn.randint(0, min(2, len(rows))))
        device = drawn.choice(["cpu", "gpu"]) if with_gpus else "cpu"
        n_threads = drawn.randint(1, threads) if device == "cpu" else 1
        level = 1 + max((rows[needed]["level"] for needed in needs), default=-1)
        rows[key] = row(key, drawn.randint(1, 9), needs, device, n_threads, level=level)
    return rows


def chains(rows):
    """All chains of results that need each other, from all that there are."""
    for n in range(1, len(rows) + 1):
        for keys in itertools.combinations(rows, n):
            pairs = itertools.pairwise(keys)
            if all(first in rows[second]["needs"] for first, second in pairs):
                yield keys


def longest_chain(rows):
    return max(sum(rows[key]["seconds"] for key in keys) for keys in chains(rows))


def second_by_second(rows, gpus, cores):
    """List scheduling with a clock that ticks: at each second whatever can start does."""
    behind = {
        key: max(sum(rows[k]["seconds"] for k in keys) for keys in chains(rows) if keys[0] == key)
        for key in rows
    }
    order = sorted(rows, key=lambda key: (-behind[key], list(rows).index(key)))
    capacity = {"gpu": gpus, "cpu": cores}
    left = {}
    done = set()
    now = 0
    while True:
        for key in [key for key in left if left[key] == 0]:
            del left[key]
            done.add(key)
        if len(done) == len(rows):
            return now
        for device in capacity:
            for key in order:
                waits = key not in left and key not in done and rows[key]["device"] == device
                if not waits or not done.issuperset(rows[key]["needs"]):
                    continue
                used = sum(rows[k]["threads"] for k in left if rows[k]["device"] == device)
                if used + min(rows[key]["threads"], capacity[device]) > capacity[device]:
                    break  # the first that waits is not overtaken
                left[key] = rows[key]["seconds"]
        left = {key: seconds - 1 for key, seconds in left.items()}
        now += 1


def shortest(rows, gpus, cores):
    """The seconds of the best schedule, by all orders in which results can start."""
    best = float("inf")
    for keys in itertools.permutations(rows):
        ends = {}
        free = {"gpu": [0.0] * gpus, "cpu": [0.0] * cores}
        for key in keys:
            if not ends.keys() >= set(rows[key]["needs"]):
                break
            of_device = free[rows[key]["device"]]
            ready = max((ends[needed] for needed in rows[key]["needs"]), default=0.0)
            first = min(range(len(of_device)), key=of_device.__getitem__)
            ends[key] = of_device[first] = max(ready, of_device[first]) + rows[key]["seconds"]
        else:
            best = min(best, max(ends.values()))
    return best


@pytest.mark.parametrize("seed", range(20))
def test_schedule_is_that_of_a_clock_that_ticks(seed):
    rows = graph(seed)
    for gpus, cores in ((1, 1), (2, 1), (1, 3)):
        assert makespan(rows, gpus, cores) == second_by_second(rows, gpus, cores)


@pytest.mark.parametrize("seed", range(6))
def test_threads_take_cores_and_never_more_than_there_are(seed):
    rows = graph(seed, with_gpus=False, threads=3)
    for cores in (2, 3):
        assert makespan(rows, 0, cores) == second_by_second(rows, 0, cores)


@pytest.mark.parametrize("seed", range(6))
def test_schedule_is_nearly_the_shortest_and_never_shorter(seed):
    rows = graph(seed, n=6)
    best = shortest(rows, 1, 2)
    assert best <= makespan(rows, 1, 2) <= 2 * best


@pytest.mark.parametrize("seed", range(6))
def test_ends_of_the_scale(seed):
    rows = graph(seed, with_gpus=False)
    assert makespan(rows, 0, 1) == sum(each["seconds"] for each in rows.values())
    assert makespan(rows, 0, 100) == longest_chain(rows)


@pytest.mark.parametrize("seed", range(6))
def test_critical_path_is_the_longest_chain(seed):
    rows = graph(seed)
    ahead = outlook(rows.values(), 100, 100)
    keys = tuple(each["key"] for each in ahead.path)
    assert keys in set(chains(rows))
    seconds = sum(each["seconds"] for each in ahead.path)
    assert seconds == ahead.path_seconds == ahead.seconds == longest_chain(rows)


def test_plan_without_what_it_needs_is_refused():
    rows = {"a": row("a", 1, device="gpu")}
    with pytest.raises(InputError, match="0 of gpu: give one or more"):
        makespan(rows, 0, 1)
    assert makespan({}, 0, 0) == 0.0


def test_gpus_and_cores_are_never_added():
    of_00 = [row("a", 7200, device="gpu"), row("b", 3600, ["a"], threads=2)]
    table = overview({"00": of_00})
    assert table.loc["in all", ["GPU h", "CPU h", "longest h"]].tolist() == [2, 2, 2]
    kinds = priced({"00": of_00})["00"]
    assert kinds.loc["in all", ["device", "seconds"]].values.tolist() == [
        ["cpu", 3600],
        ["gpu", 7200],
    ]


def test_a_notebook_alone_pays_for_what_others_would_have_made():
    shared = row("a", 3600, device="gpu")
    rows = {"00": [shared], "01": [shared, row("b", 7200, ["a"], device="gpu")]}
    table = overview(rows)
    assert table["GPU h"].tolist() == [1, 2, 3]
    assert table["alone GPU h"].tolist() == [1, 3, 3]


def test_what_two_notebooks_need_is_paid_once_and_what_is_there_never():
    a, b = row("a", 60), row("b", 60, state="done")
    rows = {"00": [a], "01": [a, b, row("c", 30)]}
    left = to_compute(rows)
    assert {name: [each["key"] for each in of_it] for name, of_it in left.items()} == {
        "00": ["a"],
        "01": ["c"],
    }
    table = overview(rows)
    assert table["results"].tolist() == [1, 3, 4] and table["to_compute"].tolist() == [1, 1, 2]
    assert table["disk GB"].tolist() == [0.003, 0.003, 0.006]
    tables = priced(rows)
    assert tables["01"].loc["model a", ["results", "to_compute", "seconds"]].tolist() == [1, 0, 0]


@pytest.mark.parametrize("seed", range(10))
def test_jobs_compute_every_result_once_after_what_it_needs(seed):
    rows = graph(seed, n=30)
    for each in rows.values():
        each["seconds"] *= 20
    made = jobs({"00": [*rows.values()][:20], "01": [*rows.values()][20:]})
    assert sorted(key for job in made for key in job["keys"]) == sorted(rows)
    job_of = {key: job["name"] for job in made for key in job["keys"]}
    seen = set()
    for job in made:
        of_job = [rows[key] for key in job["keys"]]
        needed = {job_of[key] for each in of_job for key in each["needs"]}
        assert set(job["needs"]) == needed <= seen
        seen.add(job["name"])
        assert {(each["level"], each["device"]) for each in of_job} == {
            (job["level"], job["device"])
        }
        if len(of_job) > 1:
            assert all(each["seconds"] < SHORT for each in of_job) and job["seconds"] <= SHARED
        assert job["seconds"] == sum(each["seconds"] for each in of_job)
        assert job["mem_mb"] > 1000 and job["minutes"] > job["seconds"] / 60


def test_short_results_share_jobs():
    rows = [row(f"k{number}", 1) for number in range(500)]
    made = jobs({"00": rows, "01": [row("z", SHORT)]})
    assert [len(job["keys"]) for job in made] == [300, 200, 1]
    assert jobs({"00": []}) == []


def test_job_of_the_notebooks_has_memory_for_those_at_once():
    asked = [notebooks_job([row("a", 60)] * n) for n in (0, 1, 2, 13)]
    assert [job["threads"] for job in asked] == [1, 1, 2, 4]
    assert [job["mem_mb"] for job in asked] == [1250, 1250, 2500, 5000]

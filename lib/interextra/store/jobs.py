"""What is to be computed as jobs of a cluster: one a result, or one for several short results.

A job is started, waited for and ended once, which takes longer than a short result.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from interextra.store.files import digest
from interextra.store.prices import Row

Job = dict[str, Any]
SHORT = 60.0  # seconds of results that share a job …
SHARED = 300.0  # … of so many seconds at most
# What a job asks for: so many times the estimates, and minutes for its start
MEMORY_MARGIN = 1.25
TIME_MARGIN = 2.0
START_MINUTES = 10
NOTEBOOK_MINUTES = 60  # of the job that executes notebooks, whose time nobody knows before
NOTEBOOKS_AT_ONCE = 4
LEAST_MEGABYTES = 1_000.0  # of the pages alone


def jobs(todo: Mapping[str, Sequence[Row]]) -> list[Job]:
    """Return the jobs that compute results, each after those it needs.

    Results of less than a minute share a job where they are of one notebook, level and device.

    Parameters
    ----------
    todo
        Name of each notebook → its rows of `prices.described` that are to be computed, none twice.

    Returns
    -------
    list of dict
        name, keys, needs (names of jobs), level, device, seconds; asked for: gpus, threads, mem_mb,
        minutes.
    """
    made = []
    job_of: dict[str, str] = {}
    for together in _alike(todo):
        for rows in _cut(together):
            job = _job(rows)
            job_of |= dict.fromkeys(job["keys"], job["name"])
            made.append((job, rows))
    for job, rows in made:
        needed = {key for row in rows for key in row["needs"]}
        job["needs"] = sorted({job_of[key] for key in needed if key in job_of})
    return [job for job, _ in made]


def _alike(todo: Mapping[str, Sequence[Row]]) -> list[list[Row]]:
    """Return short rows of a notebook, level and device together, others alone; by level."""
    alike: dict[tuple[str, int, str], list[Row]] = {}
    for name, rows in todo.items():
        for row in rows:
            is_short = row["seconds"] < SHORT
            sharing = name if is_short else row["key"]
            group = (sharing, row["level"], row["device"])
            alike.setdefault(group, []).append(row)
    return sorted(alike.values(), key=lambda rows: rows[0]["level"])


def _cut(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the rows in parts of SHARED seconds at most, or of one row."""
    part: list[Row] = []
    seconds = 0.0
    for row in rows:
        if part and seconds + row["seconds"] > SHARED:
            yield part
            part = []
            seconds = 0.0
        part.append(row)
        seconds += row["seconds"]
    if part:
        yield part


def _job(rows: Sequence[Row]) -> Job:
    """Return the job that computes some results one after the other."""
    keys = [row["key"] for row in rows]
    seconds = sum(row["seconds"] for row in rows)
    memory = max(row["memory"] for row in rows)
    return {
        "name": keys[0] if len(keys) == 1 else digest(keys),
        "keys": keys,
        "level": rows[0]["level"],
        "device": rows[0]["device"],
        "gpus": max(row["gpus"] for row in rows),
        "threads": max(row["threads"] for row in rows),
        "seconds": seconds,
        "mem_mb": math.ceil(MEMORY_MARGIN * memory),
        "minutes": START_MINUTES + math.ceil(TIME_MARGIN * seconds / 60),
    }


def notebooks_job(notebooks: Sequence[Row]) -> Job:
    """Return what the job asks for that executes notebooks, if any, and makes their pages."""
    threads = max(1, min(NOTEBOOKS_AT_ONCE, len(notebooks)))
    memory = threads * max((row["memory"] for row in notebooks), default=LEAST_MEGABYTES)
    seconds = sum(row["seconds"] for row in notebooks) / threads
    return {
        "gpus": 0,
        "threads": threads,
        "mem_mb": math.ceil(MEMORY_MARGIN * memory),
        "minutes": NOTEBOOK_MINUTES + math.ceil(TIME_MARGIN * seconds / 60),
    }

"""What results cost, before anything is computed: a row a result, and what they add up to.

Seconds of a GPU and of a core are never added.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, NamedTuple

from interextra.store.cells import Cell
from interextra.store.errors import InputError
from interextra.store.folders import Store

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]  # of `described`
HOUR = 3600.0
OF_DEVICE = {"gpu": "GPU h", "cpu": "CPU h"}  # columns of `overview`
Waiting = tuple[tuple[float, int], str]  # a result's place in the order, and its key
Running = tuple[float, str]  # until when, and its key


def described(store: Store, cells: Sequence[Cell]) -> list[Row]:
    """Return a row a cell, after those it needs.

    Returns
    -------
    list of dict
        key, state (`done`, `todo`), what, needs (keys of what is not there yet), level (0: needs
        nothing, 1: needs results of level 0, …), device (`cpu`, `gpu`), gpus, threads; estimated:
        seconds on this device, memory (megabytes at the peak), megabytes (on disk).
    """
    missing = {cell.key: cell for cell in store.missing(cells)}
    every = missing | {cell.key: cell for cell in cells}
    rows = []
    levels: dict[str, int] = {}
    for key, cell in every.items():
        store.plan(cell)
        needs = [needed.key for needed in cell.needs() if needed.key in missing]
        levels_of_needs = [levels[needed] for needed in needs]
        levels[key] = max(levels_of_needs, default=-1) + 1
        row = {
            "key": key,
            "state": "todo" if key in missing else "done",
            "what": cell.title(),
            "device": cell.device(),
            "gpus": cell.gpus(),
            "threads": cell.threads(),
            "seconds": cell.seconds(),
            "memory": cell.memory(),
            "megabytes": cell.megabytes(),
            "needs": needs,
            "level": levels[key],
        }
        rows.append(row)
    return rows


def to_compute(rows: Mapping[str, Sequence[Row]]) -> dict[str, list[Row]]:
    """Return of each notebook what is not there yet and no notebook before it needs."""
    seen: set[str] = set()
    left: dict[str, list[Row]] = {}
    for name, of_notebook in rows.items():
        todo = {row["key"]: row for row in of_notebook if row["state"] == "todo"}
        left[name] = [row for key, row in todo.items() if key not in seen]
        seen |= todo.keys()
    return left


def priced(rows: Mapping[str, Sequence[Row]]) -> dict[str, "pd.DataFrame"]:
    """Return what notebooks cost, a table a notebook.

    What several notebooks need costs the first of them.

    Parameters
    ----------
    rows
        Name of each notebook → its rows of `described`.

    Returns
    -------
    dict
        Name → DataFrame[results, to_compute, device, seconds, RAM MB, MB] with a row a kind of
        result (or a notebook) and a device; below them the sums of each device.
    """
    import pandas as pd

    left = to_compute(rows)
    tables = {}
    for name, of_notebook in rows.items():
        frame = pd.DataFrame(of_notebook)
        keys_left = [row["key"] for row in left[name]]
        is_repeated = frame["key"].duplicated()
        is_left = frame["key"].isin(keys_left) & ~is_repeated
        costs = pd.DataFrame(
            {
                "kind": frame["what"].str.partition(" · ")[0],
                "device": frame["device"],
                "results": 1,
                "to_compute": is_left.astype(int),
                "seconds": frame["seconds"] * is_left,
                "RAM MB": frame["memory"] * is_left,
                "MB": frame["megabytes"] * is_left,
            }
        )
        tables[name] = _summed(costs)
    return tables


def _summed(costs: "pd.DataFrame") -> "pd.DataFrame":
    """Return the sums of costs by kind and device, and below them those by device."""
    import pandas as pd

    how = {"results": "sum", "to_compute": "sum", "seconds": "sum", "RAM MB": "max", "MB": "sum"}
    by_kind = costs.groupby(["kind", "device"], sort=False).agg(how)
    by_device = costs.assign(kind="in all").groupby(["kind", "device"]).agg(how)
    table = pd.concat([by_kind, by_device]).reset_index("device")
    return table[["results", "to_compute", "device", "seconds", "RAM MB", "MB"]].rename_axis(None)


def overview(rows: Mapping[str, Sequence[Row]]) -> "pd.DataFrame":
    """Return what notebooks cost, a row a notebook and a last one for all of them.

    Returns
    -------
    DataFrame
        results, to_compute, GPU h, CPU h (of one core), alone GPU h (of a notebook without the
        others), longest h (of a single result), RAM GB (at the peak), disk GB; what several
        notebooks need costs the first of them.
    """
    import pandas as pd

    left = to_compute(rows)
    lines = {}
    for name, of_notebook in rows.items():
        alone = to_compute({name: of_notebook})[name]
        lines[name] = _line(of_notebook, left[name], alone)
    every = [row for of_notebook in rows.values() for row in of_notebook]
    todo = [row for of_notebook in left.values() for row in of_notebook]
    lines["in all"] = _line(every, todo, todo)
    return pd.DataFrame.from_dict(lines, orient="index")


def _line(rows: Sequence[Row], todo: Sequence[Row], alone: Sequence[Row]) -> dict[str, float]:
    """Return a line of `overview`.

    `rows` are those of notebooks, `todo` what is to be computed, `alone` what would be without the
    notebooks before.
    """
    return {
        "results": len(rows),
        "to_compute": len(todo),
        **_hours(todo),
        "alone GPU h": _hours(alone)["GPU h"],
        "longest h": max((row["seconds"] for row in todo), default=0.0) / HOUR,
        "RAM GB": max((row["memory"] for row in todo), default=0.0) / 1000,
        "disk GB": sum(row["megabytes"] for row in todo) / 1000,
    }


def _hours(rows: Sequence[Row]) -> dict[str, float]:
    """Return the hours of a GPU and of a core that results take."""
    hours = dict.fromkeys(OF_DEVICE.values(), 0.0)
    for row in rows:
        at_once = row["gpus"] or row["threads"]
        hours[OF_DEVICE[row["device"]]] += row["seconds"] * at_once / HOUR
    return hours


class Outlook(NamedTuple):
    """How long some results take on a number of GPUs and cores.

    `path`: those of the critical path, the chain of results that takes longest, in their order;
    `path_seconds`, `seconds`: of this chain alone, and of everything.
    """

    path: list[Row]
    path_seconds: float
    seconds: float


def outlook(todo: Iterable[Row], gpus: int, cores: int) -> Outlook:
    """Return how long results take that are not there yet, see `makespan`."""
    rows = {row["key"]: row for row in todo}
    tails = _tails(rows)
    path = []
    following = list(rows)
    while following:
        key = max(following, key=lambda key: tails[key])
        path.append(rows[key])
        following = [other for other, row in rows.items() if key in row["needs"]]
    longest = max(tails.values(), default=0.0)
    return Outlook(path, longest, makespan(rows, gpus, cores))


def _tails(rows: Mapping[str, Row]) -> dict[str, float]:
    """Return the seconds from the start of each result to the end of all that waits for it.

    `rows`: by key, each after those it needs.
    """
    tails: dict[str, float] = {}
    behind = dict.fromkeys(rows, 0.0)  # seconds of the longest chain that waits for a result
    for key in reversed(list(rows)):
        row = rows[key]
        tails[key] = row["seconds"] + behind[key]
        for needed in row["needs"]:
            if needed in behind:
                behind[needed] = max(behind[needed], tails[key])
    return tails


def makespan(rows: Mapping[str, Row], gpus: int, cores: int) -> float:
    """Return the seconds until all results are there.

    Whatever can start does, that with the longest chain behind it first (list scheduling). A result
    takes its GPUs, or as many cores as it has threads; what a GPU needs of a core is not counted.

    Parameters
    ----------
    rows
        By key, each after those it needs; needs that are not among them are there.

    Raises
    ------
    InputError
        There is no GPU, or no core, for something.
    """
    machine = _Machine(rows, gpus, cores)
    graph: TopologicalSorter[str] = TopologicalSorter()
    for key, row in rows.items():
        graph.add(key, *(needed for needed in row["needs"] if needed in rows))
    graph.prepare()
    while graph.is_active():
        for key in graph.get_ready():
            machine.add(key)
        machine.start()
        graph.done(machine.finish())
    return machine.now


class _Machine:
    """GPUs and cores that compute results, and a clock of theirs."""

    def __init__(self, rows: Mapping[str, Row], gpus: int, cores: int):
        self.rows = rows
        self.all = {"gpu": gpus, "cpu": cores}
        self.free = dict(self.all)
        self.now = 0.0
        for device in sorted({row["device"] for row in rows.values()}):
            if self.free[device] < 1:
                raise InputError(f"a plan with {self.free[device]} of {device}: give one or more")
        tails = _tails(rows)
        # a larger one waits longer: first the longest chain, of equal ones the first
        self.order = {}
        for place, key in enumerate(rows):
            self.order[key] = (-tails[key], place)
        self.ready: dict[str, list[Waiting]] = {"gpu": [], "cpu": []}
        self.running: list[Running] = []

    def taken(self, key: str) -> int:
        """Return how many GPUs or cores a result takes, of those that there are."""
        row = self.rows[key]
        asked = row["gpus"] or row["threads"]
        return min(asked, self.all[row["device"]])

    def add(self, key: str) -> None:
        """Let a result wait for its device."""
        device = self.rows[key]["device"]
        heapq.heappush(self.ready[device], (self.order[key], key))

    def start(self) -> None:
        """Start the results that find a free device."""
        for device, waiting in self.ready.items():
            while waiting:
                _, key = waiting[0]
                taken = self.taken(key)
                if taken > self.free[device]:
                    break
                heapq.heappop(waiting)
                self.free[device] -= taken
                until = self.now + self.rows[key]["seconds"]
                heapq.heappush(self.running, (until, key))

    def finish(self) -> str:
        """Wait for the first of the running results, and return it."""
        self.now, key = heapq.heappop(self.running)
        device = self.rows[key]["device"]
        self.free[device] += self.taken(key)
        return key

"""The command line: `interextra --help` lists its commands."""

import argparse
import errno
import importlib
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any
from urllib.parse import quote

import yaml

from interextra.own import commands as own
from interextra.own.options import refuse_numbers, refuse_texts
from interextra.site.repository import find_repository, repository_root
from interextra.store import Cell, InputError, Store, cache_folder, sbatch
from interextra.store import jobs as batch
from interextra.store.extras import explained, require
from interextra.store.prices import Row, described, overview, priced, to_compute
from interextra.store.processor import instructions
from interextra.store.progress import Progress, Results, lasting
from interextra.store.schedule import build_all, n_cores
from interextra.store.workers import STOPPING, WorkerLostError

AGAIN = 5.0  # seconds after which a stop that did not arrive is raised again
GO_ON = "results that are finished are kept: give the same command again to go on from them"
COUNTED = ("results", "to_compute", "seconds", "RAM MB", "MB", "RAM GB", "disk GB")
WHOLE_NUMBERS = dict.fromkeys(COUNTED, "{:,.0f}".format)


class Stopped(KeyboardInterrupt):
    """The process was asked to end, by the signal `number`."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = signal.Signals(number)


def _store() -> Store:
    """Return the store of the repository; outside it, that of the cache."""
    root = find_repository()
    folder = root / "outputs" if root else cache_folder()
    return Store(folder / "cells")


def _tool(name: str) -> ModuleType:
    """Import a module of tools/, which is of the repository, not of the package."""
    sys.path.insert(0, str(repository_root()))
    return importlib.import_module(f"tools.{name}")


def _selected(args: argparse.Namespace) -> tuple[Store, list]:
    """Return the store, and the chosen notebooks as cells, all checked.

    `args.name` becomes the folder of their results.
    """
    from interextra.site.parameters import output_name, read_overrides
    from interextra.site.planning import planned

    root = repository_root()
    overrides = read_overrides(root, args.only, args.parameter)
    selected = planned(root, args.profile, args.only, overrides, args.from_reference, args.places)
    args.name = output_name(root, args.profile, overrides, args.name)
    if args.from_reference:
        args.name += "-from-reference"
    return _store(), selected


class BookMaker:
    """Makes the book of a run beside it, in a process: at most once in EVERY seconds."""

    EVERY = 30

    def __init__(self, folder: Path, is_off: bool):
        self.folder = folder
        self.is_off = is_off
        self.process: subprocess.Popen | None = None
        self.started = -math.inf
        self.is_behind = False  # whether it was asked for and not made since

    def start(self, note: str) -> None:
        """Make the book, if it is not just being made, and was not a short while ago."""
        is_being_made = self.process is not None and self.process.poll() is None
        now = time.monotonic()
        is_due = now - self.started > self.EVERY
        self.is_behind = is_being_made or not is_due
        if is_due and not is_being_made and not self.is_off:
            self.started = now
            command = [sys.executable, "-m", "interextra.site.book", str(self.folder), note]
            self.process = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def wait(self) -> None:
        """Wait until it is made."""
        if self.process:
            self.process.wait()

    def kill(self) -> None:
        """End it; the next run makes the book anew."""
        if self.process:
            self.process.kill()
            self.process.wait()


def command_run(args: argparse.Namespace) -> int:
    """Compute what is missing, execute notebooks, make the book."""
    from interextra.site import book
    from interextra.site.notebook import NotebookError

    if not args.no_book:
        require("run without --no-book", "sphinx", "myst_nb")
    begin = time.perf_counter()
    store, selected = _selected(args)
    folder = repository_root() / "outputs" / args.name
    maker = BookMaker(folder, args.no_book)
    try:
        _execute(store, selected, folder, maker, begin)
        maker.wait()
    except NotebookError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        maker.kill()
        raise
    first_page = folder if args.no_book else book.write(folder)
    seconds = time.perf_counter() - begin
    print(f"{seconds:.0f} s in all. Open {os.path.relpath(first_page)}")
    return 0


def _execute(store: Store, selected: list, folder: Path, maker: BookMaker, begin: float) -> None:
    """Compute what is missing of notebooks, and publish each of them when it is finished."""
    from interextra.site.notebook import Notebook, publish

    notebooks = {notebook.key: notebook for notebook in selected}
    unfinished = {key for key, notebook in notebooks.items() if not store.valid(notebook)}

    def make_book() -> None:
        """Make the book with what is finished; after the last notebook it is made as it stays."""
        if unfinished:
            now = time.strftime("%H:%M")
            maker.start(f"{now}: {progress.results.state()}.")

    def done(cell: Cell) -> None:
        """Publish a finished notebook."""
        if cell.key in notebooks:
            publish(notebooks[cell.key], store, folder)
            unfinished.discard(cell.key)
            make_book()
        elif maker.is_behind:
            make_book()
        if isinstance(cell, Notebook):
            seconds = time.perf_counter() - begin
            print(f"{cell.name:<34} done after {seconds:6.1f} s", flush=True)

    with Progress(store, selected, folder) as progress:
        if len(unfinished) > 1:
            make_book()  # with the guides, which later ones take as they are
        computed = build_all(store, selected, done, progress)
    for notebook in selected:
        publish(notebook, store, folder)
    n_executed = sum(cell.key in notebooks for cell in computed)
    n_taken = len(selected) - n_executed
    n_new = len(computed) - n_executed
    print(f"{len(selected)} notebooks, {n_taken} of them taken as they were; {n_new} new results")


def command_fetch(args: argparse.Namespace) -> int:
    """Load what notebooks need from a network; list it before, with sizes and licences."""
    from interextra.site import fetch

    items = fetch.items_of(repository_root(), args)
    print(fetch.listing(items), file=sys.stderr if args.json else sys.stdout, flush=True)
    failures = {} if args.check else fetch.fetch(items)
    if args.json:
        if not args.check:
            items = fetch.items_of(repository_root(), args)
        found = [item._asdict() for item in items]
        own.print_json("fetch", {"items": found, "failures": failures})
    for message in failures.values():
        print(f"interextra: {message}", file=sys.stderr)
    return 1 if failures else 0


def command_status(args: argparse.Namespace) -> None:
    """Say how far a run is.

    Only the store is looked at: the run may be in another shell, or on a cluster.
    """
    import pandas as pd

    from interextra.data.pricing import pricing

    with pricing():
        store, selected = _selected(args)
    counts = {}
    for cell in selected:
        state = Results(store, [cell]).state()
        counts[cell.name] = {"results": state.results, "done": state.done}
    results = Results(store, selected)
    for key in results.cells:
        if results.is_done(key):
            results.learn(key)
    state = results.state()
    computing = _computing(results, state.running)
    if args.json:
        seconds_left = round(state.seconds_left)
        found = {"notebooks": counts, "computing": computing, "seconds_left": seconds_left}
        own.print_json("status", found)
        return
    table = pd.DataFrame.from_dict(counts, orient="index")
    print(table.to_string(), end="\n\n")
    for title, seconds in computing.items():
        print(f"being computed for {lasting(seconds)}: {title}")
    print(f"{state}.")


def _computing(results: Results, running: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds for which results have been computed so far, by their titles."""
    now = time.time()
    return {results.cells[key].title(): now - since for key, since in running.items()}


def command_plan(args: argparse.Namespace) -> None:
    """List what notebooks need, and what it costs, before anything is computed."""
    from interextra.data.pricing import pricing
    from interextra.models.prices import on_gpu
    from interextra.site import fetch
    from interextra.site.outlook import Asked, closing, sentences

    with pricing(args.sample) as needed, on_gpu(args.gpu):
        store, selected = _selected(args)
        rows = {}
        for cell in selected:
            plan = [part for run in cell.by_place.values() for part in run.plan]
            rows[cell.name] = described(store, [*plan, cell])
    missing = fetch.missing(needed)
    fetch_command = fetch.command_of(args) if missing else ""
    if missing:
        print(fetch.advice(missing, fetch_command), file=sys.stderr)
    todo, notebooks = _apart(to_compute(rows), selected)
    jobs = batch.jobs(todo)
    run = batch.notebooks_job(notebooks)
    if args.json:
        found = [{"notebook": name, "cells": of_notebook} for name, of_notebook in rows.items()]
        others = {"missing": missing, "fetch": fetch_command, "jobs": jobs, "run": run}
        own.print_json("plan", {"notebooks": found} | others)
    elif args.sbatch:
        if missing or args.sample:
            raise InputError(f"--sbatch {args.sbatch}: this plan can only be priced")
        _write_sbatch(args, jobs, run)
    else:
        _print_tables(rows, args.all)
        _print_resolutions(store, args.profile, list(rows))
        asked = Asked(args.gpu, args.gpus, args.cores or n_cores(), args.price, args.sample)
        absent_bytes = sum(item.disk for item in fetch.items(needed) if not item.is_here)
        print("\n".join(sentences(rows, asked, absent_bytes)))
        print("\n".join(closing(args.profile)))


def _print_tables(rows: dict[str, list[Row]], with_keys: bool) -> None:
    """Print a table a notebook, perhaps with a line a result, and one of all notebooks."""
    formats: dict[str, Any] = {"formatters": WHOLE_NUMBERS, "float_format": "{:,.1f}".format}
    for name, table in priced(rows).items():
        print(f"{name}\n{table.to_string(**formats)}\n")
        if with_keys:
            _print_results(rows[name])
    print(f"all notebooks\n{overview(rows).to_string(**formats)}\n")


def _apart(left: dict[str, list[Row]], selected: list) -> tuple[dict[str, list[Row]], list[Row]]:
    """Return what notebooks need, by notebook, and the notebooks that are to be executed."""
    keys = {run.key for cell in selected for run in [cell, *cell.by_place.values()]}
    results = {}
    notebooks = []
    for name, rows in left.items():
        results[name] = [row for row in rows if row["key"] not in keys]
        notebooks += [row for row in rows if row["key"] in keys]
    return results, notebooks


def _write_sbatch(args: argparse.Namespace, jobs: list[dict], run: dict) -> None:
    """Write scripts that submit everything to Slurm, and say how they are started."""
    arguments = ["--profile", args.profile, "--only", args.only]
    for parameter in args.parameter:
        arguments += ["-p", parameter]
    submit = sbatch.write(Path(args.sbatch), repository_root(), jobs, run, arguments)
    n_results = sum(len(job["keys"]) for job in jobs)
    print(f"{n_results} results in {len(jobs)} jobs: bash {os.path.relpath(submit)}")


def _print_results(rows: list[dict]) -> None:
    """List results with their keys."""
    for row in rows:
        state = f"{row['state']:<4}"
        seconds = f"{row['seconds']:8.0f} s"
        print("", row["key"], state, seconds, row["what"], sep="  ")


def _print_resolutions(store: Store, profile: str, names: list[str]) -> None:
    """Say which effects the design can find, by the committed reference."""
    from interextra.claims.judgement import resolutions
    from interextra.site.travel import REFERENCE

    reference = store.root.parent.parent / REFERENCE / profile
    smallest = resolutions([reference / name / "tables" / "claims.csv" for name in names])
    if len(smallest):
        text = smallest.to_string(index=False, float_format="{:.3g}".format)
        print("The smallest effects that this design finds with 80 % power, by the reference:")
        print(f"{text}\n")


def command_cell(args: argparse.Namespace) -> None:
    """Compute results by their keys."""
    store = _store()
    for key in args.key:
        folder = store.build(store.cell(key))
        print(os.path.relpath(folder))


def command_clean(args: argparse.Namespace) -> None:
    """Remove what no planned run needs."""
    cleaned = _store().clean()
    what = "results of older code and weights that no planned run needs"
    megabytes = cleaned.n_bytes / 2**20
    print(f"{cleaned.folders} {what}: {megabytes:.0f} MB freed")
    if cleaned.being_computed:
        print(
            f"Another process computes {cleaned.being_computed} results: all that it may need is "
            "kept; clean again when it has ended."
        )


def command_verify(args: argparse.Namespace) -> int:
    """Compute a profile from nothing and compare its tables with the committed ones."""
    tables = _tool("verify").verify(repository_root(), args.profile, args.only)
    print(tables.to_string(index=False, float_format="{:.1e}".format))
    n_wrong = (tables["problem"] != "").sum()
    print(f"{len(tables)} tables, {n_wrong} differ from outputs/reference/{args.profile}")
    return 1 if n_wrong else 0


def command_evaluate(args: argparse.Namespace) -> None:
    """Measure a run file by judgements."""
    from interextra.data.trec import read_qrels
    from interextra.measures.evaluate import check, per_query, report
    from interextra.measures.pool import with_pool_range
    from interextra.own.clean import only
    from interextra.own.run_files import counted_as_empty, read_run, without_hits

    check(args.measures)
    qrels = read_qrels(args.qrels)
    if args.only:
        qrels = only(qrels, args.only)
    run = read_run(Path(args.run), set(qrels["query_id"]))
    if not set(run.query_ids) & set(qrels["query_id"]):
        raise InputError(
            f"{args.run} and {args.qrels} share no query_id: give the qrels of the run's queries"
        )
    missing = without_hits(run, qrels["query_id"].unique())
    if missing:
        print(counted_as_empty(args.run, missing, qrels["query_id"].nunique()), file=sys.stderr)
    table = per_query(run, qrels, args.measures)
    if args.pool_range:
        table, warnings = with_pool_range(table, run, qrels)
        for warning in warnings:
            print(warning, file=sys.stderr)
    if args.json:
        means = table.mean().to_dict()
        found = {"n_queries": len(table), "n_missing": len(missing), "means": means}
        if args.per_query:
            found["queries"] = table.to_dict("index")
        own.print_json("evaluate", found)
    else:
        print(report(table, each=args.per_query), end="")


def command_export(args: argparse.Namespace) -> None:
    """Write a run as NAME.trec a set of queries, or a split as the papers released theirs."""
    from interextra.models.model import names_of
    from interextra.models.search.ir_metadata import record_of, write_described
    from interextra.models.search.run import Ranking
    from interextra.own.formats import as_released
    from interextra.splits.split import Split

    store = _store()
    folder = Path(args.folder)
    cell = store.cell(args.key)
    if isinstance(cell, Split):
        paths = as_released(cell, store, folder)
    elif isinstance(cell, Ranking):
        paths = []
        for queries, name in zip(cell.queries, names_of(cell.queries), strict=True):
            path = folder / f"{quote(name, safe=' ()')}.trec"  # a label may hold a /
            run = cell.read(store, queries)
            if args.metadata:
                write_described(run, path, record_of(cell, queries, store))
            else:
                run.write_trec(path)
            paths.append(path)
    else:
        raise InputError(
            f"{cell.title()} is neither a run nor a split; `interextra plan` lists those"
        )
    print(*map(os.path.relpath, paths), sep="\n")


def command_class(args: argparse.Namespace) -> None:
    """Write notebooks for a class, with or without solutions."""
    out = Path(args.out or f"build/class/{args.format}")
    executed = Path(args.executed) if args.executed else None
    written = _tool("teaching").write(
        repository_root(), args.format, args.only, out, executed, args.from_reference
    )
    print(f"{len(written)} files under {out}")


def command_probe(args: argparse.Namespace) -> int:
    """Measure a retriever of one's own in both regimes."""
    store = _store()
    return own.probe(store, args, _building(store, Path(args.output_folder)))


def command_curve(args: argparse.Namespace) -> None:
    """Report learning curves of a retriever of one's own."""
    store = _store()
    own.curve(store, args, _building(store, Path(args.out)))


def _building(store: Store, folder: Path) -> Callable[..., float]:
    """Return what computes cells, and says on stderr how far it is."""

    def build(
        cells: list[Cell],
        price: Callable[[Cell], float] | None,
        among: list[Cell] | None = None,
        least: float = 0.0,
    ) -> float:
        """Compute cells; how far all are that they are among goes to stderr.

        Their share of the work is at `least` so much; what it is at the end is returned.
        """
        with (
            redirect_stdout(sys.stderr),
            Progress(store, among or cells, folder, price, least) as progress,
        ):
            build_all(store, cells, watch=progress)
        return progress.share

    return build


def command_split(args: argparse.Namespace) -> None:
    """Divide a collection's queries for a trainer of one's own."""
    own.split(_store(), args)


def command_regimes(args: argparse.Namespace) -> int:
    """Compare runs on a split in both regimes."""
    return own.regimes(_store(), args)


COMMANDS: dict[str, Callable[[argparse.Namespace], int | None]] = {
    "run": command_run,
    "fetch": command_fetch,
    "status": command_status,
    "plan": command_plan,
    "verify": command_verify,
    "cell": command_cell,
    "clean": command_clean,
    "evaluate": command_evaluate,
    "export": command_export,
    "class": command_class,
    "audit": own.audit,
    "split": command_split,
    "regimes": command_regimes,
    "finished": own.finished,
    "probe": command_probe,
    "curve": command_curve,
}


def parser() -> argparse.ArgumentParser:
    """Return the parser of all commands, as commands.yaml describes them."""
    top = argparse.ArgumentParser(
        prog="interextra", description="Do neural retrievers interpolate or extrapolate?"
    )
    commands = top.add_subparsers(dest="command", required=True)
    described_in = Path(__file__).with_name("commands.yaml")
    described_commands = yaml.safe_load(described_in.read_text(encoding="utf-8"))
    for name, options in described_commands.items():
        about = options.pop("about")
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(function=COMMANDS[name], needs=options.pop("needs", []))
        for flags, option in options.items():
            if "action" not in option:
                option["type"] = _type_of(option.get("default", ""))
            _show_default(option)
            command.add_argument(*flags.split(), **option)
    return top


def _show_default(option: dict[str, Any]) -> None:
    """Add its default to the help of an option that has one and does not tell it."""
    text = option.get("help", "")
    if option.get("default") and "default" not in text:
        value = option["default"]
        shown = " ".join(map(str, value)) if isinstance(value, list) else value
        option["help"] = f"{text} (default: {shown})".lstrip()


def _type_of(default: object) -> type:
    """Return the type of an option by its default, or by the first of several."""
    example = default[0] if isinstance(default, list) and default else default
    return type(example) if isinstance(example, int | float) else str


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Returns
    -------
    int
        0 done, 1 something failed or was found wrong, 2 the input is at fault, 3 more than
        `--fail-above` allows is shown; 130 and 143 it was stopped by SIGINT (Ctrl-C) or SIGTERM.
    """
    try:
        with _stoppable():
            _set_environment()
            args = parser().parse_args(arguments)
            refuse_texts(args)
            refuse_numbers(args)
            require(args.command, *args.needs)
            with explained(args.command):
                return args.function(args) or 0
    except Stopped as stopped:
        signal_name = stopped.number.name
        print(f"interextra: stopped by {signal_name}; {GO_ON}", file=sys.stderr)
        return 128 + stopped.number
    except WorkerLostError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `interextra plan | head`
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        return 0
    except InputError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 2
    except Exception as error:
        line = _refused(error)
        if not line:
            raise
        print(f"interextra: {line}", file=sys.stderr)
        return 2


def _set_environment() -> None:
    """Choose the processor's instructions, and find the data from the folder of a notebook, too."""
    for name, value in instructions().items():
        os.environ.setdefault(name, value)
    data = os.environ.get("INTEREXTRA_DATA")
    if data:
        os.environ["INTEREXTRA_DATA"] = os.path.abspath(data)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Let SIGINT and SIGTERM raise Stopped in a block.

    A further signal does not disturb what is being ended. But where the block has not ended within
    AGAIN seconds, Stopped is raised again: Python ignores what is raised in a `__del__`, and a
    library may catch it. A signal that the caller ignores (`nohup`, a shell's `&`) stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may choose
        yield
        return
    before = {number: signal.getsignal(number) for number in (*STOPPING, signal.SIGALRM)}
    taken = [number for number in STOPPING if before[number] != signal.SIG_IGN]
    asked = signal.SIGTERM

    def stop(number: int, frame: FrameType | None) -> None:
        """Raise, hear no further signal, and let the alarm look again."""
        nonlocal asked
        asked = signal.Signals(number)
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        signal.signal(signal.SIGALRM, stop_again)
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise Stopped(asked)

    def stop_again(number: int, frame: FrameType | None) -> None:
        """Raise what did not arrive."""
        raise Stopped(asked)

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    except Stopped:
        taken = []  # the process is about to end
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (*taken, signal.SIGALRM):
            signal.signal(number, before[number])


def _refused(error: Exception) -> str:
    """Return one line about what the system refused: where, why and what to do; "" for others."""
    # a full disk names no file, and libraries report it as errors of their own
    full = os.strerror(errno.ENOSPC)
    message = str(error)
    place = f"outputs/ or {cache_folder()}"
    if isinstance(error, OSError) and (error.filename or error.errno in _FULL):
        place = error.filename2 or error.filename or place
        why = error.strerror
    elif full in message or re.fullmatch(r"\d+ requested and \d+ written", message):
        why = full
    else:
        return ""
    return (
        f"{place}: {why}; make room, make it writable or move away what stands there, then start "
        "again: what is finished is kept"
    )


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


if __name__ == "__main__":
    sys.exit(main())

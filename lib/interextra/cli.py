"""The command line: `interextra --help` lists its commands."""

import argparse
import errno
import importlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import ModuleType
from urllib.parse import quote

import numpy as np
import yaml

from interextra.own import commands as own
from interextra.own.options import refuse_numbers, refuse_texts
from interextra.site.parameters import output_name, read_overrides, repository_root
from interextra.store import InputError, Store, cache_folder
from interextra.store.progress import Progress, Results, lasting
from interextra.store.schedule import STOPPING, WorkerLost, build_all, described, priced


class Stopped(KeyboardInterrupt):
    """The process was asked to end, by the signal `number`."""

    def __init__(self, number: int):
        super().__init__(number)
        self.number = signal.Signals(number)


def _store() -> Store:
    return Store(repository_root() / "outputs" / "cells")


def _tool(name: str) -> ModuleType:
    """A module of tools/, which is of the repository, not of the package."""
    sys.path.insert(0, str(repository_root()))
    return importlib.import_module(f"tools.{name}")


def _selected(args: argparse.Namespace) -> tuple[Store, list]:
    """The store, and the chosen notebooks as cells, all checked; `args.name` becomes the folder of
    their results.
    """
    from interextra.site.worlds import planned

    root = repository_root()
    overrides = read_overrides(root, args.only, args.parameter)
    selected = planned(root, args.profile, args.only, overrides, args.from_reference)
    args.name = (
        output_name(root, args.profile, overrides, args.name)
        + "-from-reference" * args.from_reference
    )
    return _store(), selected


def command_run(args: argparse.Namespace) -> int:
    from interextra.site import book
    from interextra.site.notebook import Notebook, NotebookError, publish

    begin, (store, selected), maker = time.perf_counter(), _selected(args), None
    folder = repository_root() / "outputs" / args.name

    def done(cell) -> None:
        nonlocal maker
        if cell in selected:
            publish(cell, store, folder)
            if maker is None or maker.poll() is not None:  # else the book is just being made
                note = f"{time.strftime('%H:%M')}: {progress.results.state()}."
                command = [sys.executable, "-m", "interextra.site.book", str(folder), note]
                maker = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
        if isinstance(cell, Notebook):
            print(f"{cell.name:<34} done after {time.perf_counter() - begin:6.1f} s", flush=True)

    try:
        with Progress(store, selected, folder) as progress:
            computed = build_all(store, selected, done, progress)
        for notebook in selected:
            publish(notebook, store, folder)
        taken, found = (
            sum(notebook not in computed for notebook in selected),
            set(computed).difference(selected),
        )
        print(
            f"{len(selected)} notebooks, {taken} of them taken as they were; {len(found)} new results"
        )
        if maker:
            maker.wait()
    except NotebookError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        if maker:
            maker.kill()  # the next run makes the book anew
            maker.wait()
        raise
    print(f"{time.perf_counter() - begin:.0f} s in all. Open {os.path.relpath(book.write(folder))}")
    return 0


def command_status(args: argparse.Namespace) -> None:
    """Only the store is looked at: the run may be in another shell, or on a cluster."""
    import pandas as pd

    from interextra.data.queries import pricing

    with pricing():
        store, selected = _selected(args)
    rows, results = (
        {cell.name: Results(store, [cell]).state()[:2] for cell in selected},
        Results(store, selected),
    )
    for key in filter(results.is_done, results.cells):
        results.learn(key)
    state = results.state()
    running = {
        results.cells[key].title(): time.time() - since for key, since in state.running.items()
    }
    if args.json:
        print(
            json.dumps(
                {"notebooks": rows, "computing": running, "seconds_left": round(state.seconds_left)}
            )
        )
        return
    print(pd.DataFrame(rows, ["results", "done"]).T.to_string(), end="\n\n")
    print(
        "".join(
            f"being computed for {lasting(seconds)}: {what}\n" for what, seconds in running.items()
        ),
        end="",
    )
    print(f"{state}.")


def command_plan(args: argparse.Namespace) -> None:
    from interextra.claims.judgement import resolutions
    from interextra.data.load import peek
    from interextra.data.queries import pricing
    from interextra.site.travel import REFERENCE

    with pricing():
        store, selected = _selected(args)
        needed = {
            cell.name: [part for run in cell.by_place.values() for part in run.plan]
            for cell in selected
        }
        rows = {cell.name: described(store, [*needed[cell.name], cell]) for cell in selected}
    specs = {
        json.loads(run.parameters).get("collection")
        for cell in selected
        for run in cell.by_place.values()
    }
    searched = [
        queries
        for cells in needed.values()
        for cell in cells
        for queries in getattr(cell, "queries", ())
    ]
    specs |= {queries.source.spec for queries in searched}
    for spec, found in ((spec, peek(spec)) for spec in sorted(filter(None, specs))):
        if found:
            print(
                f"{spec} is not here: {found['passages']:,} passages to download", file=sys.stderr
            )
    if args.json:
        print(json.dumps([{"notebook": name, "cells": found} for name, found in rows.items()]))
        return
    whole = dict.fromkeys(("results", "to_compute", "seconds", "MB"), "{:,.0f}".format)
    for name, table in priced(rows, os.cpu_count() or 1).items():
        print(f"{name}\n{table.to_string(formatters=whole, float_format='{:,.1f}'.format)}\n")
        for row in rows.get(name, ()) if args.all else ():
            print(f"  {row['key']}  {row['state']:<4}  {row['seconds']:8.0f} s  {row['what']}")
    reference = store.root.parent.parent / REFERENCE / args.profile
    if len(found := resolutions([reference / name / "tables" / "claims.csv" for name in rows])):
        print(
            "The smallest effects that this design finds with 80 % power, by the committed reference:"
        )
        print(found.to_string(index=False, float_format="{:.3g}".format) + "\n")
    print("Seconds of one core or GPU; what several notebooks need stands at the first.")
    print("Every result with its key: --all. Compute one: `interextra cell KEY`")


def command_cell(args: argparse.Namespace) -> None:
    store = _store()
    for key in args.key:
        print(os.path.relpath(store.build(store.cell(key))))


def command_clean(args: argparse.Namespace) -> None:
    removed, freed, live = _store().clean()
    print(
        f"{removed} results of older code and weights that no planned run needs: {freed / 2**20:.0f} MB freed"
    )
    if live:
        print(
            f"Another process computes {live} results: all that it may need is kept; clean again when it has ended."
        )


def command_verify(args: argparse.Namespace) -> int:
    found = _tool("verify").verify(repository_root(), args.profile, args.only)
    print(found.to_string(index=False, float_format=lambda value: f"{value:.1e}"))
    wrong = found[found["problem"] != ""]
    print(f"{len(found)} tables, {len(wrong)} differ from outputs/reference/{args.profile}")
    return 1 if len(wrong) else 0


def command_evaluate(args: argparse.Namespace) -> None:
    from interextra.data.runs import RunFile
    from interextra.data.trec import read_qrels
    from interextra.measures.evaluate import per_query, report
    from interextra.measures.pool import pool_range, rank_biased_precision

    run, qrels = RunFile.read(args.run), read_qrels(args.qrels)
    if not set(run.query_ids) & set(qrels["query_id"]):
        raise InputError(
            f"{args.run} and {args.qrels} share no query_id: give the qrels of the run's queries"
        )
    table = per_query(run, qrels, args.measures)
    if args.pool_range:
        precision = rank_biased_precision(run, qrels).set_axis(
            ["RBP", "RBP residual"], axis="columns"
        )
        table = table.join([pool_range(run, qrels).add_prefix("nDCG@10 "), precision])
    print(report(table, each=args.per_query), end="")


def command_export(args: argparse.Namespace) -> None:
    """A run as NAME.trec a set of queries; a split as Zhan et al. and Lupart et al. released
    theirs.
    """
    from interextra.models.model import names_of
    from interextra.models.search.run import Ranking
    from interextra.own.formats import as_released
    from interextra.splits.split import Split

    store, folder = _store(), Path(args.folder)
    cell = store.cell(args.key)
    if not isinstance(cell, Ranking | Split):
        raise InputError(
            f"{cell.title()} is neither a run nor a split; `interextra plan` lists those"
        )
    paths = []
    for queries, name in (
        zip(cell.queries, names_of(cell.queries), strict=True) if isinstance(cell, Ranking) else ()
    ):
        paths.append(folder / f"{quote(name, safe=' ()')}.trec")  # a label may hold a /
        cell.read(store, queries).write_trec(paths[-1])
    paths += as_released(cell, store, folder) if isinstance(cell, Split) else []
    print(*map(os.path.relpath, paths), sep="\n")


def command_class(args: argparse.Namespace) -> None:
    root, out = repository_root(), Path(args.out or Path("build", "class", args.format))
    written = _tool("teaching").write(
        root, args.format, args.only, out, Path(args.executed), args.from_reference
    )
    print(f"{len(written)} files under {out}")


def command_probe(args: argparse.Namespace) -> None:
    def build(cells: list) -> None:
        with (
            redirect_stdout(sys.stderr),
            Progress(store, cells, Path(args.output_folder)) as progress,
        ):
            build_all(store, cells, watch=progress)

    store = _store()
    own.probe(store, args, build)


COMMANDS = {
    "run": command_run,
    "status": command_status,
    "plan": command_plan,
    "verify": command_verify,
}
COMMANDS |= {
    "cell": command_cell,
    "clean": command_clean,
    "evaluate": command_evaluate,
    "export": command_export,
}
COMMANDS |= {"class": command_class, "audit": own.audit, "probe": command_probe}
COMMANDS |= {
    run.__name__: lambda args, run=run: run(_store(), args) for run in (own.split, own.regimes)
}


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="interextra", description="Do neural retrievers interpolate or extrapolate?"
    )
    commands = top.add_subparsers(dest="command", required=True)
    options_of = yaml.safe_load(
        Path(__file__).with_name("commands.yaml").read_text(encoding="utf-8")
    )
    for name, options in options_of.items():
        about = options.pop("about")
        command = commands.add_parser(name, help=about, description=about)
        command.set_defaults(function=COMMANDS[name])
        for flags, option in options.items():
            [kind] = {type(one) for one in np.ravel(option.get("default", "")).tolist()} or {str}
            given = {"type": kind} if "action" not in option else {}
            command.add_argument(*flags.split(), **given | option)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 something failed or was found wrong, 2 the input is at
    fault; 130 and 143 it was stopped by SIGINT (Ctrl-C) or SIGTERM.
    """
    try:
        with _stoppable():
            args = parser().parse_args(arguments)
            if os.environ.get("INTEREXTRA_DATA"):  # notebooks run in their own folder
                os.environ["INTEREXTRA_DATA"] = os.path.abspath(os.environ["INTEREXTRA_DATA"])
            refuse_texts(args)
            refuse_numbers(args)
            return args.function(args) or 0
    except Stopped as stopped:
        told = "results that are finished are kept: give the same command again to go on from them"
        print(f"interextra: stopped by {stopped.number.name}; {told}", file=sys.stderr)
        return 128 + stopped.number
    except WorkerLost as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `interextra plan | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        line = str(error) if isinstance(error, InputError) else _refused(error)
        if not line:
            raise
    print(f"interextra: {line}", file=sys.stderr)
    return 2


@contextmanager
def _stoppable() -> Iterator[None]:
    """SIGINT and SIGTERM raise Stopped in a block, once: what comes after it must not disturb what
    is being ended.

    One that the caller ignores (`nohup`, a shell's `&`) stays so.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone may choose
        yield
        return
    before = {number: signal.getsignal(number) for number in STOPPING}
    taken = [number for number in STOPPING if before[number] != signal.SIG_IGN]

    def stop(number: int, frame: object) -> None:
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        raise Stopped(number)

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    except Stopped:
        taken = []  # the process is about to end
        raise
    finally:
        for number in taken:
            signal.signal(number, before[number])


def _refused(error: Exception) -> str:
    """One line about what the system refused: where, why and what to do. Empty for any other
    error.
    """
    full = os.strerror(
        errno.ENOSPC
    )  # a full disk names no file, and libraries report it as errors of their own
    if isinstance(error, OSError) and (
        error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    ):
        where, why = error.filename2 or error.filename, error.strerror
    elif full in str(error) or re.fullmatch(
        r"\d+ requested and \d+ written", str(error)
    ):  # numpy says the latter
        where, why = "", full
    else:
        return ""
    todo = "make room, make it writable or move away what stands there, then start again: what is finished is kept"
    return f"{where or f'outputs/ or {cache_folder()}'}: {why}; {todo}"


if __name__ == "__main__":
    sys.exit(main())

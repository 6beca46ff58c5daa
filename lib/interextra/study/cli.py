"""The command line: `interextra run | plan | cell | report | check | evaluate`."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import yaml

from interextra.ground.errors import InputError


def _overrides(pairs: list[str]) -> dict:
    values = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InputError(f"-p {pair}: write name=value")
        values[name] = yaml.safe_load(text)
    return values


def _selected(args) -> list[tuple[Path, dict]]:
    """The chosen notebooks with their checked parameters: all are checked before the first one runs."""
    from interextra.study.params import notebooks, profile_parameters, repository_root

    root = repository_root()
    chosen = notebooks(root, args.only)
    overrides = _overrides(args.parameter)
    if overrides and len(chosen) > 1:
        raise InputError("-p changes one notebook: name it with --only")
    return [(path, profile_parameters(root, args.profile, path, overrides)) for path in chosen]


def _store():
    from interextra.study.cells import Store
    from interextra.study.params import repository_root

    return Store(repository_root() / "outputs" / "cells", say=lambda line: print(line, file=sys.stderr))


def command_run(args) -> int:
    from interextra.study.designs import configs
    from interextra.study.execute import NotebookError, execute
    from interextra.study.params import repository_root
    from interextra.study.pool import build_all
    from interextra.study.report import write_index

    folder = repository_root() / "outputs" / args.profile
    selected = _selected(args)
    begin = time.perf_counter()
    for number, (path, parameters) in enumerate(selected, 1):
        print(f"[{number}/{len(selected)}] {path.stem:<34}", end="", flush=True)
        start = time.perf_counter()
        new = build_all(_store(), configs(path.stem, parameters), args.workers).new
        print(f"cells {new:>3} new {time.perf_counter() - start:6.1f} s", end="", flush=True)
        try:
            done = execute(path, parameters, folder / path.stem, args.timeout)
        except NotebookError as error:
            print(f"\ninterextra: {error}", file=sys.stderr)
            return 1
        print(f"   notebook {done.state:<5} {done.seconds:6.1f} s", flush=True)
    index = write_index(folder)
    print(f"{time.perf_counter() - begin:.0f} s in all. Open {os.path.relpath(index)}")
    return 0


def command_plan(args) -> int:
    from interextra.study.designs import configs
    from interextra.study.plan import describe

    store, total = _store(), 0.0
    planned = [(path, describe(store, configs(path.stem, parameters))) for path, parameters in _selected(args)]
    if args.json:
        print(json.dumps([{"notebook": path.stem, "cells": rows} for path, rows in planned]))
        return 0
    counted: set[str] = set()  # notebooks share cells
    for path, rows in planned:
        todo = sum(row["seconds"] for row in rows if row["state"] != "done" and row["key"] not in counted)
        counted |= {row["key"] for row in rows}
        total += todo
        print(f"{path.stem}: {len(rows)} cells, {sum(row['state'] == 'done' for row in rows)} done, about {todo:.0f} s")
        for row in rows:
            print(f"  {row['key']}  {row['state']:<4}  {row['seconds']:8.0f} s  {row['what']}")
    print(f"about {total:.0f} s of one core in all; build one cell with `interextra cell KEY`")
    return 0


def command_cell(args) -> int:
    from interextra.study.jobs import build

    store = _store()
    for key in args.key:
        folder = build(store, store.config(key))
        print(os.path.relpath(folder))
    return 0


def command_report(args) -> int:
    from interextra.study.params import repository_root
    from interextra.study.report import write_index

    folder = repository_root() / "outputs" / args.profile
    if not folder.is_dir():
        raise InputError(f"nothing was run for profile {args.profile!r}: start with `interextra run`")
    print(os.path.relpath(write_index(folder)))
    return 0


def command_check(args) -> int:
    """Stored notebooks keep their rules, every YAML key is declared, every finished cell has its bytes."""
    from interextra.study.cells import seal_problem
    from interextra.study.params import notebooks, profile_parameters, repository_root
    from interextra.study.structure import problems

    root = repository_root()
    found = [line for path in notebooks(root) for line in problems(path)]
    for profile in sorted(path.name for path in (root / "params").iterdir() if path.is_dir()):
        known = {path.stem: path for path in notebooks(root)}
        for path in sorted((root / "params" / profile).glob("*.yaml")):
            if path.stem not in known:
                found.append(f"{path.relative_to(root)}: there is no such notebook")
                continue
            try:
                profile_parameters(root, profile, known[path.stem])
            except InputError as error:
                found.append(str(error))
    cells = sorted(path for path in (root / "outputs" / "cells").glob("*/seal.json"))
    for path in cells:
        problem = seal_problem(path.parent)
        if problem:
            found.append(f"cell {path.parent.name}: {problem}")
    print("\n".join(found) if found else f"{len(known)} notebooks and {len(cells)} cells: nothing wrong")
    return 1 if found else 0


def command_evaluate(args) -> int:
    from interextra.evaluation.files import evaluate_files

    print(evaluate_files(args.qrels, args.run, args.measures, per_query=args.per_query), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="interextra", description="Do neural retrievers interpolate or extrapolate?")
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, function, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        return sub

    run = add("run", command_run, "execute notebooks with papermill, missing cells first")
    plan = add("plan", command_plan, "print what would run and what it costs")
    for sub in (run, plan):
        sub.add_argument("--profile", default="mini")
        sub.add_argument("--only", default="", metavar="01,02", help="numbers or names of notebooks")
        sub.add_argument("-p", dest="parameter", action="append", default=[], metavar="NAME=VALUE")
    plan.add_argument("--json", action="store_true", help="for a workflow engine")
    run.add_argument("--workers", type=int, help="processes (default: cores)")
    run.add_argument("--timeout", type=int, default=7200, metavar="S", help="seconds that one notebook cell may take")
    add("cell", command_cell, "build planned cells").add_argument("key", nargs="+")
    add("report", command_report, "write the index page of a profile").add_argument("--profile", default="mini")
    add("check", command_check, "check stored notebooks, parameter files and finished cells")
    evaluate = add("evaluate", command_evaluate, "measure any run file")
    evaluate.add_argument("--qrels", required=True)
    evaluate.add_argument("--run", required=True)
    evaluate.add_argument("-m", dest="measures", nargs="+", required=True, metavar="MEASURE")
    evaluate.add_argument("--per-query", action="store_true")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 something failed or was found wrong, 2 the input is at fault."""
    args = parser().parse_args(arguments)
    if os.environ.get("INTEREXTRA_DATA"):  # notebooks run in their own folder
        os.environ["INTEREXTRA_DATA"] = os.path.abspath(os.environ["INTEREXTRA_DATA"])
    try:
        return args.function(args)
    except InputError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `interextra plan | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


if __name__ == "__main__":
    sys.exit(main())

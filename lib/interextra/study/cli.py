"""The command line: `interextra --help` lists its commands."""

import argparse
import errno
import json
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from interextra.ground.cells import Store
from interextra.ground.errors import InputError
from interextra.ground.files import cache_folder
from interextra.study.parameters import output_name, repository_root


def _store() -> Store:
    return Store(repository_root() / "outputs" / "cells")


def _selected(args: argparse.Namespace) -> list:
    """The chosen notebooks as cells, all of them checked; `args.name` becomes the folder of their results."""
    from interextra.study.worlds import planned

    root, overrides = repository_root(), {}
    for pair in args.parameter:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InputError(f"-p {pair}: write name=value")
        try:
            overrides[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            hint = 'put what holds braces into quotes: ["a{b: 1}"]'
            raise InputError(f"-p {pair}: not readable as YAML; {hint}") from None
    selected = planned(root, args.profile, args.only, overrides, args.from_reference)
    args.name = output_name(root, args.profile, overrides, args.name) + "-from-reference" * args.from_reference
    return selected


def command_run(args: argparse.Namespace) -> int:
    from interextra.study.book import Writer
    from interextra.study.notebook import Notebook, NotebookError, publish
    from interextra.study.progress import Progress
    from interextra.study.schedule import build_all

    begin, store, selected = time.perf_counter(), _store(), _selected(args)
    folder = repository_root() / "outputs" / args.name
    book = Writer(folder)

    def done(cell) -> None:
        if cell in selected:
            publish(cell, store, folder)
            book.refresh(f"{time.strftime('%H:%M')}: {progress.results.state()}.")
        if isinstance(cell, Notebook):
            print(f"{cell.name:<34} done after {time.perf_counter() - begin:6.1f} s", flush=True)

    try:
        with Progress(store, selected, folder) as progress:
            computed = build_all(store, selected, done, progress)
    except NotebookError as error:
        print(f"interextra: {error}", file=sys.stderr)
        return 1
    for notebook in selected:
        publish(notebook, store, folder)
    executed = sum(notebook in computed for notebook in selected)
    taken = len(selected) - executed
    print(f"{len(selected)} notebooks, {taken} of them taken as they were; {len(computed) - executed} new results")
    print(f"{time.perf_counter() - begin:.0f} s in all. Open {os.path.relpath(book.finish())}")
    return 0


def command_status(args: argparse.Namespace) -> None:
    """Only the store is looked at: the run may be in another shell, or on a cluster."""
    import pandas as pd

    from interextra.data.queries import pricing
    from interextra.study.progress import Results, lasting

    store = _store()
    with pricing():
        selected = _selected(args)
    every = {cell.name: Results(store, [cell]) for cell in selected}
    results = Results(store, selected)
    for key in filter(results.is_done, results.cells):
        results.learn(key)
    state, rows = results.state(), {name: found.state()[:2] for name, found in every.items()}
    running = {results.cells[key].title(): time.time() - since for key, since in state.running.items()}
    if args.json:
        print(json.dumps({"notebooks": rows, "computing": running, "seconds_left": round(state.seconds_left)}))
        return
    print(pd.DataFrame(rows, ["results", "done"]).T.to_string(), end="\n\n")
    print("".join(f"being computed for {lasting(seconds)}: {what}\n" for what, seconds in running.items()), end="")
    print(f"{state}.")


def command_plan(args: argparse.Namespace) -> int:
    from interextra.data.load import peek
    from interextra.data.queries import pricing
    from interextra.papers.verdicts import resolutions
    from interextra.study.schedule import described, priced
    from interextra.study.travel import REFERENCE

    store = _store()
    with pricing():
        selected = _selected(args)
        needed = {cell.name: [part for run in cell.by_place.values() for part in run.plan] for cell in selected}
        rows = {cell.name: described(store, [*needed[cell.name], cell]) for cell in selected}
    specs = {json.loads(run.parameters).get("collection") for cell in selected for run in cell.by_place.values()}
    searched = [queries for cells in needed.values() for cell in cells for queries in getattr(cell, "queries", ())]
    specs |= {queries.source.spec for queries in searched}
    for spec, found in ((spec, peek(spec)) for spec in sorted(filter(None, specs))):
        if found:
            load = f"about {found['megabytes']:,.0f} MB" if found["megabytes"] is not None else "an unknown size"
            print(f"{spec} is not here: {found['passages']:,} passages, {load} to download", file=sys.stderr)
    if args.json:
        print(json.dumps([{"notebook": name, "cells": found} for name, found in rows.items()]))
        return 0
    whole = dict.fromkeys(("results", "to_compute", "seconds", "MB"), "{:,.0f}".format)
    for name, table in priced(rows, os.cpu_count() or 1).items():
        print(f"{name}\n{table.to_string(formatters=whole, float_format='{:,.1f}'.format)}\n")
        for row in rows.get(name, ()) if args.all else ():
            print(f"  {row['key']}  {row['state']:<4}  {row['seconds']:8.0f} s  {row['what']}")
    reference = store.root.parent.parent / REFERENCE / args.profile
    if len(found := resolutions([reference / name / "tables" / "claims.csv" for name in rows])):
        print("The smallest effects that this design finds with 80 % power, by the committed reference:")
        print(found.to_string(index=False, float_format="{:.3g}".format) + "\n")
    print("Seconds of one core or GPU; what several notebooks need stands at the first.")
    print("Every result with its key: --all. Compute one: `interextra cell KEY`")
    return 0


def command_cell(args: argparse.Namespace) -> None:
    store = _store()
    for key in args.key:
        print(os.path.relpath(store.build(store.cell(key))))


def command_clean(args: argparse.Namespace) -> None:
    removed, freed = _store().clean()
    print(f"{removed} results of older code and weights that no planned run needs: {freed / 2**20:.0f} MB freed")


def command_verify(args: argparse.Namespace) -> int:
    from interextra.study.reference import verify

    found = verify(repository_root(), args.profile, args.only)
    print(found.to_string(index=False, float_format=lambda value: f"{value:.1e}"))
    wrong = found[found["problem"] != ""]
    print(f"{len(found)} tables, {len(wrong)} differ from outputs/reference/{args.profile}")
    return 1 if len(wrong) else 0


def command_evaluate(args: argparse.Namespace) -> None:
    from interextra.data.runs import RunFile
    from interextra.data.trec import read_qrels
    from interextra.evaluation.measures import per_query, report
    from interextra.evaluation.pool import pool_range, rank_biased_precision

    run, qrels = RunFile.read(args.run), read_qrels(args.qrels)
    table = per_query(run, qrels, args.measures)
    if args.pool_range:
        precision = rank_biased_precision(run, qrels).set_axis(["RBP", "RBP residual"], axis="columns")
        table = table.join([pool_range(run, qrels).add_prefix("nDCG@10 "), precision])
    print(report(table, each=args.per_query), end="")


def command_audit(args: argparse.Namespace) -> None:
    from interextra.experiments.auditing import audit, read, write

    sides = read(args.train, "train"), read(args.test, "test")
    found = audit(*sides, args.encoder, args.near)
    named = "not " * (sides[0].name == sides[1].name) + "zero-shot"
    paths = list(map(str, write(found, Path(args.out))))
    if args.json:
        print(json.dumps({"shares": found.shares.to_dict("records"), "by_name": named, "files": paths}))
        return
    print(found.shares.to_string(index=False, float_format="%.1f"))
    print(f"By the names of the data sets, as MTEB's flag has it: {named}.\n\nThe likest pairs:")
    columns = ["test_query", "train_query", "words", "cosine"]
    print(found.pairs[columns].head(5).to_string(index=False, float_format="%.2f", max_colwidth=50))
    print("", *paths, sep="\n")


def command_split(args: argparse.Namespace) -> None:
    from interextra.experiments.own import export, split_of

    split = split_of(args.protocol, args.collection, vars(args))
    made = export(split, _store(), Path(args.out), args.format, args.negatives, args.spare)
    for name, counts in made["sets"].items():
        print(f"{args.out}/{name}: {counts['queries']:,} training queries, {counts['pairs']:,} pairs")
    print(f"{args.out}/test.tsv: {made['n_test']:,} test queries. Search them with the model of each set.")


def command_regimes(args: argparse.Namespace) -> None:
    from interextra.evaluation.measures import check
    from interextra.experiments import regimes

    check(args.measures)
    given = regimes.Given.open(Path(args.split))
    values = regimes.measured(given, args.runs, args.measures, own=not args.skip_own)
    rival = regimes.baseline(given, _store(), Path(args.baseline) if args.baseline else None, args.measures)
    near = regimes.nearest(given, args.encoder)
    table = regimes.compared(values, rival, near, args.seed, args.n_boot)
    told, worst = regimes.sentences(table, type(given.split).__name__), regimes.losers(values, given, near)
    paths = list(map(str, regimes.write(Path(args.out), table, worst, values, told)))
    if args.json:
        print(json.dumps({"regimes": table.to_dict("records"), "sentences": told, "files": paths}))
        return
    columns = ["queries", "measure", "interpolation", "extrapolation", "change", "low", "high", "lead", "n_queries"]
    print(*told, "", table[columns].to_string(index=False, float_format="%.3f"), "", *paths, sep="\n")


def command_export(args: argparse.Namespace) -> None:
    """A run as NAME.trec a set of queries; a split as Zhan et al. and Lupart et al. released theirs."""
    import pandas as pd

    from interextra.data.runs import RunFile
    from interextra.papers import released
    from interextra.splits.split import Split

    store, folder = _store(), Path(args.folder)
    cell = store.cell(args.key)
    runs = sorted(store[cell].glob("run.*.parquet"))
    if not runs and not isinstance(cell, Split):
        raise InputError(f"{cell.title()} is neither a run nor a split; `interextra plan` lists those")
    paths = [folder / f"{path.stem.removeprefix('run.')}.trec" for path in runs]
    for run, path in zip(runs, paths, strict=True):
        RunFile.read(run).write_trec(path)
    if isinstance(cell, Split):
        sets = {name: ids for name, ids in cell.sets(store).items() if name != "held-out"}
        paths += released.export_split("restrain", sets, cell.pool.frame(store), cell.pool.qrels(store), folder)
        if cell.release:
            strata = cell.strata(store)
            sets = {str(name): part.index.tolist() for name, part in strata.groupby(strata)}
            parts = zip(*((queries.frame(store), queries.qrels(store)) for queries in cell.tested), strict=True)
            paths += released.export_split(cell.release, sets, *map(pd.concat, parts), folder)
    print(*map(os.path.relpath, paths), sep="\n")


def command_class(args: argparse.Namespace) -> None:
    sys.path.insert(0, str(repository_root()))  # tools/ is of the repository, not of the package
    from tools.teaching import write

    root, out = repository_root(), Path(args.out or Path("build", "class", args.format))
    written = write(root, args.format, args.only, out, Path(args.executed), args.from_reference)
    print(f"{len(written)} files under {out}")


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="interextra", description="Do neural retrievers interpolate or extrapolate?")
    commands = top.add_subparsers(dest="command", required=True)

    def add(name: str, function: Callable, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        return sub

    running = add("run", command_run, "execute notebooks with papermill, missing results first")
    status = add("status", command_status, "print how far a run is, in another shell or on a cluster")
    planning = add("plan", command_plan, "print what would run and what it costs")
    verify = add("verify", command_verify, "run a profile from nothing and compare every table with the reference")
    for sub in (running, status, planning, verify):
        sub.add_argument("--profile", default="mini")
        sub.add_argument("--only", default="", metavar="01,02", help="numbers or names of notebooks")
    for sub in (running, status, planning):
        sub.add_argument("-p", dest="parameter", action="append", default=[], metavar="NAME=VALUE")
        sub.add_argument("--name", default="", help="folder under outputs/ (default: the profile, or what was changed)")
        sub.add_argument("--from-reference", action="store_true", help="from the committed values: nothing is trained")
    planning.add_argument("--all", action="store_true", help="a line for every result, with its key")
    status.add_argument("--json", action="store_true", help="for a program")
    planning.add_argument("--json", action="store_true", help="for a workflow engine")
    add("cell", command_cell, "compute planned results").add_argument("key", nargs="+")
    add("clean", command_clean, "free weights that no planned run needs, and results of older code")
    evaluate = add("evaluate", command_evaluate, "measure any run file")
    evaluate.add_argument("--qrels", required=True)
    evaluate.add_argument("--run", required=True)
    evaluate.add_argument("-m", dest="measures", nargs="+", required=True, metavar="MEASURE")
    evaluate.add_argument("--per-query", action="store_true")
    evaluate.add_argument("--pool-range", action="store_true", help="also what unjudged passages could change")
    audited = add("audit", command_audit, "say what of test queries was seen in training: no model needed")
    queries = "SPEC@SPLIT, QUERIES.tsv,QRELS or datasets:FOLDER"
    audited.add_argument("--train", required=True, metavar="QUERIES", help=queries)
    audited.add_argument("--test", required=True, metavar="QUERIES", help=queries)
    audited.add_argument("--encoder", default="lsa", help="finds the nearest training queries: lsa, minilm, cls:MODEL")
    audited.add_argument("--near", type=float, default=0.8, help="share of common words of near-duplicates")
    audited.add_argument("--out", default="audit", metavar="FOLDER", help="where its files go")
    audited.add_argument("--json", action="store_true", help="for a program")
    divided = add("split", command_split, "write a split for a trainer of your own")
    divided.add_argument("protocol", choices=["restrain", "resttest", "shift"])
    divided.add_argument("--collection", required=True, metavar="SPEC")
    divided.add_argument("--train", default="train", metavar="SPLIT", help="of the training queries")
    divided.add_argument(
        "--test", nargs="+", default=["test"], metavar="SPLIT", help="of the test queries; not of a shift"
    )
    divided.add_argument("--encoder", default="lsa", help="of the queries: lsa, minilm, cls:MODEL")
    divided.add_argument(
        "--vectors", nargs="+", default=[], metavar="FILE.npy", help="of training queries, of test queries"
    )
    divided.add_argument(
        "--attribute", default="", help="of a shift: wh-words, length, column:NAME, python:MODULE:FUNCTION"
    )
    divided.add_argument("--size", type=float, default=0, help="training queries of a set, below 1 their share; 0: all")
    divided.add_argument("--k", type=int, default=5, help="buckets of resttest")
    divided.add_argument(
        "--n-test", type=float, default=0.2, help="of a shift: test queries per cluster, or their share"
    )
    divided.add_argument("--negatives", type=int, default=1, help="random negatives of each pair")
    divided.add_argument("--spare", action="store_true", help="draw no exposed passages as negatives")
    divided.add_argument("--seed", type=int, default=1)
    divided.add_argument(
        "--format", nargs="+", default=["ids"], help="ids, st, tevatron, flagembedding, beir, released"
    )
    divided.add_argument("--out", required=True, metavar="FOLDER")
    regimes = add("regimes", command_regimes, "measure runs on a split of `interextra split` in both regimes")
    regimes.add_argument("--split", required=True, metavar="FOLDER", help="as `interextra split` wrote it")
    regimes.add_argument("--runs", required=True, metavar="PATTERN", help="e.g. 'runs/{part}.{seed}.run'")
    regimes.add_argument("--baseline", default="", metavar="RUN", help="default: BM25, made here")
    regimes.add_argument("-m", dest="measures", nargs="+", default=["nDCG@10"], metavar="MEASURE")
    regimes.add_argument("--encoder", default="lsa", help="finds the nearest training queries, see audit")
    regimes.add_argument("--skip-own", action="store_true", help="a passage with the id of its query does not count")
    regimes.add_argument("--seed", type=int, default=1)
    regimes.add_argument("--n-boot", type=int, default=10_000, help="bootstrap samples")
    regimes.add_argument("--out", default="regimes", metavar="FOLDER", help="where its files go")
    regimes.add_argument("--json", action="store_true", help="for a program")
    exported = add("export", command_export, "write a planned run as TREC files, a split as the papers released theirs")
    exported.add_argument("key")
    exported.add_argument("folder")
    classes = add("class", command_class, "write versions of the notebooks for a class: student, solution, slides")
    classes.add_argument("--format", choices=["plain", "nbgrader", "otter", "slides"], default="plain")
    classes.add_argument("--only", default="", metavar="02,03", help="numbers or names of notebooks")
    classes.add_argument("--out", default="", metavar="FOLDER", help="default: build/class/FORMAT")
    classes.add_argument("--from-reference", action="store_true", help="they run from committed values: no training")
    classes.add_argument("--executed", default="outputs/mini", metavar="FOLDER", help="a run, for the slides")
    return top


def main(arguments: list[str] | None = None) -> int:
    """Entry point. Exit codes: 0 done, 1 something failed or was found wrong, 2 the input is at fault."""
    args = parser().parse_args(arguments)
    if os.environ.get("INTEREXTRA_DATA"):  # notebooks run in their own folder
        os.environ["INTEREXTRA_DATA"] = os.path.abspath(os.environ["INTEREXTRA_DATA"])
    try:
        return args.function(args) or 0
    except InputError as error:
        line = str(error)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `interextra plan | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if not (line := _refused(error)):
            raise
    print(f"interextra: {line}", file=sys.stderr)
    return 2


def _refused(error: Exception) -> str:
    """One line about what the system refused: where, why and what to do. Empty for any other error.

    A full disk names no file, and libraries report it as errors of their own.
    """
    full = os.strerror(errno.ENOSPC)
    if isinstance(error, OSError) and (error.filename or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)):
        where, why = error.filename2 or error.filename, error.strerror
    elif full in str(error) or re.fullmatch(r"\d+ requested and \d+ written", str(error)):  # numpy says the latter
        where, why = "", full
    else:
        return ""
    todo = "make room, make it writable or move away what stands there, then start again: what is finished is kept"
    return f"{where or f'outputs/ or {cache_folder()}'}: {why}; {todo}"


if __name__ == "__main__":
    sys.exit(main())

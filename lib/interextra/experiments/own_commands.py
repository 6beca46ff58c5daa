"""Notebook 12 on the command line: `audit`, `split`, `regimes`, `probe`; what they need is loaded when they run."""

import json
import os
import sys
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import yaml

from interextra.ground import Store

OPTIONS = Path(__file__).with_suffix(".yaml")


def audit(args: Namespace) -> None:
    from interextra.experiments import auditing

    sides = auditing.read(args.train, "train"), auditing.read(args.test, "test")
    found = auditing.audit(*sides, args.encoder, args.near)
    named = "not " * (sides[0].name == sides[1].name) + "zero-shot"
    paths = list(map(str, auditing.write(found, Path(args.out))))
    if args.json:
        print(json.dumps({"shares": found.shares.to_dict("records"), "by_name": named, "files": paths}))
        return
    print(found.shares.to_string(index=False, float_format="%.1f"))
    print(f"By the names of the data sets, as MTEB's flag has it: {named}.\n\nThe likest pairs:")
    columns = ["test_query", "train_query", "words", "cosine"]
    print(found.pairs[columns].head(5).to_string(index=False, float_format="%.2f", max_colwidth=50))
    print("", *paths, sep="\n")


def split(store: Callable[[], Store], args: Namespace) -> None:
    from interextra.experiments import own

    divided = own.split_of(args.protocol, args.collection, vars(args))
    place, gate = store(), own.gate_of(vars(args), divided.pool.source)
    place.build(divided)
    made = own.export(divided, place, Path(args.out), args.format, args.negatives, args.spare, gate)
    for name, counts in made["sets"].items():
        print(f"{args.out}/{name}: {counts['queries']:,} training queries, {counts['pairs']:,} pairs")
    told = f"{made['n_test']:,} test queries, {made['n_gate']:,} for the lead over a baseline"
    print(f"{args.out}/test.tsv: {told}. Search them with the model of each set.")


def regimes(store: Callable[[], Store], args: Namespace) -> None:
    from interextra.evaluation.measures import check
    from interextra.experiments import given as module
    from interextra.experiments.regimes import report

    check(args.measures)
    given, file, own = module.Given.open(Path(args.split)), args.baseline, not args.skip_own
    values = module.measured(given, args.runs, args.measures, own)
    place = store()
    if not file:
        place.build(given.bm25)
    rival = module.baseline(given, place, Path(file) if file else None, args.measures, own)
    near, name = module.nearest(given, args.encoder), Path(file).stem or "BM25"
    found = report(given, values, rival, near, args.margin, args.seed, args.n_boot, name)
    _print(found, Path(args.out), args.json)


def probe(store: Callable[[], Store], args: Namespace) -> None:
    if args.device:  # before torch is loaded
        os.environ["CUDA_VISIBLE_DEVICES"] = args.device.removeprefix("cpu").removeprefix("cuda:")
    from interextra.experiments import own
    from interextra.experiments import probe as module

    recipe = module.recipe_of(args.model, args.model_revision, args.recipe, args.batch_size)
    p = {name: getattr(args, name) for name in module.DEFAULTS | module.WRITTEN}
    divided, place = own.split_of(args.protocol, args.collection, p), store()
    train, planned = module.trainer(recipe, divided, own.gate_of(p, divided.pool.source), place)
    names = [name for name in divided.parts() if name != own.HELD_OUT]
    cells = place.missing([planned(Path(name), seed) for name in names for seed in args.seeds])
    seconds, size = (sum(getattr(cell, what)() for cell in cells) for what in ("seconds", "megabytes"))
    told = f"{len(names)} training sets, {len(args.seeds)} trainings of each; {len(cells)} results to compute"
    print(f"{told}: about {seconds:,.0f} s of one core or GPU, {size:,.0f} MB", file=sys.stderr, flush=True)
    if args.check:
        print(module.check(recipe, divided))
        return
    p |= {name: getattr(args, name) for name in ("collection", "protocol", "seeds", "measures", "margin", "n_boot")}
    found = module.probe(train, out=args.output_folder, predictions=args.prediction_folder, store=place, **p)
    _print(found, Path(args.output_folder), args.json)


def _print(found, out: Path, as_json: bool) -> None:
    from interextra.experiments.regimes import write

    paths = list(map(str, write(out, found)))
    if as_json:
        tables = {"regimes": found.changes.to_dict("records"), "claims": found.claims.to_dict("records")}
        print(json.dumps(tables | {"sentences": found.told, "files": paths}))
        return
    columns = ["queries", "measure", "interpolation", "extrapolation", "change", "low", "high", "detects", "n_queries"]
    print(*found.told, "", found.changes[columns].to_string(index=False, float_format="%.3f"), "", *paths, sep="\n")


def add_commands(add: Callable, store: Callable[[], Store]) -> None:
    """Add the four commands; `add`: name, function, text → their parser. `store` opens that of the repository."""
    functions = {"audit": audit} | {run.__name__: partial(run, store) for run in (split, regimes, probe)}
    for name, options in yaml.safe_load(OPTIONS.read_text(encoding="utf-8")).items():
        command = add(name, functions[name], options.pop("about"))
        for flags, option in options.items():
            [kind] = {type(one) for one in np.ravel(option.get("default", "")).tolist()} or {str}
            given = {"type": kind} if "action" not in option else {}
            command.add_argument(*flags.split(), **given | option)

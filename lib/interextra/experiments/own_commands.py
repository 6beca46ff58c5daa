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
    paths = auditing.write(found, Path(args.out))
    pairs = found.pairs[["test_query", "train_query", "words", "cosine"]].head(5)
    told = [found.shares.to_string(index=False, float_format="%.1f")]
    told += [f"By the names of the data sets, as MTEB's flag has it: {named}.\n\nThe most similar pairs:"]
    told += [pairs.to_string(index=False, float_format="%.2f", max_colwidth=50)]
    _print(told, paths, args.json and {"shares": found.shares.to_dict("records"), "by_name": named})


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
    from interextra.experiments.given import Given
    from interextra.experiments.regimes import of_runs

    given, how = Given.open(Path(args.split)), {name: getattr(args, name) for name in ("margin", "seed", "n_boot")}
    given_runs = args.runs, args.measures, args.baseline, not args.skip_own, args.encoder
    _print_report(of_runs(given, store(), *given_runs, **how), args.out, args.json)


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
    _print_report(found, args.output_folder, args.json)


def _print_report(found, out: str, as_json: bool) -> None:
    from interextra.experiments.regimes import write

    columns = ["queries", "measure", "interpolation", "extrapolation", "change", "low", "high", "detects", "n_queries"]
    told = [*found.told, "", found.changes[columns].to_string(index=False, float_format="%.3f")]
    tables = {"regimes": found.changes.to_dict("records"), "claims": found.claims.to_dict("records")}
    _print(told, write(Path(out), found), as_json and tables | {"sentences": found.told})


def _print(told: list[str], paths: list[Path], as_json: dict | bool) -> None:
    files = list(map(str, paths))
    print(json.dumps(as_json | {"files": files}) if as_json else "\n".join([*told, "", *files]))


def add_commands(add: Callable, store: Callable[[], Store]) -> None:
    """Add the four commands; `add`: name, function, text → their parser. `store` opens that of the repository."""
    functions = {"audit": audit} | {run.__name__: partial(run, store) for run in (split, regimes, probe)}
    for name, options in yaml.safe_load(OPTIONS.read_text(encoding="utf-8")).items():
        command = add(name, functions[name], options.pop("about"))
        for flags, option in options.items():
            [kind] = {type(one) for one in np.ravel(option.get("default", "")).tolist()} or {str}
            given = {"type": kind} if "action" not in option else {}
            command.add_argument(*flags.split(), **given | option)

"""The commands `audit`, `split`, `regimes`, `probe`, see notebook 12; what they need is loaded when
they run.
"""

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from interextra.store import Cell, InputError, Store


def audit(args: Namespace) -> None:
    from interextra.own import audit as auditing
    from interextra.own import splitting as own

    own.refuse_place(Path(args.out))
    sides = auditing.read(args.train, "train"), auditing.read(args.test, "test")
    found = auditing.audit(*sides, args.encoder, args.near)
    named = "not " * (sides[0].name == sides[1].name) + "zero-shot"
    pairs = found.pairs[["test_query", "train_query", "words", "cosine"]].head(5)
    told = [found.shares.to_string(index=False, float_format="%.1f")]
    told += [
        f"By the names of the data sets, as MTEB's flag has it: {named}.\n\nThe most similar pairs:"
    ]
    told += [pairs.to_string(index=False, float_format="%.2f", max_colwidth=50)]
    paths = auditing.write(found, Path(args.out))
    _print(told, paths, args.json and {"shares": found.shares.to_dict("records"), "by_name": named})


def split(store: Store, args: Namespace) -> None:
    from interextra.own import splitting as own

    divided = own.split_of(args.protocol, args.collection, vars(args))
    own.refuse_existing(Path(args.out))
    store.build(divided)
    made = own.export(divided, store, Path(args.out), vars(args))
    for name, counts in made["sets"].items():
        print(
            f"{args.out}/{name}: {counts['queries']:,} training queries, {counts['pairs']:,} pairs"
        )
    told = f"{made['n_test']:,} test queries, {made['n_gate']:,} for the lead over a baseline"
    print(f"{args.out}/test.tsv: {told}. Search them with the model of each set.")


def regimes(store: Store, args: Namespace) -> None:
    from interextra.measures.evaluate import check
    from interextra.own import splitting as own
    from interextra.own.given import BM25, Given, measured, nearest, values_of
    from interextra.own.regimes import refuse_first, report, write

    own.refuse_place(Path(args.out))
    check(args.measures)
    refuse_first(args.measures[0])
    given, asked = Given.open(Path(args.split), args.attribute), (args.measures, not args.skip_own)
    near = nearest(given, args.encoder)
    values = measured(given, args.runs, *asked)
    if not args.baseline:
        store.build(given.bm25)
    rival = values_of(
        Path(args.baseline) if args.baseline else given.read(given.bm25, store), given, *asked
    )
    found = report(given, values, rival, near, args.margin, args.seed, args.n_boot)
    told = [text.replace(BM25, Path(args.baseline).stem or BM25) for text in found.told]
    _print_report(write(Path(args.out), found._replace(told=told)), args.json)


def probe(store: Store, args: Namespace, build: Callable[[list[Cell]], object]) -> None:
    """`build`: computes some results, several at once."""
    if not re.fullmatch(r"|cpu|cuda(:\d+)?", args.device):
        raise InputError(f"--device {args.device}: write cpu, cuda or cuda:NUMBER")
    if args.device not in ("", "cuda"):  # before torch is loaded
        os.environ["CUDA_VISIBLE_DEVICES"] = args.device.removeprefix("cpu").removeprefix("cuda:")
    from interextra.own import probe as module
    from interextra.own import splitting as own

    recipe = module.recipe_of(
        args.model, args.model_revision, args.recipe, args.batch_size, args.spare
    )
    divided = own.split_of(args.protocol, args.collection, vars(args))
    train, names = (
        module.trainer(recipe, divided, own.gate_of(vars(args), divided.pool.source)),
        own.sets_of(divided),
    )
    runs = [train(Path(name), seed) for name in names for seed in args.seeds]
    cells = store.missing(runs)
    seconds, size = (
        sum(getattr(cell, what)() for cell in cells) for what in ("seconds", "megabytes")
    )
    told = f"{len(names)} training sets, {len(args.seeds)} trainings of each; {len(cells)} results to compute"
    print(
        f"{told}: about {seconds:,.0f} s of one core or GPU, {size:,.0f} MB",
        file=sys.stderr,
        flush=True,
    )
    if args.check:
        print(module.check(recipe, divided))
        return
    named = (*own.DEFAULTS, "collection", "protocol", "seeds", "measures", "margin", "n_boot")
    p = {name: value for name, value in vars(args).items() if name in named}
    p |= {"out": args.output_folder, "predictions": args.prediction_folder, "store": store}
    found = module.probe(
        train, compute=lambda cell: build(runs) if cell in runs else store.build(cell), **p
    )
    _print_report(found, args.json)


def _print_report(found, as_json: bool) -> None:
    columns = [
        "queries",
        "measure",
        "interpolation",
        "extrapolation",
        "change",
        "low",
        "high",
        "detects",
        "n_queries",
    ]
    told = [*found.told, "", found.changes[columns].to_string(index=False, float_format="%.3f")]
    changes, claims = (
        json.loads(one.to_json(orient="records")) for one in (found.changes, found.claims)
    )  # NaN: null
    _print(
        told,
        found.files,
        as_json and {"regimes": changes, "claims": claims, "sentences": found.told},
    )


def _print(told: list[str], paths: list[Path], as_json: dict | bool) -> None:
    files = list(map(str, paths))
    print(json.dumps(as_json | {"files": files}) if as_json else "\n".join([*told, "", *files]))

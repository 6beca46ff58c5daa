"""Notebook 12 on the command line: `interextra audit`, `split`, `regimes`; what they need is loaded when they run."""

import json
from argparse import Namespace
from collections.abc import Callable
from functools import partial
from pathlib import Path

from interextra.ground.cells import Store


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
    """Add the three commands; `add`: name, function, text → their parser. `store` opens that of the repository."""
    queries = {"required": True, "metavar": "QUERIES", "help": "SPEC@SPLIT, QUERIES.tsv,QRELS or datasets:FOLDER"}
    encoder = {"default": "lsa", "help": "finds the nearest training queries: lsa, minilm, cls:MODEL"}
    machine = {"action": "store_true", "help": "for a program"}
    option = add("audit", audit, "say what of test queries was seen in training: no model needed").add_argument
    option("--train", **queries)
    option("--test", **queries)
    option("--encoder", **encoder)
    option("--near", type=float, default=0.8, help="share of common words of near-duplicates")
    option("--out", default="audit", metavar="FOLDER", help="where its files go")
    option("--json", **machine)
    option = add("split", partial(split, store), "write a split for a trainer of your own").add_argument
    option("protocol", choices=["restrain", "resttest", "shift"])
    option("--collection", required=True, metavar="SPEC")
    option("--train", default="train", metavar="SPLIT", help="of the training queries")
    option("--test", nargs="+", default=["test"], metavar="SPLIT", help="of the test queries; not of a shift")
    option("--encoder", **encoder)
    option("--vectors", nargs="+", default=[], metavar="FILE.npy", help="of training queries, of test queries")
    option("--attribute", default="", help="of a shift: wh-words, length, column:NAME, python:MODULE:FUNCTION")
    option("--size", type=float, default=0, help="training queries of a set, below 1 their share; 0: all")
    option("--k", type=int, default=5, help="buckets of resttest")
    option("--n-test", type=float, default=0.2, help="of a shift: test queries per cluster, or their share")
    option("--negatives", type=int, default=1, help="random negatives of each pair")
    option("--spare", action="store_true", help="draw no exposed passages as negatives")
    option("--gate", default="", metavar="SPLIT", help="of queries that only show a lead; default: dev, if free")
    option("--seed", type=int, default=1)
    option("--format", nargs="+", default=["ids"], help="ids, st, pylate-kd, tevatron, flagembedding, beir, released")
    option("--out", required=True, metavar="FOLDER")
    option = add("regimes", partial(regimes, store), "measure runs on such a split in both regimes").add_argument
    option("--split", required=True, metavar="FOLDER", help="as `interextra split` wrote it")
    option("--runs", required=True, metavar="PATTERN", help="e.g. 'runs/{part}.{seed}.run'")
    option("--baseline", default="", metavar="RUN", help="default: BM25, made here")
    option("-m", dest="measures", nargs="+", default=["nDCG@10"], metavar="MEASURE")
    option("--encoder", **encoder)
    option("--margin", type=float, default=0.05, help="share that counts as no difference")
    option("--skip-own", action="store_true", help="a passage with the id of its query does not count")
    option("--seed", type=int, default=1)
    option("--n-boot", type=int, default=10_000, help="bootstrap samples")
    option("--out", default="regimes", metavar="FOLDER", help="where its files go")
    option("--json", **machine)

"""The commands `audit`, `split`, `regimes`, `probe`, `curve`, see notebook 12.

What they need is loaded when they run.
"""

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interextra.store import Cell, InputError, Store
from interextra.store.extras import require

if TYPE_CHECKING:
    import pandas as pd

    from interextra.data.runs import RunFile
    from interextra.own.curve import Curve
    from interextra.own.merge import Merge
    from interextra.own.regimes import Report
    from interextra.own.seen import Given
    from interextra.own.split_folder import SplitFolder

REPORTED = [
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


def audit(args: Namespace) -> None:
    """Count the test queries that were seen in training; write and print what was found."""
    from interextra.measures.evaluate import check
    from interextra.own import audit as auditing
    from interextra.own import clean as cleaning
    from interextra.own.splitting import refuse_place

    out = Path(args.out)
    refuse_place(out)
    check([args.measure])
    if args.clean:
        refuse_place(Path(args.clean))
    train = auditing.read(args.train, "train")
    test = auditing.read(args.test, "test")
    found = auditing.audit(train, test, args.encoder, args.near, args.near_passages)
    values = cleaning.values_of_system(test, args.run, args.measure)
    query_ids = test.queries["query_id"]
    sentences = cleaning.conclusion(query_ids, found.test_queries, values, args.measure)
    by_name = "not zero-shot" if train.name == test.name else "zero-shot"
    nearest = ["test_query", "train_query", "words", "cosine"]
    pairs = found.pairs[nearest].head(5)
    if len(found.near):
        near = ["test_query", "train_query", "words", "order"]
        pairs = found.near.drop_duplicates("test_query_id")[near].head(5)
    lines = [
        found.shares.to_string(index=False, float_format="%.1f"),
        f"{found.compared}\nBy the names of the data sets, as MTEB's flag has it: {by_name}.\n",
        "The most similar pairs:",
        pairs.to_string(index=False, float_format="%.2f", max_colwidth=50),
        "",
        *sentences,
    ]
    paths = auditing.write(found, out)
    if args.clean:
        paths += cleaning.write_clean(test, found.test_queries, Path(args.clean))
    if args.json:
        shares = found.shares.to_dict("records")
        told = {"shares": shares, "compared": found.compared, "by_name": by_name}
        told["conclusion"] = sentences
        _print_json(told, paths)
    else:
        _print_lines(lines, paths)


def split(store: Store, args: Namespace) -> None:
    """Write a split for a trainer of the user's, and print what is in it."""
    from interextra.own import distance, splitting
    from interextra.own.split_folder import SplitFolder

    out = Path(args.out)
    options = vars(args)
    made = splitting.split_of(args.protocol, args.collection, options)
    splitting.refuse_existing(out)
    store.build(made)
    manifest = splitting.export(made, store, out, options)
    for name, counts in manifest["sets"].items():
        n_queries = f"{counts['queries']:,} training queries"
        n_pairs = f"{counts['pairs']:,} pairs"
        print(f"{args.out}/{name}: {n_queries}, {n_pairs}")
    n_test = f"{manifest['n_test']:,} test queries"
    n_gate = f"{manifest['n_gate']:,} for the lead over a baseline"
    print(f"{args.out}/test.tsv: {n_test}, {n_gate}. Search them with the model of each set.")
    distances = SplitFolder.open(out, args.attribute).distances
    print("\n" + distance.printed(distances))
    for warning in distance.warnings(distances):
        print(warning)


def regimes(store: Store, args: Namespace) -> None:
    """Measure runs on a split in both regimes; write and print the report."""
    from interextra.own import regimes as reporting
    from interextra.own.split_folder import SplitFolder
    from interextra.own.splitting import refuse_place
    from interextra.own.values import BM25, values_of_run, values_of_runs

    out = Path(args.out)
    refuse_place(out)
    reporting.refuse_measures(args.measures)
    folder = SplitFolder.open(Path(args.split), args.attribute)
    if not args.baseline:
        require("regimes without --baseline RUN", "pyserini")
    nearest = reporting.nearest_training_queries(folder, args.encoder)
    values = values_of_runs(folder, args.runs, args.measures, args.skip_own)
    if args.baseline:
        baseline_run: Path | RunFile = Path(args.baseline)
    else:
        store.build(folder.bm25)
        baseline_run = folder.read(folder.bm25, store)
    baseline = values_of_run(baseline_run, folder, args.measures, args.skip_own)
    given = None
    if args.given:
        given = _given(store, folder, args)
    report = reporting.report(
        folder, values, baseline, nearest, args.margin, args.seed, args.n_boot, given
    )
    name = Path(args.baseline).stem or BM25
    # what the model had seen is tested against BM25, whatever the baseline
    kept = given.seen.sentence(args.measures[0]) if given else ""
    sentences = []
    for sentence in report.sentences:
        renamed = sentence.replace(BM25, name)
        sentences.append(sentence if sentence == kept else renamed)
    systems = report.systems.replace({"system": {BM25: name}})
    report = report._replace(sentences=sentences, systems=systems)
    _print_report(reporting.write(out, report), args.json)


def _given(store: Store, folder: "SplitFolder", args: Namespace) -> "Given":
    """Measure the run of the model before fine-tuning; what it has seen is tested against BM25."""
    from interextra.own.seen import Given, has_seen
    from interextra.own.values import values_of_run

    path = Path(args.given)
    sampled = folder.with_training_sample()
    store.build(folder.bm25)
    baseline_run = sampled.read(folder.bm25, store)
    baseline = values_of_run(baseline_run, sampled, args.measures, args.skip_own)
    values = values_of_run(path, sampled, args.measures, args.skip_own)
    seen = has_seen(sampled, values, baseline, args.measures[0], args.seed, args.n_boot)
    return Given(values, seen)


def probe(store: Store, args: Namespace, build: Callable[[list[Cell]], object]) -> None:
    """Train on each set of a split and print the report; `build` computes several results."""
    _choose_device(args.device)
    from interextra.own import probe as probing
    from interextra.own import splitting

    options = vars(args)
    recipe = probing.recipe_of(
        args.model, args.model_revision, args.recipe, args.batch_size, args.spare
    )
    divided = splitting.split_of(args.protocol, args.collection, options)
    gate = splitting.gate_of(options, divided.pool.source)
    train = probing.trainer(recipe, divided, gate)
    set_names = splitting.sets_of(divided)
    runs: list[Cell] = []
    for name in set_names:
        runs += [train(Path(name), seed) for seed in args.seeds]
    given = probing.untrained(recipe, divided, gate)
    runs.append(given)
    merges = None
    if args.merge:
        from interextra.data.queries import Part
        from interextra.own import merge as merging

        training_sets = {name: Part(of=divided, part=name) for name in set_names}
        queries = splitting.searched_queries(divided, gate)
        merges = merging.design(recipe, training_sets, queries, args.seeds, given)
        runs = list(dict.fromkeys([*runs, *merges["run"]]))
    trainings = f"{len(set_names)} training sets, {len(args.seeds)} trainings of each"
    cost = _cost(store.missing(runs))
    print(f"{trainings}; {cost}", file=sys.stderr)
    if args.check:
        print(probing.check(recipe, divided))
        return

    def compute(cell: Cell) -> None:
        """Compute a result; the trainings side by side."""
        if cell in runs:
            build(runs)
        else:
            store.build(cell)

    report = probing.probe(
        train,
        args.collection,
        args.protocol,
        seeds=args.seeds,
        measures=args.measures,
        out=args.output_folder,
        predictions=args.prediction_folder,
        store=store,
        compute=compute,
        margin=args.margin,
        n_boot=args.n_boot,
        given=given,
        **{name: options[name] for name in splitting.DEFAULTS if name in options},
    )
    merge = None
    if merges is not None:
        merge = _merge(merges, store, args)
    _print_report(report, args.json, merge)


def _merge(merges: "pd.DataFrame", store: Store, args: Namespace) -> "Merge":
    """Judge the weights between the model as given and the fine-tuned ones, which are computed."""
    from interextra.own import merge as merging
    from interextra.own.split_folder import SplitFolder

    out = Path(args.output_folder)
    folder = SplitFolder.open(out / "split", args.attribute)
    values = merging.values_of_design(merges, folder, store, args.measures)
    found = merging.report(values, folder.gate_ids, args.margin, args.seed, args.n_boot)
    return merging.write(out, found)


def curve(store: Store, args: Namespace, build: Callable[[list[Cell]], object]) -> None:
    """Report two learning curves, of a model to train or of runs; `build` computes results."""
    if bool(args.model) == bool(args.runs):
        raise InputError("curve: give either --model and --collection, or --split and --runs")
    found = _curve_of_model(store, args, build) if args.model else _curve_of_runs(store, args)
    if args.json:
        told = {
            "curve": _records(found.points),
            "systems": _records(found.systems),
            "sentences": found.sentences,
        }
        _print_json(told, found.files)
    else:
        table = found.points.drop(columns=["n_trainings", "over"])
        text = table.to_string(index=False, float_format="%.3f", na_rep="")
        systems = found.systems.to_string(index=False, float_format="%.3f")
        _print_lines([*found.sentences, "", text, "", systems], found.files)


def _curve_of_model(
    store: Store, args: Namespace, build: Callable[[list[Cell]], object]
) -> "Curve":
    """Train on nested parts of each set of a split, and report."""
    require("curve --model", "torch", "sentence_transformers", "pyserini")
    if not args.collection:
        raise InputError("curve --model: name the collection, --collection SPEC")
    _choose_device(args.device)
    from interextra.own import curve as curves
    from interextra.own import nested as nesting
    from interextra.own import probe as probing
    from interextra.own import splitting

    options = vars(args)
    recipe = probing.recipe_of(
        args.model, args.model_revision, args.recipe, args.batch_size, args.spare
    )
    divided = splitting.split_of(args.protocol, args.collection, options)
    gate = splitting.gate_of(options, divided.pool.source)
    store.build(divided)
    nested = nesting.nested_sets(divided, store, list(filter(None, args.sizes)))
    planned = nesting.design(recipe, nested, gate, args.seeds)
    given = probing.untrained(recipe, divided, gate)
    runs = [*planned["run"], given]
    sizes = ", ".join(map(str, nested.sizes))
    print(f"sets of {sizes} training queries; {_cost(store.missing(runs))}", file=sys.stderr)

    def compute(cell: Cell) -> None:
        """Compute a result; the trainings side by side."""
        if cell in runs:
            build(runs)
        else:
            store.build(cell)

    split_options = {name: options[name] for name in splitting.DEFAULTS if name in options}
    return curves.curve(
        nesting.trainer(planned),
        args.collection,
        args.protocol,
        sizes=nested.sizes,
        seeds=args.seeds,
        measures=args.measures,
        out=args.out,
        store=store,
        compute=compute,
        margin=args.margin,
        n_boot=args.n_boot,
        given=given,
        **(split_options | {"format": ()}),
    )


def _curve_of_runs(store: Store, args: Namespace) -> "Curve":
    """Report runs of models that others trained on nested sets of a split."""
    from interextra.own import curve as curves
    from interextra.own import regimes as reporting
    from interextra.own.split_folder import SplitFolder
    from interextra.own.splitting import refuse_place
    from interextra.own.values import values_of_run

    out = Path(args.out)
    refuse_place(out)
    reporting.refuse_measures(args.measures)
    if not args.split:
        raise InputError("curve --runs: name the folder of the split, --split FOLDER")
    folder = SplitFolder.open(Path(args.split), args.attribute)
    if not args.baseline:
        require("curve --runs without --baseline RUN", "pyserini")
    values = curves.values_of_pattern(folder, args.runs, args.measures, args.skip_own)
    if args.baseline:
        baseline_run: Path | RunFile = Path(args.baseline)
    else:
        store.build(folder.bm25)
        baseline_run = folder.read(folder.bm25, store)
    baseline = values_of_run(baseline_run, folder, args.measures, args.skip_own)
    given = _given(store, folder, args) if args.given else None
    found = curves.report(
        values, baseline, folder.gate_ids, args.margin, args.seed, args.n_boot, given
    )
    return curves.write(out, found)


def _cost(cells: Sequence[Cell]) -> str:
    """Return how many results there are to compute, and about what they cost."""
    seconds = sum(cell.seconds() for cell in cells)
    megabytes = sum(cell.megabytes() for cell in cells)
    return (
        f"{len(cells)} results to compute: "
        f"about {seconds:,.0f} s of one core or GPU, {megabytes:,.0f} MB"
    )


def _choose_device(device: str) -> None:
    """Hide the GPUs that are not asked for, which must be done before torch is loaded."""
    if not re.fullmatch(r"|cpu|cuda(:\d+)?", device):
        raise InputError(f"--device {device}: write cpu, cuda or cuda:NUMBER")
    if device not in ("", "cuda"):
        number = "" if device == "cpu" else device.removeprefix("cuda:")
        os.environ["CUDA_VISIBLE_DEVICES"] = number


def _print_report(report: "Report", as_json: bool, merge: "Merge | None" = None) -> None:
    """Print the changes and the claims of a report, what merged weights say, and the files."""
    sentences = report.sentences
    paths = report.files
    if merge:
        sentences = [*sentences, *merge.sentences]
        paths = [*paths, *merge.files]
    if as_json:
        found = {
            "regimes": _records(report.changes),
            "claims": _records(report.claims),
            "systems": _records(report.systems),
            "sentences": sentences,
        }
        if merge:
            found["merge"] = _records(merge.points)
        _print_json(found, paths)
    else:
        table = report.changes[REPORTED].to_string(index=False, float_format="%.3f")
        systems = report.systems.to_string(index=False, float_format="%.3f")
        _print_lines([*sentences, "", table, "", systems], paths)


def _records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a table, with null for NaN."""
    return json.loads(table.to_json(orient="records"))


def _print_json(found: dict[str, Any], paths: Sequence[Path]) -> None:
    """Print what was found for a program."""
    files = [str(path) for path in paths]
    print(json.dumps(found | {"files": files}))


def _print_lines(lines: Sequence[str], paths: Sequence[Path]) -> None:
    """Print what was found, and below it the files."""
    print("\n".join([*lines, "", *map(str, paths)]))

"""The commands `audit`, `split`, `regimes`, `probe`, see notebook 12.

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
    from interextra.own.cost import Prices
    from interextra.own.fine_tuning import OwnTraining
    from interextra.own.regimes import Report
    from interextra.own.seen import Given
    from interextra.own.split_folder import SplitFolder

LENGTHS = ("query_length", "passage_length")
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


def probe(store: Store, args: Namespace, build: Callable[..., object]) -> None:
    """Measure this machine, print what it costs, train on each set of a split, and report.

    `build` computes several cells side by side; its second argument prices a cell (None: by its own
    estimate).
    """
    _choose_device(args.device)
    from interextra.own import probe as probing
    from interextra.own import regimes as reporting
    from interextra.own import splitting

    out = Path(args.output_folder)
    options = vars(args)
    reporting.refuse_measures(args.measures)
    splitting.refuse_place(out)
    training = _own_training(store, args)
    prices = _print_prices(training, out, args)
    if args.check:
        return

    def compute(cell: Cell) -> None:
        """Compute a result, and those that go side by side with it."""
        together = training.together(cell)
        if together:
            build(together, prices.of if prices else None)
        else:
            store.build(cell)

    report = probing.probe(
        training,
        args.collection,
        args.protocol,
        seeds=args.seeds,
        measures=args.measures,
        out=out,
        predictions=args.prediction_folder,
        store=store,
        compute=compute,
        margin=args.margin,
        n_boot=args.n_boot,
        given=training.given,
        **{name: options[name] for name in splitting.DEFAULTS if name in options},
    )
    files = [training.write(out)]
    if prices:
        files.append(prices.write(out))
    _print_report(report._replace(files=[*report.files, *files]), args.json)


def _own_training(store: Store, args: Namespace) -> "OwnTraining":
    """Plan our own training; lengths and rate come from the collection unless they are given."""
    from interextra.models.recipe import Trained, changed
    from interextra.own import fine_tuning, splitting
    from interextra.own import probe as probing

    options = vars(args)
    recipe = probing.recipe_of(
        args.model, args.model_revision, args.recipe, args.batch_size, args.spare
    )
    divided = splitting.split_of(args.protocol, args.collection, options)
    gate = splitting.gate_of(options, divided.pool.source)
    given = {name: options[name] for name in ("learning_rate", *LENGTHS) if options[name]}
    if args.epochs:
        recipe = changed(recipe, epochs=args.epochs, steps=None)
    if args.recipe or not isinstance(recipe, Trained):
        recipe = changed(recipe, **given)
        return fine_tuning.OwnTraining(recipe, divided, gate, args.seeds, store)
    recipe, lengths = fine_tuning.fitted(recipe, divided.pool, **given)
    is_rate_given = "learning_rate" in given
    return fine_tuning.OwnTraining(recipe, divided, gate, args.seeds, store, lengths, is_rate_given)


def _print_prices(training: "OwnTraining", out: Path, args: Namespace) -> "Prices | None":
    """Measure this machine, and print what each stage costs; of `--check` that is the result.

    Of a recipe that trains other models first, which is not measured, an estimate is printed: None.
    """
    from interextra.own import cost

    n_sets, n_seeds = len(training.set_names), len(training.seeds)
    print(f"{n_sets} training sets, {n_seeds} trainings of each", file=sys.stderr)
    print(training.sentence(), file=sys.stderr)
    if training.recipe.needs() and not args.check:
        print(_cost(training.missing()), file=sys.stderr)
        return None
    prices = cost.Prices(cost.measure(training), training, out)
    if args.check and args.json:
        print(json.dumps(prices.described()))
    else:
        print(prices, file=sys.stdout if args.check else sys.stderr)
    return prices


def _cost(cells: Sequence[Cell]) -> str:
    """Return how many results there are to compute, and about what they cost."""
    seconds = sum(cell.seconds() for cell in cells)
    megabytes = sum(cell.megabytes() for cell in cells)
    return (
        f"{len(cells)} results to compute: "
        f"about {seconds:,.0f} s of one core or GPU, {megabytes:,.0f} MB"
    )


def _choose_device(device: str) -> None:
    """Hide the GPUs that are not asked for, which must be done before torch is loaded.

    InputError for one that is not there.
    """
    if not re.fullmatch(r"|cpu|cuda(:\d+)?", device):
        raise InputError(f"--device {device}: write cpu, cuda or cuda:NUMBER")
    if device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    if not device.startswith("cuda"):
        return
    import torch

    n_gpus = torch.cuda.device_count()
    known = [f"cuda:{number}" for number in range(n_gpus)]
    if device not in known and not (known and device == "cuda"):
        devices = ", ".join(["cpu", *known])
        raise InputError(f"--device {device}: there is no such device here, only {devices}")
    if device in known:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        names = visible.split(",") if visible else list(map(str, range(n_gpus)))
        os.environ["CUDA_VISIBLE_DEVICES"] = names[known.index(device)]


def _print_report(report: "Report", as_json: bool) -> None:
    """Print the changes and the claims of a report, and its files."""
    if as_json:
        found = {
            "regimes": _records(report.changes),
            "claims": _records(report.claims),
            "systems": _records(report.systems),
            "sentences": report.sentences,
        }
        _print_json(found, report.files)
    else:
        table = report.changes[REPORTED].to_string(index=False, float_format="%.3f")
        systems = report.systems.to_string(index=False, float_format="%.3f")
        _print_lines([*report.sentences, "", table, "", systems], report.files)


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

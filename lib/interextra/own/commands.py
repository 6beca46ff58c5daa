"""The commands `audit`, `split`, `regimes`, `finished`, `probe`, `curve`, see notebook 12.

What they need is loaded when they run.
"""

import json
import os
import re
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interextra.own.steps import Elapsed, elapsed
from interextra.store import Cell, InputError, Store
from interextra.store.extras import require

if TYPE_CHECKING:
    import pandas as pd

    from interextra.data.runs import RunFile
    from interextra.models.recipe import Recipe
    from interextra.models.search.run import Run
    from interextra.own.cost import Prices
    from interextra.own.curve import Curve
    from interextra.own.fine_tuning import OwnTraining
    from interextra.own.merge import Merge
    from interextra.own.regimes import Report
    from interextra.own.split_folder import SplitFolder

# Command → version of what --json prints, which book/agents.md describes: another number where a
# key goes or changes its meaning. `probe` prints what `regimes` does.
SCHEMAS = {
    "audit": 1,
    "curve": 1,
    "evaluate": 1,
    "fetch": 1,
    "finished": 1,
    "plan": 1,
    "prices": 1,
    "regimes": 1,
    "split": 1,
    "status": 1,
}
FORBIDDEN = 3  # exit code: --fail-above, and more than that is shown
FITTED = ("learning_rate", "query_length", "passage_length")  # to the collection, see `fitted`


def audit(args: Namespace) -> int:
    """Count the test queries that were seen in training; write and print what was found.

    Returns FORBIDDEN where more of them are not clean than `--fail-above` allows, else 0.
    """
    from interextra.measures.evaluate import check
    from interextra.own import audit as auditing
    from interextra.own import clean as cleaning
    from interextra.own.results import AuditResult, zero_shot
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
    by_name = zero_shot(train, test)
    result = AuditResult(found, test, values, args.measure, args.encoder, by_name)
    paths = result.write(out)
    if args.clean and result.clean_queries:
        paths += result.write_clean(args.clean)
    if args.json:
        _print_json("audit", result.records(), paths)
    else:
        lines = result.lines()
        if found.train_queries and train.collection:
            lines += auditing.next_lines(args.train, args.test, out)
        _print_lines(lines, paths)
    if args.clean and not result.clean_queries:
        raise InputError(f"--clean {args.clean}: none of {found.n_test} test queries is clean")
    share = len(found.seen) / found.n_test
    if share <= args.fail_above:
        return 0
    print(
        f"interextra: --fail-above {args.fail_above:g}: {len(found.seen):,} of {found.n_test:,} "
        f"test queries ({100 * share:.1f} %) are not clean",
        file=sys.stderr,
    )
    return FORBIDDEN


def split(store: Store, args: Namespace) -> None:
    """Write a split for a trainer of the user's, and print what is in it."""
    from interextra.own import splitting
    from interextra.own.split_folder import SplitFolder

    out = Path(args.out)
    options = vars(args)
    planned = splitting.split_of(args.protocol, args.collection, options)
    splitting.refuse_existing(out)
    made = splitting.prepared(planned, store, options)
    store.build(made)
    manifest = splitting.export(made, store, out, options)
    folder = SplitFolder.open(out, args.attribute)
    if args.json:
        _print_split_json(manifest, folder, out)
    else:
        _print_split(manifest, folder, args, is_cut=made != planned)


def _print_split(
    manifest: dict[str, Any], folder: "SplitFolder", args: Namespace, is_cut: bool
) -> None:
    """Print a split for a reader, and what comes next; `is_cut`: its sets were made equal."""
    from interextra.own import distance

    out = args.out
    for name, counts in manifest["sets"].items():
        n_queries = f"{counts['queries']:,} training queries"
        n_pairs = f"{counts['pairs']:,} pairs"
        print(f"{out}/{name}: {n_queries}, {n_pairs}")
    if is_cut:
        print("All sets are as large as the smallest one would be (--unequal: all their queries).")
    n_test = manifest["n_test"]
    n_gate = manifest["n_gate"]
    print(
        f"{out}/test.tsv: {n_test + n_gate:,} queries to search with the model of each set: "
        f"{n_test:,} test queries, and {n_gate:,} for the lead over a baseline (gate.txt)."
    )
    print(f"The similarity of queries is that of {manifest['encoder']} (--encoder).\n")
    print(distance.printed(folder.distances))
    for warning in distance.warnings(folder.distances):
        print(warning)
    runs = "runs/{part}.{seed}.run"
    words = ["interextra", "regimes", "--split", out, "--runs", runs]
    if args.attribute.startswith("python:"):
        words += ["--attribute", args.attribute]
    print(
        f"\nNext: train a model on each set, search {out}/test.tsv with it, and write its run as "
        f"{runs}. Then: {shlex.join(words)}"
    )


def _print_split_json(manifest: dict[str, Any], folder: "SplitFolder", out: Path) -> None:
    """Print a split for a program."""
    from interextra.own import distance
    from interextra.own.splitting import MANIFEST

    found = {
        "folder": str(out),
        "sets": manifest["sets"],
        "n_test": manifest["n_test"],
        "n_gate": manifest["n_gate"],
        "distances": _records(folder.distances),
        "warnings": distance.warnings(folder.distances),
    }
    names = [MANIFEST, *manifest["files"]]
    _print_json("split", found, [out / name for name in names])


def regimes(store: Store, args: Namespace) -> int:
    """Measure runs on a split in both regimes; write and print the report; see `_gated`."""
    from interextra.own import api
    from interextra.own.splitting import refuse_place
    from interextra.own.steps import say

    out = Path(args.out)
    refuse_place(out)
    if not args.baseline:
        require("regimes without --baseline RUN", "pyserini")
    if args.given:
        require("regimes --given, which compares with BM25,", "pyserini")
    report = api.regimes(
        args.runs,
        args.split,
        baseline=args.baseline or None,
        given=args.given or None,
        measures=args.measures,
        margin=args.margin,
        encoder=args.encoder,
        skip_own=args.skip_own,
        attribute=args.attribute,
        seed=args.seed,
        n_boot=args.n_boot,
        store=store,
    )
    say(f"Writing the page and the tables to {out}")
    _print_report(report.write(out), args.json)
    return _gated(report, args)


def _gated(report: "Report", args: Namespace) -> int:
    """Return FORBIDDEN where `--fail-above` asks for it and the loss is above the margin, else 0.

    It must be shown: nothing that is undecided is forbidden.
    """
    from interextra.own.sentences import LARGE_LOSS

    if not args.fail_above or report.answer_code != LARGE_LOSS:
        return 0
    print(
        f"interextra: --fail-above: a loss above {100 * args.margin:g} % is shown", file=sys.stderr
    )
    return FORBIDDEN


def finished(args: Namespace) -> None:
    """Compare the leads of finished models on near and on far test queries; write and print it."""
    from interextra.own import audit as auditing
    from interextra.own import finished as comparing
    from interextra.own.distance import refuse_other_encoder
    from interextra.own.splitting import refuse_place

    out = Path(args.out)
    refuse_place(out)
    refuse_other_encoder(args.encoder)
    models, rivals = _runs_of_finished(args)
    control = next(iter(rivals)) if args.control else ""
    found = comparing.finished(
        auditing.read(args.train, "train"),
        auditing.read(args.test, "test"),
        models,
        rivals,
        control,
        args.measure,
        args.encoder,
        args.near,
        args.margin,
        args.seed,
        args.n_boot,
    )
    found = comparing.write(out, found)
    if args.json:
        told = {
            "differences": _records(found.differences),
            "groups": _records(found.groups),
            "sentences": found.sentences,
        }
        _print_json("finished", told, found.files)
    else:
        table = comparing.printed(found)
        _print_lines([*found.sentences, "", table], found.files)


def _runs_of_finished(args: Namespace) -> tuple[dict[str, "RunFile"], dict[str, "RunFile"]]:
    """Read the runs of the finished models and of their rivals by name, the control first."""
    from interextra.own.finished import read_runs

    paths = [*args.runs]
    if args.control:
        paths.append(args.control)
    paths += args.rivals
    named_runs = list(read_runs(paths).items())
    n_models = len(args.runs)
    return dict(named_runs[:n_models]), dict(named_runs[n_models:])


def probe(store: Store, args: Namespace, build: Callable[..., float]) -> int:
    """Measure this machine, print what it costs, train on each set of a split, and report.

    Returns what `_gated` says of the report.

    `build` computes several cells side by side. Its second argument prices a cell (None: by its own
    estimate), the third are all cells whose share of the work is shown, the fourth is the share
    that was shown last; it returns this share.
    """
    began = elapsed()
    load = os.getloadavg()[0]
    _choose_device(args.device)
    from interextra.own import probe as probing
    from interextra.own import regimes as reporting
    from interextra.own import splitting

    out = Path(args.output_folder)
    reporting.refuse_measures(args.measures)
    splitting.refuse_place(out)
    training = _own_training(store, args)
    prices = _print_prices(training, out, args, load, began)
    if args.check:
        return 0

    share = 0.0

    def compute(cell: Cell) -> None:
        """Compute a result, and those that go side by side with it."""
        nonlocal share
        together = training.together(cell)
        if together:
            share = build(together, prices.of if prices else None, training.cells(), share)
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
        **_split_options(args),
    )
    merge = _merge(training, store, args, build) if args.merge else None
    files = [*report.files, training.write(out)]
    if prices:
        files.append(prices.write(out))
    _print_report(report._replace(files=files), args.json, merge)
    return _gated(report, args)


def _split_options(args: Namespace) -> dict[str, Any]:
    """Return the options of a split that a command has."""
    from interextra.own.splitting import DEFAULTS

    options = vars(args)
    return {name: options[name] for name in DEFAULTS if name in options}


def _recipe_of(args: Namespace) -> "Recipe":
    """Return the recipe that starts from the model of a command."""
    from interextra.own.probe import recipe_of

    return recipe_of(args.model, args.model_revision, args.recipe, args.batch_size, args.spare)


def _own_training(store: Store, args: Namespace) -> "OwnTraining":
    """Plan our own training; lengths and rate come from the collection unless they are given."""
    from interextra.models.recipe import Trained, changed
    from interextra.own import fine_tuning, splitting

    options = vars(args)
    recipe = _recipe_of(args)
    divided = splitting.split_of(args.protocol, args.collection, options)
    for place in (args.output_folder, args.prediction_folder):
        if place:
            splitting.refuse_place(Path(place))
    divided = splitting.prepared(divided, store, options)
    gate = splitting.gate_of(options, divided.pool.source)
    given = {name: options[name] for name in FITTED if options[name]}
    if args.epochs:
        recipe = changed(recipe, epochs=args.epochs, steps=None)
    if args.recipe or not isinstance(recipe, Trained):
        recipe = changed(recipe, **given)
        return fine_tuning.OwnTraining(recipe, divided, gate, args.seeds, store)
    recipe, lengths = fine_tuning.fitted(recipe, divided.pool, **given)
    is_rate_given = "learning_rate" in given
    return fine_tuning.OwnTraining(recipe, divided, gate, args.seeds, store, lengths, is_rate_given)


def _print_prices(
    training: "OwnTraining", out: Path, args: Namespace, load: float, began: Elapsed
) -> "Prices | None":
    """Measure this machine, and print what each stage costs; of `--check` that is the result.

    Of a recipe that trains other models first, which is not measured, an estimate is printed: None.
    `load`: the cores that were taken before; `began`: when the command did.
    """
    from interextra.own import cost, speeds

    n_sets = len(training.set_names)
    n_seeds = len(training.seeds)
    print(f"{n_sets} training sets, {n_seeds} trainings of each", file=sys.stderr)
    print(training.sentence(), file=sys.stderr)
    if training.recipe.needs() and not args.check:
        print(_cost(training.missing()), file=sys.stderr)
        return None
    measurements = cost.measurements(training)
    planned = elapsed()
    measured = speeds.kept(measurements)
    spent = cost.Spent(began, planned, measured is not None, args.check)
    speed, per_text = measured or (cost.measure(training), {})
    prices = cost.Prices(speed, training, out, load, vars(args), per_text, spent)
    speeds.keep(measurements, speeds.Measured(speed, prices.per_text))
    if not args.check:
        print(prices, file=sys.stderr)
    elif args.json:
        print_json("prices", prices.described())
    else:
        print(prices, prices.cheaper(), spent.sentence(), sep="\n")
    return prices


def _merge(
    training: "OwnTraining", store: Store, args: Namespace, build: Callable[..., object]
) -> "Merge":
    """Search with weights between the model as given and the fine-tuned ones, and judge them."""
    from interextra.data.queries import Part
    from interextra.own import merge as merging
    from interextra.own.split_folder import SplitFolder
    from interextra.own.splitting import searched_queries

    split = training.split
    training_sets = {name: Part(of=split, part=name) for name in training.set_names}
    queries = searched_queries(split, training.gate)
    recipe = training.chosen()
    planned = merging.design(recipe, training_sets, queries, training.seeds, training.given)
    runs = list(dict.fromkeys(planned["run"]))
    cost = _cost(store.missing(runs))
    print(f"Merged weights: {cost}", file=sys.stderr)
    build(runs, Cell.seconds)
    out = Path(args.output_folder)
    folder = SplitFolder.open(out / "split", args.attribute)
    values = merging.values_of_design(planned, folder, store, args.measures)
    found = merging.report(values, folder.gate_ids, args.margin, args.seed, args.n_boot)
    return merging.write(out, found)


def curve(store: Store, args: Namespace, build: Callable[..., object]) -> None:
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
        _print_json("curve", told, found.files)
    else:
        table = found.points.drop(columns=["n_trainings", "over"])
        text = table.to_string(index=False, float_format="%.3f", na_rep="")
        systems = found.systems.to_string(index=False, float_format="%.3f")
        _print_lines([*found.sentences, "", text, "", systems], found.files)


def _curve_of_model(store: Store, args: Namespace, build: Callable[..., object]) -> "Curve":
    """Train on nested parts of each set of a split, and report."""
    require("curve --model", "torch", "sentence_transformers", "pyserini")
    if not args.collection:
        raise InputError("curve --model: name the collection, --collection SPEC")
    _choose_device(args.device)
    from interextra.own import curve as curves
    from interextra.own.nested import trainer

    sizes, planned, given = _planned_curve(store, args)
    runs = [*planned["run"], given]
    sizes_text = ", ".join(map(str, sizes))
    cost = _cost(store.missing(runs))
    print(f"sets of {sizes_text} training queries; {cost}", file=sys.stderr)

    def compute(cell: Cell) -> None:
        """Compute a result; the trainings side by side."""
        if cell in runs:
            build(runs, Cell.seconds)
        else:
            store.build(cell)

    options = _split_options(args) | {"format": ()}
    return curves.curve(
        trainer(planned),
        args.collection,
        args.protocol,
        sizes=sizes,
        seeds=args.seeds,
        measures=args.measures,
        out=args.out,
        store=store,
        compute=compute,
        margin=args.margin,
        n_boot=args.n_boot,
        given=given,
        **options,
    )


def _planned_curve(store: Store, args: Namespace) -> tuple[tuple[int, ...], "pd.DataFrame", "Run"]:
    """Return the sizes of the nested sets, the runs of their models, and of the one as given."""
    from interextra.models.recipe import Trained
    from interextra.own import fine_tuning, splitting
    from interextra.own import nested as nesting
    from interextra.own.probe import untrained

    options = vars(args)
    recipe = _recipe_of(args)
    divided = splitting.split_of(args.protocol, args.collection, options)
    divided = splitting.prepared(divided, store, options)
    if not args.recipe and isinstance(recipe, Trained):
        recipe, _ = fine_tuning.fitted(recipe, divided.pool)
    gate = splitting.gate_of(options, divided.pool.source)
    store.build(divided)
    sizes = [size for size in args.sizes if size]
    nested = nesting.nested_sets(divided, store, sizes)
    planned = nesting.design(recipe, nested, gate, args.seeds)
    return nested.sizes, planned, untrained(recipe, divided, gate)


def _curve_of_runs(store: Store, args: Namespace) -> "Curve":
    """Report runs of models that others trained on nested sets of a split."""
    from interextra.own import curve as curves
    from interextra.own import regimes as reporting
    from interextra.own.api import bm25_run, given_of
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
    baseline_run = Path(args.baseline) if args.baseline else bm25_run(folder, store)
    baseline = values_of_run(baseline_run, folder, args.measures, args.skip_own)
    bootstrap = (args.seed, args.n_boot)
    given = None
    if args.given:
        path = Path(args.given)
        given = given_of(path, folder, store, args.measures, args.skip_own, *bootstrap)
    found = curves.report(values, baseline, folder.gate_ids, args.margin, *bootstrap, given)
    if not args.baseline:
        found = curves.with_bm25(found, folder, store)
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
        names = [str(number) for number in range(n_gpus)]
        if visible:
            names = visible.split(",")
        os.environ["CUDA_VISIBLE_DEVICES"] = names[known.index(device)]


def _print_report(report: "Report", as_json: bool, merge: "Merge | None" = None) -> None:
    """Print the changes and the claims of a report, what merged weights say, and the files."""
    from interextra.own.results import RegimesResult

    sentences = report.sentences
    paths = report.files
    if merge:
        sentences = [*sentences, *merge.sentences]
        paths = [*paths, *merge.files]
    if as_json:
        found = {
            "answer_code": report.answer_code,
            "margin": report.margin,
            "regimes": _records(report.changes),
            "claims": _records(report.claims),
            "systems": _records(report.systems),
            "leads": _records(report.leads),
            "gains": _records(report.gains.gains),
            "kept": _records(report.gains.kept),
            "baseline": report.about.get("baseline", ""),
            "sentences": sentences,
        }
        if merge:
            found["merge"] = _records(merge.points)
        _print_json("regimes", found, paths)
    else:
        result = RegimesResult(*report._replace(sentences=sentences))
        _print_lines(result.lines(), paths)


def _records(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a table, with null for NaN."""
    return json.loads(table.to_json(orient="records"))


def _print_json(command: str, found: dict[str, Any], paths: Sequence[Path]) -> None:
    """Print what was found for a program, and the files."""
    files = [str(path) for path in paths]
    print_json(command, found | {"files": files})


def print_json(command: str, found: dict[str, Any]) -> None:
    """Print what a command found for a program, with the name and version of its schema."""
    schema = f"interextra.{command}/{SCHEMAS[command]}"
    print(json.dumps({"schema": schema} | found))


def _print_lines(lines: Sequence[str], paths: Sequence[Path]) -> None:
    """Print what was found, and below it the files."""
    files = [str(path) for path in paths]
    print("\n".join([*lines, "", *files]))

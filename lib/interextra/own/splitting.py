"""Notebook 12: a split of a collection in a folder, for a user's own trainer."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from interextra.data.queries import Part, Queries, Source
from interextra.models.encoders import default_encoder, report_seconds
from interextra.models.search.vectors import GivenVectors, Vectors
from interextra.own import distance, few, formats
from interextra.own.formats import TrainingSet
from interextra.own.kept import dropped_of, without_dropped
from interextra.papers import released
from interextra.splits import attributes
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift
from interextra.splits.split import OfVectors, Split
from interextra.store import Cell, InputError, offenders, scratch, sha256, write_json, write_text
from interextra.store.cells import config_of
from interextra.store.folders import Store

MANIFEST = "manifest.json"
EXPOSED = "exposed.txt"
STRATA = "strata.tsv"
DISTANCE = "distance.csv"
NEAREST = "nearest.csv"
GATE = "gate.txt"
TRAINING = "training.tsv"
N_SAMPLED = 1000  # training queries that the model as given searches, at most
NAME_BYTES = 255  # of a file or folder, on all usual systems
GATE_SHARE = 0.2  # of the test queries, where no other queries can show a lead
DEFAULTS: dict[str, Any] = {
    "train_split": "train",
    "drop_train": "",
    "test_splits": ["test"],
    "gate_split": "",
    "encoder": "",
    "other_encoder": "",
    "vectors": [],
    "attribute": "",
    "clusters": [],
    "size": 0,
    "unequal": False,
    "k": 5,
    "n_test": 0.2,
    "seed": 1,
    "format": ("ids", "st"),
    "negatives": 1,
    "spare": False,
}
Options = Mapping[str, Any]  # of `split_of` and `export`, by the names in DEFAULTS
# Protocol → the options that only other protocols use.
UNUSED = {
    "restrain": ("attribute", "clusters", "k", "n_test", "unequal"),
    "resttest": ("attribute", "clusters", "n_test"),
    "shift": ("test_splits", "vectors", "k"),
}


class _TestSet(NamedTuple):
    """All queries that the models of a split search, and what their runs are measured by."""

    queries: pd.DataFrame  # query_id, text
    qrels: pd.DataFrame
    strata: pd.Series | None  # what left-out part each query belongs to, by query_id; see `_strata`
    gate_ids: list[str]  # those that only show a lead over a baseline, see `gate_of`; sorted


def split_of(protocol: str, collection: str, options: Options) -> Split:
    """Return a split of a collection: restrain, resttest or shift.

    Parameters
    ----------
    protocol : {"restrain", "resttest", "shift"}
    collection : str
        Its spec.
    options : Options
        train_split, drop_train (a file of training queries to leave out, see
        `kept.without_dropped`), test_splits, gate_split (see `gate_of`), encoder ("":
        `default_encoder`), vectors (files in its place), attribute (of a shift), clusters (its
        labels that take part; none: all), size (training queries of a set, or their share below
        1; 0: all, of restrain half), k (buckets), n_test (test queries per cluster, or their
        share of the smallest one), seed.

    Returns
    -------
    Split
        To be computed. With size 0 the sets of a shift and of ReSTTest have unequal sizes, as in
        the papers; `prepared` makes them equal.

    Raises
    ------
    InputError
        An option of another protocol, a split named twice, a shift without an attribute, a
        query to leave out that there is not.
    """
    source = Source.of(collection)
    _refuse_unused(protocol, options)
    _refuse_repeated_splits(protocol, options)
    seed = options["seed"]
    # all queries of the split: their seed draws nothing, but is part of the configuration
    train_split = Queries(source=source, split=options["train_split"], seed=seed)
    if options["drop_train"]:
        train_split = without_dropped(train_split, options["drop_train"])
    pool = train_split.trainable()
    size = _number(options["size"], pool.size())
    if protocol == "shift":
        return _shift_of(pool, size, options)
    test_splits = list(options["test_splits"])
    if protocol == "resttest":  # the queries of the gate need a bucket, too
        gate = gate_of(options, source)
        if gate:
            test_splits.append(gate)
    vectors = _vectors_of(pool, test_splits, options)
    if protocol == "restrain":
        size = size or pool.size() // 2
        return ReSTrain(vectors=vectors, sizes=(size,), seed=seed)
    return ReSTTest(vectors=vectors, k=options["k"], fold_size=size, seed=seed)


def _refuse_unused(protocol: str, options: Options) -> None:
    """Refuse options that only another protocol uses."""
    flags = []
    for name in UNUSED[protocol]:
        if options[name] != DEFAULTS[name]:
            flag = name.replace("_", "-")
            flags.append(f"--{flag}")
    if flags:
        given = ", ".join(flags)
        raise InputError(f"split {protocol}: {given} is of another protocol; leave it out")


def _refuse_repeated_splits(protocol: str, options: Options) -> None:
    """Refuse a split of the collection that is named twice: to train, to test or for the lead."""
    names = [options["train_split"], options["gate_split"]]
    if protocol != "shift":  # a shift tests on queries of the training split
        names += options["test_splits"]
    counts = Counter(filter(None, names))
    repeated = sorted(name for name, count in counts.items() if count > 1)
    if repeated:
        raise InputError(
            f"split: {offenders(repeated)} stands twice among the splits to train, to test and "
            "for the lead"
        )


def _shift_of(pool: Queries, size: int, options: Options) -> Shift:
    """Return the shift by an attribute of the training queries."""
    if not options["attribute"]:
        raise InputError(
            "split shift: name what is left out, --attribute wh-words, length, column:NAME, …"
        )
    attribute = options["attribute"]
    clusters = options["clusters"]
    labels = pd.Series(attributes.labels(pool.frame(), attribute))
    # "": a query in no cluster
    takes_part = labels.isin(clusters) if clusters else labels != ""
    counts = labels[takes_part].value_counts()
    smallest = counts.min() if len(counts) else 1
    if not options["n_test"]:
        raise InputError("n_test 0: give the number of test queries per cluster, 1 or more")
    return Shift(
        pool=pool,
        by=attribute,
        clusters=tuple(clusters),
        n_test=_number(options["n_test"], smallest),
        train_size=size,
        seed=options["seed"],
    )


def _vectors_of(
    pool: Queries, test_splits: Sequence[str], options: Options
) -> GivenVectors | Vectors:
    """Return the vectors that divide the queries: those of the user's files, or of an encoder."""
    tested = tuple(Queries(source=pool.source, split=name) for name in test_splits)
    if options["vectors"]:
        return GivenVectors.of(options["vectors"], pool, tested)
    encoder = options["encoder"] or default_encoder()
    return Vectors(encoder=encoder, train=pool, test=tested)


def _number(value: float, total: int) -> int:
    """Return a number of queries, given as such or, below 1, as a share of `total`.

    A share is of at least one query; 0 stays 0, which stands for all.
    """
    if value >= 1 or not value:
        return int(value)
    return max(1, int(value * total))


def prepared(
    split: Split,
    store: Store,
    options: Options,
    compute: Callable[[Cell], Any] | None = None,
) -> Split:
    """Return a split with sets as large as its smallest one, unless `unequal` is asked for.

    Sets of other sizes differ in more than what they leave out. Where the vectors of the queries
    take long, how long is said on standard error.

    Parameters
    ----------
    split : Split
        Of `split_of`; it is computed where its sets may differ in size.
    compute : callable
        Computes a cell in the store; default: `store.build`.
    """
    compute = compute or store.build
    texts = texts_to_encode(split, store)
    if texts:
        report_seconds(split.vectors.encoder, texts)
    if options["unequal"] or options["size"] or isinstance(split, ReSTrain):
        return split
    compute(split)
    sets = split.sets(store)
    sizes = {len(sets[name]) for name in sets_of(split)}
    if len(sizes) == 1:
        return split
    size_field = "train_size" if isinstance(split, Shift) else "fold_size"
    return split.model_copy(update={size_field: min(sizes)})


def texts_to_encode(split: Split, store: Store) -> list[str]:
    """Return the queries that an encoder reads to divide them; none where that is done or is not.

    A shift needs no vectors, and those of the user's files are there.
    """
    texts: list[str] = []
    if not isinstance(split, OfVectors) or not isinstance(split.vectors, Vectors):
        return texts
    vectors = split.vectors
    if store.missing([vectors]):
        for queries in (vectors.train, *vectors.test):
            texts += queries.frame()["text"].tolist()
    return texts


def gate_of(options: Options, source: Source) -> str:
    """Return the split whose queries show a lead over a baseline and measure no loss.

    It is `gate_split` where it is named, else dev if it neither trains nor tests and the vectors
    are no files, which hold none of dev. "" where there is none: then GATE_SHARE of the test
    queries show the lead.
    """
    if options["gate_split"] or options["vectors"]:
        return options["gate_split"]
    taken = (options["train_split"], *options["test_splits"])
    is_free = "dev" in source.open().splits and "dev" not in taken
    return "dev" if is_free else ""


def refuse_place(folder: Path) -> None:
    """Refuse a folder that cannot be made or written to, before anything is computed for it."""
    lengths = [len(os.fsencode(part)) for part in folder.parts]
    is_too_long = max(lengths, default=0) > NAME_BYTES
    if is_too_long or "\0" in str(folder):
        raise InputError(
            f"{str(folder)[:80]!r}: no name of a folder; give one of at most {NAME_BYTES} bytes"
        )
    places = (folder, *folder.absolute().parents)
    nearest_place = next(place for place in places if os.path.lexists(place))
    if not nearest_place.is_dir():
        raise InputError(
            f"{folder}: {nearest_place} is no folder; name another place, or move it away"
        )
    if not os.access(nearest_place, os.W_OK):
        raise InputError(f"{folder}: nothing can be written to {nearest_place}; name another place")


def refuse_existing(folder: Path) -> None:
    """Refuse a folder in which a split cannot be written, or which is there already."""
    if os.path.lexists(folder):
        raise InputError(f"{folder}: is there already; name another folder, or move it away")
    refuse_place(folder)


def sets_of(split: Split) -> list[str]:
    """Return the names of the training sets of a split."""
    return [name for name in split.parts() if name != formats.HELD_OUT]


def searched_queries(split: Split, gate: str) -> tuple[Queries | Part, ...]:
    """Return all queries that the models of a split search.

    They are its test queries, and those of the split `gate` of the collection: this is "" for none,
    and may be one of the test splits, as `split_of` makes it for resttest.
    """
    tested: tuple[Queries | Part, ...]
    if isinstance(split, OfVectors):
        tested = split.vectors.test
    else:
        tested = (Part(of=split, part=formats.HELD_OUT),)
    if not gate or gate in [queries.name for queries in tested]:
        return tested
    return (*tested, Queries(source=split.pool.source, split=gate))


def training_sample(split: Split) -> Queries:
    """Return training queries that show whether a model has seen them before fine-tuning.

    They are a random N_SAMPLED of the pool at most, so that of a shift some are held out.
    """
    return split.pool.model_copy(update={"limit": N_SAMPLED, "seed": split.seed})


def export(split: Split, store: Store, out: Path, options: Options) -> dict[str, Any]:
    """Write the training sets of a split as trainers read them, with what its runs are measured by.

    Beside the files of each format there are:

    - NAME/exposed.txt, for each set: the passages to exclude from a trainer's own negatives, as
      they are relevant to other queries (see `exposed_passages`).
    - test.tsv, test.qrels: all queries to search, and their judgements.
    - gate.txt: those of these queries that only show a lead.
    - strata.tsv: what left-out part each of these queries belongs to; not of ReSTrain.
    - training.tsv: a sample of training queries, for the model before fine-tuning to search.
    - distance.csv: how near each set lies to the test queries, see `distance.measure`.
    - nearest.csv: the nearest training query of each test query, by the encoder of the split.
    - manifest.json: protocol, configuration, counts, SHA-256 of every file.

    Parameters
    ----------
    split : Split
        Computed in the store.
    out : Path
        A new folder, which is there as a whole or not at all.
    options : Options
        Those of `split_of`, format (some of `formats`), negatives (how many are drawn for each
        pair, see `TrainingSet`), spare (whether no exposed passage is drawn), and other_encoder
        (which also says how near the sets lie; "": MiniLM where it is installed, else TF-IDF).

    Returns
    -------
    dict
        The manifest.

    Raises
    ------
    InputError
        The folder is there, the collection has no passages, or there are too few queries to train,
        to measure, or to show a lead.
    """
    source = split.pool.source
    gate = gate_of(options, source)
    _refuse_export(source, out, options)
    _report_dropped(split.pool)
    _report_untrainable(split.pool)
    training_ids = _training_ids(split, store)
    trained = set().union(*training_ids.values())
    test = read_test_set(split, store, gate, trained)
    compared = distance.Compared.of(split, training_ids, test.queries, test.gate_ids, test.strata)
    n_test = len(compared.test)
    n_gate = len(test.gate_ids)
    few.refuse_too_few(training_ids, n_test, n_gate)
    few.report_few(training_ids, n_test, n_gate)
    _report_unused_dev(split, gate, options)
    measured = distance.measure(split, compared, store, options)
    training_sets = _training_sets(split, training_ids, options)
    manifest = _manifest(split, training_sets, test, gate, options)
    manifest["encoder"] = measured.encoder
    aside_name = f"{out.name}.tmp{os.getpid()}"
    with scratch(out.with_name(aside_name)) as aside:
        _write_exposed(aside, training_sets)
        _write_test_set(aside, test)
        _write_sample(aside, split, test.queries)
        _write_distances(aside, measured)
        for name in options["format"]:
            formats.write(name, aside, split, store, training_sets, test.qrels, test.gate_ids)
        manifest["files"] = _checksums(aside)
        write_json(aside / MANIFEST, manifest)
        os.replace(aside, out)
    return manifest


def _refuse_export(source: Source, out: Path, options: Options) -> None:
    """Refuse what cannot be written, before anything is computed for it."""
    _refuse_unknown_formats(options["format"])
    distance.refuse_other_encoder(options["other_encoder"])
    refuse_existing(out)
    _refuse_without_passages(source)


def _report_unused_dev(split: Split, gate: str, options: Options) -> None:
    """Say on standard error that dev does not show the lead, where given vectors are why."""
    without_vectors = {**options, "vectors": []}
    if not gate and gate_of(without_vectors, split.pool.source):
        print(
            f"The lead is shown by {GATE_SHARE:.0%} of the test queries, not by those of dev, as "
            "--vectors may hold none of dev: to use them, name --gate-split dev (of resttest with "
            "a file of their vectors, too).",
            file=sys.stderr,
        )


def _refuse_unknown_formats(names: Sequence[str]) -> None:
    """Refuse a format that there is not."""
    unknown = [name for name in names if name not in formats.FORMATS]
    if unknown:
        known = ", ".join(formats.FORMATS)
        raise InputError(f"split: no format {offenders(unknown)}; there are {known}")


def _refuse_without_passages(source: Source) -> None:
    """Refuse a collection of queries alone."""
    if not len(source.open().passages):
        raise InputError(f"{source.spec}: queries without passages; a trainer needs passages")


def _report_dropped(pool: Queries) -> None:
    """Say on standard error how many training queries were left out, if any were."""
    dropped = dropped_of(pool)
    if dropped:
        n_queries = len(pool.source.open().query_ids(pool.split))
        counted = f"{len(dropped):,} of {n_queries:,} queries of the split {pool.split!r}"
        message = f"{pool.source.spec}: {counted} are in no training set (--drop-train)"
        print(message, file=sys.stderr)


def _report_untrainable(pool: Queries) -> None:
    """Say on standard error which training queries are in no set: without a relevant passage."""
    if not pool.relevance:  # all are trainable, see `Queries.trainable`
        return
    all_ids = pd.Index(pool.source.open().query_ids(pool.split))
    with_dropped = [*pool.ids(), *dropped_of(pool)]
    left_out = all_ids.difference(with_dropped, sort=False).tolist()
    if left_out:
        counted = f"{len(left_out)} of {len(all_ids)} queries"
        print(
            f"{pool.source.spec}: {counted} of the split {pool.split!r} have no relevant passage "
            f"and train nothing: {offenders(left_out)}",
            file=sys.stderr,
        )


def _training_ids(split: Split, store: Store) -> dict[str, list[str]]:
    """Return the query_ids of each training set; refuse a name that no folder can have."""
    names = sets_of(split)
    with_slash = [name for name in names if "/" in name]
    if with_slash:
        raise InputError(
            f"label {offenders(with_slash)}: the name of a folder cannot hold a /; rename the label"
        )
    sets = split.sets(store)
    return {name: sets[name] for name in names}


def _training_sets(
    split: Split, training_ids: Mapping[str, Sequence[str]], options: Options
) -> dict[str, TrainingSet]:
    """Return the training sets with their pairs and negatives, by name."""
    negatives = options["negatives"]
    spare = options["spare"]
    return {
        name: TrainingSet.of(split, query_ids, negatives, spare, name)
        for name, query_ids in training_ids.items()
    }


def read_test_set(split: Split, store: Store, gate: str, trained: Collection[str] = ()) -> _TestSet:
    """Read the queries to search and choose those of the gate.

    None may be in `trained`, the query_ids of all training sets.
    """
    searched = searched_queries(split, gate)
    frames = [part.frame(store)[["query_id", "text"]] for part in searched]
    queries = pd.concat(frames, ignore_index=True)
    judgements = [part.qrels(store) for part in searched]
    qrels = pd.concat(judgements, ignore_index=True)
    _refuse_unmeasurable(queries["query_id"], qrels, trained, split.pool.source.spec)
    strata = _strata(split, store, gate)
    if strata is not None:  # without a stratum are only gate queries of no left-out part
        queries = queries[queries["query_id"].isin(strata.index)]
        is_kept = qrels["query_id"].isin(queries["query_id"])
        qrels = qrels[is_kept]
    return _TestSet(queries, qrels, strata, _gate_ids(queries, split, gate))


def _gate_ids(queries: pd.DataFrame, split: Split, gate: str) -> list[str]:
    """Return the query_ids that show the lead: of the split `gate`, or drawn; sorted."""
    if gate:
        ids = Queries(source=split.pool.source, split=gate).ids()
        of_gate = queries[queries["query_id"].isin(ids)]
    else:
        share = round(GATE_SHARE * len(queries))
        least = min(few.LEAST_MEASURING, len(queries))
        of_gate = queries.sample(max(share, least), random_state=split.seed)
    return sorted(of_gate["query_id"])


def _refuse_unmeasurable(
    test_ids: pd.Series, qrels: pd.DataFrame, trained: Collection[str], spec: str
) -> None:
    """Refuse a query to search that also trains or stands in two splits, and no answers at all."""
    is_wrong = test_ids.isin(trained) | test_ids.duplicated()
    wrong = test_ids[is_wrong].tolist()
    if wrong:
        raise InputError(
            f"{spec}: {len(wrong)} queries to search ({offenders(wrong)}) also train, or stand in "
            "two splits; take them out of one"
        )
    if not (qrels["relevance"] >= 1).any():
        raise InputError(f"{spec}: no test query has a relevant passage (relevance 1 or more)")


def _strata(split: Split, store: Store, gate: str) -> pd.Series | None:
    """Return the left-out part of each query to search, but not of a gate's query of no such part.

    None where a split leaves out no part of the test queries (ReSTrain).
    """
    if not split.release:
        return None
    if isinstance(split, Shift):
        strata = split.strata(store, [gate] if gate else [])
    else:  # the gate is among the test splits
        strata = split.strata(store)
    return strata[strata.isin(split.names)]


def _write_exposed(folder: Path, training_sets: Mapping[str, TrainingSet]) -> None:
    """Write the ids of the exposed passages of each set, a line each."""
    for name, training_set in training_sets.items():
        doc_ids = training_set.data.passages.doc_ids
        exposed = doc_ids.filter(pa.array(training_set.exposed))
        _write_lines(folder / name / EXPOSED, exposed.to_pylist())


def _write_test_set(folder: Path, test: _TestSet) -> None:
    """Write the queries to search, their judgements, the gate and the strata."""
    _write_queries(folder / "test.tsv", test.queries)
    _write_lines(folder / GATE, test.gate_ids)
    released.write_qrels(folder / "test.qrels", test.qrels)
    if test.strata is not None:
        lines = test.strata.index + "\t" + test.strata
        _write_lines(folder / STRATA, lines)


def _write_sample(folder: Path, split: Split, searched: pd.DataFrame) -> None:
    """Write a sample of the training queries, without those that are searched anyway."""
    sample = training_sample(split).frame()
    is_searched = sample["query_id"].isin(searched["query_id"])
    _write_queries(folder / TRAINING, sample[~is_searched])


def _write_distances(folder: Path, measured: distance.Measured) -> None:
    """Write how near the sets lie, and the nearest training query of each test query."""
    tables = {DISTANCE: measured.distances, NEAREST: measured.nearest}
    for name, table in tables.items():
        text = table.to_csv(index=False, float_format="%.6g")
        write_text(folder / name, text)


def _write_queries(path: Path, queries: pd.DataFrame) -> None:
    """Write a query_id and a text a line."""
    texts = queries["text"].map(_on_one_line)
    _write_lines(path, queries["query_id"] + "\t" + texts)


def _on_one_line(text: str) -> str:
    """Return a text without the tabs and line breaks that a file of queries cannot hold."""
    return " ".join(text.replace("\t", " ").splitlines())


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of these lines."""
    write_text(path, "".join(f"{line}\n" for line in lines))


def _manifest(
    split: Split,
    training_sets: Mapping[str, TrainingSet],
    test: _TestSet,
    gate: str,
    options: Options,
) -> dict[str, Any]:
    """Return what `own.manifest.Manifest` reads, but for the SHA-256 of the files.

    n_test counts the queries that measure, without those of the gate.
    """
    counts = {}
    for name, training_set in training_sets.items():
        pairs = training_set.pairs
        counts[name] = {"queries": len(pairs.query_ids), "pairs": len(pairs.rows)}
    n_gate = len(test.gate_ids)
    return {
        "protocol": type(split).__name__,
        "split": config_of(split),
        "sets": counts,
        "n_test": len(test.queries) - n_gate,
        "gate": gate,
        "n_gate": n_gate,
        "negatives": options["negatives"],
        "spare": options["spare"],
        "format": list(options["format"]),
    }


def _checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file below a folder, by its path there."""
    checksums = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name = path.relative_to(folder).as_posix()
            checksums[name] = sha256(path)
    return checksums

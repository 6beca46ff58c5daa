"""Notebook 12: a split of a collection in a folder, for a user's own trainer."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from interextra.data.queries import Part, Queries, Source
from interextra.models.search.vectors import GivenVectors, Vectors
from interextra.own import formats
from interextra.papers import released
from interextra.splits import attributes
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift, read_shift
from interextra.splits.split import Split
from interextra.store import InputError, offenders, scratch, sha256, write_json, write_text
from interextra.store.cells import config_of
from interextra.store.folders import Store

MANIFEST, EXPOSED, STRATA, GATE = "manifest.json", "exposed.txt", "strata.tsv", "gate.txt"
NAME_BYTES = 255  # of a file or folder, on all usual systems
GATE_SHARE = 0.2  # of the test queries, where no other queries can show a lead
DEFAULTS = {
    "train_split": "train",
    "test_splits": ["test"],
    "gate_split": "",
    "encoder": "lsa",
    "vectors": [],
}
DEFAULTS |= {"attribute": "", "size": 0, "k": 5, "n_test": 0.2, "seed": 1}
DEFAULTS |= {"format": ("ids", "st"), "negatives": 1, "spare": False}
UNUSED = {"restrain": ("attribute", "k", "n_test"), "resttest": ("attribute", "n_test")}
UNUSED |= {"shift": ("test_splits", "vectors", "k")}


def split_of(protocol: str, collection: str, p: Mapping[str, Any]) -> Split:
    """A split of a collection: restrain, resttest or shift.

    `p`: train_split, test_splits, gate_split (see `gate_of`), encoder, vectors (files in its
    place), attribute (of a shift), size (training queries of a set, or their share below 1; 0: all,
    of restrain half), k (buckets), n_test (test queries per cluster, or their share of the smallest
    one), seed.
    """
    source, seed = Source.of(collection), p["seed"]
    if given := [
        f"--{name.replace('_', '-')}" for name in UNUSED[protocol] if p[name] != DEFAULTS[name]
    ]:
        raise InputError(
            f"split {protocol}: {', '.join(given)} is of another protocol; leave it out"
        )
    tested = [] if protocol == "shift" else list(p["test_splits"])
    names = [p["train_split"], *tested, *filter(None, [p["gate_split"]])]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"split: {offenders(twice)} stands twice among the splits to train, to test and for the lead"
        )
    pool = Queries(source=source, split=p["train_split"], seed=seed).trainable()
    size = _number(p["size"], pool.size())
    if protocol == "shift":
        if not p["attribute"]:
            raise InputError(
                "split shift: name what is left out, --attribute wh-words, length, column:NAME, …"
            )
        _, by, kept = read_shift(p["attribute"])
        labels = pd.Series(attributes.labels(pool.frame(), by))
        counts = labels[labels.isin(kept) if kept else labels != ""].value_counts()
        n_test = _number(p["n_test"], counts.min() if len(counts) else 1)
        return Shift(
            pool=pool, by=by, clusters=tuple(kept), n_test=n_test, train_size=size, seed=seed
        )
    if protocol == "resttest":  # which bucket the queries of the gate belong to
        tested += filter(None, [gate_of(p, source)])
    given, asked = p["vectors"], tuple(Queries(source=source, split=name) for name in tested)
    vectors = (
        GivenVectors.of(given, pool, asked)
        if given
        else Vectors(encoder=p["encoder"], train=pool, test=asked)
    )
    if protocol == "restrain":
        return ReSTrain(vectors=vectors, sizes=(size or pool.size() // 2,), seed=seed)
    return ReSTTest(vectors=vectors, k=p["k"], fold_size=size, seed=seed)


def _number(given: float, of: int) -> int:
    """A number, or below 1 a share of `of`, at least 1; 0 stays."""
    return int(given) if given >= 1 or not given else max(1, int(given * of))


def gate_of(p: Mapping[str, Any], source: Source) -> str:
    """The split whose queries show a lead and measure no loss: `gate_split`, a free dev, or none
    (see `GATE_SHARE`).
    """
    if p["gate_split"] or p["vectors"]:
        return p["gate_split"]
    return "dev" * (
        "dev" in source.open().splits and "dev" not in (p["train_split"], *p["test_splits"])
    )


def refuse_place(folder: Path) -> None:
    """InputError where no folder can be made or written to, said before anything is computed for
    it.
    """
    if "\0" in str(folder) or any(len(os.fsencode(part)) > NAME_BYTES for part in folder.parts):
        raise InputError(
            f"{str(folder)[:80]!r}: no name of a folder; give one of at most {NAME_BYTES} bytes"
        )
    there = next(place for place in (folder, *folder.absolute().parents) if os.path.lexists(place))
    if not there.is_dir():
        raise InputError(f"{folder}: {there} is no folder; name another place, or move it away")
    if not os.access(there, os.W_OK):
        raise InputError(f"{folder}: nothing can be written to {there}; name another place")


def refuse_existing(folder: Path) -> None:
    """InputError where a split cannot be written to a new folder of this name."""
    if os.path.lexists(folder):
        raise InputError(f"{folder}: is there already; name another folder, or move it away")
    refuse_place(folder)


def sets_of(split: Split) -> list[str]:
    """Names of the training sets of a split."""
    return [name for name in split.parts() if name != formats.HELD_OUT]


def searched(split: Split, gate: str) -> tuple[Queries | Part, ...]:
    """All queries that the models of a split search: its test queries, and those of the split
    `gate`.
    """
    found = (
        (Part(of=split, part=formats.HELD_OUT),)
        if formats.HELD_OUT in split.parts()
        else split.vectors.test
    )
    is_there = not gate or gate in [queries.name for queries in found]
    return found if is_there else (*found, Queries(source=split.pool.source, split=gate))


def _name_left_out(pool: Queries) -> None:
    """Say on standard error which queries of the training split are in no set: those without a
    relevant passage.
    """
    every = pool.source.open().query_ids(pool.split)
    if (
        left_out := pd.Index(every).difference(pool.ids(), sort=False).tolist()
        if pool.relevance
        else []
    ):
        told = f"{len(left_out)} of {len(every)} queries of the split {pool.split!r} have no relevant passage"
        print(
            f"{pool.source.spec}: {told} and train nothing: {offenders(left_out)}",
            file=sys.stderr,
            flush=True,
        )


def export(split: Split, store: Store, out: Path, p: Mapping[str, Any]) -> dict:
    """Write the training sets of a split as trainers read them, with what its runs are measured by;
    the manifest.

    `split`: computed in the store. `p`: that of `split_of`, format (some of `formats`), negatives
    (random ones of each pair, see `Training`) and spare (no exposed ones). For each set
    NAME/exposed.txt lists the passages to exclude from a trainer's own negatives. test.tsv,
    test.qrels: all queries to search and their judgements; gate.txt: those that only show a lead;
    strata.tsv: what left-out part each belongs to. manifest.json: protocol, configuration, counts,
    SHA-256 of every file. InputError: the folder is there, or the collection has no passages.
    """
    gate = gate_of(p, split.pool.source)
    if unknown := [name for name in p["format"] if name not in formats.FORMATS]:
        raise InputError(
            f"split: no format {offenders(unknown)}; there are {', '.join(formats.FORMATS)}"
        )
    refuse_existing(out)
    if not len(split.pool.source.open().passages):
        raise InputError(
            f"{split.pool.source.spec}: queries without passages; a trainer needs passages"
        )
    _name_left_out(split.pool)
    names, asked, chosen = sets_of(split), searched(split, gate), split.sets(store)
    if bad := [name for name in names if "/" in name]:
        raise InputError(
            f"label {offenders(bad)}: the name of a folder cannot hold a /; rename the label"
        )
    sets = {
        name: formats.Training.of(split, chosen[name], p["negatives"], p["spare"], name)
        for name in names
    }
    test = pd.concat([part.frame(store)[["query_id", "text"]] for part in asked], ignore_index=True)
    qrels = pd.concat([part.qrels(store) for part in asked], ignore_index=True)
    trained = set().union(*(chosen[name] for name in names))
    if both := test["query_id"][
        test["query_id"].isin(trained) | test["query_id"].duplicated()
    ].tolist():
        told = "also train, or stand in two splits; take them out of one"
        raise InputError(
            f"{split.pool.source.spec}: {len(both)} queries to search ({offenders(both)}) {told}"
        )
    if not (qrels["relevance"] >= 1).any():
        raise InputError(
            f"{split.pool.source.spec}: no test query has a relevant passage (relevance 1 or more)"
        )
    strata = None
    if split.release:
        strata = (
            split.strata(store, [gate] if gate else [])
            if isinstance(split, Shift)
            else split.strata(store)
        )
        strata = strata[strata.isin(split.names)]
        test = test[
            test["query_id"].isin(strata.index)
        ]  # a gate's of a kind in no training set shows no lead
        qrels = qrels[qrels["query_id"].isin(test["query_id"])]
    if gate:
        held = test[test["query_id"].isin(Queries(source=split.pool.source, split=gate).ids())]
    else:
        held = test.sample(frac=GATE_SHARE, random_state=split.seed)
    with scratch(out.with_name(f"{out.name}.tmp{os.getpid()}")) as aside:
        for name, made in sets.items():
            spared = made.data.passages.doc_ids.filter(pa.array(made.exposed)).to_pylist()
            write_text(aside / name / EXPOSED, "".join(f"{one}\n" for one in spared))
        texts = test["text"].map(lambda text: " ".join(text.replace("\t", " ").splitlines()))
        write_text(aside / "test.tsv", "".join(test["query_id"] + "\t" + texts + "\n"))
        write_text(aside / GATE, "".join(f"{one}\n" for one in sorted(held["query_id"])))
        released.write_qrels(aside / "test.qrels", qrels)
        if strata is not None:
            write_text(aside / STRATA, "".join(strata.index + "\t" + strata + "\n"))
        for name in p["format"]:
            formats.write(name, aside, split, store, sets, qrels)
        counts = {
            name: {"queries": len(of.pairs.query_ids), "pairs": len(of.pairs.rows)}
            for name, of in sets.items()
        }
        manifest = {"protocol": type(split).__name__, "split": config_of(split), "sets": counts}
        manifest |= {"n_test": len(test) - len(held), "gate": gate, "n_gate": len(held)}
        manifest |= {"negatives": p["negatives"], "spare": p["spare"], "format": list(p["format"])}
        files = filter(Path.is_file, aside.rglob("*"))
        manifest["files"] = {path.relative_to(aside).as_posix(): sha256(path) for path in files}
        write_json(aside / MANIFEST, manifest)
        os.replace(aside, out)
    return manifest

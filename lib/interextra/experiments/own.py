"""Notebook 12: a split of a collection in a folder, for a user's own trainer."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from interextra.data.queries import Part, Queries, Source
from interextra.experiments import shifts
from interextra.experiments.formats import FORMATS, Training, write
from interextra.ground import InputError, offenders, scratch, sha256, write_json
from interextra.ground.cells import Store, config_of
from interextra.models.vectors import GivenVectors, Vectors
from interextra.papers import released
from interextra.splits import attributes
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift
from interextra.splits.split import Split

MANIFEST, EXPOSED, STRATA, GATE, HELD_OUT = "manifest.json", "exposed.txt", "strata.tsv", "gate.txt", "held-out"
GATE_SHARE = 0.2  # of the test queries, where no other queries can show a lead


def split_of(protocol: str, collection: str, p: Mapping[str, Any]) -> Split:
    """A split of a collection: restrain, resttest or shift.

    `p`: train_split, test_splits, gate_split (see `gate_of`), encoder, vectors (files in its place), attribute (of a
    shift), size (training queries of a set, or their share below 1; 0: all), k (buckets), n_test (test queries per
    cluster, or their share of the smallest one), seed.
    """
    source, seed = Source.of(collection), p["seed"]
    pool = Queries(source=source, split=p["train_split"], seed=seed)
    size = _number(p["size"], pool.size())
    if protocol == "shift":
        if not p["attribute"]:
            raise InputError("split shift: name what is left out, --attribute wh-words, length, column:NAME, …")
        labels = attributes.labels(pool.frame(), p["attribute"])
        n_test = _number(p["n_test"], pd.Series(labels[labels != ""]).value_counts().min())
        return Shift(pool=pool, by=p["attribute"], n_test=n_test, train_size=size, seed=seed)
    given, names = p["vectors"], list(p["test_splits"])
    names += [gate] if protocol == "resttest" and (gate := gate_of(p, source)) else []  # which bucket they belong to
    asked = tuple(Queries(source=source, split=name) for name in names)
    vectors = GivenVectors.of(given, pool, asked) if given else Vectors(encoder=p["encoder"], train=pool, test=asked)
    if protocol == "restrain":
        return ReSTrain(vectors=vectors, sizes=(size or pool.size() // 2,), seed=seed)
    return ReSTTest(vectors=vectors, k=p["k"], fold_size=size, seed=seed)


def _number(given: float, of: int) -> int:
    """A number, or below 1 a share of `of`, at least 1; 0 stays."""
    return int(given) if given >= 1 or not given else max(1, int(given * of))


def gate_of(p: Mapping[str, Any], source: Source) -> str:
    """The split whose queries show a lead over the baseline and measure no loss: `gate`, or dev where it is free.

    Where it is empty, `GATE_SHARE` of the test queries are held out for that.
    """
    is_free = "dev" in source.open().splits and "dev" not in (p["train_split"], *p["test_splits"]) and not p["vectors"]
    return p["gate_split"] or "dev" * is_free


def searched(split: Split, gate: str) -> tuple[Queries | Part, ...]:
    """All queries that the models of a split search: its test queries, and those of the split `gate`."""
    found = (Part(of=split, part=HELD_OUT),) if HELD_OUT in split.parts() else split.vectors.test
    is_there = not gate or gate in [queries.name for queries in found]
    return found if is_there else (*found, Queries(source=split.pool.source, split=gate))


def _strata(split: Split, store: Store, gate: str) -> pd.Series:
    """What left-out part each searched query belongs to, by query_id."""
    if isinstance(split, ReSTTest):
        return split.strata(store)
    found = shifts.strata(split, store, [gate] if gate else [])
    return found[found.isin(split.names)]


def export(
    split: Split,
    store: Store,
    out: Path,
    formats: Sequence[str] = ("ids",),
    negatives: int = 1,
    spare: bool = False,
    gate: str = "",
) -> dict:
    """Write the training sets of a split as trainers read them, with what its runs are measured by; the manifest.

    split : computed in the store. formats : of `FORMATS`. gate : of `gate_of`.
    negatives : random ones of each pair, see `Training.of`; `spare`: no exposed ones.

    For each set NAME/exposed.txt lists the passages to exclude from a trainer's own negatives. test.tsv, test.qrels:
    all queries to search and their judgements; gate.txt: those that only show a lead; strata.tsv: what left-out part
    each belongs to. manifest.json: protocol, configuration, counts, SHA-256 of every file. InputError: the folder is
    there, or the collection has no passages.
    """
    if unknown := [name for name in formats if name not in FORMATS]:
        raise InputError(f"split: no format {offenders(unknown)}; there are {', '.join(FORMATS)}")
    if out.exists():
        raise InputError(f"{out}: is there already; name another folder, or move it away")
    if not len(split.pool.source.open().passages):
        raise InputError(f"{split.pool.source.spec}: queries without passages; a trainer needs passages")
    parts = [part for part in split.parts() if part != HELD_OUT]
    if bad := [name for name in parts if "/" in name]:
        raise InputError(f"label {offenders(bad)}: the name of a folder cannot hold a /; rename the label")
    chosen = split.sets(store)
    sets = {name: Training.of(split, chosen[name], negatives, spare, split.seed) for name in parts}
    asked = {queries.name: queries.frame(store)[["query_id", "text"]] for queries in searched(split, gate)}
    strata = _strata(split, store, gate) if split.release else None
    if strata is not None:  # a gate's query of a kind that is in no training set shows no lead in domain
        asked = {name: frame[frame["query_id"].isin(strata.index)] for name, frame in asked.items()}
    test = pd.concat(asked.values(), ignore_index=True)
    qrels = pd.concat([queries.qrels(store) for queries in searched(split, gate)], ignore_index=True)
    qrels = qrels[qrels["query_id"].isin(test["query_id"])]
    held = asked[gate] if gate else test.sample(frac=GATE_SHARE, random_state=split.seed)
    with scratch(out.with_name(f"{out.name}.tmp{os.getpid()}")) as aside:
        for name, made in sets.items():
            (aside / name).mkdir(parents=True)
            spared = made.data.passages.doc_ids.filter(pa.array(made.exposed)).to_pylist()
            (aside / name / EXPOSED).write_text("".join(f"{one}\n" for one in spared), encoding="utf-8")
        texts = test["text"].map(lambda text: " ".join(text.replace("\t", " ").splitlines()))
        lines = test["query_id"] + "\t" + texts + "\n"
        (aside / "test.tsv").write_text("".join(lines), encoding="utf-8")
        (aside / GATE).write_text("".join(f"{one}\n" for one in sorted(held["query_id"])), encoding="utf-8")
        released.write_qrels(aside / "test.qrels", qrels)
        if strata is not None:
            strata.to_csv(aside / STRATA, sep="\t", header=False)
        for name in formats:
            write(name, aside, split, sets, qrels)
        numbers = {name: (len(made.pairs.query_ids), len(made.pairs.rows)) for name, made in sets.items()}
        counts = {name: dict(zip(("queries", "pairs"), found, strict=True)) for name, found in numbers.items()}
        manifest = {"protocol": type(split).__name__, "split": config_of(split), "sets": counts}
        manifest |= {"n_test": len(test) - len(held), "gate": gate, "n_gate": len(held)}
        manifest |= {"negatives": negatives, "spare": spare}
        paths = sorted(path for path in aside.rglob("*") if path.is_file())
        manifest["files"] = {path.relative_to(aside).as_posix(): sha256(path) for path in paths}
        write_json(aside / MANIFEST, manifest)
        os.replace(aside, out)
    return manifest

"""Sign the code of the cells: `make golden`, or `python -m tools.golden`.

Small samples of every kind of cell are computed with today's code and compared with what
`golden.yaml` holds of them. Where all samples of a kind agree, the digests of today's code are
signed: results that older signed code made stay in use. Where one differs, the kind is named, and
nothing of it is signed: raise its VERSION if another result is meant, and run this again.

Only samples whose code is not signed yet, or whose data changed, are computed, and what these are
made from.

What is compared are sums, extremes and positions of all numbers, to 1e-6 of their size, and texts
character by character; of what was trained only the numbers, to 1e-3, since processors round
differently. A change that shows in none of these small samples (one above a thousand queries, say)
is signed: so a signature is a commit to be reviewed, and `make verify` recomputes everything.

Executed notebooks are never signed: they are executed again, from results that are there.
"""

import hashlib
import importlib
import pkgutil
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import interextra
from interextra.data.queries import Queries, Source
from interextra.data.runs import RunFile
from interextra.measures.indicators import Nearness
from interextra.models.architectures import architectures
from interextra.models.model import Model, Pretrained, trained_behind, weights_digest
from interextra.models.planning import model_of
from interextra.models.recipe import Pretraining, Recipe, load_recipe
from interextra.models.search.hybrid import Reranked
from interextra.models.search.run import Encoded, Fused, Imported, Run, Searched
from interextra.models.search.vectors import (
    GivenFile,
    GivenVectors,
    PassageVectors,
    TrainedVectors,
    Vectors,
)
from interextra.notebooks.n09_exposure import Spared
from interextra.overlap.candidates import Candidates
from interextra.own.cost import Measurement
from interextra.own.fine_tuning import Trial
from interextra.own.merge import MergedRun
from interextra.own.nested import Nested
from interextra.own.split_folder import run_before_training
from interextra.site.notebook import Notebook
from interextra.site.places import OverPlaces
from interextra.splits.kinds import PassageKinds
from interextra.splits.restrain import ReSTrain
from interextra.splits.resttest import ReSTTest
from interextra.splits.shift import Shift
from interextra.splits.topics import Topics
from interextra.store import Cell, Store, write_text
from interextra.store.folders import NOTES
from interextra.store.schedule import build_all
from interextra.store.signatures import GOLDEN

NEVER_SIGNED = (Notebook, OverPlaces, Measurement)
SMALL = "mini:n_train=120,n_dev=30,seed=5"
LARGER = "mini:n_train=400,n_dev=60"
STEPS = 3  # of each training: enough for every line of it to count
TOLERANCE = {"untrained": 1e-6, "trained": 1e-3}
NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][+-]?\d+)?")
WEIGHTS = ".safetensors"

Samples = dict[str, Cell]
Summary = dict[str, dict[str, Any]]  # file → its numbers and its text
Summaries = dict[str, Summary]  # sample → its summary
Entry = dict[str, Any]  # of a kind of cell in golden.yaml


def queries_of(spec: str) -> tuple[Queries, Queries]:
    """Return the training and the development queries of a collection."""
    source = Source.of(spec)
    train = Queries(source=source, split="train")
    return train.trainable(), Queries(source=source, split="dev")


def of_vectors_and_splits(spec: str, folder: Path) -> Samples:
    """Return samples of what divides the queries of a collection, each option once."""
    train, test = queries_of(spec)
    n_train = train.size()
    sizes = (n_train // 6, n_train // 4)
    half = n_train // 2
    lsa = Vectors(encoder="lsa", train=train, test=(test,))
    vectors_of_train = Vectors(encoder="lsa", train=train)
    topics = Topics(vectors=vectors_of_train, n_topics=3, k=8, target=n_train // 5)
    other_switches = {
        "choose": "greedy",
        "merge": "merged",
        "order": "turns",
        "stop": "closest",
        "normalise": True,
    }
    return {
        "lsa": lsa,
        "the [CLS] vector": Vectors(encoder="cls:tiny-base", train=train, test=(test,)),
        "given vectors": _given_vectors(train, folder / f"{n_train}.npy"),
        "ReSTrain": ReSTrain(vectors=lsa, sizes=sizes, draws=2),
        "ReSTrain, another match": ReSTrain(vectors=lsa, sizes=(half,), match="as-released"),
        "ReSTTest": ReSTTest(vectors=lsa, k=3),
        "ReSTTest, folds of one size": ReSTTest(
            vectors=lsa, k=4, fold_size=n_train // 3, normalise=False, seed=2
        ),
        "topics": topics,
        "topics, other switches": topics.model_copy(update=other_switches),
        "candidates": Candidates(vectors=lsa, k=3),
        "nested": Nested(of=ReSTrain(vectors=lsa, sizes=sizes), sizes=(3, n_train // 6), seed=1),
        **_shifts(train, topics),
        **_kinds_of_passages(train, test),
    }


def _given_vectors(train: Queries, path: Path) -> GivenVectors:
    """Return random vectors of training queries, written to a file."""
    shape = (train.size(), 8)
    vectors = np.random.default_rng(1).normal(size=shape)
    np.save(path, vectors.astype(np.float32))
    return GivenVectors.of([path], train)


def _shifts(train: Queries, topics: Topics) -> Samples:
    """Return samples of type shifts, and of what is spared in them."""
    kind = "python:interextra.world.truth:kind_of_question"
    quarter = train.size() // 4
    by_kind = Shift(by=kind, pool=train, n_test=5, train_size=quarter, seed=1)
    return {
        "shift by topics": Shift(by=topics, pool=train, n_test=5),
        "shift by question words": Shift(by="wh-words", pool=train, n_test=5),
        "shift by chance": Shift(by="random:parts=3", pool=train, n_test=5),
        "shift by a function": by_kind,
        "spared: the kind": Spared(shift=by_kind, left_out="kind 1", which="kind"),
        "spared: other kinds": Spared(
            shift=by_kind, left_out="kind 2", which="other kinds", control=3
        ),
        "spared: answers": Spared(shift=by_kind, left_out="kind 1", which="answers"),
    }


def _kinds_of_passages(train: Queries, test: Queries) -> Samples:
    """Return samples of kinds of passages, of their shift, and of what is spared in it."""
    passages = PassageVectors(encoder="lsa", source=train.source)
    kinds = PassageKinds(vectors=passages, pool=train, k=3, seed=1)
    by_kinds = Shift(by=kinds, pool=train, n_test=0, train_size=train.size() // 4, seed=1)
    return {
        "vectors of passages": passages,
        "kinds of passages": kinds,
        "shift by kinds of passages": by_kinds,
        "spared: a kind of passages": Spared(shift=by_kinds, left_out="kind 1", which="kind"),
        "spared: answers of a split": Spared(
            shift=by_kinds, left_out="kind 1", which="answers", tested=(test,)
        ),
    }


def brief(name: str, **options: Any) -> Recipe:
    """Return a recipe of mini with few steps, of what is trained before it, too."""
    recipe = load_recipe(name)
    if not hasattr(recipe, "steps"):  # it is not trained
        return load_recipe(name, **options)
    options = {"steps": STEPS, "batch_size": 8, "warmup_steps": 1} | options
    for role in ("after", "teacher", "pair_teacher"):
        before = getattr(recipe, role, "")
        if before:
            options[role] = brief_name(before)
    if recipe.architecture == "tas_balanced":
        options["clusters"] = 6
    return load_recipe(name, **options)


def brief_name(name: str) -> str:
    """Return a recipe as another one names it, with few steps."""
    plain = name.partition("{")[0]
    options = f"steps: {STEPS}, batch_size: 8, warmup_steps: 1"
    before = getattr(load_recipe(plain), "after", "")
    if before:
        options += f", after: '{brief_name(before)}'"
    return f"{plain}{{{options}}}"


RECIPES = {
    "BM25": brief("bm25"),
    "dense": brief("mini-dense"),
    "dense, pairwise, cosine, mean": brief(
        "mini-dense", loss="pairwise", similarity="cosine", pooling="mean", temperature=0.05
    ),
    "dense, BM25's negatives": brief("mini-standalone"),
    "dense, mined negatives": brief("mini-star"),
    "dense, negatives that it ranks first": brief("mini-adore"),
    "dense, distilled": brief("mini-tct"),
    "dense, margins of a reranker": brief(
        "mini-dense",
        loss="margin-mse",
        negatives="bm25",
        teacher=brief_name("mini-reranker"),
    ),
    "dense, exposed negatives never": brief("mini-dense", negative_passages="unexposed"),
    "dense, a control of them": brief("mini-dense", negative_passages="control"),
    "dense, a share of them": brief("mini-dense", negative_passages=0.3),
    "dense, epochs from a random start": brief(
        "mini-dense", steps=None, epochs=0.3, initialisation="random", negatives="random"
    ),
    "dense, untrained": brief("mini-dense", steps=0),
    "SPLADE": brief("mini-splade"),
    "ColBERT": brief("mini-colbert"),
    "ColBERT, pairwise": brief("mini-colbert", loss="pairwise", negatives="random"),
    "reranker": brief("mini-reranker"),
    "compressed": brief("mini-compressed"),
    "compressed, at lengths": brief("mini-compressed", dimension=0, truncations=(32, 8)),
    "TAS-Balanced": brief("mini-tas-b"),
}


def sample_model(name: str, train: Queries) -> Model:
    """Return the model of one of RECIPES."""
    return model_of(RECIPES[name], train, seed=1)


def of_models(spec: str, names: Iterable[str]) -> Samples:
    """Return samples of models, and of what searches with them."""
    train, test = queries_of(spec)
    samples: Samples = {}
    for name in names:
        model = sample_model(name, train)
        samples[f"model: {name}"] = model
        samples[f"run: {name}"] = Run(model=model, queries=(test,), depth=10)
    return samples


def of_pretraining() -> Samples:
    """Return a sample of each objective of pretraining."""
    samples: Samples = {}
    for objective in ("none", "words", "order", "condenser", "spans"):
        corpus = () if objective == "none" else (SMALL,)
        options = {"objective": objective, "corpus": corpus, "length": 32}
        how = Pretraining(steps=STEPS, batch_size=4, **options)
        samples[f"pretraining: {objective}"] = Pretrained.of(how, "tiny-base", seed=1)
    return samples


INDEXES = {
    "Flat": {},
    "HNSW8": {"parameters": "efConstruction=20,efSearch=10", "seed": 1},
    "IVF4,Flat": {"parameters": "nprobe=2", "truncate_dim": 32},
    "PQ8x4": {},
    "int8": {"rescore_multiplier": 2},
    "binary": {"rescore_multiplier": 3},
}


def of_search(spec: str, folder: Path) -> Samples:
    """Return samples of indexes, fusion and reranking, and of vectors of a trained model."""
    train, test = queries_of(spec)
    dense = sample_model("dense", train)
    encoded = Encoded(model=dense, source=train.source)
    samples: Samples = {"encoded": encoded}
    for index, options in INDEXES.items():
        samples[f"searched: {index}"] = Searched(
            encoded=encoded, queries=(test,), index=index, depth=10, **options
        )
    for name in ("TAS-Balanced", "compressed"):
        encoded = Encoded(model=sample_model(name, train), source=train.source)
        samples[f"encoded: {name}"] = encoded
        samples[f"searched: {name}"] = Searched(encoded=encoded, queries=(test,), depth=10)
    untrained = sample_model("dense, untrained", train)
    samples["merged"] = MergedRun(
        model=dense, given=untrained, alpha=0.5, queries=(test,), depth=10
    )
    file = _given_run(train, test, folder / "given.trec")
    samples["imported"] = Imported(file=file, queries=(test,))
    samples["vectors of a model"] = TrainedVectors(model=dense, train=train, test=(test,))
    for name in ("dense", "SPLADE", "ColBERT"):
        model = sample_model(name, train)
        samples[f"nearness: {name}"] = Nearness(model=model, queries=(test,), k=3)
    return samples | _of_fusion(train, test)


def _given_run(train: Queries, test: Queries, path: Path) -> GivenFile:
    """Return a run with equal scores, written to a file."""
    passages = train.source.open().passages
    first_passages = pd.DataFrame({"doc_id": passages.doc_ids.to_pylist()[:3]})
    hits = pd.DataFrame({"query_id": test.ids()}).merge(first_passages, how="cross")
    RunFile.from_frame(hits.assign(score=1.0)).write_trec(path)
    return GivenFile.of(path)


def _of_fusion(train: Queries, test: Queries) -> Samples:
    """Return samples of what is made from two runs."""
    both = (train, test)
    by_words = Run(model=sample_model("BM25", train), queries=both, depth=10)
    by_meaning = Run(model=sample_model("dense", train), queries=both, depth=10)
    runs = (by_words, by_meaning)
    return {
        "fused by ranks": Fused(runs=runs, depth=10),
        "fused by scores": Fused(runs=runs, method="wsum", weights=(0.3, 0.7), depth=10),
        "fused, tuned": Fused(runs=runs, method="wsum", tuned=train, depth=10),
        "reranked": Reranked(runs=runs, model=sample_model("reranker", train), depth=5),
    }


def of_short_training() -> Samples:
    """Return a sample of a short training, by which a learning rate is chosen."""
    train, test = queries_of(SMALL)
    lsa = Vectors(encoder="lsa", train=train, test=(test,))
    split = ReSTrain(vectors=lsa, sizes=(train.size() // 4,))
    recipe = RECIPES["dense"]
    trial = Trial(
        recipe=recipe,
        split=split,
        gate="",
        candidates=run_before_training(RECIPES["BM25"], split, ""),
        n_queries=4,
        depth=5,
        n_train=train.size() // 4,
        start=weights_digest(recipe),
    )
    return {"short training": trial}


def samples_of_all(folder: Path) -> Samples:
    """Return all samples by name; files that some of them read are written to a folder."""
    samples = of_pretraining() | of_search(SMALL, folder) | of_short_training()
    for spec, recipes in {SMALL: RECIPES, LARGER: ["BM25", "dense", "SPLADE"]}.items():
        of_spec = of_vectors_and_splits(spec, folder) | of_models(spec, recipes)
        for name, cell in of_spec.items():
            samples[f"{name} · {spec}"] = cell
    return samples


def kinds_without_sample(samples: Samples) -> list[str]:
    """Return the names of the kinds of cell, and of the architectures, that no sample is of."""
    for module in pkgutil.walk_packages(interextra.__path__, "interextra."):
        importlib.import_module(module.name)
    sampled = {type(cell) for cell in samples.values()}
    missing = []
    for kind in _below(Cell):
        is_base = any(issubclass(sample, kind) for sample in sampled)
        is_own = kind.__module__.startswith("interextra.")
        is_signed = not issubclass(kind, NEVER_SIGNED)
        if is_own and not is_base and is_signed:
            missing.append(kind.__name__)
    models = [cell for cell in samples.values() if isinstance(cell, Model)]
    trained = {model.recipe.architecture for model in models}
    return missing + sorted(architectures().keys() - trained)


def _below(kind: type[Cell]) -> Iterator[type[Cell]]:
    """Yield the kinds that derive from one."""
    for derived in kind.__subclasses__():
        yield derived
        yield from _below(derived)


def summary_of(folder: Path, is_trained: bool) -> Summary:
    """Return what a cell's files hold: file → statistics of its numbers, and its texts' digest."""
    summary: Summary = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or _is_beside_results(name):
            continue
        numbers, text = _content(path)
        summary[name] = {}
        if len(numbers):
            statistics = _statistics(numbers)
            summary[name]["numbers"] = [float(f"{value:.9g}") for value in statistics]
        if text and not is_trained:
            digest = hashlib.sha256(text.encode()).hexdigest()
            summary[name]["text"] = digest[:16]
    return summary


def _is_beside_results(name: str) -> bool:
    """Return whether a file of a cell is a note, or of a model but not its weights."""
    is_of_model = name.startswith("weights/")
    return name in NOTES or (is_of_model and not name.endswith(WEIGHTS))


def _content(path: Path) -> tuple[np.ndarray, str]:
    """Return the numbers with a fraction in a file, and everything else as text."""
    if path.suffix == ".npy":
        return _content_of_array(np.load(path))
    if path.suffix == WEIGHTS:
        from safetensors.numpy import load_file

        tensors = sorted(load_file(path).items())
        parts = [tensor.ravel().astype(float) for _, tensor in tensors]
        return np.concatenate(parts), ""
    if path.suffix == ".parquet":
        return _content_of_frame(pd.read_parquet(path))
    text = path.read_text(encoding="utf-8")
    numbers = np.array(NUMBER.findall(text), dtype=float)
    return numbers, NUMBER.sub("#", text)


def _content_of_array(array: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the numbers of an array with its shape, or whole numbers as text."""
    if array.dtype.kind == "f":
        return array.ravel().astype(float), str(array.shape)
    return np.empty(0), str(array.tolist())


def _content_of_frame(frame: pd.DataFrame) -> tuple[np.ndarray, str]:
    """Return the numbers with a fraction, column by column, and the other columns as text."""
    kinds = frame.dtypes.astype(str)
    is_float = kinds.str.startswith(("float", "double")).to_numpy(bool)
    numbers = frame.loc[:, is_float].to_numpy(float).ravel(order="F")
    return numbers, frame.loc[:, ~is_float].to_csv()


def _statistics(numbers: np.ndarray) -> list[float]:
    """Return count, sum of absolute values, sum, a sum that knows positions, least, greatest."""
    finite = np.where(np.isfinite(numbers), numbers, 0.0)
    positions = np.arange(len(finite))
    return [
        len(numbers),
        np.abs(finite).sum(),
        finite.sum(),
        (finite * np.cos(0.7 * positions)).sum(),
        finite.min(),
        finite.max(),
    ]


def differences(before: Summary, now: Summary, tolerance: float) -> list[str]:
    """Return in which files two summaries of a sample differ, and how."""
    lines = [f"{name} is there no more" for name in before.keys() - now.keys()]
    lines += [f"{name} is new" for name in now.keys() - before.keys()]
    for name in sorted(before.keys() & now.keys()):
        old = before[name]
        new = now[name]
        if old.get("text") != new.get("text"):
            lines.append(f"{name}: other texts, ids or counts")
        old_numbers = old.get("numbers", [])
        problem = _other_numbers(old_numbers, new.get("numbers", []), tolerance)
        if problem:
            lines.append(f"{name}: {problem}")
    return lines


def _other_numbers(old: list[float], new: list[float], tolerance: float) -> str:
    """Return how the statistics of a file differ; "" where they are equal but for rounding."""
    if len(old) != len(new):
        return "numbers where there were none, or none where there were"
    if not old:
        return ""
    size = np.abs([old, new]).max()
    difference = np.abs(np.subtract(old, new)).max()
    return "" if difference <= tolerance * size else f"{old} became {new}"


def sign(
    golden: dict[str, Entry], samples: Samples, store: Store
) -> tuple[dict[str, Entry], list[str]]:
    """Return what to write to golden.yaml, and what refuses the signature of a kind, a line each.

    Parameters
    ----------
    golden : what golden.yaml holds.
    samples : cells by the name of the sample.
    store : where those that are not signed yet were computed, see `unsigned`.
    """
    by_kind: dict[str, Samples] = {}
    for name, cell in samples.items():
        by_kind.setdefault(type(cell).__name__, {})[name] = cell
    to_sign = unsigned(golden, samples)
    signed = {}
    refusals = []
    for kind, cells in sorted(by_kind.items()):
        before = _entry_before(golden, cells)
        changed = {name: cell for name, cell in cells.items() if name in to_sign}
        today = _entry_of_today(changed, store)
        problems = _problems(before, today, cells)
        refusals += [f"{kind}: {problem}" for problem in problems]
        signed[kind] = before if problems else _joined(before, today)
    return signed, refusals


def unsigned(golden: dict[str, Entry], samples: Samples) -> Samples:
    """Return the samples that golden.yaml does not hold, or whose code it has not signed."""
    found = {}
    for name, cell in samples.items():
        entry = _entry_before(golden, {name: cell})
        is_same = entry["of"].get(name) == cell.identity
        if not is_same or cell.code not in entry["signed"]:
            found[name] = cell
    return found


def _entry_before(golden: dict[str, Entry], cells: Samples) -> Entry:
    """Return the entry of cells of a kind in golden.yaml; an empty one for a new VERSION."""
    [(kind, version)] = {(type(cell).__name__, cell.VERSION) for cell in cells.values()}
    entry = golden.get(kind)
    if entry is None or entry["version"] != version:
        return {"version": version, "signed": [], "of": {}, "samples": {}}
    return entry


def _entry_of_today(cells: Samples, store: Store) -> Entry:
    """Return what today's code computes of samples of a kind, as in golden.yaml."""
    samples = {}
    for name, cell in cells.items():
        samples[name] = summary_of(store[cell], _is_trained(cell))
    codes = {cell.code for cell in cells.values()}
    identities = {name: cell.identity for name, cell in cells.items()}
    return {"signed": sorted(codes), "of": identities, "samples": samples}


def _problems(before: Entry, today: Entry, cells: Samples) -> list[str]:
    """Return why today's code of a kind is not signed."""
    gone = [name for name in before["samples"] if name not in cells]
    problems = [f"{name}: the sample is there no more" for name in gone]
    comparable = {}
    for name, summary in today["samples"].items():
        if name not in _moved(before, today):
            comparable[name] = summary
        elif cells[name].code not in before["signed"]:
            problems.append(
                f"{name}: the data of the sample changed, too; run this before the code changes"
            )
    return problems + _differing(before["samples"], comparable, cells)


def _moved(before: Entry, today: Entry) -> set[str]:
    """Return the samples that are made of other data now, so that nothing can be compared."""
    names = before["of"].keys() & today["of"].keys()
    return {name for name in names if before["of"][name] != today["of"][name]}


def _joined(before: Entry, today: Entry) -> Entry:
    """Return an entry with the code of both signed; what was measured first stays the measure."""
    moved = _moved(before, today)
    kept = {name: summary for name, summary in before["samples"].items() if name not in moved}
    return {
        "version": before["version"],
        "signed": sorted({*before["signed"], *today["signed"]}),
        "of": before["of"] | today["of"],
        "samples": today["samples"] | kept,
    }


def _is_trained(cell: Cell) -> bool:
    """Return whether training is behind a cell."""
    return isinstance(cell, Pretrained) or bool(trained_behind(cell))


def _differing(before: Summaries, today: Summaries, cells: Samples) -> list[str]:
    """Return how the samples of a kind differ from those of golden.yaml, sorted."""
    lines = []
    for name in today.keys() & before.keys():
        tolerance = TOLERANCE["trained" if _is_trained(cells[name]) else "untrained"]
        problems = differences(before[name], today[name], tolerance)
        lines += [f"{name}: {problem}" for problem in problems]
    return sorted(lines)


def main() -> int:
    """Compute, compare and sign; return 1 where a kind was refused."""
    golden = {}
    if GOLDEN.is_file():
        golden = yaml.safe_load(GOLDEN.read_text(encoding="utf-8"))
    # a sample of a given file is known by its path, which is the same in every such folder
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        samples = samples_of_all(Path())
        missing = kinds_without_sample(samples)
        if missing:
            names = ", ".join(missing)
            print(f"no sample of {names}: add one in tools/golden.py", file=sys.stderr)
            return 1
        store = Store(Path("outputs/cells").absolute())
        to_sign = unsigned(golden, samples)
        build_all(store, list(to_sign.values()))
        signed, refusals = sign(golden, samples, store)
    text = yaml.safe_dump(signed, sort_keys=True, width=100, allow_unicode=True)
    write_text(GOLDEN, text)
    refused = _report(refusals)
    n_kinds = len(signed)
    n_signed = n_kinds - len(refused)
    print(f"{n_signed} of {n_kinds} kinds of result are signed; {len(to_sign)} samples computed")
    if refused:
        print(f"Raise VERSION of {', '.join(refused)} if another result is meant.")
    return 1 if refused else 0


def _report(refusals: list[str]) -> list[str]:
    """Print what refuses a signature, and return the kinds that are not signed."""
    kinds = set()
    for line in refusals:
        print(f"not signed: {line}", file=sys.stderr)
        kinds.add(line.partition(":")[0])
    return sorted(kinds)


if __name__ == "__main__":
    sys.exit(main())

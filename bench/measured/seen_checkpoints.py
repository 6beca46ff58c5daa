"""Try the test of `own.seen` on checkpoints that have seen the training queries, and on others.

Ten checkpoints of an encoder are fine-tuned on the training queries (one to ten epochs, several
rates, some on half of them or on a mixture with others), ten are not: the encoder itself, and nine
that are fine-tuned on other queries of MedQuAD. From three that have seen the queries, and from the
encoder, a ReSTrain split is trained, with and without the test in its report. Three stages:

    python bench/measured/seen_checkpoints.py make FOLDER           the split, lists of queries, BM25
    python FOLDER/train/train.py train FOLDER/train OUT    on a GPU, with sentence-transformers
    python bench/measured/seen_checkpoints.py table FOLDER OUT      OUT/seen.csv, found.csv, regimes.csv

The second needs nothing but FOLDER/train, which `make` fills, this script and encoders included.
"""

import argparse
import csv
import gzip
import json
import lzma
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

SEED = 20
N_TRAIN = 6000  # training queries; the other queries of the split are held apart
N_SAMPLED = 1000  # of them, which the test compares with held-out queries
SET_SIZE = 2000  # training queries of a set of ReSTrain
MEASURE = "nDCG@10"
DEPTH = 10  # passages of a ranking: those that the measure sees
BATCH = 64
PASSAGE_CHARACTERS = 900
TOKENS = {"query": 48, "passage": 128}
RATES = {"minilm": 5e-5, "tiny-base": 2e-3}
REGIMES = ("interpolation", "extrapolation")
WEIGHTS = "model.safetensors"
PACKED = f"{WEIGHTS}.xz"
NOT_NEEDED = (WEIGHTS, "README.md", "data_config.json", "vocab.txt")


class Checkpoint(NamedTuple):
    """A training of an encoder: on which list, how long, and how fast beside RATES."""

    pairs: str
    epochs: int
    rate: float = 1.0
    seed: int = 1

    @property
    def name(self) -> str:
        """Return its name in files and tables."""
        return f"{self.pairs}, epochs {self.epochs}, rate {self.rate:g}, seed {self.seed}"


SEEN = (
    Checkpoint("train", 1),
    Checkpoint("train", 2),
    Checkpoint("train", 3),
    Checkpoint("train", 5, rate=0.4),
    Checkpoint("train", 10),
    Checkpoint("train", 1, rate=3),
    Checkpoint("train", 3, rate=3),
    Checkpoint("half", 3),
    Checkpoint("half", 10),
    Checkpoint("mixed", 3),
)
UNSEEN = (
    Checkpoint("none", 0),
    Checkpoint("apart", 1),
    Checkpoint("apart", 3),
    Checkpoint("apart", 5, rate=0.4),
    Checkpoint("apart", 10),
    Checkpoint("apart", 3, rate=3),
    Checkpoint("apart", 3, seed=2),
    Checkpoint("apart", 3, seed=3),
    Checkpoint("half-apart", 3, seed=4),
    Checkpoint("half-apart", 10, seed=5),
)
STARTS = (UNSEEN[0], SEEN[2], SEEN[4], SEEN[9])  # of the trainings on the sets of the split
FINE_TUNED = [
    Checkpoint(f"{regime}-{SET_SIZE}", 5, seed=seed) for regime in REGIMES for seed in (1, 2)
]


def after(start: Checkpoint, training: Checkpoint) -> str:
    """Return the name of a training that starts from another."""
    return f"{start.name} > {training.name}"


# ---- make: what stage two needs -----------------------------------------------------------------


def make(folder: Path, collection: Path) -> None:
    """Write the split, the lists of queries, the texts and the encoders; search with BM25."""
    from interextra.store.folders import Store

    store = Store(folder / "cells")
    spec = f"beir:{_collection(folder / 'collection', collection)}"
    sets = _sets_of_split(folder, spec, store)
    sampled = _open(folder).with_training_sample()
    store.build(sampled.bm25)
    data = sampled.split.pool.source.open()
    out = folder / "train"
    out.mkdir(exist_ok=True)
    texts = [text[:PASSAGE_CHARACTERS] for text in data.passages.texts(slice(None))]
    _write(out / "passages.tsv.gz", zip(data.passages.doc_ids.to_pylist(), texts, strict=True))
    queries = pd.concat([data.queries(name) for name in ("train", "dev", "test", "apart")])
    _write(out / "queries.tsv.gz", queries[["query_id", "text"]].to_numpy())
    _write(out / "searched.tsv.gz", sampled.queries[["query_id"]].to_numpy())
    _write_lists(out, data, sets)
    _write_encoders(out, [*texts, *queries["text"]])
    shutil.copy(__file__, out / "train.py")


def _sets_of_split(folder: Path, spec: str, store: Any) -> dict[str, list[str]]:
    """Write a ReSTrain split; return the query_ids of its sets."""
    from interextra.own import splitting

    changed = {"size": SET_SIZE, "gate_split": "dev", "encoder": "minilm"}
    options = splitting.DEFAULTS | changed | {"other_encoder": "tf-idf"}
    split = splitting.split_of("restrain", spec, options)
    store.build(split)
    if not (folder / "split").exists():
        splitting.export(split, store, folder / "split", options)
    return split.sets(store)


def _write_lists(out: Path, data: Any, sets: dict[str, list[str]]) -> None:
    """Write the queries that each checkpoint is trained on, each with an answer."""
    train, apart = (data.queries(name)["query_id"].tolist() for name in ("train", "apart"))
    lists = {"train": train, "apart": apart, "mixed": train + apart}
    lists |= {"half": train[::2], "half-apart": apart[::2], **sets}
    qrels = pd.concat([data.qrels("train"), data.qrels("apart")])
    answers = qrels.drop_duplicates("query_id").set_index("query_id")["doc_id"]
    used = {checkpoint.pairs for checkpoint in (*SEEN, *UNSEEN, *FINE_TUNED)}
    for name in sorted(used - {"none"}):
        pairs = answers[lists[name]]
        _write(out / f"{name}.tsv.gz", pairs.items())
        print(f"{name}: {len(pairs):,} training queries")


def _collection(folder: Path, source: Path) -> Path:
    """Write MedQuAD with N_TRAIN of its training queries in `train`, the others in `apart`."""
    if folder.exists():
        return folder
    (folder / "qrels").mkdir(parents=True)
    for path in source.glob("*.jsonl*"):
        shutil.copy(path, folder / path.name)
    for split in ("dev", "test"):
        shutil.copy(source / "qrels" / f"{split}.tsv", folder / "qrels" / f"{split}.tsv")
    header, *lines = (source / "qrels" / "train.tsv").read_text().splitlines(keepends=True)
    query_ids = sorted({line.split("\t")[0] for line in lines})
    drawn = np.random.default_rng(SEED).choice(query_ids, N_TRAIN, replace=False)
    trained = set(drawn.tolist())
    for split in ("train", "apart"):
        is_trained = split == "train"
        kept = [line for line in lines if (line.split("\t")[0] in trained) == is_trained]
        (folder / "qrels" / f"{split}.tsv").write_text(header + "".join(kept))
    return folder


def _open(folder: Path) -> Any:
    """Return the folder of the split; all its training queries are searched."""
    from interextra.own import splitting
    from interextra.own.split_folder import SplitFolder

    splitting.N_SAMPLED = N_TRAIN  # the test takes a sample of its own for each checkpoint
    return SplitFolder.open(folder / "split")


def _sample(sampled: Any, number: int) -> Any:
    """Return the folder with as many training queries as the test has, others for each number."""
    drawn = np.random.default_rng(number).choice(sampled.sampled_ids, N_SAMPLED, replace=False)
    return sampled._replace(sampled_ids=drawn.tolist())


def _write_encoders(out: Path, texts: Sequence[str]) -> None:
    """Copy both encoders; of MiniLM as few bytes as these texts need.

    Its weights are bfloat16, the vectors of tokens that no text has are 0, and the file is packed.
    """
    from safetensors.torch import load_file, save_file
    from transformers import AutoTokenizer

    from interextra.models.base import BASE, verified_minilm

    shutil.copytree(BASE, out / "tiny-base", dirs_exist_ok=True)
    source, target = Path(verified_minilm()), out / "minilm"
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(*NOT_NEEDED), dirs_exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(source)
    ids = tokenizer(list(texts), truncation=True, max_length=max(TOKENS.values()))["input_ids"]
    used = sorted({tokenizer.pad_token_id}.union(*ids))
    tensors = load_file(source / WEIGHTS)
    is_unused = torch.ones(len(tokenizer), dtype=torch.bool)
    is_unused[used] = False
    [name] = [name for name in tensors if name.endswith("word_embeddings.weight")]
    tensors[name][is_unused] = 0
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            tensors[name] = tensor.bfloat16()
    save_file(tensors, target / WEIGHTS, metadata={"format": "pt"})
    # of two bytes one has the exponent, which varies little
    pairs_of_bytes = {"id": lzma.FILTER_LZMA2, "preset": 6, "lc": 2, "lp": 1, "pb": 1}
    with lzma.open(target / PACKED, "wb", filters=[pairs_of_bytes]) as file:
        file.write((target / WEIGHTS).read_bytes())
    (target / WEIGHTS).unlink()


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write tab-separated lines."""
    with gzip.open(path, "wt", encoding="utf-8", compresslevel=9) as file:
        for row in rows:
            cells = [" ".join(cell.split()) for cell in row]
            file.write("\t".join(cells) + "\n")


def _read(path: Path) -> list[list[str]]:
    """Read tab-separated lines."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


# ---- train: torch and sentence-transformers alone -----------------------------------------------


class Tokens(NamedTuple):
    """Texts as an encoder reads them, on its device."""

    ids: Any  # int64[n, length]
    mask: Any  # int64[n, length]
    lengths: np.ndarray  # int[n], on the CPU

    def batch(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the features of some texts, cut to the longest of them."""
        longest = int(self.lengths[rows].max())
        at = torch.as_tensor(rows, device=self.ids.device)
        features = {"input_ids": self.ids, "attention_mask": self.mask}
        return {name: tensor[at, :longest] for name, tensor in features.items()}


class Trainer:
    """An encoder with the texts, trained and searched with."""

    def __init__(self, folder: Path, encoder: str, device: str):
        from sentence_transformers import SentenceTransformer

        packed = folder / encoder / PACKED
        if packed.exists():
            packed.with_name(WEIGHTS).write_bytes(lzma.decompress(packed.read_bytes()))
        self.model = SentenceTransformer(str(folder / encoder), device=device).float()
        self.device = device
        self.rate = RATES[encoder]
        self.base = self.state()
        queries = _read(folder / "queries.tsv.gz")
        passages = _read(folder / "passages.tsv.gz")
        self.row_of_query = {row[0]: number for number, row in enumerate(queries)}
        self.row_of_passage = {row[0]: number for number, row in enumerate(passages)}
        self.queries = self._tokens(queries, "query")
        self.passages = self._tokens(passages, "passage")
        searched = _read(folder / "searched.tsv.gz")
        self.searched = np.array([self.row_of_query[query_id] for [query_id] in searched])

    def _tokens(self, rows: Sequence[Sequence[str]], kind: str) -> Tokens:
        texts = [row[1] for row in rows]
        tokens = self.model.tokenizer(
            texts,
            padding="max_length",
            truncation=True,
            max_length=TOKENS[kind],
            return_tensors="pt",
        )
        mask = tokens["attention_mask"]
        lengths = mask.sum(dim=1).numpy()
        return Tokens(tokens["input_ids"].to(self.device), mask.to(self.device), lengths)

    def state(self) -> dict[str, Any]:
        """Return a copy of the weights."""
        return {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def train(self, start: dict[str, Any], pairs: np.ndarray, plan: Checkpoint) -> float:
        """Train on pairs int[n, 2] of rows; return the mean loss of the last epoch."""
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        self.model.load_state_dict(start)
        if not plan.epochs:
            return 0.0
        torch.manual_seed(plan.seed)
        rng = np.random.default_rng(plan.seed)
        rate = self.rate * plan.rate
        n_batches = len(pairs) // BATCH
        n_steps = plan.epochs * n_batches
        loss_of = MultipleNegativesRankingLoss(self.model)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            rate,
            total_steps=n_steps,
            pct_start=0.1,
            anneal_strategy="linear",
            cycle_momentum=False,
        )
        self.model.train()
        loss = torch.zeros(())
        for _ in range(plan.epochs):
            order = rng.permutation(len(pairs))[: n_batches * BATCH]
            total = torch.zeros((), device=self.device)
            for rows in order.reshape(n_batches, BATCH):
                queries, passages = pairs[rows].T
                features = [self.queries.batch(queries), self.passages.batch(passages)]
                loss = loss_of(features, None)
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                total += loss.detach()
            loss = total / n_batches
        return float(loss)

    def ranking(self) -> np.ndarray:
        """Return the rows of the first passages of each query to search, int16[n, DEPTH]."""
        self.model.eval()
        every_passage = np.arange(len(self.passages.lengths))
        passages = self._vectors(self.passages, every_passage)
        queries = self._vectors(self.queries, self.searched)
        scores = queries @ passages.T
        return scores.topk(DEPTH).indices.cpu().numpy().astype(np.int16)

    def _vectors(self, tokens: Tokens, rows: np.ndarray) -> Any:
        """Return the vectors of texts, of length 1."""
        parts = []
        with torch.no_grad():
            for part in np.array_split(rows, max(1, len(rows) // 512)):
                embedded = self.model(tokens.batch(part))["sentence_embedding"].float()
                parts.append(torch.nn.functional.normalize(embedded))
        return torch.cat(parts)


def train(folder: Path, out: Path, encoders: Sequence[str], only: Sequence[str]) -> None:
    """Write the rankings of each checkpoint, and of the trainings that start from some of them."""
    torch.set_float32_matmul_precision("high")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    out.mkdir(parents=True, exist_ok=True)
    for encoder in encoders:
        trainer = Trainer(folder, encoder, device)
        done = Done(out / f"{encoder}.npz")
        for plan in (*SEEN, *UNSEEN):
            if not only or plan.name in only:
                _train_from(trainer, folder, plan, done)
        done.write_log(device)


class Done:
    """The rankings that are there, written after each training; a stage that stopped goes on."""

    def __init__(self, path: Path):
        self.path = path
        self.log_path = path.with_suffix(".json")
        self.rankings = dict(np.load(path)) if path.exists() else {}
        self.log = json.loads(self.log_path.read_text()) if self.log_path.exists() else {}
        self.begin = time.perf_counter()

    def add(self, name: str, ranking: np.ndarray, loss: float) -> None:
        """Keep a ranking."""
        self.rankings[name] = ranking
        seconds = round(time.perf_counter() - self.begin, 1)
        self.log[name] = {"loss": round(loss, 4), "seconds": seconds}
        self.begin = time.perf_counter()
        np.savez_compressed(self.path, **self.rankings)
        self.log_path.write_text(json.dumps(self.log, indent=1))
        print(f"{self.path.stem}, {name}: loss {loss:.3f}, {seconds:.1f} s", flush=True)

    def write_log(self, device: str) -> None:
        """Add what it ran on."""
        name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
        self.log["machine"] = {"device": name, "torch": torch.__version__}
        self.log_path.write_text(json.dumps(self.log, indent=1))


def _train_from(trainer: Trainer, folder: Path, plan: Checkpoint, done: Done) -> None:
    """Train a checkpoint; from one of STARTS also on the sets of the split."""
    tunings = FINE_TUNED if plan in STARTS else []
    missing = [tuning for tuning in tunings if after(plan, tuning) not in done.rankings]
    if plan.name in done.rankings and not missing:
        return
    loss = trainer.train(trainer.base, _pairs(trainer, folder, plan), plan)
    if plan.name not in done.rankings:
        done.add(plan.name, trainer.ranking(), loss)
    start = trainer.state()
    for tuning in missing:
        loss = trainer.train(start, _pairs(trainer, folder, tuning), tuning)
        done.add(after(plan, tuning), trainer.ranking(), loss)


def _pairs(trainer: Trainer, folder: Path, plan: Checkpoint) -> np.ndarray:
    """Return the rows of the queries of a list and of their answers, int[n, 2]."""
    if not plan.epochs:
        return np.empty((0, 2), int)
    pairs = _read(folder / f"{plan.pairs}.tsv.gz")
    rows = [(trainer.row_of_query[q], trainer.row_of_passage[d]) for q, d in pairs]
    return np.array(rows)


# ---- table: what the test says ------------------------------------------------------------------


def table(folder: Path, out: Path) -> None:
    """Write what the test says of each checkpoint, and what a report says with and without it."""
    from interextra.own.values import values_of_run
    from interextra.store.folders import Store

    opened = _open(folder)
    sampled = opened.with_training_sample()
    store = Store(folder / "cells")
    store.build(sampled.bm25)
    baseline = values_of_run(sampled.read(sampled.bm25, store), sampled, [MEASURE])
    rows, reports = [], []
    for path in sorted(out.glob("*.npz")):
        values = dict(_values(path, folder, sampled))
        rows += list(_rows_of(path.stem, values, sampled, baseline))
        reports += list(_reports(path.stem, values, opened, baseline))
    seen = pd.DataFrame(rows)
    found = seen.groupby(["encoder", "has_seen"], as_index=False)["found"].agg(["size", "sum"])
    tables = {"seen": seen, "found": found, "regimes": pd.DataFrame(reports)}
    for name, frame in tables.items():
        frame.to_csv(
            out / f"{name}.csv", index=False, float_format="%.5g", quoting=csv.QUOTE_MINIMAL
        )
        print(frame.to_string(index=False, float_format="%.4f"), "\n")


def _values(path: Path, folder: Path, sampled: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of each ranking of a file, by its name."""
    from interextra.data.runs import RunFile
    from interextra.own.values import values_of_run

    doc_ids = [row[0] for row in _read(folder / "train" / "passages.tsv.gz")]
    query_ids = [row[0] for row in _read(folder / "train" / "searched.tsv.gz")]
    for name, rows in np.load(path).items():
        scores = np.broadcast_to(-np.arange(DEPTH, dtype=np.float32), rows.shape)
        run = RunFile.from_arrays(query_ids, doc_ids, rows.astype(np.int64), scores)
        yield name, values_of_run(run, sampled, [MEASURE])


def _rows_of(encoder: str, values: Any, sampled: Any, baseline: Any) -> Iterator[dict[str, Any]]:
    """Yield what the test says of each checkpoint that is there."""
    from interextra.own.seen import has_seen

    bm25 = baseline.set_index("query_id")["value"]
    for number, plan in enumerate((*SEEN, *UNSEEN)):
        if plan.name not in values:
            continue
        asked = _sample(sampled, number)
        result = has_seen(asked, values[plan.name], baseline, MEASURE)
        of_query = values[plan.name].set_index("query_id")["value"]
        yield {
            "encoder": encoder,
            "has_seen": plan in SEEN,
            **plan._asdict(),
            "training": of_query[asked.sampled_ids].mean(),
            "held_out": of_query[sampled.gate_ids].mean(),
            "bm25_training": bm25[asked.sampled_ids].mean(),
            "bm25_held_out": bm25[sampled.gate_ids].mean(),
            "difference": result.difference,
            "low": result.low,
            "high": result.high,
            "p_value": result.p_value,
            "detects": result.detects,
            "found": result.is_shown,
            "n_training": result.n_training,
            "n_held_out": result.n_held_out,
        }


def _reports(encoder: str, values: Any, opened: Any, baseline: Any) -> Iterator[dict[str, Any]]:
    """Yield what the report of a split says of each start, without the test and with it."""
    from interextra.own import regimes
    from interextra.own.seen import Given, has_seen
    from interextra.own.values import join_trainings

    sampled = opened.with_training_sample()
    nearest = regimes.nearest_training_queries(opened, "lsa")
    for start in STARTS:
        trained = {}
        for tuning in FINE_TUNED:
            name = after(start, tuning)
            if name in values:
                of_test = values[name]["query_id"].isin(opened.queries["query_id"])
                trained[tuning.pairs, str(tuning.seed)] = values[name][of_test]
        if len(trained) < len(FINE_TUNED):
            continue
        joined = join_trainings(trained, opened)
        asked = _sample(sampled, (*SEEN, *UNSEEN).index(start))
        seen = has_seen(asked, values[start.name], baseline, MEASURE)
        given = Given(values[start.name], seen)
        for tested, before in (("no", None), ("yes", given)):
            report = regimes.report(opened, joined, baseline, nearest, 0.05, 1, 10_000, before)
            change = report.changes.iloc[0]
            loss = report.claims.set_index("claim").loc["loss"]
            yield {
                "encoder": encoder,
                "start": start.name,
                "tested": tested,
                **change[[*REGIMES, "change", "low", "high"]].to_dict(),
                "verdict": loss["verdict"],
                "size": loss["size"],
                "first_sentence": report.sentences[0],
            }


def main() -> None:
    """Run a stage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    stages = parser.add_subparsers(dest="stage")
    making = stages.add_parser("make")
    making.add_argument("folder", type=Path)
    making.add_argument("--collection", type=Path, required=True, help="MedQuAD in BEIR's layout")
    training = stages.add_parser("train")
    training.add_argument("folder", type=Path)
    training.add_argument("out", type=Path)
    training.add_argument("--encoders", nargs="+", default=list(RATES))
    training.add_argument("--only", nargs="+", default=[], help="names of checkpoints")
    telling = stages.add_parser("table")
    telling.add_argument("folder", type=Path)
    telling.add_argument("out", type=Path)
    args = parser.parse_args()
    if args.stage == "make":
        make(args.folder, args.collection)
    elif args.stage == "train":
        train(args.folder, args.out, args.encoders, args.only)
    elif args.stage == "table":
        table(args.folder, args.out)
    else:
        parser.print_help()


if __name__ == "__main__":
    main()

"""What the profile msmarco downloads, in miniature and in the true formats: no test needs a network.

`put(folder)` writes archives with the names and formats of MS MARCO and BEIR, a catalogue of
ir_datasets that names them with their checksums, and models of the hub. A process with the
variables of `Stub.environment` downloads these instead of the real ones, by the real code:

    python tests/toy_downloads.py FOLDER [TRAIN]   # then: source FOLDER/environment.sh
    interextra fetch --profile msmarco             # from nothing; --check first
    interextra plan --profile msmarco

TRAIN is the number of training queries (default: as many as MS MARCO has, which the sizes of the
profile need); everything else is tiny.
"""

import gzip
import hashlib
import io
import json
import os
import pkgutil
import random
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.numpy import load_file, save_file

from interextra.models.base import BASE
from interextra.models.hub import REVISIONS

HOME = "ir_datasets"
# Its copy in a process makes ir_datasets read the catalogue beside it
SITE = '''"""Makes ir_datasets read the catalogue beside this file."""

import pkgutil
from pathlib import Path

real = pkgutil.get_data


def get_data(package, resource):
    """Return a file of a package, of ir_datasets' list of downloads the one that lies here."""
    if (package, resource) == ("ir_datasets", "etc/downloads.json"):
        return Path(__file__).with_name("downloads.json").read_bytes()
    return real(package, resource)


pkgutil.get_data = get_data
'''
# As many of each group of question words as of the others, and some of none
OPENINGS = ("what is", "how does", "who made", "what", "how", "when came", "what are", "how is")
OPENINGS += ("where lies", "is")
ASPECTS = ("length", "cost", "history", "colour", "meaning", "use", "age")
# Passages that judged training queries share, and those of the other sets
N_PASSAGES = 2000
N_TRAIN, N_DEV, N_DL19, N_DL20 = 502_939, 6980, 43, 54
CQADUPSTACK = (
    *("android", "english", "gaming", "gis", "mathematica", "physics", "programmers", "stats"),
    *("tex", "unix", "webmasters", "wordpress"),
)
SPLITS = {"nfcorpus": ("train", "dev", "test"), "hotpotqa": ("train", "dev", "test")}
SPLITS |= {"fiqa": ("train", "dev", "test"), "fever": ("train", "dev", "test")}
SPLITS |= {
    "quora": ("dev", "test"),
    "dbpedia-entity": ("dev", "test"),
    "scifact": ("train", "test"),
}
METADATA = {
    **dict.fromkeys(("url", "pubmed_id", "stance", "description", "narrative", "query"), "x"),
    **{name: [] for name in ("authors", "cited_by", "references", "tags")},
    "year": 2000,
}
HUB = (
    *("bert-base-uncased", "distilbert-base-uncased", "roberta-base", "Luyu/condenser"),
    *("Luyu/co-condenser-wiki", "Luyu/co-condenser-marco", "nghuyong/ernie-2.0-base-en"),
    "sebastian-hofstaetter/distilbert-dot-margin_mse-T2-msmarco",
)


class Stub(NamedTuple):
    """A miniature of what is downloaded: files by checksum under `served`, and the catalogue."""

    folder: Path
    served: Path

    @property
    def environment(self) -> dict[str, str]:
        """Variables of a process that downloads these, from the folder of local copies."""
        paths = [str(self.folder / "site"), os.environ.get("PYTHONPATH", "")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "IR_DATASETS_HOME": str(self.folder / HOME),
            "IR_DATASETS_SMALL_FILE_SIZE": "0",  # looks for local copies of small files, too
            "IR_DATASETS_DL_DISABLE_PBAR": "true",
            "IR_DATASETS_DL_TRIES": "2",
            "INTEREXTRA_CACHE": str(self.folder / "cache"),
            "HF_HOME": str(self.folder / "hf"),
            "HF_HUB_OFFLINE": "1",
        }

    def serve_locally(self) -> None:
        """Put the files where ir_datasets looks for local copies before it asks a server."""
        shutil.copytree(self.served, self.folder / HOME / "downloads", dirs_exist_ok=True)

    def put_models(self) -> None:
        """Put a tiny model as each of the hub's, as an earlier fetch would have."""
        for model_id in HUB:
            put_model(self.folder / "hf" / "hub", model_id)


def put(
    folder: Path, n_train: int = 200, n_dev: int = N_DEV, address: str = "http://127.0.0.1:9"
) -> Stub:
    """Write the archives and the catalogue, in which `address` serves them by their checksums.

    The development queries are `n_dev`, or as many as the training queries where these are fewer.
    """
    served = folder / "served"
    served.mkdir(parents=True)
    stub = Stub(folder, served)
    catalogue = json.loads(pkgutil.get_data("ir_datasets", "etc/downloads.json"))
    for name, content in msmarco_files(n_train, n_dev).items():
        _serve(stub, catalogue["msmarco-passage"][name], content, address)
    for name in catalogue["beir"]:
        _serve(stub, catalogue["beir"][name], beir_archive(name), address)
    (folder / "site").mkdir()
    (folder / "site" / "sitecustomize.py").write_text(SITE)
    (folder / "site" / "downloads.json").write_text(json.dumps(catalogue))
    return stub


def _serve(stub: Stub, entry: dict, content: bytes, address: str) -> None:
    """Put a file under its checksum, and let an entry of the catalogue name it."""
    checksum = hashlib.md5(content).hexdigest()
    (stub.served / checksum).write_bytes(content)
    for name in ("download_args", "irds_mirror"):
        entry.pop(name, None)
    entry |= {"url": f"{address}/{checksum}", "expected_md5": checksum, "size_hint": len(content)}


def words_of(number: int) -> tuple[str, str]:
    """The two names that the passage of this number is about."""
    return f"thing{number % N_PASSAGES}", f"kind{number % 7}"


def passage(number: int) -> str:
    """Text of a passage: every aspect of its thing, and of no other."""
    thing, kind = words_of(number)
    aspects = " , ".join(f"{aspect} of {thing}" for aspect in ASPECTS)
    return f"{thing} is a {kind} : {aspects}"


def question(number: int) -> str:
    """Text of a query; its passage has its number. Half of them are short."""
    thing, kind = words_of(number)
    opening, aspect = OPENINGS[number % 10], ASPECTS[(number // N_PASSAGES) % 7]
    case = number // (7 * N_PASSAGES)
    if number % 3:
        return f"{opening} {aspect} {thing} {case}"
    return f"{opening} the {aspect} of {thing} , a {kind} , case {case}"


def msmarco_files(n_train: int, n_dev: int = N_DEV) -> dict[str, bytes]:
    """The downloads of MS MARCO passage by their names in the catalogue."""
    train = range(1_000_000, 1_000_000 + n_train)
    dev = range(2_000_000, 2_000_000 + min(n_dev, n_train))
    dl19 = range(3_000_000, 3_000_000 + N_DL19)
    dl20 = range(4_000_000, 4_000_000 + N_DL20)
    passages = "".join(f"{number}\t{passage(number)}\n" for number in range(N_PASSAGES))
    of_small_dev = {"queries.dev.small.tsv": _queries(dev), "qrels.dev.small.tsv": _qrels(dev)}
    return {
        "collectionandqueries": _tar({"collection.tsv": passages, **of_small_dev}),
        "queries": _tar({"queries.train.tsv": _queries(train), "queries.dev.tsv": _queries(dev)}),
        "train/qrels": _qrels(train).encode(),
        "trec-dl-2019/queries": gzip.compress(_queries(dl19).encode(), mtime=0),
        "trec-dl-2019/qrels": _graded(dl19).encode(),
        "trec-dl-2020/queries": gzip.compress(_queries(dl20).encode(), mtime=0),
        "trec-dl-2020/qrels": _graded(dl20).encode(),
    }


def _queries(numbers: range) -> str:
    return "".join(f"{number}\t{question(number)}\n" for number in numbers)


def _qrels(numbers: range) -> str:
    return "".join(f"{number}\t0\t{number % N_PASSAGES}\t1\n" for number in numbers)


def _graded(numbers: range) -> str:
    """Ten judged passages a query, of the grades 3 to 0."""
    rows = []
    for number in numbers:
        for rank in range(10):
            doc_id = (number + 13 * rank) % N_PASSAGES
            rows.append(f"{number} Q0 {doc_id} {max(0, 3 - rank)}\n")
    return "".join(rows)


def beir_archive(name: str) -> bytes:
    """The archive of a set of BEIR: twenty passages and ten queries a split."""
    inside = name.partition("/")[0]
    parts = [f"{inside}/{part}" for part in CQADUPSTACK] if inside == "cqadupstack" else [inside]
    files = {}
    for number, part in enumerate(parts):
        generator = random.Random(f"{name} {number}")
        names = [f"{generator.choice(ASPECTS)} item{n}" for n in range(20)]
        corpus = [
            {"_id": f"d{n}", "title": text, "text": f"about the {text}", "metadata": METADATA}
            for n, text in enumerate(names)
        ]
        queries = [
            {"_id": f"q{n}", "text": f"what is the {text}", "metadata": METADATA}
            for n, text in enumerate(names)
        ]
        files[f"{part}/corpus.jsonl"] = "".join(json.dumps(row) + "\n" for row in corpus)
        files[f"{part}/queries.jsonl"] = "".join(json.dumps(row) + "\n" for row in queries)
        for split in SPLITS.get(name, ("test",)) if name != "msmarco" else ("train", "dev", "test"):
            rows = "".join(f"q{n}\td{n}\t1\n" for n in range(10))
            files[f"{part}/qrels/{split}.tsv"] = f"query-id\tcorpus-id\tscore\n{rows}"
    return _zip(files)


def _tar(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _zip(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


def put_model(cache: Path, model_id: str) -> Path:
    """Put the tiny base, with 512 places, into the cache of the hub's library as this model."""
    revision = REVISIONS.get(model_id) or hashlib.sha1(model_id.encode()).hexdigest()
    kept = cache / f"models--{model_id.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True)
    (kept / "refs" / "main").write_text(revision)
    folder = kept / "snapshots" / revision
    write_model(folder)
    return folder


def write_model(folder: Path) -> None:
    """Write the tiny base with 512 places."""
    folder.mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BASE / name, folder)
    config = json.loads((BASE / "config.json").read_text()) | {"max_position_embeddings": 512}
    (folder / "config.json").write_text(json.dumps(config))
    weights = load_file(BASE / "model.safetensors")
    [places] = [name for name in weights if "position_embeddings" in name]
    weights[places] = np.tile(weights[places], (4, 1))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


class Hub:
    """Stands for the hub: put its `snapshot_download` in the place of the library's."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.downloads: list[tuple[str, str | None]] = []

    def snapshot_download(
        self, model_id: str, revision=None, allow_patterns=None, local_files_only=False
    ) -> str:
        """Return the folder of a model; put it there, where that is allowed."""
        kept = self.cache / f"models--{model_id.replace('/', '--')}"
        if not kept.exists():
            if local_files_only:
                raise LocalEntryNotFoundError(model_id)
            assert not [name for name in allow_patterns if name.endswith((".bin", ".py", "*"))]
            self.downloads.append((model_id, revision))
            put_model(self.cache, model_id)
        [folder] = (kept / "snapshots").iterdir()
        assert revision in (None, folder.name)
        return str(folder)


def main() -> None:
    """Write all of it, and a file of variables to source."""
    folder = Path(sys.argv[1]).absolute()
    stub = put(folder, int(sys.argv[2]) if len(sys.argv) > 2 else N_TRAIN)
    stub.serve_locally()
    stub.put_models()
    lines = [f"export {name}='{value}'\n" for name, value in stub.environment.items()]
    (folder / "environment.sh").write_text("".join(lines))
    print(f"source {folder / 'environment.sh'}")


if __name__ == "__main__":
    main()

"""What encoders cost: their sizes, their speed on a device, and memory.

The speeds stand in `throughput.yaml`, each with its source.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from interextra.models.base import shape_of
from interextra.store import InputError
from interextra.store.files import read_json

CHANGES_NO_RESULT = True  # see `store.code`
TABLE = Path(__file__).with_name("throughput.yaml")
QUERY_TOKENS = 12  # a usual query with its special tokens
PASSAGE_TOKENS = 180  # a paragraph, where no recipe cuts it
INDEXED_PER_SECOND = 8_000  # passages, measured: Lucene's indexing
MULTIPLICATIONS_PER_SECOND = 5e9  # of inner products, an estimate for one thread
RUN_ROW_MEGABYTES = 7e-6  # of a passage in a run, measured
FLOAT32_MEGABYTES = 4e-6

# Megabytes beside those of a small process: torch, transformers and sentence-transformers without
# any data; Java (its heap is 2 GB at most, see `search.lucene`); what CUDA takes of the machine's
# memory, not of the GPU's, an estimate
TORCH = 450.0
JAVA = 2_500.0
CUDA = 3_000.0
# blocks of passages, their vectors and scores: they are of the same size whatever is searched
SEARCHED_BLOCKS = 800.0
QUERY_MEGABYTES = 1e-3  # of a set of queries
RANKED_MEGABYTES = 120e-6  # of a passage of a query while a ranking is made
FUSED_MEGABYTES = 400e-6  # the same while runs are fused
TRAINED_COPIES = 4  # of the weights: themselves, gradients, two moments of AdamW
# float32 numbers that are kept of each token for the backward pass: so many times the dimension in
# a layer, and so many times the vocabulary where each token has a logit for every word
KEPT_BY_LAYER = 34
KEPT_BY_HEAD = 3


class Speed(NamedTuple):
    """Tokens a second, in training (forward and backward) and in encoding."""

    train_tokens: float
    encode_tokens: float


class Size(NamedTuple):
    """Size of an encoder.

    `device`: where it is trained and used, cpu or gpu; `megabytes`: of its weights.
    """

    name: str
    device: str
    dimension: int
    layers: int
    vocabulary: int
    megabytes: float

    def speed(self, architecture: str = "dense", train: str = "", encode: str = "") -> Speed:
        """Return the speed on its device: one core, or the GPU that `on_gpu` names.

        Parameters
        ----------
        train, encode
            Precisions, bf16 or fp32, where these decide.
        """
        device = _gpu.get() if self.device == "gpu" else "cpu"
        table = throughput(device)
        speeds = table[self.name]
        measured = speeds.get(architecture, speeds["dense"])
        ratio = table.get("times", {})
        train_tokens = measured["train"] * ratio.get(train or "bf16", 1.0)
        encode_tokens = measured["encode"] * ratio.get(encode or "fp32", 1.0)
        return Speed(train_tokens, encode_tokens)

    @property
    def train_tokens(self) -> float:
        """Tokens a second in the training of a dense retriever."""
        return self.speed().train_tokens

    @property
    def encode_tokens(self) -> float:
        """Tokens a second that a dense retriever encodes."""
        return self.speed().encode_tokens

    def open_megabytes(self) -> float:
        """Return the memory that such an encoder adds to a process that opens it."""
        on_device = CUDA if self.device == "gpu" else 0.0
        return TORCH + on_device + self.megabytes

    def training_megabytes(self, tokens: int, has_head: bool = False) -> float:
        """Estimate the memory that its training adds to a process.

        Parameters
        ----------
        tokens
            Of a batch.
        has_head
            Whether each token has a logit for every word.
        """
        if self.device == "gpu":  # where the copies are, and what is kept of a batch
            return self.open_megabytes() + self.megabytes
        kept = KEPT_BY_LAYER * self.layers * self.dimension
        if has_head:
            kept += KEPT_BY_HEAD * self.vocabulary
        batch = tokens * kept * FLOAT32_MEGABYTES
        return self.open_megabytes() + TRAINED_COPIES * self.megabytes + batch

    def searching_megabytes(self) -> float:
        """Estimate what encoding and scoring passages block by block adds to a process."""
        return self.open_megabytes() + SEARCHED_BLOCKS


SIZES = {
    "tiny": Size("tiny", "cpu", 64, 2, 4_000, 1.6),
    "minilm": Size("minilm", "cpu", 384, 6, 30_522, 62.0),
    "base": Size("base", "gpu", 768, 12, 30_522, 440.0),
}

NO_SIZE = Size("", "cpu", 0, 0, 0, 0.0)  # of BM25

_gpu: ContextVar[str] = ContextVar("_gpu", default="h100")


@contextmanager
def on_gpu(name: str) -> Iterator[None]:
    """Price what a GPU computes by a GPU of this name in a block, see `throughput`."""
    throughput(name)
    token = _gpu.set(name)
    try:
        yield
    finally:
        _gpu.reset(token)


def size_of(initialisation: str) -> Size:
    """Return the size of an initialisation.

    It is that of our own base, of MiniLM (by the name of a folder or hub id), else of BERT-base.
    """
    shape = shape_of(initialisation)
    if shape == "tiny-base":
        return SIZES["tiny"]
    if "minilm" in Path(shape).name.lower():
        return SIZES["minilm"]
    return SIZES["base"]


@cache
def throughput(device: str) -> dict[str, Any]:
    """Return what `throughput.yaml` has of a device, or a file that bench/throughput.py wrote.

    Raises
    ------
    InputError
        An unknown name, or no such file.
    """
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    if device.endswith(".json"):
        return _measured_elsewhere(device)
    if device not in table:
        gpus = ", ".join(sorted(table.keys() - {"cpu"}))
        raise InputError(
            f"no speeds of {device!r}: known are {gpus}; or give the JSON that "
            "`python bench/throughput.py --out FILE.json` writes on yours"
        )
    found = table[device]
    if "as" in found:
        return table[found["as"]] | found
    return found


def _measured_elsewhere(path: str) -> dict[str, Any]:
    """Return the speeds in a file of bench/throughput.py, as the table has them."""
    try:
        measured = read_json(path)
        speeds = {}
        for row in measured["recipes"]:
            architecture = row["recipe"].removeprefix("msmarco-")
            speeds[architecture] = {"train": row["train_tokens"], "encode": row["encode_tokens"]}
        speeds["dense"]  # by which others are priced
        return {"source": f"measured on {measured['device']}: {path}", "base": speeds}
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: not the speeds of a device ({error}); write them there with "
            "`python bench/throughput.py --out FILE.json`"
        ) from None

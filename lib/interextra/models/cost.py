"""What models cost: seconds of one core and megabytes on disk, estimated before anything is computed."""

from pathlib import Path
from typing import NamedTuple

QUERY_TOKENS = 12  # a usual query with its special tokens
INDEXED = 8_000  # passages a second, measured: Lucene's indexing
BM25_QUERY = 0.01  # seconds, measured, at most
INNER_PRODUCTS = 5e9  # multiplications a second, an estimate for one thread
RUN_ROW = 7e-6  # megabytes of a passage in a run, measured
NUMBER = 4e-6  # megabytes of a float32


class Size(NamedTuple):
    """Tokens a second through an encoder, forward and backward or forward only; its dimensions; megabytes of weights.

    The speeds of `tiny` and `minilm` are measured on one thread of a 2-core CPU; those of `base-gpu` are an estimate,
    for BERT-base with half precision on one recent GPU.
    """

    train_tokens: float
    encode_tokens: float
    dimension: int
    megabytes: float


SIZES = {
    "tiny": Size(90_000, 200_000, 64, 1.6),
    "minilm": Size(2_500, 9_000, 384, 62.0),
    "base-gpu": Size(150_000, 450_000, 768, 440.0),
}


def size_of(initialisation: str) -> Size:
    """The size of an initialisation: our own, MiniLM by name, folder or hub id, else BERT-base.

    >>> size_of("hub/all-MiniLM-L6-v2") == size_of("minilm:layers=2") == SIZES["minilm"]
    True
    """
    if initialisation in ("tiny-base", "random"):
        return SIZES["tiny"]
    return SIZES["minilm" if "minilm" in Path(initialisation).name.lower() else "base-gpu"]

"""Exact search by brute force: passages stream through in blocks, nothing of the size of the corpus stays in memory.

The one exception is the order of the doc_ids (4 bytes a passage), which settles ties.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

PADDING = -1
Block = dict[str, np.ndarray]  # what a model keeps of some passages, as named arrays
_ORDERS: WeakKeyDictionary = WeakKeyDictionary()
_LOWEST = np.iinfo(np.int64).min


def tie_order(passages) -> tuple[np.ndarray, np.ndarray]:
    """Rows by doc_id descending, and each row's place in that order: trec_eval ranks ties by doc_id descending.

    Returns
    -------
    (rows int32[n], place int32[n])
        `place[rows[i]] == i`; the smaller place wins a tie. Computed once for each collection.
    """
    if passages not in _ORDERS:
        import pyarrow.compute as pc

        # Arrow compares UTF-8 bytes, as strcmp in trec_eval does
        rows = np.asarray(pc.sort_indices(passages.doc_ids, sort_keys=[("", "descending")])).astype(np.int32)
        place = np.empty_like(rows)
        place[rows] = np.arange(len(rows), dtype=np.int32)
        _ORDERS[passages] = rows, place
    return _ORDERS[passages]


def device() -> str:
    """`cuda` where there is a GPU, else `cpu`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def devices() -> list[str]:
    """Devices to encode on: INTEREXTRA_DEVICES (comma-separated), else every GPU, else the CPU."""
    import torch

    named = [name for name in os.environ.get("INTEREXTRA_DEVICES", "").split(",") if name]
    return named or [f"cuda:{i}" for i in range(torch.cuda.device_count())] or ["cpu"]


class Kept:
    """Blocks of arrays in a folder, each beside a seal with its checksum; without a valid seal a block does not exist.

    Parameters
    ----------
    folder : None keeps nothing.
    key : what the blocks are made from (model, collection, queries); blocks of another key are not found.
    """

    def __init__(self, folder: str | Path | None, key: str):
        self._folder = None if folder is None else Path(folder) / hashlib.sha256(key.encode()).hexdigest()[:16]

    def read(self, name: str) -> Block | None:
        """The block, or None where it is missing or damaged."""
        if self._folder is None:
            return None
        try:
            content = (self._folder / f"{name}.npz").read_bytes()
            seal = json.loads((self._folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        if hashlib.sha256(content).hexdigest() != seal.get("sha256"):
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
            return dict(arrays)

    def write(self, name: str, block: Block) -> None:
        """Write a block aside and rename it; the seal comes last."""
        if self._folder is None:
            return
        content = io.BytesIO()
        np.savez(content, **block)
        self._folder.mkdir(parents=True, exist_ok=True)
        seal = json.dumps({"sha256": hashlib.sha256(content.getbuffer()).hexdigest()}).encode()
        for suffix, data in ((".npz", content.getbuffer()), (".json", seal)):
            path = self._folder / f"{name}{suffix}"
            aside = path.with_name(f"{path.name}.tmp{os.getpid()}")
            aside.write_bytes(data)
            os.replace(aside, path)

    def drop(self, name: str) -> None:
        """Remove a block, its seal first."""
        if self._folder is not None:
            (self._folder / f"{name}.json").unlink(missing_ok=True)
            (self._folder / f"{name}.npz").unlink(missing_ok=True)


def digest(texts: Sequence[str]) -> str:
    """SHA-256 of a list of texts."""
    return hashlib.sha256(json.dumps(list(texts)).encode()).hexdigest()


def blocks(
    passages, encode: Callable[[list[str]], Block], block_size: int, embeddings: Kept, first: int = 0
) -> Iterator[tuple[int, int, Block]]:
    """(start, stop, block) of the passages from row `first` on: a kept block is read, any other encoded and kept."""
    for start in range(first, len(passages), block_size):
        stop = min(start + block_size, len(passages))
        name = f"{start:010d}-{stop:010d}"
        block = embeddings.read(name)
        if block is None:
            block = encode(passages.texts(slice(start, stop)))
            embeddings.write(name, block)
        yield start, stop, block


def exact_search(
    passages,
    encode: Callable[[list[str]], Block],
    open_block: Callable[[Block], Callable[[slice], "object"]],
    n_queries: int,
    k: int,
    block_size: int = 8192,
    query_block: int = 2048,
    embeddings: Kept | None = None,
    state: Kept | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The k passages of highest score for each query, exactly: encode a block, score it, merge it, forget it.

    Parameters
    ----------
    encode
        texts of some passages → their block.
    open_block
        block → function from a slice of the queries to their scores, a float32 tensor [queries, passages of the block].
    query_block
        Queries scored at once: bounds memory to query_block × block_size scores.
    embeddings
        Where blocks are kept and found again.
    state
        Where the running top k is kept after each block, so that a search that was interrupted goes on there;
        dropped at the end.

    Returns
    -------
    (rows int32[n, k], scores float32[n, k])
        By score descending, then doc_id descending. Fewer than k passages: row -1, score -inf.
    """
    embeddings, state = embeddings or Kept(None, ""), state or Kept(None, "")
    found = state.read("state") or {"best": None, "next": 0}
    best = Best(passages, n_queries, k, found["best"])
    for start, stop, block in blocks(passages, encode, block_size, embeddings, int(found["next"])):
        scores = open_block(block)
        for at in range(0, n_queries, query_block):
            here = slice(at, min(at + query_block, n_queries))
            best.merge(here, start, scores(here))
        state.write("state", {"best": best.keys.cpu().numpy(), "next": np.array(stop)})
    state.drop("state")
    return best.result()


class Best:
    """The running k best passages of each query; `keys` (int64[n, k], on the device) is all there is to keep of it.

    Score and place are packed into one integer, so that one comparison ranks by score and then by doc_id.
    """

    def __init__(self, passages, n_queries: int, k: int, keys: np.ndarray | None = None):
        import torch

        self._place = tie_order(passages)[1]
        self.keys = torch.as_tensor(np.full((n_queries, k), _LOWEST) if keys is None else keys).to(device())

    def merge(self, queries: slice, start: int, scores) -> None:
        """Take in scores, float32[queries, m], of the m passages from row `start` on; -inf leaves a pair out."""
        import torch

        k, m = self.keys.shape[1], scores.shape[1]
        low = torch.as_tensor(0x7FFFFFFF - self._place[start : start + m].astype(np.int64)).to(scores.device)
        keys = torch.cat([self.keys[queries], _candidates(scores, low, min(k, m))], dim=1)
        self.keys[queries] = keys.topk(k, dim=1).values

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows int32[n, k], scores float32[n, k]); padding is row -1 with score -inf."""
        return _unpack(self.keys.cpu().numpy(), self._place)


def _candidates(scores, low, k: int):
    """Packed keys of the k best columns of `scores`, ties by the larger `low`."""
    import torch

    top, columns = scores.topk(k, dim=1)
    keys = _pack(top, low[columns])
    # torch.topk picks any of the tied scores at the cut: where more reach the last score, weigh all of them
    unsure = ((scores >= top[:, -1:]).sum(dim=1) > k).nonzero().squeeze(1)
    for some in torch.split(unsure, 256):
        keys[some] = _pack(scores[some], low.expand(len(some), -1)).topk(k, dim=1).values
    return keys


def _pack(scores, low):
    import torch

    bits = (scores + 0.0).contiguous().view(torch.int32).to(torch.int64)  # + 0.0 turns -0.0 into 0.0
    ordered = torch.where(bits < 0, -(bits & 0x7FFFFFFF), bits)  # the order of the floats, as integers
    return torch.where(torch.isneginf(scores), _LOWEST, (ordered << 31) | low)


def _unpack(keys: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inverse = np.empty(len(place), dtype=np.int32)
    inverse[place] = np.arange(len(place), dtype=np.int32)
    padding = keys == _LOWEST
    rows = np.where(padding, PADDING, inverse[0x7FFFFFFF - np.where(padding, 0x7FFFFFFF, keys & 0x7FFFFFFF)])
    ordered = keys >> 31
    bits = np.where(ordered < 0, -ordered | 0x80000000, ordered).astype(np.uint32)
    return rows.astype(np.int32), np.where(padding, np.float32(-np.inf), bits.view(np.float32))

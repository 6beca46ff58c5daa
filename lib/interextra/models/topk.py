"""Exact search by brute force: passages stream through in blocks, nothing of the size of the corpus stays in memory.

The one exception is the order of the doc_ids (4 bytes a passage), which settles ties.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from weakref import WeakKeyDictionary

import numpy as np

PADDING = -1
_ORDERS: WeakKeyDictionary = WeakKeyDictionary()


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


def search_embeddings(
    queries: np.ndarray,
    blocks: Iterator[tuple[int, np.ndarray]],
    place: np.ndarray,
    k: int,
    query_block: int = 2048,
) -> tuple[np.ndarray, np.ndarray]:
    """The k passages of highest inner product for each query, exactly.

    Parameters
    ----------
    queries
        float32[n, d]
    blocks
        (first row, float32[m, d]) covering the corpus in any partition
    place
        `tie_order(passages)[1]`
    query_block
        Queries scored at once: bounds memory to query_block × m scores.

    Returns
    -------
    (rows int32[n, k], scores float32[n, k])
        By score descending, then doc_id descending. Fewer than k passages: row -1, score -inf.
    """
    import torch

    where = device()
    queries = torch.as_tensor(np.ascontiguousarray(queries, dtype=np.float32)).to(where)
    # score and place packed into one integer, so that one comparison ranks by score and then by doc_id
    best = torch.full((len(queries), k), torch.iinfo(torch.int64).min, dtype=torch.int64, device=where)
    for start, block in blocks:
        block = torch.as_tensor(block, dtype=torch.float32).to(where)
        low = torch.as_tensor(0x7FFFFFFF - place[start : start + len(block)].astype(np.int64)).to(where)
        for at in range(0, len(queries), query_block):
            here = slice(at, at + query_block)
            keys = _candidates(queries[here] @ block.T, low, min(k, len(block)))
            best[here] = torch.cat([best[here], keys], dim=1).topk(k, dim=1).values
    return _unpack(best.cpu().numpy(), place)


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
    return (ordered << 31) | low


def _unpack(keys: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    inverse = np.empty(len(place), dtype=np.int32)
    inverse[place] = np.arange(len(place), dtype=np.int32)
    padding = keys == np.iinfo(np.int64).min
    rows = np.where(padding, PADDING, inverse[0x7FFFFFFF - np.where(padding, 0x7FFFFFFF, keys & 0x7FFFFFFF)])
    ordered = keys >> 31
    bits = np.where(ordered < 0, -ordered | 0x80000000, ordered).astype(np.uint32)
    return rows.astype(np.int32), np.where(padding, np.float32(-np.inf), bits.view(np.float32))


def embedding_blocks(
    encode: Callable[[Sequence[str]], np.ndarray],
    passages,
    block_size: int,
    embeddings_dir: Path | None = None,
    key: str = "",
) -> Iterator[tuple[int, np.ndarray]]:
    """Blocks of passage embeddings, encoded on the way or read from `embeddings_dir`.

    With a folder, each block is kept as float32 .npy beside its checksum, under a name made from `key` (model and
    collection) and the block size; a block that is missing or damaged is encoded anew.
    """
    for start, texts in passages.batches(block_size):
        if embeddings_dir is None:
            yield start, encode(texts)
            continue
        folder = Path(embeddings_dir) / hashlib.sha256(f"{key}:{block_size}".encode()).hexdigest()[:16]
        path = folder / f"{start:010d}.npy"
        block = _read_block(path)
        if block is None:
            block = np.ascontiguousarray(encode(texts), dtype=np.float32)
            _write_block(path, block)
        yield start, block


def _read_block(path: Path) -> np.ndarray | None:
    seal = path.with_suffix(".json")
    if not (path.is_file() and seal.is_file()):
        return None
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return np.load(path, allow_pickle=False) if found == json.loads(seal.read_text())["sha256"] else None


def _write_block(path: Path, block: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.tmp{os.getpid()}.npy")
    np.save(aside, block, allow_pickle=False)
    with open(aside, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    os.replace(aside, path)
    seal = path.with_suffix(".json")
    note = seal.with_name(f"{seal.name}.tmp{os.getpid()}")
    note.write_text(json.dumps({"sha256": digest, "shape": list(block.shape)}))
    os.replace(note, seal)  # last: a block without a seal does not exist

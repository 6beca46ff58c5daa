"""What indexes over vectors take: bytes, memory at the peak, seconds; by formula.

Bytes are those that faiss writes for an index, and hardly differ from those that it holds.
"""

from typing import TYPE_CHECKING

import numpy as np

from interextra.store.errors import InputError

if TYPE_CHECKING:
    import faiss

BLOCK = 8192  # passages inserted at once
PRECISIONS = ("int8", "uint8", "binary", "ubinary")  # as sentence-transformers names them
_WRITTEN_AT_ONCE = 2**20  # bytes
# bytes in the graph of HNSW: of a link (int32), of a vector its level (int32) and offset (int64)
_LINK = 4
_LEVEL_AND_OFFSET = 4 + 8
_ID = 8  # bytes of a vector's number in an inverted list, and of a list's length
_FLOAT = 4  # bytes
# Blocks in memory at once: as read, as transformed or quantised with the steps on the way
_BLOCKS_HELD = 6
# Bytes in memory beside an index: of a vector its place in the order of insertion (int64), and what
# tells HNSW that it was visited or is being changed; of a query what faiss computes at once (4,096
# queries by 1,024 vectors)
_BESIDE_A_VECTOR = 8 + 6
_SCORES_AT_ONCE = 4096 * 1024 * _FLOAT
# Seconds in which HNSW inserts a vector, measured on one thread of a 2-core CPU that was busy with
# other work: among 8,000 vectors, of 64 and of 384 dimensions; what part of them grows with
# efConstruction, by 40 and 80; and the exponent of their growth: 0.14, 0.15, 0.22 and 0.30
# milliseconds among 8,000, 15,625, 31,250 and 62,500 vectors. Beyond them it is a guess
_FEW = 8_000
_VECTOR_SECONDS = 35e-6
_DIMENSION_SECONDS = 0.26e-6
_USUAL_EFFORT = 40  # efConstruction of faiss
_EFFORT_SHARE = 0.46
_GROWTH = 0.38


def quantised_bytes(precision: str, n: int, n_dimensions: int) -> int:
    """Return the bytes of the codes of n vectors, and of the ranges that restore them."""
    if precision.endswith("binary"):
        bytes_of_bits = (n_dimensions + 7) // 8
        return n * bytes_of_bits
    ranges = 2 * n_dimensions * _FLOAT
    return n * n_dimensions + ranges


def index_bytes(index: str, n: int, n_dimensions: int) -> int:
    """Estimate the bytes of an index over n vectors, before it is built.

    Exact for codes of a fixed length (Flat, SQ, PQ) and for `PRECISIONS`, but for what training
    adds (the matrices of PCA and OPQ); links of HNSW are as many as its levels let expect. What
    the formula does not know counts as `Flat`.

    Raises
    ------
    InputError
        An index that faiss cannot make.
    """
    if index in PRECISIONS:
        return quantised_bytes(index, n, n_dimensions)
    empty = _empty(index, n_dimensions)
    n_bytes = bytes_of_vectors(empty, n)
    if n_bytes is None:
        n_bytes = n * n_dimensions * _FLOAT
    return written_bytes(empty) + n_bytes


def peak_bytes(index: str, n: int, n_dimensions: int) -> int:
    """Estimate the bytes that building an index over n vectors and searching it add to a process.

    They are those of the index and of blocks. Lists of IVF, whose lengths nobody knows before,
    double as they grow.
    """
    n_bytes = index_bytes(index, n, n_dimensions)
    if "IVF" in index:
        n_bytes *= 2
    blocks = _BLOCKS_HELD * BLOCK * n_dimensions * _FLOAT
    return n_bytes + n * _BESIDE_A_VECTOR + blocks + _SCORES_AT_ONCE


def build_seconds(index: str, parameters: str, n: int, n_dimensions: int) -> float:
    """Estimate the seconds of one core in which a graph over n vectors is built.

    The links of a vector hardly count: 96 take a sixth more than 32. Other indexes are built in no
    time beside that of a search.
    """
    if index in PRECISIONS:
        return 0.0
    empty = _empty(index, n_dimensions, parameters)
    graph = _graph_of(empty)
    if graph is None:
        return 0.0
    of_vectors = _VECTOR_SECONDS + n_dimensions * _DIMENSION_SECONDS
    of_effort = 1 - _EFFORT_SHARE + _EFFORT_SHARE * graph.efConstruction / _USUAL_EFFORT
    return n * of_vectors * of_effort * (n / _FEW) ** _GROWTH


def _empty(index: str, n_dimensions: int, parameters: str = "") -> "faiss.Index":
    """Return an index without vectors; InputError where faiss makes none."""
    import faiss

    try:
        empty = faiss.index_factory(n_dimensions, index, faiss.METRIC_INNER_PRODUCT)
        faiss.ParameterSpace().set_index_parameters(empty, parameters)
    except RuntimeError:
        raise InputError(
            f"faiss makes no index {index!r} of {n_dimensions} dimensions with {parameters!r}"
        ) from None
    return empty


def _graph_of(index: "faiss.Index") -> "faiss.HNSW | None":
    """Return the graph of an index, also behind a transformation; None where it has none."""
    import faiss

    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return _graph_of(index.index)
    return index.hnsw if isinstance(index, faiss.IndexHNSW) else None


def written_bytes(index: "faiss.Index") -> int:
    """Return the bytes that faiss writes for an index; no more than a block of them is held."""
    import faiss

    n_bytes = 0

    def count(written: bytes) -> None:
        """Count what is written."""
        nonlocal n_bytes
        n_bytes += len(written)

    faiss.write_index(index, faiss.PyCallbackIOWriter(count, _WRITTEN_AT_ONCE))
    return n_bytes


def bytes_of_vectors(index: "faiss.Index", n: int) -> int | None:
    """Return the bytes that n vectors add to what faiss writes for an empty index.

    Those of links in HNSW and of lists in IVF are counted where the index holds the vectors,
    and expected where it is empty. None for other kinds than codes of a fixed length, alone or
    behind a transformation, in a graph or in lists.
    """
    import faiss

    index = faiss.downcast_index(index)
    if isinstance(index, faiss.IndexPreTransform):
        return bytes_of_vectors(index.index, n)
    if isinstance(index, faiss.IndexHNSW):
        n_bytes = bytes_of_vectors(index.storage, n)
        graph = n_links(index.hnsw, n) * _LINK + n * _LEVEL_AND_OFFSET
        return None if n_bytes is None else n_bytes + graph
    if isinstance(index, faiss.IndexIVF):
        lists = faiss.downcast_InvertedLists(index.invlists)
        if not isinstance(lists, faiss.ArrayInvertedLists):
            return None
        return n * (index.code_size + _ID) + _bytes_of_lists(index)
    if isinstance(index, faiss.IndexFlatCodes):
        return n * index.code_size
    return None


def n_links(graph: "faiss.HNSW", n: int) -> int:
    """Return the places for links in a graph of n vectors, expected where there is none yet."""
    import faiss

    if graph.neighbors.size():
        return graph.neighbors.size()
    share_of_level = faiss.vector_to_array(graph.assign_probas)
    links_up_to_level = faiss.vector_to_array(graph.cum_nneighbor_per_level)
    links_of_a_vector = share_of_level @ links_up_to_level[1 : len(share_of_level) + 1]
    return round(n * links_of_a_vector)


def _bytes_of_lists(index: "faiss.IndexIVF") -> int:
    """Return the bytes of the lengths of lists, and of their centres where they are to come.

    faiss writes all lengths, or where most lists are empty the number and length of the others.
    """
    n_lists = index.nlist
    if not index.ntotal:
        n_centres = n_lists - index.quantizer.ntotal
        return n_lists * _ID + (bytes_of_vectors(index.quantizer, n_centres) or 0)
    lengths = np.array([index.invlists.list_size(number) for number in range(n_lists)])
    n_filled = np.count_nonzero(lengths)
    return _ID * (n_lists if n_filled > n_lists // 2 else 2 * n_filled)

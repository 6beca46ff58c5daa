"""Training that repeats: what torch is told for it, and how the process had it before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from interextra.models.search.topk import device

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def reproducible() -> Iterator[None]:
    """Within it the same training gives the same bytes; after it torch is as it was, also after an
    error.

    On the CPU one thread computes, unless OMP_NUM_THREADS says how many, since two threads do not
    sum as one does.
    """
    import torch

    threads, fills = torch.get_num_threads(), torch.utils.deterministic.fill_uninitialized_memory
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    workspace = os.environ.get(CUBLAS)
    try:
        if device() == "cpu" and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        os.environ.setdefault(CUBLAS, ":4096:8")  # CUDA's matrix products repeat only with it
        torch.use_deterministic_algorithms(True, warn_only=True)
        torch.utils.deterministic.fill_uninitialized_memory = (
            False  # nothing here reads memory not written before
        )
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic, warn_only=warned_only)
        torch.utils.deterministic.fill_uninitialized_memory = fills
        torch.set_num_threads(threads)
        if workspace is None:
            os.environ.pop(CUBLAS, None)

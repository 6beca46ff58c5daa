"""Training that repeats: the settings of torch for it, and a way back to those before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from interextra.models.search.topk import device

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def reproducible() -> Iterator[None]:
    """Make the same training give the same bytes; afterwards torch is as it was, also on an error.

    On the CPU one thread computes, unless OMP_NUM_THREADS says how many, since two threads do not
    sum as one does.

    Raises
    ------
    RuntimeError
        In the block: an operation of which the device has none that repeats.
    """
    import torch

    n_threads = torch.get_num_threads()
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    warned_only = torch.is_deterministic_algorithms_warn_only_enabled()
    filled_memory = torch.utils.deterministic.fill_uninitialized_memory
    workspace = os.environ.get(CUBLAS)
    try:
        if device() == "cpu" and "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(1)
        os.environ.setdefault(CUBLAS, ":4096:8")  # CUDA's matrix products repeat only with it
        # not only warned of: attention on a GPU repeats only where the rest must
        torch.use_deterministic_algorithms(True)
        # nothing here reads memory that was not written before
        torch.utils.deterministic.fill_uninitialized_memory = False
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic, warn_only=warned_only)
        torch.utils.deterministic.fill_uninitialized_memory = filled_memory
        torch.set_num_threads(n_threads)
        if workspace is None:
            os.environ.pop(CUBLAS, None)

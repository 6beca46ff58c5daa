"""One thread a process: tests start the JVM and train models side by side, and the workers of a run
do the same.
"""

import gc
import os

from interextra.store.processor import instructions

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
)
os.environ.update(instructions() | dict(os.environ))  # before numpy and torch are loaded
os.environ["NUMBA_DISABLE_JIT"] = (
    "1"  # ranx fuses the few rows of a test sooner than numba compiles it
)


def pytest_collection_modifyitems(items):
    """The notebooks first: they take longest, and with two processes the other files fill the
    second one.
    """
    items.sort(key=lambda item: item.path.name != "test_notebooks.py")


def pytest_collection_finish():
    """Every training starts with a garbage collection: seconds each, unless what is imported is
    left out of it.
    """
    gc.collect()
    gc.freeze()

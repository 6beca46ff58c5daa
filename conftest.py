"""One thread a process: tests start the JVM and train models side by side, and the workers of a run do the same."""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))


def pytest_collection_modifyitems(items):
    """The notebooks first: they take longest, and with two processes the other files fill the second one."""
    items.sort(key=lambda item: item.path.name != "test_notebooks.py")

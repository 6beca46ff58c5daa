"""One thread a process: tests start the JVM and train models side by side, and the workers of a run do the same."""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))

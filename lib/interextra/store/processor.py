"""The same arithmetic on processors with and without AVX-512.

Sums in another order train another model: the libraries are told which instructions to use before
they are loaded. `import interextra` tells them nothing; the command line and the worker processes,
which are our own, do.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

CPU = Path("/proc/cpuinfo")
INSTRUCTIONS = {
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "FAISS_OPT_LEVEL": "AVX2",
    "FAISS_SIMD_LEVEL": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",  # torch
    "OPENBLAS_CORETYPE": "Haswell",  # numpy's matrices
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
}


def instructions() -> dict[str, str]:
    """Return environment variables that hold fp32 arithmetic alike; none on other processors."""
    has_avx2 = CPU.is_file() and " avx2 " in CPU.read_text(encoding="utf-8")
    return dict(INSTRUCTIONS) if has_avx2 else {}


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables during a block, for processes that are started in it."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

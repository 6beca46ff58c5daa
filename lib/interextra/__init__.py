"""interextra: do neural retrievers interpolate or extrapolate?

The front door: `import interextra as ix`, and five verbs. A *design* is a frame of runs,
`nb.measure` gives their values per query, `ix.effects` a table of effects with intervals, its
`beside` puts the published figures beside it, and `ix.figures` draws it. What else there is stands
in the rooms, each importing those before it only: store, stats, data and world, splits, models,
measures and overlap, papers, claims, own, notebooks, site (`from interextra.models.search.run
import Run`).
"""

import importlib
import os
from pathlib import Path

__version__ = "0.2.0"

# The instructions that the libraries choose for arithmetic in fp32, held alike on x86 processors
# with and without AVX-512: sums in another order train another model. To be set before the
# libraries are loaded.
_INSTRUCTIONS = dict.fromkeys(
    ("MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "FAISS_OPT_LEVEL", "FAISS_SIMD_LEVEL"), "AVX2"
)
_INSTRUCTIONS |= {
    "ATEN_CPU_CAPABILITY": "avx2",
    "OPENBLAS_CORETYPE": "Haswell",
}  # torch; numpy's matrices
_INSTRUCTIONS["NPY_DISABLE_CPU_FEATURES"] = "X86_V4 AVX512_ICL AVX512_SPR"
if (_cpu := Path("/proc/cpuinfo")).is_file() and " avx2 " in _cpu.read_text(encoding="utf-8"):
    os.environ.update(_INSTRUCTIONS | dict(os.environ))

_DEFINITIONS = {
    "data.load": ["open_collection"],
    "data.runs": ["RunFile"],
    "splits.split": ["REGIMES"],
    "own.probe": ["probe"],
    "splits.resttest": ["in_regimes"],
    "stats.effects": ["across", "effects", "shown"],
    "stats.tests": ["tests"],
    "stats.formatting": ["with_interval"],
    "models.model": ["fit", "load_model"],
    "models.recipe": ["load_recipe"],
    "models.search.run": [
        "Fused",
        "Imported",
        "Run",
        "Searched",
    ],  # to search with, in a design of one's own
    "claims.verdicts": ["leads"],
    "site.session": ["start"],
    "site.answers": ["answer"],
}
_MODULES = ["figures", "papers.published", "papers.published_models", "papers.releases"]
_NOTEBOOKS = {
    "start_here": "n00_start_here",
    "restrain": "n02_restrain",
    "resttest": "n03_resttest",
    "shifts": "n04_shifts",
    "architectures": "n05_architectures",
    "pretraining": "n06_pretraining",
    "indicators": "n07_indicators",
    "correlation": "n08_correlation",
    "exposure": "n09_exposure",
    "compression": "n10_compression",
    "pool_bias": "n11_pool_bias",
}
# Name → what it stands for, loaded when it is used, so that nothing heavy is imported for nothing.
FRONT = {
    name: f"interextra.{module}:{name}" for module, names in _DEFINITIONS.items() for name in names
}
FRONT |= {module.rpartition(".")[2]: f"interextra.{module}" for module in _MODULES}
FRONT |= {name: f"interextra.notebooks.{module}" for name, module in _NOTEBOOKS.items()}
__all__ = list(FRONT)


def __getattr__(name: str):
    if name not in FRONT:
        raise AttributeError(f"interextra has no {name!r}; it has {', '.join(FRONT)}")
    module, _, definition = FRONT[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, definition) if definition else found


def __dir__() -> list[str]:
    return __all__

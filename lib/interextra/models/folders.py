"""Folders of models that anybody made, looked at before a library opens them: nothing in them is
ever executed.

A model is a config.json, a tokenizer and safetensors weights. No code of the folder runs
(`trust_remote_code` is never set, no attention is fetched from a hub), no pickle is read, and what
the libraries would stumble over is one clear InputError when a plan is made, not after hours.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from interextra.store.errors import InputError, offenders
from interextra.store.files import digest, parse_json, read_json, sha256

WEIGHTS, SHARDS, ADAPTER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "adapter_config.json",
)
ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
# What a number of config.json says, by its name in BERT and its kin; each needs at least this many
# weights a unit
WIDTHS = ("embedding_size", "hidden_size", "dim", "d_model")
COUNTS = (
    "vocab_size",
    "num_hidden_layers",
    "n_layers",
    "intermediate_size",
    "hidden_dim",
    "max_position_embeddings",
)
MOST_LAYERS = 200
# Kinds of modules that the architectures of the kit are made of
MODULES = (
    "Transformer",
    "Pooling",
    "Normalize",
    "Dense",
    "Router",
    "SpladePooling",
    "MultiVectorMask",
)
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json")
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".py"}
LOADING = (
    "model_args",
    "model_kwargs",
    "tokenizer_args",
    "processor_kwargs",
    "config_args",
    "config_kwargs",
)


def content_of(folder: Path) -> str:
    """Digest of all files below a folder, by their relative names; read again only where one has
    changed.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    marks = [(path.stat().st_mtime_ns, path.stat().st_size) for path in files]
    return _content(
        folder.resolve(), tuple(path.relative_to(folder).as_posix() for path in files), tuple(marks)
    )


@lru_cache(maxsize=64)
def _content(folder: Path, names: tuple[str, ...], marks: tuple) -> str:
    return digest({name: sha256(folder / name) for name in names})


def check_start(folder: Path) -> None:
    """InputError where a folder holds no encoder that a training could start from, and what to
    do.
    """
    if (folder / ADAPTER).is_file():
        raise InputError(
            f"{folder}: a PEFT adapter ({ADAPTER}), no whole model; merge it into its base and save that"
        )
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: the folder holds no model (no config.json)")
    _refuse_unreadable(folder.glob("*.json"))
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise InputError(f"{folder / 'config.json'}: give an object of names and values")
    _refuse_attention(folder / "config.json", config)
    _refuse_larger_than(_weights(folder), folder / "config.json", config)


def check_saved(folder: Path) -> None:
    """InputError where a folder holds another thing than `fit` writes: a kind of module, options, a
    pickle, code.
    """
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if pickles := [path.relative_to(folder).as_posix() for path in files if path.suffix in PICKLES]:
        raise InputError(
            f"{folder}: {offenders(pickles)} could run code, and fit writes none; take the file away"
        )
    if adapters := [path for path in files if path.name == ADAPTER]:
        raise InputError(
            f"{adapters[0]}: a PEFT adapter, and fit writes none; train the model again"
        )
    for path in (path for path in files if path.suffix == ".json" and path.name not in TOKENIZERS):
        _refuse_foreign(path, read_json(path))


def _refuse_foreign(path: Path, value: Any) -> None:
    """InputError where a JSON file of a saved model names what fit does not: see `check_saved`."""
    _refuse_attention(path, value)
    if isinstance(value, dict) and (given := [name for name in LOADING if name in value]):
        raise InputError(
            f"{path}: {offenders(given)} tell the library how to load; fit writes none, take them out"
        )
    types = value.get("types") if isinstance(value, dict) else None
    kinds = list(types.values()) if isinstance(types, dict) else []
    kinds += (
        [one.get("type") for one in value if isinstance(one, dict)]
        if path.name == "modules.json"
        else []
    )
    if unknown := [kind for kind in kinds if not _is_ours(kind)]:
        raise InputError(
            f"{path}: modules {offenders(unknown)} are none of {', '.join(MODULES)}; train it again"
        )
    for name in ("activation_fn", "activation_function"):
        activation = str(value.get(name, "")) if isinstance(value, dict) else ""
        if "." in activation and not activation.startswith("torch.nn.modules."):
            raise InputError(
                f"{path}: {name} = {activation!r} is none of torch.nn.modules; train the model again"
            )


def _refuse_unreadable(paths: Iterator[Path]) -> None:
    """InputError for a JSON file that no parser can read, such as one nested too deeply."""
    for path in sorted(paths):
        _parsed(path, path.stat().st_mtime_ns, path.stat().st_size)


@lru_cache(maxsize=256)
def _parsed(path: Path, *mark: int) -> None:
    parse_json(path.read_bytes(), path)


def _refuse_attention(path: Path, value: Any) -> None:
    """InputError where a config asks, at any depth, for attention that transformers would fetch
    from a hub.
    """
    if isinstance(value, list):
        for part in value:
            _refuse_attention(path, part)
    for name, part in value.items() if isinstance(value, dict) else ():
        if "attn_implementation" in name and part is not None and part not in ATTENTIONS:
            raise InputError(
                f"{path}: {name} = {part!r} is code of others; write one of {', '.join(ATTENTIONS)}"
            )
        _refuse_attention(path, part)


def _weights(folder: Path) -> int:
    """Bytes of the safetensors files of a folder; InputError where there is none, or an index names
    another file.
    """
    if (folder / WEIGHTS).is_file():
        return (folder / WEIGHTS).stat().st_size
    if not (folder / SHARDS).is_file():
        asked = "a model needs config.json, a tokenizer and safetensors weights"
        raise InputError(f"{folder}: no file named {WEIGHTS} ({asked}; pickles are not read)")
    index = read_json(folder / SHARDS)
    named = index.get("weight_map") if isinstance(index, dict) else None
    if (
        not isinstance(named, dict)
        or not named
        or not all(isinstance(name, str) for name in named.values())
    ):
        raise InputError(
            f"{folder / SHARDS}: no weight_map of weights and files; save the model again"
        )
    files = sorted(set(named.values()))
    inside = {path.name for path in folder.glob("*.safetensors")}
    if wrong := [name for name in files if name not in inside]:
        raise InputError(
            f"{folder / SHARDS}: {offenders(wrong)} is no safetensors file of this folder"
        )
    return sum((folder / name).stat().st_size for name in files)


def _refuse_larger_than(n_bytes: int, path: Path, config: dict) -> None:
    """InputError where numbers of a config ask for more weights than there are bytes, which would
    fill the memory.
    """
    numbers = {name: config[name] for name in (*WIDTHS, *COUNTS) if config.get(name) is not None}
    if wrong := [
        f"{name} = {one!r}" for name, one in numbers.items() if type(one) is not int or one < 1
    ]:
        raise InputError(f"{path}: {offenders(wrong)}: give whole numbers from 1")
    width = next((numbers[name] for name in WIDTHS if name in numbers), 1)
    most = {name: n_bytes // width for name in COUNTS} | dict.fromkeys(WIDTHS, n_bytes)
    most |= dict.fromkeys(("num_hidden_layers", "n_layers"), min(MOST_LAYERS, n_bytes // width))
    if large := [f"{name} = {one}" for name, one in numbers.items() if one > most[name]]:
        raise InputError(
            f"{path}: {offenders(large)}: the weights ({n_bytes:,} bytes) are too few for that"
        )


def _is_ours(kind: Any) -> bool:
    place, _, name = str(kind).rpartition(".")
    return place.startswith("sentence_transformers.") and name in MODULES

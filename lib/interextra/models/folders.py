"""Folders of models that anybody made, looked at before a library opens them.

Nothing in them is ever executed. A model is a config.json, a tokenizer and safetensors weights. No
code of the folder runs (`trust_remote_code` is never set, no attention is fetched from a hub), no
pickle is read, and what the libraries would stumble over is one clear InputError when a plan is
made, not after hours.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

from interextra.store.errors import InputError, offenders
from interextra.store.files import digest, parse_json, read_json, sha256

WEIGHTS = "model.safetensors"
SHARDS = "model.safetensors.index.json"
ADAPTER = "adapter_config.json"
ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3", "flex_attention")
# What a number of config.json says, by its name in BERT and its kin; each needs at least this many
# weights a unit
WIDTHS = ("embedding_size", "hidden_size", "dim", "d_model")
LAYERS = ("num_hidden_layers", "n_layers")
COUNTS = ("vocab_size", *LAYERS, "intermediate_size", "hidden_dim", "max_position_embeddings")
NUMBERS = (*WIDTHS, *COUNTS)
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


def folder_digest(folder: Path) -> str:
    """Return the digest of all files below a folder, by their relative names.

    They are read again only where one has changed.
    """
    stamps = []
    for path in _files_below(folder):
        name = path.relative_to(folder).as_posix()
        stat = path.stat()
        stamps.append((name, stat.st_mtime_ns, stat.st_size))
    return _digest_once(folder.resolve(), tuple(stamps))


@lru_cache(maxsize=64)
def _digest_once(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> str:
    return digest({name: sha256(folder / name) for name, *_ in stamps})


def _files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def check_initialisation(folder: Path) -> None:
    """Check that a folder holds an encoder that a training could start from.

    InputError where it does not, and what to do.
    """
    if (folder / ADAPTER).is_file():
        raise InputError(
            f"{folder}: a PEFT adapter ({ADAPTER}), no whole model; "
            "merge it into its base and save that"
        )
    config_path = folder / "config.json"
    if not config_path.is_file():
        raise InputError(f"{folder}: the folder holds no model (no config.json)")
    for path in sorted(folder.glob("*.json")):
        _parse_once(path, path.stat().st_mtime_ns, path.stat().st_size)
    config = read_json(config_path)
    if not isinstance(config, dict):
        raise InputError(f"{config_path}: give an object of names and values")
    _refuse_attention(config_path, config)
    _refuse_larger_than(_weight_bytes(folder), config_path, config)


def check_saved(folder: Path) -> None:
    """Check that a folder holds nothing but what `fit` writes.

    InputError for another kind of module, options of loading, a pickle, code.
    """
    files = _files_below(folder)
    pickles = [path for path in files if path.suffix in PICKLES]
    if pickles:
        names = [path.relative_to(folder).as_posix() for path in pickles]
        raise InputError(
            f"{folder}: {offenders(names)} could run code, and fit writes none; take the file away"
        )
    for path in files:
        if path.name == ADAPTER:
            raise InputError(f"{path}: a PEFT adapter, and fit writes none; train the model again")
        if path.suffix == ".json" and path.name not in TOKENIZERS:
            _refuse_foreign(path, read_json(path))


@lru_cache(maxsize=256)
def _parse_once(path: Path, *stamp: int) -> None:
    """Refuse a JSON file that no parser can read, such as one nested too deeply."""
    parse_json(path.read_bytes(), path)


def _refuse_foreign(path: Path, value: Any) -> None:
    """Refuse a JSON file of a saved model that names what fit does not, see `check_saved`."""
    _refuse_attention(path, value)
    options = value if isinstance(value, dict) else {}
    if loading := [name for name in LOADING if name in options]:
        raise InputError(
            f"{path}: {offenders(loading)} tell the library how to load; "
            "fit writes none, take them out"
        )
    kinds = _module_kinds(path, value)
    if unknown := [kind for kind in kinds if not _is_ours(kind)]:
        known = ", ".join(MODULES)
        raise InputError(
            f"{path}: modules {offenders(unknown)} are none of {known}; train it again"
        )
    for name in ("activation_fn", "activation_function"):
        activation = str(options.get(name, ""))
        if "." in activation and not activation.startswith("torch.nn.modules."):
            raise InputError(
                f"{path}: {name} = {activation!r} is none of torch.nn.modules; "
                "train the model again"
            )


def _module_kinds(path: Path, value: Any) -> list[Any]:
    """Return the kinds of modules that a JSON file of a saved model names."""
    if isinstance(value, dict) and isinstance(value.get("types"), dict):
        return list(value["types"].values())
    if isinstance(value, list) and path.name == "modules.json":
        return [module.get("type") for module in value if isinstance(module, dict)]
    return []


def _is_ours(kind: Any) -> bool:
    module, _, name = str(kind).rpartition(".")
    return module.startswith("sentence_transformers.") and name in MODULES


def _refuse_attention(path: Path, value: Any) -> None:
    """Refuse a config that asks, at any depth, for attention fetched from a hub."""
    if isinstance(value, list):
        for part in value:
            _refuse_attention(path, part)
    elif isinstance(value, dict):
        for name, part in value.items():
            if "attn_implementation" in name and part is not None and part not in ATTENTIONS:
                known = ", ".join(ATTENTIONS)
                raise InputError(
                    f"{path}: {name} = {part!r} is code of others; write one of {known}"
                )
            _refuse_attention(path, part)


def _weight_bytes(folder: Path) -> int:
    """Return the bytes of a folder's safetensors files.

    InputError where there is none, or an index names another file.
    """
    if (folder / WEIGHTS).is_file():
        return (folder / WEIGHTS).stat().st_size
    index_path = folder / SHARDS
    if not index_path.is_file():
        needed = "a model needs config.json, a tokenizer and safetensors weights"
        raise InputError(f"{folder}: no file named {WEIGHTS} ({needed}; pickles are not read)")
    shards = _shards(index_path)
    present = {path.name for path in folder.glob("*.safetensors")}
    if foreign := [name for name in shards if name not in present]:
        raise InputError(
            f"{index_path}: {offenders(foreign)} is no safetensors file of this folder"
        )
    return sum((folder / name).stat().st_size for name in shards)


def _shards(index_path: Path) -> list[str]:
    """Return the names of the files that an index of weights names, each once."""
    index = read_json(index_path)
    file_of_weight = index.get("weight_map") if isinstance(index, dict) else None
    names = list(file_of_weight.values()) if isinstance(file_of_weight, dict) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{index_path}: no weight_map of weights and files; save the model again")
    return sorted(set(names))


def _refuse_larger_than(n_bytes: int, path: Path, config: dict) -> None:
    """Refuse a config that asks for more weights than there are bytes, which would fill memory."""
    numbers = {name: config[name] for name in NUMBERS if config.get(name) is not None}
    wrong = [
        f"{name} = {number!r}"
        for name, number in numbers.items()
        if type(number) is not int or number < 1
    ]
    if wrong:
        raise InputError(f"{path}: {offenders(wrong)}: give whole numbers from 1")
    width = next((numbers[name] for name in WIDTHS if name in numbers), 1)
    too_large = [
        f"{name} = {number}"
        for name, number in numbers.items()
        if number > _largest(name, width, n_bytes)
    ]
    if too_large:
        raise InputError(
            f"{path}: {offenders(too_large)}: the weights ({n_bytes:,} bytes) are too few for that"
        )


def _largest(name: str, width: int, n_bytes: int) -> int:
    """Return the largest number of this name in a config that so many bytes of weights allow."""
    if name in WIDTHS:
        return n_bytes
    if name in LAYERS:
        return min(MOST_LAYERS, n_bytes // width)
    return n_bytes // width

"""Models of the Hugging Face hub: fetched once at a fixed revision, then read from this disk.

Only configurations, tokenizers and safetensors weights are fetched: no code and no pickle. The
revision of a model, the digest of its commit, stands in the keys of all that starts from it.
"""

from functools import cache
from pathlib import Path

from interextra.data.pricing import is_pricing, note_model
from interextra.models.folders import check_initialisation
from interextra.store.cells import is_reading
from interextra.store.errors import InputError, kind_and_message

CHANGES_NO_RESULT = True  # a model is named by its revision, see `digest_of`
FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
# Commits of the models that the recipes start from; of another one that of its branch `main` when
# it was fetched, which the library notes beside its files
REVISIONS = {
    "bert-base-uncased": "86b5e0934494bd15c9632b12f734a8a67f723594",
    "distilbert-base-uncased": "12040accade4e8a0f71eabdb258fecc2e7e948be",
    "roberta-base": "e2da8e2f811d1448a5b465c236feacd80ffbac7b",
}


@cache
def cached(model_id: str) -> Path | None:
    """Return the folder of a model of the hub on this disk; None where it is not, or not whole.

    It is looked for once per process.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        folder = snapshot_download(
            model_id,
            revision=REVISIONS.get(model_id),
            allow_patterns=FILES,
            local_files_only=True,
        )
        check_initialisation(Path(folder))
    except (LocalEntryNotFoundError, HFValidationError, InputError):
        return None
    return Path(folder)


def fetch_model(model_id: str) -> Path:
    """Download what is missing of a model of the hub, and return its folder.

    Raises
    ------
    InputError
        The hub cannot be reached or has no such model, or no safetensors weights of it.
    """
    from huggingface_hub import snapshot_download

    revision = REVISIONS.get(model_id)
    cached.cache_clear()
    try:
        folder = Path(snapshot_download(model_id, revision=revision, allow_patterns=FILES))
    except Exception as error:  # the library raises what its own libraries of the network do
        raise InputError(
            f"initialisation {model_id!r}: no folder of this name, and not on this disk; "
            f"{why_not(error)}. Write tiny-base, minilm, the path of a folder or the id of a model "
            "of the hub; without a network, fetch the model where there is one (`interextra fetch`)"
        ) from error
    try:
        check_initialisation(folder)
    except InputError as error:
        raise InputError(
            f"initialisation {model_id!r}, revision {folder.name}: {error}; name a folder with "
            "safetensors weights of it"
        ) from None
    return folder


def why_not(error: Exception) -> str:
    """Return why the hub did not deliver a model, in words."""
    from huggingface_hub import errors

    if isinstance(error, errors.RevisionNotFoundError):
        return "the hub has no such revision of it"
    if isinstance(error, errors.RepositoryNotFoundError | errors.HFValidationError):
        return "the hub has no model of this name that you may read"
    if isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled):
        return "the hub cannot be reached"
    return f"the hub could not deliver it ({kind_and_message(error)})"


def folder_of(model_id: str) -> Path:
    """Return the folder of a model of the hub, fetched where it is not on this disk."""
    return cached(model_id) or fetch_model(model_id)


def digest_of(model_id: str) -> str:
    """Return the revision of a model of the hub; while it is only priced and not here, its id.

    Notes of planned cells are read without a network, too.
    """
    note_model(model_id)
    if (is_pricing() or is_reading()) and cached(model_id) is None:
        return model_id
    return folder_of(model_id).name


def refuse_unfetched(model_id: str) -> None:
    """Refuse to compute with a model of the hub that is not on this disk."""
    if cached(model_id) is None:
        raise InputError(
            f"initialisation {model_id!r} is not on this disk: fetch it first "
            "(`interextra fetch`), then plan again"
        )

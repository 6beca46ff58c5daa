"""The manifest of a split folder, read as what anybody may have written.

A manifest is data: it names no code that runs, unless the user names the same code.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from interextra.own.splitting import MANIFEST, searched_queries, sets_of
from interextra.splits import attributes
from interextra.splits.split import Split
from interextra.store import InputError, offenders
from interextra.store.cells import from_config
from interextra.store.errors import kind_and_message, one_line
from interextra.store.files import read_json

# What the classes of a configuration raise where its values are not theirs.
NOT_OPENED = (ValueError, KeyError, TypeError, AttributeError, ImportError, RecursionError)


class Counts(BaseModel, strict=True):
    """How many queries and pairs a training set has."""

    queries: int = Field(ge=0)
    pairs: int = Field(ge=0)


class Manifest(BaseModel, strict=True):
    """What manifest.json of a folder of `splitting.export` holds."""

    protocol: str
    split: dict[str, Any]  # of `config_of`
    sets: dict[str, Counts] = Field(min_length=1)
    n_test: int = Field(ge=0)
    gate: str
    n_gate: int = Field(ge=0)
    negatives: int = Field(ge=1)
    spare: bool
    format: list[str]
    encoder: str = ""  # that says which training queries are near; "": of an older folder
    files: dict[str, str]  # SHA-256 by name

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Read the manifest of a folder.

        Raises
        ------
        InputError
            There is no such file, or in one line what it holds besides.
        """
        path = folder / MANIFEST
        try:
            return cls.model_validate(read_json(path))
        except OSError as error:
            raise InputError(f"{folder}: no folder of `interextra split` ({error})") from None
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            fault = f"{where!r}: {first['msg']}"
            raise InputError(f"{path}: {fault}; write the split again") from None

    def open_split(self, path: Path, allowed: Sequence[str] = ()) -> Split:
        """Return the split; its attribute in Python is loaded only if its name is `allowed`.

        Parameters
        ----------
        path : Path
            Of the manifest, for errors.
        allowed : sequence of str
            Attributes in Python that may be loaded.

        Raises
        ------
        InputError
            A configuration of no split, code that is not allowed, or has changed since.
        """
        _refuse_foreign_code(self.split, allowed, path)
        _refuse_changed_code(self.split, path)
        try:
            split = self._configured_split()
            searched_queries(split, self.gate)  # which refuses a gate that is no name of a split
            unlike = sorted(set(sets_of(split)) ^ self.sets.keys())
        except NOT_OPENED as error:
            is_ours = isinstance(error, InputError)
            message = one_line(error) if is_ours else kind_and_message(error)
            raise InputError(
                f"{path}: its split and gate cannot be opened ({message}); write the split again"
            ) from None
        if unlike:
            raise InputError(
                f"{path}: {offenders(unlike)} is not both a set of the split and in 'sets'; "
                "split again"
            )
        if self.gate and self.gate not in split.pool.source.open().splits:
            raise InputError(
                f"{path}: 'gate': the collection has no split {self.gate!r}; write the split again"
            )
        return split

    def _configured_split(self) -> Split:
        """Return what the configuration makes, if it is a split of the protocol."""
        split = from_config(self.split)
        kind = type(split).__name__
        if not isinstance(split, Split):
            raise InputError(f"{kind} is no split")
        if kind != self.protocol:
            raise InputError(f"{kind} is not its protocol {self.protocol!r}")
        return split


def _refuse_foreign_code(config: Mapping[str, Any], allowed: Sequence[str], path: Path) -> None:
    """Refuse a configuration that names an attribute in Python which is not allowed."""
    foreign = sorted(set(_code_names(config)).difference(allowed))
    if foreign:
        raise InputError(
            f"{path}: {offenders(foreign)} is code, which a folder cannot ask for. If it is yours, "
            f"and you trust it, name it yourself: --attribute {foreign[0]}"
        )


def _code_names(config: Any) -> Iterator[str]:
    """Yield all attributes in Python that a configuration names, wherever they stand in it."""
    parts = [config]
    while parts:
        part = parts.pop()
        if isinstance(part, str) and attributes.is_code(part):
            yield part
        elif isinstance(part, dict):
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)


def _refuse_changed_code(config: Mapping[str, Any], path: Path) -> None:
    """Refuse an attribute in Python that is no longer the one that the split was made with."""
    attribute = config.get("by")
    if not isinstance(attribute, str) or not attributes.is_code(attribute):
        return
    now = attributes.fingerprint(attribute)
    then = config.get("by_sha256")
    if now != then:
        raise InputError(
            f"{path}: the code of {attribute} is another one than that of the split "
            f"(SHA-256 {now:.12}…, then {then!s:.12}…); restore it, or split again"
        )

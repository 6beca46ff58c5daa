"""A recipe says how a model is made: architecture, initialisation, fine-tuning. It never says on
which data.
"""

import difflib
import json
import math
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from interextra.models.architectures import architectures
from interextra.models.training.losses import losses
from interextra.store.errors import InputError

RECIPES = Path(__file__).with_name("recipes")
NAMED = (
    "after",
    "teacher",
    "pair_teacher",
)  # values that name the recipe of a model that is trained first
# Bounds of what can be meant: beyond them is a slip of the keyboard, and infinity and NaN train
# nothing
MOST = 10**9
PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
Held = Annotated[int, Field(ge=1, le=10**6)]  # of which so many are in memory at once
Dimension = Annotated[int, Field(ge=0, le=2**16)]  # of a vector; 0: as it comes
Count = Annotated[int, Field(ge=0, le=MOST)]  # 0: none
Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]  # of learning, by AdamW
Temperature = Annotated[float, Field(ge=1e-6, le=1e6)]
Weight = Annotated[float, Field(ge=0, le=1e6)]  # of a part of a loss

# What models cost, estimated before anything is computed
QUERY_TOKENS = 12  # a usual query with its special tokens
INDEXED = 8_000  # passages a second, measured: Lucene's indexing
INNER_PRODUCTS = 5e9  # multiplications a second, an estimate for one thread
RUN_ROW = 7e-6  # megabytes of a passage in a run, measured
NUMBER = 4e-6  # megabytes of a float32


class Size(NamedTuple):
    """Tokens a second through an encoder, forward and backward or forward only; its dimensions and
    its megabytes.
    """

    train_tokens: float
    encode_tokens: float
    dimension: int
    megabytes: float


SIZES = {
    "tiny": Size(90_000, 200_000, 64, 1.6),  # these two measured on one thread of a 2-core CPU
    "minilm": Size(2_500, 9_000, 384, 62.0),
    "base-gpu": Size(
        150_000, 450_000, 768, 440.0
    ),  # BERT-base in half precision on one recent GPU, an estimate
}


def size_of(initialisation: str) -> Size:
    """The size of an initialisation: our own, MiniLM by name, folder or hub id, else BERT-base."""
    if initialisation in ("tiny-base", "random"):
        return SIZES["tiny"]
    return SIZES["minilm" if "minilm" in Path(initialisation).name.lower() else "base-gpu"]


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """How a model is made; each architecture adds its own values in its `Options`."""

    size: ClassVar[Size] = Size(0.0, 0.0, 0, 0.0)  # of the weights
    reads: ClassVar[
        tuple[str, ...]
    ] = ()  # values that name an initialisation beside `initialisation`

    architecture: str
    positive_relevance: PositiveInt = 1  # training pairs are judgements of at least this grade

    def training_steps(self, n_train: int) -> int:
        """Optimiser steps for `n_train` training pairs (query, relevant passage)."""
        return 0

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        """Estimated steps, train_seconds, encode_seconds on one core, from the longest texts that
        the recipe allows.
        """
        return {"steps": 0, "train_seconds": 0.0, "encode_seconds": n_passages / INDEXED}

    def needs(self) -> list[str]:
        """What `model.fit` must be given: some of start, ranking, teacher."""
        return []


class Pretraining(BaseModel, frozen=True, extra="forbid"):
    """What an encoder reads before it is fine-tuned: passages alone, no query and no relevance. See
    `objectives`.
    """

    objective: Literal["none", "words", "order", "condenser", "spans"]
    corpus: tuple[
        str, ...
    ] = ()  # collection specs, whose passages are read; none of them: only with `none`
    steps: Count = 1000
    batch_size: Held = 32
    learning_rate: Rate = 6e-3
    length: Held = 72  # of a passage, in tokens
    pooling: Literal["cls", "mean"] = "cls"  # what becomes the vector of a text
    precision: Literal["fp32", "bf16"] = "fp32"

    @model_validator(mode="after")
    def _something_to_read(self) -> "Pretraining":
        if (self.objective == "none") == bool(self.corpus):
            raise ValueError(
                f"objective {self.objective}, corpus {list(self.corpus)}: none reads nothing, others do"
            )
        return self


class Trained(Recipe):
    """What all neural architectures share. Lengths are in tokens, counts in passages or queries."""

    scores: ClassVar[tuple[str, ...]] = (
        "batch",
    )  # what an architecture gives to a loss, see `losses`

    # tiny-base, random, minilm, minilm:layers=2, a folder or a hub id
    initialisation: str = "tiny-base"
    pretraining: Pretraining | None = None  # of these weights, before they are fine-tuned
    # Recipe of a model that is trained before, on the same queries and with the same
    # negative_passages: this training goes on from its weights, and mined negatives are of its
    # ranking.
    after: str = ""
    temperature: Temperature = 1.0  # scores are divided by it in the loss; cosine needs about .05
    loss: str = "listwise"  # one of `losses` that is for the architecture's scores
    teacher: str = ""  # recipe of the model, trained on the same queries, whose scores are the goal
    teacher_temperature: Temperature = 1.0
    # random: drawn from the corpus, shared by the whole batch; in-batch: the positives of the
    # batch's other queries; bm25, mined: drawn for each query from the first passages of BM25, or
    # of the model `after`, shared by the batch (reranker: not shared); own (dense): what the query
    # encoder itself ranks first at each step, while the passages keep the vectors that the model
    # `after` gives them
    negatives: Literal[
        "random", "in-batch", "both", "bm25", "bm25+in-batch", "mined", "mined+in-batch", "own"
    ] = "random"
    n_negatives: Held = 32  # a batch (random), or a query (bm25, mined; reranker)
    negative_depth: PositiveInt = (
        100  # bm25 and mined negatives come from the first so many passages
    )
    # Which passages may be drawn. An exposed passage is relevant, but only to queries outside the
    # training set: it may be a negative and is never a positive. all: any passage, as in both
    # papers; unexposed: exposed ones never; control: as many passages, taken at random, never; a
    # number: the probability that a random one is exposed.
    negative_passages: (
        Literal["all", "unexposed", "control"] | Annotated[float, Field(ge=0, le=1)]
    ) = "all"
    batch_size: Held = 32
    steps: Count | None = None  # exactly one of steps and epochs; 0 leaves a model untrained
    epochs: float | None = Field(None, gt=0, le=1e6)  # passes over the training pairs
    learning_rate: Rate = 1e-3
    warmup_steps: Count = 0
    weight_decay: float = Field(0.01, ge=0, le=1)
    query_length: Held = 20
    passage_length: Held = 72
    precision: Literal["fp32", "bf16"] = "fp32"  # of training
    encode_precision: Literal["fp32", "bf16"] = "fp32"  # of the weights in encoding and reranking

    @model_validator(mode="after")
    def _consistent(self) -> "Trained":
        fitting = [name for name, loss in losses().items() if set(loss.kinds) & set(self.scores)]
        if self.loss not in fitting:
            raise ValueError(f"loss = {shortened(self.loss)}: it is one of {', '.join(fitting)}")
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        if isinstance(self.negative_passages, float) and self.negatives not in ("random", "both"):
            raise ValueError(
                "a share of exposed negatives (negative_passages) needs negatives: random or both"
            )
        if self.negatives.startswith(("mined", "own")) and not self.after:
            raise ValueError(
                f"negatives {self.negatives} need the recipe of the model that finds them (after)"
            )
        loss = losses()[self.loss]
        if bool(loss.goal) != bool(self.teacher):
            given = f"loss {self.loss}, teacher {shortened(self.teacher)}"
            raise ValueError(f"{given}: they come together, or neither of both")
        if "query" in loss.kinds and self.negatives not in ("bm25", "mined"):
            raise ValueError(f"loss {self.loss} needs negatives of each query's own: bm25 or mined")
        if ("corpus" in loss.kinds) != (self.negatives == "own"):
            over = ", ".join(name for name, other in losses().items() if "corpus" in other.kinds)
            raise ValueError(
                f"loss {self.loss}, negatives {self.negatives}: own is for losses of all passages, {over}"
            )
        if self.after and self.pretraining:
            raise ValueError(
                "after and pretraining are two starts; give the pretraining to the recipe of `after`"
            )
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest text that the encoder reads."""
        return max(self.query_length, self.passage_length)

    def needs(self) -> list[str]:
        named = {"start": self.pretraining or self.after, "teacher": self.teacher}
        named["ranking"] = self.negatives.startswith("mined")
        return [name for name, asked in named.items() if asked]

    def training_steps(self, n_train: int) -> int:
        return (
            self.steps
            if self.steps is not None
            else max(1, math.ceil(self.epochs * n_train / self.batch_size))
        )

    @property
    def in_batch(self) -> bool:
        """Whether the positives of the batch's other queries are negatives."""
        return self.negatives == "both" or "in-batch" in self.negatives

    def drawn(self) -> int:
        """Negatives read for a batch; those of BM25 are shared with the batch's other queries."""
        per_batch = {"in-batch": 0, "own": 0, "random": 1, "both": 1}
        return per_batch.get(self.negatives, self.batch_size) * self.n_negatives

    def scored_pairs(self, steps: int) -> int:
        """(query, passage) scores that the loss sees in `steps` training steps: what an
        architecture learns from.

        >>> load_recipe("mini-dense", batch_size=96).scored_pairs(10)  # 96 queries × (96 passages of theirs + 16)
        107520
        """
        return steps * self.batch_size * (1 + self.drawn() + self.in_batch * (self.batch_size - 1))

    @property
    def size(self) -> Size:
        """Of the weights that the training starts from, which may be those of another recipe."""
        return load_recipe(self.after).size if self.after else size_of(self.initialisation)

    def cost(self, n_train: int, n_passages: int, n_queries: int) -> dict[str, float]:
        tokens = (
            self.batch_size * (self.query_length + self.passage_length)
            + self.drawn() * self.passage_length
        )
        return self._cost(n_train, tokens, n_passages * self.passage_length)

    def _cost(self, n_train: int, tokens: int, read: int) -> dict[str, float]:
        """`tokens` of a training step, `read` in search."""
        steps, speed = self.training_steps(n_train), self.size
        # what training reads without learning from it: the teacher's share of each batch; all
        # passages, once
        given = steps * tokens * bool(self.teacher) + read * (self.negatives == "own")
        train_seconds = steps * tokens / speed.train_tokens + given / speed.encode_tokens
        return {
            "steps": steps,
            "train_seconds": train_seconds,
            "encode_seconds": read / speed.encode_tokens,
        }


def load_recipe(name_or_path: str | Path, **overrides: Any) -> Recipe:
    """A named recipe of the package, or one from a YAML file, with single values replaced.

    `steps` given here replaces `epochs` of the file, and the other way round. `name_or_path`:
    `mini-dense`, `bm25`, … (the files under `recipes/`) or a path that ends in .yaml; single values
    may follow in braces. InputError for an unknown name, an unknown key, an ill-typed value, and
    for a recipe that needs itself first.

    >>> load_recipe("mini-dense", steps=5).steps, load_recipe("mini-dense{loss: pairwise}").loss
    (5, 'pairwise')
    """
    made = _read_recipe(str(name_or_path), overrides)
    _refuse_circle(
        made, () if overrides else (str(name_or_path),)
    )  # with other values it is another recipe
    return made


def _read_recipe(name_or_path: str, overrides: Mapping[str, Any]) -> Recipe:
    """As `load_recipe`, without a look at the recipes that it names."""
    name, brace, rest = name_or_path.partition("{")
    name, where = name.strip(), f"recipe {' '.join(name_or_path.split())[:200]}"
    given = _parsed(brace + rest, where, f"write {name}{{key: value, key: value}}") if brace else {}
    overrides = given | overrides
    path = Path(name)
    if path.suffix not in (".yaml", ".yml"):
        path = RECIPES / f"{name}.yaml"
    try:
        text = path.read_bytes()
    except (OSError, ValueError):  # none of this name, or no name of a file at all
        known = ", ".join(sorted(file.stem for file in RECIPES.glob("*.yaml")))
        raise InputError(
            f"no recipe {name!r}; known: {known}; or give a path that ends in .yaml"
        ) from None
    values = _parsed(text, str(path), "a recipe is a list of `key: value` lines")
    if {"steps", "epochs"} & overrides.keys():
        values = {key: value for key, value in values.items() if key not in ("steps", "epochs")}
    return make_recipe(values | overrides, source=where)


class _Plain(yaml.SafeLoader):
    """YAML without aliases, which a recipe has no use for and which can make a page of text fill
    the memory.
    """

    def compose_node(self, parent, index):
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias (*name): write the value itself")
        return super().compose_node(parent, index)


def _parsed(text: str | bytes, where: str, form: str) -> dict[str, Any]:
    """The keys and values of a YAML text that anybody wrote; InputError for any other text."""
    try:
        values = yaml.load(text, _Plain)
        json.dumps(
            values, ensure_ascii=False, default=str
        ).encode()  # no half of a character, no endless number
    except RecursionError:
        raise InputError(f"{where}: the YAML is nested too deeply; {form}") from None
    except (
        yaml.YAMLError,
        ValueError,
        TypeError,
        OverflowError,
    ) as error:  # also no UTF-8, no date, a key of pairs
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{where}: not readable as YAML: {reason}; {form}") from None
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise InputError(f"{where}: {form}")
    return values


def _refuse_circle(made: Recipe, path: tuple[str, ...]) -> None:
    """InputError where a recipe needs itself first: its own model before it, its own scores, or
    those of one that does.

    `path`: names from the first recipe to that of `made`.
    """
    for role in NAMED:
        name = getattr(made, role, "")
        if name in path:
            circle = " needs ".join((*path, name))
            raise InputError(f"recipe {circle}, which never begins: change {role!r} of {path[-1]}")
        if name:
            _refuse_circle(_read_recipe(name, {}), (*path, name))


def make_recipe(values: Mapping[str, Any], source: str) -> Recipe:
    """The recipe of these values; one clear InputError names `source` and the first wrong keys."""
    name, known = values.get("architecture"), architectures()
    if not isinstance(name, str) or name not in known:
        raise InputError(
            f"{source}: architecture = {shortened(name)}: it is one of {', '.join(known)}"
        )
    kind, wrong = known[name].Options, []
    try:
        return kind(**values)
    except ValidationError as error:
        found = error.errors()[:3]
    for item in found:
        key, message = ".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, ")
        if item["type"] == "extra_forbidden":
            close = difflib.get_close_matches(key, kind.model_fields, n=1)
            message = f"{name} has no parameter {shortened(key)}" + (
                f", did you mean {close[0]!r}?" if close else ""
            )
        elif key:
            message = f"{key} = {shortened(item['input'])}: {message[0].lower()}{message[1:]}"
        wrong.append(message)
    raise InputError(f"{source}: {'; '.join(wrong)}")


def shortened(value: Any) -> str:
    """A value in an error message: a long or deep one is cut.

    >>> shortened([[1, 2], "x"]), len(shortened("x" * 1000)) < 100
    ("[[1, 2], 'x']", True)
    """
    cut = reprlib.Repr()
    cut.maxstring = cut.maxother = 60
    return cut.repr(value)


def changed(made: Recipe, **values: Any) -> Recipe:
    """The recipe with other values of some options, checked as a whole."""
    return make_recipe(made.model_dump() | values, ", ".join(values))


def recipe_name(entry: str | Mapping[str, Any]) -> str:
    """Return how a recipe is named in other recipes and in keys: its name and its own options.

    Parameters
    ----------
    entry
        A name, or {recipe: NAME, option: value}.

    Examples
    --------
    >>> recipe_name({"recipe": "mini-colbert", "steps": 80})
    'mini-colbert{steps: 80}'
    """
    if isinstance(entry, str):
        return entry
    options = dict(entry)
    name = options.pop("recipe", None)
    if not isinstance(name, str) or not name:
        raise InputError(f"recipe {entry!r}: write {{recipe: NAME, option: value}}")
    written = yaml.safe_dump(options, default_flow_style=True, sort_keys=False, width=10**6)
    return name + written.strip() if options else name

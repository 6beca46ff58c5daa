"""A recipe says how a model is made: architecture, initialisation, fine-tuning.

It never says on which data.
"""

import difflib
import json
import math
import reprlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, model_validator

from interextra.models.architectures import architectures
from interextra.models.prices import (
    FLOAT32_MEGABYTES,
    INDEXED_PER_SECOND,
    JAVA,
    NO_SIZE,
    Size,
    Speed,
    size_of,
)
from interextra.models.training.losses import losses, losses_for
from interextra.store.errors import InputError

RECIPES = Path(__file__).with_name("recipes")
# Options that name the recipe of a model that is trained first
_OTHER_RECIPES = ("after", "teacher", "pair_teacher")
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


class Recipe(BaseModel, frozen=True, extra="forbid"):
    """How a model is made; each architecture adds its own values in its `Options`."""

    size: ClassVar[Size] = NO_SIZE  # of the weights
    # values that name an initialisation beside `initialisation`
    reads: ClassVar[tuple[str, ...]] = ()

    architecture: str
    positive_relevance: PositiveInt = 1  # training pairs are judgements of at least this grade

    def training_steps(self, n_train: int) -> int:
        """Return the optimiser steps for `n_train` training pairs (query, relevant passage)."""
        return 0

    def device(self) -> str:
        """Return what trains and searches: `cpu` or `gpu`."""
        return "cpu"

    def train_seconds(self, n_train: int, n_passages: int) -> float:
        """Estimate the seconds of training on its device; texts are as long as allowed."""
        return 0.0

    def search_seconds(self, n_passages: int, n_queries: int) -> float:
        """Estimate the seconds on its device in which passages are made ready for a search."""
        return n_passages / INDEXED_PER_SECOND

    def train_memory(self) -> float:
        """Estimate the megabytes that a training adds to a process with the collection."""
        return JAVA

    def search_memory(self, n_queries: int) -> float:
        """Estimate the megabytes that a search adds to its process, without the ranking."""
        return JAVA

    def needs(self) -> list[str]:
        """Return what `model.fit` must be given: some of start, ranking, teacher."""
        return []


class Pretraining(BaseModel, frozen=True, extra="forbid"):
    """What an encoder reads before it is fine-tuned, see `objectives`.

    These are passages alone, no query and no relevance.
    """

    objective: Literal["none", "words", "order", "condenser", "spans"]
    # collection specs, whose passages are read; none of them: only with `none`
    corpus: tuple[str, ...] = ()
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
                f"objective {self.objective}, corpus {list(self.corpus)}: "
                "none reads nothing, others do"
            )
        return self


class Trained(Recipe):
    """What all neural architectures share.

    Lengths are in tokens, counts in passages or queries.
    """

    # what an architecture gives to a loss, see `losses`
    scores: ClassVar[tuple[str, ...]] = ("batch",)
    has_head: ClassVar[bool] = False  # whether each token has a logit for every word

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
    # bm25 and mined negatives come from the first so many passages
    negative_depth: PositiveInt = 100
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
    # Processes that train together, each on a GPU and with a batch of its own: a step is the mean
    # of their gradients. Where there are fewer GPUs, one process takes one batch after the other.
    processes: Annotated[int, Field(ge=1, le=1024)] = 1

    @model_validator(mode="after")
    def _loss_is_for_these_scores(self) -> "Trained":
        fitting = losses_for(*self.scores)
        if self.loss not in fitting:
            raise ValueError(f"loss = {shortened(self.loss)}: it is one of {', '.join(fitting)}")
        return self

    @model_validator(mode="after")
    def _either_steps_or_epochs(self) -> "Trained":
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        return self

    @model_validator(mode="after")
    def _negatives_can_be_found(self) -> "Trained":
        is_share = isinstance(self.negative_passages, float)
        if is_share and self.negatives not in ("random", "both"):
            raise ValueError(
                "a share of exposed negatives (negative_passages) needs negatives: random or both"
            )
        if self.negatives.startswith(("mined", "own")) and not self.after:
            raise ValueError(
                f"negatives {self.negatives} need the recipe of the model that finds them (after)"
            )
        return self

    @model_validator(mode="after")
    def _loss_has_what_it_needs(self) -> "Trained":
        loss = losses()[self.loss]
        if bool(loss.goal) != bool(self.teacher):
            raise ValueError(
                f"loss {self.loss}, teacher {shortened(self.teacher)}: "
                "they come together, or neither of both"
            )
        if "query" in loss.kinds and self.negatives not in ("bm25", "mined"):
            raise ValueError(f"loss {self.loss} needs negatives of each query's own: bm25 or mined")
        if ("corpus" in loss.kinds) != (self.negatives == "own"):
            over_all = losses_for("corpus")
            raise ValueError(
                f"loss {self.loss}, negatives {self.negatives}: "
                f"own is for losses of all passages, {', '.join(over_all)}"
            )
        return self

    @model_validator(mode="after")
    def _one_start(self) -> "Trained":
        if self.after and self.pretraining:
            raise ValueError(
                "after and pretraining are two starts; "
                "give the pretraining to the recipe of `after`"
            )
        return self

    @property
    def longest(self) -> int:
        """Tokens of the longest text that the encoder reads."""
        return max(self.query_length, self.passage_length)

    def needs(self) -> list[str]:
        """Return what `model.fit` must be given: some of start, ranking, teacher."""
        needed = []
        if self.pretraining or self.after:
            needed.append("start")
        if self.teacher:
            needed.append("teacher")
        if self.negatives.startswith("mined"):
            needed.append("ranking")
        return needed

    def training_steps(self, n_train: int) -> int:
        """Return the optimiser steps for `n_train` training pairs (query, relevant passage)."""
        if self.steps is not None:
            return self.steps
        return max(1, math.ceil(self.epochs * n_train / (self.processes * self.batch_size)))

    @property
    def in_batch(self) -> bool:
        """Whether the positives of the batch's other queries are negatives."""
        return self.negatives == "both" or "in-batch" in self.negatives

    def drawn(self) -> int:
        """Return the negatives read for a batch; BM25's are shared with its other queries."""
        per_batch = {"in-batch": 0, "own": 0, "random": 1, "both": 1}
        return per_batch.get(self.negatives, self.batch_size) * self.n_negatives

    def scored_pairs(self, steps: int) -> int:
        """Return how many (query, passage) scores the loss sees in `steps` training steps.

        They are what an architecture learns from.

        Examples
        --------
        96 queries, each with the 96 passages of the batch's queries and 16 more:

        >>> load_recipe("mini-dense", batch_size=96).scored_pairs(10)
        107520
        """
        n_negatives = self.drawn()
        if self.in_batch:
            n_negatives += self.batch_size - 1
        return steps * self.processes * self.batch_size * (1 + n_negatives)

    @property
    def size(self) -> Size:
        """Size of the weights that training starts from, which may be those of another recipe."""
        if self.after:
            return _size_of_named(self.after)
        return size_of(self.initialisation)

    @property
    def speed(self) -> Speed:
        """Speed on its device, with the precisions of the recipe."""
        return self.size.speed(self.architecture, self.precision, self.encode_precision)

    def device(self) -> str:
        """Return what trains and searches: `cpu` or `gpu`, by the size of the encoder."""
        return self.size.device

    def train_seconds(self, n_train: int, n_passages: int) -> float:
        """Estimate the seconds of training on its device; texts are as long as allowed."""
        tokens = self.training_steps(n_train) * self.processes * self.step_tokens()
        read_only_tokens = 0  # which training reads without learning from it
        if self.teacher:
            read_only_tokens += tokens  # the teacher's share of each batch
        if self.negatives == "own":
            read_only_tokens += self._search_tokens(n_passages, 0)  # all passages, once
        speed = self.speed
        return tokens / speed.train_tokens + read_only_tokens / speed.encode_tokens

    def search_seconds(self, n_passages: int, n_queries: int) -> float:
        """Estimate the seconds on its device in which a search reads texts."""
        return self._search_tokens(n_passages, n_queries) / self.speed.encode_tokens

    def train_memory(self) -> float:
        """Estimate the megabytes that a training adds to a process with the collection."""
        megabytes = self.size.training_megabytes(self.step_tokens(), self.has_head)
        if self.teacher:
            megabytes += self.size.megabytes
        if "bm25" in self.negatives:
            megabytes += JAVA
        return megabytes

    def search_memory(self, n_queries: int) -> float:
        """Estimate the megabytes that a search adds to its process, without the ranking."""
        return self.size.searching_megabytes() + n_queries * self.query_megabytes()

    def query_megabytes(self) -> float:
        """Return the megabytes of an encoded query."""
        return self.size.dimension * FLOAT32_MEGABYTES

    def step_tokens(self) -> int:
        """Return the tokens that a training step reads, of each process."""
        pair_tokens = self.batch_size * (self.query_length + self.passage_length)
        return pair_tokens + self.drawn() * self.passage_length

    def _search_tokens(self, n_passages: int, n_queries: int) -> int:
        """Return the tokens that a search reads."""
        return n_passages * self.passage_length


@cache
def _size_of_named(name: str) -> Size:
    """Return the size of a recipe of this name, whose file is read once: a plan asks often."""
    return load_recipe(name).size


def load_recipe(name_or_path: str | Path, **overrides: Any) -> Recipe:
    """Load a named recipe of the package, or one from a YAML file, with single values replaced.

    Parameters
    ----------
    name_or_path : str or Path
        `mini-dense`, `bm25`, … (the files under `recipes/`) or a path that ends in .yaml; single
        values may follow in braces.
    **overrides
        Values that replace those of the file. `steps` given here replaces `epochs` of the file, and
        the other way round.

    Raises
    ------
    InputError
        An unknown name, an unknown key, an ill-typed value, or a recipe that needs itself first.

    Examples
    --------
    >>> load_recipe("mini-dense", steps=5).steps, load_recipe("mini-dense{loss: pairwise}").loss
    (5, 'pairwise')
    """
    name = str(name_or_path)
    recipe = _read_recipe(name, overrides)
    # with other values it is another recipe
    _refuse_circle(recipe, () if overrides else (name,))
    return recipe


def _read_recipe(name_or_path: str, overrides: dict[str, Any]) -> Recipe:
    """Load a recipe without a look at the recipes that it names, see `load_recipe`."""
    name, brace, rest = name_or_path.partition("{")
    name = name.strip()
    in_one_line = " ".join(name_or_path.split())
    source = f"recipe {in_one_line[:200]}"
    if brace:
        form = f"write {name}{{key: value, key: value}}"
        overrides = _parsed(brace + rest, source, form) | overrides
    values = _values_of_file(name)
    if "steps" in overrides or "epochs" in overrides:
        values.pop("steps", None)
        values.pop("epochs", None)
    return make_recipe(values | overrides, source)


def _values_of_file(name: str) -> dict[str, Any]:
    """Read the keys and values of a recipe's file; `name`: of the package, or a path."""
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
    return _parsed(text, str(path), "a recipe is a list of `key: value` lines")


class _YamlWithoutAliases(yaml.SafeLoader):
    """YAML without aliases.

    A recipe has no use for them, and they can make a page of text fill the memory.
    """

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Refuse an alias; else as PyYAML does."""
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias (*name): write the value itself")
        return super().compose_node(parent, index)


def _parsed(text: str | bytes, where: str, form: str) -> dict[str, Any]:
    """Read keys and values of a YAML text that anybody wrote; InputError for any other text."""
    try:
        values = yaml.load(text, _YamlWithoutAliases)
        # no half of a character, no endless number
        json.dumps(values, ensure_ascii=False, default=str).encode()
    except RecursionError:
        raise InputError(f"{where}: the YAML is nested too deeply; {form}") from None
    # also no UTF-8, no date, a key of pairs
    except (yaml.YAMLError, ValueError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{where}: not readable as YAML: {reason}; {form}") from None
    is_mapping = isinstance(values, dict)
    if not is_mapping or not all(isinstance(key, str) for key in values):
        raise InputError(f"{where}: {form}")
    return values


def _refuse_circle(recipe: Recipe, names: tuple[str, ...]) -> None:
    """Refuse a recipe that needs itself first: as the model before it, or as a teacher.

    So may one that it names. `names`: from the first recipe to that of `recipe`.
    """
    for option in _OTHER_RECIPES:
        name = getattr(recipe, option, "")
        if name in names:
            circle = " needs ".join((*names, name))
            raise InputError(
                f"recipe {circle}, which never begins: change {option!r} of {names[-1]}"
            )
        if name:
            _refuse_circle(_read_recipe(name, {}), (*names, name))


def make_recipe(values: Mapping[str, Any], source: str) -> Recipe:
    """Make the recipe of these values.

    Raises
    ------
    InputError
        It names `source` and the first three values that are wrong.
    """
    architecture = values.get("architecture")
    known = architectures()
    if not isinstance(architecture, str) or architecture not in known:
        raise InputError(
            f"{source}: architecture = {shortened(architecture)}: it is one of {', '.join(known)}"
        )
    options = known[architecture].Options
    try:
        return options(**_with_names(values))
    except ValidationError as error:
        messages = [_message(wrong, architecture, options) for wrong in error.errors()[:3]]
        raise InputError(f"{source}: {'; '.join(messages)}") from None


def _message(error: Mapping[str, Any], architecture: str, options: type[Recipe]) -> str:
    """Say what is wrong with a value, from an error of pydantic."""
    key = ".".join(str(part) for part in error["loc"])
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, options.model_fields, n=1)
        hint = f", did you mean {close[0]!r}?" if close else ""
        return f"{architecture} has no parameter {shortened(key)}{hint}"
    if key:
        message = message[0].lower() + message[1:]
        return f"{key} = {shortened(error['input'])}: {message}"
    return message


def shortened(value: Any) -> str:
    """Return a value as it stands in an error message: a long or deep one is cut.

    Examples
    --------
    >>> shortened([[1, 2], "x"]), len(shortened("x" * 1000)) < 100
    ("[[1, 2], 'x']", True)
    """
    cut = reprlib.Repr()
    cut.maxstring = cut.maxother = 60
    return cut.repr(value)


def changed(recipe: Recipe, **values: Any) -> Recipe:
    """Return a recipe with other values of some options, checked as a whole."""
    return make_recipe(recipe.model_dump() | values, ", ".join(values))


def recipe_name(entry: str | Mapping[str, Any]) -> str:
    """Return how a recipe stands in other recipes and in keys: its name and its own options.

    Those of a recipe's own `after`, `teacher` and `pair_teacher` may be mappings, too.

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
    if not options:
        return name
    named = _with_names(options)
    written = yaml.safe_dump(named, default_flow_style=True, sort_keys=False, width=10**6)
    return name + written.strip()


def _with_names(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a recipe, with other recipes by their names where they have own options."""
    named = dict(values)
    for option in _OTHER_RECIPES:
        if isinstance(values.get(option), Mapping):
            named[option] = recipe_name(values[option])
    return named

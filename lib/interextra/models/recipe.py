"""A recipe says how a model is made: architecture, initialisation, fine-tuning. It never says on which data."""

import difflib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from interextra.ground.errors import InputError

RECIPES = Path(__file__).with_name("recipes")
PositiveInt = Annotated[int, Field(ge=1)]

# Tokens a second through the encoder, forward and backward or forward only. The first two rows are measured on one
# thread of a 2-core CPU, the third is an estimate for BERT-base with half precision on one recent GPU.
THROUGHPUT = {
    "tiny": {"train_tokens": 90_000, "encode_tokens": 200_000},
    "minilm": {"train_tokens": 2_500, "encode_tokens": 9_000},
    "base-gpu": {"train_tokens": 150_000, "encode_tokens": 450_000},
}
# Which parameters matter for which architecture: a value that would be ignored is an error, not a surprise.
_ALL = ("bm25", "dense", "splade", "colbert", "reranker")
_NEURAL, _ENCODERS = _ALL[1:], _ALL[1:4]
_MATTERS = {
    **dict.fromkeys(("k1", "b", "tuning_queries"), ("bm25", "reranker")),
    **dict.fromkeys(("initialisation", "temperature", "loss", "negatives", "n_negatives", "batch_size"), _NEURAL),
    **dict.fromkeys(("steps", "epochs", "learning_rate", "warmup_steps", "weight_decay"), _NEURAL),
    **dict.fromkeys(("query_length", "passage_length", "precision", "encode_precision", "negative_depth"), _NEURAL),
    "pooling": ("dense", "reranker"),
    "similarity": ("dense",),
    **dict.fromkeys(("dimension", "query_expansion"), ("colbert",)),
    **dict.fromkeys(("query_flops", "passage_flops"), ("splade",)),
    "rerank_depth": ("reranker",),
}
# Parameters that came after the first results: at their default they are not part of a cell's name.
_LATER = {
    *("encode_precision", "negative_depth", "dimension", "query_expansion"),
    *("query_flops", "passage_flops", "rerank_depth"),
}


class Recipe(BaseModel):
    """How a model is made. Lengths are in tokens, counts in passages or queries.

    >>> Recipe(architecture="dense", steps=300).loss
    'listwise'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    architecture: Literal["bm25", "dense", "splade", "colbert", "reranker"]
    # tiny-base, random, minilm, minilm:layers=2, a folder or a hub id
    initialisation: str = "tiny-base"
    pooling: Literal["cls", "mean"] = "cls"
    similarity: Literal["dot", "cosine"] = "dot"
    temperature: float = Field(1.0, gt=0)  # scores are divided by it in the loss; cosine needs about .05
    # listwise: one softmax over the positive and all negatives; pairwise: mean over the pairs (positive, negative)
    # of the cross entropy of two logits. "Cross entropy" in the paper can be read both ways. pointwise (reranker only):
    # binary cross entropy of each score.
    loss: Literal["listwise", "pairwise", "pointwise"] = "listwise"
    # random: drawn from the corpus, shared by the whole batch; in-batch: the positives of the batch's other queries;
    # bm25: drawn for each query from BM25's first passages, shared by the batch (reranker: not shared)
    negatives: Literal["random", "in-batch", "both", "bm25", "bm25+in-batch"] = "random"
    n_negatives: PositiveInt = 32  # a batch (random), or a query (bm25; reranker)
    negative_depth: PositiveInt = 100  # bm25 negatives come from the first so many passages
    positive_relevance: PositiveInt = 1  # training pairs are judgements of at least this grade
    batch_size: PositiveInt = 32
    steps: Annotated[int, Field(ge=0)] | None = None  # exactly one of steps and epochs; 0 leaves a model untrained
    epochs: float | None = Field(None, gt=0)  # passes over the training pairs
    learning_rate: float = Field(1e-3, gt=0)
    warmup_steps: int = Field(0, ge=0)
    weight_decay: float = Field(0.01, ge=0)
    query_length: PositiveInt = 20
    passage_length: PositiveInt = 72
    precision: Literal["fp32", "bf16"] = "fp32"  # of training
    encode_precision: Literal["fp32", "bf16"] = "fp32"  # of the weights in encoding and reranking
    dimension: PositiveInt = 128  # ColBERT: of a token's vector
    query_expansion: bool = False  # ColBERT: pad queries with [MASK] to query_length and let the masks score, too
    query_flops: float = Field(3e-4, ge=0)  # SPLADE: weights of the FLOPS regularisation …
    passage_flops: float = Field(1e-4, ge=0)  # … reached quadratically over the first third of the steps
    rerank_depth: PositiveInt = 1000  # reranker: so many passages of BM25
    k1: tuple[float, ...] = (0.9,)  # BM25: all pairs of k1 and b are tried on training queries
    b: tuple[float, ...] = (0.4,)
    tuning_queries: PositiveInt = 500  # at most so many training queries, drawn with the seed

    @model_validator(mode="after")
    def _consistent(self) -> "Recipe":
        if self.architecture != "bm25" and (self.steps is None) == (self.epochs is None):
            raise ValueError("give exactly one of steps and epochs")
        if not self.k1 or not self.b or min(self.k1) < 0 or not all(0 <= b <= 1 for b in self.b):
            raise ValueError("k1 needs values of at least 0, and b values between 0 and 1")
        fields = type(self).model_fields
        idle = sorted(
            name
            for name, where in _MATTERS.items()
            if self.architecture not in where and getattr(self, name) != fields[name].default
        )
        if idle:
            raise ValueError(f"{', '.join(idle)} has no effect on {self.architecture}; remove it")
        if self.architecture == "reranker" and self.negatives not in ("random", "bm25"):
            raise ValueError("a reranker's negatives are random or bm25")
        if self.architecture in _ENCODERS and self.loss == "pointwise":
            raise ValueError("loss pointwise is for the reranker only")
        return self

    def named(self) -> dict[str, Any]:
        """The values that name a cell: all, but those that came later only where they are not at their default."""
        fields = type(self).model_fields
        values = self.model_dump(mode="json")
        return {k: v for k, v in values.items() if k not in _LATER or getattr(self, k) != fields[k].default}


def load_recipe(name_or_path: str | Path, **overrides: Any) -> Recipe:
    """A named recipe of the package, or one from a YAML file, with single values replaced.

    `steps` given here replaces `epochs` of the file, and the other way round.

    Parameters
    ----------
    name_or_path
        `mini-dense`, `bm25`, … (the files under `recipes/`) or a path that ends in .yaml; single values may follow in
        braces: `mini-dense{negatives: in-batch, loss: pairwise}`.

    Raises
    ------
    InputError
        Unknown name, unknown key, ill-typed value.

    >>> load_recipe("mini-dense", steps=5).steps, load_recipe("mini-dense{loss: pairwise}").loss
    (5, 'pairwise')
    """
    import yaml

    name_or_path, overrides = _with_options(str(name_or_path), overrides)
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        path = RECIPES / f"{name_or_path}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in RECIPES.glob("*.yaml")))
            raise InputError(f"no recipe {str(name_or_path)!r}; known: {known}; or give a path that ends in .yaml")
    if not path.is_file():
        raise InputError(f"no recipe file {path}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{path}: a recipe is a list of `key: value` lines")
    if {"steps", "epochs"} & overrides.keys():
        values = {key: value for key, value in values.items() if key not in ("steps", "epochs")}
    return make_recipe({**values, **overrides}, source=f"recipe {name_or_path}")


def _with_options(name: str, overrides: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name before the braces, and the values in them, those of `overrides` first."""
    import yaml

    name, brace, rest = name.partition("{")
    try:
        values = yaml.safe_load(brace + rest) or {}
    except yaml.YAMLError:
        raise InputError(f"recipe {name}{brace}{rest}: write {name}{{key: value, key: value}}") from None
    return name.strip(), values | dict(overrides)


def make_recipe(values: Mapping[str, Any], source: str = "recipe") -> Recipe:
    """`Recipe(**values)` with one clear InputError that names `source` and the keys."""
    try:
        return Recipe(**values)
    except ValidationError as error:
        raise InputError(f"{source}: " + "; ".join(_complaint(item) for item in error.errors()[:3])) from None


def _complaint(item: Mapping[str, Any]) -> str:
    key = ".".join(map(str, item["loc"]))
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(key, Recipe.model_fields, n=1)
        return f"unknown key {key!r}" + (f", did you mean {close[0]!r}?" if close else "")
    if not key:
        return item["msg"].removeprefix("Value error, ")
    return f"{key} = {item['input']!r}: {item['msg'].lower()}" if item["type"] != "missing" else f"{key} is missing"


def training_steps(recipe: Recipe, n_train: int) -> int:
    """Optimiser steps for `n_train` training pairs (query, relevant passage); 0 for BM25."""
    if recipe.architecture == "bm25":
        return 0
    if recipe.steps is not None:
        return recipe.steps
    return max(1, math.ceil(recipe.epochs * n_train / recipe.batch_size))


def scored_pairs(recipe: Recipe, steps: int) -> int:
    """(query, passage) scores that the loss sees in `steps` training steps: what an architecture learns from.

    >>> scored_pairs(load_recipe("mini-dense"), steps=10)  # 96 queries × (1 positive + 96 shared negatives)
    93120
    """
    batch, drawn = recipe.batch_size, recipe.n_negatives
    if recipe.architecture != "reranker" and recipe.negatives.startswith("bm25"):
        drawn *= batch  # those of the other queries, too
    negatives = 0 if recipe.negatives == "in-batch" else drawn
    negatives += batch - 1 if recipe.negatives in ("in-batch", "both", "bm25+in-batch") else 0
    return steps * batch * (1 + negatives)


def cost(
    recipe: Recipe,
    n_train: int,
    n_passages: int,
    throughput: Mapping[str, float] | None = None,
    n_queries: int = 0,
) -> dict:
    """Estimated steps and seconds, from the longest texts that the recipe allows (so rather too high).

    Parameters
    ----------
    n_train, n_passages
        Training pairs; passages to encode and search.
    throughput
        `train_tokens` and `encode_tokens` a second; default: the row of `THROUGHPUT` that fits the initialisation.
    n_queries
        Queries to search with; only a reranker's cost depends on it.

    Returns
    -------
    dict
        steps, train_seconds, encode_seconds, seconds.
    """
    if recipe.architecture == "bm25":
        # measured: about 8,000 passages a second indexed, 10 ms a tuning query and grid point at most
        tuning = recipe.tuning_queries * len(recipe.k1) * len(recipe.b) if len(recipe.k1) * len(recipe.b) > 1 else 0
        times = {"train_seconds": min(tuning, n_train or tuning) * 0.01, "encode_seconds": n_passages / 8_000}
        return {"steps": 0, **times, "seconds": sum(times.values())}
    if throughput is None:
        own = recipe.initialisation in ("tiny-base", "random")
        kind = "tiny" if own else "minilm" if recipe.initialisation.startswith("minilm") else "base-gpu"
        throughput = THROUGHPUT[kind]
    steps = training_steps(recipe, n_train)
    batch, length = recipe.batch_size, recipe.passage_length
    if recipe.architecture == "reranker":
        pair = recipe.query_length + length
        tokens, read = batch * (1 + recipe.n_negatives) * pair, n_queries * recipe.rerank_depth * pair
    else:
        drawn = {"in-batch": 0, "random": 1, "both": 1}.get(recipe.negatives, batch) * recipe.n_negatives
        tokens, read = batch * (recipe.query_length + length) + drawn * length, n_passages * length
    times = {
        "train_seconds": steps * tokens / throughput["train_tokens"],
        "encode_seconds": read / throughput["encode_tokens"],
    }
    return {"steps": steps, **times, "seconds": sum(times.values())}

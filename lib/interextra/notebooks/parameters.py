"""The parameters of notebooks: names, types, bounds, meanings, and what the papers used.

Each notebook's module has a class `Parameters` of its own; the classes here hold what several
share. Defaults are the values of the profile `mini`; a file under params/<profile>/ holds what
another profile changes. papermill takes a misspelt name silently; here an unknown name, a wrong
type or an impossible value is an error that names it.
"""

from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, BaseModel, Field

from interextra.measures import evaluate

LARGE = 10**9
Item = TypeVar("Item")


def _not_empty(values: list[Item]) -> list[Item]:
    if not values:
        raise ValueError("must not be empty: nothing would be measured")
    return values


def _distinct(values: list[Item]) -> list[Item]:
    texts = set(map(str, values))
    if len(texts) < len(values):
        raise ValueError("repeats a value")
    return values


def _measure(name: str) -> str:
    evaluate.check([name])
    return name


def _measures(names: list[str]) -> list[str]:
    evaluate.check(names)
    return names


Distinct = AfterValidator(_distinct)
NotEmpty = AfterValidator(_not_empty)

Count = Annotated[int, Field(ge=0, le=LARGE)]  # 0: none, all, or as a recipe says
Positive = Annotated[int, Field(ge=1, le=LARGE)]
Thousands = Annotated[int, Field(ge=1, le=1000)]
AnyThousands = Annotated[int, Field(ge=0, le=1000)]
Several = Annotated[int, Field(ge=2, le=1000)]
Relevance = Annotated[int, Field(ge=1, le=10)]
Million = Annotated[int, Field(ge=1, le=1_000_000)]
AnyMillion = Annotated[int, Field(ge=0, le=1_000_000)]
Seed = Annotated[int, Field(ge=0, le=2**31 - 1)]  # faiss takes no larger one
Resamples = Annotated[int, Field(ge=40, le=1_000_000)]  # fewer have no 2.5 % percentile
Share = Annotated[float, Field(ge=0, le=1)]
Seeds = Annotated[list[Seed], NotEmpty, Distinct]
AnySeeds = Annotated[list[Seed], Distinct]
Sizes = Annotated[list[Positive], NotEmpty, Distinct]
AnySizes = Annotated[list[Positive], Distinct]
Names = Annotated[list[str], NotEmpty, Distinct]
AnyNames = Annotated[list[str], Distinct]
Measure = Annotated[str, AfterValidator(_measure)]
Measures = Annotated[list[str], NotEmpty, Distinct, AfterValidator(_measures)]
# The name of something, or a mapping of its options
Entry = str | dict[str, Any]
Entries = Annotated[list[Entry], NotEmpty, Distinct]
AnyEntries = Annotated[list[Entry], Distinct]
NamesByName = dict[str, list[str]]


def parameter(default: Any, meaning: str, *, paper: str = "") -> Any:
    """Declare a parameter.

    Parameters
    ----------
    default
        Its value in the profile mini.
    meaning
        What it says, with its unit.
    paper
        What the paper used, or that it does not say.
    """
    return Field(default, description=meaning, json_schema_extra={"paper": paper})


class NotebookParameters(BaseModel, frozen=True, extra="forbid", strict=True):
    """What every notebook has."""

    profile: str = parameter("mini", "profile to run: smoke, mini, small or msmarco")
    collection: str = parameter("mini", "collection spec: mini, beir:PATH, irds:ID")
    seed: Seed = parameter(1, "seed of the encoder, of every random draw and of the bootstrap")
    n_boot: Resamples = parameter(10_000, "bootstrap resamples per confidence interval")

    def changed(self, **values: Any) -> Self:
        """Return them with other values, checked as a whole."""
        return type(self).model_validate(self.model_dump() | values)

    @classmethod
    def meaning_of(cls, name: str) -> str:
        """Return what a parameter means, and what the paper used."""
        field = cls.model_fields[name]
        paper = field.json_schema_extra["paper"]
        return f"{field.description}; paper: {paper}" if paper else str(field.description)


class TrainingParameters(NotebookParameters):
    """Of notebooks that train on queries of the collection."""

    train_split: str = parameter("train", "split with the training queries")
    train_limit: Count = parameter(0, "training queries used; 0: all")
    steps: Count = parameter(0, "training steps; 0: as the recipes say")


class RunParameters(TrainingParameters):
    """Of notebooks that search."""

    depth: Million = parameter(100, "passages per query in a run", paper="1,000")


class GateParameters(RunParameters):
    """Of notebooks whose systems must beat BM25 in domain before anything is said of them."""

    gate_splits: AnyNames = parameter(
        ["dev"], "queries on which a system must beat BM25; they neither train nor measure the loss"
    )
    gate_limit: Count = parameter(0, "of each of these splits, so many at random; 0: all")


class ReSTrainParameters(RunParameters):
    """Of notebooks with training sets of ReSTrain."""

    encoder: str = parameter(
        "trained",
        "whose vectors say what is near: trained (dense, all training queries), minilm, lsa",
    )
    sizes: Sizes = parameter(
        [112, 360, 1600], "training queries per set", paper="14,000, 45,000, 200,000"
    )
    match: str = parameter(
        "exact",
        "exact (precisely the size in both regimes) or as-released (whole ranks, at most the size)",
    )


class DrawParameters(ReSTrainParameters):
    """Of notebooks with draws of few test queries, each with training sets of its own."""

    test_draws: AnyThousands = parameter(
        0, "draws of few test queries, each with its own training sets and training runs; 0: none"
    )
    test_size: Million = parameter(97, "test queries per draw and split", paper="97 in total")
    draw_splits: Names = parameter(["test"], "splits from which they are drawn")
    draw_train: Million = parameter(360, "training queries per set of a draw")
    draw_disjoint: bool = parameter(False, "whether no query may be in two draws")
    draw_seeds: AnySeeds = parameter([], "training seeds of each draw; empty: the draw's number")


class ReSTTestParameters(RunParameters):
    """Of notebooks with buckets of ReSTTest."""

    k: Several = parameter(5, "buckets", paper="5")
    fold_size: Count = parameter(
        0,
        "training queries per fold, drawn at random; 0: all outside the bucket",
        paper="all",
    )


class PretrainingParameters(TrainingParameters):
    """Of notebooks whose dense retrievers differ in how they are trained and pretrained."""

    strategies: Entries = parameter([], "training strategies: label, recipe and its options")
    starts: Entries = parameter(
        [],
        "initialisations: label; objective none, words, order, condenser, spans; text none, other, "
        "target; with a recipe its own weights",
    )
    start_recipe: Entry = parameter(
        {"recipe": "mini-dense", "initialisation": "random"},
        "what is pretrained, and how it is fine-tuned",
    )
    pretraining_steps: Million = parameter(150, "batches of passages that each pretraining reads")
    pretraining_rate: Annotated[float, Field(ge=1e-9, le=1)] = parameter(
        0.006, "learning rate of the pretrainings"
    )
    other_text: Names = parameter(
        [
            "mini:ood-hobby-questions",
            "mini:ood-hobby-questions,seed=2",
            "mini:ood-affairs-questions",
            "mini:ood-affairs-questions,seed=2",
            "mini:ood-affairs-questions,seed=3",
        ],
        "collections that are not the target, with about as many passages as it has",
    )


class ShiftParameters(GateParameters):
    """Of notebooks with leave-one-out shifts."""

    n_topics: Several = parameter(3, "topic clusters", paper="5")
    n_test: AnyMillion = parameter(150, "test queries held out of each cluster", paper="6,200")
    train_size: Count = parameter(
        800,
        "training queries per model, from the other clusters, unless `shifts` sets it",
        paper="100,000",
    )
    seeds: Seeds = parameter([1], "training seeds of the dense retriever")
    other_seeds: Seeds = parameter([1], "seeds of the other systems")
    measures: Measures = parameter(
        ["RR@10", "ASL@100"], "measures", paper="MRR@10 and the 100-bounded ASL"
    )
    real_encoder: str = parameter(
        "", "minilm: also the appendix on real MS MARCO queries (folder: INTEREXTRA_DATA)"
    )
    shifts: Entries = parameter(
        [{"shift": "topics", "train_size": 1500}, "wh-words", "length"],
        "topics, kinds of passages (passage-clusters:k=5), or attributes of queries "
        "(splits.attributes), with options of their own: name, clusters, train_size, n_test",
    )
    only: NamesByName = parameter(
        {}, "shift: its systems beside BM25; of shifts that are not named all"
    )
    control: Entry = parameter(
        "", "e.g. random: a shift that is none, for every system; empty: without it"
    )
    native_clusters: Million = parameter(
        100, "clusters of k-means from which topics are made", paper="100"
    )
    topic_size: Million = parameter(900, "queries that a topic should have", paper="25,000")
    topic_encoder: str = parameter(
        "cls:tiny-base", "whose vectors are clustered", paper="[CLS] of DistilBERT as it comes"
    )
    topic_switches: list[str] = parameter(
        ["exact", "native", "nearest", "reach"], "choose, merge, order, stop: see splits.topics"
    )
    normalise: bool = parameter(
        False, "vectors of length 1 before k-means", paper="it does not say"
    )
    recipes: Entries = parameter([], "systems")

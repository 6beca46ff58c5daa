"""Passages of several runs in the order of a cross-encoder; and the models of TAS-Balanced, which
such scores train.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from interextra.data.queries import Part, Queries
from interextra.data.runs import RunFile
from interextra.models.architectures.reranker import Reranker
from interextra.models.model import Model, OfModel, file_of, load_model
from interextra.models.recipe import Recipe, load_recipe
from interextra.models.search.run import Ranking, Run, model_of
from interextra.store import InputError, Store


class Reranked(OfModel, Ranking):
    """The union of the first `depth` passages of some runs, each once, by the scores of a
    cross-encoder alone.

    `hybrid_cat` of Hofstätter et al. (TREC 2021, section 5). `relevant`: with all relevant
    passages, which teach.
    """

    runs: tuple[Ranking, ...]
    model: Model  # a reranker
    relevant: bool = False

    @property
    def queries(self) -> tuple[Queries | Part, ...]:
        return self.runs[0].queries if self.runs else ()

    def build(self, folder: Path, store: Store) -> None:
        model, passages = (
            load_model(store[self.model] / "weights"),
            self.queries[0].source.open().passages,
        )
        if not isinstance(model, Reranker) or {run.queries for run in self.runs} != {self.queries}:
            raise InputError(f"{self.title()}: give a reranker, and runs on the same queries")
        for queries in self.queries:
            frames = [
                run.read(store, queries).frame().query(f"rank <= {self.depth}") for run in self.runs
            ]
            if self.relevant:
                frames.append(queries.qrels(store).query("relevance >= 1"))
            texts = queries.frame(store).set_index("query_id")["text"]
            found = (
                pd.concat(frames)[["query_id", "doc_id"]]
                .drop_duplicates()
                .query("query_id in @texts.index")
            )
            rows = np.asarray(passages.rows(found["doc_id"].tolist()))[:, None]
            scores = model.score(passages, texts[found["query_id"]].tolist(), rows)[:, 0]
            RunFile.from_frame(found.assign(score=scores)).write_parquet(folder / file_of(queries))

    def seconds(self) -> float:
        passages = len(self.runs) * self.depth * self.n_queries()
        length = self.recipe.query_length + self.recipe.passage_length
        return passages * length / self.recipe.size.encode_tokens

    def title(self) -> str:
        return f"reranking · {len(self.runs)} runs, first {self.depth} each · {self.model.title()}"


def any_model_of(recipe: Recipe, train: Queries | Part, seed: int) -> Model:
    """As `run.model_of`, and of a TAS-Balanced recipe, too, with both teachers, the scores of
    pairs, a first pass.
    """
    if recipe.architecture != "tas_balanced":
        return model_of(recipe, train, seed)
    first = recipe.after and any_model_of(load_recipe(recipe.after), train, seed)
    teacher, judge = (
        model_of(load_recipe(name), train, seed) for name in (recipe.teacher, recipe.pair_teacher)
    )
    lexical = Run(
        model=model_of(load_recipe("bm25"), train, seed),
        queries=(train,),
        depth=recipe.negative_depth,
    )
    ranking = Reranked(runs=(lexical,), model=judge, depth=recipe.negative_depth, relevant=True)
    return Model.of(recipe, train, seed, first=first or None, ranking=ranking, teacher=teacher)

"""The model of a recipe as a cell, with the cells of what the recipe needs first."""

from interextra.data.queries import Part, Queries
from interextra.models.model import Model, Pretrained
from interextra.models.recipe import Recipe, Trained, load_recipe
from interextra.models.search.hybrid import Reranked
from interextra.models.search.run import Ranking, Run
from interextra.store import Cell


def model_of(recipe: Recipe, train: Queries | Part, seed: int) -> Model:
    """Return the model of a recipe with what it needs first.

    These are pretrained weights, a model that mines negatives, a teacher, scores of pairs. All are
    trained on the same queries with the same seed; negatives are drawn from the same
    `negative_passages`.
    """
    if not isinstance(recipe, Trained):
        return Model.of(recipe, train, seed)
    needed: dict[str, Cell] = {}
    if recipe.pretraining:
        needed["first"] = Pretrained.of(recipe.pretraining, recipe.initialisation, seed)
    for role, name in (("first", recipe.after), ("teacher", recipe.teacher)):
        if name:
            other = load_recipe(name, negative_passages=recipe.negative_passages)
            needed[role] = model_of(other, train, seed)
    if "ranking" in recipe.needs():
        needed["ranking"] = _ranking_of(recipe, train, seed, needed.get("first"))
    return Model.of(recipe, train, seed, **needed)


def _ranking_of(recipe: Trained, train: Queries | Part, seed: int, first: Cell | None) -> Ranking:
    """Return the ranking of the training queries that a recipe draws negatives or pairs from.

    Mined negatives are of the model before it. Pairs, of TAS-Balanced, are the first passages of
    BM25 and the relevant ones, with the scores of the `pair_teacher`.
    """
    depth = recipe.negative_depth
    if recipe.negatives.startswith("mined"):
        return Run(model=first, queries=(train,), depth=depth)
    bm25 = model_of(load_recipe("bm25"), train, seed)
    candidates = Run(model=bm25, queries=(train,), depth=depth)
    pair_teacher = model_of(load_recipe(recipe.pair_teacher), train, seed)
    return Reranked(runs=(candidates,), model=pair_teacher, depth=depth, relevant=True)

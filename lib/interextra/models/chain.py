"""What a recipe needs before its own training: pretrained weights, a model that mines negatives, a teacher."""

from interextra.data.queries import Part, Queries
from interextra.ground.cells import Cell
from interextra.models.model import Model
from interextra.models.pretrained import Pretrained
from interextra.models.recipe import Recipe, Trained, load_recipe
from interextra.models.run import Run


def model_of(recipe: Recipe, train: Queries | Part, seed: int) -> Model:
    """The model of a recipe with the cells that come before it, all trained on the same queries with the same seed.

    Negatives are drawn from the same passages all along the chain (`negative_passages`).
    """
    if not isinstance(recipe, Trained):
        return Model.of(recipe, train, seed)
    same = {"negative_passages": recipe.negative_passages}
    others: dict[str, Cell] = {}
    if recipe.pretraining:
        others["first"] = Pretrained.of(recipe.pretraining, recipe.initialisation, seed)
    if recipe.after:
        others["first"] = model_of(load_recipe(recipe.after, **same), train, seed)
    if recipe.negatives.startswith("mined"):
        others["ranking"] = Run(model=others["first"], queries=(train,), depth=recipe.negative_depth)
    if recipe.teacher:
        others["teacher"] = model_of(load_recipe(recipe.teacher, **same), train, seed)
    return Model.of(recipe, train, seed, **others)

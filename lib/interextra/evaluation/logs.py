"""What trainings and pretrainings noted, as tables. Taught in notebooks/06_pretraining_study."""

import json
from collections.abc import Mapping

import pandas as pd

from interextra.ground.cells import Store
from interextra.models.model import Pretrained
from interextra.models.recipe import Trained


def learnt(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """What each start could before and after its pretraining, on passages that were held out of the text that it reads:
    model, what, before, after."""
    rows = []
    for model, log in _logs(pretrained, store).items():
        rows += [(model, what, value, log["after"][what]) for what, value in log.get("before", {}).items()]
    return pd.DataFrame(rows, columns=["model", "what", "before", "after"])


def curves(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """The losses of each pretraining: model, part (words, order, head, spans), step, loss."""
    rows = []
    for model, log in _logs(pretrained, store).items():
        for row in log.get("curve", []):
            rows += [(model, part, row["step"], loss) for part, loss in row.items() if part != "step"]
    return pd.DataFrame(rows, columns=["model", "part", "step", "loss"])


def cost(pretrained: Mapping[str, Pretrained], store: Store) -> pd.DataFrame:
    """Of one pretraining each: model, passages (there are), steps, tokens (read), seconds (where it was computed)."""
    rows, noted = [], _logs(pretrained, store, "provenance.json")
    for model, log in _logs(pretrained, store).items():
        passages = log.get("passages", 0) + log.get("held_out", 0)
        steps, seconds = pretrained[model].how.steps if passages else 0, round(noted[model]["seconds"])
        rows.append((model, passages, steps, log["tokens"], seconds))
    return pd.DataFrame(rows, columns=["model", "passages", "steps", "tokens", "seconds"])


def _logs(pretrained: Mapping[str, Pretrained], store: Store, name: str = "pretraining.json") -> dict[str, dict]:
    paths = {model: store[cell] / name for model, cell in pretrained.items()}
    return {model: json.loads(path.read_text(encoding="utf-8")) for model, path in paths.items()}


def exposed(runs: pd.DataFrame, store: Store) -> pd.DataFrame:
    """How many of the negatives that the last training of each system draws are exposed: model, negative_passages,
    regime, exposed_negatives (a share), chance (the share of exposed ones among all passages).

    Systems that draw none (in-batch alone) have no row. The log counts the positives of the batch's other queries, too,
    which are never exposed; they are taken out here.
    """
    labels, rows = ["model", "negative_passages", "regime"], []
    for row in runs.itertuples():
        log, recipe = row.run.log(store), row.run.recipe
        if isinstance(recipe, Trained) and recipe.negatives != "in-batch":
            others = recipe.batch_size * (recipe.negatives == "both" or recipe.negatives.endswith("+in-batch"))
            share = log["exposed_negatives"] * (1 + others / max(1, recipe.drawn()))
            rows.append((*(getattr(row, name) for name in labels), share, log["exposed_passages"]))
    found = pd.DataFrame(rows, columns=[*labels, "exposed_negatives", "chance"])
    return found.groupby(labels, sort=False, as_index=False).mean()

"""Both regimes in the training log of sentence-transformers, which this module loads."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.own.split_folder import SplitFolder
from interextra.splits.split import REGIMES
from interextra.store import InputError, offenders

MEASURE = "nDCG@10"
DEPTH = 10
INTERPOLATION, EXTRAPOLATION = REGIMES


class RegimeEvaluator(SentenceEvaluator):
    """Measures a model in training in both regimes, for sentence-transformers' trainer.

    It returns nDCG@10 by the name of a regime, `interpolation_nDCG@10` and `extrapolation_nDCG@10`.
    Where a split leaves out parts (resttest, shift), one model has both, on the queries of the
    left-out part and on the others. Of restrain, whose sets are trained each by themselves, a model
    has the regime of its set: the logs of both trainings are compared.

    The queries are those of the gate, which measure no loss: what chooses a checkpoint must not
    measure it. Passages are drawn, so that values are higher than those of `regimes`.

    Parameters
    ----------
    split : path or SplitFolder
        A folder of `interextra split`.
    part : str
        The set that the model trains on, such as without-who; needed where there are several.
    queries : {"gate", "test"}
        Which queries are searched.
    n_passages : int
        Passages that are encoded each time: the judged ones, and random others up to this number.
    batch_size : int
        Of encoding.
    attribute : str
        See `SplitFolder.open`.

    Raises
    ------
    InputError
        No such set, or no query to search.
    """

    def __init__(
        self,
        split: str | Path | SplitFolder,
        part: str = "",
        queries: str = "gate",
        n_passages: int = 10_000,
        batch_size: int = 32,
        attribute: str = "",
    ) -> None:
        super().__init__()
        if not isinstance(split, SplitFolder):
            split = SplitFolder.open(Path(split), attribute)
        _refuse_unknown(split, part, queries)
        self.queries = _judged_queries(split, queries)
        if self.queries.empty:
            raise InputError(f"RegimeEvaluator: the split has no judged {queries} queries")
        is_of_query = split.qrels["query_id"].isin(self.queries["query_id"])
        self.qrels = split.qrels[is_of_query]
        self.regime = _regimes(split, part, self.queries["query_id"])
        rows = _passage_rows(split, self.qrels, n_passages)
        self.passages = split.passages.texts(rows)
        self.doc_ids = split.passages.doc_ids.take(rows).to_pylist()
        self.batch_size = batch_size
        first = next(regime for regime in REGIMES if regime in set(self.regime))
        self.primary_metric = _metric(first)

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """Return nDCG@10 of each regime, and put it into the model's card."""
        run = self._search(model)
        values = per_query(run, self.qrels, [MEASURE])[MEASURE]
        means = values.groupby(self.regime).mean()
        metrics = {_metric(regime): float(mean) for regime, mean in means.items()}
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    def _search(self, model: Any) -> RunFile:
        """Return the first DEPTH passages of each query."""
        encoding = {"batch_size": self.batch_size, "show_progress_bar": False}
        texts = self.queries["text"].tolist()
        query_vectors = model.encode_query(texts, **encoding)
        passage_vectors = model.encode_document(self.passages, **encoding)
        scores = np.asarray(model.similarity(query_vectors, passage_vectors))
        order = np.argsort(-scores, axis=1, kind="stable")
        rows = order[:, :DEPTH]
        best_scores = np.take_along_axis(scores, rows, axis=1)
        query_ids = self.queries["query_id"].tolist()
        return RunFile.from_arrays(query_ids, self.doc_ids, rows, best_scores)


def _metric(regime: str) -> str:
    """Return the name of the value of a regime in a log."""
    return f"{regime}_{MEASURE}"


def _refuse_unknown(split: SplitFolder, part: str, queries: str) -> None:
    """Refuse a set that there is not, and other queries than those of the gate or to test."""
    if part not in split.sets:
        known = ", ".join(split.sets)
        raise InputError(
            f"RegimeEvaluator: no set {offenders([part])}; name the one that the model trains on "
            f"(part): {known}"
        )
    if queries not in ("gate", "test"):
        raise InputError(f"RegimeEvaluator: queries {queries!r}; give gate or test")


def _judged_queries(split: SplitFolder, queries: str) -> pd.DataFrame:
    """Return the judged queries of the gate, or those to test."""
    query_ids = split.queries["query_id"]
    is_judged = query_ids.isin(split.qrels["query_id"])
    is_gate = query_ids.isin(split.gate_ids)
    is_asked = is_gate if queries == "gate" else ~is_gate
    return split.queries[is_asked & is_judged]


def _regimes(split: SplitFolder, part: str, query_ids: pd.Series) -> pd.Series:
    """Return the regime of each query for a model that trains on a set; index query_id."""
    before, _, left_out = part.partition("-")
    if split.strata is None:
        return pd.Series(before, index=query_ids)
    is_left_out = query_ids.map(split.strata) == left_out
    regimes = np.where(is_left_out, EXTRAPOLATION, INTERPOLATION)
    return pd.Series(regimes, index=query_ids)


def _passage_rows(split: SplitFolder, qrels: pd.DataFrame, n_passages: int) -> np.ndarray:
    """Return the sorted rows of the judged passages, and of random others up to a number."""
    doc_ids = qrels["doc_id"].unique().tolist()
    judged = np.asarray(split.passages.rows(doc_ids))
    judged = judged[judged >= 0]
    every_row = np.arange(len(split.passages))
    others = np.setdiff1d(every_row, judged)
    n_missing = max(0, n_passages - len(judged))
    n_others = min(len(others), n_missing)
    generator = np.random.default_rng(split.split.seed)
    drawn = generator.choice(others, n_others, replace=False)
    return np.sort(np.concatenate([judged, drawn]))

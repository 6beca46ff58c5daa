"""Both regimes stand in the log of sentence-transformers' trainer, and nothing excluded is mined."""

from pathlib import Path

import pytest
from datasets import Dataset, load_from_disk
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from toy_own import written

import interextra as ix
from interextra.models.base import verified_base
from interextra.own.split_folder import SplitFolder
from interextra.store.errors import InputError

MORE = {"attribute": "column:topic", "size": 12, "other_encoder": "tf-idf"}


@pytest.fixture
def model():
    return SentenceTransformer(str(verified_base()), device="cpu")


def test_both_regimes_stand_in_the_training_log(spec, store, model, tmp_path):
    written(spec, store, "shift", "out", formats=("ids", "st"), **MORE)
    evaluator = ix.RegimeEvaluator("out", "without-sky", queries="test", n_passages=50)
    assert isinstance(evaluator, SentenceEvaluator) and len(evaluator.passages) == 50
    options = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "report_to": "none"}
    more = {"disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
    arguments = SentenceTransformerTrainingArguments(tmp_path / "trained", **options, **more)
    pairs = load_from_disk("out/without-sky/st").select_columns(["anchor", "positive"])
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model, arguments, pairs, loss=loss, evaluator=evaluator)
    trainer.train()
    logged = [row for row in trainer.state.log_history if "eval_extrapolation_nDCG@10" in row]
    assert len(logged) == 2
    for row in logged:
        assert 0 < row["eval_interpolation_nDCG@10"] <= 1
        assert 0 < row["eval_extrapolation_nDCG@10"] <= 1
    strata = SplitFolder.open(Path("out"), "column:topic").strata
    regime = evaluator.regime
    assert set(strata[regime.index[regime == "extrapolation"]]) == {"sky"}
    assert "sky" not in set(strata[regime.index[regime == "interpolation"]])


def test_a_set_of_restrain_has_its_own_regime(spec, store, model):
    """On the gate's queries, which measure no loss."""
    written(spec, store, "restrain", "out", size=12, other_encoder="tf-idf")
    folder = SplitFolder.open(Path("out"))
    evaluator = ix.RegimeEvaluator(folder, "extrapolation-12")
    assert set(evaluator.queries["query_id"]) == set(folder.gate_ids)
    metrics = evaluator(model)
    assert list(metrics) == ["extrapolation_nDCG@10"] == [evaluator.primary_metric]
    with pytest.raises(InputError, match="name the one that the model trains on"):
        ix.RegimeEvaluator("out")
    with pytest.raises(InputError, match="give gate or test"):
        ix.RegimeEvaluator("out", "extrapolation-12", queries="dev")


def test_no_excluded_passage_is_mined(spec, store, model):
    """By id with its copies, by text, and by default what is exposed."""
    written(spec, store, "shift", "out", formats=("ids", "st"), **MORE)
    folder = Path("out/without-sky")
    exposed = (folder / "exposed.txt").read_text().splitlines()
    corpus = load_from_disk("out/corpus")
    text_of = dict(zip(corpus["passage_id"], corpus["text"], strict=True))
    options = {"num_negatives": 3, "verbose": False}

    def mined(**more):
        return set(ix.mine_hard_negatives(model, folder, **more, **options)["negative"])

    hidden = {text_of[doc_id] for doc_id in exposed}
    assert mined(exclude=[]) & hidden and not mined() & hidden
    first = min(mined(exclude=[]) & hidden)
    copy = first.upper()
    rows = {"passage_id": [*text_of, "copy"], "text": [*text_of.values(), copy]}
    more = Dataset.from_dict(rows)
    doc_id = next(doc_id for doc_id, text in text_of.items() if text == first)
    assert not mined(corpus=more, exclude=[doc_id]) & {first, copy}
    assert not mined(corpus=list(text_of.values()), exclude=[copy]) & {first}
    positive = load_from_disk(folder / "st")["positive"][0]
    with pytest.raises(InputError, match="1 are positives of training pairs"):
        mined(exclude=[positive])
    with pytest.raises(InputError, match="neither the passage_id nor the text"):
        mined(exclude=["nobody"])
    with pytest.raises(InputError, match="no training set in the formats"):
        ix.mine_hard_negatives(model, "nowhere")

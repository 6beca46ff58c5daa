"""Where no recipe is given: lengths hold the texts of the collection, the rate is the best of three,
and the search for it takes at most a quarter of the work.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from interextra.data.queries import Queries, Source
from interextra.models.base import BASE
from interextra.models.planning import model_of
from interextra.models.recipe import load_recipe
from interextra.own import fine_tuning, probe
from interextra.own.fine_tuning import RATES, TRIAL, OwnTraining, fitted
from interextra.own.splitting import DEFAULTS, gate_of, split_of
from interextra.store import InputError

MINI = "mini:n_train=400,n_dev=60"


@pytest.fixture(scope="module")
def pool():
    return Queries(source=Source.of(MINI), split="train")


def counted(pool):
    """Tokens of all queries and of all passages, by the tokenizer itself."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(BASE / "tokenizer.json"))
    passages = pool.source.open().passages
    texts = (pool.frame()["text"].tolist(), passages.texts(slice(None)))
    return [np.array([len(tokenizer.encode(text).ids) for text in some]) for some in texts]


def test_lengths_hold_nineteen_of_twenty_texts_and_no_multiple_less(pool):
    recipe, lengths = fitted(probe.recipe_of("tiny-base"), pool)
    of_queries, of_passages = counted(pool)
    for tokens, length, cut in (
        (of_queries, recipe.query_length, lengths.queries_cut),
        (of_passages, recipe.passage_length, lengths.passages_cut),
    ):
        assert (tokens <= length).mean() > 0.93 and (tokens <= length - 8).mean() < 0.97
        assert length % 8 == 0 and cut == pytest.approx((tokens > length).mean(), abs=0.02)
    assert recipe.learning_rate == load_recipe("mini-dense").learning_rate


def test_what_is_given_stays_and_no_text_is_longer_than_the_model_reads(pool, monkeypatch):
    given = {"query_length": 10, "learning_rate": 0.01}
    recipe, lengths = fitted(probe.recipe_of("tiny-base"), pool, **given)
    assert (recipe.query_length, recipe.learning_rate) == (10, 0.01) and lengths.queries_cut > 0
    monkeypatch.setattr(fine_tuning, "_most_tokens", lambda module: 21)
    recipe, lengths = fitted(probe.recipe_of("tiny-base"), pool)
    assert recipe.passage_length == 21 and lengths.passages_cut > 0.5


def test_a_narrow_encoder_in_any_folder_has_a_higher_rate(pool, tmp_path):
    """AdamW's rate goes with 1 / width: the recipe's is for 384, the tiny base has 64."""
    folder = shutil.copytree(BASE, tmp_path / "ours")
    (folder / "recipe.json").unlink()
    recipe, _ = fitted(probe.recipe_of(str(folder)), pool)
    assert recipe.learning_rate == pytest.approx(6 * load_recipe("small-dense").learning_rate)


def planned(store, spec=MINI, seeds=(1, 2), model="tiny-base", is_rate_given=False, **options):
    options = DEFAULTS | options
    split = split_of("restrain", spec, options)
    gate = gate_of(options, split.pool.source)
    recipe, lengths = fitted(probe.recipe_of(model), split.pool)
    return OwnTraining(recipe, split, gate, seeds, store, lengths, is_rate_given)


@pytest.mark.parametrize("spec", [MINI, "mini:n_train=2000,n_dev=200"])
@pytest.mark.parametrize("seeds", [(1,), (1, 2), (1, 2, 3)])
def test_short_trainings_are_a_quarter_of_the_work_of_all_others_at_most(store, spec, seeds):
    training = planned(store, spec, seeds)
    recipe = training.recipe
    n_passages = training.split.pool.source.n_passages()

    def work(steps, n_ranked):
        """Tokens, where learning from one takes the time of reading three."""
        return 3 * steps * recipe.step_tokens() + n_ranked * recipe.passage_length

    steps = recipe.training_steps(training.n_pairs())
    every_training = training.n_trainings * work(steps, n_passages) + work(0, n_passages)
    tried = 0
    for trial in training.trials:
        n_ranked = trial.n_queries * (trial.depth + 1)
        assert 20 <= trial.n_queries <= training.n_gate() and 5 <= trial.depth <= 20
        tried += work(trial.recipe.steps, min(n_ranked, n_passages))
    assert len(training.trials) == 3 and 0.1 * every_training < tried <= 0.25 * every_training
    rates = [trial.recipe.learning_rate for trial in training.trials]
    assert rates == pytest.approx([times * recipe.learning_rate for times in RATES])


def test_a_given_rate_is_not_chosen_and_too_short_trainings_tell_nothing(store, monkeypatch):
    assert not planned(store, is_rate_given=True).trials
    monkeypatch.setattr(fine_tuning, "LEAST_STEPS", 1000)
    training = planned(store)
    assert not training.trials and training.chosen() == training.recipe
    together = training.together(training.given)
    assert together == training.together(training.planned_runs()[0])
    assert together == [*training.planned_runs(), training.given]


def test_the_best_rate_is_chosen_recorded_and_taken_up_again(store, monkeypatch, tmp_path):
    """Rates of which one learns and two do not; a trial learns from no query that is searched."""
    monkeypatch.setattr(fine_tuning, "RATES", (1e-6, 1, 1e-5))
    training = planned(store, size=100)
    assert not training.is_chosen()
    assert "Recipe: learning rate the best of 6e-09, 0.006, 6e-08 after" in training.sentence()
    assert training.planned_runs()[0].model.recipe == training.recipe
    trained = []

    def fit(recipe, collection, query_ids, *others):
        trained.append(set(query_ids))
        return original(recipe, collection, query_ids, *others)

    original = fine_tuning.fit
    monkeypatch.setattr(fine_tuning, "fit", fit)
    for trial in training.trials:
        store.build(trial)
    sets = training.split.sets(store)
    assert all(len(ids) == 100 and ids <= set().union(*sets.values()) for ids in trained)
    chosen = training.chosen()
    assert training.is_chosen() and chosen.learning_rate == training.recipe.learning_rate
    means = [json.loads((store[trial] / TRIAL).read_text())["RR@10"] for trial in training.trials]
    assert max(means) == means[1] > means[0]
    run = training(Path("extrapolation-100"), 7)
    assert run.model == model_of(chosen, run.model.train, 7)
    sentence = training.sentence()
    assert f"learning rate {chosen.learning_rate:g} (the best of three on 60 queries" in sentence
    assert all(f"{mean:.3f} with" in sentence for mean in means)
    note = json.loads(training.write(tmp_path).read_text())
    assert note["recipe"]["learning_rate"] == chosen.learning_rate and len(note["trials"]) == 3
    assert not list(store.path(training.trials[0]).rglob("*.safetensors"))


def test_a_length_that_the_model_cannot_read_is_one_message(store, pool):
    with pytest.raises(InputError, match="reads at most 128 tokens"):
        recipe, _ = fitted(probe.recipe_of("tiny-base"), pool, passage_length=500)
        model_of(recipe, pool, 1)

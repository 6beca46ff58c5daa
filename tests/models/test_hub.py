"""Models of the hub: fetched once, at a fixed revision that stands in the keys; never unasked."""

import pytest
from huggingface_hub import errors
from toy_downloads import Hub

from interextra.data.pricing import pricing
from interextra.data.queries import Queries, Source
from interextra.models import hub
from interextra.models.base import initialisation, initialisation_digest, max_tokens_of
from interextra.models.model import Model, Pretrained
from interextra.models.recipe import Pretraining, load_recipe
from interextra.models.search.vectors import Vectors
from interextra.own.probe import recipe_of
from interextra.store import InputError, Store
from interextra.store.cells import config_of, from_config

BERT, OTHER = "bert-base-uncased", "someone/an-encoder"
SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture
def stub(tmp_path, monkeypatch):
    found = Hub(tmp_path / "hub")
    monkeypatch.setattr("huggingface_hub.snapshot_download", found.snapshot_download)
    hub.cached.cache_clear()
    yield found
    hub.cached.cache_clear()


def test_a_fixed_revision_is_fetched_once_and_is_the_digest(stub):
    assert hub.cached(BERT) is None
    assert initialisation_digest(BERT) == hub.REVISIONS[BERT]
    assert initialisation_digest(f"{BERT}:random") == hub.REVISIONS[BERT]
    assert stub.downloads == [(BERT, hub.REVISIONS[BERT])]
    start = initialisation(f"{BERT}:random")
    assert (start.source, start.random) == (str(hub.cached(BERT)), True)
    assert max_tokens_of(BERT) == 512 and len(stub.downloads) == 1


def test_the_revision_of_another_model_is_that_of_its_fetch(stub):
    digest = initialisation_digest(OTHER)
    assert stub.downloads == [(OTHER, None)] and len(digest) == 40
    hub.cached.cache_clear()  # another process
    assert initialisation_digest(OTHER) == digest and len(stub.downloads) == 1


def test_nothing_is_fetched_while_it_is_only_priced(stub):
    with pricing() as asked:
        assert initialisation_digest(BERT) == BERT and max_tokens_of(BERT) is None
        Pretrained.of(Pretraining(objective="none", steps=0), OTHER, 1)
    assert asked.models == {BERT, OTHER} and not stub.downloads


def test_a_model_without_safetensors_is_not_there(stub, monkeypatch):
    (hub.fetch_model(OTHER) / "model.safetensors").unlink()
    hub.cached.cache_clear()
    assert hub.cached(OTHER) is None
    with pytest.raises(InputError, match=r"someone/an-encoder.*no file named model\.safetensors"):
        hub.fetch_model(OTHER)


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (errors.RepositoryNotFoundError, "the hub has no model of this name that you may read"),
        (errors.RevisionNotFoundError, "the hub has no such revision of it"),
    ],
)
def test_a_misspelt_model_is_one_message_with_what_to_write(monkeypatch, error, why):
    def refuse(*arguments, local_files_only=False, **options):
        if local_files_only:
            raise errors.LocalEntryNotFoundError("not here")
        raise error.__new__(error, "404 Client Error (Request ID: 1)")  # without its response

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    hub.cached.cache_clear()
    for say in (hub.fetch_model, initialisation_digest):
        with pytest.raises(InputError) as told:
            say("mini-lm")
        message = str(told.value)
        assert message.startswith("initialisation 'mini-lm': no folder of this name, and not on ")
        assert why in message and "Write tiny-base, minilm, the path" in message
        assert "404" not in message
    with pytest.raises(InputError, match=f"--model-revision v1 of mini-lm: {why}; give a branch"):
        recipe_of("mini-lm", revision="v1")


def test_a_name_that_the_hub_cannot_have_is_the_same_message():
    with pytest.raises(InputError, match="'mini--lm': no folder of this name.* no model of this"):
        initialisation_digest("mini--lm")


def cells():
    """One of each kind that starts from a model of the hub."""
    train = Queries(source=Source.of(SPEC), split="train")
    return [
        Model.of(load_recipe("msmarco-dense"), train, seed=1),
        Pretrained.of(Pretraining(objective="none", steps=0), BERT, 1),
        Vectors(encoder=f"cls:{BERT}", train=train),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_what_was_planned_before_a_fetch_is_refused_and_planned_anew(stub, tmp_path, kind):
    store = Store(tmp_path / "cells")
    with pricing():
        before = cells()[kind]
        store.plan(before)
        assert cells()[kind].key == before.key
    note = from_config(config_of(before))
    assert note.key == before.key and not stub.downloads
    with pytest.raises(InputError, match=r"not on this disk: fetch it first.*then plan again"):
        store.build(note)
    assert not stub.downloads
    hub.fetch_model(BERT)
    with pytest.raises(InputError, match=r"[Pp]lan again|no cell .* is planned"):
        store.build(store.cell(before.key))
    after = cells()[kind]
    assert after.key != before.key
    with pricing():
        assert cells()[kind].key == after.key
    assert from_config(config_of(after)).key == after.key

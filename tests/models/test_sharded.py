"""Shards of whole blocks, a process each, give the bytes of one process."""

import numpy as np
import pytest

from interextra.data.queries import Queries, Source
from interextra.models.architectures import reranker
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.retriever import Encoder
from interextra.models.search import run as running
from interextra.models.search import sharded
from interextra.models.search.run import Encoded, Run
from interextra.models.search.sharded import Shard

SPEC = "mini:n_train=120,n_dev=30,seed=5"
QUICK = {"steps": 2, "batch_size": 4, "warmup_steps": 0, "n_negatives": 2}
K = 40
search_shard = sharded._search_shard


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        yield Source.of(SPEC)


@pytest.fixture(scope="module")
def texts(source):
    return Queries(source=source, split="dev").frame()["text"].tolist()


def trained(name, source, folder, **options):
    collection = source.open()
    recipe = load_recipe(f"mini-{name}", **QUICK, **options)
    fit(recipe, collection, collection.query_ids("train"), "train", 1, folder)
    return folder


def in_this_process(n, work, *given):
    return [work(Shard(number, n), *given) for number in range(n)]


@pytest.mark.parametrize(("n_items", "size", "n"), [(10, 4, 2), (8, 4, 3), (3, 4, 2), (100, 7, 4)])
def test_shards_are_whole_blocks_and_together_all_items(n_items, size, n):
    runs = [Shard(number, n).of(n_items, size) for number in range(n)]
    assert [item for run in runs for item in range(n_items)[run]] == list(range(n_items))
    for run in runs:
        assert run.start % size == 0 and (run.stop % size == 0 or run.stop == n_items)


@pytest.mark.parametrize("name", ["dense", "colbert", "splade", "reranker"])
def test_shards_find_the_bytes_that_one_process_finds(source, texts, tmp_path, monkeypatch, name):
    options = {"rerank_depth": 7} if name == "reranker" else {}
    weights = trained(name, source, tmp_path / "model", **options)
    monkeypatch.setattr(sharded, "_by_processes", in_this_process)
    for module in (sharded, reranker):
        monkeypatch.setattr(module, "BLOCK", 11)
    model = load_model(weights)
    monkeypatch.setattr(type(model), "block_size", 64, raising=False)
    one = model.search(source.open(), texts, K)
    for n in (2, 3):
        several = sharded.search(weights, source, texts, K, n)
        for found, expected in zip(several, one, strict=True):
            assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_ties_across_shards_have_the_order_of_one_process(source, texts, monkeypatch):
    class Equal(Encoder):
        """All passages have one of three scores."""

        block_size = 64

        def encode_block(self, texts, task="document"):
            return [len(text) % 3 for text in texts]

        def open_queries(self, texts):
            import torch

            return lambda block: lambda here: torch.tensor([block] * len(texts[here])).float()

    model = Equal(None, None)
    monkeypatch.setattr(sharded, "load_model", lambda weights: model)
    monkeypatch.setattr(sharded, "_by_processes", in_this_process)
    one = model.search(source.open(), texts, 1000)
    several = sharded.search(None, source, texts, 1000, 3)
    assert all((found == expected).all() for found, expected in zip(several, one, strict=True))
    assert (one[1][:, :-1] == one[1][:, 1:]).mean() > 0.9


def search_shard_of_small_blocks(*given):
    """In a process of its own."""
    Encoder.block_size = 64
    return search_shard(*given)


def test_two_processes_find_the_bytes_that_one_finds(source, texts, tmp_path, monkeypatch):
    weights = trained("dense", source, tmp_path / "model")
    monkeypatch.setattr(Encoder, "block_size", 64)
    one = load_model(weights).search(source.open(), texts, K)
    monkeypatch.setattr(sharded, "_search_shard", search_shard_of_small_blocks)
    two = sharded.search(weights, source, texts, K, 2)
    assert [found.tobytes() for found in two] == [expected.tobytes() for expected in one]


def test_cells_on_several_devices_have_the_files_of_one(source, tmp_path, monkeypatch):
    from interextra.models.planning import model_of
    from interextra.store import Store

    train = Queries(source=source, split="train").trainable()
    model = model_of(load_recipe("mini-dense", **QUICK), train, 1)
    cells = (
        Encoded(model=model, source=source),
        Run(model=model, queries=(Queries(source=source, split="dev"),), depth=K),
    )
    monkeypatch.setattr(Encoder, "block_size", 64)
    monkeypatch.setattr(sharded, "_by_processes", in_this_process)
    found = []
    for devices in (["cpu"], ["cpu", "cpu"]):
        monkeypatch.setattr(sharded, "devices", lambda devices=devices: devices)
        store = Store(tmp_path / str(len(devices)))
        paths = [
            path for cell in cells for path in store.build(cell).glob("*.*") if "." in path.name
        ]
        results = [path for path in paths if path.suffix in (".npy", ".parquet")]
        found.append({path.name: path.read_bytes() for path in results})
    assert found[0] == found[1] and len(found[0]) == 2
    vectors = cells[0].read(store)
    assert vectors.dtype == np.float32 and len(vectors) == len(source.open().passages)
    assert running.sharded is sharded

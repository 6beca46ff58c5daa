"""Notebook 10: batches and loss of TAS-Balanced, quantised and approximate search, hybrids; each
beside a reference.
"""

import faiss
import numpy as np
import pandas as pd
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.util.quantization import quantize_embeddings, semantic_search_faiss
from toy_models import animals
from toy_parameters import plan_with

from interextra.claims import claim
from interextra.data.queries import Part, Queries, Source
from interextra.data.runs import RunFile
from interextra.measures.evaluate import per_query
from interextra.models.architectures import dense, tas_balanced
from interextra.models.model import Model, fit, load_model
from interextra.models.planning import model_of
from interextra.models.recipe import load_recipe
from interextra.models.search import hybrid
from interextra.models.search.indexes import Index, quantised_search
from interextra.models.search.run import Encoded, Fused, Run, Searched
from interextra.models.search.topk import device
from interextra.models.training.losses import tas_balanced as loss_of
from interextra.models.training.pairs import training_pairs
from interextra.models.training.second_pass import LossAtLengths, TopicAware
from interextra.models.training.tokens import Tokens
from interextra.models.training.trainer import QueryBatches
from interextra.notebooks import n10_compression as compression
from interextra.notebooks.plans import cells_of
from interextra.site.parameters import profile_parameters
from interextra.stats.effects import effects
from interextra.stats.trainings import weakest_over
from interextra.store.errors import InputError
from interextra.store.folders import Store

N, DIMENSION = 300, 24


@pytest.fixture(scope="module")
def vectors():
    draw = np.random.default_rng(2)
    return [(draw.normal(size=(n, DIMENSION)) + 0.3).astype(np.float32) for n in (N, 12)]


# Quantised search


def agreeing(exact, found) -> float:
    return np.mean([np.isin(a, b).mean() for a, b in zip(exact, found, strict=True)])


@pytest.mark.parametrize(("precision", "times"), [("uint8", 3), ("uint8", 0), ("ubinary", 30)])
def test_quantised_search_finds_what_sentence_transformers_finds(vectors, precision, times):
    every, asked = vectors
    options = {"corpus_precision": precision, "calibration_embeddings": every, "rescore": times > 0}
    codes = quantize_embeddings(
        every, precision
    )  # bits tie at the cut: there all passages are rescored
    theirs, _ = semantic_search_faiss(
        asked, corpus_embeddings=codes, top_k=10, rescore_multiplier=times or 1, **options
    )
    (rows, scores), _ = quantised_search(every, asked, 10, precision, rescore_multiplier=times)
    np.testing.assert_allclose(
        scores, [[hit["score"] for hit in hits] for hits in theirs], rtol=1e-4, atol=1e-5
    )
    assert agreeing([[hit["corpus_id"] for hit in hits] for hits in theirs], rows) > 0.97


@pytest.mark.parametrize(("precision", "times"), [("uint8", 0), ("int8", 0), ("int8", 3)])
def test_codes_are_compared_and_numbers_restored(vectors, precision, times):
    every, asked = vectors
    low, step = every.min(axis=0), (every.max(axis=0) - every.min(axis=0)) / 255
    less = 128 * (precision == "int8")
    codes, of_query = (np.clip(np.floor((part - low) / step), 0, 255) - less for part in vectors)
    (rows, scores), size = quantised_search(every, asked, 5, precision, rescore_multiplier=times)
    by_codes = np.argsort(-(of_query @ codes.T), axis=1)[:, : 5 * max(times, 1)]
    numbers = asked @ ((codes + less) * step + low).T if times else of_query @ codes.T
    expected = -np.sort(-np.take_along_axis(numbers, by_codes, axis=1), axis=1)[:, :5]
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    assert size == N * DIMENSION + 2 * DIMENSION * 4  # codes, and the ranges


def test_bits_agree_and_take_whole_bytes(vectors):
    every, asked = vectors
    (rows, scores), size = quantised_search(every, asked, 5, "binary", rescore_multiplier=0)
    differing = ((every > 0) != (asked > 0)[:, None]).sum(axis=2)
    assert (scores == DIMENSION - 2 * np.sort(differing, axis=1)[:, :5]).all() and size == N * 3
    assert quantised_search(every[:, :9], asked[:, :9], 5, "ubinary")[1] == N * 2
    (rows, scores), _ = quantised_search(every, asked, 5, "binary", rescore_multiplier=4)
    np.testing.assert_allclose(
        scores, np.take_along_axis(asked @ (every > 0).T, rows, axis=1), rtol=1e-5
    )


def test_int8_degenerates_where_few_vectors_calibrate_it(vectors):
    every, asked = vectors
    exact = np.argsort(-(asked @ every.T), axis=1)[:, :10]
    shared = [
        agreeing(exact, quantised_search(every, asked, 10, "int8", calibration=n)[0][0])
        for n in (0, 2)
    ]
    assert shared[0] > 0.8 and shared[1] < shared[0] - 0.15
    assert (
        agreeing(exact, quantised_search(every, asked, 10, "uint8")[0][0]) < 0.6
    )  # codes that are all positive


def test_a_depth_beyond_the_passages_is_padded(vectors):
    (rows, scores), _ = quantised_search(*vectors, N + 5, "uint8")
    assert (
        rows.shape == (12, N + 5) and (rows[:, N:] == -1).all() and np.isneginf(scores[:, N:]).all()
    )


def test_unknown_precision_and_parameters_are_clear_errors(vectors):
    with pytest.raises(InputError, match="precision 'int4'"):
        quantised_search(*vectors, 3, "int4")
    with pytest.raises(InputError, match="two passages"):
        quantised_search(*vectors, 3, "int8", calibration=1)
    with pytest.raises(InputError, match="faiss: index 'HNWS'"):
        Index(vectors[0], "HNWS")
    with pytest.raises(InputError, match="efSerach"):
        Index(vectors[0], "HNSW8").search(vectors[1], 3, "efSerach=4")


def test_index_holds_what_faiss_holds_and_the_order_is_drawn(vectors):
    every, asked = vectors
    plain = faiss.index_factory(DIMENSION, "HNSW8,Flat", faiss.METRIC_INNER_PRODUCT)
    plain.add(every)
    ours = Index(every, "HNSW8,Flat")
    assert (
        ours.size == len(faiss.serialize_index(plain)) > N * DIMENSION * 4 + N * 8 * 4
    )  # numbers, and links
    assert (ours.search(asked, 5)[0] == plain.search(asked, 5)[1]).all()
    low = "efSearch=1"
    first, again, other = (
        Index(every, "HNSW4,Flat", "efConstruction=4", seed).search(asked, 5, low)
        for seed in (0, 0, 3)
    )
    assert (first[0] == again[0]).all() and (first[0] != other[0]).any()


def test_pca_does_not_favour_passages_along_the_mean(vectors):
    every, asked = vectors
    rows, _ = Index(every, "PCA24,Flat").search(
        asked, 10
    )  # as many dimensions as there are: nothing is lost
    assert (rows == np.argsort(-(asked @ every.T), axis=1)[:, :10]).all()
    plain = faiss.index_factory(DIMENSION, "PCA24,Flat", faiss.METRIC_INNER_PRODUCT)
    plain.train(every)
    plain.add(every)
    assert (plain.search(asked, 10)[1] != rows).any()  # faiss centres the query, too


# TAS-Balanced


def test_margins_are_drawn_by_bins_of_equal_width():
    margins = [0.0, 0.1, 0.2, 0.3, 4.0, 2.1]
    scored = pd.DataFrame(
        {"query": [0] * 6, "positive": 7, "negative": range(6), "margin": margins}
    )
    batches = tas_balanced.TopicBatches(
        scored, np.zeros(1, int), bins=4
    )  # 0 to 1: four; 1 to 2: none; 2 to 3, 3 to 4: one
    drawn = [batches.draw(np.random.default_rng(i), 1) for i in range(3000)]
    shares = pd.Series([int(one["negative"][0]) for one in drawn]).value_counts(normalize=True)
    expected = {0: 1 / 12, 1: 1 / 12, 2: 1 / 12, 3: 1 / 12, 4: 1 / 3, 5: 1 / 3}
    assert all(abs(shares[row] - share) < 0.03 for row, share in expected.items())
    assert all(one["margin"][0] == margins[one["negative"][0]] for one in drawn[:50])


def test_queries_of_a_batch_are_of_one_topic_until_it_is_exhausted():
    scored = pd.DataFrame(
        {"query": np.repeat(np.arange(10), 2), "positive": 0, "negative": [1, 2] * 10}
    )
    labels = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2])  # query 10 has no pair
    batches = tas_balanced.TopicBatches(scored.assign(margin=[0.0, 1.0] * 10), labels, bins=2)
    for i in range(20):
        found = batches.draw(np.random.default_rng(i), 4)["query"]
        assert len(set(found)) == 4 and len(set(labels[found])) == 1
        every = batches.draw(np.random.default_rng(i), 10)["query"]
        assert sorted(every) == list(range(10)) and len(set(labels[every[:4]])) == 1


def test_the_loss_is_the_loop_over_pairs():
    draw = torch.Generator().manual_seed(1)
    good, bad, taught, margin = (torch.randn(4, n, generator=draw) for n in (1, 8, 9, 1))
    recipe = load_recipe("mini-tas-b", in_batch_weight=0.5)
    pair = np.mean([(good[i, 0] - bad[i, i] - margin[i, 0]) ** 2 for i in range(4)])
    goals = taught[:, :1] - taught[:, 1:]
    rest = np.mean(
        [(good[i, 0] - bad[i, j] - goals[i, j]) ** 2 for i in range(4) for j in range(8)]
    )
    found = loss_of(good, bad, torch.cat([margin, taught], dim=1), recipe)
    assert found.item() == pytest.approx(pair + 0.5 * rest, rel=1e-5)


@pytest.fixture(scope="module")
def zoo(tmp_path_factory):
    return animals(tmp_path_factory.mktemp("zoo"), 30)


@pytest.fixture(scope="module")
def taught(zoo, tmp_path_factory):
    """A collection, a run with a teacher's scores of pairs, and an untrained ColBERT."""
    folder = tmp_path_factory.mktemp("taught")
    scores = np.random.default_rng(1).random((60, 8))
    rows = (
        np.arange(60)[:, None] + np.arange(8)
    ) % 60  # the relevant passage of query i is passage i
    ids = [f"q{i}" for i in range(60)]
    RunFile.from_arrays(ids, zoo.passages.doc_ids, rows, scores).write_parquet(
        folder / "run.train.parquet"
    )
    fit(
        load_recipe("mini-colbert", steps=0),
        zoo,
        zoo.query_ids("train"),
        "train",
        1,
        folder / "teacher",
    )
    return folder, rows, scores


def test_scored_pairs_are_all_of_a_relevant_and_another_passage(zoo, taught):
    folder, rows, scores = taught
    pairs = training_pairs(zoo, zoo.query_ids("train"), "train", 1)
    found = tas_balanced.scored_pairs(folder / "run.train.parquet", zoo.passages, pairs)
    assert len(found) == 60 * 7
    for row in found.sample(20, random_state=1).itertuples():
        at = int(pairs.query_ids[row.query][1:])
        assert row.positive == rows[at, 0] and row.negative in rows[at, 1:]
        assert row.margin == pytest.approx(
            scores[at, 0] - scores[at, list(rows[at]).index(row.negative)], rel=1e-5
        )


def test_training_lowers_the_loss_and_repeats(zoo, taught, tmp_path):
    folder, *_ = taught
    given = {"ranking": folder / "run.train.parquet", "teacher": folder / "teacher"}
    recipe = load_recipe("mini-tas-b", steps=30, clusters=4, batch_size=8, warmup_steps=5)
    logs = [
        fit(recipe, zoo, zoo.query_ids("train"), "train", 1, tmp_path / name, **given)
        for name in "ab"
    ]
    assert logs[0]["loss"] == logs[1]["loss"] and logs[0]["steps"] == 30
    losses = [loss for _, loss in logs[0]["loss"]]
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    same = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert same[0] == same[1]


def test_a_batch_has_the_margins_of_both_teachers(zoo, taught):
    folder, *_ = taught
    recipe, teacher = (
        load_recipe("mini-tas-b", steps=1, in_batch_weight=0.5),
        load_model(folder / "teacher"),
    )
    pairs = training_pairs(zoo, zoo.query_ids("train"), "train", 1)
    scored = tas_balanced.scored_pairs(folder / "run.train.parquet", zoo.passages, pairs)
    topics, made = tas_balanced.TopicBatches(scored, np.zeros(60, int), 10), []
    loss = TopicAware(recipe, 1, topics)
    loss.batches = QueryBatches(Tokens(loss.model), pairs, zoo, recipe, 1, teacher=teacher)
    draw, topics.draw = topics.draw, lambda *given: made.append(draw(*given)) or made[-1]
    found = loss(None, loss.batches([{"pair": i} for i in range(6)])["label"].to(device())).item()
    [made], texts = made, zoo.passages.texts
    asked = [pairs.texts[row] for row in made["query"]]
    read = texts(made["negative"]) + texts(made["positive"])
    student, teaches = (
        dense.Dense(loss.model, recipe),
        teacher.open_queries(asked)(teacher.encode_block(read))(slice(None)),
    )
    scores = student.encode_queries(asked) @ student.encode_passages(read).T / recipe.temperature
    own, goals = (
        scores[:, 6:].diagonal()[:, None] - scores,
        teaches[:, 6:].diagonal()[:, None] - teaches,
    )
    pair = ((own[:, :6].diagonal() - made["margin"]) ** 2).mean()
    assert found == pytest.approx(pair + 0.5 * ((own - goals.cpu().numpy()) ** 2).mean(), rel=1e-4)


def second_pass(of: str, **options):
    """The recipe of a second pass, of TAS-Balanced or of another loss of a dense retriever."""
    name = {"tas_balanced": "mini-tas-b", "compressed": "mini-compressed"}[of]
    return load_recipe(
        name, **{"dimension": 0, "steps": 2, "batch_size": 4, "warmup_steps": 0} | options
    )


@pytest.mark.parametrize("of", ["tas_balanced", "compressed"])
@pytest.mark.parametrize("bias", [True, False])
def test_compression_is_a_linear_layer_after_pooling_of_any_loss(zoo, taught, tmp_path, of, bias):
    folder, *_ = taught
    given = (
        {"ranking": folder / "run.train.parquet", "teacher": folder / "teacher"}
        if of == "tas_balanced"
        else {}
    )
    data = zoo, zoo.query_ids("train"), "train", 1
    fit(second_pass(of, after=""), *data, tmp_path / "a", **given)
    recipe = second_pass(of, after="mini-dense", dimension=16, bias=bias)
    with pytest.raises(InputError, match="needs what other trainings make: 'start'"):
        fit(recipe, *data, tmp_path / "b", **given)
    fit(recipe, *data, tmp_path / "b", start=tmp_path / "a", **given)
    model = load_model(tmp_path / "b")
    assert isinstance(model, dense.Dense)
    layer, texts = model.model[-1].linear, ["where does it live", "what does it eat"]
    assert (layer.bias is not None) == bias and layer.weight.shape == (16, 64)
    whole = SentenceTransformer(modules=list(model.model)[:-1]).encode(texts)
    plain = whole @ layer.weight.detach().cpu().numpy().T + (
        layer.bias.detach().cpu().numpy() if bias else 0
    )
    np.testing.assert_allclose(model.encode_queries(texts), plain, atol=1e-4)
    moved = (
        load_model(tmp_path / "a").model[0].model.state_dict(),
        model.model[0].model.state_dict(),
    )
    assert any(
        not torch.equal(moved[0][name], moved[1][name]) for name in moved[0]
    )  # nothing is frozen


def test_vectors_that_were_of_length_1_are_so_after_the_layer(zoo, tmp_path):
    recipe = second_pass("compressed", after="", dimension=8, similarity="cosine", temperature=0.05)
    fit(recipe, zoo, zoo.query_ids("train"), "train", 1, tmp_path / "a")
    vectors = load_model(tmp_path / "a").encode_queries(["where does it live", "what does it eat"])
    assert vectors.shape == (2, 8) and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("of", ["tas_balanced", "compressed"])
def test_matryoshka_is_the_mean_of_the_loss_over_the_lengths(of):
    draw = torch.Generator().manual_seed(1)
    queries, positives, others = (torch.randn(n, 64, generator=draw) for n in (4, 4, 8))
    label = torch.randn(4, 10, generator=draw) if of == "tas_balanced" else None
    losses = []
    for lengths in ([], [8, 16]):
        loss = LossAtLengths(
            second_pass(of, after="", truncations=lengths, negatives=NEGATIVES[of]), 1
        )
        losses.append(loss.compute_loss_from_embeddings([queries, positives, others], label).item())
    whole = LossAtLengths(second_pass(of, after="", negatives=NEGATIVES[of]), 1)
    cut = [
        whole.compute_loss_from_embeddings(
            [part[:, :n] for part in (queries, positives, others)], label
        ).item()
        for n in (64, 8, 16)
    ]
    assert losses == pytest.approx([cut[0], np.mean(cut)], rel=1e-5) and len(set(cut)) == 3


NEGATIVES = {"tas_balanced": "topics", "compressed": "random"}


def test_recipes_that_cannot_be_meant_are_refused():
    with pytest.raises(InputError, match="64 of 64 dimensions"):
        LossAtLengths(second_pass("compressed", truncations=[64]), 1)
    for wrong in (
        {"similarity": "cosine"},
        {"negatives": "bm25"},
        {"loss": "listwise"},
        {"epochs": 1.0, "steps": 2},
    ):
        with pytest.raises(InputError):
            load_recipe("mini-tas-b", **wrong)
    with pytest.raises(InputError, match="loss"):
        second_pass("compressed", loss="rank-weighted", negatives="own")
    assert set(load_recipe("mini-tas-b").needs()) == {"ranking", "teacher"}


# The design, hybrids and the second signal


SMALL = {"collection": "mini:n_train=700", "sizes": [40, 80], "trained_sizes": [40]}


@pytest.fixture(scope="module")
def smoke(root):
    notebook = root / "notebooks" / "10_compression_and_hybrid.ipynb"
    return profile_parameters(root, "smoke", notebook, SMALL)


def test_the_design_shares_teachers_and_encodes_each_training_once(smoke):
    plan = plan_with(compression, smoke)
    assert set(plan.design["regime"]) == {"interpolation", "extrapolation"} and plan.buckets is None
    encoded = {run.encoded.key for run in plan.design["run"] if isinstance(run, Searched)}
    assert len(encoded) == 2 * 4  # regimes, trained dense systems
    models = [cell for cell in _all(plan) if isinstance(cell, Model)]
    balanced = [model for model in models if model.recipe.architecture == "tas_balanced"]
    assert len(balanced) == 2
    for model in balanced:
        needed = [model.teacher, model.ranking.model, model.ranking.runs[0].model]
        assert all(one.train == model.train and one.seed == model.seed for one in needed)
        assert model.ranking.relevant and isinstance(model.train, Part)
    full = {run.encoded.model.key for run in plan.design.query("model == @compression.FULL")["run"]}
    second = [model for model in models if model.recipe.architecture == "compressed"]
    assert {model.first.key for model in second} == full and all(
        model.first.train == model.train for model in second
    )


def test_without_a_reranker_the_other_runs_are_the_same(smoke):
    """Nothing but the reranked hybrids and the trainings behind them goes."""
    whole, plan = (
        plan_with(compression, changed).design for changed in (smoke, smoke.changed(reranker=""))
    )
    assert set(whole["model"]) - set(plan["model"]) == {compression.UNION, compression.CASCADE}
    is_left = whole["model"].isin(plan["model"])
    assert plan["run"].tolist() == whole.loc[is_left, "run"].tolist()


def test_a_second_pass_of_tas_balanced_has_what_its_first_pass_has(smoke):
    train = Queries(source=Source.of(SMALL["collection"]), split="train")
    model = model_of(load_recipe("mini-tas-b", after="mini-tas-b", dimension=16), train, 1)
    assert model.first == model_of(load_recipe("mini-tas-b"), train, 1)
    assert (model.ranking, model.teacher) == (model.first.ranking, model.first.teacher)


def _all(plan):
    found, todo = {}, list(cells_of(plan))
    while todo:
        cell = todo.pop()
        if cell.key not in found:
            found[cell.key] = cell
            todo += cell.needs()
    return list(found.values())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"protocol": "LOO"}, "'LOO' is none of"),
        ({"searches": [{"label": "x", "of": "unknown"}]}, "'unknown' is none of"),
        ({"searches": [{"label": "x", "of": "Dense", "indx": "Flat"}]}, "searches', x: indx"),
        (
            {"searches": [{"label": "x", "of": "Dense", "calibration": -2}]},
            "searches', x: calibration",
        ),
        ({"searches": [{"label": "TAS-B", "of": "Dense"}]}, "'TAS-B' stands twice"),
        ({"gate_splits": ["test"]}, "'gate_splits'"),
        ({"strategies": ["bm25"]}, "'Dense' is none of"),
    ],
)
def test_impossible_parameters_are_clear_errors(smoke, changed, message):
    with pytest.raises(InputError, match=message):
        plan_with(compression, smoke.changed(**changed))


SPEC = "mini:n_train=400,n_dev=40"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("home") / "outputs" / "cells")


@pytest.fixture(scope="module")
def both(home):
    """BM25 and an untrained dense retriever on two sets of queries."""
    source = Source.of(SPEC)
    train, queries = (
        Queries(source=source, split="train"),
        tuple(Queries(source=source, split=s) for s in ("test", "dev")),
    )
    lexical = Run(
        model=Model.of(load_recipe("bm25", k1=[0.9], b=[0.4]), train, 1), queries=queries, depth=20
    )
    model = Model.of(load_recipe("mini-dense", steps=2), train, 1)
    found = Searched(encoded=Encoded(model=model, source=source), queries=queries, depth=20)
    for cell in (lexical, found):
        home.build(cell)
    return lexical, found


def test_the_weight_is_chosen_on_tuning_queries_alone(home, both):
    dev = both[0].queries[1]
    tuned = Fused(runs=both, method="wsum", tuned=dev, depth=20)
    home.build(tuned)
    design = pd.DataFrame([{"model": compression.WEIGHTED, "run": tuned}])
    weight = compression.weights(design, home)["weight"].item()
    means = {}
    for tenth in range(11):
        fixed = Fused(runs=both, method="wsum", weights=(tenth / 10, 1 - tenth / 10), depth=20)
        home.build(fixed)
        means[tenth] = per_query(fixed.read(home, dev), dev.qrels(home), ["nDCG@10"])[
            "nDCG@10"
        ].mean()
    assert means[round(10 * weight)] == pytest.approx(max(means.values()), abs=0.01)


def test_reranking_takes_each_passage_of_the_union_once(home, both):
    judge = Model.of(load_recipe("mini-reranker", steps=0), both[0].model.train, 1)
    cell = hybrid.Reranked(runs=both, model=judge, depth=5)
    home.build(cell)
    queries = both[0].queries[0]
    found = cell.read(home, queries).frame()
    heads = [run.read(home, queries).frame().query("rank <= 5") for run in both]
    union = pd.concat(heads).groupby("query_id")["doc_id"].agg(set)
    assert found.groupby("query_id")["doc_id"].agg(set).equals(union.loc[sorted(union.index)])
    assert not found.duplicated(["query_id", "doc_id"]).any()
    model, one = (
        load_model(home[judge] / "weights"),
        found[found["query_id"] == found["query_id"].iloc[0]],
    )
    collection, texts = queries.source.open(), queries.frame().set_index("query_id")["text"]
    rows = np.asarray(collection.passages.rows(one["doc_id"].tolist()))[None]
    expected = model.score(collection.passages, [texts[one["query_id"].iloc[0]]], rows)[0]
    np.testing.assert_allclose(one["score"], expected, atol=1e-4)
    with pytest.raises(InputError, match="give a reranker"):
        home.build(hybrid.Reranked(runs=both, model=both[1].encoded.model, depth=5))


def test_bytes_of_a_search_are_kept_with_it(home, both):
    cut = both[1].model_copy(update={"truncate_dim": 16})
    bits = both[1].model_copy(update={"index": "binary", "truncate_dim": 16})
    for cell in (cut, bits):
        home.build(cell)
    assert cut.bytes_per_passage(home) == 64 and bits.bytes_per_passage(home) == 2
    design = pd.DataFrame([{"model": "cut", "run": cut}, {"model": "bits", "run": bits}])
    assert compression.sizes(design, home)[["dimensions", "bytes_per_passage"]].values.tolist() == [
        [16, 64],
        [16, 2],
    ]
    with pytest.raises(InputError, match="truncate_dim = 65 of 64"):
        home.build(both[1].model_copy(update={"truncate_dim": 65}))


def test_effort_raises_the_recall_of_an_approximate_index(home, both):
    design = pd.DataFrame(
        [{"model": compression.FULL, "regime": "interpolation", "seed": 1, "run": both[1]}]
    )
    found = compression.approximate(design, home, ["HNSW4"], [1, 200], orders=2)
    recall = found.groupby("efSearch")["recall_at_10"].mean()
    assert recall[200] > 0.95 > recall[1] and len(found) == 4 and found["bytes"].nunique() == 1


def run_of(**ranked):
    rows = [(query, doc, score) for query, docs in ranked.items() for doc, score in docs.items()]
    return RunFile.from_frame(pd.DataFrame(rows, columns=["query_id", "doc_id", "score"]))


def test_a_signal_is_a_weighted_sum_by_hand():
    run = run_of(q={"a": 10.0, "b": 5.0, "c": 0.0})
    signal = pd.Series({"a": 1.0, "b": 3.0})  # c has none: the lowest
    frame = compression.with_signal(run, signal, 0.6).frame().set_index("doc_id")["score"]
    assert frame.to_dict() == pytest.approx({"a": 0.4, "b": 0.4 * 0.5 + 0.6, "c": 0.0}, abs=1e-6)
    assert compression.with_signal(run, signal, 0.0).frame()["doc_id"].tolist() == ["a", "b", "c"]


def test_the_guardrail_allows_what_costs_little():
    run = run_of(q={"a": 3.0, "b": 2.0, "c": 1.0})
    qrels = pd.DataFrame({"query_id": "q", "doc_id": ["a"], "relevance": [1]})
    signal = pd.Series({"a": 0.0, "b": 0.5, "c": 1.0})
    found = compression.guarded(run, signal, qrels, guard=0.05).set_index("weight")
    assert (
        found.loc[0.0, "value"] == 1 and found.loc[0.0, "allowed"] and not found.loc[1.0, "allowed"]
    )
    assert found["allowed"].sum() == (found["value"] >= 0.95).sum() < 11


def test_published_differences_are_those_of_the_printed_tables():
    found = compression.published_differences().set_index(["measure", "first", "second"])["scaled"]
    assert found["nDCG@10", "TAS-B", "Standalone"] == pytest.approx(0.5619 - 0.4991)
    assert found["nDCG@10", "Dense, compressed, HNSW", compression.FULL] == pytest.approx(
        0.5426 - 0.5619
    )
    assert found["nDCG@10", compression.WEIGHTED, "BM25"] == pytest.approx(0.3205 - 0.2486)
    reranked = found["nDCG@10", compression.CASCADE, compression.HNSW]
    assert reranked == pytest.approx(0.3255 - 0.3082)
    assert len(found) == 2 * 3 + 5 * 4
    systems = {system for pair in compression.PUBLISHED for system in pair}
    claimed = [
        claim
        for claim in claim.of_notebook("10_compression_and_hybrid")
        if claim.paper == "hofstaetter"
    ]
    assert systems <= {term["model"] for claim in claimed for _, term in claim.terms()} | {"BM25"}


def test_differences_beside_the_printed_ones_say_what_their_intervals_are_over():
    systems = {compression.HNSW: 1, compression.FULL: 2, "BM25": 0}
    rows = [
        ("extrapolation", "nDCG@10", model, seed, query, 0.5 + 0.01 * place * (seed + 1))
        for model, n_trainings in systems.items()
        for seed in range(max(1, n_trainings))
        for place, query in enumerate("abcd")
    ]
    columns = ["regime", "measure", "model", "seed", "query_id", "value"]
    values = pd.DataFrame(rows, columns=columns)
    trained = values["model"] + " " + values["seed"].astype(str)
    values["trained"] = trained.where(values["model"] != "BM25", "")
    by = ["regime", "measure", "model"]
    means = effects(values, by, n_boot=50)
    over = means.set_index("model")["over"]
    beside = compression.beside_published(means).set_index(["first", "second"])
    known = {model: over[model] for model in systems}
    found = beside["over"][compression.HNSW, "BM25"]
    assert found == weakest_over([known[compression.HNSW], known["BM25"]])
    assert beside.loc[(compression.HNSW, "BM25"), "published"] == pytest.approx(0.0596)


def test_the_sentence_on_zero_shot_has_both_numbers_and_the_interval():
    rows = [
        ("nDCG@10", compression.HNSW, "BM25", -0.006, -0.047, 0.036, 0.0596, "undecided"),
        ("nDCG@10", compression.HNSW, "Dense", -0.007, -0.024, 0.011, -0.0193, "undecided"),
    ]
    columns = ["measure", "first", "second", "difference", "low", "high", "published", "verdict"]
    beside = pd.DataFrame(rows, columns=columns)
    sentence = compression.zero_shot_sentence(beside)
    assert "minus BM25 in nDCG@10 is -0.6 points [-4.7, +3.6]; published: +6.0 points" in sentence
    assert compression.zero_shot_sentence(beside[1:]) == ""


def test_the_table_of_training_runs_has_each_trained_model_once(smoke):
    design = plan_with(compression, smoke).design
    page = compression.training_runs(design).set_index("trained system")
    trained = {"BM25", "Standalone", "TAS-B", "Dense", "Dense, compressed"}
    assert set(page.index) == trained | {"cross-encoder of Hybrid, reranked"}
    assert (page["training queries"] == 40).all()
    assert page["training sets"].unique().tolist() == ["interpolation, extrapolation"]


def test_recall_over_orders_has_its_mean_and_its_ends():
    measured = pd.DataFrame({"left_out": 1, "index": "HNSW4", "efSearch": [4, 4, 8, 8]})
    measured = measured.assign(order=[0, 1, 0, 1], recall_at_10=[0.5, 0.7, 0.9, 0.9], bytes=30.0)
    recall = compression.recalls(measured).set_index("efSearch")
    assert recall.loc[4, ["recall", "low", "high"]].tolist() == pytest.approx([0.6, 0.5, 0.7])
    first, second = compression.recall_sentences(measured)
    assert "over 2 orders" in first and first.endswith("up to 20.0 points.")
    assert second == "HNSW4: 30 bytes per passage"
    assert compression.side_of(measured) == "left_out"
    assert compression.side_of(measured.rename(columns={"left_out": "regime"})) == "regime"


def test_only_the_prefix_of_the_full_system_is_taken_off():
    table = pd.DataFrame({"model": ["Dense, PCA", "Dense", "Hybrid, RRF"]})
    names = compression.unprefixed(table, "model")["model"].tolist()
    assert names == ["PCA", "Dense", "Hybrid, RRF"]


def test_weights_of_bm25_are_a_range_by_collection():
    weights = pd.DataFrame({"collection": ["a", "a", "b"], "weight": [0.3, 0.4, 0.7]})
    sentence = compression.weights_sentence(weights)
    assert sentence == "Weight of BM25 in the hybrid: a 0.3 to 0.4; b 0.7 to 0.7."
    assert compression.weights_sentence(pd.DataFrame()) == ""

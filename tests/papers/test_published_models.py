import numpy as np
import pandas as pd
import pytest

from interextra.papers import published_models
from interextra.store.errors import InputError


def scores(n=40, gain=0.0, seed=0):
    """Made-up models; `gain`: what a late-interaction model has over a dense one of the same
    quality.
    """
    random = np.random.default_rng(seed)
    dev = random.uniform(0.31, 0.45, n)
    late = np.arange(n) % 3 == 0
    frame = pd.DataFrame(
        {"model": [f"maker{i}/recipe{i}" for i in range(n)], "msmarco_dev_ndcg10": dev}
    )
    frame["model_type"] = np.where(late, "late-interaction", "dense")
    frame["trained_on_of_these"] = np.where(np.arange(n) % 4 == 0, "MSMARCO B", "MSMARCO")
    frame["training_data"] = np.where(np.arange(n) % 5 == 0, "undisclosed", "declared")
    for name in "AB":
        frame[name] = 0.2 + 0.8 * dev + gain * late + 0.005 * random.normal(size=n)
    return frame


def written(folder, frame):
    path = folder / "scores.csv"
    frame.to_csv(path, index=False)
    return str(path)


def test_a_table_of_ones_own_is_read(tmp_path):
    table = published_models.read(
        written(tmp_path, scores()[["model", "msmarco_dev_ndcg10", "A", "B"]])
    )
    assert published_models.collections(table) == ["A", "B"] and table["family"].nunique() == 40
    assert table[published_models.ALL].tolist() == pytest.approx(
        table[["A", "B"]].mean(axis=1).tolist()
    )
    told = published_models.correlated(table, 0.3, seed=1, n_boot=200)
    assert "by TREC DL 2019" not in set(told["subset"]) and (told["value"] > 0.8).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop(columns="msmarco_dev_ndcg10"), "no column 'msmarco_dev_ndcg10'"),
        (lambda frame: frame.assign(model="one"), "'one' stands twice"),
        (
            lambda frame: frame.assign(A=[100 * value for value in frame["A"]]),
            "line 2: A = .* is no fraction",
        ),
        (lambda frame: frame.assign(B=[np.nan, *frame["B"][1:]]), "line 2: B = nan is no fraction"),
        (lambda frame: frame.drop(columns="A"), "needs 4 models and 2 collections"),
    ],
)
def test_a_table_that_is_wrong_is_refused_with_its_line(tmp_path, change, said):
    with pytest.raises(InputError, match=said):
        published_models.read(written(tmp_path, change(scores())))
    with pytest.raises(InputError, match="there is no file"):
        published_models.read(str(tmp_path / "other.csv"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("BAAI/bge-small-en-v1.5", "BAAI/bge-large-en"),
        ("intfloat/e5-base-v2", "intfloat/multilingual-e5-small"),
        ("Qwen/Qwen3-Embedding-0.6B", "Qwen/Qwen3-Embedding-8B"),
        ("minishlab/potion-base-2M", "minishlab/potion-base-8M"),
    ],
)
def test_sizes_and_versions_are_one_family(one, other):
    assert published_models.family(one) == published_models.family(other)


def test_makers_and_recipes_are_families_of_their_own():
    names = [
        "thenlper/gte-base",
        "Alibaba-NLP/gte-base-en-v1.5",
        "lightonai/DenseOn",
        "lightonai/LateOn",
    ]
    assert len({published_models.family(name) for name in names}) == 4


def test_subsets_leave_out_whom_they_name(tmp_path):
    table = published_models.read(written(tmp_path, scores()))
    of_b, of_a = (published_models.subsets(table, name, 0.3) for name in "BA")
    assert (
        of_b["dev above 0.3, not declared on it"].sum() == 30
        and of_a["dev above 0.3, not declared on it"].all()
    )
    of_all = published_models.subsets(table, published_models.ALL, 0.4)
    assert (
        of_all["all"].all()
        and (table.loc[of_all["dev above 0.4"], "msmarco_dev_ndcg10"] > 0.4).all()
    )
    assert of_b["dev above 0.3, training disclosed"].sum() == 32
    assert of_b["dev above 0.3, MS MARCO and none of these"].sum() == 30


def test_families_of_copies_widen_the_interval(tmp_path):
    few = scores(12, seed=3)
    few["A"] += 0.05 * np.random.default_rng(3).normal(size=12)
    copies = pd.concat([few.assign(model=few["model"] + f"-v{i}") for i in range(1, 9)])
    widths = []
    for frame in (few, copies):
        table = published_models.read(written(tmp_path, frame))
        told = published_models.correlated(table, 0.3, seed=1, n_boot=2000)
        row = told[
            (told["collection"] == "A")
            & (told["subset"] == "all")
            & (told["statistic"] == "Pearson")
        ].iloc[0]
        assert row["n_families"] == 12
        widths.append(row["high"] - row["low"])
    assert widths[1] == pytest.approx(widths[0], abs=0.02)


def test_prediction_by_declared_training_takes_the_same_families_for_both(tmp_path):
    frame = scores(60, seed=4)
    frame.loc[frame["trained_on_of_these"] == "MSMARCO B", ["A", "B"]] = np.random.default_rng(
        4
    ).uniform(0.3, 0.9, (15, 2))
    table = published_models.read(written(tmp_path, frame))
    found = published_models.by_declaration(table, 0.3, seed=1, n_boot=500).set_index("models")
    clean = table[~table["trained_on_of_these"].str.contains("B")]
    expected = clean["msmarco_dev_ndcg10"].corr(clean[published_models.ALL], "spearman")
    assert found.loc["not declared", "estimate"] == pytest.approx(expected) and found[
        "n_models"
    ].tolist() == [15, 45]
    assert found.loc["declared", "estimate"] < 0.7 < found.drawn()[1].min()


def test_the_187_published_models_give_the_known_figures(real_data):
    """inventory F19."""
    table = published_models.read(str(real_data / "mteb-beir" / "models.csv"))
    told = published_models.correlated(table, 0.3, seed=1, n_boot=50)
    value = told.set_index(["collection", "subset", "statistic"])["value"].round(3)
    assert len(table) == 187
    assert round(value[published_models.ALL, "all", "Pearson"], 2) == 0.95
    assert round(value[published_models.ALL, "dev above 0.3", "Pearson"], 2) == 0.64
    assert round(value[published_models.ALL, "all", "Kendall"], 2) == 0.71
    assert value["TRECCOVID", "by TREC DL 2019", "Spearman"] == 0.845
    sets = set(published_models.collections(table))
    declared = table["trained_on_of_these"].str.split().map(set)
    assert (declared.map(lambda names: bool(names & sets))).sum() == 117
    assert (declared.map(lambda names: "MSMARCO" in names and not names & sets)).sum() == 14

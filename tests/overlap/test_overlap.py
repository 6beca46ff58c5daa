"""Label overlap against plain sets, and the measured counts on real qrels."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from interextra.data.trec import read_qrels
from interextra.overlap.labels import LABELS, label_overlap, overlap_table
from interextra.papers.releases import gather_training_qrels
from interextra.store.errors import InputError


def frame(rows, columns=("query_id", "doc_id", "relevance")):
    return pd.DataFrame(rows, columns=list(columns))


def by_sets(test, train, threshold, at_least):
    trained, count = set(train["doc_id"]), 0
    for _, group in test.groupby("query_id"):
        count += (
            len(set(group.loc[group["relevance"] >= threshold, "doc_id"]) & trained) >= at_least
        )
    return count


def test_counts_equal_plain_sets():
    rng = np.random.default_rng(4)  # seed of the drawn qrels
    test = frame(
        [
            (f"t{q}", f"d{d}", int(rng.integers(0, 4)))
            for q in range(30)
            for d in rng.choice(200, 6, False)
        ]
    )
    train = frame(
        [(f"q{q}", f"d{d}") for q in range(60) for d in rng.choice(200, 2, False)],
        ["query_id", "doc_id"],
    )
    table = label_overlap(test, pd.concat([train, train.head(9)]))  # repeated rows change nothing
    want = [
        by_sets(test, train, threshold, at_least) for threshold in (1, 2, 3) for at_least in (1, 2)
    ]
    assert table["n_overlapping"].tolist() == want and len(set(want)) > 3
    assert (table["percent"] == 100 * table["n_overlapping"] / 30).all()


def test_judged_query_without_relevant_passage_stays_in_the_denominator():
    test = frame([("t", "a", 3), ("u", "b", 0)])
    table = label_overlap(test, frame([("q", "a"), ("q", "b")], ["query_id", "doc_id"]), [1])
    assert table.iloc[:, :5].to_numpy().tolist() == [[1, 1, 2, 1, 50], [1, 2, 2, 0, 0]]


def test_interval_of_a_share_is_wilson_s():
    test = frame([(f"t{q}", f"d{q}", 1) for q in range(43)])
    row = label_overlap(
        test, frame([("q", f"d{d}") for d in range(34)], ["query_id", "doc_id"]), [1]
    ).iloc[0]
    share, z, n = 34 / 43, 1.959964, 43
    middle, reach = share + z**2 / (2 * n), z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    ends = [100 * (middle + sign * reach) / (1 + z**2 / n) for sign in (-1, 1)]
    assert [row["low"], row["high"]] == pytest.approx(ends, abs=1e-4)


def test_passages_are_shared_with_the_whole_training_set():
    """As the released script collects them: two training queries with one passage each make two."""
    test, train = (
        frame([("t", "a", 1), ("t", "b", 1)]),
        frame([("q", "a"), ("r", "b")], ["query_id", "doc_id"]),
    )
    assert label_overlap(test, train, [1])["n_overlapping"].tolist() == [1, 1]


def test_irrelevant_training_judgement_does_not_count():
    assert (
        label_overlap(frame([("t", "a", 1)]), frame([("q", "a", 0)]), [1])["n_overlapping"][0] == 0
    )


def test_test_query_within_the_training_qrels_is_refused():
    with pytest.raises(InputError, match="1 test queries are also in the training qrels .'t'."):
        label_overlap(frame([("t", "a", 1)]), frame([("t", "a", 1)]))


@pytest.fixture
def small_folder(tmp_path):
    (tmp_path / "msmarco").mkdir()
    (tmp_path / "ms-marco-shift/EVAL/qrel").mkdir(parents=True)
    with gzip.open(tmp_path / "msmarco/qrels.train.partial.tsv.gz", "wt") as file:
        file.write("1\t0\ta\t1\n2\t0\tb\t1\n99\t0\tc\t1\n")  # 99 is a dev query that slipped in
    (tmp_path / "msmarco/qrels.msmarco-passage.dev-subset.txt").write_text("99 0 c 1\n")
    (tmp_path / "ms-marco-shift/EVAL/qrel/qrel_0.json").write_text(
        json.dumps({"1": {"a": 1}, "3": {"d": 1}})
    )
    (tmp_path / "ms-marco-shift/EVAL/qrel/qrel_short.json").write_text(json.dumps({"98": {"c": 1}}))
    return tmp_path


def test_gathering_keeps_each_pair_once_and_no_test_query(small_folder):
    found = gather_training_qrels(small_folder)
    assert found.to_numpy().tolist() == [["1", "a"], ["2", "b"], ["3", "d"]]


def test_gathering_names_file_and_line_of_a_short_row(small_folder):
    (small_folder / "msmarco/qrels.train.tsv").write_text("1\t0\ta\t1\n2\t0\tb\n")
    with pytest.raises(InputError, match=r"qrels.train.tsv:2: "):
        gather_training_qrels(small_folder)


def test_folder_without_training_qrels_is_refused(tmp_path):
    with pytest.raises(InputError, match="no training qrels"):
        gather_training_qrels(tmp_path)


@pytest.mark.parametrize(
    ("labels", "told"), [([], "0 labels"), (["full", "Zero", None], "3 labels, unknown ")]
)
def test_labels_that_are_none_or_unknown_are_refused(labels, told):
    with pytest.raises(InputError, match=f"overlap_table: {told}.*use full, partial, zero"):
        overlap_table(labels, LABELS["entity"])


def test_table_has_every_label_in_order():
    table = overlap_table(["similar", "dissimilar", "similar"], LABELS["intent"])
    assert table["label"].tolist() == list(LABELS["intent"]) and table["n"].tolist() == [0, 2, 1]
    assert table["percent"].sum() == pytest.approx(100)


@pytest.fixture(scope="module")
def training(real_data):
    return gather_training_qrels(real_data)


def test_published_table_3_needs_two_shared_passages(real_data, training):
    """As published: 11/26/34 of 43 and 17/25/41 of 54. Counts are lower bounds, with 443,119 of
    502,939 queries.
    """
    assert (training["query_id"].nunique(), training["doc_id"].nunique(), len(training)) == (
        443_119,
        455_609,
        467_772,
    )
    published = {"19": (43, 11, 26, 34), "20": (54, 17, 25, 41)}
    measured = {"19": {2: (10, 26, 34), 1: (24, 33, 39)}, "20": {2: (17, 25, 40), 1: (25, 35, 47)}}
    for year, (n, *shares) in published.items():
        table = label_overlap(
            read_qrels(real_data / "msmarco" / f"qrels.dl{year}-passage.txt"), training, (3, 2, 1)
        )
        assert set(table["n_queries"]) == {n}
        for at_least, want in measured[year].items():
            assert tuple(table.loc[table["min_shared"] == at_least, "n_overlapping"]) == want
        # more training qrels only raise it, and with one shared passage it is beyond the published
        # share already
        assert all(found > share for found, share in zip(measured[year][1], shares, strict=True))


def test_few_dev_queries_share_passages(real_data, training):
    qrels = read_qrels(real_data / "msmarco/qrels.msmarco-passage.dev-subset.txt")
    assert not qrels["query_id"].isin(training["query_id"]).any()
    table = label_overlap(qrels, training, thresholds=(1,))
    assert table["n_queries"].tolist() == [6980, 6980] and table["n_overlapping"].tolist() == [
        258,
        10,
    ]

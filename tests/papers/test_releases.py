"""The authors' releases: what is known of them holds, rules and sets of ours are counted against
them as built in.
"""

import itertools
import shutil
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

from interextra.papers import published, released, releases
from interextra.splits import attributes
from interextra.store.errors import InputError


def restrain_facts(folder):
    names = itertools.product(published.SIZES, releases.RELEASED_REGIMES.values())
    sets = {(size, regime): released.read_restrain(folder, size, regime) for size, regime in names}
    ids = {name: set(qrels["query_id"]) for name, qrels in sets.items()}
    larger = dict(zip(published.SIZES, (*published.SIZES[1:], published.SIZES[-1]), strict=True))
    return {
        f"{regime} {size}": {
            "queries": len(ids[size, regime]),
            "rows": len(qrels),
            "repeated rows": int(qrels.duplicated().sum()),
            "queries outside the next size": len(ids[size, regime] - ids[larger[size], regime]),
            "queries also in interpolate": len(ids[size, regime] & ids[size, "interpolate"]),
        }
        for (size, regime), qrels in sets.items()
    }


def resttest_facts(folder):
    facts = {}
    for test_set in ("dev", "trec19", "trec20"):
        held_out = {
            bucket: released.read_resttest(folder, bucket, "extrapolate", test_set)["query_id"]
            for bucket in releases.BUCKETS
        }
        everything = pd.concat(held_out.values())
        for bucket, ids in held_out.items():
            others = set(
                released.read_resttest(folder, bucket, "interpolate", test_set)["query_id"]
            )
            facts[f"{test_set} bucket {bucket}"] = {
                "queries held out": ids.nunique(),
                "interpolate is not the complement by": len(others ^ (set(everything) - set(ids))),
            }
        facts[test_set] = {
            "queries": everything.nunique(),
            "queries in more than one bucket": sum(map(pd.Series.nunique, held_out.values()))
            - everything.nunique(),
            "qrels rows": len(everything),
        }
    return facts


def shift_facts(folder):
    facts = {}
    for file in itertools.chain(*map(dict.values, releases.CLUSTERS.values())):
        queries, qrels, without_text = released.read_shift(folder, file)
        facts[file] = {
            "queries with qrels": qrels["query_id"].nunique(),
            "queries with text": len(queries),
            "qrels without query text": " ".join(sorted(without_text, key=int)),
        }
    return facts


def wrong(release, facts):
    """What the files of a release hold otherwise than they are known to: property → value."""
    known = {
        (row, what): value
        for row, of in releases.KNOWN[release].items()
        for what, value in of.items()
    }
    found = {place: facts[place[0]][place[1]] for place in known}
    return {
        f"{row}: {what}": value for (row, what), value in found.items() if value != known[row, what]
    }


def test_both_releases_hold_what_is_known_of_them(real_data):
    zhan, lupart = (real_data / name for name in ("extrapolate-eval", "ms-marco-shift"))
    assert not wrong("ReSTrain", restrain_facts(zhan))
    assert not wrong("ReSTTest", resttest_facts(zhan))
    assert not wrong("MS-Shift", shift_facts(lupart))


def test_a_changed_release_is_noticed(real_data, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(real_data / "extrapolate-eval" / "resttest_files", folder / "resttest_files")
    moved = released.read_resttest(folder, 5, "extrapolate", "trec19")
    kept = released.read_resttest(folder, 4, "extrapolate", "trec19")
    path = folder / "resttest_files/msmarco-passage/bucket-4/extrapolate.trec19-qrel.txt"
    released.write_qrels(path, pd.concat([kept, moved]))
    assert wrong("ReSTTest", resttest_facts(folder)) == {
        "trec19 bucket 4: queries held out": 14,
        "trec19 bucket 4: interpolate is not the complement by": 1,
        "trec19: queries in more than one bucket": 1,
        "trec19: qrels rows": 9260 + len(moved),
    }


class Known:
    """Stands in for a Vectors cell: known vectors of the real queries."""

    def __init__(self, train, test, vectors):
        self.train, self.test, self.vectors = train, test, vectors

    def read(self, store):
        return self.vectors


def test_released_buckets_partition_the_test_queries_and_are_question_forms(real_data, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    found = releases.released_buckets(real_data / "extrapolate-eval")
    assert (
        found.value_counts().sort_index().tolist() == [981, 2206, 1824, 1491, 478]
        and found.index.is_unique
    )
    words = (
        releases.released_words(real_data / "extrapolate-eval")
        .set_index("bucket")["words"]
        .str.split()
    )
    assert (
        words[1][0] == "how"
        and words[2][0] == "what"
        and words[3][0] == "where"
        and "cost" in words[5]
    )


def test_k_means_of_the_released_buckets_themselves_finds_them(real_data, monkeypatch):
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    folder, random = real_data / "extrapolate-eval", np.random.default_rng(1)
    known = pd.concat(
        [releases.released_buckets(folder, name) for name in ("dev", "trec19", "trec20")]
    )
    dev, dl = (
        releases.real_queries("dev"),
        (releases.real_queries("dl19"), releases.real_queries("dl20")),
    )
    made = [
        np.eye(5)[known.loc[[i for part in parts for i in part.ids()]] - 1]
        for parts in ((dev,), dl)
    ]
    made = [(x + random.normal(scale=0.05, size=x.shape)).astype(np.float32) for x in made]
    made[0][:3] = 0  # no word known: left out
    cells = Known(dev, dl, (made[1], made[1])), Known(dev, (), (made[0], made[0][:0]))
    table = releases.released_bucket_agreement(
        None, {"known": cells[0]}, {"known": cells[1]}, [1, 2], folder
    )
    assert len(table) == 2 * 2 * 2 and set(table["n_queries"]) == {6977}
    best = table.loc[table["ari"].idxmax()]
    assert best["ari"] == best["share_matched"] == 1


def test_vectors_that_know_the_released_sets_agree_with_them(real_data, monkeypatch):
    """Training queries of a released interpolation set lie at the test queries, the others away."""
    monkeypatch.setenv("INTEREXTRA_DATA", str(real_data))
    folder, pool, dl = (
        real_data / "extrapolate-eval",
        releases.real_queries("train"),
        (releases.real_queries("dl19"),),
    )
    released = [
        releases.read_restrain(folder, "14k", name)["query_id"]
        for name in releases.RELEASED_REGIMES.values()
    ]
    inter, extra = (pool.frame()["query_id"].isin(ids).to_numpy() for ids in released)
    side = np.select([inter, extra], [1.0, -1.0], 0.0) + np.random.default_rng(1).normal(
        scale=0.01, size=len(inter)
    )
    train = np.stack([side, np.sqrt(np.maximum(0, 1 - side**2))], axis=1).astype(np.float32)
    cell = Known(pool, dl, (train, np.tile(np.float32([1, 0]), (len(dl[0].ids()), 1))))
    shares = (
        releases.released_agreement(None, {"known": cell}, 10, folder).set_index("size").loc["14k"]
    )
    assert (shares["interpolation"] == 1).all() and shares["chance_interpolation"].iloc[
        0
    ] == inter.mean()


TEXTS = {
    "0": ["red fox", "red hat"],
    "1": ["sea air", "sea fox"],
    "2": ["sun", "moon"],
    "3": ["cow"],
    "4": ["ant", "bee"],
    "wha": ["what is it", "whatsapp who"],
    "how": ["how is what", "tv show", "Show how"],
    "who": ["who is it", "when and how", "What a whole"],
    "short": ["a b", "a  b c d"],
    "long": ["a b c d e f", "a  b c d e", "it's a b c d"],
}


@pytest.fixture
def release(tmp_path):
    for name, texts in TEXTS.items():
        ids = [f"{name}-{number}" for number in range(len(texts))]
        qrels = pd.DataFrame({"query_id": ids, "doc_id": "d", "relevance": 1})
        released.write_shift(tmp_path, name, pd.DataFrame({"query_id": ids, "text": texts}), qrels)
    return tmp_path


def counts(folder):
    return releases.rule_agreement(folder).set_index(["rule", "cluster"])["n_consistent"].to_dict()


def test_consistent_queries_are_counted_by_file_and_rule(release):
    table = releases.rule_agreement(release)
    assert (table["n_consistent"] + table["n_other"] == table["n_released"]).all()
    found = counts(release)
    assert [found["spaces", name] for name in ("short", "long")] == [2, 2]
    assert [found["split", name] for name in ("short", "long")] == [2, 1]
    assert [found[r"\w+", name] for name in ("short", "long")] == [2, 2]  # it's makes two words
    of = {
        rule: [found[rule, name] for name in ("wha", "how", "who")]
        for rule in ("contains", "case kept", "whole words")
    }
    assert of == {"contains": [2, 3, 3], "case kept": [2, 3, 3], "whole words": [1, 2, 2]}


def test_an_order_of_precedence_takes_the_first_cluster_of_which_a_word_is_there(release):
    words = {
        "wha": ("what", "definition"),
        "how": ("how",),
        "who": ("who", "when", "where", "which"),
    }
    found = counts(release)
    for order in itertools.permutations(words):
        for name in words:
            first = [
                next((c for c in order if any(word in query.lower() for word in words[c])), "")
                for query in TEXTS[name]
            ]
            assert found[" > ".join(order), name] == first.count(name), (order, name)


OURS = {
    "0-0": "a",
    "0-1": "b",
    "1-0": "b",
    "1-1": "b",
    "2-0": "c",
    "2-1": "",
    "3-0": "d",
    "4-0": "d",
    "x": "e",
}


def test_topics_are_matched_one_to_one_and_counted_on_the_known_queries(release):
    found = releases.topic_agreement(pd.Series(OURS), release)
    assert [found[name] for name in ("n_released", "n_known", "n_in_ours", "share")] == [
        9,
        8,
        7,
        7 / 8,
    ]
    inside = {query: topic for query, topic in OURS.items() if topic and query != "x"}
    assert found["ari"] == pytest.approx(
        adjusted_rand_score([q[0] for q in inside], list(inside.values()))
    )


def test_topics_that_are_the_released_ones_agree_fully(release):
    queries = releases.released_queries(release, "topics")
    ours = pd.Series(("t" + queries["cluster"]).tolist(), queries["query_id"])
    found = releases.topic_agreement(ours, release)
    assert found["ari"] == found["share"] == found["share_matched"] == 1


@pytest.mark.parametrize(("ours", "known"), [({"q1": "a"}, 0), ({"0-0": "", "1-0": ""}, 2)])
def test_topics_that_cannot_be_compared_are_an_error(release, ours, known):
    with pytest.raises(
        InputError, match=f"of 9 released queries {known} are among ours, none in a topic"
    ):
        releases.topic_agreement(pd.Series(ours), release)


def by_counting(inside, others):
    """The release's notebook in short: normalised counts, minimum over maximum."""
    counts = [Counter(" ".join(texts).lower().split()) for texts in (inside, others)]
    shares = [{word: n / count.total() for word, n in count.items()} for count in counts]
    pairs = [
        (shares[0].get(word, 0), shares[1].get(word, 0)) for word in set(shares[0]) | set(shares[1])
    ]
    return sum(map(min, pairs)) / sum(map(max, pairs))


def test_jaccard_is_that_of_a_cluster_and_the_others_of_its_shift(release):
    table = releases.released_jaccard(release).set_index("cluster")
    assert table.loc["C0", "jaccard"] == pytest.approx(
        by_counting(TEXTS["0"], sum((TEXTS[i] for i in "1234"), []))
    )
    assert table.loc["how", "jaccard"] == pytest.approx(
        by_counting(TEXTS["how"], TEXTS["wha"] + TEXTS["who"])
    )
    assert table.loc["short", "jaccard"] == table.loc["long", "jaccard"]
    assert table.loc["C0", ["n_queries", "n_words"]].tolist() == [2, 3]
    assert table["authors"].dropna().to_dict() == {
        "C0": 0.3334,
        "C1": 0.2632,
        "C2": 0.3686,
        "C3": 0.3217,
        "C4": 0.4701,
    }


def test_released_queries_hold_the_letters_and_no_precedence_classifies_them(real_data):
    folder = real_data / "ms-marco-shift"
    table = releases.rule_agreement(folder)
    sizes = {"short": 3434, "long": 3546, "wha": 6496, "how": 6497, "who": 6494}
    assert table.groupby("cluster")["n_released"].unique().str[0].to_dict() == sizes
    other = table.set_index(["rule", "cluster"])["n_other"]
    assert [other["spaces", name] for name in ("short", "long")] == [0, 0]  # a classification
    assert [other[rule, name] for rule in ("split", r"\w+") for name in ("short", "long")] == [
        0,
        4,
        52,
        7,
    ]
    assert [other["contains", name] for name in ("wha", "how", "who")] == [0, 0, 0]
    assert [other["whole words", name] for name in ("wha", "how", "who")] == [5, 144, 37]
    assert [other["how > who > wha", name] for name in ("wha", "how", "who")] == [139, 0, 98]
    orders = table[table["rule"].str.contains(">")].groupby("rule")["n_consistent"].sum()
    assert (
        orders.max() == orders["how > who > wha"] == 19250
        and orders.min() == orders["wha > who > how"] == 19015
    )
    texts = releases.released_queries(folder, "wh-words")["text"]
    assert len(texts) == 19487 and sum(len(attributes.wh_words(text)) > 1 for text in texts) == 708


def test_jaccard_of_the_released_queries(real_data):
    table = releases.released_jaccard(real_data / "ms-marco-shift")
    known = [0.298, 0.245, 0.339, 0.301, 0.427, 0.279, 0.226, 0.276, 0.322, 0.322]
    assert (
        table["jaccard"].round(3).tolist() == known
        and (table["jaccard"] < table["authors"])[:5].all()
    )
    order = [
        table.dropna().sort_values(name)["cluster"].tolist() for name in ("jaccard", "authors")
    ]
    assert order == [
        ["C1", "C0", "C3", "C2", "C4"],
        ["C1", "C3", "C0", "C2", "C4"],
    ]  # two change places


def test_released_topics_agree_with_themselves(real_data):
    queries = releases.released_queries(real_data / "ms-marco-shift", "topics")
    ours = pd.Series(
        queries["cluster"].where(queries["cluster"] != "C3", "").tolist(), queries["query_id"]
    )
    found = releases.topic_agreement(ours, real_data / "ms-marco-shift")
    assert found["n_released"] == found["n_known"] == 31244 and found["n_in_ours"] == 31244 - 5868
    assert found["ari"] == 1

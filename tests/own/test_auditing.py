"""The audit of a user's queries finds planted leaks, all of them and no other."""

import json

import pandas as pd
import pytest
from datasets import Dataset, DatasetDict

from interextra.cli import main
from interextra.own import audit as auditing
from interextra.own.audit import ZERO_SHOT, audit, read
from interextra.own.results import WIDTH, cut_alike
from interextra.store.errors import InputError

TOPICS = [
    "granite",
    "tulips",
    "comets",
    "glaciers",
    "violins",
    "vaccines",
    "harbours",
    "falcons",
    "pottery",
    "tariffs",
]
TRAIN = [
    f"where were {topic} first described in {place}"
    for topic in TOPICS
    for place in ("peru", "ghana", "nepal")
]
TEST = [f"how expensive is shipping {topic} overseas" for topic in TOPICS]


@pytest.fixture
def folder(tmp_path):
    """A BEIR folder; each query has a passage of its own. Three leaks are planted, and one answer
    that all may draw.

    Test query 0 is training query 0 with other spacing, 1 repeats training query 3 but for one
    word, 2 has the passage of training query 7.
    """
    test = [
        "Where were  granite first described in Peru?",
        "where were tulips first described in peru really",
    ]
    test += TEST[2:]
    passages = [f"p{i}" for i in range(len(TRAIN))] + [f"t{i}" for i in range(len(test))]
    queries = {f"q{i}": text for i, text in enumerate(TRAIN)} | {
        f"x{i}": text for i, text in enumerate(test)
    }
    (tmp_path / "qrels").mkdir()
    write = {"corpus": [{"_id": name, "text": f"about {name}"} for name in passages]}
    write["queries"] = [{"_id": name, "text": text} for name, text in queries.items()]
    for name, rows in write.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pairs = {"train": {f"q{i}": f"p{i}" for i in range(len(TRAIN))}}
    pairs["test"] = {f"x{i}": f"t{i}" for i in range(len(test))} | {"x2": "p7"}
    for split, judged in pairs.items():
        lines = [
            "query-id\tcorpus-id\tscore",
            *(f"{query}\t{doc}\t1" for query, doc in judged.items()),
        ]
        (tmp_path / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path


def counts(found):
    """Number of queries by the first words of what they share."""
    return dict(
        zip(found.shares["what"].str.split(r":| \(").str[0], found.shares["n"], strict=True)
    )


def test_planted_leaks_are_found_and_no_other(folder):
    found = audit(read(f"beir:{folder}", "train"), read(f"beir:{folder}", "test"), near=0.8)
    assert counts(found) == {
        "same words as a training query": 1,
        "near-duplicate of a training query": 2,
        "near-duplicate with its words in another order only": 0,
        "near-duplicate that shares an answer": 0,
        "near-duplicate that shares no answer": 2,
        "shares 1 or more passages of relevance 1 or more": 1,
        "shares 2 or more passages of relevance 1 or more": 0,
        "shares passages only as copies under other ids": 0,
        "an answer is exposed": 9,
        "an answer is copied": 0,
        "zero-shot": 7,
    }
    assert found.test_queries == ["x0", "x1", "x2"] and found.train_queries == ["q0", "q3", "q7"]
    assert (
        found.pairs["test_query_id"][:2].tolist() == ["x0", "x1"]
        and found.pairs["shared"].sum() == 1
    )
    assert found.pairs["train_query_id"][:2].tolist() == ["q0", "q3"]


def test_without_leaks_all_is_zero_shot_whatever_the_ids(tmp_path):
    for name, texts in (("train", TRAIN), ("test", TEST)):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{i}\t{text}\n" for i, text in enumerate(texts))
        )
        (tmp_path / f"{name}.qrels").write_text(
            "".join(f"{i} 0 {name}{i} 1\n" for i in range(len(texts)))
        )
    sides = [
        read(f"{tmp_path / name}.tsv,{tmp_path / name}.qrels", name) for name in ("train", "test")
    ]
    found = audit(*sides)
    assert found.shares.set_index("what").loc[ZERO_SHOT, ["n", "of"]].tolist() == [10, 10]
    assert not found.test_queries and not found.train_queries and found.pairs["shared"].eq(0).all()
    without = audit(sides[0]._replace(qrels=None), sides[1])
    assert not without.shares["what"].str.startswith("shares").any()


def test_a_folder_of_datasets_shares_positives_by_their_text(tmp_path):
    rows = {"anchor": TRAIN[:5], "positive": [f"text {i}" for i in range(5)]}
    other = {"query": TEST[:2], "answer": ["text 3", "text of its own"]}
    DatasetDict({"train": Dataset.from_dict(rows)}).save_to_disk(tmp_path / "train")
    Dataset.from_dict(other).save_to_disk(tmp_path / "test")
    found = audit(*(read(f"datasets:{tmp_path / name}", name) for name in ("train", "test")))
    assert counts(found)[
        "shares 1 or more passages of relevance 1 or more"
    ] == 1 and found.train_queries == ["3"]


def test_ids_of_two_collections_say_nothing_of_each_other(folder, tmp_path):
    """By their texts the passages are the same as within one collection; of an unrelated one none
    is.
    """
    same, other = tmp_path / "same", tmp_path / "other"
    for copied, text in ((same, None), (other, "unrelated")):
        copied.mkdir()
        (copied / "qrels").mkdir()
        for name in ("queries.jsonl", "qrels/train.tsv", "qrels/test.tsv"):
            (copied / name).write_text((folder / name).read_text())
        corpus = (folder / "corpus.jsonl").read_text()
        (copied / "corpus.jsonl").write_text(
            corpus.replace("about", text or "about").replace('"p7"', '"p7"')
        )
    within = counts(audit(read(f"beir:{folder}", "train"), read(f"beir:{folder}", "test")))
    renamed = (same / "corpus.jsonl").read_text().replace('"_id": "', '"_id": "n')
    (same / "corpus.jsonl").write_text(renamed)
    for split in ("train", "test"):
        head, *lines = (same / "qrels" / f"{split}.tsv").read_text().splitlines()
        rows = [
            "\t".join([query, f"n{doc}", grade])
            for query, doc, grade in (line.split("\t") for line in lines)
        ]
        (same / "qrels" / f"{split}.tsv").write_text("\n".join([head, *rows]) + "\n")
    renamed = counts(audit(read(f"beir:{same}", "train"), read(f"beir:{folder}", "test")))
    assert renamed.pop("shares passages only as copies under other ids") == 1
    assert within.pop("shares passages only as copies under other ids") == 0
    assert renamed == within
    apart = counts(audit(read(f"beir:{other}", "train"), read(f"beir:{folder}", "test")))
    assert (
        apart["shares 1 or more passages of relevance 1 or more"]
        == apart["an answer is exposed"]
        == 0
    )


def test_passages_that_a_collection_lacks_are_named(folder):
    asked = read(f"beir:{folder}", "test")
    lacking = asked._replace(
        qrels=asked.qrels.assign(
            doc_id=lambda rows: rows["doc_id"].replace(rows["doc_id"][0], "gone")
        )
    )
    with pytest.raises(InputError, match="judges 1 passages that it lacks: 'gone'"):
        lacking.by_text()


def test_qrels_of_a_file_count_for_its_own_queries_alone(tmp_path):
    for name, texts in (("train", TRAIN[:3]), ("test", TEST[:2])):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{name}{i}\t{text}\n" for i, text in enumerate(texts))
        )
    lines = [f"{name}{i} 0 {name}-{i} 1\n" for name in ("train", "test") for i in range(2)]
    (tmp_path / "all.qrels").write_text("".join(lines))
    sides = [
        read(f"{tmp_path / name}.tsv,{tmp_path / 'all.qrels'}", name) for name in ("train", "test")
    ]
    found = audit(*sides)
    assert counts(found)["zero-shot"] == 2 and not found.train_queries
    (tmp_path / "none.qrels").write_text("other 0 d 1\n")
    with pytest.raises(InputError, match="judges none of the queries"):
        read(f"{tmp_path / 'test'}.tsv,{tmp_path / 'none.qrels'}", "test")


def test_all_near_duplicates_are_to_drop(tmp_path):
    """More of them than neighbours that are compared."""
    near = [f"how expensive is shipping large granite overseas {i}" for i in range(60)]
    (tmp_path / "train.tsv").write_text(
        "".join(f"n{i}\t{text}\n" for i, text in enumerate(near + TRAIN))
    )
    (tmp_path / "test.tsv").write_text("t\thow expensive is shipping large granite overseas\n")
    found = audit(read(f"{tmp_path}/train.tsv", ""), read(f"{tmp_path}/test.tsv", ""), near=0.8)
    assert sorted(found.train_queries) == sorted(
        f"n{i}" for i in range(60)
    ) and found.test_queries == ["t"]


def test_a_row_of_datasets_without_a_text_is_refused(tmp_path):
    rows = {"anchor": ["a b", None], "positive": ["one", "two"]}
    Dataset.from_dict(rows).save_to_disk(tmp_path / "data")
    with pytest.raises(InputError, match="rows: 1"):
        read(f"datasets:{tmp_path / 'data'}", "train")
    rows = {"anchor": ["a b", "c"], "positive": [" \u200b", "two"]}
    Dataset.from_dict(rows).save_to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match="rows: 0"):
        read(f"datasets:{tmp_path / 'blank'}", "train")


def test_the_command_writes_its_files_and_says_what_the_names_say(folder, tmp_path, capsys):
    sides = [
        "--train",
        f"beir:{folder}",
        "--test",
        f"beir:{folder}@test",
        "--out",
        str(tmp_path / "out"),
    ]
    sides += ["--near", "0.8"]
    assert main(["audit", *sides, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["by_name"] == "not zero-shot" and len(told["files"]) == 6
    assert (tmp_path / "out" / "drop_test.txt").read_text().split() == ["x0", "x1", "x2"]
    assert pd.read_csv(tmp_path / "out" / "pairs.csv")["words"].iloc[0] == 1
    assert told["n_test"] == 10 and told["n_seen"] == 3
    assert pd.read_csv(tmp_path / "out" / "seen.csv").iloc[:, 2:].to_numpy().tolist() == [
        [1, 0],
        [1, 0],
        [0, 1],
    ]
    assert main(["audit", *sides]) == 0
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == (
        "7 of 10 test queries remain clean (70.0 %): 2 have a near-duplicate among the training "
        "queries, 1 share a relevant passage with them, 0 both."
    )
    assert "Near-duplicates that share no answer (2 test queries, the first 2):" in lines
    assert any("leave out the 3 training queries" in line for line in lines)
    drop = f"--drop-train {tmp_path}/out/drop_train.txt"
    design = f"--collection beir:{folder} --train-split train --test-splits test {drop}"
    assert f"Or, with our trainer: interextra probe -m MODEL {design}" in lines


def test_pairs_just_below_the_threshold_are_told_and_not_counted(folder, tmp_path, capsys):
    """Test query 1 shares seven of eight words with training query 3."""
    sides = [read(f"beir:{folder}", split) for split in ("train", "test")]
    found = audit(*sides)
    assert found.just_below[["test_query_id", "train_query_id"]].to_numpy().tolist() == [
        ["x1", "q3"]
    ]
    assert found.just_below["words"].tolist() == [0.875] and found.test_queries == ["x0", "x2"]
    assert "x1" not in set(found.near["test_query_id"])
    command = ["audit", "--train", f"beir:{folder}", "--test", f"beir:{folder}@test"]
    assert main([*command, "--out", str(tmp_path / "out")]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = "Pairs of queries just below --near 0.9 (down to 0.85), not counted: 1. The nearest 1:"
    assert "peru really" in lines[lines.index(told) + 2]
    assert main([*command, "--out", str(tmp_path / "out"), "--near", "0.95"]) == 0
    assert (
        "No pairs of queries lie just below --near 0.95 (down to 0.9)." in capsys.readouterr().out
    )


def test_printed_queries_are_cut_where_they_still_differ():
    beginning = "search the tree of the current directory and all below it for files "
    one, other = cut_alike(f"{beginning}of alice", f"{beginning}that bob wrote last year")
    assert one.endswith(" for files of alice") and " for files that bob" in other
    assert max(len(one), len(other)) <= WIDTH
    assert cut_alike("short", "shorter") == ("short", "shorter")
    assert cut_alike(beginning, beginning)[0].startswith("search the tree")


def test_what_counts_as_both_is_explained_where_passages_are_compared(folder, tmp_path, capsys):
    sides = ["--train", f"beir:{folder}@train", "--test", f"beir:{folder}@test"]
    assert main(["audit", *sides, "--out", f"{tmp_path}/out"]) == 0
    assert "do not add up. A test query may share a passage with another" in capsys.readouterr().out
    lines = "".join(f"{at}\t{text}\n" for at, text in enumerate(TRAIN))
    (tmp_path / "queries.tsv").write_text(lines)
    sides = ["--train", f"{tmp_path}/queries.tsv", "--test", f"{tmp_path}/queries.tsv"]
    assert main(["audit", *sides, "--out", f"{tmp_path}/out"]) == 0
    told = capsys.readouterr().out
    assert "do not add up." in told and '"both"' not in told


def test_nothing_above_the_threshold_is_told_as_below_it(folder):
    """The same letters, though not the same words, are a near-duplicate at any threshold."""
    sides = [read(f"beir:{folder}", split) for split in ("train", "test")]
    for near in (0.6, 0.72, 0.75, 0.875, 0.9, 1.0):
        found = audit(*sides, near=near)
        near_ones = found.near[(found.near["words"] < near) & (found.near["order"] < 1)]
        assert near_ones.empty and found.just_below["words"].between(near - 0.05, near).all()
        assert (found.just_below["words"] < near).all()


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ("beir:{}@valid", "no split 'valid'; it has train, test"),
        ("datasets:{}", "save_to_disk"),
        ("{}/no.tsv", "no such file"),
    ],
)
def test_what_cannot_be_read_is_named(folder, given, part):
    with pytest.raises(InputError, match=part):
        read(given.format(folder), "train")


def test_a_folder_of_datasets_without_positives_names_its_columns(tmp_path):
    Dataset.from_dict({"anchor": ["a"], "label": [1]}).save_to_disk(tmp_path / "data")
    with pytest.raises(InputError, match="'label'.*positive/answer"):
        read(f"datasets:{tmp_path / 'data'}", "train")


def test_copies_of_answers_under_other_ids_are_shared(folder):
    """Test query 4 has a copy, in other letters, of the passage of training query 11."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("about t4", "About  P11"))
    found = audit(read(f"beir:{folder}", "train"), read(f"beir:{folder}", "test"))
    assert counts(found)["shares 1 or more passages of relevance 1 or more"] == 2
    assert counts(found)["an answer is exposed"] == 8
    assert counts(found)["an answer is copied"] == 1
    assert counts(found)["shares passages only as copies under other ids"] == 1
    assert "x4" in found.test_queries and "q11" in found.train_queries
    assert found.pairs.set_index("test_query_id").loc["x4", "shared"] == 1


def test_positives_of_datasets_are_shared_in_whatever_letters(tmp_path):
    rows = {"anchor": TRAIN[:2], "positive": ["the \ufb01rst stra\u00dfe", "another"]}
    Dataset.from_dict(rows).save_to_disk(tmp_path / "train")
    Dataset.from_dict({"query": TEST[:1], "answer": ["THE FIRST STRASSE"]}).save_to_disk(
        tmp_path / "test"
    )
    found = audit(*(read(f"datasets:{tmp_path / name}", name) for name in ("train", "test")))
    assert counts(found)[
        "shares 1 or more passages of relevance 1 or more"
    ] == 1 and found.train_queries == ["0"]


def test_queries_without_spaces_between_words_have_near_duplicates(tmp_path):
    pairs = [("北京大学的图书馆星期天几点开门呢", "北京大学的图书馆星期天几点开门啊")]
    pairs += [
        ("日本で一番高い山の名前は何ですか", "日本で一番高い山の名前は何でしょうか"),
        ("今天的天气怎么样", "如何更换自行车后轮"),
    ]
    for name, texts in zip(("train", "test"), zip(*pairs, strict=True), strict=True):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{name}{at}\t{text}\n" for at, text in enumerate(texts))
        )
    found = audit(read(f"{tmp_path}/train.tsv", ""), read(f"{tmp_path}/test.tsv", ""), near=0.7)
    assert found.test_queries == ["test0", "test1"] and found.train_queries == ["train0", "train1"]


@pytest.mark.parametrize("side", ["train", "test"])
def test_queries_without_a_word_are_one_message(tmp_path, capsys, side):
    (tmp_path / "train.tsv").write_text("1\twhat is it\n")
    (tmp_path / "test.tsv").write_text("2\twho was it\n")
    (tmp_path / f"{side}.tsv").write_text("a\t???\nb\t!\n")
    command = [
        "audit",
        "--train",
        f"{tmp_path}/train.tsv",
        "--test",
        f"{tmp_path}/test.tsv",
        "--out",
        f"{tmp_path}/out",
    ]
    assert main(command) == 2
    assert f"{side}.tsv: none of 2 queries holds a word" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.json", "[]"),
        ("state.json", '{"_data_files": []}'),
        ("state.json", '{"_data_files": 5}'),
        ("state.json", "[" * 100_000),
        ("state.json", '{"_data_files": [{"filename": "nothing.arrow"}]}'),
        ("dataset_info.json", "5"),
        ("dataset_info.json", '{"features": {"anchor": {"_type": "os.system"}}}'),
        ("data-00000-of-00001.arrow", "no arrow"),
        ("state.json", None),
    ],
)
def test_a_folder_of_datasets_that_is_damaged_is_one_message(tmp_path, name, content):
    Dataset.from_dict({"anchor": TRAIN[:2], "positive": ["one", "two"]}).save_to_disk(
        tmp_path / "data"
    )
    path = tmp_path / "data" / name
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match="datasets:.*data: cannot be read.*save_to_disk"):
        read(f"datasets:{tmp_path / 'data'}", "train")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="empty: cannot be read"):
        read(f"datasets:{tmp_path / 'empty'}", "train")


def test_bare_ids_have_the_texts_of_the_other_sides_collection(folder, tmp_path):
    """A file of qrels that names passages of the test side's collection is compared by text."""
    corpus = folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("about t4", "About  P11"))
    (tmp_path / "train.tsv").write_text("a\twhere are tulips grown\nb\twho was darwin\n")
    (tmp_path / "train.qrels").write_text("a 0 p11 1\nb 0 p12 1\n")
    train = read(f"{tmp_path}/train.tsv,{tmp_path}/train.qrels", "train")
    found = audit(train, read(f"beir:{folder}", "test"))
    assert counts(found)["shares passages only as copies under other ids"] == 1
    assert found.test_queries == ["x4"] and "by their texts" in found.compared
    (tmp_path / "train.qrels").write_text("a 0 p11 1\nb 0 elsewhere 1\n")
    by_id = audit(
        read(f"{tmp_path}/train.tsv,{tmp_path}/train.qrels", "train"),
        read(f"beir:{folder}", "test"),
    )
    assert not by_id.test_queries and "by their ids" in by_id.compared


def test_near_duplicates_in_another_order_and_with_the_same_answer_are_counted_apart(tmp_path):
    train = ["convert dollars to euros", "who wrote the old granite book", "cost of e-mail"]
    test = [
        "convert euros to dollars",
        "who wrote the old granite book?",
        "cost of email",
        "tulips",
    ]
    for name, texts in (("train", train), ("test", test)):
        (tmp_path / f"{name}.tsv").write_text(
            "".join(f"{i}\t{text}\n" for i, text in enumerate(texts))
        )
        (tmp_path / f"{name}.qrels").write_text(f"0 0 {name}0 1\n1 0 p 1\n2 0 {name}2 1\n")
    sides = [
        read(f"{tmp_path / name}.tsv,{tmp_path / name}.qrels", name) for name in ("train", "test")
    ]
    found = audit(*sides)
    assert counts(found)["same words as a training query"] == 3
    assert counts(found)["near-duplicate with its words in another order only"] == 1
    assert counts(found)["near-duplicate that shares an answer"] == 1
    assert counts(found)["near-duplicate that shares no answer"] == 2
    assert found.near["order"].round(2).tolist() == [0.33, 1, 1]
    assert found.near["shares_answer"].tolist() == [False, True, False]
    with pytest.raises(InputError, match="near 0: give a share"):
        audit(*sides, near=0)


def test_edited_copies_need_texts_and_a_share(folder, tmp_path):
    corpus = folder / "corpus.jsonl"
    corpus.write_text(corpus.read_text().replace("about t4", "about p11 again"))
    sides = [read(f"beir:{folder}", split) for split in ("train", "test")]
    assert "x4" not in audit(*sides).test_queries
    assert "x4" in audit(*sides, near_passages=0.6).test_queries
    with pytest.raises(InputError, match="near 2: give a share"):
        audit(*sides, near_passages=2)
    bare = sides[0]._replace(qrels=None)
    with pytest.raises(InputError, match="which a side lacks"):
        audit(bare, sides[1], near_passages=0.6)


def test_what_is_left_when_the_queries_to_drop_are_dropped_is_clean(folder):
    """Two training passages are edited copies of one test answer, one of them by way of it."""
    corpus = folder / "corpus.jsonl"
    texts = corpus.read_text()
    for name, text in (
        ("p9", "the old granite harbour of falcons in peru"),
        ("t4", "the old granite harbour of falcons"),
        ("p11", "granite harbour of falcons"),
    ):
        texts = texts.replace(f'"about {name}"', f'"{text}"')
    corpus.write_text(texts)
    train, test = (read(f"beir:{folder}", split) for split in ("train", "test"))
    for near_passages in (1.0, 0.6):
        found = audit(train, test, near=0.8, near_passages=near_passages)
        assert ("x4" in found.test_queries) == (near_passages < 1)
        assert {"q9", "q11"}.issubset(found.train_queries) == (near_passages < 1)
        is_kept = ~train.queries["query_id"].isin(found.train_queries)
        kept = train.queries[is_kept]
        qrels = train.qrels[train.qrels["query_id"].isin(kept["query_id"])]
        again = audit(
            train._replace(queries=kept, qrels=qrels), test, near=0.8, near_passages=near_passages
        )
        assert not again.test_queries and not again.train_queries


def test_passages_without_a_text_are_known_by_their_ids(folder):
    """They are no copies of each other."""
    corpus = folder / "corpus.jsonl"
    texts = corpus.read_text()
    for name in ("t4", "t5", "p11"):
        texts = texts.replace(f'"about {name}"', '""')
    corpus.write_text(texts)
    train, test = (read(f"beir:{folder},empty=keep", split) for split in ("train", "test"))
    assert audit(train, test, near=0.8).test_queries == ["x0", "x1", "x2"]
    qrels = test.qrels.replace({"doc_id": {"t5": "p11"}})
    assert audit(train, test._replace(qrels=qrels), near=0.8).test_queries[-1] == "x5"


def test_the_nearest_training_queries_are_looked_up_for_some_test_queries(folder, monkeypatch):
    """All are compared; what is displayed is of queries that lie evenly among them."""
    monkeypatch.setattr(auditing, "SHOWN", 4 * 30)
    found = audit(*(read(f"beir:{folder}", split) for split in ("train", "test")), near=0.8)
    assert sorted(found.pairs["test_query_id"]) == ["x0", "x3", "x6", "x9"]
    assert "pairs.csv: 6 test queries are not looked up, as there are more than" in found.unpaired
    assert found.test_queries == ["x0", "x1", "x2"]


def test_judgements_without_a_relevant_passage_share_nothing(tmp_path):
    for name, texts in (("train", TRAIN), ("test", TEST)):
        lines = (f"{name}{i}\t{text}\n" for i, text in enumerate(texts))
        (tmp_path / f"{name}.tsv").write_text("".join(lines))
        qrels = (f"{name}{i} 0 d{i} 0\n" for i in range(len(texts)))
        (tmp_path / f"{name}.qrels").write_text("".join(qrels))
    sides = [
        read(f"{tmp_path / name}.tsv,{tmp_path / name}.qrels", name) for name in ("train", "test")
    ]
    found = audit(*sides)
    assert found.seen.empty and not found.train_queries
    assert found.shares["n"].tolist()[:-1] == [0] * (len(found.shares) - 1)


def test_neighbours_are_found_among_all_training_queries_whatever_is_encoded_at_once(monkeypatch):
    """LSA is fitted on one in three of them then, and knows no other word."""
    train, test = (
        pd.DataFrame({"query_id": range(len(texts)), "text": texts}) for texts in (TRAIN, TRAIN[:6])
    )
    whole = auditing.neighbours(train, test, "lsa")
    monkeypatch.setattr(auditing, "AT_ONCE", len(TRAIN))
    pd.testing.assert_frame_equal(auditing.neighbours(train, test, "lsa"), whole)
    monkeypatch.setattr(auditing, "AT_ONCE", 10)
    closest = auditing.neighbours(train, test, "lsa").drop_duplicates("test_query_id")
    topics = closest[["test_query", "train_query"]].map(lambda text: text.split()[2])
    assert (topics["test_query"] == topics["train_query"]).all()

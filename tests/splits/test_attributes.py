"""Attributes: the released rules to the letter, and specs that are refused where they say
nothing.
"""

import re

import numpy as np
import pandas as pd
import pytest

from interextra.splits.attributes import WH_WORDS, attribute, labels, length, part, wh_words
from interextra.store.errors import InputError


@pytest.mark.parametrize(
    ("text", "letters", "words"),
    [
        ("what is it", {"wha"}, {"wha"}),
        ("best tv show", {"how"}, set()),
        ("whole wheat bread", {"who"}, set()),
        ("wheat bread", set(), set()),
        ("is whatsapp free", {"wha"}, set()),
        ("whens the game", {"who"}, set()),
        ("when's the game", {"who"}, {"who"}),
        ("DEFINITION of Which", {"wha", "who"}, {"wha", "who"}),
        ("definitions", {"wha"}, set()),
        ("how, and where?", {"how", "who"}, {"how", "who"}),
        ("shower", {"how"}, set()),
        ("why is it so", set(), set()),
    ],
)
def test_question_words_by_letters_and_by_whole_words(text, letters, words):
    assert set(wh_words(text)) == letters and set(wh_words(text, whole=True)) == words


def test_query_of_two_clusters_belongs_to_the_first_in_order():
    for text in ("who knows what", "what and how", "how and where and what", "nothing"):
        found = [cluster for cluster in WH_WORDS if cluster in wh_words(text)]
        assert wh_words(text) == found and attribute("wh-words")({"text": text}) == (
            found[0] if found else ""
        )
    # the release's README shows a query with `what` and `how` that is labelled how
    assert wh_words("what is peristaltic movement and how does it work")[0] == "how"


@pytest.mark.parametrize(
    ("text", "limit", "spaces", "words"),
    [
        ("a b c d e", 6, "short", "short"),
        ("a b c d e f", 6, "long", "long"),
        ("a  b c d e", 6, "long", "short"),
        ("a b c d e ", 6, "long", "short"),
        ("a\tb c d e f", 6, "short", "long"),
        ("one", 1, "long", "long"),
        ("one", 2, "short", "short"),
    ],
)
def test_length_counts_spaces_or_words(text, limit, spaces, words):
    assert (length(text, limit), length(text, limit, whole=True)) == (spaces, words)


def test_parts_are_about_equal_and_the_same_every_time():
    ids = [f"q{number}" for number in range(3000)]
    counts = pd.Series([part(query_id, 3) for query_id in ids]).value_counts()
    assert set(counts.index) == {"part 1", "part 2", "part 3"} and counts.between(900, 1100).all()
    # crc32 of q1, q2, q3 is 639851122, 3207203784, 3358407518: remainders 1, 0, 2
    assert [part(query_id, 3) for query_id in ids[1:4]] == ["part 2", "part 1", "part 3"]


def test_spec_names_rule_and_options():
    show = {"query_id": "q1", "text": "a tv  show", "kind": "film"}
    specs = {
        "wh-words": "how",
        "wh-words:whole=true": "",
        "wh-words:whole=false": "how",
        "length": "short",
    }
    specs |= {"length:limit=4": "long", "length:limit=4,whole=true": "short", "column:kind": "film"}
    specs |= {"random:parts=1": "part 1"}
    assert {spec: attribute(spec)(show) for spec in specs} == specs


UNCLEAR = """lenght column column: length:5 length:limit=0 length:limit=-1 length:limit=x length:whole=yes
length:parts=2 wh-words:limit=3 random:whole=true random:parts=0 python: python:no_such_module:f
python:json:no_such_function python:.relative:f python:json:__name__ python:json"""


@pytest.mark.parametrize("spec", ["", *UNCLEAR.split()])
def test_spec_without_a_meaning_is_refused_and_quoted(spec):
    with pytest.raises(InputError, match=re.escape(repr(spec))):
        attribute(spec)


def test_query_id_and_text_cannot_be_set_by_a_spec():
    for spec in ("random:query_id=q1", "wh-words:text=who"):
        with pytest.raises(InputError, match="unknown option"):
            attribute(spec)


QUERIES = pd.DataFrame(
    {"query_id": ["q1", "q2", "q3"], "text": ["how", "who is it", "red fox"], "n": [1, 2, 3]}
)


def test_labels_stand_in_the_order_of_the_queries():
    found = labels(QUERIES, "wh-words")
    assert found.dtype == object and found.tolist() == ["how", "who", ""]
    assert labels(QUERIES, lambda query: "odd" if query["n"] % 2 else None).tolist() == [
        "odd",
        "",
        "odd",
    ]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, ""])
def test_missing_label_is_no_cluster(missing):
    kinds = QUERIES.assign(kind=pd.Series(["a", missing, "b"], dtype=object))
    assert labels(kinds, "column:kind").tolist() == ["a", "", "b"]


@pytest.mark.parametrize(
    ("of", "message"),
    [
        ("column:n", "column:n: a label is a string, not 1, 2, 3"),
        ("column:topic", "no such column; they have query_id, text, n"),
        (lambda query: None, "none of 3 queries has a label"),
        ("wh-words:whole=maybe", "unknown option 'whole=maybe'"),
    ],
)
def test_labels_that_make_no_cluster_are_an_error(of, message):
    with pytest.raises(InputError, match=re.escape(message)):
        labels(QUERIES, of)


def test_columns_that_are_worked_out_serve_as_attributes():
    """MedQuAD's: of questions without a focus nothing is known."""
    frame = pd.DataFrame({"query_id": list("abcd"), "text": "x", "focus": ["f", "g", None, "f"]})
    frame = frame.assign(
        qtype=["causes", "symptoms", "causes", "x"],
        semtype=[["T019", "T047"], ["T047"], ["T047"], None],
    )
    assert labels(frame, "column:entity_type").tolist() == ["congenital", "disease", "", ""]
    assert labels(frame, "column:intent_group").tolist() == ["origin", "course", "", ""]
    assert labels(frame, "column:qtype").tolist() == ["causes", "symptoms", "causes", "x"]
    with pytest.raises(InputError, match="no such column"):
        labels(frame, "column:nothing")


def test_function_of_your_own_is_found_by_name(tmp_path, monkeypatch):
    (tmp_path / "mine_by_letter.py").write_text("def first(query):\n    return query['text'][0]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert labels(QUERIES, "python:mine_by_letter:first").tolist() == ["h", "w", "r"]


def test_every_released_query_holds_its_word_and_has_its_length(real_data):
    from interextra.papers import released

    names = ("short", "long", *WH_WORDS)
    texts = {
        name: released.read_shift(real_data / "ms-marco-shift", name)[0]["text"] for name in names
    }
    assert all(length(text) == name for name in ("short", "long") for text in texts[name])
    assert all(name in wh_words(text) for name in WH_WORDS for text in texts[name])

"""Texts are the same, and share words, as a reader sees them: in any script, under any form of the
same letters.
"""

import random

import numpy as np
import pytest

from interextra.data.texts import normalised, same_text
from interextra.data.words import lower_words, words_of
from interextra.models.encoders import LSA
from interextra.overlap.text import text_jaccard, tokens

SAME = {
    "letters composed or not": ("où est le café", "ou\u0300 est le cafe\u0301"),
    "sharp s, upper case": ("weiße Straße", "WEISSE STRASSE"),
    "final sigma": ("ο λόγος", "Ο ΛΌΓΟΣ"),
    "ligatures": ("the first office", "the \ufb01rst o\ufb03ce"),
    "full width": ("room 42 Ａ", "room ４２ a"),
    "soft hyphen": ("coordination", "co\u00adordination"),
    "characters without a width": ("harbour in winter", "har\u200bbour in win\u2060ter\ufeff"),
    "apostrophes": ("it's the dog's", "it\u2019s the dog\u02bcs"),
    "white space": ("two words", " two\u00a0\t words\n"),
}


@pytest.mark.parametrize("name", SAME)
def test_one_text_in_two_forms_is_the_same(name):
    one, other = SAME[name]
    assert one != other and normalised(one) == normalised(other)
    assert same_text([one, "another", other]).tolist() == [0, 1, 0]
    assert text_jaccard([one], [other]).tolist() == [1]


def test_texts_that_differ_stay_apart():
    pairs = [
        ("a cat", "a cot"),
        ("1 2", "12"),
        ("re-sign", "resign"),
        ("का", "की"),
        ("は", "ば"),
        ("x²y", "x3y"),
    ]
    assert all(normalised(one) != normalised(other) for one, other in pairs)
    assert tokens("का") != tokens("की")  # vowels that are marks belong to the word


def test_plain_texts_are_lower_cased_and_nothing_else():
    letters = "abc XYZ 019 _-.,;'\"`?!/()"
    draw = random.Random(3)
    for _ in range(300):
        text = "".join(draw.choices(letters, k=20))
        assert normalised(text) == " ".join(text.lower().split())


def near(text, at, other):
    return text[:at] + other + text[at + 1 :]


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("北京大学的图书馆星期天几点开门呢", "了"),
        ("日本で一番高い山の名前は何ですか", "県"),
        ("รถไฟฟ้าสายสีเขียวเปิดให้บริการกี่โมง", "ฮ"),
        ("서울에서 부산까지 기차로 몇 시간 걸립니까", "나"),
    ],
)
def test_a_changed_character_leaves_a_near_duplicate_where_no_space_parts_words(text, other):
    for at in (0, len(text) // 2, len(text) - 1):
        changed = near(text, at, other) if text[at] != " " else near(text, at + 1, other)
        assert changed != text and 0.7 < text_jaccard([text], [changed])[0] < 1
    others = {
        "如何更换自行车后轮的内胎和外胎",
        "ใครเป็นผู้แต่งหนังสือเล่มนี้",
        "오늘 점심에 무엇을 먹을까요",
        "空港までの道を教えてください",
    }
    assert all(text_jaccard([text], [one])[0] < 0.3 for one in others)


def test_words_with_spaces_between_them_are_whole_and_as_before():
    text = "Who's the CEO of foo_bar, café № 5 — Ελλάδα, Москва, العربية"
    expected = [
        "Who",
        "s",
        "the",
        "CEO",
        "of",
        "foo",
        "bar",
        "café",
        "5",
        "Ελλάδα",
        "Москва",
        "العربية",
    ]
    assert words_of(text) == expected
    assert lower_words("Foo_Bar café") == ["foo_bar", "café"]
    assert words_of("GPUを使う") == ["GPU", "を使", "使う", "使"]


def test_the_directions_of_queries_without_spaces_say_what_they_share():
    places, asks = (
        ["北京", "上海", "广州", "成都", "西安"],
        ["的天气怎么样", "有什么好吃的", "的人口是多少"],
    )
    texts = [f"{place}{ask}" for place in places for ask in asks]
    vectors = LSA("", texts).encode_queries([*texts, "北京的天气好吗"])
    assert (np.linalg.norm(vectors, axis=1) > 0.99).all()
    best = texts[int((vectors[:-1] @ vectors[-1]).argmax())]
    assert best == "北京的天气怎么样"

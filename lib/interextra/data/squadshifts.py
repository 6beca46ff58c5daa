"""SQuADShifts: questions that crowd workers asked about a paragraph, in SQuAD's format.

Miller, Krauth, Recht and Schmidt (ICML 2020), github.com/modestyachts/squadshifts-website, folder
datasets: new_wiki, nyt, reddit, amazon_reviews. The repository states no licence; the card of the
data set (huggingface.co/datasets/ludwigschmidt/squadshifts) says CC BY 4.0.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, StringConstraints, ValidationError

from interextra.data import converted, pairs
from interextra.data.collection import Collection
from interextra.data.trec import content
from interextra.store.errors import InputError
from interextra.store.files import parse_json

NEW_PASSAGES = "new_passages"
Text = Annotated[str, StringConstraints(pattern=r"\S")]


class _Question(BaseModel):
    question: Text


class _Paragraph(BaseModel):
    context: Text
    qas: list[_Question]


class _Article(BaseModel):
    title: Text
    paragraphs: list[_Paragraph]


class _File(BaseModel):
    data: list[_Article]


def open_squadshifts(file: Path, spec: str, qrels: str = "") -> Collection:
    """Open a file of SQuADShifts as passage retrieval.

    A passage is a paragraph, a query a question, both with single spaces; questions that differ in
    case alone are one. Attribute `article`: title of the article, or the group of reviews, that the
    paragraph is from; of a question on several the first in alphabetical order. reddit has 2,033
    passages and 9,581 queries, amazon_reviews 2,050 and 9,366. The workers saw the paragraph: they
    share its words.

    Parameters
    ----------
    qrels
        Splits are random; those of "new_passages" share no article, in a file of one article no
        passage. Questions on passages of two splits are left out.

    Raises
    ------
    InputError
        A missing file, or one in another format.
    """
    release, _, _ = file.stem.partition("_v")
    read = partial(_read, file, qrels)
    reader = f"{__name__}:_read"
    return pairs.open_pairs(f"squadshifts-{release}", spec, [file], read, reader, qrels)


def _read(file: Path, variant: str) -> converted.Parts:
    """Return the parts of the collection."""
    doc_ids: dict[str, str] = {}  # by paragraph
    article_of: dict[str, str] = {}  # by doc_id
    asked = []
    for article, context, questions in _paragraphs(file):
        doc_id = doc_ids.setdefault(context, f"p{len(doc_ids)}")
        article_of.setdefault(doc_id, article)
        asked += [{"text": text, "doc_id": doc_id} for text in questions]
    queries, qrels = pairs.numbered(asked, file)
    articles = qrels["doc_id"].map(article_of).groupby(qrels["query_id"]).min()
    queries["article"] = queries["query_id"].map(articles)
    passages = {doc_id: context for context, doc_id in doc_ids.items()}
    splits = pairs.split_by_question(qrels)
    if variant == NEW_PASSAGES:
        splits = pairs.split_by_passage(qrels, _split_of_passages(article_of))
    return pairs.parts_of(file, passages, queries, splits)


def _paragraphs(file: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield title of the article, text and questions of each paragraph, with single spaces."""
    for article in _articles(file):
        for paragraph in article.paragraphs:
            questions = [" ".join(asked.question.split()) for asked in paragraph.qas]
            yield article.title, " ".join(paragraph.context.split()), questions


def _articles(file: Path) -> list[_Article]:
    """Return the articles of a file."""
    value = parse_json(content(file), file)
    try:
        return _File.model_validate(value).data
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{file}: {where!r}: {first['msg']}; it must be in SQuAD's format: "
            "data, paragraphs, context, qas, question"
        ) from None


def _split_of_passages(article_of: dict[str, str]) -> dict[str, str]:
    """Return the split of each passage: that of its article, or its own where all are of one."""
    articles = set(article_of.values())
    if len(articles) == 1:
        return pairs.at_random(sorted(article_of))
    split_of_article = pairs.at_random(sorted(articles))
    return {doc_id: split_of_article[article] for doc_id, article in article_of.items()}

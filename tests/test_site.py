"""The index page and the tables of a notebook show text from data as text."""

import json
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import pandas as pd
import pytest

from interextra.experiments import start_here
from interextra.experiments.plans import cells_of
from interextra.ground.cells import Store
from interextra.ground.effects import shown
from interextra.study.schedule import described
from interextra.study.site import write_index

HOSTILE = "<img src=x onerror=alert(1)>"


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture
def page(tmp_path):
    """The index over one notebook whose title, table and figure hold HTML."""
    notebook = tmp_path / HOSTILE / "00_it"
    (notebook / "tables").mkdir(parents=True)
    (notebook / "figures").mkdir()
    (notebook / "00_it.html").touch()
    answer = {"sentences": [f"{HOSTILE} loses 3 %.", "It is another one."]}
    (notebook / "metrics.json").write_text(json.dumps({"answer": answer}))
    (notebook / "00_it.ipynb").write_text(json.dumps({"cells": [{"source": [f"# {HOSTILE}?\n", "more"]}]}))
    pd.DataFrame({HOSTILE: [HOSTILE, None]}).to_csv(notebook / "tables" / f"{HOSTILE}.csv", index=False)
    picture = notebook / "figures" / f"{HOSTILE}.png"
    plt.figure().savefig(picture, metadata={"Description": f'"{HOSTILE}'})
    return write_index(tmp_path / HOSTILE).read_text()


def test_index_shows_text_from_data_as_text(page):
    live = [attributes for _, attributes in Tags(page).found]
    assert not any("onerror" in attributes for attributes in live)
    assert page.count("&lt;img src=x") >= 6


def test_index_links_tables_and_describes_figures(page):
    [image] = [attributes for tag, attributes in Tags(page).found if tag == "img"]
    assert image == {"src": f"00_it/figures/{HOSTILE}.png", "alt": f'"{HOSTILE}'}
    links = [attributes["href"] for tag, attributes in Tags(page).found if tag == "a"]
    assert links == ["00_it/00_it.html", f"00_it/tables/{HOSTILE}.csv"]


def test_index_begins_each_notebook_with_the_first_sentence_of_its_answer(page):
    assert "loses 3 %.</b>" in page and "It is another one" not in page


def test_collection_folder_named_as_html_is_text_in_a_list_of_results(tmp_path):
    folder = tmp_path / HOSTILE
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "tea"}\n')
    (folder / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}\n{"_id": "r", "text": "a tea"}\n')
    for split, query in (("train", "q"), ("test", "r")):
        (folder / "qrels" / f"{split}.tsv").write_text(f"query-id\tcorpus-id\tscore\n{query}\td\t1\n")
    asked = {"collection": f"beir:{folder}", "train_split": "train", "train_limit": 0, "test_splits": ["test"]}
    plan = start_here.plan(asked | {"recipes": ["bm25", "mini-dense"], "steps": 0, "depth": 10, "seed": 1})
    page = shown(pd.DataFrame(described(Store(tmp_path / "cells"), cells_of(plan)))).to_html()
    assert "&lt;img src=x" in page and "img" not in [tag for tag, _ in Tags(page).found]


def test_table_on_a_page_shows_text_from_data_as_text():
    frame = pd.DataFrame({"name": [HOSTILE], HOSTILE: [0.5], "p_value": [0.1]})
    live = [tag for tag, _ in Tags(shown(frame).to_html()).found]
    assert "img" not in live

"""The book of a run: text from data is text, exercises have folded solutions, links go to pages
that exist.
"""

import base64
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import nbformat
import pandas as pd
import pytest
import yaml
from PIL import Image
from toy_parameters import plan_with

from interextra.claims import wording
from interextra.claims.cards import html
from interextra.notebooks import n00_start_here as start_here
from interextra.notebooks.plans import cells_of
from interextra.site.answers import over_collections_of
from interextra.site.book import write
from interextra.site.first_page import first_page
from interextra.site.repository import notebooks
from interextra.stats.effects import shown
from interextra.store.folders import Store
from interextra.store.prices import described
from tools import teaching
from tools.exercises import FOLDER, read_entries

HOSTILE = "<img src=x onerror=alert(1)>"
code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def of(self, tag, attribute):
        return [
            attributes[attribute]
            for name, attributes in self.found
            if name == tag and attribute in attributes
        ]


def printed(line):
    return nbformat.v4.new_output("stream", name="stdout", text=line)


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """The book of a run with two notebooks, the answer of one of which holds HTML."""
    folder = tmp_path_factory.mktemp("outputs") / "toy"
    picture = folder / "picture.png"
    picture.parent.mkdir()
    Image.new("RGB", (4, 3)).save(picture)
    data = {"image/png": base64.b64encode(picture.read_bytes()).decode(), "text/plain": "a figure"}
    looks = {"image/png": {"alt": "a falling line", "width": 300}}
    figure = nbformat.v4.new_output("display_data", data, metadata=looks)
    looks = {"image/png": {"alt": "a rising line", "width": 200}}
    another = nbformat.v4.new_output("display_data", data, metadata=looks)
    answer = nbformat.v4.new_output(
        "display_data", {"text/markdown": "**In this run**\n\n- It loses 3 %."}
    )
    cells = [
        text(
            "# Does it lose?\n\nAs in `03_there` and [`04_not`](04_not.ipynb), by **interpolation**; interpolation."
        ),
        code("ix.answer()", outputs=[answer], metadata={"tags": ["answer"]}),
        code("n: int = 3", metadata={"tags": ["parameters"]}),
        code("draw_both()", outputs=[figure, another]),
        text("**Predict before you run:** how much?"),
        code("print(loss)", outputs=[printed("the loss is 4")]),
        text("In between."),
        code("print(gain)", outputs=[printed("the gain is 5")]),
        text("### A part of the section"),
        code("print(part)", outputs=[printed("the part is 7")], metadata={"tags": ["hide-input"]}),
        text("## After"),
        code("print(mean)", outputs=[printed("the mean is 6")]),
        text(
            "## Comparison\n\n<!-- result -->\nIt loses.\n\nTable 6.",
            metadata={"tags": ["predicted"]},
        ),
        code("print(beside)", outputs=[printed("the loss is 4 again")]),
        text(
            "## Where\n\nIt goes.\n\n## Exercises\n\n1. *Predict:* one?\n2. *Write:* two,\n   in lines."
            "\n\nAll are folded."
        ),
        code("solved_1", metadata={"tags": ["solution"]}),
        code("solved_1_on", metadata={"tags": ["solution", "continued"]}),
        code("solved_2", metadata={"tags": ["solution"]}),
    ]
    for name, parts in (("02_here", cells), ("03_there", [text("# And there?")])):
        for part in ("tables", "figures"):
            (folder / name / part).mkdir(parents=True)
        shutil.copy(picture, folder / name / "figures" / "main.png")
        (folder / name / "figures" / "main.pdf").write_bytes(b"")
        (folder / name / "tables" / "effects.csv").write_text("a\n1\n")
        language = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
        nbformat.write(
            nbformat.v4.new_notebook(cells=parts, metadata=language),
            folder / name / f"{name}.ipynb",
        )
        noted = {
            "answer": {
                "sentences": [f"{HOSTILE} | loses 3 %.", "another"],
                "not_shown": "",
                "figure": "main",
                "alt": 'a "falling" line',
                "width": 300,
            }
        }
        (folder / name / "metrics.json").write_text(json.dumps(noted))
        record = {"method": {"cells": ["gone"]}, "seconds": {"whole notebook": 90.0}}
        (folder / name / "provenance.json").write_text(json.dumps(record))
    write(folder, "10:00: 3 of 4 results done")
    return folder


def page(book, name):
    return (book / f"{name}.html").read_text(encoding="utf-8")


def test_a_card_has_the_figure_of_the_answer_and_says_what_is_seen(book):
    pictures = [one for tag, one in Tags(page(book, "index")).found if tag == "img"]
    cards = [one for one in pictures if one["src"].startswith("_pictures/")]
    assert [one["alt"] for one in cards] == ['a "falling" line'] * 2
    assert all((book / one["src"]).is_file() for one in cards)


def test_the_first_page_begins_with_what_the_kit_asks_and_what_came_out_over_all_data(book):
    _, _, index = page(book, "index").partition("bd-article")
    asked, came_out = index.index("This kit asks"), index.index("claims that were judged on")
    assert asked < came_out < index.index("Results of the run") < index.index("Does it lose?")


def test_the_first_page_has_the_commands_for_a_retriever_of_one_s_own(book):
    index = page(book, "index")
    text = re.sub("<[^>]+>", "", index)
    _, _, cards = text.partition("pip install .\ninterextra audit --train beir:PATH@train")
    assert "Does it lose?" in cards and "own_retriever.html" in Tags(index).of("a", "href")


@pytest.mark.parametrize("profile", ["mini", "small", "worlds", "real", "smoke", "fresh"])
def test_each_profile_has_a_text_of_its_own(root, tmp_path, profile):
    profiles = root / "book" / "profiles.yaml"
    markdown = first_page(tmp_path / f"{profile}-from-reference", [], profiles, "")
    assert f"the profile **{profile}**" in markdown and "nothing was trained" in markdown


def test_the_first_page_has_questions_answers_minutes_and_what_is_missing(book):
    index = page(book, "index")
    assert "Does it lose?" in index and "3 of 4 results done" in index and "1.5" in index
    assert "&lt;img src=x" in index and "another" not in index
    assert not any("onerror" in attributes for _, attributes in Tags(index).found)
    assert {"02_here.html", "03_there.html", "glossary.html"} <= set(Tags(index).of("a", "href"))


def test_a_run_over_worlds_has_answers_estimates_and_links_to_its_tables(root, tmp_path):
    folder = tmp_path / "worlds"
    shutil.copytree(
        root / "outputs" / "reference" / "worlds" / "03_resttest", folder / "03_resttest"
    )
    write(folder)
    index, claims = (
        page(folder, "index"),
        pd.read_csv(folder / "03_resttest" / "tables" / "claims.csv"),
    )
    dense = claims.set_index("claim").loc["resttest-dense"]
    assert "How can we measure extrapolation" in index and "14 worlds: holds" in index
    assert (
        f"{100 * dense['estimate']:+.1f} % [{100 * dense['low']:.1f}, {100 * dense['high']:.1f}]"
        in index
    )
    linked = [folder / link for link in Tags(index).of("a", "href") if link.endswith(".csv")]
    assert len(linked) > 1 and all(path.is_file() for path in linked)
    assert (folder / ".book" / "warnings.txt").read_text() == ""


@pytest.mark.parametrize(
    ("profile", "notebook"), [("worlds", "04_ms_shift_clusters"), ("small", "02_restrain")]
)
def test_a_first_page_concludes_what_the_notebooks_do(root, tmp_path, profile, notebook):
    """The run of a data set whose claims are judged was filed under another name, without what it
    cannot test.
    """
    tables = root / "outputs" / "reference"
    folder = tmp_path / f"{profile}-from-reference"
    shutil.copytree(tables / profile / notebook / "tables", folder / notebook / "tables")
    read = {
        data: tables / of / notebook / "tables" / "claims.csv" for data, of in wording.DATA.items()
    }
    claims = {data: pd.read_csv(path) for data, path in read.items() if path.is_file()}
    whole = wording.page(claims, over_collections_of(notebook, tables))
    markdown = first_page(folder, [], root / "book" / "profiles.yaml", "")
    assert html(whole) in markdown
    assert "not testable" in markdown or "the worlds" in markdown


def test_claims_of_a_notebook_are_folded_cards_with_the_claim_above_its_numbers(root, tmp_path):
    """A table had a word a line."""
    folder = tmp_path / "small-from-reference"
    name = "03_resttest"
    committed = root / "outputs" / "reference" / "small"
    shutil.copytree(committed / name / "tables", folder / name / "tables")
    markdown = first_page(folder, [], root / "book" / "profiles.yaml", "")
    folded = markdown[markdown.index('<details class="claims">') :]
    assert "<table" not in folded and "\n\n" not in folded  # one block of HTML
    first = folded[: folded.index("</dl>")]
    assert first.index("A dense retriever is less effective on a bucket") < first.index("<dt")
    names = re.findall(r"<dt[^>]*>([^<]*)</dt>", first)
    data = ["MedQuAD", "fourteen worlds", "four real collections"]
    assert names == ["margin", "published", *data, "conclusion"]


def test_the_concept_map_leads_to_pages_that_exist_and_is_a_list_too(book, root):
    html = page(book, "talk")
    drawn = html[html.index('<div class="concepts">') : html.index("</svg>")]
    links = re.findall(r'<a href="([^"]*)"', drawn)
    assert set(links) == {"02_here.html", "03_there.html"}
    plan = yaml.safe_load((root / "book" / "concepts.yaml").read_text(encoding="utf-8"))
    assert html.count("</em> → ") == len(plan["links"]) == drawn.count('class="tip"')
    row_of = {name: at for at, row in enumerate(plan["rows"]) for name in row}
    assert all(row_of[end] == row_of[start] + 1 for start, end, _ in plan["links"])
    named = {concept.get("notebook") for row in plan["rows"] for concept in row.values()} - {None}
    assert named == {path.name[:2] for path in notebooks(root)}


def test_the_talk_counts_the_slides_that_the_command_makes(book, root, tmp_path):
    html = page(book, "talk")
    executed = tmp_path / "executed"
    for path in notebooks(root, "02,05,09"):
        (executed / path.stem).mkdir(parents=True)
        shutil.copy(path, executed / path.stem)
    kinds = []
    for path in teaching.write(root, "slides", "02,05,09", tmp_path / "slides", executed, False):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        kinds += [cell["metadata"]["slideshow"]["slide_type"] for cell in cells]
    assert f"{kinds.count('slide')} slides in 20 minutes" in html
    assert f"{kinds.count('subslide')} more stand below them" in html


def test_sphinx_has_nothing_to_complain_about(book):
    assert (book / ".book" / "warnings.txt").read_text() == ""


def test_links_go_to_pages_that_exist_and_terms_once_to_the_glossary(book):
    links = Tags(page(book, "02_here")).of("a", "href")
    assert "03_there.html" in links and not any("04_not" in link for link in links)
    assert sum(link == "glossary.html#term-interpolation" for link in links) == 1
    files = {"tables/effects.csv", "figures/main.pdf", "02_here.ipynb"}
    assert {f"02_here/{name}" for name in files} <= set(links)


def test_a_notebook_named_by_its_number_on_a_page_is_a_link_where_it_has_a_page(book):
    html = page(book, "notes_05")  # which names 02, 03 and 05
    linked = re.findall(r'<a [^>]*href="([^"]*)"[^>]*>(?:<[^>]*>)*(notebook \d\d)<', html)
    assert set(linked) == {("02_here.html", "notebook 02"), ("03_there.html", "notebook 03")}
    assert "notebook 05" in html


def test_the_list_of_pages_has_three_parts(book):
    captions = re.findall(r'<span class="caption-text">([^<]*)</span>', page(book, "index"))
    assert captions[:3] == ["Notebooks", "Guides", "Notes"]


def test_exercises_have_folded_solutions(book):
    html = page(book, "02_here")
    assert html.count('class="exercise admonition"') == 2 and html.count("solution dropdown") == 2
    assert html.index("solved_1_on") < html.index("solved_2") and "two, in lines." in html
    last_card = html[html.index("two, in lines.") : html.index("All are folded.")]
    assert last_card.count("</div>") >= 1 and "<div" not in last_card


def test_teachers_find_what_is_expected_of_every_exercise(book, root):
    html = page(book, "expected_answers")
    names = sorted(path.stem for path in (root / FOLDER).glob("*.yaml"))
    assert names and html.index("<table") < html.index(f"<h2>{names[0][:2]} · ")
    for name in names:
        entries = [entry for _, entry in read_entries(root, name)]
        minutes = sum(entry.minutes for entry in entries)
        row = html[html.index(f"<p>{name[:2]}</p>") :].partition("</tr>")[0]
        assert f"<p>{len(entries)}</p>" in row and f"<p>{minutes}</p>" in row, name
    assert html.count("<p>Expected: ") == sum(len(read_entries(root, name)) for name in names)


def test_results_behind_a_prediction_are_folded_until_the_next_section_that_prints_others(book):
    """A heading of level 3, and the comparison with published results, showed them."""
    html = page(book, "02_here")
    folds = re.findall(r'<details class="admonition hide [^"]*">(.*?)</details>', html, re.S)
    folded = [part for part in folds if "Show the result" in part]
    results = ["the loss is 4", "the gain is 5", "the part is 7", "the loss is 4 again"]
    assert len(folded) == len(results)
    assert all(result in part for result, part in zip(results, folded, strict=True))
    assert "the mean is 6" in html and "the mean is 6" not in "".join(folded)


def test_the_mode_for_students_finds_what_it_hides(book):
    html = page(book, "02_here")
    before, _, behind = html.partition("Predict before you run")
    of_cells = re.compile(r'<div class="(cell [^"]*)">')
    assert all("tag_later" in classes for classes in of_cells.findall(behind))
    assert not any("tag_later" in classes for classes in of_cells.findall(before))
    assert re.search(r'<div class="result[^"]*">\s*<p>It loses.</p>', html)
    script = (book / "_static" / "book.js").read_text(encoding="utf-8")
    [listed] = re.findall(r"FOR_TEACHERS = (.*);", script)
    assert all((book / name).is_file() for name in json.loads(listed))


def test_a_stored_notebook_with_a_prediction_folds_a_result(root, monkeypatch):
    """06 asked for one and folded nothing: its tables stood in the next section."""
    monkeypatch.syspath_prepend(root / "book")
    import pages

    for path in notebooks(root):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        is_folded, asked = False, 0
        for cell in cells:
            text_of_cell = "".join(cell["source"])
            tags = cell["metadata"].get("tags", [])
            if cell["cell_type"] == "markdown":
                asked += pages.PREDICTION in text_of_cell
                is_folded = pages.goes_on_folded(text_of_cell, tags, is_folded)
            elif is_folded and re.search(r"ix\.shown\(|nb\.figure\(", text_of_cell):
                asked = 0
        assert not asked, path.name


def test_parameters_are_folded_the_answer_is_shown_without_code_and_a_figure_is_described(book):
    html = page(book, "02_here")
    assert "ix.answer" not in html and "It loses 3 %." in html and "tag_hide-input" in html
    [picture] = [
        one for tag, one in Tags(html).found if tag == "img" and one.get("alt") == "a falling line"
    ]
    assert "300" in str(picture)


def test_each_of_two_figures_of_a_cell_has_its_own_text_and_width(book):
    pictures = [one for tag, one in Tags(page(book, "02_here")).found if tag == "img"]
    widths = {
        one["alt"]: str(one)
        for one in pictures
        if one.get("alt") in ("a falling line", "a rising line")
    }
    assert "300" in widths["a falling line"] and "200" in widths["a rising line"]
    assert page(book, "02_here").count("draw_both") == 1


def test_no_page_needs_a_network(book):
    for path in book.glob("*.html"):
        tags = Tags(path.read_text(encoding="utf-8"))
        assert not [
            link for link in (*tags.of("script", "src"), *tags.of("link", "href")) if "//" in link
        ], path


def test_the_book_is_made_in_another_process_while_a_run_goes_on(book, root):
    (book / "index.html").unlink()
    subprocess.run(
        [sys.executable, "-m", "interextra.site.book", str(book), "still running"],
        check=True,
        cwd=root,
    )
    assert "still running" in page(book, "index")


def test_collection_folder_named_as_html_is_text_in_a_list_of_results(tmp_path):
    folder = tmp_path / HOSTILE
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text('{"_id": "d", "text": "tea"}\n')
    (folder / "queries.jsonl").write_text(
        '{"_id": "q", "text": "tea"}\n{"_id": "r", "text": "a tea"}\n'
    )
    for split, query in (("train", "q"), ("test", "r")):
        (folder / "qrels" / f"{split}.tsv").write_text(
            f"query-id\tcorpus-id\tscore\n{query}\td\t1\n"
        )
    asked = {
        "collection": f"beir:{folder}",
        "train_split": "train",
        "train_limit": 0,
        "test_splits": ["test"],
    }
    plan = plan_with(
        start_here, asked | {"recipes": ["bm25", "mini-dense"], "steps": 0, "depth": 10, "seed": 1}
    )
    page = shown(pd.DataFrame(described(Store(tmp_path / "cells"), cells_of(plan)))).to_html()
    assert "&lt;img src=x" in page and "img" not in [tag for tag, _ in Tags(page).found]


def test_table_on_a_page_shows_text_from_data_as_text():
    frame = pd.DataFrame({"name": [HOSTILE], HOSTILE: [0.5], "p_value": [0.1]})
    live = [tag for tag, _ in Tags(shown(frame).to_html()).found]
    assert "img" not in live

"""The answer of a notebook: noted by a run, shown under the title of its page, beside the committed
one.
"""

import base64
import json
import shutil

import nbformat
import pandas as pd
import pytest
from PIL import Image as Picture
from PIL.PngImagePlugin import PngInfo

from interextra.site import answers

code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
NOTED = {
    "sentences": ["It loses 3 %."],
    "not_shown": "why",
    "figure": "loss",
    "alt": 'a "falling" line',
    "width": 300,
}


def finished(folder, noted):
    """The folder of a run that noted this answer, with its figure."""
    (folder / "figures").mkdir(parents=True)
    (folder / "metrics.json").write_text(json.dumps({"answer": noted} if noted else {}))
    Picture.new("RGB", (4, 3)).save(folder / "figures" / "loss.png")
    return folder


@pytest.fixture
def executed(tmp_path):
    """An executed notebook with an answer cell, parameters, a table and two solutions."""
    table = nbformat.v4.new_output(
        "execute_result", {"text/html": "<table><td>12</td></table>"}, execution_count=3
    )
    shown = nbformat.v4.new_output("stream", name="stdout", text="old answer")
    cells = [
        text("# Does it lose?"),
        code("ix.answer()", execution_count=1, outputs=[shown], metadata={"tags": ["answer"]}),
        code("n: int = 3", execution_count=2, metadata={"tags": ["parameters"]}),
        code("n = 4", metadata={"tags": ["injected-parameters"]}),
        code("the_table", execution_count=3, outputs=[table]),
        *(code(f"solved_{n}", metadata={"tags": ["solution"]}) for n in (1, 2)),
    ]
    folder = finished(tmp_path / "mini" / "00_it", NOTED)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "00_it.ipynb")
    return folder / "00_it.ipynb"


def box(executed):
    return nbformat.read(executed, as_version=4).cells[1]


def test_text_has_a_line_a_sentence_and_what_is_not_shown_last():
    assert answers.text_of(NOTED, "Here").splitlines() == [
        "**Here**",
        "",
        "- It loses 3 %.",
        "- *Not shown:* why",
    ]
    assert "Not shown" not in answers.text_of({"sentences": ["a", "b"], "not_shown": ""}, "Here")
    assert "- &lt;img&gt; loses" in answers.text_of(
        {"sentences": ["<img> loses"], "not_shown": ""}, "Here"
    )


def test_box_holds_the_answer_of_small_and_names_the_place_of_that_of_this_run(executed, tmp_path):
    sentences = ["It loses 9 %.", "Here, too: it does (RR@10: MedQuAD -9 %).", "It gains nothing."]
    finished(tmp_path / "reference" / "small" / "00_it", NOTED | {"sentences": sentences})
    ours = ["It loses 3 %.", "Here, too: it does (RR@10: MedQuAD -9 %; this run -3 %)."]
    metrics = {"answer": NOTED | {"sentences": ours}}
    executed.with_name("metrics.json").write_text(json.dumps(metrics))
    answers.put(executed, tmp_path / "reference", "mini")
    outputs = box(executed).outputs
    texts = [output.data["text/markdown"] for output in outputs if "text/markdown" in output.data]
    first, not_shown, folded = texts
    assert first == "**It loses 9 %.**"
    assert not_shown == f"*Figure:* MedQuAD. *Not shown:* why {answers.IN_SHORT}"
    # what stands in the box, or under "In short" with other estimates, is not told again
    assert [line for line in folded.splitlines() if line.startswith(("**", "- "))] == [
        "**On real data (profile small)**",
        "- It gains nothing.",
    ]
    assert folded.startswith("<details>") and folded.endswith("</details>")
    assert "old answer" not in executed.read_text()
    figures = [output for output in outputs if "image/png" in output.data]
    assert [figure.metadata["image/png"] for figure in figures] == [
        {"alt": NOTED["alt"], "width": 300}
    ]
    picture = (tmp_path / "reference" / "small" / "00_it" / "figures" / "loss.png").read_bytes()
    assert base64.b64decode(figures[0].data["image/png"]) == picture


def test_run_of_small_shows_its_own_answer_only(executed, tmp_path):
    finished(tmp_path / "reference" / "small" / "00_it", NOTED | {"sentences": ["an older one"]})
    answers.put(executed, tmp_path / "reference", "small")
    assert len(box(executed).outputs) == 3 and "an older one" not in executed.read_text()


def test_an_answer_that_is_older_than_the_claims_is_not_shown_as_the_answer(tmp_path):
    """Pages showed verdicts of former rules on their first screen."""
    folder = finished(tmp_path / "small" / "06_pretraining_study", NOTED)
    here = tmp_path / "mini" / folder.name
    first, *others = answers._box(folder.name, "mini", here, tmp_path, "In this run")
    assert "older than the claims" in first["data"]["text/markdown"]
    assert "3 %" not in str([first, *others]) and "image/png" not in str(others)
    (folder / "tables").mkdir()
    (folder / "tables" / "claims.csv").write_text("claim\n")
    first, figure, *_ = answers._box(folder.name, "mini", here, tmp_path, "In this run")
    assert "3 %" in first["data"]["text/markdown"] and "image/png" in figure["data"]


def test_no_committed_answer_leaves_that_of_the_run(executed, tmp_path):
    finished(tmp_path / "reference" / "small" / "00_it", None)
    answers.put(executed, tmp_path / "reference", "mini")
    assert len(box(executed).outputs) == 3


def test_a_card_has_a_figure_that_reads_at_its_size(tmp_path):
    name = "07_indicators"
    folder = finished(tmp_path / "small" / name, NOTED)
    (folder / "tables").mkdir()
    (folder / "tables" / "claims.csv").write_text("claim\n")
    here = tmp_path / "mini" / name
    assert answers.picture_on_card(name, "mini", here, tmp_path).path.name == "loss.png"
    path = folder / "figures" / f"{answers.ON_CARDS[name]}.png"
    texts = PngInfo()
    texts.add_text("Description", "two lines")
    Picture.new("RGB", (4, 3)).save(path, pnginfo=texts)
    assert answers.picture_on_card(name, "mini", here, tmp_path) == (path, "two lines", 300)


def test_the_box_begins_with_the_claim_that_answers_the_title(executed, tmp_path):
    """With all data sets; an open one says so first."""
    name = "03_resttest"
    folder = finished(tmp_path / "small" / name, NOTED)
    (folder / "tables").mkdir()
    row = {"claim": "resttest-dense", "estimate": -0.28, "low": -0.36, "high": -0.2}
    row |= {"verdict": "holds", "size": "", "reason": "", "over": "queries"}
    claims = folder / "tables" / "claims.csv"
    pd.DataFrame([row]).to_csv(claims, index=False)
    collections = tmp_path / "real" / name / "tables"
    collections.mkdir(parents=True)
    judged = {"claim": "real-resttest-dense", "estimate": -0.1, "low": -0.12, "high": -0.08}
    judged |= {"verdict": "holds", "gate": "a", "k": 2, "n": 2, "resolution": 0.02}
    judged |= {"holds_on": "a, b"}
    pd.DataFrame([judged]).to_csv(collections / "over_collections.csv", index=False)
    here = tmp_path / "mini" / name
    first = answers._box(name, "mini", here, tmp_path, "here")[0]["data"]["text/markdown"]
    assert first.startswith("**We exclude each bucket of queries from training in turn. A dense")
    assert first.endswith(
        "** Agrees in direction on other real data seen before. RR@10: MedQuAD -28.0 % [-36.0, "
        "-20.0]; published -11.5 %; four real collections -10.0 % [-12.0, -8.0]: no verdict, not "
        "ahead of BM25 on each; "
        "judged all the same: holds on 2 of 2."
    )
    pd.DataFrame([row | {"verdict": "undecided", "reason": "queries"}]).to_csv(claims, index=False)
    first = answers._box(name, "mini", here, tmp_path, "here")[0]["data"]["text/markdown"]
    assert first.startswith(
        "**We cannot tell whether a dense retriever is less effective on a bucket"
    )
    assert "** Undecided on other real data. RR@10: MedQuAD -28.0 %" in first
    opposite = row | {"verdict": "undecided", "reason": "queries", "estimate": 0.1}
    pd.DataFrame([opposite]).to_csv(claims, index=False)
    first = answers._box(name, "mini", here, tmp_path, "here")[0]["data"]["text/markdown"]
    assert "** Undecided on other real data, and our estimate points the other way." in first


def test_the_box_has_what_the_title_asks_beyond_its_claim(tmp_path):
    noted = NOTED | {"first_screen": "It falls by 2."}
    committed = tmp_path / "reference"
    finished(committed / "small" / "00_it", noted)
    here = finished(tmp_path / "00_it", noted)
    of_mini = finished(committed / "mini" / "00_it", noted)
    place_of = {("mini", here): "On MedQuAD", ("small", here): "In this run"}
    for (profile, folder), place in place_of.items():
        box = answers._box("00_it", profile, folder, committed, "here")
        assert box[0]["data"]["text/markdown"].endswith(f" {place}: It falls by 2.")
    shutil.rmtree(committed / "small")
    box = answers._box("00_it", "", of_mini, committed, "here")
    assert box[0]["data"]["text/markdown"].endswith(" In one generated world: It falls by 2.")


def test_notebook_opened_to_be_run_shows_what_is_committed(tmp_path, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(answers, "repository_root", lambda: tmp_path)
    monkeypatch.setattr(answers, "display", lambda data, metadata, raw: shown.append(data))
    answers.answer("00_it")
    assert not shown and "No committed run is here" in capsys.readouterr().out
    finished(tmp_path / "outputs" / "reference" / "mini" / "00_it", NOTED)
    answers.answer("00_it")
    assert shown[0]["text/markdown"] == "**It loses 3 %.**" and "image/png" in shown[1]
    assert len(shown) == 3  # the only sentence stands in the box
    noted = NOTED | {"sentences": ["It loses 3 %.", "It gains nothing."]}
    metrics = tmp_path / "outputs" / "reference" / "mini" / "00_it" / "metrics.json"
    metrics.write_text(json.dumps({"answer": noted}))
    answers.answer("00_it")
    assert "In a generated world" in shown[-1]["text/markdown"]
    assert "- It gains nothing." in shown[-1]["text/markdown"]

"""The answer box under a notebook's title.

One sentence with the estimates of all data sets, one figure, what is not shown, and folded behind
them what the committed runs say beyond this. `nb.answer(...)` notes the answer at the end of a run,
under "In short". A notebook that is opened to be run shows the committed ones. Text from data is
escaped.
"""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from IPython.display import display
from PIL import Image

from interextra.claims.claim import REAL, of_notebook
from interextra.claims.wording import DATA, REAL_DATA_OF, Lead, lead
from interextra.site.repository import repository_root
from interextra.site.travel import REFERENCE
from interextra.store.files import read_json

# Whose data the figure of a notebook shows on real data, where it is not MedQuAD
SHOWN = REAL_DATA_OF | {
    "13_replication_report": "all committed runs",
}
OLDER = "The committed run is older than the claims of this notebook."
FOLDED = "Further results"
THIS_RUN = "this run"
IN_WORLD = "one generated world"
IN_SHORT = "What this run found stands under *In short*."
# Figures of cards by notebook, where that of the answer has too much in it for their size
ON_CARDS = {"07_indicators": "loss_by_distance", "08_beir_correlation": "correlations"}
# The estimates at the end of the sentence of a claim: " (Spearman, nDCG@10: MedQuAD …"
ESTIMATES = re.compile(r" \((\w+, )?\S+@\d+: .*")

Output = dict[str, Any]  # of a notebook's cell
Noted = dict[str, Any]  # an answer, as `Session.answer` notes it


def answer(name: str) -> None:
    """Show the committed answers of a notebook."""
    committed = repository_root() / REFERENCE
    in_world = committed / "mini" / name
    outputs = _box(name, "", in_world, committed, "In a generated world (profile mini)")
    for output in outputs:
        display(output["data"], metadata=output["metadata"], raw=True)
    if not outputs:
        print("No committed run is here yet: the answer stands at the end.")


def put(executed: Path, committed: Path, profile: str) -> None:
    """Put the answer box into a page.

    Parameters
    ----------
    executed
        The executed notebook.
    committed
        outputs/reference.
    profile
        The profile of the run.
    """
    heading = f"In this run (profile {profile})"
    outputs = _box(executed.stem, profile, executed.parent, committed, heading)
    document = read_json(executed)
    for cell in document["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            cell["outputs"] = outputs
    text = json.dumps(document, indent=1, ensure_ascii=False)
    executed.write_text(f"{text}\n", encoding="utf-8")


def text_of(noted: Noted, heading: str) -> str:
    """Return the Markdown of an answer, of `Session.answer`; names from data stay text."""
    sentences = list(noted["sentences"])
    if noted["not_shown"]:
        sentences.append(f"*Not shown:* {noted['not_shown']}")
    items = [f"- {escape(sentence, quote=False)}" for sentence in sentences]
    return f"**{heading}**\n\n" + "\n".join(items)


def answer_of_page(name: str, profile: str, here: Path, committed: Path) -> Noted:
    """Return the first answer of a page, {} for none; see `lead_of`."""
    noted_of = _noted(name, profile, here, committed, "")
    return next((noted for noted, _ in noted_of.values()), {})


def answer_of(folder: Path) -> Noted:
    """Return the answer that a run noted in its folder; {} where it noted none."""
    path = folder / "metrics.json"
    if not path.is_file():
        return {}
    return read_json(path).get("answer", {})


def _box(name: str, profile: str, here: Path, committed: Path, heading: str) -> list[Output]:
    """Return the outputs of the box: those of the committed run of small first.

    Parameters
    ----------
    name
        Of the notebook.
    profile
        Of the run in the folder `here`; its claims stand for the committed ones of the profile. "":
        the notebook is opened to be run.
    committed
        outputs/reference.
    heading
        Of what this run says.
    """
    noted_of = _noted(name, profile, here, committed, heading)
    if not noted_of:
        return []
    first, folder = next(iter(noted_of.values()))
    found = lead_of(name, profile, here, committed) or Lead(first["sentences"][0], "")
    beside = f"{found.evidence} {_of_first_screen(name, first, folder, committed)}".strip()
    paragraph = f"**{escape(found.answer, quote=False)}** {escape(beside, quote=False)}".strip()
    outputs = [_markdown(paragraph), *_figure(noted_of.values())]
    below = [_below_figure(name, noted_of, committed)]
    in_short = ""
    if profile and heading in noted_of:
        below.append(IN_SHORT)
        in_short = heading
    below_figure = " ".join(filter(None, below))
    if below_figure:
        outputs.append(_markdown(below_figure))
    texts = _beyond(noted_of, [found.answer, first.get("first_screen", "")], in_short)
    if texts:
        folded = "\n\n".join([f"<details><summary>{FOLDED}</summary>", *texts, "</details>"])
        outputs.append(_markdown(folded))
    return outputs


def _of_first_screen(name: str, noted: Noted, folder: Path, committed: Path) -> str:
    """Return what an answer notes for the first screen, with its data; "" for nothing."""
    text = noted.get("first_screen", "")
    if not text:
        return ""
    data = _data_of(name, folder, committed)
    place = "In" if data in (THIS_RUN, IN_WORLD) else "On"
    return f"{place} {data}: {text}"


def _beyond(
    noted_of: Mapping[str, tuple[Noted, Path]], first_sentences: Sequence[str], in_short: str
) -> list[str]:
    """Return the Markdown of answers without what stands elsewhere on the page.

    Parameters
    ----------
    noted_of
        What is said of a run → its answer and its folder. Of a claim in several, the last is told.
    first_sentences
        Of the box.
    in_short
        What is said of the run whose answer stands at the end of the page; "" for none.
    """
    known = set(map(_statement, first_sentences))
    texts = []
    for heading, (noted, _) in reversed(noted_of.items()):
        rest = [text for text in noted["sentences"] if _statement(text) not in known]
        known.update(map(_statement, noted["sentences"]))
        if rest and heading != in_short:
            texts.append(text_of({"sentences": rest, "not_shown": ""}, heading))
    return texts[::-1]


def _statement(sentence: str) -> str:
    """Return what a sentence says of a claim, without the estimates, which differ between runs."""
    return ESTIMATES.sub("", sentence)


def _noted(
    name: str, profile: str, here: Path, committed: Path, heading: str
) -> dict[str, tuple[Noted, Path]]:
    """Return what is said of a run → its answer and its folder, the committed run of small first.

    Runs that noted nothing are left out.
    """
    noted_of = {heading: (answer_of(here), here)}
    if profile != "small":
        on_real_data = committed / "small" / name
        real = _noted_on_real_data(on_real_data, name)
        noted_of = {"On real data (profile small)": (real, on_real_data), **noted_of}
    return {heading: found for heading, found in noted_of.items() if found[0]}


def lead_of(name: str, profile: str, here: Path, committed: Path) -> Lead | None:
    """Return what answers the title of a notebook; None where no claim does.

    Parameters
    ----------
    name
        Of the notebook.
    profile
        Of the run in the folder `here`; its claims stand for the committed ones of the profile.
    committed
        outputs/reference.
    """
    folders = {data: committed / of_profile / name for data, of_profile in DATA.items()}
    folders |= {data: here for data, of_profile in DATA.items() if of_profile == profile}
    tables = {}
    for data, folder in folders.items():
        claims = folder / "tables" / "claims.csv"
        if claims.is_file():
            tables[data] = pd.read_csv(claims)
    return lead(tables, name, over_collections_of(name, committed))


def over_collections_of(name: str, committed: Path) -> pd.DataFrame | None:
    """Return what real collections say of a notebook's claims; None where none is committed.

    Parameters
    ----------
    name
        Of the notebook.
    committed
        The folder of the references.
    """
    path = committed / REAL / name / "tables" / "over_collections.csv"
    return pd.read_csv(path) if path.is_file() else None


def _noted_on_real_data(folder: Path, name: str) -> Noted:
    """Return the answer of the committed run of small.

    Where this is older than the notebook's claims, only that is said.
    """
    noted = answer_of(folder)
    claims = folder / "tables" / "claims.csv"
    is_older = of_notebook(name) and not claims.is_file()
    if noted and is_older:
        return {"sentences": [OLDER], "not_shown": "", "figure": ""}
    return noted


class Picture(NamedTuple):
    """The figure of an answer: its file, what is seen, and its width in pixels."""

    path: Path
    alt: str
    width: int


def picture_on_card(name: str, profile: str, here: Path, committed: Path) -> Picture | None:
    """Return the figure of a notebook's card: of ON_CARDS, else of its answer; see `lead_of`."""
    answers = list(_noted(name, profile, here, committed, "").values())
    if name in ON_CARDS and answers:
        noted, folder = answers[0]
        path = folder / "figures" / f"{ON_CARDS[name]}.png"
        if path.is_file():
            with Image.open(path) as picture:
                alt = picture.info["Description"]  # as `OutputFolder.figure` writes it
            return Picture(path, alt, noted["width"])
    return _first_picture(answers)


def _first_picture(answers: Iterable[tuple[Noted, Path]]) -> Picture | None:
    """Return the figure of the first answer that has one."""
    for noted, folder in answers:
        path = folder / "figures" / f"{noted['figure']}.png"
        if path.is_file():
            return Picture(path, noted["alt"], noted["width"])
    return None


def _figure(answers: Iterable[tuple[Noted, Path]]) -> list[Output]:
    """Return the figure of the first answer that has one, as an output."""
    found = _first_picture(answers)
    if found is None:
        return []
    picture = base64.b64encode(found.path.read_bytes()).decode()
    metadata = {"alt": found.alt, "width": found.width}
    return [_output({"image/png": picture}, {"image/png": metadata})]


def _below_figure(name: str, noted_of: Mapping[str, tuple[Noted, Path]], committed: Path) -> str:
    """Return whose data the figure shows, and what is not shown."""
    parts = []
    picture = _first_picture(noted_of.values())
    if picture is not None:
        parts.append(f"*Figure:* {_data_of(name, picture.path, committed)}.")
    first, _ = next(iter(noted_of.values()))
    if first["not_shown"]:
        parts.append(f"*Not shown:* {escape(first['not_shown'], quote=False)}")
    return " ".join(parts)


def _data_of(name: str, path: Path, committed: Path) -> str:
    """Return whose data a file or folder of a run shows."""
    if path.is_relative_to(committed / "small"):
        return SHOWN.get(name, "MedQuAD")
    return IN_WORLD if path.is_relative_to(committed) else THIS_RUN


def _markdown(text: str) -> Output:
    """Return Markdown as an output."""
    return _output({"text/markdown": text}, {})


def _output(data: dict[str, str], metadata: dict[str, Any]) -> Output:
    """Return an output of a cell, as notebooks hold it."""
    return {"output_type": "display_data", "data": data, "metadata": metadata}

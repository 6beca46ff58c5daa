"""The answer box under a notebook's title.

`nb.answer(...)` notes the answer at the end of a run. The executed notebook shows it and, above it,
the committed one on real data; a notebook that is opened to be run shows the committed ones. Text
from data is escaped.
"""

import base64
import json
from html import escape
from pathlib import Path
from typing import Any

from IPython.display import display

from interextra.claims.claim import of_notebook
from interextra.site.repository import repository_root
from interextra.site.travel import REFERENCE
from interextra.store.files import read_json

OLDER = "The committed run is older than the claims of this notebook."

Output = dict[str, Any]  # of a notebook's cell


def answer(name: str) -> None:
    """Show the committed answers of a notebook."""
    committed = repository_root() / REFERENCE
    in_world = committed / "mini" / name
    outputs = _on_real_data(committed, name)
    outputs += _outputs_of(answer_of(in_world), in_world, "In a generated world (profile mini)")
    for output in outputs:
        display(output["data"], metadata=output["metadata"], raw=True)
    if not outputs:
        print("No committed run is here yet: the answer stands at the end.")


def text_of(noted: dict[str, Any], heading: str) -> str:
    """Return the Markdown of an answer as `Session.answer` notes it; names from data stay text."""
    sentences = list(noted["sentences"])
    if noted["not_shown"]:
        sentences.append(f"*Not shown:* {noted['not_shown']}")
    items = [f"- {escape(sentence, quote=False)}" for sentence in sentences]
    return f"**{heading}**\n\n" + "\n".join(items)


def answer_of(folder: Path) -> dict[str, Any]:
    """Return the answer that a run noted in its folder; {} where it noted none."""
    path = folder / "metrics.json"
    if not path.is_file():
        return {}
    return read_json(path).get("answer", {})


def _outputs_of(noted: dict[str, Any], folder: Path, heading: str) -> list[Output]:
    """Return the text and the figure of an answer; nothing where there is none."""
    if not noted:
        return []
    text = text_of(noted, heading)
    outputs = [_output({"text/markdown": text}, {})]
    figure = folder / "figures" / f"{noted['figure']}.png"
    if figure.is_file():
        picture = base64.b64encode(figure.read_bytes()).decode()
        metadata = {"alt": noted["alt"], "width": noted["width"]}
        outputs.append(_output({"image/png": picture}, {"image/png": metadata}))
    return outputs


def _output(data: dict[str, str], metadata: dict[str, Any]) -> Output:
    """Return an output of a cell, as notebooks hold it."""
    return {"output_type": "display_data", "data": data, "metadata": metadata}


def _on_real_data(committed: Path, name: str) -> list[Output]:
    """Return the answer of the committed run of small.

    Where this is older than the notebook's claims, only that is said.
    """
    folder = committed / "small" / name
    noted = answer_of(folder)
    claims = folder / "tables" / "claims.csv"
    is_older = of_notebook(name) and not claims.is_file()
    if noted and is_older:
        noted = {"sentences": [OLDER], "not_shown": "", "figure": ""}
    return _outputs_of(noted, folder, "On real data (profile small)")


def put(executed: Path, committed: Path, profile: str) -> None:
    """Put the answers on real data and of this run into a page, with one figure.

    Parameters
    ----------
    executed
        The executed notebook.
    committed
        outputs/reference.
    profile
        The profile of the run.
    """
    real = _on_real_data(committed, executed.stem) if profile != "small" else []
    folder = executed.parent
    here = _outputs_of(answer_of(folder), folder, f"In this run (profile {profile})")
    if len(real) > 1:  # which has a figure already
        here = here[:1]
    document = read_json(executed)
    for cell in document["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            cell["outputs"] = real + here
    text = json.dumps(document, indent=1, ensure_ascii=False)
    executed.write_text(f"{text}\n", encoding="utf-8")

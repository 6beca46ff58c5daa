"""The answer box of a notebook: its figure, some sentences with numbers, and what is not shown, right under the title.

`nb.answer(...)` notes them at the end of a run. The executed page shows those of this run and, beside it, those of the
committed run on real data; a notebook that is opened to be run shows the committed ones.
"""

import base64
import json
from html import escape
from pathlib import Path

from IPython.display import Image, Markdown, display

from interextra.study.parameters import repository_root

TAG = "answer"
RUNS = {"small": "On real data (profile small)", "mini": "In a generated world (profile mini)"}


def answer(name: str) -> None:
    """Show the committed answers of a notebook."""
    root, found = repository_root(), False
    for profile in RUNS:
        folder = root / "outputs" / "reference" / profile / name
        for part in _read(folder, RUNS[profile]):
            found = True
            display(part)
    if not found:
        print("No committed run is here yet: the answer stands at the end.")


def text_of(noted: dict, heading: str) -> str:
    """Markdown of an answer as `Session.answer` notes it; names from data stay text.

    >>> print(text_of({"sentences": ["It loses 3 %."], "not_shown": "why"}, "Here"))
    **Here**
    <BLANKLINE>
    - It loses 3 %.
    - *Not shown:* why
    """
    lines = [*noted["sentences"], *([f"*Not shown:* {noted['not_shown']}"] if noted["not_shown"] else [])]
    return f"**{heading}**\n\n" + "\n".join(f"- {escape(line, quote=False)}" for line in lines)


def _read(folder: Path, heading: str) -> list[Markdown | Image]:
    """The text and the figure of a finished run; empty where it noted no answer."""
    if not (folder / "metrics.json").is_file():
        return []
    noted = json.loads((folder / "metrics.json").read_text(encoding="utf-8")).get("answer")
    if not noted:
        return []
    parts: list[Markdown | Image] = [Markdown(text_of(noted, heading))]
    figure = folder / "figures" / f"{noted['figure']}.png"
    if figure.is_file():
        parts.append(Image(figure, alt=noted["alt"], width=noted["width"]))
    return parts


def put(executed: Path, committed: Path, profile: str) -> None:
    """Put the answer of this run, and the committed one on real data, into the cell of an executed notebook.

    `committed`: outputs/reference. A notebook without such a cell stays as it is.
    """
    document = json.loads(executed.read_text(encoding="utf-8"))
    boxes = [cell for cell in document["cells"] if TAG in cell["metadata"].get("tags", [])]
    parts = _read(executed.parent, f"In this run (profile {profile})")
    parts += _read(committed / "small" / executed.stem, RUNS["small"]) if profile != "small" else []
    for cell in boxes:
        cell["outputs"] = [_output(part) for part in parts]
    executed.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _output(part: Markdown | Image) -> dict:
    if isinstance(part, Markdown):
        return {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": part.data}}
    data = {"image/png": base64.b64encode(part.data).decode()}
    return {
        "output_type": "display_data",
        "metadata": {"image/png": {"alt": part.alt, "width": part.width}},
        "data": data,
    }

"""The answer box under a notebook's title.

`nb.answer(...)` notes the answer at the end of a run. The executed notebook shows it and, above it,
the committed one on real data; a notebook that is opened to be run shows the committed ones. Text
from data is escaped.
"""

import base64
import json
from html import escape
from pathlib import Path

from IPython.display import display

from interextra.claims.claim import of_notebook
from interextra.site.parameters import repository_root

RUNS = {"small": "On real data (profile small)", "mini": "In a generated world (profile mini)"}


def answer(name: str) -> None:
    """Show the committed answers of a notebook."""
    committed = repository_root() / "outputs" / "reference"
    parts = _on_real_data(committed, name) + _answer_of(committed / "mini" / name, RUNS["mini"])
    for part in parts:
        display(part["data"], metadata=part["metadata"], raw=True)
    if not parts:
        print("No committed run is here yet: the answer stands at the end.")


def text_of(noted: dict, heading: str) -> str:
    """Markdown of an answer as `Session.answer` notes it; names from data stay text."""
    lines = [
        *noted["sentences"],
        *([f"*Not shown:* {noted['not_shown']}"] if noted["not_shown"] else []),
    ]
    return f"**{heading}**\n\n" + "\n".join(f"- {escape(line, quote=False)}" for line in lines)


def answer_of(folder: Path) -> dict:
    metrics = folder / "metrics.json"
    return (
        json.loads(metrics.read_text(encoding="utf-8")).get("answer", {})
        if metrics.is_file()
        else {}
    )


def _answer_of(folder: Path, heading: str, instead: str = "") -> list[dict]:
    """The text and the figure of a run's answer, or a sentence `instead`, as outputs of a
    notebook's cell.
    """
    if not (noted := answer_of(folder)):
        return []
    noted = {"sentences": [instead], "not_shown": "", "figure": ""} if instead else noted
    parts, figure = (
        [({"text/markdown": text_of(noted, heading)}, {})],
        folder / "figures" / f"{noted['figure']}.png",
    )
    if figure.is_file():
        picture = base64.b64encode(figure.read_bytes()).decode()
        parts.append(
            ({"image/png": picture}, {"image/png": {"alt": noted["alt"], "width": noted["width"]}})
        )
    return [
        {"output_type": "display_data", "data": data, "metadata": metadata}
        for data, metadata in parts
    ]


def _on_real_data(committed: Path, name: str) -> list[dict]:
    """The answer of the committed run of small; where this is older than the notebook's claims,
    that and no more.
    """
    folder, text = (
        committed / "small" / name,
        "The committed run is older than the claims of this notebook.",
    )
    is_older = of_notebook(name) and not (folder / "tables" / "claims.csv").is_file()
    return _answer_of(folder, RUNS["small"], text if is_older else "")


def put(executed: Path, committed: Path, profile: str) -> None:
    """Put the answers on real data (in outputs/reference) and of this run into a page, with one
    figure.
    """
    document = json.loads(executed.read_text(encoding="utf-8"))
    real = _on_real_data(committed, executed.stem) if profile != "small" else []
    parts = (
        real
        + _answer_of(executed.parent, f"In this run (profile {profile})")[
            : 1 if len(real) > 1 else 2
        ]
    )
    for cell in document["cells"]:
        if "answer" in cell["metadata"].get("tags", []):
            cell["outputs"] = parts
    executed.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

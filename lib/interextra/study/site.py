"""What a run shows: the answer box under a notebook's title, the page of an executed notebook, the index of a run.

`nb.answer(...)` notes the answer at the end of a run. The executed page shows it and, beside it, the committed one on
real data; a notebook that is opened to be run shows the committed ones. Text from data is escaped everywhere.
"""

import base64
import itertools
import json
from html import escape
from pathlib import Path

import pandas as pd
from IPython.display import display
from jinja2 import Environment
from PIL import Image

from interextra.ground.files import write_aside
from interextra.study.parameters import repository_root

TAG = "answer"
RUNS = {"small": "On real data (profile small)", "mini": "In a generated world (profile mini)"}
FOLDED = {"parameters": "Parameters", "injected-parameters": "Parameters of this run", "solution": "Solution"}
PAGE, INDEX = (Path(__file__).with_name(f"{name}.html.j2") for name in ("page", "index"))  # templates
SHOWN_ROWS = 60  # of a table in the index


def answer(name: str) -> None:
    """Show the committed answers of a notebook."""
    committed = repository_root() / "outputs" / "reference"
    parts = [part for profile in RUNS for part in _answer_of(committed / profile / name, RUNS[profile])]
    for part in parts:
        display(part["data"], metadata=part["metadata"], raw=True)
    if not parts:
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


def _noted(folder: Path) -> dict:
    """The answer that a finished run noted; empty for none."""
    metrics = folder / "metrics.json"
    return json.loads(metrics.read_text(encoding="utf-8")).get("answer", {}) if metrics.is_file() else {}


def _answer_of(folder: Path, heading: str) -> list[dict]:
    """The text and the figure of a run's answer as outputs of a notebook's cell."""
    if not (noted := _noted(folder)):
        return []
    parts, figure = [({"text/markdown": text_of(noted, heading)}, {})], folder / "figures" / f"{noted['figure']}.png"
    if figure.is_file():
        picture = base64.b64encode(figure.read_bytes()).decode()
        parts.append(({"image/png": picture}, {"image/png": {"alt": noted["alt"], "width": noted["width"]}}))
    return [{"output_type": "display_data", "data": data, "metadata": metadata} for data, metadata in parts]


def put(executed: Path, committed: Path, profile: str) -> None:
    """Put the answers on real data (in outputs/reference) and of this run into a page, with one figure."""
    document = json.loads(executed.read_text(encoding="utf-8"))
    real = _answer_of(committed / "small" / executed.stem, RUNS["small"]) if profile != "small" else []
    parts = real + _answer_of(executed.parent, f"In this run (profile {profile})")[: 1 if real else 2]
    for cell in document["cells"]:
        if TAG in cell["metadata"].get("tags", []):
            cell["outputs"] = parts
    executed.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_page(executed: Path) -> None:
    """The page of an executed notebook: without prompts, with what is tagged in `FOLDED` folded."""
    import nbformat
    from nbconvert import HTMLExporter

    document, number = nbformat.read(executed, as_version=4), itertools.count(1)
    for cell in document.cells:
        for tag in FOLDED.keys() & cell.metadata.get("tags", []):
            cell.metadata["folded"] = FOLDED[tag] + (f" {next(number)}" if tag == "solution" else "")
    template = PAGE.read_text(encoding="utf-8")
    exporter = HTMLExporter(raw_template=template, exclude_input_prompt=True, exclude_output_prompt=True)
    html, _ = exporter.from_notebook_node(document, {"metadata": {"name": executed.stem}})
    executed.with_suffix(".html").write_text(html, encoding="utf-8")


def write_index(folder: Path) -> Path:
    """Write `<folder>/index.html` over the notebooks executed under `folder`: answers, tables, figures; its path."""

    def linked(path: Path) -> dict[str, str]:
        return {"name": path.stem, "link": path.relative_to(folder).as_posix()}

    pages = []
    for page in sorted(folder.glob("[0-9][0-9]_*/*.html")):
        cells = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
        title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
        answer = next(iter(_noted(page.parent).get("sentences", [])), "")
        tables = [_table(path) | linked(path) for path in sorted(page.parent.glob("tables/*.csv"))]
        figures = []
        for path in sorted(page.parent.glob("figures/*.png")):
            with Image.open(path) as picture:
                figures.append({"alt": picture.info["Description"]} | linked(path))
        pages.append({"title": title, "answer": answer, "tables": tables, "figures": figures} | linked(page))
    template = Environment(autoescape=True).from_string(INDEX.read_text(encoding="utf-8"))
    with write_aside(folder / "index.html") as aside:
        aside.write_text(template.render(name=f"interextra, {folder.name}", pages=pages), encoding="utf-8")
    return folder / "index.html"


def _table(path: Path) -> dict[str, str]:
    """The first rows of a table as HTML, which pandas escapes, and how many there are."""
    frame = pd.read_csv(path)
    html = frame.head(SHOWN_ROWS).to_html(index=False, border=0, na_rep="–", float_format="{:.4g}".format)
    first = f"first {SHOWN_ROWS} of " if len(frame) > SHOWN_ROWS else ""
    return {"html": html, "rows": f"{first}{len(frame):,} rows"}

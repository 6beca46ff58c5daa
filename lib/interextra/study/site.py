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
from PIL import Image

from interextra.ground.files import write_aside
from interextra.study.parameters import repository_root

TAG = "answer"
RUNS = {"small": "On real data (profile small)", "mini": "In a generated world (profile mini)"}
FOLDED = {"parameters": "Parameters", "injected-parameters": "Parameters of this run", "solution": "Solution"}
PAGE = """{%- extends 'lab/index.html.j2' -%}
{%- block html_head_css -%}{{ super() }}
<style>
details { margin: 0 0 1em 6px } summary { cursor: pointer; font: 14px/1.6 system-ui, sans-serif; color: #0b5394 }
.answer { border-left: 4px solid #0b5394; background: #f3f7fb; margin: 0 0 1em 6px; padding: 2px 8px }
.jp-OutputArea-output, .jp-InputArea-editor, .jp-RenderedHTMLCommon, .highlight { overflow-x: auto }
</style>
{%- endblock html_head_css -%}
{%- block codecell -%}
{%- if cell.metadata.folded -%}<details><summary>{{ cell.metadata.folded }}</summary>{{ super() }}</details>
{%- elif "answer" in cell.metadata.tags | default([]) -%}<div class="answer">{{ super() }}</div>
{%- else -%}{{ super() }}{%- endif -%}
{%- endblock codecell -%}
{%- block input_group -%}
{%- if "answer" not in cell.metadata.tags | default([]) -%}{{ super() }}{%- endif -%}
{%- endblock input_group -%}
{%- block data_png scoped -%}
<img src="data:image/png;base64,{{ output.data['image/png'] }}" style="max-width: 100%"
 alt="{{ output | get_metadata('alt', 'image/png') | escape }}"
 width="{{ output | get_metadata('width', 'image/png') }}">
{%- endblock data_png -%}
"""  # the usual page leaves out what is seen on a figure
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { border-top: 1px solid #ccc; padding-top: 1.2rem } summary { cursor: pointer; color: #0b5394 }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .15rem .6rem; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
.wide { overflow-x: auto } figure { margin: 1rem 0 } img { max-width: 100% } figcaption { color: #666; font-size: 13px }
"""
SHOWN_ROWS = 60


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
    """Put the answer of this run, and the committed one on real data, into the cell of an executed notebook.

    `committed`: outputs/reference. A notebook without such a cell stays as it is.
    """
    document = json.loads(executed.read_text(encoding="utf-8"))
    parts = _answer_of(executed.parent, f"In this run (profile {profile})")
    parts += _answer_of(committed / "small" / executed.stem, RUNS["small"]) if profile != "small" else []
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
    exporter = HTMLExporter(raw_template=PAGE, exclude_input_prompt=True, exclude_output_prompt=True)
    html, _ = exporter.from_notebook_node(document, {"metadata": {"name": executed.stem}})
    executed.with_suffix(".html").write_text(html, encoding="utf-8")


def write_index(folder: Path) -> Path:
    """Write `<folder>/index.html` over the notebooks executed under `folder`: answers, tables, figures; its path."""
    name = escape(f"interextra, {folder.name}")
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><style>{STYLE}</style>"]
    parts += [f"<h1>{name}</h1>", *(_notebook(page, folder) for page in sorted(folder.glob("[0-9][0-9]_*/*.html")))]
    with write_aside(folder / "index.html") as aside:
        aside.write_text("\n".join(parts) + "</html>\n", encoding="utf-8")
    return folder / "index.html"


def _notebook(page: Path, base: Path) -> str:
    """Title, first sentence of the answer, tables and figures of a notebook."""
    cells = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    title = escape("".join(cells[0]["source"]).splitlines()[0].lstrip("# "))
    title += "".join(f"<br><b>{escape(sentence)}</b>" for sentence in _noted(page.parent).get("sentences", [])[:1])
    parts = [f'<h2><a href="{_link(page, base)}">{escape(page.stem)}</a></h2><p>{title}']
    parts += [_table(path, base) for path in sorted(page.parent.glob("tables/*.csv"))]
    for path in sorted(page.parent.glob("figures/*.png")):
        with Image.open(path) as picture:
            image = f'<img src="{_link(path, base)}" alt="{escape(picture.info["Description"])}">'
        parts.append(f"<figure>{image}<figcaption>{escape(path.stem)}</figcaption></figure>")
    return "\n".join(parts)


def _table(path: Path, base: Path) -> str:
    frame, link = pd.read_csv(path), _link(path, base)
    rest = f"first {SHOWN_ROWS} of {len(frame):,} rows" if len(frame) > SHOWN_ROWS else f"{len(frame)} rows"
    body = frame.head(SHOWN_ROWS).to_html(index=False, border=0, na_rep="–", float_format="{:.4g}".format)  # escapes
    summary = f"<summary>{escape(path.stem)} ({rest})</summary>"
    return f'<details>{summary}<p><a href="{link}">{link}</a></p><div class="wide">{body}</div></details>'


def _link(path: Path, base: Path) -> str:
    return escape(path.relative_to(base).as_posix())

"""The index page of a run: every notebook with its answer, every table, every figure. Text from data is escaped."""

import json
from html import escape
from pathlib import Path

import pandas as pd
from PIL import Image

from interextra.ground.files import write_aside

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { border-top: 1px solid #ccc; padding-top: 1.2rem } summary { cursor: pointer; color: #0b5394 }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .15rem .6rem; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
.wide { overflow-x: auto } figure { margin: 1rem 0 } img { max-width: 100% } figcaption { color: #666; font-size: 13px }
"""
SHOWN_ROWS = 60


def write_index(folder: Path) -> Path:
    """Write `<folder>/index.html` over the notebooks executed under `folder`; returns its path."""
    name = escape(f"interextra, {folder.name}")
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}</title><style>{STYLE}</style>"]
    parts += [f"<h1>{name}</h1>", *(_notebook(page, folder) for page in sorted(folder.glob("[0-9][0-9]_*/*.html")))]
    with write_aside(folder / "index.html") as aside:
        aside.write_text("\n".join(parts) + "</html>\n", encoding="utf-8")
    return folder / "index.html"


def _notebook(page: Path, base: Path) -> str:
    cells = json.loads(page.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    title = "".join(cells[0]["source"]).splitlines()[0].lstrip("# ")
    heading = f'<h2><a href="{_link(page, base)}">{escape(page.stem)}</a></h2><p>{escape(title)}{_answer(page)}</p>'
    tables = [_table(path, base) for path in sorted(page.parent.glob("tables/*.csv"))]
    figures = [_figure(path, base) for path in sorted(page.parent.glob("figures/*.png"))]
    return "\n".join([heading, *tables, *figures])


def _answer(page: Path) -> str:
    """The first sentence of a notebook's answer."""
    metrics = page.parent / "metrics.json"
    noted = json.loads(metrics.read_text(encoding="utf-8")) if metrics.is_file() else {}
    return "".join(f"<br><b>{escape(sentence)}</b>" for sentence in noted.get("answer", {}).get("sentences", [])[:1])


def _table(path: Path, base: Path) -> str:
    frame, link = pd.read_csv(path), _link(path, base)
    rest = f"first {SHOWN_ROWS} of {len(frame):,} rows" if len(frame) > SHOWN_ROWS else f"{len(frame)} rows"
    body = frame.head(SHOWN_ROWS).to_html(index=False, border=0, na_rep="–", float_format="{:.4g}".format)  # escapes
    summary = f"<summary>{escape(path.stem)} ({rest})</summary>"
    return f'<details>{summary}<p><a href="{link}">{link}</a></p><div class="wide">{body}</div></details>'


def _figure(path: Path, base: Path) -> str:
    with Image.open(path) as picture:
        alt = escape(picture.info["Description"])
    return f'<figure><img src="{_link(path, base)}" alt="{alt}"><figcaption>{escape(path.stem)}</figcaption></figure>'


def _link(path: Path, base: Path) -> str:
    return escape(path.relative_to(base).as_posix())

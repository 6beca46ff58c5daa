"""The index page of a profile: every notebook, every table, every figure."""

import html
import os
from pathlib import Path

import pandas as pd

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
h2 { border-top: 1px solid #ccc; padding-top: 1.2rem } summary { cursor: pointer; color: #0b5394 }
table { border-collapse: collapse; font-size: 13px } td, th { padding: .15rem .6rem; text-align: right }
th { border-bottom: 1px solid #888 } td:first-child, th:first-child { text-align: left }
.wide { overflow-x: auto } figure { margin: 1rem 0 } img { max-width: 100% } figcaption { color: #666; font-size: 13px }
"""
SHOWN_ROWS = 60


def _title(notebook_html: Path) -> str:
    import json

    cells = json.loads(notebook_html.with_suffix(".ipynb").read_text(encoding="utf-8"))["cells"]
    return "".join(cells[0]["source"]).splitlines()[0].lstrip("# ").strip()


def _table(path: Path, base: Path) -> str:
    frame = pd.read_csv(path)
    link = html.escape(path.relative_to(base).as_posix())
    rest = f" (first {SHOWN_ROWS} of {len(frame):,} rows)" if len(frame) > SHOWN_ROWS else f" ({len(frame)} rows)"
    body = frame.head(SHOWN_ROWS).to_html(index=False, border=0, na_rep="", float_format=lambda v: f"{v:.4g}")
    return (
        f"<details><summary>{html.escape(path.stem)}{rest}</summary>"
        f'<p><a href="{link}">{link}</a></p><div class="wide">{body}</div></details>'
    )


def write_index(folder: Path) -> Path:
    """Write `<folder>/index.html` over the notebooks executed under `folder`; returns its path."""
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>interextra: {html.escape(folder.name)}</title>",
        f"<style>{STYLE}</style><h1>interextra, profile {html.escape(folder.name)}</h1>",
    ]
    for page in sorted(folder.glob("[0-9][0-9]_*/*.html")):
        base = page.parent
        link = page.relative_to(folder).as_posix()
        parts.append(f'<h2><a href="{html.escape(link)}">{html.escape(base.name)}</a></h2>')
        parts.append(f"<p>{html.escape(_title(page))}</p>")
        parts += [_table(path, folder) for path in sorted(base.glob("tables/*.csv"))]
        for path in sorted(base.glob("figures/*.png")):
            name = html.escape(path.relative_to(folder).as_posix())
            parts.append(f'<figure><img src="{name}" alt="{path.stem}"><figcaption>{path.stem}</figcaption></figure>')
    index = folder / "index.html"
    aside = index.with_suffix(f".tmp{os.getpid()}")
    aside.write_text("\n".join(parts) + "</html>\n", encoding="utf-8")
    os.replace(aside, index)
    return index

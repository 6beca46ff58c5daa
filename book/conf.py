"""The book of a run, as Sphinx and myst-nb make it: see interextra.site.book, which calls them."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

project = html_title = "interextra"
author = copyright = "the authors of interextra"
extensions = [
    "myst_nb",
    "sphinx_exercise",
    "sphinx.ext.githubpages",
    "pages",
    "committed",
    "expected",
    "concepts",
    "slides",
]
html_theme = "sphinx_book_theme"
html_theme_options = {
    "use_download_button": False,
    "show_toc_level": 2,
    "navbar_start": [],
    "navbar_persistent": [],
}
html_context = {"default_mode": "auto"}
html_static_path = [str(HERE / "static")]
html_css_files, html_js_files = ["book.css"], ["book.js"]
html_copy_source = html_show_sourcelink = False
myst_heading_anchors = 3
nb_execution_mode = "off"
nb_merge_streams = True
nb_ipywidgets_js = {}  # a widget is shown as its text: its script would come from the network
suppress_warnings = ["myst.header", "mystnb.unknown_mime_type"]

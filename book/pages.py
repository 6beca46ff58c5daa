"""An executed notebook as Sphinx reads it.

Its parameters are folded, and so are results behind a prediction, until the next heading of level
2 and in the sections tagged `predicted`; exercises have folded solutions, figures are described;
links go to the pages that exist and to the glossary, and at the end stand the notebook's files. The
reading mode *predict first* (`static/book.js`) finds by LATER and RESULT_IN_WORDS what it hides.
"""

import json
import re
from html import escape
from pathlib import Path

from docutils.nodes import section

FOLDED = {"parameters": "Parameters", "injected-parameters": "Parameters of this run"}
NOTEBOOK = re.compile(r"\d\d_\w+")
ESTIMATE = re.compile(
    r"\[[-+.\d]+, [-+.\d]+\]|[-+.\d]+ %"
)  # an interval, a percentage: not broken between lines
LINK = re.compile(r"\[([^\]]*)\]\((\w+)\.(?:ipynb|md)\)")
BY_NUMBER = re.compile(r"\bnotebook (\d\d)\b")
HEADING = re.compile(r"(?m)^##? ")  # ends what is folded behind a prediction
PREDICTION = "**Predict before you run:**"  # begins the text before a result
RESULT = "Show the result"
LATER = "later"  # tag of each cell behind the first prediction of a page
# a paragraph after this line says what came out
RESULT_IN_WORDS = re.compile(r"<!-- result -->\n(.*?)(?=\n\n|\Z)", re.S)
CONTAINER = "```{container} result\n\\1\n```"
PREDICTED = "predicted"  # tag of a text whose section prints the predicted result again
# Code, links, HTML, headings and tables: no term in them becomes a link.
PROTECTED = re.compile(
    r"(```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\)|<[^>]*>|^#.*?$|^\|.*?$)", re.S | re.M
)
CODE_OR_LINK = re.compile(r"(```.*?```|`[^`]*`|\[[^\]]*\]\([^)]*\))", re.S)


def setup(app):
    """Tell Sphinx what to call."""
    app.connect("source-read", read)
    app.connect(
        "env-get-updated", number, priority=600
    )  # after Sphinx has numbered them through the book
    app.connect("doctree-resolved", unnamed)
    return {"parallel_read_safe": True}


def read(app, name, source):
    """Replace the text of a page; Sphinx calls it with that of each."""
    pages = app.env.found_docs
    if not NOTEBOOK.fullmatch(name):
        source[0] = link_numbers(source[0], pages)
        return
    document = json.loads(source[0])
    links = Links(pages, terms((Path(app.srcdir) / "glossary.md").read_text(encoding="utf-8")))
    cells, solved = [], 0
    is_later = is_predicted = False  # behind any prediction of the page; in a section to be folded
    for cell in document["cells"]:
        tags, text = cell["metadata"].get("tags", []), "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            is_later = is_later or PREDICTION in text
            is_predicted = goes_on_folded(text, tags, is_predicted)
            shown = links.added(exercises(text, name))
            cells.append(markdown(RESULT_IN_WORDS.sub(CONTAINER, shown)))
            continue
        if is_later:
            tags = [*tags, LATER]
        link_outputs(cell, pages)
        parts = by_figure(cell, tags)
        if is_predicted:
            fold(parts)
        if "continued" in tags:  # of the solution before
            cells[-1:-1] = parts
        elif "solution" in tags:
            solved += 1
            start = f"```{{solution-start}} {name}-{solved}\n:class: dropdown\n```"
            cells += [markdown(start), *parts, markdown("```{solution-end}\n```")]
        else:
            cells += parts
    cells.append(markdown(files(Path(app.outdir) / name)))
    numbered = [cell | {"id": f"cell-{number}"} for number, cell in enumerate(cells)]
    source[0] = json.dumps(document | {"cells": numbered})


def goes_on_folded(text, tags, is_folded):
    """Return whether results behind a text are folded: of a prediction, or predicted before."""
    if PREDICTION in text or PREDICTED in tags:
        return True
    return is_folded and not HEADING.search(text)


def link_numbers(text, pages):
    """Let "notebook 03" in a page of the book lead to that notebook's page, where there is one."""
    by_number = {page[:2]: page for page in pages if NOTEBOOK.fullmatch(page)}

    def linked(found):
        page = by_number.get(found[1])
        return f"[{found[0]}]({page}.ipynb)" if page else found[0]

    parts = enumerate(CODE_OR_LINK.split(text))
    return "".join(part if at % 2 else BY_NUMBER.sub(linked, part) for at, part in parts)


def link_outputs(cell, pages):
    """Let links in Markdown that a cell shows lead to pages of the site, where there are."""

    def page(found):
        text, name = found.groups()
        return f"[{text}]({name}.html)" if name in pages else text

    for output in cell["outputs"]:
        if shown := output.get("data", {}).get("text/markdown"):
            output["data"]["text/markdown"] = LINK.sub(page, "".join(shown))


def number(app, env):
    """Count the exercises anew on each page."""
    for figures in env.toc_fignumbers.values():
        figures["exercise"] = {
            label: (at,) for at, label in enumerate(figures.get("exercise", {}), 1)
        }
    return []  # no page has to be read again


def unnamed(app, document, name):
    """Take the ids of contents of exercises and solutions: a page may have an id only once."""
    for part in document.findall(section):
        part["ids"] = [
            label for label in part["ids"] if label not in ("exercise-content", "solution-content")
        ]


def markdown(text):
    """Return a cell of text."""
    return {"cell_type": "markdown", "metadata": {}, "source": text}


def hidden(tags):
    """Return what hides code: parameters are folded, what shows the answer is left out."""
    hiding = []
    if FOLDED.keys() & set(tags):
        hiding.append("hide-input")
    if "answer" in tags:
        hiding.append("remove-input")
    return hiding


def by_figure(cell, tags):
    """Return the cell, and one without code from each further figure on.

    myst-nb has one alt text and width a cell.
    """
    groups = [[]]
    for output in cell["outputs"]:
        if described(output) and any(map(described, groups[-1])):
            groups.append([])
        groups[-1].append(output)
    parts = []
    for at, outputs in enumerate(groups):
        part = cell | {"outputs": outputs}
        shown = looks(part, tags)
        metadata = {"tags": tags + (["remove-input"] if at else hidden(tags))}
        if shown:
            metadata["mystnb"] = shown
        parts.append(part | {"metadata": metadata})
    return parts


def fold(parts):
    """Fold what cells print and show, until a reader asks for it."""
    for part in parts:
        if part["outputs"]:
            tags = part["metadata"]["tags"]
            # one fold for both, where the code is folded, too
            hiding = "hide-cell" if "hide-input" in tags else "hide-output"
            part["metadata"]["tags"] = [tag for tag in tags if tag != "hide-input"] + [hiding]
            shown = part["metadata"].setdefault("mystnb", {})
            shown |= {"code_prompt_show": RESULT, "code_prompt_hide": "Hide the result"}


def described(output):
    """Whether an output is a figure with alt text and width."""
    return "width" in output.get("metadata", {}).get("image/png", {})


def looks(cell, tags):
    """Return the title of what is folded, and alt text and width of a figure.

    Estimates in tables are kept in one line.
    """
    shown = {}
    for tag in FOLDED.keys() & set(tags):
        shown["code_prompt_show"] = FOLDED[tag]
    for output in cell["outputs"]:
        if html := output.get("data", {}).get("text/html"):
            output["data"]["text/html"] = unbroken("".join(html))
        if described(output):
            picture = output["metadata"]["image/png"]
            shown["image"] = {"alt": picture["alt"], "width": f"{picture['width']}px"}
    return shown


def unbroken(html):
    """Return HTML in which a line does not end within an estimate."""
    return ESTIMATE.sub(lambda found: found[0].replace(" ", "&nbsp;"), html)


def exercises(text, name):
    """Write the list under the heading Exercises as directives, which the solutions name."""
    parts = re.split(r"(?m)^(##+ .*Exercises.*)$", text)
    if len(parts) < 3:
        return text
    before, heading, after = parts
    introduction, *tasks = re.split(r"(?m)^(\d+)\. ", after)
    for number, task in zip(tasks[::2], tasks[1::2], strict=True):
        asked, _, behind = task.strip().partition("\n\n")  # behind the last one a list ends
        in_a_line = " ".join(asked.split())
        introduction += (
            f"\n```{{exercise}}\n:label: {name}-{number}\n\n{in_a_line}\n```\n{behind}\n"
        )
    return before + heading + introduction


def terms(glossary):
    """Return a term of the glossary in small letters → as it is written there."""
    body = glossary.partition("{glossary}")[2].partition("\n")[2].partition("```")[0]
    return {
        line.strip().lower(): line.strip() for line in body.splitlines() if line[:1].strip(" :\n")
    }


class Links:
    """Links of one page.

    They go to notebooks that have a page, and from the first use of each term to the glossary.
    """

    def __init__(self, pages, found):
        longest_first = sorted(map(re.escape, found), key=len, reverse=True)
        self.any_term = re.compile(rf"(?<![\w-])(?:{'|'.join(longest_first)})(?![\w-])", re.I)
        self.pages, self.terms, self.linked = pages, found, set()

    def added(self, text):
        """Return a text with its links."""
        text = re.sub(r"\[(`?\w+`?)\]\((\w+)\.ipynb\)", self._existing, text)
        text = re.sub(r"(?<!\[)`(\d\d_\w+)`", self._named, text)
        parts = enumerate(PROTECTED.split(text))
        return "".join(
            part if at % 2 else self.any_term.sub(self._term, part) for at, part in parts
        )

    def _existing(self, found):
        return found[0] if found[2] in self.pages else found[1]

    def _named(self, found):
        return f"[{found[0]}]({found[1]}.ipynb)" if found[1] in self.pages else found[0]

    def _term(self, found):
        term = self.terms[found[0].lower()]
        if term in self.linked:
            return found[0]
        self.linked.add(term)
        return f"{{term}}`{found[0]} <{term}>`"


def files(folder):
    """Return links to the tables, the figures and the notebook as executed."""
    paths = [
        path
        for part in ("tables/*.csv", "figures/*.svg", "figures/*.pdf", "*.ipynb")
        for path in sorted(folder.glob(part))
    ]
    named = [
        (escape(path.relative_to(folder.parent).as_posix()), escape(path.name)) for path in paths
    ]
    links = ", ".join(f'<a href="{link}">{name}</a>' for link, name in named)
    return f"## Files\n\nTables, figures, and this notebook as executed: {links}."

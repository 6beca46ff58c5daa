"""Attributes: what a query is sorted by in a leave-one-out shift (Lupart §3.1: question words and
length).

An attribute maps a query to a label, or to "" where it belongs to no cluster. `length` gives every
released query its cluster; those of question words overlap, so that no order of precedence does
(counts in `papers.releases`). `whole=True` is the paper's reading of the rules, else they are the
release's.
"""

import inspect
import pkgutil
import re
import zlib
from collections.abc import Callable

import numpy as np
import pandas as pd

from interextra.data.medquad import with_truth
from interextra.store import InputError, code, digest, offenders, sha256

# In order of precedence, of the six orders the one that agrees best with the released files
WH_WORDS = {
    "how": ("how",),
    "who": ("who", "when", "where", "which"),
    "wha": ("what", "definition"),
}
KNOWN_LABELS = {
    "wh-words": tuple(WH_WORDS),
    "length": ("short", "long"),
}  # those that follow from the rule alone
SPECS = "wh-words, length, both with :whole=true, length:limit=N, column:NAME, random:parts=N, python:MODULE:FUNCTION"


def wh_words(text: str, whole: bool = False) -> list[str]:
    """All clusters of question words that a query falls into, in order of precedence.

    The released rule looks for the letters anywhere in the query, so that "show" holds "how" and
    "whole" holds "who"; `whole` looks for words. Here the query is lower-cased first; the released
    queries hold the words in lower case.

    >>> wh_words("Who sings the TV show theme"), wh_words("Who sings the TV show theme", whole=True)
    (['how', 'who'], ['who'])
    """
    text = text.lower()
    words = set(re.findall(r"\w+", text)) if whole else text
    return [cluster for cluster, signs in WH_WORDS.items() if any(sign in words for sign in signs)]


def length(text: str, limit: int = 6, whole: bool = False) -> str:
    """Short or long: `long` has at least `limit` words, by default the median.

    The release counts single spaces and adds one, so that two spaces in a row count as a word;
    `whole` counts words.

    >>> length("two  spaces make it six"), length("two  spaces make it six", whole=True)
    ('long', 'short')
    """
    n_words = len(text.split()) if whole else text.count(" ") + 1
    return "long" if n_words >= limit else "short"


def part(query_id: str, parts: int = 2) -> str:
    """One of `parts` clusters by a checksum of the query_id: a control, a shift that should cost
    nothing.

    >>> part("q1", 3), part("q2", 3), part("q3", 3)
    ('part 2', 'part 1', 'part 3')
    """
    return f"part {zlib.crc32(query_id.encode()) % parts + 1}"


RULES = {
    "length": length,
    "random": part,
}  # the first parameter of a rule names the column that it reads
RULES["wh-words"] = lambda text, whole=False: next(
    iter(wh_words(text, whole)), ""
)  # the first cluster, or none


def attribute(spec: str) -> Callable[[dict], str | None]:
    """The function from a query (a dict of its columns) to its label, or None, that one of SPECS
    names.

    >>> attribute("length:limit=3")({"text": "red fox"}), attribute("column:kind")({"kind": "animal"})
    ('short', 'animal')
    """
    name, _, rest = spec.partition(":")
    if name == "column" and rest:
        return lambda query: query[rest]
    if is_code(spec):
        return _loaded(spec)
    if name not in RULES:
        raise InputError(f"{spec!r} is no attribute; use {SPECS}")
    rule, options = RULES[name], {}
    known = inspect.signature(rule).parameters
    column = next(iter(known))
    for option in filter(None, rest.split(",")):
        key, _, text = option.partition("=")
        value = (
            (int(text) or None) if text.isdecimal() else {"true": True, "false": False}.get(text)
        )
        if key not in known or type(value) is not type(known[key].default):
            raise InputError(f"attribute {spec!r}: unknown option {option!r}; use {SPECS}")
        options[key] = value
    return lambda query: rule(query[column], **options)


def is_code(spec: str) -> bool:
    """Whether the attribute is a function in Python, which is imported when it is used, and
    runs.
    """
    return spec.partition(":")[0] == "python"


def _loaded(spec: str) -> Callable[[dict], str | None]:
    """The function of `python:MODULE:FUNCTION`; InputError for what is none that is written in a
    file.
    """
    try:
        function = pkgutil.resolve_name(spec.removeprefix("python:"))
    except Exception as error:  # whatever a module of the user raises
        told = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"attribute {spec!r} cannot be imported ({told}); write python:MODULE:FUNCTION"
        ) from None
    if not callable(function):
        raise InputError(f"attribute {spec!r} is no function")
    try:
        open(inspect.getfile(function), "rb").close()
    except (TypeError, OSError):
        raise InputError(
            f"attribute {spec!r} is no function of a file in Python; write one in a file"
        ) from None
    return function


def fingerprint(spec: str) -> str:
    """SHA-256 of the file of a function of your own, digest of the code of one of this package,
    else empty.
    """
    if not is_code(spec):
        return ""
    function, name = attribute(spec), spec.removeprefix("python:")
    return (
        digest(code.behind((name,)))
        if name.startswith(f"{code.PACKAGE}.")
        else sha256(inspect.getfile(function))
    )


def labels(queries: pd.DataFrame, of: str | Callable[[dict], str | None]) -> np.ndarray:
    """Label of each query, object[n]; "" where it has none.

    `of` is a spec or a function, see `attribute`; `column:NAME` may also be one of
    `data.medquad.with_truth`. InputError: no such column, a label that is no string, no query with
    a label.

    >>> labels(pd.DataFrame({"query_id": ["q1", "q2"], "text": ["who is it", "no question"]}), "wh-words").tolist()
    ['who', '']
    """
    function = attribute(of) if isinstance(of, str) else of
    column = of.removeprefix("column:") if isinstance(of, str) and of.startswith("column:") else ""
    has_truth = column and column not in queries and {"focus", "qtype"} <= set(queries)
    known = with_truth(queries) if has_truth else queries
    if column and column not in known:
        raise InputError(
            f"attribute {of}: the queries have no such column; they have {', '.join(known)}"
        )
    found = pd.Series(_applied(function, known, of), known["query_id"], dtype=object)
    found = found.dropna().reindex(queries["query_id"], fill_value="").to_numpy(object)
    if bad := [label for label in found if not isinstance(label, str)]:
        raise InputError(f"attribute {of}: a label is a string, not {offenders(bad)}")
    if not any(found):
        raise InputError(f"attribute {of}: none of {len(queries)} queries has a label")
    return found


def _applied(
    function: Callable[[dict], str | None], queries: pd.DataFrame, of: str | Callable
) -> list:
    """What the function gives for each query; InputError with the query for which a function of the
    user fails.
    """
    found = []
    for query in queries.to_dict("records"):
        try:
            found.append(function(query))
        except Exception as error:
            if not (isinstance(of, str) and is_code(of)):
                raise
            told = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"attribute {of}: fails for the query {query['query_id']!r} ({told})"
            ) from error
    return found

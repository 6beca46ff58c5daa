"""Attributes: what a query is sorted by in a leave-one-out shift.

Question words and length, as in Lupart et al., ECIR 2023, §3.1, and some more. An attribute maps a
query to a label, or to "" where it belongs to no cluster. `length` gives every released query its
cluster; those of question words overlap, so that no order of precedence does (counts in
`papers.releases`). `whole=True` is the paper's reading of the rules, else they are the release's.
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
from interextra.store.errors import kind_and_message

Attribute = Callable[[dict], str | None]  # from a query, by column, to its label

# In order of precedence, of the six orders the one that agrees best with the released files
WH_WORDS = {
    "how": ("how",),
    "who": ("who", "when", "where", "which"),
    "wha": ("what", "definition"),
}
# Labels that follow from the rule alone
KNOWN_LABELS = {"wh-words": tuple(WH_WORDS), "length": ("short", "long")}
SPECS = (
    "wh-words, length, both with :whole=true, length:limit=N, column:NAME, random:parts=N, "
    "python:MODULE:FUNCTION"
)


def wh_words(text: str, whole: bool = False) -> list[str]:
    """Return all clusters of question words that a query falls into, in order of precedence.

    The released rule looks for the letters anywhere in the query, so that "show" holds "how" and
    "whole" holds "who"; `whole` looks for words. Here the query is lower-cased first; the released
    queries hold the words in lower case.

    Examples
    --------
    >>> wh_words("Who sings the TV show theme"), wh_words("Who sings the TV show theme", whole=True)
    (['how', 'who'], ['who'])
    """
    lower = text.lower()
    searched = re.findall(r"\w+", lower) if whole else lower
    return [
        cluster
        for cluster, question_words in WH_WORDS.items()
        if any(word in searched for word in question_words)
    ]


def first_wh_word(text: str, whole: bool = False) -> str:
    """Return the first of the clusters of `wh_words`; "" for none."""
    return next(iter(wh_words(text, whole)), "")


def length(text: str, limit: int = 6, whole: bool = False) -> str:
    """Return whether a query is short or long: `long` has at least `limit` words.

    The default is the median. The release counts single spaces and adds one, so that two spaces in
    a row count as a word; `whole` counts words.

    Examples
    --------
    >>> length("two  spaces make it six"), length("two  spaces make it six", whole=True)
    ('long', 'short')
    """
    n_words = text.count(" ") + 1
    if whole:
        n_words = len(text.split())
    return "long" if n_words >= limit else "short"


def part(query_id: str, parts: int = 2) -> str:
    """Return one of `parts` clusters by a checksum of the query_id.

    A control: a shift that should cost nothing.

    Examples
    --------
    >>> part("q1", 3), part("q2", 3), part("q3", 3)
    ('part 2', 'part 1', 'part 3')
    """
    checksum = zlib.crc32(query_id.encode())
    return f"part {checksum % parts + 1}"


# The first parameter of a rule names the column that it reads, the others are its options
RULES: dict[str, Callable[..., str]] = {"length": length, "random": part, "wh-words": first_wh_word}


def attribute(spec: str) -> Attribute:
    """Return the function from a query (a dict of its columns) to its label, or None.

    Parameters
    ----------
    spec : str
        One of `SPECS`.

    Raises
    ------
    InputError
        Unknown rules and options; functions that cannot be imported.

    Examples
    --------
    >>> query = {"text": "red fox", "kind": "animal"}
    >>> attribute("length:limit=3")(query), attribute("column:kind")(query)
    ('short', 'animal')
    """
    name, _, rest = spec.partition(":")
    if name == "column" and rest:
        return lambda query: query[rest]
    if is_code(spec):
        return _imported(spec)
    if name not in RULES:
        raise InputError(f"{spec!r} is no attribute; use {SPECS}")
    rule = RULES[name]
    column, *known_options = inspect.signature(rule).parameters.values()
    default_of = {option.name: option.default for option in known_options}
    options = {}
    for option in filter(None, rest.split(",")):
        key, _, text = option.partition("=")
        value = _option_value(text)
        if key not in default_of or type(value) is not type(default_of[key]):
            raise InputError(f"attribute {spec!r}: unknown option {option!r}; use {SPECS}")
        options[key] = value
    return lambda query: rule(query[column.name], **options)


def _option_value(text: str) -> int | bool | None:
    """Return a positive number, true or false; None for any other text."""
    if text.isdecimal():
        return int(text) or None
    return {"true": True, "false": False}.get(text)


def is_code(spec: str) -> bool:
    """Return whether the attribute is a function in Python.

    It is imported when it is used, and runs.
    """
    return spec.partition(":")[0] == "python"


def _imported(spec: str) -> Attribute:
    """Import the function of `python:MODULE:FUNCTION`, which must be written in a file."""
    try:
        function = pkgutil.resolve_name(spec.removeprefix("python:"))
    except Exception as error:  # whatever a module of the user raises
        raise InputError(
            f"attribute {spec!r} cannot be imported ({kind_and_message(error)}); "
            "write python:MODULE:FUNCTION"
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
    """Return what a function of `python:MODULE:FUNCTION` is known by; "" for other attributes.

    The SHA-256 of the file of a function of your own, the digest of the code of one of this
    package.
    """
    if not is_code(spec):
        return ""
    function = attribute(spec)
    name = spec.removeprefix("python:")
    if name.startswith(f"{code.PACKAGE}."):
        return digest(code.behind((name,)))
    return sha256(inspect.getfile(function))


def labels(queries: pd.DataFrame, by: str | Attribute) -> np.ndarray:
    """Return the label of each query, object[n]; "" where it has none.

    Parameters
    ----------
    queries : pandas.DataFrame
        query_id, and the columns that the attribute reads.
    by : str or callable
        A spec or a function, see `attribute`; `column:NAME` may also be one of
        `data.medquad.with_truth`.

    Raises
    ------
    InputError
        No such column, a label that is no string, no query with a label, a function of the user
        that fails.

    Examples
    --------
    >>> queries = pd.DataFrame({"query_id": ["q1", "q2"], "text": ["who is it", "no question"]})
    >>> labels(queries, "wh-words").tolist()
    ['who', '']
    """
    function = attribute(by) if isinstance(by, str) else by
    frame = queries
    if isinstance(by, str) and by.startswith("column:"):
        frame = _with_column(queries, by)
    given_labels = _applied(function, frame, by)
    labelled = pd.Series(given_labels, frame["query_id"], dtype=object).dropna()
    label_of_query = labelled.reindex(queries["query_id"], fill_value="")
    all_labels = label_of_query.to_numpy(object)
    not_strings = [label for label in all_labels if not isinstance(label, str)]
    if not_strings:
        raise InputError(f"attribute {by}: a label is a string, not {offenders(not_strings)}")
    if not any(all_labels):
        raise InputError(f"attribute {by}: none of {len(queries)} queries has a label")
    return all_labels


def _with_column(queries: pd.DataFrame, spec: str) -> pd.DataFrame:
    """Return the queries with the column of `column:NAME`, worked out where it is known how."""
    column = spec.removeprefix("column:")
    if column not in queries and {"focus", "qtype"} <= set(queries):
        queries = with_truth(queries)
    if column not in queries:
        raise InputError(
            f"attribute {spec}: the queries have no such column; they have {', '.join(queries)}"
        )
    return queries


def _applied(function: Attribute, queries: pd.DataFrame, by: str | Attribute) -> list:
    """Return what the attribute gives for each query.

    InputError names the query for which a function of the user fails.
    """
    labels_in_order = []
    for query in queries.to_dict("records"):
        try:
            labels_in_order.append(function(query))
        except Exception as error:
            if not isinstance(by, str) or not is_code(by):
                raise
            message = kind_and_message(error)
            raise InputError(
                f"attribute {by}: fails for the query {query['query_id']!r} ({message})"
            ) from error
    return labels_in_order

"""What `ix.audit`, `ix.split`, `ix.regimes` and `ix.probe` return: it prints and draws itself."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interextra.own import audit, clean, distance
from interextra.own import regimes as reporting
from interextra.own.audit import Audit, Side
from interextra.own.page import paragraphs
from interextra.own.regimes import Report
from interextra.own.split_folder import SplitFolder
from interextra.stats.effects import shown
from interextra.store import InputError

if TYPE_CHECKING:
    from interextra.figures import Drawing

# Columns of the table of a report that are printed.
CHANGES = [
    "queries",
    "measure",
    "interpolation",
    "extrapolation",
    "change",
    "low",
    "high",
    "detects",
    "n_queries",
]
DISPLAYED = ["test_query", "train_query", "words", "order", "cosine"]
OVERLAPPING = "Rows overlap and do not add up."
BOTH = (
    "A test query may share a passage with another training query than its near-duplicate: it "
    'counts as "both", but not among those whose near-duplicate shares an answer.'
)
N_PAIRS = 5  # that are printed
N_BELOW = 3  # the same of those that are no near-duplicates
WIDTH = 50  # characters of a query that are printed
AFTER = 20  # of these, at least so many stand after the first difference of two queries
CUT = "…"


class Result:
    """What prints itself; each kind has sentences, a table (`to_frame`) and a figure (`plot`)."""

    def lines(self) -> list[str]:
        """Return what is printed."""
        raise NotImplementedError

    def __str__(self) -> str:
        """Return what is printed."""
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        """Return what is printed, for a shell."""
        return str(self)


def _page(sentences: Sequence[str], table: pd.DataFrame) -> str:
    """Return what a notebook shows: the sentences, then the table."""
    return "".join([*paragraphs(sentences), shown(table).to_html()])


def _forest(frame: pd.DataFrame, row: str, effect: str, label: str, **options: Any) -> "Drawing":
    """Return a forest plot in the kit's look, which other figures of the user's do not get."""
    import matplotlib as mpl

    from interextra import figures

    with mpl.rc_context():
        figures.style()
        return figures.forest(frame, row, effect, label, **options)


def zero_shot(train: Side, test: Side) -> str:
    """Say of a test set what MTEB's flag says, by the names of the data sets alone."""
    return "not zero-shot" if train.name == test.name else "zero-shot"


class AuditResult(Result):
    """What of the test queries was seen in training, and which of them are clean.

    Parameters
    ----------
    found : Audit
        All tables, and the queries to drop.
    test : Side
        The test queries.
    values : Series or None
        Of a system on them, see `clean.values_of_system`.
    measure : str
        Of the values.
    encoder : str
        That found the nearest training queries.
    by_name : str
        What the names of the data sets say; "": they have none.
    """

    def __init__(
        self,
        found: Audit,
        test: Side,
        values: pd.Series | None,
        measure: str,
        encoder: str,
        by_name: str = "",
    ) -> None:
        self.found = found
        self.test = test
        self.encoder = encoder
        self.by_name = by_name
        self.sentences = [clean.answer(found), *clean.conclusion(found, values, measure)]
        query_ids = test.queries["query_id"]
        is_seen = query_ids.isin(found.test_queries)
        self.clean_queries: list[str] = query_ids[~is_seen].tolist()

    def to_frame(self) -> pd.DataFrame:
        """Return the shares of the test queries: what, n, of, percent, low, high."""
        return self.found.shares.copy()

    def plot(self) -> "Drawing":
        """Return a figure of the shares with their 95 % intervals."""
        return _forest(self.found.shares, "what", "percent", "test queries, %")

    def lines(self) -> list[str]:
        """Return the answer, the shares, the most similar pairs, and the conclusion."""
        answer, *conclusion = self.sentences
        shares = self.found.shares.to_string(index=False, float_format="%.1f")
        overlapping = OVERLAPPING
        if "shared_passages" in self.found.seen:
            overlapping = f"{OVERLAPPING} {BOTH}"
        lines = [answer, "", shares, overlapping, self.found.compared]
        if self.by_name:
            lines.append(f"By the names of the data sets, as MTEB's flag has it: {self.by_name}.")
        if self.found.exposed:
            lines.append(self.found.exposed)
        pairs = _most_similar(self.found, self.encoder)
        below = _just_below(self.found)
        unpaired = [self.found.unpaired] if self.found.unpaired else []
        return [*lines, "", *pairs, *below, *unpaired, "", *conclusion]

    def records(self) -> dict[str, Any]:
        """Return what the command says to a program."""
        return {
            "answer": self.sentences[0],
            "n_test": self.found.n_test,
            "n_seen": len(self.found.seen),
            "shares": self.found.shares.to_dict("records"),
            "n_just_below": len(self.found.just_below),
            "compared": self.found.compared,
            "exposed": self.found.exposed,
            "nearness": self.found.nearness.record(),
            "unpaired": self.found.unpaired,
            "by_name": self.by_name,
            "conclusion": self.sentences[1:],
        }

    def _repr_html_(self) -> str:
        """Return the sentences and the table for a notebook."""
        return _page(self.sentences, self.to_frame())

    def write(self, folder: str | Path) -> list[Path]:
        """Write the tables and the queries to drop, as the command does; return the paths."""
        return audit.write(self.found, Path(folder))

    def write_clean(self, folder: str | Path) -> list[Path]:
        """Write the clean test set, see `clean.write_clean`; return the paths."""
        return clean.write_clean(self.test, self.found.test_queries, Path(folder))


def _most_similar(found: Audit, encoder: str) -> list[str]:
    """Return the most similar pairs: near-duplicates with and without a common answer apart.

    Where there are none, those of the nearest training queries.
    """
    similarity = ["words", "order"]
    near = found.near.sort_values(similarity, ascending=False, kind="stable")
    if near.empty:
        title = (
            f"No near-duplicates. The nearest training queries by {encoder}, to look at: these "
            "cosines are no measure of nearness"
        )
        return _pairs(title, found.pairs)
    if "shares_answer" not in near:
        return _pairs("Near-duplicates", near)
    sharing = near[near["shares_answer"]]
    has_shared = near["test_query_id"].isin(sharing["test_query_id"])
    others = near[~has_shared]
    return [
        *_pairs("Near-duplicates that share an answer", sharing),
        *_pairs("Near-duplicates that share no answer", others),
    ]


def _just_below(found: Audit) -> list[str]:
    """Return how many pairs are near-duplicates but for a little, and the nearest of them."""
    pairs = found.just_below
    lowest = max(found.threshold - audit.BELOW, 0)
    where = f"just below --near {found.threshold:g} (down to {lowest:g})"
    if pairs.empty:
        return [f"No pairs of queries lie {where}."]
    first = pairs.head(N_BELOW)
    counted = f"Pairs of queries {where}, not counted: {len(pairs):,}"
    return [f"{counted}. The nearest {len(first)}:", _table_of_pairs(first)]


def _pairs(title: str, pairs: pd.DataFrame) -> list[str]:
    """Return a title and the first pairs, one of each test query; nothing for no pairs."""
    if pairs.empty:
        return []
    of_queries = pairs.drop_duplicates("test_query_id")
    n_queries = len(of_queries)
    first = of_queries.head(N_PAIRS)
    counted = f"{n_queries:,} test queries, the first {len(first)}"
    return [f"{title} ({counted}):", _table_of_pairs(first), ""]


def _table_of_pairs(pairs: pd.DataFrame) -> str:
    """Return the columns of pairs that are displayed, as text."""
    columns = pairs.columns.intersection(DISPLAYED, sort=False)
    cut = map(cut_alike, pairs["test_query"], pairs["train_query"])
    test_queries, train_queries = zip(*cut, strict=True)
    table = pairs[columns].assign(test_query=test_queries, train_query=train_queries)
    return table.to_string(index=False, float_format="%.2f")


def cut_alike(left: str, right: str) -> tuple[str, str]:
    """Return two texts cut to `WIDTH` characters, so that both show where they first differ.

    Examples
    --------
    >>> cut_alike("the words of one and the same query that ends here", "the words")
    ('the words of one and the same query that ends here', 'the words')
    >>> beginning = "search the whole tree of the current directory for symbolic"
    >>> cut_alike(f"{beginning} links", f"{beginning} names")[1]
    '… tree of the current directory for symbolic names'
    """
    longest = max(len(left), len(right))
    if left == right:
        return _from(left, 0), _from(right, 0)
    n_common = len(os.path.commonprefix([left, right]))
    least_start = n_common + AFTER - WIDTH
    last_start = longest - WIDTH + len(CUT)  # from which the longer one is shown to its end
    start = max(0, min(least_start, last_start))
    if start:
        next_word = left.find(" ", start, n_common)
        start = max(start, next_word)
    return _from(left, start), _from(right, start)


def _from(text: str, start: int) -> str:
    """Return a text from a character on, with marks where it is cut."""
    rest = f"{CUT}{text[start:]}" if start else text
    return rest if len(rest) <= WIDTH else f"{rest[: WIDTH - len(CUT)]}{CUT}"


class SplitResult(Result):
    """A split in a folder, as trainers read it; a path (`os.fspath`) of this folder.

    Parameters
    ----------
    path : Path
        Of the folder.
    attribute : str
        See `SplitFolder.open`.
    """

    def __init__(self, path: Path, attribute: str = "") -> None:
        self.path = path
        self.folder = SplitFolder.open(path, attribute)
        manifest = self.folder.manifest
        self.counts = [
            f"{name}: {counts.queries:,} training queries, {counts.pairs:,} pairs."
            for name, counts in manifest.sets.items()
        ]
        self.counts.append(
            f"{manifest.n_test:,} test queries, {manifest.n_gate:,} for the lead over a baseline; "
            "search both with the model of each set."
        )
        self.warnings = distance.warnings(self.folder.distances)
        self.sentences = [*self.counts, *self.warnings]

    def __fspath__(self) -> str:
        """Return the path of the folder."""
        return str(self.path)

    @property
    def sets(self) -> list[str]:
        """Names of the training sets, each a folder in `path`."""
        return list(self.folder.sets)

    @property
    def spec(self) -> str:
        """Spec of the collection that is split."""
        return self.folder.split.pool.source.spec

    def to_frame(self) -> pd.DataFrame:
        """Return how near each set lies to the test queries, see `distance.measure`."""
        return self.folder.distances.copy()

    def plot(self) -> "Drawing":
        """Return a figure of these similarities beside those of random sets.

        Raises
        ------
        InputError
            The split was written before distances were measured.
        """
        frame = self.folder.distances
        is_set = frame["set"] != distance.GAP
        sets = frame[is_set]
        random = sets.assign(
            similarity=sets["random"], low=sets["random_low"], high=sets["random_high"]
        )
        points = sets.assign(low=sets["similarity"], high=sets["similarity"])
        points["training"] = "this set"
        random["training"] = "random set"
        both = pd.concat([points, random])
        if both.empty:
            raise InputError(f"{self.path}: has no distances; split again")
        label = "cosine to the nearest training query (of random sets with their middle 95 %)"
        names = both["set"] + ", " + both["regime"]
        rows = both.assign(row=names)
        return _forest(rows, "row", "similarity", label, panel="encoder", hue="training")

    def lines(self) -> list[str]:
        """Return the counts, the distances, and what to do where this is hardly a split."""
        distances = distance.printed(self.folder.distances)
        return [*self.counts, "", distances, *self.warnings]

    def _repr_html_(self) -> str:
        """Return the sentences and the table for a notebook."""
        return _page(self.sentences, self.to_frame())


class RegimesResult(Result, Report):
    """A `Report` of both regimes, which prints and draws itself."""

    __slots__ = ()

    def to_frame(self) -> pd.DataFrame:
        """Return the changes from interpolation to extrapolation: `Report.changes`."""
        return self.changes.copy()

    def plot(self) -> "Drawing":
        """Return a figure of the changes with their 95 % intervals."""
        label = "← loss: change from interpolation to extrapolation"
        return _forest(self.changes, "queries", "change", label, panel="measure", percent=True)

    def lines(self) -> list[str]:
        """Return the sentences, the changes, the means of all systems, and the leads."""
        tables = (self.changes[CHANGES], self.systems, self.leads)
        texts = [table.to_string(index=False, float_format="%.3f") for table in tables]
        changes, systems, leads = texts
        title = reporting.lead_title(self)
        lines = [*self.sentences, "", changes, reporting.HALVES, "", systems, reporting.WIDTHS]
        return [*lines, "", title, leads]

    def _repr_html_(self) -> str:
        """Return the sentences and the table for a notebook."""
        return _page(self.sentences, self.to_frame())

    def write(self, folder: str | Path) -> "RegimesResult":
        """Write the page and the tables, see `regimes.write`; return the report with `files`."""
        return RegimesResult(*reporting.write(Path(folder), self))

"""Every printed cell beside ours, by profile: what was measured, or why nothing was.

`replication.yaml` says which row of which table of ours stands beside which printed cell, and why
others have none. An effect is judged as `stats.effects.Effects.beside` judges it, but for a change
that is printed as none, see `beside_null`; a system that is not shown to be ahead of BM25 in domain
gets no verdict, see `gates`. A level, such as an nDCG@10, is set beside the printed one without a
verdict, since the collections differ.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml
from pydantic import BaseModel

from interextra.papers import gates, published
from interextra.stats.effects import Effects
from interextra.stats.trainings import ONE_TRAINING, QUERIES
from interextra.store.errors import InputError, offenders

FILE = Path(__file__).with_name("replication.yaml")
CELL = ["paper", "table", "row", "column"]  # what names a printed cell
PRINTED = [*CELL, "derived", "unit", "text", "printed", "published", "rounding"]
COLUMNS = [*PRINTED, "ours", "low", "high", "over", "ratio"]
COLUMNS += ["profile", "collection", "kind", "status", "why", "notebook"]
MEAN = "mean"  # the column, and the value of what is averaged over, of a mean over printed cells
EFFECT, LEVEL, NONE = "effect", "level", ""  # kinds of rows
VALUE = "value"  # stands for the regime of a cell that has none
UNTESTABLE = "not testable"  # status of an effect that our design measures and cannot judge
DECIDED = ("agrees", "same direction", "opposite", "differs")
VERDICTS = (*DECIDED, "undecided", UNTESTABLE)  # statuses of effects
# A loss is printed as a positive number; here negative is a loss, as in all our tables
TURNED = ("percent loss",)
WHOLE = 0.005  # rounding of a change that is printed in whole percents
# A change that is printed as at most this is read as no change ...
NULL = 0.01
CHANGES = ("percent change", "percent loss")  # their units
# ... which is shown by an interval within this margin, that of the claims of equality of a change
MARGIN = 0.05

Folders = Mapping[str, Path]  # profile → the folder that has NOTEBOOK/tables
Row = dict[str, Any]


class Counterpart(BaseModel, frozen=True, extra="forbid"):
    """Rows of one of our tables and the printed cells beside them; see `replication.yaml`."""

    paper: str
    table: str
    notebook: str
    file: str
    keys: dict[str, str]
    columns: dict[str, str]
    profiles: tuple[str, ...] = ()
    where: dict[str, Any] = {}
    cells: dict[str, Any] = {}
    names: dict[str, dict[Any, str]] = {}
    intervals: dict[str, tuple[str, str]] = {}
    effects: tuple[str, ...] = ()
    beside: str = "other collection"
    turned: bool = False
    systems: tuple[str, ...] = ()
    over: str = ""

    @property
    def path(self) -> Path:
        """The table of ours, below the folder of a profile."""
        return Path(self.notebook, "tables", f"{self.file}.csv")


class Reason(BaseModel, frozen=True, extra="forbid"):
    """Why some printed cells have no counterpart, or no verdict; see `replication.yaml`."""

    paper: str
    table: str = ""
    cells: dict[str, Any] = {}
    profiles: tuple[str, ...] = ()
    status: str = UNTESTABLE
    why: str
    notebook: str = ""

    def is_of(self, cell: Mapping[str, Any]) -> bool:
        """Whether this is the reason of a printed cell."""
        labels = {"paper": self.paper, **self.cells}
        if self.table:
            labels["table"] = self.table
        return all(cell.get(name) == value for name, value in labels.items())


# of a cell that has a counterpart, where the results are not here
UNKNOWN = Reason(paper="", status="not computed", why="no results of the profiles are here")


class Mean(BaseModel, frozen=True, extra="forbid"):
    """Over which attribute the cells of a printed table are averaged."""

    paper: str
    table: str
    over: str


class Mapped(NamedTuple):
    """What `replication.yaml` holds."""

    counterparts: list[Counterpart]
    means: list[Mean]
    reasons: list[Reason]
    untestable: list[Reason]
    systems: dict[str, list[str]]  # notebook → labels
    on_collections: list[gates.OnCollections]


@lru_cache
def mapped() -> Mapped:
    """Read `replication.yaml`."""
    document = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return Mapped(
        [Counterpart(**entry) for entry in document["counterparts"]],
        [Mean(**entry) for entry in document["means"]],
        [Reason(**entry) for entry in document["reasons"]],
        [Reason(**entry) for entry in document["untestable"]],
        document["systems"],
        [gates.OnCollections(**entry) for entry in document["on_collections"]],
    )


def tables_read(folders: Folders) -> list[Path]:
    """Return the tables of ours that `replication` reads, those that are there."""
    paths = set()
    for folder in folders.values():
        for counterpart in mapped().counterparts:
            path = folder / counterpart.path
            leads = [path.with_name(name) for name in gates.FILES]
            paths |= {path, *leads}
    return sorted(path for path in paths if path.is_file())


def replication(folders: Folders) -> pd.DataFrame:
    """Return every printed cell beside ours.

    Parameters
    ----------
    folders
        Profile → the folder with the tables of its notebooks. A profile without a table has no
        rows of it.

    Returns
    -------
    DataFrame[paper, table, row, column, derived, unit, text, printed, published, rounding, ours, \
low, high, over, ratio, profile, collection, kind, status, why, notebook]
        A row a printed cell, and profile and collection that have a number beside it; a cell
        without any has one row, with an empty profile. `derived`: a mean over printed cells.
        printed, published, rounding, ours, low, high: on our scale, fractions; negative is a loss,
        and text where the cell is no number. published: the change of the printed means where the
        change is printed in whole percents, else what is printed; rounding: by how much it can be
        off. over: what the interval of ours is over. ratio: ours by published, of effects but those
        that are printed as none. status: the verdict on an effect, what a level is compared with,
        or that there is nothing to compare, or no verdict, for the reason `why`.

    Raises
    ------
    InputError
        Two rows of one of our tables stand beside the same cell.
    """
    cells = _cells()
    found = [_of_profile(cells, profile, folder) for profile, folder in folders.items()]
    found = [_with_untestable(rows, cells) for rows in found]
    beside = pd.concat([*found, pd.DataFrame(columns=["cell", *COLUMNS[len(PRINTED) :]])])
    is_absent = ~cells.index.isin(beside["cell"])
    absent = [_absent(cell) for cell in _records(cells[is_absent])]
    rows = pd.concat([beside, pd.DataFrame(absent)], ignore_index=True)
    printed = cells.loc[rows["cell"], PRINTED]
    printed.index = rows.index
    table = pd.concat([printed, rows], axis=1).sort_values("cell", kind="stable")
    has_ratio = (table["kind"] == EFFECT) & ~is_no_change(table)
    effects = table["ours"].where(has_ratio).astype(float)
    table["ratio"] = effects / table["published"].replace(0.0, np.nan)
    return table[COLUMNS].reset_index(drop=True)


@lru_cache
def _cells() -> pd.DataFrame:
    """Return the printed cells with all their attributes, and the means over some of them."""
    cells = published.every_cell().assign(derived=False)
    means = [mean for each in mapped().means for mean in _means(cells, each)]
    cells = pd.concat([cells, pd.DataFrame(means)], ignore_index=True)
    is_turned = cells["unit"].isin(TURNED)
    cells["printed"] = cells["scaled"].where(~is_turned, -cells["scaled"]).round(9)
    return _with_published(cells)


def _with_published(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with what is published, and by how much it can be off.

    A change that is printed in whole percents is that of the printed means, as in the claims: Zhan
    et al. print -1 % beside 0.189 and 0.188, which is -0.5 %.
    """
    changes = published.printed_changes()
    of_means = changes["of_means"]
    ends = np.stack([of_means - changes["low"], changes["high"] - of_means])
    changes["open"] = ends.max(axis=0)
    is_whole = changes["rounding"] > WHOLE - published.FLOAT_ERROR
    of_whole = changes.loc[is_whole, [*CELL, "of_means", "open"]]
    cells = cells.merge(of_whole, how="left", on=CELL)
    return cells.assign(
        published=cells["of_means"].fillna(cells["printed"]).round(9),
        rounding=cells["open"].fillna(cells["rounding"]),
    )


def is_no_change(cells: pd.DataFrame) -> pd.Series:
    """Return which printed cells are changes that are read as no change, see NULL."""
    is_change = cells["unit"].isin(CHANGES)
    return is_change & (cells["printed"].abs() <= NULL + published.FLOAT_ERROR)


def _means(cells: pd.DataFrame, mean: Mean) -> Iterator[Row]:
    """Yield the means of the rows of a printed table over an attribute."""
    is_of_table = (cells["paper"] == mean.paper) & (cells["table"] == mean.table)
    numbers = cells[is_of_table].dropna(subset=["scaled"])
    for _, part in numbers.groupby("row", sort=False):
        first = part.iloc[0].to_dict()
        names = ", ".join(part[mean.over])
        averaged = {"scaled": part["scaled"].mean(), "value": part["value"].mean()}
        labels = {"column": f"mean of {names}", mean.over: MEAN, "derived": True}
        yield first | labels | averaged


def _records(cells: pd.DataFrame) -> Iterator[Row]:
    """Yield printed cells as mappings, with their place in the table as `cell`."""
    for place, cell in zip(cells.index, cells.to_dict("records"), strict=True):
        yield {"cell": place, **cell}


def _has(cells: pd.DataFrame, wanted: Mapping[str, Any]) -> pd.Series:
    """Return which rows have these values."""
    fitting = pd.Series(True, cells.index)
    for name, value in wanted.items():
        fitting &= cells[name] == value if name in cells else False
    return fitting


def _absent(cell: Row) -> Row:
    """Return the row of a cell that has no counterpart, with the first reason that fits."""
    reasons = [reason for reason in mapped().reasons if reason.is_of(cell)]
    reason = reasons[0] if reasons else UNKNOWN
    return {
        "cell": cell["cell"],
        "profile": "",
        "collection": "",
        "kind": NONE,
        "status": reason.status,
        "why": reason.why,
        "notebook": reason.notebook,
    }


def _of_profile(cells: pd.DataFrame, profile: str, folder: Path) -> pd.DataFrame:
    """Return the rows of a profile: which printed cells have a number of ours beside them."""
    parts: list[pd.DataFrame] = []
    answered: set[int] = set()  # places of cells
    for counterpart in mapped().counterparts:
        path = folder / counterpart.path
        is_asked = not counterpart.profiles or profile in counterpart.profiles
        if not is_asked or not path.is_file():
            continue
        left = cells[~cells.index.isin(answered)]
        rows = pd.DataFrame(list(_beside(left, counterpart, path)))
        if len(rows):
            parts.append(_judged(rows, cells).assign(profile=profile))
            answered |= set(rows["cell"])
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["cell"])


def _with_untestable(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a profile; effects that it cannot judge have the reason for a verdict."""
    rows = rows.copy()
    for place, row in rows.iterrows():
        if row["kind"] != EFFECT:
            continue
        cell = cells.loc[row["cell"]]
        for reason in mapped().untestable:
            is_asked = not reason.profiles or row["profile"] in reason.profiles
            if is_asked and reason.is_of(cell):
                rows.loc[place, ["status", "why"]] = [reason.status, reason.why]
                break
    return rows


def _beside(cells: pd.DataFrame, counterpart: Counterpart, path: Path) -> Iterator[Row]:
    """Yield our numbers beside the printed cells that a counterpart finds in one of our tables."""
    ours = pd.read_csv(path)
    ours = ours[_has(ours, counterpart.where)]
    if not len(ours) or not set(counterpart.keys) <= set(ours):
        return
    notebook = counterpart.notebook
    asked_there = [each for each in mapped().on_collections if each.notebook == notebook]
    claims = gates.of_claims(path.parent, asked_there)
    leads = gates.leads(path.parent, mapped().systems.get(notebook, []), claims)
    ours = _with_intervals_of_claims(ours, claims)
    labels = {"paper": counterpart.paper, "table": counterpart.table, **counterpart.cells}
    asked = cells[_has(cells, labels)].dropna(subset=["published"])
    groups = _by_keys(ours, counterpart)
    for cell in _records(asked):
        regime = cell.get("regime")
        regime = regime if isinstance(regime, str) else VALUE
        column = counterpart.columns.get(regime, "")
        key = tuple(cell.get(name) for name in counterpart.keys.values())
        if column not in ours or key not in groups:
            continue
        rows = groups[key].dropna(subset=[column])
        _refuse_repeated(rows, key, path)
        for row in rows.to_dict("records"):
            beside = _row(cell, row, regime, column, counterpart)
            if beside["kind"] == EFFECT:
                beside["why"] = gates.why_closed(row, counterpart.systems, leads)
            yield beside


def _with_intervals_of_claims(ours: pd.DataFrame, claims: pd.DataFrame) -> pd.DataFrame:
    """Return our rows; those that a claim on collections asks for have the interval of the claim.

    `claims`: of `gates.of_claims`.
    """
    labels = ["collection", "model", "measure"]
    if not len(claims) or not set(labels) <= set(ours):
        return ours
    known = ours[labels].merge(claims, how="left", on=labels).set_axis(ours.index)
    ends = {name: known[name].fillna(ours[name]) for name in ("low", "high", "over")}
    return ours.assign(**ends)


def _by_keys(ours: pd.DataFrame, counterpart: Counterpart) -> dict[tuple, pd.DataFrame]:
    """Return our rows by the attributes of the printed cells that they belong to."""
    named = ours[list(counterpart.keys)].astype(object)
    for column, names in counterpart.names.items():
        named[column] = [names.get(value, value) for value in named[column]]
    keys = list(named.itertuples(index=False, name=None))
    places: dict[tuple, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return {key: ours.iloc[rows] for key, rows in places.items()}


def _refuse_repeated(rows: pd.DataFrame, key: Sequence[Any], path: Path) -> None:
    """Refuse two of our rows for the same cell; those of several collections are told apart."""
    labels = rows["collection"] if "collection" in rows else pd.Series("", rows.index)
    if labels.duplicated().any():
        raise InputError(f"{path}: several rows stand beside {offenders(list(map(str, key)))}")


def _row(cell: Row, ours: Row, regime: str, column: str, counterpart: Counterpart) -> Row:
    """Return one of our numbers beside a printed cell."""
    low, high = counterpart.intervals.get(regime, ("", ""))
    factor = 0.01 if cell["unit"] == "percent" else 1.0  # our tables hold percents, too
    sign = -1.0 if counterpart.turned else 1.0
    ends = [sign * factor * ours.get(name, np.nan) for name in (low, high)]
    is_effect = regime in counterpart.effects
    is_of_several = "collection" in ours and "collection" not in counterpart.keys
    return {
        "cell": cell["cell"],
        "ours": sign * factor * ours[column],
        "low": np.min(ends),
        "high": np.max(ends),
        "over": _over(ours, counterpart) if low else "",
        "collection": ours["collection"] if is_of_several else "",
        "kind": EFFECT if is_effect else LEVEL,
        "status": "" if is_effect else f"{LEVEL}, {counterpart.beside}",
        "why": "",
        "notebook": counterpart.notebook,
    }


def _over(ours: Row, counterpart: Counterpart) -> str:
    """Return what the interval of one of our rows is over."""
    if "n" in ours:  # of a table over the worlds
        return "worlds"
    known = ours.get("over", counterpart.over)
    if isinstance(known, str) and known:
        return known
    return ONE_TRAINING if ours.get("n_trainings") == 1 else QUERIES


def _judged(rows: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return rows whose effects have a verdict as their status.

    That of `Effects.beside`, or of `beside_null`; none where the gate of a system is closed, for
    the reason `why`.
    """
    is_effect = rows["kind"] == EFFECT
    if not is_effect.any():
        return rows
    ours = rows[is_effect]
    printed = cells.loc[ours["cell"].unique()]
    theirs = printed[["published", "rounding"]].rename_axis("cell").reset_index()
    theirs = theirs.rename(columns={"published": "scaled"})
    no_draws = np.empty((len(ours), 1))
    effects = Effects.of(ours, ["cell"], ["ours"], list(no_draws))
    verdicts = effects.beside(theirs, ["cell"])["verdict"]
    is_null = ours["cell"].map(is_no_change(printed))
    verdicts = verdicts.where(~is_null, beside_null(ours["low"], ours["high"]))
    verdicts = verdicts.mask(ours["why"] != "", UNTESTABLE)
    return rows.assign(status=verdicts.reindex(rows.index).fillna(rows["status"]))


def beside_null(low: pd.Series, high: pd.Series) -> pd.Series:
    """Return the verdicts on effects beside a published one that is no change.

    *agrees*: our interval, from `low` to `high`, lies within the margin; *differs*: it lies outside
    it; else *undecided*.

    Examples
    --------
    >>> beside_null(pd.Series([-0.01, -0.08, -0.09]), pd.Series([0.02, -0.01, -0.06])).tolist()
    ['agrees', 'undecided', 'differs']
    """
    is_within = (low >= -MARGIN) & (high <= MARGIN)
    is_outside = (low > MARGIN) | (high < -MARGIN)
    verdicts = np.select([is_within, is_outside], ["agrees", "differs"], "undecided")
    return pd.Series(verdicts, low.index)

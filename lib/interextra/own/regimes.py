"""Notebook 12: what runs on a user's split say of interpolation and extrapolation, with two claims,
as one page.
"""

import html
import io
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from interextra import figures
from interextra.claims import verdicts
from interextra.measures.evaluate import worse
from interextra.models.architectures.bm25 import LABEL as BM25
from interextra.own.given import MODEL, Given
from interextra.splits.split import REGIMES
from interextra.stats.effects import DRAWS, Effects, effects, shown
from interextra.stats.formatting import drawn_over, with_interval
from interextra.stats.tests import detectable
from interextra.store import InputError, write_text

GROUPS = ("all", "near half", "far half")
STYLE = "body{font:15px/1.5 sans-serif;max-width:56em;margin:2em auto;padding:0 1em;color:#222}h1{font-size:1.5em}"
STYLE += "table{border-collapse:collapse;margin:1em 0}td,th{text-align:left;padding:.3em .8em .3em 0;vertical-align:top"
STYLE += ";border-bottom:1px solid #ddd}h2{font-size:1.15em;margin-top:2em}svg{max-width:100%;height:auto}"
LEGEND = (
    "Intervals are of 95 %, over {over}: of the sentences simultaneous, here plain. Detects: the "
)
LEGEND += "smallest change found with 80 % power. Near and far: halves by the cosine to the nearest training query."


class Report(NamedTuple):
    changes: (
        pd.DataFrame
    )  # queries (of GROUPS), measure, both regimes, change, low, high, detects, n_queries, …
    claims: pd.DataFrame  # two, of `verdicts.concluded`, with their sentences
    losers: (
        pd.DataFrame
    )  # test queries that lose most in extrapolation, with their nearest training query
    values: pd.DataFrame  # all that was measured
    told: list[str]  # a sentence each claim, and whose the gate is
    files: list[Path] = []  # of `write`


def refuse_first(measure: str) -> None:
    """InputError where the first measure, that of the claims, has its best value at 0."""
    if worse(measure) < 0:
        raise InputError(f"{measure}: lower is better; name another measure first, for the claims")


def report(
    given: Given,
    values: pd.DataFrame,
    rival: pd.DataFrame,
    near: pd.DataFrame,
    margin: float,
    seed: int,
    n_boot: int,
) -> Report:
    """Both regimes of the test queries, with plain intervals; two claims on all of them.

    rival : values of the baseline, which a model must beat in domain on the gate's queries. near :
    of `nearest`. margin : what counts as no difference, as a share: of the value in interpolation,
    of the baseline's.
    """
    refuse_first(first := values["measure"].iloc[0])
    is_gate, is_near = values["query_id"].isin(given.held), near.set_index("query_id")["is_near"]
    parts = [
        values[~is_gate],
        *(values[values["query_id"].map(is_near).eq(side)] for side in (True, False)),
    ]
    parts = [part.assign(queries=name) for name, part in zip(GROUPS, parts, strict=True)]
    labels, options = ["queries", "model", "measure"], {"seed": seed, "n_boot": n_boot}
    changes = effects(pd.concat(parts), labels, "regime", REGIMES, "delta", **options)
    changes["detects"] = detectable(changes["low"], changes["high"], changes.drawn().std(axis=1))
    inside = values[is_gate & (values["measure"] == first)]
    rows = inside[
        ["regime", "seed"]
    ].drop_duplicates()  # of both regimes, which say how trainings vary
    both = pd.concat(
        [
            inside,
            rival.merge(inside[["query_id", "measure"]].drop_duplicates()).merge(rows, how="cross"),
        ]
    )
    claims = _claims(given, changes, both.fillna({"model": BM25}), margin, options)
    losers = parts[0][parts[0]["measure"] == first].pivot_table(
        index="query_id", columns="regime", values="value"
    )
    losers["difference"] = losers[REGIMES[1]] - losers[REGIMES[0]]
    losers = losers.nsmallest(10, "difference").reset_index().merge(given.queries, on="query_id")
    losers = losers.merge(near, on="query_id").rename(columns={"text": "query"})
    losers = losers[["query_id", "query", *REGIMES, "difference", "train_query", "cosine"]]
    who = f"queries of the split {given.gate}" if given.gate else "test queries held out for this"
    told = [f"{row['sentence']}: {row['told']}." for row in claims.to_dict("records")]
    told.append(f"The lead is measured on {len(given.held):,} {who}; they measure no loss.")
    changes = pd.DataFrame(changes).drop(
        columns=[DRAWS, "sd_trainings", "n_units", "model", "p_value", "p_holm"]
    )
    return Report(changes.rename(columns={"delta": "change"}), claims, losers, values, told)


def _claims(
    given: Given, changes: Effects, both: pd.DataFrame, margin: float, options: dict
) -> pd.DataFrame:
    """A loss in extrapolation, and a lead in domain, if `both` has values (of model and BM25 on the
    gate's queries).
    """
    measure, protocol = changes["measure"].iloc[0], type(given.split).__name__
    reached = both.loc[both["model"] == BM25, "value"].mean()
    loss = {
        "asks": "below",
        "rows": {"plus": {"model": MODEL, "queries": GROUPS[0]}},
        "margin": margin,
    }
    loss |= {"gate": "beats BM25", "scale": "change"}
    loss["sentence"] = (
        f"{measure} from interpolation to extrapolation ({protocol}; claim: it falls)"
    )
    rows = {
        sign: {"model": name, "regime": REGIMES[0]}
        for sign, name in (("plus", MODEL), ("minus", BM25))
    }
    lead = {"asks": "above", "rows": rows, "margin": margin * reached, "side": "in domain"}
    lead["sentence"] = f"In domain against {BM25} (claim: the model is above)"
    same = {"paper": "own", "notebook": "", "measure": measure, "known": ()}
    named = {
        name: verdicts.Claim(name=name, **claim, **same)
        for name, claim in (("loss", loss), ("lead", lead))
    }
    ahead = verdicts.leads(both, ["regime", "measure"], **options)
    ahead = ahead[ahead["regime"] == REGIMES[0]].drop(columns="regime")
    tables = (
        [changes, effects(both, ["regime", "model", "measure"], **options)]
        if len(both)
        else [changes]
    )
    found = verdicts.concluded(
        verdicts.answered(list(named.values()), tables, ahead), list(named.values())
    )
    found["told"] = [
        verdicts.formatted(row, named[row["claim"]]) for row in found.to_dict("records")
    ]
    return found.assign(sentence=[named[name].sentence for name in found["claim"]])


def write(folder: Path, found: Report) -> Report:
    """Write regimes.html and, as .csv, regimes, claims, losers, values (as of PyTerrier); returns
    it with `files`.
    """
    names = found.values["regime"] + ", training " + found.values["seed"].astype(str)
    values = found.values.assign(name=names, qid=found.values["query_id"])[
        ["name", "qid", "measure", "value"]
    ]
    frames = {
        "regimes": found.changes,
        "claims": found.claims,
        "losers": found.losers,
        "values": values,
    }
    texts = {
        f"{name}.csv": frame.to_csv(index=False, float_format="%.6g")
        for name, frame in frames.items()
    }
    texts["regimes.html"] = page(found)
    return found._replace(files=[write_text(folder / name, text) for name, text in texts.items()])


def page(found: Report) -> str:
    """The report as one HTML page."""
    figures.style()
    picture, label = io.StringIO(), "← loss: change from interpolation to extrapolation"
    drawn = figures.forest(found.changes, "queries", "change", label, panel="measure", percent=True)
    drawn.savefig(picture, format="svg", metadata={"Date": None})
    changes = with_interval(found.changes, "change")
    changes["detects"] = (100 * changes["detects"]).map("{:.1f} %".format)
    names = {"queries": "test queries", "n_queries": "queries", "n_trainings": "trainings"}
    columns = ["queries", "measure", *REGIMES, "change", "detects", "n_queries", "n_trainings"]
    over = drawn_over(changes["over"])
    body = "<h1>Does the model extrapolate?</h1>" + "".join(
        f"<p>{html.escape(text)}</p>" for text in found.told
    )
    body += picture.getvalue()[picture.getvalue().index("<svg") :]
    body += (
        shown(changes[columns].rename(columns=names)).to_html()
        + f"<p>{LEGEND.format(over=over)}</p>"
    )
    body += "<h2>Queries that lose most</h2>"
    body += shown(found.losers.rename(columns={"train_query": "nearest training query"})).to_html()
    head = f'<meta charset="utf-8"><title>Interpolation and extrapolation</title><style>{STYLE}</style>'
    return f"<!doctype html><html lang=en><head>{head}</head><body>{body}</body></html>"

"""Write the parts of README.md and RESULTS.md that hold numbers from the committed reference.

None of them is written by hand. `python -m tools.readme` (`make readme`) writes the text between
each pair of marks, and the README's figure. `python -m tools.readme sample` first measures the run
again whose output the README shows; it takes two minutes.
"""

import inspect
import io
import math
import re
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from matplotlib.figure import Figure

from interextra import cli, figures
from interextra.claims import collections_wording
from interextra.claims.claim import REAL, Claim, every_claim, stated
from interextra.claims.judgement import WITHIN
from interextra.claims.over_collections import OWN
from interextra.claims.tally import tally_over_collections
from interextra.claims.wording import (
    DATA,
    FOUR,
    beside_collections,
    conclusion,
    data_name,
    is_known,
    page,
    published,
)
from interextra.overlap.trained_answers import AS_NEAR, IN_BOTH, IN_INTERPOLATION, IN_NEITHER
from interextra.own.split_folder import SplitFolder
from interextra.own.values import values_of_run
from interextra.site.repository import notebooks, repository_root
from interextra.stats.formatting import spelled, with_interval, with_unit
from interextra.store.errors import InputError, offenders
from interextra.store.files import read_json
from interextra.world.generate import generate_mini

BLOCK = re.compile(r"(<!-- generated: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
WHERE = {
    "MedQuAD": "other real data",
    "worlds": "fourteen generated worlds",
}  # heading of each of DATA
RESTRAIN = "02_restrain"
RESTTEST = "03_resttest"
HYBRID = "10_compression_and_hybrid"
OVERLAP = "01_overlap_annotation_analysis"
EXPOSURE = "09_negative_exposure"
MISMATCH = "development/03_resttest/tables/mismatch.csv"
SOURCES = {
    "zhan": "Zhan et al.",
    "lupart": "Lupart et al.",
    "hofstaetter": "Hofstätter et al.",
    "kit": "ours",
}
# value of `gate` → what the claims with it are about
UNGATED = {
    "none: one system": "contrasts within one system",
    "none: as published": "claims about BM25 itself",
}
NONE = "–"
KNOWN = "†"  # mark of a claim whose answer was known before
NO_BREAK = "\N{NO-BREAK SPACE}"
WRITTEN = Path(__file__).with_suffix(".yaml")  # what people write beside the numbers
OF_LEAD = "real-resttest-dense"  # the claim that has dense retrieval's lead over BM25
TRAINED_ANSWERS = "test queries answered by a passage that also answers a training query"
OF_RESTRAIN = "real-restrain-dense"
AT_ONCE = "the same, nDCG@10, where a training set avoids all test queries at once (02)"
BY_ANSWER = "the same with these sets, on test queries with a relevant passage"
BY_ANSWER_OF_FOLD = "the same, on test queries with a relevant passage"
# groups of `overlap.trained_answers` → behind BY_ANSWER
SHARED_ANSWERS = {
    IN_INTERPOLATION: "that is a positive in interpolation alone",
    IN_NEITHER: "that is a positive in neither set",
    AS_NEAR: "that is a positive in neither set, as near in interpolation",
}
# … and behind BY_ANSWER_OF_FOLD
SHARED_ANSWERS_OF_FOLDS = {
    IN_INTERPOLATION: "that is a positive in their own bucket alone",
    IN_BOTH: "that is a positive outside their bucket, too",
    IN_NEITHER: "that is a positive nowhere",
}
LEAD = "dense minus BM25 in domain, RR@10"
WEIGHT = "BM25's weight in the interpolation with dense retrieval, mean of the folds"
FIGURE = "book/static/losses.png"
FIGURE_COLUMNS = ["system", "data", "change", "low", "high", "excluded", "published"]
# values per query of the run whose output the README shows
SAMPLE = "outputs/reference/development/probe"
GIVEN = "given.csv"  # of them: those of the model before fine-tuning
N_SENTENCES = 5  # that the README shows
CUT = "…"  # stands where the output goes on
LABEL = "← loss   |   change in effectiveness   |   gain →"
MODEL = "tiny-base"  # that it fine-tunes
MEASURE = "nDCG@10"  # that it reports
DESIGN = ["--collection", "mini", "--test-splits", "test", "graded"]  # of that run

Row = dict[str, Any]  # a row of a table `claims`
Answers = dict[str, dict[str, Row]]  # data set → claim → its row


def filled(text: str, blocks: Mapping[str, str]) -> str:
    r"""Return a page with new text between its marks, for the names in `blocks`.

    The marks are `<!-- generated: NAME -->` and `<!-- end -->`.

    Examples
    --------
    >>> filled("a\n<!-- generated: n -->\nold\n<!-- end -->\nb", {"n": "new"})
    'a\n<!-- generated: n -->\nnew\n<!-- end -->\nb'
    """
    marked = {name for _, name, _ in BLOCK.findall(text)}
    missing = sorted(blocks.keys() - marked)
    if missing:
        raise InputError(
            f"no marks for the parts {offenders(missing)}: put them back into the page"
        )

    def new_block(match: re.Match) -> str:
        """Return a block with its new text, or as it is."""
        begin, name, end = match.groups()
        if name not in blocks:
            return match[0]
        return f"{begin}{blocks[name]}\n{end}"

    return BLOCK.sub(new_block, text)


def readme(reference: Path) -> dict[str, str]:
    """Return name → text of the generated parts of README.md.

    Without the sample, which takes seconds: see `sample`.
    """
    return {
        "figure": _figure(reference),
        "findings": _findings(reference),
        "notebooks": _notebooks(reference),
    }


def results(reference: Path) -> dict[str, str]:
    """Return name → text of the generated parts of RESULTS.md."""
    committed = answers(reference)
    return {
        "counts": _counts(reference, committed),
        "primary": _primary(reference, committed),
        "gates": _gates(),
        "readings": _readings(reference),
        "exposure": _exposure(reference, committed),
        "mismatch": _mismatch(reference),
        "collections": _collections(reference),
        "moderators": _moderators(reference),
        "fresh": _fresh(reference),
        "claims": _claims(reference),
    }


def answers(reference: Path) -> Answers:
    """Return data set → claim → its row in the committed tables `claims`.

    A value that is missing there is an empty text.
    """
    committed: Answers = {}
    for data, profile in DATA.items():
        committed[data] = {}
        for path in sorted((reference / profile).glob("*/tables/claims.csv")):
            table = pd.read_csv(path)
            table = table.astype(object).where(table.notna(), "")
            for row in table.to_dict("records"):
                committed[data][row["claim"]] = row
    return committed


def _rows_of(claim: Claim, committed: Answers) -> dict[str, Row]:
    """Return data set → row of a claim, where it has one."""
    rows_of_claim = {}
    for data, rows in committed.items():
        if claim.name in rows:
            rows_of_claim[data] = rows[claim.name]
    return rows_of_claim


def losses(reference: Path) -> pd.DataFrame:
    """Return the rows of the README's figure.

    What is published is a row of its own, and so is each real collection that was asked the same.
    Excluded is a system that is not shown to beat BM25 in domain.

    Returns
    -------
    DataFrame[system, data, change, low, high, excluded, published]
    """
    committed = answers(reference)
    each_collection = _each_collection(reference)
    rows = []
    for label, name in written("losses").items():
        claim = stated()[name]
        nothing = [math.nan, math.nan, math.nan]
        rows.append([label, "published", *nothing, False, claim.published])
        asked = each_collection[each_collection["claim"] == claim.on_collections]
        for row in asked.itertuples():
            effect = [row.estimate, row.low, row.high]
            is_excluded = row.lead_low <= 0
            rows.append([label, row.collection, *effect, is_excluded, math.nan])
        for data, row in _rows_of(claim, committed).items():
            effect = [row["estimate"], row["low"], row["high"]]
            is_excluded = _is_excluded(row)
            rows.append([label, data_name(data, claim), *effect, is_excluded, math.nan])
    return pd.DataFrame(rows, columns=FIGURE_COLUMNS)


def _each_collection(reference: Path) -> pd.DataFrame:
    """Return the committed rows of each real collection: a row a claim and collection."""
    paths = sorted((reference / REAL).glob("*/tables/collections.csv"))
    tables = [pd.DataFrame(columns=OWN), *(pd.read_csv(path) for path in paths)]
    return pd.concat(tables, ignore_index=True)


def _is_excluded(row: Row) -> bool:
    """Return whether a system of a claim is not shown to beat BM25 in domain."""
    return row["reason"].startswith("gate")


def draw(reference: Path, path: Path) -> None:
    """Write the README's figure, with the numbers that it shows among its metadata."""
    frame = losses(reference)
    figures.style()
    figure = figures.forest(frame, "system", "change", LABEL, hue="data", percent=True)
    _merge_legends(figure)
    metadata = {"Software": None, "Description": shown_in(frame)}
    figure.savefig(path, metadata=metadata)


def _merge_legends(figure: Figure) -> None:
    """Put one legend in the place of a forest's two, in which what is published stands twice."""
    colours, marks = figure.legends
    # of two with one name the diamond, which is among the marks
    by_name = {}
    for part in (colours, marks):
        for handle in part.legend_handles:
            by_name[handle.get_label()] = handle
        part.remove()
    del by_name["estimate, 95 % interval"]
    handles = list(by_name.values())
    legend = figure.legend(handles=handles, loc="upper center", ncols=2, borderaxespad=0)
    engine = figure.get_layout_engine()
    share_of_panel = engine.get()["rect"][3]
    legend_inches = legend.get_window_extent().height / figure.dpi
    panel_inches = figure.get_figheight() * share_of_panel
    height = panel_inches + legend_inches
    figure.set_figheight(height)
    engine.set(rect=(0, 0, 1, panel_inches / height))


def shown_in(frame: pd.DataFrame) -> str:
    """Return the numbers of a figure as text, to tell whether it is that of today's reference."""
    return frame.round(6).to_csv(index=False)


def sample(root: Path) -> str:
    """Return what `regimes` prints for the committed values of `probe`, without its files.

    The collection is the generated one. It is the beginning, N_SENTENCES: CUT stands for what the
    model as given has seen, the recipe, and the tables.
    """
    printed = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        split_folder = f"{folder}/split"
        runs = f"{root / SAMPLE}/{{part}}.{{seed}}.csv"
        out = f"{folder}/regimes"
        with redirect_stdout(io.StringIO()):
            code = cli.main(["split", "restrain", *DESIGN, "--out", split_folder])
        if not code:
            with redirect_stdout(printed):
                given = f"{root / SAMPLE}/{GIVEN}"
                asked = ["--split", split_folder, "--runs", runs, "--given", given, "--out", out]
                code = cli.main(["regimes", *asked])
    if code:
        raise InputError(
            "the sample of the README cannot be made: run `python -m tools.readme sample`"
        )
    design = " ".join(DESIGN)
    lines = [f"$ .venv/bin/interextra probe -m {MODEL} {design}"]
    for sentence in printed.getvalue().splitlines()[:N_SENTENCES]:
        lines += textwrap.wrap(sentence, 118, subsequent_indent="  ")
    output = "\n".join([*lines, CUT])
    return f"```console\n{output}\n```"


def measure_sample(root: Path) -> None:
    """Fine-tune the model as the README says, and keep the values per query of its runs.

    The model before fine-tuning is measured on a sample of training queries, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        if cli.main(["probe", "-m", MODEL, *DESIGN, "--output-folder", folder]):
            raise InputError("the command of the README failed; see above")
        values = pd.read_csv(f"{folder}/values.csv", dtype={"qid": str})
        manifest = read_json(f"{folder}/split/manifest.json")
        sampled = SplitFolder.open(Path(folder, "split")).with_training_sample()
        of_given = values_of_run(Path(folder, "runs", "given.run"), sampled, [MEASURE])
    part_of_regime = {part.partition("-")[0]: part for part in manifest["sets"]}
    target = root / SAMPLE
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for name, of_run in values.groupby("name"):
        regime, seed = name.split(", training ")
        path = target / f"{part_of_regime[regime]}.{seed}.csv"
        of_run.assign(name="model").to_csv(path, index=False)
    write_given(of_given, target)


def write_given(values: pd.DataFrame, target: Path) -> None:
    """Write the values of the model before fine-tuning as PyTerrier would."""
    table = values.rename(columns={"query_id": "qid"}).assign(name="model")
    columns = ["name", "qid", "measure", "value"]
    table[columns].to_csv(target / GIVEN, index=False, float_format="%.6g")


def written(part: str) -> dict[str, str]:
    """Return a part of readme.yaml.

    Raises
    ------
    InputError
        It names a claim that is not stated.
    """
    texts = yaml.safe_load(WRITTEN.read_text(encoding="utf-8"))[part]
    claim_names: Iterable[str] = ()
    if part == "findings":
        claim_names = texts.keys()
    elif part == "losses":
        claim_names = texts.values()
    unknown = [name for name in claim_names if name not in stated()]
    if unknown:
        where = f"{WRITTEN.name}, {part}"
        raise InputError(f"{where}: no claim {offenders(unknown)} in claims.yaml")
    return texts


def _figure(reference: Path) -> str:
    """Return the figure, described for those who do not see it."""
    frame = losses(reference)
    changes = frame["change"].fillna(frame["published"])
    percents = (100 * changes).round().astype(int)
    frame["percent"] = percents.map("{:+}".format)
    table = frame.pivot(index="system", columns="data", values="percent").fillna(NONE)
    data_sets = frame["data"].unique()
    lines = table[data_sets].agg(", ".join, axis=1)
    changes_of_systems = []
    for system in frame["system"].unique():
        changes_of_system = lines[system]
        changes_of_systems.append(f"{system}: {changes_of_system}")
    systems = "; ".join(changes_of_systems)
    alt = f"Relative changes in percent ({', '.join(data_sets)}). {systems}."
    return _paragraph(f'<img src="{FIGURE}" width="600" alt="{escape(alt)}">')


def _findings(reference: Path) -> str:
    """Return some claims: what came out, the estimates, and what to bear in mind."""
    committed = answers(reference)
    over_collections = _over_collections(reference, collections_wording.in_short)
    decided = _over_collections(reference, collections_wording.briefly)
    lines = _heading("finding", "published", FOUR, WHERE["MedQuAD"], "worlds", "caveat")
    for name, caveat in written("findings").items():
        claim = stated()[name]
        rows = _rows_of(claim, committed)
        outcome = _together(claim, rows, decided.get(name)).capitalize()
        finding = f"{claim.sentence} **{outcome}** ({_number(claim)})"
        on_real_data = _estimate(claim, "MedQuAD", rows)
        if "MedQuAD" in rows:
            on_real_data = f"{data_name('MedQuAD', claim)}: {on_real_data}"
        in_worlds = _estimate(claim, "worlds", rows)
        on_collections = over_collections.get(name, _without_run(claim))
        cells = [finding, published(claim), on_collections, on_real_data, in_worlds, caveat]
        lines.append(_line(cells))
    return "\n".join(lines)


def _notebooks(reference: Path) -> str:
    """Return a line for each notebook: number, question, what it reproduces."""
    lines = _heading("notebook", "question", "reproduces")
    reproduces = written("notebooks")
    for path in notebooks(reference.parents[1]):
        first_cell = read_json(path)["cells"][0]
        source = "".join(first_cell["source"])
        question = source.splitlines()[0].lstrip("# ")
        number = path.stem[:2]
        link = f"[{number}](notebooks/{path.name})"
        lines.append(_line([link, question, reproduces[number]]))
    return "\n".join(lines)


def _over_collections(
    reference: Path, worded: Callable[[pd.DataFrame], dict[str, str]]
) -> dict[str, str]:
    """Return claim → what real collections say of the same question.

    Parameters
    ----------
    reference : the folder.
    worded : the table of a notebook's claims over collections → the text of each.
    """
    texts: dict[str, str] = {}
    for path in sorted((reference / REAL).glob("*/tables/over_collections.csv")):
        texts |= worded(pd.read_csv(path))
    return {
        name: texts[claim.on_collections]
        for name, claim in stated().items()
        if claim.on_collections in texts
    }


def _without_run(claim: Claim) -> str:
    """Return what stands for real collections that have not answered the question of a claim."""
    return "not run yet" if claim.on_collections else NONE


def _together(claim: Claim, rows: Mapping[str, Row], decided: str | None) -> str:
    """Return the conclusion on a claim, with what real collections decide where they answer it."""
    outcome = conclusion(claim, rows)
    if decided is None:
        return outcome
    on_others = beside_collections(outcome)
    is_counted = decided[-1].isdigit()  # holds on 3 of 4
    on_collections = f"{decided} real collections" if is_counted else f"{decided} on {FOUR}"
    return f"{on_collections}; {on_others}"


def _primary(reference: Path, committed: Answers) -> str:
    """Return a row for each primary claim.

    What is published, what each data set says of it, and both together.
    """
    over_collections = _over_collections(reference, collections_wording.in_short)
    decided = _over_collections(reference, collections_wording.briefly)
    on_data = [WHERE[data] for data in committed]
    lines = _heading("claim", "published", FOUR, *on_data, "conclusion")
    for claim in _primary_claims():
        rows = _rows_of(claim, committed)
        source = f"{SOURCES[claim.paper]}, {_number(claim)}"
        sentence = f"{claim.sentence} ({source})"
        cells = [_cell(claim, data, rows) for data in committed]
        outcome = _together(claim, rows, decided.get(claim.name))
        on_collections = over_collections.get(claim.name, _without_run(claim))
        lines.append(_line([sentence, published(claim), on_collections, *cells, outcome]))
    return "\n".join(lines)


def _collections(reference: Path) -> str:
    """Return the claims over real collections, a table a notebook."""
    sections = []
    for path in sorted((reference / REAL).glob("*/tables/over_collections.csv")):
        notebook = path.parts[-3]
        each = pd.read_csv(path.with_name("collections.csv"))
        in_worlds = reference / "worlds" / notebook / "tables" / "claims.csv"
        of_worlds = pd.read_csv(in_worlds) if in_worlds.is_file() else None
        judged = pd.read_csv(path)
        decided = [f"- {sentence}" for sentence in collections_wording.sentences(judged)]
        numbers = collections_wording.page(each, judged, of_worlds)
        sections.append(_section(notebook, numbers, "\n".join(decided)))
    return "\n\n".join(sections) or "No run of the profile real is committed."


def _moderators(reference: Path) -> str:
    """Return what may decide how large a loss is, and the losses, a column a collection."""
    path = reference / REAL / RESTRAIN / "tables" / "moderators.csv"
    if not path.is_file():
        return "No run of 02 on real collections is committed."
    measured = pd.read_csv(path).set_index("collection")
    each = pd.concat(map(pd.read_csv, sorted((reference / REAL).glob("*/tables/collections.csv"))))
    rows = {
        "test queries": _cells(measured["n_test"], "{:,.0f}"),
        "passages": _cells(measured["n_passages"], "{:,.0f}"),
        TRAINED_ANSWERS: _cells(100 * measured["answers_trained"], "{:.0f} %"),
        "words of a test query that are in its answer": _cells(
            100 * measured["words_in_answer"], "{:.0f} %"
        ),
    }
    for name, estimates in each.groupby("claim", sort=False):
        claim = every_claim()[name]
        by_collection = estimates.set_index("collection")
        if name == OF_LEAD:
            rows[LEAD] = _cells(100 * by_collection["lead"], "{:+.1f} points")
        if claim.asks != "equal":
            of_part = f", {claim.part}" if claim.part else ""
            label = f"{claim.sentence.removesuffix('.')}{of_part} ({_number(claim)})"
            rows[label] = by_collection["estimate"].map(partial(with_unit, unit=claim.unit))
        if name == OF_RESTRAIN:
            rows[AT_ONCE] = _cells(100 * _at_once(path.parent), "{:+.1f} %")
            rows |= _by_shared_answers(path.parent, "nDCG@10", BY_ANSWER, SHARED_ANSWERS)
        if name == OF_LEAD:
            tables = reference / REAL / RESTTEST / "tables"
            rows |= _by_shared_answers(tables, "RR@10", BY_ANSWER_OF_FOLD, SHARED_ANSWERS_OF_FOLDS)
    weights = pd.read_csv(reference / REAL / HYBRID / "tables" / "weights.csv")
    rows[WEIGHT] = _cells(weights.groupby("collection")["weight"].mean(), "{:.2f}")
    table = pd.DataFrame(rows).T
    return _table(table.rename_axis("on the collection").reset_index())


def _at_once(tables: Path) -> pd.Series:
    """Return collection → the loss under ReSTrain where a set avoids every test query at once."""
    draws = pd.read_csv(tables / "restrain_draws.csv")
    is_asked = draws["measure"].eq("nDCG@10") & draws["model"].eq("DR (base)")
    is_asked &= draws["test_queries"].eq("all at once")
    return draws[is_asked].set_index("collection")["delta"]


def _by_shared_answers(
    tables: Path, measure: str, label: str, words_of: Mapping[str, str]
) -> dict[str, pd.Series]:
    """Return a loss by the set in which a relevant passage is a positive, a row each.

    Parameters
    ----------
    tables : of a notebook.
    measure : of the loss.
    label : what the rows begin with.
    words_of : group → what stands behind the label.
    """
    path = tables / "shared_answers.csv"
    if not path.is_file():
        return {}
    losses = pd.read_csv(path)
    is_asked = losses["measure"].eq(measure) & losses["model"].eq("DR (base)")
    losses = with_interval(losses[is_asked]).set_index("collection")
    rows = {}
    for group, words in words_of.items():
        of_group = losses[losses["answer_trained_in"] == group]
        counts = of_group["n_queries"].map("; {:,} queries".format)
        rows[f"{label} {words}"] = of_group["delta"] + counts
    return rows


def _cells(values: pd.Series, form: str) -> pd.Series:
    """Return numbers as text."""
    return values.map(form.format)


def _fresh(reference: Path) -> str:
    """Return what the worlds of the profile fresh say of claims, a table a notebook."""
    paths = sorted((reference / "fresh").glob("*/tables/claims.csv"))
    pages = [page({"fresh worlds": pd.read_csv(path)}) for path in paths]
    names = [path.parts[-3] for path in paths]
    sections = map(_section, names, pages)
    return "\n\n".join(sections) or "No run of the profile fresh is committed."


def _section(heading: str, table: pd.DataFrame, *before: str) -> str:
    """Return a table in Markdown under a heading, and some text before it."""
    return "\n\n".join([f"### {heading}", *before, _table(table)])


def _table(table: pd.DataFrame) -> str:
    """Return a table in Markdown."""
    rule = ["---"] * len(table.columns)
    rows = [table.columns, rule, *table.itertuples(index=False)]
    return "\n".join(map(_line, rows))


def _claims(reference: Path) -> str:
    """Return every claim of every notebook on every data set: interval, counts and verdict."""
    sections = []
    evaluated: set[str] = set()
    with_claims = {claim.notebook for claim in stated().values()}
    for notebook in sorted(with_claims):
        table = _page_of(notebook, reference)
        if table.empty:
            continue
        evaluated.update(table["claim"])
        sections.append(_section(notebook, table))
    others = [claim for claim in stated().values() if claim.sentence not in evaluated]
    if others:
        heading = "### Claims that no committed run evaluates"
        section = [heading, "", *map(_item, others)]
        sections.append("\n".join(section))
    return "\n\n".join(sections)


def _page_of(notebook: str, reference: Path) -> pd.DataFrame:
    """Return the table of a notebook's claims, a column a data set; empty without results."""
    tables = {}
    for data, profile in [*DATA.items(), ("mini", "mini")]:
        path = reference / profile / notebook / "tables" / "claims.csv"
        if path.is_file():
            tables[data] = pd.read_csv(path)
    headings = {"fourteen worlds": WHERE["worlds"], "mini": "one generated world"}
    return page(tables).rename(columns=headings)


def _primary_claims() -> list[Claim]:
    """Return the claims that are not secondary."""
    return [claim for claim in stated().values() if not claim.secondary]


def _number(claim: Claim) -> str:
    """Return the number of the notebook of a claim."""
    return claim.notebook[:2]


def _item(claim: Claim) -> str:
    """Return a claim as an item of a list."""
    return f"- {claim.sentence} ({_number(claim)})"


def _heading(*columns: str) -> list[str]:
    """Return the first two lines of a table in Markdown."""
    rule = "---|" * len(columns)
    return [_line(columns), f"|{rule}"]


def _line(cells: Iterable[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def _cell(claim: Claim, data: str, rows: Mapping[str, Row]) -> str:
    """Return estimate, interval and verdict of a claim on a data set, marked where known."""
    if data not in rows:
        return NONE
    row = rows[data]
    parts = [row["verdict"]] if row["verdict"] else []
    if row["size"]:
        parts.append(WITHIN)
    if _is_excluded(row):
        parts.append("gate")
    verdict = ", ".join(parts)
    return f"{_estimate(claim, data, rows)} {verdict}"


def _estimate(claim: Claim, data: str, rows: Mapping[str, Row]) -> str:
    """Return estimate and interval of a claim on a data set, marked where known before."""
    if data not in rows:
        return NONE
    row = rows[data]
    estimate = spelled(row["estimate"], row["low"], row["high"], claim.unit)
    # a narrow column breaks it only before the interval
    estimate = estimate.replace(" ", NO_BREAK)
    estimate = estimate.replace(f"{NO_BREAK}[", " [")
    return estimate + KNOWN if is_known(claim, data) else estimate


def _counts(reference: Path, committed: Answers) -> str:
    """Return how many claims there are, how many are decided where, and what stands beside them.

    Beside them stand comparisons with an interval and without a verdict.
    """
    primary = _primary_claims()
    shares = []
    for data, rows in committed.items():
        evaluated = [claim for claim in primary if claim.name in rows]
        testable = [claim.name for claim in evaluated if data not in claim.not_testable]
        n_decided = sum(_is_decided(rows[name]) for name in testable)
        shares.append(f"{n_decided} of {len(evaluated)} on {WHERE[data]}")
    decided = " and ".join(shares)
    return _paragraph(
        f"The kit states {len(primary)} primary claims, and "
        f"{_counts_over_collections(reference)}. Of the primary claims it decides {decided}; the "
        f"others are undecided. The same data sets give {_n_exploratory(reference):,} exploratory "
        "estimates, with individual 95 % intervals and no verdict."
    )


def _is_decided(row: Row) -> bool:
    """Return whether a row has a verdict of a direction or of equality."""
    return row["verdict"] in ("holds", "contradicted")


def _counts_over_collections(reference: Path) -> str:
    """Return how many claims of the section REAL the collections answer, and decide."""
    paths = sorted((reference / REAL).glob("*/tables/over_collections.csv"))
    asked, measured, decided = tally_over_collections(map(pd.read_csv, paths))
    return f"{asked} more about {FOUR} (measured so far: {measured}, decided: {decided})"


def _n_exploratory(reference: Path) -> int:
    """Return the number of rows with an interval in tables of estimates but the claims'."""
    n_rows = 0
    for profile in DATA.values():
        for path in (reference / profile).glob("*/tables/*.csv"):
            if path.stem in ("claims", "replication"):
                continue
            table = pd.read_csv(path)
            if {"low", "high"}.issubset(table):
                n_rows += len(table)
    return n_rows


def _gates() -> str:
    """Return which claims a system must earn by beating BM25 in domain, and which have no gate."""
    primary = _primary_claims()
    n_gated = sum(claim.is_gated for claim in primary)
    lines = [
        f"{n_gated} of the {len(primary)} primary claims have this gate (`gate` in claims.yaml). "
        "Without it are"
    ]
    for gate, description in UNGATED.items():
        items = [_item(claim) for claim in primary if claim.gate == gate]
        lines += ["", f"{description}:", "", *items]
    lines += ["", "and claims about no system that is trained."]
    return "\n".join(lines)


def _readings(reference: Path) -> str:
    """Return Table 3 of Zhan et al. in both readings: as the script counts, and as it says."""
    folder = reference / "small" / OVERLAP
    metrics = read_json(folder / "metrics.json")
    labelled = 100 * metrics["share_of_training_queries_with_labels"]
    table = pd.read_csv(folder / "tables" / "label_overlap.csv")
    table = table[table["relevance_threshold"] == 1]
    table = table.set_index(["min_shared", "test_set"])
    years = ["dl19", "dl20"]
    caption = table.loc[1].loc[years, "percent"]
    script = table.loc[2].loc[years, "percent"]
    printed = table.loc[2].loc[years, "published_percent"]
    n_queries = table.loc[2].loc[years, "n_queries"].astype(str)
    return _paragraph(
        f"Zhan et al. report that {_percents(printed)} of the DL 2019 and DL 2020 queries share "
        f"relevant passages with training queries. We find {_percents(script)} with "
        "two shared passages or more, as the released script counts, and "
        f"{_percents(caption)} with one, as the caption says: "
        f"{_nearer_reading(script, caption, printed)}. These are shares of "
        f"{' and '.join(n_queries)} queries and lower bounds, since we have the labels of "
        f"{labelled:.0f} % of the training queries (01)."
    )


def _percents(shares: pd.Series) -> str:
    """Return the shares of two years in words."""
    first, second = shares
    return f"{first:.0f} and {second:.0f} %"


def _nearer_reading(script: pd.Series, caption: pd.Series, printed: pd.Series) -> str:
    """Return which count is nearer to what is published, over two years."""
    from_caption = (caption - printed).abs()
    is_script_nearer = (script - printed).abs() < from_caption
    if is_script_nearer.all():
        return "the script's count is nearer"
    if is_script_nearer.any():
        return "a different count is nearer in each"
    return "the caption's count is nearer"


def _exposure(reference: Path, committed: Answers) -> str:
    """Return how exposed negatives are where the loss was measured, and on MS MARCO."""
    tables = reference / "small" / EXPOSURE / "tables"
    negatives = pd.read_csv(tables / "exposed_negatives.csv")
    random = negatives.query("negatives == 'random' and negative_passages == 'all'")
    exposed = 100 * random["exposed_negatives"].mean()
    on_ms_marco = 100 * pd.read_csv(tables / "on_ms_marco.csv")["exposed"]
    in_worlds = committed["worlds"]
    by_kind = ""
    if _holds("exposure-kind", in_worlds) and _holds("exposure-other-kinds", in_worlds):
        by_kind = (
            "In the worlds those of the left-out kind cost effectiveness, and exposed ones of "
            "other kinds do not. "
        )
    return _paragraph(
        f"On MedQuAD {exposed:.0f} % of the random negatives are "
        "exposed: relevant to a query outside the training set and to none inside (09). "
        f"{by_kind}How many passages of a held-out kind MS MARCO has is not known. With a fifth "
        f"of its queries held out, judged answers alone are {on_ms_marco[0]:.1f} % of the "
        f"random negatives and up to {on_ms_marco.max():.1f} % of BM25's."
    )


def _holds(name: str, rows: Mapping[str, Row]) -> bool:
    """Return whether a claim holds on a data set."""
    return name in rows and rows[name]["verdict"] == "holds"


def _mismatch(reference: Path) -> str:
    """Return what dense retrieval loses in the development worlds, by their mismatch."""
    table = pd.read_csv(reference / MISMATCH)
    reported = inspect.signature(generate_mini).parameters["mismatch"].default
    lines = _heading("mismatch", "dense retrieval", "BM25")
    by_mismatch = table.set_index("model").groupby("mismatch", sort=False)
    for mismatch, rows in by_mismatch:
        cells = [str(mismatch)]
        if mismatch == reported:
            cells[0] += ", as in the reported worlds"
        for system in ("DR (base)", "BM25"):
            row = rows.loc[system]
            change = spelled(row["delta"], row["low"], row["high"])
            cells.append(change)
        lines.append(_line(cells))
    return "\n".join(lines)


def _paragraph(text: str) -> str:
    """Return a text as wide as that which people write beside it."""
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def main(arguments: Sequence[str]) -> None:
    """Write the figure and the generated parts of both pages."""
    root = repository_root()
    if "sample" in arguments:
        measure_sample(root)
    reference = root / "outputs" / "reference"
    draw(reference, root / FIGURE)
    blocks_of_page = {
        root / "README.md": readme(reference) | {"sample": sample(root)},
        root / "RESULTS.md": results(reference),
    }
    for page_path, blocks in blocks_of_page.items():
        text = page_path.read_text(encoding="utf-8")
        page_path.write_text(filled(text, blocks), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

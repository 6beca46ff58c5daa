"""The handout of a talk: its numbers are those of the committed tables."""

import pandas as pd

from interextra.site.travel import REFERENCE
from interextra.stats.formatting import spelled
from tools.handout import FINDINGS, drawing, handout


def test_each_finding_has_its_interval_over_worlds_and_what_is_not_shown(root):
    page = handout(root)
    claims = {"02": "restrain-dense", "05": "resttest-colbert-dense", "09": "exposure-answers"}
    assert tuple(claims) == FINDINGS
    for number, claim in claims.items():
        [path] = (root / REFERENCE / "worlds").glob(f"{number}_*/tables/claims.csv")
        row = pd.read_csv(path).set_index("claim").loc[claim]
        unit = "%" if number == "02" else "percentage points of Δ"
        assert spelled(row["estimate"], row["low"], row["high"], unit) in page
    drawn = page[page.index("Change in effectiveness of dense") :].partition("</svg>")[0]
    assert drawn.count("<circle") == 7 and "nan" not in drawn
    assert page.count("Not shown: ") == len(FINDINGS)


def test_the_protocol_is_described_for_those_who_do_not_see_it():
    svg = drawing()
    assert 'role="img"' in svg and 'aria-label="Protocol' in svg
    assert svg.count("<rect") == 7 and svg.count('class="tip"') == 7

"""Every kind of figure draws its marks at the data's values, and its words can be read."""

import os
import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from PIL import Image

from interextra import figures
from interextra.claims import judgement
from interextra.models.architectures import architectures
from interextra.notebooks.parameters import NotebookParameters
from interextra.site.session import Session
from interextra.store.errors import InputError


@pytest.fixture(autouse=True, scope="module")
def look():
    with mpl.rc_context():
        figures.style()
        yield


def offsets(axis) -> list[list[float]]:
    """The points of each scatter of an axis, in drawing order."""
    return [
        found.get_offsets().data.round(9).tolist()
        for found in axis.collections
        if len(found.get_offsets())
    ]


def texts(figure) -> list:
    figure.draw_without_rendering()
    return [
        text
        for text in figure.findobj(lambda a: hasattr(a, "get_fontsize"))
        if text.get_text() and text.get_visible()
    ]


EFFECTS = pd.DataFrame(
    {
        "model": ["BM25", "BM25", "DR (base)", "DR (base)"],
        "n_train": [360, 1600, 360, 1600],
        "delta": [0.01, 0.0, -0.3, -0.1],
        "low": [-0.02, 0.0, -0.5, -0.2],
        "high": [0.03, 0.0, -0.2, 0.02],
        "published": [0.01, np.nan, -0.14, -0.11],
    }
)
GAIN = pd.DataFrame(
    [
        ("by kind of query", "whole gain", 0.5, 0.4, 0.6),
        ("by kind of query", "kept on a left-out kind", 0.3, 0.2, 0.4),
        ("by kind of query", "lost to exposed negatives", -0.1, -0.2, 0.0),
        ("by kind of query", "interpolation: needs the kind", 0.3, 0.2, 0.4),
        ("by distance", "whole gain", 0.5, 0.4, 0.6),
        ("by distance", "kept with far training queries", 0.5, 0.4, 0.6),
    ],
    columns=["cut", "part", "difference", "low", "high"],
)
MATRIX = pd.DataFrame(
    [
        (m, w, t, (0.4 if w == t else 0.8) / n)
        for n, m in ((1, "a"), (2, "b"))
        for w in "xyz"
        for t in "xyz"
    ],
    columns=["model", "without", "on", "RR@10"],
)
CURVES = pd.DataFrame(
    {"n_train": [10, 100] * 2, "regime": ["interpolation"] * 2 + ["extrapolation"] * 2}
)
CURVES = CURVES.assign(y=[0.5, 0.6, 0.3, 0.5], low=0.2, high=0.7)
SHARES = pd.DataFrame(
    {
        "set": ["dl19", "dl19", "dl20", "dl20"],
        "label": ["full", "zero"] * 2,
        "percent": [60, 40, 70, 30],
    }
)
POINTS = pd.DataFrame(
    {
        "shift": ["u"] * 3,
        "model": ["SPLADE"] * 3,
        "of": "ours",
        "j": [0.1, 0.2, 0.4],
        "loss": [0.3, 0.2, 0.0],
    }
)
LONG = pd.DataFrame(
    {"set": np.repeat(["interpolation", "extrapolation"], 100), "s": np.tile(np.arange(100.0), 2)}
)
KINDS = {
    "forest": lambda: figures.forest(
        EFFECTS, "model", "delta", "Δ nDCG@10", hue="n_train", percent=True
    ),
    "heat": lambda: figures.heat(MATRIX, "without", "on", "RR@10", "RR@10", panel="model"),
    "scatter_map": lambda: figures.scatter_map(
        {"": np.random.default_rng(1).normal(size=(60, 8))},
        ["random"] * 40 + ["test queries"] * 20,
        "set (vectors)",
    ),
    "bars": lambda: figures.bars(SHARES, "set", "percent", "label", "% of the test queries"),
    "curves": lambda: figures.curves(CURVES, "n_train", "y", "regime", "nDCG@10"),
    "bands": lambda: figures.bands(
        CURVES.assign(n_train=[100, 800] * 2, chosen=[True, False] * 2),
        "n_train",
        "y",
        "regime",
        "nDCG@10",
        levels={"BM25": 0.4, "model as given": 0.25},
        log=True,
    ),
    "waterfall": lambda: figures.waterfall(GAIN, "part", "difference", "RR@10", panel="cut"),
    "histogram": lambda: figures.histogram(LONG, "s", "set", "similarity"),
    "scatter": lambda: figures.scatter(
        POINTS, "j", "loss", "model", "shift", "RelLoss", "of", percent=True
    ),
    "scatter of the same": lambda: figures.scatter(
        POINTS.assign(low=POINTS["loss"] - 0.1, high=POINTS["loss"] + 0.1),
        "j",
        "loss",
        "model",
        "shift",
        "RelLoss",
        "of",
        percent=True,
        ends=("low", "high"),
        diagonal="both are equal",
    ),
}


@pytest.mark.parametrize("width", ["page", "column"])
@pytest.mark.parametrize("kind", KINDS)
def test_words_of_a_figure_can_be_read(kind, width):
    page = KINDS[kind]()
    figure = {"page": page, "column": page.column()}[width]
    assert figure.get_size_inches()[0] == {"page": figures.WIDTH, "column": figures.COLUMN}[width]
    assert min(text.get_fontsize() for text in texts(figure)) >= 8
    (left, low), (right, high) = figure.get_tightbbox().get_points()  # nothing is cut at an edge
    assert (
        min(left, low) >= -0.02
        and right <= figure.get_figwidth() + 0.02
        and high <= figure.get_figheight() + 0.02
    )
    for said in (page.alt, page.caption):
        assert said.endswith(".") and "nan" not in said and figure.alt == page.alt
    axes = [axis.get_window_extent() for axis in figure.axes]
    for legend in figure.legends:
        assert not any(legend.get_window_extent().overlaps(box) for box in axes)
    for axis in figure.axes:
        for labels in (axis.get_xticklabels(), axis.get_yticklabels()):
            boxes = [
                label.get_window_extent()
                for label in labels
                if label.get_text() and label.get_visible()
            ]
            level = [box for box in boxes if not any(label.get_rotation() for label in labels)]
            assert not any(
                one.overlaps(other) for one, other in zip(level, level[1:], strict=False)
            )


def test_forest_draws_effects_intervals_and_published_diamonds_at_their_values():
    (axis,) = KINDS["forest"]().axes
    lines, _, effects, diamonds = axis.collections
    assert [segment[:, 0].tolist() for segment in lines.get_segments()] == EFFECTS[
        ["low", "high"]
    ].to_numpy().tolist()
    places = effects.get_offsets()[:, 1]
    assert effects.get_offsets()[:, 0].tolist() == EFFECTS["delta"].tolist()
    assert np.allclose(
        places, [-0.175, 0.175, 0.825, 1.175]
    )  # two sizes of each of two models, from the top
    assert diamonds.get_sizes() == effects.get_sizes()
    shown = diamonds.get_offsets().filled(np.nan)
    assert np.array_equal(shown[:, 0], EFFECTS["published"], equal_nan=True) and np.allclose(
        shown[[0, 2, 3], 1], places[[0, 2, 3]]
    )
    assert [label.get_text() for label in axis.get_yticklabels()] == ["BM25", "DR (base)"]


def test_bands_reach_from_low_to_high_and_levels_lie_at_their_height():
    figure = KINDS["bands"]()
    (axis,) = figure.axes
    for band in axis.collections:
        heights = band.get_paths()[0].vertices[:, 1]
        assert (heights.min(), heights.max()) == (0.2, 0.7)
    lines = [line.get_xydata().tolist() for line in axis.lines]
    assert [[100.0, 0.5], [800.0, 0.6]] in lines and [[100.0, 0.3], [800.0, 0.5]] in lines
    assert [[0.0, 0.4], [1.0, 0.4]] in lines and [[0.0, 0.25], [1.0, 0.25]] in lines
    assert [[100.0, 0.0], [100.0, 1.0]] in lines  # what was chosen
    assert axis.get_xscale() == "log"
    assert [label.get_text() for label in axis.get_xticklabels()] == ["100", "800"]
    assert "BM25: 0.4." in figure.alt
    words = [text.get_text() for text in texts(figure)]
    assert "model as given" in words and "chosen on the gate's queries" in words


def test_rows_of_one_hue_each_stand_at_their_names():
    frame = EFFECTS.assign(row=[f"row {at}" for at in range(len(EFFECTS))], of=["a", "b", "a", "b"])
    (axis,) = figures.forest(frame, "row", "delta", "Δ", hue="of").axes
    assert np.asarray(axis.collections[2].get_offsets())[:, 1].tolist() == [0, 1, 2, 3]


def test_the_simultaneous_interval_of_a_claim_is_a_thin_line_behind_the_thick_one():
    frame = EFFECTS.assign(
        claim_low=[np.nan, np.nan, np.nan, -0.25], claim_high=[np.nan, np.nan, np.nan, 0.05]
    )
    figure = figures.forest(frame, "model", "delta", "Δ", hue="n_train")
    single, joint = figure.axes[0].collections[:2]
    assert joint.get_segments()[-1][:, 0].tolist() == [-0.25, 0.05]
    assert joint.get_linewidth()[0] < single.get_linewidth()[0]
    assert "simultaneous, of a claim" in [text.get_text() for text in texts(figure)]
    assert "simultaneous, of a claim" not in [text.get_text() for text in texts(KINDS["forest"]())]


def test_what_is_excluded_is_hollow_in_its_own_colour():
    figure = figures.forest(
        EFFECTS.assign(excluded=[False, False, True, True]), "model", "delta", "Δ", hue="n_train"
    )
    points = figure.axes[0].collections[2]
    inside, edges = (
        list(map(to_hex, found)) for found in (points.get_facecolors(), points.get_edgecolors())
    )
    assert (
        inside == [*edges[:2], "#ffffff", "#ffffff"] and edges[2:] == edges[:2] != ["#ffffff"] * 2
    )
    assert "excluded: not above BM25" in [text.get_text() for text in texts(figure)]
    assert "excluded: not above BM25" not in [text.get_text() for text in texts(KINDS["forest"]())]


def test_numbers_that_name_a_point_are_rounded_in_words():
    figure = figures.curves(
        CURVES.assign(n_train=CURVES["n_train"] / 3), "n_train", "y", "regime", "nDCG@10"
    )
    assert "0.5 (interpolation, 3.33)" in figure.alt


def test_a_claim_stands_on_the_row_that_it_speaks_of_alone():
    rows = EFFECTS.assign(protocol="ReSTrain", measure="nDCG@10")
    claims = {
        "claim": ["restrain-dense", "resttest-colbert-dense"],
        "low": [-0.25, -1.0],
        "high": [0.05, 1.0],
    }
    found = judgement.on_rows(
        rows, pd.DataFrame(claims)
    )  # at the largest size; a difference of two rows is on none
    assert found[["claim_low", "claim_high"]].dropna().to_dict("index") == {
        3: {"claim_low": -0.25, "claim_high": 0.05}
    }
    assert judgement.on_rows(rows, pd.DataFrame())["claim_low"].isna().all()


def test_the_figure_of_the_answer_is_a_pdf_too_and_each_shows_its_caption(tmp_path):
    nb = Session("00_it", NotebookParameters(), tmp_path, "goal")
    for name in ("main", "other"):
        picture = nb.figure(KINDS["forest"](), name)
    assert picture.alt == KINDS["forest"]().alt and picture.width == 480
    nb.answer("It does.", figure="main")
    written = sorted(path.name for path in (nb.folder / "figures").iterdir())
    assert written == ["main.pdf", "main.png", "main.svg", "other.png", "other.svg"]
    with Image.open(nb.folder / "figures" / "main.png") as found:
        assert (
            found.info["Title"] == KINDS["forest"]().caption
            and found.info["Description"] == picture.alt
        )


def test_forest_says_in_words_what_is_seen_and_what_it_means():
    figure = KINDS["forest"]()
    assert figure.alt == (
        "Forest plot, 4 rows. Δ nDCG@10: 1.0% (BM25, 360), 0.0% (BM25, 1,600), -30.0% (DR (base), 360), -10.0% (DR "
        "(base), 1,600). 2 of 3 published values (diamonds) lie inside the interval there."
    )
    assert (
        figure.caption
        == "Below 0 with the whole interval: DR (base) in 1 of 2. The other intervals include 0."
    )
    arrows = figures.forest(
        EFFECTS, "model", "delta", "← loss   Δ nDCG@10   gain →", hue="n_train", percent=True
    )
    assert arrows.alt == figure.alt  # where an axis points to is for the eye
    none = EFFECTS.assign(low=-1.0, high=1.0)
    assert (
        figures.forest(none, "model", "delta", "Δ", hue="n_train").caption
        == "Every interval includes 0."
    )
    scores = EFFECTS.rename(columns={"delta": "mean"}).drop(columns="published")
    assert (
        "0.01 (BM25, 360)"
        in figures.forest(scores, "model", "mean", "RR@10", hue="n_train").caption
    )
    assert "nterval" not in figures.forest(scores, "model", "mean", "RR@10", hue="n_train").caption


def test_every_variable_has_a_legend_with_its_name():
    figure = figures.scatter(
        POINTS, "j", "loss", "model", "shift", "Δ", "of", percent=True, beside=("BM25", 0.3, 0.1)
    )
    assert [legend.get_title().get_text() for legend in figure.legends] == ["system", "shift", ""]
    (axis,) = figure.axes
    assert [axis.lines[0].get_xdata(), axis.lines[1].get_ydata()] == [[0.3, 0.3], [0.1, 0.1]]
    assert figure.caption == "Above BM25 (dashed) are 1 of 3 points in j, and 2 in Δ."
    repeated = figures.forest(
        EFFECTS[::2], "model", "delta", "Δ", hue="model"
    )  # the rows name the colours
    assert [legend.get_title().get_text() for legend in repeated.legends] == [""]


def test_the_same_figure_has_the_same_bytes_in_another_process(tmp_path, monkeypatch):
    code = """if True:
        import sys, numpy, pandas
        from interextra import figures
        figures.style()
        frame = pandas.DataFrame({"row": ["a", "b"], "delta": [0.1, -0.1], "low": [0, -0.2], "high": [0.2, 0.1]})
        metadata = {"CreationDate": None, "Creator": None, "Producer": None}
        figure = figures.forest(frame, "row", "delta", "← loss   Δ")
        figure.column().savefig(sys.argv[1] + ".pdf", metadata=metadata)
        figure.savefig(sys.argv[1] + ".svg", metadata={"Date": None})
    """
    monkeypatch.setattr(sys, "argv", ["here", str(tmp_path / "one")])
    exec(code, {})
    # strings have another hash seed here, drawn at random or given to this process
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = os.environ | {"PYTHONHASHSEED": seed}
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "two")], check=True, env=environment)
    for suffix in (".pdf", ".svg"):
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()
    assert b"Type3" not in (tmp_path / "one.pdf").read_bytes()


def test_panels_share_one_axis_of_effects():
    both = pd.concat(
        [EFFECTS.assign(measure="a"), EFFECTS.assign(measure="b", delta=-3, low=-4, high=-2)]
    )
    figure = figures.forest(both, "model", "delta", "Δ", panel=["measure"], hue="n_train")
    assert len({axis.get_xlim() for axis in figure.axes}) == 1
    assert [axis.get_title() for axis in figure.axes] == ["a", "b"]


SIX = ["BM25", "BM25, fixed", "Reranker", "ColBERT", "SPLADE", "DR (base)"]


def test_six_systems_under_four_shifts_have_a_colour_each_and_no_label_on_another():
    for draw in (
        lambda frame: figures.forest(
            frame, "model", "delta", "RelLoss", panel="shift", percent=True
        ),
        lambda frame: figures.heat(frame, "n_train", "model", "delta", "τ", panel="shift"),
    ):
        parts = [
            EFFECTS[:1].assign(model=name, shift=shift)
            for shift in ("topics", "wh-words", "length", "question type")
            for name in SIX
        ]
        figure = draw(pd.concat(parts, ignore_index=True))
        figure.draw_without_rendering()
        titles = [axis.title.get_window_extent() for axis in figure.axes if axis.get_title()]
        assert len(titles) == 4 and not any(
            a.overlaps(b) for at, a in enumerate(titles) for b in titles[:at]
        )
        assert not [axis for axis in figure.axes if not axis.axison]  # no place is left empty
    colours = figures.colours_of(pd.DataFrame({"model": SIX}), "model")
    assert len(set(colours.values())) == 6


def test_systems_and_regimes_have_their_own_colour_everywhere():
    for module in architectures().values():
        assert figures.COLOURS[module.LABEL] == module.COLOUR
    frame = EFFECTS.drop(columns="published").replace({"model": {"BM25": "my own"}})
    (axis,) = figures.forest(frame, "n_train", "delta", "Δ", hue="model").axes
    found = [to_hex(colour).upper() for colour in axis.collections[2].get_facecolors()]
    assert (
        found[2:] == [figures.COLOURS["DR (base)"]] * 2 and found[0] not in figures.COLOURS.values()
    )


def test_heat_frames_what_was_left_out_and_colours_it_against_the_others():
    figure = KINDS["heat"]()
    for axis, share in zip(figure.axes[:2], (1, 2), strict=True):
        assert [text.get_text() for text in axis.texts][:2] == [
            f"{0.4 / share:.2f}"[1:],
            f"{0.8 / share:.2f}"[1:],
        ]
        assert np.allclose(axis.images[0].get_array(), -0.5 * np.eye(3))
        assert [patch.get_xy() for patch in axis.patches] == [
            (i - 0.47, i - 0.47) for i in range(3)
        ]
    assert (
        figure.axes[2].get_xlabel().replace("\n", " ")
        == "RR@10, relative to the models trained with it"
    )
    assert figure.caption == (
        "On what was excluded from training, models are below those trained with it in 6 of 6 cells (framed)."
    )
    assert "excluded from training" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_heat_of_other_numbers_is_coloured_where_sure():
    frame = pd.DataFrame(
        {
            "p": ["R", "R", "idf"],
            "model": ["a", "b", "b"],
            "tau": [0.2, -0.004, -0.1],
            "sure": [True, False, True],
        }
    )
    figure = figures.heat(frame, "p", "model", "tau", "τ", sure="sure")
    axis, bar = figure.axes
    assert [text.get_text() for text in axis.texts] == [".20", ".00", "-.10"]
    assert np.array_equal(
        axis.images[0].get_array().filled(np.nan), [[0.2, np.nan], [np.nan, -0.1]], equal_nan=True
    )
    assert axis.images[0].get_clim() == (-0.2, 0.2) and bar.get_xlabel() == "τ"
    assert [patch.get_xy() for patch in axis.patches] == [(-0.5, 0.5)] and axis.patches[
        0
    ].get_hatch()  # not computed
    assert (
        figure.caption
        == "Of 3 values 1 are above 0 and 1 below; the intervals of the other 1 include 0."
    )
    keys = ["white: interval includes 0", "not computed"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == keys


def test_a_panel_of_a_heat_has_the_columns_that_it_has_numbers_of():
    frame = pd.DataFrame(
        {
            "p": ["R"] * 3,
            "model": ["a", "b", "b"],
            "shift": ["u", "u", "v"],
            "tau": [0.2, 0.1, -0.1],
        }
    )
    one, other, _ = figures.heat(frame, "p", "model", "tau", "τ", panel="shift").axes
    assert [len(axis.get_xticklabels()) for axis in (one, other)] == [2, 1]
    assert one.get_position().width == pytest.approx(2 * other.get_position().width, rel=0.2)


def test_map_draws_each_vector_once_in_its_colour():
    figure = KINDS["scatter_map"]()
    (dots,) = offsets(figure.axes[0])
    assert len(dots) == len(np.unique(dots, axis=0)) == 60
    labels = [text.get_text().replace("\u00a0", " ") for text in figure.legends[0].get_texts()]
    assert labels == ["random (40)", "test queries (20)"]
    colours = [to_hex(colour) for colour in figure.axes[0].collections[0].get_facecolors()]
    assert len(set(colours[:40])) == len(set(colours[40:])) == 1 and colours[0] != colours[-1]


def test_long_names_of_a_legend_are_wrapped_inside_the_canvas_with_their_counts():
    vectors = {name: np.random.default_rng(1).normal(size=(60, 8)) for name in "abcd"}
    names = [
        f"what is the {kind} that a reader needs to know about a disease, and how is it treated"
        for kind in "xy"
    ]
    page = figures.scatter_map(vectors, [names[0]] * 40 + [names[1]] * 20, "query (its passages)")
    for figure in (page, page.column()):
        figure.draw_without_rendering()
        [legend] = figure.legends
        box, labels = legend.get_window_extent(), [text.get_text() for text in legend.get_texts()]
        assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1 + 1
        assert [label.replace("\n", " ") for label in labels] == [
            f"{names[0]}\u00a0(40)",
            f"{names[1]}\u00a0(20)",
        ]
        assert all("\n" in label for label in labels)


@pytest.mark.parametrize(
    ("ends", "labels"),
    [((-0.2, 0.2), ["\u221220%", "0%", "20%"]), ((-0.025, 0.025), ["\u22122.5%", "0.0%", "2.5%"])],
)
def test_percentages_of_an_axis_have_the_digits_that_their_steps_need(ends, labels):
    (axis,) = figures.forest(EFFECTS[:1], "model", "delta", "Δ", percent=True).axes
    axis.set_xticks([ends[0], -1e-18, ends[1]])
    assert [label.get_text() for label in axis.get_xticklabels()] == labels


def test_names_of_rows_in_two_lines_do_not_touch():
    frame = EFFECTS.assign(
        row=[f"interpolation: needs the queries of kind {at}" for at in range(len(EFFECTS))]
    )
    page = figures.forest(frame, "row", "delta", "Δ")
    for figure in (page, page.column()):
        figure.draw_without_rendering()
        labels = figure.axes[0].get_yticklabels()
        boxes = [label.get_window_extent() for label in labels]
        assert all("\n" in label.get_text() for label in labels)
        assert not any(one.overlaps(other) for one, other in zip(boxes, boxes[1:], strict=False))


def test_strategies_beside_a_system_have_a_colour_each():
    names = ["BM25", "Random", "STAR", "ADORE", "TCT-ColBERT", "another", "one more"]
    colours = figures.colours_of(pd.DataFrame({"model": names}), "model")
    assert (
        len(set(colours.values())) == len(names)
        and figures.COLOURS["published"] not in colours.values()
    )


def test_bars_are_as_long_as_their_values():
    (axis,) = KINDS["bars"]().axes
    assert [(bar.get_x(), bar.get_width()) for bar in axis.patches] == [
        (0, 60),
        (0, 70),
        (60, 40),
        (70, 30),
    ]


def test_a_part_of_a_waterfall_begins_where_the_part_above_it_ends():
    figure = KINDS["waterfall"]()
    by_kind, by_distance = figure.axes
    places = [(bar.get_x(), bar.get_width()) for bar in by_kind.patches]
    assert np.allclose(places, [(0, 0.5), (0, 0.3), (0.3, -0.1), (0.2, 0.3)])
    assert [to_hex(bar.get_facecolor()) for bar in by_kind.patches][2] == "#d55e00"
    intervals = by_kind.collections[0].get_segments()
    assert np.allclose(intervals[3][:, 0], [0.4, 0.6])
    assert len(by_distance.patches) == 2
    assert figure.caption.startswith("Whole gain 0.5: kept on a left-out kind 0.3; lost to")


def test_curves_pass_through_their_values():
    figure = KINDS["curves"]()
    one, other = figure.axes[0].lines
    assert [one.get_ydata().tolist(), other.get_ydata().tolist()] == [[0.5, 0.6], [0.3, 0.5]]
    assert one.get_color() == figures.COLOURS["interpolation"]
    assert [label.get_text() for label in figure.legends[0].get_texts()] == [
        "interpolation",
        "extrapolation",
    ]
    assert figure.caption == "Every line of nDCG@10 rises with training queries."
    numbered = CURVES.assign(fold=[1, 1, 2, 2], y=[0.5, 0.6, 0.5, 0.3])
    folds = pd.concat([numbered.assign(of=of) for of in "ab"])
    caption = figures.curves(folds, "n_train", "y", "fold", "nDCG@10", panel="of").caption
    assert caption.endswith(": fold 1 in both panels. Lower: fold 2 in both panels.")
    bent = CURVES.assign(y=[0.5, 0.6, 0.3, 0.5])
    bent = pd.concat([bent, bent.assign(n_train=9 * bent["n_train"].max(), y=0.55)])
    caption = figures.curves(bent, "n_train", "y", "regime", "nDCG@10").caption
    assert caption == "Every line of nDCG@10 is higher at its end than at its beginning."


def test_intervals_of_curves_stand_side_by_side_and_a_published_level_is_dotted():
    frame = CURVES.assign(published=0.55)
    axis = figures.curves(frame, "n_train", "y", "regime", "nDCG@10").axes[0]
    first, level, second, _ = axis.lines
    assert (np.array(first.get_xdata()) < np.array(second.get_xdata())).all()
    assert level.get_ydata() == [0.55, 0.55] and level.get_linestyle() == ":"
    bare = figures.curves(
        frame.drop(columns=["low", "high", "published"]), "n_train", "y", "regime", "nDCG@10"
    ).axes[0]
    assert [line.get_xdata().tolist() for line in bare.lines] == [[10, 100]] * 2


def test_every_dot_of_a_distribution_is_a_twentieth_of_it():
    (axis,) = KINDS["histogram"]().axes
    first, second = (np.array(dots) for dots in offsets(axis))
    assert len(first) == len(second) == 20
    assert np.allclose(first[:, 0], np.quantile(np.arange(100), (np.arange(20) + 0.5) / 20))
    assert first[:, 1].max() < second[:, 1].min()
    assert [list(line.get_xdata()) for line in axis.lines] == [[49.5, 49.5]] * 2  # medians
    (axis,) = figures.histogram(LONG.assign(s=1.0), "s", "set", "similarity").axes  # one pile each
    first, second = (np.array(dots) for dots in offsets(axis))
    assert first[:, 1].max() < second[:, 1].min()


def test_scatter_draws_points_and_no_line_through_them():
    (axis,) = KINDS["scatter"]().axes
    assert offsets(axis) == [POINTS[["j", "loss"]].to_numpy().tolist()]
    assert [line.get_ydata() for line in axis.lines] == [[0, 0]]


def test_undefined_effects_leave_a_gap():
    """A side whose mean is 0 has no relative effect; a figure of a tiny collection may have only
    such effects.
    """
    undefined = EFFECTS.assign(delta=np.nan, low=np.nan, high=np.nan)
    assert (
        "none of them defined"
        in figures.forest(undefined, "model", "delta", "Δ", hue="n_train").alt
    )
    some = pd.concat([EFFECTS, undefined.assign(model="none")])
    assert len(figures.forest(some, "model", "delta", "Δ", hue="n_train").axes[0].get_yticks()) == 3
    zero = MATRIX.assign(**{"RR@10": 0.0})
    assert (
        "in 0 of 6 cells"
        in figures.heat(zero, "without", "on", "RR@10", "RR@10", panel="model").caption
    )
    gap = POINTS.assign(loss=[0.3, np.nan, 0.0])
    (axis,) = figures.scatter(
        gap, "j", "loss", "model", "shift", "RelLoss", "of", percent=True
    ).axes
    assert len(offsets(axis)[0]) == 2
    figures.scatter(
        gap.assign(loss=np.nan), "j", "loss", "model", "shift", "RelLoss", "of", percent=True
    )
    figures.curves(CURVES.assign(y=np.nan), "n_train", "y", "regime", "nDCG@10")
    with pytest.raises(InputError, match="nothing to draw"):
        figures.curves(CURVES[:0], "n_train", "y", "regime", "nDCG@10")


def test_what_shows_differences_says_so_and_has_a_line_at_zero():
    """A reader took a difference for a level: its axis had the name of the measure, and no 0."""
    frame = CURVES.rename(columns={"y": "difference"})
    figure = figures.curves(frame, "n_train", "difference", "regime", "nDCG@10")
    assert figure.get_supylabel() == "difference in nDCG@10"
    (axis,) = figure.axes
    assert [0, 0] in [list(line.get_ydata()) for line in axis.lines]
    low, high = axis.get_ylim()
    assert low <= 0 <= high
    effects = EFFECTS.rename(columns={"delta": "difference"})
    forest = figures.forest(effects, "model", "difference", "nDCG@10", hue="n_train")
    assert forest.get_supxlabel() == "difference in nDCG@10"
    forest = figures.forest(effects, "model", "difference", "A minus B", hue="n_train")
    assert forest.get_supxlabel() == "A minus B"


def test_doublings_are_written_as_numbers():
    """The ticks of an axis were logarithms: 2, 3, 4 for 4, 8, 16."""
    frame = CURVES.assign(n_train=[4, 16] * 2)
    figure = figures.curves(frame, "n_train", "y", "regime", "recall@10", log=True)
    (axis,) = figure.axes
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["4", "16"]
    first, second, *_ = axis.lines
    assert (np.array(first.get_xdata()) < np.array(second.get_xdata())).all()


def test_bm25_has_its_own_colour_where_it_alone_has_a_hue():
    frame = EFFECTS.assign(text=["no model", "no model", "target", "other"])
    (axis,) = figures.forest(frame, "model", "delta", "Δ", hue="text").axes
    edges = [to_hex(colour) for colour in axis.collections[2].get_edgecolors()]
    assert edges[:2] == [figures.COLOURS["BM25"].lower()] * 2
    assert len(set(edges)) == 3

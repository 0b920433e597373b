"""Figures that an experiment asks for: drawn as described, in the page and for scripts; what fails is named."""

from __future__ import annotations

import base64
import io
import json
import math
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from intertwine.errors import InputError
from intertwine.experiments import Panel, Panels, Plot, Series, Table
from intertwine.report import DataTable, Note, experiment_page, inline_svg
from intertwine.report.draw._blocks import figure_blocks
from intertwine.report.draw._panels import panels_figure
from intertwine.report.draw._plot import plot_figure
from tests.report.sample_experiment import COMPARISON, EXPERIMENT, HOSTILE, RUNS, sample_figures, with_figures


def words(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.texts]


def drawn(panels: Panels) -> list[np.ndarray[Any, Any]]:
    """The pixels of the embedded images, as a browser decodes them."""
    svg = inline_svg(panels_figure(panels), name="x", title="x")
    codes = re.findall(r'href="data:image/png;base64,\s*([^"]+)"', svg)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(code))).convert("RGB")) for code in codes]


# -- plots -----------------------------------------------------------------------------------------------------


def simple(*series: Series, **options: Any) -> Plot:
    return Plot("title", "x (m)", "y (s)", series, **options)


def test_means_with_the_range_of_seeds():
    figure = plot_figure(simple(Series("a", [(2, [5.0]), (1, [1.0, 2.0, 6.0])])))
    (axes,) = figure.axes
    (line,) = axes.get_lines()
    assert line.get_xydata().tolist() == [[1, 3], [2, 5]]  # sorted by x
    (band,) = axes.collections
    corners = band.get_paths()[0].vertices
    assert {1.0, 6.0} <= {y for x, y in corners.tolist() if x == 1}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("x (m)", "y (s)")
    assert words(figure) == ["a (n = 1 to 3)"]


def test_points_that_are_not_joined_have_bars():
    figure = plot_figure(simple(Series("a", [(1, [1.0, 3.0]), (2, [2.0, 2.0])], joined=False)))
    (axes,) = figure.axes
    assert axes.get_lines()[0].get_linestyle() == "None"
    assert axes.collections[0].get_segments()[0].tolist() == [[1, 1], [1, 3]]


def test_published_series_are_drawn_as_published_beside_ours():
    figure = plot_figure(simple(Series("a", [(1, [1.0]), (2, [2.0])]), Series("a", [(1, [1.5])], published=True)))
    ours, given = figure.axes[0].get_lines()
    assert ours.get_color() == given.get_color()
    assert ours.get_markerfacecolor() == ours.get_color()
    assert given.get_markerfacecolor() != given.get_color()
    assert ours.get_linestyle() != given.get_linestyle()
    assert words(figure) == ["a", "a (published)"]


def test_more_series_than_colors_can_be_told_apart():
    figure = plot_figure(simple(*(Series(str(k), [(1, [float(k)])]) for k in range(14))))
    looks = {(line.get_color(), line.get_marker()) for line in figure.axes[0].get_lines()}
    assert len(looks) == 14


def test_axes_are_logarithmic_where_they_were_asked_for_and_can_be():
    points = [(10.0, [1.0]), (20_000.0, [2.0])]
    figure = plot_figure(simple(Series("a", points), x_scale="log"))
    assert figure.axes[0].get_xscale() == "log"
    assert figure.axes[0].get_xlabel() == "x (m), log scale"
    assert plot_figure(simple(Series("a", points))).axes[0].get_xscale() == "linear"
    with_zero = plot_figure(simple(Series("a", [(0.0, [1.0]), *points]), x_scale="log"))
    assert with_zero.axes[0].get_xscale() == "linear"
    assert with_zero.axes[0].get_xlim()[0] <= 0  # nothing is left out
    narrow = plot_figure(simple(Series("a", [(30.0, [1.0]), (40.0, [2.0])]), x_scale="log"))
    low, high = narrow.axes[0].get_xlim()
    assert sum(low <= tick <= high for tick in narrow.axes[0].get_xticks()) >= 2


def test_values_that_are_no_numbers_are_left_out_and_empty_series_named():
    bad = Series("bad", [(1, [math.nan]), (math.inf, [1.0])])
    figure = plot_figure(simple(Series("good", [(1, [2.0, math.nan])]), bad))
    assert [line.get_xydata().tolist() for line in figure.axes[0].get_lines()] == [[[1, 2]]]
    assert words(figure) == ["good", "bad (no values)"]
    with pytest.raises(InputError, match="figure 'title': expected finite points; got none"):
        plot_figure(simple(bad))


def test_long_titles_are_shortened_and_long_labels_broken():
    figure = plot_figure(Plot("t", "x " * 60, "y " * 40, [Series("word " * 40, [(1, [1.0])])]))
    assert len(words(figure)[0]) <= 46
    assert "\n" in figure.axes[0].get_xlabel()
    assert "\n" in figure.axes[0].get_ylabel()


# -- images ----------------------------------------------------------------------------------------------------


def test_signed_numbers_are_centered_on_zero():
    values = torch.tensor([[-2.0, 0.0], [1.0, 2.0]])
    image, scale = drawn(Panels("t", [("", [Panel(values)])], "diverging"))
    assert image.shape == (2, 2, 3)  # the pixels, not an enlargement
    assert image[0, 1].min() > 240  # zero is nearly white
    assert image[0, 0, 2] > image[0, 0, 0]  # negative: blue
    assert image[1, 1, 0] > image[1, 1, 2]  # positive: red
    assert np.abs(image[0, 0].astype(int) - scale[0, 0]).max() <= 1
    texts = words(panels_figure(Panels("t", [("", [Panel(values)])], "diverging")))
    assert texts == ["−2.00", "2.00", "0"]


def test_a_range_is_shared_or_not():
    rows = [("", [Panel(torch.tensor([[0.0, 1.0]])), Panel(torch.tensor([[0.0, 4.0]]))])]
    first, second, _ = drawn(Panels("t", rows, "amount"))
    assert first[0, 1].tolist() != second[0, 1].tolist()
    first, second = drawn(Panels("t", rows, "amount", shared=False))  # and no scale, as there is not one
    assert first[0, 1].tolist() == second[0, 1].tolist()


def test_gray_images_between_zero_and_one_are_not_stretched():
    image, _ = drawn(Panels("t", [("", [Panel(torch.tensor([[0.25, 0.5]]))])]))
    assert np.abs(image[0, :, 0].astype(int) - [64, 128]).max() <= 1
    image, _ = drawn(Panels("t", [("", [Panel(torch.tensor([[-3.0, 5.0]]))])]))
    assert image[0, :, 0].tolist() == [0, 255]


def test_colors_stay_and_what_is_held_out_is_gray_and_pale():
    color = torch.tensor([1.0, 0.0, 0.2])[:, None, None].expand(3, 2, 2)
    plain, held = drawn(Panels("t", [("", [Panel(color), Panel(color, quiet=True)])]))
    assert plain[0, 0].tolist() == [255, 0, 51]
    assert len(set(held[0, 0].tolist())) == 1
    assert 100 < held[0, 0, 0] < 200


def test_missing_values_and_constant_images():
    image, _ = drawn(Panels("t", [("", [Panel(torch.tensor([[math.nan, 1.0, 2.0]]))])], "amount"))
    assert len(set(image[0, 0].tolist())) == 1
    for colors in ("diverging", "amount", "gray"):
        for value in (0.0, -1.0, 7.0, math.nan):
            assert drawn(Panels("t", [("", [Panel(torch.full((2, 2), value))])], colors))


def test_large_images_are_averaged_down():
    large = Panel(torch.rand(1000, 500))
    image = drawn(Panels("t", [("", [large, large])]))[0]
    assert image.shape == (192, 96, 3)
    assert drawn(Panels("t", [("", [large])]))[0].shape == (640, 320, 3), "one alone is shown larger"
    assert 100 < image.mean() < 155


def test_long_rows_go_on_in_the_next_line_and_stay_inside():
    figure = panels_figure(Panels("t", [("a", [Panel(torch.rand(4, 4), f"{k} degrees") for k in range(30)])]))
    boxes = [axes.get_position() for axes in figure.axes]
    assert min(box.x0 for box in boxes) >= 0
    assert max(box.x1 for box in boxes) <= 1
    assert min(box.y0 for box in boxes) >= 0
    assert len({round(box.y0, 6) for box in boxes}) > 3
    for k, one in enumerate(boxes):
        for other in boxes[k + 1 :]:
            assert not one.overlaps(other)


@pytest.mark.parametrize("shape", [(4,), (2, 4, 4), (0, 4)])
def test_images_of_another_shape_are_errors(shape):
    with pytest.raises(InputError, match=r"images \(height, width\) or \(3, height, width\)"):
        panels_figure(Panels("t", [("", [Panel(torch.zeros(shape), "odd")])]))


def test_no_images_are_an_error():
    with pytest.raises(InputError, match="figure 't': expected images; got none"):
        panels_figure(Panels("t", [("a", [])]))


# -- the page --------------------------------------------------------------------------------------------------


def test_the_section_has_every_figure_and_scripts_their_numbers():
    text = experiment_page(*with_figures(), scale="small")
    labels = re.findall(r'aria-label="([^"]*)"', text)
    for title in ("error against size", "filters", "pictures", "counts of parts"):
        assert title in labels
    assert "Markers are means over n seeds" in text
    assert "How to read it." in text
    assert ">1,200<" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert [figure["kind"] for figure in data["figures"]] == ["plot", "panels", "panels", "table"]
    assert data["figures"][0]["series"][0]["points"][0] == [20_000, [3.0, 4.0, 3.6]]
    assert data["figures"][0]["series"][0]["points"][2] == [90_000, [None]]  # JSON has no NaN
    assert data["figures"][3]["rows"][1] == ["second", None, 87.5]
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))


def test_a_page_without_figures_has_no_such_section():
    assert ">Figures<" not in experiment_page(EXPERIMENT, COMPARISON, RUNS, scale="small")
    experiment = replace(EXPERIMENT, figures=sample_figures)
    assert ">Figures<" not in experiment_page(experiment, COMPARISON, [], scale="small")


def test_a_function_that_raises_does_not_lose_the_page():
    def fails(runs):
        raise KeyError("no-such-row")

    text = experiment_page(replace(EXPERIMENT, figures=fails), COMPARISON, RUNS, scale="small")
    assert "could not be drawn" in text
    assert "KeyError: &#39;no-such-row&#39;" in text
    assert "Every run" in text


def test_a_generator_that_raises_midway_is_told_too():
    def fails(runs):
        yield sample_figures(runs)[0]
        raise ValueError("later")

    assert "ValueError: later" in experiment_page(replace(EXPERIMENT, figures=fails), COMPARISON, RUNS, scale="small")


def test_a_figure_that_cannot_be_drawn_is_named_between_the_others():
    figures = sample_figures(RUNS)
    broken = Plot("nothing", "x", "y", [])
    ragged = Table("ragged", ("a", "b"), [["one", 1], ["two"]])
    blocks = figure_blocks([figures[0], broken, ragged, figures[3]], plots=True)
    notes = [block.heading for block in blocks if isinstance(block, Note)]
    assert notes == ["The figure “nothing” could not be drawn.", "The figure “ragged” could not be drawn."]
    assert sum(isinstance(block, DataTable) for block in blocks) == 1


def test_things_that_are_no_figures_do_not_lose_the_page():
    def figures(runs):
        return [None, sample_figures(runs)[3]]

    text = experiment_page(replace(EXPERIMENT, figures=figures), COMPARISON, RUNS, scale="small")
    assert "expected Plot, Panels or Table; got NoneType" in text
    assert "Counts of parts" in text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    assert ["error" in figure for figure in data["figures"]] == [True, False]
    with pytest.raises(InputError, match="Series: expected points"):
        Series("a", [(1, ["text"])])


def test_without_matplotlib_tables_remain(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = experiment_page(*with_figures(), scale="small")
    assert "<svg" not in text
    assert "Counts of parts" in text


def test_markup_in_figures_stays_text():
    def figures(runs):
        return [
            Plot(HOSTILE, HOSTILE, HOSTILE, [Series(HOSTILE, [(1, [1.0])])], HOSTILE),
            Panels(HOSTILE, [(HOSTILE, [Panel(torch.rand(2, 2), HOSTILE)])], caption=HOSTILE),
            Table(HOSTILE, (HOSTILE, "b"), [[HOSTILE, 1]], HOSTILE),
        ]

    text = experiment_page(replace(EXPERIMENT, figures=figures), COMPARISON, RUNS, scale="small")
    assert len(re.findall(r"<script", re.sub(r'<script type="application/json".*?</script>', "", text))) == 1
    assert "could not be drawn" not in text


def test_a_page_with_many_images_is_light():
    def figures(runs):
        color = torch.rand(48, 3, 64, 64)
        return [Panels("many", [("row", [Panel(image) for image in color])])]

    text = experiment_page(replace(EXPERIMENT, figures=figures), COMPARISON, RUNS, scale="small")
    assert len(text.encode()) < 1_300_000  # noise, which does not compress

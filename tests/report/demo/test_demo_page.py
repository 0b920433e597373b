"""The page of the demonstration, from numbers that were not trained."""

from __future__ import annotations

import pytest
import torch
from matplotlib.patches import Rectangle

from intertwine.demo import Demo, Scores
from intertwine.relaxed import RelaxationTable
from intertwine.report import demo_page
from intertwine.report.demo._chart import score_bars, turning_picture
from intertwine.report.draw._svg import INK, SERIES

POSES = ("upright", "turned", "turned by 90", "turned by 180", "turned by 270", "invariance error")


def row(name: str, *values: tuple[float, ...]) -> Scores:
    return Scores(name, "a network", 100, dict(zip(POSES, values, strict=True)))


PLAIN = row("plain", (0.98, 0.94), (0.22, 0.2), (0.1, 0.1), (0.4, 0.4), (0.16, 0.1), (1.1, 1.2))
STRICT = row("equivariant", *[(0.92, 0.92)] * 5, (1e-7, 1e-7))


def boxes(figure, color: str) -> list[Rectangle]:
    from matplotlib.colors import to_hex

    return [each for each in figure.artists if isinstance(each, Rectangle) and to_hex(each.get_facecolor()) == color]


def test_bars_are_as_long_as_the_means_and_lines_span_the_seeds():
    figure = score_bars([PLAIN, STRICT], {"upright": "upright", "turned": "turned"})
    full = max(box.get_width() for box in figure.artists if box not in boxes(figure, SERIES[0]))
    for color, means in zip(SERIES, ((0.96, 0.92), (0.21, 0.92)), strict=False):
        bars = boxes(figure, color)[:-1]  # the last is the key
        assert [bar.get_width() / full for bar in bars] == pytest.approx(means)
    assert [line.get_width() / full for line in boxes(figure, INK)] == pytest.approx([0.04, 0.02])
    texts = [text.get_text() for text in figure.texts if "%" in text.get_text()]
    assert texts == ["96.0%", "21.0%", "92.0%", "92.0%"]


def test_the_turning_picture_has_one_bar_per_network_and_pose():
    figure = turning_picture(torch.rand(16, 16), [PLAIN, STRICT])
    heights = [bar.get_height() for bar in boxes(figure, SERIES[0])[:-1]]
    assert [height / heights[0] for height in heights] == pytest.approx([1, 0.1 / 0.96, 0.4 / 0.96, 0.13 / 0.96])
    assert len(figure.axes) == 4, "the digit in four poses"


def test_the_page_says_the_main_thing_first():
    text = demo_page(Demo(impose=[PLAIN, STRICT], digit=torch.rand(16, 16)))
    assert text.index("from 96% to 21%") < text.index("stays at 92%") < text.index("<figure") < text.index("Impose:")
    assert "Relax:" not in text, "verbs without numbers are left out"


def test_tables_show_means_and_ranges():
    measure = [Scores("made symmetric", "x", 1, dict.fromkeys(("accuracy", "changed answers"), (0.5, 0.7)))]
    measure[0].values["invariance error"] = (0.25, 0.25)  # type: ignore[index]
    text = demo_page(Demo(measure=measure))
    for words in ("60.0", "50.0–70.0", "0.25"):
        assert words in text


def test_dials_are_drawn_by_layer_beside_their_start():
    learned = RelaxationTable((("a", "Soft", {"C4": 0.2}, {}), ("b", "Soft", {"C4": 0.7}, {})))
    start = RelaxationTable((("a", "Soft", {"C4": 0.0}, {}), ("b", "Soft", {"C4": 0.0}, {})))
    relax = [Scores("strict", "x", 1, dict.fromkeys(("all digits", "6 and 9", "other digits"), (0.5,)))]
    text = demo_page(Demo(relax=relax, dials=[learned], dials_at_start=[start]))
    for words in ("The learned dial", "at the start", "learned"):
        assert words in text
    assert "at the start" not in demo_page(Demo(relax=relax))

"""The page of the demonstration, from numbers that were not trained."""

from __future__ import annotations

import pytest
from matplotlib.patches import Rectangle

from intertwine.experiments import Demo, DemoNetwork
from intertwine.relaxed import RelaxationTable
from intertwine.report import demo_page
from intertwine.report.demo._chart import accuracy_chart
from intertwine.report.draw._svg import SERIES

PLAIN = DemoNetwork("plain", "impose", "no symmetry", 100, 0.96, 0.21, 1.1)
STRICT = DemoNetwork("equivariant", "impose", "all of it", 90, 0.92, 0.92, 1e-7)


def test_bars_are_as_long_as_the_accuracies():
    figure = accuracy_chart([PLAIN, STRICT])
    boxes = [artist for artist in figure.artists if isinstance(artist, Rectangle)]
    colors = {color: [b for b in boxes if _hex(b) == color][:-1] for color in SERIES[:2]}  # the last is the key
    frame = next(box.get_width() for box in boxes if _hex(box) not in SERIES)
    for color, shares in zip(SERIES, ((0.96, 0.92), (0.21, 0.92)), strict=False):
        assert [bar.get_width() / frame for bar in colors[color]] == pytest.approx(shares)
    assert [text.get_text() for text in figure.texts if "%" in text.get_text()] == ["96%", "21%", "92%", "92%"]


def _hex(box: Rectangle) -> str:
    from matplotlib.colors import to_hex

    return to_hex(box.get_facecolor())


def test_the_page_says_the_main_thing_first():
    text = demo_page(Demo(networks=[PLAIN, STRICT]))
    assert text.index("96% → 21%") < text.index("92% → 92%") < text.index("Every network")


def test_relaxation_is_drawn_along_the_depth_beside_its_start():
    learned = RelaxationTable(
        (("a", "Soft", {"C8": 0.2}, {"rotation": 1.0}), ("b", "Soft", {"C8": 0.7}, {"rotation": 1.5}))
    )
    start = RelaxationTable((("a", "Soft", {"C8": 0.9}, {}), ("b", "Soft", {"C8": 0.9}, {})))
    text = demo_page(Demo(networks=[PLAIN], relaxation={"soft": learned}, relaxation_before={"soft": start}))
    for words in ("C8 in the soft network", "at the start", "learned", "0.2000", "0.7000"):
        assert words.lower() in text.lower()
    alone = RelaxationTable((("a", "LowRank", {"translation": 0.2}, {}),))
    assert "translation in the" not in demo_page(Demo(networks=[PLAIN], relaxation={"low-rank": alone}))

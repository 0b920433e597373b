"""The picture of a turning digit in the README, from the results of the demo: ``python turning.py ../../demo``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from intertwine.data import load
from intertwine.demo import Scores
from intertwine.report.demo._chart import turning_picture
from intertwine.report.draw._svg import INK, QUIET, SERIES

COLORS = {INK: "#1b1f24", QUIET: "#57616c", SERIES[0]: "#0a67b0", SERIES[1]: "#c24e00"}
NAMES = {"plain": "a plain network", "equivariant": "an equivariant network with as many weights"}

results = json.loads((Path(sys.argv[1]) / "results.json").read_text())["impose"]
rows = [
    Scores(title, "", 0, {key: tuple(each["values"]) for key, each in results[name].items() if isinstance(each, dict)})
    for name, title in NAMES.items()
]
images, labels = load("digits", size=16).test.as_tensors()
figure = turning_picture(images[labels == 3][0, 0], rows)
for text in figure.texts:
    text.set_color(COLORS[to_hex(text.get_color())])
for box in figure.artists:
    if isinstance(box, Rectangle):
        box.set_facecolor(COLORS[to_hex(box.get_facecolor())])
figure.savefig(Path(__file__).parent / "turning.png", dpi=200, facecolor="white")

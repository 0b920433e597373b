"""Rows of images: maps, filters, reconstructions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from ..._figures import Panel, Panels
from ...errors import InputError
from .._numbers import number
from ._pieces import LETTER, MARGIN, POINT, SMALL, TEXT, WIDTH, shortened
from ._svg import INK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_GAP = 6.0
_LARGEST, _SMALLEST, _ALONE = 84.0, 30.0, 280.0  # side of an image in points: largest, smallest, and of a single image
_PIXELS = 192  # maximum per side: more than a screen shows at this size
_PIXELS_ALONE = 640
_LABEL, _TITLE, _BAR = 20.0, 14.0, 34.0
_COLORS = {"diverging": "RdBu_r", "amount": "viridis", "gray": "gray"}
_FAINT = "#57616c"  # fixed, because images stay on white in dark mode
_MISSING = (0.78, 0.78, 0.78)  # values that are not finite


@dataclass(frozen=True)
class _Layout:
    """The size of an image in points, and the number of images per line."""

    width: float
    height: float
    columns: int


def panels_figure(panels: Panels) -> Figure:
    """Draw rows of images under their labels, wrapping long rows, and the color scale if they share one.

    Images are embedded pixel by pixel. Large ones are averaged down to 192 pixels per side, or 640 if there is only
    one.
    """
    from matplotlib.figure import Figure

    rows = [(label, list(images)) for label, images in panels.rows if images]
    if not rows:
        raise InputError(f"figure {panels.title!r}", expected="images", got="none")
    every = [panel for _, images in rows for panel in images]
    for panel in every:
        _check(panels, panel)
    layout = _arranged(every, max(len(images) for _, images in rows))
    shared = _range(panels, [panel.values for panel in every]) if panels.shared else None
    bar = shared is not None and any(panel.values.dim() == 2 for panel in every)
    height = MARGIN + _BAR * bar
    height += sum(_LABEL * bool(label) + _line(images, layout) * _lines(images, layout) for label, images in rows)
    figure = Figure(figsize=(WIDTH * POINT, height * POINT))
    top = MARGIN / 2
    for label, images in rows:
        if label:
            _text(figure, MARGIN, top + 14.0, height, shortened(label, 52), size=TEXT)
            top += _LABEL
        for k, panel in enumerate(images):
            x = MARGIN + (k % layout.columns) * (layout.width + _GAP)
            below = top + (k // layout.columns + 1) * _line(images, layout) - _GAP
            _draw(figure, panels, panel, shared, (x, below), height, layout)
        top += _line(images, layout) * _lines(images, layout)
    if bar and shared is not None:
        _color_bar(figure, panels, shared, height)
    return figure


def _check(panels: Panels, panel: Panel) -> None:
    shape = tuple(panel.values.shape)
    if not (len(shape) == 2 or (len(shape) == 3 and shape[0] == 3)) or 0 in shape:
        raise InputError(
            f"figure {panels.title!r}",
            expected="images (height, width) or (3, height, width)",
            got=f"{shape} of {panel.title or 'a panel'}",
            fix="Pass one channel or three.",
        )


def _arranged(every: Sequence[Panel], longest: int) -> _Layout:
    room = WIDTH - 2 * MARGIN
    titled = max(len(panel.title) for panel in every)
    least = min(_LARGEST, max(_SMALLEST, titled * LETTER))
    columns = max(1, min(longest, int((room + _GAP) / (least + _GAP))))
    width = min(_ALONE if len(every) == 1 else _LARGEST, (room - _GAP * (columns - 1)) / columns)
    ratio = max(panel.values.shape[-2] / panel.values.shape[-1] for panel in every)
    return _Layout(width, width * min(ratio, 3.0), columns)


def _line(images: Sequence[Panel], layout: _Layout) -> float:
    """The height of a line of this row, including titles."""
    return _TITLE * any(panel.title for panel in images) + layout.height + _GAP


def _lines(images: Sequence[Panel], layout: _Layout) -> int:
    return math.ceil(len(images) / layout.columns)


def _range(panels: Panels, values: Sequence[Tensor]) -> tuple[float, float]:
    """The range of the colors: around zero, from zero up, or from black to white."""
    finite = [part[part.isfinite()] for part in values if part.dim() == 2]
    numbers = torch.cat([part.flatten().to(torch.float64) for part in finite]) if finite else torch.zeros(0)
    if not numbers.numel():
        return 0.0, 1.0
    low, high = float(numbers.min()), float(numbers.max())
    if panels.colors == "diverging":
        largest = max(-low, high) or 1.0
        return -largest, largest
    if panels.colors == "amount":
        return min(low, 0.0), high if high > min(low, 0.0) else 1.0
    if low >= 0 and high <= 1:
        return 0.0, 1.0
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _pixels(panels: Panels, panel: Panel, shared: tuple[float, float] | None) -> np.ndarray[Any, Any]:
    """The image as ``(height, width, 3)`` bytes."""
    from matplotlib import colormaps

    values = panel.values.detach().to("cpu", torch.float64)
    alone = sum(len(images) for _, images in panels.rows) == 1
    max_side = _PIXELS_ALONE if alone else _PIXELS
    if max(values.shape[-2:]) > max_side:
        shrink = max_side / max(values.shape[-2:])
        size = [max(1, round(side * shrink)) for side in values.shape[-2:]]
        values = interpolate(values.reshape(1, -1, *values.shape[-2:]), size, mode="area").reshape(
            *values.shape[:-2], *size
        )
    if values.dim() == 3:
        colors = values.movedim(0, -1).numpy()
        bad = ~np.isfinite(colors).all(-1)
        colors = np.clip(np.nan_to_num(colors), 0, 1)
    else:
        low, high = shared if shared is not None else _range(panels, [values])
        array = values.numpy()
        bad = ~np.isfinite(array)
        colors = colormaps[_COLORS[panels.colors]](np.clip((np.nan_to_num(array) - low) / (high - low), 0, 1))[..., :3]
    colors[bad] = _MISSING
    if panel.quiet:  # gray and paler
        gray = colors @ np.array([0.299, 0.587, 0.114])
        colors = np.repeat((0.45 * gray + 0.55 * 0.85)[..., None], 3, -1)
    return np.round(colors * 255).astype(np.uint8)


def _draw(
    figure: Figure,
    panels: Panels,
    panel: Panel,
    shared: tuple[float, float] | None,
    corner: tuple[float, float],
    height: float,
    layout: _Layout,
) -> None:
    """Draw one image with its title, above and to the right of this corner."""
    from matplotlib.patches import Rectangle

    x, below = corner
    top = below - layout.height
    if panel.title:
        length = max(1, int((layout.width + _GAP) / (0.9 * LETTER)))
        color = _FAINT if panel.quiet else INK
        _text(figure, x, top - 4.0, height, shortened(panel.title, length), size=SMALL, color=color)
    pixels = _pixels(panels, panel, shared)
    tall, wide = pixels.shape[:2]
    scale = min(layout.width / wide, layout.height / tall)
    box = (scale * wide / WIDTH, scale * tall / height)
    origin = (x / WIDTH, 1 - (top + scale * tall) / height)
    axes = figure.add_axes((*origin, *box))
    axes.set_axis_off()
    # "none" keeps the pixels in the file, and the browser enlarges them without blurring.
    axes.imshow(pixels, interpolation="none", aspect="auto", clip_on=False)
    dashes: Any = (0, (2, 2)) if panel.quiet else "-"
    figure.add_artist(Rectangle(origin, *box, fill=False, edgecolor=_FAINT, linewidth=0.6, linestyle=dashes))


def _color_bar(figure: Figure, panels: Panels, shared: tuple[float, float], height: float) -> None:
    """The color scale, labeled with the smallest and the largest value, and zero if it is between them."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    low, high = shared
    width = 120.0
    box = (MARGIN / WIDTH, 18.0 / height, width / WIDTH, 9.0 / height)
    axes = figure.add_axes(box)
    axes.set_axis_off()
    colors = colormaps[_COLORS[panels.colors]](np.linspace(0, 1, 64))[None, :, :3]
    axes.imshow(np.round(colors * 255).astype(np.uint8), interpolation="none", aspect="auto", clip_on=False)
    figure.add_artist(Rectangle(box[:2], *box[2:], fill=False, edgecolor=_FAINT, linewidth=0.6))
    places = max(0, 2 - math.floor(math.log10(high - low)))
    marks = {low: "left", high: "right"} | ({0.0: "center"} if low < 0 < high else {})
    for value, align in marks.items():
        x = MARGIN + width * (value - low) / (high - low)
        _text(figure, x, height - 5.0, height, number(value, min(places, 6) if value else 0), size=SMALL, align=align)


def _text(
    figure: Figure, x: float, y: float, height: float, text: str, *, size: float, color: str = INK, align: str = "left"
) -> None:
    """Draw text with its baseline ``y`` points below the top."""
    figure.text(x / WIDTH, 1 - y / height, text, fontsize=size, color=color, ha=align, va="baseline", parse_math=False)

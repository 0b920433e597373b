"""The layers of an audit, for a page where the reader picks one: its numbers, filters and orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from ...measure import Reading
from .._numbers import significant
from ..draw._pixels import signed_pixels
from ._text import interval, layer_lines, metric_title

_OUTPUTS, _INPUTS = 8, 2


def audit_layers(readings: Sequence[Reading], arrays: Mapping[str, Tensor]) -> list[dict[str, Any]]:
    """Every layer under every symmetry, in execution order, small enough for a page.

    ``filters`` has pairs of pictures (see :func:`signed_pixels`): a filter, and the filter in the same slot of the
    moved and matched network. ``orders`` counts the channels on cycles of length 1, 2, … of the matching. Either is
    None if the audit saved none for the layer.
    """
    layers = []
    for line in layer_lines(readings):
        filters, moved = (arrays.get(f"filters/{line.symmetry}/{line.layer}/{kind}") for kind in ("own", "moved"))
        orders = arrays.get(f"orders/{line.symmetry}/{line.layer}")
        layers.append(
            {
                "layer": line.layer,
                "kind": line.kind,
                "output": line.shape,
                "symmetry": line.symmetry,
                "metrics": [
                    {
                        "name": metric_title(metric),
                        "value": reading.value,
                        "text": significant(reading.value),
                        "interval": interval(reading),
                    }
                    for metric, reading in line.values.items()
                ],
                "filters": None if filters is None or moved is None else _pairs(filters, moved),
                "orders": None if orders is None else [int(count) for count in orders],
            }
        )
    return layers


def first_filters(arrays: Mapping[str, Tensor], symmetry: str) -> tuple[str, Tensor, Tensor] | None:
    """The first layer with saved filters: its name, its filters, and those of the moved network in the same slots."""
    prefix = f"filters/{symmetry}/"
    names = [name[len(prefix) : -len("/own")] for name in arrays if name.startswith(prefix) and name.endswith("/own")]
    for name in names:
        if f"{prefix}{name}/moved" in arrays:
            return name, arrays[f"{prefix}{name}/own"], arrays[f"{prefix}{name}/moved"]
    return None


def _pairs(filters: Tensor, moved: Tensor) -> dict[str, Any]:
    filters, moved = filters[:_OUTPUTS, :_INPUTS], moved[:_OUTPUTS, :_INPUTS]
    top = float(max(filters.abs().max(), moved.abs().max()))
    rows, columns = filters.shape[-2:]
    return {
        "rows": int(rows),
        "columns": int(columns),
        "largest": top,
        "pairs": [
            {
                "title": f"{o + 1} ← {i + 1}",
                "own": signed_pixels(filters[o, i], top),
                "moved": signed_pixels(moved[o, i], top),
            }
            for o in range(filters.shape[0])
            for i in range(filters.shape[1])
        ],
    }

"""One row per block of a network: every layer of a deep network is too many, and their errors go up and down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...measure import Reading
from ._text import LAYER_METRICS, LayerLine

_ADDS = frozenset({"add", "iadd", "radd"})
_WEIGHTED = ("conv", "linear", "gemm", "matmul", "bmm")


def block_lines(lines: Sequence[LayerLine]) -> list[LayerLine]:
    """The blocks of a network, in execution order.

    A block is a module that adds two streams, with everything inside it. Outside such modules it is a convolution or
    linear map with the layers that follow it. Errors are those of the output of the block; other metrics are means over
    its layers.
    """
    blocks: list[tuple[tuple[str, str, int], list[LayerLine]]] = []
    by_symmetry = list(dict.fromkeys(line.symmetry for line in lines))
    for symmetry in by_symmetry:
        under = [line for line in lines if line.symmetry == symmetry]
        residual = {_parent(line.layer) for line in under if line.kind in _ADDS} - {""}
        started, before = 0, None
        by_key: dict[tuple[str, str, int], list[LayerLine]] = {}
        for line in under:
            inside = next((name for name in _ancestors(line.layer) if name in residual), None)
            if inside is None:
                started += before is not None or line.kind.lower().startswith(_WEIGHTED)
            before = inside
            key = (symmetry, inside, 0) if inside is not None else (symmetry, "", started)
            by_key.setdefault(key, []).append(line)
        blocks += by_key.items()
    return [_row(inside, members) for (_, inside, _), members in blocks]


def _row(inside: str, members: Sequence[LayerLine]) -> LayerLine:
    measured = [line for line in members if any(metric in line.values for metric in LAYER_METRICS)]
    last = (measured or members)[-1]
    values = {metric: reading for metric, reading in last.values.items() if metric in LAYER_METRICS}
    others = dict.fromkeys(m for line in members for m in line.values if m not in LAYER_METRICS)
    for metric in others:
        values[metric] = _mean([line.values[metric] for line in members if metric in line.values])
    name = inside or members[0].layer
    kind = f"block of {len(members)}" if inside else _kinds(line.kind for line in members)
    return replace(last, layer=name, kind=kind, values=values)


def _kinds(kinds: Iterable[str]) -> str:
    names = list(dict.fromkeys(kinds))
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _mean(readings: Sequence[Reading]) -> Reading:
    return replace(readings[0], value=sum(r.value for r in readings) / len(readings), low=None, high=None)


def _parent(layer: str) -> str:
    return layer.partition("#")[0].rpartition(".")[0]


def _ancestors(layer: str) -> list[str]:
    """The modules that a layer is in, the innermost first."""
    names = []
    while layer := _parent(layer):
        names.append(layer)
    return names

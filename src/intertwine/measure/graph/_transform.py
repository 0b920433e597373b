"""Networks with flipped or rotated filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ...spaces import AxisMove
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ._axes import Axis, Factor, Label, Lookup, extent, kind_of, length
from ._channel_graph import ChannelGraph, channel_graph
from ._permute import full_state, with_state


@checked
def transform_network(
    model: nn.Module,
    symmetry: SymmetryLike,
    element: int,
    *,
    input_shape: tuple[int, ...],
    graph: ChannelGraph | None = None,
) -> nn.Module:
    """The network Φ̂ with all spatial filters moved by τ = τ_g: Φ̂(τx) = τΦ(x), or Φ(x) for logits.

    This moves the kernels of convolutions (plain, depthwise, grouped, transposed), the columns of linear maps after a
    flattened map, position embeddings and everything else that has rows and columns. Biases, norms and running
    statistics stay. The law holds up to rounding if every strided layer commutes with τ: see :func:`stride_artifacts`.

    Args:
        model: the network.
        symmetry: a name, a space with its group, or a :class:`Symmetry`.
        element: the element g of its group.
        input_shape: the shape of one image, (C, H, W).
        graph: the channel graph of the network, if it is already computed.

    >>> net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3))
    >>> flipped = transform_network(net, "hflip", 1, input_shape=(1, 6, 6))
    >>> x = torch.randn(2, 1, 6, 6)
    >>> torch.allclose(flipped(x.flip(3)), net(x), atol=1e-6)
    True
    """
    symmetry = parse_symmetry(symmetry)
    symmetry.require_axis_move(element, caller="transform_network")
    graph = graph if graph is not None else channel_graph(model, input_shape)
    return with_state(model, transformed_state(graph, full_state(model), symmetry, element, input_shape))


def transformed_state(
    graph: ChannelGraph,
    state: Mapping[str, Tensor],
    symmetry: Symmetry,
    element: int,
    input_shape: tuple[int, ...],
) -> dict[str, Tensor]:
    """Parameters and buffers moved by τ_g."""
    move = symmetry.require_axis_move(element, caller="transform_network")
    order = symmetry.channel_order(element, input_shape[0])
    colors = order is None or (graph.colors_cut and order != tuple(range(input_shape[0])))
    if graph.lost or order is None or colors:
        raise InputError(
            "transform_network",
            expected="a network whose rows and columns can be followed from the image to every filter",
            got=graph.lost[0]
            if graph.lost
            else f"{symmetry.name}, which mixes the {input_shape[0]} input channels, or moves some that are split",
            fix="Write this part with convolutions, pooling and reshapes that keep rows and columns separate.",
        )
    if move.swaps and len(input_shape) == 3 and input_shape[1] != input_shape[2]:
        raise InputError(
            "transform_network",
            expected="square images for quarter turns",
            got=f"{input_shape[1]} x {input_shape[2]}",
            fix="Crop or pad the images to squares, or use hflip and vflip.",
        )
    out = dict(state)
    for name, label in graph.axes.items():
        if name in state:
            out[name] = moved_tensor(name, state[name], label, move, torch.tensor(order))
    return out


def moved_tensor(name: str, value: Tensor, label: Label, move: AxisMove, order: Tensor) -> Tensor:
    """A tensor whose rows, columns and colors have moved; ``label`` says which axes these are."""
    alone = [axis[0][0] if kind_of(axis) in "hw" else Factor("f", 1) for axis in label]
    if move.swaps and [f for f in alone if f.kind in "hw"]:
        pairs = _pairs(alone)
        if pairs is None and {f.kind for f in alone} >= {"h", "w"}:
            raise InputError(
                "transform_network",
                expected="square filters for quarter turns",
                got=f"{name} of shape {tuple(value.shape)}",
                fix="Use hflip and vflip for this network.",
            )
        if pairs is None:
            raise _not_adjacent(name)
        value = _exchanged(value, pairs)
    value = _reversed(value, alone, move)
    for k, axis in enumerate(label):
        if kind_of(axis) in "ci" and any(f.kind in "hwit" for segment in axis for f in segment):
            value = value.index_select(k, _axis_index(name, axis, move, order).to(value.device))
    return value.contiguous()


def _axis_index(name: str, axis: Axis, move: AxisMove, order: Tensor) -> Tensor:
    """The order of a flattened axis after the rows and columns in its segments have moved."""
    parts, start = [], 0
    for segment in axis:
        index = torch.arange(length(segment)).reshape([f.size for f in segment])
        for k, f in enumerate(segment):
            if f.kind == "i" and f.size == len(order):
                index = index.index_select(k, order)
            elif isinstance(f.link, Lookup):
                index = index.index_select(k, _table_index(name, f.size, f.link, move, order))
        if move.swaps and any(f.kind in "hw" for f in segment):
            pairs = _pairs(segment)
            if pairs is None:
                raise _not_adjacent(name)
            index = _exchanged(index, pairs)
        parts.append(_reversed(index, segment, move).reshape(-1) + start)
        start += index.numel()
    return torch.cat(parts)


def _pairs(factors: Sequence[Factor]) -> list[tuple[int, int]] | None:
    """Rows with columns of the same number, windows with windows; None if some have no partner."""
    rows = [k for k, f in enumerate(factors) if f.kind == "h"]
    columns = [k for k, f in enumerate(factors) if f.kind == "w"]
    pairs = []
    for k in rows:
        partner = next((j for j in columns if replace(factors[j], kind="h") == factors[k]), None)
        if partner is None:
            return None
        columns.remove(partner)
        pairs.append((k, partner))
    return None if columns else pairs


def _exchanged(value: Tensor, pairs: Sequence[tuple[int, int]]) -> Tensor:
    for h, w in pairs:
        value = value.transpose(h, w)
    return value


def _reversed(value: Tensor, factors: Sequence[Factor], move: AxisMove) -> Tensor:
    """Rows and columns in reverse where the move says so, around the middle that a cyclic shift has left them."""
    for k, f in enumerate(factors):
        if f.kind in "hw" and move.flips["hw".index(f.kind)]:
            value = value.flip(k).roll(-f.offset, k) if f.offset else value.flip(k)
    return value


def _table_index(name: str, size: int, lookup: Lookup, move: AxisMove, order: Tensor) -> Tensor:
    """The order of a table after what is read from it has moved."""
    read = lookup.index.cpu().flatten() % size
    numbers = torch.arange(len(read)).reshape([extent(axis) for axis in lookup.label])
    moved = moved_tensor(name, numbers, lookup.label, move, order).flatten()
    index = torch.arange(size)
    index[read] = read[moved]
    if not torch.equal(index[read], read[moved]):
        raise InputError(
            "transform_network",
            expected="tables in which places that the symmetry exchanges have entries of their own",
            got=name,
        )
    return index


def _not_adjacent(name: str) -> InputError:
    return InputError(
        "transform_network",
        expected="adjacent rows and columns of equal number for quarter turns",
        got=f"{name}, whose rows and columns differ in number or are on different axes",
        fix="Use hflip and vflip for this network.",
    )

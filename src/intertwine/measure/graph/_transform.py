"""Networks with flipped or rotated filters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..._checked import checked
from ...errors import InputError
from ...spaces import AxisMove
from .._symmetry import Symmetry, SymmetryLike, parse_symmetry
from ._axes import Axis, Label, kind_of
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
    kinds = [kind_of(axis) for axis in label]
    if "h" in kinds and "w" in kinds:
        h, w = kinds.index("h"), kinds.index("w")
        if move.swaps and value.shape[h] != value.shape[w]:
            raise InputError(
                "transform_network",
                expected="square filters for quarter turns",
                got=f"{name} of shape {tuple(value.shape)}",
                fix="Use hflip and vflip for this network.",
            )
        if value.shape[h] * value.shape[w] > 1:
            value = move(value.movedim((h, w), (-2, -1))).movedim((-2, -1), (h, w))
    elif "h" in kinds or "w" in kinds:
        k = kinds.index("h" if "h" in kinds else "w")
        if move.swaps:
            raise _not_adjacent(name)
        value = value.flip(k) if move.flips[0 if "h" in kinds else 1] else value
    for k, axis in enumerate(label):
        if kinds[k] in "ci" and any(f.kind in "hwi" for segment in axis for f in segment):
            value = value.index_select(k, _axis_index(name, axis, move, order).to(value.device))
    return value.contiguous()


def _axis_index(name: str, axis: Axis, move: AxisMove, order: Tensor) -> Tensor:
    """The order of a flattened axis after the rows and columns in its segments have moved."""
    parts, start = [], 0
    for segment in axis:
        sizes = [f.size for f in segment]
        kinds = [f.kind for f in segment]
        index = torch.arange(int(torch.Size(sizes).numel())).reshape(sizes)
        if "i" in kinds and sizes[kinds.index("i")] == len(order):
            index = index.index_select(kinds.index("i"), order)
        if "h" in kinds and "w" in kinds:
            h, w = kinds.index("h"), kinds.index("w")
            if move.swaps and sizes[h] != sizes[w]:
                raise _not_adjacent(name)
            index = move(index.movedim((h, w), (-2, -1))).movedim((-2, -1), (h, w))
        elif "h" in kinds or "w" in kinds:
            if move.swaps:
                raise _not_adjacent(name)
            high = "h" in kinds
            if move.flips[0 if high else 1]:
                index = index.flip(kinds.index("h" if high else "w"))
        parts.append(index.reshape(-1) + start)
        start += index.numel()
    return torch.cat(parts)


def _not_adjacent(name: str) -> InputError:
    return InputError(
        "transform_network",
        expected="adjacent rows and columns of equal number for quarter turns",
        got=f"{name}, whose rows and columns differ in number or are on different axes",
        fix="Use hflip and vflip for this network.",
    )

"""The cost of low-rank layers and their alternatives in products and weights, and maps of their combining weights."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from ..._checked import checked
from ...errors import InputError
from .._places import Padding, Pair, Places
from ._combining_network import dilated_sizes
from ._low_rank import LowRankLocalConv2d
from ._low_rank_input import InputLowRankLocalConv2d


@checked
def wide_conv_width(in_channels: int, out_channels: int, rank: int, *, last: bool = False) -> int:
    """The width of a plain convolution with as many weights as a low-rank layer of this rank.

    The next layer, from Co' channels to Co, grows too: Ci Co' + Co' Co = K Ci Co + Co Co, rounded down. The last
    layer has no next layer: Co' = K Co.

    Args:
        in_channels: Ci.
        out_channels: Co.
        rank: K.
        last: whether no convolution follows.

    >>> [wide_conv_width(3, 64, k) for k in (1, 2, 4)], [wide_conv_width(64, 64, k) for k in (2, 4)]
    ([64, 66, 72], [96, 160])
    """
    if min(in_channels, out_channels, rank) < 1:
        raise InputError(
            "wide_conv_width",
            expected="channels and rank of 1 or more",
            got=f"{in_channels}, {out_channels}, rank {rank}",
        )
    if last:
        return rank * out_channels
    return out_channels * (rank * in_channels + out_channels) // (in_channels + out_channels)


@checked
@dataclass(frozen=True)
class RankCost:
    """Floating point operations per image, 2 per product, at one rank.

    Attributes:
        rank: K.
        conv: a plain convolution: 2 L D Co. A locally connected layer costs the same.
        converted: a low-rank layer after ``to_locally_connected``: the same as ``conv``, for any rank.
        low_rank: a low-rank layer in training: 2 (K L D Co + K L Co).
        input_low_rank: the same plus the network g, if combining weights depend on the input.
        wide: a last convolution that is K times as wide.
    """

    rank: int
    conv: int
    converted: int
    low_rank: int
    input_low_rank: int
    wide: int


@checked
def flops_against_rank(
    in_channels: int,
    out_channels: int,
    kernel_size: Pair,
    *,
    input_size: Pair,
    ranks: range | tuple[int, ...],
    stride: Pair = 1,
    padding: Padding = 0,
) -> list[RankCost]:
    """The cost of one layer at inference for several ranks: constant when converted, linear for the alternatives.

    >>> first, fourth = flops_against_rank(64, 64, 3, input_size=28, ranks=(1, 4))
    >>> first.converted == fourth.converted == first.conv, fourth.low_rank == 4 * first.low_rank
    (True, True)
    """
    places = Places.of("flops_against_rank", input_size, kernel_size, stride=stride, padding=padding)
    conv = 2 * places.count * in_channels * places.window.taps * out_channels
    costs = []
    for rank in ranks:
        mixing = 2 * rank * places.count * out_channels
        network = 2 * combining_network_products(in_channels, rank, places)
        costs.append(RankCost(rank, conv, conv, rank * conv + mixing, rank * conv + mixing + network, rank * conv))
    return costs


def combining_network_products(in_channels: int, rank: int, places: Places) -> int:
    """Products of g per image: H W Ci K + 9 K Σ_r (H − 2r)(W − 2r) + L K² (3 m + 18 + 6) with m branches.

    The last term is 42 K² L if all four dilations fit, m = 6.
    """
    height, width = places.input_size
    dilations = [prod(size) for size in dilated_sizes(places.input_size).values()]
    reduce = height * width * in_channels * rank
    dilated = 9 * rank * sum(dilations)
    return reduce + dilated + (3 * (2 + len(dilations)) + 24) * rank**2 * places.count


@checked
@torch.no_grad()
def combining_maps(layer: LowRankLocalConv2d | InputLowRankLocalConv2d, x: Tensor | None = None) -> Tensor:
    """The weight of each bank at each position: ``(K, Ho, Wo)``, or ``(batch, K, Ho, Wo)`` if it depends on the input.

    >>> layer = LowRankLocalConv2d(1, 4, 3, rank=2, input_size=6)
    >>> combining_maps(layer).sum(0).unique()
    tensor([1.])
    """
    if isinstance(layer, LowRankLocalConv2d):
        return layer.combining_weights().clone()
    if x is None:
        raise InputError(
            "combining_maps",
            expected="images for a layer whose combining weights depend on the input",
            got="none",
        )
    layer.places.check("combining_maps", x, layer.in_type.dim)
    return layer.combining_weights(x)

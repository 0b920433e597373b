"""Convolution of fields in 3-space."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn as torch_nn

from ...groups import SO3, Icosahedral, Octahedral
from ...spaces import Grid3d
from .._layer import Layer, register_layer
from ._conv import Conv


@register_layer
class Conv3d(Conv):
    """(Φf)(x) = Σ_y κ(y) f(x + y) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Shapes: ``(batch, d1, depth, height, width)`` to ``(batch, d2, depth', height', width')``, as ``torch.nn.Conv3d``.

    Equivariance: exact for the groups that keep the cubic lattice (the rotations O of the cube, O_h with its
    reflections, and all their subgroups). For every other subgroup of O(3), the icosahedral groups, SO(3) and O(3)
    among them, the filter is sampled from band-limited kernels: exact under the motions of the cube that the group has,
    approximate under the others.

    In training the filter is made from the weights on each call; in evaluation it is kept until a weight changes, by
    whatever means. The weights are all that is saved.

    Args:
        in_type: fields on a ``Grid3d``.
        out_type: fields on the same space.
        kernel_size: as for ``torch.nn.Conv3d``.
        stride: a stride keeps the symmetry only on sizes where the sampled places are symmetric about the center; other
            sizes are refused at the call, with those that fit.
        padding: a number of samples, or ``"same"``.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        dilation: as for ``torch.nn.Conv3d``.
        groups: splits the fields of the input and of the output into this many equal parts that do not mix.
        bias: one number for each trivial component of the output.
        gain: standard deviation of the output on unit white noise; √2 before a ReLU.
        allow_asymmetric: accept strides, paddings and sizes that break the symmetry.

    >>> import torch
    >>> from intertwine.groups import SO3
    >>> from intertwine.spaces import Grid3d
    >>> so3 = SO3(); space = Grid3d(so3)
    >>> scalars, vectors = space.field(4 * so3.irrep(0)), space.field(2 * so3.irrep(1))
    >>> layer = Conv3d(scalars, vectors, 5, padding=2)
    >>> layer(torch.randn(1, 4, 9, 9, 9)).shape
    torch.Size([1, 6, 9, 9, 9])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]  # on two shells, and no bias
    [('weights.0', (2, 4, 2))]
    """

    dimension = 3
    plain = torch_nn.Conv3d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        cube, so3, ico = Octahedral(), SO3(), Icosahedral()
        space = Grid3d(cube)
        yield cls(space.field(2 * cube.trivial), space.field(cube.regular), 3, padding=1)
        mixed = space.field(cube.irreps[-1] + cube.quotient(cube.subgroup([1])) + cube.irreps[-1])
        yield cls(mixed, mixed, 3, stride=2, padding=1, padding_mode="circular")
        space = Grid3d(so3)
        yield cls(space.field(2 * so3.irrep(0) + so3.irrep(1)), space.field(so3.irrep(1) + so3.irrep(2)), 3, padding=1)
        space = Grid3d(ico)
        yield cls(space.field(ico.trivial + ico.irreps[1]), space.field(ico.irreps[1]), 3, padding=1)

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

    Equivariance: exact for groups that map the cubic lattice to itself (the rotations O of the cube, O_h with its
    reflections, and all their subgroups). For every other subgroup of O(3), including the icosahedral groups, SO(3) and
    O(3), the filter samples band-limited kernels: exact under the motions of the cube that the group contains,
    approximate under the others.

    The filter is recomputed from the weights on every call. In evaluation mode without gradients (``torch.no_grad()``,
    or frozen weights) it is kept until a weight changes, however it changes. Checkpoints hold only the weights.

    Args:
        in_type: fields on a ``Grid3d``.
        out_type: fields on the same space.
        kernel_size: as for ``torch.nn.Conv3d``.
        stride: preserves the symmetry only on sizes where the sampled positions are symmetric about the center; a call
            with another size raises an error that names sizes that fit.
        padding: the number of samples added on each side, or ``"same"``.
        dilation: as for ``torch.nn.Conv3d``.
        groups: splits the input and output fields into this many equal parts that do not mix.
        bias: whether to add a bias, one per trivial component of the output.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        gain: standard deviation of the output on natural images of variance 1; use √2 before a ReLU.
        allow_asymmetric: whether to accept strides, paddings and sizes that break the symmetry.
        rings: the radii of the rings on which a sampled filter is centered, in samples; only for groups that do not map
            the lattice to itself, as are the next two. See :class:`~intertwine.kernels.SteerableKernelBasis`.
        sigma: the width of the rings, in samples.
        band_limit: the largest degree of the harmonics, on all rings or as a function of the radius.
        filters: ``free`` for filters with free taps that are rotated by interpolation, instead of steerable ones; only
            for finite groups that do not map the lattice to itself, and for fields whose channels they permute. See
            :class:`~intertwine.kernels.RotatedKernelBasis`.

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

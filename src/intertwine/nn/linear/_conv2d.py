"""Convolution of fields on the plane."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn as torch_nn

from ...groups import SO2, Cyclic, Dihedral
from ...spaces import Grid2d
from .._layer import Layer, register_layer
from ._conv import Conv


@register_layer
class Conv2d(Conv):
    """(Φf)(x) = Σ_y κ(y) f(x + y) + b with κ(hy) = ρ2(h) κ(y) ρ1(h)⁻¹ for all h in H, and b invariant.

    Shapes: ``(batch, d1, height, width)`` to ``(batch, d2, height', width')``, as ``torch.nn.Conv2d``.

    Equivariance: exact for groups that map the lattice to itself (C1, C2, C4, D1, D2, D4), with weights tied by index.
    For every other subgroup of O(2) the filter samples band-limited kernels: exact under rotations of the lattice,
    approximate under others.

    The filter is recomputed from the weights on every call. In evaluation mode without gradients (``torch.no_grad()``,
    or frozen weights) it is kept until a weight changes, however it changes. Checkpoints hold only the weights.

    Args:
        in_type: fields on a ``Grid2d``.
        out_type: fields on the same plane.
        kernel_size: as for ``torch.nn.Conv2d``.
        stride: preserves the symmetry only on sizes where the sampled positions are symmetric about the center; a call
            with another size raises an error that names sizes that fit.
        padding: the number of samples added on each side, or ``"same"``.
        dilation: as for ``torch.nn.Conv2d``.
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
    >>> from intertwine.groups import Dihedral
    >>> from intertwine.spaces import Grid2d
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> layer = Conv2d(plane.field(3 * D4.trivial), plane.field(8 * D4.regular), 5, padding=2)
    >>> layer(torch.randn(2, 3, 17, 17)).shape
    torch.Size([2, 64, 17, 17])
    >>> [(name, tuple(p.shape)) for name, p in layer.named_parameters()]
    [('bias', (8,)), ('weights.0', (8, 3, 25))]
    """

    dimension = 2
    plain = torch_nn.Conv2d

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, D1, C8, so2 = Cyclic(4), Dihedral(4), Dihedral(1), Cyclic(8), SO2()
        plane = Grid2d(C4)
        regular = plane.field(2 * C4.regular)
        yield cls(plane.field(3 * C4.trivial), regular, 3, padding=1)
        yield cls(regular, regular, 3, padding=1, padding_mode="circular", groups=2)
        yield cls(regular, plane.field(C4.irrep(2) + C4.regular + C4.irrep(2)), 5, stride=2, padding=2)
        plane = Grid2d(D4)
        mixed = plane.field(D4.regular + D4.trivial + D4.quotient(D4.subgroup([4])))
        yield cls(mixed, plane.field(D4.irrep(1) + D4.regular), 3, padding=1)
        yield cls(mixed, mixed, 2, stride=2)
        plane = Grid2d(D1)
        yield cls(plane.field(D1.regular), plane.field(2 * D1.regular), (3, 5), padding=(1, 2), bias=False)
        plane = Grid2d(C8)
        yield cls(plane.field(2 * C8.regular), plane.field(C8.regular), 5, padding=2)
        yield cls(plane.field(C8.regular), plane.field(C8.regular), 5, padding=2, rings=(0, 2), sigma=0.5, band_limit=1)
        yield cls(
            plane.field(C8.trivial + C8.quotient(C8.subgroup([4]))),
            plane.field(C8.regular),
            5,
            padding=2,
            filters="free",
        )
        yield cls(plane.field(2 * C8.regular), plane.field(C8.regular), 4, filters="free")
        plane = Grid2d("D6", lattice="hexagonal")
        yield cls(plane.field("2*trivial"), plane.field("regular + irrep1"), 3, padding=1)
        yield cls(plane.field("regular"), plane.field("regular"), 5, padding=2, stride=2, bias=False)
        plane = Grid2d(so2)
        fields = plane.field(so2.irrep(0) + so2.irrep(1) + so2.irrep(2))
        yield cls(fields, fields, 5, padding=2)

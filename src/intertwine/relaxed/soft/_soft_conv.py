"""Convolution whose kernel may depend on the place, by a dial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ..._checked import Floats, checked
from ...nn import register_layer
from ...spaces import FieldType
from .._relaxed_layer import RelaxedLayer, scalars
from ..low_rank._local import require_trivial_group
from ._kernel_net import Parts
from ._soft_layer import Domain, SoftLayer, check_softness, make_net


@register_layer
class SoftConv2d(SoftLayer):
    """(Φf)(u) = Σ_a k(ω a, ω' b) f(u + a) + bias, where b is the place u + a of the input, or u.

    The kernel is a small network of the displacement a and of the place b. With the domain frequency ω' = 0 it does
    not see the place, and the layer is an ordinary convolution; as ω' grows, the kernel may change faster and faster
    over the image. ω = ω' = 0 is a sum over the support.

    Shapes: ``(batch, in_channels, height, width)`` to ``(batch, out_channels, height', width')``.

    Equivariance: under translations, away from the border, exactly if ω' = 0.

    No kernel is kept for each place of the image: they are made for one row at a time, or not at all, whichever is
    cheaper at the sizes of the call. With ω' = 0 that is not learned the layer is a plain convolution.

    Args:
        in_type: scalars on the plane, or their number.
        out_type: the same for the output.
        kernel_size: of the square around the support.
        softness: ω', or (ω'_row, ω'_column).
        learn: is ω' a parameter? See :func:`relaxation_penalty` for its prior.
        domain: is b the place in the ``input`` (as published) or in the ``output`` (somewhat cheaper)?
        padding: ``same``, ``valid`` or a number of zeros on each side.
        support: ``disk``, the inscribed disk (29 of 49 places), or ``square``.
        net: ``joint`` (the published sizes) or ``fourier`` (the published formulas).
        hidden: units of the network.
        activation: ``cos`` or ``sin``, for the joint network.
        frequency: ω.
        bias: one number for each channel.
        variant: which of ``VARIANTS`` computes it; None for the cheapest.

    References: van der Ouderaa, Romero, van der Wilk, *Relaxing equivariance constraints with non-stationary
    continuous filters*, 2022.

    >>> layer = SoftConv2d(3, 8, 7, softness=0.5, learn=True)
    >>> layer(torch.randn(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    >>> layer.dial(), 0 < layer.relaxation()["translation"] < 1
    ({'translation': 0.707...}, True)
    >>> layer.to_equivariant_().claim
    Relaxed(translation=0.0)
    """

    translation_softness: Tensor

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: int = 7,
        *,
        softness: float | Sequence[float] = 0.5,
        learn: bool = False,
        domain: Domain = "input",
        padding: str | int = "same",
        support: str = "disk",
        net: Literal["joint", "fourier"] = "joint",
        hidden: int = 32,
        activation: Literal["cos", "sin"] = "cos",
        frequency: float = 1.0,
        bias: bool = True,
        variant: str | None = None,
    ) -> None:
        caller = type(self).__name__
        super().__init__(
            scalars(caller, "in_type", in_type),
            scalars(caller, "out_type", out_type),
            kernel_size=kernel_size,
            padding=padding,
            support=support,
            softness={"translation": check_softness(caller, softness, 2)},
            learn=learn,
            domain=domain,
            bias=bias,
            variant=variant,
        )
        require_trivial_group(caller, self.in_type, self.out_type)
        self.frequency = frequency
        sizes = (self.in_type.dim, self.out_type.dim)
        self.net = make_net(
            caller, net, sizes, relative=(2,), absolute=(2,), angular=(), hidden=hidden, activation=activation
        )

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The layer on plain images."""
        self._require_channels(x, self.in_type.dim)
        return self._layer(x[:, :, None], 1, None, (), ())[:, :, 0]

    def compute(self, x: Tensor) -> Tensor:
        """The map itself."""
        return self._by_unfolding(x[:, :, None], None)[:, :, 0]

    def _coordinates(self, device: torch.device, where: Any, place: Tensor | None) -> tuple[Parts, Parts]:
        relative = (self.frequency * self.support.displacements(device)).to(self.net.weight)
        return [relative[None, None, None, :, None]], [place]

    def _fixed(self, g: int = 0) -> Any:
        return None

    def _group_sizes(self) -> tuple[int, int]:
        return 1, 1

    def _turn(self, g: int) -> Tensor:
        return torch.eye(2, dtype=torch.float64)

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """Both networks, both domains, both supports."""
        yield cls(2, 3, 5, softness=0.5, learn=True, hidden=8)
        yield cls(2, 3, 5, softness=(0.2, 0.7), domain="output", activation="sin", hidden=8)
        yield cls(3, 2, 3, net="fourier", hidden=8, padding="valid", bias=False)
        yield cls(2, 2, 4, support="square", padding=0, variant="rank", hidden=8)

    def extra_repr(self) -> str:
        """Channels, support and dial."""
        soft = ", ".join(f"{value:.3g}" for value in self.translation_softness.tolist())
        shape = "disk" if self.support.disk else "square"
        return f"{self.in_type.dim}, {self.out_type.dim}, {shape} {self.support.size}, softness=({soft})"

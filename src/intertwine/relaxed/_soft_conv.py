"""Convolution whose kernel may depend on the place, by a dial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from .._checked import Floats, checked
from ._kernel_net import Parts
from ._relaxed import Relaxed, SampleMotion, register_relaxed
from ._soft_layer import Domain, SoftLayer, check_softness, make_net


@register_relaxed
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
        in_channels: of the input.
        out_channels: of the output.
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

    >>> layer = SoftConv2d(3, 8, kernel_size=7, softness=0.5, learn=True)
    >>> layer(torch.randn(2, 3, 16, 16)).shape
    torch.Size([2, 8, 16, 16])
    >>> layer.relaxation()
    {'translation': 0.707...}
    >>> layer.to_equivariant_().relaxation()
    {'translation': 0.0}
    """

    translation_softness: Tensor

    @checked
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        kernel_size: int = 7,
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
        who = type(self).__name__
        super().__init__(
            in_channels,
            out_channels,
            kernel_size=kernel_size,
            padding=padding,
            support=support,
            softness={"translation": check_softness(who, softness, 2)},
            learn=learn,
            domain=domain,
            bias=bias,
            variant=variant,
        )
        self.frequency = frequency
        sizes = (in_channels, out_channels)
        self.net = make_net(
            who, net, sizes, relative=(2,), absolute=(2,), angular=(), hidden=hidden, activation=activation
        )

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The layer on plain images."""
        self._check_input(x, ("batch", "channels", "height", "width"))
        return self._layer(x[:, :, None], 1, None, (), ())[:, :, 0]

    def _coordinates(self, x: Tensor, moving: bool, where: Any) -> tuple[Parts, Parts]:
        relative = (self.frequency * self.stencil.displacements(x.device)).to(self.net.weight)
        return [relative[None, None, None, :, None]], [self._position_part(x, moving)]

    def sample_input(self, generator: torch.Generator | None = None) -> Tensor:
        """White noise on 4 places more than needed."""
        size = self.stencil.size + 6 + 2 * self.stencil.padding
        x = torch.randn(2, self.in_channels, size, size + 1, generator=generator, dtype=torch.float64)
        return x.to(self.net.weight)

    def sample_motions(self) -> Mapping[str, SampleMotion]:
        """One step down and two to the left; they agree where neither sees the border."""
        margin = self.stencil.padding + 2

        def inside(y: Tensor) -> Tensor:
            return y[..., margin:-margin, margin:-margin]

        def move(x: Tensor) -> Tensor:
            return x.roll((1, -2), (-2, -1))

        return {"translation": SampleMotion(move, move, inside)}

    @classmethod
    def examples(cls) -> Iterator[Relaxed]:
        """Both networks, both domains, both supports."""
        yield cls(2, 3, kernel_size=5, softness=0.5, learn=True, hidden=8)
        yield cls(2, 3, kernel_size=5, softness=(0.2, 0.7), domain="output", activation="sin", hidden=8)
        yield cls(3, 2, kernel_size=3, net="fourier", hidden=8, padding="valid", bias=False)
        yield cls(2, 2, kernel_size=4, support="square", padding=0, variant="rank", hidden=8)

    def extra_repr(self) -> str:
        """Channels, support and dial."""
        soft = ", ".join(f"{value:.3g}" for value in self.translation_softness.tolist())
        shape = "disk" if self.stencil.disk else "square"
        return f"{self.in_channels}, {self.out_channels}, {shape} {self.stencil.size}, softness=({soft})"

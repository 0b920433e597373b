"""Variational autoencoders of sequences whose latent variables share their variance over time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from .._checked import checked
from ..errors import InputError
from ..groups import FiniteGroup
from ..topographic import (
    CayleyTopology,
    OffsetTopology,
    Topology,
    TorusTopology,
    Window,
    shifting_topology,
    stationary_topology,
    student_t,
    student_t_moments,
)
from ._vae import Draws, Likelihood, SequenceVAE, log_prior


class NotCyclicWarning(UserWarning):
    """A cyclic topology is used with sequences whose last frame does not lead back to the first."""


class TopographicVAE(SequenceVAE):
    """t = (z + shift) / √(W u² + ε): capsules that move with the transformation, learned without supervision.

    The positions in a capsule are the elements of a finite group G, and t is a vector of type ``latent_type``, N copies
    of the regular representation rho. W connects variables over time along the Cayley graph of an element s: position x
    in one frame with position s·x in the next. To explain a sequence well, the encoder must let its capsules move,
    t_{l+1} ≈ rho(s) t_l. In the published case, G is cyclic and s = 1: capsules roll by one position.

    With several generators, ``moving`` says which element s moves each sequence. Without it, the model infers s for
    each sequence: the generator whose t describes the frames best. This costs one decoder pass per generator and log k
    nats per sequence, where k is the number of generators.

    Args:
        image: channels, height and width.
        capsules: N, the number of capsules.
        length: C, the length of a capsule, for a cyclic group of C elements.
        group: any finite group, or its name, instead of a length.
        generators: the elements that may move a sequence; default: generators of the group.
        window: the number of frames that share variables, or a :class:`Window`.
        band: how far neighborhoods extend within a frame.
        topology: any other topology, instead of window and band. An :class:`OffsetTopology` counts positions in powers
            of s; others do not depend on s.
        shift: the initial value of −μ, which is learned.
        eps: ε, under the root.
        standardize: whether the decoder gets t minus its mean, divided by its standard deviation, both of the prior at
            the initial shift. This does not change which functions the network can represent. It learns much faster;
            the published network gets t as it is.
        network: ``mlp``, as published, or ``conv``.
        likelihood: see :class:`VAE`.

    Shapes: sequences ``(batch, time, *image)``. The window must not be longer than a sequence.

    References: Keller, Welling, *Topographic VAEs learn equivariant capsules*, 2021.

    >>> vae = TopographicVAE((1, 8, 8), capsules=3, length=5, window=3)
    >>> out = vae(torch.rand(2, 5, 1, 8, 8))
    >>> out.t.shape, out.elbo.shape
    (torch.Size([2, 5, 3, 5]), torch.Size([]))

    Rotation and hue at once, each with its own generator:

    >>> both = TopographicVAE((3, 8, 8), capsules=2, group="C4 x C6", window=3)
    >>> both.generators, [both.group.label(s) for s in both.generators]
    ((1, 6), ['(e, r)', '(r, e)'])
    >>> both(torch.rand(2, 6, 3, 8, 8), moving=torch.tensor([6, 1])).t.shape
    torch.Size([2, 6, 2, 24])
    >>> both.latent_type
    Field(2 regular on Point(C4 x C6))
    """

    @checked
    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        capsules: int,
        length: int | None = None,
        group: FiniteGroup | str | None = None,
        generators: Sequence[int] | None = None,
        window: int | Window = 1,
        band: int = 0,
        topology: Topology | None = None,
        shift: float = 30.0,
        eps: float = 1e-6,
        standardize: bool = False,
        network: Literal["mlp", "conv"] = "mlp",
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__(
            image,
            capsules=capsules,
            length=length,
            group=group,
            generators=generators,
            network=network,
            likelihood=likelihood,
        )
        self.topology: Topology = shifting_topology(window, band=band) if topology is None else topology
        self.variance_encoder = self._encoder()
        self._first_shift = float(shift)
        self.shift = nn.Parameter(torch.tensor(float(shift)))
        self.eps = eps
        self._moments = student_t_moments(_neighbors(self.topology), shift=self._first_shift) if standardize else None
        self._checked_ends = False

    def reset_parameters(self) -> None:
        """Reset the shift to its initial value. The networks have their own ``reset_parameters``."""
        nn.init.constant_(self.shift, self._first_shift)

    def decode(self, t: Tensor) -> Tensor:
        """The output of the decoder for latents ``(..., capsules, length)``: ``(..., *image)``, logits or means."""
        if self._moments is not None:
            mean, deviation = self._moments
            t = (t - mean) / deviation
        return super().decode(t)

    def _draw(self, x: Tensor, moving: int | Tensor | None, generator: torch.Generator | None) -> Draws:
        self._check_ends(x)
        q_z, q_u = self._posterior(self.encoder, x), self._posterior(self.variance_encoder, x)
        z, u = q_z.draw(generator), q_u.draw(generator)
        kl = q_z.kl() + q_u.kl()
        ratio = log_prior(z) - q_z.log_density(z) + log_prior(u) - q_u.log_density(u)
        if moving is None and len(self.generators) > 1 and isinstance(self.topology, OffsetTopology):
            t, moving = self._matching(x, z, u)
            # All generators are equally likely a priori: log p(s) = −log k per sequence, spread over its frames.
            price = math.log(len(self.generators)) / x.shape[1]
            return Draws(t, kl + price, ratio - price, moving)
        s = self.generators[0] if moving is None else moving
        elements = s if isinstance(s, Tensor) else torch.full((len(x),), s, device=x.device)
        return Draws(self._topographic(z, u, s), kl, ratio, elements)

    def _topographic(self, z: Tensor, u: Tensor, moving: int | Tensor) -> Tensor:
        topology = self.topology
        if isinstance(topology, OffsetTopology):
            topology = CayleyTopology(self.group, moving, topology)
        return student_t(self._shaped(z), self._shaped(u), topology, shift=self.shift, eps=self.eps)

    def _matching(self, x: Tensor, z: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
        """t of the generator that describes each sequence best, and that generator."""
        candidates = [self._topographic(z, u, s) for s in self.generators]
        with torch.no_grad():
            scores = torch.stack([self.log_likelihood(x, self.decode(t)).sum(1) for t in candidates])
        best = scores.argmax(0)
        t = torch.stack(candidates)[best, torch.arange(len(x), device=x.device)]
        return t, torch.tensor(self.generators, device=x.device)[best]

    @torch.no_grad()
    def _check_ends(self, x: Tensor) -> None:
        """On the first sequences only: warn if a cyclic topology connects ends that don't match."""
        if self._checked_ends or x.is_meta or torch.compiler.is_compiling():
            return
        self._checked_ends = True
        joined = isinstance(self.topology, OffsetTopology) and self.topology.padding == "cyclic"
        if not joined or x.shape[1] < 3 or len(self.topology.reach(x.shape[1])) < 2:
            return
        steps = (x[:, 1:] - x[:, :-1]).flatten(2).norm(dim=2)
        jump = (x[:, 0] - x[:, -1]).flatten(1).norm(dim=1)
        share = float((jump > 2 * steps.amax(1)).double().mean())
        if share > 0.5:
            warnings.warn(
                f"in {share:.0%} of the first sequences, the last frame is more than twice as far from the first as "
                "any frame is from the next, but the cyclic topology connects the two ends. For sequences that are not "
                "closed, use a topology with padding='zero' or 'replicate'.",
                NotCyclicWarning,
                stacklevel=4,
            )


def _neighbors(topology: Topology) -> int:
    """The size of all neighborhoods."""
    if isinstance(topology, OffsetTopology):
        return len(topology.offsets)
    if isinstance(topology, TorusTopology):
        return topology.size**2
    raise InputError(
        "TopographicVAE",
        expected="standardize=True with neighborhoods of one size: an OffsetTopology or a TorusTopology",
        got=type(topology).__name__,
    )


class BubbleVAE(TopographicVAE):
    """t = (z + shift) / √(W u² + ε) with stationary neighborhoods: the same positions in all frames of the window.

    Args:
        image: channels, height and width.
        capsules: N, the number of capsules.
        length: C, the length of a capsule, for a cyclic group of C elements.
        group: any finite group, or its name, instead of a length.
        generators: the elements that may move a sequence; default: generators of the group.
        window: the number of frames that share variables.
        width: the number of neighbors within a frame.
        shift: the initial value of −μ, which is learned.
        eps: ε, under the root.
        standardize: whether the decoder gets t minus its mean, divided by its standard deviation, both of the prior at
            the initial shift. This does not change which functions the network can represent. It learns much faster;
            the published network gets t as it is.
        network: ``mlp``, as published, or ``conv``.
        likelihood: see :class:`VAE`.

    >>> BubbleVAE((1, 8, 8), capsules=3, length=5, window=3, width=3)(torch.rand(2, 5, 1, 8, 8)).t.shape
    torch.Size([2, 5, 3, 5])
    """

    @checked
    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        capsules: int,
        length: int | None = None,
        group: FiniteGroup | str | None = None,
        generators: Sequence[int] | None = None,
        window: int = 5,
        width: int = 3,
        shift: float = 30.0,
        eps: float = 1e-6,
        standardize: bool = False,
        network: Literal["mlp", "conv"] = "mlp",
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__(
            image,
            capsules=capsules,
            length=length,
            group=group,
            generators=generators,
            topology=stationary_topology(window, width),
            shift=shift,
            eps=eps,
            standardize=standardize,
            network=network,
            likelihood=likelihood,
        )

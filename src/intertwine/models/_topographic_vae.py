"""Variational autoencoders of sequences whose latent variables share their variance over time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from .._checked import checked
from ..groups import FiniteGroup
from ..topographic import (
    CayleyTopology,
    OffsetTopology,
    Topology,
    Window,
    shifting_topology,
    stationary_topology,
    student_t,
)
from ._vae import Draws, Likelihood, SequenceVAE, log_prior


class NotCyclicWarning(UserWarning):
    """Sequences whose end does not lead to their beginning meet a topology that joins the two."""


class TopographicVAE(SequenceVAE):
    """t = (z + shift) / √(W u² + ε): capsules that move with the transformation, found without supervision.

    The places of a capsule are the elements of a finite group G, and t is a vector of type ``latent_type``, N copies of
    the regular representation rho. W joins variables over time along the Cayley graph of an element s: place x now with
    place s·x in the next frame. What the encoder must do to explain a sequence is then to let its capsules move,
    t_{l+1} ≈ rho(s) t_l. In the published case G is cyclic and s = 1: capsules roll by one place.

    With several generators, sequences say by ``moving`` which element is their s. If they don't, it is found for each
    sequence: the generator whose t describes the frames best, at the price of a pass of the decoder for each and of
    log k nats a sequence, k the number of generators.

    Args:
        image: channels, height and width.
        capsules: N.
        length: C, of a capsule, for a cyclic group of C elements.
        group: any finite group, or its name, instead of a length.
        generators: the elements that may move a sequence; generators of the group unless given.
        window: frames that share variables, or a :class:`Window`.
        band: how far neighbors within a frame reach.
        topology: any other topology instead of window and band. An :class:`OffsetTopology` counts in powers of s;
            others do not depend on s.
        shift: −μ at the start; it is learned.
        eps: under the root.
        network: ``mlp`` as published, or ``conv``.
        likelihood: as for :class:`VAE`.

    Shapes: sequences ``(batch, time, *image)``; the window is at most as long as a sequence.

    References: Keller, Welling, *Topographic VAEs learn equivariant capsules*, 2021.

    >>> vae = TopographicVAE((1, 8, 8), capsules=3, length=5, window=3)
    >>> out = vae(torch.rand(2, 5, 1, 8, 8))
    >>> out.t.shape, out.elbo.shape
    (torch.Size([2, 5, 3, 5]), torch.Size([]))

    Turn and hue at once, each with a generator of its own:

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
        self._looked = False

    def reset_parameters(self) -> None:
        """The shift it was made with; the networks have methods of their own."""
        nn.init.constant_(self.shift, self._first_shift)

    def _draw(self, x: Tensor, moving: int | Tensor | None, generator: torch.Generator | None) -> Draws:
        self._look(x)
        q_z, q_u = self._posterior(self.encoder, x), self._posterior(self.variance_encoder, x)
        z, u = q_z.draw(generator), q_u.draw(generator)
        kl = q_z.kl() + q_u.kl()
        ratio = log_prior(z) - q_z.log_density(z) + log_prior(u) - q_u.log_density(u)
        if moving is None and len(self.generators) > 1 and isinstance(self.topology, OffsetTopology):
            t, moving = self._matching(x, z, u)
            # A priori all generators are as likely: log p(s) = −log k of a sequence, spread over its frames.
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
    def _look(self, x: Tensor) -> None:
        """Once, at the first sequences: does the end lead to the beginning where the topology joins them?"""
        if self._looked or x.is_meta or torch.compiler.is_compiling():
            return
        self._looked = True
        joined = isinstance(self.topology, OffsetTopology) and self.topology.padding == "cyclic"
        if not joined or x.shape[1] < 3 or len(self.topology.reach(x.shape[1])) < 2:
            return
        steps = (x[:, 1:] - x[:, :-1]).flatten(2).norm(dim=2)
        jump = (x[:, 0] - x[:, -1]).flatten(1).norm(dim=1)
        share = float((jump > 2 * steps.amax(1)).double().mean())
        if share > 0.5:
            warnings.warn(
                f"in {share:.0%} of the first sequences the last frame is more than twice as far from the first as any "
                "frame from the next: the cyclic topology will tie the two ends together. For sequences that are not "
                "closed use a topology with padding='zero' or 'replicate'.",
                NotCyclicWarning,
                stacklevel=4,
            )


class BubbleVAE(TopographicVAE):
    """t = (z + shift) / √(W u² + ε) with neighborhoods that stay: the same places in all frames of the window.

    Args:
        image: channels, height and width.
        capsules: N.
        length: C, of a capsule, for a cyclic group of C elements.
        group: any finite group, or its name, instead of a length.
        generators: the elements that may move a sequence; generators of the group unless given.
        window: frames that share variables.
        width: neighbors within a frame.
        shift: −μ at the start; it is learned.
        eps: under the root.
        network: ``mlp`` as published, or ``conv``.
        likelihood: as for :class:`VAE`.

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
            network=network,
            likelihood=likelihood,
        )

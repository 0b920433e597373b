r"""Variational autoencoders of sequences whose latent variables have a topography, and their baselines."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from .._checked import Floats, checked, describe
from ..errors import InputError
from ..topographic import OffsetTopology, Topology, Window, shifting, stationary, topographic
from ._vae_networks import MlpDecoder, conv_decoder, conv_encoder, mlp_encoder

Likelihood = Literal["bernoulli", "gaussian"]


class NotCyclicWarning(UserWarning):
    """Sequences whose end does not lead to their beginning meet a topology that joins the two."""


@checked
@dataclass(frozen=True)
class VAEOutput:
    """What a pass over sequences gives; all but the images are for each frame, ``(batch, time)``.

    Attributes:
        t: latents ``(batch, time, capsules, length)``.
        decoded: what the decoder gives for them, ``(batch, time, *image)``: logits, or means.
        likelihood: log p(x | t).
        kl: KL(q(z|x) ‖ p(z)) + KL(q(u|x) ‖ p(u)).
    """

    t: Tensor
    decoded: Tensor
    likelihood: Tensor
    kl: Tensor

    @property
    def elbo(self) -> Tensor:
        """log p(x|t) − KL, the mean over all frames: train by maximizing it."""
        return (self.likelihood - self.kl).mean()


@dataclass(frozen=True)
class _Normal:
    """A normal distribution with independent components."""

    mean: Tensor
    log_variance: Tensor

    def draw(self, generator: torch.Generator | None) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * (0.5 * self.log_variance).exp()

    def kl(self) -> Tensor:
        """To the standard normal distribution, summed over components."""
        return 0.5 * (self.mean.square() + self.log_variance.exp() - 1 - self.log_variance).sum(-1)

    def log_density(self, x: Tensor) -> Tensor:
        scaled = (x - self.mean).square() * (-self.log_variance).exp()
        return -0.5 * (scaled + self.log_variance + math.log(2 * math.pi)).sum(-1)


class SequenceVAE(nn.Module, ABC):
    """What the autoencoders here share: encoder, decoder, likelihoods and bounds; they differ in how t is drawn."""

    @checked
    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        capsules: int,
        length: int,
        network: Literal["mlp", "conv"] = "mlp",
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__()
        if capsules < 1 or length < 1:
            raise InputError(
                type(self).__name__,
                expected="at least one capsule of at least one variable",
                got=f"{capsules} of {length}",
            )
        if min(image) < 1:
            raise InputError(
                type(self).__name__, expected="image (channels, height, width) with sizes of 1 or more", got=str(image)
            )
        self.image, self.capsules, self.length = tuple(image), capsules, length
        self.network, self.likelihood = network, likelihood
        self.encoder = self._encoder()
        latent = capsules * length
        self.decoder = MlpDecoder(image, latent) if network == "mlp" else conv_decoder(image, latent)

    def _encoder(self) -> nn.Module:
        latent = self.capsules * self.length
        return (mlp_encoder if self.network == "mlp" else conv_encoder)(self.image, latent)  # type: ignore[arg-type]

    @checked
    def forward(self, sequences: Floats, *, generator: torch.Generator | None = None) -> VAEOutput:
        self._check(sequences)
        draws = self._draw(sequences, generator)
        decoded = self.decode(draws.t)
        return VAEOutput(draws.t, decoded, self.log_likelihood(sequences, decoded), draws.kl)

    def latent(self, sequences: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """t, drawn once, ``(batch, time, capsules, length)``."""
        self._check(sequences)
        return self._draw(sequences, generator).t

    def decode(self, t: Tensor) -> Tensor:
        """What the decoder gives for latents ``(..., capsules, length)``: ``(..., *image)``, logits or means."""
        out: Tensor = self.decoder(t.reshape(-1, self.capsules * self.length))
        return out.view(*t.shape[:-2], *self.image)

    def pictures(self, t: Tensor) -> Tensor:
        """Expected images of latents: the sigmoid of logits, or the means."""
        decoded = self.decode(t)
        return decoded.sigmoid() if self.likelihood == "bernoulli" else decoded

    def traverse(self, t: Tensor, steps: int | None = None) -> Tensor:
        """Images of a latent frame ``(batch, capsules, length)`` rolled by 0, 1, …, all capsules together.

        Returns ``(batch, steps, *image)``, by default as many as a capsule is long.
        """
        count = self.length if steps is None else steps
        return self.pictures(torch.stack([t.roll(k, -1) for k in range(count)], 1))

    def log_likelihood(self, x: Tensor, decoded: Tensor) -> Tensor:
        """log p(x | t) of each frame."""
        if self.likelihood == "bernoulli":
            return -binary_cross_entropy_with_logits(decoded, x, reduction="none").flatten(2).sum(2)
        squares = mse_loss(decoded, x, reduction="none").flatten(2).sum(2)
        return -0.5 * (squares + math.prod(self.image) * math.log(2 * math.pi))

    def _posterior(self, encoder: nn.Module, x: Tensor) -> _Normal:
        mean, log_variance = encoder(x.flatten(0, 1)).unflatten(0, x.shape[:2]).chunk(2, -1)
        return _Normal(mean, log_variance)

    @abstractmethod
    def _draw(self, x: Tensor, generator: torch.Generator | None) -> _Draws:
        """Draw t from the posterior of sequences."""

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (self.capsules, self.length))

    def importance_bound(
        self,
        sequences: Tensor,
        *,
        samples: int = 10,
        form: Literal["sequence", "published"] = "sequence",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """An importance-sampled estimate of log p(x) for each frame, ``(batch,)`` or ``(batch, time)``.

        ``sequence`` weights whole sequences, log (1/n) Σ_n Π_l w_{l,n} divided by the number of frames: a lower bound
        of log p(x) in the mean. ``published`` weights frame by frame, and does not divide by n, as in the paper's code:
        no bound, since frames share variables, and log n too high; only for comparison with its table.

        Args:
            sequences: ``(batch, time, *image)``.
            samples: n.
            form: which of the two.
            generator: of the draws.
        """
        self._check(sequences)
        if samples < 1:
            raise InputError("importance_bound", expected="at least one sample", got=str(samples), fix="10 is usual.")
        weights = []
        for _ in range(samples):
            draws = self._draw(sequences, generator)
            weights.append(self.log_likelihood(sequences, self.decode(draws.t)) + draws.log_ratio)
        w = torch.stack(weights)  # (samples, batch, time)
        if form == "published":
            return w.logsumexp(0)
        return (w.sum(2).logsumexp(0) - math.log(samples)) / sequences.shape[1]

    def _check(self, x: Tensor) -> None:
        if x.ndim != 5 or tuple(x.shape[2:]) != self.image:
            raise InputError(
                type(self).__name__,
                expected=f"sequences (batch, time, {', '.join(map(str, self.image))})",
                got=f"shape {tuple(x.shape)}",
                fix="Single images are sequences of one frame: x[:, None].",
            )
        if x.is_meta:  # no numbers to look at
            return
        if not bool(torch.isfinite(x).all()):
            raise InputError(
                type(self).__name__, expected="finite images", got="NaN or infinity", fix="Look at the data."
            )
        if self.likelihood == "bernoulli" and (float(x.amin()) < 0 or float(x.amax()) > 1):
            raise InputError(
                type(self).__name__,
                expected="pixels in [0, 1], as probabilities",
                got=f"{float(x.amin()):.3g} to {float(x.amax()):.3g}",
                fix="Scale the images, or use likelihood='gaussian'.",
            )


@dataclass(frozen=True)
class _Draws:
    """One draw: t, the divergence of the posteriors, and log p − log q of what was drawn."""

    t: Tensor
    kl: Tensor
    log_ratio: Tensor


def _prior(x: Tensor) -> Tensor:
    return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


class VAE(SequenceVAE):
    """A variational autoencoder of the frames of sequences, t = z: the baseline without a topography.

    The latent is cut into capsules all the same, so that measures can be compared.

    Args:
        image: channels, height and width.
        capsules: N.
        length: C, of a capsule; the latent has N · C variables.
        network: ``mlp`` as published, or ``conv``.
        likelihood: ``bernoulli``, with pixels in [0, 1] as probabilities, or ``gaussian`` with unit variance.

    Shapes: sequences ``(batch, time, *image)``.

    >>> vae = VAE((1, 8, 8), capsules=3, length=4)
    >>> vae(torch.rand(2, 5, 1, 8, 8)).t.shape
    torch.Size([2, 5, 3, 4])
    """

    def _draw(self, x: Tensor, generator: torch.Generator | None) -> _Draws:
        q = self._posterior(self.encoder, x)
        z = q.draw(generator)
        return _Draws(self._shaped(z), q.kl(), _prior(z) - q.log_density(z))


class TopographicVAE(SequenceVAE):
    """t = (z + shift) / √(W u² + ε): capsules that roll with the transformation, found without supervision.

    W joins variables over time along the diagonal: place i now with place i + 1 in the next frame. What the encoder
    must do to explain a sequence is then to let its capsules roll, t_{l+1} ≈ Roll_1(t_l).

    Args:
        image: channels, height and width.
        capsules: N.
        length: C, of a capsule.
        window: frames that share variables, or a :class:`Window`.
        band: how far neighbors within a frame reach.
        topology: any other topology instead of window and band.
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
    """

    @checked
    def __init__(
        self,
        image: tuple[int, int, int],
        *,
        capsules: int,
        length: int,
        window: int | Window = 1,
        band: int = 0,
        topology: Topology | None = None,
        shift: float = 30.0,
        eps: float = 1e-6,
        network: Literal["mlp", "conv"] = "mlp",
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__(image, capsules=capsules, length=length, network=network, likelihood=likelihood)
        self.topology: Topology = shifting(window, band=band) if topology is None else topology
        self.variance_encoder = self._encoder()
        self._first_shift = float(shift)
        self.shift = nn.Parameter(torch.tensor(float(shift)))
        self.eps = eps
        self._looked = False

    def reset_parameters(self) -> None:
        """The shift it was made with; the networks have methods of their own."""
        nn.init.constant_(self.shift, self._first_shift)

    def _draw(self, x: Tensor, generator: torch.Generator | None) -> _Draws:
        self._look(x)
        q_z, q_u = self._posterior(self.encoder, x), self._posterior(self.variance_encoder, x)
        z, u = q_z.draw(generator), q_u.draw(generator)
        t = topographic(self._shaped(z), self._shaped(u), self.topology, shift=self.shift, eps=self.eps)
        ratio = _prior(z) - q_z.log_density(z) + _prior(u) - q_u.log_density(u)
        return _Draws(t, q_z.kl() + q_u.kl(), ratio)

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
        length: C, of a capsule.
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
        length: int,
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
            topology=stationary(window, width),
            shift=shift,
            eps=eps,
            network=network,
            likelihood=likelihood,
        )


@checked
def topographic_pool(t: Tensor) -> Tensor:
    """The norm of each capsule, ``(..., capsules)``: it does not change when a capsule rolls.

    >>> t = torch.rand(2, 3, 5)
    >>> torch.allclose(topographic_pool(t), topographic_pool(t.roll(2, -1)))
    True
    """
    if not t.is_floating_point():
        raise InputError("topographic_pool", expected="a tensor of real numbers", got=describe(t))
    return t.norm(dim=-1)

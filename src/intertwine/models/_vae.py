"""Variational autoencoders of sequences. Latents are split into capsules whose positions are group elements."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from .._checked import Floats, checked, describe
from ..errors import InputError
from ..groups import Cyclic, FiniteGroup, parse_finite
from ..spaces import Point
from ._vae_networks import MlpDecoder, conv_decoder, conv_encoder, mlp_encoder

Likelihood = Literal["bernoulli", "gaussian"]


@checked
@dataclass(frozen=True)
class VAEOutput:
    """The result of a pass over sequences. ``likelihood`` and ``kl`` are per frame, ``(batch, time)``.

    Attributes:
        t: latents ``(batch, time, capsules, length)``.
        decoded: the output of the decoder, ``(batch, time, *image)``: logits or means.
        likelihood: log p(x | t).
        kl: KL(q(z|x) ‖ p(z)) + KL(q(u|x) ‖ p(u)), plus a share of log k for an element inferred among k.
        moving: the group element by which one time step moves each sequence, ``(batch,)``; None if not needed.
    """

    t: Tensor
    decoded: Tensor
    likelihood: Tensor
    kl: Tensor
    moving: Tensor | None = None

    @property
    def elbo(self) -> Tensor:
        """The mean of log p(x|t) − KL over all frames. Maximize it in training."""
        return (self.likelihood - self.kl).mean()


@dataclass(frozen=True)
class Normal:
    """A normal distribution with independent components."""

    mean: Tensor
    log_variance: Tensor

    def draw(self, generator: torch.Generator | None) -> Tensor:
        noise = torch.empty_like(self.mean).normal_(generator=generator)
        return self.mean + noise * (0.5 * self.log_variance).exp()

    def kl(self) -> Tensor:
        """The KL divergence to the standard normal distribution, summed over components."""
        return 0.5 * (self.mean.square() + self.log_variance.exp() - 1 - self.log_variance).sum(-1)

    def log_density(self, x: Tensor) -> Tensor:
        scaled = (x - self.mean).square() * (-self.log_variance).exp()
        return -0.5 * (scaled + self.log_variance + math.log(2 * math.pi)).sum(-1)


class SequenceVAE(nn.Module, ABC):
    """The base class of the autoencoders: encoder, decoder, likelihoods and bounds. Subclasses define how to draw t.

    Attributes:
        group: the group whose elements are the positions in a capsule.
        generators: the elements that may move a sequence.
        latent_type: the type of t as a vector: one copy of the regular representation per capsule, on a point.
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
        network: Literal["mlp", "conv"] = "mlp",
        likelihood: Likelihood = "bernoulli",
    ) -> None:
        super().__init__()
        caller = type(self).__name__
        if capsules < 1 or (length is not None and length < 1):
            raise InputError(
                caller,
                expected="at least one capsule of at least one variable",
                got=f"{capsules} of {group if length is None else length}",
            )
        if min(image) < 1:
            raise InputError(caller, expected="image (channels, height, width) with sizes of 1 or more", got=str(image))
        self.group = _capsule_group(caller, length, group)
        self.generators = _moving_elements(caller, self.group, generators)
        self.image, self.capsules, self.length = tuple(image), int(capsules), self.group.order
        point, regular = Point(self.group), self.group.regular
        self.latent_type, self._capsule_type = point.field(self.capsules * regular), point.field(regular)
        self.network, self.likelihood = network, likelihood
        self.encoder = self._encoder()
        latent = self.latent_type.dim
        self.decoder = MlpDecoder(image, latent) if network == "mlp" else conv_decoder(image, latent)

    def _encoder(self) -> nn.Module:
        latent = self.latent_type.dim
        return (mlp_encoder if self.network == "mlp" else conv_encoder)(self.image, latent)  # type: ignore[arg-type]

    @checked
    def forward(
        self, sequences: Floats, *, moving: int | Tensor | None = None, generator: torch.Generator | None = None
    ) -> VAEOutput:
        """Encode sequences, draw latents and decode them.

        Args:
            sequences: ``(batch, time, *image)``.
            moving: the group element by which one time step moves each sequence, one for all or ``(batch,)``. See the
                class for the default.
            generator: the generator of the draws.
        """
        draws = self._drawn(sequences, moving, generator)
        decoded = self.decode(draws.t)
        return VAEOutput(draws.t, decoded, self.log_likelihood(sequences, decoded), draws.kl, draws.moving)

    @checked
    def latent(
        self, sequences: Tensor, *, moving: int | Tensor | None = None, generator: torch.Generator | None = None
    ) -> Tensor:
        """One draw of t, ``(batch, time, capsules, length)``."""
        return self._drawn(sequences, moving, generator).t

    def _drawn(self, sequences: Tensor, moving: int | Tensor | None, generator: torch.Generator | None) -> Draws:
        self._check(sequences)
        if moving is not None:
            self.group.require_element(moving)
        if isinstance(moving, Tensor) and moving.shape != sequences.shape[:1]:
            raise InputError(
                type(self).__name__,
                expected=f"moving= as one element, or {len(sequences)} elements, one per sequence",
                got=f"shape {tuple(moving.shape)}",
            )
        return self._draw(sequences, moving, generator)

    def decode(self, t: Tensor) -> Tensor:
        """The output of the decoder for latents ``(..., capsules, length)``: ``(..., *image)``, logits or means."""
        out: Tensor = self.decoder(t.reshape(-1, self.capsules * self.length))
        return out.view(*t.shape[:-2], *self.image)

    def pictures(self, t: Tensor) -> Tensor:
        """The expected images for latents: the sigmoid of logits, or the means."""
        decoded = self.decode(t)
        return decoded.sigmoid() if self.likelihood == "bernoulli" else decoded

    @checked
    def moved(self, t: Tensor, g: int) -> Tensor:
        """rho(g) t for latents ``(..., capsules, length)``: a roll by g positions if the group is cyclic."""
        moved: Tensor = self._capsule_type.transform(t, g)
        return moved

    @checked
    def traverse(self, t: Tensor, steps: int | None = None, *, moving: int | None = None) -> Tensor:
        """Images of a latent frame with all capsules moved by 1, s, s², …: ``(batch, steps, *image)``.

        Args:
            t: ``(batch, capsules, length)``.
            steps: the number of images; default: the order of s.
            moving: the element s; default: the generator, if there is only one.
        """
        powers = self.group.cycles(self._only_generator() if moving is None else moving)[0].tolist()
        count = len(powers) if steps is None else steps
        return self.pictures(torch.stack([self.moved(t, powers[k % len(powers)]) for k in range(count)], 1))

    def _only_generator(self) -> int:
        if len(self.generators) > 1:
            options = ", ".join(f"{s} = {self.group.label(s)}" for s in self.generators)
            raise InputError(
                f"{type(self).__name__}.traverse",
                expected="moving=, a group element",
                got="none",
                fix=f"{self.group.name} has several generators: {options}.",
            )
        return self.generators[0]

    def log_likelihood(self, x: Tensor, decoded: Tensor) -> Tensor:
        """log p(x | t), per frame."""
        if self.likelihood == "bernoulli":
            return -binary_cross_entropy_with_logits(decoded, x, reduction="none").flatten(2).sum(2)
        squares = mse_loss(decoded, x, reduction="none").flatten(2).sum(2)
        return -0.5 * (squares + math.prod(self.image) * math.log(2 * math.pi))

    def _posterior(self, encoder: nn.Module, x: Tensor) -> Normal:
        mean, log_variance = encoder(x.flatten(0, 1)).unflatten(0, x.shape[:2]).chunk(2, -1)
        return Normal(mean, log_variance)

    @abstractmethod
    def _draw(self, x: Tensor, moving: int | Tensor | None, generator: torch.Generator | None) -> Draws:
        """Draw t from the posterior given sequences."""

    def _shaped(self, flat: Tensor) -> Tensor:
        return flat.unflatten(-1, (self.capsules, self.length))

    @checked
    def importance_bound(
        self,
        sequences: Tensor,
        *,
        moving: int | Tensor | None = None,
        samples: int = 10,
        form: Literal["sequence", "published"] = "sequence",
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """An importance-sampled estimate of log p(x) per frame, ``(batch,)`` or ``(batch, time)``.

        The form ``sequence`` weights whole sequences: log (1/n) Σ_n Π_l w_{l,n}, divided by the number of frames. In
        expectation, it is a lower bound of log p(x). The form ``published`` weights frame by frame and does not divide
        by n, as in the paper's code. It is not a bound, since frames share variables, and it is too high by log n. Use
        it only for comparison with the paper's table.

        Args:
            sequences: ``(batch, time, *image)``.
            moving: as in the forward pass.
            samples: n, the number of samples.
            form: which of the two estimates.
            generator: the generator of the draws.
        """
        if samples < 1:
            raise InputError("importance_bound", expected="at least one sample", got=str(samples))
        weights = []
        for _ in range(samples):
            draws = self._drawn(sequences, moving, generator)
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
        if x.is_meta:  # no values to check
            return
        if not bool(torch.isfinite(x).all()):
            raise InputError(type(self).__name__, expected="finite images", got="NaN or infinity")
        if self.likelihood == "bernoulli" and (float(x.amin()) < 0 or float(x.amax()) > 1):
            raise InputError(
                type(self).__name__,
                expected="pixels in [0, 1], as probabilities",
                got=f"{float(x.amin()):.3g} to {float(x.amax()):.3g}",
                fix="Scale the images, or use likelihood='gaussian'.",
            )


@dataclass(frozen=True)
class Draws:
    """One draw: t, the KL divergence of the posteriors, and log p − log q of the draw."""

    t: Tensor
    kl: Tensor
    log_ratio: Tensor
    moving: Tensor | None = None


def log_prior(x: Tensor) -> Tensor:
    """The log density of standard normal variables, summed over components."""
    return -0.5 * (x.square() + math.log(2 * math.pi)).sum(-1)


class VAE(SequenceVAE):
    """A variational autoencoder of the frames of sequences, t = z: the baseline without a topography.

    The latent is still split into capsules, which makes measurements comparable. ``moving`` has no effect.

    Args:
        image: channels, height and width.
        capsules: N, the number of capsules.
        length: C, the length of a capsule, for a cyclic group of C elements. The latent has N · C variables.
        group: any finite group, or its name, instead of a length.
        generators: the elements that may move a sequence; default: generators of the group.
        network: ``mlp``, as published, or ``conv``.
        likelihood: ``bernoulli``, with pixels in [0, 1] as probabilities, or ``gaussian`` with unit variance.

    Shapes: sequences ``(batch, time, *image)``.

    >>> vae = VAE((1, 8, 8), capsules=3, length=4)
    >>> vae(torch.rand(2, 5, 1, 8, 8)).t.shape
    torch.Size([2, 5, 3, 4])
    """

    def _draw(self, x: Tensor, moving: int | Tensor | None, generator: torch.Generator | None) -> Draws:
        q = self._posterior(self.encoder, x)
        z = q.draw(generator)
        return Draws(self._shaped(z), q.kl(), log_prior(z) - q.log_density(z))


@checked
def topographic_pool(t: Tensor) -> Tensor:
    """The norm of each capsule, ``(..., capsules)``. It is invariant under all group elements, such as rolls.

    >>> t = torch.rand(2, 3, 5)
    >>> torch.allclose(topographic_pool(t), topographic_pool(t.roll(2, -1)))
    True
    """
    if not t.is_floating_point():
        raise InputError("topographic_pool", expected="a tensor of real numbers", got=describe(t))
    return t.norm(dim=-1)


def _capsule_group(caller: str, length: int | None, group: FiniteGroup | str | None) -> FiniteGroup:
    if group is None:
        if length is None:
            raise InputError(caller, expected="group=, or length= for a cyclic group", got="neither")
        return Cyclic(int(length))
    group = parse_finite(group) if isinstance(group, str) else group
    if length not in (None, group.order):
        raise InputError(
            caller,
            expected=f"length={group.order}, the order of {group.name}, or no length",
            got=str(length),
        )
    return group


def _moving_elements(caller: str, group: FiniteGroup, generators: Sequence[int] | None) -> tuple[int, ...]:
    if generators is None:
        return group.generators or (0,)
    for s in generators:
        group.require_element(s)
    if not generators or len(set(generators)) < len(generators):
        raise InputError(caller, expected=f"generators of {group.name}, each once", got=str(list(generators)))
    return tuple(generators)

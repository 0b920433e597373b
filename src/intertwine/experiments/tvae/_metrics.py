"""The metrics of every row, with nulls for each number about capsules.

The nulls are the same number on latents drawn from the prior, and on the latents of the untrained network. Where the
three agree, the network learned nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ..lab._experiment import Metric, Scale

PUBLISHED_SIZES: tuple[Scale, ...] = ("small", "paper")
"""The scales with as many frames and capsules as in the paper; the equivariance error is a sum over them."""

ERROR = Metric(
    "e_eq",
    "",
    "lower",
    "sum over pairs of frames of |rho(s)^δ t̂ − t̂'|, capsules with norm 1, as in the published code and numbers",
    comparable=PUBLISHED_SIZES,
)
ERROR_PRINTED = Metric("e_eq_printed", "", "lower", "the same with frames of norm 1, as the published equation reads")
ERROR_CENTERED = Metric("e_eq_centered", "", "lower", "the same after subtracting the mean of each capsule")
ELBO = Metric("elbo", "nats", "higher", "lower bound on log p(x) per frame")
LIKELIHOOD = Metric(
    "log_p", "nats", "higher", "importance-sampled bound on log p(x) per frame, with one weight per sequence"
)
PUBLISHED_FORM = Metric(
    "log_p_published",
    "nats",
    "higher",
    "the paper's estimate: one weight per frame, log 10 = 2.3 nats too high, not a bound",
)
RECONSTRUCTION = Metric("reconstruction", "nats", "lower", "−log p(x_l | t_l) of a frame given its own latents")
GAP = Metric(
    "traversal_gap", "nats", "lower", "−log p(x_δ | rho(s)^δ t_0), over all frames, minus the reconstruction error"
)
HELD = Metric("held_out_gap", "nats", "lower", "the same for frames that t_0 does not depend on")


def with_nulls(metric: Metric, *, prior: bool = False) -> tuple[Metric, ...]:
    """A metric and its nulls, where nothing was learned."""
    untrained = replace(metric, name=f"{metric.name}_untrained", meaning="null: before training", beside=metric.name)
    drawn = replace(
        metric, name=f"{metric.name}_prior", meaning="null: on latents drawn from the prior", beside=metric.name
    )
    return (metric, drawn, untrained) if prior else (metric, untrained)


METRICS = (
    *with_nulls(ERROR, prior=True),
    *with_nulls(ERROR_PRINTED, prior=True),
    *with_nulls(ERROR_CENTERED, prior=True),
    *with_nulls(GAP),
    *with_nulls(HELD),
    *with_nulls(RECONSTRUCTION),
    *with_nulls(ELBO),
    *with_nulls(LIKELIHOOD),
    *with_nulls(PUBLISHED_FORM),
)
"""The metrics that every row reports on any data."""


def gap_of(factor: str) -> str:
    """The name of the traversal gap on sequences in which this factor moves."""
    return f"{GAP.name}_{factor.replace(' ', '_')}"

"""What every row reports, each number about capsules with its nulls beside it.

The nulls are the same number on latents drawn from the prior, and on the latents of the network before it was trained.
Where the three agree, nothing was learned.
"""

from __future__ import annotations

from dataclasses import replace

from ..lab._experiment import Metric

ERROR = Metric("e_eq", "", "lower", "sum over pairs of frames of |rho(s)^δ t̂ − t̂'|, capsules with norm 1")
ERROR_CENTERED = Metric("e_eq_centered", "", "lower", "the same with the mean of each capsule taken off")
ELBO = Metric("elbo", "nats", "higher", "lower bound of log p(x) of a frame")
LIKELIHOOD = Metric(
    "log_p", "nats", "higher", "importance-sampled bound of log p(x) of a frame, whole sequences weighted"
)
PUBLISHED_FORM = Metric(
    "log_p_published", "nats", "higher", "the paper's estimate: frame by frame, log 10 = 2.3 nats too high, no bound"
)
RECONSTRUCTION = Metric("reconstruction", "nats", "lower", "−log p(x_l | t_l) of a frame given its own latents")
GAP = Metric("traversal_gap", "nats", "lower", "−log p(x_δ | rho(s)^δ t_0), all frames, less the reconstruction error")
HELD = Metric("held_out_gap", "nats", "lower", "the same for the frames that had no share in t_0")


def with_nulls(metric: Metric, *, prior: bool = False) -> tuple[Metric, ...]:
    """The metric, and beside it the same where nothing was learned."""
    untrained = replace(metric, name=f"{metric.name}_untrained", meaning="null: before training", beside=metric.name)
    drawn = replace(
        metric, name=f"{metric.name}_prior", meaning="null: on latents drawn from the prior", beside=metric.name
    )
    return (metric, drawn, untrained) if prior else (metric, untrained)


METRICS = (
    *with_nulls(ERROR, prior=True),
    *with_nulls(ERROR_CENTERED, prior=True),
    *with_nulls(GAP),
    *with_nulls(HELD),
    *with_nulls(RECONSTRUCTION),
    *with_nulls(ELBO),
    *with_nulls(LIKELIHOOD),
    *with_nulls(PUBLISHED_FORM),
)
"""What every row reports, whatever the data."""


def gap_of(factor: str) -> str:
    """The name of the traversal gap on sequences in which this factor moves."""
    return f"{GAP.name}_{factor.replace(' ', '_')}"

"""How sampled filters are made: steerable, with rings, their widths and degrees, or free and rotated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import InputError
from ...kernels import BandLimit
from ...spaces import Grid, Space


@dataclass(frozen=True)
class Sampling:
    """The options of :class:`~intertwine.kernels.SteerableKernelBasis`, None for its defaults; or ``method="free"``.

    A function for ``band_limit`` is compared by identity.
    """

    rings: tuple[float, ...] | None = None
    sigma: float | None = None
    band_limit: BandLimit = None
    method: Literal["free"] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        given = {"rings": self.rings, "sigma": self.sigma, "band_limit": self.band_limit, "method": self.method}
        return {name: value for name, value in given.items() if value is not None}


DEFAULT = Sampling()


def sampling_for(
    caller: str,
    space: Space,
    rings: Sequence[float] | None,
    sigma: float | None,
    band_limit: BandLimit,
    method: Literal["free"] | None = None,
) -> Sampling:
    """The options; an error for groups whose filters are not sampled, and for rings of free filters."""
    sampling = Sampling(None if rings is None else tuple(map(float, rings)), sigma, band_limit, method)
    given = ["free filters" if name == "method" else name for name in sampling.options]
    if given and (not isinstance(space, Grid) or space.exact):
        options = "free filters" if method else "rings, sigma and band_limit"
        raise InputError(
            caller,
            expected=f"{options} only for groups that do not map the lattice to itself",
            got=f"{', '.join(given)} on {space.name}, where filters are free up to the symmetry",
        )
    if method is not None and len(given) > 1:
        raise InputError(caller, expected="no rings, sigma or band_limit for free filters", got=", ".join(given))
    return sampling

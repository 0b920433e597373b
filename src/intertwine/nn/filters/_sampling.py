"""How sampled filters are made: their rings, the width of the rings, and the degrees on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ...kernels import BandLimit
from ...spaces import Grid, Space


@dataclass(frozen=True)
class Sampling:
    """The options of :class:`~intertwine.kernels.SteerableKernelBasis`; None for its defaults.

    A function for ``band_limit`` is compared by identity.
    """

    rings: tuple[float, ...] | None = None
    sigma: float | None = None
    band_limit: BandLimit = None

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given."""
        given = {"rings": self.rings, "sigma": self.sigma, "band_limit": self.band_limit}
        return {name: value for name, value in given.items() if value is not None}


DEFAULT = Sampling()


def sampling_for(
    caller: str, space: Space, rings: Sequence[float] | None, sigma: float | None, band_limit: BandLimit
) -> Sampling:
    """The options; an error for groups whose filters are not sampled."""
    sampling = Sampling(None if rings is None else tuple(map(float, rings)), sigma, band_limit)
    if sampling.options and (not isinstance(space, Grid) or space.exact):
        raise InputError(
            caller,
            expected="rings, sigma and band_limit only for groups that do not map the lattice to itself",
            got=f"{', '.join(sampling.options)} on {space.name}, where filters are free up to the symmetry",
        )
    return sampling

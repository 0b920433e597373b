"""Special functions of the rotation groups: spherical harmonics, Wigner matrices, Clebsch-Gordan coefficients."""

from ._clebsch_gordan import clebsch_gordan as clebsch_gordan
from ._harmonics import circular_harmonics as circular_harmonics
from ._harmonics import spherical_harmonics as spherical_harmonics
from ._wigner import wigner_d as wigner_d
from ._wigner import wigner_ds as wigner_ds

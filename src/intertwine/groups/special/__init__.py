"""Special functions of the rotation groups: spherical harmonics, Wigner matrices, Clebsch-Gordan coefficients."""

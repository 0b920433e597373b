r"""The linear spaces of equivariant kernels, solved, checked against Mackey's formula and cached.

What the files hold:

    solve, cache                                         the solver, and its cache
    basis, lattice, steerable, hermite, rotated, sphere  bases of kernels, by the space that they live on
    realizations, orbit_kernels                          the same kernels on G, G/H and H\G/H
    angular, brute_force                                 solutions on one circle or sphere, and a slow oracle
"""

from ._angular import angular_solutions as angular_solutions
from ._basis import KernelBasis as KernelBasis
from ._brute_force import brute_force as brute_force
from ._cache import clear_cache as clear_cache
from ._hermite import HermiteKernelBasis as HermiteKernelBasis
from ._lattice import LatticeKernelBasis as LatticeKernelBasis
from ._orbit_kernels import DoubleCoset as DoubleCoset
from ._orbit_kernels import OrbitKernels as OrbitKernels
from ._realizations import Realization as Realization
from ._realizations import realizations as realizations
from ._rotated import RotatedKernelBasis as RotatedKernelBasis
from ._solve import solve as solve
from ._sphere import SphereKernelBasis as SphereKernelBasis
from ._steerable import BandLimit as BandLimit
from ._steerable import Ring as Ring
from ._steerable import Shell as Shell
from ._steerable import SteerableKernelBasis as SteerableKernelBasis

"""Homogeneous spaces G/H, their sections and cocycles, and the fields on them."""

from ._field import FieldType as FieldType
from ._field import Frobenius as Frobenius
from ._field import frobenius as frobenius
from ._grid import Grid as Grid
from ._grid import Grid2d as Grid2d
from ._grid import Grid3d as Grid3d
from ._grid import Motion as Motion
from ._homogeneous import HomogeneousSpace as HomogeneousSpace
from ._homogeneous import require_common_group as require_common_group
from ._point import Point as Point
from ._resample import resample as resample
from ._space import Space as Space
from ._sphere import Sphere as Sphere
from ._sphere_grid import SphereGrid as SphereGrid
from ._sphere_grid import require_band_limit as require_band_limit
from ._spin import SpinDecomposition as SpinDecomposition
from ._spin import spin_decomposition as spin_decomposition
from ._spin_tables import SpinTables as SpinTables
from ._spin_tables import spin_tables as spin_tables
from ._spin_transform import SpinTransform as SpinTransform

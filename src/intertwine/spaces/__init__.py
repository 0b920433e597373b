"""Homogeneous spaces G/H with sections and cocycles, the fields on them, and how groups act on fields.

What the files hold:

    space, homogeneous, parse          what a space is, G/H for finite groups, and spaces by name
    grid, grids                        pixel grids in one, two and three dimensions
    point, cloud, tuples               vectors, scattered points, sets and graphs
    sphere, sphere_grid                the sphere and its sampling
    scale                              planes with sampled scales
    field, field_action, axis_move     field types, and how a group acts on fields
    resample, hexagonal                moving images between samples, and between square and hexagonal lattices
    spin, spin_tables, spin_transform  harmonic analysis of fields on the sphere
"""

from ._axis_move import AxisMove as AxisMove
from ._cloud import Cloud as Cloud
from ._cloud import Cloud2d as Cloud2d
from ._cloud import Cloud3d as Cloud3d
from ._field import FieldType as FieldType
from ._field import Frobenius as Frobenius
from ._field import frobenius as frobenius
from ._field_action import FieldAction as FieldAction
from ._grid import Grid as Grid
from ._grid import Motion as Motion
from ._grids import Grid1d as Grid1d
from ._grids import Grid2d as Grid2d
from ._grids import Grid3d as Grid3d
from ._hexagonal import from_hexagonal as from_hexagonal
from ._hexagonal import to_hexagonal as to_hexagonal
from ._homogeneous import HomogeneousSpace as HomogeneousSpace
from ._parse import parse_space as parse_space
from ._point import Point as Point
from ._resample import Border as Border
from ._resample import Interpolation as Interpolation
from ._resample import resample as resample
from ._scale import ScalePlane as ScalePlane
from ._scale import ScaleSpace as ScaleSpace
from ._scale import Zoom as Zoom
from ._scale import Zooms as Zooms
from ._space import Space as Space
from ._sphere import Sphere as Sphere
from ._sphere_grid import SphereGrid as SphereGrid
from ._spin import SpinDecomposition as SpinDecomposition
from ._spin import spin_decomposition as spin_decomposition
from ._spin_tables import SpinTables as SpinTables
from ._spin_tables import spin_tables as spin_tables
from ._spin_transform import SpinTransform as SpinTransform
from ._tuples import Tuples as Tuples

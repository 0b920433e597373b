"""Fields on scattered points: neighbor search, radial functions, convolutions."""

from ._point_conv import PointConv as PointConv
from ._radial import bessel_basis as bessel_basis
from ._radial import gaussian_basis as gaussian_basis
from ._radial import smooth_cutoff as smooth_cutoff
from ._radius_graph import radius_graph as radius_graph

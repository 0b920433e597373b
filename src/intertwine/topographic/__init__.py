"""Topographic latent variables, which share their variance within a capsule and over time."""

from ._cayley import CayleyTopology as CayleyTopology
from ._latent import sample_topographic as sample_topographic
from ._latent import student_t as student_t
from ._latent import student_t_moments as student_t_moments
from ._product import ProductTopology as ProductTopology
from ._topology import AdjacencyTopology as AdjacencyTopology
from ._topology import OffsetTopology as OffsetTopology
from ._topology import Topology as Topology
from ._topology import TorusTopology as TorusTopology
from ._topology import shifting_topology as shifting_topology
from ._topology import stationary_topology as stationary_topology
from ._window import Window as Window

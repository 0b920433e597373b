"""Layers between strictly equivariant and unconstrained, under one dial."""

from ._relaxed import RELAXED as RELAXED
from ._relaxed import RelaxationTable as RelaxationTable
from ._relaxed import Relaxed as Relaxed
from ._relaxed import SampleMotion as SampleMotion
from ._relaxed import motion_error as motion_error
from ._relaxed import register_relaxed as register_relaxed
from ._relaxed import relaxation_penalty as relaxation_penalty
from ._relaxed import relaxation_table as relaxation_table
from ._relaxed import relaxed_layers as relaxed_layers

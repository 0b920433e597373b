"""Checks for users to hold their own groups, spaces and layers to."""

from ._conformance import CHECKS as CHECKS
from ._conformance import assert_conforms as assert_conforms
from ._equivariance import assert_equivariant as assert_equivariant
from ._laws import cocycle_residual as cocycle_residual
from ._laws import distance as distance
from ._laws import group_residual as group_residual
from ._laws import homomorphism_residual as homomorphism_residual
from ._laws import induced_residual as induced_residual
from ._laws import mackey_residual as mackey_residual
from ._laws import section_residual as section_residual

"""Checks for groups, spaces and layers, including your own: equivariance, conformance, laws and timing.

What the files hold:

    equivariance  errors under the group
    conformance   everything that a layer promises
    device        layers that follow their device
    laws          laws of groups, representations, spaces and kernels
    timing        costs in CPU seconds, measured in pairs
"""

from ._conformance import CHECKS as CHECKS
from ._conformance import assert_conforms as assert_conforms
from ._device import assert_deferred as assert_deferred
from ._device import assert_follows_device as assert_follows_device
from ._equivariance import assert_equivariant as assert_equivariant
from ._equivariance import equivariance_errors as equivariance_errors
from ._laws import cocycle_residual as cocycle_residual
from ._laws import distance as distance
from ._laws import group_residual as group_residual
from ._laws import homomorphism_residual as homomorphism_residual
from ._laws import induced_residual as induced_residual
from ._laws import mackey_residual as mackey_residual
from ._laws import section_residual as section_residual
from ._timing import Comparison as Comparison
from ._timing import compare as compare
from ._timing import compare_with_plain as compare_with_plain
from ._timing import cpu_seconds as cpu_seconds
from ._timing import evaluation as evaluation
from ._timing import training_step as training_step

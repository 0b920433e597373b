"""How symmetric is a network? Errors of outputs, layers and capsules, with confidence intervals."""

from ._capsules import capsule_correlation as capsule_correlation
from ._capsules import capsule_equivariance_error as capsule_equivariance_error
from ._capsules import capsule_null as capsule_null
from ._consistency import shift_consistency as shift_consistency
from ._equivariance import equivariance_error as equivariance_error
from ._invariance import agreement as agreement
from ._invariance import invariance_error as invariance_error
from ._invariance import invariance_loss as invariance_loss
from ._layers import LayerErrors as LayerErrors
from ._layers import layer_errors as layer_errors
from ._lie import lie_derivative as lie_derivative
from ._metric import METRICS as METRICS
from ._probe import linear_probe as linear_probe
from ._traversal import reconstruction_error as reconstruction_error
from ._traversal import traversal_error as traversal_error

"""Bökman & Kahl, "Investigating how ReLU-networks encode symmetries", NeurIPS 2023.

The experiments ask how far networks trained on mirrored images are from group-convolutional ones. The propositions say
what commutes with ReLU, and what follows for networks; each is a function that checks it.
"""

from ._co_occurrence import CoOccurrence as CoOccurrence
from ._co_occurrence import co_occurring_features as co_occurring_features
from ._finite_actions import PushedAction as PushedAction
from ._finite_actions import layerwise_quotient as layerwise_quotient
from ._finite_actions import pushed_action as pushed_action
from ._mirrored_training import mirrored_training_gap as mirrored_training_gap
from ._propositions import ScaledPermutation as ScaledPermutation
from ._propositions import Verdict as Verdict
from ._propositions import absolute_value_errors as absolute_value_errors
from ._propositions import affine_relu_witness as affine_relu_witness
from ._propositions import hidden_action as hidden_action
from ._propositions import layerwise_swap_net as layerwise_swap_net
from ._propositions import relu_commutes as relu_commutes
from ._propositions import scalar_invariance as scalar_invariance
from ._propositions import swap_invariant as swap_invariant
from ._propositions import to_permutations as to_permutations
from ._propositions import two_layer_equivariance as two_layer_equivariance

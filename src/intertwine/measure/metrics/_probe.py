"""How much can a linear map read from features?"""

from __future__ import annotations

import torch

from ..._checked import Matrix, Vector, checked
from ...errors import InputError
from .._estimate import Estimate
from ._metric import define

define(
    "linear_probe",
    "1 if argmax of a linear map of the features, fitted on others, is the label, else 0",
    "",
    "higher",
    "share of test samples whose class a linear map predicts from their features",
)


@checked
def linear_probe(
    features: Matrix, labels: Vector, test_features: Matrix, test_labels: Vector, *, ridge: float = 1e-2
) -> Estimate:
    """The test accuracy of a linear classifier, fitted by least squares to one-hot labels.

    Features are standardized first. The solution is exact; the ridge is the only setting.

    Args:
        features: ``(n, d)``, the training features.
        labels: ``(n,)``, 0, 1, …
        test_features: ``(m, d)``.
        test_labels: ``(m,)``.
        ridge: added to the diagonal, relative to n.

    >>> x = torch.eye(3).repeat(5, 1)
    >>> y = torch.arange(3).repeat(5)
    >>> linear_probe(x, y, x, y).mean
    1.0
    """
    if len(features) != len(labels) or len(test_features) != len(test_labels):
        raise InputError(
            "linear_probe",
            expected="as many labels as features",
            got=f"{tuple(features.shape)} with {len(labels)}, {tuple(test_features.shape)} with {len(test_labels)}",
        )
    x, test = features.double(), test_features.double()
    mean, std = x.mean(0), x.std(0).clamp_min(1e-12)
    x, test = (x - mean) / std, (test - mean) / std
    ones = torch.ones(len(x), 1, dtype=torch.float64)
    x, test = torch.cat([x, ones], 1), torch.cat([test, torch.ones(len(test), 1, dtype=torch.float64)], 1)
    classes = int(max(labels.max(), test_labels.max())) + 1
    targets = torch.nn.functional.one_hot(labels.long(), classes).double()
    gram = x.T @ x + ridge * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(gram, x.T @ targets)
    return Estimate("linear_probe", ((test @ weights).argmax(1) == test_labels).double())

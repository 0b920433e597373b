"""Sets the weights of a layer from a given filter, bias or statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InputError
from ..linear._filter_layer import FilterLayer
from ..norms._norm import BatchNorm


def fit_filter_(layer: FilterLayer, filters: Tensor, bias: Tensor | None, *, tolerance: float, name: str) -> None:
    """Set the weights of a layer between permutation fields of a group that maps the lattice to itself.

    Each weight then sets the entries of one orbit, and the least squares solution is their mean. Converts the layer to
    float64.

    Args:
        layer: the layer.
        filters: ``(d2, d1 / groups, *kernel_size)``, already equivariant.
        bias: ``(d2,)``, already invariant.
        tolerance: the largest allowed difference between filters, relative to the largest entry.
        name: the name of the filter in errors.
    """
    layer.double()
    filters = filters.double()
    with torch.enable_grad():
        free = [torch.ones_like(weight, requires_grad=True) for weight in layer.weights]
        expanded = layer.expansion(free)
        sums = torch.autograd.grad((expanded * filters).sum(), free, retain_graph=True)
        counts = torch.autograd.grad((expanded * expanded.detach()).sum(), free)
    with torch.no_grad():
        for weight, total, count in zip(layer.weights, sums, counts, strict=True):
            weight.copy_(total / count)
        if layer.bias is not None and bias is not None:
            layer.bias.copy_(layer.invariants.coordinates(bias.double()))
        elif layer.bias is not None:
            layer.bias.zero_()
        fitted, shift = layer.expand()
        _require_close(fitted, filters, tolerance, name)
        if bias is not None and shift is not None:
            _require_close(shift, bias.double(), tolerance, name)


def fit_norm_(
    layer: BatchNorm,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    *,
    tolerance: float,
    name: str,
) -> None:
    """Set the statistics, the scale and the shift of a batch norm, in float64, from those of each channel."""
    layer.double()
    scalars = [(layer.running_var, var), (layer.weight, weight)]
    vectors = [(layer.running_mean, mean), (layer.bias, bias)]
    with torch.no_grad():
        for target, values in scalars:
            if target is not None and values is not None:
                target.copy_(layer.fields.average(values.double()))
                _require_close(layer.fields(target), values.double(), tolerance, name)
        for target, values in vectors:
            if target is not None and values is not None:
                target.copy_(layer.invariants.coordinates(values.double()))
                _require_close(layer.invariants(target), values.double(), tolerance, name)


def _require_close(fitted: Tensor, given: Tensor, tolerance: float, name: str) -> None:
    error = float((fitted - given).abs().max() / given.abs().max().clamp_min(1e-300))
    if not error <= tolerance and float(given.abs().max()) > 0:
        raise InputError(
            "typed",
            expected=f"equivariant weights in {name}, as symmetrize leaves them",
            got=f"weights that differ from the nearest equivariant ones by {error:.1e} of the largest",
            fix="Symmetrize the network again, and do not change the twin's model.",
        )

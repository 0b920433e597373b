"""Linear regression on streamed moments that are averaged over a group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Relabeling:
    """How one group element permutes outputs, and features within and between blocks.

    Attributes:
        outputs: for each output, the output it is moved from.
        blocks: for each block, the block it is moved from.
        features: for each block and feature, the feature of that block it is moved from.
    """

    outputs: Tensor
    blocks: Tensor
    features: Tensor

    @staticmethod
    def of(moved: Tensor, blocks: int) -> Relabeling:
        """From a weight (outputs, features) of consecutive numbers after it was moved."""
        outputs, features = moved.shape
        each = outputs // blocks
        first = moved[::each]
        return Relabeling(moved[:, 0] // features, first[:, 0] // features // each, first % features)


class LinearMoments:
    """First and second moments of features and targets, in float64; memory does not depend on the number of samples.

    Outputs and features come in blocks, as in a grouped convolution: each output depends on the features of its block.

    >>> x = torch.randn(50, 1, 3)
    >>> moments = LinearMoments(1, 3, 2)
    >>> w = torch.tensor([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]])
    >>> moments.add(x, x[:, 0] @ w.T + 1)
    >>> weight, bias = moments.solution(torch.zeros(2, 3), ridge=0.0, with_bias=True)
    >>> torch.allclose(weight, w.double(), atol=1e-5), torch.allclose(bias, torch.ones(2).double(), atol=1e-5)
    (True, True)
    """

    def __init__(self, blocks: int, features: int, outputs: int) -> None:
        double = {"dtype": torch.float64}
        self.count = 0
        self.mean_x, self.mean_t = torch.zeros(blocks, features, **double), torch.zeros(outputs, **double)  # type: ignore[call-overload]
        self.xx = torch.zeros(blocks, features, features, **double)  # type: ignore[call-overload]
        self.tx = torch.zeros(outputs, features, **double)  # type: ignore[call-overload]

    def add(self, x: Tensor, t: Tensor) -> None:
        """Add samples: features (n, blocks, features) and targets (n, outputs)."""
        x, t = x.double().cpu(), t.double().cpu()
        blocks, features = self.mean_x.shape
        self.count += len(x)
        self.mean_x += x.sum(0)
        self.mean_t += t.sum(0)
        by_block = x.permute(1, 0, 2)
        self.xx += by_block.mT @ by_block
        self.tx += (t.view(len(t), blocks, -1).permute(1, 2, 0) @ by_block).reshape(-1, features)

    def averaged(self, elements: Sequence[Relabeling]) -> LinearMoments:
        """The moments of all samples moved by all elements of the group, per sample."""
        blocks, features = self.mean_x.shape
        out = LinearMoments(blocks, features, len(self.mean_t))
        scale = 1 / (self.count * len(elements))
        each = len(self.mean_t) // blocks
        for e in elements:
            rows = e.features.repeat_interleave(each, 0)
            out.mean_t += self.mean_t[e.outputs] * scale
            out.mean_x += self.mean_x[e.blocks].gather(1, e.features) * scale
            out.tx += self.tx[e.outputs].gather(1, rows) * scale
            moved = self.xx[e.blocks]
            for block in range(blocks):  # index each block alone: a gather would need an index of the same size
                f = e.features[block]
                out.xx[block] += moved[block][f][:, f] * scale
        out.count = 1
        return out

    def solution(self, start: Tensor, *, ridge: float, with_bias: bool) -> tuple[Tensor, Tensor]:
        """Weights (outputs, features) and biases that minimize the mean square error plus a pull to ``start``.

        The pull is ``ridge`` times the mean variance of a feature times ‖W − start‖².
        """
        blocks, features = self.mean_x.shape
        xx, tx = self.xx / self.count, (self.tx / self.count).view(blocks, -1, features)
        mean_x, mean_t = self.mean_x / self.count, (self.mean_t / self.count).view(blocks, -1)
        if with_bias:
            xx = xx - mean_x[:, :, None] * mean_x[:, None]
            tx = tx - mean_t[:, :, None] * mean_x[:, None]
        size = xx.diagonal(dim1=1, dim2=2).mean(1)[:, None, None].clamp_min(1e-300)
        pull = max(ridge, 1e-9) * size
        before = start.double().view(blocks, -1, features)
        system = xx + pull * torch.eye(features, dtype=torch.float64)
        # Solved for the change, so that what the features say nothing about stays as it is.
        change = torch.linalg.solve(system, (tx - before @ xx).mT).mT
        weight = before + change
        bias = mean_t - (weight @ mean_x[:, :, None])[:, :, 0] if with_bias else torch.zeros_like(mean_t)
        return weight.reshape(-1, features), bias.reshape(-1)

    def statistics(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance of each output of a linear map without bias."""
        blocks, features = self.mean_x.shape
        by_block = weight.double().view(blocks, -1, features)
        mean_x = self.mean_x / self.count
        mean = (by_block @ mean_x[:, :, None])[:, :, 0]
        square = (by_block @ (self.xx / self.count) * by_block).sum(2)
        return mean.reshape(-1), (square - mean**2).clamp_min(0).reshape(-1)

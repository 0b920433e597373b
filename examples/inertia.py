"""Learn the inertia tensor of five masses, with and without its symmetry.

Five masses at five points have the inertia tensor I = Σ m (|x|²·1 - x xᵀ). When the points rotate, I rotates with them:
the input is five scalars and five vectors of O(3), and the output is a symmetric matrix, which is a scalar and an
irreducible of degree 2. An equivariant MLP has this built in; a plain MLP of the same size has to learn it. The
script prints the test error of both for several numbers of training examples, and how far each is from equivariant.

Run as ``python examples/inertia.py [--epochs 300]``.
"""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn

import intertwine as tw

POINTS = 5
POINT = tw.spaces.Point("O(3)")
INPUT = POINT.field(f"{POINTS}*irrep0 + {POINTS}*irrep1")
OUTPUT = POINT.field("irrep0 + irrep2")
YZX = [1, 2, 0]  # vectors as irreducibles of degree 1 are ordered (y, z, x)


def draw(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Inputs ``(count, 20)`` and inertia tensors ``(count, 6)``."""
    masses = torch.rand(count, POINTS, generator=generator)
    points = torch.randn(count, POINTS, 3, generator=generator)
    square = points.square().sum(-1)
    tensor = (masses * square).sum(1)[:, None, None] * torch.eye(3)
    tensor = tensor - torch.einsum("zn,zni,znj->zij", masses, points, points)
    return torch.cat([masses, points[..., YZX].flatten(1)], 1), to_irreps(tensor)


def to_irreps(matrix: Tensor) -> Tensor:
    """A symmetric matrix as its trace and its five harmonics of degree 2."""
    (x, y, z), r = (0, 1, 2), 3**-0.5
    trace = matrix.diagonal(dim1=1, dim2=2).sum(1) * r
    two = 2**0.5
    rows = [
        two * matrix[:, x, y],
        two * matrix[:, y, z],
        (2 * matrix[:, z, z] - matrix[:, x, x] - matrix[:, y, y]) / 6**0.5,
        two * matrix[:, x, z],
        (matrix[:, x, x] - matrix[:, y, y]) / two,
    ]
    return torch.stack([trace, *rows], 1)


def equivariant(width: int = 16) -> tw.nn.Layer:
    """Linear layers, gates and products between scalars, vectors and tensors."""
    vectors = tw.nn.Gated(POINT.field(f"{width}*irrep0 + {width}*irrep1"))
    tensors = tw.nn.Gated(POINT.field(f"{width}*irrep0 + {width}*irrep1 + {width}*irrep2"))
    hidden = tensors.out_type
    return tw.nn.Sequential(
        tw.nn.Linear(INPUT, vectors.in_type),
        vectors,
        tw.nn.TensorProduct(vectors.out_type, tensors.in_type),
        tensors,
        tw.nn.Residual(tw.nn.TensorProduct(hidden, hidden)),
        tw.nn.Linear(hidden, OUTPUT),
    )


def plain(weights: int) -> nn.Module:
    """An MLP with about as many weights."""
    width = int((weights / 2) ** 0.5)
    return nn.Sequential(
        nn.Linear(INPUT.dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(),
        nn.Linear(width, width), nn.SiLU(), nn.Linear(width, OUTPUT.dim),
    )  # fmt: skip


def train(net: nn.Module, x: Tensor, y: Tensor, epochs: int) -> None:
    """Adam with one cycle of learning rates."""
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    batches = max(1, len(x) // 100)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=epochs * batches)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).chunk(batches):
            optimizer.zero_grad()
            (net(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
            schedule.step()


@torch.no_grad()
def errors(net: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """The share of the variance that is missed, and the relative error under random rotations and reflections."""
    out = net(x)
    missed = float((out - y).square().mean() / y.var())
    worst = 0.0
    for g in POINT.sample(10, torch.Generator().manual_seed(0)):
        turned = net(INPUT.transform(x, g)) - OUTPUT.transform(out, g)
        worst = max(worst, float(turned.norm() / out.norm()))
    return missed, worst


def main() -> None:
    """Train both networks and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--examples", type=int, nargs="+", default=[100, 1000])
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(0)
    x_test, y_test = draw(2000, generator)
    for count in options.examples:
        x, y = draw(count, generator)
        torch.manual_seed(0)
        ours = equivariant()
        weights = sum(p.numel() for p in ours.parameters())
        print(f"{count} examples, {weights} weights")
        for name, net in (("equivariant", ours), ("plain", plain(weights))):
            train(net, x, y, options.epochs)
            missed, turned = errors(net, x_test, y_test)
            print(f"  {name:<12} misses {missed:.2g} of the variance; error under rotations {turned:.1g}")


if __name__ == "__main__":
    main()

"""Learn the inertia tensor of five masses, with its symmetry and without.

When the points rotate, the tensor Σ m (|x|²·1 - x xᵀ) rotates with them. For O(3), the input is five scalars and five
vectors, the output a scalar and an irreducible of degree 2. The equivariant MLP has this built in; the plain has not.
"""

import argparse

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--epochs", type=int, default=100)
options = parser.parse_args()

point = tw.spaces.Point("O(3)")
inputs, outputs = point.field("5*irrep0 + 5*irrep1"), point.field("irrep0 + irrep2")
order = [1, 2, 0]  # an irreducible of degree 1 is a vector (y, z, x)
matrix_to_irreps = torch.cat([tw.groups.clebsch_gordan(1, 1, l) for l in (0, 2)], 2).float()


def draw(count, seed):
    """Masses and points in one row, and their inertia tensors."""
    noise = torch.Generator().manual_seed(seed)
    masses, points = torch.rand(count, 5, generator=noise), torch.randn(count, 5, 3, generator=noise)
    tensor = (masses * points.square().sum(2)).sum(1)[:, None, None] * torch.eye(3)
    tensor -= torch.einsum("zn,zni,znj->zij", masses, points, points)
    x = torch.cat([masses, points[:, :, order].flatten(1)], 1)
    return x, torch.einsum("zij,ijk->zk", tensor[:, order][:, :, order], matrix_to_irreps)


def train(net, x, y):
    """Adam with one cycle of learning rates."""
    optimizer = torch.optim.Adam(net.parameters())
    batches = max(1, len(x) // 100)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=options.epochs * batches)
    for _ in range(options.epochs):
        for rows in torch.randperm(len(x)).chunk(batches):
            optimizer.zero_grad()
            (net(x[rows]) - y[rows]).square().mean().backward()
            optimizer.step()
            schedule.step()


torch.manual_seed(0)
vectors = tw.nn.Gated(point.field("16*irrep0 + 16*irrep1"))
tensors = tw.nn.Gated(point.field("16*irrep0 + 16*irrep1 + 16*irrep2"))
equivariant = tw.nn.Sequential(
    *(tw.nn.Linear(inputs, vectors.in_type), vectors),
    *(tw.nn.TensorProduct(vectors.out_type, tensors.in_type), tensors),
    tw.nn.Residual(tw.nn.TensorProduct(tensors.out_type, tensors.out_type)),
    tw.nn.Linear(tensors.out_type, outputs),
)
hidden = [module for _ in range(2) for module in (nn.Linear(140, 140), nn.SiLU())]
plain = nn.Sequential(nn.Linear(20, 140), nn.SiLU(), *hidden, nn.Linear(140, 6))

x_test, y_test = draw(2000, seed=1)
for name, net in (("plain", plain), ("equivariant", equivariant)):
    train(net, *draw(1000, seed=0))
    with torch.no_grad():
        missed = float((net(x_test) - y_test).square().mean() / y_test.var())
        g = point.sample(1, torch.Generator().manual_seed(0))[0]
        error = float((net(inputs.transform(x_test, g)) - outputs.transform(net(x_test), g)).norm() / y_test.norm())
    weights = sum(p.numel() for p in net.parameters())
    print(f"{name:<12} {weights} weights  misses {missed:.2%} of the variance  error under a rotation {error:.1e}")
if error > 1e-5:
    raise SystemExit("the equivariant network should rotate its output with its input")

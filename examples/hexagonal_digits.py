"""Impose: a network on the hexagonal lattice, invariant to rotations by 60°.

Both networks train on upright digits only, and see digits at multiples of 60° in the test. On a square lattice such
rotations are only approximate; on the hexagonal lattice they permute the samples.
"""

import argparse

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

data = tw.data.load("digits", size=16).normalized()  # 1797 handwritten digits, embedded
(x, y), (test_x, test_y) = data.train.as_tensors(), data.test.as_tensors()
x, test_x = tw.spaces.to_hexagonal(x), tw.spaces.to_hexagonal(test_x)  # 21 x 21 samples, a hexagon inside

plane = tw.spaces.Grid2d("C6", lattice="hexagonal")
gray, few, many = plane.field("trivial"), plane.field("4*regular"), plane.field("16*regular")
pool = tw.nn.GroupPool(many)
features = tw.nn.Sequential(
    tw.nn.Conv2d(gray, few, 5, padding=2), tw.nn.BatchNorm(few), tw.nn.ReLU(few),
    tw.nn.AvgPool2d(few, 3, stride=2, padding=1),
    tw.nn.Conv2d(few, many, 5, padding=2), tw.nn.BatchNorm(many), tw.nn.ReLU(many),
    pool, tw.nn.Mask(pool.out_type, 11, margin=0), tw.nn.GlobalPool(pool.out_type),
)  # fmt: skip
torch.manual_seed(options.seed)
networks = {"plain": tw.models.plain_cnn(1, 10, widths=(10, 16)), "C6": nn.Sequential(features, nn.Linear(16, 10))}


def rotated(images: torch.Tensor, g: int) -> torch.Tensor:
    """Rotated by g times 60°."""
    return gray.transform(images, plane.from_stabilizer(g))


errors = {}
for name, net in networks.items():
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-2)
    for _ in range(options.epochs):
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            optimizer.step()
    net.eval()
    accuracies = [tw.measure.accuracy(net, (rotated(test_x, g), test_y)) for g in range(6)]
    with torch.no_grad():
        errors[name] = float((net(rotated(test_x, 1)) - net(test_x)).norm() / net(test_x).norm())
    weights = sum(p.numel() for p in net.parameters())
    by_angle = "  ".join(f"{accuracy:.0%}" for accuracy in accuracies)
    print(f"{name:5}  {weights:6} weights  at 0° to 300°: {by_angle}  error {errors[name]:.1e}")

if not errors["C6"] < 1e-5 < errors["plain"]:
    raise SystemExit("The C6 network should be invariant, and the plain one should not.")

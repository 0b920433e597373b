"""Impose: a network that is invariant to the eight symmetries of the square, on digits in any orientation.

Both networks train on upright digits only. The plain one fails if digits are rotated or mirrored; for the other it
makes no difference.
"""

import argparse

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

data = tw.data.load("digits", size=16).normalized()  # 1797 handwritten digits, embedded
(x, y), (test_x, test_y) = data.train.as_tensors(), data.test.as_tensors()

D4 = tw.groups.Dihedral(4)
plane = tw.spaces.Grid2d(D4)
gray, few, many = plane.field(D4.trivial), plane.field(4 * D4.regular), plane.field(8 * D4.regular)
pool = tw.nn.GroupPool(many)
features = tw.nn.Sequential(
    tw.nn.Conv2d(gray, few, 5, padding=2), tw.nn.BatchNorm(few), tw.nn.ReLU(few), tw.nn.AvgPool2d(few, 2),
    tw.nn.Conv2d(few, many, 5, padding=2), tw.nn.BatchNorm(many), tw.nn.ReLU(many), tw.nn.AvgPool2d(many, 2),
    pool, tw.nn.GlobalPool(pool.out_type),
)  # fmt: skip
torch.manual_seed(options.seed)
networks = {"plain": tw.models.plain_cnn(1, 10, widths=(10, 16)), "D4": nn.Sequential(features, nn.Linear(8, 10))}


def moved(images: torch.Tensor, g: int) -> torch.Tensor:
    """Rotated by g quarter turns; for g >= 4, mirrored first."""
    return (images.flip(3) if g >= 4 else images).rot90(g % 4, (2, 3))


errors = {}
for name, net in networks.items():
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(options.epochs):
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            optimizer.step()
    net.eval()
    upright = tw.measure.accuracy(net, (test_x, test_y))
    any_orientation = sum(tw.measure.accuracy(net, (moved(test_x, g), test_y)) for g in range(8)) / 8
    errors[name] = tw.measure.invariance_error(net, test_x, "d4").mean
    weights = sum(p.numel() for p in net.parameters())
    accuracies = f"upright {upright:.1%}  any orientation {any_orientation:.1%}"
    print(f"{name:5}  {weights:6} weights  {accuracies}  error {errors[name]:.1e}")

if not errors["D4"] < 1e-5 < errors["plain"]:
    raise SystemExit("The D4 network should be invariant, and the plain one should not.")

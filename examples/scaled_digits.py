"""Impose: a network that recognizes digits at sizes it has never seen.

Both networks train on digits of one size. The plain one fails on larger ones. The other shares its filters over a range
of scales and takes the maximum over them.
"""

import argparse

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()

CANVAS, TRAINED = 41, 16
SIZES = 16, 19, 23, 27, 32  # in samples; the last is twice the first


def digits(size: int) -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Training and test digits of this size in the middle of a canvas."""
    data = tw.data.load("digits", size=size)  # 1797 handwritten digits, embedded
    before, after = (CANVAS - size) // 2, (CANVAS - size + 1) // 2
    pairs = data.train.as_tensors(), data.test.as_tensors()
    return tuple((nn.functional.pad(x, (before, after, before, after)), y) for x, y in pairs)


scales = tw.spaces.ScaleSpace(base=2**0.5, count=4)
gray, few, many = tw.spaces.ScalePlane().field("trivial"), scales.field("8*trivial"), scales.field("16*trivial")
features = tw.nn.Sequential(
    tw.nn.ScaleLift2d(gray, few, stride=2), tw.nn.BatchNorm(few), tw.nn.ReLU(few),
    tw.nn.ScaleConv2d(few, many, stride=2), tw.nn.BatchNorm(many), tw.nn.ReLU(many),
    tw.nn.ScalePool(many, keep_plane=False),
)  # fmt: skip
torch.manual_seed(options.seed)
plain = nn.Sequential(
    nn.Conv2d(1, 6, 5, stride=2, padding=2), nn.BatchNorm2d(6), nn.ReLU(),
    nn.Conv2d(6, 7, 3, stride=2, padding=1), nn.BatchNorm2d(7), nn.ReLU(),
    nn.Conv2d(7, 7, 3, stride=2, padding=1), nn.BatchNorm2d(7), nn.ReLU(),
    nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(7, 10),
)  # fmt: skip
networks = {"plain": plain, "scales": nn.Sequential(features, nn.Linear(16, 10))}

x, y = digits(TRAINED)[0]
unseen = {}
for name, net in networks.items():
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(options.epochs):
        for part in torch.randperm(len(x)).split(64):
            optimizer.zero_grad()
            shift = torch.randint(-2, 3, (2,)).tolist()  # a stride sees some positions only
            nn.functional.cross_entropy(net(x[part].roll(shift, (2, 3))), y[part]).backward()
            optimizer.step()
    net.eval()
    accuracies = [tw.measure.accuracy(net, digits(size)[1]) for size in SIZES]
    unseen[name] = sum(accuracies[1:]) / len(accuracies[1:])
    weights = sum(p.numel() for p in net.parameters())
    print(f"{name:6}  {weights:5} weights ", *(f" size {n}: {a:.1%}" for n, a in zip(SIZES, accuracies, strict=True)))

if not unseen["scales"] > unseen["plain"]:
    raise SystemExit("The scale network should do better at sizes that it has not seen.")

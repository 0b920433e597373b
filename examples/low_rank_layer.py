"""Relax: a low-rank locally connected (LRLC) layer, between one filter for all positions and one per position.

The class is the half of the image that contains a stroke. A convolution followed by a mean cannot tell the halves
apart. An LRLC layer learns to mix its two filter banks differently above and below, and `combining_maps` shows it.
"""

import argparse

import torch
from torch import Tensor, nn

import intertwine as tw

SIZE = 12


def strokes(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noisy images with one horizontal stroke, and whether it is in the lower half."""
    images = 0.3 * torch.randn(count, 1, SIZE, SIZE, generator=generator)
    rows = torch.randint(1, SIZE - 1, (count,), generator=generator)
    images[torch.arange(count), 0, rows, 2:-2] += 1.0
    return images, (rows >= SIZE // 2).long()


def network(layer: nn.Module) -> nn.Module:
    """The layer, then a mean over all positions: only the layer can depend on the position."""
    return nn.Sequential(layer, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=30)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
generator = torch.Generator().manual_seed(0)
(x, y), test = strokes(1000, generator), strokes(1000, generator)

torch.manual_seed(options.seed)
low_rank = tw.relaxed.LowRankLocalConv2d(1, 8, 3, rank=2, input_size=SIZE, spatial_bias=False)
layers = {
    "convolution": nn.Conv2d(1, 8, 3),
    "low rank, K = 2": low_rank,
    "locally connected": tw.relaxed.LocallyConnected2d(1, 8, 3, input_size=SIZE),
}
score = {}
for name, layer in layers.items():
    net = network(layer)
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-2)
    for _ in range(options.epochs):
        for part in torch.randperm(len(x)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[part]), y[part]).backward()
            optimizer.step()
    score[name] = tw.measure.accuracy(net.eval(), test)
    print(f"{name:17}  {sum(p.numel() for p in layer.parameters()):5} weights  accuracy {score[name]:.1%}")

share = tw.relaxed.combining_maps(low_rank)[0].mean(1)  # (rows,): the weight of bank 1 in each row
print("share of the first bank, row by row:", " ".join(f"{value:.2f}" for value in share.tolist()))
if not (score["low rank, K = 2"] > score["convolution"] + 0.1 and share.max() - share.min() > 0.1):
    raise SystemExit("The low-rank layer should tell the halves apart, by mixing its banks differently in each row.")

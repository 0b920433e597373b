"""Relax: loosen a trained ResNet and train it further, on images where the position matters.

The class of an image is its digit and the half that contains it. A translation-equivariant ResNet cannot tell the
halves apart; the same network with a dial in every convolution starts from its weights and learns to.
"""

import argparse

import torch
from torch import Tensor, nn

import intertwine as tw

AROUND = {"padding": 1, "padding_mode": "circular"}  # no border that would reveal the position to a convolution


class Block(nn.Module):
    """Two convolutions and a skip connection, as in every ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, **AROUND), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, **AROUND), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """Add the two branches."""
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


def placed(images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Each digit in the upper and in the lower half of a taller image, as two different classes."""
    empty = torch.full_like(images, float(images.min()))
    return torch.cat([torch.cat([images, empty], 2), torch.cat([empty, images], 2)]), torch.cat([labels, labels + 10])


def train(net: nn.Module, data: tuple[Tensor, Tensor], epochs: int) -> nn.Module:
    """Adam with a one-cycle learning rate, and a penalty on the part outside the symmetry."""
    parts = [part for _ in range(epochs) for part in torch.randperm(len(data[0])).split(64)]
    optimizer = torch.optim.Adam(net.train().parameters())
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, len(parts))
    for part in parts:
        loss = nn.functional.cross_entropy(net(data[0][part]), data[1][part])
        optimizer.zero_grad()
        (loss + 0.01 * tw.relaxed.relaxation_penalty(net, kind="share")).backward()
        optimizer.step(), cycle.step()
    return net.eval()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    digits = tw.data.load("digits", size=12).normalized()
    data, test = placed(*digits.train.as_tensors()), placed(*digits.test.as_tensors())
    torch.manual_seed(options.seed)
    stem, head = nn.Conv2d(1, 16, 3, stride=2, **AROUND), [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 20)]
    resnet = train(nn.Sequential(stem, Block(16), Block(16), *head), data, options.epochs)
    loose = tw.relaxed.relax(resnet, data[0][:2], how="low-rank", rank=2)  # the same outputs, for now
    begin = [tw.measure.accuracy(net, test) for net in (resnet, loose)]
    end = [tw.measure.accuracy(train(net, data, options.epochs), test) for net in (resnet, loose)]
    print("trained {:.1%}, loosened {:.1%}; trained further: strict {:.1%}, loosened {:.1%}".format(*begin, *end))
    print(tw.relaxed.relaxation_table(loose))
    if begin[0] != begin[1] or end[1] < end[0] + 0.1:
        raise SystemExit("The loosened network should start as accurate as the ResNet, and become more accurate.")

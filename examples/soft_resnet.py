"""Relax: soft layers dropped into a ResNet; how far each leaves the convolution is learned.

`soften` takes any network and replaces its 3 x 3 convolutions of stride 1.
"""

import argparse

import torch
from torch import Tensor, nn

import intertwine as tw


class Block(nn.Module):
    """Two convolutions beside an identity, as in every ResNet."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        """The sum of both ways."""
        return torch.relu(x + self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x))))))


def soften(model: nn.Module, softness: float) -> nn.Module:
    """Replace each 3 x 3 convolution of stride 1, in place; the size of the output stays."""
    for module in list(model.modules()):
        for name, conv in module.named_children():
            if isinstance(conv, nn.Conv2d) and conv.kernel_size == (3, 3) and conv.stride == (1, 1):
                options = {"kernel_size": 3, "support": "square", "softness": softness, "learn": True}
                options["bias"] = conv.bias is not None
                setattr(module, name, tw.relaxed.SoftConv2d(conv.in_channels, conv.out_channels, **options))
    return model


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    data = tw.data.load("digits", size=16).normalized()
    (x, y), test = data.train.as_tensors(), data.test.as_tensors()
    torch.manual_seed(options.seed)
    stem, head = nn.Conv2d(1, 8, 5, stride=2, padding=2), [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)]
    net = soften(nn.Sequential(stem, Block(8), Block(8), *head), softness=0.2)
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for _ in range(options.epochs):
        for part in torch.randperm(len(x)).split(64):
            loss = nn.functional.cross_entropy(net(x[part]), y[part]) + 0.01 * tw.relaxed.relaxation_penalty(net)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"accuracy {tw.measure.accuracy(net.eval(), test):.1%}; each |ω'| was 0.28 (0.2 down, 0.2 across):")
    print(tw.relaxed.relaxation_table(net))
    dials = [layer.relaxation()["translation"] for _, layer in tw.relaxed.relaxed_layers(net)]
    if len(dials) != 4 or any(abs(dial - 0.2 * 2**0.5) < 1e-3 for dial in dials):
        raise SystemExit("Each of the four soft layers should have learned its own dial.")

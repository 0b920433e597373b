"""Impose: a network on signals that reverses its answer when time is reversed.

Chirps rise or fall in pitch. The answer is a number of sign type: positive for rising, negative for falling. Reversing
a signal in time exchanges the two, and the network knows that by design: its answer changes sign, and nothing else.
"""

import argparse

import torch
from torch import nn

import intertwine as tw

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
torch.manual_seed(options.seed)


def chirps(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noisy signals whose pitch changes by a random amount, and the direction of the change."""
    time, slope = torch.linspace(-1, 1, 128), 6 * (2 * torch.rand(count, 1) - 1)
    phase = 2 * torch.pi * (torch.rand(count, 1) + (10 + slope * time / 2) * time)
    return (phase.sin() + 0.5 * torch.randn(count, 128))[:, None], slope.sign()


line = tw.spaces.Grid1d("D1")  # translations, and the reversal of time
signal, hidden, sign = line.field("trivial"), line.field("8*regular"), line.field("irrep(0,-1)")
symmetric = tw.nn.Sequential(
    tw.nn.Conv1d(signal, hidden, 9, padding=4), tw.nn.BatchNorm(hidden), tw.nn.ReLU(hidden),
    tw.nn.AvgPool1d(hidden, 2),
    tw.nn.Conv1d(hidden, hidden, 9, padding=4), tw.nn.BatchNorm(hidden), tw.nn.ReLU(hidden),
    tw.nn.Conv1d(hidden, sign, 9, padding=4), tw.nn.GlobalPool(sign),
)  # fmt: skip
plain = nn.Sequential(
    nn.Conv1d(1, 11, 9, padding=4), nn.BatchNorm1d(11), nn.ReLU(), nn.AvgPool1d(2),
    nn.Conv1d(11, 11, 9, padding=4), nn.BatchNorm1d(11), nn.ReLU(),
    nn.Conv1d(11, 1, 9, padding=4), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
)  # fmt: skip

test_x, test_y = chirps(2000)
errors = {}
for name, net in {"plain": plain, "symmetric": symmetric}.items():
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(40 * options.epochs):
        x, y = chirps(50)
        optimizer.zero_grad()
        nn.functional.soft_margin_loss(net(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        scores, backward = net.eval()(test_x), net(test_x.flip(2))
    errors[name] = float((backward + scores).norm() / scores.norm())
    weights, right = sum(p.numel() for p in net.parameters()), float((scores.sign() == test_y).float().mean())
    print(f"{name:9}  {weights:5} weights  correct {right:.1%}  error under reversal {errors[name]:.1e}")

if not errors["symmetric"] < 1e-5 < errors["plain"]:
    raise SystemExit("Only the symmetric network should change its sign exactly.")

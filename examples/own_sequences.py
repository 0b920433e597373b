"""Learn: a topographic VAE on your own sequences; a step in time becomes a roll of its capsules.

Any tensor of shape (sequences, time, channels, height, width) with pixels in [0, 1] works. Here a bright spot moves
around a circle, from a random start; the network is not told what moves.
"""

import argparse
import math

import torch
from torch import Tensor

import intertwine as tw

TIME, SIZE = 9, 12


def my_sequences(count: int, generator: torch.Generator) -> Tensor:
    """A spot that goes around once; replace this with your own frames."""
    start = torch.randint(TIME, (count, 1), generator=generator)
    radius = 2.5 + 2 * torch.rand(count, 1, generator=generator)
    angle = (start + torch.arange(TIME)) * (2 * math.pi / TIME)
    row, column = (SIZE - 1) / 2 + radius * angle.sin(), (SIZE - 1) / 2 + radius * angle.cos()
    grid = torch.arange(SIZE)
    distance = (grid[:, None] - row[..., None, None]) ** 2 + (grid - column[..., None, None]) ** 2
    return torch.exp(-distance / 3)[:, :, None]


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
generator = torch.Generator().manual_seed(0)
train, test = my_sequences(512, generator), my_sequences(64, generator)

torch.manual_seed(options.seed)
# With a window of 5 of 9 frames, the capsules of the first frame depend on at most 5 frames.
vae = tw.models.TopographicVAE((1, SIZE, SIZE), capsules=4, length=TIME, window=5)
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
for epoch in range(options.epochs):
    for part in torch.randperm(len(train)).split(16):
        loss = -vae(train[part]).elbo
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch % 10 == 0 or epoch == options.epochs - 1:
        print(f"epoch {epoch + 1}: {loss.item():.1f} nats per frame")

with torch.no_grad():
    t = vae.eval().latent(test, generator=torch.Generator().manual_seed(0))
    rolled = vae.traverse(t[:, 0])  # the first frame's capsules, rolled by 0, 1, …, 8 and decoded
    error = (rolled - test).square().mean()
    still = (vae.pictures(t[:, :1]) - test).square().mean()  # the first frame, not rolled
print(f"squared error of frames predicted by rolling the first: {error:.4f}; by repeating it: {still:.4f}")
if not error < still:
    raise SystemExit("Rolled capsules should describe later frames better than the first frame does.")

"""Do our first weights and our parametrization train as well as escnn's?

Run as ``python benchmarks/initialization.py --data DIR --peer PYTHON``. DIR holds the four MNIST files of IDX format,
or a folder ``mnist`` with them; PYTHON is the interpreter of an environment with escnn, and may be left out. A network
of six blocks (5 x 5 convolution between regular fields of C8, batch norm, ReLU; two poolings), the same for both, is
trained on 2,000 digits, each turned by a random angle: 3 epochs of 31 steps of Adam, 64 digits each. ``validation`` are
1,500 other training digits, to choose by; ``test`` are the first 1,500 test digits. Seeds are
interleaved.

- ``ours``: the layers as they are.
- ``white``: the same, scaled to unit variance on white noise instead of natural images.
- ``by element``: ``white`` with one weight for each element of the group rather than for each irreducible of it.
- ``center``: ``by element``, with 99 % of the energy on the tap at the center; so layers began before.
- ``escnn``: with its own initialization.

``lag`` is the error in points that running statistics of batch norm add to that with the statistics of the batch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn.functional import affine_grid, cross_entropy, grid_sample

WIDTHS = (4, 4, 6, 6, 8, 8)
KINDS = ("ours", "white", "by element", "center")
RATE = 1e-2
Digits = tuple[torch.Tensor, torch.Tensor]


def read(folder: Path, name: str) -> torch.Tensor:
    """One file of IDX format, zipped or not."""
    file = next(path for place in (folder, folder / "mnist") for path in place.glob(f"{name}*"))
    raw = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    axes = raw[3]
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    return torch.frombuffer(bytearray(raw[4 + 4 * axes :]), dtype=torch.uint8).view(shape)


def turned(images: torch.Tensor, seed: int) -> torch.Tensor:
    """Each image turned by its own angle, the same for every kind and peer."""
    angle = 2 * math.pi * torch.rand(len(images), generator=torch.Generator().manual_seed(seed))
    turn = torch.stack([angle.cos(), -angle.sin(), angle * 0, angle.sin(), angle.cos(), angle * 0], 1).view(-1, 2, 3)
    x = images[:, None].float() / 255
    return grid_sample(x, affine_grid(turn, list(x.shape), align_corners=False), align_corners=False)


def digits(folder: Path) -> tuple[Digits, Digits, Digits]:
    """Training, validation and test digits."""
    x, y = read(folder, "train-images"), read(folder, "train-labels").long()
    x_test, y_test = read(folder, "t10k-images"), read(folder, "t10k-labels").long()
    parts = [(turned(x[:2000], 0), y[:2000]), (turned(x[2000:3500], 1), y[2000:3500])]
    parts.append((turned(x_test[:1500], 2), y_test[:1500]))
    mean, std = parts[0][0].mean(), parts[0][0].std()
    train, validation, test = (((images - mean) / std, labels) for images, labels in parts)
    return train, validation, test


def our_network(kind: str) -> torch.nn.Module:
    from intertwine import nn
    from intertwine.groups import Cyclic
    from intertwine.spaces import Grid2d

    group = Cyclic(8)
    plane = Grid2d(group)
    field = plane.field(group.trivial)
    layers: list[nn.Layer] = []
    for block, width in enumerate(WIDTHS):
        after = plane.field(width * group.regular)
        conv = nn.Conv2d(field, after, 5, padding=2, bias=False)
        if kind != "ours":
            change(conv, kind, lifting=block == 0)
        layers += [conv, nn.BatchNorm(after), nn.ReLU(after)]
        layers += [nn.AvgPool2d(after, 2)] if block in (1, 3) else []
        field = after
    pooled = nn.GroupPool(field)
    body = nn.Sequential(*layers, pooled, nn.GlobalPool(pooled.out_type))
    return torch.nn.Sequential(body, torch.nn.Linear(WIDTHS[-1], 10))


class ByElement(torch.nn.Module):
    """Weights by group element to the coefficients over its irreducibles that the layer takes."""

    def __init__(self, fourier: torch.Tensor) -> None:
        super().__init__()
        self.fourier = fourier

    def forward(self, w: torch.Tensor) -> torch.Tensor:
        return (self.fourier.T @ w.unflatten(2, (8, -1))).flatten(2)

    def right_inverse(self, z: torch.Tensor) -> torch.Tensor:
        return (self.fourier @ z.unflatten(2, (8, -1))).flatten(2)


def change(conv: torch.nn.Module, kind: str, *, lifting: bool) -> None:
    """Draw the weights of a layer another way."""
    from torch.nn.utils.parametrize import register_parametrization

    weights = conv.weights
    with torch.no_grad():
        if kind == "center" and not lifting:
            w = torch.randn_like(weights[0]).unflatten(2, (8, -1)) * 0.1 / math.sqrt(10)
            w[..., 0] = math.sqrt(0.99) * torch.randn_like(w[..., 0])  # the first function is the tap at the center
            weights[0].copy_(ByElement(conv.expansion.blocks[0].fourier)(w.flatten(2)))
        scale = conv.expand()[0].square().sum((1, 2, 3)).mean().rsqrt()
        weights[0].mul_(scale)
    if kind != "white" and not lifting:
        register_parametrization(weights, "0", ByElement(conv.expansion.blocks[0].fourier))


def peer_network() -> torch.nn.Module:
    from escnn import gspaces, nn

    space = gspaces.rot2dOnR2(8)
    first = field = nn.FieldType(space, [space.trivial_repr])
    layers: list[torch.nn.Module] = []
    for block, width in enumerate(WIDTHS):
        after = nn.FieldType(space, width * [space.regular_repr])
        layers += [nn.R2Conv(field, after, 5, padding=2, bias=False), nn.InnerBatchNorm(after), nn.ReLU(after)]
        layers += [nn.PointwiseAvgPool2D(after, 2)] if block in (1, 3) else []
        field = after
    body = nn.SequentialModule(*layers, nn.GroupPooling(field))

    class Network(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = body, torch.nn.Linear(WIDTHS[-1], 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(nn.GeometricTensor(x, first)).tensor.mean((2, 3)))

    return Network()


def run(kind: str, seed: int, data: tuple[Digits, Digits, Digits]) -> dict[str, float]:
    """Errors in percent after training."""
    torch.manual_seed(seed)
    net = peer_network() if kind == "escnn" else our_network(kind)
    (x, y), validation, test = data
    optimizer = torch.optim.Adam(net.parameters(), RATE)
    order, losses = torch.Generator().manual_seed(100 + seed), []
    for _ in range(3):
        for batch in torch.randperm(len(x), generator=order)[: 31 * 64].view(31, 64):
            optimizer.zero_grad()
            loss = cross_entropy(net(x[batch]), y[batch])
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
    error = wrong(net.eval(), validation)
    results = {"train": statistics.mean(losses[-10:]), "validation": error, "test": wrong(net, test)}
    return {
        **results,
        "lag": error - wrong(net.train(), validation),
        "weights": sum(p.numel() for p in net.parameters()),
    }


@torch.no_grad()
def wrong(net: torch.nn.Module, part: Digits) -> float:
    predicted = torch.cat([net(x).argmax(1) for x in part[0].split(250)])
    return 100 * float((predicted != part[1]).double().mean())


def asked(python: str, kind: str, seed: int, folder: Path) -> dict[str, float]:
    """The same in a process of its own, which may be another environment's."""
    command = [python, "-W", "ignore", __file__, "--data", str(folder), "--one", kind, str(seed)]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    results: dict[str, float] = json.loads(out.stdout.splitlines()[-1])
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--peer", help="the Python of an environment with escnn")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--one", nargs=2, metavar=("KIND", "SEED"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.one:
        print(json.dumps(run(options.one[0], int(options.one[1]), digits(options.data))))
        return
    kinds = [*options.kinds, "escnn"] if options.peer else [*options.kinds]
    rows: dict[str, list[dict[str, float]]] = {kind: [] for kind in kinds}
    for seed in range(options.seeds):
        for kind in kinds:
            rows[kind].append(asked(options.peer if kind == "escnn" else sys.executable, kind, seed, options.data))
            print(seed, kind, {key: round(value, 2) for key, value in rows[kind][-1].items()}, flush=True)
    for kind, runs in rows.items():
        test = [row["test"] for row in runs]
        lag, loss = (statistics.median(row[key] for row in runs) for key in ("lag", "train"))
        seeds = " ".join(f"{error:.1f}" for error in test)
        figures = f"median {statistics.median(test):.1f} worst {max(test):.1f} lag {lag:.1f} loss {loss:.2f}"
        print(f"{kind:10s} {figures}: {seeds}")
    from _timing import write_result

    write_result("initialization", {"rate": RATE, "seeds": options.seeds, "runs": rows})


if __name__ == "__main__":
    main()

"""The picture of the four verbs, drawn from small networks that are made and trained here, in two minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.figure import SubFigure
from torch import Tensor, nn

import intertwine as tw

PLACES = ((3, 3), (3, 12), (8, 8), (12, 3), (12, 12))


def rows(part: SubFigure, title: str, lines: list[tuple[str, Tensor]], color: str, below: str) -> None:
    """Small pictures in rows, each row with a name and one scale."""
    part.suptitle(title, fontsize=13, fontweight="bold", x=0.02, ha="left")
    part.supxlabel(below, fontsize=9.5, x=0.02, ha="left", color="#444")
    axes = part.subplots(len(lines), len(lines[0][1]), squeeze=False, gridspec_kw={"wspace": 0.12, "hspace": 0.12})
    for line, (name, pictures) in zip(axes, lines, strict=True):
        most = float(pictures.abs().max())
        low = -most if color == "RdBu_r" else 0.0
        for axis, picture in zip(line, pictures, strict=True):
            axis.imshow(picture.numpy(), cmap=color, vmin=low, vmax=most)
            axis.set_xticks([])
            axis.set_yticks([])
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9.5)
    part.subplots_adjust(left=0.2, right=0.99, top=0.86, bottom=0.12)


def imposed() -> list[tuple[str, Tensor]]:
    """One filter of a convolution to regular fields of D4 in its eight positions."""
    torch.manual_seed(4)
    D4 = tw.groups.Dihedral(4)
    plane = tw.spaces.Grid2d(D4)
    layer = tw.nn.Conv2d(plane.field(D4.trivial), plane.field(D4.regular), 5)
    filters = tw.nn.to_plain(layer).weight.detach()[:, 0]
    return [("turned", filters[:4]), ("mirrored", filters[4:])]


def relaxed() -> list[tuple[str, Tensor]]:
    """The filter of a soft convolution at five places, for three positions of the dial."""
    found = []
    for softness in (0.0, 0.5, 2.0):
        torch.manual_seed(6)
        layer = tw.relaxed.SoftConv2d(1, 1, 7, softness=softness, frequency=1.5).double()
        x = torch.zeros(1, 1, 16, 16, dtype=torch.float64, requires_grad=True)
        y = layer(x)
        slopes = [torch.autograd.grad(y[0, 0, i, j], x, retain_graph=True)[0][0, 0] for i, j in PLACES]
        padded = [nn.functional.pad(slope, (3, 3, 3, 3)) for slope in slopes]
        cut = [slope[i : i + 7, j : j + 7] for slope, (i, j) in zip(padded, PLACES, strict=True)]
        found.append((f"ω' = {softness:g}", torch.stack(cut)))
    return found


def learned(split: tw.data.Split) -> list[tuple[str, Tensor]]:
    """A topographic autoencoder of turning digits: a sequence, and its first frame rolled."""
    torch.manual_seed(0)
    sequences = tw.data.TransformedSequences(split, tw.data.DigitMotion(frames=9, color=False))
    vae = tw.models.TopographicVAE((1, 16, 16), capsules=12, length=9, window=9)
    optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
    for step in range(2500):
        chosen = torch.randint(len(sequences), (16,)).tolist()
        generator = torch.Generator().manual_seed(step)
        frames = torch.stack([sequences.getitem_seeded(k, generator)[0] for k in chosen])
        optimizer.zero_grad()
        (-vae(frames).elbo).backward()
        optimizer.step()
    turning = next(k for k in range(len(sequences)) if int(sequences[k][1][0, 0]) == 0)
    frames = sequences[turning][0]
    with torch.no_grad():
        t = vae.eval().latent(frames[None], generator=torch.Generator().manual_seed(0))
        return [("frames", frames[:, 0]), ("rolled", vae.traverse(t[:, 0])[0, :, 0])]


def measured(data: tw.data.ImageData) -> list[tuple[str, Tensor]]:
    """First filters of a network trained on mirrored digits, their matched partners, and the symmetrized ones."""
    torch.manual_seed(0)
    images, labels = data.normalized().train.as_tensors()
    net = tw.models.plain_cnn(1, 10, widths=(8, 12, 16))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(8):
        for part in torch.randperm(len(images)).split(64):
            seen = images[part].flip(3) if torch.rand(()) < 0.5 else images[part]
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(seen), labels[part]).backward()
            optimizer.step()
    twin = tw.measure.symmetrize(net.eval(), torch.cat([images, images.flip(3)]), "hflip")
    filters, moved = tw.measure.surgery.filter_pairs(net, twin.matching, "0.weight")
    return [
        ("filters", filters[:, 0].detach()),
        ("mirrored,\nmatched", moved[:, 0].detach()),
        ("made\nsymmetric", twin.model[0].weight.detach()[:, 0]),
    ]


if __name__ == "__main__":
    data = tw.data.load("digits", size=16)
    figure = plt.figure(figsize=(12, 6.6), dpi=100)
    (one, two), (three, four) = figure.subfigures(2, 2, wspace=0.04, hspace=0.05)
    rows(one, "Impose", imposed(), "RdBu_r", "One filter of a D4 convolution: eight positions, one set of weights.")
    rows(
        two, "Relax", relaxed(), "RdBu_r", "The filter of a soft convolution at five places, as the dial ω' is turned."
    )
    split = replace(data.train, normalization=None).in_memory()
    rows(
        three,
        "Learn",
        learned(split),
        "gray",
        "A turning digit; below, the code of its first frame, rolled and decoded.",
    )
    rows(
        four,
        "Measure",
        measured(data),
        "RdBu_r",
        "Which filters are mirror images of which? Below, the nearest exact network.",
    )
    figure.savefig(Path(__file__).with_suffix(".png"))

"""Relax: digits in any pose, except that 6 and 9 are the same shape in two poses."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn
from torch.utils.data import TensorDataset

from ..groups import Cyclic
from ..measure import accuracy
from ..models import GroupCNN, plain_cnn
from ..relaxed import RelaxationTable, relax, relaxation_table
from ..train import seed_all
from ._digits import NINE, SIX, Labeled, train, with_six_and_nine
from ._scores import Scores

IMAGES = 400
EPOCHS = 24
ABOUT = {
    "strict": "invariant to quarter turns, so it cannot tell 6 from 9",
    "relaxed": "starts strict, and learns in each layer how far to leave the symmetry",
    "free": "no symmetry: has to learn every digit in four poses",
}


def build(name: str, images: Tensor) -> nn.Module:
    """Networks with about as many weights each; the relaxed one has two kernels to mix for each orientation."""
    if name == "free":
        return plain_cnn(1, 10, widths=(16, 24, 32))
    if name == "strict":
        return GroupCNN(Cyclic(4), 1, 10, widths=(8, 12, 16))
    return relax(GroupCNN(Cyclic(4), 1, 10, widths=(6, 8, 11)), images[:4], "orientation")


def relaxing(
    data: Labeled, test: Labeled, folder: Path, *, seed: int, epochs: int, progress: bool
) -> tuple[list[Scores], RelaxationTable, RelaxationTable]:
    """The scores of a strict, a relaxed and a free network, and the dials before and after training."""
    labels, answers = data[1][:IMAGES], test[1]
    images = with_six_and_nine((data[0][:IMAGES], labels), seed=seed)
    shown = with_six_and_nine(test, seed=100 + seed)
    six_or_nine = (answers == SIX) | (answers == NINE)
    rows = []
    dials: list[RelaxationTable] = []
    for name, about in ABOUT.items():
        seed_all(seed)
        model = build(name, images)
        where = folder / f"{name}-{seed}"
        if name == "relaxed":
            dials.append(relaxation_table(model))
        train(model, TensorDataset(images, labels), where, epochs=epochs, seed=seed, progress=progress)
        values = {
            "all digits": (accuracy(model, (shown, answers)),),
            "6 and 9": (accuracy(model, (shown[six_or_nine], answers[six_or_nine])),),
            "other digits": (accuracy(model, (shown[~six_or_nine], answers[~six_or_nine])),),
        }
        rows.append(Scores(name, about, sum(p.numel() for p in model.parameters()), values))
        if name == "relaxed":
            dials.append(relaxation_table(model))
    return rows, dials[0], dials[1]

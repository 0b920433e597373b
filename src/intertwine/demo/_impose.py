"""Impose: digits are upright in training and turned in the test."""

from __future__ import annotations

from pathlib import Path

from torch import nn
from torch.utils.data import TensorDataset

from ..data import Split, TensorImages, random_rotation90
from ..groups import Cyclic
from ..measure import accuracy, invariance_error
from ..models import GroupCNN, plain_cnn
from ..train import seed_all
from ._digits import Labeled, train
from ._scores import Scores

EPOCHS = 10
ABOUT = {
    "plain": "no symmetry, trained on upright digits",
    "augmented": "the same network, trained on digits in any pose",
    "equivariant": "every layer commutes with quarter turns; trained on upright digits",
}


def impose(
    data: Labeled, test: Labeled, folder: Path, *, seed: int, epochs: int, progress: bool
) -> tuple[list[Scores], dict[str, nn.Module]]:
    """The scores of a plain, an augmented and an equivariant network, and the networks."""
    rows, networks = [], {}
    for name, about in ABOUT.items():
        seed_all(seed)
        equivariant = name == "equivariant"
        model = GroupCNN(Cyclic(4), 1, 10, widths=(8, 12, 16)) if equivariant else plain_cnn(1, 10, widths=(16, 24, 32))
        upright = TensorDataset(*data)
        shown = Split(TensorImages(data[0], white=1.0), data[1]).with_transform(random_rotation90)
        train(
            model,
            shown if name == "augmented" else upright,
            folder / f"{name}-{seed}",
            epochs=epochs,
            seed=seed,
            progress=progress,
        )
        by_turn = [accuracy(model, (test[0].rot90(k, (2, 3)), test[1])) for k in range(4)]
        values = {
            "upright": (by_turn[0],),
            "turned": (sum(by_turn[1:]) / 3,),
            **{f"turned by {90 * k}": (by_turn[k],) for k in (1, 2, 3)},
            "invariance error": (invariance_error(model, test[0], "c4").mean,),
        }
        rows.append(Scores(name, about, sum(p.numel() for p in model.parameters()), values))
        networks[name] = model
    return rows, networks

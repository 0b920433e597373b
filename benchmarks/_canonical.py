"""Canonicalization with equiadapt: bring an image into a canonical pose, then run the original network on it.

The canonicalizer is equiadapt's optimized one: a small convolutional network scores the image in every pose, and the
pose with the highest score wins. It is trained without labels by equiadapt's prior loss, which says that training
images are in the canonical pose already, plus its loss for distinct scores. The network behind it stays as it is.
equiadapt knows rotations and roto-reflections; the mirror is the latter with a single rotation.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch import Tensor, nn
from torch.utils.data import TensorDataset

from intertwine import enable_torchvision
from intertwine.train import TrainConfig, deterministic_loader, fit, seed_all

GROUPS = {"hflip": ("roto-reflection", 1), "c4": ("rotation", 4), "d4": ("roto-reflection", 4)}


class Canonicalized(nn.Module):
    """A network behind a canonicalizer."""

    def __init__(self, canonicalizer: Any, net: nn.Module) -> None:
        super().__init__()
        self.canonicalizer, self.net = canonicalizer, net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.canonicalizer(x))


def canonicalized(net: nn.Module, images: Tensor, symmetry: str, *, epochs: int, folder: Path) -> nn.Module | None:
    """The network behind a trained canonicalizer; None without equiadapt."""
    if find_spec("equiadapt") is None:
        return None
    enable_torchvision()  # equiadapt imports it
    from equiadapt.images.canonicalization.discrete_group import OptimizedGroupEquivariantImageCanonicalization
    from equiadapt.images.canonicalization_networks.custom_nonequivariant_networks import ConvNetwork

    seed_all(0)
    group_type, rotations = GROUPS[symmetry]
    shape = tuple(images.shape[1:])
    settings = SimpleNamespace(
        beta=1.0,
        input_crop_ratio=1.0,
        resize_shape=shape[-1],
        group_type=group_type,
        num_rotations=rotations,
        artifact_err_wt=0.0,
        learn_ref_vec=False,
    )
    layers = 3 if shape[-1] >= 32 else 1  # each halves the image
    scores = ConvNetwork(shape, 32, 3, num_layers=layers, out_vector_size=64)
    canonicalizer = OptimizedGroupEquivariantImageCanonicalization(scores, settings, shape)

    def loss(model: nn.Module, batch: list[Tensor]) -> Tensor:
        model(batch[0])
        return canonicalizer.get_prior_regularization_loss() + canonicalizer.get_optimization_specific_loss()

    config = TrainConfig(epochs=epochs, lr=1e-3, schedule="cosine", batch_size=128)
    loader = deterministic_loader(TensorDataset(images), 128, seed=0, drop_last=True)
    fit(canonicalizer, loss, loader, config, folder=folder)
    return Canonicalized(canonicalizer, net).eval()

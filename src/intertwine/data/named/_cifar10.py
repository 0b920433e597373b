"""CIFAR-10."""

from __future__ import annotations

from pathlib import Path

from .._download import Resource
from .._image_data import ImageData
from .._registry import register_dataset
from ..readers._cifar import Cifar, read_cifar, required_files

CIFAR10 = Cifar(
    "cifar10",
    folders=("cifar10", "cifar-10", "cifar-10-batches-bin", "cifar10/cifar-10-batches-bin"),
    train=tuple(f"data_batch_{k}.bin" for k in range(1, 6)),
    test=("test_batch.bin",),
    label_bytes=1,
    label=0,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    archive=Resource(
        "cifar-10-binary.tar.gz",
        170052171,
        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
    ),
    pickles=("data_batch_1", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
)


@register_dataset("cifar10", about="60000 color images of 10 classes, 32 x 32.", files=required_files(CIFAR10))
def cifar10(folder: Path | None, *, download: bool) -> ImageData:
    """50000 images for training, 10000 for testing."""
    return read_cifar(CIFAR10, folder, download=download)

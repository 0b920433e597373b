"""CIFAR-100."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

from ...errors import InputError
from .._download import Resource
from .._image_data import ImageData
from .._registry import register_dataset
from ..readers._cifar import Cifar, read_cifar, required_files

_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant
flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree
motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate
poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider
squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""
_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices household_furniture
insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes large_omnivores_and_herbivores
medium_mammals non-insect_invertebrates people reptiles small_mammals trees vehicles_1 vehicles_2
"""
FINE, COARSE = tuple(_FINE.split()), tuple(_COARSE.split())

CIFAR100 = Cifar(
    "cifar100",
    folders=("cifar100", "cifar-100", "cifar-100-binary", "cifar100/cifar-100-binary"),
    train=("train.bin",),
    test=("test.bin",),
    label_bytes=2,
    label=1,
    classes=FINE,
    archive=Resource(
        "cifar-100-binary.tar.gz",
        168513733,
        "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
        ("https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",),
    ),
    pickles=("cifar-100-python", "cifar-100-python.tar.gz"),
)


@register_dataset(
    "cifar100", about="60000 color images of 100 classes in 20 groups, 32 x 32.", files=required_files(CIFAR100)
)
def cifar100(folder: Path | None, *, download: bool, labels: Literal["fine", "coarse"] = "fine") -> ImageData:
    """50000 images for training, 10000 for testing.

    Args:
        folder: where to look.
        download: download it if it is missing.
        labels: ``fine`` for the 100 classes, or ``coarse`` for their 20 groups, which only the binary layout has.
    """
    if labels not in ("fine", "coarse"):
        raise InputError("cifar100", expected="labels='fine' or 'coarse'", got=repr(labels))
    if labels == "fine":
        return read_cifar(CIFAR100, folder, download=download)
    return read_cifar(replace(CIFAR100, label=0, classes=COARSE), folder, download=download, binary_only=True)

"""MNIST and Fashion-MNIST: four IDX files each, with the same four names."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ...errors import InputError
from .._download import Resource, by_hand, fetch
from .._image_data import ImageData
from .._locate import candidate_folders, not_found
from .._registry import register_dataset
from .._split import Split
from ..readers._idx import find_idx, read_idx
from ..readers._labels import require_labels
from ..sources._source import TensorImages

TRAIN = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


@dataclass(frozen=True)
class IdxDataset:
    """A dataset in four IDX files.

    Args:
        name: the dataset's name.
        folders: subfolders to search for its files, besides the folder itself.
        classes: the names of the classes.
        test_labels: the SHA-256 digest of the published test labels, as bytes without header. It distinguishes datasets
            whose files have the same names.
        resources: the published files.
    """

    name: str
    folders: tuple[str, ...]
    classes: tuple[str, ...]
    test_labels: str
    resources: tuple[Resource, ...]


def _resources(urls: tuple[str, ...], *files: tuple[str, int, str]) -> tuple[Resource, ...]:
    return tuple(
        Resource(f"{name}.gz", size, sha256, tuple(f"{url}{name}.gz" for url in urls)) for name, size, sha256 in files
    )


MNIST = IdxDataset(
    "mnist",
    ("mnist", "MNIST/raw", "MNIST"),
    tuple(map(str, range(10))),
    "ddeff807876a9661a1110d45c266c86239a3a1b7d37da0c3716a7a683c852ff5",
    _resources(
        ("https://storage.googleapis.com/cvdf-datasets/mnist/", "https://ossci-datasets.s3.amazonaws.com/mnist/"),
        (TRAIN[0], 9912422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (TRAIN[1], 28881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (TEST[0], 1648877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (TEST[1], 4542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
)
FASHION_MNIST = IdxDataset(
    "fashion-mnist",
    ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", "FashionMNIST"),
    ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
    "3d0e6c6ea990b53b6f8f500a41cac93881d981b315f84578b7d915342ade01e9",
    _resources(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (TRAIN[0], 26421880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (TRAIN[1], 29515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (TEST[0], 4422102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (TEST[1], 5148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
)

_FILES = "{train-images-idx3,train-labels-idx1,t10k-images-idx3,t10k-labels-idx1}-ubyte, each plain or .gz, in "


@register_dataset(
    "mnist", about="70000 handwritten digits, 28 x 28, gray.", files=_FILES + "FOLDER, FOLDER/mnist or FOLDER/MNIST/raw"
)
def mnist(folder: Path | None, *, download: bool) -> ImageData:
    """60000 images for training, 10000 for testing."""
    return read_idx_dataset(MNIST, folder, download=download)


@register_dataset(
    "fashion-mnist",
    about="70000 pictures of clothes, 28 x 28, gray.",
    files=_FILES + "FOLDER, FOLDER/fashion-mnist or FOLDER/FashionMNIST/raw",
)
def fashion_mnist(folder: Path | None, *, download: bool) -> ImageData:
    """60000 images for training, 10000 for testing."""
    return read_idx_dataset(FASHION_MNIST, folder, download=download)


def read_idx_dataset(dataset: IdxDataset, folder: Path | None, *, download: bool) -> ImageData:
    """Read a dataset in four IDX files. With ``download``, download it first if it is missing."""
    candidates = candidate_folders(folder, *dataset.folders)
    root = next((place for place in candidates if _paths(place) is not None), None)
    if root is None and download:
        root = candidates[0]
        fetch(dataset.name, dataset.resources, root)
    paths = _paths(root) if root is not None else None
    if paths is None or root is None:
        raise not_found(
            dataset.name,
            folder,
            looked_for=f"{', '.join((*TRAIN, *TEST))}, plain or .gz, "
            f"in FOLDER or FOLDER/{', FOLDER/'.join(dataset.folders)}",
            fix=f"Pass the right folder=, or load with download=True. {by_hand(dataset.resources, candidates[0])}",
        )
    train, test = _split(dataset, paths[0], paths[1]), _split(dataset, paths[2], paths[3])
    _require_not_another(dataset, test, paths[3])
    return ImageData(dataset.name, train, test, origin=str(root))


def _paths(folder: Path) -> list[Path] | None:
    paths = [path for name in (*TRAIN, *TEST) if (path := find_idx(folder, name)) is not None]
    return paths if len(paths) == 4 else None


def _split(dataset: IdxDataset, images: Path, labels: Path) -> Split:
    pixels = read_idx(images, axes=3)[:, None]
    numbers = require_labels(str(labels), read_idx(labels, axes=1), images=len(pixels), classes=len(dataset.classes))
    return Split(TensorImages(pixels, white=255.0), numbers, dataset.classes)


def _require_not_another(dataset: IdxDataset, test: Split, path: Path) -> None:
    digest = hashlib.sha256(test.labels.byte().numpy().tobytes()).hexdigest()
    for other in (MNIST, FASHION_MNIST):
        if other is not dataset and other.test_labels == digest:
            raise InputError(
                dataset.name,
                expected=f"the files of {dataset.name}",
                got=f"the files of {other.name} in {path.parent}",
                fix=f"Pass another folder=, or load({other.name!r}).",
            )

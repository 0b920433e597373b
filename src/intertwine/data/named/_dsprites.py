"""dSprites: every combination of 3 shapes, 6 scales, 40 orientations and 32 x 32 positions, rendered or original.

Matthey, Higgins, Hassabis and Lerchner, "dSprites: Disentanglement testing Sprites dataset" (2017).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...errors import InputError
from .._choose import held_out
from .._image_data import ImageData
from .._locate import candidate_folders, first_with, not_found
from .._registry import register_dataset
from .._split import Split
from ..readers._npz import DAMAGE, load_array, open_npz
from ..sources._factors import FactorGrid
from ..sources._packed import PackedImages, read_packed
from ..sources._source import ImageSource
from ..sources._sprites import DSPRITES, SHAPES, SpriteImages

ORIGINAL = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"


@register_dataset(
    "dsprites",
    about="737280 white shapes on black, 64 x 64, labeled by shape, scale, orientation, x and y.",
    files=f"none, since it is rendered; or {ORIGINAL} in FOLDER or FOLDER/dsprites",
)
def dsprites(
    folder: Path | None,
    *,
    download: bool,
    original: bool | None = None,
    antialias: bool = False,
    test_fraction: float = 0.0,
    seed: int = 0,
) -> ImageData:
    """All images in the order of the original file. Labels are rows of five classes. There is nothing to download.

    Args:
        folder: the folder of the original file, or the file itself.
        download: has no effect.
        original: True reads the original file, False renders; None reads the file if ``folder`` contains it.
        antialias: render soft instead of binary outlines.
        test_fraction: the fraction held out for testing. The original has no test split.
        seed: decides which images are held out.
    """
    path = None if original is False else _find(folder, required=original is True)
    if path is not None:
        images, grid = read_original(path)
        source: ImageSource = images
    else:
        source, grid = SpriteImages(DSPRITES, (64, 64), antialias=antialias), DSPRITES
    labels = grid.classes(torch.arange(len(grid)))
    everything = Split(source, labels, SHAPES)
    train, test = everything, everything.select([])
    if test_fraction:
        keys = [str(k) for k in range(len(grid))]
        parts = held_out(keys, labels[:, 0], fraction=test_fraction, seed=seed)
        train, test = everything.select(parts[0]), everything.select(parts[1])
    return ImageData("dsprites", train, test, origin="rendered" if path is None else str(path), factors=grid)


def _find(folder: Path | None, *, required: bool) -> Path | None:
    if folder is not None and folder.is_file():
        return folder
    if folder is None and not required:
        return None
    root = first_with(candidate_folders(folder, "dsprites"), ORIGINAL)
    if root is None and required:
        raise not_found("dsprites", folder, looked_for=f"{ORIGINAL} in FOLDER or FOLDER/dsprites", fix="")
    return None if root is None else root / ORIGINAL


def read_original(path: Path) -> tuple[PackedImages, FactorGrid]:
    """The images and the grid of the original file. Its pickled member ``metadata`` is never read."""
    with open_npz(path) as file:
        missing = sorted({"imgs", "latents_values", "latents_classes"} - set(file.files))
        if missing:
            raise InputError(
                path.name,
                expected="arrays imgs, latents_values, latents_classes",
                got=f"no {', '.join(missing)} in {path}",
                fix=f"Use {ORIGINAL}.",
            )
        values = load_array(file, path, "latents_values")
        classes = load_array(file, path, "latents_classes")
        grid = _grid(path, values, classes)
        try:
            images = read_packed(path, file.zip, "imgs")
        except InputError:
            raise
        except DAMAGE as error:
            raise InputError(
                path.name, expected="a complete file", got=f"{error} in {path}", fix="Download it again."
            ) from error
    if len(images) != len(grid):
        raise InputError(path.name, expected=f"{len(grid)} images", got=str(len(images)), fix=f"Use {ORIGINAL}.")
    return images, grid


def _grid(path: Path, values: np.ndarray[Any, Any], classes: np.ndarray[Any, Any]) -> FactorGrid:
    """The grid of the labels in the file; raises an error unless they are in order."""
    factors = len(DSPRITES.names)
    ok = (
        values.ndim == 2
        and values.shape == classes.shape
        and values.shape[1] == factors + 1
        and classes.dtype.kind in "iu"
    )
    if ok:
        values, classes = values[:, 1:], classes[:, 1:]  # the first latent, the color, is always white
        axes = tuple(tuple(np.unique(values[:, k]).tolist()) for k in range(factors))
        grid = FactorGrid(DSPRITES.names, axes)
        ok = len(grid) == len(classes) and bool((grid.classes(torch.arange(len(grid))).numpy() == classes).all())
    if not ok:
        raise InputError(
            path.name,
            expected="labels of color, shape, scale, orientation, x and y in order, each combination once",
            got=f"latents_values {values.shape}, latents_classes {classes.shape} in another order",
            fix=f"Use {ORIGINAL}.",
        )
    return grid

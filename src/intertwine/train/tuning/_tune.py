"""``tune``: train a symmetrized network on, without labels and without leaving the symmetry."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from torch import nn

from ..._checked import Positive, checked
from ..._digest import content_digest
from ..._numerics import is_memory
from ...errors import InputError, SizeLimitError
from ...measure import Symmetrized, tie
from ...measure.surgery import untie
from .._config import TrainConfig
from .._seeding import preserved_generators
from ..loop._engine import fit
from ._batches import Augmentation, first_images, loader_of
from ._teacher import OutputLoss, Teacher, TeacherLoss, teacher_of


@checked
def tune(
    twin: Symmetrized,
    data: Any,
    *,
    epochs: Positive = 5,
    lr: float = 3e-4,
    batch_size: Positive = 64,
    teacher: Teacher = "average",
    label_weight: float = 0.0,
    loss: OutputLoss = nn.functional.mse_loss,
    augment: Augmentation = None,
    validation: Any = None,
    seed: int = 0,
    folder: str | Path | None = None,
    checkpoint_every: Positive = 100,
    precision: Literal["32", "bf16-mixed"] = "32",
    progress: bool | None = None,
) -> Symmetrized:
    """Train a symmetrized network on, towards what the original network computes; without labels.

    The teacher is the original network, averaged over the group; it sees the same images. Only the free
    parameters are trained (see :func:`~intertwine.measure.tie`), so the network cannot leave the symmetry. Adam's rate
    rises over the first tenth of the steps, then falls to zero along a cosine. The given network is not changed.

    Batch norms keep their running statistics, which :func:`~intertwine.measure.symmetrize` has computed and which are
    symmetric; only their scales and shifts are trained. Statistics of single batches would differ between channels that
    the group exchanges. The result is measured in float64; an error names the layer if it is not exactly symmetric.

    Args:
        twin: the result of :func:`~intertwine.measure.symmetrize`, at any width.
        data: images ``(n, channels, height, width)``, distributed as in training; a pair of images and labels; a torch
            dataset; or a loader, which is used as it is, without augmentation.
        epochs: the number of passes over the data.
        lr: the highest learning rate.
        batch_size: images per batch; a loader has its own.
        teacher: ``"average"``, or ``"original"`` for the original network as it is. That is better if the images are
            all in one pose and the network makes more mistakes on the others, such as a network that never saw a
            rotated image. Then the symmetric network learns to do with every pose what the original does with that one.
        label_weight: the share of the cross entropy with the labels in the loss, from 0 to 1.
        loss: a function of the outputs and those of the teacher, a mean over the batch. The squared error is the
            default for class scores too: a teacher is nearly certain about the images that it was trained on, so a
            divergence of class probabilities says little there.
        augment: the augmentation that the original was trained with, if any: ``transform(image, generator)``, or
            ``"shift"`` for shifts by up to an eighth of the image. An augmentation that the original never saw does
            harm: the network then learns the mistakes that the original makes on such images.
        validation: other images, on which the loss is logged after every epoch as ``val_loss``.
        seed: the seed of the order of the images, of their augmentation and of randomness inside the network.
        folder: a folder for checkpoints and metrics. The same call with the same folder continues an interrupted run,
            and does not repeat a finished one.
        checkpoint_every: steps between checkpoints, if there is a folder.
        precision: ``bf16-mixed`` takes about half the time on processors that have bfloat16.
        progress: False for no progress bar; otherwise there is one on a terminal.

    >>> import torch
    >>> from intertwine.measure import symmetrize
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> x = torch.randn(50, 1, 6, 6)
    >>> twin = tune(symmetrize(net, x, "hflip"), x, epochs=2)
    >>> torch.allclose(twin.model(x.flip(3)), twin.model(x), atol=1e-6), twin.error < 1e-9
    (True, True)
    """
    _require_options(lr, label_weight)
    loader = loader_of(data, batch_size, seed, augment)
    held_out = None if validation is None else loader_of(validation, batch_size, seed, None, shuffle=False)
    images = first_images(loader)
    model = _with_fixed_statistics(tie(twin.model, twin.matching).train())
    steps = epochs * len(loader)
    device: Any = next(model.parameters()).device.type
    with ExitStack() as stack:
        stack.enter_context(preserved_generators())
        stack.enter_context(_memory_errors(len(images)))
        where = stack.enter_context(TemporaryDirectory()) if folder is None else folder
        config = TrainConfig(
            epochs=epochs,
            optimizer="adam",
            lr=lr,
            schedule="cosine",
            warmup_steps=math.ceil(steps / 10),
            precision=precision,
            device=device,
            seed=seed,
            checkpoint_every=None if folder is None else checkpoint_every,
            log_every=max(1, min(50, len(loader))),
        )
        fit(
            model,
            TeacherLoss(teacher_of(twin, teacher), loss, label_weight),
            loader,
            config,
            folder=where,
            val_loader=held_out,
            about={**_described(twin, label_weight, loss, augment), "teacher": teacher},
            progress=progress,
        )
    return untie(twin, model, images)


def _require_options(lr: float, label_weight: float) -> None:
    if not (0 < lr < math.inf and 0 <= label_weight <= 1):
        raise InputError(
            "tune", expected="lr > 0 and label_weight from 0 to 1", got=f"lr={lr}, label_weight={label_weight}"
        )


def _described(twin: Symmetrized, label_weight: float, loss: OutputLoss, augment: Augmentation) -> dict[str, Any]:
    """What a run continues from: the same networks and the same loss, or none."""
    return {
        "start": _digest(twin.model),
        "original": _digest(twin.original),
        "symmetry": twin.matching.symmetry.name,
        "label_weight": label_weight,
        "loss": _name(loss),
        "augment": augment if isinstance(augment, str) else _name(augment),
    }


def _digest(model: nn.Module) -> str:
    return content_digest(*(part for item in model.state_dict().items() for part in item))


def _name(function: object) -> str:
    return "none" if function is None else getattr(function, "__qualname__", type(function).__qualname__)


def _with_fixed_statistics(model: nn.Module) -> nn.Module:
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) and module.track_running_stats:
            module.eval()  # fit leaves the mode of parts as it is
    return model


@contextmanager
def _memory_errors(images: int) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_memory(error):
            raise
        raise SizeLimitError(
            "tune",
            expected=f"memory for {images} images and their gradients",
            got=str(error).splitlines()[0] if str(error) else "none left",
            fix="Use a smaller batch size.",
        ) from None

"""Images to measure on, in batches that fit into memory, and networks that keep their mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor, nn

from .._checked import Positive
from .._numerics import is_memory
from .._warn import warn_caller
from ..errors import InputError, SizeLimitError

R = TypeVar("R")
Images = Tensor | tuple[Tensor, Tensor] | Iterable[object]
"""A tensor ``(n, c, h, w)``, a pair of images and labels, or batches of either, as a ``DataLoader`` gives them."""


def batches(
    data: Images, *, caller: str, batch_size: Positive = 128, max_images: Positive | None = None, rank: int | None = 4
) -> Iterator[tuple[Tensor, ...]]:
    """Yield images, and labels if there are any, batch by batch, up to ``max_images`` images.

    Each batch must have ``rank`` axes; 2 or more if ``rank`` is None.

    >>> [len(x) for x, in batches(torch.rand(5, 1, 2, 2), caller="here", batch_size=2)]
    [2, 2, 1]
    """
    seen = 0
    for batch in _pieces(data, caller, batch_size):
        images = batch[0]
        if (images.ndim < 2 if rank is None else images.ndim != rank) or not images.is_floating_point():
            raise InputError(
                caller,
                expected="floating point images (n, channels, height, width)"
                if rank == 4
                else f"a floating point tensor with {rank or '2 or more'} axes, (n, channels, ...)",
                got=f"{images.dtype} of shape {tuple(images.shape)}",
                fix="Scale the images as in training, and add the missing axes.",
            )
        room = len(images) if max_images is None else min(len(images), max_images - seen)
        if room <= 0:
            break
        seen += room
        yield tuple(part[:room] for part in batch)
    if not seen:
        raise InputError(
            caller, expected="images", got="none", fix="Give a tensor, or a loader that can be read again."
        )


def _pieces(data: Images, caller: str, batch_size: int) -> Iterator[tuple[Tensor, ...]]:
    if isinstance(data, Tensor):
        data = (data,)
    is_tensors = isinstance(data, tuple) and 0 < len(data) <= 2 and all(isinstance(part, Tensor) for part in data)
    if is_tensors:
        if any(not part.ndim for part in data):  # type: ignore[union-attr]
            raise InputError(caller, expected="a batch of images", got="a tensor of rank 0")
        yield from zip(*(part.split(batch_size) for part in data), strict=True)  # type: ignore[union-attr]
        return
    if not isinstance(data, Iterable):
        raise InputError(
            caller, expected="a tensor of images or a loader", got=type(data).__name__, fix="Use a DataLoader."
        )
    for batch in data:
        parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
        if not parts or not all(isinstance(part, Tensor) for part in parts[:2]):
            raise InputError(
                caller,
                expected="batches of images, or of images and labels",
                got=f"{type(batch).__name__} of {', '.join(type(part).__name__ for part in parts)}",
                fix="Put the images first, as a tensor, and the labels second.",
            )
        yield parts[:2]


@contextmanager
def measuring(model: nn.Module) -> Iterator[torch.device]:
    """Put a network into evaluation mode without gradients; restore the mode of every module afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    first = next(iter([*model.parameters(), *model.buffers()]), None)
    model.eval()
    try:
        with torch.no_grad():
            yield first.device if first is not None else torch.device("cpu")
    finally:
        for module, mode in modes:
            module.training = mode


class Fitting:
    """Runs a function on batches, in pieces that fit into memory.

    When memory runs out, the piece is halved and tried again, and later batches start with pieces of the smaller size.
    A ``run`` that fails halfway must leave no trace, or some images would count twice.

    Args:
        caller: the function to name in the error if a single image does not fit.
        device: the device that pieces are moved to.

    >>> import warnings
    >>> def run(x):
    ...     if len(x) > 2:
    ...         raise torch.OutOfMemoryError("out of memory")
    ...     return len(x)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     Fitting("here")(run, torch.zeros(5, 1))
    [2, 2, 1]
    """

    def __init__(self, caller: str, device: torch.device | None = None) -> None:
        self.caller, self.device = caller, device
        self.size: int | None = None

    def __call__(self, run: Callable[..., R], *parts: Tensor) -> list[R]:
        """Apply ``run`` to tensors, cut along their first axis if needed; one result per piece."""
        results: list[R] = []
        start, length = 0, len(parts[0])
        while start < length:
            size = length - start if self.size is None else min(self.size, length - start)
            try:
                results.append(run(*(self._moved(part[start : start + size]) for part in parts)))
                start += size
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_memory(error):
                    raise
                reason = (str(error).splitlines() or [""])[0]
            # Outside the except block: the traceback keeps the tensors of the failed attempt alive.
            self._halve(size, parts[0], reason)
        return results

    def _moved(self, part: Tensor) -> Tensor:
        return part if self.device is None else part.to(self.device)

    def _halve(self, size: int, images: Tensor, reason: str) -> None:
        if size == 1:
            raise SizeLimitError(
                self.caller,
                expected=f"memory for one image of {' x '.join(map(str, images.shape[1:]))}",
                got=reason or "none left",
                fix="Use smaller images, or a machine with more memory.",
            )
        self.size = size // 2
        warn_caller(
            f"{self.caller}: {size} images do not fit into memory at once; continuing with {self.size}", RuntimeWarning
        )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def require_finite(out: Tensor, *, caller: str) -> Tensor:
    """Return the output; raise an error if it contains NaN or infinity."""
    if not bool(torch.isfinite(out).all()):
        bad = int((~torch.isfinite(out)).flatten(1).any(1).sum()) if out.ndim > 1 else 1
        raise InputError(
            caller,
            expected="finite outputs",
            got=f"NaN or infinity for {bad} of {len(out)} images",
            fix="Check the weights and how the images are normalized.",
        )
    return out


def as_tensor(out: object, *, caller: str) -> Tensor:
    """Return the output of a network as a tensor, or raise an error if it is not one tensor."""
    if isinstance(out, Tensor):
        return out
    if isinstance(out, tuple | list) and len(out) == 1 and isinstance(out[0], Tensor):
        return out[0]
    raise InputError(
        caller,
        expected="a network that returns one tensor",
        got=type(out).__name__,
        fix="Choose one with --output, or wrap it in a module that picks the tensor to look at.",
    )

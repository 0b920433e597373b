"""Fine-tune a symmetrized network without leaving the symmetry."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import remove_parametrizations

from ..._checked import Positive, checked
from ..._numerics import is_memory
from ...errors import InputError, NonFiniteError, SizeLimitError
from .._batches import Images, as_tensor, batches
from ..graph._permute import full_state, with_state
from ._merge import batch_norms, reset_batch_norms
from ._symmetrize import Symmetrized
from ._tied import projected, tie

Loss = Callable[[Tensor, Tensor], Tensor]


@checked
def tune(
    twin: Symmetrized,
    data: Images,
    *,
    epochs: int = 1,
    lr: float = 1e-3,
    loss: Loss = nn.functional.cross_entropy,
    batch_size: Positive = 64,
    seed: int = 0,
    progress: Callable[[int, float], None] | None = None,
) -> Symmetrized:
    """Fine-tune a symmetrized network with tied weights: it stays exactly equivariant.

    Adam trains only the free parameters (see :func:`tie`), at a learning rate that falls to zero along a cosine.
    Afterwards the network has plain parameters again. The running statistics of batch norms are recomputed and averaged
    over the group. The given network is not changed.

    Args:
        twin: the result of :func:`symmetrize`.
        data: images and labels, as a pair of tensors, which is shuffled, or as a loader, which is read once per epoch.
        epochs: the number of passes over the data.
        lr: the initial learning rate.
        loss: a function of outputs and labels; a mean over the batch.
        batch_size: images per batch, for data given as tensors.
        seed: the seed for the order of the images and for randomness inside the network.
        progress: called after each step with the number of images seen so far, and the loss.

    >>> from intertwine.measure import symmetrize
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 2))
    >>> x, labels = torch.randn(50, 1, 6, 6), torch.arange(50) % 2
    >>> twin = tune(symmetrize(net, x, "hflip"), (x, labels), epochs=2).model
    >>> torch.allclose(twin(x.flip(3)), twin(x), atol=1e-6)
    True
    """
    if epochs < 1 or not (lr > 0 and math.isfinite(lr)):
        raise InputError("tune", expected="at least one epoch and lr > 0", got=f"epochs={epochs}, lr={lr}")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = tie(twin.model, twin.matching).train()
        _train(model, data, epochs, lr, loss, batch_size, seed, progress)
    for module in model.modules():
        for name in list(getattr(module, "parametrizations", {})):
            remove_parametrizations(module, name)
    # Copied into the given network: parameters in their original order, and no gradients of free parameters.
    model = with_state(twin.model, full_state(model))
    if batch_norms(model):
        model = reset_batch_norms(model, data, batch_size=max(2, batch_size))
    return replace(twin, model=projected(model.eval(), twin.matching))


def _train(
    model: nn.Module,
    data: Images,
    epochs: int,
    lr: float,
    loss: Loss,
    batch_size: int,
    seed: int,
    progress: Callable[[int, float], None] | None,
) -> None:
    device = next(model.parameters()).device
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    steps = epochs * sum(1 for _ in _shuffled(data, batch_size, None))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    generator, seen = torch.Generator().manual_seed(seed), 0
    for _ in range(epochs):
        for batch in _shuffled(data, batch_size, generator):
            if len(batch) < 2:
                raise InputError("tune", expected="images and labels", got="images only", fix="Give (images, labels).")
            if len(batch[0]) > 1 or not batch_norms(model):  # one image has no statistics
                value = _step(model, batch[0].to(device), batch[1].to(device), optimizer, loss)
                seen += len(batch[0])
                if progress is not None:
                    progress(seen, value)
            schedule.step()


def _step(model: nn.Module, x: Tensor, labels: Tensor, optimizer: torch.optim.Optimizer, loss: Loss) -> float:
    try:
        optimizer.zero_grad()
        out = as_tensor(model(x), caller="tune")
        _require_labels(out, labels)
        value = loss(out, labels)
        if not bool(torch.isfinite(value)):
            raise NonFiniteError("tune", expected="a finite loss", got=str(value.item()), fix="Try a smaller lr.")
        value.backward()
        optimizer.step()
    except (RuntimeError, MemoryError) as error:
        if not is_memory(error):
            raise
        raise SizeLimitError(
            "tune",
            expected=f"memory for {len(x)} images and their gradients",
            got=str(error).splitlines()[0] if str(error) else "none left",
            fix="Use a smaller batch size.",
        ) from None
    return float(value.detach())


def _require_labels(out: Tensor, labels: Tensor) -> None:
    if out.ndim == 2 and not labels.is_floating_point() and len(labels):
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= out.shape[1]:
            raise InputError(
                "tune",
                expected=f"labels from 0 to {out.shape[1] - 1}, one per output of the network",
                got=f"labels from {low} to {high}",
                fix="Check the number of classes of the network.",
            )


def _shuffled(data: Images, batch_size: int, generator: torch.Generator | None) -> Iterator[tuple[Tensor, ...]]:
    if generator is not None and isinstance(data, tuple) and all(isinstance(part, Tensor) for part in data):
        order = torch.randperm(len(data[0]), generator=generator)
        data = tuple(part[order] for part in data)
    return batches(data, caller="tune", batch_size=batch_size)

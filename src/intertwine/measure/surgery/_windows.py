"""Layers that sample a grid which a symmetry maps to itself: ordinary convolutions with larger windows."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...errors import InputError
from .._symmetry import Symmetry
from ._stride import stride_artifacts

Size = tuple[int, int]


def symmetric_windows(
    model: nn.Module, input_shape: tuple[int, int, int], symmetry: Symmetry
) -> tuple[nn.Module, tuple[str, ...]]:
    """A copy of the network whose layers can commute with the symmetry, and the layers that were replaced.

    A 3 x 3 convolution with stride 2 on an even width samples columns 0, 2, 4, ..., its mirror image 1, 3, 5, ....
    Padded with a column of zeros, the same filter is 3 x 4. It computes the same outputs, and now the mirrored filter
    fits into the same window. Average pools, slices and padding inside a module of its own become convolutions in the
    same way. The window of a max pool has no zeros to fill it with, so its outputs change a little.

    What cannot be replaced stays as it is: slices that take all rows in turn do no harm. :func:`require_windows` names
    the others.
    """
    report = stride_artifacts(model, input_shape, symmetry)
    twin = copy.deepcopy(model).eval()
    names = tuple(dict.fromkeys(a.layer for a in report.artifacts))
    if not names:
        return twin, ()
    moves = [symmetry.require_axis_move(g, caller="symmetrize") for g in range(symmetry.order)]
    turned = any(m.swaps for m in moves)
    mirrored = [turned or any(m.flips[axis] for m in moves) for axis in (0, 1)]
    with _shapes(twin, names) as shapes, torch.no_grad():
        example = next(iter(twin.parameters()), torch.zeros(()))
        twin(torch.zeros(1, *input_shape, device=example.device, dtype=example.dtype))
    replaced = []
    for name in names:
        module = twin.get_submodule(name)
        if _inside(module) or len(set(shapes[name])) != 1:
            continue
        symmetric = _symmetric(module, *shapes[name][0], mirrored)
        if symmetric is None:
            continue
        replaced.append(name)
        symmetric = symmetric.to(example.device, example.dtype)
        if not name:
            return symmetric, ("",)
        twin.set_submodule(name, symmetric)
    return twin, tuple(replaced)


def require_windows(model: nn.Module, input_shape: tuple[int, int, int], symmetry: Symmetry, layer: str) -> None:
    """Raise an error if a stride in this layer breaks the symmetry."""
    report = stride_artifacts(model, input_shape, symmetry)
    broken = next((a for a in report.artifacts if a.layer == layer), None)
    if broken is None:
        return
    inside = _inside(model.get_submodule(broken.layer))
    size = f"Use images of {report.better[0]} x {report.better[1]} pixels, or write" if report.better else "Write"
    raise InputError(
        "symmetrize",
        expected="for each stride that breaks the symmetry, a convolution or a pooling module of its own, used once",
        got=f"an operation inside {broken.layer or 'the network'}"
        if inside or not broken.layer
        else f"{broken.layer}, where {broken.reason}",
        fix=f"{size} this part as a convolution or a pooling module. GroupAverage is symmetric for every network.",
    )


def _inside(module: nn.Module) -> bool:
    """Whether a module has parts, so that an operation in it is not all that it does."""
    return any(True for _ in module.children())


@contextmanager
def _shapes(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, list[tuple[torch.Size, torch.Size]]]]:
    """The shapes of the inputs and outputs of modules, seen while the block runs."""
    shapes: dict[str, list[tuple[torch.Size, torch.Size]]] = {name: [] for name in names}

    def see(name: str) -> Any:
        def note(_: nn.Module, args: tuple[Any, ...], out: Any) -> None:
            if len(args) == 1 and isinstance(args[0], Tensor) and isinstance(out, Tensor):
                shapes[name].append((args[0].shape, out.shape))

        return note

    handles = [model.get_submodule(name).register_forward_hook(see(name)) for name in names]
    try:
        yield shapes
    finally:
        for handle in handles:
            handle.remove()


def _symmetric(module: nn.Module, before: torch.Size, after: torch.Size, mirrored: list[bool]) -> nn.Module | None:
    """The module with symmetric windows; None if it is neither linear nor a max pool."""
    if len(before) != 4 or len(after) != 4:
        return None
    if isinstance(module, nn.MaxPool2d) and _pair(module.dilation) == (1, 1) and not module.return_indices:
        kernel, stride, padding = (_pair(v) for v in (module.kernel_size, module.stride, module.padding))
        spans = [
            _Span.of(-padding[k], kernel[k], stride[k]).symmetric(before[2 + k], after[2 + k])
            if mirrored[k]
            else _Span.of(-padding[k], kernel[k], stride[k])
            for k in (0, 1)
        ]
        sizes, steps, pads = ([s.size for s in spans], [s.stride for s in spans], [-s.first for s in spans])
        return nn.MaxPool2d(tuple(sizes), tuple(steps), tuple(pads), ceil_mode=module.ceil_mode)
    layer = module if _is_plain(module) else _as_convolution(module, before, after)
    if layer is None:
        return None
    return widened_window(layer, before[2:], after[2:], mirrored)  # type: ignore[arg-type]


def _is_plain(module: nn.Module) -> bool:
    return type(module) is nn.Conv2d and module.padding_mode == "zeros" and not isinstance(module.padding, str)


def _pair(value: Any) -> Size:
    return (value, value) if isinstance(value, int) else (value[0], value[1])


@dataclass(frozen=True)
class _Span:
    """The window of one axis: output o reads inputs o·stride + first, ..., o·stride + last."""

    first: int
    last: int
    stride: int

    @staticmethod
    def of(first: int, size: int, stride: int) -> _Span:
        return _Span(first, first + size - 1, stride)

    @property
    def size(self) -> int:
        return self.last - self.first + 1

    def symmetric(self, before: int, after: int) -> _Span:
        """The smallest larger window that a mirror of the axis maps to itself.

        The mirror maps input a to before − 1 − a and output o to after − 1 − o, hence offset a to ``total`` − a.
        """
        total = before - 1 - (after - 1) * self.stride
        first = min(self.first, total - self.last, 0)
        return _Span(first, total - first, self.stride)


def widened_window(layer: nn.Conv2d, before: Size, after: Size, mirrored: Sequence[bool]) -> nn.Conv2d:
    """A convolution with the same outputs, whose window is symmetric along the mirrored axes."""
    kernel, stride, dilation = layer.kernel_size, layer.stride, layer.dilation
    padding = _pair(layer.padding)
    spans, steps = [], []
    for k in (0, 1):
        old = _Span.of(-padding[k], dilation[k] * (kernel[k] - 1) + 1, stride[k])
        new = old.symmetric(before[k], after[k]) if mirrored[k] else old
        # A window that is symmetric already keeps its gaps; a larger one is written without gaps.
        steps.append(dilation[k] if new == old else 1)
        spans.append(old if new == old else new)
    sizes = [(s.size - 1) // step + 1 for s, step in zip(spans, steps, strict=True)]
    twin = nn.Conv2d(
        layer.in_channels,
        layer.out_channels,
        tuple(sizes),  # type: ignore[arg-type]
        (stride[0], stride[1]),
        tuple(-s.first for s in spans),  # type: ignore[arg-type]
        tuple(steps),  # type: ignore[arg-type]
        layer.groups,
        layer.bias is not None,
        device=layer.weight.device,
        dtype=layer.weight.dtype,
    )
    places = [
        torch.arange(kernel[k]) * (dilation[k] // steps[k]) + (-padding[k] - spans[k].first) // steps[k] for k in (0, 1)
    ]
    with torch.no_grad():
        twin.weight.zero_()
        twin.weight[:, :, places[0][:, None], places[1][None]] = layer.weight
        if twin.bias is not None and layer.bias is not None:
            twin.bias.copy_(layer.bias)
    return twin.eval()


def _as_convolution(module: nn.Module, before: torch.Size, after: torch.Size) -> nn.Conv2d | None:
    """The convolution that computes what a linear module computes, read off from its derivatives; None for others."""
    double = copy.deepcopy(module).double().eval()
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    x = torch.zeros(1, *before[1:], dtype=torch.float64, device=device, requires_grad=True)
    y = double(x)
    middle = [(after[2 + k] - 1) // 2 for k in (0, 1)]
    kernels = _derivatives(x, y, middle)
    stride = []
    for k in (0, 1):
        here = [middle[0], middle[1]]
        here[k] += 1
        if here[k] >= after[2 + k]:
            stride.append(before[2 + k])
            continue
        shift = _extent(_derivatives(x, y, here), 2 + k)[0] - _extent(kernels, 2 + k)[0]
        stride.append(max(shift, 1))
    ranges = [_extent(kernels, 2 + k) for k in (0, 1)]
    weight = kernels[:, :, ranges[0][0] : ranges[0][1] + 1, ranges[1][0] : ranges[1][1] + 1]
    spans = [
        _Span(low - m * s, high - m * s, s).symmetric(before[2 + k], after[2 + k])
        for k, ((low, high), m, s) in enumerate(zip(ranges, middle, stride, strict=True))
    ]
    channels = weight.shape[0]
    diagonal = channels == weight.shape[1] and bool((weight[~torch.eye(channels, dtype=torch.bool)] == 0).all())
    groups = channels if diagonal else 1
    bias = y[0, :, middle[0], middle[1]].detach()
    layer = nn.Conv2d(
        before[1],
        channels,
        tuple(s.size for s in spans),  # type: ignore[arg-type]
        tuple(stride),  # type: ignore[arg-type]
        tuple(-s.first for s in spans),  # type: ignore[arg-type]
        groups=groups,
        bias=bool((bias != 0).any()),
        device=device,
        dtype=torch.float64,
    )
    start = [low - m * s - span.first for (low, _), m, s, span in zip(ranges, middle, stride, spans, strict=True)]
    with torch.no_grad():
        layer.weight.zero_()
        part = weight[torch.arange(channels), torch.arange(channels)][:, None] if diagonal else weight
        layer.weight[:, :, start[0] : start[0] + part.shape[2], start[1] : start[1] + part.shape[3]] = part
        if layer.bias is not None:
            layer.bias.copy_(bias)
        probe = torch.randn(2, *before[1:], generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
        expected, got = double(probe), layer(probe)
    return layer if expected.shape == got.shape and torch.allclose(expected, got, atol=1e-10) else None


def _derivatives(x: Tensor, y: Tensor, place: Sequence[int]) -> Tensor:
    """∂y[c, place]/∂x for every output channel c."""
    rows = []
    for channel in y[0, :, place[0], place[1]]:
        (row,) = torch.autograd.grad(channel, x, retain_graph=True) if channel.requires_grad else (torch.zeros_like(x),)
        rows.append(row[0])
    return torch.stack(rows)


def _extent(kernels: Tensor, axis: int) -> tuple[int, int]:
    """The first and the last index along an axis where some entry is not zero."""
    used = (kernels != 0).any(tuple(k for k in range(4) if k != axis) if axis != 0 else (1, 2, 3)).nonzero()[:, 0]
    return (int(used[0]), int(used[-1])) if len(used) else (0, 0)

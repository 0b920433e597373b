"""Find layers that cannot commute with a symmetry because of stride or padding, and input sizes where they do."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ..._checked import checked
from ...errors import InputError
from ...spaces import AxisMove
from .._symmetry import SymmetryLike, parse_symmetry


@checked
@dataclass(frozen=True)
class Artifact:
    """A layer that breaks a symmetry: its name, its operation, the size of its input, and the reason."""

    layer: str
    operation: str
    input_size: tuple[int, int]
    reason: str


@checked
@dataclass(frozen=True)
class StrideReport:
    """The layers that break a symmetry at one input size, and the nearest size where none does, if there is one.

    ``bool(report)`` is True if a layer breaks the symmetry.
    """

    symmetry: str
    input_shape: tuple[int, int, int]
    artifacts: tuple[Artifact, ...]
    better: tuple[int, int] | None

    def __bool__(self) -> bool:
        return bool(self.artifacts)

    def __str__(self) -> str:
        size = f"{self.input_shape[1]} x {self.input_shape[2]}"
        if not self.artifacts:
            return f"{self.symmetry}: every layer commutes at {size}"
        advice = f"use {self.better[0]} x {self.better[1]}" if self.better else "no size nearby works"
        lines = [f"  {a.layer} ({a.operation}, input {a.input_size[0]} x {a.input_size[1]}): {a.reason}"
                 for a in self.artifacts]  # fmt: skip
        return "\n".join([f"{self.symmetry}: {len(lines)} layers do not commute at {size}; {advice}", *lines])


@checked
def stride_artifacts(
    model: nn.Module, input_shape: tuple[int, int, int], symmetry: SymmetryLike, *, reach: int = 32
) -> StrideReport:
    """Find layers whose sampling grid the symmetry does not map to itself.

    A layer with kernel k, stride s, dilation d and padding p on L pixels has windows that start at −p, s − p, ...; a
    mirror maps this grid to itself only if s divides L + 2p − d(k − 1) − 1. A 3 x 3 convolution with stride 2 and
    padding 1 commutes with a mirror on odd widths and never on even ones, whatever its filters are.

    Sizes are found by running the network without data, on torch's meta device.

    Args:
        model: the network.
        input_shape: (C, H, W).
        symmetry: a name, a space with its group, or a :class:`Symmetry`.
        reach: how far from the given size to search for a better one.

    >>> net = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU())
    >>> print(stride_artifacts(net, (3, 32, 32), "hflip"))
    hflip: 1 layers do not commute at 32 x 32; use 31 x 31
      0 (convolution, input 32 x 32): stride 2 leaves a remainder of 1 column
    >>> bool(stride_artifacts(net, (3, 33, 33), "hflip"))
    False
    """
    symmetry = parse_symmetry(symmetry)
    symmetry.require_finite(caller="stride_artifacts")
    moves = [symmetry.require_axis_move(g, caller="stride_artifacts") for g in range(symmetry.order)]
    probe = copy.deepcopy(model).eval().to("meta")
    artifacts = _broken(probe, input_shape, moves)
    if isinstance(artifacts, Exception):
        raise InputError(
            "stride_artifacts",
            expected="a network that runs on images of this shape",
            got=f"{input_shape}, where it raises {type(artifacts).__name__}: {artifacts}",
            fix="Give (channels, height, width) as the network expects them.",
        ) from artifacts
    better = None
    if artifacts:
        better = next(
            (
                size
                for step in range(1, reach + 1)
                for size in (
                    (input_shape[1] - step, input_shape[2] - step),
                    (input_shape[1] + step, input_shape[2] + step),
                )
                if min(size) > 0 and _broken(probe, (input_shape[0], *size), moves) == ()
            ),
            None,
        )
    return StrideReport(symmetry.name, input_shape, artifacts, better)


def _broken(model: nn.Module, shape: tuple[int, ...], moves: list[AxisMove]) -> tuple[Artifact, ...] | Exception:
    """The artifacts at an image size, or the error of the network: too small an image, or a network of one size."""
    first = next(iter(model.parameters()), None)
    x = torch.empty(2, *shape, device="meta", dtype=first.dtype if first is not None else torch.float32)
    with torch.no_grad(), _layers(model) as where:
        watch = _Watch(moves, where)
        try:
            with watch:
                model(x)
        except Exception as error:  # of the network, which may raise anything; errors of our own checks are not hidden
            if watch.checking:
                raise
            return error
    return tuple(watch.artifacts)


@contextmanager
def _layers(model: nn.Module) -> Iterator[Callable[[], str]]:
    """The name of the module that is running."""
    stack: list[str] = []
    handles = []
    for name, module in model.named_modules():
        handles.append(module.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        handles.append(module.register_forward_hook(lambda *_: (stack.pop(), None)[1], always_call=True))
    try:
        yield lambda: stack[-1] if stack else ""
    finally:
        for handle in handles:
            handle.remove()


class _Watch(TorchDispatchMode):
    """Checks every operation that samples the plane."""

    def __init__(self, moves: list[AxisMove], where: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moves, self.where = moves, where
        self.artifacts: list[Artifact] = []
        self.checking = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.checking = True
        self._check(func._schema.name.split("::")[1], args, out)
        self.checking = False
        return out

    def _check(self, name: str, args: Any, out: Any) -> None:
        if args and isinstance(args[0], Tensor) and args[0].dim() == 4:
            after = out if isinstance(out, Tensor) else out[0] if isinstance(out, tuple) else None
            for reason in self._reasons(name, args, after):
                size = (args[0].shape[2], args[0].shape[3])
                self.artifacts.append(
                    Artifact(self.where(), name.strip("_").replace("_with_indices", ""), size, reason)
                )

    def _reasons(self, name: str, args: Any, out: Tensor | None) -> Iterator[str]:
        grids = _grids(name, args, out)
        if grids is None:
            return
        for axis, word, mirrored in (
            (0, "row", any(m.flips[0] for m in self.moves if not m.swaps)),
            (1, "column", any(m.flips[1] for m in self.moves if not m.swaps)),
        ):
            turned = any(m.swaps for m in self.moves)
            if (mirrored or turned) and grids[axis].lopsided:
                many = abs(grids[axis].lopsided) != 1
                yield grids[axis].reason.format(n=abs(grids[axis].lopsided), unit=word + "s" * many)
        if any(m.swaps for m in self.moves) and grids[0].steps != grids[1].steps:
            yield "rows and columns are sampled differently"
        if any(m.swaps for m in self.moves) and grids[0].steps and args[0].shape[2] != args[0].shape[3]:
            yield "rows and columns differ in number"


@dataclass(frozen=True)
class _Grid:
    """The sampling grid of one axis: by how many pixels it differs from its mirror image, and its constants."""

    lopsided: int
    steps: tuple[int, ...]
    reason: str


def _pair(value: Any, default: int = 1) -> tuple[int, int]:
    if value is None or value == []:
        return default, default
    if isinstance(value, int):
        return value, value
    return (value[0], value[-1])


def _grids(name: str, args: Any, out: Tensor | None) -> tuple[_Grid, _Grid] | None:
    x = args[0]

    def get(k: int, default: Any = None) -> Any:
        return args[k] if len(args) > k and args[k] is not None else default

    if name in ("convolution", "_convolution", "conv2d"):
        kernel, stride, padding = args[1].shape[2:], _pair(get(3)), _pair(get(4), 0)
        dilation, transposed, extra = _pair(get(5)), bool(get(6, False)), _pair(get(7), 0)
        if transposed:
            return _both(
                lambda k: _Grid(extra[k], (kernel[k], stride[k], padding[k]), "output padding adds {n} {unit}")
            )
        return _both(lambda k: _strided(x.shape[2 + k], kernel[k], stride[k], padding[k], dilation[k], None))
    if name in ("max_pool2d_with_indices", "max_pool2d", "avg_pool2d") and out is not None:
        kernel = _pair(args[1])
        stride, padding = _pair(get(2) or None, 0), _pair(get(3), 0)
        stride = stride if stride != (0, 0) else kernel
        dilation = _pair(get(4)) if name.startswith("max") else (1, 1)
        return _both(
            lambda k: _strided(x.shape[2 + k], kernel[k], stride[k], padding[k], dilation[k], out.shape[2 + k])
        )
    if name == "slice" and len(args) > 1 and args[1] in (2, 3, -1, -2):
        axis = args[1] % 4
        n, step = x.shape[axis], get(4, 1)
        start, stop = get(2, 0), min(get(3, n), n)
        start, stop = start + n * (start < 0), stop + n * (stop < 0)
        last = start + (max(stop - start, 1) - 1) // step * step
        off, free = start - (n - 1 - last), _Grid(0, (), "")
        grid = _Grid(off, (), "the slice leaves {n} {unit} more on one side")
        return (grid, free) if axis == 2 else (free, grid)
    if name in ("constant_pad_nd", "pad", "reflection_pad2d", "replication_pad2d"):
        widths = [*args[1], 0, 0, 0, 0][:4]
        reason = "padding adds {n} {unit} more on one side"
        return tuple(_Grid(widths[k + 1] - widths[k], (widths[k],), reason) for k in (2, 0))  # type: ignore[return-value]
    if name == "upsample_nearest2d" and out is not None:
        reason = "nearest-neighbor resizing is lopsided for this factor"
        return _both(lambda k: _Grid(int(out.shape[2 + k] % x.shape[2 + k] != 0), (), reason))
    return None


def _both(make: Callable[[int], _Grid]) -> tuple[_Grid, _Grid]:
    return make(0), make(1)


def _strided(size: int, kernel: int, stride: int, padding: int, dilation: int, out: int | None) -> _Grid:
    span = size + 2 * padding - dilation * (kernel - 1) - 1
    off = span % stride if out is None else span - (out - 1) * stride
    return _Grid(off, (kernel, stride, padding, dilation), f"stride {stride} leaves a remainder of {{n}} {{unit}}")

"""Relax a strict network without changing what it computes at first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from ..._checked import Floats, checked
from ...errors import InputError, IntertwineError
from ...nn import Concat, Conv2d, Conv3d, Layer, Residual, Sequential
from .._kernel_shares import TRANSLATION
from .._relaxed_layer import RelaxedLayer
from ._modulated_conv import ModulatedConv
from ._orientation_conv import OrientationConv, oriented_kinds
from ._position_conv import LowRankConv
from ._residual_conv import ResidualConv
from ._strict_conv import StrictConv, types_of, weights_of, window_of

How = Literal["low-rank", "orientation", "soft", "residual"]
N = TypeVar("N", bound=nn.Module)

_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "low-rank": ("rank", "spread", "keep"),
    "orientation": ("rank", "spread"),
    "soft": ("softness", "frequencies", "keep"),
    "residual": ("keep",),
}
_CONTAINERS = (Sequential, Residual, Concat)
_PLAIN: Mapping[type[nn.Module], Any] = {kind: kind.forward for kind in (nn.Conv1d, nn.Conv2d, nn.Conv3d)}


class _StaysStrictError(Exception):
    """The reason why a layer stays strict."""


@dataclass(frozen=True)
class RelaxedRow:
    """The result for one layer: its new class, or why it stays strict."""

    name: str
    kind: str
    now: str | None
    why: str


@dataclass(frozen=True)
class RelaxReport:
    """The result of :func:`relax` for each layer of a network, in order."""

    rows: tuple[RelaxedRow, ...]

    @property
    def relaxed(self) -> tuple[str, ...]:
        """The names of the relaxed layers."""
        return tuple(row.name for row in self.rows if row.now is not None)

    @property
    def strict(self) -> Mapping[str, str]:
        """The layers that stay strict, and why."""
        return {row.name: row.why for row in self.rows if row.now is None}

    def __str__(self) -> str:
        table = [["layer", "kind", "now"]]
        table += [[row.name or "(network)", row.kind, row.now or f"strict: {row.why}"] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)) for row in table)
        return "\n".join(line.rstrip() for line in lines)


@checked
def relax(
    net: N,
    images: Floats,
    how: How = "low-rank",
    *,
    rank: int | None = None,
    spread: float | None = None,
    softness: float | Mapping[str, float] | None = None,
    frequencies: int | None = None,
    keep: str | None = None,
) -> N:
    """A copy of a strict network with a dial in every convolution, which computes the same function at first.

    ======================  ===========================================================  ===============================
    how                     the kernel                                                   relaxes
    ======================  ===========================================================  ===============================
    ``low-rank``            Σ_k c_k(x) κ_k(y), strict κ_k; :class:`LowRankConv`          translations, and the group
                                                                                         unless ``keep`` names it
    ``orientation``         Σ_k c_k(o) κ_k(y), o the output's orientation;               the group
                            :class:`OrientationConv`
    ``soft``                Σ_j w_j(ω' x) κ_j(y), band-limited w;                        translations, and the group
                            :class:`ModulatedConv`                                       unless ``keep`` names it
    ``residual``            κ + a free kernel; :class:`ResidualConv`                     the group; translations
                                                                                         where there is none
    ======================  ===========================================================  ===============================

    Relaxes convolutions of this package and of torch, including those in networks from torchvision or timm, which are
    strict under translations only. Trained weights and running statistics stay as they are. One forward pass of
    ``images`` determines the sizes of all inputs. The attribute ``relax_report`` of the copy lists the layers that stay
    strict, and why. :func:`relaxation_table` shows the dials, and :func:`to_equivariant_` goes back.

    Args:
        net: any network with convolutions, trained or not.
        images: a batch of inputs; position-dependent layers are built for its size.
        how: the method.
        rank: the number of kernels to mix, for ``low-rank`` (default 4) and ``orientation`` (default 2).
        spread: the initial spread of the kernels, relative to the weights (default 0.1).
        softness: ω' of ``soft`` (default 0.3), or one per subgroup.
        frequencies: the number of multiples of ω' (default 1).
        keep: the name of a group to keep exact, such as ``"D4"``; for ``residual``, ``"translation"``.

    >>> from intertwine.spaces import Grid2d
    >>> plane = Grid2d("D4")
    >>> x, h = plane.field("3*trivial"), plane.field("4*regular")
    >>> net = Sequential(Conv2d(x, h, 3, padding=1), Conv2d(h, h, 3, padding=1))
    >>> images = torch.randn(2, 3, 8, 8)
    >>> free = relax(net, images, "low-rank", rank=2, keep="D4")
    >>> free[1].claim, torch.allclose(free(images), net(images), atol=1e-5)
    (Relaxed(translation=0.0), True)
    >>> print(free.relax_report)
    layer  kind    now
    0      Conv2d  LowRankConv
    1      Conv2d  LowRankConv
    """
    all_options = {"rank": rank, "spread": spread, "softness": softness, "frequencies": frequencies, "keep": keep}
    options = {name: value for name, value in all_options.items() if value is not None}
    foreign = [name for name in options if name not in _OPTIONS[how]]
    if foreign:
        raise InputError("relax", expected=f"options of {how!r}: {', '.join(_OPTIONS[how])}", got=", ".join(foreign))
    twin = deepcopy(net)
    with _measured(twin):
        seen = _sizes_seen(twin, images)
        before = _outputs(twin, images)
        names = _names(twin)
        owners = _owners(twin)
        rows: list[RelaxedRow] = []
        for module, paths in names.items():
            if not _is_candidate(module):
                continue
            try:
                _require_relaxable(twin, module, paths, owners)
                layer = _relaxed(module, how, seen.get(module, []), options)  # type: ignore[arg-type]
            except (_StaysStrictError, IntertwineError) as reason:
                rows.append(RelaxedRow(paths[0], type(module).__name__, None, str(reason)))
                continue
            layer.train(module.training)
            twin = _put(twin, paths, layer)
            rows.append(RelaxedRow(paths[0], type(module).__name__, type(layer).__name__, ""))
        if not any(row.now for row in rows):
            raise InputError(
                "relax",
                expected=f"a network with convolutions that can be relaxed by {how!r}",
                got="; ".join(f"{row.name or 'the network'}: {row.why}" for row in rows) or "no convolution",
            )
        _fix_sizes(twin, seen)
        _require_same(before, _outputs(twin, images))
    twin.relax_report = RelaxReport(tuple(rows))  # type: ignore[assignment]
    return twin


# -- one layer ---------------------------------------------------------------------------------------------------------


def _relaxed(conv: StrictConv, how: How, sizes: list[tuple[int, ...]], options: Mapping[str, Any]) -> RelaxedLayer:
    """The relaxed layer, or an error that says why there is none."""
    keep = options.get("keep")
    group = types_of(conv)[0].space.stabilizer
    if how == "orientation":
        if not oriented_kinds(types_of(conv)[1]):
            raise _StaysStrictError("its output has no regular or quotient fields")
        return OrientationConv(conv, **options)
    if how == "residual" and (keep == TRANSLATION or getattr(group, "order", 2) > 1):
        if keep not in (None, TRANSLATION):
            raise InputError("relax", expected="keep='translation' or None for 'residual'", got=repr(keep))
        if getattr(group, "order", 2) == 1:
            raise _StaysStrictError("translations are its only symmetry")
        return ResidualConv(conv)
    positions = set(sizes)
    if not positions:
        raise _StaysStrictError("it was not called with these images")
    if len(positions) > 1:
        raise _StaysStrictError(f"it is called with inputs of several sizes, {sorted(positions)}")
    size = positions.pop()
    if torch.Size(window_of(conv).output_sizes(size)).numel() == 1:
        raise _StaysStrictError("its output has one position")
    if how == "residual":
        return ResidualConv(conv, input_size=size)
    return (LowRankConv if how == "low-rank" else ModulatedConv)(conv, input_size=size, **options)


def _is_candidate(module: nn.Module) -> bool:
    """Whether a module has weights of its own and belongs in the report."""
    if isinstance(module, Conv2d | Conv3d):
        return True
    skipped = isinstance(module, (*_CONTAINERS, nn.ParameterList))
    return not skipped and any(True for _ in module.parameters(recurse=False))


def _require_relaxable(net: nn.Module, module: nn.Module, paths: list[str], owners: Mapping[int, set[int]]) -> None:
    if type(module) not in (Conv2d, Conv3d):
        if isinstance(module, RelaxedLayer):
            raise _StaysStrictError("it is already relaxed")
        if not isinstance(module, tuple(_PLAIN)):
            raise _StaysStrictError("only convolutions are relaxed")
        if type(module) not in _PLAIN:  # a subclass may have its own forward, which may change the weights
            raise _StaysStrictError("it is a subclass of a convolution")
    if isinstance(module, Conv2d) and module.on_hexagon:
        raise _StaysStrictError("it works on a hexagon: only circular padding is relaxed on the hexagonal lattice")
    for path in paths:
        for above in _ancestors(net, path):
            if isinstance(above, RelaxedLayer) or (isinstance(above, Layer) and not isinstance(above, _CONTAINERS)):
                raise _StaysStrictError(f"it is part of {type(above).__name__}")
    shared = [weight for weight in weights_of(module) if len(owners[id(weight)]) > 1]  # type: ignore[arg-type]
    if shared:
        raise _StaysStrictError("it shares its weight with another layer")


# -- the network -------------------------------------------------------------------------------------------------------


@contextmanager
def _measured(net: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; restores the mode of every module afterwards."""
    modes = [(module, module.training) for module in net.modules()]
    net.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode


def _sizes_seen(net: nn.Module, images: Tensor) -> dict[nn.Module, list[tuple[int, ...]]]:
    """The spatial sizes of all inputs of convolutions and typed layers."""
    seen: dict[nn.Module, list[tuple[int, ...]]] = {}

    def note(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if inputs and isinstance(inputs[0], Tensor) and inputs[0].ndim > 2:
            seen.setdefault(module, []).append(tuple(inputs[0].shape[2:]))

    kinds = (Layer, nn.Conv1d, nn.Conv2d, nn.Conv3d)
    hooks = [module.register_forward_pre_hook(note) for module in net.modules() if isinstance(module, kinds)]
    try:
        net(images)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        if isinstance(error, IntertwineError):
            raise
        raise InputError("relax", expected="images that the network takes", got=str(error)) from error
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def _outputs(net: nn.Module, images: Tensor) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(net(images)) if isinstance(leaf, Tensor)]


def _names(net: nn.Module) -> dict[nn.Module, list[str]]:
    """All names of every module."""
    names: dict[nn.Module, list[str]] = {}
    for path, module in net.named_modules(remove_duplicate=False):
        names.setdefault(module, []).append(path)
    return names


def _owners(net: nn.Module) -> dict[int, set[int]]:
    """The modules that hold each parameter."""
    owners: dict[int, set[int]] = {}
    for module in net.modules():
        if isinstance(module, nn.ParameterList):
            continue  # counts as part of the layer that holds it
        lists = [part for part in module.children() if isinstance(part, nn.ParameterList)]
        for holder in (module, *lists):
            for parameter in holder.parameters(recurse=False):
                owners.setdefault(id(parameter), set()).add(id(module))
    return owners


def _ancestors(net: nn.Module, path: str) -> Iterator[nn.Module]:
    parts = path.split(".")
    yield from (net.get_submodule(".".join(parts[:n])) for n in range(len(parts)) if path)


def _put(net: N, paths: list[str], layer: nn.Module) -> N:
    if paths == [""]:
        return layer  # type: ignore[return-value]
    for path in paths:
        net.set_submodule(path, layer)
    return net


def _fix_sizes(net: nn.Module, seen: Mapping[nn.Module, list[tuple[int, ...]]]) -> None:
    """Fix the input size of containers that hold a position-dependent layer."""
    for module in net.modules():
        inside = [part.fixed_sizes for part in module.modules() if isinstance(part, RelaxedLayer)]
        if isinstance(module, _CONTAINERS) and any(size is not None for size in inside) and seen.get(module):
            module.fixed_sizes = seen[module][0]


def _require_same(before: list[Tensor], after: list[Tensor]) -> None:
    """Check that relaxing did not change the outputs."""
    for a, b in zip(before, after, strict=True):
        tolerance = 1e-9 if a.dtype == torch.float64 else 1e-2 if a.dtype in (torch.float16, torch.bfloat16) else 1e-4
        error = float((a - b).abs().max() / a.abs().max().clamp_min(1e-30)) if a.numel() else 0.0
        if not error <= tolerance:
            raise InputError(
                "relax",
                expected="a network whose outputs depend only on its input and weights",
                got=f"outputs that differ by {error:.1e} after relaxing",
                fix="Check whether it draws random numbers in evaluation mode or changes its own weights.",
            )

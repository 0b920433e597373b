"""Any torch module as a layer between field types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy

import torch
from torch import Tensor
from torch import nn as torch_nn

from ..._checked import Positive, checked
from ...errors import InputError
from ...groups import Cyclic, Dihedral
from ...spaces import FieldType, Grid2d
from .._export import to_plain
from .._layer import Claim, Exact, Layer, axis_names, register_layer


@register_layer
class Plain(Layer):
    """Your own module, with the types and the claim that you state for it.

    Put it in a :class:`Sequential` with other layers, and test its claim like any other:
    :func:`intertwine.testing.assert_equivariant` raises if the module does not commute with the group.

    Shapes: those of the module, ``(batch, d1, *space)`` to ``(batch, d2, *space')`` or ``(batch, d2)``. Equivariance:
    as claimed.

    Args:
        module: maps tensors with the channels of ``in_type`` to tensors with the channels of ``out_type``.
        in_type: the fields it takes.
        out_type: the fields it returns.
        claim: :class:`Exact`, :class:`Approximate` or :class:`Relaxed`.
        needs_space: whether it takes only inputs with spatial axes.
        keeps_space: whether its output has spatial axes.
        size: the only spatial size it takes, one number for all axes or one per axis; by default any.
        shift_step: the periodic shift of the input, in samples, that shifts the output by one; None to claim nothing
            about translations.

    >>> from intertwine.testing import assert_equivariant
    >>> D4 = Dihedral(4); plane = Grid2d(D4)
    >>> h = plane.field(2 * D4.regular)
    >>> softmax = Plain(torch_nn.Softmax(dim=1), h, h, Exact(), shift_step=1)
    >>> assert_equivariant(softmax) < 1e-12
    True
    >>> assert_equivariant(Plain(torch_nn.Conv2d(16, 16, 3), h, h, Exact()))
    Traceback (most recent call last):
        ...
    AssertionError: Plain from Field(2 regular on Grid2d(D4)) to Field(2 regular on Grid2d(D4)) does not ...
    """

    @checked
    def __init__(
        self,
        module: torch_nn.Module,
        in_type: FieldType,
        out_type: FieldType,
        claim: Claim,
        *,
        needs_space: bool = True,
        keeps_space: bool = True,
        size: Positive | Sequence[Positive] | None = None,
        shift_step: Positive | None = None,
    ) -> None:
        super().__init__(in_type, out_type, claim)
        self.module, self._shift_step = module, shift_step
        self.needs_space, self.keeps_space = needs_space, keeps_space
        if size is not None:
            axes = len(axis_names(in_type.space))
            self.fixed_sizes = (size,) * axes if isinstance(size, int) else tuple(size)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4 = Cyclic(4), Dihedral(4)
        field = Grid2d(D4).field(2 * D4.regular)
        yield cls(torch_nn.Softmax(dim=1), field, field, Exact(), shift_step=1)
        plane = Grid2d(C4)
        field = plane.field(2 * C4.regular)
        yield cls(torch_nn.AdaptiveMaxPool2d(1), field, field, Exact())
        scalars = plane.field(3 * C4.trivial)
        pointwise = torch_nn.Conv2d(3, 5, 1)
        yield cls(pointwise, scalars, plane.field(5 * C4.trivial), Exact(), shift_step=1)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        out: Tensor = self.module(x)
        rank = 2 + (len(axis_names(self.out_type.space)) if self.keeps_space and x.ndim > 2 else 0)
        if out.ndim != rank or out.shape[1] != self.out_type.dim:
            raise InputError(
                "Plain",
                expected=f"a module that returns the {self.out_type.dim} channels of {self.out_type} "
                f"and {rank - 2 or 'no'} spatial axes",
                got=f"shape {tuple(out.shape)} from {type(self.module).__name__}",
                fix="" if self.keeps_space else "Pass keeps_space=True for a module whose output has spatial axes.",
            )
        return out

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Sizes of the output, from a run of the module on tensors without data."""
        from torch._subclasses.fake_tensor import FakeTensorMode  # imported here because it is slow to import

        if self.fixed_sizes is not None and tuple(sizes) != self.fixed_sizes:
            raise InputError("Plain", expected=f"sizes {self.fixed_sizes}", got=str(tuple(sizes)))
        if not self.keeps_space:
            return ()
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        state = dict([*self.module.named_parameters(), *self.module.named_buffers()])
        weight = next((p for p in self.module.parameters() if p.is_floating_point()), torch.zeros(()))
        try:
            with torch.no_grad(), mode:
                x = torch.empty(2, self.in_type.dim, *sizes, dtype=weight.dtype, device=weight.device)
                # Fake copies of the state protect running statistics from this call.
                fake: dict[str, Tensor] = {name: mode.from_tensor(value) for name, value in state.items()}
                return tuple(int(n) for n in torch.func.functional_call(self.module, fake, (x,)).shape[2:])
        except (RuntimeError, ValueError, TypeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                "Plain", expected=f"sizes that {type(self.module).__name__} takes", got=f"{tuple(sizes)}: {first}"
            ) from error

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """As stated."""
        return self._shift_step

    def to_plain(self) -> torch_nn.Module:
        """A copy of the module."""
        return to_plain(deepcopy(self.module))

    def extra_repr(self) -> str:
        """Types and claim."""
        return f"{super().extra_repr()}, {self.claim}"

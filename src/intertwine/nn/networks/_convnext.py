"""The ConvNeXt block, which spends most of its time in 1 x 1 maps, which symmetry makes cheaper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.functional import gelu

from ..._checked import checked
from ...errors import InputError
from ...groups import Cyclic, Dihedral, direct_sum
from ...spaces import FieldType, Grid2d
from .._layer import Layer, register_layer
from .._window import PaddingMode
from ..basis._fields import Fields
from ..linear._depthwise import DepthwiseConv2d, require_channels
from ..linear._linear import Linear
from ..norms._layer_norm import LayerNorm


@register_layer
class ConvNeXtBlock(Layer):
    """f + γ W2 GELU(W1 LN(κ ⋆ f)): a depthwise convolution, normalization, and two pointwise linear maps.

    W1 maps to ``expansion`` times as many fields and W2 maps back; γ has one entry per field. Wide blocks lay out the
    fields as rows of samples once and multiply in the irreducible basis of the group, which makes them faster than the
    plain block of the same width. The nonlinearity acts in the basis where the group permutes channels.

    Shapes: ``(batch, d, height, width)`` to the same. Equivariance: that of its parts; exact for groups that map
    the lattice to itself.

    Args:
        in_type: fields on a ``Grid2d`` whose channels are permuted (trivial, regular, quotient).
        kernel_size: the size of the depthwise convolution; odd, to preserve the size of the image.
        padding_mode: ``zeros``, ``reflect``, ``replicate`` or ``circular``.
        expansion: how many times wider the middle is.
        layer_scale: the initial value of all γ; None for a block without γ.

    References:
        Liu, Mao, Wu, Feichtenhofer, Darrell & Xie, "A ConvNet for the 2020s", CVPR 2022.

    >>> D4 = Dihedral(4)
    >>> block = ConvNeXtBlock(Grid2d(D4).field(4 * D4.regular))
    >>> block(torch.randn(2, 32, 9, 9)).shape
    torch.Size([2, 32, 9, 9])
    """

    needs_space = True

    @checked
    def __init__(
        self,
        in_type: FieldType,
        kernel_size: int = 7,
        *,
        padding_mode: PaddingMode = "zeros",
        expansion: int = 4,
        layer_scale: float | None = 1e-6,
    ) -> None:
        caller = "ConvNeXtBlock"
        require_channels(caller, in_type)
        if kernel_size % 2 == 0:
            raise InputError(caller, expected="an odd kernel, which keeps the size", got=f"kernel_size={kernel_size}")
        if expansion < 1:
            raise InputError(caller, expected="expansion of at least 1", got=str(expansion))
        depthwise = DepthwiseConv2d(in_type, kernel_size, padding="same", padding_mode=padding_mode)
        super().__init__(in_type, in_type, depthwise.claim)
        # Copies of a field are neighbors, so the middle is sorted by kind if the input is: rows then need no
        # reordering.
        middle = in_type.space.field(direct_sum(atom for atom in in_type.rho.atoms for _ in range(expansion)))
        self.depthwise = depthwise
        self.norm = LayerNorm(in_type, eps=1e-6)
        self.expand = Linear(in_type, middle)
        self.contract = Linear(middle, in_type)
        self.fields = Fields(in_type)
        count = len(in_type.rho.atoms)
        self._start = layer_scale
        self.scale = None if layer_scale is None else torch_nn.Parameter(torch.full((count,), float(layer_scale)))

    def reset_parameters(self) -> None:
        """Reset the layer scale to its initial value; the inner layers reset themselves."""
        if self.scale is not None and self._start is not None:
            torch_nn.init.constant_(self.scale, self._start)

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        C4, D4, C8 = Cyclic(4), Dihedral(4), Cyclic(8)
        yield cls(Grid2d(C4).field(2 * C4.regular), 3, expansion=2, layer_scale=0.5)
        mixed = D4.regular + D4.trivial + D4.quotient(D4.subgroup([4]))
        yield cls(Grid2d(D4).field(mixed), 5, padding_mode="circular", layer_scale=None)
        yield cls(Grid2d(C8).field(C8.regular), expansion=1, layer_scale=1.0)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        y = self._point(self.norm(self.depthwise(x)))
        return x + y if self.scale is None else torch.addcmul(x, y, self.fields(self.scale)[:, None, None])

    def _point(self, y: Tensor) -> Tensor:
        up, down = self.expand.point, self.contract.point
        if up is None or down is None or not up.pays(y):
            return self.contract(gelu(self.expand(y)))
        first = up.kept(list(self.expand.weights), self.expand.bias, self.expand.invariants)
        second = down.kept(list(self.contract.weights), self.contract.bias, self.contract.invariants)
        rows = up.outgoing.gelu(up.shape(up.incoming.enter(y), *first))  # the wide middle stays as rows
        return down.outgoing.leave(down.shape(rows, *second), y.shape[0], y.shape[2:])

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The same sizes; an error if they are too small for the padding."""
        return self.depthwise.output_sizes(sizes)

    def shift_step(self, sizes: Sequence[int]) -> int | None:
        """1 on periodic fields."""
        return self.depthwise.shift_step(sizes)

    def to_plain(self) -> torch_nn.Module:
        """A graph of torch modules; the second map absorbs γ."""
        from torch.fx import Graph, GraphModule  # imported here because it is slow to import

        root = torch_nn.Module()
        second = self.contract.to_plain()
        if self.scale is not None:
            with torch.no_grad():
                scale = self.fields(self.scale)
                for p in second.parameters():
                    p.mul_(scale if p.ndim == 1 else scale[:, None])
        first = self.depthwise.to_plain(), self.norm.to_plain(), self.expand.to_plain()
        root.branch = torch_nn.Sequential(*first, torch_nn.GELU(), second)
        graph = Graph()
        x = graph.placeholder("x")
        graph.output(graph.call_function(torch.add, (x, graph.call_module("branch", (x,)))))
        return GraphModule(root, graph, class_name="PlainConvNeXtBlock")

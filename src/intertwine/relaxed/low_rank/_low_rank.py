"""Low-rank locally connected layers, after Elsayed, Ramachandran, Shlens & Kornblith (2020)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Literal, Self

import torch
from torch import Tensor, nn

from ..._checked import Floats, checked
from ...errors import InputError
from ...nn import register_layer
from ...spaces import FieldType
from .._kernel_shares import LocalKernels
from .._places import Padding, Pair
from .._relaxed_layer import RelaxedLayer, add_noise_
from ._combining import Normalize, PlaceTable, Sharing, apart_from_mean, logits_of, normalized
from ._local import LocallyConnected2d
from ._low_rank_banks import Each, LowRankBanks, Path, stacked_outputs
from ._spatial_bias import spatial_map


@register_layer
class LowRankLocalConv2d(LowRankBanks):
    """y[o, i, j] = ⟨Σ_k w_k(i, j) f_k[o], P(i, j)⟩ + b[o, i, j]: K filter banks, mixed differently at every position.

    P(i, j) is the window of the input at (i, j). The weights w come from logits a_k(i, j), either r_k(i) + c_k(j)
    (``factorized``) or free (``full``), by a softmax over k at each position (or by division by their norm, ``norm``,
    or unchanged, ``none``). The bias is b[o, i, j] = r(i) + c(j) + b[o], or a full map s(i, j) + b[o]. Rank 1 with
    softmax is a convolution with a spatial bias; rank Ho Wo with full weights and ``none`` can be any locally connected
    layer.

    Shapes: ``(batch, in_channels, H, W)`` to ``(batch, out_channels, Ho, Wo)``; ``weight`` is ``(K, out_channels,
    in_channels, kh, kw)``.

    Equivariance: commutes with translations by whole strides, away from the border, if and only if w and the spatial
    bias do not depend on position; :meth:`relaxation` measures how far they do. Structured initialization starts there.

    Args:
        in_type: scalars on the plane, or the number of channels.
        out_type: scalars on the plane, or the number of channels.
        kernel_size: height and width of the window; a list sets one per bank, which needs ``padding="same"``.
        rank: K, from 1 to the number of positions.
        input_size: height and width of the images; other sizes raise an error.
        stride: the step between windows.
        padding: the number of pixels added on each side, or ``"same"``.
        dilation: the spacing of the pixels of a window; a list sets one per bank.
        normalize: ``softmax``, ``norm`` or ``none``.
        sharing: how positions share combining weights: ``factorized``, ``full``, ``rows`` (depend on the row only) or
            ``columns``.
        bias_sharing: the same for the spatial bias; by default as ``sharing``.
        bias: whether to add a bias b[o] per channel; omit it before a batch norm.
        spatial_bias: whether to add a spatial bias; keep it before a batch norm, which cannot replace it.
        init: ``structured`` sets all combining weights equal, so the layer starts as one convolution; ``random`` draws
            them.
        path: ``conv`` sums outputs, ``build`` sums banks, ``auto`` chooses the one that should be faster
            (:class:`intertwine.nn.cost_rules`). Both agree up to rounding.

    >>> layer = LowRankLocalConv2d(3, 8, 3, rank=4, input_size=10)
    >>> layer(torch.zeros(2, 3, 10, 10)).shape
    torch.Size([2, 8, 8, 8])
    >>> {name: tuple(p.shape) for name, p in layer.named_parameters()}
    {'weight': (4, 8, 3, 3, 3), 'bias': (8,), 'spatial.rows': (1, 8), 'spatial.columns': (1, 8),
     'combining.rows': (4, 8), 'combining.columns': (4, 8)}
    >>> x = torch.randn(2, 3, 10, 10)
    >>> torch.allclose(layer.to_locally_connected()(x), layer(x), atol=1e-5)
    True
    """

    @checked
    def __init__(
        self,
        in_type: int | FieldType,
        out_type: int | FieldType,
        kernel_size: Each,
        *,
        rank: int,
        input_size: Pair,
        stride: Pair = 1,
        padding: Padding = 0,
        dilation: Each = 1,
        normalize: Normalize = "softmax",
        sharing: Sharing = "factorized",
        bias_sharing: Sharing | None = None,
        bias: bool = True,
        spatial_bias: bool = True,
        init: Literal["structured", "random"] = "structured",
        path: Path = "auto",
    ) -> None:
        caller = type(self).__name__
        super().__init__(
            in_type,
            out_type,
            kernel_size,
            rank=rank,
            input_size=input_size,
            stride=stride,
            padding=padding,
            dilation=dilation,
            normalize=normalize,
            bias_sharing=bias_sharing or sharing,
            bias=bias,
            spatial_bias=spatial_bias,
        )
        if self.mixed and path == "build":
            raise InputError(
                caller,
                expected="path='conv' or 'auto' for banks of different kernel sizes or dilations",
                got="'build', which adds up banks",
            )
        self.path: Path = "conv" if self.mixed else path
        self.combining = PlaceTable(rank, self.places.output_size, sharing)
        self._init = init
        self._reset_combining()

    def reset_parameters(self) -> None:
        """Draw new banks, and reset the combining weights."""
        self._reset_banks()
        self._reset_combining()

    def _reset_combining(self) -> None:
        if self._init == "random":
            self.combining.randomize_()
        else:  # for "norm" and "none" this gives a sum of K independent banks the variance of one bank
            self.combining.fill_(torch.full((self.rank,), self.rank**-0.5))

    @checked
    def forward(self, x: Floats) -> Tensor:
        """The layer, by the path that should be faster."""
        self.places.check(type(self).__name__, x, self.in_type.dim)
        w = self.combining_weights()
        path = self.cheaper_path(x.shape[0]) if self.path == "auto" else self.path
        y = self.combined_banks(x, w) if path == "build" else self.combined_outputs(x, w)
        return self.with_bias(y)

    def compute(self, x: Tensor) -> Tensor:
        """The map itself, by the outputs of all banks."""
        outputs = stacked_outputs(x, self.banks(), self.windows)
        return self.with_bias((outputs * self.combining_weights().unsqueeze(1)).sum(1))

    def combining_weights(self, x: Tensor | None = None) -> Tensor:
        """w ``(K, Ho, Wo)``; they do not depend on the input."""
        return normalized(self.combining(), self.normalize, 0)

    @torch.no_grad()
    def to_locally_connected(self) -> LocallyConnected2d:
        """The same map as a locally connected layer with one bank per position, for inference.

        It costs as much as one convolution, for any rank, and needs L / K times the memory for weights.
        """
        if self.mixed:
            raise InputError(
                "to_locally_connected",
                expected="banks of one kernel size and dilation",
                got=", ".join(f"{window.kernel_size} dilated {window.dilation}" for window in self.windows),
            )
        places, biased = self.places, self.spatial is not None or self.bias is not None
        window = self.window
        (kh, kw), (sh, sw), (dh, dw) = window.kernel_size, window.stride, window.dilation
        with torch.device("meta"):  # the weights are replaced below: do not draw or store them twice
            local = LocallyConnected2d(
                self.in_type.dim,
                self.out_type.dim,
                (kh, kw),
                input_size=places.input_size,
                stride=(sh, sw),
                dilation=(dh, dw),
                bias=biased,
            )
        local.window, local.places = window, places  # with their padding, which need not be symmetric
        banks = self.built_banks(self.combining_weights())
        local.weight = nn.Parameter(banks.unflatten(2, (kh, kw, self.in_type.dim)))
        if biased:
            bias = spatial_map(self.spatial, self.bias)
            local.bias = nn.Parameter(bias.expand(self.out_type.dim, *places.output_size).clone())
        return local.train(self.training)

    @classmethod
    def examples(cls) -> Iterator[RelaxedLayer]:
        """All normalizations and kinds of sharing; both paths; stride, padding, banks of different sizes."""
        yield cls(2, 3, 3, rank=2, input_size=7)
        yield cls(2, 3, 3, rank=3, input_size=7, normalize="norm", sharing="full", bias=False, path="build")
        yield cls(2, 3, (3, 2), rank=4, input_size=(9, 8), stride=2, normalize="none", sharing="rows", init="random")
        yield cls(1, 2, 3, rank=2, input_size=8, padding="same", sharing="columns", bias_sharing="full", init="random")
        yield cls(2, 2, [3, 1, 5], rank=3, input_size=9, padding="same", dilation=[2, 1, 1], spatial_bias=False)
        yield cls(2, 3, 3, rank=1, input_size=7)

    @torch.no_grad()
    def to_equivariant_(self) -> Self:
        """Replace combining weights and spatial bias by their means over positions: a convolution."""
        mean = self.combining_weights().mean((1, 2))
        self.combining.fill_(logits_of(mean, self.normalize))
        if self.spatial is not None:
            self.spatial.fill_(self.spatial().mean((1, 2)))
        return self

    def squared_shares(self) -> Mapping[str, Tensor]:
        """``translation``, from the products of the banks."""
        return self.shares_of(self.combining_weights())

    def local_kernels(self, sizes: Sequence[int]) -> LocalKernels:
        """The combined bank of every position."""
        self.output_sizes(sizes)
        return self.kernels_of(self.combining_weights())

    @torch.no_grad()
    def dial(self) -> Mapping[str, float]:
        """``combining weights``: √ of the mean over positions of Σ_k (w_k − mean w_k)²; ``spatial bias``: likewise."""
        settings = {"combining weights": float(self._spread().sqrt())}
        if self.spatial is not None:
            settings["spatial bias"] = float(apart_from_mean(self.spatial()).square().mean().sqrt())
        return settings

    def penalty(self) -> Tensor:
        """The mean over positions of Σ_k (w_k − mean w_k)², plus the variance of the spatial bias over positions."""
        total = self._spread()
        return total if self.spatial is None else total + apart_from_mean(self.spatial()).square().mean()

    def perturb_(self, scale: float, *, generator: torch.Generator | None = None) -> Self:
        """Add noise to the logits of the combining weights and to the spatial bias."""
        tables = [self.combining] if self.spatial is None else [self.combining, self.spatial]
        for table in tables:
            for values in table.parameters():
                add_noise_(values, scale, generator)
        return self

    def _spread(self) -> Tensor:
        return apart_from_mean(self.combining_weights()).square().sum(0).mean()


@checked
def to_locally_connected(model: nn.Module) -> nn.Module:
    """A copy of a model for inference, with every convertible :class:`LowRankLocalConv2d` as a locally connected layer.

    >>> net = nn.Sequential(LowRankLocalConv2d(1, 4, 3, rank=2, input_size=8), nn.ReLU())
    >>> type(to_locally_connected(net)[0]).__name__
    'LocallyConnected2d'
    """
    if isinstance(model, LowRankLocalConv2d):
        return deepcopy(model) if model.mixed else model.to_locally_connected()
    twin = deepcopy(model)
    for name, layer in list(twin.named_modules()):
        if isinstance(layer, LowRankLocalConv2d) and not layer.mixed:
            twin.set_submodule(name, layer.to_locally_connected())
    return twin

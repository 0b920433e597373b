"""Rules that choose the faster of two ways to compute the same thing, and the switch that turns them all off.

Several layers can compute their output in more than one way: the result is the same up to rounding, and so are the
weights, but which way is faster depends on the sizes. Each function here answers one such question by comparing a size
with a threshold. A rule is a fixed function of the sizes, not a measurement at run time, so results repeat.

The thresholds were fitted by hand on one machine: one core of a shared x86 CPU with AVX2, float32, torch 2.13. On other
hardware they may choose the slower way; they never change what is computed. To refit one, run its benchmark with both
ways (each function names the benchmark) and set the threshold to where the two take equally long. Near a threshold the
two ways usually differ by a tenth or less, so its exact value matters little.

With the rules off (:func:`cost_rules`), every layer takes the plain way: the one that follows its definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from ._checked import checked

_enabled = True


class cost_rules:  # noqa: N801 - used like torch.set_grad_enabled
    """Turn the rules that choose between equivalent ways to compute a layer off or on.

    Takes effect at once; as a context manager, until the end of the block. Some choices are made when a layer is built
    and some on every call: to use the plain way throughout, build and call the layer with the rules off. Outputs and
    gradients agree up to rounding, and ``state_dict`` is the same either way.

    Args:
        enabled: whether layers choose the way that should be faster.

    >>> from intertwine import nn, spaces
    >>> plane = spaces.Grid2d("D4")
    >>> wide = plane.field("32*regular")
    >>> nn.Linear(wide, wide).point is None  # wide layers multiply in the irreducible basis
    False
    >>> with nn.cost_rules(enabled=False):
    ...     nn.Linear(wide, wide).point is None
    True
    """

    @checked
    def __init__(self, *, enabled: bool) -> None:
        global _enabled
        self._before, _enabled = _enabled, enabled

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _enabled
        _enabled = self._before


def cost_rules_enabled() -> bool:
    """Whether layers may choose the way that should be faster.

    >>> cost_rules_enabled()
    True
    """
    return _enabled


# -- filters from weights: benchmarks/conv2d.py and conv3d.py ------------------------------------------------------

FLAT_TABLE = 1 << 20
PRODUCT_FIRST = 1 << 17
DIAGONAL_COLUMNS = 40


def flat_table_pays(entries: int) -> bool:
    """Whether to spread weights over a filter with one index per entry.

    One gather is fastest while its table, 4 bytes per entry, is small. The plain way needs one index per entry of a
    single pair of copies.
    """
    return _enabled and entries <= FLAT_TABLE


def product_first_pays(entries: int) -> bool:
    """Whether a filter between regular fields multiplies its weights by the basis before it spreads them.

    One large product beats many small ones while the filter stays small. The plain way spreads first.
    """
    return _enabled and entries <= PRODUCT_FIRST


def columns_at_once(columns: int, taps: int) -> int:
    """How many columns of a regular filter share one product, as blocks on the diagonal of a larger basis.

    A product with few columns is slow, but the larger basis is mostly zeros: it pays up to ``DIAGONAL_COLUMNS``. The
    plain way is one column per product.
    """
    if not _enabled:
        return 1
    return next(n for n in (4, 3, 2, 1) if columns % n == 0 and (n == 1 or n * taps <= DIAGONAL_COLUMNS))


# -- filters over the whole map: benchmarks/whole_map.py -----------------------------------------------------------

WHOLE_MAP = 1 << 8


def whole_map_pays(taps: int) -> bool:
    """Whether a filter that covers the whole map is applied by ``linear``, one product for the whole batch.

    Torch's convolution is slow where there is only one position. Beyond ``WHOLE_MAP`` samples, copying maps in the
    channels-last layout takes longer than that saves. The plain way is the convolution.
    """
    return _enabled and taps <= WHOLE_MAP


# -- pointwise maps: benchmarks/pointwise.py, --force measures without the rule ------------------------------------

TURN, MOVE, START = 56, 44, 10_000_000
"""What the irreducible basis costs, in multiplications of a dense product that take the same time.

Laying out a channel as rows costs about MOVE per sample, or TURN if its basis changes as well. START is the cost of the
many small calls, whatever the sizes; it only matters for few samples. Rounded fits to training steps and evaluations
of 64 to 512 channels and 64 to 3136 samples.
"""


def layout_cost(channels: int, *, turned: bool) -> int:
    """What it costs per sample to lay out channels as rows, and to change their basis if ``turned``."""
    return channels * (TURN if turned else MOVE)


def irreducible_basis_pays(saved: int, samples: int | None) -> bool:
    """Whether to multiply in the irreducible basis, given the multiplications saved per sample.

    Without a number of samples: whether it pays for any number. The plain way is a product with the dense matrix.
    """
    return _enabled and (saved > 0 if samples is None else saved * samples > START)


FEW_SAMPLES = 16


def batched_product_pays(samples: int) -> bool:
    """Whether a constant matrix meets the channels in one small product per image: ``benchmarks/quadratic.py``.

    Products with few columns are slow. The plain way is ``einsum``.
    """
    return _enabled and samples >= FEW_SAMPLES


def linear_pays(samples: int) -> bool:
    """Whether values without space are multiplied by ``linear``, one product for the whole batch."""
    return _enabled and samples == 1


# -- tensor products: benchmarks/quadratic.py ----------------------------------------------------------------------

SMALLEST_FILTER = 50_000
PATH_GAIN = 3.0


def paths_pay(entries: int, multiplications: int) -> bool:
    """Whether a tensor product is computed path by path rather than with one filter of this many entries.

    The filter is faster when it is small, or when the paths save less than ``PATH_GAIN`` times the multiplications.
    Fitted to training steps of SO(3) fields of degree 0 and 1 with 8 to 32 copies. The plain way is the filter.
    """
    return _enabled and entries >= SMALLEST_FILTER and entries > PATH_GAIN * multiplications


# -- low-rank layers: benchmarks/low_rank.py -----------------------------------------------------------------------

BUILD_FROM_RANK = 4
BUILD_FROM_RANK_NARROW = 2
NARROW = 32
BUILD_FROM_BATCH = 32
BUILD_AT_MOST = 10_000_000


def building_pays(rank: int, *, positions: int, fan: int, width: int, batch: int) -> bool:
    """Whether a low-rank layer builds the bank of every position rather than convolving with all K banks.

    Building, and applying each bank at its position, takes K L D Co + B L D Co multiplications. Convolving with all K
    banks and summing the outputs takes K B L D Co, but in one convolution, which runs several times faster per
    multiplication. Building pays from rank 4 on, or from rank 2 for small windows (the first layer of a network), with
    large batches, while all banks together, L D Co values, fit; beyond that it waits for memory. The plain way
    convolves.

    Args:
        rank: K.
        positions: L, the number of output positions.
        fan: D, the number of values in a window: channels times height times width.
        width: Co, the number of output channels.
        batch: B.

    >>> [building_pays(k, positions=25, fan=288, width=32, batch=64) for k in (2, 4)]
    [False, True]
    """
    min_rank = BUILD_FROM_RANK_NARROW if fan <= NARROW else BUILD_FROM_RANK
    fits = positions * fan * width <= BUILD_AT_MOST
    return _enabled and rank >= min_rank and batch >= BUILD_FROM_BATCH and fits


# -- maxima over windows: benchmarks/max_pool.py -------------------------------------------------------------------


def channels_last_maximum_pays(kernel_size: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether to change the layout for a maximum over windows. The plain way keeps it.

    Torch vectorizes its loop over windows in the channels-last layout only. The two copies pay where windows overlap,
    so that every sample is compared several times.

    >>> channels_last_maximum_pays((3, 3), (1, 1)), channels_last_maximum_pays((2, 2), (2, 2))
    (True, False)
    """
    return _enabled and any(size > step for size, step in zip(kernel_size, stride, strict=True))


# -- the sphere: benchmarks/sphere.py ------------------------------------------------------------------------------

FFT_POINTS = 100


def fft_pays(points: int) -> bool:
    """Whether sums over the points of a ring use a fast Fourier transform. The plain way is a matrix product."""
    return _enabled and points >= FFT_POINTS


# -- point clouds: benchmarks/clouds.py ----------------------------------------------------------------------------

BLOCK = 1 << 21
SMALLEST_BLOCK = 2048
LOOPS_BELOW = 400


def edges_at_once(edges: int, width: int) -> int:
    """How many edges of a cloud share one block of messages of ``width`` numbers each, in passes without gradients.

    Blocks of 8 MB stay in the cache. With 64 copies, 50,000 edges and degrees up to 1, 2 and 3, a pass takes 0.6, 0.6
    and 0.7 of the time of one block for all edges, which is the plain way (one core of a CPU with AVX-512).
    """
    return max(SMALLEST_BLOCK, BLOCK // width) if _enabled else max(edges, 1)


def columns_pay(rows: int, copies: int) -> bool:
    """Whether a small matrix per edge meets its fields as a sum of columns. The plain way is a batched product.

    On a CPU, torch multiplies batches of small matrices by plain loops. With 32 copies, sums of columns take about
    three quarters of the time, forward and backward; with 8, about the same.
    """
    return _enabled and rows <= 3 and rows * rows * copies < LOOPS_BELOW

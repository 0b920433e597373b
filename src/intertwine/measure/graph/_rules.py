"""Rules for operations: how the meaning of axes carries over from inputs to outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from torch import Tensor

from ._axes import Axes, Axis, Label, constant, extent, fixed, fresh, kind_of, plane


@dataclass
class Labeled:
    """A tensor with the meaning of its axes."""

    value: Tensor
    label: Label
    name: str | None = None
    """The name, if it is a parameter or buffer."""
    varies: bool = False
    """Whether it depends on the image."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return tuple(self.value.shape)


@dataclass
class Call:
    """One operation: its arguments by position, its result, and where it is in the network."""

    axes: Axes
    args: list[Any]
    out: Any
    where: str

    def tensor(self, k: int) -> Labeled | None:
        """Argument k if it is a tensor."""
        argument = self.args[k] if k < len(self.args) else None
        return argument if isinstance(argument, Labeled) else None

    def need(self, k: int) -> Labeled:
        """Argument k, which must be a tensor by the schema of the operation."""
        tensor = self.tensor(k)
        if tensor is None:
            raise TypeError(f"{self.where}: argument {k} is not a tensor")
        return tensor

    def get(self, k: int, default: Any = None) -> Any:
        """Argument k, or the default."""
        return self.args[k] if k < len(self.args) and self.args[k] is not None else default

    def unify(self, a: Axis, b: Axis) -> Axis:
        """Make two axes agree."""
        return self.axes.unify(a, b, self.where)


Rule: TypeAlias = Callable[[Call], Any]
RULES: dict[str, Rule] = {}

ELEMENTWISE = """
relu relu6 gelu silu sigmoid tanh hardswish hardsigmoid hardtanh leaky_relu elu selu celu softplus mish softsign exp
log log1p expm1 sqrt rsqrt abs neg pow square reciprocal clamp clamp_min clamp_max dropout alias clone contiguous to
_to_copy detach type_as erf sign sin cos threshold hardshrink softshrink logsigmoid log_sigmoid feature_dropout
alpha_dropout feature_alpha_dropout lift_fresh_copy lift_fresh softmax log_softmax _softmax
zeros_like ones_like full_like empty_like isnan nan_to_num round floor ceil logit add sub rsub mul div maximum
minimum where addcmul addcdiv lerp fmod remainder atan2 eq ne lt le gt ge logical_and logical_or logical_not
bitwise_and xlogy masked_fill true_divide floor_divide
"""
POOLS = """
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d max_pool2d_with_indices _adaptive_avg_pool2d
upsample_nearest2d upsample_bilinear2d upsample_bicubic2d _upsample_bilinear2d_aa
"""
REDUCTIONS = """
mean sum amax amin max min var std norm linalg_vector_norm logsumexp prod all any var_mean std_mean
"""


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule for these operations."""

    def register(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        return function

    return register


def unknown(call: Call, why: str) -> Any:
    """Assume nothing: pin all channels of the inputs, and fix the outputs in place."""
    for arg in _flat(call.args):
        call.axes.pin_all(arg.label, f"{call.where}: {why}")
    return _map_out(call.out, lambda t: tuple(fixed(n) for n in t.shape))


def _flat(args: Any) -> list[Labeled]:
    if isinstance(args, Labeled):
        return [args]
    if isinstance(args, list | tuple):
        return [x for a in args for x in _flat(a)]
    return []


def _map_out(out: Any, make: Callable[[Tensor], Label]) -> Any:
    if isinstance(out, Tensor):
        return make(out)
    return [_map_out(o, make) for o in out] if isinstance(out, list | tuple) else None


def resized(label: Label, shape: Sequence[int]) -> Label:
    """The same axes if sizes agree; otherwise rows and columns with the new size."""
    axes = []
    for axis, n in zip(label, shape, strict=True):
        same = extent(axis) == n
        axes.append(axis if same else plane(kind_of(axis), n) if kind_of(axis) in "hw" else fixed(n))
    return tuple(axes)


def broadcast(call: Call, tensors: Sequence[Labeled]) -> Label:
    """Elementwise operations: axes are aligned from the right, and axes of size 1 follow the others."""
    shape = tuple(call.out.shape)
    label: list[Axis] = [fixed(1)] * len(shape)
    for t in tensors:
        for k in range(1, len(t.shape) + 1):
            if t.shape[-k] == shape[-k] and shape[-k] > 1:
                label[-k] = t.label[-k] if extent(label[-k]) == 1 else call.unify(label[-k], t.label[-k])
            elif shape[-k] == 1 and kind_of(t.label[-k]) != "f":  # rows and columns of a single pixel
                label[-k] = t.label[-k]
    return tuple(label)


@rule(*ELEMENTWISE.split())
def _elementwise(call: Call) -> Label:
    return broadcast(call, _flat(call.args))


@rule("prelu")
def _prelu(call: Call) -> Label:
    x, weight = call.need(0), call.need(1)
    label = list(x.label)
    if weight.shape[0] > 1:
        label[1] = call.unify(label[1], weight.label[0])
    return tuple(label)


def _filter(call: Call, *, transposed: bool, groups: int) -> Label:
    x, weight, bias = call.need(0), call.need(1), call.tensor(2)
    batched = len(x.shape) == len(weight.shape)
    channel_axis = 1 if batched else 0
    entering = x.label[channel_axis]
    for axis, image_axis in zip(weight.label[2:], x.label[channel_axis + 1 :], strict=True):
        if extent(call.axes.resolve(axis)) == 1:
            continue
        kind = kind_of(call.axes.resolve(image_axis))
        if kind in "hw":
            call.unify(axis, plane(kind, extent(axis)))
        else:
            call.axes.release(axis)
            call.axes.lost[f"{call.where}: filters along an axis that is not known to be rows or columns"] = None
    outer, inner = (weight.label[1], weight.label[0]) if transposed else (weight.label[0], weight.label[1])
    channels = extent(call.axes.resolve(entering))
    if groups == 1:
        call.unify(inner, entering)
        leaving = outer
    elif groups == channels:  # depthwise: output k*m+j belongs to input k
        multiplier = extent(outer) if transposed else extent(outer) // channels
        leaving = call.axes.merge([entering, fixed(multiplier)], call.where)
        call.unify(inner if transposed else outer, entering if transposed else leaving)
        if transposed:
            call.axes.pin(outer, call.where)
    else:
        leaving = _grouped(call, entering, outer, inner, groups, transposed)
    if bias is not None:
        leaving = call.unify(leaving, bias.label[0])
    label = list(resized(x.label, (*x.shape[: channel_axis + 1], *call.out.shape[channel_axis + 1 :])))
    label[channel_axis] = leaving
    return tuple(label)


def _grouped(call: Call, entering: Axis, outer: Axis, inner: Axis, groups: int, transposed: bool) -> Axis:
    """Channels may move inside their group; the groups keep their order.

    The second axis of the weight holds the channels of one group, and each block of rows belongs to another group. Its
    entries therefore move differently in each block: see ``Axes.grouped``.
    """
    weight, why = call.need(1), f"{call.where}: a grouped convolution"
    blocks = (entering, fresh(extent(outer) * groups)) if transposed else (entering, outer)
    pieces = [
        tuple(s for piece in call.axes.cut(a, [extent(a) // groups] * groups, why) for s in piece) for a in blocks
    ]
    if transposed:
        call.unify(inner, pieces[0])
    second = call.axes.resolve(outer if transposed else inner)
    call.axes.release(second)
    if weight.name is None:
        call.axes.pin_all(pieces, f"{why} with computed filters")
    else:
        call.axes.grouped[weight.name] = (pieces[1] if transposed else pieces[0], groups)
    return pieces[1]


@rule("conv1d", "conv2d", "conv3d")
def _conv(call: Call) -> Label:
    return _filter(call, transposed=False, groups=call.get(6, 1))


@rule("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _conv_transpose(call: Call) -> Label:
    return _filter(call, transposed=True, groups=call.get(6, 1))


@rule("convolution", "_convolution")
def _convolution(call: Call) -> Label:
    return _filter(call, transposed=bool(call.get(6, False)), groups=call.get(8, 1))


@rule("linear")
def _linear(call: Call) -> Label:
    x, weight, bias = call.need(0), call.need(1), call.tensor(2)
    call.unify(weight.label[1], x.label[-1])
    leaving = weight.label[0]
    if bias is not None:
        leaving = call.unify(leaving, bias.label[0])
    return (*x.label[:-1], leaving)


@rule("matmul", "mm", "bmm")
def _matmul(call: Call) -> Label:
    return _product(call, call.need(0), call.need(1))


@rule("baddbmm")
def _baddbmm(call: Call) -> Label:
    label = _product(call, call.need(1), call.need(2))
    return broadcast(call, [Labeled(call.out, label), call.need(0)])


def _product(call: Call, a: Labeled, b: Labeled) -> Any:
    if len(a.shape) < 2 or len(b.shape) < 2:
        return unknown(call, "a product with a vector")
    call.unify(a.label[-1], b.label[-2])
    shape = call.out.shape[:-2]
    lead: list[Axis] = [fixed(n) for n in shape]
    for t in (a, b):
        for k in range(1, len(t.shape) - 1):
            if t.shape[-2 - k] == shape[-k] and shape[-k] > 1:
                batch_axis = t.label[-2 - k]
                lead[-k] = batch_axis if kind_of(lead[-k]) == "f" and t is a else call.unify(lead[-k], batch_axis)
    return (*lead, a.label[-2], b.label[-1])


@rule("addmm")
def _addmm(call: Call) -> Label:
    bias, a, b = call.need(0), call.need(1), call.need(2)
    call.unify(a.label[-1], b.label[-2])
    leaving = call.unify(b.label[-1], bias.label[-1]) if bias.shape[-1] > 1 else b.label[-1]
    return (a.label[0], leaving)


@rule("einsum")
def _einsum(call: Call) -> Any:
    equation = "".join(call.args[0].split())
    tensors = [t for t in call.args[1] if isinstance(t, Labeled)]
    terms, arrow, result = equation.partition("->")
    names = terms.split(",")
    if not arrow or "." in equation or any(len(n) != len(t.shape) for n, t in zip(names, tensors, strict=True)):
        return unknown(call, f"the product {equation}")
    axes: dict[str, Axis] = {}
    for letters, t in zip(names, tensors, strict=True):
        for letter, axis, n in zip(letters, t.label, t.shape, strict=True):
            known = axes.get(letter)
            axes[letter] = call.unify(known, axis) if known is not None and extent(known) == n > 1 else known or axis
    return tuple(axes[letter] for letter in result)


@rule("scaled_dot_product_attention")
def _attention(call: Call) -> Label:
    q, k, v, mask = call.need(0), call.need(1), call.need(2), call.tensor(3)
    call.unify(q.label[-1], k.label[-1])
    call.unify(k.label[-2], v.label[-2])
    for q_axis, k_axis, v_axis in zip(q.label[:-2], k.label[:-2], v.label[:-2], strict=True):
        for other in (k_axis, v_axis):
            if extent(q_axis) == extent(other):
                call.unify(q_axis, other)
    if mask is not None:
        maps = (*q.label[:-2], q.label[-2], k.label[-2])
        for axis, other in zip(reversed(mask.label), reversed(maps), strict=False):
            if extent(axis) == extent(other) > 1:
                call.unify(axis, other)
    return (*q.label[:-1], v.label[-1])


@rule("batch_norm", "instance_norm", "cudnn_batch_norm", "_native_batch_norm_legit_no_training")
def _batch_norm(call: Call) -> Any:
    x = call.need(0)
    channels = x.label[1]
    for k in range(1, 5):
        t = call.tensor(k)
        if t is not None:
            channels = call.unify(channels, t.label[0])
    label = (x.label[0], channels, *x.label[2:])
    if isinstance(call.out, Tensor):
        return label
    return [label, *(tuple(fixed(n) for n in o.shape) for o in call.out[1:])]


@rule("layer_norm", "rms_norm")
def _layer_norm(call: Call) -> Label:
    x = call.need(0)
    label = list(x.label)
    for k in (2, 3):
        t = call.tensor(k)
        if t is not None:
            for j in range(1, len(t.shape) + 1):
                label[-j] = call.unify(label[-j], t.label[-j])
    return tuple(label)


@rule("group_norm")
def _group_norm(call: Call) -> Label:
    x, groups = call.need(0), call.args[1]
    channels = x.label[1]
    for k in (2, 3):
        t = call.tensor(k)
        if t is not None:
            channels = call.unify(channels, t.label[0])
    size = x.shape[1] // groups
    if groups > 1 and size > 1:  # channels stay inside their group; a group of one channel is free to move
        channels = tuple(s for piece in call.axes.cut(channels, [size] * groups, call.where) for s in piece)
    return (x.label[0], channels, *x.label[2:])


@rule(*POOLS.split())
def _pool(call: Call) -> Any:
    x = call.need(0)
    return _map_out(call.out, lambda t: resized(x.label, t.shape))


@rule(*REDUCTIONS.split())
def _reduce(call: Call) -> Any:
    x = call.need(0)
    if call.tensor(1) is not None:  # max(x, y)
        return broadcast(call, _flat(call.args))

    def label(out: Tensor) -> Label:
        if out.dim() == 0:
            return ()
        if out.dim() == len(x.shape):
            return tuple(a if out.shape[k] == x.shape[k] else fixed(1) for k, a in enumerate(x.label))
        dims = next((a for a in call.args[1:] if isinstance(a, list | tuple)), None)
        if dims is None:
            dims = [next(a for a in call.args[1:] if isinstance(a, int) and not isinstance(a, bool))]
        gone = {d % len(x.shape) for d in dims}
        return tuple(a for k, a in enumerate(x.label) if k not in gone)

    return _map_out(call.out, label)


@rule("argmax", "argmin")
def _arg(call: Call) -> Any:
    return unknown(call, "the index of a channel is used as a value")


@rule("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "empty", "scalar_tensor")
def _constant(call: Call) -> Label:
    return tuple(constant(n) for n in call.out.shape)

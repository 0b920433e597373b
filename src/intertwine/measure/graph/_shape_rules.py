"""Rules for operations that only rearrange: reshape, permute, concatenate, split, pad."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ._axes import Axis, Label, constant, extent, fixed, kind_of, plane
from ._rules import Call, Labeled, broadcast, rule, unknown


@rule("view", "reshape", "_unsafe_view", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel")
def _reshape(call: Call) -> Label:
    x = call.need(0)
    before, after, label = list(x.shape), list(call.out.shape), list(x.label)
    reshaped: list[Axis] = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and before[i] == 1 and not (j < len(after) and after[j] == 1):
            i += 1
            continue
        if j < len(after) and after[j] == 1:
            i += i < len(before) and before[i] == 1
            j += 1
            reshaped.append(fixed(1))
            continue
        # The shortest runs of axes with equal products on both sides belong together.
        start, first = i, j
        p, q = before[i], after[j]
        i, j = i + 1, j + 1
        while p != q:
            if p < q:
                p, i = p * before[i], i + 1
            else:
                q, j = q * after[j], j + 1
        joined = call.axes.merge(label[start:i], f"{call.where}: axes that cannot be flattened together")
        reshaped += call.axes.unflatten(joined, after[first:j], f"{call.where}: a reshape divides the channels")
    return tuple(reshaped)


@rule("permute")
def _permute(call: Call) -> Label:
    x = call.need(0)
    return tuple(x.label[d] for d in call.args[1])


@rule("transpose", "swapaxes", "swapdims")
def _transpose(call: Call) -> Label:
    x = call.need(0)
    label = list(x.label)
    a, b = call.args[1], call.args[2]
    label[a], label[b] = label[b], label[a]
    return tuple(label)


@rule("t", "numpy_T", "mT", "adjoint")
def _t(call: Call) -> Label:
    x = call.need(0)
    return (*x.label[:-2], *reversed(x.label[-2:])) if len(x.shape) > 1 else x.label


@rule("movedim")
def _movedim(call: Call) -> Label:
    x = call.need(0)
    source = [d % len(x.shape) for d in _list(call.args[1])]
    target = [d % len(x.shape) for d in _list(call.args[2])]
    order = [-1] * len(x.shape)
    for s, t in zip(source, target, strict=True):
        order[t] = s
    rest = iter(d for d in range(len(x.shape)) if d not in source)
    return tuple(x.label[o if o >= 0 else next(rest)] for o in order)


def _list(value: Any) -> list[int]:
    return list(value) if isinstance(value, list | tuple) else [value]


@rule("expand", "expand_as", "broadcast_to")
def _expand(call: Call) -> Label:
    x = call.need(0)
    label = broadcast(call, [x])
    # An axis that was repeated holds equal entries.
    offset = len(call.out.shape) - len(x.shape)
    return tuple(
        a if k >= offset and x.shape[k - offset] == n else constant(n)
        for k, (a, n) in enumerate(zip(label, call.out.shape, strict=True))
    )


@rule("repeat")
def _repeat(call: Call) -> Label:
    x, times = call.need(0), list(call.args[1])
    label = [fixed(1)] * (len(times) - len(x.shape)) + list(x.label)
    return tuple(
        constant(n)
        if extent(a) == 1
        else tuple(s for _ in range(t) for s in a)
        if kind_of(a) == "c" or t == 1
        else fixed(n)
        for a, t, n in zip(label, times, call.out.shape, strict=True)
    )


@rule("cat", "concat", "concatenate")
def _cat(call: Call) -> Label:
    parts = [t for t in call.args[0] if isinstance(t, Labeled)]
    dim = call.get(1, 0) % len(parts[0].shape)
    label = list(parts[0].label)
    for t in parts[1:]:
        for k in range(len(label)):
            if k != dim:
                label[k] = call.unify(label[k], t.label[k])
    label[dim] = tuple(s for t in parts for s in call.axes.resolve(t.label[dim]))
    return tuple(label)


@rule("stack")
def _stack(call: Call) -> Label:
    parts = [t for t in call.args[0] if isinstance(t, Labeled)]
    dim = call.get(1, 0) % call.out.dim()
    label = list(parts[0].label)
    for t in parts[1:]:
        label = [call.unify(a, b) for a, b in zip(label, t.label, strict=True)]
    return (*label[:dim], fixed(len(parts)), *label[dim:])


@rule("split", "split_with_sizes", "chunk", "unsafe_split", "unsafe_chunk", "tensor_split", "unbind")
def _split(call: Call) -> list[Label]:
    x = call.need(0)
    pieces = call.out
    if pieces[0].dim() < len(x.shape):  # unbind
        dim = call.get(1, 0) % len(x.shape)
        call.axes.pin(x.label[dim], f"{call.where}: channels are split one by one")
        return [(*x.label[:dim], *x.label[dim + 1 :]) for _ in pieces]
    dim = call.get(2, 0) % len(x.shape)
    cut = call.axes.cut(x.label[dim], [p.shape[dim] for p in pieces], f"{call.where}: channels are split")
    return [(*x.label[:dim], c, *x.label[dim + 1 :]) for c in cut]


@rule("slice", "narrow")
def _slice(call: Call) -> Label:
    x = call.need(0)
    dim = call.get(1, 0) % len(x.shape)
    n, out = x.shape[dim], call.out.shape[dim]
    start, step = call.get(2, 0), call.get(4, 1)
    start = max(start + n, 0) if start < 0 else min(start, n)
    axis = call.axes.resolve(x.label[dim])
    if out == n:
        return x.label
    if kind_of(axis) in "hw":
        axis = plane(kind_of(axis), out)
    elif step != 1:
        call.axes.pin(axis, f"{call.where}: every {step}th channel is taken")
        axis = fixed(out)
    else:
        counts = [c for c in (start, out, n - start - out) if c]
        axis = call.axes.cut(axis, counts, f"{call.where}: channels are split")[1 if start else 0]
    return (*x.label[:dim], axis, *x.label[dim + 1 :])


@rule("select")
def _select(call: Call) -> Label:
    x = call.need(0)
    dim, n = call.args[1] % len(x.shape), x.shape[call.args[1]]
    index = call.args[2] % n
    counts = [c for c in (index, 1, n - index - 1) if c]
    axis = call.axes.resolve(x.label[dim])
    if kind_of(axis) == "c":
        call.axes.cut(axis, counts, f"{call.where}: one channel is taken")
    return (*x.label[:dim], *x.label[dim + 1 :])


@rule("pad", "constant_pad_nd")
def _pad(call: Call) -> Any:
    x, widths = call.need(0), list(call.args[1])
    mode = next((a for a in call.args[2:] if isinstance(a, str)), "constant")
    label = list(x.label)
    for k in range(len(widths) // 2):
        low, high = widths[2 * k], widths[2 * k + 1]
        axis = call.axes.resolve(label[-1 - k])
        if not (low or high):
            continue
        if kind_of(axis) in "hw":
            label[-1 - k] = plane(kind_of(axis), call.out.shape[-1 - k])
        elif mode != "constant" or low < 0 or high < 0:
            return unknown(call, f"channels are padded with mode {mode}")
        else:
            ends = [constant(n) if n else () for n in (low, high)]
            label[-1 - k] = (*ends[0], *axis, *ends[1])
    return tuple(label)


@rule("getitem")
def _getitem(call: Call) -> Any:
    raise TypeError("the tracer handles items of a list")


def is_list_of_tensors(value: Any) -> bool:
    """Whether an operation returned several tensors."""
    return isinstance(value, list | tuple) and all(isinstance(v, Tensor) for v in value)

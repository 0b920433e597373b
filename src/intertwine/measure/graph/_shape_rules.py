"""Rules for operations that only rearrange: reshape, permute, concatenate, split, pad, shift, look up."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from math import prod
from typing import Any

import torch
from torch import Tensor

from ._axes import (
    Axis,
    Constant,
    Factor,
    Label,
    Lookup,
    Segment,
    constant,
    extent,
    fixed,
    fresh,
    kind_of,
    plane,
    with_own_constants,
)
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
    phases = _phase_factors(call, parts, dim)
    if phases:
        for t in parts[1:]:
            label[dim] = call.unify(label[dim], t.label[dim])
        label[dim] = call.axes.merge([(phases,), label[dim]], call.where)
    else:
        label[dim] = tuple(s for t in parts for s in with_own_constants(call.axes.resolve(t.label[dim])))
    return tuple(label)


def _phase_factors(call: Call, parts: list[Labeled], dim: int) -> Segment:
    """The rows and columns inside a cell, if the parts are all those that slices with a step take from cells."""
    phases = [call.axes.phases.get(id(t.value), {}) for t in parts]
    axes = sorted(phases[0])
    steps = [phases[0][k][0] for k in axes]
    if not axes or dim in axes or len(parts) != prod(steps):
        return ()
    if any({k: n for k, (n, _) in p.items()} != dict(zip(axes, steps, strict=True)) for p in phases):
        return ()
    for order in permutations(axes):
        sizes = [phases[0][k][0] for k in order]
        grid = list(product(*(range(n) for n in sizes)))
        if [tuple(p[k][1] for k in order) for p in phases] == grid:
            kinds = [kind_of(call.axes.resolve(parts[0].label[k])) for k in order]
            return tuple(Factor(kind, n) for kind, n in zip(kinds, sizes, strict=True))
    return ()


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
        return [_entry(call, x, dim, k, f"{call.where}: channels are split one by one") for k in range(len(pieces))]
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
        before = call.axes.phases.get(id(x.value), {})
        if step > 1 and n == out * step and dim not in before:
            call.axes.phases[id(call.out)] = {**before, dim: (step, start)}
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
    dim = call.args[1] % len(x.shape)
    return _entry(call, x, dim, call.args[2] % x.shape[dim], f"{call.where}: one channel is taken")


def _entry(call: Call, x: Labeled, dim: int, k: int, why: str) -> Label:
    """The label of entry k along an axis: a stream of its own, or one channel, which then stays in place."""
    call.axes.separate(x.label[dim])
    axis = call.axes.resolve(x.label[dim])
    if len(axis) == 1 and axis[0][0].kind == "s":
        return call.axes.member(x.label, dim, k)
    if kind_of(axis) == "c":
        n = x.shape[dim]
        call.axes.cut(axis, [c for c in (k, 1, n - k - 1) if c], why)
    return (*x.label[:dim], *x.label[dim + 1 :])


@rule("roll")
def _roll(call: Call) -> Any:
    x = call.need(0)
    if not call.get(2):
        return unknown(call, "a cyclic shift of all entries")
    label = list(x.label)
    for shift, dim in zip(_list(call.args[1]), _list(call.args[2]), strict=True):
        axis = call.axes.resolve(label[dim])
        if kind_of(axis) in "hw":
            f = axis[0][0]
            # The mirror p → n − 1 − o − p becomes p → n − 1 − (o − 2·shift) − p.
            label[dim] = ((replace(f, offset=(f.offset - 2 * shift) % f.size),),)
        elif shift % extent(axis):
            call.axes.pin(axis, f"{call.where}: a cyclic shift of channels")
            label[dim] = fixed(extent(axis))
    return tuple(label)


@rule("index")
def _index(call: Call) -> Any:
    x, indices = call.need(0), call.args[1]
    places = [k for k, i in enumerate(indices) if i is not None]
    if len(places) != 1 or not isinstance(indices[places[0]], Labeled):
        return unknown(call, "several indices")
    return _lookup(call, x, places[0], indices[places[0]])


@rule("index_select")
def _index_select(call: Call) -> Any:
    return _lookup(call, call.need(0), call.args[1] % len(call.need(0).shape), call.need(2))


@rule("embedding")
def _embedding(call: Call) -> Any:
    return _lookup(call, call.need(0), 0, call.need(1))


def _lookup(call: Call, x: Labeled, dim: int, index: Labeled) -> Any:
    """Entries of a table, read by an index that does not depend on the image."""
    if index.value.dtype == torch.bool or index.varies:
        return unknown(call, "entries are read by an index that depends on the image")
    for axis in index.label:
        call.axes.release(axis)
    axis = call.axes.resolve(x.label[dim])
    if len(axis) != 1 or len(axis[0]) != 1 or axis[0][0].atom is None:
        call.axes.pin(axis, f"{call.where}: entries are read by an index")
        read = tuple(fixed(n) for n in index.shape)
    else:
        read = tuple(fresh(n) for n in index.shape)
        axis[0][0].atom.parts = ((Factor("t", x.shape[dim], link=Lookup(index.value, read)),),)
    return (*x.label[:dim], *read, *x.label[dim + 1 :])


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
            zeros = Constant(counted=True)
            ends = [constant(n, zeros) if n else () for n in (low, high)]
            label[-1 - k] = (*ends[0], *axis, *ends[1])
    return tuple(label)


@rule("getitem")
def _getitem(call: Call) -> Any:
    raise TypeError("the tracer handles items of a list")


def is_list_of_tensors(value: Any) -> bool:
    """Whether an operation returned several tensors."""
    return isinstance(value, list | tuple) and all(isinstance(v, Tensor) for v in value)

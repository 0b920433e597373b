"""The laws of groups, representations, spaces and fields as residuals, which are 0 if the law holds.

They work for anything with the interfaces of :mod:`intertwine.groups` and :mod:`intertwine.spaces`, including groups
and spaces of your own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..groups import Group, Representation
from ..spaces import FieldType, Space


@checked
def distance(a: Any, b: Any) -> float:
    """The largest difference between two elements, points or values. For integers, it is 0 or at least 1.

    >>> distance(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    0.5
    """
    if isinstance(a, tuple):
        return max(distance(x, y) for x, y in zip(a, b, strict=True))
    try:
        difference = torch.as_tensor(a) - torch.as_tensor(b)
    except (TypeError, RuntimeError) as error:
        raise InputError("distance", expected="two tensors or numbers of the same shape", got=str(error)) from None
    return float(difference.abs().max()) if difference.numel() else 0.0


@checked
def group_residual(group: Group, a: Any, b: Any, c: Any) -> float:
    """The largest violation of associativity, identity and inverses for three elements.

    >>> from intertwine.groups import Cyclic
    >>> group_residual(Cyclic(4), 1, 2, 3)
    0.0
    """
    mul, inv, e = group.compose, group.inverse, group.identity
    return max(
        distance(mul(mul(a, b), c), mul(a, mul(b, c))),
        distance(mul(e, a), a),
        distance(mul(a, e), a),
        distance(mul(a, inv(a)), e),
        distance(mul(inv(a), a), e),
    )


@checked
def homomorphism_residual(rho: Representation, a: Any, b: Any) -> float:
    """The largest violation of rho(ab) = rho(a) rho(b).

    >>> from intertwine.groups import Cyclic
    >>> homomorphism_residual(Cyclic(4).regular, 1, 2)
    0.0
    """
    return distance(rho(rho.group.compose(a, b)), rho(a) @ rho(b))


@checked
def section_residual(space: Space, x: Any) -> float:
    """The largest violation of p(s(x)) = x.

    >>> from intertwine.spaces import Grid2d
    >>> section_residual(Grid2d("C4"), torch.tensor([1.0, 2.0]))
    0.0
    """
    return distance(space.project(space.section(x)), x)


@checked
def cocycle_residual(space: Space, x: Any, g1: Any, g2: Any) -> float:
    """The largest violation of g s(x) = s(gx) h(x, g) and of h(x, g1 g2) = h(g2 x, g1) h(x, g2)."""
    defined = space.compose(space.section(space.act(g1, x)), space.from_stabilizer(space.cocycle(x, g1)))
    both = space.cocycle(x, space.compose(g1, g2))
    steps = space.stabilizer.compose(space.cocycle(space.act(g2, x), g1), space.cocycle(x, g2))
    return max(distance(defined, space.compose(g1, space.section(x))), distance(both, steps))


@checked
def mackey_residual(field: FieldType, f: Callable[[Any], Tensor], g: Any, h: Any) -> float:
    """The largest violation of F(gh) = rho(h)⁻¹ F(g), for a function on the group."""
    space = field.space
    moved = f(space.compose(g, space.from_stabilizer(h)))
    return distance(moved, (field.rho(space.stabilizer.inverse(h)) @ f(g)[..., None])[..., 0])


@checked
def induced_residual(field: FieldType, f: Callable[[Any], Tensor], a: Any, b: Any, x: Any) -> float:
    """The largest violation of π(ab) f = π(a) π(b) f at the point x.

    Tested on local sections and on Mackey functions, together with the law that the lift intertwines the two.
    """
    space = field.space
    both = space.compose(a, b)
    g = space.compose(a, space.section(x))
    lifted = field.lift(f)
    return max(
        distance(field.transform(f, both)(x), field.transform(field.transform(f, b), a)(x)),
        distance(
            field.transform_mackey(lifted, both)(g), field.transform_mackey(field.transform_mackey(lifted, b), a)(g)
        ),
        distance(field.lift(field.transform(f, b))(g), field.transform_mackey(lifted, b)(g)),
        distance(field.lower(lifted)(x), f(x)),
    )

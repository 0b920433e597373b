"""Actions of a finite group behind the first layer of a network, on finite sets: Bökman & Kahl (2023), appendix D.

A layer is a map between finite sets, given by the list of its values; an action is a table ``(|G|, n)`` whose row g
says where g sends each point. The statements are decided by looking at all points.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._checked import Vector, checked
from ...errors import InputError


@checked
@dataclass(frozen=True)
class PushedAction:
    """The action on the values of a map that makes it equivariant, if there is one.

    Attributes:
        holds: whether there is one.
        values: the values of the map, in order; the points of the pushed action.
        action: ``(|G|, len(values))``, row g the number of the value to which g sends each value; None if there is
            none.
        witness: (g, x, y) with f(x) = f(y) but f(gx) ≠ f(gy), if there is none.
    """

    holds: bool
    values: Tensor
    action: Tensor | None = None
    witness: tuple[int, int, int] | None = None

    def __bool__(self) -> bool:
        return self.holds


@checked
def pushed_action(f: Vector, action: Tensor) -> PushedAction:
    """Lemma D.3, on finite sets: the action of G on the values of f with f(gx) = g f(x).

    For a bijection f it is f g f⁻¹. It exists if and only if f(x) = f(y) implies f(gx) = f(gy), and is then the only
    one.

    Args:
        f: ``(n,)``, the value at each point.
        action: ``(|G|, n)``, where each element sends each point.

    >>> pushed_action(torch.tensor([2, 0, 1]), torch.tensor([[0, 1, 2], [1, 0, 2]])).action  # a bijection
    tensor([[0, 1, 2],
            [2, 1, 0]])
    >>> pushed_action(torch.tensor([0, 0, 1]), torch.tensor([[0, 1, 2], [2, 1, 0]])).witness  # f(0) = f(1), apart
    (1, 0, 1)
    """
    _require_action(action, len(f))
    values, place = f.unique(return_inverse=True)
    first = torch.zeros(len(values), dtype=torch.long)
    first[place.flip(0)] = torch.arange(len(f)).flip(0)  # the first point with each value
    moved = place[action[:, first]]
    wrong = torch.nonzero(place[action] != moved[:, place])
    if len(wrong):
        g, x = wrong[0].tolist()
        return PushedAction(False, values, witness=(g, int(first[place[x]]), x))
    return PushedAction(True, values, moved)


@checked
def layerwise_quotient(f1: Vector, f2: Vector, action0: Tensor, action2: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Prop. D.4, on finite sets: an equivariant network f2 ∘ f1 equals a layerwise equivariant one.

    Its middle is not larger. Where f1 pushes the action forward, the middle may stay as it is. Otherwise its points are
    taken together that f2 does not tell apart: on the quotient there is an action, because the whole is equivariant.

    Args:
        f1: ``(n,)``, from the input to points 0 … m − 1 of the middle.
        f2: ``(m,)``, from the middle to the output.
        action0: ``(|G|, n)`` on the input.
        action2: ``(|G|, k)`` on the output.

    Returns:
        f1', f2' and the action on the new middle, with f2' ∘ f1' = f2 ∘ f1, f1'(gx) = g f1'(x) and f2'(gy) = g f2'(y).

    >>> swap = torch.tensor([[0, 1], [1, 0]])
    >>> still = torch.tensor([[0], [0]])
    >>> layerwise_quotient(torch.tensor([0, 1]), torch.tensor([0, 0]), swap, still)  # f1 pushes the swap forward
    (tensor([0, 1]), tensor([0, 0]), tensor([[0, 1],
            [1, 0]]))
    """
    _require_action(action0, len(f1))
    _require_action(action2, int(action2.shape[1]))
    whole = f2[f1]
    wrong = torch.nonzero(whole[action0] != action2[:, whole])
    if len(wrong):
        g, x = wrong[0].tolist()
        raise InputError(
            "layerwise_quotient",
            expected="a network that is equivariant as a whole",
            got=f"another value at point {x} moved by element {g}",
            fix="The proposition is about these.",
        )
    middle = pushed_action(f1, action0)
    if middle.action is not None:
        second = f2[middle.values]
        if torch.equal(second[middle.action], action2[:, second]):
            return torch.searchsorted(middle.values, f1), second, middle.action
    quotient = pushed_action(whole, action0)
    if quotient.action is None:
        raise InputError("layerwise_quotient", expected="actions", got="tables that are none", fix="Check the tables.")
    return torch.searchsorted(quotient.values, whole), quotient.values, quotient.action


def _require_action(action: Tensor, n: int) -> None:
    if action.dim() != 2 or action.shape[1] != n or not torch.equal(action.sort(1).values, _still(action)):
        raise InputError(
            "pushed_action",
            expected=f"a permutation of {n} points for each element",
            got=f"a table of shape {tuple(action.shape)}",
            fix="Row g says where g sends each point.",
        )
    rows = {tuple(row) for row in action.tolist()}
    if any(tuple(a[i] for i in b) not in rows for a in rows for b in rows):
        raise InputError(
            "pushed_action",
            expected="a group of permutations",
            got="a product that is none of them",
            fix="Complete it.",
        )


def _still(action: Tensor) -> Tensor:
    return torch.arange(action.shape[1]).expand_as(action)

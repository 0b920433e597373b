"""How a time step moves capsules: by a group element in the regular representation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ...errors import InputError
from ...groups import Cyclic, FiniteGroup, parse_finite
from ...spaces import FieldType, Point


def capsule_group(caller: str, length: int, group: FiniteGroup | str | None) -> FiniteGroup:
    """The group whose elements index the entries of a capsule; cyclic by default."""
    if group is None:
        return Cyclic(length)
    parsed = parse_finite(group) if isinstance(group, str) else group
    if parsed.order != length:
        raise InputError(
            caller,
            expected=f"capsules of {parsed.order} variables, one per element of {parsed.name}",
            got=f"a length of {length}",
        )
    return parsed


def only_generator(caller: str, group: FiniteGroup) -> int:
    """The only generator of the group, which moves sequences by default; an error if there are several."""
    if len(group.generators) > 1:
        options = ", ".join(f"{s} = {group.label(s)}" for s in group.generators)
        raise InputError(
            caller,
            expected="moving=, the element by which a time step moves each sequence",
            got="none",
            fix=f"{group.name} has several generators: {options}.",
        )
    return group.generators[0] if group.generators else 0


@dataclass(frozen=True)
class CapsuleMotion:
    """t_{l+1} = rho(s) t_l: the group, and the element s of each sequence."""

    group: FiniteGroup
    moving: Tensor

    @staticmethod
    def of(caller: str, t: Tensor, group: FiniteGroup | str | None, moving: int | Tensor | None) -> CapsuleMotion:
        """The motion of latents ``(sequences, ..., length)``, with defaults for ``group`` and ``moving``."""
        parsed = capsule_group(caller, t.shape[-1], group)
        element = parsed.require_element(only_generator(caller, parsed) if moving is None else moving)
        elements = torch.as_tensor(element).cpu()
        if elements.shape not in ((), (len(t),)):
            raise InputError(
                caller,
                expected=f"moving= as one element, or {len(t)}, one per sequence",
                got=f"shape {tuple(elements.shape)}",
            )
        return CapsuleMotion(parsed, elements.expand(len(t)))

    @cached_property
    def field(self) -> FieldType:
        """The type of a capsule."""
        return Point(self.group).field(self.group.regular)

    def moved(self, t: Tensor, steps: int) -> Tensor:
        """rho(s)^steps t, for latents ``(sequences, ..., length)``."""
        elements = self.moving.unique().tolist()
        if len(elements) == 1:
            return self._by_one(t, elements[0], steps)
        out = torch.empty_like(t)
        for s in elements:
            chosen = (self.moving == s).to(t.device)
            out[chosen] = self._by_one(t[chosen], s, steps)
        return out

    def _by_one(self, t: Tensor, s: int, steps: int) -> Tensor:
        powers = self.group.cycles(s)[0]
        moved: Tensor = self.field.transform(t, int(powers[steps % len(powers)]))
        return moved

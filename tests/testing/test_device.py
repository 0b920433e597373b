"""What stays behind on the CPU is reported, and what does not is not."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from intertwine import nn as tnn
from intertwine.groups import SO3, Cyclic
from intertwine.kernels import solve
from intertwine.spaces import Grid2d, Sphere
from intertwine.testing import assert_deferred, assert_follows_device


class Careless(nn.Module):
    """x times 1, with one bad habit."""

    def __init__(self, habit: str = "none") -> None:
        super().__init__()
        self.habit = habit
        self.weight = nn.Parameter(torch.ones(3))
        self.constant = torch.ones(3)
        self.register_buffer("table", torch.ones(3), persistent=False)
        if habit == "made on the CPU":
            self.register_buffer("kept", torch.ones(3, device="cpu"))

    def reset_parameters(self) -> None:
        if self.habit != "not reset":
            nn.init.ones_(self.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.weight
        if self.habit == "constant":
            return x * self.constant
        if self.habit == "made in forward":
            return x * torch.ones(3).to(x)
        if self.habit == "reads a number":
            return x if float(self.weight.detach().sum()) > 0 else -x
        if self.habit == "another shape":
            return x[:1] if x.is_meta else x
        if self.habit == "another type":
            return x.double() if x.is_meta else x
        if self.habit == "a table that is lost":
            return x * self.table
        return x


def test_a_careful_module() -> None:
    assert_follows_device(Careless(), torch.randn(2, 3))
    assert_deferred(Careless, torch.randn(2, 3))


@pytest.mark.parametrize(
    "habit", ["constant", "made in forward", "reads a number", "another shape", "another type", "a table that is lost"]
)
def test_what_stays_behind_is_reported(habit: str) -> None:
    with pytest.raises((AssertionError, RuntimeError), match=r"meta|CPU|to_empty"):
        assert_follows_device(Careless(habit), torch.randn(2, 3))


@pytest.mark.parametrize("habit", ["made on the CPU", "not reset"])
def test_what_cannot_be_deferred_is_reported(habit: str) -> None:
    with pytest.raises(AssertionError, match=r"stays on cpu|uninitialized"):
        assert_deferred(lambda: Careless(habit), torch.randn(2, 3))


def test_groups_made_and_first_used_under_another_device() -> None:
    with torch.device("meta"):
        group = Cyclic(5)
        tables = [group.table, group.irreps[1](group.elements), group.regular(1), SO3().irrep(1)(SO3().identity)]
        field = Grid2d(group).field(group.regular)
        tables += [field.space.matrices(group.elements), solve(field, field, kernel_size=3).filters()]
        grid = Sphere().grid("gauss-legendre", band_limit=2)
        layer = tnn.SphereConv(*[Sphere().field(Sphere().stabilizer.trivial)] * 2, grid)
    assert {table.device.type for table in tables} == {"cpu"}
    assert {p.device.type for p in layer.parameters()} == {"meta"}
    assert torch.equal(group.table, Cyclic(5).table)

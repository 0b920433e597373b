"""Capsule measures of any finite group: by hand on a product of two cycles, and against slow twins."""

from __future__ import annotations

import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import Cyclic, direct_product, parse_finite
from intertwine.measure.metrics import capsule_correlation, capsule_equivariance_error, traversal_error
from intertwine.measure.metrics._capsules import capsule_equivariance_error_by_pairs, observed_roll

GROUPS = ["C3 x C5", "S3", "D4", "C2 x C2 x C3"]
FIRST, SECOND = 5, 1  # generators of C3 x C5: the last factor's index runs fastest


def rolling(start: torch.Tensor, group: str, moving: int, time: int) -> torch.Tensor:
    """Sequences (…, time, capsules, length) that start here and are multiplied by the matrix again and again."""
    matrix, frames = parse_finite(group).regular(moving), [start]
    for _ in range(time - 1):
        frames.append(frames[-1] @ matrix.T)
    return torch.stack(frames, -3)


class TestByHand:
    """One capsule of C2 x C3 with a single 1, laid out as two rows of three places."""

    def frames(self, *places: tuple[int, int]) -> torch.Tensor:
        t = torch.zeros(1, len(places), 1, 6)
        for k, (row, column) in enumerate(places):
            t[0, k, 0, 3 * row + column] = 1
        return t

    def test_along_each_cycle(self):
        columns = self.frames((0, 0), (0, 1), (0, 2), (0, 0))
        assert float(capsule_equivariance_error(columns, group="C2 x C3", moving=1)) == 0
        rows = self.frames((0, 2), (1, 2), (0, 2))
        assert float(capsule_equivariance_error(rows, group="C2 x C3", moving=3)) == 0
        both = self.frames((0, 0), (1, 1), (0, 2), (1, 0), (0, 1), (1, 2))
        assert float(capsule_equivariance_error(both, group="C2 x C3", moving=4)) == 0

    def test_the_wrong_cycle(self):
        """Two ones that miss each other are at a distance of 2; of three pairs, one a step of two apart, all miss."""
        columns = self.frames((0, 0), (0, 1), (0, 2))
        assert float(capsule_equivariance_error(columns, group="C2 x C3", moving=3)) == 6
        assert float(capsule_equivariance_error(columns, group="C2 x C3", moving=2)) == 6
        # Rolled as one cycle of six, 0 → 1 → 2 is right as well; past the end of a row it is not.
        assert float(capsule_equivariance_error(columns)) == 0
        closed = self.frames((0, 1), (0, 2), (0, 0))
        assert float(capsule_equivariance_error(closed, group="C2 x C3", moving=1)) == 0
        assert float(capsule_equivariance_error(closed)) == 4

    def test_sequences_that_move_differently(self):
        two = torch.cat([self.frames((0, 0), (0, 1), (0, 2)), self.frames((0, 2), (1, 2), (0, 2))])
        values = capsule_equivariance_error(two, group="C2 x C3", moving=torch.tensor([1, 3])).values
        assert values.tolist() == [0, 0]
        values = capsule_equivariance_error(two, group="C2 x C3", moving=torch.tensor([3, 1])).values
        assert values.tolist() == [6, 6]

    def test_observed(self):
        a, b = self.frames((1, 2))[0, 0], self.frames((0, 0))[0, 0]
        assert observed_roll(a, b, group="C2 x C3").tolist() == [5]
        assert observed_roll(b, a, group="C2 x C3").tolist() == [4], "back: one row, one column on"
        c = self.frames((0, 2))[0, 0]
        assert observed_roll(c, b, group="C2 x C3", moving=1).tolist() == [2]


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("centered", [False, True])
def test_the_slow_twin(name, centered):
    group = parse_finite(name)
    t = torch.randn(4, 7, 2, group.order, dtype=torch.float64)
    moving = torch.randint(group.order, (4,), generator=torch.Generator().manual_seed(0))
    for element in (moving, int(moving[0])):
        fast = capsule_equivariance_error(t, centered=centered, group=group, moving=element)
        slow = capsule_equivariance_error_by_pairs(t, centered=centered, group=name, moving=element)
        torch.testing.assert_close(fast.values, slow.values, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("name", "moving", "other"), [("C3 x C5", 6, 1), ("S3", 3, 4), ("D4", 4, 1)])
def test_capsules_that_move_have_no_error(name, moving, other):
    t = rolling(torch.randn(3, 2, parse_finite(name).order, dtype=torch.float64), name, moving, 6)
    assert capsule_equivariance_error(t, group=name, moving=moving).mean < 1e-9
    assert capsule_equivariance_error(t, group=name, moving=other).mean > 1


@pytest.mark.parametrize("name", ["C7", *GROUPS])
def test_observed_elements(name):
    group = parse_finite(name)
    x = torch.randn(group.order, 3, group.order, dtype=torch.float64)
    moved = torch.stack([x[g] @ group.regular(g).T for g in range(group.order)])
    assert torch.equal(observed_roll(moved, x, group=group), group.elements[:, None].expand(-1, 3))
    noise = torch.randn_like(x)
    products = torch.einsum("kcy,gyx,kcx->kcg", noise, group.regular.matrices, x)
    assert torch.equal(observed_roll(noise, x, group=name), products.argmax(-1))
    s = group.generators[-1]
    powers = group.cycles(s)[0]
    along = observed_roll(noise, x, group=name, moving=s)
    assert torch.equal(along, products[..., powers].argmax(-1))


class TestCorrelation:
    """In a product of two cycles each factor moves along its own."""

    def sequences(self, moving: int, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(0)
        starts = torch.randint(size, (60,), generator=generator)
        factor = (starts[:, None] + torch.arange(size)) % size
        group = parse_finite("C3 x C5")
        powers = group.cycles(moving)[0]
        profile = torch.randn(60, 4, 15, dtype=torch.float64, generator=generator)
        t = torch.stack(
            [
                torch.stack([profile[n] @ group.regular(int(powers[v])).T for v in row.tolist()])
                for n, row in enumerate(factor)
            ]
        )
        return t, factor

    @pytest.mark.parametrize(("moving", "size", "other"), [(FIRST, 3, SECOND), (SECOND, 5, FIRST)])
    def test_perfect_capsules(self, moving, size, other):
        t, factor = self.sequences(moving, size)
        for variant in ("published", "circular"):
            own = capsule_correlation(t, factor, variant=variant, group="C3 x C5", moving=moving)
            assert own == pytest.approx(1.0)
        wrong = capsule_correlation(t, factor, group="C3 x C5", moving=other)
        assert not wrong > 0.9

    def test_sequences_that_move_differently(self):
        (a, x), (b, y) = self.sequences(FIRST, 3), self.sequences(SECOND, 5)
        t, factor = torch.cat([a, b[:, :3]]), torch.cat([x, y[:, :3]])
        kept = (factor == 0).any(1)
        moving = torch.tensor([FIRST] * 60 + [SECOND] * 60)
        assert capsule_correlation(t[kept], factor[kept], group="C3 x C5", moving=moving[kept]) == pytest.approx(1.0)
        with pytest.raises(InputError, match=r"elements of the same order.*got orders 3, 5"):
            capsule_correlation(t[kept], factor[kept], group="C3 x C5", moving=moving[kept], variant="circular")


def test_traversal_along_each_cycle():
    start = torch.randn(2, 1, 15, dtype=torch.float64)
    for moving in (FIRST, SECOND, FIRST + SECOND):
        t = rolling(start, "C3 x C5", moving, 6)
        frames = t[:, :, 0]

        def same(x: torch.Tensor, latents: torch.Tensor) -> torch.Tensor:
            return -(x - latents[:, :, 0]).abs().sum(-1)

        assert traversal_error(same, frames, t, group="C3 x C5", moving=moving).mean < 1e-12
        assert traversal_error(same, frames, t, group="C3 x C5", moving=2 * SECOND).mean > 1
        each = torch.tensor([moving, 2 * SECOND])
        values = traversal_error(same, frames, t, group="C3 x C5", moving=each).values
        assert values[0] < 1e-12
        assert values[1] > 1


def test_a_group_object_and_its_name_are_the_same():
    t = torch.randn(3, 4, 2, 15)
    group = direct_product(Cyclic(3), Cyclic(5))
    named = capsule_equivariance_error(t, group="C3 x C5", moving=5).values
    assert torch.equal(capsule_equivariance_error(t, group=group, moving=5).values, named)
    plain = capsule_equivariance_error(t).values
    assert torch.equal(capsule_equivariance_error(t, group="C15", moving=1).values, plain)


def test_bad_input():
    t = torch.rand(3, 4, 2, 15)
    with pytest.raises(InputError, match=r"moving=.*several generators: 1 = \(e, r\), 5 = \(r, e\)"):
        capsule_equivariance_error(t, group="C3 x C5")
    with pytest.raises(InputError, match="one per element of D4; got a length of 15"):
        capsule_correlation(t, torch.zeros(3, 4), group="D4", moving=1)
    with pytest.raises(InputError, match=r"elements 0\.\.14"):
        capsule_equivariance_error(t, group="C3 x C5", moving=15)
    with pytest.raises(InputError, match="or 3, one per sequence"):
        capsule_equivariance_error(t, moving=torch.tensor([1, 2]))
    with pytest.raises(InputError, match="group"):
        observed_roll(t, t, group=5)

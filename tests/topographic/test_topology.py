"""Neighborhoods: every fast form against the dense matrix, and the facts about windows, bands and directions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from intertwine.errors import InputError
from intertwine.topographic import (
    AdjacencyTopology,
    OffsetTopology,
    ProductTopology,
    TorusTopology,
    Window,
    sample_topographic,
    shifting_topology,
    stationary_topology,
    student_t,
    student_t_moments,
)

PADDINGS = ("cyclic", "zero", "replicate")


def by_matrix(topology, squares: torch.Tensor) -> torch.Tensor:
    """W as a dense matrix on each capsule."""
    _, time, _, length = squares.shape
    flat = squares.transpose(1, 2).flatten(2)
    return (flat @ topology.matrix(time, length).to(squares).T).unflatten(2, (time, length)).transpose(1, 2)


def by_loop(topology: OffsetTopology, squares: torch.Tensor) -> torch.Tensor:
    """The definition, number by number."""
    batch, time, capsules, length = squares.shape
    out = torch.zeros_like(squares)
    for frame in range(time):
        for i in range(length):
            for d, e in topology.offsets:
                at = frame + d
                if topology.padding == "cyclic":
                    at %= time
                elif topology.padding == "replicate":
                    at = min(max(at, 0), time - 1)
                elif not 0 <= at < time:
                    continue
                out[:, frame, :, i] += squares[:, at, :, (i + e) % length]
    assert out.shape == (batch, time, capsules, length)
    return out


topologies = st.one_of(
    st.builds(
        lambda k, b, p, c: shifting_topology(Window.causal(k) if c else k, band=b, padding=p),
        st.integers(1, 5),
        st.integers(0, 1),
        st.sampled_from(PADDINGS),
        st.booleans(),
    ),
    st.builds(
        lambda k, w, p: stationary_topology(k, w, padding=p),
        st.integers(1, 5),
        st.integers(1, 4),
        st.sampled_from(PADDINGS),
    ),
)


@given(topologies, st.integers(5, 7), st.integers(5, 8))
def test_all_forms_agree(topology, time, length):
    squares = torch.rand(2, time, 3, length, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = by_loop(topology, squares)
    torch.testing.assert_close(topology.sums(squares), expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(by_matrix(topology, squares), expected, rtol=0, atol=1e-12)
    if topology.padding == "cyclic":
        torch.testing.assert_close(topology.rolled(squares), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("k", "count"), [(18, 52), (13, 37), (5, 13)])
def test_bands_lack_the_corners(k, count):
    assert len(shifting_topology(k, band=1).offsets) == count
    assert len(shifting_topology(k).offsets) == k


def test_windows():
    assert (Window.of(13).low, Window.of(13).high) == (-6, 6)
    assert (Window.of(10).low, Window.of(10).high) == (-4, 5), "an even window has one more frame ahead"
    assert stationary_topology(5, 3).times.size == 5
    held_out = sorted(set(range(18)) - shifting_topology(13).reach(18))
    assert held_out == [7, 8, 9, 10, 11]
    assert sorted(set(range(15)) - shifting_topology(10).reach(15)) == [6, 7, 8, 9, 10]
    assert shifting_topology(Window.causal(3)).reach(9) == {0, 7, 8}


def test_a_full_window_rolls_by_itself():
    squares = torch.rand(2, 9, 4, 9, dtype=torch.float64)
    sums = shifting_topology(9).sums(squares)
    torch.testing.assert_close(sums.roll(1, 3).roll(1, 1), sums, rtol=0, atol=1e-12)


def test_the_direction_of_the_roll():
    """Squares at (l, i) and (l + 1, i + 1) go together, at (l, i) and (l + 1, i − 1) they do not."""
    t = sample_topographic(
        shifting_topology(5), sequences=4000, time=9, capsules=1, length=9, generator=torch.Generator().manual_seed(0)
    )[:, :, 0]
    size = t.square().log()  # the tails of t itself are too heavy for a correlation
    forward, backward = (
        float(torch.corrcoef(torch.stack([size.flatten(), size.roll((-1, -step), (1, 2)).flatten()]))[0, 1])
        for step in (1, -1)
    )
    assert forward > 0.05
    assert abs(backward) < 0.02


@pytest.mark.parametrize(
    "topology",
    [stationary_topology(1, 3), stationary_topology(3, 3), shifting_topology(4), shifting_topology(5, band=1)],
)
def test_each_variable_is_student_t(topology):
    """Scaled by the root of the number of neighbors, to the tails."""
    t = sample_topographic(
        topology,
        sequences=3000,
        time=9,
        capsules=1,
        length=9,
        standard=True,
        generator=torch.Generator().manual_seed(1),
        dtype=torch.float64,
    )
    one = t[:, 4, 0, 3].numpy()
    law = stats.t(len(topology.offsets))
    assert stats.kstest(one, law.cdf).pvalue > 1e-3
    assert stats.kstest(one, stats.norm.cdf).pvalue < 1e-3 or len(topology.offsets) > 8, "no normal distribution"
    far = law.ppf(0.995)
    assert np.mean(np.abs(t[:, 0, 0, :].numpy()) > far) == pytest.approx(0.01, abs=0.004)


@pytest.mark.parametrize("neighbors", [4, 15, 52])
@pytest.mark.parametrize("shift", [0.0, 30.0])
def test_moments_of_the_prior(neighbors, shift):
    """Against noncentral Student-t variables: t = (z + shift) / √V is one of them, divided by √ν."""
    reference = stats.nct(neighbors, shift) if shift else stats.t(neighbors)
    mean, deviation = student_t_moments(neighbors, shift=shift)
    assert mean == pytest.approx(reference.mean() / neighbors**0.5, rel=1e-9, abs=1e-12)
    assert deviation == pytest.approx(reference.std() / neighbors**0.5, rel=1e-9)
    topology = stationary_topology(1, neighbors)
    generator = torch.Generator().manual_seed(0)
    t = sample_topographic(
        topology, sequences=50_000, time=1, capsules=1, length=neighbors, shift=shift, generator=generator
    )
    assert float(t.mean()) == pytest.approx(mean, abs=0.05 * deviation)


def test_no_variance_with_fewer_than_three_neighbors():
    with pytest.raises(InputError, match="at least 3 neighbors"):
        student_t_moments(2)


class TestTorus:
    def test_against_the_matrix(self):
        torus = TorusTopology(5, 6, 3)
        squares = torch.rand(2, 2, 3, 30, dtype=torch.float64)
        torch.testing.assert_close(torus.sums(squares), by_matrix(torus, squares), rtol=0, atol=1e-12)
        assert torus.matrix(1, 30).sum(1).tolist() == [9.0] * 30
        assert torus.reach(2) == {0}

    def test_bad_sizes(self):
        with pytest.raises(InputError, match="with side 1 to 5"):
            TorusTopology(5, 6, 7)
        with pytest.raises(InputError, match="5 x 6 = 30"):
            TorusTopology(5, 6, 3).sums(torch.ones(1, 1, 1, 31))


class TestAdjacency:
    def test_any_matrix(self):
        known = shifting_topology(3)
        w = known.matrix(5, 5)
        topology = AdjacencyTopology(w, length=5).double()
        squares = torch.rand(2, 5, 3, 5, dtype=torch.float64)
        torch.testing.assert_close(topology.sums(squares), known.sums(squares), rtol=0, atol=1e-12)
        assert topology.reach(5) == known.reach(5)
        still = AdjacencyTopology(torch.eye(5), length=5).double()
        torch.testing.assert_close(still.sums(squares), squares)

    def test_learned(self):
        topology = AdjacencyTopology(shifting_topology(3).matrix(5, 5), length=5, learn=True)
        squares = torch.rand(2, 5, 3, 5)
        topology.sums(squares).sum().backward()
        assert bool((topology.free.grad > 0).any())
        assert bool((topology.weights() > 0).all())
        torch.testing.assert_close(topology.weights(), shifting_topology(3).matrix(5, 5).float(), rtol=0, atol=2e-4)

    @pytest.mark.parametrize(
        ("matrix", "message"),
        [
            (torch.ones(3, 4), "a square matrix"),
            (torch.ones(7, 7), "a multiple of the length"),
            (-torch.eye(5), "entries ≥ 0"),
            (torch.zeros(5, 5), "at least one neighbor in every row"),
        ],
    )
    def test_bad_matrices(self, matrix, message):
        with pytest.raises(InputError, match=message):
            AdjacencyTopology(matrix, length=5)


def test_several_axes_each_roll_by_themselves():
    parts = shifting_topology(4), shifting_topology(6)
    both = ProductTopology((4, 6), parts)
    squares = torch.rand(2, 12, 3, 24, dtype=torch.float64)
    grid = squares.unflatten(3, (4, 6))
    first = parts[0].sums(grid.transpose(3, 4).flatten(2, 3)).unflatten(2, (3, 6)).transpose(3, 4)
    second = parts[1].sums(grid.flatten(2, 3)).unflatten(2, (3, 4))
    expected = (first.sqrt() + second.sqrt()).square().flatten(3)
    torch.testing.assert_close(both.sums(squares), expected, rtol=1e-12, atol=0)
    assert both.reach(12) == parts[1].reach(12)
    flat = ProductTopology((1, 6), (stationary_topology(3), shifting_topology(6)))
    one = stationary_topology(3).sums(squares[..., :6]).sqrt() + shifting_topology(6).sums(squares[..., :6]).sqrt()
    torch.testing.assert_close(flat.sums(squares[..., :6]), one.square(), rtol=1e-12, atol=0)
    with pytest.raises(InputError, match="4 x 6"):
        both.sums(squares[..., :23])
    with pytest.raises(InputError, match="one topology per axis"):
        ProductTopology((4,), parts)


class TestLatent:
    def test_the_formula(self):
        z, u = torch.randn(2, 5, 3, 5), torch.randn(2, 5, 3, 5)
        t = student_t(z, u, shifting_topology(3), shift=2.0, eps=1e-3)
        sums = by_loop(shifting_topology(3), u.square())
        torch.testing.assert_close(t, (z + 2) / (sums + 1e-3).sqrt())

    def test_gradients(self):
        z, u = (torch.randn(1, 4, 2, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
        for topology in (shifting_topology(3), shifting_topology(3, padding="zero"), stationary_topology(1, 3)):
            torch.autograd.gradcheck(lambda a, b, w=topology: student_t(a, b, w, shift=1.0), (z, u))

    def test_bad_input(self):
        with pytest.raises(InputError, match="z and u of the same shape"):
            student_t(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), shifting_topology(1))
        with pytest.raises(InputError, match="at least 5 frames"):
            student_t(torch.zeros(1, 4, 1, 5), torch.zeros(1, 4, 1, 5), shifting_topology(5))
        with pytest.raises(InputError, match="no neighbor counts twice"):
            stationary_topology(1, 5).sums(torch.ones(1, 1, 1, 4))
        for make in (
            lambda: Window.of(0),
            lambda: Window.causal(0),
            lambda: Window(1, 2),
            lambda: shifting_topology(3, band=-1),
        ):
            with pytest.raises(InputError):
                make()

"""Capsules of any finite group: their type, how they move, which generator moves a sequence, and layers on top."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

from intertwine.errors import InputError
from intertwine.groups import Dihedral, parse_finite
from intertwine.models import VAE, BubbleVAE, NotCyclicWarning, TopographicVAE, topographic_pool
from intertwine.nn import CosetLinear, Linear
from intertwine.spaces import Grid2d, HomogeneousSpace, Point
from intertwine.topographic import TorusTopology, shifting_topology, stationary_topology

IMAGE = (1, 8, 8)
GROUPS = ["C5", "C3 x C5", "S3", "D4"]
X = torch.rand(3, 5, *IMAGE, generator=torch.Generator().manual_seed(0)).round()

pytestmark = pytest.mark.filterwarnings("ignore::intertwine.models.NotCyclicWarning")


def made(group: str, **options) -> TopographicVAE:
    torch.manual_seed(0)
    return TopographicVAE(IMAGE, capsules=2, group=group, window=3, **options).double()


@pytest.mark.parametrize("name", GROUPS)
class TestType:
    def test_the_latent_is_a_field(self, name):
        model, group = made(name), parse_finite(name)
        assert model.latent_type == Point(group).field(2 * group.regular)
        t = model.latent(X.double(), moving=group.generators[0])
        assert t.shape == (3, 5, 2, group.order)
        for g in range(group.order):
            expected = model.latent_type.transform(t.flatten(-2), g)
            assert torch.equal(model.moved(t, g).flatten(-2), expected)
        torch.testing.assert_close(topographic_pool(model.moved(t, g)), topographic_pool(t), rtol=0, atol=1e-12)

    def test_traversal_applies_rho(self, name):
        model, group = made(name), parse_finite(name)
        t = torch.rand(2, 2, group.order, dtype=torch.float64)
        for s in range(group.order):
            shown = model.traverse(t, moving=s)
            assert shown.shape == (2, int(group.element_orders[s]), *IMAGE)
            g = 0
            for k in range(shown.shape[1]):
                torch.testing.assert_close(shown[:, k], model.pictures(t @ group.regular(g).T))
                g = group.compose(s, g)
        torch.testing.assert_close(model.traverse(t, 9, moving=s)[:, 8], model.traverse(t, moving=s)[:, 8 % (k + 1)])

    def test_a_full_window_moves_t_by_rho(self, name):
        """With z of one value, t_{l+1} = rho(s) t_l exactly; another element does not do it."""
        group = parse_finite(name)
        s, other = group.generators[0], next(g for g in range(2, group.order))
        time = int(group.element_orders[s])
        torch.manual_seed(0)
        model = TopographicVAE(IMAGE, capsules=2, group=group, window=time, shift=1e9).double()
        t = model.latent(X[:, :time].double(), moving=s).detach()
        scale = float(t.abs().max())
        torch.testing.assert_close(model.moved(t, s) / scale, t.roll(-1, 1) / scale, rtol=0, atol=1e-7)
        assert float((model.moved(t, other) - t.roll(-1, 1)).abs().max()) > 1e-3 * scale

    def test_gradients_reach_everything(self, name):
        model = made(name)
        model(X.double()).elbo.backward()
        assert all(p.grad is not None and bool((p.grad != 0).any()) for p in model.parameters())


def test_the_length_is_short_for_a_cyclic_group():
    torch.manual_seed(0)
    by_length = TopographicVAE(IMAGE, capsules=3, length=15, window=5)
    torch.manual_seed(0)
    by_group = TopographicVAE(IMAGE, capsules=3, group="C15", window=5)
    assert by_length.latent_type == by_group.latent_type
    assert by_length.generators == by_group.generators == (1,)
    a, b = (m(X, generator=torch.Generator().manual_seed(1)) for m in (by_length, by_group))
    assert torch.equal(a.t, b.t)
    assert torch.equal(a.elbo, b.elbo)
    assert a.moving.tolist() == [1, 1, 1]
    t = torch.rand(2, 3, 15)
    for g in (1, 4, 14):
        assert torch.equal(by_length.moved(t, g), t.roll(g, -1))


def test_sizes_of_numpy():
    model = TopographicVAE(IMAGE, capsules=np.int64(2), length=np.int64(5))
    assert model.latent_type == Point("C5").field("2*regular")


class TestWhichGeneratorMoves:
    def test_stated(self):
        model, x = made("C3 x C5"), X.double()
        moving = torch.tensor([5, 1, 6])
        together = model(x, moving=moving, generator=torch.Generator().manual_seed(1))
        assert together.moving.tolist() == [5, 1, 6]
        for k, s in enumerate(moving.tolist()):
            alone = model(x, moving=s, generator=torch.Generator().manual_seed(1))
            torch.testing.assert_close(together.t[k], alone.t[k], rtol=0, atol=1e-10)
        other = model.latent(x, moving=1, generator=torch.Generator().manual_seed(1))
        assert float((together.t[0] - other[0]).detach().abs().max()) > 0.1

    def test_inferred(self):
        """The one under which the frames are most likely, at the price of log 2 a sequence."""
        model, x = made("C3 x C5"), X.double()

        def seeded(moving):
            return model(x, moving=moving, generator=torch.Generator().manual_seed(1))

        stated = {s: seeded(s) for s in (1, 5)}
        best = [max((1, 5), key=lambda s: float(stated[s].likelihood[k].detach().sum())) for k in range(3)]
        assert model.generators == (1, 5)
        inferred = seeded(None)
        assert inferred.moving.tolist() == best
        for k, s in enumerate(best):
            torch.testing.assert_close(inferred.t[k], stated[s].t[k], rtol=0, atol=1e-10)
            torch.testing.assert_close(inferred.kl[k], stated[s].kl[k] + math.log(2) / 5)
        bounds = [
            model.importance_bound(x, moving=m, samples=1, generator=torch.Generator().manual_seed(1))
            for m in (inferred.moving, None)
        ]
        torch.testing.assert_close(bounds[0] - bounds[1], torch.full((3,), math.log(2) / 5, dtype=torch.float64))

    def test_one_of_several_may_be_chosen(self):
        model = made("C3 x C5", generators=(5,))
        out = model(X.double())
        assert out.moving.tolist() == [5, 5, 5]
        assert model.traverse(out.t[:, 0]).shape[1] == 3

    def test_what_moves_makes_no_difference_without_offsets(self):
        torus = TopographicVAE(IMAGE, capsules=1, group="C5 x C6", topology=TorusTopology(5, 6, 3))
        a, b = (torus.latent(X, moving=m, generator=torch.Generator().manual_seed(1)) for m in (None, 6))
        assert torch.equal(a, b)
        plain = VAE(IMAGE, capsules=1, group="C5 x C6")
        assert plain(X, moving=6).moving is None
        assert plain.traverse(torch.rand(2, 1, 30), moving=6).shape[1] == 5

    def test_bubbles_lie_along_the_cycles(self):
        bubble = BubbleVAE(IMAGE, capsules=2, group="C3 x C5", window=3, width=3).double()
        assert bubble.topology == stationary_topology(3, 3)
        assert bubble(X.double(), moving=5).t.shape == (3, 5, 2, 15)


def spots(count: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """A bright spot on a torus of 4 x 4, two pixels wide, that goes down (element 4) or to the right (element 1)."""
    start = torch.randint(4, (count, 2), generator=generator)
    down = torch.randint(2, (count,), generator=generator)
    step = torch.stack([down, 1 - down], 1)
    places = (start[:, None] + step[:, None] * torch.arange(4)[:, None]) % 4
    frames = torch.zeros(count, 4, 4, 4)
    n, k = torch.meshgrid(torch.arange(count), torch.arange(4), indexing="ij")
    frames[n, k, places[..., 0], places[..., 1]] = 1
    frames = frames.repeat_interleave(2, 2).repeat_interleave(2, 3)[:, :, None]
    return frames, torch.where(down == 1, 4, 1)


def trained(steps: int, *, stated: bool) -> TopographicVAE:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    model = TopographicVAE(IMAGE, capsules=2, group="C4 x C4", window=4)
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        frames, moving = spots(16, generator)
        out = model(frames, moving=moving if stated else None)
        optimizer.zero_grad()
        (0.1 * out.kl - out.likelihood).mean().backward()  # a light divergence learns in seconds
        optimizer.step()
    return model


def squared(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).square().mean())


def test_it_learns_two_motions_at_once():
    """Moved by a generator, the first frame shows what comes next; moved by both, what it has never seen."""
    model = trained(400, stated=True)
    frames, moving = spots(64, torch.Generator().manual_seed(1))
    with torch.no_grad():
        t = model.latent(frames, moving=moving)
        for s, other in ((4, 1), (1, 4)):
            own = moving == s
            right, wrong = (squared(model.traverse(t[own, 0], moving=m), frames[own]) for m in (s, other))
            assert right < 0.1 * wrong
        both = model.pictures(model.moved(t[:, 0], 5))
        assert squared(both, frames[:, 0].roll((2, 2), (-2, -1))) < 0.02
        assert squared(both, frames[:, 0].roll(2, -1)) > 0.05
        matching = model(frames).moving
    assert float((matching == moving).double().mean()) > 0.9, "and it tells which of them moves a sequence"


def test_it_learns_without_being_told_what_moves():
    model = trained(600, stated=False)
    frames, _ = spots(64, torch.Generator().manual_seed(1))
    with torch.no_grad():
        out = model(frames)
        shown = torch.stack([model.traverse(out.t[k : k + 1, 0], moving=int(s))[0] for k, s in enumerate(out.moving)])
    assert set(out.moving.tolist()) == {1, 4}
    assert squared(shown, frames) < 0.1 * squared(frames[:, :1], frames)


@pytest.mark.parametrize("name", ["C3 x C5", "S3", "D4"])
@torch.no_grad()
def test_a_layer_on_top_of_capsules(name):
    """An equivariant head from the latent's type: it commutes with rho(g) for all g."""
    model, group = made(name), parse_finite(name)
    space = HomogeneousSpace(group, group.whole)
    latent, regular = space.field(model.latent_type.rho), space.field(group.regular)
    head = CosetLinear(latent, regular).double()
    t = model.latent(X.double(), moving=1)[:, 0]
    y = head(t.flatten(1)[..., None])
    assert float(y.abs().max()) > 0
    for g in range(group.order):
        moved = head(model.moved(t, g).flatten(1)[..., None])
        torch.testing.assert_close(moved, regular.transform(y, g), rtol=0, atol=1e-10)
    plain = torch.nn.Linear(latent.dim, regular.dim).double()
    assert float((plain(model.moved(t, 1).flatten(1)) - plain(t.flatten(1)) @ group.regular(1).T).abs().max()) > 1e-3


@torch.no_grad()
def test_a_linear_layer_on_top_of_capsules():
    group = Dihedral(4)
    model, plane = made("D4"), Grid2d(group)
    out = plane.field(group.irrep(1) + group.trivial)
    head = Linear(plane.field(model.latent_type.rho), out).double()
    t = model.latent(X.double(), moving=1)[:, 0]
    for g in range(group.order):
        moved = head(model.moved(t, g).flatten(1))
        torch.testing.assert_close(moved, head(t.flatten(1)) @ out.rho(g).T, rtol=0, atol=1e-10)


class TestBadInput:
    def test_groups(self):
        with pytest.raises(InputError, match="group=, or length= for a cyclic group"):
            TopographicVAE(IMAGE, capsules=2)
        with pytest.raises(InputError, match="length=8, the order of D4, or no length; got 7"):
            TopographicVAE(IMAGE, capsules=2, length=7, group="D4")
        with pytest.raises(InputError, match="finite"):
            TopographicVAE(IMAGE, capsules=2, group="SO(2)")
        with pytest.raises(InputError, match="generators of D4, each once"):
            TopographicVAE(IMAGE, capsules=2, group="D4", generators=(1, 1))
        with pytest.raises(InputError, match=r"elements 0\.\.7"):
            TopographicVAE(IMAGE, capsules=2, group="D4", generators=(8,))

    def test_elements(self):
        model = TopographicVAE(IMAGE, capsules=2, group="C3 x C5", window=3)
        for wrong, message in ((15, r"elements 0\.\.14"), (torch.tensor([1, 5]), "or 3 elements, one per sequence")):
            with pytest.raises(InputError, match=message):
                model(X, moving=wrong)
        with pytest.raises(InputError, match=r"moving=.*1 = \(e, r\), 5 = \(r, e\)"):
            model.traverse(torch.rand(2, 2, 15))

    def test_open_sequences_are_noticed(self):
        line = torch.arange(9).div(9).view(1, 9, 1, 1, 1).expand(4, 9, *IMAGE).contiguous()
        with pytest.warns(NotCyclicWarning):
            TopographicVAE(IMAGE, capsules=1, group="C3 x C3", window=5)(line, moving=1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TopographicVAE(IMAGE, capsules=1, group="C3 x C3", topology=shifting_topology(5, padding="zero"))(
                line, moving=1
            )

"""Topographic autoencoders: sizes as published, bounds, roll, and errors."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn

from intertwine.errors import InputError
from intertwine.models import VAE, BubbleVAE, NotCyclicWarning, TopographicVAE, topographic_pool
from intertwine.topographic import AdjacencyTopology, TorusTopology, Window, shifting_topology, student_t_moments

X = torch.rand(3, 5, 1, 8, 8, generator=torch.Generator().manual_seed(0)).round()
SMALL = {"capsules": 3, "length": 5}


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("image", "capsules", "length", "published", "encoder"),
    [
        ((3, 28, 28), 18, 18, 9_803_919, 3_338_172),
        ((1, 64, 64), 15, 15, 9_716_176, 3_272_625),
        ((1, 28, 28), 1, 324, 5_231_629, None),
    ],
)
def test_published_sizes(image, capsules, length, published, encoder):
    with torch.device("meta"):
        topographic = TopographicVAE(image, capsules=capsules, length=length)
        plain = VAE(image, capsules=capsules, length=length)
    assert size(topographic) == published + 1, "and the shift"
    if encoder is not None:
        assert size(topographic) - size(plain) == encoder + 1


with torch.random.fork_rng():
    torch.manual_seed(0)  # whatever was imported before
    MODELS = [
        VAE((1, 8, 8), **SMALL),
        TopographicVAE((1, 8, 8), **SMALL, window=3),
        TopographicVAE((1, 8, 8), **SMALL, window=Window.causal(3), band=1),
        TopographicVAE((1, 8, 8), capsules=1, length=30, topology=TorusTopology(5, 6, 3)),
        BubbleVAE((1, 8, 8), **SMALL, window=3, width=3),
        TopographicVAE((1, 8, 8), **SMALL, window=3, network="conv", likelihood="gaussian"),
        TopographicVAE((1, 8, 8), **SMALL, window=3, band=1, standardize=True),
    ]


@pytest.mark.filterwarnings("ignore::intertwine.models.NotCyclicWarning")
class TestEvery:
    @pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
    def test_bounds(self, model):
        """The bound by importance sampling with one sample is an unbiased draw of the ELBO; with more it rises."""
        torch.manual_seed(0)
        with torch.no_grad():
            elbo = torch.stack([model(X).elbo for _ in range(200)])
            one = torch.stack([model.importance_bound(X, samples=1).mean() for _ in range(200)])
            many = torch.stack([model.importance_bound(X, samples=20).mean() for _ in range(10)]).mean()
        error = math.hypot(float(one.std()), float(elbo.std())) / math.sqrt(200)  # the latents have heavy tails
        assert float(one.mean()) == pytest.approx(float(elbo.mean()), abs=4 * error + 0.05)
        assert many > one.mean()

    @pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
    def test_gradients_reach_everything(self, model):
        model.zero_grad()
        model(X).elbo.backward()
        assert all(p.grad is not None and bool((p.grad != 0).any()) for p in model.parameters())

    @pytest.mark.parametrize("model", MODELS, ids=range(len(MODELS)))
    def test_draws_repeat_by_seed(self, model):
        first, again = (model(X, generator=torch.Generator().manual_seed(3)).t for _ in range(2))
        assert torch.equal(first, again)

    def test_published_form(self):
        model = MODELS[1]
        w = model.importance_bound(X, samples=4, form="published", generator=torch.Generator().manual_seed(0))
        assert w.shape == (3, 5)
        one = model.importance_bound(X, samples=1, form="published", generator=torch.Generator().manual_seed(0))
        right = model.importance_bound(X, samples=1, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(one.mean(1), right)


def test_likelihoods():
    bernoulli, gaussian = MODELS[0], MODELS[5]
    decoded = torch.randn(3, 5, 1, 8, 8)
    p = decoded.sigmoid()
    expected = (X * p.log() + (1 - X) * (1 - p).log()).flatten(2).sum(2)
    torch.testing.assert_close(bernoulli.log_likelihood(X, decoded), expected)
    law = torch.distributions.Normal(decoded, 1.0)
    torch.testing.assert_close(gaussian.log_likelihood(X, decoded), law.log_prob(X).flatten(2).sum(2))
    extreme = bernoulli.log_likelihood(X, 1e4 * (2 * X - 1))
    assert bool((extreme == 0).all()), "logits do not overflow"


@pytest.mark.parametrize(
    "options", [{"window": 3, "band": 1}, {"topology": TorusTopology(5, 6, 3)}], ids=["shifting", "torus"]
)
def test_standardizing_represents_the_same_functions(options):
    """The first layer of the decoder can undo it: other weights give the same network."""
    size = {"capsules": 1, "length": 30} if "topology" in options else SMALL
    standard = TopographicVAE((1, 8, 8), **size, **options, shift=7.0, standardize=True).double()
    plain = TopographicVAE((1, 8, 8), **size, **options, shift=7.0).double()
    plain.load_state_dict(standard.state_dict())
    mean, deviation = student_t_moments(7 if "window" in options else 9, shift=7.0)
    x = X.double()[:, :, :, :8]
    t = plain.latent(x, generator=torch.Generator().manual_seed(1))
    assert not torch.allclose(plain.decode(t), standard.decode(t))
    with torch.no_grad():
        plain.decoder.first.weight /= deviation
        plain.decoder.first.bias -= mean * plain.decoder.first.weight.sum(1)
    torch.testing.assert_close(plain.decode(t), standard.decode(t), rtol=0, atol=1e-10)
    torch.testing.assert_close(plain.traverse(t[:, 0]), standard.traverse(t[:, 0]), rtol=0, atol=1e-10)


def test_what_cannot_be_standardized():
    topology = AdjacencyTopology(torch.eye(5) + torch.eye(5).roll(1, 0), length=5)
    with pytest.raises(InputError, match="neighborhoods of one size"):
        TopographicVAE((1, 8, 8), **SMALL, topology=topology, standardize=True)
    with pytest.raises(InputError, match="at least 3 neighbors"):
        BubbleVAE((1, 8, 8), **SMALL, window=1, width=2, standardize=True)


def test_traversal_rolls_all_capsules():
    model = MODELS[1]
    t = torch.rand(2, 3, 5)
    shown = model.traverse(t)
    assert shown.shape == (2, 5, 1, 8, 8)
    torch.testing.assert_close(shown[:, 2], model.pictures(t.roll(2, -1)))
    torch.testing.assert_close(topographic_pool(t.roll(2, -1)), topographic_pool(t))


def test_it_learns():
    torch.manual_seed(0)
    model = TopographicVAE((1, 8, 8), **SMALL, window=5, topology=shifting_topology(5))
    frames = torch.zeros(1, 5, 1, 8, 8)
    for k in range(5):
        frames[0, k, 0, :, k : k + 3] = 1
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    with warnings.catch_warnings(action="ignore"):
        before = float(model(frames).elbo)
        for _ in range(400):
            optimizer.zero_grad()
            (-model(frames).elbo).backward()
            optimizer.step()
        assert float(model(frames).elbo) > before + 10


class TestBadInput:
    def test_sequences_that_are_not_closed(self):
        line = torch.zeros(4, 9, 1, 8, 8)
        for k in range(9):
            line[:, k] = k / 9
        with pytest.warns(NotCyclicWarning, match="padding='zero'"):
            TopographicVAE((1, 8, 8), capsules=2, length=9, window=5)(line)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            TopographicVAE((1, 8, 8), capsules=2, length=9, topology=shifting_topology(5, padding="zero"))(line)
            closed = torch.cat([line[:, :5], line[:, 1:5].flip(1)], 1)
            TopographicVAE((1, 8, 8), capsules=2, length=9, window=5)(closed)

    @pytest.mark.parametrize(
        ("x", "message"),
        [
            (X[:, 0], r"sequences \(batch, time, 1, 8, 8\)"),
            (X * torch.nan, "finite images"),
            (X * 2, r"pixels in \[0, 1\]"),
            (X[:, :2], "at least 3 frames"),
        ],
    )
    def test_wrong_sequences(self, x, message):
        with pytest.raises(InputError, match=message):
            TopographicVAE((1, 8, 8), **SMALL, window=3)(x)

    def test_wrong_settings(self):
        with pytest.raises(InputError, match="at least one capsule"):
            VAE((1, 8, 8), capsules=0, length=5)
        for kind in (VAE, TopographicVAE, BubbleVAE):
            for image in ((100,), (1, 8), (1, 0, 8), 64):
                with pytest.raises(InputError, match=f"{kind.__name__}: expected image"):
                    kind(image, **SMALL)
        with pytest.raises(InputError, match="'bernoulli' or 'gaussian'"):
            VAE((1, 8, 8), **SMALL, likelihood="poisson")
        with pytest.raises(InputError, match="multiples of 4"):
            VAE((1, 9, 9), **SMALL, network="conv")
        with pytest.raises(InputError, match="at least one sample"):
            MODELS[0].importance_bound(X, samples=0)

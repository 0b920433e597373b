"""When memory runs out, batches are halved: same results, nothing counted twice, an error if one image is too much."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from intertwine.errors import InputError, SizeLimitError
from intertwine.measure import (
    accuracy,
    agreement,
    audit,
    barrier,
    channel_graph,
    equivariance_error,
    invariance_error,
    layer_errors,
    lie_derivative,
    match,
    match_networks,
    repair,
    shift_consistency,
)
from intertwine.measure._batches import Fitting, is_memory
from intertwine.measure.graph._permute import full_state
from intertwine.measure.matching import _match
from intertwine.measure.matching._match import correlate
from intertwine.measure.surgery import variance_collapse
from intertwine.measure.surgery._barrier import interpolation_curve
from intertwine.measure.surgery._merge import reset_batch_norms
from intertwine.measure.surgery._repair import channel_statistics

X = torch.randn(12, 3, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 4
ERRORS = {
    "cuda": torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB"),
    "cpu": RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: not enough memory: you tried to "),
    "linux": RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes. Error code 12"),
    "python": MemoryError(),
}


class Door(nn.Module):
    """Lets this many images through at once, and raises what torch raises for more."""

    def __init__(self, most: int | None = None, error: str = "cuda") -> None:
        super().__init__()
        self.most, self.error, self.largest = most, error, 0

    def forward(self, x: Tensor) -> Tensor:
        if self.most is not None and len(x) > self.most:
            raise ERRORS[self.error]
        self.largest = max(self.largest, len(x))
        return x


def net(most: int | None = None, *, norm: bool = False, seed: int = 0, error: str = "cuda") -> nn.Sequential:
    """Several places at which statistics are taken come before the one where memory runs out, and several after."""
    torch.manual_seed(seed)

    def block(a: int, b: int) -> list[nn.Module]:
        return [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b) if norm else nn.Identity(), nn.ReLU()]

    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 4)]
    layers = [*block(3, 6), *block(6, 5), Door(most, error), *block(5, 5), *head]
    return nn.Sequential(*layers).double().eval()


def quietly(run):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return run()


MEASURES = {
    "invariance_error": lambda m: invariance_error(m, X, "d4").values,
    "agreement": lambda m: agreement(m, X, "c4").values,
    "equivariance_error": lambda m: equivariance_error(m[:-3], X, "c4").values,
    "shift_consistency": lambda m: shift_consistency(m, X, shift=3).values,
    "lie_derivative": lambda m: lie_derivative(m, X, "rotation", batch_size=12).values,
    "accuracy": lambda m: torch.tensor(accuracy(m, (X, LABELS))),
    "layer_errors": lambda m: torch.stack([e.invariance.values for e in layer_errors(m, X, "c4").layers]),
}


@pytest.mark.parametrize("name", MEASURES)
def test_measures_of_single_images(name):
    # A layer sees the images of all four turns together.
    small = net(8 if name == "layer_errors" else 3)
    wanted = MEASURES[name](net())
    with pytest.warns(RuntimeWarning, match=r"\d+ images do not fit into memory at once; continuing with \d"):
        result = MEASURES[name](small)
    torch.testing.assert_close(result, wanted, atol=1e-12, rtol=0)
    assert len(result.flatten()) == len(wanted.flatten()), "every image once"
    assert small[6].largest > 1


@pytest.mark.parametrize("error", ERRORS)
def test_what_counts_as_memory(error):
    measured = quietly(lambda: invariance_error(net(5, error=error), X).values)
    torch.testing.assert_close(measured, invariance_error(net(), X).values, atol=1e-12, rtol=0)


def test_other_errors_are_not_memory():
    assert not is_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_memory(SizeLimitError("a", expected="b", got="not enough memory", fix="d"))
    with pytest.raises(RuntimeError, match="to have 3 channels"):
        invariance_error(net(), X[:, :2])


def test_later_batches_begin_with_the_size_that_fitted():
    tried = []

    def run(x):
        tried.append(len(x))
        if len(x) > 3:
            raise torch.OutOfMemoryError("out of memory")
        return x

    fit = Fitting("here")
    measured = quietly(lambda: [fit(run, part) for part in X.split(7)])
    assert tried == [7, 3, 3, 1, 3, 2]
    assert torch.equal(torch.cat([piece for pieces in measured for piece in pieces]), X)


BOUNDED = {
    "batch norms": lambda m, x: full_state(reset_batch_norms(m(norm=True), x, batch_size=5)),
    "repair": lambda m, x: full_state(repair(m(seed=2), [m(), m(seed=1)], x, batch_size=5)),
    "repair of blocks": lambda m, x: full_state(
        repair(m(norm=True, seed=2), [m(norm=True), m(norm=True, seed=1)], x, blocks=["2", "9"], batch_size=5)
    ),
    "statistics": lambda m, x: {
        f"{name}{k}": value
        for name, pair in channel_statistics(m(norm=True), x, ["0", "3", "7"], batch_size=5).items()
        for k, value in enumerate(pair)
    },
    "collapse": lambda m, x: {k: torch.tensor(v) for k, v in variance_collapse(m(), [m(seed=1)], x).items()},
}


@pytest.mark.parametrize("name", BOUNDED)
def test_statistics_of_batches_are_those_of_whole_batches(name):
    """Halves have other means than the whole; the result must not show that the whole never was in memory."""
    x = X + torch.arange(12).double()[:, None, None, None]  # so that halves differ a lot
    wanted = BOUNDED[name](net, x)
    measured = quietly(lambda: BOUNDED[name](partial(net, 2), x))
    assert list(measured) == list(wanted)
    for key, value in wanted.items():
        torch.testing.assert_close(measured[key], value, atol=1e-11, rtol=1e-11)
    if name in ("batch norms", "repair"):  # halves taken for whole batches would have been noticed
        halves = {"batch norms": lambda: reset_batch_norms(net(norm=True), x, batch_size=2)}.get(
            name, lambda: repair(net(seed=2), [net(), net(seed=1)], x, batch_size=2)
        )()
        assert any(not torch.allclose(v, wanted[k].to(v), atol=1e-4) for k, v in full_state(halves).items())


def test_batch_norms_agree_with_those_of_torch():
    """The slow twin: torch's own batch norms in training mode, averaged over batches."""
    model, twin = net(norm=True), net(norm=True)
    norms = [m for m in twin.modules() if isinstance(m, nn.BatchNorm2d)]
    for m in norms:
        m.momentum = None
        m.train()
    with torch.no_grad():
        for part in X.split(4):
            twin(part)
    reset = reset_batch_norms(model, X, batch_size=4)
    for (name, value), wanted in zip(full_state(reset).items(), full_state(twin).values(), strict=True):
        torch.testing.assert_close(value, wanted, atol=1e-12, rtol=1e-12, msg=name)


def _scarce(most: int, after: int):
    """The traced program, which runs out of memory at its node number ``after`` for more than ``most`` images."""
    whole = _match.lockstep

    def lockstep(graph, states, x, wanted):
        for number, result in enumerate(whole(graph, states, x, wanted)):
            if len(x) > most and number == after:
                raise torch.OutOfMemoryError("CUDA out of memory")
            yield result

    return lockstep


@pytest.mark.parametrize("after", [0, 1, 2])
def test_matching(monkeypatch, after):
    model = net()
    graph = channel_graph(model, (3, 8, 8))
    states = [full_state(model), full_state(net(seed=1))]
    wanted = correlate(graph, states, X.split(5))
    monkeypatch.setattr(_match, "lockstep", _scarce(2, after))
    measured = quietly(lambda: correlate(graph, states, X.split(5)))
    for name, tables in wanted.items():
        for a, b in zip(tables[0], measured[name][0], strict=True):
            torch.testing.assert_close(b, a, atol=1e-12, rtol=0)
    with pytest.warns(RuntimeWarning, match=r"match: \d+ images do not fit"):
        match(model, X, "hflip", graph=graph)
    with pytest.warns(RuntimeWarning, match=r"match_networks: \d+ images do not fit"):
        match_networks(model, net(seed=1), X, graph=graph)
    monkeypatch.setattr(_match, "lockstep", _scarce(0, after))
    with pytest.raises(SizeLimitError, match="memory for one image of 3 x 8 x 8"):
        quietly(lambda: match(model, X, "hflip", graph=graph))


def test_curves_and_barriers():
    def score(m: nn.Module) -> float:
        return accuracy(m, (X, LABELS))

    a, b = net(), net(seed=1)
    small = [net(5), net(5, seed=1)]
    assert quietly(lambda: interpolation_curve(*small, score)) == interpolation_curve(a, b, score)
    finish = partial(repair, models=[a, b], data=X)
    assert quietly(lambda: barrier(*small, score, finish=finish)) == barrier(a, b, score, finish=finish)


@pytest.mark.parametrize("name", [*MEASURES, *BOUNDED])
def test_one_image_that_does_not_fit(name):
    run = partial(MEASURES[name], net(0)) if name in MEASURES else partial(BOUNDED[name], partial(net, 0), X)
    with pytest.raises(SizeLimitError, match=r"expected memory for one image of 3 x 8 x 8; got CUDA out of memory"):
        quietly(run)


def test_a_whole_audit():
    wanted = audit(net(norm=True), (X, LABELS), "hflip")
    measured = quietly(lambda: audit(net(5, norm=True), (X, LABELS), "hflip"))
    kept = [r for r in wanted.readings if r.kind != "Door"]
    for a, b in zip(kept, [r for r in measured.readings if r.kind != "Door"], strict=True):
        assert (a.metric, a.layer, a.n) == (b.metric, b.layer, b.n)
        assert b.value == pytest.approx(a.value, abs=1e-9)
    with pytest.raises(SizeLimitError, match="audit: expected memory for one image"):
        quietly(lambda: audit(net(0), X))
    with pytest.raises(InputError, match="images that the network accepts"):
        audit(net(), X[:, :1])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the address space of a process")
def test_a_process_that_may_not_have_more():
    """Nothing is pretended here: torch's allocator is refused memory."""
    script = """
        import resource, sys, warnings
        import torch
        from torch import nn
        from intertwine.measure import invariance_error, match, channel_graph
        from intertwine.measure.surgery._merge import reset_batch_norms

        torch.set_num_threads(1)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
                              nn.Flatten(), nn.Linear(32, 4)).eval()
        x = torch.rand(512, 1, 64, 64)                    # 268 MB for each map of the first layer
        graph = channel_graph(model, (1, 64, 64))
        def all_of_it(size):
            matching = match(model, x, "hflip", graph=graph, batch_size=size)
            norms = reset_batch_norms(model, x, batch_size=512)
            return [invariance_error(model, x, batch_size=size).values, matching.correlations[1]["0"].sort().values,
                    norms[1].running_mean, norms[1].running_var]
        expected = all_of_it(16)
        used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_AS, (used + 200_000_000,) * 2)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            halved = all_of_it(512)
        assert len({str(w.message).split(":")[0] for w in told}) == 3, told
        for a, b in zip(expected, halved):
            torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)
        print("halved", len(told))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "halved" in done.stdout

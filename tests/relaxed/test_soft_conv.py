"""Soft convolution: all variants against the definition, point by point, and its special cases."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from torch.nn.functional import conv2d
from torch.utils._python_dispatch import TorchDispatchMode

from intertwine.errors import InputError, SizeLimitError
from intertwine.relaxed import SoftConv2d
from intertwine.relaxed.soft._soft_support import Support
from intertwine.relaxed.soft._soft_variants import VARIANTS, Sizes, cheapest
from intertwine.testing import equivariance_errors
from tests.compiling import compiled


def point_by_point(layer: SoftConv2d, x: torch.Tensor) -> torch.Tensor:
    """The definition: one kernel for each pair of places, from the network itself."""
    height, width = x.shape[-2:]
    size, padding = layer.support.size, layer.support.border
    half = (size - 1) / 2
    rows = []
    for i in range(height + 2 * padding - size + 1):
        for j in range(width + 2 * padding - size + 1):
            total = x.new_zeros(len(x), layer.out_type.dim)
            for di in range(size):
                for dj in range(size):
                    v = (i + di - padding, j + dj - padding)
                    a = torch.tensor([di - half, dj - half], dtype=x.dtype) / half
                    if layer.support.disk and a.norm() > 1 + 1e-12:
                        continue
                    if not (0 <= v[0] < height and 0 <= v[1] < width):
                        continue
                    place = v if layer.domain == "input" else (i + half - padding, j + half - padding)
                    b = torch.tensor([(2 * place[0] + 1) / height - 1, (2 * place[1] + 1) / width - 1], dtype=x.dtype)
                    kernel = layer.net([layer.frequency * a], [layer.translation_softness * b])
                    total = total + x[:, :, v[0], v[1]] @ kernel.T
            rows.append(total)
    y = torch.stack(rows, -1).unflatten(-1, (height + 2 * padding - size + 1, -1))
    return y if layer.bias is None else y + layer.bias[:, None, None]


CASES = {
    "input side": {},
    "output side": {"domain": "output"},
    "formulas": {"net": "fourier"},
    "formulas, output side": {"net": "fourier", "domain": "output"},
    "sine": {"activation": "sin"},
    "square": {"support": "square", "padding": 1},
    "even square": {"support": "square", "kernel_size": 4, "padding": 0},
    "valid": {"padding": "valid", "bias": False},
    "much padding": {"padding": 4},
}


@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_the_definition_with_its_gradients(case):
    options = {"kernel_size": 5, "softness": (0.4, 0.9), "learn": True, "hidden": 5, **CASES[case]}
    layer = SoftConv2d(2, 3, **options).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.add_(0.1 * torch.randn_like(p))
    x = torch.randn(2, 2, 7, 6, dtype=torch.float64, requires_grad=True)
    expected = point_by_point(layer, x)
    g = torch.randn_like(expected)
    names, weights = zip(*layer.named_parameters(), strict=True)
    gradients = torch.autograd.grad(expected, [x, *weights], g)
    for variant in (None, "loop", "window", "rank"):
        layer.variant = variant
        y = layer(x)
        assert (y - expected).abs().max() < 1e-12 * expected.abs().max(), variant
        for name, ours, gradient in zip(
            ("x", *names), torch.autograd.grad(y, [x, *weights], g), gradients, strict=True
        ):
            assert (ours - gradient).abs().max() < 1e-10 * max(1, gradient.abs().max()), (variant, name)
    assert gradients[names.index("translation_softness") + 1].abs().max() > 1e-3


def test_many_rows_and_chunks_agree(monkeypatch):
    monkeypatch.setattr("intertwine.relaxed.soft._soft_rank.CHUNK", 3000)
    layer = SoftConv2d(3, 4, kernel_size=3, hidden=4, learn=True).double()
    x = torch.randn(3, 3, 11, 9, dtype=torch.float64, requires_grad=True)
    results = []
    for variant in ("window", "rank"):
        layer.variant = variant
        y = layer(x)
        results.append((y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])))
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() < 1e-10 * max(1, a.abs().max())


def test_the_gradient_of_the_input_alone():
    layer = SoftConv2d(2, 3, kernel_size=3, hidden=4).double().requires_grad_(False)
    x = torch.randn(2, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    for variant in ("window", "rank"):
        layer.variant = variant
        assert torch.autograd.gradcheck(layer, x)


@pytest.mark.parametrize("net", ["joint", "fourier"])
@pytest.mark.parametrize("domain", ["input", "output"])
def test_without_domain_frequency_it_is_a_convolution(net, domain):
    layer = SoftConv2d(2, 3, kernel_size=7, softness=0.0, learn=True, net=net, domain=domain).double()
    half = torch.linspace(-1, 1, 7, dtype=torch.float64)
    a = torch.stack(torch.meshgrid(half, half, indexing="ij"), -1)
    kernel = layer.net([a], [torch.zeros(2, dtype=torch.float64)])  # 7, 7, out, in
    kernel = kernel * (a.norm(dim=-1) <= 1 + 1e-12)[..., None, None]
    x = torch.randn(2, 2, 12, 11, dtype=torch.float64)
    expected = conv2d(x, kernel.permute(2, 3, 0, 1), layer.bias, padding=3)
    for variant in (None, "window", "rank"):
        layer.variant = variant
        assert (layer(x) - expected).abs().max() < 1e-10
    layer.variant = None
    with torch.no_grad():  # nobody asks for the gradient of the frequency: the plain convolution is taken
        assert (layer(x) - expected).abs().max() < 1e-10
        layer.variant = "dense"
        assert (layer(x) - expected).abs().max() < 1e-10


def test_the_frequency_is_pulled_away_from_zero():
    layer = SoftConv2d(2, 3, softness=0.0, learn=True).double()
    layer(torch.randn(2, 2, 9, 9, dtype=torch.float64)).square().sum().backward()
    assert layer.translation_softness.grad.abs().min() > 1e-3


@pytest.mark.parametrize("net", ["joint", "fourier"])
def test_without_any_frequency_it_is_local_pooling(net):
    layer = SoftConv2d(2, 3, softness=0.0, frequency=0.0, net=net, bias=False).double()
    x = torch.randn(2, 2, 9, 9, dtype=torch.float64)
    disk = torch.zeros(49, dtype=torch.float64)
    disk[[7 * i + j for i, j in layer.support.offsets]] = 1
    pooled = conv2d(x.flatten(0, 1)[:, None], disk.view(1, 1, 7, 7), padding=3).view(x.shape)
    kernel = layer.net([torch.ones(2, dtype=torch.float64) * 0], [None])
    assert (layer(x) - torch.einsum("oc,nchw->nohw", kernel, pooled)).abs().max() < 1e-10


def test_the_disk():
    assert Support.of("test", 7, 3, "disk").taps == 29
    assert [run[2] for run in Support.of("test", 7, 3, "disk").runs] == [1, 5, 5, 7, 5, 5, 1]
    assert Support.of("test", 7, "same", "square").taps == 49
    assert Support.of("test", 7, 3, "disk").displacements().norm(dim=1).max() == 1


def test_positions_survive_pooling():
    point = Support.of("test", 1, 0, "disk")
    fine, coarse = point.positions(8, 4, of_input=False), point.positions(4, 2, of_input=False)
    pooled = torch.nn.functional.avg_pool2d(fine[:, :, 0].permute(2, 0, 1), 2).permute(1, 2, 0)
    assert torch.allclose(pooled, coarse[:, :, 0])


def test_the_error_grows_with_the_frequency():
    layer = SoftConv2d(2, 2, kernel_size=3, hidden=8).double().eval()
    errors = []
    for softness in (0.0, 0.01, 0.1, 1.0):
        layer.translation_softness.fill_(softness)
        errors.append(equivariance_errors(layer)["translation"])
    assert errors[0] < 1e-12
    assert errors == sorted(errors)
    assert errors[-1] > 0.1


def test_one_axis_at_a_time():
    layer = SoftConv2d(1, 2, kernel_size=3, softness=(0.0, 1.0), hidden=8).double()
    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    with torch.no_grad():
        down = (layer(x.roll(1, -2)) - layer(x).roll(1, -2))[..., 3:-3, 3:-3].abs().max()
        right = (layer(x.roll(1, -1)) - layer(x).roll(1, -1))[..., 3:-3, 3:-3].abs().max()
    assert down < 1e-12
    assert right > 1e-2


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation returns, in numbers it really holds."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        out = function(*arguments, **(keywords or {}))
        for tensor in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.untyped_storage().nbytes() // tensor.element_size())
        return out


@pytest.mark.parametrize("variant", ["window", "rank"])
def test_no_kernel_for_each_place_is_ever_held(variant):
    layer = SoftConv2d(32, 32, kernel_size=5, hidden=8, learn=True, variant=variant)
    x = torch.randn(2, 32, 24, 24, requires_grad=True)
    with Largest() as largest:
        layer(x).sum().backward()
    kernels = 24 * 24 * layer.support.taps * 32 * 32
    assert largest.numbers < kernels / 8
    layer.variant = "loop"
    with Largest() as largest:
        layer.net([layer.support.displacements().float()[None, None]], [layer._position_part(x, True)[0, ..., 0, :]])
    assert largest.numbers >= kernels, "the watch sees a kernel that is held"


def sizes(**options):
    usual = {"channels": 32, "out": 32, "samples": 1, "groups": 1, "taps": 29, "square": 49, "hidden": 33}
    return Sizes(**{**usual, "batch": 64, "places": 1024, "moving": True, "training": True, **options})


def test_the_cheapest_variant():
    assert cheapest(sizes()) == "window"
    assert cheapest(sizes(batch=1)) == "rank"
    assert cheapest(sizes(channels=3)) == "rank"
    assert cheapest(sizes(channels=3, input_gradient=False)) == "window"
    assert cheapest(sizes(moving=False)) == "dense"
    assert cheapest(sizes(moving=False, samples=16, groups=16, channels=128, out=128, places=64, batch=8)) == "factored"
    assert cheapest(sizes(moving=False, samples=8, groups=8, places=256)) == "dense", "the layers that were published"
    assert VARIANTS["loop"].cost(sizes()) is None


def test_tables_are_kept_in_evaluation_until_something_changes():
    layer = SoftConv2d(2, 3, kernel_size=3, learn=True).eval()
    x = torch.randn(2, 2, 8, 8)
    with torch.no_grad():
        before = layer(x)
        table = layer._cache._value[0]
        assert torch.equal(layer(x), before)
        assert layer._cache._value[0] is table, "kept"
        for change in (
            lambda: layer.translation_softness.add_(0.1),
            lambda: layer.net.first.weight.data.mul_(1.5),
            lambda: layer.load_state_dict({k: v + 0.1 for k, v in layer.state_dict().items()}),
        ):
            change()
            after = layer(x)
            assert not torch.equal(after, before)
            layer._cache.__init__()
            assert torch.equal(layer(x), after)
            before = after
        assert layer(torch.randn(2, 2, 9, 7)).shape == (2, 3, 9, 7)
        assert torch.equal(layer(x), before)


@pytest.mark.parametrize("softness", [0.0, 0.5])
def test_autocast(softness):
    layer = SoftConv2d(2, 3, kernel_size=3, softness=softness)
    x = torch.randn(2, 2, 8, 8)
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = layer(x.bfloat16())
    assert (y - expected).abs().max() < 0.1 * expected.abs().max()
    y.float().sum().backward()
    assert layer.net.first.weight.grad is not None


@pytest.mark.parametrize("learn", [False, True])
def test_a_compiled_layer_takes_a_second_size(learn: bool) -> None:
    """torch leaves sizes open then, so nothing may be ordered by them."""
    layer = SoftConv2d(2, 3, kernel_size=3, learn=learn)
    in_one_graph = compiled(layer)
    for size in (8, 7, 9):
        x = torch.randn(2, 2, size, size)
        assert torch.allclose(in_one_graph(x), layer(x), atol=1e-5)


# torch looks at the gradients of all tensors where a graph is interrupted, and hides its own warning.
@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_a_compiled_model_may_hold_it():
    layer = SoftConv2d(2, 3, kernel_size=3, learn=True)
    x = torch.randn(2, 2, 8, 8)
    expected = layer(x).relu()
    torch._dynamo.reset()
    y = torch.compile(torch.nn.Sequential(layer, torch.nn.ReLU()), backend="eager")(x)
    assert torch.allclose(y, expected, atol=1e-6)
    y.sum().backward()
    assert layer.translation_softness.grad is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel_size": 6}, "an odd kernel_size"),
        ({"kernel_size": 0}, "a positive kernel_size"),
        ({"softness": -0.5}, "finite softness of 0 or more"),
        ({"softness": float("nan")}, "finite softness of 0 or more"),
        ({"softness": float("inf")}, "finite softness of 0 or more"),
        ({"softness": (0.1, 0.2, 0.3)}, "or 2 of them"),
        ({"domain": "both"}, "domain to be 'input' or 'output'"),
        ({"support": "ring"}, "support disk or square"),
        ({"padding": 9}, "padding 'same', 'valid' or a number"),
        ({"padding": "full"}, "padding 'same'"),
        ({"net": "deep"}, "net to be 'joint' or 'fourier'"),
        ({"hidden": 0}, "1 or more hidden units"),
        ({"activation": "tanh"}, "'cos' or 'sin'"),
        ({"variant": "fast"}, "a variant among loop, window"),
        ({"in_type": 0}, "1 or more channels"),
    ],
)
def test_bad_options_are_explained(options, message):
    with pytest.raises(InputError, match=message):
        SoftConv2d(**{"in_type": 2, "out_type": 3, **options})


def test_bad_inputs_are_explained():
    layer = SoftConv2d(2, 3, padding="valid")
    with pytest.raises(InputError, match=r"\(batch, 2 channels, height, width\); got \(1, 3, 9, 9\)"):
        layer(torch.zeros(1, 3, 9, 9))
    with pytest.raises(InputError, match=r"at least 7 along the height; got sizes \(5, 9\)"):
        layer(torch.zeros(1, 2, 5, 9))
    with pytest.raises(InputError, match=r"torch.float32; got torch.float64"):
        layer(torch.zeros(1, 2, 9, 9).double())
    with pytest.raises(InputError, match="position-dependent kernels, or None; got dense"):
        SoftConv2d(2, 3, variant="dense")(torch.zeros(1, 2, 9, 9))


def test_a_table_that_does_not_fit_is_refused(monkeypatch):
    layer = SoftConv2d(2, 3)
    assert layer(torch.zeros(1, 2, 16, 16)).shape == (1, 3, 16, 16)
    monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1M")
    with pytest.raises(SizeLimitError, match="a table of 256 positions for 1 x 1 samples"):
        layer(torch.zeros(1, 2, 16, 16))


@pytest.mark.usefixtures("forked_children")
def test_a_layer_that_is_exported_before_it_ran_gives_the_same_afterwards():
    """In a process of its own: tables that torch.export saw first must not be kept without their values."""
    script = """
import torch, intertwine as tw
layer = tw.relaxed.SoftConv2d(3, 4, kernel_size=3, learn=True).eval()
x = torch.rand(2, 3, 9, 9)
program = torch.export.export(layer, (x,)).module()
with torch.no_grad():
    print(float((layer(x) - program(x)).abs().max()), float(layer(x).abs().max()))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)
    difference, size = map(float, done.stdout.split())
    assert difference < 1e-5
    assert size < 100


def test_kernels_keep_full_precision_under_autocast(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = SoftConv2d(3, 4, 5, softness=0.5), torch.randn(2, 3, 8, 8)
    tables: list[torch.Tensor] = []
    make = layer.net.table
    monkeypatch.setattr(layer.net, "table", lambda *parts: tables.append(make(*parts)) or tables[-1])
    layer(x)
    with torch.autocast("cpu", torch.bfloat16):
        layer(x)
        rounded = make(*layer._coordinates(x.device, layer._fixed(), layer._position_part(x[:, :, None], True)))
    assert torch.equal(*tables)
    assert not torch.equal(tables[0], rounded.float())

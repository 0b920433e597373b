"""The ready-made networks: exact symmetry at every size, widths that match plain networks, and export."""

from __future__ import annotations

import copy
import io
import warnings
from collections.abc import Callable
from functools import cache, partial

import pytest
import torch

from intertwine import models, nn
from intertwine._torchvision import declare_missing_operations
from intertwine.errors import InputError
from intertwine.groups import Cyclic
from intertwine.models._width import count_weights, multiply_adds
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant
from tests.compiling import compiled

SMALL: dict[str, Callable[..., nn.Sequential]] = {
    "resnet18, CIFAR stem": partial(models.resnet, 18, stem="cifar", channels=2, classes=3, width=1),
    "resnet50, ImageNet stem": partial(models.resnet, 50, channels=2, classes=3, width=0.5),
    "wide_resnet": partial(models.wide_resnet, 10, 2, channels=2, classes=3, width=1),
    "convnext": partial(models.convnext, "tiny", patch=2, channels=2, classes=3, width=0.5),
    "convnext, patches of 4": partial(models.convnext, "tiny", channels=2, classes=3, width=0.5),
    "unet": partial(models.unet, 2, channels=2, classes=3, width=1),
}
LARGER = {"convnext, patches of 4": 8}  # it halves images five times
each = pytest.mark.parametrize("name", SMALL)
slow = pytest.mark.slow


@cache
def example(name: str, group: str | None, **options: object) -> nn.Sequential:
    """A small network in float64 with random weights, and with statistics of random images.

    Values of 0 or 1 could hide a mistake, and so could an output that does not depend on the image. Tests that change
    the network work on a copy.
    """
    torch.manual_seed(0)
    net = SMALL[name](group=group, **options).double()
    x = torch.randn(4, 2, 40, 40, dtype=torch.float64)
    with torch.no_grad():
        for key, p in net.named_parameters():
            p.add_(0.2 * torch.rand_like(p) if p.ndim == 1 else 0)
            if key.endswith("scale"):  # a ConvNeXt starts with blocks that add next to nothing
                p.fill_(0.5)
        for part in net.modules():
            if isinstance(part, nn.BatchNorm):
                part.momentum = 1.0
        net.train()(x)
        scores = net.eval()(x)
        assert (scores[0] - scores[1]).abs().max() > 1e-3 * scores.abs().max()
    return net


def largest_error(net: nn.Sequential, sizes: tuple[int, int], plane: Grid2d) -> float:
    """Over all elements of the group that keep the shape of the image."""
    torch.manual_seed(1)
    x = torch.randn(2, net.in_type.dim, *sizes, dtype=torch.float64)
    errors = []
    with torch.no_grad():
        y = net(x)
        for h in plane.stabilizer.elements:
            motion = plane.motion([0, 0], h)
            moved = plane.field("2*trivial").transform(x, motion)
            expected = y if y.ndim == 2 else plane.field(f"{y.shape[1]}*trivial").transform(y, motion)
            if moved.shape == x.shape and (sizes[0] == sizes[1] or keeps_axes(plane, h)):
                errors.append(float((net(moved) - expected).abs().max() / y.abs().max()))
    assert len(errors) > 1
    return max(errors)


def keeps_axes(plane: Grid2d, h: int) -> bool:
    return bool(plane.matrices(h)[0, 0].abs() > 0.5)


@each
@pytest.mark.parametrize("size", [28, 30, 31, 32, 33])
def test_exact_under_the_whole_group_at_every_size(name: str, size: int) -> None:
    size += LARGER.get(name, 0)
    assert assert_equivariant(example(name, "D4"), size=size, tolerance=1e-10) < 1e-10


@each
def test_exact_in_training(name: str) -> None:
    assert assert_equivariant(example(name, "C4"), size=34, training=True, tolerance=1e-10) < 1e-10


@each
@pytest.mark.parametrize("group", ["vflip", "D4"])
def test_exact_on_images_that_are_not_square(name: str, group: str) -> None:
    net = example(name, group)
    plane = net.in_type.space
    more = LARGER.get(name, 0)
    for height, width in ((31, 32), (28, 30)):
        assert largest_error(net, (height + more, width + more), plane) < 1e-10


@each
def test_of_c8_exact_for_quarter_turns(name: str) -> None:
    net = example(name, "C8")
    assert largest_error(net, (31, 31), Grid2d("C4")) < 1e-10
    assert largest_error(net, (32, 32), Grid2d("C4")) < 1e-10


@each
def test_plain_and_smaller_groups_are_not_invariant(name: str) -> None:
    for group in (None, "hflip"):
        assert largest_error(example(name, group, width=4), (32, 32), Grid2d("C4")) > 1e-3


def test_without_fit_stride_even_sizes_are_refused() -> None:
    net = copy.deepcopy(example("wide_resnet", "D4"))
    x = torch.zeros(1, 2, 32, 32, dtype=torch.float64)
    net(x)
    for part in net.modules():
        for key, layer in list(part.named_children()):
            if isinstance(layer, nn.FitStride):
                setattr(part, key, nn.Identity(layer.in_type))
    with pytest.raises(InputError, match=r"31 or 33 along the height.*Put FitStride before the layer"):
        net(x)


def test_a_vector_at_each_pixel() -> None:
    net = example("unet", "C4", output="trivial + irrep1")
    assert str(net.out_type) == "Field(trivial + irrep(1) on Grid2d(C4))"
    for size in (29, 30):
        assert assert_equivariant(net, size=size, tolerance=1e-10) < 1e-10


# -- widths ------------------------------------------------------------------------------------------------------


@cache
def torchvision_twin(name: str) -> torch.nn.Module:
    declare_missing_operations()
    torchvision = pytest.importorskip("torchvision")
    with torch.device("meta"):
        return getattr(torchvision.models, name)(num_classes=10)


FULL: dict[str, Callable[..., nn.Sequential]] = {
    "resnet18": partial(models.resnet, 18),
    "resnet34": partial(models.resnet, 34),
    "resnet50": partial(models.resnet, 50),
    "convnext_tiny": partial(models.convnext, "tiny"),
}
PUBLISHED = {(16, 4): 2_748_890, (28, 10): 36_479_194}  # weights of the plain networks, for CIFAR-10


@pytest.mark.parametrize("name", [name if name == "resnet18" else pytest.param(name, marks=slow) for name in FULL])
def test_plain_networks_are_those_of_torchvision(name: str) -> None:
    twin = torchvision_twin(name)
    with torch.device("meta"):
        plain = FULL[name](group=None)
    assert count_weights(plain) == count_weights(twin)
    assert multiply_adds(plain, 3) == multiply_adds(twin, 3)


def test_a_plain_network_computes_what_torchvision_computes() -> None:
    declare_missing_operations()
    torchvision = pytest.importorskip("torchvision")
    torch.manual_seed(0)
    twin, ours = torchvision.models.resnet18(num_classes=10).eval(), models.resnet(18, group=None).eval()
    *theirs, weight, bias = twin.parameters()
    with torch.no_grad():
        for p, value in zip(ours.parameters(), [*theirs, bias, weight], strict=True):
            p.copy_(value.reshape(p.shape))
        x = torch.randn(2, 3, 40, 40)
        assert (ours(x) - twin(x)).abs().max() < 1e-4 * twin(x).abs().max()


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("resnet18", "D4"),
        pytest.param("resnet34", "C8", marks=slow),
        pytest.param("resnet50", "D4", marks=slow),
        pytest.param("resnet50", "hflip", marks=slow),
        pytest.param("convnext_tiny", "D4", marks=slow),
    ],
)
def test_widths_match_torchvision(name: str, group: str) -> None:
    twin = torchvision_twin(name)
    with torch.device("meta"):
        heavy, cheap = FULL[name](group=group, match="weights"), FULL[name](group=group)
    assert count_weights(heavy) == pytest.approx(count_weights(twin), rel=0.02)
    assert multiply_adds(cheap, 3) == pytest.approx(multiply_adds(twin, 3), rel=0.02)
    assert count_weights(cheap) < 0.6 * count_weights(twin)
    assert multiply_adds(heavy, 3) > 1.8 * multiply_adds(twin, 3)


@pytest.mark.parametrize(("depth", "factor"), [(16, 4), pytest.param(28, 10, marks=slow)])
def test_wide_networks_match_the_published_number_of_weights(depth: int, factor: int) -> None:
    with torch.device("meta"):
        plain, ours = (models.wide_resnet(depth, factor, group=group, match="weights") for group in (None, "C4"))
    assert count_weights(plain) == PUBLISHED[depth, factor]
    assert count_weights(ours) == pytest.approx(PUBLISHED[depth, factor], rel=0.02)


@pytest.mark.parametrize(
    ("match", "measure"), [("weights", count_weights), ("cost", partial(multiply_adds, channels=3))]
)
def test_unets_match(match: str, measure: Callable[[torch.nn.Module], int]) -> None:
    with torch.device("meta"):
        plain, ours = models.unet(3, group=None), models.unet(3, group="C4", match=match)
    assert measure(ours) == pytest.approx(measure(plain), rel=0.02)


def test_multiplications_of_a_convolution_and_a_linear_map() -> None:
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 5, 3, padding=1), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(5, 7)
    )
    assert multiply_adds(net, 3, 10) == 100 * 9 * 3 * 5 + 5 * 7


def test_a_given_width_counts() -> None:
    net = models.resnet(18, group=Cyclic(4), width=3)
    assert [stage.out_type.rho.name for stage in list(net)[:5]] == [f"{n} regular" for n in (3, 3, 6, 12, 24)]


# -- a network like any other ------------------------------------------------------------------------------------


some = pytest.mark.parametrize(
    "name", [name if name in ("wide_resnet", "unet") else pytest.param(name, marks=slow) for name in SMALL]
)


@some
def test_plain_exported_and_compiled_versions_compute_the_same(name: str) -> None:
    net = copy.deepcopy(example(name, "D4")).float()
    plain = nn.to_plain(net)
    assert not any(isinstance(part, nn.Layer) for part in plain.modules())
    x = torch.randn(2, 2, 33, 33)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the exporter itself
        expected = net(x)
        exported = torch.export.export(plain, (x,)).module()
        for other in (plain, exported, compiled(net)):
            assert (other(x) - expected).abs().max() < 1e-4 * expected.abs().max()
        other_size = torch.randn(1, 2, 36, 36)  # even: the plain version decides by size, as the network does
        assert (plain(other_size) - net(other_size)).abs().max() < 1e-4 * net(other_size).abs().max()


@pytest.mark.whole
@some
def test_onnx(name: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    net = copy.deepcopy(example(name, "D4")).float()
    x, file = torch.randn(1, 2, 32, 32), io.BytesIO()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the exporter itself
        expected = net(x)
        torch.onnx.export(nn.to_plain(net), (x,), file, dynamo=True, verbose=False)
    session = runtime.InferenceSession(file.getvalue())
    (output,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert (torch.from_numpy(output) - expected).abs().max() < 1e-4 * expected.abs().max()


@each
def test_state_goes_from_one_network_to_another(name: str) -> None:
    net, other = example(name, "C4"), SMALL[name](group="C4").double().eval()
    x = torch.randn(1, 2, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        assert not torch.equal(other(x), net(x))
        other.load_state_dict(net.state_dict())
        assert torch.equal(other(x), net(x))


@each
def test_gradients_reach_all_weights(name: str) -> None:
    net = copy.deepcopy(example(name, "C4", width=2)).train()
    net(torch.randn(2, 2, 32, 32, dtype=torch.float64)).square().sum().backward()
    assert all(p.grad is not None and bool(p.grad.abs().max() > 0) for p in net.parameters())


# -- wrong arguments ---------------------------------------------------------------------------------------------


def test_wrong_arguments_are_explained() -> None:
    with pytest.raises(InputError, match=r"a finite group of the plane.*got Grid2d\(SO\(2\)\)"):
        models.resnet(18, group="SO(2)")
    with pytest.raises(InputError, match=r"a finite group of the plane"):
        models.unet(group="Oh")
    with pytest.raises(InputError, match="18, 34, 50, 101 or 152"):
        models.resnet(20, group="D4")
    with pytest.raises(InputError, match=r"wide_resnet: expected a depth of 10, 16.*got 12"):
        models.wide_resnet(12, group="D4")
    with pytest.raises(InputError, match="a finite width above 0; got 0"):
        models.convnext(group="D4", width=0)
    with pytest.raises(InputError, match=r"at least 2 along the height; got sizes \(1, 1\)"):
        models.unet(4, group="D4", width=1)(torch.zeros(1, 3, 8, 8))

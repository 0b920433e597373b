"""Soft group convolution: the definition, its special cases, one subgroup at a time, and the draws of samples."""

from __future__ import annotations

import math

import pytest
import torch

from intertwine.errors import InputError
from intertwine.relaxed import Orientations, PartialGroupConv2d, SoftGroupConv2d
from intertwine.relaxed._orientations import angle_and_mirror, draw, from_angles, grid
from intertwine.spaces import Grid2d
from intertwine.testing import assert_equivariant, equivariance_errors


def matrix(samples: Orientations, number: int) -> torch.Tensor:
    """The element as a matrix on (row, column) = (−y, x)."""
    swap = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    return swap @ samples.elements[number] @ swap.T


def applied(layer: SoftGroupConv2d, x: torch.Tensor, *samples: Orientations) -> torch.Tensor:
    """The layer with fields and samples on two axes."""
    y = layer(x.flatten(1, 2) if x.ndim == 5 else x, *samples)
    return y.unflatten(1, (layer.out_fields, -1))


def angle_of(m: torch.Tensor) -> float:
    """θ in (−π, π] of a matrix turn(θ) diag(1, ±1)."""
    angle = math.atan2(m[1, 0], m[0, 0])
    return math.pi if angle < -math.pi + 1e-9 else angle


def point_by_point(layer: SoftGroupConv2d, x: torch.Tensor, before: Orientations, after: Orientations) -> torch.Tensor:
    """The definition, with products and inverses of matrices: one kernel for each pair of elements."""
    if layer.lifting:
        x, before = x[:, :, None], grid(1)
    height, width = x.shape[-2:]
    size, padding = layer.support.size, layer.support.border
    half = (size - 1) / 2
    tall, wide = height + 2 * padding - size + 1, width + 2 * padding - size + 1

    def tensor(*numbers: float) -> torch.Tensor:
        return torch.tensor(numbers, dtype=torch.float64)

    def seen(turn: torch.Tensor) -> torch.Tensor:
        angle = angle_of(turn)
        if layer.angles == "circle":
            return tensor(math.cos(angle), math.sin(angle)) * layer.net.circle_radius
        return tensor(angle) / layer.net.angle_unit

    totals = []
    for g in range(len(after)):
        for i in range(tall):
            for j in range(wide):
                total = x.new_zeros(len(x), layer.out_fields)
                for di in range(size):
                    for dj in range(size):
                        v = (i + di - padding, j + dj - padding)
                        a = tensor(di - half, dj - half) / max(half, 0.5)
                        inside = 0 <= v[0] < height and 0 <= v[1] < width
                        if not inside or a.norm() > 1 + 1e-9:
                            continue
                        for s in range(len(before)):
                            frame, element = matrix(after, g), matrix(before, s)
                            relative, absolute = [], []
                            if layer.spatial:
                                relative.append(torch.linalg.inv(frame) @ a * layer.frequency)
                            if not layer.lifting:
                                rest = torch.linalg.inv(frame) @ element
                                angle = seen(rest) * layer.rotation_frequency
                                mirror = tensor(round(float(torch.det(rest))))
                                relative.append(torch.cat([angle, mirror]) if layer.mirrored else angle)
                            of_input = layer.domain == "input"
                            if "translation" in layer.soft:
                                place = v if of_input else (i + half - padding, j + half - padding)
                                b = tensor((2 * place[0] + 1) / height - 1, (2 * place[1] + 1) / width - 1)
                                absolute.append(layer.translation_softness * b)
                            if "rotation" in layer.soft:
                                absolute.append(layer.rotation_softness * seen(element if of_input else frame))
                            total = total + x[:, :, s, v[0], v[1]] @ layer.net(relative, absolute).T
                totals.append(total)
    y = torch.stack(totals, -1).unflatten(-1, (len(after), tall, wide))
    return y if layer.bias is None else y + layer.bias[:, None, None, None]


CASES = {
    "strict": {},
    "rotation": {"rotation_softness": 0.8},
    "rotation, output side": {"rotation_softness": 0.8, "domain": "output"},
    "translation": {"translation_softness": 0.6},
    "both": {"rotation_softness": 0.8, "translation_softness": (0.2, 0.6)},
    "both, output side": {"rotation_softness": 0.8, "translation_softness": 0.6, "domain": "output"},
    "formulas": {"rotation_softness": 2.0, "net": "fourier"},
    "angles as numbers": {"rotation_softness": 0.8, "angles": "principal", "rotation_frequency": 0.7},
    "integer frequencies": {"rotation_softness": 2.0, "net": "fourier", "angles": "integer", "rotation_frequency": 2},
    "lifting": {"lifting": True, "translation_softness": 0.6},
    "strict lifting": {"lifting": True},
    "mirrored": {"mirrored": True, "rotation_softness": 0.5},
    "pointwise": {"kernel_size": 1, "rotation_softness": 0.5},
}


@pytest.mark.parametrize("case", CASES)
def test_every_variant_is_the_definition_with_its_gradients(case):
    options = {"kernel_size": 3, "learn": True, "hidden": 4, "samples": 2, "sampling": "random", **CASES[case]}
    layer = SoftGroupConv2d(2, 2, **options).double()
    before, after = (draw(2, mirrored=layer.mirrored) for _ in range(2))
    shape = (1, 2, 4, 5) if layer.lifting else (1, 2, 2, 4, 5)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    expected = point_by_point(layer, x, before, after)
    g = torch.randn_like(expected)
    names, weights = zip(*layer.named_parameters(), strict=True)
    gradients = torch.autograd.grad(expected, [x, *weights], g)
    same = () if "translation" in layer.soft else ("dense", "factored")
    for variant in (None, "loop", "window", "rank", *same):
        layer.variant = variant
        y = applied(layer, x, before, after)
        assert (y - expected).abs().max() < 1e-11 * expected.abs().max(), variant
        for name, ours, gradient in zip(
            ("x", *names), torch.autograd.grad(y, [x, *weights], g), gradients, strict=True
        ):
            assert (ours - gradient).abs().max() < 1e-10 * max(1, gradient.abs().max()), (variant, name)
    if "rotation_softness" in names:
        assert gradients[names.index("rotation_softness") + 1].abs().max() > 1e-3


@pytest.mark.parametrize("samples", [4, 8, 16])
@pytest.mark.parametrize("net", ["joint", "fourier"])
def test_a_quarter_turn_moves_maps_and_samples(samples, net):
    options = {"samples": samples, "kernel_size": 5, "hidden": 8, "net": net}
    lift = SoftGroupConv2d(2, 3, lifting=True, **options).double().eval()
    layer = SoftGroupConv2d(3, 2, rotation_softness=0.0, **options).double().eval()
    x = torch.randn(2, 2, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        y, turned = applied(layer, lift(x)), applied(layer, lift(x.rot90(1, (-2, -1))))
        expected = y.rot90(1, (-2, -1)).roll(samples // 4, 2)
        assert (turned - expected).abs().max() < 1e-10
        layer.rotation_softness.fill_(0.5)
        y, turned = applied(layer, lift(x)), applied(layer, lift(x.rot90(1, (-2, -1))))
        assert (turned - y.rot90(1, (-2, -1)).roll(samples // 4, 2)).abs().max() > 1e-2


def test_without_domain_frequencies_it_is_the_strict_layer():
    soft = SoftGroupConv2d(2, 3, samples=4, rotation_softness=0.0, translation_softness=0.0, kernel_size=3).double()
    strict = SoftGroupConv2d(2, 3, samples=4, kernel_size=3).double()
    state = {k: v for k, v in soft.state_dict().items() if "softness" not in k}
    state["net.first.weight"] = state["net.first.weight"][:, :4]
    strict.load_state_dict(state)
    x = torch.randn(2, 8, 7, 7, dtype=torch.float64)
    assert (soft(x) - strict(x)).abs().max() < 1e-12
    soft.variant = "window"
    assert (soft(x) - strict(x)).abs().max() < 1e-12


def test_one_soft_subgroup_leaves_the_other():
    for soft, broken in (("rotation", {"C4"}), ("translation", {"translation", "C4"})):
        layer = SoftGroupConv2d(2, 2, samples=4, kernel_size=3, hidden=8, **{f"{soft}_softness": 1.0}).double()
        errors = equivariance_errors(layer)
        # Where the kernel depends on the place, a turn about the center is not kept either, a change of the samples is.
        assert {name for name, error in errors.items() if error > 1e-2} == broken
        assert all(error < 1e-12 for name, error in errors.items() if name not in broken)
        assert {name for name, share in layer.relaxation().items() if share > 1e-2} == broken
    order = torch.tensor([3, 0, 1, 2])
    center = torch.zeros(2, 2, 4, 9, 9, dtype=torch.float64)
    center[..., 4, 4] = torch.randn(2, 2, 4, dtype=torch.float64)
    error = applied(layer, center[:, :, order])[..., 4, 4] - applied(layer, center)[..., 4, 4][:, :, order]
    assert error.abs().max() < 1e-12


@pytest.mark.parametrize("group", ["C4", "C8", "D4"])
def test_types_in_types_out(group):
    """A layer between field types is the layer between their numbers of fields."""
    plane = Grid2d(group)
    rgb, hidden = plane.field("3*trivial"), plane.field("2*regular")
    order = plane.stabilizer.order
    options = {"kernel_size": 3, "hidden": 8}
    for before, numbers in ((rgb, (3, 2)), (hidden, (2, 2))):
        torch.manual_seed(0)
        typed = SoftGroupConv2d(before, hidden, **options)
        torch.manual_seed(0)
        counted = SoftGroupConv2d(*numbers, samples=order, mirrored=group == "D4", lifting=before is rgb, **options)
        assert (typed.in_type, typed.out_type) == (counted.in_type, counted.out_type) == (before, hidden)
        x = torch.randn(1, before.dim, 9, 9)
        assert torch.equal(typed(x), counted(x))
        assert_equivariant(typed)
    with pytest.raises(InputError, match="regular fields of C_n or D_n"):
        SoftGroupConv2d(rgb, rgb)
    with pytest.raises(InputError, match="two field types, or two numbers"):
        SoftGroupConv2d(3, hidden)


def test_a_filter_only_turns_if_it_is_strict():
    """Rows of filters over the angles: turned back they are the same, unless the absolute angle is seen."""
    samples = grid(8)
    layer = SoftGroupConv2d(1, 1, samples=8, rotation_softness=0.0, domain="output").double()
    points = torch.randn(50, 2, dtype=torch.float64)
    for softness, constant in ((0.0, True), (1.0, False)):
        bank = []
        for g in range(8):
            one = Orientations(samples.elements[g : g + 1])
            seen = one.turned_back(points @ matrix(samples, g).T)[0]
            b = softness * one.elements[0, :, 0]  # (cos θ, sin θ)
            bank.append(layer.net([seen, torch.zeros(50, 2, dtype=torch.float64)], [b.expand(50, 2)]))
        spread = (torch.stack(bank) - bank[0]).abs().max()
        assert (spread < 1e-12) == constant


def jump(layer: SoftGroupConv2d | PartialGroupConv2d, angle: float, *, frame: float = 0.0) -> float:
    """How far the kernel jumps where the input angle passes ``angle``, relative to its largest entry."""
    sides = Orientations(from_angles(torch.tensor([angle - 1e-7, angle + 1e-7], dtype=torch.float64)))
    output = Orientations(from_angles(torch.tensor([frame], dtype=torch.float64)))
    kernel = layer.net(*layer._coordinates(torch.device("cpu"), (sides, output, 0), None)).detach()
    return float((kernel[..., 0, :, :] - kernel[..., 1, :, :]).abs().max() / kernel.abs().max())


CONTINUOUS = {
    "joint": {},
    "joint, sine": {"activation": "sin"},
    "joint, other frequency": {"rotation_frequency": 0.3},
    "fourier": {"net": "fourier"},
    "fourier, other frequency": {"net": "fourier", "rotation_frequency": 1.7},
    "fourier, integers": {"net": "fourier", "rotation_frequency": 2, "angles": "integer"},
    "reflections": {"mirrored": True, "samples": 8},
    "pointwise": {"kernel_size": 1},
    "output side": {"domain": "output"},
}


@pytest.mark.parametrize("options", CONTINUOUS.values(), ids=CONTINUOUS)
def test_kernels_are_continuous_on_the_circle_for_any_frequency(options):
    """Also where the absolute angle passes the cut at π, or the relative one, whatever ω' has been learned."""
    torch.manual_seed(0)
    shape = {"samples": 4, "kernel_size": 3, **options}
    for softness in (0.0, 0.5, 1.0, *(5 * torch.rand(5)).tolist()):
        layer = SoftGroupConv2d(1, 4, rotation_softness=softness, learn=True, **shape).double()
        for angle, frame in ((math.pi, 0.0), (math.pi, 1.0), (math.pi + 1.0, 1.0), (0.3, 1.1)):
            assert jump(layer, angle, frame=frame) < 1e-4, (softness, angle, frame)


def test_displacements_start_alike_whichever_way_angles_are_given():
    """A point has two coordinates and one degree of freedom: it does not make initial kernels smoother."""
    for options in ({}, {"rotation_softness": 1.0}, {"rotation_softness": 1.0, "mirrored": True}, {"lifting": True}):
        spreads = []
        for angles in ("circle", "principal"):
            torch.manual_seed(0)
            layer = SoftGroupConv2d(1, 1, 3, samples=4, hidden=4000, angles=angles, **options)
            spreads.append(layer.net.first.weight.detach()[:, :2].abs().max().item())
        assert spreads[0] == pytest.approx(spreads[1], rel=1e-2)


def test_angles_as_numbers_jump_and_the_test_sees_it():
    torch.manual_seed(0)
    for options in ({"net": "joint"}, {"net": "fourier"}):
        for softness in (0.5, 1.4, 2.3):
            layer = SoftGroupConv2d(1, 4, 3, samples=4, rotation_softness=softness, angles="principal", **options)
            assert jump(layer.double(), math.pi) > 0.1, (options, softness)
            assert jump(layer, 0.0) < 1e-4
    strict = SoftGroupConv2d(1, 4, 3, samples=4, angles="principal").double()
    assert jump(strict, math.pi + 1.0, frame=1.0) > 0.1, "the joint network also jumps in the relative angle"
    partial = {
        angles: PartialGroupConv2d(1, 4, 3, samples=4, angles=angles).double() for angles in ("circle", "principal")
    }
    assert jump(partial["circle"], math.pi) < 1e-4 < 0.1 < jump(partial["principal"], math.pi)


@pytest.mark.parametrize(
    "options", [{}, {"net": "fourier"}, {"net": "fourier", "angles": "integer"}, {"angles": "principal"}], ids=str
)
def test_every_form_learns_and_is_strict_at_zero(options):
    """ω' = 0 gives a kernel without the absolute angle, and is no stationary point."""
    torch.manual_seed(0)
    layer = SoftGroupConv2d(1, 2, 3, samples=4, rotation_softness=0.0, learn=True, **options).double()
    assert_equivariant(layer)
    x = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    layer(x).square().sum().backward()
    assert layer.rotation_softness.grad.abs() > 1e-6
    rates = []
    for step in (1e-4, -1e-4):
        with torch.no_grad():
            layer.rotation_softness.fill_(step)
            rates.append(layer(x).square().sum() / 2e-4)
    if options.get("angles") != "integer":  # its gradient is a straight-through one
        assert torch.allclose(layer.rotation_softness.grad[0], rates[0] - rates[1], rtol=1e-5)


def test_angles():
    """In (−π, π]; what is π up to rounding is π, whether it comes from above or from below."""
    two = torch.tensor([1, -1, 3, 0.5, -0.5], dtype=torch.float64) * math.pi
    expected = torch.tensor([1, 1, 1, 0.5, -0.5], dtype=torch.float64) * math.pi
    for off in (1e-13, -1e-13):
        for mirror in (False, True):
            angle, sign = angle_and_mirror(from_angles(two + off, mirror=mirror))
            assert torch.allclose(angle, expected)
            assert torch.equal(sign, torch.full_like(sign, -1.0 if mirror else 1.0))


@pytest.mark.parametrize("group", ["C6", "D4", "C1", "D1"])
def test_the_grid_is_the_group_in_its_order(group):
    stabilizer = Grid2d(group).stabilizer
    samples = grid(stabilizer.order, mirrored=group.startswith("D"))
    assert torch.allclose(samples.elements, stabilizer.standard.matrices, atol=1e-12)


def test_draws():
    def angles(generator: torch.Generator | None = None) -> torch.Tensor:
        return angle_and_mirror(draw(8, generator=generator).elements)[0] % (2 * math.pi)

    first = angles(torch.Generator().manual_seed(3))
    assert torch.equal(first, angles(torch.Generator().manual_seed(3)))
    steps = first.diff()
    assert torch.allclose(steps, torch.full_like(steps, math.pi / 4)), "one offset for all"
    assert 0 <= first[0] < math.pi / 4
    offsets = torch.stack([angles()[0] for _ in range(200)])
    assert offsets.min() < 0.1
    assert offsets.max() > math.pi / 4 - 0.1


def test_when_samples_are_drawn():
    x = torch.randn(1, 1, 5, 5)
    for sampling, in_training, in_evaluation in (
        ("grid", False, False),
        ("random", True, True),
        ("train", True, False),
    ):
        lift = SoftGroupConv2d(1, 2, samples=4, kernel_size=3, lifting=True, sampling=sampling)
        with torch.no_grad():
            for random, training in ((in_training, True), (in_evaluation, False)):
                lift.train(training)
                assert torch.equal(lift(x), lift(x)) != random
    layer = SoftGroupConv2d(2, 2, samples=4, kernel_size=3, sampling="random")
    with pytest.raises(InputError, match="in_samples, the samples at which the input was computed"):
        layer(torch.zeros(1, 8, 5, 5))
    samples = layer.draw()
    assert layer(torch.zeros(1, 8, 5, 5), samples).shape == (1, 8, 5, 5)
    assert layer(torch.zeros(1, 8, 5, 5), samples, grid(3)).shape == (1, 6, 5, 5)


def test_random_turns_of_the_disk_keep_all_taps():
    layer = SoftGroupConv2d(1, 1, samples=16, lifting=True)
    turned = draw(16).turned_back(layer.support.displacements())
    assert turned.shape == (16, 29, 2)
    assert turned.norm(dim=-1).max() < 1 + 1e-12


def test_a_kept_table_is_not_used_for_other_samples():
    layer = SoftGroupConv2d(1, 2, samples=4, kernel_size=3).eval()
    x = torch.randn(1, 4, 5, 5)
    one, two = grid(4), grid(4, offset=0.3)
    with torch.no_grad():
        first = layer(x, one, one)
        assert not torch.allclose(layer(x, one, two), first)
        assert torch.equal(layer(x, one, one), first)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "at least 1 group sample; got 0"),
        ({"samples": 7, "mirrored": True}, "an even number of group samples"),
        ({"sampling": "sobol"}, "sampling to be 'grid', 'random' or 'train'"),
        ({"rotation_softness": -1.0}, "finite softness of 0 or more"),
        ({"rotation_softness": float("nan")}, "finite softness of 0 or more"),
        ({"lifting": True, "rotation_softness": 1.0}, "no rotation_softness in a lifting layer"),
        ({"net": "fourier", "rotation_frequency": 0.5, "angles": "principal"}, "an integer rotation_frequency"),
        ({"angles": "integer"}, "net='fourier' with angles='integer'"),
        ({"angles": "round"}, "angles to be 'circle', 'principal' or 'integer'"),
        ({"kernel_size": 4}, "an odd kernel_size"),
    ],
)
def test_bad_options_are_explained(options, message):
    with pytest.raises(InputError, match=message):
        SoftGroupConv2d(2, 3, **options)


def test_a_wrong_number_of_samples_is_explained():
    with pytest.raises(InputError, match=r"16 channels, height, width\); got \(1, 8, 9, 9\)"):
        SoftGroupConv2d(2, 3)(torch.zeros(1, 8, 9, 9))

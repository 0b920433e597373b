"""The conformance suite: checks that every layer must pass, registered or your own."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from .._checked import checked
from ..errors import InputError
from ..nn import Layer, Relaxed, to_plain
from ..relaxed import relaxed_layers, to_equivariant_
from ..spaces import Cloud, Grid, HomogeneousSpace, Point, ScaleSpace, SphereGrid, Tuples, Zooms
from ._device import assert_follows_device
from ._equivariance import assert_equivariant, equivariance_errors, require_claim

Check = Callable[[Layer], None]
_DIALS = ("_softness", "extent", "keep")


@checked
def assert_conforms(layer: Layer, *, checks: Sequence[str] | None = None, seed: int = 0) -> tuple[str, ...]:
    """Check that a layer satisfies its claim and behaves like a torch module. An ``AssertionError`` says what fails.

    The claim must hold, and a broken version of the layer must fail it. Gradients must be correct. State keys must be
    the same in training and evaluation, and contain nothing derived. Copies, pickles, the plain version,
    ``torch.compile(fullgraph=True)``, ``torch.export``, float32 and bfloat16 autocast must give the same numbers. Wrong
    input must raise an InputError. All tensors must follow the input to another device. The layer itself is not
    changed.

    Args:
        layer: any :class:`~intertwine.nn.Layer`.
        checks: the names of the checks to run; default: all of :data:`CHECKS`.
        seed: the seed of weights and inputs.

    Returns:
        The names of the checks that ran.

    >>> from intertwine.groups import Cyclic
    >>> from intertwine.nn import Conv2d
    >>> from intertwine.spaces import Grid2d
    >>> C4 = Cyclic(4); field = Grid2d(C4).field(C4.regular)
    >>> assert_conforms(Conv2d(field, field, 3), checks=["claim", "state"])
    ('claim', 'state')
    """
    names = tuple(CHECKS if checks is None else checks)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        raise InputError(
            "assert_conforms",
            expected=f"names of checks among {', '.join(CHECKS)}",
            got=", ".join(unknown),
        )
    for name in names:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # torch.manual_seed is slow, and changes other devices too
            CHECKS[name](scrambled(layer))
    return names


def scrambled(layer: Layer) -> Layer:
    """A copy with random weights and statistics. Values of 0 or 1 could hide a mistake.

    Relaxed layers leave their equivariant point through ``perturb_``, because a dial is not a weight.
    """
    layer = copy.deepcopy(layer)
    relaxed = [module for _, module in relaxed_layers(layer)]
    with torch.no_grad():
        for name, p in layer.named_parameters():
            if not _is_dial(name):
                p.add_(0.3 * torch.randn_like(p))
        for each in relaxed:
            each.perturb_(0.3)
        for key, value in layer.state_dict().items():
            if "running" in key:
                value.add_(torch.rand_like(value))
    return layer


def _is_dial(name: str) -> bool:
    return name.endswith(_DIALS)


def example_inputs(layer: Layer, dtype: torch.dtype = torch.float32, *, min_size: int = 7) -> tuple[Tensor, ...]:
    """A small random field that the layer accepts, and its companions."""
    rows = 6 if layer.companions else 2
    noise = torch.Generator().manual_seed(0)
    x = torch.randn(rows, layer.in_type.dim, *_sizes(layer, min_size), dtype=dtype)
    return x, *(companion.draw(x, noise) for companion in layer.companions)


def _sizes(layer: Layer, min_size: int) -> tuple[int, ...]:
    space = layer.in_type.space
    if layer.fixed_sizes is not None:
        return layer.fixed_sizes
    if isinstance(space, HomogeneousSpace):
        return (space.points,)
    if isinstance(space, Point | Cloud):
        return ()
    if isinstance(space, Tuples):
        return (4,) * space.order
    if not isinstance(space, Grid | Zooms):
        return SphereGrid("gauss-legendre", 4).shape
    scales = (space.count,) if isinstance(space, ScaleSpace) else ()
    dimension = space.dimension if isinstance(space, Grid) else 2
    for n in range(min_size - 2 * (dimension == 3), 40):
        sizes = *scales, *[n] * dimension
        try:
            layer.output_sizes(sizes)
        except InputError:
            continue
        return sizes
    raise InputError(
        "assert_conforms",
        expected="a layer that accepts equal sizes below 40 along every axis",
        got=f"{type(layer).__name__}, which accepts none",
        fix="Try a smaller instance of the layer.",
    )


def _claim(layer: Layer) -> None:
    require_claim(layer, modes=(False, True), tolerance=1e-12)


class _Lopsided(Layer):
    """A layer whose input is multiplied by a ramp along every spatial axis, which breaks equivariance."""

    def __init__(self, layer: Layer) -> None:
        super().__init__(layer.in_type, layer.out_type, layer.claim)
        self.layer, self.fixed_sizes, self.companions = layer, layer.fixed_sizes, layer.companions
        self.keeps_space = layer.keeps_space

    @classmethod
    def examples(cls) -> Iterator[Layer]:
        return iter(())

    def forward(self, x: Tensor, *companions: Tensor) -> Tensor:
        if x.ndim == 2:  # no axes of space: the channels, and positions if there are any
            stretched = (y * torch.linspace(1, 2, y.shape[1], dtype=y.dtype) if _is_real(y) else y for y in companions)
            whole: Tensor = self.layer(x * torch.linspace(1, 2, x.shape[1], dtype=x.dtype) + 1, *stretched)
            return whole
        ramp = torch.ones((), dtype=x.dtype)
        for number, n in enumerate(x.shape[2:]):
            ramp = ramp[..., None] + torch.linspace(0, 1 + number, n, dtype=x.dtype)
        out: Tensor = self.layer(x * ramp + ramp, *companions)
        return out

    def output_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        return self.layer.output_sizes(sizes)

    def interior(self, sizes: Sequence[int]) -> tuple[int, int] | None:
        return self.layer.interior(sizes)

    def to_plain(self) -> torch.nn.Module:
        return to_plain(self.layer)


def _breaks(layer: Layer) -> None:
    """Negative control: a layer that cannot be equivariant must fail, and a relaxed share must show."""
    claim = layer.claim
    if isinstance(claim, Relaxed):
        _require_felt(layer, claim)
    try:
        assert_equivariant(_Lopsided(layer))
    except AssertionError:
        return
    raise AssertionError(f"{_name(layer)} still counts as equivariant after its input is multiplied by a ramp")


def _require_felt(layer: Layer, claim: Relaxed) -> None:
    """Raise an error unless a relaxed subgroup breaks the symmetry by at least a thousandth of its share."""
    errors = equivariance_errors(layer)
    for name, share in claim.shares.items():
        if share > 1e-3 and name in errors and not errors[name] > 1e-3 * share:
            raise AssertionError(
                f"{_name(layer)} claims a share of {share:.2g} outside {name} but commutes to {errors[name]:.2g}"
            )
    if not any(share > 1e-3 for share in claim.shares.values()):
        raise AssertionError(f"{_name(layer)} claims to be relaxed, but perturb_ relaxes nothing")


def _float32(layer: Layer) -> None:
    layer.eval()
    twin, inputs = copy.deepcopy(layer).double(), example_inputs(layer, torch.float64)
    with torch.no_grad():
        exact, single = twin(*inputs), layer(*(x.float() if x.is_floating_point() else x for x in inputs))
    _require(single.dtype == torch.float32, layer, "float32 output for float32 input")
    # Kernels that a network computes, of waves or of distances, round more than those that are sums.
    _require_close(single, exact, 1e-5 if _is_relaxed(layer) or layer.companions else 2e-6, layer, "float32")


def _gradients(layer: Layer) -> None:
    layer = layer.double()
    x, *rest = example_inputs(layer, torch.float64, min_size=4)
    x = (x if rest else x[:1]).requires_grad_()
    layer.train(not any("running" in key for key in layer.state_dict()))
    estimated = {name for _, part in relaxed_layers(layer) for name in part.surrogate_gradients}
    weights = [p for name, p in layer.named_parameters() if name.rpartition(".")[2] not in estimated]
    torch.autograd.gradcheck(
        lambda x, *_: _repeatable(layer, x, *rest), (x, *weights), eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True
    )


def _repeatable(layer: Layer, *inputs: Tensor) -> Tensor:
    """The output, with the same random numbers each time. Restores the running statistics afterward."""
    torch.default_generator.manual_seed(0)
    state = {key: value.clone() for key, value in layer.named_buffers() if "running" in key}
    out: Tensor = layer(*inputs)
    for key, value in layer.named_buffers():
        if key in state:
            value.data.copy_(state[key])
    return out


def _state(layer: Layer) -> None:
    fresh, inputs = set(layer.state_dict()), example_inputs(layer)
    for mode in (False, True, False):
        layer.train(mode)
        with torch.no_grad():
            layer(*inputs)
        _require(set(layer.state_dict()) == fresh, layer, "the same keys in training and evaluation")
    learned = {key for key, _ in layer.named_parameters() if not _is_setting(key)}
    kept = {key for key in fresh if "running" not in key and not _is_setting(key)}
    _require(kept == learned, layer, f"only weights and statistics in the state, not {sorted(kept - learned)}")
    other = scrambled(layer).eval()
    with torch.no_grad():
        other(*inputs)  # caches a filter, which loading must drop
        other.load_state_dict(layer.state_dict())
        _require(torch.equal(other(*inputs), layer.eval()(*inputs)), layer, "the same output after loading the state")


def _is_setting(key: str) -> bool:
    """Whether a state entry was chosen or drawn once, rather than derived from weights."""
    return key.endswith((*_DIALS, "filter_waves", "domain_waves"))


def _copies(layer: Layer) -> None:
    layer.eval()
    inputs = example_inputs(layer)
    for copied in (copy.deepcopy, _pickled):
        with torch.no_grad():
            before = layer(*inputs)  # caches a filter, if the layer has one
            twin = copied(layer)
            _require(torch.equal(twin(*inputs), before), layer, "a copy with the same output")
            same = (twin.in_type, twin.claim) == (layer.in_type, layer.claim)
            _require(same, layer, "a copy of the same type and claim")
            for p in twin.parameters():
                p.mul_(2)
            _require(torch.equal(layer(*inputs), before), layer, "a copy that shares nothing")


def _pickled(layer: Layer) -> Layer:
    twin: Layer = pickle.loads(pickle.dumps(layer))
    return twin


def _plain(layer: Layer) -> None:
    for dtype, tolerance in ((torch.float32, _traced_tolerance(layer)), (torch.float64, 1e-12)):
        ours = copy.deepcopy(layer).to(dtype).eval()
        plain, inputs = to_plain(ours), example_inputs(ours, dtype)
        free = not plain.training and not any(isinstance(module, Layer) for module in plain.modules())
        _require(free, layer, "a plain version in evaluation mode and without layers of this package")
        with torch.no_grad():
            _require_close(plain(*inputs), ours(*inputs), tolerance, layer, "the plain version")


def _traced_tolerance(layer: Layer) -> float:
    """Relaxed layers take another path under tracing, which rounds differently."""
    return 1e-5 if _is_relaxed(layer) else 1e-6


def _is_real(x: Tensor) -> bool:
    return x.is_floating_point() and x.ndim == 2


def _is_relaxed(layer: Layer) -> bool:
    """Whether a layer is relaxed. Kernels computed by a network have larger rounding errors than sums."""
    return isinstance(layer.claim, Relaxed)


def _shape_from_weights(layer: Layer) -> bool:
    return any(part.shape_from_weights for _, part in relaxed_layers(layer))


def _compile(layer: Layer) -> None:
    if _shape_from_weights(layer):
        return
    inputs = example_inputs(layer)
    torch._dynamo.reset()
    for mode in (True, False):
        layer.train(mode)
        expected = _repeatable(layer, *inputs)
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        torch.default_generator.manual_seed(0)
        _require_close(compiled(*inputs), expected, _traced_tolerance(layer), layer, "torch.compile")


def _export(layer: Layer) -> None:
    layer.eval()
    inputs = example_inputs(layer)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from the exporter itself
        for model in (to_plain(layer),) if _shape_from_weights(layer) else (layer, to_plain(layer)):
            exported = torch.export.export(model, inputs)
            _require_close(exported.module()(*inputs), layer(*inputs), _traced_tolerance(layer), layer, "torch.export")


def _autocast(layer: Layer) -> None:
    x, *rest = example_inputs(layer)
    inputs = x.requires_grad_(), *rest
    expected = _repeatable(layer, *inputs)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = _repeatable(layer, *inputs)
    _require_close(rounded, expected, 0.2 if _is_relaxed(layer) else 0.1, layer, "bfloat16 autocast")
    rounded.float().sum().backward()
    _require(x.grad is not None and bool(torch.isfinite(x.grad).all()), layer, "finite gradients under autocast")


def _device(layer: Layer) -> None:
    if _shape_from_weights(layer):  # tensors on meta have no values that could determine a shape
        to_equivariant_(layer)
    assert_follows_device(layer, *example_inputs(layer))


def _wrong_input(layer: Layer) -> None:
    x, *rest = example_inputs(layer)
    for wrong, mistake in ((torch.cat([x, x], 1), "twice the channels"), (x[None], "an extra axis")):
        try:
            layer(wrong, *rest)
        except InputError:
            continue
        raise AssertionError(f"{_name(layer)} accepts an input with {mistake} without an InputError")


def _require(holds: bool, layer: Layer, expectation: str) -> None:
    if not holds:
        raise AssertionError(f"{_name(layer)}: expected {expectation}")


def _require_close(actual: Tensor, expected: Tensor, tolerance: float, layer: Layer, way: str) -> None:
    error = float(((actual - expected).abs().max() / expected.abs().max().clamp_min(1e-30)).detach())
    _require(error <= tolerance, layer, f"the same numbers from {way} to {tolerance:g}; they differ by {error:.2g}")


def _name(layer: Layer) -> str:
    return f"{type(layer).__name__} from {layer.in_type} to {layer.out_type}"


CHECKS: dict[str, Check] = {
    "claim": _claim,
    "breaks": _breaks,
    "float32": _float32,
    "gradients": _gradients,
    "state": _state,
    "copies": _copies,
    "plain": _plain,
    "compile": _compile,
    "export": _export,
    "autocast": _autocast,
    "wrong input": _wrong_input,
    "device": _device,
}
"""The checks of :func:`assert_conforms` by name."""

"""Every public callable, given wrong arguments: it works, or it raises an error of this package that says why."""

from __future__ import annotations

import importlib
import inspect
import io
import math
import typing
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import intertwine as tw
from intertwine._checked import checked
from intertwine.errors import IntertwineError

ROOMS = (
    "groups", "spaces", "kernels", "nn", "relaxed", "topographic", "measure", "measure.metrics",
    "measure.graph", "measure.surgery", "data", "models", "testing", "train", "experiments", "experiments.relu",
    "discovery", "report",
)  # fmt: skip

C4, PLANE = tw.groups.Cyclic(4), tw.spaces.Grid2d(tw.groups.Cyclic(4))
FIELD = PLANE.field(C4.regular)

WRONG: dict[str, Any] = {
    "an int": 3,
    "a negative int": -1,
    "a text": "nonsense",
    "None": None,
    "a group": C4,
    "a representation": C4.regular,
    "a grid": PLANE,
    "a float": 0.5,
    "NaN": math.nan,
    "a list": [],
    "a tensor of rank 0": torch.tensor(1.0),
    "a tensor of rank 1": torch.zeros(3),
    "a tensor of integers": torch.zeros(2, 3, 8, 8, dtype=torch.int64),
    "a tensor of NaN": torch.full((2, 1, 8, 8), math.nan),
    "a tensor of complex numbers": torch.zeros(2, 1, 8, 8, dtype=torch.complex64),
}


def images() -> torch.Tensor:
    return torch.rand(4, 1, 8, 8)


def net() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 3)).eval()


RIGHT: dict[str, Callable[[Path], Any]] = {
    "int": lambda _: 2, "Positive": lambda _: 2, "float": lambda _: 0.5, "str": lambda _: "C4", "bool": lambda _: True,
    "Tensor": lambda _: images(), "Images": lambda _: images(), "Vector": lambda _: torch.arange(4) % 3,
    "nn.Module": lambda _: net(), "torch_nn.Module": lambda _: net(), "Sequence[nn.Module]": lambda _: [net(), net()],
    "FieldType": lambda _: FIELD, "Group": lambda _: C4, "FiniteGroup": lambda _: C4,
    "Representation": lambda _: C4.regular, "Grid": lambda _: PLANE, "Space": lambda _: PLANE,
    "Layer": lambda _: tw.nn.ReLU(FIELD), "Path": lambda folder: folder / "file", "Any": lambda _: 1,
    "SymmetryLike": lambda _: "hflip", "SymmetryLike | Transformation": lambda _: "hflip",
    "str | Path": lambda folder: str(folder / "file"),
    "SphereGrid": lambda _: tw.spaces.SphereGrid("gauss-legendre", 3), "int | Sequence[int]": lambda _: 3,
    "Pair": lambda _: 3, "Sequence[int]": lambda _: (3, 3), "torch.Generator": lambda _: torch.Generator(),
    "Callable[[Tensor], Tensor]": lambda _: torch.relu,
    "HomogeneousSpace": lambda _: tw.spaces.HomogeneousSpace(C4, C4.subgroup([2])),
    "tuple[int, ...]": lambda _: (2, 2), "tuple[int, int]": lambda _: (4, 4),
    "tuple[int, int, int]": lambda _: (1, 8, 8), "Mapping[str, Any]": lambda _: {"a": 1},
    "Sequence[str]": lambda _: ("a",), "str | Space | FieldType": lambda _: "D4", "str | Space": lambda _: "D4",
    "Sequence[TensorMap]": lambda _: [torch.Tensor.contiguous, lambda x: x.flip(-1)],
    "Sequence[float]": lambda _: (0.5, 0.5),
    "GroupName": lambda _: "C4", "Depth": lambda _: 18, "Size": lambda _: "tiny",
}  # fmt: skip
"""By the annotation of a parameter, what makes a value that fits. Each call gets a new one, since it may change it."""


def right_values(parameters: list[inspect.Parameter], folder: Path) -> dict[inspect.Parameter, Any]:
    torch.default_generator.manual_seed(0)  # torch.manual_seed would take half the time of this file
    return {p: RIGHT.get(str(p.annotation), lambda _: 2)(folder) for p in parameters}


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    for room in ROOMS:
        module = importlib.import_module(f"intertwine.{room}")
        shown = vars(importlib.import_module(module.__name__.rpartition(".")[0]))
        for name in dir(module):  # not vars: some rooms import their names on first use
            value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or not callable(value):
                continue
            if shown.get(name) is value:
                continue  # a sub-package: its room shows this name too
            if typing.get_origin(value) is not None or (inspect.isclass(value) and issubclass(value, BaseException)):
                continue  # an alias of types; an error
            if not inspect.isabstract(value) and not getattr(value, "_is_protocol", False):
                yield f"{room}.{name}", value


def instances() -> list[Any]:
    groups = tw.groups
    so2, so3, d4 = groups.SO2(), groups.SO3(), groups.Dihedral(4)
    coset = tw.spaces.HomogeneousSpace(d4, d4.subgroup([4]))
    types = [
        PLANE.field(C4.regular + C4.trivial),
        tw.spaces.Sphere().field(so2.irrep(1)),
        coset.field(coset.stabilizer.regular),
    ]
    return [
        C4, d4, groups.Symmetric(3), so2, so3, groups.O2(), groups.O3(), groups.SE2(), groups.Translations(2),
        C4.regular, C4.regular + C4.trivial, d4.regular.restrict(d4.subgroup([4])), so3.irrep(2),
        so2.irrep(1) @ so2.irrep(1),
        PLANE, tw.spaces.Grid3d(groups.Octahedral()), tw.spaces.Sphere(), coset, *types, tw.spaces.Grid1d("D1"),
        tw.spaces.Point("D4"), PLANE.axis_move(1), tw.measure.Symmetry("D4"),
        tw.spaces.FieldAction.of(FIELD), tw.data.RandomMotion("D4"),
        tw.kernels.solve(FIELD, FIELD, kernel_size=3), tw.kernels.solve(types[2], types[2]),
        tw.kernels.solve(FIELD, FIELD, kernel_size=3, method="free"), tw.kernels.HermiteKernelBasis(order=1, sigma=1.0),
        tw.spaces.ScalePlane(), tw.spaces.ScaleSpace(base=1.5, count=3),
    ]  # fmt: skip


def public_methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Each method once, of the first object that has it."""
    seen = set()
    for owner in instances():
        for name in dir(type(owner)):
            if not name.startswith("_") or name == "__call__":
                method = inspect.getattr_static(type(owner), name)
                function = getattr(method, "__func__", method)
                if inspect.isfunction(function) and function not in seen:
                    seen.add(function)
                    yield f"{owner}.{name}", getattr(owner, name)


FUNCTIONS = ("Callable", "Score", "Likelihood", "BandLimit", "Progress")
"""Words in the annotations of functions."""

LONG = {
    "C4.from_presentation",
    "demo.run_demo",
    "demo.train_capsules",
    "demo.TurningDigits",
    "report.Explorer",
}
"""Callables that work for seconds or minutes when their arguments are right: here all of their arguments are wrong."""


NARROW = {
    "models.convnext": 0.5,
    "models.resnet": 0.5,
    "models.unet": 0.5,
    "models.wide_resnet": 0.5,
    "models.VGG11": 0.0625,
    "models.GVGG11": 0.0625,
}
"""Widths for networks that would take seconds to build in their full width."""


def wrong_calls(name: str, target: Callable[..., Any], folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls with all arguments wrong, then with one wrong among right ones."""
    parameters = [p for p in inspect.signature(target).parameters.values() if p.kind is not p.VAR_KEYWORD]
    required = [p for p in parameters if p.default is p.empty]
    narrow = {p: NARROW[name] for p in parameters if name in NARROW and p.name == "width"}
    if required:
        for what, value in WRONG.items():
            if callable(value) and any("Callable" in str(p.annotation) for p in required):
                continue
            yield f"{what} everywhere", _call(target, dict.fromkeys(required, value) | narrow)
    if name in LONG:
        return
    for wrong in parameters:
        for what, value in WRONG.items():
            if callable(value) and any(word in str(wrong.annotation) for word in FUNCTIONS):
                continue  # a representation is a function; what it raises when it is called is not the caller's error
            chosen = narrow | right_values([p for p in required if p is not wrong], folder) | {wrong: value}
            yield f"{what} as {wrong.name}", _call(target, {p: chosen[p] for p in parameters if p in chosen})


def _call(target: Callable[..., Any], chosen: dict[inspect.Parameter, Any]) -> Callable[[], Any]:
    starred = any(p.kind is p.VAR_POSITIONAL for p in chosen)
    by_place = [
        value
        for p, value in chosen.items()
        if p.kind is p.POSITIONAL_ONLY or (starred and p.kind is not p.KEYWORD_ONLY)
    ]
    return partial(target, *by_place, **{p.name: value for p, value in list(chosen.items())[len(by_place) :]})


def complaints(name: str, target: Callable[..., Any], folder: Path) -> list[str]:
    """What escapes that is no error of this package."""
    bare = []
    for what, call in wrong_calls(name, target, folder):
        try:
            with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                warnings.simplefilter("ignore")
                call()
        except IntertwineError:
            pass
        except AssertionError as error:
            if not name.startswith("testing.assert_"):  # for these it is an answer
                bare.append(f"{name} with {what}: {error}")
        except Exception as error:
            bare.append(f"{name} with {what}: {type(error).__name__}: {str(error)[:150]}")
    return bare


def networks() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Layers and models, to be called with something else than their input."""
    for layer in tw.nn.LAYERS.values():
        yield f"{layer.__name__}(...)", next(iter(layer.examples())).forward
    models, vae = tw.models, {"capsules": 3, "length": 5}
    for model in (
        models.GroupCNN(C4, 1, 10), models.VGG11(width=0.0625), models.GVGG11(width=0.0625), models.LeNet5(1, 28, 10),
        models.SimpleNet(1, 12, 3, width=4), models.SoftResNet(1, 3, samples=4, width=4),
        models.TopographicVAE((1, 8, 8), window=3, **vae), models.BubbleVAE((1, 8, 8), window=3, **vae),
        models.VAE((1, 8, 8), **vae),
    ):  # fmt: skip
        yield f"models.{type(model).__name__}(...)", model.forward


EVERYTHING = [*public_callables(), *public_methods(), *networks()]


@pytest.mark.parametrize(("name", "target"), [pytest.param(*pair, id=pair[0]) for pair in EVERYTHING])
def test_wrong_arguments_are_explained(
    name: str, target: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    problems = complaints(name, target, tmp_path)
    assert not problems, "\n".join(problems[:20])


def test_a_bare_error_is_noticed(tmp_path: Path) -> None:
    def careless(group: tw.groups.Group) -> str:
        return group.name

    assert complaints("careless", careless, tmp_path)
    assert not complaints("careful", checked(careless), tmp_path)


def test_a_class_that_only_type_checkers_import_is_found_in_the_sub_package_or_in_the_room() -> None:
    """``group: FiniteGroup`` in a file that finite groups import, and the same from another sub-package."""
    matrices = torch.eye(2).expand(3, 2, 2)
    with pytest.raises(IntertwineError, match="expected group to be a FiniteGroup; got 3"):
        tw.groups.MatrixRepresentation(3, matrices, name="given")  # type: ignore[arg-type]

    def far(group: FiniteGroup) -> None:  # type: ignore[name-defined]  # noqa: F821
        """Pretends to stand in a file of ``groups/lie``, whose face does not have the class."""

    far.__module__ = "intertwine.groups.lie._somewhere"
    with pytest.raises(IntertwineError, match="expected group to be a FiniteGroup; got 3"):
        checked(far)(3)

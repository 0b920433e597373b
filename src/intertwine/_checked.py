"""Checks the arguments of public functions against their annotations.

A wrong argument should fail where it enters the package. Without this check, ``Conv2d(3, 8, 3)`` fails deep inside
with ``'int' object has no attribute 'space'``. The annotations already say what is expected, so they double as the
check: one decorator, and nothing to keep in sync.

An annotation can also restrict values, see :data:`Positive`. Functions check anything less common themselves.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import wraps
from itertools import chain, islice, repeat
from numbers import Integral, Real
from typing import Annotated, Any, Literal, TypeVar

import torch

from .errors import InputError, shortened

Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True)
class Where:
    """A condition on values, with its wording: ``Annotated[int, Where("1 or more", lambda n: n >= 1)]``."""

    words: str
    holds: Callable[[Any], bool]


def tensor_of(*ranks: int) -> Where:
    """The condition that a tensor has one of these ranks."""
    return Where(f"rank {' or '.join(map(str, ranks))}", lambda x: x.ndim in ranks)


Positive = Annotated[int, Where("1 or more", lambda n: n >= 1)]
"""A number of channels, classes or images."""

NonNegative = Annotated[int, Where("0 or more", lambda n: n >= 0)]
"""A degree or a band limit."""

Floats = Annotated[torch.Tensor, Where("floating point numbers", lambda x: x.is_floating_point())]
"""Images, sequences and other network inputs."""

Vector = Annotated[torch.Tensor, tensor_of(1)]
Matrix = Annotated[torch.Tensor, tensor_of(2)]

_MAX_ITEMS = 1000  # how many items of a container are checked
_MAX_REPR = 80
_UNIONS = (typing.Union, types.UnionType)


_PLANS: dict[Callable[..., Any], _Plan] = {}
"""The plans of functions called so far. Not in the decorator's closure, because torch.compile would guard on it."""


def checked(target: Target) -> Target:
    """Make a function, method or dataclass raise :class:`InputError` for arguments that contradict its annotations.

    A class attribute ``how_to_make`` tells readers of the error how to get an object of that class. Annotations
    imported for type checkers only are skipped. While torch traces a program, nothing is checked.

    >>> @checked
    ... def double(n: int) -> int:
    ...     return 2 * n
    >>> double("2")
    Traceback (most recent call last):
    intertwine.errors.InputError: double: expected n to be a whole number; got '2'.
    """
    if inspect.isclass(target):
        target.__init__ = checked(target.__init__)  # type: ignore[method-assign]
        return target

    @wraps(target)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            plan = _PLANS.get(target) or _PLANS.setdefault(target, _Plan(inspect.unwrap(target)))
            for parameter, value in zip(plan.in_order(), args, strict=False):
                if type(value) not in parameter.seen and not parameter.accepts(value):
                    raise _wrong(target, args, parameter, value)
            for name, value in kwargs.items():
                named = plan.named.get(name)
                if named is not None and type(value) not in named.seen and not named.accepts(value):
                    raise _wrong(target, args, named, value)
        return target(*args, **kwargs)

    return typing.cast(Target, call)


def matches(value: object, hint: Any) -> bool:
    """Whether a value matches an annotation.

    NumPy numbers count as numbers; True and False don't. A string does not count as a sequence of strings.

    >>> matches((3, 4), int | Sequence[int]), matches("34", Sequence[str]), matches(True, int)
    (True, False, False)
    """
    if hint in (Any, object, inspect.Parameter.empty) or isinstance(hint, str):
        return True
    if isinstance(hint, TypeVar):
        return hint.__bound__ is None or matches(value, hint.__bound__)
    if hint is None:
        return value is None
    if hint is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if hint is float:
        return isinstance(value, Real) and not isinstance(value, bool)
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in _UNIONS:
        return any(matches(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if origin is Annotated:
        return matches(value, inner[0]) and all(each.holds(value) for each in inner[1:] if isinstance(each, Where))
    if origin is not None:
        return _matches_generic(value, origin, inner)
    if getattr(hint, "_is_protocol", False):
        return all(hasattr(value, name) for name in _members(hint))
    return not isinstance(hint, type) or isinstance(value, hint)


def _members(protocol: type) -> set[str]:
    """The attribute names that an object needs to satisfy a protocol."""
    inherited = [kind for kind in protocol.__mro__ if getattr(kind, "_is_protocol", False)]
    return {name for kind in inherited for name in {**vars(kind), **kind.__annotations__} if not name.startswith("_")}


def _matches_generic(value: object, origin: Any, inner: tuple[Any, ...]) -> bool:
    if origin is Callable:
        return callable(value)
    if origin is type:
        bound = getattr(inner[0], "__bound__", inner[0])
        return isinstance(value, type) and (not isinstance(bound, type) or issubclass(value, bound))
    if not isinstance(value, origin) or isinstance(value, torch.Tensor):  # a tensor is not a sequence of numbers
        return False
    if origin is tuple and inner[-1:] != (...,):
        return len(value) == len(inner) and all(map(matches, value, inner))
    if issubclass(origin, Mapping):
        return all(matches(k, inner[0]) and matches(v, inner[1]) for k, v in islice(value.items(), _MAX_ITEMS))
    if isinstance(value, str):
        return False  # its letters are strings again, so it would match Sequence[str]
    if isinstance(value, Sequence | Set) and issubclass(origin, Iterable):
        return all(matches(each, inner[0]) for each in islice(value, _MAX_ITEMS))
    return True


class _Parameter:
    """One parameter of a function: its name and its evaluated annotation.

    Group elements are composed thousands of times, so a check must be cheap. Where the type of a value decides, types
    accepted once are remembered in ``seen``.
    """

    def __init__(self, parameter: inspect.Parameter, names: dict[str, Any]) -> None:
        self.name = parameter.name
        self.hint = _resolved(parameter.annotation, names)
        self.seen: set[type] = set()
        self._type_decides = _is_plain(self.hint)

    def accepts(self, value: object) -> bool:
        if not matches(value, self.hint):
            return False
        if self._type_decides:
            self.seen.add(type(value))
        return True


def _is_plain(hint: Any) -> bool:
    """Whether the type of a value alone decides if the value matches an annotation."""
    if typing.get_origin(hint) in _UNIONS:
        return all(map(_is_plain, typing.get_args(hint)))
    return hint in (Any, object, inspect.Parameter.empty, None) or (
        isinstance(hint, type) and typing.get_origin(hint) is None and not getattr(hint, "_is_protocol", False)
    )


class _Plan:
    """The parameters of a function; ``rest`` is its ``*args`` parameter, which takes all remaining arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.named: dict[str, _Parameter] = {}
        self.ordered: list[_Parameter] = []
        self.rest: _Parameter | None = None
        # To avoid import cycles, some classes are imported for type checkers only. Look them up in the enclosing
        # packages, which export them.
        names: dict[str, Any] = {}
        package = function.__module__.rpartition(".")[0]
        while "." in package:  # stop before intertwine itself: it holds modules, not classes
            names = {**vars(sys.modules[package]), **names}
            package = package.rpartition(".")[0]
        names |= function.__globals__
        for name, parameter in inspect.signature(function).parameters.items():
            described = _Parameter(parameter, names)
            if parameter.kind is parameter.VAR_POSITIONAL:
                self.rest = described
            elif parameter.kind is not parameter.VAR_KEYWORD:
                self.named[name] = described
                if parameter.kind is not parameter.KEYWORD_ONLY:
                    self.ordered.append(described)

    def in_order(self) -> Iterable[_Parameter]:
        return self.ordered if self.rest is None else chain(self.ordered, repeat(self.rest))


def _resolved(annotation: Any, names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, names)  # safe: the annotation is our own source code
    except NameError:  # imported for type checkers only
        return Any


def _wrong(function: Callable[..., Any], args: tuple[Any, ...], parameter: _Parameter, value: object) -> InputError:
    return InputError(
        _name_of_call(function, args),
        expected=f"{parameter.name} to be {in_words(parameter.hint)}",
        got=describe(value),
        fix=_advice(parameter.hint, value),
    )


def _name_of_call(function: Callable[..., Any], args: tuple[Any, ...]) -> str:
    """``Conv2d`` for a constructor, ``Dihedral.irrep`` for a method. Names the object's class, not the base class."""
    is_method = "." in function.__qualname__.rpartition(">.")[2]
    if not is_method or not args:
        return function.__name__
    owner = args[0] if inspect.isclass(args[0]) else type(args[0])
    return owner.__name__ if function.__name__ == "__init__" else f"{owner.__name__}.{function.__name__}"


def _advice(hint: Any, value: object) -> str:
    options = typing.get_args(hint) or (hint,)
    if torch.nn.Module in options and callable(value):
        return "Wrap the function in a module, as torch.nn.Tanh does with torch.tanh."
    for each in options:
        advice = getattr(each, "how_to_make", None)
        if isinstance(advice, str):
            return advice
    return ""


_PLAIN = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "True or False",
    type(None): "None",
    torch.Tensor: "a tensor",
    torch.nn.Module: "a torch.nn.Module",
}


def in_words(hint: Any) -> str:
    """An annotation as an error message words it.

    >>> in_words(int | Sequence[float] | None), in_words(Literal["input", "output"])
    ('a whole number, a sequence of float or None', "'input' or 'output'")
    >>> in_words(Target)
    'a function'
    """
    if isinstance(hint, TypeVar):
        return in_words(hint.__bound__) if hint.__bound__ is not None else "any value"
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint in _PLAIN:
        return _PLAIN[hint]
    if origin in _UNIONS:
        return _any_of([in_words(each) for each in inner])
    if origin is Literal:
        return _any_of([repr(each) for each in inner])
    if origin is Annotated:
        return " of ".join([in_words(inner[0]), *(each.words for each in inner[1:] if isinstance(each, Where))])
    if origin is Callable:
        return "a function"
    if origin is tuple:
        return f"a tuple ({', '.join(map(_name, inner))})"
    if origin is not None:
        kind = _with_article(origin.__name__.lower())
        return f"{kind} of {', '.join(_name(each) for each in inner)}" if inner else kind
    return _with_article(_name(hint))


def _any_of(options: list[str]) -> str:
    return " or ".join(filter(None, [", ".join(options[:-1]), options[-1]]))


def _name(hint: Any) -> str:
    return "..." if hint is ... else getattr(hint, "__name__", str(hint))


def _with_article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiouAEIOU' else 'a'} {noun}"


def describe(value: object) -> str:
    """A value as an error message words it: short, with its type if that is not obvious.

    >>> describe(3), describe(torch.zeros(2, 3)), describe(int)
    ('3', 'a tensor of shape (2, 3) and dtype float32', 'the class int')
    """
    if value is None or isinstance(value, int | float | str):
        return shortened(repr(value), _MAX_REPR)
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {tuple(value.shape)} and dtype {str(value.dtype).removeprefix('torch.')}"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    kind = _with_article(type(value).__name__)
    try:
        text = repr(value)
    except Exception:  # a user's class may have a broken __repr__
        return kind
    return kind if "\n" in text or text.startswith("<") else f"{shortened(text, _MAX_REPR)}, {kind}"


def require_index(x: int | torch.Tensor, count: int, *, caller: str, what: str, fix: str) -> int | torch.Tensor:
    """Return ``x`` if it is a number from 0 to ``count`` - 1 or a tensor of such numbers; raise an error otherwise.

    >>> require_index(torch.tensor([0, 3]), 4, caller="example", what="points", fix="")
    tensor([0, 3])
    """
    if isinstance(x, int):
        inside = 0 <= x < count
    elif not isinstance(x, torch.Tensor) or x.is_floating_point() or x.is_complex() or x.dtype == torch.bool:
        inside = False
    else:
        inside = not x.numel() or bool(x.min() >= 0 and x.max() < count)
    if not inside:
        is_short = isinstance(x, torch.Tensor) and x.numel() <= 8
        got = str(torch.as_tensor(x).tolist()) if is_short else describe(x)
        raise InputError(caller, expected=f"{what} 0..{count - 1}", got=got, fix=fix)
    return x

"""The errors this package raises on purpose.

Each message names the function or file, what was expected, what came instead and, if there is something to do, the fix.
All errors derive from :class:`IntertwineError`, so one ``except`` clause catches them and nothing else.
"""

from __future__ import annotations

import re

_MAX_PART = 1000
"""The maximum number of characters in one part of a message. Input of any length may end up in a message."""


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def shortened(text: str, max_length: int = _MAX_PART) -> str:
    """The text in printable form: only both ends if it is long, and control characters escaped.

    >>> shortened("abcdefghij" * 10, 40)
    'abcdefghij … (80 more characters) … abcdefghij'
    """
    if len(text) > max_length:
        end = max_length // 4
        text = f"{text[:end]} … ({len(text) - 2 * end} more characters) … {text[-end:]}"
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)  # a terminal would obey raw ones


class IntertwineError(Exception):
    """Base class of all errors in this package.

    Args:
        caller: the function, class or file that raises the error.
        expected: what it needs.
        got: what it was given.
        fix: what the reader can do about it, if there is something to say.

    Each part passes through :func:`shortened`.
    """

    def __init__(self, caller: str, *, expected: str, got: str, fix: str = "") -> None:
        caller, expected, got, fix = shortened(caller), shortened(expected), shortened(got), shortened(fix)
        self.caller, self.expected, self.got, self.fix = caller, expected, got, fix
        super().__init__(f"{caller}: expected {expected}; got {got}. {fix}".rstrip())

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive the default pickling of exceptions (multiprocessing, xdist).
        return (_rebuild, (type(self), self.caller, self.expected, self.got, self.fix))


def _rebuild(kind: type[IntertwineError], caller: str, expected: str, got: str, fix: str) -> IntertwineError:
    return kind(caller, expected=expected, got=got, fix=fix)


class InputError(IntertwineError, ValueError):
    """An argument has the wrong value."""


class GroupLawError(InputError):
    """A table or a set of generators does not define a group."""


class SubgroupError(InputError):
    """A set of elements is not a subgroup, or belongs to another group."""


class RepresentationError(InputError):
    """Matrices are not a representation, or two representations belong to different groups."""


class TypeMismatchError(InputError):
    """Two field types do not fit together."""


class EmptyKernelSpaceError(InputError):
    """The only equivariant kernel is zero."""


class ParseError(InputError):
    """A name could not be understood."""


class SizeLimitError(IntertwineError, MemoryError):
    """The result would not fit in memory."""


class NumericalError(IntertwineError, ArithmeticError):
    """Two computations that must agree do not: a bug in this package or an ill-conditioned input."""


class MissingExtraError(IntertwineError, ImportError):
    """An optional dependency is not installed."""


class UnsafeFileError(InputError):
    """A file would run code when read. None of it ran."""


class StorageError(IntertwineError, OSError):
    """A file cannot be written or read: a full disk, a read-only folder, another process's lock."""


class BusyError(StorageError):
    """Another process is using the folder."""


class NonFiniteError(IntertwineError, ArithmeticError):
    """A loss or a weight became infinite or not a number."""


class LostWorkerError(IntertwineError, RuntimeError):
    """Another process of a distributed run ended or stopped responding."""

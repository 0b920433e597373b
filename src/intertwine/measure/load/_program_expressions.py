"""Check size expressions in exported programs: only arithmetic that is cheap to evaluate is accepted.

torch passes these texts to sympy, which evaluates them as Python. So each one is parsed, checked and rewritten, with
bounds on everything that could keep sympy busy: the length, the depth, the digits of a number, and the terms of an
expanded product.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

LONGEST = 4000
DEEPEST = 25
MAX_NODES = 400
MAX_SLOW = 8
MAX_BITS = 1024
MAX_TERMS = 500
LARGEST_POWER = 16
SIZE_BITS = 63
"""The bits of a tensor size."""

SYMBOL = re.compile(r"[a-z]{1,4}\d{1,5}", re.ASCII)
"""The names that torch gives to unknown sizes, such as s77 and u0."""

_PRODUCTS = frozenset({"Mul", "IntTrueDiv", "FloatTrueDiv", "FloorDiv", "CleanDiv", "CeilDiv", "Mod", "PythonMod"})
_SUMS = frozenset({"Add", "Max", "Min", "And", "Or", "Where", "ModularIndexing"})
_COMPARISONS = frozenset(
    {"Eq", "Ne", "Gt", "Ge", "Lt", "Le", "Equality", "Unequality", "GreaterThan", "StrictGreaterThan", "LessThan"}
    | {"StrictLessThan"}
)
_SINGLE = frozenset(
    {"Abs", "Not", "ToFloat", "TruncToInt", "TruncToFloat", "CeilToInt", "FloorToInt", "RoundToInt", "Identity"}
    | {"ceiling", "floor"}
)
_POWERS = frozenset({"Pow", "PowByNatural"})
_SLOW = frozenset({"Max", "Min", "Where", "And", "Or"})  # sympy compares their arguments in pairs
_CONSTANTS = frozenset({"true", "false", "True", "False"})
_OPERATORS = {
    ast.Add: "Add", ast.Sub: "Add", ast.Mult: "Mul", ast.Div: "FloorDiv", ast.FloorDiv: "FloorDiv", ast.Mod: "Mod",
    ast.Pow: "Pow", ast.USub: "Abs", ast.UAdd: "Abs",
}  # fmt: skip
_ORDER = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,40})?(e[+-]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class _Cost:
    """The maximum size of the value, and the number of terms when expanded."""

    bits: int
    terms: int


class _TooMuchError(ValueError):
    pass


def cheap_expression(text: str) -> str | None:
    """The expression, rewritten, if it is cheap arithmetic of sizes; None otherwise.

    >>> cheap_expression("2*s0 + FloorDiv(s1 - 1, 2)")
    '2 * s0 + FloorDiv(s1 - 1, 2)'
    >>> cheap_expression("Pow(9, Pow(9, Pow(9, 9)))")
    >>> cheap_expression("__import__('os').system('true')")
    """
    if len(text) > LONGEST:
        return None
    try:
        tree = ast.parse(text, mode="eval")
        nodes = list(ast.walk(tree))
        if len(nodes) > MAX_NODES or sum(isinstance(n, ast.Name) and n.id in _SLOW for n in nodes) > MAX_SLOW:
            return None
        _cost(tree.body, 0)
        return ast.unparse(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # what the parser raises for deep nesting
        return None


def _cost(node: ast.expr, depth: int) -> _Cost:
    """The cost of a node; raises ValueError if it is unknown or too expensive."""
    if depth > DEEPEST:
        raise _TooMuchError
    if isinstance(node, ast.Constant):
        return _number(node.value)
    if isinstance(node, ast.Name) and (node.id in _CONSTANTS or SYMBOL.fullmatch(node.id)):
        return _Cost(SIZE_BITS, 1)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _cost(node.operand, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _combined(_OPERATORS[type(node.op)], [node.left, node.right], depth)
    if isinstance(node, ast.Compare) and all(isinstance(op, _ORDER) for op in node.ops):
        return _combined("Add", [node.left, *node.comparators], depth)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node.func.id, node, depth)
    raise _TooMuchError


def _call(name: str, node: ast.Call, depth: int) -> _Cost:
    if name == "Symbol":
        return _symbol(node)
    if name in ("Integer", "Rational"):
        if node.keywords or not all(isinstance(_unsigned(arg), ast.Constant) for arg in node.args):
            raise _TooMuchError
        return max((_cost(arg, depth + 1) for arg in node.args), key=lambda cost: cost.bits)
    if name == "Float":
        return _float(node)
    if node.keywords or name not in _PRODUCTS | _SUMS | _COMPARISONS | _SINGLE | _POWERS:
        raise _TooMuchError
    return _combined(name, node.args, depth)


def _symbol(node: ast.Call) -> _Cost:
    flags = {word.arg: word.value for word in node.keywords}
    known = {"positive", "integer", "nonnegative", "real", "negative", "zero", "nonzero"}
    if (
        len(node.args) != 1
        or not isinstance(node.args[0], ast.Constant)
        or not isinstance(node.args[0].value, str)
        or not SYMBOL.fullmatch(node.args[0].value)
        or not set(flags) <= known
        or not all(isinstance(value, ast.Constant) and isinstance(value.value, bool) for value in flags.values())
    ):
        raise _TooMuchError
    return _Cost(SIZE_BITS, 1)


def _float(node: ast.Call) -> _Cost:
    """A float in sympy's format: ``Float('0.5', precision=53)``."""
    precisions = [word.value for word in node.keywords if word.arg == "precision"]
    if (
        len(node.args) != 1
        or not isinstance(node.args[0], ast.Constant)
        or not isinstance(node.args[0].value, str)
        or not _NUMBER.fullmatch(node.args[0].value)
        or not math.isfinite(float(node.args[0].value))
        or len(precisions) != len(node.keywords)
        or not all(isinstance(value, ast.Constant) and value.value in (15, 53) for value in precisions)
    ):
        raise _TooMuchError
    return _Cost(MAX_BITS, 1)


def _number(value: object) -> _Cost:
    if isinstance(value, int) and abs(value) < 2**64:  # a bool counts as one
        return _Cost(max(int(value).bit_length(), 1), 1)
    if isinstance(value, float) and math.isfinite(value):
        return _Cost(MAX_BITS, 1)
    raise _TooMuchError


def _combined(name: str, args: Sequence[ast.expr], depth: int) -> _Cost:
    if not args:
        raise _TooMuchError
    if name in _POWERS:
        power = _exponent(args)
        base = _cost(args[0], depth + 1)
        cost = _Cost(base.bits * power, base.terms**power)
    else:
        costs = [_cost(arg, depth + 1) for arg in args]
        bits, terms = [cost.bits for cost in costs], [cost.terms for cost in costs]
        cost = _Cost(sum(bits), math.prod(terms)) if name in _PRODUCTS else _Cost(max(bits) + len(args), sum(terms))
    if cost.bits > 4 * MAX_BITS or cost.terms > MAX_TERMS:
        raise _TooMuchError
    return cost


def _exponent(args: Sequence[ast.expr]) -> int:
    """The absolute value of an exponent, which must be a literal integer."""
    if len(args) != 2:
        raise _TooMuchError
    value = args[1]
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Integer":
        if len(value.args) != 1:
            raise _TooMuchError
        value = value.args[0]
    value = _unsigned(value)
    if not isinstance(value, ast.Constant) or not isinstance(value.value, int) or value.value > LARGEST_POWER:
        raise _TooMuchError
    return max(int(value.value), 1)


def _unsigned(node: ast.expr) -> ast.expr:
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)) else node

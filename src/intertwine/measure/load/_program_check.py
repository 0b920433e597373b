"""Check the description of an exported program, and rebuild it field by field.

torch turns the description into Python source and runs it: names become variables, and expressions are evaluated. Only
checked values are copied; unknown fields, and fields that only help debugging, are left out.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..._untrusted import parse_json
from ...errors import InputError
from ._program_expressions import SIZE_BITS, SYMBOL, cheap_expression
from ._program_operators import NUMBERS, REGIONS, is_computation

MAX_STEPS = 50_000
MAX_AXES = 25
DEEPEST_REGION = 3
LONGEST_LIST = 10_000
LONGEST_TEXT = 2_000
MAX_BITS = 8192
LONGEST_EXPRESSIONS = 10**7
LONGEST_DIFFERENT = 200_000
"""Characters of all expressions, and of different ones; a large network with dynamic height and width has a tenth."""
LARGEST_POWER = 16

Check = Callable[[Any], Any]

_NAME = re.compile(r"[A-Za-z_]\w{0,250}", re.ASCII)
_PATH = re.compile(r"(?!__)[\w-]{1,100}(\.(?!__)[\w-]{1,100}){0,40}", re.ASCII)
_MODULE = re.compile(r"([\w.@-]{0,400}),([\w.@-]{0,400}),([\w.<>]{0,300})", re.ASCII)
_RESERVED = frozenset({"self", "torch", "device", "math", "_operator", "pytree", "fx_pytree", "inf", "nan", "NoneType"})
_DEVICES = frozenset({"cpu", "cuda", "mps", "xpu"})
_CONTAINERS = frozenset({"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"})
_DIALECTS = frozenset({"TRAINING", "ATEN", ""})


class RefusedError(ValueError):
    """Something in a program that may be harmful; the text says what."""


def checked_program(content: object) -> dict[str, Any]:
    """The description of a program in torch's schema, with checked values only."""
    program = _mapping(content)
    graph = _mapping(program.get("graph_module"))
    inner = _Graph().check(_mapping(graph.get("graph")), deep=0)
    version = _mapping(program.get("schema_version"))
    _require_few(list(_expressions(inner)))
    return {
        "graph_module": {
            "graph": inner,
            "signature": _signature(graph.get("signature")),
            "module_call_graph": _root_call(graph.get("module_call_graph")),
        },
        "opset_version": {"aten": whole(_mapping(program.get("opset_version", {})).get("aten", 0))},
        "range_constraints": dict(map(_range, _mapping(program.get("range_constraints", {})).items())),
        "schema_version": {key: whole(version.get(key, 0)) for key in ("major", "minor")},
        "verifiers": [_one_of(_DIALECTS, "the dialect")(name) for name in _listing(program.get("verifiers", []))],
        "torch_version": "",
        "guards_code": [],  # Python source that only checks the shapes of inputs
    }


def _expressions(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if "expr_str" in value:
            yield value["expr_str"]
        for inner in value.values():
            yield from _expressions(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _expressions(inner)


def _require_few(expressions: list[str]) -> None:
    """Refuse too many expressions: each one is cheap, but all together may not be."""
    if sum(map(len, expressions)) > LONGEST_EXPRESSIONS or sum(map(len, set(expressions))) > LONGEST_DIFFERENT:
        raise RefusedError(f"{len(expressions)} size expressions, too many to evaluate")


# Values


def whole(value: Any) -> int:
    """A whole number of at most 64 bits."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise RefusedError(f"{_kind(value)} in place of a whole number")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise RefusedError(f"{_kind(value)} in place of true or false")
    return value


def path_name(value: Any) -> str:
    """A name of a weight, such as ``layer1.0.weight``."""
    if not isinstance(value, str) or not _PATH.fullmatch(value):
        raise RefusedError(f"the name {_quoted(value)}")
    return value


def _number(value: Any) -> float | str:
    if value in ("Infinity", "-Infinity", "NaN"):
        return str(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RefusedError(f"{_kind(value)} in place of a number")
    return value if isinstance(value, float) else whole(value)


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise RefusedError(f"{_kind(value)} in place of a short text")
    return value


def _name(value: Any) -> str:
    """A variable name in the Python source that torch generates."""
    if not isinstance(value, str) or not _NAME.fullmatch(value) or keyword.iskeyword(value) or value in _RESERVED:
        raise RefusedError(f"the name {_quoted(value)}")
    return value


def _one_of(known: Iterable[Any], what: str) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, str | int) or isinstance(value, bool) or value not in known:
            raise RefusedError(f"{what} {_quoted(value)}")
        return value

    return check


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RefusedError(f"{_kind(value)} in place of a mapping")
    return value


def _listing(value: Any, longest: int = LONGEST_LIST) -> list[Any]:
    if not isinstance(value, list) or len(value) > longest:
        raise RefusedError(f"{_kind(value)} in place of a list of at most {longest}")
    return value


def _kind(value: Any) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, list | str) else "")


def _quoted(value: Any) -> str:
    return repr(value[:80]) if isinstance(value, str) else _kind(value)


# Combinations


def _record(**fields: Check) -> Check:
    """A mapping with these fields; the names of optional fields end with an underscore."""

    def check(value: Any) -> Any:
        mapping = _mapping(value)
        out = {}
        for name, inner in fields.items():
            key = name.removesuffix("_")
            if key in mapping:
                out[key] = inner(mapping[key])
            elif key == name:
                raise RefusedError(f"a part without {key}")
        return out

    return check


def _union(**kinds: Check) -> Check:
    """A mapping with exactly one of these fields."""

    def check(value: Any) -> Any:
        mapping = _mapping(value)
        if len(mapping) != 1:
            raise RefusedError(f"{len(mapping)} values in place of one")
        ((kind, inner),) = mapping.items()
        if kind not in kinds:
            raise RefusedError(f"a value of the kind {_quoted(kind)}")
        return {kind: kinds[kind](inner)}

    return check


def _many(inner: Check, longest: int = LONGEST_LIST) -> Check:
    return lambda value: [inner(item) for item in _listing(value, longest)]


def _maybe(inner: Check) -> Check:
    return lambda value: None if value is None else inner(value)


def _expression(value: Any) -> str:
    expression = cheap_expression(value) if isinstance(value, str) else None
    if expression is None:
        raise RefusedError(f"the expression {_quoted(value)}")
    return expression


# The schema

_DEVICE = _record(type=_one_of(_DEVICES, "the device"), index_=_maybe(_one_of(range(64), "the device number")))
_HINT = _union(as_int=whole, as_bool=flag, as_float=_number)
_SYMBOLIC = _record(expr_str=_expression, hint_=_maybe(_HINT))
_SIZE = _union(as_expr=_SYMBOLIC, as_int=whole)
_REAL = _union(as_expr=_SYMBOLIC, as_float=_number)
_TRUTH = _union(as_expr=_SYMBOLIC, as_bool=flag)
_DTYPE = _one_of(range(1, 64), "the number type")
_STRIDED = 7
_LAYOUT = _one_of((_STRIDED,), "the layout")  # not sparse

TENSOR = _record(
    dtype=_DTYPE,
    sizes=_many(_SIZE, MAX_AXES),
    requires_grad=flag,
    device=_DEVICE,
    strides=_many(_SIZE, MAX_AXES),
    storage_offset=_SIZE,
    layout=_LAYOUT,
)
"""The shape and type of a tensor."""

_TENSOR = _record(name=_name)
_OPTIONAL = _union(as_tensor=_TENSOR, as_none=flag)
_WHOLE_ARGUMENT = _union(as_name=_name, as_int=whole)
_REAL_ARGUMENT = _union(as_name=_name, as_float=_number)
_TRUTH_ARGUMENT = _union(as_name=_name, as_bool=flag)

_KINDS: dict[str, Check] = {
    "as_none": flag,
    "as_tensor": _TENSOR,
    "as_tensors": _many(_TENSOR),
    "as_optional_tensor": _OPTIONAL,
    "as_optional_tensors": _many(_OPTIONAL),
    "as_nested_tensors": _many(_many(_TENSOR)),
    "as_int": whole,
    "as_ints": _many(whole),
    "as_float": _number,
    "as_floats": _many(_number),
    "as_bool": flag,
    "as_bools": _many(flag),
    "as_string": _text,
    "as_complex": _record(real=_number, imag=_number),
    "as_sym_int": _WHOLE_ARGUMENT,
    "as_sym_ints": _many(_WHOLE_ARGUMENT),
    "as_sym_float": _REAL_ARGUMENT,
    "as_sym_floats": _many(_REAL_ARGUMENT),
    "as_sym_bool": _TRUTH_ARGUMENT,
    "as_sym_bools": _many(_TRUTH_ARGUMENT),
    "as_scalar_type": _DTYPE,
    "as_memory_format": _one_of(range(1, 5), "the memory format"),
    "as_layout": _LAYOUT,
    "as_device": _DEVICE,
}
_ARGUMENT = _union(**_KINDS)

_INPUT = _union(
    user_input=_record(arg=_ARGUMENT),
    parameter=_record(arg=_TENSOR, parameter_name=path_name),
    buffer=_record(arg=_TENSOR, buffer_name=path_name, persistent=flag),
    tensor_constant=_record(arg=_TENSOR, tensor_constant_name=path_name),
    constant_input=_record(
        name=_name, value=_union(as_none=flag, as_int=whole, as_float=_number, as_string=_text, as_bool=flag)
    ),
)
_OUTPUT = _union(
    user_output=_record(arg=_ARGUMENT),
    buffer_mutation=_record(arg=_TENSOR, buffer_name=path_name),
    user_input_mutation=_record(arg=_TENSOR, user_input_name=_name),
)
_signature = _record(input_specs=_many(_INPUT, MAX_STEPS), output_specs=_many(_OUTPUT, MAX_STEPS))


class _Graph:
    """The steps of a program, or of a region of one."""

    def __init__(self, bits: int = SIZE_BITS) -> None:
        self.outside = bits  # the bits of numbers that come from outside
        self.bits: dict[str, int] = {}  # the maximum bits of an integer, by name
        self.steps = 0

    def check(self, graph: Mapping[str, Any], *, deep: int) -> dict[str, Any]:
        if deep > DEEPEST_REGION:
            raise RefusedError("regions nested too deeply")
        if graph.get("custom_obj_values"):
            raise RefusedError("a pickled object")
        return {
            "inputs": _many(_ARGUMENT, MAX_STEPS)(graph.get("inputs")),
            "outputs": _many(_ARGUMENT, MAX_STEPS)(graph.get("outputs")),
            "nodes": [self._step(_mapping(node), deep) for node in _listing(graph.get("nodes"), MAX_STEPS)],
            "tensor_values": _named(TENSOR, graph.get("tensor_values")),
            "sym_int_values": _named(_SIZE, graph.get("sym_int_values")),
            "sym_bool_values": _named(_TRUTH, graph.get("sym_bool_values")),
            "sym_float_values": _named(_REAL, graph.get("sym_float_values", {})),
            "is_single_tensor_return": flag(graph.get("is_single_tensor_return", False)),
        }

    def _step(self, node: Mapping[str, Any], deep: int) -> dict[str, Any]:
        target = node.get("target")
        if not isinstance(target, str) or not is_computation(target):
            raise RefusedError(f"the operator {_quoted(target)}")
        kinds = _KINDS
        if target.rpartition(".")[2] in REGIONS:
            kinds = {**_KINDS, "as_graph": lambda value: self._region(_mapping(value), deep)}
        inputs = _many(_record(name=_argument_name, arg=_union(**kinds), kind_=_maybe(whole)))(node.get("inputs"))
        outputs = _many(_ARGUMENT)(node.get("outputs"))
        if target in NUMBERS:
            self._require_small(target, inputs, outputs)
        if "chunk" in target and any(entry["arg"].get("as_int", 0) > LONGEST_LIST for entry in inputs):
            raise RefusedError(f"{target} into more than {LONGEST_LIST} pieces")
        return {
            "target": target,
            "inputs": inputs,
            "outputs": outputs,
            "metadata": _modules(node.get("metadata")),
            "is_hop_single_tensor_return": _maybe(flag)(node.get("is_hop_single_tensor_return")),
            "name": _maybe(_name)(node.get("name")),
        }

    def _region(self, value: Mapping[str, Any], deep: int) -> dict[str, Any]:
        largest = max([self.outside, *self.bits.values()])
        inner = _Graph(largest).check(_mapping(value.get("graph")), deep=deep + 1)
        return {"name": _name(value.get("name")), "graph": inner}

    def _require_small(self, target: str, inputs: list[Any], outputs: list[Any]) -> None:
        """Bound the results: Python's integers have no bound, and a size squared sixty times would fill the memory."""
        sizes = [self._bits_of(entry["arg"]) for entry in inputs]
        if target == "_operator.mul":
            bits = sum(sizes)
        elif target == "_operator.pow":
            power = inputs[1]["arg"].get("as_int") if len(inputs) == 2 else None
            if power is None or abs(power) > LARGEST_POWER:
                raise RefusedError("a power whose exponent is not a small number")
            bits = sizes[0] * max(abs(power), 1)
        else:
            bits = max(sizes, default=1) + 1
        if bits > MAX_BITS:
            raise RefusedError("an unbounded product of sizes")
        for entry in outputs:
            for value in entry.values():
                if isinstance(value, dict) and "as_name" in value:
                    self.bits[value["as_name"]] = bits

    def _bits_of(self, argument: Mapping[str, Any]) -> int:
        ((kind, value),) = argument.items()
        if isinstance(value, dict) and "as_name" in value:
            return self.bits.get(value["as_name"], self.outside)
        return 1024 if "float" in kind else 64


def _argument_name(value: Any) -> str:
    """The name of an operator's argument, such as ``self`` or ``from``; arguments of regions have no name."""
    if value == "" or (isinstance(value, str) and _NAME.fullmatch(value)):
        return str(value)
    raise RefusedError(f"the name {_quoted(value)}")


def _named(inner: Check, value: Any) -> dict[str, Any]:
    mapping = _mapping(value)
    if len(mapping) > 4 * MAX_STEPS:
        raise RefusedError(f"{len(mapping)} values")
    return {_name(key): inner(item) for key, item in mapping.items()}


def _modules(value: Any) -> dict[str, str]:
    """The layer of the network that a step belongs to; left out if it is not in the usual form."""
    stack = value.get("nn_module_stack") if isinstance(value, dict) else None
    if not isinstance(stack, str) or len(stack) > 20_000:
        return {}
    return {"nn_module_stack": stack} if all(map(_MODULE.fullmatch, stack.split(";"))) else {}


def _range(item: tuple[str, Any]) -> tuple[str, dict[str, Any]]:
    symbol, bounds = item
    # torch looks up ranges by the text of a size, which may be a multiple of another: 32*s39
    if not SYMBOL.fullmatch(symbol) and (len(symbol) > 200 or cheap_expression(symbol) is None):
        raise RefusedError(f"the size {_quoted(symbol)}")
    limits = _mapping(bounds)
    return symbol, {key: _maybe(whole)(limits.get(key)) for key in ("min_val", "max_val")}


def _root_call(value: Any) -> list[dict[str, Any]]:
    """How the program is called; the calls of its layers are not needed."""
    for entry in map(_mapping, _listing(value, MAX_STEPS)):
        if entry.get("fqn") == "":
            signature = _mapping(entry.get("signature"))
            return [
                {
                    "fqn": "",
                    "signature": {
                        "inputs": [],
                        "outputs": [],
                        "in_spec": _tree(signature.get("in_spec"), _name),  # keys are names of arguments
                        "out_spec": _tree(signature.get("out_spec"), _key),
                        "forward_arg_names": _maybe(_many(_name))(signature.get("forward_arg_names")),
                    },
                }
            ]
    raise RefusedError("no signature of the program")


def _key(value: Any) -> str | int:
    return _text(value) if isinstance(value, str) else whole(value)


def _tree(value: Any, key: Check) -> str:
    """How inputs or outputs are nested, in torch's format: JSON inside JSON."""
    try:
        version, tree = parse_json(_text_of_tree(value), caller="program")
    except (InputError, TypeError, ValueError):
        raise RefusedError("a nesting of inputs that cannot be read") from None
    return json.dumps([whole(version), _branch(tree, key, 0)])


def _text_of_tree(value: Any) -> str:
    if not isinstance(value, str) or len(value) > 10**6:
        raise RefusedError("a nesting of inputs that cannot be read")
    return value


def _branch(value: Any, key: Check, deep: int) -> dict[str, Any]:
    node = _mapping(value)
    if deep > MAX_AXES:
        raise RefusedError("inputs nested too deeply")
    kind, context = node.get("type"), node.get("context")
    children = [_branch(child, key, deep + 1) for child in _listing(node.get("children_spec"))]
    if kind is None:
        return {"type": None, "context": None, "children_spec": []}
    if not isinstance(kind, str) or kind not in _CONTAINERS:
        raise RefusedError(f"inputs or outputs in a {_quoted(kind)}")
    if kind in ("builtins.tuple", "builtins.list"):
        return {"type": kind, "context": "null", "children_spec": children}
    keys = _many(key)(parse_json(_text_of_tree(context), caller="program"))
    if len(keys) != len(children):
        raise RefusedError("a mapping with a different number of keys and values")
    return {"type": kind, "context": json.dumps(keys), "children_spec": children}


def require_inside(meta: Mapping[str, Any], length: int, itemsize: int) -> None:
    """Refuse a tensor that exceeds ``length`` bytes, or repeats them to a huge size."""
    sizes, strides = ([whole(size.get("as_int")) for size in meta[key]] for key in ("sizes", "strides"))
    offset = whole(meta["storage_offset"].get("as_int"))
    if len(sizes) != len(strides) or offset < 0 or min([*sizes, *strides], default=0) < 0:
        raise RefusedError("a weight with invalid sizes or strides")
    elements = math.prod(sizes)
    if elements == 0:
        return
    last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    if (last + 1) * itemsize > length:
        raise RefusedError(f"a weight of {elements} numbers in {length} bytes")
    if elements * itemsize > max(length, 2**24):
        raise RefusedError(f"a weight that repeats {length} bytes {elements * itemsize // length} times")

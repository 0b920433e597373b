"""Exported programs that attack whoever loads them. Where it is cheap, the attack is shown to work on plain torch."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import pickle
import random
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from intertwine.cli import program as command_line
from intertwine.errors import InputError, IntertwineError, SizeLimitError, UnsafeFileError
from intertwine.measure import load_network
from intertwine.measure.load._exported import _rewritten, load_exported
from intertwine.measure.load._program_check import RefusedError, checked_program
from intertwine.measure.load._program_expressions import cheap_expression
from intertwine.measure.load._program_operators import is_computation
from tests.security.programs import (
    CONSTANTS,
    INPUTS,
    MODEL,
    WEIGHTS,
    Evil,
    X,
    as_tensor,
    changed,
    entries,
    good,
    graph_of,
    insert,
    node,
    pickled,
    tensor,
    write,
)


@pytest.fixture(scope="session")
def saved(tmp_path_factory) -> bytes:
    return good(tmp_path_factory.mktemp("good") / "net.pt2").read_bytes()


@pytest.fixture
def path(tmp_path, saved) -> Path:
    (tmp_path / "net.pt2").write_bytes(saved)
    return tmp_path / "net.pt2"


def plain_torch(path: Path, monkeypatch) -> None:
    """What happens to those who use torch alone; how it ends does not matter."""
    monkeypatch.setattr(logging, "raiseExceptions", False)  # torch's warning about it is not well-formed
    logging.disable(logging.CRITICAL)
    try:
        torch.export.load(path).module()(X)
    except Exception:
        pass
    finally:
        logging.disable(logging.NOTSET)


# Each attack changes a good file so that the file ``mark`` appears, or a module ``planted`` beside it is imported.


def legacy_layout(path: Path, mark: Path) -> None:
    """Entries at the top level, where torch looks for the layout of 2.7 and unpickles."""
    content = {
        "version": b"8.20",
        "serialized_exported_program.json": entries(path)[MODEL],
        "serialized_state_dict.pt": pickled(Evil(mark)),
        "serialized_constants.pt": pickled({}),
        "serialized_example_inputs.pt": pickled(()),
    }
    write(path, content, root="")


def other_case(path: Path, mark: Path) -> None:
    """A name that ends in .PT, which torch's reader takes for .pt."""
    content = entries(path)
    del content[INPUTS]
    write(path, {**content, "data/sample_inputs/model.PT": pickled(Evil(mark))})


def sample_inputs(path: Path, mark: Path) -> None:
    write(path, {**entries(path), INPUTS: pickled(Evil(mark))})


def legacy_weights(path: Path, mark: Path) -> None:
    write(path, {**entries(path), "data/weights/model.pt": pickled(Evil(mark))})


def pickled_weight(path: Path, mark: Path) -> None:
    changed(path, WEIGHTS, lambda value: value["config"]["0.weight"].update(use_pickle=True))
    write(path, {**entries(path), "data/weights/weight_0": pickled(Evil(mark))})


def opaque_object(path: Path, mark: Path) -> None:
    meta = {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}
    changed(path, CONSTANTS, lambda value: value["config"].update(x=meta))
    write(path, {**entries(path), "data/constants/opaque_obj_0": pickle.dumps(Evil(mark))})


def guards(path: Path, mark: Path) -> None:
    text = f"__import__('os').system('touch {mark}')"
    changed(path, MODEL, lambda value: value.update(guards_code=[text]))


def expression(path: Path, mark: Path) -> None:
    def change(value: Any) -> Any:
        text = json.dumps(value)
        start = text.index('"expr_str": "') + len('"expr_str": "')
        evil = json.dumps(f"__import__('os').system('touch {mark}')")[1:-1]
        return json.loads(text[:start] + evil + text[text.index('"', start) :])

    changed(path, MODEL, change)


def weight_name(path: Path, mark: Path) -> None:
    """The name of a weight, out of which torch makes Python text without quoting it."""
    for name in (MODEL, WEIGHTS):
        changed(
            path,
            name,
            lambda value: json.loads(
                json.dumps(value).replace('"0.weight"', json.dumps('training"), __import__("planted")#'))
            ),
        )


def enumeration(path: Path, mark: Path) -> None:
    """How outputs are nested: an enumeration in it makes torch import the module that it names."""
    context = json.dumps({"__enum__": True, "fqn": "planted:A", "name": "x"})
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = json.dumps([1, {"type": "builtins.tuple", "context": context, "children_spec": [leaf]}])

    def change(value: Any) -> None:
        value["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec

    changed(path, MODEL, change)


REFUSED = [legacy_layout, legacy_weights, pickled_weight, opaque_object, expression, weight_name]
HARMLESS = [sample_inputs, guards, enumeration]  # what they plant is left out, and the rest loads
BOTH = [*REFUSED, other_case, *HARMLESS]


@pytest.mark.parametrize("attack", BOTH, ids=lambda attack: attack.__name__)
def test_code_in_a_program_does_not_run(attack: Callable[[Path, Path], None], path, tmp_path, monkeypatch):
    mark = tmp_path / "ran"
    (tmp_path / "planted.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.syspath_prepend(tmp_path)
    attack(path, mark)
    if attack in REFUSED:
        with pytest.raises(UnsafeFileError, match=r"Nothing in it was run.*--trust"):
            load_exported(path)
    else:
        load_exported(path)(X)
    assert not mark.exists()
    assert "planted" not in sys.modules
    plain_torch(path, monkeypatch)
    assert mark.exists(), "torch by itself runs it"
    sys.modules.pop("planted", None)


def test_trust_is_plain_torch(path, tmp_path, monkeypatch):
    """The way out for a file that the checks refuse; on the command line, it has to be asked for by name."""
    pickled_weight(path, tmp_path / "ran")
    arguments = ["audit", str(path), "--data", "digits", "--images", "8"]
    done = CliRunner().invoke(command_line(), arguments)
    assert done.exit_code == 2
    assert "--trust" in done.output
    assert not (tmp_path / "ran").exists()
    monkeypatch.setattr(logging, "raiseExceptions", False)
    CliRunner().invoke(command_line(), [*arguments, "--trust"])
    assert (tmp_path / "ran").exists()


def test_a_file_that_is_trusted_gives_the_same_network(path):
    torch.testing.assert_close(load_network(str(path), trust=True).model(X), load_network(str(path)).model(X))


class TestOperators:
    def test_files_are_neither_read_nor_written(self, path, tmp_path, monkeypatch):
        secret = tmp_path / "secret"
        secret.write_bytes(b"secret..")
        opened = {"filename": {"as_string": str(secret)}, "shared": {"as_bool": True}, "size": {"as_int": 2}}
        steps = [
            node("torch.ops.aten.from_file.default", opened, [as_tensor("leak")], "leak"),
            node(
                "torch.ops.aten.fill_.Scalar",
                {"self": as_tensor("leak"), "value": {"as_float": 0.0}},
                [as_tensor("gone")],
                "gone",
            ),
        ]
        changed(path, MODEL, lambda value: insert(value, steps, {"leak": tensor(2), "gone": tensor(2)}))
        with pytest.raises(UnsafeFileError, match="from_file"):
            load_exported(path)
        assert secret.read_bytes() == b"secret.."
        plain_torch(path, monkeypatch)
        assert secret.read_bytes() == bytes(8), "torch by itself writes to the file"

    @pytest.mark.parametrize(
        "target",
        [
            "torch.ops.aten.from_file.default",
            "torch.ops.aten.from_file.out",
            "torch.ops.aten.add.out",
            "torch.ops.aten.set_.source_Storage",
            "torch.ops.aten.resize_.default",
            "torch.ops.aten._unsafe_index.Tensor",
            "torch.ops.aten.nonzero.default",
            "torch.ops.aten.repeat_interleave.Tensor",
            "torch.ops.aten.relu",
            "torch.ops.aten.relu.default.__class__",
            "torch.ops.aten.__class__.default",
            "torch.ops.load_library",
            "torch.ops.c10d.send.default",
            "torch.ops.higher_order.while_loop",
            "torch.ops.higher_order.triton_kernel_wrapper_functional",
            "torch.ops.higher_order.wrap_with_autocast.default",
            "torch.os.system",
            "torch.load",
            "torch.hub.load",
            "_operator.attrgetter",
            "_operator.lshift",
            "math.factorial",
            "#extension:op",
            "os.system",
            "",
        ],
    )
    def test_what_is_not_on_the_list(self, path, target):
        assert not is_computation(target)
        step = node(target, {"": {"as_string": "true"}}, [{"as_none": True}], "step")
        changed(path, MODEL, lambda value: insert(value, [step], {}))
        with pytest.raises(UnsafeFileError, match="the operator"):
            load_exported(path)

    def test_every_name_on_the_list_is_an_operator(self):
        from intertwine.measure.load._program_operators import _ATEN

        known = {name.partition("::")[2].partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
        assert known >= _ATEN
        assert is_computation("torch.ops.aten.conv2d.default")
        assert is_computation("_operator.mul")


class TestNames:
    """Names become variables of the Python text that torch makes of a program."""

    @pytest.mark.parametrize("name", ["a b", "a;b", "a\nb", "import", "torch", "self", "", "é", "a" * 1000, "(x)"])
    def test_variables(self, path, name):
        changed(path, MODEL, lambda v: json.loads(json.dumps(v).replace('"relu"', json.dumps(name))))
        with pytest.raises(UnsafeFileError):
            load_exported(path)

    @pytest.mark.parametrize("name", ['0"', "0\\", "0\n", "a..b", "__class__", "a.__dict__", "a b", "", "a/b"])
    def test_weights(self, path, name):
        for entry in (MODEL, WEIGHTS):
            changed(path, entry, lambda v: json.loads(json.dumps(v).replace('"0.weight"', json.dumps(name))))
        with pytest.raises(UnsafeFileError):
            load_exported(path)


class TestArchive:
    def test_nothing_but_what_was_checked_reaches_torch(self, path):
        """The archive that torch sees, whatever the file has besides."""
        marker = b"hostile-payload-7c21"
        changed(path, MODEL, lambda value: value.update(torch_version=marker.decode(), unknown=marker.decode()))

        def trace(value: Any) -> None:
            for step in graph_of(value)["nodes"]:
                step["metadata"].update(stack_trace=marker.decode(), torch_fn=marker.decode(), custom='{"a": 1}')

        changed(path, MODEL, trace)
        more = dict.fromkeys(
            ("extra/notes.txt", "models/other.json", "data/weights/unused", "unknown/entry", INPUTS), marker
        )
        write(path, {**entries(path), **more})
        seen = _rewritten(path).getvalue()
        assert marker in path.read_bytes()
        assert marker not in seen
        with zipfile.ZipFile(io.BytesIO(seen)) as archive:
            inner = {name.partition("/")[2] for name in archive.namelist()}
        weights = {f"data/weights/weight_{k}" for k in range(4)}
        own = {"version", "byteorder", ".data/serialization_id"}  # of torch's writer
        assert inner - own == weights | {MODEL, WEIGHTS, CONSTANTS, INPUTS, "archive_format", "archive_version"}
        assert load_exported(path)(X).shape == (2, 3)

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("net/models/MODEL.json", "if case is ignored"),
            ("net/models/model.json", "if case is ignored"),
            ("other/models/model.json", "if case is ignored"),
            ("other/more.json", "folders"),
            ("model.json", "not below one folder"),
            ("/net/model.json", "not below one folder"),
            ("net/../model.json", "not below one folder"),
            ("net\\model.json", "named"),
            ("net/a\0b", "named"),
            ("net/modéls", "named"),
        ],
    )
    def test_names_of_entries(self, path, name, why):
        with zipfile.ZipFile(path, "a") as archive:
            info = zipfile.ZipInfo("placeholder")
            info.filename = info.orig_filename = name
            with pytest.warns(UserWarning, match="Duplicate") if name == "net/models/model.json" else _nothing():
                archive.writestr(info, b"{}")
        with pytest.raises(InputError, match=why):
            load_exported(path)

    def test_compressed_entries(self, path):
        """A bomb needs compression, and torch writes none."""
        write(path, {**entries(path), "data/weights/weight_0": bytes(10**7)}, compression=zipfile.ZIP_DEFLATED)
        with pytest.raises(UnsafeFileError, match="compressed"):
            load_exported(path)

    def test_entries_that_overlap(self, path):
        """Two names for the same bytes make an archive whose parts are larger than it is."""
        body = bytes(10**5)
        write(path, {**entries(path), **{f"data/weights/more_{k}": body if k == 0 else b"" for k in range(50)}})
        raw = bytearray(path.read_bytes())
        for k in range(1, 50):  # let the directory say that each has the length and the place of the first
            where = raw.rindex(f"net/data/weights/more_{k}".encode()) - 46
            first = raw.rindex(b"net/data/weights/more_0") - 46
            raw[where + 16 : where + 28] = raw[first + 16 : first + 28]
            raw[where + 42 : where + 46] = raw[first + 42 : first + 46]
        path.write_bytes(raw)
        with pytest.raises(UnsafeFileError, match="larger than the file"):
            load_exported(path)

    def test_a_length_that_is_a_lie(self, path):
        raw = bytearray(path.read_bytes())
        where = raw.rindex(b"data/weights/weight_0") - 46 - len("net/")
        where = raw.rindex(b"PK\x01\x02", 0, where + 46)
        raw[where + 20 : where + 28] = struct.pack("<II", 10_000, 10_000)  # of 72 bytes
        path.write_bytes(raw)
        with pytest.raises(InputError):
            load_exported(path)

    def test_compiled_code(self, path):
        write(path, {**entries(path), "data/aotinductor/model/code.so": b"\x7fELF"})
        with pytest.raises(UnsafeFileError, match="compiled code"):
            load_exported(path)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"PK\x05\x06" + bytes(18), b"x" * 1000])
    def test_no_archive(self, path, content):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"torch\.export\.save"):
            load_exported(path)

    @pytest.mark.parametrize("text", [b"[" * 200_000, b"9" * 5000, b"{", b"\xff", b"null", b"[]", b'"x"', b"{}"])
    @pytest.mark.parametrize("entry", [MODEL, WEIGHTS, CONSTANTS])
    def test_json_that_makes_no_sense(self, path, entry, text):
        write(path, {**entries(path), entry: text})
        with pytest.raises(InputError) as caught:
            load_exported(path)
        assert len(str(caught.value)) < 3000


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


class TestWeights:
    def meta(self, path: Path, **fields: Any) -> None:
        changed(path, WEIGHTS, lambda value: value["config"]["0.weight"]["tensor_meta"].update(fields))

    def test_a_weight_of_terabytes_without_bytes(self, path):
        self.meta(path, sizes=[{"as_int": 10**13}], strides=[{"as_int": 1}])
        content = entries(path)
        content["data/weights/weight_0"] = b""  # torch then makes zeros of that size
        write(path, content)
        with pytest.raises(UnsafeFileError, match="a weight of"):
            load_exported(path)

    @pytest.mark.parametrize(
        ("sizes", "strides", "offset"),
        [
            ([2, 1, 3, 3], [9, 9, 3, 1], 1),
            ([2, 1, 3, 4], [9, 9, 3, 1], 0),
            ([2, 1, 3, 3], [9, 9, 3, 100], 0),
            ([2, 1, 3, 3], [9, 9, -3, 1], 6),
            ([-2, 1, 3, 3], [9, 9, 3, 1], 0),
            ([2, 1, 3, 3], [9, 9, 3, 1], -1),
            ([2**40, 3], [0, 1], 0),
            ([2, 1, 3], [9, 9, 3, 1], 0),
        ],
    )
    def test_memory_that_is_not_its_own(self, path, sizes, strides, offset):
        self.meta(
            path,
            sizes=[{"as_int": k} for k in sizes],
            strides=[{"as_int": k} for k in strides],
            storage_offset={"as_int": offset},
        )
        with pytest.raises(UnsafeFileError, match="a weight"):
            load_exported(path)

    def test_other_ways_to_say_it(self, path, saved):
        size = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": None}}
        for fields in ({"sizes": [size]}, {"dtype": 999}, {"layout": 1}, {"device": {"type": "meta", "index": None}}):
            path.write_bytes(saved)
            self.meta(path, **fields)
            with pytest.raises(UnsafeFileError):
                load_exported(path)

    def test_a_path_out_of_the_folder(self, path):
        changed(path, WEIGHTS, lambda v: v["config"]["0.weight"].update(path_name="../../models/model.json"))
        with pytest.raises(UnsafeFileError):
            load_exported(path)


class TestExpressions:
    @pytest.mark.parametrize(
        "text",
        [
            "Symbol('s31', positive=True, integer=True)",
            "2*s0 + FloorDiv(s1 - 1, 2)",
            "s0 >= 2",
            "Pow(Symbol('s0', positive=True, integer=True), Integer(2))",
            "Mul(Integer(-1), Pow(Symbol('s0', positive=True, integer=True), Integer(-1)))",
            "Max(Integer(1), Symbol('u0', integer=True))",
            "Mul(Float('0.5', precision=53), ToFloat(Symbol('s0', integer=True)))",
        ],
    )
    def test_arithmetic(self, text):
        import sympy

        rewritten = cheap_expression(text)
        assert rewritten is not None
        functions = {name: sympy.Function(name) for name in ("FloorDiv", "ToFloat")}
        assert sympy.sympify(rewritten, locals=functions) == sympy.sympify(text, locals=functions)

    @pytest.mark.parametrize(
        "text",
        [
            "().__class__", "exec('x')", "s0[0]", "lambda: 1", "Symbol('a b')", "f'{s0}'", "(", "", "__import__('os')",
            "Symbol('s0', cls=eval)", "Symbol(*s0)", "s0 if s0 else s1", "(s0 := 2)", "[s0 for s0 in s1]", "S('1')",
            "Pow(9, Pow(9, Pow(9, 9)))", "9**9**9", "Pow(Pow(Pow(9, 16), 16), 16)", "s0**s1", "Pow(2, 10**9)",
            "(s0 + s1 + s2)**16", "9" * 4000, "1e999", "Float('1e999', precision=53)", "Float('1', precision=10**9)",
            "-" * 3000 + "1", "(" * 3000, "Max(" + ", ".join(["s0"] * 300) + ")",
            "*".join("(s0 + s1 + s2 + s3)" for _ in range(8)), "factorial(9999999)", "Integer(s0)", "s" * 5000,
            "zoo", "s0 @ s1", "s0 << 9999999999", "not s0", "s0 or s1", "1j", "b'x'", "...",
        ],
    )  # fmt: skip
    def test_anything_else(self, path, text):
        assert cheap_expression(text) is None

        def change(value: Any) -> None:
            graph_of(value)["tensor_values"]["relu"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}

        changed(path, MODEL, change)
        with pytest.raises(UnsafeFileError, match="the expression"):
            load_exported(path)

    def test_many_of_them(self, path):
        """Each takes some tenths of a second to work out."""

        def change(value: Any) -> None:
            values = graph_of(value)["tensor_values"]
            for k in range(1000):
                text = "+".join(f"FloorDiv(s{j}**3 + s{j + 1} + {k}, s{j + 2} + 2)" for j in range(10))
                values[f"v{k}"] = {**tensor(1), "sizes": [{"as_expr": {"expr_str": text, "hint": None}}]}

        changed(path, MODEL, change)
        with pytest.raises(UnsafeFileError, match="too many to evaluate"):
            load_exported(path)

    def test_ranges(self, path, saved):
        for ranges in (
            {"u99999999999": {"min_val": 0, "max_val": 1}},  # torch counts up to it
            {"s0": {"min_val": 10**30, "max_val": None}},
            {"__import__('os')": {"min_val": 0, "max_val": 1}},
            {"s0": {"min_val": "0", "max_val": 1}},
        ):
            path.write_bytes(saved)
            changed(path, MODEL, lambda value, ranges=ranges: value.update(range_constraints=ranges))
            with pytest.raises(UnsafeFileError):
                load_exported(path)


class TestCosts:
    """Programs that are harmless one by one step, and too much together."""

    def test_a_result_of_terabytes(self, path):
        sizes = {"size": {"as_ints": [10**7, 10**6]}, "fill_value": {"as_float": 0.0}}
        step = node("torch.ops.aten.full.default", sizes, [as_tensor("huge")], "huge")
        changed(path, MODEL, lambda value: insert(value, [step], {"huge": tensor(10**7, 10**6)}))
        model = load_exported(path)
        with pytest.raises(SizeLimitError, match="full with a result of shape"):
            model(X)

    def test_many_results_of_gigabytes(self, path, monkeypatch):
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1000G")
        shape, count = (10**5, 2 * 10**6), 101
        sizes = {"size": {"as_ints": [*shape]}, "fill_value": {"as_float": 0.0}}
        steps = [node("torch.ops.aten.full.default", sizes, [as_tensor(f"h{k}")], f"h{k}") for k in range(count)]
        changed(path, MODEL, lambda v: insert(v, steps, {f"h{k}": tensor(*shape) for k in range(count)}))
        model = load_exported(path)
        with pytest.raises(SizeLimitError, match="operations per image"):
            model(X)

    def test_a_product_of_sizes_that_never_ends(self, path):
        """Whole numbers of Python have no bound: squared sixty times, a size fills the memory."""
        size = {"as_expr": {"expr_str": "Symbol('s0', positive=True, integer=True)", "hint": {"as_int": 2}}}
        first = {"self": as_tensor("input"), "dim": {"as_int": 0}}
        steps = [node("torch.ops.aten.sym_size.int", first, [{"as_sym_int": {"as_name": "n0"}}], "n0")]
        for k in range(60):
            last = {"as_sym_int": {"as_name": f"n{k}"}}
            steps.append(node("_operator.mul", {"a": last, "b": last}, [{"as_sym_int": {"as_name": f"n{k + 1}"}}], ""))

        def change(value: Any) -> None:
            insert(value, [{**step, "name": step["name"] or None} for step in steps], {})
            graph_of(value)["sym_int_values"].update({f"n{k}": size for k in range(61)})

        changed(path, MODEL, change)
        with pytest.raises(UnsafeFileError, match="product of sizes"):
            load_exported(path)

    def test_a_power_of_a_size(self, path):
        size = {"as_sym_int": {"as_name": "n"}}
        step = node("_operator.pow", {"a": size, "b": size}, [{"as_sym_int": {"as_name": "m"}}], "m")
        changed(path, MODEL, lambda value: insert(value, [step], {}))
        with pytest.raises(UnsafeFileError, match="power"):
            load_exported(path)

    def test_pieces_without_number(self, path):
        big = {"size": {"as_ints": [10**9]}, "fill_value": {"as_float": 0.0}}
        steps = [
            node("torch.ops.aten.full.default", big, [as_tensor("huge")], "huge"),
            node("torch.ops.aten.unbind.int", {"self": as_tensor("huge")}, [{"as_tensors": [{"name": "one"}]}], "p"),
        ]
        changed(path, MODEL, lambda value: insert(value, steps, {"huge": tensor(10**9), "one": tensor()}))
        model = load_exported(path)
        with pytest.raises(SizeLimitError, match="pieces"):
            model(X)

    def test_images_of_another_shape_are_said_to_be(self, path):
        with pytest.raises(InputError, match="accepts these images"):
            load_exported(path)(torch.rand(2, 3, 4, 4))


@pytest.mark.usefixtures("forked_children")
def test_no_file_hangs_or_fills_the_memory(tmp_path, saved):
    """All of them in one process of its own, with a limit on its memory and on its time."""
    bombs = {"tower": "Pow(9, Pow(9, Pow(9, 9)))", "sum": "(s0 + s1 + s2 + s3)**16", "deep": "(" * 2000}
    for name, text in bombs.items():
        path = tmp_path / f"{name}.pt2"
        path.write_bytes(saved)

        def change(value: Any, text: str = text) -> None:
            graph_of(value)["tensor_values"]["relu"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": None}}

        changed(path, MODEL, change)
    script = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30,) * 2)
from pathlib import Path
from intertwine.errors import IntertwineError
from intertwine.measure.load._exported import load_exported
for path in sorted(Path({str(tmp_path)!r}).glob("*.pt2")):
    try:
        load_exported(path)
    except IntertwineError as error:
        print(path.stem, type(error).__name__)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["deep", "UnsafeFileError", "sum", "UnsafeFileError", "tower", "UnsafeFileError"], (
        done.stderr
    )


@pytest.mark.slow
def test_plain_torch_hangs_on_a_tower_of_powers(path):
    def change(value: Any) -> None:
        expr = {"expr_str": "Pow(9,Pow(9,Pow(9,9)))", "hint": None}
        graph_of(value)["tensor_values"]["relu"]["sizes"][0] = {"as_expr": expr}

    changed(path, MODEL, change)
    script = f"import torch; torch.export.load({str(path)!r})"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=30)


def test_random_damage_ends_in_one_of_our_errors(path, saved):
    """Values of a good description are replaced at random; whatever comes of it, it is checked or refused."""
    rng = random.Random(0)
    original = json.loads(entries(path)[MODEL])
    junk = [None, True, -1, 2**70, 1.5, "x", "torch.os", "Pow(9,9)", [], {}, [[]], {"as_int": 3}, {"as_graph": {}}, "é"]
    refused = 0
    for _ in range(400):
        value = json.loads(json.dumps(original))
        holder, key = rng.choice(_places(value))
        holder[key] = rng.choice(junk)
        try:
            json.dumps(checked_program(value))
        except RefusedError:
            refused += 1
    assert refused > 200
    for _ in range(25):  # those that pass the checks go on to torch
        path.write_bytes(saved)
        value = json.loads(json.dumps(original))
        holder, key = rng.choice(_places(value))
        holder[key] = rng.choice(junk)
        write(path, {**entries(path), MODEL: json.dumps(value).encode()})
        with contextlib.suppress(IntertwineError):
            load_exported(path)(X)


def _places(value: Any) -> list[tuple[Any, Any]]:
    places = []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        places += [(value, key), *_places(inner)]
    return places

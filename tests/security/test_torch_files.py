"""Files of torch.save and safetensors that lie about what they hold."""

from __future__ import annotations

import json
import pickle
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import save
from torch import nn

from intertwine.errors import InputError, UnsafeFileError
from intertwine.measure.load._torch_file import read_torch_file
from intertwine.measure.load._weights import load_weights_into
from tests.security.programs import Evil, entries, write

STATE = {"weight": torch.arange(6.0).reshape(3, 2), "bias": torch.ones(3)}


@pytest.fixture
def path(tmp_path) -> Path:
    torch.save(STATE, tmp_path / "net.pt")
    return tmp_path / "net.pt"


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])
def test_what_torch_saves_comes_back(tmp_path, new):
    base = torch.randn(4, 5)
    kept = nn.Parameter(base.clone())
    content = {
        "tensors": [base, base[1:3], base.t(), kept, torch.randn(3).bfloat16(), torch.empty(0, 3), torch.tensor(True)],
        "complex": torch.randn(2, dtype=torch.complex64),
        "optimizer": torch.optim.Adam([kept]).state_dict(),
        "plain": [1, 2.5, None, True, "text", (1, 2), torch.Size([1, 2]), torch.float16, torch.device("cpu")],
    }
    torch.save(content, tmp_path / "net.pt", _use_new_zipfile_serialization=new)
    loaded = read_torch_file(tmp_path / "net.pt")
    assert loaded["plain"] == content["plain"]
    assert loaded["optimizer"] == content["optimizer"]
    for got, wanted in zip(
        [*loaded["tensors"], loaded["complex"]], [*content["tensors"], content["complex"]], strict=True
    ):
        torch.testing.assert_close(got, wanted, rtol=0, atol=0)
        assert got.stride() == wanted.stride()
    a, b = loaded["tensors"][:2]
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr(), "views stay views"


@pytest.mark.parametrize("new", [True, False], ids=["zip", "old"])
def test_code_does_not_run(tmp_path, new):
    torch.save({"a": Evil(tmp_path / "ran")}, tmp_path / "net.pt", _use_new_zipfile_serialization=new)
    with pytest.raises(UnsafeFileError, match=r"calls posix\.system"):
        read_torch_file(tmp_path / "net.pt")
    assert not (tmp_path / "ran").exists()
    torch.load(tmp_path / "net.pt", weights_only=False)
    assert (tmp_path / "ran").exists(), "torch by itself runs it"


def test_a_bomb_is_not_unpacked(path):
    """20 kB that torch unpacks to 20 MB."""
    zeros = {"weight": torch.zeros(5 * 10**6)}
    torch.save(zeros, path)
    write(path, entries(path), root="archive/", compression=zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 30_000
    assert torch.load(path, weights_only=True)["weight"].numel() == 5 * 10**6, "torch unpacks it"
    with pytest.raises(UnsafeFileError, match="larger than the file"):
        read_torch_file(path)


def test_memory_of_others_is_not_read(path):
    """The pickle says that a tensor has a million numbers, and the entry has six: torch reads on behind its end."""
    content = entries(path)
    assert content["data.pkl"].count(b"K\x06") == 1
    content["data.pkl"] = content["data.pkl"].replace(b"K\x06", b"J\x40\x42\x0f\x00")
    write(path, content, root="archive/")
    with pytest.raises(InputError, match="1000000 numbers in 24 bytes"):
        read_torch_file(path)


def test_a_tensor_does_not_grow_out_of_its_storage(path):
    """Sizes beyond the storage make torch allocate what is asked for."""
    content = entries(path)
    shape = b"K\x03K\x02\x86"
    assert content["data.pkl"].count(shape) == 1
    content["data.pkl"] = content["data.pkl"].replace(shape, b"J\x00\x00\x00\x40K\x02\x86")
    write(path, content, root="archive/")
    with pytest.raises(InputError, match="not resizable"):
        read_torch_file(path)


def test_an_old_file_with_sizes_that_are_not_there(path):
    torch.save(STATE, path, _use_new_zipfile_serialization=False)
    raw = path.read_bytes()
    many = struct.pack("<i", 10**9)
    path.write_bytes(raw.replace(b"K\x06N", b"J" + many + b"N"))
    with pytest.raises(InputError, match="truncated"):
        read_torch_file(path)
    path.write_bytes(raw[:-10])
    with pytest.raises(InputError, match="truncated"):
        read_torch_file(path)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"x" * 100, b"PK\x03\x04" + bytes(100), b"\x80\x02" + b"]" * 5, b"\x80\x02" + b"(" * 10_000 + b".",
        pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + b"\x80\x02}.",
        b"\x80\x02" + b"]" + b"]a" * 0 + b"\x8a\xff" + bytes(255) + b".",
        b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
        b"\x80\x02" + b"X\xff\xff\xff\x7f" + b"abc",
    ],
)  # fmt: skip
def test_junk(path, content):
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_torch_file(path)
    assert len(str(caught.value)) < 3000


def test_torch_script_is_not_loaded(path):
    write(path, {**entries(path), "constants.pkl": b"", "code/net.py": b""}, root="archive/")
    with pytest.raises(UnsafeFileError, match="TorchScript"):
        read_torch_file(path)


@pytest.mark.parametrize("name", ["net/../evil", "/evil", "other/data.pkl", "archive/DATA.PKL"])
def test_names_of_entries(path, name):
    write(path, entries(path), root="archive/")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"")
    with pytest.raises(InputError):
        read_torch_file(path)


def test_names_of_tensors_are_not_printed_whole(path):
    torch.save({"k" * 10**6: torch.ones(1)}, path)
    with pytest.raises(InputError) as caught:
        load_weights_into(nn.Linear(2, 3), path)
    assert len(str(caught.value)) < 3000


@pytest.mark.usefixtures("forked_children")
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_bounded(tmp_path):
    """What a file of a few hundred bytes asks for is refused, not allocated."""
    zipped, old = tmp_path / "a.pt", tmp_path / "b.pt"
    torch.save(STATE, zipped)
    content = entries(zipped)
    content["data.pkl"] = content["data.pkl"].replace(b"K\x06", b"J\0\0\0\x70")  # 1,879,048,192 numbers
    write(zipped, content, root="archive/")
    torch.save(STATE, old, _use_new_zipfile_serialization=False)
    old.write_bytes(old.read_bytes().replace(b"K\x06N", b"J\0\0\0\x70N"))
    (tmp_path / "c.pt").write_bytes(b"\x80\x02cbuiltins\nbytearray\nJ\0\0\0\x70\x85R.")
    script = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
from pathlib import Path
from intertwine.errors import InputError
from intertwine.measure.load._torch_file import read_torch_file
for path in sorted(Path({str(tmp_path)!r}).glob("*.pt")):
    try:
        print(read_torch_file(path))
    except InputError:
        print("refused")
(peak,) = (line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(int(peak) < 2**20)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["refused", "refused", "refused", "True"], done.stderr


class TestSafetensors:
    def header(self, path: Path, value: object, data: bytes = b"", length: int | None = None) -> Path:
        text = json.dumps(value).encode()
        path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
        return path

    @pytest.mark.parametrize(
        "meta",
        [
            {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4 * 10**12]},
            {"dtype": "F32", "shape": [10**12], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]},
            {"dtype": "F32", "shape": [2**63, 2**63], "data_offsets": [0, 4]},
            {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]},
            {"dtype": "PICKLE", "shape": [1], "data_offsets": [0, 4]},
        ],
    )
    def test_tensors_outside_of_the_file(self, tmp_path, meta):
        path = self.header(tmp_path / "a.safetensors", {"weight": meta}, bytes(4))
        with pytest.raises(InputError, match="safetensors"):
            load_weights_into(nn.Linear(1, 1), path)

    def test_headers(self, tmp_path):
        path = tmp_path / "a.safetensors"
        for length in (2**63, 10**9, 0):
            self.header(path, {}, length=length)
            with pytest.raises(InputError):
                load_weights_into(nn.Linear(1, 1), path)
        path.write_bytes(struct.pack("<Q", 200_000) + b"[" * 200_000)
        with pytest.raises(InputError) as caught:
            load_weights_into(nn.Linear(1, 1), path)
        assert len(str(caught.value)) < 3000

    def test_a_good_one(self, tmp_path):
        (tmp_path / "a.safetensors").write_bytes(save(STATE))
        model = nn.Linear(2, 3)
        assert load_weights_into(model, tmp_path / "a.safetensors") == []
        torch.testing.assert_close(model.weight.detach(), STATE["weight"])

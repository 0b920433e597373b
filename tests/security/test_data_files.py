"""Archives, folders and arrays of images that are made to fill the memory or the time."""

from __future__ import annotations

import bz2
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from intertwine.data.readers._npz import load_array, open_npz, read_npz
from intertwine.data.sources._tree import ArchiveTree, FolderTree
from intertwine.errors import InputError, SizeLimitError


def everything(name: str) -> bool:
    return True


class TestZip:
    def test_a_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1M")
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/1.png", bytes(2**21))
        with pytest.raises(SizeLimitError):
            ArchiveTree(tmp_path / "a.zip", everything)

    def test_a_bomb_that_lies_about_its_size(self, tmp_path):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a/1.png", bytes(2**21))
        raw = bytearray((tmp_path / "a.zip").read_bytes())
        at = raw.rindex(b"PK\x01\x02")
        raw[at + 24 : at + 28] = struct.pack("<I", 100)
        (tmp_path / "a.zip").write_bytes(raw)
        with pytest.raises(InputError, match="CRC"):  # a hundred bytes are unpacked, and they are not the file
            ArchiveTree(tmp_path / "a.zip", everything)

    @pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
    def test_compressions_that_are_unpacked_without_bound(self, tmp_path, method):
        with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
            archive.writestr("a/1.png", bytes(1000))
        with pytest.raises(InputError, match="another compression"):
            ArchiveTree(tmp_path / "a.zip", everything)


class TestTar:
    def test_members_that_are_skipped_count(self, tmp_path):
        """A hundred bytes of bzip2 stand for megabytes, all of which are unpacked to reach the next member."""
        block = bz2.compress(bytes(2**24))
        header = tarfile.TarInfo("a/big.bin")
        header.size = 2**33
        with open(tmp_path / "a.tar.bz2", "wb") as file:
            file.write(bz2.compress(header.tobuf()))
            for _ in range(4):
                file.write(block)
        with pytest.raises(InputError, match="bytes together"):
            ArchiveTree(tmp_path / "a.tar.bz2", lambda name: False)

    def test_sparse_members(self, tmp_path):
        """One that says it is a gigabyte of nothing."""
        info = tarfile.TarInfo("a/1.png")
        info.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(2**30)}
        info.pax_headers["GNU.sparse.map"] = f"{2**30},0"
        with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.PAX_FORMAT) as archive:
            archive.addfile(info)
        with pytest.raises(InputError, match="a link or a device"):
            ArchiveTree(tmp_path / "a.tar", everything)

    def test_too_many(self, tmp_path, monkeypatch):
        monkeypatch.setattr("intertwine.data.sources._tree.MAX_MEMBERS", 5)
        with tarfile.open(tmp_path / "a.tar", "w") as archive:
            for k in range(10):
                archive.addfile(tarfile.TarInfo(f"a/{k}.png"))
        with pytest.raises(InputError, match="at most 5 members"):
            ArchiveTree(tmp_path / "a.tar", everything)


class TestFolders:
    def test_links_that_lead_up(self, tmp_path):
        """Two of them would be walked 2^40 times."""
        (tmp_path / "cat").mkdir()
        (tmp_path / "cat" / "1.png").write_bytes(b"")
        for name in ("one", "two"):
            (tmp_path / name).symlink_to(tmp_path)
            (tmp_path / "cat" / name).symlink_to(tmp_path / "cat")
        assert FolderTree(tmp_path, everything).files == ["cat/1.png"]

    def test_a_folder_may_be_linked_twice(self, tmp_path):
        (tmp_path / "all").mkdir()
        (tmp_path / "all" / "1.png").write_bytes(b"")
        (tmp_path / "data").mkdir()
        for name in ("train", "test"):
            (tmp_path / "data" / name).symlink_to(tmp_path / "all")
        assert FolderTree(tmp_path / "data", everything).files == ["test/1.png", "train/1.png"]


class TestNpz:
    def packed(self, path: Path, header: str, data: bytes = b"", method: int = zipfile.ZIP_DEFLATED) -> Path:
        """A file with one array, whose header is this text."""
        text = header.encode() + b" " * (-(len(header) + 11) % 64) + b"\n"
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("images.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data)
            archive.writestr("labels.npy", b"")
        return path

    @pytest.mark.parametrize(
        "header",
        [
            "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000000,)}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (100, 1000, 1000)}",
            "{'descr': '|V0', 'fortran_order': False, 'shape': (1000000000000,)}",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': (-5, 7)}",
            "{'descr': '|u1', 'fortran_order': False, 'shape': __import__('os')}",
            "-" * 9000,
            "(" * 9000,
            "",
        ],
    )
    def test_headers(self, tmp_path, header):
        path = self.packed(tmp_path / "a.npz", header, b"123")
        with pytest.raises(InputError) as caught:
            read_npz(path)
        assert len(str(caught.value)) < 4000

    def test_a_bomb(self, tmp_path, monkeypatch):
        monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1M")
        np.savez_compressed(tmp_path / "a.npz", images=np.zeros(2**21, np.uint8), labels=np.zeros(1, np.int64))
        with open_npz(tmp_path / "a.npz") as file, pytest.raises(SizeLimitError):
            load_array(file, tmp_path / "a.npz", "images")

    def test_other_compressions(self, tmp_path):
        header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}"
        path = self.packed(tmp_path / "a.npz", header, b"123", zipfile.ZIP_BZIP2)
        with pytest.raises(InputError, match="numpy does not write"):
            read_npz(path)

    def test_a_good_one(self, tmp_path):
        stream = io.BytesIO()
        np.savez_compressed(stream, images=np.zeros((4, 3, 5), np.uint8), labels=np.array([0, 1, 0, 1]))
        (tmp_path / "a.npz").write_bytes(stream.getvalue())
        assert read_npz(tmp_path / "a.npz").shape == (1, 3, 5)

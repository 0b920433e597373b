"""Archives of class folders, honest and malicious ones. Nothing is ever written to disk."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from intertwine.data import load
from intertwine.errors import InputError, SizeLimitError

SUFFIXES = [".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz"]


def png(value: int) -> bytes:
    stream = io.BytesIO()
    Image.new("L", (4, 3), value).save(stream, "png")
    return stream.getvalue()


def good(prefix: str = "") -> dict[str, bytes]:
    return {
        f"{prefix}{part}/{label}/{k}.png": png(100 * p + 10 * c + k)
        for p, part in enumerate(("train", "test"))
        for c, label in enumerate(("cat", "dog"))
        for k in range(3)
    }


def tar_mode(path: Path) -> str:
    return "w:" + {".tar": "", ".gz": "gz", ".tgz": "gz", ".bz2": "bz2", ".xz": "xz"}[path.suffix]


def pack(path: Path, files: dict[str, bytes], *extra: tarfile.TarInfo | zipfile.ZipInfo) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
            for info in extra:
                assert isinstance(info, zipfile.ZipInfo)
                archive.writestr(info, b"x")
    else:
        with tarfile.open(path, tar_mode(path)) as archive:  # type: ignore[call-overload]
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
            for info in extra:
                archive.addfile(info)
    return path


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("prefix", ["", "pets/", "./a/b/"])
def test_an_archive_reads_like_the_folder(tmp_path: Path, suffix: str, prefix: str) -> None:
    path = pack(tmp_path / f"pets{suffix}", {**good(prefix), f"{prefix}README": b"x", "__MACOSX/train/._0.png": b"x"})
    data = load(path)
    assert data.classes == ("cat", "dog")
    assert data.train.raw()[:, 0, 0, 0].tolist() == [0, 1, 2, 10, 11, 12]
    assert data.test.raw()[:, 0, 0, 0].tolist() == [100, 101, 102, 110, 111, 112]
    assert torch.equal(load(path, lazy=True).train.raw(), data.train.raw())
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_without_a_split_of_its_own(tmp_path: Path, suffix: str) -> None:
    files = {f"pets/{label}/{k}.png": png(k) for label in ("cat", "dog") for k in range(5)}
    data = load(pack(tmp_path / f"pets{suffix}", files))
    assert data.classes == ("cat", "dog")
    assert (len(data.train), len(data.test)) == (8, 2)
    one = load(pack(tmp_path / f"one{suffix}", {f"cat/{k}.png": png(k) for k in range(5)}))
    assert one.classes == ("cat",)


def directory(name: str, suffix: str) -> tarfile.TarInfo | zipfile.ZipInfo:
    if suffix == ".zip":
        return zipfile.ZipInfo(name + "/")
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_an_empty_class_folder_in_an_archive(tmp_path: Path, suffix: str) -> None:
    path = pack(tmp_path / f"pets{suffix}", good("pets/"), directory("pets/train/emu", suffix))
    with pytest.raises(InputError, match="with the empty train/emu"):
        load(path)


OUTSIDE = ["../evil.png", "train/../../evil.png", "/tmp/evil.png", "..\\evil.png", "C:\\evil.png", "C:evil.png"]


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz"])
def test_a_path_outside_of_the_target_is_refused(tmp_path: Path, suffix: str, name: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = pack(inner / f"pets{suffix}", {**good(), name: png(0)})
    with pytest.raises(
        InputError, match=r"expected an archive of plain files.*a path outside the target.*a source you trust"
    ) as e:
        load(path)
    assert repr(name) in str(e.value)
    assert [file.name for file in tmp_path.rglob("*")] == ["inner", path.name]


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_also_when_the_bad_member_is_no_image(tmp_path: Path, suffix: str) -> None:
    path = pack(tmp_path / f"pets{suffix}", {**good(), "../../.bashrc": b"x"})
    with pytest.raises(InputError, match="a path outside the target"):
        load(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(tmp_path: Path, kind: bytes) -> None:
    member = tarfile.TarInfo("train/cat/link.png")
    member.type, member.linkname = kind, "/etc/passwd"
    with pytest.raises(InputError, match=r"'train/cat/link.png', a link or a device"):
        load(pack(tmp_path / "pets.tar", good(), member))


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("train/cat/link.png")
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(InputError, match="a link or a device"):
        load(pack(tmp_path / "pets.zip", good(), info))


def test_ordinary_permissions_in_a_zip_are_fine(tmp_path: Path) -> None:
    info = zipfile.ZipInfo("README")
    info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
    assert len(load(pack(tmp_path / "pets.zip", good(), info)).train) == 6


def test_cifar_archives_are_checked_as_well(tmp_path: Path) -> None:
    pack(tmp_path / "cifar-10-binary.tar.gz", {"../data_batch_1.bin": b"x"})
    with pytest.raises(InputError, match="a path outside the target"):
        load("cifar10", folder=tmp_path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damaged_archives_are_named(tmp_path: Path, suffix: str) -> None:
    path = pack(tmp_path / f"pets{suffix}", good())
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="expected a complete zip or tar archive"):
        load(path)
    path.write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(InputError, match="expected a complete zip or tar archive"):
        load(path)


def test_a_bomb_is_refused_before_it_goes_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERTWINE_MEMORY_LIMIT", "1M")
    zeros = bytes(20_000_000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train/cat/bomb.png", zeros)
    for path in (tmp_path / "bomb.zip", pack(tmp_path / "bomb.tar.gz", {"train/cat/bomb.png": zeros})):
        with pytest.raises(SizeLimitError, match="the content of the archive"):
            load(path)


def test_a_password_is_said_to_be_the_trouble(tmp_path: Path) -> None:
    path = pack(tmp_path / "pets.zip", {"a/x.png": png(0)})
    content = bytearray(path.read_bytes())
    content[6] |= 1  # the flag of encryption, in the local header and in the directory
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="an archive without a password"):
        load(path)


def test_an_archive_with_one_part_only(tmp_path: Path) -> None:
    files = {name: content for name, content in good().items() if name.startswith("train/")}
    with pytest.raises(InputError, match=r"with train/ only. Archive only its class folders"):
        load(pack(tmp_path / "pets.zip", files))


def test_an_archive_without_images(tmp_path: Path) -> None:
    maker: Callable[[str], Path] = lambda name: pack(tmp_path / name, {"a/b.txt": b"x"})  # noqa: E731
    for name in ("x.zip", "x.tar"):
        with pytest.raises(InputError, match="without any image"):
            load(maker(name))

"""Trees of files: a folder, or an archive that is checked and read without unpacking anything to disk."""

from __future__ import annotations

import io
import os
import stat
import tarfile
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from lzma import LZMAError
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from ..._numerics import require_memory
from ...errors import InputError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
MAX_MEMBERS = 2_000_000
MAX_RATIO = 100
"""The maximum ratio of the total size of an archive's members to its own size. Up to a gigabyte is always allowed."""

_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, LZMAError, EOFError, OSError, RuntimeError, ValueError)


class FileTree(ABC):
    """Files and folders by relative path, with ``/`` as the separator."""

    def __init__(self, where: Path, files: list[str], folders: list[str]) -> None:
        self.where, self.files, self.folders = where, sorted(files), sorted(folders)

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """Open a file for reading. The caller closes it."""


class FolderTree(FileTree):
    """A folder on disk, without its hidden files."""

    def __init__(self, root: Path, select: Callable[[str], bool]) -> None:
        files: list[str] = []
        folders: list[str] = []
        for base, inner, names in os.walk(root, followlinks=True):
            inner[:] = [name for name in inner if not _hidden(name) and not _leads_up(base, name)]
            prefix = Path(base).relative_to(root).as_posix()
            prefix = "" if prefix == "." else f"{prefix}/"
            folders += [prefix + name for name in inner]
            _require_few(root, len(files) + len(folders))
            files += [prefix + name for name in names if not _hidden(name) and select(name)]
        super().__init__(root, files, folders)

    def open(self, path: str) -> IO[bytes]:
        """Open a file on disk."""
        return (self.where / path).open("rb")


class ArchiveTree(FileTree):
    """A zip or tar archive with its selected files in memory. Images stay encoded.

    An archive with a member that would be unpacked outside the target, or that is a link or a device, is refused:
    nobody creates such an archive of images by accident.
    """

    def __init__(self, path: Path, select: Callable[[str], bool]) -> None:
        self._content: dict[str, bytes] = {}
        folders: set[str] = set()
        read = _read_zip if path.suffix == ".zip" else _read_tar
        try:
            for name in read(path, select, self._content):
                parts = PurePosixPath(name.rstrip("/")).parts
                deepest = len(parts) if name.endswith("/") else len(parts) - 1
                if not any(map(_hidden, parts)):
                    folders |= {"/".join(parts[: k + 1]) for k in range(deepest)}
        except InputError:
            raise
        except _DAMAGE as error:
            raise InputError(
                path.name,
                expected="a complete zip or tar archive",
                got=f"{path} ({str(error) or type(error).__name__})",
                fix="Download or create it again.",
            ) from error
        super().__init__(path, list(self._content), list(folders))

    def open(self, path: str) -> IO[bytes]:
        """Open a file in memory."""
        return io.BytesIO(self._content[path])

    def read(self, path: str) -> bytes:
        """The content of a file."""
        return self._content[path]


def is_archive(path: Path) -> bool:
    """Whether a file name names a zip or tar archive."""
    return path.name.lower().endswith(ARCHIVES)


def open_tree(path: Path, select: Callable[[str], bool]) -> FileTree:
    """The tree of the files in a folder or an archive whose names ``select`` accepts."""
    return ArchiveTree(path, select) if is_archive(path) else FolderTree(path, select)


def _read_zip(path: Path, select: Callable[[str], bool], content: dict[str, bytes]) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _require_few(path, len(members))
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            # The name as stored: zipfile turns backslashes into slashes on some systems, and cuts at a zero byte.
            _require_safe(path, member.orig_filename, odd=kind not in (0, stat.S_IFREG, stat.S_IFDIR))
        selected = [m for m in members if not m.is_dir() and _is_selected(m.filename, select)]
        _require_room(path, sum(m.file_size for m in selected))
        for member in selected:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # With other methods, Python may unpack pieces of any size at once.
                raise InputError(
                    path.name,
                    expected="stored or deflated members",
                    got=f"another compression method in {path}",
                    fix="Create the archive again, or unpack it and use the folder.",
                )
            if member.flag_bits & 0x1:
                raise InputError(
                    path.name,
                    expected="an archive without a password",
                    got=f"{path}",
                    fix="Unpack it and use the folder.",
                )
            content[_plain(member.filename)] = archive.read(member)
        return [_plain(m.filename) + "/" * m.is_dir() for m in members]


def _read_tar(path: Path, select: Callable[[str], bool], content: dict[str, bytes]) -> list[str]:
    names: list[str] = []
    total = skipped = 0
    max_bytes = max(2**30, MAX_RATIO * path.stat().st_size)
    with tarfile.open(path) as archive:
        for member in archive:
            _require_safe(path, member.name, odd=not (member.isreg() or member.isdir()) or member.issparse())
            _require_few(path, len(names))
            skipped += member.size  # skipping a member of a compressed archive still unpacks it
            if skipped > max_bytes:
                raise InputError(
                    path.name,
                    expected=f"members of at most {max_bytes} bytes together",
                    got=f"more in {path}",
                    fix="Unpack it and use the folder.",
                )
            name = _plain(member.name)
            names.append(name + "/" * member.isdir())
            if member.isreg() and _is_selected(name, select):
                total += member.size
                _require_room(path, total)
                file = archive.extractfile(member)
                if file is not None:
                    content[name] = file.read()
        if path.suffix == ".tar":  # in a compressed archive, the decompressor notices a truncation
            _require_end(archive)
    return names


def _require_end(archive: tarfile.TarFile) -> None:
    """Raise an error for a truncated tar: a complete one ends with a block of zeros, which tarfile does not check."""
    if archive.fileobj is not None:
        archive.fileobj.seek(archive.offset)
        if archive.fileobj.read(1) != b"\0":
            raise tarfile.ReadError("cut off")


def _require_safe(path: Path, name: str, *, odd: bool) -> None:
    slashed = name.replace("\\", "/")
    absolute = slashed.startswith("/") or bool(PureWindowsPath(name).drive)
    if odd or absolute or "\0" in name or ".." in PurePosixPath(slashed).parts:
        problem = "a link or a device" if odd else "a path outside the target"
        raise InputError(
            path.name,
            expected="an archive of plain files and folders",
            got=f"the member {name!r}, {problem}",
            fix="Get the archive from a source you trust, or unpack it yourself and use the folder.",
        )


def _require_few(path: Path, members: int) -> None:
    if members > MAX_MEMBERS:
        raise InputError(path.name, expected=f"at most {MAX_MEMBERS} members", got=f"more in {path}")


def _require_room(path: Path, size: int) -> None:
    fix = "Unpack it and use the folder: its files are then read one by one."
    require_memory(size, itemsize=1, caller=path.name, what="the content of the archive", fix=fix)


def _plain(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _is_selected(name: str, select: Callable[[str], bool]) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not any(map(_hidden, parts)) and select(parts[-1])


def _leads_up(base: str, name: str) -> bool:
    """Whether the entry is a link to one of its parent folders, which would be walked forever."""
    entry = os.path.join(base, name)
    return os.path.islink(entry) and Path(base).resolve().is_relative_to(Path(entry).resolve())


def _hidden(name: str) -> bool:
    # macOS adds this folder to archives.
    return name.startswith(".") or name == "__MACOSX"

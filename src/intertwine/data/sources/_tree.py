"""Trees of files to read from: a folder, or an archive that is checked and read without unpacking anything to disk."""

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
MOST_MEMBERS = 2_000_000
LARGEST_RATIO = 100
"""Times the length of an archive that its members may have together, as long as they are more than a gigabyte."""

_DAMAGE = (zipfile.BadZipFile, tarfile.TarError, zlib.error, LZMAError, EOFError, OSError, RuntimeError, ValueError)


class FileTree(ABC):
    """Files and folders by relative path, parts separated by ``/``."""

    def __init__(self, where: Path, files: list[str], folders: list[str]) -> None:
        self.where, self.files, self.folders = where, sorted(files), sorted(folders)

    @abstractmethod
    def open(self, path: str) -> IO[bytes]:
        """A file, to be read from its beginning and closed."""


class FolderTree(FileTree):
    """A folder on disk; hidden files are left out."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        files: list[str] = []
        folders: list[str] = []
        for base, inner, names in os.walk(root, followlinks=True):
            inner[:] = [name for name in inner if not _hidden(name) and not _leads_up(base, name)]
            prefix = Path(base).relative_to(root).as_posix()
            prefix = "" if prefix == "." else f"{prefix}/"
            folders += [prefix + name for name in inner]
            _require_few(root, len(files) + len(folders))
            files += [prefix + name for name in names if not _hidden(name) and wanted(name)]
        super().__init__(root, files, folders)

    def open(self, path: str) -> IO[bytes]:
        """A file on disk."""
        return (self.where / path).open("rb")


class ArchiveTree(FileTree):
    """A zip or tar archive, its wanted files held in memory as they are, that is, images still compressed.

    An archive with a member that would be unpacked outside of the target, or that is a link or a device, is refused as
    a whole: nobody makes such an archive of images by accident.
    """

    def __init__(self, path: Path, wanted: Callable[[str], bool]) -> None:
        self._content: dict[str, bytes] = {}
        folders: set[str] = set()
        read = _read_zip if path.suffix == ".zip" else _read_tar
        try:
            for name in read(path, wanted, self._content):
                parts = PurePosixPath(name.rstrip("/")).parts
                deepest = len(parts) if name.endswith("/") else len(parts) - 1
                if not any(map(_hidden, parts)):
                    folders |= {"/".join(parts[: k + 1]) for k in range(deepest)}
        except InputError:
            raise
        except _DAMAGE as error:
            raise InputError(
                path.name,
                expected="a whole zip or tar archive",
                got=f"{path} ({str(error) or type(error).__name__})",
                fix="Fetch or pack it again.",
            ) from error
        super().__init__(path, list(self._content), list(folders))

    def open(self, path: str) -> IO[bytes]:
        """A file in memory."""
        return io.BytesIO(self._content[path])

    def read(self, path: str) -> bytes:
        """The content of a file."""
        return self._content[path]


def is_archive(path: Path) -> bool:
    """Whether the name is that of a zip or tar archive."""
    return path.name.lower().endswith(ARCHIVES)


def open_tree(path: Path, wanted: Callable[[str], bool]) -> FileTree:
    """The tree of the wanted files in a folder or an archive; ``wanted`` is asked about file names."""
    return ArchiveTree(path, wanted) if is_archive(path) else FolderTree(path, wanted)


def _read_zip(path: Path, wanted: Callable[[str], bool], content: dict[str, bytes]) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _require_few(path, len(members))
        for member in members:
            kind = stat.S_IFMT(member.external_attr >> 16)
            # Names as stored: zipfile itself turns backslashes into slashes on some systems and cuts at a zero byte.
            _require_safe(path, member.orig_filename, odd=kind not in (0, stat.S_IFREG, stat.S_IFDIR))
        chosen = [m for m in members if not m.is_dir() and _is_wanted(m.filename, wanted)]
        _require_room(path, sum(m.file_size for m in chosen))
        for member in chosen:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # Python unpacks the others in pieces of any size.
                raise InputError(
                    path.name,
                    expected="an archive that is stored or deflated",
                    got=f"another compression in {path}",
                    fix="Pack it again, or unpack it and give the folder.",
                )
            if member.flag_bits & 0x1:
                raise InputError(
                    path.name, expected="an archive without password", got=f"{path}", fix="Pack it without encryption."
                )
            content[_plain(member.filename)] = archive.read(member)
        return [_plain(m.filename) + "/" * m.is_dir() for m in members]


def _read_tar(path: Path, wanted: Callable[[str], bool], content: dict[str, bytes]) -> list[str]:
    names: list[str] = []
    total = skipped = 0
    longest = max(2**30, LARGEST_RATIO * path.stat().st_size)
    with tarfile.open(path) as archive:
        for member in archive:
            _require_safe(path, member.name, odd=not (member.isreg() or member.isdir()) or member.issparse())
            _require_few(path, len(names))
            skipped += member.size  # a compressed archive is unpacked to skip a member
            if skipped > longest:
                raise InputError(
                    path.name,
                    expected=f"members of at most {longest} bytes together",
                    got=f"more in {path}",
                    fix="Unpack it and give the folder.",
                )
            name = _plain(member.name)
            names.append(name + "/" * member.isdir())
            if member.isreg() and _is_wanted(name, wanted):
                total += member.size
                _require_room(path, total)
                file = archive.extractfile(member)
                if file is not None:
                    content[name] = file.read()
        if path.suffix == ".tar":  # a compressed one that is cut off is noticed by the decompressor
            _require_end(archive)
    return names


def _require_end(archive: tarfile.TarFile) -> None:
    """A tar ends with a block of zeros; without, tarfile takes the cut for the end."""
    if archive.fileobj is not None:
        archive.fileobj.seek(archive.offset)
        if archive.fileobj.read(1) != b"\0":
            raise tarfile.ReadError("cut off")


def _require_safe(path: Path, name: str, *, odd: bool) -> None:
    slashed = name.replace("\\", "/")
    absolute = slashed.startswith("/") or bool(PureWindowsPath(name).drive)
    if odd or absolute or "\0" in name or ".." in PurePosixPath(slashed).parts:
        what = "a link or a device" if odd else "a path outside of the target"
        raise InputError(
            path.name,
            expected="an archive of plain files and folders inside of it",
            got=f"the member {name!r}, {what}",
            fix="The archive is refused: get it from a source you trust, or unpack it yourself and give the folder.",
        )


def _require_few(path: Path, members: int) -> None:
    if members > MOST_MEMBERS:
        raise InputError(
            path.name, expected=f"at most {MOST_MEMBERS} members", got=f"more in {path}", fix="Unpack it yourself."
        )


def _require_room(path: Path, size: int) -> None:
    fix = "Unpack it and give the folder: its files are then read one by one."
    require_memory(size, itemsize=1, caller=path.name, what="the content of the archive", fix=fix)


def _plain(name: str) -> str:
    return PurePosixPath(name).as_posix()


def _is_wanted(name: str, wanted: Callable[[str], bool]) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and not any(map(_hidden, parts)) and wanted(parts[-1])


def _leads_up(base: str, name: str) -> bool:
    """Whether the entry is a link to a folder that holds it, which would be walked again and again."""
    place = os.path.join(base, name)
    return os.path.islink(place) and Path(base).resolve().is_relative_to(Path(place).resolve())


def _hidden(name: str) -> bool:
    # macOS adds a folder of this name to the archives it makes.
    return name.startswith(".") or name == "__MACOSX"

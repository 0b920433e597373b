"""Archives in torch's format: uncompressed entries below one folder.

Nothing is decompressed, so the content cannot be larger than the file. Names must be plain, and differ even if case is
ignored, as torch's reader does.
"""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from types import TracebackType

from ...errors import InputError, UnsafeFileError

MAX_ENTRIES = 200_000


class StoredZip:
    """An open archive; entries are named without the folder that holds them all.

    Args:
        path: the file.
        made_by: the function that writes such files, for error messages.
        fix: what to do if the file is refused.
    """

    def __init__(self, path: Path, *, made_by: str, fix: str) -> None:
        self.path, self.made_by, self.fix = path, made_by, fix
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise self._damaged(str(error)) from None
        try:
            self._entries = self._checked(os.path.getsize(path))
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> StoredZip:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of the entries."""
        return list(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def size(self, name: str) -> int:
        """The size of an entry in bytes."""
        return self._entries[name].file_size

    def read(self, name: str, longest: int | None = None) -> bytearray:
        """The content of an entry; its checksum is verified."""
        if name not in self._entries:
            raise self._damaged(f"no entry {name!r}")
        size = self.size(name)
        if longest is not None and size > longest:
            raise self.refused(f"an entry {name!r} of {size} bytes")
        content = bytearray(size)
        try:
            with self._zip.open(self._entries[name]) as file:
                done, view = 0, memoryview(content)
                while done < size and (count := file.readinto(view[done:])):  # type: ignore[attr-defined]
                    done += count
                file.read(1)  # zipfile verifies the checksum at the end of the entry
        except (zipfile.BadZipFile, EOFError, OSError, RuntimeError, ValueError, NotImplementedError) as error:
            raise self._damaged(str(error)) from None
        if done < size:
            raise self._damaged(f"a truncated entry {name!r}")
        return content

    def refused(self, what: str) -> UnsafeFileError:
        """The error for a file that ``made_by`` would not write."""
        return UnsafeFileError(
            str(self.path),
            expected=f"a file as {self.made_by} writes it",
            got=what,
            fix=f"Nothing in it was run. {self.fix}",
        )

    def _damaged(self, what: str) -> InputError:
        return InputError(
            str(self.path), expected=f"a file written by {self.made_by}", got=what, fix="Save or copy it again."
        )

    def _checked(self, length: int) -> dict[str, zipfile.ZipInfo]:
        members = self._zip.infolist()
        if len(members) > MAX_ENTRIES:
            raise self.refused(f"{len(members)} entries")
        if sum(member.file_size for member in members) > length:
            raise self.refused("entries that are larger than the file")
        entries: dict[str, zipfile.ZipInfo] = {}
        roots: set[str] = set()
        folded: set[str] = set()
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
                raise self.refused(f"a compressed or encrypted entry {member.filename!r}")
            name = member.orig_filename
            if "\0" in name or "\\" in name or not name.isascii():
                raise self.refused(f"an entry named {name!r}")
            root, _, inner = name.partition("/")
            if not root or not inner or ".." in inner.split("/") or inner.startswith("/") or "//" in inner:
                raise self.refused(f"an entry named {name!r}, not below one folder")
            if inner.casefold() in folded:
                raise self.refused(f"two entries named {name!r}, if case is ignored")
            roots.add(root)
            folded.add(inner.casefold())
            entries[inner] = member
        if len(roots) != 1:
            raise self.refused(f"{len(roots)} folders, {', '.join(sorted(roots)[:4])}, in place of one")
        return entries

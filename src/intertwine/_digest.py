"""Content digests. Groups, representations, spaces and cached solutions are equal if their digests are."""

from __future__ import annotations

import hashlib

from torch import Tensor


def content_digest(*parts: object) -> str:
    """The SHA-256 digest of strings, numbers and tensors. Tensors enter with their shape, dtype and bytes."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            sha.update(f"{tuple(part.shape)}{part.dtype}".encode())
            sha.update(part.detach().cpu().contiguous().numpy().tobytes())
        else:
            sha.update(repr(part).encode())
        sha.update(b"\0")
    return sha.hexdigest()

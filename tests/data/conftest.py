from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.data.files import picture


@pytest.fixture(autouse=True)
def _no_data_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERTWINE_DATA", str(tmp_path / "kept"))


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., Path]:
    """Makes class folders ``root/PART/CLASS/N.png`` and returns the root."""

    def make(
        *tops: str, classes: tuple[str, ...] = ("cat", "dog"), n: int = 5, name: str = "pets", **kind: object
    ) -> Path:
        root = tmp_path / name
        for number, (top, label, k) in enumerate(
            (top, label, k) for top in (tops or ("",)) for label in classes for k in range(n)
        ):
            picture(root / top / label / f"{k}.png", seed=number, **kind)  # type: ignore[arg-type]
        return root

    return make

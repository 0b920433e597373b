from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from intertwine.train import FitResult, TrainConfig, deterministic_loader, fit, has_bfloat16
from intertwine.train._precision import chosen_precision


class Spy(nn.Module):
    """A linear map that remembers in which precision it computed."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.seen: set[torch.dtype] = set()

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(x)
        self.seen.add(y.dtype)
        return y


def trained(net: Spy, folder: Path, **options: object) -> FitResult:
    data = TensorDataset(torch.randn(8, 4), torch.arange(8) % 3)
    config = TrainConfig(max_steps=2, batch_size=4, device="cpu", **options)

    def loss(net: nn.Module, batch: list[Tensor]) -> Tensor:
        return nn.functional.cross_entropy(net(batch[0]).float(), batch[1])

    return fit(net, loss, deterministic_loader(data, 4, seed=0), config, folder=folder, progress=False)


@pytest.mark.parametrize("runtime", ["plain", "fabric"])
@pytest.mark.parametrize(("has", "dtype"), [(True, torch.bfloat16), (False, torch.float32)])
def test_auto_asks_the_processor(
    has: bool, dtype: torch.dtype, runtime: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("intertwine.train._precision.has_bfloat16", lambda: has)
    net = Spy()
    trained(net, tmp_path, precision="auto", runtime=runtime)
    assert net.seen == {dtype}
    assert net.linear.weight.dtype == torch.float32


def test_auto_changes_nothing_on_other_devices() -> None:
    assert [chosen_precision("auto", device) for device in ("cuda", "mps")] == ["32", "32"]


def test_the_record_says_what_the_processor_has(tmp_path: Path) -> None:
    assert trained(Spy(), tmp_path).record.environment["bfloat16"] is has_bfloat16()


def test_a_version_of_torch_that_cannot_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert has_bfloat16.__wrapped__() is False

"""The verdict: what the numbers say in a sentence, why, and what to do."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from intertwine.measure import Reading, audit, channel_graph
from intertwine.measure.audits._reading import CAUSE, Note
from intertwine.measure.audits._verdict import verdict

X = torch.rand(24, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def whole(metric: str, value: float, **fields: float) -> Reading:
    return Reading(metric, "hflip", value, **fields)


@pytest.mark.parametrize(
    ("error", "floor", "agreement", "state", "words"),
    [
        (2e-7, None, 1.0, "symmetric", "Symmetric under the left-right mirror: outputs change by 2e-07"),
        (0.02, None, 1.0, "nearly symmetric", "no answer changes"),
        (0.02, None, 0.995, "nearly symmetric", "0.5 % of the answers change"),
        (0.30, None, 0.93, "not symmetric", "Not symmetric under the left-right mirror: 7.0 % of the answers change"),
        (0.30, 0.28, 0.93, "hidden by resampling", "resampling the images alone causes 0.28"),
        (0.30, 0.10, 0.93, "not symmetric", "7.0 %"),
        (0.30, None, None, "not symmetric", "outputs change by 0.3 of their size"),
    ],
)
def test_the_state_follows_from_the_numbers(error, floor, agreement, state, words):
    readings = [whole("invariance_error", error, floor=floor)]
    readings += [] if agreement is None else [whole("agreement", agreement)]
    cause = Note("hflip", "a stride", CAUSE)
    decided = verdict("hflip", readings, [cause, Note("c4", "another", CAUSE)])
    assert decided.state == state
    assert words in str(decided)
    broken = state in ("nearly symmetric", "not symmetric")
    assert decided.causes == (("a stride",) if broken else ()), "a symmetric network has no cause"


def test_what_to_do():
    readings = [
        whole("invariance_error", 0.3),
        whole("agreement", 0.93),
        whole("averaging_gain", 0.0104, low=-0.0004, high=0.02),
        whole("symmetrized_invariance_error", 3e-7),
        whole("symmetrized_accuracy", 0.86),
    ]
    text = str(verdict("hflip", readings, []))
    assert "would give +1.0 points of accuracy (95 % interval +0.0 to +2.0)" in text
    assert (
        "'intertwine symmetrize' makes the network itself symmetric; without tuning its accuracy is then 86.0 %" in text
    )
    readings[3] = whole("symmetrized_invariance_error", 0.2)
    assert "symmetrize" not in str(verdict("hflip", readings, [])), "it would not help"
    assert verdict("c4", readings, []) is None


class TestCauses:
    def test_a_stride_that_does_not_fit(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
        result = audit(net, X, ["hflip", "c4"])
        for each in result.verdicts:
            assert each.causes[0] == (
                "stride 2 leaves a remainder of 1 pixel in one layer (at 7 x 7 pixels no layer is in the way)"
            )
            assert each.causes[1].startswith("filters differ from their moved and matched partners by ")
        assert result.to_dict()["verdicts"][0]["text"] == str(result.verdicts[0])
        assert str(result.verdicts[0]).split()[:3] == str(result).splitlines()[1].split()[:3]

    def test_only_the_filters(self):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
        (each,) = audit(net, X, "hflip").verdicts
        assert each.causes[0] == "the filters; at this image size every layer could commute with it"

    def test_a_symmetric_network_has_none(self):
        (each,) = audit(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2)), X, "hflip").verdicts
        assert (each.state, each.causes, each.advice) == ("symmetric", (), ())


class Branching(nn.Module):
    """Its path depends on the data, so it cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        h = self.conv(x).relu().mean((2, 3))
        return self.head(2 * h if h.sum() > 0 else h)


def test_a_network_that_cannot_be_traced(capfd, monkeypatch):
    """torch used to print its graph once per step and symmetry, and the note on strides blamed the image size."""
    tries = []

    def trace(*args):
        tries.append(args)
        return channel_graph(*args)

    monkeypatch.setattr("intertwine.measure.audits._subject.channel_graph", trace)
    result = audit(Branching(), X, ["hflip", "c4"])
    captured = capfd.readouterr()
    assert captured.err == captured.out == ""
    assert len(tries) == 1
    notes = {note.about: note.text for note in result.notes}
    assert "does not run without data, as with data-dependent control flow" in notes["strides, hflip"]
    assert "torch.export can trace" in notes["channels, hflip"]
    assert len(result.verdicts) == 2

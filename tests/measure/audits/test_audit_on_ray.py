"""An audit with its images split across the workers of a real Ray on this machine."""

from __future__ import annotations

import sys
from copy import deepcopy

import pytest
import torch
from torch import nn

from intertwine.errors import InputError, MissingExtraError
from intertwine.measure import audit, load_network, parse_symmetry
from intertwine.measure.audits._shards import joined
from intertwine.measure.audits._subject import Subject
from intertwine.measure.audits._whole import measure_whole

X = torch.rand(23, 3, 9, 9, generator=torch.Generator().manual_seed(0)).double()
LABELS = torch.arange(23) % 4


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 4)]
    return nn.Sequential(*layers).double()


@pytest.mark.parametrize("details", [7, 512])
def test_parts_join_to_the_whole(net, details):
    subject = Subject.of(net, X, LABELS, batch_size=5, detail_images=details)
    for name in ("hflip", "C8"):
        group = parse_symmetry(name)
        whole = measure_whole(subject, group)
        parts = joined([measure_whole(subject.part(a, b), group) for a, b in ((0, 4), (4, 5), (5, 23))], group)
        for kind in ("values", "floors"):
            ours, theirs = getattr(parts, kind), getattr(whole, kind)
            assert list(ours) == list(theirs)
            for metric in theirs:
                torch.testing.assert_close(ours[metric], theirs[metric], atol=1e-12, rtol=0)
        for a, b in zip(parts.layer_errors().layers, whole.layer_errors().layers, strict=True):
            assert (a.name, a.invariance.n) == (b.name, b.invariance.n)
            assert a.invariance.mean == pytest.approx(b.invariance.mean, abs=1e-12)


def test_without_ray(net, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'intertwine\[ray\]'"):
        audit(net, X, engine="ray")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.whole
class TestOnRay:
    @pytest.fixture(scope="class", autouse=True)
    def session(self):
        """One Ray for all tests here: starting it takes seconds."""
        ray = pytest.importorskip("ray")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        yield
        ray.shutdown()

    def test_the_same_results(self, net):
        here = audit(net, (X, LABELS), ["hflip", "c4"])
        there = audit(net, (X, LABELS), ["hflip", "c4"], engine="ray", workers=2)
        assert [str(v) for v in there.verdicts] == [str(v) for v in here.verdicts]
        assert len(there.readings) == len(here.readings)
        for a, b in zip(there.readings, here.readings, strict=True):
            assert (a.metric, a.symmetry, a.layer, a.n) == (b.metric, b.symmetry, b.layer, b.n)
            assert a.value == pytest.approx(b.value, abs=1e-10)

    def test_a_network_from_the_current_folder(self, tmp_path, monkeypatch):
        """Its module is not importable on the workers."""
        (tmp_path / "net_on_ray.py").write_text(
            "from torch import nn\n"
            "class Net(nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.head = nn.Linear(3, 4)\n"
            "    def forward(self, x):\n"
            "        return self.head(x.mean((2, 3)))\n"
        )
        monkeypatch.chdir(tmp_path)
        model = load_network("net_on_ray:Net").model
        result = audit(model, X.float(), "hflip", engine="ray", workers=9)  # of which two fit
        assert result.reading("invariance_error").n == 23

    def test_an_error_on_a_worker_is_the_error(self, net):
        bad = X.clone()
        bad[20] = 1e308
        loud = deepcopy(net)
        with torch.no_grad():
            for weight in loud.parameters():
                weight.mul_(100)  # one image overflows, whatever the first weights are
        for engine in ({}, {"engine": "ray", "workers": 2}):
            with pytest.raises(InputError, match="finite outputs"):
                audit(loud, bad, "hflip", **engine)

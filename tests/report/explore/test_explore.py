"""The explorer's server: what it answers, what it refuses, and that the numbers are those of the library."""

from __future__ import annotations

import base64
import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

import numpy as np
import pytest
import torch

from intertwine.demo import TurningDigits, load_capsules, save_capsules
from intertwine.errors import InputError
from intertwine.groups import parse, parse_representation
from intertwine.kernels import solve
from intertwine.measure import audit
from intertwine.models import TopographicVAE, plain_cnn
from intertwine.relaxed import SoftConv2d
from intertwine.report import Explorer
from intertwine.report.explore._relax import GRID, IMAGE, KERNEL, filters_at_places
from intertwine.spaces import Grid2d
from tests.report.serving import Answer, ask, serving
from tests.waiting import wait_until

# The module's own server, which most tests ask, is started as for users; the workers of other servers are forked.
pytestmark = pytest.mark.usefixtures("forked_children")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demonstration: a network with capsules that is not trained, and an audit."""
    place = tmp_path_factory.mktemp("demo")
    torch.manual_seed(0)
    save_capsules(place, TopographicVAE((1, 16, 16), capsules=4, length=9, window=9), steps=7)
    net = plain_cnn(1, 10, widths=(4, 6))
    audit(net, torch.rand(8, 1, 9, 9), ["hflip"], name="small").save(place / "audits" / "small")
    return place


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Explorer]:
    with serving(demo=folder) as made:
        yield made


def pixels(text: str, *shape: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=np.int8).reshape(shape)


def test_it_listens_to_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert server.url == f"http://127.0.0.1:{server.server_address[1]}/"


def test_the_page_is_whole_and_asks_nobody_else(server):
    answer = ask(server, "/")
    assert answer.status == 200
    text = answer.body.decode()
    assert len(text) < 200_000
    assert "://" not in text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert "connect-src 'self'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", ""])
def test_other_names_of_the_address_are_refused(server, host):
    for path in ("/", "/api/audits"):
        answer = ask(server, path, headers={"Host": host})
        assert answer.status == 403
        assert server.url in answer.json["error"]
    assert ask(server, "/api/audits", headers={"Host": f"localhost:{server.server_address[1]}"}).status == 200


ELSEWHERE = (
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Referer": "http://evil.example/page"},
)


@pytest.mark.parametrize("headers", ELSEWHERE)
def test_other_pages_can_ask_for_nothing(server, headers):
    for method, path in (("GET", "/api/representations?group=C4"), ("GET", "/api/audits"), ("POST", "/api/capsules")):
        answer = ask(server, path, method, headers=headers)
        assert (answer.status, answer.json["error"]) == (403, "requests from other pages are refused")


def test_its_own_page_and_links_are_served(server):
    own = {"Origin": server.url.rstrip("/"), "Referer": server.url, "Sec-Fetch-Site": "same-origin"}
    assert ask(server, "/api/audits", headers=own).status == 200
    state = ask(server, "/api/capsules", "POST", headers=own)
    assert state.json["state"] == "ready", "the demonstration has a network: nothing is trained"
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Referer": "http://docs.example/"}
    assert ask(server, "/", headers=link).status == 200
    assert ask(server, "/api/audits", headers=link).status == 403


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api/", "/api/nothing", "/templates/page.css", "//etc"]
)
def test_no_file_is_served(server, path):
    answer = ask(server, path)
    assert answer.status == 404
    assert answer.json["error"].startswith("unknown path ")


def test_an_audit_is_looked_up_never_opened_by_its_path(server, folder, tmp_path):
    (tmp_path / "audit.json").write_text((folder / "audits/small/audit.json").read_text())
    for name in (str(tmp_path), "../audits/small", "/etc", str(folder / "audits" / ".." / "audits" / "small")):
        answer = ask(server, "/api/audit", name=name)
        assert answer.status == 400
        assert "expected one of" in answer.json["error"]


def test_long_requests_and_other_methods_are_refused(server):
    assert ask(server, "/" + "x" * 3000).status == 414
    assert ask(server, "/", "DELETE").status == 501
    assert ask(server, "/", "HEAD").body == b""


@pytest.mark.parametrize(
    ("group", "source", "target", "size"),
    [
        ("D4", "trivial", "regular", 3),
        ("C4", "2*trivial + regular", "irrep1", 3),
        ("D3", "regular", "standard", 5),
        ("SO(2)", "irrep1", "trivial + irrep2", 5),
        ("C1", "trivial", "trivial", 2),
    ],
)
def test_kernels_are_those_of_the_library(server, group, source, target, size):
    answer = ask(server, "/api/kernels", group=group, **{"in": source, "out": target}, size=size).json
    moving = parse(group)
    space = Grid2d(moving)
    fields = [space.field(parse_representation(moving, text)) for text in (source, target)]
    basis = solve(*fields, kernel_size=size)
    kernels = [text for orbit in answer["orbits"] for text in orbit["kernels"]]
    assert answer["dimension"] == answer["drawn"] == len(kernels) == basis.dim
    assert (answer["rows"], answer["columns"]) == (fields[1].dim * size, fields[0].dim * size)
    drawn = np.stack([pixels(text, answer["rows"], answer["columns"]) for text in kernels]) / 127 * answer["largest"]
    expected = torch.stack([basis.filters(kappa) for kappa in basis.on_cosets()])
    expected = torch.einsum("kabyx->kaybx", expected).reshape(basis.dim, -1)
    # The pictures span the space of the basis: what is left after projecting is the rounding to bytes.
    q = torch.linalg.qr(expected.T)[0]
    rest = torch.from_numpy(drawn.reshape(len(drawn), -1)).T
    assert (rest - q @ (q.T @ rest)).abs().max() < 0.01 * answer["largest"]
    assert np.linalg.matrix_rank(drawn.reshape(len(drawn), -1), tol=0.05 * answer["largest"]) == basis.dim


@pytest.mark.parametrize("group", ["C1", "C5", "D1", "D4", "D5", "O(2)"])
def test_every_name_that_is_offered_is_understood(server, group):
    for name in ask(server, "/api/representations", group=group).json:
        answer = ask(server, "/api/kernels", group=group, **{"in": name, "out": name}, size=3)
        assert answer.status == 200, answer.json


def test_many_kernels_are_counted_and_some_are_drawn(server):
    answer = ask(server, "/api/kernels", group="D4", **{"in": "regular", "out": "2*regular"}, size=5).json
    assert answer["dimension"] == 8 * 2 * 8 * 25 // 8
    assert sum(len(orbit["kernels"]) for orbit in answer["orbits"]) == answer["drawn"] < answer["dimension"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"group": "D4", "in": "trivial", "out": "regluar", "size": 3}, "expected a representation of D4"),
        ({"group": "Q", "in": "trivial", "out": "regular", "size": 3}, "got 'Q'"),
        ({"group": "T", "in": "trivial", "out": "trivial", "size": 3}, "a group of the plane"),
        ({"group": "C2000", "in": "trivial", "out": "trivial", "size": 3}, "C1 to C16, D1 to D16"),
        ({"group": "C3 x S7", "in": "trivial", "out": "trivial", "size": 3}, "C1 to C16, D1 to D16"),
        ({"group": "D4", "in": "trivial", "out": "irrep999999", "size": 3}, "numbers up to 64"),
        ({"group": "SO(2)", "in": "irrep999999", "out": "trivial", "size": 3}, "numbers up to 64"),
        ({"group": "D4", "in": "trivial" + " + trivial" * 50, "out": "trivial", "size": 3}, "at most 200 letters"),
        ({"group": "SO(2)", "in": "trivial", "out": "regular", "size": 3}, "expected a representation of SO(2)"),
        ({"group": "D4", "in": "trivial", "out": "regular", "size": 99}, "a kernel size from 1 to 15; got 99"),
        ({"group": "D4", "in": "trivial", "out": "regular", "size": "three"}, "size: expected a whole number"),
        ({"group": "D4", "in": "trivial", "out": "9*regular", "size": 3}, "at most 64 channels"),
        ({"group": "D4", "in": "trivial", "out": "", "size": 3}, "out: expected text; got nothing"),
        ({"group": "D4", "in": "trivial", "out": "irrep1", "size": 1}, "got"),
        ({}, "group: expected text"),
    ],
)
def test_wrong_input_is_answered_with_the_librarys_own_sentence(server, query, words):
    answer = ask(server, "/api/kernels", **query)
    assert answer.status == 400
    assert words in answer.json["error"]


def test_filters_are_what_the_layer_multiplies_with():
    torch.manual_seed(0)
    layer = SoftConv2d(1, 1, kernel_size=KERNEL, softness=0.7, bias=False)
    filters = filters_at_places(layer)
    x = torch.randn(1, 1, IMAGE, IMAGE)
    line = torch.linspace(KERNEL // 2, IMAGE - 1 - KERNEL // 2, GRID).round().long().tolist()
    y = layer(x)[0, 0]
    windows = x[0, 0].unfold(0, KERNEL, 1).unfold(1, KERNEL, 1)
    for n, (i, j) in enumerate((i, j) for i in line for j in line):
        direct = (filters[n] * windows[i - KERNEL // 2, j - KERNEL // 2]).sum()
        assert torch.allclose(direct, y[i, j], atol=1e-4)


def test_softness_is_a_dial_from_a_convolution_on(server):
    strict, soft, softer = (ask(server, "/api/soft", softness=w).json for w in (0, 0.5, 1.5))
    assert len(set(strict["filters"])) == 1
    assert strict["error"] < 1e-5
    assert strict["spread"] < 1e-5
    assert len(set(soft["filters"])) == 25
    assert 1e-3 < soft["error"] < softer["error"]
    assert soft == ask(server, "/api/soft", softness=0.5).json, "seeded"
    assert soft["filters"] != ask(server, "/api/soft", softness=0.5, seed=1).json["filters"]


def test_rank_one_is_a_convolution(server):
    one, three, even = (
        ask(server, "/api/low-rank", rank=rank, strength=strength).json for rank, strength in ((1, 2), (3, 2), (3, 0))
    )
    assert len(set(one["filters"])) == 1
    assert len(set(even["filters"])) == 1
    assert len(set(three["filters"])) > 10
    assert one["error"] < 1e-5 < three["error"]
    weights = sum(pixels(text, IMAGE, IMAGE).astype(int) for text in three["maps"]) / 127
    assert np.abs(weights - 1).max() < 0.02, "a softmax over the banks"


@pytest.mark.parametrize(
    ("path", "query", "words"),
    [
        ("soft", {"softness": "nan"}, "a softness from 0 to 3"),
        ("soft", {"softness": -1}, "a softness from 0 to 3"),
        ("soft", {"softness": "much"}, "softness: expected a number; got 'much'"),
        ("soft", {"softness": 1, "seed": 10**30}, "a seed from 0"),
        ("low-rank", {"rank": 0, "strength": 1}, "a rank from 1 to 6"),
        ("low-rank", {"rank": 2, "strength": "inf"}, "a strength from 0 to 10"),
        ("capsules/roll", {"digit": 12}, "a digit from 0 to 9"),
        ("capsules/roll", {"digit": 3, "number": 10**6}, "number 1000000 of digit 3"),
        ("capsules/roll", {"digit": 3, "capsule": 99}, "a capsule from 0 to 3; got 99"),
        ("representations", {"group": "SE(2)"}, "expected"),
    ],
)
def test_wrong_numbers(server, path, query, words):
    answer = ask(server, f"/api/{path}", **query)
    assert answer.status == 400
    assert words in answer.json["error"]


def test_rolling_by_the_whole_length_is_the_first_image_again(server, folder):
    answer = ask(server, "/api/capsules/roll", digit=5).json
    assert len(answer["rolled"]) == answer["length"] + 1 == 10
    assert answer["rolled"][0] == answer["rolled"][-1]
    assert len(set(answer["rolled"])) == 9
    model, _ = load_capsules(folder)
    frames = TurningDigits().of_digit(5)
    with torch.no_grad():
        t = model.latent(frames[None], generator=torch.Generator().manual_seed(0))[:, 0]
        image = model.traverse(t)[0, 4, 0]
    assert np.abs(pixels(answer["rolled"][4], 16, 16) / 127 - image.numpy()).max() < 1 / 127
    assert np.abs(pixels(answer["frames"][4], 16, 16) / 127 - frames[4, 0].numpy()).max() < 1 / 127


def test_one_capsule_can_be_rolled_by_itself(server):
    whole, one = (ask(server, "/api/capsules/roll", digit=5, capsule=c).json["rolled"] for c in ("all", 2))
    assert one[0] == one[-1] == whole[0]
    assert one[3] not in (one[0], whole[3])


def test_a_network_is_trained_where_there_is_none():
    with Explorer(steps=3) as server:
        with pytest.raises(InputError, match="expected a trained network; got none yet"):
            server.capsules.answer(1, 0, None)
        assert server.capsules.state()["state"] == "none"
        assert server.capsules.start()["state"] == "training"
        wait_until(lambda: server.capsules.state()["state"] != "training")
        state = server.capsules.state()
        assert (state["state"], state["note"]) == ("ready", "trained here for 3 steps")
        rolled = server.capsules.answer(1, 0, None)
        assert (rolled["note"], rolled["capsules"], rolled["length"]) == (state["note"], 12, 9)


def test_a_training_that_fails_says_so(tmp_path):
    with Explorer(steps=3) as server:
        server.capsules.training.place = TemporaryDirectory(dir=tmp_path)
        (Path(server.capsules.training.place.name) / "run").write_text("a file where a folder must go")
        server.capsules.start()
        wait_until(lambda: server.capsules.state()["state"] != "training")
        assert server.capsules.state()["state"] == "failed"
        assert "File exists" in server.capsules.state()["note"]
        assert str(tmp_path) not in server.capsules.state()["note"]


def test_a_training_that_nobody_watches_ends():
    with Explorer(unwatched=1.0) as server:
        server.capsules.start()
        trainer = server.capsules.training.trainer
        wait_until(lambda: trainer._process is not None)
        wait_until(lambda: trainer._process is None)  # without asking for the state
        wait_until(lambda: server.capsules.state()["state"] == "failed")
        assert server.capsules.state()["note"] == "stopped, because no tab was asking for it"


class Endless(Explorer):
    """An explorer with one more thing to ask for: a computation that takes hours, and may take ``allowed`` seconds."""

    allowed = 3600.0

    def answer(self, path, query, gone=lambda: False):
        if path != "/api/endless":
            return super().answer(path, query, gone)
        arguments = {"folder": query["folder"], "steps": 10**7}
        return self.workers["kernels"].ask("train-capsules", arguments, gone=gone, seconds=self.allowed)


class TestHeavyWork:
    @pytest.fixture
    def begin(self, tmp_path):
        """Ask for what takes hours; the connection."""

        def asked(server):
            connection = http.client.HTTPConnection(*server.server_address[:2])
            connection.request("GET", f"/api/endless?{urlencode({'folder': tmp_path})}")
            return connection

        return asked

    def test_it_is_ended_after_its_time_and_other_rooms_answer_meanwhile(self, begin):
        with serving(Endless) as server:
            server.allowed = 3.0
            ask(server, "/api/soft", softness=1)  # its worker has started, which takes seconds on a busy machine
            connection = begin(server)
            assert ask(server, "/api/soft", softness=0).status == 200
            assert server.workers["kernels"]._turn.locked(), "one computes while the other answers"
            with closing(connection):
                answer = Answer(connection.getresponse())
            assert answer.status == 400
            assert "a computation of at most 3 seconds" in answer.json["error"]
            assert ask(server, "/api/representations", group="C4").status == 200, "a new worker answers"

    def test_memory_is_bounded(self):
        with serving(seconds=600) as server:
            answer = ask(server, "/api/kernels", group="D16", **{"in": "2*regular", "out": "2*regular"}, size=7)
            assert answer.status == 400
            assert "needs more than the 2 GB" in answer.json["error"]
            assert ask(server, "/api/representations", group="C4").status == 200, "the same worker answers"

    def test_a_closed_tab_cancels_its_work(self, begin):
        with serving(Endless) as server:
            worker = server.workers["kernels"]
            first = begin(server)
            wait_until(lambda: worker._turn.locked() and worker._process is not None)
            process = worker._process
            second = begin(server)
            wait_until(lambda: worker._waiting == 1)
            second.close()
            wait_until(lambda: worker._waiting == 0)  # dropped from the line
            assert process.poll() is None, "the other tab still waits for this"
            first.close()
            wait_until(lambda: process.poll() is not None)
            assert ask(server, "/api/representations", group="C4").status == 200

    def test_only_so_many_requests_wait(self, begin):
        with serving(Endless) as server:
            connections = [begin(server) for _ in range(9)]
            wait_until(lambda: server.workers["kernels"]._waiting == 8)
            answer = ask(server, "/api/representations", group="C4")
            assert "at most 8 requests at once" in answer.json["error"]
            for connection in connections:
                connection.close()


def test_an_audit_with_its_pictures(server, folder):
    (name,) = ask(server, "/api/audits").json
    assert name == "audits/small"
    reply = ask(server, "/api/audit", name=name).json
    kept = json.loads((folder / "audits/small/audit.json").read_text())
    assert reply["network"] == "small"
    assert len(reply["whole"]) == sum(not reading.get("layer") for reading in kept["readings"])
    filters = {layer["layer"]: layer["filters"] for layer in reply["layers"] if layer["filters"]}
    assert set(filters) == {"0", "4"}, "every layer with filters has its own"
    assert filters["0"]["pairs"] != filters["4"]["pairs"]
    orders = {layer["layer"]: layer["orders"] for layer in reply["layers"] if layer["orders"]}
    assert {name: sum(counts) for name, counts in orders.items()} == {"0": 4, "4": 6}


def test_an_audit_that_is_broken_is_explained(tmp_path):
    (tmp_path / "audit.json").write_text('{"schema": 1}')
    with serving(audits=[tmp_path]) as server:
        answer = ask(server, "/api/audit", name=tmp_path.name)
        assert answer.status == 400
        assert answer.json["error"].startswith(f"{tmp_path.name}/audit.json: expected an audit; got KeyError")


def test_audits_of_the_same_name_are_told_apart(folder, tmp_path):
    for parent in ("first", "second"):
        shutil.copytree(folder / "audits" / "small", tmp_path / parent / "small")
    with serving(audits=[tmp_path / "first", tmp_path / "second", tmp_path / "second" / "small"]) as server:
        assert ask(server, "/api/audits").json == ["small", "small (2)"]
        assert ask(server, "/api/audit", name="small (2)").json["name"] == "small (2)"


def test_a_port_that_is_taken_is_explained(server):
    with pytest.raises(InputError, match="a free port"):
        Explorer(server.server_address[1])


def test_a_network_that_cannot_be_read_is_explained(tmp_path):
    (tmp_path / "capsules.json").write_text('{"schema": 1}')
    with pytest.raises(InputError, match="Run 'intertwine demo' again"):
        Explorer(demo=tmp_path)


def test_a_server_that_ended_computes_nothing_more():
    made = Explorer()
    made.server_close()
    with pytest.raises(InputError, match="got one that was stopped"):
        made.answer("/api/audits", {})


def test_a_defect_is_no_answer_but_the_server_lives(monkeypatch, capfd):
    with serving() as server:
        worker = server.workers["relax"]
        broken = partial(worker.ask, "soft", {"no such argument": 1})
        monkeypatch.setattr(worker, "ask", lambda *arguments, **options: broken())
        answer = ask(server, "/api/soft", softness=1)
        assert answer.status == 500
        assert answer.json["error"].startswith("TypeError: ")
        assert "Traceback" in capfd.readouterr().err, "whoever started the server sees where"
        monkeypatch.undo()
        assert ask(server, "/api/soft", softness=1).status == 200


@pytest.mark.whole
def test_a_module_in_the_current_folder_is_not_imported(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    with serving() as server:
        assert ask(server, "/api/representations", group="C4").status == 200

"""The explorer's pictures: turned in front of two networks, and filtered by kernels and relaxed layers."""

from __future__ import annotations

import base64
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import conv2d

import intertwine
from intertwine.demo import save_capsules
from intertwine.groups import parse, parse_representation
from intertwine.measure import audit
from intertwine.models import TopographicVAE, plain_cnn
from intertwine.report import Explorer
from intertwine.report.explore._paths import without_paths
from intertwine.report.explore._pictures import DEFAULT, MARGIN, SIDE, digit_picture, digits, turned
from intertwine.report.explore._turn import NAMES
from intertwine.spaces import FieldAction, Grid2d
from tests.report.serving import ask, post, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("forked_children_of_module")

STEPS = 6
DIGIT = {"digit": 4, "number": 0}
BLANK = [[0.0] * SIDE for _ in range(SIDE)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A demonstration whose audit was made of a network and of data that are named by their paths."""
    place = tmp_path_factory.mktemp("demo")
    torch.manual_seed(0)
    save_capsules(place, TopographicVAE((1, 16, 16), capsules=4, length=9, window=9), steps=7)
    audited = audit(plain_cnn(1, 10, widths=(4, 6)), torch.rand(8, 1, 9, 9), ["hflip"], name=str(place / "net.pt"))
    audited.save(place / "audits" / "small")
    for name, schema in (("broken", 1), ("newer", 99)):
        (place / "audits" / name).mkdir()
        (place / "audits" / name / "audit.json").write_text(json.dumps({"schema": schema}))
    return place


@pytest.fixture(scope="module")
def server(folder: Path, forked_children_of_module: None) -> Iterator[Explorer]:
    """An explorer whose two networks are trained for a few steps."""
    with serving(demo=folder, turn_steps=STEPS) as made:
        before = post(made, "/api/turn/look", {"picture": DIGIT, "angle": 0, "layer": 2})
        assert (before.status, "Train it first" in before.json["error"]) == (400, True)
        assert ask(made, "/api/turn").json["state"] == "none"
        assert ask(made, "/api/turn", "POST").json["state"] == "training"
        wait_until(lambda: ask(made, "/api/turn").json["state"] != "training")
        state = ask(made, "/api/turn").json
        assert (state["state"], state["done"], state["total"]) == ("ready", 2 * STEPS, 2 * STEPS)
        yield made


def look(server: Explorer, angle: float, *, layer: int = 2, picture: object = DIGIT) -> dict:
    answer = post(server, "/api/turn/look", {"picture": picture, "angle": angle, "layer": layer})
    assert answer.status == 200, answer.json
    return answer.json


def pixels(text: str, side: int) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype=np.int8).reshape(side, side)


# -- turning -----------------------------------------------------------------------------------------------------------


def test_quarter_turns_move_pixels_and_other_turns_are_counterclockwise():
    x = torch.rand(2, 8, 8, dtype=torch.float64)
    for k in range(-4, 5):
        assert torch.equal(turned(x, 90 * k), x.rot90(k, (-2, -1)))
    # A dot to the right of the center goes up: rows count downward.
    dot = torch.zeros(21, 21)
    dot[10, 17] = 1
    for angle in (30, 45, 60, 135, 300):
        row, column = (10 - 7 * math.sin(math.radians(angle)), 10 + 7 * math.cos(math.radians(angle)))
        there = turned(dot, angle)
        line = torch.arange(21.0)
        middle = [float((there.sum(1) * line).sum() / there.sum()), float((there.sum(0) * line).sum() / there.sum())]
        assert middle == pytest.approx([row, column], abs=0.25)


def test_no_corner_of_a_digit_leaves_the_picture():
    images, _ = digits("test")
    radius = SIDE / 2
    line = torch.arange(SIDE) - (SIDE - 1) / 2
    outside = (line[:, None] ** 2 + line**2).sqrt() > radius
    assert images[:, 0, outside].sum() / images.sum() < 1e-3
    assert images[:, :, :MARGIN].sum() == 0


def test_the_equivariant_network_does_not_notice_quarter_turns_and_the_plain_one_does(server):
    upright = look(server, 0)["networks"]
    for angle in (90, 180, 270, 360):
        now = look(server, angle)["networks"]
        change = {
            name: np.abs(np.subtract(now[name]["probabilities"], upright[name]["probabilities"])).max()
            for name in NAMES
        }
        assert change["equivariant"] < 1e-5
        assert now["equivariant"]["difference"] < 1e-5
        if angle != 360:
            assert change["plain"] > 1e-3
            assert now["plain"]["difference"] > 0.1
            assert now["plain"]["change"] > 1e-3 > 1e-5 > now["equivariant"]["change"]


def test_between_its_turns_the_equivariant_network_is_approximate(server):
    differences = {angle: look(server, angle, layer=1)["networks"] for angle in (11, 45, 90)}
    assert differences[11]["equivariant"]["difference"] > differences[90]["equivariant"]["difference"]
    assert differences[45]["equivariant"]["difference"] < differences[45]["plain"]["difference"]


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_maps_turn_along_and_turned_back_they_are_those_of_the_upright_picture(server, layer):
    answer = look(server, 90, layer=layer)
    maps, back, upright = (answer["networks"]["equivariant"][kind] for kind in ("maps", "back", "upright"))
    side = answer["networks"]["equivariant"]["side"]
    assert side == {1: SIDE, 2: SIDE // 2, 3: SIDE // 4}[layer]
    assert len(maps) == 4
    for turned_map, straight, first in zip(maps, back, upright, strict=True):
        # Rounded to bytes; a value halfway between two bytes may fall to either.
        assert np.abs(pixels(straight, side).astype(int) - pixels(first, side)).max() <= 1
        assert np.array_equal(np.rot90(pixels(straight, side)), pixels(turned_map, side))
    plain = answer["networks"]["plain"]
    assert any(
        np.abs(pixels(a, side) - pixels(b, side)).max() > 5
        for a, b in zip(plain["back"], plain["upright"], strict=True)
    )


def test_the_curve_agrees_with_the_answers(server):
    curve = post(server, "/api/turn/curve", {"picture": DIGIT}).json
    assert curve["angles"] == list(range(0, 361, 5))
    for angle in (0, 35, 90):
        now = look(server, angle)["networks"]
        for name in NAMES:
            assert curve["curves"][name]["class"] == 4
            expected = now[name]["probabilities"][4]
            assert curve["curves"][name]["probabilities"][angle // 5] == pytest.approx(expected, abs=1e-5)


def test_a_picture_of_ones_own_is_seen_like_a_built_in_one(server):
    own = {"pixels": digit_picture(4).double().tolist()}
    mine, theirs = (look(server, 30, picture=picture) for picture in (own, DIGIT))
    assert (mine["label"], theirs["label"]) == (None, 4)
    assert mine["picture"] == theirs["picture"]
    for name in NAMES:
        assert mine["networks"][name]["probabilities"] == pytest.approx(theirs["networks"][name]["probabilities"])
    curves = post(server, "/api/turn/curve", {"picture": own}).json["curves"]
    for name in NAMES:
        upright = look(server, 0)["networks"][name]["probabilities"]
        assert curves[name]["class"] == int(np.argmax(upright)), "without a label, the network's own answer"


def with_pixel(value: object) -> list[list[object]]:
    return [[value, *BLANK[0][1:]], *BLANK[1:]]


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        ({"pixels": BLANK[:-1]}, f"expected {SIDE} rows of {SIDE} numbers; got {SIDE - 1} rows of {SIDE} numbers"),
        ({"pixels": [*BLANK[:-1], [0.0]]}, f"got {SIDE} rows of 1 or {SIDE} numbers"),
        ({"pixels": []}, "got 0 rows of no numbers"),
        ({"pixels": [0.0] * SIDE**2}, f"expected {SIDE} rows of {SIDE} numbers"),
        ({"pixels": "white"}, "got 'white'"),
        ({"pixels": with_pixel(math.nan)}, "numbers from 0 (black) to 1 (white); got nan"),
        ({"pixels": with_pixel(math.inf)}, "got inf"),
        ({"pixels": with_pixel(1.5)}, "got 1.5"),
        ({"pixels": with_pixel(-1e-9)}, "got -1e-09"),
        ({"pixels": with_pixel(10**400)}, "numbers from 0 (black) to 1 (white)"),
        ({"pixels": with_pixel("0.5")}, "got '0.5'"),
        ({"pixels": with_pixel(None)}, "got None"),
        ({"pixels": with_pixel(True)}, "got True"),
        ({"pixels": with_pixel([0.5])}, "numbers from 0 (black) to 1 (white)"),
        ({"pixels": BLANK, "digit": 1}, "a digit and a number, or pixels"),
        ({"digit": 4}, "a digit and a number, or pixels"),
        ({"digit": 12, "number": 0}, "a digit from 0 to 9"),
        ({"digit": 4, "number": -1}, "a digit from 0 to 9, and an image number below"),
        ({"digit": "4", "number": 0}, "a whole number for digit"),
        (None, "a digit and a number, or pixels"),
        ([1, 2], "a digit and a number, or pixels"),
    ],
)
def test_a_wrong_picture_is_refused(server, picture, words):
    for path, more in (("look", {"angle": 0, "layer": 2}), ("curve", {})):
        answer = post(server, f"/api/turn/{path}", {"picture": picture, **more})
        assert answer.status == 400
        assert words in answer.json["error"]


@pytest.mark.parametrize(
    ("angle", "layer", "words"),
    [
        (math.nan, 2, "an angle from 0 to 360 degrees; got nan"),
        (-1, 2, "an angle from 0 to 360 degrees"),
        (361, 2, "an angle from 0 to 360 degrees"),
        ("90", 2, "an angle from 0 to 360 degrees"),
        (True, 2, "an angle from 0 to 360 degrees"),
        (0, 4, "a layer from 1 to 3"),
        (0, "relu", "a layer from 1 to 3"),
        (0, 2.0, "a layer from 1 to 3"),
    ],
)
def test_a_wrong_angle_or_layer_is_refused(server, angle, layer, words):
    answer = post(server, "/api/turn/look", {"picture": DIGIT, "angle": angle, "layer": layer})
    assert answer.status == 400
    assert words in answer.json["error"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "expected JSON"),
        (b"{", "expected JSON"),
        (b"\xff\xfe", "expected JSON"),
        (b"[" * 60_000, "nested too deeply"),
        (b"[]", "an object with picture, angle, layer"),
        (b'{"picture": {"digit": 4, "number": 0}, "angle": 0}', "an object with picture, angle, layer"),
        (b'{"picture": 1, "angle": 0, "layer": 2, "folder": "/"}', "an object with picture, angle, layer"),
        (b" " * 100_000, "at most 65536 bytes of data; got 100000 bytes"),
    ],
)
def test_a_wrong_body_is_refused(server, body, words):
    answer = ask(server, "/api/turn/look", "POST", body=body)
    assert answer.status == 400
    assert words in answer.json["error"]


@pytest.mark.parametrize("length", ["-5", "many", "1e3", "9" * 40])
def test_a_wrong_length_is_refused(server, length):
    answer = ask(server, "/api/turn/look", "POST", headers={"Content-Length": length})
    assert answer.status == 400
    assert "at most 65536 bytes of data" in answer.json["error"]


def test_other_pages_can_send_no_picture(server):
    answer = ask(server, "/api/turn/look", "POST", headers={"Origin": "http://evil.example"}, body=b"{}")
    assert answer.status == 403
    assert ask(server, "/api/turn/nothing", "POST", body=b"{}").status == 404


# -- kernels and relaxed layers on a picture ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "source", "target", "size", "how"),
    [
        ("C4", "trivial", "regular", 3, "turned by 90°"),
        ("D4", "2*trivial", "standard", 4, "turned by 90°"),
        ("D4", "regular", "regular", 3, "turned by 90°"),
        ("C2", "irrep(1)", "trivial", 5, "turned by 180°"),
        ("D1", "trivial", "regular", 3, "mirrored"),
        ("C8", "trivial", "regular", 5, "turned by 90°"),
        ("SO(2)", "irrep1", "trivial + irrep2", 5, "turned by 90°"),
        ("C1", "trivial", "trivial", 2, "left as it is"),
        ("D8", "irrep(0, -1)", "regular", 3, "turned by 90°"),
    ],
)
def test_the_output_of_a_kernel_moves_along(server, group, source, target, size, how):
    basis = {"group": group, "in": source, "out": target, "size": size}
    drawn = ask(server, "/api/kernels", **basis).json["drawn"]
    for kernel in ("mix", 0, drawn - 1):
        answer = ask(server, "/api/kernels/apply", **basis, kernel=kernel).json
        assert (answer["how"], answer["exact"]) == (how, True)
        assert answer["error"] < 1e-12
        assert answer["output_of_moved"] == answer["moved_output"]
        assert group == "C1" or answer["output"] != answer["moved_output"]


def test_moves_that_pixels_do_not_follow_are_approximate(server):
    basis = {"group": "C3", "in": "trivial", "out": "regular", "size": 5}
    answer = ask(server, "/api/kernels/apply", **basis).json
    assert (answer["how"], answer["exact"]) == ("turned by 120°", False)
    assert 1e-6 < answer["error"] < 0.3


def test_the_output_is_the_convolution_with_the_kernel_that_is_shown(server):
    basis = {"group": "C4", "in": "trivial", "out": "regular", "size": 3}
    answer = ask(server, "/api/kernels/apply", **basis, digit=7).json
    assert (answer["rows"], answer["columns"], answer["channels"]) == (12, 3, 4)
    shown = np.frombuffer(base64.b64decode(answer["kernel"]), dtype=np.int8).reshape(4, 1, 3, 3) / 127
    picture = digit_picture(7).double()
    output = conv2d(picture[None, None], torch.from_numpy(shown), padding=1)[0]
    output = output / output.abs().max()
    drawn = np.stack([pixels(text, SIDE) for text in answer["output"]]) / 127
    assert np.abs(drawn - output.numpy()).max() < 0.05, "rounded twice to bytes"
    group = parse("C4")
    field = Grid2d(group).field(parse_representation(group, "regular"))
    moved = FieldAction.of(field, padding="zeros").move(1, output[None])[0]
    assert (
        np.abs(np.stack([pixels(text, SIDE) for text in answer["output_of_moved"]]) / 127 - moved.numpy()).max() < 0.05
    )


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"kernel": 9}, "a kernel from 0 to 8; got 9"),
        ({"kernel": "x"}, "a whole number"),
        ({"digit": 10}, "a digit from 0 to 9"),
    ],
)
def test_a_wrong_kernel_is_refused(server, query, words):
    basis = {"group": "D4", "in": "trivial", "out": "regular", "size": 3}
    answer = ask(server, "/api/kernels/apply", **basis, **query)
    assert answer.status == 400
    assert words in answer.json["error"]


def test_a_strict_layer_and_a_relaxed_one_on_a_picture(server):
    strict, soft = (ask(server, "/api/soft", softness=w).json for w in (0, 0.8))
    assert strict["apart"] < 1e-5 < 0.05 < soft["apart"]
    assert strict["outputs"]["relaxed"] == strict["outputs"]["strict"]
    assert soft["outputs"]["relaxed"] != soft["outputs"]["strict"]
    one, three = (ask(server, "/api/low-rank", rank=rank, strength=2).json for rank in (1, 3))
    assert one["apart"] < 1e-5 < 0.05 < three["apart"]
    other = ask(server, "/api/soft", softness=0.8, digit=5).json
    assert (other["filters"], other["picture"] != soft["picture"]) == (soft["filters"], True)
    refused = ask(server, "/api/soft", softness=0.8, digit=11)
    assert (refused.status, "a digit from 0 to 9" in refused.json["error"]) == (400, True)


# -- no paths ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("/home/ada/net.pt", "net.pt"),
        ("/home/ada lovelace/my runs/net.pt: expected a network", "net.pt: expected a network"),
        ("got '/tmp/x/audit.json', /srv/data/b.npz", "got 'audit.json', b.npz"),
        (r"C:\Users\Ada\net.pt", "net.pt"),
        (r"\\server\share\net.pt: no", "net.pt: no"),
        ("[Errno 2] No such file: '/root/a'", "[Errno 2] No such file: 'a'"),
        ("a and/or b, 1/2, 3 / 4 / 5, audits/small", "a and/or b, 1/2, 3 / 4 / 5, audits/small"),
        ("expected |g x|/|x| below 1; see http://example/a/b", "expected |g x|/|x| below 1; see http://example/a/b"),
    ],
)
def test_absolute_paths_are_shortened_and_nothing_else_is(text, shown):
    assert without_paths(text) == shown


def test_no_answer_names_a_folder_of_this_machine(server, folder):
    assert ask(server, "/api/audits").json == ["audits/broken", "audits/newer", "audits/small"]
    basis = {"group": "D4", "in": "trivial", "out": "regular", "size": 3}
    answers = [
        ask(server, "/"),
        ask(server, "/nothing"),
        ask(server, "/api/audits"),
        *(ask(server, "/api/audit", name=f"audits/{name}") for name in ("small", "broken", "newer", "missing")),
        ask(server, "/api/audit", name=str(folder / "audits")),
        ask(server, "/api/representations", group="C4"),
        ask(server, "/api/kernels", **basis),
        ask(server, "/api/kernels/apply", **basis),
        ask(server, "/api/kernels", **{**basis, "in": "regluar"}),
        ask(server, "/api/soft", softness=1),
        ask(server, "/api/low-rank", rank=2, strength=1),
        ask(server, "/api/capsules"),
        ask(server, "/api/capsules/roll", digit=5),
        ask(server, "/api/capsules/roll", digit=55),
        ask(server, "/api/turn"),
        post(server, "/api/turn/look", {"picture": DIGIT, "angle": 10, "layer": 2}),
        post(server, "/api/turn/look", {"picture": 1, "angle": 10, "layer": 2}),
        post(server, "/api/turn/curve", {"picture": DIGIT}),
    ]
    assert {answer.status for answer in answers} == {200, 400, 404}
    own = server.turning.training.place
    assert own is not None
    secret = [folder, Path(own.name), Path(intertwine.__file__).parent]
    places = [*map(str, secret), *(f"{place}/" for place in (Path.home(), tempfile.gettempdir(), Path.cwd()))]
    for answer in answers:
        text = answer.body.decode()
        if str(folder / "audits") in text:  # what was asked for is quoted
            pytest.fail(text[:500])
        assert [place for place in places if place in text] == []
    small = ask(server, "/api/audit", name="audits/small").json
    assert small["network"] == "net.pt"


def test_networks_that_are_gone_are_missed_without_their_path():
    with serving(turn_steps=1) as server, tempfile.TemporaryDirectory() as empty:
        server.turning.training.use(Path(empty), "gone")
        answer = post(server, "/api/turn/look", {"picture": DIGIT, "angle": 0, "layer": 2})
        assert (answer.status, answer.json["error"]) == (
            400,
            "turn: expected a trained network; got none yet. Train it first.",
        )


def test_the_picture_that_a_tab_starts_with_is_on_the_page(server):
    assert f"<option selected>{DEFAULT}</option>" in ask(server, "/").body.decode()

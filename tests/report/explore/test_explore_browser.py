"""The explorer and the page of an audit in a real Chromium: choose, drag, roll, pick, and look at what is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from intertwine.demo import save_capsules
from intertwine.measure import Audit, audit
from intertwine.models import TopographicVAE, plain_cnn
from intertwine.report import Explorer, write_audit_page
from tests.report.chromium import STYLE, Browser, contrast, luminance, needs_browser, too_wide
from tests.report.serving import serving

pytestmark = [needs_browser, pytest.mark.usefixtures("forked_children")]

CANVASES = "[...document.querySelectorAll(arguments[0])].map((canvas) => canvas.toDataURL())"
CHANGE = """const field = document.querySelector(arguments[0]);
field.value = arguments[1];
field.dispatchEvent(new Event("input", { bubbles: true }));
field.dispatchEvent(new Event("change", { bubbles: true }));"""


@pytest.fixture(scope="module")
def audited() -> Audit:
    torch.manual_seed(0)
    return audit(plain_cnn(1, 10, widths=(4, 6)), torch.rand(8, 1, 9, 9), ["hflip", "c4"], name="small")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, audited: Audit) -> Iterator[Explorer]:
    folder = tmp_path_factory.mktemp("demo")
    torch.manual_seed(0)
    save_capsules(folder, TopographicVAE((1, 16, 16), capsules=4, length=9, window=9), steps=7)
    audited.save(folder / "audits" / "small")
    with serving(demo=folder, turn_steps=3) as made:
        yield made


def enter(browser: Browser, server: Explorer, room: str, **options) -> None:
    browser.open("about:blank")
    browser.open(f"{server.url}#{room}", **options)
    settled(browser, room)


def settled(browser: Browser, room: str) -> None:
    browser.wait("return document.getElementById(arguments[0]).dataset.state === 'done'", room)


def change(browser: Browser, room: str, field: str, value: object) -> None:
    browser.run(CHANGE, f"#{room} [name={field}]", str(value))
    settled(browser, room)


def pictures(browser: Browser, selector: str) -> list[str]:
    return list(browser.run(f"return {CANVASES}", selector))


def error(browser: Browser, room: str) -> str:
    return str(browser.run(f"return document.querySelector('#{room} .error').textContent"))


@pytest.mark.parametrize("width", [1200, 390])
def test_the_rooms_are_silent_and_ask_their_server_alone(browser: Browser, server: Explorer, width: int) -> None:
    for room in ("turn", "kernels", "relax", "capsules", "audit"):
        enter(browser, server, room, width=width)
        assert error(browser, room) == ""
        assert browser.console() == []
        assert [url for url in browser.requests() if not url.startswith(server.url)] == []
        assert too_wide(browser) == []


def test_the_basis_has_as_many_pictures_as_its_dimension(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "kernels")
    drawn = "#kernels .kernels canvas"
    assert len(pictures(browser, drawn)) == 9  # D4, trivial to regular, 3 x 3: one for each tap
    change(browser, "kernels", "group", "C4")
    assert len(pictures(browser, drawn)) == 9
    change(browser, "kernels", "out", "trivial")
    assert len(pictures(browser, drawn)) == 3  # orbits of taps
    change(browser, "kernels", "size", 5)
    assert len(pictures(browser, drawn)) == 7
    change(browser, "kernels", "group", "D4")
    assert len(pictures(browser, drawn)) == 6
    change(browser, "kernels", "group", "C1")
    assert len(pictures(browser, drawn)) == 25
    change(browser, "kernels", "in", "2*trivial")
    assert len(set(pictures(browser, drawn))) == 50
    assert browser.run("return document.querySelector('#kernels .facts dd').textContent") == "50"


def test_wrong_input_shows_the_sentence_of_the_library(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "kernels")
    change(browser, "kernels", "out", "regluar")
    assert error(browser, "kernels").startswith("parse_representation: expected a representation of D4: trivial, ")
    assert pictures(browser, "#kernels .kernels canvas") == []
    change(browser, "kernels", "out", "regular")
    assert error(browser, "kernels") == ""
    assert len(pictures(browser, "#kernels .kernels canvas")) == 9


def test_dragging_the_softness_changes_the_filters_over_the_image(browser: Browser, server: Explorer) -> None:
    from selenium.webdriver import ActionChains, Keys

    enter(browser, server, "relax")
    change(browser, "relax", "softness", 0)
    strict = pictures(browser, "#relax .bank canvas")
    assert (len(strict), len(set(strict))) == (25, 1)
    assert "this is a convolution" in browser.run("return document.querySelector('#relax .found').textContent")
    slider = browser.run("return document.querySelector('#relax [name=softness]')")
    slider.send_keys(Keys.ARROW_RIGHT)
    settled(browser, "relax")
    assert len(set(pictures(browser, "#relax .bank canvas"))) > 10
    ActionChains(browser.driver).click_and_hold(slider).move_by_offset(60, 0).release().perform()
    settled(browser, "relax")
    soft = pictures(browser, "#relax .bank canvas")
    assert len(set(soft)) == 25
    assert strict[0] not in soft
    assert "no convolution" in browser.run("return document.querySelector('#relax .found').textContent")


def test_only_the_dials_of_the_layer_are_shown(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "relax")
    shown = "return [...document.querySelectorAll('#relax label')].filter((l) => l.offsetParent).length"
    assert browser.run(shown) == 4
    change(browser, "relax", "layer", "low-rank")
    assert browser.run(shown) == 5
    assert len(pictures(browser, "#relax .strip canvas")) == 6
    change(browser, "relax", "rank", 1)
    assert len(set(pictures(browser, "#relax .bank canvas"))) == 1


def test_rolling_by_the_whole_length_returns_the_first_image(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "capsules")
    seen = []
    for shift in range(10):
        change(browser, "capsules", "shift", shift)
        seen.append(pictures(browser, "#capsules .big canvas")[0])
    assert seen[0] == seen[9]
    assert len(set(seen)) == 9
    change(browser, "capsules", "digit", 7)
    assert pictures(browser, "#capsules .big canvas")[0] not in seen


def probabilities(browser: Browser, network: str) -> list[float]:
    bars = f"[...document.querySelectorAll('#turn .{network} .bars li')]"
    return list(browser.run(f"return {bars}.map((bar) => Number(bar.dataset.probability))"))


def middle_pixels(browser: Browser, selector: str) -> list[list[int]]:
    """The colors along the middle row of every canvas."""
    return list(
        browser.run(
            """return [...document.querySelectorAll(arguments[0])].map((canvas) =>
              [...canvas.getContext("2d").getImageData(0, canvas.height / 2, canvas.width, 1).data])""",
            selector,
        )
    )


@pytest.mark.whole
def test_a_picture_is_turned_in_front_of_two_networks(browser: Browser, tmp_path: Path) -> None:
    from PIL import Image
    from selenium.webdriver import Keys

    with serving(turn_steps=12) as made:
        browser.open(made.url, width=400)
        browser.wait("return document.querySelector('#turn .training p').textContent.includes('of 24')")
        settled(browser, "turn")  # it trained by itself
        upright = {name: probabilities(browser, name) for name in ("plain", "equivariant")}
        assert sum(upright["plain"]) == pytest.approx(1, abs=1e-4)
        picture = pictures(browser, "#turn .big canvas")[0]

        browser.run("document.querySelector('#turn [name=angle]').focus()")
        browser.driver.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
        settled(browser, "turn")
        assert browser.run("return document.querySelector('#turn [name=angle-shown]').value") == "1°"
        assert pictures(browser, "#turn .big canvas")[0] != picture

        quarter = browser.driver.find_element("css selector", "#turn [data-angle='90']")
        quarter.send_keys(Keys.ENTER)
        browser.wait("return document.querySelector('#turn [name=angle-shown]').value === '90°'")
        settled(browser, "turn")
        assert probabilities(browser, "equivariant") == pytest.approx(upright["equivariant"], abs=1e-5)
        assert probabilities(browser, "plain") != pytest.approx(upright["plain"], abs=1e-3)
        for name, same in (("equivariant", True), ("plain", False)):
            maps = middle_pixels(browser, f"#turn .{name} .maps canvas")
            assert len(maps) == 12
            moved, back, first = (torch.tensor(maps[k : k + 4]) for k in (0, 4, 8))
            assert bool((back - first).abs().max() <= 3) is same, "one step of the rounding is up to three of a color"
            assert (moved - first).abs().max() > 3

        file = tmp_path / "bar.png"
        Image.new("L", (90, 60), 255).save(file)
        with Image.open(file) as blank:
            blank.paste(0, (40, 10, 50, 50))
            blank.save(file)
        browser.driver.find_element("css selector", "#turn [name=file]").send_keys(str(file))
        browser.wait("return document.querySelector('#turn .big figcaption').textContent === 'bar.png'")
        settled(browser, "turn")
        own = torch.tensor(middle_pixels(browser, "#turn .big canvas")[0]).view(20, -1, 4)[:, 4, 0]  # one per cell
        # A quarter turn of a dark bar on white paper: a light bar on black, which lies now.
        assert (int(own[0]), int(own[-1])) == (0, 0)
        assert int((own > 100).sum()) >= 4
        broken = tmp_path / "broken.png"
        broken.write_bytes(b"no picture")
        browser.driver.find_element("css selector", "#turn [name=file]").send_keys(str(broken))
        browser.wait("return document.querySelector('#turn .error').textContent.includes('broken.png is no picture')")
        change(browser, "turn", "digit", 3)
        assert error(browser, "turn") == ""
        assert "digit 3" in browser.run("return document.querySelector('#turn .big figcaption').textContent")
        assert too_wide(browser) == []
        assert browser.console() == []
        assert [url for url in browser.requests() if not url.startswith(made.url)] == []


def test_a_kernel_is_chosen_by_keyboard_and_applied(browser: Browser, server: Explorer) -> None:
    from selenium.webdriver import Keys

    enter(browser, server, "kernels")
    applied = "#kernels .applied canvas"
    mix = pictures(browser, applied)
    assert len(mix) == 1 + 2 + 3 * 8
    assert mix[11:19] == mix[19:], "the output of the turned picture is the turned output"
    browser.run("document.querySelector('#kernels [name=kernel][value=mix]').focus()")
    browser.driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    settled(browser, "kernels")
    assert browser.run("return document.querySelector('#kernels [name=kernel]:checked').value") == "0"
    one = pictures(browser, applied)
    assert one[0] != mix[0]
    assert one[1] == mix[1], "the same picture"
    change(browser, "kernels", "digit", 7)
    assert pictures(browser, applied)[1] != mix[1]
    assert browser.run("return document.querySelector('#kernels [name=kernel]:checked').value") == "0"


def test_a_relaxed_layer_on_a_picture(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "relax")
    change(browser, "relax", "softness", 0)
    _, relaxed, strict, _ = pictures(browser, "#relax .outputs canvas")
    assert relaxed == strict
    change(browser, "relax", "softness", 1)
    _, relaxed, strict, _ = pictures(browser, "#relax .outputs canvas")
    assert relaxed != strict


@pytest.mark.whole
def test_a_network_is_trained_on_demand(browser: Browser) -> None:
    with serving(steps=3) as made:
        browser.open(f"{made.url}#capsules")
        browser.wait("return document.querySelector('#capsules .training p').textContent.includes('takes 3 steps')")
        browser.run("document.querySelector('#capsules [name=train]').click()")
        browser.wait("return document.querySelectorAll('#capsules .big canvas').length === 2")
        assert browser.console() == []


def test_an_audit_opens_sorts_and_shows_the_layer_that_is_picked(
    browser: Browser, server: Explorer, audited: Audit
) -> None:
    enter(browser, server, "audit")
    assert browser.run("return document.querySelector('#audit .found h2').textContent") == "small"
    shown = browser.run("return [...document.querySelectorAll('#audit .found .note')].map((note) => note.textContent)")
    assert shown[: len(audited.verdicts)] == [str(verdict) for verdict in audited.verdicts], "verdicts come first"
    heading = "return document.querySelector('#audit .picker h3').firstChild.textContent"
    assert browser.run(heading) == "0"
    before = pictures(browser, "#audit .pair canvas")
    assert len(before) == 2 * 4
    browser.run("[...document.querySelectorAll('#audit .pick')].find((b) => b.textContent === '4').click()")
    assert browser.run(heading) == "4"
    after = pictures(browser, "#audit .pair canvas")
    assert len(after) == 2 * 6 * 2
    assert not set(before) & set(after)
    assert browser.run("return document.querySelector('#audit tr.chosen .pick').textContent") == "4"
    head = browser.run(
        "return [...document.querySelectorAll('#audit th button')].find((b) => b.textContent === 'invariance error')"
    )
    column = browser.run("return [...arguments[0].closest('tr').cells].indexOf(arguments[0].parentElement)", head)
    head.click()
    values = browser.run(
        """const rows = [...arguments[0].closest("table").tBodies[0].rows];
        return rows.map((row) => row.cells[arguments[1]].dataset.value).filter(Boolean).map(Number)""",
        head,
        column,
    )
    assert len(values) > 5
    assert values == sorted(values)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser: Browser, server: Explorer, scheme: str) -> None:
    enter(browser, server, "audit", scheme=scheme)
    paper = browser.run(STYLE, "body", "backgroundColor")
    assert (luminance(paper) < 0.05) == (scheme == "dark")
    for part in (".subtitle", ".tabs button", "#audit p", ".picker dt", ".picker figcaption", "footer", ".quiet"):
        assert contrast(browser.run(STYLE, part, "color"), paper) > 4.5, part
    assert contrast(browser.run(STYLE, "select", "color"), browser.run(STYLE, "select", "backgroundColor")) > 4.5


def test_tabs_by_keyboard(browser: Browser, server: Explorer) -> None:
    from selenium.webdriver import ActionChains, Keys

    enter(browser, server, "kernels")
    browser.run("document.getElementById('tab-kernels').focus()")
    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT).perform()
    settled(browser, "relax")
    visible = "return [...document.querySelectorAll('[role=tabpanel]')].filter((p) => !p.hidden).map((p) => p.id)"
    assert browser.run(visible) == ["relax"]
    assert browser.run("return document.activeElement.id") == "tab-relax"


def test_a_server_that_is_gone_is_said(browser: Browser, server: Explorer) -> None:
    enter(browser, server, "kernels")
    browser.run("window.fetch = () => Promise.reject(new TypeError('Failed to fetch'))")
    change(browser, "kernels", "group", "C4")
    assert "does not answer. Start it again" in error(browser, "kernels")


# -- the page of an audit ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, audited: Audit) -> Path:
    return write_audit_page(tmp_path_factory.mktemp("audit") / "audit.html", audited)


@pytest.mark.parametrize("width", [1200, 390])
def test_the_audits_page_is_silent_small_and_fits(browser: Browser, page: Path, width: int) -> None:
    browser.open(page, width=width)
    assert browser.console() == []
    assert browser.requests() == [page.as_uri()]
    assert too_wide(browser) == []
    assert page.stat().st_size < 3_000_000


def drawn_pixels(browser: Browser, selector: str) -> list[list[int]]:
    """The middle color of every cell of a row of canvases is not needed: their first pixel tells them apart."""
    return list(
        browser.run(
            """return [...document.querySelectorAll(arguments[0])].map((canvas) =>
              [...canvas.getContext("2d").getImageData(0, 0, 1, 1).data.slice(0, 3)])""",
            selector,
        )
    )


def test_the_layer_picker_shows_the_right_pictures(browser: Browser, page: Path, audited: Audit) -> None:
    browser.open(page)
    for symmetry in ("c4", "hflip"):
        for layer in ("4", "0"):
            browser.run(CHANGE, ".picker [name=symmetry]", symmetry)
            browser.run(CHANGE, ".picker [name=layer]", layer)
            own, moved = (audited.arrays[f"filters/{symmetry}/{layer}/{kind}"][:8, :2] for kind in ("own", "moved"))
            top = max(own.abs().max(), moved.abs().max())
            seen = drawn_pixels(browser, ".picker .pair canvas")
            assert len(seen) == 2 * own.shape[0] * own.shape[1]
            # Red where the first weight is positive, blue where it is negative.
            for color, weight in zip(seen[0::2], own.flatten(0, 1)[:, 0, 0] / top, strict=True):
                if abs(weight) > 0.1:
                    assert (color[0] > color[2]) == bool(weight > 0)
            for color, weight in zip(seen[1::2], moved.flatten(0, 1)[:, 0, 0] / top, strict=True):
                if abs(weight) > 0.1:
                    assert (color[0] > color[2]) == bool(weight > 0)
            bars = browser.run(
                """return [...document.querySelectorAll(".picker .histogram rect")].map((bar) =>
                  [Number(bar.dataset.order), Number(bar.dataset.count)])"""
            )
            orders = audited.arrays[f"orders/{symmetry}/{layer}"].tolist()
            assert {order: count for order, count in bars if count} == {k: n for k, n in enumerate(orders, 1) if n}


def test_a_layer_without_pictures_says_so(browser: Browser, page: Path) -> None:
    browser.open(page)
    browser.run(CHANGE, ".picker [name=layer]", "2")
    assert browser.run("return document.querySelectorAll('.picker canvas').length") == 0
    assert "There are no pictures" in browser.run("return document.querySelector('.picker .shown').textContent")

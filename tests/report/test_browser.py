"""Report pages in a real Chromium (Debian: apt-get install chromium chromium-driver).

Skipped where there is none; INTERTWINE_REQUIRE_BROWSER=1 turns the skip into a failure.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from intertwine.report import Facts, Picture, Prose, Section, inline_svg, page, write_experiment_page, write_page
from tests.report.sample_experiment import COMPARISON, EXPERIMENT, HOSTILE, RUNS, hostile, large, with_figures

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
REQUIRED = os.environ.get("INTERTWINE_REQUIRE_BROWSER") == "1"
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # the sandbox of Chromium does not start as root, as which containers run
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)

pytestmark = pytest.mark.skipif(
    not (CHROMIUM and DRIVER) and not REQUIRED,
    reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
)


TABLE = "const table = [...document.querySelectorAll('table')].find((t) => t.caption.textContent === arguments[0]);"
STYLE = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"


class Browser:
    """A Chromium without a window, with the few things that the tests do in it."""

    def __init__(self, profile: Path) -> None:
        from selenium.webdriver import Chrome, ChromeOptions
        from selenium.webdriver.chrome.service import Service

        options = ChromeOptions()
        options.binary_location = str(CHROMIUM)
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = Chrome(options=options, service=Service(DRIVER))

    def open(self, path: Path, *, width: int = 1200, scheme: str = "light") -> None:
        device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get_log("browser")  # forget what was before
        self.driver.get_log("performance")
        self.driver.get(path.as_uri())

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def console(self) -> list[str]:
        return [str(entry["message"]) for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
        return [url for url in sent if not url.startswith("data:")]

    def column(self, caption: str, number: int) -> list[str]:
        """The cells of a column, from above, without their notes."""
        cells = "[...table.tBodies[0].rows].map((row) => row.cells[arguments[1]].firstChild?.textContent.trim() ?? '')"
        return list(self.run(f"{TABLE} return {cells}", caption, number))

    def head(self, caption: str, number: int) -> Any:
        """The button in a heading."""
        return self.run(f"{TABLE} return table.tHead.rows[0].cells[arguments[1]].firstElementChild", caption, number)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (CHROMIUM and DRIVER):
        pytest.fail("INTERTWINE_REQUIRE_BROWSER=1, but there is no Chromium with its driver")
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.driver.quit()


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "sample.html"
    return write_experiment_page(path, EXPERIMENT, COMPARISON, RUNS, scale="small")


RESULTS = "Test error: published and ours"
WRITTEN = ["linear classifier", "300 hidden units", "LeNet-5", "boosted LeNet-4", "D4 network"]


def test_the_console_is_silent_and_nothing_is_fetched(browser: Browser, sample: Path) -> None:
    browser.open(sample)
    assert browser.console() == []
    assert browser.requests() == [sample.as_uri()]
    assert browser.run("return document.title") == EXPERIMENT.title


def test_the_console_and_the_requests_would_be_seen(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "bad.html"
    path.write_text("<title>bad</title><script>nothing.here</script><img src='missing.png'>")
    browser.open(path)
    assert any("nothing is not defined" in message for message in browser.console())
    assert (tmp_path / "missing.png").as_uri() in browser.requests()


def test_the_browser_refuses_to_load_anything_into_a_page(browser: Browser, sample: Path) -> None:
    browser.open(sample)
    refused = browser.driver.execute_async_script(
        """const done = arguments[0];
        document.addEventListener("securitypolicyviolation", (event) => done(event.violatedDirective));
        const image = new Image();
        image.src = "http://127.0.0.1:9/x.png";"""
    )
    assert refused == "img-src"


def test_a_click_sorts_ascending_then_descending_then_as_written(browser: Browser, sample: Path) -> None:
    browser.open(sample)
    assert browser.column(RESULTS, 0) == WRITTEN
    button = browser.head(RESULTS, 2)
    state = "return arguments[0].parentElement.getAttribute('aria-sort')"
    assert browser.run(state, button) == "none"
    button.click()
    assert browser.run(state, button) == "ascending"
    # By value, not by letter; what was not run comes last both ways.
    assert browser.column(RESULTS, 0) == [WRITTEN[k] for k in (4, 2, 1, 0, 3)]
    button.click()
    assert browser.run(state, button) == "descending"
    assert browser.column(RESULTS, 0) == [WRITTEN[k] for k in (0, 1, 2, 4, 3)]
    button.click()
    assert browser.run(state, button) == "none"
    assert browser.column(RESULTS, 0) == WRITTEN


def test_text_sorts_as_text_and_one_column_at_a_time(browser: Browser, sample: Path) -> None:
    browser.open(sample)
    browser.head(RESULTS, 2).click()
    browser.head(RESULTS, 0).click()
    assert browser.column(RESULTS, 0) == [
        "300 hidden units",
        "boosted LeNet-4",
        "D4 network",
        "LeNet-5",
        "linear classifier",
    ]
    states = "return [...document.querySelectorAll('th[aria-sort]')].map((th) => th.getAttribute('aria-sort'))"
    assert sorted(set(browser.run(states))) == ["ascending", "none"]
    assert browser.run(states).count("ascending") == 1


def test_tables_sort_by_keyboard(browser: Browser, sample: Path) -> None:
    from selenium.webdriver import ActionChains, Keys

    browser.open(sample)
    first, second = browser.head(RESULTS, 0), browser.head(RESULTS, 1)
    browser.run("arguments[0].focus()", first)
    ActionChains(browser.driver).send_keys(Keys.TAB).perform()
    assert browser.run("return document.activeElement === arguments[0]", second)
    ActionChains(browser.driver).send_keys(Keys.ENTER).perform()
    assert browser.column(RESULTS, 1) == ["0.7", "0.95 ± 0.08", "4.7 ± 0.2", "12", "–"]
    ActionChains(browser.driver).send_keys(" ").perform()
    assert browser.column(RESULTS, 1) == ["12", "4.7 ± 0.2", "0.95 ± 0.08", "0.7", "–"]


def too_wide(browser: Browser) -> list[str]:
    """What reaches beyond the right edge of the window, tables that scroll by themselves aside."""
    browser.run("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    return list(
        browser.run(
            """const width = document.documentElement.clientWidth;
            const out = document.documentElement.scrollWidth > width ? ["the page"] : [];
            for (const element of document.querySelectorAll("body *:not(.scroll *):not(svg *)"))
              if (element.getBoundingClientRect().right > width + 0.5) out.push(element.outerHTML.slice(0, 80));
            return out"""
        )
    )


@pytest.mark.parametrize("kind", ["sample", "hostile", "large", "figures"])
def test_a_phone_shows_the_page_without_scrolling_sideways(browser: Browser, tmp_path: Path, kind: str) -> None:
    kinds = {"sample": (EXPERIMENT, COMPARISON, RUNS), "hostile": hostile(), "large": large()}
    made = with_figures() if kind == "figures" else kinds[kind]
    browser.open(write_experiment_page(tmp_path / "page.html", *made, scale="small"), width=390)
    assert browser.run("return document.documentElement.clientWidth") == 390
    assert too_wide(browser) == []


def test_a_wide_thing_would_be_noticed(browser: Browser, sample: Path) -> None:
    browser.open(sample, width=390)
    browser.run("document.querySelector('h1').style.width = '500px'")
    assert len(too_wide(browser)) == 2


def test_on_a_phone_the_main_tables_need_no_scrolling_at_all(browser: Browser, sample: Path) -> None:
    browser.open(sample, width=390)
    browser.run("document.querySelectorAll('details').forEach((details) => (details.open = true))")
    assert browser.run(
        "return [...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)"
    ) == [0, 0, 0, 0, 0]


@pytest.mark.parametrize(("width", "kind"), [(390, "sample"), (1200, "sample"), (390, "figures"), (1200, "figures")])
def test_letters_of_plots_stay_inside_and_readable(
    browser: Browser, sample: Path, tmp_path: Path, width: int, kind: str
) -> None:
    if kind == "figures":
        sample = write_experiment_page(tmp_path / "page.html", *with_figures(), scale="small")
    browser.open(sample, width=width)
    plots = browser.run(
        """return [...document.querySelectorAll("svg")].map((svg) => {
          const box = svg.getBoundingClientRect();
          const texts = [...svg.querySelectorAll("text")].map((text) => [text, text.getBoundingClientRect()]);
          const outside = ([, r]) => r.left < box.left - 1 || r.right > box.right + 1 || r.bottom > box.bottom + 1;
          const scale = box.width / svg.viewBox.baseVal.width;
          const sizes = texts.map(([text]) => scale * parseFloat(getComputedStyle(text).fontSize));
          const lost = texts.filter(outside).map(([text]) => text.textContent);
          return {outside: lost, smallest: Math.min(...sizes), width: box.width};
        })"""
    )
    assert len(plots) == (4 if kind == "sample" else 7)
    for plot in plots:
        assert plot["outside"] == []
        assert plot["smallest"] > 9.5
        assert plot["width"] > 300


def luminance(color: str) -> float:
    channels = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_follows_the_color_scheme_with_enough_contrast(browser: Browser, sample: Path, scheme: str) -> None:
    browser.open(sample, scheme=scheme)
    paper = browser.run(STYLE, "body", "backgroundColor")
    assert (luminance(paper) < 0.05) == (scheme == "dark")
    for element in ("h1", "p", ".subtitle", "figcaption", "td", "td.quiet", "td.good", "td.bad", "td small", "nav a"):
        assert contrast(browser.run(STYLE, element, "color"), paper) > 4.5, element
    warning = browser.run(STYLE, ".note.warning", "backgroundColor")
    assert contrast(browser.run(STYLE, ".note.warning", "color"), warning) > 4.5
    heading = browser.run(STYLE, "thead th", "backgroundColor")
    assert contrast(browser.run(STYLE, "thead th button", "color"), heading) > 4.5
    # Plots: letters, and the lines of all series.
    assert contrast(browser.run(STYLE, "svg text", "fill"), paper) > 4.5
    strokes = browser.run(
        """return [...new Set([...document.querySelectorAll("svg [style*='--series']")].flatMap((e) => {
          const style = getComputedStyle(e); return [style.stroke, style.fill]}))].filter((c) => c !== "none")"""
    )
    drawn = [color for color in strokes if color not in (paper, "rgb(0, 0, 0)")]
    assert len(drawn) >= 4
    assert min(contrast(color, paper) for color in drawn) > 3


def test_hostile_names_run_nothing(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_experiment_page(tmp_path / "page.html", *hostile(), scale="small"))
    assert browser.console() == []
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.scripts.length") == 2
    shown = HOSTILE.replace("\x00", "\ufffd")
    assert browser.run("return document.querySelector('h1').textContent") == shown
    assert browser.run("return JSON.parse(document.getElementById('data').textContent).title") == HOSTILE


def test_the_contents_lead_to_the_sections(browser: Browser, sample: Path) -> None:
    browser.open(sample)
    links = browser.run("return [...document.querySelectorAll('nav a')].map((a) => [a.textContent, a.hash])")
    titles = ["Published and ours", "Claims of the paper", "Learning curves", "Settings", "Every run", "Environment"]
    assert [text for text, _ in links] == titles
    for text, anchor in links:
        heading = browser.run("return document.querySelector(arguments[0]).querySelector('h2').textContent", anchor)
        assert heading == text


def test_a_picture_with_its_own_colors_gets_white_paper_in_the_dark(browser: Browser, tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3, 2))
    figure.add_subplot().imshow([[0, 1], [1, 0]])
    picture = Picture(inline_svg(figure, name="heat", title="heat"), "A map.", card=True)
    text = page("Pictures", [Section("One", [picture, Prose("text"), Facts([("a", "b")])])])
    browser.open(write_page(tmp_path / "page.html", text), scheme="dark")
    assert browser.console() == []
    assert browser.run("return getComputedStyle(document.querySelector('svg')).backgroundColor") == "rgb(255, 255, 255)"


def test_images_are_drawn_with_their_pixels_and_nothing_is_fetched(browser: Browser, tmp_path: Path) -> None:
    path = write_experiment_page(tmp_path / "page.html", *with_figures(), scale="small")
    browser.open(path, scheme="dark")
    assert browser.console() == []
    assert browser.requests() == [path.as_uri()]
    images = "[...document.querySelectorAll('svg image')]"
    assert browser.run(f"return {images}.length") == 14 + 1 + 1 + 2  # filters, their scale, pictures
    assert browser.run(f"return {images}.every((i) => getComputedStyle(i).imageRendering === 'pixelated')")
    assert browser.run(f"return {images}.every((i) => i.getBoundingClientRect().width > 8)")
    card = "return getComputedStyle(document.querySelector('figure.card svg')).backgroundColor"
    assert browser.run(card) == "rgb(255, 255, 255)"

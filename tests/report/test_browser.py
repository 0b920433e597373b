"""Report pages in a real Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from intertwine.demo import Demo, Scores
from intertwine.report import (
    Facts,
    Picture,
    Prose,
    Section,
    inline_svg,
    page,
    write_demo_page,
    write_experiment_page,
    write_page,
)
from tests.report.chromium import STYLE, Browser, contrast, luminance, needs_browser, too_wide
from tests.report.sample_experiment import COMPARISON, EXPERIMENT, HOSTILE, RUNS, hostile, large, with_figures

pytestmark = needs_browser


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


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_the_page_of_the_demonstration(browser: Browser, tmp_path: Path, width: int, scheme: str) -> None:
    poses = ("upright", "turned", "turned by 90", "turned by 180", "turned by 270", "invariance error")
    rows = {"plain": (0.96, 0.21, 0.1, 0.4, 0.13, 1.1), "equivariant": (0.92, 0.92, 0.92, 0.92, 0.92, 1e-7)}
    impose = [
        Scores(name, "a network", 100, {pose: (value, value) for pose, value in zip(poses, values, strict=True)})
        for name, values in rows.items()
    ]
    path = write_demo_page(tmp_path / "index.html", Demo(impose=impose, digit=torch.rand(16, 16)))
    browser.open(path, width=width, scheme=scheme)
    assert browser.console() == []
    assert browser.requests() == [path.as_uri()]
    assert too_wide(browser) == []
    browser.head("Impose", 2).click()
    browser.head("Impose", 2).click()
    assert browser.column("Impose", 0) == ["equivariant", "plain"]

"""A real Chromium for the tests of pages (Debian: apt-get install chromium chromium-driver).

Tests that need it are skipped where there is none; INTERTWINE_REQUIRE_BROWSER=1 turns the skip into a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

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

needs_browser = pytest.mark.skipif(
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
        # Chromium starts with a new-tab page, whose many parts would be taken for requests of the page that comes next.
        self.driver.get("about:blank")

    def open(self, path: Path | str, *, width: int = 1200, scheme: str = "light") -> None:
        device = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", device)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.driver.get_log("browser")  # forget what was before
        self.driver.get_log("performance")
        self.driver.get(path if isinstance(path, str) else path.as_uri())

    def wait(self, script: str, *arguments: object, seconds: float = 60.0) -> None:
        """Until the script returns something true."""
        end = time.monotonic() + seconds
        while not self.run(script, *arguments):
            if time.monotonic() > end:
                pytest.fail(f"still not so after {seconds:g} s: {script}")
            time.sleep(0.05)

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


def luminance(color: str) -> float:
    channels = [int(part) / 255 for part in color[color.index("(") + 1 : -1].split(",")[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)

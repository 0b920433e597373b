from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.report.chromium import CHROMIUM, DRIVER, Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not (CHROMIUM and DRIVER):
        pytest.fail("INTERTWINE_REQUIRE_BROWSER=1, but there is no Chromium with its driver")
    chromium = Browser(tmp_path_factory.mktemp("profile"))
    yield chromium
    chromium.driver.quit()

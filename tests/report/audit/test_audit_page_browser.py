"""The page of an audit in a real browser: its tables fit on a desk and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from intertwine.measure import Audit, Note, Reading
from intertwine.report import write_audit_page
from tests.report.chromium import Browser, needs_browser

pytestmark = needs_browser


def example() -> Audit:
    """An audit with the names and numbers of a deep network, under two symmetries."""
    result = Audit("resnet:resnet32", "images", ("hflip", "Grid2d(D4)"), 512)
    for symmetry in result.symmetries:
        for metric in ("invariance_error", "agreement", "gcnn_barrier_without_repair", "symmetrized_invariance_error"):
            result.readings.append(Reading(metric, symmetry, 0.123456, low=0.000977, high=0.234, floor=0.0123, n=512))
        for block in range(8):
            for name, kind in (
                ("conv1", "Conv2d"),
                ("downsample.norm", "BatchNorm2d"),
                ("relu", "relu"),
                ("add", "add"),
            ):
                about = {"layer": f"layer{block}.0.{name}", "kind": kind, "shape": "128 x 112 x 112", "n": 512}
                for metric in ("equivariance_error", "invariance_error"):
                    result.readings.append(Reading(f"layer_{metric}", symmetry, 0.6054, **about))
            for metric in ("matched_correlation", "kernel_residual"):
                result.readings.append(Reading(metric, symmetry, 1.0872, layer=f"layer{block}.0.conv1"))
        result.notes.append(Note(symmetry, "stride 2 leaves a remainder of 1 pixel in 4 layers", "cause"))
        result.notes.append(Note("layer2.0.conv1", "convolution cannot commute with it: stride 2", "warning"))
    result.arrays = {"orders/hflip/layer1.0.conv1": torch.tensor([3, 4])}
    return result


@pytest.mark.parametrize("width", [1200, 400])
def test_no_table_scrolls_sideways(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.open(write_audit_page(tmp_path / "page.html", example()), width=width)
    browser.run("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")
    assert scrolling(browser) == []
    browser.run("document.querySelector('td').style.minWidth = '1300px'")
    assert len(scrolling(browser)) == 1, "a wide table would be noticed"


def scrolling(browser: Browser) -> list[str]:
    """The tables that are wider than the page."""
    return browser.run(
        "return [...document.querySelectorAll('.scroll')].filter((box) => box.scrollWidth > box.clientWidth)"
        ".map((box) => box.getAttribute('aria-label'))"
    )


def test_the_verdict_is_above_everything_else(browser: Browser, tmp_path: Path) -> None:
    browser.open(write_audit_page(tmp_path / "page.html", example()))
    texts = browser.run("return [...document.querySelector('main').children].slice(0, 3).map((part) => part.innerText)")
    assert texts[0].startswith("Not symmetric under the left-right mirror: 87.7 % of the answers change")
    assert "Cause" in texts[0]
    assert texts[1].startswith("Not symmetric under Grid2d(D4)")

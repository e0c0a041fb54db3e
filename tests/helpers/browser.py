"""A browser for the tests of pages."""

import os
import shutil

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium; a machine without one skips, unless ``LRGA_REQUIRE_BROWSER=1`` forbids it."""
    found = os.environ.get("LRGA_BROWSER") or next(filter(None, map(shutil.which, BROWSERS)), None)
    problem = None if found else f"no browser among {', '.join(BROWSERS)}; name one in LRGA_BROWSER"
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        problem = "the package playwright is not installed"
    if problem is not None:
        if os.environ.get("LRGA_REQUIRE_BROWSER") == "1":
            pytest.fail(f"the tests of pages need a browser: {problem}")
        pytest.skip(problem)
    with sync_playwright() as driver:
        # The pages are our own, and containers seldom let a browser make its sandbox.
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield running
        running.close()

"""A headless browser.

``CHROMIUM`` names it. Unset, a browser on the path is taken; empty, or where there is none,
Playwright's own.
"""

import os
import shutil

import pytest


def chromium():
    found = map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])
    return os.environ.get("CHROMIUM", next(filter(None, found), None)) or None


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: run make browse"
    )
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with playwright.sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"] if root else []
        )
        yield browser
        browser.close()

"""The headless browser of the tests."""

import pytest
from browser import launch


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: run make browse"
    )
    with playwright.sync_playwright() as play:
        browser = launch(play)
        yield browser
        browser.close()

"""The headless browser of the tests, and who takes which."""

import re

import pytest
from browser import launch
from xdist.scheduler import LoadScopeScheduling


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: run make browse")
    with playwright.sync_playwright() as play:
        browser = launch(play)
        yield browser
        browser.close()


class PageScheduling(LoadScopeScheduling):
    """One worker takes all tests of a page of the book, or else of a module, and loads it once."""

    def _split_scope(self, nodeid):
        page = re.search(r"\[((?:book|notebooks)/\w+)", nodeid)
        return page[1] if page else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return PageScheduling(config, log)

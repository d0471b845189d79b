"""The headless browser of the tests, and who takes which."""

import re
from functools import cache

import pytest
from browser import launch
from bs4 import BeautifulSoup
from helpers.explorable import Explorable
from helpers.share import chosen
from helpers.texts import LAID_OUT, ROOT, read
from xdist.scheduler import LoadScopeScheduling


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no Playwright: run make browse")
    with playwright.sync_playwright() as play:
        browser = launch(play)
        yield browser
        browser.close()


class View:
    """A tab that shows one page of the book after another, and notes what goes wrong there."""

    def __init__(self, browser, settings):
        self.context = browser.new_context(offline=True, **settings)
        self.tab = self.context.new_page()
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.on("requestfailed", lambda request: self.failures.append(request.url))
        self.tab.on("pageerror", lambda error: self.errors.append(str(error)))
        self.tab.on("console", self.listen)

    def listen(self, message):
        if message.type == "error":
            self.errors.append(message.text)

    def open(self, page, part=None):
        """Open a page; with the selector of parts, without the rest of its article."""
        self.page, self.requests, self.failures, self.errors = page, [], [], []
        file = ROOT / "_build/html" / f"{page}.html"
        self.tab.unroute_all()
        if part:
            body = reduced(file, part)
            self.tab.route(
                file.as_uri(), lambda route: route.fulfill(body=body, content_type="text/html")
            )
        self.tab.goto(file.as_uri())
        self.tab.wait_for_function(LAID_OUT)
        return self


@cache
def reduced(file, part):
    """A page with the parts of its article that a selector finds, and without the contents, whose
    links lead elsewhere.
    """
    page = BeautifulSoup(read(file), "html.parser")
    for contents in page.select(".bd-sidebar-secondary"):
        contents.extract()
    parts = page.select(part)
    around = {id(each) for one in parts for each in one.parents}
    kept = around | {id(each) for each in parts}
    inside = [page.article]
    for each in inside:
        for child in [*each.children]:
            if id(child) not in kept:
                child.extract()
            elif id(child) in around:
                inside.append(child)
    return str(page)


@pytest.fixture(scope="session")
def views(browser):
    """One tab of a name for all pages under the same settings: a new one takes longer than most."""
    if not (ROOT / "_build/html/index.html").exists():
        pytest.skip("no book in _build/html: run make book")
    opened = {}

    def view(tab="", **settings):
        key = tab, repr(sorted(settings.items()))
        if key not in opened:
            opened[key] = View(browser, settings)
        return opened[key]

    return view


@pytest.fixture
def explore(views):
    """Open an explorable of a name; there is no error at the end."""
    opened = []

    def start(name, width=1280, whole_page=False, **settings):
        size = {"width": width, "height": 900}
        opened.append(Explorable(views(viewport=size, **settings), name, whole_page))
        return opened[-1]

    yield start
    assert [error for figure in opened for error in figure.view.errors] == []


@pytest.fixture
def figure(explore, request):
    """The explorable that the test is named after."""
    return explore(request.node.originalname.removeprefix("test_").split("__")[0])


IN_ORDER = re.compile(r"test_live\.py.*\[(chromium|firefox)\]")  # each builds on those before


def page_of(item):
    """The page of the book that a test is about, by its name."""
    page = re.search(r"\[((?:book|notebooks)/\w+|\d{3}_\w+)", item)
    return page[1] if page else None


def pytest_collection_modifyitems(config, items):
    """With SHARE=1/3, leave out the tests of two thirds of the pages, and two of three others."""
    parts = {item: page_of(item.nodeid) or item.nodeid for item in items}
    in_order = filter(IN_ORDER.search, parts.values())
    kept = {*chosen(dict.fromkeys(parts.values())), *in_order}
    config.hook.pytest_deselected(items=[item for item in items if parts[item] not in kept])
    items[:] = [item for item in items if parts[item] in kept]


class PageScheduling(LoadScopeScheduling):
    """One worker takes all tests of a page of the book, or else of a module, and loads it once."""

    def _split_scope(self, nodeid):
        return page_of(nodeid) or super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return PageScheduling(config, log)

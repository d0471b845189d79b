"""What the heaviest pages cost before anything is pressed, on a desk and on a phone."""

import json

import pytest
from helpers.texts import ROOT

HTML = ROOT / "_build" / "html"
if not (HTML / "index.html").exists():
    pytest.skip("no book in _build/html: run make book", allow_module_level=True)

HEAVY = ["book/intro"] + [
    f"{folder}/{path.stem}"
    for folder in ("book", "notebooks")
    for path in sorted(HTML.glob(f"{folder}/*.html"), key=lambda path: path.stat().st_size)[-4:]
]
# Of the thread that draws the page, in ms of processor time, which other work on the machine does
# not lengthen. A processor four times slower takes four times as long: at most 600 ms.
LONGEST_TASK, FIRST_PAINT = 150, 400

PAINTED_AND_IDLE = """() => new Promise((resolve) => {
    new PerformanceObserver((seen) => {
        if (seen.getEntriesByName("first-contentful-paint").length) requestIdleCallback(resolve);
    }).observe({ type: "paint", buffered: true });
})"""


def load(browser, page, width):
    """Of one visit: the longest task, and all work before the first paint."""
    with browser.new_context(offline=True, viewport={"width": width, "height": 900}) as context:
        tab = context.new_page()
        browser.start_tracing(page=tab, categories=["toplevel", "loading", "devtools.timeline"])
        tab.goto((HTML / f"{page}.html").as_uri())
        tab.evaluate(PAINTED_AND_IDLE)
        events = json.loads(browser.stop_tracing())["traceEvents"]
    painted = [event for event in events if event["name"] == "firstContentfulPaint"][-1]
    tasks = [
        (event["ts"], event["tdur"] / 1000)
        for event in events
        if (event["pid"], event["tid"]) == (painted["pid"], painted["tid"])
        and "RunTask" in event["name"]
        and "tdur" in event
    ]
    return (
        max(time for _, time in tasks),
        sum(time for begin, time in tasks if begin < painted["ts"]),
    )


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", HEAVY)
def test_a_page_is_soon_there_and_never_stands_still(browser, page, width):
    # A neighbour on the same core makes the caches cold: what a page costs is its cheapest visit.
    visits = [load(browser, page, width) for _ in range(3)]
    longest, before = map(min, zip(*visits, strict=True))
    assert 1 < longest < LONGEST_TASK
    assert 1 < before < FIRST_PAINT

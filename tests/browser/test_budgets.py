"""What the heaviest pages cost before anything is pressed, on a desk and on a phone, in counts."""

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
ELEMENTS = 13_000
# The parser lays a long page out in some twenty parts; a script that asks for a size after each of
# its changes does so once more every time.
MOST = {"LayoutCount": 60, "RecalcStyleCount": 100}

PAINTED_AND_IDLE = """() => new Promise((resolve) => {
    new PerformanceObserver((seen) => {
        if (seen.getEntriesByName("first-contentful-paint").length) requestIdleCallback(resolve);
    }).observe({ type: "paint", buffered: true });
})"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("page", HEAVY)
def test_a_page_is_small_and_laid_out_few_times(browser, page, width):
    with browser.new_context(offline=True, viewport={"width": width, "height": 900}) as context:
        tab = context.new_page()
        session = context.new_cdp_session(tab)
        session.send("Performance.enable")
        tab.goto((HTML / f"{page}.html").as_uri())
        tab.evaluate(PAINTED_AND_IDLE)
        metrics = session.send("Performance.getMetrics")["metrics"]
        elements = tab.evaluate("document.querySelectorAll('*').length")
    counts = {metric["name"]: metric["value"] for metric in metrics}
    assert 1000 < elements < ELEMENTS
    assert {name: counts[name] for name in MOST if not 0 < counts[name] < MOST[name]} == {}

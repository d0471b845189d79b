"""The computation graphs, stepped through in a headless browser."""

from importlib.resources import files

import pytest
from helpers.contrast import RATIO
from helpers.texts import ROOT, read

expect = pytest.importorskip("playwright.sync_api", reason="no Playwright: run make browse").expect

TEXTS_OF = {page.stem: read(page) for page in sorted(ROOT.glob("book/*.md"))}
PAGES = {page: count for page, text in TEXTS_OF.items() if (count := text.count("{graph} "))}

BESIDE = {"width": 1000, "height": 900}
STATE = """graph => ({
  hidden: graph.querySelectorAll(".drawings .hidden").length,
  lit: graph.querySelectorAll(".forward-on, .back-on").length,
  count: graph.querySelector(".count").textContent,
  said: graph.querySelector(".said").textContent,
  sentences: [...graph.querySelectorAll(".steps li")].map(line => line.textContent),
})"""
# The arrow key to the right, until the last step.
GO_ON = f"""graph => {{
  const state = {STATE}, key = {{ key: "ArrowRight", bubbles: true }};
  return state(graph).sentences.slice(1).map(() => {{
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", key));
    return state(graph);
  }});
}}"""
TEXTS = """graph => {
  const drawn = [...graph.querySelectorAll("svg")].filter(svg => svg.clientWidth);
  const scale = drawn[0].getBoundingClientRect().width / drawn[0].viewBox.baseVal.width;
  const frame = drawn[0].getBoundingClientRect();
  return {
    drawn: drawn.map(svg => svg.getAttribute("class")),
    smallest: Math.min(...[...drawn[0].querySelectorAll("text")].map(
      text => parseFloat(getComputedStyle(text).fontSize) * scale)),
    outside: [...drawn[0].querySelectorAll("text, rect, path.edge")].filter(part => {
      const box = part.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1
        || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    }).map(part => part.textContent || part.getAttribute("d")),
    tooWide: [...drawn[0].querySelectorAll("text.value")].filter(text =>
      text.getBoundingClientRect().width >
      text.previousElementSibling.getBoundingClientRect().width).map(text => text.textContent),
  };
}"""
CONTRAST = (
    f"graph => {{ {RATIO}"
    + """
  const paper = getComputedStyle(document.body).backgroundColor;
  return Math.min(...[...graph.querySelectorAll("svg text")].map(text => {
    const cell = text.matches(".value") && getComputedStyle(text.previousElementSibling).fill;
    return ratio(getComputedStyle(text).fill, cell && cell !== "none" ? cell : paper);
  }));
}"""
)


@pytest.fixture(scope="module", params=PAGES)
def tab(views, request):
    """The graphs of a page, all of them whole and without motion."""
    tab = views(reduced_motion="reduce").open(f"book/{request.param}", ".graph").tab
    for button in tab.get_by_role("button", name="all", exact=True).all():
        button.click()
    assert tab.locator(".graph").count() == PAGES[request.param]
    return tab


def test_buttons_and_arrow_keys_step_through(tab):
    tab.set_viewport_size({"width": 800, "height": 900})  # no graph beside its derivation
    for graph in tab.locator(".graph").all():
        graph.get_by_role("button", name="all").click()
        still = graph.evaluate(STATE)
        steps = len(still["sentences"])
        assert still["hidden"] == still["lit"] == 0 and still["said"] == ""
        assert still["count"] == f"{steps} steps"
        graph.locator(".drawings").focus()
        tab.keyboard.press("ArrowRight")
        states = [graph.evaluate(STATE), *graph.evaluate(GO_ON)]
        for at, state in enumerate(states):
            assert state["count"] == f"{at + 1} of {steps}"
            assert state["said"] == state["sentences"][at]
        hidden = [state["hidden"] for state in states]
        assert len(states) == steps
        assert hidden == sorted(hidden, reverse=True) and hidden[0] > hidden[-1] == 0
        forward, back = (graph.get_by_role("button", name=n) for n in ("step", "back"))
        forward.click()
        assert graph.evaluate(STATE)["count"] == f"{steps} of {steps}"
        back.click()
        assert graph.evaluate(STATE)["count"] == f"{steps - 1} of {steps}"
        tab.keyboard.press("ArrowLeft")
        assert graph.evaluate(STATE)["count"] == f"{steps - 2} of {steps}"
        forward.click()
        assert graph.evaluate(STATE)["said"] == state["sentences"][steps - 2]
        graph.get_by_role("button", name="all").click()
        assert graph.evaluate(STATE) == still


@pytest.mark.parametrize("page", PAGES)
def test_a_graph_begins_at_its_first_step(views, page):
    tab = views(viewport=BESIDE).open(f"book/{page}", ".graph").tab
    for graph in tab.locator(".graph").all():
        state = graph.evaluate(STATE)
        assert state["count"].startswith("1 of ") and state["said"] == state["sentences"][0]
        assert state["hidden"] > 0


READ = """step => {
  scrollTo(0, scrollY + step.getBoundingClientRect().top - 0.45 * innerHeight + 4);
  return Number(step.className.match(/step-(\\d+)/)[1]) + 1;
}"""
# Whether a derivation is plain text, its graph after the steps.
FLOWS = """derivation => {
  const graph = derivation.querySelector(":scope > .graph");
  const { top, left } = graph.getBoundingClientRect();
  return getComputedStyle(derivation).display === "block"
    && getComputedStyle(graph).position === "static"
    && [...derivation.querySelectorAll(".step")].every(step => {
      const text = step.getBoundingClientRect();
      return text.bottom <= top && text.left === left;
    });
}"""
DERIVED = [page for page in PAGES if "\n% step " in TEXTS_OF[page]]


@pytest.mark.parametrize("page", DERIVED)
def test_a_graph_stays_beside_its_derivation_and_follows_the_reader(views, page):
    tab = views(viewport=BESIDE).open(f"book/{page}").tab
    tab.set_viewport_size(BESIDE)
    for derivation in tab.locator(".derivation").all():
        graph, steps = derivation.locator(".graph"), derivation.locator(".step").all()
        for step in steps:
            shown = step.evaluate(READ)
            count = f"{shown} of {graph.locator('.steps li').count()}"
            expect(graph.locator(".count")).to_have_text(count)
            beside, text = graph.bounding_box(), step.bounding_box()
            assert beside["x"] >= text["x"] + text["width"]
            top, bottom = max(0, beside["y"]), min(900, beside["y"] + beside["height"])
            assert bottom - top >= beside["height"] / 2
    tab.set_viewport_size({"width": 390, "height": 800})
    assert all(it.evaluate(FLOWS) for it in tab.locator(".derivation").all())


@pytest.mark.parametrize("page", DERIVED)
def test_a_derivation_on_paper_and_without_scripts_is_plain_text(views, page):
    for scripts, media in ((True, "print"), (False, "screen")):
        view = views(viewport=BESIDE, java_script_enabled=scripts)
        tab = view.open(f"book/{page}", ".derivation").tab
        tab.set_viewport_size(BESIDE)
        tab.emulate_media(media=media)
        derivations = tab.locator(".derivation").all()
        assert derivations and all(it.evaluate(FLOWS) for it in derivations)
        tab.emulate_media(media="screen")


@pytest.mark.parametrize("width, layout, least", [(360, "narrow", 10.5), (1280, "wide", 11)])
def test_texts_can_be_read_and_nothing_stands_outside(tab, width, layout, least):
    tab.set_viewport_size({"width": width, "height": 800})
    for graph in tab.locator(".graph").all():
        found = graph.evaluate(TEXTS)
        pinned = width > 900 and graph.evaluate("graph => Boolean(graph.closest('.beside'))")
        assert found["drawn"] == ["narrow" if pinned else layout]
        assert found["smallest"] >= (10 if pinned else least)
        assert found["outside"] == found["tooWide"] == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_in_both_modes(tab, theme):
    tab.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    for graph in tab.locator(".graph").all():
        assert graph.evaluate(CONTRAST) >= 4.5


def test_paper_shows_everything(tab):
    graph = tab.locator(".graph").first
    graph.get_by_role("button", name="step").click()
    tab.emulate_media(media="print")
    seen = "all => all.every(part => getComputedStyle(part).opacity === '1')"
    assert graph.locator("[data-step]").evaluate_all(seen)
    assert not graph.locator(".controls").is_visible()
    tab.emulate_media(media="screen")
    graph.get_by_role("button", name="all").click()


@pytest.mark.parametrize("page", PAGES)
def test_the_still_form_needs_no_script(views, page):
    tab = views(java_script_enabled=False).open(f"book/{page}", ".graph").tab
    for graph in tab.locator(".graph").all():
        assert graph.locator("svg.wide").is_visible()
        assert not graph.locator("svg.narrow").is_visible()
        assert graph.locator(".hidden").count() == graph.locator("button").count() == 0
        assert graph.locator(".steps li").count() > 3
        assert graph.evaluate(CONTRAST) >= 4.5


SYMBOLS = {
    "130_softmax": ("x'", "(12/7, −4/7, −8/7)", "dx *= weights"),
    "140_cross_entropy": ("z<lse", "(4/7, 1/7, 2/7)", "dlogits = p * scale"),
    "150_layer_norm": ("x<mu", "mean(g) = 3", "mean(g)"),
    "160_feed_forward": ("x_gelu<phi", "(0.053, 0.242)", "x * density"),
    "210_attention": ("V'", "(8/7, 4/7)", "dvalue = dropped.swapaxes(-1, -2) @ doutput"),
    "220_multi_head_attention": ("o0", "(0, 4)", "attention(*given)"),
    "240_optimizers": ("m3", "−1/8", "m += (1 - self.beta1) * grad"),
}
PLACES = "math", "pre", ".graph svg:visible"
LIT = "[class*='sym:'].lit"
# After scrolling a graph beside its derivation shows the step that is read there.
SETTLED = "() => new Promise(done => requestAnimationFrame(() => setTimeout(done, 100)))"


def named(symbol):
    """What stands for a symbol, or for it and others, which follow it."""
    return f':is([class~="sym:{symbol}"], [class*="sym:{symbol},"])'


def assert_lit(tab, symbol, number):
    for place in PLACES:
        lit = tab.locator(f"{place} {named(symbol)}")
        assert lit.count()
        assert lit.evaluate_all("all => all.every(part => part.matches('.lit'))")
    expect(tab.locator(".symbol-note")).to_be_visible()
    expect(tab.locator(".symbol-note")).to_contain_text(number)


@pytest.mark.parametrize("page", SYMBOLS)
def test_pointing_at_a_symbol_lights_formula_code_and_drawing(views, page):
    """Also where the drawing has not come to it yet; Escape ends it."""
    symbol, number, code = SYMBOLS[page]
    tab = views(tab="symbols").open(f"book/{page}").tab
    graph = tab.locator(".graph").filter(has=tab.locator(named(symbol)))
    for place in PLACES:
        if "svg" in place:
            everything = graph.get_by_role("button", name="all", exact=True)
            everything.scroll_into_view_if_needed()
            tab.evaluate(SETTLED)
            everything.click()
        tab.locator(f"{place} {named(symbol)}").last.hover()
        assert_lit(tab, symbol, number)
        if place != "pre":
            expect(tab.locator(".symbol-note")).to_contain_text(code)
        tab.keyboard.press("Escape")
        expect(tab.locator(LIT)).to_have_count(0)
        expect(tab.locator(".symbol-note")).to_be_hidden()


@pytest.mark.parametrize("page", SYMBOLS)
def test_a_tap_on_a_symbol_lights_it_and_one_elsewhere_ends_it(views, page):
    symbol, number, _ = SYMBOLS[page]
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    tab = views(**phone).open(f"book/{page}").tab
    for place in ("math", "pre"):
        tab.locator(f"{place} {named(symbol)}").last.tap()
        assert_lit(tab, symbol, number)
        note = tab.locator(".symbol-note").bounding_box()
        assert 0 <= note["x"] <= note["x"] + note["width"] <= 390
        tab.locator("article h2").first.tap()
        expect(tab.locator(LIT)).to_have_count(0)


WHOLES = ":is(.math, pre):has([class*='sym:'])"
STOPS = """all => all.map(whole =>
  whole.querySelectorAll("[class*='sym:'][tabindex='0']").length)"""
AXE = f"""async () => {{
  const rules = {{ runOnly: ["cat.aria", "cat.keyboard", "cat.name-role-value"], preload: false }};
  const places = [["{WHOLES}"], [".symbol-note"]];
  return (await axe.run({{ include: places }}, rules)).violations.map(({{ id }}) => id);
}}"""


@pytest.mark.parametrize("page", SYMBOLS)
def test_the_arrow_keys_go_from_symbol_to_symbol(views, page):
    """The symbols of a formula or a listing are one stop of the tabulator, which Escape leaves."""
    symbol, number, _ = SYMBOLS[page]
    tab = views(tab="symbols").open(f"book/{page}").tab
    assert set(tab.locator(WHOLES).evaluate_all(STOPS)) == {1}
    focused = tab.locator(f"{named(symbol)}:focus-visible")
    for kind in (".math", "pre"):
        whole = tab.locator(kind).filter(has=tab.locator(named(symbol))).last
        whole.locator("[class*='sym:'][tabindex='0']").focus()
        while not focused.count():
            before = tab.evaluate_handle("document.activeElement")
            tab.keyboard.press("ArrowRight")
            assert tab.evaluate("before => document.activeElement !== before", before)
        assert_lit(tab, symbol, number)
        assert focused.evaluate("it => parseFloat(getComputedStyle(it).outlineWidth)") >= 2
        described = focused.get_attribute("aria-describedby")
        expect(tab.locator(f"#{described}")).to_contain_text(number)
        tab.keyboard.press("Escape")
        expect(tab.locator(LIT)).to_have_count(0)
        expect(tab.locator(".symbol-note")).to_be_hidden()
        tab.keyboard.press("Tab")
        assert not whole.locator("[class*='sym:']:focus").count()


def test_axe_finds_nothing_in_formulas_and_listings_with_symbols(views):
    axe = pytest.importorskip("axe_playwright_python", reason="no axe: run make browse")
    tab = views(tab="symbols").open("book/150_layer_norm").tab
    tab.evaluate((files(axe) / "axe.min.js").read_text(encoding="utf-8"))
    tab.locator("math [class*='sym:'][tabindex='0']").first.focus()
    expect(tab.locator(".symbol-note")).to_be_visible()
    assert tab.evaluate(AXE) == []


def test_a_step_by_keyboard_lights_its_symbols_while_the_graph_has_the_focus(views):
    tab = views(tab="symbols").open("book/210_attention").tab
    drawings = tab.locator(".graph .drawings")
    drawings.focus()  # which scrolls to it
    tab.evaluate(SETTLED)
    drawings.press("ArrowRight")
    assert tab.locator("math .lit").count() and tab.locator("pre .lit").count()
    assert tab.locator(".graph .lit:not(.new)").count() == 0
    numbers = tab.locator(".wide .lit").evaluate_all("all => all.map(it => it.dataset.number)")
    assert tab.locator(".symbol-note p").all_inner_texts() == numbers
    expect(tab.locator(".symbol-note")).to_be_visible()
    expect(tab.locator(".symbol-note")).to_be_in_viewport(ratio=1)
    tab.get_by_role("button", name="step", exact=False).first.click()
    expect(tab.locator(".symbol-note")).to_be_hidden()
    drawings.press("ArrowLeft")
    expect(tab.locator(".symbol-note")).to_be_visible()
    drawings.blur()
    expect(tab.locator(LIT)).to_have_count(0)
    expect(tab.locator(".symbol-note")).to_be_hidden()

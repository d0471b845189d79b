"""The built book, opened from its folder in a headless browser without a network."""

import json
import re
from functools import cache
from importlib.resources import files
from itertools import pairwise
from math import ceil

import pytest
from helpers.contrast import RATIO
from helpers.texts import LAID_OUT, ROOT, prose, read
from sphinx_external_toc.parsing import parse_toc_yaml

HTML = ROOT / "_build" / "html"
if not (HTML / "index.html").exists():
    pytest.skip("no book in _build/html: run make book", allow_module_level=True)

PAGES = list(parse_toc_yaml(ROOT / "_toc.yml"))
WITH_A_FIGURE = [page for page in PAGES if 'id="explorable-' in read(HTML / f"{page}.html")]
# The front page, figures with a graph and editors, a museum, a live GPT, a notebook, and tables.
ONE_OF_A_KIND = [f"book/{name}" for name in ("intro", "130_softmax", "320_museum", "570_sampling")]
ONE_OF_A_KIND += ["notebooks/130_softmax", "book/ledger", "book/api_ops"]
PHONE, LARGER_PHONE, LAPTOP = 360, 390, 1280
WINDOW = {"viewport": {"width": LAPTOP, "height": 900}}
SHIFT = 0.05  # of the layout while a page loads, as browsers count it
WEIGHT = 1_500_000  # bytes of a page with its scripts, style sheets, fonts and images
# In this scope the tests of one width follow each other, and the page is laid out once for them.
every_width = pytest.mark.parametrize("width", [LAPTOP, PHONE], scope="class")


def url(page):
    return (HTML / f"{page}.html").as_uri()


def open_page(view, page):
    """Open a page, and wait until its fonts are there."""
    resize(view, LAPTOP)
    view.open(page)
    view.tab.evaluate("async () => { await document.fonts.ready }")
    return view


def resize(view, width):
    if view.tab.viewport_size["width"] != width:
        view.tab.set_viewport_size({"width": width, "height": 900})
        view.tab.evaluate(AT_REST)


def unfold(view):
    """What was folded comes into view by a transition, pale at first."""
    view.tab.evaluate(UNFOLD)
    view.tab.evaluate(AT_REST)


def show(view, theme):
    view.tab.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    view.tab.evaluate(AT_REST)


@pytest.fixture(scope="module", params=PAGES)
def opened(views, request):
    view = open_page(views(**WINDOW), request.param)
    view.shifts = view.tab.evaluate(SHIFTS)
    return view


@pytest.fixture(scope="module")
def tab(opened):
    """A page that the first tests click on."""
    return opened.tab


@pytest.fixture(scope="module")
def view(opened):
    """The same page, which the others read and do not change, its folds open."""
    opened.tab.mouse.move(0, 0)  # a link below the pointer has another colour
    resize(opened, LAPTOP)
    unfold(opened)
    return opened


@pytest.fixture
def front(views):
    return views(tab="front", **WINDOW).open(PAGES[0]).tab


AT_REST = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    await Promise.allSettled(document.getAnimations().map((animation) => animation.finished));
}"""
SHIFTS = """() => {
    const observer = new PerformanceObserver(() => {});
    observer.observe({type: "layout-shift", buffered: true});
    return observer.takeRecords().map(({value}) => value);
}"""
UNFOLD = """() => {
    // An editor loads Python when it is opened: tests/browser/test_live.py opens them.
    document.querySelectorAll("details:not(.live)").forEach((fold) => { fold.open = true });
    document.querySelectorAll(".toggle-hidden .toggle-button").forEach((button) => button.click());
}"""


def has_mathematics(page):
    """Whether the source of a page has a dollar sign outside its code."""
    pages = [ROOT / f"{page}.md", ROOT / f"{page}.ipynb"]
    source = next(path for path in pages if path.exists())
    return "$" in re.sub(r"`[^`\n]+`", "", prose(source))


def test_folded_answers_open_on_a_click(tab):
    """The first of a kind on any page by mouse and keyboard, the others by their own event."""
    tab.set_viewport_size({"width": 800, "height": 900})  # no graph is pinned, and moves
    for folds, title, content, by_keyboard in (
        ("article details:not(.live)", "summary", ":scope > :not(summary)", True),
        (
            "article .admonition.dropdown",
            ".admonition-title",
            ":scope > :not(.admonition-title, button)",
            False,
        ),
    ):
        kinds = tab.locator(folds).evaluate_all("all => all.map((fold) => fold.className)")
        tried = [kinds.index(kind) for kind in sorted({*kinds} - TRIED)]
        TRIED.update(kinds)
        for place in tried:
            fold = tab.locator(folds).nth(place)
            inside = fold.locator(content).first
            assert not inside.is_visible()
            fold.locator(title).first.click()
            assert inside.is_visible()
            if by_keyboard:
                tab.keyboard.press("Enter")
                assert not inside.is_visible()
                tab.keyboard.press("Enter")
                assert inside.is_visible()
        shut = tab.locator(folds).evaluate_all(CLICK_THE_OTHERS, [title, content, tried])
        assert shut == []


TRIED = set()  # the kinds of folds on the pages so far
# The folds whose title a pointer does not reach, that were open before, or are not after a click.
CLICK_THE_OTHERS = """(folds, [title, content, tried]) => {
    const others = folds.filter((_, place) => !tried.includes(place));
    const out = (fold) => {
        const part = fold.querySelector(title);
        part.scrollIntoView({block: "center", behavior: "instant"});
        const {left, top, width, height} = part.getBoundingClientRect();
        const hit = document.elementFromPoint(left + width / 2, top + height / 2);
        return !part.contains(hit);
    };
    const open = (fold) => fold.querySelector(content).checkVisibility({visibilityProperty: true});
    return others.filter((fold) => {
        const wasOpen = open(fold), outOfReach = out(fold);
        fold.querySelector(title).click();
        return outOfReach || wasOpen || !open(fold);
    }).map((fold) => fold.textContent);
}"""


def test_a_button_copies_the_code(tab):
    blocks = tab.locator("article .highlight > pre")
    buttons = tab.locator("article .highlight > button.copybtn")
    targets = buttons.evaluate_all("all => all.map(button => button.dataset.clipboardTarget)")
    assert targets == blocks.evaluate_all("all => all.map(block => '#' + block.id)")
    visible = buttons.locator("visible=true")
    if visible.count() == 0:
        return
    code = visible.first.locator("xpath=../pre").text_content()
    visible.first.click()
    tab.evaluate("document.body.append(document.createElement('textarea'))")
    field = tab.locator("body > textarea")
    field.focus()
    tab.keyboard.press("ControlOrMeta+V")
    assert field.input_value().strip() == code.strip()
    field.evaluate("field => field.remove()")


def test_a_page_asks_for_nothing_from_outside(view):
    outside = [url for url in view.requests if not url.startswith(("file:", "data:"))]
    assert outside == []
    assert view.failures == []


def test_the_console_shows_no_error(view):
    assert view.errors == []


def test_a_page_is_light(view):
    """Without the weights of a model, which are loaded when a reader asks for them."""
    paths = {
        HTML / url.removeprefix(HTML.as_uri() + "/").partition("?")[0]
        for url in view.requests
        if url.startswith("file:")
    }
    assert len(paths) > 1
    assert sum(path.stat().st_size for path in paths) < WEIGHT


def test_nothing_jumps_while_a_page_loads(view):
    assert sum(view.shifts) < SHIFT


def test_no_id_stands_twice(view):
    ids = view.tab.locator("[id]").evaluate_all("all => all.map(element => element.id)")
    assert sorted(ids) == sorted(set(ids))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_serious_violation(view, theme):
    resize(view, LAPTOP)
    show(view, theme)
    found, looks = look_with_axe(view, [*IN_THE_DARK] if theme == "dark" else None)
    if theme == "dark":
        IN_THE_DARK.update(looks)
    show(view, "light")
    assert found == []


@pytest.mark.parametrize("page", ONE_OF_A_KIND)
def test_axe_finds_no_serious_violation_on_a_phone(views, page):
    view = open_page(views(**WINDOW), page)
    resize(view, LARGER_PHONE)
    unfold(view)
    assert look_with_axe(view)[0] == []


def look_with_axe(view, before=None):
    """The serious violations, and the looks of texts seen; before, those seen in the dark."""
    axe = pytest.importorskip("axe_playwright_python", reason="no axe: run make browse")
    if view.tab.evaluate("typeof axe") == "undefined":
        source = (files(axe) / "axe.min.js").read_text(encoding="utf-8")
        view.tab.evaluate(f"((WeakMap, WeakSet) => {{{source}}})({QUICK_MAP}, {QUICK_MAP})")
    return view.tab.evaluate(AXE, before)


IN_THE_DARK = set()  # the looks of texts on the pages so far


# axe keeps the fields of its colours in weak maps, up to a third of its time. These keep them
# in the colours themselves.
QUICK_MAP = """class {
    field = Symbol();
    has(owner) { return Object.hasOwn(owner, this.field); }
    get(owner) { return owner[this.field]; }
    set(owner, value) { owner[this.field] = value; return this; }
    add(owner) { return this.set(owner, true); }
}"""
# axe passes over what is in a formula, and does not judge what is in a drawing. Texts of one look,
# in one section, on the same grounds have one contrast: it looks at the first of them, and takes
# listings and drawings without a first one as plain. In the dark, where nothing lies elsewhere, it
# looks at the first on all pages, and at nothing else than contrasts.
AXE = """async (before) => {
    const grounds = new Map(), seen = new Set(before), fresh = [];
    for (const element of document.body.querySelectorAll(":not(svg *, math *)")) {
        const style = getComputedStyle(element), parent = element.parentElement;
        const {place, below} = grounds.get(parent) ?? {place: 0, below: ""};
        const clear = style.background.startsWith("rgba(0, 0, 0, 0) none")
            && style.opacity === "1" && style.position === "static";
        const ground = {
            place: element.matches("section, nav, aside, header, footer") ? grounds.size : place,
            below: (clear ? "" : [style.background, style.opacity, style.position].join()) + below,
        };
        grounds.set(element, ground);
        const look = ["color", "font", "textShadow"].map((name) => style[name]).join()
            + (before ? "" : ground.place) + ground.below;
        const again = seen.has(look), isText = (node) => node instanceof Text && node.data.trim();
        element.toggleAttribute("data-again", again);
        if (!again && [...element.childNodes].some(isText)
                && element.checkVisibility({opacityProperty: true, visibilityProperty: true})) {
            seen.add(look);
            fresh.push(element);
        }
    }
    if (before && fresh.length === 0) return [[], before];
    const parts = [...document.querySelectorAll("math, .highlight pre, svg.plot")]
        .filter((part) => !fresh.some((element) => part.contains(element)))
        .map((part) => {
            const {width, height} = part.getBoundingClientRect();
            return {part, inside: [...part.childNodes], width, height};
        });
    for (const {part, width, height} of parts) {
        const box = document.createElement("i");
        if (part.matches("math")) {
            box.style.cssText = "display: inline-block; overflow: hidden";
            box.style.width = `${width}px`;
            box.style.height = `${height}px`;
        }
        box.dataset.again = "";
        box.textContent = part.textContent;
        part.replaceChildren(...(part.matches("svg") ? [] : [box]));
    }
    axe.configure({rules: [{id: "color-contrast", selector: ":not([data-again], svg, svg *)"}]});
    const {violations} = await axe.run({exclude: ["math"]}, {
        preload: false,
        resultTypes: ["violations"],
        ...(before && {runOnly: ["color-contrast"]}),
    });
    for (const {part, inside} of parts) part.replaceChildren(...inside);
    const serious = violations
        .filter(({impact}) => impact === "serious" || impact === "critical")
        .map(({id, nodes}) => [id, ...nodes.slice(0, 4).map(({html}) => html.slice(0, 160))]);
    return [serious, [...seen]];
}"""


def test_nothing_moves_for_who_wants_no_motion(view):
    view.tab.emulate_media(reduced_motion="reduce")
    moving = view.tab.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((element) => {
            const {transitionDuration, animationName} = getComputedStyle(element);
            return animationName !== "none" || /[1-9]/.test(transitionDuration);
        }).map((element) => element.outerHTML.slice(0, 160))"""
    )
    view.tab.emulate_media(reduced_motion="no-preference")
    assert moving == []


def test_all_that_is_clicked_has_the_focus_in_turn(view):
    """Whatever reacts to a click is reached with the tabulator."""
    out_of_reach = view.tab.evaluate(
        """() => [...document.querySelectorAll(
            "article :is(button, summary, select, input, textarea, a[href], [onclick])"
        )].filter((element) => element.checkVisibility({visibilityProperty: true})
            && !element.disabled && element.tabIndex < 0
            && !element.closest("[role=grid]:has([tabindex='0'])")  // arrow keys go on there
        ).map((element) => element.outerHTML.slice(0, 160))"""
    )
    assert out_of_reach == []


def test_mathematics_is_typeset(view):
    if not view.page.startswith("book/api_"):  # their formulas come from the docstrings
        assert (view.tab.locator(".math").count() > 0) == has_mathematics(view.page)
    assert view.tab.locator(".math:not(:has(math > *))").count() == 0
    assert view.tab.locator("merror").count() == 0
    assert not re.search(r"\\[\[(a-z]", "".join(view.tab.locator("math").all_text_contents()))
    assert view.tab.evaluate(FACE) == []
    assert view.tab.evaluate(WITHOUT_HUE) == []
    assert "???" not in view.tab.locator("article").inner_text()


# Formulas that are not in their face, or that show a style of letters which browsers do not know.
FACE = """() => [...document.querySelectorAll("math")]
    .filter((formula) => !getComputedStyle(formula).fontFamily.startsWith('"STIX Two Math"')
        || formula.querySelector("[mathvariant]:not([mathvariant=normal])"))
    .map((formula) => formula.textContent)
    .concat(document.querySelector("math") && !document.fonts.check("16px 'STIX Two Math'")
        ? ["the face is not loaded"] : [])"""


# Symbols of a quantity that do not have its hue; a coloured term keeps its own.
WITHOUT_HUE = """() => {
    const probe = document.body.appendChild(document.createElement("i"));
    const without = ["query", "key", "value", "cotangent"].flatMap((hue) => {
        probe.style.color = `var(--${hue})`;
        const {color} = getComputedStyle(probe);
        return [...document.querySelectorAll(`article math .${hue}`)].filter((symbol) =>
            !symbol.closest(".scale-term, .mean-term, .variance-term")
            && !symbol.querySelector("[class]")
            && getComputedStyle(symbol).color !== color);
    }).map((symbol) => symbol.outerHTML);
    probe.remove();
    return without;
}"""


def test_every_image_has_an_alternative_text(view):
    texts = view.tab.locator("img").evaluate_all("images => images.map(i => i.alt)")
    assert all(texts)
    assert not any(re.search(r"\.(png|svg|jpe?g|gif)$", text) for text in texts)


def test_no_window_from_320_to_1280_pixels_scrolls_sideways(view):
    """At each width from which other rules hold: from there to the next is only more room."""
    windows = [edge for edge in edges("media") if 320 < edge <= 1280]
    scrolling = []
    for low, high in pairwise([320, *windows, 1281]):
        room = show_at(view, low)[0]
        for width in [low, *(low + edge - room for edge in edges("container"))]:
            if low <= width < high and show_at(view, width)[1] > width:
                scrolling.append(width)
    assert scrolling == []


@pytest.mark.parametrize("width", [320, 480, 560, 640])
@pytest.mark.parametrize("page", WITH_A_FIGURE)
def test_a_figure_loaded_in_a_window_does_not_scroll_sideways(views, page, width):
    view = views(viewport={"width": width, "height": 900}).open(page, '[id^="explorable-"]')
    view.tab.evaluate(AT_REST)
    assert view.tab.evaluate("document.documentElement.scrollWidth") <= width


@cache
def edges(kind):
    """The widths, of windows or of articles, at which rules of the style sheets begin to hold."""
    found = set()
    for query in re.findall(rf"@{kind}[^{{]*", "".join(map(read, HTML.glob("_*static/**/*.css")))):
        for end, size, unit in re.findall(r"(min|max)-width:\s*([\d.]+)(px|rem)", query):
            pixels = float(size) * (16 if unit == "rem" else 1)
            found.add(int(pixels) + 1 if end == "max" else ceil(pixels))
    return sorted(found)


def show_at(view, width):
    """The room of the article in a window of a width, and how wide the page is there."""
    view.tab.set_viewport_size({"width": width, "height": 900})
    return view.tab.evaluate(
        """() => [document.querySelector(".bd-article").clientWidth,
            document.documentElement.scrollWidth]"""
    )


@every_width
def test_no_text_is_cut_off(view, width):
    """Text and formulas lie inside the window, or in a box that scrolls to them."""
    resize(view, width)
    assert view.tab.evaluate(CUT_OFF) == []


CUT_OFF = """() => {
    const cutOff = (rectangle, element) => {
        const overflow = () => getComputedStyle(element).overflowX;
        while (element !== document.body && overflow() === "visible")
            element = element.parentElement;
        if (element === document.body)
            return rectangle.left < 0 || rectangle.right > innerWidth + 1;
        const box = element.getBoundingClientRect();
        return rectangle.left < box.left - 1
            || rectangle.top < box.top - 1
            || rectangle.bottom > box.bottom + 1
            || rectangle.right > box.right + 1 && overflow() === "hidden";
    };
    // An editor lays out the numbers of its lines when they come into sight.
    const seen = (element) => !element.closest(".cm-gutters")
        && element.checkVisibility({opacityProperty: true, visibilityProperty: true});
    const article = document.querySelector("article");
    const found = [];
    const nodes = document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (nodes.nextNode()) {
        const node = nodes.currentNode;
        const range = document.createRange();
        range.selectNodeContents(node);
        if (node.data.trim() && seen(node.parentElement)
                && [...range.getClientRects()].some((line) => cutOff(line, node.parentElement)))
            found.push(node.data);
    }
    for (const formula of article.querySelectorAll("math"))
        if (seen(formula) && cutOff(formula.getBoundingClientRect(), formula.parentElement))
            found.push(formula.closest(".math").textContent);
    return found;
}"""


@every_width
def test_nothing_overlaps_a_note_in_the_margin(view, width):
    resize(view, width)
    assert view.tab.evaluate(OVERLAPPED) == []


OVERLAPPED = """() => {
    const article = document.querySelector("article");
    const found = [];
    for (const note of article.querySelectorAll(".margin")) {
        const {left, top, right, bottom} = note.getBoundingClientRect();
        for (const other of article.querySelectorAll(
            ":is(p, li, h2, h3, pre, table, svg, .margin, .proof, math)"
        )) {
            const box = other.getBoundingClientRect();
            if (!note.contains(other) && !other.contains(note) && other.checkVisibility()
                    && box.left < right - 1 && left < box.right - 1
                    && box.top < bottom - 1 && top < box.bottom - 1)
                found.push([note.textContent, other.outerHTML.slice(0, 160)]);
        }
    }
    return found;
}"""


@every_width
def test_a_formula_that_fits_does_not_scroll(view, width):
    resize(view, width)
    slack = 4  # a bar may stand out over its letter
    scrolling = view.tab.locator("article").evaluate(
        """(article, slack) => [...article.querySelectorAll(".math, .formula")]
            .filter((box) => getComputedStyle(box).overflowX === "auto"
                && box.scrollWidth > box.clientWidth + slack
                && [...box.querySelectorAll("math")].every(
                    (formula) => formula.getBoundingClientRect().width <= box.clientWidth))
            .map((box) => box.textContent)""",
        slack,
    )
    assert scrolling == []


def test_what_a_finger_presses_is_44_pixels_high(view):
    """Folds, and what belongs to a graph, a drill or an editor."""
    resize(view, PHONE)
    touch = view.context.new_cdp_session(view.tab)
    touch.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    assert view.tab.evaluate(SMALL, ".graph, .drill, .live, .live-listing") == []
    touch.detach()  # ends the emulation


@pytest.mark.parametrize("page", WITH_A_FIGURE)
def test_what_a_finger_presses_in_a_figure_is_44_pixels_high(views, page):
    """In a window that becomes narrower, too; the place of a handle is among it."""
    view = views(viewport={"width": PHONE, "height": 900}, has_touch=True, is_mobile=True)
    view.open(page, '[id^="explorable-"]')
    unfold(view)
    for width in (PHONE, 320):
        resize(view, width)
        assert view.tab.evaluate(SMALL, ".explorable") == []


# A radio or a box to tick is pressed on its label, too.
SMALL = """(where) => [...document.querySelectorAll(`article summary,
    article circle.halo:not([role]),
    article :is(${where}) :is(button, select, input, textarea, [role="button"])`)]
    .filter((part) => part.checkVisibility()
        && part.matches(".explorable *") === (where === ".explorable")
        && Math.max(...[part, ...part.labels ?? []].map(
            (target) => target.getBoundingClientRect().height)) < 43.9)
    .map((part) => part.outerHTML.slice(0, 160))"""


@pytest.mark.parametrize("width", [PHONE], scope="class")
def test_the_type_of_a_figure_can_be_read_or_the_figure_scrolls(view, width):
    resize(view, width)
    assert view.tab.evaluate(UNREADABLE) == []


UNREADABLE = r"""() => [...document.querySelectorAll("article svg.plot")]
    .filter((plot) => {
        if (!plot.checkVisibility()) return false;
        const sizes = [...plot.querySelectorAll("g[transform*='scale(']")]
            .filter((text) => /scale\(([\d.]+) -\1\)/.test(text.getAttribute("transform")))
            .map((text) => text.getScreenCTM())
            .map(({a, b}) => 100 * Math.hypot(a, b));
        const box = plot.closest(".notebook-figure");
        const cued = box.scrollWidth <= box.clientWidth + 1
            || box.classList.contains("scrolls") && box.tabIndex === 0
                && getComputedStyle(box).maskImage !== "none";
        return Math.min(...sizes) < 8.7 || !cued;
    }).map((plot) => plot.getAttribute("aria-label"))"""


def test_a_page_describes_itself(view):
    """One viewport, a description, and a picture of its own."""
    meta = view.tab.locator("meta").evaluate_all(
        "all => all.map(m => [m.name || m.getAttribute('property'), m.content])"
    )
    assert [name for name, _ in meta].count("viewport") == 1
    said = dict(meta)
    assert 20 < len(said["description"]) <= 155 and said["og:description"] == said["description"]
    assert (HTML / view.page).parent.joinpath(said["og:image"]).resolve().exists()
    assert view.page.rpartition("/")[2] in said["og:image"]


def test_what_a_screen_reader_meets_has_a_name_and_a_place(view):
    """Columns that head nothing, the search button, the logo, and parts of the side bar."""
    table = "article th:not(:has(*), .model th)"  # where a space of the text heads its column
    heads = view.tab.locator(table).evaluate_all("all => all.map(th => th.textContent.trim())")
    assert all(heads)
    button = view.tab.locator("button.search-button-field")
    assert button.get_attribute("aria-label") is None
    assert view.tab.locator(".logo").evaluate("logo => logo.closest('nav') !== null")
    source = read(HTML / f"{view.page}.html")
    parts = re.findall(r'<details( open)?><summary><span class="caption-text">', source)
    assert len(parts) == read(ROOT / "_toc.yml").count("caption:")
    assert len("".join(parts).split()) == (view.page != PAGES[0])


def test_headings_descend_from_one_title(view):
    levels = view.tab.locator("article").evaluate(
        "article => [...article.querySelectorAll('h1, h2, h3, h4, h5, h6')]"
        ".map(heading => Number(heading.tagName[1]))"
    )
    assert levels[0] == 1 and levels.count(1) == 1
    steps = zip(levels, levels[1:], strict=False)
    assert all(lower <= higher + 1 for higher, lower in steps), levels


def test_links_lead_to_pages_and_places_of_the_book(view):
    links = view.tab.locator("article a[href]").evaluate_all(
        "all => all.map(a => new URL(a.getAttribute('href'), document.baseURI).href)"
    )  # the links of a drawing have no href of their own as a string
    broken = []
    for link in links:
        target, _, place = link.partition("#")
        path = HTML / target.partition("?")[0].removeprefix(HTML.as_uri() + "/")
        if link.startswith("file:") and not (
            path.exists() and (not place or f'id="{place}"' in read(path))
        ):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("width", [PHONE, LARGER_PHONE, LAPTOP])
def test_no_displayed_formula_is_clipped_without_a_cue(view, width):
    """On a phone, on one that is turned a little wider, and back where all began."""
    resize(view, width)
    assert view.tab.evaluate(CLIPPED) == []


CLIPPED = """() => [...document.querySelectorAll("article .formula")]
    .filter((box) => box.checkVisibility()
        && box.scrollWidth > box.clientWidth + 1
        && !(box.classList.contains("scrolls") && box.tabIndex === 0
            && getComputedStyle(box).maskImage !== "none"))
    .map((box) => box.textContent)"""


def test_sections_are_laid_out_one_after_another(front):
    """From the top of a page: soon not all of them are, and then they are."""
    front.goto(url("book/150_layer_norm"), wait_until="domcontentloaded")
    assert not front.evaluate(LAID_OUT)
    front.wait_for_function(LAID_OUT)
    theme = read(HTML / "_static/scripts/pydata-sphinx-theme.js")
    assert "tabIndex" in theme and "scrollHeight" not in theme  # which would lay out all at once


def test_a_page_that_is_opened_at_a_place_is_laid_out_at_once(front):
    front.goto(url("book/150_layer_norm") + "#what-can-go-wrong")
    assert front.evaluate(LAID_OUT)
    assert 0 <= front.locator("#what-can-go-wrong > h2").bounding_box()["y"] < 200


def test_the_index_opens_the_front_page(front):
    front.goto(url("index"))
    front.wait_for_url(url(PAGES[0]))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_link_below_the_pointer_can_be_read(front, theme):
    front.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    front.emulate_media(reduced_motion="reduce")  # no colour on its way
    link = front.locator("article a.internal").locator("visible=true").first
    link.hover()
    contrast = link.evaluate(f"""link => {{
        {RATIO}
        return ratio(getComputedStyle(link).color, getComputedStyle(document.body).backgroundColor);
    }}""")
    assert contrast >= 4.5


def test_sizes_of_type_are_in_one_order(views):
    """Formulas match the text, code is a little smaller, headings descend."""
    tab = open_page(views(**WINDOW), "book/210_attention").tab
    sizes, line = tab.evaluate(SIZES), tab.evaluate(CHARACTERS_A_LINE)
    assert 1 <= sizes["p math"] / sizes["p"] <= 1.08
    assert 14 <= sizes["pre"] <= 15
    assert sizes["h1"] > sizes["h2"] > sizes["h3"] > sizes["p"]
    assert abs(line - 66) < 6


SIZES = """() => Object.fromEntries(["h1", "h2", "h3", "p", "p math", "pre"].map(
    (name) => [name, document.querySelector(`article ${name}`)]
).map(([name, element]) => [name, parseFloat(getComputedStyle(element).fontSize)]))"""
CHARACTERS_A_LINE = """() => {
    const paragraph = [...document.querySelectorAll("article section > p")]
        .find((one) => one.textContent.length > 150 && !one.querySelector(".math"));
    const canvas = document.createElement("canvas").getContext("2d");
    canvas.font = getComputedStyle(paragraph).font;
    const text = paragraph.textContent;
    return paragraph.clientWidth / canvas.measureText(text).width * text.length;
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_hue_can_be_read(front, theme):
    front.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
    contrasts = front.evaluate(CONTRASTS)
    assert min(contrasts.values()) >= 4.5, contrasts


CONTRASTS = f"""() => {{
    {RATIO}
    const probe = document.body.appendChild(document.createElement("i"));
    const shown = (name) => {{
        probe.style.color = `var(--${{name}})`;
        return getComputedStyle(probe).color;
    }};
    const contrasts = {{}};
    for (const hue of ["query", "key", "value", "cotangent", "soft", "right", "wrong"])
        for (const ground of ["paper", "box"])
            contrasts[`${{hue}} on ${{ground}}`] = ratio(shown(hue), shown(ground));
    return contrasts;
}}"""


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("softmax", "130_softmax"),
        ("layer norm", "150_layer_norm"),
        ("layer normalisation", "150_layer_norm"),
        ("cross-entropy", "140_cross_entropy"),
        ("feed-forward layer", "160_feed_forward"),
        ("attention", "210_attention"),
        ("multi-head attention", "220_multi_head_attention"),
        ("multi-head attention layer", "220_multi_head_attention"),
        ("masks", "215_masks"),
        ("embeddings", "230_embedding"),
        ("optimisers", "240_optimizers"),
        ("schedules", "250_schedules"),
        ("steepest descent", "260_steepest_descent"),
        ("residual", "270_residual"),
        ("dropout", "290_dropout"),
        ("museum", "320_museum"),
        ("mini-bert", "340_bert"),
        ("plateau", "360_plateau"),
        ("eigenvalues", "930_eigenvalues"),
        ("taylor", "910_taylor"),
        ("muon", "260_steepest_descent"),
        ("gpt", "560_gpt"),
        ("causal mask", "215_masks"),
        ("swiglu", "530_gated_feed_forward"),
        ("kv cache", "570_sampling"),
        ("KV-cache", "570_sampling"),
        ("weight tying", "340_bert"),
        ("rope", "520_rotary"),
        ("rotary embeddings", "520_rotary"),
        ("gpt on many machines", "465_gpt_over_ranks"),
        ("pipeline parallelism", "460_one_layer"),
        ("all-reduce", "450_many_machines"),
        ("diloco", "480_local_steps"),
        ("gqa", "540_grouped_queries"),
        ("bpe", "550_byte_pairs"),
        ("tokenizer", "550_byte_pairs"),
        ("nucleus sampling", "570_sampling"),
        ("draft model", "575_speculative"),
        ("flashattention", "580_tiled_attention"),
        ("mixed precision", "590_few_bits"),
        ("safetensors", "610_weights"),
        ("lora", "620_fine_tuning"),
        ("contrastive loss", "630_search"),
        ("mlm", "350_train_bert"),
        ("adamw", "240_optimizers"),
        ("warmup", "250_schedules"),
        ("beam search", "335_train_encoder_decoder"),
        ("softmax_backward", "api_ops.html#transformer_core.ops.softmax_backward"),
        ("eq:softmax-backward", "130_softmax.html#equation-eq-softmax-backward"),
    ],
)
def test_search_finds_the_page_of_its_words_first(front, words, page):
    front.goto(f"{url('search')}?q={words}")
    results = front.locator("#search-results li a")
    results.first.wait_for()
    found = results.evaluate_all("all => all.map(a => a.href)")
    assert page in found[0]


def test_search_shows_the_first_words_of_a_place_from_the_folder(front):
    front.goto(f"{url('search')}?q=layer norm")
    front.locator("#search-results .context").first.wait_for()
    words = front.locator("#search-results li").first.locator(".context").inner_text()
    described = read(HTML / "book/150_layer_norm.html")
    assert words[:100] in described and len(words) > 40
    assert (HTML / "_static/excerpts.js").stat().st_size < 300_000


@pytest.mark.parametrize("words", ["constructor", "__proto__"])
def test_what_every_object_has_is_searched_like_any_other_word(front, words):
    front.goto(f"{url('search')}?q={words}")
    front.locator(
        ".search-summary", has_text=re.compile("earch (finished|did not match)")
    ).wait_for()
    assert "undefined" not in front.locator("#search-results").inner_text()


@pytest.mark.parametrize("page", ["search", "genindex"])
def test_a_page_without_an_article_has_no_error(views, page):
    view = views().open(page)
    view.tab.wait_for_load_state()
    assert view.errors == []


def test_search_puts_ten_after_nine(front):
    front.goto(f"{url('search')}?q=the")
    order = front.evaluate(
        """() => ["10. Ten", "9. Nine", "2. Two"].map((title) =>
            ["book/320_museum", `A museum > ${title}`, "#x", null, 0]).sort((a, b) =>
                Scorer.score(b) - Scorer.score(a)).map(([, title]) => title.split("> ")[1])"""
    )
    assert order == ["2. Two", "9. Nine", "10. Ten"]


def test_the_map_is_not_among_the_words_of_a_page():
    index = read(HTML / "searchindex.js")
    terms = json.loads(index[index.index("(") + 1 : index.rindex(")")])["terms"]
    assert all(len(terms[word]) < 15 for word in ("museum", "taylor", "steepest"))


def test_the_button_for_dark_mode_switches(front):
    modes, grounds = set(), set()
    for _ in ("auto", "light", "dark"):
        front.locator(".theme-switch-button").locator("visible=true").first.click()
        modes.add(front.evaluate("document.documentElement.dataset.theme"))
        grounds.add(front.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert modes == {"light", "dark"}
    assert len(grounds) == 2

"""The map in the built book: on the front page, and over every chapter."""

import pytest
from map import PLACES

LAPTOP, PHONE = (1280, 800), (360, 740)


@pytest.fixture(scope="module", params=["light", "dark"])
def view(views, request):
    return views(color_scheme=request.param)


def open_page(view, page, size):
    view.tab.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
    return view.open(f"book/{page}").tab


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_words_fit_their_boxes_and_can_be_read(view, size):
    tab = open_page(view, "intro", size)
    assert tab.locator(".architecture a").count() > len(PLACES)
    assert tab.evaluate(STICKING_OUT) == []
    smallest = tab.evaluate(
        "Math.min(...[...document.querySelectorAll('.architecture text')].map((text) =>"
        "  parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a))"
    )
    assert smallest >= 11


STICKING_OUT = """() => [...document.querySelectorAll(".architecture a")].filter((link) => {
    const box = link.querySelector("rect").getBoundingClientRect();
    return [...link.querySelectorAll("text")].some((text) => {
        const words = text.getBoundingClientRect();
        return words.left < box.left || words.right > box.right
            || words.top < box.top - 1 || words.bottom > box.bottom + 1;
    });
}).map((link) => link.textContent)"""


def test_no_title_lies_across_a_box(view):
    tab = open_page(view, "intro", LAPTOP)
    assert tab.locator(TITLES).count() > 6
    assert tab.evaluate(ACROSS_A_BOX, TITLES) == []


TITLES = ".architecture text.title"
ACROSS_A_BOX = """(titles) => [...document.querySelectorAll(titles)].filter((title) => {
    const words = title.getBoundingClientRect();
    return [...title.closest("svg").querySelectorAll("a rect")].some((rect) => {
        const box = rect.getBoundingClientRect();
        return words.left < box.right && words.right > box.left
            && words.top + 2 < box.bottom && words.bottom - 2 > box.top;
    });
}).map((title) => title.textContent)"""


def test_the_front_page_shows_the_map_in_one_row(view):
    tab = open_page(view, "intro", LAPTOP)
    boxes = [panel.bounding_box() for panel in tab.locator(".architecture svg").all()]
    assert len({box["y"] for box in boxes}) == 1
    assert boxes[-1]["x"] + boxes[-1]["width"] <= LAPTOP[0]


def test_a_slim_strip_heads_a_chapter(view):
    chapter = max(PLACES, key=lambda page: len(PLACES[page]))
    tab = open_page(view, chapter, LAPTOP)
    strip = tab.locator("h1 + .architecture-strip")
    assert strip.bounding_box()["height"] <= 120
    assert PLACES[chapter] in strip.locator("summary").inner_text()


def test_a_box_lights_the_way_of_the_sentence_up_to_it(view):
    tab = open_page(view, "intro", LAPTOP)
    passed = "all => all.filter((box) => box.matches('.passed')).map((box) => +box.dataset.box)"
    boxes = tab.locator(".architecture [data-box]")
    softmax = tab.locator(".architecture [data-box='8']")
    softmax.hover()
    assert sorted(boxes.evaluate_all(passed)) == list(range(9))
    fills = [softmax.locator("rect").evaluate("r => getComputedStyle(r).fill")]
    tab.locator(".architecture a:not([data-box])").first.hover()
    assert boxes.evaluate_all(passed) == []
    assert softmax.locator("rect").evaluate("r => getComputedStyle(r).fill") not in fills
    tab.locator(".architecture [data-box='4']").focus()
    assert sorted(boxes.evaluate_all(passed)) == list(range(5))
    tab.locator(".architecture [data-box='4']").blur()
    assert boxes.evaluate_all(passed) == []


def test_the_strip_shows_the_way_to_the_chapter(view):
    tab = open_page(view, "160_feed_forward", LAPTOP)
    strip = tab.locator(".architecture-strip summary")
    assert (strip.locator(".lit").count(), strip.locator(".passed").count()) == (3, 4)
    tab = open_page(view, "240_optimizers", LAPTOP)
    assert strip.locator(".lit").count() and not strip.locator(".passed").count()


def test_the_keyboard_opens_the_map_and_follows_a_part(view):
    tab = open_page(view, "150_layer_norm", LAPTOP)
    tab.locator(".architecture-strip summary").focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    part = tab.locator(".architecture a").first
    assert part.evaluate("part => part === document.activeElement")
    width = "part => parseFloat(getComputedStyle(part.querySelector('rect')).strokeWidth)"
    assert part.evaluate(width) > tab.locator(".architecture a").nth(1).evaluate(width)
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/010_transformer.html")

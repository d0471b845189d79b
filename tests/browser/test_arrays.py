"""One sentence through the whole model: stepped through, opened, and followed to a chapter."""

import math
import re

import pytest

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


@pytest.fixture(params=["desktop", "phone"])
def press(request, views):
    """A figure on a desktop or a phone, and what presses there: a mouse or a finger."""
    phone = request.param == "phone"
    view = views(**(PHONE if phone else {})).open("book/010_transformer")
    yield view.tab, (lambda at: at.tap()) if phone else (lambda at: at.click())
    assert view.errors == []


def value_of(text):
    """What a sum amounts to, in Python."""
    for shown, written in {
        "−": "-",
        "·": "*",
        "²": "**2",
        "√": "math.sqrt",
        "exp": "math.exp",
    }.items():
        text = text.replace(shown, written)
    return eval(
        re.sub(r"([\d)]) (?=\(?L)", r"\1*", text.replace("ln 2", "L")),
        {"math": math, "L": math.log(2)},
    )


def test_it_goes_forward_and_back_and_lights_its_box_of_the_map(press):
    tab, press = press
    figure = tab.locator("#graph-transformer")
    forward, back = (figure.get_by_role("button", name=name) for name in ("step", "back"))
    steps = figure.locator(".steps li").count()
    boxes, seen = set(), []
    for at in range(steps):
        assert figure.locator(".count").inner_text() == f"{at + 1} of {steps}"
        assert figure.locator(".part.here").count() >= 1
        boxes |= {box.get_attribute("data-box") for box in figure.locator("a.on").all()}
        seen.append(figure.locator("table.hidden").count())
        forward.evaluate("button => button.click()")
    assert boxes == {str(box) for box in range(10)}
    assert seen == sorted(seen, reverse=True) and seen[0] > seen[-1] == 0
    press(back)
    assert figure.locator(".count").inner_text() == f"{steps - 1} of {steps}"
    assert figure.locator("a[data-box]:visible").count() == 10
    assert forward.bounding_box()["height"] >= 44
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize(
    "array, at", [("S", 3), ("A", 3), ("σ", 0), ("dS", 3), ("dR", 4), ("dW_K", 4)]
)
def test_a_cell_opens_into_a_sum_that_adds_up(press, array, at):
    tab, press = press
    figure = tab.locator("#graph-transformer")
    figure.get_by_role("button", name="all").click()
    cell = figure.locator(f'table[data-array="{array}"] td').nth(at)
    press(cell)
    terms, result = figure.locator(".opened").inner_text().split(": ", 1)[1].rsplit(" = ", 1)
    assert value_of(terms) == pytest.approx(value_of(result), abs=1e-12)
    unit = cell.evaluate("cell => cell.closest('table').dataset.unit ?? '1'")
    assert value_of(result) == pytest.approx(value_of(f"({cell.inner_text()}) * ({unit})"))
    assert figure.locator("td.from").count() >= 3
    sizes = [cell.bounding_box()[side] for side in ("width", "height")]
    assert min(sizes) >= (43.5 if tab.viewport_size["width"] < 400 else 31)


def test_a_box_leads_to_its_chapter_with_the_same_numbers(press):
    tab, press = press
    figure = tab.locator("#graph-transformer")
    figure.get_by_role("button", name="all").click()
    weights = figure.locator('table[data-array="A"]').inner_text()
    press(figure.get_by_role("link", name="softmax of the scores"))
    tab.wait_for_url("**/130_softmax.html#cats-chase-mice")
    there = tab.locator('#cats-chase-mice table[data-array="A"]')
    assert there.is_visible() and there.inner_text() == weights
    press(there.locator("td").nth(3))
    assert tab.locator(".opened").inner_text().endswith("= 4/7")
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_keyboard_goes_from_cell_to_cell(views):
    tab = views().open("book/010_transformer").tab
    figure = tab.locator("#graph-transformer")
    figure.locator('table[data-array="X"] td').first.focus()
    for key in ("ArrowDown", "ArrowRight"):
        tab.keyboard.press(key)
    assert figure.locator(".opened").inner_text() == "X chase, column 2: 0 + 1 = 1"
    assert figure.locator(".count").inner_text().startswith("1 of")

"""The blind cases that the page plays."""

import pytest

from studies import results

CASES = [run["found"] for run in results("blind_cases")]


@pytest.fixture(params=[1280, 390])
def game(views, request):
    phone = {"has_touch": True, "is_mobile": True} if request.param < 500 else {}
    view = views(viewport={"width": request.param, "height": 900}, **phone)
    tab = view.open("book/370_blind_cases").tab
    root = tab.locator("#explorable-blind_cases.alive")
    root.wait_for()
    yield root
    assert tab.evaluate("document.documentElement.scrollWidth") <= request.param
    assert view.errors == []


def press(game, name):
    button = game.get_by_role("button", name=name, exact=True)
    button.tap() if game.page.viewport_size["width"] < 500 else button.click()


def test_a_case_is_asked_named_and_told(game):
    press(game, "Case 3")
    for question, left in {"fresh 1": 9, "generic 2": 7, "where 3": 4}.items():
        press(game, question)
        assert game.locator(".purse").inner_text().startswith(f"Case 3: {left} of 10 points.")
        assert game.get_by_role("button", name=question, exact=True).is_disabled()
        first = game.locator(".answers pre").first.text_content()
        assert first == CASES[2]["answers"][question.split()[0]]
    game.locator("select[name=op]").select_option("op layer_norm")
    press(game, "ask 2")
    assert game.get_by_role("button", name="optimiser 2").is_enabled()
    game.locator("select[name=mistake]").select_option("layer-norm-gamma-outside")
    press(game, "Name it (−3 if wrong)")
    assert game.locator(".said").inner_text() == "Right, with 2 points left."
    assert "Named 1 of 12, with 2 points left; the shortest way would have left 8" in (
        game.locator(".purse").inner_text()
    )
    assert "ops/layer_norm.py, line" in game.locator(".answers").inner_text()
    assert game.locator(".questions button").count() == 0


def test_wrong_names_close_a_case_and_what_was_asked_is_kept(game):
    names = [name for case in CASES[1:] if (name := case["name"]) != CASES[0]["name"]]
    for name, left in zip(names, (7, 4, 1, 0), strict=False):
        game.locator("select[name=mistake]").select_option(name)
        press(game, "Name it (−3 if wrong)")
        assert game.locator(".purse").inner_text().startswith(f"Case 1: {left} of 10 points.")
    assert CASES[0]["name"] in game.locator(".answers").inner_text()
    kept = game.get_by_role("button", name="Case 1, not solved")
    for _ in range(5):  # a browser under load may store what it was given after the next page reads
        game.page.reload()
        game.wait_for()
        if kept.is_visible():
            break
    assert kept.is_visible()
    press(game, "Reset")
    assert game.get_by_role("button", name="Case 1", exact=True).is_visible()
    assert game.locator(".questions button").count() > 5

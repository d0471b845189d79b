"""The bet with which the front page begins."""

import pytest


@pytest.fixture(params=[1280, 390])
def bet(views, request):
    size = {"width": request.param, "height": 900}
    view = views(viewport=size).open("book/intro")
    yield view.tab.locator("#explorable-bet")
    assert view.errors == []


def test_the_page_begins_with_it_and_the_curves_draw_themselves(bet):
    assert bet.evaluate("bet => bet.previousElementSibling.tagName") == "H1"
    assert bet.locator(".controls").bounding_box()["y"] < 900
    times = "all => all.map((curve) => getComputedStyle(curve).animationDuration)"
    assert bet.locator(".curve").evaluate_all(times) == ["3s", "3s"]


@pytest.mark.parametrize("letter, said", [("A", "The other one"), ("B", "You have found it")])
def test_the_reader_bets_and_three_judges_answer(bet, letter, said):
    answer = bet.page.locator("#explorable-bet + details")
    assert not answer.locator("p").first.is_visible()
    assert not bet.get_by_role("button", name="The curve").is_visible()
    bet.get_by_role("button", name=f"{letter} is wrong").press("Enter")
    assert bet.locator(".said").inner_text().startswith(said)
    assert "0.191" in answer.inner_text() and "of 50 seeds" in answer.inner_text()
    for name in ("The curve", "A check of a new model", "A check at a random point"):
        bet.get_by_role("button", name=name).press("Enter")
    judges = bet.locator(".judges p").all_inner_texts()
    assert ["found" in judge for judge in judges] == [False, False, True]
    assert bet.locator(".judges .alarm").count() == 1
    bet.get_by_role("button", name="Reset").press("Enter")
    assert bet.get_by_role("button", name="A is wrong").is_visible()
    assert not answer.locator("p").first.is_visible()


def test_without_motion_and_without_scripts_the_curves_stand_there(views):
    still = views(reduced_motion="reduce").open("book/intro").tab
    times = "all => all.map((curve) => getComputedStyle(curve).animationDuration)"
    assert set(still.locator("#explorable-bet .curve").evaluate_all(times)) <= {"0s"}
    plain = views(java_script_enabled=False).open("book/intro").tab
    assert plain.locator("#explorable-bet .curve").count() == 2
    text = plain.locator("article").inner_text()
    assert "Which one?" in text and "The answer" in text

"""The encoder that trains in the page, right and with mistakes, against the package's."""

from contextlib import nullcontext

import numpy as np
import pytest
from helpers.texts import ROOT

from studies import results
from studies.bet import WRONG
from transformer_core.layers import LayerSpec
from transformer_core.optim import Adam
from transformer_core.tasks.reconstruction.model import Reconstructor
from transformer_practice.engine.planting import planted
from transformer_practice.mistakes import MUTANTS

STATIC = ROOT / "book/_static"
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
AROUND = "adam-no-bias-correction"  # not in the gradients
SILENT = {  # mistakes that one of the judges does not hear
    "fresh": {
        "no mistake",
        "layer-norm-gamma-outside",
        "linear-last-sequence-alone",
        "linear-batch-and-time-scrambled",
        "attention-scale-forgotten",
        AROUND,
    },
    "random": {"no mistake", "attention-scale-forgotten", AROUND},
}

GRADIENTS = """([name, isNew]) => {
    const random = core.generator(5), parameters = museum.build(random, isNew);
    const [inputs, targets] = museum.task(random)(3);
    const {loss, grads} = museum.lossAndGradients(
        museum.planted(name), parameters, inputs, targets);
    const nested = (tensors) => Object.fromEntries(
        Object.entries(tensors).map(([key, v]) => [key, core.nested(v)]));
    return [nested(parameters), core.nested(inputs), core.nested(targets), loss, nested(grads)];
}"""


@pytest.fixture(scope="module")
def page(browser):
    tab = browser.new_page()
    tab.errors = []
    tab.on("pageerror", lambda error: tab.errors.append(str(error)))
    tab.set_content('<div id="explorable-museum"><div class="stage"></div></div>')
    for script in ("course.js", "core.js", "explore.js", "explorables/museum.js"):
        tab.add_script_tag(path=STATIC / script)
    yield tab
    assert tab.errors == []
    tab.close()


@pytest.fixture(scope="module")
def mistakes(page):
    return page.evaluate("Object.keys(museum.MISTAKES)")


def arrays(nested):
    return {name: np.array(values) for name, values in nested.items()}


def model_of(parameters):
    spec = LayerSpec(12, 3, 24, "post", dtype="float64")
    model = Reconstructor(spec, 1, np.random.default_rng(0))
    for name, array in model.parameters().items():
        array[...] = parameters[name]
    return model


def mistaken(name):
    """The package with this mistake, or without one."""
    return planted(MUTANTS[name]) if name in MUTANTS else nullcontext()


def test_every_mistake_is_in_the_catalogue(mistakes):
    assert mistakes[0] == "no mistake"
    assert set(mistakes[1:]) <= set(MUTANTS)


@pytest.mark.parametrize("is_new", [True, False])
def test_gradients_are_those_of_the_package_with_the_same_mistake(page, mistakes, is_new):
    for name in mistakes:
        parameters, inputs, targets, loss, grads = page.evaluate(GRADIENTS, [name, is_new])
        model = model_of(arrays(parameters))
        batch = np.array(inputs), np.array(targets)
        with mistaken(name):
            expected, expected_grads = model.loss_and_gradients(*batch)
        assert loss == pytest.approx(expected, rel=1e-12), name
        assert grads.keys() == expected_grads.keys()
        for key, grad in arrays(grads).items():
            np.testing.assert_allclose(grad, expected_grads[key], **CLOSE, err_msg=name)


@pytest.mark.parametrize("name", ["no mistake", AROUND])
def test_the_optimizer_takes_the_steps_of_the_package(page, name):
    grads = np.random.default_rng(1).normal(size=(4, 3))
    found = page.evaluate(
        """([name, grads]) => {
            const p = {p: core.from([1, -2, 3])};
            const optimizer = museum.planted(name).optimizer(p);
            grads.forEach((grad) => optimizer.step({p: core.from(grad)}));
            return core.nested(p.p);
        }""",
        [name, grads.tolist()],
    )
    parameters = {"p": np.array([1.0, -2.0, 3.0])}
    with mistaken(name):
        optimizer = Adam(parameters, 0.01)
        for grad in grads:
            optimizer.step({"p": grad})
    np.testing.assert_allclose(found, parameters["p"], rtol=1e-12)


def test_the_judges_hear_what_the_page_says_they_hear(page, mistakes):
    for name in mistakes:
        page.locator("select").select_option(name)
        assert set(page.locator(".verdict").all_inner_texts()) == {"–"}
        page.get_by_role("button", name="Ask the judges").click()
        verdicts = page.locator(".verdict").all_inner_texts()
        _, fresh, random, theorem = ["alarm" in verdict for verdict in verdicts]
        assert fresh == (name not in SILENT["fresh"]), name
        assert random == (name not in SILENT["random"]), name
        assert theorem or name not in SILENT["random"] or name == "no mistake"
        assert not (theorem and name == "no mistake")


def test_a_judge_who_says_nothing_has_missed_the_mistake(page):
    page.locator("select").select_option("layer-norm-gamma-outside")
    page.get_by_role("button", name="Ask the judges").click()
    verdicts = page.locator(".verdict")
    assert verdicts.all_inner_texts()[1:] == ["missed", "✗ alarm", "✗ alarm"]
    page.locator("select").select_option("no mistake")
    page.get_by_role("button", name="Ask the judges").click()
    assert "missed" not in verdicts.all_inner_texts()


def test_a_bet_on_a_judge_is_settled_by_its_first_answer(page):
    page.get_by_role("button", name="Reset").click()
    page.locator("select").select_option("layer-norm-gamma-outside")
    bets, won = page.locator(".judges button"), page.locator("output[name=bets]")
    bets.nth(1).click()  # an alarm
    for _ in range(2):
        bets.nth(3).press("Enter")  # silence
    for _ in range(3):
        bets.nth(2).click()  # no bet again
    page.get_by_role("button", name="Ask the judges").click()
    assert bets.all_inner_texts()[1:] == ["Bet: alarm ✗", "Your bet?", "Bet: silence ✗"]
    assert won.inner_text() == "0 of 2"
    assert [bet.is_disabled() for bet in bets.all()] == [False, True, True, True]
    page.locator("select").select_option("residual-skip-lost")
    bets.nth(1).click()
    page.get_by_role("button", name="Ask the judges").click()
    assert won.inner_text() == "1 of 3"
    page.locator("select").select_option("layer-norm-gamma-outside")
    assert [bet.is_disabled() for bet in bets.all()] == [False, True, True, True]


def test_a_link_opens_an_exhibit_which_ends_as_in_the_package(views):
    wanted = {run["settings"]["start"]: run["found"]["end"] for run in results("bet")[50:]}
    view = views()
    view.open("book/320_museum")
    box = view.tab.locator("#explorable-museum")
    height = box.bounding_box()["height"]
    assert box.locator("select").input_value() == "attention-scale-forgotten-backward"
    address = view.tab.url + f"?exhibit={WRONG}&start=4#explorable-museum"
    view.tab.goto("about:blank")
    view.tab.goto(address)
    assert box.locator("select").input_value() == WRONG
    box.locator(".said").get_by_text("ends at").wait_for()
    eye = float(box.locator("output[name=eye]").get_attribute("data-value"))
    assert eye == pytest.approx(wanted[4], rel=1e-6)
    assert box.bounding_box()["height"] == pytest.approx(height, abs=1)
    assert box.get_by_role("link", name="Link to this run").evaluate("a => a.href") == address
    assert view.errors == []


def test_a_link_to_no_exhibit_opens_the_first(views):
    view = views()
    view.open("book/320_museum")
    address = view.tab.url + "?exhibit=constructor"
    view.tab.goto("about:blank")
    view.tab.goto(address)
    box = view.tab.locator("#explorable-museum.alive")
    assert box.locator("select").input_value() == "attention-scale-forgotten-backward"
    assert view.errors == []


def test_without_a_mistake_the_twins_end_alike_and_no_judge_speaks(page):
    page.locator("select").select_option("no mistake")
    page.get_by_role("button", name="Train").press("Enter")
    said = page.locator(".said")
    said.get_by_text("ends at").wait_for()
    assert "No judge raises an alarm" in said.inner_text()
    loss, twin = page.locator("output[name=eye]").inner_text().rstrip(")").split(" (")
    assert loss == twin and float(loss) < 0.8
    curve = "path => path.getAttribute('d')"
    right, wrong = (page.locator(f".curve.{which}").evaluate(curve) for which in ("right", "wrong"))
    assert right == wrong and right.count("L") > 250
    first = page.locator("output[name=eye]").get_attribute("data-value")
    page.get_by_role("button", name="Another start").press("Enter")
    page.locator("output[name=eye]").get_by_text("step").first.wait_for()
    said.get_by_text("ends at").wait_for()
    page.wait_for_function(
        "first => document.querySelector('output[name=eye]').dataset.value !== first"
        " && document.querySelector('output[name=eye]').dataset.value !== 'NaN'",
        arg=first,
    )

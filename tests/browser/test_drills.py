"""The fields of the drills on a page of their own, opened from a folder without a network."""

import json
import re
import shutil
from functools import cache

import pytest
from drill import TASKS, drill_html, matrices, tex
from helpers.texts import ROOT

from transformer_practice.drills import DRILLS, draw, words_of
from transformer_practice.drills.exact import parse, show

PHONE = 390
WITHOUT_FORMULAS = """place => {
    const copy = place.cloneNode(true);
    copy.querySelectorAll("math").forEach((formula) => formula.remove());
    return copy.textContent;
}"""
every_drill = pytest.mark.parametrize("name", DRILLS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pages with drills, as the directive writes them: one with every drill, and one for each."""
    folder = tmp_path_factory.mktemp("drills")
    for file in ("course.css", "course.js", "drill.js"):
        shutil.copy(ROOT / "book/_static" / file, folder)
    for page, names in {"page": DRILLS, **{name: [name] for name in DRILLS}}.items():
        (folder / f"{page}.html").write_text(
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Drills</title>'
            '<meta name="viewport" content="width=device-width">'
            '<link rel="stylesheet" href="course.css"><script src="course.js"></script>'
            '<script defer src="drill.js"></script>'
            f'</head><body class="bd-article">{"".join(map(drill_html, names))}</body></html>',
            encoding="utf-8",
        )
    return folder


@pytest.fixture(scope="module")
def page(folder):
    """The page with every drill."""
    return (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def shared(browser, page):
    with browser.new_context(offline=True) as context:
        tab = context.new_page()
        tab.on("pageerror", lambda error: pytest.fail(str(error)))
        tab.goto(page)
        yield tab


@cache
def meanings(name):
    """The formulas of a drill as the package writes them, by their TeX."""
    letters = matrices(draw(name, 0))
    written = re.sub(r"\\\n *", "", words_of(name)).split("$")[1::2]
    return {tex(formula, letters): formula for formula in written}


def plain(place, name):
    """What is read in a place of a drill, its formulas as the package writes them."""
    return place.evaluate(PLAIN, meanings(name))


PLAIN = """(place, meant) => {
    const copy = place.cloneNode(true);
    for (const formula of copy.querySelectorAll(".math"))
        formula.replaceWith(meant[formula.dataset.tex] ?? formula.dataset.tex);
    return copy.textContent;
}"""
TRY = f"""(place, [attempts, meant]) => attempts.map(([n, text]) => {{
    const plain = {PLAIN}, field = place.querySelectorAll("form input[type=text]")[n];
    field.value = text;
    field.dispatchEvent(new Event("input", {{bubbles: true}}));
    [...place.querySelectorAll("button")].find((it) => it.textContent === "Check").click();
    return plain(place.querySelector("[role=status]:not(:empty)"), meant);
}})"""


class Fields:
    """The fields of one drill, at the first task to complete or at a free one."""

    def __init__(self, tab, name, level="free"):
        tab.evaluate("localStorage.clear()")
        tab.goto(re.sub(r"\w+\.html$", f"{name}.html", tab.url))
        self.tab, self.name, self.place = tab, name, tab.locator(f"#drill-{name}")
        self.seed = 1
        if level == "free":
            self.place.get_by_label("free").check()
            self.seed = 2
        self.task = draw(name, self.seed)
        self.open = self.task.to_fill(level)
        self.inputs = self.place.get_by_role("textbox")

    def fill(self, n, text):
        self.inputs.nth(self.open.index(n)).fill(text)

    def fill_right(self):
        for n in self.open:
            self.fill(n, show(self.task.steps[n].answer))

    def try_all(self, attempts):
        """What is said to each pair of a step and a text, where the other steps are right."""
        typed = [(self.open.index(n), text) for n, text in attempts]
        return self.place.evaluate(TRY, [typed, meanings(self.name)])

    def check(self):
        """Check what is typed; return what is said, which is one sentence in one place."""
        return self.press("Check")

    def press(self, button):
        """Press a button; return what is said."""
        self.place.get_by_role("button", name=button).click()
        return plain(self.place.locator("[role=status]:not(:empty)"), self.name)


@every_drill
@pytest.mark.parametrize("level", ["complete", "free"])
def test_right_answers_are_right(shared, name, level):
    fields = Fields(shared, name, level)
    assert fields.inputs.count() == len(fields.open)
    fields.fill_right()
    assert fields.check() == "Every step is right."
    assert fields.place.locator("[aria-invalid=true]").count() == 0


@every_drill
def test_every_slip_is_named_with_its_rule_as_in_the_package(shared, name):
    fields, attempts, said = Fields(shared, name), [], []
    fields.fill_right()
    for n, step in enumerate(fields.task.steps):
        attempts += [(n, show(answer)) for answer in (*step.slips.values(), step.answer)]
        said += [f"Step {n + 1}: {step.verdict(slip)}" for slip in step.slips.values()]
        said.append("Every step is right.")
    assert fields.try_all(attempts) == said


@every_drill
def test_other_wrong_answers_are_described_as_in_the_package(shared, name):
    fields, attempts, said = Fields(shared, name), [], []
    fields.fill_right()
    for n, step in enumerate(fields.task.steps):
        for change in (lambda a: a * -1, lambda a: a * 5 / 3, lambda a: a + 100, lambda a: a):
            text = show(change(step.answer))
            verdict = step.verdict(parse(text, step.answer))
            attempts.append((n, text))
            said.append(f"Step {n + 1}: {verdict}" if verdict else "Every step is right.")
    assert fields.try_all(attempts) == said


@pytest.mark.parametrize(
    "text, said",
    [
        ("(1, −1/3 −1/3  -1/3)", "Entry 1 of 4 is wrong."),
        (None, "This is rounded; the answer is a fraction."),
        ("1, 2", "Expected 4 numbers, as in 1, 2, 3, 4."),
        ("1, 2, 3, 1/0", "Expected 4 numbers, as in 1, 2, 3, 4."),
        ("one, 2, 3, 4", "Expected 4 numbers, as in 1, 2, 3, 4."),
        ("1, 2, 3, 4; 5", "Expected 4 numbers, as in 1, 2, 3, 4."),
    ],
)
def test_forms_are_read_as_in_the_package(shared, text, said):
    fields = Fields(shared, "layer_norm")
    fields.fill_right()
    rounded = ", ".join(f"{float(n):.2f}" for n in fields.task.steps[2].answer)
    fields.fill(2, text or rounded)
    assert fields.check().startswith(f"Step 3: {said}")


def test_the_first_wrong_step_is_named_and_holds_the_focus(shared):
    fields = Fields(shared, "softmax")
    fields.fill_right()
    fields.fill(1, "1, 1, 1")
    fields.fill(3, "1, 1, 1")
    assert fields.check().startswith("Step 2: ")
    invalid = fields.place.locator("[aria-invalid=true]")
    assert invalid.count() == 1
    assert invalid.evaluate("field => field === document.activeElement")


def test_it_is_worked_with_the_keyboard_alone(shared):
    fields = Fields(shared, "dropout")
    fields.inputs.first.focus()
    for step in fields.task.steps:
        shared.keyboard.type(show(step.answer))
        shared.keyboard.press("Enter")  # goes to the next empty field
    said = list(filter(None, fields.place.get_by_role("status").all_inner_texts()))
    assert said == ["Every step is right."]


def test_every_field_has_a_label_and_says_its_form(shared, page):
    shared.goto(page)
    for field in shared.get_by_role("textbox").all():
        assert field.evaluate("field => field.labels[0].textContent")
        assert field.evaluate(
            "field => document.getElementById(field.getAttribute('aria-describedby')).textContent"
        )


def test_another_one_is_another_one_and_after_all_the_first_comes_again(shared):
    fields = Fields(shared, "linear", "complete")
    given = fields.place.locator("form .given")
    seen = []
    for _ in range(TASKS):
        seen.append(given.inner_text())
        fields.place.get_by_role("button", name="Another one").click()
        assert fields.inputs.first.evaluate("field => field === document.activeElement")
    assert len(set(seen)) == TASKS
    assert given.inner_text() == seen[0]


def test_a_reload_goes_on_where_the_reader_was(shared):
    fields = Fields(shared, "linear")
    fields.place.get_by_role("button", name="Another one").click()
    given = fields.place.locator("form .given").inner_text()
    fields.inputs.nth(1).fill("1, 2; 3")
    shared.reload()
    assert fields.place.get_by_label("free").is_checked()
    assert fields.place.locator("form .given").inner_text() == given
    assert [field.input_value() for field in fields.inputs.all()] == ["", "1, 2; 3", "", ""]
    fields.place.get_by_role("button", name="Another one").click()
    shared.reload()
    assert [field.input_value() for field in fields.inputs.all()] == [""] * 4


def test_a_hint_is_the_rule_of_the_first_step_that_is_not_right(shared):
    fields = Fields(shared, "layer_norm")
    steps = fields.task.steps
    assert fields.press("Hint") == f"Step 1: {steps[0].rule}"
    fields.fill(0, show(steps[0].answer))
    fields.fill(1, "100")
    assert fields.press("Hint") == f"Step 2: {steps[1].rule}"
    assert fields.inputs.nth(1).evaluate("field => field === document.activeElement")
    assert fields.place.locator("[data-mood=wrong], [aria-invalid=true]").count() == 0
    fields.place.get_by_role("button", name="Show the worked one").click()
    assert fields.place.get_by_role("button", name="Hint").is_disabled()


@every_drill
def test_formulas_are_set_in_the_words_of_every_step(shared, name):
    fields = Fields(shared, name)
    for n, step in enumerate(fields.task.steps):
        label = fields.place.locator("form label[for]").nth(n)
        assert plain(label, name) == step.prompt
        assert not re.search(r"[^\x00-\x7f]", label.evaluate(WITHOUT_FORMULAS))


def test_the_worked_one_shows_every_answer_and_rule(shared):
    fields = Fields(shared, "dropout")
    fields.place.get_by_role("button", name="Show the worked one").click()
    assert fields.inputs.count() == 0
    form = fields.place.locator("form")
    for step in fields.task.steps:
        assert show(step.answer).replace("-", "−") in form.inner_text()
        assert step.rule in plain(form, "dropout")
    assert fields.place.get_by_role("button", name="Check").is_disabled()
    fields.place.get_by_role("button", name="Another one").click()
    assert fields.inputs.count() == len(fields.task.steps)


def test_without_a_script_the_worked_task_is_there(browser, page):
    with browser.new_context(offline=True, java_script_enabled=False) as context:
        tab = context.new_page()
        tab.goto(page)
        place = tab.locator("#drill-attention")
        assert place.locator("form").count() == 0
        place.locator("summary").click()
        text = plain(place.locator("details"), "attention")
    for step in draw("attention", 0).steps:
        assert step.rule in text


def test_the_page_asks_for_nothing_and_fits_a_phone(browser, page):
    size = {"width": PHONE, "height": 900}
    with browser.new_context(offline=True, viewport=size) as context:
        tab, requests = context.new_page(), []
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(page)
        for fold in tab.locator("summary").all():
            fold.click()
        assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE
    assert all(url.startswith("file:") for url in requests)


def test_the_script_and_the_data_are_small():
    assert (ROOT / "book/_static/drill.js").stat().st_size < 12_000
    assert all(len(drill_html(name).encode()) < 25_000 for name in DRILLS)


def test_no_text_ends_the_data_early():
    for name in DRILLS:
        data = drill_html(name).partition('application/json">')[2]
        assert json.loads(data.partition("</script>")[0])

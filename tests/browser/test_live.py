"""Python in the page, the reader's own and the GPT's, in Chromium and Firefox, from a folder and a
server.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
from base64 import b64decode, b64encode
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from threading import Thread
from zipfile import ZipFile

import numpy as np
import pytest
from helpers.firefox import Firefox
from helpers.texts import LAID_OUT, ROOT, read

from book.living_models import read_script
from transformer_practice.exercises import every_exercise
from transformer_practice.workspace import writer
from transformer_practice.workspace.parts import joined

BOOK = ROOT / "_build/html"
PAGE = "book/150_layer_norm.html"
WAIT = """
const wait = async (test) => {
  for (let n = 0; !test(); n++) {
    if (n > 2400) throw new Error(`waited in vain for ${test}: ${place.innerText}`);
    await new Promise((done) => setTimeout(done, 50));
  }
};
const place = document.querySelector(given[0]);
const said = () => place.querySelector(".live-said");
const button = (name) =>
  [...place.querySelectorAll("button")].find((each) => each.textContent === name);
"""
ANSWER = """import numpy as np


def layer_norm(x, gamma, beta, eps=1e-5):
    centred = x - x.mean(axis=-1, keepdims=True)
    inverse = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    x_hat = centred * inverse
    return gamma * x_hat + beta, (x_hat, inverse, gamma)


def layer_norm_backward(dy, cache):
    x_hat, inverse, gamma = cache
    g = dy * gamma
    along = (g * x_hat).mean(axis=-1, keepdims=True)
    dx = inverse * (g - g.mean(axis=-1, keepdims=True) - x_hat * along)
    leading = tuple(range(dy.ndim - 1))
    return dx, (dy * x_hat).sum(axis=leading), dy.sum(axis=leading)
"""
EXERCISE = "[data-exercise=layer_norm]"
LISTING = "#listing-transformer_core-ops-layer_norm-layer_norm_backward + .live-listing"


@pytest.fixture(scope="module", autouse=True)
def python_in_the_book():
    if not (BOOK / "live/index.js").exists():
        missing("no Python in the book: run make live")


def missing(reason):
    """Leave a test out; but .ci/run, where everything can be there, fails without it."""
    (pytest.fail if "NOTHING_MISSING" in os.environ else pytest.skip)(reason)


class Page:
    """A page in a browser, which runs scripts there."""

    def __init__(self, run, address):
        self.run_in, self.address = run, address
        self.run(f"await wait(() => {LAID_OUT});", "body")

    def run(self, script, *given):
        return self.run_in(WAIT + script, given)

    def write(self, place, code):
        """Type code into an editor in the place of what is there."""
        self.run(
            """
            const field = place.querySelector(".cm-content");
            field.focus();
            document.execCommand("selectAll");
            document.execCommand("insertText", false, given[1]);
            """,
            place,
            code,
        )

    def press(self, place, name):
        """Press a button, and return what is said when the answer is there."""
        return self.run(
            """
            await wait(() => !button(given[1]).disabled);
            button(given[1]).click();
            await wait(() => !said().hasAttribute("aria-busy"));
            return said().innerText;
            """,
            place,
            name,
        )

    def open(self, place=EXERCISE):
        """Open an editor."""
        self.run(
            """
            (place.querySelector("summary") ?? place.querySelector("button")).click();
            await wait(() => place.querySelector(".live-buttons button"));
            """,
            place,
        )


@pytest.fixture(scope="module")
def server():
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    serving = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=BOOK))
    Thread(target=serving.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()


@pytest.fixture(scope="module")
def firefox(tmp_path_factory):
    if not (shutil.which("firefox-esr") or shutil.which("firefox")):
        missing("no Firefox")
    started = Firefox(tmp_path_factory.mktemp("firefox"))
    yield started
    started.close()


@pytest.fixture(scope="module", params=["chromium", "firefox"])
def pages(request):
    """A function that opens an address in each of the browsers."""
    if request.param == "firefox":
        firefox = request.getfixturevalue("firefox")

        def open_firefox(address):
            firefox.open(address)
            return Page(firefox.run, address)

        yield open_firefox
    else:
        with request.getfixturevalue("browser").new_context() as context:
            tab = context.new_page()

            def run(script, given):
                return tab.evaluate(f"async (given) => {{ {script} }}", given)

            def open_chromium(address):
                tab.goto(address)
                return Page(run, address)

            yield open_chromium


@pytest.fixture(scope="module")
def page(pages):
    """The page of a chapter from the folder, with an open editor and Python on its way."""
    page = pages((BOOK / PAGE).as_uri())
    assert loaded(page) == []
    page.open()
    return page


def loaded(page):
    return page.run(
        "return performance.getEntriesByType('resource').map((e) => e.name)"
        ".filter((name) => name.includes('/live/'))",
        "body",
    )


def test_what_is_missing_fails_where_it_could_be_there(monkeypatch):
    assert "export NOTHING_MISSING=1" in read(ROOT / ".ci/run")
    monkeypatch.setenv("NOTHING_MISSING", "1")
    with pytest.raises(pytest.fail.Exception):
        missing("no Firefox")


def test_a_wrong_answer_is_named_then_the_right_one_accepted(page):
    page.write(EXERCISE, ANSWER.replace("inverse * (g -", "gamma * inverse * (dy -"))
    said = page.press(EXERCISE, "Examine")
    assert "dx is wrong, dgamma and dbeta are right." in said
    assert "This point alone would not have shown it" in said or "Errors at each point" in said
    page.write(EXERCISE, ANSWER)
    said = page.press(EXERCISE, "Examine")
    assert said.startswith("layer_norm: right. layer_norm_backward: right.")
    assert "central differences of your own forward pass" in said


def test_hints_come_one_after_the_other(page):
    assert "layer_norm, hint 1 of 3: There are three paths" in page.press(EXERCISE, "Hint")
    assert "layer_norm, hint 2 of 3" in page.press(EXERCISE, "Hint")


def test_a_syntax_error_is_said_with_its_line(page):
    page.write(EXERCISE, ANSWER.replace("eps=1e-5):", "eps=1e-5:"))
    assert "does not run: line 4:" in page.press(EXERCISE, "Examine")


def test_a_loop_that_does_not_end_is_ended_and_the_next_answer_examined(page):
    page.write(EXERCISE, ANSWER.replace("    centred =", "    while True: pass\n    centred =", 1))
    assert "did not return within 20 s" in page.press(EXERCISE, "Examine")
    page.write(EXERCISE, ANSWER)
    assert "layer_norm_backward: right." in page.press(EXERCISE, "Examine")


def test_a_listing_is_changed_and_run(page):
    page.open(LISTING)
    assert "central differences of your own forward pass" in page.press(LISTING, "Run")
    code = page.run("return place.querySelector('.cm-content').innerText", LISTING)
    page.write(
        LISTING, code.replace("- variance_term", "").replace("\n\n", "\n") + "\nprint(1 + 1)"
    )
    said = page.press(LISTING, "Run")
    assert said.startswith("2\n") and "dx is wrong" in said
    assert "layer_norm_backward: right." in page.press(EXERCISE, "Examine")  # the package is whole


def test_the_ledger_has_what_was_written(page):
    page.press(EXERCISE, "Ledger")
    ledger = page.run("return place.querySelector('iframe').srcdoc", EXERCISE)
    assert f"1 of {len(every_exercise())} are yours" in ledger and "Hints: 2 of 3." in ledger


def test_answers_go_to_a_workspace_and_come_from_one(page, tmp_path):
    address = page.run(
        """
        let address;
        HTMLAnchorElement.prototype.click = function () { address = this.href; };
        button("Save").click();
        await wait(() => address);
        delete HTMLAnchorElement.prototype.click;
        return address;
        """,
        EXERCISE,
    )
    with ZipFile(BytesIO(b64decode(address.partition(",")[2]))) as archive:
        archive.extractall(tmp_path)
    folder = tmp_path / "mine"
    command = [sys.executable, "-m", "transformer_practice", "check", folder, "layer_norm"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert "layer_norm_backward: right." in done.stdout

    (folder / "150_layer_norm.py").write_text(
        joined("150_layer_norm", {"layer_norm": ANSWER.replace("cache):", "cache):  # my folder")})
    )
    archive = shutil.make_archive(str(tmp_path / "mine"), "zip", tmp_path, "mine")
    with open(archive, "rb") as file:
        content = b64encode(file.read()).decode()
    page.run(
        """
        const bytes = await (await fetch("data:;base64," + given[1])).arrayBuffer();
        const file = new File([bytes], "mine.zip");
        HTMLInputElement.prototype.click = function () {
          const files = new DataTransfer();
          files.items.add(file);
          this.files = files.files;
          this.dispatchEvent(new Event("change"));
        };
        button("Open").click();
        await wait(() => place.querySelector(".cm-content").innerText.includes("# my folder"));
        delete HTMLInputElement.prototype.click;
        """,
        EXERCISE,
        content,
    )


def test_answers_are_there_when_the_page_is_opened_again(page, pages):
    page.write(EXERCISE, "# mine")
    again = pages(page.address)
    assert loaded(again) == []
    again.open()
    assert again.run("return place.querySelector('.cm-content').innerText", EXERCISE) == "# mine"
    assert "hint 3 of 3" in again.press(EXERCISE, "Hint")


def test_from_a_server_it_is_the_same(pages, server):
    page = pages(f"{server}/{PAGE}")
    page.open()
    page.write(EXERCISE, ANSWER)
    assert "layer_norm_backward: right." in page.press(EXERCISE, "Examine")


GPT, GPT_PAGE = "#explorable-gpt", "book/570_sampling.html"
SAID = """
await wait(() => new RegExp(given[1]).test(place.querySelector(given[2]).textContent));
return place.querySelector(given[2]).textContent;
"""
TOKENS = """
return [...place.querySelectorAll(".written .token")].map((token) => [
  token.children[1].textContent, Number(token.children[2].dataset.value ?? NaN),
  [...token.querySelectorAll(".bar")].map((bar) => Number(bar.dataset.value))]);
"""
PRESS = "button(given[1]).click();"


@pytest.fixture(scope="module")
def package():
    """The package's own answers, with the weights of the page."""
    settings, weights = read_script(ROOT / "book/_static/models/gpt.js")
    arrays = {name: array.ravel() for name, array in weights.items()}
    writer.open_model(json.dumps(settings), arrays)
    yield lambda name, *given: json.loads(getattr(writer, name)(*given))
    writer.opened.clear()


@pytest.fixture(scope="module")
def writing(pages):
    """The page on which the GPT has written its first text."""
    page = pages((BOOK / GPT_PAGE).as_uri())
    page.run(
        """
        window.failures = [];
        addEventListener("error", (event) => window.failures.push(event.message));
        addEventListener("unhandledrejection", (event) => window.failures.push(`${event.reason}`));
        """,
        GPT,
    )
    assert loaded(page) == []
    assert page.run("return place.querySelectorAll('.written .token').length", GPT) > 5
    page.run(PRESS, GPT, "Write")
    page.run(SAID, GPT, "^[0-9]+ tokens, with", ".said")
    yield page
    assert page.run("return window.failures", GPT) == []


def shown(text, place):
    return text.replace(" ", "·").replace("\n", "↵") or ("end" if place else "start")


def of_the_package(package, texts):
    """The text that the page has written, written by the package."""
    tokens = package("begin", "Return the")
    while len(tokens) < len(texts):
        ids = json.dumps([token["id"] for token in tokens])
        tokens.append(package("write", ids, '{"temperature": 0.8, "top_p": 0.9}', 1))
    return tokens


def test_the_gpt_writes_what_the_package_writes_with_its_probabilities(writing, package):
    found = writing.run(TOKENS, GPT)
    tokens = of_the_package(package, found)
    assert [text for text, _, _ in found] == [shown(t["text"], n) for n, t in enumerate(tokens)]
    expected = [token["p"] for token in tokens[1:]]
    assert np.allclose([p for _, p, _ in found[1:]], expected, rtol=1e-3)
    assert len(found) > 5


def test_a_token_is_asked_why(writing, package):
    asked = len(writing.run(TOKENS, GPT)) - 2
    press = "place.querySelectorAll('.written .token')[given[1]].click();"
    writing.run(press, GPT, asked)
    said = writing.run(SAID, GPT, "The two disagree|the same answer", ".said")
    found = writing.run(TOKENS, GPT)
    tokens = of_the_package(package, found)
    why = package("why", json.dumps([token["id"] for token in tokens[: asked + 1]]))
    bars = np.array([bars for _, _, bars in found[:asked]])
    assert np.allclose(bars, np.transpose([why["lengths"], why["changes"]]), rtol=0.01, atol=1e-4)
    assert all(not bars for _, _, bars in found[asked:])
    assert ("The two disagree" in said) == (why["most"][0] != why["most"][1])
    differ = "return place.querySelectorAll('.differ').length"
    assert writing.run(differ, GPT) == len(why["differ"])
    rivals = writing.run(
        "return [...place.querySelectorAll('.guesses [data-value]')]"
        ".map((cell) => Number(cell.dataset.value))",
        GPT,
    )
    expected = [rival[key] for rival in tokens[asked]["rivals"] for key in ("p", "q")]
    assert np.allclose(rivals[:10], expected, rtol=1e-3, atol=1e-6)


def test_the_gpt_learns_a_sentence_and_forgets_it_again(writing, package):
    values = (
        "return [...place.querySelectorAll('.taught [data-value]')]"
        ".map((value) => Number(value.dataset.value))"
    )
    lessons = []
    for _ in range(2):
        for step in (1, 2):
            writing.run(
                "place.querySelector('.told').textContent = '';" + PRESS,
                GPT,
                "One step of training",
            )
            writing.run(SAID, GPT, f"^Step {step}: the loss of your sentence was", ".told")
            lessons.append(writing.run(values, GPT))
        writing.run(PRESS, GPT, "Original weights")
        writing.run(SAID, GPT, "those that were loaded", ".told")
    sentence = writing.run("return place.querySelector('[name=sentence]').value", GPT)
    for lesson in lessons[:2]:
        p = np.array(package("learn", sentence, 1e-3)["p"]).T.ravel()
        assert np.allclose(lesson, p, rtol=0.02)
    package("restore")
    assert lessons[:2] == lessons[2:] and lessons[0] != lessons[1]


def test_a_worker_that_was_ended_is_followed_by_one_with_the_weights(writing):
    listing = "#listing-transformer_core-models-sampling-draw + .live-listing"
    writing.open(listing)
    writing.write(listing, "while True: pass")
    writing.run("button('Run').click(); await wait(() => !button('Stop').hidden);", listing)
    assert writing.press(listing, "Stop") == "Stopped."
    writing.run(PRESS, GPT, "Write")
    writing.run("await wait(() => button('Stop'));", GPT)
    writing.run(SAID, GPT, "^[0-9]+ tokens, with", ".said")
    assert len(writing.run(TOKENS, GPT)) > 5


@pytest.fixture(params=[(1280, "light"), (390, "dark")], ids=["desk", "phone"])
def view(request, browser):
    width, scheme = request.param
    size = {"width": width, "height": 900}
    with browser.new_context(offline=True, viewport=size, color_scheme=scheme) as context:
        tab = context.new_page()
        tab.goto((BOOK / PAGE).as_uri())
        yield tab


def test_the_gpt_is_used_with_the_keyboard_and_is_accessible(view):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    view.goto((BOOK / GPT_PAGE).as_uri())
    height = view.locator(GPT).bounding_box()["height"]
    view.locator(f"{GPT} [name=prompt]").fill("Return a new array")
    view.keyboard.press("Enter")
    view.locator(f"{GPT} .said", has_text="tokens, with the beginning").wait_for(timeout=120_000)
    view.locator(f"{GPT} .token").nth(4).focus()
    view.keyboard.press("Enter")
    view.locator(f"{GPT} .said", has_text="the gradient is longest at").wait_for()
    assert view.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"
    view.locator(f"{GPT} select").focus()
    view.keyboard.press("Tab")
    view.keyboard.press("Enter")
    view.locator(f"{GPT} .said", has_text="by other weights").wait_for()
    found = axe.run(view, context={"include": [[GPT]]}).response["violations"]
    assert found == []
    sizes = "all => all.map((each) => each.getBoundingClientRect().height)"
    assert min(view.locator(f"{GPT} :is(button, select, input)").evaluate_all(sizes)) >= 44
    assert view.locator(GPT).bounding_box()["height"] == pytest.approx(height, abs=30)
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_python_the_gpt_shows_what_is_stored_and_says_why(view):
    view.context.route("**/live/**", lambda route: route.abort())
    view.goto((BOOK / GPT_PAGE).as_uri())
    view.locator(f"{GPT} button", has_text="Write").click()
    said = view.locator(f"{GPT} .said", has_text="There is no Python in this copy of the book")
    said.wait_for()
    assert view.locator(f"{GPT} .written .token").count() > 5


def test_an_editor_is_used_with_the_keyboard_and_is_accessible(view):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    view.locator(f"{EXERCISE} > summary").focus()
    view.keyboard.press("Enter")
    view.locator(f"{EXERCISE} .cm-content").wait_for()
    view.keyboard.press("Tab")
    view.keyboard.press("Control+A")
    view.keyboard.insert_text(ANSWER.replace("dy.sum", "dy.mean"))
    view.keyboard.press("Control+Enter")
    report = view.locator(f"{EXERCISE} .examined")
    report.wait_for(timeout=120_000)
    assert "dbeta is wrong" in report.inner_text()
    view.keyboard.press("Escape")
    view.keyboard.press("Tab")
    assert view.evaluate("document.activeElement.textContent") == "Examine"
    report.locator("summary").click()
    found = axe.run(view, context={"include": [[EXERCISE], [LISTING]]}).response["violations"]
    assert found == []
    assert view.evaluate("document.documentElement.scrollWidth <= innerWidth")
    view.emulate_media(media="print")
    assert not view.locator(".live, .live-listing").filter(visible=True).count()


def test_without_python_the_page_says_in_a_line_how_to_get_it(view):
    view.context.route("**/live/**", lambda route: route.abort())
    view.reload()  # a page from a folder is intercepted from its opening on
    view.locator(f"{EXERCISE} > summary").click()
    said = view.locator(f"{EXERCISE} .live-failed")
    said.wait_for()
    assert said.inner_text() == "There is no Python in this copy of the book: make live adds it."
    assert "def layer_norm(x, gamma, beta" in view.locator(f"{EXERCISE} > pre").inner_text()


def test_the_package_comes_compiled():
    text = (BOOK / "live/package.zip.js").read_text().split('"')[3]
    with ZipFile(BytesIO(gzip.decompress(b64decode(text)))) as archive:
        files = {
            Path(name).name.split(".")[0]: name for name in archive.namelist() if "cpython" in name
        }
    assert {"layer_norm", "gradient_check", "page"} <= set(files)


def test_the_scripts_that_every_page_loads_are_small():
    sizes = [(ROOT / "book/_static" / name).stat().st_size for name in ("live.js", "live.css")]
    assert sum(sizes) < 15_000
    index = (BOOK / "live/index.js").read_text().removeprefix("liveFiles = ")
    assert sum(json.loads(index.rstrip(";\n")).values()) < 15e6

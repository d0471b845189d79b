"""What holds for every explorable: on a phone, for the keyboard, and after a reset."""

import pytest
from helpers.explorable import PAGES
from helpers.texts import ROOT

PHONE = 360
HANDLES = sorted(PAGES.keys() - {"mask", "dropout", "gain", "byte_pairs", "sampling"})
PLANE = "attention", "balls", "cost", "heads", "optimizers", "scramble", "simplex"  # both ways
BOUNDED = "heads", "schedule"  # the first handle comes to the end of its way sooner
DENSE = "step", "scramble", "simplex", "layer_norm", "activations", "cost"  # small type
every_figure = pytest.mark.parametrize("name", PAGES)


@every_figure
def test_on_a_phone_nothing_scrolls_sideways(explore, name):
    figure = explore(name, PHONE)
    assert figure.root.evaluate(OUTSIDE) == []
    assert figure.tab.evaluate("document.documentElement.scrollWidth") <= PHONE


# The parts that stand outside a figure in which all that can be ticked is ticked.
OUTSIDE = """(root) => {
    root.querySelectorAll("input:enabled:not(:checked)[type=checkbox]").forEach((it) => it.click());
    const {left, right} = root.getBoundingClientRect();
    return [...root.querySelectorAll("table, svg, .controls > *")].filter((part) => {
        const box = part.getBoundingClientRect();
        return part.checkVisibility() && (box.left < left || box.right > right + 0.5);
    }).map((part) => part.outerHTML.slice(0, 160));
}"""


@pytest.mark.parametrize("name", DENSE)
@pytest.mark.parametrize("width", [PHONE, 740])
def test_on_a_phone_every_word_can_be_read(explore, name, width):
    """In a page that was loaded on it, and in one that was there before the phone was turned."""
    figure = explore(name, width)
    turn(figure)
    texts = figure.root.locator("svg text").evaluate_all(
        """all => all.filter((text) => text.textContent.trim()).map((text) => {
            const box = text.getBoundingClientRect();
            return [box.left, box.right, box.height, text.textContent];
        })"""
    )
    assert [text for text in texts if text[0] < 0 or text[1] > PHONE] == []
    assert min(height for _, _, height, _ in texts) > 11


def test_what_a_reader_has_moved_stays_when_the_phone_is_turned(explore):
    figure = explore("step", 740)
    figure.root.locator(".handle").first.press("ArrowLeft")
    figure.root.locator(".handle").first.blur()
    moved = figure.everything()
    turn(figure)
    assert figure.everything() == moved


def turn(figure):
    figure.tab.set_viewport_size({"width": PHONE, "height": 740})
    figure.tab.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))"
    )


@pytest.mark.parametrize("name", DENSE)
def test_what_moves_is_reached_by_keyboard_and_has_a_name(explore, name):
    figure = explore(name)
    assert figure.said()
    parts = figure.root.locator(".handle, input, select, button").evaluate_all(
        """all => all.map((part) => [part.tabIndex, part.getAttribute("aria-label")
            || part.labels?.[0]?.textContent || part.textContent])"""
    )
    assert len(parts) >= 4
    assert [part for part in parts if part[0] or not part[1].strip()] == []


@pytest.mark.parametrize("name", HANDLES)
def test_a_finger_drags_a_handle_and_not_the_page(explore, name):
    phone = {"has_touch": True, "is_mobile": True, "reduced_motion": "reduce"}  # at rest
    figure = explore(name, PHONE, whole_page=True, **phone)
    tab, handle = figure.tab, figure.root.locator(".handle").first
    tab.evaluate(
        """() => { window.seen = [];
        for (const type of ["pointermove", "pointercancel"])
            addEventListener(type, (event) => seen.push(event.type), true); }"""
    )
    handle.evaluate("handle => handle.scrollIntoView({ block: 'center' })")
    tab.wait_for_timeout(200)
    box, drawing = handle.bounding_box(), handle.evaluate_handle("h => h.ownerSVGElement")
    middle = drawing.as_element().bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    to_the_right = 1 if x < middle["x"] + middle["width"] / 2 else -1
    down = 1 if y < middle["y"] + middle["height"] / 2 else -1
    before = handle.get_attribute("cx"), handle.get_attribute("cy"), tab.evaluate("scrollY")
    touch = tab.context.new_cdp_session(tab)

    def send(kind, points):
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    beside = 14.8  # 21 pixels from its middle
    for i in range(16):
        far = beside + 4 * i
        at = {"x": x + far * to_the_right, "y": y + far * down}
        send("touchMove" if i else "touchStart", [at])
    send("touchEnd", [])
    assert tab.evaluate("scrollY") == before[2]
    assert "pointercancel" not in tab.evaluate("seen") and len(tab.evaluate("seen")) > 8
    assert (handle.get_attribute("cx"), handle.get_attribute("cy")) != before[:2]
    after = handle.bounding_box()
    assert max(abs(after[axis] - box[axis]) for axis in "xy") > (15 if name in BOUNDED else 50)


@pytest.mark.parametrize("name", sorted(PAGES.keys() - {*DENSE}))
def test_every_control_takes_the_keyboard_and_says_what_it_did(explore, name):
    figure, moved = explore(name), 0
    keys = {"select": "ArrowDown", "button": "Enter", "input[type=checkbox]": "Space"}
    keys |= {"input[type=range]": "ArrowLeft", ".handle": "ArrowLeft"}
    for selector, key in keys.items():
        for control in figure.root.locator(selector).all():
            figure.root.locator(".said").evaluate("said => { said.textContent = '' }")
            control.press(key)
            assert figure.said(), f"{selector} {control.inner_text()}"
            moved += 1
    assert moved >= 3


@every_figure
def test_reset_takes_every_move_back(explore, name):
    """What to do comes first, what is pressed is 24 pixels wide, handles take long steps."""
    figure = explore(name)
    root, fresh = figure.root, figure.everything()
    assert "caption" in root.locator(":scope > *").first.get_attribute("class")
    assert root.evaluate(SMALL) == []
    handles = root.locator("circle[role=slider]").all()
    for handle in handles[-2:]:
        places = []
        for key in ("Home", "PageUp", "Shift+ArrowUp", "End", "PageDown"):
            handle.press(key)
            place, least, most = handle.evaluate(PLACE)
            assert least <= place <= most
            places.append(place)
        assert places[0] < places[1] <= places[3] > places[4]
    upright = root.locator("circle[role=slider][aria-label$='up and down']").count()
    assert bool(upright) == (name in PLANE)
    for control in root.locator("input[type=range], input[type=checkbox], table button").all():
        control.press("Space" if control.get_attribute("type") != "range" else "ArrowLeft")
    assert figure.everything() != fresh
    figure.click("Reset")
    assert figure.everything() == fresh
    assert figure.tab.evaluate("document.activeElement.textContent") == "Reset"


PLACE = "s => ['now', 'min', 'max'].map((what) => Number(s.getAttribute(`aria-value${what}`)))"
SMALL = """(root) =>
    [...root.querySelectorAll("button, input, select, circle.halo:not([role])")].filter((part) => {
        const {width, height} = part.getBoundingClientRect();
        return part.checkVisibility() && Math.min(width, height) < 23.9;
    }).map((part) => part.outerHTML.slice(0, 80))"""


def test_what_is_said_is_read_out_after_the_last_move(explore):
    figure = explore("step")
    told = figure.tab.evaluate(
        """async () => {
            const figure = document.querySelector("#explorable-step"), told = [];
            const wait = (time) => new Promise((done) => setTimeout(done, time));
            const [slider] = figure.querySelectorAll("input[type=range]");
            await wait(400);
            new MutationObserver(() => told.push(status.textContent))
                .observe(figure.querySelector("[role=status]"), { childList: true });
            for (let move = 0; move < 20; move += 1) {
                slider.stepDown();
                slider.dispatchEvent(new Event("input"));
                await wait(20);
            }
            const early = told.length;
            await wait(400);
            return [early, told.length];
        }"""
    )
    assert told == [0, 1]
    assert figure.root.locator("[role=status]").text_content() == figure.said()


def test_every_script_is_small():
    static = ROOT / "book/_static"
    scripts = [*static.glob("*.js"), *static.glob("explorables/*.js")]
    names = {str(script.relative_to(static)) for script in scripts}
    assert {"core.js", "models.js", "explorables/museum.js"} <= names
    for script in scripts:
        assert script.stat().st_size < 30_000, script

"""What the explorables of the later chapters show after given moves, against the package."""

import math

import numpy as np
import pytest
from helpers.explorable import close

from studies.bet import Generator
from transformer_core import ops
from transformer_core.layers import LayerSpec
from transformer_core.models import Encoder, Sampling
from transformer_core.models.speculative import accept_or_resample, residual
from transformer_core.ops import round_to
from transformer_core.ops.dropout import DropoutCache
from transformer_core.ops.rounding import FORMATS
from transformer_core.optim import SGD, Adam, AdamW
from transformer_core.tasks.gpt.byte_pairs import TIES, train_byte_pairs
from transformer_core.tasks.gpt.pretokens import pretokens
from transformer_practice.exercises.plateau import neighbour_loss, neighbour_loss_backward


def test_positions__turn_the_hands_by_the_offset_alone(figure):
    table = ops.sinusoidal_positions(64, 16)
    frequencies = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    figure.slide(t=11, k=6)
    first = figure.shown("inner")
    close(first, table[11] @ table[17])
    figure.press("position t", "ArrowRight", "ArrowRight", "ArrowRight")
    figure.press("position t + k", "ArrowLeft", "ArrowRight")
    assert figure.said().startswith("Positions 14 and 20")
    close(figure.grid("turn", 8), 6 * frequencies)
    close(figure.shown("inner"), table[14] @ table[20])
    close(figure.shown("cosines"), first)
    assert figure.shown("gap") < 1e-14


def test_positions__mark_the_clock_that_tells_two_apart_while_time_runs(figure):
    frequencies = 10000.0 ** (-np.arange(0, 16, 2) / 16)
    chosen = []
    for k in (1, 3, 9, 23):
        figure.slide(k=k)
        terms = np.cos(k * frequencies)
        close(figure.grid("term", 8), terms)
        chosen.append(int(terms.argmin()) + 1)
        assert f"Clock {chosen[-1]} tells them apart best" in figure.said()
        marked = figure.root.locator("circle[stroke='var(--purple)']")
        assert marked.count() == 1
    assert len(set(chosen)) > 1
    figure.click("Let time run")
    time = figure.root.locator("input[name=t]")
    figure.tab.wait_for_function("time => Number(time.value) > 3", arg=time.element_handle())
    close(figure.grid("term", 8), terms)  # they depend on the offset alone
    figure.press("position t", "ArrowRight")
    stopped = time.input_value()
    figure.tab.wait_for_timeout(500)
    assert time.input_value() == stopped


@pytest.mark.parametrize("layout", ["pairs", "halves"])
def test_rotary__the_score_of_turned_rows_depends_on_the_distance_alone(figure, layout):
    query = np.array([1.2, 0.4, -0.8, 1, 0.6, -1, 0.9, 0.3])
    key = np.array([0.8, -0.5, 1, 0.7, -0.6, -0.9, 0.4, 1.1])
    frequencies, halves = ops.rotary_frequencies(8, 100.0), layout == "halves"

    def score(t, s):
        rows = [
            ops.rotary(row[np.newaxis], np.array([at]), frequencies, halves)[0]
            for row, at in ((query, t), (key, s))
        ]
        return (rows[0] * rows[1]).sum() / math.sqrt(8)

    figure.choose("layout", layout)
    figure.slide(distance=9)
    close(figure.shown("score"), score(12, 3))
    figure.slide(s=40)
    figure.press("distance", "ArrowRight", "ArrowRight", "ArrowLeft")
    assert figure.said().startswith("Query at 50, key at 40: at the distance 10")
    for shown in (figure.shown("score"), figure.shown("moved"), sum(figure.grid("term", 4))):
        close(shown, score(10, 0))


COVERED = """root => [...root.querySelectorAll("svg")].flatMap((svg) => {
    const curves = [...svg.querySelectorAll(":is(path, line)[stroke]:not([stroke-dasharray])")]
        .filter((curve) => /blue|orange|green|purple|cotangent/.test(curve.getAttribute("stroke")))
        .map((curve) => {
            const of = (name) => curve.getAttribute(name);
            const written = of("d") ?? `${of("x1")} ${of("y1")} ${of("x2")} ${of("y2")}`;
            const numbers = written.match(/-?[0-9.]+(e-?[0-9]+)?/g)?.map(Number) ?? [];
            return { numbers, width: Number(of("stroke-width") ?? 1) };
        });
    return curves.flatMap((below, n) => curves.slice(n + 1).filter((above) => {
        const { length } = above.numbers;
        const near = above.numbers.map((v, k) => Math.abs(v - below.numbers[k]) < 1);
        const met = near.filter((_, k) => k % 2 && near[k] && near[k - 1]).length;
        return length === below.numbers.length && met >= Math.max(2, length / 8);
    }).map((above) => [below.width, above.width]));
})"""
MEETING = {  # where curves of a figure coincide
    "step": lambda figure: None,
    "depth": lambda figure: figure.root.locator("button[value=both]").click(),
    "positions": lambda figure: figure.slide(k=0),
    "optimizers": lambda figure: figure.slide(decay=0),
}


@pytest.mark.parametrize("name", MEETING)
def test_a_curve_that_is_covered_by_another_is_wider(explore, name):
    figure = explore(name)
    MEETING[name](figure)
    covered = figure.root.evaluate(COVERED)
    assert covered
    assert [widths for widths in covered if widths[0] < 1.5 * widths[1]] == []


def test_optimizers__mark_a_step_beyond_the_chart(figure):
    marks = figure.root.locator("svg text").filter(has_text="▲")
    assert marks.count() == 0
    figure.slide(rate=-1)
    assert [mark[:6] for mark in marks.all_text_contents()] == ["▲ SGD:"]


def test_attention__starts_with_the_weights_of_the_chapter(figure):
    weights = np.array([[1, 2, 1], [4, 1, 2], [2, 4, 1]])
    close(figure.grid("weight", 3, 3), weights / weights.sum(axis=1)[:, None])
    close(figure.grid("output", 2), [0, 4])
    close(figure.grid("dscore", 3), np.array([12, -4, -8]) / 7)


def test_attention__shows_gradients_when_they_are_asked_for(figure):
    gradients = figure.root.get_by_text("quotient", exact=True)
    arrows = figure.root.locator("path[stroke='var(--cotangent)'][visibility=visible]")
    handle = figure.root.locator("circle.handle[aria-label='cotangent of the output']")
    assert not gradients.is_visible() and arrows.count() == 0 and not handle.is_visible()
    figure.tick("gradients")
    assert gradients.is_visible() and arrows.count() == 9 and handle.is_visible()


@pytest.mark.parametrize(("symbol", "what"), [("q'", "query"), ("K'", "key"), ("V'", "value")])
def test_an_arrow_of_attention_and_its_line_of_the_backward_pass_light_each_other(
    explore, symbol, what
):
    figure = explore("attention", whole_page=True)
    tab, name = figure.tab, f'[class~="sym:{symbol}"]'
    figure.tick("gradients")
    arrow = figure.root.locator(f"path{name}").nth(1)
    lines, note = tab.locator(f"math {name}"), tab.locator(".symbol-note")
    lines.last.hover()
    assert "lit" in arrow.get_attribute("class")
    tab.keyboard.press("Escape")
    assert "lit" not in arrow.get_attribute("class")
    arrow.dispatch_event("pointermove", {"pointerType": "mouse", "bubbles": True})
    assert "lit" in lines.last.get_attribute("class")
    first, second = figure.grid(f"d{what}", 3, 2)[1]
    shown = f"gradient of the {what} of chase: ({first:.2f}, {second:.2f})".replace("-", "−")
    assert note.locator("p").all_inner_texts() == [shown]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_attention__follows_every_handle(figure, causal, scaled):
    figure.tick("causal", causal)
    figure.tick("scaled", scaled)
    figure.press("query of mice", "ArrowUp", "ArrowUp", "ArrowLeft")
    figure.press("key of chase", "ArrowDown", "ArrowLeft")
    figure.press("value of cats", "ArrowDown")
    figure.choose("focus", "2")
    figure.tick("gradients")
    figure.press("cotangent of the output", "ArrowRight", "ArrowUp", "ArrowUp")
    figure.click("One step of descent")
    given = {
        what: np.array([figure.at(f"{what} of {word}") for word in ("cats", "chase", "mice")])
        for what in ("query", "key", "value")
    }
    assert not np.allclose(given["value"], [[1, 5], [-2, 4], [-1, 2]])
    stretch = 1 if scaled else math.sqrt(2)
    output, cache = ops.attention(
        stretch * given["query"],
        given["key"],
        given["value"],
        ops.causal_keep(3) if causal else None,
    )
    doutput = np.zeros((3, 2))
    doutput[2] = figure.at("cotangent of the output")
    assert not np.allclose(doutput[2], [2, 1])
    dquery, dkey, dvalue = ops.attention_backward(doutput, cache)
    close(figure.grid("weight", 3, 3), cache.weights)
    close(figure.grid("output", 2), output[2])
    grads = {"query": stretch * dquery, "key": dkey, "value": dvalue}
    for what, grad in grads.items():
        close(figure.grid(f"d{what}", 3, 2), grad)
        measured = figure.grid(f"measured-{what}", 3, 2)
        np.testing.assert_allclose(measured, grad, atol=1e-8)
        assert np.abs(grad).max() > 0.01


QUERIES = 2 * math.log(2) * np.array([[-1, 0, 0, 1], [2, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
KEYS = np.array([[1.0, 0, 0, 1], [0, 1, 0, 1], [0, 0, 1, 0], [1, 1, 1, 0]])
VALUES = np.array([[1.0, 5], [-2, 4], [-1, 2], [4, 1]])
CAUSAL, PADDING = ops.causal_keep(4), ops.padding_keep(np.array([3]), 4)[0, 0]


@pytest.mark.parametrize(
    ("preset", "keep"),
    [
        ("No mask", np.ones((4, 4), bool)),
        ("Causal", CAUSAL),
        ("Padding", np.broadcast_to(PADDING, (4, 4))),
        ("Both", CAUSAL & PADDING),
        ("An empty row", np.array([[True], [False], [True], [True]]) & np.ones(4, bool)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("after", [False, True])
def test_mask__hides_what_it_shows(figure, preset, keep, after):
    figure.click(preset)
    figure.choose("after", "after" if after else "")
    figure.slide(length=2.5)
    figure.press("mice attends to cats", "ArrowLeft", "Enter")
    keep = keep.copy()
    keep[2, 0] = not keep[2, 0]

    def run(length):
        key = KEYS * np.array([1, 1, length, 1])[:, None]
        output, cache = ops.attention(QUERIES, key, VALUES, None if after else keep)
        weights = cache.weights * keep
        return (weights @ VALUES if after else output), weights

    output, weights = run(2.5)
    moved = np.linalg.norm(output - run(1)[0], axis=1)
    close(figure.grid("weight", 4, 4), weights)
    close(figure.grid("sum", 4), weights.sum(axis=1))
    close(figure.grid("output", 4, 2), output)
    close(figure.grid("moved", 4), moved)
    if preset == "Causal":
        assert (moved[:2] > 0.01).any() == after


def test_mask__the_ink_of_a_sentence_is_the_weights_of_the_word_that_reads_it(figure):
    words = figure.root.locator(".ink button")

    def ink():
        style = "all => all.map((word) => word.style.getPropertyValue('--ink-height'))"
        return np.array([float(height.rstrip("%")) for height in words.evaluate_all(style)]) / 100

    for t, preset in ((1, "Causal"), (0, "No mask"), (3, "Padding")):
        figure.click(preset)
        words.nth(t).click()
        close(ink(), figure.grid("weight", 4, 4)[t])
        assert figure.said().startswith(f"{words.nth(t).inner_text()} reads cats")
    figure.root.get_by_label("mice attends to cats").click()
    close(ink(), figure.grid("weight", 4, 4)[2])
    assert ink()[0] == 0 < ink()[1]


def fresh_encoder(placement, layers, seed):
    """The package's encoder with the weights that the page draws, and input and cotangent."""
    draw = Generator(seed)
    x, dy = draw.normals(1, 8, 32), draw.normals(1, 8, 32)
    spec = LayerSpec(32, 4, 64, placement, dtype="float64")
    encoder = Encoder(spec, layers, np.random.default_rng(0), placement == "pre")

    def weight(inner, columns):
        return (2 * draw.uniforms(inner, columns) - 1) / math.sqrt(inner)

    for layer in encoder.layers:
        attention, feed_forward = layer.attention.branch, layer.feed_forward.branch
        attention.query_key_value.weight[...] = np.concatenate(
            [weight(32, 32) for _ in range(3)], axis=1
        )
        attention.output.weight[...] = weight(32, 32)
        feed_forward.hidden.weight[...] = weight(32, 64)
        feed_forward.output.weight[...] = weight(64, 32)
    return encoder, x, dy


def size(x):
    return float(np.sqrt((x * x).mean()))


def two_ways(block, dy, cache):
    dx, _ = block.backward(dy, cache)
    skip = dy if block.pre else block.norm.backward(dy, cache.norm)[0]
    return skip, dx - skip


def through(block, x, skip, branch):
    """A block whose model has the skip connection or the branch alone."""
    normalised, norm_cache = block.norm.forward(x) if block.pre else (x, None)
    out, cache = block.branch.forward(normalised)
    y = skip * x + branch * out
    if not block.pre:
        y, norm_cache = block.norm.forward(y)

    def backward(dy):
        if not block.pre:
            dy, _ = block.norm.backward(dy, norm_cache)
        dx = branch * block.branch.backward(dy, cache)[0]
        if block.pre:
            dx, _ = block.norm.backward(dx, norm_cache)
        return skip * dy + dx

    return y, backward


def test_depth__begins_where_the_skip_is_missed(figure):
    chosen = figure.root.locator("button[aria-pressed=true]").get_attribute("value")
    gradient = figure.shown("pre-gradient")
    figure.root.locator("button[value=both]").click()
    assert chosen == "skip" and gradient < 1e-3 < figure.shown("pre-gradient")


def test_depth__has_all_five_ways_in_small(figure):
    """On one scale, with as many points as the large one; a press shows it there."""
    read = """paths => paths.map((path) => path.getAttribute("d").split(/[ML]/).slice(1)
        .map((point) => Number(point.trim().split(" ")[1])))"""
    for change in (lambda: None, lambda: figure.click("Other weights")):
        change()
        heights = {}
        for choice in figure.root.locator("button:has(svg)").all():
            choice.click()
            assert choice.get_attribute("aria-pressed") == "true"
            assert choice.inner_text() in figure.said()
            paths = np.array(choice.locator("path").evaluate_all(read))
            large = figure.shown("post-gradient", "pre-gradient")
            assert paths.shape == (2, 49)
            for path, gradient in zip(paths, large, strict=True):
                heights[np.log10(gradient)] = path[0]
        gradients, places = np.array(list(heights)), np.array(list(heights.values()))
        assert len(places) == 10 and places.max() > 40
        slope, start = np.polyfit(gradients, places, 1)
        assert slope < 0
        np.testing.assert_allclose(start + slope * gradients, places, atol=0.1)


@pytest.mark.parametrize("ways", ["both", "skip", "branch", "noSkip", "noBranch"])
@pytest.mark.parametrize("placement", ["post", "pre"])
def test_depth__runs_the_packages_layers(figure, placement, ways):
    figure.slide(layers=5)
    figure.press("layers (Post-LN)", "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowRight")
    figure.root.locator(f"button[value={ways}]").click()
    figure.click("Other weights")
    encoder, stream, grad = fresh_encoder(placement, 7, 2)
    blocks = [b for layer in encoder.layers for b in (layer.attention, layer.feed_forward)]
    backwards = []
    for block in blocks:
        if ways in ("noSkip", "noBranch"):
            stream, back = through(block, stream, ways != "noSkip", ways != "noBranch")
        else:
            stream, cache = block.forward(stream)
            pick = {"both": sum, "skip": lambda w: w[1], "branch": lambda w: w[0]}[ways]

            def back(dy, block=block, cache=cache, pick=pick):
                return pick(two_ways(block, dy, cache))

        backwards.append(back)
    if encoder.final_norm:
        _, cache = encoder.final_norm.forward(stream)
        grad, _ = encoder.final_norm.backward(grad, cache)
    for back in reversed(backwards):
        grad = back(grad)
    np.testing.assert_allclose(
        figure.shown(f"{placement}-stream", f"{placement}-gradient"),
        [size(stream), size(grad)],
        rtol=1e-12,
    )


@pytest.mark.parametrize("skip", [False, True])
def test_gain__runs_the_packages_layers(figure, skip):
    figure.slide(gain=0.5)
    figure.tick("skip", skip)
    figure.click("Other weights")
    random = Generator(2)
    stream, grad = random.normals(8, 32), random.normals(8, 32)
    caches, root = [], 2**0.25
    for _ in range(24):
        first, second = random.normals(32, 64) / np.sqrt(32), random.normals(64, 32) / np.sqrt(32)
        hidden, one = ops.linear(stream, first, None)
        active, two = ops.relu(hidden)
        y, three = ops.linear(active, second, None)
        caches.append((one, two, three))
        stream = root * y + skip * stream
    for one, two, three in reversed(caches):
        dhidden = ops.relu_backward(ops.linear_backward(root * grad, three)[0], two)
        grad = ops.linear_backward(dhidden, one)[0] + skip * grad
    close(figure.shown("stream"), (stream**2).mean(), 1e-9)
    close(figure.shown("gradient"), (grad**2).mean(), 1e-9)
    close(figure.shown("law"), (np.sqrt(2) + skip) ** 24)


@pytest.mark.parametrize("turned", [False, True])
def test_optimizers__take_the_packages_steps(figure, turned):
    figure.choose("turned", "turned" if turned else "")
    figure.slide(rate=-1.7, adaptive=-0.8, decay=0.25, size=70)
    figure.press("start", "ArrowLeft", "ArrowLeft", "ArrowDown")
    figure.press("step of the outlier", *8 * ["ArrowLeft"])
    start = np.array(figure.at("start"))
    np.testing.assert_allclose(start, [9, 2.5])
    angle = math.pi / 6 if turned else 0
    cosine, sine = math.cos(angle), math.sin(angle)
    turn = np.array([[cosine, -sine], [sine, cosine]])
    curvature = turn @ np.diag([1, 25]) @ turn.T
    kinds = {
        "sgd": lambda p: SGD(p, 10**-1.7),
        "momentum": lambda p: SGD(p, 10**-1.7, 0.9),
        "adam": lambda p: Adam(p, 10**-0.8),
        "adamw": lambda p: AdamW(p, 10**-0.8, weight_decay=0.25),
    }

    def run(make, outlier):
        theta = start.copy()
        optimizer, path, roots = make({"theta": theta}), [start], []
        for step in range(1, 61):
            grad = curvature @ (theta - [2, 1]) + outlier * 70.0 * (step == 22)
            optimizer.step({"theta": grad})
            path.append(theta.copy())
            if "second_moment" in optimizer.averages:
                v = optimizer.averages["second_moment"]["theta"][0]
                roots.append(math.sqrt(v / (1 - 0.999**step)))
        return path, roots

    for name, make in kinds.items():
        path, roots = run(make, True)
        calm, _ = run(make, False)
        expected = [
            np.linalg.norm(path[22] - path[21]),
            np.linalg.norm(path[60] - [2, 1]),
            np.linalg.norm(calm[60] - [2, 1]),
        ]
        shown = figure.shown(f"{name}-at", f"{name}-distance", f"{name}-without")
        close(shown, expected)
        assert abs(expected[1] - expected[2]) > 0.01
        if name == "adam":
            close(
                figure.shown("divisor-before", "divisor-after", "divisor-end"),
                [roots[20], roots[21], roots[59]],
            )
    figure.slide(now=25)
    for name, make in kinds.items():
        expected = [np.linalg.norm(run(make, thrown)[0][25] - [2, 1]) for thrown in (True, False)]
        close(figure.shown(f"{name}-distance", f"{name}-without"), expected)


def test_optimizers__keep_what_few_readers_change_in_a_fold(figure):
    fold = figure.root.locator("details")
    inside = fold.locator("input").evaluate_all("all => all.map((field) => field.name)")
    assert inside == ["decay", "size"]
    fold.locator("summary").click()  # which was opened for the tests
    shown = figure.root.locator("input[type=range]").locator("visible=true")
    names = shown.evaluate_all("all => all.map((field) => field.name)")
    assert names == ["rate", "adaptive", "now"]


def test_optimizers__race_from_the_start_until_the_reader_stops_them(figure):
    now = "() => Number(document.querySelector('#explorable-optimizers input[name=now]').value)"
    figure.click("Race")
    figure.tab.wait_for_function(f"() => 0 < ({now})() && ({now})() < 30")
    figure.press("start", "ArrowRight")
    stopped = figure.tab.evaluate(now)
    assert 0 < stopped < 60 and f"After {stopped} steps" in figure.said()
    figure.tab.wait_for_timeout(300)
    assert figure.tab.evaluate(now) == stopped
    ways = (
        figure.root.locator("svg")
        .first.locator("g path")
        .evaluate_all("all => all.map((way) => way.getAttribute('d').split('L').length)")
    )
    assert ways.count(stopped + 1) == 4


class Coins:
    """Instead of a generator: a mask that is given."""

    def __init__(self, mask):
        self.mask = np.array(mask)

    def random(self, shape, dtype):
        return np.where(self.mask, 1, -1).astype(dtype).reshape(shape)


CATS, CATS_COTANGENT = np.array([4.0, 2, 2, -4]), np.array([1.0, 2, -1, 1])


@pytest.mark.parametrize("inverted", [False, True])
def test_dropout__passes_the_gradient_where_the_mask_passes(figure, inverted):
    figure.slide(p=0.3)
    figure.tick("inverted", inverted)
    for entry in (0, 1):
        figure.root.get_by_label(f"entry {entry}", exact=True).press("Enter")
    mask = [False, True, True, True]
    scale = 1 if inverted else 0.7
    y, cache = ops.dropout(CATS, 0.3, Coins(mask))
    close(figure.grid("y", 4), scale * y)
    close(figure.grid("dx", 4), scale * ops.dropout_backward(CATS_COTANGENT, cache))


def test_dropout__the_means_over_the_masks_approach_the_input(figure):
    draw = Generator(290)
    draw.uniforms(99 * 8 + 4)  # what the first picture has drawn: masks for both passes
    figure.slide(p=0.25)
    for _ in range(3):
        figure.click("Draw 100")
    figure.click("Draw a mask")
    throws = draw.uniforms(301, 2, 4) >= 0.25
    outputs = [ops.dropout(CATS, 0.25, Coins(mask))[0] for mask in throws[:, 0]]
    mean, variance = np.mean(outputs, axis=0), np.var(outputs, axis=0)
    assert figure.shown("count") == 301
    close(figure.grid("mean", 4), mean)
    np.testing.assert_allclose(figure.grid("variance", 4), variance, rtol=1e-11)
    close(figure.grid("expected", 4), CATS)
    close(figure.grid("spread", 4), CATS**2 / 3)
    assert np.abs(mean - CATS).max() < 0.5
    assert figure.root.locator("svg").count() == 2
    figure.tick("fresh", True)
    fresh = draw.uniforms(4) >= 0.25
    dx = ops.dropout_backward(CATS_COTANGENT, DropoutCache(fresh, 0.25))
    close(figure.grid("dx", 4), dx)


@pytest.mark.parametrize("inverted", [False, True])
def test_a_thousand_masks_are_a_cloud_that_narrows_as_the_theorem_says(explore, inverted):
    figure = explore("dropout", reduced_motion="reduce")
    draw = Generator(290)
    draw.uniforms(99 * 8 + 4)
    figure.slide(p=0.4)
    figure.tick("inverted", inverted)
    figure.click("Watch 1000")
    masks = draw.uniforms(1000, 2, 4)[:, 0] >= 0.4
    scale = 1 if inverted else 0.6
    outputs = scale * np.array([ops.dropout(CATS, 0.4, Coins(mask))[0] for mask in masks])
    mean = outputs.mean(axis=0)
    deviation = scale * math.sqrt(0.4 / 0.6) * np.abs(CATS)
    assert figure.shown("count") == 1000
    close(figure.grid("mean", 4), mean, 1e-11)
    off = (mean - scale * CATS) / (deviation / math.sqrt(1000))
    close(figure.grid("off", 4), off, 1e-8)
    assert np.abs(off).max() < 4
    cloud = figure.root.locator("path[stroke='var(--orange)']").first.get_attribute("d")
    dots = np.array([part.split()[:2] for part in cloud.split("M")[1:]], float)
    means = outputs[:, 0].cumsum()[9::10] / np.arange(10, 1001, 10)
    close(dots[:, 1], 122 - np.clip(10 * means, -92, 92), 1e-9)


def test_balls__the_steepest_directions_attain_the_dual_norms(figure):
    close(figure.shown("euclidean", "max", "sum"), [math.hypot(2, 0.8), 2.8, 2])
    figure.slide(angle=120)
    g = math.hypot(2, 0.8) * np.array([math.cos(math.radians(120)), math.sin(math.radians(120))])
    norms = [np.linalg.norm(g, order) for order in (2, 1, np.inf)]
    close(figure.shown("euclidean", "max", "sum"), norms)
    assert figure.said().endswith("max (−1.00, 1.00), sum (0.00, 1.00).")


def test_ring__gives_every_rank_every_sum_and_is_fastest_when_evenly_cut(figure):
    counts = figure.root.locator("svg rect + text")
    ranks, summed = 4, np.eye(4, dtype=bool)[:, np.newaxis].repeat(4, axis=1)
    for step in range(2 * (ranks - 1) + 1):
        figure.slide(after=step)
        shown = np.reshape([int(text) for text in counts.all_text_contents()[:16]], (4, 4))
        assert (shown == summed.sum(axis=-1)).all()
        before = summed.copy()
        for rank in range(ranks):  # equation eq:ring, what is complete stays complete
            to, piece = (rank + 1) % ranks, (rank - step) % ranks
            summed[to, piece] |= before[rank, piece]
    assert (shown == ranks).all()
    close(figure.shown("sent", "time"), [2 * 3 / 4 * 24, 2 * 3 * 6])
    figure.press("cut 2", "ArrowRight", "ArrowRight")
    close(figure.shown("sent", "time"), [24 + 8 + 6, 2 * 3 * 8])


def test_schedule__a_drawn_schedule_gives_the_expected_loss_of_the_chapter(figure):
    figure.choose("from", "linear")
    close(*figure.shown("end", "linear"))
    figure.press("rate at step 0", "End")
    figure.press("rate at step 300", "Home")
    rates = [
        2 * (140 - float(figure.root.get_by_label(f"rate at step {t}").get_attribute("cy"))) / 124
        for t in range(0, 301, 50)
    ]
    assert (rates[0], rates[-1]) == (2, 0)
    a = np.array([1, 0.3, 0.1, 0.03])
    mean, variance = 1 / np.sqrt(a), np.zeros(4)
    for rate in np.interp(np.arange(300) + 0.5, np.arange(0, 301, 50), rates):
        mean = (1 - rate * a) * mean
        variance = (1 - rate * a) ** 2 * variance + rate**2 * 0.02
    close(figure.shown("end"), (a / 2 * (mean**2 + variance)).sum(), rtol=1e-9)


@pytest.mark.parametrize(
    "place, zoom",
    [(1.125, 0), (1.5625, 3), (1.00390625, 0), (0.75, -10), (1.9921875, 8), (1.8125, 8), (0, -3)],
)
def test_few_bits__have_the_neighbours_of_the_package(figure, place, zoom):
    figure.slide(place=place, zoom=zoom)
    x = np.array([place * 2.0**zoom])
    for name in FORMATS:
        names = (f"{what}-{name}" for what in ("below", "above", "error"))
        below, above, error = figure.shown(*names)
        assert below <= x <= above or np.isnan(above)
        y = round_to(x, name)
        assert np.array_equal(round_to(np.array([below]), name), [below])
        assert y in (below, above) or np.isnan(y) and np.isnan(above)
        if below < above < np.inf:  # nothing of the format lies between them
            inside = round_to(np.linspace(below, above, 9), name)
            assert set(inside.tolist()) == {below, above}
        if np.isfinite(y):
            close(error * x, y - x)


@pytest.mark.parametrize("kind", ["descent", "adam"])
@pytest.mark.parametrize("start", [0, 2.5])
def test_plateau__a_head_that_is_held_on_its_neighbour_leaves_the_plateau(figure, kind, start):
    figure.choose("kind", kind)
    figure.choose("T", "16")
    figure.slide(start=start)
    figure.press("the mask begins", *3 * ["ArrowRight"])
    figure.press("the mask ends", *2 * ["ArrowLeft"])
    parameters = {"u": np.array([float(start)]), "w": np.zeros(1)}
    optimizer = SGD(parameters, 0.1) if kind == "descent" else Adam(parameters, 0.01)
    losses = []
    for step in range(601):
        u, w = (x.item() for x in parameters.values())
        all_of_the_weight = 40.0
        loss, cache = neighbour_loss(all_of_the_weight if 80 <= step < 130 else u, w, 16)
        losses.append(loss)
        du, dw = neighbour_loss_backward(1.0, cache)
        optimizer.step({"u": np.array([du]), "w": np.array([dw])})
    half = next(n for n in range(601) if max(losses[n:]) < 0.5)
    close(figure.shown("half", "end"), [half, losses[600]], rtol=1e-9)
    assert losses[129] < losses[80]
    figure.click("Hold the head")
    assert figure.shown("weight") == 1 and figure.shown("end") < losses[600]


def test_heads__reach_what_one_does_not(figure):
    values = np.array([[[1, 5], [-2, 4], [-1, 2]], [[4, -2], [2, 0], [0, 6.0]]])
    close(figure.grid("weight", 2, 3), [[4 / 7, 1 / 7, 2 / 7], [1 / 4, 1 / 2, 1 / 4]])
    close(figure.shown("y-0", "y-1"), [2, 5])  # as in the chapter
    figure.press("output of head 1", *4 * ["ArrowLeft"])
    figure.press("target", "ArrowRight", "ArrowUp")
    target = np.array(figure.at("target"))
    close(target, [2.2, 8.2])
    scores = np.log(figure.grid("weight", 2, 3))

    def forward(scores):
        weights, cache = ops.softmax(scores)
        y = np.einsum("hs,hsk->k", weights, values)
        return y, ops.softmax_backward(values @ (y - target), cache)

    for _ in range(2):
        y, dscores = forward(scores)
        close(figure.shown("y-0", "y-1"), y)
        close(figure.grid("dscore", 2, 3), dscores)
        close(figure.shown("loss"), ((y - target) ** 2).sum() / 2)
        figure.click("One step")
        scores -= 0.1 * dscores
    figure.click("Descend 100 steps")
    figure.root.locator(".said", has_text="Step 100.").wait_for()
    assert figure.shown("loss") < 0.1
    figure.tick("both", False)
    figure.click("Descend 100 steps")
    figure.root.locator(".said", has_text="Step 100.").wait_for()
    assert figure.shown("loss") > 3
    assert "One head" in figure.said() and (figure.grid("dscore", 2, 3)[1] == 0).all()


@pytest.mark.parametrize("text", ["sure", "doubt"])
@pytest.mark.parametrize(
    "settings",
    [(1, 12, 0.9, 0), (0, 5, 0.7, 0.1), (2, 2, 1, 0), (0.6, 9, 0.83, 0.05), (3, 7, 0.95, 0.3)],
)
def test_sampling__changes_the_distribution_as_in_the_package(figure, text, settings):
    figure.choose("text", text)
    names = ("temperature", "top_k", "top_p", "min_p")
    figure.slide(**dict(zip(names, settings, strict=True)))
    weights = {
        "sure": [61, 8, 8, 4, 2, 2, 1, 1, 1, 1, 1, 1],
        "doubt": [13, 11, 11, 10, 9, 8, 7, 6, 5, 4, 2, 1],
    }
    logits = np.log([weights[text]])
    p = None
    for n, stage in enumerate(("model", *names)):  # each works on what is left
        sampling = Sampling(**dict(zip(names[:n], settings[:n], strict=True)))
        q = sampling.distribution(logits, np.zeros((1, 12), bool))[0]
        p = q if n < 2 else p
        mass, left = p[q > 0].sum(), q[q > 0]
        shown = figure.shown(f"kept-{stage}", f"entropy-{stage}")
        close(shown, [len(left), -(left * np.log(left)).sum()])
        if n:
            close(figure.shown(f"mass-{stage}"), mass)
    close(figure.grid("q", 12), q)
    close(figure.shown("distance", "cut"), 1 - mass)
    close(figure.shown("divergence", "minus-log"), -np.log(mass))
    shown = figure.root.locator("svg text[name]").all_text_contents()
    assert [text.replace(".", "").isdigit() for text in shown] == list(q > 0)


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(
    "text",
    ["caf\u00e9s chased cats, they'll chase cheese; aaaa!", "dcba abcd bdac dbca \u732b\u732b"],
)
def test_byte_pairs__are_merged_as_by_the_package(figure, text, ties):
    figure.root.locator("textarea").fill(text)
    figure.choose("ties", ties)
    for blanks in (True, False):
        figure.tick("blanks", blanks)
        for label in ("20 merges", "Back", "Back", "Merge"):
            figure.click(label)
        merges = int(figure.shown("merges"))
        pieces = pretokens(text) if blanks else [p.strip() for p in pretokens(text) if p.strip()]
        table = train_byte_pairs(pieces, 256 + merges, special=(), ties=ties)
        pairs = figure.root.locator("[data-merges]").get_attribute("data-merges")
        assert pairs == ",".join(f"{one} {other}" for one, other in table.merges)
        tokens = sum(len(table.encode(piece)) for piece in pieces)
        assert figure.shown("tokens") == tokens
        close(figure.shown("size"), len("".join(pieces).encode()) / tokens)


def test_byte_pairs__the_tie_of_the_page_is_marked(figure):
    assert figure.shown("count") == 7 and figure.shown("tied") == 2
    for _ in range(4):
        figure.click("Merge")
    assert figure.said().startswith("15 tokens after 4 merges")


@pytest.mark.parametrize("start", ["page", "uniform", "same", "greedy"])
def test_speculative__a_draft_is_judged_as_by_the_package(figure, start):
    figure.choose("drafter", start)
    for moves in (
        [],
        [("p of birds", "PageUp", "ArrowUp")],
        [("q of mice", "Home"), ("p of mice", "End")],
    ):
        for name, *keys in moves:
            figure.press(name, *keys)
        p, q = (figure.grid(name, 4) for name in "pq")
        close([p.sum(), q.sum()], [1, 1])
        tokens = np.arange(4)
        written = accept_or_resample(np.tile(p, (4, 1)), np.tile(q + 1e-300, (4, 1)), tokens)
        close(figure.grid("residual", 4), residual(p, q))
        close(figure.grid("kept", 4), np.minimum(p, q))
        drafted = q > 0
        shown = figure.grid("accept", 4)
        close(shown[drafted], np.minimum(1, p[drafted] / q[drafted]))
        close(figure.grid("written", 4), q @ written)
        close(figure.grid("written", 4), p)
        close(figure.shown("alpha", "distance"), [np.minimum(p, q).sum(), np.abs(p - q).sum() / 2])

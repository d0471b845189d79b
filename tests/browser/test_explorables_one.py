"""Six explorables: the numbers that they show after given moves are the package's."""

import re
from math import gcd

import numpy as np
import pytest
from helpers.explorable import close
from numpy.testing import assert_allclose

from benchmarks.counting import masked_tokens, products
from transformer_core.gradient_check import central_difference, complex_step
from transformer_core.layers import AttentionSpec, FeedForward, LayerSpec
from transformer_core.models import Bert, EncoderDecoder, StackSpec
from transformer_core.ops import (
    cross_entropy,
    gelu,
    gelu_backward,
    gelu_tanh,
    gelu_tanh_backward,
    layer_norm,
    layer_norm_backward,
    linear,
    linear_backward,
    mean_squared_error,
    mean_squared_error_backward,
    padding_keep,
    relu,
    relu_backward,
    softmax,
    softmax_backward,
)
from transformer_core.tasks.reconstruction.model import Reconstructor
from transformer_practice.exercises.cost import count_bert_parameters, count_bytes, count_operations


def test_layer_norm(figure):
    figure.press("x0", *3 * ["ArrowUp"])
    figure.press("x2", *12 * ["ArrowDown"])
    figure.press("gamma2", *5 * ["ArrowDown"])
    figure.press("dy3", *7 * ["ArrowUp"])
    figure.slide(eps=-1)
    figure.tick("outside")
    x, gamma, dy = np.array([4.3, 2, 0.8, -4]), np.array([2, 1, 2.5, 1]), [3, 3, 1, 0.7]
    for key, values in (("x", x), ("gamma", gamma), ("dy", dy)):
        close(figure.row(key, 4), values)

    def gradient(gamma):
        _, cache = layer_norm(x, gamma, np.zeros(4), 0.1)
        return layer_norm_backward(np.array(dy), cache)[0], cache

    dx, cache = gradient(gamma)
    outside = gamma * gradient(np.ones(4))[0]
    g = dy * gamma
    terms = {
        "scale": g,
        "mean": -g.mean() * np.ones(4),
        "variance": -cache.x_hat * (g * cache.x_hat).mean(),
    }
    for name, term in terms.items():
        shown = figure.row(name, 4)
        close(shown, term * cache.inv_std)
    close(figure.row("dx", 4), dx)
    close(figure.row("outside", 4), outside)
    close(figure.shown("sum", "along"), [outside.sum(), outside @ cache.x_hat])
    assert figure.shown("error") < 1e-8
    assert "wrong by" in figure.said()

    figure.click("All γ equal")
    same = figure.row("dx", 4)
    close(figure.row("outside", 4), same)
    close(same, gradient(np.full(4, 2.0))[0])
    assert "does not show" in figure.said()


def test_layer_norm__grows_term_by_term(figure):
    """The mean term makes the gradient sum to 0, the variance term makes it orthogonal to x̂."""
    scale, mean, variance = (figure.row(name, 4) for name in ("scale", "mean", "variance"))
    for terms, partial in {"1": scale, "2": scale + mean, "3": scale + mean + variance}.items():
        figure.root.locator(f"input[name=terms][value='{terms}']").check()
        close(figure.row("dx", 4), partial)
        assert (abs(figure.shown("sum")) < 1e-12) == (terms > "1")
        assert (abs(figure.shown("along")) < 1e-12) == (terms == "3")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_layer_norm__bars_grow_from_where_they_were(explore, motion):
    figure = explore("layer_norm", reduced_motion=motion)
    figure.root.get_by_label("scale alone").check()
    figure.root.get_by_label("scale alone").press("ArrowRight")  # to the mean term
    moves = figure.root.locator("rect[data-name]").evaluate_all(
        """bars => bars.map((bar) => [bar.dataset.name,
            ...(bar.getAnimations()[0]?.effect.getKeyframes() ?? []).map(({height}) => height)])"""
    )
    assert [name[:-1] for name, *_ in moves] == 4 * ["scale", "mean"]
    for name, *heights in moves:
        assert len(heights) == (0 if motion == "reduce" else 2)
        if heights and name != "scale3":  # which is 0
            assert (heights[0] == "0px") == name.startswith("mean")
            assert heights[1] != "0px"


def test_layer_norm__of_equal_numbers_is_a_division_by_zero(figure):
    figure.press("x0", *20 * ["ArrowDown"])
    figure.press("x3", *60 * ["ArrowUp"])
    assert "divided by 0" in figure.said()
    figure.slide(eps=-5)
    _, cache = layer_norm(np.full(4, 2.0), np.array([2.0, 1, 3, 1]), np.zeros(4), 1e-5)
    dx, _, _ = layer_norm_backward(np.array([3.0, 3, 1, 0]), cache)
    close(figure.row("dx", 4), dx)


def test_simplex(figure):
    x, dweights = np.array([0.5, -1.25, 1.75]), np.array([3.0, -2, 5])
    figure.slide(**{f"x{i}": v for i, v in enumerate(x)})
    figure.slide(**{f"dweights{i}": int(v) for i, v in enumerate(dweights)})
    weights, cache = softmax(x)
    close(figure.row("weight", 3), weights)
    close(figure.row("dx", 3), softmax_backward(dweights, cache))
    places = [f"{i}{j}" for i in range(3) for j in range(3)]
    jacobian = np.array([softmax_backward(row, cache) for row in np.eye(3)])
    close(figure.shown(*(f"jacobian{at}" for at in places)), jacobian.ravel())
    measured = figure.shown(*(f"measured{at}" for at in places))
    assert_allclose(measured, jacobian.ravel(), atol=1e-9)
    assert abs(figure.shown("sum")) < 1e-14
    figure.tick("uncoupled")
    close(figure.row("dx", 3), dweights * weights)
    close(figure.row("row", 3), weights)
    close(figure.shown("sum"), dweights @ weights)
    assert "out of the triangle" in figure.said()


def test_simplex__opens_an_entry_into_its_formula(figure):
    weights = softmax(np.array([2 * np.log(2), 0, np.log(2)]))[0]
    figure.root.get_by_label("entry of row 2 and column 0").hover()
    formula = figure.root.locator(".formula")
    assert formula.inner_text().startswith("J₂₀ = a₂ (δ₂₀ − a₀) = 2/7 (0 − 4/7) = −8/49")
    close(figure.shown("entry"), -weights[2] * weights[0])
    assert abs(figure.shown("quotient") - figure.shown("entry")) < 1e-9
    figure.press("entry of row 0 and column 0", "ArrowDown")
    figure.tab.keyboard.press("ArrowRight")
    close(figure.shown("entry"), weights[1] * (1 - weights[1]))
    figure.tick("uncoupled")
    assert "a₁ δ₁₁ = 1/7 · 1 = 1/7" in formula.inner_text()


def test_simplex__weights_and_scores_move_together(figure):
    figure.press("point", *9 * ["ArrowRight"])
    figure.press("point", *4 * ["ArrowUp"])
    outputs = figure.root.locator('label:has(input[name^="x"]) output')
    scores = [float(o.get_attribute("data-value")) for o in outputs.all()]
    weights = figure.row("weight", 3)
    close(weights, softmax(np.array(scores))[0])
    close(sum(scores), 3 * np.log(2))  # the level of the scores is kept
    assert weights[1] > 0.2 and weights[2] > 2 / 7


def test_scramble(figure):
    for B, T, D in [(2, 3, 4), (3, 2, 5), (4, 3, 6), (1, 3, 5)]:
        figure.slide(B=B, T=T, D=D)
        x = (7.0 * np.arange(B * T * D) + 3) % 11 - 5
        dy = (5.0 * np.arange(B * T * 2) + 3) % 7 - 3
        x, dy = x.reshape(B, T, D), dy.reshape(B, T, 2)
        _, right, _ = linear_backward(dy, linear(x, np.zeros((D, 2)), None)[1])
        wrong = x.transpose(0, 2, 1).reshape(D, -1) @ dy.reshape(-1, 2)
        places = [f"{i}{j}" for i in range(D) for j in range(2)]
        for name, values in {"right": right, "wrong": wrong, "difference": wrong - right}.items():
            close(figure.shown(*(f"{name}{at}" for at in places)), values.ravel())
        pairs = D if B == 1 else gcd(B - 1, D - 1) + 1
        assert figure.shown("pairs") == pairs
        assert ("Every pair is right" in figure.said()) == (B == 1)


def test_scramble__follows_a_number_through_memory(figure):
    figure.slide(B=3, T=2, D=5)
    figure.press("ring", *3 * ["ArrowRight"])  # from input 1 of the first position
    figure.press("ring", *2 * ["ArrowDown"])
    memory = np.arange(30).reshape(3, 2, 5).transpose(0, 2, 1).ravel()
    assert figure.shown("address") == np.flatnonzero(memory == (1 * 2 + 1) * 5 + 3)[0]
    assert "row 2, where it meets the cotangent of sequence 2: wrong" in figure.said()
    x = ((7.0 * np.arange(30) + 3) % 11 - 5).reshape(3, 2, 5)
    lines = figure.root.locator(".lines span")
    found = [eval(line, {"x": x}) for line in lines.all_inner_texts()]
    assert found == 4 * [x[1, 1, 3]] and figure.shown("value") == x[1, 1, 3]
    figure.click("Follow it")
    lines.nth(3).and_(figure.root.locator(".lit")).wait_for()
    dot = figure.root.locator("circle:not([class])")
    at = [float(dot.get_attribute(name)) for name in ("cx", "cy")]
    cells = figure.root.locator("rect[stroke='var(--ink)'][stroke-width='2.5']")
    x, y, width = (float(cells.last.get_attribute(name)) for name in ("x", "y", "width"))
    assert_allclose(at, [x + width / 2, y + width / 2])


FUNCTIONS = {
    "cube": (lambda z: z * z * z, 2.0, 12.0),
    "reciprocal": (lambda z: 1 / z, 3.0, -1 / 9),
    "exponential": (np.exp, 1.0, np.e),
    "sine": (np.sin, 1.0, np.cos(1.0)),
}


def test_step(figure):
    for name, (f, x, slope) in FUNCTIONS.items():
        figure.choose("function", name)
        for exponent in (-0.5, -2, -5.25, -9, -13):
            figure.slide(step=exponent)
            h = 10.0**exponent
            forward, central = (f(x + h) - f(x)) / h, (f(x + h) - f(x - h)) / (2 * h)
            imaginary = complex_step(lambda z: f(z[0]), np.array([x]), h)[0]  # noqa: B023
            # The last digit of exp and sin is the library's own.
            atol = 4e-16 / h if name in ("exponential", "sine") else 0
            shown = figure.shown("quotient-forward", "quotient-central")
            assert_allclose(shown, [forward, central], rtol=1e-12, atol=atol)
            # The package divides by the distance of the two numbers as they are rounded.
            package = central_difference(lambda z: f(z[0]), np.array([x]), h)[0]  # noqa: B023
            assert_allclose(shown[1], package, atol=1e-15 * x * abs(slope) / h + atol)
            close(figure.shown("quotient-complex"), imaginary)
            for way in ("forward", "central", "complex"):
                value = figure.shown(f"quotient-{way}")
                close(figure.shown(f"error-{way}"), abs(value - slope) / abs(slope))


def test_step__loses_both_differences_where_it_is_lost(figure):
    figure.slide(step=-17)
    assert list(figure.shown("quotient-forward", "quotient-central")) == [0, 0]
    assert figure.shown("quotient-complex") == 12
    bold = figure.root.locator("td[data-name^=quotient] b").all_inner_texts()
    assert bold[:2] == ["", ""] and bold[2].startswith("12.000")


def test_step__shows_which_digits_a_subtraction_leaves(figure):
    kept = figure.root.locator("[data-name^=value] b")
    for name, (f, x, _) in FUNCTIONS.items():
        figure.choose("function", name)
        lengths = []
        for exponent in (-2, -9, -17):
            figure.slide(step=exponent)
            h = 10.0**exponent
            shown = figure.shown("value-right", "value-middle", "value-left", "value-imaginary")
            expected = [f(x + h), f(x), f(x - h), f(x + 1j * h).imag]
            assert_allclose(shown, expected, rtol=1e-15)
            lengths.append([len(text) for text in kept.all_inner_texts()])
        right = [row[0] for row in lengths]
        assert right[0] in (13, 14, 15) and right[1] in (6, 7, 8) and right[2] == 0
        assert lengths[2][3] > 15  # the complex step subtracts nothing


def test_step__shrinks_by_itself_until_it_is_stopped(figure):
    figure.click("Let h shrink")
    figure.tab.wait_for_function(
        """() => Number(document.querySelector("#explorable-step input[name=step]").value) < -2"""
    )
    figure.press("step", "ArrowRight")
    stopped = figure.root.locator("input[name=step]").input_value()
    figure.tab.wait_for_timeout(300)
    assert figure.root.locator("input[name=step]").input_value() == stopped


def test_step__shows_each_quotient_with_its_numbers(figure):
    figure.slide(step=-5.25)
    set_formulas = figure.root.locator("math[displaystyle]").all_text_contents()
    texts = ["".join(text.split()) for text in set_formulas]
    h = "5.6·10⁻⁶"
    assert texts == [f"f(2+{h})−f(2){h}", f"f(2+{h})−f(2−{h})2·{h}", f"Imf(2+i·{h}){h}"]
    figure.slide(step=-9)
    figure.choose("function", "reciprocal")
    rows = figure.root.locator("tr:has(math[displaystyle]), tr:has([data-name^=quotient])")
    value = figure.shown("quotient-forward")
    assert rows.first.text_content() == "forwardf(3+10⁻⁹)−f(3)10⁻⁹"
    assert rows.nth(1).text_content().startswith(f"= −{abs(value):.16f}")


STEP = "() => Number(document.querySelector('#explorable-step input[name=step]').value)"


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_step__shrinks_once_when_the_reader_comes_to_it(explore, motion):
    figure = explore("step", whole_page=True, reduced_motion=motion)
    tab, drawing = figure.tab, figure.root.locator("svg").first
    tab.wait_for_timeout(300)
    assert tab.evaluate(STEP) == -2
    drawing.evaluate("drawing => drawing.scrollIntoView({ block: 'center' })")
    if motion == "reduce":
        tab.wait_for_timeout(300)
        assert tab.evaluate(STEP) == -2
        return
    tab.wait_for_function(f"() => ({STEP})() < -4")
    figure.slide(step=-3)
    figure.click("Reset")
    tab.mouse.wheel(0, 40)
    tab.wait_for_timeout(300)
    assert tab.evaluate(STEP) == -2


def test_step__in_float32(figure):
    figure.tick("single")
    figure.slide(step=-4.25)
    x, h = np.float32(2), np.float32(10**-4.25)
    up, down = x + h, x - h
    central = (up * up * up - down * down * down) / (h + h)
    assert central.dtype == np.float32
    assert figure.shown("quotient-central") == central
    assert 1e-6 < figure.shown("error-central") < 0.1


def test_activations(figure):
    figure.press("h", *7 * ["ArrowRight"])
    at = np.array([-0.3])
    for name, forward, backward in (
        ("relu", relu, relu_backward),
        ("gelu", gelu, gelu_backward),
        ("geluTanh", gelu_tanh, gelu_tanh_backward),
    ):
        y, cache = forward(at)
        shown = figure.shown(f"value-{name}", f"slope-{name}")
        close(shown, [y[0], backward(np.ones(1), cache)[0]])


START = """() => {
    const {normals} = core.generator(387);
    return [normals([6, 2]), normals([6, 2]), normals([2, 6]), normals([6], 0.5),
        normals([6, 2], 0.6), normals([2], 0.1)].map(core.nested);
}"""


def test_activations__of_two_layers(figure):
    x, target, *arrays = map(np.array, figure.tab.evaluate(START))
    figure.press("bias-relu4", *30 * ["ArrowDown"])
    figure.press("bias-gelu1", *5 * ["ArrowUp"])
    layers = {}
    for kind in ("relu", "gelu"):
        layer = FeedForward(2, 6, np.random.default_rng(0), "float64", activation=kind)
        names = ("hidden.weight", "hidden.bias", "output.weight", "output.bias")
        for name, array in zip(names, arrays, strict=True):
            layer.parameters()[name][...] = array
        layers[kind] = layer
    for kind, unit in (("relu", 4), ("gelu", 1)):
        bias = figure.shown(f"bias-{kind}{unit}")
        layers[kind].parameters()["hidden.bias"][unit] = bias
        assert abs(10 * bias - round(10 * bias)) < 1e-9

    def compare(rtol=1e-12):
        for kind, layer in layers.items():
            y, cache = layer.forward(x)
            loss, loss_cache = mean_squared_error(y, target)
            dy = mean_squared_error_backward(1, loss_cache)
            _, grads = layer.backward(dy, cache)
            sizes = np.hypot(np.linalg.norm(grads["hidden.weight"], axis=0), grads["hidden.bias"])
            close(figure.row(f"gradient-{kind}", 6), sizes, rtol)
            close(figure.shown(f"loss-{kind}"), loss, rtol)
            hidden = x @ layer.hidden.weight + layer.hidden.bias
            assert figure.shown(f"silent-{kind}") == (hidden <= 0).all(axis=0).sum()
            for name, array in layer.parameters().items():
                array -= 10**0.3 * grads[name]

    compare()
    assert figure.shown("gradient-relu4") == 0
    figure.click("One step")
    compare(1e-10)
    dead = [j for j in range(6) if figure.shown(f"gradient-relu{j}") == 0]
    assert len(dead) > 1
    biases = figure.shown(*(f"bias-relu{j}" for j in dead))
    figure.click("500 steps")
    assert (figure.shown(*(f"bias-relu{j}" for j in dead)) == biases).all()
    assert (figure.shown(*(f"gradient-relu{j}" for j in dead)) == 0).all()


def test_activations__are_seen_to_train(figure):
    """A dead unit stands still while the others move."""
    figure.click("One step")
    dead = [j for j in range(6) if figure.shown(f"gradient-relu{j}") == 0]
    before, loss = figure.row("bias-relu", 6), figure.shown("loss-relu")
    figure.click("500 steps")
    said = """begin => RegExp(`^${begin} steps at the rate 0.05. Silent`)
        .test(document.querySelector("#explorable-activations .said").textContent)"""
    figure.tab.wait_for_function(said, arg="[1-4]?[0-9]0")  # on the way
    figure.tab.wait_for_function(said, arg="500")
    after = figure.row("bias-relu", 6)
    assert [j for j in range(6) if after[j] == before[j]] == dead
    assert figure.shown("loss-relu") < loss


def set_sizes(figure, **sizes):
    """Move each slider to the place where it shows this number."""
    for name, value in sizes.items():
        slider = figure.root.locator(f'input[name="{name}"]')
        for place in range(int(slider.get_attribute("max")) + 1):
            slider.fill(str(place))
            if slider.get_attribute("aria-valuetext") == f"{value:,}":
                break
        else:
            raise AssertionError(f"{name} is never {value}")


def shares(figure, row, parts):
    return {part: figure.shown(f"{row} {part}") for part in parts}


def test_cost(figure):
    for B, sizes in ((8, {}), (6, {"T": 96, "D": 48, "H": 3, "F": 64, "V": 512, "L": 4})):
        figure.root.locator('input[name="square"]').uncheck()
        set_sizes(figure, B=B, **sizes)
        T, D, H, F, V, L = (
            {"T": 64, "D": 192, "H": 4, "F": 768, "V": 8192, "L": 3} | sizes
        ).values()
        M = masked_tokens(B) if not sizes else round(0.15 * B * T)
        assert figure.shown("masked") == M
        forward = products(B, T, M, L, D, F, V)
        assert shares(figure, "operations", forward) == {
            part: 3 * count for part, count in forward.items()
        }
        operations = figure.shown("operations")
        assert operations == 3 * count_operations(B, T, D, F, L, V, M)
        parameters = count_bert_parameters(V, T, D, F, L)
        assert figure.shown("parameters") == parameters
        kept = count_bytes(B, T, D, H, F, L, V, M)
        assert figure.shown("kept") == kept
        logits = 4 * M * V
        peak = 12 * parameters + kept + max(logits, 4 * parameters - logits)
        assert figure.shown("peak") == peak

        n, K = B * T, D // H
        each = {
            "projections": L * np.array([[n, D, 3 * D], [n, D, D]]),
            "attention": np.array([[T, K, T], [T, T, K]]),
            "feed-forward": np.array([[n, D, F], [n, F, D]]),
            "output layer, loss": np.array([[M, D, V]]),
        }
        each["projections"] = np.array([[n, D, 3 * D], [n, D, D]])
        many = {"attention": L * B * H, "output layer, loss": 1}
        time = 32 * parameters / 40e9
        for part, sides in each.items():
            a, b, c = sides.T
            moved = 3 * many.get(part, L) * 4 * (a * b + b * c + a * c).sum()
            close(figure.shown(f"intensity {part}"), 3 * forward[part] / moved)
            time += max(3 * forward[part] / 100e9, moved / 40e9)
        close(figure.shown("time"), time)


def test_cost__of_the_numbers_on_the_page(figure):
    assert figure.shown("parameters") == 4_498_880
    figure.tick("every")
    close(figure.shown("kept output layer, loss"), 4 * 512 * (2 * 192 + 8192 + 1) + 16 * 512)
    figure.choose("model", "base")
    assert figure.shown("parameters") == 108_922_170


def test_cost__tells_a_story_in_three_steps(figure):
    """The seconds of a training are those of a step, for the tokens that are to be read."""
    stories = {
        "1. Mini-BERT on a laptop": (3200 * 16 * 64, 16 * 64, 11),
        "2. BERT-base on the same laptop": (256e6 * 512, 32 * 512, 11),
        "3. Seven billion on an accelerator": (1e12, 8 * 2048, 14.5),
    }
    for label, (tokens, of_a_step, rate) in stories.items():
        figure.click(label)
        pressed = figure.root.locator("button[aria-pressed=true]")
        assert pressed.all_inner_texts() == [label]
        close(figure.shown("whole"), figure.shown("time") * tokens / of_a_step)
        close(figure.shown("rate"), 10**rate)
    assert 6.5e9 < figure.shown("parameters") < 7e9
    T, D, L = 2048, 4096, 32
    layer = 12 * D**2 + 13 * D
    assert figure.shown("parameters") == (50257 + T) * D + L * layer + 2 * D + 50257
    assert f"{figure.shown('peak') / 1e9:.0f} GB at the peak" in figure.said()
    figure.slide(B=0)
    assert pressed.count() == 0


def test_cost__writes_large_numbers_in_words(figure):
    assert figure.root.locator("select option:checked").inner_text() == "Mini-BERT, 8 sequences"
    for letter in "BTDVL":
        end = figure.root.locator(f"input[name={letter}]").get_attribute("max")
        figure.slide(**{letter: end})
    text = figure.root.inner_text()
    assert re.search(r"[0-9] (PB|TB)", text) and re.search(r"[0-9] (days|years)", text)
    assert re.findall(r"[0-9.,]{7,} (?:trillion|billion|s|GB)\b", text) == []
    assert figure.root.locator("select option:checked").inner_text() == "other sizes"


def arrays_of(cache):
    if isinstance(cache, np.ndarray):
        yield cache
    elif isinstance(cache, (tuple, list)):
        for part in cache:
            yield from arrays_of(part)


def bytes_of(caches, parameters):
    """Bytes of the arrays that own the memory of the caches, each once, without parameters."""

    def owner(array):
        while array.base is not None:
            array = array.base
        return array

    mine = {id(owner(array)) for array in parameters.values()}
    owners = {id(o): o.nbytes for o in map(owner, arrays_of(caches))}
    return sum(size for key, size in owners.items() if key not in mine)


@pytest.mark.parametrize("name", ["trained", "base", "seven"])
def test_cost__of_other_berts(figure, name):
    B, T, D, H, F, V, L = 3, 16, 24, 3, 96, 128, 2
    figure.choose("model", name)
    set_sizes(figure, B=B, T=T, D=D, H=H, V=V, L=L)
    kind = "gelu_tanh" if name == "trained" else "gelu"
    attention = AttentionSpec(H, bias=name != "trained")
    options = {"segments": 2, "final_norm": False} if name == "base" else {}
    model = Bert(
        LayerSpec(D, attention, F, "pre" if name == "seven" else "post", feed_forward=kind),
        StackSpec(V, T, L),
        np.random.default_rng(0),
        tied=True,
        embedding_norm=name != "seven",
        **options,
    )
    parameters = model.parameters()
    assert figure.shown("parameters") == sum(a.size for a in parameters.values())
    masked = np.zeros(B * T, bool)
    masked[: int(figure.shown("masked"))] = True
    masked = masked.reshape(B, T)
    ids = np.random.default_rng(1).integers(0, V, (B, T))
    segments = np.zeros_like(ids) if name == "base" else None
    logits, cache = model.forward(ids, masked, segment_ids=segments)
    _, loss_cache = cross_entropy(logits, ids[masked])
    assert figure.shown("kept") == bytes_of((cache, loss_cache), parameters)


def test_cost__of_an_encoder_without_tables(figure):
    B, T, D, H, F, L = 3, 16, 24, 3, 96, 2
    figure.choose("model", "encoder")
    set_sizes(figure, B=B, T=T, D=D, H=H, L=L)
    model = Reconstructor(LayerSpec(D, H, F, "pre"), L, np.random.default_rng(0))
    parameters = model.parameters()
    assert figure.shown("parameters") == sum(a.size for a in parameters.values())
    x = np.ones((B, T, D), np.float32)
    y, cache = model.forward(x)
    _, loss_cache = mean_squared_error(y, np.zeros_like(y))
    assert figure.shown("kept") == bytes_of((cache, loss_cache), parameters)


def test_cost__of_an_encoder_decoder(figure):
    B, S, T, D, H, F, V, L = 3, 35, 12, 24, 3, 96, 16, 2
    figure.choose("model", "dates")
    set_sizes(figure, B=B, T=T, D=D, H=H, V=V, L=L)
    model = EncoderDecoder(
        LayerSpec(D, H, F, "pre"),
        StackSpec(162, S, L),
        StackSpec(V, T, L),
        np.random.default_rng(0),
    )
    parameters = model.parameters()
    assert figure.shown("parameters") == sum(a.size for a in parameters.values())
    source, shifted, targets = (np.zeros(shape, int) for shape in ((B, S), (B, T), (B, T)))
    keep = padding_keep(np.full(B, S), S)
    logits, cache = model.forward(source, shifted, keep)
    _, loss_cache = cross_entropy(logits, targets)
    assert figure.shown("kept") == bytes_of((cache, loss_cache), parameters)
    # The cross-attention projects T queries and outputs, S keys and values.
    encoder = S * (8 * D * D + 4 * D * F) + 4 * S * S * D
    decoder = T * (12 * D * D + 4 * D * F) + S * 4 * D * D + 4 * T * (T + S) * D
    forward = B * (L * (encoder + decoder) + 2 * T * D * V)
    assert figure.shown("operations") == 3 * forward

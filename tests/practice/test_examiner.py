"""What the examiner says: of known mistakes, of unknown ones, and of what is no answer at all."""

import json
import re
from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from helpers.texts import ROOT, read

from transformer_core import ops
from transformer_core.layers import EncoderLayer, Linear, Residual
from transformer_core.optim import SGD, Adam, warmup_stable_decay
from transformer_practice import examine
from transformer_practice.engine import answer, repair, runs
from transformer_practice.engine.explain import MUSEUM
from transformer_practice.engine.pages import numbers_of
from transformer_practice.engine.running import ENDLESS, Failed
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.exercises.many_machines import norm_over_ranks


@pytest.fixture(autouse=True)
def without_own_lines(request, monkeypatch):
    """Leave the lines of an answer as they are, unless a test asks for changes."""
    if not request.node.get_closest_marker("own_lines"):
        monkeypatch.setattr(repair, "CHANGES", 0)


def layer_norm(x, gamma, beta, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    deviation = np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + eps)
    x_hat = (x - mean) / deviation
    return gamma * x_hat + beta, (x_hat, deviation, gamma)


def parts(dy, cache):
    x_hat, deviation, gamma = cache
    leading = tuple(range(dy.ndim - 1))
    g = dy * gamma
    scale, mean = g / deviation, g.mean(axis=-1, keepdims=True) / deviation
    variance = x_hat * (g * x_hat).mean(axis=-1, keepdims=True) / deviation
    return scale, mean, variance, (dy * x_hat).sum(axis=leading), dy.sum(axis=leading)


def right(dy, cache):
    scale, mean, variance, dgamma, dbeta = parts(dy, cache)
    return scale - mean - variance, dgamma, dbeta


def gamma_outside(dy, cache):
    x_hat, deviation, gamma = cache
    scale, mean, variance, dgamma, dbeta = parts(dy, (x_hat, deviation, 1.0))
    return gamma * (scale - mean - variance), dgamma, dbeta


def mean_twice(dy, cache):
    scale, mean, variance, dgamma, dbeta = parts(dy, cache)
    return scale - 2 * mean - variance, dgamma, dbeta


def two_mistakes(dy, cache):
    scale, mean, variance, dgamma, dbeta = parts(dy, cache)
    return scale - variance, dgamma * cache[2], dbeta


def exchanged(dy, cache):
    dx, dgamma, dbeta = right(dy, cache)
    return dx, dbeta, dgamma


def without_the_root(dy, cache):
    dx, dgamma, dbeta = right(dy, cache)
    return dx, dgamma / len(dy), dbeta


def negative(dy, cache):
    return tuple(-grad for grad in right(dy, cache))


def noisy(dy, cache):
    dx, dgamma, dbeta = right(dy, cache)
    return dx + 1e-3 * np.sin(np.arange(dx.size)).reshape(dx.shape), dgamma, dbeta


def last_row(dy, cache):
    dx, dgamma, dbeta = right(dy, cache)
    dx = dx.copy()
    dx[..., -1, :] *= 1 + np.arange(dx.shape[-1])
    return dx, dgamma, dbeta


def said(backward, forward=layer_norm):
    return examine("layer_norm", forward, backward)


def test_right_is_right():
    report = said(right)
    assert report.right and report.written and report.mistakes == ()
    assert str(report).startswith("layer_norm: right. layer_norm_backward: right.")
    assert "central differences of your own forward pass" in report.whole()
    assert "3 of 3 theorems hold" in report.whole()
    assert max(max(row.values()) for row in report.errors.values()) < 1e-8


def test_a_known_mistake_is_named_and_where_it_hides():
    report = said(gamma_outside)
    assert not report.right and report.mistakes == ("layer-norm-gamma-outside",)
    assert report.verdict.endswith("dx is wrong, dgamma and dbeta are right.")
    assert "This point alone would not have shown it: gamma = 1." in report.whole()
    assert report.errors["dx"]["gamma = 1"] < 1e-12 < 0.1 < report.errors["dx"]["generic"]
    assert "Theorem: every row of dx sums to 0. Here it is off by" in report.whole()


def test_backward_alone_is_handed_the_packages_cache():
    def backward(dy, cache):
        return gamma_outside(dy, (cache.x_hat, 1 / cache.inv_std, cache.gamma))

    assert examine("layer_norm", backward=backward).mistakes == ("layer-norm-gamma-outside",)


def test_a_coefficient_of_a_term_is_found():
    report = said(mean_twice)
    assert report.mistakes == ()
    assert "The mean term is counted twice: its coefficient is 2 and should be 1." in report.whole()


def complex_output(x, gamma, beta, eps=1e-5):
    y, cache = layer_norm(x, gamma, beta, eps)
    return y + 5j, cache


def keeps_its_cache_elsewhere(x, gamma, beta, eps=1e-5):
    y, ELSEWHERE[:] = layer_norm(x, gamma, beta, eps)
    return y, None


ELSEWHERE: list = []


def changes_its_cache(dy, cache):
    result = right(dy, cache)
    cache[0][...] *= 2
    return result


@pytest.mark.parametrize(
    "forward, backward, text",
    [
        (complex_output, right, "y: expected real numbers, got complex ones"),
        (
            keeps_its_cache_elsewhere,
            lambda dy, cache: right(dy, ELSEWHERE),
            "it is right, but after a forward pass on another input",
        ),
        (layer_norm, changes_its_cache, "it changes the caller's cache"),
    ],
)
def test_what_only_a_model_would_notice_is_wrong(forward, backward, text):
    report = examine("layer_norm", forward, backward)
    assert not report.right and text in report.whole()


def test_a_backward_pass_that_changes_the_layer_is_wrong():
    def backward(self, dy, cache):
        dx, grads = Linear.backward(self, dy, cache)
        self.weight -= 0.01 * grads["weight"]
        return dx, grads

    report = examine("Linear", Linear.forward, backward)
    assert not report.right and "it changes the caller's self" in report.whole()


def test_an_update_that_changes_the_gradient_is_wrong():
    def update(self, name, parameter, grad, v):
        SGD.update(self, name, parameter, grad, v)
        grad *= grad

    report = examine("SGD", update)
    assert not report.right and "update must not change grad" in report.whole()


def test_a_name_that_holds_one_that_does_not_decay_decays():
    def update(self, name, parameter, grad, m, v):
        if not any(part in name for part in self.undecayed):
            parameter *= 1 - self.learning_rate * self.weight_decay
        Adam.update(self, name, parameter, grad, m, v)

    report = examine("AdamW", update)
    assert not report.right and "other parts of the names are said not to decay" in report.whole()


def test_two_mistakes_at_once_are_found():
    assert set(said(two_mistakes).mistakes) == {
        "layer-norm-no-mean-term",
        "layer-norm-gamma-reads-the-output",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    "backward, text",
    [
        (exchanged, "dgamma is what dbeta should be: are they swapped?"),
        (without_the_root, "dgamma is 1/B times what it should be."),
        (negative, "dx, dgamma and dbeta: each has the wrong sign, but is otherwise right."),
        (last_row, "dx is wrong only at the last index of axis 1 (T)"),
    ],
)
def test_what_needs_no_catalogue_is_said(backward, text):
    report = said(backward)
    assert not report.right and report.mistakes == ()
    assert text in report.whole()


def test_what_is_not_known_is_said_to_be_unknown():
    report = said(noisy)
    assert not report.right and report.mistakes == ()
    assert "matches no mistake that I know" in report.whole()
    assert "yours" in report.whole() and "expected" in report.whole()


@pytest.mark.own_lines
def test_a_backward_pass_belongs_to_the_readers_own_forward_pass(monkeypatch):
    def forward(x, gamma, beta, eps=1e-5):
        y, cache = layer_norm(x, gamma, beta, eps)
        return 3 * y, cache

    report = examine("layer_norm", forward, lambda dy, cache: right(3 * dy, cache))
    assert not report.right
    assert 'fits your forward pass at the point "generic": fix the forward' in str(report)
    assert "with your forward pass fixed, right." in str(examine("layer_norm", forward, right))
    monkeypatch.setattr(repair, "CHANGES", 0)
    assert "does not fit" in str(examine("layer_norm", forward, right))


def test_a_forward_mistake_is_named():
    def forward(x, gamma, beta, eps=1e-5):
        x_hat = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(
            x.var(axis=-1, keepdims=True, ddof=1) + eps
        )
        return gamma * x_hat + beta, None

    report = examine("layer_norm", forward)
    assert report.mistakes == ("layer-norm-unbiased-variance",)


def test_an_array_of_the_caller_that_is_changed_is_named_and_the_line_that_changes_it():
    def forward(x, gamma, beta, eps=1e-5):
        x -= x.mean(axis=-1, keepdims=True)
        return layer_norm(x, gamma, beta, eps)

    report = examine("layer_norm", forward)
    assert not report.right
    assert "it changes the caller's x" in report.verdict
    assert "x -= x.mean(axis=-1, keepdims=True)" in report.whole()
    assert "This writes into the caller's array: make a new one." in report.whole()


def test_what_moves_its_argument_is_told_to_write_the_old_number_back():
    def moved_twice(f, x, h=1e-5):
        slopes = np.empty(x.shape)
        for i in np.ndindex(*x.shape):
            x[i] += h
            above = f(x)
            x[i] -= 2 * h
            slopes[i] = (above - f(x)) / (2 * h)
            x[i] += h
        return slopes

    report = examine("central_difference", moved_twice)
    assert "caller's array: keep the old number, and write it back." in str(report)


@pytest.mark.thorough
@pytest.mark.own_lines
def test_a_forward_pass_that_only_changes_its_input_does_not_hide_the_backward_pass(monkeypatch):
    def forward(x):
        x -= x.max(axis=-1, keepdims=True)
        y = x - np.log(np.exp(x).sum(axis=-1, keepdims=True))
        return y, y

    def backward(dy, y):
        return dy - y * dy.sum(axis=-1, keepdims=True)

    report = examine("log_softmax", forward, backward)
    assert "log_softmax: it changes the caller's x" in report.verdict
    assert "log_softmax_backward: dx is wrong" in report.verdict
    assert "`np.exp(y)` replaced `y`" in report.whole()
    monkeypatch.setattr(repair, "CHANGES", 0)
    right = examine("log_softmax", forward, lambda dy, y: dy - np.exp(y) * dy.sum(-1)[..., None])
    assert not right.right and "log_softmax_backward: right" in right.verdict


def one_hot_cross_entropy(logits, targets, weights=None, smoothing=0):
    weights = np.ones(targets.shape) if weights is None else weights
    V = logits.shape[-1]
    right = (1 - smoothing) * np.eye(V)[targets] + smoothing / V
    surprise = -(right * ops.log_softmax(logits)).sum(axis=-1)
    cache = ops.softmax(logits)[0] - right, weights
    return (weights * surprise).sum() / weights.sum(), cache


@pytest.mark.parametrize(
    "backward, text",
    [
        (lambda dloss, cache: cache[0] * cache[1][..., None], "(the sum of the weights)/dloss"),
        (
            lambda dloss, cache: cache[0] / cache[1].size,
            "what you would get if weights were left out and dloss were 1.",
        ),
    ],
)
def test_a_cotangent_and_a_mean_that_are_both_forgotten_are_named(backward, text):
    report = examine("cross_entropy", one_hot_cross_entropy, backward)
    assert report.verdict.startswith("cross_entropy: right.") and text in report.whole()


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x, gamma: 0, "expected the arguments (x, gamma, beta, eps=1e-5), got"),
        (lambda x, gamma, beta, eps=1e-5: x, "returns one array of shape (3, 4, 7), expected y"),
        (lambda x, gamma, beta, eps=1e-5: ("y", 0), "y: expected an array of numbers, got a"),
        (lambda x, gamma, beta, eps=1e-5: (x @ x, 0), "raises ValueError"),
    ],
)
def test_what_is_no_answer_is_told(function, text):
    report = examine("layer_norm", function)
    assert not report.right and text in report.whole()


@pytest.mark.parametrize(
    "backward, text",
    [
        (lambda dy, cache: right(dy, cache)[:2], "returns 2 values, expected dx, dgamma"),
        (
            lambda dy, cache: (dy, right(dy, cache)[1], dy),
            "dbeta has the shape (3, 4, 7), expected (7,).",
        ),
        (lambda dy, cache: tuple(np.nan * g for g in right(dy, cache)), "dx, dgamma and dbeta"),
    ],
)
def test_gradients_of_another_form_are_told(backward, text):
    assert text in str(said(backward))


def test_half_written_is_half_right():
    def stub(dy, cache):
        raise NotImplementedError

    report = said(stub)
    assert str(report) == "layer_norm: right. layer_norm_backward: not written yet."
    assert not report.right and not report.written


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("layer_norms", layer_norm), "name: expected one of"),
        (("layer_norm",), "expected a function to examine, got none"),
        (("layer_norm", 3), "forward: expected a function, got int"),
    ],
)
def test_bad_calls_are_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        examine(*arguments)


def test_a_notebook_shows_a_table_and_a_picture():
    html = said(gamma_outside)._repr_html_()
    assert "<table>" in html and "<svg" in html and 'class="examined examined-wrong"' in html
    assert "layer-norm-gamma-outside" in html
    assert 'class="examined examined-right"' in said(right)._repr_html_()


def test_a_report_fits_on_a_screen_and_the_rest_is_there_on_request():
    report = said(gamma_outside)
    shown, whole = str(report).splitlines(), report.whole()
    assert len(shown) < 24 and "--all" in shown[-1]
    assert not {"generic, other sizes", "Theorem"} & set(
        re.findall(r"generic, other sizes|Theorem", str(report))
    )
    assert "generic, other sizes" in whole and "Theorem" in whole
    assert json.loads(json.dumps(report.as_dict()))["errors"] == report.errors
    long = replace(report, explanations=tuple(f"Sentence {i}." for i in range(50)))
    assert (
        len(str(long).splitlines()) < 24 and "  ..." in str(long) and "Sentence 49." in long.whole()
    )


def test_the_examiner_changes_nothing_in_the_package():
    before = examine("layer_norm", layer_norm, gamma_outside)
    assert said(right).right
    assert str(before) == str(said(gamma_outside))


def test_what_is_wider_than_its_inputs_is_noted_and_not_wrong():
    def wide(x, gamma, beta, eps=1e-5):
        y, cache = layer_norm(x.astype(float), gamma, beta, eps)
        return y, cache

    report = said(right, wide)
    assert report.right
    assert "For float32 inputs, y" in report.whole()
    assert "float32" not in said(right).whole()


def test_the_mistakes_that_the_museum_shows_are_those_of_its_page():
    page = read(ROOT / "book" / "320_museum.md")
    assert set(re.findall(r"\{mistake\} (\S+)", page)) == MUSEUM
    assert "What it does to training: chapter 21, A museum" in str(said(gamma_outside))


def test_an_optimiser_is_examined_by_its_steps():
    def update(self, name, parameter, grad, m, v):
        m *= self.beta1
        m += (1 - self.beta1) * grad
        v *= self.beta2
        v += (1 - self.beta2) * grad**2
        parameter -= self.learning_rate * m / (np.sqrt(v) + self.eps)

    report = examine("Adam", update)
    assert report.mistakes == ("adam-no-bias-correction",)
    assert report.verdict.endswith("first_moment and second_moment are right.")


@pytest.mark.slow
def test_averages_that_are_bound_anew_are_told_from_those_that_change():
    def update(self, name, parameter, grad, m, v):
        m = self.beta1 * m + (1 - self.beta1) * grad
        v = self.beta2 * v + (1 - self.beta2) * grad**2
        step = m / (1 - self.beta1**self.steps)
        root = np.sqrt(v / (1 - self.beta2**self.steps))
        parameter -= self.learning_rate * step / (root + self.eps)

    text = examine("Adam", update).whole()
    assert "first_moment and second_moment: each is 0 everywhere. Is it changed in place?" in text
    assert "each is right after the first step, and wrong after the others" in text


@pytest.mark.slow
def test_of_many_outputs_only_some_are_named():
    def backward(self, dy, cache):
        dx, grads = EncoderLayer.backward(self, dy, cache)
        return dx, {name: 1.5 * grad for name, grad in grads.items()}

    report = examine("EncoderLayer", backward=backward)
    assert "outputs are wrong, among them dattention." in report.verdict
    assert "dx is right" in report.verdict
    assert not any(line.strip().startswith("dx ") for line in report.whole().splitlines()[3:])


def op(forward, name="layer_norm", backward=None):
    return examine(name, forward, backward).whole()


def test_a_special_point_where_the_right_gradient_is_0_is_not_wrong_by_rounding():
    def forward(x):
        norm = np.sqrt((x * x).sum(axis=-1, keepdims=True))
        y = x / np.where(norm == 0, 1, norm)
        return y, (y, norm)

    def backward(dy, cache):
        y, norm = cache
        return (dy - y * (dy * y).sum(axis=-1, keepdims=True)) / norm

    with np.errstate(invalid="ignore"):
        assert "dx is wrong only here: a row of zeros.\n" in op(forward, "l2_normalize", backward)


def layer_norm_with(axis=-1, power=0.5, shift=1):
    def forward(x, gamma, beta, eps=1e-5):
        centered = x - x.mean(axis=axis, keepdims=True)
        variance = (centered**2).mean(axis=axis, keepdims=True)
        return gamma * centered / (variance + eps) ** power + shift * beta, None

    return forward


def gradient_of_layer_norm(gamma_counts=True, mean=np.mean):
    def backward(dy, cache):
        x_hat, deviation, gamma = cache
        g = dy * gamma if gamma_counts else dy
        variance = x_hat * mean(g * x_hat, axis=-1, keepdims=True)
        dx = (g - mean(g, axis=-1, keepdims=True) - variance) / deviation
        return dx, *right(dy, cache)[1:]

    return backward


@pytest.mark.parametrize(
    "forward, backward, text",
    [
        (
            layer_norm_with(axis=0),
            None,
            "y depends on more of x than it should along axis 0 (B): changing x[1, 2, 3] "
            "changes it at every index, but should change it only at index 1.",
        ),
        (
            layer_norm_with(power=1),
            None,
            "except for the normalised input times gamma: it has one factor of inv_std too many.",
        ),
        (layer_norm_with(shift=0), None, "y is what you would get if beta were 0: is it left out?"),
        (
            layer_norm,
            gradient_of_layer_norm(gamma_counts=False),
            "dx is what you would get if gamma were 1: is it left out?",
        ),
        (
            layer_norm,
            gradient_of_layer_norm(mean=np.sum),
            "The mean term has the coefficient D; it should be 1. The variance term has",
        ),
    ],
)
def test_of_a_layer_norm_the_reason_is_found(forward, backward, text):
    assert text in op(forward, backward=backward)


def scaled_by(power):
    def attention(query, key, value, keep=None, rate=0, rng=None):
        scores = query @ key.swapaxes(-1, -2) / query.shape[-1] ** power
        weights, _ = ops.softmax(scores, keep)
        return weights @ value, None

    return attention


def masked_by_a_product(x, keep=None):
    weights, _ = ops.softmax(x if keep is None else x * keep)
    return weights, None


def sum_of_all(prediction, target):
    return ((prediction - target) ** 2).sum(), None


def late_by_one(step, steps, peak, warmup=0, decay=0):
    return warmup_stable_decay(max(step - 1, 1), steps, peak, warmup, decay)


def the_way_of_one_rank(shared, velocity, ends, weights, learning_rate, momentum):
    velocity = momentum * velocity + shared - ends[0]
    return shared - learning_rate * (shared - ends[0] + momentum * velocity), velocity


def in_whole_numbers(step, steps, peak, warmup=0, decay=0):
    if step < warmup:
        return peak * (step // warmup)
    return warmup_stable_decay(step, steps, peak, warmup, decay)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, forward, text",
    [
        (
            "linear",
            lambda x, weight, bias: (x @ weight, None),
            "y is what you would get if bias were 0: is it left out?",
        ),
        (
            "linear",
            lambda x, weight, bias: (x @ weight + 2 * bias, None),
            "y is bias more than it should be.",
        ),
        (
            "attention",
            scaled_by(1),
            "y is what you would get if query were 1/sqrt(d_k) times as large.",
        ),
        ("softmax", masked_by_a_product, "y is what you would get if x were multiplied by keep."),
        ("mean_squared_error", sum_of_all, "y is B * T * D times what it should be."),
        (
            "warmup_stable_decay",
            late_by_one,
            "output is what you would get if step were smaller by 1.",
        ),
        (
            "warmup_stable_decay",
            in_whole_numbers,
            "output is 0. Does a // round it down where a / belongs?",
        ),
        (
            "causal_keep",
            lambda length: np.tri(length, k=-1, dtype=bool),
            "output is wrong only on the diagonal, and right elsewhere.",
        ),
        (
            "causal_keep",
            lambda length: np.tri(length),
            "output holds numbers of type float64, expected booleans",
        ),
        (
            "padding_keep",
            lambda lengths, length: ~ops.padding_keep(lengths, length),
            "output is True where it should be False, and the other way round.",
        ),
        (
            "padding_keep",
            lambda lengths, length: ops.padding_keep(lengths, length) & (np.arange(length) > 0),
            "output is wrong only at index 0 of axis 3 (S), and right elsewhere.",
        ),
        (
            "norm_over_ranks",
            lambda sharded, replicated: sum(
                (g**2).sum() for rank in [*sharded, replicated] for g in rank.values()
            ),
            "norm is the square of what it should be: is a root missing?",
        ),
        (
            "mean_squared_error",
            lambda prediction, target: (
                np.sqrt(ops.mean_squared_error(prediction, target)[0]),
                None,
            ),
            "y is the square root of what it should be.",
        ),
        (
            "norm_over_ranks",
            lambda sharded, replicated: norm_over_ranks(sharded, {}),
            "norm is what you would get if replicated were empty: is it left out?",
        ),
        ("outer_step", the_way_of_one_rank, "does not depend on ends at indices 1 and 2 of"),
        ("count_parameters", lambda *sizes: 5, 'at the point "generic" (V = 100, T = 8,'),
        (
            "LayerNorm",
            lambda self, x: ops.layer_norm(x, self.gamma, self.beta),
            "y is what you would get if eps were 1e-05, its default.",
        ),
    ],
)
def test_frequent_mistakes_are_explained(name, forward, text):
    report = examine(name, forward)
    assert not report.right and report.mistakes == ()
    assert text in report.whole()


def without_skip(pre, post):
    def backward(self, dy, cache):
        dx, *rest = Residual.backward(self, dy, cache)
        if self.pre and pre:
            dx = dx - dy
        if not self.pre and post:
            dx = dx - self.norm.backward(dy, cache.norm)[0]
        return dx, *rest

    return backward


@pytest.mark.parametrize(
    "pre, post",
    [pytest.param(True, False, marks=pytest.mark.thorough), (False, True), (True, True)],
)
def test_a_lost_skip_is_named_in_either_placement(pre, post):
    report = examine("Residual", backward=without_skip(pre, post))
    assert report.mistakes == ("residual-skip-lost",)
    only_here = "It is wrong only here: Pre-LN;" in report.whole()
    not_there = "These points alone would not have shown it: Pre-LN;" in report.whole()
    assert (only_here, not_there) == (not post, not pre)


def test_the_other_placement_is_found():
    def forward(self, x, *context, rng=None):
        normalised, _ = self.norm.forward(x)
        return x + self.branch.forward(normalised, *context)[0], None

    assert "y is what you would get if pre were True." in op(forward, "Residual")


def adam(sign=-1, power=2, counted=0):
    def update(self, name, parameter, grad, m, v):
        self.steps += counted
        m *= self.beta1
        m += (1 - self.beta1) * grad
        v *= self.beta2
        v += (1 - self.beta2) * grad**power
        root = np.sqrt(v / (1 - self.beta2**self.steps))
        step = m / (1 - self.beta1**self.steps) / (root + self.eps)
        parameter += sign * self.learning_rate * step

    return update


@pytest.mark.parametrize(
    "update, text",
    [
        (adam(sign=1), "each takes its first step in the wrong direction: uphill."),
        (adam(power=1), "second_moment is what first_moment should be at the point"),
        (adam(counted=1), "update must not change self.steps"),
    ],
)
def test_frequent_mistakes_in_an_optimiser_are_explained(update, text):
    assert text in op(update, "Adam")


def test_the_readers_line_is_shown_and_not_the_examiners():
    def update(self, name, parameter, grad, v=None):
        v *= self.momentum
        v += grad
        parameter -= self.learning_rate * v

    text = op(update, "SGD")
    assert "v *= self.momentum" in text and "function(" not in text


def test_outputs_that_have_changed_places_are_found_by_their_shapes():
    def backward(dy, cache):
        dx, dweight, dbias = ops.linear_backward(dy, cache)
        return dweight, dx, dbias

    text = op(None, "linear", backward)
    assert "It is what dweight should be: are they swapped?" in text


def test_a_forgotten_return_is_not_a_stub():
    def forward(x, weight, bias):
        y = x @ weight + bias  # noqa: F841

    report = examine("linear", forward)
    assert report.written and not report.right
    assert "returns None: is there a `return`?" in report.verdict


@pytest.mark.parametrize(
    "name, function, texts",
    [
        (
            "linear",
            lambda x, weight, bias: (x @ weight.T, None),
            ["(7 is different from 5)", "x is (3, 4, 5); weight is (5, 7)"],
        ),
        (
            "layer_norm",
            lambda x, gamma, beta, eps=1e-5: (x - x.mean(axis=-1), None),
            ["Is keepdims=True missing?"],
        ),
        (
            "split_heads",
            lambda x, heads: x.reshape(*x.shape[:2], heads, x.shape[2] / heads),
            ["Is there a / where a // belongs?"],
        ),
    ],
)
def test_what_is_raised_comes_with_shapes_and_a_remedy(name, function, texts):
    report = op(function, name)
    assert all(text in report for text in texts)
    assert "matches no mistake" not in report


def test_arrays_in_a_dict_that_are_changed_are_named():
    def clip(grads, max_norm):
        norm = np.sqrt(sum((grad**2).sum() for grad in grads.values()))
        for grad in grads.values():
            grad *= min(1, max_norm / norm) if norm else 1
        return grads, norm

    report = examine("clip_by_global_norm", clip)
    assert "it changes the caller's grads; what it returns is right" in report.verdict


def test_a_pass_that_fails_does_not_hide_the_second_mistake():
    def backward(dy, cache):
        x, weight = cache
        rows = dy.reshape(-1, dy.shape[-1])
        return dy @ weight, x.reshape(-1, x.shape[-1]).T @ rows, rows.mean(axis=0)

    text = op(lambda x, weight, bias: (x @ weight + bias, (x, weight)), "linear", backward)
    assert "\nWhere it runs (square weight), dx and dbias are wrong, dweight is right.\n" in text
    assert 'dx matches the mistake "linear-weight-not-transposed"' in text
    assert "dbias is 1/(B * T) times what it should be." in text
    everywhere = op(None, "linear", lambda dy, cache: dy @ dy)
    assert "\nNo output can be judged yet.\n" in everywhere


@pytest.mark.parametrize(
    "backward, said",
    [
        (
            lambda dy, y: dy - np.exp(y) * dy,
            "log_softmax_backward: dx is wrong.\n.*y is wrong only here: large scores.\n.*"
            "dx is right except for the log-sum-exp term",
        ),
        (
            lambda dy, y: dy - np.exp(y) * dy.sum(axis=-1, keepdims=True),
            "log_softmax_backward: right where your forward pass is.\n",
        ),
    ],
)
def test_a_forward_pass_that_is_wrong_at_special_points_alone_hides_no_mistake(backward, said):
    def forward(x):
        e = np.exp(x)
        y = np.log(e / e.sum(axis=-1, keepdims=True))
        return y, y

    report = examine("log_softmax", forward, backward)
    assert not report.right
    assert re.search(said, str(report), re.DOTALL)


def test_the_sign_of_the_variance_is_told_and_nothing_fails():
    def forward(x, gamma, beta, eps=1e-5):
        mean = x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(mean**2 - (x * x).mean(axis=-1, keepdims=True) + eps)
        x_hat = (x - mean) / deviation
        return gamma * x_hat + beta, (x_hat, deviation, gamma)

    text = op(forward, backward=right)
    assert (
        "y is NaN. Is there a 0/0, an inf/inf after an overflow, or the root of a negative number?"
        in text
    )
    assert "fail: they are NaN.\nFix the forward pass first." in text


def test_the_mistakes_of_an_exercise_are_run_once():
    runs.catalogue_of.cache_clear()
    said(gamma_outside)
    made = sum(len(changed.known) for changed in runs.catalogue_of(find_exercise("layer_norm")))
    said(gamma_outside)
    assert runs.catalogue_of.cache_info().misses == 1
    assert made == sum(
        len(changed.known) for changed in runs.catalogue_of(find_exercise("layer_norm"))
    )


def test_a_failure_at_some_points_is_printed_once():
    def forward(x, rate, rng):
        return x * (rng.random(x.shape) < rate), None

    text = op(forward, "dropout")
    assert "Where it fails (evaluation), it raises AttributeError" in text
    assert text.count("AttributeError") == 1


def test_the_names_of_a_dict_are_those_of_the_parameters():
    def backward(self, dy, cache):
        dx, dweight, dbias = ops.linear_backward(dy, cache)
        return dx, {"weight": dweight, "bias": dbias}

    text = op(None, "Linear", backward)
    assert "\"no bias\": grads must have no 'bias' here." in text


def test_beside_a_wrong_forward_pass_nothing_is_said_of_theorems():
    text = op(layer_norm_with(shift=0), backward=right)
    assert "fix the forward pass first." in text
    assert "Theorem" not in text and "central" not in text


def test_a_loop_without_an_end_is_waited_for_once(monkeypatch):
    calls = []

    def call(function, *arguments, seconds):
        calls.append(function)
        raise Failed(f"{ENDLESS} 5 s")

    monkeypatch.setattr(answer, "call", call)
    exercise = find_exercise("relu")
    found = answer.Answer(exercise, ops.relu).runs_at(3 * exercise.points()[:1])
    assert len(calls) == 1
    assert [run.failure for run in found.forward] == 3 * [f"{ENDLESS} 5 s"]


def test_another_draw_is_told_from_a_wrong_formula():
    def forward(x, rate, rng):
        keep = 1.0 if rng is None or not rate else rng.random(x.shape) >= rate
        return x * keep / (1 - rate if rng else 1), None

    report = examine("dropout", forward)
    assert report.mistakes == ()
    assert "y is right where it is not 0, but different entries are dropped" in report.whole()


def test_a_theorem_says_what_the_norm_is():
    def clip(grads, max_norm):
        norm = sum(np.linalg.norm(grad) for grad in grads.values())
        factor = min(1, max_norm / norm) if norm else 1
        return {name: factor * grad for name, grad in grads.items()}, norm

    text = op(clip, "clip_by_global_norm")
    assert "clipped, weight; clipped, bias; norm are wrong." in text
    assert "the square of the norm is the sum of the squares of all entries" in text


@pytest.mark.slow
def test_of_many_wrong_outputs_none_is_explained_by_an_argument():
    def backward(self, dy, cache):
        dx, grads = EncoderLayer.backward(self, dy**3, cache)
        return dx, grads

    text = op(None, "EncoderLayer", backward)
    assert "matches no mistake that I know" in text
    assert "what you would get if" not in text and "swapped" not in text


def test_what_is_no_number_is_said_to_be_none():
    def no_shift(x, keep=None):
        if keep is not None:
            x = np.where(keep, x, -1e9)
        exponentials = np.exp(x)
        return exponentials / exponentials.sum(axis=-1, keepdims=True), None

    text = op(no_shift, "softmax")
    assert "y is wrong only here: a row without keys; large scores" in text
    assert "There, y is NaN" in text and "wrong places" not in text


@pytest.mark.slow
def test_a_guess_under_which_the_right_function_never_ends_is_given_up():
    def one_too_many(x, coefficients):
        a, b, c = coefficients
        steps = 1
        while x < 0.5:
            x = a * x + b * x**3 + c * x**5
            steps += 1
        return steps

    start = process_time()
    assert not examine("steps_to_half", one_too_many).right
    assert not examine("steps_to_half", lambda x, coefficients: 7).right
    assert process_time() - start < 60  # and not for ever


def test_a_report_names_chapter_and_equations_as_the_book_numbers_them():
    forward, backward = ops.layer_norm, lambda dy, cache: (dy, dy, dy)
    report = examine("layer_norm", forward, backward)
    assert report.next.startswith("-> chapter 6, Layer normalisation: (6.1), (6.7)\n")


@pytest.mark.parametrize("exercise", every_exercise(), ids=lambda each: each.name)
def test_every_equation_of_an_exercise_has_a_number(exercise):
    labels = [label for each in exercise.functions for label in each.equation.split(", ")]
    assert all(label in numbers_of() for label in labels if label.startswith("eq:"))

"""What the examiner says: of known mistakes, of unknown ones, and of what is no answer at all."""

import re

import numpy as np
import pytest
from texts import ROOT, read

from transformer_core.layers import EncoderLayer
from transformer_core.practice import examine
from transformer_core.practice.explain import MUSEUM


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
    assert "Central differences of your own forward pass" in str(report)
    assert "3 of 3 theorems hold" in str(report)
    assert max(max(row.values()) for row in report.errors.values()) < 1e-8


def test_a_known_mistake_is_named_and_where_it_hides():
    report = said(gamma_outside)
    assert not report.right and report.mistakes == ("layer-norm-gamma-outside",)
    assert report.verdict.endswith("dx is wrong, dgamma and dbeta are right.")
    assert "This point alone would not have shown it: gamma = 1." in str(report)
    assert (
        report.errors["dx"]["gamma = 1"] < 1e-12 < 0.1 < report.errors["dx"]["generic"]
    )
    assert "Theorem: every row of dx sums to 0. Here it is off by" in str(report)


def test_backward_alone_is_handed_the_packages_cache():
    def backward(dy, cache):
        return gamma_outside(dy, (cache.x_hat, 1 / cache.inv_std, cache.gamma))

    assert examine("layer_norm", backward=backward).mistakes == (
        "layer-norm-gamma-outside",
    )


def test_a_coefficient_of_a_term_is_found():
    report = said(mean_twice)
    assert report.mistakes == ()
    assert "The mean term counts twice. It should have the coefficient 1." in str(
        report
    )


def test_two_mistakes_at_once_are_found():
    assert set(said(two_mistakes).mistakes) == {
        "layer-norm-no-mean-term",
        "layer-norm-gamma-reads-the-output",
    }


@pytest.mark.parametrize(
    "backward, text",
    [
        (exchanged, "dgamma is what dbeta should be: have they changed places?"),
        (without_the_root, "At these sizes that is 1/B, and nothing else I know."),
        (
            negative,
            "dx, dgamma and dbeta: each has the wrong sign, and is right otherwise.",
        ),
        (last_row, "dx is wrong along axis 1 (T) at the last one only"),
    ],
)
def test_what_needs_no_catalogue_is_said(backward, text):
    report = said(backward)
    assert not report.right and report.mistakes == ()
    assert text in str(report)


def test_what_is_not_known_is_said_to_be_unknown():
    report = said(noisy)
    assert not report.right and report.mistakes == ()
    assert "not like any mistake that I know" in str(report)
    assert "yours" in str(report) and "expected" in str(report)


def test_a_backward_pass_belongs_to_the_readers_own_forward_pass():
    def forward(x, gamma, beta, eps=1e-5):
        y, cache = layer_norm(x, gamma, beta, eps)
        return 3 * y, cache

    report = examine("layer_norm", forward, lambda dy, cache: right(3 * dy, cache))
    assert not report.right
    assert (
        "layer_norm_backward: fits your forward pass: mend the forward pass first."
        in str(report)
    )
    assert "does not fit" in str(examine("layer_norm", forward, right))


def test_a_forward_mistake_is_named():
    def forward(x, gamma, beta, eps=1e-5):
        x_hat = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(
            x.var(axis=-1, keepdims=True, ddof=1) + eps
        )
        return gamma * x_hat + beta, None

    report = examine("layer_norm", forward)
    assert report.mistakes == ("layer-norm-unbiased-variance",)


def test_an_array_of_the_caller_that_is_changed_is_named():
    def forward(x, gamma, beta, eps=1e-5):
        x -= x.mean(axis=-1, keepdims=True)
        return layer_norm(x, gamma, beta, eps)

    report = examine("layer_norm", forward)
    assert not report.right
    assert "it changes the caller's x" in report.verdict


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x, gamma: 0, "expected the arguments (x, gamma, beta, eps=1e-5), got"),
        (
            lambda x, gamma, beta, eps=1e-5: x,
            "returns one array of shape (3, 4, 7), expected y",
        ),
        (
            lambda x, gamma, beta, eps=1e-5: ("y", 0),
            "y: expected an array of numbers, got a",
        ),
        (lambda x, gamma, beta, eps=1e-5: (x @ x, 0), "raises ValueError"),
    ],
)
def test_what_is_no_answer_is_told(function, text):
    report = examine("layer_norm", function)
    assert not report.right and text in str(report)


@pytest.mark.parametrize(
    "backward, text",
    [
        (
            lambda dy, cache: right(dy, cache)[:2],
            "returns 2 values, expected dx, dgamma",
        ),
        (
            lambda dy, cache: (dy, right(dy, cache)[1], dy),
            "dbeta has the shape (3, 4, 7), expected (7,).",
        ),
        (
            lambda dy, cache: tuple(np.nan * g for g in right(dy, cache)),
            "dx, dgamma and dbeta",
        ),
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
    assert (
        "<table>" in html
        and "<svg" in html
        and 'class="examined examined-wrong"' in html
    )
    assert "layer-norm-gamma-outside" in html
    assert 'class="examined examined-right"' in said(right)._repr_html_()


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
    assert "For float32 inputs, y" in str(report)
    assert "float32" not in str(said(right))


def test_the_mistakes_that_the_museum_shows_are_those_of_its_page():
    page = read(ROOT / "book" / "320_museum.md")
    assert set(re.findall(r"\{mistake\} (\S+)", page)) == MUSEUM
    assert "320_museum" in str(said(gamma_outside))


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


def test_averages_that_are_bound_anew_are_told_from_those_that_change():
    def update(self, name, parameter, grad, m, v):
        m = self.beta1 * m + (1 - self.beta1) * grad
        v = self.beta2 * v + (1 - self.beta2) * grad**2
        step = m / (1 - self.beta1**self.steps)
        root = np.sqrt(v / (1 - self.beta2**self.steps))
        parameter -= self.learning_rate * step / (root + self.eps)

    text = str(examine("Adam", update))
    assert (
        "first_moment and second_moment: each is 0 everywhere. Is it changed in place?"
        in text
    )
    assert "each is right after the first step, and wrong after the others" in text


def test_of_many_outputs_only_some_are_named():
    def backward(self, dy, cache):
        dx, grads = EncoderLayer.backward(self, dy, cache)
        return dx, {name: 1.5 * grad for name, grad in grads.items()}

    report = examine("EncoderLayer", backward=backward)
    assert "outputs are wrong, among them dattention." in report.verdict
    assert "dx is right" in report.verdict
    assert not any(
        line.strip().startswith("dx ") for line in str(report).splitlines()[3:]
    )

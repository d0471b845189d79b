"""What the examiner says of mistakes that no entry of the catalogue describes."""

import inspect
import tomllib
from functools import partial
from itertools import chain

import numpy as np
import pytest
from helpers.texts import ROOT

from transformer_core import ops
from transformer_practice import examine
from transformer_practice.engine import repair
from transformer_practice.engine.explain import ratios
from transformer_practice.engine.planting import planted
from transformer_practice.engine.runs import Changed, called_by, direct, mutations, run_right
from transformer_practice.exercises import every_exercise, find_exercise
from transformer_practice.exercises.residual import ReZero
from transformer_practice.mistakes import MUTANTS

ANSWERS = tomllib.loads((ROOT / "tests/practice/versions/unnamed.toml").read_text())["answer"]


@pytest.mark.slow
@pytest.mark.parametrize("answer", ANSWERS, ids=lambda each: f"{each['exercise']}: {each['wrong']}")
def test_a_mistake_without_an_entry_is_explained(answer):
    space = {"__name__": "own", "np": np, "ops": ops}
    exec(answer["code"], space)
    report = examine(answer["exercise"], space.get("forward"), space.get("backward"))
    assert not report.right and not report.mistakes
    assert answer["says"] in "\n".join(report.explanations)


@pytest.mark.thorough
def test_what_is_right_on_the_way_has_the_nearest_name_and_is_no_wrong_output(monkeypatch):
    monkeypatch.setattr(repair, "CHANGES", 0)

    def update(self, name, parameter, grad, m, v):
        m *= self.beta1
        m += (1 - self.beta1) * grad
        v *= self.beta2
        v += (1 - self.beta2) * grad**2
        mh = m / (1 - self.beta1**self.steps)
        parameter -= self.learning_rate * mh

    report = str(examine("Adam", update))
    assert (
        "Along the way in the first step, `mh` (the package's `m_hat`) is right.\n" in report
    )  # grad is, too


def test_the_package_with_a_mistake_in_it_warns_nobody(recwarn):
    def complex_step(f, x, h=1e-20):  # no entry is put back
        z = x.astype(complex)
        slopes = np.zeros(x.shape)
        for at in np.ndindex(x.shape):
            z[at] += 1j * h
            slopes[at] = f(z).imag / h
        return slopes

    assert not examine("complex_step", complex_step).right
    assert not recwarn.list


def test_after_a_right_forward_pass_a_mistake_in_it_is_not_followed_further():
    exercise = find_exercise("layer_norm")
    mistake = MUTANTS["layer-norm-unbiased-variance"]
    changed = Changed(exercise, mistake, partial(planted, mistake), call=direct)
    assert changed.at(0, "backward", after=True).failure
    assert not changed.at(0, "backward").failure


@pytest.mark.parametrize(
    "factors, sizes, names",
    [
        ([1 / 12, 1 / 10], {"B": [3, 2], "T": [4, 5]}, ["1/(B * T)"]),
        ([2 / 3, 1], {"B": [3, 2], "T": [4, 5]}, ["2/B"]),
        ([-0.5, -0.5], {"B": [3, 2]}, ["-1/2"]),
        ([4.0, 9.0], {"K": [16, 81]}, ["sqrt(K)"]),
        ([0.7, 0.7], {"B": [3, 2], "(1 - p)": [0.7, 0.7]}, ["(1 - p)"]),
        ([0.123, 0.456], {"B": [3, 2]}, []),
        ([3.0], {"B": [3], "T": [4]}, ["B"]),
    ],
)
def test_a_number_is_a_product_of_sizes(factors, sizes, names):
    sizes = {name: np.array(at, float) for name, at in sizes.items()}
    assert ratios.names_of(factors, sizes) == names


def test_a_size_is_that_of_the_points_own_arguments():
    points = find_exercise("linear").points()
    chosen = [point for point in points if point.name in ("generic", "one sequence")]
    sizes = ratios.sizes_of(chosen, points[:1], {})
    assert list(sizes["B"]) == [3, 1]


@pytest.mark.thorough
def test_what_is_changed_has_a_source():
    for function in {*chain.from_iterable(map(called_by, every_exercise()))}:
        assert inspect.getsource(function)


def test_small_changes_leave_the_package_as_it_was():
    exercise = find_exercise("layer_norm")
    for changed in mutations(exercise, "backward"):
        changed.at(0, "backward")
    assert examine("layer_norm", exercise.forward, exercise.backward).right
    assert not any(run.failure for run in run_right(exercise).backward)


def test_a_number_that_is_lost_in_every_row_is_seen(monkeypatch):
    monkeypatch.setattr(repair, "CHANGES", 0)

    def forward(x):
        y = ops.log_softmax(x) + np.cos(x.max(axis=-1, keepdims=True))
        return y, y

    said = str(examine("log_softmax", forward))
    assert "y is right except for one number per row, which is added to the whole row" in said


def test_a_parameter_of_one_number_is_named_as_a_factor():
    def backward(self, dy, cache):
        dx, grads = ReZero.backward(self, dy, cache)
        return dx, grads | {"rho": self.rho * grads["rho"]}

    said = str(examine("ReZero", ReZero.forward, backward))
    assert "drho is rho times what it should be" in said

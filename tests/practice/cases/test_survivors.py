import numpy as np
import pytest

from transformer_core import ops
from transformer_core.gradient_check import central_difference, check_backward, complex_step
from transformer_practice.cases import survivors
from transformer_practice.judges.checks import randomised, slope_errors
from transformer_practice.mistakes import BACKWARD, CATALOGUE


def fresh(forward, backward):
    return check_backward(forward, backward, x=(1, 5), gamma=np.ones(5), beta=np.zeros(5)).right


def generic(forward, backward):
    return check_backward(forward, backward, x=(2, 3, 5), gamma=(5,), beta=(5,)).right


def test_a_fresh_gamma_lets_the_mistakes_live_that_are_right_there():
    report = survivors("layer_norm", fresh)
    assert not report.problem
    assert {"layer-norm-gamma-outside", "layer-norm-gamma-reads-the-output"} <= set(report.survived)
    assert "It is right at: gamma = 1" in report.survived["layer-norm-gamma-outside"]
    assert "layer-norm-no-mean-term" in report.killed


def test_a_cotangent_of_ones_is_said_to_hide_a_mistake_that_no_point_hides():
    def check(forward, backward):
        x, gamma, beta = np.random.default_rng(0).normal(size=(2, 5)), np.ones(5), np.zeros(5)
        _, cache = forward(x, gamma, beta)
        dx, *_ = backward(np.ones_like(x), cache)
        expected = central_difference(lambda x: forward(x, gamma, beta)[0].sum(), x)
        return np.allclose(dx, expected, atol=1e-6)

    said = survivors("layer_norm", check).survived["layer-norm-no-variance-term"]
    assert "and draw the cotangent: a cotangent of ones hides what sums to 0" in said


def test_a_generic_point_lets_no_wrong_backward_pass_live():
    report = survivors("layer_norm", generic)
    wrong = {
        mutant.name
        for mutant in CATALOGUE
        if mutant.file == "ops/layer_norm.py" and mutant.place == BACKWARD
    }
    assert wrong == wrong & set(report.killed)
    assert len(wrong) >= 7


@pytest.mark.parametrize(
    "check, problem",
    [
        (lambda forward, backward: False, "rejects the right function: it returns False"),
        (lambda forward, backward: 1 / 0, "it raises ZeroDivisionError"),
        (lambda forward: True, "it raises TypeError"),
    ],
)
def test_a_check_that_rejects_the_right_op_is_no_test(check, problem):
    report = survivors("softmax", check)
    assert problem in report.problem and report.problem.startswith("not a test")
    assert (report.killed, report.survived) == ((), {})
    assert str(report) == f"softmax: {report.problem}"


def test_a_check_that_is_not_written_says_so():
    def check(forward, backward):
        raise NotImplementedError

    assert str(survivors("softmax", check)) == "softmax: your check is not written yet"


def test_a_check_that_never_ends_is_stopped():
    def check(forward, backward):
        while True:
            pass

    assert "within 0.2 s" in survivors("softmax", check, seconds=0.2).problem


def test_the_error_names_the_line_of_the_check():
    def check(forward, backward):
        assert forward(np.zeros(2))[0][0] == 7, "not seven"

    problem = survivors("softmax", check).problem
    assert "not seven" in problem and "assert forward(np.zeros(2))" in problem


def test_a_check_that_asks_nothing_lets_all_live_and_each_says_what_it_needs():
    report = survivors("softmax", lambda forward, backward: None)
    assert not report.killed and "kills 0 of" in str(report)
    assert "softmax-no-coupling" in report.survived
    assert "Its gradients may match it" in report.survived["softmax-mask-after"]
    assert all(need.endswith(").") for need in report.survived.values())


def test_what_no_random_point_shows_is_said():
    report = survivors("relu", lambda forward, backward: True)
    assert "No random point shows it" in report.survived["relu-open-at-zero"]


def test_an_optimiser_has_no_backward_pass():
    given = []
    survivors("Adam", lambda forward, backward: not given.append(backward))
    assert set(given) == {None}


def test_nothing_stays_planted():
    x = np.random.default_rng(0).normal(size=(2, 3))
    before = ops.softmax(x)[0]
    survivors("softmax", lambda forward, backward: True)
    assert np.array_equal(ops.softmax(x)[0], before)


def test_a_table_for_notebooks_escapes_what_it_shows():
    html = survivors("softmax", lambda forward, backward: True)._repr_html_()
    assert "<td>softmax-no-coupling</td><td>survived</td>" in html


def test_an_unknown_name_is_an_error():
    with pytest.raises(ValueError, match="name: expected one of .*, got 'soft_max'"):
        survivors("soft_max", generic)


def with_new_parameters(build):
    x = np.random.default_rng(0).normal(size=(1, 4, 32))
    errors = slope_errors(build(), (x, x[:, ::-1]), central_difference)
    assert max(errors.values()) < 1e-4


def at_a_random_point(build):
    x = np.random.default_rng(0).normal(size=(3, 4, 32))
    errors = slope_errors(randomised(build(np.complex128)), (x, x[:, ::-1]), complex_step)
    assert max(errors.values()) < 1e-9


@pytest.mark.slow
def test_a_check_of_a_whole_model():
    fresh = survivors("Reconstructor", with_new_parameters)
    assert {"layer-norm-gamma-outside", "linear-last-sequence-alone"} <= set(fresh.survived)
    assert "new parameters" in fresh.survived["layer-norm-gamma-outside"]
    assert "one sequence" in fresh.survived["linear-last-sequence-alone"]
    random = survivors("Reconstructor", at_a_random_point)
    places = {mutant.name: mutant.place for mutant in CATALOGUE}
    assert all(places[name] != BACKWARD for name in random.survived)

from importlib import import_module

import numpy as np
import pytest
from mutants import MUTANTS, NO_MISTAKE, PLANTABLE, Mutant, functions, planted
from mutants.catalogue import AROUND, BACKWARD, CATALOGUE, FORWARD
from mutants.checks import fresh_check, generic_check
from mutants.theorems import broken_theorems

from transformer_core.gradient_check import central_difference, complex_step
from transformer_core.ops import attention_backward, layer_norm, softmax_backward
from transformer_core.ops.softmax import SoftmaxCache

MODULE = import_module("transformer_core.ops.softmax")
WEIGHTS = SoftmaxCache(np.array([[4.0, 1.0, 2.0]]) / 7)
DWEIGHTS = np.array([[7.0, 0.0, 0.0]])


def edited(edits, file="ops/softmax.py"):
    return Mutant("a-mutant", BACKWARD, file, edits, "")


def test_there_are_many_and_no_two_have_one_name():
    assert len(CATALOGUE) == len(MUTANTS) >= 90
    assert {mutant.place for mutant in CATALOGUE} == {BACKWARD, FORWARD, AROUND}


def codes():
    return {name: function.__code__ for name, function in functions(MODULE).items()}


@pytest.mark.parametrize("name", PLANTABLE)
def test_each_can_be_planted_and_leaves_nothing_behind(name):
    before = codes()
    with planted(PLANTABLE[name]):
        assert (codes() != before) == (PLANTABLE[name].file == "ops/softmax.py")
    assert codes() == before


def test_everyone_who_has_imported_a_function_gets_the_mistake():
    right = softmax_backward(DWEIGHTS, WEIGHTS)
    assert np.allclose(right * 7, [[12, -4, -8]])
    with planted(MUTANTS["softmax-no-coupling"]):
        assert np.allclose(softmax_backward(DWEIGHTS, WEIGHTS), [[4, 0, 0]])
        assert attention_backward.__globals__["softmax_backward"] is softmax_backward
    assert np.array_equal(softmax_backward(DWEIGHTS, WEIGHTS), right)


def test_an_error_does_not_leave_the_mistake_behind():
    with pytest.raises(KeyError), planted(MUTANTS["softmax-no-coupling"]):
        raise KeyError
    assert np.allclose(softmax_backward(DWEIGHTS, WEIGHTS) * 7, [[12, -4, -8]])


def test_two_mistakes_may_stand_at_once_and_go_one_after_the_other():
    with planted(MUTANTS["softmax-no-coupling"]):
        with planted(MUTANTS["layer-norm-gamma-outside"]):
            assert np.allclose(softmax_backward(DWEIGHTS, WEIGHTS), [[4, 0, 0]])
        assert np.allclose(softmax_backward(DWEIGHTS, WEIGHTS), [[4, 0, 0]])


def test_defaults_change_too():
    x, one = np.array([[1.0, -1.0]]), np.ones(2)
    with planted(
        edited({"eps: float = 1e-5": "eps: float = 3.0"}, "ops/layer_norm.py")
    ):
        assert np.allclose(layer_norm(x, one, 0 * one)[0], [[0.5, -0.5]])
    assert np.allclose(layer_norm(x, one, 0 * one)[0], [[1, -1]], atol=1e-5)


@pytest.mark.parametrize(
    "edits, message",
    [
        (
            {"dx = something else": ""},
            "a-mutant: expected this text once in ops/softmax.py, found it 0 times: "
            "dx = something else",
        ),
        ({"check_floats": ""}, "found it 4 times: check_floats"),
        (
            {"import numpy as np\n": "import numpy as np  # NumPy\n"},
            "a-mutant: expected a function to change, none did",
        ),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(edits, message):
    with pytest.raises(ValueError, match=message), planted(edited(edits)):
        pass


def test_nothing_is_found_in_the_right_package():
    assert fresh_check() is None
    assert generic_check(complex_step, 1e-12) is None
    assert generic_check(central_difference, 1e-7) is None
    assert broken_theorems() == []


def test_nothing_is_found_where_there_is_no_mistake():
    with planted(NO_MISTAKE):
        assert not np.signbit(softmax_backward(DWEIGHTS, WEIGHTS)[0, 0])
        test_nothing_is_found_in_the_right_package()


@pytest.mark.parametrize(
    "name",
    [
        "layer-norm-gamma-outside",
        "layer-norm-gamma-reads-the-output",
        "linear-batch-and-time-scrambled",
        "linear-last-sequence-alone",
        "positions-averaged",
        "dropout-another-mask",
        "cross-entropy-gradient-unmasked",
        "encoder-decoder-table-overwritten",
    ],
)
def test_a_check_of_new_models_lets_these_live_and_one_at_a_random_point_does_not(name):
    with planted(MUTANTS[name]):
        assert fresh_check() is None
        assert generic_check(complex_step, 1e-12) is not None
        assert generic_check(central_difference, 1e-7) is not None


@pytest.mark.parametrize(
    "name, theorem",
    [
        ("heads-reshaped", "outputs_follow_the_order_of_the_tokens"),
        ("softmax-mask-inverted", "hidden_keys_take_no_part"),
        ("decoder-target-not-shifted", "the_probabilities_of_all_targets_sum_to_one"),
        ("clipping-each-array", "clipping_turns_nothing_and_lengthens_nothing"),
    ],
)
def test_a_theorem_tells_what_no_gradient_check_can(name, theorem):
    with planted(MUTANTS[name]):
        assert generic_check() is None
        assert theorem in broken_theorems()


def test_a_gradient_of_another_shape_is_found():
    with planted(MUTANTS["linear-bias-for-each-position"]):
        assert "expected shape" in fresh_check()

import ast
import sys
from importlib import import_module
from inspect import isclass, isfunction
from types import ModuleType

import numpy as np
import pytest
from helpers.texts import ROOT

from transformer_core.gradient_check import central_difference, complex_step
from transformer_core.layers import SinusoidalPositions
from transformer_core.ops import attention_backward, layer_norm, softmax_backward
from transformer_core.ops.linear import LinearCache
from transformer_core.ops.softmax import SoftmaxCache
from transformer_core.optim import AdamW
from transformer_core.tasks.bert import masking
from transformer_core.tasks.dates import data
from transformer_core.tasks.texts import wordpiece
from transformer_practice.engine.planting import edited, function, functions_of, planted
from transformer_practice.judges.checks import fresh_check, generic_check
from transformer_practice.judges.theorems import broken_theorems
from transformer_practice.mistakes import (
    AROUND,
    BACKWARD,
    CATALOGUE,
    FORWARD,
    MUTANTS,
    NO_MISTAKE,
    PLANTABLE,
    Mutant,
)

WEIGHTS = SoftmaxCache(np.array([[4.0, 1.0, 2.0]]) / 7)
DWEIGHTS = np.array([[7.0, 0.0, 0.0]])


def mutant(edits, file="ops/softmax.py"):
    return Mutant("a-mutant", BACKWARD, file, edits, "")


def test_there_are_many_and_no_two_have_one_name():
    assert len(CATALOGUE) == len(MUTANTS) >= 90
    assert {mutant.place for mutant in CATALOGUE} == {BACKWARD, FORWARD, AROUND}


def contents(file):
    """What a file of the package defines, in an order of its own: text that tells it."""
    module = import_module(f"transformer_core.{file[:-3].replace('/', '.')}")
    owners = [module, *filter(isclass, vars(module).values())]
    return [
        (owner.__name__, name, *code(value))
        for owner in owners
        for name, value in vars(owner).items()
        if not name.startswith("_") or function(value)
    ]


def code(value):
    inner = function(value)
    if not inner:
        return (repr(value),)
    return inner.__code__, repr(inner.__defaults__), repr(inner.__kwdefaults__)


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in PLANTABLE.values()}))
def test_each_can_be_planted_and_leaves_nothing_behind(file):
    before = contents(file)
    for name, mutant in PLANTABLE.items():
        if mutant.file == file:
            with planted(mutant):
                assert contents(file) != before, name
            assert contents(file) == before, name


def with_a_new_name(source, number, name):
    """A source with another name for a variable of one of its functions."""
    function = list(functions_of(source))[number]
    lines = source.splitlines(keepends=True)
    span = [source[:place].count("\n") for place in function[:2]]
    found = [node for node in ast.walk(ast.parse(source)) if getattr(node, "id", "") == name]
    for node in sorted(found, key=lambda node: -node.col_offset):
        if span[0] < node.lineno <= span[1]:
            line = lines[node.lineno - 1]
            lines[node.lineno - 1] = f"{line[: node.col_offset]}new_{line[node.col_offset :]}"
    return "".join(lines)


@pytest.mark.slow
@pytest.mark.parametrize("file", ["layer_norm", "linear", "embedding", "gelu", "heads"])
def test_each_can_be_planted_where_a_local_variable_has_another_name(file):
    file = f"ops/{file}.py"
    source = (ROOT / "transformer_core" / file).read_text("utf-8")
    forms = [form for mutant in CATALOGUE for form in mutant.in_all_forms() if form.file == file]
    variables = [
        (number, name)
        for number, function in enumerate(functions_of(source))
        for name in function.local
    ]
    assert forms and variables
    for variable in variables:
        right = with_a_new_name(source, *variable)
        for form in forms:
            wrong = with_a_new_name(edited(source, form), *variable)
            try:
                found = edited(right, form)
            except ValueError as error:  # no text of the catalogue tells the new name
                assert f"expected variables of {file}" in str(error)
                continue
            assert ast.dump(ast.parse(found)) == ast.dump(ast.parse(wrong)), form


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


def test_defaults_of_functions_change_too():
    x, one = np.array([[1.0, -1.0]]), np.ones(2)
    with planted(mutant({"eps: float = 1e-5": "eps: float = 3.0"}, "ops/layer_norm.py")):
        assert np.allclose(layer_norm(x, one, 0 * one)[0], [[0.5, -0.5]])
    assert np.allclose(layer_norm(x, one, 0 * one)[0], [[1, -1]], atol=1e-5)


def test_defaults_of_constructors_change_too():
    wrong = mutant({'("bias", "gamma", "beta")': '("bias",)'}, "optim/adamw.py")
    with planted(wrong):
        assert AdamW({}).undecayed == ("bias",)
    assert AdamW({}).undecayed == ("bias", "gamma", "beta")


def test_defaults_of_named_tuples_change_too():
    wrong = mutant({"biased: bool = True": "biased: bool = False"}, "ops/linear.py")
    with planted(wrong):
        assert LinearCache(0, 0) == (0, 0, False)
        assert LinearCache._field_defaults == {"biased": False}
    assert LinearCache(0, 0) == (0, 0, True)
    assert LinearCache._field_defaults == {"biased": True}


def test_attributes_of_classes_change_too_for_those_who_inherit_them():
    class Learnt(SinusoidalPositions):
        pass

    with planted(mutant({'buffers = ("table",)': "buffers = ()"}, "layers/positions.py")):
        assert Learnt.buffers == ()
    assert Learnt.buffers == ("table",)


def test_constants_change_for_everyone_who_has_imported_them():
    right = wordpiece.SPECIAL_TOKENS
    wrong = mutant({'("[PAD]", ': "("}, "tasks/texts/wordpiece.py")
    with planted(wrong):
        assert masking.SPECIAL_TOKENS is wordpiece.SPECIAL_TOKENS
        assert masking.SPECIAL_TOKENS == right[1:]
    assert masking.SPECIAL_TOKENS is wordpiece.SPECIAL_TOKENS is right


def test_constants_that_are_imported_while_the_mistake_stands_are_put_right(monkeypatch):
    late = ModuleType("transformer_core.late")
    monkeypatch.setitem(sys.modules, late.__name__, late)
    with planted(mutant({'("[PAD]", ': "("}, "tasks/texts/wordpiece.py")):
        late.SPECIAL_TOKENS = wordpiece.SPECIAL_TOKENS
    assert late.SPECIAL_TOKENS is wordpiece.SPECIAL_TOKENS


def test_nothing_is_kept_that_was_computed_with_the_mistake():
    test_days = data.split_days().test
    with planted(mutant({'{0: "test"': '{1: "test"'}, "tasks/dates/data.py")):
        assert data.split_days().test != test_days
    assert data.split_days().test == test_days


def test_decorators_change_too():
    cached = data.split_days
    with planted(mutant({"@cache\n": ""}, "tasks/dates/data.py")):
        assert isfunction(data.split_days)
    assert data.split_days is cached


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
            {"dx = dweights - coupling": "dx = dweights", "weights - coupling": "weights"},
            "a-mutant: expected texts apart, two overlap in ops/softmax.py",
        ),
        (
            {"- coupling": "- scale"},
            "a-mutant: expected variables of ops/softmax.py, got {'scale'}",
        ),
        (
            {"import numpy as np\n": "import numpy as np  # NumPy\n"},
            "a-mutant: expected something to change, nothing did",
        ),
    ],
)
def test_a_mutant_that_does_not_fit_is_named(edits, message):
    with pytest.raises(ValueError, match=message), planted(mutant(edits)):
        pass


def test_a_mutant_that_cannot_be_planted_whole_is_named_and_leaves_nothing_behind():
    edits = {"float = 0.01": "float = 0.1", "super().update(name": "Adam.update(self, name"}
    wrong = mutant(edits, "optim/adamw.py")
    with pytest.raises(ValueError, match="a-mutant: .* free vars"), planted(wrong):
        pass
    assert AdamW({}).weight_decay == 0.01


@pytest.mark.slow
def test_nothing_is_found_in_the_right_package():
    assert fresh_check() is None
    assert generic_check(complex_step, 1e-12) is None
    assert generic_check(central_difference, 1e-7) is None
    assert broken_theorems() == []


@pytest.mark.slow
def test_nothing_is_found_where_there_is_no_mistake():
    with planted(NO_MISTAKE):
        assert not np.signbit(softmax_backward(DWEIGHTS, WEIGHTS)[0, 0])
        test_nothing_is_found_in_the_right_package()


@pytest.mark.slow
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


@pytest.mark.slow
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

"""What a small change of the reader's own functions puts right."""

from itertools import pairwise
from textwrap import dedent

import numpy as np
import pytest
from helpers.sources import run_with_source

from transformer_core import ops
from transformer_core.layers import FeedForward
from transformer_practice import examine
from transformer_practice.engine import repair, runs
from transformer_practice.engine.answer import Answer
from transformer_practice.engine.exercise import written_in
from transformer_practice.exercises import find_exercise
from transformer_practice.workspace.examined import examine_file


@pytest.fixture(autouse=True)
def time_enough(monkeypatch):
    monkeypatch.setattr(repair, "ENOUGH", 60.0)


def swapped_too_little(query, key, value, keep=None):
    weights, cache = ops.softmax(query @ key / np.sqrt(query.shape[-1]), keep)
    return weights @ value, (query, key, value, weights, cache)


def without_its_mask(query, key, value, keep=None):
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    weights, cache = ops.softmax(scores)
    return weights @ value, (query, key, value, weights, cache)


def side_by_side(x, weights, biases):
    count, d_in, d_out = weights.shape
    y = x @ weights.reshape(d_in, count * d_out) + biases.ravel()
    return np.moveaxis(y.reshape(*x.shape[:-1], count, d_out), -2, 0), x


def negative_start(length, window):
    keep = np.zeros((length, length), bool)
    for t in range(length):
        keep[t, t - window + 1 : t + 1] = True
    return keep


def without_their_signs(f, x, h=1e-20):
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[at] += 1j * h
        slopes[at] = np.abs(f(moved) - f(x)) / h
    return slopes


def lengths_added(sharded, replicated):
    def length(arrays):
        return float(np.linalg.norm(np.concatenate([np.zeros(0), *map(np.ravel, arrays)])))

    pieces = [array for rank in sharded for array in rank.values()]
    return length(pieces) + length(replicated.values())


@pytest.mark.parametrize(
    "exercise, forward, said",
    [
        ("attention", swapped_too_little, "`np.swapaxes(key, -1, -2)` replaced `key`"),
        (
            "attention",
            without_its_mask,
            "`keep` were added as an argument to `ops.softmax(scores)`",
        ),
        pytest.param(
            *("three_linear", side_by_side, "`np.swapaxes(weights, 0, 1)` replaced `weights`"),
            marks=pytest.mark.thorough,
        ),
        pytest.param(
            *("window_keep", negative_start, "`max(t - window + 1, 0)` replaced `t - window + 1`"),
            marks=pytest.mark.thorough,
        ),
        ("complex_step", without_their_signs, "`(f(moved) - f(x)).imag` replaced"),
        ("norm_over_ranks", lengths_added, "`np.hypot(length(pieces), length("),
    ],
)
def test_what_is_missing_is_said_with_its_line(exercise, forward, said):
    code = forward.__code__
    report = examine(exercise, forward)
    (found,) = [text for text in report.explanations if "right if, in line" in text]
    assert said in found and not report.right
    assert forward.__code__ is code


def test_two_changes_are_found_where_each_makes_something_better():
    def forward(x):
        shifted = x - x.max(axis=-1, keepdims=True)
        return shifted - 2 * np.log(np.exp(shifted).sum(axis=-1, keepdims=True)) - 0.5, shifted

    report = examine("log_softmax", forward)
    found = "".join(report.explanations)
    assert "were left out" in found and ", and " in found, report.explanations


@pytest.mark.thorough
def test_where_little_tells_changes_apart_several_are_said():
    def signed(forward, backward, x_shape, rng):
        x = rng.standard_normal(x_shape)
        y = forward(x)
        dy = rng.standard_normal(y.shape)
        left, right = np.vdot(y, dy), np.vdot(x, backward(dy))
        return bool(left - right < 1e-9 * (1 + abs(left)))

    (said, *_) = examine("is_adjoint", signed).explanations
    assert "`abs(left - right)` replaced `left - right`" in said and "\nOr if, in line" in said


WRONG_IN_BOTH = """
    import numpy as np


    def layer_norm(x, gamma, beta, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt(centred.var(axis=-1, keepdims=True, ddof=1) + eps)
        normal = centred / deviation
        return normal * gamma + beta, (normal, deviation, gamma)


    def layer_norm_backward(dy, cache):
        normal, deviation, gamma = cache
        g = dy * gamma
        term = normal * (g * normal).mean(axis=-1, keepdims=True)
        dx = (g - dy.mean(axis=-1, keepdims=True) - term) / deviation
        rows = tuple(range(dy.ndim - 1))
        return dx, (dy * normal).sum(axis=rows), dy.sum(axis=rows)
"""


def test_a_second_mistake_is_found_behind_a_forward_pass_that_can_be_mended(tmp_path):
    path = tmp_path / "answers.py"
    path.write_text(dedent(WRONG_IN_BOTH))
    (examined,) = examine_file(path, names={"layer_norm"})  # in a process of its own
    report = examined.report
    assert "with your forward pass fixed, dx is wrong, dgamma and dbeta are" in report.verdict
    assert report.mistakes[0] == "layer-norm-unbiased-variance"
    assert "dx would be right if, in line 16, `g` replaced `dy`" in "\n".join(report.explanations)


def test_what_reaches_beyond_its_process_is_left_as_it_is(tmp_path):
    def forward(x):
        with open(tmp_path / "log", "a") as file:
            file.write("run\n")
        return 2 * np.maximum(x, 0), x

    assert "right if" not in "".join(examine("relu", forward).explanations)


def test_what_has_no_source_is_left_as_it_is():
    space = {"np": np}
    exec("def forward(x):\n    return np.maximum(-x, 0), x", space)
    assert "right if" not in "".join(examine("relu", space["forward"]).explanations)


def test_changes_print_nothing(capsys):
    def forward(x):
        print("here")
        return 2 * np.maximum(x, 0), x

    examine("relu", forward)
    assert 0 < capsys.readouterr().out.count("here") < repair.CHANGES / 10


def test_no_number_that_is_large_becomes_an_exponent_or_a_size():
    def forward(x):
        large, power = 10**9, 2
        return np.maximum(x, 0) * power**power * (large > 0), x

    answer = Answer(find_exercise("relu"), forward)
    points = answer.exercise.points()
    search = repair.Search(answer, "forward", points, answer.runs().forward)
    said = [change.said for change in search.changes()]
    never = "`large` replaced", "`power` replaced `9`"
    assert said and not any(text.startswith(never) for text in said)


def test_more_wrong_is_worse():
    right = repair.Run({"y": np.arange(4.0)})
    errors = [
        repair.wrongness(repair.Run({"y": np.arange(4.0) + k}), right)["y"] for k in (0, 0.1, 2)
    ]
    assert errors[0] == 0 and all(one < other for one, other in pairwise(errors))
    assert repair.wrongness(repair.Run({}, "fails"), right) == {"y": 1.0}


@pytest.mark.thorough
def test_what_is_no_number_is_said_in_every_exercise():
    def combine(parts):
        total = sum(count for count, *_ in parts)
        names = parts[0][2].keys()
        return total, parts[0][1], {name: np.array([None]) for name in names}

    assert "expected" in str(examine("combine", combine))


@pytest.mark.thorough
def test_two_mistakes_at_different_points_are_both_found():
    def muon_scale(width_in, width_out, convention):
        if convention == "match_rms_adamw":
            return 0.2 * min(width_in, width_out) ** 0.5
        return (width_out / width_in) ** 0.5

    found = "".join(examine("muon_scale", muon_scale).explanations)
    assert "`min` were `max`" in found and ", and `max((width_out / width_in) ** 0.5, 1)`" in found


@pytest.mark.parametrize(
    "wrong, said",
    [
        ("A ** 2 @ x", "`A @ A` replaced `A ** 2`"),
        ("A @ A @ x / 2", "`/ 2` were left out of `A @ A @ x / 2`"),
    ],
)
def test_what_stands_for_something_else_is_found(wrong, said):
    space = {"np": np}
    code = f"""
def orthogonalize(matrix, iterations=5, coefficients=(3.4445, -4.7750, 2.0315)):
    norm = np.linalg.norm(matrix)
    x = matrix / np.where(norm == 0, 1, norm)
    for _ in range(iterations):
        A = x @ x.T
        a, b, c = coefficients
        x = a * x + b * (A @ x) + c * ({wrong})
    return x
"""
    run_with_source(code, space)
    assert said in "".join(examine("orthogonalize", space["orthogonalize"]).explanations)


@pytest.mark.thorough
def test_an_index_that_repeats_has_to_be_added_at():
    def embedding(ids, table):
        return table[ids], (ids, table.shape)

    def embedding_backward(dy, cache):
        ids, shape = cache
        dtable = np.zeros(shape, dy.dtype)
        dtable[ids] += 2 * dy
        return dtable

    found = "".join(examine("embedding", embedding, embedding_backward).explanations)
    assert "`2` were `1`" in found
    assert "and `np.add.at(dtable, ids, 2 * dy)` replaced `dtable[ids] += 2 * dy`" in found


OTHER = [
    (  # nor is the number scaled by the sum
        "drawn_tokens",
        """
def drawn_tokens(probabilities, numbers):
    return np.argmax(np.cumsum(probabilities, axis=-1) >= numbers[:, None], axis=-1)
""",
        ">= numbers[:, None]`, except at these points: a sum short of 1 by rounding; a sum short "
        "of 1, and the last impossible.",
    ),
    (
        "HeadTransform",
        """
class HeadTransform:
    def forward(self, h):
        u, dense = self.dense.forward(h)
        n, norm = self.norm.forward(u)
        y, active = self.activate(n)
        return y, (dense, norm, active)
""",
        "line 5, the functions of `self.norm.forward(u)` and `self.activate(n)` were swapped",
    ),
    (
        "complex_step",
        """
def complex_step(f, x, h=1e-20):
    moved = x.astype(complex)
    slopes = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        moved[at] += 1j * h
        slopes[at] = f(moved).imag / h
    return slopes
""",
        "`moved = x.astype(complex)` were in `for at in np.ndindex(x.shape):`, not before it",
    ),
    (
        "log_softmax",
        """
def log_softmax(x):
    shifted = x - np.max(x)
    y = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return y, y
""",
        "`axis=-1, keepdims=True` were added to `np.max(x)`",
    ),
    (
        "merge_attention",
        """
def merge_attention(output, log_sum_exp, other_output, other_log_sum_exp):
    top = np.maximum(log_sum_exp, other_log_sum_exp)
    base = np.where(top == -np.inf, 0, top)
    one, other = np.exp(log_sum_exp - base), np.exp(other_log_sum_exp - base)
    total = np.where(one + other == 0, 1, one + other)
    merged = one[..., None] * output + other[..., None] * other_output
    return merged / total[..., None], top
""",
        "`(top + np.log(total))` replaced `top`",
    ),
    (
        "power_iteration",
        """
def power_iteration(a, start, steps):
    v = start / np.linalg.norm(start)
    for _ in range(steps):
        v = a @ v
        v = v / np.linalg.norm(v)
    return np.linalg.norm(a @ v), v
""",
        "`v @ (a @ v)` replaced `np.linalg.norm(a @ v)`",
    ),
    (
        "shared_keys",
        """
def shared_keys(x, weights, ranks):
    which = np.arange(ranks) % len(weights)
    return np.einsum("btd,ndk->nbtk", x, weights[which]), None
""",
        "`np.arange(ranks) // (len(np.arange(ranks)) // len(weights))` replaced",
    ),
]


LONG = "merge_attention", "log_softmax", "drawn_tokens", "shared_keys"  # searches


@pytest.mark.parametrize(
    "exercise, code, said",
    [
        pytest.param(*each, id=each[0], marks=[pytest.mark.thorough] if each[0] in LONG else [])
        for each in OTHER
    ],
)
def test_what_may_be_missing_is_tried(exercise, code, said):
    space = {"np": np, "__name__": "own"}
    run_with_source(code, space)
    own = written_in(find_exercise(exercise), space)
    assert said in "".join(examine(exercise, *own).explanations)


@pytest.mark.thorough
def test_a_change_after_which_an_argument_is_not_read_is_no_explanation():
    def streaming_attention(query, key, value, block):
        block = min(block, len(key))
        top, total = np.full((len(query), 1), -np.inf), 0.0
        output = np.zeros((len(query), value.shape[1]))
        for b in range(len(key) // block):
            at = slice(b * block, (b + 1) * block)
            scores = query @ key[at].T / np.sqrt(key.shape[1])
            new = np.maximum(top, scores.max(axis=1, keepdims=True))
            shrink, weights = np.exp(top - new), np.exp(scores - new)
            total = shrink * total + weights.sum(axis=1, keepdims=True)
            output = shrink * output + weights @ value[at]
            top = new
        return output / total

    found = "".join(examine("streaming_attention", streaming_attention).explanations)
    assert "`-(-len(key) // block)` replaced `len(key) // block`" in found


@pytest.mark.thorough
def test_outputs_of_few_whole_numbers_are_not_explained_one_by_one(monkeypatch):
    monkeypatch.setattr(repair, "CHANGES", 60)  # one by one, two are explained by fewer
    monkeypatch.setattr(runs, "MUTATIONS", 0)

    def mask(ids, vocabulary, rng, share=0.15):
        masked = (rng.random(ids.shape) < share) & (ids >= 5)
        fate, inputs = rng.random(ids.shape), ids
        inputs[masked & (fate < 0.8)] = 4
        others = masked & (fate >= 0.8) & (fate < 0.9)
        inputs[others] = rng.integers(5, vocabulary, size=ids.shape)[others]
        return inputs, masked

    report = examine("mask", mask)
    assert not report.right and "would be right if" not in "".join(report.explanations)


@pytest.mark.thorough
def test_what_is_kept_in_self_belongs_in_the_cache():
    def forward(self, x, rng=None):
        hidden, self.first = self.hidden.forward(x)
        active, self.kept = self.activate(hidden)
        y, second = self.output.forward(active)
        return y, second

    def backward(self, dy, cache):
        self.seen = [dy]
        return FeedForward.backward(self, dy, cache)

    for passes, said in ((forward, None), "not in self"), ((None, backward), "changes nothing"):
        report = examine("FeedForward", *passes)
        assert [said in each for each in report.explanations] == [True]
        assert "changes the caller's self" in str(report)


def test_a_call_in_another_is_not_exchanged_with_it():
    def forward(x):
        return one(x).clip(0), x

    def one(x):
        return x.copy()

    changes = repair.changes_of([forward], {one.__code__: {}, forward.__code__: {}})
    exchanged = [change for change in changes if "each other's function" in change.said]
    assert not exchanged


@pytest.mark.thorough
def test_one_number_at_one_point_is_no_product_by_chance():
    def steps_to_half(x, coefficients):
        return max(0, int(np.ceil(np.log(0.5 / x) / np.log(coefficients[0]))))

    report = examine("steps_to_half", steps_to_half)
    assert not report.right and " times what it should be" not in "".join(report.explanations)


@pytest.mark.thorough
def test_a_number_in_an_exponent_stays_a_number():
    def count_bert_parameters(vocabulary, length, width, hidden, layers):
        total = (vocabulary + length) * width
        for _ in range(layers):
            total += 4 * width**2 + 2 * width * hidden + hidden + 3 * width
        return total + width * vocabulary  # it would be width**total, and so on in each round

    assert not examine("count_bert_parameters", count_bert_parameters).right

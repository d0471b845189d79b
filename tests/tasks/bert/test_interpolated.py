import numpy as np
import pytest

from transformer_core.tasks.bert.counts import frequencies
from transformer_core.tasks.bert.interpolated import PARTS, Interpolated, even_weights, interpolated
from transformer_core.tasks.bert.masking import mask, pack
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP

A, B, C, D, V = 5, 6, 7, 8, 9
BLOCKS = np.array([[CLS, A, B, C, A, B, C, SEP], [CLS, A, D, C, A, B, A, SEP]])


def chain(rng, blocks, vocabulary=40):
    """Text in which each token hangs on the one before."""
    follows = rng.dirichlet(np.full(vocabulary - 5, 0.05), vocabulary)
    tokens = [5]
    for _ in range(30 * blocks):
        tokens.append(5 + rng.choice(vocabulary - 5, p=follows[tokens[-1]]))
    return pack([tokens], 32)[:blocks]


def only(part):
    """Weights that leave one part and the frequencies, for cases that do not know it."""
    known = even_weights()[..., PARTS.index(part)] > 0
    weights = np.zeros_like(even_weights())
    weights[known, PARTS.index(part)] = 1
    weights[~known, PARTS.index("frequency")] = 1
    return weights


def at(*tokens):
    """One block with the token in the middle to restore."""
    inputs = np.array([[CLS, *tokens, SEP]])
    return inputs, np.arange(inputs.shape[1]) == 2 * np.ones((1, 1), int)


@pytest.mark.parametrize(
    "part, tokens, expected",
    [
        ("frequency", (A, MASK, C), [5, 3, 3, 1]),
        ("uniform", (A, MASK, C), [1, 1, 1, 1]),
        ("after", (A, MASK, C), [0, 3, 0, 1]),
        ("before", (A, MASK, C), [0, 2, 0, 1]),
        ("between", (A, MASK, C), [0, 2, 0, 1]),
        ("itself", (A, D, C), [0, 0, 0, 1]),
        ("after", (MASK, MASK, C), [5, 3, 3, 1]),  # unknown: the frequencies
        ("before", (A, MASK, MASK), [5, 3, 3, 1]),
        ("between", (D, MASK, D), [5, 3, 3, 1]),
        ("itself", (A, MASK, C), [5, 3, 3, 1]),
    ],
)
def test_each_part_by_hand(part, tokens, expected):
    (p,) = Interpolated(BLOCKS, V, only(part)).probabilities(*at(*tokens))
    assert np.allclose(p, np.append(np.zeros(5), expected) / sum(expected))


def test_probabilities_are_a_distribution(rng):
    blocks = chain(rng, 60)
    inputs, masked = mask(blocks[40:], 40, rng)
    model = Interpolated(blocks[:40], 40)
    for _ in range(2):
        p = model.probabilities(inputs, masked)
        assert p.shape == (masked.sum(), 40)
        assert p.min() >= 0 and np.allclose(p.sum(axis=1), 1)
        model.fit(inputs, blocks[40:], masked)
    assert (p[:, :5] == 0).all() and p[:, 5:].min() > 0


def test_weights_are_shares_of_what_a_case_knows(rng):
    blocks = chain(rng, 60)
    inputs, masked = mask(blocks[40:], 40, rng)
    model = Interpolated(blocks[:40], 40)
    model.fit(inputs, blocks[40:], masked)
    assert np.allclose(model.weights.sum(axis=-1), 1)
    assert (model.weights[even_weights() == 0] == 0).all()


def test_fitting_never_raises_the_loss(rng):
    blocks = chain(rng, 120)
    inputs, masked = mask(blocks[80:], 40, rng)
    model = Interpolated(blocks[:80], 40)
    losses = model.fit(inputs, blocks[80:], masked)
    assert (np.diff(losses) <= 1e-12).all() and losses[-1] < losses[0] - 0.1
    measured, _ = model.measure(inputs, blocks[80:], masked)
    assert measured.mean() <= losses[-1] + 1e-12


def test_the_loss_and_the_guess_are_those_of_the_probabilities(rng):
    blocks = chain(rng, 60)
    inputs, masked = mask(blocks, 40, rng, share=0.5)
    model = Interpolated(blocks, 40)
    losses, right = model.measure(inputs, blocks, masked)
    p, targets = model.probabilities(inputs, masked), blocks[masked]
    assert len(p) > 256  # more than are worked on at once
    assert np.allclose(losses, -np.log(p[np.arange(len(p)), targets]))
    assert np.array_equal(right, p.argmax(axis=1) == targets)


def test_it_beats_the_frequencies_on_text_that_it_has_not_counted(rng):
    counted, held_out = np.split(chain(rng, 520), [460])
    model = interpolated(counted, 40, rng)
    inputs, masked = mask(held_out, 40, rng)
    losses, right = model.measure(inputs, held_out, masked)
    shares, targets = frequencies(counted, 40), held_out[masked]
    assert losses.mean() < -np.log(shares[targets]).mean() - 0.5
    assert right.mean() > (shares.argmax() == targets).mean() + 0.1


def test_hidden_neighbours_are_not_counted():
    model = Interpolated(np.array([[A, B, MASK, D, C]]), V, only("after"))
    p = model.probabilities(*at(MASK, MASK, C))
    assert np.allclose(p, model.shares)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: Interpolated(BLOCKS, 8), "blocks: expected ids from 0 to 7, got 8"),
        (
            lambda: Interpolated(BLOCKS, V).probabilities(BLOCKS + 1, BLOCKS > 4),
            "inputs: expected ids from 0 to 8, got 9",
        ),
        (
            lambda: Interpolated(BLOCKS, V).measure(BLOCKS, BLOCKS, BLOCKS > 9),
            "masked: expected at least one masked token, got none",
        ),
        (
            lambda: Interpolated(BLOCKS, V).fit(BLOCKS, BLOCKS, BLOCKS > 1),
            "targets: expected masked tokens, none of them special",
        ),
        (
            lambda: interpolated(BLOCKS, V, np.random.default_rng(0)),
            "blocks: expected more than 450, got 2",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

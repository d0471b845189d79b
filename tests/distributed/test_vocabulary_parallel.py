"""The vocabulary over ranks: the look-up, the logits and the loss are those of one rank."""

import numpy as np
import pytest
from helpers.witnesses import assert_close, normal

from transformer_core.distributed import (
    ParallelReadout,
    VocabularyEmbedding,
    conjugate_pair,
    vocabulary_cross_entropy,
    vocabulary_cross_entropy_backward,
)
from transformer_core.layers import Embedding, OwnReadout, TiedReadout
from transformer_core.ops import cross_entropy, cross_entropy_backward
from transformer_core.ranks import on_threads

SIZES = [1, 2, 3, 4]
V, D = 7, 5


def embedding_of(table, c):
    """Cut an embedding."""
    whole = Embedding(V, D, np.random.default_rng(1), dtype=float)
    whole.table = table
    return VocabularyEmbedding(whole, conjugate_pair(c)[1], c)


@pytest.mark.equation("eq:vocabulary-parallel")
@pytest.mark.parametrize("size", SIZES)
def test_rows_of_all_ranks_make_up_the_table(rng, size):
    table, ids = normal(rng, (V, D)), rng.integers(V, size=(3, 4))
    drows = normal(rng, (3, 4, D))
    expected = np.zeros_like(table)
    np.add.at(expected, ids, drows)

    def work(c):
        layer = embedding_of(table, c)
        rows, cache = layer.forward(ids)
        _, grads = layer.backward(drows, cache)
        return rows, c.all_gather(grads["table"])

    for rows, dtable in on_threads(size, work):
        np.testing.assert_array_equal(rows, table[ids])
        np.testing.assert_allclose(dtable, expected, atol=1e-14)


def test_an_id_that_no_rank_has_is_refused(rng):
    table = normal(rng, (V, D))
    with pytest.raises(ValueError, match="ids: expected ids from 0 to 6, got 7"):
        on_threads(2, lambda c: embedding_of(table, c).forward(np.array([V])))


@pytest.mark.equation("eq:column-parallel")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "own"])
@pytest.mark.parametrize("size", SIZES)
def test_logits_of_all_ranks_make_up_those_of_one(rng, size, tied):
    h, dlogits = normal(rng, (3, D)), normal(rng, (3, V))
    table, weight, bias = normal(rng, (V, D)), normal(rng, (D, V)), normal(rng, V)

    whole = TiedReadout(V, float) if tied else OwnReadout(D, V, np.random.default_rng(1), float)
    whole.set_parameters({"bias": bias} if tied else {"weight": weight, "bias": bias})
    expected, cache = whole.forward(h, table)
    dh, dtable, grads = whole.backward(dlogits, cache)

    def work(c):
        words = c.bounds(V)[c.rank]
        layer = ParallelReadout(whole, conjugate_pair(c)[0], c)
        assert layer.parameters().keys() == whole.parameters().keys()
        logits, cache = layer.forward(h, table[words])
        dh, dtable, grads = layer.backward(dlogits[:, words], cache)
        found = {"h": dh, "bias": c.all_gather(grads["bias"])}
        if tied:
            found["table"] = c.all_gather(dtable)
        else:
            found["weight"] = c.all_gather(grads["weight"], axis=1)
        return c.all_gather(logits, axis=1), found

    gradients = {"h": dh} | grads | ({"table": dtable} if tied else {})
    for logits, found in on_threads(size, work):
        np.testing.assert_allclose(logits, expected, atol=1e-13)
        assert_close(found, gradients, 1e-13)


def loss_of(size, logits, targets, dloss=1.0):
    """Run both passes on ranks; return their losses, the whole gradient, and what was sent."""

    def work(c):
        words = c.bounds(logits.shape[-1])[c.rank]
        loss, cache = vocabulary_cross_entropy(logits[..., words], targets, logits.shape[-1], c)
        sent = sum(traffic.bytes for traffic in c.sent.values())
        dlogits = vocabulary_cross_entropy_backward(dloss, cache)
        assert sent == sum(traffic.bytes for traffic in c.sent.values())
        return loss, dlogits, sent

    losses, dlogits, sent = zip(*on_threads(size, work), strict=True)
    return losses, np.concatenate(dlogits, -1), sum(sent)


@pytest.mark.equation("eq:vocabulary-cross-entropy")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("spread", [1.0, 400.0], ids=["near", "far apart"])
def test_the_loss_and_its_gradient_are_those_of_one_rank(rng, size, spread):
    logits, targets = normal(rng, (3, 2, V)) * spread, rng.integers(V, size=(3, 2))
    expected, cache = cross_entropy(logits, targets)
    losses, dlogits, _ = loss_of(size, logits, targets, 0.7)
    assert len(set(losses)) == 1
    assert losses[0] == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(dlogits, cross_entropy_backward(0.7, cache), rtol=1e-12, atol=1e-16)


@pytest.mark.equation("eq:vocabulary-cross-entropy-backward")
@pytest.mark.parametrize("size", [2, 3])
def test_gradient_agrees_with_the_witnesses(check, rng, size):
    logits = normal(rng, (2, V)).astype(check.witness.dtype)
    targets = np.array([V - 1, 0])

    def forward():
        losses, _, _ = loss_of(size, logits, targets)
        return losses[-1], None

    check.compare(
        forward,
        lambda dloss, _: {"logits": loss_of(size, logits, targets, dloss)[1]},
        {"logits": logits},
    )


@pytest.mark.parametrize("size", SIZES)
def test_three_numbers_a_position_are_sent(rng, size):
    logits, targets = normal(rng, (5, V)), rng.integers(V, size=5)
    _, _, sent = loss_of(size, logits, targets)
    assert sent == 2 * (size - 1) * 3 * 5 * logits.itemsize


def test_a_word_that_is_ruled_out_has_no_share(rng):
    logits, targets = normal(rng, (4, V)), np.array([0, 1, 2, 3])
    logits[:, -2:] = -np.inf  # all words of the last of four ranks
    expected, cache = cross_entropy(logits, targets)
    losses, dlogits, _ = loss_of(4, logits, targets)
    assert losses[0] == pytest.approx(expected)
    np.testing.assert_allclose(dlogits, cross_entropy_backward(1, cache), atol=1e-15)


@pytest.mark.parametrize(
    "logits, targets, message",
    [
        (np.ones((2, 3)), np.array([0, 1]), r"logits: expected shape \(..., 4\)"),
        (np.ones((2, 4)), np.array([0, 7]), "targets: expected ids from 0 to 6, got 7"),
        (np.ones((2, 4)), np.array([0]), r"targets: expected shape \(2\), got \(1,\)"),
        (np.ones((2, 4), int), np.array([0, 1]), "logits: expected floating-point"),
    ],
)
def test_what_does_not_fit_is_refused(logits, targets, message):
    def work(c):
        vocabulary_cross_entropy(logits[:, : 3 + c.rank], targets, V, c)

    with pytest.raises(ValueError, match=message):
        on_threads(2, lambda c: work(c) if c.rank else c.barrier())

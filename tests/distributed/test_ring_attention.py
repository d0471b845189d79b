"""Keys and values that go round: one rank's outputs and gradients, and what is sent."""

import numpy as np
import pytest
from helpers.witnesses import causal

from transformer_core.distributed import ring_attention, ring_attention_backward
from transformer_core.gradient_check import check_gradients, complex_step
from transformer_core.ops import attention, attention_backward
from transformer_core.ops.dropout import DropoutCache
from transformer_core.ops.tiled_attention import tiles
from transformer_core.ranks import on_threads

SIZES = [1, 2, 3, 4]
T, WIDTHS = 12, (3, 5)
MASKS = {
    "none": None,
    "causal": causal(T),
    "scattered": np.random.default_rng(5).random((2, 1, T, T)) < 0.4,
    "one column": np.arange(T)[:, np.newaxis] > 3,
}


def draw(rng, heads=4, key_heads=2):
    """Draw query, key, value and a cotangent of the output."""
    key_width, value_width = WIDTHS
    shapes = (
        (heads, T, key_width),
        (key_heads, T, key_width),
        (key_heads, T, value_width),
        (heads, T, value_width),
    )
    return [rng.normal(size=(2, *shape)) for shape in shapes]


def piece(array, c):
    """The positions of a rank."""
    return np.split(array, c.size, axis=-2)[c.rank]


def on_ring(size, query, key, value, doutput=None, keep=None, rate=0, seed=None):
    """Run the passes on ranks; return output, gradients, caches and what was sent."""

    def work(c):
        rows = keep if keep is None else piece(keep, c)
        rng = None if seed is None else np.random.default_rng((seed, c.rank))
        given = [piece(array, c) for array in (query, key, value)]
        output, cache = ring_attention(*given, c, rows, rate, rng, 2)
        forward = c.sent.pop("ring").bytes if c.sent else 0
        gradients = ()
        if doutput is not None:
            gradients = ring_attention_backward(piece(doutput, c), cache, c)
        backward = c.sent.pop("ring").bytes if c.sent else 0
        return (output, *gradients), cache, (forward, backward)

    arrays, caches, sent = zip(*on_threads(size, work), strict=True)
    whole = [np.concatenate(pieces, axis=-2) for pieces in zip(*arrays, strict=True)]
    return whole, caches, np.sum(sent, axis=0)


@pytest.mark.equation("eq:ring-attention")
@pytest.mark.equation("eq:ring-attention-backward")
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("size", SIZES)
def test_outputs_and_gradients_are_those_of_one_rank(rng, size, mask):
    query, key, value, doutput = draw(rng)
    output, cache = attention(query, key, value, MASKS[mask])
    expected = output, *attention_backward(doutput, cache)
    found, _, _ = on_ring(size, query, key, value, doutput, MASKS[mask])
    for one, other in zip(found, expected, strict=True):
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.thorough
@pytest.mark.equation("eq:ring-attention-backward")
def test_gradients_agree_with_the_complex_step(rng):
    *given, doutput = draw(rng, 1, 1)
    arrays = dict(zip(("query", "key", "value"), (a.astype(complex) for a in given), strict=True))
    how = {"keep": MASKS["scattered"], "rate": 0.3, "seed": 7}

    def loss():
        return (doutput * on_ring(3, **arrays, **how)[0][0]).sum()

    gradients = dict(zip(arrays, on_ring(3, **arrays, doutput=doutput, **how)[0][1:], strict=True))
    errors = check_gradients(loss, arrays, gradients, complex_step)
    assert all(error.norm < 1e-12 for error in errors.values())


def test_what_the_ranks_drop_is_drawn_again(rng):
    size, rate = 3, 0.3
    query, key, value, doutput = draw(rng, 2, 2)
    (output, *gradients), caches, _ = on_ring(size, query, key, value, doutput, rate=rate, seed=7)
    n = T // size
    mask = np.zeros((2, 2, T, T), bool)
    for rank, cache in enumerate(caches):
        for step, tiling in enumerate(cache.tilings):
            part = mask[..., rank * n :, (rank - step) % size * n :]
            for rows, columns, scores, draws in tiles(tiling):
                part[..., rows, columns] = draws.random(scores[:, :, 0].shape, np.float32) >= rate
    _, plain = attention(query, key, value)
    plain = plain._replace(dropout=DropoutCache(mask, rate))
    assert np.allclose(output, plain.weights * mask / (1 - rate) @ value, rtol=1e-12)
    for one, other in zip(gradients, attention_backward(doutput, plain), strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.equation("eq:ring-bytes")
@pytest.mark.parametrize("size", SIZES)
def test_bytes_are_those_of_the_formula(rng, size):
    query, key, value, doutput = draw(rng)
    _, _, (forward, backward) = on_ring(size, query, key, value, doutput)
    both = key.nbytes + value.nbytes
    assert forward == (size - 1) * both
    assert backward == ((size - 1) + size * (size > 1)) * both


def test_a_rank_keeps_no_keys_but_its_own(rng):
    query, key, value, doutput = draw(rng)
    _, caches, _ = on_ring(4, query, key, value, doutput)
    for cache in caches:
        assert {tiling.key.shape[-2] for tiling in cache.tilings} == {T // 4}
        assert len({id(tiling.key) for tiling in cache.tilings}) == 1


def test_pieces_of_other_lengths_and_masks_that_do_not_fit_are_named(rng):
    query, key, value, _ = draw(rng)

    def unequal(c):
        ring_attention(query, key[:, :, : 3 + c.rank], value[:, :, : 3 + c.rank], c)

    with pytest.raises(Exception, match=r"expected float64 .* from rank"):
        on_threads(2, unequal)
    with pytest.raises(ValueError, match=r"keep: expected .* \(2, 4, 12, 24\), got \(12, 12\)"):
        on_threads(2, lambda c: ring_attention(query, key, value, c, causal(T)))

import numpy as np
import pytest
from helpers.witnesses import generators, sizes
from hypothesis import given

from transformer_core.ops import merge_heads, split_heads
from transformer_core.ops.heads import check_heads


@pytest.mark.equation("eq:split-heads")
@given(generators, sizes, sizes, sizes, sizes)
def test_split_and_merge_are_inverse(rng, batch, heads, length, width):
    x = rng.normal(size=(batch, length, heads * width))
    assert np.array_equal(merge_heads(split_heads(x, heads)), x)
    parts = rng.normal(size=(batch, heads, length, width))
    assert np.array_equal(split_heads(merge_heads(parts), heads), parts)


@pytest.mark.equation("eq:split-heads")
@given(generators, sizes, sizes, sizes, sizes)
def test_a_head_is_a_slice_of_the_width(rng, batch, heads, length, width):
    x = rng.normal(size=(batch, length, heads * width))
    parts = split_heads(x, heads)
    assert parts.shape == (batch, heads, length, width)
    for head in range(heads):
        columns = slice(head * width, (head + 1) * width)
        assert np.array_equal(parts[:, head], x[:, :, columns])


@pytest.mark.equation("eq:split-heads")
@given(generators, sizes, sizes, sizes, sizes)
def test_each_is_the_backward_pass_of_the_other(rng, batch, heads, length, width):
    x = rng.normal(size=(batch, length, heads * width))
    dparts = rng.normal(size=(batch, heads, length, width))
    along_x = (merge_heads(dparts) * x).sum()
    along_parts = (dparts * split_heads(x, heads)).sum()
    assert np.isclose(along_x, along_parts, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_dtype_is_kept(dtype):
    parts = split_heads(np.ones((2, 3, 4), dtype), 2)
    assert parts.dtype == merge_heads(parts).dtype == dtype


def test_split_is_a_view(rng):
    x = rng.normal(size=(2, 3, 4))
    assert np.shares_memory(split_heads(x, 2), x)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: split_heads(np.ones((2, 3, 4)), 3), "a divisor of the width 4, got 3"),
        (lambda: split_heads(np.ones((2, 3, 4)), 0), "heads: .* at least 1, got 0"),
        (lambda: split_heads(np.ones((2, 3, 4)), 2.0), "heads: .* got 2.0"),
        (lambda: split_heads(np.ones((3, 4)), 2), r"x: .* \(B, T, D\), got \(3, 4\)"),
        (lambda: merge_heads(np.ones((2, 3, 4))), r"\(B, H, T, d_k\), got \(2, 3, 4\)"),
        (lambda: check_heads(6, 4), "heads: expected a divisor of the width 6, got 4"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()

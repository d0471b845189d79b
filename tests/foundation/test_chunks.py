import numpy as np
import pytest

from transformer_core.foundation.chunks import CHUNK, chunks

SHAPES = [(3, CHUNK - 1), (2 * CHUNK + 1,), (1, 2 * CHUNK), (300, 50, 40), (7,), ()]


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_cover_every_entry_once(shape):
    array = np.zeros(shape)
    names, parts = chunks({"a": array})
    assert names == ["a"] * len(parts)
    for part in parts:
        part += 1
        assert np.shares_memory(part, array)
    assert (array == 1).all()


def test_chunks_are_small_but_for_rows_that_are_not():
    _, parts = chunks({"a": np.zeros((300, 50, 40)), "b": np.zeros((3, 2 * CHUNK))})
    assert {part.size <= CHUNK for part in parts if part.ndim == 3} == {True}
    assert [part.shape for part in parts if part.ndim == 2] == [(1, 2 * CHUNK)] * 3


def test_all_groups_are_cut_in_the_same_places(rng):
    table = rng.normal(size=(40, CHUNK // 10))
    left = {"table": table, "bias": np.ones(3)}
    right = {"bias": np.full(3, 2.0), "table": 2 * np.asfortranarray(table)}
    names, left_parts, right_parts = chunks(left, right)
    assert names == ["table"] * 4 + ["bias"]
    for one, other in zip(left_parts, right_parts, strict=True):
        assert np.array_equal(2 * one, other)


def test_nothing_makes_no_chunks():
    assert chunks({}) == ([], [])

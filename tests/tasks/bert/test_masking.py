import numpy as np
import pytest
from helpers.witnesses import generators
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.tasks.bert.masking import mask, masked_batches, pack
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP, SPECIAL_TOKENS

V = 50
SPECIALS = len(SPECIAL_TOKENS)


def blocks(rng, count=20, length=16):
    documents = [
        rng.integers(SPECIALS, V, rng.integers(1, 30)).tolist() for _ in range(count * length // 8)
    ]
    return pack(documents, length)[:count]


# Packing


def test_documents_are_packed_in_order():
    packed = pack([[10, 11, 12], [13], [14, 15, 16, 17], [18]], 5)
    assert packed.tolist() == [
        [CLS, 10, 11, 12, SEP],
        [CLS, SEP, 13, SEP, SEP],
        [CLS, 14, 15, 16, SEP],
        [CLS, 17, SEP, 18, SEP],
    ]


def test_what_does_not_fill_a_block_is_dropped():
    assert pack([[10, 11, 12, 13]], 5).tolist() == [[CLS, 10, 11, 12, SEP]]
    assert pack([[10, 11, 12]], 5).tolist() == [[CLS, 10, 11, 12, SEP]]


@pytest.mark.parametrize("wrong", [-1, 2**31, 2**40, 2**70, 1.5])
def test_ids_that_no_block_can_hold_are_named(wrong):
    with pytest.raises(ValueError, match="documents: expected"):
        pack([[10, 11, 12], [13, wrong]], 5)


# Masking


@given(generators, st.integers(1, 5), st.integers(1, 9), st.floats(0.01, 1))
def test_only_tokens_that_are_not_special_are_drawn_at_least_one(rng, B, T, share):
    ids = rng.integers(0, V, (B, T))
    ids[0, 0] = SPECIALS
    before = ids.copy()
    inputs, masked = mask(ids, V, rng, share)
    assert (ids == before).all()
    assert inputs.shape == masked.shape == ids.shape
    assert masked.dtype == bool
    assert masked.any()
    assert (ids[masked] >= SPECIALS).all()
    assert (inputs[~masked] == ids[~masked]).all()
    replaced = inputs[masked & (inputs != MASK)]
    assert ((SPECIALS <= replaced) & (replaced < V)).all()


def test_fifteen_of_a_hundred_are_drawn_and_eighty_ten_ten_is_their_fate(rng):
    ids = rng.integers(SPECIALS, V, (400, 500))
    inputs, masked = mask(ids, V, rng)
    assert np.isclose(masked.mean(), 0.15, atol=0.003)
    hidden = (inputs == MASK)[masked].mean()
    same = (inputs == ids)[masked].mean()
    assert np.isclose(hidden, 0.8, atol=0.01)
    assert np.isclose(same, 0.1 + 0.1 / (V - SPECIALS), atol=0.007)
    # Every token takes the place of another equally often.
    taken = inputs[masked & (inputs != MASK) & (inputs != ids)]
    counts = np.bincount(taken, minlength=V)[SPECIALS:]
    assert counts.std() < 3 * np.sqrt(counts.mean() / 2)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_ids_of_every_dtype_are_masked_alike(dtype):
    ids = np.arange(SPECIALS, 128).reshape(3, 41)
    expected, narrow = (
        mask(some, 100_000, np.random.default_rng(0), share=0.9)
        for some in (ids, ids.astype(dtype))
    )
    assert expected[0].max() > 2**16
    assert all(np.array_equal(a, b) for a, b in zip(expected, narrow, strict=True))


def test_the_one_token_that_is_always_drawn_may_be_any(rng):
    ids = np.array([[CLS, 7, 8, SEP, 9, SEP]])
    drawn = [mask(ids, V, rng, share=1e-12)[1] for _ in range(100)]
    assert all(masked.sum() == 1 for masked in drawn)
    assert np.sum(drawn, axis=0)[ids >= SPECIALS].min() > 15


def test_another_draw_masks_other_tokens_and_the_same_generator_the_same():
    ids = blocks(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    first, again = mask(ids, V, rng), mask(ids, V, rng)
    assert not np.array_equal(first[1], again[1])
    same = mask(ids, V, np.random.default_rng(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, same, strict=True))


def test_all_tokens_can_be_masked(rng):
    ids = blocks(rng)
    _, masked = mask(ids, V, rng, share=1)
    assert np.array_equal(masked, ids >= SPECIALS)


# Batches


def take(batches, count):
    return [next(batches) for _ in range(count)]


def test_a_pass_brings_every_block_once_in_another_order_each_time(rng):
    packed = blocks(rng)
    targets = [ids for _, ids, _ in take(masked_batches(packed, 5, V, seed=3), 8)]
    first, second = np.concatenate(targets[:4]), np.concatenate(targets[4:])
    assert not np.array_equal(first, second)
    for one in (first, second):
        assert sorted(one.tolist()) == sorted(packed.tolist())


def test_the_batches_of_a_step_depend_on_the_seed_and_the_step_alone(rng):
    packed = blocks(rng)
    whole = take(masked_batches(packed, 3, V, seed=3), 20)
    late = take(masked_batches(packed, 3, V, seed=3, first=12), 9)
    other = take(masked_batches(packed, 3, V, seed=4), 20)
    for one, another in zip(whole[11:], late, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, another, strict=True))
    assert any(not np.array_equal(a[1], b[1]) for a, b in zip(whole, other, strict=True))


def test_no_two_steps_of_any_seeds_mask_alike(rng):
    packed = blocks(rng, count=1, length=200)
    masks = {
        masked.tobytes()
        for seed in range(4)
        for _, _, masked in take(masked_batches(packed, 1, V, seed), 40)
    }
    assert len(masks) == 4 * 40


def test_no_two_passes_of_any_seeds_have_one_order(rng):
    packed = blocks(rng)
    orders = {
        ids.tobytes()
        for seed in range(4)
        for _, ids, _ in take(masked_batches(packed, len(packed), V, seed), 20)
    }
    assert len(orders) == 4 * 20


def test_batches_mask_the_share_asked_for(rng):
    packed = blocks(rng, length=100)
    for share in (0.05, 0.5):
        batches = take(masked_batches(packed, 10, V, seed=3, share=share), 10)
        drawn = sum(masked.sum() for _, _, masked in batches)
        possible = sum((ids >= SPECIALS).sum() for _, ids, _ in batches)
        assert drawn / possible == pytest.approx(share, rel=0.1)


IDS = np.array([[CLS, 7, 8, SEP]])


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda rng: mask(IDS[:, [0, 3]], V, rng),
            "ids: expected a token to mask, got only special tokens",
        ),
        (lambda rng: mask(IDS, 8, rng), "ids: expected ids from 0 to 7, got 8"),
        (lambda rng: pack([[7, 8]], 5), "documents: expected at least 3 tokens, got 2"),
        (
            lambda rng: next(masked_batches(IDS, 2, V, 0)),
            "size: expected at most the 1 blocks, got 2",
        ),
    ],
)
def test_bad_input_is_named(rng, call, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        call(rng)

from dataclasses import replace

import numpy as np
import pytest

from transformer_core.layers import AttentionSpec
from transformer_core.ops import cross_entropy
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.bert.mini_bert import SPEC, fill_masks, measure, mini_bert, rotation
from transformer_core.tasks.texts.wordpiece import CLS, MASK, SEP, token_ids, train_wordpiece


def small(width, heads):
    attention = AttentionSpec(heads, bias=False)
    spec = replace(SPEC, width=width, attention=attention, hidden_width=16)
    return {"spec": spec, "length": 12, "layers": 1}


SMALL = small(8, 2)
TEXTS = ["cats chase mice and mice eat cheese", "the cat chases a mouse"] * 3


@pytest.fixture(scope="module")
def tokenizer():
    return train_wordpiece(TEXTS, 40)


@pytest.fixture
def bert(rng):
    model = mini_bert(rng.dirichlet(np.ones(40)), rng, **SMALL)
    for array in model.parameters().values():
        array += rng.normal(0, 0.3, array.shape).astype(array.dtype)
    return model


def test_the_whole_model_has_the_number_of_parameters_that_the_book_counts(rng):
    sizes = {
        name: array.size
        for name, array in mini_bert(np.full(8192, 1 / 8192), rng).parameters().items()
    }
    assert sizes["tokens.table"] == 8192 * 192
    assert "readout.weight" not in sizes
    assert sum(sizes.values()) == 2_926_400


def test_it_starts_with_the_frequencies(rng):
    """Hidden states are small against the bias, so the first answers are the frequencies."""
    shares = np.append(np.zeros(5), rng.dirichlet(np.full(35, 0.3)))
    model = mini_bert(shares, rng, **SMALL)
    ids = rng.integers(5, 40, (3, 12))
    logits, _ = model.forward(ids, ids > 0)
    p = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert np.allclose(p.mean(axis=0), shares, atol=0.03)
    assert np.isfinite(model.readout.bias).all()


def test_positions_start_orthogonal_and_of_the_size_of_the_embeddings(rng):
    model = mini_bert(np.ones(4000), rng)
    positions, tokens = model.positions.table, model.tokens.table
    size = (tokens**2).sum(axis=1).mean()
    assert np.allclose(positions @ positions.T, size * np.eye(64), atol=0.02 * size)


@pytest.mark.parametrize("shift", [-3, -1, 1, 2])
def test_a_rotation_shifts_positions(shift):
    frequencies = np.array([0.3, 1.1, 2.9])
    angles = np.outer(np.arange(-3, 9), frequencies)
    positions = np.stack([np.sin(angles), np.cos(angles)], axis=-1).reshape(12, 6)
    rows = np.arange(3, 9)
    shifted = positions[rows] @ rotation(shift * frequencies)
    assert np.allclose(shifted, positions[rows + shift], atol=1e-14)


def test_heads_start_with_their_eyes_on_a_neighbour(rng):
    model = mini_bert(np.ones(4000), rng)
    ids = rng.permutation(4000)[: 8 * 64].reshape(8, 64)
    _, cache = model.forward(ids, ids > 0)
    weights = cache.encoder.layers[0].attention.branch.attention.weights.mean(axis=0)
    for head, shift in enumerate((-1, 1, -2, 2)):
        assert np.diagonal(weights[head], shift).mean() > 0.4


def test_any_number_of_heads_has_neighbours_to_look_at(rng):
    for heads in (1, 3):
        model = mini_bert(np.ones(40), rng, **small(6, heads))
        assert model.parameters().keys()


@pytest.mark.parametrize(
    "shares, settings, message",
    [
        ([0.5, np.nan], {}, r"shares: expected finite ones from 0 up, got \[0.5 nan\]"),
        ([0.5, np.inf], {}, "shares: expected finite ones from 0 up, got .* inf"),
        ([1.5, -0.5], {}, r"shares: expected .* from 0 up, got \[ 1.5 -0.5\]"),
        ([0.0, 0.0], {}, r"shares: expected .* from 0 up, got \[0. 0.\]"),
        ([0.5, 0.5], small(9, 3), "width: expected an even .* got 9"),
    ],
)
def test_what_no_model_can_start_from_is_named(rng, shares, settings, message):
    with pytest.raises(ValueError, match=message):
        mini_bert(np.array(shares), rng, **SMALL | settings)


@pytest.mark.parametrize("together", [1, 2, 16])
def test_the_measure_is_that_of_all_masked_tokens_together(rng, bert, together):
    ids = rng.integers(5, 40, (5, 12))
    inputs, masked = mask(ids, 40, rng, share=0.3)
    masked[2] = False
    logits, _ = bert.forward(inputs, masked)
    loss, _ = cross_entropy(logits, ids[masked])
    right = (logits.argmax(axis=-1) == ids[masked]).mean()
    measured = measure(bert, inputs, ids, masked, together)
    assert measured == pytest.approx((loss, right), rel=1e-5)


def test_the_measure_holds_where_probabilities_underflow(rng, bert):
    bert.readout.bias[7] = 400
    ids = np.where(np.arange(36) % 2, 7, 8).reshape(3, 12)
    inputs, masked = mask(ids, 40, rng, share=0.5)
    logits, _ = bert.forward(inputs, masked)
    loss, _ = cross_entropy(logits, ids[masked])
    assert np.isfinite(loss) and loss > 100
    assert measure(bert, inputs, ids, masked)[0] == pytest.approx(loss, rel=1e-5)


IDS = np.arange(5, 29).reshape(2, 12)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"targets": IDS + 12}, "targets: expected ids from 0 to 39, got 40"),
        ({"targets": IDS - 6}, "targets: expected ids from 0 to 39, got -1"),
        ({"inputs": IDS + 12}, "ids: expected ids from 0 to 39, got 40"),
        ({"masked": IDS < 0}, "masked: expected at least one masked token, got none"),
    ],
)
def test_what_cannot_be_measured_is_named(bert, change, message):
    arguments = {"inputs": IDS, "targets": IDS, "masked": IDS > 4} | change
    with pytest.raises(ValueError, match=f"^{message}$"):
        measure(bert, **arguments)


def test_fill_gives_the_most_probable_pieces_of_each_mask(bert, tokenizer):
    sentence = "Cats [MASK] mice and [MASK] cheese"
    answers = fill_masks(bert, tokenizer, sentence, top=40)
    (ids,) = token_ids(tokenizer, [sentence])
    ids = np.array([[CLS, *ids, SEP]])
    logits, _ = bert.forward(ids)
    assert len(answers) == 2
    for answer, row in zip(answers, logits[ids == MASK], strict=True):
        words, probabilities = zip(*answer, strict=True)
        assert list(probabilities) == sorted(probabilities, reverse=True)
        assert sum(probabilities) == pytest.approx(1, abs=1e-5)
        assert words[0] == tokenizer.id_to_token(int(row.argmax()))
        assert set(words) == set(tokenizer.get_vocab())
    assert fill_masks(bert, tokenizer, sentence, top=3) == [answer[:3] for answer in answers]


def test_the_longest_sentence_fits(bert, tokenizer):
    assert len(fill_masks(bert, tokenizer, " ".join(["[MASK]"] * 10))) == 10


@pytest.mark.parametrize(
    "sentence, message",
    [
        ("Cats chase mice", r"expected a \[MASK\], got 'Cats chase mice'"),
        ("", r"expected a \[MASK\], got ''"),
        ("[MASK] " * 11, "expected at most 10 pieces of words, got 11"),
        ("[MASK] \udcff", r"expected Unicode .*, got '\[MASK\] \\udcff'"),
    ],
)
def test_what_cannot_be_filled_is_named(bert, tokenizer, sentence, message):
    with pytest.raises(ValueError, match=message):
        fill_masks(bert, tokenizer, sentence)

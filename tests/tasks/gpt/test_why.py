"""Two questions about the tokens before one: each against what it is defined by."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.ops import log_softmax
from transformer_core.tasks.gpt.why import changes_without, gradient_lengths

IDS = np.array([3, 7, 3, 0, 5, 7, 9])


@pytest.fixture(params=["rotary_halves", None], ids=["rotary", "learned"])
def gpt(request):
    """A GPT at a generic point, in float64."""
    attention = AttentionSpec(4, bias=False, key_heads=2, transform=request.param)
    norm = NormSpec("rms_norm")
    spec = LayerSpec(16, attention, 24, "pre", norm, "swiglu", dtype="float64")
    rng = np.random.default_rng(0)
    made = Gpt(spec, StackSpec(11, 8, 2), rng)
    for array in made.parameters().values():
        array += 0.3 * rng.normal(size=array.shape)
    return made


def log_p(gpt, ids):
    """ln p of the last token, by one forward pass over the others."""
    return log_softmax(gpt.forward(ids[np.newaxis, :-1])[0])[0, -1, ids[-1]]


@pytest.mark.equation("eq:why-gradient")
def test_lengths_are_those_of_difference_quotients(gpt, monkeypatch):
    embed, h = gpt.embed, 1e-5
    gradient = np.empty((len(IDS) - 1, 16))
    for s, d in np.ndindex(gradient.shape):
        ends = []
        for sign in (1, -1):

            def moved(ids, rng=None, sign=sign, s=s, d=d):
                x, cache = embed(ids, rng)
                x[0, s, d] += sign * h
                return x, cache

            monkeypatch.setattr(gpt, "embed", moved)
            ends.append(log_p(gpt, IDS))
        gradient[s, d] = (ends[0] - ends[1]) / (2 * h)
    monkeypatch.undo()
    lengths = gradient_lengths(gpt, IDS)
    assert (lengths > 0.01).all()
    assert_allclose(lengths, np.linalg.norm(gradient, axis=1), rtol=1e-7)


@pytest.mark.equation("eq:why-ablation")
def test_changes_are_those_of_texts_without_a_token(gpt):
    expected = [log_p(gpt, np.delete(IDS, s)) - log_p(gpt, IDS) for s in range(len(IDS) - 1)]
    assert len(set(np.round(expected, 3))) == len(expected)
    assert_allclose(changes_without(gpt, IDS), expected, atol=1e-12)


def test_what_follows_does_not_matter_and_the_token_itself_does(gpt):
    for ask in (gradient_lengths, changes_without):
        other = np.append(IDS[:-1], 1)
        assert not np.allclose(ask(gpt, IDS), ask(gpt, other))


def test_as_long_a_text_as_the_model_reads(gpt):
    ids = np.append(IDS, [1, 2])
    assert len(gradient_lengths(gpt, ids)) == len(changes_without(gpt, ids)) == 8


@pytest.mark.parametrize("ask", [gradient_lengths, changes_without])
@pytest.mark.parametrize(
    "ids, said",
    [
        (IDS[:1], r"ids: expected [23] to 9 tokens, got 1"),
        (np.zeros(10, int), r"ids: expected [23] to 9 tokens, got 10"),
        (np.array([1, 2, 11]), "ids"),
        (IDS[np.newaxis], "ids"),
    ],
)
def test_a_text_that_cannot_be_asked_about_is_named(gpt, ask, ids, said):
    with pytest.raises(ValueError, match=said):
        ask(gpt, ids)


def test_without_the_only_token_before_it_there_is_no_text(gpt):
    with pytest.raises(ValueError, match="ids: expected 3 to 9 tokens, got 2"):
        changes_without(gpt, IDS[:2])


def test_a_model_of_another_kind_is_named():
    with pytest.raises(ValueError, match="gpt: expected"):
        gradient_lengths("gpt", IDS)

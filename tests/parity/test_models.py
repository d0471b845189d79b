"""Whole models against the same models made of PyTorch's own modules."""

import numpy as np
import pytest
from helpers.cases import KEEP, STACKS, Restarted, split_variant
from helpers.witnesses import normal, padding, randomise
from parity.twins import F, run, torch

from transformer_core import models
from transformer_core.layers import AttentionSpec, Layer, NormSpec
from transformer_core.models import (
    Bert,
    BertEncoder,
    Classifier,
    Decoder,
    Encoder,
    EncoderDecoder,
    Gpt,
    StackSpec,
)

every_stack = pytest.mark.parametrize("case", STACKS.values(), ids=STACKS)
RECONSTRUCTORS = {name: case for name, case in STACKS.items() if "Recon" in name}


def every(variants):
    return pytest.mark.parametrize("variant", variants.values(), ids=variants)


def dropping(model):
    """In training mode if it has dropout, with the same masks at every call."""
    return Restarted(model) if model.dropout else model


@pytest.mark.equation("eq:chain-backward")
@every_stack
def test_stack(parity, case):
    parity.case(case)


@pytest.mark.parametrize("case", RECONSTRUCTORS.values(), ids=RECONSTRUCTORS)
def test_loss_of_the_reconstructor(parity, case):
    model, x = case.draw(parity.rng, parity.dtype)

    def twin(model, p, x, target, keep):
        return F.mse_loss(run(model, p, x, keep), target)

    target = normal(parity.rng, x.shape, parity.dtype)
    parity.loss(model, (x, target, *case.context), twin)


# BERT

BERTS = {
    "of text 004": {},
    "tied": {"tied": True},
    "Pre-LN": {"placement": "pre"},
    "GELU": {"feed_forward": "gelu"},
    "GELU, tanh": {"feed_forward": "gelu_tanh"},
    "no final LayerNorm": {"final_norm": False},
    "embedding LayerNorm": {"embedding_norm": True},
    "attention biases": {"attention": 2},
    "segments": {"segments": 2},
    "dropout": {"dropout": 0.3},
    "of Devlin et al.": {
        "tied": True,
        "feed_forward": "gelu",
        "final_norm": False,
        "embedding_norm": True,
        "attention": 2,
        "segments": 2,
        "dropout": 0.1,
    },
}
IDS = np.array([[3, 1, 3, 5, 1], [4, 3, 1, 0, 0]])
ANSWERS = np.array([[3, 2, 3, 6, 7], [4, 6, 1, 0, 0]])
MASKED = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], bool)
SEGMENTS = np.array([[0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])


def bert(parity, variant):
    """Eight words, at most six of them, two layers, D = 6, H = 2, F = 7."""
    attention = AttentionSpec(2, bias=False)
    spec, others = split_variant(6, attention, 7, variant, "post", parity.dtype)
    model = Bert(spec, StackSpec(8, 6, 2), parity.rng, **others)
    return randomise(model, parity.rng), SEGMENTS if model.segments else None


@pytest.mark.equation("eq:bert-backward")
@pytest.mark.parametrize("masked", [MASKED, None], ids=["masked", "every position"])
@every(BERTS)
def test_bert(parity, variant, masked):
    model, segments = bert(parity, variant)
    keep = KEEP if masked is None else padding([5, 3], 5)
    parity.layer(dropping(model), [], (IDS, masked, keep, segments))


@every(BERTS)
def test_loss_of_bert(parity, variant):
    model, segments = bert(parity, variant)

    def twin(model, p, ids, answers, masked, keep, segments):
        logits = run(model, p, ids, None, keep, segments)
        answers = answers.where(masked, -100)
        return F.cross_entropy(logits.flatten(0, 1), answers.flatten())

    context = IDS, ANSWERS, MASKED, padding([5, 3], 5), segments
    parity.loss(model, context, twin)


@pytest.mark.parametrize("norm", [False, True], ids=["no norm of the sum", "norm of the sum"])
def test_encoder_of_bert(parity, norm):
    spec, _ = split_variant(6, AttentionSpec(2), 7, {"dropout": 0.2}, "post", parity.dtype)
    model = BertEncoder(spec, StackSpec(8, 6, 2), parity.rng, 2, norm, not norm)
    model = dropping(randomise(model, parity.rng))
    parity.layer(model, [], (IDS, padding([5, 3], 5), SEGMENTS))


@pytest.mark.equation("eq:classifier-backward")
@pytest.mark.parametrize("first", [False, True], ids=["mean", "first position"])
def test_classifier(parity, first):
    model, _ = bert(parity, {"embedding_norm": True})
    model = randomise(Classifier(model, 3, parity.rng, first), parity.rng)
    parity.layer(model, [], (IDS, IDS != 0))


# The encoder-decoder

ENCODER_DECODERS = {
    "Pre-LN, tied": {},
    "Post-LN": {"placement": "post"},
    "untied": {"tied": False},
    "one table for all": {"shared": True},
    "source and target share, output layer untied": {"shared": True, "tied": False},
    "GELU": {"feed_forward": "gelu"},
    "dropout": {"dropout": 0.3},
    "Post-LN, dropout": {"placement": "post", "dropout": 0.3},
}
SOURCE = np.array([[3, 1, 3, 5, 1, 2], [4, 3, 1, 0, 0, 0]])
TARGET = np.array([[1, 3, 3, 5, 2], [1, 4, 2, 0, 0]])
SOURCE_LENGTHS, TARGET_LENGTHS = np.array([6, 3]), np.array([5, 3])


def encoder_decoder(parity, variant):
    """Six target tokens, at most six positions, two layers each, D = 6, H = 2, F = 7."""
    words = 6 if variant.get("shared") else 7
    spec, others = split_variant(6, 2, 7, variant, dtype=parity.dtype)
    stacks = StackSpec(words, 6, 2), StackSpec(6, 6, 2)
    model = EncoderDecoder(spec, *stacks, parity.rng, **others)
    return randomise(model, parity.rng)


@pytest.mark.equation("eq:encoder-decoder-backward")
@every(ENCODER_DECODERS)
def test_encoder_decoder(parity, variant):
    model = encoder_decoder(parity, variant)
    keep = padding(SOURCE_LENGTHS, 6)
    parity.layer(dropping(model), [], (SOURCE, TARGET[:, :-1], keep))


@pytest.mark.parametrize("smoothing", [0, 0.1])
@every(ENCODER_DECODERS)
def test_loss_of_the_encoder_decoder(parity, variant, smoothing):
    def twin(model, p, source, source_lengths, target, target_lengths):
        keep = torch.arange(6) < source_lengths[:, None, None, None]
        logits = run(model, p, source, target[:, :-1], keep)
        answers = target.where(torch.arange(5) < target_lengths[:, None], -100)[:, 1:]
        return F.cross_entropy(logits.flatten(0, 1), answers.flatten(), label_smoothing=smoothing)

    model = encoder_decoder(parity, variant)
    context = SOURCE, SOURCE_LENGTHS, TARGET, TARGET_LENGTHS
    parity.loss(model, context, twin, smoothing=smoothing)


# GPTs

LLAMA = {"norm": NormSpec("rms_norm", 1e-6), "feed_forward": "swiglu"}
GPTS = {
    "of Radford et al.": {"feed_forward": "gelu_tanh"},
    "of Radford et al., dropout": {"feed_forward": "gelu_tanh", "dropout": 0.1},
    "Post-LN, untied": {"placement": "post", "tied": False},
    "of Touvron et al.": LLAMA | {"attention": AttentionSpec(4, 4, 3, False, 2, "rotary_halves")},
    "QK-norm": LLAMA | {"attention": AttentionSpec(4, 4, 3, False, 1, "qk_norm_rotary_halves")},
    "pairs that share rows": {"pairs": 5},
}
COUNTED = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]], bool)


def gpt(parity, variant):
    """Eight tokens, at most six of them, two layers, D = 6, F = 7."""
    spec, others = split_variant(6, 2, 7, variant, dtype=parity.dtype)
    return randomise(Gpt(spec, StackSpec(8, 6, 2), parity.rng, **others), parity.rng)


@pytest.mark.equation("eq:chain-backward")
@every(GPTS)
def test_gpt(parity, variant):
    parity.layer(dropping(gpt(parity, variant)), [], (IDS, padding([5, 3], 5)))


@every(GPTS)
def test_loss_of_gpt(parity, variant):
    def twin(model, p, ids, targets, counted):
        targets = targets.where(counted, -100)
        return F.cross_entropy(run(model, p, ids).flatten(0, 1), targets.flatten())

    parity.loss(gpt(parity, variant), (IDS, ANSWERS, COUNTED), twin)


def test_every_model_is_compared():
    every = (getattr(models, name) for name in models.__all__)
    every = {one for one in every if isinstance(one, type) and issubclass(one, Layer)}
    assert every == {Bert, BertEncoder, Classifier, Decoder, Encoder, EncoderDecoder, Gpt}

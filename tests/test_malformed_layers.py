"""Malformed input to the layers and the models."""

import numpy as np
import pytest
from malformed import (
    DTYPE,
    RNG,
    Answers,
    Booleans,
    Choice,
    Floats,
    Ids,
    Mask,
    Setting,
    backward,
    both_tests,
    call,
    forward,
    not_negative,
    positive,
    public_names,
    rate,
    whole,
)

from transformer_core import layers, models
from transformer_core.layers import (
    AttentionSpec,
    DecoderLayer,
    Embedding,
    EncoderLayer,
    FeedForward,
    LayerNorm,
    LayerSpec,
    LearnedPositions,
    Linear,
    MultiHeadCrossAttention,
    MultiHeadSelfAttention,
    NormSpec,
    OwnReadout,
    Residual,
    SinusoidalPositions,
    TiedReadout,
)
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.models import Bert, Decoder, Encoder, EncoderDecoder, StackSpec


def seeded():
    return np.random.default_rng(1)


SPEC = LayerSpec(6, 2, 7, "pre", dtype="float64")
HEADS = Setting(2, lambda v: isinstance(v, (int, np.integer)) and v in (1, 2, 3))
SIZE = {"length": whole(5), "width": whole(6)}
X = np.random.default_rng(2).normal(size=(2, 3, 6))
SOURCE = np.random.default_rng(3).normal(size=(2, 4, 6))
IDS = np.array([[3, 1, 3], [0, 2, 1]])


LINEAR = Linear(5, 4, seeded(), "float64")
NORM = LayerNorm(6, "float64")
EMBEDDING = Embedding(9, 6, seeded(), dtype="float64")
TIED, OWN = TiedReadout(9, "float64"), OwnReadout(6, 9, seeded(), "float64")
FEED_FORWARD = FeedForward(6, 7, seeded(), "float64")
LEARNED = LearnedPositions(4, 6, seeded(), dtype="float64")
SINUSOIDAL = SinusoidalPositions(4, 6, "float64")
SELF = MultiHeadSelfAttention(6, 2, seeded(), "float64")
CROSS = MultiHeadCrossAttention(6, 2, seeded(), "float64")
RESIDUAL = Residual(SELF, NORM, "post", 0.1)
ENCODER_LAYER, DECODER_LAYER = (
    EncoderLayer(SPEC, seeded()),
    DecoderLayer(SPEC, seeded()),
)
PAST = {"key": Floats("B H t 3"), "value": Floats("B H t 3")}
READ = {"key": Floats("B H S 3"), "value": Floats("B H S 3")}
ATTENTION = {
    "width": whole(6),
    "attention": HEADS,
    "rng": RNG,
    "dtype": DTYPE,
    "dropout": rate(0.1),
}


def past_of(layer, **given):
    past = KeyValue(given.pop("key"), given.pop("value"))
    return layer.step(past=past, **given)


def read_of(layer, **given):
    source = KeyValue(given.pop("key"), given.pop("value"))
    return layer.step(source=source, **given)


LAYERS = {
    "AttentionSpec": call(
        lambda width, **given: AttentionSpec(**given).head_widths(width),
        heads=HEADS,
        key_width=whole(3, optional=True),
        value_width=whole(3, optional=True),
        width=whole(6),
    ),
    "AttentionSpec.head_widths": call(
        AttentionSpec(2).head_widths, width=Setting(6, lambda v: v == 2)
    ),
    "AttentionSpec.of": call(
        lambda value: AttentionSpec.of(value).head_widths(6),
        value=Choice({"heads": 2}, [{"head": 2}, {}, None, "2", [2], {"heads": "2"}]),
    ),
    "DecoderLayer": call(
        lambda rng, **given: DecoderLayer(LayerSpec(**given), rng),
        width=Setting(6, lambda v: v == 2),
        attention=HEADS,
        hidden_width=whole(7),
        placement=Choice("pre"),
        feed_forward=Choice("relu"),
        dropout=rate(0.1),
        dtype=DTYPE,
        rng=RNG,
    ),
    "DecoderLayer.backward": backward(DECODER_LAYER, X, SOURCE, dy=Floats("2 3 6")),
    "DecoderLayer.forward": forward(
        DECODER_LAYER,
        x=Floats("B T 6"),
        source=Floats("B S 6"),
        keep=Mask("B 2 T T"),
        source_keep=Mask("B 2 T S"),
        rng=RNG,
    ),
    "DecoderLayer.step": call(
        lambda x, key, value, past_key, past_value, source_keep: DECODER_LAYER.step(
            x, KeyValue(past_key, past_value), KeyValue(key, value), source_keep
        ),
        x=Floats("B 1 6"),
        past_key=Floats("B 2 T 3"),
        past_value=Floats("B 2 T 3"),
        key=Floats("B 2 S 3"),
        value=Floats("B 2 S 3"),
        source_keep=Mask("B 2 1 S"),
    ),
    "Embedding": call(
        Embedding,
        vocabulary=whole(9),
        width=whole(6),
        rng=RNG,
        std=not_negative(0.02),
        dtype=DTYPE,
    ),
    "Embedding.backward": backward(EMBEDDING, IDS, drows=Floats("2 3 6")),
    "Embedding.forward": forward(EMBEDDING, ids=Ids("...", below=9)),
    "EncoderLayer": call(
        lambda rng, **given: EncoderLayer(LayerSpec(**given), rng),
        width=Setting(6, lambda v: v == 2),
        attention=Choice(2, [0, -1, 4, 2.5, True, None, "2", [2], {"head": 2}]),
        hidden_width=whole(7),
        placement=Choice("pre"),
        norm=Choice(
            {"kind": "layer_norm", "eps": 1e-5},
            [{"kind": "none"}, {"epsilon": 1}, {"eps": "1"}, {"eps": 0}, None, 3, "no"],
        ),
        feed_forward=Choice("relu"),
        dropout=rate(0.1),
        dtype=DTYPE,
        rng=RNG,
    ),
    "EncoderLayer.backward": backward(ENCODER_LAYER, X, dy=Floats("2 3 6")),
    "EncoderLayer.forward": forward(
        ENCODER_LAYER, x=Floats("B T 6"), keep=Mask("B 2 T T"), rng=RNG
    ),
    "FeedForward": call(
        FeedForward,
        width=whole(6),
        hidden_width=whole(7),
        rng=RNG,
        dtype=DTYPE,
        activation=Choice("relu"),
    ),
    "FeedForward.backward": backward(FEED_FORWARD, X, dy=Floats("2 3 6")),
    "FeedForward.forward": forward(FEED_FORWARD, x=Floats("... 6")),
    "LayerNorm": call(LayerNorm, width=whole(6), dtype=DTYPE, eps=positive(1e-5)),
    "LayerNorm.backward": backward(NORM, X, dy=Floats("2 3 6")),
    "LayerNorm.forward": forward(NORM, x=Floats("... 6")),
    "LayerSpec": call(
        lambda **given: LayerSpec(6, 2, 7, "pre", **given).make_norm(),
        norm=Choice(
            {"eps": 1e-3}, [{"kind": "none"}, {"epsilon": 1}, {"eps": "1"}, None, 3]
        ),
        dtype=DTYPE,
    ),
    "LayerSpec.make_feed_forward": call(
        lambda feed_forward, hidden_width: LayerSpec(
            6, 2, hidden_width, "pre", feed_forward=feed_forward
        ).make_feed_forward(seeded()),
        feed_forward=Choice("gelu"),
        hidden_width=whole(7),
    ),
    "LayerSpec.make_residual": call(
        lambda placement, dropout: LayerSpec(
            6, 2, 7, placement, dropout=dropout
        ).make_residual(SELF),
        placement=Choice("pre"),
        dropout=rate(0.1),
    ),
    "LearnedPositions": call(
        LearnedPositions,
        length=whole(5),
        width=whole(6),
        rng=RNG,
        std=not_negative(0.02),
        dtype=DTYPE,
    ),
    "LearnedPositions.backward": backward(LEARNED, X, dy=Floats("B 3 6")),
    "LearnedPositions.forward": forward(LEARNED, x=Floats("B T 6")),
    "Linear": call(
        Linear,
        width_in=whole(6),
        width_out=whole(7),
        rng=RNG,
        dtype=DTYPE,
    ),
    "Linear.backward": backward(LINEAR, X[..., :5], dy=Floats("2 3 4")),
    "Linear.forward": forward(LINEAR, x=Floats("... 5")),
    "MultiHeadCrossAttention": call(MultiHeadCrossAttention, **ATTENTION),
    "MultiHeadCrossAttention.backward": backward(CROSS, X, SOURCE, dy=Floats("2 3 6")),
    "MultiHeadCrossAttention.forward": forward(
        CROSS, x=Floats("B T 6"), source=Floats("B S 6"), keep=Mask("B 2 T S"), rng=RNG
    ),
    "MultiHeadCrossAttention.read": call(CROSS.read, source=Floats("B S 6")),
    "MultiHeadCrossAttention.step": call(
        lambda x, key, value, keep: CROSS.step(x, KeyValue(key, value), keep),
        x=Floats("B T 6"),
        key=Floats("B 2 S 3"),
        value=Floats("B 2 S 3"),
        keep=Mask("B 2 T S"),
    ),
    "MultiHeadSelfAttention": call(MultiHeadSelfAttention, **ATTENTION),
    "MultiHeadSelfAttention.backward": backward(SELF, X, dy=Floats("2 3 6")),
    "MultiHeadSelfAttention.forward": forward(
        SELF, x=Floats("B T 6"), keep=Mask("B 2 T T"), rng=RNG
    ),
    "MultiHeadSelfAttention.step": call(
        lambda x, key, value: SELF.step(x, KeyValue(key, value)),
        x=Floats("B 1 6"),
        key=Floats("B 2 T 3"),
        value=Floats("B 2 T 3"),
    ),
    "NormSpec": call(
        lambda kind, eps: LayerSpec(6, 2, 7, "pre", NormSpec(kind, eps)).make_norm(),
        kind=Choice("layer_norm"),
        eps=positive(1e-5),
    ),
    "OwnReadout": call(
        OwnReadout,
        width=whole(6),
        vocabulary=whole(9),
        rng=RNG,
        dtype=DTYPE,
    ),
    "OwnReadout.backward": backward(OWN, X, None, dlogits=Floats("2 3 9")),
    "OwnReadout.forward": call(lambda h: OWN.forward(h, None), h=Floats("... 6")),
    "Residual": call(
        lambda placement, dropout: Residual(SELF, NORM, placement, dropout),
        placement=Choice("pre"),
        dropout=rate(0.1),
    ),
    "Residual.backward": backward(RESIDUAL, X, dy=Floats("2 3 6")),
    "Residual.forward": call(
        lambda x, keep, rng: RESIDUAL.forward(x, keep, rng, rng=rng),
        x=Floats("B T 6"),
        keep=Mask("B 2 T T"),
        rng=RNG,
    ),
    "Residual.step": call(
        lambda x, key, value: RESIDUAL.step(x, KeyValue(key, value)),
        x=Floats("B 1 6"),
        key=Floats("B 2 T 3"),
        value=Floats("B 2 T 3"),
    ),
    "SinusoidalPositions": call(
        SinusoidalPositions,
        length=whole(5),
        width=Setting(6, lambda v: v == 2),
        dtype=DTYPE,
    ),
    "SinusoidalPositions.backward": call(
        lambda dy: SINUSOIDAL.backward(dy, None), dy=Floats("B T 6")
    ),
    "SinusoidalPositions.forward": forward(
        SINUSOIDAL,
        x=Floats("B T 6"),
        first=Setting(1, lambda v: isinstance(v, (int, np.integer)) and v in (0, 1)),
    ),
    "TiedReadout": call(TiedReadout, vocabulary=whole(9), dtype=DTYPE),
    "TiedReadout.backward": backward(TIED, X, EMBEDDING.table, dlogits=Floats("2 3 9")),
    "TiedReadout.forward": forward(TIED, h=Floats("... D"), table=Floats("9 D")),
}
# What has nothing of its own that could be spoiled.
EMPTY = {"Layer", "LayerSpec.make_norm"}

STACK = StackSpec(9, 5, 1)
ENCODER = Encoder(SPEC, 2, seeded(), True)
DECODER = Decoder(SPEC, 2, seeded(), True)
BERT = Bert(SPEC, STACK, seeded(), tied=True, segments=2)
PAIR = EncoderDecoder(SPEC, STACK, STACK, seeded())
STATE = PAIR.begin(IDS, np.array([3, 2]))
ENDED = {
    "start": Ids("", below=9),
    "end": Ids("", below=9),
    "padding": Ids("", below=9),
}
TOKEN = Setting(1, lambda v: isinstance(v, (int, np.integer)) and 0 <= v < 9)
SEARCH = {
    "source": Ids("B T", below=9),
    "source_lengths": Ids("B", below=4),
    "start": TOKEN,
    "end": TOKEN,
    "padding": TOKEN,
    "longest": Setting(
        3, lambda v: isinstance(v, (int, np.integer)) and 0 < v <= 5, optional=True
    ),
}


def pairs(*arrays):
    return tuple(
        KeyValue(key, value)
        for key, value in zip(arrays[::2], arrays[1::2], strict=True)
    )


def stack(kind):
    return call(
        lambda rng, width, layers: kind(
            LayerSpec(width, 2, 7, "pre"), layers, rng, True
        ),
        rng=RNG,
        width=Setting(6, lambda v: v == 2),
        layers=whole(1),
    )


def sized(build):
    return call(
        lambda vocabulary, length, number, rng: build(
            StackSpec(vocabulary, length, number), rng
        ),
        vocabulary=whole(9),
        length=whole(5),
        number=whole(1),
        rng=RNG,
    )


MODELS = {
    "Bert": sized(lambda stack, rng: Bert(SPEC, stack, rng)),
    "Bert.backward": backward(BERT, IDS, None, None, IDS % 2, dlogits=Floats("2 3 9")),
    "Bert.embed": call(
        BERT.embed, ids=Ids("B T", below=9), segment_ids=Ids("B T", below=2), rng=RNG
    ),
    "Bert.embed_backward": call(
        lambda dx: BERT.embed_backward(dx, BERT.embed(IDS, IDS % 2)[1]),
        dx=Floats("2 3 6"),
    ),
    "Bert.forward": forward(
        BERT,
        ids=Ids("B T", below=9),
        masked=Booleans("B T", optional=True),
        keep=Mask("B 2 T T"),
        segment_ids=Ids("B T", below=2),
        rng=RNG,
    ),
    "Bert.loss_and_gradients": call(
        BERT.loss_and_gradients,
        ids=Ids("B T", below=9),
        targets=Answers("B T", below=9),
        masked=Booleans("B T"),
        keep=Mask("B 2 T T"),
        segment_ids=Ids("B T", below=2),
        rng=RNG,
    ),
    "Decoder": stack(Decoder),
    "Decoder.backward": backward(DECODER, X, SOURCE, dy=Floats("2 3 6")),
    "Decoder.forward": forward(
        DECODER,
        x=Floats("B T 6"),
        source=Floats("B S 6"),
        keep=Mask("B 2 T T"),
        source_keep=Mask("B 2 T S"),
        rng=RNG,
    ),
    "Decoder.read": call(DECODER.read, source=Floats("B S 6")),
    "Decoder.step": call(
        lambda x, a, b, c, d, e, f, g, h, source_keep: DECODER.step(
            x, pairs(a, b, c, d), pairs(e, f, g, h), source_keep
        ),
        x=Floats("B 1 6"),
        **{name: Floats("B 2 T 3") for name in "abcd"},
        **{name: Floats("B 2 S 3") for name in "efgh"},
        source_keep=Mask("B 2 1 S"),
    ),
    "Encoder": stack(Encoder),
    "Encoder.backward": backward(ENCODER, X, dy=Floats("2 3 6")),
    "Encoder.forward": forward(
        ENCODER, x=Floats("B T 6"), keep=Mask("B 2 T T"), rng=RNG
    ),
    "EncoderDecoder": sized(lambda stack, rng: EncoderDecoder(SPEC, stack, STACK, rng)),
    "EncoderDecoder.backward": backward(PAIR, IDS, IDS, dlogits=Floats("2 3 9")),
    "EncoderDecoder.begin": call(
        PAIR.begin, source=Ids("B T", below=9), source_lengths=Ids("B", below=4)
    ),
    "EncoderDecoder.decode": call(
        PAIR.decode,
        shifted=Ids("B T", below=9),
        encoded=Floats("B S 6"),
        source_keep=Mask("B 2 T S"),
        rng=RNG,
    ),
    "EncoderDecoder.embed": call(
        lambda ids, rng, first: PAIR.embed(ids, PAIR.target_embedding, rng, first),
        ids=Ids("B T", below=9),
        rng=RNG,
        first=Setting(1, lambda v: isinstance(v, (int, np.integer)) and v in (0, 1, 2)),
    ),
    "EncoderDecoder.embed_backward": call(
        lambda dx: PAIR.embed_backward(
            dx, PAIR.target_embedding, PAIR.embed(IDS, PAIR.target_embedding)[1]
        ),
        dx=Floats("2 3 6"),
    ),
    "EncoderDecoder.encode": call(
        PAIR.encode, source=Ids("B S", below=9), source_keep=Mask("B 2 S S"), rng=RNG
    ),
    "EncoderDecoder.forward": forward(
        PAIR,
        source=Ids("B S", below=9),
        shifted=Ids("B T", below=9),
        source_keep=Mask("B 2 1 S"),
        rng=RNG,
    ),
    "EncoderDecoder.loss_and_gradients": call(
        PAIR.loss_and_gradients,
        source=Ids("B S", below=9),
        source_lengths=Ids("B", below=5),
        target=Ids("B T", below=9),
        target_lengths=Ids("B", below=4),
        rng=RNG,
        smoothing=rate(0.1),
    ),
    "EncoderDecoder.step": call(
        lambda tokens: PAIR.step(tokens, STATE), tokens=Ids("2", below=9)
    ),
    "StackSpec": sized(lambda stack, rng: EncoderDecoder(SPEC, STACK, stack, rng)),
    "beam_search": call(
        lambda source, source_lengths, **given: models.beam_search(
            PAIR, source, source_lengths, **given
        ),
        **SEARCH,
        beam=whole(2),
        length_penalty=Setting(1.0, lambda v: 0 <= v <= 10),
    ),
    "greedy_search": call(
        lambda source, source_lengths, **given: models.greedy_search(
            PAIR, source, source_lengths, **given
        ),
        **SEARCH,
    ),
}
CALLS = LAYERS | MODELS


@pytest.mark.parametrize(
    "room, table", [(layers, LAYERS), (models, MODELS)], ids=["layers", "models"]
)
def test_every_public_name_is_in_the_table(room, table):
    assert sorted(set(public_names(room)) - EMPTY) == sorted(table)


test_valid_calls_pass, test_what_is_malformed_is_named = both_tests(CALLS)

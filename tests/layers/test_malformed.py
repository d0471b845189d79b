"""Malformed input to the layers."""

import numpy as np
from helpers.malformed import Choice, Ids, Setting, Table, Whatever, call, count, positive, whole

from transformer_core import layers
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.layers.decoder_layer import DecoderLayerState
from transformer_core.layers.multi_head_attention import KeyValue


def seeded():
    return np.random.default_rng(1)


SPEC = LayerSpec(6, 2, 7, "pre", dtype="float64")
HEADS = count(2, lambda v: v in (1, 2, 3))
SELF = layers.MultiHeadSelfAttention(6, 2, seeded(), "float64")
CROSS = layers.MultiHeadCrossAttention(6, 2, seeded(), "float64")
NORM = layers.LayerNorm(6, "float64")
OWN = layers.OwnReadout(6, 9, seeded(), "float64")
DECODER = layers.DecoderLayer(SPEC, seeded())
RESIDUAL = layers.Residual(SELF, NORM, "post", 0.1)
OBJECTS = {
    "AttentionSpec": AttentionSpec(2),
    "DecoderLayer": DECODER,
    "Embedding": layers.Embedding(9, 6, seeded(), dtype="float64"),
    "EncoderLayer": layers.EncoderLayer(SPEC, seeded()),
    "FeedForward": layers.FeedForward(6, 7, seeded(), "float64"),
    "GatedFeedForward": layers.GatedFeedForward(6, 7, seeded(), "float64"),
    "HeadTransform": layers.HeadTransform(SPEC, seeded()),
    "LayerNorm": NORM,
    "LoraLinear": layers.LoraLinear(layers.Linear(5, 4, seeded(), "float64"), 2, 3.0, seeded()),
    "LearnedPositions": layers.LearnedPositions(4, 6, seeded(), dtype="float64"),
    "Linear": layers.Linear(5, 4, seeded(), "float64"),
    "PairTable": layers.PairTable(5, 6, "float64"),
    "MultiHeadCrossAttention": CROSS,
    "MultiHeadSelfAttention": SELF,
    "OwnReadout": OWN,
    "Pooler": layers.Pooler(6, seeded(), "float64"),
    "QkNorm": layers.QkNorm(6, "float64"),
    "Residual": RESIDUAL,
    "RmsNorm": layers.RmsNorm(6, "float64"),
    "Rotary": layers.Rotary(6, "float64"),
    "SinusoidalPositions": layers.SinusoidalPositions(4, 6, "float64"),
    "TiedReadout": layers.TiedReadout(9, "float64"),
}
NAMES = {
    "attention": HEADS, "x": "B T 6", "source": "B S 6", "keep": "mask B 2 T T",
    "source_keep": "mask B 2 T S", "key": "B 2 S 3", "value": "B 2 S 3", "ids": "ids ...",
    "past_key": "B 2 T 3", "past_value": "B 2 T 3", "feed_forward": Choice("relu"),
    "norm": Choice(
        {"kind": "layer_norm", "eps": 1e-5},
        [{"kind": "none"}, {"epsilon": 1}, {"eps": "1"}, {"eps": 0}, None, 3, "no"],
    ),
}  # fmt: skip
STEP = {"x": "B T 6"}
LORA = {"rank": whole(2), "alpha": positive(3.0)}


def of_spec(kind):
    def build(rng, width, attention, hidden_width, placement, norm, feed_forward, dropout, dtype):
        spec = (width, attention, hidden_width, placement, norm, feed_forward, dropout, dtype)
        names = LayerSpec.__dataclass_fields__
        return kind(LayerSpec.from_settings(dict(zip(names, spec, strict=True))), rng)

    return call(build, width=Setting(6, lambda v: v == 2))


LINES = {
    "AttentionSpec": call(
        lambda width, **given: AttentionSpec(**given).head_widths(width),
        heads=HEADS,
        key_width=whole(3, optional=True),
        value_width=whole(3, optional=True),
        tile=whole(2, optional=True),
        window=whole(2, optional=True),
    ),
    "AttentionSpec.head_widths": {"width": Setting(6, lambda v: v == 2)},
    "AttentionSpec.of": call(
        lambda value: AttentionSpec.of(value).head_widths(6),
        value=Choice(2, [{"heads": 2}, {}, None, "2", [2]]),
    ),
    "DecoderLayer": of_spec(layers.DecoderLayer),
    "DecoderLayer.step": call(
        lambda x, key, value, past_key, past_value, source_keep: DECODER.step(
            x, DecoderLayerState(KeyValue(past_key, past_value), KeyValue(key, value)), source_keep
        ),
        **STEP,
        source_keep="mask B 2 T S",
    ),
    "EncoderLayer": of_spec(layers.EncoderLayer),
    "EncoderLayer.begin": {"batch": whole(2)},
    "EncoderLayer.step": call(
        lambda x, key, value: OBJECTS["EncoderLayer"].step(x, KeyValue(key, value)), **STEP
    ),
    "FeedForward.forward": {"x": "... 6"},
    "GatedFeedForward.forward": {"x": "... 6"},
    "HeadTransform": call(
        lambda feed_forward, rng: layers.HeadTransform(
            LayerSpec(6, 2, 7, "post", feed_forward=feed_forward), rng
        ),
        feed_forward=Choice("relu", ["swiglu"]),
    ),
    "HeadTransform.forward": {"h": "... 6"},
    "LayerNorm.forward": {"x": "... 6"},
    "RmsNorm.forward": {"x": "... 6"},
    "LayerSpec": call(
        lambda norm, dtype: LayerSpec(6, 2, 7, "pre", norm, dtype=dtype).make_norm(),
        norm=Choice(NormSpec(), [{"eps": 1e-5}, None, 3, "no"]),
    ),
    "LayerSpec.from_settings": call(
        lambda norm, attention: LayerSpec.from_settings(
            {"width": 6, "attention": attention, "hidden_width": 7, "placement": "pre"}
            | {"norm": norm}
        ),
        attention=Choice({"heads": 2}, [{"head": 2}, {}, None, "2", [2], {"heads": "2"}]),
    ),
    "LayerSpec.make_feed_forward": call(
        lambda feed_forward, hidden_width: LayerSpec(
            6, 2, hidden_width, "pre", feed_forward=feed_forward
        ).make_feed_forward(seeded())
    ),
    "LayerSpec.make_residual": call(
        lambda placement, dropout: LayerSpec(6, 2, 7, placement, dropout=dropout).make_residual(
            SELF
        )
    ),
    "LearnedPositions.backward": call(
        lambda dy: OBJECTS["LearnedPositions"].backward(
            dy, OBJECTS["LearnedPositions"].forward(np.ones((2, 3, 6)))[1]
        ),
        dy="B 3 6",
    ),
    "PairTable": {"rows": whole(5), "width": whole(6)},
    "PairTable.forward": {
        "x": "2 3 6",
        "ids": Ids("2 3", below=2**31 - 1, least=0),
        "before": Ids("2", below=2**31 - 1, least=0, optional=True),
    },
    "PairTable.backward": call(
        lambda dy: OBJECTS["PairTable"].backward(
            dy, OBJECTS["PairTable"].forward(np.ones((2, 3, 6)), np.ones((2, 3), int))[1]
        ),
        dy="2 3 6",
    ),
    "Linear.forward": {"x": "... 5"},
    "LoraLinear": {"linear": Whatever(lambda rng: layers.Linear(5, 4, rng)), **LORA},
    "LoraLinear.forward": {"x": "... 5"},
    "add_lora": {
        "model": Whatever(lambda rng: layers.FeedForward(6, 7, rng)),
        "targets": Choice(("hidden",), ["hidden", (), ("attention",), ["out"], None, 3, [3]]),
        **LORA,
    },
    "MultiHeadCrossAttention.forward": {"keep": "mask B 2 T S"},
    "MultiHeadCrossAttention.step": call(
        lambda x, key, value, keep: CROSS.step(x, KeyValue(key, value), keep), keep="mask B 2 T S"
    ),
    "MultiHeadSelfAttention.begin": {"batch": whole(2)},
    "MultiHeadSelfAttention.step": call(
        lambda x, key, value: SELF.step(x, KeyValue(key, value)), **STEP
    ),
    "NormSpec": call(
        lambda kind, eps: LayerSpec(6, 2, 7, "pre", NormSpec(kind, eps)).make_norm(),
        kind=Choice("layer_norm"),
    ),
    "OwnReadout.forward": call(lambda h: OWN.forward(h, None), h="... 6"),
    "Pooler": {"width": whole(6)},
    "Pooler.forward": {"h": "B T 6"},
    "QkNorm": call(
        lambda width, dtype, eps: layers.QkNorm(width, dtype, eps=eps),
        width=Setting(6, lambda v: v == 2),
    ),
    "QkNorm.forward": {"x": "B H T 6", "first": whole(1, least=0)},
    "Residual": call(lambda placement, dropout: layers.Residual(SELF, NORM, placement, dropout)),
    "Residual.forward": call(lambda x, keep, rng: RESIDUAL.forward(x, keep, rng=rng)),
    "Residual.step": call(lambda x, key, value: RESIDUAL.step(x, KeyValue(key, value)), **STEP),
    "Rotary": call(
        lambda width, dtype: layers.Rotary(width, dtype), width=Setting(6, lambda v: v == 2)
    ),
    "Rotary.forward": {"x": "B H T 6", "first": whole(1, least=0)},
    "SinusoidalPositions": {"width": Setting(6, lambda v: v == 2)},
    "SinusoidalPositions.backward": call(
        lambda dy: OBJECTS["SinusoidalPositions"].backward(dy, None), dy="B T 6"
    ),
    "SinusoidalPositions.forward": {"first": count(1, lambda v: v in (0, 1))},
    "TiedReadout.forward": {"h": "... D", "table": "9 D"},
}
# What has nothing of its own that could be spoiled.
WITHOUT = {
    "Layer",
    "Layer.set_parameters",
    "LoraLinear.merged",
    "MultiHeadCrossAttention.split",
    "MultiHeadSelfAttention.split",
    "merge_lora",
}
LAYERS = Table("tests/layers/test_malformed.py", [layers], LINES, NAMES, OBJECTS, WITHOUT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = LAYERS.tests()

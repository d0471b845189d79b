"""Malformed input to the models."""

from functools import partial

import numpy as np
from helpers.malformed import (
    Choice,
    Ids,
    Setting,
    Table,
    call,
    count,
    not_negative,
    positive,
    whole,
)

from transformer_core import models
from transformer_core.layers import LayerSpec
from transformer_core.layers.decoder_layer import DecoderLayerState
from transformer_core.layers.multi_head_attention import KeyValue
from transformer_core.models import (
    Bert,
    BertEncoder,
    Decoder,
    Encoder,
    EncoderDecoder,
    Gpt,
    StackSpec,
)
from transformer_core.models.gpt import GptState


def seeded():
    return np.random.default_rng(1)


SPEC = LayerSpec(6, 2, 7, "pre", dtype="float64")
STACK = StackSpec(9, 5, 1)
DECODER = Decoder(SPEC, 2, seeded(), True)
PAIR = EncoderDecoder(SPEC, STACK, STACK, seeded())
IDS = np.array([[3, 1, 3], [0, 2, 1]])
GPT = Gpt(SPEC, StackSpec(9, 9, 1), seeded())
STATE = PAIR.begin(IDS, np.array([3, 2]))
OBJECTS = {
    "Bert": Bert(SPEC, STACK, seeded(), tied=True, segments=2),
    "BertEncoder": BertEncoder(SPEC, STACK, seeded(), segments=2),
    "Classifier": models.Classifier(Bert(SPEC, STACK, seeded()), 3, seeded()),
    "Decoder": DECODER,
    "Encoder": Encoder(SPEC, 2, seeded(), True),
    "Sampling": models.Sampling(1.1, 0.7, 2, 0.9, 0.1),
    "EncoderDecoder": PAIR,
    "Gpt": GPT,
}
TOKEN = count(1, lambda v: 0 <= v < 9)
NAMES = {
    "x": "B T 6", "keep": "mask B 2 T T", "source_keep": "mask B 2 T S", "masked": "booleans B T",
    "ids": "ids B T", "shifted": "ids B T", "targets": "answers B T", "number": whole(1),
    "segment_ids": Ids("B T", below=2, least=0, optional=True), "beam": whole(2),
    "source_lengths": Ids("B", below=4), "target": "ids B T",
    "target_lengths": Ids("B", below=4), "start": TOKEN, "end": TOKEN, "padding": TOKEN,
    "longest": count(3, lambda v: 0 < v <= 5, optional=True),
    "length_penalty": Setting(1.0, lambda v: 0 <= v <= 10),
}  # fmt: skip


def pairs(*arrays):
    return tuple(KeyValue(key, value) for key, value in zip(arrays[::2], arrays[1::2], strict=True))


def stack(kind):
    return call(
        lambda rng, width, layers: kind(LayerSpec(width, 2, 7, "pre"), layers, rng, True),
        width=Setting(6, lambda v: v == 2),
    )


def sized(build):
    return call(
        lambda vocabulary, length, number, recompute, rng: build(
            StackSpec(vocabulary, length, number, recompute), rng
        ),
        recompute=Choice(True, [None, 1, "yes", 0.0, []]),
    )


LINES = {
    "Bert": sized(lambda stack, rng: Bert(SPEC, stack, rng)),
    "BertEncoder": sized(lambda stack, rng: BertEncoder(SPEC, stack, rng)),
    "Bert.forward": {"masked": "optional booleans B T"},
    "Classifier": call(
        lambda classes, first, rng: models.Classifier(OBJECTS["Bert"], classes, rng, first),
        classes=whole(3),
        first=Choice(True, [None, 1, "yes", 0.0, []]),
    ),
    "Classifier.forward": {"keep": "optional booleans B T"},
    "Classifier.loss_and_gradients": {
        "labels": Ids("B", below=3, least=0),
        "keep": "optional booleans B T",
    },
    "Decoder": stack(Decoder),
    "Decoder.forward": {"source": "B S 6"},
    "Decoder.begin": call(lambda source: DECODER.begin(source), source="B S 6"),
    "Decoder.step": call(
        lambda x, a, b, c, d, e, f, g, h, source_keep: DECODER.step(
            x, tuple(map(DecoderLayerState, pairs(a, b, c, d), pairs(e, f, g, h))), source_keep
        ),
        x="B T 6",
        **{name: "B 2 T 3" for name in "abcd"},
        **{name: "B 2 S 3" for name in "efgh"},
        source_keep="mask B 2 T S",
    ),
    "Encoder": stack(Encoder),
    "EncoderDecoder": sized(lambda stack, rng: EncoderDecoder(SPEC, stack, STACK, rng)),
    "EncoderDecoder.begin": {"source": "ids B T"},
    "EncoderDecoder.decode": {"encoded": "B S 6"},
    "EncoderDecoder.embed": call(
        lambda ids, rng, first: PAIR.embed(ids, PAIR.target_embedding, rng, first),
        first=count(1, lambda v: v in (0, 1, 2)),
    ),
    "EncoderDecoder.embed_backward": call(
        lambda dx: PAIR.embed_backward(
            dx, PAIR.target_embedding, PAIR.embed(IDS, PAIR.target_embedding)[1]
        ),
        dx="2 3 6",
    ),
    "EncoderDecoder.encode": {"source": "ids B S", "source_keep": "mask B 2 S S"},
    "EncoderDecoder.forward": {"source": "ids B S", "source_keep": "mask B 2 1 S"},
    "EncoderDecoder.loss_and_gradients": {"source": "ids B S", "source_lengths": Ids("B", below=5)},
    "EncoderDecoder.step": call(lambda tokens: PAIR.step(tokens, STATE), tokens="ids 2"),
    "Gpt": sized(lambda stack, rng: Gpt(SPEC, stack, rng)),
    "Gpt.begin": {"batch": whole(2)},
    "Gpt.embed": call(
        lambda ids, rng, first: GPT.embed(ids, rng, first), first=count(1, lambda v: 0 <= v <= 6)
    ),
    "Gpt.loss_and_gradients": {"targets": "ids B T", "weights": "weights B T"},
    "Gpt.prefill": call(
        lambda ids, key, value: GPT.prefill(
            ids, GptState(pairs(key, value), np.zeros((2, 2), int))
        ),
        key="B 2 S 3",
        value="B 2 S 3",
    ),
    "Gpt.score": call(
        lambda ids, rows: GPT.score(ids, None, rows), rows=count(2, lambda v: 1 <= v < 2**31)
    ),
    "Gpt.step": call(lambda tokens: GPT.step(tokens, GPT.begin(2)), tokens="ids 2"),
    "Sampling": call(
        lambda **given: models.Sampling(**given),
        penalty=positive(1.1),
        temperature=not_negative(0.7),
        top_k=count(2, lambda v: 1 <= v < 2**31, optional=True),
        top_p=Setting(0.9, lambda v: 0 < v <= 1),
        min_p=Setting(0.1, lambda v: 0 <= v <= 1),
    ),
    "Sampling.distribution": {"logits": "... V", "seen": "booleans B N V"},
    "sample": call(
        lambda start, end, longest, start_lengths: next(
            models.sample(
                GPT, start, seeded(), end=end, longest=longest, start_lengths=start_lengths
            )
        ),
        start=Ids("B S", least=0),
        end=count(1, lambda v: 0 <= v < 9, optional=True),
        longest=count(7, lambda v: 5 <= v <= 10, optional=True),
        start_lengths=Ids("B", below=5, optional=True),
    ),
    "speculative_sample": call(
        lambda start, drafts, end, longest: next(
            models.speculative_sample(
                GPT, GPT, start, seeded(), drafts=drafts, end=end, longest=longest
            )
        ),
        start=Ids("S", least=0),
        drafts=count(2, lambda v: 1 <= v < 2**31),
        end=count(1, lambda v: 0 <= v < 9, optional=True),
        longest=count(7, lambda v: 5 <= v <= 10, optional=True),
    ),
    "StackSpec": sized(lambda stack, rng: EncoderDecoder(SPEC, STACK, stack, rng)),
    "beam_search": call(partial(models.beam_search, PAIR), source="ids B T"),
    "greedy_search": call(partial(models.greedy_search, PAIR), source="ids B T"),
}
# What the package alone calls.
WITHOUT = {"Bert.read_out", "Bert.read_out_backward", "Encoder.step"}
MODELS = Table("tests/models/test_malformed.py", [models], LINES, NAMES, OBJECTS, WITHOUT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = MODELS.tests()

"""Chapter 335: what the trained decoder writes."""

import numpy as np

from transformer_core.layers import LayerSpec
from transformer_core.models import EncoderDecoder, StackSpec
from transformer_core.ops import padding_keep
from transformer_practice.engine.exercise import Exercise
from transformer_practice.engine.points import Point
from transformer_practice.judges.checks import randomised


def read_plainly(
    model: EncoderDecoder, source: np.ndarray, keep: np.ndarray, start: int, number: int
) -> np.ndarray:
    """Write the likeliest token, again and again, without a cache (eq:greedy-search)."""
    encoded, _ = model.encode(source, keep)
    written = np.full((len(source), 1), start)
    for _ in range(number):
        logits, _ = model.decode(written, encoded, keep)
        newest = logits[:, -1].argmax(axis=-1)
        written = np.concatenate([written, newest[:, np.newaxis]], axis=1)
    return written[:, 1:]


def reader(placement: str) -> EncoderDecoder:
    spec = LayerSpec(6, 2, 8, placement, dtype="float64")
    stack = StackSpec(vocabulary=11, length=9, layers=2)
    model = EncoderDecoder(spec, stack, stack, np.random.default_rng(3))
    return randomised(model)


def reading_points():
    def draw(name, B, S, start, number, placement):
        lengths = np.arange(B) % S + 1  # much padding: little of it may change no token
        arguments = {
            "model": reader(placement),
            "source": np.random.default_rng(1).integers(0, 11, (B, S)),
            "keep": padding_keep(lengths, S),
            "start": start,
            "number": number,
        }
        return Point(name, arguments, sizes={"B": B, "S": S, "T": number})

    generic = draw("generic", 6, 5, 1, 4, "pre")
    source, keep = generic.arguments["source"], generic.arguments["keep"]
    return [
        generic,
        generic.variant("one token", number=1),
        generic.variant("one source", source=source[:1], keep=keep[:1]),
        draw("generic, other sizes", 4, 7, 3, 5, "post"),
    ]


EXERCISES = [Exercise(forward=read_plainly, points=reading_points)]

"""What the studies of small GPTs share: a layer of today's blocks, and the text."""

from dataclasses import replace
from functools import cache

from transformer_core.tasks.gpt.byte_pairs import train_byte_pairs
from transformer_core.tasks.gpt.recipe import HELD_OUT, SPEC
from transformer_core.tasks.gpt.windows import join_texts, token_bytes
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import split


def layer_of(width, hidden_width):
    """The layer of the command line's GPT, with four heads, in another width."""
    attention = replace(SPEC.attention, heads=4)
    return replace(SPEC, width=width, attention=attention, hidden_width=hidden_width)


@cache
def texts(vocabulary, names=None, held_out_names=None):
    """The tokens to train on, those held out, and how many bytes each token has."""
    training, held_out = split(documentation(), HELD_OUT)
    training, held_out = training[:names], held_out[:held_out_names]
    pairs = train_byte_pairs(training, vocabulary)
    return join_texts(pairs, training), join_texts(pairs, held_out), token_bytes(pairs)

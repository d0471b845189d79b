"""What the counts of the documentation owe to how much of it is counted, and to which."""

import time
from contextlib import nullcontext
from functools import cache

import numpy as np

from transformer_core.foundation.files import from_safetensors
from transformer_core.tasks.gpt.byte_pairs import END_OF_TEXT, BytePairs
from transformer_core.tasks.gpt.kneser_ney import KneserNey
from transformer_core.tasks.gpt.recipe import DEFAULTS, TOKENIZER, TOKENS, prepare
from transformer_core.tasks.gpt.windows import bits_per_byte, token_bytes
from transformer_practice.engine.planting import planted
from transformer_practice.mistakes import MUTANTS

ALL, FIRST, RANDOM = "all", "the first half", "texts drawn at random, half of the tokens"
MISTAKE = "kneser-ney-counts-occurrences"
SEEDS = range(5)


def runs():
    """The settings of every run."""
    yield {"part": ALL}
    yield {"part": FIRST}
    yield from ({"part": RANDOM, "seed": seed} for seed in SEEDS)
    yield {"part": ALL, "mistake": MISTAKE}


@cache
def prepared():
    """The tokens of the parts of the text, the byte pairs, and the bytes of each token."""
    files = prepare(dict(DEFAULTS))
    ids, _ = from_safetensors(TOKENS, files[TOKENS])
    pairs = BytePairs.of_file(TOKENIZER, files[TOKENIZER])
    return ids, pairs, token_bytes(pairs)


def chosen(tokens, end, part, seed):
    """The tokens that are counted."""
    if part == RANDOM:
        texts = np.split(tokens, np.flatnonzero(tokens == end)[1:])
        np.random.default_rng(seed).shuffle(texts)
        tokens = np.concatenate(texts)
    return tokens if part == ALL else tokens[: len(tokens) // 2]


def run(part, seed=0, mistake=None):
    """One table of counts, measured on the held-out names."""
    ids, pairs, sizes = prepared()
    tokens = chosen(ids["training"], pairs.special[END_OF_TEXT], part, seed)
    with planted(MUTANTS[mistake]) if mistake else nullcontext():
        begin = time.process_time()
        counts = KneserNey(tokens, len(sizes))
        seconds = time.process_time() - begin
        losses = counts.losses(ids["held_out"])
    return {
        "tokens": len(tokens),
        "bits": round(bits_per_byte(losses, ids["held_out"], sizes), 4),
        "seconds": round(seconds, 2),
    }

"""Passes of speculative decoding with the GPT of the page, drafted for by counts."""

import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from book.living_models import read_script
from transformer_core.models import sample
from transformer_core.models.speculative import speculative_sample
from transformer_core.tasks.gpt.kneser_ney import KneserNey
from transformer_core.tasks.gpt.recipe import HELD_OUT
from transformer_core.tasks.gpt.windows import join_texts
from transformer_core.tasks.gpt.writing import USUAL
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import split
from transformer_practice.workspace.writer import Writer

ORDERS = {"5-grams": 5, "bigrams": 2}
DRAFTS, SEEDS, PROMPT = (1, 2, 4, 8), range(5), 16
MODEL = Path(__file__).parents[1] / "book/_static/models/gpt.js"


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        yield {"seed": seed}


def run(seed):
    """Passes per token of each drafter, for each number of drafts."""
    found = measured(seed)
    return {name: [found[name, n]["passes"] for n in DRAFTS] for name in ORDERS}


def measured(seed):
    """The same, and milliseconds of the processor per token, by drafter and number of drafts."""
    without_drafts(seed), with_drafts(seed, "5-grams", 4)  # warm
    found = {("none", 0): without_drafts(seed)}
    return found | {(name, n): with_drafts(seed, name, n) for name in ORDERS for n in DRAFTS}


@cache
def writer():
    return Writer(*read_script(MODEL))


@cache
def tokens():
    """Those of the texts that the drafters count, and of those that prompts are taken from."""
    # In a process of its own: what a notebook adds to Python would stand in the text, too.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        documents = pool.submit(documentation).result()
    return tuple(join_texts(writer().pairs, texts) for texts in split(documents, HELD_OUT))


def prompts(seed):
    """Four of the held-out text."""
    held_out = tokens()[1]
    places = np.random.default_rng(seed).integers(len(held_out) - PROMPT, size=4)
    return [held_out[place : place + PROMPT] for place in places]


@cache
def drafter_of(name):
    return KneserNey(tokens()[0], writer().gpt.vocabulary, ORDERS[name])


def without_drafts(seed, sampling=USUAL):
    """A token a pass."""
    return written(
        seed, lambda gpt, start, **how: sample(gpt, start[np.newaxis], sampling=sampling, **how)
    )


def with_drafts(seed, drafter, drafts, sampling=USUAL):
    """Drafts of a number in each pass."""
    counts = drafter_of(drafter)
    return written(
        seed,
        lambda gpt, start, **how: speculative_sample(
            gpt, counts, start, sampling=sampling, drafts=drafts, **how
        ),
    )


def written(seed, write):
    """Write on from four prompts: passes, and milliseconds of the processor, per token."""
    gpt, rng, begin = writer().gpt, np.random.default_rng(seed), time.process_time()
    lengths = [
        len(tokens)
        for prompt in prompts(seed)
        for tokens in write(gpt, prompt, rng=rng, longest=gpt.longest + 1)
    ]
    milliseconds = 1e3 * (time.process_time() - begin)
    return {"passes": len(lengths) / sum(lengths), "ms": milliseconds / sum(lengths)}

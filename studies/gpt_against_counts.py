"""The GPT of the command line against the counts of the same tokens, and both mixed."""

import time

import numpy as np

from studies.counting import prepared
from transformer_core.models import Sampling
from transformer_core.tasks.gpt.kneser_ney import KINDS, KneserNey
from transformer_core.tasks.gpt.recipe import (
    DEFAULTS,
    MEASURED,
    build,
    learning_rate,
    make_optimizer,
    mixture_weights,
)
from transformer_core.tasks.gpt.windows import (
    best_weights,
    bits_per_byte,
    mix,
    token_losses,
    windows,
)
from transformer_core.tasks.gpt.writing import write
from transformer_core.training import train

# Steps of about eight minutes on two cores that do nothing else, and of about a quarter of an hour,
# without rows for pairs and with them: 0.3 s of processor time a step, and 0.32.
STEPS, LONG, WITH_PAIRS = 3200, 6000, 5200
PAIRS, POINTS = 32_768, 10
PROMPTS = "Return the ", "If the argument ", "A class that "
COOLER = Sampling(0.7)


def runs():
    """The settings of every run."""
    yield {"steps": STEPS, "seed": 0}
    yield {"steps": LONG, "seed": 0}
    yield {"steps": WITH_PAIRS, "seed": 0, "pairs": PAIRS}


def run(steps, seed, pairs=0, points=POINTS):
    """One training, measured on the held-out names as it goes on, alone and in the mixture."""
    ids, pairs, sizes = prepared()
    settings = DEFAULTS | {"seed": seed, "pairs": pairs}
    gpt = build(settings)
    counts = KneserNey(ids["training"], len(sizes))
    of_counts = {part: counts.losses(ids[part]) for part in MEASURED}
    kinds = [counts.kinds(ids[part]) for part in MEASURED]
    curve = []

    def bits(losses):
        return round(bits_per_byte(losses, ids["held_out"], sizes), 4)

    def measure(history):
        if len(history) % (steps // points):
            return
        of_gpt = {part: token_losses(gpt, ids[part]) for part in MEASURED}
        tuning, held_out = ((of_gpt[part], of_counts[part]) for part in MEASURED)
        weight = mixture_weights(counts, ids, of_gpt, of_counts)
        by_counts, one_kind = (
            best_weights(*tuning, of_tuning, counts.order * KINDS)[of_held_out]
            for of_tuning, of_held_out in (kinds, map(np.zeros_like, kinds))
        )
        curve.append(
            {
                "step": len(history),
                "bits": bits(held_out[0]),
                "weight": round(float(weight.mean()), 3),
                "mixed": bits(mix(*held_out, weight)),
                "by counts": bits(mix(*held_out, by_counts)),
                "one weight": bits(mix(*held_out, one_kind)),
            }
        )

    begin = time.process_time()
    history = train(
        gpt.loss_and_gradients,
        make_optimizer(gpt.parameters(), settings),
        windows(ids["training"], settings["batch"], settings["length"], seed),
        steps,
        max_norm=settings["max_norm"],
        schedule=lambda step: learning_rate(step, steps, settings["learning_rate"]),
        after_step=measure,
    )
    rng = np.random.default_rng(seed)
    return {
        "parameters": sum(array.size for array in gpt.parameters().values()),
        "tokens": {part: len(ids[part]) for part in ids},
        "minutes": round((time.process_time() - begin) / 60, 1),
        "curve": curve,
        "losses": [round(float(record["loss"]), 3) for record in history[99::100]],
        "texts": [
            prompt + "".join(write(gpt, pairs, prompt, rng, COOLER, tokens=60))
            for prompt in PROMPTS
        ],
    }

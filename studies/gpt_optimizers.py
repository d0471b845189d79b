"""A small GPT with AdamW and with Muon: rates, memories, conventions and schedules."""

from dataclasses import asdict
from functools import partial

import numpy as np

from studies._gpt import layer_of, texts
from transformer_core.optim import AdamW, Muon, Together, warmup_stable_decay
from transformer_core.tasks.gpt.recipe import DEFAULTS, build
from transformer_core.tasks.gpt.windows import bits_per_byte, token_losses, windows
from transformer_core.training import train

SEEDS = range(5)
SPEC = layer_of(96, 256)
SIZES = {"spec": asdict(SPEC), "layers": 3, "vocabulary": 1024, "length": 64}
BATCH, STEPS, WARMUP = 8, 200, 0.04
PEAKS = [2.0**k / 1000 for k in range(5)]
# A name: the optimiser, its settings, and Muon's rate in units of AdamW's.
KINDS = {
    "adamw": (AdamW, {"beta2": 0.95}),
    "adamw, long memory": (AdamW, {"beta2": 0.999}),
    "muon, original": ("original", 7.0),
    "muon, as AdamW": ("match_rms_adamw", 1.0),
}
MEASURED = 20_000  # of the tokens held out
DECAYS = 0.0, 0.2, 0.5, 1 - WARMUP  # shares of the steps, at the end
KEPT = "muon, as AdamW", 8e-3  # whose schedules are compared


def peaks_of(kind):
    """The peaks that are tried: the best of them lies between others."""
    return [*PEAKS, 2 * PEAKS[-1]] if kind == KEPT[0] else PEAKS


def runs():
    """The settings of every run."""
    for seed in SEEDS:
        for kind in KINDS:
            for peak in peaks_of(kind):
                yield {"kind": kind, "peak": peak, "decay": 1 - WARMUP, "seed": seed}
        for decay in DECAYS[:-1]:
            kind, peak = KEPT
            yield {"kind": kind, "peak": peak, "decay": decay, "seed": seed}


def optimizer(parameters, kind, peak):
    """AdamW for everything, or Muon for the matrices of the layers and AdamW for the rest."""
    of, setting = KINDS[kind]
    adamw = partial(
        AdamW, learning_rate=peak, beta2=0.95, undecayed=("bias", "gamma", "beta", "table")
    )
    if of is AdamW:
        return adamw(parameters, **setting)
    matrices = {
        name: array
        for name, array in parameters.items()
        if name.startswith("decoder.") and name.endswith(".weight")
    }
    rest = {name: array for name, array in parameters.items() if name not in matrices}
    muon = Muon(matrices, setting * peak, weight_decay=0.01 / setting, scale=of)
    return Together(parameters, adamw(rest), muon)


def run(kind, peak, decay, seed, steps=STEPS):
    """One training: the losses, the size of AdamW's steps, bits per byte of the held-out names."""
    ids, held_out, sizes = texts(SIZES["vocabulary"])
    held_out = held_out[:MEASURED]
    gpt = build(DEFAULTS | SIZES | {"seed": seed})
    parameters = gpt.parameters()
    rate = partial(
        warmup_stable_decay,
        steps=steps,
        peak=peak,
        warmup=round(WARMUP * steps),
        decay=round(decay * steps),
    )
    before, moved = {}, {}

    def measure(history):
        """The root mean square of a step in units of its rate, in the middle of the training."""
        if len(history) == steps // 2 - 1:
            before.update((name, array.copy()) for name, array in parameters.items())
        elif len(history) == steps // 2:
            for name, array in before.items():
                step = (parameters[name] - array) / rate(len(history))
                moved[name] = round(float(np.sqrt(np.mean(step**2))), 4)

    history = train(
        gpt.loss_and_gradients,
        optimizer(parameters, kind, peak),
        windows(ids, BATCH, SIZES["length"], seed),
        steps,
        max_norm=1.0,
        schedule=rate,
        after_step=measure,
    )
    return {
        "losses": [round(float(record["loss"]), 3) for record in history[9::10]],
        "moved": moved,
        "bits per byte": round(bits_per_byte(token_losses(gpt, held_out), held_out, sizes), 4),
    }

"""The Mini-BERT of the pages, trained by its recipe; its weights are stored."""

from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from book.living_models import in_eight_bits, write_script
from transformer_core.foundation.files import from_safetensors
from transformer_core.ranks import Communicator
from transformer_core.tasks.bert.masking import mask
from transformer_core.tasks.bert.mini_bert import LAYERS, LENGTH, SPEC, measure
from transformer_core.tasks.bert.recipe import BLOCKS, RECIPE, TOKENIZER
from transformer_core.training import train

SCRIPT = Path(__file__).parents[1] / "book/_static/models/mini_bert.js"
MEAN = 20  # steps in each stored mean of the loss
LOOKS = 20  # measurements on every fifth held-out block


def runs():
    """The settings of every run."""
    yield {"steps": 3200, "seed": 0}


def run(steps, seed, script=SCRIPT):
    """Train, write the weights in 8 bits as a script, and measure what the rounding costs."""
    settings = RECIPE.defaults | {"steps": steps, "seed": seed}
    files = RECIPE.prepare(settings)
    blocks, _ = from_safetensors(BLOCKS, files[BLOCKS])
    training = RECIPE.training(settings, files, Communicator())
    bert, held_out = training.model.model, blocks["held_out"]
    inputs, masked = mask(held_out, settings["vocabulary"], np.random.default_rng(4))
    looks = {"step": [], "loss": [], "accuracy": []}

    def look(history):
        if history[-1]["step"] % (steps // LOOKS) == 0:
            found = measure(bert, inputs[::5], held_out[::5], masked[::5])
            for name, value in zip(looks, (history[-1]["step"], *found), strict=True):
                looks[name].append(round(value, 5))

    history = train(
        training.model,
        training.optimizer,
        training.batches(1),
        steps,
        seed=seed,
        schedule=lambda step: training.schedule(step, steps),
        max_norm=settings["max_norm"],
        after_step=look,
    )
    tokenizer = Tokenizer.from_str(files[TOKENIZER].decode())
    pieces = [tokenizer.id_to_token(k) for k in range(tokenizer.get_vocab_size())]
    shape = {"spec": asdict(SPEC), "length": LENGTH, "layers": LAYERS}
    write_script(script, "mini_bert", bert.parameters(), shape | {"pieces": pieces})
    scores, answers = [], []
    for parameters in (bert.parameters(), in_eight_bits(bert.parameters())):
        bert.set_parameters(parameters)
        scores.append(measure(bert, inputs, held_out, masked))
        answers.append(answered(bert, inputs, masked))
    losses = np.reshape([record["loss"] for record in history], (-1, MEAN)).mean(axis=1)
    loss, accuracy = zip(*scores, strict=True)
    return {
        "losses": [round(float(mean), 4) for mean in losses],
        "looks": looks,
        "loss": [round(value, 5) for value in loss],
        "accuracy": [round(value, 5) for value in accuracy],
        "changed": float(np.mean(answers[0] != answers[1])),
        "weights": sha256(Path(script).read_bytes()).hexdigest(),
    }


def answered(bert, inputs, masked):
    """The likeliest token at every masked place."""
    batches = [slice(k, k + 16) for k in range(0, len(inputs), 16)]
    return np.concatenate([bert.forward(inputs[b], masked[b])[0].argmax(axis=-1) for b in batches])

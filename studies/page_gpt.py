"""The small GPT that writes in the pages, trained on the documentation; its weights are stored."""

from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

from book.living_models import in_eight_bits, write_script
from transformer_core.foundation.files import from_safetensors, read_json
from transformer_core.tasks.gpt import load
from transformer_core.tasks.gpt.recipe import RECIPE, TOKENIZER, TOKENS
from transformer_core.tasks.gpt.windows import bits_per_byte, token_bytes, token_losses
from transformer_core.training import Run, train_on_disk

SCRIPT = Path(__file__).parents[1] / "book/_static/models/gpt.js"
SIZES = {
    "spec": {"width": 128, "attention": {"heads": 4}, "hidden_width": 344},
    "length": 96,
    "layers": 3,
    "vocabulary": 2048,
}


RATES = {"batch": 16, "learning_rate": 3e-3}


def runs():
    """The settings of every run."""
    yield {"steps": 4000, "seed": 0}


def run(steps, seed, script=SCRIPT):
    """Train, write the weights in 8 bits as a script, and measure what the rounding costs."""
    with TemporaryDirectory() as home:
        folder = Path(home, "run")
        train_on_disk(RECIPE, str(folder), SIZES | RATES | {"steps": steps, "seed": seed})
        gpt, pairs = load(folder)
        kept = Run(folder)
        ids, _ = from_safetensors(TOKENS, kept.read(TOKENS))
        table = read_json(TOKENIZER, kept.read(TOKENIZER))
        settings = {name: kept.settings()[name] for name in SIZES}
    write_script(script, "gpt", gpt.parameters(), settings | {"tokenizer": table})
    bits = []
    for parameters in (gpt.parameters(), in_eight_bits(gpt.parameters())):
        gpt.set_parameters(parameters)
        losses = token_losses(gpt, ids["held_out"])
        bits.append(round(bits_per_byte(losses, ids["held_out"], token_bytes(pairs)), 5))
    return {
        "parameters": sum(array.size for array in gpt.parameters().values()),
        "bits": bits,
        "weights": sha256(Path(script).read_bytes()).hexdigest(),
    }

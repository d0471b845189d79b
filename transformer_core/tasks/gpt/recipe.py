"""The training of a GPT on the documentation that is installed."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np

from transformer_core.distributed.over_ranks import over_ranks
from transformer_core.foundation.checks import check_choice
from transformer_core.foundation.files import from_safetensors, to_safetensors
from transformer_core.foundation.names import summary
from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import Gpt, StackSpec
from transformer_core.optim import AdamW, Muon, Together, warmup_stable_decay
from transformer_core.ranks import Communicator
from transformer_core.tasks.gpt.byte_pairs import BytePairs, train_byte_pairs
from transformer_core.tasks.gpt.kneser_ney import KINDS, KneserNey
from transformer_core.tasks.gpt.windows import (
    RECENT,
    best_weights,
    bits_per_byte,
    join_texts,
    mix,
    recent_kinds,
    token_bytes,
    token_losses,
    windows,
)
from transformer_core.tasks.texts.documentation import documentation
from transformer_core.tasks.texts.documents import read_documents, split
from transformer_core.training import Recipe, Run, Training, load_settings

SPEC = LayerSpec(
    192,
    AttentionSpec(6, bias=False, key_heads=2, transform="rotary_halves"),
    512,
    "pre",
    NormSpec("rms_norm"),
    "swiglu",
)
DEFAULTS = {
    "spec": asdict(SPEC),
    "length": 128,
    "layers": 4,
    "vocabulary": 4096,
    "pairs": 0,
    "text": None,  # the documentation that is installed
    "minutes": 8.0,
    "steps": None,
    "batch": 8,
    "optimizer": "muon",
    "learning_rate": 2e-3,
    "beta2": 0.95,
    "max_norm": 1.0,
    "seed": 0,
    "checkpoint_every": 500,
}
TOKENS, TOKENIZER = "tokens.safetensors", "tokenizer.json"
HELD_OUT, TUNING = 0.05, 0.02  # shares of the names
OPTIMIZERS = "muon", "adamw"
MEASURED = "tuning", "held_out"
MUON = 7.0  # its learning rate, in units of AdamW's


def prepare(settings: dict) -> dict[str, bytes]:
    """Learn the byte pairs, and cut the names into those to train on and to hold out."""
    text = settings["text"]
    check_choice("optimizer", settings["optimizer"], OPTIMIZERS)
    if text == "":
        raise ValueError("text: expected a path, got an empty one")
    documents = documentation() if text is None else read_documents(text)
    _, held_out = split(documents, HELD_OUT)
    training, others = split(documents, HELD_OUT + TUNING)
    tuning = [text for text in others if text not in {*held_out}]
    if not tuning:
        raise ValueError(
            f"text: expected enough to hold {TUNING:.0%} more out, got {len(documents)} documents"
        )
    pairs = train_byte_pairs(training, settings["vocabulary"])
    parts = {"training": training, "tuning": tuning, "held_out": held_out}
    ids = {name: join_texts(pairs, texts) for name, texts in parts.items()}
    return {TOKENIZER: pairs.to_file(), TOKENS: to_safetensors(ids)}


def build(settings: dict) -> Gpt:
    """Build what the settings of a run describe, untrained.

    What each of the 2 L branches adds starts smaller by the root of 2 L, so that all together add
    as much as one.
    """
    layers = settings["layers"]
    gpt = Gpt(
        LayerSpec.from_settings(settings["spec"]),
        StackSpec(settings["vocabulary"], settings["length"], layers),
        np.random.default_rng(settings["seed"]),
        pairs=settings["pairs"],
    )
    for layer in gpt.decoder.layers:
        for residual in (layer.attention, layer.feed_forward):
            residual.branch.output.weight /= (2 * layers) ** 0.5
    return gpt


def make_optimizer(parameters, settings, **seams):
    """Muon for the matrices of the decoder, AdamW for the rest; or AdamW for all."""
    peak = settings["learning_rate"]
    adamw = partial(
        AdamW,
        learning_rate=peak,
        beta2=settings["beta2"],
        undecayed=("bias", "gamma", "beta", "table"),
        **seams,
    )
    if settings["optimizer"] == "adamw":
        return adamw(parameters)
    arrays = parameters() if callable(parameters) else parameters
    matrices = {n: a for n, a in arrays.items() if n.startswith("decoder.")}
    matrices = {n: a for n, a in matrices.items() if n.endswith(".weight")}
    rest = {n: a for n, a in arrays.items() if n not in matrices}
    muon = Muon(matrices, MUON * peak, **seams)
    return Together(parameters, adamw(rest), muon, **seams)


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Rise for 4 % of the steps, and fall to 0 over the rest (eq:warmup-stable-decay)."""
    warmup = steps * 4 // 100
    return warmup_stable_decay(step, steps, peak, warmup, decay=steps - warmup)


def training(
    settings: dict, files: dict[str, bytes], communicator: Communicator, **scheme: int
) -> Training:
    if scheme and settings["optimizer"] != "adamw":
        raise ValueError(
            f"optimizer: expected adamw with {summary(scheme)}, where ranks have parts of "
            f"matrices, got {settings['optimizer']}"
        )
    ids, _ = from_safetensors(TOKENS, files[TOKENS])
    gpt, peak = build(settings), settings["learning_rate"]
    optimizer = partial(make_optimizer, settings=settings)
    parallel = over_ranks(gpt, counted, optimizer, communicator, **scheme)

    def batches(first):
        size, length = settings["batch"], settings["length"]
        return windows(ids["training"], size, length, settings["seed"], first)

    def measures():
        sizes = token_bytes(BytePairs.of_file(TOKENIZER, files[TOKENIZER]))
        counts = KneserNey(ids["training"], settings["vocabulary"])
        of_gpt = {part: token_losses(gpt, ids[part]) for part in MEASURED}
        of_counts = {part: counts.losses(ids[part]) for part in MEASURED}
        weight = mixture_weights(counts, ids, of_gpt, of_counts)
        held_out = of_gpt["held_out"], of_counts["held_out"]
        for name, found in (
            ("the GPT", held_out[0]),
            ("Kneser-Ney 5-grams", held_out[1]),
            (f"both, {weight.mean():.0%} GPT", mix(*held_out, weight)),
        ):
            bits = bits_per_byte(found, ids["held_out"], sizes)
            yield f"bits per byte of held-out names, {name}", f"{bits:.3f}"

    return Training(
        parallel.scheme,
        parallel.optimizer,
        batches,
        partial(learning_rate, peak=peak),
        measures,
        parallel.gather,
        parallel.scatter,
        gpt.set_parameters,
    )


def mixture_weights(
    counts: KneserNey, ids: dict, of_gpt: dict, of_counts: dict
) -> np.ndarray:
    """Return the GPT's weight at each held-out token, tuned on others (eq:mixture-kinds)."""
    kinds = {
        part: counts.kinds(ids[part]) * RECENT
        + recent_kinds(of_gpt[part], of_counts[part])
        for part in MEASURED
    }
    number = counts.order * KINDS * RECENT
    found = best_weights(of_gpt["tuning"], of_counts["tuning"], kinds["tuning"], number)
    return found[kinds["held_out"]]


def counted(ids, targets):
    return targets.size


RECIPE = Recipe(
    "gpt", DEFAULTS, ("minutes", "steps"), training, prepare, (TOKENIZER, TOKENS)
)


def load(folder: str | Path) -> tuple[Gpt, BytePairs]:
    """Return the GPT that ``train gpt`` has trained into a folder, and its byte pairs."""
    run = Run(folder)
    settings = load_settings(run, RECIPE)
    pairs = BytePairs.load(run.folder / TOKENIZER)
    gpt = build(settings)
    run.load_checkpoint(gpt.parameters())
    return gpt, pairs

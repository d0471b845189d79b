"""The trainings of the museum: small, and with everything in which a mistake can hide."""

from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from transformer_core.layers import AttentionSpec, LayerSpec, NormSpec
from transformer_core.models import EncoderDecoder, Gpt, StackSpec
from transformer_core.ops import padding_keep, sinusoidal_positions, window_keep
from transformer_core.optim import AdamW, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstructor
from transformer_core.training import Run, combine, train

T, D, V, LONGEST, START, END = 8, 32, 12, 6, 1, 2
STEPS, WARMUP, MAX_NORM, SEED = 300, 20, 1.0, 0
WINDOW = 12  # of the GPT: from the last token it writes back to the first that it is given


class Task(NamedTuple):
    """What is trained, on what, and how."""

    about: str
    build: Callable[..., Any]  # (rng, dtype=np.float32)
    batches: Callable[..., Iterator[tuple]]  # (rng, size=...)
    loss_and_gradients: Callable  # (model, *batch, rng)
    judge: Callable[[Any, tuple], dict[str, str]]  # (model, batch)
    rate: float
    settings: dict = {}  # of the model's own loss


class Trained(NamedTuple):
    losses: np.ndarray
    model: Any


def encoder(rng, dtype=np.float32, dropout=0.0):
    spec = LayerSpec(D, 2, 64, "post", dropout=dropout, dtype=dtype)
    return Reconstructor(spec, 2, rng)


def token_batches(rng, shift, size=16):
    """Yield embedded tokens, and the embedding of each one's own or previous token."""
    table = rng.normal(size=(16, D)).astype(np.float32)
    positions = sinusoidal_positions(T, D, np.float32)
    while True:
        tokens = rng.integers(16, size=(size, T))
        yield table[tokens] + positions, table[np.roll(tokens, shift, axis=1)]


def of_whole_batch(model, inputs, targets, rng):
    return model.loss_and_gradients(inputs, targets, rng=rng)


def judge_tokens(model, batch):
    inputs, targets = batch
    outputs, _ = model.forward(inputs)
    return {"mean squared error in evaluation": f"{np.mean((outputs - targets) ** 2):.3g}"}


def writer(rng, dtype=np.float32):
    return EncoderDecoder(
        LayerSpec(D, 2, 64, "pre", dropout=0.02, dtype=dtype),
        source=StackSpec(V, LONGEST, layers=1),
        target=StackSpec(V, LONGEST + 1, layers=2),
        rng=rng,
        shared=True,
    )


def row_batches(rng, size=24):
    """Yield rows of tokens 3 to V - 1, padded, and the same backwards from START to END."""
    while True:
        lengths = rng.integers(2, LONGEST + 1, size)
        source = np.zeros((size, LONGEST), int)
        target = np.zeros((size, LONGEST + 2), int)
        for b, n in enumerate(lengths):
            source[b, :n] = rng.integers(3, V, n)
            target[b, : n + 2] = [START, *source[b, :n][::-1], END]
        yield source, lengths, target, lengths + 2


def of_two_parts(model, *batch, rng):
    """Work on the first 4 rows, then on the others, as if the memory did not hold them all."""

    def part(where):
        *_, lengths = rows = [array[where] for array in batch]
        loss, grads = model.loss_and_gradients(*rows, rng=rng, smoothing=0.1)
        return (lengths - 1).sum(), loss, grads

    _, loss, grads = combine(map(part, (slice(4), slice(4, None))))
    return loss, grads


def judge_rows(model, batch):
    """Let the model write token by token, and each token after the right ones."""
    source, lengths, target, target_lengths = batch
    keep = padding_keep(lengths, LONGEST)
    written = target[:, :1]
    for _ in range(LONGEST + 1):
        logits, _ = model.forward(source, written, keep)
        best = logits[:, -1].argmax(axis=-1)
        written = np.concatenate([written, best[:, np.newaxis]], axis=1)
    logits, _ = model.forward(source, target[:, :-1], keep)
    led = np.concatenate([target[:, :1], logits.argmax(axis=-1)], axis=1)
    padding = np.arange(LONGEST + 2) >= target_lengths[:, np.newaxis]

    def share(rows):
        return f"{((rows == target) | padding).all(axis=1).mean():.0%} of the rows right"

    return {"writing by itself": share(written), "each token after the right ones": share(led)}


def gpt(rng, dtype=np.float32):
    attention = AttentionSpec(4, bias=False, key_heads=2, transform="qk_norm_rotary_halves")
    spec = LayerSpec(D, attention, 64, "pre", NormSpec("rms_norm"), "swiglu", 0.02, dtype)
    return Gpt(spec, StackSpec(V, 2 * LONGEST + 2, layers=2), rng)


def text_batches(rng, size=24):
    """Yield START, a row, START, the row backwards, END: inputs, targets, and what each counts.

    What is given counts nothing, and what is to be written between a half and one.
    """
    for source, lengths, target, _ in row_batches(rng, size):
        ids = np.zeros((size, 2 * LONGEST + 3), int)
        ids[:, 0] = START
        weights = np.zeros(ids.shape)
        for b, n in enumerate(lengths):
            ids[b, 1 : n + 1] = source[b, :n]
            ids[b, n + 1 : 2 * n + 3] = target[b, : n + 2]
            weights[b, n + 2 : 2 * n + 3] = rng.uniform(0.5, 1, n + 1)
        yield ids[:, :-1], ids[:, 1:], weights[:, 1:]


def of_two_texts(model, *batch, rng):
    """Work on the first 4 rows, then on the others, each position with the last WINDOW in sight."""

    def part(where):
        ids, targets, weights = (array[where] for array in batch)
        keep = window_keep(ids.shape[1], WINDOW)
        loss, grads = model.loss_and_gradients(ids, targets, weights, keep, rng)
        return weights.sum(), loss, grads

    _, loss, grads = combine(map(part, (slice(4), slice(4, None))))
    return loss, grads


def judge_texts(model, batch):
    ids, targets, weights = batch
    logits, _ = model.forward(ids, window_keep(ids.shape[1], WINDOW))
    right = (logits.argmax(axis=-1) == targets) | (weights == 0)
    return {"each token after the right ones": f"{right.all(axis=1).mean():.0%} of the rows right"}


TASKS = {
    "same": Task(
        "An encoder returns the embedding of the same token: Post-LN, 2 layers, dropout 0.1.",
        partial(encoder, dropout=0.1),
        partial(token_batches, shift=0),
        of_whole_batch,
        judge_tokens,
        rate=4e-3,
    ),
    "previous": Task(
        "An encoder returns the embedding of the previous token: Post-LN, 2 layers.",
        encoder,
        partial(token_batches, shift=1),
        of_whole_batch,
        judge_tokens,
        rate=4e-3,
    ),
    "reversal": Task(
        "An encoder-decoder writes a row of tokens backwards: Pre-LN, 1 and 2 layers, one table "
        "for source, target and output layer, dropout 0.02, labels smoothed by 0.1, batches in two "
        "parts.",
        writer,
        row_batches,
        of_two_parts,
        judge_rows,
        rate=8e-3,
        settings={"smoothing": 0.1},
    ),
    "text": Task(
        "A GPT continues a row of tokens with the same row backwards: RMSNorm, QK-norm and rotary "
        "positions in halves, two heads of queries for one of keys, SwiGLU, 2 layers, a window of "
        "12 positions, dropout 0.02, batches in two parts, tokens that count differently.",
        gpt,
        text_batches,
        of_two_texts,
        judge_texts,
        rate=8e-3,
    ),
}


def new_model(task: str, dtype: Any = np.float32) -> Any:
    """Return the model from which every training of a task starts."""
    return TASKS[task].build(np.random.default_rng(SEED), dtype)


def batch_of(task: str, number: int = 0, **size: int) -> tuple:
    """Return the batch of a step, counted from 0, or another of some ``size``."""
    batches = TASKS[task].batches(np.random.default_rng(SEED + 1), **size)
    return next(islice(batches, number, None))


def rate(task: str, step: int) -> float:
    """Return the learning rate of a step."""
    return warmup_stable_decay(step, STEPS, TASKS[task].rate, WARMUP, STEPS // 4)


def loop(*arguments: Any, **settings: Any) -> list[dict]:
    """Train without a progress bar."""
    with redirect_stderr(StringIO()):
        return train(*arguments, seed=SEED, **settings)


def trained(task: str, steps: int = STEPS, stop: int = STEPS // 2) -> Trained:
    """Train a model, which is saved after step ``stop`` and taken up again in a new one."""
    rng = np.random.default_rng(SEED)
    batches = TASKS[task].batches(np.random.default_rng(SEED + 1))
    history: list[dict] = []

    def begin():
        model = TASKS[task].build(rng)
        return model, AdamW(model.parameters, TASKS[task].rate)

    def go_on(model, optimizer, until):
        loop(
            partial(TASKS[task].loss_and_gradients, model),
            optimizer,
            batches,
            until,
            schedule=partial(rate, task),
            max_norm=MAX_NORM,
            history=history,
        )

    model, optimizer = begin()
    go_on(model, optimizer, min(stop, steps))
    if stop < steps:
        with TemporaryDirectory() as folder:
            run = Run(folder)
            run.save_checkpoint(model.parameters(), optimizer)
            model, optimizer = begin()
            run.load_checkpoint(model.parameters(), optimizer)
        go_on(model, optimizer, steps)
    return Trained(np.array([record["loss"] for record in history]), model)

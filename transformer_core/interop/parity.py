"""Every number of a checkpoint, here and in the reference library: values and gradients."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transformer_core.foundation.checks import check_choice
from transformer_core.gradient_check import gradient_error
from transformer_core.interop.folder import load, located, rows_of, settings_of
from transformer_core.interop.rows import Row, in_their_layout
from transformer_core.models import Bert, BertEncoder
from transformer_core.ops import padding_keep


class Compared(NamedTuple):
    """One array of a checkpoint, here and there."""

    row: Row
    value_error: float  # of the array
    gradient_error: float


class Parity(NamedTuple):
    """What :func:`parity` has found: relative errors, of the norm of the difference.

    Hidden states and the output are compared where there is a token: at padding, a query whose
    window has no token gets 0 here, and a mean there.
    """

    hidden: tuple[float, ...]  # of what the embeddings and each layer return
    output: float  # logits, or what a model without a head returns
    loss: float
    arrays: tuple[Compared, ...]

    @property
    def largest(self) -> float:
        """The largest error of all."""
        each = [max(entry.value_error, entry.gradient_error) for entry in self.arrays]
        return max(*self.hidden, self.output, self.loss, *each)

    def __str__(self) -> str:
        width = max(len(entry.row.theirs) for entry in self.arrays)
        ours = max(len(place_of(entry.row)) for entry in self.arrays)
        head = f"{'name there':{width}}  {'name here':{ours}}  {'equation':20}  T"
        head += "    value  gradient"
        lines = [
            f"{entry.row.theirs:{width}}  {place_of(entry.row):{ours}}  {entry.row.equation:20}  "
            f"{'T' if entry.row.transposed else ' '}  {entry.value_error:7.0e}  "
            f"{entry.gradient_error:7.0e}"
            for entry in self.arrays
        ]
        hidden = " ".join(f"{error:.0e}" for error in self.hidden)
        ends = f"output {self.output:.0e}, loss {self.loss:.0e}"
        return "\n".join([head, *lines, f"hidden states: {hidden}", ends])


class Batch(NamedTuple):
    """A padded batch: what both sides are given."""

    ids: np.ndarray
    lengths: np.ndarray
    segment_ids: np.ndarray
    targets: np.ndarray
    counted: np.ndarray  # which targets count


def parity(
    folder: str | Path, dtype: str = "float64", batch: int = 3, length: int = 12
) -> Parity:
    """Compare a folder here with ``transformers``, array by array: values and gradients.

    The batch is drawn: sequences of different lengths, padded, with two segments in BERT. The loss
    is the mean cross-entropy of the counted tokens; without a head, the inner product of what comes
    out with drawn cotangents. In float64 the reference, which computes norms, angles and the
    softmax in float32 whatever it is given, is kept in float64. The ids inside are others than the
    padding's, whose row the reference never trains by looking it up.

    Parameters
    ----------
    folder : str or Path
        As for :func:`load`.
    dtype : {"float64", "float32"}
    batch, length : int
        B and T.

    Returns
    -------
    Parity
        ``print`` shows it as a table of contents of the checkpoint.
    """
    check_choice("dtype", dtype, ("float64", "float32"))
    place = located(folder)
    model, _ = load(place, dtype)
    padding = settings_of(place).get("pad_token_id") or 0
    length = min(length, model.stack.length)
    drawn = draw(model, batch, length, padding)
    hidden, output, loss, grads = ours(model, drawn)
    with kept_in(dtype):
        found = theirs(theirs_of(place, dtype), model, drawn)
    states, their_output, their_loss, their_values, their_grads = found
    rows = rows_of(model)
    values = in_their_layout(rows, model.parameters())
    gradients = in_their_layout(rows, grads)
    scale = 1e-3 * max(float(np.linalg.norm(grad)) for grad in grads.values())
    arrays = tuple(
        Compared(
            row,
            gradient_error(values[row.theirs], their_values[row.theirs]).norm,
            gradient_error(gradients[row.theirs], their_grads[row.theirs], scale).norm,
        )
        for row in rows
    )
    inside = np.arange(length) < drawn.lengths[:, np.newaxis]
    *errors, of_output = (
        gradient_error(a[inside], b[inside]).norm
        for a, b in zip([*hidden, output], [*states, their_output], strict=True)
    )
    return Parity(
        tuple(errors),
        of_output,
        abs(loss - their_loss) / max(abs(their_loss), 1e-30),
        arrays,
    )


def place_of(row):
    """The name of a parameter, and which part of it is meant."""
    return row.ours if row.part is None else f"{row.ours} [{row.part}]"


def draw(model, batch, length, padding):
    """Draw a padded batch at a generic point."""
    rng = np.random.default_rng(0)
    lengths = np.maximum(length - 2 * np.arange(batch), 2)
    inside = np.arange(length) < lengths[:, np.newaxis]
    others = rng.integers(1, model.stack.vocabulary, size=(batch, length))
    ids = np.where(inside, (padding + others) % model.stack.vocabulary, padding)
    counted = inside & (rng.random(ids.shape) < 0.7)
    counted[:, 0] = True
    targets = rng.integers(model.stack.vocabulary, size=ids.shape)
    segment_ids = (np.arange(length) >= lengths[:, np.newaxis] // 2).astype(np.int64)
    segments = len(model.segments.table) if isinstance(model, BertEncoder) else 1
    return Batch(ids, lengths, segment_ids % segments, targets, counted)


def ours(model, batch):
    """Return hidden states, output, loss and gradients by the passes of the course."""
    keep = padding_keep(batch.lengths, batch.ids.shape[1])
    is_bert = isinstance(model, BertEncoder)
    given = (batch.ids, batch.segment_ids) if is_bert else (batch.ids,)
    embedded, _ = model.embed(*given)
    stack = model.encoder if is_bert else model.decoder
    mask = keep if is_bert else keep & np.tri(batch.ids.shape[1], dtype=bool)
    states = [embedded]
    for layer in stack.layers:
        states.append(layer.forward(states[-1], mask)[0])
    if stack.final_norm:
        states[-1] = stack.final_norm.forward(states[-1])[0]
    if isinstance(model, Bert):
        logits, _ = model.forward(batch.ids, keep=keep, segment_ids=batch.segment_ids)
        loss, grads = model.loss_and_gradients(
            batch.ids, batch.targets, batch.counted, keep, batch.segment_ids
        )
        return states, logits, loss, grads
    if is_bert:
        h, cache = model.forward(batch.ids, keep, batch.segment_ids)
        dh, dpooled = cotangents(h, batch.lengths, model.pooler)
        loss = float((h * dh).sum())
        if model.pooler:
            loss += float((cache.pooled * dpooled).sum())
        _, grads = model.backward(dh, cache, dpooled)
        return states, h, loss, grads
    logits, _ = model.forward(batch.ids, keep)
    weights = batch.counted.astype(logits.dtype)
    loss, grads = model.loss_and_gradients(batch.ids, batch.targets, weights, keep)
    return states, logits, loss, grads


def cotangents(h, lengths, pooler):
    """Draw the cotangents of what a model without a head returns: 0 at the padding."""
    rng = np.random.default_rng(1)
    inside = np.arange(h.shape[1]) < lengths[:, np.newaxis]
    dh = (rng.normal(size=h.shape) * inside[..., np.newaxis]).astype(h.dtype)
    dpooled = rng.normal(size=(h.shape[0], h.shape[2])).astype(h.dtype)
    return dh, dpooled if pooler else None


def theirs_of(folder, dtype):
    """Read the folder with the reference library, ready to be differentiated."""
    import torch
    import transformers

    (name,) = settings_of(Path(folder))["architectures"]
    settings = {"dtype": getattr(torch, dtype), "attn_implementation": "eager"}
    return getattr(transformers, name).from_pretrained(folder, **settings).eval()


def theirs(reference, model, batch):
    """Return hidden states, output, loss, values and gradients by the reference."""
    import torch

    inside = np.arange(batch.ids.shape[1]) < batch.lengths[:, np.newaxis]
    given: dict[str, Any] = {
        "input_ids": torch.tensor(batch.ids),
        "attention_mask": torch.tensor(inside.astype(np.int64)),
        "output_hidden_states": True,
    }
    if isinstance(model, BertEncoder):
        given["token_type_ids"] = torch.tensor(batch.segment_ids)
    found = reference(**given)
    output = found[0]
    if isinstance(model, BertEncoder) and not isinstance(model, Bert):
        dh, dpooled = cotangents(output.detach().numpy(), batch.lengths, model.pooler)
        loss = (output * torch.tensor(dh)).sum()
        if dpooled is not None:
            loss = loss + (found.pooler_output * torch.tensor(dpooled)).sum()
    else:
        counted = torch.tensor(batch.counted)
        targets = torch.tensor(batch.targets)[counted]
        loss = torch.nn.functional.cross_entropy(output[counted], targets)
    loss.backward()
    values, grads = {}, {}
    for name, value in reference.named_parameters():
        values[name] = value.detach().numpy()
        none = value.grad is None
        grads[name] = np.zeros(value.shape) if none else value.grad.numpy()
    states = [state.detach().numpy() for state in found.hidden_states]
    return states, output.detach().numpy(), loss.item(), values, grads


@contextmanager
def kept_in(dtype: str) -> Iterator[None]:
    """In float64, let PyTorch take every request for float32 as one for float64."""
    from unittest.mock import patch

    import torch

    if dtype != "float64":
        yield
        return
    functional = torch.nn.functional
    with (
        patch.object(torch.Tensor, "to", widened(torch.Tensor.to)),
        patch.object(torch, "arange", widened(torch.arange)),
        patch.object(functional, "softmax", widened(functional.softmax)),
        patch.object(torch.Tensor, "float", torch.Tensor.double),
    ):
        yield


def widened(function):
    """Return a function of PyTorch that takes float64 where float32 is asked for."""
    import torch

    def wide(value):
        return torch.float64 if value is torch.float32 else value

    @wraps(function)
    def called(*given, **named):
        return function(*map(wide, given), **{key: wide(v) for key, v in named.items()})

    return called

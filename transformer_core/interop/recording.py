"""Recordings: the values of one training step, under the names that ``compare`` knows.

``layers.0`` is the first layer; ``X`` stands for ``attention`` or ``feed_forward``.

======================================  ==========================================================
``ids``, ``targets``                    (B, T), whole numbers; a negative target does not count
``loss_weights``                        (B, T), how much each target counts; missing: 1 everywhere
``attention_mask``                      (B, T), 1 for a token and 0 for padding; missing: no
                                        padding
``positions``                           (T,) or (B, T), whole numbers, where a program is given
                                        them
``segment_ids``                         (B, T), whole numbers
``cotangents``                          (B, T, D), of what a model without a head returns: the
                                        loss is their inner product with it
``heads``, ``key_heads``                one whole number each; read from the shapes where they are
                                        missing
``embedding_sum``                       (B, T, D), the sum of the embeddings, where a norm follows
                                        it
``embedding``                           (B, T, D), what the first layer is given
``layers.0.X.norm``                     (B, T, D), the output of the branch's norm, before or
                                        after the branch
``layers.0.attention.``                 ``query`` (B, H, T, d_k), ``key`` (B, G, T, d_k),
                                        ``value`` (B, G, T, d_v): the projections, cut into heads
..                                      ``query_norm``, ``key_norm``: after the norm of queries
                                        and keys
..                                      ``query_rotated``, ``key_rotated``: as they enter the
                                        scores
..                                      ``scores`` (B, H, T, S), scaled, before the mask
..                                      ``weights`` (B, H, T, S), after the softmax
..                                      ``context`` (B, T, H*d_v), the weighted values, heads side
                                        by side
``layers.0.feed_forward.``              ``gate``, ``up`` (B, T, F): the projections, before the
                                        activation; a layer without a gate has ``up`` alone
..                                      ``hidden`` (B, T, F), what the last projection is given
``layers.0.X.output``                   (B, T, D), the output of the branch
``layers.0.X.residual``                 (B, T, D), the sum of the branch and its input, before any
                                        norm
``final_norm``                          (B, T, D)
``logits``                              (B, T, V)
``loss``                                one number
``parameter.<value>.weight``            of the layer or norm that makes this value, (in, out): of
                                        a ``torch.nn.Linear``, the transpose; ``bias`` likewise
``parameter.<kind>_embedding.weight``   (V, D), of ``token``, ``position`` and ``segment``
``gradient.<name>``                     of the loss, with respect to a value or to
                                        ``parameter....``; a parameter that gets none has zeros
======================================  ==========================================================
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_kind, check_shape
from transformer_core.foundation.files import to_safetensors, write_atomically
from transformer_core.interop.folder import load, located, settings_of
from transformer_core.layers.layer import Layer
from transformer_core.models.bert import Bert
from transformer_core.models.bert_encoder import BertEncoder
from transformer_core.models.gpt import Gpt
from transformer_core.ops.attention import attention
from transformer_core.ops.heads import split_heads
from transformer_core.ops.masks import causal_keep, window_keep
from transformer_core.ops.softmax import softmax_backward

WHOLE = {"BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
WHOLE |= {"U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8"}
FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "BF16": "<u2"}
EMBEDDINGS = {"tokens": "token", "positions": "position", "segments": "segment"}


def record(
    model: Gpt | Bert | BertEncoder,
    ids: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    attention_mask: np.ndarray | None = None,
    segment_ids: np.ndarray | None = None,
) -> dict[str, np.ndarray]:
    """Run both passes of a model by hand, in evaluation, and return all values on the way.

    Parameters
    ----------
    model : Gpt, Bert or BertEncoder
        It is left as it is. A pooler is not recorded.
    ids, targets : ndarray of int (B, T)
        Of a BertEncoder, which has no logits, the targets are ``cotangents`` (B, T, D).
    weights : ndarray (B, T), optional
        How much each target counts; of a Bert, the masked positions. Default: 1 everywhere.
    attention_mask : ndarray (B, T), optional
        1 for a token and 0 for padding. Default: no padding.
    segment_ids : ndarray of int (B, T), optional

    Returns
    -------
    dict of str to ndarray
        Under the names of this module: what ``write_recording`` writes.
    """
    if not isinstance(model, BertEncoder):
        check_kind("model", model, Gpt)
    watched: Any = deepcopy(model)
    has_head = hasattr(model, "readout")
    values = {"ids": ids, "targets" if has_head else "cotangents": targets}
    options: dict[str, Any] = {}
    if attention_mask is not None:
        values["attention_mask"] = attention_mask
        options["keep"] = attention_mask.astype(bool)[:, np.newaxis, np.newaxis]
    if segment_ids is not None:
        options["segment_ids"] = values["segment_ids"] = segment_ids
    if weights is not None:
        values["loss_weights"] = weights
    if has_head and (targets < 0).any():
        counts: Any = targets >= 0
        weights = counts * (1.0 if weights is None else weights)
        targets = np.maximum(targets, 0)
    stack = watched.decoder if isinstance(model, Gpt) else watched.encoder
    watch_model(watched, stack, values)

    output, cache = watched.forward(ids, **options)
    if has_head:
        loss, loss_cache = watched.loss(output, targets, weights)
        _, grads = watched.backward(watched.loss_backward(1, loss_cache), cache)
    else:
        check_shape("targets", targets, *output.shape)
        loss, (_, grads) = (output * targets).sum(), watched.backward(targets, cache)

    values["loss"] = np.asarray(loss)
    for name, kind in EMBEDDINGS.items():
        if part := getattr(watched, name, None):
            weight = f"parameter.{kind}_embedding.weight"
            values[weight] = part.table
            values[f"gradient.{weight}"] = grads[f"{name}.table"]
    keep = options.get("keep", np.ones((1, 1), bool))
    if isinstance(model, Gpt):
        keep = keep & causal_keep(ids.shape[1])
    for i, layer in enumerate(stack.layers):
        record_heads(f"layers.{i}.attention.", layer.attention.branch, keep, values)
    return {name: np.array(value, order="C") for name, value in values.items()}


def record_folder(
    folder: Path | str,
    dtype: str | None = None,
    given: dict[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """Run the model of a folder, and return all values on the way.

    Parameters
    ----------
    folder : str or Path
        As for :func:`load`, and ``dtype`` likewise.
    given : dict of str to ndarray, optional
        A recording with the ``ids`` and the ``targets`` or ``cotangents``, and whatever else the
        model is given. Default: three sequences that are drawn.

    Raises
    ------
    ValueError
        If the recording lacks them, or they do not fit the model.
    """
    model, _ = load(folder, dtype)
    if given is None:
        given = drawn(model, settings_of(located(folder)).get("pad_token_id") or 0)
    target = "targets" if hasattr(model, "readout") else "cotangents"
    for name in ("ids", target):
        if name not in given:
            raise ValueError(
                f"theirs: expected {name}, on which {folder} is to be run, got none"
            )

    def of(name):
        array = given.get(name)
        is_float = array is not None and array.dtype.kind == "f"
        return array.astype(model.spec.dtype) if is_float else array

    segment_ids = given.get("segment_ids")
    if segment_ids is None and getattr(model, "segments", None):
        segment_ids = np.zeros_like(given["ids"])  # as transformers takes it
    optional = of("loss_weights"), of("attention_mask"), segment_ids
    return record(model, given["ids"], of(target), *optional)


def drawn(model: Any, padding: int) -> dict[str, Any]:
    """Draw what a model is given: three sequences without padding."""
    rng = np.random.default_rng(0)
    shape, vocabulary = (3, min(13, model.stack.length)), model.stack.vocabulary
    # transformers gives the row of the padding no gradient, wherever its id stands
    found = {"ids": (padding + rng.integers(1, vocabulary, shape)) % vocabulary}
    if hasattr(model, "readout"):
        found["targets"] = rng.integers(vocabulary, size=shape)
    else:
        found["cotangents"] = rng.normal(size=(*shape, model.spec.width))
    if segments := getattr(model, "segments", None):
        found["segment_ids"] = rng.integers(len(segments.table), size=shape)
    return found


def watch_model(model: Any, stack: Any, values: dict) -> None:
    """Let every part of a model write down what it is given and what it makes."""
    if getattr(model, "embedding_norm", None):
        watch(model.embedding_norm, values, "embedding", "embedding_sum")
    else:
        watch(stack, values, None, "embedding")
    for i, layer in enumerate(stack.layers):
        for kind in ("attention", "feed_forward"):
            residual, p = getattr(layer, kind), f"layers.{i}.{kind}."
            before = None if residual.pre else p + "residual"
            watch(residual.norm, values, p + "norm", before)
            if residual.pre:
                watch(residual, values, p + "residual")
            branch = residual.branch
            inside = p + ("context" if kind == "attention" else "hidden")
            watch(branch.output, values, p + "output", inside)
            if kind == "attention":
                watch(branch.query_key_value, values, p + "query_key_value")
                for name in ("query", "key"):
                    transform = getattr(branch, f"{name}_transform")
                    if hasattr(transform, "norm"):
                        watch(transform.norm, values, f"{p}{name}_norm")
                    if transform:
                        watch(transform, values, f"{p}{name}_rotated")
            elif hasattr(branch, "gate"):
                watch(branch.gate, values, p + "gate")
                watch(branch.value, values, p + "up")
            else:
                watch(branch.hidden, values, p + "up")
    if stack.final_norm:
        watch(stack.final_norm, values, "final_norm")
    if hasattr(model, "readout"):
        watch(model.readout, values, "logits")


def watch(
    layer: Layer, values: dict, output: str | None, given: str | None = None
) -> None:
    """Let a layer write down its output, what it was given, the gradients and its parameters."""
    forward, backward = layer.forward, layer.backward

    def watched_forward(x, *context, **options):
        y, cache = forward(x, *context, **options)
        note({given: x, output: y})
        return y, cache

    def watched_backward(dy, cache):
        dx, *rest, grads = backward(dy, cache)
        note({f"gradient.{given}": given and dx, f"gradient.{output}": output and dy})
        for name, grad in grads.items() if output else ():
            part, _, last = name.rpartition(".")
            if not part:  # those of parts are written down by these
                name = f"parameter.{output}.{NAMES.get(last, last)}"
                note({name: getattr(layer, last), f"gradient.{name}": grad})
        return dx, *rest, grads

    def note(found):
        for name, value in found.items():
            if value is not None and name:
                values[name] = np.array(value)

    layer.forward, layer.backward = watched_forward, watched_backward


NAMES = {"gamma": "weight", "beta": "bias"}


def record_heads(p: str, branch: Any, keep: np.ndarray, values: dict) -> None:
    """Cut what is recorded of an attention into heads, and add its scores and weights."""
    if window := branch.spec.window:
        keep = keep & window_keep(keep.shape[-1], window)
    values |= {"heads": np.array(branch.heads), "key_heads": np.array(branch.key_heads)}
    for name in [name for name in values if p + "query_key_value" in name]:
        parts = np.split(values.pop(name), branch.edges, axis=-1)
        for kind, part in zip(("query", "key", "value"), parts, strict=True):
            if "parameter" not in name:
                heads = branch.heads if kind == "query" else branch.key_heads
                part = split_heads(part, heads)
            values[name.replace("query_key_value", kind)] = part
    names = p + "query", p + "key"
    query, key = (values.get(name + "_rotated", values[name]) for name in names)
    group = branch.heads // branch.key_heads
    key, value = (np.repeat(a, group, axis=1) for a in (key, values[p + "value"]))
    _, cache = attention(query, key, value, keep)
    values[p + "scores"] = query @ key.swapaxes(-1, -2) * query.shape[-1] ** -0.5
    values[p + "weights"] = cache.weights
    dcontext = split_heads(values[f"gradient.{p}context"], branch.heads)
    dweights = values[f"gradient.{p}weights"] = dcontext @ value.swapaxes(-1, -2)
    values[f"gradient.{p}scores"] = softmax_backward(dweights, cache.softmax)


def write_recording(path: Path | str, values: dict[str, np.ndarray]) -> None:
    """Write a recording to a ``.safetensors`` file."""
    write_atomically(Path(path), to_safetensors(values))


def read_recording(path: Path | str) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Return the values of a ``.safetensors`` file, and the rounding unit of each.

    Floating-point numbers are widened to float64, bfloat16 among them. The unit is the gap
    between 1 and the next number; it is 0 for whole numbers. Numbers that were stored wide but
    computed in bfloat16 are recognised by their digits; parameters, which are not computed, may
    have such digits in a wider program.

    Raises
    ------
    ValueError
        If the file is not a whole safetensors file, or holds anything but numbers, or NaN.
    """
    return parsed(path, Path(path).read_bytes())


def parsed(path, content):
    """Return what the bytes of a file say, as ``read_recording`` does."""
    from safetensors import SafetensorError, deserialize

    try:
        entries = deserialize(content)
    except (SafetensorError, ValueError) as error:
        raise ValueError(
            f"{path}: expected a whole safetensors file, got: {error}"
        ) from None
    values, units = {}, {}
    for name, entry in entries:
        dtype, shape, data = entry["dtype"], entry["shape"], bytes(entry["data"])
        if dtype not in WHOLE | FLOATS:
            raise ValueError(f"{path}: {name}: expected numbers, got {dtype}")
        array = np.frombuffer(data, (WHOLE | FLOATS)[dtype]).reshape(shape)
        if array.size == 0:
            raise ValueError(
                f"{path}: {name}: expected numbers, got shape {array.shape}"
            )
        if dtype == "BF16":
            array = (array.astype(np.uint32) << 16).view(np.float32)
        if dtype in FLOATS and np.isnan(array).any():
            raise ValueError(f"{path}: {name}: expected finite numbers, got NaN")
        given = name.startswith("parameter.")
        values[name], units[name] = array, unit(array, dtype, given)
        if dtype in FLOATS:
            values[name] = array.astype(np.float64)
    return values, units


def unit(array, dtype, given):
    """Return the rounding unit of an array of a dtype, or of the bfloat16 computed in it."""
    if dtype in WHOLE:
        return 0.0
    with np.errstate(over="ignore"):
        single = array.astype(np.float32)
    narrow = (single == array).all() and (array != np.rint(array)).any()
    if narrow and not given and not (single.view(np.uint32) & 0xFFFF).any():
        return 2.0**-7
    return float(np.finfo({"BF16": "f4"}.get(dtype, FLOATS[dtype])).eps)

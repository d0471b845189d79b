"""What a training step of Mini-BERT does: operations counted, parts watched.

The counts are exact and the same on every machine; the chapters on cost are made of them.
"""

from time import perf_counter
from typing import NamedTuple

import numpy as np

from book import plots
from transformer_core.layers import AttentionSpec, LayerSpec
from transformer_core.models import Bert, StackSpec
from transformer_core.ops import cross_entropy, cross_entropy_backward

L, D, H, F, V, T = 3, 192, 4, 768, 8192, 64
SPEC = LayerSpec(D, AttentionSpec(H, bias=False), F, "post")
COLOURS = {  # of the parts of a step
    "embeddings": plots.GREY,
    "projections": plots.BLUE,
    "attention": plots.SKY,
    "feed-forward": plots.GREEN,
    "norms and sums": plots.PURPLE,
    "output layer, loss": plots.ORANGE,
    "clipping, Adam": plots.RED,
}


def mini_bert(spec=SPEC):
    return Bert(spec, StackSpec(V, T, L), np.random.default_rng(0))


def draw_batch(B):
    """Draw random ids and targets (B, T), and a mask with 15 % of the positions."""
    rng = np.random.default_rng(1)
    masked = np.zeros(B * T, bool)
    masked[rng.permutation(B * T)[: masked_tokens(B)]] = True
    ids = rng.integers(0, V, (B, T))
    return ids, rng.integers(0, V, (B, T)), masked.reshape(B, T)


def masked_tokens(B):
    """M, the number of masked positions in B sequences."""
    return round(0.15 * B * T)


def component(name):
    """The part of a step that a layer belongs to, by its dotted name."""
    layer = name.split(".")[-1]
    if "readout" in name or layer == "masked":
        return "output layer, loss"
    if layer in ("tokens", "positions", "model"):
        return "embeddings"
    if name.endswith(("attention.branch", "branch.attention")):
        return "attention"
    if "attention.branch." in name:
        return "projections"
    if "feed_forward.branch" in name:
        return "feed-forward"
    if layer == "update":
        return "clipping, Adam"
    return "norms and sums"  # what is left of a block are its LayerNorm and its sum


def by_component(items):
    sums = dict.fromkeys(COLOURS, 0)
    for name, value in items:
        sums[component(name)] += value
    return sums


def products(B, T, M, L=L, D=D, F=F, V=V):
    """Operations of the matrix products of one forward pass, by part."""
    return {
        "projections": L * 8 * B * T * D**2,
        "attention": L * 4 * B * T**2 * D,
        "feed-forward": L * 4 * B * T * D * F,
        "output layer, loss": 2 * M * D * V,
    }


class Counted(np.ndarray):
    """An array that keeps a log of the work that is done on it."""

    log = []  # (part and way, ufunc, operations, bytes, seconds)
    where = [("", "")]

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        plain = [a.view(np.ndarray) if isinstance(a, Counted) else a for a in inputs]
        if out is not None:
            options["out"] = tuple(a.view(np.ndarray) for a in out)
        start = perf_counter()
        result = getattr(ufunc, method)(*plain, **options)
        time = perf_counter() - start
        touched = [a for a in (*plain, result) if isinstance(a, np.ndarray)]
        size = max((a.size for a in touched), default=1)
        if ufunc is np.matmul:
            size = 2 * result.size * plain[0].shape[-1]
        moved = sum(a.nbytes for a in touched)
        Counted.log.append((Counted.where[-1], ufunc.__name__, size, moved, time))
        if out is not None:
            return out[0]
        return result.view(Counted) if isinstance(result, np.ndarray) else result


def count_everything(layer):
    """Make counted arrays of all parameters of a layer."""
    for name, value in vars(layer).items():
        if isinstance(value, np.ndarray):
            setattr(layer, name, value.view(Counted))
    for sublayer in layer.sublayers().values():
        count_everything(sublayer)


def watch(layer, enter, leave, name="model"):
    """Call enter and leave around every forward and backward of a layer's parts."""

    def watched(call, key):
        def run(*arguments, **options):
            enter(key)
            result = call(*arguments, **options)
            leave(key)
            return result

        return run

    for part, sublayer in layer.sublayers().items():
        path = f"{name}.{part}"
        for way in ("forward", "backward"):
            setattr(sublayer, way, watched(getattr(sublayer, way), (path, way)))
        watch(sublayer, enter, leave, path)


def gradients(model, ids, targets, masked, enter, leave):
    """What ``Bert.loss_and_gradients`` does, with a call at every way in and out."""
    enter(("model", "forward"))
    logits, cache = model.forward(ids, masked)
    leave(("model", "forward"))
    enter(("readout.loss", "forward"))
    _, loss_cache = cross_entropy(logits, targets[masked])
    del logits
    leave(("readout.loss", "forward"))
    enter(("readout.loss", "backward"))
    dlogits = [cross_entropy_backward(1, loss_cache)]
    del loss_cache
    leave(("readout.loss", "backward"))
    enter(("model", "backward"))
    _, grads = model.backward(dlogits.pop(), cache)
    leave(("model", "backward"))
    return grads


def training_step(model, optimizer, batch, enter, leave):
    """One step, with a call on the way into and out of each of its parts."""
    grads = gradients(model, *batch, enter, leave)
    enter(("update", "update"))
    optimizer.step(grads, max_norm=1.0)
    leave(("update", "update"))


class GptSizes(NamedTuple):
    """The sizes of a GPT of RMSNorm, rotations, grouped queries, SwiGLU and a tied output layer."""

    L: int
    D: int
    H: int
    G: int
    d_k: int
    F: int
    V: int

    def parameters(self):
        """Numbers in the parameters, by part."""
        L, D, H, G, d_k, F, V = self
        return {
            "embeddings": V * D,  # the output layer has the same table
            "projections": L * 2 * D * (H + G) * d_k,
            "feed-forward": L * 3 * D * F,
            "norms and sums": (2 * L + 1) * D,
        }

    def products(self, B, T):
        """Operations of the matrix products of one forward pass, by part."""
        L, D, H, G, d_k, F, V = self
        return {
            "projections": L * 4 * B * T * D * (H + G) * d_k,
            "attention": L * 4 * B * H * T**2 * d_k,
            "feed-forward": L * 6 * B * T * D * F,
            "output layer, loss": 2 * B * T * D * V,
        }

    def kept(self, B, T):
        """Bytes that the forward pass of a step keeps, by part: 4 a number, 8 an index."""
        L, D, H, G, d_k, F, V = self
        return {
            "embeddings": 8 * B * T,
            "projections": 4 * L * (B * T * D + B * T * H * d_k),
            "attention": 4 * L * (B * T * (2 * H + 3 * G) * d_k + B * H * T**2 + 2 * T * d_k),
            "feed-forward": 4 * L * (B * T * D + 5 * B * T * F),
            "norms and sums": 4 * (2 * L + 1) * (B * T * D + B * T),
            "output layer, loss": 4 * (B * T * D + B * T * V + B * T) + 8 * B * T,
        }

    def cached(self, B, N):
        """Bytes of the keys and values of N positions."""
        return 4 * 2 * B * N * self.L * self.G * self.d_k

"""How every value of a recording follows from those before it, in all the forms that people write.

A ``Step`` computes one value. Its axes are the decisions on the way, and each has its options: the
catalogue of the doctor. In the forward pass they are those of a model, such as an epsilon; in the
backward pass they are terms that may be left out. What is computed is float64.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from transformer_core.layers.feed_forward import ACTIVATIONS
from transformer_core.ops.cross_entropy import cross_entropy
from transformer_core.ops.embedding import EmbeddingCache, embedding_backward
from transformer_core.ops.heads import merge_heads, split_heads
from transformer_core.ops.layer_norm import mean
from transformer_core.ops.rotary import rotary_frequencies, turn
from transformer_core.ops.rounding import round_to
from transformer_core.ops.softmax import SoftmaxCache, softmax, softmax_backward

Axes = dict[str, dict[str, Any]]


class Missing(Exception):
    """A value is neither recorded nor computable from what is."""


class Step(NamedTuple):
    """How a value is computed: ``compute(values, *options)``, one option of each axis.

    ``axes`` is a dict, or a function of the values, and of the value to be explained where it is
    recorded: some options, such as a base of frequencies, are measured in it.
    """

    compute: Callable[..., np.ndarray]
    axes: Axes | Callable[..., Axes] = {}


class Plan(NamedTuple):
    """What the recorded names say of a model."""

    layers: int
    pre: bool
    gated: bool
    final_norm: bool
    embedding_norm: bool
    head: bool


class Branch(NamedTuple):
    """A branch of the model, and where it stands."""

    prefix: str
    stream: str  # what it is given, with the skip connection
    after: str  # what it leaves
    inner: str  # what its projections are given
    projections: tuple[str, ...]
    pre: bool

    @property
    def attention(self) -> bool:
        return "attention" in self.prefix

    @property
    def inside(self) -> str:
        """What its last projection is given."""
        return self.prefix + ("context" if self.attention else "hidden")


def branches(plan: Plan) -> list[Branch]:
    """Return the branches of a model in their order."""
    found, stream = [], "embedding"
    for i in range(plan.layers):
        for kind in ("attention", "feed_forward"):
            p = f"layers.{i}.{kind}."
            if kind == "attention":
                names = ["query", "key", "value"]
            else:
                names = ["gate", "up"] if plan.gated else ["up"]
            after = p + ("residual" if plan.pre else "norm")
            inner = p + "norm" if plan.pre else stream
            projections = tuple(p + name for name in names)
            found.append(Branch(p, stream, after, inner, projections, plan.pre))
            stream = after
    return found


def steps_of(plan: Plan) -> dict[str, Step]:
    """Return the step of every value of a model: forward, then backward."""
    steps: dict[str, Step] = {}
    back: dict[str, Step] = {}
    parameters: dict[str, Step] = {}
    order = branches(plan)
    last = order[-1].after if order else "embedding"
    first = "embedding_sum" if plan.embedding_norm else "embedding"
    steps[first] = Step(embed, embed_axes)
    norms: list[tuple[str, str, tuple[str, ...]]] = []
    linear: list[tuple[str, str]] = []
    if plan.embedding_norm:
        norms.append(("embedding", first, ()))
        steps["embedding"] = norm_step(*norms[-1])
    for one in order:
        p = one.prefix
        if one.pre:
            norms.append((p + "norm", one.stream, ()))
            steps[p + "norm"] = norm_step(*norms[-1])
        for name in one.projections:
            steps[name] = linear_step(name, one, (p + "norm", one.stream))
        if one.attention:
            steps |= attention_steps(p)
        else:
            steps |= feed_forward_steps(p, plan.gated)
        steps[p + "output"] = linear_step(p + "output", None, (one.inside,))
        steps[p + "residual"] = Step(*add_skip(one))
        if not one.pre:
            norms.append((p + "norm", p + "residual", (p + "output",)))
            steps[p + "norm"] = norm_step(*norms[-1])
    top = "final_norm" if plan.final_norm else last
    if plan.final_norm:
        norms.append(("final_norm", last, ()))
        steps["final_norm"] = norm_step(*norms[-1])
    if plan.head:
        steps["logits"] = Step(*read_out(top, last))
        steps["loss"] = Step(surprise, loss_axes)
        back["gradient.logits"] = Step(surprise_backward, GRADIENT_OF_LOGITS)
        back["gradient." + top] = Step(
            lambda v: v["gradient.logits"] @ output_matrix(v)
        )
        parameters |= linear_parameters("logits", top)
    else:
        steps["loss"] = Step(lambda v: np.sum(v[top] * v["cotangents"]))
        back["gradient." + top] = Step(lambda v: v["cotangents"])
    if plan.final_norm:
        back["gradient." + last] = norm_backward_step("final_norm", last)
    for one in reversed(order):
        p = one.prefix
        if not one.pre:
            step = norm_backward_step(p + "norm", p + "residual")
            back[f"gradient.{p}residual"] = step
        back[f"gradient.{p}output"] = Step(*branch_backward(p))
        back["gradient." + one.inside] = Step(*linear_backward(p + "output"))
        back |= attention_back(p) if one.attention else feed_forward_back(p, plan.gated)
        if one.pre:
            back[f"gradient.{p}norm"] = Step(*input_backward(one))
        back["gradient." + one.stream] = Step(*stream_backward(one))
        linear += [(name, one.inner) for name in one.projections]
        linear.append((p + "output", one.inside))
    for name, source in linear:
        parameters |= linear_parameters(name, source, linear)
    if plan.embedding_norm:
        back["gradient.embedding_sum"] = norm_backward_step("embedding", first)
    places = [(name, source) for name, source, _ in norms]
    for name, source in places:
        parameters |= norm_parameters(name, source, places)
    for p in [one.prefix for one in order if one.attention]:
        for kind in ("query", "key"):
            parameters |= norm_parameters(f"{p}{kind}_norm", p + kind)
    parameters |= embedding_parameters("gradient." + first, plan.head)
    return steps | back | parameters


def detachable(*names: str) -> dict[str, Any]:
    """Return the options of a sum of paths: all, or all but one."""
    short = [name.rpartition(".")[2] for name in names]
    one = {f"{a} detached": (b,) for a, b in zip(short, names, strict=True)}
    return {"all paths": ()} | one


def short(name: str) -> str:
    """Return a name without its layer."""
    return name.split(".", 2)[2] if name.startswith("layers.") else name


# Embeddings, norms, linear layers


def embed_axes(v, target=None):
    axes: Axes = {"scale": {"as looked up": False, "times sqrt(D)": True}}
    if v.maybe("parameter.position_embedding.weight") is not None:
        positions = positions_axis(v, v["ids"].shape[1])
        axes["positions"] = positions | {"no positions": None}
    return axes


def embed(v, scaled, positions=None):
    x = v["parameter.token_embedding.weight"][v["ids"]]
    if scaled:
        x = x * sqrt(x.shape[-1])
    if positions is not None:
        table = v["parameter.position_embedding.weight"]
        if positions.min() < 0 or positions.max() >= len(table):
            raise Missing("positions")
        x = x + table[positions]
    if (segments := v.maybe("parameter.segment_embedding.weight")) is not None:
        x = x + segments[v["segment_ids"]]
    return x


def positions_axis(v, length, past=0):
    """Return the positions that people count: (T,) or (B, T)."""
    numbers = np.arange(length)
    starts = past, 0, 1, 2, 2 * past
    axis = {f"positions from {first}": first + numbers for first in starts}
    axis["the same position everywhere"] = numbers * 0 + max(past, 1)
    if (mask := v.maybe("attention_mask")) is not None and mask.shape[1] == length:
        axis["positions counted without padding"] = (mask.cumsum(1) - 1).clip(0)
    if (given := v.maybe("positions")) is not None and given.shape[-1] == length:
        axis = {"positions as recorded": given} | axis
    return distinct(axis)


def distinct(options: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return options without those that equal another before them."""
    found: dict[str, np.ndarray] = {}
    for text, value in options.items():
        if not any(np.array_equal(value, other) for other in found.values()):
            found[text] = value
    return found


EPSILONS = {f"eps {eps:.0e}": eps for eps in (1e-5, 1e-6, 1e-12, 1e-8, 1e-7, 1e-3)}
NORMS = "RMSNorm", "LayerNorm", "unbiased LayerNorm", "no norm"
KINDS = {name: name for name in NORMS}

PLACES_OF_EPS = {"eps inside the root": False, "eps outside the root": True}
WEIGHTS = {"times weight": 0, "times 1 + weight": 1, "weight left out": None}


def norm_step(name: str, source: str, others: tuple = ()) -> Step:
    """Return the step of a norm that may be given one of several values."""

    def axes(v, target=None):
        found: Axes = {
            "norm": KINDS,
            "eps": EPSILONS,
            "place of eps": PLACES_OF_EPS,
            "weight": WEIGHTS,
            "input": {f"norm of {short(one)}": one for one in (source, *others)},
            "owner": owners(v, name, target),
        }
        if v.maybe(f"parameter.{name}.bias") is not None:
            found["bias"] = {"with its bias": True, "without its bias": False}
        if "attention" in name and name.endswith(("query_norm", "key_norm")):
            found["span"] = {"head by head": False, "over all heads": True}
        if name.endswith("_norm") and v.maybe(f"parameter.{name}.weight") is None:
            found["norm"] = {"no norm": "no norm"} | KINDS
        return found

    def compute(v, kind, eps, outside, form, source, owner, *more):
        bias = more[0] if v.maybe(f"parameter.{name}.bias") is not None else False
        spread = more[-1] if "query_norm" in name or "key_norm" in name else False
        x = v[source]
        heads = x.shape[1]
        x = merge_heads(x) if spread else x
        y = normalised(x, kind, eps, outside)[0]
        weight = scale(v, owner, form)
        y = y * (
            np.tile(weight, y.shape[-1] // weight.size) if np.ndim(weight) else weight
        )
        y = y + v[f"parameter.{owner}.bias"] if bias else y
        return split_heads(y, heads) if spread else y

    return Step(compute, axes)


def owners(v, name, target):
    """Return whose parameters are taken: its own, or those of its like that fit best."""
    axis = {"its own parameters": name}
    own = v.maybe(f"parameter.{name}.weight")
    if target is None or own is None:
        return axis

    def error(other):
        changed = {"owner": (f"the parameters of {other}", other)}
        found = v.with_changes((name,), changed).predict(name)
        return np.abs(found - target).max() if found.shape == target.shape else np.inf

    others = [other for other in v.of_shape(own.shape) if other != name]
    if others:
        best = min(others, key=error)
        axis[f"the parameters of {best}"] = best
    return axis


def scale(v, name, form):
    """Return what a norm multiplies by."""
    weight = v.maybe(f"parameter.{name}.weight")
    return 1.0 if form is None or weight is None else form + weight


def normalised(x, kind, eps, outside):
    """Return the normalised x, the inverse of what it was divided by, and the root in that."""
    if kind == "no norm":
        return x, 1.0, np.inf
    centered = x if kind == "RMSNorm" else x - mean(x)
    square = mean(centered, centered)
    if kind == "unbiased LayerNorm":
        square = square * (x.shape[-1] / (x.shape[-1] - 1))
    root = np.sqrt(square + (0 if outside else eps))
    inverse = 1 / (root + (eps if outside else 0))
    return centered * inverse, inverse, root


def norm_backward_step(name, source):
    return Step(
        lambda v, terms: norm_backward(v, name, source, terms),
        lambda v, target=None: norm_terms(v, name),
    )


def norm_terms(v, name):
    """Return the terms of the gradient of a norm that may be missing, or too many."""
    terms = {"all terms of the norm": "", "norm detached": "norm"}
    if v.chosen(name)["norm"] == "RMSNorm":
        terms |= {"without the square term": "square", "with a mean term": "more"}
    else:
        terms |= {
            "without the mean term": "mean",
            "without the variance term": "square",
        }
        terms["the scale term alone"] = "mean square"
    return {"terms": terms}


def norm_backward(v, name, source, terms=""):
    """Return the gradient of the input of a norm, perhaps without some of its terms."""
    chosen = v.chosen(name)
    if chosen["input"] != source or chosen.get("span") or terms == "norm":
        if terms == "norm":
            return 0 * v[source]
        raise Missing(name)
    kind, eps = chosen["norm"], (chosen["eps"], chosen["place of eps"])
    y, inverse, root = normalised(v[source], kind, *eps)
    g = v["gradient." + name] * scale(v, chosen["owner"], chosen["weight"])
    if kind == "no norm":
        return g
    size = g.shape[-1] / (g.shape[-1] - 1) if kind.startswith("unbiased") else 1
    # inverse = 1 / (root + eps): its derivative has the square of it, and 1 / root of the root's
    square = 0 if "square" in terms else size * y / root * mean(g, y)
    with_mean = kind != "RMSNorm" and "mean" not in terms or terms == "more"
    return inverse * g - square - (inverse * mean(g) if with_mean else 0)


def norm_parameters(name, source, norms=()):
    """Return the steps of the gradients of a norm's parameters, which others may take."""
    places = dict([(name, source), *norms])

    def total(v, of):
        found = [of(v, one, at) for one, at in places.items() if v.owner(one) == name]
        return sum(found) if found else 0 * v[f"parameter.{name}.weight"]

    def weight(v, form):
        return total(v, lambda v, one, at: weight_of_one(v, one, at, form))

    def weight_of_one(v, name, source, form):
        chosen, dy = v.chosen(name), v["gradient." + name]
        x = v[source]
        if chosen.get("span") or chosen["input"] != source:
            raise Missing(name)
        y = normalised(x, chosen["norm"], chosen["eps"], chosen["place of eps"])[0]
        return rows_of(dy * {"normalised": y, "input": x, "none": 1}[form]).sum(axis=0)

    def bias(v):
        return total(v, lambda v, one, _: rows_of(v["gradient." + one]).sum(axis=0))

    forms = {"summed over positions": "normalised"}
    forms["of the input, not normalised"] = "input"
    forms["without the normalised input"] = "none"
    return measured_parameters(name, weight, {"form": forms}, bias)


def measured_parameters(name, weight, axes, bias):
    """Return the steps of the gradients of a weight, with its axes, and of a bias."""
    start, of = f"gradient.parameter.{name}", "gradient." + name
    return {
        f"{start}.weight": measured(weight, axes, of),
        f"{start}.bias": measured(bias, {}, of),
    }


def rows_of(x):
    return x.reshape(-1, x.shape[-1])


def measured(compute, axes, of):
    """Return the step of a sum over positions that may be zero, or averaged."""
    amounts = {"a sum": 0, "zero, as if detached": None, "averaged over sequences": 1}
    amounts |= {"averaged over tokens": 2}

    def amount(v, kind, *options):
        y = compute(v, *options)
        shape = v[of].shape
        tokens = shape[0] * shape[-2] if len(shape) > 2 else shape[0]
        return 0 * y if kind is None else y / (1, shape[0], tokens)[kind]

    return Step(amount, {"amount": amounts} | axes)


def linear_step(name: str, one: Branch | None, sources: tuple[str, ...]) -> Step:
    """Return the step of a linear layer; those before attention cut their output into heads."""
    attention = one is not None and one.attention
    if one is not None:
        sources = (one.inner, *(other for other in sources if other != one.inner))

    def axes(v, target=None):
        weight = v["parameter." + name + ".weight"]
        found: Axes = {"input": {f"from {short(source)}": source for source in sources}}
        found["matrix"] = {"its weight": (name, False)}
        if weight.shape[0] == weight.shape[1]:
            found["matrix"]["its weight transposed"] = (name, True)
        for other in one.projections if one else ():
            like = v.maybe(f"parameter.{other}.weight")
            if other != name and like is not None and like.shape == weight.shape:
                text = f"the weight of {other.rpartition('.')[2]}"
                found["matrix"][text] = other, False
        found["owner"] = owners(v, name, target)
        if v.maybe(f"parameter.{name}.bias") is not None:
            found["bias"] = {"with its bias": True, "without its bias": False}
        if attention:
            found["heads"] = dict(HEADS)
        return found

    def compute(v, source, matrix, owner, *more):
        x = v[source]
        x = merge_heads(x) if x.ndim == 4 else x
        y = x @ matrix_of(v, *(matrix if owner == name else (owner, False)))
        if v.maybe(f"parameter.{name}.bias") is not None and more[0]:
            y = y + v[f"parameter.{owner}.bias"]
        return cut(y, v.heads(name), more[-1]) if attention else y

    return Step(compute, axes)


def chosen_matrix(v, name):
    chosen = v.chosen(name)
    owner = chosen["owner"]
    return matrix_of(v, *(chosen["matrix"] if owner == name else (owner, False)))


def matrix_of(v, owner, transposed):
    weight = v[f"parameter.{owner}.weight"]
    return weight.T if transposed else weight


HEADS = {"heads side by side": 0, "heads interleaved": 1, "cut without transposing": 2}


def cut(y, heads, how):
    batch, length, _ = y.shape
    if how == 1:
        return y.reshape(batch, length, -1, heads).transpose(0, 3, 1, 2)
    return y.reshape(batch, heads, length, -1) if how else split_heads(y, heads)


def joined(y, how):
    """Undo ``cut``; what has no heads stays as it is."""
    if y.ndim < 4 or how == 0:
        return merge_heads(y) if y.ndim == 4 else y
    batch, heads, length, _ = y.shape
    return (y.transpose(0, 2, 3, 1) if how == 1 else y).reshape(batch, length, -1)


def output_gradient(v, name):
    """Return the gradient of what a linear layer made, heads side by side, as its product was."""
    return joined(v["gradient." + name], v.chosen(name).get("heads", 0))


def linear_backward(name):
    def compute(v):
        return output_gradient(v, name) @ chosen_matrix(v, name).T

    return compute, {}


def linear_parameters(name, source, places=()):
    """Return the steps of the gradients of a layer's parameters, which others may take."""
    places = dict([(name, source), *places])

    def total(v, of):
        found = [of(v, one, at) for one, at in places.items() if v.owner(one) == name]
        return sum(found) if found else np.array(0.0)

    def weight_of_one(v, name, source):
        x = v[source]
        x = rows_of(merge_heads(x) if x.ndim == 4 else x)
        return x.T @ rows_of(output_gradient(v, name))

    def weight(v, swapped):
        dw = total(v, weight_of_one) + 0 * v[f"parameter.{name}.weight"]
        return dw.T if swapped else dw

    def bias(v):
        dy = total(v, lambda v, one, _: rows_of(output_gradient(v, one)).sum(axis=0))
        return dy + 0 * v[f"parameter.{name}.bias"]

    axes: Axes = {"form": {"as it is": False, "transposed": True}}
    return measured_parameters(name, weight, axes, bias)


def cast_orders(v, name, source, format):
    """Return an RMSNorm in half precision, by the order in which people cast."""
    chosen = v.chosen(name)
    if chosen["norm"] != "RMSNorm" or v.maybe(f"parameter.{name}.weight") is None:
        return {}

    def low(a):
        return round_to(np.asarray(a, np.float32), format)

    given = v[source], scale(v, name, chosen["weight"])
    x, weight = (a.astype(np.float32) for a in given)
    eps = np.float32(chosen["eps"])
    x_hat = x / np.sqrt(mean(x, x) + eps)
    square = low(low(x * x).mean(axis=-1, keepdims=True))
    throughout = low(x * low(1 / np.sqrt(low(square + eps))))
    return {
        "multiplied by the weight after casting back": low(low(weight) * low(x_hat)),
        "multiplied by the weight before casting back": low(weight * x_hat),
        "computed in half precision throughout": low(low(weight) * throughout),
    }


# Attention


def attention_steps(p: str) -> dict[str, Step]:
    steps = {}
    for kind in ("query", "key"):
        name = f"{p}{kind}"
        steps[name + "_norm"] = norm_step(name + "_norm", name, (name + "_rotated",))
        steps[name + "_rotated"] = rotary_step(name)
    steps[p + "scores"] = Step(
        lambda v, kinds, factor, tiled: scores(v, p, kinds, factor, tiled),
        lambda v, target=None: score_axes(v, p),
    )
    steps[p + "weights"] = Step(
        lambda v, *options: attention_weights(v, p, *options),
        lambda v, target=None: mask_axes(v, p, target),
    )

    def context(v, tiled, how):
        return joined(v[p + "weights"] @ spread(v, p, "value", tiled), how)

    steps[p + "context"] = Step(context, {"sharing": SHARING, "heads": HEADS})
    return steps


def rotary_step(name: str) -> Step:
    """Return the step of rotary positions; the base of the frequencies is measured, too."""

    def axes(v, target=None):
        x = v[name + "_norm"]
        bases = [10000.0, 500000.0, 1000000.0]
        like = target is not None and target.shape == x.shape
        if like and x.shape[2] > 1 and x.shape[3] > 2:
            bases += [measured_base(x, target, halves) for halves in (True, False)]
        past = v.past(name)
        layouts = {"halves (i, i + d/2)": True, "pairs (2i, 2i + 1)": False}
        not_rotated = {"not rotated (as at position 0)": None}
        learned = v.maybe("parameter.position_embedding.weight") is not None
        order = {"after the norm of queries and keys": 0, "without their norm": 1}
        return {
            "layout": not_rotated | layouts if learned else layouts | not_rotated,
            "base": {f"base {base:.6g}": base for base in bases if base},
            "positions": positions_axis(v, x.shape[2], past),
            "scaling": SCALINGS,
            "precision": PRECISIONS,
            "direction": {"rotated forwards": 1, "rotated backwards (sign of sin)": -1},
            "part": parts_of(x.shape[-1]),
            "order": order | {"before the norm of queries and keys": 2},
        }

    def compute(v, halves, base, positions, scaling, precision, direction, part, order):
        x = v[name + "_norm" if order == 0 else name]
        y = rotated(x, halves, base, positions, scaling, precision, direction, part)
        if order == 2:
            chosen = v.chosen(name + "_norm")
            y = normalised(y, chosen["norm"], chosen["eps"], chosen["place of eps"])[0]
            y = y * scale(v, name + "_norm", chosen["weight"])
        return y

    return Step(compute, axes)


LINEAR = {"rope_type": "linear"}
LLAMA3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3["original_max_position_embeddings"] = 8192
SCALINGS: dict[str, Any] = {"frequencies not scaled": None}
SCALINGS |= {f"linear scaling by {n}": LINEAR | {"factor": n} for n in (2, 4, 8)}
SCALINGS |= {f"llama3 scaling by {n}": LLAMA3 | {"factor": n} for n in (8, 32)}
FORMATS = "float64", "float32", "bfloat16", "float16"
PRECISIONS = {f"angles in {name}": name for name in FORMATS}
PRECISIONS |= {
    "frequencies in bfloat16": "frequencies",
    "cos and sin in bfloat16": "cos",
}


def measured_base(x, y, halves):
    """Return the base that turns the second pair as it was turned, to three digits, or None."""
    half = x.shape[-1] // 2
    one, other = (1, 1 + half) if halves else (2, 3)
    a, b = (t[0, 0, :2, one] + 1j * t[0, 0, :2, other] for t in (x, y))
    if not (a.all() and b.all()):
        return None
    turned = np.angle(b / a)
    step = (turned[1] - turned[0]) % (2 * np.pi)
    with np.errstate(divide="ignore", over="ignore"):
        base = float(f"{np.float64(step) ** -half:.3g}")
    return base if 1 < base < 1e12 else None


def parts_of(width):
    """Return the parts of a head that people rotate: how many entries, and of which frequencies."""
    parts: dict[str, Any] = {"the whole head rotated": None}
    for share, text in ((2, "half"), (4, "quarter")):
        if width % (2 * share) == 0:
            name = f"the first {text} of each head rotated"
            parts[name] = width // share, False
            if width // share > 2:  # otherwise the same
                parts[name + ", by the frequencies of all"] = width // share, True
    return parts


def rotated(
    x,
    halves,
    base,
    positions,
    scaling=None,
    precision="float64",
    direction=1,
    part=None,
    sign=1,
    frequencies=None,
):
    if halves is None:
        return x
    if part:
        wide, of_all = part
        full = rotary_frequencies(x.shape[-1], base, scaling)[: wide // 2]
        given = halves, base, positions, scaling, precision, direction, None, sign
        y = rotated(x[..., :wide], *given, frequencies=full if of_all else None)
        return np.concatenate([y, x[..., wide:]], axis=-1)
    if x.shape[-1] % 2:
        raise Missing("an even width")

    def low(a, *where):
        if precision == "float32" and "float32" in where:
            return a.astype(np.float32).astype(float)
        name = "float16" if precision == "float16" else "bfloat16"
        return round_to(a.astype(float), name) if precision in where else a

    reduced = "float32", "bfloat16", "float16"
    if frequencies is None:
        frequencies = rotary_frequencies(x.shape[-1], base, scaling)
    frequencies = low(frequencies, *reduced, "frequencies")
    positions = positions if positions.ndim == 1 else positions[:, np.newaxis]
    angles = low(low(positions, *reduced)[..., np.newaxis] * frequencies, *reduced)
    cos, sin = (low(a, "cos") for a in (np.cos(angles), np.sin(angles)))
    return turn(x, cos, sign * direction * sin, halves)


SHARING = {"key heads repeated": False, "key heads tiled": True}


def spread(v, p, name, tiled):
    """Give keys or values to all heads of queries."""
    x = v[p + name]
    group = v.heads(p + "query") // x.shape[1]
    return np.tile(x, (1, group, 1, 1)) if tiled else np.repeat(x, group, axis=1)


def gathered(dx, heads, tiled, how):
    """Return the gradient of keys or values that several heads of queries share."""
    batch, all_heads, *rest = dx.shape
    group, axis = all_heads // heads, 1 if tiled else 2
    groups = (group, heads) if tiled else (heads, group)
    dx = dx.reshape(batch, *groups, *rest)
    if how == "first":
        return dx.take(0, axis=axis)
    return dx.mean(axis=axis) if how == "mean" else dx.sum(axis=axis)


def score_axes(v, p):
    wide, width = v[p + "query"].shape[-1], v.width()
    factors = {"scaled by 1/sqrt(d_k)": 1 / sqrt(wide), "not scaled": 1.0}
    factors |= {"scaled by 1/sqrt(D)": 1 / sqrt(width), "scaled by 1/d_k": 1 / wide}
    pairs = {
        "rotated queries and keys": ("_rotated", "_rotated"),
        "queries not rotated": ("_norm", "_rotated"),
        "keys not rotated": ("_rotated", "_norm"),
        "queries and keys as normalised": ("_norm", "_norm"),
    }
    return {"input": pairs, "scale": factors, "sharing": SHARING}


def scores(v, p, kinds, factor, tiled):
    key = spread(v, p, "key" + kinds[1], tiled)
    return v[p + "query" + kinds[0]] @ key.swapaxes(-1, -2) * factor


def mask_axes(v, p, target):
    length, source = v[p + "scores"].shape[-2:]
    lag = np.arange(source - length, source)[:, np.newaxis] - np.arange(source)
    masks = {"causal mask": lag >= 0, "no causal mask": lag == lag}
    if length != source:
        masks["causal mask at the upper left corner"] = lag >= source - length
    masks["mask that hides the token itself"] = lag > 0
    masks["mask that shows the next token"] = lag >= -1
    masks["causal mask upside down"] = lag <= 0
    if target is not None:
        window = int(np.count_nonzero(np.abs(target) > 1e-30, axis=-1).max())
        for w in (window - 1, window, window + 1):
            if 0 < w < source:
                masks[f"causal window of {w}"] = (lag >= 0) & (lag < w)
                masks[f"window of {w} to both sides"] = np.abs(lag) < w
    axes: Axes = {"mask": distinct(masks)}
    axes["nothing seen"] = {
        "no weights where nothing is seen": False,
        "even weights where nothing is seen": True,
    }
    if v.maybe("attention_mask") is not None:
        axes["padding"] = {"padding hidden": True, "padding seen": False}
    axes["softmax"] = {"masked before the softmax": 0, "masked after the softmax": 1}
    axes["softmax"]["softmax over the queries"] = 2
    return axes


def attention_weights(v, p, keep, even, *more):
    x = v[p + "scores"]
    if len(more) > 1 and more[0]:
        hidden = v["attention_mask"].astype(bool)
        if hidden.shape[-1] != x.shape[-1]:
            raise Missing("attention_mask")
        keep = keep & hidden[:, np.newaxis, np.newaxis]
    if more[-1] == 0:
        weights = softmax(np.where(keep, x, -np.inf))[0]
        nothing = ~keep.any(axis=-1, keepdims=True)
        return np.where(nothing, 1 / x.shape[-1], weights) if even else weights
    if more[-1] == 1:
        return softmax(x)[0] * keep
    return softmax(np.where(keep, x, -np.inf).swapaxes(-1, -2))[0].swapaxes(-1, -2)


def attention_back(p: str) -> dict[str, Step]:
    """Return the steps from the gradient of the context to those of the projections."""
    back = {}

    def dcontext(v):
        how = v.chosen(p + "context")["heads"]
        return cut(v[f"gradient.{p}context"], v.heads(p + "query"), how)

    def sharing(v, name):
        return v.chosen(p + ("context" if name == "value" else "scores"))["sharing"]

    def dweights(v):
        return dcontext(v) @ spread(v, p, "value", sharing(v, "value")).swapaxes(-1, -2)

    def dvalue(v, how):
        dx = v[p + "weights"].swapaxes(-1, -2) @ dcontext(v)
        return gathered(dx, v[p + "value"].shape[1], sharing(v, "value"), how)

    def dscores(v, form):
        dweights, weights = v[f"gradient.{p}weights"], v[p + "weights"]
        if form == 1:
            return dweights * weights
        if form == 2:
            return dweights * weights * (1 - weights)
        dx = softmax_backward(dweights, SoftmaxCache(weights))
        keep, even, *_ = v.chosen(p + "weights").values()
        if even:  # the scores there were overwritten
            dx = dx * keep.any(axis=-1, keepdims=True)
        return 0 * dx if form == 3 else dx

    def dquery(v, scaled):
        chosen = v.chosen(p + "scores")
        key = spread(v, p, "key" + chosen["input"][1], chosen["sharing"])
        return v[f"gradient.{p}scores"] @ key * (chosen["scale"] if scaled else 1)

    def dkey(v, scaled, how):
        chosen = v.chosen(p + "scores")
        query = v[p + "query" + chosen["input"][0]]
        dx = v[f"gradient.{p}scores"].swapaxes(-1, -2) @ query
        dx = gathered(dx, v[p + "key"].shape[1], chosen["sharing"], how)
        return dx * (chosen["scale"] if scaled else 1)

    coupling = {
        "with the coupling term of the softmax": 0,
        "without the coupling term": 1,
        "with only the diagonal of its Jacobian": 2,
        "scores detached": 3,
    }
    scaled = {
        "with the scale of the scores": True,
        "without the scale of the scores": False,
    }
    group = {"summed over the heads that share it": "sum", "averaged over them": "mean"}
    group["of the first of them only"] = "first"
    back[f"gradient.{p}weights"] = Step(dweights)
    back[f"gradient.{p}value"] = Step(dvalue, {"group": group})
    back[f"gradient.{p}scores"] = Step(dscores, {"softmax": coupling})
    back[f"gradient.{p}query_rotated"] = Step(dquery, {"scale": scaled})
    back[f"gradient.{p}key_rotated"] = Step(dkey, {"scale": scaled, "group": group})
    turns = {"rotated back": -1, "rotated forwards": 1, "not rotated": 0}
    for kind in ("query", "key"):
        name = p + kind

        def unrotated(v, sign, name=name):
            dy = v[f"gradient.{name}_rotated"]
            *options, order = v.chosen(name + "_rotated").values()
            if order:
                raise Missing(name)
            return rotated(dy, *options, sign=sign) if sign else dy

        back[f"gradient.{name}_norm"] = Step(unrotated, {"rotation": turns})
        back[f"gradient.{name}"] = norm_backward_step(name + "_norm", name)
    return back


# Feed-forward layers, branches


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def activate(x, name):
    """Return an activation and its derivative."""
    if name in ACTIVATIONS:
        forward, backward = ACTIVATIONS[name]
        y, cache = forward(x)
        return y, backward(np.ones_like(x), cache)
    if name == "quick":
        s = sigmoid(1.702 * x)
        return x * s, s * (1 + 1.702 * x * (1 - s))
    s = sigmoid(x)
    return (s, s * (1 - s)) if name == "sigmoid" else (x, np.ones_like(x))


ACTS = {"SiLU": "silu", "GELU (erf)": "gelu", "GELU (tanh)": "gelu_tanh"}
ACTS |= {"ReLU": "relu", "GELU (sigmoid)": "quick", "sigmoid": "sigmoid"}
ACTS |= {"no activation": "none"}
ROLES = {"gate activated": ("gate", "up")}
ROLES |= {"up activated, gate as it is": ("up", "gate")}


def feed_forward_steps(p: str, gated: bool) -> dict[str, Step]:
    def compute(v, name, roles=("up", None)):
        y, _ = activate(v[p + roles[0]], name)
        return y * v[p + roles[1]] if gated else y

    axes: Axes = {"activation": ACTS} | ({"roles": ROLES} if gated else {})
    return {p + "hidden": Step(compute, axes)}


def feed_forward_back(p: str, gated: bool) -> dict[str, Step]:
    def compute(v, form, which):
        dy, chosen = v[f"gradient.{p}hidden"], v.chosen(p + "hidden")
        active, factor = chosen.get("roles", ("up", None))
        y, slope = activate(v[p + active], chosen["activation"])
        if form == 1:
            return 0 * dy
        if which != active:
            return dy * y
        if form == 2:
            slope = 1
        if form == 3:
            slope = sigmoid(v[p + active])
        if form == 4:
            slope = y
        return dy * slope * (v[p + factor] if factor else 1)

    forms = {"with the derivative of the activation": 0, "detached": 1}
    forms |= {
        "derivative of the activation left out": 2,
        "without the product rule of SiLU": 3,
    }
    forms["the activation in place of its derivative"] = 4
    return {
        f"gradient.{p}{which}": Step(
            lambda v, form, which=which: compute(v, form, which), {"activation": forms}
        )
        for which in (["gate", "up"] if gated else ["up"])
    }


def add_skip(one):
    p = one.prefix
    sums: dict[str, Any] = {
        "input + branch": (one.stream, 1),
        "branch without the input": (None, 1),
    }
    sums["input without the branch"] = (one.stream, 0)
    if one.pre:
        sums["normalised input + branch"] = (p + "norm", 1)
    return (
        lambda v, of: (v[of[0]] if of[0] else 0) + of[1] * v[p + "output"],
        {"sum": sums},
    )


def branch_backward(p):
    def compute(v, whole):
        return v[f"gradient.{p}residual"] * v.chosen(p + "residual")["sum"][1] * whole

    return compute, {"path": {"with its gradient": 1, "branch detached": 0}}


def input_gradient(v, one, detached=()):
    """Return the sum of the gradients that the projections of a branch send back."""
    total: Any = 0
    for name in one.projections:
        chosen = v.chosen(name)
        if chosen["input"] != one.inner:
            raise Missing(name)
        dx = output_gradient(v, name) @ chosen_matrix(v, name).T
        total = total + dx * (name not in detached)
    return total


def input_backward(one):
    return lambda v, detached: input_gradient(v, one, detached), {
        "paths": detachable(*one.projections)
    }


def stream_backward(one):
    """Return the gradient of what a branch and its skip connection are given."""
    p = one.prefix

    def compute(v, paths, *more):
        skip = v[f"gradient.{p}residual"]
        of, _ = v.chosen(p + "residual")["sum"]
        if of not in (one.stream, None):
            raise Missing(of)
        with_skip = paths != "branch" and of is not None
        if paths == "skip":
            return skip * 1.0
        if one.pre:
            through = norm_backward(v, p + "norm", one.stream, *more)
        else:
            through = input_gradient(v, one, *more)
        return through + (skip if with_skip else 0)

    paths = {"skip and branch": "", "skip alone": "skip", "branch alone": "branch"}
    axes: Axes = {"paths": paths}
    if one.pre:
        return compute, lambda v, target=None: axes | norm_terms(v, p + "norm")
    return compute, axes | {"projections": detachable(*one.projections)}


# The output layer, the loss, the tables

MEANS = {
    name: name for name in ("mean of the counted tokens", "mean of all tokens", "sum")
}
MEANS |= {"mean of the means of the sequences": "sequences"}
MEANS |= {"sum divided by the number of sequences (B)": "B"}
MEANS |= {"sum divided by the number of positions (T)": "T"}
TARGETS = {"targets as recorded": 0, "ids as targets (not shifted)": 1}
TARGETS["targets shifted once more"] = 2
GRADIENT_OF_LOGITS: Axes = {"form": {"p - y": True, "p alone": False}}


def read_out(top, last):
    def axes(v, target=None):
        tables = {}
        if v.maybe("parameter.logits.weight") is not None:
            tables["output layer of its own"] = False
        tables["tied to the token embedding"] = True
        found: Axes = {"table": tables, "input": {f"from {short(top)}": top}}
        if last != top:
            found["input"][f"from {short(last)}, without the final norm"] = last
        found["scale"] = {"logits not scaled": False, "logits divided by sqrt(D)": True}
        if v.maybe("parameter.logits.bias") is not None:
            found["bias"] = {"with its bias": True, "without its bias": False}
        return found

    def compute(v, tied, source, scaled, bias=False):
        h, table = v[source], output_table(v, tied)
        z = h @ table.T / (sqrt(h.shape[-1]) if scaled else 1)
        return z + v["parameter.logits.bias"] if bias else z

    return compute, axes


def output_table(v, tied):
    """Return the matrix (V, D) of the output layer."""
    own = v["parameter.token_embedding.weight" if tied else "parameter.logits.weight"]
    return own if tied else own.T


def output_matrix(v):
    """Return the matrix (V, D) through which the gradient of the logits goes back."""
    chosen = v.chosen("logits")
    matrix = output_table(v, chosen["table"])
    return matrix / sqrt(matrix.shape[1]) if chosen["scale"] else matrix


def counted(v, how, shift):
    """Return the targets, and the share that each of them has in the loss."""
    targets = v["ids"] if shift == 1 else v["targets"]
    weights = v.maybe("loss_weights")
    weights = np.ones(targets.shape) if weights is None else weights.astype(float)
    weights, targets = weights * (targets >= 0), targets.clip(0)
    there = np.ones(targets.shape)
    if shift == 2:
        targets, weights = np.roll(targets, -1, 1), np.roll(weights, -1, 1)
        weights[:, -1] = there[:, -1] = 0
    if how == "sequences":
        totals = weights.sum(axis=1, keepdims=True)
        return targets, weights / np.where(totals, totals, 1) / len(weights)
    totals = {"sum": 1, "mean of all tokens": there.sum()}
    totals |= {"B": len(weights), "T": weights.shape[1]}
    total = totals.get(how, weights.sum())
    return targets, weights / total


def loss_axes(v, target=None):
    axes: Axes = {"mean": MEANS, "targets": TARGETS}
    axes["smoothing"] = {"no label smoothing": 0.0, "label smoothing 0.1": 0.1}
    if target is not None and v.units["loss"] < 1e-4:  # two digits say something
        form = tuple(v.chosen("loss").values())[:2]
        plain, even = (float(surprise(v, *form, share)) for share in (0, 1))
        share = float(f"{(float(target) - plain) / (even - plain):.2g}")
        if 0 < share < 1:
            axes["smoothing"][f"label smoothing {share:g}"] = share
    tokens = v["logits"].shape[-1]
    for text, share in list(axes["smoothing"].items())[1:]:
        axes["smoothing"][f"{text} over the other tokens"] = (
            share * tokens / (tokens - 1)
        )
    return axes


def surprise(v, how, shift, smoothing):
    targets, share = counted(v, how, shift)
    if not share.any():
        raise Missing("loss_weights")
    loss, _ = cross_entropy(v["logits"], targets, share)
    if smoothing:
        shifted = v["logits"] - v["logits"].max(axis=-1, keepdims=True)
        log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        even = -(share * log_p.mean(axis=-1)).sum()
        return np.asarray((1 - smoothing) * loss * share.sum() + smoothing * even)
    return np.asarray(loss * share.sum())


def surprise_backward(v, with_target):
    chosen = v.chosen("loss")
    targets, share = counted(v, chosen["mean"], chosen["targets"])
    p, _ = softmax(v["logits"])
    right = np.zeros_like(p)
    np.put_along_axis(right, targets[..., np.newaxis], 1, axis=-1)
    right += chosen["smoothing"] * (1 / right.shape[-1] - right)
    return share[..., np.newaxis] * (p - right * with_target)


def embedding_parameters(source: str, head: bool) -> dict[str, Step]:
    """Return the steps of the gradients of the tables, of which a tied one has two terms."""

    def looked_up(v, ids, table, added, rows):
        if added:
            return embedding_backward(rows, EmbeddingCache(ids, table))
        found = np.zeros_like(table)
        found[ids] = rows
        return found

    def tokens(v, terms, added, padding):
        table, total = v["parameter.token_embedding.weight"], 0
        if "look-up" in terms:
            scaled = v.chosen(source[9:])["scale"]
            rows = v[source] * (sqrt(table.shape[1]) if scaled else 1)
            found = looked_up(v, v["ids"], table, added, rows)
            if padding is not None:
                found[padding] = 0
            total = total + found
        if "output" in terms:
            chosen = v.chosen("logits")
            h = rows_of(v[chosen["input"]])
            total = total + rows_of(v["gradient.logits"]).T @ h
        return total + 0 * table

    def axes(v, target=None):
        both = {"look-up and output layer": "look-up output"} if head else {}
        both |= {"the look-up alone": "look-up"}
        both |= {"the output layer alone": "output"} if head else {}
        both |= {"neither term": ""}
        added = {"repeated tokens added": True, "repeated tokens overwritten": False}
        skipped: dict[str, Any] = {"looked up rows of all tokens": None}
        for token in np.unique([0, 1, 2, 3, *v["ids"].max(keepdims=True).flat]):
            text = f"no gradient where token {token} is looked up (padding_idx)"
            skipped[text] = token
        return {"terms": both, "repeats": added, "padding": skipped}

    def positions(v, averaged):
        rows, numbers = v[source], v.chosen(source[9:]).get("positions")
        if numbers is None:
            raise Missing("positions")
        table = v["parameter.position_embedding.weight"]
        numbers = np.broadcast_to(numbers, rows.shape[:-1])
        dtable = embedding_backward(rows, EmbeddingCache(numbers, table))
        return dtable / (len(rows) if averaged else 1)

    def segments(v):
        table = v["parameter.segment_embedding.weight"]
        return embedding_backward(v[source], EmbeddingCache(v["segment_ids"], table))

    batch = {"summed over sequences": False, "averaged over sequences": True}
    name = "gradient.parameter.{}_embedding.weight"
    return {
        name.format("token"): Step(tokens, axes),
        name.format("position"): Step(positions, {"amount": batch}),
        name.format("segment"): Step(segments),
    }

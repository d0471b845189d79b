"""A GPT in one file: only NumPy, every backward pass by hand, checked before it is trained.

    python gpt.py                          reads the documentation of Python's own library
    python gpt.py text.txt "Once upon "    reads a text of yours, and goes on from your words

It learns byte pairs, checks its gradients against the complex step, trains for a few minutes on
two cores, and writes: RMSNorm before each branch, rotary positions, grouped queries, SwiGLU, and an
output layer tied to the embedding. The book Transformers by Hand derives the equations named here.

B sequences of T tokens, D numbers for each; V tokens in the vocabulary; H heads of queries, G of
keys and values, K numbers for each. HIDDEN units in a feed-forward layer.
Copyright (c) 2026 The Transformers by Hand authors. SPDX-License-Identifier: MIT
"""

import ast
import sys
import sysconfig
from codecs import getincrementaldecoder
from pathlib import Path
from time import perf_counter

import numpy as np

D, V, LAYERS, HIDDEN, T = 128, 512, 4, 344, 128
H, G, K = 4, 2, 32
BATCH, STEPS, RATE, EPS = 16, 600, 3e-3, 1e-5


# Text and tokens
def documentation():
    """Return the docstrings of the modules that came with this Python."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    nodes = (node for path in files for node in ast.walk(ast.parse(path.read_bytes())))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef
    return "\n\n".join(ast.get_docstring(n) or "" for n in nodes if isinstance(n, kinds))


def merge(ids, pair, new):
    """Write one token for each pair, from left to right; of overlapping pairs, the first."""
    found = np.flatnonzero((ids[:-1] == pair[0]) & (ids[1:] == pair[1]))
    if pair[0] == pair[1]:  # in a run, every second one
        run = np.cumsum(np.diff(found, prepend=-2) > 1)
        found = found[(found - found[np.searchsorted(run, run)]) % 2 == 0]
    ids = ids.copy()
    ids[found] = new
    return np.delete(ids, found + 1)


def learn_pairs(text, size):
    """Return the tokens as bytes, the pairs in their order, and the text in tokens.

    A token that begins with a space or a line begins a word, and no pair reaches across.
    """
    tokens, pairs = [bytes([b]) for b in range(256)], []
    ids = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    while len(tokens) < size:
        begins = np.array([t[:1] in b" \n" for t in tokens])
        counts = np.bincount((ids[:-1] * size + ids[1:])[~begins[ids[1:]]], minlength=size * size)
        if counts.max() < 2:
            break
        pair = divmod(int(counts.argmax()), size)
        ids = merge(ids, pair, len(tokens))
        pairs.append(pair)
        tokens.append(tokens[pair[0]] + tokens[pair[1]])
    return tokens, pairs, ids


def encode(text, pairs):
    """Merge the bytes of a text in the order in which the pairs were learnt."""
    ids = np.frombuffer(text.encode(), np.uint8).astype(np.int64)
    for new, pair in enumerate(pairs, 256):
        ids = merge(ids, pair, new)
    return ids


# Operations, each with its backward pass
def rms_norm(x, gamma):
    """Divide each row by its root mean square (eq:rms-norm)."""
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)
    x_hat = x * r
    return gamma * x_hat, (x_hat, r, gamma)


def rms_norm_backward(dy, cache):
    """(eq:rms-norm-backward)"""
    x_hat, r, gamma = cache
    g = dy * gamma
    dx = r * (g - x_hat * (g * x_hat).mean(-1, keepdims=True))
    return dx, (dy * x_hat).sum((0, 1))


def linear_backward(dy, x, weight):
    """(eq:linear-backward)"""
    return dy @ weight.T, np.tensordot(x, dy, ((0, 1), (0, 1)))


def rotary(x, first, sign=1):
    """Turn pairs of numbers by angles that grow with the position (eq:rotary)."""
    frequencies = 10000.0 ** (-np.arange(K // 2) / (K // 2))
    angles = np.outer(first + np.arange(x.shape[-2]), frequencies)
    cos, sin = np.cos(angles).astype(x.real.dtype), sign * np.sin(angles).astype(x.real.dtype)
    a, b = x[..., : K // 2], x[..., K // 2 :]
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def softmax(x):
    """(eq:softmax)"""
    weights = np.exp(x - x.real.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def attention(query, key, value):
    """Average the values that are not later (eq:grouped-attention).

    Queries are (B, G, H/G, T, K), keys and values (B, G, 1, S, K); the last T of S are new.
    """
    scores = query @ key.swapaxes(-1, -2) * K**-0.5
    new, all_ = scores.shape[-2:]
    later = ~np.tri(new, all_, all_ - new, dtype=bool)
    scores[..., later] = -np.inf
    weights = softmax(scores)
    return weights @ value, (query, key, value, weights)


def attention_backward(doutput, cache):
    """A copy forward is a sum backward (eq:grouped-attention-backward)."""
    query, key, value, weights = cache
    dvalue = (weights.swapaxes(-1, -2) @ doutput).sum(2, keepdims=True)
    dweights = doutput @ value.swapaxes(-1, -2)
    dscores = weights * (dweights - (dweights * weights).sum(-1, keepdims=True)) * K**-0.5
    dkey = (dscores.swapaxes(-1, -2) @ query).sum(2, keepdims=True)
    return dscores @ key, dkey, dvalue


def split(x, groups, members):
    """(B, T, heads K) to (B, G, heads / G, T, K)"""
    return x.reshape(*x.shape[:2], groups, members, K).transpose(0, 2, 3, 1, 4)


def join(x):
    return x.transpose(0, 3, 1, 2, 4).reshape(x.shape[0], x.shape[3], -1)


def cross_entropy(logits, targets):
    """Return the mean of -ln p, and its gradient (eq:cross-entropy-backward)."""
    p = softmax(logits)
    at = *np.indices(targets.shape), targets
    loss = -np.log(p[at]).mean()
    p[at] -= 1
    return loss, p / targets.size


# The model
def draw_parameters(rng, d=D, v=V, layers=LAYERS, hidden=HIDDEN):
    p = {"embedding": rng.normal(0, 0.02, (v, d)), "norm": np.ones(d)}
    for i in range(layers):
        shapes = {"query": (d, H * K), "key": (d, G * K), "value": (d, G * K), "out": (H * K, d)}
        shapes |= {"gate": (d, hidden), "up": (d, hidden), "down": (hidden, d)}
        for name, (rows, columns) in shapes.items():
            depth = (2 * layers) ** -0.5 if name in ("out", "down") else 1
            p[f"{i}.{name}"] = rng.normal(0, depth * rows**-0.5, (rows, columns))
        p[f"{i}.norm_a"], p[f"{i}.norm_f"] = np.ones(d), np.ones(d)
    return p


def forward(p, ids, past=None):
    """Return the logits (B, T, V), and a cache; with keys and values of the past, go on."""
    x, caches, kept = p["embedding"][ids], [], []
    for i in range((len(p) - 2) // 9):
        w = {name.partition(".")[2]: a for name, a in p.items() if name.startswith(f"{i}.")}
        a, norm_a = rms_norm(x, w["norm_a"])
        first = past[i][0].shape[-2] if past else 0
        query = rotary(split(a @ w["query"], G, H // G), first)
        key, value = rotary(split(a @ w["key"], G, 1), first), split(a @ w["value"], G, 1)
        if past:
            key = np.concatenate([past[i][0], key], -2)
            value = np.concatenate([past[i][1], value], -2)
        kept.append((key, value))
        o, att = attention(query, key, value)
        x = x + (o := join(o)) @ w["out"]
        f, norm_f = rms_norm(x, w["norm_f"])
        gate, up = f @ w["gate"], f @ w["up"]
        s = 1 / (1 + np.exp(-gate))
        x = x + (gate * s * up) @ w["down"]  # (eq:gated-feed-forward)
        caches.append((w, a, norm_a, o, att, f, norm_f, gate, up, s))
    x, norm = rms_norm(x, p["norm"])
    return x @ p["embedding"].T, (ids, x, norm, caches, kept)


def backward(p, dlogits, cache):
    """Return the gradient of every parameter: the forward pass, line by line, from its end."""
    ids, x, norm, caches, _ = cache
    dx, dembedding = linear_backward(dlogits, x, p["embedding"].T)
    dx, dnorm = rms_norm_backward(dx, norm)
    grads = {"embedding": dembedding.T, "norm": dnorm}
    for i, (w, a, norm_a, o, att, f, norm_f, gate, up, s) in reversed(list(enumerate(caches))):
        g = {}
        dhidden, g["down"] = linear_backward(dx, gate * s * up, w["down"])
        dgate = dhidden * up * s * (1 + gate * (1 - s))  # (eq:silu-backward)
        df_gate, g["gate"] = linear_backward(dgate, f, w["gate"])
        df_up, g["up"] = linear_backward(dhidden * gate * s, f, w["up"])
        df, g["norm_f"] = rms_norm_backward(df_gate + df_up, norm_f)
        dx = dx + df
        do, g["out"] = linear_backward(dx, o, w["out"])
        dquery, dkey, dvalue = attention_backward(split(do, G, H // G), att)
        dquery, dkey = rotary(dquery, 0, -1), rotary(dkey, 0, -1)  # (eq:rotary-backward)
        da_q, g["query"] = linear_backward(join(dquery), a, w["query"])
        da_k, g["key"] = linear_backward(join(dkey), a, w["key"])
        da_v, g["value"] = linear_backward(join(dvalue), a, w["value"])
        da, g["norm_a"] = rms_norm_backward(da_q + da_k + da_v, norm_a)
        dx = dx + da
        grads |= {f"{i}.{name}": grad for name, grad in g.items()}
    np.add.at(grads["embedding"], ids, dx)  # read twice: two terms (eq:tied-embedding-backward)
    return grads


def loss_and_gradients(p, ids):
    """Each token is to be told from those before it."""
    logits, cache = forward(p, ids[:, :-1])
    loss, dlogits = cross_entropy(logits, ids[:, 1:])
    return loss, backward(p, dlogits, cache)


# Checks, training, writing
def check_gradients(rng, h=1e-20):
    """Return the largest relative error of a gradient, along a random direction for each one."""
    p = draw_parameters(rng, d=12, v=30, layers=2, hidden=10)
    p = {name: a + rng.normal(0, 0.3, a.shape) for name, a in p.items()}  # a generic point
    ids, errors = rng.integers(30, size=(2, 8)), []
    _, grads = loss_and_gradients(p, ids)
    for name, a in p.items():
        v = rng.normal(size=a.shape)
        logits, _ = forward(p | {name: a + 1j * h * v}, ids[:, :-1])
        expected = cross_entropy(logits, ids[:, 1:])[0].imag / h  # (eq:complex-step)
        errors.append(abs((grads[name] * v).sum() - expected) / abs(expected))
    return max(errors)


def train(p, ids, rng, steps=STEPS):
    """AdamW (eq:adamw) with clipping, and a rate that rises for a tenth and then falls to 0."""
    m, s = ({name: np.zeros_like(a) for name, a in p.items()} for _ in "ms")
    began = perf_counter()
    for t in range(1, steps + 1):
        starts = rng.integers(len(ids) - T, size=BATCH)
        loss, grads = loss_and_gradients(p, ids[starts[:, None] + np.arange(T + 1)])
        norm = np.sqrt(sum((g * g).sum() for g in grads.values()))
        rate = RATE * min(t / (0.1 * steps), (1 - t / steps) / 0.9)
        for name, g in grads.items():
            g = g * min(1, 1 / norm)
            m[name] += 0.1 * (g - m[name])
            s[name] += 0.05 * (g * g - s[name])
            step = m[name] / (1 - 0.9**t) / (np.sqrt(s[name] / (1 - 0.95**t)) + 1e-8)
            step += 0.1 * p[name] * (g.ndim > 1)  # weights decay, scales do not
            p[name] -= (rate * step).astype(np.float32)
        seconds = perf_counter() - began
        print(f"\rstep {t} of {steps}, loss {loss:.3f}, {seconds:.0f} s", end="", flush=True)
    print()


def bits_per_byte(p, ids, tokens):
    """Return -log2 of the probability of a text, for each of its bytes."""
    rows = ids[: len(ids) // T * T].reshape(-1, T)
    nats, _ = cross_entropy(forward(p, rows[:, :-1])[0], rows[:, 1:])
    return nats / np.log(2) * rows[:, 1:].size / sum(len(tokens[t]) for t in rows[:, 1:].flat)


def write(p, ids, rng, temperature=0.8):
    """Yield one token after another: the keys and values of those before are kept."""
    logits, (*_, kept) = forward(p, ids[None])
    for _ in range(T - len(ids)):
        token = rng.choice(len(p["embedding"]), p=softmax(logits[0, -1] / temperature))
        yield token
        logits, (*_, kept) = forward(p, np.array([[token]]), kept)


def main(path=None, prompt="Return the "):
    rng = np.random.default_rng(7)
    print(f"largest relative error of a gradient  {(error := check_gradients(rng)):.1e}")
    if error > 1e-10:
        raise SystemExit("a gradient is wrong")
    text = Path(path).read_text(encoding="utf-8") if path else documentation()
    tokens, pairs, ids = learn_pairs(text, V)
    cut, asked = len(ids) * 19 // 20, encode(prompt, pairs)
    if len(ids) < 40 * T or not 0 < len(asked) < T:
        got = f"got {len(ids)} and {len(asked)}"
        raise SystemExit(f"expected {40 * T} tokens of text and 1 to {T - 1} of a prompt, {got}")
    p = draw_parameters(rng, v=len(tokens))
    p = {name: a.astype(np.float32) for name, a in p.items()}
    print(f"{sum(a.size for a in p.values()):,} parameters, {cut:,} tokens of a text")
    train(p, ids[:cut], rng)
    bits = bits_per_byte(p, ids[cut : cut + 100 * T], tokens)
    print(f"{bits:.3f} bits for each byte of what it has not read\n\n{prompt}", end="")
    decoder = getincrementaldecoder("utf-8")("replace")
    for token in write(p, asked, rng):
        print(decoder.decode(tokens[token]), end="", flush=True)
    print()


if __name__ == "__main__":
    main(*sys.argv[1:])

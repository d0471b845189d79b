"""The races of the GPT of ``train gpt``: a training step, a prompt that is read, tokens written.

Every contender starts from the same weights and is given the same tokens. Before it is timed, its
gradients or its logits are compared with those of this package. What is written are the most
probable tokens; the logits of each come to NumPy, as they would for a sampler.
"""

import os
from functools import cache, partial

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.contenders import Contender, jax_step, package_step, torch_step
from benchmarks.work import BATCHES, LEARNING_RATE, draw_ids
from transformer_core.ops import rotary_frequencies
from transformer_core.tasks.gpt.recipe import DEFAULTS, SPEC, build

BATCH, LENGTH, LAYERS = DEFAULTS["batch"], DEFAULTS["length"], DEFAULTS["layers"]
WIDTH, HIDDEN, VOCABULARY = SPEC.width, SPEC.hidden_width, DEFAULTS["vocabulary"]
HEADS, GROUPS = SPEC.attention.heads, SPEC.attention.key_heads
HEAD_WIDTH = WIDTH // HEADS
PROMPT = LENGTH // 2  # tokens that are read before others are written
BETA2, DECAY = DEFAULTS["beta2"], 0.01
EPS = 1e-5  # of the norms
TOLERANCE = 1e-4  # of float32, relative to the norm


def draw_batches(batch):
    """Draw batches of ids and targets (B, T), the same ones for every contender."""
    texts = draw_ids(np.random.default_rng(0), VOCABULARY, BATCHES, batch, LENGTH + 1)
    return [(text[:, :-1], text[:, 1:]) for text in texts]


def prompt(batch):
    return draw_batches(batch)[0][0][:, :PROMPT]


@cache
def weights():
    """Return the parameters that all start with, by their names in this package."""
    return build(DEFAULTS).parameters()


def decays(name):
    """Tell whether a parameter decays: matrices do, gains and the table of tokens do not."""
    return name.endswith("weight")


def angles():
    """Return the cosines and sines of the rotations, (T, d_k / 2)."""
    phase = np.arange(LENGTH)[:, np.newaxis] * rotary_frequencies(HEAD_WIDTH)
    return np.cos(phase).astype(np.float32), np.sin(phase).astype(np.float32)


def check_gradients(batch, grads):
    """Raise ``ValueError`` unless gradients of the first batch, by name, are this package's."""
    _, expected = build(DEFAULTS).loss_and_gradients(*draw_batches(batch)[0])
    if grads.keys() != expected.keys():
        raise ValueError(f"gradients: expected those of {list(expected)}, got {list(grads)}")
    for name, grad in expected.items():
        check_close(f"gradient of {name}", grads[name], grad)


def check_logits(batch, read):
    """Raise ``ValueError`` unless the logits after the prompt, and after one more token, are right.

    ``read(ids, place)`` returns the logits (B, V) after ids (B, N) from a position on.
    """
    ids = draw_batches(batch)[0][0][:, : PROMPT + 1]
    expected, _ = build(DEFAULTS).forward(ids)
    check_close("logits of the prompt", read(ids[:, :PROMPT], 0), expected[:, -2])
    check_close("logits with the cache", read(ids[:, PROMPT:], PROMPT), expected[:, -1])


def check_close(name, found, expected):
    error = np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected)
    if not error <= TOLERANCE:
        raise ValueError(
            f"{name}: expected this package's within {TOLERANCE} of its norm, got {error:.0e}"
        )


def prefill(reader, batch, threads):
    """Read the prompt."""
    read = reader(batch, threads)
    check_logits(batch, read)
    return partial(read, prompt(batch), 0)


def decode(reader, batch, threads):
    """Write after the prompt up to the last position, one token at a time."""
    read = reader(batch, threads)
    check_logits(batch, read)
    first = read(prompt(batch), 0)

    def step():
        logits = first
        for place in range(PROMPT, LENGTH):
            logits = read(np.asarray(logits).argmax(axis=-1, keepdims=True), place)
        return np.asarray(logits)

    return step


# This package


def counted(ids, targets):
    return targets.size


def data_parallel(batch, threads):
    """Step with the batch in shards, one a thread."""
    from transformer_core.distributed import DataParallel
    from transformer_core.ranks import world

    model = build(DEFAULTS)
    in_parallel = DataParallel(model, counted, threads, world())
    return adamw_step(model, batch, in_parallel.loss_and_gradients, map=in_parallel.map)


def whole_batch(batch, threads):
    """Step with the whole batch at once: only the matrix products use more than one thread."""
    threadpool_limits(threads)
    model = build(DEFAULTS)
    return adamw_step(model, batch, model.loss_and_gradients)


def adamw_step(model, batch, loss_and_gradients, **seams):
    from transformer_core.optim import AdamW

    batches = draw_batches(batch)
    check_gradients(batch, loss_and_gradients(*batches[0])[1])
    undecayed = tuple({name.split(".")[-1] for name in weights() if not decays(name)})
    optimizer = AdamW(
        model.parameters(),
        LEARNING_RATE,
        beta2=BETA2,
        weight_decay=DECAY,
        undecayed=undecayed,
        **seams,
    )
    return package_step(loss_and_gradients, optimizer, batches)


def package_reader(batch, threads):
    """Return what reads tokens into the cache and returns the last logits."""
    threadpool_limits(threads)
    model = build(DEFAULTS)
    states = {0: model.begin(batch)}  # by the number of positions that have been read

    def read(ids, place):
        logits, states[place + ids.shape[1]] = model.prefill(ids, states[place])
        return logits

    return read


# JAX


def jax_model(threads):
    """Return the weights, and ``forward(p, ids, place, past)`` to the logits and the cache.

    Without a cache there are logits at all positions, with one only at the last.
    """
    os.environ["NPROC"] = str(threads)  # read when the library starts its threads
    import jax
    import jax.numpy as jnp

    def rms_norm(x, gamma):
        return gamma * x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS)

    def turn(x, cos, sin):
        left, right = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([left * cos - right * sin, left * sin + right * cos], axis=-1)

    def attend(query, key, value, place, past):
        if past is None:
            return jax.nn.dot_product_attention(query, key, value, is_causal=True), None
        past = jax.lax.dynamic_update_slice(past, jnp.stack([key, value]), (0, 0, place, 0, 0))
        seen = jnp.arange(LENGTH) <= place + jnp.arange(query.shape[1])[:, None]
        return jax.nn.dot_product_attention(query, *past, mask=seen[None, None]), past

    def forward(p, ids, place=0, past=None):
        cos, sin = (
            jax.lax.dynamic_slice_in_dim(table, place, ids.shape[1])[:, None] for table in angles()
        )
        x, extended = p["tokens.table"][ids], []
        for i in range(LAYERS):
            attention, feed_forward = (
                f"decoder.layer_{i}.{part}" for part in ("attention", "feed_forward")
            )
            h = rms_norm(x, p[f"{attention}.norm.gamma"])
            heads = h @ p[f"{attention}.branch.query_key_value.weight"]
            heads = heads.reshape(*ids.shape, -1, HEAD_WIDTH)
            query, key, value = jnp.split(heads, (HEADS, HEADS + GROUPS), axis=2)
            query, key = turn(query, cos, sin), turn(key, cos, sin)
            context, kept = attend(query, key, value, place, past and past[i])
            extended.append(kept)
            context = context.reshape(*ids.shape, WIDTH)
            x = x + context @ p[f"{attention}.branch.output.weight"]
            h = rms_norm(x, p[f"{feed_forward}.norm.gamma"])
            gate = jax.nn.silu(h @ p[f"{feed_forward}.branch.gate.weight"])
            product = gate * (h @ p[f"{feed_forward}.branch.value.weight"])
            x = x + product @ p[f"{feed_forward}.branch.output.weight"]
        h = rms_norm(x if past is None else x[:, -1], p["decoder.final_norm.gamma"])
        return h @ p["tokens.table"].T, extended

    return {name: jnp.array(array) for name, array in weights().items()}, forward


def jax_compiled(batch, threads):
    """Step in JAX: forward, gradient, clipping and AdamW compiled into one, the buffers donated."""
    parameters, forward = jax_model(threads)
    import jax
    import jax.numpy as jnp

    def loss(p, ids, targets):
        logits, _ = forward(p, ids)
        at_target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
        return (jax.nn.logsumexp(logits, axis=-1) - at_target).mean()

    batches = draw_batches(batch)
    check_gradients(batch, jax.jit(jax.grad(loss))(parameters, *batches[0]))
    decay = {name: DECAY * decays(name) for name in parameters}
    return jax_step(loss, parameters, batches, BETA2, decay)


def jax_reader(batch, threads):
    """Read in JAX, compiled once for the prompt and once for a token, the cache donated."""
    parameters, forward = jax_model(threads)
    import jax
    import jax.numpy as jnp

    compiled = jax.jit(forward, donate_argnums=3)
    past = [jnp.zeros((2, batch, LENGTH, GROUPS, HEAD_WIDTH)) for _ in range(LAYERS)]

    def read(ids, place):
        nonlocal past
        logits, past = compiled(parameters, ids.astype(np.int32), place, past)
        return jax.block_until_ready(logits)

    return read


# PyTorch


def torch_model(threads):
    """Return the model in PyTorch, whose parameters come in the order of this package's."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)

    def turn(x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], dim=-1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            heads = HEADS + 2 * GROUPS
            self.query_key_value = nn.Linear(WIDTH, heads * HEAD_WIDTH, bias=False)
            self.output = nn.Linear(WIDTH, WIDTH, bias=False)
            self.norm = nn.RMSNorm(WIDTH, EPS)
            self.gate, self.value = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
            self.out = nn.Linear(HIDDEN, WIDTH, bias=False)
            self.last_norm = nn.RMSNorm(WIDTH, EPS)

        def forward(self, x, cos, sin, place, past):
            batch, length, _ = x.shape
            heads = self.query_key_value(self.norm(x)).view(batch, length, -1, HEAD_WIDTH)
            query, key, value = heads.transpose(1, 2).split([HEADS, GROUPS, GROUPS], dim=1)
            query, key = turn(query, cos, sin), turn(key, cos, sin)
            if past is not None:
                end = place + length
                past[0, :, :, place:end], past[1, :, :, place:end] = key, value
                key, value = past[:, :, :, :end]
            context = F.scaled_dot_product_attention(
                query, key, value, is_causal=length > 1, enable_gqa=True
            )
            x = x + self.output(context.transpose(1, 2).reshape(batch, length, WIDTH))
            h = self.last_norm(x)
            return x + self.out(F.silu(self.gate(h)) * self.value(h))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
            self.norm = nn.RMSNorm(WIDTH, EPS)
            for name, table in zip(("cos", "sin"), angles(), strict=True):
                self.register_buffer(name, torch.from_numpy(table))

        def forward(self, ids, targets=None, place=0, past=(None,) * LAYERS):
            cos, sin = (table[place : place + ids.shape[1]] for table in (self.cos, self.sin))
            x = self.tokens(ids)
            for block, kept in zip(self.blocks, past, strict=True):
                x = block(x, cos, sin, place, kept)
            h = self.norm(x[:, -1] if targets is None else x)
            logits = F.linear(h, self.tokens.weight)
            return logits if targets is None else F.cross_entropy(logits.mT, targets)

    model = Model()
    with torch.no_grad():
        for parameter, (name, array) in named(model):
            parameter.copy_(torch.from_numpy(as_torch(name, array)))
    return model


def named(model):
    """Pair the parameters of a model in PyTorch with the names and arrays of this package."""
    return zip(model.parameters(), weights().items(), strict=True)


def as_torch(name, array):
    """Turn the matrix of a linear layer over: PyTorch keeps it as (D_out, D_in), and back."""
    return array.T if decays(name) else array


def pytorch(batch, threads, compiled=False):
    """Step in PyTorch, eager or compiled, with the fused optimiser."""
    import torch

    model = torch_model(threads)
    loss = torch.compile(model, dynamic=False) if compiled else model
    batches = [
        tuple(torch.from_numpy(np.ascontiguousarray(a)) for a in arrays)
        for arrays in draw_batches(batch)
    ]
    loss(*batches[0]).backward()
    check_gradients(batch, {name: as_torch(name, p.grad.numpy()) for p, (name, _) in named(model)})
    groups = [
        {
            "params": [p for p, (name, _) in named(model) if decays(name) == decaying],
            "weight_decay": DECAY * decaying,
        }
        for decaying in (True, False)
    ]
    optimizer = torch.optim.AdamW(groups, LEARNING_RATE, (0.9, BETA2), fused=True)
    return torch_step(model, loss, optimizer, batches)


def torch_reader(batch, threads, compiled=False):
    """Read in PyTorch, in inference mode, into a cache with room for all positions."""
    import torch

    model = torch_model(threads)
    past = list(torch.zeros(LAYERS, 2, batch, GROUPS, LENGTH, HEAD_WIDTH))
    forward = torch.compile(model) if compiled else model

    @torch.inference_mode()
    def read(ids, place):
        return forward(torch.from_numpy(ids), place=place, past=past)

    return read


TORCH = "torch"
STEP = {
    "this package": Contender(data_parallel, "eager, two shards"),
    "this package, whole batch at once": Contender(whole_batch, "eager, one shard"),
    "JAX": Contender(jax_compiled, "compiled, one shard", "jax"),
    "PyTorch, compiled": Contender(
        partial(pytorch, compiled=True), "compiled, one shard", TORCH, compiles=True
    ),
    "PyTorch, fused AdamW": Contender(pytorch, "eager, one shard", TORCH),
}
READERS = {
    "this package": Contender(package_reader, "eager"),
    "JAX": Contender(jax_reader, "compiled", "jax"),
    "PyTorch, compiled": Contender(
        partial(torch_reader, compiled=True), "compiled", TORCH, compiles=True
    ),
    "PyTorch": Contender(torch_reader, "eager", TORCH),
}
PREFILL, DECODE = (
    {name: reader._replace(build=partial(work, reader.build)) for name, reader in READERS.items()}
    for work in (prefill, decode)
)

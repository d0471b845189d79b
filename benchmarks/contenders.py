"""The contenders: each is built for a batch size and a number of threads, and then steps."""

from itertools import cycle

import numpy as np

from benchmarks.work import (
    HEADS,
    HIDDEN,
    LAYERS,
    LEARNING_RATE,
    LENGTH,
    MAX_NORM,
    PARAMETERS,
    VOCABULARY,
    WIDTH,
    draw_batches,
)


def mini_bert():
    """Build the model and its optimiser."""
    from transformer_core.layers import AttentionSpec, LayerSpec
    from transformer_core.models import Bert, StackSpec
    from transformer_core.optim import Adam

    rng = np.random.default_rng(0)
    spec = LayerSpec(WIDTH, AttentionSpec(HEADS, bias=False), HIDDEN, "post")
    model = Bert(spec, StackSpec(VOCABULARY, LENGTH, LAYERS), rng)
    parameters = model.parameters()
    assert sum(array.size for array in parameters.values()) == PARAMETERS
    return model, Adam(parameters, LEARNING_RATE)


def masked_tokens(ids, targets, masked):
    return masked.sum()


def data_parallel(batch, threads):
    """Step with the batch in shards, one a thread."""
    return step_in_parallel(*mini_bert(), batch, threads)


def step_in_parallel(model, optimizer, batch, threads):
    from transformer_core.training import DataParallel

    in_parallel = DataParallel(model.loss_and_gradients, masked_tokens, threads)
    optimizer.map = in_parallel.map
    batches = cycle(draw_batches(batch))

    def step():
        _, grads = in_parallel(*next(batches))
        optimizer.step(grads, MAX_NORM)

    return step


def whole_batch(batch, threads):
    """Step with the whole batch at once: only the matrix products use more than one thread."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    model, optimizer = mini_bert()
    batches = cycle(draw_batches(batch))

    def step():
        _, grads = model.loss_and_gradients(*next(batches))
        optimizer.step(grads, MAX_NORM)

    return step


def matrix_products(batch, threads):
    """Multiply what a step multiplies, and do nothing else."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(threads)
    rng = np.random.default_rng(0)

    def draw(*shape):
        return rng.normal(size=shape).astype(np.float32)

    def linear(rows, width_in, width_out):
        x, weight, dy = (
            draw(rows, width_in),
            draw(width_in, width_out),
            draw(rows, width_out),
        )
        return [(x, weight), (dy, weight.T), (x.T, dy)]

    def attention():
        query, key, value, doutput = (
            draw(batch, HEADS, LENGTH, WIDTH // HEADS) for _ in range(4)
        )
        weights, dscores = (draw(batch, HEADS, LENGTH, LENGTH) for _ in range(2))
        forward = [(query, key.swapaxes(-1, -2)), (weights, value)]
        return forward + [
            (weights.swapaxes(-1, -2), doutput),
            (doutput, value.swapaxes(-1, -2)),
            (dscores, key),
            (dscores.swapaxes(-1, -2), query),
        ]

    rows = batch * LENGTH
    masked = np.mean([masked_tokens(*b) for b in draw_batches(batch)])
    products = linear(round(masked), WIDTH, VOCABULARY)
    for _ in range(LAYERS):
        products += linear(rows, WIDTH, 3 * WIDTH) + linear(rows, WIDTH, WIDTH)
        products += linear(rows, WIDTH, HIDDEN) + linear(rows, HIDDEN, WIDTH)
        products += attention()
    results = [left @ right for left, right in products]

    def step():
        for (left, right), result in zip(products, results, strict=True):
            np.matmul(left, right, out=result)

    return step


def pytorch(batch, threads, **adam):
    """Step in PyTorch, eager, with its own fast modules."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query_key_value = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
            self.output = nn.Linear(WIDTH, WIDTH, bias=False)
            self.hidden, self.out = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])

        def forward(self, x):
            heads = self.query_key_value(x).view(batch, LENGTH, 3, HEADS, -1)
            query, key, value = heads.permute(2, 0, 3, 1, 4)
            context = F.scaled_dot_product_attention(query, key, value)
            context = context.transpose(1, 2).reshape(batch, LENGTH, WIDTH)
            x = self.norms[0](x + self.output(context))
            return self.norms[1](x + self.out(F.relu(self.hidden(x))))

    class MiniBert(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, WIDTH))
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)
            self.readout = nn.Linear(WIDTH, VOCABULARY)

        def forward(self, ids, masked):
            h = self.norm(self.layers(self.tokens(ids) + self.positions))
            return self.readout(h[masked])

    model = MiniBert()
    assert sum(p.numel() for p in model.parameters()) == PARAMETERS
    optimizer = torch.optim.Adam(model.parameters(), LEARNING_RATE, **adam)
    batches = cycle(
        [tuple(map(torch.from_numpy, arrays)) for arrays in draw_batches(batch)]
    )

    def step():
        ids, targets, masked = next(batches)
        optimizer.zero_grad()
        F.cross_entropy(model(ids, masked), targets[masked]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()

    return step


def pytorch_fused(batch, threads):
    """Step in PyTorch, with the optimiser fused into one kernel."""
    return pytorch(batch, threads, fused=True)


CONTENDERS = {
    "this package": data_parallel,
    "this package, whole batch at once": whole_batch,
    "PyTorch, fused Adam": pytorch_fused,
    "PyTorch, default Adam": pytorch,
    "matrix products alone": matrix_products,
}

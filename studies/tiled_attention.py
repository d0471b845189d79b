"""Both passes of attention by the clock: plain, in tiles, and PyTorch's; needs PyTorch.

What is measured is the processor's time of one thread, so that other work on the machine hardly
counts, by contenders in turn.
"""

import time
from statistics import median

import numpy as np

from transformer_core.ops import (
    attention,
    attention_backward,
    causal_keep,
    tiled_attention,
    tiled_attention_backward,
)

LENGTHS = 256, 512, 1024, 2048, 4096
TILES = 64, 128, 256, 512
HEADS, WIDTH = 4, 64


def runs():
    """The settings of every run."""
    for length in LENGTHS:
        for causal in (False, True):
            yield {"length": length, "causal": causal, "heads": HEADS, "width": WIDTH}


def run(length, causal, heads, width):
    """Measure the median and the extremes of each contender, in seconds."""
    rng = np.random.default_rng(0)
    arrays = rng.normal(size=(4, 1, heads, length, width)).astype(np.float32)
    keep = causal_keep(length) if causal else None

    def plain():
        _, cache = attention(*arrays[:3], keep)
        attention_backward(arrays[3], cache)

    def tiled(tile):
        def both():
            _, cache = tiled_attention(*arrays[:3], keep, tile=tile)
            tiled_attention_backward(arrays[3], cache)

        return both

    contenders = {"plain": plain, "PyTorch": of_torch(arrays, causal)}
    contenders |= {f"tiles of {tile}": tiled(tile) for tile in TILES}
    seconds = {name: [] for name in contenders}
    for _ in range(1 + max(5, 8192 // length)):
        for name, contender in contenders.items():
            start = time.process_time()
            contender()
            seconds[name].append(time.process_time() - start)
    return {
        name: {"median": median(times[1:]), "least": min(times[1:]), "most": max(times[1:])}
        for name, times in seconds.items()
    }


def of_torch(arrays, causal):
    """Return both passes of PyTorch's fused attention, on one thread."""
    import torch

    torch.set_num_threads(1)
    *leaves, doutput = (torch.tensor(array) for array in arrays)
    for leaf in leaves:
        leaf.requires_grad_()

    def both():
        output = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        torch.autograd.grad(output, leaves, doutput)

    return both

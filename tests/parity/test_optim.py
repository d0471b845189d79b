"""200 steps of every optimiser against torch.optim, with schedule and clipping."""

import numpy as np
import pytest
from helpers.witnesses import generators, normal
from hypothesis import given
from hypothesis import strategies as st
from parity.pytorch import F, error, tensors, torch
from parity.twins import run

from transformer_core.layers.spec import LayerSpec
from transformer_core.optim import SGD, Adam, AdamW, Muon, clip_by_global_norm, warmup_stable_decay
from transformer_core.tasks.reconstruction import Reconstructor

STEPS, PEAK, WARMUP, DECAY, MAX_NORM = 200, 0.01, 20, 50, 0.5


def groups(leaves):
    """The parameters in two groups: PyTorch decays all, or none, of a group."""
    undecayed = {n for n in leaves if n.split(".")[-1] in ("bias", "gamma", "beta")}
    return [
        {"params": [leaves[n] for n in leaves.keys() - undecayed], "weight_decay": 0.1},
        {"params": [leaves[n] for n in undecayed], "weight_decay": 0.0},
    ]


# Ours and theirs, each with its settings, and how theirs takes the parameters.
OPTIMIZERS = {
    "SGD": ((SGD, {}), (torch.optim.SGD, {}), dict.values),
    "momentum": ((SGD, {"momentum": 0.9}), (torch.optim.SGD, {"momentum": 0.9}), dict.values),
    "Adam": ((Adam, {}), (torch.optim.Adam, {}), dict.values),
    "Adam, other betas": (
        (Adam, {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3}),
        (torch.optim.Adam, {"betas": (0.8, 0.95), "eps": 1e-3}),
        dict.values,
    ),
    "AdamW": ((AdamW, {"weight_decay": 0.1}), (torch.optim.AdamW, {}), groups),
    "AdamW, all decayed": (
        (AdamW, {"weight_decay": 0.1, "undecayed": ()}),
        (torch.optim.AdamW, {"weight_decay": 0.1}),
        dict.values,
    ),
}


def schedule(optimizer):
    """Warm-up, plateau and decay, put together from PyTorch's own schedules."""
    schedules = torch.optim.lr_scheduler
    parts = [
        schedules.LinearLR(optimizer, 1 / WARMUP, 1, WARMUP - 1),
        schedules.ConstantLR(optimizer, 1),
        schedules.LinearLR(optimizer, 1, 1 / DECAY, DECAY - 1),
    ]
    return schedules.SequentialLR(optimizer, parts, [WARMUP, STEPS - DECAY])


def clip(leaves):
    """Clip by PyTorch's functions. They add 1e-6 to the norm, so it is taken off before."""
    norm = torch.nn.utils.get_total_norm([leaf.grad for leaf in leaves])
    torch.nn.utils.clip_grads_with_norm_(leaves, MAX_NORM, norm - 1e-6)


def train(rng, name, clipped, differentiate):
    """Train one encoder with both, and return the largest difference of a parameter."""
    spec = LayerSpec(6, 2, 7, "pre", dtype=np.float64)
    encoder = Reconstructor(spec, 1, rng, final_norm=True)
    parameters = encoder.parameters()
    leaves = {n: torch.tensor(a, requires_grad=True) for n, a in parameters.items()}
    (our_kind, our_settings), (their_kind, their_settings), taken = OPTIMIZERS[name]
    ours = our_kind(parameters, PEAK, **our_settings)
    theirs = their_kind(taken(leaves), PEAK, **their_settings)
    rates, clippings = schedule(theirs), 0
    for step in range(1, STEPS + 1):
        batch = normal(rng, (2, 4, 5, 6))
        _, grads = encoder.loss_and_gradients(*batch)
        differentiate(encoder, leaves, batch, grads)
        if clipped:
            grads, norm = clip_by_global_norm(grads, MAX_NORM)
            clip(leaves.values())
            clippings += norm > MAX_NORM
        ours.learning_rate = warmup_stable_decay(step, STEPS, PEAK, WARMUP, DECAY)
        assert np.isclose(theirs.param_groups[0]["lr"], ours.learning_rate, rtol=1e-13)
        ours.step(grads)
        theirs.step()
        rates.step()
    assert not clipped or 0 < clippings < STEPS
    return max(error(parameters[name], leaves[name].detach()) for name in parameters)


def hand_over(encoder, leaves, batch, grads):
    """Give PyTorch our gradients."""
    for name, leaf in leaves.items():
        leaf.grad = torch.tensor(grads[name])


def autograd(encoder, leaves, batch, grads):
    """Let PyTorch find its own."""
    x, target = tensors(batch)
    loss = F.mse_loss(run(encoder, leaves, x), target)
    found = torch.autograd.grad(loss, leaves.values())
    for leaf, gradient in zip(leaves.values(), found, strict=True):
        leaf.grad = gradient


@pytest.mark.parametrize("clipped", [False, True], ids=["plain", "clipped"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_stay_equal(rng, name, clipped):
    assert train(rng, name, clipped, hand_over) < 1e-10


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_trainings_stay_equal(rng, name):
    """The biases of the keys have no gradient but rounding, which Adam does not take for 0."""
    assert train(rng, name, True, autograd) < 1e-8


# Muon, whose matrices PyTorch stores with the outputs first and iterates in bfloat16


@pytest.mark.parametrize(
    ("tolerance", "bfloat16"),
    [(1e-11, torch.Tensor.clone), (0.05, torch.Tensor.bfloat16)],
    ids=["in float64", "in bfloat16"],
)
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scale", ["original", "match_rms_adamw"])
def test_muon(rng, monkeypatch, nesterov, scale, tolerance, bfloat16):
    monkeypatch.setattr(torch.Tensor, "bfloat16", bfloat16)
    shapes = {"tall": (8, 5), "wide": (5, 8), "square": (6, 6)}
    parameters = {name: np.zeros(shape) for name, shape in shapes.items()}
    leaves = {n: torch.tensor(a.T, requires_grad=True) for n, a in parameters.items()}
    ours = Muon(parameters, 0.02, 0.9, nesterov, weight_decay=0.1, scale=scale)
    theirs = torch.optim.Muon(leaves.values(), 0.02, 0.1, 0.9, nesterov, adjust_lr_fn=scale)
    for _ in range(50):
        grads = {name: rng.normal(size=shape) for name, shape in shapes.items()}
        for name, leaf in leaves.items():
            leaf.grad = torch.tensor(grads[name].T)
        ours.step(grads)
        theirs.step()
    for name, leaf in leaves.items():
        assert error(parameters[name], leaf.detach().T) < tolerance


# Where PyTorch differs: it divides by the norm plus 1e-6


@given(generators, st.floats(1e-2, 1e2))
def test_clip_grad_norm_shortens_a_little_more(rng, scale):
    grads = {"weight": scale * rng.normal(size=(3, 4)), "bias": scale * rng.normal(size=4)}
    clipped, norm = clip_by_global_norm(grads, 1.0)
    leaves = [torch.zeros(grad.shape, dtype=torch.float64) for grad in grads.values()]
    for leaf, grad in zip(leaves, grads.values(), strict=True):
        leaf.grad = torch.tensor(grad)
    assert np.isclose(torch.nn.utils.clip_grad_norm_(leaves, 1.0), norm, rtol=1e-14)
    ratio = max(norm + 1e-6, 1) / max(norm, 1)
    for leaf, ours in zip(leaves, clipped.values(), strict=True):
        assert np.allclose(ours, ratio * leaf.grad.numpy(), rtol=1e-13, atol=0)

"""What the tests share: generic points, and the comparison of a gradient with a witness."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies

from transformer_core.foundation.names import check_fit
from transformer_core.gradient_check import central_difference, check_gradients, complex_step
from transformer_core.optim import Adam

sizes = strategies.integers(1, 5)
generators = strategies.builds(np.random.default_rng, strategies.integers(0, 2**32 - 1))


class Witness(NamedTuple):
    name: str
    measure: callable
    dtype: type
    tolerance: float


CENTRAL_DIFFERENCES = Witness("central-differences", central_difference, np.float64, 1e-7)
COMPLEX_STEP = Witness("complex-step", complex_step, np.complex128, 1e-12)
PROBES = 8  # of each array of a model
DIRECTIONS = 2  # through each array of a layer or a model


class Check:
    """Compares every gradient with a witness, under a random cotangent."""

    def __init__(self, witness, rng, record):
        self.witness, self.rng, self.record = witness, rng, record

    def op(self, op):
        """Probe every entry of every array of an ``Op``."""
        arrays = op.draw(self.rng, self.witness.dtype)
        self.compare(
            lambda: op.forward(*arrays.values(), **op.settings),
            lambda dy, cache: op.gradients(dy, cache),
            arrays,
        )

    def layer(self, case):
        """Probe every input and every parameter of a ``LayerCase``."""
        layer, *inputs = case.draw(self.rng, self.witness.dtype)
        self.model(
            lambda: layer.forward(*inputs, *case.context),
            lambda dy, cache: gradients_of(layer, dy, cache),
            named(inputs) | layer.parameters(),
            probes=None,
        )

    def model(self, forward, backward, arrays, probes=PROBES):
        """Step along random directions by the complex step; by central differences, in entries."""
        self.compare(forward, backward, arrays, probes, self.witness is COMPLEX_STEP)

    def compare(self, forward, backward, arrays, probes=None, along=False):
        y, cache = forward()
        dy = self.rng.normal(size=np.shape(y))
        problem = lambda: (dy * forward()[0]).sum(), arrays, backward(dy, cache)
        if along:
            problem, probes = along_directions(*problem, self.rng), None
        errors = check_gradients(*problem, self.witness.measure, probes, self.rng)
        self.record("witness", self.witness.name)
        self.record("error", max(error.norm for error in errors.values()))
        for name, error in errors.items():
            assert error.norm < self.witness.tolerance, f"{name}: {error}"


def along_directions(loss, arrays, grads, rng):
    """Take the lengths of steps along directions through each array for coordinates.

    Every entry contributes to a slope (eq:directional), so none can be wrong unseen.
    """
    check_fit("grads", grads, arrays)
    origins = {name: array.copy() for name, array in arrays.items()}
    directions = {name: rng.normal(size=(DIRECTIONS, a.size)) for name, a in arrays.items()}
    lengths = {name: np.zeros(DIRECTIONS, complex) for name in arrays}

    def moved():
        for name, array in arrays.items():
            array[...] = origins[name] + (lengths[name] @ directions[name]).reshape(array.shape)
        return loss()

    slopes = {name: directions[name] @ grads[name].ravel() for name in arrays}
    return moved, lengths, slopes


def named(inputs):
    """Name the inputs of a layer, or their gradients."""
    return {f"input {i}": array for i, array in enumerate(inputs)}


def gradients_of(layer, dy, cache):
    """Give what the backward pass returns, all of it under names."""
    *dinputs, grads = layer.backward(dy, cache)
    return named(dinputs) | grads


def normal(rng, shape, dtype=np.float64):
    """Draw an array, with a random imaginary part where the dtype is complex."""
    array = rng.normal(size=shape).astype(dtype)
    if np.iscomplexobj(array):
        array += 1j * rng.normal(size=shape)
    return array


def randomise(layer, rng):
    """Take a layer to a generic point: it starts with gamma 1 and biases 0."""
    for array in layer.parameters().values():
        array[...] = rng.normal(size=array.shape)
    return layer


def causal(length):
    return np.tril(np.ones((length, length), bool))


def padding(lengths, longest):
    """Keep the first ``lengths[b]`` keys of sequence b: (B, 1, 1, S)."""
    return (np.arange(longest) < np.array(lengths)[:, None])[:, None, None]


def scattered(rng, *shape):
    """Keep entries at random, and let the very last query attend to nothing."""
    keep = rng.random(shape) < 0.6
    keep.reshape(-1, shape[-1])[-1] = False
    return keep


def broadcastable(rng, *shape):
    """Draw a mask that broadcasts to a shape: some axes have the size 1, some are left out."""
    axes = [size if rng.random() < 0.5 else 1 for size in shape]
    return rng.random(axes[rng.integers(len(axes)) :]) < 0.7


def assert_close(found, expected, tolerance=1e-9):
    """Compare arrays by names. What is smaller than the tolerance times the largest is 0."""
    assert found.keys() == expected.keys()
    largest = max(np.abs(array).max() for array in expected.values())
    for name, array in expected.items():
        close = np.allclose(found[name], array, rtol=tolerance, atol=tolerance * largest)
        assert close, name


def assert_same_bits(found, expected):
    """Compare arrays by names: dtypes, shapes and all bits, of which -0.0 has another than 0.0."""
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name, strict=True)
        bits, expected_bits = (np.ascontiguousarray(a).tobytes() for a in (found[name], array))
        assert bits == expected_bits, name


def assert_every_parameter_moves(parameters, grads):
    """Each has a gradient of its shape, and one step changes it."""
    assert {name: grad.shape for name, grad in grads.items()} == {
        name: array.shape for name, array in parameters.items()
    }
    before = {name: array.copy() for name, array in parameters.items()}
    Adam(parameters).step(grads)
    assert [name for name in before if np.array_equal(parameters[name], before[name])] == []


def assert_memory_of_their_own(arrays):
    """No two arrays share memory."""
    for i, array in enumerate(arrays):
        assert not any(np.shares_memory(array, other) for other in arrays[:i])


def assert_dtype_is_kept(dtype, cache, *arrays):
    """So have the arrays, and the numbers of a cache that are no ids and masks."""
    numbers = [a for a in arrays_in(cache) if a.dtype.kind not in "biu"]
    assert {array.dtype for array in (*arrays, *numbers)} == {np.dtype(dtype)}


def assert_nothing_is_modified(model, forward, step, given, dlogits):
    """Neither what is given, the parameters nor the cache, which serves a second time."""
    _, cache = forward(model)
    arrays = [*given, dlogits, *arrays_in(cache), *model.parameters().values()]
    copies = [array.copy() for array in arrays]
    _, grads = model.backward(dlogits, cache)
    step(model)
    _, again = model.backward(dlogits, cache)
    assert all(map(np.array_equal, arrays, copies))
    assert all(np.array_equal(again[name], grads[name]) for name in grads)


def arrays_in(cache):
    """List the arrays of a cache, however deep, each once."""
    if isinstance(cache, np.ndarray):
        return [cache]
    parts = cache if isinstance(cache, tuple) else ()
    arrays = [array for part in parts for array in arrays_in(part)]
    return list({id(array): array for array in arrays}.values())

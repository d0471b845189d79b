import numpy as np
import pytest
from helpers.cases import LAYERS
from helpers.witnesses import normal, randomise

from transformer_core.layers import LayerSpec, NormSpec, RmsNorm
from transformer_core.models import Encoder


@pytest.mark.equation("eq:rms-norm-backward")
@pytest.mark.equation("eq:rms-norm-backward-parameters")
def test_gradients_agree_with_the_witnesses(check):
    check.layer(LAYERS["RmsNorm"])


def test_gamma_starts_at_one():
    layer = RmsNorm(4)
    assert np.array_equal(layer.gamma, np.ones(4)) and layer.gamma.dtype == np.float32


@pytest.mark.equation("eq:rms-norm-folding")
def test_a_pre_ln_encoder_is_one_with_rms_norm_whose_writers_are_centred(rng):
    """Embeddings and everything that writes are centred, every beta goes into the next bias."""
    layers = 3

    def encoder(norm):
        spec = LayerSpec(8, 2, 12, "pre", NormSpec(norm), dtype="float64")
        return Encoder(spec, layers, rng, final_norm=True)

    before, after = randomise(encoder("layer_norm"), rng), encoder("rms_norm")
    p = before.parameters()
    new = {name: array for name, array in p.items() if not name.endswith("beta")}
    for i in range(layers):
        for part, reader in (("attention", "query_key_value"), ("feed_forward", "hidden")):
            name = f"layer_{i}.{part}"
            read = p[f"{name}.norm.beta"] @ p[f"{name}.branch.{reader}.weight"]
            new[f"{name}.branch.{reader}.bias"] = p[f"{name}.branch.{reader}.bias"] + read
            for array in ("weight", "bias"):
                writer = p[f"{name}.branch.output.{array}"]
                new[f"{name}.branch.output.{array}"] = centred(writer)
    after.set_parameters(new)
    x = rng.normal(size=(2, 4, 8))
    expected, _ = before.forward(x)
    found, _ = after.forward(centred(x))
    np.testing.assert_allclose(found + p["final_norm.beta"], expected, atol=1e-12)
    assert np.abs(after.forward(x)[0] + p["final_norm.beta"] - expected).max() > 0.1


def centred(a):
    return a - a.mean(axis=-1, keepdims=True)


def test_at_first_every_row_has_the_mean_square_1(rng):
    y, _ = RmsNorm(5, np.float64, eps=1e-30).forward(3 * normal(rng, (2, 4, 5)) + 1)
    np.testing.assert_allclose((y**2).mean(axis=-1), 1, rtol=1e-14)

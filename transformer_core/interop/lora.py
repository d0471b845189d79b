"""Adapters in the folders of PEFT: ``adapter_config.json`` and ``adapter_model.safetensors``.

A tensor is called ``base_model.model.NAME.lora_A.weight`` or ``... .lora_B.weight``, where NAME is
that of the linear layer in the base model. Layers there are stored as (out, in): A is (r, in) and B
(out, r), the transposes of ours.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_shape
from transformer_core.foundation.files import read_json, to_json, write_atomically
from transformer_core.foundation.names import summary
from transformer_core.layers.lora import add_lora, linear_layers, lora_layers

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PREFIX, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
# What else an adapter may do, with the values by which it does not.
PLAIN: dict[str, tuple] = {
    "bias": ("none",),
    "use_dora": (None, False),
    "lora_bias": (None, False),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "modules_to_save": (None, []),
}


def save_adapter(
    folder: str | Path,
    model: Any,
    names: Mapping[str, str] | None = None,
    base: str | None = None,
) -> None:
    """Write what a model's adapted layers have learnt, so that PEFT reads it.

    Parameters
    ----------
    folder : str or Path
        It is made if it is not there.
    model : layer or model
        One that :func:`add_lora` has adapted.
    names : mapping of str to str, optional
        The name of each adapted layer in the base model. Default: as here.
    base : str, optional
        Where the base model is found.

    Raises
    ------
    ValueError
        If nothing is adapted, or layers differ in r or alpha.
    """
    from safetensors.numpy import save

    layers = lora_layers(model)
    settings = {(layer.a.shape[1], layer.alpha) for layer in layers.values()}
    if len(settings) != 1:
        raise ValueError(
            f"model: expected adapted layers of one rank and one alpha, got {settings or 'none'}"
        )
    (rank, alpha) = settings.pop()
    theirs = {name: (names or {}).get(name, name) for name in layers}
    tensors = {}
    for name, layer in layers.items():
        tensors[PREFIX + theirs[name] + A] = np.ascontiguousarray(layer.a.T)
        tensors[PREFIX + theirs[name] + B] = np.ascontiguousarray(layer.b.T)
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted(theirs.values()),
        "bias": "none",
        "use_rslora": False,
        "use_dora": False,
        "fan_in_fan_out": False,
        "inference_mode": True,
    }
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / TENSORS, save(tensors, {"format": "pt"}))
    write_atomically(folder / CONFIG, to_json("config", config))


def load_adapter(
    folder: str | Path, model: Any, names: Mapping[str, str] | None = None
) -> None:
    """Adapt a model by an adapter that PEFT, or :func:`save_adapter`, has written.

    The layers that it names become :class:`LoraLinear`, all others are frozen. With ``use_rslora``
    the scale is lora_alpha / sqrt(r), which is what a larger alpha gives here.

    Parameters
    ----------
    folder : str or Path
    model : layer or model
        The base model, not yet adapted.
    names : mapping of str to str, optional
        As for :func:`save_adapter`: from names here to names there.

    Raises
    ------
    ValueError
        If the folder holds no plain LoRA, or a tensor has no layer that it fits. The model is as it
        was then.
    """
    folder = Path(folder)
    config, tensors = read_folder(folder)
    linear = linear_layers(model)
    ours = {(names or {}).get(name, name): name for name in linear}
    rank = config["r"]
    found: dict[str, dict] = {}
    for key, tensor in sorted(tensors.items()):
        side = A if key.endswith(A) else B
        name = key.removeprefix(PREFIX).removesuffix(side)
        if name + side == key or not key.endswith((A, B)) or name not in ours:
            raise ValueError(
                f"{folder / TENSORS}: {key}: expected an A or a B of one of the layers "
                f"{summary(ours)}"
            )
        width_in, width_out = linear[ours[name]].weight.shape
        shape = (rank, width_in) if side == A else (width_out, rank)
        check_shape(f"{folder / TENSORS}: {key}", tensor, *shape)
        found.setdefault(ours[name], {})[side] = tensor
    alone = sorted(name for name, both in found.items() if len(both) < 2)
    if alone or not found:
        raise ValueError(
            f"{folder / TENSORS}: expected A and B of each layer, got one of {alone}"
        )
    alpha = config["lora_alpha"] * (rank**0.5 if config.get("use_rslora") else 1)
    add_lora(model, found, rank, alpha, np.random.default_rng(0))
    for name, layer in lora_layers(model).items():
        layer.a = found[name][A].T.astype(layer.a.dtype)
        layer.b = found[name][B].T.astype(layer.b.dtype)


def read_folder(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the settings and the tensors of a folder that holds plain LoRA, and no more."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    contents = []
    for name in (CONFIG, TENSORS):
        try:
            contents.append((folder / name).read_bytes())
        except OSError as error:
            raise ValueError(
                f"{folder / name}: expected a file, got: {error}"
            ) from None
    config = read_json(folder / CONFIG, contents[0])
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ValueError(
            f"{folder / CONFIG}: expected the settings of LoRA, got {config!r:.60}"
        )
    for name, plain in PLAIN.items():
        if config.get(name, plain[0]) not in plain:
            raise ValueError(
                f"{folder / CONFIG}: {name}: expected {json.dumps(plain[0])}, "
                f"got {config[name]!r:.60}"
            )
    for name, kinds in (("r", int), ("lora_alpha", (int, float))):
        value = config.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool) or value <= 0:
            raise ValueError(
                f"{folder / CONFIG}: {name}: expected a positive number, got {value!r}"
            )
    try:
        return config, load(contents[1])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / TENSORS}: expected a whole file of floating-point numbers that NumPy "
            f"has, got: {error}"
        ) from None

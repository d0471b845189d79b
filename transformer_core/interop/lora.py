"""Adapters in the folders of PEFT: ``adapter_config.json`` and ``adapter_model.safetensors``.

A tensor is called ``base_model.model.NAME.lora_A.weight`` or ``... .lora_B.weight``, where NAME is
that of the linear layer in the base model. Layers there are stored as (out, in): A is (r, in) and B
(out, r), the transposes of ours. Where a layer here is several there, side by side, the adapters of
these are one here: below each other their A, B in blocks, unless they share A.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from transformer_core.foundation.checks import check_choice, check_shape
from transformer_core.foundation.files import read_json, to_json, write_atomically
from transformer_core.foundation.names import summary
from transformer_core.interop.folder import check_finite
from transformer_core.interop.rows import Row, in_their_layout
from transformer_core.layers.lora import add_lora, linear_layers, lora_layers

CONFIG, TENSORS = "adapter_config.json", "adapter_model.safetensors"
PREFIX, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
WEIGHT = ".weight"
# What else an adapter may do, with the values by which it does not: the first is the default.
PLAIN: dict[str, tuple] = {
    "bias": ("none",),
    "use_rslora": (False, True, None),
    # Others change the base model.
    "init_lora_weights": (True, False, None, "gaussian", "eva", "orthogonal"),
    "rank_pattern": (None, {}),
    "alpha_pattern": (None, {}),
    "loftq_config": (None, {}),
    "modules_to_save": (None, []),
    "target_parameters": (None, []),
    **dict.fromkeys(
        (
            *("use_dora", "lora_bias", "use_qalora", "use_bdlora"),
            *("ensure_weight_tying", "layer_replication", "alora_invocation_tokens"),
            *("trainable_token_indices", "megatron_config", "arrow_config"),
            *("corda_config", "lora_ga_config", "velora_config", "kasa_config"),
            "monteclora_config",
        ),
        (None, False),
    ),
}
# What may say anything: it is for training, or the tensors say the same.
FREE = (
    *("peft_type", "task_type", "auto_mapping", "peft_version", "inference_mode"),
    *("base_model_name_or_path", "revision", "r", "lora_alpha", "lora_dropout"),
    *("target_modules", "exclude_modules", "fan_in_fan_out", "layers_to_transform"),
    *("layers_pattern", "megatron_core", "qalora_group_size", "eva_config"),
    "runtime_config",
)


def save_adapter(
    folder: str | Path,
    model: Any,
    names: Mapping[str, str] | Iterable[Row] | None = None,
    base: str | None = None,
) -> None:
    """Write what a model's adapted layers have learnt, so that PEFT reads it.

    Parameters
    ----------
    folder : str or Path
        It is made if it is not there.
    model : layer or model
        One that :func:`add_lora` has adapted.
    names : mapping of str to str or iterable of Row, optional
        The name of each adapted layer in the base model. Default: as here. The rows of a published
        model (``rows_of``) say also where several layers there are one here, such as queries, keys
        and values: their adapters share A.
    base : str, optional
        Where the base model is found.

    Raises
    ------
    ValueError
        If nothing is adapted, layers differ in r or alpha, or one has no name there.
    """
    from safetensors.numpy import save

    layers = lora_layers(model)
    settings = {(layer.a.shape[1], layer.alpha) for layer in layers.values()}
    if len(settings) != 1:
        raise ValueError(
            f"model: expected adapted layers of one rank and one alpha, got {settings or 'none'}"
        )
    (rank, alpha) = settings.pop()
    shapes = {name: (len(layer.a), layer.b.shape[1]) for name, layer in layers.items()}
    rows = rows_between(shapes, names)
    lacking = shapes.keys() - {row.ours.removesuffix(WEIGHT) for row in rows.values()}
    if lacking:
        raise ValueError(f"names: expected one of {min(lacking)}, got none")
    bs = {f"{name}{WEIGHT}": layer.b for name, layer in layers.items()}
    views = in_their_layout(rows.values(), bs)
    tensors = {}
    for name, row in rows.items():
        a = layers[row.ours.removesuffix(WEIGHT)].a
        tensors[PREFIX + name + A] = np.ascontiguousarray(a.T)
        tensors[PREFIX + name + B] = np.ascontiguousarray(views[row.theirs])
    config = {
        "peft_type": "LORA",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": int(alpha) if alpha == int(alpha) else alpha,
        "lora_dropout": 0.0,
        "target_modules": sorted(rows),
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
    folder: str | Path,
    model: Any,
    names: Mapping[str, str] | Iterable[Row] | None = None,
) -> None:
    """Adapt a model by an adapter that PEFT, or :func:`save_adapter`, has written.

    The layers that it names become :class:`LoraLinear`, all others are frozen. With ``use_rslora``
    the scale is lora_alpha / sqrt(r), which is what a larger alpha gives here. The rank of several
    adapters that are one here is the sum of theirs.

    Parameters
    ----------
    folder : str or Path
    model : layer or model
        The base model, not yet adapted.
    names : mapping of str to str or iterable of Row, optional
        As for :func:`save_adapter`: from names here to names there, or rows.

    Raises
    ------
    ValueError
        If the folder holds no plain LoRA, or a tensor has no layer that it fits. The model is as it
        was then.
    """
    config, tensors = read_folder(Path(folder))
    place = Path(folder, TENSORS)
    linear = linear_layers(model)
    rows = rows_between({k: v.weight.shape for k, v in linear.items()}, names)
    rank = config["r"]
    found: dict[str, dict] = {}
    for key, tensor in sorted(tensors.items()):
        side = A if key.endswith(A) else B
        name = key.removeprefix(PREFIX).removesuffix(side)
        if name + side == key or not key.endswith((A, B)) or name not in rows:
            raise ValueError(
                f"{place}: {key}: expected an A or a B of one of the layers {summary(rows)}"
            )
        width_out, width_in = rows[name].shape
        shape = (rank, width_in) if side == A else (width_out, rank)
        check_shape(f"{place}: {key}", tensor, *shape)
        if tensor.dtype.kind != "f":
            raise ValueError(
                f"{place}: {key}: expected floating-point numbers, got {tensor.dtype}"
            )
        dtype = linear[rows[name].ours.removesuffix(WEIGHT)].weight.dtype
        with np.errstate(over="ignore"):
            found.setdefault(name, {})[side] = tensor.astype(dtype)
        check_finite(f"{place}: {key}", found[name][side])
    alone = sorted(name for name, both in found.items() if len(both) < 2)
    if alone or not found:
        raise ValueError(f"{place}: expected A and B of each layer, got one of {alone}")
    targets = {rows[name].ours.removesuffix(WEIGHT) for name in found}
    add_lora(model, targets, rank, config["lora_alpha"], np.random.default_rng(0))
    for name, layer in lora_layers(model).items():
        parts = {k: row for k, row in rows.items() if row.ours == name + WEIGHT}
        adapted = {k: both for k, both in found.items() if k in parts}
        blocks = {both[A].tobytes(): both[A].T for both in adapted.values()}
        layer.a = np.concatenate([*blocks.values()], axis=1)
        layer.b = np.zeros((layer.a.shape[1], layer.b.shape[1]), layer.b.dtype)
        layer.alpha *= len(blocks) * (rank**0.5 if config.get("use_rslora") else 1)
        views = in_their_layout(parts.values(), {name + WEIGHT: layer.b})
        for part, both in adapted.items():
            begin = rank * [*blocks].index(both[A].tobytes())
            views[part + WEIGHT][:, begin : begin + rank] = both[B]


def rows_between(shapes, names):
    """Return the row of each layer there, by its name, of some layers here with their (in, out)."""
    if names is None or isinstance(names, Mapping):
        called = {name: (names or {}).get(name, name) for name in shapes}
        names = [
            Row(called[name] + WEIGHT, name + WEIGHT, shape[::-1], "eq:linear", True)
            for name, shape in shapes.items()
        ]
    rows = {}
    for row in names:
        if row.ours.endswith(WEIGHT) and row.ours.removesuffix(WEIGHT) in shapes:
            shape = row.shape if row.transposed else row.shape[::-1]
            its = row.theirs.removesuffix(WEIGHT)
            rows[its] = row._replace(shape=shape, transposed=True)
    return rows


def read_folder(folder: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the settings and the tensors of a folder that holds plain LoRA, and no more."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place, contents = folder / CONFIG, []
    for path in (place, folder / TENSORS):
        try:
            contents.append(path.read_bytes())
        except OSError as error:
            raise ValueError(f"{path}: expected a file, got: {error}") from None
    config = read_json(place, contents[0])
    if not isinstance(config, dict) or config.get("peft_type") != "LORA":
        raise ValueError(f"{place}: expected the settings of LoRA, got {config!r:.60}")
    for name, value in config.items():
        check_choice(f"{place}: setting", name, (*FREE, *PLAIN))
        plain = PLAIN.get(name, (value,))
        if value not in plain:
            expected = json.dumps(plain[0])
            raise ValueError(f"{place}: {name}: expected {expected}, got {value!r:.60}")
    for name, kinds in (("r", int), ("lora_alpha", (int, float))):
        value = config.get(name)
        is_number = isinstance(value, kinds) and not isinstance(value, bool)
        if not is_number or not 0 < value <= sys.float_info.max:
            raise ValueError(
                f"{place}: {name}: expected a positive number, got {value!r}"
            )
    try:
        return config, load(contents[1])
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{folder / TENSORS}: expected a whole file of floating-point numbers that NumPy "
            f"has, got: {error}"
        ) from None

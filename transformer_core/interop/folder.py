"""Folders of weights as the library ``transformers`` writes them: read, and written."""

import re
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from transformer_core.foundation.checks import check_choice
from transformer_core.foundation.files import read_json, to_json
from transformer_core.interop import bert, gpt2, llama
from transformer_core.interop.rows import in_their_layout
from transformer_core.interop.weights import WHOLE, Weights, is_buffer
from transformer_core.models import BertEncoder, Gpt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
FAMILIES: dict[str, ModuleType] = {  # by architecture
    "BertForMaskedLM": bert,
    "BertModel": bert,
    "GPT2LMHeadModel": gpt2,
    "LlamaForCausalLM": llama,
    "Qwen3ForCausalLM": llama,
}
# Where all names of a file of the body alone, or with a head, may begin.
PREFIXES = {bert: "bert.", gpt2: "transformer.", llama: "model."}
# Arrays that are no weights: masks and positions that older versions have stored.
BUFFERS = re.compile(r"\.attn\.(masked_)?bias$|rotary_emb\.inv_freq$|position_ids$")
OLD_NAMES = {"LayerNorm.gamma": "LayerNorm.weight", "LayerNorm.beta": "LayerNorm.bias"}
STORED = "float64", "float32", "float16", "bfloat16"
SPECIAL = {  # tokens that have a meaning, by what tokenizer_config.json calls them
    "unk_token": "[UNK]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "mask_token": "[MASK]",
    "bos_token": "<|endoftext|>",
    "eos_token": "<|endoftext|>",
}


def load(
    folder: str | Path,
    dtype: str | None = None,
    sha256: str | None = None,
    recompute: bool = False,
) -> "tuple[Any, Tokenizer | None]":
    """Read a model and its tokenizer from a folder, or from the hub under its id.

    Parameters
    ----------
    folder : str or Path
        With ``config.json``, ``model.safetensors`` or shards with their index, and
        ``tokenizer.json``. What is no folder, and looks like ``owner/name``, is fetched by
        ``huggingface_hub``.
    dtype : str, optional
        Of the parameters: "float32" or "float64". Default: float64 where the file has it, and
        otherwise float32, which holds every float16 and bfloat16 exactly.
    sha256 : str, optional
        That ``model.safetensors`` has to have.
    recompute : bool
        Keep only the input of each layer of a forward pass. This saves memory without training,
        too: the cache of a layer is dropped before the next one computes.

    Returns
    -------
    model : Bert, BertEncoder or Gpt
        Of ``BertForMaskedLM``, ``BertModel``; ``GPT2LMHeadModel``, ``LlamaForCausalLM`` and
        ``Qwen3ForCausalLM``.
    tokenizer : tokenizers.Tokenizer
        None, if the folder has none.

    Raises
    ------
    ValueError
        If the folder is not whole, or describes what the course does not have. Nothing is built
        before the shapes in the file fit the configuration, so that memory is bounded by the file.
    OSError
        If it cannot be read or fetched.
    """
    place = located(folder)
    settings = settings_of(place)
    weights = Weights(place, sha256)
    plan, names = planned(place, settings, weights)
    tied = is_tied(place, settings, weights, names, plan)
    rows = plan.rows if tied or plan.readout is None else [*plan.rows, plan.readout]
    if dtype is None:
        stored = {weights.dtype(names[row.theirs]) for row in rows}
        dtype = "float64" if stored == {"F64"} else "float32"
    check_choice("dtype", dtype, ("float32", "float64"))
    tokenizer = tokenizer_of(place)
    model: Any = plan.build(dtype, tied, recompute)
    for name, view in in_their_layout(rows, model.parameters()).items():
        view[...] = finite(weights[names[name]], f"{place}: {name}")
    return model, tokenizer


def save(
    model: Any, tokenizer: Any, folder: str | Path, dtype: str | None = None
) -> None:
    """Write a folder that ``transformers`` opens, and :func:`load` reads.

    Parameters
    ----------
    model : Bert, BertEncoder or Gpt
        A Gpt with learned positions is written as GPT-2, with rotary halves as Llama, with
        normalised queries and keys as Qwen3. A Bert that lacks parts of the published one is
        written with them, and is the same function.
    tokenizer : tokenizers.Tokenizer, BytePairs or None
    folder : str or Path
        A new one, or an empty one.
    dtype : str, optional
        "float64", "float32", "float16" or "bfloat16". Default: that of the parameters.

    Raises
    ------
    ValueError
        If the model has a part that the published ones do not have, a number does not fit the
        dtype, or there is something in the folder.
    """
    family, model = family_of(model)
    config = family.config_of(model)
    names = {"pooler."} if getattr(model, "pooler", None) else set()
    plan = family.plan(config, config["architectures"][0], names)
    rows = plan.rows
    if "readout.weight" in model.parameters():
        rows = [*rows, plan.readout]
    stored = check_choice_of(dtype, model.spec.dtype)
    arrays = in_their_layout(rows, model.parameters())
    config["dtype"] = config["torch_dtype"] = stored
    place = Path(folder)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise ValueError(f"{folder}: expected a new or an empty folder, got another")
    place.parent.mkdir(parents=True, exist_ok=True)
    # A folder beside it takes its place when it is whole.
    draft = Path(mkdtemp(prefix=f".{place.name}.", dir=place.parent))
    try:
        (draft / CONFIG).write_bytes(to_json("config", config))
        if tokenizer is not None:
            write_tokenizer(draft, tokenizer, model)
        write_weights(draft / WHOLE, arrays, stored)
        draft.chmod(0o755)
        with suppress(FileNotFoundError):
            place.rmdir()
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def finite(array, where):
    """Return an array of finite numbers as it is."""
    if not np.isfinite(array).all():
        raise ValueError(f"{where}: expected finite numbers, got others")
    return array


def located(folder):
    """Return the folder, fetched from the hub where it is an id."""
    place = Path(folder)
    if place.is_dir():
        return place
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", str(folder)) or place.exists():
        raise ValueError(
            f"folder: expected a folder, or an id of the hub, got {str(folder)!r}"
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(str(folder), allow_patterns=["*.json", "*.safetensors"])
        )
    except Exception as error:  # of many kinds: the network, the id, access
        text = " ".join(str(error).split())[:200]
        raise OSError(f"{folder}: cannot be fetched from the hub: {text}") from None


def settings_of(place):
    """Return what ``config.json`` says."""
    path = place / CONFIG
    if not path.exists():
        raise ValueError(f"{place}: expected {CONFIG}, got none")
    settings = read_json(path, path.read_bytes())
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected settings by name, got {settings!r:.60}")
    named = settings.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else named
    check_choice(f"{path}: architectures", architecture, FAMILIES)
    return settings | {"architectures": [architecture]}


def planned(place, settings, weights):
    """Return the plan of a folder, and the name in its file of each array of the plan.

    Raises
    ------
    ValueError
        Unless every array is there, of the shape that follows from the configuration, and none
        that has no place; a warning says which are left out because the architecture has no use for
        them.
    """
    (architecture,) = settings["architectures"]
    family = FAMILIES[architecture]
    plan = family.plan(settings, architecture, set(weights))
    files = {}  # by the name in the plan
    prefix = PREFIXES[family]
    whole = any(name.startswith(prefix) for name in weights)
    planned_prefix = plan.rows[0].theirs.startswith(prefix)
    for name in weights:
        if BUFFERS.search(name) or is_buffer(weights.dtype(name)):
            continue
        called = name
        for old, new in OLD_NAMES.items():
            called = called.replace(old, new)
        if whole and not planned_prefix:
            called = called.removeprefix(prefix)
        elif (
            planned_prefix and not whole and not called.startswith(("cls.", "lm_head."))
        ):
            called = prefix + called
        files[called] = name
    expected = {row.theirs: row for row in plan.rows}
    missing = sorted(expected.keys() - files.keys())
    if missing:
        raise ValueError(f"{place}: expected {named(missing)}, got none")
    optional = {plan.readout.theirs} if plan.readout else set()
    optional.add(
        "cls.predictions.decoder.bias"
    )  # the same array as cls.predictions.bias
    left, unknown = [], []
    for name in sorted(files.keys() - expected.keys() - optional):
        (left if name.startswith(plan.left_out) else unknown).append(name)
    if unknown:
        raise ValueError(
            f"{place}: got {named(unknown)}, which {architecture} does not have"
        )
    if left:
        warnings.warn(
            f"{place}: left out {named(left)}, which {architecture} has no use for",
            stacklevel=3,
        )
    for row in [*plan.rows, *([plan.readout] if plan.readout else [])]:
        if row.theirs in files and weights.shape(files[row.theirs]) != row.shape:
            raise ValueError(
                f"{place}: {files[row.theirs]}: expected the shape {row.shape}, got "
                f"{weights.shape(files[row.theirs])}"
            )
    return plan, files


def is_tied(place, settings, weights, files, plan):
    """Tell whether the output layer shares the table: what the file holds comes first.

    A warning says where the settings differ.
    """
    if plan.readout is None:
        return True
    family = FAMILIES[settings["architectures"][0]]
    said = settings.get("tie_word_embeddings", family is not llama)
    if plan.readout.theirs not in files:
        if not said:
            warnings.warn(
                f"{place}: {plan.readout.theirs} is not there, though the settings say that it is "
                "not the table: the table is taken",
                stacklevel=3,
            )
        return True
    table = weights[files[plan.rows[0].theirs]]
    same = np.array_equal(weights[files[plan.readout.theirs]], table)
    if said and not same:
        warnings.warn(
            f"{place}: {plan.readout.theirs} is not the table, though the settings say so: it is "
            "taken as it is",
            stacklevel=3,
        )
    return bool(said and same)


def named(names):
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f"{names[0]!r}{more}"


def tokenizer_of(place):
    """Return the tokenizer of a folder, or None."""
    path = place / TOKENIZER
    if not path.exists():
        return None
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_str(path.read_text("utf-8"))
    except Exception as error:  # the library raises no narrower one
        raise ValueError(f"{path}: expected a whole tokenizer, got: {error}") from None


def family_of(model):
    """Return the family that has a model, and the model with all parts of the published one."""
    if isinstance(model, BertEncoder):
        return bert, bert.published(model)
    if not isinstance(model, Gpt):
        raise ValueError(
            f"model: expected a Bert, BertEncoder or Gpt, got {type(model).__name__}"
        )
    return (gpt2 if model.positions else llama), model


def check_choice_of(dtype, default):
    """Return the dtype of a file."""
    check_choice("dtype", dtype or default, STORED)
    return dtype or default


def write_tokenizer(place, tokenizer, model):
    """Write a tokenizer, and which of its tokens have a meaning."""
    tokenizer.save(str(place / TOKENIZER))
    read = tokenizer_of(place)
    if read.get_vocab_size() > len(model.tokens.table):
        raise ValueError(
            f"tokenizer: expected at most {len(model.tokens.table)} tokens, got "
            f"{read.get_vocab_size()}"
        )
    special = {
        name: token
        for name, token in SPECIAL.items()
        if read.token_to_id(token) is not None
    }
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | special
    (place / "tokenizer_config.json").write_bytes(to_json("tokenizer", config))


def write_weights(path, arrays, dtype):
    """Write arrays of one dtype in the library's file format."""
    from safetensors import TensorSpec, serialize_file

    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: expected finite numbers")
    stored = {name: narrowed(name, array, dtype) for name, array in arrays.items()}
    specs = {
        name: TensorSpec(
            dtype=dtype,
            shape=array.shape,
            data_ptr=array.ctypes.data,
            data_len=array.nbytes,
        )
        for name, array in stored.items()
    }
    serialize_file(specs, str(path), {"format": "pt"})


def narrowed(name, array, dtype):
    """Return an array in a dtype, bfloat16 by its bits; rounded to the nearest, ties to even."""
    if dtype == "bfloat16":
        bits = array.astype("<f4", order="C").view("<u4")
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    with np.errstate(over="ignore"):
        converted = array.astype(np.dtype(dtype).newbyteorder("<"), order="C")
    if not np.isfinite(converted).all():
        raise ValueError(f"{name}: expected numbers that {dtype} can hold")
    return converted

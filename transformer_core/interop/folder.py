"""Folders of weights as the library ``transformers`` writes them: read, and written."""

import json
import re
import shutil
import warnings
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from transformer_core.foundation.checks import check_choice, check_whole
from transformer_core.foundation.files import read_json, to_json
from transformer_core.interop import bert, gpt2, llama
from transformer_core.interop.rows import Row, in_their_layout
from transformer_core.interop.weights import WHOLE, Weights, is_buffer
from transformer_core.models import BertEncoder, Gpt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CONFIG, TOKENIZER = "config.json", "tokenizer.json"
GENERATION = "generation_config.json"
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
IDS = "bos_token_id", "eos_token_id", "pad_token_id"
# What the published tokenizers of the families are made of. The library takes memory for the table
# of another kind, Precompiled, as the file says, and ends the process where there is none.
PARTS = {
    "model": ("BPE", "WordPiece"),
    "normalizer": ("BertNormalizer", "NFC", "Prepend", "Replace"),
    "pre_tokenizer": ("BertPreTokenizer", "ByteLevel", "Metaspace", "Split"),
    "post_processor": ("ByteLevel", "TemplateProcessing"),
    "decoder": (
        *("ByteFallback", "ByteLevel", "Fuse", "Metaspace"),
        *("Replace", "Strip", "WordPiece"),
    ),
}
SEQUENCES = {
    "normalizer": "normalizers",
    "pre_tokenizer": "pretokenizers",
    "post_processor": "processors",
    "decoder": "decoders",
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
    token_ids = token_ids_of(place, settings)
    model: Any = plan.build(dtype, tied, recompute)
    path = place / TOKENIZER
    tokenizer = read_tokenizer(path, model, str(path)) if path.exists() else None
    for name, view in in_their_layout(rows, model.parameters()).items():
        for part, piece in weights.pieces(names[name]):
            with np.errstate(over="ignore"):  # what overflows is not finite
                view[part] = piece
            check_finite(f"{place}: {name}", view[part])
    model.token_ids = token_ids  # what config.json says of them, for save
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
    token_ids = getattr(model, "token_ids", None)
    model, config, rows = described(model)
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
        config |= write_tokenizer(draft, tokenizer, model, token_ids)
        (draft / CONFIG).write_bytes(to_json("config", config))
        write_weights(draft / WHOLE, arrays, stored)
        draft.chmod(0o755)
        with suppress(FileNotFoundError):
            place.rmdir()
        draft.rename(place)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_finite(name, array):
    """Raise ``ValueError`` unless all numbers of an array are finite in its dtype."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name}: expected finite numbers of {array.dtype}")


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
            snapshot_download(
                str(folder),
                allow_patterns=["*.json", "*.safetensors"],
                ignore_patterns=["*/*"],  # other formats, in folders of their own
            )
        )
    except Exception as error:  # of many kinds: the network, the id, access
        text = " ".join(str(error).split())[:200]
        raise OSError(f"{folder}: cannot be fetched from the hub: {text}") from None


def settings_of(place):
    """Return what ``config.json`` says."""
    path = place / CONFIG
    if not path.exists():
        raise ValueError(f"{place}: expected {CONFIG}, got none")
    settings = read_settings(path)
    named = settings.get("architectures")
    architecture = named[0] if isinstance(named, list) and named else named
    check_choice(f"{path}: architectures", architecture, FAMILIES)
    return settings | {"architectures": [architecture]}


def read_settings(path):
    """Return the settings in a JSON file."""
    settings = read_json(path, path.read_bytes())
    if not isinstance(settings, dict):
        raise ValueError(f"{path}: expected settings by name, got {settings!r:.60}")
    return settings


def token_ids_of(place, settings):
    """Return the ids of the tokens that begin, end and fill: first those for generation."""
    path = place / GENERATION
    said = settings | (read_settings(path) if path.exists() else {})
    ids = {name: said[name] for name in IDS if name in said}
    for name, value in ids.items():
        several = name == "eos_token_id" and isinstance(value, list)
        for each in value if several else [value]:
            if each is not None:
                check_whole(f"{place}: {name}", each, least=-1)  # of old files: none
    return ids


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
    pooler = any("pooler." in name for name in weights)
    plan = family.plan(settings, architecture, pooler, len(weights))
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
                f"{place}: {plan.readout.theirs} is missing, although the settings say that it is "
                "not the table: the table is used",
                stacklevel=3,
            )
        return True
    table = weights[files[plan.rows[0].theirs]]
    same = np.array_equal(weights[files[plan.readout.theirs]], table)
    if said and not same:
        warnings.warn(
            f"{place}: {plan.readout.theirs} is not the table, although the settings say that it "
            "is: it is used as it is",
            stacklevel=3,
        )
    return bool(said and same)


def named(names):
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f"{names[0]!r}{more}"


def read_tokenizer(path, model, name):
    """Return the tokenizer of a file, whose ids are rows of the model's table."""
    from tokenizers import Tokenizer

    content = read_settings(path)
    check_parts(name, content)
    # What was checked is read, not the file: there a name may stand twice.
    with library_errors(name):
        tokenizer = Tokenizer.from_str(json.dumps(content))
    rows, ids = len(model.tokens.table), tokenizer.get_vocab().values()
    if max(ids, default=0) >= rows:
        raise ValueError(f"{name}: expected at most {rows} tokens, got {max(ids) + 1}")
    padding = tokenizer.padding or {}
    for setting in "length", "pad_to_multiple_of":
        if (padding.get(setting) or 0) > model.stack.length:
            raise ValueError(
                f"{name}: padding: expected at most {model.stack.length} tokens, got "
                f"{padding[setting]}"
            )
    with library_errors(name):  # a template may name a token that is not there
        tokenizer.encode("", "")
    return tokenizer


@contextmanager
def library_errors(name):
    """Turn what the library raises, panics too, into a ``ValueError`` of one line."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        text = " ".join(str(error).split())
        raise ValueError(f"{name}: expected a whole tokenizer, got: {text}") from None


def check_parts(name, content):
    """Raise ``ValueError`` unless a tokenizer is made of parts that the families have."""
    model = content.get("model")
    if isinstance(model, dict) and "type" not in model:  # of older files
        model["type"] = "BPE" if "merges" in model else "WordPiece"
    waiting = [(place, content.get(place)) for place in PARTS]
    while waiting:
        place, part = waiting.pop()
        if part is None and place != "model":
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "Sequence" and place in SEQUENCES:
            inner = part.get(SEQUENCES[place])
            inner = inner if isinstance(inner, list) else []
            waiting += [(place, each) for each in inner]
        else:
            check_choice(f"{name}: {place}", kind, PARTS[place])


def described(model):
    """Return a model with all parts of the published one, its settings, and its rows."""
    family, model = family_of(model)
    config = family.config_of(model)
    pooler = bool(getattr(model, "pooler", None))
    plan = family.plan(config, config["architectures"][0], pooler)
    own = "readout.weight" in model.parameters()
    return model, config, [*plan.rows, plan.readout] if own else plan.rows


def rows_of(model: Any) -> list[Row]:
    """Return what the file of a model holds: each array, and where it stands in the model.

    Parameters
    ----------
    model : Bert, BertEncoder or Gpt
    """
    return described(model)[2]


def family_of(model):
    """Return the family that has a model, and the model with all parts of the published one."""
    if isinstance(model, BertEncoder):
        return bert, bert.published(model)
    if not isinstance(model, Gpt):
        raise ValueError(
            f"model: expected a Bert, BertEncoder or Gpt, got {type(model).__name__}"
        )
    if model.pairs:
        raise ValueError(
            "model: expected no rows for pairs of tokens, of which their files know nothing, got "
            f"{len(model.pairs.table)}"
        )
    return (gpt2 if model.positions else llama), model


def check_choice_of(dtype, default):
    """Return the dtype of a file."""
    check_choice("dtype", dtype or default, STORED)
    return dtype or default


def write_tokenizer(place, tokenizer, model, token_ids):
    """Write a tokenizer, and which of its tokens have a meaning; return the ids for the settings.

    They are those of the folder that the model was loaded from, and otherwise the tokenizer's: null
    where it has none, because what is not said is the id of another vocabulary.
    """
    if tokenizer is None:
        return dict.fromkeys(IDS) if token_ids is None else token_ids
    tokenizer.save(str(place / TOKENIZER))
    read = read_tokenizer(place / TOKENIZER, model, "tokenizer")
    ids = read.get_vocab()
    special = {name: token for name, token in SPECIAL.items() if token in ids}
    if token_ids is None:
        names = {name: special.get(name.removesuffix("_id")) for name in IDS}
        token_ids = {name: ids.get(token) for name, token in names.items()}
    tokens = {i: token for token, i in ids.items()}
    for name, value in token_ids.items():
        for each in (value if isinstance(value, list) else [value])[:1]:
            if each in tokens:
                special[name.removesuffix("_id")] = tokens[each]
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | special
    config["model_max_length"] = model.stack.length
    if isinstance(model, BertEncoder):
        config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    (place / "tokenizer_config.json").write_bytes(to_json("tokenizer", config))
    return token_ids


def write_weights(path, arrays, dtype):
    """Write arrays of one dtype in the library's file format."""
    from safetensors import TensorSpec, serialize_file

    for name, array in arrays.items():
        check_finite(name, array)
    stored = {name: narrowed(name, array, dtype) for name, array in arrays.items()}
    specs = {}
    for name, array in stored.items():
        data = {"data_ptr": array.ctypes.data, "data_len": array.nbytes}
        specs[name] = TensorSpec(dtype=dtype, shape=array.shape, **data)
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

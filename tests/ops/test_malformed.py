"""Malformed input to the ops."""

from helpers.malformed import Ids, Setting, Table, count, whole

from transformer_core import ops

NAMES = {
    "x": "...", "keep": "mask ... T S", "ids": "ids ...", "table": "V D",
    "query": "... T K", "key": "... S K", "value": "... S V",
    "prediction": "...", "target": "...", "gate": "...", "logits": "... V", "targets": "ids ...",
    "weights": "weights ...",
}  # fmt: skip
LINES = {
    "gated_product": {"value": "..."},
    "layer_norm": {"x": "... D", "gamma": "D", "beta": "D"},
    "linear": {"x": "... I", "weight": "I F", "bias": "optional F"},
    "log_softmax": {"x": "... S"},
    "merge_heads": {"x": "anything B H T K"},
    "padding_keep": {"lengths": Ids("B", below=4), "length": whole(4)},
    "rms_norm": {"x": "... D", "gamma": "D"},
    "sinusoidal_positions": {"width": Setting(4, lambda v: v in (2, 2.0) and isinstance(v, int))},
    "softmax": {"x": "... T S"},
    "split_heads": {"x": "anything B T 6", "heads": count(2, lambda v: v in (1, 2, 3))},
    "tied_readout": {"h": "... D", "bias": "V"},
}
OPS = Table("tests/ops/test_malformed.py", [ops], LINES, NAMES)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = OPS.tests()

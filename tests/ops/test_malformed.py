"""Malformed input to the ops."""

from helpers.malformed import (
    REALS,
    RNG,
    Choice,
    Floats,
    Ids,
    Setting,
    Table,
    count,
    positive,
    whole,
)

from transformer_core import ops

EVEN = Setting(4, lambda v: v in (2, 2.0) and isinstance(v, int))


class Places(Floats):
    """Positions, one for each row, that may be broadcast."""

    broadcasts, dtypes = True, REALS

    def valid(self, rng):
        return rng.integers(0, 9, self.shape())


NAMES = {
    "x": "...", "keep": "mask ... T S", "ids": "ids ...", "table": "V D",
    "query": "... T K", "key": "... S K", "value": "... S V",
    "prediction": "...", "target": "...", "gate": "...", "logits": "... V", "targets": "ids ...",
    "weights": "weights ...",
}  # fmt: skip
LINES = {
    "contrastive_loss": {"query": "B D", "key": "S D", "temperature": positive(0.5)},
    "gated_product": {"value": "..."},
    "layer_norm": {"x": "... D", "gamma": "D", "beta": "D"},
    "linear": {"x": "... I", "weight": "I F", "bias": "optional F"},
    "log_softmax": {"x": "... S"},
    "l2_normalize": {"x": "... D"},
    "low_rank": {"x": "... I", "a": "I 2", "b": "2 F", "alpha": positive(3.0)},
    "mean_pool": {"x": "B T D", "keep": "optional booleans B T"},
    "merge_heads": {"x": "anything B H T K"},
    "padding_keep": {"lengths": Ids("B", below=4), "length": whole(4)},
    "rms_norm": {"x": "... D", "gamma": "D"},
    "rotary": {
        "x": "... T 6",
        "positions": Places("... T"),
        "frequencies": "reals 3",
        "halves": Choice(True, [None, 1, "yes", []]),
    },
    "rotary_frequencies": {
        "width": EVEN,
        "base": positive(10000.0),
        "scaling": Choice(
            {"rope_type": "linear", "factor": 2.0},
            [{}, {"rope_type": "linear"}, {"rope_type": "yarn", "factor": 2.0}, 2.0, "linear"],
        ),
    },
    "pairs_to_halves": {"width": EVEN},
    "sinusoidal_positions": {"width": EVEN},
    "softmax": {"x": "... T S"},
    "soft_cap": {"cap": positive(1.5)},
    "round_rows": {"matrix": Floats("N M", dtypes=["float16", "longdouble"])},
    "round_to": {
        "x": Floats("...", dtypes=(), ok=lambda entry: True),
        "format": Choice("bfloat16"),
        "rng": RNG,
    },
    "split_heads": {"x": "anything B T 6", "heads": count(2, lambda v: v in (1, 2, 3))},
    "cached_keep": {"past": whole(2, 0), "new": whole(3)},
    "window_keep": {"window": whole(2)},
    "tiled_attention": {"tile": whole(2)},
    "tied_readout": {"h": "... D", "bias": "optional V"},
}
# What does not fit, or what an argument is called further down.
INDIRECT = {
    "cross_entropy": {"logits": "targets"},
    "embedding": {"table": "ids"},
    "padding_keep": {"length": "lengths"},
    "tied_readout_backward": {"dlogits": "dy"},
}
OPS = Table("tests/ops/test_malformed.py", [ops], LINES, NAMES, indirect=INDIRECT)
test_the_table_is_complete, test_valid_calls_pass, test_what_is_malformed_is_named = OPS.tests()

"""The mistakes of the museum: a case is drawn from each room."""

from typing import NamedTuple

from transformer_practice.mistakes import MUTANTS


class Exhibit(NamedTuple):
    name: str  # in the catalogue
    task: str  # that is trained under it
    key: str  # the question that is enough to know it: no other suspect gives this answer


def room(task, names):
    """Read lines of a question and, behind a colon, the mistakes for which it is enough."""
    return [
        Exhibit(name, task, question.strip())
        for question, names in (line.split(":") for line in names.strip().splitlines())
        for name in names.split()
    ]


ROOMS = [
    room("previous", "op layer_norm: layer-norm-gamma-outside layer-norm-gamma-reads-the-output"),
    room(
        "previous",
        """
        op layer_norm: layer-norm-no-variance-term layer-norm-scale-term-alone
        op layer_norm: layer-norm-no-mean-term layer-norm-mean-not-summed
        op LayerNorm: layer-norm-not-trained
        """,
    ),
    room(
        "previous",
        """
        op linear: linear-last-sequence-alone linear-batch-and-time-scrambled
        op linear: linear-weight-not-transposed linear-bias-averaged
        """,
    ),
    room(
        "previous",
        """
        op softmax: softmax-no-coupling softmax-row-sum
        op attention: attention-query-and-key-exchanged attention-key-not-transposed
        """,
    ),
    room(
        "previous",
        """
        op attention: attention-scale-forgotten-backward
        op MultiHeadSelfAttention: attention-keys-path-lost attention-input-without-projections
        op Residual: residual-skip-lost residual-branch-lost residual-skip-twice
        op relu: relu-passes-everything
        op Encoder: encoder-layers-in-forward-order
        """,
    ),
    room(
        "previous",
        """
        op MultiHeadSelfAttention: heads-joined-by-reshape
        op split_heads: heads-reshaped
        op attention: attention-scale-forgotten
        op layer_norm: layer-norm-unbiased-variance
        """,
    ),
    room(
        "same",
        """
        op dropout: dropout-mask-forgotten dropout-another-mask dropout-not-rescaled
        op ResidualWithDropout: residual-dropout-forgotten
        modes: loop-without-dropout
        """,
    ),
    room(
        "reversal",
        """
        op embedding: embedding-repeats-lost
        where: encoder-decoder-read-out-term-forgotten encoder-decoder-table-overwritten
        where: encoder-decoder-scale-forgotten
        op Decoder: decoder-one-layer-returns
        op MultiHeadCrossAttention: attention-source-forgotten
        """,
    ),
    room(
        "reversal",
        """
        inputs: decoder-target-not-shifted decoder-sees-the-future
        inputs: causal-mask-sees-the-next causal-mask-transposed
        """,
    ),
    room(
        "reversal",
        """
        inputs: padding-mask-off-by-one decoder-reads-padding encoder-mask-not-passed-on
        op cross_entropy: cross-entropy-padding-counted cross-entropy-mean-over-everything
        op cross_entropy: cross-entropy-gradient-unmasked cross-entropy-smoothing-forgotten
        theorems: accumulation-mean-of-means
        """,
    ),
    room(
        "previous",
        """
        optimiser: adam-no-bias-correction adam-counts-arrays optimizer-first-block-alone
        optimiser: adamw-decay-without-the-rate adamw-decay-in-the-gradient
        """,
    ),
    room(
        "previous",
        """
        resume: checkpoint-step-count-lost
        schedule: loop-schedule-one-step-late
        """,
    ),
]

SUSPECTS = {exhibit.name: MUTANTS[exhibit.name] for exhibits in ROOMS for exhibit in exhibits}

"""The judge of many machines hears mistakes between ranks, and nothing of the right package."""

import pytest

from transformer_practice.engine.planting import planted
from transformer_practice.judges.ranks import ranks_check
from transformer_practice.mistakes import MUTANTS


def test_the_right_package_passes():
    assert ranks_check() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "scheme"),
    [
        ("accumulation-mean-of-means", "data parallel"),
        ("sharded-parameters-not-gathered", "sharded optimiser, stage 1"),
        ("row-parallel-bias-on-every-rank", "tensor parallel"),
        ("sequence-norms-not-summed", "sequence parallel"),
        ("key-head-copies-not-summed", "tensor parallel GPT"),
        ("key-head-copies-averaged", "tensor parallel GPT"),
        ("key-head-summed-before-f", "tensor parallel GPT"),
        ("qk-norm-of-own-heads", "tensor parallel GPT"),
        ("vocabulary-tied-term-lost", "tensor parallel"),
        ("norm-counts-shared-pieces", "tensor parallel GPT"),
        ("sequence-qk-norm-summed-twice", "sequence parallel GPT"),
        ("pipeline-recompute-drops-anew", "pipeline, recomputed"),
        ("local-deltas-summed", "local steps"),
    ],
)
def test_a_mistake_between_ranks_is_heard_where_it_is(mutant, scheme):
    with planted(MUTANTS[mutant]):
        assert ranks_check().startswith(f"{scheme}: ")

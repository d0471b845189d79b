"""The examiner is held to account: by right answers, by known mistakes, and by unknown ones."""

from collections import Counter

import examiner as page
import pytest
from helpers.texts import ROOT
from practice.confusion import KINDS, finding
from practice.versions import PLANTED, RIGHT, UNKNOWN
from stored import read_json

from transformer_core import layers, ops, optim
from transformer_practice.engine.planting import planted
from transformer_practice.engine.runs import catalogue_of, passes_agree, run_right
from transformer_practice.exercises import every_exercise
from transformer_practice.mistakes import MUTANTS

pytestmark = pytest.mark.slow

# Mistakes that are not planted, and why.
NOT_PLANTED = {
    "no answer can hold them: they are in constructors, steps, defaults and checks": {
        "adam-betas-swapped",
        "adam-counts-arrays",
        "adam-eps-default",
        "adamw-decay-default",
        "cached-offset-after-update",
        "cached-position-zero",
        "embedding-reads-minus-one",
        "embedding-std-one",
        "linear-cache-without-bias",
        "lora-b-drawn",
        "lora-frozen-weight-trained",
        "lora-merged-scale-twice",
        "lora-merged-twice",
        "loss-scale-never-rises",
        "loss-scale-streak-kept",
        "muon-cut-matrices",
        "muon-momentum-of-directions",
        "optimizer-default-for-missing-gradients",
        "optimizer-first-block-alone",
        "step-clips-nothing",
        "step-kills-the-second-moment",
        "step-takes-what-is-not-a-number",
        "step-updates-arrays-of-the-past",
        "stochastic-rounding-one-draw",
        "together-clipped-apart",
        "together-one-rate",
        "unscale-infinity-passes",
        "unscale-one-array-suffices",
    },
    "an answer need not provide for the edges of what floats can hold": {
        "clipping-squares-overflow",
        "clipping-whole-numbers-wrap",
        "cross-entropy-infinity-times-zero",
        "cross-entropy-sum-of-weights-overflows",
        "gelu-tanh-slope-overflows",
        "l2-normalize-squares-overflow",
        "layer-norm-centred-once",
        "layer-norm-variance-overflows",
        "relu-of-minus-infinity",
        "rms-norm-squares-in-half-precision",
        "rotary-angles-in-the-dtype",
        "rounding-infinite-too-early",
        "rounding-subnormals-flushed",
        "rounding-without-underflow",
        "unscale-in-float16",
    },
    "the exercise has neither dropout nor a cotangent of the log-sum-exp": {
        "tiled-dropout-drawn-anew",
        "tiled-dropout-not-in-the-values",
        "tiled-dropout-not-in-the-weights",
        "tiled-log-sum-exp-gradient-dropped",
    },
    "no exercise asks for it": {"pairs-see-the-future"},
    "they are made with the package's own ways around a copy": {
        "cross-entropy-written-into-a-copy",
        "embedding-rows-added-to-a-copy",
        "embedding-rows-in-memory-order",
        "heads-joined-in-memory-order",
        "linear-gradient-shaped-like-the-input",
    },
}
MISSED = {  # (version, mistake) that is not named first: one in twenty at most
    ("Rows", "softmax-shift-of-the-whole-array"),  # it raises where NumPy gives NaN
    ("Einsum", "attention-key-not-transposed"),  # it stretches an axis of size 1
    ("ReadOutMatrix", "linear-last-sequence-alone"),  # it fails without a batch axis
    ("BothUses", "vocabulary-readout-not-summed"),  # f without its all-reduce is the same here
}

STORED = read_json(ROOT / page.STORE)["findings"]
EXERCISES = list(dict.fromkeys(answer.exercise for answer in RIGHT))
every_exercise_alone = pytest.mark.parametrize("exercise", EXERCISES)


def examined(kind, exercise):
    """The answers of a kind to an exercise, and what is found of them: what the book shows."""
    assert len(KINDS[kind]) == len(STORED[kind]), "there are other answers now: make confusion"
    for answer, stored in zip(KINDS[kind], STORED[kind], strict=True):
        if answer.exercise == exercise:
            found = finding(answer)
            same = found._asdict() | {"mistakes": [*found.mistakes], "seconds": stored["seconds"]}
            assert same == stored, "make confusion"
            yield answer, found


@every_exercise_alone
def test_right_answers_are_right(exercise):
    answers = list(examined("right", exercise))
    assert answers
    for _, found in answers:
        assert found.right and found.mistakes == (), found


@every_exercise_alone
def test_planted_mistakes_are_named_first(exercise):
    for answer, found in examined("planted", exercise):
        assert not found.right, found
        missed = (answer.version.__name__, answer.label) in MISSED
        assert (found.mistakes[:1] == (answer.label,)) != missed, found


@every_exercise_alone
def test_unknown_mistakes_are_not_given_a_name(exercise):
    for _, found in examined("unknown", exercise):
        assert not found.right and found.mistakes == (), found


@every_exercise_alone
def test_mistakes_in_a_new_form_are_not_given_another_name(exercise):
    for answer, found in examined("unseen", exercise):
        assert not found.right, found
        assert found.mistakes[:1] in [(), (answer.label,)], found


def test_one_planted_mistake_in_twenty_at_most_is_not_named_first():
    assert len(MISSED) <= len(PLANTED) / 20


def test_there_are_enough_answers_of_each_kind():
    right = Counter(answer.exercise for answer in RIGHT)
    names = {exercise.name for exercise in every_exercise()}
    assert set(right) <= names
    assert all(right[name] >= 3 for name in names if hasattr(ops, name))
    assert {name for name in names if hasattr(layers, name)} <= set(right)
    assert {name for name in names if hasattr(optim, name)} <= set(right)
    assert len(UNKNOWN) >= 40
    assert not {answer.label for answer in UNKNOWN} & set(MUTANTS)


def differs(changed):
    """Tell whether a mistake makes a difference at some point of its exercise."""
    right = run_right(changed.exercise)
    return not all(
        passes_agree(changed.runs(stage), runs) for stage, runs in right._asdict().items() if runs
    )


def test_every_mistake_of_an_op_a_layer_an_optimiser_sampling_or_between_ranks_is_planted():
    rooms = ("ops/", "layers/", "optim/")
    ours = {m.name for m in MUTANTS.values() if m.file.startswith(rooms)}
    ours |= {
        changed.about.name
        for exercise in every_exercise()
        for changed in catalogue_of(exercise)
        if changed.about.file.startswith(
            ("distributed/", "ranks/", "models/sampling", "models/speculative")
        )
        and differs(changed)
    }
    tried = {answer.label for answer in PLANTED}
    others = set().union(*NOT_PLANTED.values())
    assert tried | others == ours
    assert not tried & others


@pytest.mark.parametrize("name", [m.name for m in MUTANTS.values() if m.forms or m.elsewhere])
def test_every_form_of_a_mistake_can_be_planted(name):
    forms = list(MUTANTS[name].in_all_forms())
    assert forms[0] == MUTANTS[name] and len(forms) > 1
    for form in forms:
        with planted(form):
            pass


def test_the_table_counts_what_is_named_first_and_says_what_the_others_are_called():
    named = [("a", ["a"], False), ("a", ["b", "a"], False), ("b", [], False), ("b", [], True)]
    keys = "label", "mistakes", "right"
    found = [{"group": "g"} | dict(zip(keys, each, strict=True)) for each in named]
    assert page.planted({"planted": found}).splitlines()[2:] == [
        "| g | 2 | 4 | 1 | `a`: called `b`; `b`: wrong, without a name; `b`: called right |"
    ]

"""What a reader may write and have examined: one file a chapter, and one of what is told of it."""

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from transformer_practice.engine.exercise import Exercise

# In the order of the book. The file of each, named without the number, has a list EXERCISES, in the
# order in which to write them. Beside it stands, in TOML, what is told of each, with its hints.
CHAPTERS = (
    "010_transformer",
    "110_gradient_check",
    "120_linear",
    "130_softmax",
    "140_cross_entropy",
    "150_layer_norm",
    "160_feed_forward",
    "170_when_checks_lie",
    "210_attention",
    "215_masks",
    "220_multi_head_attention",
    "230_embedding",
    "240_optimizers",
    "250_schedules",
    "260_steepest_descent",
    "270_residual",
    "280_signal_propagation",
    "285_width",
    "290_dropout",
    "310_train_encoder",
    "320_museum",
    "330_encoder_decoder",
    "335_train_encoder_decoder",
    "340_bert",
    "350_train_bert",
    "360_plateau",
    "410_cost",
    "420_speed",
    "450_many_machines",
    "460_one_layer",
    "465_gpt_over_ranks",
    "470_internet_scale",
    "480_local_steps",
    "510_rms_norm",
    "520_rotary",
    "530_gated_feed_forward",
    "540_grouped_queries",
    "550_byte_pairs",
    "560_gpt",
    "565_gpt_optimizer",
    "570_sampling",
    "575_speculative",
    "580_tiled_attention",
    "590_few_bits",
    "595_shipped",
    "610_weights",
    "620_fine_tuning",
    "630_search",
    "910_taylor",
    "920_jacobians",
    "930_eigenvalues",
    "940_expectation",
)


@cache
def every_exercise() -> tuple[Exercise, ...]:
    """Return the exercises in the order of the book."""
    exercises = []
    for chapter in CHAPTERS:
        _, _, file = chapter.partition("_")
        told = tomllib.loads(Path(__file__).with_name(f"{file}.toml").read_text(encoding="utf-8"))
        for exercise in import_module(f"{__name__}.{file}").EXERCISES:
            words = {about: tuple(texts) for about, texts in told.pop(exercise.name).items()}
            exercises.append(replace(exercise, chapter=chapter, **words))
        if told:
            raise ValueError(f"{file}.toml: expected exercises of {file}.py, got {set(told)}")
    return tuple(exercises)


@cache
def exercises_in(path: Path) -> tuple[Exercise, ...]:
    """Return the exercises of another course: the list ``EXERCISES`` of a file of Python.

    Raises
    ------
    ValueError
        If the file has no such list.
    """
    name = f"course_{path.stem}"
    spec = spec_from_file_location(name, path)
    if not path.is_file() or not spec or not spec.loader:
        raise ValueError(f"{path}: expected a file of Python with a list EXERCISES, found none")
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    exercises = getattr(module, "EXERCISES", None)
    if not isinstance(exercises, list | tuple) or not exercises:
        raise ValueError(f"{path}: expected a list EXERCISES, got {exercises!r}")
    for each in exercises:
        if not isinstance(each, Exercise):
            raise ValueError(f"{path}: expected an Exercise in EXERCISES, got {each!r}")
    return tuple(exercises)


def find_exercise(name: str, exercises: Sequence[Exercise] = ()) -> Exercise:
    """Return the exercise of a name, of this book unless others are given.

    Raises
    ------
    ValueError
        If there is none.
    """
    known = {exercise.name: exercise for exercise in exercises or every_exercise()}
    if name not in known:
        near = get_close_matches(name, known)
        asked = f": did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(
            f"name: expected one of the exercises, such as {next(iter(known))}, got {name!r}{asked}"
        )
    return known[name]

"""Mistakes of the catalogue, one or two, and small changes of the package that come to the same."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

import numpy as np

from transformer_practice.engine.explain.stage import FEW, Explanation, Stage, listed
from transformer_practice.engine.mutation import Mutation
from transformer_practice.engine.pages import title_of
from transformer_practice.engine.planting import planted
from transformer_practice.engine.runs import (
    LEFT,
    Changed,
    Run,
    both_of,
    catalogue_of,
    close,
    floors_of,
    mutations,
    passes_agree,
    run_package,
    run_right,
    runs_agree,
)
from transformer_practice.mistakes import Mutant

MUSEUM = {  # what is shown in training there
    "layer-norm-scale-term-alone",
    "layer-norm-gamma-outside",
    "softmax-no-coupling",
    "residual-skip-lost",
    "linear-last-sequence-alone",
    "linear-batch-and-time-scrambled",
    "attention-input-without-projections",
    "optimizer-default-for-missing-gradients",
    "embedding-repeats-lost",
    "heads-joined-by-reshape",
    "decoder-target-not-shifted",
    "adam-no-bias-correction",
}


class Sought:
    """What the reader's pass, or one output of it, comes to where it is wrong."""

    def __init__(self, stage: Stage, only: set[str] | None = None):
        self.stage, self.only = stage, only
        self.floors = floors_of(stage.own[0], stage.right[0], only=only)
        self.wrong = [i for i, run in enumerate(stage.right) if not self.agrees(run, i)]

    def agrees(self, run: Run, i: int) -> bool:
        return runs_agree(run, self.stage.own[i], self.only, self.floors)

    def comes_of(self, changed: Changed) -> bool:
        """Tell whether the package with a change in it comes to the same.

        At every point: those first at which the reader's is wrong. A change of the forward pass is
        none of the backward pass's, if the reader's own forward pass is right.
        """
        stage, wrong = self.stage, self.wrong
        if isinstance(changed.about, Mutation):  # where the reader's fails, there is another reason
            runs = [i for i, run in enumerate(stage.own) if not run.failure]
            wrong = [i for i in wrong if i in runs]
            if not wrong or not all(
                self.agrees(changed.at(i, stage.name, stage.after), i) for i in [*wrong, *runs]
            ):
                return False
        elif not all(self.agrees(changed.at(i, stage.name, stage.after), i) for i in wrong):
            return False
        elif not passes_agree(changed.runs(stage.name, stage.after), stage.own, self.only):
            return False
        if stage.after:
            right = run_right(changed.exercise)
            return passes_agree(changed.runs("forward"), right.forward)
        return True


def known_mistakes(stage: Stage, only: set[str] | None = None) -> dict[str, Mutant]:
    """Return the mistakes that come to what the pass, or some output of it, comes to."""
    found: dict[str, Mutant] = {}
    sought = Sought(stage, only)
    for changed in catalogue_of(stage.exercise):
        if changed.about.name not in found and sought.comes_of(changed):
            found[changed.about.name] = changed.about
    return found


def by_catalogue(stage):
    """Find the mistakes that come to what the whole pass comes to, at every point."""
    found = known_mistakes(stage)
    return named(stage, stage.wrong, found) if found else None


def both_passes_with(stage: Stage) -> Iterator[list[Run]]:
    """Yield what the backward pass comes to with the mistakes of a forward pass in both passes."""
    for mistake in known_mistakes(stage).values():
        with planted(mistake):
            yield run_package(stage.exercise).backward


def by_draws(stage):
    """Find a mistake that draws anew: what it comes to has other entries that are 0."""
    own, right = stage.own[0].outputs, stage.right[0].outputs
    if own.keys() != right.keys() or not all(drops_otherwise(own[n], right[n]) for n in own):
        return None
    found = {
        changed.about.name: changed.about
        for changed in catalogue_of(stage.exercise)
        if "default_rng" in "".join(changed.about.edits.values())
        and not passes_agree(changed.runs(stage.name, stage.after), stage.right)
        and all(map(redrawn, stage.own, stage.right, changed.runs(stage.name, stage.after)))
    }
    return named(stage, stage.wrong, found) if found else None


def drops_otherwise(own, right):
    """Tell whether some entries are 0 in one array alone, some in the other, and not all."""
    if own.shape != right.shape:
        return False
    kept, meant = own != 0, right != 0
    return (kept & meant).any() and (kept > meant).any() and (kept < meant).any()


def redrawn(*runs):
    """Tell whether of some runs every two agree where no output is 0."""
    if any(run.failure or run.outputs.keys() != runs[0].outputs.keys() for run in runs):
        return False
    return all(
        one[name].shape == other[name].shape
        and close(*(a[name][(one[name] != 0) & (other[name] != 0)] for a in (one, other)))
        for one, other in combinations([run.outputs for run in runs], 2)
        for name in one
    )


def by_catalogue_apart(stage):
    """Explain outputs one by one: each by a mistake that comes to the same in this output."""
    rest = []
    groups: dict[tuple, tuple] = {}
    for name in stage.wrong:
        found = {known: mistake for known, mistake in known_mistakes(stage, {name}).items() if name}
        if found:
            outputs, _ = groups.get(tuple(found), ((), {}))
            groups[tuple(found)] = (*outputs, name), found
        else:
            rest.append(name)
    if len(stage.wrong) > FEW:  # what explains some alone is no cause of all
        few = [key for key, (names, _) in groups.items() if 2 * len(names) < len(stage.wrong)]
        rest += [name for key in few for name in groups.pop(key)[0]]
    return [named(stage, names, found) for names, found in groups.values()], rest


def named(stage: Stage, outputs: Sequence[str], mistakes: dict[str, Mutant]) -> Explanation:
    what = "It matches"
    changed = [name.removesuffix(LEFT) for name in outputs if name.endswith(LEFT)]
    outputs = [name for name in outputs if name and not name.endswith(LEFT)]
    if outputs:
        what = f"{listed(outputs, FEW)} {'matches' if len(outputs) == 1 else 'match'}"
    elif changed:
        what = f"The change of {listed(changed)} matches"
    if len(mistakes) == 1:
        ((name, mistake),) = mistakes.items()
        text = f'{what} the mistake "{name}", to rounding:'
        if changed and not outputs:
            text = f'Changing {listed(changed)} is the mistake "{name}":'
        text += f"\n{mistake.mistake}."
    else:
        text = f"{what} {len(mistakes)} mistakes that give the same numbers here:\n"
        text += "\n".join(f'"{name}": {m.mistake}' for name, m in mistakes.items())
    if mistakes.keys() & MUSEUM:
        text += f"\nWhat it does to training: {title_of('320_museum')}."
    if not_finite_alone(stage, outputs):
        text += "\nAny other mistake that is not finite there looks the same."
    return Explanation(text, tuple(mistakes))


def not_finite_alone(stage, outputs):
    """Tell whether outputs are wrong where they are infinite or NaN, and nowhere else."""
    wrong = False
    for name in outputs:
        for own, right in zip(stage.own, stage.right, strict=True):
            if name in own.outputs and not runs_agree(own, right, {name}):
                mine, meant = own.outputs[name], right.outputs[name]
                finite = np.isfinite(mine)
                if mine.shape != meant.shape or not close(mine[finite], meant[finite]):
                    return False
                wrong = True
    return wrong


def by_pairs(stage):
    """Find two mistakes that come to it together."""
    if any(run.failure for run in stage.own):
        return None
    wrong = (i for i, run in enumerate(stage.right) if not runs_agree(run, stage.own[i]))
    first = next(wrong, None)
    if first is None:  # it changes its arguments
        return None
    right = stage.right[first]
    single, changes = {}, {}
    for changed in catalogue_of(stage.exercise):
        run = changed.at(first, stage.name, stage.after)
        if not run.failure:
            single[changed.about.name] = changed.about
            changes[changed.about.name] = touched(run, right)
    wrong = touched(stage.own[first], right)
    sought = Sought(stage)
    for names in combinations(single, 2):
        touches = [changes[name] for name in names]
        if not all(touches) or touches[0] | touches[1] != wrong:
            continue
        pair = [single[name] for name in names]
        try:
            same = sought.comes_of(both_of(stage.exercise, *pair))
        except ValueError:  # they change the same line
            continue
        if same:
            text = "These two mistakes together give exactly your numbers:\n" + "\n".join(
                f'"{m.name}": {m.mistake}' for m in pair
            )
            return Explanation(text, tuple(m.name for m in pair))
    return None


def written_in(function):
    """Say where a function stands that the reader knows."""
    if function.__module__.startswith("transformer_core"):
        return f"the package's {function.__qualname__}"
    if function.__module__.startswith("transformer_practice"):
        return "the lines of the page"
    return f"the reference's {function.__qualname__}"


def touched(run, right):
    """Return the names of the outputs that are others than the right ones."""
    return {name for name in right.outputs if not runs_agree(run, right, {name})}


def by_mutation(stage: Stage, names: Iterable[str]) -> dict[str, str]:
    """Find small changes of the package that come to what some outputs come to.

    Returns a sentence for each output that is explained, without the name of the output.
    """
    rest = {name: Sought(stage, {name}) for name in names if name and not name.endswith(LEFT)}
    found: dict[str, str] = {}
    for changed in mutations(stage.exercise, stage.name):
        if not rest:
            break
        for name in [name for name, sought in rest.items() if sought.comes_of(changed)]:
            about = changed.about
            where = written_in(about.function)
            found[name] = f"is what you would get if, in {where}, {about.said}."
            del rest[name]
    return found

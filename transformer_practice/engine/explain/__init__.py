"""Why an answer is wrong: mistakes of the catalogue first, then what needs no catalogue."""

from collections.abc import Callable

from transformer_practice.engine.explain.arguments import Probes, by_cache
from transformer_practice.engine.explain.catalogue import (
    MUSEUM,
    both_passes_with,
    by_catalogue,
    by_catalogue_apart,
    by_draws,
    by_mutation,
    by_pairs,
)
from transformer_practice.engine.explain.chain import by_values
from transformer_practice.engine.explain.coefficients import by_coefficients
from transformer_practice.engine.explain.layers import by_layers
from transformer_practice.engine.explain.outputs import ONLY_HERE, Output, by_ratio, by_sign
from transformer_practice.engine.explain.own import asked_at, by_own_changes
from transformer_practice.engine.explain.pairs import by_two_changes
from transformer_practice.engine.explain.stage import FEW, Explanation, Stage, listed

__all__ = [
    "MUSEUM",
    "ONLY_HERE",
    "Explanation",
    "Stage",
    "asked_at",
    "both_passes_with",
    "by_numbers",
    "by_values",
    "explain",
    "listed",
]


def explain(stage: Stage) -> tuple[Explanation, ...]:
    """Explain a pass that is wrong.

    Parameters
    ----------
    stage : Stage

    Returns
    -------
    tuple of Explanation
        Empty if nothing is known that explains it.
    """
    known = by_catalogue(stage) or by_draws(stage) or by_layers(stage) or by_pairs(stage)
    if known:
        return (known,)
    single, rest = by_catalogue_apart(stage)
    searches: tuple[Callable, ...] = (by_cache, by_coefficients, by_two_changes)
    probes = Probes(stage)
    outputs = [Output(probes, name) for name in rest]
    found = {output.name: output.explained() for output in outputs}
    for output in outputs:
        if found[output.name].endswith((" too small.", " too large.")):
            _, _, how = output.first_of(by_coefficients).partition(" would get if, ")
            found[output.name] += f" You would get that, for instance, if, {how}" * bool(how)
    whole, apart = by_own_changes(stage, rest)
    if whole:
        single, searches = [*single, whole], ()
    for name, said in apart.items():
        found[name] = f"{found[name]} It {said}" if found[name] else f"{name} {said}"
    open_ = [output for output in outputs if not found[output.name] and not whole]
    telling = [each for each in open_ if each.is_of_truths or not each.is_of_small_numbers]
    misshapen = [output for output in outputs if output.has_another_shape]
    changes = by_mutation(stage, [output.name for output in (*telling, *misshapen)])
    found |= changes | {
        output.name: f"{output.form} It {changes[output.name]}"
        for output in misshapen
        if output.name in changes
    }
    for output in open_:
        if output.name not in changes:
            text = output.first_of(*searches)
            if not text and not output.few:  # one mistake is the cause of all
                searches = ()
            found[output.name] = text or output.described()
    groups: dict[str, list[str]] = {}
    for name, text in found.items():
        if text:
            groups.setdefault(text.removeprefix(f"{name} "), []).append(name)
    if len(rest) > FEW:  # what is said of some alone is no cause of all
        groups = {text: names for text, names in groups.items() if 2 * len(names) >= len(rest)}
    each = [
        Explanation(f"{listed(names, FEW)}{': each' * (len(names) > 1)} {text}")
        for text, names in groups.items()
    ]
    return (*single, *each)


def by_numbers(stage: Stage) -> tuple[Explanation, ...]:
    """Explain outputs by their signs and sizes alone, beside numbers that are not the package's."""
    probes = Probes(stage)
    outputs = (Output(probes, name) for name in stage.wrong if name)
    said = (output.first_of(by_sign, by_ratio) for output in outputs)
    return tuple(Explanation(text) for text in said if text)

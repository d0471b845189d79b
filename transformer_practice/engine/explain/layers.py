"""Layers of a stack whose outputs stand under each other's names."""

import re

from transformer_practice.engine.explain.stage import Explanation, Stage, listed
from transformer_practice.engine.runs import close

LAYER = re.compile(r"(?<=layer_)\d+")


def by_layers(stage: Stage) -> Explanation | None:
    """Find layers that have changed places: all that is wrong belongs to another layer."""
    for own, right in zip(stage.own, stage.right, strict=True):
        if own.failure or own.outputs.keys() != right.outputs.keys():
            return None
        wrong = [n for n, a in right.outputs.items() if not close(own.outputs[n], a)]
        if wrong:
            break
    layers = {n for name in wrong for n in LAYER.findall(name)}
    places: dict[str, set] = {}  # to whom the outputs of a layer may belong
    for name in wrong:
        here = LAYER.search(name)
        if not here:
            return None
        others = {there: right.outputs.get(LAYER.sub(there, name)) for there in layers}
        found = {n for n, a in others.items() if a is not None and close(own.outputs[name], a)}
        places[here[0]] = places.get(here[0], found) & found
    if not places or not all(places.values()):
        return None
    said = (f"layer_{here} has those of layer_{min(there)}" for here, there in places.items())
    return Explanation(f"The outputs of layers are swapped: {listed(said)}.")

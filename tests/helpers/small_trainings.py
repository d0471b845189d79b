"""The command line with trainings that take no time, for the ranks of a test."""

import json
import sys
from dataclasses import asdict, replace

import pytest

from transformer_core.__main__ import main
from transformer_core.layers import AttentionSpec
from transformer_core.tasks.bert import recipe as bert
from transformer_core.tasks.bert.mini_bert import SPEC
from transformer_core.tasks.dates import recipe as dates
from transformer_core.tasks.gpt import recipe as gpt
from transformer_core.tasks.reconstruction import recipe as encoder
from transformer_core.tasks.search import recipe as search

STEPS = "12"
OPTIONS = {"encoder": ["--epochs", STEPS]}
OPTIONS |= {name: ["--steps", STEPS] for name in ("dates", "bert", "gpt", "search")}
TEXT = "bert", "gpt", "search"  # what reads a text


def shrink(patch):
    """Make the trainings small; with dropout."""
    spec = replace(SPEC, width=32, hidden_width=64, attention=AttentionSpec(2), dropout=0.1)
    small = {"spec": asdict(spec), "checkpoint_every": 5, "batch": 8}
    for recipe in (encoder, dates, bert, gpt, search):
        for name, value in small.items():
            patch.setitem(recipe.DEFAULTS, name, value)
    heads = replace(gpt.SPEC.attention, heads=4)
    spec = replace(gpt.SPEC, width=32, hidden_width=48, attention=heads, dropout=0.1)
    patch.setitem(gpt.DEFAULTS, "spec", asdict(spec))
    for recipe, vocabulary in ((bert, 60), (gpt, 300), (search, 90)):
        for name, value in {"length": 16, "layers": 1, "vocabulary": vocabulary}.items():
            patch.setitem(recipe.DEFAULTS, name, value)
    patch.setitem(search.DEFAULTS, "positions", 16)
    patch.setattr(dates, "UNSEEN", 10)


def cut(name):
    """Return what takes the last bytes of a file in a folder away."""

    def damage(folder):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-7])

    return damage


def edit(name, value):
    """Return what changes one of the settings of a run."""

    def damage(folder):
        settings = json.loads((folder / "settings.json").read_text())
        (folder / "settings.json").write_text(json.dumps(settings | {name: value}))

    return damage


if __name__ == "__main__":
    shrink(pytest.MonkeyPatch())
    sys.exit(main(sys.argv[1:]))

"""Malformed options of the command line: one line says what is wrong, and nothing is trained."""

import io
import math
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from shutil import rmtree
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.__main__ import main
from transformer_core.training import Run
from transformer_practice.__main__ import main as practice

NUMBERS = "text nan inf -inf -1 0 -0.0 1 1.5 1e400 1e-400 0x10 1,5 ½ -- -h".split()
NUMBERS += ["", "\0", "9" * 30, "-" + "9" * 30, "9" * 5000]
WORDS = ["", " ", "nonsense", "-", "\0", "ops", "\n", "*", "../linear", "é" * 300]
PATHS = ["", "\0", "{here}/file", "{here}/file/none", "{here}/" + "x" * 300]
NEW = ["{here}/none", "{here}/none/none", "{here}/\n"]
RATE = "--learning-rate={}"


class Begun(BaseException):
    """What would come now takes long: the options are taken."""


class Line(NamedTuple):
    """A command line with a place for what is malformed, and the test whether it will do."""

    arguments: list[str]
    values: st.SearchStrategy
    fine: Callable[[str], bool]


def number(line, fine, read=int):
    """A line with a number; ``fine`` tells whether it will do."""

    def is_fine(value):
        try:
            return fine(read(value))
        except ValueError:
            return False

    return Line(line.split(), st.sampled_from(NUMBERS) | st.text(max_size=6), is_fine)


def word(line):
    """A line with a name that there is not."""
    texts = st.text(max_size=6).filter(lambda name: not name.startswith("-"))
    return Line(line.split(), st.sampled_from(WORDS) | texts, lambda name: False)


def path(line, fine=()):
    """A line with a path, of which some will do."""
    paths = st.sampled_from([*PATHS, *NEW, "{here}"])
    return Line(line.split(" "), paths, fine.__contains__)


def positive(value):
    return 0 < value < math.inf


def size(value):
    return 0 < value < 2**31


def not_negative(value):
    return value >= 0


ENCODER, DATES, BERT, GPT, SEARCH = (
    f"train {m} --out {{here}}/new" for m in ("encoder", "dates", "bert", "gpt", "search")
)
WRITE = "write {here}/none Return"
LINES = {
    "command": word("{}"),
    "train": word("train {}"),
    "train encoder": path("train encoder --out={}", NEW),
    "train encoder --resume": path("train encoder --resume --out={}"),
    "train encoder --placement": word(ENCODER + " --placement={}"),
    "train encoder --epochs": number(ENCODER + " --epochs={}", size),
    "train encoder --learning-rate": number(f"{ENCODER} {RATE}", positive, float),
    "train encoder --seed": number(ENCODER + " --seed={}", not_negative),
    "train dates --learning-rate": number(f"{DATES} {RATE}", positive, float),
    "train dates --seed": number(DATES + " --seed={}", not_negative),
    "train dates --steps": number(DATES + " --steps={}", size),
    "train bert --learning-rate": number(f"{BERT} {RATE}", positive, float),
    "train bert --minutes": number(BERT + " --minutes={}", lambda v: positive(60 * v), float),
    "train bert --seed": number(BERT + " --seed={}", not_negative),
    "train bert --steps": number(BERT + " --steps={}", size),
    "train bert --text": path(BERT + " --text={}"),
    "train gpt --optimizer": word(GPT + " --optimizer={}"),
    "train gpt --pairs": number(GPT + " --text={here}/none --pairs={}", lambda value: False),
    "train gpt --text": path(GPT + " --text={}"),
    "train search --base": path(SEARCH + " --base={}"),
    "train search --text": path(SEARCH + " --text={}"),
    "read": path("read {} May"),
    "write": path("write {} Return"),
    **{
        f"write --{name}": number(f"{WRITE} --{name}={{}}", lambda value: False)
        for name in ("temperature", "top-k", "top-p", "min-p", "penalty", "tokens", "seed")
    },
    "fill": path("fill {} [MASK]"),
    "fill --top": number("fill {here}/none [MASK] --top={}", lambda value: False),
    "search": path("search {} stack"),
    "search --top": number("search {here}/none stack --top={}", lambda value: False),
    "practice": word("practice {}"),
    "practice start": Line(
        ["practice", "start", "{}"], st.sampled_from(PATHS), lambda value: False
    ),
    "practice check": path("practice check {}"),
    "practice check NAME": word("practice check {here}/mine {}"),
    "practice hint": path("practice hint {} linear"),
    "practice hint NAME": word("practice hint {here}/mine {}"),
    "practice ledger": path("practice ledger {}"),
    "practice train": path("practice train {} encoder"),
    "practice train --only": word("practice train {here}/mine encoder --only={}"),
    "practice drill": word("practice drill {}"),
    "practice drill --level": word("practice drill softmax --level={}"),
    "practice museum": path("practice museum {} suspects", NEW),
    "practice survivors": path("practice survivors {} linear"),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a file and a workspace, where nothing begins that takes long."""
    folder = tmp_path_factory.mktemp("malformed")
    (folder / "file").write_text("There is no training here.")
    assert run(["practice", "start", str(folder / "mine")]) == (0, "")

    def begin(*arguments):
        raise Begun

    def begin_in(run, *arguments):
        create(run, *arguments)
        rmtree(run.folder)
        raise Begun

    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "transformer_core.tasks.bert.recipe.documentation",
            "transformer_core.tasks.bert.recipe.train_wordpiece",
            "transformer_core.tasks.dates.recipe.Dates",
            "transformer_core.tasks.gpt.recipe.documentation",
            "transformer_core.tasks.gpt.recipe.train_byte_pairs",
            "transformer_core.tasks.search.recipe.documentation",
            "transformer_practice.cases.museum.Museum.draw",
        ):
            patch.setattr(name, begin)
        patch.chdir(folder)
        create = Run.create
        patch.setattr(Run, "create", begin_in)
        yield folder


def run(arguments):
    """Return the exit status, 0 if a long work would begin, and what is said of an error."""
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        try:
            first, *others = arguments
            status = practice(others) if first == "practice" else main(arguments)
        except SystemExit as end:
            status = end.code
        except Begun:
            status = 0
    return status, said.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
@given(data=st.data())
def test_a_malformed_option_is_one_line(here, name, data):
    line = LINES[name]
    value = data.draw(line.values)
    filled = (part.replace("{}", value) for part in line.arguments)
    status, said = run([part.replace("{here}", str(here)) for part in filled])
    if status == 0:
        assert line.fine(value)
    elif status == 1:  # what the options mean is wrong
        assert re.fullmatch("error: .+\n", said)
    else:  # they cannot be read, and how to use them is said first
        assert status == 2
        assert re.match(r"usage: [^$]*\n.+: error: .+\n", said)
        assert "Traceback" not in said


@pytest.mark.parametrize("name", ["epochs", "learning-rate", "seed"])
def test_the_same_option_well_formed_begins(here, name):
    line = LINES[f"train encoder --{name}"]
    parts = (part.replace("{}", "1") for part in line.arguments)
    assert run([part.replace("{here}", str(here)) for part in parts]) == (0, "")

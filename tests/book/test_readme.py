"""The README's examples do what they say."""

import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser

import pytest
from helpers.texts import ROOT, read

from transformer_core.__main__ import main

README = read(ROOT / "README.md")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
COMMANDS = [
    line.removeprefix("$ ")
    for language, block in BLOCKS
    for line in block.splitlines()
    if language in ("sh", "bat") or line.startswith("$ ")
]
OURS = re.compile(r".*\btransformer[_-]core (?!\.)(.*)")


def test_the_python_example_prints_what_it_says():
    (place,) = [i for i, (language, _) in enumerate(BLOCKS) if language == "python"]
    code, said = BLOCKS[place][1], BLOCKS[place + 1][1]
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    number = r"\d+e-\d+"
    assert re.split(number, run.stdout) == re.split(number, said), run.stderr
    # Of an error that rounding makes, the power of ten is promised.
    for printed, promised in zip(
        re.findall(number, run.stdout), re.findall(number, said), strict=True
    ):
        assert 0.1 < float(printed) / float(promised) < 10


class Understood(Exception):
    pass


@pytest.mark.parametrize(
    "arguments", [found[1] for found in map(OURS.fullmatch, COMMANDS) if found]
)
def test_the_commands_of_the_package_are_understood(monkeypatch, arguments):
    parse = ArgumentParser.parse_args

    def parse_and_stop(parser, given):
        parse(parser, given)
        raise Understood

    monkeypatch.setattr(ArgumentParser, "parse_args", parse_and_stop)
    with pytest.raises(Understood):
        main(shlex.split(arguments))


def test_make_knows_what_it_is_told():
    targets = re.findall(r"^([\w-]+):.*##", read(ROOT / "Makefile"), re.MULTILINE)
    named = re.findall(r"\bmake ([a-z][\w-]*)", "\n".join([README, *COMMANDS]))
    assert {"book", "test"} <= set(named) <= {*targets, "help"}


def test_every_file_that_a_command_reads_exists():
    read_there = re.findall(
        r"(?:--requirement |--ignore=|pytest |--nbval-current-env |book build )([\w./]+)",
        "\n".join(line.replace("\\", "/") for line in COMMANDS),
    )
    assert len(read_there) >= 5
    assert [path for path in read_there if not (ROOT / path).exists()] == []

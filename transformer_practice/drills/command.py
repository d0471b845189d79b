"""``practice drill``: a task for a pencil, asked step by step."""

import random
import sys
import textwrap

import numpy as np

from transformer_practice.drills import DRILLS, draw
from transformer_practice.drills.drill import LEVELS
from transformer_practice.drills.exact import form, numbers, parse, show


def add_parser(subcommands):
    parser = subcommands.add_parser(
        "drill",
        help="solve a task with pencil and paper",
        description=(
            "Ask a task in whole numbers step by step, and name the first wrong step with the rule "
            "that it breaks. Without a NAME, list the names. Answers are numbers such as 3, -2/7 "
            "or 0.5, rows such as 1, 2, 3, and matrices such as 1, 2; 3, 4. An empty line gives "
            "the answer away. The exit status is 1 if a step was wrong or left open."
        ),
    )
    parser.add_argument("name", metavar="NAME", nargs="?", choices=DRILLS)
    parser.add_argument(
        "--seed", type=int, help="the same seed gives the same task (default: a new one)"
    )
    parser.add_argument(
        "--level",
        choices=LEVELS,
        help="show every step, every second one, or none (default: one task of each)",
    )
    parser.set_defaults(run=run)


def run(options):
    if options.name is None:
        for name in DRILLS:
            task = draw(name, 0)
            print(f"{name:21} {task.chapter:25} {task.title}")
        return 0
    seed = random.randrange(10_000) if options.seed is None else options.seed
    levels = LEVELS if options.level is None else [options.level]
    return max([session(options.name, seed + n, level) for n, level in enumerate(levels)])


def session(name, seed, level):
    """Ask one task; return 1 if a step was wrong or left, else 0."""
    task = draw(name, seed)
    print(f"{task.title}: {level}, seed {seed}, chapter {task.chapter}\n")
    print(textwrap.fill(task.question, 88), end="\n\n")
    for symbol, value in task.given.items():
        print(f"  {symbol} ={laid_out(value)}")
    to_fill, missed = task.to_fill(level), []
    for n, step in enumerate(task.steps):
        print(f"\n{n + 1}. {step.prompt}")
        if n not in to_fill:
            show_answer(step)
        elif not ask(step):
            missed.append(n + 1)
    if to_fill:
        print(f"\nFirst wrong step: {missed[0]}." if missed else "\nEvery step is right.")
    print()
    return int(bool(missed))


def ask(step):
    """Ask a step until it is right or given up; return whether it was right at once."""
    if sys.stdin is None:
        raise ValueError("standard input: expected an open one, got a closed one")
    at_once = True
    while True:
        print(f"   {form(step.answer)}: ", end="", flush=True)
        line = sys.stdin.readline().strip()
        if not sys.stdin.isatty():
            print(line)  # as a terminal shows what is typed
        if not line:
            show_answer(step)
            return False
        try:
            verdict = step.verdict(parse(line, step.answer))
        except ValueError as error:
            tell(str(error))
            continue
        if not verdict:
            tell("Right.")
            return at_once
        tell(f"Wrong. {verdict} Try again, or press Enter to see the answer.")
        at_once = False


def tell(text):
    print(textwrap.indent(textwrap.fill(text, 85), "   "))


def show_answer(step):
    print(f"   ={laid_out(step.answer)}")
    tell(step.rule)


def laid_out(value):
    """What follows an equals sign: a number, a row in brackets, or the rows of a matrix."""
    if np.ndim(value) == 0:
        return f" {show(value)}"
    if np.ndim(value) == 1:
        return f" ({show(value)})"
    width = max(len(show(entry)) for entry in numbers(value))
    rows = ("  ".join(f"{show(entry):>{width}}" for entry in row) for row in value)
    return "".join(f"\n      {row}" for row in rows)

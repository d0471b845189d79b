"""A task for a pencil: numbers, and steps whose answers are exact."""

from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

import numpy as np

from transformer_practice.drills.exact import Value, exact, is_equal, numbers

LEVELS = ("worked", "complete", "free")
LARGEST = 9999  # numerator of any number of a drill
FINEST = 256  # denominator


@dataclass(frozen=True)
class Step:
    """One line of the answer.

    Attributes
    ----------
    prompt : str
        What is asked for, without how to get it.
    answer : Fraction or ndarray
    rule : str
        How to get it, in one sentence.
    slips : dict of str to (Fraction or ndarray)
        What somebody gets who breaks the rule, by the sentence that says how.
    """

    prompt: str
    answer: Value
    rule: str
    slips: dict[str, Value] = field(default_factory=dict)

    def __post_init__(self):
        object.__setattr__(self, "answer", exact(self.answer))
        slips = {mistake: exact(value) for mistake, value in self.slips.items()}
        object.__setattr__(self, "slips", slips)

    def verdict(self, value: Value) -> str:
        """Say what is wrong with a value, and the rule that it breaks; "" if it is right."""
        if is_equal(value, self.answer):
            return ""
        for mistake, slip in self.slips.items():
            if is_equal(value, slip):
                return f"{mistake} {self.rule}"
        return f"{difference(value, self.answer)} {self.rule}"


def difference(value: Value, answer: Value) -> str:
    """Say in what a wrong value of the right shape differs from the answer."""
    pairs = list(zip(numbers(value), numbers(answer), strict=True))
    if any(all(is_rounded(a, b, digits) for a, b in pairs) for digits in (1, 2, 3, 4)):
        return "This is rounded; the answer is a fraction."
    ratios = {a / b for a, b in pairs if b} | {Fraction(0) for a, b in pairs if a and not b}
    ratio = ratios.pop() if len(ratios) == 1 else Fraction(0)
    if ratio == -1:
        return "The sign is reversed."
    if ratio and len(pairs) > 1:
        return f"This is {ratio} times the right answer."
    if np.ndim(answer) == 0:
        return "This is not the right number."
    place = next(n for n, (a, b) in enumerate(pairs) if a != b)
    if np.ndim(answer) == 1:
        return f"Entry {place + 1} of {len(answer)} is wrong."
    row, entry = divmod(place, len(answer[0]))
    return f"Row {row + 1} of {len(answer)} is wrong, in entry {entry + 1} of {len(answer[0])}."


def is_rounded(value, answer, digits):
    unit = Fraction(1, 10**digits)
    return (value / unit).denominator == 1 and abs(value - answer) < unit


@dataclass(frozen=True)
class Drill:
    """A task.

    Attributes
    ----------
    title : str
    chapter : str
        The page that it belongs to, such as ``150_layer_norm``.
    question : str
    given : dict of str to (Fraction or ndarray)
        The numbers that it starts from, by their symbols.
    steps : tuple of Step
        Each needs only the given numbers and the steps before it.
    """

    title: str
    chapter: str
    question: str
    given: dict[str, Value]
    steps: tuple[Step, ...]

    def __post_init__(self):
        given = {symbol: exact(value) for symbol, value in self.given.items()}
        object.__setattr__(self, "given", given)

    def is_fair(self) -> bool:
        """Whether all numbers are small, and every slip shows and is unlike the others."""
        values = [*self.given.values(), *(step.answer for step in self.steps)]
        small = all(
            abs(n.numerator) <= LARGEST and n.denominator <= FINEST
            for value in values
            for n in numbers(value)
        )
        return small and all(
            not is_equal(one, other)
            for step in self.steps
            for one, other in combinations([step.answer, *step.slips.values()], 2)
        )

    def to_fill(self, level: str) -> tuple[int, ...]:
        """The steps that a level leaves open: none, every second one with the last, or all."""
        count = len(self.steps)
        return {
            "worked": (),
            "complete": tuple(n for n in range(count) if (count - n) % 2),
            "free": tuple(range(count)),
        }[level]
